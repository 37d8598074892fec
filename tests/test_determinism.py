"""The same bits over runs, devices, variants, thread counts and sharding."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import DEVICES
from oracle import (
    ALL_VARIANTS,
    STUDY_VARIANTS,
    assert_counts,
    expected_counts,
    expected_letters,
    random_values,
)
from torch import Tensor

import torch_histo
from torch_histo import channel_histogram, text_histogram

RUNS = 50


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    """torch raises for what has no deterministic way, and a warning is an error."""
    before = torch.utils.deterministic.fill_uninitialized_memory
    threads = torch.get_num_threads()
    torch.use_deterministic_algorithms(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = before


def few_values(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Nearly all in two bins: the additions that meet are as many as can be."""
    values = random_values(shape, dtype, low=0, high=255)
    return torch.where(random_values(shape, torch.int16, 1) % 8 == 0, values, values % 2)


# The engine's ways to count: columns, one channel, planes, wide types, many bins, rare strides.
CASES: dict[str, tuple[Tensor, int, int | tuple[int, ...]]] = {
    "columns": (few_values((20_000, 64), torch.uint8), 256, 0),
    "odd columns": (few_values((9_001, 37), torch.uint8), 256, 0),
    "one channel": (few_values((1_000_003,), torch.uint8), 256, 0),
    "planes": (few_values((4, 3, 200, 301), torch.uint8), 256, (2, 3)),
    "int64": (few_values((200_000,), torch.int64), 256, 0),
    "int16 columns": (few_values((30_000, 8), torch.int16), 4096, 0),
    "many bins": (random_values((400_000,), torch.int32, high=1 << 20), 1 << 20, 0),
    "strided": (few_values((9, 8, 7, 60), torch.int32).permute(3, 0, 2, 1), 300, (1, 3)),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Tensor, int, int | tuple[int, ...]]:
    return CASES[request.param]


def test_runs(device: torch.device, case: tuple[Tensor, int, int | tuple[int, ...]]) -> None:
    values, num_bins, dim = case
    moved = values.to(device)
    first = channel_histogram(moved, num_bins, dim)
    assert_counts(first, expected_counts(values, num_bins, dim))
    for run in range(RUNS):
        assert torch.equal(channel_histogram(moved, num_bins, dim), first), run


def test_processes(device: torch.device) -> None:
    """Address randomization, hash seeds and another order of set-up change nothing."""
    code = f"""
import hashlib, sys, torch
sys.path[:0] = [{str(Path(torch_histo.__file__).parents[1])!r}, {str(Path(__file__).parent)!r}]
torch.use_deterministic_algorithms(True)
import torch_histo
from oracle import random_values
values = random_values((50_000, 40), torch.uint8).to({device.type!r})
print(hashlib.sha256(torch_histo.channel_histogram(values).cpu().numpy().tobytes()).hexdigest())
"""
    command = [sys.executable, "-c", code]
    prints = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in "12"
    ]
    assert len(prints[0]) == 65
    assert prints[0] == prints[1]


@pytest.mark.skipif(len(DEVICES) < 2, reason="needs a GPU")
def test_devices(case: tuple[Tensor, int, int | tuple[int, ...]]) -> None:
    values, num_bins, dim = case
    on_cpu = channel_histogram(values, num_bins, dim)
    for index in range(torch.cuda.device_count()):
        on_gpu = channel_histogram(values.to(f"cuda:{index}"), num_bins, dim)
        assert torch.equal(on_gpu.cpu(), on_cpu), index


def test_variants(device: torch.device) -> None:
    values = few_values((20_000, 70), torch.uint8)
    expected = expected_counts(values)
    letters = expected_letters(values.numpy().tobytes())
    names = ("auto", *STUDY_VARIANTS) if device.type == "cuda" else ALL_VARIANTS
    for variant in names:
        moved = values.to(device)
        for _ in range(3):
            assert_counts(channel_histogram(moved, variant=variant), expected, variant)
            assert_counts(text_histogram(moved.view(-1), variant=variant), letters, variant)


def test_thread_counts(case: tuple[Tensor, int, int | tuple[int, ...]]) -> None:
    values, num_bins, dim = case
    expected = expected_counts(values, num_bins, dim)
    for threads in (1, 2, 3, 5, 8):
        torch.set_num_threads(threads)
        assert_counts(channel_histogram(values, num_bins, dim), expected, threads)


def cut(values: Tensor, dim: int, shards: int) -> tuple[Tensor, ...]:
    """Shards along a dimension, uneven ones, and an empty one where they are more than steps."""
    return torch.tensor_split(values, shards, dim)


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 100])
def test_sharding_over_what_is_counted(device: torch.device, shards: int) -> None:
    values = few_values((89, 5, 700), torch.uint8).to(device)
    whole = expected_counts(values, 256, (0, 2)).to(device)
    for dim in (0, 2):
        parts = [channel_histogram(part, 256, (0, 2)) for part in cut(values, dim, shards)]
        for order in (parts, parts[::-1]):  # ranks add in any order
            assert torch.equal(torch.stack(order).sum(0), whole), (dim, shards)


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 100])
def test_sharding_over_channels(device: torch.device, shards: int) -> None:
    values = few_values((4_000, 70), torch.uint8).to(device)
    parts = [channel_histogram(part) for part in cut(values, 1, shards)]
    assert_counts(torch.cat(parts), expected_counts(values))


def test_sharding_over_devices() -> None:
    values = few_values((30_000, 30), torch.uint8)
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    devices = itertools.cycle(["cpu", *gpus])
    parts = [
        channel_histogram(part.to(device)).cpu()
        for part, device in zip(cut(values, 0, 9), devices, strict=False)
    ]
    assert_counts(torch.stack(parts).sum(0), expected_counts(values))
