"""Groups of processes: their checks, and sums over them."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor


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
