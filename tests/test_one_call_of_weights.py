"""Plain calls of histogram with weights, which one operator serves: what the longer way gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from conftest import Dispatches
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import NUMBERS, any_bits, assert_sums, random_values
from test_one_call import RANGES, Subclass, assert_same
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_histo
from torch_histo import histogram, histograms, weights

VALUES = random_values((40, 6), torch.float32)
WEIGHT = any_bits((40, 6), torch.float32)


def the_longer_way(
    input: Tensor, weight: Any, bins: Any = 256, range: Any = None, dim: Any = None, **named: Any
) -> torch_histo.Histogram:
    options = [named.pop(name, False) for name in ("density", "flow")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "_sums_in_one_call", lambda *args: None)
        return histograms.histogram_of(input, bins, range, dim, *options, named, weight=weight)


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """The number of calls of an operator that ended without an error."""
    count, operator = [0], getattr(weights, name)

    def counting(*args: Any) -> Any:
        found = operator(*args)
        count[0] += 1
        return found

    monkeypatch.setattr(weights, name, counting)
    return count


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return counted(monkeypatch, "uniform_sums")


@pytest.fixture
def other_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Those of the operator for edges, or for values."""
    return counted(monkeypatch, "rounded_sums")


@pytest.mark.parametrize("range", RANGES, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types_and_ranges(
    calls: list[int], dtype: torch.dtype, range: Any, device: torch.device
) -> None:
    values = random_values((40, 6), dtype).to(device)
    for dim in (None, 0, (1,), [0, -1]):
        got = histogram(values, 7, range=range, dim=dim, weight=WEIGHT.to(device))
        assert_same(got, the_longer_way(values, WEIGHT.to(device), 7, range, dim))
    assert calls == [4]


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("sizes", [(40, 6), (6,), (40, 1), (1, 1), ()], ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types_and_sizes_of_weights(
    calls: list[int], dtype: torch.dtype, sizes: Any, flow: bool, device: torch.device
) -> None:
    weight = any_bits(sizes, dtype)
    for ends in ((-1, 1.5), None):
        for dim in (None, 0, 1):
            got = histogram(
                VALUES.to(device), 7, range=ends, dim=dim, weight=weight.to(device), flow=flow
            )
            edges = got.bin_edges.cpu()
            expected = oracle.weighted_histogram(VALUES, edges, weight, dim, flow=flow)
            assert_sums(got.hist, expected)
            assert got.hist.is_contiguous()
    assert calls == [6]


@given(
    sizes=st.lists(st.integers(0, 9), max_size=3),
    broadcast=st.lists(st.booleans(), min_size=3, max_size=3),
    bins=st.integers(1, 300),
    ends=st.none() | st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2).map(sorted),
    flow=st.booleans(),
    data=st.data(),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_call(
    device: torch.device,
    sizes: list[int],
    broadcast: list[bool],
    bins: int,
    ends: Any,
    flow: bool,
    data: st.DataObject,
) -> None:
    dims = data.draw(st.none() | st.sets(st.integers(0, max(len(sizes) - 1, 0))).map(sorted))
    values = random_values(sizes, torch.float64, low=-3, high=3)
    of_weight = [1 if one else size for one, size in zip(broadcast, sizes, strict=False)]
    dtype = data.draw(st.sampled_from([torch.float64, torch.bfloat16, torch.int32]))
    weight = any_bits(of_weight, dtype)
    got = histogram(
        values.to(device), bins, range=ends, dim=dims, weight=weight.to(device), flow=flow
    )
    reference = oracle.weighted_histogram(values, got.bin_edges.cpu(), weight, dims, flow=flow)
    assert_sums(got.hist, reference)


@pytest.mark.parametrize("size", [4094, 4096, 4097, 70_000])
def test_computed_and_stored_edges(device: torch.device, size: int) -> None:
    """Few values are compared with edges that are computed, and many with those of the table."""
    line = torch.linspace(-1.1, 1.1, size)
    edges = histogram(line, 256, range=(-1, 1)).bin_edges
    near = torch.cat([edges, *(edges.nextafter(torch.tensor(end)) for end in (-9.0, 9.0)), line])
    weight = any_bits(near.shape, torch.float32)
    got = histogram(near.to(device), 256, range=(-1, 1), weight=weight.to(device))
    assert torch.equal(got.bin_edges.cpu(), edges)
    assert_sums(got.hist, oracle.weighted_histogram(near, edges, weight))


def test_numbers_arrays_and_lists(calls: list[int], device: torch.device) -> None:
    values = VALUES.to(device)
    for weight in (2, 0.5, True, 1 << 63, np.float32(0.1), np.uint64(1 << 63)):
        assert_same(histogram(values, 9, weight=weight), the_longer_way(values, weight, 9))
    assert calls == [6]
    for weight in (WEIGHT.numpy(), WEIGHT[0].tolist()):
        assert_same(histogram(VALUES, 9, weight=weight), the_longer_way(VALUES, weight, 9))
    assert calls == [8]


ERRORS: dict[str, dict[str, Any]] = {
    "complex": {"input": torch.zeros(3, dtype=torch.complex64)},
    "sparse": {"input": torch.zeros(3).to_sparse()},
    "no bins": {"bins": 0},
    "too many bins": {"bins": 1 << 58},
    "dim": {"dim": 2},
    "nan": {"range": (0, math.nan)},
    "decreasing": {"range": (1, 0)},
    "flow": {"flow": None},
    "a weight of other sizes": {"weight": torch.zeros(3)},
    "a weight of more dimensions": {"weight": torch.zeros(1, 40, 6)},
    "a complex weight": {"weight": torch.zeros(6, dtype=torch.complex64)},
    "a sparse weight": {"weight": torch.zeros(40, 6).to_sparse()},
    "a weight elsewhere": {"weight": torch.zeros(6, device="meta")},
    "a weight beyond int64": {"weight": 1 << 64},
    "a text": {"weight": "1"},
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_the_longer_way(calls: list[int], name: str) -> None:
    arguments = {"input": VALUES, "weight": WEIGHT, **ERRORS[name]}
    with pytest.raises((RuntimeError, TypeError)) as expected:
        the_longer_way(**arguments)
    with pytest.raises(expected.type) as got:
        histogram(**arguments)
    assert str(got.value) == str(expected.value)
    assert calls == [0]


def of_mode(values: Tensor, weight: Tensor) -> Tensor:
    with Dispatches() as seen:
        hist = histogram(values, 8, dim=0, weight=weight).hist
    assert seen.of("histo.weighted_histogram") == 1
    return hist


def of_tape(values: Tensor, weight: Tensor) -> Tensor:
    def total(weight: Tensor) -> tuple[Tensor, Tensor]:
        hist = histogram(values, 8, dim=0, weight=weight).hist
        return hist.sum(), hist

    gradient, hist = torch.func.grad(total, has_aux=True)(weight)
    assert torch.equal(gradient, torch.ones_like(weight))
    return hist


OTHERS: dict[str, Any] = {
    "vmap": lambda x, w: torch.func.vmap(lambda v, u: histogram(v, 8, weight=u).hist, in_dims=1)(
        x, w
    ),
    "vmap of weights": lambda x, w: torch.func.vmap(
        lambda u: histogram(x[:, 0], 8, weight=u).hist, in_dims=1
    )(w)[:1],
    "grad": of_tape,
    "mode": of_mode,
    "subclass": lambda x, w: histogram(
        x, 8, dim=0, weight=w.as_subclass(Subclass)
    ).hist.as_subclass(Tensor),
    "requires grad": lambda x, w: histogram(x, 8, dim=0, weight=w.clone().requires_grad_()).hist,
    "compile": lambda x, w: torch.compile(
        lambda v, u: histogram(v, 8, dim=0, weight=u).hist, fullgraph=True, backend="eager"
    )(x, w),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_calls_take_the_longer_way(name: str, calls: list[int]) -> None:
    values = torch.randn((30, 3), generator=torch.Generator().manual_seed(1))
    weight = values.roll(1)
    got = OTHERS[name](values, weight)
    expected = the_longer_way(values, weight, 8, dim=0).hist
    assert_sums(got, expected[: len(got)])
    assert calls == [0]


@pytest.mark.parametrize("arguments", [{"density": True}, {"bins": "sqrt"}], ids=str)
def test_other_arguments_take_the_longer_way(calls: list[int], arguments: dict[str, Any]) -> None:
    if "bins" in arguments:
        with pytest.raises(RuntimeError, match=r"^histogram: "):
            histogram(VALUES, weight=WEIGHT, **arguments)
    else:
        got = histogram(VALUES, 9, weight=WEIGHT, **arguments)
        assert_same(got, the_longer_way(VALUES, WEIGHT, 9, **arguments))
    assert calls == [0]


def test_tangents_are_refused(calls: list[int]) -> None:
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(WEIGHT, torch.ones_like(WEIGHT))
        with pytest.raises(RuntimeError, match=r"^histogram: weight must not have a tangent"):
            histogram(VALUES, 8, weight=dual)
        histogram(VALUES, 8, weight=WEIGHT)
    assert calls == [1]


def test_gradients(calls: list[int]) -> None:
    weight = WEIGHT.nan_to_num(0, 1, 1).requires_grad_()
    histogram(VALUES, 8, dim=0, weight=weight).hist.sum().backward()
    inside = VALUES.isfinite()
    assert torch.equal(weight.grad, inside.float())
    assert calls == [0]
    with torch.no_grad():
        assert not histogram(VALUES, 8, dim=0, weight=weight).hist.requires_grad
    of_inputs = histogram(VALUES.clone().requires_grad_(), 8, dim=0, weight=WEIGHT)
    assert not any(tensor.requires_grad for tensor in of_inputs)
    assert calls == [2]


def test_inference_mode(calls: list[int]) -> None:
    with torch.inference_mode():
        values, weight = VALUES.clone(), WEIGHT.clone()
        got = histogram(values, 8, dim=0, weight=weight)
    assert_same(got, the_longer_way(values, weight, 8, dim=0))
    assert calls == [1]


def test_fake_tensors(calls: list[int]) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        for values in (torch.zeros(40, 6), mode.from_tensor(VALUES)):
            hist, edges = histogram(values, 8, dim=0, weight=WEIGHT)
            assert hist.shape == (6, 8)
            assert edges.shape == (6, 9)
    assert calls == [0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int16], ids=str)
def test_many_digits_take_groups(
    calls: list[int], monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, device: torch.device
) -> None:
    weight = any_bits((40, 6), dtype).to(device)
    values, size = VALUES.to(device), 8 * weights.sum_size(dtype)
    expected = the_longer_way(values, weight, 9, dim=0)
    for most, is_one in ((6 * 9 * size, True), (6 * 9 * size - 1, False)):
        calls[0] = 0
        monkeypatch.setattr(weights, "_MOST_BYTES", most)
        assert_same(histogram(values, 9, dim=0, weight=weight), expected)
        assert calls == [int(is_one)]
    monkeypatch.setattr(weights, "_MOST_BYTES", 0)  # the digits of one channel are not limited
    histogram(values, 9, weight=weight)
    assert calls == [1]


EDGES = torch.tensor([-1.0, -0.25, 0.5, 0.5, 2.0])
OWN = EDGES + torch.arange(6).unsqueeze(1)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_edges_and_values(other_calls: list[int], dtype: torch.dtype, device: torch.device) -> None:
    weight = any_bits((40, 1), dtype)
    values = VALUES.to(device)
    for edges, dim, flow in ((EDGES, None, False), (EDGES, 1, True), (OWN, 0, True)):
        got = histogram(values, edges.to(device), dim=dim, weight=weight.to(device), flow=flow)
        expected = oracle.weighted_histogram(VALUES, edges, weight, dim, flow=flow)
        assert_sums(got.hist, expected)
    integers = VALUES.nan_to_num(0, 1, 1).to(torch.int32)
    for dim in (0, (0, 1)):
        sums = torch_histo.channel_histogram(integers.to(device), 9, dim, weight=weight.to(device))
        assert_sums(sums, oracle.weighted_channel_histogram(integers, weight, 9, dim))
    assert other_calls == [5]


def test_edges_and_values_by_the_longer_way(other_calls: list[int]) -> None:
    integers, weight = VALUES.nan_to_num(0, 1, 1).int(), torch.ones(6, requires_grad=True)
    for bins in (EDGES, OWN.clone().requires_grad_()):
        assert histogram(VALUES, bins, dim=0, weight=weight).hist.requires_grad
    assert torch_histo.channel_histogram(integers, 9, weight=weight).requires_grad
    histogram(VALUES, EDGES, weight=WEIGHT, density=True)
    assert other_calls == [0]
    for bins in (EDGES, OWN.clone().requires_grad_()):
        assert not histogram(VALUES, bins, dim=0, weight=weight.detach()).hist.requires_grad
    assert other_calls == [2]


@pytest.mark.parametrize(
    "call",
    [
        lambda: histogram(VALUES, EDGES[:1], weight=WEIGHT),
        lambda: histogram(VALUES, OWN, dim=1, weight=WEIGHT),
        lambda: histogram(VALUES, EDGES, weight=WEIGHT[:3]),
        lambda: torch_histo.channel_histogram(VALUES, 9, weight=WEIGHT),
        lambda: torch_histo.channel_histogram(VALUES.int(), -1, weight=WEIGHT),
        lambda: torch_histo.channel_histogram(VALUES.int(), 1 << 33, weight=WEIGHT),
        lambda: torch_histo.channel_histogram(VALUES.int(), 9, weight=WEIGHT[:3]),
    ],
)
def test_errors_of_edges_and_values(monkeypatch: pytest.MonkeyPatch, call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^(channel_)?histogram: ") as got:
        call()
    monkeypatch.setattr(weights, "_sums_in_one_call", lambda *args: None)
    with pytest.raises(RuntimeError) as expected:
        call()
    assert str(got.value) == str(expected.value)


def test_edges_and_values_of_many_digits(
    other_calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    integers = VALUES.nan_to_num(0, 1, 1).int()
    monkeypatch.setattr(weights, "_MOST_BYTES", 6 * 9 * 13 * 8 - 1)
    got = torch_histo.channel_histogram(integers, 9, weight=WEIGHT)
    assert other_calls == [0]
    assert_sums(got, oracle.weighted_channel_histogram(integers, WEIGHT, 9, 0))
    histogram(VALUES, EDGES, dim=0, weight=WEIGHT)
    assert other_calls == [1]
