"""The coordinates of a call, and the errors of operators and of `histogram` in its words."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from torch import Tensor

from torch_histo._arguments import raise_as_python_would
from torch_histo.histograms import raise_in_own_words


class Coordinates(NamedTuple):
    """The coordinates of a call, and their names in errors."""

    op: str
    tensors: list[Tensor]
    names: list[str]
    sample: Tensor | None = None
    """The one tensor `[..., D]` whose last dimension they are."""


def in_words_of_histogram(error: Exception, x: Tensor, own: Any) -> Exception:
    try:
        raise_in_own_words(error, x, own)
    except (RuntimeError, TypeError) as found:
        return found
    return error


def of_axis(call: Coordinates, error: Exception, d: int, is_list: bool) -> Exception:
    """The error of `histogram` for axis d as that of the call."""
    head, colon, line = str(error).partition(": ")
    if not colon or not re.fullmatch(r"[\w.]+", head):
        return error
    of_bins = f"bins[{d}]" if is_list else "bins"
    for word, name in (("input", call.names[d]), ("bins", of_bins), ("range", f"range[{d}]")):
        line = re.sub(rf"(?<!['\w.]){word}\b(?!['\w=])", name, line)
    return type(error)(f"{call.op}: {line}")


def in_words_of_call(call: Coordinates, error: Exception, is_list: bool = True) -> Exception:
    """An operator's error as that of the call."""
    argument = f"{call.op}: {call.names[0]}"
    try:
        raise_as_python_would(
            error, argument, call.tensors[0], lambda message: _reworded(call, message, is_list)
        )
    except (RuntimeError, TypeError) as found:
        return found
    return error


def _reworded(call: Coordinates, message: str, is_list: bool) -> str:
    """The words of an operator as those of the function."""
    operators = r"\b(weighted_)?joint_histogram|_joint_index|(weighted_)?channel_histogram"
    message = re.sub(rf"({operators})\b(?=: |\(\))", call.op, message)
    message = re.sub(r"\bedges(?= must make)", "bins", message)
    message = re.sub(r"\bedges\[(\d+)\](?= must|\.)", r"bins[\1]" if is_list else "bins", message)
    found = re.search(r"\binputs\[(\d+)\]", message)
    first = call.names[int(found[1])] if found else call.names[0]
    message = re.sub(r"\binput\b", first, message)
    return re.sub(r"\binputs\[(\d+)\]", lambda found: call.names[int(found[1])], message)
