// The slots of weighted elements, and the elements of another operand beside them.
#pragma once

#include <cstdint>
#include <memory>

#include "core/edges.h"
#include "core/joint.h"
#include "core/problem.h"
#include "cpu/count/panel.h"
#include "cpu/digitize/digitize.h"

namespace histo::cpu {

/// A digitization and the type of its slots, uint16, uint32 or uint64. Slots from the number of a channel's
/// bins on count nowhere.
struct Slots {
  std::unique_ptr<Digitization> digitization;
  ElementType type;
  bool fetches_input; // searches fetch what they read next; values that are bins are not searched
};

/// `ranges` are those of edges of one width, or null.
Slots slots_between(
    const Problem& problem, const Edges& edges, const UniformRanges* ranges, const Flow& flow);
/// Value v has the slot v, if it is below problem.num_bins.
Slots slots_of_values(const Problem& problem);
/// The joint slots of coordinates.
Slots slots_joint(const Problem& problem, const JointAxes& axes);
/// The same as slots_of_values, for slots of this type.
std::unique_ptr<Digitization> digitize_values(const Problem& problem, ElementType slots);

/// The type of slots below `num_bins`, and one more: uint16, uint32 or uint64. There are no slots of
/// one byte: 256 bins leave none for what is outside of them.
ElementType slot_type_of(int64_t num_bins);

/// Calls f(TypeTag<Slot>{}).
template <class F>
decltype(auto) visit_slots(ElementType slots, const F& f) {
  switch (slots) {
    case ElementType::kUInt16:
      return f(TypeTag<uint16_t>{});
    case ElementType::kUInt32:
      return f(TypeTag<uint32_t>{});
    case ElementType::kUInt64:
      return f(TypeTag<uint64_t>{});
    default:
      throw InternalError("visit_slots: not a type of slots");
  }
}
template <class F>
decltype(auto) visit_slots(const Slots& slots, const F& f) {
  return visit_slots(slots.type, f);
}

/// The elements of an operand beside a panel of slots: `channels x rows`, from `data` on.
template <class T>
struct Beside {
  T* data;
  int64_t channel_stride;
  int64_t row_stride;

  T& at(int64_t channel, int64_t row) const {
    return data[channel * channel_stride + row * row_stride];
  }
};

/// Those beside a panel that begins with this channel and row. The view's elements are at `data`.
template <class T>
Beside<T> beside(const View& view, T* data, int64_t channel, int64_t row) {
  return {
      data + offset_of(view.channels, channel) + offset_of(view.rows, row), view.channels[1].stride,
      view.rows[2].stride};
}

} // namespace histo::cpu
