// The table of planar.cu in shared memory: bytes of few channels, which have copies in its columns.
#pragma once

#include "cuda/count/byte_table.cuh"

namespace histo::cuda {

/// The counters that a lane has for one value.
enum class ChannelTurns {
  kNone,  // one channel: a counter of 32 bits, in half of the words of an entry
  kThree, // three counters of 16 bits: six, five and five of its bytes add to them
  kEven,  // two channels or four: four counters of 16 bits, one for each byte of a word
};

template <ChannelTurns kTurns, int kThreads>
struct PlanarTable : ByteTable {
  using Base = ByteTable;
  using Base::address;
  using Base::in;
  using Base::memory;
  using Base::offsets;
  static constexpr unsigned kRowBytes = kWarpBytes; // of a stream; a warp reads a row
  uint32_t ones[3]; // three channels: one byte of each as a number to add
  // The bytes of a value's counters: all of an entry, or half if a lane has one counter.
  static constexpr int kEntryVec16s = (kTurns == ChannelTurns::kNone ? kWarp : kByteEntryWords) / 4;

  __device__ PlanarTable(
      const ColumnLayout& columns, const ByteAxis& bytes, uint32_t* shared, int lane)
      : Base(columns, bytes, shared, lane) {
    offsets[0] = 4 * lane;
  }

  /// Prepares for a row that begins with this byte of its run.
  __device__ __forceinline__ void begin_rows(unsigned byte) {
    if constexpr (kTurns == ChannelTurns::kThree) {
      const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
      for (unsigned i = 0; i < 3; ++i) {
        const auto channel = static_cast<int>((byte + i) % 3);
        offsets[i] = 4 * Base::word_of(lane * kCountersOfLane + channel);
        ones[i] = Base::half_of(channel) ? 0x10000 : 1;
      }
    }
  }
  /// Adds a vec16 of the row that lies `row` rows after that one.
  __device__ __forceinline__ void add(const uint4& vec16, int row) const {
    const uint32_t words[4] = {vec16.x, vec16.y, vec16.z, vec16.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kTurns == ChannelTurns::kEven) {
        Base::add_word(words[i], offsets[0]);
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int of = kTurns == ChannelTurns::kNone ? 0 : (row * int{kRowBytes} + 4 * i + k) % 3;
          const uint32_t byte_offset = __byte_perm(words[i], offsets[of], 0x5504 + 0x10 * k);
          add_shared(address + byte_offset, kTurns == ChannelTurns::kNone ? 1 : ones[of]);
        }
      }
    }
  }
  /// Adds one byte, at this position in a row and this one in its run.
  __device__ __forceinline__ void add_one(unsigned position, int64_t byte, uint8_t value) const {
    const unsigned first_of_lane = position % kByteColumns / kCountersOfLane * kCountersOfLane;
    if constexpr (kTurns == ChannelTurns::kNone) { // a lane's four bytes of a word have one word
      add_shared(address + 4 * (value * kByteEntryWords + first_of_lane / kCountersOfLane), 1);
    } else {
      const unsigned column = kTurns == ChannelTurns::kThree
                                  ? first_of_lane + static_cast<unsigned>(byte % 3)
                                  : position;
      Base::add_one(static_cast<int>(column), value);
    }
  }

  __device__ void clear() const {
    constexpr unsigned kVec16s = 256 * kEntryVec16s;
#pragma unroll
    for (unsigned i = 0; i < kVec16s; i += kThreads) {
      if (i + kThreads <= kVec16s || i + threadIdx.x < kVec16s) {
        vec16_at((i + threadIdx.x) / kEntryVec16s, (i + threadIdx.x) % kEntryVec16s) =
            make_uint4(0, 0, 0, 0);
      }
    }
  }

  /// A thread sums half of the counters of a value, and clears them if more rows come. If a lane
  /// has two words, these are all even or all odd words. Neighbouring threads begin with different
  /// words, so that there are no bank conflicts, and add to neighbouring bins.
  __device__ void add_channels(const Segment& segment, Counts counts, bool more) const {
    constexpr int kVec16s = kEntryVec16s / 2;
    // An even word has the first and the third of four columns, an odd word the others.
    const bool apart = in.channels > 2;
    const uint32_t of_first = apart ? 0x0001 : 0x0101;
    for (int i = threadIdx.x; i < 2 * 256; i += kThreads) {
      const int entry = i / 2;
      const int odd = i % 2;
      uint32_t first = 0, second = 0;
#pragma unroll 4
      for (int k = 0; k < kVec16s; ++k) {
        const int begin = kTurns == ChannelTurns::kNone ? entry : entry + odd * kVec16s / 2;
        uint4& vec16 = vec16_at(entry, odd * kVec16s + (begin + k) % kVec16s);
        const uint32_t words[4] = {vec16.x, vec16.y, vec16.z, vec16.w};
        // Workaround nvcc-13.0-clear-always: see docs/tuning.md.
        if (kTurns == ChannelTurns::kThree || more) {
          vec16 = make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (uint32_t word : words) {
          if constexpr (kTurns == ChannelTurns::kNone) {
            first += word;
          } else {
            first = __dp2a_lo(word, of_first, first);
            if (apart) {
              second = __dp2a_lo(word, 0x0100u, second);
            }
          }
        }
      }
      const int64_t bin = Base::axis.bin_of(static_cast<uint8_t>(entry));
      const auto add_to = [&](int column, uint32_t sum) {
        const int64_t channel = kTurns == ChannelTurns::kNone    ? 0
                                : kTurns == ChannelTurns::kThree ? column
                                                                 : channel_of(in, segment, column);
        if (bin != kNoBin && channel < in.counted) {
          put<true>(&counts[in.counter(segment.batch, channel, bin)], sum);
        }
      };
      if constexpr (kTurns == ChannelTurns::kNone) {
        first += __shfl_sync(0xffffffff, first, (threadIdx.x ^ 1) % kWarp);
        if (odd) {
          continue;
        }
      }
      add_to(odd, first);
      if (kTurns != ChannelTurns::kNone && apart) {
        add_to(odd + 2, second);
      }
    }
    __syncthreads();
  }

 private:
  __device__ __forceinline__ uint4& vec16_at(unsigned entry, unsigned vec16) const {
    return reinterpret_cast<uint4*>(memory)[entry * (kByteEntryWords / 4) + vec16];
  }
};

} // namespace histo::cuda
