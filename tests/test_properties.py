"""Generated inputs: any dtype, shape, strides, dimensions and bins."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import DTYPES, assert_counts, expected_counts, like, random_values
from torch import Tensor

from torch_histo import channel_histogram

# The same cases in every run; the device fixture does not change between examples.
generated = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Views of a base tensor: sliced, with steps, permuted and expanded."""
    # The sizes after slicing: slicing must not leave most of the tensors empty.
    shape = draw(st.lists(st.integers(1, 5), max_size=5))
    if shape and draw(st.booleans()):
        sizes = st.one_of(st.just(0), st.integers(10, 700), st.integers(10, 700))
        shape[draw(st.integers(0, len(shape) - 1))] = draw(sizes)
    starts = [draw(st.integers(0, 3)) for _ in shape]
    steps = [draw(st.integers(1, 3)) for _ in shape]
    base = [start + size * step for start, size, step in zip(starts, shape, steps, strict=True)]
    dtype = draw(st.sampled_from(DTYPES))
    high = draw(st.sampled_from([1, 8, 300]))
    values = random_values(base, dtype, draw(st.integers(0, 1000)), low=-2, high=high)
    for d, (start, step) in enumerate(zip(starts, steps, strict=True)):
        values = values[(slice(None),) * d + (slice(start, None, step),)]
    values = values.permute(draw(st.permutations(range(values.dim()))))
    if draw(st.booleans()):
        values = values.unsqueeze(0).expand(draw(st.integers(1, 6)), *values.shape)
    return values


@st.composite
def calls(draw: st.DrawFn) -> tuple[Tensor, int, list[int]]:
    values = draw(tensors())
    ndim = max(values.dim(), 1)
    dims = draw(st.lists(st.integers(0, ndim - 1), unique=True))
    dims = [d - ndim if draw(st.booleans()) else d for d in dims]
    return values, draw(st.sampled_from([1, 2, 9, 128, 256, 257, 5000])), dims


@generated
@given(call=calls())
def test_as_the_oracle(device: torch.device, call: tuple[Tensor, int, list[int]]) -> None:
    values, num_bins, dims = call
    moved = like(values, device)
    assert moved.stride() == values.stride()
    expected = expected_counts(values, num_bins, dims)
    assert_counts(channel_histogram(moved, num_bins, dims), expected)
    if device.type == "cpu":
        counts = channel_histogram(moved, num_bins, dims, variant="sequential")
        assert_counts(counts, expected, "sequential")


@generated
@given(call=calls())
def test_counts_sum_to_the_values_within_the_bins(
    device: torch.device, call: tuple[Tensor, int, list[int]]
) -> None:
    values, num_bins, dims = call
    counts = channel_histogram(like(values, device), num_bins, dims)
    numbers = [int(v) for v in values.flatten().tolist()]
    assert int(counts.sum()) == sum(0 <= v < num_bins for v in numbers)
    assert int(counts.min() if counts.numel() else 0) >= 0


@generated
@given(values=tensors(), num_bins=st.sampled_from([2, 256, 1000]), seed=st.integers(0, 99))
def test_order_does_not_matter(
    device: torch.device, values: Tensor, num_bins: int, seed: int
) -> None:
    values = values.reshape(-1, values.shape[-1] if values.dim() and values.numel() else 1)
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
    shuffled = torch.from_numpy(values.numpy()[order.numpy()])
    assert torch.equal(
        channel_histogram(values.to(device), num_bins),
        channel_histogram(shuffled.to(device), num_bins),
    )


@generated
@given(values=tensors(), cut=st.integers(0, 700))
def test_parts_add_up(device: torch.device, values: Tensor, cut: int) -> None:
    moved = like(values.reshape(-1), device)
    parts = channel_histogram(moved[:cut], 256) + channel_histogram(moved[cut:], 256)
    assert torch.equal(parts, channel_histogram(moved, 256))
