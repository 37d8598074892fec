"""Exact quantiles: as an oracle that sorts, as torch.quantile, and with PyTorch's tools."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from conftest import ENVIRONMENT
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import LONG, laid_out
from oracle import FLOATS, NUMBERS, like, random_values
from torch import Tensor
from torch._subclasses import FakeTensorMode

import torch_histo
from torch_histo import nanquantile, quantile

pytestmark = pytest.mark.sampled(2)

QUANTILE = torch.ops.histo.quantile.default
RULES = ("linear", "lower", "higher", "midpoint", "nearest")
NAN, INF = math.nan, math.inf
TORCHS = {False: torch.quantile, True: torch.nanquantile}
OWN = {False: quantile, True: nanquantile}
# Later ones compute ranks of float32 in float64.
TORCH_HAS_FLOAT32_RANKS = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14)


def assert_same(got: Tensor, want: Tensor, about: object = "") -> None:
    """The same bits, but for the sign of zero and the bits of NaN."""
    assert (got.dtype, got.shape, got.device) == (want.dtype, want.shape, want.device), about
    a, b = got.double(), want.double()
    assert bool(((a == b) | (a.isnan() & b.isnan())).all()), (about, got, want)


def some_q(count: int, device: torch.device, seed: int = 0) -> Tensor:
    q = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    q[: count // 3] = (q[: count // 3] * 4).round() / 4  # with both ends
    return q.to(device)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_as_the_oracle(device: torch.device, dtype: torch.dtype) -> None:
    """Sizes around those of sorted keys, of digits, of tiles and of sampled keys."""
    values = random_values((20_001,), dtype)
    for rows in (1, 2, 3, 63, 64, 65, 255, 256, 257, 2049, 4097, 20_001):
        x = values[:rows].to(device)
        for ignore_nan in (False, True):
            for rule in RULES:
                q = some_q(7, device, rows)
                want = oracle.quantile(x, q, interpolation=rule, ignore_nan=ignore_nan)
                got = OWN[ignore_nan](x, q, interpolation=rule)
                assert_same(got, want, (rows, rule, ignore_nan))


def distribution(kind: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    rng = torch.Generator().manual_seed(kind)
    x = torch.randn(shape, dtype=dtype, generator=rng)
    if kind == 1:
        x = x.round()
    elif kind == 2:
        x = x.relu()
    elif kind == 3:
        x[torch.rand(shape, generator=rng) < 0.01] = NAN
    elif kind == 4:
        x = 1000 + x / 1000
    elif kind == 5:
        x[torch.rand(shape, generator=rng) < 0.3] = INF
    elif kind == 6:
        x = torch.full(shape, -0.0, dtype=dtype)
    elif kind == 7:
        x[torch.rand(shape, generator=rng) < 0.5] = NAN
        x = -x.abs()
    return x


@pytest.mark.parametrize("kind", range(8))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_torch(device: torch.device, dtype: torch.dtype, kind: int) -> None:
    if dtype == torch.float32 and not TORCH_HAS_FLOAT32_RANKS:
        pytest.skip("this torch computes ranks in float64")
    for shape, dim, count in (
        ((140_000, 2), 0, 2),
        ((2, 140_000), 1, 3),
        ((20, 3000), 1, 9),
        ((3, 50, 7), 1, 40),
        ((150_000,), None, 1000),
    ):
        x = distribution(kind, shape, dtype).to(device)
        if device.type == "cuda":
            x[x.isnan()] = NAN  # torch sorts those with a sign first, and does not find them
        q = some_q(count, device).to(dtype)
        for rule in ("linear", RULES[1 + kind % 4]):
            for ignore_nan in (False, True):
                arguments: tuple[Any, ...] = (x, q, dim, bool(kind % 2))
                want = TORCHS[ignore_nan](*arguments, interpolation=rule)
                got = OWN[ignore_nan](*arguments, interpolation=rule)
                assert_same(got, want, (shape, rule, ignore_nan))


def test_views_and_dims(device: torch.device) -> None:
    rng = Random(1)
    for case in range(50):
        ndim = rng.randint(1, 5)
        sizes = [rng.randint(1, 6) for _ in range(ndim)]
        sizes[rng.randrange(ndim)] = LONG
        sizes, strides, extent = laid_out(rng, sizes, rng.choice([30, 3000, 60_000]), [1, 3, 70])
        dtype = rng.choice([torch.float32, torch.float16, torch.int32])
        base = random_values((extent,), dtype)
        x = like(base.as_strided(sizes, strides), device)
        if case % 5 == 0:
            x = x.unsqueeze(0).expand(3, *x.shape)
        dims = rng.sample(range(x.dim()), rng.randint(1, x.dim())) if case % 4 else None
        q = some_q(3, device, case)
        want = oracle.quantile(x, q, dims, ignore_nan=True)
        assert_same(nanquantile(x, q, dims), want, (x.shape, x.stride(), dims))
        kept = nanquantile(x, q[0], dims, keepdim=True)
        reduced = range(x.dim()) if dims is None else dims
        assert kept.shape == tuple(1 if d in reduced else s for d, s in enumerate(x.shape))
        assert_same(kept.reshape(want.shape[1:]), want[0])


SHORT = (1, 2, 3, 8, 127, 128, 129, 319, 320, 321, 639, 640, 641)
"""The rows of channels: up to 128, 320 or 640 of them are sorted together."""


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_short_channels(device: torch.device, dtype: torch.dtype) -> None:
    """Full lines of channels, parts of lines, and channels that change with several loops."""
    rng = Random(2)
    for rows in SHORT:
        for channels in (1, 2, 7, 8, 9, 63, 64, 65, 130):
            base = random_values((2 * rows * channels,), dtype)
            x = like(base[: rows * channels].view(channels, rows), device)
            if dtype.is_floating_point and channels > 1:
                x[channels // 2] = NAN
                x[-1, :: rng.randint(1, 3)] = torch.tensor(-NAN, dtype=dtype)
            wide = like(base.view(2 * rows, channels), device)
            views = [(x, 1), (wide[::2], 0), (wide.t()[:, 1::2], 1)]
            if rows % 2 == 0 and channels % 2 == 0:
                views.append((x.view(channels // 2, rows // 2, 2, 2), (1, 3)))
            q = some_q(4 if channels % 2 == 0 else 1, device, rows)
            for view, dim in views:
                for ignore_nan in (False, True):
                    rule = rng.choice(RULES)
                    want = oracle.quantile(view, q, dim, interpolation=rule, ignore_nan=ignore_nan)
                    got = OWN[ignore_nan](view, q, dim, interpolation=rule)
                    assert_same(got, want, (rows, channels, view.stride(), rule, ignore_nan))


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=40),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
    st.sampled_from(RULES),
)
@settings(max_examples=150, deadline=None)
def test_any_floats(numbers: list[float], q: list[float], rule: str) -> None:
    x = torch.tensor(numbers, dtype=torch.float32 if TORCH_HAS_FLOAT32_RANKS else torch.float64)
    for ignore_nan in (False, True):
        want = TORCHS[ignore_nan](x, torch.tensor(q, dtype=x.dtype), interpolation=rule)
        assert_same(OWN[ignore_nan](x, q, interpolation=rule), want)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("finite", range(41, 47))
def test_the_rank_beside_infinity(device: torch.device, finite: int, rule: str) -> None:
    """A product that float32 rounds to the whole rank 43: no value beside it takes part."""
    q, largest = 43 / 65, torch.finfo(torch.float32).max
    assert Fraction(float(np.float32(q))) * 65 > 43
    assert np.float32(q) * np.float32(65) == 43
    x = torch.zeros(66)
    x[finite - 1 :] = largest
    x[finite:] = INF
    mixed = x[torch.randperm(66, generator=torch.Generator().manual_seed(0))].view(3, 22)
    at_rank = x[43].item()
    # The difference of two infinities is NaN, even with the weight 0.
    expected = NAN if at_rank == INF and rule in ("linear", "midpoint") else at_rank
    for number in (q, torch.tensor(q, device=device)):
        for ignore_nan in (False, True):
            got = OWN[ignore_nan](mixed.to(device), number, interpolation=rule)
            assert_same(got, torch.tensor(expected, device=device))
            if device.type == "cpu" and TORCH_HAS_FLOAT32_RANKS:
                assert_same(got, TORCHS[ignore_nan](mixed, number, interpolation=rule))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("nans", [1, 2, 40])
def test_nan_of_both_signs(device: torch.device, nans: int, rule: str) -> None:
    """torch on CUDA sorts NaN with a sign bit first; on a CPU all NaN are last."""
    x = torch.arange(66.0)
    x[torch.arange(nans) * 66 // nans] = -torch.tensor(NAN)
    x[5] = NAN
    assert x.signbit().any()
    for q in (0.0, 43 / 65, 1.0):
        assert OWN[False](x.to(device), q, interpolation=rule).isnan()
        numbers = x[~x.isnan()]
        expected = OWN[False](numbers, q, interpolation=rule)
        assert_same(OWN[True](x.to(device), q, interpolation=rule), expected.to(device))
        if TORCH_HAS_FLOAT32_RANKS:
            assert_same(expected, torch.quantile(numbers, q, interpolation=rule))


def test_kinds_of_q(device: torch.device) -> None:
    x = torch.arange(5.0, device=device)
    assert quantile(x, 0.5).item() == 2
    assert quantile(x, 1).shape == ()
    assert quantile(x, (0, 0.25)).tolist() == [0, 1]
    assert quantile(x, np.array([0.25, 1])).tolist() == [1, 4]
    assert quantile(x, []).shape == (0,)
    assert quantile(x.view(5, 1)[:, :0], [0.5], 0).shape == (1, 0)
    bad = torch.tensor([-0.1, 1.1, NAN, 0.5], device=device)
    for values in (x, x.int(), x.half()):
        for rule in RULES:
            got = quantile(values, bad, interpolation=rule)
            assert got.isnan().tolist() == [True, True, True, False]


def test_integers_are_exact(device: torch.device) -> None:
    big = torch.tensor([2**62, 2**62 + 2**20, -5], device=device)
    assert quantile(big, [0, 0.5, 1.0]).tolist() == [-5, 2**62, 2**62 + 2**20]
    flags = torch.tensor([False, True, True], device=device)
    assert quantile(flags, [0, 0.25]).tolist() == [0, 0.5]


@pytest.mark.usefixtures("flush_denormal")
def test_subnormals_are_numbers_in_every_mode(device: torch.device) -> None:
    bits = torch.arange(-4, 1000, dtype=torch.int32)
    values = torch.where(bits < 0, bits.abs() + torch.iinfo(torch.int32).min, bits)
    for x in (values, values.repeat(300)):
        got = quantile(x.view(torch.float32).to(device), 0.75, interpolation="lower")
        assert got.view(torch.int32).item() == int(0.75 * (len(x) - 1)) // (len(x) // 1004) - 4


def exact(numbers: list[Fraction], q: float, rule: str) -> Fraction:
    """The quantile of numbers in order, by the real numbers; q * (n - 1) must be one of float32."""
    rank = Fraction(q) * (len(numbers) - 1)
    below, above = numbers[math.floor(rank)], numbers[math.ceil(rank)]
    weight = {"linear": rank % 1, "midpoint": Fraction(1, 2)}.get(rule)
    if weight is not None:
        return below + (above - below) * weight
    return {"lower": below, "higher": above, "nearest": numbers[round(rank)]}[rule]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_subnormals_are_interpolated_in_every_mode(
    device: torch.device, dtype: torch.dtype, rule: str
) -> None:
    """Values are multiples of the smallest one, and so are right results once they are rounded."""
    smallest = Fraction(torch.finfo(dtype).smallest_normal) * Fraction(torch.finfo(dtype).eps)
    numbers = [smallest * k for k in (-5, -3, -2, -1, 0, 1, 2, 3, 5)]
    x = torch.tensor([float(n) for n in numbers], dtype=torch.float64).to(device, dtype)
    q = [i / 64 for i in range(65)]
    many = x.expand(20_000, 9).contiguous()  # which torch interpolates in several threads
    if not torch.set_flush_denormal(True):
        pytest.skip("needs an x86 that flushes subnormals to zero")
    try:
        got = [OWN[ignore](x, q, interpolation=rule) for ignore in (False, True)]
        columns = quantile(many, [0.25, 0.640625], 1, interpolation=rule)
    finally:
        torch.set_flush_denormal(False)
    for result in got:
        for number, value in zip(q, result.tolist(), strict=True):
            error = abs(Fraction(value) - exact(numbers, number, rule))
            assert error <= smallest / 2, (number, value)
    assert_same(got[0], got[1])
    assert_same(columns[0], got[0][16].expand(20_000))
    assert_same(columns[1], got[0][41].expand(20_000))


@pytest.mark.usefixtures("flush_denormal")
@pytest.mark.parametrize(
    ("dtype", "integers", "bits", "q"),
    [
        (torch.float32, torch.int32, 1 << 13, 2.0**-136),
        (torch.float64, torch.int64, 1 << 42, 2.0**-1032),
    ],
)
def test_a_subnormal_q_in_every_mode(
    device: torch.device, dtype: torch.dtype, integers: torch.dtype, bits: int, q: float
) -> None:
    """Its weight is subnormal, and the product with a large value is not."""
    x = torch.tensor([0.0, torch.finfo(dtype).max], dtype=dtype, device=device)
    # The largest number is 2^128 or 2^1024, less one part in 2^24 or 2^53.
    expected = torch.finfo(dtype).max * 2.0**-120 * 2.0 ** (-16 if dtype == torch.float32 else -912)
    for number in (q, torch.tensor(bits, dtype=integers).view(dtype).to(device)):
        assert quantile(x, number).item() == expected


@pytest.mark.usefixtures("flush_denormal")
def test_subnormals_with_ranks_in_float64(device: torch.device) -> None:
    """More than 2^24 elements a slice."""
    x = torch.tensor([1, 5], dtype=torch.int32).view(torch.float32).to(device)
    got = quantile(x.expand((1 << 23) + 1, 2), [0.25, 0.5, 0.75])
    assert got.view(torch.int32).tolist() == [1, 3, 5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [50_000, 140_000])
def test_samples_that_mislead(rows: int, dtype: torch.dtype) -> None:
    """The CPU samples one value of each of so many parts: others differ."""
    sampled = int(rows ** (2 / 3) * 0.6)
    part = torch.arange(sampled)
    within = (part * 0x9E3779B9 % 2**32).double() * 2**-32
    row = ((part + within) * rows / sampled).long()
    q = torch.tensor([0.5], dtype=dtype)
    for kind in (0, 3):
        x = distribution(kind, (rows,), dtype)
        for values in (x[row] - 100, -5.0, NAN):
            x[row] = values
            assert_same(quantile(x, q), torch.quantile(x, q), (kind, values))
            assert_same(nanquantile(x, q), torch.nanquantile(x, q), (kind, values))


CODE_OF_SETS = """
import numpy as np, oracle, torch
from oracle import NUMBERS, random_values
from test_quantile import assert_same, some_q
from torch_histo import nanquantile

def narrow(dtype, size):
    # Few digits tell these apart: numbers around 0, one apart, and one that is far away.
    x = (torch.arange(size) * 7 % 83 - 41).to(dtype)
    x[size // 2] = 120
    return x

for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64,
              torch.int8, torch.uint8):
    for rows, channels in [(63, 5), (65, 1), (129, 33), (300, 17), (2049, 16), (130, 67)]:
        for values in (random_values((rows * channels,), dtype), narrow(dtype, rows * channels)):
            x = values.view(rows, channels)
            if dtype.is_floating_point:
                x[rows // 2, ::3] = torch.nan
                x[rows // 3, ::4] = -torch.inf
            q = some_q(7, x.device, rows)
            want = oracle.quantile(x, q, 0, interpolation="nearest", ignore_nan=True)
            for view in (x, x.t().contiguous().t()):
                got = nanquantile(view, q, 0, interpolation="nearest")
                assert_same(got, want, (dtype, rows, channels))
"""


@pytest.mark.parametrize("loops", ["portable", "avx2", "avx512"])
def test_every_set_selects_as_the_oracle(loops: str) -> None:
    paths = f"{ENVIRONMENT['PYTHONPATH']}:{Path(__file__).parent}"
    ran = subprocess.run(
        [sys.executable, "-c", CODE_OF_SETS],
        env={**ENVIRONMENT, "PYTHONPATH": paths, "TORCH_HISTO_CPU": loops},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(3, 400_000), (4003, 50)])
def test_threads(threads: int, shape: tuple[int, int]) -> None:
    x = distribution(1, shape, torch.float64)
    x[1] = distribution(0, shape[1:], torch.float64)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        got = quantile(x, [0.1, 0.2, 0.5, 0.7, 0.8, 0.9], dim=1)
    finally:
        torch.set_num_threads(before)
    q = torch.tensor([0.1, 0.2, 0.5, 0.7, 0.8, 0.9], dtype=torch.float64)
    assert_same(got, torch.quantile(x, q, dim=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16])
def test_more_elements_than_torch_takes(device: torch.device, dtype: torch.dtype) -> None:
    n = (1 << 24) + 1000
    x = torch.arange(n, device=device)
    x = (n - 1 - x).to(dtype) if dtype == torch.int16 else x.flip(0).float()
    q = torch.tensor([0.0, 0.123, 0.5, 1.0], dtype=torch.float64, device=device)
    assert_same(quantile(x, q), oracle.quantile(x, q))


def test_errors(device: torch.device) -> None:
    x = torch.rand(4, 3, device=device)
    empty = x[:0]
    for error, call in (
        ("q must be from 0 to 1, got 1.5", lambda: quantile(x, [0.5, 1.5])),
        ("q must be from 0 to 1, got nan", lambda: quantile(x, NAN)),
        ("q must be a number, a sequence of numbers or a tensor", lambda: quantile(x, "a")),  # type: ignore[arg-type]
        ("q must be a number, a sequence", lambda: quantile(x, (q for q in [0.5]))),  # type: ignore[arg-type]
        ("q must have a floating-point dtype, got int64", lambda: quantile(x, x[0].long())),
        ("q must be 0-D or 1-D, got a 2-D tensor", lambda: quantile(x, x)),
        ("interpolation must be one of linear", lambda: quantile(x, 0.5, interpolation="no")),
        ("dim must be between -2 and 1", lambda: quantile(x, 0.5, 2)),
        ("at least one element in each slice over dim", lambda: quantile(empty, 0.5, 0)),
        ("input must have a real dtype", lambda: quantile(x.to(torch.complex64), 0.5)),
        ("keepdim must be a bool", lambda: quantile(x, 0.5, 0, 1)),  # type: ignore[arg-type]
        ("axis must be passed as dim", lambda: quantile(x, 0.5, axis=0)),  # type: ignore[arg-type]
        ("input must be a tensor", lambda: quantile("a", 0.5)),  # type: ignore[arg-type]
        ("input must not require a gradient", lambda: quantile(x.clone().requires_grad_(), 0.5)),
    ):
        with pytest.raises((RuntimeError, TypeError), match=rf"^quantile: .*{error}") as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(RuntimeError, match=r"^nanquantile: dim must"):
        nanquantile(x, 0.5, 2)
    with torch.no_grad():
        assert quantile(x.clone().requires_grad_(), 0.0).item() == x.min().item()


def test_forward_mode_has_no_gradient(device: torch.device) -> None:
    x, q = torch.rand(5, device=device), torch.tensor(0.5, device=device)
    for argument, call, value in (
        ("input", lambda x: quantile(x, 0.5), x),
        ("q", lambda q: quantile(x, q), q),
    ):
        with pytest.raises(RuntimeError, match=f"^quantile: {argument} must not have a tangent"):
            torch.func.jvp(call, (value,), (value,))
        compiled = torch.compile(
            lambda v, call=call: torch.func.jvp(call, (v,), (v,)), backend="aot_eager"
        )
        with pytest.raises(RuntimeError, match=f"quantile: {argument} must not have a tangent"):
            compiled(value)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"^nanquantile: input must not have"):
        torch.func.jvp(lambda x: nanquantile(x, 0.5), (x,), (x,))
    assert torch.func.jvp(lambda x: quantile(x.detach(), 0.0) + x, (x,), (x,))[1].equal(x)


def test_backward_of_the_operator_has_no_gradient(device: torch.device) -> None:
    x = torch.rand(5, device=device, requires_grad=True)
    q = torch.tensor([0.5], device=device)
    line = "quantile: input must not require a gradient, as quantiles have none"

    def loss(x: Tensor) -> Tensor:
        return torch.ops.histo.quantile(x, q).sum() + x.sum()

    assert loss(x) == loss(x.detach())
    for call in (
        lambda: loss(x).backward(),
        lambda: torch.func.grad(loss)(x.detach()),
        lambda: torch.compile(loss, backend="aot_eager")(x).backward(),
    ):
        with pytest.raises(RuntimeError, match=line):
            call()
    assert x.grad is None
    wanted = q.clone().requires_grad_()
    with pytest.raises(RuntimeError, match=r"^quantile: q must not require a gradient"):
        torch.ops.histo.quantile(x.detach(), wanted).sum().backward()


def test_meta_and_fake(device: torch.device) -> None:
    assert quantile(torch.empty(5, 1 << 40, device="meta"), [0.1, 0.2], 1).shape == (2, 5)
    with FakeTensorMode():
        x = torch.empty(2, 3, 4, dtype=torch.int8, device=device)
        got = quantile(x, 0.5, (0, 2), True)
        assert (got.shape, got.dtype, got.device) == ((1, 3, 1), torch.float64, x.device)
        with pytest.raises(RuntimeError, match="dim must be between"):
            quantile(x, 0.5, 3)
        with pytest.raises(RuntimeError, match="at least one element"):
            quantile(x[:0], 0.5, 0)


def test_compile(device: torch.device) -> None:
    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def medians(x: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        return quantile(x * 2, 0.5, dim=0), nanquantile(x, q, dim=(0, 1), keepdim=True)

    for shape in ((6, 5), (7, 9), (30, 2)):
        x, q = torch.randn(shape, device=device), some_q(3, device)
        got = medians(x, q)
        assert_same(got[0], quantile(x * 2, 0.5, dim=0))
        assert_same(got[1], nanquantile(x, q, dim=(0, 1), keepdim=True))


def test_export(device: torch.device) -> None:
    class Median(torch.nn.Module):
        def forward(self, x: Tensor, q: Tensor) -> Tensor:
            return quantile(x, q, dim=0)

    rows = torch.export.Dim("rows", min=2)
    x, q = torch.randn(8, 3, device=device), some_q(2, device)
    program = torch.export.export(Median(), (x, q), dynamic_shapes=({0: rows}, None))
    longer = torch.randn(50, 3, device=device)
    assert_same(program.module()(longer, q), quantile(longer, q, dim=0))


@pytest.mark.parametrize("q_dim", [None, 0, 1])
@pytest.mark.parametrize("x_dim", [None, 0, 1, 2])
def test_vmap(device: torch.device, x_dim: int | None, q_dim: int | None) -> None:
    if x_dim is None and q_dim is None:
        return
    x = torch.randn(4, 4, 4, device=device)
    for q in (some_q(16, device).view(4, 4), some_q(4, device)):
        if q.dim() == 1 and q_dim == 1:
            continue
        for dim, keepdim in ((None, False), (0, True), (-1, False)):

            def one(x: Tensor, q: Tensor, dim: Any = dim, keepdim: bool = keepdim) -> Tensor:
                return quantile(x, q, dim, keepdim)

            if q_dim is None and q.dim() == 2:
                continue
            got = torch.vmap(one, in_dims=(x_dim, q_dim))(x, q)
            samples = [
                one(
                    x if x_dim is None else x.select(x_dim, i),
                    q if q_dim is None else q.select(q_dim, i),
                )
                for i in range(4)
            ]
            assert_same(got, torch.stack(samples))


def test_vmap_of_numbers(device: torch.device) -> None:
    x = torch.randn(4, device=device)
    assert_same(torch.vmap(lambda v: quantile(v, 0.3))(x), x)


def test_opcheck(device: torch.device) -> None:
    x, q = torch.randn(6, 5, 4, device=device), some_q(3, device)
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        arguments = (x.to(dtype).transpose(0, 2), q, [0, 1], True)
        torch.library.opcheck(QUANTILE, arguments, {"interpolation": "midpoint"})
    torch.library.opcheck(QUANTILE, (x, q[0]), {"ignore_nan": True})


def test_is_found_in_the_package() -> None:
    assert {"quantile", "nanquantile"} <= set(torch_histo.__all__)
    assert len(FLOATS) == 6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d.itemsize > 1], ids=str)
def test_large_on_a_gpu(dtype: torch.dtype) -> None:
    """256 MiB: one q begins with a sample there."""
    rng = torch.Generator("cuda").manual_seed(0)
    size = (256 << 20) // dtype.itemsize + 3
    normal = torch.randn(size, device="cuda", generator=rng)
    if not dtype.is_floating_point:
        normal = (normal * 1000).abs()
    part = torch.arange(1 << 14, device="cuda")
    step = size >> 14
    sampled = part * step + (part * 0x9E3779B9 % (1 << 32) * step >> 32)
    for kind in range(5):
        x = normal.clone()
        if kind == 1:
            x[: size // 2] = 0
        elif kind == 2:
            x[:] = 3
        elif kind == 3:
            x[sampled] = x.max()
        elif kind == 4 and dtype.is_floating_point:
            x[::5] = NAN
        x = x.to(dtype) if dtype.is_floating_point else x.long()
        ordered = x.double().sort().values
        values = size - int(ordered.isnan().sum())
        for q in (0.0, 0.5, 0.93, 1.0):
            rank = math.floor(q * (values - 1))
            got = nanquantile(x.to(dtype), q, interpolation="lower")
            assert got.double() == ordered[rank], (kind, q, got, ordered[rank])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_without_synchronization() -> None:
    x, q = torch.randn(1 << 20, device="cuda"), some_q(9, torch.device("cuda"))
    large = torch.randn(1 << 26, device="cuda")
    quantile(x, q)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.graph(graph):
            got, numbers = quantile(x, q), quantile(x, [0.25, 0.5])
            median = quantile(large, 0.5)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    x.copy_(torch.randn_like(x))
    large += 1
    graph.replay()
    assert_same(median, quantile(large, 0.5))
    assert_same(got, quantile(x, q))
    assert_same(numbers, quantile(x, [0.25, 0.5]))
