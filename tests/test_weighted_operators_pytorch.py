"""The operators of weights in PyTorch: errors, opcheck, fakes, torch.compile, export, vmap."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import oracle
import pytest
import torch
from conftest import Dispatches
from oracle import NUMBERS, like, random_values
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_histo import _weight_operators as weights

pytestmark = pytest.mark.sampled(2)

HISTO = torch.ops.histo
EDGES = torch.linspace(-10, 250, 14)
BETWEEN, VALUES = "weighted_histogram", "weighted_channel_histogram"
DIGITS = "digits must be int64 with a last dimension of 1, 6, 13 or 70"
SIZES = "_weight_gradient: grad must have the sizes of the sums"
BROADCAST = "weight must have sizes that broadcast to those of input"


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def between(
    x: Tensor, edges: Tensor, weight: Tensor, dim: Any = None, flow: bool = False
) -> Tensor:
    found: Tensor = HISTO.weighted_histogram(x, edges, weight, dim, flow=flow)
    return found


def expected(x: Tensor, edges: Tensor, weight: Tensor, dim: Any, flow: bool = False) -> Tensor:
    return oracle.weighted_digits(x, weight, edges, dim, flow=flow)


# errors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": torch.ones(4)}, f"{BROADCAST}, [2, 3], got [4]"),
        (
            {"weight": torch.ones(1, 2, 3)},
            "weight must have at most the dimensions of input, 2, got a 3-D tensor",
        ),
        (
            {"weight": torch.ones(3, dtype=torch.complex64)},
            "weight must have a real dtype (bool, an integer",
        ),
        (
            {"weight": torch.ones(3).to_sparse()},
            "weight must be a dense tensor, got layout sparse_coo",
        ),
        ({"weight": torch.ones(3, device="meta")}, "weight must be on the device of input"),
        ({"input": torch.ones(2, 3, dtype=torch.complex64)}, "input must have "),
        ({"dim": [2]}, "dim must be between -2 and 1 for a 2-D input, got 2"),
        ({"dim": [0, -2]}, "dim must name each dimension once"),
    ],
    ids=str,
)
@pytest.mark.parametrize("op", ["weighted_histogram", "weighted_channel_histogram"])
def test_errors(device: torch.device, op: str, changes: dict[str, Any], message: str) -> None:
    input = torch.ones(2, 3, dtype=torch.float32 if op == "weighted_histogram" else torch.int32)
    arguments: dict[str, Any] = {"input": input, "weight": torch.ones(3), "dim": [0]} | changes
    if op == "weighted_histogram":
        arguments["edges"] = EDGES
    moved = {
        name: a.to(device) if isinstance(a, Tensor) and not a.is_meta else a
        for name, a in arguments.items()
    }
    with pytest.raises(RuntimeError, match=rf"^{op}: {re.escape(message)}.*") as error:
        getattr(HISTO, op)(**moved)
    assert "\n" not in str(error.value)
    on_meta = {n: a.to("meta") if isinstance(a, Tensor) else a for n, a in arguments.items()}
    if "device" not in message and "dense" not in message:
        with pytest.raises(RuntimeError, match=rf"^{op}: {re.escape(message)}.*"):
            getattr(HISTO, op)(**on_meta)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, w, e: between(x, e[:1], w), f"{BETWEEN}: edges must hold at least two edges"),
        (lambda x, w, e: between(x, e.half(), w), f"{BETWEEN}: edges must be float32"),
        (
            lambda x, w, e: between(x, e.repeat(4, 1), w, 0),
            f"{BETWEEN}: edges must be [n + 1], or have",
        ),
        (
            lambda x, w, e: HISTO.weighted_channel_histogram(x, w),
            f"{VALUES}: input must have an integer",
        ),
        (
            lambda x, w, e: HISTO.weighted_channel_histogram(x.int(), w, -1),
            f"{VALUES}: num_bins must be at least 0, got -1",
        ),
        (lambda x, w, e: HISTO.sum_of_digits(x), f"sum_of_digits: {DIGITS}"),
        (lambda x, w, e: HISTO.sum_of_digits(x.long()), f"sum_of_digits: {DIGITS}"),
        (lambda x, w, e: HISTO.sum_of_digits(x.long().sum()), f"sum_of_digits: {DIGITS}"),
        (lambda x, w, e: HISTO.normalize_digits(x), f"normalize_digits: {DIGITS}"),
        (
            lambda x, w, e: HISTO._weight_gradient(w, x, e, [0], False),
            "_weight_gradient: grad must be float64",
        ),
        (
            lambda x, w, e: HISTO._weight_gradient(w.double(), x, e, [0], False),
            f"{SIZES}, [3, 13], got [3]",
        ),
        (
            lambda x, w, e: HISTO._weight_gradient_of_values(w.double(), x.int(), [0]),
            f"{SIZES}, [3, 3], got [3]",
        ),
    ],
)
def test_more_errors(device: torch.device, call: Callable[..., Tensor], message: str) -> None:
    for where in (device, torch.device("meta")):
        arguments = [a.to(where) for a in (torch.ones(2, 3), torch.ones(3), EDGES)]
        if where.type == "meta" and "grad must be float64" in message:
            continue  # a gradient is made by autograd
        with pytest.raises(RuntimeError, match=f"^{re.escape(message)}.*") as error:
            call(*arguments)
        assert "\n" not in str(error.value)


def test_nested_and_missing() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(RuntimeError, match=r"^weighted_histogram: input must be a dense tensor"):
        between(nested, EDGES, torch.ones(()))
    with pytest.raises(RuntimeError, match=r"weight must be a torch.Tensor, got None"):
        HISTO.weighted_histogram(torch.ones(3), EDGES, None)


# opcheck and fakes

CASES: dict[str, tuple[Tensor, Tensor, Tensor, Any]] = {
    "one channel": (random_values((50,), torch.float32), EDGES, torch.randn(50), None),
    "columns": (random_values((50, 6), torch.bfloat16), EDGES, torch.randn(50, 1).half(), [0]),
    "rows": (random_values((50, 6), torch.float64), EDGES.double(), torch.ones(6).double(), [-1]),
    "edges of channels": (
        random_values((50, 6), torch.float32),
        EDGES.repeat(6, 1),
        torch.ones(()),
        [0],
    ),
    "transposed": (
        random_values((5, 6, 7), torch.float16).transpose(0, 2),
        EDGES,
        torch.randn(6, 5),
        [0, -1],
    ),
    "middle kept": (random_values((5, 6, 7), torch.int16), EDGES, torch.randn(5, 6, 7), [0, 2]),
    "expanded": (
        random_values((3,), torch.float32).expand(4, 3),
        EDGES,
        torch.arange(12).view(4, 3),
        [],
    ),
    "empty": (random_values((0, 3), torch.float32), EDGES, torch.ones(3, dtype=torch.bool), [0]),
    "a number": (torch.tensor(7.0), EDGES, torch.tensor(0.5), None),
}


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_opcheck(device: torch.device, case: str, flow: bool) -> None:
    x, edges, weight, dim = (like(a, device) if isinstance(a, Tensor) else a for a in CASES[case])
    check = torch.library.opcheck
    check(weights.weighted_histogram, (x, edges, weight, dim), {"flow": flow})
    digits = between(x, edges, weight, dim, flow)
    check(weights.sum_of_digits, (digits,))
    check(weights.normalize_digits, (digits,))
    grad = torch.randn(digits.shape[:-1], dtype=torch.float64, device=device)
    check(weights.weight_gradient, (grad, x, edges, dim, flow))
    values, dims = like(CASES[case][0].nan_to_num(0, 0, 0).int(), device), dim or []
    check(weights.weighted_channel_histogram, (values, weight, 9, dims))
    sizes = HISTO.weighted_channel_histogram(values, weight, 9, dims).shape[:-1]
    grad = torch.randn(sizes, dtype=torch.float64, device=device)
    check(weights.weight_gradient_of_values, (grad, values, dims))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_sizes_and_types_of_fakes(device: torch.device, dtype: torch.dtype) -> None:
    x, weight = torch.rand(7, 3, device=device), torch.ones(3, device=device).to(dtype)
    edges = EDGES.to(device)
    digits = between(x, edges, weight, 0)
    assert digits.shape == (3, 13, weights.sum_size(dtype))
    sums = HISTO.sum_of_digits(digits)
    assert sums.dtype == (torch.float64 if dtype.is_floating_point else torch.int64)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(a) for a in (x, edges, weight)]
        fake = between(*fakes, 0)
        assert (fake.shape, fake.dtype, fake.device) == (digits.shape, digits.dtype, digits.device)
        fake_sums = HISTO.sum_of_digits(fake)
        assert (fake_sums.shape, fake_sums.dtype) == (sums.shape, sums.dtype)


# torch.compile and export


def work(x: Tensor, edges: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    digits = between(x + 0, edges, weight, (0, 2), True)
    return digits, HISTO.sum_of_digits(HISTO.normalize_digits(digits + digits))


def test_one_graph_for_every_shape(device: torch.device) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(work, fullgraph=True, dynamic=True, backend=counter)
    for shape, bins in (((6, 7, 9), 4), ((64, 3, 11), 100), ((2, 100, 50), 7)):
        x, weight = random_values(shape, torch.float32), torch.randn(shape)
        edges = torch.linspace(-5, 250, bins + 1)
        digits, sums = compiled(x.to(device), edges.to(device), weight.to(device))
        assert torch.equal(digits.cpu(), expected(x, edges, weight, (0, 2), True))
        assert torch.equal(sums.cpu(), oracle.sums_of_digits(2 * digits.cpu()))
    assert counter.frame_count == 1


def test_any_num_bins_in_one_graph(device: torch.device) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda x, w, n: HISTO.weighted_channel_histogram(x, w, n, [0]),
        fullgraph=True,
        dynamic=True,
        backend=counter,
    )
    x, weight = random_values((50, 6), torch.uint8), torch.randn(50, 6)
    for bins in (256, 3, 100):
        got = compiled(x.to(device), weight.to(device), bins)
        assert torch.equal(got.cpu(), oracle.weighted_digits(x, weight, None, 0, num_bins=bins))
    assert counter.frame_count == 1
    with pytest.raises(RuntimeError, match="num_bins must be at least 0, got -1"):
        compiled(x.to(device), weight.to(device), -1)


def test_inductor(device: torch.device) -> None:
    x, weight = random_values((6, 7, 9), torch.float32).to(device), torch.randn(6, 7, 9).to(device)
    arguments = x, EDGES.to(device), weight
    for got, want in zip(
        torch.compile(work, fullgraph=True)(*arguments), work(*arguments), strict=True
    ):
        assert torch.equal(got, want)


def test_export(device: torch.device) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Tensor, edges: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
            return work(x, edges, weight)

    rows = torch.export.Dim("rows", min=2)
    sizes = {"x": {0: rows}, "edges": {0: torch.export.Dim("n", min=3)}, "weight": {0: rows}}
    first = (torch.rand(5, 6, 7), torch.linspace(0, 1, 9), torch.rand(5, 6, 7))
    moved = tuple(a.to(device) for a in first)
    program = torch.export.export(Module(), moved, dynamic_shapes=sizes)
    for n, bins in ((5, 9), (77, 30)):
        arguments = [torch.rand(n, 6, 7), torch.linspace(0, 1, bins), torch.rand(n, 6, 7)]
        arguments = [a.to(device) for a in arguments]
        for got, want in zip(program.module()(*arguments), work(*arguments), strict=True):
            assert torch.equal(got, want)


# vmap


def in_one_call(call: Callable[..., Any], *args: Tensor) -> Any:
    with Dispatches() as dispatches:
        result = call(*args)
    assert dispatches.of("histo.") == 1, dispatches.names
    return result


X = random_values((5, 5, 5), torch.float32)
WEIGHT = torch.randn(5, 5, 5, generator=torch.Generator().manual_seed(1))
OWN_EDGES = EDGES + torch.arange(5.0).unsqueeze(1)


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 1)], ids=str)
@pytest.mark.parametrize(
    "in_dims",
    [
        (0, None, 0),
        (2, None, 1),
        (None, None, 1),
        (1, None, None),
        (None, 0, None),
        (1, 0, 2),
        (-1, 1, 0),
    ],
    ids=str,
)
def test_vmap(device: torch.device, in_dims: tuple[Any, ...], dim: Any) -> None:
    edges = EDGES if in_dims[1] is None else OWN_EDGES.movedim(0, in_dims[1])
    x = X if in_dims[0] is not None else X[0]
    weight = WEIGHT if in_dims[2] is not None else WEIGHT[0]
    tensors = (x, edges, weight)

    def samples(tensor: Tensor, at: int | None) -> list[Tensor]:
        return [tensor] * 5 if at is None else list(tensor.unbind(at))

    mapped = torch.vmap(lambda x, e, w: between(x, e, w, dim, True), in_dims=in_dims)
    got = in_one_call(mapped, *(a.to(device) for a in tensors))
    each = zip(*map(samples, tensors, in_dims), strict=True)
    assert torch.equal(got.cpu(), torch.stack([expected(*sample, dim, True) for sample in each]))


@pytest.mark.parametrize("weight_shape", [(), (5,), (1,), (5, 1), (1, 5)], ids=str)
@pytest.mark.parametrize("mapped_weight", [False, True])
def test_vmap_of_weights_that_broadcast(
    device: torch.device, weight_shape: tuple[int, ...], mapped_weight: bool
) -> None:
    weight = torch.randn((5, *weight_shape) if mapped_weight else weight_shape)
    at = 0 if mapped_weight else None
    x, values = X.to(device), X.nan_to_num(0, 0, 0).int().to(device)
    for in_dim in (0, 1, 2):
        mapped = torch.vmap(lambda x, w: between(x, EDGES.to(device), w, 0), in_dims=(in_dim, at))
        got = in_one_call(mapped, x, weight.to(device))
        own = weight if mapped_weight else [weight] * 5
        each = list(zip(X.unbind(in_dim), own, strict=True))
        want = torch.stack([expected(a, EDGES, b, 0) for a, b in each])
        assert torch.equal(got.cpu(), want)
        mapped = torch.vmap(
            lambda x, w: HISTO.weighted_channel_histogram(x, w, 30, [-1]), in_dims=(in_dim, at)
        )
        got = in_one_call(mapped, values, weight.to(device))
        each = list(zip(values.cpu().unbind(in_dim), own, strict=True))
        want = torch.stack([oracle.weighted_digits(a, b, None, -1, num_bins=30) for a, b in each])
        assert torch.equal(got.cpu(), want)


def test_vmap_over_numbers_and_no_samples(device: torch.device) -> None:
    x, weight, edges = torch.tensor([0.5, 7.0, 1.0]), torch.randn(3), torch.tensor([0.0, 1.0, 2.0])
    for in_dims in ((0, 0), (0, None), (None, 0)):
        one, other = (a if d == 0 else a[0] for a, d in zip((x, weight), in_dims, strict=True))
        mapped = torch.vmap(lambda x, w: between(x, edges.to(device), w), in_dims=in_dims)
        got = in_one_call(mapped, one.to(device), other.to(device))
        each = zip(one.expand(3), other.expand(3), strict=True)
        assert torch.equal(got.cpu(), torch.stack([expected(a, edges, b, None) for a, b in each]))
    grad = torch.randn(2, dtype=torch.float64).to(device)
    derivative = lambda x: HISTO._weight_gradient(grad, x, edges.to(device), None, False)  # noqa: E731
    numbers = x.to(device)
    assert torch.equal(torch.vmap(derivative)(numbers), torch.stack([*map(derivative, numbers)]))
    nothing = torch.vmap(lambda x, w: between(x, edges.to(device), w, 0))
    assert nothing(torch.ones(0, 5, device=device), torch.ones(0, 5, device=device)).shape == (
        0,
        2,
        13,
    )


@pytest.mark.parametrize("in_dim", [0, 1, 2])
def test_vmap_of_digits_and_gradients(device: torch.device, in_dim: int) -> None:
    digits = between(X, EDGES, WEIGHT, 0).to(device)
    if in_dim < 2:
        for op in (HISTO.sum_of_digits, HISTO.normalize_digits):
            got = in_one_call(torch.vmap(op, in_dims=in_dim), digits + digits)
            want = torch.stack([op(part + part) for part in digits.unbind(in_dim)])
            assert torch.equal(got, want)
    edges = EDGES.to(device)
    x, values = X.to(device), X.nan_to_num(0, 0, 0).int().to(device)
    for dim in (0, 1):
        grad = torch.randn(5, 5, 13, dtype=torch.float64, device=device)
        for at in (0, None):
            own = grad if at == 0 else grad[0]
            mapped = torch.vmap(
                lambda g, x, d=dim: HISTO._weight_gradient(g, x, edges, [d], False),
                in_dims=(at, in_dim),
            )
            of_values = torch.vmap(
                lambda g, x, d=dim: HISTO._weight_gradient_of_values(g, x, [d]),
                in_dims=(at, in_dim),
            )
            each = list(zip(own if at == 0 else [own] * 5, x.unbind(in_dim), strict=True))
            want = [HISTO._weight_gradient(g, s, edges, [dim], False) for g, s in each]
            assert torch.equal(in_one_call(mapped, own, x), torch.stack(want))
            each = list(zip(own if at == 0 else [own] * 5, values.unbind(in_dim), strict=True))
            want = [HISTO._weight_gradient_of_values(g, s, [dim]) for g, s in each]
            assert torch.equal(in_one_call(of_values, own, values), torch.stack(want))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(4, 3), f"{BROADCAST}, [5], got [3]"),
        (torch.ones(4, 1, 5), "weight must have at most the dimensions of input, 1, got a 2-D"),
    ],
)
def test_errors_are_about_a_sample(device: torch.device, weight: Tensor, message: str) -> None:
    x = torch.zeros(4, 5, device=device)
    with pytest.raises(RuntimeError, match=f"^weighted_histogram: {re.escape(message)}"):
        torch.vmap(lambda x, w: between(x, EDGES.to(device), w))(x, weight.to(device))


# the rest of PyTorch


def test_no_gradient_of_the_operators(device: torch.device) -> None:
    x = torch.randn(30, 3, device=device, requires_grad=True)
    weight = torch.randn(30, 3, device=device, requires_grad=True)
    digits = between(x, EDGES.to(device), weight, 0)
    assert not digits.requires_grad
    assert torch.equal(digits, between(x.detach(), EDGES.to(device), weight.detach(), 0))


def test_autocast_and_inference_mode(device: torch.device) -> None:
    x, weight = torch.rand(300, device=device), torch.randn(300, device=device)
    edges = torch.linspace(0, 1, 9, device=device)
    want = between(x, edges, weight)
    with torch.autocast(device.type, torch.bfloat16), torch.inference_mode():
        assert torch.equal(between(x, edges, weight), want)
        assert torch.equal(HISTO.normalize_digits(want), want)


def test_a_graph_of_cuda(device: torch.device) -> None:
    if device.type != "cuda":
        return
    x, weight = torch.rand(3000, device=device), torch.randn(3000, device=device)
    edges = torch.linspace(0, 1, 9, device=device)
    work = lambda: HISTO.sum_of_digits(between(x, edges, weight))  # noqa: E731
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sums = work()
    for _ in range(3):
        weight.normal_()
        graph.replay()
        assert torch.equal(sums, work())
