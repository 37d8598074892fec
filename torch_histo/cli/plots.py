"""The counts of files as a plot."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from ..streams._drawing import FAR, in_units, unit_of, with_unit
from .messages import one_line, printable
from .pairs import Axis, PairResult, texts_outside_axis
from .report import FloatArray, Result, occupied, on_one_axis, outside_texts, sums_of_ranges
from .sources import TEXT_BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

PLOT_LINES = 8
"""Most channels that a plot draws as lines; more become the rows of a heat map."""

PLOT_PANELS = 100
"""Most panels of a plot: a picture of 70 million pixels, which takes some 10 seconds."""

HEAT_MAP_ROWS, HEAT_MAP_COLUMNS = 256, 240
"""Most cells of a heat map: a panel has about as many pixels."""

PAIR_CELLS = 256
"""Most cells of each side of a heat map of pairs."""

WHOLE_AXIS = 256
"""Most bins that a plot shows where some at the ends are empty."""

TITLE_LENGTH = 44
"""Most characters of a panel's title, which are no wider than the panel."""

CHANNEL_COLOURS = {"R": "tab:red", "G": "tab:green", "B": "tab:blue", "A": "tab:gray"}
"""The colours of RGB and RGBA. A single channel is grey, and others have colours in turn."""


class PlotError(Exception):
    """Why the plot could not be written, in one line."""


def check_target(path: str, files: Sequence[str], overwrite: bool) -> None:
    """Raise PlotError where a plot cannot become the file `path`, or would replace a file.

    It never replaces one of `files`, which are the command's inputs, by whatever name.
    """
    try:
        from matplotlib.figure import Figure  # noqa: F401
    except ImportError as error:
        raise PlotError(
            f"--plot needs matplotlib (pip install 'torch_histo[plot]'): {one_line(error)}"
        ) from error
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise PlotError(f"argument --plot: the folder {folder} does not exist")
    if not os.path.lexists(path):
        return
    if os.path.isdir(path):
        raise PlotError(f"argument --plot: {path} is a directory: name a file in it")
    for file in files:
        with suppress(OSError):  # what cannot be opened is reported when it is counted
            source = sys.stdin.fileno() if file == "-" and sys.stdin is not None else file
            if os.path.samestat(os.stat(source), os.stat(path)):
                raise PlotError(
                    f"argument --plot: {path} is one of the files to count: name a new file"
                )
    if not overwrite:
        raise PlotError(
            f"argument --plot: {path} exists: name a new file, or replace it with --overwrite"
        )


PLOT_STEPS = 3
"""How often a panel tells its progress: it is made, drawn to find its place, and drawn."""


def plot(
    results: Sequence[Result | PairResult],
    path: str,
    *,
    overwrite: bool,
    log_counts: bool,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Write a figure with a panel for each result, in the format that the path's suffix names.

    There are at most PLOT_PANELS results. `progress` is called PLOT_STEPS times for each.
    Raises PlotError where that file cannot be written, or exists and `overwrite` is false.
    """
    check_target(path, (), overwrite)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = math.ceil(math.sqrt(len(results)))
    rows = math.ceil(len(results) / columns)
    spaced = ConstrainedLayoutEngine(h_pad=0.15, w_pad=0.15)  # inches
    figure = Figure(figsize=(7 * columns, 4 * rows), layout=spaced)
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for result, panel in zip(results, panels, strict=False):
        _fill(panel, result, log_counts)
        progress()
        panel.draw = _counted(panel.draw, progress)
    for unused in panels[len(results) :]:
        unused.set_axis_off()
    target = os.path.realpath(path)
    suffix = os.path.splitext(path)[1]
    unfinished = os.path.join(os.path.dirname(target), f".torch_histo-{os.getpid()}{suffix}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about characters of a name that the font lacks
            figure.savefig(unfinished)
        check_target(path, (), overwrite)
        os.replace(unfinished, target)
    except (OSError, ValueError) as error:
        raise PlotError(f"{path}: the plot cannot be written: {one_line(error)}") from error
    finally:
        with suppress(OSError):
            os.unlink(unfinished)


def _counted(draw: Callable[..., None], progress: Callable[[], object]) -> Callable[..., None]:
    """Draws, and tells."""

    @wraps(draw)
    def counted(*arguments: Any, **options: Any) -> None:
        draw(*arguments, **options)
        progress()

    return counted


def _fill(panel: Axes, result: Result | PairResult, log_counts: bool) -> None:
    if isinstance(result, PairResult):
        _plot_pairs(panel, result, log_counts)
    elif len(result.counts) > PLOT_LINES:
        _plot_heat_map(panel, result, log_counts)
    else:
        _plot_lines(panel, result, log_counts)
    name = printable(result.name)
    title = name if len(name) <= TITLE_LENGTH else f"…{name[1 - TITLE_LENGTH :]}"
    # A file's name may hold the dollar signs of matplotlib's mathematics.
    panel.set_title(title, parse_math=False)


def _plot_lines(panel: Axes, result: Result, log_counts: bool) -> None:
    counts = result.counts.numpy()
    start, stop = _part_shown(result.counts)
    bottom = 0.5 if log_counts else 0  # a logarithmic axis has no 0
    names = result.channel_names
    is_image = result.kind == "image"
    for index, name in enumerate(names):
        colour = f"C{index}"
        if is_image and set("RGB") <= set(names) <= set("RGBA"):
            colour = CHANNEL_COLOURS[name]
        elif is_image and len(names) == 1:
            colour = "tab:gray"
        panel.stairs(
            np.maximum(counts[index, start:stop], bottom),
            _positions(result, start, stop, index),
            baseline=bottom,
            label=name,
            fill=len(counts) == 1,
            facecolor=colour,
            edgecolor=colour,
            linewidth=1,  # of a filled one, too: a bin may be narrower than a pixel
        )
    peak = max(1, int(counts.max()))
    if log_counts:
        panel.set_yscale("log")
    panel.set_ylim(bottom, max(10, 2 * peak) if log_counts else 1.05 * peak)
    panel.set_ylabel("count")
    _label_bins(panel, result)
    if len(counts) > 1:
        panel.legend(title="channel", loc="upper left", bbox_to_anchor=(1, 1))


def _plot_heat_map(panel: Axes, result: Result, log_counts: bool) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    what = "value" if result.edges is None else "bin"
    if result.edges is not None and len(result.edges) > 1:
        edges, counts = on_one_axis(result, HEAT_MAP_COLUMNS)
        edges, what = _drawn(result, edges), "column"
    else:
        start, stop = _part_shown(result.counts)
        edges, counts = _positions(result, start, stop), result.counts.numpy()[:, start:stop]
    height = math.ceil(counts.shape[0] / HEAT_MAP_ROWS)
    width = math.ceil(counts.shape[1] / HEAT_MAP_COLUMNS)
    tops = np.arange(0, counts.shape[0], height)
    lefts = np.arange(0, counts.shape[1], width)
    sums = np.add.reduceat(np.add.reduceat(counts, lefts, 1), tops, 0)
    norm = LogNorm(1, max(2, int(sums.max()))) if log_counts else None
    mesh = panel.pcolormesh(
        edges[np.append(lefts, counts.shape[1])],
        np.append(tops, counts.shape[0]) - 0.5,
        sums,
        norm=norm,
        rasterized=True,
    )
    cell = f"{width} {what}{'s' * (width > 1)} x {height} channel{'s' * (height > 1)}"
    label = "count" if width == height == 1 else f"count in {cell}"
    panel.figure.colorbar(mesh, ax=panel, label=label)
    panel.use_sticky_edges = False  # the frame would hide the first bin
    panel.margins(0.01)
    panel.invert_yaxis()
    panel.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    panel.set_ylabel("channel")
    _label_bins(panel, result)


def _plot_pairs(panel: Axes, result: PairResult, log_counts: bool) -> None:
    """The first axis lies along x. Empty bins are left white."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    counts = result.counts
    (left, right), (bottom, top) = _part_shown(counts.t()), _part_shown(counts)
    shown = counts.numpy()[left:right, bottom:top]
    cell = [math.ceil(size / PAIR_CELLS) for size in shown.shape]
    edges = [
        _drawn(axis, axis.edges[0, start : stop + 1].double().numpy())
        for axis, start, stop in zip(result.axes, (left, bottom), (right, top), strict=True)
    ]
    sums = sums_of_ranges(shown, *cell)
    is_counts = result.weights is None
    what = "count" if is_counts else "sum of weights"
    unit = None if is_counts else unit_of(sums)
    if sums.dtype.kind == "f":
        most = np.abs(sums[np.isfinite(sums)]).max(initial=0) or 1.0
        sums = in_units(sums.clip(-most, most), unit)  # infinity has the colour of an end
    norm = None
    if log_counts:
        filled = sums[np.isfinite(sums) & (sums > 0)]
        least, most = (filled.min(), filled.max()) if filled.size else (1, 1)
        norm = LogNorm(1, max(2, int(most))) if is_counts else LogNorm(least, max(most, 2 * least))
    mesh = panel.pcolormesh(
        *(np.append(own[:-1:width], own[-1]) for own, width in zip(edges, cell, strict=True)),
        np.ma.masked_equal(np.ma.masked_invalid(sums.T), 0),
        norm=norm,
        vmin=0 if is_counts and not log_counts else None,
        rasterized=True,
    )
    panel.figure.colorbar(
        mesh,
        ax=panel,
        label=with_unit(what if cell == [1, 1] else f"{what} in {cell[0]} x {cell[1]} bins", unit),
        ticks=MaxNLocator(integer=True, min_n_ticks=1) if is_counts and not log_counts else None,
    )
    scales = (panel.xaxis, panel.set_xscale), (panel.yaxis, panel.set_yscale)
    for axis, (place, set_scale) in zip(result.axes, scales, strict=True):
        unit, text = _unit(axis), printable(axis.name)
        if unit is not None:
            text = f"log10 of {text}" if axis.is_log else with_unit(text, unit)
        elif axis.is_log:
            set_scale("log")
        elif axis.has_bin_per_integer:
            place.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        outside = ", ".join(texts_outside_axis(axis))
        # A name may hold the dollar signs of matplotlib's mathematics.
        place.set_label_text(f"{text} (outside: {outside})" if outside else text, parse_math=False)


def _part_shown(counts: Tensor) -> tuple[int, int]:
    num_bins = counts.shape[1]
    return (0, num_bins) if num_bins <= WHOLE_AXIS else occupied(counts)


def _positions(result: Result, start: int, stop: int, channel: int = 0) -> FloatArray:
    """The places on the axis of values at which the bins from `start` to `stop` begin and end."""
    if result.edges is None:
        return np.arange(start, stop + 1, dtype=np.float64) - 0.5
    return _drawn(result, result.edges_of(channel)[start : stop + 1].double().numpy())


def _unit(result: Result | Axis) -> int | None:
    """The exponent of ten to draw edges in units of, where matplotlib would overflow; else None."""
    assert result.edges is not None
    unit = unit_of(result.edges.double().numpy())
    if unit is None and result.is_log and float(result.edges.abs().min()) < 1 / FAR:
        return 0
    return unit


def _drawn(result: Result | Axis, edges: FloatArray) -> FloatArray:
    """The places of edges on the axis of values."""
    unit = _unit(result)
    return np.log10(edges) if result.is_log and unit is not None else in_units(edges, unit)


def _label_bins(panel: Axes, result: Result) -> None:
    from matplotlib.ticker import MaxNLocator

    if result.kind == "text":
        panel.set_xlabel("letters")
        panel.set_xticks(range(len(TEXT_BINS)), TEXT_BINS)
        return
    outside = ", ".join(outside_texts(result))
    value = "value"
    if result.edges is not None:
        unit = _unit(result)
        if unit is not None:
            value = "log10 of the value" if result.is_log else with_unit(value, unit)
        elif result.is_log:
            panel.set_xscale("log")
    else:
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    panel.set_xlabel(f"{value} (outside: {outside})" if outside else value)
