// The kernels that count integers, one for each layout of a plan (plan/layouts.h).
#pragma once

#include "core/axis.h"
#include "cuda/launch.h"

namespace histo::cuda {

/// Elements that lie side by side: the engine's fast way.
void count_interleaved(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);
/// Whole rows of bytes, where each block has some of one table's.
void count_rows(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);
/// Bytes of one channel after another, or of three in turn.
void count_planar(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);
/// A few MiB of bytes that lie side by side, in one launch.
void count_clustered(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);
/// Elements in many short runs.
void count_runs(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch);
/// Any type over any strides: the engine's general way.
void count_generic(
    const CountPlan& plan, const Problem& problem, const ByteAxis& bytes, const Launch& launch);
/// One channel in more bins than shared memory holds: blocks own bins.
void count_partitioned(const CountPlan& plan, const Problem& problem, const Launch& launch);

} // namespace histo::cuda
