// The slots of a tile, for the generic kernel: in shared memory, or in the result.
#pragma once

#include <cstdint>

#include "core/axis.h"
#include "cuda/cluster.cuh"
#include "cuda/plan/layouts.h"
#include "cuda/storage/accumulate.cuh"
#include "cuda/storage/hot_bins.cuh"

namespace histo::cuda {

/// A table in shared memory: [channel][slot], and one more slot for elements that count nowhere.
template <class Accumulator>
struct TileTable {
  using Local = typename Accumulator::Local;
  using Total = typename Accumulator::Total;
  static constexpr bool kShared = true;

  const Generic& in;
  Local* memory;
  Total* totals; // of the first channel
  int channels;
  int64_t num_slots; // of a channel

  template <class Tile>
  __device__ __forceinline__
  TileTable(const Tile& tile, Local* shared, int64_t slots, Total* result)
      : in(tile.in),
        memory(shared),
        totals(result + tile.first_channel * slots),
        channels(tile.channels),
        num_slots(slots) {
  }
  __device__ __forceinline__ void clear() const {
    for (int i = threadIdx.x; i < channels * in.table_stride; i += kGenericThreads) {
      memory[i] = 0;
    }
    __syncthreads();
  }
  /// kNoBin is counted behind the last slot, because a branch would take longer.
  __device__ __forceinline__ void add(int channel, int64_t bin, Count::Step) const {
    const auto slot = min(static_cast<unsigned>(bin), static_cast<unsigned>(num_slots));
    atomicAdd(&memory[channel * in.table_stride + slot], 1);
  }
  /// When all threads have added: writes the table to the result, or adds it.
  __device__ __forceinline__ void put() const {
    in.clustered ? put_sums_of_cluster() : put_table();
  }

 private:
  /// Sums the tables of a cluster. A block sums some of the slots, which no other one writes.
  __device__ __forceinline__ void put_sums_of_cluster() const {
    const int slots = static_cast<int>(num_slots);
    const auto chunks = static_cast<unsigned>(in.chunks);
    // The first division takes no time, because it is done while waiting for the other blocks.
    int i = static_cast<int>(rank_in_cluster() * kGenericThreads + threadIdx.x);
    int channel = i / slots;
    sync_cluster();
    while (i < channels * slots) {
      const Local* local = &memory[channel * in.table_stride + i - channel * slots];
      Total sum = 0;
#pragma unroll 8
      for (unsigned rank = 0; rank < chunks; ++rank) {
        sum += load_from_rank(local, rank);
      }
      put_or_add(&totals[i], sum, in.adds);
      i += static_cast<int>(chunks) * kGenericThreads;
      channel = i / slots;
    }
    arrive_having_read();
    wait_for_readers();
  }
  __device__ __forceinline__ void put_table() const {
    const int slots = static_cast<int>(num_slots); // shared memory has fewer than 2^31
    __syncthreads();
    for (int i = threadIdx.x; i < channels * slots; i += kGenericThreads) {
      const Local sum = memory[i / slots * in.table_stride + i % slots];
      put_or_add(&totals[i], sum, in.adds);
    }
  }
};

/// The result itself, with the hot bins in shared memory: for more slots than a table has.
struct TileInResult {
  using Total = Count::Total;
  static constexpr bool kShared = false;

  HotBins<kGenericThreads, 1> own;
  int64_t num_slots;

  template <class Tile>
  __device__ __forceinline__
  TileInResult(const Tile& tile, Count::Local* shared, int64_t slots, Total* result)
      : own{shared, result, tile.first_channel * slots, tile.channels * slots}, num_slots(slots) {
  }
  __device__ __forceinline__ void clear() const {
    own.begin();
  }
  __device__ __forceinline__ void add(int channel, int64_t bin, Count::Step) const {
    if (bin != kNoBin) {
      own.add(channel * num_slots + bin);
    }
  }
  __device__ __forceinline__ void put() const {
    own.end();
  }
};

} // namespace histo::cuda
