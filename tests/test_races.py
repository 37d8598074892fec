"""No two threads of the CPU engine write, or read and write, the same memory unordered."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
HARNESS = REPOSITORY / "tests/threads"
SOURCES = sorted((REPOSITORY / "csrc/cpu").rglob("*.cpp"))


@pytest.mark.long
def test_no_races(tmp_path: Path) -> None:
    """The engine without PyTorch, whose threads ThreadSanitizer cannot follow."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    program = tmp_path / "program"
    flags = ["-std=c++17", "-O1", "-fsanitize=thread", "-pthread"]
    flags += [f"-I{HARNESS}", f"-I{REPOSITORY / 'csrc'}"]
    command = [compiler, *flags, str(HARNESS / "main.cpp"), *map(str, SOURCES), "-o", str(program)]
    subprocess.run(command, check=True, timeout=900)
    environment = {"TSAN_OPTIONS": "halt_on_error=1"}  # it takes minutes to write all of them
    ran = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count(": right") >= 13
