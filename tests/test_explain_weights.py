"""explain_histogram tells what weights take: their digits, groups of channels, and bytes."""

from __future__ import annotations

import math
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
    assert "multiplies" in text
    assert not explain_histogram(X, 5, dim=1, weight=torch.ones(6)).weight.multiplies
    assert explain_histogram(torch.tensor(1.0), 5, weight=2.0).weight.multiplies
    assert explain_histogram(
        X.view(4, 6, 1), 5, dim=2, weight=torch.ones(4, 6, 1)
    ).weight.multiplies


def test_facts_and_words() -> None:
    weight = torch.empty(1 << 20, 512, device="meta", dtype=torch.float64)
    plan = explain_histogram(weight.float(), 1024, range=(0, 1), dim=0, weight=weight)
    facts = plan.weight
    assert (facts.sum_size, facts.calls) == (70, 2)
    assert facts.bytes_of_digits <= 1 << 28 < 2 * facts.bytes_of_digits
    assert plan.bytes_moved == (2 << 30) + (4 << 30) + (4 << 20)
    lines = dict(line.strip().split("  ", 1) for line in str(plan).splitlines()[1:])
    assert lines["weights"].strip().startswith("[1048576, 512] float64, bytes read 4 GiB, ")
    assert "layout" not in lines
    assert explain_histogram((9, 100), 4, weight=torch.ones(9, 1)).weight.shape == (9, 1)


@pytest.mark.parametrize("most", [0, 1000, 3000, 20_000, 1 << 28])
@pytest.mark.parametrize("sizes", [(), (3,), (4, 5), (2, 3, 4), (0, 3)])
def test_groups_are_those_of_a_call(
    most: int, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    real = weights.weighted_histogram

    def noted(*args: Any, **named: Any) -> Tensor:
        digits = real(*args, **named)
        if not digits.is_meta:  # or else it is a check
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


ON_A_GPU: list[tuple[tuple[int, ...], int, Tensor, dict[str, Any]]] = [
    (
        (1 << 28,),
        256,
        on_meta(1 << 28),
        {"layout": "streams", "words": 10, "has_all_digits": True, "parts": 1},
    ),
    (
        (1 << 28,),
        5000,
        on_meta(1 << 28),
        {"layout": "streams", "has_all_digits": False},
    ),
    (
        (1 << 22, 64),
        128,
        on_meta(1 << 22, 1),
        {"layout": "columns", "words": 10, "copies": 32},
    ),
    (
        (49, 1 << 16),
        256,
        on_meta(49, 1 << 16),
        {"layout": "warps", "words": 10, "has_all_digits": True, "calls": 1, "bytes_of_digits": 0},
    ),
    (
        (64, 100),
        128,
        on_meta(64, 100, dtype=torch.float64),
        {"layout": "tiles", "words": 0, "shared_bytes": 0},
    ),
]


@pytest.mark.parametrize(("shape", "bins", "weight", "wanted"), ON_A_GPU)
def test_plans_of_a_gpu(
    shape: tuple[int, ...], bins: int, weight: Tensor, wanted: dict[str, Any]
) -> None:
    plan = explain_histogram(shape, bins, range=(-4, 4), dim=0, weight=weight, device="H100")
    facts = {name: getattr(plan.weight, name) for name in wanted}
    assert facts == wanted
    assert plan.weight.blocks > 0
    assert plan.weight.shared_bytes <= 227 * 1024
    assert f"layout {plan.weight.layout}" in str(plan)
    alone = explain_histogram(shape, bins, range=(-4, 4), dim=0, weight=weight, device="cpu")
    assert not alone.weight.layout


def test_digits_in_memory() -> None:
    """A density and a gradient need them, where sums alone are rounded in the kernel."""
    shape = (49, 65536)
    weight = on_meta(*shape)

    def calls(weight: Tensor, density: bool = False) -> tuple[int, bool]:
        plan = explain_histogram(
            shape, 256, range=(-4, 4), dim=0, weight=weight, density=density, device="H200"
        ).weight
        return plan.calls, plan.bytes_of_digits > 0

    assert calls(weight) == (1, False)
    assert calls(on_meta(1, 65536)) == (1, False)
    for several in (calls(weight, True), calls(weight.clone().requires_grad_())):
        assert several[0] > 1
        assert several[1]


@pytest.mark.parametrize("sizes", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("device", ["cpu", "H100"])
def test_plans_of_nothing(sizes: tuple[int, ...], device: str) -> None:
    weight = torch.ones(sizes)
    plan = explain_histogram(sizes, 4, range=(0, 1), dim=0, weight=weight, device=device)
    assert plan.weight.bytes_read == 0
    assert "  weights " in str(plan)


def test_few_weights_have_no_columns() -> None:
    """Tables of columns take as long to clear and to add as reading 1.3 million elements."""
    layouts = {}
    for rows in (1 << 13, 1 << 16):
        x = torch.empty(rows, 64, device="meta")
        plan = explain_histogram(x, 256, range=(-4, 4), dim=0, weight=x, device="H200")
        layouts[rows] = plan.weight.layout
    assert layouts == {1 << 13: "streams", 1 << 16: "columns"}
