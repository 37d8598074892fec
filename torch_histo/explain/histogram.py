"""How a histogram is counted: the plan, and how the bins are found between these edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from .._arguments import (
    all_but_channel,
    edges_or_number,
    is_plain,
    kept_sizes,
    name_of,
    reduced_dimensions,
    tensor_or_shape,
)
from .._histogram_rules import check_call, check_counted
from .._keywords import refuse_keyword
from .._one_call import takes_one_call
from .._ranges import Range, pair_of
from .._weight_operators import weighted_histogram
from ..devices import Device, target
from ..histograms import ARGUMENTS, checked_call, edges_of, histogram, raise_in_own_words
from ..weights import Dims, groups_of_channels, weight_of
from . import CpuExplanation, Explanation, check_counts, facts_of
from ._plan_facts import HOW, Plan
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
                told = [plan.facts.get(g, {}) for g in ("layout", "table", "grid", "threads")]
                groups[name] = {fact: value for group in told for fact, value in group.items()}
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
        input, dtype, device: as in `explain`, which has uint8 where a shape has float32 here.
        bins, range, dim, channel_dim, density, flow: as in `histogram`.
        weight: as in `histogram`; of a tensor, which may be a meta tensor, on any device, only the
            dtype and the sizes count.

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
    tensor = tensor_or_shape("explain_histogram", input, dtype)
    if channel_dim is not None:
        tensor, dim = all_but_channel("histogram", tensor, dim, channel_dim)
    is_one_call = takes_one_call(bins, range) and is_plain(tensor) and weight is None
    bins = edges_or_number("histogram: bins", bins)
    if tensor.is_nested or tensor.layout != torch.strided:
        histogram(tensor)  # raises
    dims, edges, source = _edges(tensor, bins, range, dim, density, flow)
    num_bins, shares_edges = edges.shape[-1] - 1, edges.numel() == edges.shape[-1]
    check_counts("explain_histogram", tensor, dims, num_bins)
    gpu, assumed = target(tensor, device)
    options: dict[str, Any] = {"num_bins": num_bins, "dim": dims, "flow": flow}
    own: dict[str, Any] = {}
    if gpu is not None:
        options |= {"edge_dtype": name_of(edges.dtype), "shared_edges": shares_edges}
        own = {"own_ranges": source == "extremes"} if is_one_call else {}
    facts = facts_of("histogram", tensor, gpu, **options, **own)
    shape, over = tuple(tensor.shape), tuple(dims or ())
    nested: dict[str, Any] = {}
    for name, kind in (("keys", CpuExplanation), ("raw_bytes", Explanation)):
        if name in facts:
            groups = facts.pop(name)
            counted = getattr(torch, groups.pop("dtype")), over, groups.pop("num_bins")
            nested[name] = kind(shape, *counted, groups, gpu, assumed)
    memory, layout, of_bins = facts["memory"], facts["layout"], facts.pop("bins", {})
    if source == "extremes" and layout["layout"] != "short":
        reads = 3 if memory["copies_input"] and not is_one_call else 1
        memory["bytes_moved"] += reads * memory["bytes_read"]
    if weight is not None:
        nested["weight"] = _facts_of_weight(tensor, edges, weight, density, options, gpu)
        memory["bytes_moved"] += nested["weight"].bytes_read
    lie = edges_lie(edges) if source == "given" else "evenly"
    channels = math.prod(kept_sizes(shape, dims))
    by = layout.pop("bins_by", "").split(" or ")  # between edges that lie evenly, and others
    if by[0] and not of_bins.get("computes_edges"):
        how = "" if not lie else by[0] if lie == "evenly" else by[-1]
        of_bins["bins"] = HOW[how]
        nested["searches"] = (BinSearch(how, channels),) if how else ()
    of_edges = {"edges": source, "edge_dtype": edges.dtype, "edges_lie": lie}
    of_edges["shares_edges"] = shares_edges
    facts = {"edges": of_edges, "bins": of_bins, **facts}
    call = shape, tensor.dtype, over, num_bins
    return HistogramExplanation(*call, facts, gpu, assumed, flow, channels, **nested)


def _facts_of_weight(
    input: Tensor, edges: Tensor, weight: Any, density: bool, options: Any, gpu: Device | None
) -> WeightFacts:
    """What `histogram` would refuse is an error in the same words."""
    dims, flow, taken = options["dim"], options["flow"], weight_of("histogram", weight, input)
    try:
        whole = torch.empty(input.shape, dtype=input.dtype, device="meta")
        on_meta = edges.to("meta"), taken.detach().to("meta")
        *kept, bins, size = weighted_histogram(whole, *on_meta, dims, flow=flow).shape
    except (RuntimeError, TypeError) as error:
        raise_in_own_words(error, input, edges)
        raise
    strides = taken.expand(input.shape).stride()
    calls, most = groups_of_channels(kept, max(bins, 1) * size * 8)
    reduced = reduced_dimensions(input.dim(), dims or ())
    facts = {
        "weights": f"{list(taken.shape)} {name_of(taken.dtype)}",
        "bytes_read": taken.nbytes,
        "multiplies": all(input.shape[d] == 1 or strides[d] == 0 for d in reduced),
        "sum_size": size,
        "calls": calls,
        "bytes_of_digits": most,
    }
    sums = {}
    if gpu is not None and input.numel() > 0:
        # Where the weights are on no GPU, they are taken to be aligned.
        options |= {"weight_address": taken.data_ptr() if taken.is_cuda else 0}
        options |= {"weight_dtype": name_of(taken.dtype), "weight_strides": strides}
        rounds = not density and not taken.requires_grad
        sums = facts_of("weights", input, gpu, **options, rounds=rounds)
        if sums["layout"] == "warps":  # which keep digits in shared memory
            facts |= {"calls": 1, "bytes_of_digits": 0}
        if facts["multiplies"] or facts["calls"] > 1:  # each call has its own plan
            sums = {}
    return WeightFacts(taken.dtype, tuple(taken.shape), {"weights": facts, "sums": sums})


def _edges(
    input: Tensor, bins: int | Tensor, range: Any, dim: int | Dims, density: bool, flow: bool
) -> tuple[list[int] | None, Tensor, str]:
    """The dimensions, the edges, which are a meta tensor if nobody knows them, and where these
    come from."""
    like = input
    if input.is_meta:  # a tensor where the edges are
        devices = [end.device for end in (bins, *pair_of(range)) if isinstance(end, Tensor)]
        like = torch.empty(0, dtype=input.dtype, device=devices[0] if devices else "cpu")
    dims, wanted = checked_call(like, bins, range, dim, density, flow)
    source = "given" if isinstance(wanted, Tensor) else "range" if wanted.bounds else "extremes"
    try:
        check_counted("histogram", like, input.dim(), dims)
        if source == "extremes":  # nothing is read to find them
            like = torch.empty(input.shape, dtype=input.dtype, device="meta")
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
