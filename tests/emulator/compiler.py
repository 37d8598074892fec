"""Compiles the programs of this folder: only what has changed since the last session."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import SkipTest

from torch.utils.cpp_extension import include_paths

if TYPE_CHECKING:
    import pytest

CSRC = Path(__file__).parents[2] / "csrc"
FLAGS = [
    "-std=c++17",
    "-O1",
    "-g0",
    "-fvisibility=hidden",
    "-Wno-attributes",
    "-fno-threadsafe-statics",
    "-ffp-contract=off",
    "-Werror=switch",  # nvcc does not ask for all cases in device code
]
FLAGS += ["-DTORCH_TARGET_VERSION=0x020a000000000000"]
FLAGS += [f"-isystem{path}" for path in include_paths()]


def cache_of(config: pytest.Config, folder: Path) -> Path:
    """The folder that keeps the objects of tests from one session to the next."""
    cache = getattr(config, "cache", None)
    return Path(cache.mkdir(folder.name.rstrip("0123456789"))) if cache else folder


class Compiler:
    """Compiles sources in a copy of csrc/. The files of this folder lie in its csrc/emulator/."""

    def __init__(self, folder: Path, cache: Path, *flags: str) -> None:
        if shutil.which("g++") is None:
            raise SkipTest("needs g++")
        shutil.copytree(CSRC, folder / "csrc", ignore=shutil.ignore_patterns("cpu"))
        own = Path(__file__).parent
        shutil.copytree(own, folder / "csrc/emulator", ignore=shutil.ignore_patterns("stand_in"))
        shutil.copytree(own / "stand_in", folder / "csrc", dirs_exist_ok=True)
        self.cache = cache
        self.folder = folder
        self.flags = [*FLAGS, *flags]
        self.running: list[tuple[subprocess.Popen[bytes], Path, Path]] = []

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Other processes that run tests wait, and then find the objects."""
        with (self.cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def planner(self, part: str = "") -> list[str]:
        """The planner's sources, in a part of the folder."""
        sources = sorted((self.folder / part).glob("csrc/cuda/plan/*.cpp"))
        return [str(source.relative_to(self.folder)) for source in sources]

    def object_of(self, source: str, *flags: str) -> Path:
        """The object of a file of the folder; it exists after `finish`."""
        include = f"-I{source[: source.index('csrc/')]}csrc"
        command = [*self.flags, *flags, include]
        path = self.folder / source
        known = hashlib.sha256(" ".join(command).encode())
        for part in [path, *sorted(self.folder.rglob("*.h")), *sorted(self.folder.rglob("*.cuh"))]:
            known.update(part.read_bytes())
        name = source.replace("/", "-")
        built = self.cache / f"{name}-{known.hexdigest()[:16]}.o"
        if not built.exists():
            for old in self.cache.glob(f"{name}-*"):
                old.unlink()
            partial = built.with_suffix(".partial")
            arguments = ["g++", *command, "-c", source, "-o", str(partial)]
            self.finish(os.cpu_count() or 1)
            compiler = subprocess.Popen(arguments, cwd=self.folder)
            self.running.append((compiler, partial, built))
        return built

    def finish(self, left: int = 1) -> None:
        """Until fewer than so many run."""
        while len(self.running) >= left:
            compiler, partial, built = self.running.pop(0)
            assert compiler.wait() == 0, built.name
            partial.rename(built)

    def link(self, program: str, objects: list[Path], *flags: str) -> Path:
        self.finish()
        arguments = ["g++", *map(str, objects), *flags, "-o", program]
        subprocess.run(arguments, cwd=self.folder, check=True)
        return self.folder / program
