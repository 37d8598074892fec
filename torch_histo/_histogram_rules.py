"""What the operators of `histogram` and of streams do for fake tensors, and under vmap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_histo import _library
from torch_histo._arguments import (
    describe,
    empty_counts,
    kept_sizes,
    name_of,
    of_all_samples,
    raise_from,
    require,
)

_library.load()  # the rules below need the operators


def is_small_float(value: Tensor) -> bool:
    """Whether float32 holds the values."""
    return value.is_floating_point() and value.dtype != torch.float64


def check_call(
    input: Tensor,
    shape: Sequence[int],
    dims: Sequence[int] | None,
    edges: Tensor,
    op: str = "histogram",
) -> None:
    """Raises what the operator would, for an input of this shape."""
    _check_edges(op, input, len(shape), dims, edges, edges.dim())
    kept = kept_sizes(shape, dims)
    _check_edge_sizes(op, edges.shape, kept)


def check_counted(op: str, input: Tensor, ndim: int, dim: Sequence[int] | None) -> None:
    """Raises what the kernels would, for a tensor of which only the metadata count."""
    check = torch.ops.histo._check_numbers.default
    raise_from(check, op, *describe(input), ndim, None if dim is None else list(dim))


def on_meta(value: Tensor) -> Tensor:
    """A meta tensor in its place, to be checked but not counted; itself, if it would be refused."""
    try:
        check_counted("", value, value.dim(), None)
    except RuntimeError:
        return value
    return value if value.is_nested else torch.empty(value.shape, dtype=value.dtype, device="meta")


def _check_edges(
    op: str, input: Tensor, ndim: int, dim: Sequence[int] | None, edges: Tensor, edges_ndim: int
) -> None:
    check_counted(op, input, ndim, dim)
    check = torch.ops.histo._check_edges.default
    raise_from(check, op, *describe(input), ndim, *describe(edges), edges_ndim)


def _check_edge_sizes(
    op: str, given: Sequence[int], kept: Sequence[int], name: str = "edges"
) -> None:
    """The same for sizes, which may be symbols that nothing may make constants of."""
    *rows, edges = given
    require(
        edges >= 2,
        f"{op}: {name} must hold at least two edges in the last dimension, got {{}}",
        edges,
    )
    pairs = zip(reversed(rows), reversed(kept), strict=False)
    for fits in (len(rows) <= len(kept), *((a == 1) | (a == b) for a, b in pairs)):
        require(
            fits,
            f"{op}: {name} must be [n + 1], or have sizes that broadcast to the kept "
            "dimensions and n + 1, {}, got {}",
            [*kept, edges],
            given,
        )


def _check_bounds(low: Tensor, high: Tensor, num_bins: int, dtype: torch.dtype) -> None:
    if isinstance(num_bins, torch.SymInt):
        require(num_bins >= 1, "uniform_edges: num_bins must be at least 1, got {}", num_bins)
        num_bins = 1
    check = torch.ops.histo._check_bounds.default
    raise_from(check, *describe(low), *describe(high), num_bins, name_of(dtype))


@torch.library.register_fake("histo::histogram")  # type: ignore[untyped-decorator]
def _(
    input: Tensor, edges: Tensor, dim: Sequence[int] | None = None, *, flow: bool = False
) -> Tensor:
    check_call(input, input.shape, dim, edges)
    return empty_counts("histogram", input, dim, edges.shape[-1] - 1 + (3 if flow else 0))


def _check_counts(
    counts: Tensor, input: Tensor, dim: Sequence[int] | None, edges: Tensor, flow: bool
) -> None:
    check_call(input, input.shape, dim, edges, "histogram_add_")
    raise_from(torch.ops.histo._check_counts.default, *describe(input), *describe(counts))
    kept = kept_sizes(input.shape, dim)
    sizes = [*kept, edges.shape[-1] - 1 + (3 if flow else 0)]
    pairs = zip(counts.shape, sizes, strict=False)
    for fits in (counts.dim() == len(sizes), *(a == b for a, b in pairs)):
        require(
            fits,
            "histogram_add_: counts must have the sizes that torch_histo.histogram returns here, "
            "{}, got {}",
            sizes,
            counts.shape,
        )


@torch.library.register_fake("histo::histogram_add_")  # type: ignore[untyped-decorator]
def _(
    counts: Tensor,
    input: Tensor,
    edges: Tensor,
    dim: Sequence[int] | None = None,
    *,
    flow: bool = False,
) -> None:
    _check_counts(counts, input, dim, edges, flow)


@torch.library.register_fake("histo::finite_range")  # type: ignore[untyped-decorator]
def _(input: Tensor, dim: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
    check_counted("finite_range", input, input.dim(), dim)
    kept = kept_sizes(input.shape, dim)
    dtype = torch.float32 if is_small_float(input) else torch.float64
    return input.new_empty(kept, dtype=dtype), input.new_empty(kept, dtype=dtype)


@torch.library.register_fake("histo::uniform_edges")  # type: ignore[untyped-decorator]
def _(
    low: Tensor,
    high: Tensor,
    num_bins: int,
    *,
    dtype: torch.dtype | None = None,
    in_float32: bool = False,
) -> Tensor:
    dtype = dtype or (torch.float32 if in_float32 else torch.float64)
    _check_bounds(low, high, num_bins, dtype)
    try:
        sizes = torch.broadcast_shapes(low.shape, high.shape)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise RuntimeError(
            "uniform_edges: high must have sizes that broadcast with those of low, "
            f"{list(low.shape)}, got {list(high.shape)}"
        ) from error
    return low.new_empty([*sizes, num_bins + 1], dtype=dtype)


def samples_first(batch: Tensor, at: int | None, ndim: int) -> Tensor:
    """A batch as [samples, sizes of 1 up to ndim dimensions, dimensions of a sample]; what all
    samples share is one sample."""
    batch = batch.unsqueeze(0) if at is None else batch.movedim(at, 0)
    return batch.reshape(batch.shape[0], *[1] * (ndim + 1 - batch.dim()), *batch.shape[1:])


def as_one_call(
    op: str,
    info: Any,
    in_dims: tuple[int | None, ...],
    input: Tensor,
    edges: Tensor,
    dim: Sequence[int] | None,
) -> tuple[Tensor, Tensor, list[int], int]:
    """Input, edges and dimensions of a call for all samples, and where these are in its counts."""
    at, edges_at = in_dims
    if at is None:  # strides of 0: nothing is copied
        input, at = input.expand(info.batch_size, *input.shape), 0
    ndim, edges_ndim = input.dim() - 1, edges.dim() - (edges_at is not None)
    _check_edges(op, input, ndim, dim, edges, edges_ndim)
    input, dims, place = of_all_samples(input, at, dim)
    kept = [size for d, size in enumerate(input.shape) if d != at and d not in dims]
    _check_edge_sizes(op, [size for d, size in enumerate(edges.shape) if d != edges_at], kept)
    edges = samples_first(edges, edges_at, len(kept) + 1).movedim(0, place)
    return input, edges, dims, place


@torch.library.register_vmap("histo::histogram")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    input: Tensor,
    edges: Tensor,
    dim: Sequence[int] | None = None,
    *,
    flow: bool = False,
) -> tuple[Tensor, int]:
    input, edges, dims, place = as_one_call("histogram", info, in_dims[:2], input, edges, dim)
    return torch.ops.histo.histogram(input, edges, dims, flow=flow), place


@torch.library.register_vmap("histo::histogram_add_")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    counts: Tensor,
    input: Tensor,
    edges: Tensor,
    dim: Sequence[int] | None = None,
    *,
    flow: bool = False,
) -> tuple[None, None]:
    op, at = "histogram_add_", in_dims[0]
    if at is None:
        raise RuntimeError(
            f"{op}: counts must be mapped by vmap, so that each sample has its own, got one tensor "
            "for all: pass counts with a dimension of samples"
        )
    input, edges, dims, place = as_one_call(op, info, in_dims[1:3], input, edges, dim)
    torch.ops.histo.histogram_add_(counts.movedim(at, place), input, edges, dims, flow=flow)
    return None, None


@torch.library.register_vmap("histo::finite_range")  # type: ignore[untyped-decorator]
def _(
    info: Any, in_dims: tuple[int, ...], input: Tensor, dim: Sequence[int] | None = None
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    check_counted("finite_range", input, input.dim() - 1, dim)
    input, dims, place = of_all_samples(input, in_dims[0], dim)
    low, high = torch.ops.histo.finite_range(input, dims)
    return (low, high), (place, place)


@torch.library.register_vmap("histo::uniform_edges")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    low: Tensor,
    high: Tensor,
    num_bins: int,
    *,
    dtype: torch.dtype | None = None,
    in_float32: bool = False,
) -> tuple[Tensor, int]:
    pairs = list(zip((low, high), in_dims[:2], strict=True))
    ndim = max(bound.dim() - (at is not None) for bound, at in pairs)
    low, high = (samples_first(bound, at, ndim) for bound, at in pairs)
    edges = torch.ops.histo.uniform_edges(low, high, num_bins, dtype=dtype, in_float32=in_float32)
    return edges, 0
