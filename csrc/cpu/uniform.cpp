// Histograms in bins of one width: the edges are made here, and returned with the counts.
#include <vector>

#include "core/uniform_edges.h"
#include "cpu/kernels.h"
#include "cpu/threads.h"

namespace histo::cpu {
namespace {

template <class T, class Edge>
void count_between_extremes(
    const Problem& input, const UniformBins& bins, const Flow& flow, Allocator& allocate) {
  const int64_t channels = input.num_channels();
  std::vector<T> low(static_cast<size_t>(channels)), high(low.size());
  finite_range(input, low.data(), high.data());
  for (size_t channel = 0; channel < low.size(); ++channel) {
    range_of_extremes(low[channel], high[channel]);
  }
  auto* edges = static_cast<Edge*>(bins.edges);
  uniform_edges(low.data(), high.data(), channels, bins.bins, edges);
  count_between(input, Edges::all(edges, bins.type, bins.bins, false), flow, allocate);
}

template <class Edge>
void count_uniform(
    const Problem& input, const UniformBins& bins, const Flow& flow, Allocator& allocate) {
  if (bins.range == nullptr) {
    // NumPy computes the edges of no elements in float64.
    return input.num_rows() > 0 ? count_between_extremes<Edge, Edge>(input, bins, flow, allocate)
                                : count_between_extremes<double, Edge>(input, bins, flow, allocate);
  }
  auto* edges = static_cast<Edge*>(bins.edges);
  uniform_edges(bins.range, bins.range + 1, 1, bins.bins, edges);
  count_between(input, Edges::all(edges, bins.type, bins.bins, true), flow, allocate);
}

} // namespace

void count_uniform(
    const Problem& input, const UniformBins& bins, const Flow& flow, Allocator& allocate) {
  bins.type == ElementType::kFloat32 ? count_uniform<float>(input, bins, flow, allocate)
                                     : count_uniform<double>(input, bins, flow, allocate);
}

} // namespace histo::cpu
