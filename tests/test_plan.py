"""Plans for GPUs that need not be there, and `explain`, which puts them in words."""

from __future__ import annotations

import dataclasses
import doctest
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from conftest import constants_of
from emulator.compiler import Compiler, cache_of
from layouts import LONG, laid_out
from oracle import DTYPES

import torch_histo
from torch_histo import Device, Explanation, explain
from torch_histo.devices import DEVICES, numbers_of

pytestmark = pytest.mark.sampled(3)

H200 = DEVICES[0]
T4 = next(known for known in DEVICES if known.name == "T4")
TINY = Device("tiny", 1, 48 << 10, 64 << 10, (7, 5), 1e11)
ODD = [
    TINY,
    Device("three SMs", 3, 227 << 10, 228 << 10, (9, 0), 1e11),
    Device("32 SMs", 32, 99 << 10, 100 << 10, (12, 0), 1e11),
    Device("64 KiB", 61, 64 << 10, 96 << 10, (8, 0), 1e11),
    Device("128 KiB", 61, 128 << 10, 160 << 10, (10, 3), 1e11),
    Device("giant", 1021, 300 << 10, 304 << 10, (15, 0), 1e13),
]
GPUS = [*DEVICES, *ODD]
BINS = (1, 2, 9, 128, 256, 257, 5000, 16384, 65536, 100_000, 1 << 20)
TUNED = constants_of("csrc/cuda/policy*.h")

on_every_gpu = pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)


class Case(NamedTuple):
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    num_bins: int
    dim: tuple[int, ...]
    address: int = 0  # of the first element

    @property
    def channels(self) -> int:
        return math.prod(size for d, size in enumerate(self.sizes) if d not in self.dim)

    @property
    def rows(self) -> int:
        return math.prod(self.sizes) // self.channels


def contiguous(
    sizes: tuple[int, ...],
    dtype: torch.dtype = torch.uint8,
    num_bins: int = 256,
    dim: tuple[int, ...] = (0,),
) -> Case:
    strides = tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes)))
    return Case(dtype, sizes, strides, num_bins, dim)


def plan_of(case: Case, gpu: Device) -> dict[str, Any]:
    text = torch.ops.histo._plan_channel_histogram(
        str(case.dtype).removeprefix("torch."),
        case.sizes,
        case.strides,
        case.address,
        numbers_of(gpu),
        case.num_bins,
        case.dim,
    )
    return {name: fact for group in json.loads(text).values() for name, fact in group.items()}


def explained(case: Case, gpu: Device | str, capsys: pytest.CaptureFixture[str]) -> Explanation:
    """The explanation of a case, which prints nothing."""
    capsys.readouterr()
    shape: Any = case.sizes
    if case.strides != contiguous(case.sizes).strides:
        shape = torch.empty_strided(case.sizes, case.strides, dtype=case.dtype, device="meta")
    explanation = explain(shape, case.num_bins, case.dim, dtype=case.dtype, device=gpu)
    assert isinstance(explanation, Explanation)
    assert capsys.readouterr().out == ""
    return explanation


@pytest.fixture(scope="session")
def planner(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[subprocess.Popen[str]]:
    """The program tests/emulator/plans.cpp: the planner, and what must hold for its plans."""
    folder = tmp_path_factory.mktemp("plans")
    compiler = Compiler(folder, cache_of(pytestconfig, folder))
    sources = [
        f"csrc/{name}.cpp" for name in ("torch/loops", "emulator/invariants", "emulator/plans")
    ]
    sources += compiler.planner()
    with compiler.alone():
        program = compiler.link("plans", [compiler.object_of(source) for source in sources])
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def path_of(planner: subprocess.Popen[str], case: Case, gpu: Device) -> str:
    """Checks a plan, and returns the path that its kernels take."""
    assert planner.stdin is not None
    assert planner.stdout is not None
    kept = [d for d in range(len(case.sizes)) if d not in case.dim]
    loops = [part for loop in zip(case.sizes, case.strides, strict=True) for part in loop]
    line = [DTYPES.index(case.dtype), case.num_bins, len(case.sizes), *loops, len(kept), *kept]
    line += [case.address, *numbers_of(gpu)]
    print(*line, file=planner.stdin, flush=True)
    path, wrong = planner.stdout.readline().rstrip("\n").split(":")
    assert wrong == "", f"{path}: {case} on {gpu}"
    return path


MOST_BYTES = 1 << 37
"""The memory of a GPU holds this."""
GAPS = (0, 0, 0, 1, 3, 4, 16, 64, 1000, 1 << 22)
WIDTHS = (3, 48, 64, 100, 127, 128, 255, 256, 448, 511, 512, 2048)


def up_to(rng: Random, log: int) -> int:
    """All magnitudes alike."""
    return int(2 ** rng.uniform(0, log))


def random_shape(rng: Random) -> tuple[list[int], list[int]]:
    """Sizes and dimensions to count over: those that engines have ways for, and any others."""
    few, many = up_to(rng, 6), up_to(rng, 11)
    width = rng.choice([many, rng.choice(WIDTHS), rng.choice(WIDTHS)])
    kinds: list[tuple[list[int], list[list[int]]]] = [
        ([LONG, width], [[0]]),
        ([LONG, rng.choice(WIDTHS)], [[0]]),
        ([many, LONG, width], [[1], [0, 1]]),
        ([LONG], [[0]]),
        ([few, many, LONG], [[2], [0, 2]]),
        ([many, LONG, rng.randint(1, 5)], [[1], [0, 1]]),
        ([LONG, up_to(rng, 11), up_to(rng, 11), few], [[1, 2], [0, 1, 2], [2, 3], [0, 2, 3]]),
        ([LONG, up_to(rng, 5), up_to(rng, 5), width], [[0, 1, 2], [1, 2]]),
        (rng.sample([LONG, many, few], 3), [rng.sample([0, 1, 2], rng.randint(1, 3))]),
    ]
    sizes, dims = rng.choice(kinds)
    return sizes, rng.choice(dims)


def random_case(rng: Random) -> Case:
    """A case of any size that memory holds: dimensions in any order, with gaps, at any address."""
    while True:
        dtype = rng.choice([torch.uint8, *DTYPES])
        sizes, dim = random_shape(rng)
        # Mostly some MiB and more: small inputs all have the same kind of plan.
        log = rng.choice([rng.uniform(19, 37), rng.uniform(19, 27), rng.uniform(0, 37)])
        elements = int(2**log) // dtype.itemsize
        sizes, strides, extent = laid_out(rng, sizes, elements, GAPS)
        address = rng.choice([0, rng.randint(0, 16) * dtype.itemsize])
        case = Case(dtype, tuple(sizes), tuple(strides), 256, tuple(dim), address)
        powers = (1 << rng.randint(0, 22)) + rng.randint(0, 1)
        bins = rng.choice([256, rng.choice(BINS), rng.randint(1, 70_000), powers])
        case = case._replace(num_bins=min(bins, max(MOST_BYTES // 8 // case.channels, 1)))
        if max(8 * case.channels, extent * dtype.itemsize) <= MOST_BYTES:
            return case


@on_every_gpu
def test_what_holds_for_every_plan(planner: subprocess.Popen[str], gpu: Device) -> None:
    """See tests/emulator/invariants.cpp; and the operator tells of the same plan."""
    rng = Random(gpu.name)
    by_columns = {"rows", "interleaved", "planar", "clustered"}
    for _ in range(300):
        case = random_case(rng)
        path = path_of(planner, case, gpu).split()
        plan = plan_of(case, gpu)
        assert plan["method"] in path or plan.get("counted_by") in path, case
        assert (plan["method"] == "interleaved") == (path[0] in by_columns), case
        assert (plan["method"] == "atomics") == ("atomics" in path), case
        assert (plan["reduce_blocks"] > 0) == ("reduces" in path), case
        assert plan["clears_counts"] == ("clears" in path), case
        assert plan["launches"] == 1 + ("clears" in path) + ("reduces" in path), case
        assert plan["workspace_bytes"] <= plan["blocks"] * gpu.shared_bytes_per_block, case
        assert plan["bytes_read"] == math.prod(case.sizes) * case.dtype.itemsize, case
        assert plan["bytes_of_counts"] == case.channels * case.num_bins * 8, case
        assert not plan["copies_input"], case
        # It is a function of its arguments, and of where the data begin in a line.
        assert plan_of(case._replace(address=case.address + 4096), gpu) == plan, case


def described_otherwise(rng: Random, case: Case) -> Case:
    """The same elements: dimensions split in two, others of one step, those counted over moved."""
    dimensions: list[tuple[int, int, bool]] = []
    over = [case.strides[d] for d in case.dim]
    for d, (size, stride) in enumerate(zip(case.sizes, case.strides, strict=True)):
        counted = d in case.dim
        part = math.gcd(size, rng.choice([2, 3, 4, 6, 30]))
        # Loops over rows are sorted by strides, so no other one may come between the parts.
        between = [s for s in over if counted and stride < s <= part * stride]
        if 1 < part < size and not between:
            dimensions += [(size // part, part * stride, counted), (part, stride, counted)]
        else:
            dimensions.append((size, stride, counted))
    if len(set(over)) == len(over):
        places = [i for i, dimension in enumerate(dimensions) if dimension[2]]
        moved = rng.sample(places, len(places))
        was = list(dimensions)
        for place, other in zip(places, moved, strict=True):
            dimensions[place] = was[other]
    for _ in range(3):
        place = rng.randint(0, len(dimensions))
        dimensions.insert(place, (1, rng.randint(1, 1000), rng.random() < 0.5))
    sizes, strides, reduced = zip(*dimensions, strict=True)
    dim = tuple(d for d, counted in enumerate(reduced) if counted)
    return case._replace(sizes=sizes, strides=strides, dim=dim)


def test_a_plan_is_of_elements_not_of_dimensions() -> None:
    rng = Random(0)
    for _ in range(300):
        case = random_case(rng)
        same = described_otherwise(rng, case)
        assert plan_of(same, H200) == plan_of(case, H200), (case, same)


@pytest.mark.parametrize(
    "case",
    [
        contiguous((20, 21, 22, 23, 24, 25), torch.int32, dim=(0, 2, 4)),
        contiguous((9, 2, 9, 2, 9, 2, 9, 2), torch.int64, dim=(0, 2, 4, 6)),
        Case(torch.int32, (30, 40, 50, 60), (300_000, 7000, 130, 2), 256, (0, 1, 2, 3)),
        Case(torch.int32, (30, 40, 50, 60, 1), (1, 30, 72_000, 1200, 1), 256, (4,)),
    ],
)
def test_the_plan_of_a_copy_is_that_of_a_contiguous_input(case: Case) -> None:
    """Kept dimensions come first in the copy."""
    copy = contiguous((case.channels, case.rows), case.dtype, dim=(1,))
    expected = plan_of(copy, H200)
    assert not expected["copies_input"]
    moved = expected["bytes_moved"] + 2 * expected["bytes_read"]
    assert plan_of(case, H200) == {**expected, "copies_input": True, "bytes_moved": moved}


@on_every_gpu
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("tail", [(), (3,), (64,), (511,), (512,)])
def test_workspace_does_not_grow_with_the_input(
    gpu: Device, dtype: torch.dtype, tail: tuple[int, ...]
) -> None:
    workspaces = [
        plan_of(contiguous((1 << log, *tail), dtype), gpu)["workspace_bytes"] for log in (20, 26)
    ]
    most = gpu.sm_count * gpu.shared_bytes_per_block
    assert workspaces[1] <= max(workspaces[0], most)
    beyond = plan_of(contiguous((1 << 30, *tail), dtype), gpu)["workspace_bytes"]
    assert beyond <= max(workspaces[1], most)


def test_launches() -> None:
    """Counting and a reduction, or one launch, or zeroed counts that blocks add to."""
    plan = plan_of(contiguous((1 << 20, 512)), H200)
    assert (plan["method"], plan["access"], plan["launches"]) == ("interleaved", "16 bytes", 2)
    assert plan["blocks"] == H200.sm_count // plan["groups"] * plan["groups"]

    in_clusters = contiguous((TUNED["kMaxBytesForClusters"] // 768, 512))
    plan = plan_of(in_clusters, H200)
    assert (plan["launches"], plan["cluster"]) == (1, TUNED["kMaxCluster"])
    assert plan["blocks"] == plan["cluster"] * plan["groups"]
    plan = plan_of(contiguous((1 << 15, 256)), H200)
    assert (plan["launches"], plan["cluster"], plan["reduce_blocks"]) == (2, 8, 0)
    assert plan["blocks"] <= H200.sm_count

    for small in (contiguous((65_536,), torch.int64), contiguous((4096, 8), torch.int32, 128)):
        plan = plan_of(small, H200)
        assert plan["launches"] == 1
        assert plan["blocks"] == plan["cluster"] * plan["tiles"]

    plan = plan_of(contiguous((1 << 29,)), H200)
    assert (plan["workspace_bytes"], plan["launches"]) == (0, 2)


def test_half_tables() -> None:
    """Bytes whose rows begin with lines, unless they are too many for counters of 16 bits."""
    whole = contiguous((1 << 17, 512))
    half_columns, all_columns = TUNED["kHalfColumns"], TUNED["kByteColumns"]
    halves = {
        "half lines": (whole, True),
        "65,536 rows a block": (contiguous((1 << 20, 512)), False),
        "65,504 rows a block": (contiguous((65_504 * 16, 512)), True),
        "64 channels": (contiguous((1 << 20, 64)), True),
        "64 channels, any vec16s": (contiguous((1 << 20, 64))._replace(address=16), True),
        "64 channels, words": (contiguous((1 << 22, 64))._replace(address=4), False),
        "rows cut anew": (contiguous((1 << 17, 448)), False),
        "lines with gaps": (whole._replace(strides=(640, 1)), True),
        "few of each line": (whole._replace(sizes=(1 << 17, 80), strides=(128, 1)), True),
        "within lines": (whole._replace(strides=(528, 1)), False),
        "begins within a line": (whole._replace(address=64), False),
        "batches": (contiguous((16, 1 << 13, 512), dim=(1,)), True),
        "more batches than blocks": (contiguous((200, 1 << 10, 128), dim=(1,)), False),
        "more of 64 channels": (contiguous((200, 1 << 12, 64), dim=(1,)), True),
        "not many more": (contiguous((100, 1 << 12, 64), dim=(1,)), True),
        "fewer": (contiguous((50, 1 << 14, 64), dim=(1,)), True),
        "no rows of bytes": (contiguous((1 << 17, 512), torch.bool), False),
    }
    for name, (case, expected) in halves.items():
        plan = plan_of(case, H200)
        columns = half_columns if expected else all_columns
        assert plan["method"] == "interleaved", name
        assert plan["table_counters_per_key"] == columns, name
        assert plan["shared_bytes"] == columns * 256 * 2, name
        if expected:
            assert plan["counted_by"] == "rows", name
            assert not plan["shares_lines"], name


def test_rows_or_clusters() -> None:
    """A few MiB are counted in clusters, but of few channels several clusters would add."""
    most = TUNED["kMaxBytesForClusters"]
    for channels in (256, 512, 1024):
        for rows, expected in ((most // channels, "clustered"), (most // channels + 512, "rows")):
            plan = plan_of(contiguous((rows, channels)), H200)
            assert plan["counted_by"] == expected, (rows, channels)
    for channels in (64, 128):
        for size in (most // 4, most, 2 * most):
            assert plan_of(contiguous((size // channels, channels)), H200)["counted_by"] == "rows"


def test_without_clusters() -> None:
    """Without clusters, counts are zeroed and added to; with them one launch is enough."""
    for case in (contiguous((65_536,), torch.int64), contiguous((1 << 14, 512))):
        plan = plan_of(case, dataclasses.replace(H200, capability=(8, 9)))
        assert plan["cluster"] == 1
        assert plan["launches"] <= 2


def test_alignment() -> None:
    aligned = Case(torch.uint8, (1 << 20, 512), (1024, 1), 256, (0,), 0)
    access = {a: plan_of(aligned._replace(address=a), H200)["access"] for a in (0, 4, 1, 16)}
    assert access == {0: "16 bytes", 4: "words", 1: "words put together", 16: "16 bytes"}
    odd = aligned._replace(strides=(1023, 1))
    assert plan_of(odd, H200)["access"] == "words put together"
    # Without gaps a stream finds aligned words.
    stream = plan_of(contiguous((1 << 21, 255)), H200)
    assert (stream["stream"], stream["access"], stream["columns"] % (4 * 255)) == (True, "words", 0)


@pytest.mark.parametrize("gpu", [TINY, ODD[1]], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16], ids=str)
@pytest.mark.parametrize("gap", [0, 4, 600])
def test_counters_at_their_limits(
    planner: subprocess.Popen[str], gpu: Device, dtype: torch.dtype, gap: int
) -> None:
    """Blocks have about as many rows as counters of 16 bits hold."""
    for channels in (1, 2, 3, 4, 5, 64, 100, 128, 511, 512):
        case = contiguous((1 << 24, channels), dtype, 200)._replace(strides=(channels + gap, 1))
        columns = max(plan_of(case, gpu).get("columns", 0), channels + gap)
        for limit in (1 << 16, (1 << 16) // 4, (1 << 16) // 6):
            for rows in range(limit - 12, limit + 4):
                length = rows * gpu.sm_count * columns // (channels + gap)
                path_of(planner, case._replace(sizes=(length, channels)), gpu)


def test_sums_of_the_reduce_hold_all_rows(planner: subprocess.Popen[str]) -> None:
    """Columns of a channel are summed in 32 bits, if it has no more elements than they hold."""
    few, many = ((rows, 5) for rows in ((1 << 32) - 1000, (1 << 32) + 4))
    assert "sums-columns" in path_of(planner, contiguous(few, torch.uint32), H200)
    assert "sums-columns" not in path_of(planner, contiguous(many, torch.uint32), H200)


def test_counters_of_partitioned_bins(planner: subprocess.Popen[str]) -> None:
    """They have 32 bits, and all that an owner is left may be of one bin."""
    few, many = (contiguous((size,), torch.uint16, 1 << 16) for size in (1 << 33, 1 << 36))
    assert path_of(planner, few, H200).startswith("partitioned")
    assert path_of(planner, many, H200).startswith("generic atomics")


def test_lines_that_neighbouring_blocks_share() -> None:
    whole = contiguous((1 << 20, 512))
    wide = contiguous((1 << 22, 64), torch.int32, 1024)
    shared = {
        "whole lines": (whole, False),
        "one table": (contiguous((1 << 22, 128)), False),
        "short rows, cut anew": (contiguous((1 << 22, 127)), True),
        "lines of 32 columns": (wide, False),
        "begins within a line": (whole._replace(address=64), True),
        "rows that begin within lines": (contiguous((1 << 20, 500)), True),
        "within words": (contiguous((1 << 20, 511)), True),
        "within lines, apart": (whole._replace(strides=(544, 1)), True),
        "quarters of lines": (contiguous((1 << 23, 64), torch.int16, 4096), True),
        "bins dealt to tables": (contiguous((1 << 28,), torch.int32, 1 << 16), True),
        "one channel": (contiguous((1 << 29,)), False),
        "channels one after another": (contiguous((512, 1 << 20), dim=(1,)), False),
        "small": (contiguous((4096, 8), torch.int32, 128), False),
    }
    for name, (case, expected) in shared.items():
        assert plan_of(case, H200)["shares_lines"] is expected, name


def share(rows: int, channels: int) -> int:
    """Rows of a block, where all SMs share all channels."""
    return -(-rows * channels // H200.sm_count)


@pytest.mark.parametrize(("address", "rows"), [(0, 2048), (16, 2048), (1, 2047)])
def test_rows_behind_an_aligned_address(address: int, rows: int) -> None:
    images = contiguous((512, 1 << 20), dim=(1,))._replace(address=address)
    plan = plan_of(images, H200)
    assert (plan["columns"], plan["blocks"]) == (TUNED["kWarpBytes"], H200.sm_count)
    assert plan["rows_per_block"] == share(rows, 512)


def test_rows_of_runs_that_begin_differently() -> None:
    plan = plan_of(contiguous((512, (1 << 20) + 4), dim=(1,)), H200)
    assert plan["rows_per_block"] == share(2047, 512)


def test_rare_strides() -> None:
    case = contiguous((4, 5, 6, 7, 8, 9), torch.int32, dim=(0, 2, 4))
    plan = plan_of(case, H200)
    assert plan["copies_input"]
    assert plan_of(case._replace(address=4), H200) == plan  # the copy is aligned
    # A box cut from four dimensions that are all counted over needs four loops.
    box = Case(torch.uint8, (9, 100, 100, 3), (1 << 20, 1 << 12, 1 << 3, 1), 256, (0, 1, 2, 3))
    assert plan_of(box, H200)["copies_input"]
    assert not plan_of(box._replace(dim=(0, 1, 2)), H200)["copies_input"]


@pytest.mark.parametrize(("sizes", "launches"), [((0, 5), 1), ((5, 0), 0), ((0,), 1)])
def test_nothing_to_count(
    sizes: tuple[int, ...], launches: int, capsys: pytest.CaptureFixture[str]
) -> None:
    explanation = explained(contiguous(sizes), H200, capsys)
    assert explanation.method == "nothing to count"
    assert explanation.launches == launches == len(explanation.steps)
    assert "nothing to count" in str(explanation)


# A case, and facts of its plan.
PLANS: dict[str, tuple[Case, dict[str, Any]]] = {
    "columns": (
        contiguous((1 << 20, 512)),
        {"columns": 512, "columns_per_channel": 1, "load_bytes": 16},
    ),
    "stream": (contiguous((1 << 21, 255)), {"stream": True, "channels": 255}),
    "one channel": (
        contiguous((1 << 29,)),
        {"channels": 1, "workspace_bytes": 0, "clears_counts": True},
    ),
    "planes": (contiguous((64, 32, 1 << 16), dim=(0, 2)), {"channels": 1, "batches": 32}),
    "a gap": (
        Case(torch.uint8, (1 << 20, 3), (4, 1), 256, (0,)),
        {"channels": 3, "gap_channels": 1, "bytes_of_gaps": 1 << 20},
    ),
    "a wide gap": (
        Case(torch.uint8, (1 << 20, 500), (513, 1), 256, (0,)),
        {"channels": 500, "gap_channels": 13, "bytes_of_gaps": 13 << 20},
    ),
    "runs": (
        Case(torch.uint8, (16, 3, 1600, 1600), (8_670_000, 2_890_000, 1700, 1), 256, (2, 3)),
        {"method": "runs", "batches": 48, "channels": 1, "runs": 1600, "run_bytes": 1600},
    ),
    "small segments": (
        contiguous((5000, 32, 32), dim=(1, 2)),
        {"method": "runs", "runs": 1, "run_bytes": 1024},
    ),
    "runs of channels": (
        Case(torch.uint8, (4000, 31, 20), (33 * 20, 20, 1), 256, (0, 1)),
        {"method": "runs", "channels": 20, "runs": 4000, "run_bytes": 620},
    ),
    "short rows of one channel": (
        Case(torch.uint8, (100_000, 3, 20, 20), (3 * 24 * 25, 24 * 25, 25, 1), 256, (0, 2, 3)),
        {"runs": 100_000, "run_bytes": 495, "run_bytes_between": 95},
    ),
    "rows in runs": (
        Case(torch.uint8, (32, 250, 256, 64), (266 * 260 * 64, 266 * 64, 64, 1), 256, (0, 1, 2)),
        {"method": "interleaved", "channels": 64, "runs": 8000},
    ),
    "dealt bins": (
        contiguous((1 << 26,), torch.int32, 100_000),
        {"method": "interleaved", "channels": 1, "table_counters_per_key": 1},
    ),
    "tiles": (
        contiguous((4096, 8), torch.int32, 128),
        {"method": "generic", "access": "elements", "load_bytes": 4},
    ),
    "cluster": (contiguous((65_536,), torch.int64), {"method": "generic", "launches": 1}),
    "clusters": (
        contiguous((1 << 14, 512)),
        {"counted_by": "clustered", "steps": ["count_clustered"], "load_bytes": 4},
    ),
    "clusters that add": (
        contiguous((1 << 15, 256)),
        {"counted_by": "clustered", "steps": ["zeroing", "count_clustered"]},
    ),
    "atomics": (
        contiguous((1 << 20,), torch.int32, 1 << 20),
        {"method": "atomics", "counter_bits": 64},
    ),
    "partitioned": (
        contiguous((1 << 28,), torch.int32, 1 << 20),
        {"method": "partitioned", "clears_counts": True},
    ),
    "copy": (contiguous((4, 5, 6, 7, 8, 9), torch.int32, dim=(0, 2, 4)), {"copies_input": True}),
    "bool": (contiguous((1 << 20, 512), torch.bool, 2), {"bytes_of_counts": 512 * 2 * 8}),
    "few channels": (contiguous((1 << 22, 3)), {"channels": 3, "workspace_bytes": 0}),
    "batches": (contiguous((8, 1 << 16, 128), dim=(1,)), {"batches": 8, "columns": 128}),
    "empty bins": (contiguous((100,), torch.int8), {"bytes_of_counts": 256 * 8}),
    "all dims": (contiguous((100, 100), dim=()), {"bytes_of_counts": 256 * 8}),
    "number": (contiguous((), dim=()), {"bytes_read": 1}),
}


@pytest.mark.parametrize("name", PLANS)
def test_facts(name: str) -> None:
    case, facts = PLANS[name]
    plan = plan_of(case, H200)
    assert {fact: plan[fact] for fact in facts} == facts


@pytest.mark.parametrize("gpu", [*DEVICES, TINY], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("name", PLANS)
def test_text_is_the_plan(name: str, gpu: Device, capsys: pytest.CaptureFixture[str]) -> None:
    case, _ = PLANS[name]
    plan = plan_of(case, gpu)
    explanation = explained(case, gpu, capsys)
    title, *rest = str(explanation).splitlines()
    dtype = str(case.dtype).removeprefix("torch.")
    over = f"dim{'s' * (len(case.dim) > 1)} {', '.join(map(str, case.dim))}"
    assert title.startswith(
        f"channel_histogram of {list(case.sizes)} {dtype} over {over if case.dim else 'all dims'}, "
    )
    assert f" on {gpu.name} ({gpu.sm_count} SM" in title
    assert all(len(line) <= 120 for line in rest)
    names = [line[2:13].strip() for line in rest if line[2] != " "]
    assert names == ["layout", "table", "grid", "launches", "memory", "predicted"]
    text = " ".join(str(explanation).split())
    for key, value in plan.items():
        expected = tuple(value) if key == "steps" else value
        assert getattr(explanation, key) == expected, key
        words = key.replace("_", " ")
        if key == "steps":
            assert f"launches {plan['launches']}, {' then '.join(value)}" in text
        elif isinstance(value, str):
            assert value in text
        elif isinstance(value, bool):
            assert not value or words in text or key in ("copies_input", "shares_lines")
        elif value and "bytes" not in key and key != "launches":
            assert f"{words} {value:,}" in text
    gap = re.search(r" gaps ([\d,.]+) (\w+)", text)
    assert (gap is not None) == (plan["bytes_of_gaps"] > 0)
    shared = re.search(r" shared bytes ([\d,.]+) (B|KiB)", text)
    assert shared is not None
    stated = float(shared[1].replace(",", "")) * (1024 if shared[2] == "KiB" else 1)
    assert stated == pytest.approx(plan["shared_bytes"], rel=0.01)
    assert re.match(r"at least [\d,.e+-]+ us, at [\d.]+ TB/s", rest[-1][13:])


def test_names_of_facts_are_documented() -> None:
    """Those of every plan here, and of a CPU's; and a name that no plan has is an error."""
    known = (Path(__file__).parents[1] / "docs/profiling.md").read_text()
    names = {name for case, _ in PLANS.values() for name in plan_of(case, H200)}
    for name in names:
        assert getattr(explain((4, 3), device=H200), name) is not None
    for dtype, shape in ((torch.uint8, (1 << 20, 64)), (torch.int64, (100,))):
        plan = explain(shape, 1 << 10, dtype=dtype, device="cpu")
        names |= {name for group in plan.facts.values() for name in group}
    for name in names:
        assert f"`{name}`" in known, name
    with pytest.raises(AttributeError, match="Explanation has no fact 'colums'"):
        explain((4, 3), device=H200).colums  # noqa: B018


def test_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    case = contiguous((1 << 20, 512))
    explanation = explained(case, "H200", capsys)
    expected = ((512 << 20) + (1 << 20)) / 4.8e12
    assert explanation.predicted_seconds == pytest.approx(expected)
    assert "at least 112 us, at 4.8 TB/s" in str(explanation)
    assert "bytes read 512 MiB, bytes of counts 1 MiB" in str(explanation)

    unknown = explained(case, dataclasses.replace(H200, bytes_per_second=None), capsys)
    assert unknown.predicted_seconds is None
    assert "predicted  unknown" in str(unknown)

    # Elements that share memory are read from it once; a copy is written and read again.
    one = explain(torch.zeros(1, dtype=torch.uint8).expand(1 << 20, 64), device=H200)
    assert one.bytes_moved == 1 + one.bytes_of_counts
    copied = explained(PLANS["copy"][0], H200, capsys)
    assert copied.bytes_moved == 3 * copied.bytes_read + copied.bytes_of_counts


def test_tensors() -> None:
    """A tensor's dtype, strides and address count."""
    base = torch.zeros(20_000, 1025, dtype=torch.uint8)
    explanation = explain(base[:, 1:512], dtype=torch.int64, device=H200)
    assert (explanation.dtype, explanation.shape) == (torch.uint8, (20_000, 511))
    assert explanation.access == "words put together"
    assert explain(base.to("meta")[:, 1:512]).access == "words put together"
    transposed = explain(base.t(), dim=1, device=H200)
    assert dataclasses.replace(transposed, shape=base.shape, dim=(0,)) == explain(base, device=H200)


@pytest.mark.parametrize("input", [(20, 30), torch.zeros(20, 30, dtype=torch.uint8, device="meta")])
def test_a_gpu_that_nobody_named(monkeypatch: pytest.MonkeyPatch, input: Any) -> None:
    """The first line says so; it is the one that is there, or an H200."""
    assert not explain(input, device="H200").device_is_assumed
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    explanation = explain(input)
    assert explanation.device_is_assumed
    assert " on an assumed H200 (" in repr(explanation).splitlines()[0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: gpu_properties(str(device), 0, 0)
    )
    assert " on an assumed cuda:3 (" in repr(explain(input)).splitlines()[0]


def test_the_text_is_the_repr(capsys: pytest.CaptureFixture[str]) -> None:
    explanation = explained(contiguous((1 << 20, 512)), H200, capsys)
    assert repr(explanation) == str(explanation)
    assert " on H200 (132 SMs, " in repr(explanation).splitlines()[0]


@pytest.mark.parametrize("name", ["rtx 4090", "RTX4090", "Rtx 4090"])
def test_names(name: str) -> None:
    assert explain((4, 3), device=name).device.name == "RTX 4090"


def gpu_properties(name: str, clock: int, width: int) -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        multi_processor_count=132,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        major=9,
        minor=0,
        memory_clock_rate=clock,
        memory_bus_width=width,
    )


@pytest.mark.parametrize(
    ("name", "clock", "width", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", 2_619_000, 5120, 3.35e12),
        ("NVIDIA H200", 0, 6144, 4.8e12),
        ("Tesla T4", 0, 0, 0.32e12),
        ("NVIDIA GeForce RTX 4090", 0, 0, 1.008e12),
        ("NVIDIA H100 NVL", 0, 0, None),
    ],
)
def test_limits_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, name: str, clock: int, width: int, bandwidth: float | None
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: gpu_properties(name, clock, width)
    )
    device = explain((4, 3), device="cuda:0").device
    expected = dataclasses.replace(H200, name=name, bytes_per_second=None)
    assert dataclasses.replace(device, bytes_per_second=None) == expected
    assert (device.bytes_per_second or 0) == pytest.approx(bandwidth or 0, rel=0.01)


KNOWN = "H200, H100, A100, RTX 4090, L40S, T4, B200"
ERRORS: dict[str, tuple[type[Exception], tuple[Any, ...], dict[str, Any], str]] = {
    "unknown device": (
        ValueError,
        ((4, 3),),
        {"device": "H300"},
        f"explain: device must be cpu, a CUDA device, a Device or one of {KNOWN}, got 'H300'",
    ),
    "no CUDA device": (
        ValueError,
        ((4, 3),),
        {"device": torch.device("meta")},
        f"explain: device must be cpu, a CUDA device, a Device or one of {KNOWN}, got 'meta'",
    ),
    "a number": (
        TypeError,
        (3,),
        {},
        "explain: input must be a tensor, an array, an image or a shape, got int",
    ),
    "words": (
        TypeError,
        ("12",),
        {},
        "explain: input must be a tensor, an array, an image or a shape, got str",
    ),
    "half a size": (
        TypeError,
        ((2.5,),),
        {},
        "explain: input must be a shape of ints, got (2.5,)",
    ),
    "negative size": (
        ValueError,
        ((3, -4),),
        {},
        "explain: input must be a shape without negatives, got [3, -4]",
    ),
    "huge": (
        ValueError,
        ((1 << 40, 1 << 30),),
        {},
        f"explain: input must take less than 2^62 bytes, got [{1 << 40}, {1 << 30}]",
    ),
    "too many bins": (
        ValueError,
        ((3,), 1 << 59),
        {},
        "explain: num_bins must be so few that the counts take less than 2^62 bytes, "
        f"got {1 << 59}",
    ),
    "dtype by name": (
        TypeError,
        ((3,),),
        {"dtype": "uint8"},
        "explain: dtype must be a torch.dtype, got str",
    ),
    "float": (
        RuntimeError,
        ((3,),),
        {"dtype": torch.float32},
        "channel_histogram: input must have an integer or bool dtype, got float32",
    ),
    "bins of 4.9": (
        TypeError,
        ((3,), 4.9),
        {},
        "channel_histogram: num_bins must be an int of 64 bits, got 4.9",
    ),
    "bins of a tensor": (
        TypeError,
        ((3,), torch.tensor(4.9)),
        {"device": "H200"},
        "channel_histogram: num_bins must be an int of 64 bits, got tensor(4.9000)",
    ),
    "bins beyond 64 bits": (
        TypeError,
        ((3,), 1 << 63),
        {},
        f"channel_histogram: num_bins must be an int of 64 bits, got {1 << 63}",
    ),
    "dim beyond 64 bits": (
        TypeError,
        (torch.zeros(3, dtype=torch.uint8), 4, 1 << 63),
        {},
        f"channel_histogram: dim must be an int or a sequence of ints of 64 bits, got {1 << 63}",
    ),
    "nested": (
        RuntimeError,
        (torch.nested.nested_tensor([torch.zeros(3), torch.zeros(2)], dtype=torch.int64), 4),
        {},
        "channel_histogram: input must be a dense tensor, got a nested one: pass the tensors",
    ),
    "bins": (RuntimeError, ((3,), -1), {}, "channel_histogram: num_bins must be at least 0"),
    "dim": (RuntimeError, ((3,), 2, 1), {}, "channel_histogram: dim must be between -1 and 0"),
    "sparse": (
        RuntimeError,
        (torch.zeros(3, dtype=torch.uint8).to_sparse(),),
        {},
        "channel_histogram: input must be a dense tensor, got layout sparse_coo",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    kind, arguments, options, line = ERRORS[name]
    with pytest.raises(kind, match=f"^{re.escape(line)}") as caught:
        explain(*arguments, **options)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match=r"^Device: sm_count must be at least 1, got 0$"):
        dataclasses.replace(H200, sm_count=0)
    with pytest.raises(ValueError, match=r"^Device: bytes_per_second must be above 0 or None"):
        dataclasses.replace(H200, bytes_per_second=0.0)


def test_examples_in_docstrings() -> None:
    module = sys.modules["torch_histo.explain"]  # the package gives the function this name
    results = doctest.testmod(module, extraglobs={"torch": torch, "torch_histo": torch_histo})
    assert results.attempted >= 2
    assert results.failed == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_no_gpu() -> None:
    line = "explain: device must be a GPU that PyTorch finds, got cuda:1"
    with pytest.raises(RuntimeError, match=f"^{line}$"):
        explain((4, 3), device="cuda:1")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_this_gpu() -> None:
    values = torch.zeros(5000, 100, dtype=torch.uint8, device="cuda")
    explanation = explain(values)
    properties = torch.cuda.get_device_properties(values.device)
    device = explanation.device
    assert not explanation.device_is_assumed
    assert (device.name, device.sm_count) == (properties.name, properties.multi_processor_count)
    assert device.capability == torch.cuda.get_device_capability(values.device)
    assert 48 << 10 <= device.shared_bytes_per_block <= device.shared_bytes_per_sm
    assert explain(values.shape, device="cuda").device == device
    assert explain(values, device="T4").device.name == "T4"
    if explanation.predicted_seconds is not None:  # any GPU reads 10 GB/s to 100 TB/s
        assert 5e-9 < explanation.predicted_seconds < 5e-5
