"""A slice of the generated run: tests/fuzz.py says how to run all of it."""

from __future__ import annotations

import random

import fuzz
import pytest


@pytest.mark.parametrize("seed", range(1, 5))
def test_random_problems(seed: int) -> None:
    fuzz.check(seed, 0, 500)


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
