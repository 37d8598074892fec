"""torch_histo.histogram: edges, range, density and flow against NumPy; fakes, vmap, compilers."""

from __future__ import annotations

import doctest
import io
import math
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Dispatches
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import torch_histo
from torch_histo import Histogram, StreamingHistogram, histogram, histograms

COUNT = torch.ops.histo.histogram.default
RANGE = torch.ops.histo.finite_range.default
EDGES = torch.ops.histo.uniform_edges.default
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


def test_ranges_of_arrays_and_lists() -> None:
    """They are exact: a list of floats is float64, as an array is what it says."""
    values, low, high = numbers((50, 4)), [-1.1, 0, 0.1, -2], [1.3, 2.5, 1, 3]
    wide = [torch.tensor(bound, dtype=torch.float64) for bound in (low, high)]
    expected = histogram(values, 8, range=wide, dim=0)
    for bounds in ((low, high), (np.array(low), wide[1]), [tuple(low), np.array(high)]):
        for found, same in zip(histogram(values, 8, range=bounds, dim=0), expected, strict=True):
            assert torch.equal(found, same)
        stream, of_tensors = (StreamingHistogram(8, range=ends) for ends in (bounds, wide))
        assert torch.equal(stream.edges, of_tensors.edges)
    ends = np.array(-1.1, np.float32), np.array(1.3, np.float32)
    hist, bin_edges = np.histogram(values.numpy(), 8, range=ends)
    found = histogram(values, 8, range=ends)
    assert found.hist.tolist() == hist.tolist()
    assert found.bin_edges.tolist() == bin_edges.tolist()


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
BINS = "bins must be an int of 64 bits, or a tensor, an array or a list of edges, got"
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
        {"input": ["a"]},
        TypeError,
        "input must be a tensor, an array, an image or a list of numbers, got list of str: "
        "pass numpy.unique(input, return_inverse=True)[1], which numbers them",
    ),
    ({"bins": 0}, RuntimeError, "bins must be at least 1, got 0"),
    ({"bins": -3, "range": (0, 1)}, RuntimeError, "bins must be at least 1, got -3"),
    ({"bins": 2.5}, TypeError, f"{BINS} 2.5"),
    ({"bins": True}, TypeError, f"{BINS} True"),
    (
        {"bins": "scot"},
        TypeError,
        "bins must be a number, edges, or one of 'auto', 'fd', 'rice', 'sqrt' or 'sturges', "
        "got 'scot'",
    ),
    ({"bins": [torch.tensor(1)]}, TypeError, f"{BINS} list of Tensor: pass torch.stack(bins)"),
    ({"bins": ["a", "b"]}, TypeError, f"{BINS} list of str"),
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
        {"range": torch.tensor([0.0, 1.0, 2.0])},
        TypeError,
        f"{PAIR} tensor([0., 1., 2.])",
    ),
    (
        {"range": torch.tensor([[0, 1], [2, 3]])},
        TypeError,
        f"{PAIR} tensor([[0, 1], [2, 3]]): pass tuple(range) or (range[..., 0], range[..., 1])",
    ),
    (
        {"range": np.array([[0, 1], [2, 3], [4, 5]])},
        TypeError,
        f"{PAIR} array([[0, 1], [2, 3], [4, 5]]): pass (range[..., 0], range[..., 1])",
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
    ({"weights": None}, TypeError, "weights must be passed as weight, got weights=None"),
    (
        {"out": None},
        TypeError,
        "arguments must be input, bins, range, dim, channel_dim, weight, density or flow, got "
        "out=None",
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


OPCHECKS = [
    ((50,), torch.float32, (5,), None),
    ((50, 6), torch.bfloat16, (9,), [0]),
    ((50, 6), torch.float64, (6, 9), [0]),
    ((50, 6), torch.int64, (1, 9), [-2]),
    ((5, 6, 7), torch.uint8, (5, 7, 4), [1]),
    ((5, 6, 7), torch.float16, (7, 2), [1]),
    ((0, 3), torch.float32, (3, 2), [0]),
    ((), torch.float32, (4,), None),
]


@pytest.mark.parametrize(("shape", "dtype", "edges", "dim"), OPCHECKS)
def test_opcheck(
    device: torch.device,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    edges: tuple[int, ...],
    dim: list[int] | None,
) -> None:
    values = numbers(shape, dtype).to(device)
    bounds = numbers(edges).sort(-1).values.to(device)
    for flow in (False, True):
        torch.library.opcheck(COUNT, (values, bounds, dim), {"flow": flow})
    torch.library.opcheck(RANGE, (values, dim))


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_opcheck_of_float8(device: torch.device, dtype: torch.dtype) -> None:
    # torch compares no float8, which the other checks of opcheck do with the inputs.
    tests = ("test_faketensor", "test_autograd_registration")
    values = numbers((20, 3), dtype).to(device)
    torch.library.opcheck(COUNT, (values, torch.arange(4.0).to(device), [0]), test_utils=tests)
    torch.library.opcheck(RANGE, (values, [0]), test_utils=tests)


def test_opcheck_of_edges(device: torch.device) -> None:
    for low, high in (((), ()), ((3,), ()), ((2, 1), (3,)), ((0,), (0,))):
        bounds = torch.zeros(low, device=device), torch.ones(high, device=device)
        for dtype in (torch.float32, torch.float64):
            torch.library.opcheck(EDGES, (*bounds, 5), {"dtype": dtype})


@pytest.mark.parametrize("dtype", [*FLOATS, *FLOAT8, *INTEGERS], ids=str)
def test_meta_and_fake(dtype: torch.dtype) -> None:
    """Shapes, dtypes and devices are those of a real call."""
    calls: list[dict[str, Any]] = [
        {},
        {"dim": 0},
        {"dim": (0, -1), "flow": True},
        {"bins": 9, "range": (0, 1)},
        {"bins": 9, "range": (0, 1), "density": True, "dim": 1},
    ]
    for arguments in calls:
        real = histogram(numbers((4, 5, 6), dtype), **arguments)
        meta = histogram(torch.empty(4, 5, 6, dtype=dtype, device="meta"), **arguments)
        with FakeTensorMode():
            fake = histogram(torch.empty(4, 5, 6, dtype=dtype, device="cuda"), **arguments)
        for found, kind in ((meta, "meta"), (fake, "cuda")):
            for got, expected in zip(found, real, strict=True):
                assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
                assert got.device.type == kind


def test_operators_refuse_fakes_in_the_same_words() -> None:
    """The fakes meet what the operators meet, and say the same."""
    cases: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (COUNT, (X.cfloat(), torch.zeros(2)), {}),
        (COUNT, (X, torch.zeros(2), [2]), {}),
        (COUNT, (X, torch.zeros(1)), {}),
        (COUNT, (X, torch.tensor(0.0)), {}),
        (COUNT, (X, torch.zeros(2).half()), {}),
        (COUNT, (X, torch.zeros(2, 4), [0]), {}),
        (COUNT, (X, torch.zeros(3, 4)), {}),
        (COUNT, (X, torch.zeros(2, 3, 4), [0]), {}),
        (RANGE, (X.cfloat(),), {}),
        (RANGE, (X, [0, -2]), {}),
        (EDGES, (X, X, 0), {"dtype": torch.float32}),
        (EDGES, (X, X.double(), 1), {"dtype": torch.float32}),
        (EDGES, (X.half(), X.half(), 1), {"dtype": torch.float32}),
        (EDGES, (X, torch.zeros(2), 1), {"dtype": torch.float32}),
        (EDGES, (X, X, 1), {"dtype": torch.int64}),
    ]
    for op, arguments, keywords in cases:
        lines = []
        for kind in ("cpu", "meta"):
            moved = [a.to(kind) if isinstance(a, Tensor) else a for a in arguments]
            with pytest.raises(RuntimeError) as caught:
                op(*moved, **keywords)
            lines.append(str(caught.value))
        assert lines[0] == lines[1]
        assert "\n" not in lines[0]


def test_edges_of_symbolic_sizes() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    values = mode.from_tensor(torch.zeros(7, 5), static_shapes=False)
    edges = mode.from_tensor(torch.zeros(5, 9), static_shapes=False)
    with mode:
        counts = COUNT(values, edges, [0], flow=True)
        assert counts.shape == (5, 11)
        assert isinstance(counts.shape[1], torch.SymInt)
        message = r"kept dimensions and n \+ 1, \[7, 9\], got \[5, 9\]"
        with pytest.raises(RuntimeError, match=message):
            COUNT(values, edges, [1])
        with pytest.raises(RuntimeError, match="bins must be at least 1, got -2"):
            histogram(values, values.shape[0] - 9)


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


CALLS: dict[str, Callable[[Tensor], Histogram]] = {
    "extremes": lambda x: histogram(x, 9, dim=0),
    "numbers": lambda x: histogram(x, 9, range=(-1, 1.5), dim=0, flow=True),
    "tensors": lambda x: histogram(x, 9, range=torch.aminmax(x, dim=0), dim=0),
    "edges": lambda x: histogram(x, x.amax(0)[:, None] + x.new_tensor([-9.0, -1, 0]), dim=0),
    "density": lambda x: histogram(x, 9, density=True),
}


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_one_graph(device: torch.device, call: str, dynamic: bool) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(CALLS[call], fullgraph=True, dynamic=dynamic, backend=counter)
    lengths = (20, 33, 57) if dynamic else (20, 20)
    for length in lengths:
        values = numbers((length, length // 3), seed=length).to(device)
        for got, expected in zip(compiled(values), CALLS[call](values), strict=True):
            assert_same(got, expected.cpu())
    assert counter.frame_count == 1


def test_arrays_in_a_graph() -> None:
    """A compiler has other objects for arrays and numbers of NumPy, and none for lists."""
    values = numbers((50, 4)).numpy()
    calls: list[Callable[[Any], Histogram]] = [
        lambda x: histogram(x, 8, range=(-1, 1), dim=0),
        lambda x: histogram(x, np.sort(x[0])),
        lambda x: histogram(x, np.int64(8), range=(np.float64(-1.1), np.float64(1.3))),
        lambda x: histogram(x, 8, range=(np.float32(-1.1), np.float32(1.3))),
        lambda x: histogram(x, 8, range=(x.min(0), x.max(0)), dim=0),
        lambda x: histogram(x, 8, range=np.stack((x.min(0), x.max(0))), dim=0),
        lambda x: histogram(x, 8, range=np.sort(x[0])[::3]),
    ]
    for call in calls:
        compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
        for found, expected in zip(compiled(values), call(values), strict=True):
            assert_same(found, expected)


@pytest.mark.usefixtures("fresh_compiler")
def test_one_graph_of_inductor(device: torch.device) -> None:
    compiled = torch.compile(lambda x: histogram(x * 2, 40, dim=0), fullgraph=True, dynamic=True)
    values = numbers((50, 4)).to(device)
    assert_same(compiled(values).hist, histogram(values * 2, 40, dim=0).hist.cpu())


@pytest.mark.usefixtures("fresh_compiler")
def test_bins_and_edges_of_each_call(device: torch.device) -> None:
    """A new number of bins, of edges, or range is no new program."""
    values = numbers((50, 4)).to(device)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda x, n, low, high: histogram(x, n, range=(low, high)),
        fullgraph=True,
        dynamic=True,
        backend=counter,
    )
    for bins, low, high in ((7, -1.5, 2.5), (9, 0.25, 0.75), (300, -8.0, 6.5)):
        found, expected = (
            compiled(values, bins, low, high),
            histogram(values, bins, range=(low, high)),
        )
        assert_same(found.bin_edges, expected.bin_edges.cpu())
        assert_same(found.hist, expected.hist.cpu())
    assert counter.frame_count == 1
    for bounds in (torch.arange(n, device=device) / 4 for n in (5, 9, 40)):
        of_edges = torch.compile(histogram, fullgraph=True, dynamic=True, backend=counter)
        assert_same(of_edges(values, bounds).hist, histogram(values, bounds).hist.cpu())
    assert counter.frame_count == 2
    with pytest.raises(RuntimeError, match="bins must be at least 1, got"):
        compiled(values, -3, 0.5, 1.5)


def test_export(device: torch.device) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, ...]:
            return (*histogram(x, 16, dim=0), histogram(x, edges, flow=True).hist)

    length, edges = torch.export.Dim("length"), torch.export.Dim("edges", min=2)
    example = (numbers((20, 3)).to(device), torch.arange(5.0, device=device))
    program = torch.export.export(Module(), example, dynamic_shapes=({0: length}, {0: edges}))
    values, bounds = numbers((70, 3), seed=2).to(device), torch.arange(9.0, device=device)
    found = program.module()(values, bounds)
    expected = (*histogram(values, 16, dim=0), histogram(values, bounds, flow=True).hist)
    for got, want in zip(found, expected, strict=True):
        assert_same(got, want.cpu())


def test_a_saved_program_returns_the_named_tuple(device: torch.device) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Tensor) -> Histogram:
            return histogram(x, 4)

    values, file = numbers((20,)).to(device), io.BytesIO()
    torch.export.save(torch.export.export(Module(), (values,)), file)
    file.seek(0)
    found = torch.export.load(file).module()(values)
    assert isinstance(found, Histogram)
    assert_same(found.hist, histogram(values, 4).hist.cpu())


VMAP_SHAPES = [
    ((4, 7, 3), (5,), (0,)),
    ((4, 7, 3), (3, 5), (0,)),
    ((4, 7, 3), (7, 1, 5), (0,)),
    ((7, 3), (5,), (0, 1)),
    ((7,), (5,), (0,)),
    ((), (5,), ()),
    ((4, 7, 3, 2), (3, 1, 5), (0, 1)),
]


@pytest.mark.parametrize(("shape", "edges", "dim"), VMAP_SHAPES)
def test_vmap_of_values_and_edges(
    device: torch.device, shape: tuple[int, ...], edges: tuple[int, ...], dim: tuple[int, ...]
) -> None:
    """Any of the two mapped, or both, along any dimension: one call, and that of a loop."""
    for at, edges_at in product((None, *range(len(shape) + 1)), (None, *range(len(edges) + 1))):
        if at is None and edges_at is None:
            continue
        values, bounds = (
            numbers(sizes if d is None else (*sizes[:d], 5, *sizes[d:]), seed=3)
            for sizes, d in ((shape, at), (edges, edges_at))
        )
        bounds = bounds.sort(-1 if edges_at != len(edges) else -2).values
        samples = values.unbind(at) if at is not None else [values] * 5
        of_each = bounds.unbind(edges_at) if edges_at is not None else [bounds] * 5
        loop = [COUNT(v, e, dim, flow=True) for v, e in zip(samples, of_each, strict=True)]
        mapped = torch.vmap(lambda v, e: COUNT(v, e, dim, flow=True), in_dims=(at, edges_at))
        with Dispatches() as calls:
            got = mapped(values.to(device), bounds.to(device))
        assert calls.of("histo.") == 1
        if at is None:
            assert calls.of("aten.clone") == calls.of("aten.copy") == 0
        assert_same(got, torch.stack(loop))


def test_vmap_of_edges_copies_no_input() -> None:
    values = torch.zeros(1 << 20)
    edges = torch.rand(300, 3).sort().values
    assert torch.vmap(lambda e: COUNT(values, e))(edges).shape == (300, 2)


@pytest.mark.parametrize("bounds", [None, (-1, 2)], ids=["extremes", "numbers"])
def test_vmap_of_the_function(device: torch.device, bounds: tuple[float, float] | None) -> None:
    values = numbers((6, 20, 4))
    for at, dim in product((0, 1, 2), (None, 0, 1)):
        mapped = torch.vmap(lambda x, d=dim: histogram(x, 8, range=bounds, dim=d), in_dims=at)
        with Dispatches() as calls:
            found = mapped(values.to(device))
        assert calls.of("histo.histogram") == calls.of("histo.uniform_edges") == 1
        for k, sample in enumerate(values.unbind(at)):
            expected = histogram(sample, 8, range=bounds, dim=dim)
            assert_same(found.hist[k], expected.hist)
            assert_same(found.bin_edges[k], expected.bin_edges)


def test_vmap_of_ranges(device: torch.device) -> None:
    values = numbers((20, 4)).to(device)
    low = torch.tensor([-1.0, -2.0, 0.5], device=device)
    found = torch.vmap(lambda x: histogram(values, 5, range=(x, 3), dim=0))(low)
    twice = torch.vmap(lambda x: torch.vmap(lambda v: histogram(v, 5, range=(x, x + 2)))(values))(
        low
    )
    for k, first in enumerate(low.tolist()):
        assert_same(found.hist[k], histogram(values, 5, range=(first, 3), dim=0).hist.cpu())
        expected = histogram(values, 5, range=(first, first + 2), dim=1).hist
        assert_same(twice.hist[k], expected.cpu())


def test_vmap_errors_are_about_a_sample() -> None:
    with pytest.raises(RuntimeError, match="dim must be between -1 and 0 for a 1-D input, got 1"):
        torch.vmap(lambda x: histogram(x, dim=1))(X)
    with pytest.raises(RuntimeError, match=r"kept dimensions and n \+ 1, \[3, 4\], got \[2, 4\]"):
        torch.vmap(lambda x: histogram(x, torch.zeros(2, 4), dim=0))(torch.zeros(6, 5, 3))
