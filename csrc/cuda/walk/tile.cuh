// The elements of a block of the generic kernel: a few channels and a chunk of rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/cluster.cuh"
#include "cuda/plan/layouts.h"

namespace histo::cuda {

HISTO_HOST_DEVICE int64_t offset_of(const Extent (&loops)[2], int64_t i) {
  return loops[0].size == 1
             ? i * loops[1].stride
             : i / loops[1].size * loops[0].stride + i % loops[1].size * loops[1].stride;
}

/// How a kernel walks over tiles. kVec16s: it has code for rows that are vec16s. kSets: it has code
/// for rows that are three loops. kOneLoop: it has code of its own for rows that are one loop.
template <bool kHasVec16s, bool kHasSets, bool kHasOneLoop, int kLoads = kGenericUnroll>
struct TileShape {
  static constexpr bool kVec16s = kHasVec16s;
  static constexpr bool kSets = kHasSets;
  static constexpr bool kOneLoop = kHasOneLoop;
  static constexpr int kInFlight = kLoads; // of a thread, or as many vec16s if these are fewer
};

/// The tile of a block. A thread has one of its channels.
template <class T, class Shape>
struct TileOfBlock {
  static constexpr int kOfVec16 = kVec16Bytes / sizeof(T);
  static constexpr int kUnroll = std::min(kGenericVec16s<sizeof(T)>, Shape::kInFlight);

  const Generic& in;
  unsigned chunks;
  int64_t first_channel;
  int64_t first_row;
  int64_t end;
  int channels;
  int log_channels;    // of a whole tile, a power of two
  int channel;         // the thread's
  const T* column;     // its elements
  const uint4* vec16s; // and its first vec16
  int64_t num_vec16s;
  uint4 loaded[kUnroll];

  __device__ __forceinline__ TileOfBlock(const T* data, const Generic& tiles_of_grid)
      : in(tiles_of_grid) {
    // The blocks of a cluster take one tile. Otherwise neighbouring blocks read the same rows. A
    // grid has fewer than 2^31 blocks, so 32 bits suffice. They divide much sooner than 64, and a
    // few divisions take as long as counting a small input.
    const auto tiles = static_cast<unsigned>(in.tiles);
    chunks = static_cast<unsigned>(in.chunks);
    const int64_t tile = in.clustered ? cluster_of_grid() : blockIdx.x % tiles;
    const int64_t chunk = in.clustered ? rank_in_cluster() : blockIdx.x / tiles;
    first_channel = tile * in.tile_channels;
    first_row = chunk * in.rows_per_chunk;
    end = min(first_row + in.rows_per_chunk, in.num_rows);
    channels = static_cast<int>(min(int64_t{in.tile_channels}, in.num_channels - first_channel));
    log_channels = __ffs(in.tile_channels) - 1;
    const auto thread = static_cast<int>(threadIdx.x);
    channel = in.along_rows ? thread >> (__ffs(kGenericThreads) - 1 - log_channels)
                            : thread & (in.tile_channels - 1);
    column = data + offset_of(in.channels, first_channel + min(channel, channels - 1));
    vec16s = reinterpret_cast<const uint4*>(column + first_row);
    num_vec16s = Shape::kVec16s && in.vec16s ? (end - first_row) / kOfVec16 : 0;
  }

  /// Issues the loads of the first round, which may arrive while a table is cleared.
  __device__ __forceinline__ void fetch_first() {
    load(threadIdx.x);
  }
  /// Calls f(element) with the elements of the thread's channel.
  template <class F>
  __device__ __forceinline__ void for_each(const F& f) {
    if (channel >= channels) {
      return;
    }
    for_each_of_vec16s(f);
    if (Shape::kOneLoop && !in.sets && in.rows[0].size == 1) {
      for_each_single<true>(f);
    } else {
      for_each_single<false>(f);
    }
  }

  /// Calls f(load(row)) for the rows of the thread's channel. Several loads are in flight.
  template <class Load, class F>
  __device__ __forceinline__ void for_each_loaded(const Load& load, const F& f) const {
    if (channel < channels) {
      for_each_row(0, load, f);
    }
  }
  /// The elements between the first row of a channel and another one.
  __device__ __forceinline__ int64_t offset(int64_t row) const {
    return in.sets || in.rows[0].size > 1 ? offset_of_row<false>(row) : offset_of_row<true>(row);
  }

 private:
  /// Issues all loads of a round before the first is used.
  __device__ __forceinline__ void load(int64_t vec16) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      if (vec16 + i * kGenericThreads < num_vec16s) {
        loaded[i] = __ldcs(vec16s + vec16 + i * kGenericThreads);
      }
    }
  }
  template <class F>
  __device__ __forceinline__ void for_each_of_vec16s(const F& f) {
    for (int64_t vec16 = threadIdx.x; vec16 < num_vec16s; vec16 += kUnroll * kGenericThreads) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        if (vec16 + i * kGenericThreads < num_vec16s) {
          const T* elements = reinterpret_cast<const T*>(&loaded[i]);
#pragma unroll
          for (int j = 0; j < kOfVec16; ++j) {
            f(elements[j]);
          }
        }
      }
      load(vec16 + kUnroll * kGenericThreads);
    }
  }
  /// The elements that are in no vec16. kOneLoop: the rows are one loop.
  template <bool kOneLoop, class F>
  __device__ __forceinline__ void for_each_single(const F& f) const {
    for_each_row(
        num_vec16s * kOfVec16, [&](int64_t row) { return column[offset_of_row<kOneLoop>(row)]; },
        f);
  }
  /// Calls f(load(row)) for the rows of a thread from the row `begin` of the tile on.
  template <class Load, class F>
  __device__ __forceinline__ void for_each_row(int64_t begin, const Load& load, const F& f) const {
    const auto thread = static_cast<int>(threadIdx.x);
    const int step = kGenericThreads >> log_channels;
    int64_t row = first_row + (in.along_rows ? thread & (step - 1) : thread >> log_channels);
    row += begin;
    for (; row < end; row += Shape::kInFlight * step) {
      decltype(load(row)) values[Shape::kInFlight];
#pragma unroll
      for (int i = 0; i < Shape::kInFlight; ++i) {
        if (row + i * step < end) {
          values[i] = load(row + i * step);
        }
      }
#pragma unroll
      for (int i = 0; i < Shape::kInFlight; ++i) {
        if (row + i * step < end) {
          f(values[i]);
        }
      }
    }
  }
  template <bool kOneLoop>
  __device__ __forceinline__ int64_t offset_of_row(int64_t i) const {
    if (kOneLoop) {
      return i * in.rows[1].stride;
    } else if (Shape::kSets && (Shape::kOneLoop || in.sets)) {
      const int64_t of_set = in.rows[0].size * in.rows[1].size;
      return i / of_set * in.set_stride + offset_of(in.rows, i % of_set);
    } else {
      return offset_of(in.rows, i);
    }
  }
};

} // namespace histo::cuda
