"""The kernels of quantile sketches, on no GPU (see test_emulated.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from emulator.programs import (
    FEW_SMS,
    H200,
    ONE_SM,
    TWO_SMS,
    Programs,
    bytes_of,
    described,
    limits_of,
    run_emulated,
)
from oracle import FLOATS, NUMBERS
from sketches import (
    QS,
    SPANS,
    State,
    expected_state,
    kept_sizes,
    numbers,
    random_sketch,
    special_values,
    state_of,
)
from torch import Tensor

from torch_histo import QuantileSketch
from torch_histo.devices import Device
from torch_histo.streams._stream import Stream

pytestmark = pytest.mark.sampled(4)

HOPPER = next(gpu for gpu in FEW_SMS if gpu.capability == (9, 0))


def arrays_of(tensors: Sequence[Tensor]) -> tuple[list[int], bytes]:
    data = [bytes_of(tensor) for tensor in tensors]
    return [number for part in data for number in (0, len(part))], b"".join(data)


def split(results: bytearray, like: Sequence[Tensor]) -> list[Tensor]:
    parts = torch.frombuffer(results, dtype=torch.int64).split([part.numel() for part in like])
    return [part.view(state.shape) for part, state in zip(parts, like, strict=True)]


def assert_adds(
    programs: Programs,
    x: Tensor,
    dim: tuple[int, ...] | None = None,
    bits: int = 3,
    exponents: tuple[int, int] = (-32, 32),
    *,
    gpu: Device = TWO_SMS,
    offset: int = 0,
) -> set[str]:
    """Adds to a sketch that has counted. Returns words about the plan."""
    sketch = random_sketch(kept_sizes(x, dim), bits, exponents)
    expected: State = expected_state(sketch, x, dim)
    reduced = tuple(range(x.dim())) if dim is None else tuple(d % x.dim() for d in dim)
    problem, data = described(x, sketch.hist.shape[-1], reduced, offset * x.dtype.itemsize)
    arrays, state = arrays_of(state_of(sketch))
    about = f"{list(x.shape)} {x.dtype} over {dim}, {bits} bits, {exponents} on {gpu.name}"
    header = [*problem, bits, *exponents, *arrays, *limits_of(gpu)]
    words, results = run_emulated(programs.emulator, "sketch_add", header, data + state, about)
    for own, wanted in zip(split(results, expected), expected, strict=True):
        assert torch.equal(own, wanted), about
    return words


@pytest.mark.parametrize("exponents", SPANS, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_special_values(programs: Programs, dtype: torch.dtype, exponents: tuple[int, int]) -> None:
    bits = 0 if exponents[1] - exponents[0] > 300 else 3
    values = special_values(dtype, bits, exponents).repeat(2 if dtype == torch.bool else 1)
    values = values[torch.randperm(len(values), generator=torch.Generator().manual_seed(1))]
    assert_adds(programs, values[:3000], None, bits, exponents)
    assert "tiles" in assert_adds(programs, values[:60].view(2, -1), (1,), bits, exponents)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nothing_finite(programs: Programs, dtype: torch.dtype) -> None:
    values = [math.nan] if dtype == torch.float8_e4m3fn else [math.nan, math.inf, -math.inf]
    for size in (1, 2000):
        assert_adds(programs, torch.tensor(values).to(dtype).repeat(size))


CASES: dict[str, tuple[str, Tensor, tuple[int, ...] | None, int, int, Device]] = {
    "one channel": ("streams chunks", numbers(torch.float32, 5003), None, 3, 1, TWO_SMS),
    "channels": ("streams chunks", numbers(torch.bfloat16, 3, 3001), (1,), 3, 3, TWO_SMS),
    "chunks": ("streams chunks", numbers(torch.float32, 2, 9001), (1,), 3, 1, HOPPER),
    "images": ("streams", numbers(torch.float16, 3, 5, 1030), (0, 2), 2, 2, TWO_SMS),
    "doubles": ("streams chunks", numbers(torch.float64, 3, 5003), (1,), 4, 1, HOPPER),
    "int64": ("streams chunks", numbers(torch.int64, 3, 2003), (1,), 3, 1, HOPPER),
    "one row of every value": ("streams", numbers(torch.int16, 3, 2003), (1,), 0, 1, ONE_SM),
    "long rows": ("streams", numbers(torch.float32, 2, 90_001), (1,), 0, 1, TWO_SMS),
    "tables of columns": ("tiles", numbers(torch.float32, 3000, 11), (0,), 5, 1, HOPPER),
    "short rows": ("tiles", numbers(torch.float32, 50, 77), (1,), 3, 1, HOPPER),
    "rows of vec16s": ("tiles", numbers(torch.bfloat16, 6, 1024), (1,), 7, 0, HOPPER),
    "columns": ("tiles", numbers(torch.float32, 900, 37), (0,), 3, 1, TWO_SMS),
    "many columns": ("tiles", numbers(torch.bfloat16, 30, 700), (0,), 3, 1, HOPPER),
    "batches": ("tiles", numbers(torch.float32, 3, 300, 20), (1,), 3, 1, HOPPER),
    "every other": ("tiles", numbers(torch.float32, 9001)[::2], None, 3, 1, TWO_SMS),
    "three loops": (
        "tiles", numbers(torch.float32, 4, 3, 5, 2, 7)[..., :6], (0, 2, 4), 3, 1, TWO_SMS
    ),
    "more counts than a table": ("tiles", numbers(torch.float32, 3000), None, 12, 1, TWO_SMS),
    "bytes": ("bytes", numbers(torch.uint8, 4001), None, 3, 1, TWO_SMS),
    "bytes of channels": ("bytes", numbers(torch.int8, 5, 700), (1,), 3, 1, HOPPER),
    "bytes of columns": ("bytes", numbers(torch.float8_e4m3fn, 700, 9), (0,), 3, 1, HOPPER),
    "short bytes": ("tiles", numbers(torch.float8_e5m2, 70, 9), (0,), 3, 1, HOPPER),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_cases(programs: Programs, name: str) -> None:
    words, x, dim, bits, offset, gpu = CASES[name]
    found = assert_adds(programs, x, dim, bits, gpu=gpu, offset=offset)
    assert {*words.split()} == found


@pytest.mark.parametrize("value", [0.0, 1.5, -3e-30, math.inf])
def test_one_value(programs: Programs, value: float) -> None:
    x = torch.full((3, 5000), value)
    x[0, 7] = 2.0
    for dim in (0,), (1,), None:
        assert_adds(programs, x, dim, gpu=HOPPER)


@pytest.mark.parametrize("gpu", FEW_SMS, ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_gpus(programs: Programs, dtype: torch.dtype, gpu: Device) -> None:
    for sizes, dim in (((700, 5), (0,)), ((5, 2700), (1,)), ((3, 4, 130), (0, 2))):
        assert_adds(programs, numbers(dtype, *sizes), dim, 2, gpu=gpu)


# Quantiles


def assert_quantiles(
    programs: Programs, sketch: QuantileSketch, q: Sequence[float], place: float = 0.5
) -> None:
    sketch._place = place
    fractions = torch.tensor(q, dtype=torch.float64)
    expected = Stream.quantile(sketch, fractions)
    arrays, data = arrays_of((fractions, *state_of(sketch)))
    channels = sketch.min_key.numel()
    header = [channels, sketch.bits, *sketch.exponents, int(64 * place), len(q)]
    header += [*arrays, *limits_of(H200)]
    _, results = run_emulated(programs.emulator, "sketch_quantile", header, data, str(sketch))
    found = torch.frombuffer(results, dtype=torch.float64).view(expected.shape)
    is_nan = expected.isnan()
    assert torch.equal(found.isnan(), is_nan)
    assert torch.equal(found[~is_nan].view(torch.int64), expected[~is_nan].view(torch.int64))


@pytest.mark.parametrize("exponents", SPANS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64], ids=str)
def test_quantiles_of_special_values(
    programs: Programs, dtype: torch.dtype, exponents: tuple[int, int]
) -> None:
    sketch = QuantileSketch(bits=3, exponents=exponents)
    sketch.update(special_values(dtype, 3, exponents))
    for place in (0.5, 0.0):
        assert_quantiles(programs, sketch, QS, place)


@pytest.mark.parametrize("bits", [0, 3, 7, 10])
@pytest.mark.parametrize("number", [1, 31, 40])
def test_quantiles_of_channels(programs: Programs, bits: int, number: int) -> None:
    sketch = QuantileSketch(4, bits=bits)
    x = numbers(torch.float32, 4, 300)
    x[1] = math.nan  # a channel without values
    x[2, ::2] = math.inf
    x[3] = -math.inf
    sketch.update(x, -1)
    assert_quantiles(
        programs, sketch, [*torch.linspace(0, 1, number).tolist(), -0.1, 1.5, math.nan]
    )


@pytest.mark.parametrize("scale", [1, 2**40, 2**48], ids=str)
def test_quantiles_of_huge_counts(programs: Programs, scale: int) -> None:
    sketch = random_sketch((4,), 1, (-2, 2))
    sketch.hist.mul_(scale)
    assert_quantiles(programs, sketch, torch.linspace(0, 1, 301, dtype=torch.float64).tolist())
