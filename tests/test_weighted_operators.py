"""The operators of weights: each digit of each sum against Python's integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import oracle
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layouts import VIEWS
from oracle import DTYPES, FLOATS, NUMBERS, like, random_values
from torch import Tensor

pytestmark = pytest.mark.sampled(4)

HISTO = torch.ops.histo
EDGES = torch.linspace(-10, 250, 14)
INF, NAN = math.inf, math.nan
PROPERTIES = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=[1, 2, 7])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def assert_digits(got: Tensor, expected: Tensor, about: object = "") -> None:
    assert got.dtype == torch.int64, about
    assert got.shape == expected.shape, (about, got.shape, expected.shape)
    differing = (got.cpu() != expected).nonzero().tolist()
    assert not differing, (about, len(differing), differing[:3])


def assert_same(got: Tensor, expected: Tensor) -> None:
    """The same type and bits, but for those of NaN."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    got = got.cpu()
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got.nan_to_num(nan=7), expected.nan_to_num(nan=7))
    assert not (got.signbit() & (got == 0)).any()


def assert_between(
    device: torch.device,
    x: Tensor,
    weight: Tensor,
    edges: Tensor = EDGES,
    dim: Any = None,
    *,
    flow: bool = True,
) -> Tensor:
    """Digits and rounded sums; returns the digits."""
    moved = (like(tensor, device) for tensor in (x, edges, weight))
    got: Tensor = HISTO.weighted_histogram(*moved, dim, flow=flow)
    about = (x.dtype, weight.dtype, x.shape, x.stride(), weight.shape, weight.stride(), dim)
    assert_digits(got, oracle.weighted_digits(x, weight, edges, dim, flow=flow), about)
    assert_same(HISTO.sum_of_digits(got), oracle.sums_of_digits(got))
    return got


def assert_values(
    device: torch.device, x: Tensor, weight: Tensor, num_bins: int = 9, dim: Any = 0
) -> Tensor:
    dims = [] if dim is None else dim
    got: Tensor = HISTO.weighted_channel_histogram(
        like(x, device), like(weight, device), num_bins, dims
    )
    about = (x.dtype, weight.dtype, x.shape, x.stride(), weight.shape, weight.stride(), dim)
    expected = oracle.weighted_digits(x, weight, None, dim, num_bins=num_bins)
    assert_digits(got, expected, about)
    return got


def any_bits(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Numbers of all bits: all magnitudes, subnormals, infinities and NaN."""
    if dtype == torch.bool:
        return random_values(shape, dtype, seed)
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randint(0, 256, (*shape, dtype.itemsize), generator=generator).to(torch.uint8)
    return raw.view(dtype).reshape(shape)


def finite(weight: Tensor) -> Tensor:
    # Not by where, which several types lack.
    kept = weight.clone()
    for i, number in enumerate(kept.flatten().double().tolist()):
        if not math.isfinite(number):
            kept.view(-1)[i] = 1.0
    return kept


# types


@pytest.mark.parametrize("weight_dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types_between_edges(
    device: torch.device, dtype: torch.dtype, weight_dtype: torch.dtype
) -> None:
    x = random_values((70, 3), dtype)
    assert_between(device, x, any_bits((70, 3), weight_dtype), dim=0)
    if weight_dtype.is_floating_point:
        assert_between(device, x, finite(any_bits((70, 3), weight_dtype, 1)))


@pytest.mark.parametrize("weight_dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types_of_values(
    device: torch.device, dtype: torch.dtype, weight_dtype: torch.dtype
) -> None:
    x = random_values((70, 3), dtype, low=-2, high=9)
    assert_values(device, x, any_bits((70, 3), weight_dtype))


@pytest.mark.parametrize("weight_dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 1025, 3000])
def test_lengths_of_blocks(device: torch.device, weight_dtype: torch.dtype, length: int) -> None:
    """So many rows that tables pay, too, and blocks that end anywhere."""
    x = random_values((length,), torch.float32, low=-11, high=252)
    assert_between(device, x, any_bits((length,), weight_dtype))
    assert_between(device, x, finite(any_bits((length,), weight_dtype)), flow=False)
    values = random_values((length,), torch.int32, low=-1, high=9)
    assert_values(device, values, any_bits((length,), weight_dtype, 2))


@pytest.mark.parametrize("bins", [1, 2, 255, 256, 257, 1000])
def test_bins(device: torch.device, bins: int) -> None:
    x = torch.rand(4000, generator=torch.Generator().manual_seed(0)) * 1.2 - 0.1
    weight = torch.randn(4000, generator=torch.Generator().manual_seed(1))
    edges = torch.linspace(0, 1, bins + 1)
    for flow in (False, True):
        assert_between(device, x, weight, edges, flow=flow)
    assert_values(device, (x * bins).long(), weight, bins, None)


@pytest.mark.parametrize("bins", [65533, 65534, 65535, 65536, 70000])
def test_slots_of_16_and_of_32_bits(device: torch.device, bins: int) -> None:
    x = torch.tensor([-1, 0, 1, bins - 2, bins - 1, bins, bins + 1, 1 << 40])
    weight = torch.arange(1.0, 9)
    for flow in (False, True):
        got = HISTO.weighted_histogram(
            x.to(device), torch.arange(bins + 1).to(device), weight.to(device), flow=flow
        )
        sums = HISTO.sum_of_digits(got).cpu()
        wanted = {0: 2.0, 1: 3.0, bins - 2: 4.0, bins - 1: 11.0}
        if flow:
            wanted = {k + 1: v for k, v in wanted.items()} | {0: 1.0, bins + 1: 15.0}
        assert {k: float(sums[k]) for k in sums.nonzero().flatten().tolist()} == wanted
    got = HISTO.weighted_channel_histogram(x.to(device), weight.to(device), bins)
    sums = HISTO.sum_of_digits(got).cpu()
    assert {k: float(sums[k]) for k in sums.nonzero().flatten().tolist()} == {
        0: 2.0, 1: 3.0, bins - 2: 4.0, bins - 1: 5.0
    }  # fmt: skip


# hostile weights


def of_type(numbers: list[float], dtype: torch.dtype) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64).to(dtype)


def cancelling(dtype: torch.dtype) -> Tensor:
    numbers = torch.randn(300, generator=torch.Generator().manual_seed(0)).to(dtype).double()
    return torch.cat([numbers, -numbers.flip(0)]).to(dtype)


def subnormal(dtype: torch.dtype) -> Tensor:
    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    return any_bits((600,), dtype).view(raw).bitwise_and(3).view(dtype)


def largest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max


def tiny(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).tiny


HOSTILE: dict[str, Callable[[torch.dtype], Tensor]] = {
    "every magnitude": lambda dtype: of_type(
        [n for k in range(0, 150, 3) for n in (2.0**k, -(1.5 * 2.0**k), 2.0**-k)], dtype
    ),
    "cancels": cancelling,
    "one huge among small": lambda dtype: of_type(
        [largest(dtype), *[tiny(dtype)] * 400, -largest(dtype)], dtype
    ),
    "largest": lambda dtype: of_type([largest(dtype)] * 600, dtype),
    "negative": lambda dtype: of_type([-tiny(dtype)] * 600, dtype),
    "zeros": lambda dtype: of_type([0.0, -0.0] * 300, dtype),
    "subnormal": subnormal,
    "small, then 1": lambda dtype: of_type([tiny(dtype)] * 600 + [1.0] * 600, dtype),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_hostile_weights(device: torch.device, dtype: torch.dtype, kind: str) -> None:
    weight = finite(HOSTILE[kind](dtype))
    few = torch.tensor([0.0, 1.0, 2.0])
    for x in (torch.zeros(len(weight)), torch.arange(len(weight)).float() % 4 - 1):
        assert_between(device, x, weight, few)
    assert_between(device, torch.zeros(len(weight)), weight, EDGES)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("repeats", [1, 300])
def test_not_finite_in_each_bin_and_in_flow(
    device: torch.device, dtype: torch.dtype, repeats: int
) -> None:
    """Each kind, and each beside numbers, in every bin, below, above and at NaN."""
    places = torch.tensor([-1.0, 0.0, 1.0, 5.0, NAN])
    kinds = [[NAN], [INF], [-INF], [INF, -INF], [1.0, INF], [-2.0, -INF], [NAN, INF, -INF], [3.0]]
    for place in range(len(places)):
        for kind in kinds:
            x = places.repeat(len(kind) + 1)
            weight = torch.ones(len(x))
            weight[place : 5 * len(kind) : 5] = torch.tensor(kind)
            x, weight = x.repeat(repeats), weight.repeat(repeats).to(dtype)
            for flow in (False, True):
                digits = assert_between(device, x, weight, torch.tensor([0.0, 1, 2]), flow=flow)
            sums = HISTO.sum_of_digits(digits).cpu()
            own = weight[place::5].double()
            assert_same(sums[place], own.sum())


def test_a_table_of_other_exponents(device: torch.device) -> None:
    """The first weights do not tell the magnitudes of the others, nor those of other channels."""
    x = (torch.arange(5000) % 14).float().repeat(2, 1)
    weight = torch.full((2, 5000), 2.0**-100)
    weight[0, 700:] = 3.0
    weight[0, 2000:] = -(2.0**120)
    weight[0, 3000:] = 2.0**-140
    weight[1, ::7] = 2.0**30
    edges = torch.arange(15.0)
    assert_between(device, x, weight, edges, 1)
    assert_between(device, x.t().contiguous(), weight.t().contiguous(), edges, 0)
    assert_between(device, x.double(), weight.double() ** 7, edges, 1)
    assert_between(device, x.t().double(), weight.t().double() ** 7, edges, 0)


@PROPERTIES
@given(data=st.data())
def test_any_bits_of_any_type(device: torch.device, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(FLOATS))
    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    limits = torch.iinfo(raw)
    bits = data.draw(st.lists(st.integers(limits.min, limits.max), min_size=1, max_size=40))
    weight = torch.tensor(bits, dtype=raw).view(dtype).repeat(data.draw(st.integers(1, 60)))
    x = torch.arange(len(weight)) % data.draw(st.integers(1, 5))
    assert_between(device, x.float(), weight, torch.arange(4.0))
    assert_values(device, x, weight, 4)


# shapes


@PROPERTIES
@given(data=st.data())
def test_any_shape_and_broadcast(device: torch.device, data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 5), min_size=0, max_size=6))
    x = random_values(shape, torch.float32, data.draw(st.integers(0, 9)))
    x = x.permute(data.draw(st.permutations(range(len(shape)))))
    ndim = max(len(shape), 1)
    dims = data.draw(st.lists(st.integers(-ndim, ndim - 1), unique_by=lambda d: d % ndim))
    own = [size if data.draw(st.booleans()) else 1 for size in x.shape]
    own = own[data.draw(st.integers(0, len(own))) :]
    dtype = data.draw(st.sampled_from((torch.float32, torch.float64, torch.int64, torch.float16)))
    weight = any_bits(tuple(own), dtype)
    weight = weight.to(memory_format=torch.contiguous_format)
    assert_between(device, x, weight, dim=dims, flow=data.draw(st.booleans()))
    assert_values(device, x.nan_to_num(0, 0, 0).int(), weight, 30, dims)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dim", [None, 0, -1], ids=str)
def test_views(device: torch.device, view: str, dim: Any) -> None:
    x = VIEWS[view](random_values((20, 15, 10), torch.float32))
    weight = VIEWS[view](torch.randn(20, 15, 10, generator=torch.Generator().manual_seed(0)))
    assert_between(device, x, weight, dim=dim)
    assert_between(device, x.contiguous(), weight.bfloat16(), dim=dim)
    flipped = weight.transpose(0, -1).contiguous().transpose(0, -1)
    assert_between(device, x, flipped, dim=dim)


@pytest.mark.parametrize("weight_dtype", NUMBERS, ids=str)
def test_one_weight_for_all_and_one_a_channel(
    device: torch.device, weight_dtype: torch.dtype
) -> None:
    x = random_values((600, 5), torch.float32)
    bits = any_bits((40,), weight_dtype)
    for i in range(40):
        assert_between(device, x[:, 0], bits[i])
    assert_between(device, x, bits[:5], dim=0)
    assert_between(device, x.t(), bits[:5, None], dim=1)
    assert_between(device, x, bits[:1], dim=1)
    integers = random_values((600, 5), torch.uint8, low=0, high=9)
    assert_values(device, integers, bits[:5])
    assert_values(device, integers, bits[7], dim=None)


@pytest.mark.parametrize(
    "number", [2.0**-149, 1.5 * 2.0**127, -1.0, 1.0 - 2.0**-24, NAN, -INF, 0.0]
)
def test_many_equal_weights(device: torch.device, number: float) -> None:
    """As many as 2^33: counts times the weight."""
    many = torch.zeros((), device=device).expand(1 << 16, 1 << 4)
    for dtype in (torch.float32, torch.float64):
        weight = torch.tensor(number, dtype=dtype)
        got = HISTO.weighted_histogram(
            many, torch.tensor([0.0, 1.0], device=device), weight.to(device)
        )
        one = oracle.weighted_digits(torch.zeros(1), weight, torch.tensor([0.0, 1.0]))
        total = one * (1 << 20)
        for i in range(one.shape[-1] - 4):  # carries
            total[0, i + 1] += total[0, i] >> 32
            total[0, i] &= 0xFFFFFFFF
        assert_digits(got, total)


def test_a_weight_of_each_row_for_many_columns(device: torch.device) -> None:
    x = random_values((300, 70), torch.float32)
    weight = torch.randn(300, 1, generator=torch.Generator().manual_seed(0))
    assert_between(device, x, weight, dim=0)
    assert_between(device, x.t(), weight.view(1, 300), dim=1)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)], ids=str)
def test_nothing(device: torch.device, shape: tuple[int, ...]) -> None:
    for weight in (torch.ones(shape), torch.ones(()), torch.ones(shape, dtype=torch.int8)):
        for dim in (0, -1, None):
            assert_between(device, torch.ones(shape), weight, dim=dim)
            assert_values(device, torch.ones(shape, dtype=torch.int16), weight, 5, dim)
            assert_values(device, torch.ones(shape, dtype=torch.int16), weight, 0, dim)


def test_a_number(device: torch.device) -> None:
    x, weight = torch.tensor(3.0), torch.tensor(0.1)
    for dim in (None, 0, -1):
        assert_between(device, x, weight, torch.tensor([0.0, 2, 4]), dim)
        assert_values(device, x.int(), weight, 5, 0)


@pytest.mark.parametrize("flow", [False, True])
def test_edges_of_channels(device: torch.device, flow: bool) -> None:
    x = random_values((4, 200), torch.float32)
    edges = torch.stack([EDGES, EDGES * 0.5, EDGES.flip(0), EDGES.clone().fill_(3)])
    weight = torch.randn(4, 200, generator=torch.Generator().manual_seed(0))
    assert_between(device, x, weight, edges, 1, flow=flow)
    assert_between(device, x.t(), weight.t(), edges, 0, flow=flow)


# the same bits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    ("shape", "dim"), [((1 << 18,), None), ((5, 1 << 16), 1), ((1 << 15, 9), 0), ((300, 700), 1)]
)
def test_threads(threads: int, dtype: torch.dtype, shape: tuple[int, ...], dim: Any) -> None:
    """Rows that threads share, and channels of their own: the bits of one thread."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator) * 60
    weight = (torch.randn(shape, generator=generator) * 30).exp().to(dtype)
    if dtype.is_floating_point:
        weight.view(-1)[::5003] = NAN
        weight.view(-1)[1::7001] = -INF
    got = HISTO.weighted_histogram(x, EDGES, weight, dim, flow=True)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    flat, flat_weight = x.flatten(), weight.flatten()
    if dim is None:
        order = torch.randperm(len(flat), generator=generator)
        assert torch.equal(
            HISTO.weighted_histogram(flat[order], EDGES, flat_weight[order], flow=True), got
        )
    one = HISTO.weighted_histogram(x, EDGES, weight, dim, flow=True)
    torch.set_num_threads(before)
    assert torch.equal(got, one)
    few = 2000
    assert_between(torch.device("cpu"), flat[:few], flat_weight[:few])


def test_threads_share_the_result_itself(threads: int) -> None:
    """More bins than tables have room for."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 1 << 19, (1 << 18,), generator=generator)
    weight = torch.randn(1 << 18, generator=generator)
    got = HISTO.weighted_channel_histogram(x, weight, 1 << 19)
    for i in (0, 17, 99):
        own = x == x[i]
        one = oracle.weighted_digits(x[own] * 0, weight[own], num_bins=1)
        assert_digits(got[x[i]][None], one)
    zero = torch.zeros_like(x)
    assert_digits(
        HISTO.weighted_channel_histogram(zero, weight, 1 << 19)[:1],
        oracle.weighted_digits(zero, weight, num_bins=1),
    )


def test_parts_in_any_order(device: torch.device) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(3000, generator=generator) * 60, torch.randn(3000, generator=generator)
    weight[7] = INF
    whole = assert_between(device, x, weight)
    for cuts in ([1000, 2000], [1, 2998, 1], [1500, 0, 1500]):
        parts = zip(x.split(cuts), weight.split(cuts), strict=True)
        digits = sum(
            HISTO.weighted_histogram(a.to(device), EDGES.to(device), b.to(device), flow=True)
            for a, b in parts
        )
        assert torch.equal(HISTO.normalize_digits(digits), whole)
        assert_same(HISTO.sum_of_digits(digits), oracle.sums_of_digits(whole))


@pytest.mark.usefixtures("flush_denormal")
def test_flushed_subnormals_are_numbers() -> None:
    x = torch.zeros(1000)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        weight = torch.ones(1000, dtype=torch.int64 if dtype == torch.float64 else torch.int32)
        weight = weight.view(dtype) if dtype != torch.bfloat16 else torch.ones(
            1000, dtype=torch.int16
        ).view(dtype)  # fmt: skip
        digits = HISTO.weighted_histogram(x, torch.tensor([0.0, 1.0]), weight)
        assert int(digits[0, 0]) == (1000 << (16 if dtype == torch.bfloat16 else 0))
        assert digits[0, 1:].count_nonzero() == 0
        bits = HISTO.sum_of_digits(digits).view(torch.int64)
        if dtype == torch.float64:
            assert bits.tolist() == [1000]


# digits


@pytest.mark.parametrize("size", [6, 13, 70])
@pytest.mark.parametrize("bins", [0, 1, 1000])
def test_rounding_and_normalizing_any_digits(device: torch.device, size: int, bins: int) -> None:
    generator = torch.Generator().manual_seed(size)
    digits = torch.randint(-(1 << 61), 1 << 61, (bins, size), generator=generator)
    digits[::3, : size - 3] >>= torch.randint(0, 62, (size - 3,), generator=generator)
    digits[1::3, torch.randint(0, size - 3, (1,), generator=generator) :] = 0
    digits[2::3, : size - 5] = 0
    digits[..., -4] >>= 20  # the top one keeps room for carries
    digits[..., -3:] = (torch.rand(bins, 3, generator=generator) < 0.1).long()
    got = HISTO.sum_of_digits(digits.to(device))
    assert_same(got, oracle.sums_of_digits(digits))
    canonical = HISTO.normalize_digits(digits.to(device))
    assert_same(HISTO.sum_of_digits(canonical), oracle.sums_of_digits(digits))
    assert torch.equal(HISTO.normalize_digits(canonical), canonical)
    lower = canonical[..., : size - 4]
    assert ((lower >= 0) & (lower < 1 << 32)).all()
    assert torch.equal(canonical[..., -3:].cpu(), digits[..., -3:])


@PROPERTIES
@given(data=st.data())
def test_rounding_beside_halves(device: torch.device, data: st.DataObject) -> None:
    """Sums that lie on the half of two float64, and one bit beside it; subnormal and huge ones."""
    size = data.draw(st.sampled_from([13, 6, 70]))
    top = 32 * (size - 3)
    number = data.draw(st.integers(0, (1 << 54) - 1)) << data.draw(st.integers(0, top - 40))
    number += data.draw(st.sampled_from([-1, 0, 1])) << data.draw(st.integers(0, 40))
    number *= data.draw(st.sampled_from([-1, 1]))
    row = [number >> 32 * i & 0xFFFFFFFF for i in range(size - 4)]
    digits = torch.tensor([[*row, number >> 32 * (size - 4), 0, 0, 0]])
    assert_same(HISTO.sum_of_digits(digits.to(device)), oracle.sums_of_digits(digits))


def test_rounding_to_infinity(device: torch.device) -> None:
    biggest = (1 << 1024) - (1 << 970)
    for number, expected in ((biggest, INF), (biggest - 1, 1.7976931348623157e308)):
        for sign in (1, -1):
            total = sign * number << 1074
            row = [total >> 32 * i & 0xFFFFFFFF for i in range(66)]
            digits = torch.tensor([*row, total >> 32 * 66, 0, 0, 0], device=device)
            assert float(HISTO.sum_of_digits(digits)) == sign * expected


def test_integers_are_copied(device: torch.device) -> None:
    digits = torch.tensor([[5], [-7]], device=device)
    for got in (HISTO.sum_of_digits(digits), HISTO.normalize_digits(digits)):
        assert got.flatten().tolist() == [5, -7]
        got.zero_()
    assert digits.tolist() == [[5], [-7]]


def test_strided_digits(device: torch.device) -> None:
    digits = assert_between(device, torch.randn(50, 6), torch.randn(50, 6), dim=0)
    for view in (digits.transpose(0, 1), digits[::2], digits[:, 3]):
        expected = oracle.sums_of_digits(view.cpu())
        assert_same(HISTO.sum_of_digits(view), expected)
        normal = HISTO.normalize_digits(view)
        assert torch.equal(normal, view)
        assert normal.is_contiguous()
        assert normal.data_ptr() != view.data_ptr()


# the derivative


def expected_gradient(
    grad: Tensor, x: Tensor, edges: Tensor | None, dim: Any, flow: bool
) -> Tensor:
    """By the digits of weights that are 1 for one element and 0 for all others."""
    found = torch.zeros(x.shape, dtype=torch.float64).flatten()
    for i in range(x.numel()):
        weight = torch.zeros(x.numel(), dtype=torch.int64)
        weight[i] = 1
        sums = oracle.weighted_digits(
            x, weight.view(x.shape), edges, dim, num_bins=grad.shape[-1], flow=flow
        )[..., 0]
        found[i] = (sums * grad).sum()
    return found.view(x.shape)


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("dim", [None, 0, 1, -1, (0, 2)], ids=str)
@pytest.mark.parametrize("permutation", [(0, 1, 2), (2, 0, 1), (1, 2, 0)], ids=str)
def test_gradient(device: torch.device, dim: Any, flow: bool, permutation: Any) -> None:
    x = random_values((3, 4, 5), torch.float32).permute(permutation)
    edges = torch.tensor([0.0, 50, 120, 250])
    kept = oracle.weighted_digits(x, torch.ones(()), edges, dim, flow=flow).shape[:-1]
    grad = torch.randn(kept, dtype=torch.float64)
    got = HISTO._weight_gradient(grad.to(device), like(x, device), edges.to(device), dim, flow)
    assert got.dtype == torch.float64
    assert torch.equal(got.cpu(), expected_gradient(grad, x, edges, dim, flow))
    values = torch.arange(60, dtype=torch.int16).remainder(7).sub(1).view(3, 4, 5)
    values = values.permute(permutation)
    dims = [] if dim is None else dim
    kept = oracle.weighted_digits(values, torch.ones(()), None, dims, num_bins=5).shape[:-1]
    grad = torch.randn(kept, dtype=torch.float64)
    got = HISTO._weight_gradient_of_values(grad.to(device), like(values, device), dims)
    assert torch.equal(got.cpu(), expected_gradient(grad, values, None, dims, False))


@pytest.mark.parametrize(
    "shape", [(), (0,), (0, 3), (3, 0), (2, 3, 2, 3, 2, 3), (70000, 3)], ids=str
)
@pytest.mark.parametrize("dim", [0, (0, -1), None], ids=str)
def test_gradient_of_shapes(threads: int, device: torch.device, shape: Any, dim: Any) -> None:
    if dim == (0, -1) and len(shape) < 2:
        dim = 0
    x = torch.zeros(shape).double()
    x.view(-1)[::3] = 2.0
    edges = torch.tensor([0.0, 1.0, 3.0])
    sizes = [n for d, n in enumerate(shape) if d not in oracle._reduced(max(len(shape), 1), dim)]
    grad = torch.tensor([5.0, 7.0], dtype=torch.float64).expand(*sizes, 2)
    got = HISTO._weight_gradient(grad.to(device), x.to(device), edges.to(device), dim, False)
    assert torch.equal(got.cpu(), x + 5)


def test_gradient_of_many_loops(device: torch.device) -> None:
    """Kept and reduced dimensions take turns, and lie in another order."""
    x = torch.arange(64.0).view(2, 2, 2, 2, 2, 2).permute(5, 2, 0, 4, 1, 3) - 3
    edges = torch.tensor([0.0, 30.0, 55.0])
    for dim in ((0, 2, 4), (1, 3, 5), (0, 1, 2, 3)):
        kept = oracle.weighted_digits(x, torch.ones(()), edges, dim).shape[:-1]
        grad = torch.randn(kept, dtype=torch.float64)
        got = HISTO._weight_gradient(grad.to(device), like(x, device), edges.to(device), dim, False)
        assert torch.equal(got.cpu(), expected_gradient(grad, x, edges, dim, False))


@pytest.mark.usefixtures("one_thread")  # others would add to cells of their own
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("dtype", "rows", "exponent"),
    [
        (torch.float16, 65, 15),
        (torch.bfloat16, 258, 1),
        (torch.float32, 257, 0),
        (torch.float64, 2049, 0),
    ],
    ids=str,
)
def test_more_weights_than_a_cell_holds(
    dtype: torch.dtype, rows: int, exponent: int, sign: int
) -> None:
    """The longest significand at the upper end of a cell, so often that 64 bits do not hold it.

    The largest of the first weights has the place 0 in its cell, those of half of it the last place
    of the cell below. Float16 and bfloat16 have their places by their exponents alone.
    """
    number = sign * (2 - torch.finfo(dtype).eps) * 2.0**exponent
    weight = torch.full((1 << 16,), number, dtype=torch.float64)
    weight[0] *= 1 if dtype == torch.float16 else 2
    x = torch.zeros((), dtype=torch.uint8).expand(rows, 1 << 16)
    got = HISTO.weighted_channel_histogram(x, weight.to(dtype).expand(x.shape), 2, [])
    exact = rows * sum(map(Fraction, weight.tolist()))
    assert float(HISTO.sum_of_digits(got)[0]) == float(exact)
    assert torch.equal(HISTO.normalize_digits(got), got)
