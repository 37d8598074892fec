// The elements of a channel and the weights beside them.
#pragma once

#include "cuda/plan/weights_plan.h"
#include "cuda/walk/packs.cuh"
#include "cuda/walk/walk.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

/// Not inline, because divisions are much code.
inline __device__ __noinline__ int64_t offset_anywhere(const Extent (&rows)[3], int64_t row) {
  return offset_in(rows, row);
}

/// Rows of a channel of two operands, in packs. All lanes of a warp take the same number of packs;
/// those that lie behind the last element hold zeros.
template <class Values, class Weights, class Shape>
struct StreamOfPairs {
  static constexpr int kSize = Values::kSize;
  static_assert(kSize == Weights::kSize, "a pack has a weight for each value");
  static constexpr int kCopies = 1;
  // Code for rows anywhere would take registers from the loop of types that are frequent.
  static constexpr bool kAnywhere = !Values::kIsTyped;
  using Value = typename Values::Wide;
  using ValuePack = typename Values::Pack;
  using WeightPack = typename Weights::Pack;

  const WeightStreams& in;
  Values values;
  Weights weights;
  const char* value_data; // the channel's
  const char* weight_data;
  unsigned chunk; // of its rows

  __device__ __forceinline__ StreamOfPairs(
      const WeightStreams& streams,
      const Values& of_values,
      const Weights& of_weights,
      const void* all_values,
      const void* all_weights,
      int64_t channel,
      unsigned block)
      : in(streams),
        values(of_values),
        weights(of_weights),
        value_data(
            static_cast<const char*>(all_values) +
            offset_in(streams.channels, channel) * values.bytes()),
        weight_data(
            static_cast<const char*>(all_weights) +
            offset_in(streams.weight_channels, channel) * weights.bytes()),
        chunk(block) {
  }

  /// The blocks of a channel share a single run in turns; else each has rows of its own. A team
  /// is the whole block, or a warp: the teams of a block take runs in turns.
  __device__ __forceinline__ bool in_turns() const {
    return in.turns > 1;
  }
  __device__ __forceinline__ bool of_warps() const {
    return in.teams > 1;
  }
  __device__ __forceinline__ unsigned place_in_team() const {
    return of_warps() ? threadIdx.x % kWarp : threadIdx.x;
  }
  __device__ __forceinline__ int64_t begin() const {
    return in_turns() ? 0 : chunk * in.share;
  }
  __device__ __forceinline__ int64_t end() const {
    return in_turns() ? in.rows[2].size : min(begin() + in.share, in.num_rows);
  }

  /// The copy of the table that elements are added to.
  __device__ __forceinline__ unsigned copy(int) const {
    return in.table.copy_of_thread();
  }
  /// A pack whose first weight is one of those that the thread takes first, if there is one.
  __device__ __forceinline__ WeightPack sample() const {
    const int64_t first = in_turns() ? int64_t{chunk} * blockDim.x : begin();
    const int64_t row = first * (in_turns() ? kSize : 1) + threadIdx.x * int64_t{kSize};
    WeightPack pack;
    if (row < end()) {
      weights.load_one(weight_at(row), 0, pack);
    }
    return pack;
  }

  /// Calls f(pack of values, pack of weights). Its code is there once.
  template <class F>
  __device__ __forceinline__ void for_each(const F& f) const {
    const int64_t run = in.rows[2].size;
    int64_t row = begin();
    if (of_warps() && threadIdx.x >= kWarp) {
      row = (row / run + threadIdx.x / kWarp) * run;
    }
#pragma unroll 1
    while (row < end()) {
      const bool anywhere = kAnywhere && !in.has_runs;
      const int64_t size = anywhere ? end() - row : min(run - row % run, end() - row);
      Packs packs = packs_of(row, size);
      if (anywhere) {
        packs.left = packs_of_rows();
        packs.singles = 0;
      }
      for_each_of(packs, f);
      row += size + (in.teams - 1) * run;
    }
  }

 private:
  __device__ __forceinline__ const char* value_at(int64_t row) const {
    return value_data + offset_in(in.rows, row) * values.bytes();
  }
  __device__ __forceinline__ const char* weight_at(int64_t row) const {
    return weight_data + offset_in(in.weight_rows, row) * weights.bytes();
  }

  /// From one weight of a run to the next.
  __device__ __forceinline__ int64_t weight_bytes() const {
    return in.weight_rows[2].stride * weights.bytes();
  }

  struct Pair {
    ValuePack value;
    WeightPack weight;
  };

  /// Rows anywhere: neighbouring threads take neighbours, so a pack has rows that lie apart. There is
  /// one part of them.
  __device__ __forceinline__ int packs_of_rows() const {
    const int64_t behind = end() - begin() - threadIdx.x - 1;
    return behind < 0 ? 0 : static_cast<int>(behind / (blockDim.x * kSize)) + 1;
  }
  __device__ __forceinline__ Pair load_rows(int left) const {
    const int64_t before = int64_t{packs_of_rows() - left} * (blockDim.x * kSize);
    Pair pair;
#pragma unroll 1
    for (int j = 0; j < kSize; ++j) {
      const int64_t row = begin() + before + j * blockDim.x + threadIdx.x;
      if (row < end()) {
        put_row(row, j, pair);
      }
    }
    return pair;
  }
  /// The number of an element is not known here, and registers have none.
  __device__ __forceinline__ void put_row(int64_t row, int to, Pair& pair) const {
    const int64_t value = offset_anywhere(in.rows, row) * values.bytes();
    const int64_t weight = offset_anywhere(in.weight_rows, row) * weights.bytes();
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (j == to) {
        values.load_one(value_data + value, j, pair.value);
        weights.load_one(weight_data + weight, j, pair.weight);
      }
    }
  }

  /// The packs of a thread in a run, which the threads of a team take in turns. So do the blocks of a
  /// channel, if they share it.
  struct Packs {
    const char* values; // of the next one
    const char* weights;
    int left;        // a thread has fewer than 2^31
    bool aligned;    // packs of weights are
    int head;        // elements before the packs of the team
    int singles;     // elements before and behind them
    int64_t of_head; // elements from the first one to the thread's first pack
    int64_t all;     // packs of the team
  };
  __device__ __forceinline__ Packs packs_of(int64_t row, int64_t size) const {
    const unsigned value_bytes = values.bytes(), pack_bytes = value_bytes * kSize;
    Packs packs;
    packs.values = value_at(row);
    packs.weights = weight_at(row);
    const auto beyond =
        static_cast<unsigned>(reinterpret_cast<uintptr_t>(packs.values) & (pack_bytes - 1)) /
        value_bytes;
    packs.head = static_cast<int>(min(int64_t{beyond == 0 ? 0 : kSize - beyond}, size));
    packs.all = (size - packs.head) / kSize;
    packs.singles = static_cast<int>(size - packs.all * kSize);
    const int64_t first = int64_t{in_turns() ? chunk : 0} * blockDim.x + place_in_team();
    packs.of_head = packs.head + first * kSize;
    packs.values += packs.of_head * value_bytes;
    packs.weights += packs.of_head * weight_bytes();
    packs.aligned = in.weight_rows[2].stride == 1 &&
                    reinterpret_cast<uintptr_t>(packs.weights) % (weights.bytes() * kSize) == 0;
    const int64_t step = in.pack_step;
    packs.left = first < packs.all ? static_cast<int>((packs.all - first - 1) / step + 1) : 0;
    return packs;
  }
  __device__ __forceinline__ Pair load_pack(Packs& packs) const {
    const Pair pair{values.load(packs.values), load_weights(packs.aligned, packs.weights)};
    packs.values += in.pack_step * (kSize * values.bytes());
    packs.weights += in.weight_step * (kSize * weights.bytes());
    return pair;
  }
  /// One of the elements beside the packs.
  __device__ __forceinline__ Pair load_single(const Packs& packs) const {
    const auto lane = static_cast<int>(threadIdx.x % kWarp);
    Pair pair;
    if (lane < packs.singles) {
      const int64_t element = lane < packs.head ? lane : packs.all * kSize + lane;
      const int64_t from_pack = element - packs.of_head;
      values.load_one(packs.values + from_pack * values.bytes(), 0, pair.value);
      weights.load_one(packs.weights + from_pack * weight_bytes(), 0, pair.weight);
    }
    return pair;
  }

  /// The packs of a thread, and then the elements beside those of the team.
  template <class F>
  __device__ __forceinline__ void for_each_of(Packs& packs, const F& f) const {
    constexpr int kAhead = Shape::kInFlight;
    // One warp takes the singles, as if they were one pack more.
    const bool takes_singles = place_in_team() < kWarp && (chunk == 0 || !in_turns());
    const Pair single = takes_singles ? load_single(packs) : Pair{};
    bool singles = takes_singles && packs.singles > 0;
    Pair ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      load_next(packs, ahead[i]);
    }
#pragma unroll 1
    for (;;) {
      // The lanes of a warp have as many packs as the first one, or one less.
      Pair pair = ahead[0];
      if (!__any_sync(kAllLanes, packs.left > -kAhead)) {
        if (!singles) {
          break;
        }
        singles = false;
        pair = single;
      }
#pragma unroll
      for (int i = 0; i < kAhead - 1; ++i) {
        ahead[i] = ahead[i + 1];
      }
      load_next(packs, ahead[kAhead - 1]);
      f(pair.value, pair.weight);
    }
  }
  /// Loads a pack, or weights that are zeros if none is left.
  __device__ __forceinline__ void load_next(Packs& packs, Pair& pair) const {
    if constexpr (kAnywhere) {
      pair = Pair{}; // or these kernels spill more registers
    } else {
      pair.weight = {};
    }
    if (packs.left > 0) {
      pair = kAnywhere && !in.has_runs ? load_rows(packs.left) : load_pack(packs);
    }
    --packs.left;
  }
  /// Packs that are not aligned are read by elements.
  __device__ __forceinline__ WeightPack load_weights(bool aligned, const char* at) const {
    if (aligned) {
      return weights.load(at);
    }
    if constexpr (kAnywhere) {
      return load_apart(at);
    } else {
      // The loop runs once. Without it, the compiler would let packs that are aligned take the time
      // of these loads, too. Workaround nvcc-13.0-loop-of-one: see docs/tuning.md.
      WeightPack pack;
      int again = in.pack_step == 0;
#pragma unroll 1
      do {
        pack = load_apart(at);
        asm volatile("" : "+r"(again)); // the compiler does not know that it stays the same
      } while (again);
      return pack;
    }
  }
  __device__ __forceinline__ WeightPack load_apart(const char* at) const {
    WeightPack pack;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      weights.load_one(at + j * weight_bytes(), j, pack);
    }
    return pack;
  }
};

} // namespace histo::cuda
