"""Histograms of any numbers in PyTorch: opcheck, fake tensors, torch.compile, vmap, autograd."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import oracle
import pytest
import torch
from conftest import Dispatches
from oracle import NUMBERS, assert_counts, like, random_values
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_histo

pytestmark = pytest.mark.sampled(2)

HISTO = torch.ops.histo
EDGES = torch.linspace(-10, 250, 14)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def count(values: Tensor, edges: Tensor, dim: Any = None, *, flow: bool = False) -> Tensor:
    counts: Tensor = HISTO.histogram(values, edges, dim, flow=flow)
    return counts


# opcheck, fake and meta tensors

OPCHECK_INPUTS: dict[str, tuple[Tensor, Tensor, Any]] = {
    "one channel": (random_values((50,), torch.float32), EDGES, None),
    "columns": (random_values((50, 6), torch.bfloat16), EDGES, [0]),
    "rows": (random_values((50, 6), torch.float64), EDGES.double(), [-1]),
    "edges of channels": (random_values((50, 6), torch.float32), EDGES.repeat(6, 1), [0]),
    "edges that broadcast": (random_values((4, 5, 6), torch.int16), EDGES.repeat(4, 1, 1), [1]),
    "integer edges": (random_values((50, 6), torch.uint8), EDGES.to(torch.int32), [0]),
    "transposed": (random_values((5, 6, 7), torch.float16).transpose(0, 2), EDGES, [0, -1]),
    "expanded": (random_values((3,), torch.float32).expand(4, 3), EDGES, []),
    "empty": (random_values((0, 3), torch.float32), EDGES, [0]),
    "a number": (torch.tensor(7.0), EDGES, None),
    "bool": (random_values((50,), torch.bool), EDGES, None),
}


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("case", OPCHECK_INPUTS)
def test_opcheck(device: torch.device, case: str, flow: bool) -> None:
    values, edges, dim = OPCHECK_INPUTS[case]
    moved = like(values, device), like(edges, device), dim
    torch.library.opcheck(HISTO.histogram.default, moved, {"flow": flow})


@pytest.mark.parametrize("case", OPCHECK_INPUTS)
def test_opcheck_of_finite_range(device: torch.device, case: str) -> None:
    values, _, dim = OPCHECK_INPUTS[case]
    torch.library.opcheck(HISTO.finite_range.default, (like(values, device), dim))


@pytest.mark.parametrize("num_bins", [1, 2, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_opcheck_of_uniform_edges(device: torch.device, num_bins: int, dtype: torch.dtype) -> None:
    for low, high in (
        (torch.tensor(0.0), torch.tensor(1.0)),
        (torch.zeros(3, 1, dtype=torch.float64), torch.ones(4, dtype=torch.float64)),
        (torch.zeros(0), torch.ones(0)),
    ):
        arguments = (low.to(device), high.to(device), num_bins)
        torch.library.opcheck(HISTO.uniform_edges.default, arguments, {"dtype": dtype})


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim", "kept"),
    [
        ((5,), 0, ()),
        ((), 0, ()),
        ((), None, ()),
        ((5, 6), -1, (5,)),
        ((2, 3, 4, 5), (1, 3), (2, 4)),
        ((2, 3), None, ()),
        ((2, 3), (), ()),
        ((0, 4), 0, (4,)),
    ],
)
def test_meta_and_fake(shape: tuple[int, ...], dim: Any, kept: tuple[int, ...], flow: bool) -> None:
    expected = (*kept, 9 + 3 * flow)

    def check(kind: str) -> None:
        values, edges = torch.empty(shape, device=kind), torch.empty(10, device=kind)
        counts = count(values, edges, dim, flow=flow)
        assert (counts.shape, counts.dtype, counts.device.type) == (expected, torch.int64, kind)
        for end in HISTO.finite_range(values, dim):
            assert (end.shape, end.dtype, end.device.type) == (kept, torch.float32, kind)
        result = torch_histo.histogram(values, 9, dim=dim, flow=flow)
        assert (result.hist.shape, result.hist.dtype) == (expected, torch.int64)
        assert result.bin_edges.shape[-1] == 10
        assert result.hist.device.type == result.bin_edges.device.type == kind

    check("meta")
    with FakeTensorMode():
        check("cpu")
        check("cuda")


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_fakes_have_the_types_of_results(device: torch.device, dtype: torch.dtype) -> None:
    values = random_values((20, 3), dtype).to(device)

    def call(x: Tensor, edges: Tensor) -> list[Tensor]:
        ends = HISTO.finite_range(x, 0)
        return [count(x, edges, 0), *ends, *torch_histo.histogram(x, 7, dim=0)]

    real = call(values, EDGES.to(device))
    fake = call(values.to("meta"), EDGES.to("meta"))
    for one, other in zip(real, fake, strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_meta_of_uniform_edges(dtype: torch.dtype) -> None:
    low, high = torch.empty(3, 1, device="meta"), torch.empty(4, device="meta")
    edges = HISTO.uniform_edges(low, high, 9, dtype=dtype)
    assert (edges.shape, edges.dtype, edges.device.type) == ((3, 4, 10), dtype, "meta")


# torch.compile


@pytest.mark.parametrize("dynamic", [False, True])
def test_one_graph(device: torch.device, dynamic: bool) -> None:
    counter = CompileCounterWithBackend("inductor")

    def work(x: Tensor, edges: Tensor) -> Tensor:
        return count(x * 2, edges, 1, flow=True).sum(0) + 1

    compiled = torch.compile(work, fullgraph=True, dynamic=dynamic, backend=counter)
    values = random_values((33, 70), torch.float32).to(device)
    for _ in range(2):
        assert torch.equal(compiled(values, EDGES.to(device)), work(values, EDGES.to(device)))
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_dynamic_shapes(device: torch.device, backend: str) -> None:
    """New sizes, and a new number of edges, are no new program."""
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(
        lambda x, edges: count(x, edges, (0, 2)), fullgraph=True, dynamic=True, backend=counter
    )
    # Two sizes that are equal by chance would be one symbol.
    for shape, bins in (((6, 7, 9), 4), ((64, 3, 11), 100), ((2, 100, 50), 7)):
        values = random_values(shape, torch.float32)
        edges = torch.linspace(-5, 250, bins + 1)
        expected = oracle.histogram(values, edges, (0, 2))
        assert_counts(compiled(values.to(device), edges.to(device)), expected, shape)
    assert counter.frame_count == 1


@pytest.mark.parametrize("dynamic", [None, True])
def test_bins_of_each_call(device: torch.device, dynamic: bool | None) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        torch_histo.histogram, fullgraph=True, dynamic=dynamic, backend=counter
    )
    values = random_values((50, 6), torch.float32)
    for bins in (256, 3, 4, 5, 100):
        got = compiled(values.to(device), bins, range=(0, 200), dim=0)
        ends = (torch.tensor(end, dtype=torch.float64) for end in (0, 200))
        edges = oracle.uniform_edges(*ends, bins, dtype=torch.float32)
        assert torch.equal(got.bin_edges.cpu(), edges)
        assert_counts(got.hist, oracle.histogram(values, edges, 0), bins)
    assert counter.frame_count <= 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"dim": 1},
        {"range": (-3, 200.5), "flow": True},
        {"density": True, "range": (0, 100)},
        {"bins": 1, "dim": (0, 1)},
        {"bins": EDGES},
    ],
    ids=str,
)
def test_function_in_a_graph(
    device: torch.device, arguments: dict[str, Any], dynamic: bool
) -> None:
    moved = {
        name: value.to(device) if isinstance(value, Tensor) else value
        for name, value in arguments.items()
    }

    def work(x: Tensor) -> tuple[Tensor, Tensor]:
        hist, bin_edges = torch_histo.histogram(x + 0.5, **moved)
        return hist, bin_edges

    compiled = torch.compile(work, fullgraph=True, dynamic=dynamic)
    for rows in (30, 31) if dynamic else (30,):
        values = random_values((rows, 7), torch.float32).to(device)
        for got, expected in zip(compiled(values), work(values), strict=True):
            assert torch.equal(got, expected)


def test_ranges_of_tensors_in_a_graph(device: torch.device) -> None:
    compiled = torch.compile(
        lambda x, low, high: torch_histo.histogram(x, 20, range=(low, high), dim=0),
        fullgraph=True,
        dynamic=True,
    )
    for channels in (4, 7):
        values = random_values((60, channels), torch.bfloat16)
        low, high = torch.arange(channels) * 1.0, torch.arange(channels) * 9.0 + 50
        got = compiled(*(tensor.to(device) for tensor in (values, low, high)))
        edges = oracle.uniform_edges(low, high, 20, dtype=torch.float32)
        assert torch.equal(got.bin_edges.cpu(), edges)
        assert_counts(got.hist, oracle.histogram(values, edges, 0))


def test_edges_are_rounded_as_eager_ones(device: torch.device) -> None:
    """A compiler may not fuse the multiplication with the addition."""
    low = torch.rand(300, generator=torch.Generator().manual_seed(0)) - 0.5
    high = low + 0.7
    compiled = torch.compile(lambda a, b: HISTO.uniform_edges(a * 1, b * 1, 77, dtype=a.dtype))
    edges = compiled(low.to(device), high.to(device))
    assert torch.equal(edges.cpu(), oracle.uniform_edges(low, high, 77, dtype=torch.float32))


def test_export(device: torch.device) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            hist, bin_edges = torch_histo.histogram(x, 30, dim=0)
            return hist, bin_edges, count(x, edges, 0, flow=True)

    values, edges = random_values((50, 6), torch.float32).to(device), EDGES.to(device)
    sizes = {"x": {0: torch.export.Dim("rows", min=2)}, "edges": {0: torch.export.Dim("n", min=3)}}
    program = torch.export.export(Module(), (values, edges), dynamic_shapes=sizes)
    for rows, bins in ((50, 13), (77, 40)):
        values = random_values((rows, 6), torch.float32).to(device)
        edges = torch.linspace(0, 200, bins + 1, device=device)
        got = program.module()(values, edges)
        for one, other in zip(got, Module()(values, edges), strict=True):
            assert torch.equal(one, other)


# vmap


def in_one_call(call: Callable[..., Any], *args: Tensor) -> Any:
    with Dispatches() as dispatches:
        result = call(*args)
    assert dispatches.of("histo.") == 1, dispatches.names
    return result


def random_edges(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator) * 280 - 20).sort(-1).values


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("in_dim", [0, 1, 2, 3, -1])
@pytest.mark.parametrize("dim", [None, 0, -1, (0, 1), (2, 0), ()])
def test_vmap_over_input(device: torch.device, in_dim: int, dim: Any, flow: bool) -> None:
    values = random_values((4, 5, 6, 3), torch.float32)
    mapped = torch.vmap(lambda x, e: count(x, e, dim, flow=flow), in_dims=(in_dim, None))
    samples = [oracle.histogram(x, EDGES, dim, flow=flow) for x in values.unbind(in_dim)]
    got = in_one_call(mapped, values.to(device), EDGES.to(device))
    assert_counts(got, torch.stack(samples))


@pytest.mark.parametrize("in_dim", [0, 1, -1])
@pytest.mark.parametrize("dim", [None, 0, (0, 1)])
def test_vmap_over_edges(device: torch.device, in_dim: int, dim: Any) -> None:
    values = random_values((30, 6), torch.float32)
    edges = random_edges((5, 8)).movedim(0, in_dim)
    mapped = torch.vmap(lambda x, e: count(x, e, dim, flow=True), in_dims=(None, in_dim))
    samples = [oracle.histogram(values, e, dim, flow=True) for e in edges.unbind(in_dim)]
    assert_counts(in_one_call(mapped, values.to(device), edges.to(device)), torch.stack(samples))


def test_vmap_over_edges_of_channels(device: torch.device) -> None:
    values = random_values((30, 6), torch.float32)
    edges = random_edges((5, 6, 8))
    mapped = torch.vmap(lambda x, e: count(x, e, 0), in_dims=(None, 0))
    samples = [oracle.histogram(values, e, 0) for e in edges]
    assert_counts(in_one_call(mapped, values.to(device), edges.to(device)), torch.stack(samples))


@pytest.mark.parametrize("in_dims", [(0, 0), (1, 0), (2, 1), (-1, -1)])
@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("own", [False, True])
def test_vmap_over_both(
    device: torch.device, in_dims: tuple[int, int], dim: Any, own: bool
) -> None:
    """Edges of one row, or one for each channel of a sample."""
    values = random_values((5, 5, 5), torch.float32)
    shape = (5, 5, 8) if own and dim is not None else (5, 8)
    edges = random_edges(shape).movedim(0, in_dims[1])
    mapped = torch.vmap(lambda x, e: count(x, e, dim, flow=True), in_dims=in_dims)
    pairs = zip(values.unbind(in_dims[0]), edges.unbind(in_dims[1]), strict=True)
    samples = [oracle.histogram(x, e, dim, flow=True) for x, e in pairs]
    assert_counts(in_one_call(mapped, values.to(device), edges.to(device)), torch.stack(samples))


def test_vmap_over_numbers(device: torch.device) -> None:
    numbers = torch.tensor([0.0, 2.0, 1.0, float("nan")])
    edges = torch.tensor([0.0, 1.0, 2.0])
    for dim in (None, 0, -1):
        mapped = torch.vmap(lambda x, e, d=dim: count(x, e, d, flow=True), in_dims=(0, None))
        expected = torch.stack([oracle.histogram(x, edges, dim, flow=True) for x in numbers])
        assert_counts(in_one_call(mapped, numbers.to(device), edges.to(device)), expected)
        both = torch.vmap(lambda x, e, d=dim: count(x, e, d, flow=True))
        own = edges.repeat(4, 1).to(device)
        assert_counts(in_one_call(both, numbers.to(device), own), expected)


@pytest.mark.parametrize(
    "levels", [((0, None), (None, 0)), ((None, 0), (0, None)), ((0, 0), (1, 0))]
)
def test_nested_vmap(device: torch.device, levels: tuple[tuple[Any, Any], ...]) -> None:
    """A sample of the outer level is mapped again by the inner one."""
    values = random_values((3, 40, 3), torch.float32)
    edges = random_edges((3, 3, 8) if levels[0] == (0, 0) else (3, 8))
    mapped = lambda x, e: count(x, e, None, flow=True)  # noqa: E731
    for in_dims in reversed(levels):
        mapped = torch.vmap(mapped, in_dims=in_dims)

    def by_samples(x: Tensor, e: Tensor, rest: tuple[tuple[Any, Any], ...]) -> Tensor:
        if not rest:
            return oracle.histogram(x, e, None, flow=True)
        of_x, of_e = rest[0]
        xs = [x] * 3 if of_x is None else x.unbind(of_x)
        es = [e] * 3 if of_e is None else e.unbind(of_e)
        pairs = zip(xs, es, strict=True)
        return torch.stack([by_samples(one, other, rest[1:]) for one, other in pairs])

    got = in_one_call(mapped, values.to(device), edges.to(device))
    assert_counts(got, by_samples(values, edges, levels))


def test_vmap_over_no_samples(device: torch.device) -> None:
    values, edges = torch.empty(0, 5, 3, device=device), EDGES.to(device)
    got = torch.vmap(lambda x, e: count(x, e, 0), in_dims=(0, None))(values, edges)
    assert_counts(got, torch.zeros(0, 3, 13, dtype=torch.int64))


@pytest.mark.parametrize("in_dim", [0, 1, -1])
@pytest.mark.parametrize("dim", [None, 0, (0, 1)])
def test_vmap_of_finite_range(device: torch.device, in_dim: int, dim: Any) -> None:
    values = random_values((4, 5, 6), torch.float32)
    mapped = torch.vmap(lambda x: HISTO.finite_range(x, dim), in_dims=in_dim)
    samples = [oracle.finite_range(x, dim) for x in values.unbind(in_dim)]
    for got, expected in zip(
        in_one_call(mapped, values.to(device)), zip(*samples, strict=True), strict=True
    ):
        assert torch.equal(got.cpu(), torch.stack(expected))


@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_uniform_edges(device: torch.device, in_dims: tuple[Any, Any]) -> None:
    ends = [torch.randn(4, 3), torch.randn(4, 3) + 10]
    ends = [end[0] if in_dim is None else end for end, in_dim in zip(ends, in_dims, strict=True)]
    mapped = torch.vmap(
        lambda a, b: HISTO.uniform_edges(a, b, 10, dtype=torch.float32), in_dims=in_dims
    )
    got = in_one_call(mapped, *(end.to(device) for end in ends))
    expected = oracle.uniform_edges(*ends, 10, dtype=torch.float32)
    assert torch.equal(got.cpu(), expected)


@pytest.mark.parametrize("range_", [None, (0, 100)])
def test_vmap_of_the_function(device: torch.device, range_: Any) -> None:
    values = random_values((4, 50, 3), torch.float32)
    mapped = torch.vmap(lambda x: tuple(torch_histo.histogram(x, 20, range=range_, dim=0)))
    hist, bin_edges = mapped(values.to(device))
    for sample, counts, edges in zip(values, hist, bin_edges, strict=True):
        one = torch_histo.histogram(sample.to(device), 20, range=range_, dim=0)
        assert torch.equal(counts, one.hist)
        assert torch.equal(edges, one.bin_edges)


@pytest.mark.parametrize(
    ("dim", "edges", "message"),
    [
        (1, EDGES, "dim must be between -1 and 0 for a 1-D input"),
        (None, EDGES[:1], "edges must"),
        (None, EDGES.half(), "edges must"),
        (None, EDGES.repeat(2, 1), "edges must"),
    ],
)
def test_errors_are_about_a_sample(
    device: torch.device, dim: Any, edges: Tensor, message: str
) -> None:
    values = torch.zeros(4, 5, device=device)
    with pytest.raises(RuntimeError, match=f"^histogram: {message}"):
        torch.vmap(lambda x, e: count(x, e, dim), in_dims=(0, None))(values, edges.to(device))


# autograd and the rest of PyTorch


def test_no_gradient(device: torch.device) -> None:
    """Counts have none, as those of torch.histc."""
    values = torch.randn(300, 3, generator=torch.Generator().manual_seed(0)).to(device)
    plain = torch_histo.histogram(values, 20, dim=0)
    values.requires_grad_()
    edges = torch.linspace(-3, 3, 21, device=device, requires_grad=True)
    for flow in (False, True):
        counts = count(values, edges, 0, flow=flow)
        assert not counts.requires_grad
        assert torch.equal(counts, count(values.detach(), edges.detach(), 0, flow=flow))
    result = torch_histo.histogram(values, 20, dim=0)
    assert not result.hist.requires_grad
    assert torch.equal(result.hist, plain.hist)
    assert torch.equal(result.bin_edges, plain.bin_edges)
    weight = torch.ones(20, device=device, requires_grad=True)
    (result.hist * weight).sum().backward()
    assert torch.equal(weight.grad, plain.hist.sum(0).float())


def test_a_compiled_input_that_requires_grad(device: torch.device) -> None:
    values = torch.randn(300, generator=torch.Generator().manual_seed(0)).to(device)
    values.requires_grad_()
    compiled = torch.compile(
        lambda x: (torch_histo.histogram(x * 2, 20).hist.sum() * x).sum(),
        fullgraph=True,
        backend="aot_eager",
    )
    compiled(values).backward()
    assert torch.equal(values.grad, torch.full_like(values, 300))


def test_inference_mode(device: torch.device) -> None:
    values = random_values((50,), torch.float32).to(device)
    expected = torch_histo.histogram(values, 9)
    with torch.inference_mode():
        got = torch_histo.histogram(values, 9)
        assert torch.equal(got.hist, expected.hist)
        assert torch.equal(got.bin_edges, expected.bin_edges)


def test_autocast(device: torch.device) -> None:
    """Neither the input nor the edges are converted."""
    values = torch.tensor([0.1, 1000.1, 70000.0], device=device)
    edges = torch.tensor([0.1, 1000.1, 70000.0], device=device)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast(device.type, dtype):
            assert count(values, edges).tolist() == [1, 2]
            assert torch_histo.histogram(values, 2).bin_edges.dtype == torch.float32


def test_default_dtype_and_device(device: torch.device) -> None:
    """Neither changes the edges."""
    values = random_values((50,), torch.float32).to(device)
    expected = torch_histo.histogram(values, 9, range=(0.1, 100))
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float64, torch.float16):
            torch.set_default_dtype(dtype)
            with torch.device("meta"):
                got = torch_histo.histogram(values, 9, range=(0.1, 100))
            assert torch.equal(got.hist, expected.hist)
            assert torch.equal(got.bin_edges, expected.bin_edges)
            assert got.bin_edges.dtype == torch.float32
    finally:
        torch.set_default_dtype(before)


def test_a_parameter_and_a_named_tuple_survive_copies(device: torch.device) -> None:
    weights = torch.nn.Linear(5, 4, device=device).weight
    result = torch_histo.histogram(weights, 6, dim=1)
    assert result.hist.shape == (4, 6)
    assert torch.equal(copy.deepcopy(result).hist, result.hist)
