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
  int64_t next;      // row of the thread
  int64_t end;       // behind the last row of the block
  int64_t full_rows; // of the thread's column
  const char* value;
  const char* weight;

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
    next = chunk * in.share + threadIdx.x / kColumnsOfWeights;
    end = chunk + 1 == in.chunks ? in.rows + (in.left > 0 ? 1 : 0) : (chunk + 1) * in.share;
    full_rows = column >= in.columns ? 0 : in.rows + (column < in.left ? 1 : 0);
    value = static_cast<const char*>(all_values) +
            (batch * in.batch_stride + next * in.row_stride + column) * values.bytes();
    weight = static_cast<const char*>(all_weights) +
             (batch * in.weight_batch + next * in.weight_row + column * in.weight_column) *
                 weights.bytes();
  }

  __device__ __forceinline__ int64_t first_column() const {
    return int64_t{stripe} * kColumnsOfWeights;
  }
  /// A pack whose first weight is that of the thread's first row.
  __device__ __forceinline__ WeightPack sample() const {
    WeightPack pack;
    if (next < min(end, full_rows)) {
      weights.load_one(weight, 0, pack);
    }
    return pack;
  }

  /// Calls f(pack of values, pack of weights). Its code is there once. This uses up the columns.
  template <class F>
  __device__ __forceinline__ void for_each(const F& f) {
    constexpr int kAhead = Shape::kInFlight;
    Pair ahead[kAhead];
    const int64_t own_end = min(end, full_rows);
#pragma unroll 1
    for (int64_t row = next - kAhead * (kSize * kRowStep); row < end; row += kSize * kRowStep) {
      const Pair pair = ahead[0];
#pragma unroll
      for (int i = 0; i < kAhead - 1; ++i) {
        ahead[i] = ahead[i + 1];
      }
      ahead[kAhead - 1] = load(row + kAhead * (kSize * kRowStep), own_end);
      if (row >= next) {
        f(pair.value, pair.weight);
      }
    }
  }

 private:
  struct Pair {
    ValuePack value;
    WeightPack weight;
  };
  /// Loads the rows from `row` on, and goes on behind them.
  __device__ __forceinline__ Pair load(int64_t row, int64_t own_end) {
    const int64_t value_step = kRowStep * in.row_stride * values.bytes();
    const int64_t weight_step = kRowStep * in.weight_row * weights.bytes();
    Pair pair;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (row + j * kRowStep < own_end) {
        values.load_one(value + j * value_step, j, pair.value);
        weights.load_one(weight + j * weight_step, j, pair.weight);
      }
    }
    value += kSize * value_step;
    weight += kSize * weight_step;
    return pair;
  }
};

} // namespace histo::cuda
