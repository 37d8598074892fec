// Long channels side by side. A sample tells between which of its values each quantile lies, almost
// surely. A pass over all values counts those below and above, and lists those between. Then the
// quantile is selected from its list, or from the whole channel if the sample was bad.
#include <algorithm>

#include "cuda/pdl.cuh"
#include "cuda/select/block_targets.cuh"
#include "cuda/select/lists.cuh"
#include "cuda/storage/counts.cuh"
#include "cuda/walk/general_columns.cuh"

namespace histo::cuda {
namespace {

template <class Bits, int kQ>
using ColumnReads = ReadShape<kThreadsOfLists, blocks_of_lists(kQ), sizeof(Bits) == 8 ? 4 : 8>;

/// Adds the counts of a block's columns. `columns` of the thread are listed, from `first_column` of
/// the stripe on.
template <class Bits, int kQ, class Lists>
__device__ __forceinline__ void put_column_counts(
    const Lists& lists, unsigned first_column, int columns, uint32_t* memory) {
  constexpr int kOfWord = ColumnOfThread<Bits>::kOfWord;
  constexpr unsigned kCounts = kQ * (kCountersOfList - 1) + 1, kWidth = kWarp * kOfWord;
  __syncthreads(); // all values are in the lists
  for (unsigned i = threadIdx.x; i < kCounts * kWidth; i += kThreadsOfLists) {
    memory[i] = 0;
  }
  __syncthreads();
  const auto for_each = [&](const auto& f) {
#pragma unroll
    for (int column = 0; column < kOfWord; ++column) {
      unsigned at = first_column + static_cast<unsigned>(column);
      if (column < columns) {
        lists.for_each_count(column, [&](unsigned long long* to, uint32_t count) {
          f(to, count, memory + at);
          at += kWidth;
        });
      }
    }
  };
  for_each([](unsigned long long*, uint32_t count, uint32_t* sum) {
    if (count != 0) {
      add_shared(address_of(sum), count);
    }
  });
  __syncthreads();
  if (threadIdx.x < kWarp) {
    for_each([](unsigned long long* to, uint32_t, const uint32_t* sum) { put<true>(to, *sum); });
  }
}

template <int kQ, class Bits, class Column>
__global__ __launch_bounds__(kThreadsOfLists, blocks_of_lists(kQ)) void list_columns_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelColumns in,
    KeyOrder<Bits> order,
    const __grid_constant__ ValueLists<Bits> lists) {
  constexpr int kOfWord = Column::kOfWord;
  extern __shared__ __align__(16) unsigned char shared[];
  const Column column(data, in, kThreadsOfLists);
  ListsOfThread<Bits, kQ, kOfWord, kThreadsOfLists> own(
      lists, order, reinterpret_cast<Bits*>(shared));
  wait_for_previous(); // it finds the ends
#pragma unroll
  for (int j = 0; j < kOfWord; ++j) {
    const int64_t at = column.column + j;
    own.begin(order, j, in.channel(column.batch, at), at < in.columns);
  }
  const struct {
    decltype(own)& lists;
    __device__ __forceinline__ void operator()(const Pack<Bits, kOfWord>& pack) const {
      lists.add(pack.elements[0], 0);
      lists.make_room();
    }
    __device__ __forceinline__ void operator()(Bits bits, int of_word) const {
#pragma unroll
      for (int j = 0; j < kOfWord; ++j) {
        if (j == of_word) {
          lists.add(bits, j);
        }
      }
      lists.make_room();
    }
  } add{own};
  column.template for_each<ColumnReads<Bits, kQ>>(add);
  own.move();
  const int64_t columns = max(in.columns - column.column, int64_t{0});
  put_column_counts<Bits, kQ>(
      own, column.word * kOfWord, static_cast<int>(min(columns, int64_t{kOfWord})),
      reinterpret_cast<uint32_t*>(shared));
}

/// Where a value is found.
enum class Place : unsigned { kLow, kList, kHigh, kElsewhere };

/// The list of a block, which has one q and one channel.
template <class Bits>
struct ListOfBlock {
  const ValueLists<Bits>& lists;
  const unsigned long long* counters;
  int64_t rows;

  __device__ __forceinline__ int64_t below_low() const {
    return static_cast<int64_t>(counters[kBelowLow]);
  }
  __device__ __forceinline__ int64_t upto_low() const {
    return rows - static_cast<int64_t>(counters[kAboveLow]);
  }
  __device__ __forceinline__ int64_t upto_high() const {
    return rows - static_cast<int64_t>(counters[kAboveHigh]);
  }
  __device__ __forceinline__ int64_t size() const {
    return static_cast<int64_t>(counters[kBetween]);
  }
  __device__ __forceinline__ Place place_of(int64_t rank) const {
    if (rank < below_low() || rank >= upto_high()) {
      return Place::kElsewhere;
    }
    if (rank < upto_low()) {
      return Place::kLow;
    }
    if (rank >= upto_low() + size()) {
      return Place::kHigh;
    }
    return size() <= lists.room ? Place::kList : Place::kElsewhere;
  }
};

template <class Bits>
using PickReads = ReadShape<kThreadsOfWhole, 2, 4>;
/// The shared memory of a block that selects from a list.
constexpr int64_t kPickBytes = sizeof(uint32_t) * kTargetsOfQ << kBitsOfDigit;

/// Finds the two values of a q among elements: for_each(f) calls f with each. rank_of(target) is
/// that among them.
template <class Bits, class ForEach, class RankOf>
__device__ __forceinline__ void select_from(
    const ForEach& for_each,
    const KeyOrder<Bits>& order,
    const Digits& digits,
    TargetsOfBlock<Bits, kThreadsOfWhole>& of_block,
    uint32_t* memory,
    const RankOf& rank_of,
    Bits* found) {
#pragma unroll 1
  for (unsigned pass = 0; pass < digits.count(); ++pass) {
    const KeyDigit digit = digits.at(pass);
    of_block.begin(digit, kTargetsOfQ);
    const DigitCounts table{memory, of_block.slots.count * digit.counters()};
    table.clear();
    if (!digit.first) {
      of_block.lookup.fill(of_block.slots, digit);
    }
    __syncthreads();
    if (digit.first) {
      count_first_digit(for_each, order, digit, table);
    } else {
      count_next_digit(for_each, order, digit, of_block.slots, of_block.lookup, table);
    }
    __syncthreads();
    const int64_t nans = digit.first ? table.words[digit.values()] : 0;
    of_block.find(kTargetsOfQ, digit, nans, table, rank_of, [&](unsigned target, Bits key) {
      found[target] = key;
    });
  }
}

/// Calls f with each value of a list. Several loads are in flight.
template <class Bits, class F>
__device__ __forceinline__ void for_each_listed(const Bits* values, unsigned size, const F& f) {
  constexpr unsigned kInFlight = 8;
  for (unsigned i = threadIdx.x; i < size; i += kInFlight * kThreadsOfWhole) {
    Bits some[kInFlight];
#pragma unroll
    for (unsigned j = 0; j < kInFlight; ++j) {
      if (i + j * kThreadsOfWhole < size) {
        some[j] = values[i + j * kThreadsOfWhole];
      }
    }
#pragma unroll
    for (unsigned j = 0; j < kInFlight; ++j) {
      if (i + j * kThreadsOfWhole < size) {
        f(some[j]);
      }
    }
  }
}

template <class Bits>
__global__ __launch_bounds__(kThreadsOfWhole, 2) void pick_listed_kernel(
    const Bits* __restrict__ data,
    const __grid_constant__ ChannelStreams in,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart all,
    const __grid_constant__ ValueLists<Bits> lists,
    Digits digits) {
  __shared__ TargetsOfBlock<Bits, kThreadsOfWhole> of_block;
  __shared__ Bits found[kTargetsOfQ];
  extern __shared__ __align__(16) uint32_t memory[];
  const int64_t channel = blockIdx.x % lists.channels, q = blockIdx.x / lists.channels;
  const int64_t list = lists.index(static_cast<unsigned>(q), channel), rows = in.num_rows;
  wait_for_previous(); // it fills the lists
  SelectionPart part = all;
  part.first_q += q;
  part.num_q = 1;
  const auto nans = static_cast<int64_t>(*lists.nans_of(channel));
  const Ranks ranks = ranks_of_target(part, 0, rows, nans);
  const ListOfBlock<Bits> block{lists, lists.counters_of(list), rows};
  Place places[kTargetsOfQ];
  bool elsewhere = false, listed = false;
#pragma unroll
  for (unsigned target = 0; target < kTargetsOfQ; ++target) {
    places[target] = ranks.is_nan ? Place::kLow : block.place_of(rank_of_target(ranks, target));
    elsewhere |= places[target] == Place::kElsewhere;
    listed |= places[target] == Place::kList;
  }
  if (elsewhere) {
    const StreamOfBlock<Bits> stream(data, in, channel, 0);
    select_from(
        [&](const auto& f) {
          stream.template for_each<PickReads<Bits>>([&](Bits bits) { f(bits); });
        },
        order, digits, of_block, memory,
        [&](unsigned target) { return rank_of_target(ranks, target); }, found);
  } else if (listed) {
    const Bits* values = lists.values + list * lists.room;
    const auto size = static_cast<unsigned>(block.size());
    select_from(
        [&](const auto& f) { for_each_listed(values, size, f); }, order, digits, of_block, memory,
        [&](unsigned target) {
          const int64_t rank = rank_of_target(ranks, target) - block.upto_low();
          return min(max(rank, int64_t{0}), block.size() - 1); // of the value that is listed
        },
        found);
  }
  __syncthreads();
  if (threadIdx.x < kTargetsOfQ) {
    const unsigned target = threadIdx.x;
    const Place place = target == 0 ? places[0] : places[1];
    const Bits key = elsewhere || place == Place::kList ? found[target]
                     : place == Place::kLow             ? lists.low(order, unsigned(q), channel)
                                                        : lists.high(order, unsigned(q), channel);
    put_value(part, order, target, channel, ranks, key);
  }
}

template <int kQ, class Bits>
auto list_kernel_of(const ChannelColumns& in) {
  return in.are_general() ? list_columns_kernel<kQ, Bits, GeneralColumn<Bits>>
                          : list_columns_kernel<kQ, Bits, ColumnOfThread<Bits>>;
}

template <class Bits>
void select_bits(const SelectListed& in, const SelectCall& call, const Launch& launch) {
  SelectionPart part = call.part;
  const Problem& problem = part.selection.problem;
  const int64_t channels = problem.num_channels(), end = part.first_q + part.num_q;
  const int64_t most = in.group * channels;
  const int64_t words = most * int64_t{kCountersOfList} + channels;
  const auto* data = static_cast<const Bits*>(problem.data);
  const auto order = KeyOrder<Bits>::of(problem.type);
  const auto list_kernel = in.group == 1 ? list_kernel_of<1, Bits>(in.columns)
                                         : list_kernel_of<kMostQOfLists, Bits>(in.columns);
  const bool overlaps = call.plan.overlaps;
  ValueLists<Bits> lists{};
  lists.channels = channels;
  lists.room = in.room;
  lists.values = static_cast<Bits*>(launch.allocate(most * lists.room * int64_t{sizeof(Bits)}));
  lists.counters =
      static_cast<unsigned long long*>(launch.allocate(words * int64_t{sizeof(int64_t)}));
  for (; part.first_q < end; part.first_q += in.group) {
    part.num_q = std::min<int64_t>(in.group, end - part.first_q);
    lists.num_q = static_cast<unsigned>(part.num_q);
    lists.ends = find_sample_ends(part, in.sample, true, lists.counters, words, launch);
    start(
        launch, "list_columns", list_kernel, shape_of(call.plan, 1, overlaps), data, in.columns,
        order, lists);
    start(
        launch, "pick_listed", pick_listed_kernel<Bits>,
        LaunchShape{grid_of(channels * part.num_q), kThreadsOfWhole, kPickBytes, 1, overlaps}, data,
        in.streams, order, part, lists, in.digits);
  }
}

} // namespace

void select_layout(const SelectListed& in, const SelectCall& call, const Launch& launch) {
  visit_wide_bits(call.part.selection.problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    if constexpr (sizeof(Bits) == 2) {
      throw InternalError("SelectListed: digits of two-byte types are counted");
    } else {
      select_bits<Bits>(in, call, launch);
    }
  });
}

} // namespace histo::cuda
