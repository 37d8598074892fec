"""The kernels that count numbers between edges, on no GPU (see test_emulated.py)."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

import fuzz_histogram
import numpy as np
import oracle
import pytest
import torch
from emulator.programs import (
    ELEMENT_TYPES,
    FEW_SMS,
    H200,
    ONE_SM,
    TWO_SMS,
    NeedsCopyError,
    Programs,
    bytes_of,
    described,
    limits_of,
    run_emulated,
)
from emulator.uniform import CountUniform
from oracle import NUMBERS, assert_counts
from torch import Tensor

from torch_histo.devices import Device

pytestmark = pytest.mark.sampled(4)


class Count(Protocol):
    def __call__(
        self,
        values: Tensor,
        edges: Tensor,
        *,
        dim: tuple[int, ...] = ...,
        flow: bool | None = ...,
        offset: int = ...,
        gpu: Device = ...,
        adds: bool = ...,
    ) -> set[str]: ...


@pytest.fixture(scope="session")
def count(programs: Programs) -> Count:
    """Counts `values`, which begin `offset` elements behind an aligned address.

    Compares the counts with the oracle's, with flow and without it unless one is asked for. If the
    kernels add to counts, those of before are OLD.
    Returns words about the plan (tests/emulator/program.cpp).
    """

    def run(
        values: Tensor,
        edges: Tensor,
        *,
        dim: tuple[int, ...] = (0,),
        flow: bool | None = None,
        offset: int = 0,
        gpu: Device = TWO_SMS,
        adds: bool = False,
    ) -> set[str]:
        if flow is None:
            run(values, edges, dim=dim, flow=False, offset=offset, gpu=gpu, adds=adds)
        shown = flow is None or flow
        bins = edges.shape[-1] - 1
        kept = [values.shape[d] for d in range(values.ndim) if d not in dim]
        num_counts = bins + (3 if shown else 0)
        problem, data = described(values, num_counts, dim, offset * values.dtype.itemsize)
        shared = edges.numel() == bins + 1
        full = edges.flatten() if shared else edges.expand(*kept, bins + 1)
        of_edges = bytes_of(full)
        place = edges.dtype.itemsize  # behind an aligned address
        array = [ELEMENT_TYPES.index(edges.dtype), bins, int(shared), place, len(of_edges)]
        about = f"{list(values.shape)} {values.dtype} over {dim}, {edges.dtype} {list(edges.shape)}"
        words, counts = run_emulated(
            programs.emulator,
            "histogram",
            [*problem, *array, int(shown), int(adds), *limits_of(gpu)],
            data + of_edges,
            f"{about} on {gpu.name}",
        )
        result = torch.frombuffer(counts, dtype=torch.int64).view(*kept, num_counts)
        expected = oracle.histogram(values, edges, dim, flow=shown) + (OLD if adds else 0)
        assert_counts(result, expected, f"{about} on {gpu.name}: {words}")
        return words

    return run


OLD = 0x1111111111111111
"""A count before kernels add to it (tests/emulator/program.cpp)."""
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
HOPPER = next(gpu for gpu in FEW_SMS if gpu.capability == (9, 0))
SHORT, SINGLE, DOUBLE = (torch.float16, torch.bfloat16), torch.float32, torch.float64


def rounded(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Float64 numbers in any type; integers are the nearest of the type."""
    if dtype.is_floating_point:
        return numbers.to(dtype)
    name = "uint8" if dtype == torch.bool else str(dtype).removeprefix("torch.")
    limits = np.iinfo(name)
    # The largest float64 that the type holds.
    last = float(limits.max) if limits.bits < 64 else np.nextafter(float(limits.max), 0)
    nearest = np.clip(np.nan_to_num(numbers.numpy()), float(limits.min), last).astype(name)
    return torch.from_numpy(nearest).view(dtype)


def numbers_about(
    edges: Tensor, shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0
) -> Tensor:
    """Numbers on edges, beside them, between them and beyond, and those that are special."""
    generator = torch.Generator().manual_seed(seed)
    reals = torch.from_numpy(edges.numpy().astype(np.float64)).flatten()
    reals = reals[reals.isfinite()]
    low, width = reals.min(), reals.max() - reals.min()
    within = low + width * (torch.rand(200, generator=generator).double() * 1.2 - 0.1)
    on = rounded(reals[torch.randint(len(reals), (200,), generator=generator)], dtype)
    of_bits = BITS[dtype.itemsize]
    beside = torch.cat([(on.view(of_bits) + step).view(dtype) for step in (-1, 1)])
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e300, -1e300]).double()
    pool = torch.cat([part.view(of_bits) for part in (on, beside, rounded(within, dtype))])
    pool = torch.cat([pool, rounded(special, dtype).view(of_bits).repeat(4)])
    at = torch.randint(len(pool), shape, generator=generator)
    return pool[at].view(dtype)


def uniform(low: float, high: float, bins: int, dtype: torch.dtype = SINGLE) -> Tensor:
    return torch.linspace(low, high, bins + 1, dtype=torch.float64).to(dtype)


def logarithmic(bins: int, dtype: torch.dtype = SINGLE) -> Tensor:
    return torch.logspace(-3, 2, bins + 1, dtype=torch.float64).to(dtype)


def uneven(bins: int, dtype: torch.dtype = SINGLE, most: float = 0.01) -> Tensor:
    """Nearly uniform: each edge is at most so much of a bin from its place."""
    jitter = torch.arange(bins + 1) % 3 * (most / 2)
    return ((torch.arange(bins + 1).double() + jitter) * 7 - 40).to(dtype)


def of_channels(edges: Tensor, channels: int) -> Tensor:
    """Edges of so many channels, each a little wider; those of two channels are none."""
    rows = edges.double() * (1 + torch.arange(channels).double() / channels)[:, None]
    if channels > 2:
        rows[1] = rows[1].flip(0)
        rows[2, edges.numel() // 2] = math.nan
    return rows.to(edges.dtype)


def guesses_of(dtype: torch.dtype) -> dict[str, Tensor]:
    """Edges whose bins are guessed so."""
    by_formula = uniform(-1.1, 0.7, 23) if dtype in SHORT else uniform(-40, 200, 24)
    if dtype == SINGLE:
        by_formula = uniform(1, 1.0625, 1)
    if dtype == DOUBLE:
        by_formula = uniform(1, 1 + 2.0**-40, 1, DOUBLE)
    return {"formula": by_formula, "comparison": uneven(30), "cells": logarithmic(40)}


class Case(NamedTuple):
    words: str
    """Words that the plan must have (tests/emulator/program.cpp)."""
    shape: tuple[int, ...]
    dim: tuple[int, ...] = (0,)
    dtype: torch.dtype = SINGLE
    cut: tuple[slice, ...] = ()
    """The part that is counted."""
    bins: int = 0
    """Logarithmic; else there are edges for each way of guessing."""
    gpu: Device = TWO_SMS
    offset: int = 0

    def check(self, count: Count, *, adds: bool = False) -> None:
        edges = {"": logarithmic(self.bins)} if self.bins else guesses_of(self.dtype)
        for guess, row in edges.items():
            channels = [self.shape[d] for d in range(len(self.shape)) if d not in self.dim]
            values = numbers_about(row, self.shape, self.dtype)[self.cut]
            kept = [values.shape[d] for d in range(values.ndim) if d not in self.dim]
            rows = of_channels(row, math.prod(kept)).view(*kept, -1)
            for some in (row, rows) if channels else (row,):
                words = count(
                    values, some, dim=self.dim, gpu=self.gpu, offset=self.offset, adds=adds
                )
                # Channels that share their edges are counted by teams if they lie in segments.
                # Columns that share them have cases of their own.
                in_rows = {"streams", "tiles"} & {*self.words.split()}
                in_teams = bool(in_rows) and "teams" in words
                in_stripes = some is row and "stripes" in words
                assert in_teams or in_stripes or {*self.words.split()} <= words, words
            if "streams" in self.words or "columns" in self.words:
                assert guess in {*words, ""}


FEW = slice(None), slice(117)
CASES = {
    "one channel": Case("streams chunks runs", (5003,), offset=1),
    "channels": Case("streams runs", (3, 700), (1,), offset=3),
    "channels in chunks": Case("streams chunks runs", (2, 40_001), (1,), gpu=HOPPER),
    "runs with gaps": Case("streams chunks runs", (20, 1100), (0, 1), cut=(..., slice(1050))),
    "short runs with gaps": Case("streams chunks", (300, 130), (0, 1), cut=FEW),
    "runs of channels": Case("streams runs", (3, 5, 1030), (0, 2), offset=2),
    "every other": Case("streams chunks", (9001,), cut=(slice(0, None, 2),)),
    "three loops": Case("streams", (9, 3, 8, 2, 40), (0, 2, 4), cut=(slice(None), ..., slice(33))),
    "32 copies": Case("streams 32-copies", (2, 3001), (1,), torch.float16, bins=100),
    "8 copies": Case("streams 8-copies", (2, 3001), (1,), torch.bfloat16, bins=400),
    "1 copy": Case("streams 1-copies", (2, 3001), (1,), torch.bfloat16, bins=2000),
    "parts": Case("streams parts", (4, 901), (1,), bins=20_000),
    "parts of doubles": Case("streams parts", (3001,), dtype=DOUBLE, bins=20_000, gpu=HOPPER),
    "columns": Case("columns 32-words chunks", (900, 32)),
    "stripes": Case("columns 32-words stripes", (500, 96), gpu=HOPPER),
    "joined": Case("columns 32-words joined stripes", (901, 33)),
    "narrow": Case("columns 32-words joined", (5000, 3), gpu=HOPPER),
    "joined in chunks": Case("columns 32-words joined chunks", (9001, 2), gpu=HOPPER),
    "gaps": Case("columns 32-words of-4", (600, 51), cut=(slice(None), slice(45)), offset=1),
    "wide gaps": Case("columns 32-words of-8", (9000, 50), cut=(slice(None), slice(44))),
    "batches": Case("columns stripes", (3, 300, 48), (1,), offset=1),
    "odd batches": Case("columns", (3, 300, 17), (1,)),
    "batches with gaps": Case("columns", (3, 310, 20), (1,), cut=(slice(None), slice(300))),
    "narrow stripes": Case("columns 8-words of-4", (4000, 24), bins=300),
    "columns of 8 bytes": Case("columns 32-words", (700, 40), dtype=DOUBLE),
    "columns of int64": Case("columns 32-words", (700, 33), dtype=torch.int64),
    "columns of 2 bytes": Case("columns of-4 joined", (1500, 50), dtype=torch.bfloat16),
    "wide columns of 2 bytes": Case("columns of-8 joined", (20_000, 64), dtype=torch.bfloat16),
    "wide columns of int16": Case("columns of-8 stripes", (9000, 256), dtype=torch.int16, bins=20),
    "odd columns of 2 bytes": Case("columns joined", (1500, 33), dtype=torch.float16),
    "few columns of 2 bytes": Case("columns joined", (9001, 3), dtype=torch.int16, gpu=HOPPER),
    "many odd columns of 2 bytes": Case("", (300, 511), dtype=torch.bfloat16, bins=5),
    "rows in tiles": Case("tiles", (50, 77), (1,)),
    "columns in tiles": Case("tiles", (50, 77), dtype=torch.float16),
    "bytes in tiles": Case("tiles", (300, 7), dtype=torch.uint8),
    "rows of three loops in tiles": Case(
        "tiles", (4, 3, 5, 2, 7), (0, 2, 4), cut=(slice(None), ..., slice(6))
    ),
    "rows of doubles in tiles": Case("tiles", (120, 9), (1,), dtype=DOUBLE, gpu=HOPPER),
    "one short channel of a cluster": Case("tiles", (255,), gpu=HOPPER),
    "many columns in tiles": Case("tiles", (3, 700), dtype=torch.bfloat16, gpu=HOPPER),
    "more bins than parts": Case("tiles", (3001,), bins=300_000, offset=1),
    "more bins than parts in channels": Case("tiles", (300, 3), bins=300_000),
    "bytes": Case("bytes", (4001,), dtype=torch.uint8, offset=1),
    "bytes of channels": Case("bytes", (5, 700), (1,), dtype=torch.int8),
    "bytes of columns": Case("bytes", (700, 9), dtype=torch.float8_e4m3fn),
    "bytes of columns on Hopper": Case("bytes", (700, 9), dtype=torch.float8_e5m2, gpu=HOPPER),
    "bytes in many bins": Case("bytes", (700, 5), dtype=torch.int8, bins=1000),
    "bytes in more bins": Case("bytes", (700, 5), dtype=torch.uint8, bins=3000),
}


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_cases(count: Count, name: str, adds: bool) -> None:
    CASES[name].check(count, adds=adds)


TEAMS = {
    "rows": Case("teams whole", (40, 3008), (1,), gpu=HOPPER),
    "one warp each": Case("teams 1-warps", (300, 516), (1,), gpu=HOPPER),
    "chunks": Case("teams chunks", (3, 40_001), (1,), gpu=HOPPER, offset=1),
    "odd rows": Case("teams", (37, 1031), (1,), gpu=HOPPER, offset=3),
    "odd rows of 2 bytes": Case("teams", (37, 1031), (1,), torch.bfloat16, offset=5),
    "rows of 2 bytes": Case("teams whole", (9, 1040), (1,), torch.float16, offset=8),
    "images": Case("teams whole", (9, 21, 14, 14), (0, 2, 3)),
    "images of 2 bytes": Case("teams", (9, 21, 14, 14), (0, 2, 3), torch.bfloat16),
    "small images": Case("teams", (9, 21, 7, 7), (0, 2, 3), offset=2),
    "planes": Case("teams", (31, 11, 7, 7), (2, 3), gpu=HOPPER),
    "two loops of segments": Case(
        "teams", (5, 3, 8, 2, 40), (0, 2, 4), cut=(slice(None), ..., slice(33))
    ),
    "gaps": Case("teams", (20, 6, 70), (0, 2), cut=(..., slice(3, 64)), offset=1),
    "tiny segments": Case("teams", (60, 6, 9), (0, 2)),
    "doubles": Case("teams", (7, 1003), (1,), DOUBLE),
    "int64": Case("teams", (7, 1003), (1,), torch.int64, gpu=HOPPER),
    "int16": Case("teams", (7, 1003), (1,), torch.int16, offset=1),
    "one channel": Case("teams chunks", (20_011,), offset=1, gpu=HOPPER),
    "many bins": Case("teams", (3, 3001), (1,), bins=2000, gpu=HOPPER),
    "more bins": Case("teams", (3, 3001), (1,), bins=5000, gpu=HOPPER),
}


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("name", TEAMS)
def test_teams(count: Count, name: str, adds: bool) -> None:
    case = TEAMS[name]
    edges = {"": logarithmic(case.bins)} if case.bins else guesses_of(case.dtype)
    for guess, row in edges.items():
        values = numbers_about(row, case.shape, case.dtype)[case.cut]
        words = count(values, row, dim=case.dim, gpu=case.gpu, offset=case.offset, adds=adds)
        assert {*case.words.split()} <= words, words
        assert guess in {*words, ""}


@pytest.mark.parametrize("dtype", [torch.bfloat16, SINGLE, DOUBLE], ids=str)
def test_teams_at_the_ends_of_rounds(count: Count, dtype: torch.dtype) -> None:
    """Each thread has from none to three rounds of loads."""
    of_vec16 = 16 // dtype.itemsize
    edges = uniform(-2, 2, 8)
    for vec16s in (2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 385):
        for more in (0, 1, of_vec16 - 1):
            values = numbers_about(edges, (3, vec16s * of_vec16 + more), dtype, vec16s)
            count(values, edges, dim=(1,), flow=True, gpu=ONE_SM)


class CheckOwnRanges(Protocol):
    def __call__(
        self,
        values: Tensor,
        bins: int,
        *,
        dim: tuple[int, ...] = ...,
        flow: bool = ...,
        offset: int = ...,
        gpu: Device = ...,
    ) -> set[str]: ...


@pytest.fixture(scope="session")
def check_own_ranges(programs: Programs) -> CheckOwnRanges:
    """Compares the edges between the extremes of channels, and the counts."""

    def run(
        values: Tensor,
        bins: int,
        *,
        dim: tuple[int, ...] = (1,),
        flow: bool = True,
        offset: int = 0,
        gpu: Device = TWO_SMS,
    ) -> set[str]:
        num_counts = bins + (3 if flow else 0)
        problem, data = described(values, num_counts, dim, offset * values.dtype.itemsize)
        narrow = values.dtype in (*SHORT, SINGLE)
        of_edges = SINGLE if narrow else DOUBLE
        about = f"{list(values.shape)} {values.dtype} over {dim}, {bins} bins on {gpu.name}"
        header = [*problem, bins, ELEMENT_TYPES.index(of_edges), int(flow), *limits_of(gpu)]
        words, result = run_emulated(programs.emulator, "own_ranges", header, data, about)
        kept = [values.shape[d] for d in range(values.ndim) if d not in dim]
        size = math.prod(kept) * num_counts * 8
        counts = torch.frombuffer(result[:size], dtype=torch.int64).view(*kept, num_counts)
        edges = torch.frombuffer(result[size:], dtype=of_edges).view(*kept, bins + 1)
        low, high = oracle.range_of(values, dim)
        assert torch.equal(edges, oracle.uniform_edges(low, high, bins, dtype=of_edges)), about
        assert_counts(counts, oracle.histogram(values, edges, dim, flow=flow), about)
        return words

    return run


@pytest.mark.parametrize(
    "dtype", [*SHORT, SINGLE, DOUBLE, torch.int16, torch.int64, torch.uint64], ids=str
)
def test_own_ranges(check_own_ranges: CheckOwnRanges, dtype: torch.dtype) -> None:
    """Usual ranges, far ones, one value, no finite value, and ends that no line connects."""
    values = numbers_about(uniform(-5, 9, 20), (7, 1201), dtype)
    if dtype.is_floating_point:
        values[:5] = values[:5].nan_to_num(1, 2, 3).clamp(-5, 9)
        values[1] = values[1] * 2.0**-9 + 1
        values[2] = 3
        values[3] = math.nan
        values[4] = values[4].sign() * torch.finfo(dtype).tiny
    else:
        values[1] = 3
    for bins in (1, 10, 257):
        words = check_own_ranges(values, bins, flow=bins != 10)
        assert "teams" in words
        check_own_ranges(values, bins, offset=1, gpu=HOPPER)
    images = values[:, :1176].reshape(7, 8, 3, 49)
    assert "teams" in check_own_ranges(images, 40, dim=(0, 2, 3), gpu=HOPPER)
    long = numbers_about(uniform(-5, 9, 20), (2, 40_001), dtype)
    assert "chunks" in check_own_ranges(long, 40, gpu=HOPPER)


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d.itemsize == 1], ids=str)
def test_bytes_between_own_edges(count: Count, dtype: torch.dtype) -> None:
    """Few rows, too, and edges that are not valid count nothing but NaN."""
    edges = of_channels(uniform(-130, 130, 130), 125)
    edges[2] = edges[2].flip(0)
    edges[3, 5] = math.nan
    edges[4] = 0
    edges[5, 40:] = math.inf
    values = numbers_about(uniform(-130, 130, 130), (125, 60), dtype)
    for flow in (False, True):
        assert "bytes" in count(values, edges, dim=(1,), flow=flow, gpu=ONE_SM)
        assert "bytes" in count(values, edges, dim=(1,), flow=flow, adds=True, gpu=HOPPER)
    for row in edges[2:6]:
        assert "bytes" in count(values.flatten(), row, flow=True)
    # More bins than a warp maps: a block has several channels.
    for edges in (of_channels(uniform(-130, 130, 600), 20), uniform(-130, 130, 600)):
        values = numbers_about(uniform(-130, 130, 130), (20, 520), dtype)
        assert "bytes" in count(values, edges, dim=(1,), flow=True, gpu=ONE_SM)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types(count: Count, dtype: torch.dtype) -> None:
    wide = dtype.itemsize > 1
    Case("streams" if wide else "bytes", (3001,), dtype=dtype, offset=1).check(count)
    Case("columns" if wide else "bytes", (600, 40), dtype=dtype, gpu=HOPPER).check(count)
    Case("tiles", (7, 60), (1,), dtype=dtype).check(count)


@pytest.mark.parametrize(
    "edges",
    [
        [-math.inf, 0.0, 1.0, math.inf],
        [0.0, math.inf],
        [-math.inf, -math.inf, 2.0, 2.0],
        [2.0, 2.0, 2.0, 2.0, 2.0],
        [-1e38, -1.0, 0.0, 1.0, 3e38],
        [0.0, 1e-45, 1.0, 1e30],
        [0.0, *([1.0] * 40), 2.0],
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [*SHORT, SINGLE, DOUBLE, torch.int64], ids=str)
def test_searches_in_tiles(count: Count, edges: list[float], dtype: torch.dtype) -> None:
    """A guess may be anywhere, or no number."""
    row = torch.tensor(edges)
    values = numbers_about(row, (9, 40), dtype)
    assert "teams" in count(values, row, dim=(1,))
    assert "tiles" in count(values, row.expand(9, -1).contiguous(), dim=(1,), gpu=HOPPER)


@pytest.mark.parametrize("dtype", [*SHORT, SINGLE], ids=str)
def test_formula_below_the_last_edge(count: Count, dtype: torch.dtype) -> None:
    """A line finds all values but the last edge, which the type has."""
    for edges in uniform(-4, 4, 2048), uniform(0, 1, 64):
        values = numbers_about(edges, (6000,), dtype)
        assert "open-formula" in count(values, edges)
    assert "open-formula" in count(values.view(-1, 20), edges)
    own = of_channels(edges, 20)
    assert "comparison" in count(values.view(-1, 20), own)  # columns have no such line


@pytest.mark.parametrize("dtype", [torch.bfloat16, SINGLE, DOUBLE, torch.int32], ids=str)
def test_edges_far_from_a_line(count: Count, dtype: torch.dtype) -> None:
    """Streams compare only close to an edge, so there the line must be closer to it."""
    edges = uneven(30, most=0.4)
    values = numbers_about(edges, (4000,), dtype)
    assert "cells" in count(values, edges)
    assert {"cells", "stripes"} <= count(values.view(-1, 20), edges)
    assert "comparison" in count(values.view(-1, 20), of_channels(edges, 20))


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint16, torch.int32, torch.uint64], ids=str)
def test_edges_beyond_all_integers(count: Count, dtype: torch.dtype) -> None:
    """The largest integer reaches none of them, though it is what they are kept as."""
    most = float(torch.iinfo(dtype).max)
    for guess in ("comparison", "cells"):
        edges = guesses_of(dtype)[guess].double()
        beyond = edges * most / edges[-4]
        values = numbers_about(beyond, (4000,), dtype)
        assert guess in count(values, beyond)
        assert guess in count(values.view(-1, 10), beyond)


def shapes_of(kernel: str) -> tuple[list[int], list[int]]:
    """Threads of a block, and loads that each has in flight."""
    cuda = Path(__file__).parents[1] / "csrc/cuda"
    shapes = re.findall(r"ReadShape<([^;]+)>;", (cuda / kernel).read_text())
    # A function or a constant of the policy may tell the threads.
    tuning = "\n".join(path.read_text() for path in cuda.glob("policy*.h"))
    for name in re.findall(r"\bthreads_of_\w+", " ".join(shapes)):
        shapes += re.findall(rf"\b{name}\([^{{]*{{([^}}]*)}}", tuning)
    for name in re.findall(r"\bkThreadsOf\w+", " ".join(shapes)):
        shapes += re.findall(rf"\b{name} = (\d+);", tuning)
    numbers = [int(number) for shape in shapes for number in re.findall(r"\b\d+\b", shape)]
    threads = {number for number in numbers if number >= 128}
    loads = {number for number in numbers if 4 <= number < 128}
    assert threads, kernel
    assert loads, kernel
    return sorted(threads), sorted(loads)


def words_at_ends_of_rounds(kernel: str) -> list[int]:
    """Numbers of words of which threads have so many that a round is just full, or just not."""
    threads, loads = shapes_of(kernel)
    each = {1}
    for load in loads:
        each |= {load - 1, load, load + 1, 2 * load - 1, 2 * load, 2 * load + 1, 3 * load}
    return [count * some + more for some in threads for more, count in enumerate(sorted(each))]


@pytest.mark.parametrize("dtype", [torch.bfloat16, SINGLE, DOUBLE], ids=str)
def test_streams_at_the_ends_of_rounds(count: Count, dtype: torch.dtype) -> None:
    edges = uniform(-2, 2, 8)
    of_vec16 = 16 // dtype.itemsize
    for i, words in enumerate(words_at_ends_of_rounds("fill/edge_streams.cu")):
        head, tail = i % of_vec16, i // 2 % of_vec16
        values = numbers_about(edges, (max(words * of_vec16 + head + tail, 256),), dtype, i)
        count(values, edges, flow=True, offset=of_vec16 - head, gpu=ONE_SM)


@pytest.mark.parametrize("dtype", [torch.bfloat16, SINGLE, DOUBLE], ids=str)
def test_columns_at_the_ends_of_rounds(count: Count, dtype: torch.dtype) -> None:
    edges = uniform(-2, 2, 8)
    of_word = max(4 // dtype.itemsize, 1)
    for i, words in enumerate(words_at_ends_of_rounds("fill/edge_columns.cu")):
        # A row of a stripe has 32 words.
        values = numbers_about(edges, (words // 32 + i % 2, 32 * of_word - i % 3), dtype, i)
        if len(values) > 0:
            count(values, edges, flow=True, gpu=ONE_SM)


@pytest.mark.parametrize("gpu", FEW_SMS, ids=lambda gpu: gpu.name)
def test_generated(count: Count, check_range: CheckRange, gpu: Device) -> None:
    generate(count, check_range, gpu, 0, 60)


@pytest.mark.long
@pytest.mark.parametrize("gpu", FEW_SMS, ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("seed", range(1, 11))
def test_more_generated(count: Count, check_range: CheckRange, gpu: Device, seed: int) -> None:
    generate(count, check_range, gpu, seed, 300)


def generate(count: Count, check_range: CheckRange, gpu: Device, seed: int, problems: int) -> None:
    rng = Random(f"{gpu.name} {seed}")
    for number in range(problems):
        problem = fuzz_histogram.random_problem(rng)
        values, edges = problem.tensors()
        if values.numel() == 0:
            continue
        dim = problem.view.dim or tuple(range(values.ndim))
        dim = tuple(d % max(values.ndim, 1) for d in dim)
        with contextlib.suppress(NeedsCopyError):
            offset = values.storage_offset()
            if isinstance(problem, fuzz_histogram.RangeProblem):
                check_range(values, dim=dim, offset=offset, gpu=gpu)
            else:
                count(
                    values,
                    edges,
                    dim=dim,
                    flow=problem.flow,
                    offset=offset,
                    gpu=gpu,
                    adds=number % 2 == 1,
                )


# Columns in small tables: between edges that all share, and between ranges of their own


@dataclasses.dataclass
class Stripes:
    words: str
    shape: tuple[int, ...]
    dim: tuple[int, ...] = (0,)
    dtype: torch.dtype = SINGLE
    cut: tuple[slice, ...] = ()
    bins: int = 30
    gpu: Device = HOPPER
    offset: int = 0


STRIPES = {
    "one": Stripes("8-words 8-lanes", (50, 8)),
    "several": Stripes("8-words 8-lanes several", (50, 45)),
    "copies": Stripes("8-words 32-lanes several", (300, 20)),
    "chunks": Stripes("32-lanes chunks", (12_000, 16), bins=10),
    "in turn": Stripes("in-turn", (40, 33 * 8), gpu=TWO_SMS),
    "batches": Stripes("several", (7, 60, 16), (1,), offset=1),
    "batches in turn": Stripes("in-turn", (9, 40, 24), (1,), gpu=TWO_SMS),
    "joined": Stripes("joined several", (701, 11)),
    "joined, few channels": Stripes("joined", (2001, 3)),
    "gaps": Stripes("", (600, 51), cut=(slice(None), slice(45)), offset=1),
    "many bins": Stripes("8-lanes", (300, 16), bins=2048),
    "2 bytes": Stripes("8-words 32-lanes", (700, 48), dtype=torch.bfloat16),
    "2 bytes of 8 lanes": Stripes("8-words 8-lanes", (120, 50), dtype=torch.float16),
    "2 bytes, joined": Stripes("joined", (1500, 33), dtype=torch.float16),
    "2 bytes, few channels": Stripes("joined", (1500, 3), dtype=torch.bfloat16),
    "int16": Stripes("", (700, 48), dtype=torch.int16),
    "8 bytes": Stripes("8-words", (400, 20), dtype=DOUBLE),
    "int64": Stripes("8-words", (400, 21), dtype=torch.int64),
    "int32": Stripes("8-words", (100, 16), dtype=torch.int32),
    "runs": Stripes("runs several", (4, 3, 60, 24), (0, 2)),
    "runs of three loops": Stripes(
        "runs", (5, 8, 9, 24), (0, 1, 2), cut=(slice(None), slice(6), slice(7), slice(20))
    ),
    "short runs": Stripes("runs 32-lanes", (400, 3, 2, 16), (0, 2), offset=1),
    "chunks of runs": Stripes("runs chunks", (4, 2, 3001, 16), (0, 2), bins=10),
    "runs in turn": Stripes("runs in-turn", (3, 9, 40, 24), (0, 2), gpu=TWO_SMS),
    "runs, few channels": Stripes("runs", (6, 4, 90, 3), (0, 2)),
    "runs, 2 bytes": Stripes("runs", (4, 3, 60, 24), (0, 2), dtype=torch.bfloat16),
    "runs, 8 bytes": Stripes("runs", (4, 3, 60, 5), (0, 2), dtype=torch.int64),
    "odd rows, joined": Stripes("joined several", (301, 257), dtype=torch.float16),
    "loose": Stripes("loose several", (300, 257), dtype=torch.float16, offset=1),
    "loose batches": Stripes("loose", (3, 101, 33), (1,), dtype=torch.bfloat16),
    "loose gaps": Stripes(
        "loose", (600, 52), dtype=torch.bfloat16, cut=(slice(None), slice(45)), offset=1
    ),
    "loose, few channels": Stripes(
        "loose", (500, 5), dtype=torch.float16, cut=(slice(None), slice(3)), offset=1
    ),
    "loose runs": Stripes("loose runs", (5, 2, 77, 19), (0, 2), dtype=torch.int16),
}


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("name", STRIPES)
def test_stripes(count: Count, count_uniform: CountUniform, name: str, flow: bool) -> None:
    case = STRIPES[name]
    wanted = {"stripes", *case.words.split()}
    for edges in (uniform(-3.7, 4.1, case.bins), logarithmic(case.bins)):
        values = numbers_about(edges, case.shape, case.dtype)[case.cut]
        where = {"dim": case.dim, "offset": case.offset, "gpu": case.gpu}
        words = count(values, edges, flow=flow, **where)
        assert wanted <= words, words
        words = count_uniform(values, case.bins, flow=flow, **where)
        assert {"own-stripes", *case.words.split()} <= words, words


@pytest.mark.parametrize("dtype", [SINGLE, torch.bfloat16], ids=str)
def test_counters_of_16_bits(count: Count, count_uniform: CountUniform, dtype: torch.dtype) -> None:
    """A block has fewer than 2^16 rows of two columns that share a word."""
    values = torch.ones(20_000, 16, dtype=dtype)
    values[::3] = 0.5
    assert "stripes" in count(values, uniform(0, 2, 2), flow=True, gpu=ONE_SM)
    assert "own-stripes" in count_uniform(values, 2, dim=(0,), flow=False, gpu=ONE_SM)


@pytest.mark.parametrize("bounds", [(1e6, 1e6 + 1), (1.0, 1.0 + 2**-22), (1e-38, 3e-38)])
def test_own_ranges_without_a_line(
    count_uniform: CountUniform, bounds: tuple[float, float]
) -> None:
    edges = uniform(*bounds, 40)
    values = numbers_about(edges, (90, 24), SINGLE)
    values = torch.where(values.abs() <= 3e38, values, values.new_tensor(bounds[0]))
    values[:, ::2] = values[:, ::2].clamp(*bounds)
    for flow in (False, True):
        assert "own-stripes" in count_uniform(values, 40, dim=(0,), flow=flow)


def test_invalid_edges_in_stripes(count: Count) -> None:
    """They count nothing but NaN."""
    for edges in (uniform(4, -4, 9), torch.tensor([0.0, math.nan, 1.0])):
        values = numbers_about(uniform(-4, 4, 9), (60, 24), SINGLE)
        assert "stripes" in count(values, edges)


# The extremes of channels, and evenly spaced edges


class CheckRange(Protocol):
    def __call__(
        self,
        values: Tensor,
        *,
        dim: tuple[int, ...] = ...,
        offset: int = ...,
        gpu: Device = ...,
        eager: bool = ...,
    ) -> set[str]: ...


@pytest.fixture(scope="session")
def check_range(programs: Programs) -> CheckRange:
    """Compares extremes of `values`, which begin `offset` elements behind an aligned address."""

    def run(
        values: Tensor,
        *,
        dim: tuple[int, ...] = (0,),
        offset: int = 0,
        gpu: Device = TWO_SMS,
        eager: bool = False,
    ) -> set[str]:
        problem, data = described(values, 1, dim, offset * values.dtype.itemsize)
        about = f"{list(values.shape)} {values.dtype} over {dim} on {gpu.name}"
        header = [*problem, *limits_of(gpu)]
        program = programs.eager if eager else programs.emulator
        words, ends = run_emulated(program, "finite_range", header, data, about)
        expected = oracle.finite_range(values, dim)
        low, high = torch.frombuffer(ends, dtype=expected[0].dtype).view(2, *expected[0].shape)
        assert torch.equal(low, expected[0]), about
        assert torch.equal(high, expected[1]), about
        return words

    return run


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_extremes(check_range: CheckRange, dtype: torch.dtype) -> None:
    values = numbers_about(uniform(-500, 500, 20), (900, 41), dtype)
    for channel in (3, 4, 5):  # one below all, one above all, none
        extreme = [-math.inf, math.inf, math.nan][channel - 3]
        values.view(BITS[dtype.itemsize])[:, channel] = rounded(
            torch.tensor([extreme]).double(), dtype
        ).view(BITS[dtype.itemsize])
    if dtype.itemsize == 1:  # bytes of few columns are counted
        assert "counted" in check_range(values, gpu=HOPPER)
    assert "columns" in check_range(values, gpu=HOPPER, eager=True)
    check_range(values[:, :33], offset=1)
    check_range(values.flatten(), gpu=HOPPER, offset=1)
    check_range(values, dim=(1,))
    check_range(values[::2, ::3], dim=(0, 1))
    check_range(values[:7])


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_extremes_of_short_channels(check_range: CheckRange, dtype: torch.dtype) -> None:
    for rows in (1, 2, 7, 16, 49):
        values = numbers_about(uniform(-500, 500, 20), (3, rows, 24), dtype, seed=rows)
        values[:, :, 5] = values[:, :1, 5]
        for some in (values, values[..., :23], values[..., 1:], values[..., ::3], values[:1]):
            words = check_range(some, dim=(1,), gpu=HOPPER)
            assert "short" in words or rows in (1, 49) or some.stride(2) > 1
            check_range(some, dim=(0, 1), offset=1)
        in_rows = numbers_about(uniform(-500, 500, 20), (1500, rows + 1), dtype, seed=rows)
        for some in (in_rows, in_rows[:, 1:], in_rows[:, ::2]):
            check_range(some, dim=(1,))
    words = check_range(values[:, :16], dim=(1,), gpu=HOPPER)
    assert "short" in words
    assert ("words" in words) == (dtype.itemsize <= 2)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.bool, torch.float8_e5m2], ids=str)
def test_extremes_of_bytes_in_loose_columns(check_range: CheckRange, dtype: torch.dtype) -> None:
    values = numbers_about(uniform(-500, 500, 20), (3000, 7), dtype)
    for channels in (2, 3, 5, 6):
        for some in (values[:, :channels], values[:, 1 : channels + 1]):
            assert "columns" in check_range(some, gpu=HOPPER, eager=True)
            assert "counted" in check_range(some, gpu=HOPPER)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_extremes_of_copies(check_range: CheckRange, dtype: torch.dtype) -> None:
    values = numbers_about(uniform(-500, 500, 20), (5, 130, 41), dtype)
    for some in (values[..., ::2], values[..., 3::5], values[:1, :, ::40]):
        for dim in ((1,), (0, 1)):
            check_range(some, dim=dim, gpu=HOPPER, offset=1, eager=True)


def test_extremes_of_odd_columns(check_range: CheckRange) -> None:
    for channels in (255, 511):
        check_range(numbers_about(uniform(-1, 1, 2), (301, channels), torch.bfloat16))


@pytest.mark.parametrize("dtype", [SINGLE, torch.float16, torch.int16, DOUBLE], ids=str)
def test_extremes_of_columns_in_runs(check_range: CheckRange, dtype: torch.dtype) -> None:
    values = numbers_about(uniform(-500, 500, 20), (7, 6, 60, 25), dtype)
    for some in (values, values[:, :, :55], values[..., 1:], values[..., :3], values[..., :24]):
        for dim in ((0, 2), (0, 1, 2)):
            for offset in (0, 1):
                words = check_range(some, dim=dim, offset=offset, gpu=HOPPER, eager=True)
                assert "columns" in words
                check_range(some, dim=dim, offset=offset, gpu=HOPPER)
    short = numbers_about(uniform(-500, 500, 20), (700, 2, 3, 20), dtype)
    assert "columns" in check_range(short, dim=(0, 2), gpu=HOPPER, eager=True)


def test_extremes_at_the_ends_of_rounds(check_range: CheckRange) -> None:
    for i, words in enumerate(words_at_ends_of_rounds("fill/extremes.cu")):
        # The extremes may be anywhere: in all cases together they are in many places.
        values = torch.arange(4 * words + i % 4).float().roll(i * i) - words
        check_range(values, offset=i % 4, gpu=ONE_SM)
        values = torch.arange(words // 32 * 32 + 32).view(-1, 32).float().roll((i * i, i), (0, 1))
        check_range(values, gpu=ONE_SM)


@pytest.mark.parametrize("of_range", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("gpu", [ONE_SM, H200], ids=lambda gpu: gpu.name)
def test_uniform_edges(
    programs: Programs, of_range: torch.dtype, dtype: torch.dtype, gpu: Device
) -> None:
    ends = torch.tensor([(0.0, 1.0), (-3.0, 3.0), (0.1, 0.7), (1e6, 1e6 + 64), (-0.0, 3e38)])
    many = ends.repeat(14, 1) + torch.arange(70.0)[:, None]
    for bins, some in ((1, ends), (2, ends), (7, ends), (5000, ends), (256, ends), (256, many)):
        low, high = some.to(of_range).t().contiguous()
        header = [int(of_range == SINGLE), int(dtype == SINGLE), len(low), bins]
        size = low.nbytes
        header += [of_range.itemsize, size, 0, size, *limits_of(gpu)]
        data = bytes_of(low) + bytes_of(high)
        _, edges = run_emulated(programs.emulator, "uniform_edges", header, data, str(bins))
        expected = oracle.uniform_edges(low, high, bins, dtype=dtype)
        assert torch.equal(torch.frombuffer(edges, dtype=dtype).view(len(low), -1), expected)
