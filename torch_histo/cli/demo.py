"""The command without arguments: it checks and then times every kernel on one sample of bytes,
and `histogram` on one of floats."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm  # type: ignore[import-untyped]

from ..histograms import histogram
from ..measure import TORCH_WAYS, histc_by_channel, median_seconds, variants_for
from ..ops import channel_histogram
from .report import picture

OURS = "torch_histo"
LENGTH, CHANNELS, NUM_BINS = 131072, 512, 256
FLOATS, FLOAT_BINS = 1 << 22, 64
REPEATS = {"cpu": 3, "cuda": 20}
BUDGET = 0.8
"""Seconds of CPU runs of one way to count, after which no further one starts."""

NEXT = """What to do next:
  torch_histo FILE...         counts your images, arrays, checkpoints and texts
  torch_histo FILE --plot counts.png
  docs/start.md               first lines of Python, and a first picture
  docs/examples.md            programs and recipes to copy from"""


def sample() -> Tensor:
    """A fixed [LENGTH, CHANNELS] uint8 tensor: in each channel two bells, drifting apart."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(LENGTH, CHANNELS, generator=generator)
    drift = torch.linspace(0, 65, CHANNELS)
    left = LENGTH * 2 // 3
    values[:left].mul_(14).add_(120 - drift)
    values[left:].mul_(20).add_(120 + drift)
    return values.round_().clamp_(0, NUM_BINS - 1).to(torch.uint8)


def float_sample() -> Tensor:
    """A fixed [FLOATS] float32 tensor: two bells."""
    values = torch.randn(FLOATS, generator=torch.Generator().manual_seed(0))
    values[: FLOATS // 3].mul_(0.5).add_(2.5)
    return values


def run(device: torch.device) -> int:
    """Print a table and a picture; return 0 if all counts are right and 1 if some are wrong."""
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    print(f"Sample: [{LENGTH}, {CHANNELS}] uint8, {NUM_BINS} bins a channel, on {machine}.")
    print(
        "Before any timing, counts are compared with those of torch.histc, channel by\nchannel.\n"
    )
    print(f"{'way to count':32}{'ms':>10}{'GB/s':>10}{'speed-up':>10}  counts", flush=True)
    ways = {f"torch {name}": way for name, way in TORCH_WAYS.items()} | {
        f"{OURS} {variant}": partial(channel_histogram, variant=variant)
        for variant in variants_for(device)
    }
    seconds: dict[str, float] = {}
    wrong: list[str] = []
    with tqdm(
        total=len(ways) + 3,
        bar_format="{n_fmt}/{total_fmt} {desc} [{elapsed}]",
        leave=False,
        disable=not sys.stderr.isatty(),
    ) as progress:

        def begin(step: str) -> None:
            progress.update()
            progress.set_description_str(step)

        begin("making the sample")
        values = sample().to(device)
        begin("counting it with torch.histc, channel by channel")
        expected = histc_by_channel(values, NUM_BINS)
        for name, count in ways.items():
            begin(name)
            verdict = "reference"
            if count is not histc_by_channel:
                differing = int((count(values, NUM_BINS) != expected).sum())
                verdict = f"WRONG in {differing} bins" if differing else "equal"
                wrong += [name] if differing else []
            seconds[name] = _seconds(partial(count, values, NUM_BINS), device)
            progress.write(f"{_row(name, seconds, values.nbytes)}  {verdict}")
            sys.stdout.flush()
        begin("counting floats")
        floats, differs = _count_floats(device)
    wrong += ["torch_histo.histogram"] if differs else []
    print(f"\nSpeed-up is over the fastest way of torch alone,\nhere: {_fastest(seconds)}.")
    if wrong:
        print(f"torch_histo: wrong counts: {', '.join(wrong)}", file=sys.stderr)
        return 1
    print(f"All counts are equal to those of torch.histc.\n\nChannel {CHANNELS - 1} of the sample:")
    counts = channel_histogram(values, NUM_BINS)[-1]
    print(picture(counts.tolist(), sys.stdout.encoding))
    print(f"\n{floats}\n\n{NEXT}")
    return 0


def _seconds(count: Callable[[], object], device: torch.device) -> float:
    # No warm-up: what it counts has just been made once.
    return median_seconds(count, device, repeats=REPEATS[device.type], warm_ups=0, budget=BUDGET)


def _fastest(seconds: dict[str, float]) -> str:
    """The fastest way of torch alone."""
    return min((name for name in seconds if not name.startswith(OURS)), key=seconds.__getitem__)


def _row(name: str, seconds: dict[str, float], num_bytes: int) -> str:
    own = seconds[name]
    speed_up = f"{seconds[_fastest(seconds)] / own:.2f} x" if name.startswith(OURS) else ""
    return f"{name:32}{own * 1e3:10.3f}{num_bytes / own / 1e9:10.2f}{speed_up:>10}"


def _count_floats(device: torch.device) -> tuple[str, bool]:
    """The histogram of the sample of floats as text, and whether it differs from NumPy's."""
    values = float_sample()
    start = time.perf_counter()
    expected, expected_edges = np.histogram(values.numpy(), FLOAT_BINS)
    their_seconds = time.perf_counter() - start
    values = values.to(device)
    count = partial(histogram, values, FLOAT_BINS)
    hist, edges = count()
    our_seconds = _seconds(count, device)
    differs = hist.tolist() != expected.tolist() or edges.tolist() != expected_edges.tolist()
    ends = (f"{float(edges[0]):.3g}", f"{float(edges[-1]):.3g}")
    text = (
        f"Sample: [{FLOATS}] float32, {FLOAT_BINS} bins between its extremes.\n"
        f"torch_histo.histogram took {our_seconds * 1e3:.3g} ms, "
        f"numpy.histogram {their_seconds * 1e3:.3g} ms.\n"
        "Counts and edges are equal to NumPy's.\n\n"
        f"{picture(hist.tolist(), sys.stdout.encoding, ends)}"
    )
    return text, differs
