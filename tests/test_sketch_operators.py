"""The operators of sketches against the oracle, and against the way of compiled programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from math import inf, nan, nextafter
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ENVIRONMENT
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import VIEWS
from oracle import FLOATS, NUMBERS
from sketches import (
    QS,
    SPANS,
    assert_adds,
    expected_state,
    kept_sizes,
    numbers,
    random_sketch,
    special_values,
    state_of,
)
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses import FakeTensorMode

from torch_histo import QuantileSketch
from torch_histo._sketch_operators import sketch_add, sketch_quantile

pytestmark = pytest.mark.sampled(4)


@pytest.fixture(params=[1, 2, 7])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("exponents", SPANS, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_special_values(dtype: torch.dtype, exponents: tuple[int, int]) -> None:
    for bits in (0, 3, 7):
        assert_adds(special_values(dtype, bits, exponents), None, bits, exponents)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_most_bits(dtype: torch.dtype) -> None:
    assert_adds(special_values(dtype, 16, (-1, 2)), None, 16, (-1, 2))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nothing_finite(dtype: torch.dtype) -> None:
    values = [nan] if dtype == torch.float8_e4m3fn else [nan, inf, -inf]
    assert_adds(torch.tensor(values).to(dtype))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dim", [None, (0,), (-1,), (1,)], ids=str)
def test_views(view: str, dim: tuple[int, ...] | None) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x = VIEWS[view](numbers(dtype, 40, 30, 20))
        if dim != (1,) or x.dim() > 1:
            assert_adds(x, dim, 2)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1025, 3000])
@pytest.mark.parametrize("channels", [0, 1, 2, 15, 16, 17, 33])
def test_sizes_beside_those_of_a_turn(size: int, channels: int) -> None:
    for dtype in (torch.float32, torch.uint8, torch.float64):
        x = numbers(dtype, size, channels)
        assert_adds(x, (0,), 1, (-4, 4))
        assert_adds(x.t().contiguous(), (1,), 1, (-4, 4))
    assert_adds(numbers(torch.float16, 3, channels, size), (0, 2), 1, (-4, 4))


@pytest.mark.parametrize("shape", [(), (7, 5, 3, 2, 3, 2)], ids=str)
def test_dimensions(shape: tuple[int, ...]) -> None:
    x = numbers(torch.float32, *shape)
    assert_adds(x)
    if shape:
        for dim in ((0, 2, 4), (1, 3, 5), (5,), (0, 1, 3, 5)):
            assert_adds(x, dim, 1)


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((1 << 19,), None),  # threads share a channel
        ((3, 1 << 18), (1,)),  # few channels
        ((1 << 18, 3), (0,)),
        ((40, 1 << 14), (1,)),  # threads have channels
        ((1 << 14, 40), (0,)),
        ((16, 40, 32, 32), (0, 2, 3)),
        ((1 << 15, 7), (1,)),
    ],
    ids=str,
)
def test_threads(threads: int, shape: tuple[int, ...], dim: tuple[int, ...] | None) -> None:
    assert_adds(numbers(torch.float32, *shape), dim, 0, (-4, 4))


@pytest.mark.parametrize(
    "values", [[1.5], [1.0, 2.0], [0.0, 0.0, 0.0, 3.0], [1.0] * 8 + [2.0] * 8 + [nan]], ids=str
)
def test_repeated_values(values: list[float]) -> None:
    assert_adds(torch.tensor(values).repeat(1000))


def any_numbers(dtype: torch.dtype) -> st.SearchStrategy[list[int]]:
    """Elements by the bits of each one."""
    bits = 8 * dtype.itemsize - 1
    return st.lists(st.integers(-(2**bits), 2**bits - 1), min_size=1, max_size=70)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NUMBERS), st.integers(0, 16), st.data())
def test_any_bits(dtype: torch.dtype, bits: int, data: Any) -> None:
    first = data.draw(st.integers(-1022, 1022))
    last = data.draw(st.integers(first + 1, min(1023, first + (300 if bits < 9 else 3))))
    signed = (torch.int8, torch.int16, None, torch.int32)
    of = torch.int64 if dtype.itemsize == 8 else signed[dtype.itemsize - 1]
    elements = torch.tensor(data.draw(any_numbers(dtype)), dtype=of)
    x = elements != 0 if dtype == torch.bool else elements.view(dtype)
    assert_adds(x, None, bits, (first, last))


def from_values(*values: float) -> QuantileSketch:
    sketch = QuantileSketch()
    sketch.update(torch.tensor(values))
    return sketch


def test_versions_are_bumped() -> None:
    sketch = QuantileSketch()
    for _ in range(3):
        before = [buffer._version for buffer in state_of(sketch)]
        sketch.update(torch.ones(3))
        after = [buffer._version for buffer in state_of(sketch)]
        assert all(a > b for a, b in zip(after, before, strict=True))
    before = after
    sketch.quantile(0.5)
    assert [buffer._version for buffer in state_of(sketch)] == before


def test_autograd_knows_that_counts_have_changed() -> None:
    sketch = from_values(1.0, 2.0)
    weight = torch.ones((), requires_grad=True)
    product = (weight * sketch.hist).sum()  # keeps the counts for its gradient
    sketch.update(torch.ones(3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()  # type: ignore[no-untyped-call]


def test_buffers_of_inference_mode() -> None:
    with torch.inference_mode():
        sketch = from_values(1.0)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        sketch.update(torch.ones(3))
    with torch.inference_mode():
        sketch.reset()
        sketch.update(torch.ones(3))
    assert sketch.count == 3
    sketch = QuantileSketch()
    sketch.edge_bits.add_(1)  # they are no inference tensors, though others may have come first


@pytest.mark.parametrize("name", ["hist", "min_key", "max_key"])
def test_an_input_that_shares_memory_with_the_state(name: str) -> None:
    sketch = from_values(*range(100))
    x = getattr(sketch, name)
    expected = expected_state(sketch, x.clone(), None)
    sketch.update(x[None])
    assert all(map(torch.equal, state_of(sketch), expected))


def test_buffers_with_gaps() -> None:
    sketch = random_sketch((5,), 3)
    expected = random_sketch((5,), 3)
    sketch.hist = torch.stack((sketch.hist, sketch.hist), -1)[..., 0]
    x = numbers(torch.float32, 5, 100)
    for each in (sketch, expected):
        each.update(x, 1)
    assert all(map(torch.equal, state_of(sketch), state_of(expected)))
    assert torch.equal(sketch.quantile(QS), expected.quantile(QS))


def test_an_update_and_a_quantile_are_one_operator_each() -> None:
    sketch, x = QuantileSketch(), torch.ones(3)
    with torch.profiler.profile() as seen:
        sketch.update(x)
        sketch.quantile(0.5)
    called = {event.key: event.count for event in seen.key_averages()}
    assert (called["histo::_sketch_add_"], called["histo::_sketch_quantile"]) == (1, 1)
    assert called["aten::transpose_"] == 3  # the versions of the buffers
    assert not called.keys() & {"aten::cumsum", "aten::add_", "aten::zeros", "histo::histogram"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("sizes", "dim"), [((5000,), None), ((40, 7), 0), ((3, 6000), 1)])
def test_graphs_add_at_each_replay(sizes: tuple[int, ...], dim: int | None) -> None:
    x = numbers(torch.float32, *sizes)
    channels = kept_sizes(x, None if dim is None else (dim,))
    sketch, expected = random_sketch(channels).to("cuda"), random_sketch(channels)
    there, graph = x.to("cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.graph(graph):
            sketch.update(there, dim)
            found = sketch.quantile(QS)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for _ in range(3):
        graph.replay()
        expected.update(x, dim)
        assert torch.equal(found.cpu(), expected.quantile(QS))
    for own, wanted in zip(state_of(sketch), state_of(expected), strict=True):
        assert torch.equal(own.cpu(), wanted)


def test_edges_are_of_each_sketch() -> None:
    first, second = QuantileSketch(), QuantileSketch()
    first.edge_bits.zero_()
    assert second.edges.equal(QuantileSketch().edges)
    assert second.edges.count_nonzero() == len(second.edges) - 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("exponents", SPANS, ids=str)
def test_flushed_subnormals(dtype: torch.dtype, exponents: tuple[int, int]) -> None:
    x = special_values(dtype, 3, exponents)
    expected = from_another(x, exponents)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor flushes none")
    try:
        found = from_another(x, exponents)
        quantiles = found.quantile(QS).view(torch.int64)
    finally:
        torch.set_flush_denormal(False)
    assert all(map(torch.equal, state_of(found), state_of(expected)))
    assert torch.equal(quantiles, expected.quantile(QS).view(torch.int64))


def from_another(x: Tensor, exponents: tuple[int, int]) -> QuantileSketch:
    sketch = QuantileSketch(bits=3, exponents=exponents)
    sketch.update(x)
    return sketch


REFUSED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "complex": lambda: (torch.ones(2, 3, dtype=torch.complex64), 0),
    "sparse": lambda: (torch.ones(2, 3).to_sparse(), 0),
    "sizes": lambda: (torch.ones(2, 4), 0),
    "dim": lambda: (torch.ones(2, 3), 2),
    "dim twice": lambda: (torch.ones(2, 3), (0, -2)),
    "dim of a str": lambda: (torch.ones(2, 3), "0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The errors are those of the other way, and nothing has changed."""
    sketch = random_sketch((3,), 3)
    before = [buffer.clone() for buffer in state_of(sketch)]
    messages = []
    for _ in range(2):
        with pytest.raises((RuntimeError, TypeError), match=r"QuantileSketch\.update: ") as raised:
            sketch.update(*REFUSED[name]())
        messages.append(str(raised.value))
        monkeypatch.setattr("torch_histo.sketch.is_plain", lambda tensor: False)
    assert messages[0] == messages[1]
    assert all(map(torch.equal, state_of(sketch), before))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 17}, "bits must be between 0 and 16, got 17"),
        ({"first": 32}, r"first and last must be from -1022 to 1023, .*, got \[32, 32\]"),
        ({"bits": 6}, r"hist must be contiguous int64 on the CPU, \[8200\], got int64 \[16392\]"),
        ({"min_key": torch.zeros(())}, r"min_key must be contiguous int64 .*, got float32 \[\]"),
    ],
)
def test_errors_of_the_operators(change: dict[str, Any], message: str) -> None:
    names = "hist", "min_key", "max_key"
    state = dict(zip(names, state_of(QuantileSketch()), strict=True))
    bins = {"bits": 7, "first": -32, "last": 32}
    arguments = {**state, "input": torch.ones(3), **bins, "dim": None} | change
    with pytest.raises(RuntimeError, match=f"^_sketch_add_: {message}"):
        sketch_add(*arguments.values())
    arguments = {**state, "q": torch.tensor(0.5).double(), **bins, "place": 0.5} | change
    with pytest.raises(RuntimeError, match=f"^_sketch_quantile: {message}"):
        sketch_quantile(*arguments.values())


def test_rules_of_the_operators() -> None:
    x = torch.randn(3, 5)
    sketch = QuantileSketch(3, bits=1)
    checks = "test_schema", "test_faketensor"
    arguments = (*state_of(sketch), x, 1, -32, 32, [1])
    torch.library.opcheck(sketch_add, arguments, test_utils=checks)
    q = torch.tensor([0.5], dtype=torch.float64)
    torch.library.opcheck(
        sketch_quantile, (*state_of(sketch), q, 1, -32, 32, 0.5), test_utils=checks
    )
    with FakeTensorMode():
        state = tuple(torch.empty(n, dtype=torch.int64) for n in (136, 1, 1))
        x = torch.empty(3, 5)
        with pytest.raises(RuntimeError, match="_sketch_add_: the buffers must have the channels'"):
            sketch_add(*state, x, 1, -32, 32, [1])


def test_vmap_is_refused() -> None:
    sketch = QuantileSketch(bits=1)
    with pytest.raises(RuntimeError, match=r"^_sketch_add_: tensors must not be mapped"):
        torch.vmap(lambda x: sketch_add(*state_of(sketch), x, 1, -32, 32, None))(torch.ones(2, 3))


def test_a_parameter_and_an_input_with_a_gradient() -> None:
    for x in (torch.nn.Parameter(torch.ones(3)), torch.ones(3, requires_grad=True) * 2):
        sketch = QuantileSketch()
        sketch.update(x)
        assert sketch.count == 3
        assert not sketch.hist.requires_grad


@pytest.mark.sampled(1)
@pytest.mark.parametrize("loops", ["portable", "avx2", "avx512"])
def test_instruction_sets(loops: str) -> None:
    code = """
import torch
from oracle import NUMBERS
from sketches import assert_adds, numbers, special_values
for dtype in NUMBERS:
    assert_adds(special_values(dtype, 3, (-140, 40)), None, 3, (-140, 40))
    assert_adds(numbers(dtype, 300, 20), (0,))
"""
    paths = f"{ENVIRONMENT['PYTHONPATH']}:{Path(__file__).parent}"
    variables = {**os.environ, "PYTHONPATH": paths, "TORCH_HISTO_CPU": loops}
    subprocess.run([sys.executable, "-c", code], env=variables, check=True, timeout=120)


def test_neighbours_of_an_edge_are_told_apart() -> None:
    sketch = QuantileSketch(bits=0, exponents=(0, 2))
    below, above = nextafter(2.0, 0), nextafter(2.0, 3)
    sketch.update(torch.tensor([below, 2.0, above, -below, -2.0, -above], dtype=torch.float64))
    assert sketch.hist.tolist() == [0, 0, 2, 1, 0, 0, 0, 1, 2, 0, 0, 0]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("channels", [None, 3])
def test_a_compiled_update_is_one_operator(
    channels: int | None, backend: str, device: torch.device
) -> None:
    """Functionalized, and the same bits as an eager one; other sizes compile once more at most."""
    dim = None if channels is None else 0
    sketch, expected = (QuantileSketch(channels).to(device) for _ in "12")
    counter = CompileCounterWithBackend(backend)
    update = torch.compile(sketch.update, fullgraph=True, backend=counter)
    for rows in (5, 700, 9):
        x = numbers(torch.float32, rows, 3).to(device).requires_grad_()
        before = [buffer._version for buffer in state_of(sketch)]
        update(x, dim)
        expected.update(x, dim)
        assert all(a.equal(b) for a, b in zip(state_of(sketch), state_of(expected), strict=True))
        assert all(b._version > a for a, b in zip(before, state_of(sketch), strict=True))
    assert counter.frame_count <= 2
    for graph in counter.graphs:
        called = [str(node.target) for node in graph.graph.nodes if "histo" in str(node.target)]
        assert called == ["histo._sketch_add_.default"]
    with pytest.raises(RuntimeError, match="x must have the channels' sizes"):
        torch.compile(QuantileSketch(7).to(device).update, backend="eager")(x, 0)
    torch._dynamo.reset()


def test_an_exported_update_holds_public_operators() -> None:
    class Watch(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sketch = QuantileSketch(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.sketch.update(x, 0)
            return x

    program = torch.export.export(Watch(), (numbers(torch.float32, 20, 3),))
    called = {str(node.target) for node in program.graph.nodes if "histo" in str(node.target)}
    assert called
    assert not any("._" in name for name in called)
