"""Finds and loads the compiled libraries."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import torch

__version__ = "0.1.0"

_loaded: set[str] = set()


def load() -> None:
    """Loads `_C`, and `_cuda` where torch itself has CUDA and the library was built.

    Raises:
        ImportError: `_C` is not built.
    """
    core = _find("_C")
    if core is None:
        raise ImportError(
            "torch_histo is not built: run `pip install --no-build-isolation -e .` in its checkout"
        )
    torch.ops.load_library(str(core))  # type: ignore[no-untyped-call]
    _loaded.add("_C")
    cuda = _find("_cuda")
    if cuda is not None and torch.version.cuda is not None:
        torch.ops.load_library(str(cuda))  # type: ignore[no-untyped-call]
        _loaded.add("_cuda")


def has_cuda_kernels() -> bool:
    """Whether the CUDA kernels are loaded: built, and torch is a CUDA build."""
    return "_cuda" in _loaded


def _find(name: str) -> Path | None:
    """The library beside this file, or else that of the installed package.

    Python started in a checkout imports the folder of sources there, even where the
    package is installed: then the libraries are in site-packages.
    """
    file = f"{name}.abi3.so"
    here = Path(__file__).parent / file
    if here.exists():
        return here
    try:
        installed = importlib.metadata.distribution("torch_histo")
    except importlib.metadata.PackageNotFoundError:
        return None
    elsewhere = Path(str(installed.locate_file(f"torch_histo/{file}")))
    same_version = installed.version == __version__
    return elsewhere if same_version and elsewhere.exists() else None
