// The operators on the CPU.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/exact_sum.h"
#include "cpu/float_mode.h"
#include "cpu/kernels.h"
#include "cpu/summary/moments.h"
#include "cpu/threads.h"
#include "torch/operators/operators.h"

namespace histo {
namespace {

class Cpu {
 public:
  explicit Cpu(const Tensor& like) : workspace_(like) {
  }

  template <class Binning>
  void count(const VariantCall& call, const Binning& binning) {
    if (call.variant == Variant::kSequential) {
      cpu::sequential(call.problem, binning);
    } else {
      cpu::count(call.problem, cpu::pattern_axis(call.problem.type, binning), workspace_);
    }
  }
  void count_between(const EdgesCall& call) {
    cpu::count_between(call.problem, call.edges, nullptr, call.flow, workspace_);
  }
  void count_uniform(const Problem& problem, const UniformBins& bins, Flow flow) {
    cpu::count_uniform(problem, bins, flow, workspace_);
  }
  void edges_of(const Problem& problem, const UniformBins& bins) {
    cpu::edges_of(problem, bins);
  }
  void edges_of_axes(const std::vector<UniformBins>& axes) {
    for (const UniformBins& axis : axes) {
      cpu::edges_of(Problem{}, axis);
    }
  }
  template <class T>
  void finite_range(const Problem& problem, T* low, T* high) {
    cpu::finite_range(problem, low, high);
  }
  template <class T, class Edge>
  void uniform_edges(const T* low, const T* high, int64_t rows, int64_t bins, Edge* edges) {
    cpu::uniform_edges(low, high, rows, bins, edges);
  }
  std::optional<Tensor> select(const QuantileCall& call) {
    cpu::select(call.selection, workspace_);
    return std::nullopt;
  }

  void summarize(const Problem& problem, const Summary& results) {
    cpu::summarize(problem, results);
  }
  void moments_of_digits(const MomentsCall& call) {
    const auto* digits = data_of<const int64_t>(call.digits);
    const auto* numbers = data_of<const int64_t>(call.number);
    auto* result = data_of<double>(call.moments);
    const DigitLayout sum = layout_of_sum(call.type), squares = layout_of_squares(call.type);
    const int64_t size = num_digits(call.type);
    constexpr int64_t kChannelsPerTask = 64;
    cpu::parallel_for(call.channels, kChannelsPerTask, [&](int64_t begin, int64_t end) {
      const cpu::ExactFloats exact;
      std::vector<int64_t> own(static_cast<size_t>(size));
      for (int64_t channel = begin; channel < end; ++channel) {
        const int64_t* from = digits + channel * size;
        std::copy(from, from + size, own.begin());
        normalize(own.data(), sum.size);
        normalize(own.data() + sum.size, squares.size);
        const Moments found = cpu::moments_of(own.data(), call.type, numbers[channel]);
        const double all[] = {found.mean, found.var, found.std, found.sum, found.sum_of_squares};
        for (int64_t i = 0; i < kMoments; ++i) {
          result[i * call.channels + channel] = all[i];
        }
      }
    });
  }

  void add_to_sketch(const Problem& problem, const SketchBins& bins, const SketchState& state) {
    cpu::add_to_sketch(problem, bins, state, workspace_);
  }
  void sketch_quantiles(const SketchQuantiles& call) {
    cpu::sketch_quantiles(call);
  }

  static RoundsInKernel rounds_in_kernel(const Tensor&) {
    return {};
  }
  void sum_between(const EdgesCall& call, double* rounded) {
    cpu::sum_weights_between(call.problem, call.edges, nullptr, call.flow, workspace_);
    round(call.problem, rounded);
  }
  void sum_uniform(const UniformSumsCall& call) {
    cpu::sum_weights_uniform(
        call.problem, call.input.problem, call.uniform.bins(), call.flow, workspace_);
    round(call.problem, call.rounded());
  }
  void sum_of_values(const Problem& problem, double* rounded) {
    cpu::sum_weights_of_values(problem, workspace_);
    round(problem, rounded);
  }
  void round_sums(const DigitsCall& call) {
    cpu::round_sums(
        data_of<const int64_t>(call.digits), call.bins, call.size, false,
        data_of<double>(call.result));
  }
  void normalize_sums(const DigitsCall& call) {
    cpu::normalize_sums(data_of<int64_t>(call.result), call.bins, call.size);
  }
  void weight_gradient_between(const WeightGradientCall& call) {
    cpu::weight_gradient_between(
        call.problem, call.edges, call.flow, data_of<const double>(call.gradient),
        data_of<double>(call.result));
  }
  void weight_gradient_of_values(const WeightGradientCall& call) {
    cpu::weight_gradient_of_values(
        call.problem, data_of<const double>(call.gradient), data_of<double>(call.result));
  }

  static constexpr size_t kMostAxesOfWeights = kMostAxes;
  void count_joint(const Problem& problem, const JointAxes& axes) {
    cpu::count_joint(problem, axes, workspace_);
  }
  void sum_joint(const Problem& problem, const JointAxes& axes) {
    cpu::sum_weights_joint(problem, axes, workspace_);
  }
  void write_joint_index(const Problem& problem, const JointAxes& axes, int64_t* index) {
    cpu::write_joint_index(problem, axes, index);
  }

 private:
  /// Rounds sums to `rounded`, unless it is null.
  static void round(const Problem& problem, double* rounded) {
    if (rounded != nullptr) {
      cpu::round_sums(problem.counts, problem.num_counts(), problem.sum_size, true, rounded);
    }
  }

  Workspace workspace_;
};

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CPU, m) {
  histo::Operators<histo::Cpu>::register_all(m);
}
