"""Sums of weights by bin of an array in a file: what `--weights` of the command line prints."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from .._weight_operators import (
    sum_of_digits,
    sum_size,
    weighted_channel_histogram,
    weighted_histogram,
)
from . import counting, report
from .messages import one_line
from .sources import Dim, Piece, Source, SourceError, open_file


def weigh(
    name: str, source: Source, arguments: argparse.Namespace, dim: Dim, device: torch.device
) -> report.Result:
    """The sums of the weights of a source, which the file `arguments.weights` holds."""
    if source.kind != "array":
        raise SourceError(f"--weights is for arrays, found {source.kind}")
    counting.check_values(source)
    with opened(arguments.weights, source.shape or (), dim) as weight_source:
        pairs = _pairs(source, weight_source, arguments.weights)
        reads_twice = counting.reads_twice(source, arguments)
        with counting.reading(name, source, reads=1 + reads_twice) as pieces:
            weights = arguments.weights, weight_source.dtype
            if counting.has_edges(source, arguments):
                edges = counting.edges_of(source, pieces, arguments, device)
                rows = _sums(source, weight_source, pairs(pieces()), edges, device)
                return counting.result_of(
                    name,
                    source,
                    math.prod(source.shape or ()),
                    rows[:, 1:-2],
                    edges=edges.reshape(-1, edges.shape[-1]).cpu(),
                    flow=rows[:, [0, -2, -1]],
                    weights=weights,
                )
            outside = _Outside(counting.bins_of(source, pieces, arguments))
            counted = outside.watch(pairs(pieces()))
            return counting.result_of(
                name,
                source,
                math.prod(source.shape or ()),
                _sums(source, weight_source, counted, outside.num_bins, device),
                below=outside.below,
                above=outside.above,
                sufficient_bins=counting.sufficient_bins(source, outside.largest),
                weights=weights,
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
            raise SourceError(
                f"--weights {file}: expected one array, found {len(parts)}: save the weights in a "
                "file of their own, as .npy"
            )
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
