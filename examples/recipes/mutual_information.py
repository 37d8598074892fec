"""Mutual information of two images or volumes, as registration maximizes it."""

import argparse

import torch
from torch import Tensor

from torch_histo import histogram2d


def entropy_of(counts: Tensor, bins: int) -> Tensor:
    """In nats, of counts whose last `bins` dimensions are the bins."""
    p = counts.flatten(-bins).double()
    p = p / p.sum(-1, keepdim=True)
    return -torch.special.xlogy(p, p).sum(-1)  # 0 log 0 is 0


def mutual_information(
    x: Tensor, y: Tensor, bins: int = 64, dim: tuple[int, ...] | None = None
) -> Tensor:
    """H(x) + H(y) - H(x, y) over `dim`: of pairs of images [n, h, w], dim=(1, 2) gives [n]."""
    counts = histogram2d(x, y, bins, dim=dim).hist
    return entropy_of(counts.sum(-1), 1) + entropy_of(counts.sum(-2), 1) - entropy_of(counts, 2)


def normalized_mutual_information(
    x: Tensor, y: Tensor, bins: int = 100, dim: tuple[int, ...] | None = None
) -> Tensor:
    """(H(x) + H(y)) / H(x, y), from 1 to 2: skimage.metrics.normalized_mutual_information."""
    counts = histogram2d(x, y, bins, dim=dim).hist
    return (entropy_of(counts.sum(-1), 1) + entropy_of(counts.sum(-2), 1)) / entropy_of(counts, 2)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    volume = torch.randn(32, 64, 64)
    for name, other in (
        ("itself", volume),
        ("its negative", -volume),
        ("noise", torch.randn_like(volume)),
    ):
        information = mutual_information(volume, other)
        print(f"a volume and {name}: {information:.3f} nats")
