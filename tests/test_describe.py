"""The command line's numbers, --summary and --quantiles, against NumPy."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from torch_histo import cli
from torch_histo.cli.sources import base

Q = (0, 0.01, 0.5, 0.99, 1)
LABELS = ["min", "50", "%", "max", "mean", "std", "zeros"]
BOTH = ["--summary", "--quantiles", ",".join(map(str, Q)), "--json"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, status: int = 0) -> str:
        capsys.readouterr()
        assert cli.main([*arguments, "--device", "cpu"]) == status
        found = capsys.readouterr()
        return found.err if status else found.out

    return run


def assert_numbers(found: dict[str, Any], values: np.ndarray, error: float) -> None:
    wide = values.astype(np.float64).flatten()
    finite = wide[np.isfinite(wide)]
    assert found["elements"] == wide.size
    assert found["nan"] == np.isnan(wide).sum()
    assert found["inf"] == np.isinf(wide).sum()
    assert found["zeros"] == (wide == 0).sum()
    assert (found["min"], found["max"]) == (finite.min(), finite.max())
    assert abs(found["mean"] - finite.mean()) <= (error + 1e-12) * np.abs(finite).mean()
    np.testing.assert_allclose(found["std"], finite.std(ddof=1), rtol=4 * error + 1e-12)
    quantiles = [float(v) for v in found["quantiles"].values()]
    assert list(found["quantiles"]) == [str(float(q)) for q in Q]
    rounding = float(np.finfo(values.dtype).eps) * 8 if values.dtype.kind == "f" else 1e-12
    number = wide[~np.isnan(wide)]
    assert (quantiles[0], quantiles[-1]) == (number.min(), number.max())
    np.testing.assert_allclose(quantiles[1:-2], np.nanquantile(wide, Q[1:-2]), rtol=rounding)


@pytest.mark.parametrize("piece", [1 << 24, 150], ids=["whole", "in pieces"])
@pytest.mark.parametrize(
    ("dtype", "arguments"),
    [
        ("f4", []),
        ("f8", ["--per-channel"]),
        ("f2", ["--dim=0,2"]),
        ("u1", ["--per-channel"]),
        (">i4", []),
        ("i8", ["--dim=0"]),
    ],
    ids=str,
)
def test_arrays(
    run: Any, monkeypatch: pytest.MonkeyPatch, piece: int, dtype: str, arguments: list[str]
) -> None:
    monkeypatch.setattr(base, "PIECE_VALUES", piece)
    values = (np.random.default_rng(0).normal(size=(30, 4, 7)) * 50 + 60).astype(dtype)
    values[3] = 0
    if dtype.startswith("f"):
        values[5, 2, :3] = np.nan, np.inf, np.nan
    for order in "CF":
        np.save("x.npy", np.asarray(values, order=order))
        (found,) = json.loads(run("x.npy", *BOTH, *arguments))["files"]
        error = found["relative_error"]
        assert error == 2**-53
        assert_numbers(found, values, error)
        dims = {"[]": (0, 1, 2), "['--per-channel']": (1, 2), "['--dim=0']": (0,)}
        dim = dims.get(str(arguments), (0, 2))
        kept = [d for d in range(3) if d not in dim]
        channels = values.transpose(*kept, *dim).reshape(*[values.shape[d] for d in kept], -1)
        expected = list(np.ndindex(channels.shape[:-1])) if kept else []
        assert [c["name"] for c in found["channels"]] == [",".join(map(str, i)) for i in expected]
        for channel, index in zip(found["channels"], expected, strict=True):
            assert_numbers(channel, channels[index], error)


def test_a_row_a_tensor(run: Any) -> None:
    weight = torch.arange(1.0, 101).view(4, 25)
    weight[1, 3], weight[2, 4] = torch.nan, -torch.inf
    tensors = {"weight": weight, "bias": torch.zeros(3).bfloat16(), "step": torch.tensor(1234567)}
    pytest.importorskip("safetensors.torch").save_file(tensors, "model.safetensors")
    lines = run("model.safetensors", "--summary", "--quantiles", "0.5").splitlines()
    assert lines[0] == "model.safetensors: 3 arrays"
    assert lines[1].split() == [*LABELS, "type", "shape", "name"]
    rows = {" ".join(line.split()) for line in lines[2:]}
    assert rows == {
        "1.2346e+06 1.2346e+06 1.2346e+06 1.2346e+06 nan 0 int64 1 step",
        "1 50 100 50.673 29.224 0 float32 4x25 weight, 1 NaN, 1 inf",
        "0 0 0 0 0 100.0% bfloat16 3 bias",
        "",
    }
    lines = run("model.safetensors", "--quantiles", "0.25,1", "--per-channel").splitlines()
    assert lines[1].split() == ["25", "%", "100", "%", "type", "shape", "name"]
    assert sum(line.endswith(("  1, 1 NaN", "  3")) for line in lines) == 2  # bias has one channel


def test_images_bytes_and_infinities(run: Any) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    Image.fromarray(pixels).save("photo.png")
    (found,) = json.loads(run("photo.png", *BOTH))["files"]
    assert_numbers(found, pixels, found["relative_error"])
    assert [channel["name"] for channel in found["channels"]] == ["R", "G", "B"]
    assert_numbers(found["channels"][2], pixels[..., 2], found["relative_error"])
    Path("bytes").write_bytes(pixels.tobytes())
    (found,) = json.loads(run("bytes", "--channels", "3", *BOTH))["files"]
    assert_numbers(found["channels"][1], pixels[..., 1], found["relative_error"])
    np.save("x.npy", np.array([np.nan, -np.inf, np.inf]))
    (found,) = json.loads(run("x.npy", *BOTH))["files"]
    assert (found["min"], found["mean"]) == (None, None)
    assert found["quantiles"]["0.0"] == "-Infinity"
    assert found["quantiles"]["1.0"] == "Infinity"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("infinity", [torch.inf, -torch.inf])
def test_quantiles_beside_an_infinity_have_the_bits_of_nanquantile(
    run: Any, dtype: torch.dtype, infinity: float
) -> None:
    values = torch.randn(4, 999, generator=torch.Generator().manual_seed(0)).to(dtype)
    values[1, 5], values[1, 6], values[2, 7] = infinity, infinity, torch.nan
    q = [0.0, 0.0007, 0.0123, 0.3, 0.55, 0.987, 0.9995, 1.0]
    pytest.importorskip("safetensors.torch").save_file({"x": values}, "x.safetensors")
    (found,) = json.loads(
        run(
            *("x.safetensors", "--per-channel", "--json"),
            *("--quantiles", ",".join(map(str, q))),
        )
    )["files"]
    wide = values if dtype == torch.float64 else values.float()
    expected = wide.nanquantile(torch.tensor(q, dtype=wide.dtype), dim=1).to(dtype).double().T
    for channel, right in zip(found["channels"], expected, strict=True):
        numbers = [float(v) for v in channel["quantiles"].values()]
        finite = right.isfinite()
        assert finite.sum() >= len(q) - 2
        assert torch.equal(torch.tensor(numbers, dtype=torch.float64)[finite], right[finite])


def test_float8(run: Any) -> None:
    values = torch.arange(-4.0, 5)
    tensors = {str(dtype): values.to(dtype) for dtype in (torch.float8_e4m3fn, torch.float8_e5m2)}
    pytest.importorskip("safetensors.torch").save_file(tensors, "model.safetensors")
    for found in json.loads(run("model.safetensors", "--quantiles", "0,0.5,1", "--json"))["files"]:
        assert list(found["quantiles"].values()) == [-4, 0, 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--summary", "--bins", "4"], "argument --bins: not allowed with argument --summary"),
        (
            ["--quantiles", "0.5", "--text"],
            "argument --text: not allowed with argument --quantiles",
        ),
        (["--summary", "--plot", "x.png"], "argument --plot: not allowed with argument --summary"),
        (["--quantiles", "0.5,2"], "argument --quantiles: expected numbers from 0 to 1"),
        (["--quantiles", "nan"], "argument --quantiles: expected numbers from 0 to 1"),
    ],
)
def test_what_is_refused(run: Any, arguments: list[str], message: str) -> None:
    assert message in run("x.npy", *arguments, status=2)


def test_errors_of_files(run: Any) -> None:
    np.savez("x.npz", a=np.ones(3), b=np.ones(3, complex))
    assert "x.npz:b: expected an array of integers" in run("x.npz", "--summary", status=2)
    assert "no.npy: No such file" in run("no.npy", "--quantiles", "1", status=2)


@pytest.mark.parametrize("arguments", [[], ["--per-channel"], ["--dim=0"]], ids=str)
def test_an_array_without_values_has_a_row(run: Any, arguments: list[str]) -> None:
    tensors = {"none": torch.empty(3, 0), "some": torch.ones(2, 3), "steps": torch.empty(0).long()}
    pytest.importorskip("safetensors.torch").save_file(tensors, "model.safetensors")
    found = json.loads(run("model.safetensors", *BOTH, *arguments))
    assert not found["errors"]
    files = {entry["name"].partition(":")[2]: entry for entry in found["files"]}
    assert files["some"]["mean"] == 1
    for name, shape in (("none", [3, 0]), ("steps", [0])):
        entry = files[name]
        assert [entry[k] for k in ("shape", "elements", "zeros", "channels")] == [shape, 0, 0, []]
        assert {entry["min"], entry["std"], *entry["quantiles"].values()} == {None}
    table = run("model.safetensors", "--summary", "--quantiles", "0.5", *arguments)
    assert " ".join(["nan"] * 5 + ["0 float32 3x0 none"]) in " ".join(table.split())


def test_small_tensors_take_about_as_long_as_counting_them(run: Any) -> None:
    tensors = {f"layer.{i}": torch.randn(16) for i in range(100)}
    pytest.importorskip("safetensors.torch").save_file(tensors, "model.safetensors")

    def seconds(*arguments: str) -> float:
        start = time.perf_counter()
        run("model.safetensors", *arguments)
        return time.perf_counter() - start

    rounds = [(seconds("--summary"), seconds()) for _ in range(5)]
    summary, counting = (min(times) for times in zip(*rounds, strict=True))
    assert summary < 5 * counting
