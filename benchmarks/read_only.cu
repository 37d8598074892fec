// The least that any kernel takes: reads an input once, and does nothing else. Which grid reads
// fastest depends on the size, so the caller tries several and takes the best.
#include <cstdint>

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 512;

template <int kUnroll>
__global__ __launch_bounds__(kThreads) void read_only_kernel(
    const uint8_t* __restrict__ data, int64_t bytes, uint32_t* sink) {
  const auto* vec16s = reinterpret_cast<const uint4*>(data);
  const int64_t size = bytes / 16;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  // The last bytes that fill no vec16: one thread each.
  uint32_t seen = i < bytes % 16 ? data[size * 16 + i] : 0;
  const auto look = [&](const uint4& vec16) { seen ^= vec16.x ^ vec16.y ^ vec16.z ^ vec16.w; };
  for (; i + (kUnroll - 1) * stride < size; i += kUnroll * stride) {
    uint4 loaded[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      loaded[k] = __ldcs(vec16s + i + k * stride);
    }
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      look(loaded[k]);
    }
  }
  for (; i < size; i += stride) {
    look(__ldcs(vec16s + i));
  }
  // Depends on every load, and next to never happens.
  if (seen == 0x9e3779b9) {
    *sink = seen;
  }
}

} // namespace

// `data` is aligned to 16 bytes; `unroll` is 1, 4 or 8 loads of 16 bytes in flight a thread.
extern "C" int read_only(
    const void* data, int64_t bytes, void* sink, int unroll, int max_blocks, void* stream) {
  const auto kernel = unroll == 8   ? read_only_kernel<8>
                      : unroll == 4 ? read_only_kernel<4>
                                    : read_only_kernel<1>;
  // At least one load for each thread, and at least one block.
  const int64_t needed = bytes / 16 / kThreads + 1;
  const auto blocks = static_cast<unsigned>(needed < max_blocks ? needed : max_blocks);
  kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint8_t*>(data), bytes, static_cast<uint32_t*>(sink));
  return cudaGetLastError();
}
