"""Builds torch_histo: `_C` (schemas, CPU kernels, plans for GPUs) and `_cuda` (CUDA kernels).

TORCH_HISTO_CUDA=0     leave the CUDA kernels out: the default with a CPU build of torch
TORCH_HISTO_CUDA=1     build them with any torch; fail where no CUDA Toolkit is found
TORCH_HISTO_SANITIZE   sanitizers of the CPU library: "address,undefined" (docs/testing.md)
TORCH_CUDA_ARCH_LIST   the GPUs to compile for, e.g. "8.0;9.0+PTX"
"""

import os
import re
import shutil
import subprocess
import zlib
from glob import glob
from pathlib import Path

import torch
from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from torch.utils import cpp_extension

ARCHS = ["7.5", "8.0", "9.0", "10.0", "12.0"]  # and their minor versions; PTX for later ones
INCLUDE = f"-I{Path(__file__).resolve().parent / 'csrc'}"  # names of headers begin there
CXX_FLAGS = ["-O3", "-g0", "-std=c++17", "-Wall", "-Wextra", "-fvisibility=hidden"]
CXX_FLAGS += ["-DTORCH_TARGET_VERSION=0x020a000000000000"]  # serves torch 2.10 and later
CXX_FLAGS += [INCLUDE]
CXX_FLAGS += ["-isystem" + cpp_extension.include_paths()[0]]  # warnings are of our own code
CXX_FLAGS += ["-fno-wrapv", "-ffp-contract=off"]  # Python's -fwrapv is slow; edges need rounding
# The unrolled loops with checks take ten minutes to compile at -O3, and three at -O1.
SANITIZE = [f"-fsanitize={s}", "-O0"] if (s := os.getenv("TORCH_HISTO_SANITIZE")) else []
NVCC_FLAGS = ["-O3", "-std=c++17", INCLUDE, "-Xcompiler=-Wall,-fvisibility=hidden"]
# A CPU build of torch records no headers of .cu files: a flag that follows them recompiles all.
HEADERS = b"".join(Path(name).read_bytes() for name in sorted(glob("csrc/**/*.*h", recursive=True)))
NVCC_FLAGS += [] if torch.version.cuda else [f"-DHISTO_HEADERS={zlib.crc32(HEADERS)}"]


def find_toolkit() -> str | None:
    """The folder of a CUDA Toolkit, with include/cuda_runtime.h and bin/nvcc in it."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    nvcc = shutil.which("nvcc")
    if nvcc:  # may be a link or a wrapper script: nvcc itself says where its toolkit is
        shown = subprocess.run([nvcc, "-dryrun", "-E", "x.cu"], capture_output=True, text=True)
        homes += re.findall(r"^#\$ TOP=(.*)$", shown.stderr, re.MULTILINE)
    homes = [Path(home).resolve() for home in [*homes, "/usr/local/cuda"] if home]
    files = "include/cuda_runtime.h", "bin/nvcc"
    return next((str(h) for h in homes if all(h.joinpath(f).exists() for f in files)), None)


def choose_toolkit() -> tuple[str | None, str]:
    """The CUDA Toolkit to build with, if any, and why."""
    wanted = os.environ.get("TORCH_HISTO_CUDA", "auto")
    if wanted not in ("0", "1", "auto"):
        raise SystemExit(f"TORCH_HISTO_CUDA must be 0 or 1, got {wanted!r}")
    if wanted == "0":
        return None, "left out: TORCH_HISTO_CUDA is 0"
    if wanted == "auto" and torch.version.cuda is None:
        return None, "left out: this torch is a CPU build (TORCH_HISTO_CUDA=1 builds them)"
    toolkit, missing = find_toolkit(), "no CUDA Toolkit: put nvcc on PATH or set CUDA_HOME"
    if toolkit is None and wanted == "1":
        raise SystemExit(f"TORCH_HISTO_CUDA is 1, but {missing}")
    return toolkit, f"built with {toolkit}" if toolkit else f"left out: {missing}"


def check_major_version(release: str, torch_cuda: str) -> None:
    if release and torch_cuda and torch_cuda.split(".")[0] != release.split(".")[0]:
        raise SystemExit(
            f"{TOOLKIT} is CUDA Toolkit {release}, but torch was built for CUDA {torch_cuda}: "
            f"set CUDA_HOME to a CUDA Toolkit {torch_cuda.split('.')[0]}, or "
            "TORCH_HISTO_CUDA=0 to leave the CUDA kernels out"
        )


def extension(name: str, sources: list[str], cxx: list[str], **settings: list[str]) -> object:
    flags = {"cxx": CXX_FLAGS + cxx, "nvcc": NVCC_FLAGS}
    settings |= {"extra_compile_args": flags, "py_limited_api": True, "language": "c++"}
    return cpp_extension.CppExtension(f"torch_histo.{name}", sorted(sources), **settings)


class Build(cpp_extension.BuildExtension):
    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_temp = "build/objects"  # pip's own is a new one each time: all is compiled again

    def get_ext_filename(self, name: str) -> str:
        """Without the tag of a Python, of which the libraries have nothing."""
        return f"{name.replace('.', '/')}.so"

    def run(self) -> None:
        print(f"torch_histo: the CUDA kernels are {REASON}", flush=True)
        super().run()


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """Any Python 3, free-threaded ones too: the metadata says from which version on."""
        return "py3", "none", super().get_tag()[2]


TOOLKIT, REASON = choose_toolkit()


def found(*patterns: str) -> list[str]:
    return [f for pattern in patterns for f in glob(f"csrc/{pattern}", recursive=True)]


host = ["torch/*.cpp", "torch/explain/*.cpp"]
operators = [f"torch/operators/{name}.cpp" for name in ("*on_cpu", "*elsewhere", "schemas")]
sources = found(*host, *operators, "cpu/**/*.cpp", "cuda/plan/*.cpp")
extensions = [extension("_C", sources, SANITIZE, extra_link_args=SANITIZE)]
if TOOLKIT is not None:
    shown = subprocess.check_output([f"{TOOLKIT}/bin/nvcc", "--version"], text=True)
    release = "".join(re.findall(r"release (\d+[.]\d+)", shown))
    check_major_version(release, torch.version.cuda or "")
    # Modes of compression need a driver of CUDA 13; -compress-all serves all.
    has_modes = int(release.split(".")[0] or 0) >= 13
    NVCC_FLAGS += ["--compress-mode=size" if has_modes else "-Xfatbin=-compress-all"]
    cpp_extension.CUDA_HOME = TOOLKIT  # a CPU build of torch leaves it unset
    listed = subprocess.check_output([f"{TOOLKIT}/bin/nvcc", "--list-gpu-arch"], text=True).split()
    archs = [arch for arch in ARCHS if "compute_" + arch.replace(".", "") in listed]
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", ";".join(archs) + "+PTX")
    sources = found("cuda/**/*.cpp", "cuda/**/*.cu", "torch/*.cpp", "torch/operators/*on_cuda.cpp")
    link = ["-lcudart_static", "-lrt", "-ldl", "-Wl,--no-as-needed", "-ltorch"]  # keeps libtorch
    folders = {"include_dirs": [f"{TOOLKIT}/include"], "library_dirs": [f"{TOOLKIT}/lib64"]}
    extensions.append(extension("_cuda", sources, ["-DUSE_CUDA"], extra_link_args=link, **folders))
setup(ext_modules=extensions, cmdclass={"build_ext": Build, "bdist_wheel": Wheel})
