"""The implementations that are measured beside quantile."""

from __future__ import annotations

from functools import cache

import torch
from bins import QUANTILES, is_float
from cases import Case
from histogram_peers import by_channels, on_numpy
from peers import BOTH, CPU, OURS, Count, Peer
from torch import Tensor

from torch_histo import quantile

MOST_ELEMENTS = 1 << 24
"""The most that torch.quantile takes; with more, ranks are in float64."""


def elements(case: Case) -> int:
    """The elements of a channel."""
    return case.bytes // case.torch_dtype.itemsize // case.channels


def rank_dtype(case: Case) -> torch.dtype:
    small = is_float(case) and case.dtype != "float64" and elements(case) <= MOST_ELEMENTS
    return torch.float32 if small else torch.float64


@cache
def q_of(case: Case, device: torch.device) -> Tensor:
    return torch.tensor(QUANTILES[case.bins], dtype=rank_dtype(case), device=device)


def ours(case: Case) -> Count:
    return lambda x: quantile(x, q_of(case, x.device), case.dim)


def torch_sort(case: Case) -> Count:
    """The definition: the ranks are those of torch.quantile."""
    last = elements(case) - 1

    def run(x: Tensor) -> Tensor:
        values = by_channels(x, case).sort(-1).values
        ranks = q_of(case, x.device) * last
        low, high = (values[:, r.long()].to(ranks.dtype) for r in (ranks.floor(), ranks.ceil()))
        between = torch.lerp(low, high, (ranks - ranks.floor()).expand_as(low))
        has_nan = values[:, -1:].isnan() if is_float(case) else torch.zeros_like(between).bool()
        found = between.masked_fill(has_nan, torch.nan).T
        return found.to(x.dtype) if is_float(case) else found

    return run


def torch_quantile(case: Case) -> Count:
    (dim,) = case.dim
    return lambda x: torch.quantile(x, q_of(case, x.device), dim)


def torch_quantile_supports(case: Case) -> bool:
    return case.dtype in ("float32", "float64") and elements(case) <= MOST_ELEMENTS


def kthvalue(case: Case) -> Count:
    """One value of the two that a median may lie between."""
    (dim,) = case.dim
    return lambda x: torch.kthvalue(x, elements(case) // 2, dim).values


def one_quantile(case: Case) -> bool:
    return len(QUANTILES[case.bins]) == 1


def np_quantile(case: Case) -> Count:
    import numpy as np

    q = QUANTILES[case.bins]
    return lambda x: torch.from_numpy(np.quantile(on_numpy(x), q, axis=case.dim))


def wrong_quantiles(found: Tensor, expected: Tensor) -> int:
    """How many differ by more than rounding."""
    near = torch.isclose(found.double(), expected.double(), rtol=1e-3, atol=1e-4, equal_nan=True)
    return int((~near).sum())


QUANTILE_PEERS = [
    Peer(OURS, ours, devices=BOTH),
    Peer("torch.sort", torch_sort, devices=BOTH, captured=False),
    Peer("torch.quantile", torch_quantile, torch_quantile_supports, devices=BOTH, captured=False),
    Peer("torch.kthvalue", kthvalue, one_quantile, devices=BOTH, captured=False, exact=False),
    Peer("np.quantile", np_quantile, devices=CPU, exact=False),
]
