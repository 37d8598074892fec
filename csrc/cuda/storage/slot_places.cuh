// The places in the result of the slots of a table.
#pragma once

#include "core/edges.h"

namespace histo::cuda {

/// The slots of a part of the bins of a channel. Between edges, they are underflow, the bins,
/// overflow and NaN. Underflow and NaN belong to the first part, overflow to the last. Where bins
/// are values, they are the bins, and one more for all other values.
struct SlotPlaces {
  int64_t before;   // bins of the parts before
  int64_t all_bins; // of the channel
  unsigned bins;    // of the part
  bool has_flow;    // the first slots are those of edges
  bool shows_first, shows_last;
  bool valid; // edges; otherwise NaN alone is counted

  HISTO_HOST_DEVICE static SlotPlaces of_edges(
      const Edges& part, int64_t all_bins, const Flow& flow, bool valid) {
    return {
        part.first - (flow.shown ? 0 : 1),
        all_bins,
        static_cast<unsigned>(part.bins),
        true,
        flow.shown && part.first == 0,
        flow.shown && part.closed,
        valid};
  }
  HISTO_HOST_DEVICE static SlotPlaces of_values(int64_t bins) {
    return {0, bins, static_cast<unsigned>(bins), false, false, false, true};
  }
  HISTO_HOST_DEVICE unsigned slots() const {
    return has_flow ? bins + 3 : bins + 1;
  }
  HISTO_HOST_DEVICE bool is_nan(unsigned slot) const {
    return has_flow && slot == bins + 2;
  }
  /// The bin of a slot among all bins of the channel, or kNoBin.
  HISTO_HOST_DEVICE int64_t of(unsigned slot) const {
    if (!has_flow) {
      return slot < bins ? static_cast<int64_t>(slot) : kNoBin;
    }
    if (is_nan(slot)) {
      return shows_first ? all_bins + 2 : kNoBin;
    }
    const bool is_bin = slot > 0 && slot <= bins;
    const bool is_shown = is_bin || (slot == 0 ? shows_first : shows_last);
    return is_shown ? before + slot : kNoBin;
  }
  /// Whether the elements of a slot count.
  HISTO_HOST_DEVICE bool counts(unsigned slot) const {
    return valid || is_nan(slot);
  }
};

} // namespace histo::cuda
