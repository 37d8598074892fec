"""The plans of `explain` in words."""

from __future__ import annotations

import torch

from ..devices import Device
from ._plan_facts import CpuFacts, GpuFacts, HistogramFacts
from ._plan_words import counted, in_bytes, in_seconds


def gpu_text(e: GpuFacts) -> str:
    return text_of(title_of(e, name_of_gpu(e.device, e.device_is_assumed)), _lines(e))


def cpu_text(e: CpuFacts) -> str:
    return text_of(title_of(e, f"the CPU ({e.loops} loops)"), _cpu_lines(e))


def text_of(title: str, lines: list[tuple[str, str]]) -> str:
    """A line without words is left out."""
    return "\n".join([title, *(f"  {name:<11}{words}" for name, words in lines if words)])


def title_of(
    e: GpuFacts | CpuFacts | HistogramFacts,
    device: str,
    op: str = "channel_histogram",
) -> str:
    dims = ", ".join(map(str, e.dim))
    over = f"dim{'s' * (len(e.dim) > 1)} {dims}" if e.dim else "all dims"
    dtype = str(e.dtype).removeprefix("torch.")
    bins = counted(e.num_bins, "bin")
    return f"{op} of {list(e.shape)} {dtype} over {over}, {bins}, on {device}"


def name_of_gpu(device: Device, is_assumed: bool) -> str:
    assumed = "an assumed " if is_assumed else ""
    shared = f"{in_bytes(device.shared_bytes_per_block)} a block"
    return f"{assumed}{device.name} ({counted(device.sm_count, 'SM')}, {shared})"


def _lines(e: GpuFacts) -> list[tuple[str, str]]:
    return [
        ("copy", copy_of(e)),
        ("values", _values(e)),
        ("layout", layout_of(e)),
        ("reads", _reads(e)),
        ("table", table_of(e)),
        ("grid", grid_of(e)),
        ("launches", f"{e.launches}: {', '.join(e.steps)}" if e.steps else "none"),
        ("workspace", _workspace(e)),
        ("memory", _memory(e)),
        ("predicted", prediction_of(e)),
    ]


def _cpu_lines(e: CpuFacts) -> list[tuple[str, str]]:
    return [
        ("copy", copy_of(e)),
        ("values", _values(e)),
        ("method", method_of(e)),
        ("tables", cpu_tables_of(e)),
        ("threads", threads_of(e)),
        ("workspace", _cpu_workspace(e)),
        (
            "memory",
            f"reads {in_bytes(e.bytes_read)}, writes {in_bytes(e.bytes_of_counts)} of counts",
        ),
    ]


def method_of(e: CpuFacts) -> str:
    words = {
        "streams": "one channel after another",
        "columns": "channels side by side, from tiles of rows",
        "bit planes": "channels side by side, by the bits of vectors",
        "products": "by products of matrices of bytes",
        "direct": "no tables: the result itself is counted in",
    }
    neighbours = ", two bytes as one value" if e.neighbours else ""
    return words.get(e.method, e.method) + neighbours


def cpu_tables_of(e: CpuFacts) -> str:
    if not e.tables:
        return ""
    rows = counted(e.table_keys, "row")
    text = f"{counted(e.tables, 'table')} of up to {rows}, counters of up to {e.counter_bits} bits"
    if e.strip > 1:
        text += f", for {counted(e.strip, 'channel')} at a time"
    if e.byte_counters:
        text += f"; {counted(e.byte_counters, 'counter')} of 8 bits for values that differ"
    return f"{text}: {in_bytes(e.table_bytes + e.byte_counters)} a thread"


def threads_of(e: CpuFacts) -> str:
    if e.threads <= 1:
        return f"{e.threads}" if e.threads else "none"
    if e.tasks:
        strips = counted(e.strips, "strip")
        return (
            f"{e.threads}, which take {counted(e.tasks, 'task')} of {strips} of channels in turns"
        )
    words = {
        "channels": "each has channels of its own",
        "copies": "each has a copy of the result",
        "atomic": "all add to the same counts",
    }
    return f"{e.threads}; {words[e.sharing]}"


def _cpu_workspace(e: CpuFacts) -> str:
    if not e.workspace_bytes:
        return "none"
    what = "copies of the result" if e.sharing else "tables and tiles"
    return f"{in_bytes(e.workspace_bytes)}: {what} of {counted(e.threads, 'thread')}"


def copy_of(e: GpuFacts | CpuFacts | HistogramFacts) -> str:
    if not e.copies_input:
        return ""
    return f"PyTorch makes a contiguous one first, {in_bytes(e.bytes_read)}: the strides are rare"


def _values(e: GpuFacts | CpuFacts) -> str:
    is_bool = e.dtype == torch.bool
    notes = ["false is 0, any other byte is 1"] if is_bool else []
    last = 1 if is_bool else torch.iinfo(e.dtype).max
    if e.num_bins > last + 1:
        notes.append(f"bins from {last + 1:,} on stay empty")
    return "; ".join(notes)


def layout_of(e: GpuFacts) -> str:
    if e.method == "interleaved":
        return _layout_of_columns(e)
    if e.method == "runs":
        return _layout_of_runs(e)
    if e.method == "partitioned":
        return (
            f"one channel; {counted(e.owners, 'block')} own "
            f"{counted(e.bins_per_owner, 'bin')} each, "
            f"values are sent to them in {counted(e.rounds, 'round')}"
        )
    if not e.blocks:
        return "nothing to count: the input is empty"
    tiles = f"{counted(e.tiles, 'tile')} of {counted(e.tile_channels, 'channel')}"
    each = " each" if e.tiles > 1 else ""
    return f"{tiles},{each} in {counted(e.chunks, 'chunk')} of rows"


def _layout_of_columns(e: GpuFacts) -> str:
    channels = e.channels + e.gap_channels
    if channels == 1:  # its columns are copies of it
        text = "one channel" if e.batches == 1 else f"{e.batches:,} channels one after another"
        text += f", cut into rows of {e.columns:,} elements"
        if e.groups > 1:
            text += f"; the bins are dealt to {e.groups} tables, and all is read for each"
        return text
    text = "" if e.batches == 1 else f"{e.batches:,} times "
    if not e.columns_per_channel:
        text += f"{channels} channels in turn, cut into rows of {e.columns:,} elements"
        return f"{text}; a lane has a counter for each of {channels} channels{_gaps(e)}"
    each = "a channel each"
    if e.columns_per_channel > 1:
        each = f"{e.columns_per_channel:,} for each of {channels:,} channels"
    text += f"{e.columns:,} columns, {each}"
    if e.groups > 1:
        text += f", in {e.groups:,} groups of {e.table_counters_per_key}"
    if e.stream and not e.gap_channels:
        text += "; rows without a gap are cut anew"
    if e.runs > 1:
        text += f"; rows lie in {e.runs:,} runs"
    return text + _gaps(e)


def _gaps(e: GpuFacts) -> str:
    """The elements between two rows, which are no channels of the input."""
    if not e.gap_channels:
        return ""
    lie = "lie" if e.gap_channels > 1 else "lies"
    return f"; {e.gap_channels:,} of them {lie} between rows"


def _layout_of_runs(e: GpuFacts) -> str:
    text = "" if e.batches == 1 else f"{e.batches:,} times "
    text += "one channel" if e.channels == 1 else f"{e.channels:,} channels"
    text += f", in {counted(e.runs, 'run')} of {in_bytes(e.run_bytes)}"
    if e.run_bytes_between:
        text += f", of which {in_bytes(e.run_bytes_between)} lie between rows"
    return text + (f"; {e.segments_per_block} of them a block" if e.segments_per_block > 1 else "")


def _reads(e: GpuFacts) -> str:
    if not e.access:
        return ""
    aligned = ", put together from two aligned words" if e.access == "words put together" else ""
    who = "thread" if e.access == "elements" else "lane"
    return f"{counted(e.load_bytes, 'byte')} a {who}{aligned}"


def table_of(e: GpuFacts) -> str:
    shared = f"{in_bytes(e.shared_bytes)} of shared memory a block"
    if e.method == "interleaved":
        counters = counted(e.table_counters_per_key, "counter")
        table = f"{counted(e.table_keys, 'row')} x {counters} of {e.counter_bits} bits"
        if e.counted_by == "planar" and e.counter_bits == 32:
            table += ", with gaps as wide between them"
        return f"{table}: {shared}"
    if e.method == "runs":
        table = f"{counted(e.table_keys, 'row')} x {counted(e.table_counters_per_key, 'counter')}"
        segments = f" for each of {e.segments_per_block}" if e.segments_per_block > 1 else ""
        return f"{table} of {e.counter_bits} bits{segments}: {shared}"
    if e.method == "generic":
        channels = counted(e.tile_channels, "channel")
        bins = counted(e.num_bins, "bin")
        return f"{channels} x {bins}, counters of {e.counter_bits} bits: {shared}"
    if e.method == "partitioned":
        bins = counted(e.bins_per_owner, "bin")
        return f"{bins} of a block, counters of {e.counter_bits} bits: {shared}"
    if e.method == "atomics":
        return f"more bins than one holds: additions in memory, and a few counters in {shared}"
    return ""


def grid_of(e: GpuFacts) -> str:
    if not e.blocks:
        return ""
    clusters = f" in clusters of {e.cluster}" if e.cluster > 1 else ""
    work = counted(e.rows_per_block, "row")
    if e.method == "runs":
        work = counted(e.loads_per_block, "load")
    return f"{counted(e.blocks, 'block')} of {e.threads} threads{clusters}, up to {work} each"


def _workspace(e: GpuFacts) -> str:
    if e.reduce_blocks:
        reduce = counted(e.reduce_blocks, "block")
        return f"{in_bytes(e.workspace_bytes)}, one table a block, summed by {reduce}"
    if e.method == "partitioned":
        return f"{in_bytes(e.workspace_bytes)}, values on their way from block to block"
    if e.cluster > 1:
        added = ", and add the sums to the zeroed counts" if e.clears_counts else ""
        return f"none: the blocks of a cluster sum their tables{added}"
    if not e.blocks:
        return "none"
    if e.clears_counts:
        return "none: what the blocks have goes straight into the zeroed counts"
    return "none: a block writes the counts of channels that it alone counts"


def _memory(e: GpuFacts) -> str:
    gaps = f" and {in_bytes(e.bytes_of_gaps)} between rows" if e.bytes_of_gaps else ""
    return f"reads {in_bytes(e.bytes_read)}{gaps}, writes {in_bytes(e.bytes_of_counts)} of counts"


def prediction_of(e: GpuFacts | HistogramFacts) -> str:
    device = e.device
    if device is None:
        return ""
    bandwidth = device.bytes_per_second
    if e.predicted_seconds is None or bandwidth is None:
        return f"unknown, as is the bandwidth of {device.name}"
    if not e.launches:
        return "nothing to do"
    text = f"at least {in_seconds(e.predicted_seconds)}, at {bandwidth / 1e12:.4g} TB/s"
    if e.predicted_seconds < 2e-6 * e.launches:
        text += "; launches take longer, some microseconds each"
    return text
