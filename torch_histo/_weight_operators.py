"""The operators of weights: what they do for fake tensors, and under vmap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_histo import _library
from torch_histo._arguments import (
    describe,
    kept_dimensions,
    kept_sizes,
    of_all_samples,
    raise_from,
    require,
)
from torch_histo._histogram_rules import (
    as_one_call,
    check_call,
    samples_first,
)

_library.load()  # the rules below need the operators

# Found once, which saves each call the look-ups.
weighted_histogram = torch.ops.histo.weighted_histogram.default
weighted_channel_histogram = torch.ops.histo.weighted_channel_histogram.default
sum_of_digits = torch.ops.histo.sum_of_digits.default
rounded_sums = torch.ops.histo._sums.default
uniform_sums = torch.ops.histo._uniform_sums.default
normalize_digits = torch.ops.histo.normalize_digits.default
weight_gradient = torch.ops.histo._weight_gradient.default
weight_gradient_of_values = torch.ops.histo._weight_gradient_of_values.default

BETWEEN, VALUES = "weighted_histogram", "weighted_channel_histogram"
GRADIENT = "_weight_gradient"


def sum_size(dtype: torch.dtype) -> int:
    """The numbers that a bin keeps of weights of this type: digits, and three counts of what is not
    finite; or one integer."""
    if not dtype.is_floating_point:
        return 1
    if dtype == torch.float64:
        return 67 + 3
    return 3 + (10 if dtype in (torch.float32, torch.bfloat16) else 3)


def _check_weight(op: str, input: Tensor, ndim: int, weight: Tensor, weight_ndim: int) -> None:
    check = torch.ops.histo._check_weight.default
    raise_from(check, op, *describe(input), ndim, *describe(weight), weight_ndim)


def _check_weight_sizes(op: str, given: Sequence[int], sizes: Sequence[int]) -> None:
    for a, b in zip(reversed(given), reversed(sizes), strict=False):
        require(
            (a == 1) | (a == b),
            f"{op}: weight must have sizes that broadcast to those of input, {{}}, got {{}}",
            sizes,
            given,
        )


def _check_values(op: str, input: Tensor, ndim: int, num_bins: int, dim: Sequence[int]) -> None:
    if isinstance(num_bins, torch.SymInt):
        require(num_bins >= 0, f"{op}: num_bins must be at least 0, got {{}}", num_bins)
        num_bins = 0
    check = torch.ops.histo._check_values.default
    raise_from(check, op, *describe(input), ndim, num_bins, list(dim))


def _check_digits(op: str, digits: Tensor, ndim: int) -> int:
    """Returns the last dimension's size, which decides what the digits are."""
    size = int(digits.shape[-1]) if digits.dim() else 0
    raise_from(torch.ops.histo._check_digits.default, op, *describe(digits), ndim, size)
    return size


@torch.library.register_fake("histo::weighted_histogram")  # type: ignore[untyped-decorator]
def _(
    input: Tensor,
    edges: Tensor,
    weight: Tensor,
    dim: Sequence[int] | None = None,
    *,
    flow: bool = False,
) -> Tensor:
    check_call(input, input.shape, dim, edges, BETWEEN)
    _check_weight(BETWEEN, input, input.dim(), weight, weight.dim())
    _check_weight_sizes(BETWEEN, weight.shape, input.shape)
    bins = edges.shape[-1] - 1 + (3 if flow else 0)
    sizes = [*kept_sizes(input.shape, dim), bins, sum_size(weight.dtype)]
    return input.new_empty(sizes, dtype=torch.int64)


@torch.library.register_fake("histo::weighted_channel_histogram")  # type: ignore[untyped-decorator]
def _(input: Tensor, weight: Tensor, num_bins: int = 256, dim: Sequence[int] = (0,)) -> Tensor:
    _check_values(VALUES, input, input.dim(), num_bins, dim)
    _check_weight(VALUES, input, input.dim(), weight, weight.dim())
    _check_weight_sizes(VALUES, weight.shape, input.shape)
    sizes = [*kept_sizes(input.shape, dim), num_bins, sum_size(weight.dtype)]
    return input.new_empty(sizes, dtype=torch.int64)


@torch.library.register_fake("histo::sum_of_digits")  # type: ignore[untyped-decorator]
def _(digits: Tensor) -> Tensor:
    size = _check_digits("sum_of_digits", digits, digits.dim())
    dtype = torch.int64 if size == 1 else torch.float64
    return digits.new_empty(digits.shape[:-1], dtype=dtype)


@torch.library.register_fake("histo::normalize_digits")  # type: ignore[untyped-decorator]
def _(digits: Tensor) -> Tensor:
    _check_digits("normalize_digits", digits, digits.dim())
    return digits.new_empty(digits.shape)


def _check_gradient_sizes(grad: Tensor, sizes: Sequence[int]) -> None:
    expected = f"{GRADIENT}: grad must have the sizes of the sums, {{}}, got {{}}"
    pairs = zip(grad.shape, sizes, strict=False)
    for fits in (grad.dim() == len(sizes), *(a == b for a, b in pairs)):
        require(fits, expected, sizes, grad.shape)


def _gradient_like(input: Tensor, dim: Sequence[int]) -> Tensor:
    """Of the input's sizes; in memory it lies channel by channel."""
    kept = kept_dimensions(input.dim(), dim)
    order = [*kept, *(d for d in range(input.dim()) if d not in kept)]
    memory = input.new_empty([input.shape[d] for d in order], dtype=torch.float64)
    return memory.permute([order.index(d) for d in range(input.dim())])


@torch.library.register_fake("histo::_weight_gradient")  # type: ignore[untyped-decorator]
def _(grad: Tensor, input: Tensor, edges: Tensor, dim: Sequence[int] | None, flow: bool) -> Tensor:
    check_call(input, input.shape, dim, edges, GRADIENT)
    bins = edges.shape[-1] - 1 + (3 if flow else 0)
    _check_gradient_sizes(grad, [*kept_sizes(input.shape, dim), bins])
    return _gradient_like(input, dim or ())


@torch.library.register_fake("histo::_weight_gradient_of_values")  # type: ignore[untyped-decorator]
def _(grad: Tensor, input: Tensor, dim: Sequence[int]) -> Tensor:
    _check_values(GRADIENT, input, input.dim(), grad.shape[-1] if grad.dim() else 0, dim)
    _check_gradient_sizes(grad, [*kept_sizes(input.shape, dim), *grad.shape[-1:]])
    return _gradient_like(input, dim)


def _weight_of_samples(
    op: str, weight: Tensor, weight_at: int | None, input: Tensor, sample: Sequence[int], at: int
) -> Tensor:
    """The weight of a call for all samples, which lie along dimension `at` of its input."""
    own = [size for d, size in enumerate(weight.shape) if d != weight_at]
    _check_weight(op, input, len(sample), weight, len(own))
    _check_weight_sizes(op, own, sample)
    return samples_first(weight, weight_at, max(len(sample), 1)).movedim(0, at)


def _samples_at(input: Tensor, at: int | None, info: Any) -> tuple[Tensor, int, list[int]]:
    """An input with a dimension of samples, where that is, and the sizes of a sample."""
    if at is None:  # strides of 0: nothing is copied
        input, at = input.expand(info.batch_size, *input.shape), 0
    return input, at, [size for d, size in enumerate(input.shape) if d != at]


@torch.library.register_vmap("histo::weighted_histogram")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    input: Tensor,
    edges: Tensor,
    weight: Tensor,
    dim: Sequence[int] | None = None,
    *,
    flow: bool = False,
) -> tuple[Tensor, int]:
    input, at, sample = _samples_at(input, in_dims[0], info)
    samples, edges, dims, place = as_one_call(BETWEEN, info, (at, in_dims[1]), input, edges, dim)
    weight = _weight_of_samples(BETWEEN, weight, in_dims[2], input, sample, at)
    return weighted_histogram(samples, edges, weight, dims, flow=flow), place


@torch.library.register_vmap("histo::weighted_channel_histogram")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    input: Tensor,
    weight: Tensor,
    num_bins: int = 256,
    dim: Sequence[int] = (0,),
) -> tuple[Tensor, int]:
    input, at, sample = _samples_at(input, in_dims[0], info)
    _check_values(VALUES, input, len(sample), num_bins, dim)
    samples, dims, place = of_all_samples(input, at, dim)
    weight = _weight_of_samples(VALUES, weight, in_dims[1], input, sample, at)
    return weighted_channel_histogram(samples, weight, num_bins, dims), place


@torch.library.register_vmap("histo::sum_of_digits")  # type: ignore[untyped-decorator]
def _(info: Any, in_dims: tuple[int, ...], digits: Tensor) -> tuple[Tensor, int]:
    _check_digits("sum_of_digits", digits.movedim(in_dims[0], 0), digits.dim() - 1)
    return sum_of_digits(digits.movedim(in_dims[0], 0)), 0


@torch.library.register_vmap("histo::normalize_digits")  # type: ignore[untyped-decorator]
def _(info: Any, in_dims: tuple[int, ...], digits: Tensor) -> tuple[Tensor, int]:
    _check_digits("normalize_digits", digits.movedim(in_dims[0], 0), digits.dim() - 1)
    return normalize_digits(digits.movedim(in_dims[0], 0)), 0


def _gradient_of_samples(info: Any, grad: Tensor, at: int | None, place: int) -> Tensor:
    """Gradients of the sums of all samples, which lie along dimension `place` of these."""
    if at is None:
        return grad.unsqueeze(place).expand(
            *grad.shape[:place], info.batch_size, *grad.shape[place:]
        )
    return grad.movedim(at, place)


@torch.library.register_vmap("histo::_weight_gradient")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    grad: Tensor,
    input: Tensor,
    edges: Tensor,
    dim: Sequence[int] | None,
    flow: bool,
) -> tuple[Tensor, int]:
    input, at, sample = _samples_at(input, in_dims[1], info)
    samples, edges, dims, place = as_one_call(GRADIENT, info, (at, in_dims[2]), input, edges, dim)
    grad = _gradient_of_samples(info, grad, in_dims[0], place)
    found = weight_gradient(grad, samples, edges, dims, flow)
    return found if sample else found.squeeze(1), at


@torch.library.register_vmap("histo::_weight_gradient_of_values")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    grad: Tensor,
    input: Tensor,
    dim: Sequence[int],
) -> tuple[Tensor, int]:
    input, at, sample = _samples_at(input, in_dims[1], info)
    _check_values(GRADIENT, input, len(sample), 0, dim)
    samples, dims, place = of_all_samples(input, at, dim)
    grad = _gradient_of_samples(info, grad, in_dims[0], place)
    found = weight_gradient_of_values(grad, samples, dims)
    return found if sample else found.squeeze(1), at
