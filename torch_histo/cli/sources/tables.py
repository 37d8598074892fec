"""The columns of tables: of text (CSV) and of Parquet files. Each is an array under its header."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import torch

from .base import Dim, Part, Source, SourceError, decoding
from .checkpoints import tensor_source

TEXT_SUFFIXES = {".csv", ".tsv"}
PARQUET_SIGNATURE = b"PAR1"
SEPARATORS = ",;\t|"
SEEN_ROWS = 8
"""How many rows are read to find the separator."""

ROWS = 1 << 14
"""Rows that are converted together."""

MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"}
"""Fields that are NaN, in small letters."""

BOOLS = {"true": True, "false": False}

WORD = 40
"""Most characters of a field in an error."""

Numbers = np.ndarray[Any, Any]


def looks_like_table(head: bytes) -> bool:
    """Whether a file begins with two or more lines that have the same number of fields, at least
    two. Only the first line may hold fields that are not numbers."""
    lines = head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").split("\n")[:-1]
    if len(lines) < 2:  # the last one may be incomplete
        return False
    try:
        rows = list(_reader(lines, _separator(lambda: lines)))
    except csv.Error:
        return False
    if len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:
        return False
    return all(_is_number(f) and not _is_missing(f) for row in rows[1:] for f in row)


def _reader(lines: Iterable[str], separator: str) -> Any:
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)


def _separator(lines: Callable[[], Iterable[str]]) -> str:
    """The separator that gives the first rows the most fields, and the same number in each."""
    fields = dict.fromkeys(SEPARATORS, 1)
    for separator in SEPARATORS:
        with suppress(csv.Error):
            sizes = [len(row) for row in islice(_reader(lines(), separator), SEEN_ROWS) if row]
            if len(set(sizes)) == 1:
                fields[separator] = sizes[0]
    return max(fields, key=fields.__getitem__)


def text_parts(file: BinaryIO, suffix: str, dim: Dim) -> Sequence[Part]:
    """The columns of a table in text, which is read into memory as a whole."""
    file.seek(0)
    with decoding("a table in text"):
        text = io.TextIOWrapper(file, "utf-8-sig", newline="")
        try:
            separator = "\t" if suffix == ".tsv" else _separator(lambda: _rewound(text))
            names, columns = _read(_reader(_rewound(text), separator))
        finally:
            text.detach()  # or it would close the file
    return [
        (name, partial(_source, column, dim)) for name, column in zip(names, columns, strict=True)
    ]


def _rewound(text: io.TextIOWrapper) -> io.TextIOWrapper:
    text.seek(0)
    return text


def _read(reader: Any) -> tuple[list[str], list[_Column]]:
    """The names of the columns, and the columns."""
    rows = _rows(reader)
    first = next(rows, None)
    if first is None:
        raise ValueError("it is empty")
    names = [name.strip() or f"column {i + 1}" for i, name in enumerate(first)]
    has_header = not all(map(_is_number, first))
    columns = [_Column() for _ in first]
    if not has_header:
        names = [f"column {i + 1}" for i in range(len(first))]
        _add(columns, [first])
    while some := list(islice(rows, ROWS)):
        _add(columns, some)
    if not columns[0].rows:
        raise ValueError("it has no rows below its first line")
    return names, columns


def _rows(reader: Any) -> Iterator[list[str]]:
    """The rows that are not blank. They must have the same number of fields."""
    width = 0
    for row in reader:
        if not row:
            continue
        width = width or len(row)
        if len(row) != width:
            raise ValueError(f"expected {width} fields in line {reader.line_num}, found {len(row)}")
        yield row


def _add(columns: Iterable[_Column], rows: Sequence[Sequence[str]]) -> None:
    for column, fields in zip(columns, zip(*rows, strict=True), strict=True):
        column.add(fields)


_EXPECTED = "expected integers that float64 holds beside decimals and missing numbers"


class _Column:
    """The numbers of a column, or an error that names the first field that is not a number."""

    def __init__(self) -> None:
        self.rows = 0
        self.has_bools = self.has_numbers = False
        self.parts: list[Numbers] = []
        self.error = ""

    def add(self, fields: Sequence[str]) -> None:
        if not self.error:
            try:
                bools = _bools(fields)
                numbers = _numbers(fields) if bools is None else bools
                self.has_bools |= bools is not None
                self.has_numbers |= bools is None and not np.isnan(numbers).all()
                self.parts.append(numbers)
            except ValueError:
                self._refuse(fields, "expected numbers", lambda field: not _is_number(field))
            except OverflowError:
                self._refuse(fields, _EXPECTED, _is_rounded_field)
        self.rows += len(fields)

    def _refuse(
        self, fields: Sequence[str], expected: str, is_wrong: Callable[[str], bool]
    ) -> None:
        at = next(i for i, field in enumerate(fields) if is_wrong(field))
        field = fields[at] if len(fields[at]) <= WORD else f"{fields[at][:WORD]}…"
        self.error = f"{expected}, found {field!r} in row {self.rows + at + 1}"
        self.parts = []

    def numbers(self) -> Numbers:
        kinds = {part.dtype.kind for part in self.parts}
        if kinds == {"i", "u"} and min(int(part.min()) for part in self.parts) < 0:
            kinds = {"f"}  # no type of integers holds them all
        if self.has_bools and self.has_numbers:
            self.error = "expected numbers or True and False, found both"
        kind = max(kinds, key="biuf".index, default="f")
        if kind == "f" and any(
            part.dtype.kind in "iu" and _is_rounded(part) for part in self.parts
        ):
            self.error = f"{_EXPECTED}, found longer ones"
        if self.error:
            raise SourceError(self.error)
        dtype = {"b": "bool", "i": "int64", "u": "uint64", "f": "float64"}[kind]
        return np.concatenate([part.astype(dtype) for part in self.parts])


def _bools(fields: Sequence[str]) -> Numbers | None:
    """True and False; float64 with NaN where one is missing. None for other fields."""
    found = []
    for field in fields:
        word = field.strip().lower()
        if word not in BOOLS and word not in MISSING:
            return None
        found.append(BOOLS.get(word))
    if all(value is None for value in found):
        return None
    return np.array(found, np.float64 if None in found else np.bool_)


def _numbers(fields: Sequence[str]) -> Numbers:
    """Integers if all fields are, else float64; NaN where a number is missing."""
    if any("_" in field for field in fields):
        raise ValueError("Python's integers may have an underscore, and a table's have none")
    with suppress(ValueError):
        integers = [int(field) for field in fields]
        for dtype in (np.int64, np.uint64):
            if np.iinfo(dtype).min <= min(integers) and max(integers) <= np.iinfo(dtype).max:
                return np.array(integers, dtype)
    if any(map(_is_rounded_field, fields)):
        raise OverflowError("an integer that float64 rounds")
    return np.array([np.nan if _is_missing(field) else float(field) for field in fields])


def _is_rounded_field(field: str) -> bool:
    """Whether it is an integer that float64 does not hold."""
    if len(field) <= 15 or not field.strip().lstrip("+-").isdecimal():
        return False
    with suppress(ValueError):  # of two signs, or too many digits
        return int(field) != float(field)
    return False


def _is_rounded(integers: Numbers) -> bool:
    """Whether float64 does not hold all of them."""
    large = integers[(integers > 1 << 53) | (integers < -(1 << 53))].astype(object)
    return bool((large.astype(np.float64).astype(object) != large).any())


def _is_missing(field: str) -> bool:
    return field.strip().lower() in MISSING


def _is_number(field: str) -> bool:
    if _is_missing(field):
        return True
    with suppress(ValueError):
        float(field)
        return "_" not in field
    return False


def _source(column: _Column, dim: Dim) -> Source:
    return tensor_source(torch.from_numpy(column.numbers()), dim)


def parquet_parts(file: BinaryIO, dim: Dim) -> Sequence[Part]:
    """The columns of a Parquet file, each of which is read into memory when it is counted."""
    try:
        from pyarrow import parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise SourceError("is a Parquet file, and needs pyarrow: pip install pyarrow") from error
    file.seek(0)
    with decoding("a Parquet file"):
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
    if not names or not table.metadata.num_rows:
        raise SourceError("the table has no rows")
    return [(name, partial(_parquet_source, table, i, dim)) for i, name in enumerate(names)]


def _parquet_source(table: Any, index: int, dim: Dim) -> Source:
    from pyarrow import float64, types  # type: ignore[import-not-found,unused-ignore]

    field = table.schema_arrow.field(index)
    of = field.type
    if not (types.is_integer(of) or types.is_floating(of) or types.is_boolean(of)):
        raise SourceError(f"expected numbers, found {of}")
    with decoding("a column of a Parquet file"):
        # All columns of this name are read.
        same = table.schema_arrow.names[:index].count(field.name)
        column = table.read(columns=[field.name]).column(same)
        if column.null_count and not types.is_floating(of):
            column = column.cast(float64())  # raises where that would round
        values = np.array(column.to_numpy())
    return tensor_source(torch.from_numpy(values), dim)
