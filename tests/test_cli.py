"""The command line, on real files and damaged ones, against counts that numpy makes."""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pytest
import torch
from conftest import ENVIRONMENT, default_interrupt
from PIL import Image, ImageSequence

import torch_histo
from torch_histo import cli, measure
from torch_histo.cli import counting, demo, documents, plots, report, sources

FOLDER = tempfile.TemporaryDirectory()
PHOTO = Path(FOLDER.name) / "photo.jpg"
Image.fromarray(np.random.default_rng(0).integers(0, 256, (600, 512, 3), np.uint8)).save(PHOTO)
TEXT = Path(argparse.__file__)
COMMAND = [sys.executable, "-m", "torch_histo"]
SCRIPT = "import sys; sys.argv[0] = 'torch_histo'; from torch_histo_command import main; main()"
UTF_8 = {**ENVIRONMENT, "PYTHONIOENCODING": "utf-8"}
TIMEOUT = 120
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")


def run(
    arguments: list[Any],
    cwd: Path,
    *,
    env: dict[str, str] = UTF_8,
    input: bytes | None = None,
    stdout: int | BinaryIO = subprocess.PIPE,
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=env,
        input=input,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        check=False,
    )


def reference(values: np.ndarray, num_bins: int) -> list[list[int]]:
    """The counts of each column of `values`."""
    inside = (values >= 0) & (values < num_bins)
    columns = zip(values.T, inside.T, strict=True)
    return [np.bincount(c[i].astype(np.int64), minlength=num_bins).tolist() for c, i in columns]


def pixels(image: Image.Image) -> np.ndarray:
    array = np.asarray(image)
    return array.reshape(-1, array.shape[2] if array.ndim == 3 else 1)


def letters(text: bytes) -> list[int]:
    groups = (b"abcd", b"efgh", b"ijkl", b"mnop", b"qrst", b"uvwx", b"yz")
    return [sum(text.count(letter) for letter in group) for group in groups]


def counts_of(entry: dict[str, Any]) -> list[list[int]]:
    return [channel["counts"] for channel in entry["channels"]]


def names_of(entry: dict[str, Any]) -> list[str]:
    return [channel["name"] for channel in entry["channels"]]


def counted(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """The output of --json for a single file, which must be counted without complaint."""
    status = cli.main(["--json", *map(str, arguments)])
    captured = capsys.readouterr()
    assert (status, captured.err) == (0, "")
    document = json.loads(captured.out)
    assert document["errors"] == []
    entry: dict[str, Any]
    (entry,) = document["files"]
    counts = counts_of(entry)
    assert {len(channel) for channel in counts} == {entry["num_bins"]}
    assert entry["ignored"] == entry["elements"] - sum(map(sum, counts))
    return entry


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources.base, "PIECE_VALUES", 61)


# Whole processes


@needs_matplotlib
def test_files_good_and_bad(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(-5, 300, (70, 4))
    np.save(tmp_path / "tokens.npy", tokens)
    (tmp_path / "cut.jpg").write_bytes(PHOTO.read_bytes()[:20000])
    files = [PHOTO, "missing.png", "tokens.npy", "cut.jpg", TEXT]
    result = run(["--json", "--plot", "plot.png", *files], tmp_path)
    assert result.returncode == 2
    document = json.loads(result.stdout)
    photo, array, text = document["files"]
    assert (photo["name"], photo["kind"], photo["dtype"]) == (str(PHOTO), "image", "uint8")
    assert (photo["shape"], names_of(photo)) == ([600, 512, 3], ["R", "G", "B"])
    with Image.open(PHOTO) as image:
        assert counts_of(photo) == reference(pixels(image), 256)
    assert (photo["elements"], photo["ignored"]) == (600 * 512 * 3, 0)
    assert (array["kind"], array["shape"], names_of(array)) == ("array", [70, 4], list("0123"))
    assert counts_of(array) == reference(tokens, 300)
    assert array["ignored"] == array["below"] == int((tokens < 0).sum()) > 0
    assert text["kind"] == "bytes"
    whole_text = np.fromfile(TEXT, np.uint8)
    assert counts_of(text) == reference(whole_text[:, None], 256)
    assert text["shape"] == [len(whole_text)]
    missing, cut = result.stderr.decode().splitlines()
    assert missing == "torch_histo: missing.png: No such file or directory"
    assert cut.startswith("torch_histo: cut.jpg: cannot be read as an image: ")
    assert [f"torch_histo: {e['name']}: {e['error']}" for e in document["errors"]] == [missing, cut]
    with Image.open(tmp_path / "plot.png") as plot:
        assert plot.format == "PNG"
        assert min(plot.size) > 500
        assert len(np.unique(pixels(plot), axis=0)) > 50


def test_table_on_a_terminal_without_unicode(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    values = np.arange(921_600).reshape(-1, 3) * 7 % 256 // np.array([1, 2, 3])
    Image.fromarray(values.astype(np.uint8).reshape(600, 512, 3)).save(tmp_path / "image.png")
    result = run(["image.png"], tmp_path, env=environment)
    assert (result.returncode, result.stderr) == (0, b"")
    table = result.stdout.decode("ascii")
    assert "921,600 values, 921,600 counted in 256 bins, 0 ignored\n" in table
    rows = re.findall(r"^ +(\d+)-(\d+) +([\d,]+) +([\d.]+)% *(#*)$", table, re.MULTILINE)
    assert [(int(row[0]), int(row[1])) for row in rows] == [
        (start, start + 15) for start in range(0, 256, 16)
    ] * 3
    ranges = np.array(reference(values, 256)).reshape(3, 16, 16).sum(2)
    assert [int(row[2].replace(",", "")) for row in rows] == ranges.ravel().tolist()
    assert [row[3] for row in rows] == [f"{n / (600 * 512):.1%}"[:-1] for n in ranges.ravel()]
    bars = np.array([len(row[4]) for row in rows]).reshape(3, 16)
    np.testing.assert_array_equal(bars, np.ceil(ranges / ranges.max(1, keepdims=True) * 40))


def test_standard_input(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, 100_001, dtype=np.uint8)
    result = run(["--json", "--channels", 3, "-"], tmp_path, input=noise.tobytes())
    assert (result.returncode, result.stderr) == (0, b"")
    (entry,) = json.loads(result.stdout)["files"]
    assert counts_of(entry) == [reference(noise[c::3, None], 256)[0] for c in range(3)]
    assert (entry["name"], entry["shape"]) == ("-", [100_001])


def test_standard_input_of_a_file_with_a_signature(tmp_path: Path) -> None:
    array = np.random.default_rng(2).integers(0, 9, (50, 2))
    buffer = io.BytesIO()
    np.save(buffer, array)
    result = run(["--json", "--num-bins", 9, "-"], tmp_path, input=buffer.getvalue())
    (entry,) = json.loads(result.stdout)["files"]
    assert (entry["kind"], counts_of(entry)) == ("array", reference(array, 9))


def test_reader_that_goes_away(tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((1, 64), np.uint16))  # Its JSON overflows a pipe.
    process = subprocess.Popen(
        [*COMMAND, "--json", "--num-bins", "65536", "wide.npy"],
        cwd=tmp_path,
        env=UTF_8,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"{"
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(TIMEOUT) == 141


def test_closed_input_and_output(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"abc")
    command = " ".join(map(shlex.quote, COMMAND))
    for arguments, line in (
        ("- <&-", b"torch_histo: -: standard input is closed\n"),
        ("bytes >&-", b"torch_histo: standard output is closed\n"),
    ):
        ended = subprocess.run(
            ["sh", "-c", f"{command} {arguments}"],
            cwd=tmp_path,
            env=UTF_8,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (2, line)


def test_output_without_an_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bytes").write_bytes(b"abc")
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    assert cli.main([str(tmp_path / "bytes")]) == 0
    assert "3 values, 3 counted" in output.getvalue()


@pytest.mark.parametrize("name", [b"two\nlines", b"\xe9"])
@needs_matplotlib
def test_awkward_names(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: bytes) -> None:
    """Names are bytes: not always a line, nor characters of an encoding."""
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(b"abc")
    assert cli.main([str(path), "--plot", str(tmp_path / "plot.png")]) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "plot.png").exists()
    assert cli.main([f"{path}?"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_interrupt(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "-"],
        cwd=tmp_path,
        env=UTF_8,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=default_interrupt,
    )
    assert process.stdin is not None
    process.stdin.write(bytes(1 << 20))  # More than a pipe holds: it returns while counting.
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = run([PHOTO], tmp_path, stdout=full)
    expected = b"torch_histo: standard output: No space left on device\n"
    assert (result.returncode, result.stderr) == (2, expected)


def test_importing_the_package_reads_no_arguments(tmp_path: Path) -> None:
    """Whatever they are, and whoever has imported the command's module."""
    for before in ("", "import torch_histo_command; "):
        program = f"import sys; {before}sys.argv[1:] = ['--unknown']; import torch_histo"
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=UTF_8, check=True)


def test_the_script_counts(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, "x.npy", "--json"],
        cwd=tmp_path,
        env=UTF_8,
        capture_output=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert json.loads(ended.stdout)["files"][0]["channels"][0]["counts"] == [1, 1, 1]
    assert ended.stderr == b""


@pytest.mark.parametrize("option", ["--help", "--version", "--unknown"])
@pytest.mark.parametrize("way", ["module", "script"])
def test_help_does_not_wait_for_torch(tmp_path: Path, option: str, way: str) -> None:
    """The script does not. A module of a package is run after the package's import."""
    command = COMMAND if way == "module" else [sys.executable, "-c", SCRIPT]
    ended = subprocess.run(
        [command[0], "-X", "importtime", *command[1:], option],
        cwd=tmp_path,
        env={**UTF_8, "COLUMNS": "200"},
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert ended.returncode == (2 if option == "--unknown" else 0)
    assert b"torch_histo" in ended.stdout + ended.stderr.splitlines()[-1]
    imported = {line.rpartition(b"|")[2].strip() for line in ended.stderr.splitlines()}
    assert b"argparse" in imported
    assert way == "module" or imported.isdisjoint({b"torch", b"numpy", b"PIL", b"tqdm"})
    assert max(map(len, ended.stdout.splitlines()), default=0) <= 80


@pytest.mark.parametrize(
    ("shape", "dtype", "options"),
    [
        ((1, 1 << 19), np.uint8, []),
        ((8, 1 << 19), np.uint8, []),
        ((1 << 19, 1), np.float32, ["--per-channel"]),
        ((1 << 19, 8), np.float32, ["--per-channel"]),
    ],
)
def test_too_little_memory(
    tmp_path: Path, shape: tuple[int, int], dtype: type, options: list[str]
) -> None:
    """The first file needs too much of it; the second one is counted."""
    np.save(tmp_path / "large.npy", np.zeros(shape, dtype))  # a GiB of counts
    np.save(tmp_path / "good.npy", np.zeros(3, dtype))
    limited = (
        "import resource, sys, torch, torch_histo; from torch_histo import cli;"
        "from torch_histo.cli import counting;"
        "torch.cuda.is_available = lambda: False;"  # CUDA itself would warn of too little memory
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize();"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2);"
        "sys.exit(cli.main(['large.npy', 'good.npy', *sys.argv[1:]]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", limited, *options],
        cwd=tmp_path,
        env={**UTF_8, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        b"torch_histo: large.npy: not enough memory\n",
    )
    assert b"3 values, 3 counted" in ended.stdout


def test_too_little_memory_for_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = report.table

    def fails_once(*arguments: Any) -> str:
        monkeypatch.setattr(report, "table", table)
        raise MemoryError

    monkeypatch.setattr(report, "table", fails_once)
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(b"abc")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["first", "second"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "torch_histo: first: not enough memory\n"
    assert captured.out.startswith("second: bytes, 3 uint8\n")


def test_files_on_both_sides_of_an_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(b"abc")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["first", "--num-bins", "100", "second"]) == 0
    out = capsys.readouterr().out
    assert "first: bytes" in out
    assert "second: bytes" in out


def test_json_is_written_as_it_comes() -> None:
    class Stream(io.StringIO):
        longest = 0

        def write(self, text: str) -> int:
            self.longest = max(self.longest, len(text))
            return super().write(text)

    counts = torch.arange(5000 * 10).view(5000, 10)
    names = report.channel_names((5000,))
    result = report.Result("x", "array", "int64", (1, 5000), 1, names, counts)
    document = documents.JsonDocument(stream := Stream())
    document.add(result)
    document.add(result)
    document.close([("y", "bad")])
    assert stream.longest < 1000
    written = json.loads(stream.getvalue())
    assert [counts_of(entry) for entry in written["files"]] == [counts.tolist()] * 2
    assert written["errors"] == [{"name": "y", "error": "bad"}]


# Images


@pytest.mark.parametrize(
    ("mode", "bands"),
    [("L", "L"), ("LA", "LA"), ("RGB", "RGB"), ("RGBA", "RGBA"), ("CMYK", "CMYK")],
)
def test_image_modes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str, bands: str
) -> None:
    path = tmp_path / ("image.tif" if mode == "CMYK" else "image.png")
    with Image.open(PHOTO) as photo:
        image = photo.resize((60, 50)).convert(mode)
    image.save(path)
    entry = counted(capsys, path)
    assert names_of(entry) == list(bands)
    assert entry["shape"] == [50, 60, len(bands)]
    assert counts_of(entry) == reference(pixels(image), 256)


def test_palette_is_looked_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Image.open(PHOTO) as photo:
        image = photo.convert("P", palette=Image.Palette.ADAPTIVE, colors=17)
    image.save(tmp_path / "palette.png")
    entry = counted(capsys, tmp_path / "palette.png")
    assert names_of(entry) == list("RGB")
    assert counts_of(entry) == reference(pixels(image.convert("RGB")), 256)
    image.save(tmp_path / "transparent.png", transparency=3)
    entry = counted(capsys, tmp_path / "transparent.png")
    assert names_of(entry) == list("RGBA")
    assert counts_of(entry)[3][0] == int((np.asarray(image) == 3).sum())


@pytest.mark.parametrize("name", ["grey.png", "grey.tif", "grey.pgm"])
def test_16_bit_grey(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    grey = np.random.default_rng(3).integers(0, 1 << 16, (30, 40), dtype=np.uint16)
    if name.endswith(".pgm"):
        (tmp_path / name).write_bytes(b"P5 40 30 65535\n" + grey.astype(">u2").tobytes())
    else:
        Image.fromarray(grey).save(tmp_path / name)
    entry = counted(capsys, tmp_path / name)
    assert (names_of(entry), entry["num_bins"]) == (["L"], 1 << 16)
    assert counts_of(entry) == reference(grey.reshape(-1, 1), 1 << 16)
    entry = counted(capsys, "--num-bins", 1000, tmp_path / name)
    assert entry["ignored"] == int((grey >= 1000).sum())


def test_16_bit_colour_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep.ppm").write_bytes(b"P6 2 1 65535\n" + bytes(range(12)))
    assert "8 bits" in counted(capsys, tmp_path / "deep.ppm")["note"]
    (tmp_path / "plain.ppm").write_bytes(b"P6 2 1 255\n" + bytes(range(6)))
    assert counted(capsys, tmp_path / "plain.ppm")["note"] == ""


def test_frames_count_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Image.open(PHOTO) as photo:
        frames = [photo.resize((40, 40)).rotate(90 * i) for i in range(3)]
    frames[0].save(tmp_path / "turning.gif", save_all=True, append_images=frames[1:])
    with Image.open(tmp_path / "turning.gif") as image:
        every = [pixels(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]
    assert len(every) == 3
    entry = counted(capsys, tmp_path / "turning.gif")
    assert counts_of(entry) == reference(np.concatenate(every), 256)
    assert entry["note"] == "3 frames counted together"
    # The second image of this format is a preview or a second view.
    frames[0].save(tmp_path / "phone.mpo", save_all=True, append_images=frames[1:2])
    assert counted(capsys, tmp_path / "phone.mpo")["elements"] == 40 * 40 * 3


@pytest.mark.parametrize("modes", [("1", "L"), ("L", "RGB"), ("RGB", "RGBA"), ("L", "I;16")])
def test_pages_of_several_modes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], modes: tuple[str, str]
) -> None:
    first, second = (Image.new(mode, (8, 8)) for mode in modes)
    first.save(tmp_path / "pages.tif", save_all=True, append_images=[second])
    assert cli.main([str(tmp_path / "pages.tif")]) == 2
    captured = capsys.readouterr()
    found = ", ".join(
        mode.replace("1", "1 (black and white)", mode == "1") for mode in sorted(modes)
    )
    error = f"expected frames of one mode, found {re.escape(found)}: .+"
    assert re.fullmatch(f"torch_histo: .*pages.tif: {error}\n", captured.err)
    assert captured.out == ""


def test_gif_cut_between_frames_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = [Image.new("L", (9, 9), 40 * i) for i in range(4)]
    path = tmp_path / "cut.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert "missing" not in counted(capsys, path)["note"]
    path.write_bytes(path.read_bytes()[:-1])
    note = counted(capsys, path)["note"]
    assert note.endswith("the end of the file is missing: only 4 frames could be read")


# Arrays


def test_arrays_of_npz_and_safetensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(10)
    arrays = {
        "a": rng.integers(0, 9, (40, 3)),
        "b": rng.integers(0, 2, 50).astype(bool),
        "c": rng.integers(0, 200, (7, 2), np.uint8),
        "x": np.ones(5, np.complex64),
    }
    np.savez(tmp_path / "x.npz", **arrays)
    np.savez_compressed(tmp_path / "y.npz", **arrays)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    pytest.importorskip("safetensors.torch").save_file(tensors, tmp_path / "z.safetensors")
    paths = [str(tmp_path / name) for name in ("x.npz", "y.npz", "z.safetensors")]
    assert cli.main(["--json", *paths]) == 2
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert [entry["name"] for entry in document["errors"]] == [f"{path}:x" for path in paths]
    assert captured.err.count("\n") == 3
    found = {entry["name"]: counts_of(entry) for entry in document["files"]}
    bins = {"a": int(arrays["a"].max()) + 1, "b": 2, "c": 256}
    assert found == {
        f"{path}:{name}": reference(arrays[name].reshape(len(arrays[name]), -1), bins[name])
        for path in paths
        for name in bins
    }


@pytest.mark.parametrize("content", [range(-5, 1000), [3, 70_000, 1 << 40], [-3, -1]])
def test_default_bins_and_what_they_ignore(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Sequence[int]
) -> None:
    array = np.array(content)
    path = tmp_path / "array.npy"
    np.save(path, array)
    entry = counted(capsys, path)
    bins = min(max(int(array.max()), 0) + 1, 65536)
    assert entry["num_bins"] == bins
    below, above = int((array < 0).sum()), int((array >= bins).sum())
    assert (entry["below"], entry["above"]) == (below, above)


def test_table_says_which_option_counts_what_is_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "array.npy"
    np.save(path, np.arange(-5, 1000))
    assert cli.main(["--num-bins", "256", str(path)]) == 0
    table = capsys.readouterr().out
    assert "256 counted in 256 bins, 749 ignored" in table
    assert "5 below 0" in table
    assert "744 above 255 (--num-bins 1000 counts them)" in table
    assert counted(capsys, "--num-bins", 1000, path)["above"] == 0


def test_table_covers_the_occupied_bins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "array.npy", np.array([[4000, 4003], [4001, 4003]], np.uint16))
    assert cli.main([str(tmp_path / "array.npy")]) == 0
    rows = re.findall(r"^    (\d+)  (\d+) ", capsys.readouterr().out, re.MULTILINE)
    first = [("4000", "1"), ("4001", "1"), ("4002", "0"), ("4003", "0")]
    second = [("4000", "0"), ("4001", "0"), ("4002", "0"), ("4003", "2")]
    assert rows == first + second


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_file_that_shrinks_while_it_is_read(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    path, good = tmp_path / f"array.{suffix}", tmp_path / "good"
    array = np.zeros(1 << 17, np.uint8)
    if suffix == "npy":
        np.save(path, array)
    elif suffix == "npz":
        np.savez(path, a=array)
    else:
        pytest.importorskip("safetensors.numpy").save_file({"a": array}, path)
    good.write_bytes(b"abc")
    count = counting.channel_histogram

    def shrink(*arguments: Any) -> torch.Tensor:
        os.truncate(path, 1000)
        return count(*arguments)

    monkeypatch.setattr(counting, "channel_histogram", shrink)
    monkeypatch.setattr(sources.base, "PIECE_VALUES", 1 << 13)
    assert cli.main([str(path), "--device", "cpu"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i1", "<u2", ">u2", ">i2", "<i4", ">u4", "<i8", ">i8", "<u8"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_array_types(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: str, order: Literal["C", "F"]
) -> None:
    values = np.random.default_rng(4).integers(-(1 << 20), 1 << 20, (50, 9)) % 700 - 100
    array = np.asarray(values).astype(dtype, order=order)
    np.save(tmp_path / "array.npy", array)
    few = {"?": 2, "u1": 256, "i1": 128}
    bins = few.get(dtype.strip("<>"), min(int(array.max()) + 1, 65536))
    entry = counted(capsys, tmp_path / "array.npy")
    assert (entry["num_bins"], entry["dtype"]) == (bins, array.dtype.name)
    assert counts_of(entry) == reference(array, bins)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("dim", "kept"), [("0", (1, 2)), ("1", (0, 2)), ("2,0", (1,)), ("-1", (0, 1)), ("all", ())]
)
def test_array_dimensions(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    dim: str,
    kept: tuple[int, ...],
    order: Literal["C", "F"],
) -> None:
    array = np.asarray(np.random.default_rng(5).integers(0, 30, (5, 7, 11), np.uint8), order=order)
    np.save(tmp_path / "array.npy", array)
    entry = counted(capsys, f"--dim={dim}", "--num-bins", 20, tmp_path / "array.npy")
    reduced = [d for d in range(3) if d not in kept]
    channels = array.transpose(*kept, *reduced).reshape(*(array.shape[d] for d in kept), -1)
    assert counts_of(entry) == reference(channels.reshape(-1, channels.shape[-1]).T, 20)
    indices = np.ndindex(channels.shape[:-1])
    assert names_of(entry) == [",".join(map(str, index)) or "0" for index in indices]


def test_array_of_no_dimensions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "array.npy", np.array(7))
    entry = counted(capsys, "--num-bins", 8, tmp_path / "array.npy")
    assert (entry["shape"], counts_of(entry)) == ([], [[0] * 7 + [1]])


# Floats


def check_floats(
    entry: dict[str, Any], array: np.ndarray, bins: int, range: tuple[float, float] | None = None
) -> None:
    """Compare a file's entry with what torch_histo.histogram says of its channels, the rows."""
    values = torch.from_numpy(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
    hist, edges = torch_histo.histogram(values, bins, range=range, dim=1, flow=True)
    edges = edges.expand(len(hist), -1)
    assert entry["num_bins"] == bins
    assert [channel["edges"] for channel in entry["channels"]] == edges.tolist()
    assert [
        [c["underflow"], *c["counts"], c["overflow"], c["nan"]] for c in entry["channels"]
    ] == hist.tolist()
    assert entry["elements"] == array.size
    assert (entry["below"], entry["above"]) == (int(hist[:, 0].sum()), int(hist[:, -2].sum()))


def normal(*shape: int) -> np.ndarray:
    """Normal numbers, and one of each kind that no bin holds."""
    array = np.random.default_rng(11).normal(size=shape)
    array.flat[:3] = np.nan, np.inf, -np.inf
    return array


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_float_types(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: str, order: Literal["C", "F"]
) -> None:
    array = np.asarray(normal(50, 9)).astype(dtype, order=order)
    np.save(path := tmp_path / "array.npy", array)
    entry = counted(capsys, path)
    assert (entry["dtype"], entry["shape"]) == (array.dtype.name, [50, 9])
    check_floats(entry, array.reshape(1, -1), 256)
    check_floats(counted(capsys, "--per-channel", "--bins", 7, path), array, 7)
    check_floats(counted(capsys, "--dim=0", "--bins", 7, path), array.T, 7)
    entry = counted(capsys, "--range", "-1e-1", 0.5, "--bins", 9, "--per-channel", path)
    check_floats(entry, array, 9, (-0.1, 0.5))


@pytest.mark.usefixtures("small_pieces")
def test_numpy_agrees_about_floats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = np.random.default_rng(12).normal(size=1000).astype(np.float32)
    np.save(path := tmp_path / "array.npy", array)
    for options, range in ([], None), (["--range", "-1", "1"], (-1, 1)):
        hist, edges = np.histogram(array, 50, range)
        (channel,) = counted(capsys, "--bins", 50, *options, path)["channels"]
        assert channel["edges"] == edges.tolist()
        assert channel["counts"] == hist.tolist()


@pytest.mark.parametrize(
    "values",
    [
        [3.5],
        [np.nan, np.nan],
        [np.inf, -np.inf],
        [0.0, -0.0],
        [5e-324, 1e-310, 0.0],
        [-1.7e308, 1.7e308, 0.0],
        [1e30, 1e30],
        [1e6, 1e6 + 1e-9],
    ],
)
@pytest.mark.parametrize("options", [[], ["--per-channel"]])
@needs_matplotlib
def test_odd_floats(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    values: list[float],
    options: list[str],
) -> None:
    """They are counted, listed and drawn."""
    array = np.array([values] * 10 if options else [values])
    np.save(path := tmp_path / "array.npy", array)
    check_floats(counted(capsys, *options, "--bins", 20, path), array, 20)
    assert cli.main([str(path), *options, "--plot", str(tmp_path / "plot.png")]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert f"  {array.size} values, " in captured.out
    assert picture_of(tmp_path / "plot.png").min() == 0
    np.savez(tmp_path / "several.npz", a=array, b=array)
    assert cli.main([str(tmp_path / "several.npz"), *options]) == 0
    assert capsys.readouterr().err == ""


def test_float_array_of_no_dimensions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(path := tmp_path / "array.npy", np.array(0.25))
    for options in [], ["--per-channel"], ["--dim=all"]:
        entry = counted(capsys, *options, path)
        assert entry["shape"] == []
        check_floats(entry, np.array([[0.25]]), 256)


def test_channels_of_one_dimension_are_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(path := tmp_path / "bias.npy", array := normal(30))
    check_floats(counted(capsys, "--per-channel", path), array[None], 256)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
)
def test_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: torch.dtype
) -> None:
    weight = torch.from_numpy(np.random.default_rng(13).normal(size=(20, 30))).to(dtype)
    pytest.importorskip("safetensors.torch").save_file(
        {"w": weight}, path := tmp_path / "model.safetensors"
    )
    for options, dim in ([], None), (["--per-channel"], 1):
        hist, edges = torch_histo.histogram(weight, 32, dim=dim)
        entry = counted(capsys, *options, "--bins", 32, path)
        assert entry["dtype"] == str(dtype).removeprefix("torch.")
        assert counts_of(entry) == hist.reshape(-1, 32).tolist()
        found = [channel["edges"] for channel in entry["channels"]]
        assert found == edges.reshape(-1, 33).tolist()


def test_a_line_for_each_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = {
        "block.0.weight": torch.randn(10, 64).bfloat16(),
        "block.0.bias": torch.tensor([-2.0, torch.nan, torch.inf, 3.0]),
        "steps": torch.tensor(7),
    }
    pytest.importorskip("safetensors.torch").save_file(
        tensors, path := tmp_path / "model.safetensors"
    )
    assert cli.main([str(path)]) == 0
    title, header, *lines, blank = capsys.readouterr().out.split("\n")[:-1]
    assert (title, blank) == (f"{path}: 3 arrays", "")
    assert header.split() == ["histogram", "from", "to", "type", "shape", "name"]
    bars = "[▁▂▃▄▅▆▇█ ]+"
    found = {line.split(",")[0].split()[-1]: line for line in lines}
    weight, bias, steps = (found[name] for name in tensors)
    assert len(lines) == 3
    assert re.fullmatch(rf"  {bars} -\S+ +\S+  bfloat16 +10x64 +block.0.weight", weight)
    assert re.fullmatch(rf"  {bars} -2 +3  float32 +4 +block.0.bias, 1 overflow, 1 NaN", bias)
    assert re.fullmatch(rf"  {bars} 0 +7  int64 +0-d +steps", steps)
    assert cli.main([str(path), "--per-channel", "--bins", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.endswith("block.0.weight"))
    assert [line.split()[-1] for line in lines[start + 1 : start + 9]] == list("01234567")
    assert lines[start + 9].strip() == "and 2 more channels (--json prints all)"


def test_list_without_unicode(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=normal(50), b=normal(20))
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    result = run(["x.npz"], tmp_path, env=environment)
    assert (result.returncode, result.stderr) == (0, b"")
    assert len(re.findall(rb"^  [ .:=+*%#-]{24} +-", result.stdout, re.MULTILINE)) == 2


def test_table_of_floats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = np.array([0, 0.1, 0.25, 0.5, 1, 1, -3, 7, 8, np.nan])
    np.save(path := tmp_path / "array.npy", array)
    assert cli.main([str(path), "--range", "0", "1", "--bins", "4"]) == 0
    table = capsys.readouterr().out
    assert "10 values, 6 counted in 4 bins, 4 ignored\n" in table
    for line in "1 underflow (below 0)", "2 overflow (above 1)", "1 NaN":
        assert f"  ignored: {line}\n" in table
    rows = re.findall(r"^    (\[.*?[\])])  (\d) ", table, re.MULTILINE)
    assert rows == [
        ("[   0, 0.25)", "2"),
        ("[0.25,  0.5)", "1"),
        ("[ 0.5, 0.75)", "1"),
        ("[0.75,    1]", "2"),
    ]
    assert cli.main([str(path), "--range", "0", "8", "--bins", "32", "--dim=all"]) == 0
    first, *_, last = re.findall(r"\[.*?[\])]", capsys.readouterr().out)
    assert (first, last) == ("[  0, 0.5)", "[7.5,   8]")


def test_table_of_no_counts_has_no_bars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(path := tmp_path / "array.npy", np.full(9, -np.inf))
    assert cli.main([str(path)]) == 0
    *_, last, blank, end = capsys.readouterr().out.split("\n")
    assert (last, blank, end) == ("  0: 0 counted", "", "")


def test_edges_in_a_table_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(path := tmp_path / "array.npy", 1e6 + np.arange(64, dtype=np.float32) / 16)
    assert cli.main([str(path), "--bins", "16"]) == 0
    rows = re.findall(r"\[ *(\S+), +(\S+)[\])]", capsys.readouterr().out)
    assert len({row[0] for row in rows}) == 16


def test_logarithmic_bins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = np.exp(np.random.default_rng(14).normal(size=(12, 500)) * 5)
    array[:, 0], array[:, 1] = 0, np.nan
    np.save(path := tmp_path / "array.npy", array.astype(np.float32))
    (channel,) = counted(capsys, "--log", "--bins", 60, "--range", "1e-3", "1e3", path)["channels"]
    edges = np.array(channel["edges"])
    np.testing.assert_allclose(edges, np.geomspace(1e-3, 1e3, 61), rtol=1e-14)
    assert (edges[0], edges[-1]) == (1e-3, 1e3)
    assert channel["counts"] == np.histogram(array.astype(np.float32), edges)[0].tolist()
    assert channel["underflow"] == int((array < 1e-3).sum())
    assert channel["nan"] == 12
    array[:, 0] = 1
    np.save(path, array)
    entry = counted(capsys, "--log", "--per-channel", path)
    assert len(entry["channels"]) == 12
    for row, channel in zip(array, entry["channels"], strict=True):
        edges = np.array(channel["edges"])
        assert (edges[0], edges[-1]) == (np.nanmin(row), np.nanmax(row))
        assert (np.diff(np.log(edges)) > 0).all()
        assert channel["counts"] == np.histogram(row[2:], edges)[0].tolist() or row[0]
        assert sum(channel["counts"]) == 499


@pytest.mark.parametrize(
    "values",
    [[5e-324, 1.7e308], [3.0], [1.7e308], [5e-324], [np.nan], [1.0, 1 + 2.3e-16], [1e-320, 2e-320]],
)
@needs_matplotlib
def test_logarithmic_bins_of_odd_floats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], values: list[float]
) -> None:
    np.save(path := tmp_path / "array.npy", np.array([values] * 10))
    for options in [], ["--per-channel"]:
        entry = counted(capsys, "--log", *options, path)
        edges = np.array([channel["edges"] for channel in entry["channels"]])
        assert np.isfinite(edges).all()
        assert (np.diff(edges) >= 0).all()
        assert entry["ignored"] == 10 * np.isnan(values).sum()
        plot = ["--plot", str(tmp_path / "plot.png"), "--overwrite"]
        assert cli.main([str(path), "--log", *options, *plot]) == 0
        assert capsys.readouterr().err == ""


def test_float_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = np.random.default_rng(15).random((30, 40), np.float32)
    Image.fromarray(pixels).save(path := tmp_path / "float.tif")
    entry = counted(capsys, "--bins", 10, "--range", 0, 1, path)
    assert (entry["kind"], entry["dtype"], names_of(entry)) == ("image", "float32", ["L"])
    check_floats(entry, pixels.reshape(1, -1), 10, (0, 1))


@pytest.mark.parametrize(
    ("dtype", "arguments", "error"),
    [
        ("f4", "--num-bins 9", "--num-bins is for integers, found float32: use --bins"),
        ("i8", "--bins 9 --num-bins 9", "--bins is for floating-point .* found int64: leave .*"),
        ("i8", "--range 0 9 --num-bins 9", "--range is for .* found int64: leave out one of them"),
        ("i8", "--log", "--log needs values above 0, found -1: give --range LOW HIGH, .*"),
        ("i8", "--per-channel", "--per-channel is for arrays of .* found int64: --dim .*"),
        ("f4", "--range 0 1e300", "--range must lie between .* for float32 values, got 0 1e.300"),
        ("f4", "--range 0 1e-50", "--range must be two .* as float32 .*, got 0.0 1e-50"),
        ("f4", "--range 1e9 1000000001", "--range must be two .*, got .* 1000000001.0"),
        ("f4", "--log", "--log needs values above 0, found -1: give --range LOW HIGH, .*"),
        ("f4", "--bins 999999999999", "expected at most .* bins in all channels, .*"),
    ],
)
def test_option_that_does_not_fit_the_values(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    dtype: str,
    arguments: str,
    error: str,
) -> None:
    np.save(path := tmp_path / "array.npy", np.array([[-1, 2], [3, 4]], dtype))
    assert cli.main([str(path), *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(f"torch_histo: {re.escape(str(path))}: {error}\n", captured.err)
    assert captured.out == ""


def test_options_for_some_arrays_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option has to fit one of them."""
    np.savez(path := tmp_path / "both.npz", a=np.arange(9), b=np.arange(9.0))
    assert cli.main([str(path), "--bins", "3", "--num-bins", "5"]) == 0
    assert capsys.readouterr().err == ""
    np.savez(path, a=np.arange(9.0), b=np.arange(3.0))
    assert cli.main([str(path), "--num-bins", "3"]) == 2
    captured = capsys.readouterr()
    expected = f"{path}: --num-bins is for integers, found none: use --bins"
    assert captured.err.splitlines()[-1] == f"torch_histo: {expected}"


def test_safetensors_without_the_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("safetensors.torch").save_file(
        {"a": torch.ones(3)}, path := tmp_path / "a.safetensors"
    )
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert cli.main([str(path)]) == 2
    assert re.fullmatch("torch_histo: .*: pip install safetensors\n", capsys.readouterr().err)


def test_tensor_of_a_type_that_is_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("safetensors")
    tensors = {
        "a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
        "b": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [12, 15]},
    }
    text = json.dumps(tensors).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(15))
    assert cli.main([str(path)]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch("torch_histo: .*:b: expected a tensor of .* F6_E2M3\n", captured.err)
    assert captured.out.count("\n") >= 3


@pytest.mark.usefixtures("small_pieces")
def test_many_float_channels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their counts are made some channels at a time."""
    monkeypatch.setattr(counting, "MAX_ADDED", 40)
    np.save(path := tmp_path / "array.npy", array := normal(50, 9).astype(np.float32))
    check_floats(counted(capsys, "--per-channel", "--bins", 5, path), array, 5)
    entry = counted(capsys, "--per-channel", "--bins", 5, "--range", 0, 1, path)
    check_floats(entry, array, 5, (0, 1))


# Bytes and text


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("channels", [1, 2, 7, 61, 100, 300])
@pytest.mark.parametrize("length", [1, 16, 60, 61, 62, 250])
def test_channels_of_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], channels: int, length: int
) -> None:
    noise = np.random.default_rng(6).integers(0, 256, length, dtype=np.uint8)
    noise.tofile(tmp_path / "noise")
    entry = counted(capsys, "--channels", channels, tmp_path / "noise")
    expected = [reference(noise[c::channels, None], 256)[0] for c in range(channels)]
    assert counts_of(entry) == expected
    assert entry["shape"] == [length]


@pytest.mark.usefixtures("small_pieces")
def test_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = TEXT.read_bytes()[:5000] + "Größe".encode()
    (tmp_path / "text.png").write_bytes(content)
    entry = counted(capsys, "--text", tmp_path / "text.png")
    assert (entry["kind"], entry["bins"][0]) == ("text", "a-d")
    assert counts_of(entry) == [letters(content)]
    assert cli.main(["--text", str(tmp_path / "text.png")]) == 0
    rows = re.findall(r"^ +([a-z]-[a-z]) +([\d,]+) ", capsys.readouterr().out, re.MULTILINE)
    assert rows == [
        (name, f"{count:,}")
        for name, count in zip(sources.TEXT_BINS, letters(content), strict=True)
    ]


def test_option_decides_over_content(capsys: pytest.CaptureFixture[str]) -> None:
    content = PHOTO.read_bytes()
    assert counts_of(counted(capsys, "--text", PHOTO)) == [letters(content)]
    entry = counted(capsys, "--channels", 1, PHOTO)
    assert entry["kind"] == "bytes"
    assert counts_of(entry) == reference(np.frombuffer(content, np.uint8)[:, None], 256)


# Files that cannot be counted


def saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def png(array: np.ndarray) -> bytearray:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return bytearray(buffer.getvalue())


def header(shape: str) -> bytes:
    """A .npy file of bytes with any shape in its header."""
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text + bytes(64)


def zipped(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, b"abc")
    return buffer.getvalue()


def damaged_png() -> bytes:
    content = png(np.random.default_rng(7).integers(0, 256, (50, 50), dtype=np.uint8))
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("empty.txt", b"", "the file is empty"),
        ("empty.png", b"", "the file is empty"),
        ("text.png", b"no picture", "not an image that Pillow reads, or a damaged one"),
        ("damaged.png", damaged_png(), "cannot be read as an image: .+"),
        ("damaged-without-suffix", damaged_png(), "cannot be read as an image: .+"),
        ("cut.jpg", PHOTO.read_bytes()[:30000], "cannot be read as an image: .*truncated.*"),
        ("text.npy", b"no array", r"cannot be read as a NumPy \.npy array: .+"),
        ("cut-in-header.npy", saved(np.arange(9))[:50], "cannot be read as a NumPy .+"),
        ("cut.npy", saved(np.arange(9))[:-1], "truncated: expected 72 bytes of values, found 71"),
        ("long.npy", saved(np.ones(3, np.longdouble)), "expected an .* as float64"),
        ("complex.npy", saved(np.ones(3, complex)), "expected an .* complex128: save its .*"),
        ("object.npy", saved(np.array([{}])), "expected an array .* Python objects"),
        ("fields.npy", saved(np.zeros(3, "i4,f4")), "expected an array .*: save each field .*"),
        ("void.npy", saved(np.zeros(3, "V2")), "expected an .*: save bfloat16 .* as .safetensors"),
        ("text.npy", saved(np.array(["a"])), "expected an array .*, found <U1"),
        ("negative.npy", header("(-3,)"), "cannot be read as a NumPy .+"),
        ("bool.npy", header("(True, 3)"), "cannot be read as a NumPy .+"),
        ("huge.npy", header("(1 << 70,)"), "cannot be read as a NumPy .+"),
        ("wide.npy", header("(99999999999999999999,)"), "cannot be read as a NumPy .+"),
        ("deep.npy", header(str((1,) * 70)), "expected at most 64 dimensions, found 70"),
        ("quoted.npy", header("(1" + " " * 9000), "cannot be read as .{,250}"),
        ("version.npy", b"\x93NUMPY\x04\0" + bytes(90), "cannot be read .* version .*"),
        ("length.npy", b"\x93NUMPY\x02\0" + b"\xff" * 90, "cannot be read as a NumPy .+"),
        ("weights.pt", b"PK\x03\x04" + bytes(90), "cannot be read as a zip file: .+"),
        ("old.bin", pickle.dumps({}), "is a pickle: .* --channels 1"),
        ("files.zip", zipped("a.txt"), "is a zip file: unpack it.*"),
        ("model.zip", zipped("m/data.pkl"), "cannot be read as a PyTorch file: .+"),
        ("cut.npz", zipped("a.npy")[:-9], "cannot be read as a zip file: .+"),
        ("bytes.gz", gzip.compress(b"abc"), "is a gzip file: decompress it .*"),
        ("bytes.xz", lzma.compress(b"abc"), "is an xz file: decompress it .*"),
        ("bytes.bz2", bz2.compress(b"abc"), "is a bzip2 file: decompress it .*"),
        ("bytes.zst", b"\x28\xb5\x2f\xfd" + bytes(9), "is a zstd file: decompress it .*"),
        ("data.h5", b"\x89HDF\r\n\x1a\n" + bytes(9), "is an HDF5 file: .*"),
        ("data.parquet", b"PAR1" + bytes(9), "(cannot be read as|is) a Parquet file.*"),
        ("table.csv", b"a,b\n1,2\n3\n", "cannot be read as a table in text: expected 2 fields .*"),
        ("empty.csv", b"a,b\n", "cannot be read as a table in text: it has no rows below .*"),
        ("cut.safetensors", b"\x20" + bytes(7) + b"{", "cannot be read as a safetensors .*"),
        ("none.npy", saved(np.ones((0, 3), int)), r"the array of shape \[0, 3\] holds no values"),
    ],
    ids=lambda value: "..." if isinstance(value, bytes) else None,  # some hold the time
)
def test_malformed_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    error: str,
) -> None:
    if name.endswith(".safetensors"):
        pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    Path("good").write_bytes(b"abc")
    assert cli.main([name, "good"]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(f"torch_histo: {re.escape(name)}: {error}\n", captured.err)
    assert captured.out.startswith("good: bytes, 3 uint8\n  3 values, 3 counted")


def test_unreadable_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    locked = tmp_path / "locked"
    locked.write_bytes(b"abc")
    locked.chmod(0)
    expected = f"torch_histo: {tmp_path}: is a directory: to count its files, give {tmp_path}/*\n"
    paths = [str(tmp_path)]
    if os.geteuid() != 0:  # Nothing is locked to root.
        paths.append(str(locked))
        expected += f"torch_histo: {locked}: Permission denied\n"
    assert cli.main(paths) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", expected)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--dim", "2"], r"--dim 2 is no dimension of an array of shape \[4, 3\]"),
        (["--dim=0,-2"], r"--dim names a dimension of the array of shape \[4, 3\] twice"),
        (["--num-bins", "999999999999"], "expected at most .* got 3 channels of 999999999999"),
        (["--channels", "999999999999"], "expected at most .* got 999999999999 channels of 256"),
    ],
)
def test_option_that_does_not_fit_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    path = tmp_path / "array.npy"
    np.save(path, np.ones((4, 3), int))
    assert cli.main([*arguments, str(path)]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(f"torch_histo: {re.escape(str(path))}: {error}\n", captured.err)
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        "--num-bins 0 x",
        "--num-bins -1 x",
        "--num-bins 2.5 x",
        "--channels 0 x",
        "--dim one x",
        "--dim 0,,1 x",
        "--text --channels 2 x",
        "--text --num-bins 7 x",
        "--dim 0 --channels 2 x",
        "--device nowhere x",
        "--device meta x",
        "--device cuda:99 x",
        "--device cuda:99999999999999999999 x",
        "--json",
        "--channels 2",
        "--unknown x",
        "--bins 0 x",
        "--bins 2.5 x",
        "--bins 2",
        "--bins 2 --text x",
        "--range 1 0 x",
        "--range 1 1 x",
        "--range nan 1 x",
        "--range 0 nan x",
        "--range -inf 1 x",
        "--range 0 1e999 x",
        "--range 0",
        "--range a b x",
        "--range 0 1",
        "--range 0 1 --text x",
        "--log",
        "--log --text x",
        "--log --range 0 1 x",
        "--log --range -1e-3 1 x",
        "--per-channel",
        "--per-channel --dim 0 x",
        "--log-counts x",
        "--overwrite x",
        "--plot picture x",
        "--plot picture.unknown x",
        "--plot missing/picture.png x",
    ],
)
def test_bad_option(capsys: pytest.CaptureFixture[str], arguments: str) -> None:
    assert cli.main(arguments.split()) == 2
    captured = capsys.readouterr()
    option = re.search(r"--[a-z-]+", arguments)
    assert option is not None
    assert option.group() in captured.err
    assert re.fullmatch("torch_histo: .+\n", captured.err)
    assert captured.out == ""


def test_help_names_every_option_and_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    options = [
        "--overwrite",
        "--log",
        "--log-counts",
        "--bins",
        "--range",
        "--per-channel",
        "--version",
        "--text",
        "--channels",
        "--dim",
        "--num-bins",
        "--json",
        "--plot",
        "--device",
    ]
    statuses = ["\n  0 ", "\n  1 ", "\n  2 ", "\n  130 ", "\n  141 "]
    assert [word for word in options + statuses if word not in text] == []


# Plots


def picture_of(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


@needs_matplotlib
def test_plot_never_replaces_an_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytes(png(np.zeros((4, 4), np.uint8)))
    picture = tmp_path / "picture.png"
    picture.write_bytes(content)
    (tmp_path / "link.png").symlink_to(picture)
    os.link(picture, tmp_path / "twin.png")
    for target in "picture.png", "link.png", "twin.png":
        for overwrite in [], ["--overwrite"]:
            plot = ["--plot", str(tmp_path / target)]
            assert cli.main([str(picture), *plot, *overwrite]) == 2
            captured = capsys.readouterr()
            assert captured.out == ""
            assert re.fullmatch(r"torch_histo: argument --plot: .* to count: .+\n", captured.err)
    assert picture.read_bytes() == content


@needs_matplotlib
def test_plot_replaces_a_file_only_if_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "plot.png"
    plot.write_bytes(b"precious")
    assert cli.main([str(TEXT), "--plot", str(plot)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"torch_histo: argument --plot: .* --overwrite\n", captured.err)
    assert plot.read_bytes() == b"precious"
    assert cli.main([str(TEXT), "--plot", str(plot), "--overwrite"]) == 0
    assert picture_of(plot).size > 0
    assert os.listdir(tmp_path) == ["plot.png"]


@needs_matplotlib
def test_plot_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    plot = tmp_path / "plot.png"
    assert cli.main([str(TEXT), "--plot", str(plot)]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"torch_histo: {plot}: the plot cannot be written: no room\n"
    assert os.listdir(tmp_path) == []


def drawn(tmp_path: Path, array: np.ndarray, *options: str) -> np.ndarray:
    np.save(tmp_path / "array.npy", array)
    plot = tmp_path / "plot.png"
    assert (
        cli.main([str(tmp_path / "array.npy"), "--plot", str(plot), "--overwrite", *options]) == 0
    )
    return picture_of(plot)


@needs_matplotlib
def test_plot_lines_have_colours(tmp_path: Path) -> None:
    values = np.random.default_rng(8).integers(0, 200, (500, 5), np.uint8)
    colours = drawn(tmp_path, values).reshape(-1, 3)
    for expected in (31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (148, 103, 189):
        assert (np.abs(colours - expected).max(1) < 10).sum() > 50


@pytest.mark.parametrize("mode", ["CMYK", "LA", "LAB", "YCbCr"])
@needs_matplotlib
def test_plot_of_any_image_tells_its_channels_apart(tmp_path: Path, mode: str) -> None:
    bands = Image.new(mode, (1, 1)).getbands()
    pixels = np.random.default_rng(8).integers(0, 200, (40, 50, len(bands)), np.uint8)
    suffix = ".jpg" if mode == "YCbCr" else ".png" if mode == "LA" else ".tif"
    Image.frombytes(mode, (50, 40), pixels.tobytes()).save(tmp_path / f"image{suffix}")
    plot = tmp_path / "plot.png"
    assert cli.main([str(tmp_path / f"image{suffix}"), "--plot", str(plot)]) == 0
    picture = picture_of(plot).reshape(-1, 3)
    colours = (31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40)
    if mode == "YCbCr":  # Pillow makes RGB of it
        colours = (214, 39, 40), (44, 160, 44), (31, 119, 180)
    for expected in colours[: len(bands)]:
        assert (np.abs(picture - expected).max(1) < 10).sum() > 50, expected


@needs_matplotlib
def test_plot_of_a_heat_map_shows_its_first_bin(tmp_path: Path) -> None:
    values = np.random.default_rng(9).integers(0, 65536, (200, 1024), np.uint16)
    values[:180] = 0
    picture = drawn(tmp_path, values)
    yellow = np.abs(picture - (253, 231, 37)).max(2) < 40
    assert yellow[:, : picture.shape[1] // 2].sum() > 100


@needs_matplotlib
def test_plot_of_a_sparse_heat_map_shows_it(tmp_path: Path) -> None:
    values = np.random.default_rng(9).integers(0, 65536, (128, 1024), np.uint16)
    picture = drawn(tmp_path, values)
    purple = np.abs(picture - (68, 1, 84)).max(2) < 10  # of empty cells
    assert 0 < purple.sum() < 75_000


@needs_matplotlib
def test_plot_of_floats(tmp_path: Path) -> None:
    """Bars stand over their values: half of the axis is empty."""
    picture = drawn(tmp_path, np.append(np.linspace(0, 1, 1000), 2.0), "--bins", "64")
    columns = np.nonzero((np.abs(picture - (31, 119, 180)).max(2) < 10).sum(0) > 100)[0]
    left, right = columns.min(), columns.max()
    assert 0.4 < (right - left) / picture.shape[1] < 0.5


@needs_matplotlib
def test_plot_of_float_channels(tmp_path: Path) -> None:
    """A channel's counts stand over its own values in a heat map, where it has its own edges."""
    rows = np.linspace(0, 1, 1000) + np.arange(20)[:, None]
    picture = drawn(tmp_path, rows, "--per-channel", "--bins", "10")
    full = np.abs(picture - (253, 231, 37)).max(2)[:, :600] < 10  # without the scale of colours
    top, bottom = (np.nonzero(full[row])[0] for row in (45, -65))
    assert len(top) > 10 < len(bottom)
    assert top.max() < 100 < 500 < bottom.min()


@needs_matplotlib
def test_plot_on_a_logarithmic_axis_shows_more_than_a_spike(tmp_path: Path) -> None:
    values = np.concatenate([np.zeros(100_000, np.uint8), np.arange(256, dtype=np.uint8)])
    blue = [
        (np.abs(drawn(tmp_path, values, *options) - (31, 119, 180)).max(2) < 10).sum()
        for options in ([], ["--log-counts"])
    ]
    assert blue[1] > 5 * blue[0]


@needs_matplotlib
def test_unused_panels_are_empty(tmp_path: Path) -> None:
    plot = tmp_path / "plot.png"
    assert cli.main([*[str(TEXT)] * 3, "--text", "--plot", str(plot)]) == 0
    height, width, _ = picture_of(plot).shape
    assert (picture_of(plot)[height // 2 + 10 :, width // 2 + 10 :] == 255).all()


def test_plot_without_matplotlib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main([str(PHOTO), "--plot", str(tmp_path / "plot.png")]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(r"torch_histo: --plot needs matplotlib \(pip install .+\n", captured.err)
    assert captured.out == ""


@needs_matplotlib
def test_plot_of_many_channels_text_and_odd_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = tmp_path / "$a_{$ 字.npy"
    np.save(many, np.arange(2000).reshape(20, 100))
    plot = tmp_path / "plot.png"
    assert cli.main([str(many), "--plot", str(plot)]) == 0
    assert "and 92 more channels" in capsys.readouterr().out
    assert (
        cli.main(["--text", str(TEXT), str(TEXT), str(TEXT), "--overwrite", "--plot", str(plot)])
        == 0
    )
    with Image.open(plot) as image:
        assert min(image.size) > 500


# The run without arguments, and what it measures with


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LENGTH", 300)
    monkeypatch.setattr(demo, "BUDGET", 0.01)
    monkeypatch.setattr(demo, "CHANNELS", 5)
    monkeypatch.setattr(demo, "FLOATS", 1000)


@pytest.mark.usefixtures("small_demo")
# torch.histc on CUDA, which is timed there, has no deterministic way.
@pytest.mark.filterwarnings("ignore:_histc_cuda")
def test_run_without_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    table, errors = capsys.readouterr()
    assert errors == ""
    assert max(map(len, table.splitlines())) <= 80
    device = torch.device(
        "cuda" if torch.cuda.is_available() and torch_histo.has_cuda_kernels() else "cpu"
    )
    rows = re.findall(r"^torch_histo (\w+) +[\d.]+ +[\d.]+ +[\d.]+ x  (.*)$", table, re.MULTILINE)
    assert rows == [(variant, "equal") for variant in measure.variants_for(device)]
    rows = re.findall(r"^torch (.*?)  +([\d.]+) +[\d.]+ +(.*)$", table, re.MULTILINE)
    verdicts = ["reference", *["equal"] * (len(measure.TORCH_WAYS) - 1)]
    assert [row[0] for row in rows] == list(measure.TORCH_WAYS)
    assert [row[2] for row in rows] == verdicts
    least = min(float(row[1]) for row in rows)  # as it is shown: several may have it
    assert any(f"here: torch {row[0]}." in table for row in rows if float(row[1]) == least)
    table, _, after = table.partition("\n\nWhat to do next:\n")
    assert "torch_histo FILE" in after
    for path in re.findall(r"docs/\w+\.md", after):
        assert (Path(__file__).parents[1] / path).exists()
    integers, floats = table.split("Counts and edges are equal to NumPy's.")
    assert min(integers.count("█"), floats.count("█")) > 30
    low, high = (f"{float(end):.3g}" for end in demo.float_sample().aminmax())
    assert re.fullmatch(rf"{low} +{re.escape(high)}", floats.splitlines()[-1])


@pytest.mark.usefixtures("small_demo")
def test_wrong_counts_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["--device", "cpu"]) == 0
    assert "WRONG" not in capsys.readouterr().out

    def off_by_one(values: torch.Tensor, num_bins: int, *, variant: str) -> torch.Tensor:
        counts = torch_histo.channel_histogram(values, num_bins, variant=variant)
        counts[2, 100] += variant == "sequential"
        return counts

    monkeypatch.setattr(demo, "channel_histogram", off_by_one)
    assert cli.main(["--device", "cpu"]) == 1
    captured = capsys.readouterr()
    assert re.search(r"torch_histo sequential .* WRONG in 1 bins\n", captured.out)
    assert re.search(r"torch_histo auto .* equal\n", captured.out)
    assert captured.err == "torch_histo: wrong counts: torch_histo sequential\n"


@pytest.mark.usefixtures("small_demo")
def test_wrong_counts_of_floats_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def off_by_one(values: torch.Tensor, bins: int) -> torch_histo.Histogram:
        hist, edges = torch_histo.histogram(values, bins)
        hist[3] += 1
        return torch_histo.Histogram(hist, edges)

    monkeypatch.setattr(demo, "histogram", off_by_one)
    assert cli.main(["--device", "cpu"]) == 1
    assert capsys.readouterr().err == "torch_histo: wrong counts: torch_histo.histogram\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("small_demo", "small_pieces")
def test_progress_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "PROGRESS_DELAY", 0)
    for arguments, progress in ([], "1/10 making the sample"), (["--text", str(TEXT)], "B/s]"):
        assert cli.main([*arguments, "--device", "cpu"]) == 0
        assert capsys.readouterr().err == ""
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal := Terminal())
            assert cli.main([*arguments, "--device", "cpu"]) == 0
        assert progress in terminal.getvalue()


@pytest.mark.parametrize("panels", [2, 3], ids=["too many", "enough"])
@needs_matplotlib
def test_a_plot_has_a_limit_and_progress(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    panels: int,
) -> None:
    drawn = []
    steps = []

    def plot(results: Sequence[report.Result], *arguments: Any, **options: Any) -> None:
        drawn.extend(result.name.rpartition(":")[2] for result in results)
        update = options.pop("progress")
        original(results, *arguments, progress=lambda: (steps.append(1), update()), **options)

    original = plots.plot
    monkeypatch.setattr(plots, "plot", plot)
    monkeypatch.setattr(plots, "PLOT_PANELS", panels)
    monkeypatch.setattr(counting, "PROGRESS_DELAY", 0)
    np.savez(tmp_path / "x.npz", a=np.ones(3), b=np.zeros(3), c=np.arange(3.0))
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    picture = tmp_path / "x.png"
    assert cli.main([str(tmp_path / "x.npz"), "--plot", str(picture), "--device", "cpu"]) == 0
    assert picture.stat().st_size > 1000
    assert drawn == ["a", "b", "c"][:panels]
    assert capsys.readouterr().out.count("float64") == 3
    line = "argument --plot: draws the first 2 of 3 histograms"
    assert (line in terminal.getvalue()) == (panels == 2)
    # The bar shows a step only if it shows none of the last 0.1 s, so the calls are counted.
    assert "drawing:   0%" in terminal.getvalue()
    assert len(steps) == plots.PLOT_STEPS * panels


@pytest.mark.usefixtures("small_demo")
def test_sample_is_reproducible() -> None:
    first = demo.sample()
    assert (first.shape, first.dtype) == ((300, 5), torch.uint8)
    assert torch.equal(first, demo.sample())
    assert len(first.unique()) > 100


@pytest.mark.parametrize("way", measure.TORCH_WAYS)
def test_torch_ways(way: str) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(0, 50, (200, 3), dtype=torch.uint8, generator=generator)
    counts = measure.TORCH_WAYS[way](values, 50)
    assert counts.dtype == torch.int64
    assert counts.tolist() == reference(values.numpy(), 50)


def test_timing_of_the_cpu() -> None:
    calls: list[None] = []
    cpu = torch.device("cpu")
    seconds = measure.run_seconds(lambda: calls.append(None), cpu, repeats=4, warm_ups=2)
    assert (len(seconds), len(calls)) == (4, 6)
    assert min(seconds) > 0
    seconds = measure.run_seconds(lambda: calls.append(None), cpu, repeats=4, budget=1e-12)
    assert len(seconds) == 1
