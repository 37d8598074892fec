"""Joint histograms on no GPU (see test_emulated.py)."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Protocol

import pytest
import torch
from conftest import constants_of
from emulator.joint import count_joint
from emulator.programs import FEW_SMS, ONE_SM, TWO_SMS, Programs
from oracle import NUMBERS, random_values
from test_emulated_edges import BITS, numbers_about, uniform
from torch import Tensor

from torch_histo.devices import Device

pytestmark = pytest.mark.sampled(3)

LARGE = Device("two SMs with more memory", 2, 227 << 10, 228 << 10, (9, 0), 1e11)
SMALL = dataclasses.replace(TWO_SMS, shared_bytes_per_block=30 << 10, name="little memory")
POLICY = constants_of("csrc/cuda/policy*.h")
FAST = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.int32]


class Count(Protocol):
    def __call__(
        self,
        inputs: object,
        edges: object,
        dim: tuple[int, ...] = ...,
        *,
        flow: bool = ...,
        offsets: object = ...,
        gpu: Device = ...,
    ) -> set[str]: ...


@pytest.fixture(scope="session")
def count(programs: Programs) -> Count:
    return partial(count_joint, programs.emulator)


@pytest.fixture(scope="session")
def count_eagerly(programs: Programs) -> Count:
    """The plans take less data for many."""
    return partial(count_joint, programs.eager)


def special(x: Tensor) -> Tensor:
    """Some elements are NaN, infinite or a zero of either sign."""
    if not x.dtype.is_floating_point:
        return x
    x = x.clone()
    some = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0]).to(x.dtype)
    bits = x.flatten().view(BITS[x.dtype.itemsize])
    for at in (0, len(bits) // 2, len(bits) - 5):
        bits[at : at + 5] = some.view(bits.dtype)
    return x


def pair(
    edges: tuple[Tensor, Tensor], size: int, dtypes: tuple[torch.dtype, ...], seed: int = 0
) -> list[Tensor]:
    """Values on edges and beside them."""
    every = zip(edges, dtypes, strict=True)
    return [special(numbers_about(e, (size,), t, seed + d)) for d, (e, t) in enumerate(every)]


@pytest.mark.parametrize("dtype", FAST, ids=str)
def test_sizes(count: Count, dtype: torch.dtype) -> None:
    """At the ends of packs and of what all threads read, and one element beside them."""
    edges = uniform(-3, 100, 20), uniform(-1, 9, 7)
    fewer = dtype in (torch.float16, torch.bfloat16, torch.int32)
    which = "Fewest" if dtype == torch.uint8 else "Few" if fewer else ""
    of_block = POLICY[f"k{which}ThreadsOfJoint"] * 16 // dtype.itemsize
    for i, size in enumerate((1023, 1024, 1025, of_block - 1, of_block, 2 * of_block + 1)):
        for flow in (False, True):
            inputs = pair(edges, size, (dtype, dtype), i)
            offsets = i % 3, (i + 1) % 4
            words = count(inputs, edges, flow=flow, offsets=offsets, gpu=ONE_SM)
            assert words == ({"simple"} if size < 1024 else {"separate", "same", "table"}), size


def test_few_elements(count: Count) -> None:
    edges = uniform(-3, 3, 4), uniform(-3, 3, 4)
    for size in (0, 1, 2, 31):
        inputs = [torch.linspace(-2, 2, size), torch.linspace(2, -2, size)]
        assert count(inputs, edges) == {"simple"}


@pytest.mark.parametrize("first", NUMBERS, ids=str)
def test_types(count: Count, first: torch.dtype) -> None:
    edges = uniform(0, 100, 20), uniform(-1, 9, 7)
    for second in (torch.float32, torch.int16, torch.float64, torch.int64, torch.uint64):
        inputs = pair(edges, 1500, (first, second))
        words = count(inputs, edges, flow=True, offsets=(1, 2))
        is_ids = (first, second) == (torch.int64, torch.float32)
        kinds = {"same", "ids", "mixed", "wide", "simple"} & words
        assert len(kinds) == 1
        assert ("ids" in words) == is_ids
        assert ("simple" in words) == (torch.uint64 in (first, second) or is_mixture(first, second))


def is_mixture(a: torch.dtype, b: torch.dtype) -> bool:
    """Of float64 and integers of 64 bits, which float64 has not all of."""
    return {a, b} == {torch.float64, torch.int64}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64, torch.bool], ids=str)
def test_consecutive_integers(count: Count, dtype: torch.dtype) -> None:
    """One integer a bin, the last one with its upper edge or not, at the ends of a type, too."""
    x, y = random_values((3000,), dtype), random_values((3000,), dtype, 1)
    if dtype == torch.int64:
        x, y = x % 260 - 2, y % 260 - 2
        x[:3] = torch.tensor([-(2**63), 2**63 - 1, 0])
    if dtype == torch.uint8:
        x[:300], y[:300] = 255, 255
    for low, bins in (
        (0, 256),
        (0, 10),
        (1, 255),
        (-3, 9),
        (250, 8),
        (-128, 20),
        (-128, 256),
        (100, 1),
    ):
        for shift in (0.0, -0.5):
            edges = torch.arange(bins + 1).double() + low + shift
            for flow in (False, True):
                count([x, y], [edges, edges], flow=flow, gpu=LARGE)
                count([x, y], [edges.long() if shift == 0 else edges, uniform(0, 90, 3)], flow=flow)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_edges(count: Count, dtype: torch.dtype) -> None:
    """Found by lines, by comparisons and in buckets, on either axis."""
    generator = torch.Generator().manual_seed(0)
    several = [
        torch.linspace(-4, 4, 17, dtype=torch.float64),
        uniform(-3.7, 4.1, 29),
        torch.logspace(-4, 1, 30, dtype=torch.float64),
        torch.rand(40, dtype=torch.float64, generator=generator).sort().values * 8 - 4,
        torch.tensor([-1.0, -1, 0, 0, 0, 3]).double(),
        torch.tensor([0.0, 3, 2, 5]).double(),  # none
        torch.tensor([0.0, math.nan, 2, 5]).double(),
        torch.tensor([-math.inf, 0, math.inf]).double(),
    ]
    for first in several:
        for second in several[::3]:
            inputs = pair((first.nan_to_num(1), second), 1100, (dtype, dtype))
            for flow in (False, True):
                count(inputs, [first, second], flow=flow)
                count(inputs[::-1], [second, first.to(torch.float32)], flow=flow)


@pytest.mark.parametrize("gpu", FEW_SMS, ids=lambda gpu: gpu.name)
def test_blocks(count: Count, gpu: Device) -> None:
    """Several blocks of a channel, and channels one after another."""
    edges = uniform(-2, 2, 9), uniform(-2, 2, 12)
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 3, 70_001, generator=generator)
    words = count([x[0], y[0]], edges, offsets=(3, 1), gpu=gpu)
    assert ("chunks" in words) == (gpu.sm_count > 1)
    count([x, y], edges, (1,), gpu=gpu)
    own = torch.stack([edges[0] * scale for scale in (1.0, 0.5, 2.0)])
    count([x, y], [own, edges[1]], (1,), gpu=gpu, flow=True)


def test_runs(count: Count) -> None:
    """Rows of a channel with gaps between runs; a channel in several loops."""
    edges = uniform(-2, 2, 9), uniform(-2, 2, 12)
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 3, 4, 1300, generator=generator)
    words = count([x[..., :1201], y[..., 3:1204]], edges, (1, 2), gpu=ONE_SM)
    assert words == {"separate", "same", "table", "runs"}
    assert "runs" in count([x[..., :1201], y[..., :1201].half()], edges, (0, 2), flow=True)
    assert count([x[..., ::2], y[..., ::2]], edges, (1, 2)) == {"simple"}


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("dtype", FAST[:4], ids=str)
def test_coordinates_in_one_tensor(count: Count, dtype: torch.dtype, axes: int) -> None:
    edges = uniform(-3, 100, 9), uniform(-1, 9, 7), uniform(0, 50, 5)
    has_kernel = axes == 2 or dtype.itemsize >= 4
    for size in (1024, 1025, 1030, 2 * POLICY["kFewThreadsOfJoint"] * 8 + 3):
        for shift in (0, axes if dtype != torch.float16 else 0):
            columns = [numbers_about(e, (size,), dtype, d) for d, e in enumerate(edges[:axes])]
            sample = torch.stack([special(column) for column in columns], -1)
            for flow in (False, True):
                words = count(sample, edges[:axes], flow=flow, offsets=(shift,), gpu=ONE_SM)
                assert words == ({"interleaved", "same", "table"} if has_kernel else {"simple"}), (
                    shift
                )
    sample = torch.stack([numbers_about(edges[0], (3, 1200), dtype, d) for d in range(axes)], -1)
    count(sample, edges[:axes], (1,))
    count(sample[:, 1:], edges[:axes], (1,), flow=True)
    count(sample, edges[:axes], (0, 1), gpu=LARGE)


def test_three_coordinates(count: Count) -> None:
    edges = uniform(-3, 100, 9), uniform(-1, 9, 7), uniform(0, 50, 5)
    for dtypes in (
        [torch.float32] * 3,
        [torch.float64] * 3,
        [torch.float16, torch.uint8, torch.float32],
    ):
        inputs = [
            special(numbers_about(e, (3100,), dtype, d))
            for d, (e, dtype) in enumerate(zip(edges, dtypes, strict=True))
        ]
        for flow in (False, True):
            words = count(inputs, edges, flow=flow, offsets=(1, 0, 2))
            assert words >= {"separate", "table"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8], ids=str)
def test_halves_overflow(count: Count, dtype: torch.dtype) -> None:
    """Cells of 16 bits that hold more, alone and beside each other; constant and other data."""
    edges = torch.arange(61).double(), torch.arange(131).double()
    size = 300_000
    words = {"separate", "same", "halves"}
    x = torch.full((size,), 3)
    several = [torch.full((size,), 5), torch.arange(size) % 2 + 4, torch.arange(size) // 4 % 2 + 5]
    for y in several:
        found = count([x.to(dtype), y.to(dtype)], edges, gpu=SMALL, flow=y is several[1])
        assert found - {"chunks"} == words


@pytest.mark.parametrize("of_high", [65_535, 65_538])
def test_halves_carry(count: Count, of_high: int) -> None:
    """The low half of a word overflows into a high one that is full, or has overflowed before."""
    edges = torch.arange(61).double(), torch.arange(131).double()
    low, high, outside = 5, 6, -1  # an even slot, and the one behind it
    threads, packs = POLICY["kFewThreadsOfJoint"], 70
    # A thread takes all of its packs before the next one runs.
    y = torch.full((packs, threads, 4), outside, dtype=torch.int32)
    y[:, threads // 2 :, :3] = low
    first = y[:, : threads // 2, :3].flatten()
    first[:of_high] = high
    y[:, : threads // 2, :3] = first.view(packs, -1, 3)
    x = torch.full((y.numel(),), 3, dtype=torch.int32)
    one_sm = dataclasses.replace(SMALL, sm_count=1)
    assert (y == low).sum() > 1 << 16
    assert count([x, y.flatten()], edges, gpu=one_sm) == {"separate", "same", "halves"}


def test_halves(count: Count) -> None:
    edges = uniform(-3, 100, 60), uniform(-1, 9, 130)
    for i, gpu in enumerate((SMALL, dataclasses.replace(SMALL, sm_count=1, capability=(9, 0)))):
        inputs = pair(edges, 4001, (torch.float32, torch.bfloat16), i)
        assert "halves" in count(inputs, edges, gpu=gpu, offsets=(1, 3), flow=i == 0)
    x = numbers_about(edges[0], (3, 1200), torch.float32)
    y = numbers_about(edges[1], (3, 1200), torch.float32)
    assert "halves" in count([x, y], edges, (1,), gpu=SMALL)


@pytest.mark.parametrize("flow", [False, True])
def test_cells_are_written(count_eagerly: Count, flow: bool) -> None:
    """More cells than a table has: they are counted as integers are."""
    edges = uniform(-3, 100, 400), uniform(-1, 9, 301)
    words = {"separate", "same", "index"}
    for dtype, size in ((torch.float32, 70_003), (torch.bfloat16, 140_001)):
        inputs = pair(edges, size, (dtype, dtype))
        for offsets in ((0, 0), (1, 3)):
            found = count_eagerly(inputs, edges, flow=flow, offsets=offsets, gpu=LARGE)
            assert found - {"chunks"} == words
    bad = edges[0], edges[1].flip(0)
    count_eagerly(pair(edges, 70_003, (torch.float32,) * 2), bad, flow=flow, gpu=LARGE)
    sample = torch.stack(pair(edges, 70_001, (torch.float32,) * 2), -1)
    found = count_eagerly(sample, edges, flow=flow, offsets=(2,), gpu=LARGE)
    assert found - {"chunks"} == {"interleaved", "same", "index"}


def test_columns(count: Count, count_eagerly: Count) -> None:
    """Strides that no table takes: element by element, or counted as integers if they are many."""
    edges = uniform(-3, 100, 40), uniform(-1, 9, 30)
    x, y = (z.view(1000, 5) for z in pair(edges, 5000, (torch.float32, torch.bfloat16)))
    for call in (count, count_eagerly):
        for flow in (False, True):
            assert call([x, y], edges, (0,), flow=flow) == {"simple"}
        assert call([torch.ones_like(x), torch.ones_like(y)], edges, (0,)) == {"simple"}
