"""The suite of joint histograms: its right counts are the oracle's."""

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
def joint(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("joint")


def test_bench_of_joint_histograms(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "--suite", "joint"]
    command += ["--device", "cpu", "--threads", "1", "--out", str(tmp_path)]
    some = ["--quick", "--cases", r"\[(4|10000)", "--peers", "bincount|np.histogramdd"]
    subprocess.run([*command, *some], check=True, env=ENVIRONMENT, timeout=120)
    results = tmp_path / "joint-quick-cpu-1-threads.json"
    record = json.loads(results.read_text())
    names = {row["implementation"] for row in record["records"]}
    assert names == {"torch_histo", "bucketize + bincount", "np.histogramdd"}
    for row in record["records"]:
        assert row["beside"].startswith("float")
        assert row["implementation"] != "torch_histo" or "misplaced" not in row
        assert row["share"] == row["read_only_seconds"] / row["seconds"]
    tables = results.with_suffix(".md").read_text()
    assert "float32, float32 [4, 32, 32] over (1, 2), 64 x 64 bins in (-4.1, 4.3)" in tables
    assert "float64, float64, float64 in one [10000], 32 x 32 x 32 bins" in tables
    subprocess.run([*command, "--draw", str(results)], check=True, env=ENVIRONMENT, timeout=120)
    assert results.with_suffix(".md").read_text() == tables


def small(joint: ModuleType) -> list[object]:
    """The cases on few elements and in few bins."""
    return [
        replace(
            case,
            shape=tuple(min(n, 9 if len(case.shape) > 1 else 300) for n in case.shape),
            num_bins=64 if joint.axes(case)[0].dtype == "int64" else min(case.num_bins, 16),
            bins="in (0, 16)" if case.bins.startswith("in (0, ") else case.bins,
        )
        for case in joint.CPU_CASES
        if case.beside.count(",") < 3
    ]


def test_the_right_counts_are_the_oracles(joint: ModuleType) -> None:
    bins, peers, bench = map(importlib.import_module, ("bins", "joint_peers", "bench"))
    (ours,) = [peer for peer in peers.JOINT_PEERS if peer.name == "torch_histo"]
    for case in small(joint):
        for name in joint.DISTRIBUTIONS:
            (points,) = joint.inputs(case, name, CPU)
            every = list(zip(joint.axes(case), points.coordinates, strict=True))
            edges = [
                bins.edges_of(axis, CPU)[0]
                if bins.BINS[axis.bins].told
                else bins.extreme_edges(axis, x.reshape(1, -1))[0]
                for axis, x in every
            ]
            wanted = oracle.joint_histogram(points.coordinates, edges, case.dim)
            wanted = wanted.reshape(case.channels, *[case.num_bins] * len(every))
            expected = joint.bucketize_bincount(case)(points)
            assert torch.equal(expected, wanted), (case, name)
            assert wanted.any()
            assert bench.misplaced_counts(ours.prepare(case)(points).view_as(wanted), wanted) == 0


def test_correlated_coordinates_follow_the_first(joint: ModuleType) -> None:
    for case in joint.QUICK:
        (points,) = joint.inputs(case, joint.CORRELATED, CPU)
        together = np.stack([x.double().flatten().numpy() for x in points.coordinates])
        assert np.corrcoef(together).min() > 0.99, case
        (points,) = joint.inputs(case, "independent", CPU)
        together = np.stack([x.double().flatten().numpy() for x in points.coordinates])
        assert np.corrcoef(together)[0, 1:].max() < 0.05, case


def test_points_in_one_tensor(joint: ModuleType) -> None:
    case = joint.pair((5,), 64, beside="float32, float32 in one")
    (points,) = joint.inputs(case, "independent", CPU)
    assert points.sample.shape == (5, 3)
    assert points.shape == (5,)
    assert len(points.coordinates) == 3
    (points,) = joint.inputs(replace(case, beside="float32"), "independent", CPU)
    assert [x.shape for x in points.sample] == [(5,), (5,)]
