"""Instructions and memory accesses an element of the CPU engine's main loops, by callgrind.

Clocks of shared machines are noisy; these counts are the same in every run. Needs valgrind. An
input is counted once and twice as large an input once: the difference is the loop, without the
start of Python and without what a call costs. The vectorized loops are the portable ones, since
valgrind knows no AVX-512.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import common

EVENTS = {"Ir": "instructions", "Dr": "reads", "Dw": "writes"}
ROWS = 1 << 16
CASES = {
    "one channel of bytes": ((16 * ROWS,), "uint8", 256, "uniform"),
    "one channel of equal bytes": ((16 * ROWS,), "uint8", 256, "constant"),
    "[R, 3] bytes": ((4 * ROWS, 3), "uint8", 256, "uniform"),
    "[R, 512] bytes": ((ROWS // 16, 512), "uint8", 256, "uniform"),
    "[R, 512] equal bytes": ((ROWS // 16, 512), "uint8", 256, "constant"),
    "int64 in 256 bins": ((8 * ROWS,), "int64", 256, "uniform"),
    "int16 in 4096 bins": ((8 * ROWS,), "int16", 4096, "uniform"),
    "int32 in 65,536 bins": ((8 * ROWS,), "int32", 1 << 16, "uniform"),
    "int32 in 2^20 bins": ((8 * ROWS,), "int32", 1 << 20, "uniform"),
}
COUNT = """
import sys, torch
sys.path[:0] = [{folder!r}, {package!r}]
import common, torch_histo
torch.set_num_threads(1)
small, large = (
    common.rotated_inputs(
        (scale * {rows}, *{channels}), {distribution!r}, torch.device("cpu"),
        torch.{dtype}, {num_bins},
    )[0]
    for scale in (1, 2)
)
for x in ({inputs}):
    torch_histo.channel_histogram(x, {num_bins})
"""


def count(inputs: str, shape: tuple[int, ...], dtype: str, num_bins: int, distribution: str) -> Any:
    """What happens within the operator, over all calls."""
    folder = Path(__file__).parent
    code = COUNT.format(
        folder=str(folder),
        package=str(folder.parent),
        rows=shape[0],
        channels=shape[1:],
        dtype=dtype,
        num_bins=num_bins,
        distribution=distribution,
        inputs=inputs,
    )
    with tempfile.TemporaryDirectory() as out:
        command = ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--collect-atstart=no"]
        command += ["--toggle-collect=histo::cpu::count*", f"--callgrind-out-file={out}/out"]
        command += [sys.executable, "-c", code]
        environment = {**os.environ, "TORCH_HISTO_CPU": "portable", "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(command, capture_output=True, text=True, env=environment)
        if ran.returncode != 0:
            raise SystemExit(ran.stderr)
        text = Path(out, "out").read_text()
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
    parser.add_argument("--cases", metavar="REGEX", default="")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions.py needs valgrind: apt-get install valgrind")
    rows = []
    for name, (shape, dtype, num_bins, distribution) in CASES.items():
        if not re.search(arguments.cases, name):
            continue
        once = count("small,", shape, dtype, num_bins, distribution)
        twice = count("large,", shape, dtype, num_bins, distribution)
        elements = 1
        for size in shape:
            elements *= size
        each = {label: (twice[key] - once[key]) / elements for key, label in EVENTS.items()}
        print(name, {label: round(number, 3) for label, number in each.items()}, flush=True)
        rows.append({"input": name, "shape": list(shape), "dtype": dtype, **each})
    table = common.markdown_table(
        ["an element", *EVENTS.values()],
        [[row["input"], *(f"{row[label]:.2f}" for label in EVENTS.values())] for row in rows],
    )
    version = common.output_of("valgrind", "--version")
    record = {"machine": common.machine(common.torch.device("cpu")), "valgrind": version}
    text = (
        f"# Instructions an element\n\n{common.describe(record)}, {version}\n\n"
        "An addition to a counter is one instruction, one read and one write; the element is "
        f"another read.\n\n{table}"
    )
    common.write_results(arguments.out, "instructions-cpu", {**record, "records": rows}, text)


if __name__ == "__main__":
    main()
