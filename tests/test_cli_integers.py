"""The command line on integers that have no bin of their own, and on integers between edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import counted_entry, error_of
from PIL import Image

from torch_histo import cli

TYPES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]


def saved(folder: Path, values: Any, name: str = "ids.npy") -> Path:
    np.save(folder / name, np.asarray(values))
    return folder / name


@pytest.mark.usefixtures("pieces_of_any_size")
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("bins", [1, 2, 7])
def test_bins_between_extremes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], type: str, bins: int
) -> None:
    """As np.histogram; negative values and those far from 0 have bins."""
    dtype = np.dtype(type)
    low, high = (0, 1) if type == "?" else (max(np.iinfo(dtype).min, -500), 100)
    values = np.random.default_rng(0).integers(low, high + 1, (40, 2)).astype(dtype)
    entry = counted_entry(capsys, saved(tmp_path, values), "--bins", bins)
    assert (entry["ignored"], entry["num_bins"]) == (0, bins)
    for column, channel in zip(values.T.astype(np.float64), entry["channels"], strict=True):
        hist, edges = np.histogram(column, bins)
        assert channel["edges"] == edges.tolist()
        assert channel["counts"] == hist.tolist()


@pytest.mark.parametrize("content", [[-1, 0, 1], [(1 << 53) + 1, 1 << 53], [-(1 << 63), 0]])
def test_an_integer_meets_edges_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: list[int]
) -> None:
    path = saved(tmp_path, np.array(content))
    entry = counted_entry(capsys, path, "--bins", 3, "--range", -1, 1 << 53)
    (channel,) = entry["channels"]
    below, above = sum(v < -1 for v in content), sum(v > 1 << 53 for v in content)
    assert (channel["underflow"], channel["overflow"]) == (below, above)
    assert (entry["below"], entry["above"]) == (below, above)
    assert sum(channel["counts"]) == len(content) - below - above


@pytest.mark.parametrize(("dtype", "end"), [("u1", 256), ("u2", 65536)])
def test_images_have_the_range_of_their_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: str, end: int
) -> None:
    values = np.random.default_rng(0).integers(0, end, (9, 11)).astype(dtype)
    Image.fromarray(values).save(path := tmp_path / "grey.png")
    entry = counted_entry(capsys, path, "--bins", 4)
    assert entry["channels"][0]["edges"] == [0, end / 4, end / 2, 3 * end / 4, end]
    assert entry["channels"][0]["counts"] == np.histogram(values, 4, (0, end))[0].tolist()
    (own,) = counted_entry(capsys, path, "--bins", 3, "--range", 0, 100)["channels"]
    assert own["counts"] == np.histogram(values, 3, (0, 100))[0].tolist()
    assert own["overflow"] == (values > 100).sum()


def test_bytes_have_the_range_of_their_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bytes").write_bytes(bytes(range(256)) * 3)
    entry = counted_entry(capsys, tmp_path / "bytes", "--channels", 2, "--bins", 2)
    assert [channel["counts"] for channel in entry["channels"]] == [[192, 192], [192, 192]]


def test_the_advice_counts_what_was_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, np.append(np.arange(-5, 1000), 1 << 40))
    assert cli.main([str(path), "--num-bins", "256"]) == 0
    table = capsys.readouterr().out
    assert "ignored: 5 below 0 (--bins 256 has bins for them)" in table
    assert "ignored: 745 above 255 (--bins 256 has bins for them)" in table
    assert counted_entry(capsys, path, "--bins", 256)["ignored"] == 0


def test_a_list_tells_what_has_no_bin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(path := tmp_path / "both.npz", a=np.arange(9.0), b=np.array([-3, -2, 1 << 20, 4]))
    assert cli.main([str(path)]) == 0
    assert "b, 2 below 0, 1 above 65535\n" in capsys.readouterr().out


@pytest.mark.usefixtures("pieces_of_any_size")
def test_weights_of_integers_without_a_bin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.random.default_rng(0).integers(-3, 12, (10, 3))
    path, weights = saved(tmp_path, values), saved(tmp_path, np.ones((10, 3)), "w.npy")
    entry = counted_entry(capsys, path, "--weights", weights, "--num-bins", 9)
    below, above = int((values < 0).sum()), int((values >= 9).sum())
    assert (entry["below"], entry["above"]) == (below, above)
    assert cli.main([str(path), "--weights", str(weights), "--num-bins", "9"]) == 0
    table = capsys.readouterr().out
    assert f"ignored: {below} below 0 (--bins 256 has bins for them)" in table
    assert f"ignored: {above} above 8 (--num-bins 12 counts them)" in table
    entry = counted_entry(capsys, path, "--weights", weights, "--bins", 4)
    for column, channel in zip(values.T, entry["channels"], strict=True):
        assert channel["sums"] == np.histogram(column, 4)[0].tolist()


def test_options_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("L", (3, 2)).save(path := tmp_path / "grey.png")
    line = error_of(capsys, path, "--per-channel")
    assert line.endswith("found an image of uint8: its colours are channels\n")
    line = error_of(capsys, path, "--bins", 4, "--num-bins", 4)
    assert "--bins is for floating-point values where --num-bins is given" in line
    line = error_of(capsys, saved(tmp_path, [1.0]), "--num-bins", 4)
    assert line.endswith("--num-bins is for integers, found float64: use --bins\n")


@pytest.mark.parametrize("options", [[], ["--bins", "4"]])
def test_a_picture_tells_what_has_no_bin(tmp_path: Path, options: list[str]) -> None:
    pytest.importorskip("matplotlib")
    path = saved(tmp_path, [-1, 5, 1 << 20])
    assert cli.main([str(path), *options, "--plot", str(tmp_path / "counts.svg")]) == 0
    picture = (tmp_path / "counts.svg").read_text()
    assert ("<!-- value (outside: 1 below 0, 1 above 65535) -->" in picture) == (not options)
