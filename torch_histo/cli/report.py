"""The counts of files as a table for people."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..ops import channel_histogram
from .messages import printable
from .sources import TEXT_BINS

FloatArray = npt.NDArray[np.float64]

TABLE_RANGES = 16
"""Most ranges of bins in a table, the widths of all but the last being equal."""

TABLE_CHANNELS = 8
"""Most channels in a table."""

FLOW_NAMES = ("underflow", "overflow", "NaN")
"""What lies outside the edges."""

BAR_WIDTH = 40
"""Terminal columns of the longest bar."""

DIGITS = 6
"""Significant digits of sums in tables. JSON has all."""

SPARKLINE_COLUMNS = 24
"""The width of a histogram in a list."""

PICTURE_COLUMNS, PICTURE_ROWS = 64, 8
"""The size of a picture in the terminal, without its axis."""


@dataclass(frozen=True)
class Result:
    """The histogram of one file."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    channel_names: tuple[str, ...]
    counts: Tensor
    """int64, [channels, num_bins], in main memory, or the sums of weights, each rounded once."""
    below: int = 0
    """How many values lie below the first bin; 0 for text."""
    above: int = 0
    """How many values lie above the last bin; 0 for text."""
    sufficient_bins: int | None = None
    """A number of bins that leaves no value above them, None if that is too many."""
    note: str = ""
    edges: Tensor | None = None
    """The edges of floats in main memory: [channels, num_bins + 1], or [1, num_bins + 1] if all
    channels share them. None if bin v holds the integer v."""
    flow: Tensor | None = None
    """What is outside bins with edges: underflow, overflow and NaN, [channels, 3]."""
    is_log: bool = False
    """Whether the edges are evenly spaced in their logarithms."""
    weights: tuple[str, str] | None = None
    """The file of weights, and their dtype."""

    def edges_of(self, channel: int) -> Tensor:
        assert self.edges is not None
        return self.edges[min(channel, len(self.edges) - 1)]

    @property
    def ignored(self) -> int:
        """How many values lie outside the bins."""
        return self.elements - int(self.counts.sum())


def table(result: Result, encoding: str | None) -> str:
    """A header, and a bar per range of bins for each channel, in characters that `encoding` has."""
    shape = " x ".join(map(str, result.shape)) or "0-d"
    lines = [f"{printable(result.name)}: {result.kind}, {shape} {result.dtype}"]
    lines += lines_of_numbers("values", result.elements, result.counts, result.weights)
    lines += _ignored_lines(result)
    if result.note:
        lines.append(f"  note: {result.note}")
    start, stop = occupied(result.counts) if result.kind != "text" else (0, len(TEXT_BINS))
    width = math.ceil((stop - start) / TABLE_RANGES)
    for channel, counts in enumerate(result.counts[:TABLE_CHANNELS, start:stop]):
        if result.edges is not None:
            edges = result.edges_of(channel)[start : stop + 1]
            labels = interval_labels(edges, width, stop == result.counts.shape[1])
        elif result.kind == "text":
            labels = list(TEXT_BINS)
        else:
            labels = range_labels(start, stop, width)
        sums = sums_of_ranges(counts, width).tolist()
        what = "counted" if result.weights is None else "in bins"
        total = f"{shown(*sums_of_ranges(counts, len(counts)).tolist())} {what}"
        if result.flow is not None and (len(result.counts) > 1 or result.weights is not None):
            total = ", ".join([total, *flow_texts(result.flow[channel])])
        lines += ["", f"  {result.channel_names[channel]}: {total}"]
        if result.weights is not None:
            lines += _bars_of_sums(labels, sums, encoding)
        elif result.edges is None or any(sums):
            lines += _bars(labels, sums, encoding)
    hidden = len(result.counts) - TABLE_CHANNELS
    if hidden > 0:
        lines += ["", f"  and {hidden} more channels (--json prints all)"]
    return "\n".join(lines) + "\n"


def lines_of_numbers(
    what: str, elements: int, counts: Tensor, weights: tuple[str, str] | None, bins: str = ""
) -> Iterator[str]:
    """How many values or pairs there are, and how many are counted, or what their weights are."""
    bins = bins or str(counts.shape[1])
    if weights is not None:
        yield f"  weights: {printable(weights[0])}, {weights[1]}"
        yield f"  {elements:,} {what}, the sums of their weights in {bins} bins"
        return
    counted = int(counts.sum())
    yield (
        f"  {elements:,} {what}, {counted:,} counted in {bins} bins, {elements - counted:,} ignored"
    )


def _ignored_lines(result: Result) -> Iterator[str]:
    if result.flow is not None:
        if result.weights is not None:
            return  # each channel has its own sums
        for text in flow_texts(result.flow.sum(0)):
            yield f"  ignored: {text}{_limit(result, text)}"
        return
    if result.kind == "text" and result.ignored:
        yield f"  ignored: {result.ignored:,} not a-z"
    last = result.counts.shape[1] - 1
    yield from lines_of_ignored_integers(result.below, result.above, last, result.sufficient_bins)


def lines_of_ignored_integers(
    below: int, above: int, last: int, sufficient_bins: int | None
) -> Iterator[str]:
    """How many have no bin among 0 to `last`, and the option that gives them one."""
    remedy = "--bins 256 has bins for them"
    if below:
        yield f"  ignored: {below:,} below 0 ({remedy})"
    if above:
        if sufficient_bins is not None:
            remedy = f"--num-bins {sufficient_bins} counts them"
        yield f"  ignored: {above:,} above {last} ({remedy})"


def outside_texts(result: Result) -> list[str]:
    """The counts outside the bins that are not zero."""
    if result.flow is not None:
        return flow_texts(result.flow.sum(0))
    if result.kind == "text":
        return [f"{result.ignored:,} not a-z"] if result.ignored else []
    return texts_of_integers(result.below, result.above, result.counts.shape[1] - 1)


def texts_of_integers(below: float, above: float, last: int) -> list[str]:
    """How many integers have no bin among 0 to `last`, or their weights, if there are any."""
    named = ((below, "below 0"), (above, f"above {last}"))
    return [f"{shown(number)} {where}" for number, where in named if number]


def shown(number: float) -> str:
    """A count, or a sum of weights."""
    return f"{number:,}" if isinstance(number, int) else f"{number:.{DIGITS}g}"


def _limit(result: Result, flow: str) -> str:
    """The edge that underflow or overflow is beyond, if all channels have the same."""
    if result.edges is None or len(result.edges) > 1 or flow.endswith("NaN"):
        return ""
    low, high = float(result.edges[0, 0]), float(result.edges[0, -1])
    return f" (below {low:.6g})" if flow.endswith("underflow") else f" (above {high:.6g})"


def flow_texts(flow: Tensor) -> list[str]:
    """The counts outside the edges that are not zero."""
    return [f"{shown(n)} {name}" for n, name in zip(flow.tolist(), FLOW_NAMES, strict=True) if n]


def list_header(name: str, arrays: int) -> str:
    """The line above a list of a file's arrays."""
    columns = _list_line("histogram", "from", "to", "type", "shape", "name")
    return f"{printable(name)}: {arrays} arrays\n{columns}\n"


def list_entry(name: str, result: Result, encoding: str | None) -> str:
    """A line for an array in a file, and one for each of its first channels if they have edges."""
    whole = result.counts.sum(0)
    if result.edges is None:
        ends: tuple[float, float] = 0, result.counts.shape[1] - 1
    else:
        ends = float(result.edges.min()), float(result.edges.max())
        if len(result.edges) > 1:
            whole = torch.from_numpy(on_one_axis(result, SPARKLINE_COLUMNS)[1].sum(0))
    shape = "x".join(map(str, result.shape)) or "0-d"
    bars = _sparkline(whole, encoding)
    name = ", ".join([printable(name), *outside_texts(result)])
    lines = [_list_line(bars, _short(ends[0]), _short(ends[1]), result.dtype, shape, name)]
    if result.flow is not None and len(result.counts) > 1:
        for channel, counts in enumerate(result.counts[:TABLE_CHANNELS]):
            edges = result.edges_of(channel)
            bars = _sparkline(counts, encoding)
            name = ", ".join(
                [f"  {result.channel_names[channel]}", *flow_texts(result.flow[channel])]
            )
            lines.append(
                _list_line(bars, _short(float(edges[0])), _short(float(edges[-1])), "", "", name)
            )
        hidden = len(result.counts) - TABLE_CHANNELS
        if hidden > 0:
            more = f"  and {hidden} more channels (--json prints all)"
            lines.append(_list_line("", "", "", "", "", more))
    return "\n".join(lines)


def _list_line(bars: str, low: str, high: str, dtype: str, shape: str, name: str) -> str:
    return f"  {bars:{SPARKLINE_COLUMNS}}  {low:>9}  {high:>9}  {dtype:13}  {shape:12}  {name}"


def _short(value: float) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _sparkline(counts: Tensor, encoding: str | None) -> str:
    """A line of at most SPARKLINE_COLUMNS characters, each as heavy as its bins are full."""
    blocks = _available("▁▂▃▄▅▆▇█", ".:-=+*%#", encoding)
    sums = sums_of_ranges(counts, math.ceil(len(counts) / SPARKLINE_COLUMNS)).tolist()
    scale = len(blocks) / (max(sums) or 1)
    return "".join(f" {blocks}"[min(math.ceil(total * scale), len(blocks))] for total in sums)


def on_one_axis(result: Result, columns: int) -> tuple[FloatArray, FloatArray]:
    """The counts of channels that have edges of their own, between the edges of `columns` columns.

    They are for the eye: the values of a bin are taken to be spread evenly over it.
    """
    assert result.edges is not None
    edges = result.edges.double().numpy()
    # Positions are scaled by a power of two, so that neither huge nor subnormal edges are lost.
    exponent = 0 if result.is_log else int(np.frexp(np.abs(edges).max())[1])
    at = np.log2(edges) if result.is_log else np.ldexp(edges, -exponent)
    ends = at.min(), at.max()
    if ends[0] == ends[1]:
        ends = ends[0] - 0.5, ends[1] + 0.5
    axis = np.linspace(*ends, columns + 1)
    sums = np.zeros((len(result.counts), columns))
    for row, counts in enumerate(result.counts.numpy()):
        below = np.append(0, counts.cumsum())
        sums[row] = np.diff(np.interp(axis, at[min(row, len(at) - 1)], below))
    if not result.is_log:
        return np.ldexp(axis, exponent), sums
    with np.errstate(over="ignore"):
        return np.exp2(axis).clip(edges.min(), edges.max()), sums


def occupied(counts: Tensor) -> tuple[int, int]:
    """The first bin that is not empty in every channel, and the one after the last such bin."""
    bins = counts.any(dim=0).nonzero()
    return (int(bins[0]), int(bins[-1]) + 1) if len(bins) else (0, counts.shape[1])


def _bars(labels: Sequence[str], sums: list[int], encoding: str | None) -> Iterator[str]:
    total, peak = sum(sums), max(sums)
    label_width = max(map(len, labels))
    count_width = len(f"{peak:,}")
    for label, count in zip(labels, sums, strict=True):
        share = count / total if total else 0.0
        line = f"    {label:>{label_width}}  {count:>{count_width},}  {share:6.1%}"
        yield f"{line}  {bar(count / peak if peak else 0.0, BAR_WIDTH, encoding)}".rstrip()


def _bars_of_sums(
    labels: Sequence[str], sums: Sequence[float], encoding: str | None
) -> Iterator[str]:
    """A bar is as long as the magnitude of its sum, if that is finite."""
    texts = [shown(number) for number in sums]
    widths = [max(map(len, column)) for column in (labels, texts)]
    sizes = [abs(number) if math.isfinite(number) else 0 for number in sums]
    peak = max(sizes) or 1
    for label, text, size in zip(labels, texts, sizes, strict=True):
        line = f"    {label:>{widths[0]}}  {text:>{widths[1]}}"
        yield f"{line}  {bar(size / peak, BAR_WIDTH, encoding)}".rstrip()


def sums_of_ranges(counts: Sequence[float] | Tensor | npt.NDArray[Any], *widths: int) -> Any:
    """The counts of ranges of so many bins in each dimension, the last of which may be narrower.

    Floats neither overflow nor lose what is small on the way: their sum is rounded once."""
    sums = np.asarray(counts)
    if sums.dtype.kind != "f":
        for axis, width in enumerate(widths):
            sums = np.add.reduceat(sums, np.arange(0, sums.shape[axis], width), axis)
        return sums
    ranges = [math.ceil(size / width) for size, width in zip(sums.shape, widths, strict=True)]
    at = torch.zeros((), dtype=torch.int32)
    for size, width, number in zip(sums.shape, widths, ranges, strict=True):
        at = at.unsqueeze(-1) * number + torch.arange(size, dtype=torch.int32) // width
    found = channel_histogram(at, math.prod(ranges), None, weight=torch.from_numpy(sums))
    return found.reshape(ranges).numpy()


def range_labels(first: int, end: int, width: int) -> list[str]:
    starts = range(first, end, width)
    ends = (min(start + width, end) - 1 for start in starts)
    return [
        str(start) if start == end else f"{start}-{end}"
        for start, end in zip(starts, ends, strict=True)
    ]


def interval_labels(edges: Tensor, width: int, closed: bool) -> list[str]:
    """Names of ranges of `width` bins; `closed` if the last one holds its last edge."""
    ends = [*edges[:-1:width].tolist(), float(edges[-1])]
    texts = distinct_texts(ends)
    wide = max(map(len, texts))
    labels = [f"[{a:>{wide}}, {b:>{wide}})" for a, b in itertools.pairwise(texts)]
    return [*labels[:-1], labels[-1][:-1] + "]"] if closed else labels


def distinct_texts(values: list[float]) -> list[str]:
    """Numbers with as few digits, from four up, as leave different ones different."""
    for digits in range(4, 17):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(set(values)):
            return texts
    return [repr(value) for value in values]


def bar(fraction: float, width: int, encoding: str | None) -> str:
    """A horizontal bar of `fraction` of `width` columns; a trace is left of all but zero."""
    blocks = _available("▏▎▍▌▋▊▉█", "#", encoding)
    units = math.ceil(fraction * width * len(blocks))
    full, rest = divmod(units, len(blocks))
    return blocks[-1] * full + (blocks[rest - 1] if rest else "")


def picture(counts: list[int], encoding: str | None, ends: tuple[str, str] | None = None) -> str:
    """A histogram of upright bars, each of several bins, above an axis with its two ends."""
    blocks = _available("▁▂▃▄▅▆▇█", "#", encoding)
    sums = sums_of_ranges(counts, math.ceil(len(counts) / PICTURE_COLUMNS)).tolist()
    scale = PICTURE_ROWS * len(blocks) / max(1, *sums)
    heights = [math.ceil(total * scale) for total in sums]
    lines = []
    for row in reversed(range(PICTURE_ROWS)):
        filled = (min(max(height - row * len(blocks), 0), len(blocks)) for height in heights)
        lines.append("".join(f" {blocks}"[units] for units in filled).rstrip())
    first, last = ends or ("0", str(len(counts) - 1))
    return "\n".join([*lines, "-" * len(sums), first + last.rjust(len(sums) - len(first))])


def _available(characters: str, plain: str, encoding: str | None) -> str:
    """`characters`, from the lightest to the heaviest, or `plain` if the encoding lacks them."""
    try:
        characters.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return plain
    return characters


def channel_names(channel_shape: Sequence[int]) -> tuple[str, ...]:
    """Names for channels that only have numbers: their indices, separated by commas."""
    indices = itertools.product(*map(range, channel_shape))
    return tuple(",".join(map(str, index)) or "0" for index in indices)
