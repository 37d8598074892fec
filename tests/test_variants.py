"""Every variant on the inputs that its like get wrong."""

from __future__ import annotations

import pytest
import torch
from oracle import ALL_VARIANTS, STUDY_VARIANTS, assert_counts, expected_counts, random_values
from torch import Tensor

import torch_histo
from torch_histo import channel_histogram

pytestmark = pytest.mark.sampled(3)


def variants(device: torch.device) -> tuple[str, ...]:
    """On CUDA the kernels there; on the CPU every name is taken."""
    return ("auto", *STUDY_VARIANTS) if device.type == "cuda" else ALL_VARIANTS


def assert_all_variants(values: Tensor, on_device: Tensor, num_bins: int = 256) -> None:
    expected = expected_counts(values, num_bins)
    for variant in variants(on_device.device):
        counts = channel_histogram(on_device, num_bins, variant=variant)
        assert_counts(counts, expected, variant)


def test_the_names() -> None:
    assert torch_histo.VARIANTS == ALL_VARIANTS


def test_sequential_is_not_the_engine() -> None:
    """It allocates the counts alone, where the engine also allocates its tables."""
    values = random_values((1 << 18,), torch.int32)

    def allocations(variant: str) -> int:
        with torch.profiler.profile(profile_memory=True) as profile:
            counts = channel_histogram(values, 4000, variant=variant)
        assert_counts(counts, expected_counts(values, 4000))
        events = profile.profiler.kineto_results.events()
        return sum(event.name() == "[memory]" and event.nbytes() > 0 for event in events)

    assert allocations("sequential") < allocations("auto")


@pytest.mark.parametrize("channels", [1, 3, 31, 32, 33, 63, 64, 65, 100, 128, 511])
@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 2000])
def test_channels_and_lengths(device: torch.device, length: int, channels: int) -> None:
    values = random_values((length, channels), torch.uint8)
    assert_all_variants(values, values.to(device))


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 1023, 1024, 1025, 4095, 4096, 4097, 300_001])
def test_one_dimension(device: torch.device, length: int) -> None:
    values = random_values((length,), torch.uint8)
    assert_all_variants(values, values.to(device))


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 13])
@pytest.mark.parametrize("after", [0, 64])  # bytes that would count if they were read
@pytest.mark.parametrize("shape", [(777, 64), (777, 65), (3000, 3), (5001,), (3,)])
def test_base_pointers(
    device: torch.device, offset: int, after: int, shape: tuple[int, ...]
) -> None:
    size = torch.Size(shape).numel()
    buffer = random_values((offset + size + after,), torch.uint8)
    values = buffer[offset : offset + size].view(shape)
    assert_all_variants(values, buffer.to(device)[offset : offset + size].view(shape))


@pytest.mark.parametrize("num_bins", [1, 2, 7, 100, 128, 255, 256])
@pytest.mark.parametrize("shape", [(1500, 70), (10_000,)])
def test_num_bins(device: torch.device, num_bins: int, shape: tuple[int, ...]) -> None:
    values = random_values(shape, torch.uint8)
    assert_all_variants(values, values.to(device), num_bins)


DISTRIBUTIONS = {
    "constant": torch.full((4000, 66), 42),
    "two values": torch.randint(0, 2, (4000, 66), generator=torch.Generator().manual_seed(1)) * 255,
    "sorted": torch.arange(4000)[:, None].expand(-1, 66) * 256 // 4000,
    "a value a channel": torch.arange(66).expand(4000, -1),
    "all ignored": torch.full((4000, 66), 200),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(device: torch.device, name: str) -> None:
    values = DISTRIBUTIONS[name].to(torch.uint8)
    num_bins = 200 if name == "all ignored" else 256
    assert_all_variants(values, values.to(device), num_bins)
    assert_all_variants(values[:, 0].contiguous(), values[:, 0].contiguous().to(device), num_bins)


def test_more_rows_than_16_bits_count(device: torch.device) -> None:
    values = torch.full((200_000, 5), 9, dtype=torch.uint8)
    values[::3] = 10
    assert_all_variants(values, values.to(device))


@pytest.mark.parametrize("variant", ALL_VARIANTS)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (1, 0, 3, 2), (2, 3, 1, 0)])
@pytest.mark.parametrize("dim", [0, 2, (0, 2), (1, 3), (1, 2), (0, 1, 3), ()])
def test_any_input_on_the_cpu(
    variant: str, order: tuple[int, ...], dim: int | tuple[int, ...]
) -> None:
    """The variant chooses the CUDA kernel; the CPU has one answer for all names."""
    values = random_values((4, 9, 3, 5), torch.int32)[:, 1:, :, ::2].permute(order)
    counts = channel_histogram(values, 1000, dim, variant=variant)
    assert_counts(counts, expected_counts(values, 1000, dim))
