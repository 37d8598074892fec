"""Does what the arguments of the command line ask for: counts files, or runs the demo."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import torch

from .. import _library
from . import counting, demo, describe, documents, pairs, plots, report, weighing
from .messages import complain, lacks_main_memory, one_line
from .sources import Dim, Part, Source, SourceError, open_file

WITH_NUM_BINS = ("floating-point values where --num-bins is given", "leave out one of them")
KINDS_OF_OPTIONS = {
    "num_bins": ("integers", "use --bins"),
    "bins": WITH_NUM_BINS,
    "range": WITH_NUM_BINS,
    "log": WITH_NUM_BINS,
    "per_channel": ("arrays of floating-point values", "--dim chooses the channels of integers"),
}
"""Which values an option is for, and what to do with others."""

Drawn = report.Result | pairs.PairResult
Outcome = tuple[Drawn | describe.Description, str] | str
"""A result with its table, or an error."""


class DeviceError(Exception):
    """Why there is no such device, in one line."""


def run(arguments: argparse.Namespace) -> int:
    """Do what parsed arguments ask for and return the exit status."""
    try:
        device = _device(arguments.device)
        if arguments.plot is not None:
            plots.check_target(arguments.plot, arguments.files, arguments.overwrite)
    except (DeviceError, plots.PlotError) as error:
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
    drawn: list[Drawn] = []
    panels = 0
    errors: list[tuple[str, str]] = []
    document = documents.JsonDocument(sys.stdout)
    outcomes: Callable[..., Iterator[tuple[str, Outcome]]] = _outcomes
    if arguments.summary or arguments.quantiles:
        outcomes = _descriptions
    if arguments.joint is not None:
        outcomes = _pairs
    for file in arguments.files:
        for name, outcome in outcomes(file, arguments, device):
            if isinstance(outcome, str):
                errors.append((name, outcome))
                complain(f"{name}: {outcome}")
                continue
            result, table = outcome
            if not arguments.json:
                print(table, flush=True)
            elif isinstance(result, report.Result):
                document.add(result)
            else:
                document.add_entry(result.entry())
            if arguments.plot is not None and isinstance(result, Drawn):
                panels += 1
                drawn += [result] if panels <= plots.PLOT_PANELS else []
    if arguments.json:
        document.close(errors)
    if drawn and not _draw(drawn, panels, arguments):
        return 2
    return 2 if errors else 0


def _draw(drawn: list[Drawn], panels: int, arguments: argparse.Namespace) -> bool:
    """Draws the first of so many histograms; whether that worked."""
    if panels > len(drawn):
        complain(
            f"argument --plot: draws the first {len(drawn)} of {panels:,} histograms, "
            "the most that a picture takes"
        )
    total = plots.PLOT_STEPS * len(drawn)
    try:
        with counting.progress_bar(
            "drawing", total, bar_format="{desc}: {percentage:3.0f}%|{bar}|"
        ) as bar:
            plots.plot(
                drawn,
                arguments.plot,
                overwrite=arguments.overwrite,
                log_counts=arguments.log_counts,
                progress=bar.update,
            )
    except plots.PlotError as error:
        complain(str(error))
        return False
    return True


def _outcomes(
    file: str, arguments: argparse.Namespace, device: torch.device
) -> Iterator[tuple[str, Outcome]]:
    """The name of each array in a file, and its counts with their table, or what is wrong."""
    outcome: Outcome
    dim: Dim = "per-channel" if arguments.per_channel else arguments.dim
    given = {option for option in KINDS_OF_OPTIONS if getattr(arguments, option)}
    unused = set(given)
    try:
        with _opened(file, arguments, dim) as parts:
            listed = len(parts) > 1 and _holds_floats(parts)
            header = report.list_header(file, len(parts)) if listed else ""
            for index, (part, open_part) in enumerate(parts):
                name = f"{file}:{part}" if part else file
                try:
                    source = _source(open_part, parts)
                    misfits = {option for option in given if not _fits(option, source, arguments)}
                    unused &= misfits
                    if misfits and len(parts) == 1:
                        raise SourceError(_misfit(min(misfits), source))
                    if arguments.weights is not None:
                        result = _weighed(name, source, parts, arguments, dim, device)
                    else:
                        result = counting.count(name, source, arguments, device)
                    table = ""
                    if not arguments.json:
                        make = partial(report.list_entry, part) if listed else report.table
                        table = header + make(result, sys.stdout.encoding)
                        header = ""
                        if listed and index == len(parts) - 1:
                            table += "\n"
                    outcome = result, table
                except Exception as error:
                    outcome = _reason(error)
                yield name, outcome
            if len(parts) > 1 and unused:
                yield file, _misfit(min(unused))
    except Exception as error:
        yield file, _reason(error)


@contextmanager
def _opened(file: str, arguments: argparse.Namespace, dim: Dim) -> Iterator[Sequence[Part]]:
    """The parts of a file, or those that --columns names."""
    columns = arguments.columns
    with open_file(
        file,
        text=arguments.text,
        channels=arguments.channels,
        dim=dim,
        table=columns is not None,
    ) as parts:
        if columns is not None:
            if parts[0][0] == "":
                raise SourceError("--columns is for tables and for files of several arrays")
            pairs.check_names("--columns", columns, parts)
            wanted = dict.fromkeys(columns)
            parts = [part for name in wanted for part in parts if part[0] == name]
        yield parts


def _source(open_part: Callable[[], Source], parts: Sequence[Part]) -> Source:
    try:
        return open_part()
    except SourceError as error:
        if len(parts) == 1 or not str(error).startswith("expected numbers, "):
            raise
        raise SourceError(f"{error}: choose others with --columns") from None


def _weighed(
    name: str,
    source: Source,
    parts: Sequence[Part],
    arguments: argparse.Namespace,
    dim: Dim,
    device: torch.device,
) -> report.Result:
    if len(parts) > 1:
        raise SourceError(f"--weights is for one array, found {len(parts)}: see --columns")
    return weighing.weigh(name, source, arguments, dim, device)


def _pairs(
    file: str, arguments: argparse.Namespace, device: torch.device
) -> Iterator[tuple[str, Outcome]]:
    """The counts of the pairs in a file."""
    try:
        result = pairs.count(file, arguments, device)
        _check_used(result, arguments)
        yield file, (result, "" if arguments.json else pairs.table(result))
    except Exception as error:
        yield file, _reason(error)


def _check_used(result: pairs.PairResult, arguments: argparse.Namespace) -> None:
    """Refuses an option that is for neither of the two."""
    per_integer = [axis.has_bin_per_integer for axis in result.axes]
    for option in ("num_bins", "bins", "range", "log"):
        is_used = any(per_integer) if option == "num_bins" else not all(per_integer)
        if getattr(arguments, option) and not is_used:
            dtypes = " and ".join(axis.dtype for axis in result.axes)
            raise SourceError(_misfit(option, found=dtypes))


def _descriptions(
    file: str, arguments: argparse.Namespace, device: torch.device
) -> Iterator[tuple[str, Outcome]]:
    """As `_outcomes`, but with a row of numbers for each array."""
    dim: Dim = arguments.dim if arguments.dim is not None else "whole"
    if arguments.per_channel:
        dim = "per-channel"
    header = True
    outcome: Outcome
    try:
        with _opened(file, arguments, dim) as parts:
            for index, (part, open_part) in enumerate(parts):
                name = f"{file}:{part}" if part else file
                try:
                    source = _source(open_part, parts)
                    with counting.reading(name, source, reads=1) as pieces:
                        found = describe.describe(
                            name,
                            source,
                            pieces,
                            arguments.quantiles or (),
                            arguments.summary,
                            device,
                        )
                    table = ""
                    if not arguments.json:
                        what = f"{len(parts)} arrays" if len(parts) > 1 else source.kind
                        table = describe.header(file, what, found) if header else ""
                        table += describe.rows(part or "all", found)
                        table += "\n" * (index == len(parts) - 1)
                        header = False
                    outcome = found, table
                except Exception as error:
                    outcome = _reason(error)
                yield name, outcome
    except Exception as error:
        yield file, _reason(error)


def _holds_floats(parts: Sequence[Part]) -> bool:
    for _, open_part in parts:
        with suppress(Exception):  # which is told when the part is counted
            if open_part().is_float:
                return True
    return False


def _fits(option: str, source: Source, arguments: argparse.Namespace) -> bool:
    """Whether an option is for the values of a source."""
    if option == "per_channel":
        return source.is_float and source.kind == "array"
    if option == "num_bins":
        return not source.is_float
    return counting.has_edges(source, arguments)


def _misfit(option: str, source: Source | None = None, found: str = "none") -> str:
    """The error of an option that does not fit a source, or fits no array of a file."""
    values, advice = KINDS_OF_OPTIONS[option]
    if option == "per_channel" and source is not None and source.kind != "array":
        advice = "its colours are channels" if source.kind == "image" else "--channels is for bytes"
    found = found if source is None else source.dtype
    if source is not None and source.kind != "array":
        found = f"{'an image' if source.kind == 'image' else source.kind} of {found}"
    return f"--{option.replace('_', '-')} is for {values}, found {found}: {advice}"


def _reason(error: Exception) -> str:
    """An error in one line, if it is the file's or the machine's and not this program's."""
    if isinstance(error, (SourceError, OSError, torch.OutOfMemoryError)):
        return one_line(error)
    if lacks_main_memory(error):
        return one_line(error)
    raise error
