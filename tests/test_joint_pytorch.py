"""Joint histograms in PyTorch: gradients, vmap, compilers, programs, fake tensors, graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oracle
import pytest
import torch
from aot import results_of_package
from conftest import Dispatches
from oracle import FLOATS, assert_sums, random_values
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_histo import histogram2d, histogramdd

pytestmark = pytest.mark.sampled(2)

F64 = torch.float64
OPS = torch.ops.histo


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def inputs_on(device: torch.device, *shape: int) -> tuple[Tensor, Tensor]:
    return normal(*shape).to(device), random_values(shape, torch.int16).to(device)


def edges_on(device: torch.device) -> list[Tensor]:
    return [torch.linspace(-2, 2, 6, device=device), torch.tensor([-3, 2, 50, 99], device=device)]


# Gradients


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradient_is_that_of_the_bin(device: torch.device, dtype: torch.dtype, flow: bool) -> None:
    inputs, edges = inputs_on(device, 60), edges_on(device)
    weight = normal(60, seed=3).to(device, dtype).requires_grad_()
    sums = histogramdd(inputs, edges, weight=weight, flow=flow).hist
    plain = histogramdd(inputs, edges, weight=weight.detach(), flow=flow).hist
    assert_sums(sums, plain)
    grad = normal(*sums.shape).to(device, F64)
    (found,) = torch.autograd.grad(sums, weight, grad)
    own = [x.cpu() for x in inputs], [e.cpu() for e in edges]
    (index,), *_ = oracle.joint_index(*own, flow=flow)
    flat = [*grad.flatten().tolist(), 0.0]  # the last one is that of elements without a bin
    expected = torch.tensor([flat[at] for at in index], dtype=F64).to(dtype)
    assert found.dtype == dtype
    assert torch.equal(found.cpu().double(), expected.double())


def test_gradient_of_channels_and_density(device: torch.device) -> None:
    inputs, edges = inputs_on(device, 4, 30), edges_on(device)
    weight = torch.rand(30, generator=torch.Generator().manual_seed(0)).to(device, F64)
    weight.requires_grad_()

    def by_hand(w: Tensor) -> Tensor:
        own = [x.cpu() for x in inputs], [e.cpu() for e in edges]
        index, *_ = oracle.joint_index(*own, 1)
        rows = []
        for joint in index:
            at = torch.tensor([15 if i < 0 else i for i in joint], device=device)
            row = torch.zeros(16, dtype=F64, device=device).index_add(0, at, w)[:15]
            rows.append(row / row.sum())
        areas = edges[0].double().diff()[:, None] * edges[1].double().diff()
        return torch.stack(rows).reshape(4, 5, 3) / areas

    found = histogramdd(inputs, edges, dim=1, weight=weight, density=True).hist
    expected = by_hand(weight)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    scale = torch.arange(60.0, device=device).view(4, 5, 3)
    grads = [torch.autograd.grad((hist * scale).sum(), weight)[0] for hist in (found, expected)]
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)


def test_counts_have_no_gradient(device: torch.device) -> None:
    x = normal(20).to(device).requires_grad_()
    edges = torch.linspace(-2, 2, 6, device=device).requires_grad_()
    found = histogram2d(x, x, edges)
    assert not found.hist.requires_grad
    assert not histogram2d(x, x, 3, weight=torch.ones(20, device=device)).hist.requires_grad


# vmap


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (0, None, 1), (None, 2, 0), (-1, 1, None)])
@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("weighted", [False, True])
def test_vmap(device: torch.device, in_dims: tuple[Any, ...], dim: Any, weighted: bool) -> None:
    edges = edges_on(device)
    whole = [*inputs_on(device, 4, 4, 4), normal(4, 4, 4, seed=9).to(device)]
    given = [t[0] if at is None else t for t, at in zip(whole, in_dims, strict=True)]

    def call(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        weight = w if weighted else None
        return histogramdd((x, y), edges, dim=dim, weight=weight, flow=True).hist

    samples = [
        [t] * 4 if at is None else t.unbind(at) for t, at in zip(given, in_dims, strict=True)
    ]
    expected = torch.stack([call(*sample) for sample in zip(*samples, strict=True)])
    found = torch.vmap(call, in_dims)(*given)
    assert (assert_sums if weighted else torch.testing.assert_close)(found, expected) is None


def test_vmap_over_edges_and_numbers(device: torch.device) -> None:
    x, y = normal(30).to(device), normal(30, seed=1).to(device)
    own = torch.rand(5, 4, generator=torch.Generator().manual_seed(0)).sort(-1).values.to(device)
    shared = torch.linspace(-1, 1, 4, device=device)
    found = torch.vmap(lambda e: histogram2d(x, y, (e, shared)).hist)(own)
    assert torch.equal(found, torch.stack([histogram2d(x, y, (e, shared)).hist for e in own]))
    numbers = torch.vmap(lambda a, b: histogram2d(a, b, (shared, shared)).hist)(x, y)
    assert torch.equal(numbers.sum(0), histogram2d(x, y, shared).hist)
    found = torch.vmap(lambda a: histogram2d(a, a, 3).hist)(torch.stack((x, y)))
    assert torch.equal(found, torch.stack([histogram2d(a, a, 3).hist for a in (x, y)]))


def test_func(device: torch.device) -> None:
    x, y = (normal(4, 20, seed=d).to(device) for d in range(2))
    weight = normal(4, 20, seed=2).to(device)

    def loss(w: Tensor, a: Tensor, b: Tensor) -> Tensor:
        edges = torch.linspace(-2, 2, 4, device=a.device)
        return histogram2d(a, b, edges, weight=w).hist.square().sum()

    grads = []
    for own in zip(weight, x, y, strict=True):
        w = own[0].clone().requires_grad_()
        grads.append(torch.autograd.grad(loss(w, *own[1:]), w)[0])
    assert torch.equal(torch.vmap(torch.func.grad(loss))(weight, x, y), torch.stack(grads))


# Compilers


WORKS: dict[str, Callable[..., Any]] = {
    "2d": lambda x, y, w: histogram2d(x, y, 7),
    "channels": lambda x, y, w: histogram2d(x, y, (3, 4), range=((-2, 2), None), dim=0, flow=True),
    "dd": lambda x, y, w: histogramdd((x, y, w, x, y), 2),
    "last dimension": lambda x, y, w: histogramdd(torch.stack((x, w), -1), 4, dim=1).hist,
    "edges": lambda x, y, w: histogram2d(x + 1, y, edges_on(x.device), weight=w * 2).hist,
    "density": lambda x, y, w: histogram2d(x, y, 4, weight=w, density=True).hist,
    "integers": lambda x, y, w: histogram2d(x, y, 4, dim=1, weight=(w * 9).int()).hist,
    "broadcast": lambda x, y, w: histogram2d(x, w[0], 4, dim=0).hist,
    "vmap": lambda x, y, w: torch.vmap(lambda a, b: histogram2d(a, b, 3).hist)(x, y),
}


def leaves(result: Any) -> list[Tensor]:
    return torch.utils._pytree.tree_leaves(result)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", WORKS)
def test_one_graph(device: torch.device, name: str, dynamic: bool) -> None:
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(WORKS[name], fullgraph=True, dynamic=dynamic, backend=counter)
    for rows in (33, 40) if dynamic else (33,):
        args = *inputs_on(device, rows, 5), normal(rows, 5, seed=1).to(device)
        expected = leaves(WORKS[name](*args))
        for _ in range(2):
            got = leaves(compiled(*args))
            assert all(map(torch.equal, got, expected))
            assert len(got) == len(expected)
    assert counter.frame_count == 1


def test_gradient_in_a_graph(device: torch.device) -> None:
    compiled = torch.compile(WORKS["edges"], fullgraph=True)
    args = inputs_on(device, 33, 5)
    weight = normal(33, 5, seed=1).to(device).requires_grad_()
    grads = [
        torch.autograd.grad(call(*args, weight).square().sum(), weight)[0]
        for call in (compiled, WORKS["edges"])
    ]
    torch.testing.assert_close(*grads, rtol=1e-6, atol=1e-9)


@pytest.mark.long  # that of weights is short
def test_programs(device: torch.device, tmp_path: Path) -> None:
    """Exported, saved, and compiled ahead of time; sizes are those of each call."""

    class Module(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor, w: Tensor) -> Any:
            sums = histogramdd((x, y, x), (3, 2, 4), dim=0, weight=w.detach())
            return histogram2d(x, y, 6, dim=0), sums.hist, histogramdd((x, y) * 2, 2).hist

    def arguments(rows: int) -> tuple[Tensor, ...]:
        return *inputs_on(device, rows, 5), normal(rows, 5, seed=1).to(device)

    rows = torch.export.Dim("rows", min=2)
    sizes = {name: {0: rows} for name in "xyw"}
    program = torch.export.export(Module(), arguments(30), dynamic_shapes=sizes)
    made = [node for node in program.graph.nodes if node.target == OPS.uniform_edges.default]
    assert made
    assert not any("dtype" in node.kwargs for node in made)  # torch 2.11 would pass another one
    torch.export.save(program, tmp_path / "joint.pt2")
    loaded = torch.export.load(tmp_path / "joint.pt2").module()
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "ahead.pt2")
    )
    calls = [arguments(length) for length in (30, 41)]
    ahead = results_of_package(package, calls, tmp_path)
    for args, of_package in zip(calls, ahead, strict=True):
        expected = leaves(Module()(*args))
        for results in (program.module()(*args), loaded(*args), of_package):
            assert all(map(torch.equal, leaves(results), expected))


@pytest.mark.parametrize("dim", [None, [0], [-1, 0]])
@pytest.mark.parametrize("axes", [1, 2, 4])
def test_opcheck(device: torch.device, axes: int, dim: Any) -> None:
    inputs = [inputs_on(device, 4, 3, 5)[d % 2] for d in range(axes)]
    edges = [edges_on(device)[d % 2] for d in range(axes)]
    weight = normal(3, 1).to(device)
    for flow in (False, True):
        torch.library.opcheck(OPS.joint_histogram.default, (inputs, edges, dim), {"flow": flow})
        torch.library.opcheck(
            OPS.weighted_joint_histogram.default, (inputs, edges, weight, dim), {"flow": flow}
        )
        torch.library.opcheck(OPS._joint_index.default, (inputs, edges, dim, flow))


def test_fakes_are_like_results(device: torch.device) -> None:
    def call(x: Tensor, y: Tensor, w: Tensor) -> list[Tensor]:
        forms: list[dict[str, Any]] = [{}, {"dim": 0, "flow": True}, {"density": True}]
        found = [histogram2d(x, y, 3, weight=own, **form) for form in forms for own in (None, w)]
        return leaves(found)

    args = normal(6, 4), random_values((6, 4), torch.uint8), normal(4)
    real = call(*(t.to(device) for t in args))
    fakes = [call(*(t.to("meta") for t in args))]
    with FakeTensorMode() as mode:
        fakes.append(call(*map(mode.from_tensor, args)))
    for fake in fakes:
        for one, other in zip(real, fake, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert one.stride() == other.stride()


def test_errors_of_fakes_are_those_of_kernels() -> None:
    x, y, edges = torch.zeros(4), torch.zeros(4, dtype=torch.int32), torch.tensor([0.0, 1])
    calls: list[tuple[list[Tensor], list[Tensor], Any]] = [
        ([x, y], [edges], None),
        ([x, y + 1j], [edges, edges], None),
        ([x, y], [edges, edges.bool()], None),
        ([x, y], [edges, edges[:1]], None),
        ([x, y], [edges, edges.expand(3, 2)], None),
        ([x, y[:3]], [edges, edges], None),
        ([x, y], [edges, edges], [7]),
        ([x] * 8, [torch.zeros(1000)] * 8, None),
    ]
    for inputs, own, dim in calls:
        lines = []
        for device in ("cpu", "meta"):
            with pytest.raises(RuntimeError) as error:
                OPS.joint_histogram(
                    [t.to(device) for t in inputs], [e.to(device) for e in own], dim
                )
            lines.append(str(error.value))
        assert lines[0] == lines[1]


def test_no_more_operators_than_needed(device: torch.device) -> None:
    x, y = inputs_on(device, 10, 3)
    with Dispatches() as dispatches:
        histogram2d(x, y, edges_on(device))
        assert dispatches.of("histo.") == 1
        histogram2d(x, y, edges_on(device), weight=x)
    assert dispatches.of("histo.") == 3


def test_a_tensor_is_not_copied(device: torch.device) -> None:
    sample = normal(50, 3).to(device)
    with Dispatches() as dispatches:
        histogramdd(sample, [torch.linspace(-1, 1, 3, device=device)] * 3)
    assert not [name for name in dispatches.names if "copy" in name or "clone" in name]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured() -> None:
    device = torch.device("cuda")
    args = [*inputs_on(device, 1000), normal(1000, seed=1).to(device)]

    def call() -> list[Tensor]:
        x, y, w = args
        found = [histogram2d(x, y, 9), histogram2d(x, y, 9, weight=w), histogramdd((x, y, w, x), 3)]
        return leaves(found)

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = call()
    for seed in (1, 2):
        args[0].copy_(normal(1000, seed=seed))
        graph.replay()
        expected = call()
        assert all(map(torch.equal, got, expected))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_nothing_synchronizes() -> None:
    x, y = inputs_on(torch.device("cuda"), 1000)
    torch.cuda.set_sync_debug_mode("error")
    try:
        histogram2d(x, y, 9, weight=x, density=True)
        histogramdd((x, y, x, y), 3, range=((0, 1), None, None, None))
    finally:
        torch.cuda.set_sync_debug_mode("default")
