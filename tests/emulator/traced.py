"""Study kernels that tell of each of their accesses of memory, on the host."""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from emulator.compiler import CSRC, Compiler
from emulator.programs import KERNEL_FLAGS, on_host, toolkit_headers

CACHE = CSRC.parent / "build" / "traced"
LETTERS = ("a-d", "e-h", "i-l", "m-p", "q-t", "u-x", "y-z")
SMALL = {
    "kThreads": 4,
    "kMaxPrivateBlocks": 4,
    "aggregated.kRun": 8,
    "kTileThreads": 4,
    "kTileChannels": 4,
    "kUnroll": 2,
}
"""Constants of the kernels with which a sentence fills several blocks.

A name is that of a constant, or of the constant of one variant.
"""


class Access(NamedTuple):
    block: int
    thread: int
    how: str
    """read, write or add."""
    memory: str
    """input, counts (the result), workspace (both in global memory) or shared."""
    offset: int
    """Bytes from the begin of the allocation. A block has shared memory of its own."""
    bytes: int
    value: int
    """The number that is added."""
    kernel: str


@dataclass
class Trace:
    variant: str
    data: bytes
    channels: int
    bins: tuple[str, ...]
    """The names of a channel's bins."""
    constants: dict[str, tuple[int, int]]
    """As compiled, and in the source."""
    counts: list[int]
    """[channels, bins]."""
    global_additions: int
    shared_additions: int
    threads_per_block: int
    accesses: list[Access]
    """In the order in which the threads ran, one after the other. A GPU has no such order."""

    @functools.cached_property
    def places(self) -> dict[tuple[str, int, int], int]:
        """The element of the result that each private counter is for.

        The key is the memory, the block (0 for the workspace, which all share) and the offset. A
        thread reads the counter before it adds or writes to where the counter's sum is formed.
        """
        reads: dict[tuple[str, int, int], list[tuple[str, int, int]]] = {}
        leads_to: dict[tuple[str, int, int], tuple[str, int, int]] = {}
        for access in self.accesses:
            thread = access.kernel, access.block, access.thread
            place = place_of(access)
            if access.how == "read" and access.memory in ("workspace", "shared"):
                reads.setdefault(thread, []).append(place)
            elif access.how == "add":
                leads_to.update((r, place) for r in reads.pop(thread, [])[-1:])
            elif access.how == "write":
                leads_to.update((r, place) for r in reads.pop(thread, []))

        def end(place: tuple[str, int, int]) -> int | None:
            while place[0] != "counts" and place in leads_to:
                place = leads_to[place]
            return place[2] // 8 if place[0] == "counts" else None

        return {place: at for place in leads_to if (at := end(place)) is not None}

    def index(self, access: Access) -> int:
        """The element of the result that an access of a counter is for."""
        return access.offset // 8 if access.memory == "counts" else self.places[place_of(access)]

    def bin(self, index: int) -> str:
        channel, at = divmod(index, len(self.bins))
        return self.bins[at] if self.channels == 1 else f"{self.bins[at]} of {channel}"

    @functools.cached_property
    def counts_in(self) -> str:
        """The memory where values are counted: of private histograms, if there are some."""
        adds = {a.memory for a in self.accesses if a.how == "add"}
        return next((memory for memory in ("shared", "workspace") if memory in adds), "counts")

    def counted(self) -> list[Access]:
        """The additions of values, and not of private histograms."""
        return [a for a in self.accesses if a.how == "add" and a.memory == self.counts_in]

    def into_result(self) -> list[Access]:
        """The atomic additions to the result."""
        return [a for a in self.accesses if a.how == "add" and a.memory == "counts"]

    def tables(self) -> dict[int, Counter[int]]:
        """The additions of each block for the values it reads, by element of the result."""
        readers = {a.block for a in self.accesses if a.memory == "input"}
        tables: dict[int, Counter[int]] = {block: Counter() for block in sorted(readers)}
        for access in self.counted():
            tables[access.block][self.index(access)] += access.value
        return tables


def place_of(access: Access) -> tuple[str, int, int]:
    block = access.block if access.memory == "shared" else 0
    return access.memory, block, access.offset


def with_constants(
    source: str, variant: str, constants: Mapping[str, int]
) -> tuple[str, dict[str, tuple[int, int]]]:
    """A source with other constants, and their values, new and old."""
    changed: dict[str, tuple[int, int]] = {}
    for name, value in constants.items():
        owner, _, constant = name.rpartition(".")
        line = re.compile(rf"(constexpr \w+ {constant} = )(\d+);")
        if owner in ("", variant) and (found := line.search(source)):
            source = line.sub(rf"\g<1>{value};", source)
            if value != int(found[2]):
                changed[constant] = value, int(found[2])
    return source, changed


def build(variant: str, constants: Mapping[str, int]) -> tuple[Path, dict[str, tuple[int, int]]]:
    """The program of a variant, and which of its constants are not the source's."""
    headers = toolkit_headers()
    known = hashlib.sha256(repr(sorted(constants.items())).encode()).hexdigest()[:16]
    cache = CACHE / known
    cache.mkdir(parents=True, exist_ok=True)
    changed: dict[str, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiler = Compiler(folder, cache, f"-isystem{headers}")
        start = folder / "csrc/cuda/launch.h"
        named = start.read_text().replace("cudaLaunchKernelEx(", "emulated::launch_named(name, ")
        start.write_text('#include "emulator/emulator.h"\n' + named)
        study = folder / "csrc/cuda/study/study.cuh"
        kernel = folder / f"csrc/cuda/study/{variant}.cu"
        for file in (study, kernel):
            source, its = with_constants(on_host(file.read_text()), variant, constants)
            file.write_text(source)
            changed |= its
        kernel.with_suffix(".cpp").write_text(
            '#include "emulator/emulator.h"\n' + kernel.read_text()
        )
        main = folder / f"csrc/emulator/traced_{variant}.cpp"
        source = (folder / "csrc/emulator/traced.cpp").read_text()
        main.write_text(f"#define HISTO_VARIANT {variant}\n{source}")
        with compiler.alone():
            objects = [compiler.object_of(f"csrc/cuda/study/{variant}.cpp", *KERNEL_FLAGS)]
            objects += [
                compiler.object_of(f"csrc/{name}.cpp")
                for name in (
                    f"emulator/traced_{variant}",
                    "emulator/emulator",
                    "emulator/memory",
                    "cuda/launch",
                )
            ]
            compiler.finish()
            program = cache / variant
            newest = max(path.stat().st_mtime_ns for path in objects)
            if not program.exists() or program.stat().st_mtime_ns < newest:
                compiler.link(str(program), objects)
    return program, changed


def trace(
    variant: str,
    data: bytes,
    *,
    channels: int = 1,
    num_bins: int | None = None,
    sms: int = 1,
    constants: Mapping[str, int] = SMALL,
    only_count: bool = False,
) -> Trace:
    """Runs a variant on `[length, channels]` bytes: letters, or values if bins are given.

    With `only_count` the accesses are left out.
    """
    program, changed = build(variant, constants)
    length, rest = divmod(len(data), channels)
    if rest or not length:
        raise ValueError(f"{len(data)} bytes are no rows of {channels} channels")
    bins = LETTERS if num_bins is None else tuple(map(str, range(num_bins)))
    numbers = [num_bins is None, len(bins), length, channels, sms, not only_count]
    done = subprocess.run(
        [program],
        input=" ".join(str(int(number)) for number in numbers).encode() + b"\n" + data,
        capture_output=True,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode() or f"{variant} ended with {done.returncode}")
    counts, totals, *lines = done.stdout.decode().splitlines()
    fields = (line.split(" ", 7) for line in lines)
    accesses = [
        Access(int(block), int(thread), how, memory, int(at), int(size), int(value), kernel)
        for block, thread, how, memory, at, size, value, kernel in fields
    ]
    numbers = list(map(int, counts.split()))
    return Trace(
        variant, data, channels, bins, changed, numbers, *map(int, totals.split()), accesses
    )
