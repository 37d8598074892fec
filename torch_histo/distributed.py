"""Counts of data that several processes hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch.distributed as dist
from torch import Tensor

from torch_histo import ops
from torch_histo._arguments import require_tensor
from torch_histo.histograms import Bound, Histogram, histogram_of

__all__ = ["channel_histogram", "histogram"]


def channel_histogram(
    local_input: Tensor,
    num_bins: int = 256,
    dim: int | Sequence[int] | None = 0,
    *,
    group: dist.ProcessGroup | None = None,
    variant: str = "auto",
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
        num_bins: how many bins, at least 0, the same on all processes.
        dim: the dimension or dimensions to count over, as in `torch_histo.channel_histogram`.
        group: the processes that hold the data; the default group if None.
        variant: as in `torch_histo.channel_histogram`.

    Returns:
        int64 counts of all the data, on the device of `local_input`, on every process: the
        dimensions of `local_input` that are not in `dim`, in order, then `num_bins`.

    Raises:
        RuntimeError: there is no process group, this process is not of `group`, or the group's
            backend does not serve the device of `local_input`; and what
            `torch_histo.channel_histogram` raises, then on the process that it concerns alone.
        TypeError: `local_input` is not a tensor, or a DTensor, which
            `torch_histo.channel_histogram` takes; `group` is not a process group.

    Example, of a file that torchrun starts in every process:
        >>> torch.distributed.init_process_group("gloo")  # doctest: +SKIP
        >>> rows = torch.full((10, 3), torch.distributed.get_rank())  # doctest: +SKIP
        >>> torch_histo.distributed.channel_histogram(rows, num_bins=2)  # doctest: +SKIP
        tensor([[10, 10],
                [10, 10],
                [10, 10]])
    """
    _check("distributed.channel_histogram", local_input, group)
    counts = ops.channel_histogram(local_input, num_bins, dim, variant=variant, **unknown)
    all_reduce("distributed.channel_histogram: local_input", counts, group)
    return counts


def histogram(
    local_input: Tensor,
    bins: int | Tensor = 256,
    *,
    range: Sequence[Bound] | None = None,
    dim: int | Sequence[int] | None = None,
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
        dim, density, flow: as in `torch_histo.histogram`.
        group: the processes that hold the data; the default group if None.

    Returns:
        `hist` and `bin_edges` of all the data, as `torch_histo.histogram` returns them, on the
        device of `local_input`, on every process.

    Raises:
        RuntimeError: there is no process group, this process is not of `group`, or the group's
            backend does not serve the device of `local_input`; and what `torch_histo.histogram`
            raises, then on the process that it concerns alone.
        TypeError: `local_input` is not a tensor, or a DTensor, which `torch_histo.histogram`
            takes; `group` is not a process group; and what `torch_histo.histogram` raises.
    """
    name = "distributed.histogram"
    argument = f"{name}: local_input"
    _check(name, local_input, group)

    def of_all(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        all_reduce(argument, low, group, dist.ReduceOp.MIN)
        all_reduce(argument, high, group, dist.ReduceOp.MAX)
        return low, high

    def add(counts: Tensor) -> None:
        all_reduce(argument, counts, group)

    return histogram_of(local_input, bins, range, dim, density, flow, unknown, of_all, add)


def check_group(name: str, group: dist.ProcessGroup | None) -> None:
    """Raises what is wrong with a group before it is used."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            f"{name}: expected torch.distributed to be initialized, got no process group"
        )
    try:
        rank = dist.get_rank(group)
    except (TypeError, ValueError):  # what is no process group is looked up among them
        got = type(group).__name__
        raise TypeError(f"{name}: group must be a ProcessGroup or None, got {got}") from None
    if rank < 0:
        raise RuntimeError(
            f"{name}: group must hold this process, got one without rank {dist.get_rank()}"
        )


def _check(name: str, local_input: Tensor, group: dist.ProcessGroup | None) -> None:
    check_group(name, group)
    require_tensor(f"{name}: local_input", local_input)
    if type(local_input).__name__ == "DTensor":
        raise TypeError(
            f"{name}: local_input must be what this process holds, "
            f"got a DTensor: pass it to torch_histo.{name.removeprefix('distributed.')}"
        )


def all_reduce(
    argument: str,
    tensor: Tensor,
    group: dist.ProcessGroup | None,
    op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM,
) -> None:
    """In place; `argument` is what the tensor is, as errors name it."""
    try:
        dist.all_reduce(tensor, op, group)
    except RuntimeError as error:
        if "No backend type associated with device type" in str(error):
            raise RuntimeError(
                f"{argument} must be on a device that the backend of group serves, "
                f"got {tensor.device.type}"
            ) from error
        raise
