// The elements of channels that lie side by side, and the weights beside them.
#pragma once

#include "cuda/plan/weights_plan.h"
#include "cuda/walk/packs.cuh"

namespace histo::cuda {

/// The rows of a thread in a block's stripe of columns: every kRowStep-th one. All lanes of a warp
/// take the same number of rows; where there is no element, weights are zeros.
template <class TheValues, class TheWeights, int kStep>
struct RowsOfPairs {
  using Values = TheValues;
  using Weights = TheWeights;
  using Value = typename Values::Wide;
  using ValuePack = typename Values::Pack;
  using WeightPack = typename Weights::Pack;
  static constexpr int kRowStep = kStep;

  const WeightColumns& in;
  Values values;
  Weights weights;
  int64_t batch;
  unsigned stripe; // of the batch
  unsigned chunk;
  const char* value; // of the thread's next row
  const char* weight;
  int left;    // rows of the thread. A block has fewer than 2^31
  int of_warp; // and rows that one of its lanes has

  /// The thread begins with a column of the stripe and a row of the block, lane 0 with `of_lane_0`.
  __device__ __forceinline__ RowsOfPairs(
      const WeightColumns& columns,
      const Values& of_values,
      const Weights& of_weights,
      const void* all_values,
      const void* all_weights,
      unsigned first_column_of_thread,
      unsigned first_row,
      unsigned of_lane_0)
      : in(columns), values(of_values), weights(of_weights) {
    // Neighbouring blocks read the same rows.
    stripe = blockIdx.x % in.stripes;
    chunk = blockIdx.x / in.stripes % in.chunks;
    batch = blockIdx.x / in.stripes / in.chunks;
    const int64_t column = first_column() + first_column_of_thread;
    const int64_t begin = chunk * in.share, row = begin + first_row;
    const int64_t end =
        chunk + 1 == in.chunks ? in.rows + (in.left > 0 ? 1 : 0) : (int64_t{chunk} + 1) * in.share;
    const int64_t in_column = column >= in.columns ? 0 : in.rows + (column < in.left ? 1 : 0);
    of_warp = rows_until(begin + of_lane_0, end);
    left = rows_until(row, min(end, in_column));
    value = static_cast<const char*>(all_values) +
            (batch * in.batch_stride + row * in.row_stride + column) * values.bytes();
    weight = static_cast<const char*>(all_weights) +
             (batch * in.weight_batch + row * in.weight_row + column * in.weight_column) *
                 weights.bytes();
  }

  __device__ __forceinline__ int64_t first_column() const {
    return int64_t{stripe} * kColumnsOfWeights;
  }
  /// A pack whose first weight is that of the thread's first row.
  __device__ __forceinline__ WeightPack sample() const {
    WeightPack pack;
    if (left > 0) {
      weights.load_one(weight, 0, pack);
    }
    return pack;
  }

 protected:
  struct Pair {
    ValuePack value;
    WeightPack weight;
  };
  /// Calls load(pair) for packs of kRows rows, kAhead packs ahead, and f(ready(pair)). f is
  /// inlined once.
  template <int kAhead, int kRows, class Load, class Ready, class F>
  __device__ __forceinline__ void for_each_pair(
      const Load& load, const Ready& ready, const F& f) const {
    Pair ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      load(ahead[i]);
    }
#pragma unroll 1
    for (int todo = of_warp; todo > 0; todo -= kRows) {
      const Pair pair = ready(ahead[0]);
#pragma unroll
      for (int i = 0; i < kAhead - 1; ++i) {
        ahead[i] = ahead[i + 1];
      }
      load(ahead[kAhead - 1]);
      f(pair.value, pair.weight);
    }
  }
  __device__ __forceinline__ void step() {
    value += in.value_step;
    weight += in.weight_step;
  }

 private:
  __device__ __forceinline__ static int rows_until(int64_t row, int64_t end) {
    return row < end ? static_cast<int>((end - row - 1) / kRowStep) + 1 : 0;
  }
};

/// A column of a block's stripe for each lane, in packs of rows.
template <class Values, class Weights, class Shape>
struct ColumnsOfPairs
    : RowsOfPairs<Values, Weights, Shape::kThreads / static_cast<int>(kColumnsOfWeights)> {
  using Rows = RowsOfPairs<Values, Weights, Shape::kThreads / static_cast<int>(kColumnsOfWeights)>;
  using typename Rows::Pair;
  static constexpr int kSize = Values::kSize;
  static_assert(kSize == Weights::kSize, "a pack has a weight for each value");
  static constexpr int kCopies = 1; // of the table, which are columns

  __device__ __forceinline__ ColumnsOfPairs(
      const WeightColumns& columns,
      const Values& of_values,
      const Weights& of_weights,
      const void* all_values,
      const void* all_weights)
      : Rows(
            columns,
            of_values,
            of_weights,
            all_values,
            all_weights,
            copy(0),
            threadIdx.x / kColumnsOfWeights,
            threadIdx.x / kColumnsOfWeights) {
  }
  /// The thread's column in the stripe.
  __device__ __forceinline__ static unsigned copy(unsigned) {
    return threadIdx.x % kColumnsOfWeights;
  }
  /// Calls f(pack of values, pack of weights). This uses up the columns.
  template <class F>
  __device__ __forceinline__ void for_each(const F& f) {
    this->template for_each_pair<Shape::kInFlight, kSize>(
        [&](Pair& pair) { load(pair); }, [](const Pair& pair) { return pair; }, f);
  }

 private:
  /// Loads the next rows.
  __device__ __forceinline__ void load(Pair& pair) {
    pair.weight = {};
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (j < this->left) {
        this->values.load_one(this->value, j, pair.value);
        this->weights.load_one(this->weight, j, pair.weight);
      }
      this->step();
    }
    this->left -= kSize;
  }
};

} // namespace histo::cuda
