// As privatized_shared, but each thread takes a contiguous run of elements.
//
// Lesson: fewer blocks clear and merge fewer histograms. But neighbouring
// threads now read bytes that lie a run apart, so a warp's load touches as many
// more lines of memory as the run is long.
#include "cuda/study/study.cuh"

namespace histo::cuda {
namespace {

/// Elements a thread; the coarsening factor.
constexpr int kRun = 4;

template <class Binning, class AtomicPolicy>
__global__ void coarsened_contiguous_kernel(
    StudyInput input, Binning binning, AtomicPolicy atomics) {
  extern __shared__ uint32_t histogram[];
  const StudyPanel panel = panel_of_block(input, binning.num_bins);
  const int num_bins = static_cast<int>(binning.num_bins);
  clear_histogram(histogram, panel.width * num_bins);

  const int64_t begin = (panel.block * kThreads + threadIdx.x) * kRun;
  const int64_t end = min(begin + kRun, panel.size());
  for (int64_t e = begin; e < end; ++e) {
    const int64_t bin = binning(panel[e]);
    if (bin != kNoBin) {
      atomics.add_shared(&histogram[panel.channel(e) * num_bins + bin], 1);
    }
  }
  merge_histogram(histogram, panel.width * num_bins, panel.counts, atomics);
}

} // namespace

template <class Binning>
void coarsened_contiguous(const StudyInput& input, const Binning& binning, const Launch& launch) {
  clear_counts(launch, input, binning.num_bins);
  with_atomics(launch, [&](auto atomics) {
    start(
        launch, "coarsened_contiguous", coarsened_contiguous_kernel<Binning, decltype(atomics)>,
        grid_of(num_panels(input) * ceil_div(panel_elements(input), kThreads * kRun)), kThreads,
        histogram_bytes(input, binning.num_bins), input, binning, atomics);
  });
}

} // namespace histo::cuda

HISTO_INSTANTIATE_VARIANT(coarsened_contiguous)
