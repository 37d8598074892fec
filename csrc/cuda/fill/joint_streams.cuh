// The kernel of joint histograms: it finds the cells of elements, and counts them in shared memory or
// writes them.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda/axis/joint_axis.cuh"
#include "cuda/fill/joint_streams.h"
#include "cuda/pdl.cuh"
#include "cuda/storage/joint_cells.cuh"
#include "cuda/walk/samples.cuh"

namespace histo::cuda {

/// Where a kernel writes.
struct JointOutput {
  JointStorage storage;
  unsigned long long* counts; // [channels, bins]
  uint32_t* tables;           // of blocks that share a channel: [blocks, bins], or null
  unsigned* index;            // the cells of elements among other words, or null
  int64_t first_index;        // that of the first element
  int64_t index_words;
  int64_t num_bins;
};

/// Finds the axes from kAxis on.
template <class Samples, int kAxis = 0, bool kIsThere = (kAxis < Samples::kAxes)>
struct AxisFinders {
  AxisFinder<kAxis, typename Samples::template Axis<kAxis>::Values> own;
  AxisFinders<Samples, kAxis + 1> behind;

  __device__ __forceinline__
  AxisFinders(const JointStreams& in, const JointAxes& axes, int64_t channel, Room& room)
      : own(axes.axes[kAxis].edges, channel, in.buckets, room), behind(in, axes, channel, room) {
  }
  __device__ __forceinline__ void begin() const {
    own.begin();
    behind.begin();
  }
  __device__ __forceinline__ void check() const {
    own.check();
    behind.check();
  }
};
template <class Samples, int kAxis>
struct AxisFinders<Samples, kAxis, false> {
  __device__ __forceinline__
  AxisFinders(const JointStreams&, const JointAxes&, int64_t, const Room&) {
  }
  __device__ __forceinline__ void begin() const {
  }
  __device__ __forceinline__ void check() const {
  }
};

/// The axes of a block. Each holds those behind it.
template <class Stream, int kAxis = 0>
struct AxesOfBlock {
  using Samples = typename Stream::Samples;
  using Values = typename Samples::template Axis<kAxis>::Values;
  using V = typename Values::Wide;
  static constexpr bool kIsLast = kAxis + 1 == Samples::kAxes;
  using Behind = std::conditional_t<kIsLast, Flow, AxesOfBlock<Stream, kAxis + (kIsLast ? 0 : 1)>>;

  BinsOfAxis<V, kAreSmall<Values>> own;
  unsigned slots; // of the axis in a table
  Behind behind;

  /// With all threads of the block.
  __device__ __forceinline__ static AxesOfBlock find(
      const JointStreams& in, const JointAxes& axes, int64_t channel, Room& room) {
    const AxisFinders<Samples> finders(in, axes, channel, room);
    finders.begin();
    __syncthreads();
    finders.check();
    __syncthreads();
    return found_by(finders, in);
  }
  __device__ __forceinline__ static AxesOfBlock found_by(
      const AxisFinders<Samples, kAxis>& finders, const JointStreams& in) {
    AxesOfBlock found{};
    found.own = finders.own.end(in.least[kAxis], in.last[kAxis]);
    found.slots = in.cells.slots[kAxis];
    if constexpr (!kIsLast) {
      found.behind = Behind::found_by(finders.behind, in);
    }
    return found;
  }
  __device__ __forceinline__ void set_valid(bool (&valid)[kMostAxes]) const {
    valid[kAxis] = own.bins.valid;
    if constexpr (!kIsLast) {
      behind.set_valid(valid);
    }
  }
  __device__ __forceinline__ bool are_fast() const {
    if constexpr (kIsLast) {
      return own.is_fast();
    } else {
      return own.is_fast() && behind.are_fast();
    }
  }
  static constexpr bool kMayBeCovered = [] {
    if constexpr (kIsLast) {
      return kAreSmall<Values>;
    } else {
      return kAreSmall<Values> && Behind::kMayBeCovered;
    }
  }();
  __device__ __forceinline__ bool are_covered() const {
    if constexpr (kIsLast) {
      return own.consecutive.covers;
    } else {
      return own.consecutive.covers && behind.are_covered();
    }
  }
  /// Makes cells of all axes from those of the axes before this one. kWay holds for all axes.
  template <AxisWay kWay, int kSize>
  __device__ __forceinline__ void find_cells(
      const Stream& stream,
      const typename Stream::Pack& pack,
      int first,
      unsigned (&cells)[kSize]) const {
    V values[kSize];
    unsigned found[kSize];
    stream.samples.template widen<kAxis>(pack, first, values);
    own.template find_by<kWay>(values, found);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      cells[j] = kAxis == 0 ? found[j] : cells[j] * slots + found[j];
    }
    if constexpr (!kIsLast) {
      behind.template find_cells<kWay>(stream, pack, first, cells);
    }
  }
};

/// Counts packs, or writes their joint bins. If all axes are kFast or kCovered, kStorage is
/// out.storage: a loop for one storage has fewer instructions to fetch.
template <class Stream, class Axes, AxisWay kWay, JointStorage kStorage = JointStorage::kTable>
struct FillCells {
  const Stream& stream;
  const Axes& axes;
  const JointOutput& out;
  const CellHalves& halves;

  __device__ __forceinline__ void operator()(const typename Stream::Pack& pack, int64_t row) const {
    constexpr int kAtOnce = std::min(Stream::kSize, 4);
#pragma unroll
    for (int first = 0; first < Stream::kSize; first += kAtOnce) {
      fill<kAtOnce>(pack, first, row + first);
    }
  }
  template <int kSize>
  __device__ __forceinline__ void fill(
      const typename Stream::Pack& pack, int first, int64_t row) const {
    unsigned cells[kSize];
    axes.template find_cells<kWay>(stream, pack, first, cells);
    const JointStorage storage = kWay == AxisWay::kAny ? out.storage : kStorage;
    if (storage == JointStorage::kTable) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        CellWords{halves.address}.add(cells[j]);
      }
    } else if (storage == JointStorage::kHalves) {
      halves.add_all(cells);
    } else {
      write(cells, row);
    }
  }

 private:
  /// The joint bins of rows that follow each other.
  template <int kSize>
  __device__ __forceinline__ void write(const unsigned (&cells)[kSize], int64_t row) const {
    struct alignas(kSize * sizeof(int32_t)) Several {
      unsigned cells[kSize];
    };
    unsigned* to = out.index + out.first_index + row;
    if (reinterpret_cast<uintptr_t>(to) % alignof(Several) == 0) {
      *reinterpret_cast<Several*>(to) = reinterpret_cast<const Several&>(cells);
    } else {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        to[j] = cells[j];
      }
    }
  }
};

/// Fills the words before and behind the cells with a number that is no cell.
__device__ inline void put_beside_index(const JointOutput& out, int64_t rows) {
  const int64_t behind = out.first_index + rows, word = threadIdx.x;
  if (blockIdx.x == 0 && word < out.index_words - rows) {
    out.index[word < out.first_index ? word : behind + word - out.first_index] = ~0u;
  }
}

/// Writes what a block has counted: to the result if it has all of a channel.
__device__ inline void put_cells(const JointOutput& out, const CellHalves& halves, bool alone) {
  const auto bins = static_cast<unsigned>(out.num_bins);
  uint32_t* table = out.tables + int64_t{blockIdx.x} * bins;
  ShownSlots slots = ShownSlots::of(halves.cells, threadIdx.x);
  const ShownSlots step = ShownSlots::of(halves.cells, blockDim.x);
  for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x) {
    unsigned cell = 0;
    const bool counts = slots.find_cell(halves.cells, halves.valid, cell);
    slots.advance(halves.cells, step);
    const bool is_half = out.storage == JointStorage::kHalves;
    const uint32_t found = is_half ? halves.at(cell) : CellWords{halves.address}.at(cell);
    const uint32_t sum = counts ? found : 0;
    if (alone) {
      put_or_add(halves.histogram + bin, sum, is_half); // what overflowed is there
    } else {
      table[bin] = sum;
    }
  }
}

/// What a loop may know of such axes, at most.
template <class Axes>
constexpr AxisWay kMostKnown = Axes::kMayBeCovered ? AxisWay::kCovered : AxisWay::kFast;

/// Calls f with the storage as a constant.
template <class F>
__device__ __forceinline__ void visit_storage(JointStorage storage, const F& f) {
  switch (storage) {
    case JointStorage::kTable:
      return f(std::integral_constant<JointStorage, JointStorage::kTable>{});
    case JointStorage::kHalves:
      return f(std::integral_constant<JointStorage, JointStorage::kHalves>{});
    case JointStorage::kIndex:
      return f(std::integral_constant<JointStorage, JointStorage::kIndex>{});
  }
}

template <class Samples, class Shape>
__global__ __launch_bounds__(Shape::kThreads, Shape::kBlocks) void joint_streams_kernel(
    const __grid_constant__ JointStreams in,
    const __grid_constant__ JointAxes axes,
    const __grid_constant__ JointOutput out) {
  using Stream = StreamOfSamples<Samples, Shape>;
  using Axes = AxesOfBlock<Stream>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ bool valid[kMostAxes];
  const Stream stream(in, blockIdx.x);
  wait_for_previous();  // it may write edges, or clear the result
  stream.fetch_first(); // while the bins are found
  Room room(shared);
  const Axes found = Axes::find(in, axes, stream.channel, room);
  auto* table = room.take<uint32_t>(0);
  const unsigned words = in.cells.words(out.storage);
  for (unsigned i = threadIdx.x; i < words; i += Shape::kThreads) {
    table[i] = 0;
  }
  if (threadIdx.x == 0) {
    found.set_valid(valid);
  }
  __syncthreads();
  const CellHalves halves{
      address_of(table), in.cells, valid, out.counts + stream.channel * out.num_bins};
  const auto fill_by = [&](const auto& run, auto way) {
    visit_storage(out.storage, [&](auto storage) {
      stream.template for_each_pack<true, Shape::kInFlight>(
          run, FillCells<Stream, Axes, way, storage>{stream, found, out, halves});
    });
  };
  const FillCells<Stream, Axes, AxisWay::kAny> fill{stream, found, out, halves};
  const bool fast = found.are_fast();
  stream.for_each_run([&](const auto& run) {
    if (!run.aligned) {
      stream.template for_each_pack<false, 1>(run, fill);
    } else if (!fast) {
      stream.template for_each_pack<true, 1>(run, fill);
    } else if (Axes::kMayBeCovered && found.are_covered()) {
      fill_by(run, std::integral_constant<AxisWay, kMostKnown<Axes>>{});
    } else {
      fill_by(run, std::integral_constant<AxisWay, AxisWay::kFast>{});
    }
    stream.for_each_single(run, [&](const typename Stream::Pack& pack, int64_t row) {
      fill.template fill<1>(pack, 0, row);
    });
  });
  if (out.storage == JointStorage::kIndex) {
    return put_beside_index(out, in.num_rows);
  }
  __syncthreads();
  put_cells(out, halves, in.chunks == 1);
}

/// Starts the kernel for samples of a type.
template <class Samples, int kInFlight, int kThreads = kThreadsOfJoint>
void start_joint(const JointCall& call, const Launch& launch) {
  const JointPlan& plan = call.plan;
  const bool indexes = plan.storage == JointStorage::kIndex;
  const JointOutput out{
      plan.storage,
      totals_of(call.problem),
      indexes ? nullptr : static_cast<uint32_t*>(call.workspace),
      indexes ? static_cast<unsigned*>(call.workspace) : nullptr,
      plan.first_index,
      plan.index_words,
      call.problem.num_bins};
  start(
      launch, "joint_streams", joint_streams_kernel<Samples, ReadShape<kThreads, 1, kInFlight>>,
      LaunchShape{
          grid_of(plan.blocks), dim3(kThreads), plan.shared_bytes, 1, launch.limits.has_clusters()},
      plan.streams, call.axes, out);
}

} // namespace histo::cuda
