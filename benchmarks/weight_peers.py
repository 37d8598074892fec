"""The implementations that are measured beside weighted histograms. None of them is exact."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from bins import BINS, edge_dtype, edges_of, range_of
from cases import Case
from histogram_peers import (
    boost_supports,
    of_equal_width,
    on_numpy,
    one_shared,
    ranges,
    told,
    told_range,
)
from peers import BOTH, CPU, OURS, Count, Peer, address, library, one_channel
from torch import Tensor
from torch.utils.dlpack import from_dlpack
from weighted import Pair, parts, weight_dtype

from torch_histo import channel_histogram, histogram

# --- torch_histo ------------------------------------------------------------------------


def sums_of(case: Case, x: Tensor, weight: Tensor | None) -> Tensor:
    if not case.bins:
        return channel_histogram(x, case.num_bins, case.dim, weight=weight)
    bins = BINS[case.bins]
    if bins.edges is not None:
        return histogram(x, edges_of(case, x.device)[0], dim=case.dim, weight=weight).hist
    ends: Any = (bins.low, bins.high) if bins.told else None
    if bins.own:
        ends = range_of(case, x.device)
    return histogram(x, case.num_bins, range=ends, dim=case.dim, weight=weight).hist


def ours(case: Case) -> Count:
    return lambda pair: sums_of(case, *pair)


def shares_by_channel(case: Case) -> bool:
    return case.weight.endswith(("for all", "by channel"))


def counts_times_weight(case: Case) -> Count:
    """What a caller can do where a channel has one weight: it is rounded once, too."""
    kept = [d for d in range(len(case.shape)) if d not in case.dim]

    def run(pair: Pair) -> Tensor:
        weight = pair.weight
        own = weight.permute(*kept, *case.dim).flatten(len(kept)) if weight.dim() else weight
        return sums_of(case, pair.x, None) * own.double()

    return run  # type: ignore[return-value]


# --- PyTorch ----------------------------------------------------------------------------


def bucketize_bincount(case: Case) -> Count:
    """It adds float32 in float32, everything else in float64."""
    total = case.channels * (case.num_bins + 2)

    def run(pair: Pair) -> Tensor:
        sums = torch.zeros(total, dtype=torch.float64, device=pair.device)
        for place, weight in parts(case, pair):
            sums += torch.bincount(place, weight, minlength=total)
        return sums.view(case.channels, -1)[:, 1:-1]

    return run  # type: ignore[return-value]


def torch_compile(case: Case, method: str) -> Count:
    """Whole: one kernel finds the bins and adds, in the type of the weights."""
    slots = case.num_bins + 2

    def add(x: Tensor, weight: Tensor, low: Tensor, high: Tensor) -> Tensor:
        step = case.num_bins / (high - low)
        found = ((x - low) * step).clamp(max=case.num_bins - 1) + 1
        place = torch.where((x >= low) & (x <= high), found, 0).long().flatten()
        sums = torch.zeros(slots, dtype=weight.dtype, device=x.device)
        return getattr(sums, method)(0, place, weight.flatten())[1:-1]

    torch.compiler.reset()  # or else it gives up after a few cases
    compiled = torch.compile(add, dynamic=False, fullgraph=True)

    def run(pair: Pair) -> Tensor:
        low, high = (end.to(edge_dtype(case)) for end in range_of(case, pair.device))
        sums: Tensor = compiled(*pair, low, high)
        return sums

    return run  # type: ignore[return-value]


def compiles(case: Case) -> bool:
    """One case: a compilation takes seconds."""
    usual = (case.dtype, case.weight, case.num_bins) == ("float32", "float32", 256)
    return usual and one_shared(case) and told_range(case) and case.shape[0] > 1 << 16


# --- Other packages ---------------------------------------------------------------------


def numpy_like(module: str) -> Callable[[Case], Count]:
    """np.histogram and np.bincount, or CuPy's, in the dtype that these choose."""

    def prepare(case: Case) -> Count:
        numpy = __import__(module)
        own = edges_of(case, torch.device("cpu"))[0].numpy() if case.bins else None
        how: Any = case.num_bins if case.bins and of_equal_width(case) else own
        ends = (BINS[case.bins].low, BINS[case.bins].high) if case.bins and told(case) else None
        if module == "cupy" and own is not None and not of_equal_width(case):
            how = numpy.asarray(own)
        cast = (lambda x: numpy.from_dlpack(x)) if module == "cupy" else on_numpy

        def run(pair: Pair) -> Tensor:
            x, weight = cast(pair.x), cast(pair.weight.expand(pair.shape))
            if not case.bins:
                found = numpy.bincount(x, weights=weight, minlength=case.num_bins)
            else:
                found = numpy.histogram(x, how, ends if told_range(case) else None, weights=weight)[
                    0
                ]
            return from_dlpack(found) if module == "cupy" else torch.from_numpy(found)

        return run  # type: ignore[return-value]

    return prepare


def one_histogram(case: Case) -> bool:
    """CuPy knows no bfloat16. A weight for all is repeated, which takes time and memory."""
    return one_channel(case) and (not case.bins or one_shared(case))


def cupy_supports(case: Case) -> bool:
    known = (torch.float16, torch.float32, torch.float64, torch.int32, torch.int64)
    types = (case.torch_dtype, weight_dtype(case))
    return one_histogram(case) and case.weight in dir(torch) and all(t in known for t in types)


def boost_histogram(case: Case) -> Count:
    import boost_histogram as bh

    options = {"underflow": False, "overflow": False}
    axis: Any = bh.axis.Integer(0, case.num_bins, **options)
    if case.bins and of_equal_width(case):
        axis = bh.axis.Regular(case.num_bins, *next(ranges(case)), **options)
    elif case.bins:
        axis = bh.axis.Variable(edges_of(case, torch.device("cpu"))[0].numpy(), **options)

    def run(pair: Pair) -> Tensor:
        sums = bh.Histogram(axis, storage=bh.storage.Double())
        weight = on_numpy(pair.weight) if pair.weight.dim() else pair.weight.item()
        sums.fill(on_numpy(pair.x), weight=weight, threads=torch.get_num_threads())
        return torch.from_numpy(sums.view())

    return run  # type: ignore[return-value]


def loop_of_doubles(case: Case) -> Count:
    """Compiled, on one thread."""
    function = getattr(library("add_doubles.cpp"), f"add_{case.dtype}")
    low, high = map(ctypes.c_double, next(ranges(case)))

    def run(pair: Pair) -> Tensor:
        sums = torch.zeros(case.num_bins, dtype=torch.float64)
        size, bins = ctypes.c_int64(pair.x.numel()), ctypes.c_int64(case.num_bins)
        function(address(pair.x), address(pair.weight), size, low, high, bins, address(sums))
        return sums

    return run  # type: ignore[return-value]


def loop_supports(case: Case) -> bool:
    same = case.weight == case.dtype in ("float32", "float64")
    return same and one_histogram(case) and told_range(case)


# --- All of them ------------------------------------------------------------------------

WEIGHT_PEERS = [
    Peer(OURS, ours, devices=BOTH),
    Peer("histogram * weight", counts_times_weight, shares_by_channel, devices=BOTH),
    Peer(
        "bucketize + bincount(weights)",
        bucketize_bincount,
        devices=BOTH,
        captured=False,
        exact=False,
    ),
    Peer(
        "torch.compile(index_add_)",
        partial(torch_compile, method="index_add_"),
        compiles,
        exact=False,
    ),
    Peer(
        "torch.compile(scatter_add_)",
        partial(torch_compile, method="scatter_add_"),
        compiles,
        exact=False,
    ),
    Peer("cupy.histogram", numpy_like("cupy"), cupy_supports, captured=False, exact=False),
    Peer("np.histogram", numpy_like("numpy"), one_histogram, devices=CPU, exact=False),
    Peer(
        "boost-histogram",
        boost_histogram,
        lambda case: one_histogram(case) and (not case.bins or boost_supports(case)),
        devices=CPU,
        exact=False,
    ),
    Peer("C++ loop of doubles", loop_of_doubles, loop_supports, devices=CPU, exact=False),
]
