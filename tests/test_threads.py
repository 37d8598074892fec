"""Calls from several threads at once, and any number of torch's threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from oracle import assert_counts, expected_counts, expected_letters, random_values

from torch_histo import channel_histogram, text_histogram


@pytest.fixture
def thread_count() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_callers_do_not_meet(device: torch.device) -> None:
    inputs = [random_values((3000 + 500 * i, 60 + i), torch.uint8, seed=i) for i in range(8)]
    expected = [expected_counts(values) for values in inputs]
    letters = [expected_letters(values.numpy().tobytes()) for values in inputs]

    def work(i: int) -> None:
        values = inputs[i % 8].to(device)
        for _ in range(5):
            assert_counts(channel_histogram(values), expected[i % 8], i)
            assert_counts(text_histogram(values.view(-1)), letters[i % 8], i)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(32)))


@pytest.mark.usefixtures("thread_count")
@pytest.mark.parametrize("threads", [1, 2])  # a sum of one thread, and a sum of their sums
def test_a_count_beyond_32_bits(threads: int) -> None:
    torch.set_num_threads(threads)
    length = (1 << 32) + 100
    counts = channel_histogram(torch.tensor([7], dtype=torch.uint8).expand(length), 9)
    assert counts.tolist() == [0, 0, 0, 0, 0, 0, 0, length, 0]


@pytest.mark.usefixtures("thread_count")
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("shape", "dtype", "num_bins", "dim"),
    [
        ((500_001,), torch.uint8, 256, 0),
        ((300_000,), torch.int64, 300, 0),
        ((200_000,), torch.int32, 1 << 20, 0),  # more bins than values: shared counters
        ((2000, 300), torch.uint8, 256, 0),
        ((2000, 300), torch.int16, 256, 0),
        ((300, 2000), torch.uint8, 256, 1),
        ((50_000, 3), torch.uint8, 256, 0),
        ((4, 300, 200, 3), torch.uint8, 256, (1, 2)),
        ((4, 3, 300, 200), torch.uint8, 256, (0, 2, 3)),
    ],
)
def test_any_number_of_threads(threads, shape, dtype, num_bins, dim) -> None:
    torch.set_num_threads(threads)
    values = random_values(shape, dtype, low=-5, high=num_bins + 5)
    counts = channel_histogram(values, num_bins, dim)
    assert_counts(counts, expected_counts(values, num_bins, dim))
