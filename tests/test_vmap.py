"""torch.vmap: any in_dims, nested, both operators, each time as one call of an operator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from conftest import Dispatches
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import (
    ALL_VARIANTS,
    STUDY_VARIANTS,
    assert_counts,
    expected_counts,
    expected_letters,
    random_values,
)
from torch import Tensor

from torch_histo import channel_histogram, text_histogram


def in_one_call(call: Callable[..., Tensor], *args: Tensor) -> Tensor:
    with Dispatches() as dispatches:
        counts = call(*args)
    assert dispatches.of("histo.") == 1, dispatches.names
    return counts


def variants_on(device: torch.device) -> tuple[str, ...]:
    return ("auto", *STUDY_VARIANTS) if device.type == "cuda" else ALL_VARIANTS


def test_a_loop_would_be_noticed() -> None:
    with Dispatches() as dispatches:
        for sample in torch.zeros(3, 4, dtype=torch.uint8):
            channel_histogram(sample)
    assert dispatches.of("histo.") == 3


@pytest.mark.parametrize("in_dim", [0, 1, 2, 3, -1, -4])
@pytest.mark.parametrize("dim", [0, 1, -1, (0, 1), (2, 0), ()])
def test_any_in_dim(device: torch.device, in_dim: int, dim: int | tuple[int, ...]) -> None:
    values = random_values((4, 5, 6, 3), torch.int32, low=-2, high=9)
    count = torch.vmap(lambda x: channel_histogram(x, 10, dim), in_dims=in_dim)
    samples = [expected_counts(sample, 10, dim) for sample in values.unbind(in_dim)]
    assert_counts(in_one_call(count, values.to(device)), torch.stack(samples))


@pytest.mark.parametrize("out_dim", [0, 1, -1])
def test_any_out_dim(device: torch.device, out_dim: int) -> None:
    values = random_values((4, 5, 6), torch.uint8, high=9)
    count = torch.vmap(lambda x: channel_histogram(x, 10), in_dims=1, out_dims=out_dim)
    samples = [expected_counts(sample, 10) for sample in values.unbind(1)]
    assert_counts(in_one_call(count, values.to(device)), torch.stack(samples, out_dim))


@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_generated_and_nested(device: torch.device, data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    levels = data.draw(st.integers(1, len(shape)))
    values = random_values(shape, torch.int16, data.draw(st.integers(0, 99)), low=-2, high=9)
    values = values.permute(data.draw(st.permutations(range(len(shape)))))
    ndim = max(len(shape) - levels, 1)
    dims = data.draw(st.lists(st.integers(-ndim, ndim - 1), unique_by=lambda d: d % ndim))

    def count(x: Tensor) -> Tensor:
        return channel_histogram(x, 8, dims)

    def by_samples(x: Tensor, in_dims: list[int]) -> Tensor:
        if not in_dims:
            return expected_counts(x, 8, dims)
        return torch.stack([by_samples(sample, in_dims[1:]) for sample in x.unbind(in_dims[0])])

    in_dims = [data.draw(st.integers(0, len(shape) - level - 1)) for level in range(levels)]
    mapped = count
    for in_dim in reversed(in_dims):
        mapped = torch.vmap(mapped, in_dims=in_dim)
    assert_counts(in_one_call(mapped, values.to(device)), by_samples(values, in_dims))


@pytest.mark.parametrize("in_dim", [0, 1, 2])
def test_every_variant(device: torch.device, in_dim: int) -> None:
    values = random_values((3, 50, 4), torch.uint8)
    expected = torch.stack([expected_counts(sample) for sample in values.unbind(in_dim)])
    nested = random_values((2, 3, 70), torch.uint8)
    for variant in variants_on(device):
        count = torch.vmap(lambda x, v=variant: channel_histogram(x, variant=v), in_dims=in_dim)
        assert_counts(in_one_call(count, values.to(device)), expected, variant)
        twice = torch.vmap(torch.vmap(lambda x, v=variant: channel_histogram(x, variant=v)))
        counts = in_one_call(twice, nested.to(device))
        assert_counts(counts, expected_counts(nested, 256, 2), variant)


def test_numbers(device: torch.device) -> None:
    numbers = torch.tensor([0, 2, 1], device=device)
    for variant in variants_on(device):
        count = torch.vmap(lambda x, v=variant: channel_histogram(x, 3, variant=v))
        values = numbers.to(torch.uint8)
        assert in_one_call(count, values).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert in_one_call(torch.vmap(lambda x: channel_histogram(x, 3, ())), numbers).shape == (3, 3)


def test_no_bins_and_no_dim(device: torch.device) -> None:
    values = random_values((3, 50, 4), torch.uint8).to(device)
    for variant in variants_on(device):
        count = torch.vmap(lambda x, v=variant: channel_histogram(x, 0, variant=v))
        assert_counts(in_one_call(count, values), torch.zeros(3, 4, 0, dtype=torch.int64), variant)
    count = torch.vmap(lambda x: channel_histogram(x, dim=None))
    assert_counts(in_one_call(count, values), expected_counts(values, 256, (1, 2)))


@pytest.mark.parametrize("in_dim", [0, 1])
def test_texts(device: torch.device, in_dim: int) -> None:
    # Every byte, and the neighbours of the letters most of all.
    samples = [bytes(range(256)), b"`az{|}~\x80AZ" * 25 + b"zebras", b"y" * 256]
    texts = torch.stack([torch.tensor(list(s), dtype=torch.uint8) for s in samples], in_dim)
    expected = torch.stack([expected_letters(sample) for sample in samples])
    for variant in variants_on(device):
        count = torch.vmap(lambda x, v=variant: text_histogram(x, variant=v), in_dims=in_dim)
        assert_counts(in_one_call(count, texts.to(device)), expected, variant)


@pytest.mark.parametrize("in_dims", [(0, 0), (1, 0), (2, 1), (0, 1)])
def test_nested_texts(device: torch.device, in_dims: tuple[int, int]) -> None:
    texts = random_values((2, 3, 40), torch.uint8, low=90, high=130)
    count = torch.vmap(torch.vmap(text_histogram, in_dims=in_dims[1]), in_dims=in_dims[0])
    samples = [text for half in texts.unbind(in_dims[0]) for text in half.unbind(in_dims[1])]
    expected = torch.stack([expected_letters(bytes(text.tolist())) for text in samples])
    expected = expected.unflatten(0, (texts.shape[in_dims[0]], -1))
    assert_counts(in_one_call(count, texts.to(device)), expected)


@pytest.mark.parametrize("variant", ["auto", "tiled"])
def test_no_samples(device: torch.device, variant: str) -> None:
    values = torch.empty(0, 5, 3, dtype=torch.uint8, device=device)
    count = torch.vmap(lambda x: channel_histogram(x, 9, variant=variant))
    assert_counts(in_one_call(count, values), torch.zeros(0, 3, 9, dtype=torch.int64))
    letters = torch.vmap(lambda x: text_histogram(x, variant=variant))
    assert_counts(in_one_call(letters, values[:, :, 0]), torch.zeros(0, 7, dtype=torch.int64))


def test_beside_what_is_not_mapped(device: torch.device) -> None:
    values = random_values((4, 30), torch.uint8).to(device)
    other = random_values((50,), torch.uint8).to(device)
    # An input that all samples share is counted once, not once a sample.
    count = torch.vmap(lambda x, y: channel_histogram(y) + x.sum(), in_dims=(0, None))
    expected = expected_counts(other) + values.cpu().long().sum(1, keepdim=True)
    assert_counts(in_one_call(count, values, other), expected)


def test_in_a_graph(device: torch.device) -> None:
    count = torch.vmap(torch.vmap(lambda x: channel_histogram(x, 10, -1), in_dims=1))
    compiled = torch.compile(count, fullgraph=True, dynamic=True, backend="aot_eager")
    letters = torch.compile(torch.vmap(text_histogram), fullgraph=True, backend="aot_eager")
    for shape in ((2, 3, 40, 5), (5, 2, 33, 7)):
        values = random_values(shape, torch.int32, low=0, high=9)
        expected = expected_counts(values.transpose(1, 2), 10, 3)
        assert_counts(compiled(values.to(device)), expected)
    texts = torch.tensor([list(b"abcd"), list(b"zzzA")], dtype=torch.uint8, device=device)
    assert letters(texts).tolist() == [[4, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 3]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: channel_histogram(x, 3, 1), "dim must be between -1 and 0 for a 1-D input"),
        (lambda x: channel_histogram(x, -1), "num_bins must be at least 0, got -1"),
        (lambda x: channel_histogram(x, 3, [0, -1]), r"dim must name each dimension once"),
        (lambda x: channel_histogram(x, variant="no"), "variant must be one of"),
        (lambda x: channel_histogram(x.float()), "input must have an integer or bool dtype"),
        (lambda x: text_histogram(x.int()), "text must be a 1-D uint8 tensor, got a 1-D int32"),
        (lambda x: text_histogram(x[None]), "text must be a 1-D uint8 tensor, got a 2-D uint8"),
        (lambda x: text_histogram(x, variant="no"), "variant must be one of"),
    ],
)
def test_errors_are_about_a_sample(
    device: torch.device, call: Callable[[Tensor], Tensor], message: str
) -> None:
    values = torch.zeros(4, 5, dtype=torch.uint8, device=device)
    with pytest.raises(RuntimeError, match=message):
        torch.vmap(call)(values)
