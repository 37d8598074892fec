"""An observer for PyTorch's quantization that keeps a sketch of each channel.

It has the interface of torchao's observers. Ranges are found for all channels at
once, on the device, by percentiles, by the mean squared error or by the
Kullback-Leibler divergence.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_histo import QuantileSketch

try:
    from torchao.quantization.observer import AffineQuantizedObserverBase
except ImportError:
    from torch.ao.quantization.observer import AffineQuantizedObserverBase

BINS = 2048
LARGEST = 1e300
"""Extremes beyond it are taken for it in a grid, whose widths would overflow."""
METHODS = ("percentile", "mse", "kl")
CANDIDATES = 21
"""Powers of two that a range is cut at, from the extreme down."""
MOST_ON_CPU, MOST_ON_GPU = 1 << 20, 1 << 26
"""Numbers in a table of candidates and edges, of 8 bytes."""


class SketchObserver(AffineQuantizedObserverBase):
    """Counts what passes, tensor by tensor, whatever its range.

    Args:
        mapping_type, target_dtype, granularity, ...: as torchao's observers take them, for
            integers; granularity is PerTensor or PerAxis.
        method: how a range is found, one of METHODS. "mse" rounds the bins of the sketch as the
            quantizer would. Its error is right within 1 % if the values are spread over their
            bins or lie at the extremes. It is less exact for a few distinct values in between,
            and for magnitudes beyond the span of the sketch.
        percentile: the share of the values that the range holds, with method "percentile".
        bits: of `QuantileSketch`. A channel takes 128 KiB with 7 bits.
    """

    def __init__(
        self,
        *arguments: Any,
        method: str = "mse",
        percentile: float = 0.9999,
        bits: int = 7,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        if method not in METHODS:
            raise ValueError(f"SketchObserver: method must be one of {METHODS}, got {method!r}")
        self.method, self.percentile, self.bits = method, percentile, bits
        limits = torch.iinfo(self.target_dtype)
        self.quant_min = limits.min if self.quant_min is None else self.quant_min
        self.quant_max = limits.max if self.quant_max is None else self.quant_max
        self.sketch: QuantileSketch | None = None

    @property
    def symmetric(self) -> bool:
        return self.mapping_type.name != "ASYMMETRIC"

    def forward(self, input: Tensor) -> Tensor:
        axis = getattr(self.granularity, "axis", None)
        dims = None if axis is None else [d for d in range(input.dim()) if d != axis % input.dim()]
        if self.sketch is None:
            channels = () if axis is None else input.shape[axis]
            self.sketch = QuantileSketch(channels, self.bits).to(input.device)
        self.sketch.update(input, dims)
        return input

    def ranges(self) -> tuple[Tensor, Tensor]:
        """The ends of each channel's range, float64. Zero is always in it.

        Infinities and NaN are ignored. A channel without finite values has the range of zero."""
        if self.sketch is None:
            raise RuntimeError("SketchObserver: nothing was observed yet")
        if self.method == "percentile":
            rest = (1 - self.percentile) / 2
            low, high = finite(self.sketch).quantile([rest, 1 - rest])
            low, high = low.nan_to_num(0).clamp(max=0), high.nan_to_num(0).clamp(min=0)
            largest = torch.maximum(-low, high)
            return (-largest, largest) if self.symmetric else (low, high)
        shape = self.sketch.hist.shape[:-1]
        if self.method == "mse":
            parts = map(self.least_error, values_of(self.sketch).parts())
            low, high = map(torch.cat, zip(*parts, strict=True))
            return low.view(shape), high.view(shape)
        grid = grid_of(self.sketch, self.symmetric)
        first, last = by_divergence(grid, self.quant_max - self.quant_min + 1)
        return grid.edge(first).view(shape), grid.edge(last).view(shape)

    def qparams(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Scale and zero point of ranges, float64."""
        steps = self.quant_max - self.quant_min
        eps = torch.finfo(torch.float32).eps if self.eps is None else self.eps
        scale = ((high - low) / steps).clamp(min=eps)
        if self.symmetric:
            return scale, torch.full_like(scale, (self.quant_min + self.quant_max + 1) // 2)
        zero = self.quant_min - (low / scale).round()
        return scale, zero.clamp(self.quant_min, self.quant_max)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        scale, zero = self.qparams(*self.ranges())
        dtype = self.scale_dtype or torch.float32
        scale = scale.clamp(max=torch.finfo(dtype).max)  # float64 has larger values
        return scale.to(dtype), zero.to(self.zero_point_dtype or torch.int32)

    def least_error(self, values: Values) -> tuple[Tensor, Tensor]:
        """The ranges of least squared error, [channels, 1] each, from candidates."""
        bottom, top = values.points[:, :1].clamp(max=0), values.points[:, 1:].clamp(min=0)
        widest = torch.maximum(-bottom, top)
        if self.symmetric:
            # The last level lies half a step before the end: this range has it at the extreme.
            top = widest * (1 + 1 / max(self.quant_max - self.quant_min - 1, 1))
            bottom = -top

        def powers(first: float, last: float, number: int) -> Tensor:
            return torch.logspace(first, last, number, 2, dtype=top.dtype, device=top.device)

        def error(low: Tensor, high: Tensor) -> Tensor:
            scale, zero = self.qparams(low, high)
            return values.error(scale, self.quant_min - zero, self.quant_max - zero)

        def best(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
            low, high = low.clamp(min=bottom), high.clamp(max=top)
            low, high = torch.broadcast_tensors(low, high)
            index = error(low, high).argmin(-1, keepdim=True)
            return low.gather(-1, index), high.gather(-1, index)

        every, values = values, values.coarser(1 << max(0, self.bits - 5)).filled()
        shares = powers(0, 1 - CANDIDATES, CANDIDATES)
        # Both ends at once: while one end has outliers, cutting the other one does not help.
        low, high = best(-widest * shares, widest * shares)
        for _ in range(0 if self.symmetric else 2):
            low, high = best(low, top * shares)
            low, high = best(bottom * shares, high)
        for octaves in (1, 1 / 4, 1 / 16):
            near = powers(-octaves, octaves, 9)
            if self.symmetric:
                low, high = best(low * near, high * near)
            else:
                low, high = best(low, high * near)
                low, high = best(low * near, high)
            values = every.filled()
        # The extremes stay unless 1 % is gained: the error is known no better than that.
        smallest, largest = (-widest, widest) if self.symmetric else (bottom, top)
        is_better = error(low, high) < 0.99 * error(smallest, largest)
        return low.where(is_better, smallest), high.where(is_better, largest)


def finite(sketch: QuantileSketch) -> QuantileSketch:
    """The sketch of the finite values alone: it has counted no infinity."""
    found = deepcopy(sketch)
    found.hist[..., 0].zero_()
    found.hist[..., -2].zero_()
    return found


class Grid(NamedTuple):
    """BINS bins of equal width for each channel, and where zero is: all [channels, ...]."""

    start: Tensor
    width: Tensor
    counts: Tensor
    zero: Tensor
    """The bin whose first edge is 0, or BINS where no value is above it."""
    symmetric: bool

    def edge(self, index: Tensor) -> Tensor:
        return self.start + self.width * (index - self.zero)


def grid_of(sketch: QuantileSketch, symmetric: bool) -> Grid:
    """The counts of a sketch in bins of equal width, those of its bins being spread evenly."""
    hist = sketch.hist.view(-1, sketch.hist.shape[-1])[:, 1:-2].double()
    low = sketch.min.view(-1, 1).nan_to_num(0).clamp(-LARGEST, 0)
    high = sketch.max.view(-1, 1).nan_to_num(0).clamp(0, LARGEST)
    if symmetric:
        high = torch.maximum(-low, high)
        low = -high
    # An edge of the bins lies at 0.
    zero = (BINS * -low / (high - low).clamp(min=1e-300)).round().clamp(0, BINS)
    zero = zero.where(low == 0, zero.clamp(min=1)).where(high == 0, zero.clamp(max=BINS - 1))
    width = torch.maximum(-low / zero.clamp(min=1), high / (BINS - zero).clamp(min=1))
    edges = (torch.arange(BINS + 1, device=hist.device) - zero) * width
    below = torch.nn.functional.pad(hist.cumsum(-1), (1, 0))
    at = torch.searchsorted(sketch.edges, edges, right=True).clamp(1, hist.shape[-1]) - 1
    left = sketch.edges[at]
    part = ((edges - left) / (sketch.edges[at + 1] - left)).clamp(0, 1)
    reached = below.gather(-1, at) + part * hist.gather(-1, at)
    reached[:, 0], reached[:, -1] = 0, below[:, -1]
    return Grid(torch.zeros_like(width), width, reached.diff(dim=-1), zero, symmetric)


class Values(NamedTuple):
    """The values of channels as a density that is constant between edges, and two points.

    The points are the extremes, which many values may have: a clamp makes such values."""

    edges: Tensor
    """[n + 1], shared by all channels; a value of 0 is in no bin."""
    counts: Tensor
    """[channels, n]"""
    points: Tensor
    """[channels, 2]"""
    at_points: Tensor
    """[channels, 2]: how many values are there."""

    def parts(self) -> list[Values]:
        """A few channels each, so that a table of candidates and edges fits memory."""
        most = MOST_ON_CPU if self.edges.is_cpu else MOST_ON_GPU
        size = max(1, most // (CANDIDATES * len(self.edges)))
        parts = zip(*(each.split(size) for each in self[1:]), strict=True)
        return [Values(self.edges, *part) for part in parts]

    def coarser(self, factor: int) -> Values:
        """The same with one bin for `factor` bins of the same sign."""
        kept = torch.zeros_like(self.edges, dtype=torch.bool)
        zero = len(kept) // 2
        kept[zero], kept[:zero:factor], kept[zero + 1 :: factor] = True, True, True
        return self.between(kept)

    def filled(self) -> Values:
        """The same without the bins that are empty in all channels."""
        used = self.counts.any(0)
        kept = torch.nn.functional.pad(used, (1, 0)) | torch.nn.functional.pad(used, (0, 1))
        kept[0] = True
        return self.between(kept)

    def between(self, kept: Tensor) -> Values:
        """The same with fewer edges: those to keep."""
        below = torch.nn.functional.pad(self.counts.cumsum(-1), (1, 0))
        return self._replace(edges=self.edges[kept], counts=below[:, kept].diff())

    def error(self, scale: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """The squared errors, summed, of rounding to the multiples first to last of a scale.

        Arguments and result are [channels, candidates]. A bin's share is an integral: that of the
        squared distance r^2 to the nearest multiple is k / 12 + r^3 / 3 from 0 to k + r."""

        def distance(values: Tensor) -> tuple[Tensor, Tensor]:
            steps = values / scale.unsqueeze(-1)
            nearest = torch.clamp(steps.round(), first.unsqueeze(-1), last.unsqueeze(-1))
            return nearest, steps - nearest

        nearest, rest = distance(self.edges)
        integral = nearest / 12 + rest**3 / 3
        density = torch.nn.functional.pad(self.counts / self.edges.diff(), (1, 1))
        in_bins = integral @ -density.diff().unsqueeze(-1)
        in_points = distance(self.points.unsqueeze(1))[1] ** 2 @ self.at_points.unsqueeze(-1)
        return scale**3 * in_bins.squeeze(-1) + scale**2 * in_points.squeeze(-1)


def values_of(sketch: QuantileSketch) -> Values:
    """The counts of a sketch. All values in the bin of an extreme are taken to equal it."""
    hist = sketch.hist.view(-1, sketch.hist.shape[-1])[:, 1:-2].double()
    zero = hist.shape[-1] // 2
    counts = torch.cat((hist[:, :zero], hist[:, zero + 1 :]), -1)
    edges = torch.cat((sketch.edges[: zero + 1], sketch.edges[zero + 2 :]))
    points = torch.stack((sketch.min.view(-1), sketch.max.view(-1)), -1).nan_to_num(0)
    at = torch.searchsorted(edges, points, right=True).clamp(1, counts.shape[-1]) - 1
    shared = (at[:, :1] == at[:, 1:]) + 1  # both extremes are in one bin
    at_points = counts.gather(-1, at) / shared
    counts = counts.scatter(-1, at, 0)
    return Values(edges[1:-1], counts[:, 1:-1], points, at_points)


def by_divergence(grid: Grid, levels: int, steps: int = 64) -> tuple[Tensor, Tensor]:
    """The ranges, shrunk towards zero, whose quantized counts tell the most about the counts."""
    counts, index = grid.counts, torch.arange(BINS, device=grid.counts.device)
    best = torch.full_like(grid.width, torch.inf)
    first, last = torch.zeros_like(grid.zero), torch.full_like(grid.zero, BINS)
    for shrunk in torch.linspace(max(0.1, levels / BINS), 1, steps).tolist():
        a = (grid.zero * (1 - shrunk)).round()
        b = (grid.zero + (BINS - grid.zero) * shrunk).round()
        inside = counts.where((index >= a) & (index < b), 0)
        ends = torch.cat((a.long(), b.long() - 1), -1)
        beyond = [counts.where(index < a, 0).sum(-1), counts.where(index >= b, 0).sum(-1)]
        clipped = inside.scatter_add(-1, ends, torch.stack(beyond, -1))
        level = ((index - a) * levels / (b - a)).floor().clamp(0, levels - 1).long()
        none = counts.new_zeros(len(counts), levels)
        filled = none.scatter_add(-1, level, (inside > 0).double()).clamp(min=1)
        spread = (none.scatter_add(-1, level, inside) / filled).gather(-1, level)
        spread = spread.where(inside > 0, 0)
        p, q = (v / v.sum(-1, keepdim=True).clamp(min=1e-300) for v in (clipped, spread))
        divergence = (p * ((p + 1e-12) / (q + 1e-12)).log()).sum(-1, keepdim=True)
        better = divergence < best
        best = best.minimum(divergence)
        first, last = first.where(~better, a), last.where(~better, b)
    return first, last
