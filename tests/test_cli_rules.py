"""--bins auto and other rules of NumPy on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import torch_histo
from torch_histo import cli
from torch_histo._bin_rules import RULES
from torch_histo.cli.options import BIN_RULES


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = cli.main(list(arguments))
    except SystemExit as end:
        status = int(end.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def test_the_rules_are_those_of_the_function() -> None:
    assert BIN_RULES == RULES


@pytest.mark.parametrize("rule", BIN_RULES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_edges_and_counts_are_those_of_the_function(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, rule: str, dtype: str
) -> None:
    values = (np.random.default_rng(1).normal(size=(40, 5)) * 30).astype(dtype)
    np.save(tmp_path / "x.npy", values)
    for ends in ((), ("--range", "-20", "25.5")):
        given = (str(tmp_path / "x.npy"), "--json", "--dim", "all", "--bins", rule, *ends)
        status, out, _ = run(capsys, *given)
        assert status == 0
        (channel,) = json.loads(out)["files"][0]["channels"]
        limits = tuple(map(float, ends[1:])) or None
        hist, edges = torch_histo.histogram(values, rule, limits)
        assert channel["edges"] == edges.tolist()
        assert channel["counts"] == hist.tolist()


def test_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, outlier = str(tmp_path / "x.npy"), str(tmp_path / "y.npy")
    np.save(file, np.ones((4, 3), np.float32))
    np.save(outlier, np.array([0, 1e-30, 2e-30, 3e-30, 4e-30, 1]))
    for given, line in (
        ((file, "--bins", "auto", "--per-channel"), "--bins auto is for one channel, found 4"),
        ((file, "--bins", "auto", "--log"), "must be a number with argument --log, got auto"),
        (
            (file, "--bins", "fd", "--weights", file),
            "argument --bins: must be a number with argument --weights, got fd",
        ),
        (
            (file, "--bins", "doane"),
            "expected a whole number of at least 1, or one of auto, fd, rice, sqrt, sturges, got "
            "'doane'",
        ),
        ((outlier, "--bins", "fd"), "--bins must be a number or edges where a rule makes more"),
    ):
        status, out, err = run(capsys, *given)
        assert status == 2
        assert line in err
        assert err.count("\n") == 1
        assert not out.strip() or "--json" in given
