"""Instructions and memory accesses an element of the CPU engine's main loops.

Clocks of shared machines are noisy. These counts, taken by callgrind, are the
same in every run. Needs valgrind. Each input is counted, and one that is twice
as long: the difference is the loop, without the fixed cost of a call. The
vectorized loops are the portable ones, because valgrind knows no AVX-512.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import common
import torch
from torch.utils import cpp_extension

EVENTS = {"Ir": "instructions", "Dr": "reads", "Dw": "writes"}
ELEMENTS = 1 << 20
COUNTER_BITS = (32, 16)
"""The bits of the tables: AMD's processors with AVX-512 are faster with 16, others with 32."""
CASES = {
    # dtype, bins, channels, distribution
    "one channel of bytes": ("uint8", 256, 1, "uniform"),
    "one channel of equal bytes": ("uint8", 256, 1, "constant"),
    "[R, 3] bytes": ("uint8", 256, 3, "uniform"),
    "[R, 3] equal bytes": ("uint8", 256, 3, "constant"),
    "[R, 512] bytes": ("uint8", 256, 512, "uniform"),
    "[R, 512] equal bytes": ("uint8", 256, 512, "constant"),
    "int64 in 256 bins": ("int64", 256, 1, "uniform"),
    "int32 in 1024 bins": ("int32", 1024, 1, "uniform"),
    "int16 in 4096 bins": ("int16", 4096, 1, "uniform"),
    "int32 in 65,536 bins": ("int32", 1 << 16, 1, "uniform"),
    "int32 in 2^20 bins": ("int32", 1 << 20, 1, "uniform"),
}
FOLDER = Path(__file__).parent


def build(out: Path) -> Path:
    """The engine alone, as setup.py compiles it."""
    program = out / "instructions"
    csrc = FOLDER.parent / "csrc"
    sources = [FOLDER / "instructions.cpp", *sorted(csrc.glob("cpu/**/*.cpp"))]
    command = ["g++", "-O3", "-std=c++17", "-DTORCH_TARGET_VERSION=0x020a000000000000"]
    command += [f"-I{csrc}", f"-isystem{cpp_extension.include_paths()[0]}", *map(str, sources)]
    command += ["-o", str(program)]
    subprocess.run(command, check=True)
    return program


def count(
    program: Path, bits: int, dtype: str, num_bins: int, rows: int, channels: int, kind: str
) -> Any:
    """The events that callgrind counts within the engine."""
    file = program.with_suffix(".out")
    command = ["valgrind", "--tool=callgrind", "--cache-sim=yes", f"--callgrind-out-file={file}"]
    command += ["--toggle-collect=histo::cpu::count(*", str(program), dtype]
    command += [str(num_bins), str(rows), str(channels), kind]
    chosen = {"TORCH_HISTO_CPU": "portable", "TORCH_HISTO_CPU_COUNTERS": str(bits)}
    environment = {**os.environ, **chosen}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ran.returncode != 0:
        raise SystemExit(ran.stderr)
    text = file.read_text()
    names = re.search(r"^events: (.*)$", text, re.M)
    totals = re.search(r"^(?:totals|summary): (.*)$", text, re.M)
    if names is None or totals is None:
        raise SystemExit("callgrind wrote no totals")
    return dict(zip(names[1].split(), map(int, totals[1].split()), strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    parser.add_argument("--cases", type=common.regex, metavar="REGEX", default="")
    arguments = parser.parse_args()
    cases = {name: case for name, case in CASES.items() if arguments.cases.search(name)}
    if not cases:
        parser.error(f"argument --cases: {arguments.cases.pattern!r} matches none of {list(CASES)}")
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions.py needs valgrind: apt-get install valgrind")
    rows = []
    with tempfile.TemporaryDirectory() as out:
        program = build(Path(out))
        for bits, (name, (dtype, num_bins, channels, kind)) in product(COUNTER_BITS, cases.items()):
            length = ELEMENTS // channels
            once = count(program, bits, dtype, num_bins, length, channels, kind)
            twice = count(program, bits, dtype, num_bins, 2 * length, channels, kind)
            elements = length * channels
            each = {label: (twice[key] - once[key]) / elements for key, label in EVENTS.items()}
            print(name, bits, {label: round(n, 3) for label, n in each.items()}, flush=True)
            of = {"input": name, "dtype": dtype, "num_bins": num_bins, "counter_bits": bits}
            rows.append({**of, **each})
    tables = [
        f"Counters of {bits} bits:\n\n"
        + common.markdown_table(
            ["an element", *EVENTS.values()],
            [
                [row["input"], *(f"{row[label]:.2f}" for label in EVENTS.values())]
                for row in rows
                if row["counter_bits"] == bits
            ],
        )
        for bits in COUNTER_BITS
    ]
    version = common.output_of("valgrind", "--version")
    record = {"machine": common.machine(torch.device("cpu")), "valgrind": version}
    text = (
        f"# Instructions an element\n\n{common.describe(record)}, {version}\n\n"
        "An element is one read, and the addition to its counter one instruction, which callgrind "
        "counts as one write; in one channel of bytes a read and an addition count two neighbours. "
        "The rest is looking at what the values are like, making indices, and clearing and "
        "reducing tables. Valgrind knows no AVX-512: these are the loops of processors without it, "
        "but for counters of 16 bits, which AMD's processors with it have.\n\n"
        + "\n\n".join(tables)
    )
    common.write_results(arguments.out, "instructions-cpu", {**record, "records": rows}, text)


if __name__ == "__main__":
    main()
