"""bins="auto" and its kin: the edges of NumPy, bit for bit."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import torch_histo
from torch_histo import _bin_rules
from torch_histo._bin_rules import RULES
from torch_histo.histograms import histogram_of

DTYPES = (
    *("float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
MOST = 20_000
"""Bins that a test may make."""
MIXED = torch.tensor([0.5, -1.0, 4.0, 4.0, 2.5, 7.0, 1.0, 0.0, 3.0])

needs_numpy = pytest.mark.skipif(
    tuple(map(int, np.__version__.split(".")[:2])) < (2, 4),
    reason='NumPy has the present rule of "auto" since 2.3, and the quartiles since 2.4',
)


def edges_of_numpy(x: np.ndarray[Any, Any], rule: str, ends: Any = None) -> np.ndarray[Any, Any]:
    """Those of NumPy, unless it has none."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.histogram_bin_edges(x, rule, ends)
        except (ValueError, OverflowError, MemoryError):  # edges that are equal, or too many bins
            assume(False)
    raise AssertionError


def is_small(x: np.ndarray[Any, Any], ends: Any) -> bool:
    """Whether no rule makes many bins: integers have one a step, and outliers make many."""
    if ends is not None and ends[0] == ends[1]:
        ends = ends[0] - 0.5, ends[1] + 0.5
    inside = x if ends is None else x[(x >= ends[0]) & (x <= ends[1])]
    low, high = (inside.min(), inside.max()) if inside.size else (0, 0)
    spread = float(high) - float(low) if ends is None else float(ends[1]) - float(ends[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = inside.astype(float) if inside.size else np.zeros(1)
        iqr = float(np.subtract(*np.percentile(numbers, [75, 25])))
    own = float(high) - float(low)
    width = min((w for w in (iqr, own) if w > 0), default=spread or 1.0)
    return spread / width * 2 * max(inside.size, 1) < MOST


def assert_as_numpy(x: np.ndarray[Any, Any], rule: str, ends: Any = None) -> None:
    want = edges_of_numpy(x, rule, ends)
    found = torch_histo.histogram(torch.from_numpy(x), rule, ends)
    got = found.bin_edges.numpy()
    assert got.dtype == want.dtype
    assert got.tolist() == want.tolist()
    assert found.hist.tolist() == torch_histo.histogram(x, got).hist.tolist()


def numbers_of(dtype: str) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    kind = np.dtype(dtype)
    if dtype == "bool":
        elements: st.SearchStrategy[Any] = st.booleans()
    elif kind.kind == "f":
        width: Any = 8 * kind.itemsize
        elements = st.floats(-1e4, 1e4, width=width) | st.integers(-9, 9).map(float)
    else:
        info = np.iinfo(kind)
        elements = st.integers(max(info.min, -2000), min(info.max, 2000))
    return arrays.arrays(kind, st.integers(0, 40), elements=elements)


@needs_numpy
@settings(deadline=None, max_examples=300)
@given(st.data(), st.sampled_from(DTYPES), st.sampled_from(RULES))
def test_edges_of_numpy(data: st.DataObject, dtype: str, rule: str) -> None:
    x = data.draw(numbers_of(dtype))
    number = st.integers(-50, 50) | st.floats(-50, 50, width=32)
    pairs = st.tuples(number, number).map(sorted).map(tuple)
    ends = data.draw(st.none() | pairs)
    assume(is_small(x, ends))
    assert_as_numpy(x, rule, ends)


@needs_numpy
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_many_numbers(rule: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for size in (2, 3, 4, 5, 63, 64, 65, 1000, 4097):
        x = (rng.normal(size=size) * 20 + 100).astype(dtype)
        for ends in (None, (0.1, 119.7), (90, 101), (100.0, 100.0)):
            assert_as_numpy(x, rule, ends)


@needs_numpy
@pytest.mark.parametrize("rule", RULES)
def test_few_numbers_and_constant_ones(rule: str) -> None:
    for dtype in DTYPES:
        for numbers in ([], [1], [1, 1, 1], [0, 1], [1, 1, 1, 0]):
            for ends in (None, (0, 1), (2, 3), (1, 1)):
                assert_as_numpy(np.array(numbers, dtype), rule, ends)


@needs_numpy
@pytest.mark.parametrize("rule", RULES)
def test_steps_of_one_beside_the_range(rule: str) -> None:
    """Numbers on the edges of the range are in it, and their neighbours are not."""
    for dtype in (np.float32, np.float64):
        ends = (dtype(0.3), dtype(0.9))
        beside = [np.nextafter(end, dtype(side)) for end in ends for side in (-9, 9)]
        x = np.array([*ends, *beside, 0.5, 0.6, 0.65, 0.7, np.nan, -np.inf, np.inf], dtype)
        assert_as_numpy(x, rule, tuple(map(float, ends)))


@needs_numpy
def test_wide_integers() -> None:
    for low, high, dtype in ((-(1 << 52), 1 << 52, "int64"), (0, 1 << 53, "uint64")):
        x = np.array([low, high, (low + high) // 2, high - 3, low + 5], dtype)
        for rule in ("rice", "sturges", "sqrt"):
            assert_as_numpy(x, rule)
    x = np.array([-128, -100, 127, 127, 100], np.int8)  # NumPy subtracts quartiles in int8
    for rule in RULES:
        assert_as_numpy(x, rule)


@needs_numpy
@pytest.mark.parametrize("rule", RULES)
def test_what_is_not_finite_does_not_count(rule: str) -> None:
    for dtype in ("float32", "float64"):
        x = np.array([math.nan, math.inf, 1, 2, 2, 5, -math.inf, -math.inf, 9, 9.5, -3], dtype)
        want = edges_of_numpy(x[np.isfinite(x)], rule)
        got = torch_histo.histogram(torch.from_numpy(x), rule)
        assert got.bin_edges.tolist() == want.tolist()
        for odd in ([math.nan] * 3, [math.inf], [-math.inf, math.nan]):
            found = torch_histo.histogram(torch.tensor(odd), rule)
            assert found.bin_edges.tolist() == [0, 1]
            assert found.hist.tolist() == [0]


@pytest.mark.parametrize("last", [1, 2, 9, 1023, 7_549_746, (1 << 22) + 1, (1 << 23) - 1])
def test_the_operators_rounding_gives_the_ranks(device: torch.device, last: int) -> None:
    """floor(q * last), where float32 rounds both q and the product."""
    sides = [1 << bits for bits in range(23)]
    some = [
        0,
        last,
        last // 4,
        3 * last // 4,
        *sides,
        *(n - 1 for n in sides),
        *range(0, last, 997),
    ]
    ranks = torch.tensor([rank for rank in some if rank <= last], device=device)
    size = torch.tensor(last, device=device)
    q = _bin_rules._parts(ranks, size, in_float32=True)
    assert torch.equal((q.float() * size.float()).floor().long(), ranks)
    q = _bin_rules._parts(ranks, size, in_float32=False)
    assert torch.equal((q * size).floor().long(), ranks)
    assert ((q >= 0) & (q <= 1)).all()


@needs_numpy
@pytest.mark.long
@pytest.mark.parametrize(
    "size", [1 << 23, (1 << 23) + 1, 15_099_494, (1 << 24) - 1, 1 << 24, (1 << 24) + 7]
)
def test_ranks_are_not_rounded(size: int) -> None:
    """Near 2^24 float32 has not all ranks."""
    x = np.random.default_rng(5).permutation(size).astype(np.float32)
    for rule, ends in (("fd", None), ("auto", (11, size // 2))):
        assert_as_numpy(x, rule, ends)


def test_ranks_of_parts_of_a_large_sample(device: torch.device) -> None:
    """A range leaves few numbers of many: their ranks are among all."""
    x = torch.arange(1 << 20, dtype=torch.float32, device=device).flip(0)
    x = torch.cat((x, torch.full((7,), math.nan, device=device)))
    ends = (1 << 19, (1 << 19) + 41)
    got = torch_histo.histogram(x, "fd", ends).bin_edges
    want = np.histogram_bin_edges(np.arange(ends[0], ends[1] + 1, dtype=np.float32), "fd", ends)
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_floats_are_float32(device: torch.device, dtype: torch.dtype) -> None:
    x = MIXED.to(device, dtype)
    for rule in RULES:
        got, want = (torch_histo.histogram(v, rule) for v in (x, x.float()))
        assert torch.equal(got.bin_edges, want.bin_edges)
        assert torch.equal(got.hist, want.hist)


def test_shapes_and_other_arguments(device: torch.device) -> None:
    x = torch.stack([MIXED, MIXED.flip(0) + 1]).to(device)
    number = len(torch_histo.histogram(x, "auto").bin_edges) - 1
    for values in (x.t(), x[None], x.expand(1, 2, 9), x.requires_grad_()):
        assert len(torch_histo.histogram(values, "auto").bin_edges) - 1 == number
    flat = torch_histo.histogram(x, "auto", flow=True, range=(0, 4))
    again = torch_histo.histogram(x, len(flat.bin_edges) - 1, flow=True, range=(0, 4))
    assert torch.equal(flat.hist, again.hist)
    found = torch_histo.histogram(x[None], "sqrt", dim=(1, 2), density=True)
    assert found.hist.shape == (1, len(found.bin_edges[0]) - 1)
    low, high = torch.tensor(0.5), torch.tensor(3.5)
    for ends in ((low, high), torch.stack((low, high)), np.array([0.5, 3.5], np.float32)):
        on_device = ends.to(device) if isinstance(ends, Tensor) else ends
        on_device = tuple(e.to(device) for e in ends) if isinstance(ends, tuple) else on_device
        got = torch_histo.histogram(x, "fd", on_device).bin_edges
        assert got.tolist() == torch_histo.histogram(x, "fd", (0.5, 3.5)).bin_edges.tolist()


@needs_numpy
def test_range_of_tensors_is_not_rounded(device: torch.device) -> None:
    """Edges of float32 are, from which another number of bins may come."""
    x = np.array([2.420859, 13.817145, 272.57574], np.float32)
    ends = x[:2].astype(np.float64)  # whose difference float32 does not hold
    number = len(np.histogram_bin_edges(x, "auto", tuple(ends)))
    assert number != len(np.histogram_bin_edges(x, "auto", tuple(x[:2])))
    on_device = torch.from_numpy(x).to(device)
    low, high = torch.from_numpy(ends).to(device)
    for pair in ((low, high), (low, float(high)), (float(low), high), torch.stack((low, high))):
        assert len(torch_histo.histogram(on_device, "auto", pair).bin_edges) == number
    kept = torch_histo.histogram(on_device[None], "auto", (low[None], high[None]), dim=1)
    assert kept.bin_edges.shape == (1, number)


def error_of(function: Callable[..., Any], *given: Any, **named: Any) -> str:
    with pytest.raises((RuntimeError, TypeError)) as caught:
        function(*given, **named)
    return str(caught.value)


WHY = "got 'auto': a rule waits for the data, which tell how many bins there are"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"bins": "doane"},
            "bins must be 'auto', 'fd', 'rice', 'sqrt' or 'sturges' if it is a rule, got 'doane': "
            "pass torch.from_numpy(numpy.histogram_bin_edges(input, 'doane'))",
        ),
        (
            {"bins": "Auto"},
            "bins must be a number, edges, or one of 'auto', 'fd', 'rice', 'sqrt' or 'sturges', "
            "got 'Auto'",
        ),
        (
            {"bins": "fd", "weight": 2},
            "weight must be left out where bins is a rule, which counts elements, got bins='fd'",
        ),
        (
            {"bins": "fd", "dim": 0},
            "bins must be a number or edges where there are several channels, got 'fd' and "
            "channels [9]",
        ),
        (
            {"bins": "fd", "range": (3, 1)},
            "range must be two finite numbers, the first not above the second, got (3, 1)",
        ),
        ({"bins": "fd", "dim": 2}, "dim must be between -2 and 1 for a 2-D input, got 2"),
    ],
)
def test_errors(given: dict[str, Any], line: str) -> None:
    assert error_of(torch_histo.histogram, MIXED[None], **given) == f"histogram: {line}"


@pytest.mark.parametrize("rule", ["doane", "scott", "stone"])
def test_the_advice_for_other_rules_works(rule: str) -> None:
    line = error_of(torch_histo.histogram, MIXED, rule)
    call = line.split(": pass ")[1]
    edges = eval(call, {"torch": torch, "numpy": np, "input": MIXED})
    assert torch_histo.histogram(MIXED, edges).hist.sum() == MIXED.numel()


def test_too_many_bins() -> None:
    x = torch.tensor([0.0, 1e-30, 2e-30, 3e-30, 4e-30, 1.0])
    line = error_of(torch_histo.histogram, x, "fd")
    expected = "bins must be a number or edges where a rule makes more than 134217728 bins"
    assert re.fullmatch(rf"histogram: {expected}, got 'fd', which makes \S+e\+\d+", line)
    x = torch.tensor([-3e38, 3e38, 1.0, 2.0])  # their difference is infinite
    assert expected in error_of(torch_histo.histogram, x, "sturges")


def test_where_nothing_can_wait() -> None:
    def count(x: Tensor) -> Tensor:
        return torch_histo.histogram(x, "auto").hist

    expected = "histogram: bins must be a number or edges"
    torch._dynamo.reset()
    compiled = torch.compile(count, backend="eager")
    assert error_of(compiled, MIXED) == f"{expected} in a compiled or exported program, {WHY}"
    under = f"{expected} under vmap and other transforms of torch.func, {WHY}"
    assert error_of(torch.vmap(count), MIXED[None]) == under
    line = f"{expected} for a tensor without values, {WHY}"
    assert error_of(count, MIXED.to("meta")) == line
    assert error_of(torch.jit.trace, count, (MIXED,)) == f"{expected} in a traced program, {WHY}"
    line = f"{expected} where several processes hold the data, {WHY}"
    call = (MIXED, "auto", None, None, False, False, {}, lambda low, high: (low, high))
    assert error_of(histogram_of, *call) == line


def test_exported() -> None:
    class Counts(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch_histo.histogram(x, "auto").hist

    line = error_of(torch.export.export, Counts(), (MIXED,))
    assert f"in a compiled or exported program, {WHY}" in line


def test_other_functions_take_no_rules() -> None:
    line = error_of(torch_histo.StreamingHistogram, "auto")
    expected = "bins must be a number or edges, as a stream begins without data, got 'auto'"
    assert line == f"StreamingHistogram: {expected}"
    line = error_of(torch_histo.StreamingHistogram, "auto", (0, 1), weight_dtype=torch.int64)
    assert line == f"StreamingHistogram: {expected}"
    line = error_of(torch_histo.StreamingHistogramdd, ("auto", 3), ((0, 1), (0, 1)))
    assert line == f"StreamingHistogramdd: axis 0: {expected}"
    line = error_of(torch_histo.histogram2d, MIXED, MIXED, "auto")
    assert line.endswith("got 'auto': torch_histo.histogram alone takes rules")


def test_the_host_waits_once(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers leave the device by one tolist, however many there are."""
    lists = []
    tolist = Tensor.tolist

    def counted(self: Tensor) -> Any:
        lists.append(self.shape)
        return tolist(self)

    def refused(self: Tensor) -> Any:
        raise AssertionError("this waits, too")

    monkeypatch.setattr(Tensor, "tolist", counted)
    for name in ("item", "__bool__", "__float__", "__int__", "cpu", "numpy"):
        monkeypatch.setattr(Tensor, name, refused)
    x = MIXED.to(device)
    for rule, size in (("auto", 9), ("fd", 9), ("rice", 5)):
        lists.clear()
        torch_histo.histogram(x, rule, (0, 4))
        assert [math.prod(shape) for shape in lists] == [size]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_capture() -> None:
    x = MIXED.cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = x * 2
        line = error_of(torch_histo.histogram, x, "auto")
    assert (
        line == f"histogram: bins must be a number or edges while a CUDA graph is captured, {WHY}"
    )
    graph.replay()
    assert torch.equal(doubled, x * 2)


def test_a_capture_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnCuda:
        is_cuda, is_meta = True, False

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    place = _bin_rules._place_without_rules(OnCuda(), is_of_many=False)  # type: ignore[arg-type]
    assert place == "while a CUDA graph is captured"


@needs_numpy
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subnormal_numbers_where_torch_flushes_them(rule: str, dtype: Any) -> None:
    tiny = np.finfo(dtype).smallest_normal
    cases = (
        *([0, tiny], [0, tiny / 4, tiny / 2], [tiny / 2] * 3 + [tiny]),
        *(np.linspace(tiny, 2 * tiny, 100), np.linspace(0, tiny / 8, 100)),
    )
    for numbers in cases:
        x = np.array(numbers, dtype)
        ranges = (None, (0.0, float(tiny)))
        for ends in ranges:
            want = torch_histo.histogram(torch.from_numpy(x), rule, ends)
            if ends is None:
                assert want.bin_edges.tolist() == edges_of_numpy(x, rule).tolist()
            if not torch.set_flush_denormal(True):
                pytest.skip("this processor does not flush subnormal numbers")
            try:
                found = torch_histo.histogram(torch.from_numpy(x), rule, ends)
                is_flushed = torch.tensor(5e-324, dtype=torch.float64) + 0 == 0
            finally:
                torch.set_flush_denormal(False)
            assert is_flushed, "the mode must stay as it was"
            assert found.bin_edges.shape == want.bin_edges.shape
            assert torch.equal(found.bin_edges.view(torch.int8), want.bin_edges.view(torch.int8))
            assert torch.equal(found.hist, want.hist)


class Calls(TorchDispatchMode):
    """The names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("rule", RULES)
def test_extremes_are_found_once(device: torch.device, rule: str) -> None:
    x = MIXED.to(device)
    want = torch_histo.histogram(x, rule)
    for values, dim in ((x, None), (x[:, None], 0), (x[None, :, None], (1,))):
        with Calls() as calls:
            found = torch_histo.histogram(values, rule, dim=dim)
        assert calls.names.count("histo::finite_range") == 1
        assert found.bin_edges.flatten().tolist() == want.bin_edges.tolist()
        assert found.hist.flatten().tolist() == want.hist.tolist()
        plain = torch_histo.histogram(values, rule, dim=dim)
        assert torch.equal(plain.bin_edges, found.bin_edges)
