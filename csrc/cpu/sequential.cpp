#include <algorithm>

#include "kernels.h"

namespace histo::cpu {

template <class Binning>
void sequential(const Problem& problem, const Binning& binning) {
  const auto& [c0, c1] = problem.channels;
  const auto& [r0, r1] = problem.rows;
  std::fill_n(problem.counts, problem.num_channels() * problem.num_bins, 0);
  visit_binned_type(problem.type, binning, [&](auto tag) {
    const auto* data = static_cast<const typename decltype(tag)::type*>(problem.data);
    int64_t* histogram = problem.counts;
    for (int64_t i = 0; i < c0.size; ++i) {
      for (int64_t j = 0; j < c1.size; ++j, histogram += problem.num_bins) {
        for (int64_t k = 0; k < r0.size; ++k) {
          for (int64_t l = 0; l < r1.size; ++l) {
            const int64_t bin =
                binning(data[i * c0.stride + j * c1.stride + k * r0.stride + l * r1.stride]);
            if (bin != kNoBin) {
              ++histogram[bin];
            }
          }
        }
      }
    }
  });
}

template void sequential(const Problem&, const ValueBinning&);
template void sequential(const Problem&, const LetterBinning&);

} // namespace histo::cpu
