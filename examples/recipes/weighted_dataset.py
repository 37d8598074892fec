"""A weighted histogram of all that a DataLoader gives, on any number of processes.

torchrun --nproc-per-node 2 examples/recipes/weighted_dataset.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from torch_histo import StreamingHistogram


def weighted_histogram(data: Dataset, batch: int, workers: int = 0) -> StreamingHistogram:
    """Of pairs of a value and its weight; bins from -4 to 4. Each process returns the same bits.

    A process takes every so-manyth pair. DistributedSampler would repeat some pairs, so that all
    processes have as many.
    """
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    own = Subset(data, range(rank, len(data), ranks))
    found = StreamingHistogram(64, (-4, 4), weight_dtype=torch.float32, variance=True)
    for values, weights in DataLoader(own, batch, num_workers=workers):
        found.update(values, weights)
    return found.all_reduce() if ranks > 1 else found


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    found = weighted_histogram(TensorDataset(torch.randn(10_001), torch.randn(10_001).exp()), 256)
    print(" ".join(sum_.hex() for sum_ in found.hist.tolist()))
    if dist.is_initialized():
        dist.destroy_process_group()
