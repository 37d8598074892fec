"""The result of `--summary` and `--quantiles`: a row of numbers for an array, not bins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .. import _exact
from ..quantiles import nanquantile
from . import report
from .documents import json_number
from .messages import printable
from .sources import Piece, Source, SourceError

MAX_CHANNELS = 1 << 19
"""More rows are for no reader, and take some GiB."""

ROWS = 8
"""Most channels of an array in a table."""

NUMBER = 11
"""The columns of a number in a table."""


@dataclass(frozen=True)
class Row:
    """The numbers of an array, or of one of its channels."""

    count: int
    nan: int
    numbers: dict[str, int | float] = field(default_factory=dict)
    """The columns of a summary: inf, zeros, min, max, mean and std."""
    quantiles: tuple[float, ...] = ()


@dataclass(frozen=True)
class Description:
    """An array, as `--json` and tables show it."""

    name: str
    source: Source
    q: tuple[float, ...]
    has_summary: bool
    whole: Row
    channels: tuple[Row, ...]
    channel_names: tuple[str, ...]

    def entry(self) -> dict[str, Any]:
        shape = self.source.shape if self.source.shape is not None else (self.whole.count,)
        found = {
            "name": self.name,
            "kind": self.source.kind,
            "dtype": self.source.dtype,
            "shape": shape,
            "note": self.source.note,
            **self._numbers(self.whole),
        }
        if self.has_summary:
            found["relative_error"] = _exact.RELATIVE_ERROR
        named = zip(self.channel_names, self.channels, strict=True)
        found["channels"] = [{"name": name, **self._numbers(row)} for name, row in named]
        return found

    def _numbers(self, row: Row) -> dict[str, Any]:
        found: dict[str, Any] = {"elements": row.count, "nan": row.nan}
        found |= {name: json_number(value) for name, value in row.numbers.items()}
        if self.q:
            found["quantiles"] = {
                str(q): json_number(v) for q, v in zip(self.q, row.quantiles, strict=True)
            }
        return found


def describe(
    name: str,
    source: Source,
    pieces: Callable[[], Iterator[Piece]],
    q: Sequence[float],
    with_summary: bool,
    device: torch.device,
) -> Description:
    """Reads a source once. Quantiles are exact, so they need all of its values in memory."""
    channels = math.prod(source.channel_shape)
    if with_summary and channels > MAX_CHANNELS:
        raise SourceError(f"--summary takes at most {MAX_CHANNELS} channels, got {channels}")
    read = _Read(source, with_summary, device)
    for piece in pieces():
        read.add(piece, bool(q))
    seen, nan, count = read.seen if with_summary else None, read.nan(), read.count
    rows: list[Row] = []
    quantiles = read.quantiles(q)
    if channels > 1:
        rows = _rows(seen, count // channels, nan, quantiles)
        quantiles = read.quantiles_of_all(q)
    names = source.channel_names or report.channel_names(source.channel_shape)
    return Description(
        name=name,
        source=source,
        q=tuple(q),
        has_summary=with_summary,
        whole=_rows(seen and seen.of_all(), count, nan.sum(), quantiles)[0],
        channels=tuple(rows),
        channel_names=names if channels > 1 else (),
    )


class _Seen:
    """What a summary needs of the values of each channel. Its size does not depend on theirs."""

    def __init__(self, channels: Sequence[int], device: torch.device) -> None:
        sizes = tuple(channels)
        self.nan, self.inf, self.zeros, self.finite = (
            torch.zeros(sizes, dtype=torch.int64, device=device) for _ in range(4)
        )
        self.low = torch.full(sizes, torch.inf, dtype=torch.float64, device=device)
        self.high = -self.low
        self.digits: Tensor | None = None
        self.dtype = torch.float64
        """Of the values."""

    def add(self, values: Tensor, dim: tuple[int, ...], channels: tuple[slice, ...]) -> None:
        found = _exact.read(values, dim, digits=True)
        counts = found.nan, found.inf, found.zeros, found.finite
        low, high = found.min.nan_to_num(torch.inf), found.max.nan_to_num(-torch.inf)
        if self.digits is None:
            self.dtype = values.dtype
            size = _exact.num_digits(values.dtype)
            self.digits = found.digits.new_zeros(*self.low.shape, size)
        self.digits[channels] += found.digits
        for own, new in zip(self.counts(), counts, strict=True):
            own[channels] += new
        self.low[channels] = torch.minimum(self.low[channels], low)
        self.high[channels] = torch.maximum(self.high[channels], high)

    def counts(self) -> tuple[Tensor, ...]:
        return self.nan, self.inf, self.zeros, self.finite

    def of_all(self) -> _Seen:
        """Of all channels together."""
        every = _Seen((), self.low.device)
        every.nan, every.inf, every.zeros, every.finite = (own.sum() for own in self.counts())
        every.low, every.high = self.low.amin(), self.high.amax()
        every.dtype = self.dtype
        if self.digits is not None:
            every.digits = _exact.sum_of_channels(self.digits)
        return every

    def mean_and_std(self) -> tuple[Tensor, Tensor]:
        if self.digits is None:
            none = torch.full_like(self.low, torch.nan)
            return none, none
        mean, _, std, *_ = _exact.moments_of_digits(self.digits, self.finite, self.dtype)
        return mean, std


class _Read:
    """The values read of a source: summarized, and kept for quantiles."""

    def __init__(self, source: Source, with_summary: bool, device: torch.device) -> None:
        self.source, self.with_summary, self.device = source, with_summary, device
        self.seen = _Seen(source.channel_shape if with_summary else (), device)
        self.count = 0
        self.kept_nan = torch.zeros(source.channel_shape, dtype=torch.int64, device=device)
        self.kept: dict[tuple[tuple[int, int], ...], list[Tensor]] = {}  # by ranges of channels

    def add(self, piece: Piece, keep: bool) -> None:
        values = piece.values.to(self.device)
        self.count += values.numel()
        if self.with_summary:
            self.seen.add(values, self.source.dim, piece.channels)
        if keep:
            self.keep(values, piece.channels)

    def keep(self, values: Tensor, channels: tuple[slice, ...]) -> None:
        dims = sorted(self.source.dim or range(values.dim()))
        kept = [d for d in range(values.dim()) if d not in dims]
        flat = values.permute(*kept, *dims).flatten(len(kept))
        self.kept.setdefault(tuple((s.start, s.stop) for s in channels), []).append(flat)
        if values.is_floating_point():
            self.kept_nan[channels] += flat.isnan().sum(-1)

    def nan(self) -> Tensor:
        """How many values of each channel are NaN."""
        return self.seen.nan if self.with_summary else self.kept_nan

    def quantiles(self, q: Sequence[float]) -> Tensor:
        """[q, channels...] of what was kept."""
        shape = (len(q), *self.source.channel_shape)
        quantiles = torch.full(shape, torch.nan, dtype=torch.float64)
        for ends, tensors in self.kept.items():
            place = (slice(None), *(slice(*pair) for pair in ends))
            quantiles[place] = _quantiles(torch.cat(tensors, -1), q)
        return quantiles

    def quantiles_of_all(self, q: Sequence[float]) -> Tensor:
        """[q] of all channels together."""
        every = [part.flatten() for tensors in self.kept.values() for part in tensors]
        return _quantiles(torch.cat(every), q) if q else torch.empty(0, dtype=torch.float64)


def _quantiles(values: Tensor, q: Sequence[float]) -> Tensor:
    """[q, channels...] over the last dimension, of what is not NaN."""
    # torch asks no float8_e4m3fn for infinities, which it lacks.
    may_be_infinite = values.is_floating_point() and values.dtype != torch.float8_e4m3fn
    if not may_be_infinite or not values.isinf().any():
        return nanquantile(values, q, -1).double().cpu()
    # Interpolation makes NaN of an infinity, even where its weight is 0 or 1.
    low = nanquantile(values, q, -1, interpolation="lower").double()
    high = nanquantile(values, q, -1, interpolation="higher").double()
    ends = torch.where(low == high, low, low + high)
    between = nanquantile(values, q, -1).double()
    return torch.where(low.isinf() | high.isinf(), ends, between).cpu()


def _rows(seen: _Seen | None, count: int, nan: Tensor, quantiles: Tensor) -> list[Row]:
    columns: dict[str, list[Any]] = {}
    if seen is not None:
        mean, std = seen.mean_and_std()
        is_any = seen.low <= seen.high
        named = {
            "inf": seen.inf,
            "zeros": seen.zeros,
            "min": seen.low.where(is_any, torch.nan),
            "max": seen.high.where(is_any, torch.nan),
            "mean": mean,
            "std": std,
        }
        columns = {name: values.flatten().tolist() for name, values in named.items()}
    by_channel = quantiles.reshape(len(quantiles), nan.numel()).T.tolist()
    numbers = zip(*columns.values(), strict=True)
    return [
        Row(count, missing, dict(zip(columns, next(numbers, ()), strict=True)), tuple(of_q))
        for missing, of_q in zip(nan.flatten().tolist(), by_channel, strict=True)
    ]


def header(name: str, described: str, found: Description) -> str:
    """The lines above the rows of a file."""
    labels = _labels(found)
    return f"{printable(name)}: {described}\n{_line(labels, 'type', 'shape', 'name')}\n"


def rows(name: str, found: Description) -> str:
    """The row of an array, and those of its first channels."""
    shape = "x".join(map(str, found.source.shape or (found.whole.count,))) or "0-d"
    lines = [_line(_cells(found, found.whole), found.source.dtype, shape, _told(name, found.whole))]
    for channel, row in zip(found.channel_names[:ROWS], found.channels, strict=False):
        lines.append(_line(_cells(found, row), "", "", _told(f"  {channel}", row)))
    if len(found.channels) > ROWS:
        more = f"  and {len(found.channels) - ROWS} more channels (--json prints all)"
        lines.append(_line([""] * len(_labels(found)), "", "", more))
    if found.source.note:
        lines.append(f"  note: {found.source.note}")
    return "\n".join(lines)


def _labels(found: Description) -> list[str]:
    quantiles = [f"{100 * q:.6g} %" for q in found.q]
    return ["min", *quantiles, "max", "mean", "std", "zeros"] if found.has_summary else quantiles


def _cells(found: Description, row: Row) -> list[str]:
    quantiles = [f"{v:.5g}" for v in row.quantiles]
    if not found.has_summary:
        return quantiles
    texts = {name: f"{value:.5g}" for name, value in row.numbers.items()}
    share = row.numbers["zeros"] / max(row.count, 1)
    zeros = f"{share:.1%}" if share >= 0.001 else "<0.1%" if share else "0"
    return [texts["min"], *quantiles, texts["max"], texts["mean"], texts["std"], zeros]


def _told(name: str, row: Row) -> str:
    """A name, and what is no number of the array, as far as there is any."""
    counts = {"NaN": row.nan, "inf": int(row.numbers.get("inf", 0))}
    return ", ".join([printable(name), *(f"{n:,} {what}" for what, n in counts.items() if n)])


def _line(cells: Sequence[str], dtype: str, shape: str, name: str) -> str:
    numbers = "  ".join(f"{cell:>{NUMBER}}" for cell in cells)
    return f"  {numbers}  {dtype:13}  {shape:12}  {name}".rstrip()
