#include "cpu/summary/moments.h"

namespace histo::cpu {

Moments moments_of(const int64_t* digits, ElementType type, int64_t number) {
  return histo::moments_of(SumDigits(digits, layout_of_sum(type), layout_of_squares(type)), number);
}

} // namespace histo::cpu
