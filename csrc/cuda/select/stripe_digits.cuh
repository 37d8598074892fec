// The digits of ranks, in the tables of a cluster whose blocks share the rows of a stripe.
#pragma once

#include <cstdint>

#include "cuda/select/stripe_memory.cuh"

namespace histo::cuda {

/// Sums the block's part of the digits over the tables of its cluster, in its own table, and those
/// sums in groups. Nobody else reads that part of its table before.
template <class Bits>
__device__ __forceinline__ void sum_tables(
    const BlockOfCluster& block, unsigned slots, const StripeMemory<Bits>& memory) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const auto sum = [&](unsigned row) {
    uint32_t* own = memory.table() + row * kWarp + lane;
    uint32_t all = *own;
    if (block.size > 1) {
      uint32_t others[kMaxCluster];
#pragma unroll
      for (unsigned other = 1; other < kMaxCluster; ++other) { // all in flight
        others[other] = other < block.size ? load_from_rank(own, block.behind(other)) : 0;
      }
#pragma unroll
      for (unsigned other = 1; other < kMaxCluster; ++other) {
        all += others[other];
      }
      *own = all;
    }
    return all;
  };
  const unsigned warps = blockDim.x / kWarp, of_warp = kDigits / (warps * block.size);
  const unsigned digit = (block.rank * warps + warp) * of_warp;
  for (unsigned slot = 0; slot < slots; ++slot) {
    const unsigned first_row = slot * kDigits + digit; // all of a warp are in one group
    uint32_t all = 0;
#pragma unroll 1 // the loads of a row are in flight together
    for (unsigned row = first_row; row < first_row + of_warp; ++row) {
      all += sum(row);
    }
    add_shared(address_of(memory.groups() + first_row / kOfGroup * kWarp + lane), all);
  }
}

/// Finds the count that a rank lies in. Subtracts the counts before it from the rank.
__device__ __forceinline__ unsigned find_count(const uint32_t (&counts)[16], uint32_t& rank) {
  unsigned at = 0;
#pragma unroll
  for (unsigned i = 0; i < 15; ++i) {
    if (at == i && rank >= counts[i]) {
      rank -= counts[i];
      at = i + 1;
    }
  }
  return at;
}

/// The digit of a rank in a slot of a column, which becomes the rank among the values with it.
/// row_of(digit) is the digit of the bits.
template <class Bits, class RowOf>
__device__ __forceinline__ unsigned find_digit(
    const BlockOfCluster& block,
    const StripeMemory<Bits>& memory,
    unsigned slot,
    unsigned column,
    const RowOf& row_of,
    uint32_t& rank) {
  using Memory = StripeMemory<Bits>;
  const unsigned word = column / Memory::kOfWord, of_word = column % Memory::kOfWord;
  const auto owner = [&](unsigned row) { return row * block.size / kDigits; };
  uint32_t counts[kDigitGroups];
#pragma unroll
  for (unsigned i = 0; i < kDigitGroups; ++i) {
    const unsigned row = row_of(i * kOfGroup);
    const uint32_t* sum = memory.groups() + (slot * kDigitGroups + row / kOfGroup) * kWarp + word;
    counts[i] = Memory::count_of(block.load(sum, owner(row)), of_word);
  }
  const unsigned group = find_count(counts, rank);
#pragma unroll
  for (unsigned i = 0; i < kOfGroup; ++i) {
    const unsigned row = row_of(group * kOfGroup + i);
    const uint32_t* count = memory.table() + (slot * kDigits + row) * kWarp + word;
    counts[i] = Memory::count_of(block.load(count, owner(row)), of_word);
  }
  return group * kOfGroup + find_count(counts, rank);
}

} // namespace histo::cuda
