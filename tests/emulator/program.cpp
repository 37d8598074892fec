// Runs one CUDA operator on a GPU of the given limits, or a broken kernel: the name is the argument.
//
// On standard input a line of numbers, which the functions below read in order, and the data. Of
// each array the line has how far behind an aligned address it begins, and its bytes. On standard
// output a line of words about the plan, and the results.
#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include "core/locate.h"
#include "cuda/count/dispatch.h"
#include "cuda/fill/extremes.h"
#include "cuda/fill/fill.h"
#include "cuda/fill/sketch.h"
#include "cuda/plan/extremes_plan.h"
#include "cuda/select/select.h"
#include "cuda/storage/clear.h"
#include "cuda/study/variants.h"
#include "cuda/summary/summary.h"
#include "emulator/arrays.h"
#include "emulator/broken.h"
#include "emulator/input.h"
#include "emulator/invariants.h"
#include "emulator/state.h"

namespace {

using namespace histo;
using namespace emulated;

/// The counts of integers; variant 0 is the engine.
template <class Binning>
void count(
    int variant, const Problem& problem, const Binning& binning, const cuda::Launch& launch) {
  using Study = void (*)(const cuda::StudyInput&, const Binning&, const cuda::Launch&);
  constexpr Study kStudies[] = {
      cuda::global_atomic<Binning>,
      cuda::privatized_global<Binning>,
      cuda::privatized_shared<Binning>,
      cuda::coarsened_contiguous<Binning>,
      cuda::coarsened_interleaved<Binning>,
      cuda::aggregated<Binning>,
      cuda::tiled<Binning>,
  };
  if (variant > 0) {
    kStudies[variant - 1](
        {static_cast<const uint8_t*>(problem.data), problem.num_rows(), problem.num_channels(),
         reinterpret_cast<unsigned long long*>(problem.counts)},
        binning, launch);
    return;
  }
  const cuda::CountPlan plan = cuda::make_plan(
      problem, cuda::entries_of(problem, byte_axis(problem.type, binning)), launch.limits);
  const std::string wrong = violations(problem, plan, launch.limits);
  if (!wrong.empty()) {
    std::cerr << "the plan is wrong: " << wrong << '\n';
    std::exit(4);
  }
  std::cout << path_of(plan);
  cuda::count(problem, binning, launch);
}

/// The variant, whether letters are counted, the problem.
void channel_histogram() {
  const int variant = read<int>();
  const bool letters = read() != 0;
  Problem problem = read_loops();
  const Array input;
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  const Result counts(problem.num_counts() * int64_t{sizeof(int64_t)});
  problem.data = input.data();
  problem.counts = counts.data<int64_t>();
  letters ? count(variant, problem, LetterBinning{}, launch)
          : count(variant, problem, ValueBinning{problem.num_bins}, launch);
  std::cout << '\n';
  counts.write();
}

/// How a kernel finds the bins of a channel.
template <class T>
std::string guess_of(const Edges& edges, int64_t channel, bool in_columns) {
  using G = GuessOf<typename Number<T>::Wide>;
  const auto lines =
      Lines<G>::between(edges.at(channel, 0), edges.at(channel, edges.bins), edges.bins);
  bool affine_is_right = true, nearest_is_right = true;
  bool affine_except_top_is_right = kKnowsAffineExceptTop<T> && !in_columns;
  for (int64_t k = 0; k <= edges.bins; ++k) {
    const CheckedEdge<T> edge = check_edge<T>(edges, channel, k, lines);
    affine_is_right &= edge.affine_is_right;
    affine_except_top_is_right &= edge.affine_except_top_is_right;
    nearest_is_right &= in_columns ? edge.nearest_is_right : edge.then_compare_is_right;
  }
  switch (best_guess(affine_is_right, affine_except_top_is_right, nearest_is_right)) {
    case Guess::kAffine:
      return " formula";
    case Guess::kAffineExceptTop:
      return " open-formula";
    case Guess::kAffineThenCompare:
      return " comparison";
    case Guess::kBucketed:
    case Guess::kBucketedBits:
      return " cells";
  }
  throw InternalError("guess_of: a guess without a name");
}

std::string words_of(const cuda::EdgeBytes&, const cuda::EdgePlan&) {
  return "bytes";
}

std::string words_of(const cuda::EdgeTeams& in, const cuda::EdgePlan&) {
  std::string words = "teams " + std::to_string(in.warps) + "-warps";
  words += in.parts > 1 ? " chunks" : "";
  words += in.whole ? " whole" : "";
  return words;
}

std::string words_of(const cuda::EdgeStreams& in, const cuda::EdgePlan&) {
  std::string words = "streams " + std::to_string(1 << in.log_copies) + "-copies";
  words += in.parts > 1 ? " parts" : "";
  words += in.chunks > 1 ? " chunks" : "";
  words += in.has_runs ? " runs" : "";
  return words;
}

std::string words_of(const cuda::ChannelColumns& in, const cuda::EdgePlan&) {
  std::string words =
      "columns " + std::to_string(1 << in.log_words) + "-words of-" + std::to_string(in.word_bytes);
  words += in.columns > in.channels ? " joined" : "";
  words += in.chunks > 1 ? " chunks" : "";
  words += in.stripes > 1 ? " stripes" : "";
  return words;
}

std::string words_of(const cuda::EdgeStripes& in, const cuda::EdgePlan& plan) {
  std::string words = "stripes " + std::to_string(1 << in.log_words) + "-words " +
                      std::to_string(1 << in.log_lanes) + "-lanes";
  words += in.columns > in.channels ? " joined" : "";
  words += in.chunks > 1 ? " chunks" : "";
  words += in.stripes > 1 ? " several" : "";
  words += in.works > plan.blocks ? " in-turn" : "";
  words += in.places() > 1 ? " runs" : "";
  words += in.loose ? " loose" : "";
  return words;
}

std::string words_of(const cuda::Generic&, const cuda::EdgePlan&) {
  return "tiles";
}

std::string words_of(const cuda::EdgePlan& plan, const Problem& problem, const Edges& edges) {
  std::string words = std::visit([&](const auto& in) { return words_of(in, plan); }, plan.layout);
  if (std::holds_alternative<cuda::EdgeBytes>(plan.layout) ||
      std::holds_alternative<cuda::Generic>(plan.layout)) {
    return words;
  }
  visit_number_type(problem.type, [&](auto tag) {
    for (int64_t channel = 0;
         edges.data != nullptr && channel < (edges.shared ? 1 : problem.num_channels());
         ++channel) {
      words += guess_of<typename decltype(tag)::type>(
          edges, channel, std::holds_alternative<cuda::ChannelColumns>(plan.layout));
    }
  });
  return words;
}

/// The problem, the input, the edges (their type, bins, whether channels share them), flow, whether
/// the counts are added to numbers, whose bytes are all kByteOfOld.
void histogram() {
  constexpr uint8_t kByteOfOld = 0x11;
  Problem problem = read_loops();
  const Array input;
  const auto type = read<ElementType>();
  const int64_t bins = read();
  const bool shared = read() != 0;
  const Array array;
  const Flow flow{read() != 0};
  problem.adds = read() != 0;
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  const Result counts(problem.num_counts() * int64_t{sizeof(int64_t)});
  problem.data = input.data();
  problem.counts = counts.data<int64_t>();
  if (problem.adds) {
    emulated::fill(
        counts.data<uint8_t>(), kByteOfOld,
        static_cast<size_t>(problem.num_counts()) * sizeof(int64_t));
  }
  const Edges edges = Edges::all(array.data(), type, bins, shared);
  std::cout << words_of(plan_edges(problem, edges, launch.limits), problem, edges) << '\n';
  cuda::count_between(problem, edges, flow, launch);
  counts.write();
}

/// What count_uniform does with channels that are too long for one kernel.
template <class E>
void own_ranges_in(
    const cuda::EdgePlan& plan,
    const Problem& problem,
    const UniformBins& bins,
    const Flow& flow,
    const cuda::Launch& launch) {
  const int64_t channels = problem.num_channels();
  auto* low = static_cast<E*>(launch.allocate(2 * channels * static_cast<int64_t>(sizeof(E))));
  E* high = low + channels;
  cuda::find_extremes(problem, cuda::Widened{true}, low, high, launch);
  if (plan.clears) {
    cuda::clear(launch, problem, plan.overlaps);
  }
  cuda::count_own_teams(plan, problem, low, high, bins, flow, launch);
}

/// The problem, the input, the bins, the type of edges, flow. The results are counts and edges of
/// the channels' own ranges.
void own_ranges() {
  Problem problem = read_loops();
  const Array input;
  const int64_t bins = read();
  const auto type = read<ElementType>();
  const Flow flow{read() != 0};
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  const Result counts(problem.num_counts() * int64_t{sizeof(int64_t)});
  const int64_t edge_bytes = type == ElementType::kFloat32 ? 4 : 8;
  const Result edges(problem.num_channels() * (bins + 1) * edge_bytes);
  problem.data = input.data();
  problem.counts = counts.data<int64_t>();
  const auto plan = cuda::plan_own_rows(problem, bins, launch.limits);
  if (!plan) {
    std::cerr << "no teams\n";
    std::exit(4);
  }
  std::cout << words_of(*plan, problem, Edges{}) << '\n';
  const UniformBins uniform{bins, nullptr, edges.data<uint8_t>(), type};
  type == ElementType::kFloat32 ? own_ranges_in<float>(*plan, problem, uniform, flow, launch)
                                : own_ranges_in<double>(*plan, problem, uniform, flow, launch);
  counts.write();
  edges.write();
}

template <class T>
void finite_range_in(const Problem& problem, const cuda::Launch& launch) {
  const int64_t bytes = problem.num_channels() * int64_t{sizeof(T)};
  const Result low(bytes), high(bytes);
  cuda::finite_range(problem, low.data<T>(), high.data<T>(), launch);
  low.write();
  high.write();
}

// The layouts of ExtremesPlan.
std::string words_of(const cuda::Chunks& in) {
  const std::string teams = in.of_warps() ? " warps lanes-" + std::to_string(in.lanes) : "";
  return teams + (in.of_channel > 1 ? " chunks" : "");
}
std::string words_of(const cuda::ChunkedVec16s& in) {
  return "vec16s" + words_of(in.chunks);
}
std::string words_of(const cuda::ChunkedStreams& in) {
  return "strided" + words_of(in.chunks);
}
std::string words_of(const cuda::ChannelColumns& in) {
  return "columns of-" + std::to_string(in.word_bytes) + (in.chunks > 1 ? " chunks" : "");
}
std::string words_of(const cuda::ChannelWords& in) {
  return in.are_words ? "short words" : "short";
}
std::string words_of(const cuda::CountedBytes&) {
  return "counted";
}

/// The problem and the input.
void finite_range() {
  Problem problem = read_loops();
  const Array input;
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  problem.data = input.data();
  const cuda::ExtremesPlan plan = plan_extremes(problem, launch.limits);
  std::cout << std::visit([](const auto& in) { return words_of(in); }, plan.layout) << '\n';
  const bool in_float32 = !is_integer(problem.type) && problem.type != ElementType::kFloat64;
  in_float32 ? finite_range_in<float>(problem, launch) : finite_range_in<double>(problem, launch);
}

/// The problem, the input, the bins, the range (two float64 numbers, or nothing), flow. The results
/// are counts and edges.
void uniform_histogram() {
  Problem problem = read_loops();
  const Array input;
  const int64_t bins = read();
  const bool has_range = read() != 0;
  const Array of_range;
  const Flow flow{read() != 0};
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  const bool in_float32 = !is_integer(problem.type) && problem.type != ElementType::kFloat64;
  const int64_t rows = has_range ? 1 : problem.num_channels();
  const Result counts(problem.num_counts() * int64_t{sizeof(int64_t)});
  const Result edges(rows * (bins + 1) * (in_float32 ? 4 : 8));
  problem.data = input.data();
  problem.counts = counts.data<int64_t>();
  const auto* range = reinterpret_cast<const double*>(of_range.data());
  cuda::count_uniform(
      problem,
      {bins, has_range ? range : nullptr, edges.data<void>(),
       in_float32 ? ElementType::kFloat32 : ElementType::kFloat64},
      flow, launch);
  std::cout << emulated::launched;
  if (emulated::launched.find("count_own_stripes") != std::string::npos) {
    const auto plan = cuda::plan_own_stripes(problem, bins, launch.limits);
    std::cout << " own-" << words_of(*plan, problem, Edges{});
  }
  std::cout << '\n';
  counts.write();
  edges.write();
}

template <class T, class Edge>
void uniform_edges_in(
    const Array& lows, const Array& highs, int64_t rows, int64_t bins, const cuda::Launch& launch) {
  const Result edges(rows * (bins + 1) * int64_t{sizeof(Edge)});
  const auto* low = reinterpret_cast<const T*>(lows.data());
  const auto* high = reinterpret_cast<const T*>(highs.data());
  cuda::uniform_edges(low, high, rows, bins, edges.data<Edge>(), launch);
  std::cout << '\n';
  edges.write();
}

/// Whether bounds and edges are float32, the rows, the bins, low and high.
void uniform_edges() {
  const bool of_float32 = read() != 0, in_float32 = read() != 0;
  const int64_t rows = read(), bins = read();
  const Array low, high;
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  const auto run =
      of_float32
          ? (in_float32 ? uniform_edges_in<float, float> : uniform_edges_in<float, double>)
          : (in_float32 ? uniform_edges_in<double, float> : uniform_edges_in<double, double>);
  run(low, high, rows, bins, launch);
}

/// A plan of quantiles as tests read it: words and numbers. A number that its layout lacks is 0.
struct QuantilePlan {
  std::string words;
  int64_t slots = 0, group = 0, sorted = 0, stream_rows = 0, column_rows = 0, rows_of_columns = 0;
  int64_t sample = 0, room = 0, passes = 0;

  explicit QuantilePlan(const cuda::SelectPlan& plan) {
    std::visit([&](const auto& in) { describe(in, plan); }, plan.layout);
  }

 private:
  static std::string word(const std::string& name, int64_t value) {
    return " " + name + std::to_string(value);
  }
  void describe_group(const std::string& layout, int64_t of_group, const cuda::SelectPlan& plan) {
    group = of_group;
    slots = group * cuda::kTargetsOfQ;
    words = layout + word("q", group) + (plan.halves ? " halves" : "");
  }
  void describe(const cuda::GatherShape& in, const cuda::SelectPlan&) {
    words = "gathered" + word("words", in.of_word) + word("channels", in.channels);
  }
  void describe(const cuda::SelectSorted& in, const cuda::SelectPlan&) {
    words = "sort";
    sorted = in.size;
  }
  void describe(const cuda::SelectPatterns&, const cuda::SelectPlan&) {
    words = "patterns";
  }
  void describe(const cuda::SelectStaged& in, const cuda::SelectPlan& plan) {
    describe_group("staged", in.shape.group, plan);
    words += in.of_warps ? " warps" : "";
  }
  void describe(const cuda::SelectWhole& in, const cuda::SelectPlan& plan) {
    describe_group("whole", in.group, plan);
  }
  void describe(const cuda::SelectSpans& in, const cuda::SelectPlan& plan) {
    describe_group("spans", in.shape.group, plan);
    words += word("cluster", in.shape.cluster) + (in.keeps ? " keeps" : "");
  }
  void describe(const cuda::SelectPasses& in, const cuda::SelectPlan& plan) {
    const bool columns = std::holds_alternative<cuda::ChannelColumns>(in.channels);
    describe_group(columns ? "columns" : "streams", in.group, plan);
    std::visit([&](const auto& channels) { describe_channels(channels); }, in.channels);
  }
  void describe_channels(const cuda::ChannelStreams& in) {
    words += in.chunks > 1 ? " chunks" : "";
    stream_rows = in.share * in.chunks;
  }
  void describe_channels(const cuda::ChannelSpans& in) {
    words += in.chunks > 1 ? " chunks spans" : " spans";
  }
  void describe_channels(const cuda::ChannelColumns& in) {
    words += in.chunks > 1 ? " chunks" : "";
    column_rows = in.share * in.chunks;
    rows_of_columns = in.rows;
  }
  void describe(const cuda::SelectSampled& in, const cuda::SelectPlan& plan) {
    describe_group("sampled", 1, plan);
    describe_channels(in.streams);
    words += word("passes", in.passes);
    sample = in.sample;
    room = in.room;
    passes = in.passes;
  }
  void describe(const cuda::SelectStripes& in, const cuda::SelectPlan& plan) {
    slots = in.shape.slots;
    words = "stripes" + word("slots", slots) + word("cluster", in.columns.chunks) +
            word("threads", plan.threads);
  }
  void describe(const cuda::SelectListed& in, const cuda::SelectPlan& plan) {
    describe_group("listed", in.group, plan);
    words += word("sample", in.sample) + (in.columns.are_general() ? " general" : "");
  }
};

/// The problem and the number of q's: words, and numbers of the plan.
void plan_of_quantile() {
  const Problem problem = read_loops();
  const int64_t num_q = read();
  const cuda::SelectPlan plan = plan_select(problem, num_q, cuda::kTargetsOfQ, read_limits());
  const QuantilePlan of(plan);
  std::cout << of.words << '\n';
  for (const int64_t number :
       {int64_t{plan.threads}, plan.blocks, plan.shared_bytes, of.slots, of.group,
        plan.counter_bytes(problem.num_channels()), int64_t{plan.halves}, of.sorted, of.stream_rows,
        of.column_rows, of.rows_of_columns, of.sample, of.room, of.passes}) {
    std::cout << number << ' ';
  }
}

/// The problem, the input, q, whether ranks are double, the interpolation, whether NaN is ignored.
/// The results are below, above and the weights.
void quantile() {
  Problem problem = read_loops();
  const Array input, q;
  const int64_t num_q = read();
  const bool float64_ranks = read() != 0;
  const auto interpolation = read<Interpolation>();
  const bool ignore_nan = read() != 0;
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  problem.data = input.data();
  const auto* of_q = reinterpret_cast<const double*>(q.data());
  const int64_t values = num_q * problem.num_channels();
  const int64_t bytes = values * cuda::bytes_of_type(problem.type);
  const Result below(bytes), above(bytes), weights(values * (float64_ranks ? 8 : 4));
  static size_t bytes_read = 0;
  emulated::observer = [](const emulated::Access& access) {
    bytes_read += access.kind == Kind::kInput ? access.bytes : 0;
  };
  cuda::select(
      {problem, of_q, num_q, float64_ranks, interpolation, ignore_nan, below.data<uint8_t>(),
       above.data<uint8_t>(), weights.data<uint8_t>()},
      launch);
  // How often each element is read.
  const int64_t size = problem.num_channels() * problem.num_rows();
  const auto reads = static_cast<int64_t>(bytes_read) / (size * cuda::bytes_of_type(problem.type));
  const QuantilePlan plan(plan_select(problem, num_q, values_of_q(interpolation), launch.limits));
  std::cout << plan.words << " reads" << reads << '\n';
  below.write();
  above.write();
  weights.write();
}

std::string words_of(const cuda::SketchPlan& plan) {
  if (const auto* streams = std::get_if<cuda::ChannelStreams>(&plan.layout)) {
    return std::string("streams") + (streams->chunks > 1 ? " chunks" : "");
  }
  return std::holds_alternative<cuda::Generic>(plan.layout) ? "tiles" : "bytes";
}

SketchBins read_bins() {
  const int64_t bits = read(), first = read(), last = read();
  return {bits, first, last};
}

/// An array of the input that a kernel writes, and that is written at the end.
class State {
 public:
  explicit State(const Array& array) : bytes_(array.bytes()), data_(array.writable()) {
  }
  int64_t* data() const {
    return reinterpret_cast<int64_t*>(data_);
  }
  void write() const {
    std::cout.write(reinterpret_cast<const char*>(data_), static_cast<std::streamsize>(bytes_));
  }

 private:
  size_t bytes_;
  uint8_t* data_;
};

/// The problem, the input, the bins, the counts and both extremes.
void sketch_add() {
  Problem problem = read_loops();
  const Array input;
  const SketchBins bins = read_bins();
  const Array counts, low, high;
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  problem.data = input.data();
  const State of_counts(counts), of_low(low), of_high(high);
  cuda::add_to_sketch(problem, bins, {of_counts.data(), of_low.data(), of_high.data()}, launch);
  std::cout << words_of(plan_sketch(problem, bins, launch.limits)) << '\n';
  of_counts.write();
  of_low.write();
  of_high.write();
}

/// The channels, the bins, the place in them in 64ths, the numbers of q, q, the counts and both
/// extremes.
void sketch_quantile() {
  const int64_t channels = read();
  const SketchBins bins = read_bins();
  const auto place = static_cast<double>(read()) / 64;
  const int64_t num_q = read();
  const Array q, counts, low, high;
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  const auto* of_q = reinterpret_cast<const double*>(q.data());
  const State of_counts(counts), of_low(low), of_high(high);
  const Result found(num_q * channels * int64_t{sizeof(double)});
  cuda::sketch_quantiles(
      {{of_counts.data(), of_low.data(), of_high.data()},
       channels,
       bins,
       place,
       of_q,
       num_q,
       found.data<double>()},
      launch);
  std::cout << '\n';
  found.write();
}

/// The problem and the input. The results are counts, numbers and digits.
void summary() {
  Problem problem = read_loops();
  const Array input;
  const cuda::Launch launch{nullptr, read_limits(), workspace};
  end_of_line();
  problem.data = input.data();
  const int64_t channels = problem.num_channels();
  const int64_t digits = visit_number_type(problem.type, [](auto tag) -> int64_t {
    return cuda::SummaryRows<typename decltype(tag)::type>::kDigits;
  });
  const Result counts(kSummaryCounts * channels * int64_t{sizeof(int64_t)});
  const Result numbers(kSummaryNumbers * channels * int64_t{sizeof(double)});
  const Result sums(channels * digits * int64_t{sizeof(int64_t)});
  cuda::summarize(
      problem, {counts.data<int64_t>(), numbers.data<double>(), sums.data<int64_t>()}, launch);
  const cuda::SummaryPlan plan = cuda::plan_summary(problem, launch.limits);
  constexpr const char* kLayouts[] = {"streams", "runs", "columns"};
  const bool has_chunks =
      std::visit([](const auto& layout) { return layout.chunks > 1; }, plan.layout);
  std::cout << kLayouts[plan.layout.index()] << (has_chunks ? " chunks" : "")
            << (plan.threads == cuda::kThreadsOfWarpSummary ? " warps" : "") << '\n';
  counts.write();
  numbers.write();
  sums.write();
}

/// One cluster of two blocks.
void run_broken(const std::string& name) {
  const cuda::Launch launch{nullptr, {2, 48 << 10, 48 << 10, 90}, workspace};
  emulated::start_broken(
      name, launch, emulated::allocate(Kind::kInput, 4095, 1),
      reinterpret_cast<unsigned long long*>(emulated::allocate(Kind::kCounts, 4096)));
}

} // namespace

int main(int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  if (name == "channel_histogram") {
    channel_histogram();
  } else if (name == "joint_histogram") {
    emulated::joint_histogram();
  } else if (name == "histogram") {
    histogram();
  } else if (name == "own_ranges") {
    own_ranges();
  } else if (name == "finite_range") {
    finite_range();
  } else if (name == "uniform_edges") {
    uniform_edges();
  } else if (name == "uniform_histogram") {
    uniform_histogram();
  } else if (name == "plan_of_quantile") {
    plan_of_quantile();
  } else if (name == "quantile") {
    quantile();
  } else if (name == "summary") {
    summary();
  } else if (name == "warp_sums") {
    emulated::warp_sums();
  } else if (name == "sketch_add") {
    sketch_add();
  } else if (name == "sketch_quantile") {
    sketch_quantile();
  } else {
    run_broken(name);
  }
}
