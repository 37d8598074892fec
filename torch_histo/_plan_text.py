"""The plans of `explain` in words."""

from __future__ import annotations

import torch

from ._plan_facts import BinSearch, CpuFacts, GpuFacts, HistogramFacts, WrongEdge
from .devices import Device


def gpu_text(e: GpuFacts) -> str:
    return _text(_title(e, _on_gpu(e.device, e.device_is_assumed)), _lines(e))


def cpu_text(e: CpuFacts) -> str:
    return _text(_title(e, f"the CPU ({e.loops} loops)"), _cpu_lines(e))


def histogram_text(e: HistogramFacts) -> str:
    if e.device is None:
        loops = e.keys.loops if e.keys else ""
        return _text(_title(e, f"the CPU ({loops} loops)", "histogram"), _histogram_lines(e))
    device = _on_gpu(e.device, e.device_is_assumed)
    return _text(_title(e, device, "histogram"), _histogram_lines(e))


def _text(title: str, lines: list[tuple[str, str]]) -> str:
    """A line without words is left out."""
    return "\n".join([title, *(f"  {name:<11}{words}" for name, words in lines if words)])


def _title(
    e: GpuFacts | CpuFacts | HistogramFacts,
    device: str,
    op: str = "channel_histogram",
) -> str:
    dims = ", ".join(map(str, e.dim))
    over = f"dim{'s' * (len(e.dim) > 1)} {dims}" if e.dim else "all dims"
    dtype = str(e.dtype).removeprefix("torch.")
    bins = _count(e.num_bins, "bin")
    return f"{op} of {list(e.shape)} {dtype} over {over}, {bins}, on {device}"


def _on_gpu(device: Device, is_assumed: bool) -> str:
    assumed = "an assumed " if is_assumed else ""
    shared = f"{_bytes(device.shared_bytes_per_block)} a block"
    return f"{assumed}{device.name} ({_count(device.sm_count, 'SM')}, {shared})"


def _lines(e: GpuFacts) -> list[tuple[str, str]]:
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


def _cpu_lines(e: CpuFacts) -> list[tuple[str, str]]:
    return [
        ("copy", _copy(e)),
        ("values", _values(e)),
        ("method", _method(e)),
        ("tables", _cpu_tables(e)),
        ("threads", _threads(e)),
        ("workspace", _cpu_workspace(e)),
        ("memory", f"reads {_bytes(e.bytes_read)}, writes {_bytes(e.bytes_of_counts)} of counts"),
    ]


def _method(e: CpuFacts) -> str:
    words = {
        "streams": "one channel after another",
        "columns": "channels side by side, from tiles of rows",
        "bit planes": "channels side by side, by the bits of vectors",
        "products": "by products of matrices of bytes",
        "direct": "no tables: the result itself is counted in",
    }
    neighbours = ", two bytes as one value" if e.neighbours else ""
    return words.get(e.method, e.method) + neighbours


def _cpu_tables(e: CpuFacts) -> str:
    if not e.tables:
        return ""
    rows = _count(e.table_keys, "row")
    text = f"{_count(e.tables, 'table')} of up to {rows}, counters of up to {e.counter_bits} bits"
    if e.strip > 1:
        text += f", for {_count(e.strip, 'channel')} at a time"
    if e.byte_counters:
        text += f"; {_count(e.byte_counters, 'counter')} of 8 bits for values that differ"
    return f"{text}: {_bytes(e.table_bytes + e.byte_counters)} a thread"


def _threads(e: CpuFacts) -> str:
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


def _cpu_workspace(e: CpuFacts) -> str:
    if not e.workspace_bytes:
        return "none"
    what = "copies of the result" if e.sharing else "tables and tiles"
    return f"{_bytes(e.workspace_bytes)}: {what} of {_count(e.threads, 'thread')}"


def _copy(e: GpuFacts | CpuFacts | HistogramFacts) -> str:
    if not e.copies_input:
        return ""
    return f"PyTorch makes a contiguous one first, {_bytes(e.bytes_read)}: the strides are rare"


def _values(e: GpuFacts | CpuFacts) -> str:
    is_bool = e.dtype == torch.bool
    notes = ["false is 0, any other byte is 1"] if is_bool else []
    last = 1 if is_bool else torch.iinfo(e.dtype).max
    if e.num_bins > last + 1:
        notes.append(f"bins from {last + 1:,} on stay empty")
    return "; ".join(notes)


def _layout(e: GpuFacts) -> str:
    if e.method == "interleaved":
        return _layout_of_columns(e)
    if e.method == "runs":
        return _layout_of_runs(e)
    if e.method == "partitioned":
        return (
            f"one channel; {_count(e.owners, 'block')} own {_count(e.bins_per_owner, 'bin')} each, "
            f"values are sent to them in {_count(e.rounds, 'round')}"
        )
    if not e.blocks:
        return "nothing to count: the input is empty"
    tiles = f"{_count(e.tiles, 'tile')} of {_count(e.tile_channels, 'channel')}"
    each = " each" if e.tiles > 1 else ""
    return f"{tiles},{each} in {_count(e.chunks, 'chunk')} of rows"


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
    text += f", in {_count(e.runs, 'run')} of {_bytes(e.run_bytes)}"
    if e.run_bytes_between:
        text += f", of which {_bytes(e.run_bytes_between)} lie between rows"
    return text + (f"; {e.segments_per_block} of them a block" if e.segments_per_block > 1 else "")


def _reads(e: GpuFacts) -> str:
    if not e.access:
        return ""
    aligned = ", put together from two aligned words" if e.access == "words put together" else ""
    who = "thread" if e.access == "elements" else "lane"
    return f"{_count(e.load_bytes, 'byte')} a {who}{aligned}"


def _table(e: GpuFacts) -> str:
    shared = f"{_bytes(e.shared_bytes)} of shared memory a block"
    if e.method == "interleaved":
        counters = _count(e.table_counters_per_key, "counter")
        table = f"{_count(e.table_keys, 'row')} x {counters} of {e.counter_bits} bits"
        if e.counted_by == "planar" and e.counter_bits == 32:
            table += ", with gaps as wide between them"
        return f"{table}: {shared}"
    if e.method == "runs":
        table = f"{_count(e.table_keys, 'row')} x {_count(e.table_counters_per_key, 'counter')}"
        segments = f" for each of {e.segments_per_block}" if e.segments_per_block > 1 else ""
        return f"{table} of {e.counter_bits} bits{segments}: {shared}"
    if e.method == "generic":
        channels = _count(e.tile_channels, "channel")
        bins = _count(e.num_bins, "bin")
        return f"{channels} x {bins}, counters of {e.counter_bits} bits: {shared}"
    if e.method == "partitioned":
        bins = _count(e.bins_per_owner, "bin")
        return f"{bins} of a block, counters of {e.counter_bits} bits: {shared}"
    if e.method == "atomics":
        return f"more bins than one holds: additions in memory, and a few counters in {shared}"
    return ""


def _grid(e: GpuFacts) -> str:
    if not e.blocks:
        return ""
    clusters = f" in clusters of {e.cluster}" if e.cluster > 1 else ""
    work = _count(e.rows_per_block, "row")
    if e.method == "runs":
        work = _count(e.loads_per_block, "load")
    return f"{_count(e.blocks, 'block')} of {e.threads} threads{clusters}, up to {work} each"


def _workspace(e: GpuFacts) -> str:
    if e.reduce_blocks:
        reduce = _count(e.reduce_blocks, "block")
        return f"{_bytes(e.workspace_bytes)}, one table a block, summed by {reduce}"
    if e.method == "partitioned":
        return f"{_bytes(e.workspace_bytes)}, values on their way from block to block"
    if e.cluster > 1:
        added = ", and add the sums to the zeroed counts" if e.clears_counts else ""
        return f"none: the blocks of a cluster sum their tables{added}"
    if not e.blocks:
        return "none"
    if e.clears_counts:
        return "none: what the blocks have goes straight into the zeroed counts"
    return "none: a block writes the counts of channels that it alone counts"


def _memory(e: GpuFacts) -> str:
    gaps = f" and {_bytes(e.bytes_of_gaps)} between rows" if e.bytes_of_gaps else ""
    return f"reads {_bytes(e.bytes_read)}{gaps}, writes {_bytes(e.bytes_of_counts)} of counts"


def _prediction(e: GpuFacts | HistogramFacts) -> str:
    device = e.device
    if device is None:
        return ""
    bandwidth = device.bytes_per_second
    if e.predicted_seconds is None or bandwidth is None:
        return f"unknown, as is the bandwidth of {device.name}"
    if not e.launches:
        return "nothing to do"
    text = f"at least {_seconds(e.predicted_seconds)}, at {bandwidth / 1e12:.4g} TB/s"
    if e.predicted_seconds < 2e-6 * e.launches:
        text += "; launches take longer, some microseconds each"
    return text


def _histogram_lines(e: HistogramFacts) -> list[tuple[str, str]]:
    return [
        ("copy", _copy(e)),
        ("edges", _edges(e)),
        ("layout", _histogram_layout(e)),
        *_lines_of_bins(e),
        *(("why", reason) for reason in _reasons(e)),
        ("invalid", _invalid(e)),
        *(_lines_of_keys(e) if e.device is None else _lines_of_grid(e)),
        ("memory", _memory_of_histogram(e)),
        ("predicted", _prediction(e)),
    ]


def _edges(e: HistogramFacts) -> str:
    dtype = str(e.edge_dtype).removeprefix("torch.")
    text = f"{e.num_bins + 1:,} of {dtype}"
    if e.channels != 1:
        text += ", the same for all channels" if e.shares_edges else ", each channel's own"
    sources = {
        "range": ", of bins of one width",
        "extremes": ", of bins of one width between the extremes, for which all is read first",
    }
    return text + sources.get(e.edges, "")


def _histogram_layout(e: HistogramFacts) -> str:
    if e.layout in ("teams", "streams"):
        text = "one channel" if e.channels == 1 else f"{e.channels:,} channels one after another"
        text += f", each in {_count(e.chunks, 'chunk')} of rows"
        if e.layout == "teams":
            text += f"; a block has {_count(e.teams, 'team')} of {e.threads // e.teams} threads"
        if e.parts > 1:
            text += (
                f"; {e.parts} parts of up to {_count(e.part_bins, 'bin')}, and all is read for each"
            )
        return text
    if e.layout in ("columns", "stripes"):
        text = "" if e.batches == 1 else f"{e.batches:,} times "
        text += f"{_count(e.columns, 'column')} side by side"
        text += f", in {_count(e.stripes, 'stripe')} of {_count(e.stripe_words, 'word')}"
        return f"{text} of {e.word_bytes} bytes"
    layouts = {
        "bytes": "raw bytes are counted, and the sums of the 256 values mapped to bins",
        "tiles": "a block counts all or some rows of a few channels",
        "scattered": "element by element, in the result itself",
        "patterns": f"the {256**e.key_bytes:,} patterns of elements are counted, "
        "and the sums mapped to bins",
        "staged": f"elements become keys of {_count(e.key_bytes, 'byte')}, which are counted",
    }
    return layouts.get(e.layout, "nothing to count: the input is empty")


def _lines_of_bins(e: HistogramFacts) -> list[tuple[str, str]]:
    if not e.searches and e.invalid_channels < e.channels and e.layout != "nothing to count":
        return [("bins", "unknown: only data tell the edges")]
    return [("bins", _bins(e, search)) for search in e.searches]


def _bins(e: HistogramFacts, search: BinSearch) -> str:
    memory = "in memory" if e.layout in ("bytes", "tiles", "scattered") else "in shared memory"
    words = {
        "formula": "by a formula alone",
        "comparison": "by a formula and one comparison with the nearest edge",
        "cells": f"by {search.num_cells:,} cells of the {search.cells}, "
        f"at most {_count(search.fullest_cell, 'edge')} in one",
        "search": f"by a search among all edges {memory}",
    }[search.how]
    if e.layout in ("tiles", "scattered"):
        words += ", which begins where an edge of evenly spaced ones would be"
    every = len(e.searches) == 1 and not e.invalid_channels
    if e.layout == "bytes":
        words += ", for each of the 256 values"
    return words if every else f"{_units(e, search.count)}: {words}"


def _units(e: HistogramFacts, count: int) -> str:
    return _count(count, {"part": "part of a channel"}.get(e.unit, e.unit))


def _reasons(e: HistogramFacts) -> list[str]:
    """Why better guesses are not taken."""
    reasons = []
    for search in e.searches:
        if search.how in ("comparison", "cells", "search"):
            if search.formula_fails:
                reasons.append(f"the formula is wrong at {_edge(e, search.formula_fails)}")
            elif search.how == "comparison":
                reasons.append("channels side by side are searched together, with a comparison")
        if search.how in ("cells", "search") and search.comparison_fails:
            reasons.append(f"one comparison is wrong at {_edge(e, search.comparison_fails)}")
    if e.layout in ("tiles", "scattered") and e.searches:
        reasons.append("nothing is prepared for so few rows, or so many bins")
    return list(dict.fromkeys(reasons))


def _edge(e: HistogramFacts, edge: WrongEdge) -> str:
    channel = "" if e.shares_edges else f" of channel {edge.channel:,}"
    return f"edge {edge.number:,}{channel}, {edge.value:.9g}"


def _invalid(e: HistogramFacts) -> str:
    if not e.invalid_channels:
        return ""
    return f"{_count(e.invalid_channels, 'channel')}: edges that decrease or hold NaN count nothing"


def _lines_of_keys(e: HistogramFacts) -> list[tuple[str, str]]:
    if e.keys is None or not e.key_bytes:
        return []
    return [
        ("method", _method(e.keys)),
        ("tables", _cpu_tables(e.keys)),
        ("threads", _threads(e.keys)),
        ("workspace", _bytes(e.workspace_bytes) if e.workspace_bytes else "none"),
    ]


def _lines_of_grid(e: HistogramFacts) -> list[tuple[str, str]]:
    lines = [("table", _table_of_histogram(e)), ("grid", _grid_of_histogram(e))]
    if e.raw_bytes is not None:
        counted = e.raw_bytes
        lines = [("bytes", _layout(counted)), ("table", _table(counted)), ("grid", _grid(counted))]
    workspace = _bytes(e.workspace_bytes) if e.workspace_bytes else "none"
    return [
        *lines,
        ("launches", f"{e.launches}: {', '.join(e.steps)}" if e.steps else "none"),
        ("workspace", workspace),
    ]


def _table_of_histogram(e: HistogramFacts) -> str:
    shared = f"{_bytes(e.shared_bytes)} of shared memory a block"
    if e.layout == "streams":
        copies = f", in {e.copies} copies" if e.copies > 1 else ""
        return f"counters and edges of {_count(e.part_bins, 'bin')}{copies}, and cells: {shared}"
    if e.layout == "stripes":
        copies = f", {e.copies} copies" if e.copies > 1 else ""
        return f"counters of {_count(e.num_bins, 'bin')} a column{copies}, and edges: {shared}"
    if e.layout == "teams":
        bins = _count(e.num_bins, "bin")
        return f"edges of {bins}, cells, and counters for each team: {shared}"
    if e.layout == "columns":
        return f"counters and edges of {_count(e.num_bins, 'bin')} for each column: {shared}"
    return ""


def _grid_of_histogram(e: HistogramFacts) -> str:
    if not e.blocks:
        return ""
    rows = f", up to {_count(e.rows_per_block, 'row')} each" if e.rows_per_block else ""
    return f"{_count(e.blocks, 'block')} of {e.threads} threads{rows}"


def _memory_of_histogram(e: HistogramFacts) -> str:
    twice = " twice" if e.edges == "extremes" else ""
    return f"reads {_bytes(e.bytes_read)}{twice}, writes {_bytes(e.bytes_of_counts)} of counts"


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
