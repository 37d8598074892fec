// Targets and their slots, in shared memory.
#pragma once

#include <cstdint>

#include "cuda/select/sort_keys.cuh"
#include "cuda/storage/shared.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

constexpr unsigned kNoSlot = 0xff;

/// The slots of a channel's targets: those with equal prefixes share one. Slots are numbered in the
/// order of the targets.
struct Slots {
  uint64_t prefixes[kMaxTargets];
  unsigned of_target[kMaxTargets];
  unsigned count;
};

/// Called by a warp; a lane gives the prefix of its target. Other warps must wait.
__device__ __forceinline__ void find_slots(Slots& slots, unsigned targets, uint64_t prefix) {
  const unsigned lane = threadIdx.x % kWarp;
  // Lanes without a target have that of the first one.
  prefix = __shfl_sync(kAllLanes, prefix, lane < targets ? static_cast<int>(lane) : 0);
  const auto leader = static_cast<unsigned>(
      __ffs(
          static_cast<int>(__match_any_sync(kAllLanes, static_cast<unsigned long long>(prefix)))) -
      1);
  const unsigned leaders = __ballot_sync(kAllLanes, lane == leader);
  const auto slot = static_cast<unsigned>(__popc(leaders & ((1u << leader) - 1)));
  slots.of_target[lane] = slot;
  if (lane == leader) {
    slots.prefixes[slot] = prefix;
  }
  if (lane == 0) {
    slots.count = static_cast<unsigned>(__popc(leaders));
  }
}

/// The slots of prefixes: a hash table without collisions. Short prefixes are their own hash, so what
/// is found for one needs no check.
template <class Bits>
struct SlotLookup {
  static constexpr unsigned kLogSize = 11;
  static constexpr unsigned kSize = 1u << kLogSize;
  using Hash = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;

  uint32_t bytes[kSize / 4]; // a slot each
  Bits prefixes[kMaxTargets];
  Hash factor;
  uint32_t elsewhere[kWarp]; // counters that nobody reads, one per lane

  /// Whether prefixes before this digit are short.
  static __device__ __forceinline__ bool is_exact(const KeyDigit& digit) {
    return 8 * sizeof(Bits) - digit.shift - digit.bits <= kLogSize;
  }
  static __device__ __forceinline__ unsigned index_of(Bits prefix, Hash by) {
    return static_cast<unsigned>(static_cast<Hash>(prefix * by) >> (8 * sizeof(Hash) - kLogSize));
  }
  __device__ __forceinline__ unsigned slot_at(unsigned index) const {
    return reinterpret_cast<const uint8_t*>(bytes)[index];
  }
  /// Called by the block, which must wait afterwards.
  __device__ __forceinline__ void fill(const Slots& slots, const KeyDigit& digit) {
    for (unsigned i = threadIdx.x; i < kSize / 4; i += blockDim.x) {
      bytes[i] = 0xffffffff;
    }
    __syncthreads();
    if (threadIdx.x >= kWarp) {
      return;
    }
    const unsigned slot = threadIdx.x;
    const auto prefix = static_cast<Bits>(slots.prefixes[slot < slots.count ? slot : 0]);
    // Any factor serves with which all prefixes have indices of their own.
    Hash by = is_exact(digit) ? Hash{1} << (8 * sizeof(Hash) - kLogSize)
                              : static_cast<Hash>(0x9e3779b97f4a7c15);
    while (true) {
      const unsigned at = index_of(prefix, by);
      const unsigned same = __match_any_sync(kAllLanes, at);
      const unsigned leader = slot < slots.count ? slot : 0;
      const bool meets = (same & ((1u << leader) - 1)) != 0;
      if (!__any_sync(kAllLanes, meets)) {
        break;
      }
      by = by * static_cast<Hash>(0xd1342543de82ef95) + 2;
      by |= 1;
    }
    if (slot < slots.count) {
      prefixes[slot] = prefix;
      reinterpret_cast<uint8_t*>(bytes)[index_of(prefix, by)] = static_cast<uint8_t>(slot);
    }
    if (slot == 0) {
      factor = by;
    }
  }
};

/// The slot of a prefix among `count` of them, or `count`.
template <class Bits>
__device__ __forceinline__ unsigned slot_among(
    const Bits* prefixes, unsigned step, unsigned count, Bits prefix) {
  unsigned slot = 0;
  while (slot < count && prefixes[slot * step] != prefix) {
    ++slot;
  }
  return slot;
}

/// Fetches the prefixes of a column, which has at least one. The first one fills the rest.
template <unsigned kSlots, class Prefix, class Bits>
__device__ __forceinline__ void load_prefixes(
    const Bits* prefixes, unsigned step, unsigned count, Prefix (&own)[kSlots]) {
#pragma unroll
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    own[slot] = prefixes[(slot < count ? slot : 0) * step];
  }
}

/// The slot of a prefix among those of a thread, or kSlots.
template <unsigned kSlots, class Prefix>
__device__ __forceinline__ unsigned slot_of(const Prefix (&prefixes)[kSlots], Prefix prefix) {
  unsigned slot = kSlots;
#pragma unroll
  for (unsigned i = kSlots; i-- > 0;) {
    slot = prefixes[i] == prefix ? i : slot;
  }
  return slot;
}

/// The sum of the values of all threads before this one. `sums` become those of the warps, and may
/// be written again when the block has waited.
__device__ __forceinline__ int64_t sum_below(int64_t own, int64_t* sums) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t upto = sum_upto_lane(own);
  if (lane == kWarp - 1) {
    sums[warp] = upto;
  }
  __syncthreads();
  int64_t below = upto - own;
  for (unsigned other = 0; other < warp; ++other) {
    below += sums[other];
  }
  return below;
}

/// Looks for the targets of a slot among its counters: `counted(value)` is that of a digit's value.
/// Calls found(target, prefix, rank among the values with this prefix). Called by the block; `ranks`
/// are of all targets.
template <int kThreads, class Counted, class Found>
__device__ __forceinline__ void find_in_slot(
    const Slots& slots,
    unsigned slot,
    unsigned targets,
    const int64_t* ranks,
    const KeyDigit& digit,
    int64_t nans,  // of the channel
    int64_t* sums, // [warps], shared
    const Counted& counted,
    const Found& found) {
  const unsigned values = digit.values();
  const auto count = [&](unsigned value) {
    // NaN is larger than all numbers.
    return counted(value) + (digit.first && value == values - 1 ? nans : 0);
  };
  const unsigned each = (values + kThreads - 1) / kThreads;
  const unsigned first = threadIdx.x * each, end = min(first + each, values);
  int64_t own = 0;
  for (unsigned value = first; value < end; ++value) {
    own += count(value);
  }
  const int64_t below = sum_below(own, sums);
  for (unsigned target = 0; target < targets; ++target) {
    const int64_t rank = ranks[target];
    if (slots.of_target[target] != slot || rank < below || rank >= below + own) {
      continue;
    }
    unsigned value = first;
    int64_t smaller = below;
    for (int64_t here = count(value); rank >= smaller + here; here = count(value)) {
      smaller += here;
      ++value;
    }
    const uint64_t prefix =
        digit.first ? value : slots.prefixes[slot] << digit.bits | uint64_t{value};
    found(target, prefix, rank - smaller);
  }
  __syncthreads(); // the sums are read
}

} // namespace histo::cuda
