"""The cost of an atomic addition, and the number of them that each variant issues.

The first table is about additions to one address, in global and in shared
memory. Latency is the time of one addition that waits for the one before it. A
simple model says that an address takes one addition at a time, for the whole
latency: its throughput is 1 / latency. The table has this model and what was
measured.

The second table has the global and shared atomic additions of each study
variant: by a formula and, on a GPU, as counted by the kernels themselves. Data
are "cyclic" (each channel runs through all bins, again and again) or
"constant".
"""

from __future__ import annotations

import math
import time
from typing import Any

import common
import torch
from torch import Tensor

from torch_histo.measure import variants_for

# --- One address --------------------------------------------------------------------------

LATENCY_ADDITIONS = 10_000
THROUGHPUT_ADDITIONS = 2_000


def add(device: torch.device, **plan: Any) -> Tensor:
    like = torch.empty(0, device=device)
    result: Tensor = torch.ops.histo._add_to_one_address(like, **plan)
    return result


def latency(device: torch.device, shared: bool) -> tuple[float, float]:
    """Clock cycles and seconds of one addition: the median over addresses.

    In global memory addresses differ: some live in the part of the cache that is farther away.
    """
    wake(device)
    plan = {"shared": shared, "dependent": True, "blocks": 1, "threads": 32, "lanes": 1}
    runs, results = [], []
    for _ in range(15):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        results.append(add(device, **plan, additions=LATENCY_ADDITIONS))  # kept: a new address
        end.record()
        end.synchronize()
        runs.append((int(results[-1][0]), start.elapsed_time(end) / 1e3))
    cycles, seconds = sorted(runs)[len(runs) // 2]
    return cycles / LATENCY_ADDITIONS, seconds / LATENCY_ADDITIONS


def measure_address(device: torch.device, shared: bool) -> list[dict[str, Any]]:
    """Latency, then throughput with one and with all lanes of each warp adding."""
    cycles, seconds_each = latency(device, shared)

    # A shared address belongs to a block; a global one to the whole GPU.
    sm_count = torch.cuda.get_device_properties(device).multi_processor_count
    blocks = 1 if shared else 2 * sm_count
    rows = []
    for lanes in (1, 32):
        plan = {"shared": shared, "dependent": False, "blocks": blocks, "threads": 1024}
        additions = blocks * 32 * lanes * THROUGHPUT_ADDITIONS
        reached = int(add(device, **plan, lanes=lanes, additions=THROUGHPUT_ADDITIONS)[1])
        if reached != additions:
            raise SystemExit(f"WRONG sum: {reached}, expected {additions}")
        seconds = time_of(device, **plan, lanes=lanes, additions=THROUGHPUT_ADDITIONS)
        rows.append(
            {
                "memory": "shared" if shared else "global",
                "lanes": lanes,
                "latency_cycles": cycles,
                "latency_seconds": seconds_each,
                "model_per_second": 1 / seconds_each,
                "measured_per_second": additions / seconds,
            }
        )
    return rows


def wake(device: torch.device) -> None:
    """Half a second of work: an idle GPU runs at a lower clock."""
    busy = {"shared": True, "dependent": False, "blocks": 256, "threads": 1024, "lanes": 32}
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        add(device, **busy, additions=1000)
        torch.cuda.synchronize(device)


def time_of(device: torch.device, **plan: Any) -> float:
    return common.graph_seconds(
        lambda like: torch.ops.histo._add_to_one_address(like, **plan),
        [torch.empty(1, device=device)],
    )


def address_table(rows: list[dict[str, Any]]) -> str:
    return common.markdown_table(
        ["one address in", "lanes adding", "latency", "model: 1 / latency", "measured", "ratio"],
        [
            [
                f"{row['memory']} memory",
                f"{row['lanes']} of 32",
                f"{row['latency_seconds'] * 1e9:.1f} ns ({row['latency_cycles']:.0f} cycles)",
                f"{row['model_per_second'] / 1e9:.4f} G/s",
                f"{row['measured_per_second'] / 1e9:.2f} G/s",
                f"{row['measured_per_second'] / row['model_per_second']:,.0f} x",
            ]
            for row in rows
        ],
    )


# --- The variants -------------------------------------------------------------------------

# As in csrc/cuda/study: threads of a block, channels of a panel, and what a thread takes.
THREADS = 1024
PANEL_CHANNELS = 32
MAX_PRIVATE_BLOCKS = 512
CONTIGUOUS_RUN = 4
AGGREGATED_RUN = 64
WORD = 4
BLOCKS_PER_SM = 2


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def reached_bins(rows: int, stride: int, steps: int, num_bins: int) -> int:
    """How many of the bins a block meets in each channel of cyclic data.

    It takes `steps` runs of `rows` rows each, `stride` rows apart. If the stride and the
    bins share a factor, runs come back to the same bins.
    """
    distinct = num_bins // math.gcd(stride, num_bins)
    return min(num_bins, rows * min(steps, distinct))


def predict(
    variant: str, length: int, channels: int, num_bins: int, cyclic: bool, sm_count: int
) -> tuple[int, int]:
    """(global, shared) additions for `[length, channels]` values that all count.

    A block adds its private histogram to the result, one global addition for each bin that
    is not empty.
    """
    elements = length * channels
    if variant == "global_atomic":
        return elements, 0
    if variant == "tiled":
        return 0, elements
    width = min(channels, PANEL_CHANNELS)
    panels = ceil_div(channels, PANEL_CHANNELS)
    panel = length * width

    def merged(blocks: int, taken: int) -> int:
        """Global additions where `blocks` blocks a panel take `taken` elements a step."""
        rows = taken // width
        steps = ceil_div(panel, blocks * taken)
        bins = reached_bins(rows, blocks * rows, steps, num_bins) if cyclic else 1
        return panels * blocks * width * bins

    if variant == "privatized_global":
        blocks = max(1, min(MAX_PRIVATE_BLOCKS // panels, ceil_div(panel, THREADS)))
        return elements + merged(blocks, THREADS), 0
    if variant == "privatized_shared":
        return merged(ceil_div(panel, THREADS), THREADS), elements
    if variant == "coarsened_contiguous":
        taken = THREADS * CONTIGUOUS_RUN
        return merged(ceil_div(panel, taken), taken), elements
    if variant == "coarsened_interleaved":
        taken = THREADS * WORD
        fill = max(BLOCKS_PER_SM * sm_count // panels, 1)
        return merged(min(fill, ceil_div(panel, taken)), taken), elements
    if variant == "aggregated":
        taken = THREADS * AGGREGATED_RUN
        shared = elements if cyclic else ceil_div(length, AGGREGATED_RUN) * channels
        return merged(ceil_div(panel, taken), taken), shared
    raise ValueError(f"no formula for variant {variant!r}")


def data(length: int, channels: int, num_bins: int, cyclic: bool, device: torch.device) -> Tensor:
    rows = torch.arange(length, device=device) % num_bins if cyclic else torch.zeros(length)
    columns = rows.to(torch.uint8).to(device)[:, None].expand(length, channels)
    return columns.contiguous()


def count_variants(
    length: int, channels: int, num_bins: int, device: torch.device
) -> list[dict[str, Any]]:
    on_gpu = device.type == "cuda"
    sm_count = torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else 132
    rows = []
    for variant in variants_for(torch.device("cuda")):
        if variant == "auto":
            continue
        for cyclic in (True, False):
            predicted = predict(variant, length, channels, num_bins, cyclic, sm_count)
            counted = None
            if on_gpu:
                values = data(length, channels, num_bins, cyclic, device)
                tally = torch.ops.histo._count_atomics(values, num_bins, variant=variant)
                counted = tuple(tally.tolist())
                if counted != predicted:
                    raise SystemExit(
                        f"{variant} on [{length}, {channels}], cyclic={cyclic}: "
                        f"predicted {predicted}, counted {counted}"
                    )
            rows.append(
                {
                    "shape": [length, channels],
                    "num_bins": num_bins,
                    "data": "cyclic" if cyclic else "constant",
                    "variant": variant,
                    "predicted": predicted,
                    "counted": counted,
                }
            )
    return rows


def variant_table(rows: list[dict[str, Any]]) -> str:
    def cells(pair: tuple[int, int] | None) -> list[str]:
        return ["", ""] if pair is None else [f"{n:,}" for n in pair]

    return common.markdown_table(
        ["variant", "data", "global, formula", "shared", "global, counted", "shared"],
        [
            [row["variant"], row["data"], *cells(row["predicted"]), *cells(row["counted"])]
            for row in rows
        ],
    )


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument(
        "--length", type=common.positive, help="count additions for this many rows too"
    )
    parser.add_argument(
        "--channels", type=common.positive, default=1, help="a multiple of 32, or up to 32"
    )
    parser.add_argument("--bins", type=common.positive, default=128, help="1 to 256")
    arguments = parser.parse_args()
    device = arguments.device
    shapes = [(524_288, 1, 128), (131_072, 512, 256)]
    if arguments.length:
        shapes.append((arguments.length, arguments.channels, arguments.bins))

    record: dict[str, Any] = {"machine": common.machine(device), "address": [], "variants": []}
    parts = [f"# Atomic additions\n\n{common.describe(record)}"]
    if device.type == "cuda":
        record["address"] = measure_address(device, False) + measure_address(device, True)
        parts += [
            "Additions to one address; the model is that it takes one addition a latency.",
            address_table(record["address"]),
        ]
    else:
        parts.append("No GPU: nothing measured, and the formulas below are for 132 SMs.")
    for length, channels, num_bins in shapes:
        rows = count_variants(length, channels, num_bins, device)
        record["variants"] += rows
        parts += [
            f"Atomic additions for {length * channels:,} elements "
            f"([{length:,}, {channels}] uint8) and {num_bins} bins a channel:",
            variant_table(rows),
        ]
    markdown = "\n\n".join(parts)
    print(markdown)
    common.write_results(arguments.out, common.result_name("atomics", device), record, markdown)


if __name__ == "__main__":
    main()
