"""What users saved with version 0.1.0 still loads, and gives the results that it gave then."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import load_module
from torch import Tensor

import torch_histo
from torch_histo import QuantileSketch, StreamingHistogram

FOLDER = Path(__file__).parent / "saved"
make = load_module(FOLDER / "make.py")
VALUES, TOKENS, TEXT, EDGES = make.inputs()


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return torch.load(FOLDER / "results.pt", weights_only=True)


@pytest.fixture(scope="module")
def pickled() -> dict[str, Any]:
    return torch.load(FOLDER / "pickled.pt", weights_only=False)


def assert_same(found: Any, expected: Any) -> None:
    """The same bits; any NaN is NaN."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_same(found[name], expected[name])
    elif isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert isinstance(found, Tensor)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def program(name: str, torch_of_file: str) -> torch.nn.Module:
    of_file, own = (tuple(map(int, v.split(".")[:2])) for v in (torch_of_file, torch.__version__))
    if own < of_file:
        pytest.skip(f"needs torch {torch_of_file}: an older one does not read its programs")
    return torch.export.load(FOLDER / name).module()


def test_program_of_functions_and_operators(results: dict[str, Any]) -> None:
    loaded = program("calls.pt2", results["torch"])
    assert_same(loaded(VALUES, TOKENS, TEXT, EDGES), results["calls"])
    # With other sizes the program gives what the functions of today give.
    values, tokens = VALUES[:7], TOKENS[:7]
    assert_same(
        loaded(values, tokens, TEXT, EDGES), dict(make.Calls()(values, tokens, TEXT, EDGES))
    )


def test_program_with_streams(results: dict[str, Any]) -> None:
    loaded = program("streams.pt2", results["torch"])
    assert_same(loaded(VALUES), results["streams"])
    again = loaded(VALUES)
    assert torch.equal(again["stream"], results["streams"]["stream"] * 2)


def test_results_are_those_of_numpy(results: dict[str, Any]) -> None:
    """The results of then were right."""
    calls, values = results["calls"], VALUES.numpy()
    for channel in range(4):
        counts = np.bincount(TOKENS[:, channel].numpy(), minlength=13)
        assert calls["channels"][channel].tolist() == counts[:12].tolist()
    every = np.bincount(TOKENS.flatten().numpy(), minlength=13)
    assert calls["channels_of_operator"].tolist() == every[:9].tolist()
    text = bytes(TEXT.tolist()).decode()
    letters = [
        sum(text.count(chr(97 + i + k)) for k in range(4) if i + k < 26) for i in range(0, 28, 4)
    ]
    assert calls["letters"].tolist() == letters
    for channel in range(3):
        column = values[:, channel]
        finite = column[np.isfinite(column)]
        hist, edges = np.histogram(finite, 8)
        assert calls["own_range"][0][channel].tolist() == hist.tolist()
        assert calls["own_range"][1][channel].tolist() == edges.tolist()
        assert (calls["extremes"][0][channel], calls["extremes"][1][channel]) == (
            finite.min(),
            finite.max(),
        )
        flow = calls["edges"][channel]
        not_nan = column[~np.isnan(column)]
        counts = np.histogram(not_nan[not_nan > -np.inf], EDGES.numpy()[1:])[0].tolist()
        below_one = int(((not_nan >= -np.inf) & (not_nan < -1)).sum())
        assert flow.tolist() == [
            0,
            below_one,
            *counts,
            int((not_nan > 2).sum()),
            len(column) - len(not_nan),
        ]
        expected = np.quantile(column, [0.1, 0.5])  # NaN where the column holds it
        np.testing.assert_allclose(calls["quantile"][:, channel], expected, rtol=1e-6)
    assert torch.equal(calls["edges"], calls["operator"])
    not_nan = np.sort(values[~np.isnan(values)])
    assert calls["nanquantile"] == not_nan[int(0.7 * (len(not_nan) - 1))]
    density = np.histogram(values[np.isfinite(values)], 8, (-1, 1), density=True)[0]
    np.testing.assert_allclose(calls["range"][0], density, rtol=1e-6)


@pytest.mark.parametrize("name", sorted(make.modules()))
def test_modules(name: str, results: dict[str, Any], pickled: dict[str, Any]) -> None:
    """Pickled as a whole, and by their states."""
    module = pickled["modules"][name]
    assert type(module) in (StreamingHistogram, QuantileSketch)
    assert_same(make.results_of(module), results["modules"][name])
    states = torch.load(FOLDER / "states.pt", weights_only=True)
    fresh = make.modules()[name]
    fresh.reset()
    fresh.load_state_dict(states[name])
    assert_same(make.results_of(fresh), results["modules"][name])
    # Both go on counting, and merge with a module of today.
    for loaded in (module, fresh):
        loaded.update(VALUES, 0 if loaded.hist.dim() > 1 else None)
        assert torch.equal(loaded.hist, results["modules"][name]["hist"] * 2)
    counted = make.modules()[name]
    assert torch.equal(counted.merge(module).hist, results["modules"][name]["hist"] * 3)
    assert repr(counted) == repr(module)


def test_results_and_plans(results: dict[str, Any], pickled: dict[str, Any]) -> None:
    others = pickled["others"]
    assert_same(tuple(others["histogram"]), tuple(torch_histo.histogram(VALUES, 4)))
    summary = others["summary"]
    assert_same({name: getattr(summary, name) for name in results["summary"]}, results["summary"])
    assert_same(make.results_of(summary.sketch), results["sketch_of_summary"])
    counts = torch_histo.logging.histograms({"values": VALUES}, 4)["values"]
    assert [array.tolist() for array in others["counts"]] == [array.tolist() for array in counts]
    assert others["device"] == make.others()["device"]
    for name, facts in results["facts"].items():
        assert {fact: getattr(others[name], fact) for fact in facts} == facts
        assert str(others[name])  # the plan in words, whatever they are today
    found = others["bin_search"]
    assert isinstance(found, torch_histo.BinSearch)
    assert found in others["histogram_explanation"].searches


def test_every_class_that_can_be_saved_is_here(pickled: dict[str, Any]) -> None:
    """`Watch` holds a writer of another package; version 0.1.0 had no joint histograms."""
    kept = [*pickled["modules"].values(), *pickled["others"].values()]
    modules = (torch_histo, torch_histo.logging, torch_histo.distributed)
    public = {v for m in modules for n in m.__all__ if isinstance(v := getattr(m, n), type)}
    assert {type(value) for value in kept} == public - {
        torch_histo.logging.Watch,
        torch_histo.JointHistogram,
        torch_histo.StreamingHistogramdd,
    }


CLASSES = {
    "_plan_facts": ("BinSearch", "WeightFacts", "WrongEdge"),
    "devices": ("Device",),
    "explain": ("CpuExplanation", "Explanation"),
    "explain_histogram": ("HistogramExplanation",),
    "histograms": ("Histogram",),
    "joint": ("JointHistogram",),
    "joint_streams": ("StreamingHistogramdd",),
    "loggers": ("Counts", "Watch"),
    "sketch": ("QuantileSketch", "SketchMoments"),
    "streams": ("StreamingHistogram",),
    "summaries": ("Summary",),
    "weighted_streams": ("WeightedStreamingHistogram",),
}
"""Where pickles name the classes, wherever these are defined."""


@pytest.mark.parametrize(("module", "names"), CLASSES.items())
def test_classes_are_where_pickles_look_for_them(module: str, names: tuple[str, ...]) -> None:
    for name in names:
        kind = pickle.loads(f"ctorch_histo.{module}\n{name}\n.".encode())
        assert (kind.__module__, kind.__name__) == (f"torch_histo.{module}", name)
        assert pickle.loads(pickle.dumps(kind)) is kind
        assert getattr(importlib.import_module(f"torch_histo.{module}"), name) is kind
