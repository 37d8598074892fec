// Joint histograms of coordinates that follow each other in memory: the kernels of a call, and those
// that finish it.
#include "cuda/axis/search.cuh"
#include "cuda/count/dispatch.h"
#include "cuda/fill/fill.h"
#include "cuda/fill/joint_streams.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/clear.h"
#include "cuda/storage/joint_cells.cuh"

namespace histo::cuda {
namespace {

constexpr unsigned kThreadsOfSum = 256;
// A bin has no more threads than its tables. It has more than 2^kEnoughLogLanesOfSum, which read parts
// of lines, only if the SMs would have fewer than kThreadsOfSmOfSum.
constexpr unsigned kEnoughLogLanesOfSum = 3;
constexpr unsigned kMostLogLanesOfSum = 5;
constexpr int64_t kThreadsOfSmOfSum = 1024;
constexpr int kThreadsOfPick = 256;

/// Sums the tables of the blocks of each channel. A bin has 2^log_lanes threads of a block.
__global__ __launch_bounds__(kThreadsOfSum) void sum_joint_tables_kernel(
    const uint32_t* __restrict__ tables,
    unsigned chunks,
    unsigned log_lanes,
    int64_t num_bins,
    int64_t size, // bins of all channels
    bool adds,
    unsigned long long* __restrict__ counts) {
  __shared__ unsigned long long sums[kThreadsOfSum];
  const unsigned bins = kThreadsOfSum >> log_lanes; // of the block
  const unsigned column = threadIdx.x % bins, first = threadIdx.x / bins;
  const int64_t index = int64_t{blockIdx.x} * bins + column;
  const int64_t channel = index / num_bins;
  const uint32_t* table = tables + channel * chunks * num_bins + index % num_bins;
  wait_for_previous(); // it writes the tables
  unsigned long long sum = 0;
  if (index < size) {
#pragma unroll 4
    for (unsigned chunk = first; chunk < chunks; chunk += 1u << log_lanes) {
      sum += table[chunk * num_bins];
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (first == 0 && index < size) {
    for (unsigned other = column + bins; other < kThreadsOfSum; other += bins) {
      sum += sums[other];
    }
    counts[index] = adds ? counts[index] + sum : sum;
  }
}

/// The bins of the result from the counts of all cells.
__global__ __launch_bounds__(kThreadsOfPick) void pick_joint_bins_kernel(
    const int64_t* __restrict__ cells,
    const __grid_constant__ JointCells of,
    const uint8_t* __restrict__ first_valid,
    const uint8_t* __restrict__ second_valid,
    const uint8_t* __restrict__ third_valid,
    int64_t num_bins,
    int64_t* __restrict__ counts) {
  wait_for_previous();
  const bool valid[kMostAxes] = {
      *first_valid != 0, *second_valid != 0, third_valid == nullptr || *third_valid != 0};
  const int64_t bin = int64_t{blockIdx.x} * kThreadsOfPick + threadIdx.x;
  if (bin < num_bins) {
    unsigned cell = 0;
    const bool is_counted =
        ShownSlots::of(of, static_cast<unsigned>(bin)).find_cell(of, valid, cell);
    counts[bin] = is_counted ? cells[cell] : 0;
  }
}

void sum_tables(const JointCall& call, const Launch& launch) {
  const JointPlan& plan = call.plan;
  const int64_t size = call.problem.num_counts();
  unsigned log_lanes = 0;
  const int64_t enough = launch.limits.sm_count * kThreadsOfSmOfSum;
  while (log_lanes < kMostLogLanesOfSum && 1u << log_lanes < plan.streams.chunks &&
         (log_lanes < kEnoughLogLanesOfSum || size << log_lanes < enough)) {
    ++log_lanes;
  }
  start(
      launch, "sum_joint_tables", sum_joint_tables_kernel,
      LaunchShape{
          grid_of(ceil_div(size, int64_t{kThreadsOfSum >> log_lanes})), dim3(kThreadsOfSum), 0, 1,
          launch.limits.has_clusters()},
      static_cast<const uint32_t*>(call.workspace), plan.streams.chunks, log_lanes,
      call.problem.num_bins, size, plan.storage == JointStorage::kHalves, totals_of(call.problem));
}

/// Counts the cells that elements have, and picks those of the result.
void count_cells(const JointCall& call, const Launch& launch) {
  const JointCells& cells = call.plan.streams.cells;
  auto* counts =
      static_cast<int64_t*>(launch.allocate(int64_t{cells.size()} * int64_t{sizeof(int64_t)}));
  const Problem problem =
      problem_of_index(call.workspace, 1, call.plan.index_words, cells.size(), counts);
  count(problem, ValueBinning{problem.num_bins}, launch);
  const uint8_t* valid[kMostAxes] = {};
  for (int d = 0; d < call.axes.count; ++d) {
    valid[d] = check_channels(call.axes.axes[d].edges, 1, launch);
  }
  start(
      launch, "pick_joint_bins", pick_joint_bins_kernel,
      grid_of(ceil_div(call.problem.num_bins, kThreadsOfPick)), dim3(kThreadsOfPick), 0, counts,
      cells, valid[0], valid[1], valid[2], call.problem.num_bins, call.problem.counts);
}

void fill(const JointCall& call, const Launch& launch) {
  if (call.plan.samples == JointSamples::kInterleaved) {
    return fill_interleaved(call, launch);
  }
  if (call.axes.count == 3) {
    return fill_triples(call, launch);
  }
  const bool mixed = call.plan.types == JointTypes::kMixed || call.plan.types == JointTypes::kWide;
  mixed ? fill_mixed_pairs(call, launch) : fill_pairs(call, launch);
}

} // namespace

void count_joint_streams(
    const JointPlan& plan, const Problem& problem, const JointAxes& axes, const Launch& launch) {
  void* workspace = plan.workspace_bytes > 0 ? launch.allocate(plan.workspace_bytes) : nullptr;
  const JointCall call{plan, problem, axes, workspace};
  if (plan.storage == JointStorage::kHalves) { // what overflows is added to the result
    clear(launch, problem, launch.limits.has_clusters());
  }
  fill(call, launch);
  if (plan.storage == JointStorage::kIndex) {
    count_cells(call, launch);
  } else if (plan.streams.chunks > 1) {
    sum_tables(call, launch);
  }
}

} // namespace histo::cuda
