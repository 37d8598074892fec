"""PyTorch's files, zip files, and checkpoints that are divided into several files."""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from ..._arguments import name_of
from .arrays import (
    ADVICE,
    Array,
    Block,
    array_source,
    counted_type,
    looks_like_safetensors,
    npz_parts,
    safetensors_parts,
    unpacked_float4,
    widened,
)
from .base import HEAD_BYTES, Dim, Part, Source, SourceError, decoding
from .wrappers import AS_TENSORS, refusal, refuse_by_content

ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")

TORCH_SIGNATURE = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
"""How torch.save began a file before it wrote zip files: its magic number, pickled."""

INDEX_SUFFIX = ".index.json"

MAX_NAME = 60
"""Most characters of a class's name in an error."""

COUNTED = {
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint16, torch.uint32, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
}


def zip_parts(file: BinaryIO, suffix: str, dim: Dim, stack: ExitStack) -> Sequence[Part]:
    with decoding("a zip file"):
        archive = stack.enter_context(zipfile.ZipFile(file))
        names = archive.namelist()
    if suffix == ".npz" or (names and all(name.endswith(".npy") for name in names)):
        return npz_parts(archive, dim, stack)
    last = {name.rpartition("/")[2] for name in names}
    if "constants.pkl" in last:
        raise refusal("a TorchScript program", AS_TENSORS)
    if "data.pkl" in last:
        return torch_parts(file, dim)
    if "[Content_Types].xml" in names:
        raise refusal("an Office file", "save each column as .npy (pandas.read_excel)")
    raise refusal("a zip file", "unpack it")


def torch_parts(file: BinaryIO, dim: Dim) -> Sequence[Part]:
    """The tensors of a file of torch.save, which is read into memory as a whole."""
    file.seek(0)
    try:
        with decoding("a PyTorch file"):
            # A mapped file that shrinks would end the process.
            content = torch.load(file, map_location="cpu", weights_only=True, mmap=False)
    except SourceError as error:
        if not isinstance(error.__cause__, pickle.UnpicklingError):
            raise
        named = re.search(r"GLOBAL (\S+)", str(error.__cause__))
        held = f" {named[1][-MAX_NAME:]}" if named else ""
        raise refusal(
            f"a PyTorch file that holds other objects{held}", "save a dict of tensors alone"
        ) from error
    found = _tensors(content)
    if not found:
        raise SourceError("the file holds no tensors")
    return [(name, partial(tensor_source, tensor, dim)) for name, tensor in found]


def _tensors(content: object) -> list[tuple[str, Tensor]]:
    """The tensors in nested dictionaries, lists and tuples, by the keys that lead to them."""
    found: list[tuple[str, Tensor]] = []
    seen: set[int] = set()  # a container may hold itself
    rest: list[tuple[str, object]] = [("", content)]
    while rest:
        name, value = rest.pop()
        items: list[tuple[Any, Any]] = []
        if isinstance(value, Tensor):
            found.append((name, value))
        elif id(value) in seen:
            continue
        elif isinstance(value, Mapping):
            items = list(value.items())
        elif isinstance(value, (list, tuple)):
            items = list(enumerate(value))
        seen.add(id(value))
        rest += [(f"{name}.{key}" if name else str(key), item) for key, item in reversed(items)]
    return found


def tensor_source(tensor: Tensor, dim: Dim) -> Source:
    name = name_of(tensor.dtype)
    if tensor.is_nested:
        raise SourceError("expected a dense tensor, found a nested one: save its values()")
    if tensor.layout != torch.strided:
        raise SourceError(f"expected a dense tensor, found {tensor.layout}: save its to_dense()")
    if tensor.device.type != "cpu":
        raise SourceError(f"expected a tensor with values, found one on {tensor.device.type}")
    tensor = tensor.detach()
    if tensor.dtype == torch.float4_e2m1fn_x2:
        tensor, name = unpacked_float4(tensor.view(torch.uint8)), "float4_e2m1fn"
    if counted_type(tensor.dtype) not in COUNTED:
        advice = ADVICE["c"] if tensor.is_complex() else ""
        advice = ": save its dequantize()" if tensor.is_quantized else advice
        raise SourceError(f"expected a tensor of integers, bool or floats, found {name}{advice}")
    values = tensor.resolve_neg()
    values = values if values.dim() else values.view(1)

    def read(block: Block) -> Tensor:
        return widened(values[block])

    return array_source(Array(name, counted_type(values.dtype), tensor.shape, lambda: read), dim)


def index_parts(name: str, file: BinaryIO, dim: Dim, stack: ExitStack) -> Sequence[Part]:
    """The tensors that an index, such as model.safetensors.index.json, finds in other files."""
    with decoding("an index of the files of a checkpoint"):
        shard_of = json.load(file)["weight_map"]
        shards = sorted(set(shard_of.values()))
        if not all(isinstance(shard, str) for shard in shards):
            raise ValueError("expected names of files in its weight_map")
    opened = _Shards(Path(name).parent, dim, stack)
    tensors: dict[str, list[str]] = {shard: [] for shard in shards}
    for tensor, shard in shard_of.items():
        tensors[shard].append(tensor)
    parts: list[Part] = []
    for shard, held in tensors.items():
        if opened.is_sound(shard):
            parts += [(tensor, partial(opened.source, shard, tensor)) for tensor in held]
        else:  # one error for all of its tensors
            parts.append((shard, partial(opened.source, shard, held[0])))
    if not parts:
        raise SourceError("the file names no tensors")
    return parts


class _Shards:
    """The files of a checkpoint, of which one at a time is open."""

    def __init__(self, folder: Path, dim: Dim, stack: ExitStack) -> None:
        self.folder, self.dim = folder, dim
        self.stack = stack.enter_context(ExitStack())
        self.name = ""
        self.parts: dict[str, Callable[[], Source]] = {}
        self.error: Exception | None = None

    def is_sound(self, shard: str) -> bool:
        """Whether a file can be opened, as far as its first bytes tell."""
        try:
            with ExitStack() as stack:
                self._parts(shard, stack, load=False)
        except (OSError, SourceError):
            return False
        return True

    def source(self, shard: str, tensor: str) -> Source:
        if shard != self.name:
            self.stack.close()
            self.name, self.parts, self.error = shard, {}, None
            try:
                self.parts = dict(self._parts(shard, self.stack, load=True))
            except (OSError, SourceError) as error:
                self.error = error
        if self.error is not None:
            raise self.error
        if tensor not in self.parts:
            raise SourceError(f"is not in {shard}, where the index has it")
        return self.parts[tensor]()

    def _parts(self, shard: str, stack: ExitStack, *, load: bool) -> Sequence[Part]:
        """The tensors of a file; with `load` unset those of a PyTorch file are left out."""
        if Path(shard).name != shard:
            raise SourceError("is outside the folder of the index: give it as a FILE")
        file = stack.enter_context((self.folder / shard).open("rb"))
        head = file.read(HEAD_BYTES)
        file.seek(0)
        refuse_by_content(head, "")
        if looks_like_safetensors(head) or shard.endswith(".safetensors"):
            return safetensors_parts(file, self.dim)
        return torch_parts(file, self.dim) if load else []
