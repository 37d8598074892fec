// Every way of the CPU engine to share work among threads, from two callers at once. Built with
// ThreadSanitizer, a race ends it with an error; so does a wrong count.
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "cpu/kernels.h"

namespace {

using namespace histo;

struct Case {
  const char* name;
  ElementType type;
  int64_t num_bins;
  int64_t largest; // value
  Extent channels[2];
  Extent rows[3];
};

constexpr Extent kNone{1, 0};

const Case kCases[] = {
    {"bytes of one channel",
     ElementType::kUInt8,
     256,
     255,
     {kNone, kNone},
     {kNone, kNone, {900'001, 1}}},
    {"equal bytes", ElementType::kUInt8, 256, 0, {kNone, kNone}, {kNone, kNone, {900'001, 1}}},
    {"columns of bytes",
     ElementType::kUInt8,
     256,
     255,
     {kNone, {100, 1}},
     {kNone, kNone, {9001, 100}}},
    {"columns in two runs",
     ElementType::kUInt8,
     200,
     255,
     {kNone, {40, 1}},
     {kNone, {2, 400'000}, {9001, 40}}},
    {"planes of bytes",
     ElementType::kUInt8,
     256,
     255,
     {kNone, {3, 300'000}},
     {kNone, kNone, {300'000, 1}}},
    {"int32, few bins",
     ElementType::kInt32,
     1000,
     1100,
     {kNone, kNone},
     {kNone, kNone, {600'001, 1}}},
    {"int64 in columns",
     ElementType::kInt64,
     100,
     110,
     {kNone, {40, 1}},
     {kNone, kNone, {9001, 40}}},
    {"uint16, many bins",
     ElementType::kUInt16,
     65'536,
     65'535,
     {kNone, kNone},
     {kNone, kNone, {900'001, 1}}},
    {"int32, many bins",
     ElementType::kInt32,
     60'000,
     70'000,
     {kNone, kNone},
     {kNone, kNone, {900'001, 1}}},
    {"int32, equal, many bins",
     ElementType::kInt32,
     60'000,
     0,
     {kNone, kNone},
     {kNone, kNone, {900'001, 1}}},
    {"copies of the result",
     ElementType::kInt32,
     150'000,
     150'000,
     {kNone, kNone},
     {kNone, kNone, {1'300'000, 1}}},
    {"the same counts",
     ElementType::kInt32,
     1 << 20,
     9,
     {kNone, kNone},
     {kNone, kNone, {600'000, 1}}},
    {"channels of their own",
     ElementType::kInt32,
     300,
     300,
     {kNone, {9000, 90}},
     {kNone, kNone, {90, 1}}},
};

int64_t size_of(ElementType type) {
  return visit_element_type(
      type, [](auto tag) { return static_cast<int64_t>(sizeof(typename decltype(tag)::type)); });
}

std::vector<char> values_of(const Case& c) {
  int64_t last = 0;
  for (const Extent& loop : {c.channels[0], c.channels[1], c.rows[0], c.rows[1], c.rows[2]}) {
    last += (loop.size - 1) * loop.stride;
  }
  const int64_t size = size_of(c.type);
  std::vector<char> values(static_cast<size_t>((last + 1) * size));
  std::mt19937 random(7);
  for (int64_t i = 0; i <= last; ++i) {
    const int64_t value = static_cast<int64_t>(random()) % (c.largest + 1);
    std::memcpy(values.data() + i * size, &value, static_cast<size_t>(size));
  }
  return values;
}

Problem problem_of(const Case& c, const std::vector<char>& values, std::vector<int64_t>& counts) {
  Problem problem{};
  static_cast<View&>(problem) = {
      c.type, values.data(), {c.channels[0], c.channels[1]}, {c.rows[0], c.rows[1], c.rows[2]}};
  problem.num_bins = c.num_bins;
  counts.assign(static_cast<size_t>(problem.num_counts()), -1);
  problem.counts = counts.data();
  return problem;
}

struct Poisoned final : Allocator {
  void* operator()(int64_t bytes) override {
    constexpr uintptr_t kLine = 64;
    memory.emplace_back(static_cast<size_t>(bytes) + kLine, 0x5A);
    const auto begin = reinterpret_cast<uintptr_t>(memory.back().data());
    return reinterpret_cast<void*>((begin + kLine - 1) / kLine * kLine);
  }
  std::deque<std::vector<char>> memory;
};

void count(const Problem& problem) {
  Poisoned memory;
  cpu::count(problem, cpu::pattern_axis(problem.type, ValueBinning{problem.num_bins}), memory);
}

} // namespace

int main() {
  int wrong = 0;
  for (const Case& c : kCases) {
    const std::vector<char> values = values_of(c);
    std::vector<int64_t> expected, counts, others;
    cpu::sequential(problem_of(c, values, expected), ValueBinning{c.num_bins});
    const Problem problem = problem_of(c, values, counts), other = problem_of(c, values, others);
    std::thread caller([&] { count(other); });
    count(problem);
    caller.join();
    const bool right = counts == expected && others == expected;
    std::printf("%s: %s\n", c.name, right ? "right" : "wrong");
    wrong += !right;
  }
  return wrong;
}
