"""Reads images, arrays, tables, text and raw bytes, in pieces that fit memory.

`open_file` finds out what a file is and describes each array in it as a `Source`; the tensors
of `Source.pieces`, counted one after another, add up to the histogram of the whole array.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from os import fstat
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from . import base
from .arrays import NPY_SIGNATURE, looks_like_safetensors, npy_source, safetensors_parts
from .base import HEAD_BYTES, Dim, Part, Piece, Source, SourceError
from .checkpoints import (
    INDEX_SUFFIX,
    TORCH_SIGNATURE,
    ZIP_SIGNATURES,
    index_parts,
    torch_parts,
    zip_parts,
)
from .images import image_source, image_suffixes, looks_like_image
from .tables import PARQUET_SIGNATURE, TEXT_SUFFIXES, looks_like_table, parquet_parts, text_parts
from .wrappers import refuse_by_content, refuse_by_suffix

__all__ = ["TEXT_BINS", "Dim", "Part", "Piece", "Source", "SourceError", "open_file"]

TEXT_BINS = ("a-d", "e-h", "i-l", "m-p", "q-t", "u-x", "y-z")
"""The letters of each bin of `text_histogram`."""


@contextmanager
def open_file(
    name: str,
    *,
    text: bool = False,
    channels: int | None = None,
    dim: Dim = None,
    table: bool = False,
) -> Iterator[Sequence[Part]]:
    """Open the file `name` ("-" is standard input) as what its content and suffix say it is.

    `text` reads it as text, `channels` as bytes that many channels interleave, and dimensions
    `dim` as arrays, whatever it is. `table` reads what would be plain bytes as a table in text.
    Raises SourceError or OSError where that fails, and so may opening a part of the file and the
    iteration over the pieces. A part is read to its end before the next one is opened.
    """
    with ExitStack() as stack:
        file = _opened(name, stack)
        head = file.read(HEAD_BYTES)
        suffix = Path(name).suffix.lower()
        if not head:
            raise SourceError("the file is empty")
        if text:
            yield [("", lambda: _text_source(file, head))]
            return
        if channels is not None:
            yield [("", lambda: _bytes_source(file, head, channels))]
            return
        refuse_by_content(head, suffix)
        rewound = partial(_rewound, file, head, stack)
        parts = _parts(name, head, dim, rewound, stack)
        if not parts and table:
            parts = text_parts(rewound(), suffix, dim)
        yield parts or [("", lambda: _bytes_source(file, head, 1))]


def _parts(
    name: str, head: bytes, dim: Dim, rewound: Callable[[], BinaryIO], stack: ExitStack
) -> Sequence[Part]:
    """The parts of a file that begins with `head`, which `rewound` gives; none for plain bytes."""
    suffix = Path(name).suffix.lower()
    if suffix == ".npz" or head.startswith(ZIP_SIGNATURES):
        return zip_parts(rewound(), suffix, dim, stack)
    if head.startswith(TORCH_SIGNATURE):
        return torch_parts(rewound(), dim)
    if suffix == ".safetensors" or looks_like_safetensors(head):
        return safetensors_parts(rewound(), dim)
    if name.endswith(INDEX_SUFFIX) and head.lstrip().startswith(b"{"):
        return index_parts(name, rewound(), dim, stack)
    is_npy, is_image = head.startswith(NPY_SIGNATURE), looks_like_image(head)
    if not is_npy and not is_image:
        if suffix == ".parquet" or head.startswith(PARQUET_SIGNATURE):
            return parquet_parts(rewound(), dim)
        if suffix in TEXT_SUFFIXES:
            return text_parts(rewound(), suffix, dim)
        refuse_by_suffix(suffix)
    if isinstance(dim, tuple) or suffix == ".npy" or is_npy:
        file = rewound()
        return [("", lambda: npy_source(lambda: file, _file_bytes(file), dim))]
    if suffix in image_suffixes() or is_image:
        file = rewound()
        return [("", lambda: image_source(file))]
    return text_parts(rewound(), suffix, dim) if looks_like_table(head) else []


def _opened(name: str, stack: ExitStack) -> BinaryIO:
    if name == "-":
        if sys.stdin is None:
            raise SourceError("standard input is closed")
        if not os.get_blocking(sys.stdin.fileno()):
            raise SourceError("standard input does not wait for data (O_NONBLOCK): use cat FILE |")
        return sys.stdin.buffer
    try:
        return stack.enter_context(open(name, "rb"))
    except IsADirectoryError:
        files = os.path.join(name, "*")
        raise SourceError(f"is a directory: to count its files, give {files}") from None


def _text_source(file: BinaryIO, head: bytes) -> Source:
    return Source(
        kind="text",
        dtype="uint8",
        shape=None,
        channel_shape=(1,),
        channel_names=("letters",),
        dim=(),
        default_bins=len(TEXT_BINS),
        nbytes=_file_bytes(file),
        pieces=lambda: (Piece(chunk) for chunk in _chunks(file, head, base.PIECE_VALUES)),
    )


def _bytes_source(file: BinaryIO, head: bytes, channels: int) -> Source:
    """Byte i of the file belongs to channel i % channels; the last row may be incomplete."""

    def pieces() -> Iterator[Piece]:
        whole_rows = max(1, base.PIECE_VALUES // channels) * channels
        for chunk in _chunks(file, head, whole_rows):
            rest = len(chunk) % channels
            if rest < len(chunk):
                yield Piece(chunk[: len(chunk) - rest].view(-1, channels))
            if rest:
                yield Piece(chunk[len(chunk) - rest :].view(1, rest), (slice(rest),))

    return Source(
        kind="bytes",
        dtype="uint8",
        shape=None,
        channel_shape=(channels,),
        channel_names=(),
        dim=(0,),
        default_bins=256,
        nbytes=_file_bytes(file),
        pieces=pieces,
    )


def _chunks(file: BinaryIO, head: bytes, length: int) -> Iterator[Tensor]:
    """`head` and then the rest of the file, `length` bytes at a time, the last one shorter."""
    rest = head
    while chunk := rest[:length] + file.read(max(0, length - len(rest))):
        rest = rest[length:]
        yield torch.frombuffer(bytearray(chunk), dtype=torch.uint8)


def _rewound(file: BinaryIO, head: bytes, stack: ExitStack) -> BinaryIO:
    """The file back at its start: itself, or a temporary copy of what cannot be rewound."""
    if _is_regular(file) and file.tell() == len(head):
        file.seek(0)
        return file
    copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    copy.write(head)
    shutil.copyfileobj(file, copy)
    copy.seek(0)
    return copy


def _is_regular(file: BinaryIO) -> bool:
    return stat.S_ISREG(fstat(file.fileno()).st_mode)


def _file_bytes(file: BinaryIO) -> int | None:
    # Files of /proc are regular and have no size.
    return fstat(file.fileno()).st_size or None if _is_regular(file) else None
