"""Sums of weights by bin: exact, rounded once, whatever the order, the types and the groups."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import FLOATS, NUMBERS, any_bits, assert_sums, like, random_values
from torch import Tensor

from torch_histo import channel_histogram, histogram, weights

pytestmark = pytest.mark.sampled(2)

EDGES = torch.tensor([-10.0, 0.5, 3, 3, 100, 250])
F64 = torch.float64


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_weights_of_any_bits(device: torch.device, dtype: torch.dtype, flow: bool) -> None:
    values, weight = random_values((70, 3), torch.float32), any_bits((70, 3), dtype)
    for dim in (None, 0, 1):
        expected = oracle.weighted_histogram(values, EDGES, weight, dim, flow=flow)
        moved = values.to(device), EDGES.to(device)
        got = histogram(*moved, dim=dim, weight=weight.to(device), flow=flow)
        assert_sums(got.hist, expected, dim)
        assert torch.equal(got.bin_edges.cpu(), EDGES)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_values_of_every_dtype(device: torch.device, dtype: torch.dtype) -> None:
    values, weight = random_values((60,), dtype), any_bits((60,), torch.float32)
    expected = oracle.weighted_histogram(values, EDGES, weight)
    got = histogram(values.to(device), EDGES.to(device), weight=weight.to(device)).hist
    assert_sums(got, expected)
    if not dtype.is_floating_point:
        expected = oracle.weighted_channel_histogram(values, weight, 200)
        assert_sums(channel_histogram(values.to(device), 200, weight=weight.to(device)), expected)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("dim", [None, 0, (0, -1), -2])
def test_weights_of_values(device: torch.device, dtype: torch.dtype, dim: Any) -> None:
    values, weight = random_values((5, 9, 4), torch.int16, low=-2, high=9), any_bits((9, 1), dtype)
    expected = oracle.weighted_channel_histogram(values, weight, 7, dim)
    got = channel_histogram(values.to(device), 7, dim, weight=weight.to(device))
    assert_sums(got, expected)
    assert_sums(
        channel_histogram(values.to(device), bins=7, dim=dim, weight=like(weight, device)), got
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_more_weights_than_a_fixed_point_number_has_room_for(
    device: torch.device, sign: int
) -> None:
    """Their significands have all bits, and the first one's exponent shifts the others far."""
    size, most = (1 << 21) + 999, sign * math.nextafter(2, 0)
    weight = torch.full((size,), most, dtype=F64, device=device)
    weight[0] = 4 * sign
    for bins in (1, 300):
        got = channel_histogram(
            torch.zeros(size, dtype=torch.uint8, device=device), bins, weight=weight
        )
        assert got.tolist()[0] == float(4 * sign + (size - 1) * Fraction(most))
        assert not got[1:].any()


MAGNITUDES = st.sampled_from([0.0, 1.0, 3.0, 2.0**-149, 2.0**-1074, 2.0**127, 1.5e308, 2.0**970])
NUMBER = MAGNITUDES | MAGNITUDES.map(lambda v: -v) | st.floats()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 4), NUMBER), max_size=30), st.randoms(), st.booleans())
def test_any_numbers_in_any_order(pairs: list[Any], chance: Any, flow: bool) -> None:
    edges = torch.arange(5)
    shuffled = chance.sample(pairs, len(pairs))
    found = []
    for of in (pairs, shuffled):
        values = torch.tensor([value for value, _ in of], dtype=torch.int64)
        weight = torch.tensor([number for _, number in of], dtype=F64)
        found.append(histogram(values, edges, weight=weight, flow=flow).hist)
        assert_sums(found[-1], oracle.weighted_histogram(values, edges, weight, flow=flow))
    assert_sums(*found)


def test_hostile_weights(device: torch.device) -> None:
    """Cancellation, one huge among many small ones, and many equal ones."""
    wide = torch.exp2(torch.linspace(-149, 127, 2000, dtype=F64)).float()
    cases = {
        "cancel": torch.cat((wide, torch.tensor([2.0**-149]), -wide)),
        "huge": torch.cat((torch.tensor([2.0**127]), torch.full((3000,), 1.0))),
        "subnormal": torch.arange(1, 3000, dtype=torch.int32).view(torch.float32),
        "equal": torch.full((3000,), 0.1),
    }
    for name, weight in cases.items():
        values = torch.zeros(len(weight))
        expected = oracle.exact_sum(weight.double().tolist())
        got = histogram(values.to(device), 1, range=(0, 1), weight=weight.to(device)).hist
        assert got.tolist() == [expected], name


def test_very_many_equal_ones(device: torch.device) -> None:
    """One element that is seen 2^33 times by strides of 0."""
    if device.type == "cpu":
        pytest.skip("needs a GPU")
    values = torch.zeros((), device=device).expand(1 << 33)
    assert histogram(values, 2, range=(0, 1), weight=0.1).hist.tolist() == [
        oracle.exact_sum([0.1 * 2.0**33]),
        0,
    ]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_is_not_finite(device: torch.device, dtype: torch.dtype) -> None:
    """In each bin, and in flow: NaN decides, both infinities do, and then one."""
    slots = torch.tensor([-1.0, 0, 1, 2, math.nan])
    kinds = [[math.nan], [math.inf, -math.inf], [math.inf], [-math.inf], [math.nan, math.inf], []]
    wanted = [math.nan, math.nan, math.inf, -math.inf, math.nan, 2.5]
    for at, value in enumerate(slots.tolist()):
        for kind, expected in zip(kinds, wanted, strict=True):
            if dtype == torch.float8_e4m3fn and math.inf in map(abs, kind):
                continue
            weight = torch.tensor([*kind, 2.0, 0.5]).to(dtype)
            values = torch.full(weight.shape, value)
            edges = torch.tensor([0.0, 1, 1.5], device=device)
            got = histogram(values.to(device), edges, weight=weight.to(device), flow=True).hist
            own = torch.zeros(5, dtype=F64)
            own[at] = expected
            assert_sums(got, own, (value, kind))


@pytest.mark.parametrize(
    "shape", [(), (1,), (4,), (1, 4), (3, 1), (3, 4), (5, 1, 1), (5, 3, 4), (1, 1, 4)], ids=str
)
@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.uint8], ids=str)
def test_broadcast(device: torch.device, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    values, weight = random_values((5, 3, 4), torch.float32), random_values(shape, dtype, low=-9)
    for dim in (None, 0, 2, (1, 2)):
        expected = oracle.weighted_histogram(values, EDGES, weight, dim)
        got = histogram(values.to(device), EDGES.to(device), dim=dim, weight=weight.to(device))
        assert_sums(got.hist, expected)


def test_sizes_of_nothing(device: torch.device) -> None:
    edges = torch.arange(3.0, device=device)
    nothing = torch.empty(0, 4, device=device)
    got = histogram(nothing, edges, dim=0, weight=torch.empty(0, 1, device=device)).hist
    assert_sums(got, torch.zeros(4, 2, dtype=F64))
    assert histogram(nothing, edges, dim=1, weight=1).hist.shape == (0, 2)
    number = torch.tensor(1.5, device=device)
    assert_sums(histogram(number, edges, weight=number).hist, torch.tensor([0, 1.5], dtype=F64))
    assert channel_histogram(nothing.bool(), 0, weight=1.0).shape == (4, 0)


NUMBERS_GIVEN: list[tuple[Any, Any]] = [
    (0.1, 0.30000000000000004),  # 3 of them, rounded once
    (True, 3),
    (7, 21),
    (2**64 - 1, -3),
    (-(2**63), -(2**63)),
    (np.float32(0.1), 3 * float(np.float32(0.1))),
    (np.int8(-3), -9),
    (np.uint64(2**64 - 1), -3),
    (np.array(0.5), 1.5),
    (np.bool_(1), 3),
    ([0.1, 0.2, 0.3], 0.6),
    ([1, 2, 3], 6),
    (np.array([1, 2, 3], np.float16), 6.0),
    ([2**64 - 1, 1, 5], 5),
]


@pytest.mark.parametrize(("given", "expected"), NUMBERS_GIVEN, ids=repr)
def test_numbers_arrays_and_lists(device: torch.device, given: Any, expected: float) -> None:
    if device.type == "cuda" and np.ndim(given):
        pytest.skip("an array is on the CPU: its GPU has no case")
    values = torch.zeros(3, device=device)
    for got in (
        histogram(values, 1, range=(0, 1), weight=given).hist,
        channel_histogram(values.bool(), 1, weight=given),
    ):
        assert got.tolist() == [expected]
        assert got.dtype == (F64 if isinstance(expected, float) else torch.int64)


def test_counts_are_weights_of_one(device: torch.device) -> None:
    values = random_values((50, 6), torch.float32).to(device)
    for weight in (1, True, 1.0, torch.ones((), dtype=torch.float16, device=device)):
        for arguments in ({}, {"range": (-3, 200.5), "flow": True}, {"bins": 7, "dim": 1}):
            counts = histogram(values, **arguments)
            got = histogram(values, weight=weight, **arguments)
            assert torch.equal(got.bin_edges, counts.bin_edges)
            assert torch.equal(got.hist, counts.hist.to(got.hist.dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.bool, torch.int32], ids=str)
def test_density(device: torch.device, dtype: torch.dtype) -> None:
    """By the total of the digits, not of rounded sums."""
    values, weight = random_values((60, 3), torch.float32), random_values((60, 3), dtype)
    if dtype.is_floating_point:
        weight = weight.double().nan_to_num(0, 1, 1).to(dtype)
    edges = torch.tensor([-10.0, 0.5, 3, 100, 250])
    for bins in (edges, edges.double(), edges.int()):
        sums = oracle.weighted_histogram(values, bins, weight, 0)
        whole = bins[[0, -1]]
        total = oracle.weighted_histogram(values, whole, weight, 0)
        expected = sums / bins.double().diff() / total
        moved = values.to(device), bins.to(device)
        got = histogram(*moved, dim=0, weight=weight.to(device), density=True).hist
        assert got.dtype == F64
        assert torch.equal(got.cpu(), expected)
    nothing = (
        histogram(values.to(device), [500.0, 600.0], weight=1.5, density=True).hist
        if (device.type == "cpu")
        else torch.tensor([math.nan])
    )
    assert nothing.isnan().all()


def test_the_total_of_a_density_is_rounded_once(device: torch.device) -> None:
    values = torch.arange(3.0, device=device)
    weight = torch.tensor([2.0**60, 1.0, -(2.0**60)], device=device)
    got = histogram(values, torch.arange(4.0, device=device), weight=weight, density=True).hist
    assert got.tolist() == [2.0**60, 1, -(2.0**60)]


@pytest.mark.parametrize("most", [0, 1000, 3000, 20_000])
@pytest.mark.parametrize("dim", [None, 0, 2, (0, 2), ()])
@pytest.mark.parametrize("own", [False, True])
def test_groups_of_channels(
    device: torch.device, most: int, dim: Any, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same result, and no more digits at a time than are allowed, or one channel's."""
    values, weight = random_values((4, 7, 5), torch.float32), any_bits((7, 1), F64)
    edges = EDGES
    kept = oracle.histogram(values, EDGES, dim).shape[:-1]
    if own:
        edges = EDGES + torch.arange(math.prod(kept)).reshape(*kept, 1)
    taken = []

    def noted(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def noting(*args: Any, **named: Any) -> Tensor:
            taken.append(call(*args, **named))
            return taken[-1]

        return noting

    monkeypatch.setattr(weights, "_sums_in_one_call", lambda *args: None)
    for name in ("weighted_histogram", "weighted_channel_histogram"):
        monkeypatch.setattr(weights, name, noted(getattr(weights, name)))
    monkeypatch.setattr(weights, "_MOST_BYTES", most)
    moved = values.to(device), edges.to(device)
    for flow, density in ((False, False), (True, False), (False, True)):
        taken.clear()
        got = histogram(*moved, dim=dim, weight=weight.to(device), flow=flow, density=density).hist
        one = 560 * (len(EDGES) - 1 + 3 * flow)
        assert all(digits.nbytes <= max(most, one) for digits in taken)
        least = math.ceil(math.prod(kept) / max(most // one, 1))
        assert least <= len(taken) <= 2 * least + 3
        if not density:
            assert_sums(got, oracle.weighted_histogram(values, edges, weight, dim, flow=flow))
    integers = values.nan_to_num(0, 1, 1).to(torch.int32)
    got = channel_histogram(integers.to(device), 9, dim, weight=weight.to(device))
    assert_sums(got, oracle.weighted_channel_histogram(integers, weight, 9, dim))


def test_errors_of_groups_are_those_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_MOST_BYTES", 0)
    test_errors_of_one_line(*ERRORS[0])
    with pytest.raises(RuntimeError, match=r"^histogram: bins must .*, \[7, 4\], got \[3, 4\]$"):
        histogram(torch.zeros(5, 7), torch.zeros(3, 4), dim=0, weight=1.0)


@pytest.mark.usefixtures("flush_denormal")
def test_subnormals_are_numbers_in_every_mode() -> None:
    for dtype, bits in ((torch.float32, torch.int32), (F64, torch.int64)):
        weight = torch.arange(1, 8, dtype=bits).view(dtype)
        got = histogram(torch.zeros(7), 1, range=(0, 1), weight=weight).hist.view(torch.int64)
        smallest = 28 << 925 if dtype == torch.float32 else 28
        expected = smallest if dtype == F64 else torch.tensor(28.0, dtype=F64) * 2.0**-149
        assert int(got) == (expected if dtype == F64 else int(expected.view(torch.int64)))


ZEROS = torch.zeros(4, 3)
WEIGHT_ERRORS: list[tuple[dict[str, Any], str]] = [
    (
        {"weight": torch.zeros(2, 3)},
        "weight must have sizes that broadcast to those of input, [4, 3], got [2, 3]",
    ),
    (
        {"weight": torch.zeros(1, 4, 3)},
        "weight must have at most the dimensions of input, 2, got a 3-D tensor: pass input "
        "expanded to its sizes",
    ),
    (
        {"weight": torch.zeros(3, device="meta")},
        "weight must be on the device of input, cpu, got meta: pass weight.to(input.device)",
    ),
    (
        {"weight": torch.zeros(3, dtype=torch.complex64)},
        "weight must have a real dtype (bool, an integer, float16, bfloat16, float32, float64, "
        "float8_e4m3fn or float8_e5m2), got complex64: sum up weight.real and weight.imag apart",
    ),
    (
        {"weight": "a"},
        "weight must be a number, a tensor, an array or a list of numbers, got str",
    ),
    ({"weight": 2**64}, f"weight must be a number of 64 bits, got {2**64}"),
    ({"weight": -(2**63) - 1}, f"weight must be a number of 64 bits, got {-(2**63) - 1}"),
    ({"weights": 3}, "weights must be passed as weight, got weights=3"),
    ({"w": 3}, "w must be passed as weight, got w=3"),
    ({"sample_weight": 3}, "sample_weight must be passed as weight, got sample_weight=3"),
]
ERRORS: list[tuple[Callable[[], Any], str]] = [
    *((lambda a=a: histogram(ZEROS, 4, **a), f"histogram: {line}") for a, line in WEIGHT_ERRORS),
    *(
        (lambda a=a: channel_histogram(ZEROS.int(), 4, **a), f"channel_histogram: {line}")
        for a, line in WEIGHT_ERRORS
    ),
    (
        lambda: channel_histogram(ZEROS.byte(), 4, weight=1, variant="tiled"),
        "channel_histogram: variant must be 'auto' with weight, got 'tiled'",
    ),
    (
        lambda: channel_histogram(ZEROS, 4, weight=1),
        "channel_histogram: input must have an integer or bool dtype, got float32: "
        "torch_histo.histogram counts floats; or round it (input.float().round().long()) first",
    ),
    (
        lambda: channel_histogram(ZEROS.int(), -1, weight=1),
        "channel_histogram: num_bins must be at least 0, got -1",
    ),
    (
        lambda: histogram(ZEROS, 4, weight=1.0, dim=2),
        "histogram: dim must be between -2 and 1 for a 2-D input, got 2",
    ),
    (
        lambda: histogram(ZEROS, 4, weight=1.0, density=True, flow=True),
        "histogram: density must be False with flow, whose values have no width, got True",
    ),
    (
        lambda: histogram(ZEROS, torch.zeros(2, 4), dim=0, weight=1.0),
        "histogram: bins must be [n + 1], or have sizes that broadcast to the kept dimensions "
        "and n + 1, [3, 4], got [2, 4]",
    ),
]


@pytest.mark.parametrize(("call", "line"), ERRORS, ids=[line[:70] for _, line in ERRORS])
def test_errors_of_one_line(call: Callable[[], Any], line: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=f"^{re.escape(line)}$"):
        call()
