"""The suite of weights: its right sums are the oracle's, and its results tell who is not exact."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import oracle
import pytest
import torch
from conftest import ENVIRONMENT

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
CPU = torch.device("cpu")


@pytest.fixture
def weighted(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("weighted")


def test_bench_of_weights(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "--suite", "weights", "--quick"]
    command += ["--device", "cpu", "--threads", "1", "--out", str(tmp_path)]
    some = ["--cases", "float32", "--peers", "np.histogram|C.. loop|bincount"]
    subprocess.run([*command, *some], check=True, env=ENVIRONMENT, timeout=120)
    record = json.loads((tmp_path / "weights-quick-cpu-1-threads.json").read_text())
    names = {row["implementation"] for row in record["records"]}
    peers = {"np.histogram", "C++ loop of doubles", "bucketize + bincount(weights)"}
    assert names - {"C++ loop of doubles"} == {"torch_histo"} | peers - {"C++ loop of doubles"}
    for row in record["records"]:
        assert row["weight"].startswith(("float", "int"))
        assert row["implementation"] != "torch_histo" or "misplaced" not in row
        assert row["share"] == row["read_only_seconds"] / row["seconds"]
    tables = (tmp_path / "weights-quick-cpu-1-threads.md").read_text()
    assert "float32 [1024, 16] + float32 by row, 32 bins own ranges" in tables
    assert "sums that are not exact, by sums" in tables
    command[command.index("--quick") :] = [
        "--draw",
        str(tmp_path / "weights-quick-cpu-1-threads.json"),
    ]
    subprocess.run(command, check=True, env=ENVIRONMENT, timeout=120)
    assert (tmp_path / "weights-quick-cpu-1-threads.md").read_text() == tables


def small(weighted: ModuleType) -> dict[object, object]:
    """Every case on few elements, by what it was."""
    every = weighted.CUDA_CASES + weighted.CPU_CASES + weighted.QUICK
    found = {}
    for case in every:
        most = 19 if len(case.shape) > 1 else 700
        shape = tuple(min(n, most) for n in case.shape)
        found[case] = replace(case, shape=shape, num_bins=min(case.num_bins, 300))
    return found


def test_the_right_sums_are_the_oracles(weighted: ModuleType) -> None:
    """And so are those of torch_histo and of peers that are exact."""
    bins, peers, histograms = map(
        importlib.import_module, ("bins", "weight_peers", "histogram_peers")
    )
    for full, case in small(weighted).items():
        kept = [n for d, n in enumerate(case.shape) if d not in case.dim]
        for name in weighted.DISTRIBUTIONS:
            if not weighted.has(full, name):
                continue
            (pair,) = weighted.inputs(case, name, CPU)
            x, weight = pair
            if case.bins:
                told = bins.BINS[case.bins].told
                edges = (
                    bins.edges_of(case, CPU)
                    if told
                    else bins.extreme_edges(case, histograms.by_channels(x, case))
                )
                edges = edges[0] if len(edges) == 1 else edges.view(*kept, -1)
                wanted = oracle.weighted_histogram(x, edges, weight, case.dim)
            else:
                wanted = oracle.weighted_channel_histogram(x, weight, case.num_bins, case.dim)
            wanted = wanted.reshape(case.channels, -1)
            expected = weighted.exact_sums(case)(pair)
            assert torch.equal(expected, wanted), (case, name)
            assert wanted.any()
            for peer in peers.WEIGHT_PEERS:
                if peer.exact and peer.supports(case):
                    found = peer.prepare(case)(pair).reshape(case.channels, -1)
                    assert not weighted.wrong_sums(found, expected), (case, name, peer.name)


def test_a_wrong_sum_is_seen(weighted: ModuleType) -> None:
    expected = torch.tensor([0.1, 0.2], dtype=torch.float64)
    assert weighted.wrong_sums(expected, expected) == 0
    assert weighted.wrong_sums(expected.nextafter(torch.tensor(1.0).double()), expected) == 2
    assert weighted.wrong_sums(torch.tensor([1, 3]), torch.tensor([1, 2])) == 1


def test_values_and_weights_are_other_random_numbers(weighted: ModuleType) -> None:
    case = weighted.CPU_CASES[0]
    (pair,) = weighted.inputs(case, weighted.MAIN, CPU)
    together = torch.stack((pair.x.double(), pair.weight.double()))
    assert abs(float(together.corrcoef()[0, 1])) < 0.01


@pytest.mark.parametrize(
    ("weight", "shape"),
    [
        ("float32", (6, 4, 5)),
        ("float32 for all", ()),
        ("float32 by channel", (1, 4, 1)),
        ("float32 by row", (6, 1, 5)),
    ],
)
def test_shapes_of_weights(weighted: ModuleType, weight: str, shape: tuple[int, ...]) -> None:
    case = replace(weighted.CPU_CASES[4], shape=(6, 4, 5), dim=(0, 2), weight=weight)
    assert weighted.weight_shape(case) == shape


def test_accuracy(tmp_path: Path) -> None:
    """torch_histo is exact, or the program would end; others are not, where it was reported."""
    command = [sys.executable, str(BENCHMARKS / "accuracy.py"), "--device=cpu", f"--out={tmp_path}"]
    command += ["--cases=^(normal|x and|as numpy)"]
    subprocess.run(command, check=True, env=ENVIRONMENT, timeout=120)
    record = json.loads((tmp_path / "accuracy-cpu.json").read_text())
    wrong = {(row["weights"], row["sums"]): row["wrong"] for row in record["records"]}
    assert {name for name, _ in wrong} == {
        "normal",
        "x and -x, and once 2^-149",
        *(f"as numpy/numpy#{number}" for number in (6040, 13879, 28823)),
    }
    for (name, who), number in wrong.items():
        if who == "torch_histo":
            assert number == 0
        if who == "np.histogram, edges":
            assert number > 0, name
    assert "lost" in (tmp_path / "accuracy-cpu.md").read_text()


def test_exact_sums_of_accuracy_are_the_oracles(weighted: ModuleType) -> None:
    accuracy = importlib.import_module("accuracy")
    for name, make in accuracy.CASES.items():
        case = make()
        if case.uniform is not None:
            edges = np.histogram_bin_edges(case.values[:9].numpy(), *case.uniform)
            assert edges.tolist() == case.edges.tolist()
        if len(case.weight) > 300_000:
            assert case.equal
            exact = [oracle.exact_sum([case.weight[0].item()]) * len(case.weight)]
        else:
            some = slice(None, None, 37 if len(case.weight) > 100 else 1)
            values, weight = case.values[some].contiguous(), case.weight[some]
            exact = oracle.weighted_histogram(values, case.edges, weight).tolist()
            case = accuracy.Case(values, weight, case.edges)
        assert [accuracy.rounded(number) for number in case.exact()] == exact, name


def test_errors_of_accuracy(weighted: ModuleType) -> None:
    accuracy = importlib.import_module("accuracy")
    exact = [accuracy.Fraction(1, 10), accuracy.Fraction(0), accuracy.Fraction(4)]
    found = torch.tensor([0.1, 0, 5], dtype=torch.float64).numpy()
    assert accuracy.measure(found, exact) == {"error": 0.25, "wrong": 1, "bins": 3}
    for lost in (0.0, float("nan"), float("inf")):
        found[2] = lost
        assert accuracy.measure(found, exact)["error"] == float("inf")
    found[:] = (0.1, 1e-300, 4)
    assert accuracy.cell(accuracy.measure(found, exact)) == "lost (1 of 3)"
