#include "cuda/plan/facts.h"
#include "cuda/plan/planners.h"

namespace histo::cuda {
namespace {

/// x with a * x = 1, modulo 2^32.
constexpr uint32_t inverse_of(uint32_t a) {
  uint32_t x = a; // right in 3 bits, and in twice as many with each step
  for (int bits = 3; bits < 32; bits *= 2) {
    x *= 2 - a * x;
  }
  return x;
}

bool is_one_long_channel(const Request& request) {
  const auto& [problem, entries, limits] = request;
  const Extent& rows = problem.rows[2];
  return problem.num_channels() == 1 && problem.num_rows() == rows.size && rows.stride == 1 &&
         entries.bytes > 1 && rows.size * entries.bytes >= kMinBytesForPartitioned &&
         rows.size >= kMinElementsPerBin * problem.num_bins;
}

struct Owners {
  int64_t count;
  unsigned log_bins; // of each
  int64_t shared_bytes;
};

std::optional<Owners> owners_of(const Request& request) {
  const int64_t count = power_of_two_below(request.limits.sm_count);
  const unsigned log_bins = log2_of(ceil_div(request.problem.num_bins, count));
  if (count < kFewestOwners || log_bins > kMaxLogOwned) {
    return std::nullopt;
  }
  const int64_t table_bytes = (kCounterBytes << log_bins) + 2 * kHotBins * kCounterBytes;
  const int64_t staged_bytes =
      count * (kBucketBytes + kVec16Bytes + kCounterBytes) + kBanks * kCounterBytes;
  const Owners owners{count, log_bins, table_bytes + staged_bytes};
  return owners.shared_bytes <= request.limits.shared_per_block ? std::optional(owners)
                                                                : std::nullopt;
}

Partitioned layout_of(const Request& request, const Owners& owners) {
  const auto& [problem, entries, limits] = request;
  const int64_t size = entries.bytes;
  const int64_t elements = problem.rows[2].size;
  const int64_t beyond = address_of(problem) % kVec16Bytes;
  const int64_t head = beyond > 0 ? (kVec16Bytes - beyond) / size : 0;
  const int64_t vec16s_of_thread = size == 2 ? kPartitionedVec16s<2> : kPartitionedVec16s<4>;
  Partitioned in{};
  in.data = static_cast<const uint8_t*>(problem.data) + head * size;
  in.vec16s = (elements - head) * size / kVec16Bytes;
  in.head = static_cast<unsigned>(head);
  in.ragged = static_cast<unsigned>(elements - in.vec16s * kVec16Bytes / size);
  in.num_bins = problem.num_bins;
  // A negative value is above the limit as it stands.
  in.limit = static_cast<uint32_t>(std::min(entries.values, kMaxOf32Bits));
  in.vec16s_of_tile = vec16s_of_thread * kPartitionedThreads;
  in.rounds = static_cast<unsigned>(ceil_div(in.vec16s, in.vec16s_of_tile * limits.sm_count));
  in.log_owners = log2_of(owners.count);
  in.log_owned = owners.log_bins;
  in.mixer = kGoldenRatio << (32 - in.log_owners - in.log_owned);
  in.unmixer = inverse_of(kGoldenRatio);
  in.element_bytes = static_cast<int>(size);
  return in;
}

/// Whether 32 bits are enough if all items that an owner finds are of one bin. An item has two
/// bytes, and may stand for a whole vec16.
bool counters_hold_all(const Partitioned& in, int64_t blocks) {
  const int64_t items = in.rounds * blocks * kBucketBytes / 2;
  return items * (kVec16Bytes / in.element_bytes) <= kMaxOf32Bits;
}

} // namespace

std::optional<CountPlan> plan_partitioned(const Request& request) {
  const int64_t blocks = request.limits.sm_count;
  const std::optional<Owners> owners =
      is_one_long_channel(request) ? owners_of(request) : std::nullopt;
  if (!owners) {
    return std::nullopt;
  }
  const Partitioned in = layout_of(request, *owners);
  if (!counters_hold_all(in, blocks)) {
    return std::nullopt;
  }
  CountPlan plan{};
  plan.layout = in;
  plan.blocks = blocks;
  plan.threads = kPartitionedThreads;
  plan.shared_bytes = owners->shared_bytes;
  plan.workspace_bytes = kBarrierBytes + 2 * owners->count * blocks * kBucketBytes;
  plan.clears = true;
  return plan;
}

LayoutFacts facts_of(const Partitioned& in, const Problem&) {
  const Facts layout{
      {"method", "partitioned"},
      {"access", name_of(Access::kVec16)},
      {"load_bytes", kVec16Bytes},
      {"owners", 1 << in.log_owners},
      {"bins_per_owner", 1 << in.log_owned},
      {"rounds", in.rounds},
      {"rows_per_block", in.rounds * in.vec16s_of_tile * kVec16Bytes / in.element_bytes}};
  return {"count_partitioned", layout, {{"counter_bits", 32}}};
}

} // namespace histo::cuda
