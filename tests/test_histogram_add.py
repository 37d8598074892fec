"""The operator that adds to counts in place: counts, memory, versions, errors, and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import oracle
import pytest
import torch
from conftest import Dispatches
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import NUMBERS, random_values
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_histo

pytestmark = pytest.mark.sampled(2)

ADD = torch.ops.histo.histogram_add_
EDGES = torch.linspace(-10, 250, 9)
VALUES = random_values((40, 3), torch.float32)


def old_counts(sizes: Sequence[int]) -> Tensor:
    """Counts of before, which differ, some beyond 2^32."""
    elements = torch.Size(sizes).numel()
    return (torch.arange(elements) * 6151 % 9973 << 20).reshape(*sizes)


def counted(values: Tensor, edges: Tensor, dim: Any = None, *, flow: bool = False) -> Tensor:
    return oracle.histogram(values.cpu(), edges.cpu(), dim, flow=flow)


def assert_added(values: Tensor, edges: Tensor, dim: Any = None, *, flow: bool = False) -> None:
    expected = counted(values, edges, dim, flow=flow)
    before = old_counts(expected.shape)
    counts = before.to(values.device, copy=True)
    assert ADD(counts, values, edges, dim, flow=flow) is None
    assert torch.equal(counts.cpu(), before + expected)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


# Counts

WAYS: dict[str, tuple[tuple[int, ...], torch.dtype, int, Any]] = {
    "a few, counted directly": ((7,), torch.float32, 5, None),
    "own channels": ((300, 20), torch.float32, 40, [1]),
    "own channels side by side": ((20, 300), torch.float64, 40, [0]),
    "one stream": ((5000,), torch.float32, 16, None),
    "one stream in pieces": ((300_000,), torch.float32, 16, None),
    "bins of 16 bits": ((300_000,), torch.float32, 1000, None),
    "indexed bins": ((200_000,), torch.float64, 5000, None),
    "a copy of the counts for each thread": ((1 << 21,), torch.float32, 150_000, None),
    "counts that all threads add to": ((1 << 18,), torch.float32, 150_000, None),
    "columns": ((4000, 64), torch.float32, 16, [0]),
    "columns in pieces": ((40_000, 8), torch.bfloat16, 16, [0]),
    "rows": ((64, 4000), torch.float32, 16, [1]),
    "images": ((8, 5, 900), torch.float32, 16, [0, 2]),
    "patterns of bytes": ((100_000,), torch.uint8, 40, None),
    "patterns of bytes in channels": ((3, 40_000), torch.int8, 40, [1]),
    "patterns of two bytes": ((600_000,), torch.float16, 40, None),
    "no rows": ((0, 3), torch.float32, 8, [0]),
    "no channels": ((5, 0), torch.float32, 8, [0]),
    "256 bins": ((20_000,), torch.float32, 256, None),
    "256 bins of columns": ((3000, 6), torch.float32, 256, [0]),
}


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_counting(device: torch.device, way: str, flow: bool) -> None:
    sizes, dtype, bins, dim = WAYS[way]
    values = random_values(sizes, dtype).to(device)
    edges = torch.linspace(-10, 250, bins + 1).to(device)
    assert_added(values, edges, dim, flow=flow)
    own = edges.expand(*counted(values, edges, dim).shape[:-1], -1)
    assert_added(values, own, dim, flow=flow)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_dtype(device: torch.device, dtype: torch.dtype) -> None:
    values = random_values((40, 6), dtype)
    for edges in (EDGES, EDGES.double(), EDGES.long()):
        assert_added(values.to(device), edges.to(device), [0], flow=True)


@given(
    sizes=st.lists(st.integers(0, 20), min_size=0, max_size=3),
    bins=st.integers(1, 300),
    flow=st.booleans(),
    data=st.data(),
)
@settings(deadline=None)
def test_additions_are_those_of_the_whole(
    sizes: list[int], bins: int, flow: bool, data: st.DataObject
) -> None:
    dims = data.draw(st.sets(st.integers(0, max(len(sizes) - 1, 0))).map(sorted))
    edges = torch.linspace(-10, 250, bins + 1)
    parts = [random_values(sizes, torch.float32, seed) for seed in range(3)]
    expected = sum(counted(part, edges, dims, flow=flow) for part in parts)
    counts = torch.zeros_like(expected)
    for part in parts:
        ADD(counts, part, edges, dims, flow=flow)
    assert torch.equal(counts, expected)


@pytest.mark.usefixtures("flush_denormal")
def test_subnormals_are_numbers() -> None:
    tiny = torch.arange(1, 6, dtype=torch.int32).view(torch.float32)
    counts = torch.zeros(4, dtype=torch.int64)
    ADD(counts, tiny, tiny)
    assert counts.tolist() == [1, 1, 1, 2]


# Where the counts are

VIEWS: dict[str, Callable[[], Tensor]] = {
    "transposed": lambda: torch.zeros(8, 3, dtype=torch.int64).t(),
    "every second": lambda: torch.zeros(6, 16, dtype=torch.int64)[::2, ::2],
    "of a larger tensor": lambda: torch.zeros(5, 20, dtype=torch.int64)[1:4, 7:15],
    "part of one": lambda: torch.zeros(5, 3, 8, dtype=torch.int64)[2],
}


@pytest.mark.parametrize("name", VIEWS)
def test_counts_may_have_any_strides(device: torch.device, name: str) -> None:
    counts = VIEWS[name]().to(device)
    base = counts._base if counts._base is not None else counts
    before = old_counts((3, 8)).to(device)
    counts.copy_(before)
    version, others = base._version, int(base.sum() - counts.sum())
    ADD(counts, VALUES.to(device), EDGES.to(device), [0])
    assert torch.equal(counts.cpu(), before.cpu() + counted(VALUES, EDGES, [0]))
    assert int(base.sum() - counts.sum()) == others
    assert base._version > version


def test_the_version_changes(device: torch.device) -> None:
    counts = torch.zeros(3, 8, dtype=torch.int64, device=device)
    view = counts[1:]
    for number in range(1, 4):
        ADD(counts, VALUES.to(device), EDGES.to(device), [0])
        assert counts._version == view._version
        assert counts._version >= number


def test_saved_counts_are_missed(device: torch.device) -> None:
    counts = torch.zeros(3, 8, dtype=torch.int64, device=device)
    weights = torch.ones(3, 8, device=device, requires_grad=True)
    loss = (weights * counts).sum()
    ADD(counts, VALUES.to(device), EDGES.to(device), [0])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_counts_may_be_the_input(device: torch.device) -> None:
    counts = torch.arange(11, device=device)
    expected = counts.cpu() + counted(counts, EDGES, flow=True)
    ADD(counts, counts, EDGES.to(device), flow=True)
    assert torch.equal(counts.cpu(), expected)


def test_counts_may_share_memory_with_edges(device: torch.device) -> None:
    memory = torch.arange(20, device=device)
    counts, edges = memory[:8], memory[6:15]
    expected = counts.cpu() + counted(VALUES, edges.clone())
    ADD(counts, VALUES.to(device), edges)
    assert torch.equal(counts.cpu(), expected)


def allocations(call: Callable[[], None]) -> list[int]:
    """The bytes of all that torch allocates on the CPU during a call."""
    with torch.profiler.profile(profile_memory=True) as profile:
        call()
    events = profile.profiler.kineto_results.events()
    return [event.nbytes() for event in events if event.name() == "[memory]"]


def test_the_cpu_allocates_no_counts() -> None:
    counts = torch.zeros(1000, 203, dtype=torch.int64)
    values, edges = torch.zeros(1000, 50), torch.linspace(-1, 1, 201)
    others = allocations(lambda: torch.ops.histo.histogram(values, edges, [1], flow=True))
    assert max(others) >= counts.nbytes  # so they are seen
    own = allocations(lambda: ADD(counts, values, edges, [1], flow=True))
    assert max(own, default=0) < counts.nbytes // 10


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
def test_a_gpu_allocates_no_counts() -> None:
    counts = torch.zeros(1000, 203, dtype=torch.int64, device="cuda")
    values = torch.zeros(1000, 50, device="cuda")
    edges = torch.linspace(-1, 1, 201, device="cuda")

    def most_allocated(call: Callable[[], Any]) -> int:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - before

    others = most_allocated(lambda: torch.ops.histo.histogram(values, edges, [1], flow=True))
    assert others >= counts.nbytes
    own = most_allocated(lambda: ADD(counts, values, edges, [1], flow=True))
    assert own < counts.nbytes // 10


@needs_gpu
@pytest.mark.parametrize("way", WAYS)
def test_graphs_add_at_each_replay(way: str) -> None:
    sizes, dtype, bins, dim = WAYS[way]
    values = random_values(sizes, dtype)
    edges = torch.linspace(-10, 250, bins + 1)
    expected = counted(values, edges, dim, flow=True)
    before = old_counts(expected.shape)
    counts, on_gpu, edges_there = before.cuda(), values.cuda(), edges.cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(2):
            ADD(counts, on_gpu, edges_there, dim, flow=True)
    for replays in range(3):
        assert torch.equal(counts.cpu(), before + 2 * replays * expected)
        graph.replay()


# Errors

ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "dtype": (lambda: torch.zeros(3, 8), r"counts must be int64, got float32"),
    "int32": (lambda: torch.zeros(3, 8, dtype=torch.int32), r"counts must be int64, got int32"),
    "sizes": (
        lambda: torch.zeros(3, 11, dtype=torch.int64),
        r"counts must have the sizes that torch_histo.histogram returns here, \[3, 8\], "
        r"got \[3, 11\]",
    ),
    "dimensions": (
        lambda: torch.zeros(1, 3, 8, dtype=torch.int64),
        r"counts must have the sizes .*, \[3, 8\], got \[1, 3, 8\]",
    ),
    "no dimension": (lambda: torch.tensor(0), r"counts must have the sizes .*\[3, 8\], got \[\]"),
    "expanded": (
        lambda: torch.zeros(1, 8, dtype=torch.int64).expand(3, 8),
        r"counts must have memory for each of its elements, got strides that share it: "
        r"pass counts.clone\(\)",
    ),
    "windows": (
        lambda: torch.zeros(10, dtype=torch.int64).unfold(0, 8, 1),
        r"counts must have memory for each of its elements, .*",
    ),
    "sparse": (
        lambda: torch.zeros(3, 8, dtype=torch.int64).to_sparse(),
        r"counts must be a dense tensor, got layout sparse_coo: pass its to_dense\(\)",
    ),
    "meta": (
        lambda: torch.zeros(3, 8, dtype=torch.int64, device="meta"),
        r"counts must be on the device of input, cpu, got meta",
    ),
    "none": (lambda: None, r"counts must be a torch.Tensor, got None"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_about_counts(name: str) -> None:
    make, line = ERRORS[name]
    counts = make()
    with pytest.raises(RuntimeError, match=rf"^histogram_add_: {line}$"):
        ADD(counts, VALUES, EDGES, [0])


@pytest.mark.parametrize(
    ("values", "edges", "dim", "line"),
    [
        (VALUES.to(torch.complex64), EDGES, [0], r"input must have a real dtype .*"),
        (VALUES, EDGES.half(), [0], r"edges must be float32, float64 or integers, got float16.*"),
        (VALUES, EDGES[:1], [0], r"edges must hold at least two edges in the last dimension, .*1"),
        (VALUES, EDGES.expand(2, 9), [0], r"edges must be \[n \+ 1\], or have sizes .*"),
        (VALUES, EDGES, [2], r"dim must be between -2 and 1 for a 2-D input, got 2"),
        (VALUES.to_sparse(), EDGES, [0], r"input must be a dense tensor, .*"),
    ],
)
def test_other_errors(values: Tensor, edges: Tensor, dim: list[int], line: str) -> None:
    counts = old_counts((3, 8))
    before = counts.clone()
    for of_fakes in (False, True):
        if of_fakes and values.layout != torch.strided:
            continue
        mode = FakeTensorMode(allow_non_fake_inputs=True) if of_fakes else torch.no_grad()
        with mode, pytest.raises(RuntimeError, match=rf"^histogram_add_: {line}$"):
            ADD(counts, values, edges, dim)
    assert torch.equal(counts, before)


@pytest.mark.parametrize("name", ["dtype", "sizes", "dimensions", "meta"])
def test_errors_of_fake_counts(name: str) -> None:
    make, line = ERRORS[name]
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(tensor) for tensor in (make(), VALUES, EDGES)]
        with pytest.raises(RuntimeError, match=rf"^histogram_add_: {line}$"):
            ADD(*fakes, [0])


def test_inference_tensors(device: torch.device) -> None:
    values, edges = VALUES.to(device), EDGES.to(device)
    with torch.inference_mode():
        counts = torch.zeros(3, 8, dtype=torch.int64, device=device)
        ADD(counts, values, edges, [0])
    with pytest.raises(RuntimeError, match=r"^histogram_add_: counts must .*clone\(\)"):
        ADD(counts, values, edges, [0])
    assert torch.equal(counts.cpu(), counted(VALUES, EDGES, [0]))


# PyTorch


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize(
    ("sizes", "dim"), [((50,), None), ((50, 6), [0]), ((5, 6, 7), [1]), ((0, 3), [0]), ((), None)]
)
def test_opcheck(
    device: torch.device, sizes: tuple[int, ...], dim: list[int] | None, flow: bool
) -> None:
    values = random_values(sizes, torch.float32).nan_to_num().to(device)
    counts = old_counts(counted(values, EDGES, dim, flow=flow).shape).to(device)
    torch.library.opcheck(ADD.default, (counts, values, EDGES.to(device), dim), {"flow": flow})


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compile(device: torch.device, backend: str) -> None:
    def add_twice(counts: Tensor, values: Tensor, edges: Tensor) -> Tensor:
        ADD(counts, values, edges, [0])
        between = counts.sum()
        ADD(counts, values, edges, [0])
        return between

    torch._dynamo.reset()
    before = old_counts((3, 8))
    counts = before.to(device, copy=True)
    compiled = torch.compile(add_twice, fullgraph=True, backend=backend)
    between = compiled(counts, VALUES.to(device), EDGES.to(device))
    once = counted(VALUES, EDGES, [0])
    assert int(between) == int((before + once).sum())
    assert torch.equal(counts.cpu(), before + 2 * once)


def test_dynamic_sizes(device: torch.device) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda counts, values, edges: ADD(counts, values, edges, [0], flow=True),
        fullgraph=True,
        backend="aot_eager",
        dynamic=True,
    )
    for rows, channels, bins in ((5, 3, 4), (6, 4, 9), (2, 7, 2)):
        values, edges = (
            random_values((rows, channels), torch.float32),
            torch.linspace(0, 9, bins + 1),
        )
        expected = counted(values, edges, [0], flow=True)
        counts = torch.zeros_like(expected).to(device)
        compiled(counts, values.to(device), edges.to(device))
        assert torch.equal(counts.cpu(), expected)


class Adds(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("counts", torch.zeros(3, 8, dtype=torch.int64))

    def forward(self, values: Tensor) -> Tensor:
        ADD(self.counts, values, EDGES, [0])
        return self.counts.clone()


def test_export_and_trace() -> None:
    expected = counted(VALUES, EDGES, [0])
    exported = torch.export.export(Adds(), (VALUES,)).module()
    assert torch.equal(exported(VALUES), expected)
    assert torch.equal(exported(VALUES), 2 * expected)
    traced = torch.jit.trace(Adds(), VALUES, check_trace=False)
    first = traced(VALUES)
    assert torch.equal(traced(VALUES) - first, expected)


def test_vmap(device: torch.device) -> None:
    values = random_values((4, 40, 3), torch.float32).to(device)
    edges = EDGES.to(device)
    counts = torch.zeros(3, 4, 8, dtype=torch.int64, device=device)
    add = torch.func.vmap(lambda c, v, e: ADD(c, v, e, [0]), in_dims=(1, 0, None), out_dims=None)
    add(counts, values, edges)
    expected = torch.stack([counted(v, EDGES, [0]) for v in values], 1)
    assert torch.equal(counts.cpu(), expected)
    of_edges = torch.func.vmap(
        lambda c, e: ADD(c, values[0], e, [0]), in_dims=(1, 0), out_dims=None
    )
    others = torch.stack([EDGES + i for i in range(4)])
    of_edges(counts, others.to(device))
    expected += torch.stack([counted(values[0], e, [0]) for e in others], 1)
    assert torch.equal(counts.cpu(), expected)


def test_vmap_needs_counts_of_each_sample(device: torch.device) -> None:
    counts = torch.zeros(3, 8, dtype=torch.int64, device=device)
    values = random_values((4, 40, 3), torch.float32).to(device)
    with pytest.raises(RuntimeError, match=r"^histogram_add_: counts must be mapped by vmap"):
        torch.func.vmap(lambda v: ADD(counts, v, EDGES.to(device), [0]), out_dims=None)(values)
    assert not counts.any()


def test_no_gradients(device: torch.device) -> None:
    counts = torch.zeros(3, 8, dtype=torch.int64, device=device)
    values = VALUES.to(device, copy=True).requires_grad_()
    edges = EDGES.to(device, copy=True).requires_grad_()
    ADD(counts, values, edges, [0])
    assert not counts.requires_grad
    assert counts.grad_fn is None
    assert torch.equal(counts.cpu(), counted(VALUES, EDGES, [0]))


# Streams


def test_a_stream_adds_in_one_call(device: torch.device) -> None:
    stream = torch_histo.StreamingHistogram(8, (-10, 250), 3).to(device)
    hist = stream.hist
    with Dispatches() as seen:
        stream.update(VALUES.to(device), 0)
    assert [seen.of("histogram_add_"), seen.of("aten.add"), seen.of("histo.histogram.")] == [
        1,
        0,
        0,
    ]
    stream.update(VALUES.to(device), dim=(0,))
    assert stream.hist is hist
    assert torch.equal(hist.cpu(), 2 * counted(VALUES, stream.edges, [0], flow=True))


def test_a_stream_counts_in_other_layouts(device: torch.device) -> None:
    stream = torch_histo.StreamingHistogram(8, (-10, 250), (3, 4, 5)).to(device)
    stream.hist = stream.hist.to(memory_format=torch.channels_last)
    values = random_values((9, 3, 4, 5), torch.float32)
    stream.update(values.to(device), 0)
    assert torch.equal(stream.hist.cpu(), counted(values, stream.edges, [0], flow=True))


def test_a_stream_counts_itself() -> None:
    stream = torch_histo.StreamingHistogram(8, (0, 4))
    stream.update(torch.ones(5))
    expected = stream.hist + counted(stream.hist, stream.edges, flow=True)
    stream.update(stream.hist)
    assert torch.equal(stream.hist, expected)


@pytest.mark.parametrize("dim", [None, 0, [0], ()])
def test_failed_updates_change_nothing(dim: Any) -> None:
    stream = torch_histo.StreamingHistogram(8, (0, 4), 3)
    for wrong in (torch.zeros(5, 4), torch.zeros(5, 3).to(torch.complex64), torch.zeros(3, 5)):
        with pytest.raises(RuntimeError, match=r"^StreamingHistogram.update: x must "):
            stream.update(wrong, dim)
    assert not stream.hist.any()
