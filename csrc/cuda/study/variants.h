// The study kernels: the classic sequence of ways to count, each in a file of its
// own. All take the same input, so that they can be read, and timed, side by side.
#pragma once

#include <cstdint>

#include "core/axis.h"
#include "cuda/launch.h"

namespace histo::cuda {

/// Contiguous bytes `[length, channels]`, counted per channel.
struct StudyInput {
  const uint8_t* data;
  int64_t length;
  int64_t channels;
  unsigned long long* counts; // [channels, num_bins], not initialized
};

template <class Binning>
void global_atomic(const StudyInput& input, const Binning& binning, const Launch& launch);
template <class Binning>
void privatized_global(const StudyInput& input, const Binning& binning, const Launch& launch);
template <class Binning>
void privatized_shared(const StudyInput& input, const Binning& binning, const Launch& launch);
template <class Binning>
void coarsened_contiguous(const StudyInput& input, const Binning& binning, const Launch& launch);
template <class Binning>
void coarsened_interleaved(const StudyInput& input, const Binning& binning, const Launch& launch);
template <class Binning>
void aggregated(const StudyInput& input, const Binning& binning, const Launch& launch);
template <class Binning>
void tiled(const StudyInput& input, const Binning& binning, const Launch& launch);

} // namespace histo::cuda
