// Histograms in bins of one width: the edges are made here, and returned with the counts.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/uniform_edges.h"
#include "core/uniform_line.h"
#include "cpu/float_mode.h"
#include "cpu/huge_pages.h"
#include "cpu/kernels.h"
#include "cpu/run_widest.h"
#include "cpu/threads.h"

namespace histo::cpu {
namespace {

template <class T>
constexpr ElementType kTypeOf = sizeof(T) == 4 ? ElementType::kFloat32 : ElementType::kFloat64;

/// The range of each channel.
template <class T>
struct OwnRanges {
  std::vector<T> low;
  std::vector<T> high;

  explicit OwnRanges(const Problem& input)
      : low(static_cast<size_t>(input.num_channels())), high(low.size()) {
    finite_range(input, low.data(), high.data());
    const ExactFloats exact;
    for (size_t channel = 0; channel < low.size(); ++channel) {
      range_of_extremes(low[channel], high[channel]);
    }
  }
};

template <class T, class Edge, class F>
void between_extremes(const Problem& input, const UniformBins& bins, const F& f) {
  const int64_t channels = input.num_channels();
  const OwnRanges<T> own(input);
  auto* edges = static_cast<Edge*>(bins.edges);
  advise_huge_pages(edges, channels * (bins.bins + 1) * static_cast<int64_t>(sizeof(Edge)));
  uniform_edges(own.low.data(), own.high.data(), channels, bins.bins, edges);
  const UniformRanges ranges{own.low.data(), own.high.data(), kTypeOf<T>, false};
  const bool are_computed = sizeof(T) == sizeof(Edge);
  f(Edges::all(edges, bins.type, bins.bins, false), are_computed ? &ranges : nullptr);
}

template <class Edge, class F>
void between_edges(const Problem& input, const UniformBins& bins, const F& f) {
  if (bins.range == nullptr) {
    // NumPy computes the edges of no elements in float64.
    return input.num_rows() > 0 ? between_extremes<Edge, Edge>(input, bins, f)
                                : between_extremes<double, Edge>(input, bins, f);
  }
  auto* edges = static_cast<Edge*>(bins.edges);
  uniform_edges(bins.range, bins.range + 1, 1, bins.bins, edges);
  const UniformRanges range{bins.range, bins.range + 1, ElementType::kFloat64, true};
  f(Edges::all(edges, bins.type, bins.bins, true), &range);
}
template <class F>
void between_edges(const Problem& input, const UniformBins& bins, const F& f) {
  bins.type == ElementType::kFloat32 ? between_edges<float>(input, bins, f)
                                     : between_edges<double>(input, bins, f);
}

/// The edges [begin, end) of one range.
template <class T, class Edge>
void write_edges(T low, T high, int64_t bins, int64_t begin, int64_t end, Edge* edges) {
  UniformLine<T> line;
  if (!find_line<T, Edge>(low, high, bins, line)) {
    for (int64_t k = begin; k < end; ++k) {
      edges[k] = static_cast<Edge>(uniform_edge(low, high, bins, k));
    }
    return;
  }
  const auto first = static_cast<int32_t>(begin);
  run_widest([=]() __attribute__((always_inline)) {
    const auto size = static_cast<int32_t>(end - begin);
    for (int32_t i = 0; i < size; ++i) {
      const T after = static_cast<T>(first + i) * line.step + line.low;
      edges[first + i] = static_cast<Edge>(after);
    }
  });
  if (end > bins) {
    edges[bins] = static_cast<Edge>(high);
  }
}

} // namespace

void count_uniform(
    const Problem& input, const UniformBins& bins, const Flow& flow, Allocator& allocate) {
  between_edges(input, bins, [&](const Edges& edges, const UniformRanges* ranges) {
    count_between(input, edges, ranges, flow, allocate);
  });
}

void sum_weights_uniform(
    const Problem& problem,
    const Problem& input,
    const UniformBins& bins,
    const Flow& flow,
    Allocator& allocate) {
  between_edges(input, bins, [&](const Edges& edges, const UniformRanges* ranges) {
    sum_weights_between(problem, edges, ranges, flow, allocate);
  });
}

void edges_of(const Problem& input, const UniformBins& bins) {
  between_edges(input, bins, [](const Edges&, const UniformRanges*) {});
}

template <class T, class Edge>
void uniform_edges(const T* low, const T* high, int64_t rows, int64_t bins, Edge* edges) {
  const int64_t size = bins + 1;
  parallel_for(rows * size, 1 << 15, [&](int64_t begin, int64_t end) {
    const ExactFloats exact;
    for (int64_t i = begin; i < end;) {
      const int64_t row = i / size, first = i % size;
      const int64_t last = std::min(size, first + end - i);
      write_edges(low[row], high[row], bins, first, last, edges + row * size);
      i += last - first;
    }
  });
}
template void uniform_edges(const float*, const float*, int64_t, int64_t, float*);
template void uniform_edges(const float*, const float*, int64_t, int64_t, double*);
template void uniform_edges(const double*, const double*, int64_t, int64_t, float*);
template void uniform_edges(const double*, const double*, int64_t, int64_t, double*);

} // namespace histo::cpu
