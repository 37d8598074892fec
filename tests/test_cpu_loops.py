"""Which loops are chosen for a processor, and by the variable TORCH_HISTO_CPU."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ENVIRONMENT

CPUINFO = Path("/proc/cpuinfo")
FLAGS = set(CPUINFO.read_text().split()) if CPUINFO.exists() else set()
LOOPS = ["portable", "avx2", "avx512"]


def best_loops() -> str:
    """The loops that /proc/cpuinfo allows."""
    if platform.machine() != "x86_64" or "avx2" not in FLAGS:
        return "portable"
    return "avx512" if {"avx512bw", "avx512dq", "avx512vl"} <= FLAGS else "avx2"


@pytest.mark.parametrize("wanted", [*LOOPS, ""])
def test_the_variable_chooses_the_loops(wanted: str) -> None:
    code = "import torch_histo; print(torch_histo.explain((9,), device='cpu').loops)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**ENVIRONMENT, "TORCH_HISTO_CPU": wanted},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stdout.strip() == min(wanted or "avx512", best_loops(), key=LOOPS.index)
