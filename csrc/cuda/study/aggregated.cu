// As privatized_shared, but each thread walks down a run of one channel, gathers
// equal neighbours in a register and adds once for all of them.
//
// Lesson: where data come in runs (images, sorted values) most additions
// need not happen at all; where they do not, the comparison is paid for nothing.
#include "cuda/study/study.cuh"

namespace histo::cuda {
namespace {

/// Rows a thread.
constexpr int kRun = 64;

template <class Binning, class AtomicPolicy>
__global__ void aggregated_kernel(StudyInput input, Binning binning, AtomicPolicy atomics) {
  extern __shared__ uint32_t histogram[];
  const StudyPanel panel = panel_of_block(input, binning.num_bins);
  const int num_bins = static_cast<int>(binning.num_bins);
  clear_histogram(histogram, panel.width * num_bins);

  const int64_t run = panel.block * kThreads + threadIdx.x;
  const int channel = panel.channel(run);
  const int64_t begin = run / panel.width * kRun;
  const int64_t end = min(begin + kRun, panel.rows);

  int64_t gathered_bin = kNoBin;
  uint32_t gathered = 0;
  const auto add_gathered = [&] {
    if (gathered_bin != kNoBin) {
      atomics.add_shared(&histogram[channel * num_bins + gathered_bin], gathered);
    }
  };
  for (int64_t row = begin; row < end; ++row) {
    const int64_t bin = binning(panel.data[row * panel.row_stride + channel]);
    if (bin != gathered_bin) {
      add_gathered();
      gathered_bin = bin;
      gathered = 0;
    }
    ++gathered;
  }
  add_gathered();
  merge_histogram(histogram, panel.width * num_bins, panel.counts, atomics);
}

} // namespace

template <class Binning>
void aggregated(const StudyInput& input, const Binning& binning, const Launch& launch) {
  clear_counts(launch, input, binning.num_bins);
  const int64_t width = std::min<int64_t>(input.channels, kPanelChannels);
  const int64_t runs = ceil_div(input.length, kRun) * width;
  with_atomics(launch, [&](auto atomics) {
    start(
        launch, "aggregated", aggregated_kernel<Binning, decltype(atomics)>,
        grid_of(num_panels(input) * ceil_div(runs, kThreads)), kThreads,
        histogram_bytes(input, binning.num_bins), input, binning, atomics);
  });
}

} // namespace histo::cuda

HISTO_INSTANTIATE_VARIANT(aggregated)
