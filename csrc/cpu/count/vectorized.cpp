#include "cpu/count/vectorized.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cpu/read_once.h"
#include "cpu/run_widest.h"
#include "cpu/tuning.h"

namespace histo::cpu {

template <class Counter>
void reduce_joint(const Counter* joint, uint32_t* counts) {
  run_widest([=]() __attribute__((always_inline)) {
    uint32_t firsts[256] = {};
    for (int second = 0; second < 256; ++second) {
      uint32_t sum = 0;
      for (int first = 0; first < 256; ++first) {
        const Counter count = joint[256 * second + first];
        firsts[first] += count;
        sum += count;
      }
      counts[second] = sum;
    }
    for (int first = 0; first < 256; ++first) {
      counts[first] += firsts[first];
    }
  });
}

namespace {

constexpr int kPairs = kPairBlock / 2;

/// The indices of a block.
[[gnu::always_inline]] inline void make_pairs(const uint8_t* data, uint16_t* indices) {
  const uint16_t zero = read_once(uint16_t{0});
  for (int i = 0; i < kPairs; ++i) {
    uint16_t both;
    std::memcpy(&both, data + 2 * i, sizeof both);
    const auto first = static_cast<uint16_t>(both & 0xff),
               second = static_cast<uint16_t>(both >> 8);
    const auto up = static_cast<uint16_t>((second - first) & 0xff);
    // It is not first - second, as both may be loaded again. The smaller difference is at most 128.
    const auto down = static_cast<uint16_t>((zero - up) & 0xff);
    const uint16_t byte = up <= down ? first : second;
    indices[i] = static_cast<uint16_t>(std::min(up, down) << 8 | byte);
  }
}

} // namespace

int64_t count_pairs(const uint8_t* data, int64_t size, uint32_t* tables) {
  const int64_t blocks = size / kPairBlock;
  if (blocks == 0) {
    return 0;
  }
  run_widest([=]() __attribute__((always_inline)) {
    // Indices are made one block ahead, so that counting does not wait for them.
    alignas(tuning::kLineBytes) uint16_t indices[2][kPairs];
    const uint8_t* next = data;
    make_pairs(next, indices[0]);
    for (int64_t block = 0; block < blocks; ++block) {
      __builtin_prefetch(next + tuning::kValuesAheadBytes);
      next += block + 1 < blocks ? kPairBlock : 0; // or the last is made again
      make_pairs(next, indices[(block + 1) % 2]);
      // Without this they are taken out of vectors, not loaded one by one.
      __asm__ volatile("" ::: "memory");
      const uint16_t* made = indices[block % 2];
#pragma GCC unroll 32
      for (int i = 0; i < kPairs; ++i) {
        ++tables[i % tuning::kTablesOfPairs * kPairTableSize + made[i]];
      }
    }
  });
  return blocks * kPairBlock;
}

void reduce_pairs(const uint32_t* tables, uint32_t* counts) {
  run_widest([=]() __attribute__((always_inline)) {
    uint32_t bytes[256] = {}, others[2 * 256] = {};
    for (int difference = 0; difference <= 128; ++difference) {
      const uint32_t* counters = tables + 256 * difference;
      for (int byte = 0; byte < 256; ++byte) {
        uint32_t count = 0;
        for (int table = 0; table < tuning::kTablesOfPairs; ++table) {
          count += counters[table * kPairTableSize + byte];
        }
        bytes[byte] += count;
        others[difference + byte] += count;
      }
    }
    for (int byte = 0; byte < 256; ++byte) {
      counts[byte] = bytes[byte] + others[byte] + others[byte + 256];
    }
  });
}

uint16_t bound_of(const uint16_t* counters, int64_t size) {
  uint16_t bits = 0;
  run_widest([=, &bits]() __attribute__((always_inline)) {
    uint16_t all = 0;
    for (int64_t i = 0; i < size; ++i) {
      all |= counters[i];
    }
    bits = all;
  });
  return bits;
}

uint32_t sum_of(const uint8_t* counters, int64_t size) {
  uint32_t sum = 0;
  run_widest([=, &sum]() __attribute__((always_inline)) {
    // A sum of differences takes a third of the instructions. The compiler may not know the zero.
    // Workaround gcc-12-unknown-zero: see docs/tuning.md.
    uint8_t zero = 0;
    __asm__("" : "+r"(zero));
    uint32_t all = 0;
    for (int64_t i = 0; i < size; ++i) {
      all += static_cast<uint32_t>(std::abs(counters[i] - zero));
    }
    sum = all;
  });
  return sum;
}

template void reduce_joint(const uint8_t*, uint32_t*);
template void reduce_joint(const uint16_t*, uint32_t*);

} // namespace histo::cpu
