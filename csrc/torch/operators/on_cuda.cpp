// The operators on CUDA.
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "cuda/count/dispatch.h"
#include "cuda/fill/fill.h"
#include "cuda/fill/joint.h"
#include "cuda/fill/sketch.h"
#include "cuda/fill/weights.h"
#include "cuda/launch.h"
#include "cuda/machine.h"
#include "cuda/plan/warp_sums_plan.h"
#include "cuda/select/fractions.h"
#include "cuda/select/interpolate.h"
#include "cuda/select/select.h"
#include "cuda/study/variants.h"
#include "cuda/summary/summary.h"
#include "torch/operators/operators.h"

namespace histo {
namespace {

/// Asking takes longer than a small histogram, so a device is asked once.
cuda::DeviceLimits limits_of(int index) {
  constexpr int kMaxDevices = 64;
  static cuda::DeviceLimits devices[kMaxDevices];
  static std::once_flag asked[kMaxDevices];
  if (index >= kMaxDevices) {
    return cuda::device_limits(index);
  }
  std::call_once(asked[index], [&] { devices[index] = cuda::device_limits(index); });
  return devices[index];
}

cudaStream_t current_stream(int32_t device) {
  void* stream = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return static_cast<cudaStream_t>(stream);
}

template <class Binning>
void run_variant(
    Variant variant, const Problem& problem, const Binning& binning, const cuda::Launch& launch) {
  // The checks have made sure that rows follow each other without a gap.
  const cuda::StudyInput input{
      static_cast<const uint8_t*>(problem.data), problem.num_rows(), problem.num_channels(),
      reinterpret_cast<unsigned long long*>(problem.counts)};
  switch (variant) {
    case Variant::kGlobalAtomic:
      return cuda::global_atomic(input, binning, launch);
    case Variant::kPrivatizedGlobal:
      return cuda::privatized_global(input, binning, launch);
    case Variant::kPrivatizedShared:
      return cuda::privatized_shared(input, binning, launch);
    case Variant::kCoarsenedContiguous:
      return cuda::coarsened_contiguous(input, binning, launch);
    case Variant::kCoarsenedInterleaved:
      return cuda::coarsened_interleaved(input, binning, launch);
    case Variant::kAggregated:
      return cuda::aggregated(input, binning, launch);
    case Variant::kTiled:
      return cuda::tiled(input, binning, launch);
    case Variant::kAuto:
      return cuda::count(problem, binning, launch);
    case Variant::kSequential:
      break; // the checks refuse it
  }
  throw InternalError("run_variant: not a variant of CUDA");
}

/// Launches kernels on the device of a tensor and the stream that is current there.
class Cuda {
 public:
  explicit Cuda(const Tensor& like) : Cuda(like, like.get_device_index()) {
  }
  const cuda::Launch& launch() const {
    return launch_;
  }

  /// `tally`: where a study variant counts its atomic additions, if they are wanted.
  template <class Binning>
  void count(const VariantCall& call, const Binning& binning, unsigned long long* tally = nullptr) {
    launch_.tally = tally;
    if (has_work(call.problem)) {
      run_variant(call.variant, call.problem, binning, launch_);
    }
  }
  void count_between(const EdgesCall& call) {
    if (has_work(call.problem)) {
      cuda::count_between(call.problem, call.edges, call.flow, launch_);
    }
  }
  void count_uniform(const Problem& problem, const UniformBins& bins, Flow flow) {
    cuda::count_uniform(problem, bins, flow, launch_);
  }
  void edges_of(const Problem& problem, const UniformBins& bins) {
    cuda::edges_of(problem, bins, launch_);
  }
  void edges_of_axes(const std::vector<UniformBins>& axes) {
    cuda::edges_of_axes(axes, launch_);
  }
  template <class T>
  void finite_range(const Problem& problem, T* low, T* high) {
    cuda::finite_range(problem, low, high, launch_);
  }
  template <class T, class Edge>
  void uniform_edges(const T* low, const T* high, int64_t rows, int64_t bins, Edge* edges) {
    cuda::uniform_edges(low, high, rows, bins, edges, launch_);
  }
  /// Returns the quantiles of types that it interpolates.
  std::optional<Tensor> select(const QuantileCall& call) {
    std::optional<Tensor> result;
    if (call.interpolates() && cuda::can_interpolate(call.selection.problem.type)) {
      result = allocate(call.weights, sizes_of(call.weights), call.result, "the quantiles");
    }
    cuda::select(call.selection, launch_);
    if (result) {
      cuda::interpolate(call.selection, result->mutable_data_ptr(), launch_);
    }
    return result;
  }

  void summarize(const Problem& problem, const Summary& results) {
    cuda::summarize(problem, results, launch_);
  }
  void moments_of_digits(const MomentsCall& call) {
    const cuda::FoundRows found{
        data_of<const int64_t>(call.digits), num_digits(call.type), call.channels,
        layout_of_sum(call.type), layout_of_squares(call.type)};
    cuda::moments_of_digits(
        found, data_of<const int64_t>(call.number), data_of<double>(call.moments), launch_);
  }

  void add_to_sketch(const Problem& problem, const SketchBins& bins, const SketchState& state) {
    cuda::add_to_sketch(problem, bins, state, launch_);
  }
  void sketch_quantiles(const SketchQuantiles& call) {
    cuda::sketch_quantiles(call, launch_);
  }

  /// Whether a kernel rounds the sums of its table itself, on the device of `like`.
  static RoundsInKernel rounds_in_kernel(const Tensor& like) {
    return [&like](const Problem& problem, const Edges& edges) {
      return plan_warp_sums(problem, edges, limits_of(like.get_device_index())).has_value();
    };
  }
  void sum_between(const EdgesCall& call, double* rounded) {
    sum_between(call.problem, call.edges, call.flow, rounded);
  }
  void sum_uniform(const UniformSumsCall& call) {
    const UniformBins bins = call.uniform.bins();
    cuda::edges_of(call.input.problem, bins, launch_);
    const Edges edges = Edges::all(bins.edges, bins.type, bins.bins, bins.range != nullptr);
    sum_between(call.problem, edges, call.flow, call.rounded());
  }
  void sum_of_values(const Problem& problem, double* rounded) {
    if (has_work(problem, rounded)) {
      cuda::sum_weights_of_values(problem, rounded, launch_);
    }
  }
  void round_sums(const DigitsCall& call) {
    cuda::round_sums(
        data_of<const int64_t>(call.digits), call.bins, call.size, data_of<double>(call.result),
        launch_);
  }
  void normalize_sums(const DigitsCall& call) {
    cuda::normalize_sums(data_of<int64_t>(call.result), call.bins, call.size, launch_);
  }
  void weight_gradient_between(const WeightGradientCall& call) {
    cuda::weight_gradient_between(
        call.problem, call.edges, call.flow, data_of<const double>(call.gradient), launch_);
  }
  void weight_gradient_of_values(const WeightGradientCall& call) {
    cuda::weight_gradient_of_values(call.problem, data_of<const double>(call.gradient), launch_);
  }

  /// Joint bins are written first, whatever the number of coordinates; weights are then summed by
  /// them as by values.
  static constexpr size_t kMostAxesOfWeights = 0;
  void count_joint(const Problem& problem, const JointAxes& axes) {
    cuda::count_joint(problem, axes, launch_);
  }
  void sum_joint(const Problem& problem, const JointAxes&) {
    sum_of_values(problem, nullptr);
  }
  void write_joint_index(const Problem& problem, const JointAxes& axes, int64_t* index) {
    cuda::write_joint_index(problem, axes, index, launch_);
  }

 private:
  Cuda(const Tensor& like, int32_t device)
      : guard_(device),
        workspace_(like),
        launch_{current_stream(device), limits_of(device), workspace_} {
  }
  void sum_between(const Problem& problem, const Edges& edges, Flow flow, double* rounded) {
    if (has_work(problem, rounded)) {
      cuda::sum_weights_between(problem, edges, flow, rounded, launch_);
    }
  }
  /// Whether there are elements and results. Without elements the results become zero, and so do
  /// the sums that they are rounded to.
  bool has_work(const Problem& problem, double* rounded = nullptr) const {
    if (problem.num_results() == 0) {
      return false;
    }
    if (problem.num_rows() > 0) {
      return true;
    }
    if (!problem.adds) {
      cuda::fill_zero(launch_, problem.counts, problem.num_results() * int64_t{sizeof(int64_t)});
    }
    if (rounded != nullptr) {
      cuda::fill_zero(launch_, rounded, problem.num_counts() * int64_t{sizeof(double)});
    }
    return false;
  }

  torch::stable::accelerator::DeviceGuard guard_;
  Workspace workspace_;
  cuda::Launch launch_;
};

Tensor fractions(const Tensor& like, std::vector<double> q) {
  const auto size = static_cast<int64_t>(q.size());
  const Tensor found = allocate(like, {size}, ScalarType::Double, "q");
  const Cuda engine(like);
  cuda::write_fractions(q.data(), size, data_of<double>(found), engine.launch());
  return found;
}

Tensor count_atomics(const Tensor& input, int64_t num_bins, std::string variant) {
  const VariantCall call = prepare_channel_histogram(input, num_bins, {0}, variant);
  if (call.variant == Variant::kAuto) {
    fail("_count_atomics: variant must be a study variant, got 'auto'");
  }
  const Tensor tally = torch::stable::new_zeros(input, std::vector<int64_t>{2}, ScalarType::Long);
  Cuda(input).count(call, ValueBinning{num_bins}, data_of<unsigned long long>(tally));
  return tally;
}

Tensor add_to_one_address(
    const Tensor& like,
    bool shared,
    bool dependent,
    int64_t blocks,
    int64_t threads,
    int64_t lanes,
    int64_t additions) {
  const Tensor result = torch::stable::new_empty(like, std::vector<int64_t>{2}, ScalarType::Long);
  const Cuda engine(like);
  cuda::add_to_one_address(
      {shared, dependent, blocks, threads, lanes, additions}, data_of<unsigned long long>(result),
      engine.launch());
  return result;
}

} // namespace
} // namespace histo

STABLE_TORCH_LIBRARY_IMPL(histo, CUDA, m) {
  histo::Operators<histo::Cuda>::register_all(m);
  m.impl("_fractions", TORCH_BOX(&histo::fractions));
  m.impl("_count_atomics", TORCH_BOX(&histo::count_atomics));
  m.impl("_add_to_one_address", TORCH_BOX(&histo::add_to_one_address));
}
