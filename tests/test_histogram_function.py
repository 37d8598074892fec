"""torch_histo.histogram: edges, range, density and flow against NumPy; fakes, vmap, compilers."""

from __future__ import annotations

import doctest
import math
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import torch_histo
from torch_histo import Histogram, histogram, histograms

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int32, torch.int64)


def numbers(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Normal numbers with ties, so that many lie on edges."""
    chance = torch.Generator().manual_seed(seed)
    values = (torch.randn(shape, generator=chance) * 8).round() / 4
    return (values * 8).abs().clamp(0, 100).to(dtype) if dtype in INTEGERS else values.to(dtype)


def by_numpy(values: Tensor, edges: Tensor, flow: bool = False) -> Tensor:
    """Counts of one channel; float64 holds what these tests count."""
    numbers, bounds = values.double().flatten().numpy(), edges.double().numpy()
    counts = np.histogram(numbers[np.isfinite(numbers)], bounds)[0].tolist()
    if flow:
        below, above = np.sum(numbers < bounds[0]), np.sum(numbers > bounds[-1])
        counts = [below, *counts, above, np.isnan(numbers).sum()]
    return torch.tensor([int(count) for count in counts])


def assert_same(got: Tensor, expected: Tensor) -> None:
    assert got.dtype == expected.dtype
    assert torch.equal(got.cpu().nan_to_num(-1), expected.nan_to_num(-1)), (got, expected)


@pytest.mark.parametrize("dtype", [*FLOATS, *FLOAT8, *INTEGERS], ids=str)
@pytest.mark.parametrize("flow", [False, True])
def test_types_of_values(device: torch.device, dtype: torch.dtype, flow: bool) -> None:
    values = numbers((40, 5), dtype)
    found = histogram(values.to(device), 12, range=(-1, 2.5), flow=flow)
    assert type(found) is Histogram
    assert found.bin_edges.device.type == device.type
    small = dtype in (*FLOATS[:3], *FLOAT8)
    assert found.bin_edges.dtype == (torch.float32 if small else torch.float64)
    edges = np.histogram_bin_edges(np.zeros(1), 12, (-1, 2.5))
    assert_same(found.bin_edges, torch.from_numpy(edges).to(found.bin_edges.dtype))
    assert_same(found.hist, by_numpy(values, found.bin_edges.cpu(), flow))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8], ids=str)
def test_what_numpy_returns(device: torch.device, dtype: type[Any]) -> None:
    """Counts and edges bit for bit, with a range of Python numbers, float32 scalars and none."""
    chance = np.random.default_rng(0)
    for _ in range(30):
        low, high = sorted(float(x) for x in chance.normal(0, 100, 2))
        values = chance.normal(low, high - low + 1, 50)
        if dtype is np.uint8:
            values = np.abs(values) % 256
        values = values.astype(dtype)
        bins = int(chance.integers(1, 40))
        for bounds in (None, (low, high), (np.float32(low), np.float32(high)), (low, low), (3, 7)):
            counts, edges = np.histogram(values, bins, bounds)
            found = histogram(torch.from_numpy(values).to(device), bins, range=bounds)
            # Only uint8 and float32 scalars have another dtype: NumPy has float32 there.
            assert found.bin_edges.dtype == torch.from_numpy(edges).dtype or dtype is np.uint8
            assert_same(found.bin_edges, torch.from_numpy(edges).to(found.bin_edges.dtype))
            assert_same(found.hist, torch.from_numpy(counts))
            of_edges = histogram(torch.from_numpy(values).to(device), found.bin_edges)
            assert_same(of_edges.hist, torch.from_numpy(counts))
            assert of_edges.bin_edges is found.bin_edges


def test_float32_scalars_of_numpy_compute_in_float32() -> None:
    """Not in every range is that another edge; here it is."""
    low, high = np.float32(0.1), np.float32(0.9)
    values = torch.zeros(1)
    scalars, wide = (
        histogram(values, 37, range=bounds).bin_edges
        for bounds in ((low, high), (float(low), float(high)))
    )
    assert not torch.equal(scalars, wide)
    pair = (torch.tensor(low), torch.tensor(high))
    assert_same(histogram(values, 37, range=pair).bin_edges, scalars)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_density(device: torch.device, dtype: torch.dtype) -> None:
    values = numbers((60, 3), dtype)
    for bins in (10, torch.tensor([-2.0, -1.0, 0.5, 4.0], dtype=dtype)):
        on_device = bins.to(device) if isinstance(bins, Tensor) else bins
        found = histogram(values.to(device), on_device, density=True)
        arguments = bins.numpy() if isinstance(bins, Tensor) else bins
        expected = np.histogram(values.double().numpy(), arguments, density=True)[0]
        if dtype == torch.float64:
            assert_same(found.hist, torch.from_numpy(expected))
        else:
            torch.testing.assert_close(found.hist.cpu(), torch.from_numpy(expected).float())
    channels = histogram(values.to(device), 5, dim=0, density=True)
    assert channels.hist.shape == (3, 5)
    torch.testing.assert_close(
        (channels.hist * channels.bin_edges.diff()).sum(-1).cpu(), torch.ones(3, dtype=dtype)
    )


def test_density_of_nothing_and_of_infinite_width(device: torch.device) -> None:
    edges = torch.tensor([[-math.inf, 0.0, 1.0], [5.0, 6.0, 7.0]], device=device)
    values = torch.tensor([[-1.0, 0.0], [0.5, 0.5], [0.25, 9.0]], device=device)
    found = histogram(values, edges, dim=0, density=True)
    assert_same(found.hist, torch.tensor([[0.0, 2 / 3], [math.nan, math.nan]]))
    whole = histogram(values, torch.tensor([0, 1, 9], device=device), density=True)
    assert whole.hist.dtype == torch.float64
    assert whole.hist.tolist() == [4 / 5, 1 / 8 / 5]


def test_channels_have_ranges_of_their_own(device: torch.device) -> None:
    values = numbers((4, 60, 3))
    values[0, :5] = torch.tensor([math.nan, math.inf, -math.inf, 7, -7]).unsqueeze(1)
    for dim, flow in product((1, (0, 1), (0, 2), None), (False, True)):
        found = histogram(values.to(device), 9, dim=dim, flow=flow)
        dims = list(range(3)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
        rows = math.prod(values.shape[d] for d in dims)
        channels = values.movedim(dims, list(range(-len(dims), 0))).reshape(-1, rows)
        edges, counts = found.bin_edges.cpu().reshape(-1, 10), found.hist.cpu()
        counts = counts.reshape(-1, counts.shape[-1])
        for channel, bounds, got in zip(channels, edges, counts, strict=True):
            finite = channel[channel.isfinite()].numpy()
            assert_same(bounds, torch.from_numpy(np.histogram_bin_edges(finite, 9)))
            assert_same(got, by_numpy(channel, bounds, flow))


def test_channels_without_a_range(device: torch.device) -> None:
    """No finite value: 0 to 1. One value: half a step to both sides."""
    columns = [[math.nan] * 3, [math.inf, -math.inf, math.nan], [3.0, 3.0, math.nan], [-0.0, 0, 0]]
    values = torch.tensor(columns, device=device).t()
    found = histogram(values, 2, dim=0, flow=True)
    assert found.bin_edges.tolist() == [[0, 0.5, 1], [0, 0.5, 1], [2.5, 3, 3.5], [-0.5, 0, 0.5]]
    assert found.hist.tolist() == [
        [0, 0, 0, 0, 3],
        [1, 0, 0, 1, 1],
        [0, 0, 2, 0, 1],
        [0, 0, 3, 0, 0],
    ]
    empty = histogram(values[:0], 2, dim=0)
    assert empty.bin_edges.tolist() == [[0, 0.5, 1]] * 4
    assert not empty.hist.any()


def test_ranges_of_tensors(device: torch.device) -> None:
    values = numbers((50, 4)).to(device)
    low, high = torch.aminmax(values, dim=0)
    own = histogram(values, 8, dim=0)
    for bounds in ((low, high), torch.aminmax(values, dim=0), [low.double(), high.double()]):
        found = histogram(values, 8, range=bounds, dim=0)
        assert found.bin_edges.shape == (4, 9)
        assert torch.equal(found.hist.sum(-1), torch.full((4,), 50, device=device))
    assert_same(histogram(values, 8, range=(low, high), dim=0).hist, own.hist.cpu())
    mixed = histogram(values, 8, range=(-20, high), dim=0)
    assert mixed.bin_edges[:, 0].tolist() == [-20] * 4
    one = histogram(values, 8, range=(torch.tensor(-1, device=device), 1), dim=0)
    assert one.bin_edges.shape == (9,)
    assert_same(one.hist, histogram(values, 8, range=(-1, 1), dim=0).hist.cpu())
    unknown = (torch.tensor([math.nan, 5.0, 1, 2], device=device), torch.ones(4, device=device))
    found = histogram(values, 2, range=unknown, dim=0, flow=True)
    assert found.hist[:2].any() == 0
    assert found.bin_edges[2].tolist() == [0.5, 1, 1.5]
    assert found.hist[2].sum() == 50
    assert found.hist[3].any() == 0


def test_integers_of_64_bits_lose_nothing(device: torch.device) -> None:
    """float64 has not all of them, so the extremes are rounded outwards."""
    far = (1 << 62) + 1
    values = torch.tensor([far, far + 2, -far], device=device)
    found = histogram(values, 4)
    assert int(found.hist.sum()) == 3
    assert histogram(values[:1], 4).hist.sum() == 1


def test_no_gradient(device: torch.device) -> None:
    values = numbers((30, 2)).to(device).requires_grad_()
    bounds = (values.amin(0), values.amax(0))
    for found in (
        histogram(values, 4, dim=0),
        histogram(values, 4, dim=0, range=bounds),
        histogram(values, 4, range=(0, 1), density=True),
    ):
        assert not found.hist.requires_grad
        assert not found.bin_edges.requires_grad


def test_bins_of_other_integers(device: torch.device) -> None:
    values = numbers((30,)).to(device)
    expected = histogram(values, 5, range=(0, 1)).hist.cpu()
    for bins in (np.int64(5), torch.tensor(5), np.array(5)):
        assert_same(histogram(values, bins, range=(0, 1)).hist, expected)


X = torch.zeros(6, 3)
REAL = (
    "bool, an integer, float16, bfloat16, float32, float64, float8_e4m3fn or float8_e5m2), "
    "got complex64: count input.real and input.imag apart"
)
BROADCAST = (
    "bins must be [n + 1], or have sizes that broadcast to the kept dimensions and n + 1, "
    "[3, 5], got [2, 5]"
)
BINS = "bins must be an int of 64 bits or a tensor of edges, got"
PAIR = "range must be a pair of numbers or of tensors, got"
FINITE = "range must be two finite numbers, the first not above the second, got"
ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"input": X.cfloat()}, RuntimeError, f"input must have a real dtype ({REAL}"),
    (
        {"input": X.cfloat(), "range": (0, 1)},
        RuntimeError,
        f"input must have a real dtype ({REAL}",
    ),
    (
        {"input": X.to_sparse()},
        RuntimeError,
        "input must be a dense tensor, got layout sparse_coo: pass its to_dense()",
    ),
    (
        {"input": [0.5, 1.0]},
        TypeError,
        "input must be a torch.Tensor, got list: pass torch.as_tensor(input)",
    ),
    ({"bins": 0}, RuntimeError, "bins must be at least 1, got 0"),
    ({"bins": -3, "range": (0, 1)}, RuntimeError, "bins must be at least 1, got -3"),
    ({"bins": 2.5}, TypeError, f"{BINS} 2.5"),
    ({"bins": True}, TypeError, f"{BINS} True"),
    ({"bins": "auto"}, TypeError, f"{BINS} 'auto'"),
    ({"bins": [0, 1]}, TypeError, f"{BINS} [0, 1]: pass torch.as_tensor(bins)"),
    (
        {"bins": np.array([0, 1])},
        TypeError,
        f"{BINS} array([0, 1]): pass torch.as_tensor(numpy.asarray(bins))",
    ),
    ({"bins": torch.tensor(2.5)}, TypeError, f"{BINS} tensor(2.5000)"),
    ({"bins": 1 << 63}, TypeError, f"bins must be an int of 64 bits, got {1 << 63}"),
    (
        {"bins": torch.tensor([0, 1]), "range": (0, 1)},
        RuntimeError,
        "range must be left out where bins are edges, got range=(0, 1)",
    ),
    (
        {"bins": torch.tensor([1.0])},
        RuntimeError,
        "bins must hold at least two edges in the last dimension, got 1",
    ),
    ({"bins": torch.zeros(2, 5), "dim": 0}, RuntimeError, BROADCAST),
    (
        {"bins": torch.zeros(5).half()},
        RuntimeError,
        "bins must be float32, float64 or integers, got float16: pass bins.float()",
    ),
    ({"range": 3}, TypeError, f"{PAIR} 3"),
    ({"range": (1, 2, 3)}, TypeError, f"{PAIR} (1, 2, 3)"),
    ({"range": ("0", "1")}, TypeError, f"{PAIR} ('0', '1')"),
    ({"range": (False, True)}, TypeError, f"{PAIR} (False, True)"),
    (
        {"range": torch.tensor([0.0, 1.0])},
        TypeError,
        f"{PAIR} tensor([0., 1.]): pass tuple(range)",
    ),
    ({"range": (1, 0)}, RuntimeError, f"{FINITE} (1, 0)"),
    ({"range": (0, math.inf)}, RuntimeError, f"{FINITE} (0, inf)"),
    ({"range": (math.nan, 1)}, RuntimeError, f"{FINITE} (nan, 1)"),
    ({"range": (0, 10**310)}, RuntimeError, f"{FINITE} (0, 1{'0' * 72}..."),
    (
        {"range": (torch.zeros(2), torch.ones(3)), "dim": 0},
        RuntimeError,
        "range must be tensors that broadcast with each other, got sizes [2] and [3]",
    ),
    (
        {"range": (torch.zeros(2), torch.ones(2)), "dim": 0},
        RuntimeError,
        "range must have sizes that broadcast to the kept dimensions, [3], got [2]",
    ),
    (
        {"range": (torch.zeros(2), 1)},
        RuntimeError,
        "range must have sizes that broadcast to the kept dimensions, [], got [2]",
    ),
    ({"dim": 2}, RuntimeError, "dim must be between -2 and 1 for a 2-D input, got 2"),
    ({"dim": (0, -2)}, RuntimeError, "dim must name each dimension once, got [0, -2]"),
    ({"dim": 0.5}, TypeError, "dim must be an int or a sequence of ints, got 0.5"),
    (
        {"dim": 1 << 63},
        TypeError,
        f"dim must be an int or a sequence of ints of 64 bits, got [{1 << 63}]",
    ),
    ({"density": 1}, TypeError, "density must be a bool, got 1"),
    ({"flow": None}, TypeError, "flow must be a bool, got None"),
    (
        {"density": True, "flow": True},
        RuntimeError,
        "density must be False with flow, whose values have no width, got True",
    ),
    ({"min": 0}, TypeError, "min must be passed as range=(min, max), got min=0"),
    ({"num_bins": 4}, TypeError, "num_bins must be passed as bins, got num_bins=4"),
    ({"axis": 0}, TypeError, "axis must be passed as dim, got axis=0"),
    (
        {"weight": None},
        TypeError,
        "weight must be left out: every element counts 1, got weight=None",
    ),
    (
        {"out": None},
        TypeError,
        "arguments must be input, bins, range, dim, density or flow, got out=None",
    ),
]


@pytest.mark.parametrize(("arguments", "kind", "line"), ERRORS, ids=lambda value: str(value)[:40])
def test_errors_of_one_line(arguments: dict[str, Any], kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=f"^histogram: {re.escape(line)}$"):
        histogram(**{"input": X, **arguments})


def test_range_on_another_device() -> None:
    bounds = (torch.zeros(3, device="meta"), torch.ones(3, device="meta"))
    line = (
        "histogram: range must be on the device of input, cpu, got meta: "
        "pass numbers, or tensors moved by .to(input.device)"
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(line)}$"):
        histogram(X, range=bounds, dim=0)


def test_example() -> None:
    names = {"torch": torch, "torch_histo": torch_histo}
    found = doctest.testmod(histograms, extraglobs=names)
    assert found.attempted >= 5
    assert not found.failed
