"""Calibration of floats: per-channel histograms of what a module returns, in a forward hook."""

import argparse

import torch
from torch import Tensor, nn

from torch_histo import histogram


def watch(module: nn.Module, channels: int, low: float, high: float, bins: int = 256) -> Tensor:
    """Counts `[n, channels, ...]` outputs of each call in the tensor returned, `[channels, bins +
    3]`: what is below low, the bins, what is above high, and NaN. Nothing waits for the GPU, so
    the call of the module may be captured in a CUDA graph, which then counts at each replay."""
    first = next(module.parameters(), torch.empty(0))
    counts = torch.zeros(channels, bins + 3, dtype=torch.int64, device=first.device)

    def count(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        dims = [d for d in range(output.dim()) if d != 1]
        counts.add_(histogram(output, bins, range=(low, high), dim=dims, flow=True).hist)

    module.register_forward_hook(count)
    return counts


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    layer = nn.Conv2d(3, 4, 3)
    counts = watch(layer, 4, -2, 2, bins=8)
    with torch.no_grad():
        for _ in range(3):
            layer(torch.randn(8, 3, 32, 32))
    print("below, bins, above, NaN of each channel:", counts, sep="\n")
