// The loop that anyone would write: finds the bin by a formula, and adds the weight in double.
#include <cstdint>

namespace {

template <typename Value, typename Weight>
void add(
    const Value* values,
    const Weight* weights,
    int64_t size,
    double low,
    double high,
    int64_t bins,
    double* sums) {
  const double scale = static_cast<double>(bins) / (high - low);
  for (int64_t i = 0; i < size; ++i) {
    const double value = values[i];
    if (value >= low && value <= high) {
      const auto bin = static_cast<int64_t>((value - low) * scale);
      sums[bin < bins ? bin : bins - 1] += weights[i];
    }
  }
}

} // namespace

extern "C" void add_float32(
    const float* values,
    const float* weights,
    int64_t size,
    double low,
    double high,
    int64_t bins,
    double* sums) {
  add(values, weights, size, low, high, bins, sums);
}

extern "C" void add_float64(
    const double* values,
    const double* weights,
    int64_t size,
    double low,
    double high,
    int64_t bins,
    double* sums) {
  add(values, weights, size, low, high, bins, sums);
}
