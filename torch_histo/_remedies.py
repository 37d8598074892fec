"""What came instead of numbers that can be counted, and the call that makes such numbers of it."""

from __future__ import annotations

import datetime
import warnings
from array import array
from collections.abc import Callable, Collection, Iterator
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

_WORDS_OF_KINDS = {"U": "str", "T": "str", "S": "bytes"}
_ROUNDS = ", which rounds"
_NUMBERS_THEM = ", which numbers them"


def described(
    name: str, value: object, is_taken: Callable[[object], bool], *, are_edges: bool = False
) -> str:
    """What came, and the call that helps if there is one, for the argument of this name.

    A call is named only if it works: it is tried on the value, or on the first part of an array
    whose dtype decides alone. Words have numbers, but no edges."""
    numbers = as_array(value)
    what, calls = type(value).__name__, _calls_without_array(value)
    if hasattr(value, "__next__"):  # trying would use it up
        return f"{what}: pass list({name})"
    if numbers is None and isinstance(value, (list, tuple)):
        what = f"{what} of Tensor" if isinstance(_first(value), Tensor) else f"ragged {what}"
    if numbers is not None:
        what, calls = f"{what} of {_contents(value, numbers)}", _calls(value, numbers)
    tried = value
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind not in "OUST":
        tried = value[:1]
    for call, note in calls:
        if is_taken(_result(call, tried)) and not (are_edges and note == _NUMBERS_THEM):
            return f"{what}: pass {call}{note}".replace("{}", name)
    return what


def _result(call: str, value: object) -> Any:
    """The result of a call that these functions name, or None if it fails."""
    known = {"numpy": np, "torch": torch, "value": value}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(call.replace("{}", "value"), known)
        except Exception:  # any library's own: the next call is tried
            return None


def has_palette(value: object) -> bool:
    """Whether it is an image of Pillow with a palette: its numbers are not colours."""
    return getattr(value, "mode", None) in ("P", "PA") and hasattr(value, "getpalette")


def as_array(value: object) -> np.ndarray[Any, Any] | None:
    """An array of any dtype, if NumPy makes one that means the same."""
    if has_palette(value) or isinstance(value, np.ma.MaskedArray):
        return None
    is_array = hasattr(value, "__array__") or hasattr(value, "__array_interface__")
    if not is_array and not isinstance(value, (list, tuple, range, array)):
        return None
    if isinstance(_first(value), Tensor):
        return None  # NumPy would wait for a GPU
    try:
        found = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if _may_round(value, found):
        items = np.asarray(value, dtype=object)
        if all(isinstance(item, (int, np.integer)) and item >= 0 for item in items.flat):
            return items.astype(np.uint64)
    return found


def _first(value: object) -> object:
    """The first element of nested lists."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value


def rounded(value: object, found: np.ndarray[Any, Any]) -> int | None:
    """The first integer of a list that its array does not hold."""
    if not _may_round(value, found):
        return None
    items = np.asarray(value, dtype=object)
    for item, number in zip(items.flat, found.flat, strict=True):
        if isinstance(item, (int, np.integer)) and int(item) != int(number):
            return int(item)
    return None


def _may_round(value: object, found: np.ndarray[Any, Any]) -> bool:
    """Whether the array of a list may have rounded integers.

    NumPy makes float64 of integers beside floats, and of some below 2^63 beside others above."""
    if not isinstance(value, (list, tuple)) or found.dtype != np.float64:
        return False
    magnitudes = np.abs(found)
    return bool(((magnitudes >= 2.0**53) & (magnitudes < np.inf)).any())


def _contents(value: object, numbers: np.ndarray[Any, Any]) -> str:
    """The dtype, or what the values are if they have no dtype of numbers."""
    item = rounded(value, numbers)
    if item is not None:
        return f"integers that no dtype holds together, such as {item}"
    if numbers.dtype.names:
        return "records"
    if numbers.dtype.kind != "O":
        return _WORDS_OF_KINDS.get(numbers.dtype.kind, str(numbers.dtype))
    for item in numbers.flat:
        if item is None:
            return "object, which holds None"
        if isinstance(item, int) and not -(1 << 63) <= item < 1 << 64:
            number = str(item) if item.bit_length() < 256 else f"one of {item.bit_length()} bits"
            return f"integers beyond 64 bits, such as {number}"
        if not isinstance(item, (int, float)):
            return f"object, which holds {type(item).__name__}"
    return "object"


def _calls(value: object, numbers: np.ndarray[Any, Any]) -> Iterator[tuple[str, str]]:
    """Calls to try for what NumPy makes an array of, with {} for the value, and notes on them."""
    dtype = numbers.dtype
    array = "{}" if hasattr(value, "astype") else "numpy.asarray({})"
    if dtype.names:
        yield from ((f"{{}}[{name!r}]", "") for name in dtype.names)
    elif dtype.kind == "O":
        yield from _calls_of_objects(array, numbers.ravel().tolist())
        if hasattr(value, "select_dtypes") and value.select_dtypes("number").shape[1]:
            yield "{}.select_dtypes('number')", ""
    elif dtype.kind in "UST":
        yield f"{array}.astype('float64')", ""
    elif dtype.kind == "f" and dtype.itemsize >= 8:  # float64 is a list's that rounds integers
        yield f"{array}.astype('float64')", _ROUNDS
    elif dtype.kind in "mM":
        yield f"{array}.astype('int64')", ""
    elif dtype.type is np.void:
        yield from _calls_of_bytes(array, dtype.itemsize)
    elif "complex" in dtype.name:
        yield "numpy.real({})", " or numpy.imag({})"
        yield f"{array}.astype('complex128').real", ""
    else:  # a dtype of another package, which torch does not have
        yield f"{array}.astype('{'int8' if 'int' in dtype.name else 'float32'}')", ""
    if dtype.kind in "OUST":
        yield "numpy.unique({}, return_inverse=True)[1]", _NUMBERS_THEM


def _calls_of_bytes(array: str, size: int) -> Iterator[tuple[str, str]]:
    bits = f"{array}.view('u{size}')"
    # NumPy reads saved bfloat16 arrays of ml_dtypes as raw bytes.
    floats = f", or torch.from_numpy({bits}).view(torch.bfloat16)" if size == 2 else ""
    yield bits, f", which has its bits{floats}"
    yield f"{array}.view('u1')", ", which has its bytes"


def _calls_of_objects(array: str, items: list[Any]) -> Iterator[tuple[str, str]]:
    integers = [int(item) for item in items if isinstance(item, (int, np.integer))]
    if len(integers) == len(items):
        for dtype in ("int64", "uint64"):
            if all(np.iinfo(dtype).min <= item <= np.iinfo(dtype).max for item in integers):
                yield f"{array}.astype('{dtype}')", ""
    rounds = any(abs(item) < 1 << 1023 and float(item) != item for item in integers)
    # `in` would compare arrays among the items, which has no truth value.
    none = ", where None is NaN" if any(item is None for item in items) else ""
    yield f"{array}.astype('float64')", none or _ROUNDS * rounds
    yield f"{array}.astype('Float64')", ""  # takes the NA of pandas
    for kind, type_ in (("datetime", datetime.date), ("timedelta", datetime.timedelta)):
        if any(isinstance(item, type_) for item in items):
            yield f"{array}.astype('{kind}64[us]').astype('int64')", ""
            yield f"{array}.astype('int64')", ""  # where there are time zones
    yield "numpy.concatenate([numpy.ravel(part) for part in {}])", ""


def _calls_without_array(value: object) -> Iterator[tuple[str, str]]:
    """The same for what NumPy makes no array of, or one that means something else."""
    if isinstance(value, memoryview) and value.format not in ("B", "b", "c"):
        yield "numpy.asarray({})", ""
    elif isinstance(value, (bytes, bytearray, memoryview)):
        yield "torch.frombuffer(bytearray({}), dtype=torch.uint8)", ""
    elif has_palette(value):
        yield "{}.convert('RGB')", ""
    elif isinstance(value, np.ma.MaskedArray):
        yield "{}.compressed()", ""
    elif isinstance(value, (list, tuple)):
        yield "torch.stack({})", ""
        yield "torch.cat({})", ""
        yield "torch.cat([part.flatten() for part in {}])", ""
        yield "numpy.concatenate([numpy.ravel(part) for part in {}])", ""
    elif hasattr(value, "toarray"):  # a sparse array of SciPy
        yield "{}.toarray()", ""
    elif isinstance(value, Real):
        yield "[{}]", ""
    elif isinstance(value, Collection) and not isinstance(value, (str, dict)):
        yield "list({})", ""
