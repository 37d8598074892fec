"""Summaries and logged histograms, against NumPy and the real packages."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from oracle import NUMBERS
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter

import torch_histo
from torch_histo import logging, summaries, summarize


def some(dtype: torch.dtype, *shape: int) -> Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 40
    return (values if dtype.is_floating_point else values.abs()).to(dtype)


def values_of(channel: Tensor) -> np.ndarray:
    return channel.double().cpu().flatten().numpy()


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_against_numpy(device: torch.device, dtype: torch.dtype) -> None:
    x = some(dtype, 400, 3)
    if dtype.is_floating_point:
        x[5, 1], x[6, 1], x[::3, 2] = torch.nan, -torch.inf, 0.0
    found = summarize(x.to(device), 0)
    # Each bin has one value, or an error of the bound.
    exact = dtype.itemsize == 1 or dtype == torch.bfloat16
    for c in range(3):
        values = values_of(x[:, c])
        finite = values[np.isfinite(values)]
        assert found.count[c] == 400
        assert found.nan[c] == np.isnan(values).sum()
        assert found.inf[c] == np.isinf(values).sum()
        assert found.zeros[c] == (values == 0).sum()
        assert found.min[c] == finite.min()
        assert found.max[c] == finite.max()
        error = 1e-12 if exact else 2.0**-8
        assert abs(float(found.mean[c]) - finite.mean()) <= error * np.abs(finite).mean()
        np.testing.assert_allclose(float(found.var[c]), finite.var(ddof=1), rtol=4 * error)
        ordered = np.sort(values[~np.isnan(values)])
        ranks = [round(q * (len(ordered) - 1)) for q in (0.01, 0.25, 0.5, 0.75, 0.99)]
        quantiles = found.quantiles[:, c].cpu().numpy()
        np.testing.assert_allclose(quantiles, ordered[ranks], rtol=error)
    assert torch.equal(found.sketch.quantile(0.5), found.quantiles[2])


def test_arguments() -> None:
    x = some(torch.float32, 5, 4, 3)
    assert summarize(x).mean.shape == ()
    found = summarize(x, (0, -1), q=[0.5], bits=3, exponents=(-8, 8))
    assert found.var.shape == (4,)
    assert found.quantiles.shape == (1, 4)
    assert found.sketch.hist.shape == (4, 2 * 16 * 8 + 8)
    empty = summarize(torch.empty(0))
    assert empty.count == 0
    for name in ("min", "max", "mean", "var", "quantiles"):
        assert getattr(empty, name).isnan().all(), name
    constant = summarize(torch.full((100,), 0.3))
    assert constant.mean == constant.min == constant.max
    assert constant.var == 0
    for call in (lambda: summarize([1]), lambda: summarize(x, "a"), lambda: summarize(x.cfloat())):
        with pytest.raises((TypeError, RuntimeError), match=r"^\w+: (input|dim) must (be|have)"):
            call()


def test_moments_of_a_stream_do_not_suffer_from_infinities() -> None:
    sketch = torch_histo.QuantileSketch()
    sketch.update(torch.tensor([1.0, 3.0, torch.inf, torch.nan, 1e30]))
    mean, var = sketch.moments()
    np.testing.assert_allclose([float(mean), float(var)], [1e30 / 3, 1e60 / 3], rtol=0.01)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_nothing_synchronizes() -> None:
    x = some(torch.float32, 400, 3).cuda()
    summarize(x, 0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        summarize(x, 0)
    finally:
        torch.cuda.set_sync_debug_mode("default")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.frozen = nn.Linear(4, 3), nn.Linear(3, 2)
        self.frozen.requires_grad_(False)


@pytest.fixture
def model() -> Model:
    model = Model()
    model.frozen(model.first(some(torch.float32, 9, 4))).sum().backward()
    return model


def test_parameters_and_gradients(model: Model) -> None:
    found = logging.histograms(model, 16)
    names = {"first.weight", "first.weight.grad", "first.bias", "first.bias.grad"}
    assert found.keys() == names | {"frozen.weight", "frozen.bias"}
    assert found.keys() - logging.histograms(model, gradients=False).keys() == {
        "first.weight.grad",
        "first.bias.grad",
    }
    for name, (hist, edges) in found.items():
        weight = model.get_parameter(name.removesuffix(".grad"))
        values = (weight.grad if name.endswith(".grad") else weight.detach()).numpy()
        counts, bounds = np.histogram(values, 16)
        assert hist.tolist() == counts.tolist()
        assert edges.tolist() == bounds.tolist()
    with pytest.raises(TypeError, match=r"^histograms: tensors must be a module or a mapping"):
        logging.histograms([torch.ones(2)])
    assert logging.histograms({}) == {}


def test_tensorboard(model: Model, tmp_path: Path) -> None:
    found = logging.histograms(model)
    with SummaryWriter(str(tmp_path)) as writer:
        logging.to_tensorboard(writer, found, step=7, prefix="model/")
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["histograms"]) == {f"model/{name}" for name in found}
    (event,) = events.Histograms("model/first.weight")
    counts = found["first.weight"]
    assert event.step == 7
    assert event.histogram_value.num == 12
    assert event.histogram_value.bucket == counts.hist.tolist()
    assert event.histogram_value.bucket_limit == counts.bin_edges[1:].tolist()
    np.testing.assert_allclose(event.histogram_value.max, model.first.weight.detach().max())


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_boxes(model: Model, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = logging.histograms(model)
    boxed = getattr(logging, f"to_{package}")(found, "model/")
    assert list(boxed) == [f"model/{name}" for name in found]
    for box, (hist, edges) in zip(boxed.values(), found.values(), strict=True):
        assert list(box.histogram) == hist.tolist()
        assert list(box.bins) == edges.tolist()
    monkeypatch.setitem(sys.modules, package, None)
    line = f"to_{package}: needs {package}: pip install {package}"
    with pytest.raises(ImportError, match=f"^{re.escape(line)}$"):
        getattr(logging, f"to_{package}")(found)


@pytest.mark.parametrize("module", [summaries, logging], ids=["summaries", "logging"])
def test_docstrings(module: object) -> None:
    names = {"torch": torch, "torch_histo": torch_histo}
    results = doctest.testmod(module, extraglobs=names)
    assert results.attempted >= 2
    assert results.failed == 0
