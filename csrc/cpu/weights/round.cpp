// Digits of sums: rounded, and made canonical.
#include <algorithm>

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

/// The same as round_sum, with fewer branches that depend on the digits.
double round_quickly(const int64_t* sum, const SumLayout& layout) {
  using Wide = unsigned __int128;
  const int64_t* counts = sum + layout.digits;
  int top = layout.digits - 1;
  const int64_t sign = sum[top] >> 63; // all of its bits
  const bool is_large = static_cast<uint64_t>(sum[top] ^ sign) > kDigitMask;
  if (is_large || (counts[kNaNs] | counts[kInfinities] | counts[kNegativeInfinities]) != 0) {
    return round_sum(sum, layout);
  }
  const auto digit = [&](int i) { return static_cast<uint32_t>(sum[i] ^ sign); };
  while (top > 2 && digit(top) == 0) {
    --top;
  }
  int64_t below = 0;
  for (int i = 0; i < top - 2; ++i) {
    below |= sum[i];
  }
  Wide three = Wide{digit(top)} << 64 | uint64_t{digit(top - 1)} << kDigitBits | digit(top - 2);
  three += sign != 0 && below == 0 ? 1 : 0; // -x is the complement of x, and 1
  if (three == 0) {
    return 0;
  }
  const auto high = static_cast<uint64_t>(three >> 64), low = static_cast<uint64_t>(three);
  const int shift = high != 0 ? __builtin_clzll(high) : 64 + __builtin_clzll(low);
  three <<= shift;
  const bool has_more = static_cast<uint64_t>(three) != 0 || below != 0;
  const int exponent = kDigitBits * (top - 2) + layout.lowest + 64 - shift;
  return round_once(sign != 0, static_cast<uint64_t>(three >> 64), has_more, exponent);
}

} // namespace

void round_sums(const int64_t* digits, int64_t bins, int size, bool are_canonical, double* sums) {
  const SumLayout layout = sum_layout_of_size(size);
  for_each_bin(bins, size, [&](int64_t bin) {
    const int64_t* sum = digits + bin * size;
    int64_t canonical[kMostNumbers];
    if (!are_canonical) {
      sum = std::copy_n(sum, size, canonical) - size;
      normalize_sum(canonical, layout);
    }
    sums[bin] = round_quickly(sum, layout);
  });
}

void normalize_sums(int64_t* digits, int64_t bins, int size) {
  const SumLayout layout = sum_layout_of_size(size);
  if (layout.digits > 1) {
    for_each_bin(bins, size, [&](int64_t bin) { normalize_sum(digits + bin * size, layout); });
  }
}

} // namespace histo::cpu
