"""explain_histogram: the plan, the way bins are found, and why not a better one."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from conftest import run_examples
from torch import Tensor
from torch_histo.explain_histogram import WrongEdge

import torch_histo
from torch_histo import BinSearch, HistogramExplanation, explain_histogram, histogram

DEVICES = ["cpu", "H100"]
INF = float("inf")


def found(plan: HistogramExplanation) -> list[tuple[str, int]]:
    return [(search.how, search.count) for search in plan.searches]


def crowded(count: int) -> Tensor:
    """Edges of which all but two are in one cell, of values and of bits."""
    inner = torch.arange(count - 2, dtype=torch.int32) + 0x3F800000
    return torch.cat([torch.tensor([-1e30]), inner.view(torch.float32), torch.tensor([1e30])])


# How bins are found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("dtype", "bins", "bounds", "how"),
    [
        (torch.int32, 256, (-128, 128), "formula"),
        (torch.int64, 1000, (0, 1), "formula"),
        (torch.float32, 256, (-3.7, 4.1), "comparison"),
        (torch.float16, 2048, (-3.7, 4.1), "comparison"),
        (torch.float64, 10, (0, 1e300), "comparison"),
    ],
)
def test_ranges(
    device: str, dtype: torch.dtype, bins: int, bounds: tuple[float, float], how: str
) -> None:
    # A GPU computes float64 edges of short channels where values meet them.
    rows = 5000 if dtype in (torch.float16, torch.float32) else 1 << 20
    plan = explain_histogram((rows,), bins, range=bounds, dtype=dtype, device=device)
    assert found(plan) == [(how, 1)]
    (search,) = plan.searches
    assert search.comparison_fails is None
    assert (search.formula_fails is None) == (how == "formula")
    assert (plan.edges, plan.num_bins, plan.shares_edges) == ("range", bins, True)


def test_formula_below_the_last_edge() -> None:
    """A GPU compares floats with the last edge; a line finds the rest, but not in columns whose
    tables have thresholds."""
    for dtype in (torch.float16, torch.float32):
        for shape in ((5000,), (5000, 40)):
            plan = explain_histogram(
                shape, 256, range=(-128, 128), dim=0, dtype=dtype, device="H100"
            )
            assert {search.how for search in plan.searches} == {"formula"}
        edges = torch.linspace(-128, 128, 257).expand(40, -1).contiguous()
        plan = explain_histogram((5000, 40), edges, dim=0, dtype=dtype, device="H100")
        assert {search.how for search in plan.searches} == {"comparison"}


@pytest.mark.parametrize("device", DEVICES)
def test_cells(device: str) -> None:
    logarithmic = explain_histogram((5000,), torch.logspace(-3, 3, 300), device=device)
    (search,) = logarithmic.searches
    assert (search.how, search.cells, search.fullest_cell) == ("cells", "bits", 1)
    assert search.formula_fails == WrongEdge(0, 0, torch.logspace(-3, 3, 300)[0].item())
    assert search.comparison_fails is not None
    assert search.comparison_fails.channel == 0
    edges = torch.cat([torch.linspace(-1, 1, 1000), torch.tensor([3.0])])
    (search,) = explain_histogram((5000,), edges, device=device).searches
    assert (search.how, search.cells) == ("cells", "values")
    (search,) = explain_histogram((5000,), crowded(100), device=device).searches
    assert search.how == "cells"
    assert search.fullest_cell == 98


def test_search() -> None:
    edges = torch.logspace(-3, 3, 30)
    own = edges.expand(64, -1).contiguous()
    for shape, dim, given, layout in (
        ((5000, 64), 0, own, "columns"),
        ((10, 64), 1, edges, "tiles"),
    ):
        plan = explain_histogram(shape, given, dim=dim, device="H100")
        assert plan.layout == layout
        assert [search.how for search in plan.searches] == ["search"]
    raw = explain_histogram((5000, 64), 10, range=(0, 256), dtype=torch.uint8, device="H100")
    assert found(raw) == [("search", 1)]


def guessed_places(line: str, low: float, high: float, bins: int, x: float) -> tuple[int, int]:
    """The least and the largest place that a GPU's guess leaves: a fused multiplication and
    addition, cut to an integer. One comparison decides between two of them."""

    def rounded(real: Fraction, way: Callable[[Fraction], int] = round) -> Fraction:
        if real == 0:
            return real
        log = math.frexp(float(abs(real)))[1] - 1
        unit = Fraction(2) ** (max(log, -126) - 23)
        return way(real / unit) * unit

    scale = bins / (high - low)
    flatter = 2.0**-20
    close = 2.0**-6  # to an edge, as a part of a bin
    lift = 1 + close
    if line == "formula":
        lift = 1 + (bins - 0.5) * flatter
        scale *= 1 - flatter
    elif line == "open formula":
        if x == high:
            return bins, bins
        lift = 1
    at_zero = float(-Fraction(low) * Fraction(scale) + Fraction(lift))
    a, b = (rounded(Fraction(part)) for part in (scale, at_zero))
    way = math.floor if line == "open formula" else round
    at = rounded(Fraction(x) * a + b, way)
    place = min(max(math.floor(at), 0), bins + 1)
    is_close = line == "comparison" and abs(at - place) < 2 * close
    return place - is_close, place


@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0), (-3.0, 3.0), (1e6, 1e6 + 64), (0.1, 0.7), (-2, 1e9)]
)
@pytest.mark.parametrize("bins", [1, 10, 256])
def test_checks_are_those_of_a_gpu(bounds: tuple[float, float], bins: int) -> None:
    """By arithmetic on fractions. The plan's device need not be there."""
    odd = torch.linspace(*bounds, bins + 1)
    odd[bins // 2] = odd[bins // 2].nextafter(torch.tensor(INF))
    for edges in (torch.linspace(*bounds, bins + 1), odd, odd.square()):
        if not bool((edges.diff() > 0).all()):
            continue
        numbers = edges.tolist()
        low, high = numbers[0], numbers[-1]
        expected = {}
        for line in ("formula", "open formula", "comparison"):
            for k, edge in enumerate(edges.numpy()):
                reached = np.nextafter(edge, np.float32(INF)) if k == bins else edge
                below = np.nextafter(reached, np.float32(-INF))
                _, at = guessed_places(line, low, high, bins, float(reached))
                before, _ = guessed_places(line, low, high, bins, float(below))
                is_right = at > k >= before
                if line == "open formula" and k == bins:  # the line alone finds this one
                    second = float(np.nextafter(below, np.float32(-INF)))
                    is_right &= guessed_places(line, low, high, bins, second)[1] <= bins
                if not is_right:
                    expected[line] = WrongEdge(0, k, numbers[k])
                    break
        if "open formula" not in expected:
            expected.pop("formula", None)
        (search,) = explain_histogram((5000,), edges, device="H100").searches
        assert search.formula_fails == expected.get("formula")
        assert search.comparison_fails == expected.get("comparison")
        guesses = [guess for guess in ("formula", "comparison") if guess not in expected]
        assert search.how == [*guesses, "cells"][0]


# Channels that differ


def own_edges(kinds: str) -> Tensor:
    rows = {
        "u": torch.linspace(-3.7, 4.1, 5),
        "l": torch.tensor([0, 1e-9, 1e-6, 1e-3, 1]),
        "d": torch.tensor([0, 2.0, 1, 3, 4]),
        "n": torch.tensor([0, 1.0, math.nan, 3, 4]),
    }
    return torch.stack([rows[kind] for kind in kinds])


@pytest.mark.parametrize("device", DEVICES)
def test_channels_one_after_another(device: str) -> None:
    plan = explain_histogram((6, 4000), own_edges("uuldnu"), dim=1, device=device)
    assert (plan.unit, plan.invalid_channels, plan.shares_edges) == ("channel", 2, False)
    assert found(plan) == [("comparison", 3), ("cells", 1)]
    cells = plan.searches[1]
    assert cells.comparison_fails is not None
    assert cells.comparison_fails.channel == 2
    assert "3 channels: by a formula and one comparison" in str(plan)
    assert "1 channel: by 4,096 cells" in str(plan)
    assert "2 channels: edges that decrease or hold NaN count nothing" in str(plan)


def test_stripes_share_a_guess() -> None:
    edges = own_edges("u" * 32 + "u" * 31 + "l" + "u" * 64)
    plan = explain_histogram((5000, 128), edges, dim=0, device="H100")
    assert (plan.layout, plan.unit, plan.stripes) == ("columns", "stripe", 4)
    assert found(plan) == [("comparison", 3), ("search", 1)]
    wrong = plan.searches[1].comparison_fails
    assert wrong is not None
    assert wrong.channel == 63
    # Bins of a stripe with one that decreases are searched, too.
    invalid = explain_histogram((5000, 32), own_edges("d" + "u" * 31), dim=0, device="H100")
    assert (found(invalid), invalid.invalid_channels) == ([("search", 1)], 1)


def test_channels_side_by_side_on_the_cpu() -> None:
    """They are compared together, also where a formula would be right."""
    whole = torch.arange(5).expand(6, 5).float()
    plan = explain_histogram((4000, 6), whole, dim=0, dtype=torch.int32, device="cpu")
    assert found(plan) == [("comparison", 6)]
    assert plan.searches[0].formula_fails is None
    assert "channels side by side are searched together" in str(plan)
    alone = explain_histogram((6, 4000), whole, dim=1, dtype=torch.int32, device="cpu")
    assert found(alone) == [("formula", 6)]
    shared = explain_histogram((4000, 6), whole[0], dim=0, dtype=torch.int32, device="cpu")
    assert found(shared) == [("formula", 6)]


def test_parts_of_a_channel() -> None:
    edges = torch.linspace(0, 1, 65_537)
    edges[-2] = edges[-2].nextafter(edges[-1])
    edges = torch.cat([edges, torch.tensor([5.0])])
    plan = explain_histogram((1 << 20,), edges, device="H100")
    assert (plan.layout, plan.unit) == ("streams", "part")
    assert plan.parts > 1
    assert sum(count for _, count in found(plan)) == plan.parts
    assert found(plan)[-1] == ("cells", 1)
    wrong = plan.searches[-1].formula_fails
    assert wrong is not None
    assert wrong.number >= (plan.parts - 1) * plan.part_bins  # among all edges
    assert wrong.value == edges[wrong.number].item()


def test_all_channels_invalid() -> None:
    for device in DEVICES:
        plan = explain_histogram((3, 4000), own_edges("dnd"), dim=1, device=device)
        assert (plan.searches, plan.invalid_channels) == ((), 3)
        assert "3 channels: edges" in str(plan)
        assert "unknown" not in str(plan).replace("unknown, as", "")


# Inputs


def test_tensors() -> None:
    values = torch.tensor([[0.0, 1.0], [4.0, math.nan], [2.0, -1.0]])
    plan = explain_histogram(values, 4, dim=0, flow=True)
    assert plan.device is None
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
        (meta, 10, (torch.empty((), device="meta"), 1.0)),
    ):
        plan = explain_histogram(input, bins, range=bounds, dim=1, device=device)
        assert (plan.searches, plan.num_bins, plan.invalid_channels) == ((), 10, 0)
        computes = device != "cpu" and isinstance(bins, int) and bounds is None
        assert plan.computes_edges == computes
        assert plan.layout == ("staged" if device == "cpu" else "short" if computes else "streams")
        if not computes:
            assert "bins       unknown: only data tell the edges" in str(plan)


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_to_count(device: str) -> None:
    for shape in ((0, 3), (3, 0)):
        plan = explain_histogram(shape, 4, range=(0, 1), dim=0, device=device)
        assert plan.layout == "nothing to count"
        assert plan.searches == ()
        assert "the input is empty" in str(plan)
        if device != "cpu":
            assert plan.steps == (("zeroing",) if shape[1] else ())


def test_copies() -> None:
    odd = torch.empty(5, 6, 7, 8, 9, 10).permute(5, 1, 3, 0, 4, 2)[:, ::2]
    plan = explain_histogram(odd, 4, range=(0, 1), dim=(0, 2, 4), device="H100")
    assert plan.copies_input
    assert "PyTorch makes a contiguous one first" in str(plan)


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
    assert (" twice" in str(plan)) == (reads == 2)


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
    assert f"keys of {key_bytes} byte" in str(plan)


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
    assert f"the {patterns:,} patterns of elements are counted" in str(plan)
    few = explain_histogram((3, 500), 10, range=(0, 1), dim=1, dtype=dtype, device="cpu")
    assert few.layout == "staged"


def test_keys_are_counted_as_integers_are() -> None:
    """The plan of a dense tensor of keys, whatever gaps the input has."""
    values = torch.empty(1 << 12, 64)[:, ::2]
    plan = explain_histogram(values, 100, range=(0, 1), dim=0)
    keys = torch_histo.explain(torch.zeros(1 << 12, 32, dtype=torch.uint8), 100)
    assert plan.keys is not None
    assert isinstance(keys, torch_histo.CpuExplanation)
    assert plan.keys.method == keys.method or keys.method in ("products", "bit planes")


# Words


LINES = {
    ("H100", "stripes"): r"""histogram of \[65536, 64\] float32 over dim 0, 100 bins, on H100 .*
  edges      101 of float32, the same for all channels, of bins of one width
  layout     64 columns side by side, in \d+ stripes? of \d+ words of 4 bytes
  bins       by a formula and one comparison with the nearest edge
  why        the formula is wrong at edge 0, 0
  table      counters of 100 bins a column, 4 copies, and edges: [\d.]+ KiB of shared memory a block
  grid       \d+ blocks of \d+ threads, up to [\d,]+ rows each
  launches   2: \w+, count_stripes
  workspace  none
  memory     reads 16 MiB, writes 50 KiB of counts
  predicted  at least [\d.]+ us, at 3.35 TB/s""",
    ("cpu", "staged"): r"""histogram of \[65536, 64\] float32 over dim 0, 100 bins, on the CPU .*
  edges      101 of float32, the same for all channels, of bins of one width
  layout     elements become keys of 1 byte, which are counted
  bins       by a formula and one comparison with the nearest edge
  why        the formula is wrong at edge 0, 0
  method     .*
(?:  tables     .*\n)?  threads    .*
  workspace  .*
  memory     reads 16 MiB, writes 50 KiB of counts""",
}


@pytest.mark.parametrize(("device", "layout"), LINES)
def test_words(device: str, layout: str) -> None:
    plan = explain_histogram((1 << 16, 64), 100, range=(0, 1), dim=0, device=device)
    assert plan.layout == layout
    assert re.fullmatch(LINES[device, layout], repr(plan)), plan
    assert str(plan) == repr(plan)


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_this_gpu() -> None:
    values = torch.randn(1 << 16, 64, device="cuda")
    plan = explain_histogram(values, 100, dim=0)
    assert plan.device is not None
    assert (plan.layout, plan.edges) == ("stripes", "extremes")
    assert explain_histogram(values.cpu(), 100, dim=0, device="cuda").steps == plan.steps
