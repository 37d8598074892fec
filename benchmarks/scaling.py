"""Weak scaling over the ranks of torchrun: each rank counts the same bytes.

    torchrun --nproc-per-node 4 benchmarks/scaling.py --out benchmarks/results

Checks the counts first. Then two things take turns, so that a clock that drifts
does so for both: the first rank counts alone while the others wait, and all
ranks count together with `torch_histo.distributed.channel_histogram`, which
adds the counts by one all-reduce. A turn is several calls in a row. Its time is
that of the slowest rank. The share is one rank's time alone over the time of
all together: the part of its rate that each rank keeps.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import common
import torch
import torch.distributed as dist
from torch import Tensor
from tqdm import tqdm

import torch_histo
from torch_histo.measure import bincount_offset

NUM_BINS = 256
CHANNELS = [512, 1]
TURNS = 10
CALLS = 20
"""The calls of a turn. They keep the queue full, as a loop over data does."""


def check(x: Tensor) -> None:
    """The counts of all ranks, against torch.bincount and a sum that is no all-reduce."""
    parts = [bincount_offset(part, NUM_BINS) for part in x.split(1 + (1 << 26) // x.shape[1])]
    own = torch.stack(parts).sum(0)
    everyones = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, own)
    counts = torch_histo.distributed.channel_histogram(x, NUM_BINS)
    if not torch.equal(counts, torch.stack(everyones).sum(0)):
        raise SystemExit(f"WRONG counts of {list(x.shape)} on rank {dist.get_rank()}")


def seconds_of(run: Callable[[], object], device: torch.device, ranks: int) -> float:
    """The seconds of one call on the slowest rank, if the first `ranks` ranks call at once."""
    dist.barrier()
    seconds = 0.0
    if dist.get_rank() < ranks:
        if device.type == "cuda":
            run()  # not timed: the GPU is busy until the calls are queued
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(CALLS):
                run()
            end.record()
            end.synchronize()
            seconds = start.elapsed_time(end) / 1e3 / CALLS
        else:
            began = time.perf_counter()
            for _ in range(CALLS):
                run()
            seconds = (time.perf_counter() - began) / CALLS
    slowest = torch.tensor(seconds, device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return float(slowest)


def measure(channels: int, bytes_per_rank: int, device: torch.device) -> dict[str, Any]:
    """The record of one shape, the same on every rank."""
    world = dist.get_world_size()
    shape = (bytes_per_rank // channels, channels)
    generator = torch.Generator(device).manual_seed(dist.get_rank())
    x = torch.randint(0, NUM_BINS, shape, dtype=torch.uint8, device=device, generator=generator)
    check(x)
    alone, together, reduces = [], [], []
    counts = torch_histo.channel_histogram(x, NUM_BINS)
    for _ in tqdm(range(TURNS), str(list(shape)), disable=dist.get_rank() > 0):
        alone.append(seconds_of(lambda: torch_histo.channel_histogram(x, NUM_BINS), device, 1))
        together.append(
            seconds_of(
                lambda: torch_histo.distributed.channel_histogram(x, NUM_BINS), device, world
            )
        )
        reduces.append(seconds_of(lambda: dist.all_reduce(counts), device, world))
    one, all_ = statistics.median(alone), statistics.median(together)
    return {
        "dtype": "uint8",
        "shape": list(shape),
        "num_bins": NUM_BINS,
        "ranks": world,
        "seconds_alone": one,
        "seconds": all_,
        "seconds_all_reduce": statistics.median(reduces),
        "bytes_per_second_alone": x.nbytes / one,
        "bytes_per_second": world * x.nbytes / all_,
        "share": one / all_,
    }


def table(records: list[dict[str, Any]]) -> str:
    header = ["on each rank", "ranks", "alone ms", "together ms", "all-reduce ms"]
    header += ["alone GB/s", "together GB/s", "share"]
    rows = [
        [
            f"{row['shape']} uint8",
            str(row["ranks"]),
            *(f"{row[key] * 1e3:.3f}" for key in ("seconds_alone", "seconds")),
            f"{row['seconds_all_reduce'] * 1e3:.3f}",
            *(f"{row[key] / 1e9:,.0f}" for key in ("bytes_per_second_alone", "bytes_per_second")),
            f"{row['share']:.3f}",
        ]
        for row in records
    ]
    return common.markdown_table(header, rows)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--mib-per-rank", type=common.positive, default=4096)
    arguments = parser.parse_args()
    device = arguments.device
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    records = [measure(c, arguments.mib_per_rank << 20, device) for c in CHANNELS]
    if dist.get_rank() == 0:
        record = {"machine": common.machine(device), "records": records}
        text = (
            f"# Weak scaling, {arguments.mib_per_rank} MiB a rank\n\n{common.describe(record)}, "
            f"{dist.get_world_size()} ranks\n\n{table(records)}"
        )
        print(text)
        name = f"{common.result_name('scaling', device)}-x{dist.get_world_size()}"
        common.write_results(arguments.out, name, record, text)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
