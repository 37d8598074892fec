// The operator of joint histograms (program.cpp tells how an operator is run).
#include "cuda/fill/joint.h"

#include <string>
#include <vector>

#include "cuda/plan/joint_plan.h"
#include "emulator/arrays.h"

namespace emulated {
namespace {

std::string words_of(const cuda::JointPlan& plan) {
  std::string words = plan.samples == cuda::JointSamples::kSeparate ? "separate" : "interleaved";
  switch (plan.types) {
    case cuda::JointTypes::kSame:
      words += " same";
      break;
    case cuda::JointTypes::kIds:
      words += " ids";
      break;
    case cuda::JointTypes::kMixed:
      words += " mixed";
      break;
    case cuda::JointTypes::kWide:
      words += " wide";
      break;
  }
  switch (plan.storage) {
    case cuda::JointStorage::kTable:
      words += " table";
      break;
    case cuda::JointStorage::kHalves:
      words += " halves";
      break;
    case cuda::JointStorage::kIndex:
      words += " index";
      break;
  }
  words += plan.streams.in_turns() ? "" : " runs";
  return words + (plan.streams.chunks > 1 ? " chunks" : "");
}

} // namespace

/// The number of coordinates, their shapes, flow, for each axis the type of its edges, its bins and
/// whether channels share them, the GPU, the arrays of the edges, whether all coordinates lie in one
/// array, and those of the coordinates.
void joint_histogram() {
  const int count = read<int>();
  Problem problem = read_operands(count);
  JointAxes axes{count, {read() != 0}, {}};
  for (int d = 0; d < count; ++d) {
    const auto type = read<ElementType>();
    const int64_t bins = read();
    const bool shared = read() != 0;
    axes.axes[d] = {axes.flow.num_counts(bins), false, Edges::all(nullptr, type, bins, shared)};
  }
  problem.num_bins = axes.num_slots();
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  std::vector<Array> edges(static_cast<size_t>(count));
  const bool in_one = read() != 0;
  const std::vector<Array> arrays(in_one ? 1 : static_cast<size_t>(count));
  end_of_line();
  const Result counts(problem.num_counts() * int64_t{sizeof(int64_t)});
  problem.counts = counts.data<int64_t>();
  for (int d = 0; d < count; ++d) {
    axes.axes[d].edges.data = edges[static_cast<size_t>(d)].data();
  }
  for (int d = 0; d < count; ++d) {
    problem.operand(d).data = in_one && d > 0 ? static_cast<const uint8_t*>(problem.data) +
                                                    d * cuda::bytes_of_type(problem.type)
                                              : arrays[static_cast<size_t>(d)].data();
  }
  const auto plan =
      problem.num_rows() > 0 ? plan_joint(problem, axes, launch.limits) : std::nullopt;
  std::cout << (plan ? words_of(*plan) : "simple") << '\n';
  cuda::count_joint(problem, axes, launch);
  counts.write();
}

} // namespace emulated
