// Common to the study kernels: their input, the panels it is cut into, atomic
// additions that can be tallied, and the private histogram's beginning and end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/axis.h"
#include "cuda/count/bytes.cuh"
#include "cuda/launch.h"
#include "cuda/study/variants.h"

namespace histo::cuda {

constexpr int kThreads = 1024;

// --- Atomic additions ---------------------------------------------------------

/// The policy of every ordinary launch.
struct Atomics {
  template <class T>
  __device__ void add_global(T* address, T value) const {
    atomicAdd(address, value);
  }
  __device__ void add_shared(uint32_t* address, uint32_t value) const {
    atomicAdd(address, value);
  }
};

/// The same, and counts the additions as it goes.
struct TalliedAtomics {
  unsigned long long* tally;

  template <class T>
  __device__ void add_global(T* address, T value) const {
    atomicAdd(address, value);
    atomicAdd(&tally[0], 1ull);
  }
  __device__ void add_shared(uint32_t* address, uint32_t value) const {
    atomicAdd(address, value);
    atomicAdd(&tally[1], 1ull);
  }
};

/// Calls f with the policy that the launch asks for.
template <class F>
void with_atomics(const Launch& launch, const F& f) {
  if (launch.tally == nullptr) {
    f(Atomics{});
  } else {
    f(TalliedAtomics{launch.tally});
  }
}

// --- Panels ---------------------------------------------------------------------

/// How many channels share a private histogram: 256 bins of each make 32 KiB.
constexpr int kPanelChannels = 32;

/// A panel is a column of up to 32 neighbouring channels, all rows. Up to 32
/// channels there is one panel, which is then one unbroken run of bytes.
struct StudyPanel {
  const uint8_t* data; // the first row's first channel
  int64_t row_stride;  // bytes
  int64_t rows;
  int width;     // channels
  int64_t block; // which of the panel's blocks this is
  int64_t num_blocks;
  unsigned long long* counts; // of the first channel

  __device__ int64_t size() const {
    return rows * width;
  }
  /// Element e of the panel, row by row.
  __device__ uint8_t operator[](int64_t e) const {
    return data[e / width * row_stride + e % width];
  }
  __device__ int channel(int64_t e) const {
    return static_cast<int>(e % width);
  }
};

HISTO_HOST_DEVICE int64_t num_panels(const StudyInput& input) {
  return ceil_div(input.channels, kPanelChannels);
}

/// The widest panel's elements.
inline int64_t panel_elements(const StudyInput& input) {
  return input.length * std::min<int64_t>(input.channels, kPanelChannels);
}

/// Blocks take panels in turn.
__device__ inline StudyPanel panel_of_block(const StudyInput& input, int64_t num_bins) {
  const int64_t panels = num_panels(input);
  const int64_t first = blockIdx.x % panels * kPanelChannels;
  return StudyPanel{
      input.data + first,
      input.channels,
      input.length,
      static_cast<int>(min(int64_t{kPanelChannels}, input.channels - first)),
      blockIdx.x / panels,
      gridDim.x / panels,
      input.counts + first * num_bins};
}

// --- Private histograms -----------------------------------------------------------

/// [width][num_bins] counters for one block.
inline int64_t histogram_bytes(const StudyInput& input, int64_t num_bins) {
  return std::min<int64_t>(input.channels, kPanelChannels) * num_bins *
         static_cast<int64_t>(sizeof(uint32_t));
}

__device__ inline void clear_histogram(uint32_t* histogram, int size) {
  for (int i = threadIdx.x; i < size; i += blockDim.x) {
    histogram[i] = 0;
  }
  __syncthreads();
}

/// Adds a block's private histogram to the result. Bins that stayed empty are
/// skipped: the histogram was cleared, so zero means zero.
template <class AtomicPolicy>
__device__ void merge_histogram(
    const uint32_t* histogram, int size, unsigned long long* counts, const AtomicPolicy& atomics) {
  __syncthreads();
  for (int i = threadIdx.x; i < size; i += blockDim.x) {
    if (histogram[i] != 0) {
      atomics.add_global(&counts[i], static_cast<unsigned long long>(histogram[i]));
    }
  }
}

// --- Launching ----------------------------------------------------------------------

inline void clear_counts(const Launch& launch, const StudyInput& input, int64_t num_bins) {
  fill_zero(launch, input.counts, input.channels * num_bins * int64_t{sizeof(int64_t)});
}

} // namespace histo::cuda

/// Instantiates a variant for every binning.
#define HISTO_INSTANTIATE_VARIANT(name)                                       \
  namespace histo::cuda {                                                     \
  template void name(const StudyInput&, const ValueBinning&, const Launch&);  \
  template void name(const StudyInput&, const LetterBinning&, const Launch&); \
  }
