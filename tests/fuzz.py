"""Random problems against the oracle: type, shape, strides, offset, dim, bins,
data, threads.

python tests/fuzz.py --problems 1000000

Problem I of seed S is always the same one; a failure prints how to run it
alone. tests/fuzz_histogram.py does the same for histograms of any numbers.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
import torch
from oracle import DTYPES, expected_counts, like
from torch import Tensor

from torch_histo import channel_histogram

POOL = 1 << 19
"""Elements of each kind of data; problems are views of them."""
KINDS = ("around the bins", "any bits", "constant", "two values", "runs", "sorted")
BINS = (1, 2, 3, 7, 16, 31, 100, 128, 255, 256, 257, 300, 1000)
MANY_BINS = (4095, 4096, 4097, 20_000, 65_536, 70_000, 131_072)
MAX_COUNTS = 1 << 24
REPORT_SECONDS = 0.5


@dataclass(frozen=True)
class View:
    """How values lie in memory, how many elements they span, and which dimensions are reduced."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    extent: int
    dim: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The sizes of the dimensions that the counts have, too."""
        ndim = max(len(self.sizes), 1)
        reduced = {d % ndim for d in self.dim or range(ndim)}
        return tuple(size for d, size in enumerate(self.sizes) if d not in reduced)


class Counted(Protocol):
    """A problem of any operator."""

    @property
    def threads(self) -> int: ...

    def counts(self, device: torch.device) -> Tensor: ...

    def expected(self) -> Tensor: ...


@dataclass(frozen=True)
class Problem:
    dtype: torch.dtype
    kind: str
    view: View
    offset: int
    num_bins: int
    threads: int
    variant: str

    def values(self) -> Tensor:
        view = self.view
        return pool(self.dtype, self.kind).as_strided(view.sizes, view.strides, self.offset)

    def counts(self, device: torch.device) -> Tensor:
        values = like(self.values(), device)
        return channel_histogram(values, self.num_bins, self.view.dim, variant=self.variant)

    def expected(self) -> Tensor:
        return expected_counts(self.values(), self.num_bins, self.view.dim)


@cache
def pool(dtype: torch.dtype, kind: str) -> Tensor:
    generator = np.random.default_rng(len(kind))
    name = str(dtype).removeprefix("torch.")
    bits = generator.integers(0, 256, POOL * dtype.itemsize, dtype=np.uint8)
    around = generator.integers(-5, 300, POOL)
    if kind == "any bits":
        # A bool of any nonzero byte is true.
        numbers = bits.view(np.uint8 if name == "bool" else name)
        return torch.from_numpy(numbers).view(dtype)
    numbers = {
        "around the bins": around,
        "constant": np.full(POOL, 1),
        "two values": around % 2 * 200,
        "runs": np.repeat(around[: POOL // 64], 64),
        "sorted": np.sort(around),
    }[kind]
    return torch.from_numpy(numbers.astype(name))


def random_view(choose: random.Random) -> View:
    # Mostly small; some long enough for every table and several threads.
    long = choose.random() < 0.02
    room = 2 * POOL if long else 1000
    sizes: list[int] = []
    for _ in range(choose.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))):
        most = choose.choice((1, 3, 5, 9, 40, 70, 300, room))
        size = choose.randint(0 if choose.random() < 0.02 else 1, max(1, min(most, room)))
        sizes.append(size)
        room //= max(size, 1)
    # Dimensions in any order of memory, with gaps, some of them of stride 0.
    strides = [0] * len(sizes)
    extent = 1
    for d in choose.sample(range(len(sizes)), len(sizes)):
        strides[d] = extent * choose.choice((1, 1, 1, 1, 2, 3))
        last = (max(sizes[d], 1) - 1) * strides[d]
        if choose.random() < 0.03 or extent + last >= POOL:
            strides[d] = 0
        else:
            extent += last
            extent += choose.choice((0, 0, 0, 0, 1, 5)) if extent + 5 < POOL else 0
    # The oracle takes a channel at a time: dimensions of many elements are mostly counted over.
    dims = [
        d
        for d, size in enumerate(sizes or [1])
        if choose.random() < (0.5 if size <= 5 else 0.8 if size <= 70 else 0.97)
    ]
    if choose.random() < 0.3:
        dims = [d - max(len(sizes), 1) for d in dims]
    choose.shuffle(dims)
    return View(tuple(sizes), tuple(strides), extent, tuple(dims))


def random_problem(choose: random.Random) -> Problem:
    view = random_view(choose)
    kept = math.prod(view.kept)
    bins = MANY_BINS if kept <= 2 and choose.random() < 0.02 else BINS
    return Problem(
        dtype=choose.choice(DTYPES),
        kind=choose.choice(KINDS),
        view=view,
        offset=choose.randrange(POOL - view.extent + 1),
        num_bins=choose.choice([some for some in bins if kept * some <= MAX_COUNTS]),
        threads=choose.choice((1, 2, 3)),
        variant="sequential" if choose.random() < 0.02 else "auto",
    )


def check(
    seed: int,
    first: int,
    problems: int,
    make: Callable[[random.Random], Counted] = random_problem,
    *,
    device: torch.device | str = "cpu",
    progress: bool = False,
) -> None:
    """Raises AssertionError at the first problem whose counts are wrong."""
    device = torch.device(device)
    started = reported = time.monotonic()
    before = torch.get_num_threads()
    try:
        for i in range(first, first + problems):
            problem = make(random.Random(f"{seed}/{i}"))
            torch.set_num_threads(problem.threads)
            counts = problem.counts(device)
            assert torch.equal(counts.cpu(), problem.expected()), (
                f"--seed {seed} --first {i} --problems 1: {problem}"
            )
            if progress and time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                show(i + 1 - first, problems, reported - started)
    finally:
        torch.set_num_threads(before)
    if progress:
        show(problems, problems, time.monotonic() - started)
        print(f"\n{problems:,} problems of seed {seed} equal the oracle")


def show(done: int, problems: int, seconds: float) -> None:
    filled = 40 * done // problems
    left = seconds / done * (problems - done)
    bar = "#" * filled + "." * (40 - filled)
    print(f"\r[{bar}] {done:,} of {problems:,}, {left:,.0f} s left  ", end="", file=sys.stderr)


def main(
    make: Callable[[random.Random], Counted] = random_problem, description: str | None = __doc__
) -> None:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first problem")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    check(
        arguments.seed,
        arguments.first,
        arguments.problems,
        make,
        device=arguments.device,
        progress=True,
    )


if __name__ == "__main__":
    main()
