"""A slice of the generated run: tests/fuzz.py says how to run all of it."""

from __future__ import annotations

import random

import fuzz
import fuzz_histogram
import oracle
import pytest
import torch


@pytest.mark.parametrize("seed", range(1, 5))
def test_random_problems(seed: int) -> None:
    fuzz.check(seed, 0, 500)


@pytest.mark.parametrize("seed", range(1, 4))
def test_random_histograms(device: torch.device, seed: int) -> None:
    fuzz.check(seed, 0, 500, fuzz_histogram.random_problem, device=device)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_random_histograms(device: torch.device, seed: int) -> None:
    fuzz.check(seed, 0, 10_000, fuzz_histogram.random_problem, device=device)


def test_problems_differ_and_reach_every_type_and_kind() -> None:
    problems = [fuzz.random_problem(random.Random(f"0/{i}")) for i in range(2000)]
    assert len(set(problems)) > 1900
    assert {problem.dtype for problem in problems} == set(fuzz.DTYPES)
    assert {problem.kind for problem in problems} == set(fuzz.KINDS)
    assert {problem.num_bins for problem in problems} == {*fuzz.BINS, *fuzz.MANY_BINS}
    assert problems == [fuzz.random_problem(random.Random(f"0/{i}")) for i in range(2000)]


def test_a_wrong_count_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fuzz.channel_histogram
    monkeypatch.setattr(fuzz, "channel_histogram", lambda *a, **k: right(*a, **k) + 1)
    with pytest.raises(AssertionError, match="--seed 9 --first 0 --problems 1"):
        fuzz.check(9, 0, 10)


def test_histograms_differ_and_reach_every_type_and_kind() -> None:
    make = fuzz_histogram.random_problem
    problems = [make(random.Random(f"0/{i}")) for i in range(3000)]
    assert len(set(problems)) == len(problems)
    assert {problem.dtype for problem in problems} == set(fuzz_histogram.NUMBERS)
    assert {problem.edge_dtype for problem in problems} == set(fuzz_histogram.EDGE_DTYPES)
    assert {problem.kind for problem in problems} == set(fuzz_histogram.VALUE_KINDS)
    assert {problem.edge_kind for problem in problems} == set(fuzz_histogram.EDGE_KINDS)
    bins = {problem.num_bins for problem in problems}
    assert bins == {*fuzz_histogram.BINS, *fuzz_histogram.MANY_BINS}
    assert problems == [make(random.Random(f"0/{i}")) for i in range(3000)]


def test_values_of_histograms_meet_edges() -> None:
    """Values lie in bins, on edges, below and above all edges, and some are no numbers."""
    sums = torch.zeros(4, dtype=torch.int64)
    on_edges = 0
    for i in range(200):
        problem = fuzz_histogram.random_problem(random.Random(f"0/{i}"))
        values, edges = problem.tensors()
        again = problem.tensors()
        assert values.shape == problem.view.sizes
        assert values.stride() == problem.view.strides
        assert torch.equal(values.double().nan_to_num(), again[0].double().nan_to_num())
        counts = oracle.histogram(values, edges, problem.view.dim, flow=True)
        counts = counts.reshape(-1, counts.shape[-1]).sum(0)
        sums += torch.stack([counts[0], counts[1:-2].sum(), counts[-2], counts[-1]])
        if values.dtype == edges.dtype == torch.float32:
            on_edges += int(torch.isin(values, edges).sum())
    assert sums.min() > 100
    assert on_edges > 100


def test_a_wrong_histogram_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_too_many(problem: fuzz_histogram.Problem, device: torch.device) -> torch.Tensor:
        return problem.expected() + 1

    monkeypatch.setattr(fuzz_histogram.Problem, "counts", one_too_many)
    with pytest.raises(AssertionError, match="--seed 9 --first 0 --problems 1"):
        fuzz.check(9, 0, 10, fuzz_histogram.random_problem)
