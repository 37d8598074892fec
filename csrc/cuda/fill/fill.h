// Counting numbers between edges on a GPU, and what edges are made of.
#pragma once

#include <vector>

#include "core/edges.h"
#include "core/uniform_edges.h"
#include "cuda/launch.h"
#include "cuda/plan/edge_plan.h"

namespace histo::cuda {

/// Counts a problem whose num_bins are all counts of a channel.
void count_between(
    const Problem& problem, const Edges& edges, const Flow& flow, const Launch& launch);

/// A count by its plan, in counts that are cleared if the plan says so.
struct EdgeCount {
  const EdgePlan& plan;
  const Problem& problem;
  const Edges& edges;
  const Flow& flow;
};
void count_by(const EdgeCount& call, const Launch& launch);

/// Counts by a plan of plan_own_rows between low and high, [channels], of the type of the edges, and
/// writes these. Counts are cleared if the plan says so.
template <class E>
void count_own_teams(
    const EdgePlan& plan,
    const Problem& problem,
    const E* low,
    const E* high,
    const UniformBins& bins,
    const Flow& flow,
    const Launch& launch);

/// Writes edges of one width, and counts between them.
void count_uniform(
    const Problem& problem, const UniformBins& bins, const Flow& flow, const Launch& launch);
/// Writes the edges alone.
void edges_of(const Problem& problem, const UniformBins& bins, const Launch& launch);
/// The same of several axes, each between two numbers, by one kernel for a few of them.
void edges_of_axes(const std::vector<UniformBins>& axes, const Launch& launch);

// The layouts of EdgePlan.
void count_layout(const EdgeBytes& in, const EdgeCount& call, const Launch& launch);
void count_layout(const EdgeTeams& in, const EdgeCount& call, const Launch& launch);
void count_layout(const EdgeStreams& in, const EdgeCount& call, const Launch& launch);
void count_layout(const ChannelColumns& in, const EdgeCount& call, const Launch& launch);
void count_layout(const EdgeStripes& in, const EdgeCount& call, const Launch& launch);
void count_layout(const Generic& in, const EdgeCount& call, const Launch& launch);

/// Whether the edges of channels do not decrease and none is NaN: a byte for each channel, or one
/// if they share them.
const uint8_t* check_channels(const Edges& edges, int64_t channels, const Launch& launch);

/// The smallest and the largest finite value of each channel, rounded outwards to T, float or
/// double; infinity and -infinity where there is none.
template <class T>
void finite_range(const Problem& problem, T* low, T* high, const Launch& launch);

/// Evenly spaced edges of `rows` ranges.
template <class T, class Edge>
void uniform_edges(
    const T* low, const T* high, int64_t rows, int64_t bins, Edge* edges, const Launch& launch);

/// Calls f(TypeTag<T>{}) with the type of elements wider than a byte.
template <class F>
void visit_wide_type(ElementType type, const F& f) {
  visit_number_type(type, [&](auto tag) {
    if constexpr (sizeof(typename decltype(tag)::type) > 1) {
      f(tag);
    } else {
      throw InternalError("visit_wide_type: bytes have kernels of their own");
    }
  });
}

/// Calls f(whether all vec16s are whole, as a constant). Rare types have one kernel for both.
template <class T, class F>
void visit_whole(bool whole, const F& f) {
  if constexpr (Number<T>::kIsFloat && sizeof(T) <= 4) {
    if (whole) {
      return f(std::true_type{});
    }
  }
  f(std::false_type{});
}

} // namespace histo::cuda
