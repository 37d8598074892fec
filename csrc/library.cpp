// Every schema of the namespace `histo`, and nothing else.
#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY(histo, m) {
  m.def(
      "channel_histogram(Tensor input, int num_bins=256, int[1] dim=0, *, "
      "str variant=\"auto\") -> Tensor");
  m.def("text_histogram(Tensor text, *, str variant=\"auto\") -> Tensor");

  // The checks of the two operators on a description of their input, for callers
  // that hold no data (fake tensors). They return the error, or an empty string.
  m.def(
      "_check_channel_histogram(str device, str dtype, str layout, bool contiguous, int ndim, "
      "int num_bins, int[] dim, str variant) -> str");
  m.def(
      "_check_text_histogram(str device, str dtype, str layout, bool contiguous, int ndim, "
      "str variant) -> str");

  // For study: how many atomic additions a CUDA variant issues, as [global, shared].
  m.def("_count_atomics(Tensor input, int num_bins, *, str variant) -> Tensor");
}
