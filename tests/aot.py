"""Running packages of AOTInductor, each in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import torch_histo

LOAD_AND_RUN = """
import ctypes, sys, torch
from torch.utils._pytree import tree_leaves
import torch._inductor.codecache  # which torch 2.10 forgets

# Some compilers link libstdc++ into a package: in Python two of them crash, unless the first
# is there for all (docs/pytorch.md).
ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)
model = torch._inductor.aoti_load_package(sys.argv[1])
calls = torch.load(sys.argv[2] + "/calls.pt")
torch.save([tree_leaves(model(*arguments)) for arguments in calls], sys.argv[2] + "/results.pt")
"""


def run_python(code: str, *args: object) -> None:
    """Runs code in a new process, in which torch_histo is imported."""
    path = os.pathsep.join([str(Path(torch_histo.__file__).parents[1]), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", "import sys, torch, torch_histo\n" + code, *map(str, args)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


def results_of_package(package: Path | str, calls: Sequence[Sequence[Any]], folder: Path) -> Any:
    """The tensors that a package returns for the arguments of each call. `folder` is for files."""
    torch.save([tuple(arguments) for arguments in calls], folder / "calls.pt")
    run_python(LOAD_AND_RUN, package, folder)
    return torch.load(folder / "results.pt")
