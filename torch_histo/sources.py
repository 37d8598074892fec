"""What the command line reads: images, NumPy arrays, text and raw bytes, in pieces that fit memory.

`open_file` finds out what a file is and describes each array in it as a `Source`; the tensors
of `Source.pieces`, counted one after another, add up to the histogram of the whole array.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import stat
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from os import fstat
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import torch
from PIL import Image, ImageFile, ImageMode, UnidentifiedImageError
from torch import Tensor

from .messages import lacks_main_memory, one_line

PIECE_VALUES = 1 << 24
"""Most values in one piece (a row of more channels than this is still one piece)."""

MAX_SIZE = (1 << 63) - 1
"""Of a dimension."""

MAX_DIMENSIONS = 64
"""Of an array, in NumPy as in PyTorch."""

MAX_PIXELS = 1 << 30
"""Pillow refuses images of more than twice as many pixels, before it takes memory for them."""

TEXT_BINS = ("a-d", "e-h", "i-l", "m-p", "q-t", "u-x", "y-z")
"""The letters of each bin of `text_histogram`."""

HEAD_BYTES = 264
MAX_NPY_HEADER = 1 << 16
NPY_SIGNATURE = b"\x93NUMPY"
ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
IMAGE_SIGNATURES = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",  # JPEG
    b"GIF87a",
    b"GIF89a",
    b"II*\0",  # TIFF, little-endian
    b"MM\0*",  # TIFF, big-endian
)

# What Pillow calls frames is layers or thumbnails in the formats that are not among these.
FORMATS_OF_FRAMES = {"AVIF", "DCX", "FLI", "GIF", "PNG", "TIFF", "WEBP"}

# Each frame of these is a picture of its own; in the others it is drawn over the last one.
FORMATS_OF_PAGES = {"DCX", "TIFF"}

# Pillow recognises these formats, but cannot decode them by itself: they are counted as bytes.
UNDECODED_FORMATS = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}

SAVE_AS_ARRAY = "save its values as .npy or .safetensors"

# What only wraps values: how it begins, what it is, and how to get at the values.
WRAPPERS = (
    (rb"\x1f\x8b\x08", "a gzip file", "decompress it (gzip -dc FILE | torch_histo -)"),
    (rb"BZh[1-9]1AY&SY", "a bzip2 file", "decompress it (bzip2 -dc FILE | torch_histo -)"),
    (rb"\xfd7zXZ\x00", "an xz file", "decompress it (xz -dc FILE | torch_histo -)"),
    (rb"\x28\xb5\x2f\xfd", "a zstd file", "decompress it (zstd -dc FILE | torch_histo -)"),
    (rb"\x04\x22\x4d\x18", "an lz4 file", "decompress it (lz4 -dc FILE | torch_histo -)"),
    (rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|.{257}ustar", "an archive", "unpack it"),
    (rb"\x80[\x02-\x05][\x95\x8a}\](c]", "a pickle", SAVE_AS_ARRAY),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file", SAVE_AS_ARRAY),
    (rb"PAR1", "a Parquet file", SAVE_AS_ARRAY),
    (rb"ARROW1|FEA1", "an Arrow file", SAVE_AS_ARRAY),
    (rb"MATLAB 5\.0 MAT-file", "a MATLAB file", SAVE_AS_ARRAY),
    (rb"GGUF", "a GGUF file", SAVE_AS_ARRAY),
)
PICKLE_SUFFIXES = {".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib"}


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
    """None where the largest value has to tell."""
    nbytes: int | None
    """Bytes in all pieces together, None where that shows only at the end."""
    pieces: Callable[[], Iterator[Piece]]
    """Reads from the start; more than once only where `default_bins` is None."""
    note: str = ""
    """Something about the values that the reader of the counts has to know."""


Part = tuple[str, Callable[[], Source]]
"""An array's name in its file, empty where it is all of the file, and what opens it."""


@contextmanager
def open_file(
    name: str,
    *,
    text: bool = False,
    channels: int | None = None,
    dim: tuple[int, ...] | None = None,
) -> Iterator[Sequence[Part]]:
    """Open the file `name` ("-" is standard input) as what its content and suffix say it is.

    `text` reads it as text, `channels` as bytes that many channels interleave, and `dim` (the
    dimensions to reduce over, empty for all) as arrays, whatever it is.
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
        _refuse_wrappers(head, suffix)
        if suffix == ".npz" or head.startswith(ZIP_SIGNATURES):
            yield _zip_parts(_rewound(file, head, stack), suffix, dim, stack)
        elif suffix == ".safetensors" or _looks_like_safetensors(head):
            yield _safetensors_parts(_rewound(file, head, stack), dim)
        elif dim is not None or suffix == ".npy" or head.startswith(NPY_SIGNATURE):
            rewound = _rewound(file, head, stack)
            yield [("", lambda: _npy_source(lambda: rewound, _file_bytes(rewound), dim))]
        elif suffix in _image_suffixes() or _looks_like_image(head):
            rewound = _rewound(file, head, stack)
            yield [("", lambda: _image_source(rewound))]
        else:
            yield [("", lambda: _bytes_source(file, head, 1))]


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


def _refuse_wrappers(head: bytes, suffix: str) -> None:
    for signature, what, remedy in WRAPPERS:
        if re.match(signature, head, re.DOTALL):
            raise _wrapper_error(what, remedy)
    if suffix in PICKLE_SUFFIXES:
        raise _wrapper_error("a pickle", SAVE_AS_ARRAY)


def _wrapper_error(what: str, remedy: str) -> SourceError:
    return SourceError(f"is {what}: {remedy}, or count its bytes with --channels 1")


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
        pieces=lambda: (Piece(chunk) for chunk in _chunks(file, head, PIECE_VALUES)),
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
        pieces=pieces,
    )


def _zip_parts(
    file: BinaryIO, suffix: str, dim: tuple[int, ...] | None, stack: ExitStack
) -> Sequence[Part]:
    with _decoding("a zip file"):
        archive = stack.enter_context(zipfile.ZipFile(file))
        members = archive.infolist()
    names = [member.filename for member in members]
    if suffix != ".npz" and not (names and all(name.endswith(".npy") for name in names)):
        is_pickle = any(name.endswith("data.pkl") for name in names)
        raise _wrapper_error(
            *("a PyTorch file", SAVE_AS_ARRAY) if is_pickle else ("a zip file", "unpack it")
        )
    if not members:
        raise SourceError("the file holds no arrays")

    def opened(member: zipfile.ZipInfo) -> IO[bytes]:
        with _decoding("an array of a zip file"):
            return stack.enter_context(archive.open(member))

    return [
        (
            member.filename.removesuffix(".npy"),
            partial(_npy_source, partial(opened, member), member.file_size, dim),
        )
        for member in members
    ]


def _npy_source(
    open_npy: Callable[[], IO[bytes]], nbytes: int | None, dim: tuple[int, ...] | None
) -> Source:
    """A .npy file of `nbytes` bytes, which `open_npy` opens at its start."""
    file = open_npy()
    with _decoding("a NumPy .npy array"):
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"expected version 1, 2 or 3 of the format, found {version[0]}")
        length = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
        if length > MAX_NPY_HEADER:  # NumPy would take memory for it first
            raise ValueError(f"expected a header of at most {MAX_NPY_HEADER} bytes, found {length}")
        file.seek(len(NPY_SIGNATURE) + 2)
        # Version 3 differs from 2 by the names of fields alone, and fields are refused below.
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        if not all(type(size) is int and 0 <= size <= MAX_SIZE for size in shape):
            raise ValueError("its header names no shape that an array can have")
    if dtype.kind not in "biu":
        what = "Python objects" if dtype.hasobject else str(dtype)
        raise SourceError(f"expected an array of integers or bool, found one of {what}")
    offset = file.tell()

    def at_values() -> IO[bytes]:
        again = open_npy()
        again.seek(offset)
        return again

    array = _Stored(dtype, shape, bool(fortran), at_values)
    found = (nbytes or 0) - offset
    if array.nbytes > 0 and found < array.nbytes:
        raise SourceError(f"truncated: expected {array.nbytes} bytes of values, found {found}")
    return _array_source(array, dim)


def _safetensors_parts(file: BinaryIO, dim: tuple[int, ...] | None) -> Sequence[Part]:
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise SourceError(
            "needs the safetensors package: pip install 'torch_histo[safetensors]'"
        ) from error
    with _decoding("a safetensors file"):
        # It maps the file, so it only checks the header: the values of a file that shrinks while
        # it is mapped would end the process.
        with safe_open(f"/dev/fd/{file.fileno()}", "np"):
            pass
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    tensors = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    parts = [
        (name, partial(_safetensor_source, file, 8 + length, tensor, dim))
        for name, tensor in tensors
    ]
    if not parts:
        raise SourceError("the file holds no tensors")
    return parts


def _safetensor_source(
    file: BinaryIO, start: int, tensor: dict[str, Any], dim: tuple[int, ...] | None
) -> Source:
    """The tensor that an entry of the header describes; all values begin at the byte `start`."""
    kind = tensor["dtype"]
    if not re.fullmatch(r"BOOL|[IU](8|16|32|64)", kind):
        raise SourceError(f"expected a tensor of integers or bool, found one of {kind}")
    dtype = np.dtype("?" if kind == "BOOL" else f"<{kind[0].lower()}{int(kind[1:]) // 8}")

    def at_values() -> IO[bytes]:
        file.seek(start + tensor["data_offsets"][0])
        return file

    return _array_source(_Stored(dtype, tuple(tensor["shape"]), False, at_values), dim)


@dataclass(frozen=True)
class _Stored:
    """An array in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    at_values: Callable[[], IO[bytes]]
    """The file at the first value."""

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _array_source(array: _Stored, dim: tuple[int, ...] | None) -> Source:
    if array.nbytes == 0:
        raise SourceError(f"the array of shape {list(array.shape)} holds no values")
    shape = array.shape or (1,)
    if len(shape) > MAX_DIMENSIONS:
        raise SourceError(f"expected at most {MAX_DIMENSIONS} dimensions, found {len(shape)}")
    if dim is None:
        dim = tuple(range(max(1, len(shape) - 1)))
    for d in dim:
        if not -len(shape) <= d < len(shape):
            raise SourceError(f"--dim {d} is no dimension of an array of shape {list(array.shape)}")
    reduced = {d % len(shape) for d in dim or range(len(shape))}
    if len(reduced) < len(dim):
        raise SourceError(f"--dim names a dimension of the array of shape {list(shape)} twice")
    kept = [d for d in range(len(shape)) if d not in reduced]

    def pieces() -> Iterator[Piece]:
        # The blocks come in the file's order, so it is read from the start to the end.
        outermost_first = list(range(len(shape)))[:: -1 if array.fortran else 1]
        file = array.at_values()
        for block in _blocks(shape, outermost_first):
            sizes = [block[d].stop - block[d].start for d in outermost_first]
            values = _read_values(file, sizes, array.dtype)
            in_order = values.transpose() if array.fortran else values
            yield Piece(torch.from_numpy(in_order), tuple(block[d] for d in kept))

    return Source(
        kind="array",
        dtype=array.dtype.name,
        shape=array.shape,
        channel_shape=tuple(shape[d] for d in kept),
        channel_names=(),
        dim=tuple(sorted(reduced)),
        default_bins=_default_bins(array.dtype),
        nbytes=array.nbytes,
        pieces=pieces,
    )


def _blocks(shape: tuple[int, ...], outermost_first: list[int]) -> Iterator[tuple[slice, ...]]:
    """Indices of the blocks, of at most PIECE_VALUES values, that tile an array.

    They come in the order of the array's memory, each a contiguous part of it.
    """
    block = list(shape)
    for d in outermost_first:
        others = math.prod(block) // block[d]
        block[d] = min(block[d], max(1, PIECE_VALUES // others))
    for starts in itertools.product(*(range(0, shape[d], block[d]) for d in outermost_first)):
        start = dict(zip(outermost_first, starts, strict=True))
        yield tuple(slice(start[d], min(start[d] + block[d], shape[d])) for d in range(len(shape)))


def _read_values(file: IO[bytes], sizes: list[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The next values of a file, in the byte order of the machine."""
    values: np.ndarray[Any, Any] = np.empty(sizes, dtype)
    rest = memoryview(values.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    while rest:
        with _decoding("values"):
            read = file.readinto(rest)  # type: ignore[attr-defined]
        if not read:
            raise SourceError(f"truncated: {len(rest)} bytes of values are missing")
        rest = rest[read:]
    if dtype.kind == "b":
        values = np.not_equal(values.view(np.uint8), 0)  # any byte may be there
    if not dtype.isnative:
        values = values.byteswap().view(dtype.newbyteorder("="))
    return values


def _image_source(file: BinaryIO) -> Source:
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    with _decoding("an image"):
        image = Image.open(file, formats=_image_formats())
        narrowed = _loses_depth(image)
        image.load()
        found: int = getattr(image, "n_frames", 1)
    frames = found if image.format in FORMATS_OF_FRAMES else 1
    mode, sizes = _mode_and_sizes(image, frames)
    bands = tuple("L" if band == "I" else band for band in ImageMode.getmode(mode).bands)
    first = _frame(image, 0, mode)
    notes = []
    if frames > 1:
        notes.append(f"{frames} frames counted together")
    if len(sizes) > 1:
        notes.append("the frames have several sizes, of which the shape is the first")
    if image.format == "GIF" and not _gif_has_trailer(file):
        notes.append(f"the end of the file is missing: only {frames} frames could be read")
    alternatives = max(found, len(image.info.get("sizes", ())))  # sizes of an icon
    if frames == 1 < alternatives:
        notes.append(f"only one of the {alternatives} images in the file is counted")
    if narrowed:
        notes.append("Pillow reduces the samples of this file to 8 bits")

    def pieces() -> Iterator[Piece]:
        for index in range(frames):
            pixels = first if index == 0 else _frame(image, index, mode)
            yield Piece(_tensor(pixels).view(-1, len(bands)))

    return Source(
        kind="image",
        dtype=first.dtype.name,
        shape=(*first.shape[:2], len(bands)),
        channel_shape=(len(bands),),
        channel_names=bands,
        dim=(0,),
        # Modes of 32 bits hold 16-bit greyscale samples from the formats that Pillow reads so.
        default_bins=1 << 16 if mode.startswith("I") else _default_bins(first.dtype),
        nbytes=frames * first.nbytes,
        pieces=pieces,
        note=", ".join(notes),
    )


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
        if lacks_main_memory(error):
            raise
        raise SourceError(f"cannot be read as {what}: {one_line(error)}") from error


def _frame(image: Image.Image, index: int, mode: str) -> np.ndarray[Any, Any]:
    """One frame of an image, its pixels converted to a mode."""
    with _decoding("an image"):
        image.seek(index)
        image.load()
        return np.asarray(image if image.mode == mode else image.convert(mode))


def _mode_and_sizes(image: Image.Image, frames: int) -> tuple[str, set[tuple[int, int]]]:
    """The mode in which all frames of an image are counted, and their sizes."""
    pages = image.format in FORMATS_OF_PAGES
    modes, sizes = set(), set()
    for index in range(frames):
        with _decoding("an image"):
            image.seek(index)
            if not pages:  # drawing a frame may change its mode
                image.load()
        modes.add(_counted_mode(image))
        sizes.add(image.size)
    if len(modes) > 1 and not pages:
        # The pixels that a later frame covers are opaque.
        modes = {"RGBA"} if any("A" in mode for mode in modes) else {"RGB"}
    if len(modes) > 1:
        raise SourceError(
            f"expected frames of one mode, found {', '.join(sorted(modes))}: "
            "save those of each mode in a file of their own"
        )
    return modes.pop(), sizes


def _counted_mode(image: Image.Image) -> str:
    """The mode whose bands are counted: the image's own, but the colours behind a palette."""
    if image.mode == "F":
        raise SourceError("expected an image of integer samples, found floating-point ones")
    if image.mode in ("P", "PA"):
        return "RGBA" if image.has_transparency_data else "RGB"
    return image.mode


def _gif_has_trailer(file: BinaryIO) -> bool:
    """Whether all blocks of a GIF are there; Pillow takes the end of the file for the trailer."""

    def skip_table(flags: int) -> None:
        if flags & 0x80:
            file.seek(3 << (flags & 7) + 1, 1)

    file.seek(10)
    skip_table(file.read(3)[0])
    while (block := file.read(1)) and block != b";":
        if block not in (b"!", b","):
            continue  # as Pillow does
        if block == b",":
            skip_table((file.read(9) or b"\0")[-1])
        file.seek(1, 1)  # the label of an extension, or the size of a code
        while (size := file.read(1)) and size[0]:
            file.seek(size[0], 1)
    return block == b";"


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


def _looks_like_safetensors(head: bytes) -> bool:
    """Whether the length of a header comes first, and then the header, which is JSON."""
    return 2 <= int.from_bytes(head[:8], "little") <= 100_000_000 and bool(
        re.match(rb'\{\s*("[^\0]|\})', head[8:])
    )


def _looks_like_image(head: bytes) -> bool:
    is_webp = head.startswith(b"RIFF") and head[8:12] == b"WEBP"
    return head.startswith(IMAGE_SIGNATURES) or is_webp


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


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor of a copy of an array, in the byte order of the machine and the array's layout."""
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="K"))


def _default_bins(dtype: np.dtype[Any]) -> int | None:
    """A bin for each value that a type of up to 16 bits holds from 0 up; None for wider ones."""
    if dtype.kind == "b":
        return 2
    return int(np.iinfo(dtype).max) + 1 if dtype.itemsize <= 2 else None
