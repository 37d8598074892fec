"""Exact quantiles: the functions, and the rules of their operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from torch.autograd import forward_ad

from torch_histo import _library
from torch_histo._arguments import (
    all_but_channel,
    describe,
    dimensions,
    filled,
    is_compiling,
    is_plain,
    kept_dimensions,
    raise_as_python_would,
    raise_from,
    reduced_dimensions,
    require,
    shown,
    tensor_of,
    without_array,
)
from torch_histo._keywords import refuse_keyword

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_library.load()  # the rules below need the operator

_ARGUMENTS = ("input", "q", "dim", "keepdim", "channel_dim", "interpolation")
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(
    input: Tensor | ArrayLike,
    q: float | Sequence[float] | Tensor | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    channel_dim: int | None = None,
    interpolation: str = "linear",
    **unknown: NoReturn,
) -> Tensor:
    """Exact quantiles of a tensor of any size, without sorting it.

    Results are those of `torch.quantile` up to torch 2.13, bit for bit where it works, save the
    sign of zero and the bits of NaN: a slice that holds NaN has the quantile NaN. From 2.14 on
    torch computes ranks of float32 in float64, as this function does beyond 2^24 elements a
    slice. It also takes other dtypes and several dimensions. Nothing grows with the input but the
    copy that rare strides need. On CUDA the work is queued on the current stream, nothing
    synchronizes, and the call can be captured in a graph.

    Args:
        input: a dense tensor of any shape and strides, of dtype float16, bfloat16, float32,
            float64, float8_e4m3fn, float8_e5m2, bool, or any integer, on a CPU or CUDA device.
            It must have at least one element in each slice over `dim`.
        q: a number from 0 to 1, a sequence of them, or a 0-D or 1-D floating-point tensor on the
            device of the input. Nobody reads a tensor's values on the host: a quantile whose q is
            NaN or not from 0 to 1 is NaN. On CUDA a kernel writes each number of a sequence, so
            a tensor is faster for many.
        dim: the dimension or dimensions to reduce; None means all.
        channel_dim: the one dimension that is not reduced, instead of `dim`.
        keepdim: keeps the reduced dimensions, with size 1.
        interpolation: what to return for a rank q * (n - 1) between two values: "linear", "lower",
            "higher", "midpoint" or "nearest", where half a rank goes to the even one.

    Returns:
        The quantiles: the dimension of `q` first, if it has one, then those of the input that are
        kept. Floats have the dtype of the input, and integers give float64. Ranks and
        interpolation are computed in float32 for floats of up to 32 bits, but in float64 for more
        than 2^24 elements a slice; in float64 for float64 and integers.

    Raises:
        RuntimeError: another dtype, layout or device; a slice without elements; a number that is
            not from 0 to 1; a dim out of range or named twice; an input or q that requires a
            gradient while gradients are recorded, or has a tangent: quantiles have none here.
        torch.OutOfMemoryError: the GPU has not the memory for the result or the workspace.
        TypeError: an argument of a type that it does not take.

    Example:
        >>> x = torch.tensor([[3.0, 1.0, 2.0], [5.0, 9.0, 7.0]])
        >>> torch_histo.quantile(x, 0.5, dim=1)
        tensor([2., 7.])
        >>> torch_histo.quantile(x, [0.25, 1.0], dim=1)
        tensor([[1.5000, 6.0000],
                [3.0000, 9.0000]])

    Source: the rule of ranks is that of `torch.quantile`. The method is a radix select: values are
    counted by their leading bits, and only those with the bits of a wanted rank are looked at
    further.
    """
    return _quantile("quantile", input, q, dim, keepdim, channel_dim, interpolation, unknown)


def nanquantile(
    input: Tensor | ArrayLike,
    q: float | Sequence[float] | Tensor | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    channel_dim: int | None = None,
    interpolation: str = "linear",
    **unknown: NoReturn,
) -> Tensor:
    """Exact quantiles of the values that are not NaN, as `torch.nanquantile` has them.

    All else is as in `torch_histo.quantile`. A slice that holds nothing but NaN gives NaN.

    Example:
        >>> x = torch.tensor([3.0, torch.nan, 1.0, 2.0])
        >>> torch_histo.nanquantile(x, 0.5)
        tensor(2.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, channel_dim, interpolation, unknown)


def _quantile(
    name: str,
    input: Tensor | ArrayLike,
    q: float | Sequence[float] | Tensor | None,
    dim: int | Sequence[int] | None,
    keepdim: bool,
    channel_dim: int | None,
    interpolation: str,
    unknown: dict[str, Any],
) -> Tensor:
    if not isinstance(input, Tensor):
        input = tensor_of(f"{name}: input", input)
    input, probabilities, dims, keepdim = checked_call(
        name, input, q, dim, keepdim, channel_dim, interpolation, unknown
    )
    ignore_nan = name == "nanquantile"
    try:
        result: Tensor = torch.ops.histo.quantile(
            input, probabilities, dims, keepdim, interpolation=interpolation, ignore_nan=ignore_nan
        )
    except (RuntimeError, TypeError) as error:
        raise_as_python_would(error, f"{name}: input", input, partial(_reworded, name))
        raise
    return result


def _reworded(name: str, message: str) -> str:
    return re.sub(r"\bquantile(?=: |\(\))", name, message)


def checked_call(
    name: str,
    input: Tensor,
    q: float | Sequence[float] | Tensor | None,
    dim: int | Sequence[int] | None,
    keepdim: bool,
    channel_dim: int | None,
    interpolation: str,
    unknown: dict[str, Any],
) -> tuple[Tensor, Tensor, list[int] | None, bool]:
    """The arguments of a call of the operator, whose types are right."""
    if unknown:
        refuse_keyword(name, unknown, _ARGUMENTS)
    if not isinstance(keepdim, bool):
        raise TypeError(f"{name}: keepdim must be a bool, got {shown(keepdim)}")
    if not isinstance(interpolation, str):
        raise TypeError(f"{name}: interpolation must be a str, got {shown(interpolation)}")
    if torch.is_grad_enabled():
        for argument, value in (("input", input), ("q", q)):
            if isinstance(value, Tensor) and value.requires_grad:
                _refuse_gradient(name, argument)
    if channel_dim is not None:
        keepdim = keepdim and input.dim() > 1  # all of one dimension are channels
        input, dim = all_but_channel(name, input, dim, channel_dim)
    dims = None if dim is None else dimensions(name, dim)
    probabilities = q if isinstance(q, Tensor) else _tensor_of_q(name, input, q)
    return input, probabilities, dims, keepdim


def _tensor_of_q(name: str, input: Tensor, q: Any) -> Tensor:
    """Numbers where the input is. Kernels write them, so that nothing is copied from the host."""
    given, q = q, without_array(q)
    if _is_number(q):
        return filled(input, _checked_number(name, q), torch.float64)
    if isinstance(q, str) or not hasattr(q, "__len__") or not all(map(_is_number, q)):
        raise TypeError(
            f"{name}: q must be a number, a sequence of numbers or a tensor, got {shown(given)}"
        )
    return numbers_beside(input, [_checked_number(name, number) for number in q])


def numbers_beside(input: Tensor, numbers: Sequence[float]) -> Tensor:
    """Numbers as float64 on the device of a tensor. Kernels write them: nothing waits."""
    # A compiler would take the numbers of torch.tensor for constants, and compile for each.
    if type(input) is Tensor and input.device.type == "cpu" and not is_compiling():
        return torch.tensor(numbers, dtype=torch.float64, device="cpu")
    if is_plain(input) and input.is_cuda:
        return torch.ops.histo._fractions(input, numbers)  # type: ignore[no-any-return]
    if not numbers:
        return torch.empty(0, dtype=torch.float64, device=input.device)
    return torch.stack([filled(input, number, torch.float64) for number in numbers])


def _refuse_gradient(name: str, argument: str) -> NoReturn:
    raise RuntimeError(
        f"{name}: {argument} must not require a gradient, as quantiles have none, got "
        f"requires_grad=True: pass {argument}.detach(), or use torch.{name}"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (Real, torch.SymFloat)) and not isinstance(value, bool)


def _checked_number(name: str, q: Any) -> Any:
    if isinstance(q, torch.SymFloat) or is_compiling():
        # A message that takes the name from outside is no graph's before torch 2.12.
        torch._check((q >= 0) & (q <= 1), lambda: "q must be from 0 to 1")  # type: ignore[no-untyped-call]
        return q
    if not 0 <= q <= 1:
        raise RuntimeError(f"{name}: q must be from 0 to 1, got {shown(q)}")
    return float(q)


def check(
    input: Tensor, q: Tensor, dim: Sequence[int] | None, interpolation: str, name: str
) -> None:
    """Raises what the operator would, but for the sizes of the input."""
    try:
        _check(input, input.dim(), q, q.dim(), dim, interpolation)
    except RuntimeError as error:
        raise RuntimeError(_reworded(name, str(error))) from None


def _check(
    input: Tensor,
    ndim: int,
    q: Tensor,
    q_ndim: int,
    dim: Sequence[int] | None,
    interpolation: str,
) -> None:
    """Raises what the kernels would, for tensors of which only the metadata count."""
    check = torch.ops.histo._check_quantile.default
    dims = None if dim is None else list(dim)
    raise_from(check, *describe(input), ndim, *describe(q), q_ndim, dims, interpolation)


@torch.library.register_fake("histo::quantile")  # type: ignore[untyped-decorator]
def _(
    input: Tensor,
    q: Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    ignore_nan: bool = False,
) -> Tensor:
    _check(input, input.dim(), q, q.dim(), dim, interpolation)
    kept = kept_dimensions(input.dim(), dim or ())
    for d in reduced_dimensions(input.dim(), dim or ()) if input.dim() else ():
        require(
            input.shape[d] >= 1,
            "quantile: input must have at least one element in each slice over dim, got sizes {}",
            input.shape,
        )
    sizes = [s if d in kept else 1 for d, s in enumerate(input.shape) if d in kept or keepdim]
    dtype = input.dtype if input.is_floating_point() else torch.float64
    return input.new_empty([*q.shape, *sizes], dtype=dtype)


class _NoGradient(torch.autograd.Function):
    """The operator for an input or q that requires a gradient: backward says that there is none."""

    @staticmethod
    def forward(ctx: Any, call: Callable[[], Tensor], name: str, *tensors: Tensor) -> Tensor:
        ctx.refused = name, "input" if tensors[0].requires_grad else "q"
        return call()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> NoReturn:
        _refuse_gradient(*ctx.refused)


def _below_autograd(keyset: Any, input: Tensor, q: Tensor, *rest: Any, **named: Any) -> Tensor:
    name = "nanquantile" if named.get("ignore_nan") else "quantile"

    def call() -> Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            found: Tensor = torch.ops.histo.quantile.default.redispatch(
                keyset & torch._C._after_autograd_keyset, input, q, *rest, **named
            )
        return found

    for argument, value in (("input", input), ("q", q)):
        if forward_ad.unpack_dual(value).tangent is not None:  # type: ignore[no-untyped-call]
            raise RuntimeError(
                f"{name}: {argument} must not have a tangent, as quantiles have none, got a dual "
                f"tensor: use torch.{name}"
            )
    if torch.is_grad_enabled() and (input.requires_grad or q.requires_grad):
        if torch._C._are_functorch_transforms_active():  # torch.func.grad, which takes no such node
            _refuse_gradient(name, "input" if input.requires_grad else "q")
        return _NoGradient.apply(call, name, input, q)  # type: ignore[no-any-return, no-untyped-call]
    return call()


_rules = torch.library.Library("histo", "IMPL")  # type: ignore[no-untyped-call]
_rules.impl("quantile", _below_autograd, "Autograd", with_keyset=True)  # type: ignore[no-untyped-call]


@torch.library.register_vmap("histo::quantile")  # type: ignore[untyped-decorator]
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    input: Tensor,
    q: Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    ignore_nan: bool = False,
) -> tuple[Tensor, int]:
    at, q_at = in_dims[:2]
    ndim, q_ndim = input.dim() - (at is not None), q.dim() - (q_at is not None)
    _check(input, ndim, q, q_ndim, dim, interpolation)
    rule = {"interpolation": interpolation, "ignore_nan": ignore_nan}
    op = torch.ops.histo.quantile
    if q_at is None:
        assert at is not None
        if ndim == 0:  # numbers, each a 1-D sample of one element
            input, ndim, keepdim = input.unsqueeze(1).movedim(at, 0), 1, False
            at = 0
        reduced = reduced_dimensions(ndim, dim or ())
        place = at - (0 if keepdim else sum(d < at for d in reduced))
        dims = [d + (d >= at) for d in sorted(reduced)]
        return op(input, q, dims, keepdim, **rule), q_ndim + place
    q = q.movedim(q_at, 0)
    if at is None:  # all q of one input
        result = op(input, q.flatten(), dim, keepdim, **rule)
        return result.unflatten(0, q.shape) if q_ndim else result, 0
    samples = zip(input.unbind(at), q.unbind(), strict=True)
    return torch.stack([op(x, own, dim, keepdim, **rule) for x, own in samples]), 0
