// Elements of several coordinates, in packs: each coordinate in a run of its own (Separate), or the
// coordinates of an element side by side (SideBySide).
#pragma once

#include "core/joint.h"
#include "cuda/plan/joint_plan.h"
#include "cuda/walk/packs.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {

/// Several operands, each Typed or Untyped, with packs of the same number of elements.
template <class... Operands>
struct Separate;

template <>
struct Separate<> {
  static constexpr int kOperands = 0;
  struct Pack {};

  __device__ __forceinline__ explicit Separate(const ElementType*) {
  }
  __device__ __forceinline__ unsigned bytes(int) const {
    return 0;
  }
  template <bool kAligned>
  __device__ __forceinline__ void load(const char* const*, Pack&) const {
  }
  __device__ __forceinline__ void load_one(const char* const*, Pack&) const {
  }
};

template <class First, class... Rest>
struct Separate<First, Rest...> {
  using Others = Separate<Rest...>;
  static constexpr int kOperands = 1 + Others::kOperands;
  static constexpr int kAxes = kOperands;
  static constexpr int kSize = First::kSize;
  struct Pack {
    typename First::Pack first;
    typename Others::Pack others;
  };

  First first;
  Others others;

  __device__ __forceinline__ explicit Separate(const ElementType* types)
      : first(*types), others(types + 1) {
  }
  /// Calls f with operand `axis`, and with its part of a pack.
  template <int kAxis, class AnyPack, class F>
  __device__ __forceinline__ void with(AnyPack& pack, const F& f) const {
    if constexpr (kAxis == 0) {
      f(first, pack.first);
    } else {
      others.template with<kAxis - 1>(pack.others, f);
    }
  }
  __device__ __forceinline__ unsigned bytes(int operand) const {
    return operand == 0 ? first.bytes() : others.bytes(operand - 1);
  }
  /// Loads a pack of each operand, whole or element by element.
  template <bool kAligned>
  __device__ __forceinline__ void load(const char* const* at, Pack& pack) const {
    if constexpr (kAligned) {
      pack.first = first.load(*at);
    } else {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        first.load_one(*at + j * first.bytes(), j, pack.first);
      }
    }
    others.template load<kAligned>(at + 1, pack.others);
  }
  /// Loads the first element of a pack.
  __device__ __forceinline__ void load_one(const char* const* at, Pack& pack) const {
    first.load_one(*at, 0, pack.first);
    others.load_one(at + 1, pack.others);
  }
  /// The operand of a coordinate.
  template <int kAxis, class Unused = void>
  struct Axis {
    using Values = typename Others::template Axis<kAxis - 1>::Values;
  };
  template <class Unused>
  struct Axis<0, Unused> {
    using Values = First;
  };
  template <int kAxis, class Wide, int kCount>
  __device__ __forceinline__ void widen(
      const Pack& pack, int from, Wide (&elements)[kCount]) const {
    with<kAxis>(
        pack, [&](const auto& operand, const auto& own) { operand.widen(own, from, elements); });
  }
};

/// One operand whose elements have kTheAxes coordinates of type T each, kTheSize in a pack of whole
/// vec16s.
template <class T, int kTheAxes, int kTheSize>
struct SideBySide {
  static constexpr int kOperands = 1;
  static constexpr int kAxes = kTheAxes;
  static constexpr int kSize = kTheSize;
  static constexpr int kVec16s = kSize * kAxes * static_cast<int>(sizeof(T)) / 16;
  static_assert(kVec16s * 16 == kSize * kAxes * static_cast<int>(sizeof(T)));
  struct Pack {
    uint4 vec16s[kVec16s];
  };

  __device__ __forceinline__ explicit SideBySide(const ElementType*) {
  }
  __device__ __forceinline__ static constexpr unsigned bytes(int) {
    return kAxes * sizeof(T);
  }
  template <bool> // the plan requires aligned packs
  __device__ __forceinline__ static void load(const char* const* at, Pack& pack) {
#pragma unroll
    for (int i = 0; i < kVec16s; ++i) {
      pack.vec16s[i] = load_once(reinterpret_cast<const uint4*>(*at) + i);
    }
  }
  __device__ __forceinline__ static void load_one(const char* const* at, Pack& pack) {
    using Bits = typename UnsignedOf<sizeof(T)>::type;
#pragma unroll
    for (int d = 0; d < kAxes; ++d) {
      reinterpret_cast<Bits*>(&pack)[d] = reinterpret_cast<const Bits*>(*at)[d];
    }
  }
  template <int>
  struct Axis {
    using Values = Typed<T, kSize>;
  };
  template <int kAxis, class Wide, int kCount>
  __device__ __forceinline__ static void widen(
      const Pack& pack, int from, Wide (&elements)[kCount]) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      elements[j] = Number<T>::wide(reinterpret_cast<const T*>(&pack)[(from + j) * kAxes + kAxis]);
    }
  }
};

/// The rows of a block.
template <class TheSamples, class Shape>
struct StreamOfSamples {
  using Samples = TheSamples;
  using Pack = typename Samples::Pack;
  static constexpr int kOperands = Samples::kOperands;
  static constexpr int kSize = Samples::kSize;

  const JointStreams& in;
  Samples samples;
  int64_t channel;
  unsigned chunk; // of the channel

  __device__ __forceinline__ StreamOfSamples(const JointStreams& streams, unsigned block)
      : in(streams),
        samples(streams.types),
        channel(block / streams.chunks),
        chunk(block % streams.chunks) {
  }

  /// Fetches the first elements of a single run into L2.
  __device__ __forceinline__ void fetch_first() const {
    if (!in.in_turns() || threadIdx.x > 0) {
      return;
    }
    for (int d = 0; d < kOperands; ++d) {
      const char* begin = static_cast<const char*>(in.data[d]) + offset_in(in.channels[d], channel);
      const int64_t head = -reinterpret_cast<intptr_t>(begin) & (kVec16Bytes - 1);
      const int64_t vec16s = (in.run * samples.bytes(d) - head) / kVec16Bytes;
      // The blocks share what all of them fetch.
      const int64_t size = min(kFetchedAhead / kVec16Bytes, vec16s / in.chunks);
      if (size > 0) {
        fetch_ahead(
            begin + head + chunk * size * kVec16Bytes, static_cast<uint32_t>(size * kVec16Bytes));
      }
    }
  }

  /// Neighbouring rows. Packs have all of them but a few at both ends.
  struct Run {
    const char* at[kOperands]; // the first row
    bool aligned;              // packs of all operands are
    int64_t row;               // the number of the first one in the channel
    int64_t size;
    int64_t packs;
    int head; // rows before them
  };

  /// Calls f(run) for each run of rows that the block has.
  template <class F>
  __device__ __forceinline__ void for_each_run(const F& f) const {
    const int64_t begin = in.in_turns() ? 0 : chunk * in.share;
    const int64_t end = in.in_turns() ? in.run : min(begin + in.share, in.num_rows);
#pragma unroll 1
    for (int64_t row = begin; row < end;) {
      const int64_t of_run = row % in.run, size = min(in.run - of_run, end - row);
      f(run_of(row / in.run, of_run, row, size));
      row += size;
    }
  }

  /// Calls f(pack, row) for each pack of a run. The blocks of a channel of one run take packs in turns,
  /// so that all read near the same address. A thread loads kAhead packs together.
  template <bool kAligned, int kAhead, class F>
  __device__ __forceinline__ void for_each_pack(const Run& run, const F& f) const {
    const unsigned step = (in.in_turns() ? in.chunks : 1) * Shape::kThreads;
    const int64_t first = int64_t{in.in_turns() ? chunk : 0} * Shape::kThreads + threadIdx.x;
    // A thread has fewer than 2^31 packs, and all packs of a turn have fewer than 2^31 bytes.
    int left = first < run.packs ? static_cast<int>((run.packs - first - 1) / step) + 1 : 0;
    int64_t row = run.head + first * kSize;
    const char* at[kOperands];
    place(run, row, at);
    row += run.row;
#pragma unroll 1
    for (; left > 0; left -= kAhead) {
      Pack packs[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (i < left) {
          samples.template load<kAligned>(at, packs[i]);
        }
#pragma unroll
        for (int d = 0; d < kOperands; ++d) {
          at[d] += step * (kSize * samples.bytes(d));
        }
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (i < left) {
          f(packs[i], row);
        }
        row += step * kSize;
      }
    }
  }
  /// Calls f(pack, row) for each row beside the packs, in a pack of its own. The first block does so.
  template <class F>
  __device__ __forceinline__ void for_each_single(const Run& run, const F& f) const {
    const auto singles = static_cast<int>(run.size - run.packs * kSize);
    const auto index = static_cast<int>(threadIdx.x);
    if (index < singles && (chunk == 0 || !in.in_turns())) {
      const int64_t row = index < run.head ? index : run.packs * kSize + index;
      const char* at[kOperands];
      place(run, row, at);
      Pack pack;
      samples.load_one(at, pack);
      f(pack, run.row + row);
    }
  }

 private:
  __device__ __forceinline__ static bool is_aligned(const char* at, unsigned pack_bytes) {
    return (reinterpret_cast<uintptr_t>(at) & (min(pack_bytes, 16u) - 1)) == 0;
  }
  __device__ __forceinline__ Run
  run_of(int64_t number, int64_t of_run, int64_t row, int64_t size) const {
    Run run{};
#pragma unroll
    for (int d = 0; d < kOperands; ++d) {
      run.at[d] = static_cast<const char*>(in.data[d]) + offset_in(in.channels[d], channel) +
                  (number == 0 ? 0 : offset_in(in.outer[d], number)) + of_run * samples.bytes(d);
    }
    run.row = row;
    run.size = size;
    const unsigned bytes = samples.bytes(0);
    // A pack of interleaved coordinates may be three vec16s.
    const unsigned unit = kOperands == 1 ? 16 : bytes * kSize;
    while (run.head < size && !is_aligned(run.at[0] + run.head * bytes, unit)) {
      ++run.head;
    }
    run.packs = (size - run.head) / kSize;
    run.aligned = true;
#pragma unroll
    for (int d = 1; d < kOperands; ++d) {
      const unsigned own = samples.bytes(d);
      run.aligned = run.aligned && is_aligned(run.at[d] + run.head * own, own * kSize);
    }
    return run;
  }
  __device__ __forceinline__ void place(
      const Run& run, int64_t row, const char* (&at)[kOperands]) const {
#pragma unroll
    for (int d = 0; d < kOperands; ++d) {
      at[d] = run.at[d] + row * samples.bytes(d);
    }
  }
};

} // namespace histo::cuda
