"""Builds torch_histo: `_C` (schemas, CPU kernels) and, with a CUDA Toolkit, `_cuda` (CUDA kernels).

TORCH_HISTO_CUDA=0     leave the CUDA kernels out
TORCH_HISTO_CUDA=1     fail where no toolkit is found
TORCH_HISTO_SANITIZE   sanitizers of the CPU library: "address,undefined" (docs/testing.md)
TORCH_CUDA_ARCH_LIST   the GPUs to compile for, e.g. "8.0;9.0+PTX"
"""

import glob
import os
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from torch.utils import cpp_extension

# Libraries run with every torch from here on, whichever they were built with.
TORCH_TARGET = "-DTORCH_TARGET_VERSION=0x020a000000000000"
# Every GPU from Turing on: a binary runs on later minor versions too, PTX on what is yet to come.
DEFAULT_ARCHS = ["7.5", "8.0", "9.0", "10.0", "12.0"]
# Warnings are about this project's code: torch's headers are the system's.
TORCH_HEADERS = "-isystem" + cpp_extension.include_paths()[0]
CXX_FLAGS = ["-O3", "-g0", "-std=c++17", "-Wall", "-Wextra", "-fvisibility=hidden"]
CXX_FLAGS += [TORCH_TARGET, TORCH_HEADERS, "-fno-wrapv"]  # Python's -fwrapv costs up to a third
# At -O3 the unrolled loops take ten minutes to compile with checks.
SANITIZE = (
    [f"-fsanitize={kinds}", "-O1"] if (kinds := os.environ.get("TORCH_HISTO_SANITIZE")) else []
)
# How a GPU would count is pure C++, and explained where there is no GPU, too.
PLAN = "csrc/cuda/plan.cpp"
NVCC_FLAGS = ["-O3", "-std=c++17", "-Xcompiler=-Wall,-fvisibility=hidden", "-Xfatbin=-compress-all"]


def find_toolkit() -> str | None:
    """The folder of a CUDA Toolkit, with include/cuda_runtime.h and bin/nvcc in it."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    nvcc = shutil.which("nvcc")
    if nvcc:  # may be a link or a wrapper script: nvcc itself says where its toolkit is
        command = [nvcc, "-dryrun", "-E", "x.cu"]
        shown = subprocess.run(command, capture_output=True, text=True).stderr
        homes += [line[7:] for line in shown.splitlines() if line.startswith("#$ TOP=")]
    homes.append("/usr/local/cuda")
    for home in filter(None, homes):
        if all(Path(home, part).exists() for part in ("include/cuda_runtime.h", "bin/nvcc")):
            return os.path.realpath(home)
    return None


def default_archs(toolkit: str) -> str:
    listed = subprocess.run(
        [f"{toolkit}/bin/nvcc", "--list-gpu-arch"], capture_output=True, text=True, check=True
    ).stdout.split()
    known = [arch for arch in DEFAULT_ARCHS if "compute_" + arch.replace(".", "") in listed]
    return ";".join(known) + "+PTX"


def extensions() -> list:
    wanted = os.environ.get("TORCH_HISTO_CUDA", "auto")
    if wanted not in ("0", "1", "auto"):
        raise SystemExit(f"TORCH_HISTO_CUDA must be 0 or 1, got {wanted!r}")
    common = {"py_limited_api": True, "language": "c++"}
    found = [
        cpp_extension.CppExtension(
            "torch_histo._C",
            [*sorted(glob.glob("csrc/*.cpp") + glob.glob("csrc/cpu/*.cpp")), PLAN],
            extra_compile_args={"cxx": CXX_FLAGS + SANITIZE},
            extra_link_args=SANITIZE,
            **common,
        )
    ]
    toolkit = find_toolkit() if wanted != "0" else None
    if wanted == "1" and toolkit is None:
        raise SystemExit(
            "TORCH_HISTO_CUDA=1 needs the CUDA Toolkit: put nvcc on PATH or set CUDA_HOME"
        )
    if toolkit is not None:
        cpp_extension.CUDA_HOME = toolkit  # a CPU build of torch leaves it unset
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", default_archs(toolkit))
        sources = glob.glob("csrc/cuda/**/*.cpp", recursive=True)
        sources += glob.glob("csrc/cuda/**/*.cu", recursive=True)
        found.append(
            cpp_extension.CppExtension(
                "torch_histo._cuda",
                ["csrc/arguments.cpp", *sorted(sources)],
                include_dirs=[f"{toolkit}/include"],
                library_dirs=[f"{toolkit}/lib64"],
                libraries=["cudart_static", "rt", "dl"],
                extra_compile_args={"cxx": [*CXX_FLAGS, "-DUSE_CUDA"], "nvcc": NVCC_FLAGS},
                # Without it the linker drops libtorch, which holds the stream functions.
                extra_link_args=["-Wl,--no-as-needed", "-ltorch"],
                **common,
            )
        )
    return found


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": cpp_extension.BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
