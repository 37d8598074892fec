"""Joint histograms of many elements on CUDA: as the CPU counts them, in every type and layout."""

from __future__ import annotations

import math

import pytest
import torch
from oracle import assert_counts
from torch import Tensor

from torch_histo import histogram2d, histogramdd

if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

count = torch.ops.histo.joint_histogram
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.uint8, torch.int32]


def values(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    if not dtype.is_floating_point:
        return (x * 60 + 120).clamp_(0, 255).to(dtype)
    x.view(-1)[::97] = math.nan
    x.view(-1)[5::101] = math.inf
    return x.to(dtype)


def edges_of(x: Tensor, bins: int) -> Tensor:
    low, high = (-4.1, 4.3) if x.is_floating_point() else (0, bins)
    return torch.linspace(low, high, bins + 1, dtype=torch.float64)


def check(inputs: list[Tensor], edges: list[Tensor], dim: object = None, *, flow: bool) -> None:
    """The views of the CPU are those of the GPU."""
    own = [x.cuda() for x in inputs]
    own = [
        x.as_strided(y.shape, y.stride()) if x.stride() != y.stride() else x
        for x, y in zip(own, inputs, strict=True)
    ]
    got = count(own, [e.cuda() for e in edges], dim, flow=flow)
    assert_counts(got.cpu(), count(inputs, edges, dim, flow=flow), dim)


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("bins", [64, 200, 300], ids=["table", "large_table", "halves"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_cuda_pairs(dtype: torch.dtype, bins: int, flow: bool) -> None:
    inputs = [values(400_001, dtype=dtype), values(400_001, dtype=dtype, seed=1)]
    edges = [edges_of(x, bins) for x in inputs]
    check(inputs, edges, flow=flow)
    check([inputs[0], inputs[0]], edges, flow=flow)
    constant = [torch.full_like(x, 3) for x in inputs]
    check(constant, edges, flow=flow)


@pytest.mark.parametrize("bins", [512, 1024])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_cuda_cells_are_written(dtype: torch.dtype, bins: int) -> None:
    size = (36 << 20) // (2 * dtype.itemsize) + 1
    inputs = [values(size, dtype=dtype), values(size, dtype=dtype, seed=1)]
    edges = [edges_of(x, bins) for x in inputs]
    check(inputs, edges, flow=False)
    check([inputs[0], torch.ones_like(inputs[0])], edges, flow=True)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("dtype", TYPES[:4], ids=str)
def test_cuda_coordinates_in_one_tensor(dtype: torch.dtype, axes: int) -> None:
    for begin in (0, 1):
        sample = values(90_001, axes, dtype=dtype)[begin:]
        ends = [(-4.1, 4.3)] * axes
        expected = histogramdd(sample, 20, range=ends).hist
        on_gpu = values(90_001, axes, dtype=dtype).cuda()[begin:]
        assert_counts(histogramdd(on_gpu, 20, range=ends).hist.cpu(), expected, begin)


@pytest.mark.parametrize("first", [*TYPES, torch.int64, torch.int8], ids=str)
def test_cuda_types_of_each_coordinate(first: torch.dtype) -> None:
    for second in (torch.float32, torch.bfloat16, torch.float64, torch.uint8, torch.int64):
        x, y = values(100_003, dtype=first), values(100_005, dtype=second, seed=1)
        for a, b in ((x, y[:-2]), (x[:-1], y[3:])):
            check([a, b], [edges_of(a, 40), edges_of(b, 256)], flow=second == torch.uint8)


@pytest.mark.parametrize("rows", [1 << 10, 1 << 17], ids=["element by element", "as integers"])
def test_cuda_columns(rows: int) -> None:
    x, y = values(rows, 40), values(rows, 40, seed=1)
    for a, b in ((x, y), (torch.ones_like(x), torch.ones_like(y))):
        check([a, b], [edges_of(a, 40), edges_of(b, 30)], [0], flow=rows > 1 << 10)


def test_cuda_four_coordinates() -> None:
    xs = [values(1 << 21, seed=seed) for seed in range(4)]
    for inputs in (xs, [torch.ones_like(x) for x in xs]):
        expected = histogramdd(inputs, 8, range=[(-4.1, 4.3)] * 4).hist
        got = histogramdd([x.cuda() for x in inputs], 8, range=[(-4.1, 4.3)] * 4).hist
        assert torch.equal(got.cpu(), expected)


def test_cuda_pairs_of_images() -> None:
    x, y = values(9, 100, 101), values(9, 100, 101, seed=1)
    for ranges in (None, [(-4.1, 4.3)] * 2):
        expected = histogram2d(x, y, 64, range=ranges, dim=(1, 2)).hist
        got = histogram2d(x.cuda(), y.cuda(), 64, range=ranges, dim=(1, 2)).hist
        assert_counts(got.cpu(), expected, ranges)


def test_cuda_graph() -> None:
    inputs = [values(1 << 16).cuda(), values(1 << 16, seed=1).cuda()]
    for bins in (64, 300):
        edges = [torch.linspace(-4.1, 4.3, bins + 1, device="cuda")] * 2
        expected = count(inputs, edges)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = count(inputs, edges)
        for _ in range(3):
            got.fill_(7)
            graph.replay()
            assert torch.equal(got, expected)
