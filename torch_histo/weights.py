"""Sums of weights by bin: what `weight` is, the exact path from tensors to sums, and its gradient.

An operator adds weights up in digits, integers that nothing is lost of; another one rounds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from numbers import Integral
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

from torch_histo._arguments import (
    filled,
    is_compiling,
    is_dtensor,
    is_plain,
    kept_dimensions,
    shown,
    tensor_of,
)
from torch_histo._one_call import detached, in_one_call
from torch_histo._weight_operators import (
    rounded_sums,
    sum_of_digits,
    sum_size,
    uniform_sums,
    weight_gradient,
    weight_gradient_of_values,
    weighted_channel_histogram,
    weighted_histogram,
)

Bins: TypeAlias = "Tensor | int"
"""Edges, or a number of bins that hold one value each."""
Dims: TypeAlias = "Sequence[int] | None"
Add: TypeAlias = Callable[[Tensor], None]
Call: TypeAlias = Callable[[Tensor, Tensor, Bins], tuple[Tensor, ...]]

_MOST_BYTES = 256 << 20
"""How many bytes of digits a local call has at a time, or those of one channel if these are more.
A bin of float64 weights has 560."""


def is_number(weight: object) -> bool:
    """Whether it is a number of Python, or a compiler's symbol of one."""
    return isinstance(weight, (int, float, torch.SymBool, torch.SymInt, torch.SymFloat))


def weight_of(op: str, weight: Any, input: Tensor) -> Tensor:
    """`weight` as a tensor: a number is where the input is, an array or a list is on the CPU."""
    if isinstance(weight, Tensor):
        return weight
    if type(weight) is bool or isinstance(weight, torch.SymBool):
        return filled(input, weight, torch.bool)
    if isinstance(weight, (int, torch.SymInt)):
        return filled(input, _wrapped(op, weight), torch.int64)
    if type(weight) is float or isinstance(weight, torch.SymFloat):
        return filled(input, weight, torch.float64)
    found = tensor_of(f"{op}: weight", weight, "a number, a tensor, an array or a list of numbers")
    if found.dim() or is_compiling() or found.device.type != "cpu":
        return found
    number: Any = found.item()
    number = _wrapped(op, number) if isinstance(number, Integral) else number
    return filled(input, number, torch.int64 if found.dtype == torch.uint64 else found.dtype)


def _wrapped(op: str, number: Any) -> Any:
    """An integer as the int64 that it is modulo 2^64."""
    if isinstance(number, torch.SymInt) or -(1 << 63) <= number < 1 << 63:
        return number
    if not 0 <= number < 1 << 64:
        raise RuntimeError(f"{op}: weight must be a number of 64 bits, got {shown(number)}")
    return number - (1 << 64)


def sums_and_edges(
    input: Tensor, weight: Any, bins: object, range: Any, dim: int | Dims, flow: bool
) -> tuple[Tensor, Tensor] | None:
    """What `histogram` returns with weights that need no gradient, for calls that `in_one_call`
    makes and that need no groups of channels."""

    def call(input: Tensor, range: list[float] | None, dims: list[int] | None) -> Any:
        of_element = weight_of("histogram", weight, input)
        if not is_plain(of_element) or _has_gradient(of_element):
            return None
        return uniform_sums(input, detached(of_element), bins, range, dims, flow, _MOST_BYTES)

    return in_one_call(call, input, bins, range, dim)


def _sums_in_one_call(
    input: Tensor, weight: Tensor, bins: Bins, dims: Dims, flow: bool
) -> Tensor | None:
    """The sums of plain tensors, unless they have a gradient or need groups of channels. Calls that
    end in an error give None, too: the longer way tells what it is."""
    edges, number = (detached(bins), 0) if isinstance(bins, Tensor) else (None, bins)
    if _has_gradient(weight) or not (edges is None or is_plain(edges)):
        return None
    try:
        call = detached(input), detached(weight), edges, number, dims, flow, _MOST_BYTES
        return rounded_sums(*call)  # type: ignore[no-any-return]
    except (RuntimeError, TypeError):
        return None


def weighted_sums(
    input: Tensor,
    weight: Tensor,
    bins: Bins,
    dims: Dims,
    *,
    flow: bool = False,
    density: bool = False,
    add: Add | None = None,
) -> Tensor:
    """The sums of weights by bin: float64 for floats, each exact and rounded once, int64 for
    integers and bool, modulo 2^64.

    With `density` they are divided by the widths of the bins and by the total, which is rounded
    once, too. If several processes hold the data, `add` adds the others' digits; the result has no
    gradient then. Errors are in the words of the operators.
    """
    if not density and add is None and is_plain(input) and is_plain(weight):
        by_one_call = _sums_in_one_call(input, weight, bins, dims, flow)
        if by_one_call is not None:
            return by_one_call
    input, bins = input.detach(), bins.detach() if isinstance(bins, Tensor) else bins
    if not is_compiling() and _has_tangent(weight):
        raise RuntimeError(
            f"{_function_of(bins)}: weight must not have a tangent, as sums have none, got a dual "
            "tensor: use torch.func.vjp or torch.func.jacrev"
        )
    has_gradient = weight.dtype.is_floating_point and add is None
    if has_gradient and not (is_plain(weight) and not _requires_grad(weight)):
        if is_compiling():  # which does not see that func.grad tracks the argument itself
            weight = weight.view_as(weight)
        found = _Sums.apply(input, weight, bins, dims, flow, density)  # type: ignore[no-untyped-call]
    else:
        found = _sums(input, weight.detach(), bins, dims, flow, density, add)
    sums: Tensor = found[0]
    if density:
        assert isinstance(bins, Tensor)
        return density_of(sums, [bins], found[1], torch.float64)
    return sums


def _function_of(bins: Bins) -> str:
    return "histogram" if isinstance(bins, Tensor) else "channel_histogram"


def _requires_grad(weight: Tensor) -> bool:
    return weight.requires_grad and torch.is_grad_enabled()


def _has_gradient(weight: Tensor) -> bool:
    """Whether one is wanted of the sums, or what is refused instead."""
    return _requires_grad(weight) or _has_tangent(weight)


def _has_tangent(weight: Tensor) -> bool:
    if getattr(forward_ad, "_current_level", 0) < 0:  # asking takes as long as adding 1000 weights
        return False
    return forward_ad.unpack_dual(weight).tangent is not None  # type: ignore[no-untyped-call]


def _sums(
    input: Tensor,
    weight: Tensor,
    bins: Bins,
    dims: Dims,
    flow: bool,
    wants_total: bool,
    add: Add | None = None,
) -> tuple[Tensor, ...]:
    """Sums by bin, and then those of all bins if they are wanted."""

    def call(input: Tensor, weight: Tensor, bins: Bins) -> tuple[Tensor, ...]:
        digits = _digits(input, weight, bins, dims, flow)
        if add is not None:
            add(digits)
        if digits.shape[-1] == 1:  # integers
            sums = digits.squeeze(-1)
            return (sums, sums.sum(-1)) if wants_total else (sums,)
        digits = added(digits)
        sums = sum_of_digits(digits)
        return (sums, sum_of_digits(digits.sum(-2))) if wants_total else (sums,)

    if is_plain(input) and is_plain(weight):
        return _by_groups(call, input, weight, bins, dims, flow)
    return call(input, weight, bins)


def _digits(input: Tensor, weight: Tensor, bins: Bins, dims: Dims, flow: bool) -> Tensor:
    digits: Tensor
    if isinstance(bins, Tensor):
        digits = weighted_histogram(input, bins, weight, dims, flow=flow)
    else:
        digits = weighted_channel_histogram(input, weight, bins, dims)
    return digits


def added(digits: Any) -> Any:
    """Digits or counts whose parts are added up, if they are a DTensor."""
    if not is_dtensor(digits):
        return digits
    from torch.distributed.tensor import Replicate

    placements = [Replicate() if p.is_partial() else p for p in digits.placements]
    return digits.redistribute(placements=placements)


def _by_groups(
    call: Call, input: Tensor, weight: Tensor, bins: Bins, dims: Dims, flow: bool
) -> tuple[Tensor, ...]:
    """Calls for groups of channels, so that the memory of digits is limited."""
    kept = kept_dimensions(input.dim(), dims or ())
    sizes = [input.shape[d] for d in kept]
    num_bins = bins.shape[-1] - 1 + 3 * flow if isinstance(bins, Tensor) else bins
    channel = max(num_bins, 1) * sum_size(weight.dtype) * 8
    if channel * prod(sizes) <= _MOST_BYTES or not kept:
        return call(input, weight, bins)
    try:
        weight = weight.expand(input.shape)
        bins = bins.expand(*sizes, -1) if isinstance(bins, Tensor) else bins
    except RuntimeError:  # the operator tells what is wrong with sizes
        return call(input, weight, bins)

    def part(input: Tensor, weight: Tensor, bins: Bins, at: int) -> tuple[Tensor, ...]:
        inner = prod(sizes[at + 1 :]) * channel
        step, found = max(1, _MOST_BYTES // inner), []
        for first in range(0, sizes[at], step):
            size = min(step, sizes[at] - first)
            own = bins.narrow(at, first, size) if isinstance(bins, Tensor) else bins
            parts = input.narrow(kept[at], first, size), weight.narrow(kept[at], first, size), own
            is_small = inner <= _MOST_BYTES or at + 1 == len(kept)
            found.append(call(*parts) if is_small else part(*parts, at + 1))
        return tuple(torch.cat(group, at) for group in zip(*found, strict=True))

    return part(input, weight, bins, 0)


def groups_of_channels(sizes: Sequence[int], channel: int) -> tuple[int, int]:
    """How many calls `_by_groups` makes for channels of these sizes, of so many bytes of digits
    each, and the bytes of the largest call."""
    whole = channel * prod(sizes)
    if whole <= _MOST_BYTES or not sizes:
        return 1, whole
    inner = whole // sizes[0]
    if inner > _MOST_BYTES and len(sizes) > 1:
        calls, largest = groups_of_channels(sizes[1:], channel)
        return sizes[0] * calls, largest
    step = max(1, _MOST_BYTES // inner)
    return -(-sizes[0] // step), min(step, sizes[0]) * inner


class _Sums(torch.autograd.Function):
    """Sums by bin, with the gradient of the weights."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        input: Tensor, weight: Tensor, bins: Bins, dims: Dims, flow: bool, wants_total: bool
    ) -> tuple[Tensor, ...]:
        return _sums(input, weight, bins, dims, flow, wants_total)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        input, weight, bins, ctx.dims, ctx.flow, _ = inputs
        ctx.shape, ctx.dtype = weight.shape, weight.dtype
        ctx.num_bins = None if isinstance(bins, Tensor) else bins
        ctx.save_for_backward(input, *(bins,) if ctx.num_bins is None else ())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Each weight is in one bin, and in the total."""
        input, *edges = ctx.saved_tensors
        grad = grads[0] + grads[1].unsqueeze(-1) if len(grads) > 1 else grads[0]
        bins = edges[0] if edges else ctx.num_bins
        found: Any = _Gradient.apply(grad, input, bins, ctx.dims, ctx.flow)  # type: ignore[no-untyped-call]
        found = added(found.sum_to_size(ctx.shape)).to(ctx.dtype)
        return None, found, None, None, None, None


class _Gradient(torch.autograd.Function):
    """The gradient of each element's bin. It refuses to have one itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, input: Tensor, bins: Bins, dims: Dims, flow: bool) -> Tensor:
        found: Tensor
        if isinstance(bins, Tensor):
            found = weight_gradient(grad, input, bins, dims, flow)
        else:
            found = weight_gradient_of_values(grad, input, dims)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.function = _function_of(inputs[2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        raise RuntimeError(
            f"{ctx.function}: weight must be differentiated once, got a second time: the gradient "
            "of its gradient is not defined"
        )


def density_of(
    hist: Tensor,
    edges: Sequence[Tensor],
    total: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """counts or sums / (their total * the bins' widths or volumes), channel by channel, for the
    edges of each axis."""
    hist = added(hist)  # before divisions, which round
    axes = len(edges)
    if total is None:
        total = hist.sum(list(range(-axes, 0)), keepdim=True)
    else:
        total = added(total).reshape(*total.shape, *[1] * axes)
    if dtype is None:
        is_small = not hist.is_floating_point() and all(e.dtype == torch.float32 for e in edges)
        dtype = torch.float32 if is_small else torch.float64
    # In the order of NumPy's divisions, so that float64 is equal bit for bit.
    density = hist
    for d, own in enumerate(edges):
        wide, bins = own.double(), own.shape[-1] - 1
        widths = wide.narrow(-1, 1, bins) - wide.narrow(-1, 0, bins)  # DTensors have no diff
        if axes > 1:
            before, behind = [1] * d, [1] * (axes - 1 - d)
            widths = widths.reshape(*widths.shape[:-1], *before, bins, *behind)
        density = density / widths
    return (density / total).to(dtype)
