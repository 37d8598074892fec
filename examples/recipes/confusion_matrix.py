"""A confusion matrix of labels and predictions, as segmentation and classification use it."""

import argparse

import torch
from torch import Tensor

from torch_histo import channel_histogram


def confusion_matrix(labels: Tensor, predictions: Tensor, classes: int) -> Tensor:
    """int64 `[classes, classes]`: a row for each label, a column for each prediction.

    Pairs of which one is no class, such as the label 255 for "ignore", are not counted.
    """
    for name, ids in (("labels", labels), ("predictions", predictions)):
        if ids.is_floating_point() or ids.is_complex():
            raise TypeError(f"confusion_matrix: {name} must be integers, got {ids.dtype}")
    if labels.shape != predictions.shape:
        shapes = f"{list(labels.shape)} and {list(predictions.shape)}"
        raise ValueError(f"confusion_matrix: labels and predictions differ in shape: {shapes}")
    labels, predictions = labels.long(), predictions.long()
    valid = (labels >= 0) & (labels < classes) & (predictions >= 0) & (predictions < classes)
    pairs = torch.where(valid, labels * classes + predictions, -1)
    return channel_histogram(pairs, classes * classes, ()).view(classes, classes)


def intersection_over_union(matrix: Tensor) -> Tensor:
    """One number a class; NaN for a class that is neither label nor prediction."""
    hits = matrix.diagonal()
    return hits / (matrix.sum(0) + matrix.sum(1) - hits)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    truth = torch.randint(0, 4, (8, 128, 128), dtype=torch.uint8)
    guess = torch.where(torch.rand(truth.shape) < 0.8, truth, torch.zeros_like(truth))
    matrix = confusion_matrix(truth, guess, 4)
    print(matrix, intersection_over_union(matrix), sep="\n")
