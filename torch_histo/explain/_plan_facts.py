"""What plans tell: facts by name, in groups, and these in words."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, field, fields
from textwrap import wrap
from typing import Any, NamedTuple

import torch

from .._arguments import name_of
from ..devices import Device, prediction

_ELSEWHERE = """
access load_bytes stream counted_by columns columns_per_channel groups batches channels gap_channels
tiles tile_channels chunks runs run_bytes run_bytes_between segments_per_block copies owners teams
bins_per_owner rounds rows_per_block loads_per_block table_keys table_counters_per_key counter_bits
blocks threads cluster shared_bytes clears_counts shares_lines reduce_blocks strip strips tasks rows
sharing neighbours byte_counters tables table_bytes key_bytes vec16s parts part_bins left stripes
stripe_words word_bytes computes_edges words has_all_digits layout workspace_bytes bytes_read
bytes_of_counts bytes_of_gaps bytes_moved copies_input launches steps loops
"""
_WORDS = {
    "copies_input": "the input is copied first: its strides are rare, or its channels have gaps",
    "shares_lines": "starts when all earlier work has ended",
    "computes_edges": "by a formula and the edges beside it, which are computed anew",
}
SEARCHES = {
    "formula": "by a formula, corrected by a comparison with an edge where it may be wrong",
    "cells": "by a table of cells, and comparisons with the edges near a value",
    "search": "by a search among all edges",
    "": "unknown: only data tell the edges",
}


class Facts:
    """Facts in groups. Each is an attribute, too; those that only other layouts have are 0."""

    facts: dict[str, dict[str, Any]]

    def __getattr__(self, name: str) -> Any:
        groups = self.__dict__.get("facts", {}).values()
        facts = ChainMap(*groups, dict.fromkeys(_ELSEWHERE.split(), 0))
        if name not in facts:
            raise AttributeError(f"{type(self).__name__} has no fact {name!r}")
        return tuple(facts[name] or ()) if name == "steps" else facts[name]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Earlier versions saved each fact as a field."""
        own = {field.name for field in fields(self)}  # type: ignore[arg-type]
        saved = {name: value for name, value in state.items() if name not in own}
        self.__dict__.update({"facts": {"saved": saved}, **state})


@dataclass(frozen=True, repr=False)
class Plan(Facts):
    shape: tuple[int, ...]
    dtype: torch.dtype
    dim: tuple[int, ...]
    num_bins: int
    facts: dict[str, dict[str, Any]] = field(hash=False)
    device: Device | None = None
    device_is_assumed: bool = False

    @property
    def predicted_seconds(self) -> float | None:
        """`bytes_moved` at the device's bandwidth; None if either is not known."""
        bandwidth = self.device.bytes_per_second if self.device else None
        return self.bytes_moved / bandwidth if bandwidth and self.bytes_moved else None

    def __repr__(self) -> str:
        return self._text("channel_histogram", dict(self.facts))

    def _text(self, op: str, groups: dict[str, dict[str, Any]]) -> str:
        dims = ", ".join(map(str, self.dim))
        over = f"dim{'s' * (len(self.dim) > 1)} {dims}" if self.dim else "all dims"
        on = f"an assumed {self.device}" if self.device_is_assumed else self.device or "the CPU"
        if self.device and self.bytes_moved:
            groups |= {"predicted": {"predicted": prediction(self.device, self.bytes_moved)}}
        bins = f"{self.num_bins:,} bin{'s' * (self.num_bins != 1)}"
        lines = [f"{op} of {list(self.shape)} {name_of(self.dtype)} over {over}, {bins}, on {on}"]
        for group, facts in groups.items():
            told = ", ".join(filter(None, (_told(group, *fact) for fact in facts.items())))
            lines += wrap(told, 118, initial_indent=f"  {group:<11}", subsequent_indent=" " * 13)
        return "\n".join(lines).replace("\xa0", " ")


def _told(group: str, name: str, value: Any) -> str:
    """A fact in words; nothing if it does not apply. No line ends within a name."""
    words = name.replace("_", "\xa0")
    if not value or value is True:
        return _WORDS.get(name, words) if value else ""
    if isinstance(value, list | tuple):
        return " then ".join(value)
    if isinstance(value, int):
        value = _in_bytes(value) if "bytes" in name else f"{value:,}"
    return name_of(value) if name in (group, "method") else f"{words}\xa0{name_of(value)}"


def _in_bytes(n: int) -> str:
    power = (n.bit_length() - 1) // 10
    return f"{n / 1024**power:.4g}\xa0{('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"


class WrongEdge(NamedTuple):
    """An edge of a channel, in plans that earlier versions saved."""

    channel: int
    number: int
    value: float


@dataclass(frozen=True)
class BinSearch:
    """How the bins of `count` channels are found. `how`: "formula" if the edges lie evenly, "cells"
    (a table of cells leads to the edges near a value) or "search" (by halves among all edges)."""

    how: str
    count: int


@dataclass(frozen=True)
class WeightFacts(Facts):
    """What weights of `histogram` take: their `dtype`, their `shape` before they broadcast to the
    input, and the facts of docs/profiling.md."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    facts: dict[str, dict[str, Any]] = field(hash=False)
