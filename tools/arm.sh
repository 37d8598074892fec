#!/usr/bin/env bash
# The CPU library for 64-bit Arm, and tests of it, on another processor:
#
#     [WHEEL=dist/...aarch64.whl] tools/arm.sh [arguments of pytest]
#
# It compiles for Arm with the headers of the torch at hand, or takes the library of a wheel, and
# runs torch and pytest in an emulator. Needs Debian's g++-aarch64-linux-gnu, qemu-user-static and debootstrap. What it makes
# is kept in build/arm.
set -euo pipefail
if [ "${1:-}" = --help ]; then
  sed -n '2,/^[^#]/s/^# \?//p' "$0"
  exit
fi
cd "$(dirname "$0")/.."

folder=$PWD/build/arm
release=bookworm python=3.11
# The last torch whose wheel for Arm works without CUDA. What else torch and the tests import.
packages=(torch==2.10.0 filelock fsspec jinja2 markupsafe mpmath networkx numpy setuptools sympy
  typing_extensions attrs hypothesis iniconfig packaging pillow pluggy pygments pytest
  sortedcontainers tqdm)

for command in aarch64-linux-gnu-g++ qemu-aarch64-static debootstrap; do
  if ! command -v $command > /dev/null; then
    echo "$0: $command not found: apt-get install g++-aarch64-linux-gnu qemu-user-static debootstrap" >&2
    exit 2
  fi
done

if [ ! -e "$folder/done" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  # Its packages are unpacked and not set up, which takes an emulated system.
  debootstrap --arch=arm64 --foreign --variant=minbase \
    --include="python$python,python3-distutils,libgomp1,libstdc++6" $release "$folder/system" > "$folder/log"
  for package in "$folder"/system/var/cache/apt/archives/*.deb; do
    dpkg -x "$package" "$folder/system"
  done
  python -m pip install --quiet --no-deps --only-binary=:all: --target "$folder/site" \
    --python-version $python --implementation cp --platform manylinux_2_28_aarch64 \
    --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 "${packages[@]}"
  # Its own name, so that tests start it when they start Python.
  cat > "$folder/python" << END
#!/bin/sh
export PYTHONPATH="\${PYTHONPATH:+\$PYTHONPATH:}$folder/site"
exec qemu-aarch64-static -0 "$folder/python" -L "$folder/system" -E "PYTHONHOME=$folder/system/usr" \\
  -E "LD_LIBRARY_PATH=$folder/system/usr/lib/aarch64-linux-gnu" "$folder/system/usr/bin/python$python" "\$@"
END
  chmod +x "$folder/python"
  touch "$folder/done"
fi

if [ -n "${WHEEL:-}" ]; then
  rm -rf "$folder/lib"
  python -m zipfile -e "$WHEEL" "$folder/lib"
else
  CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ LDSHARED="aarch64-linux-gnu-gcc -shared" \
    LDFLAGS="-L$folder/site/torch/lib" _PYTHON_HOST_PLATFORM=linux-aarch64 TORCH_HISTO_CUDA=0 \
    python setup.py --quiet build_ext --build-lib "$folder/lib" --build-temp "$folder/temp"
  cp torch_histo/*.py torch_histo/py.typed "$folder/lib/torch_histo"
fi
# Not from here, where torch_histo is the one of this processor.
cd "$folder"
ln -sfn ../../tests tests
PYTHONPATH="$folder/lib" exec ./python -P -m pytest -c ../../pyproject.toml --rootdir ../.. "$@"
