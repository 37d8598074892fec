// Packs of values and weights -> the table of a block.
#pragma once

#include "cuda/fill/slots.cuh"
#include "cuda/fill/weights.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/room.h"
#include "cuda/storage/word_adders.cuh"
#include "cuda/storage/word_results.cuh"

namespace histo::cuda {

inline ChannelSums channel_sums(const Problem& problem) {
  return {
      totals_of(problem), sum_layout(problem.operand(1).type), problem.num_rows() > kMostUncarried};
}

/// Chooses where the table of a block begins, with all its threads: by the mean of the weights that
/// some of them read first.
template <class Adder, class Stream>
__device__ __forceinline__ Origin choose_origin(const Stream& stream, const WordTable& table) {
  __shared__ int sum, count;
  if (!table.samples) {
    return {table.origin, table.unit};
  }
  if (threadIdx.x == 0) {
    sum = count = 0;
  }
  __syncthreads();
  if (threadIdx.x < kSamplesOfWeights) {
    typename Adder::Weight some[1];
    stream.weights.widen(stream.sample(), 0, some);
    const int bit = Adder::bit_of(some[0]);
    if (bit >= 0) {
      atomicAdd(&sum, bit);
      atomicAdd(&count, 1);
    }
  }
  __syncthreads();
  return Adder::choose(count > 0 ? sum / count : 0, static_cast<int>(table.words));
}

/// The counts of weights that are not finite, behind the table of a block that writes its result.
__device__ __forceinline__ unsigned* clear_non_finite(
    uint32_t* memory, const WordTable& table, unsigned slots, bool writes) {
  unsigned* counts = memory + table.size(slots);
  for (unsigned i = threadIdx.x; writes && i < slots * kNumNonFinite; i += blockDim.x) {
    counts[i] = 0;
  }
  return writes ? counts : nullptr;
}

/// The copies of a table that a thread adds to.
template <class Stream>
__device__ __forceinline__ CopiesOfThread<Stream::kCopies> copies_of(
    const Stream& stream, const uint32_t* memory) {
  return {stream.in.table, memory, [&](int i) { return stream.copy(i); }};
}

/// Adds packs to the table.
template <class Stream, class Bins, class Adder>
struct AddPacks {
  const Stream& stream;
  const Bins& bins;
  const Adder& adder;
  const CopiesOfThread<Stream::kCopies>& copies;
  unsigned nan_slot;

  __device__ __forceinline__ void operator()(
      const typename Stream::ValuePack& value_pack,
      const typename Stream::WeightPack& weight_pack) const {
    constexpr int kAtOnce = std::min(Stream::kSize, 4);
#pragma unroll
    for (int first = 0; first < Stream::kSize; first += kAtOnce) {
      typename Stream::Value values[kAtOnce];
      typename Adder::Weight weights[kAtOnce];
      unsigned slots[kAtOnce];
      stream.values.widen(value_pack, first, values);
      bins.find(values, slots);
      if constexpr (Number<typename Stream::Value>::kIsFloat) {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          slots[j] = is_nan(values[j]) ? nan_slot : slots[j];
        }
      }
      stream.weights.widen(weight_pack, first, weights);
      uint32_t bases[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        bases[j] = copies.base(slots[j], first + j);
      }
      adder.add(bases, weights);
    }
  }
};

/// Bins that are values. Others have the slot behind the last bin.
struct ValueSlots {
  uint64_t bins;

  template <class Wide, int kSize>
  __device__ __forceinline__ void find(
      const Wide (&values)[kSize], unsigned (&slots)[kSize]) const {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const auto value = static_cast<uint64_t>(values[j]);
      slots[j] = static_cast<unsigned>(value < bins ? value : bins);
    }
  }
};

} // namespace histo::cuda
