// How a GPU summarizes channels: the plan, made on the host from the problem and the limits of the
// device alone.
#pragma once

#include "cuda/plan/channels.h"

namespace histo::cuda {

struct SummaryPlan {
  bool in_columns; // channels lie side by side
  ChannelStreams streams;
  ChannelColumns columns;
  int threads; // of a block of streams
  int64_t blocks;
  bool adds; // several blocks add to what is found of a channel
};

SummaryPlan plan_summary(const Problem& problem, const DeviceLimits& limits);

} // namespace histo::cuda
