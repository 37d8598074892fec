// A thread counts strips, in any of the ways.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/count/panel.h"
#include "cpu/count/result.h"
#include "cpu/count/ways.h"
#include "cpu/digitize/digitize.h"
#include "cpu/threads.h"

namespace histo::cpu {

/// The lock of a strip that several tasks add to. Strips of several calls may share one.
std::mutex& lock_of(int64_t strip);

/// Counts the rows [begin_row, end_row) of `size` channels from `first` on, which lie in one run.
template <class CountingWay>
void count_rows_of_strip(
    CountingWay& way,
    const Problem& problem,
    int64_t first,
    int64_t size,
    int64_t begin_row,
    int64_t end_row) {
  using Pattern = typename CountingWay::Pattern;
  for_each_run(problem.channels, first, first + size, [&](int64_t offset, const Extent& run) {
    const Pattern* data = static_cast<const Pattern*>(problem.data) + offset;
    for_each_run(problem.rows, begin_row, end_row, [&](int64_t row, const Extent& rows) {
      const InputPanel<Pattern> panel{data + row, run, rows};
      // The next elements are more rows, or else the next strip.
      const Pattern* next = end_row < problem.num_rows() ? panel.data + rows.size * rows.stride
                                                         : data + run.size * run.stride;
      way.count(panel, next);
    });
  });
}

/// Calls f(panel of slots, index of its first channel, its first row) for digitized rows of channels,
/// tile after tile.
template <class Slot, class F>
void for_each_digitized_panel(
    Digitizer& digitizer,
    const Problem& problem,
    int64_t first,
    int64_t size,
    int64_t begin_row,
    int64_t end_row,
    std::vector<char>& room,
    const F& f) {
  int64_t channel = 0;
  for_each_run(problem.channels, first, first + size, [&](int64_t offset, const Extent& run) {
    int64_t first_row = begin_row;
    for_each_run(problem.rows, begin_row, end_row, [&](int64_t row, const Extent& rows) {
      const int64_t most = std::max<int64_t>(1, tuning::kDigitizedElements / run.size);
      const bool side_by_side = are_side_by_side(run, rows);
      for (int64_t begin = 0; begin < rows.size; begin += most) {
        const int64_t tile = std::min(most, rows.size - begin);
        room.resize(std::max(room.size(), static_cast<size_t>(tile * run.size) * sizeof(Slot)));
        Slot* slots = reinterpret_cast<Slot*>(room.data());
        digitizer.digitize(
            offset + row + begin * rows.stride, channel, first_row + begin, run,
            {tile, rows.stride}, slots);
        f(
            InputPanel<Slot>{
                slots, {run.size, side_by_side ? 1 : tile}, {tile, side_by_side ? run.size : 1}},
            channel, first_row + begin);
      }
      first_row += rows.size;
    });
    channel += run.size;
  });
}

/// Counts the tasks of a worker. Those of one strip follow each other and are reduced together.
template <class CountingWay>
void count_strips(const Job& job, int64_t worker) {
  const Strips& strips = job.schedule.strips;
  const int64_t pieces = job.schedule.pieces;
  const int64_t rows = job.problem.num_rows();
  Result result(job.problem, job.axis);
  CountingWay way(job.plan, result, job.scratch_of(worker));
  const std::unique_ptr<Digitizer> digitizer =
      job.digitization ? job.digitization->digitizer() : nullptr;
  std::vector<char> slots;
  int64_t chosen = -1;
  const auto finish = [&] {
    way.reduce();
    if (digitizer && !digitizer->outside().empty()) {
      result.locked([&] {
        int64_t channel = 0;
        for (const int64_t count : digitizer->outside()) {
          result.take(channel++, count);
        }
      });
    }
  };
  job.tasks.run(worker, [&](int64_t task) {
    const int64_t strip = task / pieces, piece = task % pieces;
    const int64_t first = strips.first(strip), size = strips.size_of(strip);
    if (strip != chosen) {
      finish();
      result.choose(first, size, pieces == 1 ? nullptr : &lock_of(strip));
      chosen = strip;
      if (digitizer) {
        digitizer->choose(first, size);
      }
    }
    const int64_t begin = cut(rows, piece, pieces), end = cut(rows, piece + 1, pieces);
    if (digitizer) {
      for_each_digitized_panel<typename CountingWay::Pattern>(
          *digitizer, job.problem, first, size, begin, end, slots,
          [&](const auto& panel, int64_t, int64_t) { way.count(panel, panel.data); });
    } else {
      count_rows_of_strip(way, job.problem, first, size, begin, end);
    }
  });
  finish();
}

} // namespace histo::cpu
