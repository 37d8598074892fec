"""The command line, on real files and damaged ones, against counts that numpy makes."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO, Literal

import matplotlib
import numpy as np
import pytest
import torch
from conftest import ENVIRONMENT
from PIL import Image, ImageSequence

import torch_histo
from torch_histo import cli, demo, measure, sources

PHOTO = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
TEXT = Path(argparse.__file__)
COMMAND = [sys.executable, "-m", "torch_histo"]
UTF_8 = {**ENVIRONMENT, "PYTHONIOENCODING": "utf-8"}
TIMEOUT = 120


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
    """What --json says of a single file that has to be counted without complaint."""
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
    monkeypatch.setattr(sources, "PIECE_VALUES", 61)


# Whole processes


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
    assert counts_of(array) == reference(tokens, 256)
    assert array["ignored"] == int(((tokens < 0) | (tokens > 255)).sum()) > 0
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
    result = run([PHOTO], tmp_path, env=environment)
    assert (result.returncode, result.stderr) == (0, b"")
    table = result.stdout.decode("ascii")
    assert "921,600 values, 921,600 counted in 256 bins, 0 ignored (outside 0..255)" in table
    rows = re.findall(r"^ +(\d+)-(\d+) +([\d,]+) +([\d.]+)%  ?(#*)$", table, re.MULTILINE)
    assert [(int(row[0]), int(row[1])) for row in rows] == [
        (start, start + 15) for start in range(0, 256, 16)
    ] * 3
    with Image.open(PHOTO) as image:
        ranges = np.array(reference(pixels(image), 256)).reshape(3, 16, 16).sum(2)
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


def test_run_without_arguments(tmp_path: Path) -> None:
    result = run([], tmp_path)
    assert (result.returncode, result.stderr) == (0, b"")
    table = result.stdout.decode()
    device = torch.device(
        "cuda" if torch.cuda.is_available() and torch_histo.has_cuda_kernels() else "cpu"
    )
    rows = re.findall(r"^torch_histo (\w+) +[\d.]+ +[\d.]+ +[\d.]+ x  (.*)$", table, re.MULTILINE)
    assert rows == [(variant, "equal") for variant in measure.variants_for(device)]
    rows = re.findall(r"^torch (.*?)  +([\d.]+) +[\d.]+ +(.*)$", table, re.MULTILINE)
    verdicts = ["reference", *["equal"] * (len(measure.TORCH_WAYS) - 1)]
    assert [row[0] for row in rows] == list(measure.TORCH_WAYS)
    assert [row[2] for row in rows] == verdicts
    fastest = min(rows, key=lambda row: float(row[1]))[0]
    assert f"here: torch {fastest}." in table
    assert table.count("█") > 50


def test_reader_that_goes_away(tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((1, 64), np.uint16))  # Its JSON overflows a pipe.
    process = subprocess.Popen(
        [*COMMAND, "--json", "wide.npy"],
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
def test_awkward_names(tmp_path: Path, name: bytes) -> None:
    """Names are bytes: not always a line, nor characters of an encoding."""
    (tmp_path / os.fsdecode(name)).write_bytes(b"abc")
    ended = run([os.fsdecode(name), "--plot", "plot.png"], tmp_path)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert (tmp_path / "plot.png").exists()
    missing = run([os.fsdecode(name) + "?"], tmp_path)
    assert (missing.returncode, missing.stderr.count(b"\n")) == (2, 1)


def test_interrupt(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "-"],
        cwd=tmp_path,
        env=UTF_8,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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


# Arrays


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
    bins = {"?": 2, "u1": 256, "i1": 128, "u2": 65536, "i2": 32768}.get(dtype.strip("<>"), 256)
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


# What cannot be counted


def saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def png(array: np.ndarray) -> bytearray:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return bytearray(buffer.getvalue())


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
        ("float.npy", saved(np.ones(3)), "expected an array of integers or bool, .* float64"),
        ("complex.npy", saved(np.ones(3, complex)), "expected an array .* complex128"),
        ("object.npy", saved(np.array([{}])), "expected an array .* Python objects"),
        ("none.npy", saved(np.ones((0, 3), int)), r"the array of shape \[0, 3\] holds no values"),
    ],
)
def test_malformed_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    error: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    Path("good").write_bytes(b"abc")
    assert cli.main([name, "good"]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(f"torch_histo: {re.escape(name)}: {error}\n", captured.err)
    assert captured.out.startswith("good: bytes, 3 uint8\n  3 values, 3 counted")


def test_float_image_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(np.ones((2, 2), np.float32)).save(tmp_path / "float.tif")
    assert cli.main([str(tmp_path / "float.tif")]) == 2
    assert "expected an image of integer samples" in capsys.readouterr().err


def test_unreadable_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    locked = tmp_path / "locked"
    locked.write_bytes(b"abc")
    locked.chmod(0)
    expected = f"torch_histo: {tmp_path}: Is a directory\n"
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
    ],
)
def test_bad_option(capsys: pytest.CaptureFixture[str], arguments: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments.split())
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    option = re.search(r"--[a-z-]+", arguments)
    assert option is not None
    assert option.group() in captured.err
    assert re.fullmatch("torch_histo: .+\n", captured.err)
    assert captured.out == ""


def test_help_names_every_option_and_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    options = ["--text", "--channels", "--dim", "--num-bins", "--json", "--plot", "--device"]
    statuses = ["\n  0 ", "\n  1 ", "\n  2 ", "\n  130 ", "\n  141 "]
    assert [word for word in options + statuses if word not in text] == []


# Plots


@pytest.mark.parametrize(
    ("path", "error"),
    [("missing/plot.png", "No such file or directory"), ("plot.unknown", "Format 'unknown' .*")],
)
def test_plot_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, error: str
) -> None:
    plot = tmp_path / path
    assert cli.main([str(PHOTO), "--plot", str(plot)]) == 2
    captured = capsys.readouterr()
    expected = f"torch_histo: {re.escape(str(plot))}: the plot cannot be written: {error}\n"
    assert re.fullmatch(expected, captured.err)
    assert "921,600 counted" in captured.out


def test_plot_without_matplotlib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main([str(PHOTO), "--plot", str(tmp_path / "plot.png")]) == 2
    captured = capsys.readouterr()
    assert re.fullmatch(r"torch_histo: --plot needs matplotlib \(pip install .+\n", captured.err)
    assert "921,600 counted" in captured.out


def test_plot_of_many_channels_text_and_odd_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = tmp_path / "$a_{$ 字.npy"
    np.save(many, np.arange(2000).reshape(20, 100))
    plot = tmp_path / "plot.png"
    assert cli.main([str(many), "--plot", str(plot)]) == 0
    assert "and 92 more channels" in capsys.readouterr().out
    assert cli.main(["--text", str(TEXT), str(TEXT), str(TEXT), "--plot", str(plot)]) == 0
    with Image.open(plot) as image:
        assert min(image.size) > 500


# The run without arguments, and what it measures with


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LENGTH", 300)
    monkeypatch.setattr(demo, "CHANNELS", 5)


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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("small_demo", "small_pieces")
def test_progress_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "PROGRESS_DELAY", 0)
    for arguments, progress in ([], "1/9 making the sample"), (["--text", str(TEXT)], "B/s]"):
        assert cli.main([*arguments, "--device", "cpu"]) == 0
        assert capsys.readouterr().err == ""
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal := Terminal())
            assert cli.main([*arguments, "--device", "cpu"]) == 0
        assert progress in terminal.getvalue()


@pytest.mark.usefixtures("small_demo")
def test_sample_is_reproducible() -> None:
    first = demo.sample()
    assert (first.shape, first.dtype) == ((300, 5), torch.uint8)
    assert torch.equal(first, demo.sample())
    assert len(first.unique()) > 100


@pytest.mark.parametrize("way", measure.TORCH_WAYS)
def test_torch_ways(way: str) -> None:
    values = torch.randint(0, 50, (200, 3), dtype=torch.uint8)
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
