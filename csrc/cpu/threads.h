// Work in the threads of PyTorch.
#pragma once

#include <cstdint>

#include <torch/csrc/stable/ops.h>

namespace histo::cpu {

/// The number of torch's threads. One in a child process after a fork: torch's threads are not
/// there.
int64_t num_threads();

/// The beginning of part `part` of `parts`.
constexpr int64_t cut(int64_t size, int64_t part, int64_t parts) {
  return size / parts * part + size % parts * part / parts;
}

/// From `begin` to before `end`.
struct Range {
  int64_t begin;
  int64_t end;

  Range part(int64_t i, int64_t parts) const {
    return {begin + cut(end - begin, i, parts), begin + cut(end - begin, i + 1, parts)};
  }
};

/// Calls f(begin, end) for parts of [0, size), in threads.
template <class F>
void parallel_for(int64_t size, int64_t grain, const F& f) {
  if (size <= grain || num_threads() == 1) {
    f(int64_t{0}, size);
  } else {
    torch::stable::parallel_for(0, size, grain, f);
  }
}

/// Calls f(worker) in as many threads as there are workers.
template <class F>
void run_workers(int64_t workers, const F& f) {
  parallel_for(workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) {
      f(worker);
    }
  });
}

/// Adds to a number, which wraps. kShared: other threads do, too.
template <bool kShared>
void add_to(int64_t* sum, int64_t number) {
  if constexpr (kShared) {
    __atomic_fetch_add(sum, number, __ATOMIC_RELAXED);
  } else {
    *sum = static_cast<int64_t>(static_cast<uint64_t>(*sum) + static_cast<uint64_t>(number));
  }
}

/// Clears counts, in threads.
void fill_zero(int64_t* counts, int64_t size);

} // namespace histo::cpu
