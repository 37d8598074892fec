"""Mean, variance and sums of the finite values of a tensor, from the values, not from bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torch_histo._arguments import is_compiling, reduced_dimensions
from torch_histo._stream import exact_double

RELATIVE_ERROR = 2.0**-40
"""The largest error of a standard deviation, as a share of it, and of a mean, as a share of the
mean magnitude. It bounds the rounding of float64 sums; most results are 1,000 times closer."""

_BLOCK, _BLOCK_OF_THREAD = 1 << 22, 1 << 16
"""The most elements that are converted to float64 at a time: on a GPU, and by a thread of a CPU."""

_EXPONENT_BIAS = 1023
_LARGEST_EXPONENT = 1022
_FRACTION_BITS = 52
_HALF = 32
_LOW_HALF = (1 << _HALF) - 1


class Moments(NamedTuple):
    """Number, mean and squared deviations of the finite values of each channel.

    The unit of `mean` and `rest` is 2^exponent, and that of `squares` is its square. For float64 it
    is near the largest magnitude, so nothing overflows, and moments of 1e-300 are as exact as those
    of 1. Other types need no unit."""

    number: Tensor
    """How many there are, in float64, as all that follows but the exponent."""
    mean: Tensor
    """0 where there is no value."""
    rest: Tensor
    """What rounding took from the mean: values may differ by less, whose squares it would spoil."""
    squares: Tensor
    """The sum of squared differences from the mean."""
    exponent: Tensor
    """int64."""

    def together(self) -> Moments:
        """The moments of all values that the entries along the first dimension have."""
        exponent = self.exponent.amax(0)
        unit = power_of_two(self.exponent - exponent)
        means, number = self.mean * unit, self.number.sum(0)
        shift = means.gather(0, self.number.argmax(0, keepdim=True))
        apart = (means - shift) + self.rest * unit
        more = (self.number * apart).sum(0) / number.clamp(min=1)
        squares = (self.squares * unit * unit + self.number * (apart - more).square()).sum(0)
        return Moments(number, *_exact_sum(shift.squeeze(0), more), squares, exponent)

    def mean_var_std(self) -> tuple[Tensor, Tensor, Tensor]:
        """Those of torch.mean, torch.var and torch.std: NaN for too few values.

        A variance beyond float64 is infinite or 0; the standard deviation is right all the same.
        """
        unit = power_of_two(self.exponent)
        mean = (self.mean * unit).where(self.number > 0, torch.nan)
        var = (self.squares / (self.number - 1)).where(self.number > 1, torch.nan)
        return mean, var * unit * unit, var.sqrt() * unit


def no_moments(like: Tensor) -> Moments:
    """The moments of no values, for channels of the sizes of a tensor, on its device."""
    number, mean, rest, squares = torch.zeros((4, *like.shape), device=like.device).double()
    return Moments(number, mean, rest, squares, _exponent(mean))


def moments_of(x: Tensor, dim: Sequence[int], low: Tensor, high: Tensor, number: Tensor) -> Moments:
    """Reads a tensor twice: for its mean, and for the differences from that.

    `low` and `high` are what `finite_range` returns, and `number` is how many values are finite.
    """
    low, high = exact_double(low), exact_double(high)
    largest = torch.maximum(low.abs(), high.abs()).where(number > 0, 0.0)  # no value: infinite
    exponent = _exponent(largest) if _needs_scale(x) else torch.zeros_like(number)
    scale = power_of_two(-exponent)
    divisor = number.double().clamp(min=1)
    (total,) = _finite_sums(x, dim, scale, None, squares=False)
    shift = total / divisor
    if not x.is_floating_point():
        shift = shift.round()  # so that the differences are integers, too, and exact
    difference, squares = _finite_sums(x, dim, scale, shift)
    more = difference / divisor
    mean, rest = _exact_sum(shift, more)
    mean = mean.clamp(low * scale, high * scale).where(number > 0, 0.0)
    squares = (squares - difference * more).clamp(min=0)
    rest, squares = (tensor.where(low < high, 0.0) for tensor in (rest, squares))
    return Moments(number.double(), mean, rest, squares, exponent)


def _exact_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded sum, and what rounding took from it (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def sums_of(x: Tensor, dim: Sequence[int], bounds: Tensor) -> tuple[Tensor, Tensor]:
    """The sum and the sum of squares of the finite values, which lie between some of `bounds`.

    Beyond float64 they are infinite or 0, and never NaN."""
    if not _needs_scale(x):
        total, squares = _finite_sums(x, dim, None, None)
        return total, squares
    exponent = _exponent(exact_double(bounds).abs().amax(-1))
    scale, unit = power_of_two(-exponent), power_of_two(exponent)
    total, squares = _finite_sums(x, dim, scale, None)
    return total * unit, squares * unit * unit


def _needs_scale(x: Tensor) -> bool:
    """Whether squares may be beyond float64: those of all types but float64 are not."""
    return x.dtype == torch.float64


def _finite_sums(
    x: Tensor,
    dim: Sequence[int],
    scale: Tensor | None,
    shift: Tensor | None,
    *,
    squares: bool = True,
) -> list[Tensor]:
    """Sums of scale * value - shift for each channel in float64, and of its square.

    Only float64 is scaled."""
    x = x.detach()
    x = x.unsqueeze(0) if x.dim() == 0 else x
    dims = sorted(reduced_dimensions(x.dim(), dim))
    for d in dims:
        scale = None if scale is None else scale.unsqueeze(d)
        shift = None if shift is None else shift.unsqueeze(d)
    scale = scale if _needs_scale(x) else None
    return [found.squeeze(dims) for found in _sums(x, dims, scale, shift, squares)]


def _sums(
    x: Tensor, dims: list[int], scale: Tensor | None, shift: Tensor | None, squares: bool
) -> list[Tensor]:
    """The same. Reduced dimensions stay, of size 1, in `scale`, `shift` and the results."""
    if is_compiling() or x.numel() <= _block(x.device):
        y = _shifted(x, scale, shift)
        total = y.sum(dims, keepdim=True)
        return [total, y.mul_(y).sum(dims, keepdim=True)] if squares else [total]
    longest = max(range(x.dim()), key=lambda d: x.shape[d])
    parts = x.tensor_split(2, longest)
    if longest in dims:
        halves = [_sums(half, dims, scale, shift, squares) for half in parts]
        return [some + others for some, others in zip(*halves, strict=True)]
    scales, shifts = (
        (None, None) if tensor is None else tensor.tensor_split(2, longest)
        for tensor in (scale, shift)
    )
    halves = [
        _sums(*own, squares=squares)
        for own in zip(parts, (dims, dims), scales, shifts, strict=True)
    ]
    return [torch.cat(pair, longest) for pair in zip(*halves, strict=True)]


def _block(device: torch.device) -> int:
    """The most elements that are converted at a time: their copies fit the caches of a CPU."""
    return _BLOCK if device.type != "cpu" else _BLOCK_OF_THREAD * torch.get_num_threads()


def _shifted(x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """A new float64 tensor: 0 for what is not finite."""
    if x.is_floating_point():
        y = x * scale if scale is not None else x.to(torch.float64, copy=True)
        y = y if shift is None else y.sub_(shift)
        return y.nan_to_num_(0.0, 0.0, 0.0)
    if shift is None or x.dtype not in (torch.int64, torch.uint64):
        return x.double() if shift is None else x.double().sub_(shift)
    # Both halves of a number and of the shift are exact in float64, and so are their differences.
    bits, size = x.view(torch.int64), 2.0**_HALF
    high = bits >> _HALF if x.dtype == torch.int64 else (bits >> _HALF) & _LOW_HALF
    shift_high = (shift / size).floor()
    shift_low = shift - shift_high * size
    return ((high - shift_high) * size).add_((bits & _LOW_HALF) - shift_low)


def _exponent(magnitude: Tensor) -> Tensor:
    """int64: the exponents of float64, of those whose powers of two are normal with both signs."""
    fields = (magnitude.view(torch.int64) >> _FRACTION_BITS) & 0x7FF
    return (fields - _EXPONENT_BIAS).clamp(-_LARGEST_EXPONENT, _LARGEST_EXPONENT)


def power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent exactly, as float64; 2^-1022 for exponents below."""
    fields = exponent.clamp(min=-_LARGEST_EXPONENT) + _EXPONENT_BIAS
    return (fields << _FRACTION_BITS).view(torch.float64)
