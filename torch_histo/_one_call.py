"""Histograms of plain tensors, and their edges, by one call of one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_histo import _library
from torch_histo._arguments import dimensions, is_plain

_library.load()

_uniform_histogram = torch.ops.histo._uniform_histogram.default
_edges_of = torch.ops.histo._edges_of.default
_edges_of_axes = torch.ops.histo._edges_of_axes.default
_NUMBERS = {int, float, *(np.dtype(code).type for code in "bhilqBHILQed")}
"""Types of numbers between which edges are computed in float64."""


def takes_one_call(bins: object, range: Any) -> bool:
    """Whether the operator takes such bins: a number of them, between numbers or extremes."""
    return type(bins) is int and (range is None or holds_numbers(range))


def holds_numbers(range: Any) -> bool:
    """Whether a range is two numbers between which edges are computed in float64."""
    is_pair = type(range) in (tuple, list) and len(range) == 2
    return is_pair and _NUMBERS.issuperset(map(type, range))


def detached(tensor: Tensor) -> Tensor:
    """For operators without a gradient. A tensor that needs none is not wrapped anew."""
    return tensor.detach() if tensor.requires_grad else tensor


def counts_and_edges(
    input: Tensor, bins: object, range: Any, dim: int | Sequence[int] | None, flow: bool
) -> tuple[Tensor, Tensor] | None:
    """What `histogram` returns without weights, for calls that `in_one_call` makes."""
    return in_one_call(
        lambda input, range, dims: _uniform_histogram(input, bins, range, dims, flow),
        input,
        bins,
        range,
        dim,
    )


def in_one_call(
    operator: Callable[[Tensor, list[float] | None, list[int] | None], Any],
    input: Tensor,
    bins: object,
    range: Any,
    dim: int | Sequence[int] | None,
) -> tuple[Tensor, Tensor] | None:
    """What an operator returns for a number of bins and a range of numbers or None.

    Other calls give None, and so do those that end in an error: the longer way tells what it is."""
    if not (takes_one_call(bins, range) and is_plain(input)):
        return None
    try:
        ends = None if range is None else list(map(float, range))
        dims = None if dim is None else dimensions("histogram", dim)
        return operator(detached(input), ends, dims)  # type: ignore[no-any-return]
    except (RuntimeError, TypeError, OverflowError):
        return None


def edges_in_one_call(
    input: Tensor, num_bins: int, range: tuple[float, float] | None, dims: list[int] | None
) -> Tensor | None:
    """The edges of bins of one width between two numbers or each channel's extremes. Other calls
    give None, and so do those that end in an error."""
    if not is_plain(input):
        return None
    try:
        return _edges_of(detached(input), num_bins, range, dims)  # type: ignore[no-any-return]
    except (RuntimeError, TypeError):
        return None


def edges_of_axes(
    inputs: Sequence[Tensor], num_bins: Sequence[int], ranges: Sequence[tuple[Any, Any]]
) -> list[Tensor]:
    """The edges of several axes, each between two numbers. Other calls give none, and so do those
    that end in an error."""
    if not all(map(is_plain, inputs)):
        return []
    try:
        ends = [float(end) for pair in ranges for end in pair]
        return _edges_of_axes([*map(detached, inputs)], num_bins, ends)  # type: ignore[no-any-return]
    except (RuntimeError, TypeError, OverflowError):
        return []
