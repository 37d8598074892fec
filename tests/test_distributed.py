"""DTensors, and counts that ranks add up: with Gloo on the CPU, with NCCL on several GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

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
    """Of every rank of a backend: `{case: traceback or ""}`. All cases share one start."""

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


def test_dtensor_is_imported_by_those_who_use_it() -> None:
    """It takes longer to import than torch_histo; the ranks import it before torch_histo."""
    code = """
import sys, torch_histo
assert "torch.distributed.tensor" not in sys.modules
import torch
from torch.distributed.tensor import DTensor
rules = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
assert torch.ops.histo.channel_histogram.default in rules
assert torch.ops.histo.text_histogram.default in rules
assert not any(type(finder).__module__.startswith("torch_histo") for finder in sys.meta_path)
"""
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE, check=True, timeout=120)


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
