"""How many bins there are by a rule of NumPy, such as `bins="auto"`.

The device finds a few numbers: a count, extremes and quartiles. The host reads them at once, and
computes the width of a bin as NumPy 2.4 does, in the same types and the same order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_histo._arguments import has_values, is_compiling, is_dtensor, name_of, shown
from torch_histo._exact import exact_double

RULES = ("auto", "fd", "rice", "sqrt", "sturges")
_OTHER_RULES = ("doane", "scott", "stone")
_NAMES = f"{', '.join(map(repr, RULES[:-1]))} or {RULES[-1]!r}"
_MOST_BINS = 1 << 27
"""1 GiB of counts. One outlier asks for more if the other numbers are close to each other."""
_MOST_FLOAT32_RANKS = 1 << 24
"""With more elements the operator computes the ranks of narrow floats in float64, too."""


def check_rule(rule: str, input: Tensor, weight: object, is_of_many: bool) -> None:
    """Raises what is wrong with a rule, or why no rule can be followed here."""
    if rule in _OTHER_RULES:
        numbers = "input" if input.device.type == "cpu" else "input.cpu()"
        hint = f": pass torch.from_numpy(numpy.histogram_bin_edges({numbers}, {rule!r}))"
        hint += "" if input.device.type == "cpu" else ".to(input.device)"
        raise RuntimeError(f"histogram: bins must be {_NAMES} if it is a rule, got {rule!r}{hint}")
    if rule not in RULES:
        expected = f"bins must be a number, edges, or one of {_NAMES}"
        raise TypeError(f"histogram: {expected}, got {shown(rule)}")
    if weight is not None:
        expected = "weight must be left out where bins is a rule, which counts elements"
        raise RuntimeError(f"histogram: {expected}, got bins={rule!r}")
    where = _place_without_rules(input, is_of_many)
    if where:
        expected = f"bins must be a number or edges {where}"
        why = "a rule waits for the data, which tell how many bins there are"
        raise RuntimeError(f"histogram: {expected}, got {rule!r}: {why}")


def _place_without_rules(input: Tensor, is_of_many: bool) -> str:
    """Says why a call cannot wait for the data; empty if it can."""
    if is_compiling():
        return "in a compiled or exported program"
    if torch._C._are_functorch_transforms_active():
        return "under vmap and other transforms of torch.func"
    if torch._C._get_tracing_state() is not None:
        return "in a traced program"
    if input.is_cuda and torch.cuda.is_current_stream_capturing():
        return "while a CUDA graph is captured"
    if not has_values(input):
        return "for a tensor without values"
    if is_dtensor(input):
        return "for a DTensor"
    return "where several processes hold the data" if is_of_many else ""


def bins_by_rule(
    rule: str, input: Tensor, dims: list[int] | None, edges: Tensor, ends: Sequence[Any] | None
) -> int:
    """The number of bins between two edges, for an input of one channel.

    `ends` are the numbers or the tensors that were given for the edges, if any were: NumPy computes
    in their types, and edges may be rounded. Errors are in the words of the operators."""
    input, edges = input.detach(), edges.detach()
    counts = torch.ops.histo.histogram(input, edges, dims, flow=True)
    if counts.numel() != 4:
        expected = "bins must be a number or edges where there are several channels"
        raise RuntimeError(
            f"histogram: {expected}, got {rule!r} and channels {list(counts.shape[:-1])}"
        )
    if not input.numel():
        return 1
    counts = counts.flatten()
    ranks = _ranks(counts, with_quartiles=rule in ("auto", "fd"))
    values = _values_at(ranks, (counts[:3].sum() - 1).clamp(min=1), input, dims)
    if ends is not None and isinstance(ends[0], Tensor):
        edges = torch.cat([end.reshape(1) for end in ends])
    # The one time that the host waits.
    facts = torch.cat((counts[1:2].double(), exact_double(edges).flatten(), values))
    n, first, last, *numbers = facts.tolist()
    if n == 0:
        return 1
    with _subnormals(), np.errstate(all="ignore"):
        if ends is not None and isinstance(ends[0], Tensor):
            ends = list(_typed((first, last), edges.dtype))
        bins = _numpys_number(rule, int(n), _typed(numbers, input.dtype), ends)
    if not 1 <= bins <= _MOST_BINS:  # or NaN, where a difference overflows
        expected = f"bins must be a number or edges where a rule makes more than {_MOST_BINS} bins"
        raise RuntimeError(f"histogram: {expected}, got {rule!r}, which makes {bins:g}")
    return int(bins)


def _ranks(counts: Tensor, *, with_quartiles: bool) -> Tensor:
    """The ranks of the least and the largest number between the edges, and of the neighbours of
    the third and the first quartile. NaN has no rank."""
    below, inside = counts[0], counts[1]
    last = (inside - 1).clamp(min=0)
    ranks = [last * 0, last]
    if with_quartiles:
        quarters = [(last * k).div(4, rounding_mode="floor") for k in (3, 1)]
        ranks += [*quarters, *(torch.minimum(rank + 1, last) for rank in quarters)]
    return below + torch.stack(ranks)


def _values_at(ranks: Tensor, last: Tensor, input: Tensor, dims: list[int] | None) -> Tensor:
    """The numbers of these ranks, float64; `last` is the largest rank."""
    is_narrow = input.is_floating_point() and input.itemsize < 8
    missing = _MOST_FLOAT32_RANKS + 1 - input.numel()
    in_float32 = is_narrow and missing > 0
    if in_float32 and missing < _MOST_FLOAT32_RANKS // 2:
        # float32 does not hold all ranks. NaN has no rank, but with so many elements the operator
        # computes ranks in float64. This takes at most 64 MiB.
        input = torch.cat((input.flatten(), input.new_full((missing,), torch.nan)))
        dims, in_float32 = None, False
    q = _parts(ranks, last, in_float32)
    found = torch.ops.histo.quantile(input, q, dims, interpolation="lower", ignore_nan=True)
    return exact_double(found).flatten()


def _parts(ranks: Tensor, last: Tensor, in_float32: bool) -> Tensor:
    """The q for which the operator, which takes floor(q * last), finds these ranks.

    In float64 it is enough to add a quarter to a rank. In float32 the product may be rounded too
    far, but then a neighbour of q is right: up to 2^23, their products are at most half a rank
    apart."""
    q = ((ranks.double() + 0.25) / last).clamp(max=1)
    if not in_float32:
        return q
    near = q.float()
    beside = [torch.nextafter(near, torch.full_like(near, end)) for end in (0, 1)]
    tries = torch.stack([near, *beside])
    is_right = (tries * last.float()).floor() == ranks
    return tries.where(is_right, 0.0).amax(0).double()


# --- As NumPy computes ------------------------------------------------------------------


@contextmanager
def _subnormals() -> Iterator[None]:
    """Keeps subnormal numbers of this thread from being flushed to 0, whatever
    torch.set_flush_denormal says."""
    are_flushed = np.finfo(np.float64).smallest_normal / 2 == 0
    if are_flushed:
        torch.set_flush_denormal(False)
    try:
        yield
    finally:
        if are_flushed:
            torch.set_flush_denormal(True)


def _typed(numbers: Sequence[float], dtype: torch.dtype) -> np.ndarray[Any, Any]:
    """Numbers as NumPy has them: bool is uint8 there, and narrow floats are float32 here."""
    if dtype.is_floating_point:
        return np.array(numbers, np.float64 if dtype == torch.float64 else np.float32)
    kind = np.dtype("uint8" if dtype == torch.bool else name_of(dtype))
    info = np.iinfo(kind)  # float64 rounds the last integers of 64 bits beyond it
    return np.array([min(max(int(v), info.min), info.max) for v in numbers], kind)


def _numpys_number(
    rule: str, n: int, numbers: np.ndarray[Any, Any], ends: Sequence[Any] | None
) -> Any:
    """The number of bins in np.histogram_bin_edges, as a float."""
    low, high = numbers[:2]
    first, last = (low, high) if ends is None else ends
    if first == last:
        first, last = first - 0.5, last + 0.5
    width = _width(rule, n, _difference(high, low), numbers[2:])
    if not width:
        return 1.0
    if numbers.dtype.kind in "iu":
        width = max(width, 1)
    return np.ceil(_difference(last, first) / width)


def _difference(high: Any, low: Any) -> Any:
    if isinstance(high, (int, np.integer)) and isinstance(low, (int, np.integer)):
        return np.float64(int(high) - int(low))
    return np.subtract(high, low)


def _width(rule: str, n: int, spread: Any, quartiles: np.ndarray[Any, Any]) -> Any:
    """The rules of Freedman and Diaconis, Sturges and others, as in `_hist_bin_auto` of NumPy."""
    if rule == "rice":
        return spread / (2.0 * n ** (1.0 / 3))
    if rule == "sqrt":
        return spread / np.sqrt(n)
    sturges = spread / (np.log2(n) + 1.0)
    if rule == "sturges":
        return sturges
    fd = 2.0 * _iqr(n, *np.split(quartiles, 2)) * n ** (-1.0 / 3.0)
    return fd if rule == "fd" else min(max(fd, spread / np.sqrt(n) / 2), sturges)


def _iqr(n: int, below: np.ndarray[Any, Any], above: np.ndarray[Any, Any]) -> Any:
    """np.subtract(*np.percentile(x, [75, 25])) of the numbers beside both."""
    ranks = (n - 1) * np.array([0.75, 0.25])
    part = ranks - np.floor(ranks)
    step = above - below
    found = np.where(part >= 0.5, above - step * (1 - part), below + step * part)
    return np.subtract(*found)
