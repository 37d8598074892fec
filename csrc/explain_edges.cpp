#include "explain_edges.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include <torch/csrc/stable/library.h>

#include "arguments.h"
#include "cpu/channel_bins.h"
#include "cpu/float_mode.h"
#include "cpu/patterns.h"
#include "cpu/processor.h"
#include "cpu/staging.h"
#include "explain.h"

namespace histo {
namespace {

using torch::stable::Tensor;

/// The first faults that the checks of all edges find in a channel, or in a part of its bins.
struct CheckedChannel {
  bool valid = true;
  WrongEdge formula;
  WrongEdge comparison;
};

template <class T, class G, Arithmetic kBy>
CheckedChannel check_channel(const Edges& edges, int64_t channel) {
  const auto lines =
      Lines<G, kBy>::between(edges.at(channel, 0), edges.at(channel, edges.bins), edges.bins);
  CheckedChannel found;
  for (int64_t k = 0; k <= edges.bins; ++k) {
    const CheckedEdge<T> edge = check_edge<T>(edges, channel, k, lines);
    found.valid = found.valid && edge.valid;
    const WrongEdge here{channel, edges.first + k};
    if (!edge.formula_is_right && found.formula.channel < 0) {
      found.formula = here;
    }
    if (!edge.comparison_is_right && found.comparison.channel < 0) {
      found.comparison = here;
    }
  }
  return found;
}

/// The best guess that the checks leave.
FoundBins best_guess(const CheckedChannel& checked, int64_t count, const char* otherwise) {
  const bool formula_is_right = checked.formula.channel < 0;
  const bool comparison_is_right = checked.comparison.channel < 0;
  return {
      formula_is_right      ? "formula"
      : comparison_is_right ? "comparison"
                            : otherwise,
      count, checked.formula, checked.comparison};
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

/// What each of the channels' edges stands for.
struct Rows {
  int64_t size;  // of different edges
  int64_t count; // of channels that share them

  Rows(const Problem& input, const Edges& edges)
      : size(edges.shared ? 1 : input.num_channels()),
        count(edges.shared ? input.num_channels() : 1) {
  }
};

/// The most thresholds in a cell, if the cell of threshold k is cell_of(k).
template <class F>
int64_t fullest_of(int64_t thresholds, const F& cell_of) {
  std::vector<int64_t> in_cell(kCells);
  int64_t most = 0;
  for (int64_t k = 0; k < thresholds; ++k) {
    most = std::max(most, ++in_cell[static_cast<size_t>(cell_of(k))]);
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
  FoundBins found = best_guess(checked, count, "cells");
  if (search.cells != nullptr) {
    found.over_bits = search.over_bits;
    found.fullest = fullest_of(search.limit, [&](int64_t k) {
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
  const Rows rows(input, edges);
  const bool together = !cpu::patterns_of(input) &&
                        cpu::are_searched_together(input.channels[1], input.rows[2], edges.shared);
  Findings findings;
  cpu::ChannelBins<T> bins;
  for (int64_t row = 0; row < rows.size; ++row) {
    const CheckedChannel checked =
        check_channel<T, typename cpu::ChannelBins<T>::G, Arithmetic::kHost>(edges, row);
    if (!checked.valid) {
      findings.invalid_channels += rows.count;
    } else if (together && checked.comparison.channel < 0) {
      add(findings, {"comparison", rows.count, checked.formula, checked.comparison});
    } else {
      bins.find(edges, row, 1);
      add(findings, search_of_channel(bins, checked, rows.count));
    }
  }
  return findings;
}

// --- GPU

/// The cells that a block chooses for the edges of a channel, or of a part of its bins.
template <class T>
void choose_cells(const Edges& edges, int64_t channel, FoundBins& found) {
  using G = GuessOf<typename Number<T>::Key>;
  std::vector<G> thresholds;
  for (int64_t k = 0; k <= edges.bins; ++k) {
    bool exists;
    const auto place =
        Thresholds<T>::place(edges.at(channel, k), edges.closed && k == edges.bins, exists);
    if (exists) {
      thresholds.push_back(static_cast<G>(Number<T>::key_at(place)));
    }
  }
  const auto size = static_cast<int64_t>(thresholds.size());
  const auto value = [&](int64_t k) { return thresholds[static_cast<size_t>(k)]; };
  const Real low = edges.at(channel, 0), high = edges.at(channel, edges.bins);
  const auto line = cell_line<G, Arithmetic::kDevice>(low, high);
  const auto bits = BitCells<G>::between(low, high);
  found.over_bits = true;
  found.fullest = fullest_of(size, [&](int64_t k) { return bits.at(value(k)); });
  if (found.fullest > 1 && line.rises()) {
    const int64_t of_values =
        fullest_of(size, [&](int64_t k) { return whole_part(line, value(k), kCells - 1); });
    found.over_bits = of_values > found.fullest;
    found.fullest = std::min(found.fullest, of_values);
  }
}

bool is_valid(const Edges& edges, int64_t row) {
  bool valid = true;
  for (int64_t k = 0; k < edges.bins; ++k) {
    valid = valid && is_at_most(edges.at(row, k), edges.at(row, k + 1));
  }
  return valid;
}

/// Without guesses.
Findings search_all(const Problem& input, const Edges& edges) {
  const Rows rows(input, edges);
  Findings findings;
  for (int64_t row = 0; row < rows.size; ++row) {
    findings.invalid_channels += is_valid(edges, row) ? 0 : rows.count;
  }
  if (findings.invalid_channels < input.num_channels()) {
    add(findings, {"search", input.num_channels() - findings.invalid_channels, {}, {}});
  }
  return findings;
}

template <class T>
Findings find_in_streams(const Problem& input, const Edges& edges, const cuda::EdgePlan& plan) {
  using G = GuessOf<typename Number<T>::Key>;
  const Rows rows(input, edges);
  Findings findings;
  for (int64_t row = 0; row < rows.size; ++row) {
    if (!is_valid(edges, row)) {
      findings.invalid_channels += rows.count;
      continue;
    }
    for (unsigned index = 0; index < plan.streams.parts; ++index) {
      const Edges part = plan.streams.part(edges, index);
      const CheckedChannel checked = check_channel<T, G, Arithmetic::kDevice>(part, row);
      FoundBins found = best_guess(checked, rows.count, "cells");
      if (found.how == std::string("cells")) {
        choose_cells<T>(part, row, found);
      }
      add(findings, found);
    }
  }
  return findings;
}

/// The columns of a stripe share a guess: one that is right for all.
template <class T>
Findings find_in_columns(const Problem& input, const Edges& edges, const cuda::EdgePlan& plan) {
  using G = GuessOf<typename Number<T>::Key>;
  const Rows rows(input, edges);
  const cuda::ChannelColumns& in = plan.columns;
  std::vector<CheckedChannel> checked;
  Findings findings;
  for (int64_t row = 0; row < rows.size; ++row) {
    checked.push_back(check_channel<T, G, Arithmetic::kDevice>(edges, row));
    findings.invalid_channels += checked.back().valid ? 0 : rows.count;
  }
  if (edges.shared) {
    add(findings, best_guess(checked[0], in.batches * in.stripes, "search"));
    return findings;
  }
  const int64_t width = in.width(sizeof(T));
  for (int64_t stripe = 0; stripe < in.batches * in.stripes; ++stripe) {
    const int64_t first = stripe % in.stripes * width;
    CheckedChannel of_stripe;
    for (int64_t c = first; c < first + std::min(width, in.channels); ++c) {
      const int64_t channel = in.channel(stripe / in.stripes, c);
      const CheckedChannel& own = checked[static_cast<size_t>(channel)];
      of_stripe.formula = of_stripe.formula.channel < 0 ? own.formula : of_stripe.formula;
      of_stripe.comparison =
          of_stripe.comparison.channel < 0 ? own.comparison : of_stripe.comparison;
    }
    add(findings, best_guess(of_stripe, 1, "search"));
  }
  return findings;
}

// --- The operators

/// The edges of a call, or only how many there are.
Edges edges_of(const std::optional<Tensor>& edges, int64_t num_bins, int64_t channels) {
  if (!edges.has_value()) {
    return Edges::all(nullptr, ElementType::kFloat32, num_bins, channels == 1);
  }
  const Description description = describe(*edges);
  return Edges::all(
      edges->const_data_ptr(), *element_type(description.dtype), num_bins, edges->dim() == 1);
}

void add_wrong(Facts& facts, const char* channel, const char* edge, const WrongEdge& wrong) {
  facts.add(channel, wrong.channel);
  facts.add(edge, wrong.edge);
}

void add_findings(Facts& facts, const Findings& findings) {
  std::vector<Facts> ways;
  for (const FoundBins& found : findings.ways) {
    Facts& way = ways.emplace_back();
    way.add("how", found.how);
    way.add("count", found.count);
    add_wrong(way, "formula_fails_in", "formula_fails_at", found.formula);
    add_wrong(way, "comparison_fails_in", "comparison_fails_at", found.comparison);
    way.add("over_bits", found.over_bits);
    way.add("fullest_cell", found.fullest);
  }
  facts.add("searches", ways);
  facts.add("invalid_channels", findings.invalid_channels);
}

std::string plan_on_cpu(
    std::optional<Tensor> edges,
    int64_t num_bins,
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    std::optional<std::vector<int64_t>> dim,
    bool flow) {
  Facts facts, counting;
  Findings findings;
  const Described input{dtype, sizes, strides};
  const Checked checked = check_numbers("histogram", input.description("cpu"), dim);
  const DescribedProblem asked = describe_problem(
      "_plan_histogram_on_cpu", input, checked, Flow{flow}.num_counts(num_bins), facts);
  counting.add("loops", cpu::chosen_loops());
  if (asked.is_empty()) {
    counting.add("method", "nothing to count");
    facts.add("layout", "nothing to count");
  } else {
    const std::optional<Problem> patterns = cpu::patterns_of(asked.problem);
    Problem keys = patterns.value_or(asked.problem);
    if (patterns) {
      add_plan(counting, keys, cpu::plan_of(keys));
    } else {
      keys.type = cpu::key_type_of(num_bins, {flow});
      add_plan(counting, keys, cpu::plan_of_keys(keys));
    }
    facts.add("layout", patterns ? "patterns" : "staged");
    facts.add("key_bytes", cpu::size_of(keys.type));
    facts.add("workspace_bytes", patterns ? keys.num_counts() * int64_t{sizeof(int64_t)} : 0);
    if (edges.has_value()) {
      findings =
          find_on_cpu(asked.problem, edges_of(edges, num_bins, asked.problem.num_channels()));
    }
  }
  add_bytes(facts, asked, 0);
  add_findings(facts, findings);
  facts.add("keys", counting);
  return facts.json();
}

/// Besides that of the count of raw bytes.
int64_t workspace_of(const Problem& problem, const Edges& edges, const cuda::EdgePlan& plan) {
  if (plan.layout == cuda::EdgeLayout::kBytes) {
    return problem.num_channels() * 256 * int64_t{sizeof(int64_t)};
  }
  if (plan.layout == cuda::EdgeLayout::kColumns) {
    return cuda::ColumnMemory::of(plan.columns, problem.type, edges.bins).bytes();
  }
  return plan.checks_channels() ? (edges.shared ? 1 : problem.num_channels()) : 0;
}

void add_layout(Facts& facts, const cuda::EdgePlan& plan) {
  const cuda::EdgeStreams& streams = plan.streams;
  const cuda::ChannelColumns& columns = plan.columns;
  std::vector<std::string> steps;
  if (plan.clears) {
    steps.emplace_back(plan.overlaps ? "clear_counts" : "zeroing");
  }
  if (plan.checks_channels()) {
    steps.emplace_back("check_edges");
  }
  switch (plan.layout) {
    case cuda::EdgeLayout::kBytes:
      facts.add("layout", "bytes");
      steps.emplace_back("map_bytes");
      break;
    case cuda::EdgeLayout::kStreams:
      facts.add("layout", "streams");
      facts.add("vec16s", streams.has_runs);
      facts.add("chunks", int64_t{streams.chunks});
      facts.add("rows_per_block", streams.share);
      facts.add("parts", int64_t{streams.parts});
      facts.add("part_bins", streams.part_bins);
      facts.add("copies", int64_t{1} << streams.log_copies);
      steps.emplace_back("count_streams");
      break;
    case cuda::EdgeLayout::kColumns:
      facts.add("layout", "columns");
      facts.add("columns", columns.columns);
      facts.add("rows", columns.rows);
      facts.add("left", columns.left);
      facts.add("batches", columns.batches);
      facts.add("stripes", int64_t{columns.stripes});
      facts.add("stripe_words", int64_t{1} << columns.log_words);
      facts.add("word_bytes", int64_t{columns.word_bytes});
      facts.add("chunks", int64_t{columns.chunks});
      facts.add("rows_per_block", columns.share);
      steps.emplace_back("find_columns");
      steps.emplace_back("count_columns");
      break;
    case cuda::EdgeLayout::kScattered:
      facts.add("layout", "scattered");
      steps.emplace_back("count_scattered");
      break;
  }
  facts.add("blocks", plan.blocks);
  facts.add("threads", int64_t{plan.threads});
  facts.add("shared_bytes", plan.shared_bytes);
  facts.add("clears_counts", plan.clears);
  facts.add("steps", steps);
}

std::string plan_on_gpu(
    std::optional<Tensor> edges,
    int64_t num_bins,
    std::string dtype,
    std::vector<int64_t> sizes,
    std::vector<int64_t> strides,
    int64_t address,
    std::optional<std::vector<int64_t>> dim,
    bool flow,
    int64_t sm_count,
    int64_t shared_bytes_per_block,
    int64_t shared_bytes_per_sm,
    int64_t capability) {
  Facts facts;
  const Described input{dtype, sizes, strides};
  const Checked checked = check_numbers("histogram", input.description("cuda"), dim);
  const DescribedProblem asked =
      describe_problem("_plan_histogram", input, checked, Flow{flow}.num_counts(num_bins), facts);
  add_bytes(facts, asked, 0);
  if (asked.is_empty()) {
    facts.add("layout", "nothing to count");
    facts.add("steps", std::vector<std::string>(asked.problem.num_counts() > 0 ? 1 : 0, "zeroing"));
    add_findings(facts, {});
    return facts.json();
  }
  Problem problem = asked.problem;
  problem.data =
      reinterpret_cast<const void*>(static_cast<uintptr_t>(asked.copies_input ? 0 : address));
  const cuda::DeviceLimits limits{
      static_cast<int>(sm_count), shared_bytes_per_block, shared_bytes_per_sm,
      static_cast<int>(capability)};
  const Edges between = edges_of(edges, num_bins, problem.num_channels());
  const cuda::EdgePlan plan = cuda::plan_edges(problem, between, limits);
  add_layout(facts, plan);
  facts.add("workspace_bytes", workspace_of(problem, between, plan));
  add_findings(facts, edges.has_value() ? find_on_gpu(problem, between, plan) : Findings{});
  return facts.json();
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
      case cuda::EdgeLayout::kStreams:
        return find_in_streams<T>(input, edges, plan);
      case cuda::EdgeLayout::kColumns:
        return find_in_columns<T>(input, edges, plan);
      case cuda::EdgeLayout::kBytes:
      case cuda::EdgeLayout::kScattered:
        return search_all(input, edges);
    }
    fail("explain: a layout without a name");
  });
}

} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CompositeExplicitAutograd, m) {
  m.impl("_plan_histogram", TORCH_BOX(&histo::plan_on_gpu));
  m.impl("_plan_histogram_on_cpu", TORCH_BOX(&histo::plan_on_cpu));
}
