// Edges that are compared where they lie: for channels of few rows, for more bins than a table has,
// and for the 256 values of a byte.
#pragma once

#include <cstdint>

#include "core/locate.h"
#include "cuda/policy.h"
#include "cuda/walk/raw.cuh"

namespace histo::cuda {

/// How many thresholds of a channel a number reaches. Edges and number are compared as they are.
/// The search begins at edge `guess` and looks beside it, in steps that double. `edges` are Edges,
/// or have the same `bins` and `at`.
template <class E>
__device__ __forceinline__ int64_t
search_edges(const E& edges, int64_t channel, Real value, int64_t guess) {
  // Only values beyond the last edge reach it.
  if (is_below(edges.at(channel, edges.bins), value)) {
    return edges.bins + 1;
  }
  // The value reaches all edges before `low`, and none from `high` on.
  int64_t low = 0, high = edges.bins, probe = guess, step = 0;
  while (low < high) {
    if (is_at_most(edges.at(channel, probe), value)) {
      low = probe + 1;
      probe = min(low + step, (low + high) / 2);
    } else {
      high = probe;
      probe = max(high - 1 - step, (low + high) / 2);
    }
    step = 2 * step + 1;
  }
  return low;
}

/// Whether edge k is not above the next one, and neither is NaN.
template <class E>
__device__ __forceinline__ bool is_ordered(const E& edges, int64_t channel, int64_t k) {
  return is_at_most(edges.at(channel, k), edges.at(channel, k + 1));
}

/// Whether the edges of a channel do not decrease and none is NaN, asked by a whole block.
template <class E>
__device__ __forceinline__ bool are_valid(const E& edges, int64_t channel) {
  bool valid = true;
  for (int64_t k = threadIdx.x; k < edges.bins; k += blockDim.x) {
    valid &= is_ordered(edges, channel, k);
  }
  return __syncthreads_and(valid);
}

/// The number that an element's bits are. Types are known only when a kernel runs, so that there is
/// one kernel for each size.
template <class T, class Bits>
__device__ __forceinline__ Real real_as(Bits bits) {
  if constexpr (sizeof(T) == sizeof(Bits)) {
    return real_of(Number<T>::wide(bits_as<T>(bits)));
  } else {
    return real_of(std::numeric_limits<double>::quiet_NaN()); // the host has refused it
  }
}
template <class Bits>
__device__ __forceinline__ Real real_of_bits(ElementType type, Bits bits) {
  switch (type) {
    case ElementType::kBool:
      return real_as<Boolean>(bits);
    case ElementType::kUInt8:
      return real_as<uint8_t>(bits);
    case ElementType::kInt8:
      return real_as<int8_t>(bits);
    case ElementType::kUInt16:
      return real_as<uint16_t>(bits);
    case ElementType::kInt16:
      return real_as<int16_t>(bits);
    case ElementType::kUInt32:
      return real_as<uint32_t>(bits);
    case ElementType::kInt32:
      return real_as<int32_t>(bits);
    case ElementType::kUInt64:
      return real_as<uint64_t>(bits);
    case ElementType::kInt64:
      return real_as<int64_t>(bits);
    case ElementType::kFloat16:
      return real_as<Float16>(bits);
    case ElementType::kBFloat16:
      return real_as<BFloat16>(bits);
    case ElementType::kFloat32:
      return real_as<float>(bits);
    case ElementType::kFloat64:
      return real_as<double>(bits);
    case ElementType::kFloat8E4M3:
      return real_as<Float8E4M3>(bits);
    case ElementType::kFloat8E5M2:
      return real_as<Float8E5M2>(bits);
  }
  return real_of(std::numeric_limits<double>::quiet_NaN());
}

__device__ __forceinline__ Real real_of_bits(ElementType type, RawBits raw) {
  return visit_raw(
      type, raw, [](auto element) { return real_of(Number<decltype(element)>::wide(element)); });
}

/// The edges of a thread's channel.
template <class Bits>
struct EdgesOfThread {
  const Edges& edges;
  Flow flow;
  ElementType type;
  int64_t channel;
  bool valid;
  double low;
  double scale; // bins for each unit of the values, if all bins have one width

  /// The bin of an element among all counts of the channel, or kNoBin.
  __device__ __forceinline__ int64_t find(Bits bits) const {
    const Real value = real_of_bits(type, bits);
    int64_t slot = edges.bins + 2;
    if (!is_nan(value.high)) {
      if (!valid) {
        return kNoBin;
      }
      const double line = (value.high - low) * scale, last = static_cast<double>(edges.bins - 1);
      slot = search_edges(edges, channel, value, static_cast<int64_t>(clamped(line, 0.0, last)));
    }
    const int64_t bin = flow.shown ? slot : slot - 1;
    return bin < flow.num_counts(edges.bins) ? bin : kNoBin;
  }
};

/// An axis of edges for the elements of a tile.
template <class Bits>
struct EdgeAxis {
  Edges edges;
  Flow flow;
  ElementType type;
  const uint8_t* valid; // of each channel, or of all; null: a block asks for its own

  /// All threads of the block call it.
  template <class Tile>
  __device__ __forceinline__ EdgesOfThread<Bits> of_thread(const Tile& tile) const {
    const int own = min(tile.channel, tile.channels - 1);
    const int64_t channel = edges.shared ? 0 : tile.first_channel + own;
    const bool is_valid = valid != nullptr ? valid[channel] != 0 : find_valid(tile, channel, own);
    const double low = edges.at(channel, 0).high, high = edges.at(channel, edges.bins).high;
    return {
        edges, flow, type, channel, is_valid, low, static_cast<double>(edges.bins) / (high - low)};
  }

 private:
  /// Whether the edges of a thread's channel, number `own` of the tile, are valid. The threads of
  /// the block share the edges of all channels of the tile.
  template <class Tile>
  __device__ __forceinline__ bool find_valid(const Tile& tile, int64_t channel, int own) const {
    __shared__ unsigned invalid[kMostTileChannels];
    if (edges.shared || tile.channels == 1) {
      return are_valid(edges, channel);
    }
    if (threadIdx.x < kMostTileChannels) {
      invalid[threadIdx.x] = 0;
    }
    __syncthreads();
    // A tile has fewer bins than a table has words, so 32 bits suffice.
    const auto bins = static_cast<unsigned>(edges.bins);
    for (unsigned i = threadIdx.x; i < tile.channels * bins; i += blockDim.x) {
      const unsigned c = i / bins, k = i - c * bins;
      if (!is_ordered(edges, tile.first_channel + c, k)) {
        atomicOr(&invalid[c], 1u);
      }
    }
    __syncthreads();
    return invalid[own] == 0;
  }
};

} // namespace histo::cuda
