"""Bins of one width in one call, on no GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import oracle
import torch
from emulator.programs import TWO_SMS, Programs, described, limits_of, run_emulated
from oracle import assert_counts
from torch import Tensor

from torch_histo import HistogramExplanation, explain_histogram
from torch_histo.devices import Device

Range = tuple[float, float] | None
EdgesOf = Callable[..., Tensor]
"""Of low, high, bins and dtype."""


class CountUniform(Protocol):
    def __call__(
        self,
        values: Tensor,
        bins: int,
        of: Range = ...,
        *,
        dim: tuple[int, ...] = ...,
        flow: bool = ...,
        offset: int = ...,
        gpu: Device = ...,
        edges_of: EdgesOf = ...,
    ) -> set[str]: ...


def count_uniform(
    programs: Programs,
    values: Tensor,
    bins: int,
    of: Range = None,
    *,
    dim: tuple[int, ...] = (1,),
    flow: bool = True,
    offset: int = 0,
    gpu: Device = TWO_SMS,
    edges_of: EdgesOf = oracle.uniform_edges,
) -> set[str]:
    """Counts `values`, which begin `offset` elements behind an aligned address.

    Compares edges and counts with the oracle's, or edges with those of `edges_of`. Returns the
    names of the kernels, and the words of a plan of stripes.
    """
    kept = [values.shape[d] for d in range(values.ndim) if d not in dim]
    num_counts = bins + (3 if flow else 0)
    problem, data = described(values, num_counts, dim, offset * values.dtype.itemsize)
    bounds = b"" if of is None else np.array(of).tobytes()
    header = [*problem, bins, int(of is not None), 0, len(bounds), int(flow), *limits_of(gpu)]
    about = f"{list(values.shape)} {values.dtype} over {dim}, {bins} bins in {of}, {gpu.name}"
    words, results = run_emulated(
        programs.emulator, "uniform_histogram", header, data + bounds, about
    )
    narrow = values.dtype.is_floating_point and values.dtype != torch.float64
    dtype = torch.float32 if narrow else torch.float64
    size = math.prod(kept) * num_counts * 8
    counts = torch.frombuffer(results[:size], dtype=torch.int64).view(*kept, num_counts)
    edges = torch.frombuffer(results[size:], dtype=dtype)
    low, high = (
        oracle.range_of(values, dim)
        if of is None
        else torch.tensor(of, dtype=torch.float64).unbind()
    )
    expected = edges_of(low, high, bins, dtype=dtype)
    assert torch.equal(edges.view(expected.shape), expected), about
    assert_counts(counts, oracle.histogram(values, expected, dim, flow=flow), about)
    if offset == 0:
        assert_explained(words, explain_histogram(values, bins, range=of, dim=dim, device=gpu))
    return words


def assert_explained(words: set[str], plan: HistogramExplanation) -> None:
    """A plan names the kernels that ran, but for those that count raw bytes."""
    raw = plan.raw_bytes.steps if plan.raw_bytes is not None else ()
    told = set(plan.steps) - {"zeroing", *raw}
    launched = {word for word in words if "_" in word} - {*raw, "clear_counts"}
    assert launched == told - {"clear_counts"}, (words, plan)
