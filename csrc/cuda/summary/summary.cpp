#include "cuda/summary/summary.h"
#include "cuda/storage/gather.h"

namespace histo::cuda {

void summarize(const Problem& given, const Summary& results, const Launch& launch) {
  const Problem problem = copied_into_runs(given, launch);
  const int64_t channels = problem.num_channels(), elements = problem.num_rows();
  if (channels == 0) {
    return;
  }
  visit_number_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Rows = SummaryRows<T>;
    const int64_t bytes = channels * Rows::kRows * int64_t{sizeof(unsigned long long)};
    auto* found = static_cast<unsigned long long*>(launch.allocate(bytes));
    if (elements == 0) {
      fill_zero(launch, found, bytes);
    } else {
      const SummaryPlan plan = plan_summary(problem, launch.limits);
      if (plan.adds) {
        fill_zero(launch, found, bytes);
      }
      std::holds_alternative<ChannelColumns>(plan.layout)
          ? summarize_columns(plan, problem, found, launch)
          : summarize_streams(plan, problem, found, launch);
    }
    const FoundRows rows{
        reinterpret_cast<const int64_t*>(found), Rows::kRows, channels, Rows::kSum, Rows::kSquares};
    finish_summary(rows, elements, kKeyOf<T>, results, launch);
  });
}

} // namespace histo::cuda
