"""Arrays of NumPy's .npy and .npz files, and tensors of .safetensors files."""

from __future__ import annotations

import itertools
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, BinaryIO

import numpy as np
import torch

from . import base
from .base import Dim, Part, Piece, Source, SourceError, decoding, default_bins
from .wrappers import SAVE_AS_ARRAY, wrapper_error

MAX_SIZE = (1 << 63) - 1
"""The largest size of a dimension."""

MAX_DIMENSIONS = 64
"""The most dimensions of an array, in NumPy as in PyTorch."""

MAX_NPY_HEADER = 1 << 16

ADVICE = {
    "c": ": save its real and imaginary parts, or its absolute values",
    "f": ": save it as float64",
    "V": ": save bfloat16 and float8 as .safetensors",
    "fields": ": save each field as an array of its own",
}
"""Advice for arrays of types that are not counted."""

SAFETENSORS_FLOATS: dict[str, tuple[np.dtype[Any], torch.dtype]] = {
    "F64": (np.dtype("<f8"), torch.float64),
    "F32": (np.dtype("<f4"), torch.float32),
    "F16": (np.dtype("<f2"), torch.float16),
    "BF16": (np.dtype("<u2"), torch.bfloat16),
    "F8_E4M3": (np.dtype("u1"), torch.float8_e4m3fn),
    "F8_E5M2": (np.dtype("u1"), torch.float8_e5m2),
}
"""How NumPy reads the values of a tensor, and the type that their bits have."""

NPY_SIGNATURE = b"\x93NUMPY"
ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")


def looks_like_safetensors(head: bytes) -> bool:
    """Whether the length of a header comes first, and then the header, which is JSON."""
    return 2 <= int.from_bytes(head[:8], "little") <= 100_000_000 and bool(
        re.match(rb'\{\s*("[^\0]|\})', head[8:])
    )


def zip_parts(file: BinaryIO, suffix: str, dim: Dim, stack: ExitStack) -> Sequence[Part]:
    with decoding("a zip file"):
        archive = stack.enter_context(zipfile.ZipFile(file))
        members = archive.infolist()
    names = [member.filename for member in members]
    if suffix != ".npz" and not (names and all(name.endswith(".npy") for name in names)):
        is_pickle = any(name.endswith("data.pkl") for name in names)
        raise wrapper_error(
            *("a PyTorch file", SAVE_AS_ARRAY) if is_pickle else ("a zip file", "unpack it")
        )
    if not members:
        raise SourceError("the file holds no arrays")

    def opened(member: zipfile.ZipInfo) -> IO[bytes]:
        with decoding("an array of a zip file"):
            return stack.enter_context(archive.open(member))

    return [
        (
            member.filename.removesuffix(".npy"),
            partial(npy_source, partial(opened, member), member.file_size, dim),
        )
        for member in members
    ]


def npy_source(open_npy: Callable[[], IO[bytes]], nbytes: int | None, dim: Dim) -> Source:
    """A .npy file of `nbytes` bytes, which `open_npy` opens at its start."""
    file = open_npy()
    with decoding("a NumPy .npy array"):
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"expected version 1, 2 or 3 of the format, found {version[0]}")
        length = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
        if length > MAX_NPY_HEADER:  # NumPy would take memory for it first
            raise ValueError(f"expected a header of at most {MAX_NPY_HEADER} bytes, found {length}")
        file.seek(len(NPY_SIGNATURE) + 2)
        # Version 3 differs from 2 by the names of fields alone, and fields are refused below.
        header = np.lib.format
        read = header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0
        try:
            shape, fortran, dtype = read(file)
        except ValueError as error:  # it may quote Python's parser
            known = str(error).startswith("EOF: reading")
            raise ValueError(str(error) if known else "its header is damaged") from error
        if not all(type(size) is int and 0 <= size <= MAX_SIZE for size in shape):
            raise ValueError("its header names no shape that an array can have")
    if dtype.kind not in "biuf" or dtype.itemsize > 8:  # a longdouble has 16
        what = "Python objects" if dtype.hasobject else str(dtype)
        advice = ADVICE.get("fields" if dtype.names else dtype.kind, "")
        raise SourceError(f"expected an array of integers, floats or bool, found {what}{advice}")
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


def safetensors_parts(file: BinaryIO, dim: Dim) -> Sequence[Part]:
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise SourceError("needs the safetensors package: pip install safetensors") from error
    with decoding("a safetensors file"):
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


def _safetensor_source(file: BinaryIO, start: int, tensor: dict[str, Any], dim: Dim) -> Source:
    """The tensor that an entry of the header describes; all values begin at the byte `start`."""
    kind = tensor["dtype"]
    float_type = None
    if kind in SAFETENSORS_FLOATS:
        dtype, float_type = SAFETENSORS_FLOATS[kind]
    elif re.fullmatch(r"BOOL|[IU](8|16|32|64)", kind):
        dtype = np.dtype("?" if kind == "BOOL" else f"<{kind[0].lower()}{int(kind[1:]) // 8}")
    else:
        types = ", ".join(SAFETENSORS_FLOATS)
        raise SourceError(f"expected a tensor of integers, bool, {types}, found one of {kind}")

    def at_values() -> IO[bytes]:
        file.seek(start + tensor["data_offsets"][0])
        return file

    stored = _Stored(dtype, tuple(tensor["shape"]), False, at_values, float_type)
    return _array_source(stored, dim)


@dataclass(frozen=True)
class _Stored:
    """An array in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    at_values: Callable[[], IO[bytes]]
    """The file at the first value."""
    float_type: torch.dtype | None = None
    """The type of the values' bits, where `dtype` may only be of their size."""

    @property
    def is_float(self) -> bool:
        return self.float_type is not None or self.dtype.kind == "f"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _array_source(array: _Stored, dim: Dim) -> Source:
    shape = array.shape or (1,)
    if len(shape) > MAX_DIMENSIONS:
        raise SourceError(f"expected at most {MAX_DIMENSIONS} dimensions, found {len(shape)}")
    dim = _reduced(dim, len(shape), array.is_float)
    for d in dim:
        if not -len(shape) <= d < len(shape):
            raise SourceError(f"--dim {d} is no dimension of an array of shape {list(array.shape)}")
    reduced = {d % len(shape) for d in dim or range(len(shape))}
    if len(reduced) < len(dim):
        raise SourceError(f"--dim names a dimension of the array of shape {list(shape)} twice")
    if array.nbytes == 0:
        reduced = set(range(len(shape)))  # no values are no channels
    kept = [d for d in range(len(shape)) if d not in reduced]

    def pieces() -> Iterator[Piece]:
        # The blocks come in the file's order, so it is read from the start to the end.
        if array.nbytes == 0:
            return
        outermost_first = list(range(len(shape)))[:: -1 if array.fortran else 1]
        file = array.at_values()
        for block in _blocks(shape, outermost_first):
            sizes = [block[d].stop - block[d].start for d in outermost_first]
            values = _read_values(file, sizes, array.dtype)
            in_order = values.transpose() if array.fortran else values
            tensor = torch.from_numpy(in_order)
            if array.float_type is not None:
                tensor = tensor.view(array.float_type)
            yield Piece(tensor, tuple(block[d] for d in kept))

    return Source(
        kind="array",
        dtype=str(array.float_type or array.dtype.name).removeprefix("torch."),
        shape=array.shape,
        channel_shape=tuple(shape[d] for d in kept),
        channel_names=(),
        dim=tuple(sorted(reduced)),
        default_bins=None
        if array.is_float or array.dtype.itemsize > 1
        else default_bins(array.dtype),
        nbytes=array.nbytes,
        pieces=pieces,
        is_float=array.is_float,
    )


def _reduced(dim: Dim, dimensions: int, is_float: bool) -> tuple[int, ...]:
    """The dimensions to reduce over, empty for all of them."""
    if dim == "per-channel":  # where the first dimension is the only one, it is the values'
        return tuple(range(1, dimensions))
    if dim == "whole":
        return ()
    if dim is None:
        return () if is_float else tuple(range(max(1, dimensions - 1)))
    return dim


def _blocks(shape: tuple[int, ...], outermost_first: list[int]) -> Iterator[tuple[slice, ...]]:
    """Indices of the blocks, of at most base.PIECE_VALUES values, that tile an array.

    They come in the order of the array's memory, each a contiguous part of it.
    """
    block = list(shape)
    for d in outermost_first:
        others = math.prod(block) // block[d]
        block[d] = min(block[d], max(1, base.PIECE_VALUES // others))
    for starts in itertools.product(*(range(0, shape[d], block[d]) for d in outermost_first)):
        start = dict(zip(outermost_first, starts, strict=True))
        yield tuple(slice(start[d], min(start[d] + block[d], shape[d])) for d in range(len(shape)))


def _read_values(file: IO[bytes], sizes: list[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The next values of a file, in the byte order of the machine."""
    values: np.ndarray[Any, Any] = np.empty(sizes, dtype)
    rest = memoryview(values.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    while rest:
        with decoding("values"):
            read = file.readinto(rest)  # type: ignore[attr-defined]
        if not read:
            raise SourceError(f"truncated: {len(rest)} bytes of values are missing")
        rest = rest[read:]
    if dtype.kind == "b":
        values = np.not_equal(values.view(np.uint8), 0)  # any byte may be there
    if not dtype.isnative:
        values = values.byteswap().view(dtype.newbyteorder("="))
    return values
