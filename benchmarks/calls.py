"""What a call costs the host: the time of eager calls one after another, on few elements."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np
import torch
from torch import Tensor

from torch_histo import QuantileSketch, StreamingHistogram, histogram, quantile, summarize

LOW, HIGH, BINS = -4.1, 4.3, 256
ELEMENTS = {"cpu": 10, "cuda": 1000}
CALLS, ROUNDS = 50, 30
BASELINE = {"cpu": "torch.histogram", "cuda": "torch.histc"}
"""The call of torch that ratios are to."""

Call = Callable[[], Any]


def calls(x: Tensor) -> dict[str, Call]:
    """torch_histo's first, then torch's and NumPy's."""
    stream = StreamingHistogram(BINS, (LOW, HIGH)).to(x.device)
    sketch = QuantileSketch(device=x.device)
    q = torch.tensor(0.5, device=x.device)
    found: dict[str, Call] = {
        "histogram, a range": lambda: histogram(x, BINS, range=(LOW, HIGH)),
        "histogram": lambda: histogram(x, BINS),
        "StreamingHistogram.update": lambda: stream.update(x),
        "QuantileSketch.update": lambda: sketch.update(x),
        "QuantileSketch.quantile": lambda: sketch.quantile(0.5),
        "quantile": lambda: quantile(x, q),
        "summarize": lambda: summarize(x),
    }
    if x.device.type == "cpu":
        array = x.numpy()
        found["torch.histogram"] = lambda: torch.histogram(x, BINS, range=(LOW, HIGH))
        found["np.histogram"] = lambda: np.histogram(array, BINS, (LOW, HIGH))
    found["torch.histc"] = lambda: torch.histc(x, BINS, LOW, HIGH)
    found["x.sum()"] = x.sum
    return found


def check(x: Tensor) -> None:
    """Every count is right before anything is timed."""
    wide = x.double().cpu().numpy()
    for ends in ((LOW, HIGH), None):
        hist, edges = histogram(x, BINS, range=ends)
        expected, _ = np.histogram(wide, edges.double().cpu().numpy())
        if hist.tolist() != expected.tolist():
            raise SystemExit(f"WRONG result: histogram of {len(x)} elements, range={ends}")


def measure(device: torch.device) -> list[dict[str, Any]]:
    """The seconds of each call, and their ratio to the call of torch that is nearest."""
    elements = ELEMENTS[device.type]
    x = torch.randn(elements, generator=torch.Generator().manual_seed(0)).to(device)
    check(x)
    found = calls(x)
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(ROUNDS):
        for name, call in found.items():
            seconds[name].append(seconds_of(call, device))
    medians = {name: statistics.median(turns) for name, turns in seconds.items()}
    nearest = medians[BASELINE[device.type]]
    return [
        {"call": name, "elements": elements, "seconds": taken, "ratio": taken / nearest}
        for name, taken in medians.items()
    ]


def seconds_of(call: Call, device: torch.device) -> float:
    """One call of several, without the wait for the GPU behind them."""
    call()
    wait(device)
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    taken = time.perf_counter() - began
    wait(device)
    return taken / CALLS


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def table(rows: list[dict[str, Any]], device: str) -> str:
    header = [f"a call on {rows[0]['elements']} elements", "us", f"times {BASELINE[device]}"]
    lines = [[r["call"], f"{r['seconds'] * 1e6:,.1f}", f"{r['ratio']:.2f}"] for r in rows]
    return common.markdown_table(header, lines)
