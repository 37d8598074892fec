"""Sums of weights by bin of an array in a file: what `--weights` of the command line prints."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._weight_operators import (
    sum_of_digits,
    sum_size,
    weighted_channel_histogram,
    weighted_histogram,
)
from . import counting, report
from .describe import json_number
from .messages import one_line, printable
from .sources import Dim, Piece, Source, SourceError, open_file


@dataclass(frozen=True)
class WeightedResult:
    """The sums of the weights of one array by bin, each exact and rounded once."""

    name: str
    weights: str
    source: Source
    weight_source: Source
    channel_names: tuple[str, ...]
    sums: Tensor
    """float64 or int64, [channels, num_bins], in main memory."""
    edges: Tensor | None = None
    """Of floats, as in `report.Result`."""
    flow: Tensor | None = None
    """The sums of weights outside bins with edges: underflow, overflow and NaN, [channels, 3]."""
    below: int = 0
    above: int = 0
    """How many integers have no bin of their own, and so their weights are in no sum."""
    sufficient_bins: int | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.source.shape or ())

    def edges_of(self, channel: int) -> Tensor:
        assert self.edges is not None
        return self.edges[min(channel, len(self.edges) - 1)]

    def entry(self) -> dict[str, Any]:
        channels = []
        for index, name in enumerate(self.channel_names):
            channel: dict[str, Any] = {"name": name}
            if self.flow is not None:
                channel["edges"] = self.edges_of(index).tolist()
                channel |= zip(
                    ("underflow", "overflow", "nan"), json_numbers(self.flow[index]), strict=True
                )
            channels.append({**channel, "sums": json_numbers(self.sums[index])})
        return {
            "name": self.name,
            "kind": self.source.kind,
            "dtype": self.source.dtype,
            "shape": self.source.shape,
            "elements": self.elements,
            "weights": self.weights,
            "weight_dtype": self.weight_source.dtype,
            "below": self.below,
            "above": self.above,
            "num_bins": self.sums.shape[1],
            "note": self.source.note,
            "channels": channels,
        }


def json_numbers(sums: Tensor) -> list[Any]:
    return [json_number(value) for value in sums.tolist()]


def weigh(
    name: str, source: Source, arguments: argparse.Namespace, dim: Dim, device: torch.device
) -> WeightedResult:
    """The sums of the weights of a source, which the file `arguments.weights` holds."""
    if source.kind != "array":
        raise SourceError(f"--weights is for arrays, found {source.kind}")
    counting.check_values(source)
    with opened(arguments.weights, source.shape or (), dim) as weight_source:
        pairs = _pairs(source, weight_source, arguments.weights)
        reads_twice = counting.reads_twice(source, arguments)
        with counting.reading(name, source, reads=1 + reads_twice) as pieces:
            channels = source.channel_names or report.channel_names(source.channel_shape)
            of = (name, arguments.weights, source, weight_source, channels)
            if counting.has_edges(source, arguments):
                edges = counting.edges_of(source, pieces, arguments, device)
                rows = _sums(source, weight_source, pairs(pieces()), edges, device)
                flow = rows[:, [0, -2, -1]]
                edges = edges.reshape(-1, edges.shape[-1]).cpu()
                return WeightedResult(*of, rows[:, 1:-2], edges, flow)
            outside = _Outside(counting.bins_of(source, pieces, arguments))
            sums = _sums(
                source, weight_source, outside.watch(pairs(pieces())), outside.num_bins, device
            )
            return WeightedResult(
                *of,
                sums,
                below=outside.below,
                above=outside.above,
                sufficient_bins=counting.sufficient_bins(source, outside.largest),
            )


@dataclass
class _Outside:
    """Counts the integers outside the bins 0 to num_bins - 1."""

    num_bins: int
    below: int = 0
    above: int = 0
    largest: int = 0

    def watch(self, pairs: Iterator[tuple[Piece, Tensor]]) -> Iterator[tuple[Piece, Tensor]]:
        for piece, weights in pairs:
            array = piece.values.numpy()  # torch compares no unsigned integers
            self.below += int((array < 0).sum())
            self.above += int((array >= self.num_bins).sum())
            self.largest = max(self.largest, int(array.max()))
            yield piece, weights


@contextmanager
def opened(file: str, shape: Sequence[int], dim: Dim = None) -> Iterator[Source]:
    """The one array of a file of weights, which must have this shape."""
    with ExitStack() as stack:
        try:
            parts = stack.enter_context(open_file(file, dim=dim))
        except (SourceError, OSError) as error:  # of this file, not of the one that is counted
            raise SourceError(f"--weights {file}: {one_line(error)}") from error
        if len(parts) != 1:
            raise SourceError(f"--weights {file}: expected one array, found {len(parts)}")
        try:
            found = parts[0][1]()
        except SourceError as error:
            raise SourceError(f"--weights {file}: {error}") from None
        if found.kind != "array" or found.shape != tuple(shape):
            sizes = list(found.shape) if found.shape is not None else "no shape"
            raise SourceError(
                f"--weights {file}: expected an array of shape {list(shape)}, a "
                f"weight for each value, found {found.kind} of {sizes}"
            )
        yield found


def _pairs(
    source: Source, weight_source: Source, file: str
) -> Callable[[Iterator[Piece]], Iterator[tuple[Piece, Tensor]]]:
    """Pieces of the values, and the weights of each, which their file has in the same order."""

    def pairs(pieces: Iterator[Piece]) -> Iterator[tuple[Piece, Tensor]]:
        for piece, weights in zip(pieces, weight_source.pieces(), strict=True):
            if weights.values.shape != piece.values.shape:
                raise SourceError(
                    f"--weights {file}: its values lie in another order of memory than those of "
                    "the array: save both with np.ascontiguousarray"
                )
            yield piece, weights.values

    return pairs


def _sums(
    source: Source,
    weight_source: Source,
    pairs: Iterator[tuple[Piece, Tensor]],
    bins: Tensor | int,
    device: torch.device,
) -> Tensor:
    """[channels, bins], with the flow if bins have edges: digits are added, and rounded once."""
    digits: Tensor | None = None
    columns = bins.shape[-1] + 2 if isinstance(bins, Tensor) else bins
    for piece, weights in pairs:
        if digits is None:
            size = sum_size(weights.dtype)
            counting.check_counts(source, columns, size)
            digits = torch.zeros(
                (*source.channel_shape, columns, size), dtype=torch.int64, device=device
            )
        values, weights = piece.values.to(device), weights.to(device)
        dim = list(source.dim or range(values.dim()))
        if isinstance(bins, Tensor):
            own = bins[piece.channels] if bins.dim() > 1 else bins
            digits[piece.channels] += weighted_histogram(values, own, weights, dim, flow=True)
        else:
            digits[piece.channels] += weighted_channel_histogram(values, weights, bins, dim)
    assert digits is not None  # an array without values is refused
    sums: Tensor = sum_of_digits(digits)
    return sums.reshape(-1, columns).cpu()


# --- Tables -----------------------------------------------------------------------------


def table(result: WeightedResult, encoding: str | None) -> str:
    """A header, and a bar per range of bins for each channel, as long as the sum is large."""
    source = result.source
    shape = " x ".join(map(str, source.shape or ())) or "0-d"
    lines = [
        f"{printable(result.name)}: {source.kind}, {shape} {source.dtype}",
        f"  weights: {printable(result.weights)}, {result.weight_source.dtype}",
        f"  {result.elements:,} values, the sums of their weights in {result.sums.shape[1]} bins",
    ]
    last = result.sums.shape[1] - 1
    lines += report.lines_of_ignored_integers(
        result.below, result.above, last, result.sufficient_bins
    )
    if source.note:
        lines.append(f"  note: {source.note}")
    start, stop = report.occupied(result.sums)
    width = math.ceil((stop - start) / report.TABLE_RANGES)
    for channel, sums in enumerate(result.sums[: report.TABLE_CHANNELS, start:stop]):
        if result.edges is None:
            labels = report.range_labels(start, stop, width)
        else:
            edges = result.edges_of(channel)[start : stop + 1]
            labels = report.interval_labels(edges, width, stop == result.sums.shape[1])
        head = f"{report.shown(sums.sum().item())} in bins"
        if result.flow is not None:
            head = ", ".join([head, *report.flow_texts(result.flow[channel])])
        lines += ["", f"  {result.channel_names[channel]}: {head}"]
        lines += _bars(labels, report.sums_of_ranges(sums, width), encoding)
    hidden = len(result.sums) - report.TABLE_CHANNELS
    if hidden > 0:
        lines += ["", f"  and {hidden} more channels (--json prints all)"]
    return "\n".join(lines) + "\n"


def _bars(labels: Sequence[str], sums: Sequence[float], encoding: str | None) -> Iterator[str]:
    """A bar is as long as the magnitude of its sum, if that is finite."""
    texts = [report.shown(number) for number in sums]
    widths = [max(map(len, column)) for column in (labels, texts)]
    sizes = [abs(number) if math.isfinite(number) else 0 for number in sums]
    peak = max(sizes) or 1
    for label, text, size in zip(labels, texts, sizes, strict=True):
        line = f"    {label:>{widths[0]}}  {text:>{widths[1]}}"
        yield f"{line}  {report.bar(size / peak, report.BAR_WIDTH, encoding)}".rstrip()
