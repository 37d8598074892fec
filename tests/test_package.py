"""What is installed: names, types, libraries, and a build without CUDA."""

from __future__ import annotations

import importlib.metadata
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import torch

import torch_histo
from torch_histo import _library

LIBRARIES = _library.library_folder()


def run_python(code: str, cwd: Path) -> str:
    run = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_version() -> None:
    assert torch_histo.__version__ == importlib.metadata.version("torch_histo")


def test_typed() -> None:
    assert (Path(torch_histo.__file__).parent / "py.typed").exists()


def test_public_names_are_documented() -> None:
    for name in torch_histo.__all__:
        assert hasattr(torch_histo, name), name
    for function in (torch_histo.channel_histogram, torch_histo.text_histogram):
        text = inspect.getdoc(function) or ""
        for part in ("Args:", "Returns:", "Raises:", "Example:", "Source:"):
            assert part in text, (function, part)


def test_examples_in_docstrings() -> None:
    import doctest

    names = {"torch": torch, "torch_histo": torch_histo}
    results = doctest.testmod(torch_histo.ops, extraglobs=names)
    assert results.attempted >= 3
    assert results.failed == 0


def test_schemas() -> None:
    assert str(torch.ops.histo.channel_histogram.default._schema) == (
        "histo::channel_histogram(Tensor input, int num_bins=256, int[1] dim=[0], *, "
        'str variant="auto") -> Tensor'
    )
    assert str(torch.ops.histo.text_histogram.default._schema) == (
        'histo::text_histogram(Tensor text, *, str variant="auto") -> Tensor'
    )


def test_libraries_use_no_python() -> None:
    libraries = list(LIBRARIES.glob("_*.so"))
    assert LIBRARIES / _library.CORE in libraries
    for library in libraries:
        content = library.read_bytes()
        assert b"PyObject" not in content, library
        assert b"PyInit" not in content, library
        assert b"libpython" not in content, library


def test_libraries_load_without_python_bindings() -> None:
    """The operators are there for a C++ program, which loads just the library."""
    code = f"""
import torch
torch.ops.load_library({str(LIBRARIES / _library.CORE)!r})
print(torch.ops.histo.channel_histogram(torch.tensor([1, 1, 0]), 2).tolist())
"""
    assert run_python(code, LIBRARIES) == "[1, 2]\n"


def without_cuda(folder: Path) -> Path:
    """The package as TORCH_HISTO_CUDA=0 builds it."""
    sources = Path(torch_histo.__file__).parent
    shutil.copytree(sources, folder / "torch_histo", ignore=shutil.ignore_patterns("_cuda*"))
    if sources != LIBRARIES:
        shutil.copy(LIBRARIES / _library.CORE, folder / "torch_histo")
    return folder


def test_without_cuda_kernels(tmp_path: Path) -> None:
    code = """
import torch, torch_histo
print(torch_histo.__file__)
print(torch_histo.has_cuda_kernels())
print(torch_histo.channel_histogram(torch.tensor([2, 2, 0]), 3).tolist())
if torch.cuda.is_available():
    for call in (
        lambda x: torch_histo.channel_histogram(x),
        lambda x: torch_histo.text_histogram(x),
    ):
        try:
            call(torch.zeros(3, dtype=torch.uint8, device="cuda"))
        except RuntimeError as error:
            print(error)
"""
    lines = run_python(code, without_cuda(tmp_path)).splitlines()
    assert Path(lines[0]).is_relative_to(tmp_path)
    assert lines[1:3] == ["False", "[1, 0, 2]"]
    if torch.cuda.is_available():
        assert len(lines) == 5
        for line, name in zip(lines[3:], ("channel_histogram", "text_histogram"), strict=True):
            assert line.startswith(f"{name}: ")
            assert "TORCH_HISTO_CUDA=1" in line


def test_not_built(tmp_path: Path) -> None:
    """A folder of sources alone says how to build it."""
    sources = Path(torch_histo.__file__).parent
    shutil.copytree(sources, tmp_path / "torch_histo", ignore=shutil.ignore_patterns("*.so"))
    code = """
import importlib.metadata
def missing(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.distribution = missing
try:
    import torch_histo
except ImportError as error:
    print(error)
"""
    assert "pip install" in run_python(code, tmp_path)
