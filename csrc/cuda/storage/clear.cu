#include "cuda/storage/clear.h"

#include <algorithm>

#include "cuda/pdl.cuh"

namespace histo::cuda {
namespace {

__global__ void clear_kernel(uint64_t* __restrict__ counts, int64_t size) {
  wait_for_previous(); // it may read the memory that the counts have now
  let_next_start();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size; i += step) {
    counts[i] = 0;
  }
}

} // namespace

void clear(const Launch& launch, int64_t* counts, int64_t size, bool overlaps) {
  if (!overlaps) {
    return fill_zero(launch, counts, size * int64_t{sizeof(int64_t)});
  }
  constexpr int kThreads = 512;
  const int64_t blocks =
      std::min<int64_t>(ceil_div(size, kThreads), int64_t{4} * launch.limits.sm_count);
  start(
      launch, "clear_counts", clear_kernel, LaunchShape{grid_of(blocks), kThreads, 0, 1, true},
      reinterpret_cast<uint64_t*>(counts), size);
}

Prepared prepare(const CountPlan& plan, const Problem& problem, const Launch& launch) {
  const bool overlaps = launch.limits.has_clusters();
  const bool reduces = plan.reduce_blocks > 0;
  // Two kernels overlap; three launches begin with a memset.
  const bool fills = plan.clears && reduces;
  if (plan.clears) {
    clear(launch, problem, overlaps && !fills);
  }
  // On an idle GPU neighbouring blocks come to SMs of one GPC, whose requests for a line meet on
  // the way to the cache. Blocks that share lines must not start as SMs become free: uint8
  // [2^20, 500] then takes 168 us, and not 126.
  return {
      reduces ? static_cast<uint4*>(launch.allocate(plan.workspace_bytes)) : nullptr,
      overlaps && !fills && !plan.shares_lines};
}

} // namespace histo::cuda
