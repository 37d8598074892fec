#include "cpu/weights/slots.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cpu/joint/digitize_joint.h"
#include "cpu/run_widest.h"

namespace histo::cpu {
namespace {

/// Slots of integers that are their own bins. The number of bins is the slot of all others.
template <class T>
class ValueDigitizer final : public Digitizer {
 public:
  ValueDigitizer(const Problem& problem, ElementType slots) : problem_(problem), slots_(slots) {
  }
  void choose(int64_t, int64_t) override {
  }
  void digitize(
      int64_t offset, int64_t, int64_t, const Extent& channels, const Extent& rows, void* slots)
      override {
    const T* data = static_cast<const T*>(problem_.data) + offset;
    visit_slots(slots_, [&](auto tag) {
      digitize_panel({data, channels, rows}, static_cast<typename decltype(tag)::type*>(slots));
    });
  }
  const std::vector<int64_t>& outside() const override {
    return outside_;
  }

 private:
  template <class Slot>
  void digitize_panel(const InputPanel<T>& panel, Slot* slots) const {
    const bool side_by_side = are_side_by_side(panel.channels, panel.rows);
    const Extent outer = side_by_side ? panel.rows : panel.channels;
    const Extent inner = side_by_side ? panel.channels : panel.rows;
    for (int64_t i = 0; i < outer.size; ++i, slots += inner.size) {
      digitize_line(panel.data + i * outer.stride, inner, slots);
    }
  }
  template <class Slot>
  void digitize_line(const T* data, const Extent& line, Slot* slots) const {
    // Sign extension makes a negative value a huge unsigned one.
    const auto slot_of = [none = static_cast<uint64_t>(problem_.num_bins)](T value) {
      return static_cast<Slot>(std::min(static_cast<uint64_t>(Number<T>::wide(value)), none));
    };
    if (line.stride == 1) {
      return run_widest([=]() __attribute__((always_inline)) {
        for (int64_t i = 0; i < line.size; ++i) {
          slots[i] = slot_of(data[i]);
        }
      });
    }
    for (int64_t i = 0; i < line.size; ++i) {
      slots[i] = slot_of(data[i * line.stride]);
    }
  }

  const Problem& problem_;
  const ElementType slots_;
  const std::vector<int64_t> outside_;
};

template <class T>
class ValueDigitization final : public Digitization {
 public:
  ValueDigitization(const Problem& problem, ElementType slots) : problem_(problem), slots_(slots) {
  }
  std::unique_ptr<Digitizer> digitizer() const override {
    return std::make_unique<ValueDigitizer<T>>(problem_, slots_);
  }

 private:
  const Problem& problem_;
  const ElementType slots_;
};

} // namespace

ElementType slot_type_of(int64_t num_bins) {
  return num_bins <= UINT16_MAX   ? ElementType::kUInt16
         : num_bins <= UINT32_MAX ? ElementType::kUInt32
                                  : ElementType::kUInt64;
}

Slots slots_between(
    const Problem& problem, const Edges& edges, const UniformRanges* ranges, const Flow& flow) {
  const ElementType type = slot_type_of(problem.num_bins);
  return {digitize_between(edges, ranges, flow, problem, type), type, true};
}

Slots slots_joint(const Problem& problem, const JointAxes& axes) {
  const ElementType type = slot_type_of(problem.num_bins);
  return {digitize_joint(problem, axes, type), type, true};
}

Slots slots_of_values(const Problem& problem) {
  const ElementType type = slot_type_of(problem.num_bins);
  return {digitize_values(problem, type), type, false};
}

std::unique_ptr<Digitization> digitize_values(const Problem& problem, ElementType slots) {
  return visit_element_type(problem.type, [&](auto tag) -> std::unique_ptr<Digitization> {
    using T = typename decltype(tag)::type;
    return std::make_unique<ValueDigitization<T>>(problem, slots);
  });
}

} // namespace histo::cpu
