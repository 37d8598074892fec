"""How an input is counted: the plan of the engine, in facts and in words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from .._arguments import FIRST, dimensions, kept_sizes, name_of, number_of_bins, tensor_or_shape
from .._keywords import refuse_keyword
from ..devices import Device, target
from ..ops import _check_channel_histogram, channel_histogram, without_channel
from ._plan_facts import Plan

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
    for name, number in (("num_bins", num_bins), *(("dim", d) for d in dims)):
        if not -(1 << 63) <= number < 1 << 63:
            raise TypeError(f"{op}: {name} must be an int of 64 bits, got {number}")
    if tensor.is_nested:
        channel_histogram(tensor, num_bins)  # raises
    _check_channel_histogram(tensor, tensor.dim(), num_bins, dims, "auto")
    check_counts("explain", tensor, dims, num_bins)
    gpu, assumed = target(tensor, device)
    facts = facts_of(op, tensor, gpu, num_bins=num_bins, dim=dims)
    kind = CpuExplanation if gpu is None else Explanation
    return kind(tuple(tensor.shape), tensor.dtype, tuple(dims), num_bins, facts, gpu, assumed)


def facts_of(op: str, input: Tensor, gpu: Device | None, **options: Any) -> dict[str, Any]:
    """The facts of a plan that an operator makes."""
    options |= {"dtype": name_of(input.dtype), "sizes": input.shape, "strides": input.stride()}
    if gpu is None:
        op += "_on_cpu"
    else:
        # A meta tensor has no address; allocations are aligned.
        offset = input.storage_offset() * input.dtype.itemsize
        options["address"] = offset if input.is_meta else input.data_ptr()
        for limit in ("sm_count", "shared_bytes_per_block", "shared_bytes_per_sm"):
            options[limit] = getattr(gpu, limit)
        options["capability"] = 10 * gpu.capability[0] + gpu.capability[1]
    text = getattr(torch.ops.histo, f"_plan_{op}")(**options)
    return json.loads(text, object_hook=_with_tuples)  # type: ignore[no-any-return]


def _with_tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}


def check_counts(op: str, input: Tensor, dims: Sequence[int] | None, num_bins: int) -> None:
    """Sizes in bytes are 64-bit numbers; beyond them nothing could be allocated either."""
    kept = math.prod(kept_sizes(input.shape, dims))
    if kept * num_bins * 8 >= 1 << 62:
        expected = "num_bins must be so few that the counts take less than 2^62 bytes"
        raise ValueError(f"{op}: {expected}, got {num_bins}")
