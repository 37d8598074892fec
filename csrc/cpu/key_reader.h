// Values as sort keys: tiles of a problem's rows, one channel after another.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../problem.h"
#include "../quantile.h"
#include "run_widest.h"

namespace histo::cpu {

/// Reads the values of a problem as keys, and writes keys as values. What follows is compiled once
/// for each size of keys, not for each type.
template <class Key>
class KeyReader {
 public:
  explicit KeyReader(const Problem& problem) : problem_(problem) {
  }
  virtual ~KeyReader() = default;

  /// Reads rows [begin, begin + size) of `channels` neighbours in one run of channels. The keys of
  /// each lie together, `step` after those of the channel before.
  void read(
      int64_t channel, int64_t channels, int64_t begin, int64_t size, Key* keys, int64_t step) {
    const Extent* loops = problem_.rows;
    const int64_t run = problem_.channels[1].size;
    const int64_t first =
        channel / run * problem_.channels[0].stride + channel % run * problem_.channels[1].stride;
    while (size > 0) {
      const int64_t row = begin % loops[2].size, outer = begin / loops[2].size;
      const int64_t rows = std::min(size, loops[2].size - row);
      const int64_t offset = first + outer / loops[1].size * loops[0].stride +
                             outer % loops[1].size * loops[1].stride + row * loops[2].stride;
      read_run(
          offset, {channels, problem_.channels[1].stride}, {rows, loops[2].stride}, keys, step);
      begin += rows;
      size -= rows;
      keys += rows;
    }
  }

  virtual void write(Key key, void* values, int64_t at) const = 0;
  virtual bool has_nan() const = 0;

 protected:
  virtual void read_run(
      int64_t offset,
      const Extent& channels,
      const Extent& rows,
      Key* keys,
      int64_t step) const = 0;

  const Problem& problem_;
};

template <class T>
class KeyReaderOf final : public KeyReader<typename SortKey<T>::Key> {
 public:
  using Key = typename SortKey<T>::Key;
  using KeyReader<Key>::KeyReader;

  void write(Key key, void* values, int64_t at) const override {
    static_cast<T*>(values)[at] = SortKey<T>::value(key);
  }
  bool has_nan() const override {
    return SortKey<T>::kHasNan;
  }

 protected:
  void read_run(int64_t offset, const Extent& channels, const Extent& rows, Key* keys, int64_t step)
      const override {
    const T* data = static_cast<const T*>(this->problem_.data) + offset;
    if (channels.size > 1) {
      for (int64_t row = 0; row < rows.size; ++row) {
        for (int64_t channel = 0; channel < channels.size; ++channel) {
          keys[channel * step + row] =
              SortKey<T>::of(data[row * rows.stride + channel * channels.stride]);
        }
      }
    } else if (rows.stride == 1) {
      run_widest([&]() __attribute__((always_inline)) {
        for (int64_t row = 0; row < rows.size; ++row) {
          keys[row] = SortKey<T>::of(data[row]);
        }
      });
    } else {
      for (int64_t row = 0; row < rows.size; ++row) {
        keys[row] = SortKey<T>::of(data[row * rows.stride]);
      }
    }
  }
};

} // namespace histo::cpu
