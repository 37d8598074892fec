"""Random histograms of any numbers in any bins: values on edges, beside them, and far away.

python tests/fuzz_histogram.py --problems 1000000

Problem I of seed S is always the same one; a failure prints how to run it alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import fuzz
import numpy as np
import oracle
import torch
from fuzz import View, random_view
from oracle import EDGE_DTYPES, NUMBERS, like
from torch import Tensor

Array = np.ndarray[Any, Any]

BINS = (1, 1, 2, 3, 4, 7, 10, 31, 64, 100, 255, 256, 257)
MANY_BINS = (300, 1000, 2048, 4095, 4096, 4097, 20_000, 65_536, 131_072)
MAX_COUNTS = 1 << 17
"""The oracle takes a channel at a time."""
ROWS = 16
"""Rows of edges that differ; more channels share them."""
RANGES = (
    (0.0, 1.0),
    (0.0, 1.0),
    (-1.0, 1.0),
    (-3.7, 3.7),
    (0.1, 0.7),
    (0.0, 10.0),
    (0.0, 256.0),
    (-128.0, 128.0),
    (-448.0, 448.0),
    (-65504.0, 65504.0),
    (1e6, 1e6 + 64),
    (0.0, 3e38),
    (-3e38, 3e38),
    (0.0, 1e308),
    (-1e-40, 1e-40),
    (0.0, 1e-310),
    (1e-8, 7e-5),
    (2.0**24 - 8, 2.0**24 + 8),
    (2.0**53 - 8, 2.0**53 + 8),
    (2.0**63 - 4096, 2.0**63 + 4096),
    (-(2.0**63), -(2.0**63) + 8192),
    (0.0, 2.0**64),
)
EDGE_KINDS = ("uniform", "uniform", "logarithmic", "random", "repeated", "any bits", "consecutive")
EDGE_LAYOUTS = ("contiguous", "contiguous", "gaps", "last dimension first")
VALUE_KINDS = ("mixed", "mixed", "on edges", "within", "any bits", "constant", "half zeros", "NaNs")
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 5e-324, 3e38, -1e300)
EDGES_MET = 300
"""Edges of a row that values are put on and beside."""
BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class Problem:
    dtype: torch.dtype
    kind: str
    view: View
    no_dim: bool
    num_bins: int
    edge_dtype: torch.dtype
    edge_kind: str
    edge_sizes: tuple[int, ...]
    edge_layout: str
    flow: bool
    threads: int
    data: int

    def tensors(self) -> tuple[Tensor, Tensor]:
        """The input and the edges."""
        generator = np.random.default_rng(self.data)
        with np.errstate(all="ignore"):
            rows = np.stack([self._row(generator) for _ in range(ROWS if self.edge_sizes else 1)])
            row = generator.integers(0, len(rows), self.edge_sizes)
            values = self._values(rows, np.broadcast_to(row, self.view.kept), generator)
        edges = torch.from_numpy(np.ascontiguousarray(rows[row]))
        if self.edge_layout == "gaps":
            edges = torch.stack((edges, edges), -1)[..., 0]
        elif self.edge_layout == "last dimension first":
            edges = edges.movedim(-1, 0).contiguous().movedim(0, -1)
        return values, edges

    def counts(self, device: torch.device) -> Tensor:
        values, edges = (like(tensor, device) for tensor in self.tensors())
        return torch.ops.histo.histogram(values, edges, self._dim(), flow=self.flow)

    def expected(self) -> Tensor:
        return oracle.histogram(*self.tensors(), self._dim(), flow=self.flow)

    def _dim(self) -> tuple[int, ...] | None:
        return None if self.no_dim else self.view.dim

    def _row(self, generator: np.random.Generator) -> Array:
        """Edges of one channel: mostly in order, some decrease or hold NaN."""
        name = name_of(self.edge_dtype)
        low, high = RANGES[generator.integers(len(RANGES))]
        count = self.num_bins + 1
        if self.edge_kind == "any bits":
            row = generator.integers(0, 256, count * self.edge_dtype.itemsize, dtype=np.uint8)
            row = row.view(name)
        elif self.edge_kind == "consecutive":
            first = rounded(np.array([low]), name).view(BITS[self.edge_dtype.itemsize])
            row = (first + np.arange(count).astype(first.dtype)).view(name)
        else:
            row = rounded(spread(self.edge_kind, low, high, count, generator), name)
        row = np.sort(np.where(row == row, row, row.dtype.type(1)))
        is_float = self.edge_dtype.is_floating_point
        if is_float and generator.random() < 0.1:
            row[0] = -np.inf
        if is_float and generator.random() < 0.1:
            row[-1] = np.inf
        if is_float and generator.random() < 0.2:
            row[row == 0] = -0.0
        fate = generator.random()
        if fate < 0.03:
            row[generator.integers(count)] = np.nan if is_float else row[0]
        elif fate < 0.06:
            row = row[::-1]
        elif fate < 0.09:
            at = generator.integers(0, count, 2)
            row[at] = row[at[::-1]]
        elif fate < 0.11:
            row[:] = row[0]
        return row

    def _values(self, rows: Array, row_of_channel: Array, generator: np.random.Generator) -> Tensor:
        """The input: each channel holds values about its own edges."""
        bits = BITS[self.dtype.itemsize]
        about = np.stack([self._about(row, generator) for row in rows])
        view = self.view
        dims = view.dim if view.dim else range(len(view.sizes))
        reduced = {d % max(len(view.sizes), 1) for d in dims}
        aligned = [1 if d in reduced else size for d, size in enumerate(view.sizes)]
        drawn = about[
            row_of_channel.reshape(aligned), generator.integers(0, about.shape[1], view.sizes)
        ]
        memory = generator.integers(
            0, 256, (int(generator.integers(0, 9)) + view.extent) * bits().itemsize, dtype=np.uint8
        ).view(bits)
        offset = len(memory) - view.extent
        if self.kind != "any bits":
            steps = [stride * memory.itemsize for stride in view.strides]
            np.lib.stride_tricks.as_strided(memory[offset:], view.sizes, steps)[...] = drawn
        memory = torch.from_numpy(memory).view(self.dtype)
        return memory.as_strided(view.sizes, view.strides, offset)

    def _about(self, row: Array, generator: np.random.Generator) -> Array:
        """Bits of values to draw from: as many for each row of edges."""
        bits = BITS[self.dtype.itemsize]
        met = row if len(row) <= EDGES_MET else generator.choice(row, EDGES_MET)
        on = self._bits(met)
        # The next number of the type is the next pattern of bits; about zero, see SPECIAL.
        on = np.concatenate([on, on + bits(1), on - bits(1)])
        low, high = row[0].astype(float), row[-1].astype(float)
        within = self._bits(low + (high - low) * (1.2 * generator.random(100) - 0.1))
        special = self._bits(np.array(SPECIAL))
        if self.dtype.is_floating_point:
            nan = self._bits(np.array([np.nan]))
            special = np.concatenate([special, nan ^ np.iinfo(bits).min])  # of the other sign
        elif self.dtype == torch.bool:  # any nonzero byte is true
            special = np.array([0, 1, 2, 255], dtype=np.uint8).view(bits)
        else:
            limits = np.iinfo(name_of(self.dtype))
            extremes = np.array([limits.min, limits.max], dtype=limits.dtype).view(bits)
            special = np.concatenate([special, extremes])
        everything = np.concatenate([on, within, special])
        zeros = np.zeros(len(everything), dtype=bits)
        return {
            "mixed": everything,
            "on edges": on,
            "within": within,
            "any bits": on,  # not used
            "constant": generator.choice(everything, 1),
            "half zeros": np.concatenate([everything, zeros]),
            "NaNs": np.concatenate([everything, np.resize(special[-1:], len(everything) // 5)]),
        }[self.kind]

    def _bits(self, numbers: Array) -> Array:
        """The numbers in the input's type, about rounded, as bits."""
        bits = BITS[self.dtype.itemsize]
        if self.dtype.is_floating_point:
            converted = torch.from_numpy(numbers.astype(float)).to(self.dtype)
            return converted.view(torch.from_numpy(np.empty(0, bits)).dtype).numpy()
        name = "uint8" if self.dtype == torch.bool else name_of(self.dtype)
        return rounded(numbers, name).view(bits)


@dataclass(frozen=True)
class RangeProblem(Problem):
    """The extremes of the same values."""

    def counts(self, device: torch.device) -> Tensor:
        values = like(self.tensors()[0], device)
        return torch.stack(torch.ops.histo.finite_range(values, self._dim()))

    def expected(self) -> Tensor:
        return torch.stack(oracle.finite_range(self.tensors()[0], self._dim()))


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def rounded(numbers: Array, name: str) -> Array:
    """The numbers in a type of NumPy; an integer type that cannot hold one has 0 instead."""
    if np.dtype(name).kind == "f" or numbers.dtype.kind != "f":
        return numbers.astype(name)
    limits = np.iinfo(name)
    holds = (numbers >= float(limits.min)) & (numbers < float(limits.max))
    return np.where(holds, numbers, 0).astype(name)


def spread(kind: str, low: float, high: float, count: int, generator: np.random.Generator) -> Array:
    """Numbers of a range as float64, in any order."""
    if kind == "uniform":
        step = (high - low) / (count - 1)
        return np.minimum(np.arange(count) * step + low, high)
    if kind == "logarithmic":
        size = max(abs(low), abs(high))
        return np.geomspace(size * 2.0 ** -generator.integers(1, 40), size, count)
    if kind == "repeated":
        return generator.choice(np.linspace(low, high, max(2, count // 3)), count)
    assert kind == "random"
    return low + (high - low) * generator.random(count)


def random_problem(choose: random.Random) -> Problem:
    view = random_view(choose)
    # Edges of all channels, of each, or of some that others share.
    sizes = tuple(size if choose.random() < 0.7 else 1 for size in view.kept)
    sizes = choose.choice(((), sizes, sizes[1:]))
    kept = max(1, int(np.prod(view.kept)))
    bins = MANY_BINS if kept <= 2 and choose.random() < 0.04 else BINS
    floats = choose.random() < 0.6
    kind = RangeProblem if choose.random() < 0.1 else Problem
    return kind(
        dtype=choose.choice(oracle.FLOATS if floats else NUMBERS),
        kind=choose.choice(VALUE_KINDS),
        view=view,
        no_dim=not view.kept and choose.random() < 0.3,
        num_bins=choose.choice([some for some in bins if kept * some <= MAX_COUNTS] or [1]),
        edge_dtype=choose.choice(EDGE_DTYPES[:2] if choose.random() < 0.7 else EDGE_DTYPES),
        edge_kind=choose.choice(EDGE_KINDS),
        edge_sizes=sizes,
        edge_layout=choose.choice(EDGE_LAYOUTS),
        flow=choose.random() < 0.5,
        threads=choose.choice((1, 2, 3)),
        data=choose.getrandbits(32),
    )


if __name__ == "__main__":
    fuzz.main(random_problem, __doc__)
