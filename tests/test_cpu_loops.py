"""Loops that not every processor has: which are chosen, and those that need rare instructions."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import ENVIRONMENT
from oracle import assert_counts, expected_counts, random_values
from torch import Tensor

pytestmark = pytest.mark.sampled(3)

REPOSITORY = Path(__file__).parents[1]
CPUINFO = Path("/proc/cpuinfo")
FLAGS = set(CPUINFO.read_text().split()) if CPUINFO.exists() else set()
IS_X86 = platform.machine() == "x86_64"

needs_x86 = pytest.mark.skipif(not IS_X86, reason="needs an x86 processor")


# Which loops are chosen


def best_loops() -> str:
    """The loops that /proc/cpuinfo allows; the system may refuse the registers of AMX."""
    if not IS_X86 or "avx2" not in FLAGS:
        return "portable"
    if not {"avx512bw", "avx512dq", "avx512vl"} <= FLAGS:
        return "avx2"
    return "amx" if {"amx_tile", "amx_int8", "avx512vbmi"} <= FLAGS else "avx512"


@pytest.mark.parametrize("wanted", ["portable", "avx2", "avx512", ""])
def test_the_variable_chooses_the_loops(wanted: str) -> None:
    order = ["portable", "avx2", "avx512", "amx"]
    best = best_loops()
    ran = run_python(
        "import torch, torch_histo; print(torch_histo.explain((9,), device='cpu').loops)",
        TORCH_HISTO_CPU=wanted,
    )
    expected = min(wanted or "amx", best, key=order.index)
    allowed = {expected, "avx512"} if expected == "amx" else {expected}
    assert ran.strip() in allowed


def run_python(code: str, **variables: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{REPOSITORY / 'tests'}"}
        | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


BIT_PLANES = {"avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vpopcntdq", "gfni"}


@pytest.mark.skipif(not FLAGS >= BIT_PLANES, reason="needs AVX-512 with VBMI, VPOPCNTDQ and GFNI")
def test_bit_planes_on_this_processor() -> None:
    """Others than AMD's latest count by them where counters are said to have 16 bits."""
    code = """
import torch
from oracle import assert_counts, expected_counts, random_values
from torch_histo import channel_histogram, explain
for shape, dtype in [((2111, 70), torch.uint8), ((700, 1030), torch.int8), ((600, 65), torch.bool)]:
    values = random_values(shape, dtype)
    assert explain(values).method == "bit planes", explain(values)
    for num_bins in (256, 99):
        assert_counts(channel_histogram(values, num_bins), expected_counts(values, num_bins))
"""
    run_python(code, TORCH_HISTO_CPU="avx512", TORCH_HISTO_CPU_COUNTERS="16")


# Without the instructions


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The loops with plain ones in place of their instructions."""
    compiler = shutil.which("g++")
    if not IS_X86 or compiler is None:
        pytest.skip("needs g++ and an x86 processor")
    folder = tmp_path_factory.mktemp("stand_in")
    shutil.copytree(REPOSITORY / "csrc", folder / "csrc")
    shutil.copytree(REPOSITORY / "tests/stand_in", folder / "csrc/cpu/count", dirs_exist_ok=True)
    cpu = folder / "csrc/cpu/count"
    sources = [str(cpu / name) for name in ("count.cpp", "matrix_products.cpp", "bit_planes.cpp")]
    library = folder / "stand_in.so"
    flags = [
        "-std=c++17",
        "-O1",
        "-g0",
        "-shared",
        "-fPIC",
        f"-I{cpu}",
        f"-I{folder / 'csrc'}",
        "-DHISTO_TARGET(sets)=",
    ]
    subprocess.run([compiler, *flags, *sources, "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def address(values: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.data_ptr())


def ascending(shape: tuple[int, ...]) -> Tensor:
    """Every value, and each another number of times."""
    count = torch.Size(shape).numel()
    values = torch.arange(256).repeat_interleave(torch.arange(1, 257))
    return values[torch.arange(count) * 7 % len(values)].to(torch.uint8).view(shape)


def extremes(shape: tuple[int, ...]) -> Tensor:
    return torch.tensor([0, 16, 240, 255], dtype=torch.uint8)[
        torch.arange(torch.Size(shape).numel()) % 5 % 4
    ].view(shape)


VALUES = [lambda shape: random_values(shape, torch.uint8), ascending, extremes]


@pytest.mark.parametrize("make", VALUES)
@pytest.mark.parametrize("size", [1, 63, 64, 65, 192, 255, 256, 257, 1000, 4096, 20_001])
def test_products_of_a_channel(
    stand_in: ctypes.CDLL, size: int, make: Callable[[tuple[int, ...]], Tensor]
) -> None:
    values = make((size + 3,))[3:]
    counts = torch.full((256,), -1, dtype=torch.int64)
    stand_in.count_stream(address(values), ctypes.c_int64(size), address(counts))
    assert_counts(counts, expected_counts(values))


@pytest.mark.parametrize("make", VALUES)
@pytest.mark.parametrize("num_bins", [256, 99])
@pytest.mark.parametrize(
    ("rows", "columns", "gap"),
    [(1, 1, 0), (64, 64, 0), (127, 17, 3), (129, 7, 0), (200, 64, 1), (770, 70, 0), (1030, 9, 9)],
)
@pytest.mark.parametrize("way", ["count_columns", "count_planes_of_bits"])
def test_columns(
    stand_in: ctypes.CDLL,
    way: str,
    rows: int,
    columns: int,
    gap: int,
    num_bins: int,
    make: Callable[[tuple[int, ...]], Tensor],
) -> None:
    if way == "count_planes_of_bits" and columns > 64:
        columns = 64
    values = make((rows, columns + gap))[:, :columns]
    expected = expected_counts(values, num_bins)
    count = getattr(stand_in, way)
    memory = torch.full((columns * num_bins + 8,), 5, dtype=torch.int64)
    skipped = -memory.data_ptr() % 64 // 8
    counts = memory[skipped : skipped + columns * num_bins].view(columns, num_bins)
    for add, past_caches in [(False, False), (True, False), (False, True)]:
        before = counts.clone() if add else torch.zeros_like(counts)
        count(
            address(values),
            *map(ctypes.c_int64, (columns, rows, values.stride(0), num_bins)),
            ctypes.c_bool(add),
            ctypes.c_bool(past_caches),
            address(counts),
        )
        assert_counts(counts - before, expected)
    assert memory[skipped + columns * num_bins :].eq(5).all()
