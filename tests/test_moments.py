"""Means and deviations of values, against fractions: summaries, the command line, sketches."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import torch_histo
from torch_histo import cli, loggers, summarize
from torch_histo.cli.sources import base

BOUND = Fraction(1, 1 << 53)
LARGEST = torch.finfo(torch.float64).max
F64 = torch.float64

CASES = {
    "tiny": torch.tensor([1e-12, 3e-12]),
    "lognormal around 1e-12": 1e-12 * torch.randn(5000, dtype=F64).exp(),
    "huge": torch.tensor([2.0**33, 2.0**40, 2.0**36]),
    "near 1": 1 + 1e-4 * torch.randn(5000, dtype=F64),
    "a few units in the last place": 1 + 2.0**-52 * torch.arange(7.0, dtype=F64),
    "a hundredth beside a thousand": torch.tensor([1000.01, 1000.02, 1000.03], dtype=F64),
    "kelvins": 273.15 + torch.randn(5000),
    "Unix times": 1.7e9 + 1e-5 * torch.rand(5000, dtype=F64),
    "Unix times in ns": 1_700_000_000_000_000_000 + torch.arange(100),
    "beyond 2^53": torch.tensor([2**62, 2**62 + 1, 2**62 + 5]),
    "all of int64": torch.tensor([-(2**63), 2**63 - 1, 5]),
    "the end of uint64": torch.tensor([2**64 - 1] * 7 + [2**64 - 2], dtype=torch.uint64),
    "all of uint64": torch.tensor([2**64 - 1, 2**64 - 4, 0], dtype=torch.uint64),
    "beside 0 and 2^32": torch.tensor([-1, 0, 1, 0, 2**32, -(2**32) - 1, 2**32 - 1]),
    "uint32": torch.tensor([2**32 - 1, 7, 8], dtype=torch.uint32),
    "bool": torch.tensor([True, False, True]),
    "float16 whose sum overflows": torch.tensor([60000.0, 50000.0] * 500).half(),
    "float8": torch.tensor([448.0, -448, 2]).to(torch.float8_e4m3fn),
    "float8 and infinities": torch.tensor([57344.0, 2, math.inf]).to(torch.float8_e5m2),
    "subnormals": torch.tensor([1e-45, 3e-45, 2.8e-45]),
    "subnormals of float64": 2.0**-1074 * torch.tensor([8, 16, 24.0], dtype=F64),
    "spread over 1e300": torch.tensor([1e300, -1e300, 1e-300, 1e299], dtype=F64),
    "the largest": torch.tensor([LARGEST, LARGEST / 2, LARGEST], dtype=F64),
    "NaN and infinities": torch.tensor([math.nan, 1, math.inf, 4, -math.inf, 9]),
    "one outlier": torch.cat((torch.full((1000,), 1000.0), torch.tensor([1e9]))).double(),
}


def finite_values(x: Tensor) -> list[Fraction]:
    numbers = x.double() if x.is_floating_point() else x
    return [Fraction(v) for v in numbers.flatten().tolist() if math.isfinite(v)]


def assert_moments(values: Sequence[Fraction], mean: float, var: float | None, std: float) -> None:
    """Within the bound that is stated, and half a unit of what float64 can hold."""
    exact = sum(values) / Fraction(len(values))
    magnitude = sum(map(abs, values)) / len(values)
    subnormal = Fraction(2) ** -1074
    assert abs(Fraction(mean) - exact) <= BOUND * magnitude + subnormal
    square = sum((v - exact) ** 2 for v in values) / (len(values) - 1)
    assert (std == 0) == (square == 0)
    context = Context(prec=60)
    quotient = context.divide(Decimal(square.numerator), Decimal(square.denominator))
    root = Fraction(context.sqrt(quotient))
    assert abs(Fraction(std) - root) <= BOUND * root + subnormal
    if var is not None and square > LARGEST:
        assert var == math.inf
    elif var is not None:
        assert abs(Fraction(var) - square) <= 2 * BOUND * square + subnormal


@pytest.mark.parametrize("x", CASES.values(), ids=CASES)
def test_summaries_are_of_the_values(device: torch.device, x: Tensor) -> None:
    x = x[:200]
    found = summarize(x.to(device))
    assert_moments(finite_values(x), float(found.mean), float(found.var), float(found.std))
    both = summarize(torch.stack((x, x), 1).to(device), 0)
    for c in range(2):
        numbers = (float(tensor[c]) for tensor in (both.mean, both.var, both.std))
        assert_moments(finite_values(x), *numbers)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=30),
    st.integers(-1000, 1000),
    st.floats(-1e6, 1e6),
)
def test_any_values(numbers: list[float], exponent: int, offset: float) -> None:
    x = (torch.tensor(numbers, dtype=F64) + offset) * 2.0**exponent
    found = summarize(x)
    assert_moments(finite_values(x), float(found.mean), float(found.var), float(found.std))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=30))
def test_any_integers(numbers: list[int]) -> None:
    found = summarize(torch.tensor(numbers))
    exact = [Fraction(number) for number in numbers]
    assert_moments(exact, float(found.mean), float(found.var), float(found.std))


def test_constants_one_value_and_none() -> None:
    for value in (0.1, 1e300, 5e-324, -1e-12, 0.0):
        for size in (2, 3, 1000):
            found = summarize(torch.full((size,), value, dtype=F64))
            assert (found.mean, found.var, found.std) == (value, 0, 0)
    for integer in (2**63 - 1, -(2**62) - 1):
        found = summarize(torch.full((1001,), integer))
        assert (found.mean, found.std) == (float(integer), 0)
    found = summarize(torch.tensor([7.0, math.nan]))
    assert found.mean == 7
    assert found.var.isnan()
    assert found.std.isnan()
    for values in ([], [math.nan, math.nan], [math.inf, -math.inf]):
        found = summarize(torch.tensor(values))
        assert found.mean.isnan()
        assert found.std.isnan()


@pytest.mark.parametrize("dim", [None, 0, 1, (0, 2), (-1, 1)], ids=str)
def test_dimensions(device: torch.device, dim: int | tuple[int, ...] | None) -> None:
    x = 100 + torch.randn(5, 70, 9, dtype=F64, device=device)
    for view in (x, x.transpose(0, 2), x[:, ::3], x.expand(2, 5, 70, 9)):
        found, own = summarize(view, dim), dim if dim is not None else tuple(range(view.dim()))
        torch.testing.assert_close(found.mean, view.mean(own), rtol=1e-14, atol=0)
        torch.testing.assert_close(found.var, view.var(own), rtol=1e-12, atol=0)


def test_vmap() -> None:
    """A sample is what a call of its own gives: all that a summary has."""
    x = torch.randn(6, 40, 3)
    x[0, 1, 2], x[3, 0, 0] = math.nan, math.inf

    def numbers(x: Tensor, dim: int | None) -> tuple[Tensor, ...]:
        s = summarize(x, dim)
        counted = s.count, s.nan, s.inf, s.zeros, s.min, s.max
        return *counted, s.mean, s.var, s.std, s.quantiles, s.sketch.moments().std_error

    for dim in (None, 0):
        got = torch.vmap(lambda sample, dim=dim: numbers(sample, dim))(x)
        expected = zip(*(numbers(sample, dim) for sample in x), strict=True)
        for tensor, samples in zip(got, expected, strict=True):
            assert torch.equal(tensor.nan_to_num(-1), torch.stack(samples).nan_to_num(-1))
    nested = torch.vmap(torch.vmap(lambda sample: summarize(sample).std))(x)
    torch.testing.assert_close(nested, torch.stack([summarize(s, 1).std for s in x]))
    integers = torch.vmap(lambda sample: summarize(sample).mean)(torch.arange(12).view(3, 4))
    assert integers.tolist() == [1.5, 5.5, 9.5]


@pytest.mark.parametrize("x", CASES.values(), ids=CASES)
@pytest.mark.parametrize("piece", [1 << 24, 2], ids=["whole", "in pieces"])
def test_the_command_line(
    x: Tensor,
    piece: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = x[:100].clone()
    monkeypatch.setattr(base, "PIECE_VALUES", piece)
    file = str(tmp_path / "x.safetensors")
    pytest.importorskip("safetensors.torch").save_file(
        {"whole": x, "channels": torch.stack((x, x))}, file
    )
    assert cli.main([file, "--summary", "--json", "--per-channel", "--device", "cpu"]) == 0
    rows = json.loads(capsys.readouterr().out)["files"]
    assert {row["relative_error"] for row in rows} == {2.0**-53}
    values = finite_values(x)
    by_name = {row["name"].partition(":")[2]: row for row in rows}
    for row in (by_name["whole"], *by_name["channels"]["channels"]):
        assert_moments(values, row["mean"], None, row["std"])
        assert row["zeros"] == values.count(Fraction(0))
        assert row["inf"] == (x.double().isinf().sum() if x.is_floating_point() else 0)
    assert_moments(values * 2, by_name["channels"]["mean"], None, by_name["channels"]["std"])


@pytest.mark.parametrize("constant", [0.1, 1e300, 1e-310])
def test_pieces_of_a_constant(
    constant: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(base, "PIECE_VALUES", 7)
    np.save(file := str(tmp_path / "x.npy"), np.full(1000, constant))
    assert cli.main([file, "--summary", "--json", "--device", "cpu"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["files"]
    assert (row["mean"], row["std"]) == (constant, 0)


SKETCHED = [
    [1e-12, 3e-12],
    [2.0**33, 2.0**40, 5.0],
    [1000.01, 1000.02, 1000.03],
    [-1e-20, 1e-20, -1e30, 1e30, 0.0, 3.0],
    [0.99, 1.01],
    [-2.0, -2.0],
]


@pytest.mark.parametrize("numbers", SKETCHED, ids=str)
def test_sketches_tell_how_wrong_their_moments_are(numbers: list[float]) -> None:
    sketch = torch_histo.QuantileSketch(2)
    sketch.update(torch.tensor([numbers, [math.nan, math.inf, *numbers[2:]]]).double().T, 0)
    found = sketch.moments()
    mean, var = found
    assert torch.equal(found.mean.nan_to_num(-1), mean.nan_to_num(-1))
    exact = np.array(numbers)
    assert abs(float(mean[0]) - exact.mean()) <= float(found.mean_error[0]) * (1 + 1e-12)
    error = abs(math.sqrt(float(found.var[0])) - exact.std(ddof=1))
    assert error <= float(found.std_error[0]) * (1 + 1e-12)
    assert "mean_error=" in repr(found)
    if len(numbers) == 2:
        assert mean[1].isnan()
        assert found.std_error[1].isnan()
    assert var.shape == found.mean_error.shape == (2,)


def test_exact_moments_of_sketches_say_so() -> None:
    """Each bin of the span has one value of bfloat16; tiny ones are still unknown."""
    found = summarize(torch.tensor([1.5, 3.0, -7.0]).bfloat16()).sketch.moments()
    assert found.mean_error == found.std_error == 0
    found = summarize(torch.tensor([1e-20, 3e-20]).bfloat16()).sketch.moments()
    assert found.mean_error > 0


def test_moments_of_a_sketch_compile() -> None:
    sketch = torch_histo.QuantileSketch()
    sketch.update(torch.tensor([1.0, 2, 4]))
    run = torch.compile(lambda: tuple(sketch.moments()), fullgraph=True, backend="aot_eager")
    assert run() == tuple(sketch.moments())


@pytest.mark.parametrize("x", CASES.values(), ids=CASES)
def test_sums_for_loggers(x: Tensor) -> None:
    written = {}

    class Writer:
        def add_histogram_raw(self, name: str, **numbers: float) -> None:
            written.update(numbers)

        def add_scalar(self, name: str, number: int, step: int | None) -> None:
            scalars[name] = number

    scalars: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loggers.to_tensorboard(Writer(), loggers.histograms({"x": x}))
    values = finite_values(x)
    wide = x.double()  # float8_e4m3fn lacks isinf
    kinds = {"x/nan": int(wide.isnan().sum()), "x/inf": int(wide.isinf().sum())}
    assert scalars == {name: number for name, number in kinds.items() if number}
    if not values:
        assert not written
        return
    exact = sum(values), sum(v * v for v in values)
    magnitudes = sum(map(abs, values)), exact[1]
    for name, number, magnitude in zip(("sum", "sum_squares"), exact, magnitudes, strict=True):
        if abs(number) > LARGEST:
            assert written[name] == (math.inf if number > 0 else -math.inf)
        else:
            error = abs(Fraction(written[name]) - number)
            assert error <= BOUND * magnitude + Fraction(2) ** -1074


def test_sums_of_pairs_are_of_middles() -> None:
    """Others' histograms have no values; neither an overflow nor an empty bin makes NaN."""
    written = {}

    class Writer:
        def add_histogram_raw(self, name: str, **numbers: float) -> None:
            written.update(numbers)

    edges = np.array([-LARGEST, -1.0, 3.0, LARGEST])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loggers.to_tensorboard(Writer(), {"x": (np.array([0, 5, 0]), edges)})
        assert (written["sum"], written["sum_squares"]) == (5, 5)
        loggers.to_tensorboard(Writer(), {"x": loggers.Counts(np.array([1, 0, 3]), edges)})
    assert written["sum_squares"] == math.inf
    assert not math.isnan(written["sum"])


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (nn.LazyLinear(3), "got UninitializedParameter: run the module once"),
        (nn.Linear(2, 3, device="meta"), "got a tensor on the meta device: load its values"),
    ],
    ids=["lazy", "meta"],
)
def test_parameters_without_values(module: nn.Module, line: str) -> None:
    expected = rf"^histograms: tensors\['weight'\] must have values, {line}"
    with pytest.raises(RuntimeError, match=expected):
        loggers.histograms(module)
    with pytest.raises(RuntimeError, match=expected):
        loggers.histograms({"weight": module.weight})
