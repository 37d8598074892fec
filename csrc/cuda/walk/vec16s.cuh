// Reading the runs of a channel in aligned vec16s.
#pragma once

#include <cstdint>

#include "core/numbers.h"
#include "cuda/plan/vec16s.h"
#include "cuda/walk/loads.cuh"
#include "cuda/walk/walk.cuh"

namespace histo::cuda {

/// The elements of a vec16.
template <class T>
using Vec16 = Pack<T, static_cast<int>(16 / sizeof(T))>;

/// The vec16s that a thread reads of a channel: every `step`th one. A channel must have fewer than
/// 2^31 of them if Index has 32 bits.
template <class T, class Index>
class Vec16sOfThread {
 public:
  __device__ __forceinline__ Vec16sOfThread(const ChannelVec16s& vec16s, Index first, Index step)
      : in_(vec16s), of_run_(static_cast<Index>(vec16s.vec16s_of_run)) {
    const bool is_run = vec16s.vec16s() == vec16s.vec16s_of_run; // divisions take long
    run_ = is_run ? 0 : first / of_run_;
    index_ = is_run ? first : first % of_run_;
    step_run_ = is_run ? 0 : step / of_run_;
    step_index_ = is_run ? step : step % of_run_;
  }

  /// The next vec16 of a channel. Elements that are none of its own are the channel's first one. It
  /// is in words, because the compiler would take a small element from a register of its own.
  __device__ __forceinline__ uint4 next(const T* channel) {
    const Place place = next_place(channel);
    return is_full(place) ? load_once(reinterpret_cast<const uint4*>(place.at))
                          : bits_as<uint4>(part(place, *channel));
  }
  /// A vec16, and a bit for each element of the channel in it.
  struct Some {
    uint4 vec16;
    unsigned own;

    /// Calls f(all elements), or f(element) with those of the channel.
    template <class F>
    __device__ __forceinline__ void for_each(const F& f) const {
      const auto& elements = reinterpret_cast<const Vec16<T>&>(vec16);
      if (own == kAll) {
        f(elements);
        return;
      }
#pragma unroll 1
      for (unsigned j = 0; j < kSize; ++j) {
        if (own >> j & 1) {
          f(element(j));
        }
      }
    }

   private:
    /// An index that is not known would put them in memory.
    __device__ __forceinline__ T element(unsigned index) const {
      const auto& elements = reinterpret_cast<const Vec16<T>&>(vec16);
      T found = elements.elements[0];
#pragma unroll
      for (unsigned j = 1; j < kSize; ++j) {
        found = index == j ? elements.elements[j] : found;
      }
      return found;
    }
  };
  __device__ __forceinline__ Some next_some(const T* channel) {
    const Place place = next_place(channel);
    if (is_full(place)) {
      return {load_once(reinterpret_cast<const uint4*>(place.at)), kAll};
    }
    unsigned own = 0;
#pragma unroll
    for (unsigned j = 0; j < kSize; ++j) {
      own |= has(place, j) ? 1u << j : 0;
    }
    return {bits_as<uint4>(part(place, *channel)), own};
  }
  /// Copies it to shared memory: see wait_for_copies().
  __device__ __forceinline__ void copy_next(const T* channel, Vec16<T>* to) {
    const Place place = next_place(channel);
    if (is_full(place)) {
      copy_once(to, reinterpret_cast<const uint4*>(place.at));
    } else {
      *to = part(place, *channel);
    }
  }

 private:
  static constexpr uintptr_t kBytes = sizeof(uint4);
  static constexpr unsigned kSize = kBytes / sizeof(T);
  static constexpr unsigned kAll = (1u << kSize) - 1;
  /// Of a vec16, and of the run that it may begin before and end behind.
  struct Place {
    uintptr_t at;
    uintptr_t begin;
    uintptr_t end;
  };
  __device__ __forceinline__ Place next_place(const T* channel) {
    const auto begin = reinterpret_cast<uintptr_t>(channel + offset_of_run());
    const Place place{
        begin / kBytes * kBytes + uintptr_t{index_} * kBytes, begin, begin + in_.run * sizeof(T)};
    index_ += step_index_;
    run_ += step_run_;
    if (index_ >= of_run_) {
      index_ -= of_run_;
      ++run_;
    }
    return place;
  }
  __device__ __forceinline__ bool is_full(const Place& place) const {
    return in_.aligned || (place.at >= place.begin && place.at + kBytes <= place.end);
  }
  __device__ __forceinline__ static bool has(const Place& place, unsigned element) {
    const uintptr_t at = place.at + element * sizeof(T);
    return at >= place.begin && at < place.end;
  }
  __device__ __forceinline__ static Vec16<T> part(const Place& place, T filler) {
    Vec16<T> some;
#pragma unroll
    for (unsigned j = 0; j < kSize; ++j) {
      const uintptr_t at = place.at + j * sizeof(T);
      some.elements[j] = has(place, j) ? *reinterpret_cast<const T*>(at) : filler;
    }
    return some;
  }
  __device__ __forceinline__ int64_t offset_of_run() const {
    if (in_.runs[0].size == 1) {
      return static_cast<int64_t>(run_) * in_.runs[1].stride;
    }
    const auto inner = static_cast<Index>(in_.runs[1].size);
    return static_cast<int64_t>(run_ / inner) * in_.runs[0].stride +
           static_cast<int64_t>(run_ % inner) * in_.runs[1].stride;
  }

  const ChannelVec16s& in_;
  Index of_run_;
  Index run_;
  Index index_; // of the vec16 in its run
  Index step_run_;
  Index step_index_;
};

} // namespace histo::cuda
