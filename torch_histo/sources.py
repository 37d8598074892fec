"""What the command line reads: images, NumPy arrays, text and raw bytes, in pieces that fit memory.

`open_source` finds out what a file is and describes it as a `Source`; the tensors of
`Source.pieces`, counted one after another, add up to the histogram of the whole file.
"""

from __future__ import annotations

import itertools
import math
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from os import fstat
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import torch
from PIL import Image, ImageFile, ImageMode, UnidentifiedImageError
from torch import Tensor

PIECE_VALUES = 1 << 24
"""Most values in one piece (a row of more channels than this is still one piece)."""

MAX_PIXELS = 1 << 30
"""Pillow refuses images of more than twice as many pixels, before it takes memory for them."""

TEXT_BINS = ("a-d", "e-h", "i-l", "m-p", "q-t", "u-x", "y-z")
"""The letters of each bin of `text_histogram`."""

HEAD_BYTES = 16
NPY_SIGNATURE = b"\x93NUMPY"
IMAGE_SIGNATURES = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",  # JPEG
    b"GIF87a",
    b"GIF89a",
    b"II*\0",  # TIFF, little-endian
    b"MM\0*",  # TIFF, big-endian
)

# What Pillow calls frames is layers or thumbnails in the formats that are not among these.
FORMATS_OF_FRAMES = {"AVIF", "GIF", "PNG", "TIFF", "WEBP"}

# Pillow recognises these formats, but cannot decode them by itself: they are counted as bytes.
UNDECODED_FORMATS = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}


class SourceError(Exception):
    """Why a file cannot be counted, in one line that goes after the file's name."""


@dataclass(frozen=True)
class Piece:
    """Some of a file's values, and the channels that they belong to (all of them if empty)."""

    values: Tensor
    channels: tuple[slice, ...] = ()


@dataclass(frozen=True)
class Source:
    """A file opened for counting."""

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
    default_bins: int
    nbytes: int | None
    """Bytes in all pieces together, None where that shows only at the end."""
    pieces: Iterator[Piece]
    note: str = ""
    """Something about the values that the reader of the counts has to know."""


@contextmanager
def open_source(
    name: str,
    *,
    text: bool = False,
    channels: int | None = None,
    dim: tuple[int, ...] | None = None,
) -> Iterator[Source]:
    """Open the file `name` ("-" is standard input) as what its content and suffix say it is.

    `text` reads it as text, `channels` as bytes that many channels interleave, and `dim` (the
    dimensions to reduce over, empty for all) as a .npy array, whatever it is.
    Raises SourceError or OSError where that fails, and so may the iteration over the pieces.
    """
    with ExitStack() as stack:
        file: BinaryIO
        if name == "-" and sys.stdin is None:
            raise SourceError("standard input is closed")
        file = sys.stdin.buffer if name == "-" else stack.enter_context(open(name, "rb"))
        head = file.read(HEAD_BYTES)
        suffix = Path(name).suffix.lower()
        if not head:
            raise SourceError("the file is empty")
        if text:
            yield _text_source(file, head)
        elif channels is not None:
            yield _bytes_source(file, head, channels)
        elif dim is not None or suffix == ".npy" or head.startswith(NPY_SIGNATURE):
            yield _array_source(_rewound(file, head, stack), dim)
        elif suffix in _image_suffixes() or _looks_like_image(head):
            yield _image_source(_rewound(file, head, stack))
        else:
            yield _bytes_source(file, head, 1)


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
        pieces=(Piece(chunk) for chunk in _chunks(file, head, PIECE_VALUES)),
    )


def _bytes_source(file: BinaryIO, head: bytes, channels: int) -> Source:
    """Byte i of the file belongs to channel i % channels; the last row may be incomplete."""

    def pieces() -> Iterator[Piece]:
        whole_rows = max(1, PIECE_VALUES // channels) * channels
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
        pieces=pieces(),
    )


def _array_source(file: BinaryIO, dim: tuple[int, ...] | None) -> Source:
    array = _mapped(file)
    shape = array.shape
    array = np.atleast_1d(array)
    if dim is None:
        dim = tuple(range(max(1, array.ndim - 1)))
    for d in dim:
        if not -array.ndim <= d < array.ndim:
            raise SourceError(f"--dim {d} is no dimension of an array of shape {list(shape)}")
    reduced = {d % array.ndim for d in dim or range(array.ndim)}
    if len(reduced) < len(dim):
        raise SourceError(f"--dim names a dimension of the array of shape {list(shape)} twice")
    kept = [d for d in range(array.ndim) if d not in reduced]
    channel_shape = tuple(array.shape[d] for d in kept)
    return Source(
        kind="array",
        dtype=array.dtype.name,
        shape=shape,
        channel_shape=channel_shape,
        channel_names=(),
        dim=tuple(sorted(reduced)),
        default_bins=_default_bins(array.dtype),
        nbytes=array.nbytes,
        pieces=(
            Piece(_tensor(array[block]), tuple(block[d] for d in kept)) for block in _blocks(array)
        ),
    )


def _image_source(file: BinaryIO) -> Source:
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    with _decoding("an image"):
        image = Image.open(file, formats=_image_formats())
        narrowed = _loses_depth(image)
        image.load()
        frames: int = getattr(image, "n_frames", 1) if image.format in FORMATS_OF_FRAMES else 1
    mode = _counted_mode(image, frames)
    bands = tuple("L" if band == "I" else band for band in ImageMode.getmode(mode).bands)
    first = _frame(image, 0, mode)
    notes = []
    if frames > 1:
        notes.append(f"{frames} frames counted together")
    if narrowed:
        notes.append("Pillow reduces the samples of this file to 8 bits")

    def pieces() -> Iterator[Piece]:
        for index in range(frames):
            pixels = first if index == 0 else _frame(image, index, mode)
            yield Piece(_tensor(pixels).view(-1, len(bands)))

    return Source(
        kind="image",
        dtype=first.dtype.name,
        shape=(image.height, image.width, len(bands)),
        channel_shape=(len(bands),),
        channel_names=bands,
        dim=(0,),
        # Modes of 32 bits hold 16-bit greyscale samples from the formats that Pillow reads so.
        default_bins=1 << 16 if mode.startswith("I") else _default_bins(first.dtype),
        nbytes=frames * first.nbytes,
        pieces=pieces(),
        note=", ".join(notes),
    )


def _mapped(file: BinaryIO) -> np.ndarray[Any, Any]:
    """The array of a .npy file, mapped into memory rather than read."""
    with _decoding("a NumPy .npy array"):
        version = np.lib.format.read_magic(file)
        # Version 3 differs from 2 by the names of fields alone, and fields are refused below.
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.kind not in "biu":
        what = "Python objects" if dtype.hasobject else str(dtype)
        raise SourceError(f"expected an array of integers or bool, found one of {what}")
    expected = math.prod(shape) * dtype.itemsize
    if expected == 0:
        raise SourceError(f"the array of shape {list(shape)} holds no values")
    found = fstat(file.fileno()).st_size - file.tell()
    if found < expected:
        raise SourceError(f"truncated: expected {expected} bytes of values, found {found}")
    order: Literal["C", "F"] = "F" if fortran else "C"
    mapped: np.ndarray[Any, Any] = np.memmap(
        file, dtype, mode="r", offset=file.tell(), shape=shape, order=order
    )
    return mapped


def _blocks(array: np.ndarray[Any, Any]) -> Iterator[tuple[slice, ...]]:
    """Indices of the blocks, of at most PIECE_VALUES values, that tile an array.

    They come in the order of the array's memory, each as contiguous in it as can be.
    """
    outermost_first = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    block = list(array.shape)
    for d in outermost_first:
        others = math.prod(block) // block[d]
        block[d] = min(block[d], max(1, PIECE_VALUES // others))
    for starts in itertools.product(*(range(0, array.shape[d], block[d]) for d in outermost_first)):
        start = dict(zip(outermost_first, starts, strict=True))
        yield tuple(slice(start[d], start[d] + block[d]) for d in range(array.ndim))


@contextmanager
def _decoding(what: str) -> Iterator[None]:
    """Hide a decoder's warnings, and turn what a damaged file makes it raise into SourceError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except UnidentifiedImageError as error:
        raise SourceError(f"not {what} that Pillow reads, or a damaged one") from error
    except Exception as error:
        raise SourceError(f"cannot be read as {what}: {one_line(error)}") from error


def printable(text: str) -> str:
    """A text in one line, as of a file's name, with escapes for what no terminal shows."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(error: BaseException) -> str:
    """The first line of an error's message, or the error's name where it has none."""
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return next(iter(message.splitlines()), "") or type(error).__name__


def _frame(image: Image.Image, index: int, mode: str) -> np.ndarray[Any, Any]:
    """One frame of an image, its pixels converted to a mode."""
    with _decoding("an image"):
        if index:
            image.seek(index)
        image.load()
        if image.mode != mode and "I" in image.mode[0] + mode[0]:
            raise ValueError(f"frame {index} is of mode {image.mode}, the first of {mode}")
        return np.asarray(image if image.mode == mode else image.convert(mode))


def _counted_mode(image: Image.Image, frames: int) -> str:
    """The mode whose bands are counted: the image's own, but the colours behind a palette."""
    if image.mode == "F":
        raise SourceError("expected an image of integer samples, found floating-point ones")
    # The later frames of a GIF may bring colours that the palette of its first frame lacks.
    if image.mode in ("P", "PA") or (image.format == "GIF" and frames > 1):
        return "RGBA" if image.has_transparency_data else "RGB"
    return image.mode


def _loses_depth(image: ImageFile.ImageFile) -> bool:
    """Whether Pillow will decode samples of more than 8 bits, in several bands, into 8."""
    if image.mode.startswith("I"):
        return False
    return any(
        ";16" in str(tile.args)
        # The decoder of PPM is told the highest value instead.
        or (
            tile.codec_name.startswith("ppm")
            and isinstance(tile.args, tuple)
            and int(tile.args[-1]) > 255
        )
        for tile in image.tile
    )


@cache
def _image_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in Image.OPEN if name not in UNDECODED_FORMATS)


@cache
def _image_suffixes() -> frozenset[str]:
    formats = {*_image_formats(), "MPO"}
    return frozenset(s for s, name in Image.registered_extensions().items() if name in formats)


def _looks_like_image(head: bytes) -> bool:
    is_webp = head.startswith(b"RIFF") and head[8:12] == b"WEBP"
    return head.startswith(IMAGE_SIGNATURES) or is_webp


def _chunks(file: BinaryIO, head: bytes, length: int) -> Iterator[Tensor]:
    """`head` and then the rest of the file, `length` bytes at a time, the last one shorter."""
    chunk = head + file.read(length - len(head))
    while chunk:
        yield torch.frombuffer(bytearray(chunk), dtype=torch.uint8)
        chunk = file.read(length)


def _rewound(file: BinaryIO, head: bytes, stack: ExitStack) -> BinaryIO:
    """The file back at its start: itself, or a temporary copy of what cannot be rewound."""
    if _is_regular(file):
        file.seek(-len(head), 1)
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


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor of a copy of an array, in the byte order of the machine and the array's layout."""
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="K"))


def _default_bins(dtype: np.dtype[Any]) -> int:
    """A bin for each value that a type of up to 16 bits holds from 0 up; 256 for wider ones."""
    if dtype.kind == "b":
        return 2
    return int(np.iinfo(dtype).max) + 1 if dtype.itemsize <= 2 else 256
