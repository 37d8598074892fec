// Counting in the result itself: for inputs that need no table, or whose tables would not fit.
#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/count/panel.h"
#include "cpu/count/strips.h"
#include "cpu/count/ways.h"
#include "cpu/read_once.h"
#include "cpu/threads.h"
#include "cpu/tuning.h"

namespace histo::cpu {
namespace {

/// The bin of a pattern, or kNoBin. The compiler loads own_bins again for every pattern, because it
/// cannot know that no count lies there. With a copy in a register, int64 in 2^20 bins takes 1.5
/// times as long on Granite Rapids. Workaround gcc-12-load-own-bins: see docs/tuning.md.
template <class T>
int64_t bin_of(T pattern, const PatternAxis& axis) {
  if (pattern < static_cast<uint64_t>(axis.own_bins)) {
    return static_cast<int64_t>(pattern);
  }
  if constexpr (sizeof(T) == 1) {
    return axis.bin_of_byte[pattern];
  } else {
    return kNoBin;
  }
}

/// Adds one panel to histograms that lie num_bins apart. kShared: other threads add to the
/// same ones.
template <bool kShared, class T>
void count_panel(const InputPanel<T>& panel, const PatternAxis& axis, int64_t* histograms) {
  const auto [data, channels, rows] = panel;
  const int64_t num_bins = axis.num_bins;
  const auto add = [&axis](const T& element, int64_t* histogram) {
    const int64_t bin = bin_of(read_once(element), axis);
    if (bin == kNoBin) {
      return;
    }
    add_to<kShared>(histogram + bin, 1);
  };
  // The loops are nested as the elements lie in memory.
  if (channels.stride < rows.stride) {
    for (int64_t row = 0; row < rows.size; ++row) {
      for (int64_t channel = 0; channel < channels.size; ++channel) {
        const T* element = data + row * rows.stride + channel * channels.stride;
        add(*element, histograms + channel * num_bins);
      }
    }
  } else {
    for (int64_t channel = 0; channel < channels.size; ++channel) {
      for (int64_t row = 0; row < rows.size; ++row) {
        const T* element = data + row * rows.stride + channel * channels.stride;
        add(*element, histograms + channel * num_bins);
      }
    }
  }
}

/// The part of a call that all threads share.
struct DirectJob {
  const Problem& problem;
  const PatternAxis& axis;
  const Digitization* digitization; // null: the elements are counted as they are
  int64_t strip;                    // channels that share cache lines stay together
  int64_t workers;

  Range all_channels() const {
    return {0, problem.num_channels()};
  }
  Range all_rows() const {
    return {0, problem.num_rows()};
  }
  /// Channels that are digitized together: their counts stay in the cache.
  int64_t num_digitized() const {
    const int64_t most = tuning::kDigitizedCounts / problem.num_bins / strip * strip;
    return std::clamp(most, strip, std::max(strip, tuning::kDigitizedChannels));
  }
};

/// Adds rows of channels whose elements are digitized first, to counts that are cleared before, or
/// not.
template <bool kShared, class T>
void count_digitized_range(
    const DirectJob& job, const Range& channels, const Range& rows, bool clears, int64_t* counts) {
  const Problem& problem = job.problem;
  const std::unique_ptr<Digitizer> digitizer = job.digitization->digitizer();
  const int64_t together = job.num_digitized();
  std::vector<char> slots;
  for (int64_t first = channels.begin; first < channels.end; first += together) {
    const int64_t size = std::min(together, channels.end - first);
    int64_t* histograms = counts + first * problem.num_bins;
    if (clears) {
      std::fill_n(histograms, size * problem.num_bins, 0);
    }
    digitizer->choose(first, size);
    for_each_digitized_panel<T>(
        *digitizer, problem, first, size, rows.begin, rows.end, slots,
        [&](const InputPanel<T>& panel, int64_t channel, int64_t) {
          count_panel<kShared>(panel, job.axis, histograms + channel * problem.num_bins);
        });
    for (const int64_t count : digitizer->outside()) {
      add_to<kShared>(histograms, -count);
      histograms += problem.num_bins;
    }
  }
}

/// Adds some rows of some channels, to counts that are cleared before, or not. Rows and channels may
/// lie in several runs.
template <bool kShared>
void count_range(
    const DirectJob& job, const Range& channels, const Range& rows, bool clears, int64_t* counts) {
  const Problem& problem = job.problem;
  visit_pattern_type(size_of(problem.type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (job.digitization != nullptr) {
      return count_digitized_range<kShared, T>(job, channels, rows, clears, counts);
    }
    int64_t* histograms = counts + channels.begin * problem.num_bins;
    if (clears) {
      std::fill(histograms, counts + channels.end * problem.num_bins, 0);
    }
    const auto* data = static_cast<const T*>(problem.data);
    for_each_run(
        problem.channels, channels.begin, channels.end, [&](int64_t channel, const Extent& run) {
          for_each_run(problem.rows, rows.begin, rows.end, [&](int64_t row, const Extent& size) {
            const InputPanel<T> panel{data + channel + row, run, size};
            count_panel<kShared>(panel, job.axis, histograms);
          });
          histograms += run.size * problem.num_bins;
        });
  });
}

/// Each thread has channels of its own.
void count_own_channels(const DirectJob& job) {
  const Problem& problem = job.problem;
  const int64_t channels = problem.num_channels();
  run_workers(job.workers, [&](int64_t worker) {
    const Range strips = Range{0, ceil_div(channels, job.strip)}.part(worker, job.workers);
    const Range own{
        std::min(channels, strips.begin * job.strip), std::min(channels, strips.end * job.strip)};
    count_range<false>(job, own, job.all_rows(), !problem.adds, problem.counts);
  });
}

void add_copies(const int64_t* copies, int64_t num_copies, const Problem& problem) {
  const int64_t size = problem.num_counts();
  int64_t* counts = problem.counts;
  parallel_for(size, tuning::kMinCountersPerTask, [&](int64_t begin, int64_t end) {
    int64_t copy = 0;
    if (!problem.adds) {
      std::copy(copies + begin, copies + end, counts + begin);
      copy = 1;
    }
    for (; copy < num_copies; ++copy) {
      for (int64_t i = begin; i < end; ++i) {
        counts[i] += copies[copy * size + i];
      }
    }
  });
}

/// Each thread counts in a copy of the result, and the copies are added.
void count_copies(const DirectJob& job, Allocator& allocate) {
  const int64_t size = job.problem.num_counts();
  const int64_t copies_bytes = job.workers * size * static_cast<int64_t>(sizeof(int64_t));
  auto* copies = static_cast<int64_t*>(allocate(copies_bytes));
  run_workers(job.workers, [&](int64_t worker) {
    const Range rows = job.all_rows().part(worker, job.workers);
    count_range<false>(job, job.all_channels(), rows, true, copies + worker * size);
  });
  add_copies(copies, job.workers, job.problem);
}

/// All threads add to the same counts.
void count_shared(const DirectJob& job) {
  const Problem& problem = job.problem;
  if (!problem.adds) {
    fill_zero(problem.counts, problem.num_counts());
  }
  run_workers(job.workers, [&](int64_t worker) {
    const Range rows = job.all_rows().part(worker, job.workers);
    count_range<true>(job, job.all_channels(), rows, false, problem.counts);
  });
}

} // namespace

void count_directly(
    const Problem& problem,
    const PatternAxis& axis,
    const CpuPlan& plan,
    const Digitization* digitization,
    Allocator& allocate) {
  const DirectJob job{problem, axis, digitization, plan.strip, workers_of(problem)};
  switch (sharing_of(problem, plan)) {
    case Sharing::kChannels:
      return count_own_channels(job);
    case Sharing::kCopies:
      return count_copies(job, allocate);
    case Sharing::kAtomic:
      return count_shared(job);
  }
  throw InternalError("count_directly: not a way to share a result");
}

} // namespace histo::cpu
