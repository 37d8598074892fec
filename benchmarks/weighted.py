"""The cases of weights, their data, the right sums, and the limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import NamedTuple

import bins
import common
import numpy as np
import torch
from cases import Case
from common import Stretch
from histogram_peers import by_channels, closed_edges, extreme_edges, told
from histogram_peers import closed as with_open_end
from peers import Count, read_only
from torch import Tensor

MANY_BINS = 256
"""Cases of more have fewer distributions: all of them take less than a minute on a GPU."""
CUDA_CASES = [
    Case("float32", (1 << 28,), bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 28,), num_bins=1024, bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 28,), num_bins=2048, bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 28,), num_bins=5000, bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 19, 512), num_bins=128, bins="own ranges", weight="float32"),
    Case("float32", (1 << 22, 64), num_bins=128, bins="own ranges", weight="float32"),
    Case("int64", (1 << 27,), weight="float32"),
    Case("int64", (1 << 27,), weight="bfloat16"),
    Case("float64", (1 << 27,), bins="in (-3.7, 4.1)", weight="float64"),
    Case("bfloat16", (1 << 29,), bins="in (-3.7, 4.1)", weight="bfloat16"),
    Case("float16", (1 << 29,), bins="in (-3.7, 4.1)", weight="float16"),
    Case("float32", (1 << 16,), bins="in (-3.7, 4.1)", weight="float32"),
    # One weight that many elements share.
    Case("float32", (1 << 28,), bins="in (-3.7, 4.1)", weight="float32 for all"),
    Case("float32", (1 << 19, 512), bins="own ranges", weight="float32 by channel"),
    Case("float32", (1 << 19, 512), num_bins=128, bins="own ranges", weight="float32 by row"),
    Case("uint8", (1 << 20, 512), weight="float32 by row"),
    # Types that differ, integers, other edges and layouts.
    Case("float32", (1 << 28,), bins="in (-3.7, 4.1)", weight="bfloat16"),
    Case("bfloat16", (1 << 28,), bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 27,), bins="in (-3.7, 4.1)", weight="float64"),
    Case("float32", (1 << 28,), bins="in (-3.7, 4.1)", weight="int32"),
    Case("float32", (1 << 28,), bins="in (-3.7, 4.1)", weight="bool"),
    Case("uint8", (1 << 28,), weight="float32"),
    Case("float32", (1 << 27,), num_bins=255, bins="by log edges", weight="float32"),
    Case("float32", (1 << 27,), bins="of all values", weight="float32"),
    Case("float32", (512, 1 << 18), (1,), bins="own ranges", weight="float32"),
    Case("float32", (64, 3, 832, 832), (2, 3), bins="in (0, 1)", weight="float32"),
    Case("bfloat16", (4096, 11008), (1,), bins="own ranges", weight="bfloat16"),
    # Small: tokens of 8 experts, and their probabilities.
    Case("int64", (1 << 16,), num_bins=8, weight="bfloat16"),
]
CPU_CASES = [
    Case("float32", (1 << 22,), bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 22,), num_bins=255, bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 22,), num_bins=2048, bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 22,), num_bins=5000, bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 16, 64), num_bins=128, bins="own ranges", weight="float32"),
    Case("float32", (64, 1 << 16), (1,), num_bins=128, bins="own ranges", weight="float32"),
    Case("int64", (1 << 21,), weight="float32"),
    Case("int64", (1 << 21,), weight="bfloat16"),
    Case("float64", (1 << 21,), bins="in (-3.7, 4.1)", weight="float64"),
    Case("bfloat16", (1 << 22,), bins="in (-3.7, 4.1)", weight="bfloat16"),
    Case("float16", (1 << 22,), bins="in (-3.7, 4.1)", weight="float16"),
    Case("float32", (1 << 22,), bins="in (-3.7, 4.1)", weight="float32 for all"),
    Case("float32", (1 << 16, 64), bins="own ranges", weight="float32 by channel"),
    Case("float32", (1 << 16, 64), bins="own ranges", weight="float32 by row"),
    Case("float32", (1 << 22,), bins="in (-3.7, 4.1)", weight="int32"),
    Case("float32", (1 << 20,), num_bins=255, bins="by log edges", weight="float32"),
    Case("float32", (1 << 20,), bins="of all values", weight="float32"),
    Case("float32", (1 << 16,), bins="in (-3.7, 4.1)", weight="float32"),
    Case("int64", (1 << 16,), num_bins=8, weight="bfloat16"),
]
QUICK = [
    Case("float32", (1 << 16,), bins="in (-3.7, 4.1)", weight="float32"),
    Case("float32", (1 << 10, 16), num_bins=32, bins="own ranges", weight="float32 by row"),
    Case("float64", (1 << 14,), num_bins=255, bins="by log edges", weight="float64"),
    Case("int64", (1 << 14,), num_bins=8, weight="bfloat16"),
    Case("float32", (1 << 14,), bins="of all values", weight="int32"),
]


class Pair(NamedTuple):
    """Values and their weights, which broadcast to them."""

    x: Tensor
    weight: Tensor

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def shape(self) -> torch.Size:
        return self.x.shape


# --- Data -------------------------------------------------------------------------------

MAIN = "normal, weights normal"
DISTRIBUTIONS = [
    MAIN,
    "constant, weights normal",
    "uniform, weights normal",
    "ReLU, weights normal",
    "normal, weights 1",
    "normal, weights exp(10 normal)",
    "constant, weights exp(10 normal)",
]
FEW = [MAIN, "constant, weights normal", "normal, weights exp(10 normal)"]
OF_ALL_DISTRIBUTIONS = 11
"""So many cases have all distributions, those behind them the few."""


def has(case: Case, distribution: str) -> bool:
    values, weights = distribution.split(", weights ")
    if not case.bins and values == "ReLU":
        return False
    if case.weight != dtype_of(case) or not weight_dtype(case).is_floating_point:
        return weights == "normal" and distribution in FEW
    if values in ("uniform", "ReLU") and case.num_bins > MANY_BINS:
        return False
    every = [*CUDA_CASES[:OF_ALL_DISTRIBUTIONS], *CPU_CASES[:OF_ALL_DISTRIBUTIONS], *QUICK]
    return case in every or distribution in FEW


def dtype_of(case: Case) -> str:
    return case.weight.split()[0]


def weight_dtype(case: Case) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, dtype_of(case))
    return dtype


def weight_shape(case: Case) -> tuple[int, ...]:
    shapes = {
        "for all": (),
        "by channel": tuple(case.kept),
        "by row": tuple(1 if d > 1 else n for d, n in zip(case.kept, case.shape, strict=True)),
    }
    return shapes.get(case.weight.partition(" ")[2], case.shape)


def weights(case: Case, distribution: str) -> Callable[[Stretch], Tensor]:
    dtype = weight_dtype(case)
    wide = torch.float64 if dtype == torch.float64 else torch.float32

    def fill(part: Stretch) -> Tensor:
        generator = part.generator
        if distribution == "1":
            return torch.ones(part.count, dtype=dtype, device=generator.device)
        found = torch.randn(part.count, dtype=wide, device=generator.device, generator=generator)
        if not dtype.is_floating_point:
            return found > 0 if dtype == torch.bool else (found * 1000).round_()
        if distribution == "exp(10 normal)":
            found.mul_(10).exp_()
        return found.clamp_(max=torch.finfo(dtype).max)

    return fill


def inputs(case: Case, distribution: str, device: torch.device) -> list[Pair]:
    """Values as other suites have them, and other random numbers as their weights."""
    of_values, of_weights = distribution.split(", weights ")
    fill = bins.fill(case, of_values) if case.bins else common.DISTRIBUTIONS[of_values]
    values = common.rotated(case.shape, fill, device, case.torch_dtype, case.num_bins)
    shape, fill = weight_shape(case), weights(case, of_weights)
    every = common.rotated(shape, fill, device, weight_dtype(case), case.num_bins, seed=1)
    return [Pair(x, weight) for x, weight in zip(values, cycle(every), strict=False)]


def limit(case: Case, inputs: list[Pair]) -> common.Run:
    """Reads both, the values twice if their range is not told."""
    read = read_only([pair.x for pair in inputs])

    def run(pair: Pair) -> None:
        for _ in range(1 if not case.bins or told(case) else 2):
            read(pair.x)
        read(pair.weight)

    return run


# --- The right sums ---------------------------------------------------------------------

PART_ELEMENTS = 1 << 26
DIGIT = 24
"""Bits. The sum of 2^26 such digits has 50: float64 holds it exactly."""


def parts(case: Case, pair: Pair) -> Iterator[tuple[Tensor, Tensor]]:
    """Flat, channel * (num_bins + 2) + how many edges each value reaches, and the weights."""
    channels = by_channels(pair.x, case)
    shared = by_channels(pair.weight.expand(case.shape), case)
    slots = case.num_bins + 2
    offsets = torch.arange(case.channels, device=pair.device).unsqueeze(1) * slots
    if case.bins:
        is_told = told(case)
        edges = (
            closed_edges(case, pair.device)
            if is_told
            else with_open_end(extreme_edges(case, channels))
        )
    step = max(1, PART_ELEMENTS // case.channels)
    for values, weight in zip(channels.split(step, 1), shared.split(step, 1), strict=True):
        if not case.bins:
            place = values.long() + 1
        elif len(edges) == 1:
            place = torch.bucketize(values.to(edges.dtype), edges[0], right=True)
        else:
            place = torch.searchsorted(edges, values.to(edges.dtype).contiguous(), right=True)
        yield (place + offsets).flatten(), weight.flatten()


def exact_sums(case: Case) -> Count:
    """Weights are cut into digits, whose sums float64 holds; they are put together as integers."""

    def run(pair: Pair) -> Tensor:
        total = case.channels * (case.num_bins + 2)
        sums: dict[int, Tensor] = {}
        for place, weight in parts(case, pair):
            rest = weight.double()
            largest = float(rest.abs().max())
            power = math.frexp(largest)[1] // DIGIT
            while bool(rest.any()):
                unit = 2.0 ** (DIGIT * power)
                digit = (rest / unit).trunc()
                rest = rest - digit * unit
                found = torch.bincount(place, digit, minlength=total).long()
                sums[power] = sums[power] + found if power in sums else found
                power -= 1
        rounded = together(sums, total, weight_dtype(case).is_floating_point)
        return rounded.to(pair.device).view(case.channels, -1)[:, 1:-1]

    return run  # type: ignore[return-value]


def together(sums: dict[int, Tensor], size: int, is_float: bool) -> Tensor:
    """Python divides integers with one rounding."""
    least = min([0, *sums])
    whole = np.zeros(size, dtype=object)
    for power, found in sums.items():
        whole += found.cpu().numpy().astype(object) << DIGIT * (power - least)
    if not is_float:
        return torch.from_numpy((whole >> -DIGIT * least).astype(np.int64))
    return torch.from_numpy((whole / (1 << -DIGIT * least)).astype(np.float64))


def wrong_sums(found: Tensor, expected: Tensor) -> int:
    """How many sums are not the exact ones, rounded once."""
    return int((found.to(expected.dtype) != expected).sum())
