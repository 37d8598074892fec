// Digitizing: numbers become slots, by the bins between edges, before they are counted. A slot is
// an unsigned integer. One below the number of a channel's counts is the index of its count; others
// count nowhere. Any way of counting may follow.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/edges.h"
#include "core/problem.h"
#include "cpu/kernels.h"

namespace histo::cpu {

/// One thread's part of a digitization.
class Digitizer {
 public:
  virtual ~Digitizer() = default;

  /// The channels whose elements are digitized next.
  virtual void choose(int64_t first_channel, int64_t channels) = 0;

  /// Writes the slots of `channels x rows` elements from `offset` on, which begin with channel
  /// `first` of the chosen ones and with row `row`. Slots lie as elements do, without gaps: channels
  /// side by side if their stride is the smaller one.
  virtual void digitize(
      int64_t offset,
      int64_t first,
      int64_t row,
      const Extent& channels,
      const Extent& rows,
      void* slots) = 0;

  /// How many elements of each chosen channel have had the slot 0 though they are in no bin. It is
  /// empty if there are no such slots.
  virtual const std::vector<int64_t>& outside() const = 0;
};

/// The numbers of a call, which each thread digitizes with a digitizer of its own.
class Digitization {
 public:
  virtual ~Digitization() = default;
  virtual std::unique_ptr<Digitizer> digitizer() const = 0;
};

/// The type of slots for counting an input in `bins` bins.
ElementType slot_type_of(const Problem& input, int64_t bins, const Flow& flow);

/// Digitizes the input of a call between its edges. `ranges` are those of edges of one width, or
/// null. `slots` is their type, an
/// unsigned integer.
std::unique_ptr<Digitization> digitize_between(
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    const Problem& input,
    ElementType slots);

/// The same by edges that are computed where values are near them. Channels whose edges cannot be
/// are given to `by_edges`. It is null if the channels share such a range.
std::unique_ptr<Digitization> digitize_uniform(
    const UniformRanges& ranges,
    int64_t bins,
    const Flow& flow,
    const Problem& input,
    ElementType slots,
    std::unique_ptr<Digitization> by_edges);

/// Counts the slots of a digitization. `slots` is the problem with their type.
void count_slots(const Problem& slots, const Digitization& digitization, Allocator& allocate);

} // namespace histo::cpu
