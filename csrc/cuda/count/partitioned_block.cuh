// The steps of a block of partitioned.cu.
#pragma once

#include "cuda/plan/layouts.h"
#include "cuda/storage/counts.cuh"
#include "cuda/storage/hot_bins.cuh"
#include "cuda/storage/shared.cuh"
#include "cuda/walk/loads.cuh"

namespace histo::cuda {

/// The elements of a vec16 in 32 bits, in their order. Values below the limit have a bin.
template <class T>
struct Vec16Values {
  static constexpr int kSize = sizeof(uint4) / sizeof(T);

  uint32_t values[kSize];

  __device__ explicit Vec16Values(const uint4& v) {
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      if constexpr (sizeof(T) == 2) {
        values[i] = i % 2 == 0 ? words[i / 2] & 0xffff : words[i / 2] >> 16;
      } else if constexpr (sizeof(T) == 4) {
        values[i] = words[i];
      } else {
        static_assert(sizeof(T) == 8);
        values[i] = words[2 * i + 1] == 0 ? words[2 * i] : ~0u;
      }
    }
  }
};

/// A thread's elements that found no room in a bucket and have no counter in the block's shared
/// memory. There are few, and rarely any.
struct Overflow {
  // A pointer to another variable. If the array stood here, `number` could not stay in a register.
  uint32_t* values; // the highest bit tells that the value stands for a whole vec16
  int number = 0;

  __device__ __forceinline__ void add(uint32_t value, bool is_whole) {
    values[number++] = value | uint32_t{is_whole} << 31;
  }
};

/// The steps of a block in a round, which all its threads take together.
template <class T>
struct PartitionedBlock {
  using OwnBins = HotBins<kPartitionedThreads, 2>;
  static constexpr int kWarps = kPartitionedThreads / kWarp;
  static constexpr int kOfVec16 = Vec16Values<T>::kSize;
  static constexpr int kVec16s = kPartitionedVec16s<sizeof(T)>;
  static constexpr int kItemBytes = 2;
  // The first item of a bucket is twice the number of items that follow.
  static constexpr unsigned kItems = kBucketBytes / kItemBytes;
  static constexpr int kItemsOfLane = kItems / kWarp;
  static_assert(kBucketBytes == kWarp * sizeof(uint4), "a warp moves a bucket at once");
  // The position of an element without a bin. No block has as many as 2^31 elements.
  static constexpr uint32_t kNoPosition = 0x80000000;
  // 16 bytes lie between buckets, so that these begin in different banks.
  static constexpr unsigned kStagedBytes = kBucketBytes + sizeof(uint4);

  const Partitioned& in;
  uint4* buckets; // of all blocks
  unsigned long long* counts;
  int lane;
  unsigned warp;
  unsigned me;
  unsigned owners;
  uint8_t* staged;  // a bucket for each owner
  unsigned* filled; // and its items
  uint32_t* table;  // of the bins that the block owns
  OwnBins own;      // and counters that it has for bins of others
  uint32_t staged_address;
  uint32_t filled_address;
  uint32_t table_address;
  // The addresses of counters that nobody reads: one for each lane, and one for all lanes. To count
  // there costs less than a branch around an addition.
  uint32_t sink;
  uint32_t shared_sink;
  uint4 vec16s[kVec16s]; // of the tile
  int have = 0;          // the number of them

  __device__ __forceinline__ PartitionedBlock(
      const Partitioned& partitioned, uint4* shared, uint4* all_buckets, unsigned long long* result)
      : in(partitioned),
        buckets(all_buckets),
        counts(result),
        lane(threadIdx.x % kWarp),
        warp(threadIdx.x / kWarp),
        me(blockIdx.x),
        owners(1u << in.log_owners),
        staged(reinterpret_cast<uint8_t*>(shared)),
        filled(reinterpret_cast<unsigned*>(staged + owners * kStagedBytes)),
        table(filled + owners + kWarp),
        own{table + (1u << in.log_owned), counts, 0, in.num_bins},
        staged_address(address_of(staged)),
        filled_address(address_of(filled)),
        table_address(address_of(table)),
        sink(filled_address + 4 * (owners + lane)),
        shared_sink(filled_address + 4 * owners) {
  }

  __device__ __forceinline__ bool is_owner() const {
    return me < owners;
  }
  __device__ __forceinline__ void clear() const {
    for (unsigned i = threadIdx.x; i < owners + kWarp; i += kPartitionedThreads) {
      filled[i] = i < owners ? 1 : kNoPosition;
    }
    for (unsigned i = threadIdx.x; i < 1u << in.log_owned; i += kPartitionedThreads) {
      table[i] = 0;
    }
    own.begin();
  }
  /// Zeroes the block's part of the counts.
  __device__ __forceinline__ void clear_counts() const {
    const int64_t step = int64_t{gridDim.x} * kPartitionedThreads;
    for (int64_t i = int64_t{me} * kPartitionedThreads + threadIdx.x; i < in.num_bins; i += step) {
      counts[i] = 0;
    }
  }
  /// Counts the elements before the first vec16 and after the last one.
  __device__ __forceinline__ void count_ragged() const {
    if (me == 0 && threadIdx.x < in.ragged) {
      const auto* elements = reinterpret_cast<const T*>(in.data);
      const int64_t after = in.vec16s * kOfVec16 - in.head + threadIdx.x;
      const T value = elements[threadIdx.x < in.head ? threadIdx.x - int64_t{in.head} : after];
      if (value < in.limit) {
        atomicAdd(&counts[value], 1ull);
      }
    }
  }

  __device__ __forceinline__ void load(unsigned round) {
    const int64_t first = (int64_t{round} * gridDim.x + me) * in.vec16s_of_tile + threadIdx.x;
    const auto* data = reinterpret_cast<const uint4*>(in.data) + first;
    const int64_t left = (in.vec16s - first + kPartitionedThreads - 1) / kPartitionedThreads;
    have = static_cast<int>(max(min(left, int64_t{kVec16s}), int64_t{0}));
#pragma unroll
    for (int i = 0; i < kVec16s; ++i) {
      if (i < have) {
        vec16s[i] = load_once(data + i * kPartitionedThreads);
      }
    }
  }
  /// Sorts the tile into buckets. If `single_block`, the block counts all of it alone. Returns how
  /// many elements of this thread found no room, or have a counter in the block's shared memory.
  __device__ __forceinline__ int sort(bool single_block) const {
    uint32_t values[kVec16s * kOfVec16];
    Overflow overflow{values};
    int num_overflowing = 0;
#pragma unroll
    for (int i = 0; i < kVec16s; ++i) {
      const Vec16Values<T> vec16(vec16s[i]);
      const uint32_t limit = i < have ? in.limit : 0;
      uint32_t differ = 0;
#pragma unroll
      for (int j = 1; j < kOfVec16; ++j) {
        differ |= vec16.values[j] ^ vec16.values[0];
      }
      const uint32_t first = __shfl_sync(0xffffffff, vec16.values[0], 0);
      if (__all_sync(0xffffffff, (differ | (vec16.values[0] ^ first)) == 0 && first < limit)) {
        if (lane == 0) {
          own.add_in_slot(first, first, kWarp * kOfVec16);
        }
      } else {
        num_overflowing += single_block ? count_alone(vec16, limit, overflow)
                                        : scatter(vec16, limit, differ, overflow);
      }
    }
#pragma unroll 1
    for (int i = 0; i < overflow.number; ++i) {
      const uint32_t value = overflow.values[i] & 0x7fffffff;
      own.add_in_slot(value, value, overflow.values[i] >> 31 != 0 ? kOfVec16 : 1);
    }
    return num_overflowing;
  }
  /// Copies the buckets to the workspace, for their owners.
  __device__ __forceinline__ void flush(unsigned round) const {
    for (unsigned owner = warp; owner < owners; owner += kWarps) {
      uint4 vec16 = reinterpret_cast<const uint4*>(staged + owner * kStagedBytes)[lane];
      if (lane == 0) {
        vec16.x = (vec16.x & 0xffff0000) | 2 * min(filled[owner] - 1, kItems - 1);
        filled[owner] = 1;
      }
      __stcg(bucket(round, owner, me), vec16);
    }
  }
  /// Counts the buckets that all blocks have left for this one.
  __device__ __forceinline__ void count(unsigned round) const {
    constexpr int kUnroll = 4;
    const uint4* own_buckets = bucket(round, me, 0);
    for (unsigned first = warp; first < gridDim.x; first += kUnroll * kWarps) {
      uint4 loaded[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const unsigned from = first + i * kWarps;
        loaded[i] = from < gridDim.x ? __ldcg(own_buckets + from * kWarp) : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        count_bucket(loaded[i]);
      }
    }
  }
  /// Adds the bins that the block owns to the counts.
  __device__ __forceinline__ void put_table() const {
    const uint32_t mask = (owners << in.log_owned) - 1;
    for (unsigned i = threadIdx.x; i < 1u << in.log_owned; i += kPartitionedThreads) {
      const uint32_t bin = (me << in.log_owned | i) * in.unmixer & mask;
      if (bin < in.num_bins) {
        put<true>(&counts[bin], table[i]);
      }
    }
  }

 private:
  __device__ __forceinline__ uint32_t owner_of(uint32_t mixed) const {
    return mixed >> (32 - in.log_owners);
  }
  /// Rounds use two sets of buckets in turn. A block that has reached a round has counted the
  /// buckets of the round before the last.
  __device__ __forceinline__ uint4* bucket(unsigned round, unsigned owner, unsigned from) const {
    const unsigned buckets_of_set = owners * gridDim.x;
    return buckets + (round % 2 * buckets_of_set + owner * gridDim.x + from) * kWarp + lane;
  }
  /// Counts a vec16 in the block's own counters.
  __device__ __forceinline__ int count_alone(
      const Vec16Values<T>& vec16, uint32_t limit, Overflow& overflow) const {
    int num_overflowing = 0;
    bool knows_all = true;
    uint32_t counters[kOfVec16];
#pragma unroll
    for (int j = 0; j < kOfVec16; ++j) {
      const bool has_bin = vec16.values[j] < limit;
      counters[j] = has_bin ? own.find(vec16.values[j], shared_sink) : shared_sink;
      add_shared(counters[j], 1);
      num_overflowing += counters[j] != shared_sink;
      knows_all = knows_all && (counters[j] != shared_sink || !has_bin);
    }
    if (!knows_all) {
#pragma unroll
      for (int j = 0; j < kOfVec16; ++j) {
        if (counters[j] == shared_sink && vec16.values[j] < limit) {
          overflow.add(vec16.values[j], false);
        }
      }
    }
    return num_overflowing;
  }
  /// Scatters a vec16 to the buckets of its owners. If all elements are equal, the first stands for
  /// all.
  __device__ __forceinline__ int scatter(
      const Vec16Values<T>& vec16, uint32_t limit, uint32_t differ, Overflow& overflow) const {
    const uint32_t limit_of_others = differ != 0 ? limit : 0;
    const uint32_t whole = differ == 0;
    uint32_t mixed[kOfVec16];
    uint32_t position[kOfVec16];
#pragma unroll
    for (int j = 0; j < kOfVec16; ++j) {
      mixed[j] = vec16.values[j] * in.mixer;
      const bool has_item = vec16.values[j] < (j == 0 ? limit : limit_of_others);
      position[j] = count_shared(has_item ? filled_address + 4 * owner_of(mixed[j]) : sink);
    }
    bool all_fit = true;
#pragma unroll
    for (int j = 0; j < kOfVec16; ++j) {
      const uint32_t item = mixed[j] >> (16 - in.log_owners) | (j == 0 ? whole : 0);
      store_shared_if_below(
          position[j], kItems,
          staged_address + owner_of(mixed[j]) * kStagedBytes + position[j] * kItemBytes,
          static_cast<uint16_t>(item));
      all_fit = all_fit && static_cast<int32_t>(position[j]) < static_cast<int32_t>(kItems);
    }
    int num_overflowing = 0;
    if (!all_fit) {
#pragma unroll
      for (int j = 0; j < kOfVec16; ++j) {
        if (static_cast<int32_t>(position[j]) >= static_cast<int32_t>(kItems)) {
          ++num_overflowing;
          const bool is_whole = j == 0 && whole != 0;
          const uint32_t counter = own.find(vec16.values[j], shared_sink);
          if (counter != shared_sink) {
            add_shared(counter, is_whole ? kOfVec16 : 1);
          } else {
            overflow.add(vec16.values[j], is_whole);
          }
        }
      }
    }
    return num_overflowing;
  }
  /// Counts the lane's part of a bucket.
  __device__ __forceinline__ void count_bucket(const uint4& vec16) const {
    const uint32_t words[4] = {vec16.x, vec16.y, vec16.z, vec16.w};
    const int items = __shfl_sync(0xffffffff, static_cast<int>(words[0] & 0xffff) / 2, 0);
    const int last = items - kItemsOfLane * lane; // of this lane
    // The first item of the first lane is the number of the others.
    const int first_item = lane > 0 ? 0 : kItemsOfLane * kWarp;
    const auto counter_of = [&](int j) {
      const uint32_t item = j % 2 == 0 ? words[j / 2] << 16 : words[j / 2];
      const bool counts_here = (j == 0 ? first_item : j) <= last;
      return counts_here ? table_address + 4 * (item >> (32 - in.log_owned)) : sink;
    };
    // If the data have no runs, no item stands for 16 bytes. An item that does takes two
    // additions. The hardware combines ones that lanes add to the same bin.
    if (__any_sync(0xffffffff, ((words[0] | words[1] | words[2] | words[3]) & 0x10001) != 0)) {
#pragma unroll
      for (int j = 0; j < kItemsOfLane; ++j) {
        const uint32_t counter = counter_of(j);
        add_shared(counter, 1);
        const bool is_whole = (words[j / 2] >> (16 * (j % 2)) & 1) != 0;
        add_shared(is_whole ? counter : sink, kOfVec16 - 1);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kItemsOfLane; ++j) {
        add_shared(counter_of(j), 1);
      }
    }
  }
};

} // namespace histo::cuda
