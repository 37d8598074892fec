// The targets of the channel of a block, whose digits it finds all by itself.
#pragma once

#include "cuda/select/digits.cuh"

namespace histo::cuda {

/// In shared memory.
template <class Bits, int kThreads>
struct TargetsOfBlock {
  Slots slots;
  SlotLookup<Bits> lookup;
  int64_t ranks[kMaxTargets];
  int64_t next_ranks[kMaxTargets];
  uint64_t prefixes[kMaxTargets];
  int64_t sums[kThreads / kWarp];

  /// Finds the slots of a digit.
  __device__ __forceinline__ void begin(const KeyDigit& digit, unsigned targets) {
    if (threadIdx.x < kWarp) {
      const unsigned target = min(threadIdx.x, targets - 1);
      find_slots(slots, targets, digit.first ? 0 : prefixes[target]);
    }
    __syncthreads();
  }

  /// Finds the digits of the targets: rank_of(target) is that of the first one, and found(target, key)
  /// is called with those that have no more digits.
  template <class RankOf, class Found>
  __device__ __forceinline__ void find(
      unsigned targets,
      const KeyDigit& digit,
      int64_t nans,
      const DigitCounts& table,
      const RankOf& rank_of,
      const Found& found) {
    if (threadIdx.x < kWarp) {
      const unsigned target = min(threadIdx.x, targets - 1);
      ranks[threadIdx.x] = digit.first ? rank_of(target) : next_ranks[target];
    }
    const unsigned used = slots.count;
    __syncthreads();
    for (unsigned slot = 0; slot < used; ++slot) {
      find_in_slot<kThreads>(
          slots, slot, targets, ranks, digit, nans, sums,
          [&](unsigned value) { return int64_t{table.words[(slot << digit.bits) + value]}; },
          [&](unsigned target, uint64_t prefix, int64_t rank) {
            if (digit.last) {
              found(target, static_cast<Bits>(prefix));
            } else {
              prefixes[target] = prefix;
              next_ranks[target] = rank;
            }
          });
    }
  }
  /// The same for the q's of a part of a selection. A block that `writes` writes the values.
  __device__ __forceinline__ void find(
      const SelectionPart& part,
      const KeyOrder<Bits>& order,
      const KeyDigit& digit,
      int64_t channel,
      int64_t rows,
      int64_t nans,
      const DigitCounts& table,
      bool writes) {
    const auto ranks_of = [&](unsigned target) {
      return ranks_of_target(part, target, rows, nans);
    };
    find(
        part.num_targets(), digit, nans, table,
        [&](unsigned target) { return rank_of_target(ranks_of(target), target); },
        [&](unsigned target, Bits key) {
          if (writes) {
            put_value(part, order, target, channel, ranks_of(target), key);
          }
        });
  }
};

} // namespace histo::cuda
