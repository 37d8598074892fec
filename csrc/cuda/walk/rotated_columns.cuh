// The elements of channels that lie side by side, and the weights beside them, in loads of 16 bytes.
#pragma once

#include "cuda/walk/pair_columns.cuh"

namespace histo::cuda {

/// Moves the elements of a pack: element j becomes what element (j + by) % 4 was.
__device__ __forceinline__ uint4 rotated_by(const uint4& pack, unsigned by) {
  const bool one = by & 1, two = by & 2;
  const uint32_t x = one ? pack.y : pack.x, y = one ? pack.z : pack.y;
  const uint32_t z = one ? pack.w : pack.z, w = one ? pack.x : pack.w;
  return {two ? z : x, two ? w : y, two ? x : z, two ? y : w};
}

constexpr unsigned kLanesOfRow = kColumnsOfWeights / 4;

/// Four neighbouring columns of a block's stripe for each lane, and a row of them in a pack. Eight
/// lanes have a row. The lanes of a warp's four rows begin with different columns, so that no two of
/// them have the same column at a time.
template <class Values, class Weights, class Shape>
struct RotatedColumns
    : RowsOfPairs<Values, Weights, Shape::kThreads / static_cast<int>(kLanesOfRow)> {
  using Rows = RowsOfPairs<Values, Weights, Shape::kThreads / static_cast<int>(kLanesOfRow)>;
  using typename Rows::Pair;
  static constexpr int kSize = 4;
  static constexpr int kCopies = kSize; // of the table, which are columns
  static_assert(sizeof(typename Values::Word) == 16 && sizeof(typename Weights::Word) == 16);

  __device__ __forceinline__ RotatedColumns(
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
            threadIdx.x % kLanesOfRow * kSize,
            threadIdx.x / kLanesOfRow,
            threadIdx.x / kWarp * (kWarp / kLanesOfRow)) {
  }
  /// The column of element j of a pack in the stripe.
  __device__ __forceinline__ static unsigned copy(unsigned j) {
    return threadIdx.x % kLanesOfRow * kSize + (j + rotation()) % kSize;
  }
  /// Calls f(pack of values, pack of weights). This uses up the columns.
  template <class F>
  __device__ __forceinline__ void for_each(const F& f) {
    const auto rotated = [](const Pair& pair) {
      return Pair{
          {rotated_by(pair.value.word, rotation())}, {rotated_by(pair.weight.word, rotation())}};
    };
    this->template for_each_pair<Shape::kInFlight, 1>([&](Pair& pair) { load(pair); }, rotated, f);
  }

 private:
  __device__ __forceinline__ static unsigned rotation() {
    return threadIdx.x % kWarp / kLanesOfRow;
  }
  /// Loads the next row. Columns may share a weight.
  __device__ __forceinline__ void load(Pair& pair) {
    pair.weight = {};
    if (this->left > 0) {
      pair.value = this->values.load(this->value);
      if (this->in.weight_column == 0) {
        const uint32_t bits = *reinterpret_cast<const uint32_t*>(this->weight);
        pair.weight = {uint4{bits, bits, bits, bits}};
      } else {
        pair.weight = this->weights.load(this->weight);
      }
    }
    this->step();
    --this->left;
  }
};

} // namespace histo::cuda
