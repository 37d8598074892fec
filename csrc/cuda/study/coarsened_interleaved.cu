// As privatized_shared, but threads stride by the whole grid, and load four bytes
// (one 32-bit word) at a time.
//
// Lesson: neighbouring threads read neighbouring words, so a warp's load
// is one line of memory, and a grid that just fills the GPU clears and merges as
// few histograms as possible.
#include "cuda/study/study.cuh"

namespace histo::cuda {
namespace {

/// Blocks an SM, over all panels: two of 1,024 threads fill it.
constexpr int64_t kBlocksPerSm = 2;

/// A panel as rows of words. A single panel has no gaps: all of it is one row.
HISTO_HOST_DEVICE int64_t row_bytes(int64_t channels, int64_t rows, int64_t width) {
  return channels == width ? rows * width : width;
}

HISTO_HOST_DEVICE int64_t num_words(int64_t channels, int64_t rows, int64_t width) {
  const int64_t bytes = row_bytes(channels, rows, width);
  return rows * width / bytes * ceil_div(bytes, 4);
}

template <class Binning, class AtomicPolicy>
__global__ void coarsened_interleaved_kernel(
    StudyInput input, Binning binning, AtomicPolicy atomics) {
  extern __shared__ uint32_t histogram[];
  const StudyPanel panel = panel_of_block(input, binning.num_bins);
  const int num_bins = static_cast<int>(binning.num_bins);
  clear_histogram(histogram, panel.width * num_bins);

  const Bounds bounds{input.data, input.data + input.length * input.channels};
  const int64_t bytes = row_bytes(panel.row_stride, panel.rows, panel.width);
  const int64_t words_per_row = ceil_div(bytes, 4);
  const int64_t words = num_words(panel.row_stride, panel.rows, panel.width);
  const int64_t stride = panel.num_blocks * kThreads;
  for (int64_t w = panel.block * kThreads + threadIdx.x; w < words; w += stride) {
    const int64_t first = w % words_per_row * 4;
    const uint8_t* address = panel.data + w / words_per_row * panel.row_stride + first;
    const int count = static_cast<int>(min(int64_t{4}, bytes - first));
    const bool whole = count == 4 && reinterpret_cast<uintptr_t>(address) % 4 == 0;
    const uint32_t word =
        whole ? load_aligned_word(address).low : load_loose_word(address, count, bounds).bytes();
    int channel = static_cast<int>(first % panel.width);
    for (int i = 0; i < count; ++i) {
      const int64_t bin = binning(byte_of(word, i));
      if (bin != kNoBin) {
        atomics.add_shared(&histogram[channel * num_bins + bin], 1);
      }
      channel = channel + 1 == panel.width ? 0 : channel + 1;
    }
  }
  merge_histogram(histogram, panel.width * num_bins, panel.counts, atomics);
}

} // namespace

template <class Binning>
void coarsened_interleaved(const StudyInput& input, const Binning& binning, const Launch& launch) {
  clear_counts(launch, input, binning.num_bins);
  const int64_t panels = num_panels(input);
  const int64_t width = std::min<int64_t>(input.channels, kPanelChannels);
  const int64_t words = num_words(input.channels, input.length, width);
  const int64_t fill = std::max<int64_t>(kBlocksPerSm * launch.limits.sm_count / panels, 1);
  with_atomics(launch, [&](auto atomics) {
    start(
        launch, "coarsened_interleaved", coarsened_interleaved_kernel<Binning, decltype(atomics)>,
        grid_of(panels * std::min(fill, ceil_div(words, kThreads))), kThreads,
        histogram_bytes(input, binning.num_bins), input, binning, atomics);
  });
}

} // namespace histo::cuda

HISTO_INSTANTIATE_VARIANT(coarsened_interleaved)
