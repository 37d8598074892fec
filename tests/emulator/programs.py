"""The operators of CUDA as programs for the host, where every access of a kernel is checked."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import SkipTest

import torch
from emulator.compiler import Compiler, cache_of
from oracle import DTYPES, FLOATS
from torch import Tensor
from torch.utils.cpp_extension import CUDA_HOME

from torch_histo.devices import DEVICES, Device

if TYPE_CHECKING:
    import pytest

H200 = DEVICES[0]
NO_CLUSTERS = dataclasses.replace(H200, name="H200 with code for 8.0", capability=(8, 0))
T4 = next(known for known in DEVICES if known.name == "T4")
TWO_SMS = Device("two SMs", 2, 64 << 10, 64 << 10, (8, 0), 1e11)
ONE_SM = dataclasses.replace(TWO_SMS, name="one SM", sm_count=1)

FEW_SMS = [
    ONE_SM,
    TWO_SMS,
    Device("five SMs", 5, 227 << 10, 228 << 10, (9, 0), 1e11),
    Device("five SMs, no clusters", 5, 163 << 10, 164 << 10, (8, 0), 1e11),
    Device("nine SMs", 9, 99 << 10, 100 << 10, (12, 0), 1e11),
    Device("twenty SMs", 20, 227 << 10, 228 << 10, (9, 0), 1e11),
]


HOST = (
    "torch/loops",
    "emulator/program",
    "emulator/joint",
    "emulator/warp_sums",
    "emulator/emulator",
    "emulator/memory",
    "emulator/invariants",
    "cuda/count/dispatch",
    "cuda/fill/fill",
    "cuda/fill/sketch",
    "cuda/select/passes",
    "cuda/summary/summary",
    "cuda/launch",
)
# Calls before each load and store, which memory.cpp answers, and traps before what is misaligned.
KERNEL_FLAGS = [
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
    "-fsanitize=alignment",
    "-fsanitize-undefined-trap-on-error",
]


def toolkit_headers() -> Path:
    nvcc = shutil.which("nvcc")
    homes = [CUDA_HOME, "/usr/local/cuda", nvcc and Path(nvcc).resolve().parents[1]]
    found = [Path(home) / "include" for home in homes if home]
    # Those of the packages below.
    found += [Path(folder) / "nvidia/cu13/include" for folder in sys.path]
    for path in found:
        if (path / "cuda_runtime_api.h").exists():
            return path
    packages = "nvidia-cuda-runtime nvidia-cuda-crt"
    raise SkipTest(f"needs the headers of a CUDA Toolkit: pip install {packages}")


def on_host(source: str) -> str:
    """A kernel's shared memory as what the emulator has for it."""
    align = r"(?:__align__\(\d+\) )?"
    kind = r"(unsigned long long|[\w:]+(?: \w+)*?(?:<[\w:, ]+>)?)"
    dynamic = r"auto* const \2 = reinterpret_cast<\1*>(emulated::dynamic_shared());"
    source = re.sub(rf"extern __shared__ {align}{kind} (\w+)\[\];", dynamic, source)

    def declared(found: re.Match[str]) -> str:
        lines = []
        for name, sizes in re.findall(r"(\w+)((?:\[[^\]]+\])*)(?:, |$)", found[2]):
            lines += [
                f"using {name}_shared = {found[1]}{sizes};",
                f"static const unsigned {name}_key = emulated::new_key();",
                f"auto& {name} = *static_cast<{name}_shared*>(",
                f"    emulated::static_shared({name}_key, sizeof({name}_shared)));",
            ]
        return "\n".join(lines)

    source = re.sub(rf"__shared__ {align}{kind} (\w[^;]*);", declared, source)
    assert "__shared__" not in source
    return source


def with_device_arithmetic(source: str) -> str:
    """Guesses as a GPU computes them, which the host can do, too."""
    choice = "#ifdef __CUDACC__\nconstexpr Arithmetic kOwnArithmetic = Arithmetic::kDevice;"
    assert choice in source
    return source.replace(choice, choice.replace("#ifdef __CUDACC__", "#if 1"))


def eager(*tuning: str) -> list[str]:
    """Tuning with sizes that only plans read a 64th: small inputs then have all plans."""
    names = (
        r"Min\w*Bytes\w*|MinShare\w+|MaxExcess\w+|MaxBytes\w+|Enough\w*Bytes\w*|Long\w+|RowsOf\w+"
    )
    sizes = rf"(constexpr int64_t k(?:{names})) = (.+);"
    parts, found = re.subn(sizes, r"\1 = ((\2) + 63) / 64;", "\0".join(tuning))
    assert found >= 20
    for name, usual, small in (
        ("FewestOwners", "32", 2),
        ("RowsToSample", "1 << 22", 1 << 12),
        ("BytesToSample", "256 << 20", 1),
        ("SampleSize", "1 << 14", 1 << 11),
        ("RowsToList", "1 << 15", 1 << 11),
        ("BytesToList", "12 << 20", 1),
        ("RowsToStreamSpans", "1 << 15", 1 << 10),
        ("BytesToStreamSpans", "8 << 20", 1),
        ("LeastListSample", "1 << 10", 1 << 6),
        ("MostBytesToGather", "8 << 20", 0),
        ("BytesOfGathered", "32 << 20", 1 << 16),
        ("LeastBytesToCopy", "8 << 20", 0),
        ("MostBytesOfRowsToGather", "64 << 10", 0),
        ("MostRowsToSort", "256", 64),
        ("MostChannelsToCount", "4096", 0),
        ("FifthsOfStrided", "7", 1 << 30),
    ):
        assert f"k{name} = {usual};" in parts
        parts = parts.replace(f"k{name} = {usual};", f"k{name} = {small};")
    return parts.split("\0")


@dataclasses.dataclass
class Programs:
    emulator: Path
    eager: Path
    """Whose plans take less data for many."""


def build(folder: Path, config: pytest.Config) -> Programs:
    headers = toolkit_headers()
    compiler = Compiler(folder, cache_of(config, folder), f"-isystem{headers}")
    start = folder / "csrc/cuda/launch.h"
    named = start.read_text().replace("cudaLaunchKernelEx(", "emulated::launch_named(name, ")
    start.write_text('#include "emulator/emulator.h"\n' + named)
    guesses = folder / "csrc/core/locate.h"
    guesses.write_text(with_device_arithmetic(guesses.read_text()))
    for header in folder.glob("csrc/**/*.cuh"):
        header.write_text(on_host(header.read_text()))
    shutil.copytree(folder / "csrc", folder / "eager/csrc")
    policy = sorted(folder.glob("eager/csrc/cuda/policy*.h"))
    for header, tuning in zip(
        policy, eager(*(header.read_text() for header in policy)), strict=True
    ):
        header.write_text(tuning)
    # The kernels of weights are tested on GPUs only, but for those of warps: the emulator lacks
    # what they use.
    kernels = [
        path
        for path in folder.glob("csrc/**/*.cu")
        if path.stem != "machine" and not path.stem.startswith("weights")
    ]
    kernels.sort(key=lambda path: -path.stat().st_size)
    for kernel in kernels:
        source = '#include "emulator/emulator.h"\n' + on_host(kernel.read_text())
        kernel.with_suffix(".cu.cpp").write_text(source)
    with compiler.alone():
        objects = [
            compiler.object_of(f"{kernel.relative_to(folder)}.cpp", *KERNEL_FLAGS)
            for kernel in kernels
        ]
        objects += [compiler.object_of(f"csrc/{name}.cpp") for name in HOST]
        plan, eager_plan = (
            [compiler.object_of(source) for source in compiler.planner(part)]
            for part in ("", "eager/")
        )
        return Programs(
            compiler.link("emulator", [*objects, *plan]),
            compiler.link("eager/emulator", [*objects, *eager_plan]),
        )


ELEMENT_TYPES = (*DTYPES, *FLOATS[2:], *FLOATS[:2])
"""In the order of the C++ enumeration."""
NEEDS_COPY = 5


class NeedsCopyError(Exception):
    """The strides are of more loops than a problem has."""


def described(
    values: Tensor, num_counts: int, dim: tuple[int, ...], offset: int
) -> tuple[list[int], bytes]:
    """A problem and its input for tests/emulator/program.cpp."""
    sizes = [part for loop in zip(values.shape, values.stride(), strict=True) for part in loop]
    kept = [d for d in range(values.ndim) if d not in dim]
    last = sum((n - 1) * step for n, step in zip(values.shape, values.stride(), strict=True))
    data = bytes_of(values.as_strided((last + 1,), (1,)))
    header = [ELEMENT_TYPES.index(values.dtype), num_counts, values.ndim, *sizes]
    return [*header, len(kept), *kept, offset, len(data)], data


def bytes_of(values: Tensor) -> bytes:
    return bytes(values.contiguous().view(-1).view(torch.uint8).numpy())


def limits_of(gpu: Device) -> list[int]:
    limits = [gpu.sm_count, gpu.shared_bytes_per_block, gpu.shared_bytes_per_sm]
    return [*limits, 10 * gpu.capability[0] + gpu.capability[1]]


def run_emulated(
    program: Path, operator: str, header: list[int], data: bytes, about: str
) -> tuple[set[str], bytearray]:
    """The words about the plan, and the results."""
    done = subprocess.run(
        [program, operator],
        input=" ".join(map(str, header)).encode() + b"\n" + data,
        capture_output=True,
        timeout=300,
    )
    if done.returncode == NEEDS_COPY:
        raise NeedsCopyError
    assert done.returncode == 0, f"{about}: {done.stderr.decode() or -done.returncode}"
    words, results = done.stdout.split(b"\n", 1)
    return set(words.decode().split()), bytearray(results)
