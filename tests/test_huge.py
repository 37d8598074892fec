"""More than 32 bits of elements, of bytes between rows, and of one count."""

from __future__ import annotations

import pytest
import torch
from oracle import STUDY_VARIANTS

from torch_histo import channel_histogram

pytestmark = pytest.mark.huge
GIANT = (1 << 31) + 12_345


@pytest.fixture(autouse=True)
def empty_cache():
    yield
    torch.cuda.empty_cache()


def random_bytes(*shape: int) -> torch.Tensor:
    values = torch.empty(shape, dtype=torch.uint8, device="cuda")
    return values.random_(0, 256)


def counts_in_parts(values: torch.Tensor, num_bins: int = 256) -> torch.Tensor:
    """[length, channels]: torch.bincount of a few rows at a time."""
    channels = values.shape[1]
    offsets = torch.arange(channels, device="cuda") * num_bins
    counts = torch.zeros(channels * num_bins, dtype=torch.int64, device="cuda")
    for part in values.split(max(1, (1 << 26) // channels)):
        flat = (part.long() + offsets).flatten()
        counts += torch.bincount(flat, minlength=channels * num_bins)
    return counts.view(channels, num_bins)


@pytest.mark.parametrize("variant", ["auto", *STUDY_VARIANTS])
def test_more_than_2_to_31_elements(variant: str) -> None:
    values = random_bytes(GIANT)
    want = counts_in_parts(values.view(-1, 1))[0]
    assert torch.equal(channel_histogram(values, variant=variant), want)


@pytest.mark.parametrize("variant", ["auto", *STUDY_VARIANTS])
def test_more_than_2_to_32_elements_in_rows(variant: str) -> None:
    values = random_bytes((1 << 32) // 510 + 7, 511)
    want = counts_in_parts(values)
    assert torch.equal(channel_histogram(values, variant=variant), want)


def test_more_than_2_to_31_of_a_wide_type() -> None:
    values = torch.randint(-3, 40, (GIANT,), dtype=torch.int64, device="cuda")
    kept = values[: 1 << 20]
    kept[:] = 1 << 40  # far outside every bin, and 0 in the low 32 bits
    counts = channel_histogram(values, 30)
    by_torch = torch.stack([(values == v).sum() for v in range(30)])
    assert torch.equal(counts, by_torch)


def test_more_than_2_to_31_bytes_between_rows() -> None:
    stride = (1 << 31) + 64
    buffer = random_bytes(3 * stride + 4096)
    for dtype in (torch.uint8, torch.int32):
        size = dtype.itemsize
        view = buffer[: len(buffer) // 8 * 8].view(dtype)
        rows = view.as_strided((4, 4096 // size), (stride // size, 1))
        dense = rows.contiguous()
        assert torch.equal(channel_histogram(rows, 256), channel_histogram(dense, 256))
        assert torch.equal(channel_histogram(rows, 256, 1), channel_histogram(dense, 256, 1))


def test_a_count_beyond_32_bits() -> None:
    """5 x 2^30 rows that are all the same row."""
    rows = 5 << 30
    row = torch.tensor([7, 250, 7], dtype=torch.uint8, device="cuda")
    counts = channel_histogram(row.expand(rows, 3))
    assert counts[0, 7] == counts[1, 250] == counts[2, 7] == rows
    assert counts.sum() == 3 * rows
    one = channel_histogram(row[:1].expand(rows))
    assert one[7] == one.sum() == rows
    wide = channel_histogram(torch.tensor([70_000], device="cuda").expand(rows), 70_001)
    assert wide[70_000] == wide.sum() == rows


def test_a_count_beyond_32_bits_in_memory() -> None:
    values = torch.full(((1 << 32) + 99,), 3, dtype=torch.uint8, device="cuda")
    for shape in ((-1,), (-1, 1), (1, -1)):
        view = values.view(shape)
        counts = channel_histogram(view, 256, -1 if shape == (1, -1) else 0)
        assert counts.flatten()[3] == counts.sum() == len(values)


def test_many_channels() -> None:
    values = random_bytes(20, 3_000_001)
    counts = channel_histogram(values, 64)
    assert torch.equal(counts, counts_in_parts(values, 256)[:, :64])
