// Values of one or two bytes between edges: the patterns of bits are counted as integers, and the
// bins of the patterns are found once.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <vector>

#include "cpu/digitize/digitize.h"
#include "cpu/digitize/patterns.h"
#include "cpu/kernels.h"
#include "cpu/plan.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

template <class Pattern>
constexpr int64_t kPatterns = int64_t{1} << 8 * sizeof(Pattern);

/// Adds the counts of patterns to their bins. `counts` is [channels, patterns].
template <class Pattern>
void add_patterns(
    const Problem& input,
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    const int64_t* counts) {
  constexpr int64_t kSize = kPatterns<Pattern>;
  std::vector<Pattern> patterns(kSize);
  std::iota(patterns.begin(), patterns.end(), Pattern{0});
  Problem each = input;
  each.data = patterns.data();
  const int64_t first = flow.shown ? 0 : 1; // slots with flow begin with underflow
  const ElementType slot_type = slot_type_of(each, edges.bins, Flow{true});
  const auto digitization = digitize_between(edges, ranges, Flow{true}, each, slot_type);
  visit_pattern_type(size_of(slot_type), [&](auto tag) {
    using Slot = typename decltype(tag)::type;
    parallel_for(
        input.num_channels(), tuning::kPatternsPerTask / kSize, [&](int64_t begin, int64_t end) {
          const std::unique_ptr<Digitizer> digitizer = digitization->digitizer();
          std::vector<Slot> slots(kSize);
          for (int64_t channel = begin; channel < end; ++channel) {
            if (channel == begin || !edges.shared) {
              digitizer->choose(channel, 1);
              digitizer->digitize(0, 0, 0, {1, 0}, {kSize, 1}, slots.data());
            }
            int64_t* histogram = input.counts + channel * input.num_bins;
            if (!input.adds) {
              std::fill_n(histogram, input.num_bins, 0);
            }
            for (int64_t i = 0; i < kSize; ++i) {
              const auto bin = static_cast<int64_t>(slots[static_cast<size_t>(i)]) - first;
              if (bin >= 0 && bin < input.num_bins) {
                histogram[bin] += counts[channel * kSize + i];
              }
            }
          }
        });
  });
}

} // namespace

std::optional<Problem> patterns_of(const Problem& input) {
  const auto bytes =
      visit_number_type(input.type, [](auto tag) { return sizeof(typename decltype(tag)::type); });
  Problem raw = input;
  raw.adds = false;
  if (bytes == 1 && input.num_rows() >= tuning::kMinRowsOfOneByte) {
    raw.type = ElementType::kUInt8;
    raw.num_bins = kPatterns<uint8_t>;
  } else if (
      // The counters of one channel fill the cache, so this pays only for contiguous values.
      bytes == 2 && input.rows[2].stride == 1 && input.num_rows() >= tuning::kMinRowsOfTwoBytes) {
    raw.type = ElementType::kUInt16;
    raw.num_bins = kPatterns<uint16_t>;
  } else {
    return std::nullopt;
  }
  return plan_of(raw).way == Way::kDirect ? std::nullopt : std::optional(raw);
}

bool count_patterns(
    const Problem& input,
    const Edges& edges,
    const UniformRanges* ranges,
    const Flow& flow,
    Allocator& allocate) {
  std::optional<Problem> raw = patterns_of(input);
  if (!raw) {
    return false;
  }
  const int64_t bytes = raw->num_counts() * static_cast<int64_t>(sizeof(int64_t));
  raw->counts = static_cast<int64_t*>(allocate(bytes));
  count(*raw, pattern_axis(raw->type, ValueBinning{raw->num_bins}), allocate);
  const auto add =
      raw->type == ElementType::kUInt8 ? add_patterns<uint8_t> : add_patterns<uint16_t>;
  add(input, edges, ranges, flow, raw->counts);
  return true;
}

} // namespace histo::cpu
