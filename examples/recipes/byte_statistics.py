"""Byte statistics of files and folders: what they hold, and how far they could be compressed."""

import sys
from pathlib import Path

import torch
from torch import Tensor

from torch_histo import channel_histogram


def files_of(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(filter(Path.is_file, path.rglob("*")))
    return files or sys.exit(f"byte_statistics.py: {path}: expected a file or a folder of files")


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
    total = torch.zeros(256, dtype=torch.int64)
    for name in sys.argv[1:] or sys.exit("usage: byte_statistics.py FILE_OR_FOLDER..."):
        for file in files_of(Path(name)):
            counts = byte_counts(file)
            total += counts
            print(f"{int(counts.sum()):>15,} bytes  {entropy(counts):.3f} bits a byte  {file}")
    print(f"{int(total.sum()):>15,} bytes  {entropy(total):.3f} bits a byte  in all")
