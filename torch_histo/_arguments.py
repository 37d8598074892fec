"""Checks of the arguments of functions, and the errors that they raise."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import is_tensor_like

from torch_histo._remedies import as_array, described, rounded

DEFAULT_BINS = 256
"""The bins of uint8 and bool, if the caller does not say how many."""

_WITHOUT_DEFAULT = (
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint16, torch.uint32, torch.uint64),
)
"""Integers that have values outside these bins."""

is_compiling = torch.compiler.is_compiling  # one look-up less a call

FIRST = (0,)
"""The default of `dim` where that is 0. By its identity a function knows that `dim` was left out;
in a compiled program by its value."""


def is_plain(value: object) -> bool:
    """Whether operators on a value go straight to their kernels: it is a tensor of torch's own, and
    no compiler, tracer, transform or mode sees the call."""
    return (
        not is_compiling()
        and (type(value) is Tensor or type(value) is Parameter)
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._are_functorch_transforms_active()
        and torch._C._get_tracing_state() is None
    )


def raise_as_python_would(
    error: Exception,
    argument: str,
    input: Tensor,
    reword: Callable[[str], str] = lambda message: message,
) -> None:
    """Raises the one line that says what is wrong, as the error that torch would choose.

    `reword` makes an operator's words those of the function that called it."""
    message = reword(str(error))
    if isinstance(error, (NotImplementedError, TypeError)):  # of a subclass with its own rules
        got = type(input).__name__
        raise RuntimeError(f"{argument} must be a dense tensor, got {got}") from error
    own = re.search(rf"^{argument.split(':')[0]}: .*$", message, re.MULTILINE)
    if own and own[0] != str(error):  # DTensor adds lines of its own
        raise RuntimeError(own[0]) from error
    if "CUDA out of memory." in message:
        raise torch.OutOfMemoryError(message) from None
    wrong = re.match(
        r"histo::(\w+)\(\) Expected a value of type '(?:Optional\[)?(List\[int\]|\w+)\]?' "
        r"for argument '(\w+)'.*\n.*\nValue: (.*)",
        message,
    )
    if wrong:
        function, expected, argument, value = wrong.groups()
        names = {"int": "an int of 64 bits", "List[int]": "an int or a sequence of ints of 64 bits"}
        expected = names.get(expected, f"a {expected}")
        raise TypeError(f"{function}: {argument} must be {expected}, got {value}") from None


def renamed(error: Exception, op: str, argument: str) -> Exception:
    """The error of a function that `op` called, in the words of `op`: its input is `argument`."""
    called, colon, line = str(error).partition(": ")
    if not colon or not re.fullmatch(r"[\w.]+", called):
        return error
    return type(error)(f"{op}: " + re.sub(r"(?<!')\b(input|x)\b(?!')", lambda _: argument, line))


def shown(value: object) -> str:
    """A value in one line; a compiler's has only a type. An array of a dtype that is not counted
    is named by the dtype, which says more than the values."""
    if is_compiling():
        return type(value).__name__
    dtype, sizes = getattr(value, "dtype", None), getattr(value, "shape", ())
    is_complex = isinstance(dtype, torch.dtype) and dtype.is_complex
    if sizes and (is_complex or getattr(dtype, "kind", "") in ("O", "c", "m", "M")):
        return f"{type(value).__name__} of {name_of(dtype)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def integer(op: str, value: object, expected: str, hint: str = "") -> int:
    """As an int whatever torch's own operators take for one; a tracer's symbol stays as it is."""
    try:
        if isinstance(value, Tensor):
            if not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool):
                if value.device.type == "cpu":
                    return value.item()  # type: ignore[return-value]
                hint = ": pass its item(), which waits for the device"
        elif type(value) is int or isinstance(value, (torch.SymInt, torch.fx.Proxy)):
            return value  # type: ignore[return-value]
        elif is_compiling() and is_tensor_like(value):  # type: ignore[no-untyped-call]
            # A number of NumPy.
            number = torch.as_tensor(value)
            if not number.is_floating_point():
                return int(number)
        elif hasattr(value, "__index__") and not isinstance(value, bool):
            return index(value)
    except (TypeError, RuntimeError):  # no integer; a tensor of several, or one of vmap's
        pass
    raise TypeError(f"{op}: {expected}, got {shown(value)}{hint}")


def number_of_bins(
    op: str, num_bins: object, bins: object, dtype: torch.dtype, *, is_cpu: bool = True
) -> int:
    """The number of bins, given by either of its names; by default 256 for bool and uint8."""
    if bins is not None:
        if num_bins is not None:
            raise TypeError(f"{op}: bins must be left out with num_bins, got both")
        num_bins = bins
    if num_bins is not None:
        return integer(op, num_bins, "num_bins must be an int of 64 bits")
    if dtype not in _WITHOUT_DEFAULT:
        return DEFAULT_BINS  # or of a dtype that the operator refuses
    name = name_of(dtype)
    # torch finds no maximum of unsigned integers.
    largest, more = "input.max()", "; shift negative ones first"
    if not dtype.is_signed:
        largest, more = "input.long().max()", ""
    if dtype == torch.uint64:  # int64 has no values beyond 2^63
        largest = f"{'numpy.asarray(input)' if is_cpu else 'input.cpu().numpy()'}.max()"
        more = "; torch_histo.histogram counts values of any size"
    raise RuntimeError(
        f"{op}: num_bins must be given for an input of {name}, got None: "
        f"num_bins=int({largest}) + 1 counts all values from 0 up{more}"
    )


def dimensions(op: str, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None:
        return []
    is_one = isinstance(dim, (str, bytes)) or not isinstance(dim, (tuple, list, Sequence))
    dims: Sequence[int] = [dim] if is_one else dim  # type: ignore[list-item, assignment]
    expected = "dim must be an int or a sequence of ints"
    return [d if type(d) is int else integer(op, d, expected) for d in dims]


def all_but_channel(
    op: str,
    input: Tensor,
    dim: int | Sequence[int] | None,
    channel_dim: object,
    argument: str = "input",
    default: tuple[int, ...] | None = None,
) -> tuple[Tensor, list[int]]:
    """A tensor, and the dimensions to count over: all but that of the channels.

    A tensor of one dimension gets a second one, which is counted over."""
    dims = dims_beside_channel(op, input.dim(), dim, channel_dim, argument, default)
    while input.dim() < 2:
        input = input.unsqueeze(0)
    return input, dims


def dims_beside_channel(
    op: str,
    input_ndim: int,
    dim: int | Sequence[int] | None,
    channel_dim: object,
    argument: str = "input",
    default: tuple[int, ...] | None = None,
) -> list[int]:
    """All dimensions but that of the channels. An input of fewer than two dimensions gets two.

    `default` is what `dim` is if the caller left it out."""
    if dim is not default and not (is_compiling() and dim == default):
        expected = "dim must be left out with channel_dim"
        raise TypeError(f"{op}: {expected}, got dim={shown(dim)}")
    hint = ": pass dim, those to count over" if isinstance(channel_dim, (tuple, list)) else ""
    channel = integer(op, channel_dim, "channel_dim must be an int", hint)
    ndim = max(input_ndim, 1)
    if not -ndim <= channel < ndim:
        expected = f"channel_dim must be between {-ndim} and {ndim - 1} for a {input_ndim}-D"
        raise RuntimeError(f"{op}: {expected} {argument}, got {channel}")
    behind = (ndim - 1 - channel) % ndim
    last = max(ndim - 1, 1)
    return [d for d in range(last + 1) if d != last - behind]


def reduced_dimensions(ndim: int, dim: Sequence[int]) -> set[int]:
    return {d % max(ndim, 1) for d in dim} or set(range(ndim))


def kept_dimensions(ndim: int, dim: Sequence[int]) -> list[int]:
    """The dimensions of an input that the counts have, too."""
    reduced = reduced_dimensions(ndim, dim)
    return [d for d in range(ndim) if d not in reduced]


def kept_sizes(sizes: Sequence[int], dim: Sequence[int] | None) -> list[int]:
    """The sizes of the dimensions that the counts keep."""
    return [sizes[d] for d in kept_dimensions(len(sizes), dim or ())]


def empty_counts(op: str, input: Tensor, dim: Sequence[int] | None, num_bins: int) -> Tensor:
    """What an operator returns for a tensor without data."""
    try:
        return input.new_empty([*kept_sizes(input.shape, dim), num_bins], dtype=torch.int64)
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        expected = f"{op}: the counts must take less than 2^63 bytes"
        raise RuntimeError(f"{expected}, got {num_bins} for each channel") from error


def of_all_samples(
    input: Tensor, at: int, dim: Sequence[int] | None
) -> tuple[Tensor, list[int], int]:
    """For vmap: input and dimensions of a call for all samples, which lie along dimension `at`, and
    where the samples are in the result."""
    ndim = input.dim() - 1
    if ndim == 0:  # numbers, each a 1-D sample of one element
        input, ndim = input.unsqueeze(1), 1
    reduced = reduced_dimensions(ndim, dim or ())
    return input, [d + (d >= at) for d in reduced], at - sum(d < at for d in reduced)


TENSOR_LIKE = "a tensor, an array, an image or a list of numbers"
_FLOATS_BEYOND_NUMPY = {
    name: getattr(torch, name) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
}
"""Dtypes of torch by the names that the package ml_dtypes has for the same bits."""
_FLOATS = {"float16", "float32", "float64", *_FLOATS_BEYOND_NUMPY}


def tensor_of(argument: str, value: object, expected: str = TENSOR_LIKE) -> Tensor:
    """An array, an image or a list of numbers as a tensor, exactly."""
    if _is_compilers_array(value):
        return torch.as_tensor(value)
    if isinstance(value, Tensor) or is_tensor_like(value):  # type: ignore[no-untyped-call]
        return value  # type: ignore[return-value]
    if hasattr(value, "__cuda_array_interface__"):
        return _shared_on_cuda(argument, value)
    numbers = _numbers_of(value)
    if numbers is None:
        got = what_came(argument.split()[-1], value)
        raise TypeError(f"{argument} must be {expected}, got {got}")
    if not numbers.dtype.isnative:
        numbers = numbers.astype(numbers.dtype.newbyteorder("="))
    dtype = _FLOATS_BEYOND_NUMPY.get(numbers.dtype.name)
    # By their size: torch knows neither these floats nor C's unsigned long long.
    numbers = numbers.view(f"u{numbers.itemsize}" if dtype else numbers.dtype.str)
    if not _can_be_shared(numbers):
        numbers = numbers.copy()
    found = torch.from_numpy(numbers)
    return found.view(dtype) if dtype else found


def _shared_on_cuda(argument: str, value: object) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError) as error:  # read-only, bfloat16, or of rare strides
        why, remedy = str(error).split(".")[0], f"torch.from_dlpack({argument.split()[-1]}.copy())"
        raise TypeError(
            f"{argument} must be an array on CUDA that torch can share, "
            f"got {type(value).__name__} ({why}): pass {remedy}"
        ) from None


def _can_be_shared(numbers: np.ndarray[Any, Any]) -> bool:
    """Whether torch takes an array as it is: not one that cannot be written, or with a stride
    that is negative or no number of elements, as a field of packed records has."""
    strides = all(s >= 0 and s % numbers.itemsize == 0 for s in numbers.strides)
    return strides and numbers.flags.writeable and numbers.flags.aligned


def edges_or_number(argument: str, value: Any, *, least_ndim: int = 1) -> int | Tensor:
    """Edges that are an array or a list of numbers as a tensor; all else as it is."""
    if isinstance(value, (int, Tensor)):
        return value
    if _is_compilers_array(value):
        found = torch.as_tensor(value)
        return found if found.dim() >= least_ndim else value
    if not (is_compiling() or is_tensor_like(value)):  # type: ignore[no-untyped-call]
        if hasattr(value, "__cuda_array_interface__"):
            return tensor_of(argument, value)
        numbers = _numbers_of(value)
        if numbers is not None and numbers.ndim >= least_ndim:
            found = tensor_of(argument, numbers)
            # An array has no float(), and float32 holds what smaller floats do.
            return found.float() if found.is_floating_point() and found.itemsize < 4 else found
    return value  # type: ignore[no-any-return]


def tensor_or_shape(op: str, value: Any, dtype: torch.dtype) -> Tensor:
    """The input as a tensor. A shape, or a list of sizes, becomes a meta tensor of `dtype`."""
    is_shape = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    if not is_shape and not isinstance(value, Tensor):
        expected = "a tensor, an array, an image or a shape"
        if not any(hasattr(value, name) for name in _ARRAYS):
            raise TypeError(f"{op}: input must be {expected}, got {type(value).__name__}")
        value = tensor_of(f"{op}: input", value, expected)
    if is_shape:
        try:
            shape = tuple(map(index, value))
        except TypeError:
            raise TypeError(f"{op}: input must be a shape of ints, got {shown(value)}") from None
        if any(size < 0 for size in shape):
            raise ValueError(f"{op}: input must be a shape without negatives, got {list(shape)}")
    elif value.is_nested:
        return value  # type: ignore[no-any-return]
    else:
        shape = tuple(value.shape)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{op}: dtype must be a torch.dtype, got {type(dtype).__name__}")
    itemsize = (dtype if is_shape else value.dtype).itemsize
    if math.prod(max(size, 1) for size in shape) * itemsize >= 1 << 62:
        raise ValueError(f"{op}: input must take less than 2^62 bytes, got {list(shape)}")
    return torch.empty(shape, dtype=dtype, device="meta") if is_shape else value


def filled(input: Tensor, value: Any, dtype: torch.dtype) -> Tensor:
    """A number where the input is: a kernel writes it, so nothing is copied from the host."""
    if type(input) is not Tensor:  # a DTensor, which meets no other tensors
        return input.new_full((), value, dtype=dtype)
    # Not new_full: vmap would map it, and give every sample edges of its own.
    if is_compiling():  # full would make a constant of a number that each call has
        found: Tensor = torch.ones((), dtype=dtype, device=input.device) * value
        return found
    return torch.full((), value, dtype=dtype, device=input.device)


def without_array(value: Any) -> Any:
    """The numbers of an array as a list, or as one number if it is 0-D; all else as it is."""
    if is_compiling() or isinstance(value, Tensor) or not hasattr(value, "tolist"):
        return value
    return value.tolist()


def _is_compilers_array(value: object) -> bool:
    """Whether it is an array or a number of NumPy in a compiled program: a tensor in disguise."""
    is_other = is_compiling() and not isinstance(value, Tensor)
    return is_other and is_tensor_like(value)  # type: ignore[no-untyped-call]


_ARRAYS = ("__array__", "__array_interface__", "__cuda_array_interface__")


def is_dtensor(value: object) -> bool:
    return type(value).__name__ == "DTensor"  # importing its module takes long


def refuse_dtensor(argument: str, value: object, to_pass: str) -> None:
    if is_dtensor(value):
        expected = "must be what this process holds"
        raise TypeError(f"{argument} {expected}, got a DTensor: pass {to_pass}")


def has_values(tensor: Tensor) -> bool:
    """Whether there are numbers to read: a meta tensor and a fake one have none."""
    return not (tensor.is_meta or type(tensor).__name__ == "FakeTensor")


def _numbers_of(value: object) -> np.ndarray[Any, Any] | None:
    """Numbers as an array, if there are some and none of them would change."""
    found = as_array(value)
    if found is None or rounded(value, found) is not None:
        return None
    known = found.dtype.kind in "biu" or found.dtype.name in _FLOATS
    return found if known else None


def what_came(name: str, value: object, *, are_edges: bool = False) -> str:
    """What a value is that is not taken, and the call that makes numbers of it."""
    return described(name, value, _is_taken, are_edges=are_edges)


def _is_taken(value: object) -> bool:
    return isinstance(value, Tensor) or _numbers_of(value) is not None


def raise_from(check: torch._ops.OpOverload, *description: object) -> None:
    # Straight to the kernel: no call for the modes of a user or a tracer to see.
    error = check.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *description)
    if error:
        raise RuntimeError(error)


def require(condition: bool | torch.SymBool, message: str, *got: int | Sequence[int]) -> None:
    """Raises the message with the numbers that came, now or when a compiled program runs."""

    def text() -> str:
        numbers = (list(map(int, n)) if isinstance(n, Sequence) else int(n) for n in got)
        return message.format(*numbers)

    torch._check(condition, text)  # type: ignore[no-untyped-call]


def describe(tensor: Tensor) -> tuple[str, str, str]:
    """The facts about a tensor that the checks in C++ need; it may hold no data."""
    return tensor.device.type, name_of(tensor.dtype), name_of(tensor.layout)


def name_of(value: object) -> str:
    """A dtype or a layout without the name of the package."""
    return str(value).removeprefix("torch.")
