"""How the problems of tests lie in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

from torch import Tensor

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


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.transpose(0, 1),
    "last first": lambda x: x.permute(2, 0, 1),
    "every second row": lambda x: x[::2],
    "every third column": lambda x: x[:, 1::3],
    "inner columns": lambda x: x[:, 3:-2],
    "every second value": lambda x: x[..., ::2],
    "one of the last": lambda x: x[..., 1],
    "expanded in front": lambda x: x[:1].expand(50, -1, -1),
    "expanded within": lambda x: x[:, :1].expand(-1, 33, -1),
    "expanded wholly": lambda x: x[0, 0, 0].expand(40, 50),
    "windows": lambda x: x.unfold(1, 4, 2),
    "diagonal": lambda x: x.diagonal(0, 0, 1),
}
"""Views of a tensor of three dimensions, by what they do to its strides."""
