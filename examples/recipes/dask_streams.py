"""Histograms and quantiles of a Dask array larger than memory: a stream per block, merged."""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch_histo import StreamingHistogram


def count(new: Callable, block: Any) -> StreamingHistogram:
    """A new stream for each block: what a lost worker had counted is counted again, not twice."""
    stream = new()
    stream.update(block)
    return stream


def merge(new: Callable, streams: Iterable) -> StreamingHistogram:
    total = new()  # the streams stay as they are, since this may be run again, too
    for stream in streams:
        total.merge(stream)
    return total


def stream_of(array: Any, new: Callable, together: int = 8) -> StreamingHistogram:
    """All that a dask.array holds, in a stream as `new` makes them: QuantileSketch, for example."""
    from dask import delayed

    streams = [delayed(count)(new, block) for block in array.to_delayed().flat]
    while len(streams) > 1:
        parts = [streams[i : i + together] for i in range(0, len(streams), together)]
        streams = [delayed(merge)(new, part) for part in parts]
    return streams[0].compute()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    import dask.array

    # Threads of this process count, unless there is a dask.distributed.Client.
    values = dask.array.random.default_rng(0).normal(size=10**7)
    found = stream_of(values, partial(StreamingHistogram, 64, range=(-4, 4)))
    print(f"{found.count:,} values, 0.99 of them below {found.quantile(0.99):.3f}")
