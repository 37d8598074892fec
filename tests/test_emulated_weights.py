"""Sums of weights of short channels on no GPU (see test_emulated.py)."""

from __future__ import annotations

import math
from functools import partial
from typing import Protocol

import pytest
import torch
from emulator.programs import FEW_SMS, ONE_SM, TWO_SMS, Programs
from emulator.warp_sums import sum_in_warps
from oracle import FLOATS, NUMBERS, any_bits
from test_emulated_edges import numbers_about, uniform
from torch import Tensor

from torch_histo.devices import Device

pytestmark = pytest.mark.sampled(3)

SMALL_FLOATS = [dtype for dtype in FLOATS if dtype != torch.float64]
WIDE = [torch.int64, torch.uint64]
EDGES = uniform(-2, 2, 8)


class Sum(Protocol):
    def __call__(
        self,
        values: Tensor,
        weight: Tensor,
        edges: Tensor,
        dim: tuple[int, ...] = ...,
        *,
        flow: bool = ...,
        offsets: tuple[int, int] = ...,
        gpu: Device = ...,
    ) -> set[str]: ...


@pytest.fixture(scope="session")
def sum_weights(programs: Programs) -> Sum:
    return partial(sum_in_warps, programs.emulator)


def weights_of(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Weights whose sums need digits far apart. Few are not finite, so that most sums are."""
    weight = any_bits(shape, dtype, seed)
    generator = torch.Generator().manual_seed(seed)
    rare = torch.rand(shape, generator=generator) < 0.01
    usual = torch.randn(shape, generator=generator).to(dtype)
    return torch.where(weight.float().isfinite() | rare, weight.float(), usual.float()).to(dtype)


def special(shape: tuple[int, ...]) -> Tensor:
    """Channels whose weights are NaN, infinite, zeros of either sign, or cancel each other."""
    weight = torch.randn(shape)
    some = [math.nan, math.inf, -math.inf, 0.0, -0.0, 3.4e38, -3.4e38, 1e-45, -1e-45]
    for i, one in enumerate(some):
        weight[i] = one
    weight[len(some), ::2] = math.inf
    weight[len(some), 1::2] = -math.inf
    weight[len(some) + 1, ::2] = -1e30
    weight[len(some) + 1, 1::2] = 1e30
    weight[len(some) + 1, 0] = 1e-40
    return weight


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types(sum_weights: Sum, dtype: torch.dtype) -> None:
    values = numbers_about(EDGES, (13, 70), dtype)
    for i, of_weight in enumerate(SMALL_FLOATS):
        weight = weights_of((13, 70), of_weight, i)
        words = sum_weights(values, weight, EDGES, flow=i % 2 == 0, offsets=(i % 3, i % 2))
        assert (words == {"none"}) == (dtype in WIDE)


def test_sizes(sum_weights: Sum) -> None:
    """At the ends of warps and of what they load together."""
    for i, size in enumerate((1, 2, 3, 7, 9, 15, 17, 31, 32, 33, 63, 65, 127, 128, 129, 257, 515)):
        for dtype in (torch.float32, torch.bfloat16):
            for channels in (4, 30):
                values = numbers_about(EDGES, (channels, size), dtype, i)
                weight = weights_of((channels, size), torch.float32, i)
                gpu = ONE_SM if i % 2 else FEW_SMS[2]
                enough = channels >= 4 * gpu.sm_count
                words = sum_weights(values, weight, EDGES, flow=i % 3 == 0, gpu=gpu)
                assert (words != {"none"}) == enough, words


def test_special_weights(sum_weights: Sum) -> None:
    for size, bins in ((2, 3), (49, 8), (200, 300)):
        edges = uniform(-2, 2, bins)
        values = numbers_about(edges, (12, size), torch.float32)
        for flow in (False, True):
            assert sum_weights(values, special((12, size)), edges, flow=flow) != {"none"}


def test_special_values(sum_weights: Sum) -> None:
    """Values outside of the bins, NaN, and channels that are constant."""
    values = numbers_about(EDGES, (12, 150), torch.float32)
    for i, value in enumerate((math.nan, math.inf, -math.inf, 2.0, -2.0, 0.3)):
        values[i] = value
    weight = weights_of((12, 150), torch.float32)
    for flow in (False, True):
        sum_weights(values, weight, EDGES, flow=flow)
        sum_weights(values.double(), weight, EDGES.double(), flow=flow)


@pytest.mark.parametrize("flow", [False, True])
def test_edges(sum_weights: Sum, flow: bool) -> None:
    """A line does not find them, or they are wrong."""
    generator = torch.Generator().manual_seed(1)
    edges = [
        torch.randn(40, generator=generator).sort().values,
        torch.logspace(-6, 6, 100),
        torch.tensor([0.0, 0.0, 1.0, 1.0]),
        torch.tensor([1.0, 0.0]),
        torch.tensor([0.0, math.nan, 1.0]),
        torch.tensor([-math.inf, 0.0, math.inf]),
        torch.tensor([-1, 0, 5]),
        uniform(-2, 2, 257),
        uniform(-1, 1, 1),
    ]
    for i, own in enumerate(edges):
        values = numbers_about(own, (9, 60), torch.float32 if i % 2 else torch.float64)
        assert sum_weights(values, weights_of((9, 60), torch.float32), own, flow=flow) != {"none"}


def test_strides(sum_weights: Sum) -> None:
    """Rows that lie apart, in several loops, and weights that repeat."""
    values = numbers_about(EDGES, (6, 5, 7, 9), torch.float32)
    weight = weights_of((6, 5, 7, 9), torch.float32)
    for dim in ((3,), (2, 3), (0,), (0, 3), (0, 2), (1, 2), (0, 2, 3)):
        sum_weights(values, weight, EDGES, dim, gpu=ONE_SM)
    sum_weights(values[:, 1:, ::2], weight[:, 1:, ::2], EDGES, (1, 3))
    sum_weights(values.transpose(0, 3), weight.transpose(0, 3), EDGES, (0, 1))
    sum_weights(values, weight[:, :1], EDGES, (2, 3))
    sum_weights(values, weight[..., :1], EDGES, (1, 3))
    sum_weights(values[:, :, :1].expand(6, 5, 7, 9), weight, EDGES, (1, 3))
    apart = weight.contiguous(memory_format=torch.channels_last)
    sum_weights(values, apart, EDGES, (2, 3))


@pytest.mark.parametrize("gpu", FEW_SMS, ids=lambda gpu: gpu.name)
def test_many_channels(sum_weights: Sum, gpu: Device) -> None:
    """Each warp takes channels in turn, whose table it clears."""
    for size, bins in ((1, 5), (18, 256), (40, 3)):
        edges = uniform(-2, 2, bins)
        values = numbers_about(edges, (900, size), torch.float32)
        weight = weights_of((900, size), torch.float32)
        words = sum_weights(values, weight, edges, flow=size == 18, gpu=gpu)
        assert "several" in words or gpu == ONE_SM


def test_carries(sum_weights: Sum) -> None:
    """Words overflow either way, and several after each other."""
    values = torch.zeros(8, 3000)
    weight = torch.full((8, 3000), 2.0**31)
    weight[1] = -weight[0]
    weight[2, ::2] *= -1
    weight[3] = 2.0**127
    weight[4] = -(2.0**-149)
    weight[5] = 16777215.0
    weight[6, 0], weight[6, 1:] = 2.0**-140, -(2.0**100)
    weight[7, 0], weight[7, 1:] = -(2.0**-149), 0
    assert sum_weights(values, weight, torch.tensor([-1.0, 1.0])) != {"none"}


def test_others(sum_weights: Sum) -> None:
    """Other layouts take few channels, long ones, none, and more bins than tables have."""
    none = {"none"}
    for shape, bins in (((7, 30), 4), ((8, 4097), 4), ((8, 0), 4), ((0, 8), 4), ((8, 30), 5000)):
        values, weight = torch.zeros(shape), torch.ones(shape)
        assert sum_weights(values, weight, uniform(-2, 2, bins), gpu=TWO_SMS) == none
    for dtype in (torch.float64, torch.int32, torch.bool):
        weight = torch.ones(8, 30).to(dtype)
        assert sum_weights(torch.zeros(8, 30), weight, EDGES, gpu=TWO_SMS) == none
