"""Sketches, what they should have counted, and inputs for them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import oracle
import torch
from oracle import like
from torch import Tensor
from torch_histo.sketch import _key

from torch_histo import QuantileSketch
from torch_histo._sketch_operators import sketch_add

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
State = tuple[Tensor, Tensor, Tensor]
SPANS = ((-32, 32), (0, 1), (-1022, 1023), (-1022, -1021), (1022, 1023), (-126, 128), (-127, 200))
QS = (0.0, 1e-9, 0.1, 0.25, 0.5, 0.77, 0.9999, 1.0)


def state_of(sketch: QuantileSketch) -> State:
    return sketch.hist, sketch.min_key, sketch.max_key


def random_sketch(
    channels: Sequence[int], bits: int = 7, exponents: tuple[int, int] = (-32, 32)
) -> QuantileSketch:
    """A sketch that has counted before: what is added must not replace it."""
    sketch = QuantileSketch(channels, bits, exponents)
    sketch.hist.random_(1000, generator=torch.Generator().manual_seed(1))
    for key, value in ((sketch.min_key, 0.5), (sketch.max_key, 0.75)):
        key.fill_(_key(torch.tensor(value, dtype=torch.float64)))
    return sketch


def kept_sizes(x: Tensor, dim: Sequence[int] | None) -> list[int]:
    reduced = range(x.dim()) if dim is None else [d % x.dim() for d in dim]
    return [size for d, size in enumerate(x.shape) if d not in reduced]


def expected_state(sketch: QuantileSketch, x: Tensor, dim: Sequence[int] | None) -> State:
    """That of a sketch and an input, by searches among the edges."""
    low, high = oracle.finite_range(x, dim)
    return (
        sketch.hist + oracle.histogram(x, sketch.edges, dim, flow=True),
        torch.minimum(sketch.min_key, _key(low)),
        torch.maximum(sketch.max_key, _key(high)),
    )


def assert_adds(
    x: Tensor,
    dim: Sequence[int] | None = None,
    bits: int = 7,
    exponents: tuple[int, int] = (-32, 32),
) -> None:
    """An operator that is called, not one that fails and leaves its work to another way."""
    dims = None if dim is None else list(dim)
    for make in (random_sketch, QuantileSketch):
        sketch = make(kept_sizes(x, dim), bits, exponents)
        expected = expected_state(sketch, x, dim)
        for device in DEVICES:
            state = [buffer.to(device, copy=True) for buffer in state_of(sketch)]
            sketch_add(*state, like(x, device), bits, *exponents, dims)
            for name, own, wanted in zip(
                ("hist", "min_key", "max_key"), state, expected, strict=True
            ):
                about = name, device, x.dtype, list(x.shape), dim, bits, exponents
                assert torch.equal(own.cpu(), wanted), about


def special_values(dtype: torch.dtype, bits: int, exponents: tuple[int, int]) -> Tensor:
    """Values on edges and beside them, every one of small types, and what has a bin of its own."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True])
    if dtype.itemsize <= 2:
        numbers = torch.arange(1 << 8 * dtype.itemsize)
        return numbers.to((torch.uint8, torch.uint16)[dtype.itemsize - 1]).view(dtype)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        powers = [2**e + step for e in range(info.bits) for step in (-2, -1, 0, 1, 2, 2**e // 3)]
        near = [sign * power for power in powers for sign in (1, -1)]
        near += [info.min, info.min + 1, info.max - 1, info.max]
        wanted = [value for value in near if info.min <= value <= info.max]
        if dtype in (torch.uint32, torch.uint64):
            signed = torch.int64 if dtype == torch.uint64 else torch.int32
            half = torch.iinfo(signed).max
            return torch.tensor(
                [v - 2 * (half + 1) * (v > half) for v in wanted], dtype=signed
            ).view(dtype)
        return torch.tensor(wanted, dtype=dtype)
    edges = QuantileSketch(bits=bits, exponents=exponents).edges[:: max(1, 1 << bits >> 3)]
    infinite = torch.tensor(inf, dtype=dtype)
    there = edges.to(dtype)
    near = [there, there.nextafter(infinite), there.nextafter(-infinite)]
    limits = torch.finfo(dtype)
    bits_of = torch.int32 if dtype == torch.float32 else torch.int64
    subnormal = torch.tensor([1, 2, 3, 5, 1000], dtype=bits_of).view(dtype)
    others = [0.0, -0.0, inf, -inf, nan, limits.max, limits.min, limits.tiny, -limits.tiny]
    return torch.cat((*near, subnormal, -subnormal, torch.tensor(others, dtype=dtype)))


def numbers(dtype: torch.dtype, *sizes: int) -> Tensor:
    """Of some 30 powers of two, both signs if there are, and NaN at times."""
    generator = torch.Generator().manual_seed(sum(sizes))
    wide = torch.randn(sizes, generator=generator, dtype=torch.float64) * torch.exp2(
        torch.randint(-15, 15, sizes, generator=generator).double()
    )
    if not dtype.is_floating_point:
        return (wide * 100).clamp(-100, 100).abs().to(dtype)
    return wide.where(torch.rand(sizes, generator=generator) < 0.97, nan).to(dtype)
