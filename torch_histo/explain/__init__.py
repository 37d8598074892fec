"""How an input is counted: the plan of the engine, in numbers and in words."""

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
    dims_beside_channel,
    number_of_bins,
    shown,
    tensor_or_shape,
)
from .._keywords import refuse_keyword
from ..devices import Device, assumed_device, limits_of
from ..ops import _check_channel_histogram, channel_histogram
from ._plan_facts import CpuFacts, GpuFacts
from ._plan_text import cpu_text, gpu_text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, repr=False)
class Explanation(GpuFacts):
    """A plan of `channel_histogram` on a GPU; its `repr()` and `str()` are the plan in words.

    Args:
        device: the GPU that it is for.
        device_is_assumed: nobody named one, and the input is on no device.
        shape, dtype, dim, num_bins: of the call; `dim` is empty for all dimensions.
        method: "interleaved" (elements side by side; a table has a counter for each column),
            "runs" (many short stretches of such elements; each load finds its own), "generic" (any
            strides; a table for a few channels), "partitioned" (more bins than a table holds; each
            block has a table of some bins, and others send it their values), "atomics" (more bins
            than a table holds; counted in memory) or "nothing to count".
        access: what a load takes: "16 bytes", "words", "words put together" (from two aligned ones)
            or "elements".
        copies_input: the strides are rare, and PyTorch makes a contiguous copy first.
        stream: rows without a gap are cut anew, into rows of `columns` elements.
        counted_by: the kernels of "interleaved": "rows" (bytes, whole rows of one table a block),
            "planar" (bytes of up to four channels), "clustered" (some MiB of bytes) or
            "interleaved".
        columns, columns_per_channel: elements of a row; how many of them each channel has, 0 where
            a row has no whole number of channels.
        groups, batches, channels: the tables that a row takes side by side, or that the bins of one
            channel are dealt to; sets of channels that are counted alike; channels of each.
        gap_channels: elements between two rows, which are read too and not counted.
        tiles, tile_channels, chunks: blocks across the channels; channels of each; blocks
            across the rows.
        runs, run_bytes, run_bytes_between: stretches of memory that hold the rows of one block's
            channels; bytes of each, where their number of rows says nothing; and how many of
            those lie between rows of one channel.
        segments_per_block, copies: sets of channels that a block counts whole; counters that it has
            for a bin of each.
        owners, bins_per_owner, rounds: blocks that own bins; how many each; how often the
            blocks send each other what they have read.
        rows_per_block: rows that a block counts at most; with "partitioned", rows that it reads.
        loads_per_block: with "runs", loads of a block at most.
        table_keys, table_counters_per_key, counter_bits: the table of a block.
        blocks, threads, cluster: the grid; threads a block, blocks a cluster.
        shared_bytes: shared memory of a block.
        workspace_bytes: memory that is allocated besides the counts, and besides the copy:
            tables to be summed, or values on their way to another block.
        clears_counts: the counts are zeroed first; with "partitioned", the words at which
            the blocks meet.
        shares_lines: neighbouring blocks read the same lines of memory, so that none starts before
            all that was launched earlier has ended.
        reduce_blocks: blocks of the second kernel, which sums the tables; 0 where there is none.
        launches, steps: kernels and fillings with zeros, besides the copy: how many, and in order,
            kernels by name and "zeroing" before them.
        bytes_read, bytes_of_counts: the elements of the input; the result.
        bytes_of_gaps: bytes between rows, which are read too and not counted.
        bytes_moved: the least that moves to and from memory.
    """

    def __repr__(self) -> str:
        return gpu_text(self)


@dataclass(frozen=True, repr=False)
class CpuExplanation(CpuFacts):
    """A plan of `channel_histogram` on the CPU; its `repr()` and `str()` are the plan in words.

    Args:
        shape, dtype, dim, num_bins: of the call; `dim` is empty for all dimensions.
        loops: the instructions that were chosen for this processor, or by the environment variable
            TORCH_HISTO_CPU: "portable", "avx2", "avx512" or "amx".
        method: "streams" (one channel after another), "columns" (channels that lie side by side),
            "bit planes" (the same of bytes, by the bits of vectors), "products" (bytes, by products
            of matrices), "direct" (no tables: the result itself is counted in) or
            "nothing to count".
        copies_input: the strides are rare, and PyTorch makes a contiguous copy first.
        threads: the threads that count; fewer than torch has if the input is small.
        strip: channels that share the tables of a thread at a time.
        strips, tasks: the strips of all channels; strips, or rows of them, for threads in turns.
        sharing: without tables, threads have "channels" of their own, or "copies" of the result, or
            add to the same counts ("atomic").
        counter_bits: bits of a table's counters, or of the result's if there is no table.
        neighbours: two bytes that follow each other are counted as one value.
        byte_counters: further counters of 8 bits, for values that differ; 0 if there are none.
        tables, table_keys, table_bytes: the tables of a thread.
        workspace_bytes: memory of all threads, besides the counts and the copy.
        bytes_read, bytes_of_counts: the elements of the input; the result.
    """

    def __repr__(self) -> str:
        return cpu_text(self)


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
    """Tells how `channel_histogram` counts an input: the plan, in numbers and in words.

    For a GPU the lines are the layout, the size of a load, the table in shared memory, the grid,
    the launches, the workspace, the bytes that move, and the time that these take at the
    bandwidth of the device's memory. No way of counting is faster, unless the input is in a
    cache. For the CPU the lines are the way of counting, the tables, the threads, the workspace
    and the bytes that move. Nothing is counted or printed, and no GPU is needed.

    Args:
        input: a tensor, an array or an image, whose dtype, strides and alignment count, or the
            shape of a contiguous and aligned one, which is what a list is, too.
        num_bins, bins: as in `channel_histogram`.
        dim, channel_dim: as in `channel_histogram`.
        dtype: the dtype that goes with a shape; a tensor has its own.
        device: "cpu", the name of a GPU ("H200", "H100", "A100", "RTX 4090", "L40S", "T4" or
            "B200"), a CUDA device of this machine such as "cuda:0", or its limits as a `Device`.
            None is the device of the tensor. For a shape or a meta tensor it is the current GPU,
            or an H200 where PyTorch finds none; the first line then says that it is assumed.

    Returns:
        The plan, a frozen dataclass: an `Explanation` for a GPU, a `CpuExplanation` for the CPU.
        Its `repr()` is the plan in words.

    Raises:
        RuntimeError: what `channel_histogram` would refuse, in the same words; a CUDA device
            where PyTorch finds no GPU.
        ValueError: a shape that is none, a device that is not known.
        TypeError: `input` is neither a tensor, an array nor a shape.

    Example:
        >>> plan = torch_histo.explain((1 << 20, 512), device="H200")
        >>> plan  # doctest: +ELLIPSIS
        channel_histogram of [1048576, 512] uint8 over dim 0, 256 bins, on H200 (132 SMs, ...
          layout     512 columns, a channel each, in 4 groups of 128
          reads      16 bytes a lane
          table      256 rows x 128 counters of 16 bits: 64 KiB of shared memory a block
          grid       132 blocks of 768 threads, up to 31,776 rows each
          launches   2: count_rows, reduce_rows
          workspace  8.25 MiB, one table a block, summed by ... blocks
          memory     reads 512 MiB, writes 1 MiB of counts
          predicted  at least 112 us, at 4.8 TB/s
        >>> plan.launches
        2
        >>> torch_histo.explain(torch.zeros(1000, dtype=torch.uint8)).threads
        1
    """
    op = "channel_histogram"
    if unknown:
        names = ("input", "num_bins", "dim", "channel_dim", "dtype", "device")
        refuse_keyword("explain", unknown, names)
    input = tensor_or_shape("explain: input", input)
    if channel_dim is not None:
        input, dim = without_channel("explain", op, input, dim, channel_dim, FIRST)
    dims = dimensions(op, dim)
    counted = input.dtype if isinstance(input, Tensor) else dtype
    num_bins = number_of_bins(op, num_bins, bins, counted)
    for name, number in (("num_bins", num_bins), *(("dim", d) for d in dims)):
        if not -(1 << 63) <= number < 1 << 63:
            raise TypeError(f"channel_histogram: {name} must be an int of 64 bits, got {number}")
    if isinstance(input, Tensor):
        if input.is_nested:
            channel_histogram(input, num_bins)  # raises
        _check_channel_histogram(input, input.dim(), num_bins, dims, "auto")
    shape, strides, address, dtype = place_of("explain", input, dtype)
    check_size("explain", shape, dtype, dims, num_bins)
    device, assumed = target(input, device)
    if not isinstance(device, Device):
        return _explain_on_cpu(shape, strides, dtype, dims, num_bins)
    return plan_on_gpu(shape, strides, address, dtype, dims, num_bins, device, assumed)


def without_channel(
    op: str,
    counted: str,
    input: Tensor | Sequence[int],
    dim: int | Sequence[int] | None,
    channel_dim: int,
    default: tuple[int, ...] | None = None,
) -> tuple[Tensor | Sequence[int], list[int]]:
    """A tensor or a shape, and the dimensions that the function `counted` counts over."""
    if isinstance(input, Tensor):
        return all_but_channel(counted, input, dim, channel_dim, default=default)
    shape = _shape(op, input)
    dims = dims_beside_channel(counted, len(shape), dim, channel_dim, default=default)
    return (1,) * (2 - len(shape)) + shape, dims


def target(
    input: object, device: str | torch.device | Device | None
) -> tuple[str | torch.device | Device, bool]:
    """The CPU, or the limits of a GPU; and whether these are assumed."""
    on_device = isinstance(input, Tensor) and not input.is_meta
    assumed = device is None and not on_device
    if device is None:
        device = input.device if isinstance(input, Tensor) and on_device else assumed_device()
    if not isinstance(device, Device) and str(device) == "cpu":
        return device, assumed
    return limits_of(device), assumed


def limits_for_plan(limits: Device) -> dict[str, int]:
    return {
        "sm_count": limits.sm_count,
        "shared_bytes_per_block": limits.shared_bytes_per_block,
        "shared_bytes_per_sm": limits.shared_bytes_per_sm,
        "capability": 10 * limits.capability[0] + limits.capability[1],
    }


def plan_on_gpu(
    shape: tuple[int, ...],
    strides: Sequence[int],
    address: int | torch.SymInt,
    dtype: torch.dtype,
    dims: Sequence[int],
    num_bins: int,
    limits: Device,
    assumed: bool,
) -> Explanation:
    name = str(dtype).removeprefix("torch.")
    text = torch.ops.histo._plan_channel_histogram(
        name, shape, strides, address, num_bins, dims, **limits_for_plan(limits)
    )
    facts: dict[str, Any] = json.loads(text)
    facts["steps"] = tuple(facts["steps"])
    return Explanation(limits, assumed, shape, dtype, tuple(dims), num_bins, **facts)


def _explain_on_cpu(
    shape: tuple[int, ...],
    strides: Sequence[int],
    dtype: torch.dtype,
    dims: Sequence[int],
    num_bins: int,
) -> CpuExplanation:
    name = str(dtype).removeprefix("torch.")
    text = torch.ops.histo._plan_channel_histogram_on_cpu(name, shape, strides, num_bins, dims)
    return CpuExplanation(shape, dtype, tuple(dims), num_bins, **json.loads(text))


def place_of(
    op: str, input: Tensor | Sequence[int], dtype: torch.dtype
) -> tuple[tuple[int, ...], Sequence[int], int | torch.SymInt, torch.dtype]:
    """Shape, strides, address and dtype of a tensor, or those that go with a shape."""
    if isinstance(input, Tensor):
        # A meta tensor has no address; allocations are aligned.
        offset = input.storage_offset() * input.dtype.itemsize
        address = offset if input.is_meta else input.data_ptr()
        return tuple(input.shape), input.stride(), address, input.dtype
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{op}: dtype must be a torch.dtype, got {type(dtype).__name__}")
    shape = _shape(op, input)
    return shape, _contiguous_strides(shape), 0, dtype


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


def _contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(max(size, 1) for size in shape[d + 1 :]) for d in range(len(shape)))


def check_size(
    op: str, shape: Sequence[int], dtype: torch.dtype, dims: Sequence[int], num_bins: int
) -> None:
    """Sizes in bytes are 64-bit numbers; beyond them nothing could be allocated either."""
    reduced = {d % max(len(shape), 1) for d in dims} or set(range(len(shape)))
    kept = [size for d, size in enumerate(shape) if d not in reduced]
    for what, size in (
        ("input must", math.prod(max(size, 1) for size in shape) * dtype.itemsize),
        ("num_bins must be so few that the counts", math.prod(kept) * num_bins * 8),
    ):
        if size >= 1 << 62:
            got = list(shape) if what == "input must" else num_bins
            raise ValueError(f"{op}: {what} take less than 2^62 bytes, got {got}")
