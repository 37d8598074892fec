"""Joint histograms of streams: a module that counts one sample after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from torch_histo._arguments import kept_sizes, refuse_dtensor, shown
from torch_histo._joint_errors import Coordinates, in_words_of_call
from torch_histo._joint_operators import joint_histogram, weighted_joint_histogram
from torch_histo._keywords import refuse_keyword
from torch_histo._weight_operators import sum_of_digits, sum_size
from torch_histo.joint import (
    Bins,
    Coordinate,
    Ranges,
    broadcast,
    coordinates_of,
    without_channel,
)
from torch_histo.streams import NO_RANGE, checked_bins
from torch_histo.streams._axes import axes_of, common_sizes
from torch_histo.streams._drawing import axes_for, in_units, unit_of, with_unit
from torch_histo.streams.weighted import DigitStream, check_types, held_weight, shown_sums
from torch_histo.weights import density_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class StreamingHistogramdd(DigitStream):
    """Counts the elements of one sample after another by the bins of all their coordinates, channel
    by channel, or adds up their weights.

    Counts and sums are exact and the same bits on every device, in every order and however the
    stream is divided: n samples give the counts of their concatenation.

    Args:
        bins: a tuple or list with the bins of each axis: how many of equal width, or the edges,
            `[n + 1]`, or `[..., n + 1]` with sizes that broadcast to the channels. Or a number for
            all axes, of which `range` tells how many there are. Edges are kept as float64, never
            decrease and hold no NaN.
        range: for each axis whose bins are a number the pair of the first and the last edge;
            None for the others.
        channels: the sizes of the dimensions that `update` keeps, an int or several; None means
            those of the edges of all axes, and so none for edges `[n + 1]`.
        weight_dtype: None counts. A dtype that `torch_histo.histogram` takes for weights adds up
            weights of it, or of narrower ones: `update(sample, weight, dim=None)`.

    Attributes:
        hist: `[channels..., n_1 + 3, ..., n_D + 3]`: each axis has underflow, the bins, overflow
            and NaN. int64 counts, which add up to the number of elements; or sums of weights,
            exact and rounded once, float64 or int64.
        edges: a tuple of the edges of each axis, float64.
        digits: the state, int64, of the sizes of `hist` and one more: the counts, or the digits of
            sums as in `torch_histo.StreamingHistogram`.

    `values()`, `counts()`, `variances()`, `axes` and `kind` are what libraries such as mplhep and
    hist look for (UHI's PlottableHistogram): mplhep.hist2dplot(stream) and hist.Hist(stream) take
    it. `plot()` draws a heat map with matplotlib.

    Raises:
        RuntimeError: no axis; bins or ranges for another number of axes; and what
            `torch_histo.StreamingHistogram` raises for an axis.
        TypeError: an argument of a type that it does not take.

    Example:
        >>> stream = torch_histo.StreamingHistogramdd((2, [0.0, 1, 2]), range=((0, 1), None))
        >>> for step in range(3):
        ...     stream.update((torch.tensor([0.1, 0.7]), torch.tensor([0, 2])))
        >>> stream.values()
        array([[3., 0.],
               [0., 3.]])

    Source: np.histogramdd for the bins.
    """

    _arguments = ("sample", "weight", "dim", "channel_dim")

    def __init__(
        self,
        bins: Bins,
        range: Ranges | None = None,
        channels: int | Sequence[int] | None = None,
        *,
        weight_dtype: torch.dtype | None = None,
        **unknown: NoReturn,
    ) -> None:
        name = self._get_name()
        if unknown:
            refuse_keyword(name, unknown, ("bins", "range", "channels", "weight_dtype"))
        if weight_dtype is not None:
            check_types(name, weight_dtype, False)
        found = []
        for d, (own, ends) in enumerate(axes_of(name, bins, range)):
            try:
                found.append(checked_bins(name, own, ends, channels, None))
            except (RuntimeError, TypeError) as error:
                line = str(error).removeprefix(f"{name}: ").removesuffix(NO_RANGE)
                raise type(error)(f"{name}: axis {d}: {line}") from None
        sizes = common_sizes(name, [hist.shape[:-1] for _, hist in found])
        own_sizes = common_sizes(name, [edges.shape[:-1] for edges, _ in found])
        edges = torch.cat([edges.expand(*own_sizes, -1) for edges, _ in found], -1)
        slots = [hist.shape[-1] for _, hist in found]
        size = 1 if weight_dtype is None else sum_size(weight_dtype)
        super().__init__(edges, digits=found[0][1].new_zeros(*sizes, *slots, size))
        self.slots, self.weight_dtype = tuple(slots), weight_dtype

    @property
    def hist(self) -> Tensor:  # type: ignore[override]
        """int64 counts `[channels..., n_1 + 3, ..., n_D + 3]`, or sums of weights."""
        if self.digits.shape[-1] == 1:
            return self.digits.squeeze(-1)
        sums: Tensor = sum_of_digits(self.digits)
        return sums

    @property
    def edges(self) -> tuple[Tensor, ...]:  # type: ignore[override]
        """The edges of each axis, float64, on the device of the module."""
        edges = self.edge_bits.view(torch.float64)
        return torch.split(edges, [n - 2 for n in self.slots], -1)

    def update(  # type: ignore[override]
        self,
        sample: Sequence[Coordinate] | Coordinate,
        weight: float | Tensor | ArrayLike | None = None,
        dim: int | Sequence[int] | None = None,
        *,
        channel_dim: int | None = None,
        **unknown: NoReturn,
    ) -> None:
        """Counts the elements of a sample over `dim`; the other dimensions are the channels.

        Nothing synchronizes, so the call can be compiled, and captured in a CUDA graph.

        Args:
            sample: as in `torch_histo.histogramdd`, on the device of the module.
            weight: what each element adds; for a module with a `weight_dtype`.
            dim: the dimension or dimensions to count over; None means all, for a module without
                channels.
            channel_dim: the dimension of the channels, instead of `dim`: all others are counted
                over.

        Raises:
            RuntimeError: another number of coordinates, other channels or another device; and what
                `torch_histo.histogramdd` raises.
            TypeError: a sample, a weight or a dim of a type that it does not take; a weight without
                `weight_dtype`, or none with it; a DTensor.
        """
        op = f"{self._get_name()}.update"
        if unknown:
            refuse_keyword(op, unknown, self._arguments)
        call = coordinates_of(op, sample)
        xs = [x.detach() for x in broadcast(call)]
        if channel_dim is not None:
            xs, dim = without_channel(call, xs, dim, channel_dim)
        call = Coordinates(op, xs, call.names)
        dims = self._checked_sample(call, dim)
        own = self._weight(call, weight)
        edges = list(self.edges)
        try:
            if own is None:
                counts = joint_histogram(call.tensors, edges, dims, flow=True)
                self.digits.add_(counts.unsqueeze(-1))
                return
            digits = weighted_joint_histogram(call.tensors, edges, own, dims, flow=True)
        except (RuntimeError, TypeError) as error:
            raise in_words_of_call(call, error) from None
        self._add_digits([digits])

    def forward(  # type: ignore[override]
        self,
        sample: Sequence[Coordinate] | Coordinate,
        weight: float | Tensor | ArrayLike | None = None,
        dim: int | Sequence[int] | None = None,
        *,
        channel_dim: int | None = None,
        **unknown: NoReturn,
    ) -> Sequence[Coordinate] | Coordinate:
        """Updates, and returns the sample."""
        self.update(sample, weight, dim, channel_dim=channel_dim, **unknown)
        return sample

    def _checked_sample(
        self, call: Coordinates, dim: int | Sequence[int] | None
    ) -> list[int] | None:
        """The dimensions to count over, of coordinates that fit to the module."""
        op, (x, *_), names, _ = call
        dims, channels = self._dimensions(dim), list(self._sizes())
        if len(names) != len(self.slots):
            expected = f"sample must have {len(self.slots)} coordinates"
            raise RuntimeError(f"{op}: {expected}, got {len(names)}")
        for own, name in zip(call.tensors, names, strict=True):
            refuse_dtensor(f"{op}: {name}", own, "its to_local()")
            if own.device != self.edge_bits.device:
                expected = f"{name} must be on the device of the module, {self.edge_bits.device}"
                raise RuntimeError(f"{op}: {expected}, got {own.device}: call .to({own.device})")
        fits = all(-x.dim() <= d < x.dim() for d in dims or ())  # the operator refuses others
        if fits and kept_sizes(x.shape, dims) != channels:
            expected = f"sample must have the channels' sizes, {channels}, beside dim"
            raise RuntimeError(f"{op}: {expected}, got {list(x.shape)} over dim={dim}")
        return dims

    def _weight(self, call: Coordinates, weight: Any) -> Tensor | None:
        if self.weight_dtype is not None:
            return held_weight(call.op, self.weight_dtype, call.tensors[0], weight)
        if weight is not None:
            expected = "weight must be left out where the module has no weight_dtype"
            raise TypeError(f"{call.op}: {expected}, got {shown(weight)}")
        return None

    def _described(self) -> str:
        return f"{self._get_name()} with weight_dtype={self.weight_dtype}"

    def _described_bins(self) -> str:
        bins = " x ".join(str(n - 3) for n in self.slots)
        return f"{bins} bins and channels {list(self._sizes())}"

    @property
    def count(self) -> Tensor:
        """How many elements have a bin on every axis, of each channel: int64."""
        if self.weight_dtype is not None:
            expected = "weight_dtype must be None, as sums do not tell how many elements came"
            raise RuntimeError(f"{self._get_name()}.count: {expected}, got {self.weight_dtype}")
        return self._inner(self.hist).flatten(-len(self.slots)).sum(-1)

    def quantile(
        self, q: float | Sequence[float] | Tensor | None = None, **unknown: NoReturn
    ) -> NoReturn:
        raise RuntimeError(
            f"{self._get_name()}.quantile: expected one axis, got {len(self.slots)}: "
            "torch_histo.StreamingHistogram has quantiles"
        )

    def density(self) -> Tensor:
        """counts / (their sum * the bins' volumes), as `torch_histo.histogramdd` with `density`:
        float64, of the sizes of channels and bins."""
        total = None
        if self.weight_dtype is not None:
            inner = self._inner(self.digits, behind=1)
            last = inner.dim() - 1
            total = sum_of_digits(inner.flatten(last - len(self.slots), last - 1).sum(-2))
        return density_of(self._inner(self.hist), self.edges, total)

    def _sizes(self) -> Sequence[int]:
        return self.digits.shape[: self.digits.dim() - 1 - len(self.slots)]

    def _of_channels(self) -> list[tuple[str, Tensor]]:
        return [("digits", self.digits)]

    def _inner(self, hist: Tensor, behind: int = 0) -> Tensor:
        """The bins of all axes, which are before the last `behind` dimensions."""
        first = hist.dim() - behind - len(self.slots)
        for d, slots in enumerate(self.slots):
            hist = hist.narrow(first + d, 1, slots - 3)
        return hist

    def _labelled_edges(self) -> list[tuple[str, list[float]]]:
        if self.edge_bits.dim() > 1:
            raise RuntimeError(
                f"{self._get_name()}.axes: edges must be the same in all channels, got "
                f"{list(self.edge_bits.shape[:-1])} of them: take one by .channel(index)"
            )
        return [(f"coordinate {d}", edges.tolist()) for d, edges in enumerate(self.edges)]

    def values(self, flow: bool = False) -> npt.NDArray[np.float64]:
        """Counts or sums on the host. With `flow` those outside, too: NaN is overflow, as in
        boost-histogram."""
        return shown_sums(self.digits, len(self.slots), flow)

    def variances(self, flow: bool = False) -> Any:
        """Those of Poisson: the counts; None for sums of weights."""
        return self.values(flow) if self.weight_dtype is None else None

    def counts(self, flow: bool = False) -> Any:
        return self.variances(flow)

    def plot(self, ax: Any = None) -> Any:  # type: ignore[override]
        """Draws two axes as a heat map with a colour bar, by matplotlib. Bins without a width to
        draw, whose edges are infinite, are left out.

        Args:
            ax: the axes of matplotlib to draw on; new ones if None.

        Returns:
            The axes.

        Raises:
            RuntimeError: other than two axes of bins, or channels.
            ImportError: matplotlib is missing.
        """
        name = f"{self._get_name()}.plot"
        if len(self.slots) != 2 or self._sizes():
            got = f"{len(self.slots)} and channels {list(self._sizes())}"
            hint = ": take one channel by .channel(index)" if self._sizes() else ""
            raise RuntimeError(f"{name}: expected two axes and no channels, got {got}{hint}")
        ax = axes_for(name, ax)
        values, drawn, labels = self.values(), [], []
        for d, edges in enumerate(self.edges):
            finite = edges.isfinite().cpu().numpy()
            values = np.compress(finite[1:] & finite[:-1], values, d)
            bounds = edges.cpu().numpy()[finite] if finite.any() else np.zeros(1)
            unit = unit_of(bounds)
            drawn.append(in_units(bounds, unit))
            labels.append(with_unit(f"coordinate {d}", unit))
        unit = unit_of(values)
        mesh = ax.pcolormesh(*drawn, in_units(values, unit).T)
        counts = self.weight_dtype is None
        what = "count per bin" if counts else "sum of weights per bin"
        ax.figure.colorbar(mesh, ax=ax, label=with_unit(what, unit))
        what = f"{int(self.values(flow=True).sum()):,} elements" if counts else "weights"
        ax.set_title(f"{self._get_name()} of {what}")
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1])
        return ax

    def extra_repr(self) -> str:
        bins, channels = tuple(n - 3 for n in self.slots), tuple(self._sizes())
        types = "" if self.weight_dtype is None else f", weight_dtype={self.weight_dtype}"
        return f"bins={bins}, channels={channels}{types}"
