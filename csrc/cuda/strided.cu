// Counting any type over any strides.
//
// A block takes a tile: a few channels and a chunk of rows. Threads are dealt so
// that neighbours read neighbouring memory, along channels or along rows. The tile
// is counted in a table in shared memory, or, where the bins are too many for one,
// straight in the result, lanes that agree on a counter adding once.
#include <algorithm>

#include "counts.cuh"
#include "strided.h"
#include "tuning.h"

namespace histo::cuda {
namespace {

struct Tiles {
  Extent channels[2]; // outer, inner; strides in elements
  Extent rows[2];
  int64_t num_channels;
  int64_t num_rows;
  int tile_channels; // a power of two
  bool along_rows;   // neighbouring threads take neighbouring rows
  int64_t tiles;     // of channels
  int64_t chunks;    // of rows
  int64_t rows_per_chunk;
  int table_stride; // counters between channels of a table, where there is one
};

HISTO_HOST_DEVICE int64_t offset_of(const Extent (&loops)[2], int64_t i) {
  return loops[0].size == 1
             ? i * loops[1].stride
             : i / loops[1].size * loops[0].stride + i % loops[1].size * loops[1].stride;
}

/// Adds 1 for every active lane, once for all that agree on the counter.
__device__ void add_together(unsigned long long* counts, int64_t counter) {
  const unsigned active = __activemask();
  const unsigned peers = __match_any_sync(active, static_cast<unsigned long long>(counter));
  if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(peers)) - 1) {
    atomicAdd(&counts[counter], static_cast<unsigned long long>(__popc(peers)));
  }
}

template <bool kShared, class T, class Binning>
__global__ __launch_bounds__(kStridedThreads) void count_strided_kernel(
    const T* __restrict__ data,
    Tiles in,
    Binning binning,
    unsigned long long* __restrict__ counts) {
  extern __shared__ uint32_t table[];
  const int64_t first_channel = blockIdx.x % in.tiles * in.tile_channels;
  const int64_t first_row = blockIdx.x / in.tiles * in.rows_per_chunk;
  const int64_t end = min(first_row + in.rows_per_chunk, in.num_rows);
  const int channels =
      static_cast<int>(min(int64_t{in.tile_channels}, in.num_channels - first_channel));
  if (kShared) {
    for (int i = threadIdx.x; i < channels * in.table_stride; i += kStridedThreads) {
      table[i] = 0;
    }
    __syncthreads();
  }

  const int step = kStridedThreads / in.tile_channels;
  const int channel = in.along_rows ? threadIdx.x / step : threadIdx.x % in.tile_channels;
  if (channel < channels) {
    const T* column = data + offset_of(in.channels, first_channel + channel);
    int64_t row = first_row + (in.along_rows ? threadIdx.x % step : threadIdx.x / in.tile_channels);
    const auto add = [&](T value) {
      const int64_t bin = binning(value);
      if (bin == kNoBin) {
        return;
      }
      if (kShared) {
        atomicAdd(&table[channel * in.table_stride + bin], 1);
      } else {
        add_together(counts, (first_channel + channel) * binning.num_bins + bin);
      }
    };
    // All loads of a round are on their way before the first is counted.
    for (; row < end; row += kStridedUnroll * step) {
      T values[kStridedUnroll];
#pragma unroll
      for (int i = 0; i < kStridedUnroll; ++i) {
        if (row + i * step < end) {
          values[i] = column[offset_of(in.rows, row + i * step)];
        }
      }
#pragma unroll
      for (int i = 0; i < kStridedUnroll; ++i) {
        if (row + i * step < end) {
          add(values[i]);
        }
      }
    }
  }
  if (!kShared) {
    return;
  }
  __syncthreads();
  // The tile's counters in order; bins of a shared table are few enough for an int.
  unsigned long long* histograms = counts + first_channel * binning.num_bins;
  const int num_bins = static_cast<int>(binning.num_bins);
  for (int i = threadIdx.x; i < channels * num_bins; i += kStridedThreads) {
    const uint32_t sum = table[i / num_bins * in.table_stride + i % num_bins];
    if (in.chunks == 1) {
      put<false>(&histograms[i], sum); // this block alone counts these channels
    } else {
      put<true>(&histograms[i], sum);
    }
  }
}

int element_size(ElementType type) {
  return visit_element_type(
      type, [](auto tag) { return static_cast<int>(sizeof(typename decltype(tag)::type)); });
}

Tiles cut_into_tiles(const Problem& problem, const Launch& launch, int64_t table_stride) {
  Tiles in{};
  std::copy_n(problem.channels, 2, in.channels);
  std::copy_n(problem.rows, 2, in.rows);
  in.num_channels = problem.num_channels();
  in.num_rows = problem.num_rows();
  in.along_rows = in.num_channels == 1 || problem.rows[1].stride < problem.channels[1].stride;

  int64_t wanted;
  if (in.along_rows) {
    // Several channels a block only where each has few rows, a warp or more each.
    constexpr int64_t kWarps = kStridedThreads / 32;
    wanted = std::min(kStridedThreads * kStridedUnroll / in.num_rows, kWarps);
  } else {
    // As few as keep every SM busy, though a sector read for part of its bytes
    // costs traffic with the second-level cache.
    const int64_t size = element_size(problem.type);
    const int64_t least = std::clamp<int64_t>(
        in.num_channels * in.num_rows / kElementsPerSector, 1, kSectorBytes / size);
    const int64_t most = std::max(kTileRowElements, kTileRowBytes / size);
    wanted = std::clamp(in.num_channels / launch.sm_count, least, most);
  }
  const int64_t fit =
      std::max<int64_t>(kPreferredTableBytes / (table_stride * int64_t{sizeof(uint32_t)}), 1);
  const int64_t most = std::min(wanted, fit);
  in.tile_channels = 1;
  while (in.tile_channels * 2 <= most && in.tile_channels < in.num_channels) {
    in.tile_channels *= 2;
  }
  in.tiles = ceil_div(in.num_channels, in.tile_channels);

  const int64_t rows_a_round = kStridedThreads / in.tile_channels * kStridedUnroll;
  const int64_t fill = kStridedBlocksPerSm * launch.sm_count / in.tiles;
  const int64_t chunks = std::max<int64_t>(std::min(fill, ceil_div(in.num_rows, rows_a_round)), 1);
  // A block's counters are 32 bits wide.
  in.rows_per_chunk = std::min(ceil_div(in.num_rows, chunks), int64_t{1} << 31);
  in.chunks = ceil_div(in.num_rows, in.rows_per_chunk);
  return in;
}

} // namespace

template <class Binning>
void count_strided(const Problem& problem, const Binning& binning, const Launch& launch) {
  auto* counts = reinterpret_cast<unsigned long long*>(problem.counts);
  const int64_t table_stride = problem.num_bins | 1; // odd: channels start in different banks
  Tiles in = cut_into_tiles(problem, launch, table_stride);
  const int64_t table_bytes = in.tile_channels * table_stride * int64_t{sizeof(uint32_t)};
  const bool shared = table_bytes <= launch.max_shared_bytes;
  in.table_stride = shared ? static_cast<int>(table_stride) : 0;
  if (!shared || in.chunks > 1) {
    clear_counts(launch, problem);
  }
  visit_binned_type(problem.type, binning, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start(
        launch, "count_strided",
        shared ? count_strided_kernel<true, T, Binning> : count_strided_kernel<false, T, Binning>,
        grid_of(in.tiles * in.chunks), kStridedThreads, shared ? table_bytes : 0,
        static_cast<const T*>(problem.data), in, binning, counts);
  });
}

template void count_strided(const Problem&, const ValueBinning&, const Launch&);
template void count_strided(const Problem&, const LetterBinning&, const Launch&);

} // namespace histo::cuda
