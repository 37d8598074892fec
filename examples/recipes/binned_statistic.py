"""The mean and the variance of one tensor by bins of another, as scipy.stats.binned_statistic."""

import argparse

import torch
from torch import Tensor

from torch_histo import histogram


def mean_and_variance(x: Tensor, values: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Of the values of all elements whose x is in a bin: two float64 `[bins]`.

    A bin that no x is in has NaN, as SciPy has it. The variance is that of NumPy: it divides by
    the number of elements. Squares are of the distances to each bin's mean, so that nothing
    cancels where a mean is large.
    """
    if x.shape != values.shape:
        shapes = f"{list(x.shape)} and {list(values.shape)}"
        raise ValueError(f"mean_and_variance: x and values differ in shape: {shapes}")
    values = values.double()
    counts = histogram(x, edges).hist
    mean = histogram(x, edges, weight=values).hist / counts
    places = torch.bucketize(x.double(), edges.double(), right=True) - 1
    places = places.masked_fill(x == edges[-1], len(counts) - 1)
    own = mean[places.clamp(0, len(counts) - 1)]
    return mean, histogram(x, edges, weight=(values - own).square()).hist / counts


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    confidence = torch.rand(100_000)
    is_right = torch.rand(100_000) < confidence
    edges = torch.linspace(0, 1, 11)
    mean, variance = mean_and_variance(confidence, is_right, edges)
    for low, found, spread in zip(edges.tolist(), mean.tolist(), variance.tolist(), strict=False):
        print(f"from {low:.1f}: right {found:.1%}, variance {spread:.3f}")
