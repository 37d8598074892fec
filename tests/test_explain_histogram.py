"""explain_histogram: the plan, the way bins are found, and what it takes."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import run_examples
from torch import Tensor
from torch_histo.explain_histogram import SEARCHES, WrongEdge

import torch_histo
from torch_histo import BinSearch, HistogramExplanation, explain_histogram, histogram

DEVICES = ["cpu", "H100"]
INF = float("inf")


def found(plan: HistogramExplanation) -> list[tuple[str, int]]:
    return [(search.how, search.count) for search in plan.searches]


# How bins are found


@pytest.mark.parametrize("device", DEVICES)
def test_ranges(device: str) -> None:
    plan = explain_histogram((5, 5000), 256, range=(-3.7, 4.1), dim=1, device=device)
    assert found(plan) == [("formula", 5)]
    assert (plan.edges, plan.edges_lie) == ("range", "evenly")
    assert (plan.num_bins, plan.shares_edges) == (256, True)


EVEN = torch.linspace(-3.7, 4.1, 301)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("edges", "lie"),
    [
        (EVEN, "evenly"),
        (EVEN.double(), "evenly"),
        (torch.arange(-100, 101), "evenly"),
        (torch.tensor([1.0, 3.0]), "evenly"),
        (EVEN.expand(6, -1), "evenly"),
        (torch.logspace(-3, 3, 301), "unevenly"),
        (torch.stack([EVEN] * 5 + [EVEN.exp()]), "unevenly"),
        (torch.cat([EVEN, torch.tensor([100.0])]), "unevenly"),
        (EVEN.flip(0), "unevenly"),
        (torch.tensor([0, math.nan, 1.0]), "unevenly"),
        (torch.tensor([0, INF]), "unevenly"),
        (torch.tensor([2.0, 2.0]), "unevenly"),
        (torch.empty(7, device="meta"), ""),
    ],
    ids=str,
)
def test_edges_that_are_given(device: str, edges: Tensor, lie: str) -> None:
    plan = explain_histogram((6, 5000), edges, dim=1, device=device)
    assert (plan.edges, plan.edges_lie) == ("given", lie)
    assert [search.how for search in plan.searches] == {
        "evenly": ["formula"],
        "unevenly": ["cells"],
        "": [],
    }[lie]


@pytest.mark.parametrize("bins", [1, 2, 15, 16, 17, 100, 65_536])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-3.0, 3.0), (1e6, 1e6 + 64), (-2, 1e30)])
def test_linspace_lies_evenly(bins: int, bounds: tuple[float, float]) -> None:
    for dtype in (torch.float32, torch.float64):
        edges = torch.linspace(*bounds, bins + 1, dtype=dtype)
        if dtype == torch.float64 or bounds[0] < 1e6 or bins <= 16:  # otherwise edges are rounded
            assert explain_histogram((50,), edges, device="cpu").edges_lie == "evenly"


def test_search() -> None:
    edges = torch.logspace(-3, 3, 30)
    own = edges.expand(64, -1).contiguous()
    for shape, dim, given, layout in (
        ((5000, 64), 0, own, "columns"),
        ((10, 64), 1, edges, "tiles"),
    ):
        plan = explain_histogram(shape, given, dim=dim, device="H100")
        assert plan.layout == layout
        assert found(plan) == [("search", plan.channels)]
    raw = explain_histogram((5000, 64), 10, range=(0, 256), dtype=torch.uint8, device="H100")
    assert found(raw) == [("search", 1)]


# Inputs


def test_tensors() -> None:
    values = torch.tensor([[0.0, 1.0], [4.0, math.nan], [2.0, -1.0]])
    plan = explain_histogram(values, 4, dim=0, flow=True)
    assert (plan.device, plan.launches, plan.steps, plan.blocks) == (None, 0, (), 0)
    assert plan.keys is not None
    assert (plan.edges, plan.flow, plan.channels, plan.dim) == ("extremes", True, 2, (0,))
    assert plan.bytes_of_counts == 2 * 7 * 8
    assert plan.bytes_moved == 2 * values.nbytes + plan.bytes_of_counts
    hist, edges = histogram(values, 4, dim=0, flow=True)
    given = explain_histogram(values, edges, dim=0, flow=True)
    assert given.searches == plan.searches
    assert given.bytes_of_counts == hist.nbytes
    density = explain_histogram(values, 4, dim=0, density=True)
    assert density.searches == explain_histogram(values, 4, dim=0).searches
    low, high = values.nan_to_num().aminmax(dim=0)
    ranges = explain_histogram(values, 4, range=(low, high), dim=0)
    assert (ranges.edges, ranges.shares_edges) == ("range", False)


@pytest.mark.parametrize("device", DEVICES)
def test_nobody_knows_the_edges(device: str) -> None:
    meta = torch.empty(6, 4000, device="meta")
    for input, bins, bounds in (
        ((6, 4000), 10, None),
        (meta, 10, None),
        (meta, torch.empty(11, device="meta"), None),
        (meta, torch.empty(6, 11, device="meta"), None),
        (meta, 10, (torch.empty((), device="meta"), 1.0)),
    ):
        plan = explain_histogram(input, bins, range=bounds, dim=1, device=device)
        computes = device != "cpu" and isinstance(bins, int) and bounds is None
        assert plan.computes_edges == computes
        given = isinstance(bins, Tensor)
        lie = "" if given else "evenly"
        assert (plan.num_bins, plan.edges_lie) == (10, lie)
        assert found(plan) == ([] if given or computes else [("formula", 6)])
        on_gpu = "short" if computes else "teams" if plan.shares_edges else "streams"
        assert plan.layout == ("staged" if device == "cpu" else on_gpu)
        assert ("unknown: only data tell the edges" in str(plan)) == given


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_to_count(device: str) -> None:
    for shape in ((0, 3), (3, 0)):
        plan = explain_histogram(shape, 4, range=(0, 1), dim=0, device=device)
        assert plan.layout == "nothing to count"
        assert plan.searches == ()
        assert "nothing to count" in str(plan)
        if device != "cpu":
            assert plan.steps == (("zeroing",) if shape[1] else ())


def test_copies() -> None:
    odd = torch.empty(5, 6, 7, 8, 9, 10).permute(5, 1, 3, 0, 4, 2)[:, ::2]
    plan = explain_histogram(odd, 4, range=(0, 1), dim=(0, 2, 4), device="H100")
    assert plan.copies_input
    assert "the input is copied first" in str(plan)
    weighted = explain_histogram(odd, 4, dim=(0, 2, 4), device="H100", weight=2.0)
    assert weighted.bytes_moved == plan.bytes_moved + plan.bytes_read + 8  # for the extremes


def test_copies_of_gaps() -> None:
    """8 MiB of channels that do not follow each other are copied into runs."""
    for columns, copies in ((2048, True), (2046, False)):
        gaps = torch.empty(1024, 2 * columns)[:, ::2]
        plan = explain_histogram(gaps, 4, range=(0, 1), dim=0, device="H200")
        assert plan.copies_input == copies
        assert (plan.layout == "short") == copies
        assert not explain_histogram(gaps, 4, range=(0, 1), dim=0, device="cpu").copies_input
        assert not explain_histogram(gaps.contiguous(), 4, dim=0, device="H200").copies_input
    for other in (
        torch.empty(128, 160, 160, 2).permute(0, 2, 1, 3)[..., 0],  # a line has several channels
        torch.empty(2, 1 << 26, dtype=torch.uint8)[:, ::2],  # the copy of each would be 16 bytes
    ):
        assert not explain_histogram(other, 4, dim=0, device="H200").copies_input


def test_an_assumed_device() -> None:
    if torch.cuda.is_available():
        pytest.skip("the current GPU is taken")
    assert "on an assumed H200" in str(explain_histogram((1000,), range=(0, 1)))
    with pytest.raises(RuntimeError, match="GPU that PyTorch finds"):
        explain_histogram((1000,), range=(0, 1), device="cuda:0")
    with pytest.raises(ValueError, match="device must be cpu"):
        explain_histogram((1000,), range=(0, 1), device="abacus")


# The plan is that of the engine


@pytest.mark.parametrize(
    ("shape", "dim", "dtype", "layout", "kernel"),
    [
        ((1 << 20,), None, torch.float32, "teams", "count_teams"),
        ((1000,), None, torch.float32, "short", "count_short_channels"),
        ((4, 1 << 16), 1, torch.bfloat16, "teams", "count_teams"),
        ((1 << 28,), None, torch.float32, "streams", "count_streams"),
        ((1 << 16, 64), 0, torch.float64, "stripes", "count_stripes"),
        ((4, 32, 2048, 128), (0, 2), torch.bfloat16, "stripes", "count_stripes"),
        ((3000, 3001), 0, torch.float16, "stripes", "count_stripes"),
        ((1 << 16, 64), 0, torch.uint8, "bytes", "map_bytes"),
        ((1 << 16, 64), 1, torch.float32, "short", "count_short_channels"),
        ((1 << 16, 64), 1, torch.int32, "short", "count_own_ranges"),
        ((100, 64), 1, torch.float64, "short", "count_own_ranges"),
        ((8, 3, 4, 64), 1, torch.float64, "tiles", "count_tiles"),
    ],
)
def test_layouts(
    shape: tuple[int, ...],
    dim: int | tuple[int, ...] | None,
    dtype: torch.dtype,
    layout: str,
    kernel: str,
) -> None:
    plan = explain_histogram(shape, 100, range=(0, 1), dim=dim, dtype=dtype, device="H100")
    assert (plan.layout, plan.steps[-1]) == (layout, kernel)
    assert plan.launches == len(plan.steps)
    assert plan.predicted_seconds == pytest.approx(plan.bytes_moved / 3.35e12)
    assert (plan.raw_bytes is not None) == (layout == "bytes")
    if plan.raw_bytes is not None:
        assert plan.steps == ("uniform_edges", *plan.raw_bytes.steps, "map_bytes")
        assert "table keys 256" in str(plan.raw_bytes)
        sums = 64 * 256 * 8
        assert plan.workspace_bytes == plan.raw_bytes.workspace_bytes + sums


@pytest.mark.parametrize(
    ("shape", "dim", "dtype", "layout", "steps"),
    [
        ((8192, 2048), 1, torch.bfloat16, "short", ["count_own_ranges"]),
        ((1000,), None, torch.float64, "short", ["count_own_ranges"]),
        (
            (8192, 4096),
            0,
            torch.bfloat16,
            "stripes",
            ["column_extremes", "reduce_extremes", "count_own_stripes"],
        ),
        (
            (64, 1 << 19),
            1,
            torch.float32,
            "teams",
            ["vec16_extremes", "reduce_extremes", "clear_counts", "count_own_teams"],
        ),
    ],
)
def test_computed_edges(
    shape: tuple[int, ...], dim: int | None, dtype: torch.dtype, layout: str, steps: list[str]
) -> None:
    plan = explain_histogram(shape, 256, dim=dim, dtype=dtype, device="H100")
    assert (plan.layout, list(plan.steps)) == (layout, steps)
    assert (plan.computes_edges, plan.searches) == (True, ())
    assert "the edges beside it, which are computed anew" in str(plan)
    reads = 1 if layout == "short" else 2
    assert plan.bytes_moved == reads * plan.bytes_read + plan.bytes_of_counts


def test_calls_that_are_not_one() -> None:
    """Bounds that are tensors, and tensors of a subclass, take the operators one by one."""
    bounds = torch.zeros(()), torch.ones(())
    plan = explain_histogram((1000,), 10, range=bounds, device="H100")
    assert (plan.edges, plan.layout) == ("range", "teams" if plan.teams else "streams")

    class Own(torch.Tensor):
        pass

    values = torch.rand(1000).as_subclass(Own)
    plan = explain_histogram(values, 10, range=(0, 1), device="H100")
    assert plan.layout != "short"
    assert plan.steps == explain_histogram((1000,), torch.linspace(0, 1, 11), device="H100").steps


@pytest.mark.parametrize(
    ("bins", "flow", "key_bytes"),
    [(256, False, 1), (257, False, 2), (252, True, 1), (253, True, 2), (65_536, False, 4)],
)
def test_keys(bins: int, flow: bool, key_bytes: int) -> None:
    plan = explain_histogram((1 << 20,), bins, range=(0, 1), flow=flow, device="cpu")
    assert plan.key_bytes == key_bytes
    assert plan.keys is not None
    assert plan.keys.num_bins == bins + (3 if flow else 0)
    assert re.search(rf"staged, key bytes {key_bytes} B$", str(plan), re.MULTILINE)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float8_e5m2, torch.bfloat16], ids=str)
def test_patterns(dtype: torch.dtype) -> None:
    """If elements are many more than the patterns of their bits, the patterns are counted."""
    patterns = 256**dtype.itemsize
    plan = explain_histogram((3, 1 << 21), 10, range=(0, 1), dim=1, dtype=dtype, device="cpu")
    raw = torch_histo.explain(
        (3, 1 << 21), patterns, 1, dtype=(torch.uint8, torch.uint16)[patterns > 256], device="cpu"
    )
    assert plan.layout == "patterns"
    assert plan.keys is not None
    assert isinstance(raw, torch_histo.CpuExplanation)
    for fact in ("method", "threads", "tables", "table_keys", "num_bins", "dtype"):
        assert getattr(plan.keys, fact) == getattr(raw, fact)
    assert plan.workspace_bytes == raw.workspace_bytes + 3 * patterns * 8
    few = explain_histogram((3, 500), 10, range=(0, 1), dim=1, dtype=dtype, device="cpu")
    assert few.layout == "staged"


def test_keys_are_counted_as_integers_are() -> None:
    """The plan of a dense tensor of keys, whatever gaps the input has."""
    values = torch.empty(1 << 12, 64)[:, ::2]
    plan = explain_histogram(values, 100, range=(0, 1), dim=0)
    keys = torch_histo.explain(torch.zeros(1 << 12, 32, dtype=torch.uint8), 100)
    assert plan.keys is not None
    assert isinstance(keys, torch_histo.CpuExplanation)
    assert plan.keys.method == keys.method


# Words


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8], ids=str)
def test_words(device: str, dtype: torch.dtype) -> None:
    """A line for each group of facts, and those of what is counted as integers."""
    plan = explain_histogram((1 << 16, 64), 100, range=(0, 1), dim=0, dtype=dtype, device=device)
    assert str(plan) == repr(plan)
    title, *rest = str(plan).splitlines()
    assert title.startswith(f"histogram of [65536, 64] {str(dtype)[6:]} over dim 0, 100 bins, on ")
    lines = {line[2:13].strip(): line[13:] for line in rest if line[2] != " "}
    nested = ["keys"] if plan.keys else ["raw bytes"] if plan.raw_bytes else []
    assert lines.keys() - {"predicted"} == {*plan.facts, *nested}
    assert ("predicted" in lines) == (device != "cpu")
    assert lines["layout"].startswith(plan.layout)
    assert lines["bins"] == SEARCHES[plan.searches[0].how]
    assert f"bytes read {plan.bytes_read >> 20} MiB, bytes of counts 50 KiB" in lines["memory"]
    if device != "cpu":
        assert lines["launches"] == f"{plan.launches}, {' then '.join(plan.steps)}"
        assert f"threads {plan.threads}" in lines["grid"]


def test_a_plan_is_a_value() -> None:
    plans = [explain_histogram((1000,), 10, range=(0, 1), device="H100") for _ in range(2)]
    assert plans[0] == plans[1] == pickle.loads(pickle.dumps(plans[0]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        plans[0].blocks = 1  # type: ignore[misc]


@pytest.mark.parametrize("kind", [BinSearch, HistogramExplanation, WrongEdge])
def test_older_pickles_find_the_classes(kind: type) -> None:
    assert pickle.loads(b"ctorch_histo.explain_histogram\n%b\n." % kind.__name__.encode()) is kind


def test_examples_in_docstrings() -> None:
    module = importlib.import_module("torch_histo.explain_histogram")
    failed, tried = run_examples(module)
    assert (failed, tried > 0) == (0, True)


# Errors

VALUES = torch.zeros(5, 3)
WRONG: dict[str, dict[str, Any]] = {
    "dtype": {"input": VALUES.to(torch.complex64)},
    "sparse": {"input": VALUES.to_sparse()},
    "dim": {"dim": 2},
    "dim twice": {"dim": (0, -2)},
    "dim type": {"dim": "0"},
    "no bins": {"bins": 0},
    "bins type": {"bins": 1.5},
    "one edge": {"bins": torch.zeros(1)},
    "edges' sizes": {"bins": torch.zeros(2, 4), "dim": 0},
    "edges' dtype": {"bins": torch.zeros(4, dtype=torch.float16)},
    "range with edges": {"bins": torch.zeros(4), "range": (0, 1)},
    "range of one": {"range": (1,)},
    "range decreases": {"range": (1, 0)},
    "range infinite": {"range": (0, INF)},
    "range's sizes": {"range": (torch.zeros(2), torch.zeros(2)), "dim": 0},
    "density with flow": {"density": True, "flow": True},
    "flow type": {"flow": 1},
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_histogram(name: str) -> None:
    call = {"input": VALUES} | WRONG[name]
    messages = []
    for function in (histogram, explain_histogram):
        with pytest.raises((RuntimeError, TypeError)) as raised:
            function(**call)
        messages.append((type(raised.value), str(raised.value)))
    assert messages[0] == messages[1]
    if name not in ("dtype", "sparse"):
        with pytest.raises(messages[0][0]) as raised:
            explain_histogram(**{**call, "input": (5, 3)})
        assert str(raised.value) == messages[0][1]


def test_errors_of_shapes() -> None:
    with pytest.raises(TypeError, match="explain_histogram: input must be a tensor"):
        explain_histogram("abc")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"explain_histogram: input must be a shape without neg"):
        explain_histogram((-1,))
    with pytest.raises(TypeError, match="explain_histogram: dtype must be"):
        explain_histogram((1,), dtype="float32")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="take less than 2\\^62 bytes"):
        explain_histogram((1 << 40, 1 << 40), range=(0, 1))
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    with pytest.raises(RuntimeError, match="histogram: input must be a dense tensor"):
        explain_histogram(nested)


def test_names_of_facts_are_documented() -> None:
    known = (Path(__file__).parents[1] / "docs/profiling.md").read_text()
    for shape, dim, dtype, bins in (
        ((1 << 20,), None, torch.float32, 100),
        ((1 << 20,), None, torch.float32, 1 << 16),
        ((1 << 16, 64), 0, torch.float64, 100),
        ((100, 64), 1, torch.float64, 100),
    ):
        for device in DEVICES:
            weight = torch.empty(shape, device="meta")
            plan = explain_histogram(
                shape, bins, dim=dim, dtype=dtype, device=device, weight=weight
            )
            assert plan.weight is not None
            for group in (*plan.facts.values(), *plan.weight.facts.values()):
                for name in group.keys() - {"bins", "weights"}:
                    assert f"`{name}`" in known, name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_this_gpu() -> None:
    values = torch.randn(1 << 16, 64, device="cuda")
    plan = explain_histogram(values, 100, dim=0)
    assert plan.device is not None
    assert (plan.layout, plan.edges) == ("stripes", "extremes")
    assert explain_histogram(values.cpu(), 100, dim=0, device="cuda").steps == plan.steps
