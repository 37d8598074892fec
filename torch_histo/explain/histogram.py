"""How a histogram is counted: the plan, and how the bins are found between these edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from .._arguments import (
    all_but_channel,
    edges_or_number,
    is_plain,
    kept_dimensions,
    reduced_dimensions,
)
from .._histogram_rules import check_call, check_counted
from .._keywords import refuse_keyword
from .._one_call import takes_one_call
from .._ranges import Range, pair_of
from .._weight_operators import weighted_histogram
from ..devices import Device
from ..histograms import (
    ARGUMENTS,
    UniformBins,
    checked_call,
    edges_of,
    histogram,
    raise_in_own_words,
)
from ..weights import groups_of_channels, weight_of
from . import (
    CpuExplanation,
    Explanation,
    address_of,
    call_of,
    check_counts,
    described,
    facts_of,
    place_of,
    target,
)
from ._plan_facts import HOW, Plan, name_of
from ._plan_facts import BinSearch as BinSearch
from ._plan_facts import WeightFacts as WeightFacts
from ._plan_facts import WrongEdge as WrongEdge

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, repr=False)
class HistogramExplanation(Plan):
    """A plan of `histogram`; its `repr()` and `str()` are the plan in words.

    Each fact of `facts` is an attribute, too; docs/profiling.md says what they mean. `searches`:
    how bins are found; empty for edges on the meta device, and for those that are computed. `keys`:
    how the keys or patterns of the CPU are counted; `raw_bytes`: the same of raw bytes on a GPU;
    `weight`: what weights take. These are None where there are none.
    """

    flow: bool = False
    channels: int = 1
    searches: tuple[BinSearch, ...] = ()
    keys: CpuExplanation | None = None
    raw_bytes: Explanation | None = None
    weight: WeightFacts | None = None

    def __repr__(self) -> str:
        groups = dict(self.facts)
        for name, plan in (("keys", self.keys), ("raw bytes", self.raw_bytes)):
            if plan is not None:
                parts = [
                    plan.facts.get(group, {}) for group in ("layout", "table", "grid", "threads")
                ]
                groups[name] = dict(chain.from_iterable(part.items() for part in parts))
        if self.weight is not None:
            if not self.weight.multiplies:  # sums have a layout of their own
                for group in ("layout", "table", "grid", "launches", "keys", "raw bytes"):
                    groups.pop(group, None)
            groups |= self.weight.facts
        return self._text("histogram", groups)


def explain_histogram(
    input: Tensor | ArrayLike | Sequence[int],
    bins: int | Tensor | ArrayLike = 256,
    *,
    range: Range | None = None,
    dim: int | Sequence[int] | None = None,
    channel_dim: int | None = None,
    density: bool = False,
    flow: bool = False,
    weight: Tensor | ArrayLike | None = None,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device | Device | None = None,
    **unknown: NoReturn,
) -> HistogramExplanation:
    """Tells how `histogram` counts an input: the plan, and how a value's bin is found. Nothing is
    counted or printed, and no GPU needs to be present. A few of the edges that are given are read,
    which waits for the device that they are on.

    Args:
        input: a tensor, an array or an image, whose dtype, strides and alignment count, or the
            shape of a contiguous and aligned one, which is what a list is, too.
        bins, range, dim, channel_dim, density, flow: as in `histogram`.
        weight: as in `histogram`; of a tensor, which may be a meta tensor, on any device, only the
            dtype and the sizes count.
        dtype: the dtype that goes with a shape; a tensor has its own.
        device: as in `explain`.

    Raises:
        RuntimeError, TypeError: what `histogram` would refuse, in the same words.
        Others are those of `explain`.

    Example:
        >>> plan = torch_histo.explain_histogram(
        ...     (1 << 19, 512), 256, range=(-3, 3), dim=0, device="H100"
        ... )
        >>> plan.layout, plan.searches[0].how
        ('columns', 'formula')
        >>> torch_histo.explain_histogram(torch.rand(100), torch.tensor([0.0, 0.5, 2.0])).edges_lie
        'unevenly'
    """
    if unknown:
        refuse_keyword("explain_histogram", unknown, (*ARGUMENTS, "dtype", "device"))
    tensor = described("explain_histogram", input, dtype)
    if channel_dim is not None:
        tensor, dim = all_but_channel("histogram", tensor, dim, channel_dim)
    is_one_call = takes_one_call(bins, range) and is_plain(tensor) and weight is None
    bins = edges_or_number("histogram: bins", bins)
    if tensor.is_nested or tensor.layout != torch.strided:
        histogram(tensor)  # raises
    dims, edges, source = _edges(tensor, bins, range, dim, density, flow)
    num_bins = edges.shape[-1] - 1
    check_counts("explain_histogram", tensor, dims, num_bins)
    limits, assumed = target(tensor, device)
    gpu = limits if isinstance(limits, Device) else None
    call, place = call_of(tensor, dims, num_bins), place_of(tensor)
    nested: dict[str, Any] = {}
    if gpu is None:
        facts = facts_of("histogram_on_cpu", num_bins, *place, dims, flow)
        nested["keys"] = _counted_keys(call, flow, facts)
    else:
        own = {"own_ranges": source == "extremes"} if is_one_call else {}
        where = *_kind(edges), num_bins, *place, address_of(tensor)
        facts = facts_of("histogram", *where, dims, flow, limits=gpu, **own)
        if "raw_bytes" in facts:
            counted = call[0], torch.uint8, call[2], 256, facts.pop("raw_bytes")
            nested["raw_bytes"] = Explanation(*counted, gpu, assumed)
    memory = facts["memory"]
    if source == "extremes" and facts["layout"]["layout"] != "short":
        memory["bytes_moved"] += memory["bytes_read"] * (
            3 if memory["copies_input"] and not is_one_call else 1
        )
    if weight is not None:
        nested["weight"] = found = _facts_of_weight(tensor, edges, dims, flow, weight, density, gpu)
        memory["bytes_moved"] += found.bytes_read
    lie = "evenly" if source != "given" else edges_lie(edges)
    channels = math.prod(tensor.shape[d] for d in kept_dimensions(tensor.dim(), dims or ()))
    searches, of_bins = _searches(facts["layout"], facts.pop("bins", {}), lie, channels)
    of_edges = {"edges": source, "edge_dtype": edges.dtype, "edges_lie": lie}
    of_edges["shares_edges"] = edges.numel() == num_bins + 1
    facts = {"edges": of_edges, "bins": of_bins, **facts}
    return HistogramExplanation(*call, facts, gpu, assumed, flow, channels, searches, **nested)


def _kind(edges: Tensor) -> tuple[str, bool]:
    """The type of edges, and whether channels share them."""
    return name_of(edges.dtype), edges.numel() == edges.shape[-1]


def _counted_keys(call: Any, flow: bool, facts: dict[str, Any]) -> CpuExplanation:
    """How keys, or patterns, are counted."""
    shape, _, dims, num_bins = call
    layout = facts["layout"]
    size = layout.get("key_bytes", 1)
    keys = 256**size if layout["layout"] == "patterns" else num_bins + (3 if flow else 0)
    dtype = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}[size]
    return CpuExplanation(shape, dtype, dims, keys, facts.pop("keys"))


def _searches(
    layout: dict[str, Any], facts: dict[str, Any], lie: str, channels: int
) -> tuple[tuple[BinSearch, ...], dict[str, Any]]:
    """How bins are found, and the facts of this."""
    by = layout.pop("bins_by", "").split(" or ")  # between edges that lie evenly, and others
    how = by[0] if lie == "evenly" else by[-1]
    if not how or facts.get("computes_edges"):
        return (), facts
    if not lie:
        return (), facts | {"bins": "unknown: only data tell the edges"}
    return (BinSearch(how, channels),), facts | {"bins": HOW[how]}


def _facts_of_weight(
    input: Tensor,
    edges: Tensor,
    dims: list[int] | None,
    flow: bool,
    weight: Tensor | ArrayLike,
    density: bool,
    gpu: Device | None,
) -> WeightFacts:
    """What `histogram` would refuse is an error in the same words."""
    shape = tuple(input.shape)
    taken = weight_of("histogram", weight, input)
    try:
        whole = torch.empty(shape, dtype=input.dtype, device="meta")
        on_meta = edges.to("meta"), taken.detach().to("meta")
        *kept, bins, size = weighted_histogram(whole, *on_meta, dims, flow=flow).shape
    except (RuntimeError, TypeError) as error:
        raise_in_own_words(error, input, edges)
        raise
    strides = taken.expand(shape).stride()
    calls, most = groups_of_channels(kept, max(bins, 1) * size * 8)
    reduced = reduced_dimensions(len(shape), dims or ())
    facts = {
        "weights": f"{list(taken.shape)} {name_of(taken.dtype)}",
        "bytes_read": taken.numel() * taken.itemsize,
        "multiplies": all(shape[d] == 1 or strides[d] == 0 for d in reduced),
        "sum_size": size,
        "calls": calls,
        "bytes_of_digits": most,
    }
    sums = {}
    if gpu is not None and math.prod(shape) > 0:
        dtype, _, input_strides = place_of(input)
        samples = shape, dtype, input_strides, address_of(input)
        # Where the weights are on no GPU, they are taken to be aligned.
        weights = name_of(taken.dtype), strides, taken.data_ptr() if taken.is_cuda else 0
        of_edges = *_kind(edges), edges.shape[-1] - 1
        rounds = not density and not taken.requires_grad
        sums = facts_of("weights", *of_edges, *samples, *weights, dims, flow, rounds, limits=gpu)
        if sums["layout"] == "warps":  # which keep digits in shared memory
            facts |= {"calls": 1, "bytes_of_digits": 0}
        if facts["multiplies"] or facts["calls"] > 1:  # each call has its own plan
            sums = {}
    return WeightFacts(taken.dtype, tuple(taken.shape), {"weights": facts, "sums": sums})


def _edges(
    input: Tensor,
    bins: int | Tensor,
    range: Range | None,
    dim: int | Sequence[int] | None,
    density: bool,
    flow: bool,
) -> tuple[list[int] | None, Tensor, str]:
    """The dimensions, the edges, which are a meta tensor if nobody knows them, and where these
    come from."""
    like = input
    if input.is_meta:  # a tensor where the edges are
        numbers = [bins, *pair_of(range)]
        devices = [number.device for number in numbers if isinstance(number, Tensor)]
        like = torch.empty(0, dtype=input.dtype, device=devices[0] if devices else "cpu")
    dims, wanted = checked_call(like, bins, range, dim, density, flow)
    source = "given" if isinstance(wanted, Tensor) else "range"
    if isinstance(wanted, UniformBins) and wanted.bounds is None:
        source, like = "extremes", input
    try:
        check_counted("histogram", like, input.dim(), dims)
        edges = edges_of(like, dims, wanted)
        check_call(like, input.shape, dims, edges)
    except (RuntimeError, TypeError) as error:
        raise_in_own_words(error, like, bins)
        raise
    return dims, edges, source


def edges_lie(edges: Tensor) -> str:
    """How, by some 16 edges of 16 channels: evenly if each is within 1/64 of a bin of a line."""
    if edges.is_meta:
        return ""
    last = edges.shape[-1] - 1
    rows = edges.detach().reshape(-1, last + 1)
    rows = rows[:: max(1, len(rows) // 16)]
    places = torch.tensor([*range(0, last, max(1, last // 16)), last])
    read = rows[:, places.to(edges.device)].double().cpu()
    width = (read[:, -1:] - read[:, :1]) / last
    is_even = ((read[:, :1] + places * width - read).abs() * 64 <= width) & (width > 0)
    return "evenly" if bool(is_even.all()) else "unevenly"
