"""Animations and pages: the command line counts what one forward pass of Pillow gives."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageSequence

from torch_histo.cli.sources import Source, open_file


def forward(content: bytes) -> Iterator[Image.Image]:
    """Each frame, by an image that never goes back and never counts its frames."""
    with Image.open(io.BytesIO(content)) as image:
        for frame in ImageSequence.Iterator(image):
            frame.load()
            yield frame


def expected(content: bytes, mode: str) -> list[np.ndarray]:
    return [np.asarray(frame.convert(mode)) for frame in forward(content)]


def counted(path: Path) -> tuple[Source, list[np.ndarray]]:
    """The source of a file, and the counts of each of its frames by colour."""
    with open_file(str(path)) as parts:
        ((_, open_part),) = parts
        source = open_part()
        once = [by_colour(piece.values.numpy()) for piece in source.pieces()]
        again = [by_colour(piece.values.numpy()) for piece in source.pieces()]
    np.testing.assert_array_equal(once, again)
    return source, once


def by_colour(pixels: np.ndarray) -> np.ndarray:
    columns = pixels.reshape(-1, pixels.shape[-1] if pixels.ndim > 1 else 1).T
    return np.stack([np.bincount(column, minlength=256) for column in columns])


def check(path: Path, content: bytes, mode: str) -> Source:
    path.write_bytes(content)
    source, counts = counted(path)
    frames = expected(content, mode)
    assert len(frames) == len(counts) > 1
    for number, (frame, found) in enumerate(zip(frames, counts, strict=True)):
        pixels = frame.reshape(*frame.shape[:2], -1)
        np.testing.assert_array_equal(found, by_colour(pixels), f"frame {number}")
    assert source.shape == (*frames[0].shape[:2], len(mode))
    assert f"{len(frames)} frames counted together" in source.note
    return source


def palette_frames(count: int, size: tuple[int, int] = (12, 9)) -> list[Image.Image]:
    """Frames of one palette without grey, with other pixels each."""
    rng = np.random.default_rng(count)
    colours = rng.integers(1, 256, (16, 3), np.uint8)
    frames = []
    for _ in range(count):
        frame = Image.fromarray(rng.integers(0, 16, size[::-1], dtype=np.uint8), "L")
        frame.putpalette(colours.tobytes())
        frames.append(frame)
    return frames


def saved(frames: list[Image.Image], kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], **options)
    return buffer.getvalue()


@pytest.mark.parametrize("blend", [0, 1])
@pytest.mark.parametrize("disposal", [0, 1, 2])
@pytest.mark.parametrize("default_image", [False, True])
def test_png_with_a_palette(tmp_path: Path, blend: int, disposal: int, default_image: bool) -> None:
    content = saved(palette_frames(4), "PNG", default_image=default_image)
    with Image.open(io.BytesIO(content)) as image:
        assert image.mode == "P"
    check(tmp_path / "x.png", drawn(content, disposal, blend), "RGB")
    content = saved(palette_frames(4), "PNG", default_image=default_image, transparency=3)
    check(tmp_path / "x.png", drawn(content, disposal, blend), "RGBA")


def drawn(png: bytes, disposal: int, blend: int) -> bytes:
    """A PNG whose frames are disposed of and blended so; Pillow does not write it of palettes."""
    out, place = bytearray(png[:8]), 8
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        chunk = bytearray(png[place + 4 : place + 8 + length])
        if chunk.startswith(b"fcTL"):
            chunk[-2:] = disposal, blend
        out += struct.pack(">I", length) + chunk + struct.pack(">I", zlib.crc32(chunk))
        place += 12 + length
    return bytes(out)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_png_of_colours(tmp_path: Path, mode: str) -> None:
    frames = [frame.convert(mode) for frame in palette_frames(3)]
    content = saved(frames, "PNG", disposal=[0, 2, 1], blend=1)
    check(tmp_path / "x.png", content, mode)


def test_gif_whose_canvas_grows(tmp_path: Path) -> None:
    content = bytearray(saved(palette_frames(3, (8, 8)), "GIF", disposal=2))
    content[6:10] = bytes([5, 0, 4, 0])  # the canvas is smaller than the frames
    other = palette_frames(2, (20, 11))
    check(tmp_path / "one.gif", bytes(content), "RGB")
    second = saved(other, "GIF")
    with Image.open(io.BytesIO(second)) as image:
        assert image.size == (20, 11)
    # The first frame of one file, then all of a larger one.
    joined = saved(palette_frames(1, (5, 4)), "GIF")[:-1] + blocks_of(second)
    source = check(tmp_path / "joined.gif", joined, "RGB")
    assert source.shape == (4, 5, 3)
    assert "several sizes" in source.note


def blocks_of(gif: bytes) -> bytes:
    """What follows the header of a GIF; its global palette goes to each frame's own."""
    table = 3 << (gif[10] & 7) + 1
    palette, rest = gif[13 : 13 + table], gif[13 + table :]
    out = bytearray()
    place = 0
    while rest[place : place + 1] != b";":
        start = place
        if rest[place : place + 1] == b",":
            flags = rest[place + 9]
            own = 3 << (flags & 7) + 1 if flags & 0x80 else 0
            head = bytearray(rest[place : place + 10 + own])
            if not own:
                head[9] |= 0x80 | gif[10] & 7
                head += palette
            out += head
            place += 10 + own
            start = place
            place += 1
        else:
            place += 2
        while rest[place]:
            place += rest[place] + 1
        place += 1
        out += rest[start:place]
    return bytes(out) + b";"


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    disposal=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    transparency=st.sampled_from([None, 0, 5]),
    own_palettes=st.booleans(),
    canvas=st.sampled_from([None, (3, 2), (40, 30)]),
)
def test_gifs(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    disposal: list[int],
    transparency: int | None,
    own_palettes: bool,
    canvas: tuple[int, int] | None,
) -> None:
    rng = np.random.default_rng(seed)
    frames = []
    colours = rng.integers(1, 256, (16, 3), np.uint8)
    for _ in range(3):
        frame = Image.fromarray(rng.integers(0, 16, (7, 10), dtype=np.uint8), "L")
        if own_palettes:
            colours = rng.integers(1, 256, (16, 3), np.uint8)
        frame.putpalette(colours.tobytes())
        frames.append(frame)
    options = {} if transparency is None else {"transparency": transparency}
    content = bytearray(saved(frames, "GIF", disposal=disposal, optimize=False, **options))
    if canvas is not None:
        content[6:10] = canvas[0].to_bytes(2, "little") + canvas[1].to_bytes(2, "little")
    found = bytes(content)
    modes = {"RGBA" if frame.has_transparency_data else "RGB" for frame in forward(found)}
    check(tmp_path_factory.mktemp("gif") / "x.gif", found, max(modes, key=len))


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_webp(tmp_path: Path, mode: str) -> None:
    frames = [frame.convert(mode) for frame in palette_frames(3)]
    if mode == "RGBA":
        for frame in frames:
            frame.putalpha(frame.getchannel("R"))
    # Pillow finds an alpha channel in every animation.
    check(tmp_path / "x.webp", saved(frames, "WEBP", lossless=True), "RGBA")


def test_pages_of_a_tiff(tmp_path: Path) -> None:
    pages = [palette_frames(count, (5 + count, 9))[0] for count in (1, 2, 3)]
    source = check(tmp_path / "x.tif", saved(pages, "TIFF"), "RGB")
    assert "several sizes" in source.note
    grey = [page.convert("L") for page in pages]
    check(tmp_path / "x.tif", saved(grey, "TIFF", compression="tiff_lzw"), "L")


def test_json_of_a_png_with_a_palette(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from torch_histo import cli

    content = saved(palette_frames(3), "PNG")
    (tmp_path / "x.png").write_bytes(content)
    assert cli.main(["--json", "--device", "cpu", str(tmp_path / "x.png")]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["files"]
    every = np.concatenate([frame.reshape(-1, 3) for frame in expected(content, "RGB")])
    counts = [channel["counts"] for channel in entry["channels"]]
    np.testing.assert_array_equal(counts, by_colour(every))
    assert sum(channel[0] for channel in counts) == 0  # none is black
