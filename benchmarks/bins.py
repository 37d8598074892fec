"""The bins of histogram's cases, and the values that are counted in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from cases import Case
from common import Stretch
from torch import Tensor

TENSORBOARD_FIRST, TENSORBOARD_RATIO = 1e-12, 1.1
SCALES = 4
"""Channels have ranges of so many widths, each half of the one before."""


@dataclass(frozen=True)
class Bins:
    """How a call tells its bins: by a range, or by edges, shared by all channels or not."""

    low: float
    high: float
    own: bool = False
    """A channel has a range or edges of its own."""
    edges: Callable[[int], Tensor] | None = None
    """Makes that many edges from `low` to `high`."""
    told: bool = True
    """Whether the range is told, not taken from the values."""


def log_edges(count: int) -> Tensor:
    return torch.logspace(-4, 1, count, dtype=torch.float64)


def random_edges(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.rand(count, dtype=torch.float64, generator=generator).sort().values * 8 - 4


def tensorboard_edges(count: int) -> Tensor:
    """Those of add_histogram: 774 powers of 1.1, their negatives, and 0."""
    exponents = torch.arange(count // 2, dtype=torch.float64)
    positive = TENSORBOARD_FIRST * TENSORBOARD_RATIO**exponents
    return torch.cat([-positive.flip(0), torch.zeros(1, dtype=torch.float64), positive])


def byte_edges(count: int) -> Tensor:
    return torch.linspace(0, 200, count, dtype=torch.float64).floor()


BINS = {
    "in (-3.7, 4.1)": Bins(-3.7, 4.1),
    "in (-4.1, 4.3)": Bins(-4.1, 4.3),
    "in (-4, 4)": Bins(-4, 4),
    "in (1.75, 6.05)": Bins(1.75, 6.05),
    "in (0, 1)": Bins(0, 1),
    "in (0, 255)": Bins(0, 255),
    **{f"in (0, {n})": Bins(0, n) for n in (8, 16, 32, 64, 256)},
    "own ranges": Bins(-3.7, 4.1, own=True),
    "own even ranges": Bins(-4, 4, own=True),
    "of all values": Bins(-4, 4, told=False),
    "own edges of bytes": Bins(0, 255, own=True, edges=byte_edges),
    "by log edges": Bins(1e-4, 10, edges=log_edges),
    "by random edges": Bins(-4, 4, edges=random_edges),
    "by TensorBoard's edges": Bins(-4, 4, edges=tensorboard_edges),
}

QUANTILES = {"median": [0.5], "nine quantiles": [k / 10 for k in range(1, 10)]}
"""The q of quantile's cases, which have no bins."""
BINS |= {name: Bins(-4, 4) for name in [*QUANTILES, "extremes", "summary"]}


def is_float(case: Case) -> bool:
    return case.torch_dtype.is_floating_point


def edge_dtype(case: Case) -> torch.dtype:
    """float32 for floats of up to 32 bits, as histogram has it."""
    return torch.float32 if is_float(case) and case.dtype != "float64" else torch.float64


@cache
def range_of(case: Case, device: torch.device) -> tuple[Tensor, Tensor]:
    """The lower and upper ends: of all channels, or in the shape of the kept dimensions."""
    bins = BINS[case.bins]
    dtype = torch.float32 if bins.own else torch.float64
    scales = torch.ones(1, dtype=dtype)
    shape: list[int] = []
    if bins.own:
        scales = 0.5 ** (torch.arange(case.channels, dtype=dtype) % SCALES)
        shape = [n for d, n in enumerate(case.shape) if d not in case.dim]
    low, high = ((end * scales).view(shape).to(device) for end in (bins.low, bins.high))
    return low, high


@cache
def edges_of(case: Case, device: torch.device) -> Tensor:
    """[1, n + 1] edges, or [channels, n + 1]: exact, in the type that histogram gives them."""
    bins = BINS[case.bins]
    if bins.edges is None:
        found = uniform_edges(*range_of(case, torch.device("cpu")), case.num_bins)
    else:
        found = bins.edges(case.num_bins + 1)
        if bins.own:
            found = found + torch.arange(case.channels).view(-1, 1) % (SCALES * 8)
    return found.view(-1, case.num_bins + 1).to(device, edge_dtype(case))


def uniform_edges(low: Tensor, high: Tensor, num_bins: int) -> Tensor:
    """As np.linspace computes it: a product and a sum, each rounded."""
    step = (high - low) / num_bins
    k = torch.arange(num_bins + 1, dtype=low.dtype, device=low.device)
    edges = k * step.unsqueeze(-1) + low.unsqueeze(-1)
    edges = torch.minimum(edges, high.unsqueeze(-1))
    edges[..., -1] = high
    return edges


def extreme_edges(case: Case, channels: Tensor) -> Tensor:
    """Edges between the finite extremes of each row of `channels`: [channels, n + 1]."""
    finite = channels.isfinite()
    low = torch.where(finite, channels, math.inf).amin(1)
    high = torch.where(finite, channels, -math.inf).amax(1)
    same = (low == high) * 0.5
    return uniform_edges(low - same, high + same, case.num_bins).to(edge_dtype(case))


# --- Values -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Values:
    """A stretch of the elements of a case."""

    case: Case
    part: Stretch

    def rand(self) -> Tensor:
        return self.random(torch.rand)

    def randn(self) -> Tensor:
        return self.random(torch.randn)

    def random(self, source: Callable[..., Tensor]) -> Tensor:
        generator = self.part.generator
        return source(
            self.part.count, dtype=self.dtype, device=generator.device, generator=generator
        )

    @property
    def dtype(self) -> torch.dtype:
        """The type of random numbers, before they become elements."""
        return torch.float64 if self.case.dtype == "float64" else torch.float32

    def channel(self) -> Tensor | int:
        """The number of each element's channel, if channels differ."""
        if not BINS[self.case.bins].own:
            return 0
        found = torch.zeros_like(left := self.part.positions() % self.part.size)
        channels = 1
        for size, kept in zip(reversed(self.case.shape), reversed(self.case.kept), strict=True):
            if kept > 1:
                found += left % size * channels
                channels *= size
            left //= size
        return found % channels

    def at(self, share: Tensor) -> Tensor:
        """The values at a share of the way from the lower to the upper end."""
        low, high = (end.flatten()[self.channel()] for end in self.ends())
        return (low + share * (high - low)).to(self.dtype)

    def ends(self) -> tuple[Tensor, Tensor]:
        return range_of(self.case, self.part.generator.device)


def uniform(values: Values) -> Tensor:
    return values.at(values.rand())


def normal(values: Values) -> Tensor:
    return values.at(values.randn() / 8 + 0.5)


def constant(values: Values) -> Tensor:
    device = values.part.generator.device
    return values.at(torch.full((values.part.count,), 0.3, dtype=values.dtype, device=device))


def relu(values: Values) -> Tensor:
    """Half of them are exact zeros."""
    high = values.ends()[1].flatten()[values.channel()]
    normal = values.randn()
    return normal.clamp_(min=0).mul_(high / 4)


def on_edges(values: Values) -> Tensor:
    edges = edges_of(values.case, values.part.generator.device)
    index = (values.rand() * edges.shape[1]).long().clamp_(max=edges.shape[1] - 1)
    return edges[values.channel(), index]


def ascending(values: Values) -> Tensor:
    part = values.part
    return values.at(part.positions().double() % part.size / part.size)


def zipf(values: Values) -> Tensor:
    """Bin k about as often as 1 / (k + 1)."""
    bins = values.case.num_bins
    rank = (bins + 1) ** values.rand()
    return values.at((rank.floor_().clamp_(max=bins) - 0.5) / bins)


def tenth_nan(values: Values) -> Tensor:
    return uniform(values).masked_fill_(values.rand() < 0.1, math.nan)


DISTRIBUTIONS: dict[str, Callable[[Values], Tensor]] = {
    "uniform": uniform,
    "normal": normal,
    "constant": constant,
    "ReLU": relu,
    "on edges": on_edges,
    "sorted": ascending,
    "Zipf": zipf,
    "one tenth NaN": tenth_nan,
}


def fill(case: Case, distribution: str) -> Callable[[Stretch], Tensor]:
    """A function that fills inputs: integers take the nearest value of their type."""

    def values(part: Stretch) -> Tensor:
        found = DISTRIBUTIONS[distribution](Values(case, part))
        if is_float(case):
            return found
        limits = torch.iinfo(case.torch_dtype)
        return found.round_().clamp_(limits.min, limits.max)

    return values


def has(case: Case, distribution: str) -> bool:
    """Integers have no NaN."""
    return is_float(case) or distribution != "one tenth NaN"
