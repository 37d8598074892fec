"""The expected calibration error of a classifier: how far its confidence is from its accuracy."""

import argparse

import torch
from torch import Tensor

from torch_histo import histogram


def reliability(confidence: Tensor, correct: Tensor, bins: int = 15) -> tuple[Tensor, ...]:
    """The count, the mean confidence and the accuracy of each bin of confidence.

    A confidence of exactly 1 is in the last bin. torchmetrics has a bin of its own for it."""
    edges = torch.linspace(0, 1, bins + 1, device=confidence.device)
    count = histogram(confidence, edges).hist
    sums = (histogram(confidence, edges, weight=w).hist for w in (confidence, correct))
    return count, *(of_bin / count.clamp(min=1) for of_bin in sums)


def calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> Tensor:
    """The mean of |accuracy - confidence| over the bins, by their counts."""
    count, mean, accuracy = reliability(confidence, correct, bins)
    return (count * (accuracy - mean).abs()).sum() / count.sum()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    confidence = torch.rand(100_000)
    for name, chance in (("calibrated", confidence), ("overconfident", confidence**2)):
        correct = torch.rand_like(confidence) < chance
        print(f"{name}: {calibration_error(confidence, correct):.4f}")
