"""Shapes, dimensions, strides, dtypes and bins, at their edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from layouts import VIEWS
from oracle import DTYPES, STUDY_VARIANTS, assert_counts, expected_counts, random_values

from torch_histo import channel_histogram

pytestmark = pytest.mark.sampled(3)

EDGES = [0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025]


def test_memory_starts_dirty(device: torch.device) -> None:
    """Else the other tests would not see a count that starts from what is in memory."""
    memory = torch.empty(1000, dtype=torch.int64, device=device)
    assert int(memory.min()) == torch.iinfo(torch.int64).max


def test_the_example() -> None:
    image = torch.tensor([[0, 1], [2, 1], [0, 1]], dtype=torch.uint8)
    assert channel_histogram(image, num_bins=3).tolist() == [[2, 0, 1], [0, 3, 0]]


@pytest.mark.parametrize("length", [*EDGES, 65535, 65536, 1 << 20])
def test_one_channel(device: torch.device, length: int) -> None:
    values = random_values((length,), torch.uint8)
    assert_counts(channel_histogram(values.to(device)), expected_counts(values))


@pytest.mark.parametrize(
    "channels", [0, 1, 2, 3, 4, 7, 63, 64, 65, 100, 127, 128, 129, 511, 512, 513, 1000]
)
@pytest.mark.parametrize("length", [0, 1, 2, 25, 255, 256, 257, 3000])
def test_length_by_channels(device: torch.device, length: int, channels: int) -> None:
    values = random_values((length, channels), torch.uint8)
    assert_counts(channel_histogram(values.to(device)), expected_counts(values))


@pytest.mark.parametrize(
    "shape",
    # Beyond the sizes from which the CUDA engine works in tables, with and without
    # remainders; more than one counter of 16 bits can hold of one value.
    [(70_000, 128), (40_000, 100), (30_001, 129), (9_001, 511), (1_500_001, 3), (5_000_011,)],
)
@pytest.mark.parametrize("constant", [False, True])
def test_large(device: torch.device, shape: tuple[int, ...], constant: bool) -> None:
    values = (
        torch.full(shape, 7, dtype=torch.uint8) if constant else random_values(shape, torch.uint8)
    )
    assert_counts(channel_histogram(values.to(device)), expected_counts(values))


@pytest.mark.parametrize("length", [65534, 65535, 65536, 65537, 131_071])
@pytest.mark.parametrize("channels", [1, 3, 64, 100, 128])
def test_counts_around_16_bits(device: torch.device, length: int, channels: int) -> None:
    values = torch.full((length, channels), 255, dtype=torch.uint8)
    values[-1] = 1
    expected = torch.zeros(channels, 256, dtype=torch.int64)
    expected[:, 255], expected[:, 1] = length - 1, 1
    assert_counts(channel_histogram(values.to(device)), expected)
    assert_counts(
        channel_histogram(torch.full_like(values, 255).to(device)).sum(1),
        torch.full((channels,), length),
    )


@pytest.mark.parametrize("offset", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(25_000, 128), (25_000, 131), (5_000_003,), (900, 65)])
def test_any_address(device: torch.device, offset: int, shape: tuple[int, ...]) -> None:
    size = torch.Size(shape).numel()
    buffer = random_values((size + 8,), torch.uint8)
    values = buffer[offset : offset + size].view(shape)
    on_device = buffer.to(device)[offset : offset + size].view(shape)
    assert_counts(channel_histogram(on_device), expected_counts(values))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("num_bins", [0, 1, 2, 7, 128, 255, 256, 257, 1000, 70_000])
def test_dtypes_and_bins(device: torch.device, dtype: torch.dtype, num_bins: int) -> None:
    values = random_values((700, 5), dtype)
    moved = values.to(device)
    assert_counts(channel_histogram(moved, num_bins), expected_counts(values, num_bins), "dim 0")
    assert_counts(
        channel_histogram(moved, num_bins, 1), expected_counts(values, num_bins, 1), "dim 1"
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_of_every_dtype(device: torch.device, dtype: torch.dtype) -> None:
    values = random_values((40_000, 130), dtype)
    assert_counts(channel_histogram(values.to(device), 256), expected_counts(values))
    assert_counts(channel_histogram(values.to(device), 256, []), expected_counts(values, 256, []))


@pytest.mark.parametrize("num_bins", [4096, 12_289, 50_000, 60_000, 1 << 24, (1 << 24) + 1])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint32])
def test_many_bins(device: torch.device, num_bins: int, dtype: torch.dtype) -> None:
    values = random_values((100_000,), dtype, low=-10, high=num_bins + 10)
    assert_counts(channel_histogram(values.to(device), num_bins), expected_counts(values, num_bins))


def test_many_bins_of_equal_values(device: torch.device) -> None:
    values = torch.full((300_000,), 123_456, dtype=torch.int32)
    counts = channel_histogram(values.to(device), 1 << 20)
    assert counts[123_456] == 300_000
    assert counts.sum() == 300_000


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((6,), 0),
        ((6,), -1),
        ((6,), []),
        ((5, 7), 1),
        ((5, 7), -2),
        ((5, 7), [0, 1]),
        ((5, 7), []),
        ((2, 3, 8, 9), (2, 3)),
        ((2, 3, 8, 9), (-1, -2)),
        ((2, 8, 9, 3), (1, 2)),
        ((2, 3, 8, 9), (0, 2, 3)),
        ((2, 3, 8, 9), 1),
        ((2, 3, 8, 9), (3, 0)),
        ((2, 3, 4, 5, 6), (0, 2, 4)),
        ((2, 3, 4, 5, 6), (1, 3)),
        ((2, 3, 2, 3, 2, 3), (0, 2, 4)),
        ((1, 4, 1), 1),
        ((3, 0, 2), 1),
        ((3, 0, 2), 0),
        ((0,), 0),
        ((0, 0), 1),
    ],
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_dims(
    device: torch.device, shape: tuple[int, ...], dim: int | list[int], dtype: torch.dtype
) -> None:
    values = random_values(shape, dtype, low=0, high=12)
    counts = channel_histogram(values.to(device), 10, dim)
    assert_counts(counts, expected_counts(values, 10, dim))


@pytest.mark.parametrize("shape", [(), (6,), (5, 7), (2, 3, 4, 5), (0, 3), (2, 3, 2, 3, 2, 3)])
def test_no_dim_is_all_of_them(device: torch.device, shape: tuple[int, ...]) -> None:
    values = random_values(shape, torch.uint8, low=0, high=12)
    counts = channel_histogram(values.to(device), 10, None)
    assert_counts(counts, expected_counts(values, 10, []))


@pytest.mark.parametrize("shape", [(), (6,), (40_000, 130), (2, 3, 2, 3, 2, 3), (0, 3), (3, 0)])
def test_no_bins(device: torch.device, shape: tuple[int, ...]) -> None:
    values = random_values(shape, torch.uint8)
    variants = ["auto"]
    if device.type == "cpu":
        variants.append("sequential")
    if len(shape) in (1, 2):
        variants += STUDY_VARIANTS
    for variant in variants:
        counts = channel_histogram(values.to(device), 0, variant=variant)
        assert_counts(counts, torch.zeros(*shape[1:], 0, dtype=torch.int64), variant)
        counts = channel_histogram(values.to("meta"), 0, variant=variant)
        assert counts.shape == (*shape[1:], 0)


@pytest.mark.parametrize(
    "eight", [np.int64(8), np.uint8(8), np.array(8), torch.tensor(8), torch.tensor([8]).byte()]
)
def test_integers_that_are_no_int(device: torch.device, eight: int) -> None:
    values = random_values((30, 2, 9), torch.uint8, high=12)
    counts = channel_histogram(values.to(device), eight, (eight - 6, eight - 8))
    assert_counts(counts, expected_counts(values, 8, (0, 2)))


@pytest.mark.parametrize("dim", [0, -1, [0], [-1], []])
def test_a_number(device: torch.device, dim: int | list[int]) -> None:
    counts = channel_histogram(torch.tensor(3, dtype=torch.int16, device=device), 5, dim)
    assert_counts(counts, torch.tensor([0, 0, 0, 1, 0]))


STRIDED = {**VIEWS, "windows that share a value": lambda x: x[..., 0].unfold(1, 9, 8)}


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.uint16], ids=str)
@pytest.mark.parametrize("view", STRIDED.values(), ids=STRIDED.keys())
@pytest.mark.parametrize("dim", [0, 1, [0, 1], [-1]])
def test_strides(device: torch.device, dtype: torch.dtype, view, dim) -> None:
    values = random_values((64, 70, 5), dtype)
    if len(view(values).shape) == 1 and dim in (1, [0, 1]):
        dim = 0
    counts = channel_histogram(view(values.to(device)), 200, dim)
    assert_counts(counts, expected_counts(view(values), 200, dim))


@pytest.mark.parametrize("channels", [100, 128, 300])
def test_slices_that_the_tables_take(device: torch.device, channels: int) -> None:
    """Rows of bytes with gaps between them, at every remainder of four."""
    values = random_values((20_000, 333), torch.uint8)
    moved = values.to(device)
    for first in range(4):
        columns = slice(first, first + channels)
        assert_counts(channel_histogram(moved[:, columns]), expected_counts(values[:, columns]))


def test_batches_of_images(device: torch.device) -> None:
    images = random_values((6, 400, 300, 3), torch.uint8)
    planes = images.permute(0, 3, 1, 2).contiguous()
    expected = expected_counts(images, 256, (1, 2))
    assert_counts(channel_histogram(images.to(device), 256, (1, 2)), expected, "NHWC")
    assert_counts(channel_histogram(planes.to(device), 256, (2, 3)), expected, "NCHW")
    whole = expected_counts(images, 256, (0, 1, 2))
    assert_counts(channel_histogram(planes.to(device), 256, (0, 2, 3)), whole, "all images")


@pytest.mark.parametrize("shape", [(6,), (1 << 20,), (40, 30), (9000, 300), (300, 5, 7)])
@pytest.mark.parametrize("num_bins", [1, 2, 256])
@pytest.mark.parametrize("step", [1, 2])
def test_any_nonzero_byte_is_true(
    device: torch.device, shape: tuple[int, ...], num_bins: int, step: int
) -> None:
    # Alternating, so that a step of two in the last dimension still meets every byte.
    pattern = torch.tensor([0, 0, 1, 1, 2, 2, 255, 255, 0, 128, 128], dtype=torch.uint8)
    bytes_ = pattern.repeat(torch.Size(shape).numel() // 11 + 1)[: torch.Size(shape).numel()]
    values = bytes_.view(shape).view(torch.bool)
    counts = channel_histogram(values.to(device)[..., ::step], num_bins)
    assert_counts(counts, expected_counts(values[..., ::step], num_bins))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.itemsize > 1], ids=str)
@pytest.mark.parametrize("num_bins", [10, 300, 70_000])
@pytest.mark.parametrize("repeats", [1, 4000])
def test_values_that_a_narrower_type_would_put_in_a_bin(
    device: torch.device, dtype: torch.dtype, num_bins: int, repeats: int
) -> None:
    limits = torch.iinfo(dtype)
    around = [
        k * (1 << bits) + low for bits in (8, 16, 31, 32, 63) for k in (-1, 1) for low in (0, 5)
    ]
    numbers = [n for n in around if limits.min <= n <= limits.max] + [5]
    name = str(dtype).removeprefix("torch.")
    values = torch.from_numpy(np.array(numbers * repeats, dtype=name))
    expected = torch.zeros(num_bins, dtype=torch.int64)
    for n in numbers:
        if 0 <= n < num_bins:
            expected[n] += repeats
    assert_counts(channel_histogram(values.to(device), num_bins), expected)


def test_extremes_are_ignored(device: torch.device) -> None:
    for dtype in DTYPES[1:]:
        limits = torch.iinfo(dtype)
        values = torch.tensor([limits.min, limits.max, 5], dtype=dtype, device=device)
        counts = channel_histogram(values, 100)
        assert counts[5] == 1
        assert counts.sum() == (2 if limits.min == 0 else 1), dtype


def test_the_input_is_left_alone(device: torch.device) -> None:
    values = random_values((3000, 70), torch.int32).to(device)
    before = values.clone()
    channel_histogram(values[:, 1:].transpose(0, 1), 256, 1)
    assert torch.equal(values, before)


def test_same_bits_in_every_run(device: torch.device) -> None:
    values = random_values((30_000, 129), torch.uint8).to(device)
    first = channel_histogram(values)
    for _ in range(5):
        assert torch.equal(channel_histogram(values), first)


@pytest.mark.parametrize("shape", [(5000,), (700, 33)])
def test_as_torch_histc(device: torch.device, shape: tuple[int, ...]) -> None:
    values = random_values(shape, torch.uint8).to(device)
    columns = values.view(len(values), -1)
    by_torch = torch.stack([torch.histc(c.float(), 256, 0, 256) for c in columns.t()]).long()
    assert_counts(channel_histogram(columns), by_torch)


def test_as_torch_bincount(device: torch.device) -> None:
    values = random_values((5000,), torch.int64, low=0, high=255)
    values = values[(values >= 0) & (values < 256)].to(device)
    assert_counts(channel_histogram(values, 256), torch.bincount(values, minlength=256))
