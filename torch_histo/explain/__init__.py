"""How an input is counted: the plan of the engine, in facts and in words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from .._arguments import (
    FIRST,
    all_but_channel,
    dimensions,
    kept_dimensions,
    number_of_bins,
    shown,
    tensor_or_shape,
)
from .._keywords import refuse_keyword
from ..devices import Device, assumed_device, limits_of
from ..ops import _check_channel_histogram, channel_histogram
from ._plan_facts import Plan, name_of

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
        (2, ('count_rows', 'reduce_columns'), 65536)
        >>> torch_histo.explain(torch.zeros(1000, dtype=torch.uint8)).threads
        1
    """
    op = "channel_histogram"
    if unknown:
        names = ("input", "num_bins", "dim", "channel_dim", "dtype", "device")
        refuse_keyword("explain", unknown, names)
    tensor = described("explain", input, dtype)
    if channel_dim is not None:
        tensor, dim = all_but_channel(op, tensor, dim, channel_dim, default=FIRST)
    dims = dimensions(op, dim)
    num_bins = number_of_bins(op, num_bins, bins, tensor.dtype)
    for name, number in (("num_bins", num_bins), *(("dim", d) for d in dims)):
        if not -(1 << 63) <= number < 1 << 63:
            raise TypeError(f"channel_histogram: {name} must be an int of 64 bits, got {number}")
    if tensor.is_nested:
        channel_histogram(tensor, num_bins)  # raises
    _check_channel_histogram(tensor, tensor.dim(), num_bins, dims, "auto")
    check_counts("explain", tensor, dims, num_bins)
    limits, assumed = target(tensor, device)
    call, place = call_of(tensor, dims, num_bins), place_of(tensor)
    if not isinstance(limits, Device):
        facts = facts_of("channel_histogram_on_cpu", *place, num_bins, dims)
        return CpuExplanation(*call, facts)
    facts = facts_of("channel_histogram", *place, address_of(tensor), num_bins, dims, limits=limits)
    return Explanation(*call, facts, limits, assumed)


def facts_of(op: str, *place: object, limits: Device | None = None, **options: Any) -> Any:
    """The facts of a plan that an operator makes."""
    if limits is not None:
        options |= {
            "sm_count": limits.sm_count,
            "shared_bytes_per_block": limits.shared_bytes_per_block,
            "shared_bytes_per_sm": limits.shared_bytes_per_sm,
            "capability": 10 * limits.capability[0] + limits.capability[1],
        }
    facts = json.loads(getattr(torch.ops.histo, f"_plan_{op}")(*place, **options))
    for groups in (facts, facts.get("raw_bytes", {})):
        if "launches" in groups:
            groups["launches"]["steps"] = tuple(groups["launches"]["steps"])
    return facts


def call_of(
    input: Tensor, dims: Sequence[int] | None, num_bins: int
) -> tuple[tuple[int, ...], torch.dtype, tuple[int, ...], int]:
    return tuple(input.shape), input.dtype, tuple(dims or ()), num_bins


def place_of(input: Tensor) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    return name_of(input.dtype), tuple(input.shape), input.stride()


def address_of(input: Tensor) -> int:
    """A meta tensor has none; allocations are aligned."""
    offset = input.storage_offset() * input.dtype.itemsize
    return int(offset if input.is_meta else input.data_ptr())


def target(
    input: Tensor, device: str | torch.device | Device | None
) -> tuple[str | torch.device | Device, bool]:
    """The CPU, or the limits of a GPU; and whether these are assumed."""
    assumed = device is None and input.is_meta
    if device is None:
        device = assumed_device() if assumed else input.device
    if not isinstance(device, Device) and str(device) == "cpu":
        return device, assumed
    return limits_of(device), assumed


def described(op: str, input: object, dtype: torch.dtype) -> Tensor:
    """A tensor, or one without data for a shape."""
    value = tensor_or_shape(f"{op}: input", input)
    if isinstance(value, Tensor) and value.is_nested:
        return value
    shape = value.shape if isinstance(value, Tensor) else _shape(op, value)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{op}: dtype must be a torch.dtype, got {type(dtype).__name__}")
    itemsize = value.dtype.itemsize if isinstance(value, Tensor) else dtype.itemsize
    if math.prod(max(size, 1) for size in shape) * itemsize >= 1 << 62:
        raise ValueError(f"{op}: input must take less than 2^62 bytes, got {list(shape)}")
    return value if isinstance(value, Tensor) else torch.empty(shape, dtype=dtype, device="meta")


def _shape(op: str, value: object) -> tuple[int, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        expected = "input must be a tensor, an array, an image or a shape"
        raise TypeError(f"{op}: {expected}, got {type(value).__name__}")
    try:
        shape = tuple(index(size) for size in value)
    except TypeError:
        raise TypeError(f"{op}: input must be a shape of ints, got {shown(value)}") from None
    if any(size < 0 for size in shape):
        raise ValueError(f"{op}: input must be a shape without negatives, got {list(shape)}")
    return shape


def check_counts(op: str, input: Tensor, dims: Sequence[int] | None, num_bins: int) -> None:
    """Sizes in bytes are 64-bit numbers; beyond them nothing could be allocated either."""
    kept = math.prod(input.shape[d] for d in kept_dimensions(input.dim(), dims or ()))
    if kept * num_bins * 8 >= 1 << 62:
        expected = "num_bins must be so few that the counts take less than 2^62 bytes"
        raise ValueError(f"{op}: {expected}, got {num_bins}")
