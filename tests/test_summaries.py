"""Summaries and logged histograms, against NumPy and the real packages."""

from __future__ import annotations

import doctest
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle import NUMBERS
from torch import Tensor, nn

import torch_histo
from torch_histo import loggers, summaries, summarize
from torch_histo.logging import Watch, histograms, to_tensorboard, to_trackio, to_wandb

os.environ["TRACKIO_DIR"] = tempfile.mkdtemp(prefix="trackio")  # which it reads when it is imported


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
    for c in range(3):
        values = values_of(x[:, c])
        finite = values[np.isfinite(values)]
        assert found.count[c] == 400
        assert found.nan[c] == np.isnan(values).sum()
        assert found.inf[c] == np.isinf(values).sum()
        assert found.zeros[c] == (values == 0).sum()
        assert found.min[c] == finite.min()
        assert found.max[c] == finite.max()
        assert abs(float(found.mean[c]) - finite.mean()) <= 1e-12 * np.abs(finite).mean()
        np.testing.assert_allclose(float(found.var[c]), finite.var(ddof=1), rtol=4e-12)
        np.testing.assert_allclose(float(found.std[c]), finite.std(ddof=1), rtol=4e-12)
        ordered = np.sort(values[~np.isnan(values)])
        ranks = [round(q * (len(ordered) - 1)) for q in (0.01, 0.25, 0.5, 0.75, 0.99)]
        assert found.quantiles[:, c].tolist() == ordered[ranks].tolist()
    sketched = found.sketch.quantile(0.5)
    torch.testing.assert_close(sketched, found.quantiles[2], rtol=2.0**-8, atol=0)


def nested(layout: torch.layout) -> Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
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
    for expected, call in (
        ("input must be a tensor, an array", lambda: summarize("a")),
        ("input must have a real dtype .*: count input.real", lambda: summarize(x.cfloat())),
        ("input must be a dense tensor, got a nested", lambda: summarize(nested(torch.jagged))),
        ("input must be a dense tensor, got a nested", lambda: summarize(nested(torch.strided))),
        ("input must be a dense tensor, got layout", lambda: summarize(torch.eye(3).to_sparse())),
        ("dim must be an int or a sequence", lambda: summarize(x, "a")),
        ("dim must be between -3 and 2 for a 3-D input, got 5", lambda: summarize(x, 5)),
        ("bits must be between 0 and 16", lambda: summarize(x, bits=17)),
        ("q must be between 0 and 1", lambda: summarize(x, q=[2])),
    ):
        with pytest.raises((TypeError, RuntimeError), match=f"^summarize: {expected}"):
            call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled(device: torch.device, dtype: torch.dtype) -> None:
    """In one graph, with any number of rows, the sketch among the results."""
    run = torch.compile(summarize, fullgraph=True, backend="aot_eager")
    for rows in (40, 17, 33):
        x = some(dtype, rows, 3).to(device)
        x[0, 0], x[1, 1] = torch.nan, 0.0
        found, expected = run(x, 0), summarize(x, 0)
        for name in (field.name for field in fields(found) if field.name != "_sketch"):
            got, wanted = getattr(found, name), getattr(expected, name)
            if name in ("mean", "var", "std"):  # those of a CPU are exact unless compiled
                torch.testing.assert_close(got, wanted, rtol=2.0**-40, atol=1e-12)
            else:
                assert torch.equal(got.nan_to_num(-1), wanted.nan_to_num(-1)), name
        found.sketch.update(x, 0)
        expected.sketch.update(x, 0)
        assert torch.equal(found.sketch.hist, expected.sketch.hist)
        assert torch.equal(found.sketch.quantile(0.3), expected.sketch.quantile(0.3))


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


def test_histograms_of_arrays() -> None:
    values = np.array([0.0, 1.0, 1.0])
    hist, edges = histograms({"a": values, "b": [2.0]}, 2)["a"]
    assert hist.tolist() == [1, 2]
    assert edges.tolist() == [0.0, 0.5, 1.0]


def test_parameters_and_gradients(model: Model) -> None:
    found = histograms(model, 16)
    names = {"first.weight", "first.weight.grad", "first.bias", "first.bias.grad"}
    assert found.keys() == names | {"frozen.weight", "frozen.bias"}
    assert found.keys() - histograms(model, gradients=False).keys() == {
        "first.weight.grad",
        "first.bias.grad",
    }
    for name, (hist, edges) in found.items():
        weight = model.get_parameter(name.removesuffix(".grad"))
        values = (weight.grad if name.endswith(".grad") else weight.detach()).numpy()
        counts, bounds = np.histogram(values, 16)
        assert hist.tolist() == counts.tolist()
        assert edges.tolist() == bounds.tolist()
    assert histograms({}) == {}
    for line, call in (
        ("tensors must be a module or a mapping", lambda: histograms([torch.ones(2)])),
        (
            "tensors\\['a'\\] must have a real dtype",
            lambda: histograms({"a": torch.ones(2).cfloat()}),
        ),
        (
            r"tensors\['\\x00'\] must have a real dtype",
            lambda: histograms({"\0": torch.ones(2).cfloat()}),
        ),
        ("bins must be at least 1, got 0", lambda: histograms(model, 0)),
        ("bins must be an int, got tensor", lambda: histograms(model, torch.arange(3.0))),
    ):
        with pytest.raises((TypeError, RuntimeError), match=f"^histograms: {line}"):
            call()


def test_sparse_gradients() -> None:
    table = nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([1, 1, 3])).sum().backward()
    hist, edges = histograms(table, 2)["weight.grad"]
    assert (hist.tolist(), edges.tolist()) == ([6, 4], [0, 1, 2])


def tensorboard_writer(folder: Path) -> Any:
    return pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(folder))


def events_of(folder: Path) -> Any:
    accumulator = "tensorboard.backend.event_processing.event_accumulator"
    events = pytest.importorskip(accumulator).EventAccumulator(str(folder), {"histograms": 0})
    events.Reload()
    return events


def test_tensorboard(model: Model, tmp_path: Path) -> None:
    found = histograms(model)
    with tensorboard_writer(tmp_path) as writer:
        loggers.to_tensorboard(writer, found, step=7, prefix="model/")
    events = events_of(tmp_path)
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
    pytest.importorskip(package)
    found = histograms(model)
    boxed = getattr(loggers, f"to_{package}")(found, "model/")
    assert list(boxed) == [f"model/{name}" for name in found]
    for box, (hist, edges) in zip(boxed.values(), found.values(), strict=True):
        assert list(box.histogram) == hist.tolist()
        assert list(box.bins) == edges.tolist()
    monkeypatch.setitem(sys.modules, package, None)
    line = f"to_{package}: needs {package}: pip install {package}"
    with pytest.raises(ImportError, match=f"^{re.escape(line)}$"):
        getattr(loggers, f"to_{package}")(found)


NOT_FINITE = {
    "nan": (3, 0),
    "inf": (0, 2),
    "both": (1, 1),
    "all": (12, 0),
    "none": (0, 0),
}
"""How many of 12 weights are NaN and infinite."""


@pytest.fixture(params=NOT_FINITE)
def numbers_of(model: Model, request: pytest.FixtureRequest) -> dict[str, int]:
    nan, inf = NOT_FINITE[request.param]
    weight = model.first.weight.data.view(-1)
    weight[:nan], weight[nan : nan + inf] = torch.nan, -torch.inf
    found = histograms(model)["first.weight"]
    assert (found.nan, found.inf, found.hist.sum()) == (nan, inf, 12 - nan - inf)
    return {"nan": nan, "inf": inf}


def test_tensorboard_tells_what_is_not_finite(
    model: Model, numbers_of: dict[str, int], tmp_path: Path
) -> None:
    """The step of the first NaN is seen, and no tensor without values has a range."""
    with tensorboard_writer(tmp_path) as writer:
        Watch(model, writer, prefix="my/").log(5)
    events = events_of(tmp_path)
    tags = {f"my/first.weight/{kind}": n for kind, n in numbers_of.items() if n}
    assert set(events.Tags()["scalars"]) == tags.keys()
    for tag, number in tags.items():
        (event,) = events.Scalars(tag)
        assert (event.step, event.value) == (5, number)
    has_values = sum(numbers_of.values()) < 12
    assert ("my/first.weight" in events.Tags()["histograms"]) == has_values
    assert "my/first.bias" in events.Tags()["histograms"]


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_boxes_tell_what_is_not_finite(
    model: Model, numbers_of: dict[str, int], package: str
) -> None:
    pytest.importorskip(package)
    boxed = getattr(loggers, f"to_{package}")(histograms(model), "my/")
    told = {kind: boxed.get(f"my/first.weight/{kind}", 0) for kind in numbers_of}
    assert told == numbers_of
    assert ("my/first.weight" in boxed) == (sum(numbers_of.values()) < 12)


def test_no_values_no_histogram(tmp_path: Path) -> None:
    with tensorboard_writer(tmp_path) as writer:
        found = {**histograms({"empty": torch.empty(0)}), "pair": (np.zeros(2), np.arange(3.0))}
        loggers.to_tensorboard(writer, found)
        loggers.to_tensorboard(writer, {"other": (np.ones(2), np.arange(3.0))})
    events = events_of(tmp_path)
    assert events.Tags()["histograms"] == ["other"]
    assert events.Tags()["scalars"] == []


def logged_by_tensorboard(watch: Callable[[Any], Watch], folder: Path) -> dict[str, Any]:
    with tensorboard_writer(folder) as writer:
        train(watch(writer))
    events = events_of(folder)
    found = events.Histograms("my/first.weight")
    assert [event.step for event in found] == [0, 2]
    last = found[-1].histogram_value
    return {"values": last.bucket, "bins": [last.min, *last.bucket_limit]}


def logged_by_wandb(watch: Callable[[Any], Watch], folder: Path) -> dict[str, Any]:
    wandb = pytest.importorskip("wandb")

    run = wandb.init(mode="disabled")
    train(watch(run))
    last = run.summary["my/first.weight"]
    return {"values": last.histogram, "bins": last.bins}


def logged_by_trackio(watch: Callable[[Any], Watch], folder: Path) -> dict[str, Any]:
    trackio = pytest.importorskip("trackio")
    storage = pytest.importorskip("trackio.sqlite_storage").SQLiteStorage
    run = trackio.init("test", embed=False, auto_log_gpu=False, auto_log_cpu=False)
    train(watch(trackio))
    run.finish()
    logs = storage.get_logs("test", run.name)
    assert [log["step"] for log in logs] == [0, 2]
    return logs[-1]["my/first.weight"]


def train(watch: Watch) -> None:
    for step in range(4):
        watch.module.first.weight.data *= 2
        watch.log(step)
    watch.module.first.weight.data /= 2  # as it was at the last step that was logged


@pytest.mark.parametrize(
    "logged", [logged_by_tensorboard, logged_by_wandb, logged_by_trackio], ids=lambda f: f.__name__
)
def test_watch(
    model: Model,
    tmp_path: Path,
    logged: Callable[[Callable[[Any], Watch], Path], dict[str, Any]],
) -> None:
    last = logged(lambda writer: Watch(model, writer, every=2, prefix="my/"), tmp_path)
    hist, edges = histograms(model)["first.weight"]
    assert list(last["values"]) == hist.tolist()
    assert list(last["bins"]) == edges.tolist()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("model", "trackio"), "Watch: module must be a torch.nn.Module, got 'model'"),
        ((nn.ReLU(), [1]), "Watch: writer must be a SummaryWriter, or a run of wandb or trackio"),
        ((nn.ReLU(), json, 0), "Watch: every must be at least 1, got 0"),
        ((nn.ReLU(), json, 0.5), "Watch: every must be an int, got 0.5"),
    ],
)
def test_what_watch_refuses(arguments: Sequence[Any], line: str) -> None:
    module, writer, *every = arguments
    with pytest.raises((RuntimeError, TypeError), match=f"^{re.escape(line)}"):
        Watch(module, writer, every=every[0] if every else 1)


def test_the_name_of_the_module(tmp_path: Path) -> None:
    """It is `torch_histo.logging`, and hides no module of the standard library."""
    assert sys.modules["torch_histo.logging"] is torch_histo.logging is loggers
    stub = Path(torch_histo.__file__).with_name("logging.pyi").read_text()
    assert stub == "from torch_histo.loggers import *\n"
    files = {path.stem for path in Path(torch_histo.__file__).parent.glob("*.py")}
    assert not files & sys.stdlib_module_names


@pytest.mark.parametrize("module", [summaries, loggers], ids=["summaries", "logging"])
def test_docstrings(module: object) -> None:
    names = {"torch": torch, "torch_histo": torch_histo}
    results = doctest.testmod(module, extraglobs=names)
    assert results.attempted >= 2
    assert results.failed == 0


class Writer:
    """What Watch takes for a SummaryWriter."""

    def add_histogram_raw(self, *given: Any, **named: Any) -> None: ...

    def add_scalar(self, *given: Any, **named: Any) -> None: ...


PAIR = "found must be a mapping of names to counts and edges, as histograms returns"
N_COUNTS = "found['a'] must be a pair of n counts and n + 1 edges"
WRONG_CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: watch().log(None), TypeError, "Watch.log: step must be a number, got None"),
    (lambda: watch().log("1"), TypeError, "Watch.log: step must be a number, got '1'"),
    (lambda: watch(bins=1.5), TypeError, "Watch: bins must be an int, got 1.5"),
    (lambda: watch(bins=0), RuntimeError, "Watch: bins must be at least 1, got 0"),
    (lambda: watch(prefix=None), TypeError, "Watch: prefix must be a str, got None"),
    (lambda: to_wandb({}, 1), TypeError, "to_wandb: prefix must be a str, got 1"),
    (lambda: to_trackio(None), TypeError, f"to_trackio: {PAIR}, got None"),
    (
        lambda: to_tensorboard(None, {}),
        TypeError,
        "to_tensorboard: writer must be a SummaryWriter, got None",
    ),
    *(
        (
            lambda wrong=wrong: to_tensorboard(Writer(), {"a": wrong}),
            TypeError,
            f"to_tensorboard: {N_COUNTS}, got {got}",
        )
        for wrong, got in (
            (None, "None"),
            ((1, 2), "(1, 2)"),
            (([1], [0]), "([1], [0])"),
            ([1, 2, 3], "[1, 2, 3]"),
            (torch.ones(2), "tensor([1., 1.])"),
        )
    ),
]


def watch(**options: Any) -> Any:
    return Watch(nn.Linear(2, 2), Writer(), **options)


@pytest.mark.parametrize(("call", "error", "line"), WRONG_CALLS)
def test_errors_of_loggers(call: Callable[[], Any], error: type[Exception], line: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(line)}$"):
        call()


def test_steps_and_pairs_that_loggers_take() -> None:
    for step in (3, 3.0, np.int64(3), torch.tensor(3)):
        watch().log(step)
    to_tensorboard(Writer(), {"a": ([1, 2], [0, 1, 2]), "b": (torch.ones(1), torch.arange(2))})
