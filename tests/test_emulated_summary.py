"""The kernels of summaries, on no GPU (see test_emulated.py): the same bits as on the CPU."""

from __future__ import annotations

import math

import pytest
import torch
from emulator.programs import (
    FEW_SMS,
    TWO_SMS,
    Programs,
    described,
    limits_of,
    run_emulated,
)
from oracle import FLOATS, NUMBERS
from torch import Tensor

from torch_histo.devices import Device

HOPPER = next(gpu for gpu in FEW_SMS if gpu.capability == (9, 0))
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
SHORT = (torch.float16, torch.bfloat16)


def assert_summarizes(
    programs: Programs,
    x: Tensor,
    dim: tuple[int, ...] = (0,),
    *,
    gpu: Device = TWO_SMS,
    offset: int = 0,
    eager: bool = False,
) -> set[str]:
    """Compares with the operator on the CPU, which is tested with fractions. Returns words about
    the plan."""
    header, data = described(x, 0, dim, offset * x.dtype.itemsize)
    about = f"{list(x.shape)} {x.dtype} over {dim} on {gpu.name}"
    program = programs.eager if eager else programs.emulator
    words, raw = run_emulated(program, "summary", [*header, *limits_of(gpu)], data, about)
    wanted = torch.ops.histo._summary(x, list(dim), True)
    at = 0
    for name, part in zip(("counts", "numbers", "digits"), wanted, strict=True):
        size = part.numel() * 8
        found = torch.frombuffer(raw[at : at + size], dtype=torch.int64).view(part.shape)
        at += size
        bits = part.contiguous().view(torch.int64)
        nan = part.isnan() & found.view(part.dtype).isnan()
        assert torch.equal(found[~nan], bits[~nan]), f"{about}: {name}: {words}"
        assert torch.equal(nan, part.isnan()), f"{about}: NaN: {words}"
    assert at == len(raw)
    return words


def numbers(kind: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape))
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "any bits":
        raw = torch.randint(0, 256, (*shape, dtype.itemsize), generator=generator)
        return raw.to(torch.uint8).view(BITS[dtype.itemsize]).view(dtype).view(shape)
    if not dtype.is_floating_point:
        return (values * 100).long().to(dtype)
    limits = torch.finfo(dtype)
    if kind == "wide":
        values = (5 * values).exp() * values.sign()
    elif kind == "subnormal":
        values *= limits.tiny
    elif kind == "large":
        values = (values * limits.max / 4).clamp(-limits.max, limits.max)
    elif kind == "growing":
        values *= torch.linspace(-8, 8, math.prod(shape), dtype=torch.float64).exp2().view(shape)
    elif kind == "powers of two":
        values = values.sign() * (3 * values).round().exp2()
    elif kind == "signed zeros":
        values = torch.where(values < 0, -0.0, values)
    elif kind == "special":
        for i, special in enumerate((math.nan, math.inf, -math.inf, 0.0, -0.0)):
            values.view(-1)[i::37] = special
    return values.to(dtype)


KINDS = ("normal", "any bits", "wide", "subnormal", "large", "growing", "powers of two")
KINDS += ("signed zeros", "special")


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types(programs: Programs, dtype: torch.dtype) -> None:
    for kind in KINDS if dtype.is_floating_point else KINDS[:2]:
        if dtype == torch.bool and kind == "any bits":
            continue
        assert_summarizes(programs, numbers(kind, (2, 2011), dtype), (1,), offset=1)
        assert_summarizes(programs, numbers(kind, (70, 40), dtype), gpu=HOPPER)


@pytest.mark.parametrize("dtype", [*SHORT, torch.float32], ids=str)
def test_layouts(programs: Programs, dtype: torch.dtype) -> None:
    for words, shape, dim in (
        ("runs warps", (5, 3, 100), (0, 2)),
        ("runs", (9, 2, 1001), (0, 2)),
        ("runs chunks", (40, 1, 2, 1003), (0, 3)),
        ("streams warps", (50, 3, 7), (0, 2)),
        ("streams", (3, 5001), (1,)),
        ("streams chunks", (40_001,), (0,)),
        ("columns", (300, 64), (0,)),
        ("columns", (3, 300, 64), (0, 1)),
        ("columns", (3, 2, 90, 64), (0, 2)),
        ("columns", (3, 2, 90, 35), (0, 2)),
        ("streams warps", (7, 1), (1,)),
    ):
        for kind in ("normal", "special"):
            found = assert_summarizes(programs, numbers(kind, shape, dtype), dim, gpu=HOPPER)
            assert {*words.split()} <= found, (shape, found)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_few_columns(programs: Programs, dtype: torch.dtype) -> None:
    """A block has several columns of each channel."""
    for channels in (2, 3, 5, 17, 33):
        x = numbers("normal" if dtype == torch.bool else "any bits", (1201, channels), dtype)
        assert "columns" in assert_summarizes(programs, x, gpu=HOPPER)
        assert_summarizes(programs, x.view(-1, 1201, channels), (0, 1), offset=1)
        assert_summarizes(programs, x[:, ::2], gpu=HOPPER, eager=True)


@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_many_additions(programs: Programs, dtype: torch.dtype) -> None:
    """Threads add many large values of one exponent."""
    rows = 32 * (1 << 13) + 4099
    for value in (1.9921875, -0.99609375):
        assert_summarizes(programs, torch.full((rows,), value).to(dtype), gpu=ONE_BLOCK)


ONE_BLOCK = next(gpu for gpu in FEW_SMS if gpu.sm_count == 1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_small_values_beside_others(programs: Programs, dtype: torch.dtype) -> None:
    """One value of a vec16 has bits far below, or above, those of the others."""
    x = numbers("powers of two", (3, 1000), dtype)
    limits = torch.finfo(dtype)
    x[0, ::29] = limits.tiny
    x[1, ::31] = 1 + limits.eps
    x[2, ::17] = limits.max
    assert_summarizes(programs, x, (1,))
    assert_summarizes(programs, x.t().contiguous())
