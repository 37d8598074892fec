"""The CPU engine: every layout it tells apart, every kind of counter, forks, and its memory."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from conftest import ENVIRONMENT, constants_of
from guarded import before_forbidden_page
from oracle import assert_counts, expected_counts, random_values
from torch import Tensor

from torch_histo import channel_histogram, explain

pytestmark = pytest.mark.sampled(4)

TUNING = constants_of("csrc/cpu/tuning.h")
# At these sizes the engine changes its way of counting. The shapes below lie around them.
TILE_ROWS = TUNING["kTileRows"]
CHUNK = TUNING["kChunkElements"]
WIDE_CHUNK = TUNING["kWideChunkElements"]
MIN_JOINT = TUNING["kMinJointElements"]
MIN_PAIRS = TUNING["kMinPairElements"]
MIN_PAIR_RUN = TUNING["kMinPairRun"]
MIN_BYTE_ELEMENTS = TUNING["kMinByteElements"]
BYTE_CHUNK = TUNING["kByteChunkElements"]
MIN_COUNTS_OF_WHOLE_STRIPS = TUNING["kMinCountsOfWholeStrips"]
MAX_BINS_OF_SMALL_TABLES = TUNING["kMaxBinsOfSmallTables"]
MAX_BINS_OF_TABLES = 131_000  # about: above it the result itself is counted in


def uniform(values: Tensor) -> Tensor:
    return values


def constant(values: Tensor) -> Tensor:
    return torch.full_like(values, 3)


def runs(values: Tensor) -> Tensor:
    flat = values.reshape(-1)
    numbers = torch.arange(len(flat)) // 64 * 64
    return flat.view(values.dtype)[numbers].view(values.shape)


def half_and_half(values: Tensor) -> Tensor:
    """Chunks and tiles of both kinds in one input."""
    copy = values.clone()
    copy[: len(copy) // 2] = 3
    return copy


def taking_turns(values: Tensor) -> Tensor:
    return (torch.arange(values.numel()) % 2 * 5).to(values.dtype).view(values.shape)


def ascending(values: Tensor) -> Tensor:
    """In the channels of a row, too: their values change at once, and not again for some rows."""
    return values.flatten().sort().values.view(values.shape)


def two_values(values: Tensor) -> Tensor:
    return values % 2 * 5


def two_values_and_another(values: Tensor) -> Tensor:
    """Far behind the first chunk's beginning."""
    copy = two_values(values)
    copy.view(-1)[4000::9973] = 3
    return copy


DISTRIBUTIONS = [
    uniform,
    constant,
    runs,
    half_and_half,
    ascending,
    taking_turns,
    two_values,
    two_values_and_another,
]


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def counters_as_wanted() -> None:
    """The environment of test_other_processors is heeded, or it would repeat this process."""
    wanted = os.environ.get("TORCH_HISTO_CPU_COUNTERS")
    bits = {"16": (16, 16), "32": (32, 32), "mixed": (32, 16)}
    if wanted in bits:
        shapes = ((20_000,), (300, 64))  # one channel, and columns
        values = [torch.zeros(shape, dtype=torch.uint8) for shape in shapes]
        assert tuple(explain(x).counter_bits for x in values) == bits[wanted]


REPEATED = 67
"""Columns of a wide input that differ: the oracle counts each once. A prime, so that they meet
every place in a strip."""


# With several threads, each would have less to count.
with_one_thread = pytest.mark.parametrize("threads", [1], indirect=True)


def test_malloc_is_dirty() -> None:
    """Else counts that start from what is in memory could be right by luck."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    for size in (2048, 8 << 20):
        block = libc.malloc(size)
        assert set(ctypes.string_at(block, 2048)) == {ctypes.string_at(block, 1)[0]} != {0}
        libc.free(ctypes.c_void_p(block))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(
    "shape",
    [
        (CHUNK - 1,),
        (CHUNK + 1,),
        (7 * CHUNK + 13,),
        (9 * MIN_JOINT + 13,),
        (70_001, 1),
        (30_011, 2),
        (40_013, 3),
        (9001, 31),
        (5003, 32),
        (TILE_ROWS - 1, 33),
        (TILE_ROWS, 64),
        (TILE_ROWS + 1, 65),
        (5 * TILE_ROWS + 7, 63),
        (3001, 129),
        (2 * TILE_ROWS - 1, 70),
        (8 * TILE_ROWS + 1, 1200),
        (12 * TILE_ROWS + 63, 200),
        (300, 3000),
    ],
)
def test_bytes_in_rows(distribution: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> None:
    values = distribution(random_values(shape, torch.uint8))
    assert_counts(channel_histogram(values), expected_counts(values))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("num_bins", [40, 255, 256, 264, 512])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_large_results(num_bins: int, more: int) -> None:
    """Each task counts whole strips."""
    channels = MIN_COUNTS_OF_WHOLE_STRIPS // num_bins + more
    few = random_values((2 * TILE_ROWS + 3, REPEATED), torch.uint8)
    columns = torch.arange(channels) % REPEATED
    expected = expected_counts(few, num_bins)[columns]
    assert_counts(channel_histogram(few.index_select(1, columns), num_bins), expected)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.uint16, torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(40_003,), (5001, 3), (2003, 40), (601, 8), (601, 17)])
def test_types_in_rows(
    distribution: Callable[[Tensor], Tensor], dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    values = random_values(shape, torch.int64, low=-3, high=80)
    values = distribution(values).numpy().astype(str(dtype).removeprefix("torch."))
    moved = torch.from_numpy(values)
    assert_counts(channel_histogram(moved, 70), expected_counts(moved, 70))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.bool], ids=str)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((3, 4 * MIN_JOINT + 1), 1),
        ((2, 3, 3 * CHUNK + 7), (0, 2)),
        ((70, 3, 1013), (0, 2)),
        ((2, MIN_PAIRS - 1), 1),
        ((2, MIN_PAIRS), 1),
        ((2, MIN_PAIRS + 65), 1),
        ((130, 2, MIN_PAIR_RUN - 1), (0, 2)),
        ((130, 2, MIN_PAIR_RUN + 3), (0, 2)),
    ],
)
def test_neighbours_counted_together(
    shape: tuple[int, ...],
    dim: int | tuple[int, ...],
    dtype: torch.dtype,
    distribution: Callable[[Tensor], Tensor],
) -> None:
    """Bytes of long channels: runs of odd lengths, at any address."""
    values = distribution(random_values(shape, torch.uint8)).view(dtype)
    assert_counts(channel_histogram(values, 99, dim), expected_counts(values, 99, dim))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("offset", [0, 1, 63])
def test_neighbours_of_all_values(offset: int) -> None:
    """Each two bytes as neighbours, several times in turn, and each another number of times."""
    first, second = torch.cartesian_prod(torch.arange(256), torch.arange(256)).unbind(1)
    times = 3 + (7 * first + 13 * second + first * second) % 6
    pairs = torch.stack([first, second], 1).repeat_interleave(times, 0)
    values = torch.cat([torch.zeros(offset), pairs.flatten()]).to(torch.uint8)[offset:]
    assert_counts(channel_histogram(values), expected_counts(values))


@pytest.mark.usefixtures("threads")
@with_one_thread
@pytest.mark.parametrize("span", [6, 32, 60, 200])
def test_counters_of_8_bits_wrap(span: int) -> None:
    """Two of so many values meet the same counter in every chunk, after some, after many, never."""
    values = random_values((6 << 20,), torch.uint8, low=0, high=span)
    values[5 << 20 :] = values[: 1 << 20].sort().values
    assert_counts(channel_histogram(values), expected_counts(values))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("distribution", [uniform, constant, runs])
@pytest.mark.parametrize("step", [1, 3])
def test_every_length_around_a_turn_of_the_loop(
    distribution: Callable[[Tensor], Tensor], step: int, dtype: torch.dtype
) -> None:
    lengths = [*range(4), *range(60, 140), *range(254, 360), *range(CHUNK - 2, CHUNK + 99)]
    values = distribution(random_values((step * (lengths[-1] + 5),), dtype, low=0, high=7))
    for i, length in enumerate(lengths):
        part = values[i % 5 :][: length * step : step]
        assert_counts(channel_histogram(part, 5), expected_counts(part, 5))


@pytest.mark.usefixtures("threads")
@with_one_thread
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
@pytest.mark.parametrize("counters", [2, 16])
@pytest.mark.parametrize("rest", [-16, -1, 0, 1, 16, CHUNK])
def test_no_counter_of_16_bits_overflows(rest: int, counters: int, dtype: torch.dtype) -> None:
    """Equal values go to 16 counters, of bytes two to the one of both."""
    values = torch.full((counters * 65_535 + rest,), 3, dtype=dtype)
    values[100:104] = 7
    assert_counts(channel_histogram(values, 9), expected_counts(values, 9))


@pytest.mark.usefixtures("threads")
@with_one_thread
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
@pytest.mark.parametrize("rest", [-1, 0, 1, TILE_ROWS])
def test_no_counter_of_a_column_overflows(rest: int, dtype: torch.dtype) -> None:
    values = torch.full((2 * 65_535 + rest, 40), 3, dtype=dtype)
    values[100:104] = 7
    assert_counts(channel_histogram(values, 9), expected_counts(values, 9))


@pytest.mark.usefixtures("threads")
@with_one_thread
@pytest.mark.parametrize(
    ("dtype", "num_bins"),
    [
        (torch.uint8, 99),
        (torch.int16, 99),
        (torch.int64, 99),
        (torch.int16, 20_000),
        (torch.int64, 70_000),
    ],
)
@pytest.mark.parametrize("shape", [(20 * CHUNK,), (20 * CHUNK, 2)])
def test_no_counter_overflows_where_a_sample_misleads(
    shape: tuple[int, ...], dtype: torch.dtype, num_bins: int
) -> None:
    """Equal values but where a chunk is sampled: fewer counters, which are full sooner."""
    wide = num_bins > MAX_BINS_OF_SMALL_TABLES
    chunk = WIDE_CHUNK if wide else CHUNK // shape[1] if len(shape) > 1 else CHUNK
    values = torch.full(shape, 3, dtype=dtype)
    for part in values.split(chunk):
        for sample in (part[:200], part[chunk // 2 - 8 :][:200]):
            sample.copy_(random_values(sample.shape, dtype, low=0, high=num_bins))
    assert_counts(channel_histogram(values, num_bins), expected_counts(values, num_bins))


@pytest.mark.parametrize("dtype", [torch.int16, torch.int64])
@pytest.mark.parametrize("most", range(4, 64, 7))
def test_runs_where_a_sample_misleads(most: int, dtype: torch.dtype) -> None:
    """Equal values where a chunk is sampled, and runs of any length up to `most` elsewhere."""
    num_bins = 4 * MAX_BINS_OF_SMALL_TABLES
    generator = torch.Generator().manual_seed(most)
    lengths = torch.randint(1, most, (4 * WIDE_CHUNK,), generator=generator)
    numbers = random_values((len(lengths),), dtype, low=0, high=num_bins)
    values = numbers.repeat_interleave(lengths)[: 4 * WIDE_CHUNK]
    for part in values.split(WIDE_CHUNK):
        part[:200] = part[WIDE_CHUNK // 2 - 8 :][:200] = 3
    assert_counts(channel_histogram(values, num_bins), expected_counts(values, num_bins))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    ("shape", "steps", "dim"),
    [
        ((30_000, 4), (1, 2), 0),  # channels with gaps
        ((30_000, 5), (2, 1), 0),  # rows with gaps
        ((40_000, 1), (7, 1), 0),
        ((40_000, 1), (400, 1), 0),
        ((2000, 100), (1, 2), 0),  # columns with gaps
        ((2000, 100), (3, 1), 0),
        ((3000, 100), (3, 1), 0),
        ((3000, 100), (1, 2), 0),
        ((60, 9000), (1, 3), 1),  # planes of every third element
        ((60, 9000), (2, 1), 1),
        ((6, 60, 50, 3), (1, 1, 1, 1), (1, 2)),
        ((6, 3, 60, 50), (1, 1, 1, 1), (0, 2, 3)),
        ((6, 3, 60, 50), (1, 1, 2, 1), (0, 2, 3)),
        ((50, 40, 6, 70), (1, 1, 1, 1), (0, 2)),
        ((50, 4, 40, 80), (1, 1, 1, 1), (0, 2)),
        ((900, 50, 3), (1, 1, 1), (0, 2)),  # runs too short for a stream
        ((30, 200, 70), (1, 3, 1), (0, 1)),
        ((9, 127, 2, 70), (1, 1, 2, 1), (0, 1)),
        ((5, TILE_ROWS + 5, 2, 1300), (1, 1, 2, 1), (0, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
def test_strides(
    shape: tuple[int, ...], steps: tuple[int, ...], dim: int | tuple[int, ...], dtype: torch.dtype
) -> None:
    sizes = [size * step for size, step in zip(shape, steps, strict=True)]
    if torch.Size(sizes).numel() > 1 << 25:
        sizes[0] //= 8
    values = random_values(sizes, dtype)[tuple(slice(None, None, step) for step in steps)]
    assert_counts(channel_histogram(values, 256, dim), expected_counts(values, 256, dim))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
@pytest.mark.parametrize(
    ("rows", "channels"),
    [
        (TILE_ROWS, 40),
        (300, 33),
        (1000, 63),
        (TILE_ROWS + 1, 100),
        (2 * TILE_ROWS, 99),
        (2 * TILE_ROWS + 1, 1100),
        (20_000, 1),
        (CHUNK, 3),
        (1000, 7),
    ],
)
@pytest.mark.parametrize("step", [None, 1, 5, 50])
def test_nothing_behind_the_last_row_is_read(
    rows: int, channels: int, step: int | None, dtype: torch.dtype
) -> None:
    """Rows are read by whole lines of 64 bytes. Behind this buffer lies a forbidden page. With a
    step rows are windows, which share elements with the next ones.
    """
    step = step or channels
    elements = (rows - 1) * step + channels
    with before_forbidden_page(elements, dtype) as values:
        for distribution in (uniform, constant):
            values.copy_(distribution(random_values((elements,), dtype)))
            windows = values.as_strided((rows, channels), (step, 1))
            assert_counts(channel_histogram(windows, 256), expected_counts(windows))


@pytest.mark.parametrize(
    "num_bins",
    [
        2,
        MAX_BINS_OF_SMALL_TABLES - 1,
        MAX_BINS_OF_SMALL_TABLES,
        MAX_BINS_OF_SMALL_TABLES + 1,
        65_535,
        65_536,
        65_537,
        MAX_BINS_OF_TABLES - 500,
        MAX_BINS_OF_TABLES + 500,
    ],
)
@pytest.mark.parametrize(
    "dtype",
    [torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64],
    ids=str,
)
@pytest.mark.parametrize("shape", [(200_001,), (3, 140_000), (140_000, 3)])
def test_bins(num_bins: int, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    dim = max(range(len(shape)), key=shape.__getitem__)
    values = random_values(shape, dtype, low=-9, high=num_bins + 9)
    assert_counts(channel_histogram(values, num_bins, dim), expected_counts(values, num_bins, dim))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((100_003,), 0), ((3, 70_001), 1), ((70_001, 3), 0)])
def test_equal_neighbours_in_many_bins(
    shape: tuple[int, ...],
    dim: int,
    dtype: torch.dtype,
    distribution: Callable[[Tensor], Tensor],
) -> None:
    values = distribution(random_values(shape, dtype, low=0, high=21_000))
    assert_counts(channel_histogram(values, 20_000, dim), expected_counts(values, 20_000, dim))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.bool], ids=str)
@pytest.mark.parametrize("channels", [33, 60, 63, 64, 65, 129, 513])
def test_columns_of_bytes(channels: int, dtype: torch.dtype) -> None:
    """Lines at any address, which may end behind the columns, and tiles of any height."""
    rows = [TILE_ROWS + more for more in (-1, 0, 1, 63, 64, 65)] + [9 * TILE_ROWS + 5]
    few = random_values((rows[-1] + 1, REPEATED), dtype)
    few[: rows[-1] // 2, ::3] = few[7, 1]
    columns = torch.arange(channels + 5) % REPEATED
    wide = few.index_select(1, columns)
    for i, size in enumerate(rows):
        values = wide[: size + 1, i % 5 :][1:, :channels]
        some = columns[i % 5 :][:channels]
        for bins in (256, 100, 300):
            expected = expected_counts(few[1 : size + 1], bins)[some]
            assert_counts(channel_histogram(values, bins), expected)
            assert_counts(channel_histogram(values.contiguous(), bins), expected)


def test_runs_of_columns() -> None:
    """Every run of rows has tiles of its own, and channels may lie in several runs."""
    for run in (TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 77):
        values = random_values((3, run + 2, 2, 40), torch.uint8)[:, 1 : run + 1]
        for dim in ((0, 1), (1,), (0, 1, 2)):
            assert_counts(channel_histogram(values, 256, dim), expected_counts(values, 256, dim))


def test_runs_of_bytes() -> None:
    """Pairs of neighbours lie in one run."""
    for run in (MIN_PAIR_RUN - 1, MIN_PAIR_RUN, MIN_PAIR_RUN + 77):
        values = random_values((50, 3, run + 9), torch.uint8)[:, :, 4 : run + 4]
        for dim in ((0, 1, 2), (0, 2), (1, 2)):
            assert_counts(channel_histogram(values, 256, dim), expected_counts(values, 256, dim))


WIDE_TYPES = [torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64]
A_TYPE_OF_EACH_SIZE = [
    t if t in (torch.uint16, torch.int32, torch.uint64) else pytest.param(t, marks=pytest.mark.long)
    for t in WIDE_TYPES
]


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.003, 0.02])
@pytest.mark.parametrize("value", [-1, 777, 65_535])
@pytest.mark.parametrize("num_bins", [5_000, 40_000, 65_536])
@pytest.mark.parametrize("dtype", A_TYPE_OF_EACH_SIZE, ids=str)
def test_a_frequent_value_in_many_bins(
    dtype: torch.dtype, num_bins: int, value: int, share: float
) -> None:
    """Counters of 8 bits wrap, sooner or later, or the value has none."""
    values = random_values((1_500_000,), torch.int64, low=0, high=num_bins)
    chosen = torch.rand(values.shape, generator=torch.Generator().manual_seed(num_bins)) < share
    values[chosen] = value
    values = values.to(dtype)
    assert_counts(channel_histogram(values, num_bins), expected_counts(values, num_bins))


def values_of_bins(size: int, num_bins: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(num_bins)
    return torch.randint(min(num_bins, torch.iinfo(dtype).max + 1), (size,), generator=generator)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("num_bins", [32_768, 32_769, 65_535, 65_536])
@pytest.mark.parametrize("dtype", WIDE_TYPES, ids=str)
def test_lengths_in_counters_of_8_bits(dtype: torch.dtype, num_bins: int) -> None:
    """Every length around what is counted together; the first chunk is counted otherwise."""
    values = values_of_bins(2 * BYTE_CHUNK + 2 * WIDE_CHUNK, num_bins, dtype)
    edges = torch.tensor([0, 32_767, 32_768, 65_535])
    some = values[WIDE_CHUNK + 100 :: 1000]
    some.copy_(edges[torch.arange(len(some)) % 4])
    values = values.clamp(max=min(num_bins, torch.iinfo(dtype).max + 1) - 1).to(dtype)
    for together in (MIN_BYTE_ELEMENTS, 2 * BYTE_CHUNK):
        for more in (-1, 0, 1, 63, 64, 65):
            part = values[: WIDE_CHUNK + together + more]
            assert_counts(channel_histogram(part, num_bins), expected_counts(part, num_bins))
    planes = values[: 2 * (WIDE_CHUNK + BYTE_CHUNK)].view(2, -1)
    assert_counts(channel_histogram(planes, num_bins, 1), expected_counts(planes, num_bins, 1))


@pytest.mark.parametrize("num_bins", [56_000, 65_536])
@pytest.mark.parametrize("outside", [-1, -32_768, -(1 << 31), 65_536, (1 << 31) - 1, 1 << 32])
@pytest.mark.parametrize("dtype", WIDE_TYPES, ids=str)
def test_values_without_a_counter(dtype: torch.dtype, outside: int, num_bins: int) -> None:
    """The first, the last and others of what is counted together."""
    values = values_of_bins(WIDE_CHUNK + 2 * BYTE_CHUNK, num_bins, dtype)
    limits = torch.iinfo(dtype)
    outside = max(min(outside, limits.max), limits.min)
    counts_before = expected_counts(values, num_bins)
    for position in (0, 1, 31, 32, 63, 64, 5000, BYTE_CHUNK - 1, BYTE_CHUNK):
        some, expected = values.clone(), counts_before.clone()
        expected[some[WIDE_CHUNK + position]] -= 1
        some[WIDE_CHUNK + position] = outside
        if 0 <= outside < num_bins:  # the type has none outside
            expected[outside] += 1
        assert_counts(channel_histogram(some.to(dtype), num_bins), expected)


OTHER_PROCESSORS = [("portable", "32"), ("avx2", "16"), ("avx2", "mixed"), ("avx512", "16")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("every", [100, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("loops", "counters"), OTHER_PROCESSORS)
def test_other_processors(loops: str, counters: str, every: int) -> None:
    """Loops and counters are chosen once a process: the tests that depend on it, in another one."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--every={every}"]
    command += ["-k", "not (other_processors or fork or worker or memory_beyond)", __file__]
    command += ["-m", "long or not long"] if every == 1 else []
    chosen_by = {"TORCH_HISTO_CPU": loops, "TORCH_HISTO_CPU_COUNTERS": counters}
    environment = {**ENVIRONMENT, **chosen_by}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


@pytest.mark.parametrize("shape", [(3, 16), (3, 0, 16)])
def test_more_counts_than_int64_can_number(shape: tuple[int, ...]) -> None:
    """An empty result is refused, too: its strides would overflow, and torch.empty refuses it."""
    with pytest.raises(RuntimeError, match="out of memory"):
        channel_histogram(torch.zeros(shape, dtype=torch.uint8), 1 << 60)


def run_python(code: str, *, timeout: float = 120) -> str:
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    ("shape", "bins", "sharing"),
    [
        ((1 << 21,), 150_000, "copies"),
        ((1 << 20, 2), 150_000, "copies"),
        ((1 << 20,), 1 << 20, "atomic"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_threads_share_a_result(
    threads: int, shape: tuple[int, ...], bins: int, sharing: str, dtype: torch.dtype
) -> None:
    """Too many bins for tables: threads count in the result itself, or in copies of it."""
    values = random_values(shape, dtype, low=-5, high=bins + 5)
    explanation = explain(values, bins)
    assert explanation.method == "direct"
    assert threads == 1 or explanation.sharing == sharing, explanation
    assert_counts(channel_histogram(values, bins), expected_counts(values, bins))


def test_after_a_fork() -> None:
    """A child of a process whose threads have run: they are not there, and nobody waits."""
    # In the child the other operators of torch would wait for ever.
    code = """
import os, torch, torch_histo
torch.set_num_threads(4)
values = torch.arange(1 << 22).to(torch.uint8)
wide = values.int()
expected = [1 << 14] * 256
assert torch_histo.channel_histogram(values).tolist() == expected
child = os.fork()
if child == 0:
    counts = torch_histo.channel_histogram(values)
    many = torch_histo.channel_histogram(wide, 1 << 20)
    os._exit(0 if counts.tolist() == expected == many.tolist()[:256] else 1)
assert os.waitpid(child, 0)[1] == 0
assert torch_histo.channel_histogram(values).tolist() == expected
"""
    run_python(code, timeout=60)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_in_the_workers_of_a_data_loader(context: str, tmp_path: Path) -> None:
    (tmp_path / "audit.py").write_text(
        """
import torch, torch_histo
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, i):
        image = torch.full((3, 300, 400), i, dtype=torch.uint8)
        return torch_histo.channel_histogram(image, dim=(1, 2))

if __name__ == "__main__":
    torch.set_num_threads(3)
    torch_histo.channel_histogram(torch.zeros(1 << 22, dtype=torch.uint8))
    loader = DataLoader(Images(), 3, num_workers=2, multiprocessing_context="CONTEXT")
    counts = torch.cat(list(loader)).sum(1)
    assert torch.equal(counts, 360_000 * torch.eye(12, 256, dtype=torch.int64))
""".replace("CONTEXT", context)
    )
    command = [sys.executable, str(tmp_path / "audit.py")]
    subprocess.run(command, env=ENVIRONMENT, check=True, timeout=120)


def test_memory_beyond_the_result() -> None:
    """At most 1 MiB a thread, and no private result for each thread."""
    cases = [
        ((50_000, 1, 128), "int32", 1 << 21, 16 + 8),  # a result of 16 MiB, elements in one channel
        ((1, 1 << 15, 300), "uint8", 256, 64 + 8),  # a result of 64 MiB, channels in planes
        ((300, 1 << 15, 1), "uint8", 256, 64 + 8),  # and side by side
        ((1 << 22, 1, 1), "uint8", 256, 4),
        ((1 << 14, 512, 1), "uint8", 256, 1 + 4),
    ]
    code = f"""
import os, torch, torch_histo
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
def count(shape, dtype, num_bins):
    torch.set_num_threads(4)
    values = torch.randint(0, 250, shape, dtype=getattr(torch, dtype))
    torch_histo.channel_histogram(torch.zeros(1 << 20, dtype=torch.uint8))
    open("/proc/self/clear_refs", "w").write("5")  # forget the peak
    before = peak()
    torch_histo.channel_histogram(values, num_bins, (0, 2))
    print((peak() - before) / 1024, flush=True)
for shape, dtype, num_bins, _ in {cases}:
    child = os.fork()  # no case has memory that another one left
    if not child:
        count(shape, dtype, num_bins)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    taken = [float(line) for line in run_python(code).split()]
    for case, mib in zip(cases, taken, strict=True):
        assert mib <= case[-1], case
