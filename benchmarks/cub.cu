// CUB's histograms as C functions. Called with no workspace they only tell its size, as CUB does.
// Both count `segments` stretches of the input one after the other, each into its own counts.
#include <cstddef>
#include <cstdint>

#include <cub/device/device_histogram.cuh>

namespace {

// `ends` has the lower and the upper one of each segment; null: 0 and num_bins.
template <class Sample, class Level>
cudaError_t even(
    void* workspace,
    size_t& workspace_bytes,
    const void* data,
    int* counts,
    int num_bins,
    int segments,
    int length,
    const double* ends,
    cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  for (int64_t i = 0; i < segments && error == cudaSuccess; ++i) {
    const auto lower = static_cast<Level>(ends == nullptr ? 0 : ends[2 * i]);
    const auto upper = static_cast<Level>(ends == nullptr ? num_bins : ends[2 * i + 1]);
    error = cub::DeviceHistogram::HistogramEven(
        workspace, workspace_bytes, static_cast<const Sample*>(data) + i * length,
        counts + i * num_bins, num_bins + 1, lower, upper, length, stream);
    if (workspace == nullptr) {
      break;
    }
  }
  return error;
}

// One segment.
template <class Sample>
cudaError_t range(
    void* workspace,
    size_t& workspace_bytes,
    const void* data,
    int* counts,
    int num_bins,
    int length,
    const void* edges,
    cudaStream_t stream) {
  return cub::DeviceHistogram::HistogramRange(
      workspace, workspace_bytes, static_cast<const Sample*>(data), counts, num_bins + 1,
      static_cast<const Sample*>(edges), length, stream);
}

} // namespace

// One channel a segment: `length` values of `sample_bytes` each; bytes are unsigned.
extern "C" int histogram_even(
    void* workspace,
    size_t* workspace_bytes,
    const void* data,
    int* counts,
    int num_bins,
    int segments,
    int length,
    int sample_bytes,
    void* stream) {
  const auto run = sample_bytes == 1   ? even<uint8_t, int>
                   : sample_bytes == 2 ? even<int16_t, int>
                   : sample_bytes == 4 ? even<int32_t, int>
                                       : even<int64_t, int>;
  return run(
      workspace, *workspace_bytes, data, counts, num_bins, segments, length, nullptr,
      static_cast<cudaStream_t>(stream));
}

// The same of float or double. `ends` are on the host: a lower and an upper one a segment.
extern "C" int histogram_even_floats(
    void* workspace,
    size_t* workspace_bytes,
    const void* data,
    int* counts,
    int num_bins,
    int segments,
    int length,
    const double* ends,
    int sample_bytes,
    void* stream) {
  const auto run = sample_bytes == 4 ? even<float, float> : even<double, double>;
  return run(
      workspace, *workspace_bytes, data, counts, num_bins, segments, length, ends,
      static_cast<cudaStream_t>(stream));
}

// Between edges on the device, of the type of the values. There is one segment.
extern "C" int histogram_range(
    void* workspace,
    size_t* workspace_bytes,
    const void* data,
    int* counts,
    int num_bins,
    int,
    int length,
    const void* edges,
    int sample_bytes,
    void* stream) {
  const auto run = sample_bytes == 4 ? range<float> : range<double>;
  return run(
      workspace, *workspace_bytes, data, counts, num_bins, length, edges,
      static_cast<cudaStream_t>(stream));
}

// Three channels of bytes, interleaved: `length` pixels a segment, counts [segments, 3, num_bins].
extern "C" int multi_histogram_even(
    void* workspace,
    size_t* workspace_bytes,
    const void* data,
    int* counts,
    int num_bins,
    int segments,
    int length,
    void* stream) {
  cudaError_t error = cudaSuccess;
  const int levels[3] = {num_bins + 1, num_bins + 1, num_bins + 1};
  const int lower[3] = {0, 0, 0};
  const int upper[3] = {num_bins, num_bins, num_bins};
  for (int64_t i = 0; i < segments && error == cudaSuccess; ++i) {
    int* channels[3];
    for (int c = 0; c < 3; ++c) {
      channels[c] = counts + (3 * i + c) * num_bins;
    }
    error = cub::DeviceHistogram::MultiHistogramEven<3, 3>(
        workspace, *workspace_bytes, static_cast<const uint8_t*>(data) + 3 * i * length, channels,
        levels, lower, upper, length, static_cast<cudaStream_t>(stream));
    if (workspace == nullptr) {
      break;
    }
  }
  return error;
}
