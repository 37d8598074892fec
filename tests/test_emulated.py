"""Kernels of the engine on no GPU at all: compiled for the host, where every address is checked."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from oracle import DTYPES, assert_counts, expected_counts
from torch import Tensor
from torch.utils.cpp_extension import CUDA_HOME

from torch_histo.explain import DEVICES, Device

REPOSITORY = Path(__file__).parents[1]
EMULATOR = Path(__file__).parent / "emulator"
KERNELS = ("rows", "planes", "columns", "runs", "clustered", "strided", "clear")
H200 = DEVICES[0]
NO_CLUSTERS = dataclasses.replace(H200, name="H200 with code for 8.0", capability=(8, 0))
T4 = next(known for known in DEVICES if known.name == "T4")
TWO_SMS = Device("two SMs", 2, 64 << 10, 64 << 10, 1 << 20, (8, 0), 1e11)
ONE_SM = dataclasses.replace(TWO_SMS, name="one SM", sm_count=1)


def toolkit_headers() -> Path | None:
    nvcc = shutil.which("nvcc")
    homes = [CUDA_HOME, "/usr/local/cuda", nvcc and Path(nvcc).resolve().parents[1]]
    found = (Path(home) / "include" for home in homes if home)
    return next((path for path in found if (path / "cuda_runtime_api.h").exists()), None)


def on_host(source: str) -> str:
    """A kernel's shared memory as what the emulator has for it."""
    align = r"(?:__align__\(\d+\) )?"
    dynamic = r"auto* const \2 = reinterpret_cast<\1*>(emulated::dynamic_shared());"
    source = re.sub(rf"extern __shared__ {align}(\w+) (\w+)\[\];", dynamic, source)
    declared = (
        r"using \2_shared = \1\3; static const unsigned \2_key = emulated::new_key(); "
        r"auto& \2 = *static_cast<\2_shared*>(emulated::static_shared(\2_key, sizeof(\2_shared)));"
    )
    source = re.sub(rf"__shared__ {align}(\w+) (\w+)((?:\[[^;]*\])?);", declared, source)
    assert "__shared__" not in source
    return source


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    headers = toolkit_headers()
    if headers is None or shutil.which("g++") is None:
        pytest.skip("needs g++ and the headers of a CUDA Toolkit")
    folder = tmp_path_factory.mktemp("emulator")
    shutil.copytree(REPOSITORY / "csrc", folder / "csrc")
    shutil.copytree(EMULATOR, folder / "csrc/cuda", dirs_exist_ok=True)
    start = folder / "csrc/cuda/launch.h"
    named = start.read_text().replace("cudaLaunchKernelEx(", "emulated::launch_named(name, ")
    start.write_text('#include "emulator.h"\n' + named)
    sources = [folder / "csrc/cuda" / f"{name}.cpp" for name in ("emulator", "engine", "plan")]
    for name in KERNELS:
        kernel = folder / "csrc/cuda" / f"{name}.cu"
        sources.append(kernel.with_suffix(".cu.cpp"))
        sources[-1].write_text('#include "emulator.h"\n' + on_host(kernel.read_text()))
    flags = ["-std=c++17", "-O1", "-g0", "-fsanitize=address"]
    flags += [f"-I{folder}/csrc", f"-I{folder}/csrc/cuda", f"-isystem{headers}"]
    objects = [folder / f"{source.name}.o" for source in sources]
    compilers = [
        subprocess.Popen(["g++", *flags, "-c", str(source), "-o", str(built)])
        for source, built in zip(sources, objects, strict=True)
    ]
    assert all(compiler.wait() == 0 for compiler in compilers)
    program = folder / "emulator"
    subprocess.run(["g++", *flags, *map(str, objects), "-o", str(program)], check=True)
    return program


Emulate = Callable[..., str]


@pytest.fixture
def emulate(emulator: Path) -> Emulate:
    """Counts `[batch, length, channels]` over `dim`: the length, or the last one of planes, and the
    batch too.

    Compares the counts with the oracle's, and returns the names of the kernels that count.
    """

    def run(
        values: Tensor,
        num_bins: int = 256,
        *,
        dim: tuple[int, ...] = (1,),
        offset: int = 0,
        gpu: Device = NO_CLUSTERS,
    ) -> str:
        sizes = list(zip(values.shape, values.stride(), strict=True))
        channels, rows = ([s for d, s in enumerate(sizes) if (d in dim) == row] for row in (0, 1))
        nests = [[*[(1, 0)] * 2, *channels][-2:], [*[(1, 0)] * 3, *rows][-3:]]
        loops = [n for nest in nests for loop in nest for n in loop]
        last = sum((n - 1) * step for n, step in zip(values.shape, values.stride(), strict=True))
        data = values.as_strided((last + 1,), (1,)).numpy().tobytes()
        limits = [gpu.sm_count, gpu.shared_bytes_per_block, gpu.shared_bytes_per_sm]
        limits += [10 * gpu.capability[0] + gpu.capability[1]]
        header = [DTYPES.index(values.dtype), num_bins, *loops, len(data), offset, *limits]
        done = subprocess.run(
            [str(emulator)],
            input=" ".join(map(str, header)).encode() + b"\n" + data,
            capture_output=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr.decode()
        names, counts = done.stdout.split(b"\n", 1)
        kernels = [name for name in names.decode().split() if name != "clear_counts"]
        shape = [n for n, _ in channels] + [num_bins]
        result = torch.frombuffer(bytearray(counts), dtype=torch.int64).view(shape)
        expected = expected_counts(values, num_bins, dim)
        assert_counts(result, expected, f"{list(values.shape)} on {gpu.name}")
        return ", ".join(kernels)

    return run


def random_values(*shape: int, dtype: torch.dtype = torch.uint8, below: int = 256) -> Tensor:
    values = torch.randint(0, below, shape, generator=torch.Generator().manual_seed(sum(shape)))
    return values.to(torch.uint8).view(dtype) if dtype == torch.int8 else values.to(dtype)


def wider_rows(values: Tensor, gap: int) -> Tensor:
    """The same, each row so many bytes behind the end of the one before."""
    channels = values.shape[-1]
    return torch.nn.functional.pad(values, (0, gap), value=7)[..., :channels]


# Of 512 channels 16 blocks count the rows of half a line, 32 a warp at a time, and 33 those of a
# whole one, 16 a warp. A block has 24 warps.
BLOCK_ROWS = [16 * 32 * 10, 16 * 32 * 10 + 1, 16 * 32 * 24 - 1, 16 * 32 * 24 + 31]
WHOLE_BLOCK_ROWS = [33 * 16 * 10, 33 * 16 * 10 + 1, 33 * 16 * 24 - 1, 33 * 16 * 24 + 15]


@pytest.mark.parametrize("length", [5000, 8209, *BLOCK_ROWS, *WHOLE_BLOCK_ROWS])
def test_rows_of_whole_lines(emulate: Emulate, length: int) -> None:
    values = random_values(1, length, 512)
    assert emulate(values) == "count_half_rows, fold_rows"
    assert emulate(wider_rows(values, 128)) == "count_half_rows, fold_rows"
    assert emulate(wider_rows(values, 16)) == "count_rows, fold_rows"


@pytest.mark.parametrize("channels", [16 * 6, 128, 144, 496, 1008, 2048])
def test_rows_of_any_quads(emulate: Emulate, channels: int) -> None:
    length = (5 << 20) // channels + 5
    values = random_values(1, length, channels)
    if channels % 128 == 0:
        assert emulate(values) == "count_half_rows, fold_rows"
    else:  # without gaps they are a stream
        emulate(values)
    assert emulate(wider_rows(values, -channels % 128)) == "count_half_rows, fold_rows"
    assert emulate(wider_rows(values, 16), offset=16) == "count_rows, fold_rows"


@pytest.mark.parametrize("length", [30_001, 33 * 4 * 32 * 24 + 31, 132 * 32 * 10])
@pytest.mark.parametrize("offset", [0, 16])
def test_rows_of_half_a_line(emulate: Emulate, length: int, offset: int) -> None:
    values = random_values(1, length, 64)
    assert emulate(values, offset=offset) == "count_half_rows, fold_rows"
    assert emulate(wider_rows(values, 16), offset=offset) == "count_half_rows, fold_rows"


@pytest.mark.parametrize("num_bins", [1, 3, 100, 127, 128, 129, 255, 300])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=["uint8", "int8"])
def test_bins_of_rows(emulate: Emulate, dtype: torch.dtype, num_bins: int) -> None:
    values = random_values(1, 8200, 256, dtype=dtype)
    assert emulate(values, num_bins) == "count_half_rows, fold_rows"
    assert emulate(values[:, :, 16:], num_bins, offset=16) == "count_rows, fold_rows"
    whole_units = random_values(140, 300, 64, dtype=dtype)
    assert emulate(whole_units, num_bins) == "count_half_rows"


@pytest.mark.parametrize("channels", [64, 128])
@pytest.mark.parametrize("length", [65_519, 65_520, 65_535, 65_536])
def test_counters_of_one_block_that_hold_much(emulate: Emulate, length: int, channels: int) -> None:
    kernels = emulate(random_values(1, length, channels, below=2), gpu=ONE_SM)
    if length < 65_536:
        assert kernels == ("count_half_rows" if channels == 64 else "count_rows")


# A block of two counts 65,520 rows, or by whole chunks one more than its counters hold.
@pytest.mark.parametrize(
    ("length", "channels"), [(131_040, 128), (131_070, 128), (131_008, 64), (131_070, 64)]
)
def test_counters_of_two_blocks_that_hold_much(
    emulate: Emulate, length: int, channels: int
) -> None:
    kernels = emulate(random_values(1, length, channels, below=1), gpu=TWO_SMS)
    rows = "count_half_rows" if channels == 64 else "count_rows"
    assert kernels.startswith("count_columns" if length == 131_070 else rows)


@pytest.mark.parametrize(
    ("shape", "kernels"),
    [
        ((3, 9000, 256), "count_half_rows, fold_rows"),
        ((12, 2500, 128), "count_half_rows, fold_rows"),
        ((40, 400, 128), "count_half_rows"),
        ((150, 400, 64), "count_half_rows"),
        ((50, 4000, 64), "count_half_rows, fold_rows"),
        ((150, 300, 128), "count_rows"),
        ((20, 200, 512), "count_rows"),
        ((9, 131, 2048), "count_rows"),
    ],
)
def test_batches_of_rows(emulate: Emulate, shape: tuple[int, int, int], kernels: str) -> None:
    values = random_values(*shape)
    assert emulate(values) == kernels
    assert emulate(wider_rows(values, 128)) == kernels
    apart = random_values(shape[0], shape[1] + 3, shape[2])[:, : shape[1]]
    assert emulate(apart) == kernels


@pytest.mark.parametrize("shape", [(1, 5003, 512), (2, 7000, 256), (1, 40_000, 128)])
def test_rows_on_a_smaller_gpu(emulate: Emulate, shape: tuple[int, int, int]) -> None:
    values = random_values(*shape)
    assert emulate(values, gpu=T4).startswith("count_half_rows")
    assert emulate(wider_rows(values, 16), gpu=T4).startswith("count_rows")


def test_batches_of_rows_on_a_smaller_gpu(emulate: Emulate) -> None:
    """Of 64 channels no block takes rows of two batches, even if some SMs then have none."""
    assert emulate(random_values(30, 2000, 64), gpu=T4) == "count_half_rows"
    assert emulate(random_values(30, 3000, 128), gpu=T4).startswith("count_columns")


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
    kernels = emulate(random_values(*shape, dtype=dtype, below=min(num_bins + 2, 256)), num_bins)
    assert kernels.startswith("count_columns")


@pytest.mark.parametrize("num_bins", [58_081, 65_536, 100_003, 150_001, 210_000])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_one_channel_in_many_bins(emulate: Emulate, dtype: torch.dtype, num_bins: int) -> None:
    """In two tables, three or four."""
    values = random_values(1, 1_200_001, 1, dtype=dtype, below=num_bins + 5000) - 100
    assert emulate(values, num_bins) == "count_columns"
    assert emulate(values[:, ::2], num_bins) == "count_columns"


# One block a plane and several, short ones in blocks of 256 threads; rows of 512 bytes and more,
# less, none left. Blocks that have one piece of a plane each, and blocks that have more.
PLANES = {
    (5, 3, 300_007): "count_planes",
    (1, 1, 2_000_001): "count_piece",
    (1, 700, 20_003): "count_planes",
    (1, 2, 512 * 3001): "count_piece",
    (9, 2, 150_700): "count_planes",
}


@pytest.mark.parametrize(("shape", "kernel"), PLANES.items(), ids=str)
@pytest.mark.parametrize("dim", [(2,), (0, 2)], ids=str)
def test_planes(
    emulate: Emulate, shape: tuple[int, int, int], kernel: str, dim: tuple[int, ...]
) -> None:
    values = random_values(*shape)
    assert emulate(values, dim=dim) == kernel
    apart = random_values(shape[0], shape[1], shape[2] + 21)[:, :, : shape[2]]
    assert emulate(apart, 100, dim=dim, offset=3) == kernel


# Blocks that each keep to one of them: 40, 39 and 38 of 40.
@pytest.mark.parametrize("planes", [20, 13, 38])
@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8], ids=str)
def test_planes_on_a_smaller_gpu(
    emulate: Emulate, planes: int, offset: int, dtype: torch.dtype
) -> None:
    values = random_values(planes, 1, 110_003, dtype=dtype)
    assert emulate(values, dim=(2,), offset=offset, gpu=T4) == "count_piece"
    images = random_values(planes, 40_001, 3, dtype=dtype)
    assert emulate(images, 300, offset=offset, gpu=T4) == "count_piece"


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("shape", [(1, 700_001), (40, 20_003), (200, 11_003)], ids=str)
def test_few_channels(emulate: Emulate, shape: tuple[int, int], channels: int) -> None:
    kernel = "count_piece" if shape[0] == 1 else "count_planes"
    values = random_values(*shape, channels)
    assert emulate(values) == kernel
    assert emulate(values, 100, dim=(0, 1), offset=5) == kernel
    apart = random_values(shape[0], shape[1] * channels + 3).as_strided(
        (*shape, channels), (shape[1] * channels + 3, channels, 1)
    )
    emulate(apart, dim=(0, 1), offset=1)
    assert emulate(apart, offset=1) == kernel


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8], ids=str)
def test_values_of_planes(emulate: Emulate, dtype: torch.dtype) -> None:
    assert emulate(random_values(2, 3, 400_000, dtype=dtype), dim=(2,)) == "count_planes"


# Tables have room for 8 MiB of two channels or four, 5.3 of three, and much more of one.
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_counters_of_planes_that_hold_much(emulate: Emulate, channels: int) -> None:
    values = random_values(1, (18 << 20) // channels, channels, below=1)
    kernel = "count_piece" if channels == 1 else "count_planes"
    assert emulate(values, gpu=ONE_SM) == kernel
    runs = random_values(70, 90_001, channels, below=1)
    assert emulate(runs, dim=(0, 1), gpu=ONE_SM) == "count_planes"


# Rows of 512 bytes that a table has room for, besides three that are not whole.
@pytest.mark.parametrize(("channels", "room"), [(2, 16_380), (3, 10_919), (4, 16_380)])
def test_a_piece_that_fills_its_counters(emulate: Emulate, channels: int, room: int) -> None:
    for rows, kernel in ((room, "count_piece"), (room + 1, "count_planes")):
        length = (512 * rows + 511) // channels
        values = random_values(1, length, channels, below=1)
        assert emulate(values, gpu=ONE_SM) == kernel
        assert emulate(values, offset=5, gpu=ONE_SM) == kernel


def cut(*shape: int, of: tuple[int, ...], dtype: torch.dtype = torch.uint8) -> Tensor:
    """A box of a larger array, from its first element on."""
    return random_values(*of, dtype=dtype)[tuple(slice(n) for n in shape)]


ONE_BYTE = [torch.bool, torch.uint8, torch.int8]
WIDER = [torch.uint16, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", [*ONE_BYTE, *WIDER], ids=str)
@pytest.mark.parametrize("offset", [0, 8])
def test_runs_of_planes(emulate: Emulate, dtype: torch.dtype, offset: int) -> None:
    values = cut(30, 201, 333, of=(30, 205, 341), dtype=dtype)
    for dim in ((1, 2), (0, 2), (2,), (0, 1, 2)):
        assert emulate(values, 300, dim=dim, offset=offset) == "count_runs"
        assert emulate(values, 90, dim=dim, offset=offset) == "count_runs"


# Rows of so many bytes, and from each to the next.
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
        assert emulate(values, 300, dim=dim, offset=offset) == "count_runs"


# A prime number of rows, which no table is full of.
@pytest.mark.parametrize("channels", [2, 3, 4, 5, 16, 31])
@pytest.mark.parametrize("offset", [0, 1])
def test_runs_of_channels(emulate: Emulate, channels: int, offset: int) -> None:
    runs, rows = (9 << 18) // (211 * channels), 211
    values = cut(runs, rows, channels, of=(runs, rows + 2, channels))
    assert emulate(values, dim=(0, 1), offset=offset) == "count_runs"
    values = cut(runs, rows, channels, of=(runs, rows + 2, channels + 1))
    assert emulate(values, 100, dim=(0, 1), offset=offset) == "count_runs"
    emulate(values, offset=offset)


@pytest.mark.parametrize("dtype", WIDER, ids=str)
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_runs_of_channels_of_wider_types(
    emulate: Emulate, dtype: torch.dtype, channels: int
) -> None:
    runs = (9 << 18) // (211 * channels * dtype.itemsize)
    values = cut(runs, 211, channels, of=(runs, 213, channels), dtype=dtype)
    assert emulate(values, 200, dim=(0, 1), offset=8) == "count_runs"


# In quads, in words and in words put together; several rows joined, or one.
@pytest.mark.parametrize("channels", [16, 48, 64, 100, 130, 333, 511, 512, 700])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_rows_in_runs(emulate: Emulate, channels: int, offset: int) -> None:
    runs = (5 << 20) // (24 * channels)
    values = cut(runs, 24, channels, of=(runs, 26, channels))
    kernels = emulate(values, 100, dim=(0, 1), offset=offset)
    assert kernels == "count_columns, fold_columns"
    sets = cut(3, runs // 3, 24, channels, of=(3, runs // 3 + 1, 28, channels))
    kernels = emulate(sets, dim=(0, 1, 2), offset=offset)
    assert kernels == "count_columns, fold_columns"
    emulate(sets, dim=(1, 2), offset=offset, gpu=TWO_SMS)
    gaps = cut(3, runs // 3, 24, channels, of=(3, runs // 3 + 1, 28, channels + 1))
    emulate(gaps, dim=(0, 1, 2), offset=offset)
    emulate(gaps, 100, dim=(1, 2), offset=offset)


@pytest.mark.parametrize("dtype", WIDER, ids=str)
@pytest.mark.parametrize("channels", [16, 48, 65])
def test_rows_in_runs_of_wider_types(emulate: Emulate, dtype: torch.dtype, channels: int) -> None:
    runs = (5 << 20) // (24 * channels * dtype.itemsize)
    values = cut(runs, 24, channels, of=(runs, 26, channels), dtype=dtype)
    for offset in (0, dtype.itemsize):
        assert "count_columns" in emulate(values, 200, dim=(0, 1), offset=offset)
        emulate(values[..., : channels - 1], 200, dim=(0, 1), offset=offset)


# Of a round and more, so many rows are left.
@pytest.mark.parametrize("left", [0, 1, 7, 8, 9])
def test_last_words_put_together(emulate: Emulate, left: int) -> None:
    rows = 192 * 19 + left
    values = cut(1, rows, 511, of=(1, rows, 1025))
    assert emulate(values, offset=3, gpu=ONE_SM) == "count_columns"
    runs = cut(9, rows // 9, 511, of=(9, rows // 9 + 3, 511))
    assert emulate(runs, offset=3, gpu=ONE_SM, dim=(0, 1)) == "count_columns"


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


@pytest.mark.parametrize("shape", [(9001, 200, 1), (1200, 500, 3), (2100, 50, 16), (70, 1000, 31)])
@pytest.mark.parametrize("gpu", [NO_CLUSTERS, H200, T4, ONE_SM], ids=lambda gpu: gpu.name)
def test_runs_of_small_units(emulate: Emulate, shape: tuple[int, int, int], gpu: Device) -> None:
    for num_bins in (256, 3, 100):
        emulate(random_values(*shape), num_bins, gpu=gpu)
    values = random_values(*shape, dtype=torch.int32)
    emulate(values, 100, gpu=gpu, offset=4)


@pytest.mark.parametrize(("channels", "step"), [(1, 2), (1, 3), (1, 4), (2, 3), (3, 4), (2, 4)])
@pytest.mark.parametrize("offset", [0, 1])
def test_gaps_of_planes(emulate: Emulate, channels: int, step: int, offset: int) -> None:
    values = cut(1, 1_000_003, channels, of=(1, 1_000_003, step))
    for num_bins in (256, 100):
        assert emulate(values, num_bins, offset=offset) == "count_piece"
    units = cut(50, 30_001, channels, of=(50, 30_001, step))
    if channels > 1:
        assert emulate(units, offset=offset) == "count_planes"


# Read as a stream, in words, in quads, and as rows that begin within words.
@pytest.mark.parametrize(
    ("channels", "step"),
    [(5, 8), (20, 32), (60, 64), (100, 128), (500, 512), (511, 600), (255, 511), (300, 301)],
)
@pytest.mark.parametrize("offset", [0, 1])
def test_gaps_of_rows(emulate: Emulate, channels: int, step: int, offset: int) -> None:
    length = (12 << 20) // step + 3
    values = cut(1, length, channels, of=(1, length, step))
    kernels = emulate(values, offset=offset)
    assert kernels.startswith("count_columns")
    two = cut(2, length // 2, channels, of=(2, length // 2, step))
    assert emulate(two, 100, offset=offset).startswith("count_columns")


@pytest.mark.parametrize("dtype", WIDER, ids=str)
@pytest.mark.parametrize(("channels", "step"), [(3, 4), (2, 3), (6, 8), (9, 11), (60, 65)])
def test_gaps_of_rows_of_wider_types(
    emulate: Emulate, dtype: torch.dtype, channels: int, step: int
) -> None:
    length = (4 << 20) // step // dtype.itemsize + 3
    values = cut(1, length, channels, of=(1, length, step), dtype=dtype)
    kernels = emulate(values, 200, offset=dtype.itemsize)
    assert kernels.startswith("count_runs" if step <= 4 else "count_columns")


@pytest.mark.parametrize(
    "shape",
    [(1, 5003, 512), (1, 16_384, 64), (1, 4097, 511), (2, 10_000, 128), (1, 70_001, 50)],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8], ids=str)
def test_clusters(emulate: Emulate, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    kernels = emulate(random_values(*shape, dtype=dtype, below=100), gpu=H200)
    assert kernels == "count_clustered"


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1000, 3), (4, 33, 17), (1, 4096, 8)], ids=str)
@pytest.mark.parametrize("gpu", [H200, T4], ids=lambda gpu: gpu.name)
def test_small(emulate: Emulate, shape: tuple[int, int, int], gpu: Device) -> None:
    for dtype in (torch.uint8, torch.int64):
        kernels = emulate(random_values(*shape, dtype=dtype), 128, gpu=gpu)
        assert kernels == "count_strided"


@pytest.mark.parametrize("below", [7, 1 << 17])
def test_small_in_many_bins(emulate: Emulate, below: int) -> None:
    values = random_values(1, 90_000, 1, dtype=torch.int32, below=below)
    assert emulate(values, 1 << 17) == "count_strided"


def test_an_address_out_of_bounds_is_seen(emulator: Path) -> None:
    """The checks would find something: a problem that claims one element more than there is."""
    header = "1 256 1 0 256 1 1 0 1 0 9000 256 2303999 0 132 232448 233472 90\n"
    done = subprocess.run(
        [str(emulator)], input=header.encode() + bytes(9000 * 256 - 1), capture_output=True
    )
    assert done.returncode != 0
    assert b"heap-buffer-overflow" in done.stderr
