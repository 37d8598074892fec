#include "cuda/count/dispatch.h"

#include "cuda/count/sweeps.h"

namespace histo::cuda {

namespace {

/// One function of many types of arguments.
template <class... Functions>
struct Overloads : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloads(Functions...) -> Overloads<Functions...>;

} // namespace

template <class Binning>
void count(const Problem& problem, const Binning& binning, const Launch& launch) {
  const ByteAxis axis = byte_axis(problem.type, binning);
  const CountPlan plan = make_plan(problem, entries_of(problem, axis), launch.limits);
  std::visit(
      Overloads{
          [&](const Interleaved&) { count_interleaved(plan, problem, axis, launch); },
          [&](const WholeRows&) { count_rows(plan, problem, axis, launch); },
          [&](const Planar&) { count_planar(plan, problem, axis, launch); },
          [&](const Clustered&) { count_clustered(plan, problem, axis, launch); },
          [&](const Runs&) { count_runs(plan, problem, axis, launch); },
          [&](const Generic&) { count_generic(plan, problem, axis, launch); },
          [&](const Partitioned&) { count_partitioned(plan, problem, launch); }},
      plan.layout);
}

template void count(const Problem&, const ValueBinning&, const Launch&);
template void count(const Problem&, const LetterBinning&, const Launch&);

} // namespace histo::cuda
