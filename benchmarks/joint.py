"""The cases of joint histograms, their data, the right counts, and the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from math import prod

import common
import torch
from bins import edges_of, extreme_edges, is_float, range_of
from cases import Case
from common import Stretch
from histogram_peers import by_channels, closed, told
from peers import Count, read_only
from torch import Tensor

USUAL = "in (-4.1, 4.3)"
"""The range of floats. An integer v has bin v."""


def is_in_one(case: Case) -> bool:
    return case.beside.endswith(" in one")


def axes(case: Case) -> list[Case]:
    """What each coordinate would be alone."""
    dtypes = [case.dtype, *case.beside.removesuffix(" in one").split(", ")]
    every = [replace(case, dtype=dtype, beside="") for dtype in dtypes]
    return [axis if is_float(axis) else replace(axis, bins=of_ids(axis)) for axis in every]


def of_ids(axis: Case) -> str:
    return f"in (0, {axis.num_bins})"


def pair(shape: tuple[int, ...], num_bins: int, dtype: str = "float32", beside: str = "") -> Case:
    case = Case(dtype, shape, num_bins=num_bins, bins=USUAL, beside=beside or dtype)
    return case if any(map(is_float, axes(case))) else replace(case, bins=of_ids(case))


def images(count: int, size: int) -> Case:
    """A joint histogram for each pair."""
    return replace(pair((count, size, size), 64), dim=(1, 2))


def cases(most: int, images_: Case, points: int) -> list[Case]:
    """Those of a device, the largest with `most` float32 pairs."""
    return [
        *(pair((most,), n) for n in (64, 128, 32, 200, 512, 1024)),
        pair((2 * most,), 64, "bfloat16"),
        pair((2 * most,), 256, "uint8"),
        pair((most // 2,), 64, "int64", "float32"),
        pair((most // 4,), 32, beside="float32, float32"),
        images_,
        pair((points,), 32, "float64", "float64, float64 in one"),
        pair((1 << 16,), 64),
        # Coordinates that take turns, other types, four coordinates, and a range that is found.
        pair((most,), 64, beside="float32 in one"),
        pair((most // 4,), 32, beside="float32, float32 in one"),
        pair((most // 2,), 64, "float64"),
        pair((2 * most,), 64, "float16"),
        pair((most,), 64, "bfloat16", "float32"),
        pair((most,), 64, "int32"),
        pair((2 * most,), 64, "uint8", "bfloat16"),
        pair((most // 4,), 8, beside="float32, float32, float32"),
        replace(pair((most,), 64), bins="of all values"),
    ]


CUDA_CASES = cases(1 << 28, images(64, 256), 1_000_000)
CPU_CASES = cases(1 << 22, images(64, 256), 1_000_000)
QUICK = cases(1 << 16, images(4, 32), 10_000)


@dataclass(frozen=True)
class Points:
    """The coordinates of elements, or all of them in the last dimension of one tensor."""

    tensors: list[Tensor]
    in_one: bool

    @property
    def sample(self) -> tuple[Tensor, ...] | Tensor:
        """As histogramdd takes it."""
        return self.tensors[0] if self.in_one else tuple(self.tensors)

    @property
    def coordinates(self) -> list[Tensor]:
        return list(self.tensors[0].unbind(-1)) if self.in_one else self.tensors

    @property
    def device(self) -> torch.device:
        return self.tensors[0].device

    @property
    def shape(self) -> torch.Size:
        return self.coordinates[0].shape


# --- Data -------------------------------------------------------------------------------

CORRELATED = "correlated"
SLOPE = 0.99


def independent(case: Case, part: Stretch) -> Tensor:
    return random(torch.randn, part) / 8 + 0.5


def constant(case: Case, part: Stretch) -> Tensor:
    return torch.full((part.count,), 0.3, device=part.generator.device)


def zipf(case: Case, part: Stretch) -> Tensor:
    """Bin k of an axis about as often as 1 / (k + 1)."""
    rank = (case.num_bins + 1) ** random(torch.rand, part)
    return (rank.floor_().clamp_(max=case.num_bins) - 0.5) / case.num_bins


def random(source: Callable[..., Tensor], part: Stretch) -> Tensor:
    return source(part.count, device=part.generator.device, generator=part.generator)


DISTRIBUTIONS: dict[str, Callable[[Case, Stretch], Tensor]] = {
    "independent": independent,
    "constant": constant,
    CORRELATED: independent,
    "Zipf": zipf,
}
"""How far each coordinate is from the lower to the upper end. Correlated ones follow the first."""


def at(axis: Case, share: Tensor) -> Tensor:
    if not is_float(axis):
        return (share * axis.num_bins).floor_().clamp_(0, axis.num_bins - 1).to(axis.torch_dtype)
    low, high = (float(end) for end in range_of(axis, torch.device("cpu")))
    return (low + share * (high - low)).to(axis.torch_dtype)


def share_of(axis: Case, x: Tensor) -> Tensor:
    if not is_float(axis):
        return (x.float() + 0.5) / axis.num_bins
    low, high = (float(end) for end in range_of(axis, torch.device("cpu")))
    return (x.float() - low) / (high - low)


def has(case: Case, distribution: str) -> bool:
    return distribution != "Zipf" or case.num_bins >= 200 or case in QUICK


def inputs(case: Case, distribution: str, device: torch.device) -> list[Points]:
    every = axes(case)

    def rotated(axis: Case, seed: int) -> list[Tensor]:
        def fill(part: Stretch) -> Tensor:
            return at(axis, DISTRIBUTIONS[distribution](case, part))

        return common.rotated(case.shape, fill, device, axis.torch_dtype, case.num_bins, seed)

    found = [rotated(every[0], 0)]
    for seed, axis in enumerate(every[1:], 1):
        if distribution == CORRELATED:
            others = [at(axis, share_of(every[0], x) * SLOPE) for x in found[0]]
        else:
            others = rotated(axis, seed)
        found.append(others)
    most = max(map(len, found))
    columns = [list(islice(cycle(column), most)) for column in found]
    rows = [list(row) for row in zip(*columns, strict=True)]
    if is_in_one(case):
        return [Points([torch.stack(row, -1)], True) for row in rows]
    return [Points(row, False) for row in rows]


def limit(case: Case, inputs: list[Points]) -> common.Run:
    """Reads all coordinates, twice if their range is not told."""
    read = read_only([points.tensors[0] for points in inputs])

    def run(points: Points) -> None:
        for _ in range(1 if told(case) else 2):
            for x in points.tensors:
                read(x)

    return run  # type: ignore[return-value]


# --- The right counts -------------------------------------------------------------------

PART_ELEMENTS = 1 << 26


def places(case: Case, points: Points) -> Iterator[Tensor]:
    """Flat, (channel * (n + 2) + edges that x reaches) * (n + 2) + those that y reaches, ..."""
    slots = case.num_bins + 2
    pairs = list(zip(axes(case), points.coordinates, strict=True))
    channels = [by_channels(x, axis) for axis, x in pairs]
    edges = [
        closed(edges_of(axis, points.device) if told(axis) else extreme_edges(axis, own))
        for (axis, _), own in zip(pairs, channels, strict=True)
    ]
    step = max(1, PART_ELEMENTS // case.channels)
    for parts in zip(*(own.split(step, 1) for own in channels), strict=True):
        place = torch.arange(case.channels, device=points.device).unsqueeze(1)
        for own, of_axis in zip(parts, edges, strict=True):
            values = own.to(of_axis.dtype).contiguous()
            found = torch.bucketize(values, of_axis[0], right=True)
            place = place * slots + found
        yield place.flatten()


def bucketize_bincount(case: Case) -> Count:
    """Exact, by what PyTorch has."""
    slots = [case.num_bins + 2] * len(axes(case))
    total = case.channels * prod(slots)

    def run(points: Points) -> Tensor:
        counts = torch.zeros(total, dtype=torch.int64, device=points.device)
        for place in places(case, points):
            counts += torch.bincount(place, minlength=total)
        inside = counts.view(case.channels, *slots)
        for d in range(1, inside.dim()):
            inside = inside.narrow(d, 1, case.num_bins)
        return inside

    return run  # type: ignore[return-value]
