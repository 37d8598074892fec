// Each coordinate is digitized as if it were alone. The slots of the first one become joint slots
// by those of the others.
#include "cpu/joint/digitize_joint.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/count/panel.h"
#include "cpu/plan.h"
#include "cpu/run_widest.h"
#include "cpu/tuning.h"
#include "cpu/weights/slots.h"

namespace histo::cpu {
namespace {

/// A slot that counts nowhere.
template <class Slot>
constexpr Slot kNone = std::numeric_limits<Slot>::max();

/// Copies slots to a wider type.
template <class Slot, class Own>
void widen(const Own* own, int64_t size, int64_t most, Slot* joint) {
  for (int64_t i = 0; i < size; ++i) {
    joint[i] = static_cast<int64_t>(own[i]) < most ? static_cast<Slot>(own[i]) : kNone<Slot>;
  }
}

/// Makes joint slots of those of the axes before and of one axis more, which has `size` slots.
template <class Slot, class Own>
void combine(const Own* own, int64_t elements, Slot before, Slot size, Slot* joint) {
  using Unsigned = std::common_type_t<Slot, unsigned>; // a smaller one would become an int
  run_widest([=]() __attribute__((always_inline)) {
    for (int64_t i = 0; i < elements; ++i) {
      const Slot a = joint[i];
      const Own b = own[i];
      const auto slot = static_cast<Slot>(Unsigned{a} * size + b);
      joint[i] = ((a < before) & (b < size)) ? slot : kNone<Slot>;
    }
  });
}

/// The slots of a panel, or of one coordinate of it.
struct SlotOrder {
  Extent channels;
  Extent rows;

  SlotOrder(const Extent& channels_, const Extent& rows_) : channels(channels_), rows(rows_) {
    const bool side_by_side = are_side_by_side(channels, rows);
    channels.stride = side_by_side ? 1 : rows.size;
    rows.stride = side_by_side ? channels.size : 1;
  }
  bool is_that_of(const SlotOrder& other) const {
    return channels.size == 1 || rows.size == 1 || rows.stride == other.rows.stride;
  }
};

/// Copies slots from one order to another.
template <class Slot>
void reorder(const Slot* from, const SlotOrder& order, Slot* to, const SlotOrder& wanted) {
  for (int64_t channel = 0; channel < order.channels.size; ++channel) {
    for (int64_t row = 0; row < order.rows.size; ++row) {
      to[channel * wanted.channels.stride + row * wanted.rows.stride] =
          from[channel * order.channels.stride + row * order.rows.stride];
    }
  }
}

/// One coordinate: a problem of its own, and its digitization to slots of type `slots`.
struct Coordinate {
  Problem problem;
  int64_t slots;
  ElementType type;
  std::unique_ptr<Digitization> digitization;
};

/// Joint slots of type Slot. Coordinates have slots of type Own.
template <class Slot, class Own>
class JointDigitizer final : public Digitizer {
 public:
  explicit JointDigitizer(const std::vector<Coordinate>& coordinates) : coordinates_(coordinates) {
    for (const Coordinate& coordinate : coordinates) {
      digitizers_.push_back(coordinate.digitization->digitizer());
    }
  }

  void choose(int64_t first_channel, int64_t channels) override {
    first_channel_ = first_channel;
    for (const auto& digitizer : digitizers_) {
      digitizer->choose(first_channel, channels);
    }
  }

  void digitize(
      int64_t, int64_t first, int64_t row, const Extent& channels, const Extent& rows, void* slots)
      override {
    auto* joint = static_cast<Slot*>(slots);
    // Blocks of one channel: points in one tensor are in the cache when their next coordinate is read.
    const int64_t most = channels.size == 1 ? tuning::kJointElements : rows.size;
    for (int64_t begin = 0; begin < rows.size; begin += most) {
      const Extent block{std::min(most, rows.size - begin), rows.stride};
      digitize_block(first, row + begin, SlotOrder(channels, block), joint + begin);
    }
  }

  const std::vector<int64_t>& outside() const override {
    return outside_;
  }

 private:
  static ElementType joint_type() {
    return sizeof(Slot) == 2   ? ElementType::kUInt16
           : sizeof(Slot) == 4 ? ElementType::kUInt32
                               : ElementType::kUInt64;
  }

  void digitize_block(int64_t first, int64_t row, const SlotOrder& order, Slot* joint) {
    const int64_t size = order.channels.size * order.rows.size;
    int64_t before = coordinates_[0].slots;
    if (coordinates_[0].type == joint_type()) {
      digitize_one(0, first, row, order, joint);
    } else {
      widen(digitized(0, first, row, order), size, before, joint);
    }
    for (size_t d = 1; d < coordinates_.size(); ++d) {
      const int64_t own = coordinates_[d].slots;
      combine(
          digitized(d, first, row, order), size, static_cast<Slot>(before), static_cast<Slot>(own),
          joint);
      before *= own;
    }
  }

  /// The slots of coordinate d, in the order of the joint ones.
  const Own* digitized(size_t d, int64_t first, int64_t row, const SlotOrder& order) {
    own_.resize(static_cast<size_t>(order.channels.size * order.rows.size));
    digitize_one(d, first, row, order, own_.data());
    return own_.data();
  }

  template <class Any>
  void digitize_one(size_t d, int64_t first, int64_t row, const SlotOrder& wanted, Any* slots) {
    const View& view = coordinates_[d].problem;
    const int64_t offset =
        offset_of(view.channels, first_channel_ + first) + offset_of(view.rows, row);
    const Extent channels{wanted.channels.size, view.channels[1].stride};
    const Extent rows{wanted.rows.size, view.rows[2].stride};
    const SlotOrder order(channels, rows);
    if (order.is_that_of(wanted)) {
      return digitizers_[d]->digitize(offset, first, row, channels, rows, slots);
    }
    other_order_.resize(static_cast<size_t>(channels.size * rows.size) * sizeof(Any));
    auto* found = reinterpret_cast<Any*>(other_order_.data());
    digitizers_[d]->digitize(offset, first, row, channels, rows, found);
    reorder(found, order, slots, wanted);
  }

  const std::vector<Coordinate>& coordinates_;
  std::vector<std::unique_ptr<Digitizer>> digitizers_;
  int64_t first_channel_ = 0;
  std::vector<Own> own_;
  std::vector<char> other_order_;
  const std::vector<int64_t> outside_;
};

class JointDigitization final : public Digitization {
 public:
  JointDigitization(const Problem& problem, const JointAxes& axes, ElementType slots)
      : slots_(slots) {
    const ElementType own = slots == ElementType::kUInt64 ? ElementType::kUInt32 : slots;
    coordinates_.resize(static_cast<size_t>(axes.count)); // digitizations point to their problems
    for (int d = 0; d < axes.count; ++d) {
      const JointAxis& axis = axes.axes[d];
      Coordinate& coordinate = coordinates_[static_cast<size_t>(d)];
      static_cast<View&>(coordinate.problem) = problem.operand(d);
      coordinate.problem.num_bins = coordinate.slots = axis.slots;
      coordinate.type = axis.is_index ? slots : own;
      coordinate.digitization =
          axis.is_index ? digitize_values(coordinate.problem, coordinate.type)
                        : digitize_between(
                              axis.edges, nullptr, axes.flow, coordinate.problem, coordinate.type);
    }
  }

  std::unique_ptr<Digitizer> digitizer() const override {
    switch (slots_) {
      case ElementType::kUInt16:
        return std::make_unique<JointDigitizer<uint16_t, uint16_t>>(coordinates_);
      case ElementType::kUInt32:
        return std::make_unique<JointDigitizer<uint32_t, uint32_t>>(coordinates_);
      case ElementType::kUInt64:
        return std::make_unique<JointDigitizer<uint64_t, uint32_t>>(coordinates_);
      default:
        throw InternalError("digitize_joint: not a type of slots");
    }
  }

 private:
  const ElementType slots_;
  std::vector<Coordinate> coordinates_;
};

} // namespace

std::unique_ptr<Digitization> digitize_joint(
    const Problem& problem, const JointAxes& axes, ElementType slots) {
  return std::make_unique<JointDigitization>(problem, axes, slots);
}

} // namespace histo::cpu
