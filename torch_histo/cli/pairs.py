"""Counts of the pairs of two columns or channels of a file: what `--joint` prints."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from .._weight_operators import sum_size
from ..histograms import histogram
from ..joint import histogramdd
from . import counting, report
from .documents import json_numbers, json_of_weights
from .messages import printable
from .report import lines_of_numbers
from .sources import Part, Piece, Source, SourceError, open_file
from .weighing import opened

BINS = 64
"""Bins of an axis between edges, if the command line does not say how many."""

TABLE_COLUMNS = 8
"""Most ranges of bins of the second axis in a table."""

NAMES = 8
"""Most names of columns in an error."""


@dataclass(frozen=True)
class Axis:
    """The bins of one of the two columns or channels, and how many values are outside."""

    name: str
    dtype: str
    edges: Tensor
    """[1, n + 1], in main memory. The bin of an integer ends 0.5 below it and 0.5 above it."""
    flow: Tensor
    """[3]: how many values are below the edges, above them, and NaN; or their weights."""
    has_bin_per_integer: bool
    """Whether there is a bin for each integer."""
    is_log: bool

    def labels(self, start: int, stop: int, width: int) -> list[str]:
        """Names of ranges of `width` bins from `start` to `stop`."""
        if self.has_bin_per_integer:
            return report.range_labels(start, stop, width)
        edges = self.edges[0, start : stop + 1]
        return report.interval_labels(edges, width, stop == self.edges.shape[1] - 1)

    def ends(self, start: int, stop: int, width: int) -> dict[str, list[str]]:
        """The first and the last value, or edge, of each of these ranges, in lines of a table."""
        if self.has_bin_per_integer:
            return {"": report.range_labels(start, stop, width)}
        edges = self.edges[0, start : stop + 1]
        texts = report.distinct_texts([*edges[:-1:width].tolist(), float(edges[-1])])
        return {"from": texts[:-1], "to": texts[1:]}

    def entry(self) -> dict[str, Any]:
        flow = zip(("underflow", "overflow", "nan"), json_numbers(self.flow), strict=True)
        edges = self.edges[0].tolist()
        return {
            "name": self.name,
            "dtype": self.dtype,
            "num_bins": len(edges) - 1,
            "edges": edges,
            **dict(flow),
        }


@dataclass(frozen=True)
class PairResult:
    """The joint histogram of two columns or channels."""

    name: str
    elements: int
    axes: tuple[Axis, Axis]
    counts: Tensor
    """[bins of the first, bins of the second], in main memory: int64, or sums of weights."""
    note: str = ""
    weights: tuple[str, str] | None = None
    """The file of weights, and their dtype."""

    @property
    def ignored(self) -> int:
        """How many pairs have a value outside the bins of its axis."""
        return self.elements - int(self.counts.sum())

    def entry(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "joint",
            "elements": self.elements,
            **(json_of_weights(self.weights) if self.weights else {"ignored": self.ignored}),
            "note": self.note,
            "axes": [axis.entry() for axis in self.axes],
            "sums" if self.weights else "counts": [json_numbers(row) for row in self.counts],
        }


class _Chosen(NamedTuple):
    """One of the two, with all of its values."""

    name: str
    source: Source
    values: Tensor


def count(file: str, arguments: argparse.Namespace, device: torch.device) -> PairResult:
    """Counts two columns, or two channels of the only array in a file, which memory has to hold."""
    with open_file(file, channels=arguments.channels, dim=arguments.dim) as parts:
        if len(parts) > 1:
            chosen = [_column(file, parts, name) for name in arguments.joint]
        else:
            chosen = _channels(file, parts[0][1](), arguments)
    shapes = [list(one.values.shape) for one in chosen]
    if shapes[0] != shapes[1]:
        expected = "--joint: both must have the same shape"
        raise SourceError(f"{expected}, got {shapes[0]} and {shapes[1]}")
    x, y = (_edges(one, arguments, device) for one in chosen)
    weight = names = None
    if arguments.weights is not None:
        weight, names = _weights(arguments.weights, chosen[0], device)
    size = 1 if weight is None else sum_size(weight.dtype)
    if (len(x) + 2) * (len(y) + 2) * size > counting.MAX_COUNTS:
        _refuse_bins(f"{len(x) - 1} x {len(y) - 1}", size)
    sample = [one.values.reshape(-1).to(device) for one in chosen]
    hist = histogramdd(sample, (x, y), weight=weight).hist.cpu()
    flows = [
        histogram(values, edges, weight=weight, flow=True).hist[[0, -2, -1]].cpu()
        for values, edges in zip(sample, (x, y), strict=True)
    ]
    first, second = (
        _axis(*of, arguments) for of in zip(chosen, (x.cpu(), y.cpu()), flows, strict=True)
    )
    note = chosen[0].source.note
    return PairResult(file, len(sample[0]), (first, second), hist, note, names)


def _weights(file: str, one: _Chosen, device: torch.device) -> tuple[Tensor, tuple[str, str]]:
    """The weights of pairs, one-dimensional, with the name of their file and their dtype."""
    is_image = one.source.kind == "image"
    shape = (one.source.shape or ())[:-1] if is_image else tuple(one.values.shape)
    if math.prod(shape) != one.values.numel():
        raise SourceError("--weights is for images of one frame")
    with opened(file, shape) as source:
        return _values(file, source).reshape(-1).to(device), (file, source.dtype)


def _axis(one: _Chosen, edges: Tensor, flow: Tensor, arguments: argparse.Namespace) -> Axis:
    has_edges = counting.has_edges(one.source, arguments)
    return Axis(
        name=one.name,
        dtype=one.source.dtype,
        edges=edges[None],
        flow=flow,
        has_bin_per_integer=not has_edges,
        is_log=arguments.log and has_edges,
    )


def check_names(option: str, wanted: Sequence[str], parts: Sequence[Part]) -> None:
    """Refuses a name that is none of a file's arrays."""
    names = [part for part, _ in parts]
    for name in wanted:
        if name not in names:
            found = _listed(names)
            raise SourceError(f"{option}: found no column or array {name!r}, but {found}")


def _column(file: str, parts: Sequence[Part], name: str) -> _Chosen:
    """The array of this name."""
    check_names("--joint", [name], parts)
    if (same := [part for part, _ in parts].count(name)) > 1:
        raise SourceError(f"--joint: found {same} columns {name!r}: give them different names")
    try:
        source = dict(parts)[name]()
        return _Chosen(name, source, _values(f"{file}:{name}", source))
    except SourceError as error:
        raise SourceError(f"{printable(name)}: {error}") from error


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return ", ".join(map(printable, names[:NAMES])) + more


def _channels(file: str, source: Source, arguments: argparse.Namespace) -> list[_Chosen]:
    """Two channels of an array, an image or bytes."""
    values = _values(file, source)
    if source.kind == "array":
        kept = _kept(source, arguments)
        if not kept:
            shape = list(source.shape or ())
            raise SourceError(f"--joint: the array of shape {shape} has one channel: see --dim")
        channels = values.movedim(kept, tuple(range(len(kept))))
        sizes = channels.shape[: len(kept)]
    else:
        sizes = torch.Size(source.channel_shape)
        whole = values.numel() // sizes[0] * sizes[0]  # bytes may end amid a row
        channels = values[:whole].view(-1, sizes[0]).t()
    names = source.channel_names
    return [
        _Chosen(name if names else f"channel {name}", source, channels[_index(name, names, sizes)])
        for name in arguments.joint
    ]


def _kept(source: Source, arguments: argparse.Namespace) -> tuple[int, ...]:
    """The dimensions whose indices are channels: the last one, unless an option names others."""
    dimensions = len(source.shape or ())
    if arguments.per_channel:
        return (0,) if dimensions > 1 else ()
    if arguments.dim is not None:
        return tuple(d for d in range(dimensions) if d not in source.dim)
    return (dimensions - 1,) if dimensions > 1 else ()


def _index(name: str, names: Sequence[str], sizes: Sequence[int]) -> tuple[int, ...]:
    """The index of the channel of this name."""
    if name in names:
        return (names.index(name),)
    numbers = name.split(",")
    if not names and len(numbers) == len(sizes) and all(map(str.isdecimal, numbers)):
        index = tuple(map(int, numbers))
        if all(i < size for i, size in zip(index, sizes, strict=True)):
            return index
    last = ",".join(str(size - 1) for size in sizes)
    has = _listed(names) if names else f"{','.join('0' for _ in sizes)} to {last}"
    raise SourceError(f"--joint: found no channel {name!r}, but {has}")


def _values(name: str, source: Source) -> Tensor:
    """All values: an array in its shape, others in one dimension."""
    counting.check_values(source)
    with counting.reading(name, source, reads=1) as pieces:
        parts = [piece.values for piece in pieces()]
    sizes = source.shape or (1,)
    if not source.is_fortran:
        flat = torch.cat([part.reshape(-1) for part in parts])
        return flat.view(sizes) if source.kind == "array" else flat
    backwards = tuple(reversed(range(len(sizes))))
    flat = torch.cat([part.permute(backwards).reshape(-1) for part in parts])
    return flat.view(sizes[::-1]).permute(backwards)


def _edges(one: _Chosen, arguments: argparse.Namespace, device: torch.device) -> Tensor:
    """The edges of an axis, [n + 1]."""
    source = replace(one.source, channel_shape=(), dim=())

    def pieces() -> Iterator[Piece]:
        yield Piece(one.values)

    if counting.has_edges(source, arguments):
        own = argparse.Namespace(**{**vars(arguments), "bins": arguments.bins or BINS})
        if own.bins > counting.MAX_COUNTS:
            _refuse_bins(f"{own.bins} an axis")
        return counting.edges_of(source, pieces, own, device)
    num_bins = counting.bins_of(source, pieces, arguments)
    if num_bins > counting.MAX_COUNTS:
        _refuse_bins(f"{num_bins} an axis")
    return torch.arange(num_bins + 1, dtype=torch.float64, device=device) - 0.5


def _refuse_bins(found: str, size: int = 1) -> NoReturn:
    most = counting.MAX_COUNTS // size
    raise SourceError(f"expected at most {most} bins, got {found}: give --bins")


# --- Tables -----------------------------------------------------------------------------


def table(result: PairResult) -> str:
    """A header, and a line for each range of bins of the first axis."""
    x, y = result.axes
    sizes = " x ".join(str(size) for size in result.counts.shape)
    lines = [
        f"{printable(result.name)}: {_described(x)} and {_described(y)}",
    ]
    lines += lines_of_numbers("pairs", result.elements, result.counts, result.weights, sizes)
    for axis in result.axes:
        outside = ", ".join(texts_outside_axis(axis))
        if outside:
            lines.append(f"  outside the bins of {printable(axis.name)}: {outside}")
    if result.note:
        lines.append(f"  note: {result.note}")
    return "\n".join([*lines, "", *_rows(result)]) + "\n"


def _described(axis: Axis) -> str:
    return f"{printable(axis.name)} ({axis.dtype})"


def texts_outside_axis(axis: Axis) -> list[str]:
    """How many values lie outside the bins of an axis, whatever the other axis has."""
    if not axis.has_bin_per_integer:
        return report.flow_texts(axis.flow)
    below, above, _ = axis.flow.tolist()
    return report.texts_of_integers(below, above, axis.edges.shape[1] - 2)


def _rows(result: PairResult) -> Iterator[str]:
    x, y = result.axes
    top, bottom = report.occupied(result.counts.t())
    left, right = report.occupied(result.counts)
    height = math.ceil((bottom - top) / report.TABLE_RANGES)
    width = math.ceil((right - left) / TABLE_COLUMNS)
    sums = report.sums_of_ranges(result.counts.numpy()[top:bottom, left:right], height, width)
    ends = y.ends(left, right, width)
    heads = [*ends, *x.labels(top, bottom, height)]
    cells = [*ends.values(), *(list(map(report.shown, row)) for row in sums.tolist())]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    first = printable(x.name)
    wide = max(len(first), *map(len, heads))
    yield f"    {'':{wide}}  {printable(y.name)}"
    for index, (head, row) in enumerate(zip(heads, cells, strict=True)):
        if index == len(ends):
            yield f"    {first}"
        numbers = (f"{cell:>{size}}" for cell, size in zip(row, widths, strict=True))
        yield f"    {head:>{wide}}  {'  '.join(numbers)}"
