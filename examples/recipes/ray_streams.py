"""Histograms and quantiles of blocks that Ray holds on many machines: a stream each, merged."""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from torch_histo import StreamingHistogram


def count(new: Callable, block: Any) -> StreamingHistogram:
    """A new stream for each block: what a lost worker had counted is counted again, not twice."""
    stream = new()
    stream.update(block)
    return stream


def merge(new: Callable, *streams: StreamingHistogram) -> StreamingHistogram:
    total = new()  # the streams stay as they are, since this may be run again, too
    for stream in streams:
        total.merge(stream)
    return total


def stream_of(blocks: Iterable, new: Callable, together: int = 8) -> StreamingHistogram:
    """All blocks, arrays or Ray's references to them, in a stream as `new` makes them."""
    import ray

    streams = [ray.remote(count).remote(new, block) for block in blocks]
    while len(streams) > 1:
        parts = [streams[i : i + together] for i in range(0, len(streams), together)]
        streams = [ray.remote(merge).remote(new, *part) for part in parts]
    return ray.get(streams[0])


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    blocks = np.random.default_rng(0).normal(size=(20, 500_000))  # or from ray.remote, or ray.put
    found = stream_of(blocks, partial(StreamingHistogram, 64, range=(-4, 4)))
    print(f"{found.count:,} values, 0.99 of them below {found.quantile(0.99):.3f}")
