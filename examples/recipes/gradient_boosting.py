"""Gradient boosting with stumps: the sums of gradients and Hessians by feature and bin."""

import argparse

import torch
from torch import Tensor

from torch_histo import channel_histogram


def gradient_sums(bins: Tensor, *weights: Tensor) -> Tensor:
    """Of uint8 `[rows, features]` and some weights `[rows]`: float64 `[weights, features, 256]`.

    The features of a row share its weight. Sums are exact: the same bits in any order of rows.
    """
    return torch.stack([channel_histogram(bins, weight=row.unsqueeze(1)) for row in weights])


def best_split(bins: Tensor, gradient: Tensor, hessian: Tensor) -> tuple[int, int, Tensor]:
    """The feature and the last bin whose rows go left, and the values of both leaves."""
    sums = gradient_sums(bins, gradient, hessian)
    left = sums.cumsum(-1)[..., :-1]
    g, h = torch.stack((left, sums.sum(-1, keepdim=True) - left), 1)
    gain = (g.square() / (h + 1)).sum(0)
    feature, last = divmod(int(gain.argmax()), gain.shape[-1])
    return feature, last, (-g / (h + 1))[:, feature, last]


def boost(bins: Tensor, labels: Tensor, rounds: int) -> tuple[list[tuple[int, int]], Tensor]:
    """The splits, and the scores of the rows, for labels 0 and 1 and the logistic loss."""
    splits, scores = [], torch.zeros(len(bins), device=bins.device)
    for _ in range(rounds):
        p = scores.sigmoid()
        feature, last, values = best_split(bins, p - labels, p * (1 - p))
        scores = scores + 0.3 * values[(bins[:, feature] > last).long()].float()
        splits.append((feature, last))
    return splits, scores


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    bins = torch.randint(0, 256, (10_000, 8), dtype=torch.uint8)
    print(boost(bins, (bins[:, 3] > 99).float(), 16)[0])
