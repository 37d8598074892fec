"""Histograms and quantiles of streams: modules that count one tensor after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from typing_extensions import Self

from torch_histo._arguments import edges_or_number, has_values, renamed, shown
from torch_histo._exact import exact_double
from torch_histo._keywords import refuse_keyword
from torch_histo._ranges import Range, pair_of
from torch_histo.histograms import are_edges, histogram
from torch_histo.streams._stream import Stream, channel_sizes, ranks_of
from torch_histo.streams.sketch import QuantileSketch

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["QuantileSketch", "StreamingHistogram"]

ARGUMENTS = ("bins", "range", "channels", "edges", "weight_dtype", "variance")
NO_RANGE = ": QuantileSketch needs no range"


class StreamingHistogram(Stream):
    """Counts the values of one tensor after another between fixed edges, channel by channel, or
    adds up their weights.

    Counts are exact and the same bits on every device, in every order and however the stream is
    divided: n tensors give the counts of their concatenation.

    Args:
        bins: how many bins of equal width, at least 1; or the edges themselves, at least two:
            `[n + 1]`, or `[..., n + 1]` with sizes that broadcast to the channels; an array or a
            list will do, too. They are kept as float64, never decrease and hold no NaN.
        range: the first and the last edge where `bins` is a number: a pair of numbers, or of
            tensors that broadcast to the channels, as `torch_histo.histogram` takes it. A stream
            has no extremes to take before it ends: `QuantileSketch` is for values whose range
            is not known in advance.
        channels: the sizes of the dimensions that `update` keeps, an int or several; None means
            those of edges and range, and so none for edges `[n + 1]` and a range of numbers.
        edges: another name of `bins`, where these are edges.
        weight_dtype: None counts. A dtype that `torch_histo.histogram` takes for weights adds up
            weights of it, of narrower ones (every integer and bool for int64), or Python's
            numbers, rounded to it. The module is updated by `update(x, weight, dim=None)` then:
            `weight` broadcasts to `x`.
        variance: whether to add up the squares of weights as well. Weights must be floats of at
            most 32 bits. Squares take 560 bytes per bin.

    Attributes:
        hist: int64 counts `[channels..., n + 3]`: underflow, the bins, overflow, NaN. They add up
            to the number of elements. 8 (n + 3) bytes a channel.
        edges: float64 `[n + 1]`, or `[..., n + 1]` for channels that have their own. They are in
            the state as the int64 of their bits, `edge_bits`, and loading a state loads them.
        count: int64 `[channels...]`, how many values came, NaN aside.

    With `weight_dtype` the state is `digits`, int64 `[channels..., n + 3, size]`, and `hist` is the
    sums of weights: float64, or int64 for integers and bool. They are exact and rounded once, so
    they are the same bits on every device, in every order and however the stream is divided, over
    processes, too. `size` is 13 for float32 and bfloat16, 6 for narrower floats, 70 for float64 and
    1 for integers and bool. `variances()` are the sums of squares with `variance`, and None
    without. There is neither `count` nor `quantile`.

    `quantile(q)` takes the values of a bin to be spread evenly over it. It lies between the values
    below it and above it: the result is in the bin of the order statistic of rank q * count, so it
    is wrong by at most the bin's width. Values below the first edge count as that edge, values
    above the last as that one; a bin with an infinite edge gives the other one, or NaN between
    -inf and +inf.

    `values()`, `counts()`, `variances()`, `axes` and `kind` are what libraries such as mplhep and
    hist look for (UHI's PlottableHistogram); `plot()` draws with matplotlib.

    Raises:
        RuntimeError: no bin or fewer than two edges; edges that decrease, hold NaN or are no
            float64; a range that is missing or not finite; sizes that do not broadcast; weights
            of another dtype, or wider ones with `variance`.
        TypeError: an argument of a type that it does not take.

    Example:
        >>> stream = torch_histo.StreamingHistogram(4, range=(0, 1), channels=2)
        >>> for step in range(3):
        ...     stream.update(torch.tensor([[0.1, 0.7], [0.6, 2.0]]), dim=0)
        >>> stream.hist
        tensor([[0, 3, 0, 3, 0, 0, 0],
                [0, 0, 0, 3, 0, 3, 0]])
        >>> stream.quantile(0.5)
        tensor([0.2500, 0.7500], dtype=torch.float64)
        >>> losses = torch_histo.StreamingHistogram(2, range=(0, 1), weight_dtype=torch.float32)
        >>> losses.update(torch.tensor([0.1, 0.7, 0.6]), torch.tensor([0.5, 2.0, 0.25]))
        >>> losses.values()
        array([0.5 , 2.25])

    Source: np.histogram for the bins; quantiles are those of the line through the cumulative
    counts at the edges.
    """

    def __new__(cls, *_: Any, weight_dtype: torch.dtype | None = None, **__: Any) -> Self:
        """The class of a module that adds weights, where there are some."""
        if weight_dtype is None or cls is not StreamingHistogram:
            return super().__new__(cls)
        from torch_histo.streams.weighted import WeightedStreamingHistogram

        return super().__new__(WeightedStreamingHistogram)  # type: ignore[return-value]

    def __init__(
        self,
        bins: int | Tensor | ArrayLike | None = None,
        range: Range | None = None,
        channels: int | Sequence[int] | None = None,
        *,
        edges: Tensor | ArrayLike | None = None,
        weight_dtype: torch.dtype | None = None,
        variance: bool = False,
        **unknown: NoReturn,
    ) -> None:
        name = self._get_name()
        if unknown:
            refuse_keyword(name, unknown, ARGUMENTS)
        if weight_dtype is not None:  # of a subclass, which __new__ leaves alone
            expected = "weight_dtype must be None where this class is subclassed"
            other = "torch_histo.weighted_streams.WeightedStreamingHistogram"
            raise TypeError(f"{name}: {expected}, got {weight_dtype}: subclass {other}")
        if variance is not False:
            expected = "variance must be False without weight_dtype"
            raise TypeError(f"{name}: {expected}, got {shown(variance)}")
        wide, hist = checked_bins(name, bins, range, channels, edges)
        super().__init__(wide, hist=hist)

    def extra_repr(self) -> str:
        *channels, counts = self.hist.shape
        return f"bins={counts - 3}, channels={tuple(channels)}"

    def _quantile(self, below: Tensor, q: Tensor) -> Tensor:
        whole, part = ranks_of(below[..., -1:], q)
        # No bin without values is taken: the least count of one is 1.
        at = torch.searchsorted(below, (whole + (part > 0)).clamp(min=1))
        at = at.clamp(max=below.shape[-1] - 1)
        counts = self.hist.gather(-1, at)
        part = ((whole - below.gather(-1, at) + counts + part) / counts).clamp(0, 1)
        edges = self.edges
        bounds = torch.cat((edges[..., :1], edges, edges[..., -1:]), -1)
        bounds = bounds.expand(*below.shape[:-1], -1)
        left, right = bounds.gather(-1, at), bounds.gather(-1, at + 1)
        low, high = left.where(left.isfinite(), right), right.where(right.isfinite(), left)
        # Not lerp, whose difference of the two may overflow.
        inside = (low * (1 - part) + high * part).clamp(low, high)
        return inside.where(low != high, low)  # infinity between two of them


def checked_bins(
    name: str,
    bins: int | Tensor | ArrayLike | None,
    range: Range | None,
    channels: int | Sequence[int] | None,
    edges: Tensor | ArrayLike | None,
) -> tuple[Tensor, Tensor]:
    """The edges, in float64, and counts of zero, of a module's arguments."""
    if edges is not None:
        if bins is not None:
            raise TypeError(f"{name}: edges must be left out with bins, got both")
        bins = edges
    if isinstance(bins, str):
        expected = "bins must be a number or edges, as a stream begins without data"
        raise TypeError(f"{name}: {expected}, got {shown(bins)}")
    bins = None if bins is None else edges_or_number(f"{name}: bins", bins)
    is_number = hasattr(bins, "__index__") and getattr(bins, "shape", ()) == ()
    if range is None and is_number:
        expected = "range must be a pair of numbers or of tensors where bins is a number"
        raise RuntimeError(f"{name}: {expected}, got None{NO_RANGE}")
    ends = [edges_or_number(f"{name}: range", v) for v in pair_of(range)]
    given = [v for v in (bins, *ends) if isinstance(v, Tensor)]
    sizes = _sizes_of(bins, given) if channels is None else channel_sizes(name, channels)
    device = given[0].device if given else None
    nothing = torch.empty(0, *sizes, dtype=torch.float64, device=device)
    try:
        hist, edges = histogram(nothing, bins, range=range, dim=0, flow=True)  # type: ignore[arg-type]
    except (RuntimeError, TypeError) as error:
        raise renamed(error, name, "input") from None
    wide = exact_double(edges.detach())
    if has_values(edges):
        if not (wide[..., 1:] >= wide[..., :-1]).all():
            expected = "edges must never decrease and hold no NaN"
            raise RuntimeError(f"{name}: {expected}, got {shown(edges.tolist())}")
        if not edges.is_floating_point() and not torch.equal(wide.to(edges.dtype), edges):
            raise RuntimeError(f"{name}: edges must be exact in float64, got {edges.dtype}")
    return wide.clone(memory_format=torch.contiguous_format), hist


def _sizes_of(bins: int | Tensor | None, given: Sequence[Tensor]) -> Sequence[int]:
    """The channels of edges, or of the tensors of a range."""
    if are_edges(bins):
        return bins.shape[:-1]
    try:
        sizes: Sequence[int] = torch.broadcast_shapes(*(v.shape for v in given))  # type: ignore[no-untyped-call]
        return sizes
    except RuntimeError:  # which histogram explains
        return ()
