// A thread an element, one atomic addition to the result in global memory.
//
// Lesson: additions to one address go one after another, each as long
// as a trip to L2. The more alike the data, the slower.
#include "cuda/study/study.cuh"

namespace histo::cuda {
namespace {

template <class Binning, class AtomicPolicy>
__global__ void global_atomic_kernel(StudyInput input, Binning binning, AtomicPolicy atomics) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= input.length * input.channels) {
    return;
  }
  const int64_t bin = binning(input.data[i]);
  if (bin != kNoBin) {
    const int64_t channel = i % input.channels;
    atomics.add_global(&input.counts[channel * binning.num_bins + bin], 1ull);
  }
}

} // namespace

template <class Binning>
void global_atomic(const StudyInput& input, const Binning& binning, const Launch& launch) {
  clear_counts(launch, input, binning.num_bins);
  with_atomics(launch, [&](auto atomics) {
    start(
        launch, "global_atomic", global_atomic_kernel<Binning, decltype(atomics)>,
        grid_of(ceil_div(input.length * input.channels, kThreads)), kThreads, 0, input, binning,
        atomics);
  });
}

} // namespace histo::cuda

HISTO_INSTANTIATE_VARIANT(global_atomic)
