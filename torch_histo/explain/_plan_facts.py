"""What plans tell: facts by name, in groups, and these in words."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch

from .._arguments import name_of
from ..devices import Device

_ELSEWHERE = """
access load_bytes stream counted_by columns columns_per_channel groups batches channels gap_channels
tiles tile_channels chunks runs run_bytes run_bytes_between segments_per_block copies owners teams
bins_per_owner rounds rows_per_block loads_per_block table_keys table_counters_per_key counter_bits
blocks threads cluster shared_bytes clears_counts shares_lines reduce_blocks strip strips tasks rows
sharing neighbours byte_counters tables table_bytes key_bytes vec16s parts part_bins left stripes
stripe_words word_bytes computes_edges words has_all_digits layout workspace_bytes bytes_read
bytes_of_counts copies_input launches steps
"""
_WORDS = {
    "copies_input": "the input is copied first: its strides are rare, or its channels have gaps",
    "shares_lines": "starts when all earlier work has ended",
    "computes_edges": "by a formula and the edges beside it, which are computed anew",
}


class Facts:
    """Facts by name, in groups. Each one is an attribute, too. Those that only plans of other
    layouts have are 0."""

    facts: dict[str, dict[str, Any]]

    def __getattr__(self, name: str) -> Any:
        for group in self.__dict__.get("facts", {}).values():
            if name in group:
                return group[name]
        if name in _ELSEWHERE.split():
            return () if name == "steps" else 0
        raise AttributeError(f"{type(self).__name__} has no fact {name!r}")

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
        """`bytes_moved` at the device's bandwidth; None where that is not known."""
        bandwidth = self.device.bytes_per_second if self.device else None
        return self.bytes_moved / bandwidth if bandwidth else None

    def __repr__(self) -> str:
        return self._text("channel_histogram", self.facts)

    def _text(self, op: str, groups: dict[str, dict[str, Any]]) -> str:
        over = f"dim{'s' * (len(self.dim) > 1)} {', '.join(map(str, self.dim))}"
        text = f"{op} of {list(self.shape)} {name_of(self.dtype)} over "
        text += f"{over if self.dim else 'all dims'}, {_counted(self.num_bins, 'bin')}, on "
        text += _gpu(self.device, self.device_is_assumed) if self.device else "the CPU"
        for group, facts in groups.items():
            told = ", ".join(filter(None, (_told(group, *fact) for fact in facts.items())))
            for line in textwrap.wrap(told, 105, break_long_words=False, break_on_hyphens=False):
                text += f"\n  {group:<11}{line}"
                group = ""
        if self.device:
            text += f"\n  predicted  {_prediction(self.predicted_seconds, self.device)}"
        return text.replace("\xa0", " ")


def _gpu(device: Device, is_assumed: bool) -> str:
    shared = f"{_in_bytes(device.shared_bytes_per_block)} a block"
    name = f"an assumed {device.name}" if is_assumed else device.name
    return f"{name} ({_counted(device.sm_count, 'SM')}, {shared})"


def _told(group: str, name: str, value: Any) -> str:
    """A fact in words that stay on a line; nothing if it does not apply."""
    words = name.replace("_", " ")
    if not value:
        return ""
    if isinstance(value, tuple):
        return " then ".join(value)
    if value is True:
        return _WORDS.get(name, words).replace(" ", "\xa0")
    if isinstance(value, str | torch.dtype):
        told = name_of(value)
    elif "bytes" in name:
        words, told = re.sub("^bytes (of )?| bytes$", "", words), _in_bytes(value)
    else:
        told = f"{value:,}"
    told = told if name in (group, "method") else f"{words} {told}"
    return told.replace(" ", "\xa0")


def _prediction(seconds: float | None, device: Device) -> str:
    if seconds is None or device.bytes_per_second is None:
        return f"unknown, as is the bandwidth of {device.name}"
    at = f"at {device.bytes_per_second / 1e12:.4g} TB/s; each launch takes some microseconds more"
    return f"at least {seconds * 1e6:,.3g} us, {at}"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _in_bytes(n: int) -> str:
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if n >= 1024**power:
            size = n / 1024**power
            return f"{size:,.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"
    return _counted(n, "byte")


class WrongEdge(NamedTuple):
    """An edge of a channel, in plans that earlier versions saved."""

    channel: int
    number: int
    value: float


HOW = {
    "formula": "by a formula, corrected by a comparison with an edge where it may be wrong",
    "cells": "by a table of cells, and comparisons with the edges near a value",
    "search": "by a search among all edges",
    "": "unknown: only data tell the edges",
}


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
