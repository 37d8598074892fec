// The base of all digitizers, and the format of their slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/count/panel.h"
#include "cpu/digitize/digitize.h"
#include "cpu/digitize/search.h"
#include "cpu/float_mode.h"

namespace histo::cpu {

/// The slots of a call. Without flow bin 0 has the slot 0. Values outside all bins have a slot that
/// no bin has; that of underflow is the largest number of its type.
struct SlotFormat {
  int64_t bins;
  bool flow;
  ElementType type;

  /// 256 bins leave no byte for values outside them. These get the slot 0, and are counted
  /// separately.
  bool outside_is_counted() const {
    return !flow && bins == 256 && type == ElementType::kUInt8;
  }
  /// A slot that counts nowhere.
  int32_t none() const {
    return flow ? static_cast<int32_t>(bins + 3) : -1;
  }
  SlotRule rule() const {
    return flow ? SlotRule{0, static_cast<int32_t>(bins + 2)} : SlotRule{-1, -1};
  }
};

/// Makes slots of one byte from rows of wider ones that lie side by side: slots of 256 and more
/// become 0, and are counted.
void narrow_rows(
    const uint16_t* wide, int64_t channels, int64_t rows, uint8_t* slots, int64_t* outside);

/// A digitizer by Own::digitize_as(data, first, channels, rows, slots), for slots of any size.
template <class Own, class T>
class SlotDigitizer : public Digitizer {
 public:
  SlotDigitizer(const SlotFormat& format, const Problem& input) : format_(format), input_(input) {
  }

  void digitize(
      int64_t offset,
      int64_t first,
      int64_t,
      const Extent& channels,
      const Extent& rows,
      void* slots) override {
    const ExactFloats exact;
    const T* data = static_cast<const T*>(input_.data) + offset;
    if (format_.outside_is_counted()) {
      wide_.resize(static_cast<size_t>(channels.size * rows.size));
      own().digitize_as(data, first, channels, rows, wide_.data());
      return narrow(first, channels, rows, static_cast<uint8_t*>(slots));
    }
    switch (format_.type) {
      case ElementType::kUInt8:
        return own().digitize_as(data, first, channels, rows, static_cast<uint8_t*>(slots));
      case ElementType::kUInt16:
        return own().digitize_as(data, first, channels, rows, static_cast<uint16_t*>(slots));
      case ElementType::kUInt32:
        return own().digitize_as(data, first, channels, rows, static_cast<uint32_t*>(slots));
      default:
        throw InternalError("digitize: not a type of slots");
    }
  }

  const std::vector<int64_t>& outside() const override {
    return outside_;
  }

 protected:
  /// Begins with other channels.
  void begin(int64_t channels) {
    outside_.assign(static_cast<size_t>(format_.outside_is_counted() ? channels : 0), 0);
  }
  const SlotFormat& format() const {
    return format_;
  }
  const Problem& input() const {
    return input_;
  }
  /// The count of a chosen channel, where outside() is not empty.
  int64_t& outside_of(int64_t channel) {
    return outside_[static_cast<size_t>(channel)];
  }

 private:
  Own& own() {
    return static_cast<Own&>(*this);
  }
  /// Makes slots of one byte from those of two.
  void narrow(int64_t first, const Extent& channels, const Extent& rows, uint8_t* slots) {
    int64_t* outside = outside_.data() + first;
    const uint16_t* wide = wide_.data();
    if (are_side_by_side(channels, rows)) {
      return narrow_rows(wide, channels.size, rows.size, slots, outside);
    }
    for (int64_t c = 0; c < channels.size; ++c) {
      narrow_rows(wide + c * rows.size, 1, rows.size, slots + c * rows.size, outside + c);
    }
  }

  const SlotFormat format_;
  const Problem& input_;
  std::vector<uint16_t> wide_;
  std::vector<int64_t> outside_;
};

} // namespace histo::cpu
