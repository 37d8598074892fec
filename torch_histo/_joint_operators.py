"""The operators of joint histograms: what they do for fake tensors, and under vmap."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from torch_histo import _library
from torch_histo._arguments import kept_dimensions, kept_sizes, reduced_dimensions, require
from torch_histo._histogram_rules import _check_edge_sizes, _check_edges, samples_first
from torch_histo._weight_operators import _check_weight, _check_weight_sizes, sum_size

_library.load()  # the rules below need the operators

# Found once, which saves each call the look-ups.
joint_histogram = torch.ops.histo.joint_histogram.default
weighted_joint_histogram = torch.ops.histo.weighted_joint_histogram.default
joint_index = torch.ops.histo._joint_index.default

COUNTS, SUMS, INDEX = "joint_histogram", "weighted_joint_histogram", "_joint_index"

Tensors = Sequence[Tensor]
Dims = Sequence[int] | None
Places = Sequence[int | None]


def _without(sizes: Sequence[int], at: int | None) -> list[int]:
    return [size for d, size in enumerate(sizes) if d != at]


def _check_coordinate(
    op: str, d: int, input: Tensor, sample: Sequence[int], dim: Dims, edges: Tensor, own: list[int]
) -> None:
    """Raises what the operator would for coordinate d, of which a sample has these sizes."""
    try:
        _check_edges(op, input, len(sample), dim, edges, len(own))
    except RuntimeError as error:
        message = str(error)
        for name, of_list in (("input", f"inputs[{d}]"), ("edges", f"edges[{d}]")):
            message = message.replace(f"{op}: {name} must", f"{op}: {of_list} must")
        raise RuntimeError(message) from None
    kept = kept_sizes(sample, dim)
    _check_edge_sizes(op, own, kept, f"edges[{d}]")


def _check(
    op: str, inputs: Tensors, edges: Tensors, dim: Dims, at: Places = (), edges_at: Places = ()
) -> list[int]:
    """Raises what the operator would, and returns the sizes of a sample."""
    if not inputs:
        raise RuntimeError(f"{op}: inputs must hold at least one tensor, got none")
    if len(edges) != len(inputs):
        expected = f"edges must hold as many tensors as inputs, {len(inputs)}"
        raise RuntimeError(f"{op}: {expected}, got {len(edges)}")
    at, edges_at = at or [None] * len(inputs), edges_at or [None] * len(inputs)
    first = _without(inputs[0].shape, at[0])
    for d, (input, own) in enumerate(zip(inputs, edges, strict=True)):
        sample = _without(input.shape, at[d])
        _check_coordinate(op, d, input, sample, dim, own, _without(own.shape, edges_at[d]))
        name = f"{op}: inputs[{d}] must"
        if input.device != inputs[0].device:
            expected = f"be on the device of inputs[0], {inputs[0].device.type}"
            raise RuntimeError(f"{name} {expected}, got {input.device.type}")
        same = (len(sample) == len(first), *(a == b for a, b in zip(sample, first, strict=False)))
        for fits in same:
            require(fits, f"{name} have the sizes of inputs[0], {{}}, got {{}}", first, sample)
    return first


def _result_sizes(op: str, sizes: Sequence[int], edges: Tensors, dim: Dims, flow: bool) -> Any:
    slots = [own.shape[-1] - 1 + (3 if flow else 0) for own in edges]
    if all(type(n) is int for n in slots) and prod(slots) >= 1 << 63:
        got = " x ".join(map(str, slots))
        raise RuntimeError(f"{op}: edges must make fewer than 2^63 joint bins, got {got}")
    return [*kept_sizes(sizes, dim), *slots]


@torch.library.register_fake("histo::joint_histogram")  # type: ignore[untyped-decorator]
def _(inputs: Tensors, edges: Tensors, dim: Dims = None, *, flow: bool = False) -> Tensor:
    sizes = _result_sizes(COUNTS, _check(COUNTS, inputs, edges, dim), edges, dim, flow)
    return inputs[0].new_empty(sizes, dtype=torch.int64)


@torch.library.register_fake("histo::weighted_joint_histogram")  # type: ignore[untyped-decorator]
def _(
    inputs: Tensors, edges: Tensors, weight: Tensor, dim: Dims = None, *, flow: bool = False
) -> Tensor:
    sizes = _result_sizes(SUMS, _check(SUMS, inputs, edges, dim), edges, dim, flow)
    _check_weight(SUMS, inputs[0], inputs[0].dim(), weight, weight.dim())
    _check_weight_sizes(SUMS, weight.shape, inputs[0].shape)
    return inputs[0].new_empty([*sizes, sum_size(weight.dtype)], dtype=torch.int64)


@torch.library.register_fake("histo::_joint_index")  # type: ignore[untyped-decorator]
def _(inputs: Tensors, edges: Tensors, dim: Dims, flow: bool) -> Tensor:
    sizes = _check(INDEX, inputs, edges, dim)
    _result_sizes(INDEX, sizes, edges, dim, flow)
    kept = kept_dimensions(len(sizes), dim or ())
    order = [*kept, *(d for d in range(len(sizes)) if d not in kept)]
    memory = inputs[0].new_empty([sizes[d] for d in order], dtype=torch.int64)
    return memory.permute([order.index(d) for d in range(len(sizes))])


def _one_call(
    op: str, info: Any, in_dims: Any, inputs: Tensors, edges: Tensors, dim: Dims
) -> tuple[list[Tensor], list[Tensor], list[int], list[int]]:
    """Inputs, edges and dimensions of a call for all samples, which come first, and the sizes of a
    sample."""
    at, edges_at = in_dims
    sizes = _check(op, inputs, edges, dim, at, edges_at)
    ndim = max(len(sizes), 1)  # numbers are 1-D samples of one element
    size = info.batch_size
    batches = [
        x.expand(size, *x.shape) if d is None else x.movedim(d, 0)  # strides of 0: no copy
        for x, d in zip(inputs, at, strict=True)
    ]
    if not sizes:
        batches = [batch.unsqueeze(1) for batch in batches]
    reduced = reduced_dimensions(ndim, dim or ())
    own = [
        samples_first(e, d, ndim - len(reduced) + 1) for e, d in zip(edges, edges_at, strict=True)
    ]
    return batches, own, [d + 1 for d in sorted(reduced)], sizes


@torch.library.register_vmap("histo::joint_histogram")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: Any,
    inputs: Tensors,
    edges: Tensors,
    dim: Dims = None,
    *,
    flow: bool = False,
) -> tuple[Tensor, int]:
    inputs, edges, dims, _ = _one_call(COUNTS, info, in_dims[:2], inputs, edges, dim)
    return joint_histogram(inputs, edges, dims, flow=flow), 0


@torch.library.register_vmap("histo::weighted_joint_histogram")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: Any,
    inputs: Tensors,
    edges: Tensors,
    weight: Tensor,
    dim: Dims = None,
    *,
    flow: bool = False,
) -> tuple[Tensor, int]:
    batches, edges, dims, sizes = _one_call(SUMS, info, in_dims[:2], inputs, edges, dim)
    own = _without(weight.shape, in_dims[2])
    _check_weight(SUMS, inputs[0], len(sizes), weight, len(own))
    _check_weight_sizes(SUMS, own, sizes)
    weight = samples_first(weight, in_dims[2], max(len(sizes), 1))
    return weighted_joint_histogram(batches, edges, weight, dims, flow=flow), 0


@torch.library.register_vmap("histo::_joint_index")  # type: ignore[untyped-decorator]
def _(
    info: Any, in_dims: Any, inputs: Tensors, edges: Tensors, dim: Dims, flow: bool
) -> tuple[Tensor, int]:
    batches, edges, dims, sizes = _one_call(INDEX, info, in_dims[:2], inputs, edges, dim)
    found = joint_index(batches, edges, dims, flow)
    return found if sizes else found.squeeze(1), 0
