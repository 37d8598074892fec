"""The recipes that sum up weights, against exact sums, SciPy and other divisions of the work."""

from __future__ import annotations

import importlib
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from conftest import ENVIRONMENT
from torch.utils.data import TensorDataset

RECIPES = Path(__file__).parents[1] / "examples" / "recipes"


def recipe(program: str) -> dict[str, Any]:
    return runpy.run_path(str(RECIPES / f"{program}.py"))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_router_probabilities(device: torch.device) -> None:
    probability_by_expert = recipe("router_probabilities")["probability_by_expert"]
    chosen = random(3, 50, 8).softmax(-1).topk(2)
    experts = chosen.indices.clone()
    experts[1, 7:9] = -1  # padding
    weight = chosen.values.clone().to(device).requires_grad_()
    sums = probability_by_expert(experts.to(device), weight, 8)
    expected = oracle.weighted_channel_histogram(experts, chosen.values, 8, (-2, -1))
    assert torch.equal(sums.cpu(), expected)
    own = random(3, 8, seed=1).double()
    sums.backward(own.to(device))
    gathered = own[torch.arange(3).view(3, 1, 1), experts.clamp(0)].where(experts >= 0, 0)
    assert torch.equal(weight.grad.cpu(), gathered.float())


def test_the_imbalance_of_a_router(device: torch.device) -> None:
    imbalance = recipe("router_probabilities")["imbalance"]
    experts = torch.tensor([[0], [1], [2]], device=device)
    assert imbalance(experts, torch.full((3, 1), 0.1, device=device), 3) == 0
    one = imbalance(torch.zeros_like(experts), torch.ones(3, 1, device=device), 3)
    assert one.tolist() == 2  # sums of 3, 0 and 0


def test_a_router_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match=r"^probability_by_expert: .* \[4, 2\] and \[4, 1\]$"):
        recipe("router_probabilities")["probability_by_expert"](
            torch.zeros(4, 2, dtype=torch.int64), torch.zeros(4, 1), 3
        )


def features(rows: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    bins = oracle.random_values((rows, 5), torch.uint8)
    noise = random(rows, seed=2) * 60
    return bins.to(device), (bins[:, 3] + noise > 99).float().to(device)


def test_gradient_sums_are_exact(device: torch.device) -> None:
    bins, labels = features(400, device)
    gradient, hessian = 0.5 - labels, random(400, seed=3).exp().mul(1e-30).to(device)
    sums = recipe("gradient_boosting")["gradient_sums"](bins, gradient, hessian).cpu()
    for found, weight in zip(sums, (gradient, hessian), strict=True):
        weight = weight.cpu().unsqueeze(1)
        assert torch.equal(found, oracle.weighted_channel_histogram(bins.cpu(), weight, 256))


def test_boosting_finds_the_same_trees_in_any_order(device: torch.device) -> None:
    """16 rounds, the same bits: of shuffled rows, and with one thread."""
    boost = recipe("gradient_boosting")["boost"]
    bins, labels = features(3000, device)
    splits, scores = boost(bins, labels, 16)
    assert len(set(splits)) > 1
    assert splits[0][0] == 3
    assert float(((scores > 0) == labels).float().mean()) > 0.8
    order = torch.randperm(3000, generator=torch.Generator().manual_seed(4)).to(device)
    threads = torch.get_num_threads()
    for of, count in ((order, threads), (order, 1), (order.sort().values, 1)):
        try:
            torch.set_num_threads(count)
            again, shuffled = boost(bins[of], labels[of], 16)
        finally:
            torch.set_num_threads(threads)
        assert again == splits
        assert torch.equal(shuffled, scores[of])


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("edge_dtype", [torch.float32, torch.float64])
def test_binned_statistic(device: torch.device, offset: float, edge_dtype: torch.dtype) -> None:
    stats = importlib.import_module("scipy.stats")
    mean_and_variance = recipe("binned_statistic")["mean_and_variance"]
    x, values = random(5000), random(5000, seed=1) + offset
    edges = torch.tensor([-2, -1.5, -0.25, 0, 0.5, 3, 5, 6], dtype=edge_dtype)
    x[:8] = edges
    x[8] = 4.5
    found = mean_and_variance(x.to(device), values.to(device), edges.to(device))
    arrays = x.double().numpy(), values.double().numpy()
    for got, statistic in zip(found, ("mean", "std"), strict=True):
        expected = stats.binned_statistic(*arrays, statistic, edges.double().numpy()).statistic
        expected = expected**2 if statistic == "std" else expected
        np.testing.assert_allclose(got.cpu().numpy(), expected, rtol=1e-10)
    empty = mean_and_variance(x[9:].to(device), values[9:].to(device), edges.to(device) + 100)
    assert all(each.isnan().all() for each in empty)


def test_a_binned_statistic_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match=r"^mean_and_variance: .* \[4\] and \[3\]$"):
        recipe("binned_statistic")["mean_and_variance"](
            torch.zeros(4), torch.zeros(3), torch.zeros(2)
        )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_set_of_weights(workers: int) -> None:
    x, weight = random(1001), random(1001, seed=1).exp()
    data = TensorDataset(x, weight)
    weighted_histogram = recipe("weighted_dataset")["weighted_histogram"]
    expected = oracle.weighted_histogram(x, torch.linspace(-4, 4, 65), weight, flow=True)
    for batch in (7, 1001):
        found = weighted_histogram(data, batch, workers)
        assert torch.equal(found.hist, expected)


@pytest.mark.long
def test_processes_find_the_same_bits(tmp_path: Path) -> None:
    """Each of three prints what one alone prints."""
    program = str(RECIPES / "weighted_dataset.py")
    # The data are made as in each of three, by one thread.
    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
    alone = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, check=True
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    # A file for each process: in one pipe their lines can mix.
    command += ["--redirects", "1", "--log-dir", str(tmp_path), "--nproc-per-node", "3"]
    together = subprocess.run(
        [*command, program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert together.returncode == 0, together.stderr
    printed = [file.read_text() for file in tmp_path.rglob("stdout.log")]
    assert len(alone.stdout.split()) == 67
    assert printed == [alone.stdout] * 3
