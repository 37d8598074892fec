"""The plans of histograms on GPUs, which need not be there: what holds for all of them."""

from __future__ import annotations

import math
from random import Random

import pytest
import torch

from torch_histo import Device, HistogramExplanation, explain_histogram
from torch_histo.devices import DEVICES

RESERVED = 2048
"""Bytes of shared memory that kernels declare themselves."""
MAX_GRID = (1 << 31) - 1
MAX_ROWS = 1 << 31
"""The most rows of a block, whose counters have 32 bits."""
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (*FLOATS, torch.uint8, torch.float8_e4m3fn, torch.int16, torch.int32, torch.int64)


def plan_of(
    shape: tuple[int, ...],
    bins: int = 100,
    dim: int | tuple[int, ...] | None = None,
    dtype: torch.dtype = torch.float32,
    device: str | Device = "H100",
    bounds: tuple[float, float] | None = None,
) -> HistogramExplanation:
    """The edges are there. Channels share them if there is a range."""
    edges = edges_of(shape, dim, bins, bounds is not None)
    return explain_histogram(shape, edges, dim=dim, dtype=dtype, device=device)


def edges_of(
    shape: tuple[int, ...], dim: int | tuple[int, ...] | None, bins: int, shared: bool
) -> torch.Tensor:
    """Those of all channels, or each channel's own, which nobody knows."""
    if shared:
        return torch.linspace(0, 1, bins + 1)
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    return meta(*(n for d, n in enumerate(shape) if d not in dims), bins + 1)


def of_view(view: torch.Tensor, dim: int | tuple[int, ...], bins: int = 100) -> str:
    edges = edges_of(tuple(view.shape), dim, bins, False)
    return explain_histogram(view, edges, dim=dim, device="H100").layout


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def assert_whole(plan: HistogramExplanation, gpu: Device) -> None:
    """Every plan has enough shared memory, and counts every row once."""
    elements = math.prod(plan.shape)
    if elements == 0:
        assert (plan.layout, plan.blocks) == ("nothing to count", 0)
        return
    rows = elements // plan.channels
    size = plan.dtype.itemsize
    assert 1 <= plan.blocks <= MAX_GRID
    assert plan.threads % 32 == 0
    assert 32 <= plan.threads <= 1024
    if plan.layout == "short":
        assert rows * size <= 64 << 10
        assert plan.threads % (32 * plan.teams) == 0
        assert plan.blocks <= plan.channels
        kept = rows * size if plan.computes_edges else 4 * plan.num_bins
        assert kept + 4 * plan.num_bins < plan.shared_bytes < gpu.shared_bytes_per_block
        assert len(plan.steps) == 1
        assert (plan.workspace_bytes, plan.clears_counts) == (0, False)
    elif plan.layout == "streams":
        assert plan.parts * plan.part_bins >= plan.num_bins > (plan.parts - 1) * plan.part_bins
        assert plan.blocks == plan.channels * plan.chunks * plan.parts
        assert plan.chunks * plan.rows_per_block >= rows > (plan.chunks - 1) * plan.rows_per_block
        counters_and_edges = plan.part_bins * (4 + (8 if size == 8 else 4)) * plan.copies
        assert counters_and_edges < plan.shared_bytes
        assert plan.clears_counts == (plan.chunks > 1)
    elif plan.layout == "teams":
        assert plan.shares_edges or plan.computes_edges
        assert plan.threads % (32 * plan.teams) == 0
        assert plan.blocks == min(gpu.sm_count, plan.channels * plan.chunks)
        assert plan.channels * plan.chunks < MAX_ROWS
        assert rows <= plan.chunks * MAX_ROWS
        assert plan.clears_counts == (plan.chunks > 1)
        of_edge = 0 if plan.computes_edges else 8 if size == 8 else 4
        edges_and_counters = plan.num_bins * (of_edge + 4 * plan.teams)
        assert edges_and_counters < plan.shared_bytes
    elif plan.layout in ("columns", "stripes"):
        width = plan.stripe_words * plan.word_bytes // size
        assert plan.stripes * width >= plan.columns > (plan.stripes - 1) * width
        assert plan.batches * (plan.rows * plan.columns + plan.left) == elements
        assert 0 <= plan.left < plan.columns
        assert plan.chunks * plan.rows_per_block >= plan.rows
        assert plan.rows > (plan.chunks - 1) * plan.rows_per_block or plan.chunks == 1
        assert plan.columns * plan.batches % plan.channels == 0
        works = plan.batches * plan.stripes * plan.chunks
        if plan.layout == "columns":
            assert plan.blocks == works
            assert plan.num_bins * width * (4 + 2) < plan.shared_bytes
        else:
            assert plan.blocks <= works
            assert plan.shares_edges or plan.computes_edges
            assert size > 2 or plan.rows_per_block < (1 << 16) - 1  # counters have 16 bits
            assert plan.num_bins * plan.stripe_words * plan.copies * 4 < plan.shared_bytes
            joined = plan.columns * plan.batches > plan.channels
            assert plan.clears_counts == (plan.chunks > 1 or joined)
            assert 2 * plan.shared_bytes < gpu.shared_bytes_per_sm
    else:
        assert plan.layout in ("bytes", "tiles", "scattered")
        if plan.layout == "bytes":
            assert plan.shared_bytes == 0
            assert (size, plan.threads) == (1, 256)
            of_warps = plan.channels > 8 * gpu.sm_count and plan.num_bins <= 512
            teams = -(-plan.channels // 8) if of_warps else plan.channels
            assert plan.blocks == min(teams, 8 * gpu.sm_count)
            assert plan.raw_bytes is not None
            assert plan.raw_bytes.num_bins == 256
        elif plan.layout == "tiles":
            num_counts = plan.num_bins + (3 if plan.flow else 0)
            assert 4 * num_counts < plan.shared_bytes <= gpu.shared_bytes_per_block
        else:
            assert plan.clears_counts
    if plan.layout in ("teams", "streams", "columns"):
        assert plan.shared_bytes + RESERVED <= gpu.shared_bytes_per_block
        assert plan.rows_per_block <= MAX_ROWS
    assert_steps(plan)


def assert_steps(plan: HistogramExplanation) -> None:
    """Every kernel that adds to counts comes after one that clears them."""
    steps = [step for step in plan.steps if not step.startswith(("clear", "zero"))]
    own = "own_" if plan.computes_edges else ""
    kernels = {
        "bytes": "map_bytes",
        "scattered": "count_tiles",
        "short": "count_own_ranges" if own else "count_short_channels",
    }
    assert steps[-1] == kernels.get(plan.layout, f"count_{own}{plan.layout}")
    checks = plan.layout == "scattered" or plan.parts > 1
    assert ("check_edges" in steps) == checks
    makes_edges = plan.edges != "given" and plan.layout != "short" and not own
    assert ("uniform_edges" in steps) == makes_edges
    finds_extremes = plan.edges == "extremes" and plan.layout != "short"
    assert any("extremes" in step for step in steps) == finds_extremes
    if "count_rows" not in steps and plan.dtype.itemsize > 1:  # edges are made by what clears, too
        assert len(plan.steps) - len(steps) == (plan.clears_counts and not makes_edges)


def random_shape(rng: Random) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    ndim = rng.randint(1, 4)
    most = 36 // ndim
    shape = tuple(
        rng.choice((1, 1 << rng.randint(0, most), rng.randint(1, 1 << rng.randint(1, most))))
        for _ in range(ndim)
    )
    if rng.random() < 0.2:
        return shape, None
    return shape, tuple(rng.sample(range(ndim), rng.randint(1, ndim)))


@pytest.mark.parametrize("gpu", DEVICES, ids=lambda gpu: gpu.name)
def test_what_holds_for_every_plan(gpu: Device) -> None:
    rng = Random(gpu.name)
    layouts = set()
    for _ in range(500):
        shape, dim = random_shape(rng)
        bins = rng.choice((1, 2, 3, 10, 64, 100, 255, 256, 257, 1000, 2048, 4096, 1 << 14, 1 << 16))
        if math.prod(shape) * 8 >= 1 << 40 or math.prod(shape) * bins >= 1 << 50:
            continue
        bounds = (0.0, 1.0) if bins < 1 << 14 and rng.random() < 0.5 else None
        dtype = rng.choice(DTYPES)
        plan = plan_of(shape, bins, dim, dtype, gpu, bounds)
        assert_whole(plan, gpu)
        layouts.add((plan.layout, plan.computes_edges))
        plan = explain_histogram(shape, bins, range=bounds, dim=dim, dtype=dtype, device=gpu)
        assert_whole(plan, gpu)
        layouts.add((plan.layout, plan.computes_edges))
    named = {"teams", "stripes", "streams", "columns", "bytes", "tiles", "scattered", "short"}
    computed = {(layout, True) for layout in ("short", "stripes", "teams")}
    assert layouts - {("nothing to count", False)} == {(name, False) for name in named} | computed


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_edges_of_sizes(dtype: torch.dtype) -> None:
    (gpu,) = (gpu for gpu in DEVICES if gpu.name == "H100")
    sizes = (0, 1, 2, 3, 31, 32, 33, 255, 256, 257, 511, 512, 513, 65_535)
    for rows in sizes:
        for channels in sizes:
            for dim in (0, 1):
                assert_whole(plan_of((rows, channels), 10, dim, dtype), gpu)
        for bins in (1, 13_000, 25_000, 30_000, 60_000, 100_000, 400_000, 1 << 20):
            assert_whole(plan_of((rows,), bins, None, dtype), gpu)
            assert_whole(plan_of((rows, 40), bins, 0, dtype), gpu)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layouts(dtype: torch.dtype) -> None:
    assert plan_of((1 << 20,), dtype=dtype).layout == "teams"
    assert plan_of((1 << 28,), dtype=dtype).layout == "streams"
    assert plan_of((8, 1 << 16), dim=1, dtype=dtype).layout == "streams"
    for shape, dim in (((8, 1 << 16), 1), ((4000, 11_007), 1), ((40, 9, 7, 7), (0, 2, 3))):
        assert plan_of(shape, dim=dim, dtype=dtype, bounds=(0, 1)).layout == "teams"
    assert plan_of((8, 3, 64, 64), dim=(2, 3), dtype=dtype).layout == "streams"
    assert plan_of((1 << 16, 64), dim=0, dtype=dtype).layout == "columns"
    assert plan_of((8, 64, 64, 32), dim=(1, 2), dtype=dtype).layout == "columns"
    assert plan_of((1 << 16, 8), dim=1, dtype=dtype).layout == "tiles"
    assert plan_of((10,), dtype=dtype).layout == "tiles"
    # More bins than tables of columns have, and than any parts.
    assert plan_of((1 << 16, 64), 20_000, 0, dtype=dtype).layout == "streams"
    assert plan_of((1 << 20,), 1 << 20, dtype=dtype).layout == "scattered"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.float8_e5m2], ids=str)
def test_layouts_of_bytes(dtype: torch.dtype) -> None:
    assert plan_of((1 << 16, 64), dim=0, dtype=dtype).layout == "bytes"
    assert plan_of((1 << 16, 64), 1 << 20, 0, dtype=dtype).layout == "bytes"
    assert plan_of((100, 64), dim=0, dtype=dtype).layout == "tiles"
    assert plan_of((100, 1 << 16), 128, dim=0, dtype=dtype).layout == "bytes"
    assert plan_of((100, 1 << 16), 10, dim=0, dtype=dtype).layout == "tiles"


def test_few_rows_have_no_tables_of_columns() -> None:
    for rows, layout in ((31, "tiles"), (32, "stripes")):
        assert plan_of((rows, 5000), dim=0, bounds=(0, 1)).layout == layout


def test_views() -> None:
    wide = meta(1 << 16, 66)
    assert of_view(wide[:, :64], 0) == "columns"
    assert of_view(wide[:, 1:65], 0) == "columns"
    assert of_view(wide[:, ::2], 0) == "streams"
    assert of_view(wide[::2], 0) == "columns"
    assert of_view(meta(64, 1 << 16).t(), 0) == "streams"
    # Words of two elements: rows begin with one, or else lie one after another.
    half = meta(1 << 16, 66, dtype=torch.bfloat16)
    assert of_view(half[:, :64], 0) == "columns"
    assert of_view(half[:, 2:], 0) == "columns"
    assert of_view(half[:, 1:65], 0) == "streams"
    assert of_view(half[:, :63], 0) == "streams"
    assert of_view(meta(1 << 16, 63, dtype=torch.bfloat16), 0) == "columns"
    # Rows that are joined must not be too many.
    assert of_view(meta(1 << 16, 1001, dtype=torch.bfloat16), 0) == "streams"


def test_vec16s() -> None:
    def takes_vec16s(view: torch.Tensor) -> bool:
        plan = explain_histogram(view, torch.linspace(0, 1, 11), device="H100")
        assert plan.layout == ("teams" if plan.vec16s else "streams")
        return plan.vec16s

    values = torch.empty(4097)
    assert takes_vec16s(values[1:])
    assert not takes_vec16s(values[::2])
    assert takes_vec16s(torch.empty(64, 2000)[:, :1024])
    assert takes_vec16s(torch.empty(64, 2000)[:, :1023])
    assert not takes_vec16s(torch.empty(64, 2000)[:, :7])  # tiny runs with gaps between them
    raw = torch.empty(4097 * 4 + 1, dtype=torch.uint8)
    odd = raw.untyped_storage()
    assert takes_vec16s(torch.empty(0).set_(odd, 1, (4096,)))


def test_alignment_of_elements() -> None:
    """An address that is no multiple of the element's size, as of a buffer from elsewhere."""
    raw = torch.zeros(1 << 16, dtype=torch.uint8)
    odd = torch.frombuffer(memoryview(raw.numpy())[1 : 1 + 4096 * 4], dtype=torch.float32)
    plan = explain_histogram(odd, 10, device="H100")
    assert (plan.layout, plan.vec16s) == ("streams", False)
    assert explain_histogram(odd.view(128, 32), 10, dim=0, device="H100").layout != "columns"


def test_rare_strides_are_copied() -> None:
    odd = meta(5, 6, 7, 8, 9, 10).permute(5, 1, 3, 0, 4, 2)[:, ::2]
    plan = explain_histogram(odd, 4, dim=(0, 2, 4), device="H100")
    assert plan.copies_input
    assert plan.layout in ("short", "streams", "tiles")


def test_blocks_of_long_channels() -> None:
    """No block has more than 2^31 rows, even on a GPU of one multiprocessor."""
    small = Device("small", 1, 99 << 10, 100 << 10, (8, 9))
    for shape, dim in (((1 << 36,), None), ((1 << 33, 8), 0), ((2, 1 << 34), 1)):
        for dtype in (torch.float16, torch.float32, torch.float64):
            plan = plan_of(shape, 10, dim, dtype, small)
            assert_whole(plan, small)
            assert plan.chunks >= 2 or plan.layout == "columns"


def test_shared_memory_of_small_gpus() -> None:
    """With less of it the layouts are the same, or need more parts, or no tables."""
    for kib in (16, 32, 48, 64, 100):
        gpu = Device("small", 8, kib << 10, kib << 10, (7, 5))
        for bins in (1, 100, 1000, 3000, 10_000, 100_000):
            for dtype in FLOATS:
                assert_whole(plan_of((1 << 16, 64), bins, 0, dtype, gpu), gpu)
                assert_whole(plan_of((1 << 20,), bins, None, dtype, gpu), gpu)
