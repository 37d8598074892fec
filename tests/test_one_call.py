"""Plain calls of histogram, which one operator serves: the same as by the longer way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from conftest import Dispatches
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import NUMBERS, random_values
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import torch_histo
from torch_histo import _one_call, histogram, histograms

pytestmark = pytest.mark.sampled(3)

VALUES = random_values((40, 6), torch.float32)


def the_longer_way(
    input: Tensor,
    bins: Any = 256,
    range: Any = None,
    dim: Any = None,
    density: Any = False,
    flow: Any = False,
) -> torch_histo.Histogram:
    return histograms.histogram_of(input, bins, range, dim, density, flow, {})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of calls of the one operator."""
    count = [0]
    operator = _one_call._uniform_histogram

    def counted(*args: Any) -> Any:
        count[0] += 1
        return operator(*args)

    monkeypatch.setattr(_one_call, "_uniform_histogram", counted)
    return count


def assert_same(got: torch_histo.Histogram, expected: torch_histo.Histogram) -> None:
    assert type(got) is torch_histo.Histogram
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert ours.is_contiguous()
        assert ours.device == theirs.device
        bits = [t.view(torch.int32 if t.itemsize == 4 else torch.int64) for t in (ours, theirs)]
        assert torch.equal(*bits)


RANGES = [
    None,
    (0, 1),
    [-3, 250.5],
    (2.0, 2.0),
    (-0.0, 0.0),
    (5e-324, 1e-323),
    (-1.7e308, 1.7e308),
    (np.float64(-2), np.int64(3)),
    (np.float16(0.1), 7),
    (np.uint8(3), np.float64(9)),
    (1 << 60, (1 << 60) + 1),
]


@pytest.mark.parametrize("range", RANGES, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types_and_ranges(
    calls: list[int], dtype: torch.dtype, range: Any, device: torch.device
) -> None:
    values = random_values((40, 6), dtype).to(device)
    for dim in (None, 0, (1,), [0, -1]):
        assert_same(
            histogram(values, 7, range=range, dim=dim), the_longer_way(values, 7, range, dim)
        )
    assert calls == [4]


@given(
    sizes=st.lists(st.integers(0, 9), max_size=3),
    bins=st.integers(1, 300),
    ends=st.none() | st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2).map(sorted),
    density=st.booleans(),
    flow=st.booleans(),
    data=st.data(),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_call(
    device: torch.device,
    sizes: list[int],
    bins: int,
    ends: Any,
    density: bool,
    flow: bool,
    data: st.DataObject,
) -> None:
    flow = flow and not density
    dims = data.draw(st.none() | st.sets(st.integers(0, max(len(sizes) - 1, 0))).map(sorted))
    values = random_values(sizes, torch.float64, low=-3, high=3).to(device)
    got = histogram(values, bins, range=ends, dim=dims, density=density, flow=flow)
    assert_same(got, the_longer_way(values, bins, ends, dims, density, flow))
    if not density:
        reference = oracle.histogram(values.cpu(), got.bin_edges.cpu(), dims, flow=flow)
        assert torch.equal(got.hist.cpu(), reference)


ERRORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "complex": (torch.zeros(3, dtype=torch.complex64), {}),
    "sparse": (torch.zeros(3).to_sparse(), {}),
    "quantized": (torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.quint8), {}),
    "no bins": (VALUES, {"bins": 0}),
    "fewer bins": (VALUES, {"bins": -1, "range": (0, 1)}),
    "too many bins": (VALUES, {"bins": 1 << 62}),
    "bins beyond int64": (VALUES, {"bins": 1 << 64}),
    "dim": (VALUES, {"dim": 2}),
    "dim twice": (VALUES, {"dim": (0, -2)}),
    "dim of floats": (VALUES, {"dim": 0.5}),
    "nan": (VALUES, {"range": (0, math.nan)}),
    "inf": (VALUES, {"range": (-math.inf, 0)}),
    "decreasing": (VALUES, {"range": (1, 0)}),
    "beyond floats": (VALUES, {"range": (0, 10**400)}),
    "three": (VALUES, {"range": (0, 1, 2)}),
    "bools": (VALUES, {"range": (False, True)}),
    "texts": (VALUES, {"range": ("0", "1")}),
    "density": (VALUES, {"density": 1}),
    "flow": (VALUES, {"flow": None}),
    "density and a tensor": (VALUES, {"density": True, "flow": torch.ones(2)}),
    "both": (VALUES, {"flow": True, "density": True}),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_the_longer_way(name: str) -> None:
    values, arguments = ERRORS[name]
    with pytest.raises((RuntimeError, TypeError)) as expected:
        the_longer_way(values, **arguments)
    with pytest.raises(expected.type) as got:
        histogram(values, **arguments)
    assert str(got.value) == str(expected.value)


class Subclass(Tensor):
    pass


def of_traced_graph(values: Tensor) -> Tensor:
    traced = make_fx(lambda x: histogram(x, 8, dim=0).hist)(values)
    assert "_uniform_histogram" not in traced.code
    return traced(values)  # type: ignore[no-any-return]


def in_mode(values: Tensor) -> Tensor:
    with Dispatches() as seen:
        hist = histogram(values, 8, dim=0).hist
    assert seen.of("histo.histogram") == 1
    return hist


def in_tape(values: Tensor) -> Tensor:
    found: list[Tensor] = []

    def loss(x: Tensor) -> Tensor:
        hist, edges = histogram(x, 8, dim=0)
        found.append(hist)
        return x.sum() + edges.sum()

    gradient = torch.func.grad(loss)(values)
    assert torch.equal(gradient, torch.ones_like(values))
    return histogram(values.as_subclass(Subclass), 8, dim=0).hist.as_subclass(Tensor)


OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "vmap": lambda x: torch.func.vmap(lambda v: histogram(v, 8).hist, in_dims=1)(x),
    "grad": in_tape,
    "mode": in_mode,
    "make_fx": of_traced_graph,
    "jit.trace": lambda x: torch.jit.trace(
        lambda v: histogram(v, 8, dim=0).hist, x, check_trace=False
    )(x),
    "compile": lambda x: torch.compile(
        lambda v: histogram(v, 8, dim=0).hist, fullgraph=True, backend="eager"
    )(x),
    "export": lambda x: torch.export.export(Calls(), (x,)).module()(x),
}


class Calls(torch.nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        return histogram(values, 8, dim=0).hist


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", OTHERS)
def test_other_calls_take_the_longer_way(name: str, calls: list[int]) -> None:
    values = torch.randn((30, 3), generator=torch.Generator().manual_seed(1))
    expected = the_longer_way(values, 8, dim=0).hist
    assert torch.equal(OTHERS[name](values), expected)
    assert calls == [0]


def test_fake_tensors(calls: list[int]) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        for values in (torch.zeros(5, 3), VALUES[:, :3], mode.from_tensor(VALUES[:, :3])):
            hist, edges = histogram(values, 8, dim=0)
            assert hist.shape == (3, 8)
            assert edges.shape == (3, 9)
    assert calls == [0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"range": (np.float32(0.1), np.float32(0.9))},
        {"range": (np.float32(0.1), 0.9)},
        {"range": (torch.tensor(0.1), torch.tensor(0.9))},
        {"range": torch.tensor([0.1, 0.9])},
        {"range": np.array([0.1, 0.9])},
        {"bins": np.int64(9)},
        {"bins": torch.linspace(0, 1, 5)},
    ],
    ids=str,
)
def test_arguments_of_other_types(calls: list[int], arguments: dict[str, Any]) -> None:
    assert_same(histogram(VALUES, **arguments), the_longer_way(VALUES, **arguments))
    assert calls == [0]


@pytest.mark.parametrize("range", [None, (0, 3)])
def test_inputs_that_require_gradients(calls: list[int], range: Any, device: torch.device) -> None:
    of_device = VALUES.to(device)
    for values in (torch.nn.Parameter(of_device), of_device.clone().requires_grad_() * 2):
        found = histogram(values, 8, range=range, density=True)
        assert not any(tensor.requires_grad for tensor in found)
        assert_same(found, the_longer_way(values.detach(), 8, range, density=True))
    assert calls == [2]


def test_inference_mode(calls: list[int]) -> None:
    with torch.inference_mode():
        values = VALUES.clone()
        assert_same(histogram(values, 8, dim=0), the_longer_way(values, 8, dim=0))
    assert_same(histogram(values, 8, dim=0), the_longer_way(values, 8, dim=0))
    assert calls == [2]


@pytest.mark.parametrize("range", RANGES, ids=str)
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.float64])
def test_edges_of_weights_and_axes(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, range: Any, device: torch.device
) -> None:
    """One call makes them: the same as those of a histogram, and as those of the longer way."""
    values = random_values((40, 6), dtype).to(device)
    expected = histogram(values, 7, range=range, dim=0).bin_edges

    def edges() -> list[Tensor]:
        weighted = histogram(values, 7, range=range, dim=0, weight=2, density=True)
        ranges = None if range is None else (range, None)
        joint = torch_histo.histogram2d(values, values, 7, range=ranges, dim=0)
        return [weighted.bin_edges, *joint.bin_edges]

    count, operator = [0], _one_call._edges_of

    def counted(*args: Any) -> Any:
        count[0] += 1
        return operator(*args)

    monkeypatch.setattr(_one_call, "_edges_of", counted)
    found = edges()
    assert count == [3]
    monkeypatch.setattr(histograms, "edges_in_one_call", lambda *args: None)
    the_longer = edges()
    assert count == [3]
    bits = torch.int32 if expected.itemsize == 4 else torch.int64
    for one, other in zip(found, the_longer, strict=True):
        assert torch.equal(one.view(bits), other.view(bits))
    assert torch.equal(found[0].view(bits), expected.view(bits))
    assert torch.equal(found[1].view(bits), expected.view(bits))


def test_edges_of_axes_are_those_of_a_histogram(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    """One call makes those of all axes, whatever their types, ranges and numbers of bins are."""
    dtypes = [torch.float32, torch.int64, torch.bfloat16, torch.float64, torch.uint8]
    ranges = [(-1.5, 2.25), (0, 7), (-3, 3.0), (1e-300, 1e300), (np.float32(0.1), 200)]
    numbers = [7, 1000, 3, 1, 255]
    values = [random_values((40,), dtype).to(device) for dtype in dtypes]
    calls, operator = [0], _one_call._edges_of_axes

    def counted(*args: Any) -> Any:
        calls[0] += 1
        return operator(*args)

    monkeypatch.setattr(_one_call, "_edges_of_axes", counted)
    for axes in (2, 3, 5):
        joint = torch_histo.histogramdd(values[:axes], numbers[:axes], range=ranges[:axes])
        found = joint.bin_edges
        for own, x, bins, ends in zip(found, values, numbers, ranges, strict=False):
            expected = histogram(x, bins, range=ends).bin_edges
            assert own.dtype == expected.dtype
            assert torch.equal(own, expected)
        assert len({own.untyped_storage().data_ptr() for own in found}) == axes
    assert calls == [3]


@pytest.mark.usefixtures("flush_denormal")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_subnormals_are_numbers(dtype: torch.dtype) -> None:
    tiny = torch.tensor([1, 2, 3, 5], dtype=torch.int16 if dtype.itemsize == 2 else torch.int32)
    if dtype.itemsize == 8:
        tiny = tiny.long()
    values = tiny.view(dtype)
    for range in (None, (0.0, 1e-3)):
        found = histogram(values, 4, range=range)
        # The longer way finds its range by torch's operators, which would make it 0.
        torch.set_flush_denormal(False)
        expected = the_longer_way(values, 4, range)
        torch.set_flush_denormal(True)
        assert_same(found, expected)


@pytest.mark.parametrize("range", [[0.0], [0.0, math.inf], [1.0, 0.0], [math.nan, 0.0], []])
def test_the_operator_checks_its_range(range: list[float]) -> None:
    with pytest.raises(RuntimeError, match=r"^histogram: range must be two finite numbers.*got \["):
        torch.ops.histo._uniform_histogram(VALUES, 4, range, None, False)
