// A private histogram per block in global memory, merged with atomics.
//
// Lesson: blocks no longer wait for each other's additions, only for
// their own; but every addition is still a trip to L2, and
// the private histograms cost memory, so there are few of them and the blocks loop.
#include "cuda/study/study.cuh"

namespace histo::cuda {
namespace {

/// At most this many blocks, hence private histograms, over all panels.
constexpr int64_t kMaxPrivateBlocks = 512;

template <class Binning, class AtomicPolicy>
__global__ void privatized_global_kernel(
    StudyInput input,
    Binning binning,
    AtomicPolicy atomics,
    uint32_t* histograms,
    int64_t histogram_size) {
  const StudyPanel panel = panel_of_block(input, binning.num_bins);
  const int num_bins = static_cast<int>(binning.num_bins);
  uint32_t* histogram = histograms + blockIdx.x * histogram_size;
  clear_histogram(histogram, panel.width * num_bins);

  const int64_t stride = panel.num_blocks * kThreads;
  for (int64_t e = panel.block * kThreads + threadIdx.x; e < panel.size(); e += stride) {
    const int64_t bin = binning(panel[e]);
    if (bin != kNoBin) {
      atomics.add_global(&histogram[panel.channel(e) * num_bins + bin], 1u);
    }
  }
  merge_histogram(histogram, panel.width * num_bins, panel.counts, atomics);
}

} // namespace

template <class Binning>
void privatized_global(const StudyInput& input, const Binning& binning, const Launch& launch) {
  clear_counts(launch, input, binning.num_bins);
  const int64_t panels = num_panels(input);
  const int64_t blocks =
      panels *
      std::clamp<int64_t>(kMaxPrivateBlocks / panels, 1, ceil_div(panel_elements(input), kThreads));
  const int64_t bytes = histogram_bytes(input, binning.num_bins);
  auto* histograms = static_cast<uint32_t*>(launch.allocate(blocks * bytes));
  with_atomics(launch, [&](auto atomics) {
    start(
        launch, "privatized_global", privatized_global_kernel<Binning, decltype(atomics)>,
        grid_of(blocks), kThreads, 0, input, binning, atomics, histograms,
        bytes / int64_t{sizeof(uint32_t)});
  });
}

} // namespace histo::cuda

HISTO_INSTANTIATE_VARIANT(privatized_global)
