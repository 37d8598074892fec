"""The facts of plans: `Explanation` and the like document them and put them into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..devices import Device


@dataclass(frozen=True)
class GpuFacts:
    device: Device
    device_is_assumed: bool
    shape: tuple[int, ...]
    dtype: torch.dtype
    dim: tuple[int, ...]
    num_bins: int
    method: str
    copies_input: bool
    launches: int
    steps: tuple[str, ...]
    bytes_read: int
    bytes_of_counts: int
    bytes_of_gaps: int
    bytes_moved: int
    access: str = ""
    load_bytes: int = 0
    stream: bool = False
    counted_by: str = ""
    columns: int = 0
    columns_per_channel: int = 0
    groups: int = 0
    batches: int = 0
    channels: int = 0
    gap_channels: int = 0
    tiles: int = 0
    tile_channels: int = 0
    chunks: int = 0
    runs: int = 0
    run_bytes: int = 0
    run_bytes_between: int = 0
    segments_per_block: int = 0
    copies: int = 0
    owners: int = 0
    bins_per_owner: int = 0
    rounds: int = 0
    rows_per_block: int = 0
    loads_per_block: int = 0
    table_keys: int = 0
    table_counters_per_key: int = 0
    counter_bits: int = 0
    blocks: int = 0
    threads: int = 0
    cluster: int = 1
    shared_bytes: int = 0
    workspace_bytes: int = 0
    clears_counts: bool = False
    shares_lines: bool = False
    reduce_blocks: int = 0

    @property
    def predicted_seconds(self) -> float | None:
        """`bytes_moved` at the device's bandwidth; None where that is not known."""
        bandwidth = self.device.bytes_per_second
        return self.bytes_moved / bandwidth if bandwidth else None


@dataclass(frozen=True)
class CpuFacts:
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
    table_keys: int = 0
    table_bytes: int = 0
    workspace_bytes: int = 0


class WrongEdge(NamedTuple):
    """An edge of a channel, in plans that earlier versions saved."""

    channel: int
    number: int
    value: float


@dataclass(frozen=True)
class BinSearch:
    """How the bins of channels are found.

    Args:
        how: "formula" (the edges lie evenly: a formula guesses the bin, and where it may be wrong
            a comparison with an edge corrects it), "cells" (a table of cells leads to the edges
            near a value) or "search" (by halves among all edges).
        count: how many channels.
    """

    how: str
    count: int


@dataclass(frozen=True)
class WeightFacts:
    """What weights of `histogram` take.

    Args:
        dtype, shape: of the weights, before they broadcast to the input.
        sum_size: how many int64 a bin has: digits and three counts, or one integer.
        calls: groups of channels, one after another, so that memory of digits is limited.
        bytes_of_digits: those of the largest group.
        bytes_read: of the weights.
        multiplies: all elements of a channel share a weight: they are counted, and the counts
            multiplied by it.
        layout: on a GPU, where nothing is multiplied: "streams" (a block sums rows of one channel
            in shared memory), "columns" (the same for channels side by side) or "tiles" (everything
            else, in the result itself); "" on the CPU, and for several groups of channels.
        words, copies: of a bin in a block's table, 32 bits each; copies of the table, which lanes
            take in turns, or its columns.
        has_all_digits: the words hold every weight of the type. Otherwise they are a window: what
            lies outside is added in memory.
        parts, chunks: "streams": parts of the bins, for each of which all is read. Blocks across
            the rows of a channel.
        blocks, shared_bytes: the grid, and the shared memory of a block.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    sum_size: int
    calls: int
    bytes_of_digits: int
    bytes_read: int
    multiplies: bool
    layout: str = ""
    words: int = 0
    copies: int = 0
    has_all_digits: bool = False
    parts: int = 1
    chunks: int = 0
    blocks: int = 0
    shared_bytes: int = 0


@dataclass(frozen=True)
class HistogramFacts:
    device: Device | None
    device_is_assumed: bool
    shape: tuple[int, ...]
    dtype: torch.dtype
    dim: tuple[int, ...]
    num_bins: int
    flow: bool
    channels: int
    edges: str
    edge_dtype: torch.dtype
    shares_edges: bool
    edges_lie: str
    searches: tuple[BinSearch, ...]
    layout: str
    copies_input: bool
    bytes_read: int
    bytes_of_counts: int
    bytes_moved: int
    keys: CpuFacts | None = None
    key_bytes: int = 0
    raw_bytes: GpuFacts | None = None
    vec16s: bool = False
    chunks: int = 0
    rows_per_block: int = 0
    parts: int = 1
    part_bins: int = 0
    copies: int = 0
    teams: int = 0
    columns: int = 0
    rows: int = 0
    left: int = 0
    batches: int = 0
    stripes: int = 0
    stripe_words: int = 0
    word_bytes: int = 0
    blocks: int = 0
    threads: int = 0
    shared_bytes: int = 0
    workspace_bytes: int = 0
    clears_counts: bool = False
    steps: tuple[str, ...] = ()
    weight: WeightFacts | None = None
    computes_edges: bool = False

    @property
    def launches(self) -> int:
        """How many steps there are."""
        return len(self.steps)

    @property
    def predicted_seconds(self) -> float | None:
        """`bytes_moved` at the device's bandwidth; None where that is not known."""
        bandwidth = self.device.bytes_per_second if self.device else None
        return self.bytes_moved / bandwidth if bandwidth else None
