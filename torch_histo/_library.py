"""Finds and loads the compiled libraries."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import torch

from torch_histo._version import __version__

CORE = "_C.so"
CUDA = "_cuda.so"

_loaded: set[str] = set()


def load() -> None:
    """Loads `_C`, and `_cuda` where torch itself has CUDA and the library was built.

    Raises:
        ImportError: the libraries are not built.
    """
    folder = library_folder()
    _load(folder / CORE)
    if torch.version.cuda is not None and (folder / CUDA).exists():
        _load(folder / CUDA)


def has_cuda_kernels() -> bool:
    """Whether the CUDA kernels are loaded: built, and torch is a CUDA build."""
    return CUDA in _loaded


def library_folder() -> Path:
    """The folder of this file, or else that of the installed package.

    Python started in a checkout imports the folder of sources there, even where the
    package is installed: then the libraries are in site-packages.

    Raises:
        ImportError: there are none.
    """
    here = Path(__file__).parent
    if (here / CORE).exists():
        return here
    try:
        installed = importlib.metadata.distribution("torch_histo")
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        core = Path(str(installed.locate_file(f"torch_histo/{CORE}")))
        if core.exists() and installed.version == __version__:
            return core.parent
    raise ImportError(
        "torch_histo is not built: run `pip install --no-build-isolation -e .` in its checkout"
    )


def _load(library: Path) -> None:
    torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
    _loaded.add(library.name)
