"""A torchmetrics metric: quantiles of all that came, on all processes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from torch_histo import QuantileSketch

STATES = {"hist": "sum", "min_key": "min", "max_key": "max"}
"""The buffers of a sketch that count, and how those of several processes become one."""


class Quantiles(Metric):
    """`update` and `compute` as of any metric, `reset` and synchronization are torchmetrics'.

    Args:
        q: which quantiles, from 0 to 1.
        channels, bits: of `torch_histo.QuantileSketch`.
    """

    full_state_update = False

    def __init__(
        self, q: Sequence[float], channels: int | Sequence[int] | None = None, bits: int = 7
    ) -> None:
        super().__init__()
        self.q = list(q)
        self.sketch = QuantileSketch(channels, bits)
        for name, reduction in STATES.items():
            self.add_state(name, getattr(self.sketch, name).clone(), dist_reduce_fx=reduction)

    def counted(self) -> QuantileSketch:
        """The sketch, with the states of the metric, which torchmetrics replaces at will."""
        for name in STATES:
            setattr(self.sketch, name, getattr(self, name))
        return self.sketch

    def update(self, x: Tensor, dim: int | Sequence[int] | None = None) -> None:
        self.counted().update(x, dim)

    def compute(self) -> Tensor:
        """float64 `[q, channels...]`"""
        return self.counted().quantile(self.q)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    metric = Quantiles([0.01, 0.5, 0.99])
    for _ in range(10):
        metric.update(torch.randn(1000))
    print("quantiles of 10,000 normal numbers:", metric.compute().tolist())
