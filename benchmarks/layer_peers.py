"""What is asked of the layers of models, and who is measured beside torch_histo."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import histogram_peers
import numpy as np
import quantile_peers
import torch
from bins import edge_dtype, is_float
from cases import LAYERS, Case
from common import Run
from histogram_peers import HISTOGRAM_PEERS, bucketize_bincount, by_channels, on_numpy, ranges, told
from peers import BOTH, CPU, OURS, Count, Peer, each_channel, loops, one_channel, read_only
from quantile_peers import QUANTILE_PEERS, torch_sort, wrong_quantiles
from torch import Tensor

from torch_histo import summarize

SUMMARY = ("count", "nan", "inf", "zeros", "min", "max", "mean", "var")


def counts_values(case: Case) -> bool:
    return case.bins not in ("median", "extremes", "summary")


def asks_for(operation: str) -> Callable[[Case], bool]:
    return lambda case: case.bins == operation


# --- torch_histo ------------------------------------------------------------------------


def ours(case: Case) -> Count:
    if case.bins == "median":
        return quantile_peers.ours(case)
    if case.bins == "extremes":
        return partial(torch.ops.histo.finite_range, dim=case.dim)
    if case.bins == "summary":
        return partial(summarize, dim=case.dim)  # type: ignore[return-value]
    return histogram_peers.ours(case)


def in_columns(case: Case, found: Any) -> Tensor:
    """A tensor of what an operation returns: a row for each channel."""
    if case.bins == "summary":
        found = [getattr(found, name).double() for name in SUMMARY]
    return found if isinstance(found, Tensor) else torch.stack([f.flatten() for f in found], 1)


# --- The right answers ------------------------------------------------------------------


def extremes(case: Case) -> Count:
    def run(x: Tensor) -> Tensor:
        values = by_channels(x, case).to(edge_dtype(case))
        return torch.stack([values.amin(1), values.amax(1)], 1)

    return run


def summary(case: Case) -> Count:
    """In float64; no value is infinite or NaN."""

    def run(x: Tensor) -> Tensor:
        values = by_channels(x, case).double()
        number = torch.full_like(values[:, 0], values.shape[1])
        var, mean = torch.var_mean(values, 1)
        zeros = (values == 0).sum(1).double()
        none = torch.zeros_like(number)
        return torch.stack(
            [number, none, none, zeros, values.amin(1), values.amax(1), mean, var], 1
        )

    return run


def reference(case: Case) -> Count:
    answers = {"median": torch_sort, "extremes": extremes, "summary": summary}
    return answers.get(case.bins, bucketize_bincount)(case)


def wrong(found: Tensor, expected: Tensor) -> int:
    """Counts must be equal, and so must numbers but for rounding."""
    if not expected.is_floating_point():
        return int((found.long() - expected).abs().sum())
    if expected.dtype != torch.float64:
        return wrong_quantiles(found, expected)
    near = torch.isclose(found.double(), expected, rtol=1e-6, atol=1e-9, equal_nan=True)
    return int((~near).sum())


def limit(case: Case, inputs: list[Tensor]) -> Run:
    """Reads the input, twice if its range is not told, and writes what the operation returns."""
    read = read_only(inputs)
    bins = case.num_bins
    results = {"median": 4, "extremes": 8, "summary": 8 * len(SUMMARY)}
    bytes_ = results.get(case.bins, 8 * bins)
    if not told(case):
        bytes_ += edge_dtype(case).itemsize * (bins + 1)
    words = case.channels * bytes_ // 4

    def run(x: Tensor) -> None:
        for _ in range(1 if told(case) else 2):
            read(x)
        torch.empty(words, dtype=torch.int32, device=x.device).fill_(1)

    return run


# --- Peers ------------------------------------------------------------------------------


def observer(case: Case, kind: str, **options: Any) -> Any:
    """A new observer of torch's quantization: it has seen nothing."""
    from torch.ao.quantization import observer as found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(found, kind)(**options)


def histogram_observer(case: Case) -> Count:
    def run(x: Tensor) -> Tensor:
        seen = observer(case, "HistogramObserver", bins=case.num_bins).to(x.device)
        seen(x)
        counts: Tensor = seen.histogram
        return counts

    return run


def histogram_observer_supports(case: Case) -> bool:
    return counts_values(case) and not told(case) and one_channel(case) and is_float(case)


def min_max_observer(case: Case) -> Count:
    """One for all values, or one that keeps a dimension."""
    kept = [d for d in range(len(case.shape)) if d not in case.dim]
    kind = "PerChannelMinMaxObserver" if kept else "MinMaxObserver"
    options = {"ch_axis": kept[0]} if kept else {}

    def run(x: Tensor) -> Any:
        seen = observer(case, kind, **options).to(x.device)
        seen(x)
        return seen.min_val, seen.max_val

    return run


def min_max_observer_supports(case: Case) -> bool:
    return case.bins == "extremes" and len(case.shape) - len(case.dim) <= 1


def var_mean(case: Case) -> Count:
    """What PyTorch has for the numbers of a summary, in float32 but for float64."""

    def run(x: Tensor) -> Any:
        wide = x if x.dtype == torch.float64 else x.float()
        var, mean = torch.var_mean(wide, case.dim)
        zeros, nan, inf = (found.sum(case.dim) for found in (x == 0, x.isnan(), x.isinf()))
        return nan, inf, zeros, x.amin(case.dim), x.amax(case.dim), mean, var

    return run


def with_number(case: Case, found: Any) -> Tensor:
    rows = torch.stack([f.flatten().double() for f in found], 1)
    number = torch.full_like(rows[:, :1], quantile_peers.elements(case))
    return torch.cat([number, rows], 1)


def np_histograms(case: Case) -> Count:
    """A loop over channels."""
    ends = list(ranges(case)) if told(case) else [None] * case.channels

    def run(x: Tensor) -> Tensor:
        channels = zip(each_channel(x, case), ends, strict=True)
        counts = [np.histogram(on_numpy(part), case.num_bins, pair)[0] for part, pair in channels]
        return torch.from_numpy(np.stack(counts))

    return run


def np_supports(case: Case) -> bool:
    return counts_values(case) and loops(case)


def takes_dims(peer: Peer) -> Callable[[Case], bool]:
    """torch.quantile and torch.kthvalue take one dimension."""
    takes_one = peer.name in ("torch.quantile", "torch.kthvalue")
    return lambda case: not takes_one or len(case.dim) == 1


COMPILED = 4
"""Layers. A compilation takes seconds."""


def is_compiled(peer: Peer) -> Callable[[Case], bool]:
    first = list(LAYERS.values())[:COMPILED]
    is_compiler = peer.name.startswith("torch.compile")
    return lambda case: not is_compiler or replace(case, bins="", num_bins=256) in first


def counts_floats(peer: Peer) -> bool:
    return peer.name not in (OURS, "channel_histogram")


def only(peer: Peer, *conditions: Callable[[Case], bool]) -> Peer:
    """The peer where all of these hold, too."""
    every = (*conditions, peer.supports)
    return replace(peer, supports=lambda case: all(holds(case) for holds in every))


LAYER_PEERS = [
    Peer(OURS, ours, devices=BOTH, finish=in_columns),
    *(only(p, counts_values, is_compiled(p)) for p in HISTOGRAM_PEERS if counts_floats(p)),
    *(only(p, asks_for("median"), takes_dims(p)) for p in QUANTILE_PEERS if p.name != OURS),
    Peer(
        "HistogramObserver",
        histogram_observer,
        histogram_observer_supports,
        devices=BOTH,
        captured=False,
        exact=False,
    ),
    Peer(
        "MinMaxObserver",
        min_max_observer,
        min_max_observer_supports,
        devices=BOTH,
        captured=False,
        exact=False,
        finish=in_columns,
    ),
    Peer(
        "var_mean, amin, amax, sum",
        var_mean,
        asks_for("summary"),
        devices=BOTH,
        exact=False,
        finish=with_number,
    ),
    Peer("np.histogram in a loop", np_histograms, np_supports, devices=CPU, exact=False),
]
