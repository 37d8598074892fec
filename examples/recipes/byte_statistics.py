"""Byte statistics of a data set: what its files hold, and how well they could be compressed."""

import sys
from pathlib import Path

import torch
from torch import Tensor

from torch_histo import channel_histogram


def byte_counts(file: Path, piece: int = 1 << 26) -> Tensor:
    """int64 `[256]` of one file of any size, read piece by piece."""
    counts = torch.zeros(256, dtype=torch.int64)
    with file.open("rb") as stream:
        while chunk := stream.read(piece):
            counts += channel_histogram(torch.frombuffer(bytearray(chunk), dtype=torch.uint8))
    return counts


def entropy(counts: Tensor) -> Tensor:
    """Bits a byte, of counts `[..., 256]`: 8 where all bytes are equally frequent."""
    share = counts / counts.sum(-1, keepdim=True).clamp(min=1)
    return torch.special.entr(share).sum(-1) / torch.log(torch.tensor(2.0))


if __name__ == "__main__":
    files = [file for name in sys.argv[1:] for file in sorted(Path(name).glob("**/*"))]
    total = torch.zeros(256, dtype=torch.int64)
    for file in filter(Path.is_file, files):
        counts = byte_counts(file)
        total += counts
        print(f"{int(counts.sum()):>15,} bytes  {float(entropy(counts)):.3f} bits a byte  {file}")
    print(f"{int(total.sum()):>15,} bytes  {float(entropy(total)):.3f} bits a byte  in all")
