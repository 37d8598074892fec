"""Times what else PyTorch has for the counts of channel_histogram.

Checks the counts first. Prints two tables, and writes them to JSON and
Markdown. The first table has the ways to count a batch of activations channel
by channel. The second has tricks for integers of 8 and 16 bits, beside what
they replace. Times are medians of calls that take turns.
"""

from __future__ import annotations

import dataclasses
import runpy
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import common
import peers
import torch
from cases import Case
from torch import Tensor

from torch_histo import channel_histogram

ACTIVATIONS = Case("uint8", (1 << 17, 512))
OURS = "torch_histo"
RECIPES = Path(__file__).parents[1] / "examples" / "recipes"

Record = dict[str, Any]
FLAWS = {
    "torch.bincount": "one channel: an index of value + channel * bins for more; negative values "
    "raise; waits for the GPU",
    "torch.histc": "one channel, floats on the CPU; counts in the input's type: float32 stops at "
    "16,777,216",
    "torch.histogram": "one channel, floats, CPU only",
    "torch.bucketize": "finds bins but does not count; needs an int64 per element, then bincount",
    "a Python loop": "a copy, a call and a wait for each channel",
}
"""The limits of each."""


def histogram(case: Case) -> peers.Count:
    edges = torch.arange(case.num_bins + 1.0)

    def run(x: Tensor) -> Tensor:
        parts = peers.each_channel(x, case)
        return torch.stack([torch.histogram(part.float(), edges).hist for part in parts])

    return run


def bucketize(case: Case) -> peers.Count:
    total = case.channels * case.num_bins

    def run(x: Tensor) -> Tensor:
        edges = torch.arange(1, case.num_bins, device=x.device)
        bins = torch.bucketize(x, edges, right=True)
        offsets = torch.arange(0, total, case.num_bins, device=x.device)
        return torch.bincount((bins + offsets).flatten(), minlength=total)

    return run


def ways(case: Case, device: torch.device) -> dict[str, common.Run]:
    found: dict[str, common.Run] = {
        OURS: partial(channel_histogram, num_bins=case.num_bins),
        "torch.bincount": peers.torch_bincount(case),
        "torch.histc": peers.torch_histc(case),
        "torch.histogram": histogram(case),
        "torch.bucketize": bucketize(case),
        "a Python loop": peers.torch_bincount_looped(case),
    }
    if device.type == "cuda":
        del found["torch.histogram"]
    return found


def converted(x: Tensor) -> Tensor:
    return channel_histogram(x.to(torch.int32) + 128, 256)


def viewed(x: Tensor) -> Tensor:
    return channel_histogram(x.view(torch.uint8)).roll(128, -1)


EDGES = (-1024, 3073, 16)
"""256 bins of 12-bit values, such as those of a CT scanner."""
INTEGER_EDGES = runpy.run_path(str(RECIPES / "integer_edges.py"))["histogram"]


def between_edges(x: Tensor) -> Tensor:
    return INTEGER_EDGES(x, torch.arange(*EDGES, device=x.device))


def bucketized(x: Tensor) -> Tensor:
    edges = torch.arange(*EDGES, device=x.device)
    counts = torch.bincount(torch.bucketize(x, edges, right=True), minlength=len(edges) + 1)
    return counts[1:-1]  # the last edge itself is left out: no value reaches it here


TRICKS: dict[Case, dict[str, common.Run]] = {
    Case("int8", (1 << 19, 64)): {
        "x.view(torch.uint8)": viewed,
        "x.to(torch.int32) + 128": converted,
    },
    Case("int16", (1 << 24,)): {
        "recipes/integer_edges.py": between_edges,
        "bucketize, bincount": bucketized,
    },
}
"""Two ways to the same counts, the short one first."""
LIMITS = {"uint8": (0, 256), "int8": (-128, 128), "int16": (-1024, 3072)}


def small(case: Case) -> Case:
    return dataclasses.replace(case, shape=(1000, *(8 for _ in case.shape[1:])))


def measure(case: Case, runs: Mapping[str, common.Run], device: torch.device) -> Record:
    """Times them in turns, if all count alike. Only the first one never waits for a GPU."""
    low, high = LIMITS[case.dtype]
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randint(
        low, high, case.shape, dtype=case.torch_dtype, device=device, generator=generator
    )
    first, *others = runs
    expected = cast(Tensor, runs[first](x)).flatten()
    for name in others:
        if not torch.equal(cast(Tensor, runs[name](x)).flatten().long(), expected):
            raise SystemExit(f"WRONG counts: {name} of {case}")
    seconds = common.interleaved_seconds(runs, [x], uncaptured=others, budget=5)
    return {"case": str(case), "seconds": seconds}


def table(record: Record) -> str:
    """A row for each of the others: what it cannot do, and how long it takes."""
    seconds = record["activations"]["seconds"]
    ours = seconds[OURS]
    lines = [
        f"| {record['activations']['case']} | what it cannot do | ms | times as long |",
        "| --- | --- | ---: | ---: |",
        f"| `{OURS}` | | {ours * 1e3:,.1f} | 1 |",
    ]
    for name, flaw in FLAWS.items():
        if name in seconds:
            shown = f"`{name}`" if "." in name else name
            ratio = seconds[name] / ours
            lines.append(f"| {shown} | {flaw} | {seconds[name] * 1e3:,.1f} | {ratio:,.0f} |")
    return "\n".join(lines)


def tricks_table(record: Record) -> str:
    lines = []
    for trick in record["tricks"]:
        (short, fast), (long, slow) = trick["seconds"].items()
        times = [f"{fast * 1e3:.1f}", f"{slow * 1e3:.1f}", f"{slow / fast:.0f}"]
        lines.append([f"{trick['case']}: {short}, not {long}", *times])
    return common.markdown_table(["ms", "short", "long", "times as long"], lines)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--threads", type=common.positive, help="of the CPU")
    parser.add_argument("--quick", action="store_true", help="small inputs only, to try it out")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    device = arguments.device
    case, *others = (small(case) if arguments.quick else case for case in [ACTIVATIONS, *TRICKS])
    record: Record = {
        "machine": common.machine(device),
        "activations": measure(case, ways(case, device), device),
        "tricks": [
            measure(other, runs, device)
            for other, runs in zip(others, TRICKS.values(), strict=True)
        ],
    }
    markdown = "\n\n".join(
        [
            f"# Why not something else?\n\n{common.describe(record)}",
            "Counts of each channel in 256 bins, uniform data:",
            table(record),
            "Integers of 8 and 16 bits, without a conversion and with one:",
            tricks_table(record),
        ]
    )
    print("\n" + markdown)
    common.write_results(arguments.out, common.result_name("why", device), record, markdown)


if __name__ == "__main__":
    main()
