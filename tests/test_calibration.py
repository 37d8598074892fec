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
from torch.ao.quantization.observer import HistogramObserver, MappingType, PerAxis, PerTensor

FOLDER = Path(__file__).parents[1] / "examples" / "calibration"
observer = load_module(FOLDER / "observer.py")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: several threads would wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def drawn(name: str, *shape: int) -> Tensor:
    torch.manual_seed(0)
    normal = torch.randn(shape)
    return {
        "normal": normal,
        "outliers": normal.where(torch.rand(shape) > 1e-4, 50 * normal),
        "Laplace": torch.distributions.Laplace(0.0, 1.0).sample(shape),
        "Student": torch.distributions.StudentT(3.0).sample(shape),
        "exponential": torch.rand(shape).log().neg(),
        "ReLU": normal.relu(),
        "shifted": (normal + 2) * 3,
    }[name]


def observed(x: Tensor, granularity: Any = None, **named: Any) -> Any:
    mapping = named.pop("mapping", MappingType.ASYMMETRIC)
    made = observer.SketchObserver(mapping, torch.uint8, granularity or PerTensor(), **named)
    for part in x.chunk(4):
        assert made(part) is part
    return made


def quantized(x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return ((x / scale + zero).round().clamp(0, 255) - zero) * scale


@pytest.mark.parametrize(
    "name", ["normal", "outliers", "Laplace", "Student", "exponential", "ReLU", "shifted"]
)
def test_no_worse_than_histogram_observer(name: str) -> None:
    """By the error of the quantized values; and by its own loss, which takes no value for 0."""
    x = drawn(name, 1 << 17)
    theirs = HistogramObserver()
    theirs(x)
    ours = observed(x)
    errors = [
        float((quantized(x, *each.calculate_qparams()) - x).square().mean())
        for each in (ours, theirs)
    ]
    assert errors[0] <= errors[1] * 1.01
    if name == "ReLU":
        return
    width = float(theirs.max_val - theirs.min_val) / theirs.bins
    losses = []
    for low, high in (ours.ranges(), theirs._non_linear_param_search()):
        first = max(0, round((float(low) - float(theirs.min_val)) / width))
        last = min(theirs.bins, round((float(high) - float(theirs.min_val)) / width)) - 1
        losses.append(theirs._compute_quantization_error(first, last))
    assert losses[0] <= losses[1] * 1.01


@pytest.mark.parametrize("method", observer.METHODS)
@pytest.mark.parametrize("mapping", [MappingType.ASYMMETRIC, MappingType.SYMMETRIC])
def test_channels_are_as_alone(method: str, mapping: MappingType, device: torch.device) -> None:
    names = ["normal", "outliers", "exponential", "shifted"]
    x = torch.stack([drawn(name, 8192) for name in names], 1).to(device)
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


@pytest.mark.long
def test_torchao() -> None:
    """The base class and the arguments are torchao's, where it is installed."""
    torchao = pytest.importorskip("torchao.quantization.observer")
    primitives = pytest.importorskip("torchao.quantization.quant_primitives")
    granularity = pytest.importorskip("torchao.quantization.granularity")
    x = drawn("normal", 1000, 4)
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
