"""DTensors, and counts that ranks add up: with Gloo on the CPU, with NCCL on several GPUs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import ranks
import torch
import torch.distributed as dist
from conftest import ENVIRONMENT, PACKAGE
from torch.multiprocessing.spawn import ProcessException, spawn

from torch_histo import distributed

WORLD = 4
GPUS = min(torch.cuda.device_count(), WORLD)
BACKENDS = {"gloo": WORLD, **({"nccl": GPUS} if GPUS >= 2 else {})}

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory):
    """`{case: traceback or ""}` of every rank of a backend. All cases share one start."""

    @cache
    def run(backend: str) -> list[dict[str, str]]:
        folder = tmp_path_factory.mktemp(backend)
        world = BACKENDS[backend]
        with suppress(ProcessException):  # what failed is in the files
            spawn(ranks.run, (world, backend, folder), nprocs=world)
        files = [folder / f"{rank}.json" for rank in range(world)]
        return [json.loads(file.read_text()) if file.exists() else {} for file in files]

    return run


@pytest.mark.parametrize("case", ranks.CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_on_every_rank(results, backend: str, case: str) -> None:
    for rank, outcome in enumerate(results(backend)):
        failure = outcome.get(case, "it did not get that far")
        assert not failure, f"rank {rank} of {BACKENDS[backend]}: {failure}"


def test_without_a_process_group() -> None:
    with pytest.raises(RuntimeError, match="to be initialized, got no process group"):
        distributed.channel_histogram(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match=r"^distributed\.histogram: .* got no process group"):
        distributed.histogram(torch.zeros(3))


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_errors_of_one_line() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    values = torch.zeros(8, 3, dtype=torch.uint8)
    mesh = init_device_mesh("cpu", (1,))
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (
            distribute_tensor(values, mesh, [Shard(0)]),
            {},
            "distributed.channel_histogram: local_input must be what this process holds, "
            "got a DTensor: pass it to torch_histo.channel_histogram",
        ),
        (
            {},
            {},
            "distributed.channel_histogram: local_input must be a tensor, an array, an image or "
            "a list of numbers, got dict",
        ),
        (
            values,
            {"group": mesh},
            "distributed.channel_histogram: group must be a ProcessGroup or None, got DeviceMesh",
        ),
        (
            values,
            {"group": [0]},
            "distributed.channel_histogram: group must be a ProcessGroup or None, got list",
        ),
        (
            values,
            {"group": dist.new_group(backend="cuda:gloo")},
            "distributed.channel_histogram: local_input must be on a device that the backend of "
            "group serves, got cpu",
        ),
        (values, {"nbins": 3}, "channel_histogram: nbins must be passed as num_bins, got nbins=3"),
        (values, {"num_bins": -1}, "channel_histogram: num_bins must be at least 0, got -1"),
    ]
    for local_input, arguments, line in cases:
        with pytest.raises((TypeError, RuntimeError), match=f"^{re.escape(line)}$"):
            distributed.channel_histogram(local_input, **arguments)
        if not arguments.keys() & {"nbins", "num_bins"}:  # the checks of both functions
            line = line.replace("channel_histogram", "histogram")
            with pytest.raises((TypeError, RuntimeError), match=f"^{re.escape(line)}$"):
                distributed.histogram(local_input, **arguments)
    assert distributed.channel_histogram(values, 0).shape == (3, 0)
    assert distributed.channel_histogram(values, 2, None).tolist() == [24, 0]


def run_python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE, check=True, timeout=120)


RULES_ARE_THERE = """
from torch.distributed.tensor import DTensor
rules = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
assert torch.ops.histo.channel_histogram.default in rules
assert torch.ops.histo.text_histogram.default in rules
assert torch.ops.histo.histogram.default in rules
assert not any(type(finder).__module__.startswith("torch_histo") for finder in sys.meta_path)
"""


def test_dtensor_is_imported_by_those_who_use_it() -> None:
    """It takes longer to import than torch_histo; the ranks import it before torch_histo."""
    code = """
import sys, torch_histo
assert "torch.distributed.tensor" not in sys.modules
import torch
"""
    run_python(code + RULES_ARE_THERE)


def test_dtensor_is_asked_for_and_fails_before_it_is_imported() -> None:
    """Its spec is found and not used, an import fails, and then threads import it together."""
    code = """
import importlib.util, sys, torch, torch_histo
from concurrent.futures import ThreadPoolExecutor
name = "torch.distributed.tensor"
for _ in range(3):
    spec = importlib.util.find_spec(name)
    assert spec.loader.is_package(name) and spec.loader.get_source(name)
    assert name not in sys.modules
sys.modules[name + "._ops"] = None  # which makes an import fail
try:
    importlib.import_module(name)
except ImportError:
    del sys.modules[name + "._ops"]
else:
    raise AssertionError("it did not fail")
with ThreadPoolExecutor(8) as pool:
    list(pool.map(importlib.import_module, [name] * 8))
"""
    run_python(code + RULES_ARE_THERE)


def test_dtensor_is_being_imported_by_another_thread() -> None:
    code = """
import importlib, sys, threading, time, torch
name = "torch.distributed.tensor"
thread = threading.Thread(target=importlib.import_module, args=[name])
thread.start()
while name not in sys.modules:
    time.sleep(0.0005)
import torch_histo
thread.join()
"""
    run_python(code + RULES_ARE_THERE)


@pytest.mark.long
def test_weak_scaling_is_measured(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "scaling.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(script), "--device", "cpu", "--mib-per-rank", "1", "--out", str(tmp_path)]
    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, timeout=120)
    record = json.loads((tmp_path / "scaling-cpu-1-threads-x2.json").read_text())
    assert {"device", "torch", "commit"} <= record["machine"].keys()
    assert [row["shape"] for row in record["records"]] == [[2048, 512], [1 << 20, 1]]
    for row in record["records"]:
        assert row["share"] == row["seconds_alone"] / row["seconds"] > 0
        assert row["bytes_per_second"] == 2 * (1 << 20) / row["seconds"]
    assert "| share |" in (tmp_path / "scaling-cpu-1-threads-x2.md").read_text()
