#include "cuda/cluster.cuh"
#include "cuda/pdl.cuh"
#include "cuda/walk/loads.cuh"
#include "emulator/broken.h"

namespace emulated {
namespace {

using namespace histo::cuda;
using Kernel = void (*)(const uint8_t* input, unsigned long long* counts);

constexpr unsigned kThreads = 64;

__global__ void reads_beyond_the_end(const uint8_t* input, unsigned long long* counts) {
  wait_for_previous();
  atomicAdd(&counts[0], input[threadIdx.x == 5 ? 4095 : 0]);
}
__global__ void reads_before_the_begin(const uint8_t* input, unsigned long long* counts) {
  wait_for_previous();
  atomicAdd(&counts[0], load_once(input - 1));
}
__global__ void loads_misaligned_words(const uint8_t* input, unsigned long long* counts) {
  wait_for_previous();
  atomicAdd(&counts[0], load_once(reinterpret_cast<const uint4*>(input + 19)).x);
}
__global__ void writes_the_input(const uint8_t* input, unsigned long long*) {
  wait_for_previous();
  const_cast<uint8_t*>(input)[0] = 0;
}
__global__ void reads_what_it_must_wait_for(const uint8_t* input, unsigned long long* counts) {
  const uint8_t value = load_once(input);
  wait_for_previous();
  atomicAdd(&counts[0], value);
}
__global__ void adds_to_what_it_must_wait_for(const uint8_t*, unsigned long long* counts) {
  atomicAdd(&counts[0], 1ull);
}
__global__ void adds_without_atomics(const uint8_t*, unsigned long long* counts) {
  wait_for_previous();
  counts[blockIdx.x + threadIdx.x] = 0;
  counts[0] += 1;
}
__global__ void misses_a_barrier(const uint8_t*, unsigned long long* counts) {
  __shared__ uint32_t values[kThreads];
  wait_for_previous();
  values[threadIdx.x] = 0;
  __syncthreads();
  values[threadIdx.x] = threadIdx.x;
  counts[kThreads * blockIdx.x + threadIdx.x] = values[threadIdx.x ^ 1];
}
__global__ void misses_a_barrier_of_a_warp(const uint8_t*, unsigned long long* counts) {
  __shared__ uint32_t values[kThreads];
  wait_for_previous();
  values[threadIdx.x] = 0;
  __syncwarp();
  const uint32_t other = values[threadIdx.x ^ 1];
  values[threadIdx.x] = other;
  counts[kThreads * blockIdx.x + threadIdx.x] = other;
}
__global__ void takes_a_barrier_of_a_warp_for_one_of_the_block(
    const uint8_t*, unsigned long long* counts) {
  __shared__ uint32_t values[kThreads];
  wait_for_previous();
  values[threadIdx.x] = 0;
  __syncwarp();
  counts[kThreads * blockIdx.x + threadIdx.x] = values[threadIdx.x ^ 32];
}
__global__ void reads_what_nobody_wrote(const uint8_t*, unsigned long long* counts) {
  extern __shared__ uint32_t table[];
  wait_for_previous();
  atomicAdd(&table[threadIdx.x], 1);
  counts[kThreads * blockIdx.x + threadIdx.x] = table[threadIdx.x];
}
__global__ void reads_a_block_that_ended(const uint8_t*, unsigned long long* counts) {
  extern __shared__ uint32_t table[];
  wait_for_previous();
  table[threadIdx.x] = 0;
  sync_cluster();
  counts[kThreads * blockIdx.x + threadIdx.x] = load_from_rank(&table[threadIdx.x], 0);
}
__global__ void waits_for_a_barrier_that_few_reach(const uint8_t*, unsigned long long*) {
  wait_for_previous();
  if (threadIdx.x % 32 < 16) {
    __shfl_sync(0xffffffff, 0, 0);
  } else {
    __syncthreads();
  }
}

} // namespace

void start_broken(
    const std::string& name,
    const Launch& launch,
    const uint8_t* input,
    unsigned long long* counts) {
  const auto start_if = [&](const char* its_name, Kernel kernel) {
    if (name == its_name) {
      start(
          launch, its_name, kernel, LaunchShape{dim3(2), dim3(kThreads), 256, 2, true}, input,
          counts);
    }
  };
#define START(kernel) start_if(#kernel, kernel)
  START(reads_beyond_the_end);
  START(reads_before_the_begin);
  START(loads_misaligned_words);
  START(writes_the_input);
  START(reads_what_it_must_wait_for);
  START(adds_to_what_it_must_wait_for);
  START(adds_without_atomics);
  START(misses_a_barrier);
  START(misses_a_barrier_of_a_warp);
  START(takes_a_barrier_of_a_warp_for_one_of_the_block);
  START(reads_what_nobody_wrote);
  START(reads_a_block_that_ended);
  START(waits_for_a_barrier_that_few_reach);
#undef START
}

} // namespace emulated
