"""The recipes for Dask, Ray and Spark on real clusters of this machine, workers of which die."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ENVIRONMENT, load_module
from dying import DyingStream

from torch_histo import QuantileSketch, StreamingHistogram

RECIPES = Path(__file__).parents[1] / "examples" / "recipes"
BLOCKS = 10  # more than are merged at once
HISTOGRAM = partial(StreamingHistogram, 64, range=(-4, 4))
STREAMS = {"histogram": HISTOGRAM, "sketch": QuantileSketch}
Count = Callable[[np.ndarray, Callable[[], Any]], Any]
"""All values, counted by a cluster in a stream as the function makes them."""


def random_values() -> np.ndarray:
    values = np.random.default_rng(0).normal(0, 2, 5_001)
    values[:100] = np.linspace(-4, 4, 65)[np.arange(100) % 65]
    values[100:106] = np.nan, np.inf, -np.inf, -0.0, 5e-324, np.nextafter(4, 5)
    return values


@pytest.fixture(scope="module", autouse=True)
def environment() -> Iterator[None]:
    """Workers find the package, and `dying`."""
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(Path(__file__).parent)])
        patch.setenv("PYTHONPATH", os.pathsep.join([path, os.environ.get("PYTHONPATH", "")]))
        yield


def check_all(count: Count) -> None:
    """The cluster has the counts of one pass."""
    values = random_values()
    for name, new in STREAMS.items():
        expected = new()
        expected.update(values)
        assert torch.equal(count(values, new).hist, expected.hist), name
    counts, _ = np.histogram(values[np.isfinite(values)], np.linspace(-4, 4, 65))
    assert count(values, HISTOGRAM).hist[1:-2].tolist() == counts.tolist()


def check_lost_workers(count: Count, folder: Path) -> None:
    """What a dead worker had counted is counted once."""
    values, expected = random_values(), HISTOGRAM()
    expected.update(values)
    found = count(values, partial(DyingStream, folder, os.getpid()))
    assert {path.name for path in folder.iterdir()} == {"update", "merge"}
    assert torch.equal(found.hist, expected.hist)


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_merge_leaves_the_streams(name: str) -> None:
    """A task that is run again merges the streams that it has merged before."""
    recipe = load_module(RECIPES / f"{name}_streams.py")
    streams = [recipe.count(HISTOGRAM, part) for part in np.split(random_values()[1:], 2)]
    both = streams if name == "ray" else [streams]
    first, again = (recipe.merge(HISTOGRAM, *both).hist for _ in range(2))
    assert torch.equal(first, again)
    assert first.sum() == 5_000


@pytest.fixture(scope="module")
def with_dask() -> Iterator[Count]:
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    recipe = load_module(RECIPES / "dask_streams.py")

    def count(values: np.ndarray, new: Callable[[], Any]) -> Any:
        return recipe.stream_of(array.from_array(values, chunks=len(values) // BLOCKS), new)

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        # Workers are forks of a process that has imported torch, so that they start at once.
        context = distributed.utils.get_mp_context()
        context.set_forkserver_preload(["distributed", "torch_histo"])
        # Two die: the third goes on, however long new ones take.
        cluster = distributed.LocalCluster(3, threads_per_worker=1, dashboard_address=None)
        with cluster, distributed.Client(cluster):
            yield count


def test_dask(with_dask: Count) -> None:
    check_all(with_dask)


def test_dask_loses_workers(with_dask: Count, tmp_path: Path) -> None:
    check_lost_workers(with_dask, tmp_path)


def test_dask_without_a_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("dask.array")
    run_as_program("dask_streams", monkeypatch)
    assert capsys.readouterr().out == "10,000,000 values, 0.99 of them below 2.330\n"


def run_as_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import runpy

    path = str(RECIPES / f"{name}.py")
    monkeypatch.setattr("sys.argv", [path])
    runpy.run_path(path, run_name="__main__")


@pytest.fixture(scope="module")
def with_ray() -> Iterator[Count]:
    ray = pytest.importorskip("ray")
    recipe = load_module(RECIPES / "ray_streams.py")

    def count(values: np.ndarray, new: Callable[[], Any]) -> Any:
        blocks = np.array_split(values, BLOCKS)
        return recipe.stream_of([ray.put(blocks[0]), *blocks[1:]], new)

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=1 << 27)
    yield count
    ray.shutdown()


@pytest.mark.long
def test_ray(with_ray: Count) -> None:
    check_all(with_ray)


@pytest.mark.long
def test_ray_loses_workers(with_ray: Count, tmp_path: Path) -> None:
    check_lost_workers(with_ray, tmp_path)


@pytest.mark.long
@pytest.mark.usefixtures("with_ray")
def test_ray_as_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_as_program("ray_streams", monkeypatch)
    assert "10,000,000 values, 0.99 of them below 2.3" in capsys.readouterr().out


@pytest.fixture(scope="module")
def with_spark() -> Iterator[Count]:
    sql = pytest.importorskip("pyspark.sql")
    recipe = load_module(RECIPES / "spark_streams.py")
    # Two threads of executors, and four attempts at each task.
    builder = sql.SparkSession.builder.master("local[2, 4]")
    with builder.config("spark.ui.enabled", "false").getOrCreate() as spark:

        def count(values: np.ndarray, new: Callable[[], Any]) -> Any:
            rows = spark.sparkContext.parallelize([(float(v),) for v in values], BLOCKS)
            return recipe.stream_of(spark.createDataFrame(rows, "x double"), "x", new())

        yield count


@pytest.mark.long
def test_spark(with_spark: Count) -> None:
    check_all(with_spark)


@pytest.mark.long
def test_spark_loses_workers(with_spark: Count, tmp_path: Path) -> None:
    check_lost_workers(with_spark, tmp_path)


@pytest.mark.long
def test_spark_counts_missing_values_as_nan(with_spark: Count) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    frame = spark.createDataFrame([(None,), (0.5,), (float("nan"),)], "x double")
    recipe = load_module(RECIPES / "spark_streams.py")
    assert recipe.stream_of(frame, "x", HISTOGRAM()).hist[[36 + 1, -1]].tolist() == [1, 2]


@pytest.mark.long
@pytest.mark.usefixtures("with_spark")
def test_spark_as_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_as_program("spark_streams", monkeypatch)
    assert "1,000,000 values, 0.99 of them below 2.3" in capsys.readouterr().out
