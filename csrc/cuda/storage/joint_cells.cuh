// Where blocks count the cells of a joint histogram: a table in shared memory, of words or of halves
// of words.
#pragma once

#include "cuda/plan/joint_plan.h"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/shared.cuh"
#include "cuda/warp.cuh"

namespace histo::cuda {

/// The joint bin of a cell in the result, or kNoBin.
__device__ inline int64_t shown_bin(const JointCells& cells, unsigned cell) {
  int64_t bin = 0, below = 1; // bins of the axes behind
  for (int d = cells.axes - 1; d >= 0; --d) {
    const unsigned slot = cell % cells.slots[d] - (cells.shows_flow ? 0 : 1); // 0 - 1 is large
    if (slot >= cells.shown(d)) {
      return kNoBin;
    }
    bin += slot * below;
    below *= cells.shown(d);
    cell /= cells.slots[d];
  }
  return bin;
}

/// The slots that are shown of a joint bin, from 0 on each axis.
struct ShownSlots {
  unsigned at[kMostAxes] = {};

  __device__ static ShownSlots of(const JointCells& cells, unsigned bin) {
    ShownSlots slots;
#pragma unroll
    for (int d = kMostAxes - 1; d >= 0; --d) {
      if (d < cells.axes) {
        slots.at[d] = bin % cells.shown(d);
        bin /= cells.shown(d);
      }
    }
    return slots;
  }
  /// Goes on to the joint bin that is a step further, without a division.
  __device__ void advance(const JointCells& cells, const ShownSlots& step) {
    unsigned carry = 0;
#pragma unroll
    for (int d = kMostAxes - 1; d >= 0; --d) {
      if (d < cells.axes) {
        at[d] += step.at[d] + carry;
        carry = at[d] >= cells.shown(d) ? 1 : 0;
        at[d] -= carry * cells.shown(d);
      }
    }
  }
  /// Finds the cell, or returns false: an axis that is not valid counts NaN alone.
  __device__ bool find_cell(
      const JointCells& cells, const bool (&valid)[kMostAxes], unsigned& cell) const {
    bool counts = true;
    cell = 0;
#pragma unroll
    for (int d = 0; d < kMostAxes; ++d) {
      if (d < cells.axes) {
        const unsigned slot = at[d] + (cells.shows_flow ? 0 : 1);
        counts = counts && (valid[d] || slot == cells.nan_slot(d));
        cell = cell * cells.slots[d] + slot;
      }
    }
    return counts;
  }
};

/// A word for each cell.
struct CellWords {
  uint32_t address;

  __device__ __forceinline__ void add(unsigned cell) const {
    add_shared(address + cell * sizeof(uint32_t), 1);
  }
  __device__ __forceinline__ uint32_t at(unsigned cell) const {
    return load_shared(address + cell * sizeof(uint32_t));
  }
};

/// Two cells share a word, 16 bits each. The thread whose addition overflows a half adds 2^16 to the
/// result. If it is the low half, its carry into the high half is taken back. Each addition returns
/// what the word was before, so other threads may add meanwhile: whatever these two additions carry
/// out of the word, or borrow, is counted for the high half.
struct CellHalves {
  static constexpr uint32_t kHalf = 0xffff;
  static constexpr uint32_t kBeyond = 1u << 16;

  uint32_t address;
  const JointCells& cells;
  const bool (&valid)[kMostAxes];
  unsigned long long* histogram; // of the channel

  __device__ __forceinline__ uint32_t word_of(unsigned cell) const {
    return address + cell / 2 * sizeof(uint32_t);
  }
  __device__ __forceinline__ uint32_t at(unsigned cell) const {
    return load_shared(word_of(cell)) >> shift_of(cell) & kHalf;
  }
  __device__ __forceinline__ static unsigned shift_of(unsigned cell) {
    return cell % 2 * 16;
  }
  /// Adds a number below 2^16 to each cell. All additions are issued before a result is looked at.
  template <int kSize>
  __device__ __forceinline__ void add(const unsigned (&all)[kSize], uint32_t count) const {
    uint32_t before[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      before[j] = fetch_add_shared(word_of(all[j]), count << shift_of(all[j]));
    }
    bool overflows = false;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      overflows = overflows || is_beyond(all[j], before[j], count);
    }
    if (overflows) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        if (is_beyond(all[j], before[j], count)) {
          carry(*this, all[j], before[j], count << shift_of(all[j]));
        }
      }
    }
  }
  __device__ __forceinline__ static bool is_beyond(unsigned cell, uint32_t before, uint32_t count) {
    return (before >> shift_of(cell) & kHalf) + count > kHalf;
  }
  /// Adds 1 to each cell. Those of a thread that are equal are one addition, and so are those of a
  /// warp.
  template <int kSize>
  __device__ __forceinline__ void add_all(const unsigned (&all)[kSize]) const {
    bool are_equal = true;
#pragma unroll
    for (int j = 1; j < kSize; ++j) {
      are_equal = are_equal && all[j] == all[0];
    }
    if (!are_equal) {
      return add(all, 1);
    }
    if (const unsigned lanes = lanes_to_act_for(all[0])) {
      const unsigned one[1] = {all[0]};
      add(one, kSize * lanes);
    }
  }

 private:
  /// Takes a copy: the address of this object would keep it in memory, not in registers.
  __device__ __noinline__ static void carry(
      CellHalves halves, unsigned cell, uint32_t before, uint32_t added) {
    const bool carries = before + added < before; // out of the word
    halves.put(cell, kBeyond);
    if (cell % 2 == 1) {
      return;
    }
    const uint32_t then = fetch_add_shared(halves.word_of(cell), 0 - kBeyond);
    const bool borrows = then < kBeyond;
    if (carries != borrows) {
      halves.put(cell + 1, carries ? int64_t{kBeyond} : -int64_t{kBeyond});
    }
  }
  __device__ void put(unsigned cell, int64_t count) const {
    const int64_t bin = shown_bin(cells, cell);
    unsigned same = 0;
    if (bin != kNoBin &&
        ShownSlots::of(cells, static_cast<unsigned>(bin)).find_cell(cells, valid, same)) {
      atomicAdd(histogram + bin, static_cast<unsigned long long>(count));
    }
  }
};

} // namespace histo::cuda
