"""The command line's --joint: counts of the pairs of two columns or channels of a file."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
import torch
from PIL import Image

from torch_histo import cli


def counted(capsys: pytest.CaptureFixture[str], *words: Any) -> dict[str, Any]:
    entry = command_line.counted_entry(capsys, *words)
    assert entry["kind"] == "joint"
    assert entry["ignored"] == entry["elements"] - np.sum(entry["counts"])
    return entry


def error_of(capsys: pytest.CaptureFixture[str], *words: Any) -> str:
    return command_line.error_of(capsys, *words).rstrip("\n")


def by_hand(x: np.ndarray, y: np.ndarray, sizes: tuple[int, int]) -> list[list[int]]:
    counts = np.zeros(sizes, int)
    for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True):
        if 0 <= a < sizes[0] and 0 <= b < sizes[1]:
            counts[a, b] += 1
    return counts.tolist()


RANDOM = np.random.default_rng(0)


@pytest.mark.usefixtures("pieces_of_any_size")
@pytest.mark.parametrize("fortran", [False, True], ids=["C", "F"])
@pytest.mark.parametrize(
    ("options", "names", "at"),
    [
        ([], ["2", "0"], (np.s_[:, :, 2], np.s_[:, :, 0])),
        (["--per-channel"], ["1", "3"], (np.s_[1], np.s_[3])),
        (["--dim=0"], ["0,2", "2,1"], (np.s_[:, 0, 2], np.s_[:, 2, 1])),
        (["--dim=1,2"], ["0", "0"], (np.s_[0], np.s_[0])),
    ],
)
def test_channels_of_an_array(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fortran: bool,
    options: list[str],
    names: list[str],
    at: Any,
) -> None:
    """Pairs are of one index, whatever the order of the file and of its pieces."""
    values = RANDOM.integers(0, 6, (5, 4, 3))
    np.save(path := tmp_path / "x.npy", np.asarray(values, order="F" if fortran else "C"))
    entry = counted(capsys, path, "--joint", *names, "--num-bins", 6, *options)
    x, y = (values[one] for one in at)
    assert entry["counts"] == by_hand(x, y, (6, 6))
    assert [axis["name"] for axis in entry["axes"]] == [f"channel {name}" for name in names]
    entry = counted(capsys, path, "--joint", *names, "--bins", 3, *options)
    hist, *edges = np.histogram2d(x.ravel(), y.ravel(), 3)
    assert entry["counts"] == hist.tolist()
    assert [axis["edges"] for axis in entry["axes"]] == [own.tolist() for own in edges]


def test_integers_have_a_bin_for_each_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = RANDOM.integers(-2, 9, (500, 2))
    np.save(path := tmp_path / "x.npy", values)
    entry = counted(capsys, path, "--joint", 0, 1)
    assert entry["counts"] == by_hand(*values.T, (9, 9))
    for axis, own in zip(entry["axes"], values.T, strict=True):
        assert axis["edges"] == [i - 0.5 for i in range(10)]
        assert (axis["underflow"], axis["overflow"]) == ((own < 0).sum(), 0)
    entry = counted(capsys, path, "--joint", 0, 1, "--num-bins", 4)
    assert entry["counts"] == by_hand(*values.T, (4, 4))
    assert [axis["overflow"] for axis in entry["axes"]] == (values > 3).sum(0).tolist()
    assert cli.main([str(path), "--joint", "0", "1", "--num-bins", "4"]) == 0
    table = capsys.readouterr().out
    below, above = (values[:, 1] < 0).sum(), (values[:, 1] > 3).sum()
    assert f"  outside the bins of channel 1: {below} below 0, {above} above 3\n" in table


def test_columns_of_two_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ages, scores = RANDOM.integers(0, 5, 300), RANDOM.normal(size=300)
    scores[[3, 7]], scores[9] = math.nan, math.inf
    rows = "\n".join(f"{age},{score},x" for age, score in zip(ages, scores, strict=True))
    (path := tmp_path / "people.csv").write_text(f"age,score,word\n{rows}\n")
    torch.save({"age": torch.tensor(ages), "score": torch.tensor(scores)}, tmp_path / "people.pt")
    np.savez(tmp_path / "people.npz", age=ages, score=scores)
    for file in (path, tmp_path / "people.pt", tmp_path / "people.npz"):
        entry = counted(capsys, file, "--joint", "age", "score")
        assert [axis["dtype"] for axis in entry["axes"]] == ["int64", "float64"]
        edges = [axis["edges"] for axis in entry["axes"]]
        finite = np.isfinite(scores)
        hist = np.histogram2d(ages[finite], scores[finite], edges)[0]
        assert entry["counts"] == hist.tolist()
        assert entry["axes"][1]["num_bins"] == 64
        flow = entry["axes"][1]
        assert (flow["nan"], flow["overflow"], entry["ignored"]) == (2, 1, 3)
    entry = counted(capsys, path, "--joint", "score", "age", "--bins", 4, "--range", -1, 3)
    hist = np.histogram2d(scores, ages, 4, ((-1, 3), (-1, 3)))[0]
    assert entry["counts"] == hist.tolist()


def test_colours_and_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = RANDOM.integers(0, 256, (9, 11, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(path := tmp_path / "photo.png")
    entry = counted(capsys, path, "--joint", "B", "R")
    assert entry["counts"] == by_hand(pixels[..., 2], pixels[..., 0], (256, 256))
    entry = counted(capsys, path, "--joint", "B", "R", "--bins", 4)
    assert [axis["edges"] for axis in entry["axes"]] == [[0, 64, 128, 192, 256]] * 2
    content = RANDOM.integers(0, 9, 31).astype(np.uint8)  # the last row has one of three
    (tmp_path / "bytes").write_bytes(content.tobytes())
    entry = counted(capsys, tmp_path / "bytes", "--channels", 3, "--joint", 0, 2)
    rows = content[:30].reshape(10, 3)
    assert entry["counts"] == by_hand(rows[:, 0], rows[:, 2], (256, 256))


def test_logarithmic_bins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.exp(RANDOM.normal(size=(400, 2)))
    np.save(path := tmp_path / "x.npy", values)
    entry = counted(capsys, path, "--joint", 0, 1, "--log", "--range", 0.01, 100, "--bins", 4)
    edges = [axis["edges"] for axis in entry["axes"]]
    np.testing.assert_allclose(edges, [[0.01, 0.1, 1, 10, 100]] * 2)
    assert entry["counts"] == np.histogram2d(*values.T, edges)[0].tolist()


def test_the_table_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.stack([RANDOM.integers(100, 200, 5000), RANDOM.integers(3, 50, 5000)], 1)
    np.save(path := tmp_path / "x.npy", values)
    assert cli.main([str(path), "--joint", "0", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path}: channel 0 (int64) and channel 1 (int64)"
    assert lines[1] == "  5,000 pairs, 5,000 counted in 200 x 50 bins, 0 ignored"
    assert lines[3].split() == ["channel", "1"]
    columns = [tuple(map(int, name.split("-"))) for name in lines[4].split()]
    rows = [line.replace(",", "").split() for line in lines[6:] if line]
    assert (len(columns), len(rows)) == (8, 15)
    for name, *numbers in rows:
        first, last = map(int, name.split("-"))
        own = values[(values[:, 0] >= first) & (values[:, 0] <= last), 1]
        assert [int(n) for n in numbers] == [((own >= a) & (own <= b)).sum() for a, b in columns]


@pytest.mark.parametrize(
    ("names", "options", "line"),
    [
        ("0 9", "", "found no channel '9', but 0 to 1"),
        ("0 -1", "", "found no channel '-1', but 0 to 1"),
        ("0,1 1", "", "found no channel '0,1', but 0 to 1"),
        ("0 1", "--dim=all", r"the array of shape \[3, 2\] has one channel: see --dim"),
        ("0 1", "--bins 99999", "expected at most .* bins, got 99999 x 99999: give --bins"),
        ("0 1", "--num-bins 999999999999", "expected at most .* bins, got 99.* axis: give --bins"),
    ],
)
def test_channels_that_are_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: str, options: str, line: str
) -> None:
    np.save(path := tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    error = error_of(capsys, path, *options.split(), "--joint", *names.split())
    assert re.fullmatch(f"torch_histo: {re.escape(str(path))}: (--joint: )?{line}", error)


def test_columns_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = {f"a{i}": np.arange(i + 2.0) for i in range(10)}
    np.savez(path := tmp_path / "x.npz", **arrays)
    error = error_of(capsys, path, "--joint", "a0", "b")
    assert error.endswith(
        "found no column or array 'b', but a0, a1, a2, a3, a4, a5, a6, a7 and 2 more"
    )
    error = error_of(capsys, path, "--joint", "a0", "a1")
    assert error.endswith("--joint: both must have the same shape, got [2] and [3]")
    (table := tmp_path / "x.csv").write_text("a,b\n1,x\n")
    error = error_of(capsys, table, "--joint", "a", "b")
    assert error.endswith("x.csv: b: expected numbers, found 'x' in row 1")


def test_options_for_neither_of_the_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(path := tmp_path / "x.npz", i=np.arange(4), f=np.arange(4.0))
    error = error_of(capsys, path, "--joint", "f", "f", "--num-bins", 3)
    expected = "--num-bins is for integers, found float64 and float64: use --bins"
    assert error == f"torch_histo: {path}: {expected}"
    for option in (["--bins", 3], ["--range", 1, 2], ["--log"]):
        error = error_of(capsys, path, "--joint", "i", "i", "--num-bins", 3, *option)
        expected = "is for floating-point values where --num-bins is given, found int64 and int64"
        assert error == f"torch_histo: {path}: {option[0]} {expected}: leave out one of them"
    entry = counted(capsys, path, "--joint", "i", "f", "--num-bins", 3, "--bins", 2)
    assert [axis["num_bins"] for axis in entry["axes"]] == [3, 2]


def test_columns_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table := tmp_path / "x.csv").write_text("a,a,b\n1,2,3\n")
    error = error_of(capsys, table, "--joint", "a", "b")
    assert error.endswith("--joint: found 2 columns 'a': give them different names")


@pytest.mark.parametrize("other", ["--text", "--summary", "--quantiles 0.5"])
def test_other_results(capsys: pytest.CaptureFixture[str], other: str) -> None:
    error = error_of(capsys, "x", "--joint", 0, 1, *other.split())
    option = other.split()[0]
    assert error.startswith(f"torch_histo: argument {option}: not allowed with argument --joint")


def picture(folder: Path, values: np.ndarray, *options: Any) -> str:
    pytest.importorskip("matplotlib")
    np.save(folder / "x.npy", values)
    words = [folder / "x.npy", "--joint", 0, 1, "--plot", folder / "x.svg", *options]
    assert cli.main([*map(str, words)]) == 0
    return (folder / "x.svg").read_text()


def test_a_picture(tmp_path: Path) -> None:
    """Axes have names and tell what is outside, and the colour bar counts."""
    values = RANDOM.normal(size=(1000, 2))
    values[4, 1] = math.nan
    text = picture(tmp_path, values, "--bins", 8)
    for label in ("channel 0", "channel 1 (outside: 1 NaN)", "count"):
        assert f"<!-- {label} -->" in text
    text = picture(tmp_path, np.exp(values), "--log", "--range", 0.01, 100, "--overwrite")
    assert "10^{-2}" in text
    ids = RANDOM.integers(0, 600, (1000, 2))
    text = picture(tmp_path, ids, "--log-counts", "--overwrite")
    assert "<!-- count in 3 x 3 bins -->" in text


@pytest.mark.parametrize("values", [np.zeros((1, 2)), np.full((3, 2), math.nan), np.eye(2) * 1e300])
def test_a_picture_of_little(tmp_path: Path, values: np.ndarray) -> None:
    assert "<!-- channel 0" in picture(tmp_path, values)


def weighed(capsys: pytest.CaptureFixture[str], *words: Any) -> dict[str, Any]:
    entry = command_line.counted_entry(capsys, *words)
    assert "counts" not in entry
    assert "ignored" not in entry
    return entry


@pytest.mark.parametrize("dtype", [np.float64, np.int16])
def test_weights_of_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: type[np.generic]
) -> None:
    """Exact sums, those outside of an axis, too."""
    values = RANDOM.normal(size=(300, 2))
    values[7, 1] = math.nan
    weight = (RANDOM.normal(size=300) * 100).astype(dtype)
    np.save(x := tmp_path / "x.npy", values)
    np.save(w := tmp_path / "w.npy", weight)
    words = (x, "--joint", 0, 1, "--bins", 3, "--range", -1, 1, "--weights", w)
    entry = weighed(capsys, *words)
    assert (entry["weights"], entry["weight_dtype"]) == (str(w), weight.dtype.name)
    edges = np.array(entry["axes"][0]["edges"])
    at = np.searchsorted(edges, values, side="right")
    at[values == edges[-1]] = 3
    at[np.isnan(values)] = 5
    total = math.fsum if dtype is np.float64 else sum
    for i in range(3):
        for j in range(3):
            inside = (at[:, 0] == i + 1) & (at[:, 1] == j + 1)
            assert entry["sums"][i][j] == total(weight[inside].tolist())
    for axis, own in zip(entry["axes"], at.T, strict=True):
        for name, slot in (("underflow", 0), ("overflow", 4), ("nan", 5)):
            assert axis[name] == total(weight[own == slot].tolist())


def test_weights_of_an_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    colours = RANDOM.integers(0, 4, (5, 6, 3)).astype(np.uint8)
    Image.fromarray(colours).save(path := tmp_path / "x.png")
    weight = RANDOM.integers(0, 9, (5, 6))
    np.save(w := tmp_path / "w.npy", weight)
    entry = weighed(capsys, path, "--joint", "R", "B", "--weights", w)
    want = np.zeros((256, 256), int)
    np.add.at(want, (colours[..., 0], colours[..., 2]), weight)
    assert entry["sums"] == want.tolist()
    np.save(w, weight.ravel())
    line = "expected an array of shape [5, 6], a weight for each value, found array of [30]"
    assert error_of(capsys, path, "--joint", "R", "B", "--weights", w).endswith(line)


def test_a_table_of_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "x.csv").write_text("a,b\n0,1\n1,1\n1,7\n")
    np.save(w := tmp_path / "w.npy", np.array([0.5, 1.25, 1e-9]))
    words = [path, "--joint", "a", "b", "--num-bins", 2, "--weights", w, "--device", "cpu"]
    assert cli.main(list(map(str, words))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"  weights: {w}, float64"
    assert lines[2] == "  3 pairs, the sums of their weights in 2 x 2 bins"
    assert lines[3] == "  outside the bins of b: 1e-09 above 1"
    assert [line.split() for line in lines[-4:-1]] == [["a"], ["0", "0.5"], ["1", "1.25"]]


@pytest.mark.parametrize("options", [[], ["--log-counts"]])
@pytest.mark.parametrize("weight", [[1.5, -2, 3], [-1, -1, 0], [math.nan, math.inf, 1e-300]])
def test_pictures_of_weights(tmp_path: Path, options: list[str], weight: list[float]) -> None:
    pytest.importorskip("matplotlib")
    np.save(x := tmp_path / "x.npy", np.array([[0, 1], [1, 1], [1, 0]]))
    np.save(w := tmp_path / "w.npy", np.array(weight))
    words = [x, "--joint", 0, 1, "--weights", w, "--plot", tmp_path / "x.svg", *options]
    assert cli.main([*map(str, words), "--device", "cpu"]) == 0
    assert "sum of weights" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize(
    ("weight", "unit"), [([1e200, -3e202, math.inf], "1e202"), ([2e-120, 0, -1e-121], "1e-120")]
)
def test_a_picture_of_huge_and_tiny_sums(tmp_path: Path, weight: list[float], unit: str) -> None:
    pytest.importorskip("matplotlib")
    np.save(x := tmp_path / "x.npy", np.array([[0, 1], [1, 1], [1, 0]]))
    np.save(w := tmp_path / "w.npy", np.array(weight))
    words = [x, "--joint", 0, 1, "--weights", w, "--plot", tmp_path / "x.svg", "--device", "cpu"]
    assert cli.main([*map(str, words)]) == 0
    assert f"<!-- sum of weights in units of {unit} -->" in (tmp_path / "x.svg").read_text()
