"""How an input is counted: the plan of the engine, in facts and in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from .._arguments import (
    FIRST,
    all_but_channel,
    dimensions,
    edges_or_number,
    has_values,
    is_plain,
    name_of,
    number_of_bins,
    tensor_or_shape,
)
from .._histogram_rules import on_meta
from .._keywords import refuse_keyword
from .._one_call import takes_one_call
from .._ranges import Range
from .._weight_operators import sum_size
from ..devices import Device, numbers_of, target
from ..histograms import ARGUMENTS, are_edges, counted_on_meta, histogram
from ..ops import channel_histogram, without_channel
from ..weights import groups_of_channels, weight_of
from ._plan_facts import SEARCHES, BinSearch, Plan, WeightFacts
from ._plan_facts import WrongEdge as WrongEdge

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, repr=False)
class Explanation(Plan):
    """A plan of `channel_histogram` on a GPU; its `repr()` and `str()` are the plan in words.

    Each fact of `facts` is an attribute, too; docs/profiling.md says what they mean. A fact that
    only other layouts have is 0. `device_is_assumed`: nobody named one, and the input is on none.
    """


@dataclass(frozen=True, repr=False)
class CpuExplanation(Plan):
    """The same on the CPU. `device` is None."""


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
                others = {"edges", "bins", "memory", "processor"}
                groups = {name: facts for name, facts in groups.items() if name in others}
            groups |= self.weight.facts
        return self._text("histogram", groups)


def explain(
    input: Tensor | ArrayLike | Sequence[int],
    num_bins: int | None = None,
    dim: int | Sequence[int] | None = FIRST,
    *,
    channel_dim: int | None = None,
    dtype: torch.dtype = torch.uint8,
    device: str | torch.device | Device | None = None,
    bins: int | None = None,
    **unknown: NoReturn,
) -> Explanation | CpuExplanation:
    """Tells how `channel_histogram` counts an input: layout, tables, grid, launches, memory, and
    the least time that memory takes. Nothing is counted or printed, and no GPU is needed.

    Args:
        input: a tensor, an array or an image, whose dtype, strides and alignment count, or the
            shape of a contiguous and aligned one, which is what a list is, too.
        num_bins, bins, dim, channel_dim: as in `channel_histogram`.
        dtype: the dtype that goes with a shape; a tensor has its own.
        device: "cpu", the name of a GPU ("H200", "H100", "A100", "RTX 4090", "L40S", "T4" or
            "B200"), a CUDA device of this machine such as "cuda:0", or its limits as a `Device`.
            None is the device of the tensor. For a shape or a meta tensor it is the current GPU,
            or an H200 where PyTorch finds none; the first line then says that it is assumed.

    Returns:
        The plan, a frozen dataclass: an `Explanation` for a GPU, a `CpuExplanation` for the CPU.

    Raises:
        RuntimeError: what `channel_histogram` would refuse, in the same words; a CUDA device
            where PyTorch finds no GPU.
        ValueError: a shape that is none, a device that is not known.
        TypeError: `input` is neither a tensor, an array nor a shape.

    Example:
        >>> plan = torch_histo.explain((1 << 20, 512), device="H200")
        >>> print(str(plan).splitlines()[0])  # doctest: +ELLIPSIS
        channel_histogram of [1048576, 512] uint8 over dim 0, 256 bins, on H200 (132 SMs, ...
        >>> plan.launches, plan.steps, plan.shared_bytes
        (2, ('count_rows', 'reduce_rows'), 65536)
        >>> torch_histo.explain(torch.zeros(1000, dtype=torch.uint8)).threads
        1
    """
    op = "channel_histogram"
    if unknown:
        names = ("input", "num_bins", "dim", "channel_dim", "dtype", "device")
        refuse_keyword("explain", unknown, names)
    tensor = tensor_or_shape("explain", input, dtype)
    if channel_dim is not None:
        tensor, dim = without_channel(tensor, dim, channel_dim)
    dims = dimensions(op, dim)
    num_bins = number_of_bins(op, num_bins, bins, tensor.dtype)
    counts = channel_histogram(on_meta(tensor), num_bins, dim)  # raises what it refuses
    gpu, assumed = target(tensor, device)
    facts = facts_of(op, tensor, counts, gpu, num_bins=num_bins, dim=dims)
    kind = CpuExplanation if gpu is None else Explanation
    return kind(tuple(tensor.shape), tensor.dtype, tuple(dims), num_bins, facts, gpu, assumed)


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
    which waits for the device that they are on. If a separate kernel finds the extremes, it reads
    the input once more, and `bytes_moved` counts that, but no copy that this kernel may need.

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
    dims = dimensions("histogram", dim)
    counts, edges = counted_on_meta(tensor, bins, range, dims, density, flow)
    num_bins, shares_edges = edges.shape[-1] - 1, edges.numel() == edges.shape[-1]
    source = "given" if are_edges(bins) else "extremes" if range is None else "range"
    lie = edges_lie(bins) if are_edges(bins) else "evenly"
    options: dict[str, Any] = {"num_bins": num_bins, "dim": dims, "flow": flow}
    options |= {"edge_dtype": name_of(edges.dtype), "is_one_call": is_one_call}
    # In one call, edges between extremes belong to a channel, even if there is only one.
    options["shared_edges"] = source != "extremes" if is_one_call else shares_edges
    taken = None if weight is None else weight_of("histogram", weight, tensor)
    if taken is not None:
        options |= _options_of_weight(taken, tensor, counts)
        options["rounds"] = not (density or taken.requires_grad)
    gpu, assumed = target(tensor, device)
    facts = facts_of("histogram", tensor, counts, gpu, **options)
    shape, over = tuple(tensor.shape), tuple(dims)
    nested: dict[str, Any] = {}
    for name, kind in (("keys", CpuExplanation), ("raw_bytes", Explanation)):
        if name in facts:
            groups = facts.pop(name)
            counted = getattr(torch, groups.pop("dtype")), over, groups.pop("num_bins")
            nested[name] = kind(shape, *counted, groups, gpu, assumed)
    memory, layout, of_bins = facts["memory"], facts["layout"], facts.pop("bins", {})
    if source == "extremes" and layout["layout"] != "short":
        memory["bytes_moved"] += memory["bytes_read"]
    if taken is not None:
        told = f"{list(taken.shape)} {name_of(taken.dtype)}"
        of_weight = {"weights": told, "bytes_read": taken.nbytes, **facts.pop("weights")}
        groups = {"weights": of_weight, "sums": facts.pop("sums")}
        nested["weight"] = WeightFacts(taken.dtype, tuple(taken.shape), groups)
        memory["bytes_moved"] += taken.nbytes
    channels = counts[..., 0].numel()
    by = layout.pop("bins_by", "").split(" or ")  # between edges that lie evenly, and others
    if by[0] and not of_bins.get("computes_edges"):
        how = {"evenly": by[0], "unevenly": by[-1]}.get(lie, "")
        of_bins["bins"] = SEARCHES[how]
        nested["searches"] = (BinSearch(how, channels),) if how else ()
    of_edges = {"edges": source, "edge_dtype": edges.dtype, "edges_lie": lie}
    facts = {"edges": of_edges | {"shares_edges": shares_edges}, "bins": of_bins, **facts}
    call = shape, tensor.dtype, over, num_bins
    return HistogramExplanation(*call, facts, gpu, assumed, flow, channels, **nested)


def facts_of(
    op: str, input: Tensor, counts: Tensor, gpu: Device | None, **options: Any
) -> dict[str, Any]:
    """The facts of a plan that an operator makes."""
    if max(counts.numel() * 8, options.get("bytes_of_digits", 0)) >= 1 << 62:  # of 64-bit sizes
        name = "explain_histogram: bins" if op == "histogram" else "explain: num_bins"
        expected = f"{name} must be so few that the counts take less than 2^62 bytes"
        raise ValueError(f"{expected}, got {options['num_bins']}")
    plan = getattr(torch.ops.histo, f"_plan_{op}")
    return json.loads(plan(*_described(input), numbers_of(gpu), **options))  # type: ignore[no-any-return]


def _described(operand: Tensor) -> tuple[Any, ...]:
    """The dtype, sizes, strides and address; of a meta tensor its offset: storages are aligned."""
    offset = operand.storage_offset() * operand.itemsize
    address = operand.data_ptr() if has_values(operand) else offset
    return name_of(operand.dtype), operand.shape, operand.stride(), address


def _options_of_weight(weight: Tensor, input: Tensor, counts: Tensor) -> dict[str, Any]:
    """Weights as the operator takes them. Raises what `histogram` would, in the same words."""
    histogram(on_meta(input), 1, (0, 1), weight=on_meta(weight))
    *sizes, bins = counts.shape
    calls, most = groups_of_channels(sizes, bins * sum_size(weight.dtype) * 8)
    options = {"calls": calls, "bytes_of_digits": most}
    names = "weight_dtype", "weight_sizes", "weight_strides", "weight_address"
    return options | dict(zip(names, _described(weight), strict=True))


def edges_lie(edges: Tensor) -> str:
    """How, by some 16 edges of 16 channels: evenly if each is within 1/64 of a bin of a line."""
    if edges.is_meta:
        return ""
    last = edges.shape[-1] - 1
    rows = edges.detach().reshape(-1, last + 1)
    places = torch.tensor([*range(0, last, max(1, last // 16)), last])
    read = rows[:: max(1, len(rows) // 16), places.to(edges.device)].double().cpu()
    width = (read[:, -1:] - read[:, :1]) / last
    is_even = ((read[:, :1] + places * width - read).abs() * 64 <= width) & (width > 0)
    return "evenly" if bool(is_even.all()) else "unevenly"
