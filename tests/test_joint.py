"""Joint histograms: against an oracle that goes from element to element, and against NumPy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from guarded import before_forbidden_page
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import EDGE_DTYPES, NUMBERS, any_bits, assert_counts, assert_sums, random_values
from torch import Tensor

from torch_histo import (
    JointHistogram,
    channel_histogram,
    histogram,
    histogram2d,
    histogramdd,
    histograms,
    joint,
)

EDGES = torch.tensor([-10.0, 0.5, 3, 3, 100, 250])
F64 = torch.float64
count = torch.ops.histo.joint_histogram
sum_up = torch.ops.histo.weighted_joint_histogram


def moved(tensors: Any, device: torch.device) -> list[Tensor]:
    return [tensor.to(device) for tensor in tensors]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def check(inputs: Any, edges: Any, dim: Any = None, *, flow: bool = False) -> None:
    """The operator, on the device where the inputs are."""
    got = count(list(inputs), list(edges), dim, flow=flow)
    own = [x.cpu() for x in inputs], [e.cpu() for e in edges]
    assert_counts(got, oracle.joint_histogram(*own, dim, flow=flow), dim)


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_dtype(device: torch.device, dtype: torch.dtype, flow: bool) -> None:
    others = torch.float32, torch.int16, dtype
    for seed, other in enumerate(others):
        inputs = random_values((90, 3), dtype, seed), random_values((90, 3), other, seed + 7)
        edges = EDGES, torch.tensor([0, 1, 7, 200])
        for dim in (None, [0], [1]):
            check(moved(inputs, device), moved(edges, device), dim, flow=flow)
            check(moved(inputs[::-1], device), moved(edges, device), dim, flow=flow)


@pytest.mark.parametrize("dtype", EDGE_DTYPES, ids=str)
def test_every_dtype_of_edges(device: torch.device, dtype: torch.dtype) -> None:
    inputs = random_values((200,), torch.float32), random_values((200,), torch.int64, 3)
    edges = torch.tensor([0, 1, 5, 100]).to(dtype), torch.tensor([0, 3, 3, 120]).to(dtype)
    check(moved(inputs, device), moved(edges, device))


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("axes", range(1, 10))
def test_axes(device: torch.device, axes: int, flow: bool) -> None:
    sizes = [4, 3, 2, 3, 2, 1, 2, 1, 2][:axes]
    if flow and axes > 6:
        sizes = [1] * axes
    inputs = [normal(2, 60, seed=d) for d in range(axes)]
    edges = [torch.linspace(-2, 2, n + 1) for n in sizes]
    inputs[-1] = inputs[-1].to(torch.float16)
    for dim in (None, [1], [0]):
        check(moved(inputs, device), moved(edges, device), dim, flow=flow)


@pytest.mark.parametrize("bins", [(1, 1), (15, 17), (16, 16), (255, 257), (300, 300), (70000, 2)])
@pytest.mark.parametrize("size", [0, 1, 5, 3000])
def test_numbers_of_bins(device: torch.device, bins: Any, size: int) -> None:
    """Slots of 16 and of 32 bits, tables and the result itself."""
    inputs = [normal(size, seed=d).to(device) for d in range(2)]
    edges = [torch.linspace(-2, 2, n + 1, device=device) for n in bins]
    got = count(inputs, edges)
    slots = []
    for x, e, n in zip(inputs, edges, bins, strict=True):
        at = torch.bucketize(x, e, right=True) - 1
        slots.append(at.where(x != e[-1], n - 1).masked_fill((x < e[0]) | (x > e[-1]), -1))
    inside = (slots[0] >= 0) & (slots[1] >= 0)
    index = (slots[0] * bins[1] + slots[1])[inside]
    assert torch.equal(got, torch.bincount(index, minlength=math.prod(bins)).reshape(bins))


def test_many_elements(device: torch.device) -> None:
    """Several tiles and blocks, in more than one thread; constant and correlated data."""
    x = normal(300_001)
    for y in (normal(300_001, seed=1), x, torch.full_like(x, 0.25), x * 0.1 + 1):
        edges = [torch.linspace(-3, 3, 65), torch.linspace(-3, 3, 65)]
        got = count(moved((x, y), device), moved(edges, device)).cpu()
        expected, *_ = np.histogram2d(*(v.double().numpy() for v in (x, y, *edges)[:2]), edges)
        assert torch.equal(got, torch.from_numpy(expected).long())


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x.contiguous(),
    "transposed": lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
    "channels_last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    "gaps": lambda x: torch.stack((x, x), -1)[..., 0],
    "row": lambda x: x[:, :1].expand_as(x),
    "one": lambda x: x[0, 0, 0].expand_as(x),
    "columns": lambda x: x[:1, :, :1].expand_as(x),
}


@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_layouts(device: torch.device, first: str, second: str) -> None:
    x = LAYOUTS[first](normal(4, 9, 5).to(device))
    y = LAYOUTS[second](random_values((4, 9, 5), torch.uint8).to(device))
    own = torch.rand(9, 5, generator=torch.Generator().manual_seed(1)).sort(-1).values * 200
    for dim in (None, [0], [1], [2], [0, 2], [1, 2]):
        edges = [torch.linspace(-2, 2, 5), own if dim == [0, 2] else own[0]]
        check((x, y), moved(edges, device), dim)
        weight = normal(9, 1, seed=5).to(device)
        got = histogramdd((x, y), tuple(moved(edges, device)), dim=dim, weight=weight).hist
        expected = oracle.joint_histogram(
            (x.cpu(), y.cpu()), edges, dim, weight=weight.cpu().expand(4, 9, 5)
        )
        assert_sums(got, expected, dim)


@pytest.mark.parametrize("flow", [False, True])
def test_edges_of_channels(device: torch.device, flow: bool) -> None:
    """Some channels have edges that decrease, or NaN among them: those count nothing."""
    edges = torch.rand(3, 4, 6, generator=torch.Generator().manual_seed(0)).sort(-1).values
    edges[1, 2] = edges[1, 2].flip(-1)
    edges[2, 0, 3] = math.nan
    inputs = torch.rand(3, 50, 4), torch.rand(3, 50, 4, dtype=F64)
    inputs[0][:, ::7] = math.nan
    for own in (edges, edges[:, :1], edges[0]):
        check(moved(inputs, device), moved((own, edges[0, 0]), device), [1], flow=flow)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_weights(device: torch.device, dtype: torch.dtype) -> None:
    inputs = random_values((80, 3), torch.float32), random_values((80, 3), torch.int16, 1)
    weight = any_bits((80, 1), dtype)
    for axes, flow in ((1, False), (2, False), (2, True), (4, False), (5, True)):
        several = [inputs[d % 2] for d in range(axes)]
        edges = [EDGES[: 6 - d] for d in range(axes)] if axes < 4 else [EDGES[:3]] * axes
        for dim in (None, 0):
            expected = oracle.joint_histogram(several, edges, dim, flow=flow, weight=weight)
            got = histogramdd(
                moved(several, device),
                moved(edges, device),
                dim=dim,
                weight=weight.to(device),
                flow=flow,
            )
            assert_sums(got.hist, expected, (axes, dim))


def test_numbers_as_weights(device: torch.device) -> None:
    x, y = normal(50).to(device), normal(50, seed=1).to(device)
    counts = histogram2d(x, y, 3).hist
    assert torch.equal(histogram2d(x, y, 3, weight=2).hist, 2 * counts)
    assert torch.equal(histogram2d(x, y, 3, weight=0.5).hist, counts.double() / 2)
    assert torch.equal(histogram2d(x, y, 3, weight=True).hist, counts)


VALUE = st.sampled_from([0.0, 1.0, 2.0, -1.0, 0.5, math.nan, math.inf, -math.inf]) | st.floats(
    width=32
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(VALUE, st.integers(-2, 5), VALUE, VALUE), max_size=40),
    st.integers(1, 4),
    st.booleans(),
    st.lists(VALUE.filter(lambda v: v == v), min_size=2, max_size=5),
)
def test_any_points(points: list[Any], axes: int, flow: bool, bounds: list[float]) -> None:
    columns = list(zip(*points, strict=True)) or [()] * 4
    dtypes = torch.float32, torch.int8, F64, torch.float32
    inputs = [torch.tensor(c, dtype=t) for c, t in zip(columns, dtypes, strict=True)][:axes]
    edges = [torch.tensor(sorted(bounds)), torch.arange(4), torch.tensor([0.0, 1, 2]), EDGES]
    check(inputs, edges[:axes], flow=flow)


def test_values_beside_edges(device: torch.device) -> None:
    edges = torch.tensor([-1.0, 0.1, 0.1, 7e-45, math.inf]).sort().values
    infinite = torch.tensor([math.inf, -math.inf])
    steps = [torch.nextafter(edges, way) for way in infinite]
    values = torch.cat([edges, *steps, infinite, torch.tensor([-0.0, math.nan])])
    x, y = torch.cartesian_prod(values, values).unbind(-1)
    for flow in (False, True):
        check(moved((x, y), device), moved((edges, edges), device), flow=flow)


# The functions


def as_numpy(tensors: Any) -> list[np.ndarray[Any, Any]]:
    return [tensor.double().cpu().numpy() for tensor in tensors]


@pytest.mark.parametrize("axes", range(1, 7))
@pytest.mark.parametrize("density", [False, True])
def test_equal_to_numpy(device: torch.device, axes: int, density: bool) -> None:
    sample = normal(500, axes, seed=axes).to(device, F64)
    weight = torch.rand(500, dtype=F64).to(device)
    for bins, range in ((3, None), (2, [(-1, 1)] * axes), ([4, 3, 2, 1, 2, 3][:axes], None)):
        expected, edges = np.histogramdd(sample.cpu().numpy(), bins, range, density)
        for form in (sample, sample.unbind(-1), sample.cpu().numpy()):
            got = histogramdd(form, bins, range=range, density=density)
            assert np.array_equal(got.hist.cpu(), expected)
            assert all(map(np.array_equal, as_numpy(got.bin_edges), edges))
        sums = histogramdd(sample, bins, range=range, weight=weight, density=density).hist
        weights = weight.cpu().numpy()
        expected, _ = np.histogramdd(sample.cpu().numpy(), bins, range, density, weights)
        np.testing.assert_allclose(sums.cpu(), expected, rtol=1e-13)


def test_histogram2d_equals_numpy(device: torch.device) -> None:
    x, y = normal(400).to(device, F64), normal(400, seed=1).to(device, F64) * 3
    numpy = as_numpy((x, y))
    edges = np.array([-2.0, 0, 0.5, 3])
    for bins in (10, 7, (3, 4)):
        expected = np.histogram2d(*numpy, bins)
        got = histogram2d(x, y) if bins == 10 else histogram2d(x, y, bins)
        assert np.array_equal(got.hist.cpu(), expected[0])
        assert all(map(np.array_equal, as_numpy(got.bin_edges), expected[1:]))
    expected = np.histogram2d(*numpy, edges)
    got = histogram2d(x, y, torch.from_numpy(edges).to(device))
    assert np.array_equal(got.hist.cpu(), expected[0])
    expected = np.histogram2d(*numpy, (4, edges), ((-1, 2), None))
    got = histogram2d(x, y, (4, torch.from_numpy(edges).to(device)), range=((-1, 2), None))
    assert np.array_equal(got.hist.cpu(), expected[0])


def test_an_axis_alone_is_histogram(device: torch.device) -> None:
    x = random_values((30, 4), torch.bfloat16).to(device)
    y = random_values((30, 4), torch.uint16).to(device)
    for dim in (None, 0, 1):
        for flow in (False, True):
            got = histogramdd((x, y), 6, dim=dim, flow=flow)
            for own, edges in zip((x, y), got.bin_edges, strict=True):
                alone = histogram(own, 6, dim=dim, flow=flow)
                assert torch.equal(alone.bin_edges, edges)
                joint = histogramdd((own,), 6, dim=dim, flow=flow)
                assert torch.equal(joint.hist, alone.hist)
            if flow:  # all elements are counted, so that sums over an axis are its histogram
                assert torch.equal(got.hist.sum(-1), histogram(x, 6, dim=dim, flow=flow).hist)
                assert torch.equal(got.hist.sum(-2), histogram(y, 6, dim=dim, flow=flow).hist)


def test_last_dimension_of_a_tensor(device: torch.device) -> None:
    sample = normal(5, 40, 3).to(device)
    for dim in (None, 0, 1, -1, (0, 1)):
        got = histogramdd(sample, 4, dim=dim)
        assert torch.equal(got.hist, histogramdd(sample.unbind(-1), 4, dim=dim).hist)
    weight = normal(40, seed=2).to(device)
    got = histogramdd(sample, 4, dim=1, weight=weight)
    again = histogramdd(sample.unbind(-1), 4, dim=1, weight=weight.expand(5, 40))
    assert torch.equal(got.hist, again.hist)


POINTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "from the second on": lambda x: torch.cat((x[:1], x))[1:],
    "every second": lambda x: x.repeat_interleave(2, 0)[::2],
    "gaps": lambda x: torch.cat((x, x[:, :1] + 1), 1)[:, :-1],
    "planar": lambda x: x.T.contiguous().T,
    "backwards": lambda x: x.flip(1).contiguous().flip(1),
}


@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("axes", range(1, 7))
def test_points_in_one_tensor(device: torch.device, axes: int, dtype: torch.dtype) -> None:
    """Sizes around those of vectors. Values lie on edges and beside them, NaN among them."""
    edges = [torch.tensor([-2.0, -0.5, 0, 3 + d]) for d in range(axes)]
    special = torch.cat([*edges, edges[0].nextafter(torch.tensor(9.0)), torch.zeros(1)])
    if dtype.is_floating_point:
        special[-1] = math.nan
    for size in (0, 1, 7, 8, 9, 16, 17, 32, 33, 64, 67):
        generator = torch.Generator().manual_seed(size)
        picked = torch.randint(len(special), (size, axes), generator=generator)
        points = special[picked].to(dtype)
        expected = oracle.joint_histogram(points.unbind(-1), edges)
        for name, lay_out in POINTS.items():
            laid_out = lay_out(points).to(device)
            got = histogramdd(laid_out, tuple(moved(edges, device))).hist
            assert_counts(got, expected, (name, size))


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
@pytest.mark.parametrize("axes", range(1, 6))
def test_nothing_behind_the_last_point_is_read(axes: int, dtype: torch.dtype) -> None:
    edges = tuple(torch.linspace(-2, 2, 4) for _ in range(axes))
    for size in (1, 8, 16, 17, 32, 64):
        with before_forbidden_page(size * axes, dtype) as values:
            values.copy_(normal(size * axes))
            points = values.view(size, axes)
            expected = oracle.joint_histogram(points.unbind(-1), edges)
            assert_counts(histogramdd(points, edges).hist, expected, size)
            assert histogramdd(points, 3).hist.sum() == size


@pytest.mark.parametrize("axes", [1, 2, 3, 4, 7])
def test_extremes_of_points_in_one_tensor(device: torch.device, axes: int) -> None:
    points = normal(3, 41, axes)
    points[0, 1] = math.nan
    points[1, :, -1] = math.inf
    points = points.to(device)
    own = points.unbind(-1)
    for dim in (None, 0, 1, -1, -2, (0, 1), ()):
        got = histogramdd(points, 2, dim=dim)
        for d, (edges, x) in enumerate(zip(got.bin_edges, own, strict=True)):
            assert torch.equal(edges, histogram(x, 2, dim=dim).bin_edges), (dim, d)
            assert edges.is_contiguous()
    for sample in (points, own):
        with pytest.raises((IndexError, RuntimeError), match="got 2"):
            histogramdd(sample, 2, dim=2)


def test_extremes_of_one_tensor_are_found_in_one_call(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def edges_of(x: Tensor, *others: Any) -> Tensor:
        calls.append(x)
        return histograms.edges_of(x, *others)

    monkeypatch.setattr(joint, "edges_of", edges_of)
    points = normal(50, 3).to(device)
    histogramdd(points, 4)
    assert len(calls) == 1
    assert calls[0] is points


def test_coordinates_broadcast(device: torch.device) -> None:
    x, y = normal(6, 1, 5).to(device), torch.arange(7, device=device)[:, None]
    whole = x.expand(6, 7, 5).contiguous(), y.expand(6, 7, 5).contiguous()
    for dim in (None, 0, 1, (0, 2)):
        got, expected = histogram2d(x, y, 4, dim=dim), histogram2d(*whole, 4, dim=dim)
        assert torch.equal(got.hist, expected.hist)
        assert all(map(torch.equal, got.bin_edges, expected.bin_edges))


def test_ids_and_values(device: torch.device) -> None:
    """An axis of ids beside one of floats: one histogram for each id."""
    ids = torch.randint(0, 5, (300,), generator=torch.Generator().manual_seed(0)).to(device)
    x = normal(300).to(device)
    edges = torch.linspace(-2, 2, 9, device=device)
    got = histogram2d(ids, x, (torch.arange(6, device=device), edges)).hist
    for i in range(5):
        # The last bin of ids holds its upper edge, too, and no id is there.
        assert torch.equal(got[i], histogram(x[ids == i], edges).hist)


def test_confusion_matrix_of_bytes(device: torch.device) -> None:
    a, b = (random_values((1000,), torch.uint8, seed).to(device) for seed in (0, 1))
    edges = torch.arange(257, device=device)
    got = histogram2d(a, b, edges).hist
    joint = a.long() * 256 + b
    assert torch.equal(got, channel_histogram(joint, 65536).view(256, 256))


def test_density(device: torch.device) -> None:
    inputs = torch.rand(3, 400), torch.rand(3, 400)
    edges = torch.tensor([[0, 0.1, 1], [0, 0.5, 0.7], [0.2, 0.3, 0.4]]), torch.linspace(0, 1, 4)
    own = moved(inputs, device), tuple(moved(edges, device))
    got = histogramdd(*own, dim=1, density=True).hist
    assert got.dtype == torch.float32
    areas = edges[0].double().diff()[:, :, None] * edges[1].double().diff()
    assert torch.allclose((got.cpu().double() * areas).sum((1, 2)), torch.ones(3, dtype=F64))
    counts = oracle.joint_histogram(inputs, edges, 1).double()
    expected = counts / areas / counts.sum((1, 2), keepdim=True)
    assert torch.allclose(got.cpu().double(), expected, rtol=1e-6)
    weight = torch.full((400,), 3.0, device=device)
    sums = histogramdd(*own, dim=1, density=True, weight=weight).hist
    assert sums.dtype == F64
    assert torch.allclose(sums.cpu(), expected, rtol=1e-12)
    assert histogram2d(*(x.int() for x in own[0]), 2, density=True).hist.dtype == F64


def test_many_digits_go_by_groups(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_histo import weights

    x, y = normal(7, 30).to(device), normal(7, 30, seed=1).to(device)
    weight = normal(7, 30, seed=2).to(device, F64)
    edges = torch.linspace(-2, 2, 5, device=device)
    whole = histogram2d(x, y, edges, dim=1, weight=weight, density=True)
    monkeypatch.setattr(weights, "_MOST_BYTES", 20000)
    monkeypatch.setattr("torch_histo.joint._MOST_BYTES", 20000)
    assert_sums(histogram2d(x, y, edges, dim=1, weight=weight, density=True).hist, whole.hist)


def test_results(device: torch.device) -> None:
    found = histogram2d(normal(5).to(device), normal(5).to(device))
    assert isinstance(found, JointHistogram)
    assert found.hist.shape == (10, 10)
    assert found.hist.device.type == found.bin_edges[0].device.type == device.type
    assert [type(found.bin_edges), len(found.bin_edges)] == [tuple, 2]
    lists = histogram2d([1, 2, 3], np.array([1.5, 2.5, 3.5]), [2, [0, 3.0, 9]])
    assert lists.hist.tolist() == [[1, 0], [1, 1]]


X, Y = torch.zeros(4), torch.zeros(4, dtype=torch.int32)
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: histogram2d(X, Y[:3]),
        RuntimeError,
        "x and y must broadcast to each other, got sizes [4] and [3]",
    ),
    (
        lambda: histogramdd((X, Y, Y[:3])),
        RuntimeError,
        "sample must hold tensors that broadcast to each other, got sizes [4] and [4] and [3]",
    ),
    (
        lambda: histogram2d(X, Y + 1j),
        RuntimeError,
        "y must have a real dtype (bool, an integer, float16, bfloat16, float32, "
        "float64, float8_e4m3fn or float8_e5m2), got complex64: count y.real and "
        "y.imag apart",
    ),
    (lambda: histogramdd((X, Y), [0.0, 1]), TypeError, "bins[0] must be an int of 64 bits"),
    (
        lambda: histogram2d(X, Y, (3,)),
        RuntimeError,
        "bins must be a number, edges, or a tuple of 2, one an axis, got (3,): pass a "
        "tensor if these are the edges of all axes",
    ),
    (lambda: histogram2d(X, Y, (3, 0)), RuntimeError, "bins[1] must be at least 1, got 0"),
    (lambda: histogram2d(X, Y, 0), RuntimeError, "bins must be at least 1, got 0"),
    (
        lambda: histogram2d(X, Y, (3, 2.5)),
        TypeError,
        "bins[1] must be an int of 64 bits, or a tensor, an array or a list of edges, got 2.5",
    ),
    (
        lambda: histogram2d(X, Y, "a"),
        TypeError,
        "bins must be an int of 64 bits, or a tensor, an array or a list of edges, got 'a'",
    ),
    (
        lambda: histogram2d(X, Y, torch.zeros(2, 3)),
        RuntimeError,
        "bins must be a number, a 1-D tensor of edges, or a tuple with bins for each "
        "axis, got a tensor of sizes [2, 3]",
    ),
    (
        lambda: histogram2d(X, Y, (3, torch.ones(1))),
        RuntimeError,
        "bins[1] must hold at least two edges in the last dimension, got 1",
    ),
    (
        lambda: histogram2d(X, Y, (3, torch.ones(2, 3))),
        RuntimeError,
        "bins[1] must be [n + 1], or have sizes that broadcast to the kept dimensions "
        "and n + 1, [3], got [2, 3]",
    ),
    (
        lambda: histogram2d(X, Y, 3, range=(0, 1)),
        RuntimeError,
        "range must be None, or hold a pair or None for each of 2 axes, got (0, 1)",
    ),
    (
        lambda: histogram2d(X, Y, 3, range=((0, 1),)),
        RuntimeError,
        "range must be None, or hold a pair or None for each of 2 axes, got ((0, 1),)",
    ),
    (
        lambda: histogram2d(X, Y, 3, range=5),
        TypeError,
        "range must be None, or hold a pair or None for each of 2 axes, got 5",
    ),
    (
        lambda: histogram2d(X, Y, 3, range=((0, 1), (1, 0))),
        RuntimeError,
        "range[1] must be two finite numbers, the first not above the second, got (1, 0)",
    ),
    (
        lambda: histogram2d(X, Y, (3, EDGES), range=(None, (0, 1))),
        RuntimeError,
        "range[1] must be left out where bins[1] are edges, got range=(0, 1)",
    ),
    (
        lambda: histogram2d(X, Y, 3, dim=4),
        RuntimeError,
        "dim must be between -1 and 0 for a 1-D x, got 4",
    ),
    (
        lambda: histogram2d(X, Y, 3, density=True, flow=True),
        RuntimeError,
        "density must be False with flow, whose values have no width, got True",
    ),
    (lambda: histogram2d(X, Y, 3, flow=1), TypeError, "flow must be a bool, got 1"),
    (
        lambda: histogram2d(X, Y, 3, weights=1),
        TypeError,
        "weights must be passed as weight, got weights=1",
    ),
    (
        lambda: histogram2d(X, Y, 3, foo=1),
        TypeError,
        "arguments must be x, y, bins, range, dim, channel_dim, weight, density or flow, got foo=1",
    ),
    (
        lambda: histogramdd((X, Y), 3, foo=1),
        TypeError,
        "arguments must be sample, bins, range, dim, channel_dim, weight, density or flow, got "
        "foo=1",
    ),
    (
        lambda: histogram2d(X, "a"),
        TypeError,
        "y must be a tensor, an array, an image or a list of numbers, got str",
    ),
    (
        lambda: histogramdd(X),
        RuntimeError,
        "sample must have the coordinates in its last dimension, [..., D], got [4]: "
        "pass (sample,) if it is one coordinate",
    ),
    (lambda: histogramdd(()), RuntimeError, "sample must hold at least one tensor, got none"),
    (
        lambda: histogramdd((X, X.to_sparse())),
        RuntimeError,
        "sample[1] must be a dense tensor, got layout sparse_coo: pass its to_dense()",
    ),
    (
        lambda: histogramdd(torch.zeros(3, 2).to_sparse()),
        RuntimeError,
        "sample must be a dense tensor, got layout sparse_coo: pass its to_dense()",
    ),
    (
        lambda: histogram2d(X, Y.to("meta")),
        RuntimeError,
        "y must be on the device of x, cpu, got meta",
    ),
    (
        lambda: histogram2d(X, Y, 3, weight=torch.ones(3)),
        RuntimeError,
        "weight must have sizes that broadcast to those of x, [4], got [3]",
    ),
    (
        lambda: histogram2d(X, Y, 3, weight=torch.ones(1, 4)),
        RuntimeError,
        "weight must have at most the dimensions of x, 1, got a 2-D tensor: pass x "
        "expanded to its sizes",
    ),
    (
        lambda: histogramdd((X,) * 8, (torch.arange(1000.0),) * 8),
        RuntimeError,
        "bins must make fewer than 2^63 joint bins, got 999 x 999 x 999 x 999 x 999 x "
        "999 x 999 x 999",
    ),
]


@pytest.mark.parametrize(("call", "kind", "line"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Callable[[], Any], kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=rf"^histogram(2d|dd): {re.escape(line)}") as error:
        call()
    assert "\n" not in str(error.value)


def test_too_many_bins_for_memory() -> None:
    for call in (lambda: histogram2d(X, Y, 1 << 20), lambda: histogramdd((X,) * 5, 5000)):
        with pytest.raises(RuntimeError, match="out of memory") as error:
            call()
        assert "\n" not in str(error.value)


OPERATORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: count([], []), "inputs must hold at least one tensor, got none"),
    (lambda: count([X], []), "edges must hold as many tensors as inputs, 1, got 0"),
    (
        lambda: count([X, Y[:3]], [EDGES] * 2),
        "inputs[1] must have the sizes of inputs[0], [4], got [3]",
    ),
    (lambda: count([X, Y + 1j], [EDGES] * 2), "inputs[1] must have a real dtype"),
    (
        lambda: count([X, Y], [EDGES, EDGES.bool()]),
        "edges[1] must be float32, float64 or integers, got bool",
    ),
    (
        lambda: count([X, Y], [EDGES, EDGES[:1]]),
        "edges[1] must hold at least two edges in the last dimension, got 1",
    ),
    (
        lambda: count([X, Y], [EDGES] * 2, [3]),
        "dim must be between -1 and 0 for a 1-D input, got 3",
    ),
]


@pytest.mark.parametrize(("call", "line"), OPERATORS, ids=range(len(OPERATORS)))
def test_errors_of_operators(call: Callable[[], Any], line: str) -> None:
    with pytest.raises(RuntimeError, match=rf"^joint_histogram: {re.escape(line)}"):
        call()
