"""Counts of data that several processes hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from torch_histo import ops, quantiles
from torch_histo._arguments import (
    FIRST,
    all_but_channel,
    kept_sizes,
    reduced_dimensions,
    refuse_dtensor,
    tensor_of,
)
from torch_histo._joint_errors import Coordinates
from torch_histo._process_group import all_reduce as all_reduce
from torch_histo._process_group import check_group as check_group
from torch_histo._ranges import Range
from torch_histo._rank_search import RankSearch, values_at_ranks
from torch_histo.histograms import Combine, Histogram, histogram_of
from torch_histo.joint import (
    Bins,
    Coordinate,
    JointHistogram,
    Ranges,
    coordinates_of,
    joint_of,
    pair_of_coordinates,
)
from torch_histo.weights import Add

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "channel_histogram",
    "histogram",
    "histogram2d",
    "histogramdd",
    "nanquantile",
    "quantile",
]


def channel_histogram(
    local_input: Tensor | ArrayLike,
    num_bins: int | None = None,
    dim: int | Sequence[int] | None = FIRST,
    *,
    channel_dim: int | None = None,
    weight: Tensor | ArrayLike | None = None,
    group: dist.ProcessGroup | None = None,
    variant: str = "auto",
    bins: int | None = None,
    **unknown: NoReturn,
) -> Tensor:
    """Counts the values that all processes of a group hold, channel by channel.

    Each process counts its own part, as `torch_histo.channel_histogram` does, and one
    all-reduce adds the counts up: `num_bins` int64 a channel is all that travels. Counts
    are exact and the same bits on every process, however the data are divided.

    Like every collective operation it must be called by all processes of the group, or those
    that call it wait for the others.

    Args:
        local_input: the part of this process, as `torch_histo.channel_histogram` takes it, on
            a device that the group's backend serves: CUDA for NCCL, CPU for Gloo. The parts
            may differ in the sizes of the dimensions in `dim`, and one that holds nothing has
            size 0 there; their other dimensions must be the same on all processes.
        num_bins: how many bins, at least 0, the same on all processes. It must be given for all
            types but bool and uint8, which have 256 by default.
        dim, channel_dim: what to count over, as in `torch_histo.channel_histogram`.
        weight: what each element of this process adds to its bin, as in
            `torch_histo.channel_histogram`, of one dtype on all processes. Digits of the sums
            travel, up to 70 int64 a bin, and are rounded afterwards: the result is the exact sum
            of all the data, rounded once. It has no gradient.
        group: the processes that hold the data; the default group if None.
        variant, bins: as in `torch_histo.channel_histogram`.

    Returns:
        int64 counts of all the data, on the device of `local_input`, on every process: the
        dimensions of `local_input` that are not in `dim`, in order, then `num_bins`.

    Raises:
        RuntimeError: there is no process group, this process is not of `group`, or the group's
            backend does not serve the device of `local_input`; and what
            `torch_histo.channel_histogram` raises, then on the process that it concerns alone.
        TypeError: `local_input` is neither a tensor nor numbers, or a DTensor, which
            `torch_histo.channel_histogram` takes; `group` is not a process group.

    Example, of a file that torchrun starts in every process:
        >>> torch.distributed.init_process_group("gloo")  # doctest: +SKIP
        >>> rows = torch.full((10, 3), torch.distributed.get_rank())  # doctest: +SKIP
        >>> torch_histo.distributed.channel_histogram(rows, num_bins=2)  # doctest: +SKIP
        tensor([[10, 10],
                [10, 10],
                [10, 10]])
    """
    name = "distributed.channel_histogram"
    part = _part(name, local_input, group)
    _, add = _of_all(f"{name}: local_input", group)
    if channel_dim is not None:
        part, dim = ops.without_channel(part, dim, channel_dim)
    if weight is not None and not unknown:
        return ops.weighted_channel_histogram(part, num_bins, dim, weight, variant, bins, add)
    counts = ops.channel_histogram(part, num_bins, dim, variant=variant, bins=bins, **unknown)
    add(counts)
    return counts


def histogram(
    local_input: Tensor | ArrayLike,
    bins: int | Tensor | ArrayLike = 256,
    range: Range | None = None,
    *,
    dim: int | Sequence[int] | None = None,
    channel_dim: int | None = None,
    weight: Tensor | ArrayLike | None = None,
    density: bool = False,
    flow: bool = False,
    group: dist.ProcessGroup | None = None,
    **unknown: NoReturn,
) -> Histogram:
    """Counts the numbers that all processes of a group hold between edges, channel by channel.

    Each process counts its own part, as `torch_histo.histogram` does, and one all-reduce adds the
    counts up. Without a range two more find the extremes of all the data first, by min and max.
    The result is the same bits on every process, however the data are divided.

    Like every collective operation it must be called by all processes of the group, or those
    that call it wait for the others.

    Args:
        local_input: the part of this process, on a device that the group's backend serves. The
            parts may differ in the sizes of the dimensions in `dim`, and one that holds nothing
            has size 0 there; their dtype and other dimensions must be the same on all processes.
        bins, range: as in `torch_histo.histogram`, the same on all processes. A range of None
            takes the smallest and the largest finite value that any process holds.
        dim, channel_dim, density, flow: as in `torch_histo.histogram`.
        weight: what each element of this process adds to its bin, as in `torch_histo.histogram`,
            of one dtype on all processes. Digits of the sums travel, up to 70 int64 a bin, and
            are rounded afterwards. So sums are exact and rounded once, as if one process had all
            the data. They have no gradient.
        group: the processes that hold the data; the default group if None.

    Returns:
        `hist` and `bin_edges` of all the data, as `torch_histo.histogram` returns them, on the
        device of `local_input`, on every process.

    Raises:
        RuntimeError: there is no process group, this process is not of `group`, or the group's
            backend does not serve the device of `local_input`; and what `torch_histo.histogram`
            raises, then on the process that it concerns alone.
        TypeError: `local_input` is neither a tensor nor numbers, or a DTensor, which
            `torch_histo.histogram` takes; `group` is not a process group; and what
            `torch_histo.histogram` raises.
    """
    name = "distributed.histogram"
    argument = f"{name}: local_input"
    part = _part(name, local_input, group)
    if channel_dim is not None:
        part, dim = all_but_channel("histogram", part, dim, channel_dim)
    of_all, add = _of_all(argument, group)
    return histogram_of(part, bins, range, dim, density, flow, unknown, of_all, add, weight)


def histogramdd(
    local_sample: Sequence[Coordinate] | Coordinate,
    bins: Bins = 10,
    range: Ranges | None = None,
    *,
    dim: int | Sequence[int] | None = None,
    channel_dim: int | None = None,
    weight: Tensor | ArrayLike | None = None,
    density: bool = False,
    flow: bool = False,
    group: dist.ProcessGroup | None = None,
    **unknown: NoReturn,
) -> JointHistogram:
    """Counts the elements that all processes of a group hold by the bins of all coordinates.

    Each process counts its own part, as `torch_histo.histogramdd` does, and one all-reduce adds
    the counts up. Each range of None takes two more, by min and max. The result is the same bits
    on every process, however the data are divided. All processes of the group must call it.

    Args:
        local_sample: the part of this process, on a device that the group's backend serves. The
            parts may differ in the sizes of the dimensions in `dim`, and one that holds nothing
            has size 0 there; their dtypes and other dimensions must be the same on all processes.
        bins, range, dim, channel_dim, density, flow: as in `torch_histo.histogramdd`, the same on
            all processes.
        weight: what each element of this process adds, of one dtype on all processes. Sums are
            exact and rounded once, as if one process had all the data. They have no gradient.
        group: the processes that hold the data; the default group if None.

    Returns:
        `hist` and `bin_edges` of all the data, on every process.

    Raises:
        RuntimeError: there is no process group, this process is not of `group`, or the group's
            backend does not serve the device; and what `torch_histo.histogramdd` raises, then on
            the process that it concerns alone.
        TypeError: a DTensor, which `torch_histo.histogramdd` takes; `group` is not a process
            group; and what `torch_histo.histogramdd` raises.
    """
    op = "distributed.histogramdd"
    check_group(op, group)
    call = coordinates_of(op, local_sample, "local_sample")
    return _joint_of(call, group, bins, range, dim, channel_dim, weight, density, flow, unknown)


def histogram2d(
    local_x: Coordinate,
    local_y: Coordinate,
    bins: Bins = 10,
    range: Ranges | None = None,
    *,
    dim: int | Sequence[int] | None = None,
    channel_dim: int | None = None,
    weight: Tensor | ArrayLike | None = None,
    density: bool = False,
    flow: bool = False,
    group: dist.ProcessGroup | None = None,
    **unknown: NoReturn,
) -> JointHistogram:
    """The same as `histogramdd` of this module, of the pair `(local_x, local_y)`."""
    op = "distributed.histogram2d"
    check_group(op, group)
    call = pair_of_coordinates(op, local_x, local_y, ("local_x", "local_y"))
    return _joint_of(call, group, bins, range, dim, channel_dim, weight, density, flow, unknown)


def _joint_of(
    call: Coordinates, group: dist.ProcessGroup | None, *arguments: Any
) -> JointHistogram:
    for tensor, name in zip(call.tensors, call.names, strict=True):
        _refuse_dtensor(call.op, name, tensor)
    others: tuple[Any, ...] = _of_all(f"{call.op}: {call.names[0]}", group)
    return joint_of(call, *arguments, *others)


def _of_all(argument: str, group: dist.ProcessGroup | None) -> tuple[Combine, Add]:
    """What makes extremes and counts of one process those of all."""

    def combine(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        all_reduce(argument, low, group, dist.ReduceOp.MIN)
        all_reduce(argument, high, group, dist.ReduceOp.MAX)
        return low, high

    def add(counts: Tensor) -> None:
        all_reduce(argument, counts, group)

    return combine, add


def quantile(
    local_input: Tensor | ArrayLike,
    q: float | Sequence[float] | Tensor | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    channel_dim: int | None = None,
    interpolation: str = "linear",
    group: dist.ProcessGroup | None = None,
    **unknown: NoReturn,
) -> Tensor:
    """Exact quantiles of the numbers that all processes of a group hold, channel by channel.

    The result is that of `torch_histo.quantile` for all the data, except for the sign of zero.
    It is the same on every process, however the data are divided. Each pass counts the values
    between some edges with `torch_histo.histogram`, and one all-reduce adds the counts up; the
    next edges lie closer to the wanted values. float32 takes three passes, where there are few
    channels and q, and float64 and int64 six. No value travels, and memory is bounded, but for
    at least two edges for each channel and q. Like every collective operation it must be called
    by all processes of the group. The host reads one number, and so waits for the device.

    Args:
        local_input: the part of this process, on a device that the group's backend serves, of any
            dtype that `torch_histo.quantile` takes but uint64. The parts may differ in the sizes
            of the dimensions in `dim`, and one that holds nothing has size 0 there; their dtype
            and other dimensions must be the same on all processes.
        q, dim, keepdim, channel_dim, interpolation: as in `torch_histo.quantile`, the same on all
            processes.
        group: the processes that hold the data; the default group if None.

    Raises:
        RuntimeError: there is no process group, this process is not of `group`, the group's
            backend does not serve the device of `local_input`, or a slice has no elements on any
            process; and what `torch_histo.quantile` raises.
        TypeError: `local_input` is neither a tensor nor numbers, or a DTensor, which
            `torch_histo.quantile` takes; `group` is not a process group; and what
            `torch_histo.quantile` raises.
    """
    name = "distributed.quantile"
    rule = dim, keepdim, channel_dim, interpolation
    return _quantile(name, local_input, q, *rule, group, unknown)


def nanquantile(
    local_input: Tensor | ArrayLike,
    q: float | Sequence[float] | Tensor | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    channel_dim: int | None = None,
    interpolation: str = "linear",
    group: dist.ProcessGroup | None = None,
    **unknown: NoReturn,
) -> Tensor:
    """The same as `quantile` of this module, of the values that are not NaN."""
    name = "distributed.nanquantile"
    rule = dim, keepdim, channel_dim, interpolation
    return _quantile(name, local_input, q, *rule, group, unknown)


def _quantile(
    name: str,
    given: Tensor | ArrayLike,
    q: float | Sequence[float] | Tensor | None,
    dim: int | Sequence[int] | None,
    keepdim: bool,
    channel_dim: int | None,
    interpolation: str,
    group: dist.ProcessGroup | None,
    unknown: dict[str, Any],
) -> Tensor:
    local_input = _part(name, given, group)
    local_input, probabilities, dims, keepdim = quantiles.checked_call(
        name, local_input, q, dim, keepdim, channel_dim, interpolation, unknown
    )
    if local_input.dtype == torch.uint64:
        raise RuntimeError(
            f"{name}: local_input must have a dtype other than uint64, whose values torch does "
            "not compare, got uint64: pass local_input.to(torch.int64)"
        )
    quantiles.check(local_input, probabilities, dims, interpolation, name)
    argument = f"{name}: local_input"
    ndim = local_input.dim()
    kept = kept_sizes(local_input.shape, dims)
    reduced = reduced_dimensions(ndim, dims or ())
    rows = _rows_of_all(argument, local_input, reduced if ndim else (), group)
    _, add = _of_all(argument, group)
    search = RankSearch(local_input.detach(), dims, add)
    values = rows - search.nans
    p = probabilities.flatten().double().reshape(-1, *[1] * len(kept))
    small = local_input.is_floating_point() and local_input.dtype != torch.float64
    dtype = torch.float32 if small and rows <= 1 << 24 else torch.float64
    is_nan = ~((p >= 0) & (p <= 1))
    is_nan = is_nan | ((values == 0) if name.endswith("nanquantile") else (search.nans > 0))
    ranks = (p.to(dtype) * (values - 1).to(dtype)).masked_fill(is_nan, 0)
    result = values_at_ranks(ranks, interpolation, search).masked_fill(is_nan, torch.nan)
    is_float = local_input.is_floating_point()
    result = result.to(local_input.dtype if is_float else torch.float64)
    if keepdim:
        kept = [1 if d in reduced else size for d, size in enumerate(local_input.shape)]
    return result.reshape((*probabilities.shape, *kept))


def _rows_of_all(
    argument: str, local_input: Tensor, reduced: Iterable[int], group: dist.ProcessGroup | None
) -> int:
    """The elements of a slice, of all processes together."""
    sizes = local_input.new_tensor([1], dtype=torch.int64)
    for d in reduced:
        sizes = sizes * local_input.shape[d]
    all_reduce(argument, sizes, group)
    rows = int(sizes)
    if rows == 0:
        raise RuntimeError(
            f"{argument} must have at least one element in each slice over dim, "
            "on some process, got none"
        )
    return rows


def _part(name: str, given: Tensor | ArrayLike, group: dist.ProcessGroup | None) -> Tensor:
    """The part that this process holds, as a tensor."""
    check_group(name, group)
    local_input = tensor_of(f"{name}: local_input", given)
    _refuse_dtensor(name, "local_input", local_input)
    return local_input


def _refuse_dtensor(name: str, argument: str, tensor: Tensor) -> None:
    function = name.removeprefix("distributed.")
    refuse_dtensor(f"{name}: {argument}", tensor, f"it to torch_histo.{function}")
