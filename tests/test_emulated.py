"""The CUDA kernels on no GPU at all: compiled for the host, where every access is checked."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import signal
import subprocess
from random import Random
from typing import NamedTuple, Protocol

import pytest
import torch
from emulator.programs import (
    FEW_SMS,
    H200,
    NO_CLUSTERS,
    ONE_SM,
    T4,
    TWO_SMS,
    NeedsCopyError,
    Programs,
    described,
    limits_of,
    run_emulated,
)
from layouts import LONG, laid_out
from oracle import (
    DTYPES,
    STUDY_VARIANTS,
    assert_counts,
    expected_counts,
    expected_letters,
)
from torch import Tensor

from torch_histo.devices import Device

pytestmark = pytest.mark.sampled(3)


class Emulate(Protocol):
    def __call__(
        self,
        values: Tensor,
        num_bins: int = ...,
        *,
        dim: tuple[int, ...] = ...,
        offset: int = ...,
        gpu: Device = ...,
        variant: str = ...,
        eager: bool = ...,
    ) -> set[str]: ...


@pytest.fixture(scope="session")
def emulate(programs: Programs) -> Emulate:
    """Counts `values`, which begin `offset` bytes behind an aligned address.

    Compares the counts with the oracle's. Returns the words of the plan's path
    (tests/emulator/invariants.cpp).

    The variant "letters" is the text histogram.
    """

    def run(
        values: Tensor,
        num_bins: int = 256,
        *,
        dim: tuple[int, ...] = (1,),
        offset: int = 0,
        gpu: Device = NO_CLUSTERS,
        variant: str = "auto",
        eager: bool = False,
    ) -> set[str]:
        letters = variant.endswith("letters")
        number = ("auto", *STUDY_VARIANTS).index(variant.removesuffix("letters") or "auto")
        problem, data = described(values, num_bins, dim, offset)
        about = f"{list(values.shape)} {values.dtype} in {num_bins} over {dim} on {gpu.name}"
        program = programs.eager if eager else programs.emulator
        header = [number, int(letters), *problem, *limits_of(gpu)]
        words, counts = run_emulated(program, "channel_histogram", header, data, about)
        kept = [d for d in range(values.ndim) if d not in dim]
        shape = [values.shape[d] for d in kept] + [num_bins]
        result = torch.frombuffer(counts, dtype=torch.int64).view(shape)
        expected = (
            expected_letters(values.numpy().tobytes())
            if letters
            else expected_counts(values, num_bins, dim)
        )
        assert_counts(result, expected, about)
        return words

    return run


def random_values(*shape: int, dtype: torch.dtype = torch.uint8, below: int = 256) -> Tensor:
    values = torch.randint(0, below, shape, generator=torch.Generator().manual_seed(sum(shape)))
    return values.to(torch.uint8).view(dtype) if dtype == torch.int8 else values.to(dtype)


def wider_rows(values: Tensor, gap: int) -> Tensor:
    """The same, each row so many bytes behind the end of the one before."""
    channels = values.shape[-1]
    return torch.nn.functional.pad(values, (0, gap), value=7)[..., :channels]


class Problem(NamedTuple):
    values: Tensor
    num_bins: int
    dim: tuple[int, ...]
    offset: int


def random_shape(rng: Random) -> tuple[list[int], list[int]]:
    """Sizes and dimensions to count over: those that engines have ways for, and any others."""
    few = rng.randint(1, rng.choice([4, 40]))
    width = rng.choice([rng.randint(5, 140), rng.randint(5, 1100), *rng.sample([64, 128, 511], 2)])
    kinds: list[tuple[list[int], list[list[int]]]] = [
        ([LONG, width], [[0]]),
        ([few, LONG, width], [[1], [0, 1]]),
        ([LONG], [[0]]),
        ([few, rng.randint(1, 6), LONG], [[2], [0, 2], [1, 2]]),
        ([few, LONG, rng.randint(2, 4)], [[1], [0, 1]]),
        ([LONG, rng.randint(8, 60), width], [[0, 1], [1]]),
        ([LONG, rng.randint(8, 60), rng.randint(8, 60), few], [[1, 2], [0, 1, 2], [2, 3]]),
        ([LONG, rng.randint(1, 6), rng.randint(8, 60), rng.randint(8, 60)], [[2, 3], [0, 2, 3]]),
        (rng.sample([LONG, few, rng.randint(1, 40)], 3), [rng.sample([0, 1, 2], 2)]),
    ]
    sizes, dims = rng.choice(kinds)
    return sizes, rng.choice(dims)


def random_problem(rng: Random) -> Problem:
    """Up to 2^19 bytes, of any distribution, with gaps between dimensions in any order."""
    dtype = rng.choice([torch.uint8, torch.uint8, *DTYPES])
    sizes, dim = random_shape(rng)
    elements = int(2 ** rng.uniform(14, 19)) // dtype.itemsize
    sizes, strides, extent = laid_out(rng, sizes, elements, (0, 0, 0, 1, 3, 16))
    # The result has room for no more.
    most = max((1 << 19) // math.prod(size for d, size in enumerate(sizes) if d not in dim), 1)
    num_bins = min(rng.choice([256, 256, 1, 2, 99, 257, 3000, 70_000, 1 << 18]), most)
    below = rng.choice([1, 3, 256, num_bins + 3, 1 << 15])
    generator = torch.Generator().manual_seed(rng.randint(0, 1 << 30))
    numbers = torch.randint(0, below, (extent,), generator=generator)
    if dtype.itemsize > 1 and rng.random() < 0.5:
        numbers -= below // 3
    # By NumPy, which knows all types; a bool of any byte is one, too.
    kind = "uint8" if dtype == torch.bool else str(dtype).removeprefix("torch.")
    base = torch.from_numpy(numbers.numpy().astype(kind))
    base = base.view(torch.bool) if dtype == torch.bool else base
    offset = dtype.itemsize * rng.choice([0, 0, 1, 3, 16])
    return Problem(base.as_strided(sizes, strides), num_bins, tuple(dim), offset)


def count_generated(emulate: Emulate, gpu: Device, seed: int, count: int) -> None:
    rng = Random(f"{gpu.name} {seed}")
    for _ in range(count):
        values, num_bins, dim, offset = random_problem(rng)
        with contextlib.suppress(NeedsCopyError):
            emulate(values, num_bins, dim=dim, offset=offset, gpu=gpu, eager=True)


on_few_sms = pytest.mark.parametrize("gpu", FEW_SMS, ids=lambda gpu: gpu.name)


@on_few_sms
def test_generated(emulate: Emulate, gpu: Device) -> None:
    count_generated(emulate, gpu, 0, 50)


@pytest.mark.long
@on_few_sms
@pytest.mark.parametrize("seed", range(1, 11))
def test_more_generated(emulate: Emulate, gpu: Device, seed: int) -> None:
    count_generated(emulate, gpu, seed, 200)


class Case(NamedTuple):
    path: str
    """Words of the plan's path (tests/emulator/invariants.cpp), all of which it must have."""
    shape: tuple[int, ...]
    gap: int = 0
    """Elements behind each row."""
    dtype: torch.dtype = torch.uint8
    num_bins: int = 256
    dim: tuple[int, ...] = (0,)
    offset: int = 0
    gpu: Device = TWO_SMS
    below: int = 256
    gap_of_run: int = 0
    """Rows behind each run."""

    def values(self) -> Tensor:
        *outer, width = self.shape
        padded = [*outer, width + self.gap]
        if self.gap_of_run:
            padded[-2] += self.gap_of_run
        values = random_values(*padded, dtype=self.dtype, below=self.below)
        return values[..., : outer[-1], :width] if self.gap_of_run else values[..., :width]


SIXTEEN = dataclasses.replace(TWO_SMS, name="16 SMs", sm_count=16)
WIDE = dataclasses.replace(NO_CLUSTERS, name="two wide SMs", sm_count=2)
"""With all the shared memory of an H200."""
MUCH = 1 << 17
INT16, INT32, INT64 = torch.int16, torch.int32, torch.int64

# The one place that says which way of counting a problem must reach.
PATHS = {
    "half lines": Case("rows 16-bytes halves reduces", (5000, 512), gpu=SIXTEEN),
    "half lines, few words": Case("rows halves reduces few-words", (30_001, 64), gpu=NO_CLUSTERS),
    "half lines, no reduction": Case("rows halves", (40, 1200, 64), dim=(1,), gpu=SIXTEEN),
    "lines": Case("rows 16-bytes reduces", (9000, 256), gap=16, gpu=SIXTEEN),
    "lines, many words": Case("rows reduces many-words", (4001, 512), gap=16, gpu=SIXTEEN),
    "lines, no reduction": Case("rows 16-bytes", (20, 200, 512), dim=(1,), gpu=SIXTEEN),
    "lines in few bins": Case("rows clears", (9000, 256), gap=16, dtype=torch.int8, gpu=SIXTEEN),
    "one channel": Case("planar", (2_000_001,), offset=5),
    "one channel of many": Case("planar", (2, 1_000_003), dim=(1,)),
    "two channels": Case("planar", (900_001, 2), offset=1),
    "three channels": Case("planar", (700_001, 3), offset=2),
    "four channels": Case("planar", (400_001, 4)),
    "every other": Case("planar gaps", (1_000_003, 1), gap=1),
    "planes": Case("planar several-segments-a-block", (5, 300_007), dim=(1,), gpu=WIDE),
    "images": Case("planar several-segments-a-block", (9, 150_001, 3), dim=(1,), gpu=WIDE),
    "short planes": Case("planar several-runs", (5, 3, 150_003), dim=(0, 2), gpu=WIDE),
    "full counters of two": Case("planar", (6 << 20, 2), below=1, gpu=ONE_SM),
    "full counters of three": Case("planar", (4 << 20, 3), below=1, gpu=ONE_SM),
    "full counters over runs": Case(
        "planar several-runs", (500, 10_495, 2), dim=(0, 1), below=1, gap_of_run=3, gpu=ONE_SM
    ),
    "bools in planes": Case("planar clears", (2, 3, 400_000), dtype=torch.bool, dim=(2,)),
    "columns of words": Case("interleaved words stream", (20_001, 100), gpu=SIXTEEN),
    "columns of 16 bytes": Case("interleaved 16-bytes", (40_001, 48), gpu=SIXTEEN),
    "columns that are summed": Case("interleaved sums-columns reduces", (40_001, 48), gpu=SIXTEEN),
    "loose words": Case(
        "interleaved loose-words reduces", (5001, 511), gap=514, offset=3, gpu=SIXTEEN
    ),
    "gaps": Case("interleaved gaps stream", (30_001, 60), gap=4, gpu=SIXTEEN),
    "spills": Case("interleaved words spills-or-adds", (MUCH + 70, 64), gap=4, below=2),
    "spills loose words": Case(
        "interleaved loose-words spills-or-adds", (MUCH + 70, 99), gap=101, below=2, offset=1
    ),
    "spills over runs": Case(
        "interleaved words several-runs spills-or-adds",
        (45, 2100, 64),
        gap=4,
        dim=(0, 1),
        below=1,
        gap_of_run=3,
        gpu=ONE_SM,
    ),
    "spills vec16s": Case(
        "interleaved 16-bytes spills-or-adds", (2 * MUCH, 128), below=2, gpu=WIDE
    ),
    "rows in runs": Case(
        "interleaved in-runs 16-bytes reduces",
        (1700, 24, 64),
        dim=(0, 1),
        gap_of_run=2,
        gpu=SIXTEEN,
    ),
    "rows in runs of words": Case(
        "interleaved in-runs words", (1700, 24, 100), dim=(0, 1), gap_of_run=2, gpu=SIXTEEN
    ),
    "rows in runs of loose words": Case(
        "interleaved in-runs loose-words", (400, 24, 333), dim=(0, 1), gap_of_run=2, gpu=SIXTEEN
    ),
    "rows in runs with gaps": Case(
        "interleaved in-runs gaps", (400, 24, 333), 1, dim=(0, 1), gap_of_run=2, gpu=SIXTEEN
    ),
    "int16": Case("interleaved 16-bytes stream", (1_000_001,), dtype=INT16, below=300),
    "int16 in all banks": Case(
        "interleaved words reduces", (20_000, 64), dtype=INT16, num_bins=100
    ),
    "int16 in many bins": Case(
        "interleaved words mixed-banks",
        (50_000, 64),
        dtype=INT16,
        num_bins=3000,
        below=3100,
        gpu=WIDE,
    ),
    "int16 of few channels in many bins": Case(
        "interleaved words reduces", (400_000, 3), dtype=INT16, num_bins=9000, below=9100, gpu=WIDE
    ),
    "int16 that spills": Case(
        "interleaved mixed-banks spills-or-adds", (2 * MUCH, 16), 1, INT16, 1000, below=1
    ),
    "int32": Case("interleaved 16-bytes mixed-banks", (500_001,), dtype=INT32, num_bins=5000),
    "int32 of channels": Case("interleaved words reduces", (20_000, 64), 0, INT32, 90, gpu=SIXTEEN),
    "int64": Case("interleaved 16-bytes stream", (400_001,), dtype=INT64),
    "int64 of channels": Case("interleaved words reduces", (10_000, 33), 0, INT64, 90, gpu=SIXTEEN),
    "two tables": Case("dealt", (900_001,), 0, INT32, 70_000, below=80_000, gpu=WIDE),
    "three tables": Case("dealt", (900_001,), 0, INT64, 150_001, below=1 << 18, gpu=NO_CLUSTERS),
    "clusters": Case("clustered 8-blocks words", (16_384, 64), gpu=H200),
    "clusters in few bins": Case("clustered 8-blocks", (16_384, 64), num_bins=99, gpu=H200),
    "clusters of loose words": Case("clustered loose-words", (4097, 511), gpu=H200),
    "clusters of bools": Case("clustered clears", (5003, 512), dtype=torch.bool, gpu=H200),
    "runs of one channel": Case("runs", (30, 201, 333), 8, dim=(1, 2), gap_of_run=4),
    "joined rows": Case("runs joins", (1900, 3, 19, 32), 8, dim=(0, 2, 3), gap_of_run=2),
    "runs of three channels": Case("runs", (4000, 211, 3), dim=(0, 1), gap_of_run=2),
    "runs of columns": Case(
        "runs columns-of-one-table", (800, 211, 16), 1, dim=(0, 1), gap_of_run=2
    ),
    "runs of int32": Case("runs", (1200, 211, 3), 0, INT32, 200, (0, 1), 8, gap_of_run=2),
    "small segments": Case("runs shared-blocks", (9600, 200, 1), dim=(1,)),
    "small": Case("generic", (1000, 3), dtype=INT64, num_bins=128),
    "small of channels": Case(
        "generic clustered", (30_000, 3), dtype=INT64, num_bins=128, gpu=H200
    ),
    "small in a cluster": Case("generic clustered 16-bytes", (90_000,), num_bins=128, gpu=H200),
    "small in chunks": Case("generic chunks clears", (90_000,), num_bins=128, gpu=T4),
    "three loops": Case("generic sets", (30, 7, 40, 33), 2, INT32, dim=(0, 2, 3), gap_of_run=2),
    "one bin of many": Case("atomics chunks", (90_000,), 0, INT32, 1 << 17, below=7),
    "many bins": Case("atomics chunks", (90_000,), 0, INT32, 1 << 17, below=1 << 18),
}


@pytest.mark.parametrize("name", PATHS)
def test_paths(emulate: Emulate, name: str) -> None:
    case = PATHS[name]
    path = emulate(case.values(), case.num_bins, dim=case.dim, offset=case.offset, gpu=case.gpu)
    assert set(case.path.split()) <= path, path


PARTITIONED = {
    "as many of all": (INT32, 1 << 17, 1 << 17),
    "beyond the bins": (torch.uint32, 120_000, 1 << 19),
    "few": (INT32, 120_000, 3),
    "one": (INT64, 120_000, 1),
    "some": (INT64, 120_000, 300),
    "int16": (INT16, 30_000, 32_000),
    "all of int16": (INT16, 40_000, 1 << 15),
}


@pytest.mark.parametrize("name", PARTITIONED)
@pytest.mark.parametrize("offset", [0, 1])
def test_blocks_that_wait_for_each_other(emulate: Emulate, name: str, offset: int) -> None:
    dtype, num_bins, below = PARTITIONED[name]
    values = random_values(530_003, dtype=dtype, below=below)
    # Small tables: bins are too many for one.
    gpu = dataclasses.replace(TWO_SMS, sm_count=8, shared_bytes_per_block=101 << 10)
    path = emulate(values, num_bins, dim=(0,), offset=offset * dtype.itemsize, gpu=gpu, eager=True)
    assert "partitioned" in path


@pytest.mark.parametrize("variant", STUDY_VARIANTS)
def test_study_variants(emulate: Emulate, variant: str) -> None:
    for shape, num_bins, offset in (
        ((1001, 67), 256, 0),
        ((1003, 64), 100, 0),
        ((300, 129), 256, 3),
        ((5001,), 256, 1),
        ((3,), 7, 0),
    ):
        values = random_values(*shape)
        emulate(values, num_bins, dim=(0,), offset=offset, gpu=TWO_SMS, variant=variant)
    text = random_values(4099, below=150)
    emulate(text, 7, dim=(0,), offset=1, gpu=TWO_SMS, variant=f"{variant}letters")


@pytest.mark.parametrize("length", [5003, 1_500_001])
def test_letters(emulate: Emulate, length: int) -> None:
    text = random_values(length, below=150)
    for offset in (0, 3):
        emulate(text, 7, dim=(0,), offset=offset, gpu=SIXTEEN, variant="letters")
    emulate(text[::2], 7, dim=(0,), gpu=SIXTEEN, variant="letters")


# With 512 channels, 16 blocks count rows of half a line, 32 at a time in each warp. If rows are
# whole lines, 33 blocks count 16 at a time in each warp. A block has 24 warps.
BLOCK_ROWS = [16 * 32 * 10, 16 * 32 * 10 + 1, 16 * 32 * 24 - 1, 16 * 32 * 24 + 31]
WHOLE_BLOCK_ROWS = [33 * 16 * 10, 33 * 16 * 10 + 1, 33 * 16 * 24 - 1, 33 * 16 * 24 + 15]


@pytest.mark.long
@pytest.mark.parametrize("length", [5000, 8209, *BLOCK_ROWS, *WHOLE_BLOCK_ROWS])
def test_rows_of_whole_lines(emulate: Emulate, length: int) -> None:
    values = random_values(1, length, 512)
    emulate(values)
    emulate(wider_rows(values, 128))
    emulate(wider_rows(values, 16))


@pytest.mark.long
@pytest.mark.parametrize("channels", [16 * 6, 128, 144, 496, 1008, 2048])
def test_rows_of_any_vec16s(emulate: Emulate, channels: int) -> None:
    length = (5 << 20) // channels + 5
    values = random_values(1, length, channels)
    emulate(values)
    emulate(wider_rows(values, -channels % 128))
    emulate(wider_rows(values, 16), offset=16)


@pytest.mark.long
@pytest.mark.parametrize("length", [30_001, 33 * 4 * 32 * 24 + 31, 132 * 32 * 10])
@pytest.mark.parametrize("offset", [0, 16])
def test_rows_of_half_a_line(emulate: Emulate, length: int, offset: int) -> None:
    values = random_values(1, length, 64)
    emulate(values, offset=offset)
    emulate(wider_rows(values, 16), offset=offset)


@pytest.mark.long
@pytest.mark.parametrize("num_bins", [1, 3, 100, 127, 128, 129, 255, 300])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=["uint8", "int8"])
def test_bins_of_rows(emulate: Emulate, dtype: torch.dtype, num_bins: int) -> None:
    values = random_values(1, 8200, 256, dtype=dtype)
    emulate(values, num_bins)
    emulate(values[:, :, 16:], num_bins, offset=16)
    whole_segments = random_values(140, 300, 64, dtype=dtype)
    emulate(whole_segments, num_bins)


@pytest.mark.long
@pytest.mark.parametrize("channels", [64, 128])
@pytest.mark.parametrize("length", [65_519, 65_520, 65_535, 65_536])
def test_counters_of_one_block_that_hold_much(emulate: Emulate, length: int, channels: int) -> None:
    emulate(random_values(1, length, channels, below=2), gpu=ONE_SM)


# A block of two counts 65,520 rows, or by whole chunks one more than its counters hold.
@pytest.mark.long
@pytest.mark.parametrize(
    ("length", "channels"), [(131_040, 128), (131_070, 128), (131_008, 64), (131_070, 64)]
)
def test_counters_of_two_blocks_that_hold_much(
    emulate: Emulate, length: int, channels: int
) -> None:
    emulate(random_values(1, length, channels, below=1), gpu=TWO_SMS)


@pytest.mark.long
@pytest.mark.parametrize(
    "shape",
    [
        (3, 9000, 256),
        (12, 2500, 128),
        (40, 400, 128),
        (150, 400, 64),
        (50, 4000, 64),
        (150, 300, 128),
        (20, 200, 512),
        (9, 131, 2048),
    ],
)
def test_batches_of_rows(emulate: Emulate, shape: tuple[int, int, int]) -> None:
    values = random_values(*shape)
    emulate(values)
    emulate(wider_rows(values, 128))
    apart = random_values(shape[0], shape[1] + 3, shape[2])[:, : shape[1]]
    emulate(apart)


@pytest.mark.long
@pytest.mark.parametrize("shape", [(1, 5003, 512), (2, 7000, 256), (1, 40_000, 128)])
def test_rows_on_a_smaller_gpu(emulate: Emulate, shape: tuple[int, int, int]) -> None:
    values = random_values(*shape)
    emulate(values, gpu=T4)
    emulate(wider_rows(values, 16), gpu=T4)


@pytest.mark.long
def test_batches_of_rows_on_a_smaller_gpu(emulate: Emulate) -> None:
    """With 64 channels no block takes rows of two batches, even if some SMs then have none."""
    emulate(random_values(30, 2000, 64), gpu=T4)
    emulate(random_values(30, 3000, 128), gpu=T4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "dtype", "num_bins"),
    [
        ((1, 40_001, 48), torch.uint8, 256),
        ((1, 9001, 511), torch.uint8, 256),
        ((1, 9001, 500), torch.int8, 256),
        ((2, 30_000, 64), torch.int16, 1000),
        ((1, 20_000, 64), torch.int32, 300),
        ((1, 4000, 65), torch.int64, 256),
        ((1, 2_000_001, 1), torch.int16, 100),
        ((1, 500_001, 1), torch.int32, 5000),
    ],
    ids=str,
)
def test_columns(
    emulate: Emulate, shape: tuple[int, int, int], dtype: torch.dtype, num_bins: int
) -> None:
    emulate(random_values(*shape, dtype=dtype, below=min(num_bins + 2, 256)), num_bins)


@pytest.mark.long
@pytest.mark.parametrize("num_bins", [58_081, 65_536, 100_003, 150_001, 210_000])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_one_channel_in_many_bins(emulate: Emulate, dtype: torch.dtype, num_bins: int) -> None:
    """In two tables, three or four."""
    values = random_values(1, 1_200_001, 1, dtype=dtype, below=num_bins + 5000) - 100
    emulate(values, num_bins)
    emulate(values[:, ::2], num_bins)


# One block a plane and several, short ones in blocks of 256 threads; rows of 512 bytes and more,
# less, none left. Blocks that have one piece of a plane each, and blocks that have more.
PLANES = [(5, 3, 300_007), (1, 1, 2_000_001), (1, 700, 20_003), (1, 2, 512 * 3001), (9, 2, 150_700)]


@pytest.mark.long
@pytest.mark.parametrize("shape", PLANES, ids=str)
@pytest.mark.parametrize("dim", [(2,), (0, 2)], ids=str)
def test_planes(emulate: Emulate, shape: tuple[int, int, int], dim: tuple[int, ...]) -> None:
    values = random_values(*shape)
    emulate(values, dim=dim)
    apart = random_values(shape[0], shape[1], shape[2] + 21)[:, :, : shape[2]]
    emulate(apart, 100, dim=dim, offset=3)


# Blocks that each keep to one of them: 40, 39 and 38 of 40.
@pytest.mark.long
@pytest.mark.parametrize("planes", [20, 13, 38])
@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8], ids=str)
def test_planes_on_a_smaller_gpu(
    emulate: Emulate, planes: int, offset: int, dtype: torch.dtype
) -> None:
    values = random_values(planes, 1, 110_003, dtype=dtype)
    emulate(values, dim=(2,), offset=offset, gpu=T4)
    images = random_values(planes, 40_001, 3, dtype=dtype)
    emulate(images, 300, offset=offset, gpu=T4)


@pytest.mark.long
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("shape", [(1, 700_001), (40, 20_003), (200, 11_003)], ids=str)
def test_few_channels(emulate: Emulate, shape: tuple[int, int], channels: int) -> None:
    values = random_values(*shape, channels)
    emulate(values)
    emulate(values, 100, dim=(0, 1), offset=5)
    apart = random_values(shape[0], shape[1] * channels + 3).as_strided(
        (*shape, channels), (shape[1] * channels + 3, channels, 1)
    )
    emulate(apart, dim=(0, 1), offset=1)
    emulate(apart, offset=1)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.bool, torch.int8], ids=str)
def test_values_of_planes(emulate: Emulate, dtype: torch.dtype) -> None:
    emulate(random_values(2, 3, 400_000, dtype=dtype), dim=(2,))


# Tables have room for 8 MiB of two channels or four, 5.3 of three, and much more of one.
@pytest.mark.long
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_counters_of_planes_that_hold_much(emulate: Emulate, channels: int) -> None:
    values = random_values(1, (18 << 20) // channels, channels, below=1)
    emulate(values, gpu=ONE_SM)
    runs = random_values(70, 90_001, channels, below=1)
    emulate(runs, dim=(0, 1), gpu=ONE_SM)


# Rows of 512 bytes that a table has room for, besides three that are not whole.
@pytest.mark.long
@pytest.mark.parametrize(("channels", "room"), [(2, 16_380), (3, 10_919), (4, 16_380)])
def test_a_piece_that_fills_its_counters(emulate: Emulate, channels: int, room: int) -> None:
    for rows in (room, room + 1):
        length = (512 * rows + 511) // channels
        values = random_values(1, length, channels, below=1)
        emulate(values, gpu=ONE_SM)
        emulate(values, offset=5, gpu=ONE_SM)


def cut(*shape: int, of: tuple[int, ...], dtype: torch.dtype = torch.uint8) -> Tensor:
    """A box of a larger array, from its first element on."""
    return random_values(*of, dtype=dtype)[tuple(slice(n) for n in shape)]


ONE_BYTE = [torch.bool, torch.uint8, torch.int8]
WIDER = [torch.uint16, torch.int16, torch.int32, torch.int64]


@pytest.mark.long
@pytest.mark.parametrize("dtype", [*ONE_BYTE, *WIDER], ids=str)
@pytest.mark.parametrize("offset", [0, 8])
def test_runs_of_planes(emulate: Emulate, dtype: torch.dtype, offset: int) -> None:
    values = cut(30, 201, 333, of=(30, 205, 341), dtype=dtype)
    for dim in ((1, 2), (0, 2), (2,), (0, 1, 2)):
        emulate(values, 300, dim=dim, offset=offset)
        emulate(values, 90, dim=dim, offset=offset)


# Rows of so many bytes, and from each to the next.
@pytest.mark.long
@pytest.mark.parametrize(("row", "step"), [(16, 24), (40, 48), (32, 40)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, *WIDER], ids=str)
@pytest.mark.parametrize("offset", [0, 8])
def test_short_rows_of_one_channel(
    emulate: Emulate, row: int, step: int, dtype: torch.dtype, offset: int
) -> None:
    size = dtype.itemsize
    shape = (2 << 20) // (3 * 19 * row) + 1, 3, 19, row // size
    values = cut(*shape, of=(*shape[:2], 21, step // size), dtype=dtype)
    for dim in ((0, 2, 3), (2, 3)):
        emulate(values, 300, dim=dim, offset=offset)


# A prime number of rows, which no table is full of.
@pytest.mark.long
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 16, 31])
@pytest.mark.parametrize("offset", [0, 1])
def test_runs_of_channels(emulate: Emulate, channels: int, offset: int) -> None:
    runs, rows = (9 << 18) // (211 * channels), 211
    values = cut(runs, rows, channels, of=(runs, rows + 2, channels))
    emulate(values, dim=(0, 1), offset=offset)
    values = cut(runs, rows, channels, of=(runs, rows + 2, channels + 1))
    emulate(values, 100, dim=(0, 1), offset=offset)
    emulate(values, offset=offset)


@pytest.mark.long
@pytest.mark.parametrize("dtype", WIDER, ids=str)
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_runs_of_channels_of_wider_types(
    emulate: Emulate, dtype: torch.dtype, channels: int
) -> None:
    runs = (9 << 18) // (211 * channels * dtype.itemsize)
    values = cut(runs, 211, channels, of=(runs, 213, channels), dtype=dtype)
    emulate(values, 200, dim=(0, 1), offset=8)


# In vec16s, in words and in words put together; several rows joined, or one.
@pytest.mark.long
@pytest.mark.parametrize("channels", [16, 48, 64, 100, 130, 333, 511, 512, 700])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_rows_in_runs(emulate: Emulate, channels: int, offset: int) -> None:
    runs = (5 << 20) // (24 * channels)
    values = cut(runs, 24, channels, of=(runs, 26, channels))
    emulate(values, 100, dim=(0, 1), offset=offset)
    sets = cut(3, runs // 3, 24, channels, of=(3, runs // 3 + 1, 28, channels))
    emulate(sets, dim=(0, 1, 2), offset=offset)
    emulate(sets, dim=(1, 2), offset=offset, gpu=TWO_SMS)
    gaps = cut(3, runs // 3, 24, channels, of=(3, runs // 3 + 1, 28, channels + 1))
    emulate(gaps, dim=(0, 1, 2), offset=offset)
    emulate(gaps, 100, dim=(1, 2), offset=offset)


@pytest.mark.long
@pytest.mark.parametrize("dtype", WIDER, ids=str)
@pytest.mark.parametrize("channels", [16, 48, 65])
def test_rows_in_runs_of_wider_types(emulate: Emulate, dtype: torch.dtype, channels: int) -> None:
    runs = (5 << 20) // (24 * channels * dtype.itemsize)
    values = cut(runs, 24, channels, of=(runs, 26, channels), dtype=dtype)
    for offset in (0, dtype.itemsize):
        emulate(values, 200, dim=(0, 1), offset=offset)
        emulate(values[..., : channels - 1], 200, dim=(0, 1), offset=offset)


# The rows that are left after whole rounds.
@pytest.mark.long
@pytest.mark.parametrize("left", [0, 1, 7, 8, 9])
def test_last_words_put_together(emulate: Emulate, left: int) -> None:
    rows = 192 * 19 + left
    values = cut(1, rows, 511, of=(1, rows, 1025))
    emulate(values, offset=3, gpu=ONE_SM)
    runs = cut(9, rows // 9, 511, of=(9, rows // 9 + 3, 511))
    emulate(runs, offset=3, gpu=ONE_SM, dim=(0, 1))


@pytest.mark.long
@pytest.mark.parametrize("step", [0, 1, 7, 8])
def test_windows(emulate: Emulate, step: int) -> None:
    """Rows that overlap."""
    values = random_values(700_000)
    emulate(values.as_strided((1, 30_000, 67), (0, step, 1)), offset=1)
    for stride in (1, 3, 1000):
        rows = values.as_strided((300, 100, 67), (stride, step, 1))
        emulate(rows, dim=(0, 1), offset=1)
        emulate(rows, dim=(0, 1, 2), offset=1)
        windows = values.as_strided((2000, 60, 20), (min(stride, 300), 20 + step, 1))
        emulate(windows, dim=(0, 1, 2), offset=1)


@pytest.mark.long
@pytest.mark.parametrize("shape", [(9001, 200, 1), (1200, 500, 3), (2100, 50, 16), (70, 1000, 31)])
@pytest.mark.parametrize("gpu", [NO_CLUSTERS, H200, T4, ONE_SM], ids=lambda gpu: gpu.name)
def test_runs_of_small_segments(emulate: Emulate, shape: tuple[int, int, int], gpu: Device) -> None:
    for num_bins in (256, 3, 100):
        emulate(random_values(*shape), num_bins, gpu=gpu)
    values = random_values(*shape, dtype=torch.int32)
    emulate(values, 100, gpu=gpu, offset=4)


@pytest.mark.long
@pytest.mark.parametrize(("channels", "step"), [(1, 2), (1, 3), (1, 4), (2, 3), (3, 4), (2, 4)])
@pytest.mark.parametrize("offset", [0, 1])
def test_gaps_of_planes(emulate: Emulate, channels: int, step: int, offset: int) -> None:
    values = cut(1, 1_000_003, channels, of=(1, 1_000_003, step))
    for num_bins in (256, 100):
        emulate(values, num_bins, offset=offset)
    segments = cut(50, 30_001, channels, of=(50, 30_001, step))
    if channels > 1:
        emulate(segments, offset=offset)


# Read as a stream, in words, in vec16s, and as rows that begin within words.
@pytest.mark.long
@pytest.mark.parametrize(
    ("channels", "step"),
    [(5, 8), (20, 32), (60, 64), (100, 128), (500, 512), (511, 600), (255, 511), (300, 301)],
)
@pytest.mark.parametrize("offset", [0, 1])
def test_gaps_of_rows(emulate: Emulate, channels: int, step: int, offset: int) -> None:
    length = (12 << 20) // step + 3
    values = cut(1, length, channels, of=(1, length, step))
    emulate(values, offset=offset)
    two = cut(2, length // 2, channels, of=(2, length // 2, step))
    emulate(two, 100, offset=offset)


@pytest.mark.long
@pytest.mark.parametrize("dtype", WIDER, ids=str)
@pytest.mark.parametrize(("channels", "step"), [(3, 4), (2, 3), (6, 8), (9, 11), (60, 65)])
def test_gaps_of_rows_of_wider_types(
    emulate: Emulate, dtype: torch.dtype, channels: int, step: int
) -> None:
    length = (4 << 20) // step // dtype.itemsize + 3
    values = cut(1, length, channels, of=(1, length, step), dtype=dtype)
    emulate(values, 200, offset=dtype.itemsize)


@pytest.mark.long
@pytest.mark.parametrize(
    "shape",
    [(1, 5003, 512), (1, 16_384, 64), (1, 4097, 511), (2, 10_000, 128), (1, 70_001, 50)],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8], ids=str)
def test_clusters(emulate: Emulate, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    emulate(random_values(*shape, dtype=dtype, below=100), gpu=H200)


@pytest.mark.long
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1000, 3), (4, 33, 17), (1, 4096, 8)], ids=str)
@pytest.mark.parametrize("gpu", [H200, T4], ids=lambda gpu: gpu.name)
def test_small(emulate: Emulate, shape: tuple[int, int, int], gpu: Device) -> None:
    for dtype in (torch.uint8, torch.int64):
        emulate(random_values(*shape, dtype=dtype), 128, gpu=gpu)


@pytest.mark.long
@pytest.mark.parametrize("below", [7, 1 << 17])
def test_small_in_many_bins(emulate: Emulate, below: int) -> None:
    values = random_values(1, 90_000, 1, dtype=torch.int32, below=below)
    emulate(values, 1 << 17)


BROKEN = {
    "reads_beyond_the_end": "uses 1 bytes outside of what was allocated",
    "reads_before_the_begin": "uses 1 bytes outside of what was allocated",
    "loads_misaligned_words": "",
    "writes_the_input": "writes the input",
    "reads_what_it_must_wait_for": "does not wait for the kernel launched before",
    "adds_to_what_it_must_wait_for": "does not wait for the kernel launched before",
    "adds_without_atomics": "a word that another thread",
    "misses_a_barrier": "writes a word that another thread reads in the shared memory",
    "misses_a_barrier_of_a_warp": "a word that another thread",
    "takes_a_barrier_of_a_warp_for_one_of_the_block": "a word that another thread",
    "reads_what_nobody_wrote": "reads what nobody wrote in the shared memory",
    "reads_a_block_that_ended": "reads the shared memory of a block that has ended",
    "waits_for_a_barrier_that_few_reach": "waits for others forever",
}
"""Kernels of tests/emulator/broken.cu, and what the emulator says of them."""


@pytest.mark.parametrize("name", BROKEN)
def test_mistakes_are_seen(programs: Programs, name: str) -> None:
    done = subprocess.run([programs.emulator, name], capture_output=True, timeout=60)
    if name == "loads_misaligned_words":
        assert done.returncode == -signal.SIGILL
    else:
        assert done.returncode == 3, done.stderr.decode()
        assert BROKEN[name] in done.stderr.decode()
        # A sanitizer that is preloaded may have warned first.
        assert re.search(f"^{name}: thread ", done.stderr.decode(), re.MULTILINE)
