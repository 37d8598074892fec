#include "edges.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "common.h"

namespace histo::cuda {
namespace {

constexpr int64_t kCellBytes = kCells * 4;
constexpr int64_t kReserved = 2048; // of shared memory, for what kernels declare themselves
/// Blocks for each that fits the GPU at once, where channels are many: they end evenly.
constexpr int64_t kWaves = 8;
/// A block counts at least so many bytes: setting out takes as long as reading 64 KiB.
constexpr int64_t kMinShareBytes = 64 << 10;
/// With fewer rows the result itself is counted in.
constexpr int64_t kMinRowsOfStream = 256;
constexpr int64_t kMinRowsOfByteTable = 512;
/// Columns that one row of a dense input is made to have.
constexpr int64_t kMaxStripes = 256;

int64_t bytes_of_type(ElementType type) {
  return visit_number_type(type, [](auto tag) { return int64_t{sizeof(typename decltype(tag)::type)}; });
}
int64_t bytes_of_key(ElementType type) {
  return visit_number_type(type, [](auto tag) {
    return int64_t{sizeof(typename Number<typename decltype(tag)::type>::Key)};
  });
}

int threads_for(int64_t key_bytes) {
  return key_bytes == 4 ? 1024 : 512;
}

int64_t blocks_at_once(const DeviceLimits& limits, int64_t shared_bytes) {
  return limits.sm_count * (2 * (shared_bytes + 1024) <= limits.shared_per_sm ? 2 : 1);
}

/// How many blocks share `units` of rows, if there are `others` of such.
int64_t chunks_of(int64_t at_once, int64_t others, int64_t rows, int64_t row_bytes) {
  const int64_t wanted = others == 1 ? at_once : ceil_div(at_once * kWaves, others);
  const int64_t most = std::max<int64_t>(1, rows * row_bytes / kMinShareBytes);
  const int64_t for_32_bits = ceil_div(rows, int64_t{1} << 31);
  return std::max(std::min({wanted, most, rows}), for_32_bits);
}

ChannelStreams streams_of(
    const Problem& problem, int64_t element_bytes, int64_t at_once) {
  ChannelStreams in{};
  std::copy(std::begin(problem.channels), std::end(problem.channels), in.channels);
  std::copy(std::begin(problem.rows), std::end(problem.rows), in.rows);
  in.num_rows = problem.num_rows();
  const int64_t address = address_of(problem);
  in.has_runs = problem.rows[2].stride == 1 && address % element_bytes == 0;
  const int64_t chunks = chunks_of(at_once, problem.num_channels(), in.num_rows, element_bytes);
  in.share = ceil_div(in.num_rows, chunks);
  in.chunks = static_cast<unsigned>(ceil_div(in.num_rows, in.share));
  return in;
}

/// Channels side by side, in rows of one loop.
bool are_columns(const Problem& problem, int64_t element_bytes) {
  const Extent& channels = problem.channels[1];
  const Extent& rows = problem.rows[2];
  const int64_t word = std::max<int64_t>(element_bytes, 4);
  const auto in_words = [&](int64_t elements) { return elements * element_bytes % word == 0; };
  return channels.size > 1 && channels.stride == 1 && rows.stride >= channels.size &&
         problem.rows[0].size == 1 && problem.rows[1].size == 1 &&
         address_of(problem) % word == 0 && in_words(problem.channels[0].stride) &&
         (rows.stride == channels.size || (in_words(rows.stride) && in_words(channels.size)));
}

ChannelColumns columns_of(
    const Problem& problem, int64_t element_bytes, unsigned log_words, int64_t at_once) {
  const int64_t of_word = std::max<int64_t>(4 / element_bytes, 1);
  const int64_t width = of_word << log_words;
  const Extent& channels = problem.channels[1];
  const Extent& rows = problem.rows[2];
  ChannelColumns in{};
  in.batches = problem.channels[0].size;
  in.batch_stride = problem.channels[0].stride;
  in.channels = channels.size;
  in.columns = channels.size;
  in.rows = rows.size;
  in.row_stride = rows.stride;
  in.log_words = log_words;
  const int64_t period = std::lcm(channels.size, width);
  // Dense rows are joined, so that stripes are full and begin in lines.
  if (rows.stride == channels.size && period / width <= kMaxStripes) {
    const int64_t elements = rows.size * channels.size;
    in.columns = in.row_stride = period;
    in.rows = elements / period;
    in.left = elements % period;
  }
  in.stripes = static_cast<unsigned>(ceil_div(in.columns, width));
  const int64_t row_bytes = width * element_bytes;
  const int64_t chunks = chunks_of(
      at_once, in.batches * in.stripes, std::max<int64_t>(in.rows, 1), row_bytes);
  in.share = std::max<int64_t>(ceil_div(in.rows, chunks), 1);
  in.chunks = static_cast<unsigned>(std::max<int64_t>(ceil_div(in.rows, in.share), 1));
  return in;
}

/// Whether all tables of columns are worth their reduction.
bool has_rows_for_columns(const ChannelColumns& in, int64_t places) {
  return in.rows * (int64_t{1} << in.log_words) >= places;
}

/// Two 16-bit thresholds are a word; others are kept as keys.
int64_t column_bytes(ElementType type, int64_t bins) {
  const int64_t element_bytes = bytes_of_type(type);
  const int64_t of_word = std::max<int64_t>(4 / element_bytes, 1);
  const bool is_small_float = element_bytes == 2 && !is_integer(type);
  const int64_t threshold = is_small_float ? 2 : bytes_of_key(type);
  return of_word * ((bins + 3) * 4 + (bins + 1) * threshold);
}

/// Tables of columns in stripes of 32 words, or else of 8.
bool plan_columns(
    const Problem& problem, int64_t bins, const DeviceLimits& limits, EdgePlan& plan) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  if (!are_columns(problem, element_bytes)) {
    return false;
  }
  for (const unsigned log_words : {5u, 3u}) {
    const int64_t shared = (column_bytes(problem.type, bins) << log_words) + 16;
    if (shared + kReserved > limits.shared_per_block) {
      continue;
    }
    plan.layout = EdgeLayout::kColumns;
    plan.shared_bytes = shared;
    plan.columns =
        columns_of(problem, element_bytes, log_words, blocks_at_once(limits, shared));
    plan.blocks = plan.columns.batches * plan.columns.stripes * plan.columns.chunks;
    plan.clears = true;
    return has_rows_for_columns(plan.columns, bins + 3);
  }
  return false;
}

bool plan_streams(
    const Problem& problem, int64_t bins, const DeviceLimits& limits, EdgePlan& plan) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  const int64_t copy = (bins + 3) * 4 + (bins + 2) * bytes_of_key(problem.type);
  const auto shared_bytes = [&](unsigned log_copies) { return (copy << log_copies) + kCellBytes; };
  unsigned log_copies = 0;
  if (element_bytes == 2 && !is_integer(problem.type)) {
    log_copies = 2 * shared_bytes(5) + 4096 <= limits.shared_per_sm       ? 5
                 : shared_bytes(3) + kReserved <= limits.shared_per_block ? 3
                                                                          : 0;
  }
  plan.layout = EdgeLayout::kStreams;
  plan.shared_bytes = shared_bytes(log_copies);
  if (plan.shared_bytes + kReserved > limits.shared_per_block ||
      problem.num_rows() < kMinRowsOfStream) {
    return false;
  }
  plan.streams = streams_of(problem, element_bytes, blocks_at_once(limits, plan.shared_bytes));
  plan.streams.log_copies = log_copies;
  plan.blocks = problem.num_channels() * plan.streams.chunks;
  plan.clears = plan.streams.chunks > 1;
  return true;
}

} // namespace

EdgePlan plan_edges(
    const Problem& problem, const Edges& edges, const DeviceLimits& limits) {
  EdgePlan plan{};
  plan.threads = threads_for(bytes_of_key(problem.type));
  if (bytes_of_type(problem.type) == 1 && problem.num_rows() >= kMinRowsOfByteTable) {
    plan.layout = EdgeLayout::kBytes;
    return plan;
  }
  if (bytes_of_type(problem.type) > 1 && (plan_columns(problem, edges.bins, limits, plan) ||
                                          plan_streams(problem, edges.bins, limits, plan))) {
    return plan;
  }
  plan.layout = EdgeLayout::kScattered;
  plan.clears = true;
  return plan;
}

EdgePlan plan_extremes(const Problem& problem, const DeviceLimits& limits) {
  const int64_t element_bytes = bytes_of_type(problem.type);
  EdgePlan plan{};
  plan.threads = threads_for(bytes_of_key(problem.type));
  if (are_columns(problem, element_bytes) && element_bytes > 1) {
    plan.layout = EdgeLayout::kColumns;
    plan.columns = columns_of(problem, element_bytes, 5, blocks_at_once(limits, 0));
    plan.blocks = plan.columns.batches * plan.columns.stripes * plan.columns.chunks;
    return plan;
  }
  plan.layout = EdgeLayout::kStreams;
  plan.streams = streams_of(problem, element_bytes, blocks_at_once(limits, 0));
  plan.blocks = problem.num_channels() * plan.streams.chunks;
  return plan;
}

} // namespace histo::cuda
