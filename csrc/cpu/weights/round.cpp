// Digits of sums: rounded, and made canonical.
#include <algorithm>
#include <iterator>

#include "core/weights.h"
#include "cpu/kernels.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

constexpr int kMostNumbers = sum_layout(ElementType::kFloat64).size();

/// Calls f(bin) for each bin, in threads.
template <class F>
void for_each_bin(int64_t bins, int size, const F& f) {
  parallel_for(bins, tuning::kMinCountersPerTask / size, [&](int64_t begin, int64_t end) {
    for (int64_t bin = begin; bin < end; ++bin) {
      f(bin);
    }
  });
}

} // namespace

void round_sums(const int64_t* digits, int64_t bins, int size, double* sums) {
  const SumLayout layout = sum_layout_of_size(size);
  for_each_bin(bins, size, [&](int64_t bin) {
    int64_t sum[kMostNumbers];
    std::copy_n(digits + bin * size, size, std::begin(sum));
    normalize_sum(sum, layout);
    sums[bin] = round_sum(sum, layout);
  });
}

void normalize_sums(int64_t* digits, int64_t bins, int size) {
  const SumLayout layout = sum_layout_of_size(size);
  if (layout.digits > 1) {
    for_each_bin(bins, size, [&](int64_t bin) { normalize_sum(digits + bin * size, layout); });
  }
}

} // namespace histo::cpu
