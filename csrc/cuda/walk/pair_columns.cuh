// The elements of channels that lie side by side, and the weights beside them.
#pragma once

#include "cuda/plan/weights_plan.h"
#include "cuda/walk/packs.cuh"

namespace histo::cuda {

/// A column of a block's stripe for each lane, in packs of rows. All lanes of a warp take the same
/// number of packs; where there is no element, packs hold zeros.
template <class Values, class Weights, class Shape>
struct ColumnsOfPairs {
  static constexpr int kSize = Values::kSize;
  static_assert(kSize == Weights::kSize, "a pack has a weight for each value");
  using Value = typename Values::Wide;
  using ValuePack = typename Values::Pack;
  using WeightPack = typename Weights::Pack;
  static constexpr int kRowStep = Shape::kThreads / kColumnsOfWeights;

  const WeightColumns& in;
  Values values;
  Weights weights;
  int64_t batch;
  unsigned stripe; // of the batch
  unsigned chunk;
  unsigned word;     // the column of the thread in the stripe
  const char* value; // of the thread's next row
  const char* weight;
  int left;    // rows of the thread's column. A block has fewer than 2^31
  int of_warp; // and rows that one of its lanes has

  __device__ __forceinline__ ColumnsOfPairs(
      const WeightColumns& columns,
      const Values& of_values,
      const Weights& of_weights,
      const void* all_values,
      const void* all_weights)
      : in(columns), values(of_values), weights(of_weights) {
    // Neighbouring blocks read the same rows.
    stripe = blockIdx.x % in.stripes;
    chunk = blockIdx.x / in.stripes % in.chunks;
    batch = blockIdx.x / in.stripes / in.chunks;
    word = threadIdx.x % kColumnsOfWeights;
    const int64_t column = first_column() + word;
    const int64_t row = chunk * in.share + threadIdx.x / kColumnsOfWeights;
    const int64_t end =
        chunk + 1 == in.chunks ? in.rows + (in.left > 0 ? 1 : 0) : (int64_t{chunk} + 1) * in.share;
    const int64_t in_column = column >= in.columns ? 0 : in.rows + (column < in.left ? 1 : 0);
    of_warp = rows_until(row, end);
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

  /// Calls f(pack of values, pack of weights). Its code is there once. This uses up the columns.
  template <class F>
  __device__ __forceinline__ void for_each(const F& f) {
    constexpr int kAhead = Shape::kInFlight;
    Pair ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      load(ahead[i]);
    }
#pragma unroll 1
    for (int todo = of_warp; todo > 0; todo -= kSize) {
      const Pair pair = ahead[0];
#pragma unroll
      for (int i = 0; i < kAhead - 1; ++i) {
        ahead[i] = ahead[i + 1];
      }
      load(ahead[kAhead - 1]);
      f(pair.value, pair.weight);
    }
  }

 private:
  struct Pair {
    ValuePack value;
    WeightPack weight;
  };
  __device__ __forceinline__ static int rows_until(int64_t row, int64_t end) {
    return row < end ? static_cast<int>((end - row - 1) / kRowStep) + 1 : 0;
  }
  /// Loads the next rows, or zeros where none is left.
  __device__ __forceinline__ void load(Pair& pair) {
    const int64_t value_step = kRowStep * in.row_stride * values.bytes();
    const int64_t weight_step = kRowStep * in.weight_row * weights.bytes();
    pair = Pair{};
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (j < left) {
        values.load_one(value, j, pair.value);
        weights.load_one(weight, j, pair.weight);
      }
      value += value_step;
      weight += weight_step;
    }
    left -= kSize;
  }
};

} // namespace histo::cuda
