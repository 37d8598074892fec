// Values as sort keys: tiles of a problem's rows, one channel after another.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/problem.h"
#include "core/ranks.h"
#include "cpu/count/panel.h"
#include "cpu/run_widest.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// Keys of a line of memory. Short channels are sorted in as many lanes.
template <class Key>
constexpr int64_t kLanes = tuning::kLineBytes / static_cast<int64_t>(sizeof(Key));

/// Reads the values of a problem as keys, and writes keys as values. The users of this
/// class are compiled once for each size of keys, not for each type.
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
    const Extent& run = problem_.rows[2];
    while (size > 0) {
      const int64_t rows = std::min(size, run.size - begin % run.size);
      const int64_t offset = offset_of(channel, begin);
      read_run(offset, {channels, problem_.channels[1].stride}, {rows, run.stride}, keys, step);
      begin += rows;
      size -= rows;
      keys += rows;
    }
  }

  /// Reads single rows of a channel.
  void read_rows(int64_t channel, const int64_t* rows, int64_t size, Key* keys) {
    constexpr int64_t kTogether = 64; // the processor waits for that many at once
    std::array<int64_t, kTogether> offsets;
    for (int64_t begin = 0; begin < size; begin += kTogether) {
      const int64_t together = std::min(kTogether, size - begin);
      for (int64_t i = 0; i < together; ++i) {
        offsets[static_cast<size_t>(i)] = offset_of(channel, rows[begin + i]);
      }
      read_at(offsets.data(), together, keys + begin);
    }
  }

  /// Reads all rows of up to kLanes channels: a line of keys for each row. The other lanes
  /// hold unspecified keys afterwards.
  void read_lanes(int64_t first, int64_t channels, Key* keys) const {
    int64_t lane = 0;
    for_each_run(problem_.channels, first, first + channels, [&](int64_t offset, Extent run) {
      Key* to = keys + lane;
      for_each_run(problem_.rows, 0, problem_.num_rows(), [&](int64_t row, const Extent& rows) {
        copy_lanes(offset + row, run, rows, to);
        to += rows.size * kLanes<Key>;
      });
      lane += run.size;
    });
    make_keys(keys, problem_.num_rows() * kLanes<Key>);
  }

  /// Writes keys of neighbours from `at` on.
  virtual void write(const Key* keys, int64_t size, void* values, int64_t at) const = 0;
  virtual bool has_nan() const = 0;

 protected:
  virtual void read_run(
      int64_t offset,
      const Extent& channels,
      const Extent& rows,
      Key* keys,
      int64_t step) const = 0;
  virtual void read_at(const int64_t* offsets, int64_t size, Key* keys) const = 0;
  /// Copies values as they are.
  virtual void copy_lanes(
      int64_t offset, const Extent& channels, const Extent& rows, Key* keys) const = 0;
  /// Makes keys of values that were copied.
  virtual void make_keys(Key* values, int64_t size) const = 0;

  int64_t offset_of(int64_t channel, int64_t row) const {
    return histo::cpu::offset_of(problem_.channels, channel) +
           histo::cpu::offset_of(problem_.rows, row);
  }

  const Problem& problem_;
};

template <class T>
class KeyReaderOf final : public KeyReader<typename SortKey<T>::Key> {
 public:
  using Key = typename SortKey<T>::Key;
  using KeyReader<Key>::KeyReader;

  void write(const Key* keys, int64_t size, void* values, int64_t at) const override {
    T* to = static_cast<T*>(values) + at;
    for (int64_t i = 0; i < size; ++i) {
      to[i] = SortKey<T>::value(keys[i]);
    }
  }
  bool has_nan() const override {
    return SortKey<T>::kHasNan;
  }

 protected:
  void read_run(int64_t offset, const Extent& channels, const Extent& rows, Key* keys, int64_t step)
      const override {
    const T* data = static_cast<const T*>(this->problem_.data) + offset;
    if (channels.size > 1) {
      read_interleaved(data, channels, rows, keys, step);
    } else if (rows.stride == 1) {
      const auto* bytes = reinterpret_cast<const char*>(data);
      run_widest([&]() __attribute__((always_inline)) {
        // GCC vectorizes loops of more than 16 turns.
        constexpr int64_t kTogether = 128;
        int64_t row = 0;
        for (; row + kTogether <= rows.size; row += kTogether) {
          for (size_t line = 0; line < kTogether * sizeof(T); line += tuning::kLineBytes) {
            __builtin_prefetch(bytes + row * sizeof(T) + line + tuning::kKeysAheadBytes);
          }
          for (int64_t i = row; i < row + kTogether; ++i) {
            keys[i] = SortKey<T>::of(data[i]);
          }
        }
        for (; row < rows.size; ++row) {
          keys[row] = SortKey<T>::of(data[row]);
        }
      });
    } else {
      for (int64_t row = 0; row < rows.size; ++row) {
        keys[row] = SortKey<T>::of(data[row * rows.stride]);
      }
    }
  }
  /// Rows are copied as they are first: keys are made of many values of a channel at once.
  static void read_interleaved(
      const T* data, const Extent& channels, const Extent& rows, Key* keys, int64_t step) {
    const int64_t row_bytes = rows.stride * static_cast<int64_t>(sizeof(T));
    const auto* bytes = reinterpret_cast<const char*>(data);
    Ahead ahead{bytes + tuning::kKeyRowsAhead * row_bytes, row_bytes};
    for (int64_t begin = 0; begin < rows.size; begin += tuning::kKeyRows) {
      const int64_t size = std::min(tuning::kKeyRows, rows.size - begin);
      for (int64_t row = begin; row < begin + size; ++row) {
        const T* from = data + row * rows.stride;
        ahead.fetch();
        for (int64_t channel = 0; channel < channels.size; ++channel) {
          keys[channel * step + row] = bits_as<Key>(from[channel * channels.stride]);
        }
      }
      run_widest([&]() __attribute__((always_inline)) {
        for (int64_t channel = 0; channel < channels.size; ++channel) {
          Key* own = keys + channel * step + begin;
          for (int64_t row = 0; row < size; ++row) {
            own[row] = SortKey<T>::of(bits_as<T>(own[row]));
          }
        }
      });
    }
  }
  void read_at(const int64_t* offsets, int64_t size, Key* keys) const override {
    const T* data = static_cast<const T*>(this->problem_.data);
    for (int64_t i = 0; i < size; ++i) {
      keys[i] = SortKey<T>::of(data[offsets[i]]);
    }
  }
  void copy_lanes(
      int64_t offset, const Extent& channels, const Extent& rows, Key* keys) const override {
    const T* data = static_cast<const T*>(this->problem_.data) + offset;
    if (channels.stride == 1) {
      for (int64_t row = 0; row < rows.size; ++row) {
        const T* from = data + row * rows.stride;
        Key* to = keys + row * kLanes<Key>;
        for (int64_t channel = 0; channel < channels.size; ++channel) {
          to[channel] = bits_as<Key>(from[channel]);
        }
      }
      return;
    }
    for (int64_t channel = 0; channel < channels.size; ++channel) {
      const T* from = data + channel * channels.stride;
      for (int64_t row = 0; row < rows.size; ++row) {
        keys[row * kLanes<Key> + channel] = bits_as<Key>(from[row * rows.stride]);
      }
    }
  }
  void make_keys(Key* values, int64_t size) const override {
    run_widest([&]() __attribute__((always_inline)) {
      for (int64_t i = 0; i < size; ++i) {
        values[i] = SortKey<T>::of(bits_as<T>(values[i]));
      }
    });
  }
};

} // namespace histo::cpu
