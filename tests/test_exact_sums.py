"""Exact sums, and the summaries that are made of them, against fractions."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import VIEWS
from oracle import NUMBERS
from torch import Tensor

from torch_histo import _exact, summarize

pytestmark = pytest.mark.sampled(4)

F64 = torch.float64
LARGEST = torch.finfo(F64).max
LAYOUT_OF = {
    torch.float64: (67, -1074),
    torch.float32: (10, -149),
    torch.bfloat16: (10, -149),
    torch.float16: (3, -24),
    torch.int64: (4, 0),
}
SIZES = [0, 1, 2, 7, 8, 9, 31, 32, 33, 49, 255, 256, 257, 1023, 1024, 1025, 2049]


def nearest(number: Fraction) -> float:
    """Rounded once, to nearest even; Python divides integers so."""
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def nearest_root(square: Fraction) -> float:
    shift = 130 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    scaled = square * Fraction(4) ** shift
    root = math.isqrt(scaled.numerator // scaled.denominator)
    part = Fraction(int(root * root != scaled), 2)
    return nearest((root + part) * Fraction(2) ** -shift)


def values_of(x: Tensor) -> list[float]:
    return (x.double() if x.is_floating_point() else x).flatten().tolist()


def assert_exact(x: Tensor) -> None:
    """All that one read finds of a tensor."""
    found = _exact.read(x, (), digits=True)
    values = values_of(x)
    finite = [Fraction(v) for v in values if math.isfinite(v)]
    assert found.elements == len(values)
    assert found.nan == sum(v != v for v in values)
    assert found.inf == sum(math.isinf(v) for v in values)
    assert found.zeros == values.count(0)
    number, total, squares = len(finite), sum(finite), sum(v * v for v in finite)
    expected = [math.nan] * 5
    if number:
        assert Fraction(float(found.min)) <= min(finite)
        assert Fraction(float(found.max)) >= max(finite)
        if x.is_floating_point():
            assert (float(found.min), float(found.max)) == (min(finite), max(finite))
        assert found.min != 0 or math.copysign(1, found.min) == 1
        expected[0] = nearest(Fraction(total) / number)
    else:
        assert found.min.isnan()
        assert found.max.isnan()
    if number > 1:
        var = (number * squares - Fraction(total) ** 2) / (number * (number - 1))
        expected[1:3] = nearest(var), nearest_root(var) if var else 0.0
    expected[3:] = nearest(Fraction(total)), nearest(Fraction(squares))
    got = [float(t) for t in (found.mean, found.var, found.std, found.sum, found.squares)]
    assert list(map(repr, got)) == list(map(repr, expected))
    rounded = _exact.moments_of_digits(found.digits, found.finite, x.dtype)
    assert list(map(repr, rounded.tolist())) == list(map(repr, expected))


def random_bits(dtype: torch.dtype, size: int) -> Tensor:
    """Any patterns of bits: all exponents, NaN and infinities among them."""
    if dtype == torch.bool:
        return torch.randint(0, 2, (size,)).bool()
    return torch.randint(0, 256, (size * dtype.itemsize,), dtype=torch.uint8).view(dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_any_bits(device: torch.device, dtype: torch.dtype, size: int) -> None:
    torch.manual_seed(size)
    assert_exact(random_bits(dtype, size).to(device))
    if dtype.is_floating_point:
        assert_exact((torch.randn(size) * 3).to(dtype).to(device))
        wide = (torch.randn(size, dtype=F64) * 20).exp() * torch.randn(size, dtype=F64).sign()
        assert_exact(wide.to(dtype).to(device))
        assert_exact(torch.full((size,), 0.3).to(dtype).to(device))


def values_like(kind: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Values that fit a window of exact sums, or do not."""
    if kind == "any bits":
        return random_bits(dtype, math.prod(shape)).view(*shape)
    x = torch.randn(*shape, dtype=F64)
    if not dtype.is_floating_point:
        return (x * 40).abs().to(dtype)
    if kind == "wide":
        x = (x * 10).exp() * x.sign()
    elif kind == "ReLU":
        x = x.clamp(min=0)
    elif kind == "tiny":
        x *= 2.0 ** (math.log2(torch.finfo(dtype).smallest_normal) + 3)
    elif kind == "outliers":  # and smaller values before them and behind
        x = x.where(torch.rand(x.shape) < 0.99, x * torch.finfo(dtype).max * 2.0**-4)
    elif kind == "growing":
        x *= torch.linspace(-20, 5, x.numel(), dtype=F64).exp2().view(*shape)
    return x.to(dtype)


SHAPES = [  # for a GPU: one block or several, warps, columns, joined rows, and rows one by one
    ((70_001,), (0,)),
    ((7, 3, 2500), (0, 2)),
    ((300, 49), (1,)),
    ((49, 130), (1,)),
    ((1500, 64), (0,)),
    ((900, 11), (0,)),
    ((2, 500, 96), (1,)),
    ((3, 1), (1,)),
]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize(
    "kind", ["any bits", "normal", "wide", "ReLU", "tiny", "outliers", "growing"]
)
def test_devices_find_the_same_bits(device: torch.device, kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape, dim in SHAPES:
        x = values_like(kind, shape, dtype)
        kept = x.movedim(tuple(dim), tuple(range(-len(dim), 0))).flatten(-len(dim))
        found = [own.cpu() for own in _exact.read(x.to(device), dim, digits=True)]
        # Another layout, so that another way is taken on the CPU, too.
        expected = _exact.read(kept.clone(), (kept.dim() - 1,), digits=True)
        assert all(map(same_bits, found, expected))
        digits, number = found[-1].to(device), (found[0] - found[1] - found[2]).to(device)
        again = _exact.moments_of_digits(digits, number, dtype)
        assert all(map(same_bits, again.cpu(), expected[6:11]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, F64], ids=str)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_subnormals_when_they_are_flushed(dtype: torch.dtype, threads: int) -> None:
    smallest = torch.finfo(dtype).smallest_normal
    x = torch.cat([torch.randn(70000, dtype=F64) * smallest * scale for scale in (2**-5, 1, 64)])
    x = x.to(dtype)
    plain = _exact.read(x, (), digits=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor does not flush")
        found = _exact.read(x, (), digits=True)
        again = _exact.moments_of_digits(found.digits, found.finite, dtype)
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
    for got, expected in zip(found, plain, strict=True):
        assert same_bits(got, expected)
    assert same_bits(again[0], plain.mean)


def same_bits(a: Tensor, b: Tensor) -> bool:
    if a.is_floating_point():
        # A NaN has more than one pattern.
        a, b = a.nan_to_num(-7.0, torch.inf, -torch.inf), b.nan_to_num(-7.0, torch.inf, -torch.inf)
        a, b = a.contiguous().view(torch.int64), b.contiguous().view(torch.int64)
    return torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, F64, torch.int64], ids=str)
@pytest.mark.parametrize("shape", [(300_000,), (150_000, 3), (3, 150_000), (300, 40, 30)], ids=str)
def test_neither_threads_nor_order_nor_parts_matter(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    x = (torch.randn(shape) * torch.randn(shape).exp() * 1000).to(dtype)
    dim = {1: (0,), 2: (x.shape.index(150_000),) if x.dim() == 2 else (), 3: (0, 2)}[x.dim()]
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            found.append(_exact.read(x, dim, digits=True))
    finally:
        torch.set_num_threads(before)
    shuffled = x.index_select(dim[0], torch.randperm(x.shape[dim[0]]))
    found.append(_exact.read(shuffled, dim, digits=True))
    for other in found[1:]:
        assert all(map(same_bits, other, found[0]))
    parts = [_exact.read(part, dim, digits=True) for part in x.tensor_split(5, dim[0])]
    digits = sum(part.digits for part in parts)
    number = sum(part.finite for part in parts)
    moments = _exact.moments_of_digits(digits, number, dtype)
    whole = found[0].mean, found[0].var, found[0].std, found[0].sum, found[0].squares
    assert all(map(same_bits, moments, whole))
    every = _exact.read(x, ())
    together = _exact.sum_of_channels(found[0].digits)
    moments = _exact.moments_of_digits(together, found[0].finite.sum(), dtype)
    assert same_bits(moments[0], every.mean)
    assert same_bits(moments[2], every.std)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, F64], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_layouts(device: torch.device, dtype: torch.dtype, view: str) -> None:
    torch.manual_seed(0)
    x = VIEWS[view]((torch.randn(6, 70, 9) * 40).abs().to(dtype).to(device))
    for dim in [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)]:
        if max(dim) >= x.dim():
            continue
        found = _exact.read(x, dim)
        kept = [d for d in range(x.dim()) if d not in dim]
        flat = x.permute(*kept, *dim).reshape(*(x.shape[d] for d in kept), -1)
        for i, channel in enumerate(flat.reshape(-1, flat.shape[-1])):
            own = _exact.read(channel.cpu(), ())
            for got, expected in zip(found[:-1], own[:-1], strict=True):
                assert repr(got.flatten()[i].item()) == repr(expected.item())


def number_of(digits: Sequence[int], lowest: int) -> Fraction:
    total = sum(d << (32 * i) for i, d in enumerate(digits))
    return total * Fraction(2) ** lowest


def assert_rounded(numbers: list[list[int]], dtype: torch.dtype) -> None:
    size, lowest = LAYOUT_OF[dtype]
    digits = torch.zeros(len(numbers), 3 * size, dtype=torch.int64)
    digits[:, :size] = torch.tensor(numbers)
    sums = _exact.moments_of_digits(digits, torch.ones(len(numbers), dtype=torch.int64), dtype)[3]
    expected = [nearest(number_of(own, lowest)) for own in numbers]
    assert list(map(repr, sums.tolist())) == list(map(repr, expected))


def digits_of(value: int, size: int) -> list[int]:
    """The canonical digits of an integer."""
    low = [(value >> (32 * i)) & 0xFFFFFFFF for i in range(size - 1)]
    return [*low, value >> (32 * (size - 1))]


@pytest.mark.parametrize("dtype", LAYOUT_OF, ids=str)
def test_digits_are_rounded_once(dtype: torch.dtype) -> None:
    size = LAYOUT_OF[dtype][0]
    rng, patterns = random.Random(0), [[0] * size]
    for _ in range(2000):
        patterns.append([rng.randint(-(2**62), 2**62) for _ in range(size)])
        sparse = [0] * size
        for i in rng.sample(range(size), min(3, size)):
            sparse[i] = rng.choice([1, -1, 2**31, 2**32 - 1, -(2**32), 2**53 + 1, 2**40 - 1])
        patterns.append(sparse)
        # Half way between two floats, and a bit far below or one less.
        top, value = rng.randint(54, 32 * size), rng.getrandbits(53) | 1 << 52
        value = (2 * value + 1) << (top - 54)
        value += rng.choice([0, 0, 1, -1]) << rng.randint(0, max(top - 60, 0))
        patterns.append(digits_of(rng.choice([1, -1]) * value, size))
    if dtype == F64:
        for offset in (0, 1, -1):
            overflow = (2**54 - 1) << (1074 + 1024 - 54)
            patterns += [digits_of(s * (overflow + offset), size) for s in (1, -1)]
        for value in (1, 3, 2**52 - 1, 2**52, 2**53 - 1, 2**53 + 1, 2**54 + 2):
            patterns += [digits_of(value, size), digits_of(-value, size)]
    assert_rounded(patterns, dtype)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62), min_size=67, max_size=67))
def test_any_digits(digits: list[int]) -> None:
    assert_rounded([digits], F64)


@pytest.mark.parametrize("number", [2, 3, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**40 + 7, 2**62])
def test_moments_of_many_values(number: int) -> None:
    """Half of the values are a, and half are b."""
    rng = random.Random(number)
    for _ in range(50):
        a, b = (rng.randint(-(2**62), 2**62) for _ in range(2))
        half, rest = number // 2, number - number // 2
        total, squares = half * a + rest * b, half * a * a + rest * b * b
        digits = torch.tensor(digits_of(total, 4) + digits_of(squares, 8))
        got = _exact.moments_of_digits(digits, torch.tensor(number), torch.int64)
        var = Fraction(number * squares - total * total, number * (number - 1))
        expected = [nearest(Fraction(total, number)), nearest(var), nearest_root(var)]
        assert got.tolist()[:3] == expected


@pytest.mark.parametrize("dtype", LAYOUT_OF, ids=str)
def test_moments_of_few_bits(dtype: torch.dtype) -> None:
    """Sums and squares on both sides of 64 and of 128 bits: values of few bits, and of many."""
    size, lowest = LAYOUT_OF[dtype]
    rng, unit = random.Random(size), Fraction(2) ** lowest
    for _ in range(1000):
        number = rng.choice([2, 3, 15, 2**20 + 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1])
        zeros, sign = rng.choice([0, 0, 5, 31, 32, 33]), rng.choice([1, -1])
        a = sign * rng.getrandbits(rng.randint(0, 60 - zeros)) << zeros
        b = rng.choice([a, -a, 1, 0, rng.getrandbits(rng.randint(0, 60 - zeros)) << zeros])
        half, rest = number // 2, number - number // 2
        total, squares = half * a + rest * b, half * a * a + rest * b * b
        digits = torch.tensor(digits_of(total, size) + digits_of(squares, 2 * size))
        got = _exact.moments_of_digits(digits, torch.tensor(number), dtype)
        var = Fraction(number * squares - total * total, number * (number - 1)) * unit**2
        expected = [nearest(total * unit / number), nearest(var), nearest_root(var) if var else 0.0]
        expected += [nearest(total * unit), nearest(squares * unit**2)]
        assert list(map(repr, got.tolist())) == list(map(repr, expected)), (number, a, b)


def test_deviations_beyond_float64() -> None:
    found = summarize(torch.tensor([1e-300, 3e-300, 5e-300], dtype=F64))
    assert (float(found.var), float(found.std)) == (0, 2e-300)
    found = summarize(torch.tensor([LARGEST, -LARGEST], dtype=F64))
    assert found.var == math.inf
    assert found.mean == 0
    root = nearest_root(2 * Fraction(LARGEST) ** 2)
    assert (math.isinf(root), float(found.std)) == (True, root)
    assert math.isinf(_exact.read(torch.tensor([LARGEST] * 2, dtype=F64), ()).sum)


def test_errors_of_operators() -> None:
    digits, one = torch.zeros(30, dtype=torch.int64), torch.tensor(1)
    for line, call in (
        ("digits must be int64 with 30 digits", lambda: (digits[1:], one, torch.float32)),
        ("digits must be int64 with 30 digits", lambda: (digits.float(), one, torch.float32)),
        (r"number must be int64 \[\], got int64 \[1\]", lambda: (digits, one[None], torch.float32)),
        ("dtype must be a real dtype, got complex64", lambda: (digits, one, torch.complex64)),
    ):
        with pytest.raises(RuntimeError, match=f"^_moments_of_digits: {line}"):
            _exact.moments_of_digits(*call())
    with pytest.raises(RuntimeError, match="summarize: input must have a real dtype"):
        torch.ops.histo._summary(torch.ones(2).cfloat(), None, False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, F64], ids=str)
def test_rules(dtype: torch.dtype) -> None:
    x = torch.arange(60).view(3, 4, 5).to(dtype)
    tests = "test_schema", "test_faketensor"
    for dim in (None, [1], [0, -1]):
        torch.library.opcheck(torch.ops.histo._summary, (x, dim, True), test_utils=tests)
    found = _exact.read(x, (1,), digits=True)
    arguments = found.digits, found.finite, dtype
    torch.library.opcheck(torch.ops.histo._moments_of_digits, arguments, test_utils=tests)
    for at in range(3):
        got = torch.vmap(lambda s: torch.ops.histo._summary(s, [0], True), at)(x)
        want = [torch.ops.histo._summary(s, [0], True) for s in x.unbind(at)]
        for tensor, own in zip(got, zip(*want, strict=True), strict=True):
            assert torch.equal(tensor, torch.stack(own))
    one = torch.vmap(lambda d: _exact.moments_of_digits(d, found.finite[0], dtype))
    assert torch.equal(one(found.digits).movedim(1, 0)[0], found.mean)


def test_sketches_are_made_when_they_are_asked_for() -> None:
    x = torch.randn(100, 3)
    found, kept, written = (summarize(x, 0, bits=3) for _ in range(3))
    assert "ketch" not in repr(found)
    sketch = found.sketch
    assert found.sketch is sketch
    pickled = pickle.loads(pickle.dumps(kept))
    x[0] = 7.0
    assert found.sketch is sketch
    for other in (pickled, copy.deepcopy(kept)):
        assert torch.equal(other.mean, found.mean)
        assert torch.equal(other.sketch.hist, sketch.hist)
    late = copy.deepcopy(written)
    assert torch.equal(late.mean, found.mean)
    for summary, line in (
        (written, "input must be what it was .*, but it was written since: ask"),
        (late, "must be copied or pickled before its input is written, but"),
    ):
        with pytest.raises(RuntimeError, match=rf"^Summary.sketch: .*{line}[^\n]*$"):
            _ = summary.sketch


def test_sketches_of_inference_tensors_are_of_what_is_there() -> None:
    with torch.inference_mode():
        x = torch.zeros(10)
        found = summarize(x)
        x += 1
        assert found.sketch.max == 1
        assert found.max == 0


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_quantiles_are_those_of_torch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    q = [0.0, 0.01, 0.25, 0.5, 0.7, 0.99, 1.0]
    for size in (1, 2, 3, 10, 1001):
        x = (torch.randn(size, 2) * 50).abs().to(dtype)
        if dtype.is_floating_point and size > 3:
            end = 448.0 if dtype == torch.float8_e4m3fn else math.inf
            x[0, 0], x[1, 0], x[2, 1] = math.nan, end, -end
        wide = x.double() if dtype == F64 or not dtype.is_floating_point else x.float()
        expected = torch.nanquantile(
            wide, torch.tensor(q, dtype=wide.dtype), 0, interpolation="nearest"
        )
        got = summarize(x, 0, q=q).quantiles
        assert got.dtype == F64
        assert torch.equal(got, expected.double())


def test_subnormal_quantiles_when_they_are_flushed() -> None:
    for dtype in (torch.bfloat16, torch.float32, F64):
        x = torch.finfo(dtype).smallest_normal * torch.tensor([0.25, 0.5], dtype=F64).to(dtype)
        expected = x.double().tolist()
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor does not flush")
        try:
            found = summarize(x, q=[0.0, 1.0])
            bits = found.quantiles.view(torch.int64)
        finally:
            torch.set_flush_denormal(False)
        assert bits.view(F64).tolist() == expected
        assert found.zeros == 0
