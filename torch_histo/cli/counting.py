"""Counts the values of one array of a file, piece by piece."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm  # type: ignore[import-untyped]

from .._arguments import name_of
from .._ranges import range_of_extremes
from ..histograms import histogram
from ..ops import channel_histogram, text_histogram
from . import report
from .sources import Piece, Source, SourceError

MAX_COUNTS = 1 << 27
"""Most bins over all channels of a file: a GiB of counts."""

MAX_ADDED = 1 << 22
"""Most counts that one call makes, if a piece can be divided by its channels."""

MAX_FOUND_BINS = 1 << 16
"""Most bins that an array gets by its largest value."""

EDGED_BINS = 256
"""Bins between edges, if the command line does not say how many."""

PROGRESS_DELAY = 0.5
"""Seconds that pass before there is a progress bar."""


def count(
    name: str, source: Source, arguments: argparse.Namespace, device: torch.device
) -> report.Result:
    """The histogram of one source, counted piece by piece."""
    check_values(source)
    by_rule = has_edges(source, arguments) and isinstance(arguments.bins, str)
    reads = 1 + reads_twice(source, arguments) + by_rule
    with reading(name, source, reads=reads) as pieces:
        if by_rule:
            arguments = _with_number_of_bins(source, pieces, arguments, device)
        if has_edges(source, arguments):
            return _count_between_edges(name, source, pieces, arguments, device)
        return _count_integers(name, source, pieces, arguments, device)


def _with_number_of_bins(
    source: Source,
    pieces: Callable[[], Iterator[Piece]],
    arguments: argparse.Namespace,
    device: torch.device,
) -> argparse.Namespace:
    """The arguments with a number instead of a rule, which needs all values at once."""
    rule, channels = arguments.bins, math.prod(source.channel_shape)
    if channels != 1:
        raise SourceError(f"--bins {rule} is for one channel, found {channels}: give a number")
    values = torch.cat([piece.values.flatten() for piece in pieces()]).to(device)
    try:
        edges = histogram(values, rule, _given_range(source, arguments)).bin_edges
    except RuntimeError as error:
        line = str(error).removeprefix("histogram: bins")
        if line == str(error):
            raise
        raise SourceError(f"--bins{line}") from None
    return argparse.Namespace(**{**vars(arguments), "bins": len(edges) - 1})


def check_values(source: Source) -> None:
    if source.kind == "array" and source.nbytes == 0:
        raise SourceError(f"the array of shape {list(source.shape or ())} holds no values")


def has_edges(source: Source, arguments: argparse.Namespace) -> bool:
    """Whether bins lie between edges: those of floats, and those of integers if --bins or the like
    is given. Other integers have a bin for each value."""
    given = arguments.bins or arguments.range or arguments.log
    return source.is_float or bool(given and not arguments.num_bins)


def reads_twice(source: Source, arguments: argparse.Namespace) -> bool:
    """Whether the values tell the bins."""
    if has_edges(source, arguments):
        return _given_range(source, arguments) is None
    return arguments.num_bins is None and source.default_bins is None


def _given_range(source: Source, arguments: argparse.Namespace) -> Sequence[float] | None:
    """The first and the last edge, if they are known before the values are read.

    Images and bytes are read only once, so their range is that of their type."""
    if arguments.range is None and source.kind in ("image", "bytes") and source.default_bins:
        return 0, source.default_bins
    given: Sequence[float] | None = arguments.range
    return given


@contextmanager
def reading(name: str, source: Source, *, reads: int) -> Iterator[Callable[[], Iterator[Piece]]]:
    """A function that reads the pieces of a source, `reads` times, with a progress bar."""
    total = source.nbytes and source.nbytes * reads
    progress = progress_bar(name, total, unit="B", unit_scale=True)

    def pieces() -> Iterator[Piece]:
        for piece in source.pieces():
            yield piece
            progress.update(piece.values.nbytes)

    with progress:
        yield pieces


def progress_bar(what: str, total: int | None, **options: Any) -> tqdm:
    """A bar on standard error, if that is a terminal and the work takes long."""
    is_hidden = sys.stderr is None or not sys.stderr.isatty()
    return tqdm(
        desc=what, total=total, delay=PROGRESS_DELAY, leave=False, disable=is_hidden, **options
    )


def _count_integers(
    name: str,
    source: Source,
    pieces: Callable[[], Iterator[Piece]],
    arguments: argparse.Namespace,
    device: torch.device,
) -> report.Result:
    num_bins = bins_of(source, pieces, arguments)
    counts = _zeros(source, num_bins, num_bins, device)
    elements = below = above = largest = 0
    for piece in pieces():
        values = piece.values.to(device)
        elements += values.numel()
        if source.kind == "text":
            counts += text_histogram(values)
            continue
        ignored = values.numel() - _add(counts[piece.channels], values, source.dim)
        if ignored:
            array = piece.values.numpy()
            negative = int((array < 0).sum())
            below += negative
            above += ignored - negative
            largest = max(largest, int(array.max()))
    return result_of(
        name,
        source,
        elements,
        counts.reshape(math.prod(source.channel_shape), -1).cpu(),
        below=below,
        above=above,
        sufficient_bins=sufficient_bins(source, largest),
    )


def _count_between_edges(
    name: str,
    source: Source,
    pieces: Callable[[], Iterator[Piece]],
    arguments: argparse.Namespace,
    device: torch.device,
) -> report.Result:
    num_bins = arguments.bins or EDGED_BINS
    counts = _zeros(source, num_bins, num_bins + 3, device)  # with underflow, overflow and NaN
    edges = edges_of(source, pieces, arguments, device)
    elements = 0
    for piece in pieces():
        values = piece.values.to(device)
        elements += values.numel()
        own_edges = edges[piece.channels] if edges.dim() > 1 else edges
        _add(counts[piece.channels], values, source.dim, own_edges)
    counts = counts.reshape(-1, num_bins + 3).cpu()
    flow = counts[:, [0, -2, -1]]
    return result_of(
        name,
        source,
        elements,
        counts[:, 1:-2],
        below=int(flow[:, 0].sum()),
        above=int(flow[:, 1].sum()),
        edges=edges.reshape(-1, num_bins + 1).cpu(),
        flow=flow,
        is_log=arguments.log,
    )


def bins_of(
    source: Source, pieces: Callable[[], Iterator[Piece]], arguments: argparse.Namespace
) -> int:
    """The bins of integers: as many as are given, as the type has values, or as are found."""
    return arguments.num_bins or source.default_bins or _found_bins(pieces())


def edges_of(
    source: Source,
    pieces: Callable[[], Iterator[Piece]],
    arguments: argparse.Namespace,
    device: torch.device,
) -> Tensor:
    """The edges of bins."""
    given = _given_range(source, arguments)
    if given is None:
        low, high = _extremes(source, pieces(), device)
    else:
        low, high = torch.tensor(given, dtype=torch.float64, device=device)
    return _edges(source, low, high, arguments.bins or EDGED_BINS, arguments.log)


def result_of(
    name: str, source: Source, elements: int, counts: Tensor, **more: Any
) -> report.Result:
    """The counts of a source, or its sums of weights. `more` are other fields of the result."""
    return report.Result(
        name=name,
        kind=source.kind,
        dtype=source.dtype,
        shape=source.shape if source.shape is not None else (elements,),
        elements=elements,
        channel_names=source.channel_names or report.channel_names(source.channel_shape),
        counts=counts,
        note=source.note,
        **more,
    )


def _zeros(source: Source, num_bins: int, num_counts: int, device: torch.device) -> Tensor:
    """Counts of all channels, if they are not too many."""
    check_counts(source, num_bins)
    return torch.zeros((*source.channel_shape, num_counts), dtype=torch.int64, device=device)


def sufficient_bins(source: Source, largest: int) -> int | None:
    """The bins of all values from 0 to the largest, if they are not too many."""
    return largest + 1 if math.prod(source.channel_shape) * (largest + 1) <= MAX_COUNTS else None


def check_counts(source: Source, num_bins: int, size: int = 1) -> None:
    """Refuses more bins in all channels, each of so many int64, than memory should have."""
    channels, most = math.prod(source.channel_shape), MAX_COUNTS // size
    if channels * num_bins > most:
        raise SourceError(
            f"expected at most {most} bins in all channels, got {channels} channels of {num_bins}"
        )


def _extremes(
    source: Source, pieces: Iterator[Piece], device: torch.device
) -> tuple[Tensor, Tensor]:
    """The smallest and the largest finite value of each channel, as `histogram` finds them."""
    dtype = _dtype_of_edges(source)
    low = torch.full(source.channel_shape, math.inf, dtype=dtype, device=device)
    high = -low
    for piece in pieces:
        new_low, new_high = torch.ops.histo.finite_range(piece.values.to(device), source.dim)
        low[piece.channels] = torch.minimum(low[piece.channels], new_low)
        high[piece.channels] = torch.maximum(high[piece.channels], new_high)
    return low, high


def _dtype_of_edges(source: Source) -> torch.dtype:
    """The dtype that `histogram` gives the edges."""
    is_small = source.is_float and source.dtype != "float64"
    return torch.float32 if is_small else torch.float64


def _edges(source: Source, low: Tensor, high: Tensor, num_bins: int, log: bool) -> Tensor:
    """Edges of each channel, or of all if they have one range; low > high where none is finite."""
    if log:
        return _log_edges(low, high, num_bins)
    dtype = _dtype_of_edges(source)
    edges: Tensor = torch.ops.histo.uniform_edges(
        *range_of_extremes(low, high), num_bins, dtype=dtype
    )
    if not edges.isfinite().all():
        largest = torch.finfo(dtype).max
        raise SourceError(
            f"--range must lie between -{largest:.4g} and {largest:.4g} for {source.dtype} values, "
            f"got {float(low):g} {float(high):g}"
        )
    if low.dim() == 0 and float(low) < float(high) and edges[0] == edges[-1]:
        name = name_of(dtype)
        raise SourceError(
            f"--range must be two numbers that differ as {name} for {source.dtype} values, "
            f"got {float(low)} {float(high)}"
        )
    return edges


def _log_edges(low: Tensor, high: Tensor, num_bins: int) -> Tensor:
    """Edges whose logarithms are evenly spaced, in float64."""
    first, last = low.double().cpu().numpy()[..., None], high.double().cpu().numpy()[..., None]
    none = first > last
    first, last = np.where(none, 1.0, first), np.where(none, 1.0, last)
    if first.min() <= 0:
        raise SourceError(
            f"--log needs values above 0, found {first.min():g}: give --range LOW HIGH, "
            "with LOW above 0"
        )
    equal, limits = first == last, np.finfo(np.float64)
    first = np.where(equal, (first / 2).clip(min=limits.smallest_subnormal), first)
    last = np.where(equal, last.clip(max=limits.max / 2) * 2, last)
    start, width = np.log2(first), np.log2(last) - np.log2(first)
    with np.errstate(over="ignore"):
        edges = np.exp2(start + np.linspace(0, 1, num_bins + 1) * width)
    # Rounding must neither pass the ends nor make an edge smaller than the one before it.
    edges = np.maximum.accumulate(edges.clip(first, last), axis=-1)
    edges[..., :1], edges[..., -1:] = first, last
    return torch.from_numpy(edges).to(low.device)


def _found_bins(pieces: Iterator[Piece]) -> int:
    """A bin for each value from 0 to the largest, as far as so many bins are sensible."""
    largest = max(int(piece.values.numpy().max()) for piece in pieces)
    return min(max(largest, 0) + 1, MAX_FOUND_BINS)


def _add(counts: Tensor, values: Tensor, dim: tuple[int, ...], edges: Tensor | None = None) -> int:
    """Add to `counts` those of `values` over the dimensions `dim`, and return how many are new.

    With edges, which may be each channel's own, the counts include the flow."""
    reduced = dim or range(values.dim())
    kept = [d for d in range(values.dim()) if d not in reduced]
    widest = max(range(len(kept)), key=lambda i: counts.shape[i], default=-1)
    if counts.numel() > MAX_ADDED and widest >= 0 and counts.shape[widest] > 1:
        some_counts, other_counts = counts.tensor_split(2, widest)
        some, others = values.tensor_split(2, kept[widest])
        some_edges = other_edges = edges
        if edges is not None and edges.dim() > 1:
            some_edges, other_edges = edges.tensor_split(2, widest)
        return _add(some_counts, some, dim, some_edges) + _add(
            other_counts, others, dim, other_edges
        )
    if edges is None:
        new = channel_histogram(values, counts.shape[-1], dim)
    else:
        new = histogram(values, edges, dim=tuple(reduced), flow=True).hist
    counts += new
    return int(new.sum())
