#include "cuda/plan/channels.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "cuda/plan/common.h"

namespace histo::cuda {
namespace {

/// The number of blocks that share the rows of a channel so that the whole grid ends soonest. There
/// are `others` channels, or parts of channels, and the GPU runs `at_once` blocks at a time. Blocks
/// run in waves, and a wave should be full.
int64_t chunks_of(
    int64_t at_once, int64_t others, int64_t rows, int64_t row_bytes, int64_t setup_bytes) {
  const int64_t least = std::max<int64_t>(ceil_div(rows, int64_t{1} << 31), 1); // 32-bit counters
  const int64_t least_waves = ceil_div(others * least, at_once);
  int64_t best = least, least_cost = INT64_MAX;
  for (int64_t waves = least_waves; waves <= least_waves + kMoreWaves; ++waves) {
    const int64_t chunks = std::max(std::min(rows, waves * at_once / others), least);
    const int64_t cost = waves * (ceil_div(rows, chunks) * row_bytes + setup_bytes);
    if (cost < least_cost) {
      least_cost = cost;
      best = chunks;
    }
  }
  return best;
}

/// Whether all rows begin and end with whole words.
bool are_whole(const Problem& problem, int64_t word_bytes) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const auto in_words = [&](int64_t elements) {
    return elements * element_bytes % word_bytes == 0;
  };
  return address_of(problem) % word_bytes == 0 && in_words(problem.channels[0].stride) &&
         in_words(problem.channels[1].size) &&
         std::all_of(std::begin(problem.rows), std::end(problem.rows), [&](const Extent& loop) {
           return loop.size == 1 || in_words(loop.stride);
         });
}

} // namespace

ChannelStreams streams_of(
    const Problem& problem, int64_t others, const DeviceLimits& limits, int64_t setup_bytes) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  ChannelStreams in{};
  std::copy(std::begin(problem.channels), std::end(problem.channels), in.channels);
  std::copy(std::begin(problem.rows), std::end(problem.rows), in.rows);
  in.num_rows = problem.num_rows();
  const int64_t run = problem.rows[2].size;
  in.has_runs = problem.rows[2].stride == 1 && address_of(problem) % element_bytes == 0 &&
                (run == in.num_rows || run >= kShortestRun);
  const int64_t chunks = chunks_of(
      limits.sm_count, problem.num_channels() * others, in.num_rows, element_bytes, setup_bytes);
  in.set_share(ceil_div(in.num_rows, chunks));
  return in;
}

ChannelSpans spans_of(const Problem& problem, unsigned chunks) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const Extent& rows = problem.rows[2];
  const auto in_vec16s = [&](const Extent& loop) {
    return loop.size == 1 || loop.stride * element_bytes % kVec16Bytes == 0;
  };
  ChannelSpans in{};
  std::copy(std::begin(problem.channels), std::end(problem.channels), in.channels);
  std::copy(&problem.rows[0], &problem.rows[2], in.outer);
  in.stride = rows.stride;
  in.rows_of_span = in.length = static_cast<unsigned>(rows.size);
  in.spans = static_cast<unsigned>(in.outer[0].size * in.outer[1].size);
  in.chunks = chunks;
  const bool aligned = address_of(problem) % kVec16Bytes == 0 &&
                       rows.size * element_bytes % kVec16Bytes == 0 && in_vec16s(in.outer[0]) &&
                       in_vec16s(in.outer[1]) && in_vec16s(in.channels[0]) &&
                       in_vec16s(in.channels[1]);
  in.has_vec16s =
      rows.stride == 1 && address_of(problem) % element_bytes == 0 && (aligned || in.spans == 1);
  if (in.has_vec16s) {
    in.length = static_cast<unsigned>(ceil_div(rows.size * element_bytes, kVec16Bytes));
  }
  in.items = in.spans * in.length;
  return in;
}

bool are_general_columns(const Problem& problem) {
  const Extent& channels = problem.channels[1];
  int64_t longest = 1;
  for (const Extent& loop : problem.rows) {
    longest = std::max(longest, loop.size);
  }
  return channels.size > 1 && channels.stride == 1 && problem.rows[2].stride >= channels.size &&
         problem.num_rows() < kMaxRows && problem.num_rows() / longest <= kMostPlacesOfColumns &&
         address_of(problem) % bytes_of_type(problem.type) == 0;
}

bool are_columns(const Problem& problem, int64_t word_bytes) {
  const Extent& channels = problem.channels[1];
  const Extent& rows = problem.rows[2];
  const int64_t element_bytes = bytes_of_type(problem.type);
  const auto in_words = [&](int64_t elements) {
    return elements * element_bytes % word_bytes == 0;
  };
  return channels.size > 1 && channels.stride == 1 && rows.stride >= channels.size &&
         problem.rows[0].size == 1 && problem.rows[1].size == 1 &&
         address_of(problem) % word_bytes == 0 && in_words(problem.channels[0].stride) &&
         // Dense rows of an odd number of small elements are joined until they end with a word.
         ((rows.stride == channels.size && channels.size <= kMaxStripes) ||
          (in_words(rows.stride) && in_words(channels.size)));
}

ChannelColumns stripes_of(const Problem& problem, int64_t word_bytes, unsigned log_words) {
  const Extent& channels = problem.channels[1];
  ChannelColumns in{};
  in.batches = problem.channels[0].size;
  in.batch_stride = problem.channels[0].stride;
  in.channels = channels.size;
  in.columns = channels.size;
  Extent loops[3];
  std::copy(std::begin(problem.rows), std::end(problem.rows), loops);
  std::stable_sort(std::begin(loops), std::end(loops), [](const Extent& a, const Extent& b) {
    return a.size < b.size;
  });
  in.rows = loops[2].size;
  in.row_stride = loops[2].stride;
  std::copy(&loops[0], &loops[2], in.runs);
  in.steps = 1;
  in.loose = !are_whole(problem, word_bytes);
  in.log_words = log_words;
  in.word_bytes = static_cast<unsigned>(word_bytes);
  const int64_t width = in.width(static_cast<unsigned>(bytes_of_type(problem.type)));
  in.stripes = static_cast<unsigned>(ceil_div(in.columns, width));
  return in;
}

void set_steps(ChannelColumns& in, int64_t threads) {
  const int64_t at_once = std::max<int64_t>(threads >> in.log_words, 1);
  const int64_t most = std::min<int64_t>(in.share, kMostStepsOfColumns);
  int64_t least_cost = INT64_MAX;
  for (int64_t steps = 1; steps <= most; ++steps) {
    const int64_t cost =
        ceil_div(in.places() * steps, at_once) * (ceil_div(in.share, steps) + kRowsToSetUpItem);
    if (cost < least_cost) {
      least_cost = cost;
      in.steps = static_cast<unsigned>(steps);
    }
  }
}

ChannelColumns columns_of(
    const Problem& problem,
    int64_t word_bytes,
    unsigned log_words,
    int64_t setup_bytes,
    const DeviceLimits& limits,
    bool joins) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const Extent& channels = problem.channels[1];
  const Extent& rows = problem.rows[2];
  ChannelColumns in = stripes_of(problem, word_bytes, log_words);
  const int64_t width = in.width(static_cast<unsigned>(element_bytes));
  const int64_t full = std::lcm(channels.size, width);
  const int64_t whole = std::lcm(channels.size, word_bytes / element_bytes);
  const bool to_full = full / width <= kMaxStripes;
  const bool is_dense = in.places() == 1 && rows.stride == channels.size &&
                        address_of(problem) % word_bytes == 0 &&
                        in.batch_stride * element_bytes % word_bytes == 0;
  // Dense rows are joined, so that stripes are full and begin in lines, or at least have whole words.
  if (joins && is_dense && (to_full || in.loose)) {
    const int64_t elements = rows.size * channels.size;
    in.columns = in.row_stride = to_full ? full : whole;
    in.rows = elements / in.columns;
    in.left = elements % in.columns;
    in.loose = false;
  }
  in.stripes = static_cast<unsigned>(ceil_div(in.columns, width));
  const int64_t chunks = chunks_of(
      limits.sm_count, in.batches * in.stripes, in.rows, in.places() * width * element_bytes,
      setup_bytes);
  in.set_share(ceil_div(in.rows, chunks));
  return in;
}

} // namespace histo::cuda
