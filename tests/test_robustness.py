"""Trouble around a call: memory that runs out, captures that fail, streams, threads."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import torch
from oracle import assert_counts, expected_counts, expected_letters, random_values

from torch_histo import channel_histogram, explain, text_histogram

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
VALUES = random_values((3000, 70), torch.uint8)
THREADS = 32


# Memory that runs out


def test_more_bins_than_memory(device: torch.device) -> None:
    values = VALUES.to(device)
    # As torch does: a RuntimeError on the CPU, OutOfMemoryError on a GPU.
    expected = torch.OutOfMemoryError if device.type == "cuda" else RuntimeError
    words = f"{device.type.upper()} out of memory. Tried to allocate a tensor of shape"
    for _ in range(3):
        with pytest.raises(expected, match=words) as raised:
            channel_histogram(values, 1 << 45)
        assert len(str(raised.value).splitlines()) == 1
        with pytest.raises(RuntimeError, match=words):
            torch.ops.histo.channel_histogram(values, 1 << 45)
        assert_counts(channel_histogram(values), expected_counts(VALUES))


@pytest.fixture
def fill_gpu() -> Iterator[Callable[[], list[torch.Tensor]]]:
    """Takes what memory there is, as long as the list that it returns is kept."""
    total = torch.cuda.get_device_properties(0).total_memory

    def fill() -> list[torch.Tensor]:
        gc.collect()  # or what earlier tests left in cycles may go while memory is compared
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        # Nothing new from the driver, and then all gaps of what torch has already.
        torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
        taken: list[torch.Tensor] = []
        for size in (64 << 20, 4 << 20, 512 << 10, 512):
            with suppress(torch.OutOfMemoryError):
                while True:
                    taken.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        return taken

    yield fill
    torch.cuda.set_per_process_memory_fraction(1.0)


@needs_gpu
@pytest.mark.parametrize(
    ("what", "shape", "num_bins", "dim"),
    [
        ("counts", (1000, 100), 1 << 16, 0),
        ("contiguous copy", (20, 21, 22, 23, 24, 25), 256, (0, 2, 4)),
        ("workspace", (1 << 20, 512), 256, 0),
    ],
)
def test_a_full_gpu(fill_gpu, what: str, shape: tuple[int, ...], num_bins: int, dim) -> None:
    values = torch.zeros(shape, dtype=torch.uint8, device="cuda")
    plan = explain(values, num_bins, dim)
    needed = {"contiguous copy": plan.copies_input, "workspace": plan.workspace_bytes > 0}
    assert {also for also, is_needed in needed.items() if is_needed} == {what} - {"counts"}
    want = channel_histogram(values, num_bins, dim)
    room = [torch.empty_like(want)]
    taken = fill_gpu()
    if what != "counts":
        room.clear()  # the counts fit there, and nothing else does
    held = torch.cuda.memory_allocated()
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            channel_histogram(values, num_bins, dim)
        assert torch.cuda.memory_allocated() == held
    taken.clear()
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.equal(channel_histogram(values, num_bins, dim), want)
    assert int(want[..., 0].sum()) == values.numel()


# Errors within a capture


class MiddleOfCaptureError(Exception):
    pass


def raises(values: torch.Tensor) -> None:
    raise MiddleOfCaptureError


def wrong_argument(values: torch.Tensor) -> None:
    channel_histogram(values, -1)


def out_of_memory(values: torch.Tensor) -> None:
    channel_histogram(values, 1 << 45)


@needs_gpu
@pytest.mark.parametrize("mistake", [raises, wrong_argument, out_of_memory])
def test_a_capture_that_fails(mistake) -> None:
    values, stream = VALUES.cuda(), torch.cuda.Stream()
    torch.cuda.synchronize()

    def capture() -> None:
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            channel_histogram(values)
            mistake(values)

    for _ in range(2):
        with pytest.raises((RuntimeError, MiddleOfCaptureError)):
            capture()
        with torch.cuda.stream(stream):
            counts = channel_histogram(values)
        stream.synchronize()
        assert_counts(counts, expected_counts(VALUES))
        assert_counts(channel_histogram(values), expected_counts(VALUES))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        counts = channel_histogram(values)
    counts.zero_()
    graph.replay()
    assert_counts(counts, expected_counts(VALUES))


SYNCHRONIZATION_IN_A_CAPTURE = """
import torch, torch_histo
x = torch.arange(7000, device="cuda").to(torch.uint8).view(-1, 70)
stream = torch.cuda.Stream()
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
        torch_histo.channel_histogram(x)
        torch.bincount(x.view(-1))
except RuntimeError:
    with torch.cuda.stream(stream):
        there = torch_histo.channel_histogram(x)
    stream.synchronize()
    here = torch_histo.channel_histogram(x)
    expected = torch_histo.channel_histogram(x.cpu())
    print(torch.equal(there.cpu(), expected), torch.equal(here.cpu(), expected))
"""


@needs_gpu
def test_a_capture_that_cuda_ends() -> None:
    """In a process of its own: torch itself keeps believing that it captures."""
    run = subprocess.run(
        [sys.executable, "-c", SYNCHRONIZATION_IN_A_CAPTURE],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout == "True True\n", run.stderr


# Inputs that go while another stream counts them


def free(values: list[torch.Tensor]) -> None:
    values.clear()


def shrink(values: list[torch.Tensor]) -> None:
    values[0].untyped_storage().resize_(0)


@needs_gpu
@pytest.mark.parametrize("give_up", [free, shrink])
@pytest.mark.parametrize(
    ("shape", "dim"), [((20_000, 128), 0), ((2000,), 0), ((20, 30, 40, 50, 6), (0, 2, 4))]
)
def test_record_stream(give_up, shape: tuple[int, ...], dim) -> None:
    """An input that has been told of a stream may go: its memory waits for that stream."""
    original = random_values(shape, torch.uint8)
    values = [original.cuda()]
    channel_histogram(values[0], 256, dim)  # what a first call loads must not wait below
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(4_000_000_000)  # two seconds: the machine may be busy
        counts = channel_histogram(values[0], 256, dim)
        values[0].record_stream(side)
    address = values[0].data_ptr()
    give_up(values)
    others = [torch.full(shape, 255, dtype=torch.uint8, device="cuda") for _ in range(4)]
    assert not side.query(), "the side stream was done before its input went"
    assert address not in [other.data_ptr() for other in others]
    torch.cuda.current_stream().wait_stream(side)
    assert_counts(counts, expected_counts(original, 256, dim))


@needs_gpu
def test_workspace_goes_back_to_its_own_stream() -> None:
    """Memory that a call frees as it returns is reused behind it on its stream, never beside it."""
    original = random_values((20_000, 512), torch.uint8)
    values, want = original.cuda(), expected_counts(original)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(5):
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            counts = channel_histogram(values)
        for size in (1 << 20, 4 << 20, 16 << 20):  # of the workspace, perhaps
            torch.full((size,), 255, dtype=torch.uint8, device="cuda")
        side.synchronize()
        assert_counts(counts, want)


# Threads


def test_32_threads_at_once(device: torch.device) -> None:
    inputs = [random_values((500 + 60 * i, 40 + i), torch.uint8, seed=i) for i in range(4)]
    wide = [values.to(torch.int32) * 3 for values in inputs]
    expected = [
        (expected_counts(inputs[i]), expected_counts(wide[i], 700, ()), letters(inputs[i]))
        for i in range(4)
    ]
    start = threading.Barrier(THREADS)

    def work(thread: int) -> None:
        i = thread % 4
        values, wider = inputs[i].to(device), wide[i].to(device)
        if device.type == "cuda" and thread % 2:  # half of them share the default stream
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            torch.cuda.set_stream(stream)  # of this thread
        start.wait(timeout=60)
        for _ in range(10):
            got = channel_histogram(values), channel_histogram(wider, 700, ())
            for counts, want in zip((*got, text_histogram(values.view(-1))), expected[i]):  # noqa: B905
                assert_counts(counts, want, thread)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))  # raises what a thread raised


def letters(values: torch.Tensor) -> torch.Tensor:
    return expected_letters(values.numpy().tobytes())
