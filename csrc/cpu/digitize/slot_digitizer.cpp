#include "cpu/digitize/slot_digitizer.h"

#include <algorithm>

#include "cpu/plan.h"
#include "cpu/run_widest.h"
#include "cpu/tuning.h"

namespace histo::cpu {

namespace {

/// The same of one channel. Returns how many slots became 0.
int64_t narrow_run(const uint16_t* wide, int64_t size, uint8_t* slots) {
  int64_t outside = 0;
  for (int64_t begin = 0; begin < size; begin += tuning::kSearched) {
    run_widest([=, &outside]() __attribute__((always_inline)) {
      // Local copies: the compiler must think that stores to slots change captured variables.
      const uint16_t* from = wide + begin;
      uint8_t* to = slots + begin;
      const int64_t part = std::min(tuning::kSearched, size - begin);
      for (int64_t i = 0; i < part; ++i) {
        to[i] = static_cast<uint8_t>(from[i] > UINT8_MAX ? 0 : from[i]);
      }
      uint16_t found = 0;
      for (int64_t i = 0; i < part; ++i) {
        found = static_cast<uint16_t>(found + (from[i] > UINT8_MAX));
      }
      outside += found;
    });
  }
  return outside;
}

} // namespace

void narrow_rows(
    const uint16_t* wide, int64_t channels, int64_t rows, uint8_t* slots, int64_t* outside) {
  if (channels == 1) {
    *outside += narrow_run(wide, rows, slots);
    return;
  }
  // Several rows together, so that the inner loop is long.
  const int64_t together = std::max<int64_t>(1, tuning::kSearched / channels);
  std::vector<uint16_t> found(static_cast<size_t>(together * channels));
  const int64_t size = rows * channels, step = together * channels;
  for (int64_t begin = 0; begin < size; begin += step) {
    const int64_t part = std::min(step, size - begin);
    run_widest([=, sums = found.data()]() __attribute__((always_inline)) {
      // Local copies: the compiler must think that stores to slots change captured variables.
      const uint16_t* from = wide + begin;
      uint8_t* to = slots + begin;
      uint16_t* more = sums;
      const int64_t end = part;
      for (int64_t i = 0; i < end; ++i) {
        to[i] = static_cast<uint8_t>(from[i] > UINT8_MAX ? 0 : from[i]);
      }
      for (int64_t i = 0; i < end; ++i) {
        more[i] = static_cast<uint16_t>(more[i] + (from[i] > UINT8_MAX));
      }
    });
  }
  for (int64_t i = 0; i < step; i += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      outside[c] += found[static_cast<size_t>(i + c)];
    }
  }
}

ElementType slot_type_of(const Problem& input, int64_t bins, const Flow& flow) {
  const int64_t needed = bins + (flow.shown ? 4 : 1); // one slot counts nowhere
  if (needed == 257 && !flow.shown) {
    // Values outside are counted separately: that pays where bytes are counted in tables.
    Problem bytes = input;
    bytes.type = ElementType::kUInt8;
    return plan_of_slots(bytes).way == Way::kDirect ? ElementType::kUInt16 : bytes.type;
  }
  return needed <= 256     ? ElementType::kUInt8
         : needed <= 65536 ? ElementType::kUInt16
                           : ElementType::kUInt32;
}

} // namespace histo::cpu
