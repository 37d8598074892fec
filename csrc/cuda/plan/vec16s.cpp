#include "cuda/plan/vec16s.h"

#include <algorithm>

#include "cuda/plan/channels.h"
#include "cuda/plan/common.h"

namespace histo::cuda {

std::optional<ChannelVec16s> vec16s_of(const Problem& problem) {
  const int64_t bytes = bytes_of_type(problem.type);
  const Extent& run = problem.rows[2];
  if ((run.stride != 1 && run.size > 1) || address_of(problem) % bytes != 0) {
    return std::nullopt;
  }
  ChannelVec16s in{};
  std::copy_n(problem.channels, 2, in.channels);
  std::copy_n(problem.rows, 2, in.runs);
  in.run = run.size;
  int64_t places = address_of(problem) | in.run * bytes;
  for (const Extent& loop : {in.channels[0], in.channels[1], in.runs[0], in.runs[1]}) {
    places |= loop.size > 1 ? loop.stride * bytes : 0;
  }
  in.aligned = places % kVec16Bytes == 0;
  const int64_t before = in.aligned ? 0 : kVec16Bytes - bytes; // at most
  in.vec16s_of_run = ceil_div(before + in.run * bytes, kVec16Bytes);
  return in;
}

} // namespace histo::cuda
