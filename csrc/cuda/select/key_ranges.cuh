// The keys between which the values of two ranks lie, as the counters of a window tell.
#pragma once

#include <cstdint>

#include "cuda/policy_select.h"
#include "cuda/select/targets.cuh"
#include "cuda/select/window.cuh"

namespace histo::cuda {

/// Keys, both included.
struct KeyRange {
  uint64_t first;
  uint64_t last;
};

/// The keys of a counter that is not the one of NaN or kAbove.
template <class Bits>
__device__ __forceinline__ KeyRange
keys_of(unsigned counter, const Window& window, const Buckets<Bits>& buckets, uint64_t smallest) {
  if (counter == kBelow) {
    return {smallest, window.low - 1};
  }
  if (counter == kAtLow) {
    return {window.low, window.low};
  }
  const unsigned bucket = counter - kFirstBucket;
  const uint64_t end = min(buckets.first(bucket + 1), window.span());
  return {window.low + 1 + buckets.first(bucket), window.low + end};
}

/// The keys between which the values of two ranks are, as the counters tell. Called by the block.
template <class Bits>
__device__ __forceinline__ void find_ranges(
    const KeyOrder<Bits>& order,
    const Window& window,
    const Buckets<Bits>& buckets,
    const unsigned long long* counts,
    int64_t rows,
    const Ranks& ranks,
    int64_t* sums,      // [warps], shared
    KeyRange* ranges) { // [kTargetsOfQ], shared
  const auto count = [&](unsigned i) { return static_cast<int64_t>(counts[i]); };
  const unsigned last = kFirstBucket + buckets.count;
  const unsigned each = (last - kBelow + kThreadsOfDigits - 1) / kThreadsOfDigits;
  const unsigned first = min(kBelow + threadIdx.x * each, last), end = min(first + each, last);
  int64_t own = 0;
  for (unsigned i = first; i < end; ++i) {
    own += count(i);
  }
  const int64_t below = sum_below(own, sums);
  const int64_t above = rows - count(kNans) - count(kAbove);
  for (unsigned target = 0; target < kTargetsOfQ; ++target) {
    const int64_t rank = rank_of_target(ranks, target);
    if (rank >= below && rank < below + own) {
      unsigned i = first;
      for (int64_t upto = below + count(i); rank >= upto; upto += count(i)) {
        ++i;
      }
      ranges[target] = keys_of(i, window, buckets, order.smallest());
    } else if (threadIdx.x == kThreadsOfDigits - 1 && rank >= below + own) {
      ranges[target] = rank < above ? KeyRange{window.high, window.high}
                                    : KeyRange{window.high + 1, order.greatest()};
    }
  }
  __syncthreads();
}

/// The window of the next pass, if the two values are in these ranges.
__device__ __forceinline__ Window
window_of(const KeyRange& below, const KeyRange& above, int64_t nans) {
  const bool found = below.first == below.last && above.first == above.last;
  const bool same = below.first == above.first;
  const WindowSearch search = found  ? WindowSearch::kEnded
                              : same ? WindowSearch::kWindow
                                     : WindowSearch::kSplit;
  return {above.first, above.last, nans, search};
}

} // namespace histo::cuda
