"""The kernels that select values by rank, on no GPU (see test_emulated.py)."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol

import numpy as np
import pytest
import torch
from emulator.programs import (
    ELEMENT_TYPES,
    FEW_SMS,
    H200,
    TWO_SMS,
    Programs,
    bytes_of,
    described,
    limits_of,
    run_emulated,
)
from oracle import FLOATS, NUMBERS
from torch import Tensor

from torch_histo.devices import Device

pytestmark = pytest.mark.sampled(4)

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
OLDER = next(gpu for gpu in FEW_SMS if gpu.capability == (8, 0) and gpu.sm_count == 5)
HOPPER = next(gpu for gpu in FEW_SMS if gpu.capability == (9, 0))
NINE = tuple(i / 10 for i in range(1, 10))


def as_reals(values: Tensor) -> np.ndarray:
    """NumPy arrays in which the order of the values is kept."""
    if values.dtype.is_floating_point:
        return values.double().numpy()
    if values.dtype == torch.bool:
        return values.view(torch.uint8).numpy() != 0
    return values.numpy()


def selected(
    rows: np.ndarray, q: float, interpolation: str, ignore_nan: bool, double: bool
) -> tuple[object, object, float]:
    """Below, above and the weight of one channel; NaN if there is no quantile."""
    real = np.float64 if double else np.float32
    is_nan = np.isnan(rows) if rows.dtype.kind == "f" else np.zeros(len(rows), dtype=bool)
    values = np.sort(rows[~is_nan])
    if not 0 <= q <= 1 or len(values) < (1 if ignore_nan else len(rows)):
        return math.nan, math.nan, math.nan
    rank = real(q) * real(len(values) - 1)
    low, high = math.floor(rank), math.ceil(rank)
    if interpolation in ("lower", "higher", "nearest"):
        at = {"lower": low, "higher": high, "nearest": int(np.rint(rank))}[interpolation]
        return values[at], values[at], 0.0
    return values[low], values[high], 0.5 if interpolation == "midpoint" else float(rank - low)


class Select(Protocol):
    def __call__(
        self,
        values: Tensor,
        q: Sequence[float] = ...,
        *,
        dim: tuple[int, ...] = ...,
        interpolation: str = ...,
        ignore_nan: bool = ...,
        offset: int = ...,
        gpu: Device = ...,
        eager: bool = ...,
    ) -> set[str]: ...


@pytest.fixture(scope="session")
def select(programs: Programs) -> Select:
    """Selects from `values`, which begin `offset` elements behind an aligned address.

    Compares both values and the weight with those of sorted rows. Returns words about the plan.
    """

    def run(
        values: Tensor,
        q: Sequence[float] = (0.3,),
        *,
        dim: tuple[int, ...] = (0,),
        interpolation: str = "linear",
        ignore_nan: bool = False,
        offset: int = 0,
        gpu: Device = TWO_SMS,
        eager: bool = False,
    ) -> set[str]:
        double = values.dtype == torch.float64 or not values.dtype.is_floating_point
        some = torch.tensor(q, dtype=torch.float64 if double else torch.float32).double()
        problem, data = described(values, 0, dim, offset * values.dtype.itemsize)
        header = [*problem, 0, some.nbytes, len(q), int(double)]
        header += [INTERPOLATIONS.index(interpolation), int(ignore_nan), *limits_of(gpu)]
        about = f"{list(values.shape)} {values.dtype} over {dim} at {list(q)[:9]} on {gpu.name}"
        words, raw = run_emulated(
            programs.eager if eager else programs.emulator,
            "quantile",
            header,
            data + bytes_of(some),
            about,
        )
        kept = [d for d in range(values.ndim) if d not in dim]
        channels = as_reals(values.permute(*kept, *dim)).reshape(
            math.prod(values.shape[d] for d in kept), -1
        )
        shape = (len(q), len(channels))
        size = math.prod(shape) * values.dtype.itemsize
        found = [
            as_reals(torch.frombuffer(raw[i * size : (i + 1) * size], dtype=values.dtype))
            for i in (0, 1)
        ]
        real = torch.float64 if double else torch.float32
        found.append(torch.frombuffer(raw[2 * size :], dtype=real).double().numpy())
        expected = [
            selected(channel, each, interpolation, ignore_nan, double)
            for each in some.tolist()
            for channel in channels
        ]
        for i, (name, array) in enumerate(zip(("below", "above", "weight"), found, strict=True)):
            wanted = [row[i] for row in expected]
            for at, (one, other) in enumerate(zip(array.tolist(), wanted, strict=True)):
                is_any = other != other and name != "weight" and array.dtype.kind != "f"
                same = one == other or (one != one and other != other) or is_any
                where = divmod(at, shape[1])
                assert same, f"{about}: {name} {one}, not {other} at {where}: {words}"
        return words

    return run


def numbers(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Any bits, but for NaN; in half of the places numbers that begin alike."""
    generator = torch.Generator().manual_seed(seed)
    size = math.prod(shape)
    raw = torch.randint(0, 256, (size * dtype.itemsize,), generator=generator, dtype=torch.uint8)
    near = torch.randint(1, 9, (size,), generator=generator)
    alike = near.to(BITS[dtype.itemsize]).view(dtype)
    if dtype.is_floating_point and dtype.itemsize > 1:
        alike = (near / 64 + 1).to(dtype)
    values = raw.view(BITS[dtype.itemsize]).view(dtype)
    pick = torch.randint(0, 2, (size,), generator=generator).bool()
    if dtype.is_floating_point:
        pick |= values.double().isnan()
    if dtype == torch.bool:
        return (raw > 127).view(shape)
    of_bits = BITS[dtype.itemsize]
    return torch.where(pick, alike.view(of_bits), values.view(of_bits)).view(dtype).view(shape)


class Case(NamedTuple):
    words: str
    """Words that the plan must have (tests/emulator/program.cpp)."""
    shape: tuple[int, ...]
    dim: tuple[int, ...] = (0,)
    dtype: torch.dtype = torch.float32
    q: tuple[float, ...] = (0.0, 0.45, 1.0)
    gpu: Device = TWO_SMS
    cut: tuple[slice, ...] = ()
    """The part that is selected from."""
    offset: int = 0


CASES = {
    "sort rows": Case("sort", (40, 100), (1,), torch.bfloat16, offset=1),
    "sort tiny": Case("sort", (300, 2), (1,), q=NINE),
    "sort one": Case("sort", (1, 40)),
    "sort of many q": Case("sort", (2, 1024), (1,), q=NINE),
    "staged": Case("staged q3 reads1", (3, 16_001), (1,), offset=1, gpu=HOPPER),
    "staged with groups": Case("staged q4", (2, 9000), (1,), q=NINE[:8], offset=3),
    "staged tiny": Case("staged q3 reads1", (2, 257), (1,), offset=1),
    "staged, not in vec16s": Case("staged", (5, 263), (1,), torch.float16, offset=1),
    "staged by warps": Case("staged q2 warps reads1", (90, 521), (1,), q=NINE[:2]),
    "staged by warps, many q": Case("staged q4 warps", (90, 513), (1,), torch.bfloat16, q=NINE[:8]),
    "staged images": Case("staged warps", (5, 51, 7, 9), (0, 2, 3), gpu=HOPPER),
    "staged doubles": Case("staged", (7, 3, 301), (0, 2), torch.float64, q=NINE[:4], offset=1),
    "staged bytes": Case("staged reads1", (3, 5001), (1,), torch.int8, offset=3),
    "staged most": Case("staged reads1", (2, 32_768), (1,), torch.float16, gpu=HOPPER),
    "whole": Case("whole q3", (3, 16_001), (1,), torch.float64, offset=1, gpu=HOPPER),
    "whole with groups": Case("whole", (2, 9000), (1,), q=NINE, offset=3),
    "spans": Case("spans cluster1 keeps reads1", (3, 5000), (1,), q=NINE, offset=1, gpu=HOPPER),
    "spans with groups": Case("spans q7 keeps reads1", (2, 3000), (1,), q=NINE, offset=3),
    "spans in a cluster": Case("spans cluster4 keeps reads1", (49, 2, 400), (0, 2), gpu=HOPPER),
    "spans of halves": Case("spans keeps", (3, 8000), (1,), torch.float16, q=NINE, gpu=HOPPER),
    "spans in vec16s": Case("spans keeps reads1", (40, 3, 128), (0, 2), q=NINE, gpu=HOPPER),
    "spans of odd elements": Case(
        "spans reads1", (33, 2, 49), (0, 2), torch.bfloat16, q=NINE, gpu=HOPPER, offset=1
    ),
    "spans of two loops": Case("spans", (7, 2, 5, 3, 64), (0, 2, 4), q=NINE, gpu=HOPPER),
    "spans that are read": Case(
        "spans cluster8 reads6", (40, 3, 3136), (0, 2), torch.float64, gpu=HOPPER
    ),
    "whole of doubles": Case("whole", (2, 9001), (1,), torch.float64, gpu=HOPPER),
    "spans of int16": Case("spans", (2, 3001), (1,), torch.int16, q=NINE),
    "spans of loops": Case("spans", (9, 3, 40, 2, 8), (0, 2, 4), torch.int32, q=NINE),
    "streams": Case("streams q3 chunks", (20_001,), gpu=HOPPER, offset=1),
    "streams with groups": Case("streams q3 chunks", (20_001,), q=NINE),
    "channels": Case("streams chunks", (2, 17_000), (1,), q=NINE, gpu=HOPPER),
    "streams of doubles": Case("streams", (17_000,), dtype=torch.float64, gpu=HOPPER),
    "streams of halves": Case("streams", (17_000,), dtype=torch.float16, q=NINE),
    "gathered": Case("gathered words1 channels365", (8, 65, 365), (0, 1), gpu=HOPPER, offset=1),
    "gathered, many q": Case("gathered words1", (520, 33), q=2 * NINE, gpu=HOPPER),
    "gathered long": Case("gathered channels3", (20_000, 3), gpu=HOPPER),
    "gathered pairs": Case("gathered words2", (1031, 70), dtype=torch.bfloat16, q=NINE, gpu=HOPPER),
    "gathered halves": Case(
        "gathered words1", (257, 35), dtype=torch.float16, gpu=HOPPER, offset=1
    ),
    "gathered doubles": Case("gathered words1", (2, 520, 40), (1,), torch.float64, gpu=HOPPER),
    "gathered integers": Case("gathered", (3, 520, 2, 9), (1,), torch.int64, q=NINE, gpu=HOPPER),
    "gathered bytes": Case("gathered words4", (300, 72), dtype=torch.int8, q=NINE, gpu=HOPPER),
    "gathered two bytes": Case("gathered words2", (300, 70), dtype=torch.uint8, gpu=OLDER),
    "gathered odd bytes": Case(
        "gathered words1", (500, 5), dtype=torch.uint8, gpu=HOPPER, offset=3
    ),
    "gathered, every other": Case(
        "gathered words1", (520, 60), (0,), cut=(slice(None), slice(0, None, 2))
    ),
    "gathered rows, every other": Case(
        "gathered", (2, 6000), (1,), cut=(slice(None), slice(0, None, 2))
    ),
    "gathered channel": Case("gathered words1", (34_000,), cut=(slice(0, None, 2),)),
    "gathered loops": Case("gathered", (13, 3, 41, 2, 8), (0, 2), torch.int32, q=NINE),
}

# In the program whose plans gather bytes alone.
EAGER_CASES = {
    "sort": Case("sort", (1000, 3)),
    "sort full": Case("sort", (1024, 2), dtype=torch.float64),
    "gathered parts": Case("gathered words4 channels128", (260, 400), dtype=torch.uint8),
    "gathered parts of batches": Case("gathered words2", (3, 257, 130), (1,), dtype=torch.int8),
    "spans, every other": Case("spans", (2, 6000), (1,), cut=(slice(None), slice(0, None, 2))),
    "streams with gaps": Case("streams", (34_000,), cut=(slice(0, None, 2),)),
    "stripes": Case("stripes slots6 cluster4", (2000, 32), gpu=HOPPER),
    "stripes of batches": Case("stripes", (2, 1100, 50), (1,), gpu=HOPPER, offset=2),
    "stripes of 2 bytes": Case(
        "stripes slots5 cluster4", (1031, 50), dtype=torch.bfloat16, q=NINE, gpu=HOPPER
    ),
    "stripes of 8 bytes": Case("stripes", (1025, 26), dtype=torch.float64, q=NINE[:5], gpu=HOPPER),
    "stripes of many q": Case("stripes slots6", (1100, 30), q=2 * NINE, gpu=HOPPER),
    "stripes without clusters": Case("stripes slots4 cluster1", (1100, 128), gpu=OLDER),
    "many stripes": Case("stripes slots2 threads512", (1100, 192), q=(0.3,), gpu=HOPPER),
    "stripes of int16": Case("stripes", (1031, 60), dtype=torch.int16, q=NINE, gpu=HOPPER),
    "stripes of uint16": Case("stripes", (1031, 60), dtype=torch.uint16, gpu=HOPPER),
    "stripes of 2 bytes without clusters": Case(
        "stripes cluster1", (1100, 128), dtype=torch.bfloat16, gpu=OLDER
    ),
    "stripes of 2 bytes in loops": Case(
        "stripes", (3, 2, 190, 64), (0, 2), dtype=torch.float16, q=NINE, gpu=HOPPER
    ),
    "columns": Case("columns q1 chunks", (6000, 16), dtype=torch.int16, gpu=HOPPER),
    "columns with groups": Case("columns q3", (1030, 5), q=NINE[:5], gpu=HOPPER),
    "few columns": Case("columns", (1900, 3), gpu=HOPPER),
    "batches": Case("columns", (2, 1100, 17), (1,), gpu=HOPPER, offset=1),
    "columns of 2 bytes": Case("columns q1", (1500, 70), dtype=torch.bfloat16, gpu=HOPPER),
    "columns of 8 bytes": Case("columns", (1100, 40), dtype=torch.int64, gpu=HOPPER),
    "loose columns": Case(
        "columns", (1500, 73), dtype=torch.float16, cut=(slice(None), slice(1, 70)), gpu=HOPPER
    ),
    "columns in loops": Case("columns", (3, 2, 500, 35), (0, 2), gpu=HOPPER, offset=1),
    "columns of pairs in loops": Case(
        "columns", (3, 2, 500, 35), (0, 2), torch.bfloat16, q=NINE, gpu=HOPPER, offset=1
    ),
    "columns of doubles in loops": Case(
        "columns", (3, 2, 500, 17), (0, 2), torch.float64, q=NINE, gpu=HOPPER
    ),
    "copied": Case("", (1100, 33), cut=(slice(None), slice(0, None, 2)), q=NINE, gpu=HOPPER),
    "copied halves": Case(
        "", (5, 1100, 33), (1,), torch.float16, cut=(..., slice(1, None, 3)), gpu=HOPPER
    ),
    "bytes": Case("patterns", (3001,), dtype=torch.uint8, q=NINE),
    "bytes of channels": Case("patterns", (1500, 5), dtype=torch.int8, gpu=HOPPER),
}


@pytest.mark.parametrize("name", [*CASES, *EAGER_CASES])
def test_cases(select: Select, name: str) -> None:
    eager = name in EAGER_CASES
    case = EAGER_CASES[name] if eager else CASES[name]
    values = numbers(case.shape, case.dtype)[case.cut]
    words = select(values, case.q, dim=case.dim, gpu=case.gpu, offset=case.offset, eager=eager)
    assert {*case.words.split()} <= words, words


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_types(select: Select, dtype: torch.dtype) -> None:
    for rows in (100, 1500):
        for interpolation in INTERPOLATIONS:
            values = numbers((rows, 3), dtype, rows)
            select(values, (0.0, 0.37, 1.0, math.nan, -1.0), interpolation=interpolation)
            select(values.t().contiguous(), (0.5,), dim=(1,), interpolation=interpolation)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("ignore_nan", [False, True])
def test_nan(select: Select, dtype: torch.dtype, ignore_nan: bool) -> None:
    """NaN of both signs; a channel of NaN alone."""
    for shape, dim in (((60, 4), 0), ((1500, 4), 0), ((4, 1500), 1), ((4, 17_000), 1)):
        values = numbers(shape, dtype).movedim(dim, 0)
        for channel, some in enumerate((slice(0, 0), slice(1), slice(3, None, 5), slice(None))):
            values[some, channel] = torch.tensor([math.nan]).to(dtype)
            values[1:2, 2] = (
                torch.tensor([math.nan]).to(dtype).view(BITS[dtype.itemsize]) * 0 - 1
            ).view(dtype)
        values[5:9, 2] = math.inf if dtype != torch.float8_e4m3fn else 448
        select(
            values.movedim(0, dim), (*NINE[:3], 1.0), dim=(dim,), ignore_nan=ignore_nan, gpu=HOPPER
        )


def test_equal_values(select: Select) -> None:
    for shape, dim in (((17_000,), 0), ((1030, 5), 0), ((2, 2000), 1), ((77,), 0)):
        for value in (-0.0, -math.inf):
            values = torch.full(shape, value)
            select(values, NINE[:3], dim=(dim,), gpu=HOPPER)
            values.view(-1)[::2] = 1
            select(values, NINE[:3], dim=(dim,), gpu=HOPPER)


def test_many_q(select: Select) -> None:
    q = [i / 40 for i in range(41)]
    for shape, dim in (((17_000,), 0), ((1, 2000), 1), ((77, 2), 0)):
        select(torch.linspace(-3, 8, math.prod(shape)).view(shape), q, dim=(dim,), gpu=HOPPER)


def test_halves_of_many_channels(select: Select) -> None:
    """The counters of all channels would take too much memory."""
    for shape, dim in (((1030, 70), 0), ((2, 1030, 40), 1)):
        values = numbers(shape, torch.int32)
        assert "halves" in select(values, (0.3, 0.6), dim=(dim,), gpu=HOPPER, eager=True)


# One q of long channels: a sample first


def sampled_rows(rows: int, size: int = 1 << 11) -> Tensor:
    """The rows that the sample takes. `size` is that of the eager program."""
    part = torch.arange(size)
    return part * (rows // size) + (part * 0x9E3779B9 % (1 << 32) * (rows // size) >> 32)


def of_values(kind: str, rows: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(rows)
    values = torch.randn(rows, generator=generator, dtype=torch.float64)
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        values *= limits.max / 9
        values += 0 if limits.min < 0 else limits.max / 2
    if kind == "sorted":
        values = values.sort().values
    elif kind == "constant":
        values[:] = values[0].clone()
    elif kind.endswith("values"):
        several = {"two values": 2, "few values": 9}[kind]
        values = values[torch.randint(0, several, (rows,), generator=generator)]
    elif kind == "half zeros":
        values[torch.rand(rows, generator=generator) < 0.5] = 0
    elif kind == "gap":
        values += values.sign() * values.std()
    elif kind == "misleading":
        values[sampled_rows(rows)] = values.min()
    elif kind == "misleading upwards":
        values[sampled_rows(rows)] = values.max()
    elif kind == "signed zeros":
        values[::2], values[1::2] = 0.0, -0.0
    return values.to(dtype)


KINDS = ("normal", "sorted", "constant", "two values", "few values", "half zeros", "gap")
KINDS += ("misleading", "misleading upwards", "signed zeros")


@pytest.mark.parametrize("dtype", [*FLOATS[3:6], torch.int16, torch.uint32], ids=str)
def test_sampled(select: Select, dtype: torch.dtype) -> None:
    """A good sample saves reads."""
    most = {2: 1, 4: 2, 8: 4}[dtype.itemsize]
    for i, kind in enumerate(KINDS):
        values = of_values(kind, 17_000 + i, dtype)
        for q in (0.5, 0.9, 0.25)[: 1 + i % 2]:
            words = select(values, (q,), gpu=HOPPER, eager=True)
            assert "sampled" in words
            few = words & {f"reads{reads}" for reads in range(1, most + 1)}
            assert few or "misleading" in kind, (kind, q, words)


@pytest.mark.parametrize("q", [0.0, 1.0, 1e-4, 0.5, math.nan, -1.0])
def test_sampled_q(select: Select, q: float) -> None:
    for gpu, dtype in ((HOPPER, torch.float32), (TWO_SMS, torch.float16), (HOPPER, torch.int32)):
        values = numbers((17_001,), dtype)
        for rule in INTERPOLATIONS[:: 4 if q != 0.5 else 1]:
            select(values, (q,), interpolation=rule, gpu=gpu, eager=True, offset=1)


@pytest.mark.parametrize("dtype", FLOATS[3:6], ids=str)
@pytest.mark.parametrize("ignore_nan", [False, True])
def test_sampled_nan(select: Select, dtype: torch.dtype, ignore_nan: bool) -> None:
    """NaN of both signs: none, few, most, all; beside infinities; only in the sample."""
    values = numbers((2, 3, 17_001), dtype)
    nan = torch.tensor([math.nan]).to(dtype)
    minus_nan = nan.view(BITS[dtype.itemsize]).mul(0).sub(1).view(dtype)
    values[0, 1, ::7], values[0, 1, 1::50] = nan, minus_nan
    values[0, 2, 3:], values[0, 2, 5::2] = nan, minus_nan
    values[1, 0] = nan
    values[1, 1, ::2], values[1, 1, 1::3] = math.inf, -math.inf
    values[1, 2, sampled_rows(17_001)] = nan
    for q, some in ((0.5, values[0]), (0.5, values[1]), (0.95, values[1])):
        words = select(some, (q,), dim=(1,), ignore_nan=ignore_nan, gpu=HOPPER, eager=True)
        assert "sampled" in words


def test_sampled_layouts(select: Select) -> None:
    values = numbers((2, 2, 17_000), torch.float32)
    for rows, dim in (
        (values, (2,)),
        (numbers((34_000,), torch.int16)[::2], (0,)),
        (values[:, :1, 1:], (0, 1, 2)),
    ):
        assert "sampled" in select(rows, (0.3,), dim=dim, gpu=HOPPER, eager=True)


# Long columns: lists of the values near a quantile


def as_columns(values: Tensor, shape: tuple[int, ...], dim: tuple[int, ...]) -> Tensor:
    """A channel of one dimension, and others like it, in this shape."""
    rows = math.prod(shape[d] for d in dim)
    channels = math.prod(shape) // rows
    some = torch.stack([values[:rows].roll(i) for i in range(channels)])
    kept = [d for d in range(len(shape)) if d not in dim]
    order = [*kept, *dim]
    back = [order.index(d) for d in range(len(shape))]
    return some.view([shape[d] for d in order]).permute(back).contiguous()


LISTED = {
    "columns": ((2100, 5), (0,)),
    "joined columns": ((2101, 11), (0,)),
    "columns of two loops": ((3, 2, 700, 3), (0, 2)),
    "batches of columns": ((2, 2100, 4), (1,)),
}


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_listed(select: Select, name: str, dtype: torch.dtype) -> None:
    """A good sample saves reads, and a bad one is not believed."""
    shape, dim = LISTED[name]
    rows = math.prod(shape[d] for d in dim)
    first = 5 * [*LISTED].index(name) + dtype.itemsize // 4
    for i, kind in enumerate([*KINDS, *KINDS][first % len(KINDS) :][:4]):
        values = as_columns(of_values(kind, rows, dtype), shape, dim)
        some = ((0.5,), (0.01, 0.25, 0.5, 0.75, 0.99), NINE)[i % 3]
        words = select(values, some, dim=dim, gpu=(HOPPER, OLDER)[i % 2], eager=True, offset=i % 2)
        assert "listed" in words


@pytest.mark.parametrize("q", [0.0, 1.0, 1e-4, math.nan, -1.0])
def test_listed_q(select: Select, q: float) -> None:
    for name, dtype in (("columns", torch.float32), ("joined columns", torch.int32)):
        shape, dim = LISTED[name]
        for rule in INTERPOLATIONS[::2]:
            words = select(
                numbers(shape, dtype), (q, 0.5), dim=dim, interpolation=rule, gpu=HOPPER, eager=True
            )
            assert "listed" in words


@pytest.mark.parametrize("misleads", ["downwards", "upwards", "nan"])
def test_listed_from_a_bad_sample(select: Select, misleads: str) -> None:
    """The channel is read again."""
    values = of_values("normal", 2 * 4096, torch.float32).view(4096, 2)
    wrong = {"downwards": -9, "upwards": 9, "nan": math.nan}[misleads]
    values[sampled_rows(4096, 128), 0] = wrong
    words = select(values, (0.5, 0.25), ignore_nan=True, gpu=HOPPER, eager=True)
    assert {"listed", "sample128"} <= words


@pytest.mark.parametrize("ignore_nan", [False, True])
def test_listed_nan(select: Select, ignore_nan: bool) -> None:
    """NaN of both signs: none, few, most, all; beside infinities."""
    for dtype in (torch.float32, torch.float64):
        values = numbers((2049, 40), dtype)
        nan = torch.tensor([math.nan]).to(dtype)
        minus_nan = nan.view(BITS[dtype.itemsize]).mul(0).sub(1).view(dtype)
        values[::7, 1], values[1::50, 1] = nan, minus_nan
        values[3:, 2], values[5::2, 2] = nan, minus_nan
        values[:, 3] = nan
        values[::2, 4], values[1::3, 4] = math.inf, -math.inf
        words = select(values, (0.5, 0.95), ignore_nan=ignore_nan, gpu=HOPPER, eager=True)
        assert "listed" in words


@pytest.mark.parametrize("ignore_nan", [False, True])
def test_nan_in_stripes(select: Select, ignore_nan: bool) -> None:
    """NaN of both signs: none, few, most, all; beside infinities."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        values = numbers((1031, 60), dtype)
        nan = torch.tensor([math.nan]).to(dtype)
        minus_nan = nan.view(BITS[dtype.itemsize]).mul(0).sub(1).view(dtype)
        values[::7, 1], values[1::50, 1] = nan, minus_nan
        values[3:, 2], values[5::2, 2] = nan, minus_nan
        values[:, 3], values[:, 4] = nan, minus_nan
        values[::2, 5], values[1::3, 5] = math.inf, -math.inf
        values[::2, 6], values[1::3, 6] = minus_nan, -math.inf
        words = select(values, (0.0, 0.5, 0.95, 1.0), ignore_nan=ignore_nan, gpu=HOPPER, eager=True)
        assert "stripes" in words


# Channels of images, which all blocks read


@pytest.mark.parametrize(
    ("shape", "dim", "dtype", "q"),
    [
        ((260, 2, 8, 8), (0, 2, 3), torch.float32, (0.5,)),
        ((420, 2, 7, 7), (0, 2, 3), torch.float32, NINE[:5]),
        ((26, 2, 5, 2, 128), (0, 2, 4), torch.int32, (0.3,)),
        ((340, 2, 7, 7), (0, 2, 3), torch.bfloat16, (0.5,)),
        ((140, 2, 64), (0, 2), torch.float64, (0.0, 1.0)),
    ],
    ids=str,
)
def test_streams_of_spans(
    select: Select,
    shape: tuple[int, ...],
    dim: tuple[int, ...],
    dtype: torch.dtype,
    q: tuple[float, ...],
) -> None:
    words = select(numbers(shape, dtype), q, dim=dim, gpu=HOPPER, eager=True, offset=len(q) % 2)
    assert {"streams", "spans"} <= words


# Plans of problems of any size, without data

RESERVED = 4096
"""Bytes of shared memory that kernels declare themselves."""


class Plan(NamedTuple):
    words: set[str]
    threads: int
    blocks: int
    shared_bytes: int
    slots: int
    group: int
    counter_bytes: int
    halves: int
    sorted: int
    stream_rows: int
    column_rows: int
    rows_of_columns: int
    sample: int
    room: int
    passes: int


def plan_of(
    programs: Programs,
    shape: tuple[int, ...],
    dim: tuple[int, ...] = (0,),
    dtype: torch.dtype = torch.float32,
    num_q: int = 1,
    gpu: Device = H200,
) -> Plan:
    values = torch.empty(shape, dtype=dtype, device="meta")
    sizes = [part for loop in zip(values.shape, values.stride(), strict=True) for part in loop]
    kept = [d for d in range(values.ndim) if d not in dim]
    header = [ELEMENT_TYPES.index(dtype), 0, values.ndim, *sizes, len(kept), *kept, num_q]
    done = subprocess.run(
        [programs.emulator, "plan_of_quantile"],
        input=" ".join(map(str, [*header, *limits_of(gpu)])),
        capture_output=True,
        text=True,
        check=True,
    )
    words, found = done.stdout.split("\n", 1)
    return Plan(set(words.split()), *map(int, found.split()))


def test_what_holds_for_every_plan(programs: Programs) -> None:
    rng = Random(0)
    layouts = set()
    for i in range(600):
        gpu = rng.choice((H200, *FEW_SMS))
        dtype = rng.choice(NUMBERS)
        shape = tuple(1 << rng.randint(0, 20) for _ in range(rng.randint(1, 2)))
        shape = tuple(max(1, size - rng.randint(0, 3)) for size in shape)
        dim = (rng.randrange(len(shape)),)
        num_q = rng.choice((1, 2, 9, 1000))
        plan = plan_of(programs, shape, dim, dtype, num_q, gpu)
        rows = shape[dim[0]]
        channels = math.prod(shape) // rows
        about = f"{i}: {shape} {dtype} over {dim}, {num_q} on {gpu.name}: {plan}"
        layouts |= plan.words & {
            "gathered",
            "sort",
            "staged",
            "patterns",
            "whole",
            "spans",
            "streams",
            "columns",
            "stripes",
        }
        if "gathered" in plan.words:  # the copy has a plan of its own
            continue
        assert 32 <= plan.threads <= 1024, about
        assert 1 <= plan.blocks < 1 << 31, about
        assert plan.shared_bytes + RESERVED * ("sort" not in plan.words) <= (
            gpu.shared_bytes_per_block
        ), about
        assert plan.halves == (channels > 1 and plan.counter_bytes > 64 << 20), about
        if plan.words & {"whole", "spans"}:  # counters are in shared memory
            assert plan.counter_bytes == 0, about
        if "sort" in plan.words:
            assert rows <= plan.sorted < max(2 * rows, 3), about
        elif "stripes" in plan.words:
            assert 1 <= plan.slots <= min(6, 2 * num_q), about
        elif "patterns" not in plan.words:
            assert plan.slots == 2 * plan.group, about
            assert 1 <= plan.group <= num_q, about
        if plan.words & {"streams", "columns"}:
            columns = "columns" in plan.words
            covered = plan.column_rows if columns else plan.stream_rows
            assert covered >= (plan.rows_of_columns if columns else rows), about
    assert layouts == {
        "gathered",
        "sort",
        "staged",
        "patterns",
        "whole",
        "spans",
        "streams",
        "columns",
        "stripes",
    }


def test_passes_of_sampled(programs: Programs) -> None:
    """As many as a bad sample and the worst data need."""
    for gpu in (H200, *FEW_SMS):
        for dtype, passes in ((torch.int16, 3), (torch.float32, 4), (torch.float64, 6)):
            plan = plan_of(programs, (1 << 28,), dtype=dtype, gpu=gpu)
            assert plan.sample << 8 <= plan.stream_rows
            assert plan.room < plan.shared_bytes // 4
            assert plan.counter_bytes >= 8 * plan.room
            assert plan.passes == passes if gpu == H200 else plan.passes <= passes + 1, plan


def test_layouts(programs: Programs) -> None:
    assert "sampled" in plan_of(programs, (1 << 28,)).words
    assert "q9" in plan_of(programs, (1 << 28,), num_q=9).words
    assert "sampled" in plan_of(programs, (1 << 29,), dtype=torch.bfloat16).words
    assert "sampled" in plan_of(programs, (16, 1 << 22), (1,)).words
    assert "streams" in plan_of(programs, (1 << 25,)).words
    assert "streams" in plan_of(programs, (1 << 28,), num_q=2).words
    assert "patterns" in plan_of(programs, (1 << 20, 4), dtype=torch.uint8).words
    assert "columns" in plan_of(programs, (1 << 16, 512), dtype=torch.bfloat16).words
    assert "listed" in plan_of(programs, (1 << 16, 512)).words
    assert {"listed", "q5"} <= plan_of(programs, (400_000, 64), num_q=5).words
    assert "columns" in plan_of(programs, (1 << 16, 512), num_q=5).words
    assert {"streams", "spans"} <= plan_of(programs, (128, 64, 56, 56), (0, 2, 3)).words
    assert "spans" not in plan_of(programs, (2, 32, 96, 96, 96), (0, 2, 3, 4)).words
    assert "gathered" in plan_of(programs, (64, 577, 64), (1,)).words
    assert "gathered" in plan_of(programs, (8, 65, 365), (0, 1)).words
    assert "gathered" in plan_of(programs, (1598, 923), dtype=torch.uint8).words
    assert "sort" in plan_of(programs, (8, 13, 365), (0, 1)).words
    assert "stripes" in plan_of(programs, (4, 32, 2048, 128), (0, 2), torch.bfloat16).words
    assert "sort" in plan_of(programs, (256, 1024, 14, 14), (2, 3)).words
    for num_q in (3, 5):
        several = plan_of(programs, (1 << 13, 4096), dtype=torch.bfloat16, num_q=num_q)
        assert {"stripes", "slots5", "cluster2"} <= several.words
    # A stripe has at most eight blocks. Fewer columns are counted by more of them.
    assert "stripes" in plan_of(programs, (60_000, 512), dtype=torch.bfloat16).words
    assert "columns" in plan_of(programs, (65_000, 128), dtype=torch.bfloat16).words
    assert "gathered" in plan_of(programs, (8192, 1024)).words
    assert "gathered" in plan_of(programs, (32, 128, 768), (0, 1)).words
    assert "whole" in plan_of(programs, (512, 1 << 16), (1,)).words
    assert "sort" in plan_of(programs, (4096, 100), (1,)).words
    assert {"staged", "warps"} <= plan_of(programs, (4096, 768), (1,)).words
    assert "warps" not in plan_of(programs, (4096, 11_008), (1,), torch.bfloat16).words
