// CUDA C++ for a host compiler: as much of it as the kernels need.
//
// A thread is a fiber, which runs until it waits for others. The blocks of a cluster run together,
// and so do all blocks of a cooperative launch; other blocks run one after the other. The kernels are
// compiled with calls before each of their loads and stores (-fsanitize=thread, without its library),
// and memory.cpp checks what they touch. So a wrong address, a missing barrier and an addition that
// is not atomic are found where there is no GPU; speed is not.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>

#undef __global__
#undef __device__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#undef __align__
#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace emulated {

// --- The scheduler (emulator.cpp) --------------------------------------------------------------

/// Shared memory of the block that runs: as many bytes as its launch asked for, and not one more.
uint8_t* dynamic_shared();
/// Shared memory that the block that runs has declared under this key.
void* static_shared(unsigned key, size_t bytes);
unsigned new_key();
unsigned cluster_size();
/// How many threads of the block gave true.
int wait_for_block(bool given = true);
/// The threads of so many warps wait for each other.
void wait_for_team(unsigned threads);
void wait_for_cluster();
/// The lanes of a mask wait for each other, and each gives a value.
struct Given {
  uint64_t value;    // of the lane that was asked for
  unsigned ballot;   // a bit for each lane that gave another value than 0
  unsigned same;     // a bit for each lane that gave the same value
  uint32_t interval; // that begins when all have come
};
Given exchange(unsigned mask, uint64_t value, int source = 0);
/// They wait for each other's accesses of memory, too.
void wait_for_lanes(unsigned mask);
unsigned lane();
/// The lanes that come to the same place before the warp has nothing else to do.
unsigned active_lanes();
/// Others run on; for a thread that asks again and again.
void let_others_run();
void wait_for_previous();
void let_next_start();
void launch(
    const char* name, const cudaLaunchConfig_t& config, const std::function<void()>& kernel);

// --- Memory (memory.cpp) -----------------------------------------------------------------------

uint32_t add(uint32_t* address, uint32_t value);
uint64_t add(uint64_t* address, uint64_t value);
uint32_t compare_and_swap(uint32_t* address, uint32_t expected, uint32_t value);
uint32_t set_bits(uint32_t* address, uint32_t bits);
uint32_t raise(uint32_t* address, uint32_t value);
uint64_t raise(uint64_t* address, uint64_t value);
int64_t raise(int64_t* address, int64_t value);
int64_t lower(int64_t* address, int64_t value);
void store_half(uint16_t* address, uint16_t value);
uint32_t load_of_rank(const uint32_t* address, uint32_t rank);
uint32_t load_acquired(const uint32_t* address);
/// Who reads a discarded line again reads what nobody wrote.
void discard(const void* address, size_t bytes);
/// An address of shared memory as 32 bits, and back.
uint32_t shared_address(const void* pointer);
uint8_t* shared_pointer(uint32_t address);

} // namespace emulated

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

[[noreturn]] inline void __trap() {
  std::abort();
}
inline void __syncthreads() {
  emulated::wait_for_block();
}
inline int __syncthreads_count(bool holds) {
  return emulated::wait_for_block(holds);
}
inline int __syncthreads_and(bool holds) {
  return emulated::wait_for_block(!holds) == 0;
}
inline int __syncthreads_or(bool holds) {
  return emulated::wait_for_block(holds) != 0;
}
inline void __syncwarp(unsigned mask = 0xffffffff) {
  emulated::wait_for_lanes(mask);
}
inline void __threadfence() {
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "no value that lanes exchange");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = emulated::exchange(mask, bits, source).value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned step) {
  const unsigned lane = emulated::lane();
  return __shfl_sync(mask, value, static_cast<int>(lane < step ? lane : lane - step));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned step, unsigned width = 32) {
  const unsigned lane = emulated::lane();
  return __shfl_sync(
      mask, value, static_cast<int>(lane % width + step < width ? lane + step : lane));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return __shfl_sync(mask, value, static_cast<int>(emulated::lane()) ^ bits);
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  return emulated::exchange(mask, value).same;
}
inline unsigned __activemask() {
  return emulated::active_lanes();
}
inline unsigned __ballot_sync(unsigned mask, bool holds) {
  return emulated::exchange(mask, holds).ballot;
}
inline bool __all_sync(unsigned mask, bool holds) {
  return emulated::exchange(mask, holds).ballot == mask;
}
inline bool __any_sync(unsigned mask, bool holds) {
  return emulated::exchange(mask, holds).ballot != 0;
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
inline uint32_t __vmaxu2(uint32_t a, uint32_t b) {
  return max(a >> 16, b >> 16) << 16 | max(a & 0xffff, b & 0xffff);
}
inline uint32_t __vmins2(uint32_t a, uint32_t b) {
  return __vminu2(a ^ 0x80008000, b ^ 0x80008000) ^ 0x80008000;
}
inline uint32_t __vmaxs2(uint32_t a, uint32_t b) {
  return __vmaxu2(a ^ 0x80008000, b ^ 0x80008000) ^ 0x80008000;
}
inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, unsigned shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, unsigned shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (shift & 31));
}
inline int __float2int_rn(float value) {
  return static_cast<int>(__builtin_rintf(value));
}
inline float __int2float_rz(int value) {
  return static_cast<float>(value);
}
inline int __ffs(unsigned bits) {
  return __builtin_ffs(static_cast<int>(bits));
}
inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
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
void __stcs(T* address, T value) {
  *address = value;
}
inline uint32_t atomicAdd(uint32_t* address, uint32_t value) {
  return emulated::add(address, value);
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return emulated::add(reinterpret_cast<uint64_t*>(address), value);
}
inline uint32_t atomicCAS(uint32_t* address, uint32_t expected, uint32_t value) {
  return emulated::compare_and_swap(address, expected, value);
}
inline uint32_t atomicOr(uint32_t* address, uint32_t bits) {
  return emulated::set_bits(address, bits);
}
inline uint32_t atomicMax(uint32_t* address, uint32_t value) {
  return emulated::raise(address, value);
}
inline unsigned long long atomicMax(unsigned long long* address, unsigned long long value) {
  return emulated::raise(reinterpret_cast<uint64_t*>(address), value);
}
inline long long atomicMax(long long* address, long long value) {
  return emulated::raise(reinterpret_cast<int64_t*>(address), value);
}
inline long long atomicMin(long long* address, long long value) {
  return emulated::lower(reinterpret_cast<int64_t*>(address), value);
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
