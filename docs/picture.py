"""Draws docs/histograms.png, the picture in the README: python docs/picture.py"""

import argparse
from pathlib import Path

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image

from torch_histo import channel_histogram


def photograph() -> torch.Tensor:
    """uint8 [height, width, 3], a portrait that comes with matplotlib."""
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        return torch.from_numpy(np.array(Image.open(file)))


def layer() -> torch.Tensor:
    """uint8 [tokens, 512]: made up, channels from narrow and low to wide and high."""
    torch.manual_seed(0)
    scale = torch.linspace(7, 16, 512)
    mean = torch.linspace(40, 150, 512) + 12 * torch.sin(torch.arange(512) / 30)
    second = torch.linspace(50, 70, 512) * (torch.rand(1 << 15, 512) < 0.35)
    return (torch.randn(1 << 15, 512) * scale + mean + second).clamp(0, 255).to(torch.uint8)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    image = photograph()
    colours = ("red", "green", "blue")
    for counts, colour in zip(channel_histogram(image, dim=(0, 1)), colours, strict=True):
        left.fill_between(range(256), counts, step="mid", color=colour, alpha=0.35, linewidth=0)
        left.step(range(256), counts, where="mid", color=colour, linewidth=0.8, label=colour)
    left.set(xlim=(0, 255), ylim=(0, None), xlabel="value", ylabel="pixels")
    left.legend()
    left.set_title(f"a photograph {list(image.shape)}, dim=(0, 1): 3 channels", fontsize=9)
    activations = layer()
    counts = channel_histogram(activations)
    drawn = right.imshow(counts, aspect="auto", cmap="magma", vmax=counts.float().quantile(0.999))
    figure.colorbar(drawn, ax=right, label="count")
    right.set(xlabel="value", ylabel="channel")
    right.set_title(f"activations {list(activations.shape)}: 512 channels", fontsize=9)
    path = Path(__file__).with_name("histograms.png")
    figure.savefig(path, dpi=100)
    # 96 colours are enough, and a third of the bytes.
    Image.open(path).convert("RGB").quantize(96).save(path, optimize=True)


if __name__ == "__main__":
    main()
