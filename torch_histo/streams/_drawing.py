"""Plots of the modules that count, with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from torch_histo._arguments import shown

if TYPE_CHECKING:
    FloatArray = npt.NDArray[np.float64]

QUANTILES = (0.01, 0.5, 0.99)
"""The quantiles that a plot marks by default."""
FAR = 1e100
"""matplotlib overflows for longer axes. An axis of values beyond this or below its inverse is in
units of a power of ten."""
_STYLES = (":", "--", "-.")


def unit_of(edges: FloatArray) -> int | None:
    """The exponent of ten to draw edges in units of, where matplotlib would overflow; else None."""
    largest = float(np.abs(edges[np.isfinite(edges)]).max(initial=0))
    return None if largest == 0 or 1 / FAR <= largest <= FAR else math.floor(math.log10(largest))


def in_units(values: Any, unit: int | None) -> Any:
    """The places of values on an axis in units of a power of ten."""
    if unit is None:
        return values
    half = -unit // 2  # two factors, neither of which is infinite
    return values * 10.0**half * 10.0 ** (-unit - half)


def with_unit(text: str, unit: int | None) -> str:
    """The label of such an axis."""
    return text if unit is None else f"{text} in units of 1e{unit}"


class Line(NamedTuple):
    """The line of a channel: a height for each bin, and n + 1 edges."""

    label: str
    heights: FloatArray
    edges: FloatArray

    def height_at(self, value: float) -> float:
        """The height of the bin that holds a value, or of the nearest bin."""
        if not len(self.heights):
            return 0.0
        at = int(np.searchsorted(self.edges, value, side="right")) - 1
        return float(self.heights[min(max(at, 0), len(self.heights) - 1)])


def axes_for(name: str, ax: Any) -> Any:
    """The axes to draw on: new ones if None."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(f"{name}: needs matplotlib: pip install matplotlib") from error
    return pyplot.figure(layout="constrained").add_subplot()


def fractions_to_mark(name: str, q: Any) -> list[float]:
    """One or several numbers. Quantiles of them raise what is not from 0 to 1."""
    several = q.tolist() if hasattr(q, "tolist") else q
    several = [several] if hasattr(several, "__float__") else several
    if not isinstance(several, Sequence) or not all(hasattr(v, "__float__") for v in several):
        raise TypeError(f"{name}: q must be a number or a sequence of numbers, got {shown(q)}")
    return [float(fraction) for fraction in several]


def draw_lines(
    ax: Any,
    lines: Sequence[Line],
    q: Sequence[float],
    marked: FloatArray,
    unit: int | None = None,
) -> None:
    """A line for each channel, and a mark at its quantiles `marked`, [channels, q]. The edges of
    lines are in units of `unit`."""
    peak = max((line.heights.max(initial=0) for line in lines), default=0)
    for line, quantiles in zip(lines, marked, strict=True):
        stairs = ax.stairs(line.heights, line.edges, label=line.label or None)
        for fraction, value, style in zip(q, quantiles, cycle(_STYLES), strict=False):
            if np.isnan(value):
                continue
            label = None if line.label else f"quantile {fraction:g}: {value:.4g}"
            # One beyond is marked at the end.
            shown = in_units(value, unit).clip(line.edges[0], line.edges[-1])
            # The mark of one of several channels ends at its line, but is long enough to be seen.
            top = max(line.height_at(shown), 0.1 * peak) if line.label else peak
            colour = stairs.get_edgecolor() if line.label else "C1"
            ax.vlines(shown, 0, top, linestyles=style, colors=[colour], label=label)
    if any(line.label for line in lines) and not np.isnan(marked).all():
        fractions = ", ".join(f"{fraction:g}" for fraction in q)
        ax.plot([], [], ":", color="gray", label=f"quantiles {fractions}")
    if ax.get_legend_handles_labels()[0]:
        ax.legend()


def span(smallest: FloatArray, largest: FloatArray, most: FloatArray) -> tuple[float, float]:
    """The ends of a linear axis for all channels.

    The axis holds the quantiles `most`, [2, channels], and 0.4 of their distance beyond each. It
    ends at the extremes of the values. So one value far away does not make the others a line."""
    smallest, largest = smallest.clip(-FAR, FAR), largest.clip(-FAR, FAR)
    inside = most.clip(smallest, largest)
    width = inside[1] - inside[0]
    # If nearly all values are equal, the axis holds the others, too.
    low = np.where(width > 0, inside[0] - 0.4 * width, smallest).clip(smallest)
    high = np.where(width > 0, inside[1] + 0.4 * width, largest).clip(None, largest)
    known = np.isfinite(low) & np.isfinite(high)
    if not known.any():
        return 0.0, 1.0
    first, last = float(low[known].min()), float(high[known].max())
    size = max(abs(first), abs(last))
    if last - first <= max(1e-9 * size, 1 / FAR):
        half = max(0.5, 1e-6 * size)
        first, last = first - half, last + half
    return first, last


def bins_to_draw(count: float) -> int:
    """By the rule of Rice, within what can be seen."""
    return int(np.clip(2 * np.cbrt(count), 10, 100))


def spread(
    counts: FloatArray, edges: FloatArray, low: float, high: float, bounds: FloatArray
) -> FloatArray:
    """Counts between other bounds. Those of a bin are spread evenly over it, from `low`, the
    smallest of all values, to `high`, the largest."""
    below = np.concatenate(([0.0], counts.cumsum()))
    found: FloatArray = np.diff(np.interp(bounds, edges.clip(low, high), below))
    return found


def densities(
    labels: Sequence[str],
    counts: npt.NDArray[Any],
    edges: FloatArray,
    smallest: FloatArray,
    largest: FloatArray,
    most: FloatArray,
) -> tuple[list[Line], int]:
    """The density of each channel over a linear axis, and how many values are beyond it.

    `counts` are [channels, bins], and `most` is as for `span`."""
    totals = counts.sum(-1, dtype=np.float64)
    bins = bins_to_draw(totals.max(initial=0))
    bounds = np.linspace(*span(smallest, largest, most), bins + 1)
    lines, hidden = [], 0.0
    for label, own, low, high, total in zip(
        labels, counts.astype(np.float64), smallest, largest, totals, strict=True
    ):
        found = spread(own, edges, low, high, bounds) if total else np.zeros(bins)
        hidden += total - found.sum()
        lines.append(Line(label, found / max(total, 1) / np.diff(bounds), bounds))
    return lines, round(hidden)


def powers_of_two(
    counts: npt.NDArray[Any], edges: FloatArray, bins: int
) -> tuple[npt.NDArray[Any], FloatArray]:
    """The counts of a sketch with so many bins a power of two, one for each power.

    The bins within a power have different widths on a logarithmic axis. Zero and tiny values are
    one bin, huge ones are drawn as one more power."""
    zero = len(counts) // 2
    below, above = counts[1 : zero - 1], counts[zero + 2 : -1]
    sums = (
        counts[:1],
        below.reshape(-1, bins).sum(-1),
        counts[zero - 1 : zero + 2].sum(0, keepdims=True),
        above.reshape(-1, bins).sum(-1),
        counts[-1:],
    )
    counts = np.concatenate(sums)
    inner = edges[1:zero:bins], edges[zero + 2 : -1 : bins]
    most = 2.0**1021  # matplotlib adds up the edges, which must not overflow
    inner = inner[0].clip(-most), inner[1].clip(None, most)
    edges = np.concatenate((inner[0][:1] * 2, *inner, inner[1][-1:] * 2))
    filled = counts.nonzero()[0].tolist() or [len(counts) // 2]
    return counts[filled[0] : filled[-1] + 1], edges[filled[0] : filled[-1] + 2]
