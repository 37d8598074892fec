"""TensorBoard: one histogram of a tensor on the GPU, of which only the counts are copied."""

import argparse
from typing import Any

import torch
from torch import Tensor

from torch_histo import histogram


def add_histogram(writer: Any, tag: str, values: Tensor, step: int, bins: int = 64) -> None:
    """The histogram that SummaryWriter.add_histogram draws, of the finite values of a tensor."""
    hist, edges = histogram(values.detach(), bins)
    finite = torch.where(values.detach().isfinite(), values.detach(), 0).double()
    writer.add_histogram_raw(
        tag,
        min=edges[0].item(),
        max=edges[-1].item(),
        num=hist.sum().item(),
        sum=finite.sum().item(),
        sum_squares=finite.square().sum().item(),
        bucket_limits=edges[1:].tolist(),  # the right edge of each bin
        bucket_counts=hist.tolist(),
        global_step=step,
    )


class Printer:
    """In place of torch.utils.tensorboard.SummaryWriter."""

    def add_histogram_raw(self, tag: str, **numbers: Any) -> None:
        print(tag, numbers)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    add_histogram(Printer(), "weights", torch.randn(10_000), step=0, bins=4)
