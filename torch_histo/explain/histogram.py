"""How a histogram is counted: the plan, and how the bins are found between these edges."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from .._arguments import (
    edges_or_number,
    is_plain,
    kept_dimensions,
    reduced_dimensions,
    tensor_or_shape,
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
    check_size,
    limits_for_plan,
    place_of,
    plan_on_gpu,
    target,
    without_channel,
)
from ._histogram_text import histogram_text
from ._plan_facts import BinSearch as BinSearch
from ._plan_facts import HistogramFacts
from ._plan_facts import WeightFacts as WeightFacts
from ._plan_facts import WrongEdge as WrongEdge

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, repr=False)
class HistogramExplanation(HistogramFacts):
    """A plan of `histogram`; its `repr()` and `str()` are the plan in words.

    Args:
        device: the GPU that it is for; None for the CPU.
        device_is_assumed: nobody named one, and the input is on no device.
        shape, dtype, dim, num_bins, flow: of the call; `dim` is empty for all dimensions.
        channels: of the input.
        edges: where these come from: "given", "range" or "extremes".
        edge_dtype: of the edges.
        shares_edges: all channels have the same edges.
        edges_lie: "evenly", "unevenly", or "" if nobody knows the edges. A few of those that are
            given tell: they lie evenly where they differ from a line by less than 1/64 of a bin.
        searches: how the bins of the channels are found; empty if nobody knows the edges, or if
            they are computed.
        computes_edges: on a GPU, a formula gives the bin, and the edges beside it are computed
            anew: no edge is read, so there is no search.
        layout: on a GPU "short" (channels so short that a warp or a block counts one after
            another, and finds its extremes in the same read), "teams" (teams of warps count
            longer channels one after another), "streams" (a block counts rows of one channel),
            "columns" (channels side by side; a block counts a stripe of columns), "stripes" (the
            same with shared or computed edges, in small tables, several blocks a multiprocessor),
            "bytes" (raw bytes are counted, and the sums mapped to bins), "tiles" (few rows; a
            block counts some channels) or "scattered" (element by element, in the result itself);
            on the CPU "staged" (elements become keys, which are counted) or "patterns" (the bits
            of elements are counted, and the sums mapped to bins); or "nothing to count".
        copies_input: the strides are rare, and PyTorch makes a contiguous copy first.
        keys: on the CPU, how the keys or patterns are counted, as `explain` has it.
        key_bytes: bytes of a key or pattern.
        raw_bytes: "bytes": how these are counted.
        vec16s: "short", "teams" and "streams": elements are loaded 16 bytes at a time.
        chunks, rows_per_block: teams or blocks across the rows of a channel; rows of a block at
            most.
        teams: "short" and "teams": those of a block, which share its threads.
        parts, part_bins, copies: "streams": the parts of a channel's bins; bins of each; copies
            of a table, which lanes take in turns, in "stripes", too.
        columns, rows, left: "columns" and "stripes": of a row, with those of joined rows; the
            joined rows; the elements behind the last one.
        batches, stripes, stripe_words, word_bytes: the same: sets of channels that lie apart;
            stripes of a row, how many words wide they are, and how many bytes a word has.
        blocks, threads, shared_bytes: the grid; threads and shared memory of a block.
        workspace_bytes: memory that is allocated besides the counts and the edges, and besides
            the copy.
        clears_counts: a kernel or a filling zeroes the counts first.
        steps: kernels and fillings with zeros in order. Where bins are a number, and the range is
            of numbers or None, those of extremes and edges are among them; otherwise the edges
            are there before.
        bytes_read, bytes_of_counts: the elements of the input; the result.
        weight: what the weights take, a `WeightFacts`; None without weights. `layout` and what
            belongs to it are those of counts: they hold where `weight.multiplies` these.
        bytes_moved: the least that moves to and from memory. Extremes take one more read, but not
            in short channels.
    """

    # The fields of HistogramFacts, here with the classes that print themselves in words.
    keys: CpuExplanation | None = None
    raw_bytes: Explanation | None = None

    def __repr__(self) -> str:
        return histogram_text(self)


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
    """Tells how `histogram` counts an input: the plan, and how a value's bin is found.

    The arguments are those of `histogram`; nothing is counted or printed, and no GPU needs to be
    present.
    A few of the edges that are given are read, which waits for the device that they are on.

    Args:
        input: a tensor, an array or an image, whose dtype, strides and alignment count, or the
            shape of a contiguous and aligned one, which is what a list is, too.
        bins, range, dim, channel_dim, density, flow: as in `histogram`. Without a range the
            edges lie evenly between the extremes of the data.
        weight: as in `histogram`; of a tensor, which may be a meta tensor, on any device, only the
            dtype and the sizes count.
        dtype: the dtype that goes with a shape; a tensor has its own.
        device: as in `explain`.

    Returns:
        The plan, a frozen dataclass. Its `repr()` is the plan in words.

    Raises:
        RuntimeError: what `histogram` would refuse, in the same words; a CUDA device where PyTorch
            finds no GPU.
        ValueError: a shape that is none, a device that is not known.
        TypeError: `input` is neither a tensor, an array nor a shape; an argument of a type that it
            does not take.

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
    input = tensor_or_shape("explain_histogram: input", input)
    if channel_dim is not None:
        input, dim = without_channel("explain_histogram", "histogram", input, dim, channel_dim)
    is_one_call = takes_one_call(bins, range) and (not isinstance(input, Tensor) or is_plain(input))
    is_one_call = is_one_call and weight is None
    bins = edges_or_number("histogram: bins", bins)
    if isinstance(input, Tensor) and (input.is_nested or input.layout != torch.strided):
        histogram(input)  # raises
    shape, strides, address, dtype = place_of("explain_histogram", input, dtype)
    dims, edges, source = _edges(input, shape, bins, range, dim, density, flow, dtype)
    num_bins = edges.shape[-1] - 1
    check_size("explain_histogram", shape, dtype, dims or (), num_bins)
    kept = [shape[d] for d in kept_dimensions(len(shape), dims or ())]
    limits, assumed = target(input, device)
    name = _name_of(dtype)
    plan = torch.ops.histo
    if isinstance(limits, Device):
        own_ranges = source == "extremes" if is_one_call else None
        text = plan._plan_histogram(
            _name_of(edges.dtype),
            edges.numel() == num_bins + 1,
            num_bins,
            name,
            shape,
            strides,
            address,
            dims,
            flow,
            **limits_for_plan(limits),
            own_ranges=own_ranges,
        )
    else:
        text = plan._plan_histogram_on_cpu(num_bins, name, shape, strides, dims, flow)
    facts: dict[str, Any] = json.loads(text)
    if "keys" in facts:  # on the CPU
        _add_keys(facts, _counted_keys(shape, dims, num_bins + (3 if flow else 0), facts))
    elif "raw_bytes" in facts["steps"] and isinstance(limits, Device):
        place = (shape, strides, address, torch.uint8, dims or ())
        _add_raw_bytes(facts, plan_on_gpu(*place, 256, limits, assumed))
    facts["steps"] = tuple(facts.get("steps", ()))
    if source == "extremes" and facts["layout"] != "short":
        facts["bytes_moved"] += facts["bytes_read"] * (3 if facts["copies_input"] else 1)
    lie = "evenly" if source != "given" else edges_lie(edges)
    by = facts.pop("bins_by", "").split(" or ")  # of even edges, and of others
    unknown_bins = facts.get("computes_edges") or not lie or facts["layout"] == "nothing to count"
    found = BinSearch(by[0] if lie == "evenly" else by[-1], math.prod(kept))
    facts["searches"] = () if unknown_bins else (found,)
    if weight is not None:
        taken = _weight_on_meta(input, shape, dtype, edges, dims, flow, weight)
        of_weight = _facts_of_weight(*taken, shape, dims)
        is_one = of_weight.calls == 1 and not of_weight.multiplies and math.prod(shape) > 0
        if isinstance(limits, Device) and is_one:
            summed = (list(shape), name, strides, int(address))
            sums = _plan_weights(summed, taken[0], edges, num_bins, dims, flow, limits)
            of_weight = replace(of_weight, **sums)
        facts["weight"] = of_weight
        facts["bytes_moved"] += facts["weight"].bytes_read
    return HistogramExplanation(
        limits if isinstance(limits, Device) else None,
        assumed,
        shape,
        dtype,
        tuple(dims or ()),
        num_bins,
        flow,
        math.prod(kept),
        source,
        edges.dtype,
        edges.numel() == num_bins + 1,
        lie,
        **facts,
    )


def _weight_on_meta(
    input: Tensor | Sequence[int],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    edges: Tensor,
    dims: list[int] | None,
    flow: bool,
    weight: Tensor | ArrayLike,
) -> tuple[Tensor, list[int]]:
    """The weight without its data, and the sizes of its digits. What `histogram` would refuse is
    an error in the same words."""
    like = input if isinstance(input, Tensor) else torch.empty(0, dtype=dtype)
    found = weight_of("histogram", weight, like)
    whole = torch.empty(shape, dtype=dtype, device="meta")
    try:
        digits = weighted_histogram(
            whole, edges.to("meta"), found.detach().to("meta"), dims, flow=flow
        )
    except (RuntimeError, TypeError) as error:
        raise_in_own_words(error, like, edges)
        raise
    return found, list(digits.shape)


def _facts_of_weight(
    weight: Tensor,
    sizes: list[int],
    shape: tuple[int, ...],
    dims: list[int] | None,
) -> WeightFacts:
    *kept, bins, size = sizes
    calls, most = groups_of_channels(kept, max(bins, 1) * size * 8)
    strides = weight.expand(shape).stride()
    reduced = reduced_dimensions(len(shape), dims or ())
    return WeightFacts(
        weight.dtype,
        tuple(weight.shape),
        size,
        calls,
        most,
        weight.numel() * weight.itemsize,
        multiplies=all(shape[d] == 1 or strides[d] == 0 for d in reduced),
    )


def _plan_weights(
    place: tuple[list[int], str, Sequence[int], int],
    weight: Tensor,
    edges: Tensor,
    num_bins: int,
    dims: list[int] | None,
    flow: bool,
    limits: Device,
) -> dict[str, Any]:
    """The plan of a GPU. Where the weights are on none, they are taken to be aligned."""
    address = weight.data_ptr() if weight.is_cuda else 0
    text = torch.ops.histo._plan_weights(
        _name_of(edges.dtype),
        edges.numel() == num_bins + 1,
        num_bins,
        *place,
        _name_of(weight.dtype),
        weight.expand(place[0]).stride(),
        address,
        dims,
        flow,
        **limits_for_plan(limits),
    )
    facts: dict[str, Any] = json.loads(text)
    return facts


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _add_keys(facts: dict[str, Any], keys: CpuExplanation) -> None:
    facts["keys"] = keys
    facts["workspace_bytes"] = facts.get("workspace_bytes", 0) + keys.workspace_bytes


def _add_raw_bytes(facts: dict[str, Any], counting: Explanation) -> None:
    steps = facts["steps"]
    if facts["layout"] == "bytes":
        facts["raw_bytes"] = counting
    facts["workspace_bytes"] += counting.workspace_bytes * steps.count("raw_bytes")
    kernels = [counting.steps if step == "raw_bytes" else (step,) for step in steps]
    facts["steps"] = list(chain.from_iterable(kernels))


def _counted_keys(
    shape: tuple[int, ...], dims: list[int] | None, num_keys: int, facts: dict[str, Any]
) -> CpuExplanation:
    if facts["layout"] == "patterns":
        num_keys = 256 ** facts["key_bytes"]
    return CpuExplanation(
        shape,
        {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}[facts.get("key_bytes", 1)],
        tuple(dims or ()),
        num_keys,
        copies_input=facts["copies_input"],
        bytes_read=0,  # keys are in a processor's caches
        bytes_of_counts=facts["bytes_of_counts"],
        **facts["keys"],
    )


def _edges(
    input: Tensor | Sequence[int],
    shape: tuple[int, ...],
    bins: int | Tensor,
    range: Range | None,
    dim: int | Sequence[int] | None,
    density: bool,
    flow: bool,
    dtype: torch.dtype,
) -> tuple[list[int] | None, Tensor, str]:
    """The dimensions, the edges, which are a meta tensor if nobody knows them, and where these
    come from."""
    if isinstance(input, Tensor) and not input.is_meta:
        like = input
    else:  # a tensor without data, where the edges are
        numbers = [bins, *pair_of(range)]
        devices = [number.device for number in numbers if isinstance(number, Tensor)]
        like = torch.empty(0, dtype=dtype, device=devices[0] if devices else "cpu")
    dims, wanted = checked_call(like, bins, range, dim, density, flow)
    source = "given" if isinstance(wanted, Tensor) else "range"
    if isinstance(wanted, UniformBins) and wanted.bounds is None:
        source = "extremes"
        if like is not input:
            like = torch.empty(shape, dtype=dtype, device="meta")
    try:
        check_counted("histogram", like, len(shape), dims)
        edges = edges_of(like, dims, wanted)
        check_call(like, shape, dims, edges)
    except (RuntimeError, TypeError) as error:
        raise_in_own_words(error, like, bins)
        raise
    return dims, edges, source


def edges_lie(edges: Tensor) -> str:
    """How they lie, by some 16 edges of 16 channels."""
    if edges.is_meta:
        return ""
    last = edges.shape[-1] - 1
    rows = edges.detach().reshape(-1, last + 1)
    rows = rows[:: max(1, len(rows) // 16)]
    places = torch.arange(0, last + 1, max(1, last // 16), device=edges.device)
    read = rows[:, torch.cat([places, places.new_tensor([last])])].double().cpu()
    places = torch.cat([places.cpu(), torch.tensor([last])]).double()
    low, high = read[:, :1], read[:, -1:]
    width = (high - low) / last
    is_even = ((low + places * width - read).abs() * 64 <= width) & (width > 0)
    return "evenly" if bool(is_even.all()) else "unevenly"
