"""Sums of weights in PyTorch: gradients, vmap, compilers, programs, fake tensors, modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oracle
import pytest
import torch
from aot import results_of_package
from conftest import Dispatches
from oracle import FLOATS, any_bits, assert_sums, random_values
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from torch_histo import channel_histogram, histogram

pytestmark = pytest.mark.sampled(2)

EDGES = torch.tensor([-10.0, 0.5, 3, 3, 100, 250])
F64 = torch.float64


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def one_hot(values: Tensor, edges: Tensor, *, flow: bool = False) -> Tensor:
    """[elements, bins] of 1 where an element is: its own histogram."""
    counts = [oracle.histogram(v, edges, flow=flow) for v in values.cpu().flatten()]
    return torch.stack(counts).to(values.device, F64)


# Gradients


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradient_is_that_of_the_bin(device: torch.device, dtype: torch.dtype, flow: bool) -> None:
    values = random_values((60,), torch.float32).to(device)
    weight = any_bits((60,), dtype).to(device).requires_grad_()
    sums = histogram(values, EDGES.to(device), weight=weight, flow=flow).hist
    assert sums.requires_grad
    grad = normal(*sums.shape).to(device, F64)
    (found,) = torch.autograd.grad(sums, weight, grad)
    expected = one_hot(values, EDGES, flow=flow) @ grad
    assert found.dtype == dtype
    assert torch.equal(found.double(), expected.to(dtype).double())


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (5, 1, 1), (5, 3, 4)], ids=str)
def test_gradient_of_what_is_broadcast(device: torch.device, shape: tuple[int, ...]) -> None:
    values = (normal(5, 3, 4) * 3).to(device)
    edges = torch.linspace(-4, 4, 6).to(device)
    for dim, dtype in ((None, torch.float32), (1, F64), ((0, 2), F64)):
        weight = torch.ones(shape, dtype=dtype, device=device, requires_grad=True)
        whole = torch.ones(5, 3, 4, dtype=F64, device=device, requires_grad=True)
        grad = []
        for one in (weight, whole):
            sums = histogram(values, edges, dim=dim, weight=one).hist
            scale = torch.arange(1.0, sums.numel() + 1, device=device).view(sums.shape)
            grad.append(torch.autograd.grad((sums * scale).sum(), one)[0])
        assert grad[0].dtype == dtype
        assert torch.equal(grad[0], grad[1].sum_to_size(shape).to(dtype))


def test_gradient_of_values(device: torch.device) -> None:
    ids = random_values((7, 9), torch.int16, low=-2, high=6).to(device)
    for dim in (0, 1, None):
        weight = torch.ones(7, 9, device=device, requires_grad=True)
        sums = channel_histogram(ids, 5, dim, weight=weight)
        grad = normal(*sums.shape).to(device, F64)
        (found,) = torch.autograd.grad(sums, weight, grad)
        padded = torch.cat((grad, torch.zeros_like(grad[..., :1])), -1)
        at = ids.long().where((ids >= 0) & (ids < 5), 5)
        if dim is None:
            expected = padded[at]
        else:
            expected = padded.gather(-1, at.movedim(dim, -1)).movedim(-1, dim)
        assert torch.equal(found, expected.float())


def test_gradient_of_density(device: torch.device) -> None:
    """Against autograd through the same sums and quotients."""
    values, edges = normal(40).to(device), torch.linspace(-2, 2, 6, device=device)
    weight = normal(40, seed=1).abs().to(device, F64).requires_grad_()
    found = torch.autograd.grad(
        histogram(values, edges, weight=weight, density=True).hist.square().sum(), weight
    )[0]
    sums = weight @ one_hot(values, edges)
    density = sums / edges.double().diff() / sums.sum()
    expected = torch.autograd.grad(density.square().sum(), weight)[0]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_input_and_edges_have_no_gradient(device: torch.device) -> None:
    values = normal(20).to(device).requires_grad_()
    edges = torch.linspace(-2, 2, 6, device=device).requires_grad_()
    weight = torch.ones(20, device=device)
    for flags in ({}, {"density": True}, {"flow": True}):
        assert not histogram(values, edges, weight=weight, **flags).hist.requires_grad
        found = histogram(values, edges, weight=weight.clone().requires_grad_(), **flags).hist
        with pytest.raises(RuntimeError, match="used in the graph"):
            torch.autograd.grad(found.sum(), (values, edges))
    with torch.no_grad():
        assert not histogram(values, 3, weight=weight.clone().requires_grad_()).hist.requires_grad
    assert not histogram(values, 3, weight=torch.ones(20, device=device).int()).hist.requires_grad


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "histogram": lambda w: histogram(torch.arange(9.0).to(w.device), 3, weight=w).hist,
    "channel_histogram": lambda w: channel_histogram(torch.arange(9).to(w.device), 3, weight=w),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_are_refused(device: torch.device, name: str) -> None:
    weight = torch.ones(9, device=device, requires_grad=True)

    def loss(w: Tensor) -> Tensor:
        return FUNCTIONS[name](w).square().sum()

    (grad,) = torch.autograd.grad(loss(weight), weight, create_graph=True)
    line = f"^{name}: weight must be differentiated once, got a second time"
    with pytest.raises(RuntimeError, match=line):
        grad.sum().backward()
    with pytest.raises(RuntimeError, match=line):
        torch.func.grad(lambda w: torch.func.grad(loss)(w).sum())(weight.detach())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_are_refused(device: torch.device, name: str) -> None:
    weight = torch.ones(9, device=device)
    line = f"^{name}: weight must not have a tangent, as sums have none, got a dual tensor: use "
    with pytest.raises(RuntimeError, match=line), forward_ad.dual_level():
        FUNCTIONS[name](forward_ad.make_dual(weight, weight))
    with pytest.raises(RuntimeError, match=line):
        torch.func.jvp(FUNCTIONS[name], (weight,), (weight,))


# vmap and torch.func


def sums_of(x: Tensor, w: Tensor, dim: Any = 0) -> Tensor:
    edges = torch.linspace(-2, 2, 6, device=x.device)
    return histogram(x, edges, dim=dim, weight=w, flow=True).hist


def loss_of(w: Tensor, x: Tensor) -> Tensor:
    return sums_of(x, w).square().sum()


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (1, 2), (-1, 1)])
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_vmap(device: torch.device, in_dims: tuple[Any, Any], dim: Any) -> None:
    values, weight = normal(4, 4, 4).to(device), any_bits((4, 4, 4), torch.float32).to(device)
    mapped = torch.vmap(lambda x, w: sums_of(x, w, dim), in_dims)
    pairs = [
        [t] * 4 if at is None else t.unbind(at)
        for t, at in zip((values, weight), in_dims, strict=True)
    ]
    if in_dims[0] is None:
        values = values[0]
        pairs[0] = [values] * 4
    if in_dims[1] is None:
        weight = weight[0]
        pairs[1] = [weight] * 4
    assert_sums(
        mapped(values, weight), torch.stack([sums_of(*p, dim) for p in zip(*pairs, strict=True)])
    )


def test_vmap_of_values_and_numbers(device: torch.device) -> None:
    ids = random_values((5, 20), torch.uint8, low=0, high=6).to(device)
    for weight in (0.5, 2, True):
        got = torch.vmap(lambda x, w=weight: channel_histogram(x, 4, weight=w))(ids)
        expected = [channel_histogram(x, 4, weight=weight) for x in ids]
        assert torch.equal(got, torch.stack(expected))
    numbers, edges = torch.tensor([0.0, 1, 2]).to(device), torch.tensor([0.0, 1, 3]).to(device)
    got = torch.vmap(lambda x: histogram(x, edges, weight=x).hist)(numbers)
    assert got.tolist() == [[0, 0], [0, 1], [0, 2]]


def test_func(device: torch.device) -> None:
    values, weight = normal(4, 20, 3).to(device), normal(4, 20, 3, seed=1).to(device)
    grads = []
    for x, w in zip(values, weight, strict=True):
        own = w.clone().requires_grad_()
        grads.append(torch.autograd.grad(loss_of(own, x), own)[0])
    by_sample = torch.stack(grads)
    assert torch.equal(torch.func.grad(loss_of)(weight[0], values[0]), grads[0])
    assert torch.equal(torch.vmap(torch.func.grad(loss_of))(weight, values), by_sample)
    of_sum = torch.func.grad(lambda w: torch.vmap(loss_of)(w, values).sum())
    assert torch.equal(of_sum(weight), by_sample)
    shared = torch.func.grad(lambda w: torch.vmap(loss_of, (None, 0))(w, values).sum())
    each = [torch.func.grad(loss_of)(weight[0], x) for x in values]
    torch.testing.assert_close(shared(weight[0]), torch.stack(each).sum(0))
    jacobian = torch.func.jacrev(lambda w: sums_of(values[0], w, None))(weight[0])
    edges = torch.linspace(-2, 2, 6)
    expected = one_hot(values[0], edges, flow=True).T.view_as(jacobian)
    assert torch.equal(jacobian, expected.float())


# torch.compile


WORKS: dict[str, Callable[..., Any]] = {
    "histogram": lambda x, w: histogram(x, 7, dim=0, weight=w),
    "edges": lambda x, w: histogram(x + 1, EDGES.to(x.device), dim=0, weight=w * 2, flow=True).hist,
    "density": lambda x, w: histogram(x, 4, range=(-2, 2), weight=w, density=True).hist,
    "values": lambda x, w: channel_histogram((x * 3).int(), 5, (0, 1), weight=w),
    "integers": lambda x, w: histogram(x, 7, dim=1, weight=(w * 9).int()).hist,
    "a number": lambda x, w: histogram(x, 7, dim=1, weight=0.1).hist,
    "vmap": lambda x, w: torch.vmap(lambda a, b: sums_of(a, b, None))(x, w),
    "func.grad": lambda x, w: torch.func.grad(loss_of)(w, x),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", WORKS)
def test_one_graph(device: torch.device, name: str, dynamic: bool) -> None:
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(WORKS[name], fullgraph=True, dynamic=dynamic, backend=counter)
    for rows in (33, 40) if dynamic else (33,):
        values, weight = normal(rows, 5).to(device), normal(rows, 5, seed=1).to(device)
        expected = WORKS[name](values, weight)
        for _ in range(2):
            got = compiled(values, weight)
            for one, other in zip(got, expected, strict=True):
                assert torch.equal(one, other)
    assert counter.frame_count == 1


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["edges", "density", "values"])
def test_gradients_in_a_graph(device: torch.device, name: str, dynamic: bool) -> None:
    compiled = torch.compile(WORKS[name], fullgraph=True, dynamic=dynamic)
    for shape in ((33, 5), (1, 5), (5,)):
        values = normal(33, 5).to(device)
        weight = normal(*shape, seed=1).to(device).requires_grad_()
        grads = [
            torch.autograd.grad(call(values, weight).square().sum(), weight)[0]
            for call in (compiled, WORKS[name])
        ]
        torch.testing.assert_close(*grads, rtol=1e-6, atol=1e-9)


def test_numbers_of_each_call(device: torch.device) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda x, w: histogram(x, 4, range=(-2, 2), weight=w).hist, fullgraph=True, backend=counter
    )
    values = normal(50).to(device)
    for weight in (0.1, 0.7, -2.5, 1e300, 3.25):
        assert torch.equal(
            compiled(values, weight), histogram(values, 4, range=(-2, 2), weight=weight).hist
        )
    assert counter.frame_count <= 2


def test_programs(device: torch.device, tmp_path: Path) -> None:
    """Exported, saved, and compiled ahead of time; sizes are those of each call."""

    class Module(torch.nn.Module):
        def forward(self, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
            hist, edges = histogram(x, 6, dim=0, weight=w)
            ids = channel_histogram((x * 3).int(), 5, weight=w)
            return hist, edges, ids, histogram(x, 4, weight=w.int()).hist

    args = normal(30, 5).to(device), normal(30, 5, seed=1).to(device)
    dynamic = torch.export.Dim("rows", min=2)
    sizes = {"x": {0: dynamic}, "w": {0: dynamic}}
    program = torch.export.export(Module(), args, dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "weights.pt2")
    loaded = torch.export.load(tmp_path / "weights.pt2").module()
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "ahead.pt2")
    )
    calls = [(normal(rows, 5).to(device), normal(rows, 5, seed=1).to(device)) for rows in (30, 41)]
    ahead = results_of_package(package, calls, tmp_path)
    for args, of_package in zip(calls, ahead, strict=True):
        expected = Module()(*args)
        for results in (program.module()(*args), loaded(*args), of_package):
            for one, other in zip(results, expected, strict=True):
                assert torch.equal(one, other)


# Fake tensors and modes


@pytest.mark.parametrize("dtype", [*FLOATS, torch.bool, torch.int16, torch.uint64], ids=str)
def test_fakes_are_like_results(device: torch.device, dtype: torch.dtype) -> None:
    def call(x: Tensor, w: Tensor) -> list[Tensor]:
        forms = [{}, {"dim": 0, "flow": True}, {"range": (0, 1), "density": True}]
        found = [histogram(x, 7, weight=w, **form).hist for form in forms]
        return [*found, channel_histogram(x.bool(), 3, weight=w), histogram(x, 2, weight=0.5).hist]

    values, weight = normal(6, 4), any_bits((4,), dtype)
    real = call(values.to(device), weight.to(device))
    fakes = [call(values.to("meta"), weight.to("meta"))]
    with FakeTensorMode() as mode:
        fakes.append(call(mode.from_tensor(values), mode.from_tensor(weight)))
    for fake in fakes:
        for one, other in zip(real, fake, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert one.stride() == other.stride()


def test_autocast_and_determinism(device: torch.device) -> None:
    values, weight = normal(100).to(device), any_bits((100,), torch.float32).to(device)
    expected = histogram(values, 9, weight=weight).hist
    with torch.autocast(device.type, torch.bfloat16):
        assert_sums(histogram(values, 9, weight=weight).hist, expected)
    torch.use_deterministic_algorithms(True)
    assert_sums(histogram(values, 9, weight=weight).hist, expected)


def test_no_more_operators_than_needed(device: torch.device) -> None:
    values, weight = normal(10, 3).to(device), normal(10, 3).to(device)
    with Dispatches() as dispatches:
        histogram(values, EDGES.to(device), weight=weight)
    assert dispatches.of("histo.") == 2
    with Dispatches() as dispatches:
        channel_histogram(values.int(), 3, weight=weight.int())
    assert dispatches.of("histo.") == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.bfloat16, torch.int32], ids=str)
def test_captured(dtype: torch.dtype) -> None:
    values, weight = normal(5000, 3).cuda(), (normal(5000, 3, seed=1) * 5).to(dtype).cuda()

    def run() -> list[Tensor]:
        forms = [{}, {"dim": 0}, {"density": True}]
        return [histogram(values, 50, weight=weight, **form).hist for form in forms]

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.graph(graph):
            got = run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    values.copy_(normal(5000, 3, seed=2))
    graph.replay()
    for one, other in zip(got, run(), strict=True):
        assert_sums(one, other)
