"""The oracle itself: np.bincount and torch.bincount give what np.unique gives."""

from __future__ import annotations

import oracle
import pytest
import torch
from oracle import DTYPES, assert_counts, counts_by_unique, expected_counts, random_values


@pytest.mark.parametrize("by_torch", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((), 0),
        ((0,), 0),
        ((0, 3), 0),
        ((3, 0), 0),
        ((4001,), 0),
        ((301, 7), 0),
        ((7, 301), -1),
        ((5, 3, 17, 19), (0, 2, 3)),
        ((5, 3, 17, 19), (1,)),
        ((2, 3, 40), None),
    ],
)
def test_against_np_unique(
    shape: tuple[int, ...],
    dim: int | tuple[int, ...] | None,
    dtype: torch.dtype,
    by_torch: bool,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(oracle, "BLOCK", 1000)  # several blocks
    values = random_values(shape, dtype).to(device)
    for num_bins in (0, 1, 100, 256, 300, 70_000) if values.dim() < 2 else (2, 300):
        got = expected_counts(values, num_bins, dim, by_torch=by_torch)
        assert_counts(got, counts_by_unique(values, num_bins, dim))
