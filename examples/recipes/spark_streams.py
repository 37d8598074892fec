"""Histograms and quantiles of a column of a Spark DataFrame: a stream per partition, merged."""

import argparse
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from torch_histo import StreamingHistogram


def block(values: Iterable) -> Iterator[np.ndarray]:
    """A partition as an array. Missing values (None) become NaN."""
    yield np.array([*values], dtype=np.float64)


def count(stream: StreamingHistogram, values: np.ndarray) -> StreamingHistogram:
    stream.update(values)
    return stream


def merge(stream: StreamingHistogram, other: StreamingHistogram) -> StreamingHistogram:
    return stream.merge(other)


def stream_of(frame: Any, column: str, zero: StreamingHistogram) -> StreamingHistogram:
    """All of a column, in a stream like `zero`, which is empty. Each task has a copy of it.

    Unlike an accumulator, this counts a task once that Spark has run twice.
    """
    values = frame.select(column).rdd.map(itemgetter(0))
    return values.mapPartitions(block).treeAggregate(zero, count, merge)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    from pyspark.sql import SparkSession, functions

    spark = SparkSession.builder.getOrCreate()
    frame = spark.range(1_000_000).select(functions.randn(seed=0).alias("x"))
    found = stream_of(frame, "x", StreamingHistogram(64, range=(-4, 4)))
    print(f"{found.count:,} values, 0.99 of them below {found.quantile(0.99):.3f}")
