"""explain_histogram tells what weights take: their digits, groups of channels, and bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from torch_histo import explain_histogram, histogram, weights
from torch_histo._weight_operators import sum_size

X = torch.arange(24.0).view(4, 6)
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("device", [None, "H100"])
def test_what_weights_take(dtype: torch.dtype, device: str | None) -> None:
    weight = torch.ones(4, 1).to(dtype)
    for flow in (False, True):
        plan = explain_histogram(X, 5, dim=0, flow=flow, weight=weight, device=device)
        bins = 5 + 3 * flow
        facts = plan.weight
        assert (facts.dtype, facts.shape) == (dtype, (4, 1))
        assert facts.sum_size == sum_size(dtype)
        assert facts.bytes_of_digits == 6 * bins * sum_size(dtype) * 8
        assert (facts.calls, facts.multiplies) == (1, False)
        assert facts.bytes_read == 4 * weight.itemsize
        counts = explain_histogram(X, 5, dim=0, flow=flow, device=device)
        assert counts.weight is None
        assert plan.bytes_of_counts == counts.bytes_of_counts == 6 * bins * 8


@pytest.mark.parametrize("weight", [2.0, 3, torch.ones(6), torch.ones(1, 6), torch.ones(())])
@pytest.mark.parametrize("device", [None, "H100"])
def test_counts_that_are_multiplied(weight: Any, device: str | None) -> None:
    """One weight a channel: the plan is that of the counts."""
    edges = torch.arange(6.0)
    plan = explain_histogram(X, edges, dim=0, weight=weight, device=device)
    assert plan.weight.multiplies
    text, counts = str(plan), str(explain_histogram(X, edges, dim=0, device=device))
    for line in counts.splitlines()[1:]:
        assert line in text or line.startswith(("  memory", "  predicted"))
    assert ": counts are multiplied by it" in text
    assert not explain_histogram(X, 5, dim=1, weight=torch.ones(6)).weight.multiplies
    assert explain_histogram(
        X.view(4, 6, 1), 5, dim=2, weight=torch.ones(4, 6, 1)
    ).weight.multiplies


def test_in_words() -> None:
    weight = torch.empty(1 << 20, 512, device="meta", dtype=torch.float64)
    plan = explain_histogram(weight.float(), 1024, range=(0, 1), dim=0, weight=weight)
    lines = dict(line.strip().split("  ", 1) for line in str(plan).splitlines()[1:])
    assert lines["weights"].strip() == "[1048576, 512] float64"
    groups = "70 int64 a bin, exact: 256 MiB, in 2 groups of channels; rounded once to float64"
    assert lines["sums"].strip() == groups
    assert lines["memory"].strip() == "reads 2 GiB and 4 GiB of weights, writes 4 MiB of sums"
    assert "layout" not in lines
    text = str(explain_histogram((100,), 4, range=(0, 1), weight=torch.ones(100, dtype=torch.int8)))
    assert re.search(r"^  sums +int64, modulo 2\^64$", text, re.MULTILINE)
    text = str(explain_histogram((9, 100), 4, range=(0, 1), weight=torch.ones(9, 1)))
    assert re.search(r"^  weights +\[9, 1\] float32, which values share$", text, re.MULTILINE)


@pytest.mark.parametrize("most", [0, 1000, 3000, 20_000, 1 << 28])
@pytest.mark.parametrize("sizes", [(), (3,), (4, 5), (2, 3, 4), (0, 3)])
def test_groups_are_those_of_a_call(
    most: int, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    real = weights.weighted_histogram

    def noted(*args: Any, **named: Any) -> Tensor:
        digits = real(*args, **named)
        taken.append(digits.nbytes)
        return digits

    monkeypatch.setattr(weights, "_MOST_BYTES", most)
    monkeypatch.setattr(weights, "weighted_histogram", noted)
    x = torch.zeros(*sizes, 7)
    weight = torch.ones(7, dtype=torch.float64)
    histogram(x, 2, range=(0, 1), dim=-1, weight=weight, density=True)  # not by one operator
    facts = explain_histogram(x, 2, range=(0, 1), dim=-1, weight=weight).weight
    assert facts.calls == len(taken)
    assert facts.bytes_of_digits == max(taken)
    assert math.prod(sizes) * 2 * 560 == sum(taken)


@pytest.mark.parametrize(
    "weight", [torch.ones(5), torch.ones(1, 4, 6), torch.ones(6, dtype=torch.complex64), "a"]
)
def test_errors_are_those_of_histogram(weight: Any) -> None:
    def error_of(call: Callable[..., Any]) -> tuple[type, str]:
        with pytest.raises((RuntimeError, TypeError)) as raised:
            call(X, 4, weight=weight)
        return raised.type, str(raised.value)

    assert error_of(explain_histogram) == error_of(histogram)


def on_meta(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(sizes, device="meta", dtype=dtype)


ON_A_GPU: list[tuple[tuple[int, ...], int, Tensor, dict[str, Any], str]] = [
    (
        (1 << 28,),
        256,
        on_meta(1 << 28),
        {"layout": "streams", "words": 10, "has_all_digits": True, "parts": 1},
        ", all digits, in ",
    ),
    (
        (1 << 28,),
        5000,
        on_meta(1 << 28),
        {"layout": "streams", "has_all_digits": False},
        ", a window of the digits, in ",
    ),
    (
        (1 << 22, 64),
        128,
        on_meta(1 << 22, 1),
        {"layout": "columns", "words": 10, "copies": 32},
        "64 columns side by side",
    ),
    (
        (64, 100),
        128,
        on_meta(64, 100, dtype=torch.float64),
        {"layout": "tiles", "words": 0, "shared_bytes": 0},
        "to the result itself",
    ),
]


@pytest.mark.parametrize(("shape", "bins", "weight", "wanted", "words"), ON_A_GPU)
def test_plans_of_a_gpu(
    shape: tuple[int, ...], bins: int, weight: Tensor, wanted: dict[str, Any], words: str
) -> None:
    plan = explain_histogram(shape, bins, range=(-4, 4), dim=0, weight=weight, device="H100")
    facts = {name: getattr(plan.weight, name) for name in wanted}
    assert facts == wanted
    assert plan.weight.blocks > 0
    assert plan.weight.shared_bytes <= 227 * 1024
    assert words in str(plan)
    alone = explain_histogram(shape, bins, range=(-4, 4), dim=0, weight=weight, device="cpu")
    assert alone.weight.layout == ""


@pytest.mark.parametrize("sizes", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("device", ["cpu", "H100"])
def test_plans_of_nothing(sizes: tuple[int, ...], device: str) -> None:
    weight = torch.ones(sizes)
    plan = explain_histogram(sizes, 4, range=(0, 1), dim=0, weight=weight, device=device)
    assert plan.weight.bytes_read == 0
    assert "  sums " in str(plan)
