// The multi-channel two-phase tiled histogram.
//
// Phase 1 cuts the input into tiles of 64 channels x a chunk of rows. A block
// counts its tile in shared memory and writes the partial histogram out, without
// atomics. Phase 2 sums the partial histograms, a thread an output.
//
// Lesson: 32-bit loads of four channels, eight rows in flight while the
// eight before are counted, padding that spreads channels over the banks, and a
// reduction in place of atomics.
#include "cuda/study/study.cuh"

namespace histo::cuda {
namespace {

constexpr int kTileChannels = 64;
constexpr int kTileThreads = 256;
constexpr int kWordsPerRow = kTileChannels / 4;
constexpr int kRowsPerStep = kTileThreads / kWordsPerRow;
constexpr int kUnroll = 8;

// Channels lie 257 words apart, so that equal values of neighbouring channels fall
// into different banks, and every fourth channel one word further, so that the
// four bytes of neighbouring threads' words do too.
constexpr int kChannelWords = 257;
constexpr int kTableWords = kTileChannels * kChannelWords + kWordsPerRow;

__device__ __forceinline__ int table_index(int channel) {
  return channel * kChannelWords + channel / 4;
}

/// A thread's four channels of the tile's rows.
template <bool kAligned>
struct TileWord {
  const StudyInput& input;
  int word;      // of a row
  int count;     // of its channels: the last word may hold fewer than four, or none
  int64_t first; // channel
  int64_t end;   // row

  __device__ LooseWord load(int64_t row) const {
    if (count == 0 || row >= end) {
      return {0, 0, 0};
    }
    const uint8_t* address = input.data + row * input.channels + first;
    const Bounds bounds{input.data, input.data + input.length * input.channels};
    return kAligned ? load_aligned_word(address) : load_loose_word(address, count, bounds);
  }
  template <class Binning, class AtomicPolicy>
  __device__ void add(
      int64_t row,
      const LooseWord& word_of_row,
      const Binning& binning,
      AtomicPolicy atomics,
      uint32_t* table) const {
    if (row >= end) {
      return;
    }
    const uint32_t bytes = kAligned ? word_of_row.low : word_of_row.bytes();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t bin = binning(byte_of(bytes, i));
      if (i < count && bin != kNoBin) {
        atomics.add_shared(&table[table_index(4 * word + i) + bin], 1);
      }
    }
  }
};

template <bool kAligned, class Binning, class AtomicPolicy>
__global__ __launch_bounds__(kTileThreads) void tiled_kernel(
    StudyInput input,
    Binning binning,
    AtomicPolicy atomics,
    int64_t rows_per_chunk,
    uint32_t* partials) {
  extern __shared__ uint32_t table[];
  for (int i = threadIdx.x; i < kTableWords; i += kTileThreads) {
    table[i] = 0;
  }
  __syncthreads();

  const int64_t first_channel = int64_t{blockIdx.x} * kTileChannels;
  const int channels =
      static_cast<int>(min(int64_t{kTileChannels}, input.channels - first_channel));
  const int word = threadIdx.x % kWordsPerRow;
  const int64_t end = min((blockIdx.y + 1) * rows_per_chunk, input.length);
  const TileWord<kAligned> own{
      input, word, min(max(channels - 4 * word, 0), 4), first_channel + 4 * word, end};

  int64_t row = blockIdx.y * rows_per_chunk + threadIdx.x / kWordsPerRow;
  LooseWord now[kUnroll], next[kUnroll];
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    now[i] = own.load(row + i * kRowsPerStep);
  }
  for (; row < end; row += kUnroll * kRowsPerStep) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      next[i] = own.load(row + (kUnroll + i) * kRowsPerStep);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      own.add(row + i * kRowsPerStep, now[i], binning, atomics, table);
      now[i] = next[i];
    }
  }
  __syncthreads();

  // Every counter of the tile is written, zeros too: phase 2 reads them all.
  const int num_bins = static_cast<int>(binning.num_bins);
  uint32_t* partial = partials + (blockIdx.y * input.channels + first_channel) * num_bins;
  for (int i = threadIdx.x; i < channels * num_bins; i += kTileThreads) {
    partial[i] = table[table_index(i / num_bins) + i % num_bins];
  }
}

__global__ __launch_bounds__(kTileThreads) void reduce_kernel(
    const uint32_t* __restrict__ partials,
    int64_t num_chunks,
    int64_t num_outputs,
    unsigned long long* counts) {
  const int64_t i = blockIdx.x * int64_t{kTileThreads} + threadIdx.x;
  if (i >= num_outputs) {
    return;
  }
  unsigned long long sum = 0;
#pragma unroll 4
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    sum += partials[chunk * num_outputs + i];
  }
  counts[i] = sum;
}

} // namespace

template <class Binning>
void tiled(const StudyInput& input, const Binning& binning, const Launch& launch) {
  const int64_t groups = ceil_div(input.channels, kTileChannels);
  // Two blocks an SM (33 chunks for 512 channels on 132 SMs), none of them idle.
  const int64_t most_chunks =
      std::min<int64_t>(ceil_div(input.length, kUnroll * kRowsPerStep), 65535);
  const int64_t wanted = std::clamp<int64_t>(2 * launch.limits.sm_count / groups, 1, most_chunks);
  const int64_t rows_per_chunk = ceil_div(input.length, wanted);
  const int64_t chunks = ceil_div(input.length, rows_per_chunk);
  const int64_t outputs = input.channels * binning.num_bins;
  auto* partials =
      static_cast<uint32_t*>(launch.allocate(chunks * outputs * int64_t{sizeof(uint32_t)}));

  const bool aligned = input.channels % 4 == 0 && reinterpret_cast<uintptr_t>(input.data) % 4 == 0;
  with_atomics(launch, [&](auto atomics) {
    using Policy = decltype(atomics);
    start(
        launch, "tiled",
        aligned ? tiled_kernel<true, Binning, Policy> : tiled_kernel<false, Binning, Policy>,
        dim3(grid_of(groups).x, grid_of(chunks).x), kTileThreads,
        kTableWords * int64_t{sizeof(uint32_t)}, input, binning, atomics, rows_per_chunk, partials);
  });
  start(
      launch, "tiled (reduction)", reduce_kernel, grid_of(ceil_div(outputs, kTileThreads)),
      kTileThreads, 0, partials, chunks, outputs, input.counts);
}

} // namespace histo::cuda

HISTO_INSTANTIATE_VARIANT(tiled)
