"""The contents of a tensor at a glance: extremes, moments, quantiles and a histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torch_histo._arguments import dimensions, kept_dimensions, renamed, tensor_of
from torch_histo._moments import moments_of
from torch_histo.streams import QuantileSketch

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Summary", "summarize"]


@dataclass(frozen=True, eq=False)
class Summary:
    """The result of `summarize`: tensors of the kept dimensions, on the device of the input."""

    count: Tensor
    nan: Tensor
    inf: Tensor
    zeros: Tensor
    min: Tensor
    max: Tensor
    mean: Tensor
    var: Tensor
    std: Tensor
    quantiles: Tensor
    sketch: QuantileSketch


def summarize(
    input: Tensor | ArrayLike,
    dim: int | Sequence[int] | None = None,
    *,
    q: Sequence[float] = (0.01, 0.25, 0.5, 0.75, 0.99),
    bits: int = 7,
    exponents: tuple[int, int] = (-32, 32),
) -> Summary:
    """Summarizes the numbers of a tensor, channel by channel, in four reads on the device.

    The first read counts in the bins of a `QuantileSketch`, the second finds the extremes; two
    more find the mean, and the deviations from it, in float64. Only a part of the tensor is
    converted at a time; a compiler does so as it reads. Nothing synchronizes or fails, whatever
    the numbers are.

    Args:
        input: what `torch_histo.histogram` takes.
        dim: the dimension or dimensions to summarize; None means all. The others are kept.
        q: which quantiles, from 0 to 1.
        bits, exponents: of the sketch, as `torch_histo.QuantileSketch` takes them: a channel needs
            128 KiB by default, and 8 KiB with 3 bits.

    Returns:
        Tensors of the kept dimensions. `count`, `nan`, `inf` (of both signs) and `zeros`: int64,
        exact; `count` is that of all elements. `min` and `max` of the finite values: float64,
        exact, but rounded outwards for integers beyond 2^53. `mean`, `var` and `std` of the
        finite values, from the values: float64, NaN where torch.mean, torch.var and torch.std are.
        `std` is wrong by at most 2^-40 of itself, and `mean` by 2^-40 of the mean magnitude, most
        by 1,000 times less; `var` is infinite or 0 where float64 cannot hold it.
        `quantiles` `[q, kept...]`, infinities among them: float64, within 2^-(bits + 1) for
        magnitudes in the span of the exponents; exact for bool and dtypes whose fraction has at
        most `bits` bits, such as bfloat16, float8 and integers of 8 bits: there each bin of the
        span has one value.
        `sketch`: the `QuantileSketch` of the input, for other quantiles and for plots.

    Raises:
        RuntimeError, TypeError: what `torch_histo.histogram` and `torch_histo.QuantileSketch`
            raise.

    Example:
        >>> found = torch_histo.summarize(torch.tensor([0.0, 1, 2, torch.nan, -torch.inf]))
        >>> found.count, found.nan, found.inf, found.zeros
        (tensor(5), tensor(1), tensor(1), tensor(1))
        >>> found.max, found.quantiles[0]
        (tensor(2., dtype=torch.float64), tensor(-inf, dtype=torch.float64))

    Source: `QuantileSketch`.
    """
    input = tensor_of("summarize: input", input)
    dims = dimensions("summarize", dim)
    kept = [input.shape[d] for d in kept_dimensions(input.dim(), dims)]
    try:
        sketch = QuantileSketch(kept, bits, exponents, device=input.device)
        counts, low, high = sketch._read(input, dims or None)
        sketch._set(counts, low, high)
        if fraction_bits(input.dtype) <= bits:
            sketch._place = 0.0
        quantiles = sketch.quantile(q)
    except (RuntimeError, TypeError) as error:
        raise renamed(error, "summarize", "input") from None
    finite = counts[..., 1:-2].sum(-1)
    mean, var, std = moments_of(input, dims, low, high, finite).mean_var_std()
    return Summary(
        count=counts.sum(-1),
        nan=counts[..., -1],
        inf=counts[..., 0] + counts[..., -2],
        zeros=counts[..., counts.shape[-1] // 2 - 1],
        min=sketch.min,
        max=sketch.max,
        mean=mean,
        var=var,
        std=std,
        quantiles=quantiles,
        sketch=sketch,
    )


def fraction_bits(dtype: torch.dtype) -> int:
    """How many bits follow the first one of a number."""
    if dtype == torch.bool:
        return 0
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return info.bits - 1 - (info.min < 0)
    return round(-math.log2(torch.finfo(dtype).eps))
