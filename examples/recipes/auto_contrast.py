"""Images in [0, 1]: each colour of each image is stretched, but for its darkest and brightest."""

import argparse

import torch
from torch import Tensor

from torch_histo import histogram


def auto_contrast(images: Tensor, cut: float = 0.01, bins: int = 1024) -> Tensor:
    """Floats `[n, colours, height, width]`: about the share `cut` becomes 0, and as much becomes 1.

    The ends are edges of bins, so they are right to 1 / bins."""
    hist, edges = histogram(images, bins, range=(0, 1), dim=(2, 3))
    seen = hist.cumsum(-1)
    total = seen[..., -1:]
    low = edges[(seen <= total * cut).sum(-1).clamp(max=bins)]
    high = edges[(seen < total * (1 - cut)).sum(-1).clamp(max=bins - 1) + 1]
    low, high = low[..., None, None], high[..., None, None]
    return ((images - low) / (high - low).clamp(min=1 / bins)).clamp(0, 1)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    flat = torch.rand(2, 3, 64, 64) * 0.2 + 0.4
    print("from", *flat.aminmax(), "to", *auto_contrast(flat).aminmax())
