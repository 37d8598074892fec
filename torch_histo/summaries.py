"""The contents of a tensor at a glance: extremes, moments, quantiles and a histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from torch_histo import _exact
from torch_histo._arguments import (
    all_but_channel,
    dimensions,
    is_compiling,
    kept_sizes,
    reduced_dimensions,
    refuse_dtensor,
    renamed,
    tensor_of,
)
from torch_histo._exact import exact_double
from torch_histo._keywords import refuse_keyword
from torch_histo.streams import QuantileSketch
from torch_histo.streams._stream import fractions_of
from torch_histo.streams.sketch import checked_bins

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Summary", "summarize"]

_ARGUMENTS = ("input", "dim", "channel_dim", "q", "bits", "exponents")


class _Source(NamedTuple):
    """What a sketch is made from."""

    input: Tensor
    dims: list[int]
    bits: int
    exponents: tuple[int, int]
    version: int | None
    """How often torch had written the input; None if it does not know."""

    def sketch(self) -> QuantileSketch:
        if self.was_written():
            raise RuntimeError(
                "Summary.sketch: input must be what it was when it was summarized, but it was "
                "written since: ask for the sketch before, or call summarize again"
            )
        return _sketch(self.input, self.dims, self.bits, self.exponents)

    def was_written(self) -> bool:
        return self.version != _version(self.input)


def _version(x: Tensor) -> int | None:
    return None if x.is_inference() else x._version


@dataclass(frozen=True, eq=False)
class Summary:
    """The result of `summarize`: tensors of the kept dimensions, on the device of the input.

    `sketch` is made when it is first asked for, from the input, which is kept until then. That is
    an error of one line if torch has written the input since. Writes to an array of NumPy, or to a
    tensor of `torch.inference_mode`, are not seen: the sketch is then of what is there. A copy and
    a pickle have the sketch, and not the input.
    """

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
    _sketch: QuantileSketch | _Source | None = field(repr=False)

    @property
    def sketch(self) -> QuantileSketch:
        """The `QuantileSketch` of the input, for other quantiles and for plots."""
        if self._sketch is None:
            raise RuntimeError(
                "Summary.sketch: the summary must be copied or pickled before its input is "
                "written, but the input was written before: call summarize again"
            )
        if isinstance(self._sketch, _Source):
            object.__setattr__(self, "_sketch", self._sketch.sketch())
        return self._sketch  # type: ignore[return-value]

    def __getstate__(self) -> dict[str, Any]:
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        if isinstance(self._sketch, _Source):
            state["_sketch"] = None if self._sketch.was_written() else self.sketch
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, "_sketch" if name == "sketch" else name, value)


def summarize(
    input: Tensor | ArrayLike,
    dim: int | Sequence[int] | None = None,
    *,
    channel_dim: int | None = None,
    q: Sequence[float] = (0.01, 0.25, 0.5, 0.75, 0.99),
    bits: int = 7,
    exponents: tuple[int, int] = (-32, 32),
    **unknown: NoReturn,
) -> Summary:
    """Summarizes the numbers of a tensor, channel by channel.

    One read finds all but the quantiles. Sums are exact, so the results have the same bits on every
    device, for every number of threads and every order of the elements. On CUDA nothing
    synchronizes. Nothing fails, whatever the numbers are.

    Args:
        input: what `torch_histo.histogram` takes.
        dim: the dimension or dimensions to summarize; None means all. The others are kept.
        channel_dim: the one dimension that is kept, instead of `dim`.
        q: which quantiles, from 0 to 1.
        bits, exponents: of the sketch, as `torch_histo.QuantileSketch` takes them: a channel needs
            128 KiB by default, and 8 KiB with 3 bits. They do not change the other results.

    Returns:
        Tensors of the kept dimensions. `count`, `nan`, `inf` (of both signs) and `zeros`: int64,
        exact; `count` is that of all elements. `min` and `max` of the finite values: float64,
        exact, but rounded outwards for integers beyond 2^53. `mean`, `var` and `std` of the
        finite values: float64, NaN where torch.mean, torch.var and torch.std are. `var` is
        infinite or 0 where float64 cannot hold it, and `std` is right there, too.
        Each is the float64 that is nearest to the exact number.
        `quantiles` `[q, kept...]`: float64, exact: values of the input, infinities among them.
        Each is what torch.nanquantile takes with interpolation="nearest", of the rank
        q * (n - 1) rounded to the nearest integer, half to even, for n values that are not NaN;
        as there, the product is float32 for floats of up to 32 bits and up to 2^24 elements a
        channel. Integers beyond 2^53 are rounded to float64. NaN where every value is NaN.
        `sketch`: the `QuantileSketch` of the input, for other quantiles and for plots. It is made
        when it is asked for: see `torch_histo.Summary`.

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
    if unknown:
        refuse_keyword("summarize", unknown, _ARGUMENTS)
    input = tensor_of("summarize: input", input)
    if channel_dim is not None:
        input, dim = all_but_channel("summarize", input, dim, channel_dim)
    dims = dimensions("summarize", dim)
    bits, exponents = checked_bins("summarize", bits, exponents)
    refuse_dtensor("summarize: input", input, "input.to_local()")
    try:
        numbers = tuple(_exact.read(input, dims)[:_NUMBERS])
        sketch = _sketch(input, dims, bits, exponents) if is_compiling() else None
        quantiles = _quantiles(input, dims, q, numbers[0])
    except (RuntimeError, TypeError) as error:
        raise renamed(error, "summarize", "input") from None
    made = sketch if sketch is not None else _Source(input, dims, bits, exponents, _version(input))
    return Summary(*numbers, quantiles, made)  # type: ignore[call-arg, arg-type]


_NUMBERS = 9
"""The fields of a summary before its quantiles."""


def _quantiles(input: Tensor, dims: list[int], q: Any, counts: Tensor) -> Tensor:
    fractions = fractions_of("summarize", q, counts)
    if not all(input.shape[d] for d in reduced_dimensions(input.dim(), dims)):
        sizes = (*fractions.shape, *counts.shape)
        return torch.full(sizes, torch.nan, dtype=torch.float64, device=input.device)
    found = torch.ops.histo.quantile(
        input.detach(), fractions, dims or None, interpolation="nearest", ignore_nan=True
    )
    return exact_double(found)


def _sketch(
    input: Tensor, dims: list[int], bits: int, exponents: tuple[int, int]
) -> QuantileSketch:
    kept = kept_sizes(input.shape, dims)
    sketch = QuantileSketch(kept, bits, exponents, device=input.device)
    sketch._set(*sketch._read(input, dims or None))
    if fraction_bits(input.dtype) <= bits:
        sketch._place = 0.0
    return sketch


def fraction_bits(dtype: torch.dtype) -> int:
    """How many bits follow the first one of a number."""
    if dtype == torch.bool:
        return 0
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return info.bits - 1 - (info.min < 0)
    return round(-math.log2(torch.finfo(dtype).eps))
