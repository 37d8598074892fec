"""How generated problems lie in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

LONG = 0
"""A size that takes what the others leave."""


def laid_out(
    rng: Random, sizes: Sequence[int], elements: int, gaps: Sequence[int]
) -> tuple[list[int], list[int], int]:
    """Sizes of about so many elements, their strides, and how many elements they span.

    Half of the problems have gaps between dimensions, and some have dimensions in another order.
    """
    long = max(elements // math.prod(size for size in sizes if size != LONG), 1)
    sizes = [long if size == LONG else size for size in sizes]
    order = list(range(len(sizes)))[::-1]
    if rng.random() < 0.15:
        rng.shuffle(order)
    gapless = rng.random() < 0.5
    strides, extent = [0] * len(sizes), 1
    for d in order:
        strides[d] = extent
        extent = extent * sizes[d] + (0 if gapless else rng.choice(gaps))
    return sizes, strides, extent
