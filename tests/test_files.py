"""Files of known formats: the command line counts none of them as bytes without a word."""

from __future__ import annotations

import io
import json
import pickle
import re
import sqlite3
import wave
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image, features

from torch_histo import cli
from torch_histo.cli.sources import open_file, wrappers


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[dict[str, Any], str]:
        """The only array of the file, or the error, in one line."""
        capsys.readouterr()
        status = cli.main(["--json", "--device", "cpu", *arguments])
        captured = capsys.readouterr()
        document = json.loads(captured.out)
        assert (status, captured.err.count("\n")) in ((0, 0), (2, 1))
        return next(iter(document["files"]), {}), captured.err

    return run


def sound() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(bytes(800))
    return buffer.getvalue()


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"abc")
    return buffer.getvalue()


def box(brand: bytes, *compatible: bytes) -> bytes:
    content = b"ftyp" + brand + bytes(4) + b"".join(compatible)
    return (len(content) + 4).to_bytes(4, "big") + content + bytes(400)


NIFTI = (348).to_bytes(4, "little") + bytes(340) + b"n+1\0" + bytes(100)
NIFTI_2 = (540).to_bytes(4, "little") + b"n+2\0\r\n\x1a\n" + bytes(600)

# The content, a suffix, and what the error says: that the content alone tells what it is.
BY_CONTENT = [
    (NIFTI, ".nii", "a NIfTI file: .*nibabel.*"),
    (NIFTI_2, ".nii", "a NIfTI file: .*nibabel.*"),
    (bytes(128) + b"DICM" + bytes(300), ".dcm", "a DICOM file: .*pydicom.*"),
    (sound(), ".wav", "a sound file: .*soundfile.*"),
    (b"fLaC" + bytes(90), ".flac", "a sound file: .*"),
    (b"OggS" + bytes(90), ".ogg", "a sound file: .*"),
    (b"ID3\x04\0" + bytes(90), ".mp3", "a sound file: .*"),
    (b"FORM\0\0\0\x09AIFF" + bytes(90), ".aiff", "a sound file: .*"),
    (box(b"heic", b"mif1"), ".heif", "an HEIF image: convert it to PNG or TIFF"),
    (box(b"mif1", b"heic"), ".heic", "an HEIF image: .*"),
    (box(b"isom", b"mp41"), ".mp4", "a film: .*ffmpeg.*"),
    (box(b"qt  "), ".mov", "a film: .*"),
    (b"RIFF\0\1\0\0AVI LIST" + bytes(90), ".avi", "a film: .*"),
    (b"\x1a\x45\xdf\xa3" + bytes(90), ".mkv", "a film: .*"),
    (b"PARE" + bytes(90) + b"PARE", ".parquet", "an encrypted Parquet file: .*"),
    (b"ARROW1\0\0" + bytes(90), ".arrow", "an Arrow file: .*"),
    (b"FEA1" + bytes(90), ".feather", "an Arrow file: .*"),
    (b"Obj\x01" + bytes(90), ".avro", "an Avro file: .*"),
    (b"\x89HDF\r\n\x1a\n" + bytes(90), ".h5", "an HDF5 file: .*h5py.*"),
    (b"CDF\x02" + bytes(90), ".nc", "a netCDF file: .*"),
    (b"GRIB\0\0\1\2" + bytes(90), ".grib2", "a GRIB file: .*"),
    (b"MATLAB 5.0 MAT-file" + bytes(190), ".mat", "a MATLAB file: .*"),
    (b"MATLAB 7.3 MAT-file" + bytes(190), ".mat", "a MATLAB file: .*"),
    (b"GGUF\3\0\0\0" + bytes(90), ".gguf", "a GGUF file: .*"),
    (b"\x1c\0\0\0TFL3" + bytes(90), ".tflite", "a TensorFlow Lite model: .*"),
    (pickle.dumps({"a": 1}), ".pkl", "a pickle: .*"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(90), ".xls", "an Office file: .*"),
    (zipped("[Content_Types].xml", "xl/workbook.xml"), ".xlsx", "an Office file: .*"),
    (zipped("a.txt"), ".zip", "a zip file: unpack it"),
    (b"SQLite format 3\0" + bytes(90), ".db", "an SQLite database: .*"),
    (b"%PDF-1.7\n" + bytes(90), ".pdf", "a drawing or a document: render it as PNG"),
    (b"%!PS-Adobe-3.0 EPSF-3.0\n" + bytes(90), ".eps", "a drawing or a document: .*"),
    (b"NRRD0004\n" + bytes(90), ".nrrd", "an NRRD file: .*"),
    (b"v/1\x01" + bytes(90), ".exr", "an OpenEXR image: .*"),
    (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(90), ".jxl", "a JPEG XL image: .*"),
    (b"II*\0\x10\0\0\0CR\2\0" + bytes(90), ".cr2", "a raw photo: .*"),
    (b"\x1f\x9d\x90" + bytes(90), ".Z", "a file of compress: decompress it .*"),
    (b"version https://git-lfs.github.com/spec/v1\n", ".npy", "a pointer of Git LFS: .*"),
]

# Formats without a signature: the suffix tells.
BY_SUFFIX = [
    (b'{"a": 1}\n', ".json", "JSON text: .*"),
    (b'{"a": 1}\n', ".jsonl", "JSON text: .*"),
    (b"\x08\x07\x12\x0bpytorch", ".onnx", "an ONNX model: .*"),
    (b"\x81\xa1a\x01", ".msgpack", "a MessagePack file: .*"),
    (b"ORC" + bytes(90), ".orc", "an ORC file: .*"),
    (b"\xff\xfb\x90\x64" + bytes(90), ".mp3", "a sound file: .*"),
    (bytes(400), ".nii", "a NIfTI file: .*"),
    (bytes(400), ".dcm", "a DICOM file: .*"),
    (b"no pickle", ".pt", "a pickle: .*"),
    (b"<svg/>", ".svg", "a drawing or a document: .*"),
]


def check_refused(run: Any, name: str, content: bytes, message: str) -> None:
    Path(name).write_bytes(content)
    found, error = run(name)
    assert not found
    pattern = f"torch_histo: {re.escape(name)}: is {message}, or count its bytes with --channels 1"
    assert re.fullmatch(f"{pattern}\n", error)
    for arguments in (["--summary"], ["--quantiles", "0.5"], ["--dim=0"], ["--per-channel"]):
        assert run(name, *arguments) == (found, error)


@pytest.mark.parametrize(
    ("content", "suffix", "message"), BY_CONTENT, ids=lambda value: str(value)[:9]
)
def test_known_by_content(run: Any, content: bytes, suffix: str, message: str) -> None:
    for name in (f"x{suffix}", "x", "x.bin", "x.npy", "x.png"):
        check_refused(run, name, content, message)


@pytest.mark.parametrize(
    ("content", "suffix", "message"), BY_SUFFIX, ids=lambda value: str(value)[:9]
)
def test_known_by_suffix(run: Any, content: bytes, suffix: str, message: str) -> None:
    check_refused(run, f"x{suffix}", content, message)
    Path("x").write_bytes(content)
    found, error = run("x")
    assert (found["kind"], error) == ("bytes", "")


def test_a_database_as_sqlite_writes_it(tmp_path: Path, run: Any) -> None:
    with sqlite3.connect(tmp_path / "made") as database:
        database.execute("create table t (a)")
    database.close()
    check_refused(run, "x.db", (tmp_path / "made").read_bytes(), "an SQLite database: .*")


@pytest.mark.parametrize(
    ("content", "suffix", "message"), BY_CONTENT + BY_SUFFIX, ids=lambda v: str(v)[:9]
)
def test_an_option_counts_the_bytes(run: Any, content: bytes, suffix: str, message: str) -> None:
    Path(f"x{suffix}").write_bytes(content)
    counts = np.bincount(np.frombuffer(content, np.uint8), minlength=256).tolist()
    found, error = run("--channels", "1", f"x{suffix}")
    assert (found["kind"], error) == ("bytes", "")
    assert found["channels"][0]["counts"] == counts
    assert run("--text", f"x{suffix}")[0]["kind"] == "text"


@pytest.mark.parametrize("suffix", [".csv", ".json", ".onnx", ".pt", ".nii", ".wav", ".parquet"])
def test_content_is_believed_more_than_a_suffix(run: Any, suffix: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6), np.uint8)
    with Path(f"x{suffix}").open("wb") as file:
        np.save(file, pixels)
    assert run(f"x{suffix}")[0]["kind"] == "array"
    Image.fromarray(pixels).save(f"y{suffix}", "PNG")
    assert run(f"y{suffix}")[0]["kind"] == "image"


@pytest.mark.parametrize("kind", ["BMP", "AVIF", "JPEG2000", "DDS", "QOI", "TIFF"])
def test_an_image_needs_no_suffix(run: Any, kind: str) -> None:
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("Pillow was built without AVIF")
    options = {"big_tiff": True} if kind == "TIFF" else {}
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 24, 3), np.uint8))
    image.save("x", kind, **options)
    found, error = run("x")
    assert (found["kind"], found["shape"], error) == ("image", [16, 24, 3], "")


def test_a_raw_photo_is_not_its_preview(run: Any) -> None:
    Image.new("RGB", (8, 8)).save("x.tif")
    check_refused(run, "x.dng", Path("x.tif").read_bytes(), "a raw photo: develop it into a TIFF")


def test_a_part_of_a_checkpoint_is_not_its_first_tensor(run: Any) -> None:
    torch.save(torch.ones(3), "x.pt")
    what = "a part of a checkpoint of torch.distributed: join its parts .*dcp_to_torch.*"
    check_refused(run, "x.distcp", Path("x.pt").read_bytes(), what)


@settings(max_examples=80, deadline=None)
@given(
    content=st.one_of(
        st.binary(min_size=1, max_size=400), st.text(min_size=1, max_size=400).map(str.encode)
    ),
    suffix=st.sampled_from(["", ".txt", ".bin", ".raw", ".dat", ".py"]),
)
def test_plain_bytes_stay_bytes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    assume(not re.search(rb"ftyp|DICM|n[i+][12]|TFL3|ustar", content))
    content = b"~" + content  # no signature begins so
    path = tmp_path_factory.mktemp("bytes") / f"x{suffix}"
    path.write_bytes(content)
    with open_file(str(path)) as parts:
        source = parts[0][1]()
        (piece,) = source.pieces()
    assert source.kind == "bytes"
    assert bytes(piece.values.flatten().tolist()) == content


@pytest.mark.parametrize("dtype", ["i1", "<i4", ">i4", "<i8", "<f4", ">f4", "<f8"])
def test_raw_numbers_stay_bytes(tmp_path: Path, dtype: str) -> None:
    for first in range(600):
        path = tmp_path / "x.raw"
        np.arange(first, first + 100).astype(dtype).tofile(path)
        with open_file(str(path)) as parts:
            assert parts[0][1]().kind == "bytes"


def test_formats_are_well_formed() -> None:
    suffixes = [suffix for known in wrappers.FORMATS for suffix in known.suffixes.split()]
    assert len(suffixes) == len(set(suffixes))
    assert all(re.fullmatch(r"\.[a-z0-9]+", suffix) for suffix in suffixes)
    assert set(suffixes) >= wrappers.ALWAYS
    for known in wrappers.FORMATS:
        assert known.signature or known.suffixes
        assert len(str(wrappers.refusal(known.what, known.remedy))) <= 200
