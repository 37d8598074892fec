// The slots of weighted elements, and the elements of another operand beside them.
#pragma once

#include <cstdint>
#include <memory>

#include "core/edges.h"
#include "core/problem.h"
#include "cpu/count/panel.h"
#include "cpu/digitize/digitize.h"

namespace histo::cpu {

/// A digitization and the type of its slots, uint16 or uint32. Slots from the number of a channel's
/// bins on count nowhere.
struct Slots {
  std::unique_ptr<Digitization> digitization;
  ElementType type;
};

Slots slots_between(const Problem& problem, const Edges& edges, const Flow& flow);
/// Value v has the slot v, if it is below problem.num_bins.
Slots slots_of_values(const Problem& problem);

/// Calls f(TypeTag<Slot>{}).
template <class F>
decltype(auto) visit_slots(const Slots& slots, const F& f) {
  return slots.type == ElementType::kUInt16 ? f(TypeTag<uint16_t>{}) : f(TypeTag<uint32_t>{});
}

/// The offset of a step of nested loops.
template <size_t kLoops>
int64_t offset_of(const Extent (&loops)[kLoops], int64_t step) {
  int64_t offset = 0;
  for (size_t loop = kLoops - 1; loop > 0; --loop) {
    offset += step % loops[loop].size * loops[loop].stride;
    step /= loops[loop].size;
  }
  return offset + step * loops[0].stride;
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
