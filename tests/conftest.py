"""Devices, and memory that is dirty before every test."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import torch_histo

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
PACKAGE = Path(torch_histo.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE)}
"""Of a new process that is to find the same torch_histo."""
HUGE_BYTES = 40 << 30
M_PERTURB = -6
"""What mallopt of glibc calls the byte that memory is filled with."""


def default_interrupt() -> None:
    """Let Ctrl-C end a new process, though the one that runs the tests may ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def load_module(path: Path) -> ModuleType:
    """A program that is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "huge: needs a GPU with tens of GiB of free memory")
    config.addinivalue_line("markers", "huge_cpu: takes minutes and 20 GiB; run by -m huge_cpu")
    # What malloc returns, counts on the CPU too, is never zero by luck. They are allocated
    # without the dispatcher, so what `dirty_memory` asks of torch does not reach them.
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_PERTURB, 0x5A)
    if torch.cuda.is_available():
        # Without it the CUDA half of the suite would test nothing.
        assert torch_histo.has_cuda_kernels(), "a GPU, but torch_histo has no CUDA kernels"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "huge_cpu" not in config.option.markexpr:
        asked = [item for item in items if "huge_cpu" not in item.keywords]
        config.hook.pytest_deselected(items=[item for item in items if item not in asked])
        items[:] = asked
    if torch.cuda.is_available() and torch.cuda.mem_get_info()[0] >= HUGE_BYTES:
        return
    skip = pytest.mark.skip(reason=f"needs a GPU with {HUGE_BYTES >> 30} GiB of free memory")
    for item in items:
        if "huge" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture(autouse=True)
def dirty_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """What torch.empty returns, results and workspaces too, is never zero by luck."""
    if torch.cuda.is_available() and "huge" not in request.keywords:
        for size in (512, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20):
            blocks = [torch.full((size,), 0xAB, dtype=torch.uint8, device="cuda") for _ in "123"]
            del blocks
    # On every device torch itself then fills what it allocates with the largest integer.
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = before
