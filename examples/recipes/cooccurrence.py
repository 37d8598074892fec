"""Grey-level co-occurrence matrices: how often grey levels lie at a distance from each other."""

import argparse
import math

import torch
from torch import Tensor

from torch_histo import histogram2d


def neighbours(images: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Views of the pixels that have a neighbour so many rows and columns on, and of these."""
    height, width = images.shape[-2:]
    first = images[..., max(-rows, 0) : height - max(rows, 0), :]
    second = images[..., max(rows, 0) : height - max(-rows, 0), :]
    return (
        first[..., max(-columns, 0) : width - max(columns, 0)],
        second[..., max(columns, 0) : width - max(-columns, 0)],
    )


def cooccurrence(images: Tensor, distance: int, angle: float, levels: int = 256) -> Tensor:
    """Counts [..., levels, levels] of images [..., h, w] with levels from 0 up to `levels`:
    skimage.feature.graycomatrix(image, [distance], [angle], levels)[:, :, 0, 0] of each."""
    rows, columns = round(math.sin(angle) * distance), round(math.cos(angle) * distance)
    edges = torch.arange(levels + 1, device=images.device) - 0.5
    return histogram2d(*neighbours(images, rows, columns), edges, dim=(-2, -1)).hist


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    images = torch.randint(0, 4, (2, 64, 64), dtype=torch.uint8)
    matrix = cooccurrence(images, 1, 0.0, levels=4)
    i, j = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
    contrast = (matrix * (i - j) ** 2).sum((-2, -1)) / matrix.sum((-2, -1))
    print("counts of neighbours in a row:", matrix, "contrast:", contrast, sep="\n")
