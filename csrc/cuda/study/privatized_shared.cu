// A private histogram per block in shared memory, merged with atomics.
//
// Lesson: an addition in shared memory is several times quicker than one
// in L2. But a block that takes one element a thread clears
// and merges a whole histogram for 1,024 elements.
#include "cuda/study/study.cuh"

namespace histo::cuda {
namespace {

template <class Binning, class AtomicPolicy>
__global__ void privatized_shared_kernel(StudyInput input, Binning binning, AtomicPolicy atomics) {
  extern __shared__ uint32_t histogram[];
  const StudyPanel panel = panel_of_block(input, binning.num_bins);
  const int num_bins = static_cast<int>(binning.num_bins);
  clear_histogram(histogram, panel.width * num_bins);

  const int64_t e = panel.block * kThreads + threadIdx.x;
  if (e < panel.size()) {
    const int64_t bin = binning(panel[e]);
    if (bin != kNoBin) {
      atomics.add_shared(&histogram[panel.channel(e) * num_bins + bin], 1);
    }
  }
  merge_histogram(histogram, panel.width * num_bins, panel.counts, atomics);
}

} // namespace

template <class Binning>
void privatized_shared(const StudyInput& input, const Binning& binning, const Launch& launch) {
  clear_counts(launch, input, binning.num_bins);
  with_atomics(launch, [&](auto atomics) {
    start(
        launch, "privatized_shared", privatized_shared_kernel<Binning, decltype(atomics)>,
        grid_of(num_panels(input) * ceil_div(panel_elements(input), kThreads)), kThreads,
        histogram_bytes(input, binning.num_bins), input, binning, atomics);
  });
}

} // namespace histo::cuda

HISTO_INSTANTIATE_VARIANT(privatized_shared)
