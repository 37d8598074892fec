// Sums of weights of short channels (program.cpp tells how an operator is run).
#include "cuda/fill/warp_sums.h"

#include "emulator/arrays.h"

namespace emulated {

/// The shapes of values and weights, flow, the type of the edges, the bins, the GPU, the arrays of the
/// edges, the values and the weights. The word is "none" if there is no plan; there are no sums then.
void warp_sums() {
  Problem problem = read_operands(2);
  const Flow flow{read() != 0};
  const auto edge_type = read<ElementType>();
  const int64_t bins = read();
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  const Array of_edges, values, weights;
  end_of_line();
  const Edges edges = Edges::all(of_edges.data(), edge_type, bins, true);
  problem.num_bins = flow.num_counts(bins);
  const Result sums(problem.num_counts() * int64_t{sizeof(double)});
  problem.data = values.data();
  problem.operand(1).data = weights.data();
  const auto plan = cuda::plan_warp_sums(problem, edges, launch.limits);
  if (!plan) {
    std::cout << "none\n";
    return;
  }
  if (plan->shared_bytes > launch.limits.shared_per_block) {
    std::cerr << "the plan takes too much memory\n";
    std::exit(4);
  }
  std::cout << plan->threads / 32 << "-warps" << (plan->blocks > 1 ? " several" : "") << '\n';
  cuda::sum_in_warps(*plan, problem, edges, flow, sums.data<double>(), launch);
  sums.write();
}

} // namespace emulated
