// CUDA C++ for a host compiler: as much of it as the kernels of the engine need.
//
// A thread is a fiber, which runs until it waits for others; the blocks of a cluster run together,
// clusters one after the other. So what a kernel reads, adds and writes can be tested where there is
// no GPU, by a compiler that checks every address. Races and speed cannot.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#undef __global__
#undef __device__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#undef __align__
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace emulated {

/// Of the block that runs: as many bytes as its launch asked for, and not one more.
uint8_t* dynamic_shared();
uint8_t* dynamic_shared_of(unsigned rank);
/// Of the block that runs, what it has declared under that key.
void* static_shared(unsigned key, size_t bytes);
unsigned new_key();
unsigned cluster_size();
void wait_for_block();
void wait_for_cluster();
/// The value that lane `source` gave; all lanes of the warp, or a thread alone.
uint32_t exchange(unsigned mask, uint32_t value, int source);
void launch(
    const char* name, const cudaLaunchConfig_t& config, const std::function<void()>& kernel);

/// Addresses of shared memory have 32 bits, and are not 0.
constexpr uint32_t kFirstAddress = 1024;

} // namespace emulated

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

inline void __syncthreads() {
  emulated::wait_for_block();
}
inline void __syncwarp() {
}
inline uint32_t __shfl_sync(unsigned mask, uint32_t value, int source) {
  return emulated::exchange(mask, value, source);
}
/// Threads need not find each other: each is active alone.
inline unsigned __activemask() {
  return 1u << threadIdx.x % 32;
}
inline bool __all_sync(unsigned /*mask*/, bool holds) {
  return holds;
}

template <class A, class B>
constexpr auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
template <class A, class B>
constexpr auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t chosen = 0;
  for (int i = 0; i < 4; ++i) {
    chosen |= static_cast<uint32_t>(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  }
  return chosen;
}
inline uint32_t __dp2a_lo(uint32_t halves, uint32_t bytes, uint32_t sum) {
  return sum + (halves & 0xffff) * (bytes & 0xff) + (halves >> 16) * (bytes >> 8 & 0xff);
}
inline uint32_t __dp4a(uint32_t a, uint32_t b, uint32_t sum) {
  for (int bit = 0; bit < 32; bit += 8) {
    sum += (a >> bit & 0xff) * (b >> bit & 0xff);
  }
  return sum;
}
inline uint32_t __vminu2(uint32_t a, uint32_t b) {
  return min(a >> 16, b >> 16) << 16 | min(a & 0xffff, b & 0xffff);
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, unsigned shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (shift & 31));
}
inline int __ffs(unsigned bits) {
  return __builtin_ffs(static_cast<int>(bits));
}
inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcg(T* address, T value) {
  *address = value;
}
template <class T>
T atomicAdd(T* address, std::common_type_t<T> value) {
  const T before = *address;
  *address += value;
  return before;
}
template <class T>
T atomicCAS(T* address, std::common_type_t<T> expected, std::common_type_t<T> value) {
  const T before = *address;
  *address = before == expected ? value : before;
  return before;
}

namespace emulated {

/// In place of cudaLaunchKernelEx, with the name that `start` has for the kernel.
template <class... Parameters, class... Arguments>
cudaError_t launch_named(
    const char* name,
    const cudaLaunchConfig_t* config,
    void (*kernel)(Parameters...),
    Arguments... arguments) {
  launch(name, *config, [&] { kernel(arguments...); });
  return cudaSuccess;
}

} // namespace emulated
