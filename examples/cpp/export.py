"""Exports a model that counts, as an AOTInductor package for C++ and Python.

python examples/cpp/export.py calibration.pt2 [--device cuda]
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

import torch_histo


class Calibration(torch.nn.Module):
    """The histogram of each channel, and the value that a share of the channel does not exceed."""

    def __init__(self, share: float = 0.99) -> None:
        super().__init__()
        self.share = share

    def forward(self, activations: Tensor) -> tuple[Tensor, Tensor]:
        counts = torch_histo.channel_histogram(activations)
        below = counts.cumsum(-1) < self.share * activations.shape[0]
        return counts, below.sum(-1)


def export(device: str) -> ExportedProgram:
    """The model for uint8 [length, channels] of any length and number of channels."""
    sample = torch.zeros(64, 8, dtype=torch.uint8, device=device)
    return torch.export.export(
        Calibration(), (sample,), dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", help="the file to write, ending in .pt2")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    arguments = parser.parse_args()
    program = export(arguments.device)
    print(torch._inductor.aoti_compile_and_package(program, package_path=arguments.package))


if __name__ == "__main__":
    main()
