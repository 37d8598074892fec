// The elements of a team of warps: vec16s of a channel, across its segments.
#pragma once

#include <cstdint>

#include "cuda/plan/teams.h"
#include "cuda/storage/shared.cuh"
#include "cuda/team_barrier.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {

/// The threads of some warps of a block, which wait for each other alone.
struct WarpTeam {
  unsigned index; // in the block
  unsigned thread;
  unsigned size;

  __device__ __forceinline__ explicit WarpTeam(const ChannelTeams& in) : size(kWarp * in.warps) {
    index = threadIdx.x / size;
    thread = threadIdx.x % size;
  }
  __device__ __forceinline__ void sync() const {
    size == kWarp ? __syncwarp() : sync_team(index, size);
  }
  /// Calls f(channel, part) with the items of this team.
  template <class F>
  __device__ __forceinline__ void for_each_item(const ChannelTeams& in, const F& f) const {
    const auto items = static_cast<unsigned>(in.items());
    for (unsigned item = first(); item < items; item += gridDim.x * in.teams) {
      visit(in, item, f);
    }
  }
  template <class F>
  __device__ __forceinline__ void for_first_item(const ChannelTeams& in, const F& f) const {
    if (first() < static_cast<unsigned>(in.items())) {
      visit(in, first(), f);
    }
  }

 private:
  __device__ __forceinline__ unsigned first() const {
    return index * gridDim.x + blockIdx.x;
  }
  template <class F>
  __device__ __forceinline__ static void visit(const ChannelTeams& in, unsigned item, const F& f) {
    const auto channels = static_cast<unsigned>(in.num_channels);
    const unsigned part = in.parts == 1 ? 0 : item / channels;
    f(item - part * channels, part);
  }
};

/// The elements of a vec16 that lie in its segment: a bit for each.
struct Within {
  uint32_t elements;

  __device__ __forceinline__ bool has(int element) const {
    return (elements >> element & 1) != 0;
  }
  __device__ __forceinline__ Within from(int element) const {
    return {elements >> element};
  }
};

/// One item. kWhole: all vec16s are aligned and lie in a segment.
template <class T, bool kWhole>
struct ItemOfTeam {
  static constexpr int kOfVec16 = 16 / static_cast<int>(sizeof(T));
  struct Loaded {
    uint4 vec16;
    Within within;
  };

  const ChannelTeams& in;
  const T* all;
  const T* data; // the channel's
  unsigned part;
  bool is_inside; // vec16s of the channel reach nowhere beyond the problem

  __device__ __forceinline__
  ItemOfTeam(const T* elements, const ChannelTeams& teams, unsigned channel, unsigned the_part)
      : in(teams),
        all(elements),
        data(elements + offset_in(teams.channels, channel)),
        part(the_part) {
    is_inside = data - all >= kOfVec16 && data + in.span_of_channel + kOfVec16 <= all + in.span;
  }

  /// Calls f(pack), or f(pack, within) if not kWhole, with the packs of the item.
  template <class F>
  __device__ __forceinline__ void for_each(const WarpTeam& team, const F& f) const {
    constexpr int kInFlight = kTeamVec16s;
    const unsigned step = in.parts * team.size;
    unsigned next = part * team.size + team.thread, ahead = next;
    Loaded loaded[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j, ahead += step) {
      if (ahead < in.vec16s) {
        loaded[j] = load(ahead);
      }
    }
    // Each vec16 is replaced by one of the next round as soon as it is counted.
    while (next < in.vec16s) {
#pragma unroll
      for (int j = 0; j < kInFlight; ++j, ahead += step, next += step) {
        const Loaded now = loaded[j];
        if (ahead < in.vec16s) {
          loaded[j] = load(ahead);
        }
        if (next < in.vec16s) {
          visit(now, f);
        }
      }
    }
  }

  /// L2 begins to fetch what the parts of the channel read first, up to `bytes` for each.
  __device__ __forceinline__ void fetch_first(const WarpTeam& team, uint32_t bytes) const {
    if constexpr (kWhole) {
      const uint32_t size = min(bytes / 16, in.by_segment.divisor / in.parts);
      if (team.thread == 0 && size > 0) {
        fetch_ahead(reinterpret_cast<const uint4*>(data) + part * size, size * 16);
      }
    }
  }

 private:
  __device__ __forceinline__ const T* segment(uint32_t index) const {
    const Extent& inner = in.segments[1];
    if (in.segments[0].size == 1) {
      return data + index * inner.stride;
    }
    const uint32_t outer = in.by_segments.quotient(index);
    return data + outer * in.segments[0].stride +
           (index - outer * in.by_segments.divisor) * inner.stride;
  }

  __device__ __forceinline__ Loaded load(uint32_t index) const {
    const uint32_t of_channel = in.by_segment.quotient(index);
    const T* begin = segment(of_channel);
    const auto number = static_cast<int>(index - of_channel * in.by_segment.divisor);
    if constexpr (kWhole) {
      return {load_once(reinterpret_cast<const uint4*>(begin) + number), {}};
    } else {
      const auto beyond = static_cast<int>(reinterpret_cast<uintptr_t>(begin) % 16 / sizeof(T));
      const int first = number * kOfVec16 - beyond, left = static_cast<int>(in.length) - first;
      const uint32_t upto_end = left < kOfVec16 ? (1u << max(left, 0)) - 1 : (1u << kOfVec16) - 1;
      const Within within{upto_end & 0xffffffff << max(-first, 0)};
      return {load_around(begin + first, within), within};
    }
  }
  /// An aligned vec16 that may reach beyond its segment.
  __device__ __forceinline__ uint4 load_around(const T* from, Within within) const {
    if (within.elements == 0) {
      return {};
    }
    if (is_inside || (from >= all && from + kOfVec16 <= all + in.span)) {
      return load_once(reinterpret_cast<const uint4*>(from));
    }
    alignas(16) T elements[kOfVec16] = {};
#pragma unroll
    for (int j = 0; j < kOfVec16; ++j) {
      if (within.has(j)) {
        elements[j] = from[j];
      }
    }
    return *reinterpret_cast<const uint4*>(elements);
  }

  template <class F>
  __device__ __forceinline__ void visit(const Loaded& loaded, const F& f) const {
    if constexpr (kWhole) {
      for_each_of_vec16<T>(loaded.vec16, f);
    } else if (loaded.within.elements != 0) {
      constexpr int kOfPack = static_cast<int>(sizeof(Pack<T>) / sizeof(T));
      const auto* packs = reinterpret_cast<const Pack<T>*>(&loaded.vec16);
#pragma unroll
      for (int p = 0; p < kOfVec16 / kOfPack; ++p) {
        f(packs[p], loaded.within.from(p * kOfPack));
      }
    }
  }
};

} // namespace histo::cuda
