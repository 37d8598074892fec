"""Histogram equalization of a batch of images, channel by channel: torchvision's `equalize`."""

import argparse

import torch
from torch import Tensor

from torch_histo import channel_histogram


def equalize(images: Tensor) -> Tensor:
    """Equalizes each plane of images `[..., height, width]`, without a synchronization.

    Signed integers of 16 bits or more use all values from 0 to the type's largest. As in
    torchvision, they are equalized in steps of a 256th of that.
    """
    if images.numel() == 0:
        return images
    if images.dtype in (torch.int16, torch.int32, torch.int64):
        shift = torch.iinfo(images.dtype).bits - 9
        return equalize((images >> shift).to(torch.uint8)).to(images.dtype) << shift
    if images.dtype != torch.uint8:
        expected = "equalize: images must be uint8, int16, int32 or int64"
        raise TypeError(f"{expected}, got {images.dtype}: convert them first")
    counts = channel_histogram(images, 256, (-2, -1))
    brightest = images.amax((-2, -1)).long().unsqueeze(-1)
    step = (counts.sum(-1, keepdim=True) - counts.gather(-1, brightest)) // 255
    below = counts.cumsum(-1) - counts
    table = ((below + step // 2) // step.clamp(min=1)).clamp(max=255).to(torch.uint8)
    equalized = table.gather(-1, images.flatten(-2).long())
    return torch.where(step[..., None] > 0, equalized.view(images.shape), images)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    dark = torch.randint(0, 100, (8, 3, 224, 224), dtype=torch.uint8)
    print(f"brightest pixel: {int(dark.max())} before, {int(equalize(dark).max())} after")
