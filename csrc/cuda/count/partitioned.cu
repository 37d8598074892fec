// Counts one channel in more bins than one block's shared memory holds.
//
// The shared memory of all blocks together holds them. Each block owns some of the bins and counts
// them for all blocks. In a round a block reads a tile and sorts it by owner into buckets. It
// leaves these in the workspace, which stays in the second-level cache. When all blocks have done
// so, it counts the buckets that the others have left for it.
//
// The bits of a value are mixed before they are split into the owner and the number of the bin
// among the owner's. Data are often full of neighbouring bins, and mixing gives these different
// owners. If a lane's 16 bytes are equal elements, they are one entry of a bucket. A full bucket
// turns further values away. The block that has read them then counts them itself: a few bins in
// shared memory, and the others in the counts. If a few values fill the tile, too many are turned
// away, and the block counts the whole next tile itself.
#include "cuda/count/sweeps.h"
#include "cuda/storage/hot_bins.cuh"
#include "cuda/storage/shared.cuh"
#include "cuda/walk/loads.cuh"

namespace histo::cuda {
namespace {

constexpr int kWarps = kPartitionedThreads / kWarp;
constexpr int kEntryBytes = 2;
// The first entry of a bucket is twice the number of entries that follow.
constexpr unsigned kEntries = kBucketBytes / kEntryBytes;
// The place of an element without a bin. No block has as many as 2^31 elements.
constexpr uint32_t kNoPlace = 0x80000000;
constexpr int kEntriesOfLane = kEntries / kWarp;
static_assert(kBucketBytes == kWarp * sizeof(uint4), "a warp moves a bucket at once");

using Own = HotBins<kPartitionedThreads, 2>;

/// The elements of a vec16 as keys, in their order. Keys below the limit have a bin.
template <class T>
struct Vec16 {
  static constexpr int kSize = sizeof(uint4) / sizeof(T);

  uint32_t keys[kSize];

  __device__ explicit Vec16(const uint4& v) {
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      if constexpr (sizeof(T) == 2) {
        keys[i] = i % 2 == 0 ? words[i / 2] & 0xffff : words[i / 2] >> 16;
      } else if constexpr (sizeof(T) == 4) {
        keys[i] = words[i];
      } else {
        static_assert(sizeof(T) == 8);
        keys[i] = words[2 * i + 1] == 0 ? words[2 * i] : ~0u;
      }
    }
  }
};

/// All blocks of the grid meet here; they are resident at the same time.
///
/// Even and odd rounds have a word each. No block can arrive in the round after next before all
/// blocks have seen this one.
struct Barrier {
  uint32_t* words;

  __device__ void arrive(unsigned time) const {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(&words[time % 2], 1);
    }
  }
  /// Waits until all blocks have arrived.
  __device__ void wait(unsigned time) const {
    if (threadIdx.x == 0) {
      const uint32_t expected = (time / 2 + 1) * gridDim.x;
      uint32_t seen = 0;
      do {
        seen = load_acquire(&words[time % 2]);
      } while (static_cast<int32_t>(seen - expected) < 0);
    }
    __syncthreads();
  }
};

/// A thread's elements that found no room in a bucket and have no counter in the block's shared
/// memory. There are few, and rarely any.
struct Overflow {
  // A pointer to another variable. If the array stood here, `number` could not stay in a register.
  uint32_t* keys; // the highest bit tells that the key stands for a whole vec16
  int number = 0;

  __device__ __forceinline__ void add(uint32_t key, bool is_whole) {
    keys[number++] = key | uint32_t{is_whole} << 31;
  }
};

/// The steps of a block in a round, which all its threads take together.
template <class T>
struct PartitionedBlock {
  static constexpr int kOfVec16 = Vec16<T>::kSize;
  static constexpr int kVec16s = kPartitionedVec16s<sizeof(T)>;
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
  unsigned* filled; // and its entries
  uint32_t* table;  // of the bins that the block owns
  Own own;          // and counters that it has for bins of others
  uint32_t staged_address;
  uint32_t filled_address;
  uint32_t table_address;
  // Counters that nobody reads: one for each lane, and one for all lanes. To count in them costs
  // less than a branch around an addition.
  uint32_t nowhere;
  uint32_t nobodys;
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
        nowhere(filled_address + 4 * (owners + lane)),
        nobodys(filled_address + 4 * owners) {
  }

  __device__ __forceinline__ bool is_owner() const {
    return me < owners;
  }
  __device__ __forceinline__ void clear() const {
    for (unsigned i = threadIdx.x; i < owners + kWarp; i += kPartitionedThreads) {
      filled[i] = i < owners ? 1 : kNoPlace;
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
  /// Sorts the tile into buckets, or counts all of it. Returns how many elements of this thread
  /// found no room, or have a counter in the block's shared memory.
  __device__ __forceinline__ int sort(bool all_by_itself) const {
    uint32_t keys[kVec16s * kOfVec16];
    Overflow overflow{keys};
    int crowd = 0;
#pragma unroll
    for (int i = 0; i < kVec16s; ++i) {
      const Vec16<T> vec16(vec16s[i]);
      const uint32_t limit = i < have ? in.limit : 0;
      uint32_t differ = 0;
#pragma unroll
      for (int j = 1; j < kOfVec16; ++j) {
        differ |= vec16.keys[j] ^ vec16.keys[0];
      }
      const uint32_t first = __shfl_sync(0xffffffff, vec16.keys[0], 0);
      if (__all_sync(0xffffffff, (differ | (vec16.keys[0] ^ first)) == 0 && first < limit)) {
        if (lane == 0) {
          own.add_in_slot(first, first, kWarp * kOfVec16);
        }
      } else {
        crowd += all_by_itself ? count_alone(vec16, limit, overflow)
                               : enter(vec16, limit, differ, overflow);
      }
    }
#pragma unroll 1
    for (int i = 0; i < overflow.number; ++i) {
      const uint32_t key = overflow.keys[i] & 0x7fffffff;
      own.add_in_slot(key, key, overflow.keys[i] >> 31 != 0 ? kOfVec16 : 1);
    }
    return crowd;
  }
  /// Copies the buckets to the workspace, for their owners.
  __device__ __forceinline__ void leave(unsigned round) const {
    for (unsigned owner = warp; owner < owners; owner += kWarps) {
      uint4 vec16 = reinterpret_cast<const uint4*>(staged + owner * kStagedBytes)[lane];
      if (lane == 0) {
        vec16.x = (vec16.x & 0xffff0000) | 2 * min(filled[owner] - 1, kEntries - 1);
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
      const Vec16<T>& vec16, uint32_t limit, Overflow& overflow) const {
    int crowd = 0;
    bool knows_all = true;
    uint32_t counters[kOfVec16];
#pragma unroll
    for (int j = 0; j < kOfVec16; ++j) {
      const bool has_bin = vec16.keys[j] < limit;
      counters[j] = has_bin ? own.find(vec16.keys[j], nobodys) : nobodys;
      add_shared(counters[j], 1);
      crowd += counters[j] != nobodys;
      knows_all = knows_all && (counters[j] != nobodys || !has_bin);
    }
    if (!knows_all) {
#pragma unroll
      for (int j = 0; j < kOfVec16; ++j) {
        if (counters[j] == nobodys && vec16.keys[j] < limit) {
          overflow.add(vec16.keys[j], false);
        }
      }
    }
    return crowd;
  }
  /// Enters a vec16 in the buckets of its owners. If all elements are equal, the first stands for
  /// all.
  __device__ __forceinline__ int enter(
      const Vec16<T>& vec16, uint32_t limit, uint32_t differ, Overflow& overflow) const {
    const uint32_t limit_of_others = differ != 0 ? limit : 0;
    const uint32_t whole = differ == 0;
    uint32_t mixed[kOfVec16];
    uint32_t place[kOfVec16];
#pragma unroll
    for (int j = 0; j < kOfVec16; ++j) {
      mixed[j] = vec16.keys[j] * in.mixer;
      const bool enters = vec16.keys[j] < (j == 0 ? limit : limit_of_others);
      place[j] = count_shared(enters ? filled_address + 4 * owner_of(mixed[j]) : nowhere);
    }
    bool all_in = true;
#pragma unroll
    for (int j = 0; j < kOfVec16; ++j) {
      const uint32_t entry = mixed[j] >> (16 - in.log_owners) | (j == 0 ? whole : 0);
      store_shared_if_below(
          place[j], kEntries,
          staged_address + owner_of(mixed[j]) * kStagedBytes + place[j] * kEntryBytes,
          static_cast<uint16_t>(entry));
      all_in = all_in && static_cast<int32_t>(place[j]) < static_cast<int32_t>(kEntries);
    }
    int crowd = 0;
    if (!all_in) {
#pragma unroll
      for (int j = 0; j < kOfVec16; ++j) {
        if (static_cast<int32_t>(place[j]) >= static_cast<int32_t>(kEntries)) {
          ++crowd;
          const bool is_whole = j == 0 && whole != 0;
          const uint32_t counter = own.find(vec16.keys[j], nobodys);
          if (counter != nobodys) {
            add_shared(counter, is_whole ? kOfVec16 : 1);
          } else {
            overflow.add(vec16.keys[j], is_whole);
          }
        }
      }
    }
    return crowd;
  }
  /// Counts the lane's part of a bucket.
  __device__ __forceinline__ void count_bucket(const uint4& vec16) const {
    const uint32_t words[4] = {vec16.x, vec16.y, vec16.z, vec16.w};
    const int entries = __shfl_sync(0xffffffff, static_cast<int>(words[0] & 0xffff) / 2, 0);
    const int last = entries - kEntriesOfLane * lane; // of this lane
    // The first entry of the first lane is the number of the others.
    const int first_entry = lane > 0 ? 0 : kEntriesOfLane * kWarp;
    const auto counter_of = [&](int j) {
      const uint32_t entry = j % 2 == 0 ? words[j / 2] << 16 : words[j / 2];
      const bool counts_here = (j == 0 ? first_entry : j) <= last;
      return counts_here ? table_address + 4 * (entry >> (32 - in.log_owned)) : nowhere;
    };
    // If the data have no runs, no entry stands for 16 bytes. An entry that does takes two
    // additions. The hardware combines ones that lanes add to the same bin.
    if (__any_sync(0xffffffff, ((words[0] | words[1] | words[2] | words[3]) & 0x10001) != 0)) {
#pragma unroll
      for (int j = 0; j < kEntriesOfLane; ++j) {
        const uint32_t counter = counter_of(j);
        add_shared(counter, 1);
        const bool is_whole = (words[j / 2] >> (16 * (j % 2)) & 1) != 0;
        add_shared(is_whole ? counter : nowhere, kOfVec16 - 1);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kEntriesOfLane; ++j) {
        add_shared(counter_of(j), 1);
      }
    }
  }
};

template <class T>
__global__ __launch_bounds__(kPartitionedThreads, 1) void count_partitioned_kernel(
    const __grid_constant__ Partitioned in,
    uint32_t* __restrict__ arrived,
    uint4* buckets,
    unsigned long long* __restrict__ counts) {
  extern __shared__ __align__(16) uint4 shared[];
  constexpr int kElements = PartitionedBlock<T>::kVec16s * PartitionedBlock<T>::kOfVec16;
  PartitionedBlock<T> block(in, shared, buckets, counts);
  const Barrier barrier{arrived};
  block.load(0);
  block.clear_counts();
  barrier.arrive(0); // the counts may be added to when all have come
  block.clear();
  barrier.wait(0);
  block.count_ragged();

  bool all_by_itself = false;
  for (unsigned round = 0; round <= in.rounds; ++round) {
    const bool reads = round < in.rounds;
    if (reads) {
      const int crowded = __syncthreads_count(block.sort(all_by_itself) > kElements / kCrowdedPart);
      all_by_itself = crowded > kPartitionedThreads / 2;
      block.load(round + 1);
    }
    // The barrier is one round ahead: its first use was for the counts.
    if (round > 0) {
      barrier.wait(round);
      if (block.is_owner()) {
        block.count(round - 1);
      }
    }
    if (reads) {
      block.leave(round);
      barrier.arrive(round + 1);
    }
  }
  block.own.end();
  if (block.is_owner()) {
    block.put_table();
  }
}

} // namespace

void count_partitioned(const Plan& plan, const Problem& problem, const Launch& launch) {
  const auto& in = std::get<Partitioned>(plan.layout);
  auto* workspace = static_cast<uint8_t*>(launch.allocate(plan.workspace_bytes));
  fill_zero(launch, workspace, kBarrierBytes);
  const auto run = [&](auto tag) {
    start(
        launch, "count_partitioned", count_partitioned_kernel<typename decltype(tag)::type>,
        Shape{
            grid_of(plan.blocks), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes, 1,
            false, true},
        in, reinterpret_cast<uint32_t*>(workspace),
        reinterpret_cast<uint4*>(workspace + kBarrierBytes),
        reinterpret_cast<unsigned long long*>(problem.counts));
  };
  // A negative value is above the limit as it stands.
  switch (in.element_bytes) {
    case 2:
      return run(TypeTag<uint16_t>{});
    case 4:
      return run(TypeTag<uint32_t>{});
    case 8:
      return run(TypeTag<uint64_t>{});
    default:
      no_kernel("count_partitioned");
  }
}

} // namespace histo::cuda
