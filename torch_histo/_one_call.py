"""Histograms of plain tensors, by one call of one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_histo import _library
from torch_histo._arguments import dimensions, is_plain

_library.load()

_uniform_histogram = torch.ops.histo._uniform_histogram.default
_NUMBERS = {int, float, *(np.dtype(code).type for code in "bhilqBHILQed")}
"""Types of numbers between which edges are computed in float64."""


def takes_one_call(bins: object, range: Any) -> bool:
    """Whether the operator takes such bins: a number of them, between numbers or extremes."""
    is_pair = type(range) in (tuple, list) and _NUMBERS.issuperset(map(type, range))
    return type(bins) is int and (range is None or is_pair)


def counts_and_edges(
    input: Tensor, bins: object, range: Any, dim: int | Sequence[int] | None, flow: bool
) -> tuple[Tensor, Tensor] | None:
    """What `histogram` returns, for a number of bins and a range of numbers or None.

    Other calls give None, and so do those that end in an error: the longer way tells what it is."""
    if not (is_plain(input) and takes_one_call(bins, range)):
        return None
    try:
        if range is not None:
            range = list(map(float, range))
        dims = None if dim is None else dimensions("histogram", dim)
        if input.requires_grad:
            input = input.detach()  # edges have no gradient
        return _uniform_histogram(input, bins, range, dims, flow)  # type: ignore[no-any-return]
    except (RuntimeError, TypeError, OverflowError):
        return None
