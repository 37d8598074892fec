// Quantiles of a sketch.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/sketch_quantile.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

/// `below`: the counts up to each one and with it, but that of NaN.
double quantile(
    const SketchQuantiles& call, int64_t channel, const std::vector<int64_t>& below, double q) {
  const SketchTotals totals{below.back(), below.front(), below[below.size() - 2]};
  if (!has_quantile(q, totals.all)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const int64_t rank = nearest_rank(q, totals.all - 1);
  const auto at = std::upper_bound(below.begin(), below.end() - 1, rank) - below.begin();
  return quantile_at(call, channel, totals, rank, at);
}

} // namespace

void sketch_quantiles(const SketchQuantiles& call) {
  const int64_t counts = call.bins.num_counts();
  const int64_t grain = std::max<int64_t>(1, tuning::kMinCountersPerTask / counts);
  parallel_for(call.channels, grain, [&](int64_t begin, int64_t end) {
    const ExactFloats exact;
    std::vector<int64_t> below(static_cast<size_t>(counts - 1));
    for (int64_t channel = begin; channel < end; ++channel) {
      const int64_t* first = call.state.counts + channel * counts;
      int64_t sum = 0;
      std::transform(
          first, first + counts - 1, below.begin(), [&](int64_t count) { return sum += count; });
      for (int64_t i = 0; i < call.num_q; ++i) {
        call.found[i * call.channels + channel] = quantile(call, channel, below, call.q[i]);
      }
    }
  });
}

} // namespace histo::cpu
