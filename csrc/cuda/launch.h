// Launching kernels: the stream, the device's limits, memory.
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

#include "core/accumulator.h"
#include "core/numbers.h"
#include "core/problem.h"
#include "cuda/plan/layouts.h"

namespace histo::cuda {

struct Launch {
  cudaStream_t stream;
  DeviceLimits limits;
  Allocator& allocate;
  // The study kernels tally their atomic additions here, [global, shared]. Not null only in the
  // benchmark that counts them.
  unsigned long long* tally = nullptr;
};

/// Throws std::runtime_error if `what` has failed.
void check(cudaError_t error, const char* what);

/// Throws: the plan asks for a kernel that is not there.
[[noreturn]] void no_kernel(const char* name);

/// A grid of one dimension; throws std::runtime_error if a grid cannot have that many blocks.
dim3 grid_of(int64_t blocks);

/// Calls f(TypeTag<T>{}) with the unsigned type as wide as the elements. Kernels count bits: signs
/// show where bins are looked up, in limits and tables.
template <class F>
void visit_unsigned_type(ElementType type, F&& f) {
  visit_number_type(type, [&](auto tag) {
    f(TypeTag<typename UnsignedOf<sizeof(typename decltype(tag)::type)>::type>{});
  });
}

inline void fill_zero(const Launch& launch, void* memory, int64_t bytes) {
  check(
      cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), launch.stream), "filling with zeros");
}

/// The result, as atomics take it.
inline Count::Total* totals_of(const Problem& problem) {
  return reinterpret_cast<Count::Total*>(problem.counts);
}

inline void clear_counts(const Launch& launch, const Problem& problem) {
  fill_zero(launch, problem.counts, problem.num_counts() * int64_t{sizeof(int64_t)});
}

/// The shape of a launch. It must ask an older GPU for nothing that this one cannot do.
struct LaunchShape {
  dim3 grid;
  dim3 block;
  int64_t shared_bytes = 0;
  int cluster = 1;
  // Starts before the kernel launched last has ended; the kernel itself waits for
  // that one's writes (wait_for_previous).
  bool overlaps = false;
  // All blocks are resident at the same time, so that they can wait for each other.
  bool cooperative = false;
};

/// Launches a kernel, with as much dynamic shared memory as it asks for.
template <class... Parameters, class... Arguments>
void start(
    const Launch& launch,
    const char* name,
    void (*kernel)(Parameters...),
    const LaunchShape& shape,
    const Arguments&... arguments) {
  // A kernel must ask each device for more than 48 KiB, with what it declares itself. This is cheap,
  // so it always asks.
  if (shape.shared_bytes > 32 * 1024) {
    check(
        cudaFuncSetAttribute(
            reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
            static_cast<int>(shape.shared_bytes)),
        name);
  }
  cudaLaunchAttribute attributes[3];
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = launch.stream;
  config.attrs = attributes;
  if (shape.cluster > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  }
  if (shape.overlaps) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cooperative) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  }
  check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), name);
}

template <class... Parameters, class... Arguments>
void start(
    const Launch& launch,
    const char* name,
    void (*kernel)(Parameters...),
    dim3 grid,
    dim3 block,
    int64_t shared_bytes,
    const Arguments&... arguments) {
  start(launch, name, kernel, LaunchShape{grid, block, shared_bytes}, arguments...);
}

} // namespace histo::cuda
