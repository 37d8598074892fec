"""Bins of one width in one call, on no GPU (see test_emulated.py)."""

from __future__ import annotations

import math
from random import Random

import pytest
import torch
from emulator.programs import (
    ELEMENT_TYPES,
    FEW_SMS,
    ONE_SM,
)
from emulator.uniform import CountUniform
from oracle import NUMBERS
from test_emulated_edges import BITS, HOPPER, numbers_about, uniform
from torch import Tensor

from torch_histo.devices import Device

pytestmark = pytest.mark.sampled(3)

Range = tuple[float, float] | None


def special(values: Tensor) -> Tensor:
    """Channels, in rows, that are constant, have no finite number, or end with such numbers."""
    values = values.clone()
    bits = values.view(BITS[values.dtype.itemsize])
    bits[0] = bits[0, 0].clone()
    if values.dtype.is_floating_point:
        some = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0]).to(values.dtype)
        bits[1] = some.view(bits.dtype)[0]
        bits[2, -5:] = bits[3, :5] = some.view(bits.dtype)
    return values


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types(count_uniform: CountUniform, dtype: torch.dtype) -> None:
    is_float8 = dtype.is_floating_point and dtype.itemsize == 1
    for shape, bins in (((40, 49), 10), ((5, 300), 257), ((4, 2000), 64)):
        values = special(numbers_about(uniform(-40, 100, 20), shape, dtype))
        for offset in (0, 1):
            for flow in (False, True):
                own = count_uniform(values, bins, None, flow=flow, offset=offset)
                one = count_uniform(values, bins, (-3.7, 60.3), flow=flow, offset=offset)
                assert own == {"count_own_ranges"}, own
                narrow = dtype in (torch.float16, torch.bfloat16, torch.float32)
                kernel = "count_short_channels" if narrow else "count_own_ranges"
                assert one == {kernel} or is_float8, one


def test_sizes(count_uniform: CountUniform) -> None:
    """At the ends of vec16s, warps and blocks."""
    edges = uniform(-2, 2, 8)
    for i, size in enumerate(
        (1, 2, 3, 4, 5, 31, 32, 33, 127, 128, 129, 511, 513, 1023, 1025, 4095)
    ):
        for channels in (3, 40):
            values = numbers_about(edges, (channels, size), torch.float32, i)
            assert count_uniform(values, 1 + i, None, offset=i % 4) == {"count_own_ranges"}
            count_uniform(values, 17, (-1.1, 2.2), offset=i % 4, gpu=ONE_SM)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_runs(count_uniform: CountUniform, dtype: torch.dtype) -> None:
    """A channel may lie in many runs, of whole vec16s or not."""
    edges = uniform(-2, 2, 8)
    for shape in ((6, 3, 16), (6, 5, 49), (7, 2, 7), (40, 3, 1), (3, 40, 2, 9)):
        values = numbers_about(edges, shape, dtype)
        dim = (0, len(shape) - 1)
        words = count_uniform(values, 9, None, dim=dim)
        assert words == {"count_own_ranges"} or shape[-1] == 1
        count_uniform(values, 9, (-1.0, 1.7), dim=dim)
        count_uniform(values[:, 1:], 9, None, dim=dim, offset=1)
    values = numbers_about(edges, (4, 3, 2, 11), dtype)[..., :9]
    assert count_uniform(values, 9, None, dim=(0, 2, 3)) == {"count_own_ranges"}


def test_bins(count_uniform: CountUniform) -> None:
    """More bins than a warp's table has, and than any has."""
    values = numbers_about(uniform(-2, 2, 8), (40, 60), torch.float32)
    for bins in (1, 2048, 2049, 4097):
        count_uniform(values, bins, None, gpu=HOPPER)
        count_uniform(values, bins, (-1.0, 2.0), gpu=HOPPER)
    assert "count_own_ranges" not in count_uniform(values[:3], 70_000, None)


@pytest.mark.parametrize("size", [1e-42, 1e-30, 3e38])
def test_ranges_without_a_line(count_uniform: CountUniform, size: float) -> None:
    """Edges are as uniform_edges() makes them, and values are searched among them."""
    generator = torch.Generator().manual_seed(0)
    values = (torch.rand((5, 200), generator=generator).double() * 2 - 1) * size
    values[0] = 1e6 + torch.arange(200) / 50.0
    edges_of = torch.ops.histo.uniform_edges  # NumPy refuses some of these ranges
    words = count_uniform(values.float(), 300, None, edges_of=edges_of)
    assert words == {"count_own_ranges"}
    count_uniform(values, 300, None, edges_of=edges_of)


@pytest.mark.parametrize("gpu", FEW_SMS, ids=lambda gpu: gpu.name)
def test_layouts(count_uniform: CountUniform, gpu: Device) -> None:
    """Longer channels, columns and any strides: the extremes have kernels of their own."""
    rng = Random(gpu.name)
    edges = uniform(-2, 2, 8)
    for shape, dim in (
        ((70_001,), (0,)),
        ((2, 40_001), (1,)),
        ((300, 40), (0,)),
        ((501, 11), (0,)),
        ((3, 100, 24), (1,)),
        ((20, 4, 1100), (0, 2)),
    ):
        dtype = rng.choice([torch.bfloat16, torch.float32, torch.int16, torch.float64])
        values = numbers_about(edges, shape, dtype)
        count_uniform(values, 20, None, dim=dim, gpu=gpu)
        count_uniform(values, 20, (-1.5, 1.25), dim=dim, gpu=gpu)
        count_uniform(values[..., ::2], 20, None, dim=dim, gpu=gpu)


def test_types_have_numbers() -> None:
    assert set(NUMBERS) <= set(ELEMENT_TYPES)
