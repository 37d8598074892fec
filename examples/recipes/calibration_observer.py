"""A calibration observer: per-channel histograms of uint8 activations, and clipping ranges."""

import argparse

import torch
from torch import Tensor, nn

from torch_histo import channel_histogram


class ChannelObserver(nn.Module):
    """Passes activations `[n, channels, ...]` on and counts them; the counts are in its state."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("counts", torch.zeros(channels, 256, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.uint8 or x.dim() < 2 or x.shape[1] != len(self.counts):
            expected = f"uint8 [n, {len(self.counts)}, ...]"
            raise ValueError(f"ChannelObserver: expected {expected}, got {x.dtype} {list(x.shape)}")
        self.counts += channel_histogram(x, 256, [d for d in range(x.dim()) if d != 1])
        return x

    def ranges(self, coverage: float = 0.999) -> tuple[Tensor, Tensor]:
        """Each channel's lowest and highest value without the rarest; 0 and 255 if it has none."""
        if not 0 <= coverage <= 1:
            raise ValueError(f"ranges: coverage must be between 0 and 1, got {coverage}")
        seen = self.counts.cumsum(-1)
        total = seen[:, -1:]
        cut = (total * ((1 - coverage) / 2)).long()
        low = ((seen <= cut) & (total > 0)).sum(-1)
        high = ((seen < total - cut) | (total == 0)).sum(-1).clamp(max=255)
        return low.to(torch.uint8), torch.maximum(low, high).to(torch.uint8)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    observer = ChannelObserver(3)
    observer((torch.randn(80, 3, 64, 64) * 20 + 128).clamp(0, 255).to(torch.uint8))
    print("clip to", *(ends.tolist() for ends in observer.ranges()))
