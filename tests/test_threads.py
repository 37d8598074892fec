"""Calls from several threads at once, and any number of torch's threads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from conftest import ENVIRONMENT
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


CHANGING = """
import threading, time
import torch
from torch_histo import channel_histogram

cases = [  # ways of counting: counters of 8, 16 and 32 bits, indices, columns, the result itself
    (torch.int64, (1 << 20,), 5_000),
    (torch.int64, (1 << 20,), 100_000),
    (torch.int64, (1 << 20,), 1_000),
    (torch.int64, (1 << 20,), 1 << 20),
    (torch.int64, (1 << 14, 64), 1_500),
    (torch.int64, (1 << 18, 4), 5_000),
    (torch.int32, (1 << 20,), 8_000),
    (torch.int32, (1 << 20,), 70_000),
    (torch.int16, (1 << 20,), 5_000),
    (torch.uint16, (1 << 21,), 65_536),
    (torch.uint8, (1 << 21,), 99),
    (torch.bool, (1 << 14, 64), 1),
]
torch.manual_seed(0)

def change(values, most):
    far = 1 << 8 * values.itemsize - 2  # memory there is nobody's
    turn = 0
    while not done:
        # Nearly all differ and have bins, for which counters are chosen, and some come and go.
        values.random_(0, most)
        for _ in range(50):
            turn += 1
            values[turn // 2 % 97 :: 97].bitwise_xor_(far)
        values.random_(-most, most)

for dtype, shape, num_bins in cases:
    done = False
    signed = torch.zeros(shape, dtype=getattr(torch, f"int{8 * dtype.itemsize}"))
    most = 2_000 if dtype.itemsize > 1 else 99
    signed.random_(0, most)
    writer = threading.Thread(target=change, args=(signed, most))
    writer.start()
    end = time.monotonic() + 0.15
    while time.monotonic() < end:
        channel_histogram(signed.view(dtype), num_bins)
    done = True
    writer.join()
    values = signed.random_(0, most).view(dtype)
    got = channel_histogram(values, num_bins)
    assert got.sum() == (values.long() < num_bins).sum(), (dtype, shape, num_bins)
"""


@pytest.mark.parametrize("loops", ["", "portable"])
def test_an_input_that_changes_meanwhile(loops: str) -> None:
    """Its counts may be anything, but nothing outside of the tables is written."""
    environment = {**ENVIRONMENT, "TORCH_HISTO_CPU": loops}
    command = [sys.executable, "-c", CHANGING]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, f"ended with {ran.returncode}: {ran.stderr}"
