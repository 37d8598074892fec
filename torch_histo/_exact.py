"""Counts, extremes and exact sums of channels by one read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_histo import _library
from torch_histo._arguments import kept_sizes, of_all_samples
from torch_histo._histogram_rules import check_counted

_library.load()  # the rules below need the operators

RELATIVE_ERROR = 2.0**-53
"""The largest error of a mean and of a standard deviation, which are rounded once."""

_COUNTS, _NUMBERS, _MOMENTS = 4, 7, 5
_DIGIT_BITS = 32


class Read(NamedTuple):
    """What one read finds: tensors of the channels, [channels...]."""

    elements: Tensor
    """int64, as the next three: of all elements."""
    nan: Tensor
    inf: Tensor
    zeros: Tensor
    min: Tensor
    """Of the finite values, in float64, as all that follows: NaN where there is none."""
    max: Tensor
    mean: Tensor
    var: Tensor
    std: Tensor
    sum: Tensor
    squares: Tensor
    digits: Tensor
    """int64 [channels..., n]: the exact sums of values and of squares. Those of parts of a tensor
    can be added."""

    @property
    def finite(self) -> Tensor:
        """How many values are finite."""
        return self.elements - self.nan - self.inf


def read(x: Tensor, dim: Sequence[int], *, digits: bool = False) -> Read:
    """Reads a tensor once; there are no digits if none are wanted."""
    counts, numbers, sums = torch.ops.histo._summary(x.detach(), list(dim) or None, digits)
    return Read._make((*counts.unbind(0), *numbers.unbind(0), sums))


def moments_of_digits(digits: Tensor, number: Tensor, dtype: torch.dtype) -> Tensor:
    """[5, channels...]: mean, var, std, sum and sum of squares of `number` values of a dtype."""
    found: Tensor = torch.ops.histo._moments_of_digits(digits, number, dtype)
    return found


def sum_of_channels(digits: Tensor) -> Tensor:
    """The digits of all channels together, [n]. There may be many: the sums are carried first."""
    flat = digits.reshape(-1, digits.shape[-1]).clone()
    of_values = flat.shape[-1] // 3  # squares have twice as many digits
    for part in (flat[:, :of_values], flat[:, of_values:]):
        for i in range(part.shape[-1] - 1):
            part[:, i + 1] += part[:, i] >> _DIGIT_BITS
            part[:, i] &= (1 << _DIGIT_BITS) - 1
    return flat.sum(0)


def num_digits(dtype: torch.dtype) -> int:
    """Of the sum of values and the sum of squares of a channel, together."""
    if dtype == torch.float64:
        return 3 * 67
    if dtype in (torch.float32, torch.bfloat16):
        return 3 * 10
    return 3 * (3 if dtype.is_floating_point else 4)


@torch.library.register_fake("histo::_summary")  # type: ignore[untyped-decorator]
def _(input: Tensor, dim: Sequence[int] | None, digits: bool) -> tuple[Tensor, Tensor, Tensor]:
    check_counted("summarize", input, input.dim(), dim)
    kept = kept_sizes(input.shape, dim)
    size = num_digits(input.dtype) if digits else 0
    return (
        input.new_empty([_COUNTS, *kept], dtype=torch.int64),
        input.new_empty([_NUMBERS, *kept], dtype=torch.float64),
        input.new_empty([*kept, size], dtype=torch.int64),
    )


@torch.library.register_fake("histo::_moments_of_digits")  # type: ignore[untyped-decorator]
def _(digits: Tensor, number: Tensor, dtype: torch.dtype) -> Tensor:
    return digits.new_empty([_MOMENTS, *number.shape], dtype=torch.float64)


@torch.library.register_vmap("histo::_summary")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    input: Tensor,
    dim: Sequence[int] | None,
    digits: bool,
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int]]:
    at = in_dims[0]
    assert at is not None
    check_counted("summarize", input, input.dim() - 1, dim)
    input, dims, place = of_all_samples(input, at, dim)
    found = torch.ops.histo._summary(input, dims, digits)
    return found, (place + 1, place + 1, place)


@torch.library.register_vmap("histo::_moments_of_digits")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    digits: Tensor,
    number: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, int]:
    pairs = zip((digits, number), in_dims[:2], strict=True)
    size = info.batch_size
    first = [x.expand(size, *x.shape) if at is None else x.movedim(at, 0) for x, at in pairs]
    return torch.ops.histo._moments_of_digits(*first, dtype), 1


def exact_double(values: Tensor) -> Tensor:
    """float64, exactly. A CPU that flushes subnormals would make 0 of those of float32."""
    if values.dtype == torch.bfloat16 and values.device.type == "cpu":
        values = values.float()
    wide = values.double()
    if values.dtype != torch.float32 or values.device.type != "cpu":
        return wide
    bits = values.view(torch.int32)
    magnitude = (bits & 0x7FFFFF).double() * 2.0**-149
    is_subnormal = (bits & 0x7F800000) == 0
    return torch.where(is_subnormal, magnitude.where(bits >= 0, -magnitude), wide)
