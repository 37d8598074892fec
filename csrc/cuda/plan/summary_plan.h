// How a GPU summarizes channels: the plan, made on the host from the problem and the limits of the
// device alone.
#pragma once

#include <variant>

#include "cuda/plan/channels.h"
#include "cuda/plan/vec16s.h"
#include "cuda/policy_select.h"

namespace histo::cuda {

/// A block has vec16s of one channel, across the runs that it lies in.
struct ChannelRuns {
  ChannelVec16s vec16s;
  int64_t share;   // the vec16s of a block
  unsigned chunks; // of a channel
};

/// Streams have a channel that is one run, or whose elements lie apart; runs one of several runs.
struct SummaryPlan {
  std::variant<ChannelStreams, ChannelRuns, ChannelColumns> layout;
  int threads; // of a block of streams or runs
  int64_t blocks;
  bool adds; // several blocks add to what is found of a channel
};

SummaryPlan plan_summary(const Problem& problem, const DeviceLimits& limits);

} // namespace histo::cuda
