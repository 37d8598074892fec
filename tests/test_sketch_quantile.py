"""Quantiles of a sketch: the operator against the way of compiled programs."""

from __future__ import annotations

from copy import deepcopy
from math import nan
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sketches import DEVICES, QS, SPANS, numbers, random_sketch, special_values
from torch import Tensor

from torch_histo import QuantileSketch
from torch_histo.streams._stream import Stream


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(), min_size=1, max_size=40), st.integers(0, 9), st.data())
def test_any_floats(values: list[float], bits: int, data: Any) -> None:
    first = data.draw(st.integers(-1022, 1022))
    last = data.draw(st.integers(first + 1, min(1023, first + 300)))
    assert_quantiles(torch.tensor(values, dtype=torch.float64), bits, (first, last))


def assert_quantiles(x: Tensor, bits: int = 7, exponents: tuple[int, int] = (-32, 32)) -> None:
    sketch = QuantileSketch(bits=bits, exponents=exponents)
    sketch.update(x)
    for sketch._place in (0.5, 0.0):
        assert_quantiles_of(sketch)


def assert_quantiles_of(sketch: QuantileSketch, q: Any = QS) -> None:
    """The bits of the way that compiled calls take."""
    expected = Stream.quantile(sketch, q)
    is_nan = expected.isnan()
    for device in DEVICES:
        found = deepcopy(sketch).to(device).quantile(q).cpu()
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert torch.equal(found.isnan(), is_nan)
        assert torch.equal(found[~is_nan].view(torch.int64), expected[~is_nan].view(torch.int64))


@pytest.mark.parametrize("exponents", SPANS, ids=str)
def test_quantiles_of_special_values(exponents: tuple[int, int]) -> None:
    for dtype in (torch.float64, torch.float32, torch.int64):
        assert_quantiles(special_values(dtype, 3, exponents), 3, exponents)


@pytest.mark.parametrize("channels", [(), (0,), (1,), (3,), (2, 3), (600,)], ids=str)
@pytest.mark.parametrize(
    "q",
    [0.3, 1, [], [0.5], QS, torch.tensor(0.4), torch.tensor([0.1, -0.1, nan, 1.5, 1.0])],
    ids=str,
)
def test_quantiles_of_channels(channels: tuple[int, ...], q: Any) -> None:
    sketch = QuantileSketch(channels, bits=3)
    x = numbers(torch.float32, *channels, 50)
    if channels:
        x[:1] = nan  # a channel without values
    sketch.update(x, -1)
    assert_quantiles_of(sketch, q)


@pytest.mark.parametrize("scale", [1, 2**40, 2**48], ids=str)
def test_quantiles_of_huge_counts(scale: int) -> None:
    sketch = random_sketch((4,), 1, (-2, 2))
    sketch.hist.mul_(scale)
    assert_quantiles_of(sketch, torch.linspace(0, 1, 1001, dtype=torch.float64))


def test_halves_of_ranks_go_to_the_even_one() -> None:
    for size in range(1, 12):
        sketch = QuantileSketch()
        sketch.update(torch.arange(size))
        assert_quantiles_of(sketch, [k / 24 for k in range(25)])
