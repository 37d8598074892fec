// Counts elements of any type in many short runs: rows of images that were cropped, channels that
// have few elements each, rows with gaps.
//
// The blocks of interleaved.cu and planar.cu each read a long stretch of memory, which short runs
// do not have. Here every thread finds each vec16 that it reads. All runs of a segment are cut into
// aligned vec16s, and a product and a shift tell the run of a vec16. Bytes of a vec16 that lie
// outside of its run are counted in an entry that nobody reads.
//
// The position of an element in its run tells its channel. Bytes of up to four channels have a
// table for each channel. A counter has up to one copy for each lane, which prevents bank
// conflicts. More channels are columns of one table. Copies of the first columns follow the last
// one, so that the elements of a vec16 have neighbouring columns. An entry has an odd number of
// columns, so that entries begin in different banks.
//
// A run of one channel may be several short rows with gaps between them. The position of a vec16's
// first byte tells which of its bytes lie between rows.
#include "cuda/count/sweeps.h"
#include "cuda/count/tables.cuh"
#include "cuda/pdl.cuh"
#include "cuda/storage/clear.h"
#include "cuda/walk/loads.cuh"

namespace histo::cuda {
namespace {

/// A vec16 of a segment.
struct Vec16OfRun {
  uint64_t address;
  unsigned begin;   // of its bytes that belong to its run
  unsigned end;     // not above begin if none does
  uint32_t between; // a bit for each byte that lies between rows of the run
  unsigned column;
};

struct LoadedVec16 {
  uint4 bytes;
  uint32_t range;   // begin, and end from bit 8 on
  uint32_t between; // as in Vec16OfRun
  uint32_t column;  // its first one
};

/// Loads a vec16 that reaches beyond the tensor. Bytes outside of its run are unspecified.
__device__ __forceinline__ uint4 load_bytes(const Vec16OfRun& at) {
  uint4 v = make_uint4(0, 0, 0, 0);
#pragma unroll 1
  for (unsigned i = kVec16Bytes; i-- > 0;) {
    const bool inside = i >= at.begin && i < at.end;
    v.w = __funnelshift_r(v.z, v.w, 24);
    v.z = __funnelshift_r(v.y, v.z, 24);
    v.y = __funnelshift_r(v.x, v.y, 24);
    v.x = v.x << 8 | (inside ? reinterpret_cast<const uint8_t*>(at.address)[i] : 0);
  }
  return v;
}

/// Four bits as four bytes of 0 or 1.
__device__ __forceinline__ uint32_t bytes_of_bits(uint32_t bits) {
  return (bits & 0xf) * 0x00204081 & 0x01010101;
}

/// The entries of a vec16's elements; of those that lie outside of its run, above all entries.
template <class T, bool kWhole>
struct EntriesOfVec16 {
  static constexpr int kElements = kVec16Bytes / sizeof(T);

  uint32_t entries[kElements];

  __device__ __forceinline__ explicit EntriesOfVec16(const LoadedVec16& vec16) {
    constexpr int kSize = sizeof(T);
    const uint32_t words[4] = {vec16.bytes.x, vec16.bytes.y, vec16.bytes.z, vec16.bytes.w};
    const uint32_t begin = vec16.range & 0xff;
    const uint32_t end = vec16.range >> 8;
    // A bit for each byte, set if it does not count.
    const uint32_t outside = kWhole ? 0 : ((1u << begin) - 1) | 0xffffu << end | vec16.between;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const uint32_t word = words[i * kSize / 4];
      if constexpr (kSize <= 2) {
        // The upper bytes of the entry are 1 if the element lies outside of the run.
        const uint32_t flags = kWhole ? 0 : bytes_of_bits(outside >> (i * kSize / 4 * 4));
        const int byte = i * kSize % 4;
        const int flag = 0x1111 * (4 + byte);
        entries[i] = __byte_perm(
            word, flags,
            kSize == 1 ? (flag & ~0xf) | byte : (flag & ~0xff) | (byte + 1) << 4 | byte);
      } else {
        const uint32_t all = kWhole ? 0 : 0u - (outside >> (i * kSize) & 1);
        entries[i] = kSize == 4                                      ? word | all
                     : (words[i * kSize / 4 + kSize / 8] | all) != 0 ? ~0u
                                                                     : word;
      }
    }
  }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kBlocksOfSm = 2; // of 1024 threads there
#else
constexpr int kBlocksOfSm = kRunBlocksOfSm;
#endif

/// The steps of a block.
///
/// kTables: tables of a segment, of one channel each, or two of each channel; 0 where the channels
/// are columns of one table. kGaps: runs have rows of one channel, with gaps between them.
template <class T, unsigned kTables, bool kGaps, unsigned kThreads>
struct RunsBlock {
  static constexpr unsigned kSize = sizeof(T);
  static constexpr unsigned kElements = unsigned{kVec16Bytes} / kSize;
  static constexpr unsigned kLogThreads =
      kThreads == kRunThreads ? kLogRunThreads : kLogRunThreads + 1;

  const Runs& in;
  uint32_t* table;
  unsigned log_lanes; // of a segment
  unsigned lane;
  unsigned first_segment;
  uint64_t data; // where the lane's segment begins
  unsigned begin;
  unsigned end; // of the block's vec16s of the segment
  uint32_t own_table;
  uint32_t entry_bytes;
  uint32_t whole_range;    // the range of a vec16 whose bytes all count
  bool any_beyond = false; // vec16s that reach beyond the tensor

  __device__ __forceinline__ RunsBlock(const Runs& runs, uint32_t* shared)
      : in(runs),
        table(shared),
        log_lanes(kLogThreads - in.log_segments),
        lane(threadIdx.x & ((1u << log_lanes) - 1)) {
    const unsigned segment_of_block = threadIdx.x >> log_lanes;
    const unsigned set = quotient(blockIdx.x, in.chunks);
    first_segment = set << in.log_segments;
    const unsigned segment = first_segment + segment_of_block;
    data = reinterpret_cast<uint64_t>(batch_of(in, segment));
    begin = (blockIdx.x - set * in.chunks) * in.share;
    end = segment < in.segments ? min(begin + in.share, in.vec16s) : 0;
    own_table = address_of(table) + 4 * segment_of_block * in.segment_words +
                (kTables > 0 ? 4 * (lane & ((1u << in.log_copies) - 1)) : 0);
    entry_bytes = 4 * in.entry_words;
    // This holds only if all bytes have entries.
    whole_range = kSize > 1 || in.table_entries == 256 ? unsigned{kVec16Bytes} << 8 : ~0u;
  }

  __device__ __forceinline__ void clear() const {
    const unsigned words = in.segment_words << in.log_segments;
    for (unsigned i = 4 * threadIdx.x; i < words; i += 4 * kThreads) {
      *reinterpret_cast<uint4*>(table + i) = make_uint4(0, 0, 0, 0);
    }
  }
  /// Counts the vec16s that lie in the tensor.
  __device__ __forceinline__ void count_vec16s() {
    // All lanes of a warp take the same number of turns, because they wait for each other.
    const unsigned turns =
        (in.share + (kRunUnroll << log_lanes) - 1) >> (kLogRunUnroll + log_lanes);
#pragma unroll 1
    for (unsigned turn = 0; turn < turns; ++turn) {
      LoadedVec16 vec16s[kRunUnroll];
      const unsigned first = begin + (turn << (kLogRunUnroll + log_lanes)) + lane;
#pragma unroll
      for (unsigned k = 0; k < kRunUnroll; ++k) {
        vec16s[k] = load(first + (k << log_lanes));
      }
      __syncwarp(); // no instruction passes it, and it takes none itself
#pragma unroll
      for (unsigned k = 0; k < kRunUnroll; ++k) {
        __all_sync(0xffffffff, vec16s[k].range == whole_range && vec16s[k].between == 0)
            ? add<true>(vec16s[k])
            : add<false>(vec16s[k]);
      }
    }
  }
  /// Counts the vec16s that reach beyond the tensor.
  __device__ __forceinline__ void count_vec16s_beyond() const {
    if (!any_beyond) {
      return;
    }
#pragma unroll 1
    for (unsigned vec16 = begin + lane; vec16 < end; vec16 += 1u << log_lanes) {
      const Vec16OfRun at = locate(vec16);
      if (at.begin < at.end && !is_inside(at)) {
        add<false>({load_bytes(at), at.begin | at.end << 8, at.between, at.column});
      }
    }
  }
  /// Sums the copies and columns of each channel. Neighbours write neighbouring bins.
  __device__ __forceinline__ void put_counts(const ByteAxis& axis, Counts counts) const {
    const auto channels = static_cast<unsigned>(in.channels);
    const unsigned sums = in.table_entries * channels << in.log_segments;
    for (unsigned i = threadIdx.x; i < sums; i += kThreads) {
      const unsigned of_block = in.by_entries.quotient(i); // channel
      const unsigned entry = i - of_block * in.by_entries.divisor;
      const unsigned segment = kTables == 1 ? of_block : in.by_channels.quotient(of_block);
      const unsigned channel = kTables == 1 ? 0 : of_block - segment * channels;
      if (first_segment + segment >= in.segments) {
        continue;
      }
      const uint32_t sum = sum_of(segment, entry, channel);
      int64_t bin = entry;
      if constexpr (sizeof(T) == 1) {
        bin = axis.bin_of(static_cast<uint8_t>(entry));
      }
      if (bin != kNoBin) {
        const int64_t counter =
            (int64_t{first_segment + segment} * channels + channel) * in.num_bins + bin;
        put_or_add(&counts[counter], sum, in.adds);
      }
    }
  }

 private:
  __device__ __forceinline__ Vec16OfRun locate(unsigned vec16) const {
    const unsigned run = in.by_vec16s_of_run.quotient(vec16);
    const unsigned of_run = vec16 - run * in.by_vec16s_of_run.divisor;
    unsigned outer_run = in.by_loop[1].quotient(run);
    uint64_t start = multiply_add(run - outer_run * in.by_loop[1].divisor, in.step, data);
    if (in.set_step > 0) {
      const unsigned set_of_runs = in.by_loop[0].quotient(outer_run);
      outer_run -= set_of_runs * in.by_loop[0].divisor;
      start += set_of_runs * in.set_step;
    }
    start = multiply_add(outer_run, in.outer_step, start);
    const unsigned skew = static_cast<unsigned>(start) % unsigned{kVec16Bytes};
    // Bytes before the vec16, from the run's first vec16 on.
    const unsigned before = of_run * unsigned{kVec16Bytes};
    Vec16OfRun at;
    at.address = (start & ~uint64_t{kVec16Bytes - 1}) + uint64_t{of_run} * kVec16Bytes;
    at.begin = of_run == 0 ? skew : 0;
    at.end =
        in.run_bytes + skew > before ? min(in.run_bytes + skew - before, unsigned{kVec16Bytes}) : 0;
    const unsigned of_period =
        kTables == 1 && !kGaps
            ? 0
            : in.by_period.remainder(in.before_run + before / kSize - skew / kSize);
    at.column = kTables == 1 ? 0 : of_period;
    at.between = kGaps ? static_cast<uint32_t>(in.between >> of_period * kSize) & 0xffff : 0;
    return at;
  }
  __device__ __forceinline__ bool is_inside(const Vec16OfRun& at) const {
    return at.address - in.first_vec16 <= in.last_vec16;
  }
  /// All loads are issued. With a branch, a load would wait for the loads before it.
  __device__ __forceinline__ LoadedVec16 load(unsigned vec16) {
    const Vec16OfRun at = locate(vec16);
    const bool is_some = vec16 < end && at.begin < at.end;
    const bool counts_here = is_some && is_inside(at);
    any_beyond = any_beyond || is_some != counts_here;
    return {
        load_once(reinterpret_cast<const uint4*>(counts_here ? at.address : in.first_vec16)),
        counts_here ? at.begin | at.end << 8 : 0, at.between, at.column};
  }
  template <bool kWhole>
  __device__ __forceinline__ void add(const LoadedVec16& vec16) const {
    // Elements take the tables in turns.
    constexpr unsigned kTurns = kTables > 0 ? kTables : 1;
    uint32_t tables[kTurns];
#pragma unroll
    for (unsigned i = 0; i < kTurns; ++i) {
      const unsigned column = vec16.column + i;
      tables[i] = own_table + 4 * in.column_words *
                                  (kTables > 1 && column >= kTables ? column - kTables : column);
    }
    if constexpr (kSize == 1 && kTables > 0 && kWhole) {
      // All bytes have entries. One instruction multiplies and adds a byte.
      const uint32_t words[4] = {vec16.bytes.x, vec16.bytes.y, vec16.bytes.z, vec16.bytes.w};
#pragma unroll
      for (unsigned i = 0; i < kElements; ++i) {
        add_shared(__dp4a(words[i / 4], entry_bytes << (8 * (i % 4)), tables[i % kTurns]), 1);
      }
    } else {
      const EntriesOfVec16<T, kWhole> of(vec16);
#pragma unroll
      for (unsigned i = 0; i < kElements; ++i) {
        const uint32_t entry =
            kSize == 1 && kWhole ? of.entries[i] : min(of.entries[i], in.table_entries);
        add_shared(entry * entry_bytes + tables[i % kTurns] + (kTables > 0 ? 0 : 4 * i), 1);
      }
    }
  }
  __device__ __forceinline__ uint32_t
  sum_of(unsigned segment, unsigned entry, unsigned channel) const {
    uint32_t sum = 0;
    const unsigned copies = 1u << in.log_copies;
    const unsigned columns = kTables == 1 ? 1 : in.columns;
    for (unsigned column = channel; column < columns; column += in.period) {
      const uint32_t* counters =
          table + segment * in.segment_words + entry * in.entry_words + column * in.column_words;
      for (unsigned k = 0; k < copies; ++k) { // neighbours begin in other banks
        sum += counters[(k + threadIdx.x) & (copies - 1)];
      }
    }
    return sum;
  }
};

template <class T, unsigned kTables, bool kGaps, unsigned kThreads>
__global__
__launch_bounds__(kThreads, kThreads == kRunThreads ? kBlocksOfSm : 1) void count_runs_kernel(
    const __grid_constant__ Runs in, const ByteAxis axis, unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(16) uint32_t table[];
  RunsBlock<T, kTables, kGaps, kThreads> block(in, table);
  if (!in.cleared) {
    wait_for_previous(); // it may write what is counted
  }
  block.clear();
  __syncthreads();
  block.count_vec16s();
  block.count_vec16s_beyond();
  wait_for_previous(); // it cleared the counts
  __syncthreads();
  block.put_counts(axis, counts);
}

} // namespace

void count_runs(
    const CountPlan& plan, const Problem& problem, const ByteAxis& axis, const Launch& launch) {
  const auto& in = std::get<Runs>(plan.layout);
  const Prepared prepared = prepare(plan, problem, launch);
  const auto start_with = [&](auto tag, auto tables, auto gaps, auto threads) {
    start(
        launch, "count_runs",
        count_runs_kernel<typename decltype(tag)::type, tables(), gaps(), threads()>,
        LaunchShape{
            grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes, 1,
            prepared.starts_early},
        in, axis, reinterpret_cast<unsigned long long*>(problem.counts));
  };
  using Threads = std::integral_constant<unsigned, kRunThreads>;
  const auto count_with = [&](auto tag, auto tables, auto gaps) {
    if (plan.threads == kRunThreads) {
      return start_with(tag, tables, gaps, Threads{});
    }
    if constexpr (sizeof(typename decltype(tag)::type) > 1) {
      if (plan.threads == 2 * kRunThreads) {
        return start_with(tag, tables, gaps, std::integral_constant<unsigned, 2 * kRunThreads>{});
      }
    }
    no_kernel("count_runs");
  };
  const auto count = [&](auto tag, auto tables) {
    if (tables() == 1 && in.between != 0) {
      count_with(tag, tables, std::bool_constant<tables() == 1>{});
    } else {
      count_with(tag, tables, std::false_type{});
    }
  };
  visit_unsigned_type(problem.type, [&](auto tag) {
    switch (in.tables) {
      case 0:
        return count(tag, std::integral_constant<unsigned, 0>{});
      case 1:
        return count(tag, std::integral_constant<unsigned, 1>{});
    }
    if constexpr (sizeof(typename decltype(tag)::type) == 1) {
      switch (in.tables) {
        case 3:
          return count(tag, std::integral_constant<unsigned, 3>{});
        case 4:
          return count(tag, std::integral_constant<unsigned, 4>{});
      }
    }
    no_kernel("count_runs");
  });
}

} // namespace histo::cuda
