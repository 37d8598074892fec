"""The observer of examples/calibration, beside PyTorch's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import load_module
from torch import Tensor
from torch.ao.quantization.observer import (
    HistogramObserver,
    MappingType,
    MinMaxObserver,
    PerAxis,
    PerTensor,
)

FOLDER = Path(__file__).parents[1] / "examples" / "calibration"
observer = load_module(FOLDER / "observer.py")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: several threads would wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def values(size: int) -> dict[str, Tensor]:
    torch.manual_seed(0)
    normal = torch.randn(size)
    last = torch.arange(1, size + 1) == size
    return {
        "normal": normal,
        "outliers": normal.where(torch.rand(size) > 1e-4, 50 * normal),
        "one outlier": normal.where(~last, 1000.0),
        "two outliers": normal.where(~last, 1000.0).where(~last.roll(1), -1000.0),
        "Laplace": torch.distributions.Laplace(0.0, 1.0).sample((size,)),
        "Student": torch.distributions.StudentT(3.0).sample((size,)),
        "lognormal": (2 * normal).exp(),
        "exponential": torch.rand(size).log().neg(),
        "uniform": torch.rand(size),
        "ReLU": normal.relu(),
        "ReLU6": (3 * normal).clamp(0, 6),
        "shifted": (normal + 2) * 3,
        "positive": normal.abs() + 0.1,
        "negative": -normal.abs() - 0.1,
        "narrow": (10 * normal).where(torch.arange(size) < 100, normal / 100 + 5),
        "constant": torch.full((size,), 3.3),
        "negative constant": torch.full((size,), -0.7),
        "zeros": torch.zeros(size),
    }


def observed(x: Tensor, granularity: Any = None, **named: Any) -> Any:
    mapping = named.pop("mapping", MappingType.ASYMMETRIC)
    dtype = named.pop("dtype", torch.uint8)
    made = observer.SketchObserver(mapping, dtype, granularity or PerTensor(), **named)
    for part in x.chunk(4):
        assert made(part) is part
    return made


def error(x: Tensor, scale: Tensor, zero: Tensor, dtype: torch.dtype) -> Tensor:
    limits = torch.iinfo(dtype)
    level = ((x.double() / scale).round() + zero).clamp(limits.min, limits.max)
    return ((level - zero) * scale - x).square().mean(0)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize(
    ("mapping", "scheme"),
    [
        (MappingType.SYMMETRIC, torch.per_tensor_symmetric),
        (MappingType.ASYMMETRIC, torch.per_tensor_affine),
    ],
)
def test_no_worse_than_other_observers(
    mapping: MappingType, scheme: torch.qscheme, dtype: torch.dtype
) -> None:
    """By the error of the quantized values; the bins of a sketch tell it to within 1 %."""
    named = values(8000)
    x = torch.stack([*named.values()], 1)
    ours = observed(x, PerAxis(1), mapping=mapping, dtype=dtype)
    found = error(x, *ours.calculate_qparams(), dtype)
    for channel, name in enumerate(named):
        for kind in (HistogramObserver, MinMaxObserver):
            theirs = kind(dtype=dtype, qscheme=scheme)
            theirs(x[:, channel])
            most = float(error(x[:, channel], *theirs.calculate_qparams(), dtype))
            assert found[channel] <= 1.01 * most + 1e-12, f"{name}, {kind.__name__}"


@pytest.mark.parametrize("name", ["normal", "outliers", "Laplace", "exponential", "shifted"])
def test_no_worse_by_the_loss_of_histogram_observer(name: str) -> None:
    x = values(1 << 17)[name]
    theirs = HistogramObserver()
    theirs(x)
    width = float(theirs.max_val - theirs.min_val) / theirs.bins
    losses = []
    for low, high in (observed(x).ranges(), theirs._non_linear_param_search()):
        first = max(0, round((float(low) - float(theirs.min_val)) / width))
        last = min(theirs.bins, round((float(high) - float(theirs.min_val)) / width)) - 1
        losses.append(theirs._compute_quantization_error(first, last))
    assert losses[0] <= losses[1] * 1.01


@pytest.mark.parametrize("method", observer.METHODS)
@pytest.mark.parametrize("mapping", [MappingType.ASYMMETRIC, MappingType.SYMMETRIC])
def test_channels_are_as_alone(method: str, mapping: MappingType, device: torch.device) -> None:
    names = ["normal", "outliers", "exponential", "shifted"]
    x = torch.stack([values(8192)[name] for name in names], 1).to(device)
    x = torch.cat((x, torch.zeros_like(x[:, :1]), -x[:, 2:3]), 1)
    found = observed(x, PerAxis(1), method=method, mapping=mapping)
    low, high = found.ranges()
    scale, zero = found.calculate_qparams()
    for channel in (1, 3, 4):
        alone = observed(x[:, channel], method=method, mapping=mapping)
        assert [*map(float, alone.ranges())] == [float(low[channel]), float(high[channel])]
        assert float(alone.calculate_qparams()[0]) == scale[channel]
    largest = x.abs().amax(0)
    assert (low <= 0).all()
    assert (high >= 0).all()
    assert (torch.maximum(-low, high) <= largest * 1.01).all()
    assert scale.dtype == torch.float32
    assert zero.dtype == torch.int32
    if mapping == MappingType.SYMMETRIC:
        assert torch.equal(low, -high)
        assert (zero == 128).all()


@pytest.mark.parametrize("method", observer.METHODS)
@pytest.mark.parametrize("mapping", [MappingType.ASYMMETRIC, MappingType.SYMMETRIC])
def test_values_that_are_not_finite_are_ignored(
    method: str, mapping: MappingType, device: torch.device
) -> None:
    x = values(1000)["normal"].to(device)
    added = x.new_tensor([torch.inf] * 600 + [-torch.inf] * 300 + [torch.nan] * 100)
    for count in (1, 600, 601, 1000):
        mixed = torch.cat((x, added[:count]))[torch.randperm(1000 + count, device=device)]
        found = observed(mixed, method=method, mapping=mapping)
        alone = observed(x, method=method, mapping=mapping)
        assert found.ranges() == alone.ranges()
        assert found.calculate_qparams() == alone.calculate_qparams()
    two = observed(torch.stack((x, added), 1), PerAxis(1), method=method, mapping=mapping)
    assert two.ranges()[1][0] == alone.ranges()[1]
    assert two.ranges()[1][1] == 0


@pytest.mark.parametrize("method", observer.METHODS)
@pytest.mark.parametrize("mapping", [MappingType.ASYMMETRIC, MappingType.SYMMETRIC])
@pytest.mark.parametrize("numbers", [[], [torch.nan], [torch.inf], [-torch.inf, torch.nan]])
def test_nothing_has_the_neutral_scale(
    method: str, mapping: MappingType, numbers: list[float]
) -> None:
    """That of zeros: the least scale, and the level of 0."""
    scale, zero = observed(
        torch.tensor(numbers), method=method, mapping=mapping
    ).calculate_qparams()
    assert scale == torch.finfo(torch.float32).eps
    assert zero == (0 if mapping == MappingType.ASYMMETRIC else 128)


@pytest.mark.parametrize("method", observer.METHODS)
@pytest.mark.parametrize("mapping", [MappingType.ASYMMETRIC, MappingType.SYMMETRIC])
def test_the_scale_of_huge_values_is_finite(method: str, mapping: MappingType) -> None:
    for largest in (3.4e38, 1e300, 1.7e308):
        x = torch.tensor([largest, -largest, 1.0], dtype=torch.float64)
        scale, zero = observed(x, method=method, mapping=mapping).calculate_qparams()
        assert scale.isfinite()
        assert 0 <= zero <= 255


@pytest.mark.long
def test_torchao() -> None:
    """The base class and the arguments are torchao's, where it is installed."""
    torchao = pytest.importorskip("torchao.quantization.observer")
    primitives = pytest.importorskip("torchao.quantization.quant_primitives")
    granularity = pytest.importorskip("torchao.quantization.granularity")
    x = torch.randn(1000, 4)
    mapping = primitives.MappingType.ASYMMETRIC
    made = observer.SketchObserver.with_args(mapping, torch.uint8, granularity.PerAxis(1))()
    assert isinstance(made, torchao.AffineQuantizedObserverBase)
    made(x)
    expected = primitives.choose_qparams_affine_with_min_max(
        *(end.float() for end in made.ranges()), mapping, [], torch.uint8, eps=1e-7
    )
    scale, zero = made.calculate_qparams()
    torch.testing.assert_close(scale, expected[0])
    assert torch.equal(zero, expected[1].int())


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^SketchObserver: method must be one of .*, got 'max'$"):
        observed(torch.ones(4), method="max")
    empty = observer.SketchObserver(MappingType.SYMMETRIC, torch.int8, PerTensor())
    with pytest.raises(RuntimeError, match="nothing was observed yet"):
        empty.calculate_qparams()


def test_compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", ["compare.py", "--channels", "1", "--rows", "2000"])
    load_module(FOLDER / "compare.py").main()
    shown = capsys.readouterr().out
    for word in ("HistogramObserver", *observer.METHODS, "mean squared error"):
        assert word in shown
