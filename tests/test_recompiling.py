"""Compiled quantiles: one program serves every number q."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import torch_histo
from torch_histo import QuantileSketch, StreamingHistogram

pytestmark = pytest.mark.sampled(3)

NUMBERS = (0.1, 0.2, 0.3, 0.4, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.0, 1.0)
X = torch.randn(1000, generator=torch.Generator().manual_seed(0))


def stream_of(
    made: StreamingHistogram | QuantileSketch, device: torch.device
) -> Callable[..., Any]:
    made = made.to(device)
    made.update(X.to(device))
    return made.quantile


CALLS: dict[str, Callable[[torch.device], Callable[[Any], Tensor]]] = {
    "QuantileSketch": lambda device: stream_of(QuantileSketch(bits=3), device),
    "StreamingHistogram": lambda device: stream_of(StreamingHistogram(16, (-2, 2)), device),
    "summarize": lambda device: (
        lambda q: torch_histo.summarize(X.to(device), q=q, bits=3).quantiles
    ),
    "quantile": lambda device: lambda q: torch_histo.quantile(X.to(device), q),
    "nanquantile": lambda device: lambda q: torch_histo.nanquantile(X.to(device), q),
}
KINDS: dict[str, Callable[[float], Any]] = {
    "number": lambda q: q,
    "list": lambda q: [q, q / 2, 0.5],
    "tuple": lambda q: (q, 1 - q),
}


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("name", "kind"),
    [(n, k) for n in CALLS for k in KINDS if (n, k) != ("summarize", "number")],
)
def test_two_compilations_serve_all_numbers(name: str, kind: str, device: torch.device) -> None:
    """The first is for its number alone. The second is for all, more than torch compiles for."""
    call = CALLS[name](device)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda q: call(q), fullgraph=True, backend=counter)
    for number in NUMBERS:
        q = KINDS[kind](number)
        assert torch.equal(compiled(q), call(q)), q
    assert counter.frame_count <= 2


@pytest.mark.parametrize("name", CALLS)
def test_one_compilation_serves_all_tensors(name: str, device: torch.device) -> None:
    call = CALLS[name](device)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda q: call(q), fullgraph=True, backend=counter)
    for number in NUMBERS:
        q = torch.tensor([number, 0.5], dtype=torch.float64, device=device)
        assert torch.equal(compiled(q), call(q)), q
    assert counter.frame_count == 1
