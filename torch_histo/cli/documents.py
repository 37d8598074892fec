"""The counts of files as JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import IO, Any

from torch import Tensor

from .report import Result
from .sources import TEXT_BINS


def json_number(value: float) -> float | str | None:
    """JSON has neither NaN nor infinities."""
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def json_numbers(row: Tensor) -> list[Any]:
    """Counts, or sums of weights."""
    numbers: list[Any] = row.tolist()
    return list(map(json_number, numbers)) if row.is_floating_point() else numbers


def json_of_weights(weights: tuple[str, str]) -> dict[str, str]:
    """The file of weights, and their dtype."""
    return dict(zip(("weights", "weight_dtype"), weights, strict=True))


class JsonDocument:
    """One JSON document with every bin of every file, written as the counts come."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._before = '{"files": ['

    def add_entry(self, entry: dict[str, Any]) -> None:
        self._stream.write(self._before + json.dumps(entry))
        self._before = ", "

    def add(self, result: Result) -> None:
        is_text, weights = result.kind == "text", result.weights
        head: dict[str, Any] = {
            "name": result.name,
            "kind": result.kind,
            "dtype": result.dtype,
            "shape": result.shape,
            "elements": result.elements,
            **(json_of_weights(weights) if weights else {"ignored": result.ignored}),
            "below": None if is_text else result.below,
            "above": None if is_text else result.above,
            "num_bins": result.counts.shape[1],
            **({} if weights else {"bins": TEXT_BINS if is_text else None}),
            "note": result.note,
        }
        self._stream.write(self._before + json.dumps(head)[:-1] + ', "channels": [')
        self._before = ", "
        for index, (name, counts) in enumerate(
            zip(result.channel_names, result.counts, strict=True)
        ):
            channel: dict[str, Any] = {"name": name}
            if result.flow is not None:
                channel["edges"] = result.edges_of(index).tolist()
                channel |= zip(
                    ("underflow", "overflow", "nan"), json_numbers(result.flow[index]), strict=True
                )
            channel["sums" if weights else "counts"] = json_numbers(counts)
            self._stream.write((", " if index else "") + json.dumps(channel))
        self._stream.write("]}")

    def close(self, errors: Sequence[tuple[str, str]]) -> None:
        failures = json.dumps([{"name": name, "error": error} for name, error in errors])
        start = self._before if self._before != ", " else ""
        self._stream.write(f'{start}], "errors": {failures}}}\n')
