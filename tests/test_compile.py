"""torch.compile, opcheck, meta and fake tensors, autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from oracle import (
    STUDY_VARIANTS,
    assert_counts,
    expected_counts,
    expected_letters,
    like,
    random_values,
)
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from torch_histo import channel_histogram, text_histogram

CHANNELS = torch.ops.histo.channel_histogram
LETTERS = torch.ops.histo.text_histogram


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("function", [channel_histogram, CHANNELS], ids=["typed", "op"])
def test_one_graph_static(device: torch.device, function: Callable[..., torch.Tensor]) -> None:
    counter = CompileCounterWithBackend("inductor")

    def count(x: torch.Tensor) -> torch.Tensor:
        return function(x + 1, 200, 1).sum(0) * 2

    compiled = torch.compile(count, fullgraph=True, dynamic=False, backend=counter)
    values = random_values((33, 70), torch.int32).to(device)
    for _ in range(2):
        assert torch.equal(compiled(values), count(values))
    assert counter.frame_count == 1


def test_one_graph_dynamic(device: torch.device) -> None:
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(
        lambda x: channel_histogram(x, 300, (0, 2)), fullgraph=True, dynamic=True, backend=counter
    )
    for shape in ((5, 7, 9), (64, 3, 11), (2, 100, 50)):
        values = random_values(shape, torch.int16)
        expected = expected_counts(values, 300, (0, 2))
        assert_counts(compiled(values.to(device)), expected, shape)
    assert counter.frame_count == 1


@pytest.mark.parametrize("dynamic", [None, True])
def test_dim_of_each_call(device: torch.device, dynamic: bool | None) -> None:
    compiled = torch.compile(
        lambda x, dim: channel_histogram(x, 300, dim), fullgraph=True, dynamic=dynamic
    )
    values = random_values((5, 7, 9), torch.int16)
    for dim in (0, 1, 2, -1):
        assert_counts(compiled(values.to(device), dim), expected_counts(values, 300, dim), dim)


NUMBERS_OF_BINS = (256, 3, 4, 5, 7, 8, 9, 100, 300)


@pytest.mark.parametrize(("dynamic", "compilations"), [(None, 2), (True, 1)])
def test_num_bins_of_each_call(
    device: torch.device, dynamic: bool | None, compilations: int
) -> None:
    """A new number of bins is no new program, with vmap's rule neither."""
    counter = CompileCounterWithBackend("aot_eager")

    def count(x: torch.Tensor, num_bins: int) -> tuple[torch.Tensor, torch.Tensor]:
        by_samples = torch.vmap(lambda y: channel_histogram(y, num_bins, 0), in_dims=1)
        return channel_histogram(x, num_bins, 1), by_samples(x)

    compiled = torch.compile(count, fullgraph=True, dynamic=dynamic, backend=counter)
    values = random_values((50, 6), torch.uint8)
    for num_bins in NUMBERS_OF_BINS:
        rows, columns = compiled(values.to(device), num_bins)
        assert_counts(rows, expected_counts(values, num_bins, 1), num_bins)
        assert_counts(columns, expected_counts(values, num_bins, 0), num_bins)
    assert counter.frame_count == compilations
    for num_bins in (0, 1):  # numbers that every compiler takes for constants
        rows, _ = compiled(values.to(device), num_bins)
        assert_counts(rows, expected_counts(values, num_bins, 1), num_bins)
    with pytest.raises(RuntimeError, match="num_bins must be at least 0, got -1"):
        compiled(values.to(device), -1)


@pytest.mark.parametrize("cpp_wrapper", [False, pytest.param(True, marks=pytest.mark.long)])
def test_num_bins_of_each_call_in_inductor(device: torch.device, cpp_wrapper: bool) -> None:
    with torch._inductor.config.patch(cpp_wrapper=cpp_wrapper):
        compiled = torch.compile(channel_histogram, fullgraph=True, dynamic=True)
        values = random_values((50, 6), torch.uint8)
        for num_bins in NUMBERS_OF_BINS:
            counts = compiled(values.to(device), num_bins)
            assert_counts(counts, expected_counts(values, num_bins), num_bins)


def test_num_bins_that_are_in_the_data(device: torch.device) -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(
            lambda x: channel_histogram(x, x.max().item() + 1), fullgraph=True, backend="aot_eager"
        )
        for highest in NUMBERS_OF_BINS:
            values = random_values((50, 6), torch.int32).clamp(-1, highest)
            counts = compiled(values.to(device))
            assert_counts(counts, expected_counts(values, int(values.max()) + 1), highest)


def test_study_variants_of_any_num_bins() -> None:
    """A symbol meets the same bounds as a number; no GPU is needed to trace."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        values = torch.empty(300, 5, dtype=torch.uint8, device="cuda")
    for num_bins, got in ((200, None), (257, "at most 256 for variant 'tiled', got 257")):
        symbol = mode.from_tensor(torch.empty(num_bins), static_shapes=False).shape[0]
        assert isinstance(symbol, torch.SymInt)
        if got is None:
            with mode:
                assert channel_histogram(values, symbol, variant="tiled").shape == (5, symbol)
        else:
            with mode, pytest.raises(RuntimeError, match=f"num_bins must be {got}"):
                channel_histogram(values, symbol, variant="tiled")


def test_numbers_of_numpy(device: torch.device) -> None:
    compiled = torch.compile(channel_histogram, fullgraph=True, backend="aot_eager")
    values = random_values((50, 6), torch.uint8)
    for num_bins in (8, 9):
        counts = compiled(values.to(device), np.int64(num_bins))
        assert_counts(counts, expected_counts(values, num_bins))
    made_inside = torch.compile(lambda x: channel_histogram(x, np.int64(8)), fullgraph=True)
    assert_counts(made_inside(values.to(device)), expected_counts(values, 8))


@pytest.mark.parametrize("dim", [None, (0, 1)])
def test_all_dims(device: torch.device, dim: tuple[int, int] | None) -> None:
    compiled = torch.compile(channel_histogram, fullgraph=True, backend="aot_eager")
    values = random_values((50, 6), torch.uint8)
    assert_counts(compiled(values.to(device), 9, dim), expected_counts(values, 9, []))


def test_text_in_a_graph() -> None:
    """A str or bytes is a constant of the graph."""
    counter = CompileCounterWithBackend("aot_eager")

    def count(text: str | bytes) -> torch.Tensor:
        return text_histogram(text) + text_histogram("abc") + text_histogram(b"")

    compiled = torch.compile(count, fullgraph=True, backend=counter)
    for text in ("a histogram, zé", b"zebra\xff", ""):
        encoded = text.encode() if isinstance(text, str) else text
        assert_counts(compiled(text), expected_letters(encoded) + expected_letters(b"abc"), text)


def test_one_graph_becomes_dynamic(device: torch.device) -> None:
    compiled = torch.compile(lambda x: channel_histogram(x).sum(), fullgraph=True)
    for length in (10, 11, 12, 5000):
        values = random_values((length, 3), torch.uint8).to(device)
        assert int(compiled(values)) == 3 * length


def test_one_graph_text(device: torch.device) -> None:
    text = b"one graph, and the same letters" * 9
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(
        lambda x: text_histogram(x) + 0, fullgraph=True, dynamic=True, backend=counter
    )
    for length in (20, 30, 200):
        values = torch.tensor(list(text[:length]), dtype=torch.uint8, device=device)
        assert_counts(compiled(values), expected_letters(text[:length]))
    assert counter.frame_count == 1


@pytest.mark.parametrize("variant", STUDY_VARIANTS)
def test_study_variants_in_a_graph(device: torch.device, variant: str) -> None:
    # The kernel needs what the graph hands it to be contiguous.
    compiled = torch.compile(
        lambda x: channel_histogram((x.t() * 2).contiguous(), 256, variant=variant),
        fullgraph=True,
    )
    values = random_values((20, 500), torch.uint8, low=0, high=100)
    assert_counts(compiled(values.to(device)), expected_counts(values.t() * 2))


def test_data_dependent_sizes(device: torch.device) -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(
            lambda x: channel_histogram(x[x > 3], 256), fullgraph=True, backend="aot_eager"
        )
        values = random_values((900,), torch.int32).to(device)
        assert_counts(compiled(values), expected_counts(values.cpu()[values.cpu() > 3]))


OPCHECK_INPUTS = [
    (random_values((50,), torch.uint8), 256, [0]),
    (random_values((50, 6), torch.uint8), 7, [0]),
    (random_values((50, 6), torch.bool), 2, [1]),
    (random_values((5, 6, 7), torch.int64).transpose(0, 2), 300, [0, -1]),
    (random_values((4, 3, 5, 6), torch.int16), 10, [2, 3]),
    (random_values((3,), torch.uint16).expand(4, 3), 100, []),
    (random_values((0, 3), torch.int8), 5, [0]),
    (torch.tensor(7, dtype=torch.int32), 9, [0]),
    (random_values((50, 6), torch.uint8), 0, [0]),
]


@pytest.mark.parametrize(("values", "num_bins", "dim"), OPCHECK_INPUTS)
def test_opcheck(device: torch.device, values: torch.Tensor, num_bins: int, dim: list[int]) -> None:
    torch.library.opcheck(CHANNELS.default, (like(values, device), num_bins, dim))


@pytest.mark.parametrize("variant", ["auto", *STUDY_VARIANTS])
def test_opcheck_variants(device: torch.device, variant: str) -> None:
    values = random_values((300, 65), torch.uint8).to(device)
    torch.library.opcheck(CHANNELS.default, (values,), {"variant": variant})
    torch.library.opcheck(LETTERS.default, (values.view(-1),), {"variant": variant})


@pytest.mark.parametrize(
    ("shape", "dim", "kept"),
    [
        ((5,), 0, []),
        ((), 0, []),
        ((5, 6), -1, [5]),
        ((2, 3, 4, 5), (1, 3), [2, 4]),
        ((2, 3), [], []),
        ((0, 4), 0, [4]),
    ],
)
def test_meta_and_fake(shape: tuple[int, ...], dim: int | list[int], kept: list[int]) -> None:
    on_meta = channel_histogram(torch.empty(shape, dtype=torch.int16, device="meta"), 9, dim)
    assert (on_meta.shape, on_meta.dtype) == ((*kept, 9), torch.int64)
    assert on_meta.device.type == "meta"
    with FakeTensorMode():
        for kind in ("cpu", "cuda"):
            fake = channel_histogram(torch.empty(shape, dtype=torch.int16, device=kind), 9, dim)
            assert (fake.shape, fake.dtype) == ((*kept, 9), torch.int64)
            assert fake.device.type == kind
    assert text_histogram(torch.empty(5, dtype=torch.uint8, device="meta")).shape == (7,)


def test_no_gradient(device: torch.device) -> None:
    values = random_values((30, 3), torch.int64).to(device)
    weight = torch.ones(256, device=device, requires_grad=True)
    counts = channel_histogram(values, 256)
    assert not counts.requires_grad
    (counts * weight).sum().backward()
    assert torch.equal(weight.grad, counts.sum(0).float())
    with torch.inference_mode():
        assert torch.equal(channel_histogram(values, 256), counts)
