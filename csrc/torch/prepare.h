// What the preparations of several operators share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "torch/arguments.h"

namespace histo {

// The ends of error messages of allocate(): what the memory was for, and the remedy.
constexpr std::string_view kUseOfCounts =
    "the counts: pass fewer bins, or fewer channels at a time";
constexpr std::string_view kUseOfDigits =
    "the digits of sums: pass fewer bins, or fewer channels at a time";

/// The call of a problem that reads these tensors and fills a result, which has `num_bins` bins for
/// each channel.
Call call_of(
    std::vector<Tensor> tensors, const Checked& checked, int64_t num_bins, const Tensor& result);

/// The checked arguments of an operator whose bins lie between edges.
struct Between {
  Checked checked;
  int64_t bins;
  std::vector<int64_t> sizes; // that the edges are expanded to
  ElementType type;           // of the edges
  bool shared;                // all channels have the same edges

  Tensor expanded(const Tensor& edges) const;
  /// The edges of a tensor that expanded() returned.
  Edges edges_at(const Tensor& expanded_edges) const;
  /// Gives a call the edges of its bins.
  void put(const Tensor& edges, bool flow, EdgesCall& call) const;
};

Between check_between(
    std::string_view op, const Tensor& input, const Tensor& edges, const Dims& dim);

/// The edges of bins of one width, between the two numbers of a range or each channel's extremes.
UniformEdges prepare_edges(
    const Tensor& input, const Checked& checked, int64_t num_bins, const GivenRange& range);

/// Checks a weight of the elements of the input, and its sizes.
void check_weight(std::string_view op, const Tensor& input, const Tensor& weight);

void check_same_gpu(
    std::string_view op, std::string_view argument, const Tensor& tensor, const Tensor& other);

/// Whether a tensor of these sizes expands to others. Both end with the same dimension.
bool broadcasts(const std::vector<int64_t>& from, const std::vector<int64_t>& to);

/// A contiguous result, but for the order of its dimensions: those that are kept come first. So it
/// is one loop over channels and one over rows, beside any input.
Tensor allocate_by_channels(
    const Tensor& input, const Checked& checked, ScalarType dtype, std::string_view use);

/// The sizes of the dimensions that a result keeps, and then `last`.
std::vector<int64_t> kept_sizes(const Tensor& input, const Checked& checked, int64_t last);

} // namespace histo
