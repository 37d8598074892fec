// Counts any type over any strides.
//
// A block takes a tile: a few channels and a chunk of rows. Neighbouring threads read neighbouring
// memory, along channels or along rows. A table in shared memory counts the tile. If the bins are
// too many for one, the block counts in the result, and lanes that agree on a counter add once.
#include <algorithm>

#include "cuda/cluster.cuh"
#include "cuda/count/sweeps.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/hot_bins.cuh"

namespace histo::cuda {
namespace {

HISTO_HOST_DEVICE int64_t offset_of(const Extent (&loops)[2], int64_t i) {
  return loops[0].size == 1
             ? i * loops[1].stride
             : i / loops[1].size * loops[0].stride + i % loops[1].size * loops[1].stride;
}

/// The bin of an element wider than a byte is its value, if that is below the limit. As an unsigned
/// number, a negative value is above all limits.
template <class T>
struct ValueAxis {
  uint64_t values;

  __device__ __forceinline__ int64_t bin_of(T value) const {
    return value < values ? static_cast<int64_t>(value) : kNoBin;
  }
};
template <class T>
using Axis = std::conditional_t<sizeof(T) == 1, ByteAxis, ValueAxis<T>>;

/// The steps of a block. It has a tile: a few channels and a chunk of rows.
///
/// kShared: they have a table in shared memory. kSets: the rows may be three loops.
template <bool kShared, bool kSets, class T>
struct TileOfBlock {
  static constexpr int kOfVec16 = kVec16Bytes / sizeof(T);
  static constexpr int kUnroll = kGenericVec16s<sizeof(T)>;
  // Bytes with more bins than a table has are rare, so there is no code for their vec16s.
  static constexpr bool kVec16s = kShared || sizeof(T) > 1;

  const Generic& in;
  const Axis<T>& axis;
  int64_t num_bins;
  uint32_t* table;
  unsigned chunks;
  int64_t first_channel;
  int64_t first_row;
  int64_t end;
  int channels;
  HotBins<kGenericThreads, 1> own;
  unsigned long long* histograms; // of the first channel
  int log_channels;               // of the tile, a power of two
  int channel;                    // the thread's
  const T* column;                // its elements
  const uint4* vec16s;            // and its first vec16
  int64_t num_vec16s;
  uint4 loaded[kUnroll];

  __device__ __forceinline__ TileOfBlock(
      const T* data,
      const Generic& tiles_of_grid,
      const Axis<T>& axis_of_elements,
      int64_t bins,
      uint32_t* shared,
      unsigned long long* counts)
      : in(tiles_of_grid), axis(axis_of_elements), num_bins(bins), table(shared) {
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
    own = {table, counts, first_channel * num_bins, channels * num_bins};
    histograms = counts + first_channel * num_bins;
    log_channels = __ffs(in.tile_channels) - 1;
    const auto thread = static_cast<int>(threadIdx.x);
    channel = in.along_rows ? thread >> (__ffs(kGenericThreads) - 1 - log_channels)
                            : thread & (in.tile_channels - 1);
    column = data + offset_of(in.channels, first_channel + min(channel, channels - 1));
    vec16s = reinterpret_cast<const uint4*>(column + first_row);
    num_vec16s = kVec16s && in.vec16s ? (end - first_row) / kOfVec16 : 0;
  }

  /// Issues all loads of a round before the first is counted.
  __device__ __forceinline__ void load(int64_t vec16) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      if (vec16 + i * kGenericThreads < num_vec16s) {
        loaded[i] = __ldcs(vec16s + vec16 + i * kGenericThreads);
      }
    }
  }
  __device__ __forceinline__ void clear() const {
    if constexpr (kShared) {
      for (int i = threadIdx.x; i < channels * in.table_stride; i += kGenericThreads) {
        table[i] = 0;
      }
      __syncthreads();
    } else {
      own.begin();
    }
  }
  __device__ __forceinline__ void count_vec16s() {
    for (int64_t vec16 = threadIdx.x; vec16 < num_vec16s; vec16 += kUnroll * kGenericThreads) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        if (vec16 + i * kGenericThreads < num_vec16s) {
          const T* elements = reinterpret_cast<const T*>(&loaded[i]);
#pragma unroll
          for (int j = 0; j < kOfVec16; ++j) {
            add(elements[j]);
          }
        }
      }
      load(vec16 + kUnroll * kGenericThreads);
    }
  }
  /// Counts the elements that are in no vec16. kOneLoop: the rows are one loop.
  template <bool kOneLoop>
  __device__ __forceinline__ void count_elements() const {
    const auto thread = static_cast<int>(threadIdx.x);
    const int step = kGenericThreads >> log_channels;
    int64_t row = first_row + (in.along_rows ? thread & (step - 1) : thread >> log_channels);
    row += num_vec16s * kOfVec16;
    for (; row < end; row += kGenericUnroll * step) {
      T values[kGenericUnroll];
#pragma unroll
      for (int i = 0; i < kGenericUnroll; ++i) {
        if (row + i * step < end) {
          values[i] = column[offset_of_row<kOneLoop>(row + i * step)];
        }
      }
#pragma unroll
      for (int i = 0; i < kGenericUnroll; ++i) {
        if (row + i * step < end) {
          add(values[i]);
        }
      }
    }
  }
  /// Sums the tables of a cluster. A block sums some of the counters, and is their only writer.
  __device__ __forceinline__ void put_sums_of_cluster() const {
    const int bins = static_cast<int>(num_bins);
    // The first division takes no time, because it is done while waiting for the other blocks.
    int i = static_cast<int>(rank_in_cluster() * kGenericThreads + threadIdx.x);
    int channel_of_tile = i / bins;
    sync_cluster();
    while (i < channels * bins) {
      const int bin = i - channel_of_tile * bins;
      const uint32_t* counter = &table[channel_of_tile * in.table_stride + bin];
      unsigned long long sum = 0;
#pragma unroll 8
      for (unsigned rank = 0; rank < chunks; ++rank) {
        sum += load_from_rank(counter, rank);
      }
      histograms[i] = sum;
      i += static_cast<int>(chunks) * kGenericThreads;
      channel_of_tile = i / bins;
    }
    arrive_having_read();
    wait_for_readers();
  }
  /// Writes the table to the counts, or adds it if several blocks count these channels.
  __device__ __forceinline__ void put_table() const {
    const int bins = static_cast<int>(num_bins); // of a shared table are few enough for an int
    __syncthreads();
    for (int i = threadIdx.x; i < channels * bins; i += kGenericThreads) {
      const uint32_t sum = table[i / bins * in.table_stride + i % bins];
      put_or_add(&histograms[i], sum, in.chunks != 1);
    }
  }

 private:
  __device__ __forceinline__ void add(T value) const {
    const int64_t bin = axis.bin_of(value);
    if (kShared) {
      // A value without a bin is counted behind the last bin, because a branch would take longer.
      const auto slot = min(static_cast<unsigned>(bin), static_cast<unsigned>(num_bins));
      atomicAdd(&table[channel * in.table_stride + slot], 1);
    } else if (bin != kNoBin) {
      own.add(channel * num_bins + bin);
    }
  }
  template <bool kOneLoop>
  __device__ __forceinline__ int64_t offset_of_row(int64_t i) const {
    if constexpr (kOneLoop) {
      return i * in.rows[1].stride;
    } else if constexpr (kSets) {
      const int64_t of_set = in.rows[0].size * in.rows[1].size;
      return i / of_set * in.set_stride + offset_of(in.rows, i % of_set);
    } else {
      return offset_of(in.rows, i);
    }
  }
};

template <bool kShared, bool kSets, class T>
__global__ __launch_bounds__(kGenericThreads) void count_generic_kernel(
    const T* __restrict__ data,
    Generic in,
    Axis<T> axis,
    int64_t num_bins,
    unsigned long long* __restrict__ counts) {
  extern __shared__ uint32_t table[];
  TileOfBlock<kShared, kSets, T> tile(data, in, axis, num_bins, table, counts);
  wait_for_previous(); // it may write what is counted
  let_next_start();
  tile.load(threadIdx.x); // and the table is cleared meanwhile
  tile.clear();
  if (tile.channel < tile.channels) {
    tile.count_vec16s();
    // With more bins than a table has, one kernel serves rows of one loop and of three.
    if (!(kShared && kSets) && !in.sets && in.rows[0].size == 1) {
      tile.template count_elements<true>();
    } else {
      tile.template count_elements<false>();
    }
  }
  if constexpr (!kShared) {
    tile.own.end();
  } else if (in.clustered) {
    tile.put_sums_of_cluster();
  } else {
    tile.put_table();
  }
}

} // namespace

void count_generic(
    const CountPlan& plan, const Problem& problem, const ByteAxis& bytes, const Launch& launch) {
  const auto& in = std::get<Generic>(plan.layout);
  if (plan.clears) {
    clear_counts(launch, problem);
  }
  visit_unsigned_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Axis<T> axis;
    if constexpr (sizeof(T) == 1) {
      axis = bytes;
    } else {
      const bool is_signed = problem.type == ElementType::kInt16 ||
                             problem.type == ElementType::kInt32 ||
                             problem.type == ElementType::kInt64;
      const uint64_t values = uint64_t{1} << (8 * sizeof(T) - 1); // that are not negative
      const auto bins = static_cast<uint64_t>(problem.num_bins);
      axis = {is_signed ? std::min(bins, values) : bins};
    }
    const auto with = [&](auto sets) {
      start(
          launch, "count_generic",
          in.table_stride > 0 ? count_generic_kernel<true, sets(), T>
                              : count_generic_kernel<false, true, T>,
          LaunchShape{
              grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
              plan.cluster, !plan.clears && launch.limits.has_clusters()},
          static_cast<const T*>(problem.data), in, axis, problem.num_bins,
          reinterpret_cast<unsigned long long*>(problem.counts));
    };
    in.sets ? with(std::true_type{}) : with(std::false_type{});
  });
}

} // namespace histo::cuda
