// Streams of values and weights whose types are known when a kernel runs.
#pragma once

#include "cuda/fill/weights.h"

namespace histo::cuda {

void sum_mixed_streams(
    const WeightStreams& in, const EdgeSum& call, const uint8_t* valid, const Launch& launch);

} // namespace histo::cuda
