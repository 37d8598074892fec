"""Numbers of any type in any bins: the rule by examples, its edge cases, and what NumPy counts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layouts import VIEWS
from oracle import EDGE_DTYPES, FLOATS, NUMBERS, assert_counts, like, random_values
from torch import Tensor

import torch_histo

pytestmark = pytest.mark.sampled(3)

INF, NAN = math.inf, math.nan
MOST = 3.4028234663852886e38
"""The largest float32."""
TINY = 2.0**-149
"""The smallest subnormal float32."""


def count(values: Tensor, edges: Tensor, dim: Any = None, *, flow: bool = False) -> Tensor:
    """The operator, found when it is called."""
    counts: Tensor = torch.ops.histo.histogram(values, edges, dim, flow=flow)
    return counts


def assert_as_oracle(
    device: torch.device, values: Tensor, edges: Tensor, dim: Any = None, about: object = ""
) -> None:
    moved, bounds = like(values, device), like(edges, device)
    for flow in (True, False):
        expected = oracle.histogram(values, edges, dim, flow=flow)
        assert_counts(count(moved, bounds, dim, flow=flow), expected, about)


def of_numpy(numbers: list[int] | list[float], dtype: torch.dtype) -> Tensor:
    """Integers of any size as a tensor: torch.tensor takes no uint64 beyond int64."""
    return torch.from_numpy(np.array(numbers, dtype=str(dtype).removeprefix("torch.")))


# The rule


def test_bins_hold_their_lower_edge(device: torch.device) -> None:
    values = torch.tensor([1.0, 1.5, 2.0, 2.5, 3.0], device=device)
    edges = torch.tensor([1.0, 2.0, 3.0], device=device)
    # 1 and 1.5 are in [1, 2); 2, 2.5 and 3 in [2, 3]: the last bin is closed.
    assert count(values, edges).tolist() == [2, 3]


def test_flow_is_what_lies_in_no_bin(device: torch.device) -> None:
    values = torch.tensor([0.0, -INF, 1.0, 3.5, INF, NAN, 3.0], device=device)
    edges = torch.tensor([1.0, 2.0, 3.0], device=device)
    assert count(values, edges).tolist() == [1, 1]
    # Below all edges, the two bins, above all edges, not a number.
    assert count(values, edges, flow=True).tolist() == [2, 1, 1, 2, 1]


def test_numbers_are_compared_not_their_types(device: torch.device) -> None:
    """float32 has no 0.1: its nearest number is greater than the 0.1 of float64."""
    tenth = torch.tensor([0.1], dtype=torch.float32, device=device)
    edges = torch.tensor([0.0, 0.1, 1.0], dtype=torch.float64, device=device)
    assert count(tenth, edges).tolist() == [0, 1]
    below = torch.nextafter(tenth, torch.zeros_like(tenth))
    assert count(below, edges).tolist() == [1, 0]
    # 0.7 of float32 is less than that of float64.
    edges[1] = 0.7
    assert count(torch.full_like(tenth, 0.7), edges).tolist() == [1, 0]


def test_integers_and_edges_between_them(device: torch.device) -> None:
    values = torch.tensor([0, 1, 2, 3, 200], dtype=torch.uint8, device=device)
    edges = torch.tensor([0.5, 2.0, 199.5, 1000.0], device=device)
    assert count(values, edges, flow=True).tolist() == [1, 1, 2, 1, 0, 0]


def test_a_channel_has_edges_of_its_own(device: torch.device) -> None:
    values = torch.tensor([[0.0, 10.0], [0.5, 15.0], [1.0, 20.0]], device=device)
    edges = torch.tensor([[0.0, 0.5, 1.0], [0.0, 12.0, 20.0]], device=device)
    assert count(values, edges, 0).tolist() == [[1, 2], [1, 2]]
    assert count(values, edges[0], 0).tolist() == [[1, 2], [0, 0]]


def test_the_function(device: torch.device) -> None:
    values = torch.tensor([0.0, 1.0, 2.0, 4.0], device=device)
    result = torch_histo.histogram(values, 4)
    assert result.hist.tolist() == [1, 1, 1, 1]
    assert result.bin_edges.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    hist, bin_edges = torch_histo.histogram(values, 2, range=(0, 2))
    assert hist.tolist() == [1, 2]
    assert bin_edges.tolist() == [0.0, 1.0, 2.0]
    hist, bin_edges = torch_histo.histogram(values, torch.tensor([0.0, 3.0], device=device))
    assert hist.tolist() == [3]
    assert bin_edges.tolist() == [0.0, 3.0]


# Edge cases. Values, edges, and counts with flow.

CASES: dict[str, tuple[list[float], list[float], list[int]]] = {
    "no values": ([], [0, 1, 2], [0, 0, 0, 0, 0]),
    "one bin": ([-1, 0, 0.5, 1, 2], [0, 1], [1, 3, 1, 0]),
    "a bin of one number": ([0, 1, 1, 2], [1, 1], [1, 2, 1, 0]),
    "repeated edges": ([0, 1, 1, 2, 3], [0, 1, 1, 1, 2], [0, 1, 0, 0, 3, 1, 0]),
    "repeated first edge": ([0, 0, 1], [0, 0, 1], [0, 0, 3, 0, 0]),
    "repeated last edge": ([0, 1, 1, 2], [0, 1, 1], [0, 1, 2, 1, 0]),
    "all edges are one": ([0, 1, 2], [1, 1, 1, 1], [1, 0, 0, 1, 1, 0]),
    "all numbers": ([-INF, -1, 0, 1, INF, NAN], [-INF, 0, INF], [0, 2, 3, 0, 1]),
    "up to infinity": ([-1, 0, MOST, INF], [0, 1, INF], [1, 1, 2, 0, 0]),
    "from -infinity": ([-INF, -MOST, 0, 1, INF], [-INF, 0, 1], [0, 2, 2, 1, 0]),
    "between infinities": ([-INF, 0, INF, INF], [INF, INF], [2, 2, 0, 0]),
    "only -infinity": ([-INF, 0, INF], [-INF, -INF], [0, 1, 2, 0]),
    "edges decrease": ([0, 1, 2, NAN], [2, 1, 0], [0, 0, 0, 0, 1]),
    "edges decrease once": ([0, 1, 2, NAN], [0, 1, 0.5, 2], [0, 0, 0, 0, 0, 1]),
    "a NaN edge": ([0, 1, NAN, NAN], [0, NAN, 1], [0, 0, 0, 0, 2]),
    "a NaN edge first": ([0, 1, NAN], [NAN, 0, 1], [0, 0, 0, 0, 1]),
    "a NaN edge last": ([0, 1, NAN], [0, 1, NAN], [0, 0, 0, 0, 1]),
    "NaNs of both signs": ([NAN, -NAN, 0], [0, 1], [0, 1, 0, 2]),
    "zeros of both signs": ([0.0, -0.0], [-0.0, 1], [0, 2, 0, 0]),
    "an edge of -0": ([0.0, -0.0, -TINY], [-1, -0.0, 1], [0, 1, 2, 0, 0]),
    "an edge of +0": ([0.0, -0.0, -TINY], [-1, 0.0, 1], [0, 1, 2, 0, 0]),
    "-0 above +0": ([0.0, -0.0], [0.0, -0.0], [0, 2, 0, 0]),
    "subnormals": (
        [0, TINY, 2 * TINY, 3 * TINY, -TINY],
        [0, TINY, 3 * TINY],
        [1, 1, 3, 0, 0],
    ),
    "one step beside": (
        [1, 1 - 2.0**-24, 1 + 2.0**-23, 2, 2 - 2.0**-23, 2 + 2.0**-22],
        [0, 1, 2],
        [0, 1, 4, 1, 0],
    ),
    "the largest": ([MOST, -MOST, 0], [-MOST, 0, MOST], [0, 1, 2, 0, 0]),
}


@pytest.mark.parametrize("copies", [1, 3000])
@pytest.mark.parametrize("case", CASES)
def test_cases(device: torch.device, case: str, copies: int) -> None:
    numbers, bounds, expected = CASES[case]
    for dtype, edge_dtype in (
        (torch.float32, torch.float32),
        (torch.float32, torch.float64),
        (torch.float64, torch.float32),
        (torch.float64, torch.float64),
    ):
        values = torch.tensor(numbers, dtype=dtype).repeat(copies)
        edges = torch.tensor(bounds, dtype=edge_dtype)
        counts = torch.tensor(expected) * copies
        about = (dtype, edge_dtype)
        moved, moved_edges = values.to(device), edges.to(device)
        assert_counts(oracle.histogram(values, edges, flow=True), counts, about)
        assert_counts(count(moved, moved_edges, flow=True), counts, about)
        assert_counts(count(moved, moved_edges), counts[1:-2], about)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_cases_in_short_floats(device: torch.device, dtype: torch.dtype) -> None:
    for numbers, bounds, _ in CASES.values():
        values = torch.tensor(numbers, dtype=torch.float64).to(dtype)
        assert_as_oracle(device, values, torch.tensor(bounds), None, bounds)


@pytest.mark.parametrize("dim", [None, 0, -1, (), (0,)])
def test_a_number(device: torch.device, dim: Any) -> None:
    edges = torch.tensor([0.0, 1.0, 2.0], device=device)
    for number, expected in ((1.0, [0, 0, 1, 0, 0]), (NAN, [0, 0, 0, 0, 1])):
        counts = count(torch.tensor(number, device=device), edges, dim, flow=True)
        assert_counts(counts, torch.tensor(expected))


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((0,), 0),
        ((0,), None),
        ((3, 0), 1),
        ((3, 0), 0),
        ((0, 3), 0),
        ((0, 0), None),
        ((2, 0, 3), 1),
    ],
)
def test_no_elements(device: torch.device, shape: tuple[int, ...], dim: int | None) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.float8_e5m2):
        values = torch.empty(shape, dtype=dtype)
        assert_as_oracle(device, values, torch.tensor([0.0, 1.0, 2.0]), dim)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1e6, 1e6 + 64), (0.0, 3e38), (-3e38, 3e38), (0.0, 1e-40), (-3.0, 3.0), (1e-8, 7e-5)],
)
@pytest.mark.parametrize("num_bins", [1, 3, 255, 256, 2048])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_values_on_edges_and_beside_them(
    device: torch.device, dtype: torch.dtype, num_bins: int, low: float, high: float
) -> None:
    edges = torch.linspace(low, high, num_bins + 1, dtype=torch.float64)
    edges[-1] = high
    on = edges.to(dtype)
    infinity = torch.full_like(on, INF)
    values = torch.cat([on, torch.nextafter(on, infinity), torch.nextafter(on, -infinity)])
    inside = torch.rand(3000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.cat([values, (low + inside * (high - low)).to(dtype)])
    for edge_dtype in (torch.float32, torch.float64):
        assert_as_oracle(device, values, edges.to(edge_dtype).sort().values, None, edge_dtype)


@pytest.mark.parametrize("power", [24, 53, 63])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint32, torch.uint64], ids=str)
def test_integers_that_float_types_do_not_have(
    device: torch.device, dtype: torch.dtype, power: int
) -> None:
    """An integer is not rounded to meet an edge: 2^53 + 1 is above the edge 2^53."""
    limits = torch.iinfo(dtype)
    numbers = [sign * (1 << power) + k for sign in (1, -1) for k in range(-2000, 2001)]
    numbers = [n for n in [*numbers, limits.min, limits.max] if limits.min <= n <= limits.max]
    values = of_numpy(numbers, dtype)
    near = [0.0, 2.0**power - 1, 2.0**power, 2.0**power + 1, 2.0**power + 3, 2.0**64]
    edges = torch.tensor(near, dtype=torch.float64)
    assert_as_oracle(device, values, edges, None, "float64")
    assert_as_oracle(device, values, -edges.flip(0), None, "-float64")
    assert_as_oracle(device, values, edges.float(), None, "float32")
    for edge_dtype in EDGE_DTYPES[2:]:
        most = torch.iinfo(edge_dtype).max
        whole = [n for n in (0, (1 << power) - 1, 1 << power, (1 << power) + 1) if n <= most]
        assert_as_oracle(device, values, of_numpy([*whole, most], edge_dtype), None, edge_dtype)


def test_two_integers_that_float64_cannot_tell_apart(device: torch.device) -> None:
    values = torch.tensor([(1 << 53) - 1, 1 << 53, (1 << 53) + 1], device=device)
    edges = torch.tensor([0.0, 2.0**53], dtype=torch.float64, device=device)
    assert count(values, edges, flow=True).tolist() == [0, 2, 1, 0]
    values = torch.tensor([2.0**53], dtype=torch.float64, device=device)
    edges = torch.tensor([0, (1 << 53) + 1, (1 << 53) + 2], device=device)
    assert count(values, edges).tolist() == [1, 0]


def test_uint64_beyond_int64(device: torch.device) -> None:
    numbers = [0, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]
    values = of_numpy(numbers, torch.uint64).to(device)
    edges = torch.tensor([0.0, 2.0**63, 2.0**64], dtype=torch.float64, device=device)
    assert count(values, edges, flow=True).tolist() == [0, 2, 3, 0, 0]
    edges = of_numpy([1, (1 << 63) + 1, (1 << 64) - 1], torch.uint64).to(device)
    assert count(values, edges, flow=True).tolist() == [1, 2, 2, 0, 0]
    assert count(torch.tensor([-1, 5], device=device), edges, flow=True).tolist() == [1, 1, 0, 0, 0]


def test_any_nonzero_byte_is_true(device: torch.device) -> None:
    values = torch.tensor([0, 1, 2, 255, 128, 0], dtype=torch.uint8).view(torch.bool).to(device)
    edges = torch.tensor([0.0, 0.5, 1.0], device=device)
    assert count(values, edges, flow=True).tolist() == [0, 2, 4, 0, 0]


def test_edges_that_the_type_does_not_have(device: torch.device) -> None:
    """A uint8 never reaches 300, and a float8_e4m3fn never infinity."""
    edges = torch.tensor([-INF, -300.0, 255.5, 300.0, INF])
    for dtype in NUMBERS:
        assert_as_oracle(device, random_values((500,), dtype), edges, None, dtype)


@pytest.mark.usefixtures("flush_denormal")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_subnormals_are_numbers_in_every_mode(device: torch.device, dtype: torch.dtype) -> None:
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    # 0, the three smallest numbers above it and the smallest below it.
    values = torch.tensor([0, 1, 2, 3], dtype=bits)
    values = torch.cat([values, torch.tensor([1], dtype=bits) + torch.iinfo(bits).min])
    values = values.view(dtype).repeat(1000).to(device)
    edge_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    # The edge is the second smallest number.
    wide = torch.int64 if dtype == torch.float64 else torch.int32
    step = {torch.float16: 0x34000000, torch.bfloat16: 2 << 16}.get(dtype, 2)
    edges = torch.tensor([0, step, 0x3F800000 if wide == torch.int32 else 0x3FF << 52], dtype=wide)
    counts = count(values, edges.view(edge_dtype).to(device), flow=True)
    assert counts.tolist() == [1000, 2000, 2000, 0, 0]


@pytest.mark.usefixtures("flush_denormal")
@pytest.mark.xfail(reason="torch compares the extremes, in its mode", strict=True)
def test_a_subnormal_range_in_flush_to_zero_mode() -> None:
    edges = torch_histo.histogram(torch.tensor([0.0, 4 * TINY]), 2).bin_edges
    assert (edges.view(torch.int32) == torch.tensor([0, 2, 4], dtype=torch.int32)).all()


# Types, dimensions and views, against the oracle


@pytest.mark.parametrize("edge_dtype", EDGE_DTYPES, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types(device: torch.device, dtype: torch.dtype, edge_dtype: torch.dtype) -> None:
    values = random_values((701, 5), dtype)
    numbers = np.random.default_rng(0).uniform(-30, 270, 40)
    if not edge_dtype.is_floating_point:
        limits = torch.iinfo(edge_dtype)
        numbers = numbers.clip(max(limits.min, -30), min(limits.max, 270)).round()
    edges = of_numpy(np.sort(numbers).tolist(), edge_dtype)
    assert_as_oracle(device, values, edges, 0, "few bins")
    assert_as_oracle(device, values, edges, None, "all")
    own = torch.from_numpy(np.sort(edges.numpy()[:35].reshape(5, 7), -1))
    assert_as_oracle(device, values, own, 0, "of a channel each")


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.int32], ids=str
)
@pytest.mark.parametrize("num_bins", [1, 2, 255, 256, 257, 2048, 4097, 70_000, 1 << 20])
def test_bins(device: torch.device, dtype: torch.dtype, num_bins: int) -> None:
    values = random_values((30_001,), dtype)
    assert_as_oracle(device, values, torch.linspace(-20, 260, num_bins + 1), None, "uniform")
    edges = torch.rand(num_bins + 1, generator=torch.Generator().manual_seed(1)).sort().values
    assert_as_oracle(device, values, edges * 256, None, "random")


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_large_of_every_type(device: torch.device, dtype: torch.dtype) -> None:
    values = random_values((9_001, 67), dtype)
    assert_as_oracle(device, values, torch.linspace(-20, 260, 101), 0, "columns")
    assert_as_oracle(device, values, torch.linspace(-20, 260, 2049), None, "all")
    logarithmic = torch.logspace(-6, 3, 300, dtype=torch.float64)
    assert_as_oracle(device, values, logarithmic, None, "logarithmic")


@pytest.mark.parametrize("data", ["constant", "sorted", "half zeros", "NaN"])
def test_large_of_one_kind(device: torch.device, data: str) -> None:
    normal = torch.randn(300_000, generator=torch.Generator().manual_seed(0))
    values = {
        "constant": torch.full_like(normal, 0.5),
        "sorted": normal.sort().values,
        "half zeros": normal.relu(),
        "NaN": torch.where(normal > 1, NAN, normal),
    }[data]
    for num_bins in (256, 2048):
        edges = torch.linspace(-3, 3, num_bins + 1)
        assert_as_oracle(device, values, edges, None, num_bins)
        assert_as_oracle(device, values.view(-1, 60), edges, 0, num_bins)


@pytest.mark.parametrize("length", [65534, 65535, 65536, 65537, 131_071])
def test_counts_around_16_bits(device: torch.device, length: int) -> None:
    edges = torch.tensor([0.0, 1.0, 2.0], device=device)
    values = torch.ones(length, 3, device=device)
    values[-1] = 0
    assert count(values, edges, 0).tolist() == [[1, length - 1]] * 3
    assert count(torch.full_like(values, NAN), edges, 0, flow=True)[:, -1].tolist() == [length] * 3


@pytest.mark.long
@pytest.mark.parametrize("dim", [None, 1])
def test_more_elements_than_32_bits_count(device: torch.device, dim: int | None) -> None:
    """They share memory: a row of ones, and one of NaNs."""
    length = (1 << 31) + 7
    values = torch.tensor([[1.0], [NAN]], device=device).expand(2, length)
    counts = count(values, torch.tensor([0.0, 1.0, 2.0], device=device), dim, flow=True)
    expected = [[0, 0, length, 0, 0], [0, 0, 0, 0, length]]
    assert counts.tolist() == (expected if dim == 1 else [0, 0, length, 0, length])


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((6,), 0),
        ((6,), -1),
        ((6,), ()),
        ((6,), None),
        ((5, 7), 1),
        ((5, 7), -2),
        ((5, 7), [0, 1]),
        ((5, 7), ()),
        ((5, 7), None),
        ((2, 3, 8, 9), (2, 3)),
        ((2, 3, 8, 9), (-1, -2)),
        ((2, 3, 8, 9), (0, 2, 3)),
        ((2, 3, 8, 9), 1),
        ((2, 3, 8, 9), (3, 0)),
        ((2, 3, 4, 5, 6), (1, 3)),
        ((2, 3, 2, 3, 2, 3), (0, 2, 4)),
        ((1, 4, 1), 1),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
def test_dims(device: torch.device, shape: tuple[int, ...], dim: Any, dtype: torch.dtype) -> None:
    values = random_values(shape, dtype, high=12, low=-2)
    assert_as_oracle(device, values, torch.tensor([0.0, 1.5, 3, 7, 10]), dim, "shared")
    kept = oracle.histogram(values, torch.tensor([0.0, 1.0]), dim).shape[:-1]
    own = torch.rand(*kept, 6, generator=torch.Generator().manual_seed(0)).sort(-1).values * 12
    assert_as_oracle(device, values, own, dim, "a channel each")
    for d in range(len(kept)):
        assert_as_oracle(device, values, own[(slice(None),) * d + (slice(0, 1),)], dim, d)
    if kept:
        assert_as_oracle(device, values, own[0], dim, "fewer dimensions")


def test_channels_whose_edges_are_wrong(device: torch.device) -> None:
    """They count nothing but their NaNs; their neighbours are as ever."""
    values = random_values((3000, 5), torch.float32)
    edges = torch.linspace(0, 255, 101).repeat(5, 1)
    edges[1] = edges[1].flip(0)
    edges[2, 50] = NAN
    edges[3, [10, 11]] = edges[3, [11, 10]]
    assert_as_oracle(device, values, edges, 0)
    counts = count(values.to(device), edges.to(device), 0)
    assert counts[1:4].sum() == 0
    assert counts[[0, 4]].sum() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float8_e5m2, torch.int64])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("dim", [0, 1, None])
def test_views(device: torch.device, dtype: torch.dtype, view: Any, dim: int | None) -> None:
    values = view(random_values((64, 70, 5), dtype))
    assert_as_oracle(device, values, torch.linspace(0, 255, 65), dim)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_views_of_edges(device: torch.device, view: Any) -> None:
    edges = view(torch.linspace(-5, 20, 64 * 70 * 5).view(64, 70, 5))
    sizes = edges.shape[:-1]
    values = random_values((*sizes, 30), torch.float32, low=-10, high=25)
    assert_as_oracle(device, values, edges, -1)


def test_a_view_that_negates(device: torch.device) -> None:
    values = torch.tensor([0.5, -0.5, -1.5, 1.5, -2.0], device=device)
    edges = torch.tensor([0.0, 1.0, 2.0], device=device)
    assert count(torch._neg_view(values), edges, flow=True).tolist() == [2, 1, 2, 0, 0]
    assert count(values, torch._neg_view(-edges), flow=True).tolist() == [3, 1, 1, 0, 0]


@pytest.mark.parametrize("offset", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
def test_any_address(device: torch.device, dtype: torch.dtype, offset: int) -> None:
    values = random_values((50_008,), dtype)[offset : offset + 49_999]
    edges = torch.linspace(-10, 255, 102)[1:]
    assert_as_oracle(device, values, edges)
    assert_as_oracle(device, values[:49_980].view(-1, 51), edges, 0)


def test_input_and_edges_are_left_alone(device: torch.device) -> None:
    values, edges = random_values((300, 7), torch.float32), torch.linspace(0, 200, 50)
    moved, bounds = values.to(device), edges.to(device)
    count(moved, bounds, 0)
    assert torch.equal(moved.cpu().view(torch.int32), values.view(torch.int32))
    assert torch.equal(bounds.cpu(), edges)


def test_the_same_bits_for_any_number_of_threads() -> None:
    before = torch.get_num_threads()
    line = random_values((1 << 18,), torch.float32)
    columns = line.view(1 << 13, 32)
    many, bytes_ = torch.linspace(0, 255, 1001), torch.linspace(9, 90, 257)
    cases = [
        (line, many, None, True),
        (line, bytes_, None, False),
        (line[: 9 * 29000].view(29000, 9)[:, :8], bytes_, None, False),  # short rows with gaps
        (columns, bytes_, 0, False),
        (columns, bytes_ + torch.arange(32)[:, None], 0, False),
        (columns[:200], bytes_, 0, False),
    ]
    expected = [oracle.histogram(x, edges, dim, flow=flow) for x, edges, dim, flow in cases]
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            for counts, (x, edges, dim, flow) in zip(expected, cases, strict=True):
                assert_counts(count(x, edges, dim, flow=flow), counts, (threads, x.shape))
    finally:
        torch.set_num_threads(before)


# finite_range and uniform_edges


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 2), -1])
def test_finite_range(device: torch.device, dtype: torch.dtype, dim: Any) -> None:
    for shape in ((9, 4, 5), (300, 3, 70), (0, 2, 3), (3, 0, 3)):
        values = random_values(shape, dtype)
        got = torch.ops.histo.finite_range(values.to(device), dim)
        for end, expected in zip(got, oracle.finite_range(values, dim), strict=True):
            assert end.dtype == expected.dtype
            assert end.shape == expected.shape
            assert torch.equal(end.cpu(), expected)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_finite_range_of_columns_with_gaps(device: torch.device, dtype: torch.dtype) -> None:
    """Columns around 32 bytes and 128 of them, and rows around 128: short rows are copied."""
    for rows in (1, 3, 127, 128, 129, 260):
        for columns in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, 300):
            values = like(random_values((rows, 3 * columns + 1), dtype, rows), device)
            views = [values[:, 1 : columns + 1], values[:, 1::3], values[:, :-1:2][:, :columns]]
            views += [values.t()[: 2 * columns : 2].t(), values[::2, 2::3]]
            views.append(values[:, : 3 * columns].view(rows, 3, columns)[:, :2])
            for view in views:
                got = torch.ops.histo.finite_range(view, 0)
                for end, expected in zip(got, oracle.finite_range(view.cpu(), 0), strict=True):
                    assert torch.equal(end.cpu(), expected), (view.shape, view.stride())


def test_finite_range_of_nothing_finite(device: torch.device) -> None:
    values = torch.tensor([[NAN, 1.0, -INF], [INF, NAN, -2.0]], device=device)
    low, high = torch.ops.histo.finite_range(values, 0)
    assert low.tolist() == [INF, 1.0, -2.0]
    assert high.tolist() == [-INF, 1.0, -2.0]
    low, high = torch.ops.histo.finite_range(torch.empty(0, device=device))
    assert (low.item(), high.item()) == (INF, -INF)
    low, high = torch.ops.histo.finite_range(torch.empty(0, dtype=torch.int32, device=device))
    assert (low.item(), high.item()) == (INF, -INF)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint64], ids=str)
def test_finite_range_loses_no_integer(device: torch.device, dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    near = [sign * (1 << power) + k for power in (53, 54, 60, 62, 63) for sign in (1, -1)
            for k in (-3, -1, 0, 1, 3)]  # fmt: skip
    for number in [n for n in [*near, limits.min, limits.max] if limits.min <= n <= limits.max]:
        values = of_numpy([number], dtype)
        low, high = torch.ops.histo.finite_range(values.to(device))
        assert (low.item(), high.item()) == tuple(e.item() for e in oracle.finite_range(values))
        hist, _ = torch_histo.histogram(values.to(device), 3)
        assert hist.sum() == 1, number


def test_finite_range_of_subnormals(device: torch.device) -> None:
    values = torch.tensor([TINY, -3 * TINY, 2 * TINY], device=device)
    low, high = torch.ops.histo.finite_range(values)
    assert (low.item(), high.item()) == (-3 * TINY, 2 * TINY)


RANGES = [(0.0, 1.0), (-3.0, 3.0), (0.1, 0.7), (1e6, 1e6 + 64), (-1e-3, 1e9), (0.0, 3e38)]


@pytest.mark.parametrize("num_bins", [1, 2, 3, 7, 10, 100, 256, 2049, 100_000])
@pytest.mark.parametrize("of_range", [torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_edges(
    device: torch.device, num_bins: int, of_range: torch.dtype, dtype: torch.dtype
) -> None:
    low, high = torch.tensor(RANGES, dtype=of_range).t()
    on_device = low.to(device), high.to(device), num_bins
    edges = torch.ops.histo.uniform_edges(*on_device, dtype=dtype)
    by_flag = torch.ops.histo.uniform_edges(*on_device, in_float32=dtype == torch.float32)
    assert by_flag.dtype == dtype
    assert torch.equal(by_flag.nan_to_num(), edges.nan_to_num())
    expected = oracle.uniform_edges(low, high, num_bins, dtype=dtype)
    assert (edges.dtype, edges.shape) == (dtype, (len(RANGES), num_bins + 1))
    assert torch.equal(edges.cpu(), expected)
    for start, stop, own in zip(low, high, edges.cpu(), strict=True):
        one = torch.ops.histo.uniform_edges(
            start.to(device), stop.to(device), num_bins, dtype=dtype
        )
        assert torch.equal(one.cpu(), own)


@pytest.mark.parametrize("of_range", [torch.float32, torch.float64])
def test_uniform_edges_of_random_ranges(device: torch.device, of_range: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    ends = torch.randn(400, 2, generator=generator, dtype=torch.float64)
    ends *= 10.0 ** torch.randint(-20, 20, (400, 1), generator=generator)
    low, high = ends.sort(1).values.to(of_range).t()
    for num_bins in (3, 10, 77, 256, 1000):
        for dtype in (torch.float32, torch.float64):
            edges = torch.ops.histo.uniform_edges(
                low.to(device), high.to(device), num_bins, dtype=dtype
            )
            expected = oracle.uniform_edges(low, high, num_bins, dtype=dtype)
            assert torch.equal(edges.cpu(), expected)


def test_uniform_edges_broadcast(device: torch.device) -> None:
    low, high = torch.tensor([[0.0], [-1.0]]), torch.tensor([1.0, 2.0, 0.0])
    expected = oracle.uniform_edges(low, high, 10, dtype=torch.float32)
    edges = torch.ops.histo.uniform_edges(low.to(device), high.to(device), 10, dtype=torch.float32)
    assert torch.equal(edges.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_edges_of_odd_ranges(device: torch.device, dtype: torch.dtype) -> None:
    """Never decreasing, from the lowest to the highest, whatever the range."""
    most, least = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal
    smallest = TINY if dtype == torch.float32 else 5e-324
    ranges = [
        (-most, most),
        (most / 2, most),
        (0.0, least),
        (0.0, smallest),
        (-smallest, 2 * smallest),
        (least, 1.5 * least),
        (1.0, 1.0),
        (0.0, 0.0),
        (1.0, math.nextafter(1.0, 2) if dtype == torch.float64 else 1 + 2.0**-23),
    ]
    low, high = torch.tensor(ranges, dtype=torch.float64).to(dtype).t()
    for num_bins in (1, 2, 3, 10, 257, 1000):
        edges = torch.ops.histo.uniform_edges(
            low.to(device), high.to(device), num_bins, dtype=dtype
        ).cpu()
        assert bool(edges.isfinite().all()), num_bins
        assert bool((edges.diff() >= 0).all()), num_bins
        assert torch.equal(edges[:, 0], low)
        assert torch.equal(edges[:, -1], high)
        # Nowhere far from where it belongs.
        share = torch.arange(num_bins + 1, dtype=torch.float64) / num_bins
        wide = low.double().div(4)[:, None] * (1 - share) + high.double().div(4)[:, None] * share
        width = (high.double() / 4 - low.double() / 4)[:, None]
        scale = torch.maximum(low.abs(), high.abs()).double()[:, None] / 4
        room = 4 * torch.finfo(dtype).eps * (width + scale) + smallest
        room = room + smallest * num_bins * share / 2  # a subnormal step is rounded, too
        assert bool(((edges.double() / 4 - wide).abs() <= room).all()), num_bins


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_subnormal_steps_as_numpy(device: torch.device, dtype: torch.dtype) -> None:
    """A step is rounded to the subnormal numbers, and with it the edges."""
    smallest = TINY if dtype == torch.float32 else 5e-324
    normal = torch.finfo(dtype).smallest_normal
    chance = np.random.default_rng(0)
    returned = 0
    for bins in (2, 3, 10, 37, 100, 256, 4097):
        for unit in (smallest, normal):
            for _ in range(20):
                ends = chance.integers(-5000, 5000, 2) * unit
                values = torch.from_numpy(ends).to(dtype)
                try:
                    edges = np.histogram_bin_edges(values.numpy(), bins)
                except ValueError:  # too many bins for NumPy
                    continue
                returned += 1
                low, high = values.to(device).aminmax()
                got = torch.ops.histo.uniform_edges(low, high, bins, dtype=dtype)
                assert got.cpu().numpy().tobytes() == edges.tobytes(), (values, bins)
    assert returned > 100


def test_as_many_float32_bins_as_numpy_takes(device: torch.device) -> None:
    values, bins = torch.tensor([-1.0, 1e-10]), (1 << 24) + 1
    edges = np.histogram_bin_edges(values.numpy(), bins)
    got = torch.ops.histo.uniform_edges(*values.to(device), bins, dtype=torch.float32)
    assert got.cpu().numpy().tobytes() == edges.tobytes()


def test_more_float32_bins_than_float32_counts(device: torch.device) -> None:
    num_bins = (1 << 24) + 3
    low, high = torch.tensor(0.0, device=device), torch.tensor(1.0, device=device)
    edges = torch.ops.histo.uniform_edges(low, high, num_bins, dtype=torch.float32)
    assert (edges[0].item(), edges[-1].item()) == (0, 1)
    assert bool((edges.diff() >= 0).all())
    share = torch.arange(num_bins + 1, device=device, dtype=torch.float64) / num_bins
    assert float((edges.double() - share).abs().max()) < 2.0**-22


# The function, as np.histogram and torch.histogram


def assert_as_numpy(
    device: torch.device, values: Tensor, bins: int, numpy_range: Any, range_: Any
) -> None:
    """Counts and edges, bit for bit, where NumPy returns a result."""
    try:
        hist, edges = np.histogram(values.numpy(), bins, numpy_range)
    except ValueError:  # too many bins for NumPy
        return
    got = torch_histo.histogram(values.to(device), bins, range=range_)
    about = (values.dtype, bins, numpy_range)
    assert got.bin_edges.dtype == torch.from_numpy(edges).dtype, about
    assert got.bin_edges.cpu().numpy().tobytes() == edges.tobytes(), about
    assert_counts(got.hist, torch.from_numpy(hist), about)


NUMPY_TYPES = (torch.float32, torch.float64, torch.uint8, torch.int32, torch.int64, torch.uint16)


@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=str)
@pytest.mark.parametrize("bins", [1, 2, 10, 100, 255, 256, 2048])
def test_as_numpy(device: torch.device, dtype: torch.dtype, bins: int) -> None:
    reals = np.random.default_rng(bins).normal(100, 80, 3000)
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        reals = reals.clip(max(limits.min, -1000), min(limits.max, 1000)).round()
    values = of_numpy(reals.tolist(), dtype)
    for range_ in ((0, 200), (0.1, 99.7), (-50, 1e6), (3, 3), (5000, 6000)):
        assert_as_numpy(device, values, bins, range_, range_)
        # NumPy has edges of another type for the other pairs.
        kinds = {torch.float32: [np.float32], torch.uint8: [np.float64], torch.uint16: [np.float64]}
        for kind in kinds.get(dtype, [np.float32, np.float64]):
            ends = tuple(kind(end) for end in range_)
            tensors = tuple(torch.from_numpy(np.asarray(end)).to(device) for end in ends)
            assert_as_numpy(device, values, bins, ends, tensors)
    assert_as_numpy(device, values, bins, None, None)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_range_of_numbers_of_numpy(device: torch.device, kind: type[np.floating]) -> None:
    values = torch.randn(3000, generator=torch.Generator().manual_seed(0))
    for low, high in ((-1, 1), (0.1, 0.7), (-2.3, 2.9)):
        range_ = (kind(low), kind(high))
        if kind == np.float32:  # else NumPy has edges of float64
            assert_as_numpy(device, values, 100, range_, range_)
        assert_as_numpy(device, values.double(), 100, range_, range_)


@pytest.mark.parametrize("numbers", [[], [1.5], [2.0, 2.0], [0.0], [-0.0, 0.0], [1.0, 2.0]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_numpy_of_few_values(
    device: torch.device, numbers: list[float], dtype: torch.dtype
) -> None:
    for bins in (1, 4, 10):
        assert_as_numpy(device, torch.tensor(numbers, dtype=dtype), bins, None, None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_numpy_on_its_own_edges(device: torch.device, dtype: torch.dtype) -> None:
    """The values are NumPy's edges and their neighbours."""
    for low, high in ((0.0, 1.0), (-3.7, 3.7), (0.1, 0.7), (1e3, 1e3 + 64)):
        for bins in (7, 100, 255):
            name = str(dtype).removeprefix("torch.")
            edges = np.histogram_bin_edges(np.empty(0, name), bins, (low, high))
            beside = [np.nextafter(edges, end, dtype=name) for end in (-INF, INF)]
            values = torch.from_numpy(np.concatenate([edges, *beside]))
            assert_as_numpy(device, values, bins, (low, high), (low, high))
            assert_as_numpy(device, values, bins, None, None)


@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=str)
def test_as_numpy_with_edges(device: torch.device, dtype: torch.dtype) -> None:
    values = random_values((4000,), dtype)
    if dtype.is_floating_point:
        values = values.nan_to_num(0, 1e30, -1e30)
    for edges in ([0, 1, 1, 5, 100], np.geomspace(1e-3, 1e3, 70), [-INF, 0, INF]):
        bounds = np.asarray(edges, dtype=float)
        hist, kept = np.histogram(values.numpy(), bounds)
        got = torch_histo.histogram(values.to(device), torch.from_numpy(bounds).to(device))
        if dtype != torch.int64:  # which NumPy rounds to float64
            assert_counts(got.hist, torch.from_numpy(hist))
        assert got.bin_edges.cpu().numpy().tobytes() == kept.tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_torch_histogram(device: torch.device, dtype: torch.dtype) -> None:
    values = torch.randn(5000, generator=torch.Generator().manual_seed(0), dtype=dtype)
    for edges in (
        torch.histogram(values, 100).bin_edges,
        torch.histogram(values, 77, range=(-1.0, 2.0)).bin_edges,
        values[:300].sort().values,
        torch.tensor([-INF, -1.0, 0.0, 0.5, 0.5, INF], dtype=dtype),
    ):
        by_torch = torch.histogram(values, edges)
        got = torch_histo.histogram(values.to(device), edges.to(device))
        assert_counts(got.hist, by_torch.hist.long())
        assert torch.equal(got.bin_edges.cpu(), edges)


def test_named_as_torch_histogram(device: torch.device) -> None:
    values = torch.tensor([1.0, 2.0], device=device)
    result = torch_histo.histogram(values, 2)
    assert result._fields == ("hist", "bin_edges")
    assert result.hist is result[0]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_range_of_the_data(device: torch.device, dtype: torch.dtype) -> None:
    """Every finite value is in a bin, in each channel; the edges say where."""
    values = random_values((300, 5), dtype)
    got = torch_histo.histogram(values.to(device), 17, dim=0)
    narrow = dtype.is_floating_point and dtype != torch.float64
    assert got.bin_edges.dtype == (torch.float32 if narrow else torch.float64)
    assert got.bin_edges.shape == (5, 18)
    assert_counts(got.hist, oracle.histogram(values, got.bin_edges.cpu(), 0))
    reals = values.double() if dtype.is_floating_point else None
    finite = 300 if reals is None else reals.isfinite().sum(0).tolist()
    assert got.hist.sum(1).tolist() == ([300] * 5 if reals is None else finite)
    low, high = oracle.finite_range(values, 0)
    differ = low != high
    assert torch.equal(got.bin_edges[:, 0].cpu()[differ], low[differ])
    assert torch.equal(got.bin_edges[:, -1].cpu()[differ], high[differ])


def test_range_of_channels_without_one(device: torch.device) -> None:
    """One value gets half a unit on both sides; no finite value gets 0 to 1."""
    values = torch.tensor([[3.0, NAN, 1.0, -INF], [3.0, NAN, 2.0, INF]], device=device)
    got = torch_histo.histogram(values, 2, dim=0, flow=True)
    assert got.bin_edges.tolist() == [[2.5, 3, 3.5], [0, 0.5, 1], [1, 1.5, 2], [0, 0.5, 1]]
    assert got.hist.tolist() == [
        [0, 0, 2, 0, 0],
        [0, 0, 0, 0, 2],
        [0, 1, 1, 0, 0],
        [1, 0, 0, 1, 0],
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.float64])
def test_ranges_of_channels(device: torch.device, dtype: torch.dtype) -> None:
    values = random_values((400, 3), dtype)
    low, high = torch.tensor([0.0, 10.0, -5.0]), torch.tensor([100.0, 11.0, 300.0])
    got = torch_histo.histogram(
        values.to(device), 50, range=(low.to(device), high.to(device)), dim=0, flow=True
    )
    wide = torch.float64 if dtype in (torch.float64, torch.uint8) else torch.float32
    edges = oracle.uniform_edges(low, high, 50, dtype=wide)
    assert torch.equal(got.bin_edges.cpu(), edges)
    assert_counts(got.hist, oracle.histogram(values, edges, 0, flow=True))


@pytest.mark.parametrize("dim", [None, 0, 1, (0, 2), -1])
def test_edges_of_the_function(device: torch.device, dim: Any) -> None:
    values = random_values((30, 4, 5), torch.float32)
    edges = torch.linspace(0, 255, 33)
    got = torch_histo.histogram(values.to(device), edges.to(device), dim=dim, flow=True)
    assert_counts(got.hist, oracle.histogram(values, edges, dim, flow=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_density(device: torch.device, dtype: torch.dtype) -> None:
    values = random_values((3000,), dtype)
    edges = torch.tensor([0.0, 1.0, 10.0, 100.0, 255.0])
    got = torch_histo.histogram(values.to(device), edges.to(device), density=True)
    known = values.numpy()[~np.isnan(values.numpy())] if dtype.is_floating_point else values.numpy()
    expected, _ = np.histogram(known, edges.numpy(), density=True)
    assert got.hist.is_floating_point()
    torch.testing.assert_close(
        got.hist.cpu().double(), torch.from_numpy(expected), rtol=1e-6, atol=0
    )
    area = (got.hist.double() * got.bin_edges.double().diff()).sum()
    assert abs(area.item() - 1) < 1e-6


def test_density_of_channels(device: torch.device) -> None:
    values = torch.rand(500, 3, generator=torch.Generator().manual_seed(0)).to(device)
    got = torch_histo.histogram(values, 20, dim=0, density=True)
    area = (got.hist.double() * got.bin_edges.double().diff()).sum(-1)
    torch.testing.assert_close(area.cpu(), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-6)


def test_density_of_an_infinite_bin(device: torch.device) -> None:
    """Spread over an infinite width, values have no density."""
    values = torch.tensor([0.5, 0.5, 2.0, 3.0], device=device)
    edges = torch.tensor([0.0, 1.0, INF], device=device)
    assert torch_histo.histogram(values, edges, density=True).hist.tolist() == [0.5, 0.0]


# Properties

generated = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
numbers_of_float32 = st.floats(width=32) | st.sampled_from([0.0, -0.0, TINY, -TINY, 1.0, MOST])


@st.composite
def problems(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Values of any float type, some of them edges."""
    bounds = draw(st.lists(numbers_of_float32.filter(lambda x: x == x), min_size=2, max_size=40))
    bounds += draw(st.lists(st.sampled_from(bounds), max_size=4))
    edges = torch.tensor(sorted(bounds), dtype=draw(st.sampled_from(EDGE_DTYPES[:2])))
    numbers = draw(st.lists(st.sampled_from(bounds) | numbers_of_float32, max_size=60))
    dtype = draw(st.sampled_from(FLOATS))
    return torch.tensor(numbers, dtype=torch.float64).to(dtype), edges


@generated
@given(problem=problems())
def test_any_problem(device: torch.device, problem: tuple[Tensor, Tensor]) -> None:
    values, edges = problem
    assert_as_oracle(device, values, edges)
    assert count(values.to(device), edges.to(device), flow=True).sum() == values.numel()


@generated
@given(problem=problems(), at=st.integers(1, 40))
def test_without_an_edge_two_bins_are_one(
    device: torch.device, problem: tuple[Tensor, Tensor], at: int
) -> None:
    values, edges = (tensor.to(device) for tensor in problem)
    if len(edges) < 3:
        return
    at = 1 + at % (len(edges) - 2)
    counts = count(values, edges, flow=True)
    fewer = count(values, torch.cat([edges[:at], edges[at + 1 :]]), flow=True)
    assert_counts(fewer[at], counts[at] + counts[at + 1])
    assert_counts(fewer[:at], counts[:at])
    assert_counts(fewer[at + 1 :], counts[at + 2 :])


@generated
@given(problem=problems(), cut=st.integers(0, 60))
def test_parts_add_up(device: torch.device, problem: tuple[Tensor, Tensor], cut: int) -> None:
    values, edges = (tensor.to(device) for tensor in problem)
    parts = [count(part, edges, flow=True) for part in (values[:cut], values[cut:])]
    assert_counts(parts[0] + parts[1], count(values, edges, flow=True))


@generated
@given(
    ends=st.lists(
        st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=2, max_size=2
    )
    | st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
    num_bins=st.integers(1, 3000),
)
def test_any_uniform_edges(device: torch.device, ends: list[float], num_bins: int) -> None:
    """They never decrease, and begin and end where they should; so each value has one bin."""
    for dtype in (torch.float32, torch.float64):
        low, high = torch.tensor(sorted(ends), dtype=torch.float64).to(dtype).to(device)
        if low.isinf() or high.isinf():
            continue
        edges = torch.ops.histo.uniform_edges(low, high, num_bins, dtype=dtype)
        assert bool((edges.diff() >= 0).all())
        assert (edges[0], edges[-1]) == (low, high)
        values = torch.stack([low, high, edges[num_bins // 2]])
        assert count(values, edges).sum() == 3


@generated
@given(
    numbers=st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=50),
    bins=st.integers(1, 50),
)
def test_any_data_as_numpy(device: torch.device, numbers: list[float], bins: int) -> None:
    for dtype in (torch.float32, torch.float64):
        values = torch.tensor(numbers, dtype=dtype) + 0.0  # which zero is the lowest, is open
        assert_as_numpy(device, values, bins, None, None)


@generated
@given(
    ends=st.lists(st.floats(-1e30, 1e30), min_size=2, max_size=2, unique=True),
    bins=st.integers(1, 300),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int32]),
)
def test_any_range_as_numpy(
    device: torch.device, ends: list[float], bins: int, dtype: torch.dtype
) -> None:
    low, high = sorted(ends)
    inside = np.linspace(low, high, 100)
    if dtype == torch.int32:
        inside = inside.clip(-(2.0**31), 2.0**31 - 1)
    values = of_numpy(inside.tolist(), dtype) if dtype != torch.int32 else (
        torch.from_numpy(inside.astype(np.int32))
    )  # fmt: skip
    assert_as_numpy(device, values, bins, (low, high), (low, high))


# Errors: one line that names the argument

FLOAT = torch.zeros(4, 3)
EDGES = torch.tensor([0.0, 1.0, 2.0])
WRONG: dict[str, tuple[Tensor, Tensor, Any, str]] = {
    "complex input": (FLOAT.to(torch.complex64), EDGES, None, "input .* got complex64"),
    "complex edges": (FLOAT, EDGES.to(torch.complex64), None, "edges .* got complex64"),
    "bool edges": (FLOAT, EDGES.bool(), None, "edges .* got bool"),
    "float16 edges": (FLOAT, EDGES.half(), None, "edges .* got float16"),
    "bfloat16 edges": (FLOAT, EDGES.bfloat16(), None, "edges .* got bfloat16"),
    "one edge": (FLOAT, EDGES[:1], None, "edges must .*(two|2)"),
    "no edge": (FLOAT, EDGES[:0], None, "edges must .*(two|2)"),
    "a number for edges": (FLOAT, EDGES[0], None, "edges must"),
    "edges of other channels": (FLOAT, EDGES.expand(2, 3), 0, "edges must"),
    "edges of channels where none is kept": (FLOAT, EDGES.expand(3, 3), None, "edges must"),
    "edges of too many dimensions": (FLOAT, EDGES.expand(1, 3, 3), 0, "edges must"),
    "dim too high": (FLOAT, EDGES, 2, "dim must be between -2 and 1 for a 2-D input, got 2"),
    "dim too low": (FLOAT, EDGES, -3, "dim must be between -2 and 1 for a 2-D input, got -3"),
    "dim twice": (FLOAT, EDGES, (0, -2), "dim must name each dimension once"),
}


def error_line(call: Callable[[], object]) -> str:
    with pytest.raises((RuntimeError, ValueError, TypeError)) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line, line
    return line


def assert_names(line: str, function: str, expected: str) -> None:
    assert re.match(f"{function}: {expected}", line), line


@pytest.mark.parametrize("case", WRONG)
def test_errors_of_the_operator(device: torch.device, case: str) -> None:
    values, edges, dim, expected = WRONG[case]
    moved, bounds = values.to(device), edges.to(device)
    assert_names(error_line(lambda: count(moved, bounds, dim)), "histogram", expected)
    # The function's edges are its bins; a number there is a number of bins.
    line = error_line(lambda: torch_histo.histogram(moved, bounds, dim=dim))
    assert_names(line, "histogram", re.sub("^edges", "bins", expected))
    meta = error_line(lambda: count(values.to("meta"), edges.to("meta"), dim))
    assert_names(meta, "histogram", expected)


def test_edges_on_another_device(device: torch.device) -> None:
    if device.type != "cuda":
        pytest.skip("needs a GPU")
    for values, edges in ((FLOAT.to(device), EDGES), (FLOAT, EDGES.to(device))):
        line = error_line(lambda v=values, e=edges: count(v, e))
        assert_names(line, "histogram", "edges must be on .*(cpu|cuda)")


RANGE_OF_ONE = (1.0,)
CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "no bins": ({"bins": 0}, "bins must be at least 1, got 0"),
    "fewer than no bins": ({"bins": -3}, "bins must be at least 1, got -3"),
    "half a bin": ({"bins": 2.5}, "bins must .*got 2.5"),
    "the name of another rule": ({"bins": "scott"}, "bins must .*got .*scott"),
    "a range of one": ({"range": RANGE_OF_ONE}, "range must"),
    "a range of three": ({"range": (0, 1, 2)}, "range must"),
    "a range that is a number": ({"range": 3}, "range must"),
    "a range that decreases": ({"range": (2, 1)}, "range must"),
    "a range of NaN": ({"range": (0, NAN)}, "range must"),
    "a range to infinity": ({"range": (0, INF)}, "range must"),
    "flow and density": ({"flow": True, "density": True}, "(flow|density) must"),
    "dim too high": ({"dim": 2}, "dim must be between -2 and 1 for a 2-D input, got 2"),
}


@pytest.mark.parametrize("case", CALLS)
def test_errors_of_the_function(device: torch.device, case: str) -> None:
    arguments, expected = CALLS[case]
    line = error_line(lambda: torch_histo.histogram(FLOAT.to(device), **arguments))
    assert_names(line, "histogram", expected)


def test_errors_of_finite_range(device: torch.device) -> None:
    find = torch.ops.histo.finite_range
    line = error_line(lambda: find(FLOAT.to(device, torch.complex64)))
    assert_names(line, "finite_range", "input .* got complex64")
    line = error_line(lambda: find(FLOAT.to(device), 2))
    assert_names(line, "finite_range", "dim must be between -2 and 1 for a 2-D input, got 2")


def test_errors_of_uniform_edges(device: torch.device) -> None:
    low, high = torch.tensor(0.0, device=device), torch.tensor(1.0, device=device)

    def line(low: Tensor, high: Tensor, num_bins: int, dtype: torch.dtype) -> str:
        make = torch.ops.histo.uniform_edges
        return error_line(lambda: make(low, high, num_bins, dtype=dtype))

    wrong = line(low, high, 0, torch.float32)
    assert_names(wrong, "uniform_edges", "num_bins must be at least 1, got 0")
    assert_names(line(low.long(), high.long(), 3, torch.float32), "uniform_edges", "low must")
    assert_names(line(low, high.double(), 3, torch.float32), "uniform_edges", "(low|high) must")
    assert_names(line(low, high, 3, torch.int32), "uniform_edges", "dtype must")
    two, three = low.expand(2), high.expand(3)
    assert_names(line(two, three, 3, torch.float32), "uniform_edges", "(low|high) must")


# CUDA


def test_no_synchronization(device: torch.device) -> None:
    if device.type != "cuda":
        pytest.skip("needs a GPU")
    values = random_values((5000, 3), torch.float32).to(device)
    edges = torch.linspace(0, 255, 65, device=device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        count(values, edges, 0)
        torch_histo.histogram(values, 100)
        torch_histo.histogram(values, 100, range=(0, 1), dim=0)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_new_edges_and_values_at_replay(device: torch.device) -> None:
    if device.type != "cuda":
        pytest.skip("needs a GPU")
    values = random_values((5000, 3), torch.float32).to(device)
    edges = torch.linspace(0, 255, 65, device=device)

    def work() -> tuple[Any, ...]:
        by_range = torch_histo.histogram(values, 64, dim=0)
        return count(values, edges, 0), by_range, torch_histo.histogram(values, 64, range=(0, 1))

    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counts, by_range, by_numbers = work()
    others = (torch.linspace(0, 255, 65), torch.rand(65).sort().values, torch.ones(65).cumsum(0))
    for seed, other in enumerate(others):
        values.copy_(random_values((5000, 3), torch.float32, seed))
        edges.copy_(other)
        graph.replay()
        assert_counts(counts, oracle.histogram(values.cpu(), other, 0))
        own = by_range.bin_edges.cpu()
        assert_counts(by_range.hist, oracle.histogram(values.cpu(), own, 0))
        expected = oracle.histogram(values.cpu(), by_numbers.bin_edges.cpu())
        assert_counts(by_numbers.hist, expected)


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d.itemsize <= 2], ids=str)
def test_many_values_of_few_patterns(dtype: torch.dtype) -> None:
    """The CPU counts the patterns of values of one or two bytes, if there are enough."""
    rows = 1100 if dtype.itemsize == 1 else 1 << 20
    words = torch.randint(-(1 << 63), (1 << 63) - 1, (3 * rows * dtype.itemsize // 4,))
    values = words.view(torch.uint8 if dtype == torch.bool else dtype)[: 3 * rows].view(3, rows)
    values = values > 99 if dtype == torch.bool else values
    own = torch.tensor(
        [[-300.0, -2, -0.0, 0.1, 9, 99], [-1, 0, 2, 2, 200, INF], [0, 1, 5, 4, 9, 9]]
    )
    for edges, flow in ((own, False), (own[0], True)):
        for view in (values, values.t().contiguous().t()):
            expected = oracle.histogram(view, edges, 1, flow=flow)
            found = torch.ops.histo.histogram(view, edges, 1, flow=flow)
            assert_counts(found, expected, (view.stride(), edges.ndim))
