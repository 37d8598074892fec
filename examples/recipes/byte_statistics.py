"""Byte statistics of files and folders: what they hold, and how far they could be compressed."""

import argparse
import sys
from pathlib import Path

import torch

from torch_histo import channel_histogram


def byte_counts(file: Path, piece: int = 1 << 26) -> torch.Tensor:
    """int64 `[256]` of one file of any size, read piece by piece."""
    counts = torch.zeros(256, dtype=torch.int64)
    with file.open("rb") as stream:
        while chunk := stream.read(piece):
            counts += channel_histogram(torch.frombuffer(bytearray(chunk), dtype=torch.uint8))
    return counts


def entropy(counts: torch.Tensor) -> torch.Tensor:
    """Bits a byte, of counts `[..., 256]`: 8 where all bytes are equally frequent."""
    share = counts / counts.sum(-1, keepdim=True).clamp(min=1)
    return torch.special.entr(share).sum(-1) / torch.log(torch.tensor(2.0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+", metavar="FILE_OR_FOLDER")
    total, status = torch.zeros(256, dtype=torch.int64), 0
    for path in parser.parse_args().paths:
        for file in sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path]:
            try:
                counts = byte_counts(file)
            except OSError as error:
                print(f"byte_statistics.py: {file}: {error.strerror}", file=sys.stderr)
                status = 2
                continue
            total += counts
            print(f"{int(counts.sum()):>15,} bytes  {entropy(counts):.3f} bits a byte  {file}")
    if total.any() or not status:
        print(f"{int(total.sum()):>15,} bytes  {entropy(total):.3f} bits a byte  in all")
    sys.exit(status)
