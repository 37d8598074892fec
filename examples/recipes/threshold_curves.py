"""Precision, recall and the ROC curve over many thresholds, by one pass over the predictions."""

import argparse

import torch
from torch import Tensor

from torch_histo import histogram2d


def positives(scores: Tensor, target: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """How many of each class, [2], and how many score at least each threshold, [thresholds, 2].

    Targets are 0 and 1; others are ignored. Thresholds increase."""
    end = torch.full_like(thresholds[:1], torch.inf)
    classes = torch.tensor([-0.5, 0.5, 1.5], device=scores.device)
    bins = (torch.cat((-end, thresholds, end)), classes)
    counts = histogram2d(scores, target, bins).hist
    at_least = counts.flip(0).cumsum(0).flip(0)
    return at_least[0], at_least[1:]


def precision_recall(scores: Tensor, target: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """[thresholds] of both; a precision without predictions is 0."""
    total, found = positives(scores, target, thresholds)
    return found[:, 1] / found.sum(1).clamp(min=1), found[:, 1] / total[1].clamp(min=1)


def roc(scores: Tensor, target: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """The rates of false and of true positives at each threshold."""
    total, found = positives(scores, target, thresholds)
    rates = found / total.clamp(min=1)
    return rates[:, 0], rates[:, 1]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    target = torch.randint(0, 2, (100_000,))
    scores = (torch.randn(100_000) + target).sigmoid()
    false, true = roc(scores, target, torch.linspace(0, 1, 1000))
    area = torch.trapezoid(true.flip(0), false.flip(0))
    print(f"area under the ROC curve: {area:.3f}")
