"""A calibration observer: per-channel histograms of uint8 activations, and clipping ranges."""

import torch
from torch import Tensor, nn

from torch_histo import channel_histogram


class ChannelObserver(nn.Module):
    """Passes activations `[n, channels, ...]` on and counts them; the counts are in its state."""

    counts: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("counts", torch.zeros(channels, 256, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.counts += channel_histogram(x, 256, [d for d in range(x.dim()) if d != 1])
        return x

    def ranges(self, coverage: float = 0.999) -> tuple[Tensor, Tensor]:
        """The lowest and highest value of each channel, without the rarest of both ends."""
        seen = self.counts.cumsum(-1)
        total = seen[:, -1:]
        cut = (total * ((1 - coverage) / 2)).long()
        low = (seen <= cut).sum(-1).clamp(max=255)
        high = (seen < total - cut).sum(-1)
        return low.to(torch.uint8), high.to(torch.uint8)


if __name__ == "__main__":
    observer = ChannelObserver(3)
    for _ in range(10):
        observer((torch.randn(8, 3, 64, 64) * 20 + 128).clamp(0, 255).to(torch.uint8))
    print("clip to", *(ends.tolist() for ends in observer.ranges()))
