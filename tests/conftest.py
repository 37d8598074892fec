"""Devices, and memory that is dirty before every test."""

from __future__ import annotations

import ctypes
import doctest
import importlib.util
import os
import random
import re
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from emulator.programs import Programs, build
from emulator.uniform import CountUniform
from emulator.uniform import count_uniform as emulated_uniform
from torch.utils._python_dispatch import TorchDispatchMode

import torch_histo
from torch_histo.cli.sources import base

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
PACKAGE = Path(torch_histo.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE)}
"""The environment of a new process that must find the same torch_histo."""
HUGE_BYTES = 40 << 30
TIERS = {
    "long": "breadth that the default run samples",
    "huge_cpu": "takes minutes and 20 GiB",
}
"""Markers of tests that run only when they are asked for."""
M_PERTURB = -6
"""The parameter of glibc's mallopt for the byte that memory is filled with."""


class _Finder(doctest.DocTestFinder):
    """Finds the classes of a module, too, that name the one where they were before."""

    def _from_module(self, module: ModuleType | None, object: Any) -> bool:
        is_own = isinstance(object, type) and sys.modules.get(object.__module__) is module
        return is_own or super()._from_module(module, object)  # type: ignore[misc, no-any-return]


def run_examples(module: ModuleType) -> tuple[int, int]:
    """How many examples in the docstrings of a module failed, and how many there were."""
    names = {"torch": torch, "torch_histo": torch_histo}
    runner = doctest.DocTestRunner()
    for test in _Finder().find(module, module.__name__, extraglobs=names):
        runner.run(test)
    return runner.failures, runner.tries


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


def constants_of(headers: str) -> dict[str, Any]:
    """The constants of C++ headers that a pattern names: numbers, or made of those before."""
    found: dict[str, Any] = {}
    paths = sorted(Path(__file__).parents[1].glob(headers))
    text = "\n".join(path.read_text() for path in paths)
    constant = r"^constexpr (int|int64_t|double) (k\w+) = ([^;]+);"
    for kind, name, value in re.findall(constant, text, re.MULTILINE):
        formula = re.sub(r"int64_t\{(\w+)\}", r"\1", value)
        others = set(re.findall(r"k\w+", formula))
        if re.fullmatch(r"(?:[\d\s.()+*/<-]|k\w+)+", formula) and others <= found.keys():
            whole = formula if kind == "double" else formula.replace("/", "//")
            found[name] = eval(whole, {}, found)
    return found


class Dispatches(TorchDispatchMode):
    """Notes the name of every operator that is called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))

    def of(self, name: str) -> int:
        """How many calls have a name with this in it."""
        return sum(name in called for called in self.names)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every", type=int, default=1, help="run one of so many tests, a sample")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "huge: needs a GPU with tens of GiB of free memory")
    for marker, why in TIERS.items():
        config.addinivalue_line("markers", f"{marker}: {why}; runs with -m {marker} only")
    config.addinivalue_line("markers", "sampled(n): one of n cases runs, the others with -m long")
    # Memory of malloc, counts on the CPU too, is never zero by luck. The counts are allocated
    # without the dispatcher, so the settings of `dirty_memory` do not reach them.
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_PERTURB, 0x5A)
    if torch.cuda.is_available():
        # Without it the CUDA half of the suite would test nothing.
        assert torch_histo.has_cuda_kernels(), "a GPU, but torch_histo has no CUDA kernels"


def leave_to_the_long_tier(items: list[pytest.Item]) -> None:
    """All but one of n cases of each test that says `sampled(n)`, the same ones every time."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("long"):
            name = item.nodeid.partition("[")[0]
            cases.setdefault(f"{name} {'cuda' in item.nodeid}", []).append(item)
    for name, found in cases.items():
        marker = found[0].get_closest_marker("sampled")
        assert marker is not None
        kept = random.Random(name).sample(found, -(-len(found) // marker.args[0]))
        for item in found:
            if item not in kept:
                item.add_marker("long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_to_the_long_tier(items)
    for marker in TIERS:
        if marker not in config.option.markexpr:
            left_out = [item for item in items if item.get_closest_marker(marker)]
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker(marker)]
    sampled = items[:: config.option.every]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(sampled)])
    items[:] = sampled
    if torch.cuda.is_available() and torch.cuda.mem_get_info()[0] >= HUGE_BYTES:
        return
    skip = pytest.mark.skip(reason=f"needs a GPU with {HUGE_BYTES >> 30} GiB of free memory")
    for item in items:
        if "huge" in item.keywords:
            item.add_marker(skip)


unexpected_skips: list[str] = []


def _note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """CI may lack a GPU or an instruction set; every other skip there hides a failure."""
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        if not re.search("GPU|needs AVX|needs an x86", str(reason)):
            unexpected_skips.append(f"{report.nodeid}: {reason}")


pytest_runtest_logreport = pytest_collectreport = _note_skip


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if unexpected_skips:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for skip in unexpected_skips:
        terminalreporter.write_line(f"skipped, which CI does not allow: {skip}", red=True)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Programs:
    """The kernels, compiled for the host."""
    return build(tmp_path_factory.mktemp("emulator"), pytestconfig)


@pytest.fixture(scope="session")
def count_uniform(programs: Programs) -> CountUniform:
    return partial(emulated_uniform, programs)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture(params=[1 << 24, 7], ids=["whole", "pieces"])
def pieces_of_any_size(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Files are read as a whole, and in small pieces."""
    monkeypatch.setattr(base, "PIECE_VALUES", request.param)


@pytest.fixture
def flush_denormal() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("needs an x86 that flushes subnormals to zero")
    yield
    torch.set_flush_denormal(False)


@pytest.fixture(autouse=True)
def dirty_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Memory of torch.empty, results and workspaces too, is never zero by luck."""
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
