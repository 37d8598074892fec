"""The implementations that are measured beside histogramdd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from bins import BINS, edge_dtype, range_of
from cases import Case
from histogram_peers import on_numpy, told, told_range
from joint import Points, axes, bucketize_bincount
from peers import BOTH, CPU, OURS, Count, Peer, one_channel
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from torch_histo import histogramdd


def ranges(case: Case) -> list[tuple[float, float]] | None:
    """The range of each axis."""
    if not told(case):
        return None
    return [(BINS[axis.bins].low, BINS[axis.bins].high) for axis in axes(case)]


def numbers_of_bins(case: Case) -> list[int]:
    return [case.num_bins] * len(axes(case))


def ours(case: Case) -> Count:
    ends = ranges(case)
    return lambda points: histogramdd(points.sample, case.num_bins, range=ends, dim=case.dim).hist


# --- PyTorch ----------------------------------------------------------------------------


def torch_compile(case: Case) -> Count:
    """Whole: one kernel finds the bins and adds."""
    every, n = axes(case), case.num_bins

    def count(xs: list[Tensor], ends: list[tuple[Tensor, Tensor]]) -> Tensor:
        place: Any = 0
        is_inside: Any = True
        for x, (low, high) in zip(xs, ends, strict=True):
            found = ((x - low) * (n / (high - low))).clamp(0, n - 1).long()
            place = place * n + found
            is_inside = is_inside & (x >= low) & (x <= high)
        place = torch.where(is_inside, place, n ** len(xs)).flatten()
        counts = torch.zeros(n ** len(xs) + 1, dtype=torch.int32, device=place.device)
        return counts.index_add_(0, place, counts.new_ones(()).expand(len(place)))[:-1]

    torch.compiler.reset()  # or else it gives up after a few cases
    compiled = torch.compile(count, dynamic=False, fullgraph=True)

    def run(points: Points) -> Tensor:
        ends = [
            tuple(end.to(edge_dtype(axis)) for end in range_of(axis, points.device))
            for axis in every
        ]
        counts: Tensor = compiled(points.coordinates, ends)
        return counts

    return run  # type: ignore[return-value]


def compiles(case: Case) -> bool:
    """Some: a compilation takes seconds."""
    usual = (case.dtype, case.beside) == ("float32", "float32") and case.num_bins in (64, 1024)
    return usual and one_channel(case) and told_range(case)


def torch_histogramdd(case: Case) -> Count:
    """It takes one tensor of floats. Making it of several belongs to the call."""
    own = [edge_dtype(axis) for axis in axes(case)]
    dtype = torch.float64 if torch.float64 in own else torch.float32
    ends = ranges(case)
    flat = None if ends is None else [end for pair in ends for end in pair]

    def run(points: Points) -> Tensor:
        sample = points.sample
        if not isinstance(sample, Tensor):
            sample = torch.stack([x.to(dtype) for x in sample], -1)
        counts: Tensor = torch.histogramdd(sample, numbers_of_bins(case), range=flat).hist
        return counts

    return run  # type: ignore[return-value]


# --- Other packages ---------------------------------------------------------------------


def numpy_like(module: str) -> Callable[[Case], Count]:
    """np.histogram2d of two coordinates and np.histogramdd of more, or CuPy's."""

    def prepare(case: Case) -> Count:
        numpy = __import__(module)
        cast = numpy.from_dlpack if module == "cupy" else on_numpy
        back: Any = from_dlpack if module == "cupy" else torch.from_numpy
        bins, ends = numbers_of_bins(case), ranges(case)

        def run(points: Points) -> Tensor:
            xs = [cast(x) for x in points.coordinates]
            if len(xs) == 2:
                return back(numpy.histogram2d(*xs, bins, ends)[0])
            sample = cast(points.sample) if points.in_one else numpy.stack(xs, -1)
            return back(numpy.histogramdd(sample, bins, ends)[0])

        return run  # type: ignore[return-value]

    return prepare


def cupy_supports(case: Case) -> bool:
    """It knows no bfloat16."""
    return one_channel(case) and all(axis.dtype != "bfloat16" for axis in axes(case))


def fast_histogram(case: Case) -> Count:
    from fast_histogram import histogram2d, histogramdd

    bins, ends = numbers_of_bins(case), ranges(case)
    count: Any = (
        (lambda xs: histogram2d(*xs, bins, ends))
        if len(bins) == 2
        else (lambda xs: histogramdd(xs, bins, ends))
    )

    def run(points: Points) -> Tensor:
        return torch.from_numpy(count([on_numpy(x) for x in points.coordinates]))

    return run  # type: ignore[return-value]


def fast_histogram_supports(case: Case) -> bool:
    """Integers would be copied as float64."""
    return one_channel(case) and told(case)


def boost_histogram(case: Case) -> Count:
    import boost_histogram as bh

    bins, ends = numbers_of_bins(case), ranges(case) or []
    options = {"underflow": False, "overflow": False}
    every = [bh.axis.Regular(n, *pair, **options) for n, pair in zip(bins, ends, strict=True)]

    def run(points: Points) -> Tensor:
        counts = bh.Histogram(*every, storage=bh.storage.Int64())
        xs = [on_numpy(x) for x in points.coordinates]
        counts.fill(*xs, threads=torch.get_num_threads())
        return torch.from_numpy(counts.view())

    return run  # type: ignore[return-value]


# --- All of them ------------------------------------------------------------------------

JOINT_PEERS = [
    Peer(OURS, ours, devices=BOTH),
    Peer(
        "bucketize + bincount",
        bucketize_bincount,
        lambda case: case.num_bins <= 64,
        devices=BOTH,
        captured=False,
    ),
    Peer("torch.compile(index_add_)", torch_compile, compiles, exact=False),
    Peer("cupy.histogramdd", numpy_like("cupy"), cupy_supports, captured=False, exact=False),
    Peer("torch.histogramdd", torch_histogramdd, one_channel, devices=CPU, exact=False),
    Peer("np.histogramdd", numpy_like("numpy"), one_channel, devices=CPU, exact=False),
    Peer("fast-histogram", fast_histogram, fast_histogram_supports, devices=CPU, exact=False),
    Peer("boost-histogram", boost_histogram, fast_histogram_supports, devices=CPU, exact=False),
]
