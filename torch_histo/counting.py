"""Does what the arguments of the command line ask for: counts files, or runs the demo."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator

import torch
from torch import Tensor
from tqdm import tqdm  # type: ignore[import-untyped]

from . import _library, demo, report
from .messages import complain, lacks_main_memory, one_line
from .ops import channel_histogram, text_histogram
from .sources import Piece, Source, SourceError, open_file

MAX_COUNTS = 1 << 27
"""Most bins over all channels of a file: a GiB of counts."""

MAX_ADDED = 1 << 22
"""Most counts that one call makes, if a piece can be divided by its channels."""

MAX_FOUND_BINS = 1 << 16
"""Most bins that an array gets by its largest value."""

PROGRESS_DELAY = 0.5
"""Seconds that pass before a file gets a progress bar."""


class DeviceError(Exception):
    """Why there is no such device, in one line."""


def run(arguments: argparse.Namespace) -> int:
    """Do what parsed arguments ask for and return the exit status."""
    try:
        device = _device(arguments.device)
        if arguments.plot is not None:
            report.check_target(arguments.plot, arguments.files, arguments.overwrite)
    except (DeviceError, report.PlotError) as error:
        complain(str(error))
        return 2
    return _count_files(arguments, device) if arguments.files else demo.run(device)


def _device(name: str | None) -> torch.device:
    if name is None:
        has_cuda = torch.cuda.is_available() and _library.has_cuda_kernels()
        return torch.device("cuda" if has_cuda else "cpu")
    device = torch.device(name)
    if device.type == "cuda":
        found = torch.cuda.device_count()
        if (device.index or 0) >= found:
            raise DeviceError(f"argument --device: found {found} CUDA devices, got {name!r}")
        if not _library.has_cuda_kernels():
            raise DeviceError(f"argument --device: got {name!r}, but torch_histo has no CUDA code")
    return device


def _count_files(arguments: argparse.Namespace, device: torch.device) -> int:
    drawn: list[report.Result] = []
    errors: list[tuple[str, str]] = []
    document = report.JsonDocument(sys.stdout)
    for file in arguments.files:
        for name, outcome in _outcomes(file, arguments, device):
            if isinstance(outcome, str):
                errors.append((name, outcome))
                complain(f"{name}: {outcome}")
                continue
            result, table = outcome
            if arguments.json:
                document.add(result)
            else:
                print(table, flush=True)
            if arguments.plot is not None:
                drawn.append(result)
    if arguments.json:
        document.close(errors)
    if drawn:
        try:
            report.plot(drawn, arguments.plot, overwrite=arguments.overwrite, log=arguments.log)
        except report.PlotError as error:
            complain(str(error))
            return 2
    return 2 if errors else 0


def _outcomes(
    file: str, arguments: argparse.Namespace, device: torch.device
) -> Iterator[tuple[str, tuple[report.Result, str] | str]]:
    """The name of each array in a file, and its counts with their table, or what is wrong."""
    outcome: tuple[report.Result, str] | str
    try:
        with open_file(
            file, text=arguments.text, channels=arguments.channels, dim=arguments.dim
        ) as parts:
            for part, open_part in parts:
                name = f"{file}:{part}" if part else file
                try:
                    result = _count(name, open_part(), arguments.num_bins, device)
                    table = "" if arguments.json else report.table(result, sys.stdout.encoding)
                    outcome = result, table
                except Exception as error:
                    outcome = _reason(error)
                yield name, outcome
    except Exception as error:
        yield file, _reason(error)


def _reason(error: Exception) -> str:
    """An error in one line, if it is the file's or the machine's and not this program's."""
    if isinstance(error, (SourceError, OSError, torch.OutOfMemoryError)):
        return one_line(error)
    if lacks_main_memory(error):
        return one_line(error)
    raise error


def _count(name: str, source: Source, num_bins: int | None, device: torch.device) -> report.Result:
    """The histogram of one source, counted piece by piece."""
    finds_bins = num_bins is None and source.default_bins is None
    progress = tqdm(
        desc=name,
        total=source.nbytes and source.nbytes * (1 + finds_bins),
        unit="B",
        unit_scale=True,
        delay=PROGRESS_DELAY,
        leave=False,
        disable=sys.stderr is None or not sys.stderr.isatty(),
    )

    def pieces() -> Iterator[Piece]:
        for piece in source.pieces():
            yield piece
            progress.update(piece.values.nbytes)

    with progress:
        if num_bins is None:
            num_bins = source.default_bins or _found_bins(pieces())
        channels = math.prod(source.channel_shape)
        if channels * num_bins > MAX_COUNTS:
            raise SourceError(
                f"expected at most {MAX_COUNTS} bins in all channels, "
                f"got {channels} channels of {num_bins}"
            )
        shape = (*source.channel_shape, num_bins)
        counts = torch.zeros(shape, dtype=torch.int64, device=device)
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
    return report.Result(
        name=name,
        kind=source.kind,
        dtype=source.dtype,
        shape=source.shape if source.shape is not None else (elements,),
        elements=elements,
        channel_names=source.channel_names or report.channel_names(source.channel_shape),
        counts=counts.reshape(-1, num_bins).cpu(),
        below=below,
        above=above,
        sufficient_bins=largest + 1 if channels * (largest + 1) <= MAX_COUNTS else None,
        note=source.note,
    )


def _found_bins(pieces: Iterator[Piece]) -> int:
    """A bin for each value from 0 to the largest, as far as so many bins are sensible."""
    largest = max(int(piece.values.numpy().max()) for piece in pieces)
    return min(max(largest, 0) + 1, MAX_FOUND_BINS)


def _add(counts: Tensor, values: Tensor, dim: tuple[int, ...]) -> int:
    """Add to `counts` those of `values` over the dimensions `dim`, and return how many are new."""
    reduced = dim or range(values.dim())
    kept = [d for d in range(values.dim()) if d not in reduced]
    widest = max(range(len(kept)), key=lambda i: counts.shape[i], default=-1)
    if counts.numel() > MAX_ADDED and widest >= 0 and counts.shape[widest] > 1:
        halves = zip(
            counts.tensor_split(2, widest), values.tensor_split(2, kept[widest]), strict=True
        )
        return sum(_add(some, part, dim) for some, part in halves)
    new = channel_histogram(values, counts.shape[-1], dim)
    counts += new
    return int(new.sum())
