"""The range of a histogram: the first and the last edge of bins of equal width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_histo._arguments import edges_or_number, filled, is_compiling, shown
from torch_histo._histogram_rules import is_small_float
from torch_histo._one_call import holds_numbers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Bound: TypeAlias = "float | Tensor | ArrayLike"
Range: TypeAlias = "Sequence[Bound] | Tensor | ArrayLike"
TensorBound = float | Tensor


def range_of_extremes(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The range that None takes, from each channel's extremes: low > high where it has none."""
    none = low > high
    return _widened(low.masked_fill(none, 0.0), high.masked_fill(none, 1.0))


def _widened(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    equal = low == high  # adding it takes fewer kernels than a choice
    return torch.add(low, equal, alpha=-0.5), torch.add(high, equal, alpha=0.5)


def bounds_of(input: Tensor, range: Range) -> tuple[Tensor, Tensor] | tuple[float, float]:
    """A range as numbers, between which edges are computed in float64, or as tensors on the input's
    device, of the type that edges are computed in."""
    if holds_numbers(range):  # as most are
        return _ends(range)
    pair = ends_of(range)
    if len(pair) != 2 or not all(map(_is_bound, pair)):
        expected = "range must be a pair of numbers or of tensors"
        raise TypeError(f"histogram: {expected}, got {shown(range)}{_hint_for_range(range)}")
    in_float32 = all(
        is_small_float(bound) if isinstance(bound, Tensor) else _is_float32_scalar(bound)
        for bound in pair
    )
    dtype = torch.float32 if in_float32 else torch.float64
    if any(isinstance(bound, Tensor) for bound in pair):
        low, high = (_bound_on_device(input, bound, dtype) for bound in pair)
        try:
            return _widened(low, high)
        except RuntimeError as error:
            raise RuntimeError(
                "histogram: range must be tensors that broadcast with each other, "
                f"got sizes {list(low.shape)} and {list(high.shape)}"
            ) from error
    first, last = _ends(pair)
    if in_float32:
        return filled(input, first, dtype), filled(input, last, dtype)
    return first, last


def _ends(pair: Any) -> tuple[float, float]:
    """The ends of the bins between two numbers, as float64."""
    first, last = _finite(pair)
    return (first - 0.5, last + 0.5) if first == last else (first, last)


def ends_of(range: Range | None) -> tuple[Any, ...]:
    """A pair of numbers or tensors. Others, and what is no pair, stay as they are."""
    return tuple(v if _is_bound(v) else _as_bound(v) for v in pair_of(range))


def pair_of(range: Range | None) -> tuple[Any, ...]:
    """A range as a tuple of two, or another tuple if it is none.

    Arrays and tensors `[2, ...]` come from np.percentile and torch.quantile. Their rows are the
    pair, unless their last dimension may be it as well."""
    if isinstance(range, (tuple, list)):
        return tuple(range)
    found = edges_or_number("histogram: range", range)
    if not isinstance(found, Tensor) or found.shape[:1] != (2,):
        return ()
    if found.dim() > 1 and found.shape[-1] == 2:
        return ()
    if found is range or is_compiling() or found.device.type != "cpu":
        return found.unbind()
    return tuple(np.asarray(range))  # numbers, which are on no device


def _hint_for_range(range: object) -> str:
    """How to make a pair of an array or a tensor that has the edges last."""
    sizes = tuple(getattr(range, "shape", ()))
    if len(sizes) < 2 or sizes[-1] != 2:
        return ""
    rows = "tuple(range) or " if sizes[0] == 2 else ""
    return f": pass {rows}(range[..., 0], range[..., 1])"


def _is_bound(value: object) -> bool:
    if isinstance(value, Tensor):
        return not value.is_complex() and value.dtype != torch.bool
    return isinstance(value, (Real, torch.SymInt, torch.SymFloat)) and not isinstance(value, bool)


def _as_bound(value: Any) -> Any:
    return edges_or_number("histogram: range", value, least_ndim=0)


def _is_float32_scalar(value: object) -> bool:
    """Whether it is a float32 of NumPy, which then computes edges in float32."""
    # A compiler's symbol has no attributes, and it makes tensors of NumPy's scalars.
    return not is_compiling() and getattr(value, "dtype", None) == "float32"


def _finite(range: tuple[TensorBound, ...]) -> tuple[float, float]:
    """A pair of numbers as float64."""
    try:
        low, high = (v if isinstance(v, torch.SymFloat) else float(v) for v in range)
    except OverflowError:  # of an integer
        low = high = math.inf
    if not -math.inf < low <= high < math.inf:
        raise RuntimeError(
            "histogram: range must be two finite numbers, the first not above the second, "
            f"got {shown(range)}"
        )
    return low, high


def _bound_on_device(input: Tensor, bound: TensorBound, dtype: torch.dtype) -> Tensor:
    if not isinstance(bound, Tensor):
        return filled(input, float(bound), dtype)
    if bound.device != input.device:
        raise RuntimeError(
            f"histogram: range must be on the device of input, {input.device}, "
            f"got {bound.device}: pass numbers, or tensors moved by .to(input.device)"
        )
    return bound.detach().to(dtype)
