"""The seven letter bins."""

from __future__ import annotations

import pydoc_data.topics
import string

import pytest
import torch
from oracle import ALL_VARIANTS, STUDY_VARIANTS, assert_counts, expected_letters, like

from torch_histo import text_histogram

REAL_TEXT = "".join(pydoc_data.topics.topics.values()).encode()


def as_tensor(text: bytes) -> torch.Tensor:
    return torch.tensor(list(text), dtype=torch.uint8)


def test_every_byte(device: torch.device) -> None:
    text = bytes(range(256)) * 3
    counts = text_histogram(as_tensor(text).to(device))
    assert counts.tolist() == [12, 12, 12, 12, 12, 12, 6]


@pytest.mark.parametrize("length", [0, 1, 2, 1023, 1025, 4097, len(REAL_TEXT)])
def test_real_text(device: torch.device, length: int) -> None:
    text = REAL_TEXT[:length]
    names = ("auto", *STUDY_VARIANTS) if device.type == "cuda" else ALL_VARIANTS
    for variant in names:
        counts = text_histogram(as_tensor(text).to(device), variant=variant)
        assert_counts(counts, expected_letters(text), variant)


def test_long_text(device: torch.device) -> None:
    text = as_tensor(REAL_TEXT).repeat(20)
    for values in (text, text[1:], text[3:-2], text[::2], text[5:6].expand(1 << 23)):
        ours = text_histogram(like(values, device))
        letters = torch.bincount(values.long(), minlength=256)[97:123]
        expected = torch.stack([part.sum() for part in letters.split(4)])
        assert_counts(ours, expected, values.stride())


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_base_pointers(device: torch.device, offset: int) -> None:
    buffer = as_tensor(REAL_TEXT[:6000]).to(device)
    names = ("auto", *STUDY_VARIANTS) if device.type == "cuda" else ALL_VARIANTS
    for variant in names:
        counts = text_histogram(buffer[offset:5000], variant=variant)
        assert_counts(counts, expected_letters(REAL_TEXT[offset:5000]), variant)


def test_str_and_bytes() -> None:
    for text in ("", "a histogram of text", "Grüße, schöne Größe", string.printable):
        expected = expected_letters(text.encode())
        assert_counts(text_histogram(text), expected)
        assert_counts(text_histogram(text.encode()), expected)
        assert_counts(text_histogram(text, variant="sequential"), expected)
    # Bytes that are no text in UTF-8, as in names of files, are no letters either.
    assert_counts(text_histogram("\udce9abc"), expected_letters(b"abc"))
