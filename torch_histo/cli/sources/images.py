"""Images, decoded by Pillow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, BinaryIO

import numpy as np
import torch
from PIL import Image, ImageFile, ImageMode
from torch import Tensor

from .base import Piece, Source, SourceError, decoding, default_bins

MAX_PIXELS = 1 << 30
"""Pillow refuses images of more than twice as many pixels, before it takes memory for them."""

IMAGE_SIGNATURES = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",  # JPEG
    b"GIF87a",
    b"GIF89a",
    b"II*\0",  # TIFF, little-endian
    b"MM\0*",  # TIFF, big-endian
    b"II+\0",  # BigTIFF, little-endian
    b"MM\0+",  # BigTIFF, big-endian
    b"8BPS\0\1",  # Photoshop
    b"\0\0\0\x0cjP  \r\n\x87\n",  # JPEG 2000
    b"\xff\x4f\xff\x51",  # JPEG 2000 without a container
    b"DDS \x7c\0\0\0",
    b"qoif",
    b"SIMPLE  =",  # FITS
)

# In other formats the frames that Pillow finds are layers or thumbnails of one picture.
FORMATS_OF_FRAMES = {"AVIF", "DCX", "FLI", "GIF", "PNG", "TIFF", "WEBP"}

# Each frame of these is a picture of its own; in the others it is drawn over the last one.
FORMATS_OF_PAGES = {"DCX", "TIFF"}

# Pillow recognises these formats, but cannot decode them by itself.
UNDECODED_FORMATS = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}


@cache
def image_suffixes() -> frozenset[str]:
    formats = {*_image_formats(), "MPO"}
    return frozenset(s for s, name in Image.registered_extensions().items() if name in formats)


def looks_like_image(head: bytes) -> bool:
    is_webp = head.startswith(b"RIFF") and head[8:12] == b"WEBP"
    is_bmp = head.startswith(b"BM") and head[6:10] == bytes(4)
    is_avif = re.match(rb".{4}ftyp.{0,56}avi[fs]", head, re.DOTALL) is not None
    return head.startswith(IMAGE_SIGNATURES) or is_webp or is_bmp or is_avif


def image_source(file: BinaryIO) -> Source:
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    with decoding("an image"):
        # Pillow may go to the last frame and back to count them.
        found: int = getattr(_opened(file), "n_frames", 1)
        image = _opened(file)
    frames = found if image.format in FORMATS_OF_FRAMES else 1
    mode, sizes, narrowed = _mode_sizes_and_loss(_forward(image, frames))
    with decoding("an image"):
        first = _pixels(image if frames == 1 else _opened(file), mode)
    bands = tuple("L" if band in "IF" else band for band in ImageMode.getmode(mode).bands)
    notes = []
    if frames > 1:
        notes.append(f"{frames} frames counted together")
    if len(sizes) > 1:
        notes.append("the frames have several sizes, of which the shape is the first")
    if image.format == "GIF" and not _gif_has_trailer(file):
        read = f"{frames} frame{'s' * (frames > 1)}"
        notes.append(f"the end of the file is missing: only {read} could be read")
    alternatives = max(found, len(image.info.get("sizes", ())))  # sizes of an icon
    if frames == 1 < alternatives:
        notes.append(f"only one of the {alternatives} images in the file is counted")
    if narrowed:
        notes.append("Pillow reduces the samples of this file to 8 bits")

    def pieces() -> Iterator[Piece]:
        if frames == 1:
            yield Piece(_tensor(first).view(-1, len(bands)))
            return
        with decoding("an image"):
            again = _opened(file)
        for frame in _forward(again, frames):
            with decoding("an image"):
                pixels = _pixels(frame, mode)
            yield Piece(_tensor(pixels).view(-1, len(bands)))

    return Source(
        kind="image",
        dtype=first.dtype.name,
        shape=(*first.shape[:2], len(bands)),
        channel_shape=(len(bands),),
        channel_names=bands,
        dim=(0,),
        # Modes of 32 bits hold 16-bit greyscale samples from the formats that Pillow reads so.
        default_bins=1 << 16 if mode.startswith("I") else default_bins(first.dtype),
        nbytes=frames * first.nbytes,
        pieces=pieces,
        is_float=first.dtype.kind == "f",
        note=", ".join(notes),
    )


def _opened(file: BinaryIO) -> ImageFile.ImageFile:
    file.seek(0)
    return Image.open(file, formats=_image_formats())


def _forward(image: ImageFile.ImageFile, frames: int) -> Iterator[ImageFile.ImageFile]:
    """An image just opened, at one frame after another.

    It never goes back: Pillow loses palettes and sizes of the canvas on the way.
    """
    for index in range(frames):
        with decoding("an image"):
            image.seek(index)
        yield image


def _pixels(image: ImageFile.ImageFile, mode: str) -> np.ndarray[Any, Any]:
    """The pixels of the frame at which an image is, converted to a mode."""
    image.load()
    return np.asarray(image if image.mode == mode else image.convert(mode))


def _mode_sizes_and_loss(
    frames: Iterator[ImageFile.ImageFile],
) -> tuple[str, set[tuple[int, int]], bool]:
    """The mode in which all frames are counted, their sizes, and whether any loses depth."""
    modes, sizes, narrowed, pages = set(), set(), False, False
    for image in frames:
        pages = image.format in FORMATS_OF_PAGES
        with decoding("an image"):
            narrowed |= _loses_depth(image)
            if not pages:  # drawing a frame may change its mode
                image.load()
            modes.add(_counted_mode(image))
        sizes.add(image.size)
    if len(modes) > 1 and not pages:
        # The pixels that a later frame covers are opaque.
        modes = {"RGBA"} if any("A" in mode for mode in modes) else {"RGB"}
    if len(modes) > 1:
        found = ", ".join("1 (black and white)" if m == "1" else m for m in sorted(modes))
        raise SourceError(
            f"expected frames of one mode, found {found}: "
            "save those of each mode in a file of their own"
        )
    return modes.pop(), sizes, narrowed


def _counted_mode(image: Image.Image) -> str:
    """The mode whose bands are counted: the image's own, but the colours behind a palette."""
    if image.mode in ("P", "PA"):
        return "RGBA" if image.has_transparency_data else "RGB"
    return image.mode


def _gif_has_trailer(file: BinaryIO) -> bool:
    """Whether all blocks of a GIF are there; Pillow takes the end of the file for the trailer."""

    def skip_table(flags: int) -> None:
        if flags & 0x80:
            file.seek(3 << (flags & 7) + 1, 1)

    file.seek(10)
    skip_table(file.read(3)[0])
    while (block := file.read(1)) and block != b";":
        if block not in (b"!", b","):
            continue  # as Pillow does
        if block == b",":
            skip_table((file.read(9) or b"\0")[-1])
        file.seek(1, 1)  # the label of an extension, or the size of a code
        while (size := file.read(1)) and size[0]:
            file.seek(size[0], 1)
    return block == b";"


def _loses_depth(image: ImageFile.ImageFile) -> bool:
    """Whether Pillow will decode samples of more than 8 bits, in several bands, into 8."""
    if image.mode.startswith("I"):
        return False
    return any(
        ";16" in str(tile.args)
        # The decoder of PPM is told the highest value instead.
        or (
            tile.codec_name.startswith("ppm")
            and isinstance(tile.args, tuple)
            and int(tile.args[-1]) > 255
        )
        for tile in image.tile
    )


@cache
def _image_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in Image.OPEN if name not in UNDECODED_FORMATS)


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor of a copy of an array, in the byte order of the machine and the array's layout."""
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="K"))
