"""The axes of a joint histogram, as a module is given them."""

from __future__ import annotations

from typing import Any

import torch

from torch_histo._arguments import shown
from torch_histo.joint import Bins, Ranges


def axes_of(name: str, bins: Bins, range: Ranges | None) -> list[tuple[Any, Any]]:
    """The bins and the range of each axis."""
    try:
        ranges: list[Any] | None = None if range is None else list(range)  # type: ignore[arg-type]
    except TypeError:
        expected = "range must be None, or hold a pair or None for each axis"
        raise TypeError(f"{name}: {expected}, got {shown(range)}") from None
    if isinstance(bins, (tuple, list)):
        axes = list(bins)
    elif ranges is not None:
        axes = [bins] * len(ranges)
    else:
        expected = "bins must be a tuple, one an axis, where range is None"
        raise RuntimeError(f"{name}: {expected}, got {shown(bins)}")
    ranges = [None] * len(axes) if ranges is None else ranges
    if not axes or len(ranges) != len(axes):
        expected = f"range must be None, or hold a pair or None for each of {len(axes)} axes"
        if not axes:
            expected = "bins must hold the bins of at least one axis"
        raise RuntimeError(f"{name}: {expected}, got {shown(range if axes else bins)}")
    return list(zip(axes, ranges, strict=True))


def common_sizes(name: str, sizes: list[Any]) -> list[int]:
    try:
        return list(torch.broadcast_shapes(*sizes))  # type: ignore[no-untyped-call]
    except RuntimeError:
        got = " and ".join(str(list(own)) for own in sizes)
        expected = "edges must have channels that broadcast to each other"
        raise RuntimeError(f"{name}: {expected}, got {got}") from None
