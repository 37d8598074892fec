// The shared memory of a team that holds a channel, and the digits that it looks for there.
#pragma once

#include <cstdint>

#include "cuda/select/targets.cuh"
#include "cuda/walk/team.cuh"

namespace histo::cuda {

constexpr unsigned kDigitsOfStaged = 1u << kBitsOfColumnDigit;

/// The memory of a team: vec16s of the channel, counters, the slots of prefixes, a word.
struct StagedMemory {
  unsigned char* memory;
  const StagedShape& shape;
  unsigned vec16s;

  /// [slot][digit]
  __device__ __forceinline__ uint32_t* counters() const {
    return reinterpret_cast<uint32_t*>(memory + vec16s * kVec16Bytes);
  }
  /// [slot of the digits before][digit]: the slot of a prefix, or kNoSlot.
  __device__ __forceinline__ uint8_t* slots() const {
    return reinterpret_cast<uint8_t*>(counters() + shape.slots * kDigitsOfStaged);
  }
  /// How many slots there are.
  __device__ __forceinline__ unsigned& used() const {
    return reinterpret_cast<unsigned*>(slots() + shape.slots * kDigitsOfStaged)[0];
  }
  /// How many elements are NaN.
  __device__ __forceinline__ unsigned& nans() const {
    return (&used())[1];
  }
};

/// The values that a warp looks for. Each lane has one; lanes without one have that of the first.
template <class Bits>
struct StagedTargets {
  unsigned rank; // among those that begin alike
  unsigned slot; // of these
  Bits key;      // as much of it as is known

  /// Finds the next digit, which is the one behind `shift`.
  __device__ __forceinline__ void find(const StagedMemory& memory, unsigned used, unsigned shift) {
    for (unsigned i = 0; i < used; ++i) {
      sum_upto(memory.counters() + i * kDigitsOfStaged);
    }
    __syncwarp();
    const uint32_t* upto = memory.counters() + slot * kDigitsOfStaged;
    unsigned digit = 0; // the last one, if all counts are smaller: the rest is NaN
#pragma unroll
    for (unsigned step = kDigitsOfStaged / 2; step > 0; step /= 2) {
      digit += upto[digit + step - 1] <= rank ? step : 0;
    }
    rank -= digit > 0 ? upto[digit - 1] : 0;
    key = static_cast<Bits>(key | static_cast<Bits>(Bits(digit) << shift));
    if (shift > 0) {
      find_slots(memory, used, digit);
    }
  }

 private:
  /// Replaces the counts of digits by the sums of all up to them.
  static __device__ __forceinline__ void sum_upto(uint32_t* counters) {
    constexpr unsigned kOfLane = kDigitsOfStaged / kWarp;
    auto* words = reinterpret_cast<uint4*>(counters) + threadIdx.x % kWarp * (kOfLane / 4);
    uint32_t counts[kOfLane];
#pragma unroll
    for (unsigned i = 0; i < kOfLane; i += 4) {
      const uint4 some = words[i / 4];
      counts[i] = some.x;
      counts[i + 1] = some.y;
      counts[i + 2] = some.z;
      counts[i + 3] = some.w;
    }
#pragma unroll
    for (unsigned i = 1; i < kOfLane; ++i) {
      counts[i] += counts[i - 1];
    }
    const uint32_t own = counts[kOfLane - 1], below = sum_upto_lane(own) - own;
#pragma unroll
    for (unsigned i = 0; i < kOfLane; i += 4) {
      words[i / 4] = make_uint4(
          below + counts[i], below + counts[i + 1], below + counts[i + 2], below + counts[i + 3]);
    }
  }

  /// Gives the values slots for the next digit. Values that begin alike share one.
  __device__ __forceinline__ void find_slots(
      const StagedMemory& memory, unsigned used, unsigned digit) {
    const unsigned lane = threadIdx.x % kWarp;
    auto* words = reinterpret_cast<uint4*>(memory.slots());
    for (unsigned i = lane; i < used * kDigitsOfStaged / 16; i += kWarp) {
      words[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
    }
    __syncwarp();
    const unsigned place = slot * kDigitsOfStaged + digit;
    const auto first =
        static_cast<unsigned>(__ffs(static_cast<int>(__match_any_sync(kAllLanes, place))) - 1);
    const unsigned leaders = __ballot_sync(kAllLanes, lane == first);
    slot = static_cast<unsigned>(__popc(leaders & ((1u << first) - 1)));
    if (lane == first) {
      memory.slots()[place] = static_cast<uint8_t>(slot);
    }
    if (lane == 0) {
      memory.used() = static_cast<unsigned>(__popc(leaders));
    }
  }
};

} // namespace histo::cuda
