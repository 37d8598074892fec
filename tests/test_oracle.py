"""The oracle itself, compared with np.unique, fractions, np.histogram and torch.histogram."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import oracle
import pytest
import torch
from oracle import (
    DTYPES,
    EDGE_DTYPES,
    FLOATS,
    NUMBERS,
    assert_counts,
    counts_by_unique,
    expected_counts,
    random_values,
)
from torch import Tensor

pytestmark = pytest.mark.sampled(3)


@pytest.mark.parametrize("by_torch", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((), 0),
        ((0,), 0),
        ((0, 3), 0),
        ((3, 0), 0),
        ((4001,), 0),
        ((301, 7), 0),
        ((7, 301), -1),
        ((5, 3, 17, 19), (0, 2, 3)),
        ((5, 3, 17, 19), (1,)),
        ((2, 3, 40), None),
    ],
)
def test_against_np_unique(
    shape: tuple[int, ...],
    dim: int | tuple[int, ...] | None,
    dtype: torch.dtype,
    by_torch: bool,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(oracle, "BLOCK", 1000)  # several blocks
    values = random_values(shape, dtype).to(device)
    for num_bins in (0, 1, 100, 256, 300, 70_000) if values.dim() < 2 else (2, 300):
        got = expected_counts(values, num_bins, dim, by_torch=by_torch)
        assert_counts(got, counts_by_unique(values, num_bins, dim))


# Bits of the exponent and of the fraction, and whether the highest exponent means inf and NaN.
FORMATS = {
    torch.float8_e4m3fn: (4, 3, False),
    torch.float8_e5m2: (5, 2, True),
    torch.float16: (5, 10, True),
    torch.bfloat16: (8, 7, True),
    torch.float32: (8, 23, True),
    torch.float64: (11, 52, True),
}
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def decoded(bits: int, dtype: torch.dtype) -> Fraction | float:
    """The real number of a pattern of bits by its definition, a float where it is inf or NaN."""
    exponent_bits, fraction_bits, has_inf = FORMATS[dtype]
    fraction = bits & ((1 << fraction_bits) - 1)
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    sign = -1 if bits >> (fraction_bits + exponent_bits) & 1 else 1
    if exponent == (1 << exponent_bits) - 1:
        if has_inf:
            return math.nan if fraction else sign * math.inf
        if fraction == (1 << fraction_bits) - 1:
            return math.nan
    significand = fraction | (1 << fraction_bits if exponent else 0)
    bias = (1 << (exponent_bits - 1)) - 1
    return sign * significand * Fraction(2) ** (max(exponent, 1) - bias - fraction_bits)


def real_numbers(values: Tensor) -> list[Fraction | float]:
    flat = values.flatten()
    if values.dtype in FORMATS:
        patterns = flat.view(BITS[values.dtype.itemsize]).tolist()
        return [decoded(bits, values.dtype) for bits in patterns]
    if values.dtype == torch.bool:
        return [Fraction(bits != 0) for bits in flat.view(torch.uint8).tolist()]
    return [Fraction(number) for number in flat.tolist()]


def counts_by_fractions(values: Tensor, edges: Tensor) -> list[int]:
    """One channel by the definition: underflow, the bins, overflow, NaN."""
    bounds = real_numbers(edges)
    bins = list(itertools.pairwise(bounds))
    counts = [0] * (len(bins) + 3)
    valid = all(low <= high for low, high in bins)
    for value in real_numbers(values):
        if value != value:
            counts[-1] += 1
        elif valid and value < bounds[0]:
            counts[0] += 1
        elif valid and value > bounds[-1]:
            counts[-2] += 1
        elif valid:
            holding = [k for k, (low, high) in enumerate(bins) if low <= value < high]
            counts[1 + (holding[0] if holding else len(bins) - 1)] += 1
    return counts


def some_numbers(dtype: torch.dtype, generator: np.random.Generator) -> Tensor:
    """Few different ones, so that values meet edges; zeros, extremes and any bits included."""
    bits = torch.from_numpy(generator.integers(0, 256, 8 * dtype.itemsize, dtype=np.uint8))
    if dtype in FORMATS:
        special = [0.0, -0.0, 1.0, 2.0, 255.0, 1e-6, math.inf, -math.inf, math.nan, -math.nan]
        numbers = torch.tensor(special, dtype=torch.float64).to(dtype)
        # The largest subnormal, the smallest normal and their neighbours.
        smallest = 1 << FORMATS[dtype][1]
        near = torch.tensor([smallest - 1, smallest, smallest + 1, 1], dtype=BITS[dtype.itemsize])
        return torch.cat([numbers, near.view(dtype), bits.view(dtype)])
    if dtype == torch.bool:
        return bits.view(torch.bool)
    limits = torch.iinfo(dtype)
    around = [(1 << power) + k for power in (24, 53, 63) for k in (-1, 0, 1)]
    name = str(dtype).removeprefix("torch.")
    special = [limits.min, limits.max, 0, 1, 2, 255, *around, *(-n for n in around)]
    known = np.array([n for n in special if limits.min <= n <= limits.max], dtype=name)
    return torch.from_numpy(np.concatenate([known, bits.numpy().view(name)]))


def drawn(numbers: Tensor, count: int, generator: np.random.Generator) -> Tensor:
    """The first ones, as bits: some types cannot be indexed."""
    bits = numbers.view(BITS[numbers.dtype.itemsize])
    return bits[torch.from_numpy(generator.integers(0, len(bits), count))].view(numbers.dtype)


def in_order(edges: Tensor, *, reverse: bool = False) -> Tensor:
    numbers = real_numbers(edges)
    order = sorted(range(len(numbers)), key=numbers.__getitem__, reverse=reverse)
    return edges.view(BITS[edges.dtype.itemsize])[order].view(edges.dtype)


@pytest.mark.parametrize("edge_dtype", EDGE_DTYPES, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_histogram_against_fractions(dtype: torch.dtype, edge_dtype: torch.dtype) -> None:
    generator = np.random.default_rng(0)
    for reverse in (False, False, False, False, True):
        values = drawn(some_numbers(dtype, generator), 60, generator)
        # Values as edges, as far as the type of edges has them.
        edges = some_numbers(edge_dtype, generator)
        if edge_dtype.is_floating_point:
            edges = torch.cat([edges, values.double().to(edge_dtype)])
        edges = drawn(edges, int(generator.integers(2, 12)), generator)
        edges = in_order(edges[edges == edges] if generator.random() < 0.9 else edges)
        if reverse:
            edges = in_order(edges, reverse=True)
        if len(edges) < 2:
            continue
        expected = torch.tensor(counts_by_fractions(values, edges))
        assert_counts(oracle.histogram(values, edges, flow=True), expected, edges)
        assert_counts(oracle.histogram(values, edges), expected[1:-2], edges)


@pytest.mark.parametrize("dtype", FLOATS[:4], ids=str)
def test_every_pattern_of_the_short_floats(dtype: torch.dtype) -> None:
    bits = torch.arange(1 << 8 * dtype.itemsize, dtype=torch.int32).to(BITS[dtype.itemsize])
    numbers = oracle._reals(bits.view(dtype)).tolist()
    for got, expected in zip(numbers, real_numbers(bits.view(dtype)), strict=True):
        assert got == expected or (got != got and expected != expected)


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize(
    ("dim", "edge_shape"),
    [
        (None, (4,)),
        ((), (4,)),
        (0, (4,)),
        (-1, (3, 4, 4)),
        (-1, (3, 1, 4)),
        (1, (5, 4)),
        ((0, 2), (4, 4)),
        ([1, 2], (1, 4)),
        ((2, 1, 0), (4,)),
    ],
)
def test_histogram_of_channels(
    dim: int | tuple[int, ...] | None, edge_shape: tuple[int, ...], flow: bool
) -> None:
    values = random_values((3, 4, 5), torch.int8)
    edges = torch.from_numpy(np.sort(np.random.default_rng(0).normal(0, 50, edge_shape)))
    dims = [dim] if isinstance(dim, int) else list(dim or range(3))
    reduced = {d % 3 for d in dims}
    kept = [d for d in range(3) if d not in reduced]
    shape = tuple(values.shape[d] for d in kept)
    expected = torch.zeros(*shape, 6, dtype=torch.int64)
    bounds = edges.expand(*shape, 4)
    columns = values.movedim(kept, tuple(range(len(kept))))
    for channel in np.ndindex(*shape):
        expected[channel] = torch.tensor(counts_by_fractions(columns[channel], bounds[channel]))
    got = oracle.histogram(values, edges, dim, flow=flow)
    assert_counts(got, expected if flow else expected[..., 1:-2])


def test_histogram_of_nothing_and_of_a_number() -> None:
    edges = torch.tensor([0.0, 1.0, 2.0])
    assert oracle.histogram(torch.empty(0), edges).tolist() == [0, 0]
    assert oracle.histogram(torch.empty(0, 3), edges, 0).tolist() == [[0, 0]] * 3
    assert oracle.histogram(torch.empty(3, 0), edges, 0).shape == (0, 2)
    assert oracle.histogram(torch.tensor(2.0), edges, 0, flow=True).tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("bins", [1, 7, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_histogram_against_numpy_and_torch(dtype: torch.dtype, bins: int) -> None:
    generator = np.random.default_rng(bins)
    for low, high in ((0.0, 1.0), (-3.0, 3.0), (1e6, 1e6 + 64), (0.1, 0.7)):
        values = generator.uniform(low, high, 500).astype(str(dtype).removeprefix("torch."))
        by_numpy, edges = np.histogram(values, bins, (low, high))
        values[: min(len(edges), 400)] = edges[:400]
        by_numpy, edges = np.histogram(values, bins, (low, high))
        got = oracle.histogram(torch.from_numpy(values), torch.from_numpy(edges))
        assert_counts(got, torch.from_numpy(by_numpy))
        ends = (torch.tensor(end, dtype=torch.float64) for end in (low, high))
        own = oracle.uniform_edges(*ends, bins, dtype=torch.from_numpy(edges).dtype)
        assert own.numpy().tobytes() == edges.tobytes()
        if dtype.is_floating_point:
            by_torch = torch.histogram(torch.from_numpy(values), torch.from_numpy(edges)).hist
            assert_counts(got, by_torch.long())
        inside = torch.from_numpy(values[(values >= edges[0]) & (values < edges[-1])])
        found = torch.bucketize(inside.double(), torch.from_numpy(edges).double(), right=True) - 1
        by_search = torch.bincount(found, minlength=bins)
        by_search[-1] += int((values == edges[-1]).sum())
        assert_counts(got, by_search)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_finite_range_against_fractions(dtype: torch.dtype) -> None:
    generator = np.random.default_rng(1)
    wide = dtype == torch.float64 or not dtype.is_floating_point
    for count in (0, 1, 2, 5, 40):
        values = drawn(some_numbers(dtype, generator), 3 * count, generator).view(3, count)
        low, high = oracle.finite_range(values, 1)
        assert low.dtype == high.dtype == (torch.float64 if wide else torch.float32)
        for channel in range(3):
            numbers = real_numbers(values[channel])
            finite = [n for n in numbers if not isinstance(n, float)]
            got = low[channel].item(), high[channel].item()
            if not finite:
                assert got == (math.inf, -math.inf)
                continue
            # No float64 is nearer from outside.
            assert got[0] <= min(finite)
            assert got[1] >= max(finite)
            if not (got[0] == min(finite) and got[1] == max(finite)):
                assert dtype in (torch.int64, torch.uint64)
                assert got[0] == min(finite) or np.nextafter(got[0], np.inf) > min(finite)
                assert got[1] == max(finite) or np.nextafter(got[1], -np.inf) < max(finite)


def test_finite_range_rounds_outwards() -> None:
    ends = torch.tensor([-(1 << 53) - 1, (1 << 53) + 1])
    assert [end.item() for end in oracle.finite_range(ends)] == [-(2.0**53) - 2, 2.0**53 + 2]
    most = torch.from_numpy(np.array([(1 << 64) - 1], dtype=np.uint64))
    low, high = oracle.finite_range(most)
    assert (low.item(), high.item()) == (np.nextafter(2.0**64, 0), 2.0**64)


@pytest.mark.parametrize("type_of_range", [np.float64, np.float32])
def test_uniform_edges_against_numpy(type_of_range: type[np.floating]) -> None:
    generator = np.random.default_rng(2)
    compared = 0
    for _ in range(300):
        scale = 10.0 ** generator.uniform(-10, 20)
        low, high = np.sort(generator.normal(generator.normal(), scale, 2)).astype(type_of_range)
        bins = int(generator.integers(1, 3000))
        data = np.array([low, high]).astype(generator.choice([np.float32, np.float64]))
        wanted = (low, high) if type_of_range == np.float32 else (float(low), float(high))
        try:
            expected = np.histogram_bin_edges(data, bins, wanted)
        except ValueError:  # too many bins for NumPy
            continue
        if low == high:  # NumPy widens this range
            continue
        ends = (torch.from_numpy(np.asarray(end)) for end in (low, high))
        edges = oracle.uniform_edges(*ends, bins, dtype=torch.from_numpy(expected).dtype)
        assert edges.numpy().tobytes() == expected.tobytes()
        compared += 1
    assert compared > 200


def test_uniform_edges_of_channels() -> None:
    low, high = torch.tensor([[0.0], [-1.0]]), torch.tensor([1.0, 2.0, 0.0])
    edges = oracle.uniform_edges(low, high, 10, dtype=torch.float32)
    assert edges.shape == (2, 3, 11)
    for i, j in np.ndindex(2, 3):
        expected = np.linspace(low[i, 0].numpy(), high[j].numpy(), 11)
        assert edges[i, j].numpy().tobytes() == expected.tobytes()
