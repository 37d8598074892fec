"""Every kind of file is a `Source` for the command line, read in pieces that fit memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import UnidentifiedImageError
from torch import Tensor

from ..messages import lacks_main_memory, one_line

PIECE_VALUES = 1 << 24
"""Most values in one piece (a row of more channels than this is still one piece)."""

HEAD_BYTES = 352
"""The first bytes of a file, which tell what it is."""


class SourceError(Exception):
    """Why a file cannot be counted, in one line that goes after the file's name."""


@dataclass(frozen=True)
class Piece:
    """Some of a file's values, and the channels that they belong to (all of them if empty)."""

    values: Tensor
    channels: tuple[slice, ...] = ()


@dataclass(frozen=True)
class Source:
    """An array, an image, a text or bytes, opened for counting."""

    kind: str
    """"image", "array", "text" or "bytes"."""
    dtype: str
    shape: tuple[int, ...] | None
    """The file's own shape; None where it is one-dimensional, of a length known only at its end."""
    channel_shape: tuple[int, ...]
    channel_names: tuple[str, ...]
    """Empty where the channels only have numbers."""
    dim: tuple[int, ...]
    """The dimensions of every piece to reduce over; empty for all of them."""
    default_bins: int | None
    """None where the values have to tell: the largest integer, or the range of floats."""
    nbytes: int | None
    """Bytes in all pieces together, None where that shows only at the end."""
    pieces: Callable[[], Iterator[Piece]]
    """Reads from the start; more than once only where `default_bins` is None."""
    is_float: bool = False
    """Whether the values are floating-point numbers, which have bins between edges."""
    is_fortran: bool = False
    """Whether the first dimension of an array is the innermost one in its file."""
    note: str = ""
    """Something about the values that the reader of the counts has to know."""


Dim = tuple[int, ...] | Literal["per-channel", "whole"] | None
"""The dimensions of arrays to reduce over: empty for all, "per-channel" for all but the first.

"whole" is all of arrays, and leaves other files as they are.

None is all of floating-point arrays, and all but the last of integers.
"""

Part = tuple[str, Callable[[], Source]]
"""An array's name in its file, empty where it is all of the file, and what opens it."""


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Hide a decoder's warnings, and turn what a damaged file makes it raise into SourceError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except UnidentifiedImageError as error:
        raise SourceError(f"not {what} that Pillow reads, or a damaged one") from error
    except Exception as error:
        if lacks_main_memory(error):
            raise
        raise SourceError(f"cannot be read as {what}: {one_line(error)}") from error


def default_bins(dtype: np.dtype[Any]) -> int | None:
    """A bin for each value from 0 up of an integer type of up to 16 bits; None for others."""
    if dtype.kind == "b":
        return 2
    if dtype.kind == "f":
        return None
    return int(np.iinfo(dtype).max) + 1 if dtype.itemsize <= 2 else None
