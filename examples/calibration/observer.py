"""An observer for PyTorch's quantization that keeps a sketch of each channel.

It has the interface of torchao's observers. Ranges are found for all channels at
once, on the device, by percentiles, by the mean squared error or by the
Kullback-Leibler divergence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_histo import QuantileSketch

try:
    from torchao.quantization.observer import AffineQuantizedObserverBase
except ImportError:
    from torch.ao.quantization.observer import AffineQuantizedObserverBase

BINS = 2048
METHODS = ("percentile", "mse", "kl")


class SketchObserver(AffineQuantizedObserverBase):
    """Counts what passes, tensor by tensor, whatever its range.

    Args:
        mapping_type, target_dtype, granularity, ...: as torchao's observers take them, for
            integers; granularity is PerTensor or PerAxis.
        method: how a range is found, one of METHODS.
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
        """The ends of each channel's range, float64. Zero is always in it."""
        if self.sketch is None:
            raise RuntimeError("SketchObserver: nothing was observed yet")
        if self.method == "percentile":
            rest = (1 - self.percentile) / 2
            low, high = self.sketch.quantile([rest, 1 - rest])
            low, high = low.clamp(max=0), high.clamp(min=0)
            largest = torch.maximum(-low, high)
            return (-largest, largest) if self.symmetric else (low, high)
        grid = grid_of(self.sketch, self.symmetric)
        levels = self.quant_max - self.quant_min + 1
        first, last = (by_error if self.method == "mse" else by_divergence)(grid, levels)
        shape = self.sketch.hist.shape[:-1]
        return grid.edge(first).view(shape), grid.edge(last).view(shape)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        low, high = self.ranges()
        steps = self.quant_max - self.quant_min
        eps = torch.finfo(torch.float32).eps if self.eps is None else self.eps
        scale = ((high - low) / steps).clamp(min=eps)
        zero = (self.quant_min - (low / scale).round()).clamp(self.quant_min, self.quant_max)
        if self.symmetric:
            zero = torch.full_like(zero, (self.quant_min + self.quant_max + 1) // 2)
        return (
            scale.to(self.scale_dtype or torch.float32),
            zero.to(self.zero_point_dtype or torch.int32),
        )


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
    low = sketch.min.view(-1, 1).nan_to_num(0).clamp(max=0)
    high = sketch.max.view(-1, 1).nan_to_num(0).clamp(min=0)
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


def by_error(grid: Grid, levels: int) -> tuple[Tensor, Tensor]:
    """The ranges of least squared error: of what is clipped, and of rounding what is not."""
    index = torch.arange(BINS + 1, device=grid.counts.device, dtype=torch.float64)
    middles = index[:-1] + 0.5
    # Error of clipping at each edge, from sums of counts, values and squares; width is 1.
    n, s, q = (
        torch.nn.functional.pad((grid.counts * middles**k).cumsum(-1), (1, 0)) for k in range(3)
    )
    under = index**2 * n - 2 * index * s + q
    over = index**2 * (n[:, -1:] - n) - 2 * index * (s[:, -1:] - s) + (q[:, -1:] - q)
    # What is left of zero's edge may begin a range, and what is right of it may end one.
    under = under.where(index <= grid.zero, torch.inf)
    over = over.where(index >= grid.zero, torch.inf)

    def loss(first: Tensor, last: Tensor) -> Tensor:
        inside = n.gather(-1, last) - n.gather(-1, first)
        rounding = ((last - first) / (levels - 1)) ** 2 / 12 * inside
        return under.gather(-1, first) + over.gather(-1, last) + rounding

    every = index.long().expand(len(n), -1)
    if grid.symmetric:
        first = every[:, : BINS // 2]
        best = loss(first, BINS - first).argmin(-1, keepdim=True)
        return best, BINS - best
    coarse = every[:, :: BINS // 32]
    pairs = coarse.repeat_interleave(33, -1), coarse.repeat(1, 33)
    best = loss(*pairs).argmin(-1, keepdim=True)
    first, last = (side.gather(-1, best) for side in pairs)
    for _ in range(8):  # one end after the other
        first = loss(every, last.expand_as(every)).argmin(-1, keepdim=True)
        last = loss(first.expand_as(every), every).argmin(-1, keepdim=True)
    return first, last


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
