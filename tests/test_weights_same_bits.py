"""Sums of weights are the same bits for any threads, order, division of a stream, and device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import oracle
import pytest
import torch
from torch import Tensor

from torch_histo import StreamingHistogram, channel_histogram, histogram

pytestmark = pytest.mark.sampled(3)

SIZE = 150_001
EDGES = torch.tensor([-3.0, -1, -0.25, 0, 0.5, 2, 4])
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def data(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Normal values; weights of all magnitudes, half of which are cancelled by others."""
    random = torch.Generator().manual_seed(0)
    values = torch.randn(SIZE, generator=random)
    limits = torch.finfo(dtype)
    low, high = math.log2(limits.smallest_normal), math.log2(limits.max) - 1
    exponents = torch.rand(SIZE, generator=random, dtype=torch.float64) * (high - low) + low
    signs = torch.randint(0, 2, (SIZE,), generator=random) * 2 - 1
    weight = (torch.exp2(exponents) * signs).to(dtype)
    half = SIZE // 2
    values[half : 2 * half], weight[half : 2 * half] = values[:half], -weight[:half]
    weight[:1000] = weight[:1000] * limits.eps  # nothing cancels these
    return values, weight


def digits(values: Tensor, weight: Tensor, dim: Any = None) -> Tensor:
    found: Tensor = torch.ops.histo.weighted_histogram(
        values, EDGES.to(values.device), weight, dim, flow=True
    )
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_number_of_threads(dtype: torch.dtype) -> None:
    values, weight = data(dtype)
    shapes = {(SIZE,): None, (SIZE // 3, 3): 0, (3, SIZE // 3): 1, (7, SIZE // 21, 3): (0, 1)}
    for shape, dim in shapes.items():
        x, w = (t[: torch.Size(shape).numel()].view(shape) for t in (values, weight))
        torch.set_num_threads(1)
        one = digits(x, w, dim)
        for threads in (2, 3, 5):
            torch.set_num_threads(threads)
            assert torch.equal(digits(x, w, dim), one), (shape, threads)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_order(device: torch.device, dtype: torch.dtype) -> None:
    """And on any device: the sums are those of the CPU, and these are exact."""
    values, weight = data(dtype)
    hist = histogram(values, EDGES, weight=weight).hist
    assert torch.equal(hist, oracle.weighted_histogram(values, EDGES, weight))
    orders = [torch.arange(SIZE).flip(0), values.sort().indices, weight.sort().indices]
    orders += [torch.randperm(SIZE, generator=torch.Generator().manual_seed(s)) for s in range(3)]
    moved = EDGES.to(device)
    for order in (torch.arange(SIZE), *orders):
        x, w = values[order].to(device), weight[order].to(device)
        assert torch.equal(histogram(x, moved, weight=w).hist.cpu(), hist)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_division_of_a_stream(device: torch.device, dtype: torch.dtype) -> None:
    values, weight = (t.to(device) for t in data(dtype))

    def stream(parts: int) -> StreamingHistogram:
        """Half of the parts by updates, and half by merges."""
        found = StreamingHistogram(edges=EDGES, weight_dtype=dtype).to(device)
        pairs = list(zip(values.tensor_split(parts), weight.tensor_split(parts), strict=True))
        for x, w in pairs[::2]:
            found.update(x, w)
        for x, w in pairs[1::2]:
            other = StreamingHistogram(edges=EDGES, weight_dtype=dtype).to(device)
            other.update(x, w)
            found.merge(other)
        return found

    whole = stream(1)
    expected = histogram(values, EDGES.to(device), weight=weight, flow=True).hist
    assert torch.equal(whole.hist, expected)
    for parts in (2, 7, 50):
        assert torch.equal(stream(parts).digits, whole.digits), parts


@pytest.mark.parametrize("weight_dtype", [torch.int64, torch.uint8, torch.bool])
def test_integers_in_any_order(device: torch.device, weight_dtype: torch.dtype) -> None:
    values = oracle.random_values((3000, 3), torch.uint8, low=0, high=9)
    weight = oracle.random_values((3000, 1), weight_dtype)
    expected = oracle.weighted_channel_histogram(values, weight, 10)
    for order in (torch.arange(3000), torch.arange(3000).flip(0)):
        x, w = values[order].to(device), weight[order].to(device)
        assert torch.equal(channel_histogram(x, 10, weight=w).cpu(), expected)


TYPES = [
    (torch.float32, torch.float32),
    (torch.float32, torch.bfloat16),
    (torch.float32, torch.float16),
    (torch.float32, torch.int32),
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.float64, torch.float64),
]
LAYOUTS = [
    ((20_003,), None, (20_003,)),
    ((700, 40), 0, (700, 40)),  # side by side, in loads of 16 bytes
    ((700, 40), 0, (700, 1)),
    ((700, 42), 0, (700, 42)),
    ((3, 500, 32), 1, (3, 500, 32)),
    ((300, 700), 1, (300, 700)),  # many short ones
    ((90, 7, 14, 14), (0, 2, 3), (90, 7, 14, 14)),  # runs of warps
    ((300, 2, 3, 7), (0, 2, 3), (300, 1, 3, 7)),
    ((5, 30, 40, 41), (0, 2, 3), (5, 30, 40, 41)),
]


@pytest.mark.parametrize(("shape", "dim", "weight_shape"), LAYOUTS, ids=str)
@pytest.mark.parametrize(("dtype", "weight_dtype"), TYPES, ids=str)
@pytest.mark.parametrize("offset", [0, 1])
def test_every_layout(
    device: torch.device,
    dtype: torch.dtype,
    weight_dtype: torch.dtype,
    offset: int,
    shape: tuple[int, ...],
    dim: Any,
    weight_shape: tuple[int, ...],
) -> None:
    """A GPU has a kernel for each, and others for weights that are not aligned."""
    values = oracle.random_values(shape, dtype, low=-5, high=5)
    bits = oracle.any_bits((math.prod(weight_shape) + offset,), weight_dtype)
    weight = bits[offset:].view(weight_shape)
    one = digits(values, weight.clone(), dim)
    found = digits(values.to(device), oracle.like(weight, device), dim)
    assert torch.equal(found.cpu(), one)


@pytest.mark.parametrize("size", [1, 18, 49, 257, 1500])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int16], ids=str
)
def test_many_short_channels(device: torch.device, dtype: torch.dtype, size: int) -> None:
    """Rounded sums are those of the digits, which are summed in another way."""
    random = torch.Generator().manual_seed(size)
    values = (torch.randn(1200, size, generator=random) * 3).to(dtype)
    for weight in (oracle.any_bits((1200, size), torch.float32, size), data(torch.float16)[1]):
        own = weight.flatten()[: 1200 * size] if weight.dim() == 2 else weight[:size]
        own = own.view(-1, size).to(device)
        for flow in (False, True):
            x = values.to(device)
            sums, edges = histogram(x, 256, range=(-5, 5), dim=1, weight=own, flow=flow)
            found = torch.ops.histo.weighted_histogram(x, edges, own, [1], flow=flow)
            oracle.assert_sums(sums, torch.ops.histo.sum_of_digits(found))
