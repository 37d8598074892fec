"""The plans of `explain_histogram` in words."""

from __future__ import annotations

from ._plan_facts import HistogramFacts, WeightFacts
from ._plan_text import (
    copy_of,
    cpu_tables_of,
    grid_of,
    layout_of,
    method_of,
    name_of_gpu,
    prediction_of,
    table_of,
    text_of,
    threads_of,
    title_of,
)
from ._plan_words import counted, in_bytes


def histogram_text(e: HistogramFacts) -> str:
    if e.device is None:
        loops = e.keys.loops if e.keys else ""
        return text_of(title_of(e, f"the CPU ({loops} loops)", "histogram"), _histogram_lines(e))
    device = name_of_gpu(e.device, e.device_is_assumed)
    return text_of(title_of(e, device, "histogram"), _histogram_lines(e))


def _histogram_lines(e: HistogramFacts) -> list[tuple[str, str]]:
    if e.weight is not None and not e.weight.multiplies:
        return _lines_of_sums(e, e.weight)
    return [
        ("copy", copy_of(e)),
        ("edges", _edges(e)),
        ("layout", _histogram_layout(e)),
        ("bins", _bins(e)),
        *(_lines_of_keys(e) if e.device is None else _lines_of_grid(e)),
        *([] if e.weight is None else _lines_of_weights(e, e.weight)),
        ("memory", _memory_of_histogram(e)),
        ("predicted", prediction_of(e)),
    ]


def _lines_of_sums(e: HistogramFacts, weight: WeightFacts) -> list[tuple[str, str]]:
    """Without the layout of counts, which sums do not have."""
    return [
        ("copy", copy_of(e)),
        ("edges", _edges(e)),
        ("bins", _bins(e) if e.device is None else ""),
        *_lines_of_weights(e, weight),
        ("memory", _memory_of_histogram(e)),
        ("predicted", prediction_of(e)),
    ]


def _lines_of_weights(e: HistogramFacts, weight: WeightFacts) -> list[tuple[str, str]]:
    dtype = str(weight.dtype).removeprefix("torch.")
    text = f"{list(weight.shape)} {dtype}" if weight.shape else f"one {dtype}"
    if weight.multiplies:
        text += ", one for all values of a channel: counts are multiplied by it"
    elif weight.shape != e.shape:
        text += ", which values share"
    sums = "int64, modulo 2^64"
    if weight.sum_size > 1:
        calls = f", in {weight.calls:,} groups of channels" if weight.calls > 1 else ""
        sums = f"{weight.sum_size} int64 a bin, exact: {in_bytes(weight.bytes_of_digits)}{calls}"
        sums += "; rounded once to float64"
    lines = [("weights", text), ("sums", sums)]
    return [*lines, *(_lines_of_gpu(e, weight) if weight.layout else [])]


def _lines_of_gpu(e: HistogramFacts, weight: WeightFacts) -> list[tuple[str, str]]:
    if weight.layout == "tiles":
        return [
            ("layout", "a block adds all or some rows of a few channels, to the result itself"),
            ("grid", counted(weight.blocks, "block")),
        ]
    text = "one channel" if e.channels == 1 else f"{e.channels:,} channels one after another"
    if weight.layout == "columns":
        text = f"{e.channels:,} columns side by side"
    text += f", {counted(weight.chunks, 'chunk')} of rows"
    if weight.parts > 1:
        text += f"; {weight.parts} parts of the bins, and all is read for each"
    words = "all digits" if weight.has_all_digits else "a window of the digits"
    table = f"{counted(weight.words, 'word')} of 32 bits a bin, {words}"
    if weight.layout == "columns":
        table += f", for each of {weight.copies} columns"
    elif weight.copies > 1:
        table += f", in {weight.copies} copies"
    shared = f"{in_bytes(weight.shared_bytes)} of shared memory a block"
    return [
        ("layout", text),
        ("table", f"{table}: {shared}"),
        ("grid", counted(weight.blocks, "block")),
    ]


def _edges(e: HistogramFacts) -> str:
    dtype = str(e.edge_dtype).removeprefix("torch.")
    text = f"{e.num_bins + 1:,} of {dtype}"
    if e.channels != 1:
        text += ", the same for all channels" if e.shares_edges else ", each channel's own"
    if e.edges == "given":
        return text + (f", {e.edges_lie}" if e.edges_lie else "")
    text += ", of bins of one width"
    if e.edges == "extremes":
        text += " between the extremes"
        text += "" if e.layout == "short" else ", for which all is read first"
    return text


def _histogram_layout(e: HistogramFacts) -> str:
    if e.layout in ("short", "teams", "streams"):
        text = "one channel" if e.channels == 1 else f"{e.channels:,} channels one after another"
        if e.layout != "short":
            text += f", each in {counted(e.chunks, 'chunk')} of rows"
        elif e.computes_edges:
            text += ", read once" if e.channels == 1 else ", each read once"
            text += " into shared memory"
        if e.teams:
            text += f"; a block has {counted(e.teams, 'team')} of {e.threads // e.teams} threads"
        if e.parts > 1:
            bins = counted(e.part_bins, "bin")
            text += f"; {e.parts} parts of up to {bins}, and all is read for each"
        return text
    if e.layout in ("columns", "stripes"):
        text = "" if e.batches == 1 else f"{e.batches:,} times "
        text += f"{counted(e.columns, 'column')} side by side"
        text += f", in {counted(e.stripes, 'stripe')} of {counted(e.stripe_words, 'word')}"
        return f"{text} of {e.word_bytes} bytes"
    layouts = {
        "bytes": "raw bytes are counted, and the sums of the 256 values mapped to bins",
        "tiles": "a block counts all or some rows of a few channels",
        "scattered": "element by element, in the result itself",
        "patterns": f"the {256**e.key_bytes:,} patterns of elements are counted, "
        "and the sums mapped to bins",
        "staged": f"elements become keys of {counted(e.key_bytes, 'byte')}, which are counted",
    }
    return layouts.get(e.layout, "nothing to count: the input is empty")


def _bins(e: HistogramFacts) -> str:
    if e.computes_edges:
        return "by a formula and the edges beside it, which are computed anew"
    if not e.searches:
        return "" if e.layout == "nothing to count" else "unknown: only data tell the edges"
    words = {
        "formula": "by a formula, corrected by a comparison with an edge where it may be wrong",
        "cells": "by a table of cells, and comparisons with the edges near a value",
        "search": "by a search among all edges",
    }
    how = e.searches[0].how
    return words.get(how, how)  # plans of earlier versions have others


def _lines_of_keys(e: HistogramFacts) -> list[tuple[str, str]]:
    if e.keys is None or not e.key_bytes:
        return []
    return [
        ("method", method_of(e.keys)),
        ("tables", cpu_tables_of(e.keys)),
        ("threads", threads_of(e.keys)),
        ("workspace", in_bytes(e.workspace_bytes) if e.workspace_bytes else "none"),
    ]


def _lines_of_grid(e: HistogramFacts) -> list[tuple[str, str]]:
    lines = [("table", _table_of_histogram(e)), ("grid", _grid_of_histogram(e))]
    if e.raw_bytes is not None:
        counted = e.raw_bytes
        lines = [
            ("bytes", layout_of(counted)),
            ("table", table_of(counted)),
            ("grid", grid_of(counted)),
        ]
    workspace = in_bytes(e.workspace_bytes) if e.workspace_bytes else "none"
    return [
        *lines,
        ("launches", f"{e.launches}: {', '.join(e.steps)}" if e.steps else "none"),
        ("workspace", workspace),
    ]


def _table_of_histogram(e: HistogramFacts) -> str:
    shared = f"{in_bytes(e.shared_bytes)} of shared memory a block"
    if e.layout == "streams":
        copies = f", in {e.copies} copies" if e.copies > 1 else ""
        return f"counters and edges of {counted(e.part_bins, 'bin')}{copies}, and cells: {shared}"
    bins = counted(e.num_bins, "bin")
    if e.layout == "stripes":
        copies = f", {e.copies} copies" if e.copies > 1 else ""
        edges = "" if e.computes_edges else ", and edges"
        return f"counters of {bins} a column{copies}{edges}: {shared}"
    if e.layout in ("short", "teams"):
        if not e.computes_edges:
            return f"edges of {bins}, cells, and counters for each team: {shared}"
        channel = "a channel and " if e.layout == "short" else ""
        return f"{channel}counters of {bins} for each team: {shared}"
    if e.layout == "columns":
        return f"counters and edges of {bins} for each column: {shared}"
    return ""


def _grid_of_histogram(e: HistogramFacts) -> str:
    if not e.blocks:
        return ""
    rows = f", up to {counted(e.rows_per_block, 'row')} each" if e.rows_per_block else ""
    return f"{counted(e.blocks, 'block')} of {e.threads} threads{rows}"


def _memory_of_histogram(e: HistogramFacts) -> str:
    twice = " twice" if e.edges == "extremes" and e.layout != "short" else ""
    reads = f"reads {in_bytes(e.bytes_read)}{twice}"
    if e.weight is not None:
        reads += f" and {in_bytes(e.weight.bytes_read)} of weights"
    results = "counts" if e.weight is None else "sums"
    return f"{reads}, writes {in_bytes(e.bytes_of_counts)} of {results}"
