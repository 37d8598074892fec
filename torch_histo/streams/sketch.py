"""Quantiles of a stream of unknown range: counts of the leading bits of its values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor
from typing_extensions import Self

from torch_histo import distributed
from torch_histo._arguments import has_values, integer, is_compiling, is_plain, shown
from torch_histo._exact import exact_double
from torch_histo._keywords import refuse_keyword
from torch_histo._one_call import detached
from torch_histo._sketch_operators import sketch_add, sketch_quantile
from torch_histo.streams._drawing import (
    QUANTILES,
    densities,
    draw_lines,
    fractions_to_mark,
    powers_of_two,
)
from torch_histo.streams._stream import Stream, channel_sizes, fractions_of, ranks_of

_INT64 = torch.iinfo(torch.int64)
_FRACTION_BITS = 52
_EXPONENT_BIAS = 1023
_MOST_BITS = 16
_MOST_DRAWN = 900
"""How many powers of two matplotlib can draw, and the last one that has a margin beyond it."""
_INFINITY_KEY = (2 * _EXPONENT_BIAS + 1) << _FRACTION_BITS
"""That of +inf; the key of -inf has the opposite bits."""
_MOST_CACHED = 1 << 17
_MOST_OF_ALL = (0.005, 0.995)
"""A plot shows at least the values between these quantiles."""


class QuantileSketch(Stream):
    """Quantiles of streams whose range is not known in advance, with a bound on the error.

    Its bins are the floats that begin with the same bits: sign, exponent, and the first `bits`
    bits of the fraction, for the exponents of a span. Bins of their own count zero, what is
    smaller than the span (tiny) and larger (huge), by sign; -inf, +inf and NaN are counted as
    underflow, overflow and NaN. So every value of every dtype is counted. Counts are exact, and
    the same bits however the stream is divided. An update reads its input once, and adds to the
    counts where they are; in an exported program it reads it twice: to count, and to find the
    extremes.

    Args:
        channels: the sizes of the dimensions that `update` keeps, an int or several; None means
            that there are none.
        bits: how many bits of the fraction tell bins apart, from 0 to 16.
        exponents: the span, (first, last): magnitudes from 2^first up to 2^last, which is not in
            it. At least -1022 and at most 1023.
        device: where its buffers are, as modules of torch take it.

    `quantile(q)` is near the order statistic of rank q * (count - 1), rounded to the nearest
    integer, which torch.quantile takes with interpolation="nearest". It is

    - the middle of the bin for a magnitude in the span: its relative error is at most
      2^-(bits + 1);
    - 0, -inf and +inf themselves;
    - half of the smallest magnitude in the span for a tiny one, with its sign: wrong by at
      most as much;
    - `min` or `max` for a huge one, by its sign;

    and never beyond `min` and `max`; the smallest and the largest finite value are exact.

    A channel takes 8 (2 (last - first) 2^bits + 8) bytes: 128 KiB with 7 bits and 64 exponents,
    8 KiB with 3 bits.

    Attributes:
        hist: int64 counts `[channels..., n + 3]`: -inf, the bins from huge negatives to huge
            positives, +inf, NaN.
        edges: float64 `[n + 1]`. Those of negatives are the floats after the opposite ones, so
            that a value and its opposite are in opposite bins.
        count: int64 `[channels...]`, how many values came, NaN aside.
        min, max: float64 `[channels...]`, the finite extremes, exact; NaN where there are none.
            Of integers beyond 2^53 they are rounded outwards.

    Raises:
        RuntimeError: bits or exponents beyond these, or a span of none.
        TypeError: an argument of a type that it does not take.

    Example:
        >>> sketch = torch_histo.QuantileSketch()
        >>> for scale in (1e-3, 1.0, 1e6):
        ...     sketch.update(scale * torch.arange(1, 101))
        >>> sketch.quantile(torch.tensor([0.0, 0.5, 0.9, 1.0]))
        tensor([1.0000e-03, 5.1125e+01, 6.9992e+07, 1.0000e+08], dtype=torch.float64)
        >>> sketch.count, sketch.min
        (tensor(300), tensor(0.0010, dtype=torch.float64))

    Source: the bins of HdrHistogram (Tene) for floats; the bound of DDSketch (Masson, Rim and
    Lee, 2019), here with bins that the bits of a float give.
    """

    min_key: Tensor
    max_key: Tensor
    _place = 0.5
    """The place in a bin that its values are taken to have: 0 is the end towards zero."""

    def __init__(
        self,
        channels: int | Sequence[int] | None = None,
        bits: int = 7,
        exponents: tuple[int, int] = (-32, 32),
        *,
        device: torch.device | str | None = None,
        **unknown: NoReturn,
    ) -> None:
        name = type(self).__name__
        if unknown:
            refuse_keyword(name, unknown, ("channels", "bits", "exponents", "device"))
        self.bits, self.exponents = checked_bins(name, bits, exponents)
        sizes = () if channels is None else channel_sizes(name, channels)
        first, last = self.exponents
        counts = (2 * (last - first) << self.bits) + 8
        hist = torch.zeros(*sizes, counts, dtype=torch.int64, device=device)
        super().__init__(_edges_beside(hist, self.bits, first, last), hist=hist)
        # Keys of the extremes: integers in the order of the floats, of +inf and -inf at first.
        for name, key in (("min_key", _INFINITY_KEY), ("max_key", ~_INFINITY_KEY)):
            self.register_buffer(name, torch.full(sizes, key, dtype=torch.int64, device=device))

    def extra_repr(self) -> str:
        return f"channels={tuple(self._sizes())}, bits={self.bits}, exponents={self.exponents}"

    @property
    def min(self) -> Tensor:
        return self._extreme(self.min_key)

    @property
    def max(self) -> Tensor:
        return self._extreme(self.max_key)

    def _extreme(self, key: Tensor) -> Tensor:
        return _float(key).where(self.min_key <= self.max_key, torch.nan)

    def _add_counts(self, x: Tensor, dim: int | Sequence[int] | None) -> None:
        if not self._adds_in_place(x, dim):
            counts, low, high = self._read(x, dim)
            self.hist.add_(counts)
            self._widen(_key(low), _key(high))

    def _adds_in_place(self, x: Tensor, dim: int | Sequence[int] | None) -> bool:
        """Whether an operator has added the counts and the extremes."""
        state = self.hist, self.min_key, self.max_key
        if is_compiling():
            # An exported program holds public operators alone. (In PyTorch 2.11, is_exporting() is
            # True for torch.compile, too.)
            exports: bool = torch.compiler._is_exporting_flag
            if exports or not all(part.is_contiguous() for part in state):
                return False
            sketch_add(*state, x.detach(), self.bits, *self.exponents, self._checked_dim(x, dim))
            return True
        if not (is_plain(x) and is_plain(self.hist)):
            return False
        try:
            sketch_add(*state, detached(x), self.bits, *self.exponents, self._dimensions(dim))
        except RuntimeError:  # nothing has changed; the other way says what is wrong, or counts
            return False
        return True

    def quantile(
        self, q: float | Sequence[float] | Tensor | None = None, **unknown: NoReturn
    ) -> Tensor:
        if not unknown and is_plain(self.hist):
            fractions = fractions_of(f"{type(self).__name__}.quantile", q, self.hist)
            state = self.hist, self.min_key, self.max_key
            bins = self.bits, *self.exponents
            with suppress(RuntimeError):  # buffers that are not contiguous
                found: Tensor = sketch_quantile(*state, fractions, *bins, self._place)
                return found
        return super().quantile(q, **unknown)

    quantile.__doc__ = Stream.quantile.__doc__

    def _read(self, x: Tensor, dim: int | Sequence[int] | None) -> tuple[Tensor, Tensor, Tensor]:
        """The counts and the finite extremes of a tensor."""
        counts = self._counts_of(x, dim)
        return counts, *torch.ops.histo.finite_range(x.detach(), self._dimensions(dim))

    def _set(self, counts: Tensor, low: Tensor, high: Tensor) -> None:
        """Makes these all that came. They may be a tracer's, which no buffer can add."""
        for name, tensor in (("hist", counts), ("min_key", _key(low)), ("max_key", _key(high))):
            self.register_buffer(name, tensor)

    def _widen(self, low: Tensor, high: Tensor) -> None:
        self.min_key.copy_(torch.minimum(self.min_key, low))
        self.max_key.copy_(torch.maximum(self.max_key, high))

    def reset(self) -> None:
        """Forgets all that came."""
        self.hist.zero_()
        self.min_key.fill_(_INFINITY_KEY)
        self.max_key.fill_(~_INFINITY_KEY)

    def _described_bins(self) -> str:
        channels = list(self._sizes())
        return f"bins of bits={self.bits}, exponents={self.exponents} and channels {channels}"

    def _add(self, other: Self) -> None:
        super()._add(other)
        self._widen(other.min_key.to(self.hist.device), other.max_key.to(self.hist.device))

    def _add_others(self, argument: str, group: dist.ProcessGroup | None) -> None:
        super()._add_others(argument, group)
        distributed.all_reduce(argument, self.min_key, group, dist.ReduceOp.MIN)
        distributed.all_reduce(argument, self.max_key, group, dist.ReduceOp.MAX)

    def _of_channels(self) -> list[tuple[str, Tensor]]:
        keys = [("min_key", self.min_key), ("max_key", self.max_key)]
        return super()._of_channels() + keys

    def _quantile(self, below: Tensor, q: Tensor) -> Tensor:
        total = below[..., -1:]
        whole, part = ranks_of(total - 1, q)
        is_nearer_above = (part > 0.5) | ((part == 0.5) & (whole % 2 == 1))  # half to even
        rank = (whole + is_nearer_above).clamp(min=0)
        at = torch.searchsorted(below, rank, right=True).clamp(max=below.shape[-1] - 1)
        found = self._middles()[at]
        # Keys are compared, not floats: those of a CPU may be flushed to zero.
        low, high = self.min_key.unsqueeze(-1), self.max_key.unsqueeze(-1)
        first, last = below[..., :1], below[..., -2:-1] - 1  # ranks of the finite extremes
        inside = _key(found).clamp(low, high).where(rank > first, low).where(rank < last, high)
        return _float(inside).where(found.isfinite(), found)

    def moments(self) -> SketchMoments:
        """Mean and variance of the finite values, from the counts: nothing is read for them.

        A sketch has no values. It takes each one for the middle of its bin, as `quantile` does,
        and within `min` and `max`. That is wrong by at most 2^-(bits + 1) of a magnitude in the
        span, but by up to the distance from the extremes for tiny and huge ones. So a variance
        that is small beside the square of the mean says little, and with values outside of the
        span both may be wrong altogether. The result says how wrong they can be.
        `torch_histo.summarize` has those of the values themselves.

        Returns:
            The mean, NaN for a channel without finite values, and the variance of torch.var, NaN
            for less than two: a tuple, float64 `[channels...]` each. Its attributes `mean`, `var`,
            `mean_error` and `std_error` are of the same size: the mean is wrong by at most
            `mean_error`, and the square root of the variance by at most `std_error`, besides the
            rounding of float64.

        Example:
            >>> sketch = torch_histo.QuantileSketch()
            >>> sketch.update(torch.tensor([0.99, 1.01]))
            >>> found = sketch.moments()
            >>> round(float(found.mean), 4), round(float(found.mean_error), 4)
            (1.0001, 0.0029)
        """
        counts = self.hist[..., 1:-2].double()
        # +inf and -inf where there are no finite values.
        low, high = (_float(key).unsqueeze(-1) for key in (self.min_key, self.max_key))
        values = self._middles()[1:-1].clamp(low, high)
        errors = self._errors(low, high)
        number = counts.sum(-1, keepdim=True)
        share, sample = counts / number, counts / (number - 1)
        mean = (share * values).sum(-1, keepdim=True)
        # Roots first: the square of a huge difference overflows, even if few values have it.
        var = (sample.sqrt() * (values - mean)).square().sum(-1)
        std_error = (sample.sqrt() * errors).square().sum(-1).sqrt()
        few = number.squeeze(-1) < 2
        var, std_error = (tensor.masked_fill(few, torch.nan) for tensor in (var, std_error))
        return SketchMoments(mean.squeeze(-1), var, (share * errors).sum(-1), std_error)

    def _errors(self, low: Tensor, high: Tensor) -> Tensor:
        """How far a value of each bin can be from what it is taken for, [channels, n]."""
        positive = self.edges[self.edges.shape[-1] // 2 + 1 : -1]
        middles = (positive[1:] - positive[:-1]) * min(self._place, 1 - self._place)
        above = torch.cat((positive[:1] / 2, middles))
        inner = torch.cat((above.flip(0), torch.zeros_like(above[:1]), above))
        below, beyond = ((end - positive[-1:]).clamp(min=0) for end in (-low, high))
        inner = inner.expand(*low.shape[:-1], -1)
        return torch.cat((below, inner, beyond), -1).minimum((high - low).clamp(min=0))

    def _middles(self) -> Tensor:
        """A value for each count, [n + 2]; huge ones are cut off later."""
        positive = self.edges[self.edges.shape[-1] // 2 + 1 : -1]
        middles = positive[:-1] + (positive[1:] - positive[:-1]) * self._place
        largest = self.edges[-1:]
        above = torch.cat((positive[:1] / 2, middles, largest, largest * torch.inf))
        return torch.cat((-above.flip(0), torch.zeros_like(above[:1]), above))

    def _common_edges(self) -> list[float]:
        """Huge values are one more power of two: libraries cannot draw up to the largest float."""
        first, second, *inner, last_but_one, last = self.edges.tolist()
        first, last = max(first, 2 * second), min(last, 2 * last_but_one)
        return [first, second, *inner, last_but_one, last]

    def plot(
        self, ax: Any = None, *, q: float | Sequence[float] = QUANTILES, log: bool = False
    ) -> Any:
        """Draws the density of each channel with matplotlib, of up to 10 channels.

        The axis of values is linear. It ends at the extremes, or a little beyond the quantiles
        0.005 and 0.995 where some values are far away; the title says how many are left out.

        Args:
            ax: the axes of matplotlib to draw on; new ones if None.
            q: the quantile or the quantiles to mark, from 0 to 1.
            log: draws counts over a logarithmic axis instead, a bin for each power of two, with
                the negative values on its left and zero in the middle.

        Returns:
            The axes.

        Raises:
            RuntimeError: more than 10 channels.
            TypeError: `q` is no numbers.
            ImportError: matplotlib is missing.

        Example:
            >>> sketch = torch_histo.QuantileSketch()
            >>> sketch.update(torch.randn(10_000))
            >>> ax = sketch.plot(q=(0.001, 0.999))  # doctest: +SKIP
        """
        if log:
            ax = super().plot(ax, q=q)
            first, last = self.exponents
            if last > _MOST_DRAWN:
                ax.margins(x=0)
            linear = 2.0 ** max(first, last - _MOST_DRAWN)
            ax.set_xscale("symlog", base=2, linthresh=linear, linscale=3)
            ax.xaxis.get_major_locator().set_params(numticks=9)
            ax.set_ylabel("count per power of two")
            return ax
        fractions = fractions_to_mark(f"{self._get_name()}.plot", q)
        ax = self._axes_to_draw_on(ax)
        smallest, largest = (end.cpu().numpy().reshape(-1) for end in (self.min, self.max))
        hist, edges = self._on_host()
        most = self._marked(_MOST_OF_ALL).T
        lines, hidden = densities(self._labels(), hist[:, 1:-2], edges[0], smallest, largest, most)
        draw_lines(ax, lines, fractions, self._marked(fractions))
        ax.set_xlabel("value")
        ax.set_ylabel("density (share of the values per unit)")
        ax.set_title(self._title() + (f"\n{hidden:,} of them beyond the axis" if hidden else ""))
        return ax

    _outside = "infinite"

    def _unit(self, edges: npt.NDArray[np.float64]) -> int | None:
        return None  # the axis is logarithmic

    def _drawn(
        self, counts: npt.NDArray[Any], edges: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        return powers_of_two(counts, edges, 1 << self.bits)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        bits = state_dict.get(f"{prefix}edge_bits", self.edge_bits)
        expected = _logarithmic_edges(self.bits, *self.exponents, "cpu").view(torch.int64)
        can_compare = bits.shape == expected.shape and has_values(bits) and has_values(expected)
        if can_compare and not bits.cpu().equal(expected.cpu()):
            rest[-1].append(f"{prefix}edge_bits are of other bits or exponents: {self}")
        super()._load_from_state_dict(state_dict, prefix, *rest)


def checked_bins(name: str, bits: int, exponents: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """The bits and the span of a sketch, as ints that are right."""
    bits = integer(name, bits, "bits must be an int")
    if not 0 <= bits <= _MOST_BITS:
        raise RuntimeError(f"{name}: bits must be between 0 and {_MOST_BITS}, got {bits}")
    if not (isinstance(exponents, (tuple, list)) and len(exponents) == 2):
        raise TypeError(f"{name}: exponents must be a pair of ints, got {shown(exponents)}")
    first, last = (integer(name, e, "exponents must be a pair of ints") for e in exponents)
    if not -_EXPONENT_BIAS < first < last <= _EXPONENT_BIAS:
        raise RuntimeError(
            f"{name}: exponents must be two ints from -1022 to 1023, the first below the "
            f"second, got {shown(exponents)}"
        )
    return bits, (first, last)


class SketchMoments(tuple[Tensor, Tensor]):
    """A mean and a variance from counts, and how wrong they can be: `QuantileSketch.moments`."""

    mean_error: Tensor
    std_error: Tensor

    def __new__(cls, mean: Tensor, var: Tensor, mean_error: Tensor, std_error: Tensor) -> Self:
        self = super().__new__(cls, (mean, var))
        self.mean_error, self.std_error = mean_error, std_error
        return self

    def __getnewargs__(self) -> tuple[Tensor, ...]:
        return *self, self.mean_error, self.std_error

    def __repr__(self) -> str:
        names = "mean", "var", "mean_error", "std_error"
        return f"SketchMoments({', '.join(f'{name}={getattr(self, name)}' for name in names)})"

    @property
    def mean(self) -> Tensor:
        return self[0]

    @property
    def var(self) -> Tensor:
        return self[1]


def _key(values: Tensor) -> Tensor:
    """int64 in the order of the floats; both zeros have one."""
    bits = exact_double(values).view(torch.int64)
    return _ordered(bits.masked_fill(bits == _INT64.min, 0))


def _float(key: Tensor) -> Tensor:
    """The float64 that has the key."""
    return _ordered(key).view(torch.float64)


def _ordered(bits: Tensor) -> Tensor:
    """From the bits of float64 to keys, and back: negatives have their order turned round."""
    return bits ^ ((bits >> 63) & _INT64.max)


def _edges_beside(hist: Tensor, bits: int, first: int, last: int) -> Tensor:
    """The edges on the device of the counts."""
    if is_plain(hist) and hist.is_cpu and hist.shape[-1] <= _MOST_CACHED:
        return _cached_edges(bits, first, last, "cpu").clone()
    return _logarithmic_edges(bits, first, last, hist.device)


def _logarithmic_edges(bits: int, first: int, last: int, device: torch.device | str) -> Tensor:
    """Made of the bits of float64, in which positive floats and their bits have one order."""
    step = _FRACTION_BITS - bits
    steps = torch.arange(((last - first) << bits) + 1, device=device)
    positive = ((_EXPONENT_BIAS + first) << _FRACTION_BITS) + (steps << step)
    largest = torch.full((1,), torch.finfo(torch.float64).max, dtype=torch.float64, device=device)
    above = torch.cat((positive, largest.view(torch.int64)))
    # One step towards zero: [e_k, e_{k+1}) then holds the opposites of (-e_{k+1}, -e_k].
    below = torch.cat((above[-1:], positive.flip(0) - 1)) + _INT64.min
    return torch.cat((below, torch.arange(2, device=device), above)).view(torch.float64)


_cached_edges = lru_cache(maxsize=8)(_logarithmic_edges)
