"""Histograms of 8- and 16-bit integers between any integer edges, as sums of unit bins."""

import argparse

import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_histo import channel_histogram

UNSIGNED = {torch.int8: torch.uint8, torch.int16: torch.uint16}


def every_value(x: Tensor, dim: int | tuple[int, ...] = 0) -> Tensor:
    """Counts all values of an 8- or 16-bit type, without a copy: bin k is the lowest value + k."""
    info = torch.iinfo(x.dtype)
    if info.bits > 16:
        raise TypeError(f"every_value: x must be an integer of 8 or 16 bits, got {x.dtype}")
    bits = x.view(UNSIGNED.get(x.dtype, x.dtype))
    return channel_histogram(bits, 1 << info.bits, dim).roll(-info.min, -1)


def histogram(x: Tensor, edges: Tensor, dim: int | tuple[int, ...] = 0) -> Tensor:
    """Bin k holds edges[k] <= v < edges[k + 1], the last one edges[-1] too: NumPy's rule.

    The edges are integers that never decrease; a value outside of them is not counted.
    """
    if edges.is_floating_point() or edges.dim() != 1 or len(edges) < 2:
        got = f"{edges.dtype} {list(edges.shape)}"
        raise ValueError(f"histogram: edges must be two or more integers, got {got}")
    info, edges = torch.iinfo(x.dtype), edges.long()
    below = pad(every_value(x, dim).cumsum(-1), (1, 0))  # how many values are less than min + k
    ends = torch.cat([edges[:-1], edges[-1:].clamp(max=info.max) + 1])
    return below[..., ends.clamp(info.min, info.max + 1) - info.min].diff()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    hounsfield = torch.randint(-1024, 3072, (1 << 20,), dtype=torch.int16)
    tissue = torch.tensor([-1024, -500, -100, 0, 100, 3071])  # air, lung, fat, soft tissue, bone
    print(histogram(hounsfield, tissue).tolist())
