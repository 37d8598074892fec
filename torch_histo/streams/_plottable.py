"""The interface for libraries that plot histograms: UHI's PlottableHistogram."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import Self

from torch_histo.streams._drawing import (
    QUANTILES,
    Line,
    axes_for,
    draw_lines,
    fractions_to_mark,
    in_units,
    unit_of,
    with_unit,
)

_MOST_LINES = 10
"""How many channels one plot shows."""


class Traits(NamedTuple):
    """An axis as UHI has it; plotting libraries look for the last two methods."""

    circular: bool
    discrete: bool
    underflow: bool
    overflow: bool


@dataclass(frozen=True)
class Axis:
    """UHI's PlottableAxis: pairs of edges, or the indices of channels."""

    bins: tuple[Any, ...]
    label: str
    traits: Traits

    def __len__(self) -> int:
        return len(self.bins)

    def __getitem__(self, index: int) -> Any:
        return self.bins[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.bins)


class Plottable:
    """Counts `hist`, [channels..., n + 3] with underflow, overflow and NaN, between `edges`."""

    hist: Tensor

    @property
    def edges(self) -> Tensor:
        """`[n + 1]`, or `[..., n + 1]` for channels that have their own."""
        raise NotImplementedError

    def channel(self, *index: int) -> Self:
        """A copy of one channel."""
        raise NotImplementedError

    def _sizes(self) -> Sequence[int]:
        """The sizes of the channel dimensions."""
        return self.hist.shape[:-1]

    def _get_name(self) -> str:
        """The name of the class, in errors and where torch shows modules."""
        return type(self).__name__

    @property
    def kind(self) -> str:
        return "COUNT"

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The dimensions of channels, and the bins."""
        channels = (
            Axis(tuple(range(size)), "channel", Traits(False, True, False, False))
            for size in self._sizes()
        )
        bins = (
            Axis(tuple(pairwise(edges)), label, Traits(False, False, True, True))
            for label, edges in self._labelled_edges()
        )
        return *channels, *bins

    def values(self, flow: bool = False) -> npt.NDArray[np.float64]:
        """The counts on the host. With `flow` those outside, too: NaN is overflow, as in
        boost-histogram."""
        bins = self.hist[..., :-1] if flow else self.hist[..., 1:-2]
        found = bins.double().cpu().numpy()
        if flow:
            found[..., -1] += self.hist[..., -1].cpu().numpy()
        return found

    def counts(self, flow: bool = False) -> npt.NDArray[np.float64]:
        return self.values(flow)

    def variances(self, flow: bool = False) -> npt.NDArray[np.float64]:
        """Those of Poisson: the counts."""
        return self.values(flow)

    def _to_uhi_(self) -> dict[str, Any]:
        """For hist.Hist and boost_histogram.Histogram, which are made from it."""
        flow = {"circular": False, "underflow": False, "overflow": False}
        channels = [
            {"type": "regular", "lower": 0, "upper": size, "bins": size} | flow
            for size in self._sizes()
        ]
        flow |= {"underflow": True, "overflow": True}
        bins = [{"type": "variable", "edges": edges} | flow for _, edges in self._labelled_edges()]
        return {"uhi_schema": 1, "axes": [*channels, *bins], "storage": self._storage()}

    def _storage(self) -> dict[str, Any]:
        return {"type": "double", "values": self.values(flow=True)}

    def _labelled_edges(self) -> list[tuple[str, list[float]]]:
        """The label and the edges of each axis of bins."""
        return [("value", self._common_edges())]

    def _common_edges(self) -> list[float]:
        edges = self.edges
        if edges.dim() > 1:
            raise RuntimeError(
                f"{self._get_name()}.axes: edges must be the same in all channels, got "
                f"{list(edges.shape)}: take one by .channel(index)"
            )
        found: list[float] = edges.tolist()
        return found

    def plot(self, ax: Any = None, *, q: float | Sequence[float] = QUANTILES) -> Any:
        """Draws a line for each channel with matplotlib, of up to 10 channels.

        Args:
            ax: the axes of matplotlib to draw on; new ones if None.
            q: the quantile or the quantiles to mark, from 0 to 1. Sums of weights have none.

        Returns:
            The axes.

        Raises:
            RuntimeError: more than 10 channels.
            TypeError: `q` is no numbers.
            ImportError: matplotlib is missing.
        """
        fractions = fractions_to_mark(f"{self._get_name()}.plot", q)
        ax = self._axes_to_draw_on(ax)
        hist, edges = self._on_host()
        unit, height = self._unit(edges), unit_of(hist[:, 1:-2])
        lines = [
            Line(label, *self._drawn(in_units(counts[1:-2], height), in_units(bounds, unit)))
            for label, counts, bounds in zip(self._labels(), hist, edges, strict=True)
        ]
        draw_lines(ax, lines, fractions, self._marked(fractions), unit)
        ax.set_xlabel(with_unit("value", unit))
        ax.set_ylabel(with_unit(f"{self._quantity} per bin", height))
        ax.set_title(self._title())
        return ax

    def _axes_to_draw_on(self, ax: Any) -> Any:
        name = f"{self._get_name()}.plot"
        lines = math.prod(self._sizes())
        if lines > _MOST_LINES:
            expected = f"channels must be at most {_MOST_LINES}"
            raise RuntimeError(f"{name}: {expected}, got {lines}: take one by .channel(index)")
        return axes_for(name, ax)

    def _on_host(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """Counts [channels, n + 3] and edges [channels, n + 1]."""
        hist = self.hist
        edges = self.edges.expand(*self._sizes(), -1)
        flat = (tensor.cpu().numpy().reshape(-1, tensor.shape[-1]) for tensor in (hist, edges))
        return next(flat), next(flat)

    def _labels(self) -> list[str]:
        """The names of channels in a legend; an empty one if there are no channels."""
        sizes = self._sizes()
        return [f"channel {', '.join(map(str, i))}" if sizes else "" for i in np.ndindex(*sizes)]

    def _marked(self, q: Sequence[float]) -> npt.NDArray[np.float64]:
        """The quantiles to mark, [channels, q]."""
        raise NotImplementedError

    @property
    def _quantity(self) -> str:
        """What a bin has."""
        return "count"

    def _title(self) -> str:
        """How many values there are, and how many of them are not drawn."""
        sums = self.hist.reshape(-1, self.hist.shape[-1]).sum(0).tolist()
        outside, nan = sums[0] + sums[-2], sums[-1]
        title = f"{self._get_name()} of {sum(sums):,} values"
        parts = [f"{outside:,} {self._outside}"] * (outside > 0) + [f"{nan:,} NaN"] * (nan > 0)
        return f"{title}: {', '.join(parts)}" if parts else title

    _outside = "outside the edges"
    """What values are that count as underflow and overflow."""

    def _unit(self, edges: npt.NDArray[np.float64]) -> int | None:
        """That of the axis of values."""
        return unit_of(edges)

    def _drawn(
        self, counts: npt.NDArray[Any], edges: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """The bins that have a width to draw."""
        finite = np.isfinite(edges)
        # matplotlib asks for an edge where there is no bin, too.
        bounds = edges[finite] if finite.any() else np.zeros(1)
        return counts[finite[1:] & finite[:-1]], bounds
