"""How an input is counted: the plan of the engine, in numbers and in words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import index
from typing import Any

import torch
from torch import Tensor

from .ops import _check_channel_histogram, _dimensions

_KIB = 1 << 10


@dataclass(frozen=True)
class Device:
    """The limits of a GPU that a plan depends on.

    Args:
        name: what it is called.
        sm_count: its streaming multiprocessors.
        shared_bytes_per_block: shared memory that one block can have, in bytes, with opt-in
            (`cudaDevAttrMaxSharedMemoryPerBlockOptin`).
        shared_bytes_per_sm: shared memory of a multiprocessor, in bytes.
        capability: its compute capability, as (major, minor).
        bytes_per_second: the bandwidth of its memory; None where it is not known.

    Raises:
        ValueError: a limit is not positive.
    """

    name: str
    sm_count: int
    shared_bytes_per_block: int
    shared_bytes_per_sm: int
    capability: tuple[int, int]
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        for limit in ("sm_count", "shared_bytes_per_block", "shared_bytes_per_sm"):
            if getattr(self, limit) < 1:
                raise ValueError(f"Device: {limit} must be at least 1, got {getattr(self, limit)}")
        if self.bytes_per_second is not None and self.bytes_per_second <= 0:
            raise ValueError(
                f"Device: bytes_per_second must be above 0 or None, got {self.bytes_per_second}"
            )


# Multiprocessors and bandwidth from NVIDIA's data sheets (H200, H100 and B200: SXM; A100: SXM,
# 80 GB), shared memory from the table "Technical Specifications per Compute Capability" of the
# CUDA programming guide.
DEVICES = (
    Device("H200", 132, 227 * _KIB, 228 * _KIB, (9, 0), 4.8e12),
    Device("H100", 132, 227 * _KIB, 228 * _KIB, (9, 0), 3.35e12),
    Device("A100", 108, 163 * _KIB, 164 * _KIB, (8, 0), 2.039e12),
    Device("RTX 4090", 128, 99 * _KIB, 100 * _KIB, (8, 9), 1.008e12),
    Device("L40S", 142, 99 * _KIB, 100 * _KIB, (8, 9), 0.864e12),
    Device("T4", 40, 64 * _KIB, 64 * _KIB, (7, 5), 0.32e12),
    Device("B200", 148, 227 * _KIB, 228 * _KIB, (10, 0), 8e12),
)
"""The GPUs that `explain` knows by name."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """A plan of `channel_histogram` on a GPU; its `repr()` and `str()` are the plan in words.

    Args:
        device: the GPU that it is for.
        device_is_assumed: nobody named one, and the input is on no device.
        shape, dtype, dim, num_bins: of the call; `dim` is empty for all dimensions.
        method: "columns" (elements side by side, a table with a counter for each column), "runs"
            (many short stretches of such elements, and each load finds its own), "tiles" (any
            strides, a table for a few channels), "exchange" (more bins than a table holds: each
            block has a table of some bins, and others send it their values), "atomics" (more bins
            than a table holds, in memory) or "nothing to count".
        access: what a load takes: "16 bytes", "words", "words put together" (from two aligned ones)
            or "elements".
        copies_input: the strides are rare, and PyTorch makes a contiguous copy first.
        stream: rows without a gap are cut anew, into rows of `columns` elements.
        counted_by: the kernels for columns: "rows" (bytes, whole rows of one table a block),
            "planes" (bytes of up to four channels), "clustered" (some MiB of bytes) or "columns".
        columns, groups, batches: elements of a row; the tables that it takes side by side, or
            that the bins of one channel are dealt to; sets of channels that are counted alike.
        gap_channels: elements between two rows, which are read too and counted for nobody.
        tiles, tile_channels, chunks: blocks across the channels; channels of each; blocks
            across the rows.
        runs, run_bytes, run_bytes_between: stretches of memory that hold the rows of one block's
            channels; bytes of each, where their number of rows says nothing; and how many of
            those lie between rows of one channel.
        units_per_block, copies: sets of channels that a block counts whole; counters that it has
            for a bin of each.
        owners, bins_per_owner, rounds: blocks that own bins; how many each; how often the
            blocks exchange what they have read.
        rows_per_block: rows that a block counts at most; that it reads, in an exchange.
        loads_per_block: of runs the loads, at most.
        table_rows, table_counters_per_row, counter_bits: the table of a block.
        blocks, threads, cluster: the grid; threads a block, blocks a cluster.
        shared_bytes: shared memory of a block.
        workspace_bytes: memory that is allocated besides the counts, and besides the copy:
            tables to be summed, or values on their way to another block.
        clears_counts: the counts are zeroed first; in an exchange what the blocks meet at.
        shares_lines: neighbouring blocks read the same lines of memory, so that none starts before
            all that was launched earlier has ended.
        fold_blocks: blocks of the second kernel, which sums the tables; 0 where there is none.
        launches: kernels and fillings with zeros, besides the copy.
        bytes_read, bytes_of_counts: the elements of the input; the result.
        bytes_of_gaps: what is read besides, since it lies between rows.
        bytes_moved: the least that moves to and from memory.
    """

    device: Device
    device_is_assumed: bool
    shape: tuple[int, ...]
    dtype: torch.dtype
    dim: tuple[int, ...]
    num_bins: int
    method: str
    copies_input: bool
    launches: int
    bytes_read: int
    bytes_of_counts: int
    bytes_of_gaps: int
    bytes_moved: int
    access: str = ""
    stream: bool = False
    counted_by: str = ""
    columns: int = 0
    groups: int = 0
    batches: int = 0
    gap_channels: int = 0
    tiles: int = 0
    tile_channels: int = 0
    chunks: int = 0
    runs: int = 0
    run_bytes: int = 0
    run_bytes_between: int = 0
    units_per_block: int = 0
    copies: int = 0
    owners: int = 0
    bins_per_owner: int = 0
    rounds: int = 0
    rows_per_block: int = 0
    loads_per_block: int = 0
    table_rows: int = 0
    table_counters_per_row: int = 0
    counter_bits: int = 0
    blocks: int = 0
    threads: int = 0
    cluster: int = 1
    shared_bytes: int = 0
    workspace_bytes: int = 0
    clears_counts: bool = False
    shares_lines: bool = False
    fold_blocks: int = 0

    @property
    def predicted_seconds(self) -> float | None:
        """`bytes_moved` at the device's bandwidth; None where that is not known."""
        bandwidth = self.device.bytes_per_second
        return self.bytes_moved / bandwidth if bandwidth else None

    @property
    def steps(self) -> tuple[str, ...]:
        """The launches in order: kernels by name, and "zeroing" before them."""
        kernels: tuple[str, ...] = ()
        if self.method == "columns":
            kernels = (f"count_{self.counted_by}",)
            kernels += (f"fold_{self.counted_by}",) if self.fold_blocks else ()
        elif self.method in ("exchange", "runs"):
            kernels = (f"count_{self.method}",)
        elif self.blocks:
            kernels = ("count_strided",)
        zeroing = self.clears_counts or (not kernels and self.launches)
        return ("zeroing", *kernels) if zeroing else kernels

    def __repr__(self) -> str:
        return _text(_title(self, _on_gpu(self)), _lines(self))


@dataclass(frozen=True, repr=False)
class CpuExplanation:
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
        threads: that count; fewer than torch has where the input is small.
        strip: channels that share the tables of a thread at a time.
        strips, tasks: of all channels; strips, or rows of them, which threads take in turns.
        sharing: without tables the threads have "channels" of their own or "copies" of the result,
            or add to the same counts ("atomic").
        counter_bits: of a table's counters; of the result's where there is no table.
        neighbours: two bytes that follow each other are counted as one value.
        byte_counters: counters of 8 bits besides, for values that differ; 0 where there are none.
        tables, table_rows, table_bytes: of a thread.
        workspace_bytes: memory of all threads, besides the counts and the copy.
        bytes_read, bytes_of_counts: the elements of the input; the result.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    dim: tuple[int, ...]
    num_bins: int
    loops: str
    method: str
    copies_input: bool
    bytes_read: int
    bytes_of_counts: int
    threads: int = 0
    strip: int = 0
    strips: int = 0
    tasks: int = 0
    sharing: str = ""
    counter_bits: int = 0
    neighbours: bool = False
    byte_counters: int = 0
    tables: int = 0
    table_rows: int = 0
    table_bytes: int = 0
    workspace_bytes: int = 0

    def __repr__(self) -> str:
        return _text(_title(self, f"the CPU ({self.loops} loops)"), _cpu_lines(self))


def explain(
    input: Tensor | Sequence[int],
    num_bins: int = 256,
    dim: int | Sequence[int] = 0,
    *,
    dtype: torch.dtype = torch.uint8,
    device: str | torch.device | Device | None = None,
) -> Explanation | CpuExplanation:
    """Tells how `channel_histogram` counts an input: the plan, in numbers and in words.

    Of a GPU the lines are the layout, what a load takes, the table in shared memory, the grid, the
    launches, the workspace, the bytes that move, and the time that these take at the bandwidth
    of the device's memory: no way of counting is faster, unless the input is in a cache. Of the
    CPU they are the way of counting, the tables, the threads, the workspace and the bytes that
    move. Nothing is counted or printed, and no GPU is needed.

    Args:
        input: a tensor, whose dtype, strides and alignment count, or the shape of a contiguous
            and aligned one.
        num_bins: as in `channel_histogram`.
        dim: as in `channel_histogram`.
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
        TypeError: `input` is neither a tensor nor a shape.

    Example:
        >>> plan = torch_histo.explain((1 << 20, 512), device="H200")
        >>> plan  # doctest: +ELLIPSIS
        channel_histogram of [1048576, 512] uint8 over dim 0, 256 bins, on H200 (132 SMs, ...
          layout     512 columns, a channel each, in 4 groups of 128
          reads      16 bytes a lane
          table      256 rows x 128 counters of 16 bits: 64 KiB of shared memory a block
          grid       132 blocks of 768 threads, up to 31,776 rows each
          launches   2: count_rows, fold_rows
          workspace  8.25 MiB, one table a block, summed by ... blocks
          memory     reads 512 MiB, writes 1 MiB of counts
          predicted  at least 112 us, at 4.8 TB/s
        >>> plan.launches
        2
        >>> torch_histo.explain(torch.zeros(1000, dtype=torch.uint8)).threads
        1
    """
    dims = _dimensions(dim)
    if isinstance(input, Tensor):
        _check_channel_histogram(input, input.dim(), num_bins, dims, "auto")
        shape, strides, dtype = tuple(input.shape), input.stride(), input.dtype
        # A meta tensor has no address; allocations are aligned.
        address = input.storage_offset() * dtype.itemsize if input.is_meta else input.data_ptr()
    else:
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"explain: dtype must be a torch.dtype, got {type(dtype).__name__}")
        shape = _shape(input)
        strides, address = _contiguous_strides(shape), 0
    _check_size(shape, dtype, dims, num_bins)
    on_device = isinstance(input, Tensor) and not input.is_meta
    assumed = device is None and not on_device
    if device is None:
        device = input.device if isinstance(input, Tensor) and on_device else _assumed_device()
    if not isinstance(device, Device) and str(device) == "cpu":
        return _explain_on_cpu(shape, strides, dtype, dims, num_bins)
    limits = _limits_of(device)
    plan: dict[str, Any] = json.loads(
        torch.ops.histo._plan_channel_histogram(
            str(dtype).removeprefix("torch."),
            shape,
            strides,
            address,
            num_bins,
            dims,
            sm_count=limits.sm_count,
            shared_bytes_per_block=limits.shared_bytes_per_block,
            shared_bytes_per_sm=limits.shared_bytes_per_sm,
            capability=10 * limits.capability[0] + limits.capability[1],
        )
    )
    # Elements may share memory (torch.Tensor.expand), and then less is read.
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    gaps = 0
    if plan.get("gap_channels"):
        channels = _channels(plan["bytes_of_counts"], num_bins, plan["batches"])
        gaps = plan["bytes_read"] // channels * plan["gap_channels"]
    elif plan.get("run_bytes_between"):
        gaps = plan["batches"] * plan["runs"] * plan["run_bytes_between"]
    moved = min(plan["bytes_read"] + gaps, (last + 1) * dtype.itemsize) + plan["bytes_of_counts"]
    if plan["copies_input"]:
        moved += 2 * plan["bytes_read"]
    return Explanation(
        device=limits,
        device_is_assumed=assumed,
        shape=shape,
        dtype=dtype,
        dim=tuple(dims),
        num_bins=num_bins,
        bytes_of_gaps=gaps,
        bytes_moved=moved,
        **_fields_of(Explanation, plan),
    )


def _explain_on_cpu(
    shape: tuple[int, ...],
    strides: Sequence[int],
    dtype: torch.dtype,
    dims: Sequence[int],
    num_bins: int,
) -> CpuExplanation:
    name = str(dtype).removeprefix("torch.")
    text = torch.ops.histo._plan_channel_histogram_on_cpu(name, shape, strides, num_bins, dims)
    plan = _fields_of(CpuExplanation, json.loads(text))
    return CpuExplanation(shape=shape, dtype=dtype, dim=tuple(dims), num_bins=num_bins, **plan)


def _fields_of(kind: type[Explanation | CpuExplanation], plan: dict[str, Any]) -> dict[str, Any]:
    known = {field.name for field in fields(kind)}
    return {key: value for key, value in plan.items() if key in known}


def _assumed_device() -> torch.device | Device:
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return DEVICES[0]


def _shape(value: object) -> tuple[int, ...]:
    expected = "explain: input must be a torch.Tensor or a shape"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TypeError(f"{expected}, got {type(value).__name__}")
    try:
        shape = tuple(index(size) for size in value)
    except TypeError:
        raise TypeError(f"{expected}, whole numbers, got {value!r}") from None
    if any(size < 0 for size in shape):
        raise ValueError(f"{expected}, no size below 0, got {list(shape)}")
    return shape


def _contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(max(size, 1) for size in shape[d + 1 :]) for d in range(len(shape)))


def _check_size(
    shape: Sequence[int], dtype: torch.dtype, dims: Sequence[int], num_bins: int
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
            raise ValueError(f"explain: {what} take less than 2^62 bytes, got {got}")


def _limits_of(device: str | torch.device | Device) -> Device:
    if isinstance(device, Device):
        return device
    if isinstance(device, str) and not device.startswith("cuda"):
        for known in DEVICES:
            if device.replace(" ", "").casefold() == known.name.replace(" ", "").casefold():
                return known
    elif isinstance(device, str | torch.device) and torch.device(device).type == "cuda":
        return _limits_of_gpu(torch.device(device))
    names = ", ".join(known.name for known in DEVICES)
    raise ValueError(
        f"explain: device must be cpu, a CUDA device, a Device or one of {names}, "
        f"got {str(device)!r}"
    )


def _limits_of_gpu(device: torch.device) -> Device:
    if not torch.cuda.is_available():
        raise RuntimeError(f"explain: device must be a GPU that PyTorch finds, got {device}")
    properties: Any = torch.cuda.get_device_properties(device)
    # Both edges of a clock carry data. A driver that no longer tells the clock says 0.
    bandwidth: float | None = (
        2e3
        * (getattr(properties, "memory_clock_rate", 0) or 0)  # kHz
        * ((getattr(properties, "memory_bus_width", 0) or 0) // 8)
    )
    if not bandwidth:
        # Only names that mean one model: an H100 or A100 may be one of several.
        name = properties.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        by_name = {known.name: known.bytes_per_second for known in DEVICES}
        bandwidth = by_name.get(name.removeprefix("Tesla "))
    return Device(
        properties.name,
        properties.multi_processor_count,
        properties.shared_memory_per_block_optin,
        properties.shared_memory_per_multiprocessor,
        (properties.major, properties.minor),
        bandwidth,
    )


def _text(title: str, lines: list[tuple[str, str]]) -> str:
    """A line without words is left out."""
    return "\n".join([title, *(f"  {name:<11}{words}" for name, words in lines if words)])


def _title(e: Explanation | CpuExplanation, device: str) -> str:
    dims = ", ".join(map(str, e.dim))
    over = f"dim{'s' * (len(e.dim) > 1)} {dims}" if e.dim else "all dims"
    dtype = str(e.dtype).removeprefix("torch.")
    bins = _count(e.num_bins, "bin")
    return f"channel_histogram of {list(e.shape)} {dtype} over {over}, {bins}, on {device}"


def _on_gpu(e: Explanation) -> str:
    assumed = "an assumed " if e.device_is_assumed else ""
    shared = f"{_bytes(e.device.shared_bytes_per_block)} a block"
    return f"{assumed}{e.device.name} ({_count(e.device.sm_count, 'SM')}, {shared})"


def _lines(e: Explanation) -> list[tuple[str, str]]:
    return [
        ("copy", _copy(e)),
        ("values", _values(e)),
        ("layout", _layout(e)),
        ("reads", _reads(e)),
        ("table", _table(e)),
        ("grid", _grid(e)),
        ("launches", f"{e.launches}: {', '.join(e.steps)}" if e.steps else "none"),
        ("workspace", _workspace(e)),
        ("memory", _memory(e)),
        ("predicted", _prediction(e)),
    ]


def _cpu_lines(e: CpuExplanation) -> list[tuple[str, str]]:
    return [
        ("copy", _copy(e)),
        ("values", _values(e)),
        ("method", _method(e)),
        ("tables", _cpu_tables(e)),
        ("threads", _threads(e)),
        ("workspace", _cpu_workspace(e)),
        ("memory", f"reads {_bytes(e.bytes_read)}, writes {_bytes(e.bytes_of_counts)} of counts"),
    ]


def _method(e: CpuExplanation) -> str:
    words = {
        "streams": "one channel after another",
        "columns": "channels side by side, from tiles of rows",
        "bit planes": "channels side by side, by the bits of vectors",
        "products": "by products of matrices of bytes",
        "direct": "no tables: the result itself is counted in",
    }
    neighbours = ", two bytes as one value" if e.neighbours else ""
    return words.get(e.method, e.method) + neighbours


def _cpu_tables(e: CpuExplanation) -> str:
    if not e.tables:
        return ""
    rows = _count(e.table_rows, "row")
    text = f"{_count(e.tables, 'table')} of up to {rows}, counters of up to {e.counter_bits} bits"
    if e.strip > 1:
        text += f", for {_count(e.strip, 'channel')} at a time"
    if e.byte_counters:
        text += f"; {_count(e.byte_counters, 'counter')} of 8 bits for values that differ"
    return f"{text}: {_bytes(e.table_bytes + e.byte_counters)} a thread"


def _threads(e: CpuExplanation) -> str:
    if e.threads <= 1:
        return f"{e.threads}" if e.threads else "none"
    if e.tasks:
        strips = _count(e.strips, "strip")
        return f"{e.threads}, which take {_count(e.tasks, 'task')} of {strips} of channels in turns"
    words = {
        "channels": "each has channels of its own",
        "copies": "each has a copy of the result",
        "atomic": "all add to the same counts",
    }
    return f"{e.threads}; {words[e.sharing]}"


def _cpu_workspace(e: CpuExplanation) -> str:
    if not e.workspace_bytes:
        return "none"
    what = "copies of the result" if e.sharing else "tables and tiles"
    return f"{_bytes(e.workspace_bytes)}: {what} of {_count(e.threads, 'thread')}"


def _copy(e: Explanation | CpuExplanation) -> str:
    if not e.copies_input:
        return ""
    return f"PyTorch makes a contiguous one first, {_bytes(e.bytes_read)}: the strides are rare"


def _values(e: Explanation | CpuExplanation) -> str:
    is_bool = e.dtype == torch.bool
    notes = ["false is 0, any other byte is 1"] if is_bool else []
    last = 1 if is_bool else torch.iinfo(e.dtype).max
    if e.num_bins > last + 1:
        notes.append(f"bins from {last + 1:,} on stay empty")
    return "; ".join(notes)


def _layout(e: Explanation) -> str:
    if e.method == "columns":
        return _layout_of_columns(e)
    if e.method == "runs":
        return _layout_of_runs(e)
    if e.method == "exchange":
        return (
            f"one channel; {_count(e.owners, 'block')} own {_count(e.bins_per_owner, 'bin')} each, "
            f"values are sent to them in {_count(e.rounds, 'round')}"
        )
    if not e.blocks:
        return "nothing to count: the input is empty"
    tiles = f"{_count(e.tiles, 'tile')} of {_count(e.tile_channels, 'channel')}"
    each = " each" if e.tiles > 1 else ""
    return f"{tiles},{each} in {_count(e.chunks, 'chunk')} of rows"


def _channels(bytes_of_counts: int, num_bins: int, batches: int) -> int:
    """Of a batch, those that have counts."""
    return bytes_of_counts // (8 * num_bins * batches)


def _layout_of_columns(e: Explanation) -> str:
    channels = _channels(e.bytes_of_counts, e.num_bins, e.batches) + e.gap_channels
    if channels == 1:  # its columns are copies of it
        text = "one channel" if e.batches == 1 else f"{e.batches:,} channels one after another"
        text += f", cut into rows of {e.columns:,} elements"
        if e.groups > 1:
            text += f"; the bins are dealt to {e.groups} tables, and all is read for each"
        return text
    text = "" if e.batches == 1 else f"{e.batches:,} times "
    if e.columns % channels:
        text += f"{channels} channels in turn, cut into rows of {e.columns:,} elements"
        return f"{text}; a lane has a counter for each of {channels} channels{_gaps(e)}"
    each = "a channel each"
    if e.columns > channels:
        each = f"{e.columns // channels:,} for each of {channels:,} channels"
    text += f"{e.columns:,} columns, {each}"
    if e.groups > 1:
        text += f", in {e.groups:,} groups of {e.table_counters_per_row}"
    if e.stream and not e.gap_channels:
        text += "; rows without a gap are cut anew"
    if e.runs > 1:
        text += f"; rows lie in {e.runs:,} runs"
    return text + _gaps(e)


def _gaps(e: Explanation) -> str:
    """Of channels, some of which are no channels of the input."""
    if not e.gap_channels:
        return ""
    lie = "lie" if e.gap_channels > 1 else "lies"
    return f"; {e.gap_channels:,} of them {lie} between rows"


def _layout_of_runs(e: Explanation) -> str:
    channels = _channels(e.bytes_of_counts, e.num_bins, e.batches)
    text = "" if e.batches == 1 else f"{e.batches:,} times "
    text += "one channel" if channels == 1 else f"{channels:,} channels"
    text += f", in {_count(e.runs, 'run')} of {_bytes(e.run_bytes)}"
    if e.run_bytes_between:
        text += f", of which {_bytes(e.run_bytes_between)} lie between rows"
    return text + (f"; {e.units_per_block} of them a block" if e.units_per_block > 1 else "")


def _reads(e: Explanation) -> str:
    word = max(e.dtype.itemsize, 4)
    return {
        "16 bytes": "16 bytes a lane",
        "words": f"{word} bytes a lane",
        "words put together": f"{word} bytes a lane, put together from two aligned words",
        "elements": f"{_count(e.dtype.itemsize, 'byte')} a thread",
    }.get(e.access, e.access)


def _table(e: Explanation) -> str:
    shared = f"{_bytes(e.shared_bytes)} of shared memory a block"
    if e.method == "columns":
        counters = _count(e.table_counters_per_row, "counter")
        table = f"{_count(e.table_rows, 'row')} x {counters} of {e.counter_bits} bits"
        if e.counted_by == "planes" and e.counter_bits == 32:
            table += ", with gaps as wide between them"
        return f"{table}: {shared}"
    if e.method == "runs":
        table = f"{_count(e.table_rows, 'row')} x {_count(e.table_counters_per_row, 'counter')}"
        units = f" for each of {e.units_per_block}" if e.units_per_block > 1 else ""
        return f"{table} of {e.counter_bits} bits{units}: {shared}"
    if e.method == "tiles":
        channels = _count(e.tile_channels, "channel")
        bins = _count(e.num_bins, "bin")
        return f"{channels} x {bins}, counters of {e.counter_bits} bits: {shared}"
    if e.method == "exchange":
        bins = _count(e.bins_per_owner, "bin")
        return f"{bins} of a block, counters of {e.counter_bits} bits: {shared}"
    if e.method == "atomics":
        return f"more bins than one holds: additions in memory, and a few counters in {shared}"
    return ""


def _grid(e: Explanation) -> str:
    if not e.blocks:
        return ""
    clusters = f" in clusters of {e.cluster}" if e.cluster > 1 else ""
    work = _count(e.rows_per_block, "row")
    if e.method == "runs":
        work = _count(e.loads_per_block, "load")
    return f"{_count(e.blocks, 'block')} of {e.threads} threads{clusters}, up to {work} each"


def _workspace(e: Explanation) -> str:
    if e.fold_blocks:
        fold = _count(e.fold_blocks, "block")
        return f"{_bytes(e.workspace_bytes)}, one table a block, summed by {fold}"
    if e.method == "exchange":
        return f"{_bytes(e.workspace_bytes)}, values on their way from block to block"
    if e.cluster > 1:
        added = ", and add the sums to the zeroed counts" if e.clears_counts else ""
        return f"none: the blocks of a cluster sum their tables{added}"
    if not e.blocks:
        return "none"
    if e.clears_counts:
        return "none: what the blocks have goes straight into the zeroed counts"
    return "none: a block writes the counts of channels that it alone counts"


def _memory(e: Explanation) -> str:
    gaps = f" and {_bytes(e.bytes_of_gaps)} between rows" if e.bytes_of_gaps else ""
    return f"reads {_bytes(e.bytes_read)}{gaps}, writes {_bytes(e.bytes_of_counts)} of counts"


def _prediction(e: Explanation) -> str:
    bandwidth = e.device.bytes_per_second
    if e.predicted_seconds is None or bandwidth is None:
        return f"unknown, as is the bandwidth of {e.device.name}"
    if not e.launches:
        return "nothing to do"
    text = f"at least {_seconds(e.predicted_seconds)}, at {bandwidth / 1e12:.4g} TB/s"
    if e.predicted_seconds < 2e-6 * e.launches:
        text += "; launches take longer, some microseconds each"
    return text


def _count(n: int, noun: str) -> str:
    plural = "es" if noun.endswith("ch") else "s"
    return f"{n:,} {noun}{plural if n != 1 else ''}"


def _digits(x: float) -> str:
    """Three digits, none after the point that is 0."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def _bytes(n: int) -> str:
    size, unit = float(n), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return _count(n, "byte") if unit == "bytes" else f"{_digits(size)} {unit}"


def _seconds(seconds: float) -> str:
    if seconds >= 1e-3:
        return f"{_digits(seconds * 1e3)} ms"
    return f"{_digits(seconds * 1e6)} us" if seconds >= 1e-6 else f"{_digits(seconds * 1e9)} ns"
