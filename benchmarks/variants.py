"""Times every variant over sizes and distributions.

Checks the counts first. Prints two tables, and writes them to JSON and
Markdown: all kernels on one large input of each distribution, and all kernels
over sizes. Times are medians, on CUDA of graph replays over rotated inputs.
"read only" is the fastest kernel that reads the input and does nothing else,
the same as in bench.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import common
import torch
from peers import read_only
from torch import Tensor

from torch_histo import channel_histogram
from torch_histo.measure import bincount_offset, variants_for

NUM_BINS = 256
SAMPLE = (131072, 512)
SIZES = [
    (1 << 20, 512),
    (1 << 17, 512),
    (1 << 14, 512),
    (1 << 11, 512),
    (1 << 8, 512),
    (1 << 17, 511),
    (1 << 17, 100),
    (1 << 17, 64),
    (1 << 20, 3),
    (1 << 26,),
    (1 << 20,),
    (1 << 12,),
]
DISTRIBUTIONS = ["uniform", "constant", "two values", "normal", "sorted", "text"]
READ_ONLY = "read only"
BINCOUNT = "torch.bincount"


def check(inputs: list[Tensor], runs: dict[str, Any]) -> None:
    """Every kernel's counts on every input, against torch.bincount."""
    for x in inputs[:2]:
        columns = x.view(len(x), -1)
        parts = [bincount_offset(part, NUM_BINS) for part in columns.split(1 << 17)]
        expected = torch.stack(parts).sum(0).view(*x.shape[1:], NUM_BINS)
        for name, run in runs.items():
            if not torch.equal(run(x), expected):
                raise SystemExit(f"WRONG counts: {name} on {list(x.shape)} {x.device}")


def bincount(x: Tensor) -> Tensor:
    return bincount_offset(x.view(len(x), -1), NUM_BINS)


def measure(shape: tuple[int, ...], distribution: str, device: torch.device) -> dict[str, Any]:
    inputs = common.rotated_inputs(shape, distribution, device)
    runs: dict[str, Any] = {
        variant: partial(channel_histogram, num_bins=NUM_BINS, variant=variant)
        for variant in variants_for(device)
    }
    check(inputs, runs)
    if device.type == "cuda":
        runs[READ_ONLY] = read_only(inputs)
    if inputs[0].numel() <= 1 << 27:
        runs[BINCOUNT] = bincount
    # torch.bincount synchronizes.
    seconds = common.interleaved_seconds(runs, inputs, uncaptured=[BINCOUNT], budget=1)
    row = {"shape": list(shape), "distribution": distribution, "seconds": seconds}
    fastest = min((s, name) for name, s in seconds.items() if name in variants_for(device))
    print(f"{shape!s:16} {distribution:12} {fastest[1]} {fastest[0] * 1e6:.1f} us", flush=True)
    return row


def table(rows: list[dict[str, Any]], label: str) -> str:
    """A row a kernel, a column an input; microseconds."""
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    header = ["us", *(str(row[label]) for row in rows)]
    lines = []
    for name in names:
        times = [row["seconds"].get(name) for row in rows]
        lines.append([name, *("" if t is None else f"{t * 1e6:,.1f}" for t in times)])
    return common.markdown_table(header, lines)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs only, to try it out")
    arguments = parser.parse_args()
    device = arguments.device
    sample, sizes = SAMPLE, SIZES
    if arguments.quick:
        sample, sizes = (4096, 64), [(4096, 64), (1000, 3), (5000,)]

    by_distribution = [measure(sample, name, device) for name in DISTRIBUTIONS]
    by_size = [measure(size, "uniform", device) for size in sizes]
    record = {
        "machine": common.machine(device),
        "num_bins": NUM_BINS,
        "by_distribution": by_distribution,
        "by_size": by_size,
    }
    markdown = "\n\n".join(
        [
            f"# Every variant, {NUM_BINS} bins\n\n{common.describe(record)}",
            f"{list(sample)} uint8, microseconds:",
            table(by_distribution, "distribution"),
            "Uniform uint8 of several shapes, microseconds:",
            table(by_size, "shape"),
        ]
    )
    print("\n" + markdown)
    common.write_results(arguments.out, common.result_name("variants", device), record, markdown)


if __name__ == "__main__":
    main()
