// Staging: elements become keys before they are counted. A key below the number of counts is the
// place of its count. Any way of counting may follow.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/edges.h"
#include "core/problem.h"

namespace histo::cpu {

/// One thread's part of a stage.
class Stager {
 public:
  virtual ~Stager() = default;

  /// The channels whose elements are staged next.
  virtual void choose(int64_t first_channel, int64_t channels) = 0;

  /// Writes the keys of `channels x rows` elements from `offset` on, which begin with channel
  /// `first` of the chosen ones. Keys lie as elements do, without gaps: channels side by side if
  /// their stride is the smaller one.
  virtual void stage(
      int64_t offset, int64_t first, const Extent& channels, const Extent& rows, void* keys) = 0;

  /// How many elements of each chosen channel have had the key 0 though they are in no bin. It is
  /// empty if there are no such keys.
  virtual const std::vector<int64_t>& outside() const = 0;
};

/// The values of a call, which each thread stages with a stager of its own.
class Staging {
 public:
  virtual ~Staging() = default;
  virtual std::unique_ptr<Stager> stager() const = 0;

  ElementType key_type; // an unsigned integer
};

/// The type of keys of the places of `bins` bins.
ElementType key_type_of(int64_t bins, const Flow& flow);

/// Whether channels that have edges of their own lie side by side, so that elements of all are
/// searched together: by a line and one comparison, where that is right.
inline bool are_searched_together(const Extent& channels, const Extent& rows, bool shared) {
  return !shared && channels.size > 1 && channels.stride < rows.stride;
}

/// The stage that finds the bins between edges.
std::unique_ptr<Staging> stage_between(const Edges& edges, const Flow& flow, const Problem& input);

} // namespace histo::cpu
