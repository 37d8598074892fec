"""The counts of files as a table for people, as JSON for programs and as a plot."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .sources import TEXT_BINS, one_line, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TABLE_RANGES = 16
"""Most ranges of bins in a table, the widths of all but the last being equal."""

TABLE_CHANNELS = 8
"""Most channels in a table."""

PLOT_LINES = 8
"""Most channels that a plot draws as lines; more become the rows of a heat map."""

BAR_WIDTH = 40
"""Terminal columns of the longest bar."""

PICTURE_COLUMNS, PICTURE_ROWS = 64, 8
"""The size of a picture in the terminal, without its axis."""

CHANNEL_COLOURS = {"R": "tab:red", "G": "tab:green", "B": "tab:blue", "A": "tab:gray"}


class PlotError(Exception):
    """Why the plot could not be written, in one line."""


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
    """int64, [channels, num_bins], in main memory."""
    note: str = ""

    @property
    def ignored(self) -> int:
        """How many values lie outside the bins."""
        return self.elements - int(self.counts.sum())


def table(result: Result, encoding: str | None) -> str:
    """A header, and a bar per range of bins for each channel, in characters that `encoding` has."""
    shape = " x ".join(map(str, result.shape)) or "0-d"
    lines = [f"{printable(result.name)}: {result.kind}, {shape} {result.dtype}"]
    num_bins = result.counts.shape[1]
    outside = "not a-z" if result.kind == "text" else f"outside 0..{num_bins - 1}"
    lines.append(
        f"  {result.elements:,} values, {result.elements - result.ignored:,} counted in "
        f"{num_bins} bins, {result.ignored:,} ignored ({outside})"
    )
    if result.note:
        lines.append(f"  note: {result.note}")
    shown = zip(result.channel_names, result.counts[:TABLE_CHANNELS].tolist(), strict=False)
    for name, counts in shown:
        lines += ["", *_channel_table(name, counts, result.kind, encoding)]
    hidden = len(result.counts) - TABLE_CHANNELS
    if hidden > 0:
        lines += ["", f"  and {hidden} more channels (--json prints all)"]
    return "\n".join(lines) + "\n"


def _channel_table(name: str, counts: list[int], kind: str, encoding: str | None) -> Iterator[str]:
    width = math.ceil(len(counts) / TABLE_RANGES)
    sums = _sums(counts, width)
    total, peak = sum(sums), max(sums)
    labels = TEXT_BINS if kind == "text" else _range_labels(len(counts), width)
    label_width = max(map(len, labels))
    count_width = len(f"{peak:,}")
    yield f"  {name}: {total:,} counted"
    for label, count in zip(labels, sums, strict=True):
        share = count / total if total else 0.0
        line = f"    {label:>{label_width}}  {count:>{count_width},}  {share:6.1%}"
        yield f"{line}  {bar(count / peak if peak else 0.0, BAR_WIDTH, encoding)}".rstrip()


def _sums(counts: list[int], width: int) -> list[int]:
    """The counts of ranges of `width` bins, the last of which may be narrower."""
    return [sum(counts[start : start + width]) for start in range(0, len(counts), width)]


def _range_labels(num_bins: int, width: int) -> list[str]:
    starts = range(0, num_bins, width)
    ends = (min(start + width, num_bins) - 1 for start in starts)
    return [
        str(start) if start == end else f"{start}-{end}"
        for start, end in zip(starts, ends, strict=True)
    ]


def bar(fraction: float, width: int, encoding: str | None) -> str:
    """A horizontal bar of `fraction` of `width` columns; a trace is left of all but zero."""
    blocks = _available("▏▎▍▌▋▊▉█", "#", encoding)
    units = math.ceil(fraction * width * len(blocks))
    full, rest = divmod(units, len(blocks))
    return blocks[-1] * full + (blocks[rest - 1] if rest else "")


def picture(counts: list[int], encoding: str | None) -> str:
    """A histogram of upright bars, each of several bins, above the axis of its bins."""
    blocks = _available("▁▂▃▄▅▆▇█", "#", encoding)
    sums = _sums(counts, math.ceil(len(counts) / PICTURE_COLUMNS))
    scale = PICTURE_ROWS * len(blocks) / max(1, *sums)
    heights = [math.ceil(total * scale) for total in sums]
    lines = []
    for row in reversed(range(PICTURE_ROWS)):
        filled = (min(max(height - row * len(blocks), 0), len(blocks)) for height in heights)
        lines.append("".join(f" {blocks}"[units] for units in filled).rstrip())
    last = str(len(counts) - 1)
    return "\n".join([*lines, "-" * len(sums), "0" + last.rjust(len(sums) - 1)])


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


def as_json(results: Sequence[Result], errors: Sequence[tuple[str, str]]) -> str:
    """One JSON document with every bin of every file, and the files that could not be counted."""
    files = [
        {
            "name": result.name,
            "kind": result.kind,
            "dtype": result.dtype,
            "shape": result.shape,
            "elements": result.elements,
            "ignored": result.ignored,
            "num_bins": result.counts.shape[1],
            "bins": TEXT_BINS if result.kind == "text" else None,
            "note": result.note,
            "channels": [
                {"name": name, "counts": counts}
                for name, counts in zip(result.channel_names, result.counts.tolist(), strict=True)
            ],
        }
        for result in results
    ]
    failures = [{"name": name, "error": error} for name, error in errors]
    return json.dumps({"files": files, "errors": failures})


def plot(results: Sequence[Result], path: str) -> None:
    """Write a figure with a panel for each result, in the format that the path's suffix names.

    Raises PlotError where matplotlib is missing or cannot write that file.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlotError(
            f"--plot needs matplotlib (pip install 'torch_histo[plot]'): {error}"
        ) from error
    columns = math.ceil(math.sqrt(len(results)))
    rows = math.ceil(len(results) / columns)
    figure = Figure(figsize=(7 * columns, 4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for result, panel in zip(results, panels, strict=False):
        if len(result.counts) > PLOT_LINES:
            _plot_heat_map(panel, result)
        else:
            _plot_lines(panel, result)
        # A file's name may hold the dollar signs of matplotlib's mathematics.
        panel.set_title(printable(Path(result.name).name), parse_math=False)
    for unused in panels:
        unused.set_axis_off()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of characters of a name that the font lacks.
            figure.savefig(path)
    except (OSError, ValueError) as error:
        raise PlotError(f"{path}: the plot cannot be written: {one_line(error)}") from error


def _plot_lines(panel: Axes, result: Result) -> None:
    edges: Any = [i - 0.5 for i in range(result.counts.shape[1] + 1)]
    for name, counts in zip(result.channel_names, result.counts.numpy(), strict=True):
        colour = CHANNEL_COLOURS.get(name) if result.kind == "image" else None
        panel.stairs(counts, edges, label=name, color=colour, fill=len(result.counts) == 1)
    panel.set_ylabel("count")
    panel.set_ylim(bottom=0)
    _label_bins(panel, result)
    panel.legend(title="channel")


def _plot_heat_map(panel: Axes, result: Result) -> None:
    image = panel.imshow(result.counts.numpy(), aspect="auto", interpolation="nearest")
    panel.figure.colorbar(image, ax=panel, label="count")
    panel.set_ylabel("channel")
    _label_bins(panel, result)


def _label_bins(panel: Axes, result: Result) -> None:
    panel.set_xlabel("letters" if result.kind == "text" else "value")
    if result.kind == "text":
        panel.set_xticks(range(len(TEXT_BINS)), TEXT_BINS)
