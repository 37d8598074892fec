"""The one oracle: what every count is compared with. NumPy, and nothing of torch_histo."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.uint16,
    torch.int16,
    torch.uint32,
    torch.int32,
    torch.uint64,
    torch.int64,
)

# As the contract lists them, not as the library does.
STUDY_VARIANTS = (
    "global_atomic",
    "privatized_global",
    "privatized_shared",
    "coarsened_contiguous",
    "coarsened_interleaved",
    "aggregated",
    "tiled",
)
ALL_VARIANTS = ("auto", *STUDY_VARIANTS, "sequential")


def expected_counts(values: Tensor, num_bins: int = 256, dim: int | Sequence[int] = 0) -> Tensor:
    """Counts one channel at a time, with np.unique on what lies within the bins."""
    array = values.cpu()
    if values.dtype == torch.bool:  # any nonzero byte is true
        array = (array.view(torch.uint8) != 0).to(torch.uint8)
    numbers = np.atleast_1d(array.numpy())
    dims = [dim] if isinstance(dim, int) else list(dim) or list(range(numbers.ndim))
    reduced = {d % numbers.ndim for d in dims}
    kept = [d for d in range(numbers.ndim) if d not in reduced]
    shape = tuple(numbers.shape[d] for d in kept)
    columns = np.moveaxis(numbers, kept, range(len(kept)))
    counts = np.zeros((*shape, num_bins), dtype=np.int64)
    for channel in np.ndindex(*shape):
        found, how_many = np.unique(columns[channel], return_counts=True)
        # Python's integers compare exactly, whatever the type.
        for value, count in zip(found.tolist(), how_many.tolist(), strict=True):
            if 0 <= value < num_bins:
                counts[(*channel, value)] = count
    return torch.from_numpy(counts)


def like(values: Tensor, device: torch.device | str) -> Tensor:
    """The same view on the device, gaps and all: to() alone would make it dense."""
    base = torch.empty(0, dtype=values.dtype).set_(values.untyped_storage()).to(device)
    return base.as_strided(values.shape, values.stride(), values.storage_offset())


def expected_letters(text: bytes) -> Tensor:
    counts = [0] * 7
    for byte in text:
        if chr(byte) in "abcdefghijklmnopqrstuvwxyz":
            counts["abcdefghijklmnopqrstuvwxyz".index(chr(byte)) // 4] += 1
    return torch.tensor(counts, dtype=torch.int64)


def assert_counts(got: Tensor, expected: Tensor, about: object = "") -> None:
    """Same dtype, shape and every single count."""
    assert got.dtype == torch.int64, f"{about}: dtype {got.dtype}"
    assert got.shape == expected.shape, f"{about}: {list(got.shape)} for {list(expected.shape)}"
    assert not got.requires_grad
    differing = (got.cpu() != expected.cpu()).nonzero()
    assert len(differing) == 0, (
        f"{about}: {len(differing)} counts differ, the first at {differing[0].tolist()}: "
        f"{got.cpu()[tuple(differing[0])]} for {expected.cpu()[tuple(differing[0])]}"
    )


def random_values(
    shape: Sequence[int], dtype: torch.dtype, seed: int = 0, *, low: int = -40, high: int = 300
) -> Tensor:
    """Values of the dtype around the usual bins, and its extremes among them."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    limits = torch.iinfo(dtype)
    low, high = max(low, limits.min), min(high, limits.max)
    values = torch.randint(low, high + 1, shape, generator=generator)
    # The unsigned types lack most operations: NumPy has them.
    numbers = values.numpy().astype(str(dtype).removeprefix("torch."))
    flat = numbers.reshape(-1)
    if flat.size >= 8:
        flat[:: max(flat.size // 4, 1)] = limits.max
        flat[1 :: max(flat.size // 3, 1)] = limits.min
    return torch.from_numpy(numbers)
