"""Timing, and the ways to count with PyTorch alone that torch_histo is measured against."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from .ops import VARIANTS

CACHE_BYTES = 256 << 20
"""More than the caches of a GPU hold: writing this many bytes leaves none of the input in them."""


def variants_for(device: torch.device) -> tuple[str, ...]:
    """The variants that are kernels of their own on a device."""
    if device.type == "cuda":
        return tuple(variant for variant in VARIANTS if variant != "sequential")
    return ("auto", "sequential")


def run_seconds(
    run: Callable[[], object],
    device: torch.device,
    *,
    repeats: int = 5,
    warm_ups: int = 1,
    budget: float = math.inf,
) -> list[float]:
    """The times in seconds that `run` takes on `device`, after `warm_ups` that are not timed.

    On the CPU there are fewer than `repeats` once they have taken `budget` seconds together.
    On CUDA a time is the one between two events on the current stream, with the input out of
    the caches and without the time that the CPU takes to launch a kernel.
    """
    for _ in range(warm_ups):
        run()
    if device.type != "cuda":
        seconds: list[float] = []
        while len(seconds) < repeats and sum(seconds) < budget:
            start_time = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start_time)
        return seconds
    with torch.cuda.device(device):
        cache = torch.empty(CACHE_BYTES, dtype=torch.uint8, device=device)
        events = []
        for _ in range(repeats):
            # Besides emptying the caches, this keeps the GPU busy until `run` is queued.
            cache.zero_()
            start, end = (_event(), _event())
            start.record()
            run()
            end.record()
            events.append((start, end))
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in events]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def median_seconds(run: Callable[[], object], device: torch.device, **options: Any) -> float:
    """The median of `run_seconds`, which takes the same options."""
    return statistics.median(run_seconds(run, device, **options))


Way = Callable[[Tensor, int], Tensor]
"""Takes values from 0 to num_bins - 1, [length, channels], and num_bins; returns int64 counts,
[channels, num_bins], as channel_histogram does."""


def histc_by_channel(values: Tensor, num_bins: int) -> Tensor:
    """torch.histc, channel by channel."""
    # It counts in the type of its input, and float32 has no odd numbers beyond 2^24.
    dtype = torch.float32 if len(values) <= 1 << 24 else torch.float64
    channels = values.t().contiguous()
    return torch.stack([torch.histc(c.to(dtype), num_bins, 0, num_bins) for c in channels]).long()


def bincount_by_channel(values: Tensor, num_bins: int) -> Tensor:
    """torch.bincount, channel by channel."""
    channels = values.t().contiguous()
    return torch.stack([torch.bincount(channel, minlength=num_bins) for channel in channels])


def bincount_offset(values: Tensor, num_bins: int) -> Tensor:
    """torch.bincount, once, on value + channel * num_bins."""
    flat = _offset(values, num_bins)
    return torch.bincount(flat, minlength=values.shape[1] * num_bins).view(-1, num_bins)


def scatter_add_offset(values: Tensor, num_bins: int) -> Tensor:
    """Tensor.scatter_add_ of ones at value + channel * num_bins."""
    flat = _offset(values, num_bins).long()
    counts = flat.new_zeros(values.shape[1] * num_bins, dtype=torch.int32)
    ones = counts.new_ones(()).expand_as(flat)
    return counts.scatter_add_(0, flat, ones).view(-1, num_bins).long()


def index_add_offset(values: Tensor, num_bins: int) -> Tensor:
    """Tensor.index_add_ of ones at value + channel * num_bins."""
    flat = _offset(values, num_bins)
    counts = flat.new_zeros(values.shape[1] * num_bins)
    ones = counts.new_ones(()).expand_as(flat)
    return counts.index_add_(0, flat, ones).view(-1, num_bins).long()


def _offset(values: Tensor, num_bins: int) -> Tensor:
    channels = torch.arange(values.shape[1], dtype=torch.int32, device=values.device)
    return (channels * num_bins + values).flatten()


TORCH_WAYS: Mapping[str, Way] = {
    "histc by channel": histc_by_channel,
    "bincount by channel": bincount_by_channel,
    "bincount of offsets": bincount_offset,
    "scatter_add_ of offsets": scatter_add_offset,
    "index_add_ of offsets": index_add_offset,
}
