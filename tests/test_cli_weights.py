"""The command line's --weights: sums of weights by bin of the values of a file."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import torch

from torch_histo import cli
from torch_histo.cli import report
from torch_histo.cli.sources import base


def weighed(capsys: pytest.CaptureFixture[str], *words: Any) -> dict[str, Any]:
    assert cli.main([*map(str, words), "--json", "--device", "cpu"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["errors"] == []
    (entry,) = document["files"]
    return entry


def saved(folder: Path, name: str, values: torch.Tensor | np.ndarray) -> Path:
    path = folder / f"{name}.npy"
    np.save(path, np.asarray(values))
    return path


def in_json(sums: torch.Tensor) -> list[Any]:
    """Rows of sums, as JSON has numbers that are not finite."""
    names = {"nan": None, "inf": "Infinity", "-inf": "-Infinity"}
    rows = sums.reshape(-1, sums.shape[-1]).tolist()
    return [[names.get(str(value), value) for value in row] for row in rows]


def integers(low: int, high: int) -> torch.Tensor:
    return torch.randint(low, high, (9, 4), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("piece", [1 << 24, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.uint8])
def test_floats(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
    piece: int,
) -> None:
    monkeypatch.setattr(base, "PIECE_VALUES", piece)
    values = oracle.random_values((6, 11), torch.float32, seed=1)
    values[2, 3], values[0, 0] = math.nan, -500.0
    weight = oracle.random_values((6, 11), dtype, seed=2)
    x, w = saved(tmp_path, "x", values), saved(tmp_path, "w", weight)
    for options, dim in (([], None), (["--per-channel"], 1), (["--dim=0"], 0)):
        entry = weighed(capsys, x, "--weights", w, "--range", -100, 100, "--bins", 5, *options)
        edges = torch.linspace(-100, 100, 6)
        expected = oracle.weighted_histogram(values, edges, weight, dim, flow=True)
        channels = entry.pop("channels")
        for row, channel in zip(in_json(expected), channels, strict=True):
            flow = [channel[name] for name in ("underflow", "overflow", "nan")]
            assert [flow[0], *channel["sums"], *flow[1:]] == row
            assert channel["edges"] == edges.tolist()
        assert entry["elements"] == 66
        assert entry["weight_dtype"] == str(dtype).removeprefix("torch.")
        assert entry["weights"] == str(w)


@pytest.mark.parametrize("piece", [1 << 24, 7])
def test_integers(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    piece: int,
) -> None:
    monkeypatch.setattr(base, "PIECE_VALUES", piece)
    values = integers(-2, 9)
    weight = oracle.random_values((9, 4), torch.float64, seed=3)
    x, w = saved(tmp_path, "x", values), saved(tmp_path, "w", weight)
    for options, bins, dim in (([], int(values.max()) + 1, 0), (["--num-bins", 3], 3, 0)):
        entry = weighed(capsys, x, "--weights", w, *options)
        expected = oracle.weighted_channel_histogram(values, weight, bins, dim)
        assert [channel["sums"] for channel in entry["channels"]] == in_json(expected)


def test_the_range_is_that_of_the_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = saved(tmp_path, "x", torch.tensor([0.0, 1, 2, 4]))
    w = saved(tmp_path, "w", torch.tensor([math.inf, 0.5, -math.inf, 0.25]))
    entry = weighed(capsys, x, "--weights", w, "--bins", 4)
    (channel,) = entry["channels"]
    assert channel["edges"] == [0, 1, 2, 3, 4]
    assert channel["sums"] == ["Infinity", 0.5, "-Infinity", 0.25]


def test_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = saved(tmp_path, "x", np.array([0.1, 0.4, 0.6, 0.9, 7]))
    w = saved(tmp_path, "w", np.array([1, 2, -1.5, 0.25, 10], np.float32))
    command = [str(x), "--weights", str(w), "--bins", "2", "--range", "0", "1", "--device", "cpu"]
    assert cli.main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        f"{x}: array, 5 float64",
        f"  weights: {w}, float32",
        "  5 values, the sums of their weights in 2 bins",
    ]
    assert lines[4] == "  0: 1.75 in bins, 10 overflow"
    assert lines[5] == "    [  0, 0.5)      3  " + "█" * 40
    assert lines[6].startswith("    [0.5,   1]  -1.25  █")
    assert len(lines[6]) < len(lines[5])


def test_other_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    x = saved(tmp_path, "x", torch.arange(4))
    weight = torch.tensor([0.5, 1.5, -2, 4]).bfloat16()
    safetensors.save_file({"w": weight}, tmp_path / "w.safetensors")
    torch.save({"w": weight}, tmp_path / "w.pt")
    for name in ("w.safetensors", "w.pt"):
        entry = weighed(capsys, x, "--weights", tmp_path / name)
        assert entry["channels"][0]["sums"] == [0.5, 1.5, -2, 4]
        assert entry["weight_dtype"] == "bfloat16"


ERRORS = [
    (np.zeros(3), np.zeros(4), r"--weights .*: expected an array of shape \[3\], .* of \[4\]"),
    (np.zeros((0, 3)), np.zeros((0, 3)), r"the array of shape \[0, 3\] holds no values"),
    (np.zeros(3), np.zeros(3, complex), r"--weights .*: expected an array of integers, floats"),
    (np.zeros(3), None, r"x\.npy: --weights \S*nowhere\.npy: No such file or directory$"),
]


@pytest.mark.parametrize(("values", "weight", "message"), ERRORS)
def test_errors(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    values: np.ndarray,
    weight: np.ndarray | None,
    message: str,
) -> None:
    x = saved(tmp_path, "x", values)
    w = tmp_path / "nowhere.npy" if weight is None else saved(tmp_path, "w", weight)
    assert cli.main([str(x), "--weights", str(w), "--device", "cpu"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line), line


def test_weights_in_another_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(12.0).reshape(3, 4)
    x, w = saved(tmp_path, "x", values), saved(tmp_path, "w", np.asfortranarray(values))
    command = [x, "--weights", w, "--bins", 2]
    one = weighed(capsys, *command)["channels"][0]["sums"]
    assert one == [15, 51]
    monkeypatch.setattr(base, "PIECE_VALUES", 5)
    assert cli.main([*map(str, command), "--device", "cpu"]) == 2
    assert "another order of memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--weights w", "argument --weights: needs one FILE"),
        ("--weights w x y", "argument --weights: needs one FILE"),
        ("--weights - x", "argument --weights: must be the name of a file, got -"),
        ("--weights w x --summary", "argument --summary: not allowed with argument --weights"),
        ("--weights w x --quantiles 0.5", "argument --quantiles: not allowed with"),
        ("--weights w x --plot p.png", "argument --plot: not allowed with argument --weights"),
        ("--weights w x --text", "argument --text: not allowed with argument --weights"),
        ("--weights w x --channels 2", "argument --channels: not allowed with argument --weights"),
    ],
)
def test_options(capsys: pytest.CaptureFixture[str], words: str, message: str) -> None:
    assert cli.main(words.split()) == 2
    assert message in capsys.readouterr().err


def test_only_one_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "two.npz", a=np.zeros(2), b=np.zeros(2))
    x = saved(tmp_path, "x", np.zeros(2))
    assert cli.main([str(x), "--weights", str(tmp_path / "two.npz"), "--device", "cpu"]) == 2
    assert "found 2: save the weights in a file of their own" in capsys.readouterr().err
    assert cli.main([str(tmp_path / "two.npz"), "--weights", str(x), "--device", "cpu"]) == 2
    assert "--weights is for one array, found 2: see --columns" in capsys.readouterr().err
    (tmp_path / "x.bin").write_bytes(b"abcd")
    assert cli.main([str(tmp_path / "x.bin"), "--weights", str(x), "--device", "cpu"]) == 2
    assert "--weights is for arrays, found bytes" in capsys.readouterr().err


CANCELLING = [1e308, 1e308, 1.25, -1e308, -1e308, 2.0**-1074, math.inf]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 3), (5, 7), (3, 7)])
def test_ranges_of_sums_are_exact(height: int, width: int) -> None:
    """They neither overflow on the way nor lose what is small."""
    sums = np.array([CANCELLING[i:] + CANCELLING[:i] for i in range(5)])
    found = report.sums_of_ranges(sums, height, width)
    for at in np.ndindex(found.shape):
        top, left = at[0] * height, at[1] * width
        inside = sums[top : top + height, left : left + width].ravel().tolist()
        assert found[at] == oracle.exact_sum(inside), at


def test_the_total_of_a_table_is_exact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sums = np.repeat(CANCELLING[:-2], 5)
    x, w = saved(tmp_path, "x", np.arange(25)), saved(tmp_path, "w", sums)
    assert cli.main([str(x), "--weights", str(w), "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert "  0: 6.25 in bins" in out
    assert not err
