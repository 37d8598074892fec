"""Arrays of NumPy's .npy and .npz files and of .safetensors files, read block after block."""

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
from torch import Tensor

from ..._arguments import name_of
from . import base
from .base import Dim, Part, Piece, Source, SourceError, decoding

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
    "F8_E4M3FNUZ": (np.dtype("u1"), torch.float8_e4m3fnuz),
    "F8_E5M2FNUZ": (np.dtype("u1"), torch.float8_e5m2fnuz),
    "F8_E8M0": (np.dtype("u1"), torch.float8_e8m0fnu),
}
"""How NumPy reads the values of a tensor, and the type that their bits have."""

WIDENED = {torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu}
"""Types that no operator counts: their values are counted as float32, which holds them exactly."""

FLOAT4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6]) * torch.tensor([[1.0], [-1.0]])
"""The values of the 16 codes of float4_e2m1fn, two of which are in a byte, the lower one first."""

SMALL_INTEGERS = {torch.bool: 2, torch.uint8: 256, torch.int8: 128}
"""Types of which each value from 0 up has a bin, and the number of these values."""

NPY_SIGNATURE = b"\x93NUMPY"


def looks_like_safetensors(head: bytes) -> bool:
    """Whether the length of a header comes first, and then the header, which is JSON."""
    return 2 <= int.from_bytes(head[:8], "little") <= 100_000_000 and bool(
        re.match(rb'\{\s*("[^\0]|\})', head[8:])
    )


def npz_parts(archive: zipfile.ZipFile, dim: Dim, stack: ExitStack) -> Sequence[Part]:
    members = archive.infolist()
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

    expected, found = math.prod(shape) * dtype.itemsize, (nbytes or 0) - offset
    if 0 < expected > found:
        raise SourceError(f"truncated: expected {expected} bytes of values, found {found}")
    return array_source(_stored(at_values, shape, dtype, fortran=bool(fortran)), dim)


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
    kind, shape = tensor["dtype"], tuple(tensor["shape"])

    def at_values() -> IO[bytes]:
        file.seek(start + tensor["data_offsets"][0])
        return file

    if kind == "F4":
        return array_source(_stored_float4(at_values, shape), dim)
    float_type = None
    if kind in SAFETENSORS_FLOATS:
        dtype, float_type = SAFETENSORS_FLOATS[kind]
    elif re.fullmatch(r"BOOL|[IU](8|16|32|64)", kind):
        dtype = np.dtype("?" if kind == "BOOL" else f"<{kind[0].lower()}{int(kind[1:]) // 8}")
    else:
        types = ", ".join(SAFETENSORS_FLOATS)
        advice = ADVICE["c"] if kind.startswith("C") else ""
        raise SourceError(
            f"expected a tensor of integers, bool, {types}, F4, found one of {kind}{advice}"
        )
    return array_source(_stored(at_values, shape, dtype, float_type=float_type), dim)


Block = tuple[slice, ...]
"""A slice of each dimension of an array."""


@dataclass(frozen=True)
class Array:
    """An array whose values are read block after block."""

    name: str
    """Of the type of its values."""
    dtype: torch.dtype
    """In which the values are counted."""
    shape: tuple[int, ...]
    reader: Callable[[], Callable[[Block], Tensor]]
    """Goes to the first value; what it returns reads the next block."""
    fortran: bool = False
    """Whether the first dimension is the innermost one."""


def _stored(
    at_values: Callable[[], IO[bytes]],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    fortran: bool = False,
    float_type: torch.dtype | None = None,
) -> Array:
    """An array in a file, which `at_values` opens at the first value.

    `float_type` is the type of the values' bits, where `dtype` may only be of their size.
    """

    def reader() -> Callable[[Block], Tensor]:
        file = at_values()

        def read(block: Block) -> Tensor:
            sizes = _sizes(block)
            values = _read_values(file, sizes[::-1] if fortran else sizes, dtype)
            tensor = torch.from_numpy(values.transpose() if fortran else values)
            return widened(tensor if float_type is None else tensor.view(float_type))

        return read

    kept = float_type or torch.from_numpy(np.empty(0, dtype.newbyteorder("="))).dtype
    return Array(name_of(kept), counted_type(kept), shape, reader, fortran)


def _stored_float4(at_values: Callable[[], IO[bytes]], shape: tuple[int, ...]) -> Array:
    def reader() -> Callable[[Block], Tensor]:
        file, left = at_values(), torch.empty(0)

        def read(block: Block) -> Tensor:
            nonlocal left
            sizes = _sizes(block)
            length = math.prod(sizes)
            # A block may end in the middle of a byte.
            packed = _read_values(file, [(length - len(left) + 1) // 2], np.dtype("u1"))
            values = torch.cat([left, unpacked_float4(torch.from_numpy(packed))])
            left = values[length:]
            return values[:length].view(sizes)

        return read

    return Array("float4_e2m1fn", FLOAT4.dtype, shape, reader)


def unpacked_float4(packed: Tensor) -> Tensor:
    """The values of bytes that hold two each; the last dimension is twice as long."""
    return FLOAT4.flatten()[torch.stack([packed & 15, packed >> 4], -1).int()].flatten(-2)


def counted_type(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in WIDENED else dtype


def widened(tensor: Tensor) -> Tensor:
    return tensor.to(counted_type(tensor.dtype))


def array_source(array: Array, dim: Dim) -> Source:
    shape, is_float = array.shape or (1,), array.dtype.is_floating_point
    if len(shape) > MAX_DIMENSIONS:
        raise SourceError(f"expected at most {MAX_DIMENSIONS} dimensions, found {len(shape)}")
    dim = _reduced(dim, len(shape), is_float)
    for d in dim:
        if not -len(shape) <= d < len(shape):
            raise SourceError(f"--dim {d} is no dimension of an array of shape {list(array.shape)}")
    reduced = {d % len(shape) for d in dim or range(len(shape))}
    if len(reduced) < len(dim):
        raise SourceError(f"--dim names a dimension of the array of shape {list(shape)} twice")
    nbytes = math.prod(shape) * array.dtype.itemsize
    if nbytes == 0:
        reduced = set(range(len(shape)))  # no values are no channels
    kept = [d for d in range(len(shape)) if d not in reduced]

    def pieces() -> Iterator[Piece]:
        # The blocks come in the file's order, so it is read from the start to the end.
        if nbytes == 0:
            return
        outermost_first = list(range(len(shape)))[:: -1 if array.fortran else 1]
        read = array.reader()
        for block in _blocks(shape, outermost_first):
            yield Piece(read(block), tuple(block[d] for d in kept))

    return Source(
        kind="array",
        dtype=array.name,
        shape=array.shape,
        channel_shape=tuple(shape[d] for d in kept),
        channel_names=(),
        dim=tuple(sorted(reduced)),
        default_bins=SMALL_INTEGERS.get(array.dtype),
        nbytes=nbytes,
        pieces=pieces,
        is_float=is_float,
        is_fortran=array.fortran,
    )


def _sizes(block: Block) -> list[int]:
    return [part.stop - part.start for part in block]


def _reduced(dim: Dim, dimensions: int, is_float: bool) -> tuple[int, ...]:
    """The dimensions to reduce over, empty for all of them."""
    if dim == "per-channel":  # where the first dimension is the only one, it is the values'
        return tuple(range(1, dimensions))
    if dim == "whole":
        return ()
    if dim is None:
        return () if is_float else tuple(range(max(1, dimensions - 1)))
    return dim


def _blocks(shape: tuple[int, ...], outermost_first: list[int]) -> Iterator[Block]:
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
