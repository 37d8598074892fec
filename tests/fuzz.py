"""Random problems against the oracle: type, shape, strides, offset, dim, bins, data, threads.

python tests/fuzz.py --problems 1000000

Problem I of seed S is always the same one; a failure prints how to run it alone.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from oracle import DTYPES, expected_counts
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
class Problem:
    dtype: torch.dtype
    kind: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dim: tuple[int, ...]
    num_bins: int
    threads: int
    variant: str

    def values(self) -> Tensor:
        return pool(self.dtype, self.kind).as_strided(self.sizes, self.strides, self.offset)


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


def random_problem(choose: random.Random) -> Problem:
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
    kept = math.prod(size for d, size in enumerate(sizes) if dims and d not in dims)
    bins = MANY_BINS if kept <= 2 and choose.random() < 0.02 else BINS
    if choose.random() < 0.3:
        dims = [d - max(len(sizes), 1) for d in dims]
    choose.shuffle(dims)
    return Problem(
        dtype=choose.choice(DTYPES),
        kind=choose.choice(KINDS),
        sizes=tuple(sizes),
        strides=tuple(strides),
        offset=choose.randrange(POOL - extent + 1),
        dim=tuple(dims),
        num_bins=choose.choice([some for some in bins if kept * some <= MAX_COUNTS]),
        threads=choose.choice((1, 2, 3)),
        variant="sequential" if choose.random() < 0.02 else "auto",
    )


def check(seed: int, first: int, problems: int, *, progress: bool = False) -> None:
    """Raises AssertionError at the first problem whose counts are wrong."""
    started = reported = time.monotonic()
    before = torch.get_num_threads()
    try:
        for i in range(first, first + problems):
            problem = random_problem(random.Random(f"{seed}/{i}"))
            torch.set_num_threads(problem.threads)
            values = problem.values()
            counts = channel_histogram(
                values, problem.num_bins, problem.dim, variant=problem.variant
            )
            expected = expected_counts(values, problem.num_bins, problem.dim)
            assert torch.equal(counts, expected), (
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first problem")
    arguments = parser.parse_args()
    check(arguments.seed, arguments.first, arguments.problems, progress=True)


if __name__ == "__main__":
    main()
