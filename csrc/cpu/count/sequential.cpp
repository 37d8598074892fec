#include <algorithm>

#include "cpu/kernels.h"
#include "cpu/read_once.h"

namespace histo::cpu {

namespace {

/// Calls f(channel index, offset of the element) for every element. Counting has no
/// order, so the loops are nested as the elements lie in memory.
template <class F>
void for_each_element(const Problem& problem, const F& f) {
  const auto& [c0, c1] = problem.channels;
  const auto& [r0, r1, r2] = problem.rows;
  const auto for_channels = [&, &c0 = c0, &c1 = c1](const auto& g) {
    for (int64_t i = 0; i < c0.size; ++i) {
      for (int64_t j = 0; j < c1.size; ++j) {
        g(i * c1.size + j, i * c0.stride + j * c1.stride);
      }
    }
  };
  const auto for_rows = [&, &r0 = r0, &r1 = r1, &r2 = r2](const auto& g) {
    for (int64_t i = 0; i < r0.size; ++i) {
      for (int64_t j = 0; j < r1.size; ++j) {
        for (int64_t k = 0; k < r2.size; ++k) {
          g(i * r0.stride + j * r1.stride + k * r2.stride);
        }
      }
    }
  };
  if (c1.stride < r2.stride) {
    for_rows([&](int64_t row) {
      for_channels([&](int64_t channel, int64_t offset) { f(channel, row + offset); });
    });
  } else {
    for_channels([&](int64_t channel, int64_t offset) {
      for_rows([&](int64_t row) { f(channel, row + offset); });
    });
  }
}

} // namespace

template <class Binning>
void sequential(const Problem& problem, const Binning& binning) {
  const int64_t num_bins = problem.num_bins;
  int64_t* counts = problem.counts;
  std::fill_n(counts, problem.num_counts(), 0);
  visit_binned_type(problem.type, binning, [&](auto tag) {
    const auto* data = static_cast<const typename decltype(tag)::type*>(problem.data);
    for_each_element(problem, [&](int64_t channel, int64_t offset) {
      const int64_t bin = binning(read_once(data[offset]));
      if (bin != kNoBin) {
        ++counts[channel * num_bins + bin];
      }
    });
  });
}

template void sequential(const Problem&, const ValueBinning&);
template void sequential(const Problem&, const LetterBinning&);

} // namespace histo::cpu
