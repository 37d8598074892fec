"""Bins of one width: edges that are computed where values meet them count what stored edges count,
and are those of NumPy, bit for bit."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import oracle
import pytest
import torch
from conftest import ENVIRONMENT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import FLOATS, NUMBERS, assert_counts, random_values
from torch import Tensor

import torch_histo  # noqa: F401

pytestmark = pytest.mark.sampled(4)

TESTS = Path(__file__).parent
INF, NAN = math.inf, math.nan
TINY = 2.0**-149
MAX = torch.finfo(torch.float32).max

FLUSH = len(sys.argv) == 2 and sys.argv[1] == "flush"
"""Whether subnormal numbers would be flushed to 0, if the operator let them."""

Range = tuple[float, float] | None
Dim = Sequence[int] | None

RANGES = {
    "usual": (-4.0, 4.0),
    "odd": (-3.7, 4.1),
    "positive": (0.0, 1.0),
    "far": (1000.0, 1001.0),
    "farther": (1e6, 1e6 + 1),
    "negative": (-1e6 - 1, -1e6),
    "nearly exact": (-1.0, 8191.0),
    "neighbours": (1.0, 1.0 + 2**-23),
    "subnormal": (-3 * TINY, 150 * TINY),
    "barely normal": (-(2.0**-126), 2.0**-120),
    "small": (1e-36, 3e-36),
    "wide": (-1e38, 1e38),
    "widest": (-MAX, MAX),
    "wider": (-1e300, 1e300),
    "equal": (2.0, 2.0),
}
"""A range is also the extremes of values, where it is None."""

BINS = (1, 2, 10, 255, 256, 257, 2048, 5000, 70_000)


def extremes(values: Tensor, dim: Dim) -> tuple[Tensor, Tensor]:
    low, high = oracle.range_of(values, dim)
    # NumPy computes the edges of no elements in float64.
    return (low, high) if values.numel() > 0 else (low.double(), high.double())


def by_edges(values: Tensor, bins: int, of: Range, dim: Dim, flow: bool) -> tuple[Tensor, Tensor]:
    """The operators whose edges are stored, and searched."""
    narrow = values.dtype in FLOATS and values.dtype != torch.float64
    if of is None:
        ends = tuple(end.to(values.device) for end in extremes(values.cpu(), dim))
    else:
        ends = torch.tensor(of, dtype=torch.float64, device=values.device).unbind()
    dtype = torch.float32 if narrow else torch.float64
    edges = torch.ops.histo.uniform_edges(*ends, bins, dtype=dtype)
    return torch.ops.histo.histogram(values, edges, dim, flow=flow), edges


def check(values: Tensor, bins: int, of: Range, dim: Dim, flow: bool, about: object = "") -> None:
    torch.set_flush_denormal(FLUSH)
    hist, edges = torch.ops.histo._uniform_histogram(values, bins, of, dim, flow)
    alone = torch.ops.histo._edges_of(values, bins, of, dim)
    torch.set_flush_denormal(False)
    if of is not None and of[0] == of[1]:
        of = of[0] - 0.5, of[1] + 0.5
    counts, expected = by_edges(values, bins, of, dim, flow)
    about = (
        values.device,
        values.dtype,
        list(values.shape),
        values.stride(),
        bins,
        of,
        dim,
        flow,
        about,
    )
    same = edges == expected
    assert edges.dtype == expected.dtype, about
    assert edges.shape == expected.shape, about
    bits = torch.int32 if edges.dtype == torch.float32 else torch.int64
    assert torch.equal(alone.view(bits), edges.view(bits)), about
    assert bool((same | (edges.isnan() & expected.isnan())).all()), about
    assert_counts(hist, counts, about)


def values_at(edges: Tensor, dtype: torch.dtype, seed: int = 0) -> Tensor:
    """The edges, the numbers beside them, and others, in any order. All are finite."""
    generator = torch.Generator().manual_seed(seed)
    some = edges[torch.randint(len(edges), (400,), generator=generator)].double()
    exact = some.to(torch.float64 if dtype == torch.float64 else torch.float32)
    beside = [exact.nextafter(torch.tensor(end, dtype=exact.dtype)) for end in (-INF, INF)]
    inside = some + torch.rand(400, generator=generator) * (edges[-1] - edges[0]) / len(edges)
    numbers = torch.cat([exact, *beside, inside, edges[:1], edges[-1:]])
    if dtype in FLOATS:
        numbers = numbers.to(dtype)
        numbers = numbers[numbers.float().isfinite()]
    else:
        whole = torch.cat([numbers.floor(), numbers.ceil()])
        limits = torch.iinfo(dtype) if dtype != torch.bool else torch.iinfo(torch.uint8)
        numbers = whole.clamp(max(limits.min, -(2**62)), min(limits.max, 2**62)).to(dtype)
    return numbers[torch.randperm(len(numbers), generator=generator)]


def reversed_rows(values: Tensor) -> Tensor:
    backwards = torch.arange(len(values)).flip(0)  # float8 has no flip
    return values.cpu()[backwards].to(values.device)  # unsigned integers have no index on CUDA


def with_specials(values: Tensor) -> Tensor:
    if values.dtype not in FLOATS:
        return values
    special = torch.tensor(
        [NAN, -NAN, INF, -INF, 0.0, -0.0, TINY, -TINY, MAX, -MAX], device=values.device
    )
    return torch.cat([values.float(), special]).to(values.dtype)


def edge_cases(dtypes: Sequence[torch.dtype] = NUMBERS) -> Iterator[tuple[Any, ...]]:
    for name, (low, high) in RANGES.items():
        for bins in BINS:
            ends = torch.tensor([low, high], dtype=torch.float64)
            edges = torch.ops.histo.uniform_edges(*ends.unbind(), bins, dtype=torch.float64)
            for dtype in dtypes:
                yield values_at(edges, dtype), bins, (low, high), name


def check_edges(dtypes: Sequence[torch.dtype], some: int = 1, device: Any = "cpu") -> None:
    """Values at edges and beside them: many, which are counted in tables, and few.

    One of `some` cases is checked, an odd number, so that half of them are counted with flow."""
    for i, (values, bins, of, name) in enumerate(edge_cases(dtypes)):
        values = values.to(device)
        if i % some == 0:
            check(with_specials(values), bins, of, None, bool(i % 2), name)
            check(values, bins, None, None, bool(i % 2), name)
            check(values[:7], bins, of, None, bool(i % 2), name)
            if bins > 5000:
                continue  # stored edges of six channels take long
            # The range is found among values, and half of the channels have a usual one.
            columns = torch.stack([values, reversed_rows(values)] * 3, 1)
            usual = random_values((len(values), 3), values.dtype, low=-4, high=4)
            columns[:, 1::2] = usual.to(device)
            check(columns, bins, None, [0], bool(i % 2), name)
            check(columns.t().contiguous(), bins, None, [1], bool(i % 2), name)


LAYOUTS: list[tuple[tuple[int, ...], Dim]] = [
    ((700,), None),
    ((300, 17), [0]),
    ((17, 300), [1]),
    ((3, 40, 5, 7), [0, 2, 3]),
    ((3, 4, 5, 7), [2, 3]),
    ((4, 57, 9), [1]),
    ((4, 57, 9), [0, 2]),
    ((900, 49), [1]),
    ((49, 900), [0]),
    ((2000, 130), [0]),
    ((9, 5, 8), []),
    ((0, 5), [0]),
    ((5, 0), [0]),
]


def check_layouts(dtypes: Sequence[torch.dtype], device: Any = "cpu") -> None:
    for dtype in dtypes:
        for shape, dim in LAYOUTS:
            whole = random_values(shape, dtype, low=-5, high=9).to(device)
            by_columns = whole.transpose(0, -1).contiguous().transpose(0, -1)
            views = [reversed_rows(whole), by_columns, whole[1:], whole[..., ::2]]
            for bins in (10, 255, 256, 2048):
                for of in (None, (-4.0, 4.5)):
                    check(whole, bins, of, dim, False)
            for i, values in enumerate(views):
                small, large = ((-4.0, 4.5), None) if i % 2 else (None, (-4.0, 4.5))
                check(values, 10, small, dim, bool(i % 2))
                check(values, 256, large, dim, i < 2)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_values_at_edges(dtype: torch.dtype, device: torch.device) -> None:
    check_edges([dtype], 3 if dtype in FLOATS else 7, device)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_layouts(dtype: torch.dtype, device: torch.device) -> None:
    check_layouts([dtype], device)


LARGER: list[tuple[tuple[int, ...], Dim]] = [
    # One or few long channels; rows of an odd length; images, whose rows are short; columns.
    ((3_000_001,), None),
    ((7, 100_003), [1]),
    ((300, 11_008), [1]),
    ((301, 4097), [1]),
    ((3000, 1023), [1]),
    ((20_000, 49), [1]),
    ((3000, 196), [1]),
    ((40, 70, 14, 14), [0, 2, 3]),
    ((16, 64, 7, 7), [0, 2, 3]),
    ((32, 20, 56, 56), [0, 2, 3]),
    ((8, 5, 61, 63), [0, 2, 3]),
    ((4, 6, 200, 128), [0, 2]),
    ((4097, 512), [0]),
    ((8, 577, 64), [1]),
    ((6, 197, 768), [1]),
    ((6, 197, 768), [0, 1]),
    ((100_000, 11), [0]),
    ((70_001, 30), [0]),
    ((9000, 3, 5), [0, 2]),
    # Columns in runs of rows, long and short ones; columns of an odd number.
    ((5, 3, 1300, 33), [0, 2]),
    ((900, 2, 9, 40), [0, 2]),
    ((3000, 501), [0]),
    ((33, 500, 257), [1]),
]


@pytest.mark.parametrize(("shape", "dim"), LARGER, ids=str)
def test_larger_layouts(shape: tuple[int, ...], dim: Dim, device: torch.device) -> None:
    if device.type == "cpu":
        shape = (max(1, shape[0] // 16), *shape[1:])
    dtypes = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int16, torch.int64)
    for i, dtype in enumerate(dtypes):
        whole = random_values(shape, dtype, low=-5, high=9).to(device)
        shifted = whole.flatten()[1:][: whole[1:].numel()].view_as(whole[1:])  # not aligned
        for of, bins in ((None, (256, 2048)), ((-4.0, 4.5), (2048, 256))):
            check(whole, bins[0], of, dim, bool(i % 2))
            check(shifted, bins[1], of, dim, bool(i % 2))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("loops", ["portable", "avx2", "avx512"])
def test_every_instruction_set(loops: str) -> None:
    code = """
import torch
from test_uniform_histogram import *
floats = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
check_edges([*floats, torch.int64], 15)
check_layouts([torch.bfloat16])
"""
    variables = {"TORCH_HISTO_CPU": loops, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{TESTS}"}
    ran = subprocess.run(
        [sys.executable, "-c", code, "flush"],
        env={**ENVIRONMENT, **variables},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint64], ids=str)
@pytest.mark.parametrize("ends", [(2**53 - 300, 2**53 - 1), (2**53 - 300, 2**53 + 300), (-5, 9)])
def test_integers_that_float64_rounds(
    dtype: torch.dtype, ends: tuple[int, int], device: torch.device
) -> None:
    low, high = ends
    inside = [max(0, low), *range(max(0, low), high, 37), high]
    beyond = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**62 + 1]
    for numbers in (inside, inside + beyond):
        values = torch.tensor(numbers, device=device).to(dtype)
        for bins in (1, 7, 256, 599):
            check(values, bins, None, None, True)
            check(values, bins, (float(low), float(high)), None, True)


@pytest.mark.parametrize("of", [(NAN, 1.0), (NAN, NAN), (3.0, -1.0), (-INF, INF), (0.0, INF)])
def test_ranges_that_are_none(of: tuple[float, float]) -> None:
    for dtype in (torch.float32, torch.float64, torch.int32):
        values = with_specials(random_values((50,), dtype))
        with pytest.raises(RuntimeError, match=r"^histogram: range must be two finite numbers"):
            torch.ops.histo._uniform_histogram(values, 10, of, None, True)


def test_against_the_oracle(device: torch.device) -> None:
    """It knows nothing of the library, and its edges are those of np.linspace."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32):
        values = random_values((300, 40), dtype)
        low, high = extremes(values, [0])
        for bins in (10, 256, 2048):
            found = torch.ops.histo._uniform_histogram(values.to(device), bins, None, [0], True)
            hist, edges = (tensor.cpu() for tensor in found)
            assert torch.equal(edges, oracle.uniform_edges(low, high, bins, dtype=edges.dtype))
            assert_counts(hist, oracle.histogram(values, edges, 0, flow=True))


@pytest.mark.parametrize("threads", [2, 3])
def test_threads(threads: int) -> None:
    """The rows of a channel, and channels, are shared among threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for shape, dim in [((300_001,), None), ((3, 100_003), [1]), ((70_001, 5), [0])]:
            check(random_values(shape, torch.float32), 256, None, dim, False)
        check(random_values((5000, 49), torch.float32), 300, None, [1], False)
        check(random_values((49, 5000), torch.bfloat16), 256, None, [0], False)
    finally:
        torch.set_num_threads(before)


FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("far", [False, True])
def test_ranges_at_the_limit(dtype: torch.dtype, far: bool, device: torch.device) -> None:
    """A bin is about as wide as it must be for computed edges, and all edges meet values."""
    generator = torch.Generator().manual_seed(0)
    for bins in (1, 7, 256, 2048, 30_000):
        for _ in range(20):
            magnitude, part = torch.rand(2, generator=generator, dtype=torch.float64).tolist()
            least = 4 * torch.finfo(dtype).eps * (1 + magnitude)
            width = bins * least * (0.9 + part / 2)
            low = 1 + magnitude - (width if far else 0)
            both = torch.tensor([low, low + width], dtype=torch.float64)
            low, high = both.mul(-1 if part < 0.5 else 1).sort()[0]
            ends = torch.stack([low, high]).to(dtype)
            edges = torch.ops.histo.uniform_edges(*ends.unbind(), bins, dtype=dtype)
            beside = [edges.nextafter(torch.tensor(end, dtype=dtype)) for end in (-INF, INF)]
            values = torch.cat([edges, *beside, edges]).clamp(*ends.tolist()).to(device)
            check(values, bins, None, None, True)
            check(values.view(4, -1), bins, None, [1], False)
            check(values.view(4, -1), bins, (ends[0].item(), ends[1].item()), [1], False)


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    low=FLOAT32,
    width=st.one_of(st.floats(0, 1e6, width=32), st.floats(0, 2.0**-100, width=32), FLOAT32),
    bins=st.one_of(st.sampled_from(BINS[:-1]), st.integers(1, 3000)),
    dtype=st.sampled_from(FLOATS),
    own=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_range(
    device: torch.device,
    low: float,
    width: float,
    bins: int,
    dtype: torch.dtype,
    own: bool,
    seed: int,
) -> None:
    ends = torch.tensor([low, low + abs(width)], dtype=torch.float64)
    edges = torch.ops.histo.uniform_edges(*ends.unbind(), bins, dtype=torch.float64)
    values = values_at(edges, dtype, seed).to(device)
    of = None if own else (ends[0].item(), ends[1].item())
    check(values if own else with_specials(values), bins, of, None, bool(seed % 2))
    check(values[:50].view(2, -1) if len(values) >= 50 else values, bins, of, [-1], False)
