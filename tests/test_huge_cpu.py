"""More than 2^32 elements in the memory of the CPU: `python -m pytest -m huge_cpu`."""

from __future__ import annotations

import pytest
import torch
from oracle import assert_counts

from torch_histo import channel_histogram

pytestmark = pytest.mark.huge_cpu
GIANT = (1 << 32) + 12_345


@pytest.fixture(autouse=True)
def dirty_memory() -> None:
    """The inputs alone fill the memory."""


def cyclic(size: int) -> torch.Tensor:
    """0 to 250, over and over: a period that shares no factor with anything in the engine."""
    values = torch.empty(size, dtype=torch.uint8)
    period = torch.arange(251, dtype=torch.uint8)
    whole = size // 251 * 251
    values[:whole].view(-1, 251).copy_(period)
    values[whole:] = period[: size - whole]
    return values


def counts_of_cyclic(size: int) -> torch.Tensor:
    counts = torch.zeros(256, dtype=torch.int64)
    counts[:251] = size // 251
    counts[: size % 251] += 1
    return counts


def test_one_channel() -> None:
    assert_counts(channel_histogram(cyclic(GIANT)), counts_of_cyclic(GIANT))


def test_one_value() -> None:
    values = torch.full((GIANT,), 7, dtype=torch.uint8)
    assert channel_histogram(values)[7] == GIANT


@pytest.mark.parametrize("channels", [3, 64, 100])
def test_rows_of_channels(channels: int) -> None:
    rows = GIANT // channels
    values = cyclic(rows * channels).view(rows, channels)
    counts = channel_histogram(values)
    assert_counts(counts.sum(0), counts_of_cyclic(rows * channels))
    # Every channel meets every value as often as any other, give or take one.
    assert int((counts[:, :251] - rows // 251).abs().max()) <= 1


def test_planes() -> None:
    values = cyclic(2 * (GIANT // 2)).view(2, -1)
    counts = channel_histogram(values, dim=1)
    assert_counts(counts.sum(0), counts_of_cyclic(values.numel()))
    assert int((counts[:, :251] - values.shape[1] // 251).abs().max()) <= 1
