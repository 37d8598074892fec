"""The implementations that are measured beside histogram."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import repeat
from typing import Any

import torch
from bins import BINS, edge_dtype, edges_of, extreme_edges, is_float, range_of
from cases import Case
from peers import (
    BOTH,
    CPU,
    OURS,
    PART_ELEMENTS,
    Count,
    Peer,
    compile_supports,
    cub,
    cub_even_supports,
    each_channel,
    loops,
    one_channel,
)
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from torch_histo import channel_histogram, histogram

# --- torch_histo ------------------------------------------------------------------------


def ours(case: Case) -> Count:
    bins = BINS[case.bins]

    def run(x: Tensor) -> Tensor:
        if bins.edges is not None:
            edges = edges_of(case, x.device)
            shape = [n for d, n in enumerate(case.shape) if d not in case.dim] if bins.own else []
            return histogram(x, edges.view(*shape, -1), dim=case.dim).hist
        ends: Any = (bins.low, bins.high) if bins.told else None
        if bins.own:
            ends = range_of(case, x.device)
        return histogram(x, case.num_bins, range=ends, dim=case.dim).hist

    return run


def of_bytes(case: Case) -> bool:
    return case.dtype == "uint8"


def bytes_into_bins(case: Case, counts: Tensor) -> Tensor:
    """Counts of bytes [channels, 256], added into the bins."""
    edges = closed_edges(case, counts.device)
    values = torch.arange(256, dtype=edges.dtype, device=counts.device).repeat(len(edges), 1)
    places = torch.searchsorted(edges, values, right=True).expand_as(counts)
    return counts.new_zeros(len(counts), case.num_bins + 2).scatter_add_(1, places, counts)[:, 1:-1]


# --- PyTorch ----------------------------------------------------------------------------


def by_channels(x: Tensor, case: Case) -> Tensor:
    """[channels, elements]"""
    kept = [d for d in range(x.dim()) if d not in case.dim]
    return x.permute(*kept, *case.dim).reshape(case.channels, -1)


@cache
def closed_edges(case: Case, device: torch.device) -> Tensor:
    return closed(edges_of(case, device))


def closed(edges: Tensor) -> Tensor:
    """The last one is moved to the next number: then the last bin is as open as the others."""
    edges = edges.clone()
    edges[:, -1] = edges[:, -1].nextafter(edges.new_tensor(torch.inf))
    return edges


def places(x: Tensor, case: Case) -> Iterator[Tensor]:
    """channel * (num_bins + 2) + how many edges each value reaches. In parts, so that they fit."""
    offsets = torch.arange(case.channels, dtype=torch.int32, device=x.device) * (case.num_bins + 2)
    told = BINS[case.bins].told
    if told and not BINS[case.bins].own:
        (edges,) = closed_edges(case, x.device)
        offsets = offsets.view(case.kept)
        rows = max(1, PART_ELEMENTS // x[0].numel())
        for start in range(0, len(x), rows):
            values = x[start : start + rows].to(edges.dtype)
            found = torch.bucketize(values, edges, right=True, out_int32=True)
            yield found.add_(offsets if len(offsets) == 1 else offsets[start : start + rows])
        return
    channels = by_channels(x, case)
    edges = closed_edges(case, x.device) if told else closed(extreme_edges(case, channels))
    for part in channels.split(max(1, PART_ELEMENTS // case.channels), 1):
        values = part.to(edges.dtype).contiguous()
        yield torch.searchsorted(edges, values, right=True, out_int32=True).add_(offsets[:, None])


def bucketize_bincount(case: Case) -> Count:
    """Exact: edges and values are compared in a type that holds both."""
    total = case.channels * (case.num_bins + 2)

    def run(x: Tensor) -> Tensor:
        counts = torch.zeros(total, dtype=torch.int64, device=x.device)
        for part in places(x, case):
            counts += torch.bincount(part.flatten(), minlength=total)
        return counts.view(case.channels, -1)[:, 1:-1]

    return run


def torch_compile(case: Case) -> Count:
    """Whole: one kernel finds the bins and adds. Bins of equal width are computed."""
    bins = BINS[case.bins]
    slots = case.num_bins + 2

    def count(x: Tensor, edges: Tensor, low: Tensor, high: Tensor) -> Tensor:
        values = x.to(edge_dtype(case))
        if bins.edges is not None:
            place = torch.bucketize(values, edges[0], right=True)
        else:
            step = case.num_bins / (high - low)
            found = ((values - low) * step).clamp(max=case.num_bins - 1) + 1
            place = torch.where((values >= low) & (values <= high), found, 0).long()
        if case.channels > 1:
            channels = torch.arange(case.channels, device=x.device).view(case.kept)
            place = place + channels * slots
        counts = torch.zeros(case.channels * slots, dtype=torch.int32, device=x.device)
        ones = counts.new_ones(()).expand(place.numel())
        return counts.index_add_(0, place.flatten(), ones).view(case.channels, -1)[:, 1:-1]

    torch.compiler.reset()  # or else it gives up after a few cases
    compiled = torch.compile(count, dynamic=False, fullgraph=True)

    def run(x: Tensor) -> Tensor:
        ends = (end.to(edge_dtype(case)) for end in range_of(case, x.device))
        low, high = (end.view(case.kept) if bins.own else end for end in ends)
        counts: Tensor = compiled(x, closed_edges(case, x.device), low, high)
        return counts

    return run


def compiles(case: Case) -> bool:
    """Some: a compilation takes seconds."""
    few = case.num_bins <= 256 and (case.channels > 1 or case.dtype == "float32")
    own_edges = BINS[case.bins].own and not of_equal_width(case)
    return few and told(case) and not own_edges and compile_supports(case)


def told(case: Case) -> bool:
    return BINS[case.bins].told


def told_range(case: Case) -> bool:
    return told(case) and of_equal_width(case)


def of_equal_width(case: Case) -> bool:
    return BINS[case.bins].edges is None


def one_shared(case: Case) -> bool:
    return one_channel(case) and not BINS[case.bins].own


def ranges(case: Case) -> Iterator[tuple[float, float]]:
    """The range of each channel in turn, as numbers."""
    low, high = (end.flatten().tolist() for end in range_of(case, torch.device("cpu")))
    pairs = list(zip(low, high, strict=True))
    yield from pairs if BINS[case.bins].own else repeat(pairs[0], case.channels)


def torch_histc(case: Case, dtype: torch.dtype | None = None) -> Count:
    """A loop over channels. With no range it takes that of the values."""
    ends = list(ranges(case)) if told(case) else [(0, 0)] * case.channels
    floats = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
    dtype = dtype or (case.torch_dtype if case.torch_dtype in floats else torch.float32)

    def run(x: Tensor) -> Tensor:
        channels = zip(each_channel(x, case), ends, strict=True)
        return torch.stack(
            [torch.histc(part.to(dtype), case.num_bins, *pair) for part, pair in channels]
        )

    return run


def histc_supports(case: Case) -> bool:
    return of_equal_width(case) and (one_channel(case) or loops(case))


def of_16_bits(case: Case) -> bool:
    return is_float(case) and case.torch_dtype.itemsize == 2 and histc_supports(case)


def torch_histogram(case: Case) -> Count:
    bins = BINS[case.bins]
    if bins.edges is not None:
        edges = edges_of(case, torch.device("cpu"))[0]
        return lambda x: torch.histogram(x.to(edges.dtype), edges).hist
    ends = (bins.low, bins.high) if bins.told else None
    dtype = edge_dtype(case)
    return lambda x: torch.histogram(x.to(dtype), case.num_bins, range=ends).hist


# --- CUB --------------------------------------------------------------------------------


def cub_floats(case: Case) -> bool:
    return case.dtype in ("float32", "float64") and told(case)


def cub_even(case: Case) -> Count:
    ends = torch.tensor(list(ranges(case)), dtype=torch.float64)
    return cub(case, "histogram_even_floats", 1, ends, case.torch_dtype.itemsize)


def cub_even_floats(case: Case) -> bool:
    return cub_floats(case) and of_equal_width(case) and cub_even_supports(case)


def cub_range(case: Case) -> Count:
    edges = edges_of(case, torch.device("cuda"))
    return cub(case, "histogram_range", 1, edges, case.torch_dtype.itemsize)


def cub_range_supports(case: Case) -> bool:
    return cub_floats(case) and one_shared(case)


# --- Other packages ---------------------------------------------------------------------


def cupy_histogram(case: Case) -> Count:
    import cupy

    bins = BINS[case.bins]
    edges = edges_of(case, torch.device("cuda"))[0] if bins.edges is not None else None
    how: Any = case.num_bins if edges is None else cupy.from_dlpack(edges)
    ends = (bins.low, bins.high) if told_range(case) else None
    return lambda x: from_dlpack(cupy.histogram(cupy.from_dlpack(x), how, ends)[0])


def on_numpy(x: Tensor) -> Any:
    """NumPy has no bfloat16 and no float8."""
    wide = x.dtype.is_floating_point and x.dtype not in (torch.float32, torch.float64)
    return (x.float() if wide else x).numpy()


def np_histogram(case: Case) -> Count:
    import numpy as np

    bins = BINS[case.bins]
    own: Any = edges_of(case, torch.device("cpu"))[0].numpy()
    how = case.num_bins if bins.edges is None else own
    ends = (bins.low, bins.high) if told_range(case) else None
    return lambda x: torch.from_numpy(np.histogram(on_numpy(x), how, ends)[0])


def fast_histogram(case: Case) -> Count:
    from fast_histogram import histogram1d

    ends = next(ranges(case))
    return lambda x: torch.from_numpy(histogram1d(on_numpy(x), case.num_bins, ends))


def fast_histogram_supports(case: Case) -> bool:
    return one_shared(case) and told_range(case)


def boost_histogram(case: Case) -> Count:
    import boost_histogram as bh

    edges = edges_of(case, torch.device("cpu"))[0].numpy()
    options = {"underflow": False, "overflow": False}
    axis: Any = (
        bh.axis.Regular(case.num_bins, *next(ranges(case)), **options)
        if of_equal_width(case)
        else bh.axis.Variable(edges, **options)
    )

    def run(x: Tensor) -> Tensor:
        counts = bh.Histogram(axis, storage=bh.storage.Int64())
        counts.fill(on_numpy(x), threads=torch.get_num_threads())
        return torch.from_numpy(counts.view())

    return run


def boost_supports(case: Case) -> bool:
    return one_shared(case) and told(case)


# --- All of them ------------------------------------------------------------------------

HISTOGRAM_PEERS = [
    Peer(OURS, ours, devices=BOTH),
    Peer(
        "channel_histogram",
        lambda case: partial(channel_histogram, dim=case.dim),
        of_bytes,
        devices=BOTH,
        finish=bytes_into_bins,
    ),
    Peer("CUB HistogramEven", cub_even, cub_even_floats, exact=False),
    Peer("CUB HistogramRange", cub_range, cub_range_supports, exact=False),
    Peer("torch.compile(index_add_)", torch_compile, compiles, exact=False),
    Peer("bucketize + bincount", bucketize_bincount, devices=BOTH, captured=False),
    Peer("torch.histc", torch_histc, histc_supports, devices=BOTH, captured=False, exact=False),
    Peer(
        "torch.histc of float32",
        partial(torch_histc, dtype=torch.float32),
        of_16_bits,
        devices=BOTH,
        captured=False,
        exact=False,
    ),
    Peer("cupy.histogram", cupy_histogram, one_shared, captured=False, exact=False),
    Peer("torch.histogram", torch_histogram, one_shared, devices=CPU, exact=False),
    Peer("np.histogram", np_histogram, one_shared, devices=CPU),
    Peer("fast-histogram", fast_histogram, fast_histogram_supports, devices=CPU, exact=False),
    Peer("boost-histogram", boost_histogram, boost_supports, devices=CPU, exact=False),
]
