"""Counts of data that several processes hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch.distributed as dist
from torch import Tensor

from torch_histo import ops
from torch_histo._arguments import require_tensor

__all__ = ["channel_histogram"]


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
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            "distributed.channel_histogram: expected torch.distributed to be initialized, "
            "got no process group"
        )
    try:
        rank = dist.get_rank(group)
    except (TypeError, ValueError):  # what is no process group is looked up among them
        got = type(group).__name__
        raise TypeError(
            f"distributed.channel_histogram: group must be a ProcessGroup or None, got {got}"
        ) from None
    if rank < 0:
        raise RuntimeError(
            "distributed.channel_histogram: group must hold this process, "
            f"got one without rank {dist.get_rank()}"
        )
    require_tensor("distributed.channel_histogram: local_input", local_input)
    if type(local_input).__name__ == "DTensor":
        raise TypeError(
            "distributed.channel_histogram: local_input must be what this process holds, "
            "got a DTensor: pass it to torch_histo.channel_histogram"
        )
    counts = ops.channel_histogram(local_input, num_bins, dim, variant=variant, **unknown)
    try:
        dist.all_reduce(counts, group=group)
    except RuntimeError as error:
        if "No backend type associated with device type" in str(error):
            raise RuntimeError(
                "distributed.channel_histogram: local_input must be on a device that the backend "
                f"of group serves, got {local_input.device.type}"
            ) from error
        raise
    return counts
