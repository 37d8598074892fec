"""How the operators act on DTensors: which shards they take, and what their counts are then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding
from torch.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

from torch_histo._arguments import kept_dimensions

Ways = list[tuple[list[Placement], list[Placement]]]
"""Placements of the results, and of the inputs that give them, on one dimension of a mesh."""


def channel_histogram(
    input: Any, num_bins: int = 256, dim: Sequence[int] = (0,), *, variant: str = "auto"
) -> Ways:
    return _ways([input], [], dim)


def text_histogram(text: Any, *, variant: str = "auto") -> Ways:
    return [([Replicate()], [Replicate()]), ([Partial("sum")], [Shard(0)])]


def own_shard(beside: Any, ndim: int, d: int) -> Placement:
    """The placement of weights or edges, which broadcast to a tensor of `ndim` dimensions that is
    sharded at `d`. They are sharded in the same way, or each rank has all of them."""
    own = d - ndim + beside.ndim
    return Shard(own) if own >= 0 and beside.shape[own] > 1 else Replicate()


def histogram(
    input: Any, edges: Any, dim: Sequence[int] | None = None, *, flow: bool = False
) -> Ways:
    return _ways([input], [edges], dim)


def finite_range(input: Any, dim: Sequence[int] | None = None) -> Ways:
    extremes: list[Placement] = [Partial("min"), Partial("max")]
    ways = _ways([input], [], dim)
    return [(extremes if of[0].is_partial() else of * 2, placed) for of, placed in ways]


def uniform_edges(
    low: Any,
    high: Any,
    num_bins: int,
    *,
    dtype: torch.dtype | None = None,
    in_float32: bool = False,
) -> Ways:
    ndim = max(low.ndim, high.ndim)
    ways: Ways = [([Replicate()], [Replicate(), Replicate()])]
    for d in range(ndim):
        bounds = [own_shard(bound, ndim, d) for bound in (low, high)]
        if bounds != [Replicate(), Replicate()]:
            ways.append(([Shard(d)], bounds))
    return ways


def quantile(
    input: Any,
    q: Any,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    ignore_nan: bool = False,
) -> Ways:
    kept = kept_dimensions(input.ndim, dim or ())
    ways: Ways = [([Replicate()], [Replicate(), Replicate()])]
    if q.ndim:
        ways.append(([Shard(0)], [Replicate(), Shard(0)]))
    for channel, d in enumerate(kept):
        result = Shard(q.ndim + (d if keepdim else channel))
        ways.append(([result], [Shard(d), Replicate()]))
    return ways


def weighted_histogram(
    input: Any, edges: Any, weight: Any, dim: Sequence[int] | None = None, *, flow: bool = False
) -> Ways:
    return _with_weight(_ways([input], [edges], dim), input, weight)


def weighted_channel_histogram(
    input: Any, weight: Any, num_bins: int = 256, dim: Sequence[int] = (0,)
) -> Ways:
    return _with_weight(_ways([input], [], dim), input, weight)


def joint_histogram(
    inputs: Any, edges: Any, dim: Sequence[int] | None = None, *, flow: bool = False
) -> Ways:
    return _ways(inputs, edges, dim)


def weighted_joint_histogram(
    inputs: Any, edges: Any, weight: Any, dim: Sequence[int] | None = None, *, flow: bool = False
) -> Ways:
    return _with_weight(_ways(inputs, edges, dim), inputs[0], weight)


def joint_index(inputs: Any, edges: Any, dim: Sequence[int] | None, flow: bool) -> Ways:
    return [([placed[0]], placed) for _, placed in _ways(inputs, edges, dim)]


def _ways(inputs: Sequence[Any], edges: Sequence[Any], dim: Sequence[int] | None) -> Ways:
    """The ways to shard a count. All inputs have the same sizes, and the same shards."""
    ndim = inputs[0].ndim
    kept = kept_dimensions(ndim, dim or ())
    ways: Ways = [([Replicate()], [Replicate()] * (len(inputs) + len(edges)))]
    for d in range(ndim):
        shards: list[Placement] = [Shard(d)] * len(inputs)
        if d in kept:
            channel = kept.index(d)
            of_edges = [own_shard(e, len(kept) + 1, channel) for e in edges]
            ways.append(([Shard(channel)], [*shards, *of_edges]))
        else:
            ways.append(([Partial("sum")], [*shards, *([Replicate()] * len(edges))]))
    return ways


def _with_weight(ways: Ways, input: Any, weight: Any) -> Ways:
    shards = [Replicate(), *(own_shard(weight, input.ndim, d) for d in range(input.ndim))]
    return [(results, [*inputs, own]) for (results, inputs), own in zip(ways, shards, strict=True)]


def digits(digits: Any) -> Ways:
    """Digits become sums, or others: all digits of a bin on one rank."""
    ways: Ways = [([Replicate()], [Replicate()])]
    return ways + [([Shard(d)], [Shard(d)]) for d in range(digits.ndim - 1)]


def weight_gradient(
    grad: Any, input: Any, edges: Any, dim: Sequence[int] | None, flow: bool
) -> Ways:
    return _of_gradient(_ways([input], [edges], dim))


def weight_gradient_of_values(grad: Any, input: Any, dim: Sequence[int]) -> Ways:
    return _of_gradient(_ways([input], [], dim))


def _of_gradient(ways: Ways) -> Ways:
    """The gradient of the weights lies where the input does, and that of the sums where they do."""
    return [
        ([placed[0]], [Replicate() if sums.is_partial() else sums, *placed])
        for (sums,), placed in ways
    ]


RULES: dict[Any, Callable[..., Ways]] = {
    torch.ops.histo.channel_histogram.default: channel_histogram,
    torch.ops.histo.text_histogram.default: text_histogram,
    torch.ops.histo.histogram.default: histogram,
    torch.ops.histo.finite_range.default: finite_range,
    torch.ops.histo.uniform_edges.default: uniform_edges,
    torch.ops.histo.quantile.default: quantile,
    torch.ops.histo.weighted_histogram.default: weighted_histogram,
    torch.ops.histo.weighted_channel_histogram.default: weighted_channel_histogram,
    torch.ops.histo.joint_histogram.default: joint_histogram,
    torch.ops.histo.weighted_joint_histogram.default: weighted_joint_histogram,
    torch.ops.histo._joint_index.default: joint_index,
    torch.ops.histo.sum_of_digits.default: digits,
    torch.ops.histo.normalize_digits.default: digits,
    torch.ops.histo._weight_gradient.default: weight_gradient,
    torch.ops.histo._weight_gradient_of_values.default: weight_gradient_of_values,
}

# A kept result of the propagation depends on these: the arguments from a number on, and keywords.
# `register_sharding` sees ints alone, neither an optional list of them nor a bool or a dtype.
DEPENDS = {
    torch.ops.histo.histogram.default: (2, ["flow"]),
    torch.ops.histo.finite_range.default: (1, None),
    torch.ops.histo.uniform_edges.default: (2, ["dtype", "in_float32"]),
    torch.ops.histo.quantile.default: (2, ["interpolation", "ignore_nan"]),
    torch.ops.histo.weighted_histogram.default: (3, ["flow"]),
    torch.ops.histo._weight_gradient.default: (3, None),
    torch.ops.histo.joint_histogram.default: (2, ["flow"]),
    torch.ops.histo.weighted_joint_histogram.default: (3, ["flow"]),
    torch.ops.histo._joint_index.default: (2, None),
}


def register() -> None:
    for op, rule in RULES.items():
        register_sharding(op)(rule)
    depends = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    for op, (first, keywords) in DEPENDS.items():
        depends[op] = RuntimeSchemaInfo(first, keywords, needs_pytree=True)
