#include "torch/explain/explain_guesses.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "cpu/digitize/channel_bins.h"
#include "cpu/digitize/digitize.h"
#include "cpu/digitize/patterns.h"
#include "cpu/float_mode.h"
#include "torch/arguments.h"

namespace histo {
namespace {

/// The first faults that the checks of all edges find in a channel, or in a part of its bins.
struct CheckedChannel {
  bool valid = true;
  WrongEdge affine;
  WrongEdge then_compare;
  bool affine_except_top_is_right = true;
};

/// In streams of a GPU only values close to an edge are compared.
template <class T, class G, Arithmetic kBy>
CheckedChannel check_channel(const Edges& edges, int64_t channel, bool in_streams = false) {
  const auto lines =
      Lines<G, kBy>::between(edges.at(channel, 0), edges.at(channel, edges.bins), edges.bins);
  CheckedChannel found;
  for (int64_t k = 0; k <= edges.bins; ++k) {
    const CheckedEdge<T> edge = check_edge<T>(edges, channel, k, lines);
    found.valid = found.valid && edge.valid;
    found.affine_except_top_is_right =
        found.affine_except_top_is_right && edge.affine_except_top_is_right;
    const WrongEdge here{channel, edges.first + k};
    if (!edge.affine_is_right && found.affine.channel < 0) {
      found.affine = here;
    }
    const bool nearest_is_right = in_streams ? edge.then_compare_is_right : edge.nearest_is_right;
    if (!nearest_is_right && found.then_compare.channel < 0) {
      found.then_compare = here;
    }
  }
  return found;
}

/// The bins by the best guess that the checks leave. Both guesses by a line alone are a formula.
FoundBins found_bins(const CheckedChannel& checked, int64_t count, const char* otherwise) {
  switch (best_guess(
      checked.affine.channel < 0, checked.affine_except_top_is_right,
      checked.then_compare.channel < 0)) {
    case Guess::kAffine:
    case Guess::kAffineExceptTop:
      return {"formula", count, {}, checked.then_compare};
    case Guess::kAffineThenCompare:
      return {"comparison", count, checked.affine, checked.then_compare};
    case Guess::kBucketed:
    case Guess::kBucketedBits:
      return {otherwise, count, checked.affine, checked.then_compare};
  }
  fail("explain: a guess without a name");
}

/// Adds to the way that is the same, or else a new one.
void add(Findings& findings, const FoundBins& found) {
  for (FoundBins& way : findings.ways) {
    if (std::strcmp(way.how, found.how) == 0 && way.over_bits == found.over_bits) {
      way.count += found.count;
      way.fullest = std::max(way.fullest, found.fullest);
      return;
    }
  }
  findings.ways.push_back(found);
}

/// Different edges, and the channels that each of them belongs to.
struct DifferentEdges {
  int64_t size;  // of different edges
  int64_t count; // of channels that share them

  DifferentEdges(const Problem& input, const Edges& edges)
      : size(edges.shared ? 1 : input.num_channels()),
        count(edges.shared ? input.num_channels() : 1) {
  }
};

/// The most thresholds in one of some buckets, if the bucket of threshold k is bucket_of(k).
template <class F>
int64_t fullest_of(int32_t buckets, int64_t thresholds, const F& bucket_of) {
  std::vector<int64_t> in_bucket(static_cast<size_t>(buckets));
  int64_t most = 0;
  for (int64_t k = 0; k < thresholds; ++k) {
    most = std::max(most, ++in_bucket[static_cast<size_t>(bucket_of(k))]);
  }
  return most;
}

// --- CPU

/// The search of a channel of its own.
template <class T>
FoundBins search_of_channel(
    const cpu::ChannelBins<T>& bins, const CheckedChannel& checked, int64_t count) {
  using G = typename cpu::ChannelBins<T>::G;
  const auto& search = bins[0].search;
  FoundBins found = found_bins(checked, count, "cells");
  if (search.buckets != nullptr) {
    found.buckets = search.bits.last + 1;
    found.over_bits = search.over_bits;
    found.fullest = fullest_of(found.buckets, search.limit, [&](int64_t k) {
      const auto value = static_cast<G>(search.thresholds[k]);
      return search.over_bits ? search.bits.at(value)
                              : static_cast<int64_t>(search.line.clamped(value, search.most));
    });
  }
  return found;
}

template <class T>
Findings find_on_cpu(const Problem& input, const Edges& edges) {
  const cpu::ExactFloats exact;
  const DifferentEdges different(input, edges);
  const bool together = !cpu::patterns_of(input) &&
                        cpu::are_searched_together(input.channels[1], input.rows[2], edges.shared);
  Findings findings;
  cpu::ChannelBins<T> bins;
  for (int64_t channel = 0; channel < different.size; ++channel) {
    const CheckedChannel checked =
        check_channel<T, typename cpu::ChannelBins<T>::G, Arithmetic::kHost>(edges, channel);
    if (!checked.valid) {
      findings.invalid_channels += different.count;
    } else if (together && checked.then_compare.channel < 0) {
      add(findings, {"comparison", different.count, checked.affine, checked.then_compare});
    } else {
      bins.find(edges, channel, 1, different.count * input.num_rows());
      add(findings, search_of_channel(bins, checked, different.count));
    }
  }
  return findings;
}

// --- GPU

/// The buckets that a block chooses for the edges of a channel, or of a part of its bins.
template <class T>
void choose_buckets(const Edges& edges, int64_t channel, int32_t buckets, FoundBins& found) {
  using G = GuessOf<typename Number<T>::Wide>;
  std::vector<G> thresholds;
  for (int64_t k = 0; k <= edges.bins; ++k) {
    bool exists;
    const auto ordinal =
        Thresholds<T>::ordinal(edges.at(channel, k), edges.closed && k == edges.bins, exists);
    if (exists) {
      thresholds.push_back(static_cast<G>(Number<T>::wide_at(ordinal)));
    }
  }
  const auto size = static_cast<int64_t>(thresholds.size());
  const auto value = [&](int64_t k) { return thresholds[static_cast<size_t>(k)]; };
  const Real low = edges.at(channel, 0), high = edges.at(channel, edges.bins);
  const auto line = bucket_line<G, Arithmetic::kDevice>(low, high, buckets);
  const auto bits = BitBuckets<G>::between(low, high, buckets);
  found.buckets = buckets;
  found.over_bits = true;
  found.fullest = fullest_of(buckets, size, [&](int64_t k) { return bits.at(value(k)); });
  if (found.fullest > 1 && line.rises()) {
    const int64_t of_values = fullest_of(
        buckets, size, [&](int64_t k) { return whole_part(line, value(k), buckets - 1); });
    found.over_bits = of_values > found.fullest;
    found.fullest = std::min(found.fullest, of_values);
  }
}

bool is_valid(const Edges& edges, int64_t channel) {
  bool valid = true;
  for (int64_t k = 0; k < edges.bins; ++k) {
    valid = valid && is_at_most(edges.at(channel, k), edges.at(channel, k + 1));
  }
  return valid;
}

/// Without guesses.
Findings search_all(const Problem& input, const Edges& edges) {
  const DifferentEdges different(input, edges);
  Findings findings;
  for (int64_t channel = 0; channel < different.size; ++channel) {
    findings.invalid_channels += is_valid(edges, channel) ? 0 : different.count;
  }
  if (findings.invalid_channels < input.num_channels()) {
    add(findings, {"search", input.num_channels() - findings.invalid_channels, {}, {}});
  }
  return findings;
}

/// The bins that a block finds in a table of its own.
template <class T>
void add_bins_of_block(
    const Edges& edges, int64_t channel, int64_t count, int32_t buckets, Findings& findings) {
  using G = GuessOf<typename Number<T>::Wide>;
  const CheckedChannel checked =
      check_channel<T, G, Arithmetic::kDevice>(edges, channel, /*in_streams=*/true);
  FoundBins found = found_bins(checked, count, "cells");
  if (found.how == std::string("cells")) {
    choose_buckets<T>(edges, channel, buckets, found);
  }
  add(findings, found);
}

template <class T>
Findings find_in_streams(const Problem& input, const Edges& edges, const cuda::EdgePlan& plan) {
  const DifferentEdges different(input, edges);
  const bool in_teams = plan.layout == cuda::EdgeLayout::kTeams; // in all bins
  const int32_t buckets = in_teams ? plan.teams.buckets : plan.streams.buckets;
  Findings findings;
  for (int64_t channel = 0; channel < different.size; ++channel) {
    if (!is_valid(edges, channel)) {
      findings.invalid_channels += different.count;
      continue;
    }
    for (unsigned index = 0; index < (in_teams ? 1 : plan.streams.parts); ++index) {
      const Edges part = in_teams ? edges : plan.streams.part(edges, index);
      add_bins_of_block<T>(part, channel, different.count, buckets, findings);
    }
  }
  return findings;
}

/// All channels share the edges, for which a block has so many buckets.
template <class T>
Findings find_shared(const Problem& input, const Edges& edges, int32_t buckets) {
  Findings findings;
  if (is_valid(edges, 0)) {
    add_bins_of_block<T>(edges, 0, input.num_channels(), buckets, findings);
  } else {
    findings.invalid_channels = input.num_channels();
  }
  return findings;
}

/// The columns of a stripe share a guess: one that is right for all.
template <class T>
Findings find_in_columns(const Problem& input, const Edges& edges, const cuda::EdgePlan& plan) {
  using G = GuessOf<typename Number<T>::Wide>;
  const DifferentEdges different(input, edges);
  const cuda::ChannelColumns& in = plan.columns;
  std::vector<CheckedChannel> checked;
  Findings findings;
  for (int64_t channel = 0; channel < different.size; ++channel) {
    checked.push_back(check_channel<T, G, Arithmetic::kDevice>(edges, channel));
    checked.back().affine_except_top_is_right = false; // columns do not know it
    findings.invalid_channels += checked.back().valid ? 0 : different.count;
  }
  if (edges.shared) {
    add(findings, found_bins(checked[0], in.batches * in.stripes, "search"));
    return findings;
  }
  const int64_t width = in.width(sizeof(T));
  for (int64_t stripe = 0; stripe < in.batches * in.stripes; ++stripe) {
    const int64_t first = stripe % in.stripes * width;
    CheckedChannel of_stripe;
    of_stripe.affine_except_top_is_right = false;
    for (int64_t c = first; c < first + std::min(width, in.channels); ++c) {
      const int64_t channel = in.channel(stripe / in.stripes, c);
      const CheckedChannel& own = checked[static_cast<size_t>(channel)];
      of_stripe.affine = of_stripe.affine.channel < 0 ? own.affine : of_stripe.affine;
      of_stripe.then_compare =
          of_stripe.then_compare.channel < 0 ? own.then_compare : of_stripe.then_compare;
    }
    add(findings, found_bins(of_stripe, 1, "search"));
  }
  return findings;
}

} // namespace

Findings find_on_cpu(const Problem& input, const Edges& edges) {
  return visit_number_type(input.type, [&](auto tag) {
    return find_on_cpu<typename decltype(tag)::type>(input, edges);
  });
}

Findings find_on_gpu(const Problem& input, const Edges& edges, const cuda::EdgePlan& plan) {
  const cpu::ExactFloats exact;
  return visit_number_type(input.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (plan.layout) {
      case cuda::EdgeLayout::kTeams:
      case cuda::EdgeLayout::kStreams:
        return find_in_streams<T>(input, edges, plan);
      case cuda::EdgeLayout::kStripes:
        return find_shared<T>(input, edges, cuda::kBucketsOfStripes);
      case cuda::EdgeLayout::kColumns:
        return find_in_columns<T>(input, edges, plan);
      case cuda::EdgeLayout::kBytes:
      case cuda::EdgeLayout::kTiles:
        return search_all(input, edges);
    }
    fail("explain: a layout without a name");
  });
}

Findings find_in_short_channels(const Problem& input, const Edges& edges) {
  const cpu::ExactFloats exact;
  return visit_number_type(input.type, [&](auto tag) {
    return find_shared<typename decltype(tag)::type>(input, edges, cuda::kBucketsOfShort);
  });
}

} // namespace histo
