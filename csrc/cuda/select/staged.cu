// Selects from short channels. A team, which is a warp or a block, holds a channel in shared memory:
// so it is read once. Each digit is counted there; a thread keeps those of its elements that may be
// what is looked for, and leaves the others out.
#include "cuda/launch.h"
#include "cuda/policy_edges.h"
#include "cuda/select/staged_memory.cuh"
#include "cuda/walk/vec16s.cuh"

namespace histo::cuda {
namespace {

/// The elements of a thread, in the vec16s of a channel that it copied to shared memory itself.
template <class Bits, bool kIsWarp>
struct StagedElements {
  static constexpr unsigned kOf = 16 / sizeof(Bits);
  static constexpr unsigned kKeyBits = 8 * sizeof(Bits);
  using Key = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;

  const Team<kIsWarp>& team;
  const StagedMemory& memory;
  const KeyOrder<Bits>& order;
  unsigned kept = 0;    // elements of the thread that are left
  unsigned fillers = 0; // how often the first element was staged too often
  Bits filler = 0;      // what is left of it

  // In words, because the compiler would read small elements one by one.
  __device__ __forceinline__ uint4& vec16(unsigned i) const {
    return reinterpret_cast<uint4*>(memory.memory)[i];
  }
  /// Begins to copy.
  __device__ __forceinline__ void load(const Bits* channel) const {
    Vec16sOfThread<Bits, unsigned> from(memory.shape.vec16s, team.thread, team.threads);
#pragma unroll 1
    for (unsigned i = team.thread; i < memory.vec16s; i += team.threads) {
      from.copy_next(channel, reinterpret_cast<Vec16<Bits>*>(memory.memory) + i);
    }
  }

  /// Counts the first digit of all elements, and makes keys of them.
  __device__ __forceinline__ void count_first(const Bits* channel, unsigned more) {
    constexpr unsigned kShift = kKeyBits - 8;
    const uint32_t counters = address_of(memory.counters()), nans = address_of(&memory.nans());
    const auto count = [&](Bits& element, uint32_t times) {
      const bool is_nan = order.is_nan(element);
      element = order.key(element);
      add_shared(is_nan ? nans : counters + 4 * static_cast<unsigned>(element >> kShift), times);
    };
    kept = 0;
#pragma unroll 1
    for (unsigned i = team.thread; i < memory.vec16s; i += team.threads) {
      auto own = bits_as<Vec16<Bits>>(vec16(i));
#pragma unroll
      for (unsigned j = 0; j < kOf; ++j) {
        count(own.elements[j], 1);
      }
      if constexpr (sizeof(Bits) > 1) {
        vec16(i) = bits_as<uint4>(own);
      }
      kept += kOf;
    }
    fillers = team.thread == 0 ? more : 0;
    if (fillers > 0) {
      filler = *channel;
      count(filler, 0 - fillers);
    }
  }

  /// Counts the digit behind `shift` of the elements that begin as a value that is looked for, and
  /// keeps these. Their last digit is replaced by their slot.
  template <bool kSecond>
  __device__ __forceinline__ void count_next(unsigned shift) {
    const unsigned before = shift + 8;
    const uint32_t counters = address_of(memory.counters());
    const uint8_t* slots = memory.slots();
    const auto count = [&](Bits& element, uint32_t times) {
      const Key key = element;
      const auto place = static_cast<unsigned>(key >> before) & (kSecond ? 0xff : 0xffff);
      const unsigned slot = slots[place];
      if (slot == kNoSlot) {
        return false;
      }
      const auto digit = static_cast<unsigned>(key >> shift) & 0xff;
      add_shared(counters + 4 * (slot * kDigitsOfStaged + digit), times);
      element = static_cast<Bits>((key & ~(Key{0xff} << before)) | Key{slot} << before);
      return true;
    };
    unsigned left = 0, to = team.thread * kOf;
    const auto keep = [&](Bits element) {
      reinterpret_cast<Bits*>(memory.memory)[to] = element;
      ++left;
      to += left % kOf == 0 ? (team.threads - 1) * kOf + 1 : 1;
    };
#pragma unroll 1
    for (unsigned i = 0, from = team.thread; i < kept; i += kOf, from += team.threads) {
      auto own = bits_as<Vec16<Bits>>(vec16(from));
#pragma unroll
      for (unsigned j = 0; j < kOf; ++j) {
        if ((kSecond || i + j < kept) && count(own.elements[j], 1) && shift > 0) {
          keep(own.elements[j]);
        }
      }
    }
    kept = left;
    if (fillers > 0 && !count(filler, 0 - fillers)) {
      fillers = 0;
    }
  }
};

/// Clears the counters of the slots that are used, and that of NaN before the first digit.
template <bool kIsWarp>
__device__ __forceinline__ void clear_counters(
    const Team<kIsWarp>& team, const StagedMemory& memory, unsigned used, bool first) {
  auto* words = reinterpret_cast<uint4*>(memory.counters());
  for (unsigned i = team.thread; i < used * kDigitsOfStaged / 4; i += team.threads) {
    words[i] = make_uint4(0, 0, 0, 0);
  }
  if (first && team.thread == 0) {
    memory.nans() = 0;
  }
}

template <class Bits, bool kIsWarp>
__global__ __launch_bounds__(kMostThreadsOfShort, kBlocksOfShort) void select_staged_kernel(
    const Bits* __restrict__ data,
    KeyOrder<Bits> order,
    const __grid_constant__ SelectionPart all,
    const __grid_constant__ StagedShape shape) {
  extern __shared__ __align__(16) unsigned char shared[];
  const ChannelVec16s& in = shape.vec16s;
  const auto team = Team<kIsWarp>::own();
  const auto count = static_cast<unsigned>(in.vec16s());
  const StagedMemory memory{shared + team.of_block * shape.team_bytes, shape, count};
  const auto rows = static_cast<unsigned>(in.rows());
  const unsigned fillers = count * StagedElements<Bits, kIsWarp>::kOf - rows;
  const int64_t channels = in.num_channels();
  const auto channel_data = [&](int64_t channel) { return data + offset_in(in.channels, channel); };
  const unsigned values_of_target = kTargetsOfQ / shape.values_of_q;
  StagedElements<Bits, kIsWarp> elements{team, memory, order};
  SelectionPart part = all;
  for (; part.first_q < all.first_q + all.num_q; part.first_q += shape.group) {
    part.num_q = min(int64_t{shape.group}, all.first_q + all.num_q - part.first_q);
    const auto wanted = static_cast<unsigned>(part.num_q) * shape.values_of_q;
    const unsigned target = (team.thread < wanted ? team.thread : 0) * values_of_target;
    if (team.index < channels) {
      elements.load(channel_data(team.index));
    }
    for (int64_t channel = team.index; channel < channels; channel += team.count) {
      StagedTargets<Bits> targets{};
      unsigned used = 1;
#pragma unroll
      for (unsigned pass = 0; pass < sizeof(Bits); ++pass) {
        const unsigned shift = 8 * (static_cast<unsigned>(sizeof(Bits)) - 1 - pass);
        clear_counters(team, memory, used, pass == 0);
        team.wait();
        if (pass == 0) {
          wait_for_copies();
          elements.count_first(channel_data(channel), fillers);
        } else if (pass == 1) {
          elements.template count_next<true>(shift);
        } else {
          elements.template count_next<false>(shift);
        }
        if (shift == 0 && channel + team.count < channels) {
          elements.load(channel_data(channel + team.count));
        }
        team.wait();
        if (team.thread < kWarp) {
          if (pass == 0) {
            const Ranks ranks = ranks_of_target(part, target, rows, memory.nans());
            targets.rank = static_cast<unsigned>(rank_of_target(ranks, target));
          }
          targets.find(memory, used, shift);
        }
        team.wait();
        used = shift > 0 ? memory.used() : 1;
      }
      if (team.thread < wanted) {
        for (unsigned i = 0; i < values_of_target; ++i) {
          const Ranks ranks = ranks_of_target(part, target + i, rows, memory.nans());
          put_value(part, order, target + i, channel, ranks, targets.key);
        }
      }
      team.wait(); // the count of NaN is read
    }
  }
}

} // namespace

void select_layout(const SelectStaged& in, const SelectCall& call, const Launch& launch) {
  const Problem& problem = call.part.selection.problem;
  visit_unsigned_type(problem.type, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    start(
        launch, "select_staged",
        in.of_warps ? select_staged_kernel<Bits, true> : select_staged_kernel<Bits, false>,
        shape_of(call.plan), static_cast<const Bits*>(problem.data),
        KeyOrder<Bits>::of(problem.type), call.part, in.shape);
  });
}

} // namespace histo::cuda
