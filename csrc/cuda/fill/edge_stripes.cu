// Counts channels that lie side by side in small tables: of edges that all channels share, which a
// block finds once, and of ranges of their own, whose edges are computed where values meet them.
#include "cuda/axis/block_bins.cuh"
#include "cuda/axis/uniform_bins.cuh"
#include "cuda/fill/stripes.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/room.h"
#include "cuda/storage/stripe_table.cuh"
#include "cuda/walk/general_columns.cuh"

namespace histo::cuda {
namespace {

template <class T>
constexpr int kColumnsOfWord = static_cast<int>(bytes_of_word(sizeof(T)) / sizeof(T));
template <class T, bool kOwn>
using StripeReads = ReadShape<
    kMostThreadsOfStripes,
    kStripesOfSm,
    stripe_loads(sizeof(T), Number<T>::kIsFloat, kOwn)>;
using SearchReads = ReadShape<kMostThreadsOfStripes, kStripesOfSm, 1>;

/// Counts the elements of a thread's word.
template <class T, class Find, class Table>
struct CountWord {
  Find find; // (values, slots, the column of the first)
  const Table& table;
  unsigned nan_slot;

  __device__ __forceinline__ void operator()(T element, int of_word) const {
    count(Pack<T, 1>{element}, of_word);
  }
  __device__ __forceinline__ void operator()(const Pack<T, kColumnsOfWord<T>>& pack) const {
    count(pack, 0);
  }

 private:
  template <int kSize>
  __device__ __forceinline__ void count(const Pack<T, kSize>& pack, int first) const {
    typename Number<T>::Wide values[kSize];
    unsigned slots[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[j] = Number<T>::wide(pack.elements[j]);
    }
    find(values, slots, first);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if constexpr (Number<T>::kIsFloat) {
        slots[j] = is_nan(values[j]) ? nan_slot : slots[j];
      }
      table.add(slots[j], first + j);
    }
  }
};
template <class T, class Find, class Table>
__device__ __forceinline__ CountWord<T, Find, Table> count_word(
    const Find& find, const Table& table, unsigned nan_slot) {
  return {find, table, nan_slot};
}

/// L2 fetches the rows that a block counts next, while it writes counts.
template <class Column, class T>
__device__ __forceinline__ void fetch_next(const T* data, const EdgeStripes& in, unsigned work) {
  if (work + gridDim.x < in.works) {
    Column(data, in, blockDim.x, work + gridDim.x).fetch_first(kRowsFetchedNext);
  }
}

/// The columns of a stripe that have channels of their own.
template <class T>
struct ChannelsOfStripe {
  int64_t first;     // channel
  unsigned filled;   // columns; those behind have no channel
  unsigned size;     // columns; those behind have the same channels again
  unsigned to_first; // columns until channel 0 of the batch follows the last one
  int64_t channels;  // of a batch

  __device__ __forceinline__ explicit ChannelsOfStripe(const ColumnOfThread<T>& column)
      : channels(column.in.channels) {
    const int64_t begin = column.first_column(), of_batch = begin % channels;
    const int64_t width = column.in.width(sizeof(T));
    first = column.batch * channels + of_batch;
    filled = static_cast<unsigned>(min(column.in.columns - begin, width));
    size = static_cast<unsigned>(min(channels, int64_t{filled}));
    to_first = static_cast<unsigned>(min(channels - of_batch, width));
  }
  __device__ __forceinline__ int64_t channel(unsigned c) const {
    return first + c - (c < to_first ? 0 : channels);
  }
};

/// Writes the counts of a stripe whose columns are all of different channels, or adds them.
template <class T, class Table>
__device__ __forceinline__ void put_columns(
    const Table& table,
    const ChannelsOfStripe<T>& stripe,
    const EdgeStripes& in,
    unsigned bins,
    bool valid,
    Flow flow,
    Count::Total* __restrict__ totals) {
  const auto num_counts = static_cast<unsigned>(flow.num_counts(bins));
  for (unsigned i = threadIdx.x; i < num_counts; i += blockDim.x) {
    const unsigned slot = i + (flow.shown ? 0 : 1);
    const bool counts = valid || slot == bins + 2;
    uint32_t words[8];
    table.sum_lanes(slot, words);
#pragma unroll
    for (unsigned c = 0; c < 8 * kColumnsOfWord<T>; ++c) {
      if (c < stripe.size) {
        const uint32_t sum = Table::count_in(words[c / kColumnsOfWord<T>], c % kColumnsOfWord<T>);
        put_or_add(&totals[stripe.channel(c) * num_counts + i], counts ? sum : 0, in.adds);
      }
    }
  }
}

/// The same if columns share channels. A warp has a channel.
template <class T, class Table>
__device__ __forceinline__ void put_channels(
    const Table& table,
    const ChannelsOfStripe<T>& stripe,
    const EdgeStripes& in,
    unsigned bins,
    bool valid,
    Flow flow,
    Count::Total* __restrict__ totals) {
  table.rotate();
  __syncthreads();
  const auto num_counts = static_cast<unsigned>(flow.num_counts(bins));
  const unsigned words = 1u << in.log_words;
  for (unsigned c = threadIdx.x / kWarp; c < stripe.size; c += blockDim.x / kWarp) {
    Count::Total* of_channel = totals + stripe.channel(c) * num_counts;
    for (unsigned i = threadIdx.x % kWarp; i < num_counts; i += kWarp) {
      const unsigned slot = i + (flow.shown ? 0 : 1);
      Count::Total sum = 0;
      for (unsigned same = c; same < stripe.filled; same += stripe.size) {
        sum += table.sum(slot, same, words);
      }
      put_or_add(&of_channel[i], valid || slot == bins + 2 ? sum : 0, in.adds);
    }
  }
}

/// Writes the counts of a stripe, or adds them. The table can then be cleared.
template <class T, class Table>
__device__ __forceinline__ void put_stripe(
    const Table& table,
    const ColumnOfThread<T>& column,
    const EdgeStripes& in,
    unsigned bins,
    bool valid,
    Flow flow,
    Count::Total* __restrict__ totals) {
  const ChannelsOfStripe<T> stripe(column);
  __syncthreads();
  if (in.channels >= 8 * kColumnsOfWord<T>) {
    put_columns<T>(table, stripe, in, bins, valid, flow, totals);
  } else {
    put_channels<T>(table, stripe, in, bins, valid, flow, totals);
  }
  __syncthreads();
}

template <int kLogLanes, class Column, class T>
__global__ __launch_bounds__(kMostThreadsOfStripes, kStripesOfSm) void count_shared_stripes_kernel(
    const T* __restrict__ data,
    const __grid_constant__ EdgeStripes in,
    const __grid_constant__ Edges edges,
    Flow flow,
    Count::Total* __restrict__ totals) {
  using Table = StripeTable<kColumnsOfWord<T>, kLogLanes>;
  extern __shared__ __align__(16) unsigned char shared[];
  const auto bins = static_cast<unsigned>(edges.bins), slots = bins + 3;
  Room room(shared); // thresholds may be wide, so they come first
  auto* thresholds = room.take<typename Number<T>::Wide>(words_of(slots, 0u));
  auto* buckets = room.take<uint32_t>(kBucketsOfStripes);
  const Table table(room.take<uint32_t>(0), slots);
  Column(data, in, blockDim.x).fetch_first(kRowsFetchedFirst);
  wait_for_previous(); // it may make the edges, or clear the result
  const auto found = find_bins<T, 0>(edges, 0, thresholds, buckets, kBucketsOfStripes);
  const unsigned nan_slot = flow.shown ? bins + 2 : 0;
  for (unsigned work = blockIdx.x; work < in.works; work += gridDim.x) {
    const Column column(data, in, blockDim.x, work);
    table.clear();
    __syncthreads();
    visit_guess<kKnowsAffineExceptTop<T>, true>(found.guess, [&](auto guess) {
      const auto find = [&](const auto& values, auto& of_values, int) {
        found.template find<guess()>(values, of_values);
      };
      column.template for_each<StripeReads<T, false>>(count_word<T>(find, table, nan_slot));
    });
    fetch_next<Column>(data, in, work);
    put_stripe(table, column, in, bins, found.valid, flow, totals);
  }
}

template <int kLogLanes, class Column, class T>
__global__ __launch_bounds__(kMostThreadsOfStripes, kStripesOfSm) void count_own_stripes_kernel(
    const T* __restrict__ data,
    const __grid_constant__ EdgeStripes in,
    Ranges<UniformEdgeOf<T>> ranges,
    unsigned bins,
    Flow flow,
    UniformEdgeOf<T>* __restrict__ edges,
    Count::Total* __restrict__ totals) {
  constexpr int kOfWord = kColumnsOfWord<T>;
  using Table = StripeTable<kOfWord, kLogLanes>;
  using Bins = UniformBinsOfChannel<T>;
  __shared__ Bins of_columns[kOfWord * kWarp];
  extern __shared__ __align__(16) unsigned char shared[];
  const Table table(reinterpret_cast<uint32_t*>(shared), bins + 3);
  const unsigned nan_slot = flow.shown ? bins + 2 : 0;
  Column(data, in, blockDim.x).fetch_first(kRowsFetchedNext);
  wait_for_previous(); // it may make the ranges, or clear the result
  for (unsigned work = blockIdx.x; work < in.works; work += gridDim.x) {
    const Column column(data, in, blockDim.x, work);
    table.clear();
    bool has_line = true;
    if (threadIdx.x < in.width(sizeof(T))) {
      const int64_t channel = in.channel(column.batch, column.first_column() + threadIdx.x);
      of_columns[threadIdx.x] = Bins(ranges.low[channel], ranges.high[channel], bins);
      has_line = of_columns[threadIdx.x].has_line;
    }
    const bool have_lines = __syncthreads_and(has_line);
    if (column.chunk == 0) {
      const ChannelsOfStripe<T> stripe(column);
      // Joined rows have each channel in several columns. The first one writes its edges.
      const int64_t left = in.channels - column.first_column();
      for (unsigned k = threadIdx.x; k <= bins; k += blockDim.x) {
        for (unsigned c = 0; c < stripe.size && c < left; ++c) {
          edges[stripe.channel(c) * (bins + 1) + k] = of_columns[c].edge(k);
        }
      }
    }
    Bins own[kOfWord];
#pragma unroll
    for (int j = 0; j < kOfWord; ++j) {
      own[j] = of_columns[column.word * kOfWord + j];
    }
    const auto count = [&](auto has_line) {
      const auto find = [&](const auto& values, auto& slots, int first) {
        constexpr int kSize = std::extent_v<std::remove_reference_t<decltype(values)>>;
#pragma unroll
        for (int j = 0; j < kSize; ++j) {
          slots[j] =
              own[kSize == 1 && kOfWord > 1 ? first : j].template slot<has_line()>(values[j]);
        }
      };
      // A search calls a function, which all words in flight would be saved for.
      using Reads = std::conditional_t<has_line(), StripeReads<T, true>, SearchReads>;
      column.template for_each<Reads>(count_word<T>(find, table, nan_slot));
    };
    have_lines ? count(std::true_type{}) : count(std::false_type{});
    fetch_next<Column>(data, in, work);
    put_stripe(table, column, in, bins, true, flow, totals);
  }
}

LaunchShape shape_of(const EdgePlan& plan, bool overlaps) {
  return {
      grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes, 1,
      overlaps};
}

/// Calls f(the lanes of a table, as a constant, TypeTag of the walk).
template <class T, class F>
void visit_stripes(const EdgeStripes& in, const F& f) {
  const auto with_lanes = [&](auto log_lanes) {
    in.are_general() ? f(log_lanes, TypeTag<GeneralColumn<T>>{})
                     : f(log_lanes, TypeTag<ColumnOfThread<T>>{});
  };
  if (in.log_lanes == 5) {
    with_lanes(std::integral_constant<int, 5>{});
  } else if (in.log_lanes == 3) {
    with_lanes(std::integral_constant<int, 3>{});
  } else {
    no_kernel("count_stripes");
  }
}

} // namespace

void count_layout(const EdgeStripes& in, const EdgeCount& call, const Launch& launch) {
  visit_wide_type(call.problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_stripes<T>(in, [&](auto log_lanes, auto column) {
      using Column = typename decltype(column)::type;
      start(
          launch, "count_stripes", count_shared_stripes_kernel<log_lanes(), Column, T>,
          shape_of(call.plan, call.plan.overlaps), static_cast<const T*>(call.problem.data), in,
          call.edges, call.flow, totals_of(call.problem));
    });
  });
}

template <class E>
void count_own_stripes(
    const EdgePlan& plan,
    const Problem& problem,
    const Ranges<E>& ranges,
    int64_t bins,
    const Flow& flow,
    E* edges,
    const Launch& launch) {
  const auto& in = std::get<EdgeStripes>(plan.layout);
  visit_wide_type(problem.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<UniformEdgeOf<T>, E>) {
      visit_stripes<T>(in, [&](auto log_lanes, auto column) {
        using Column = typename decltype(column)::type;
        start(
            launch, "count_own_stripes", count_own_stripes_kernel<log_lanes(), Column, T>,
            shape_of(plan, launch.limits.has_clusters()), static_cast<const T*>(problem.data), in,
            ranges, static_cast<unsigned>(bins), flow, edges, totals_of(problem));
      });
    } else {
      throw InternalError("count_own_stripes: edges of another type");
    }
  });
}
template void count_own_stripes(
    const EdgePlan&,
    const Problem&,
    const Ranges<float>&,
    int64_t,
    const Flow&,
    float*,
    const Launch&);
template void count_own_stripes(
    const EdgePlan&,
    const Problem&,
    const Ranges<double>&,
    int64_t,
    const Flow&,
    double*,
    const Launch&);

} // namespace histo::cuda
