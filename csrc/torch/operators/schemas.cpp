// Every schema of the namespace `histo`, and nothing else.
#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY(histo, m) {
  m.def(
      "channel_histogram(Tensor input, SymInt num_bins=256, int[1] dim=0, *, "
      "str variant=\"auto\") -> Tensor");
  m.def("text_histogram(Tensor text, *, str variant=\"auto\") -> Tensor");

  m.def("histogram(Tensor input, Tensor edges, int[1]? dim=None, *, bool flow=False) -> Tensor");
  m.def(
      "histogram_add_(Tensor(a!) counts, Tensor input, Tensor edges, int[1]? dim=None, *, "
      "bool flow=False) -> ()");
  m.def("finite_range(Tensor input, int[1]? dim=None) -> (Tensor, Tensor)");
  // Without a dtype, edges are float32 or float64 as `in_float32` says: AOTInductor of torch 2.11 passes
  // another dtype than it was given.
  m.def(
      "uniform_edges(Tensor low, Tensor high, SymInt num_bins, *, ScalarType? dtype=None, "
      "bool in_float32=False) -> Tensor");

  // Sums of weights by bin, which are exact: int64 [kept..., bins, size], digits and counts of what
  // is not finite. Results can be added. The others round the sums, and make digits canonical.
  m.def(
      "weighted_histogram(Tensor input, Tensor edges, Tensor weight, int[1]? dim=None, *, "
      "bool flow=False) -> Tensor");
  m.def(
      "weighted_channel_histogram(Tensor input, Tensor weight, SymInt num_bins=256, "
      "int[1] dim=0) -> Tensor");
  m.def("sum_of_digits(Tensor digits) -> Tensor");
  m.def("normalize_digits(Tensor digits) -> Tensor");

  // Joint bins of several coordinates of each element: int64 [kept..., n_1, ..., n_D], and the sums
  // of weights by them. The inputs have the same sizes, and each has edges of its own.
  m.def(
      "joint_histogram(Tensor[] inputs, Tensor[] edges, int[1]? dim=None, *, bool flow=False) -> "
      "Tensor");
  m.def(
      "weighted_joint_histogram(Tensor[] inputs, Tensor[] edges, Tensor weight, "
      "int[1]? dim=None, *, bool flow=False) -> Tensor");

  m.def(
      "quantile(Tensor input, Tensor q, int[1]? dim=None, bool keepdim=False, *, "
      "str interpolation=\"linear\", bool ignore_nan=False) -> Tensor");
}

// Functions for the package itself.
STABLE_TORCH_LIBRARY_FRAGMENT(histo, m) {
  // The checks of the operators on a description of their input, for callers
  // that hold no data (fake tensors). They return the error, or an empty string.
  m.def(
      "_check_channel_histogram(str device, str dtype, str layout, bool contiguous, int ndim, "
      "int num_bins, int[] dim, str variant) -> str");
  m.def(
      "_check_text_histogram(str device, str dtype, str layout, bool contiguous, int ndim, "
      "str variant) -> str");

  m.def("_check_numbers(str op, str device, str dtype, str layout, int ndim, int[]? dim) -> str");
  m.def(
      "_check_edges(str op, str device, str dtype, str layout, int ndim, str edges_device, "
      "str edges_dtype, str edges_layout, int edges_ndim) -> str");
  m.def(
      "_check_counts(str device, str dtype, str layout, str counts_device, str counts_dtype, "
      "str counts_layout) -> str");
  m.def(
      "_check_bounds(str device, str dtype, str layout, str high_device, str high_dtype, "
      "str high_layout, int num_bins, str edge_dtype) -> str");

  m.def(
      "_check_quantile(str device, str dtype, str layout, int ndim, str q_device, str q_dtype, "
      "str q_layout, int q_ndim, int[]? dim, str interpolation) -> str");

  m.def(
      "_check_weight(str op, str device, str dtype, str layout, int ndim, str weight_device, "
      "str weight_dtype, str weight_layout, int weight_ndim) -> str");
  m.def(
      "_check_values(str op, str device, str dtype, str layout, int ndim, int num_bins, "
      "int[] dim) -> str");
  m.def("_check_digits(str op, str device, str dtype, str layout, int ndim, int size) -> str");

  // The derivative with respect to the weights: for each element what `grad`, float64 [kept...,
  // bins], has for its bin, and 0 where it has none.
  m.def(
      "_weight_gradient(Tensor grad, Tensor input, Tensor edges, int[1]? dim, bool flow) -> "
      "Tensor");
  m.def("_weight_gradient_of_values(Tensor grad, Tensor input, int[1] dim) -> Tensor");

  // The joint bin of each element, int64 of the inputs' sizes; -1 where there is none.
  m.def("_joint_index(Tensor[] inputs, Tensor[] edges, int[1]? dim, bool flow) -> Tensor");

  // Counts in bins of one width, and their edges, in one call: between the two numbers of `range`,
  // or the finite extremes of each channel.
  m.def(
      "_uniform_histogram(Tensor input, SymInt num_bins, float[]? range, int[]? dim, bool flow) "
      "-> (Tensor, Tensor)");
  // The same for sums of weights by bin, which are rounded. It refuses to make more than `most_bytes`
  // bytes of digits for several channels.
  m.def(
      "_uniform_sums(Tensor input, Tensor weight, SymInt num_bins, float[]? range, int[]? dim, "
      "bool flow, int most_bytes) -> (Tensor, Tensor)");
  // The sums between edges, or those of values below `num_bins`.
  m.def(
      "_sums(Tensor input, Tensor weight, Tensor? edges, SymInt num_bins, int[]? dim, bool flow, "
      "int most_bytes) -> Tensor");
  // The edges alone.
  m.def("_edges_of(Tensor input, SymInt num_bins, float[]? range, int[]? dim) -> Tensor");
  // The edges of several axes, between two numbers of `ranges` each.
  m.def("_edges_of_axes(Tensor[] inputs, SymInt[] num_bins, float[] ranges) -> Tensor[]");

  // Adds the counts and the extremes of the input to the buffers of a quantile sketch, whose bins
  // are those of `bits` and the exponents from `first` up to `last`; and finds quantiles of it.
  m.def(
      "_sketch_add_(Tensor(a!) hist, Tensor(b!) min_key, Tensor(c!) max_key, Tensor input, "
      "int bits, int first, int last, int[]? dim) -> ()");
  m.def(
      "_sketch_quantile(Tensor hist, Tensor min_key, Tensor max_key, Tensor q, int bits, "
      "int first, int last, float place) -> Tensor");

  // The numbers of q as float64 on the GPU of a tensor; one kernel writes some 32 of them.
  m.def("_fractions(Tensor like, float[] q) -> Tensor");

  // What a summary says of each channel: `counts` [4, kept...] of elements, NaN, infinities and
  // zeros; `numbers` [7, kept...]: min, max, mean, var, std, sum and sum of squares of the finite
  // values; and the digits of the exact sums, [kept..., n], if they are wanted.
  m.def(
      "_summary(Tensor input, int[]? dim, bool digits) "
      "-> (Tensor counts, Tensor numbers, Tensor digits)");
  // Digits of several inputs can be added. Mean, var, std, sum and sum of squares, [5, kept...], of
  // `number` values of a dtype, [kept...].
  m.def("_moments_of_digits(Tensor digits, Tensor number, ScalarType dtype) -> Tensor");

  // How such an input would be counted, as JSON. An empty `gpu` is the CPU, with the threads that
  // torch has. Otherwise it holds the limits of a GPU: SMs, shared bytes of a block, those of an
  // SM, and 10 * major + minor of the compute capability. `address` is that of the first element;
  // if there is none, any one that is aligned alike.
  m.def(
      "_plan_channel_histogram(str dtype, int[] sizes, int[] strides, int address, int[] gpu, "
      "int num_bins, int[] dim) -> str");

  // The same for histograms. Channels may share the edges. `is_one_call`: the call makes the edges.
  // Weights, if there are any, take so many calls, and the largest one so many bytes of digits,
  // unless `rounds` lets a kernel round the sums at once.
  m.def(
      "_plan_histogram(str dtype, int[] sizes, int[] strides, int address, int[] gpu, "
      "int num_bins, int[] dim, str edge_dtype, bool shared_edges, bool flow, bool is_one_call, *, "
      "str weight_dtype=\"\", int[] weight_sizes=[], int[] weight_strides=[], "
      "int weight_address=0, bool rounds=False, int calls=1, int bytes_of_digits=0) -> str");

  // For the benchmarks, on CUDA only. How many atomic additions a study variant
  // issues, as [global, shared]; and additions to one address, as [clock cycles, sum reached].
  m.def("_count_atomics(Tensor input, int num_bins, *, str variant) -> Tensor");
  m.def(
      "_add_to_one_address(Tensor like, *, bool shared, bool dependent, int blocks, int threads, "
      "int lanes, int additions) -> Tensor");
}
