"""Histograms of any numbers in any bins."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeGuard

import numpy as np
import torch
from torch import Tensor

from torch_histo._arguments import (
    all_but_channel,
    dimensions,
    edges_or_number,
    filled,
    integer,
    is_compiling,
    raise_as_python_would,
    shown,
    tensor_of,
    what_came,
)
from torch_histo._bin_rules import RULES, bins_by_rule, check_rule
from torch_histo._histogram_rules import is_small_float, on_meta
from torch_histo._keywords import refuse_keyword
from torch_histo._one_call import counts_and_edges, edges_in_one_call
from torch_histo._ranges import Range, bounds_of, ends_of, pair_of, range_of_extremes
from torch_histo.weights import Add, density_of, sums_and_edges, weight_of, weighted_sums

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


Combine = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

ARGUMENTS = ("input", "bins", "range", "dim", "channel_dim", "weight", "density", "flow")


class Histogram(NamedTuple):
    """The result of `histogram`; the names are those of torch.histogram."""

    hist: Tensor
    bin_edges: Tensor


# So that programs that return one can be saved.
torch.utils._pytree._register_namedtuple(
    Histogram, serialized_type_name="torch_histo.histograms.Histogram"
)


def histogram(
    input: Tensor | ArrayLike,
    bins: int | str | Tensor | ArrayLike = 256,
    range: Range | None = None,
    *,
    dim: int | Sequence[int] | None = None,
    channel_dim: int | None = None,
    weight: Tensor | ArrayLike | None = None,
    density: bool = False,
    flow: bool = False,
    **unknown: NoReturn,
) -> Histogram:
    """Counts numbers between edges, channel by channel, or adds up their weights.

    Bin k holds e_k <= v < e_{k+1}, the last one e_n too, compared as real numbers: neither a
    value nor an edge is rounded to the type of the other. So counts are exact, and the same bits
    on every device and in every run. NaN and values outside the edges are not counted, unless
    `flow` asks for them. On CUDA the work is queued on the current stream of the input's device,
    and nothing synchronizes or copies from the host; the call can be captured in a graph.

    Args:
        input: a dense tensor of any shape and strides, of dtype float16, bfloat16, float32,
            float64, float8_e4m3fn, float8_e5m2, bool, or any integer, on a CPU or CUDA device.
            An array of NumPy, an image of Pillow or a list of numbers will do, too. Floats of a
            list are float64.
        bins: how many bins of equal width, at least 1; or a rule of NumPy that finds this number,
            "auto", "fd", "rice", "sqrt" or "sturges"; or the edges themselves, at least two:
            `[n + 1]`, or `[..., n + 1]` with sizes that broadcast to the kept dimensions, of
            float32, float64 or integers, on the device of the input. An array or a list of edges
            is a tensor on the CPU. Edges never decrease; a channel whose edges decrease or hold
            NaN counts nothing.
        range: the first and the last edge where `bins` is no edges: a pair of numbers, or of
            tensors that broadcast to the kept dimensions, such as `torch.aminmax` returns. None
            takes the smallest and the largest finite value of each channel, and 0 and 1 where
            there is none. If both are equal, 0.5 is subtracted from one and added to the other.
            An array or a list is a tensor on the CPU. The pair may also be an array or a tensor
            `[2]` or `[2, channels]`, such as np.percentile and torch.quantile return, but not if
            the last of several sizes is 2, too: nobody knows then which dimension is the pair.
            A channel whose tensors hold NaN, or a last edge below the first, counts nothing.
        dim: the dimension or dimensions to count over, as in `torch.sum`; None means all.
        channel_dim: the one dimension that is not counted over, instead of `dim`.
        weight: what each element adds to its bin, instead of 1: a number, or a tensor of any
            dtype that `input` may have, on its device, with sizes that broadcast to those of
            `input`. Nothing is copied for that. An array or a list is a tensor on the CPU.
        density: returns counts / (their sum * the bins' widths), whose integral is 1, instead of
            counts. They are NaN for a channel without counts, and 0 for a bin of infinite width.
        flow: returns n + 3 counts a channel, [underflow, bins..., overflow, NaN], which add up
            to the number of elements.

    Returns:
        `hist`: int64 counts, the dimensions of `input` that are not in `dim`, in order, then the
        bins. With `density` the dtype of the edges, or float64 if those are integers.
        With `weight` sums of weights instead of counts: float64 for floats, each the exact sum,
        rounded once; int64 for integers and bool, modulo 2^64, as torch.sum. The same bits on
        every device, in every run and every order of the elements. An empty bin is +0. A bin is
        NaN if it has a weight NaN or both infinities, and infinite if it has one. `density` is
        float64 then.
        `bin_edges`: the edges of `bins`, or new ones, `[n + 1]` for a range of numbers and
        `[..., n + 1]` for channels that have their own. New ones are float32 for floats of up to
        32 bits, and float64 for float64 and integers.
        The edges have no gradient, and counts have none. Sums have one with respect to floats
        in `weight`, which cannot be differentiated again: that of the bin, in the dtype of
        `weight`.

    Raises:
        RuntimeError: another dtype, layout or device; no bin, or fewer than two edges; a range
            of numbers that is not finite or decreases, or is given beside edges; sizes that do
            not broadcast, and a weight of more dimensions than the input; a dim out of range or
            named twice; density together with flow; a rule for several channels, with weights, or
            where nothing can wait for the data.
        torch.OutOfMemoryError: the GPU has not the memory for the counts or the workspace.
        TypeError: an argument of a type that it does not take, or a keyword that is no argument,
            such as `min`.

    Example:
        >>> activations = torch.tensor([[0.0, -1.0], [0.5, 3.0], [1.0, torch.nan]])
        >>> hist, bin_edges = torch_histo.histogram(activations, 2, range=(0, 1), dim=0)
        >>> hist
        tensor([[1, 2],
                [0, 0]])
        >>> bin_edges
        tensor([0.0000, 0.5000, 1.0000])
        >>> torch_histo.histogram(activations, bin_edges, dim=0, flow=True).hist
        tensor([[0, 1, 2, 0, 0],
                [1, 0, 0, 1, 1]])
        >>> weight = torch.tensor([[0.5], [0.25], [2.0]])  # of each row
        >>> torch_histo.histogram(activations, bin_edges, dim=0, weight=weight).hist
        tensor([[0.5000, 2.2500],
                [0.0000, 0.0000]], dtype=torch.float64)

    Edges of equal width are those of np.histogram_bin_edges, bit for bit: edge k is
    low + k * ((high - low) / n), every operation rounded, and the last one is high. Numbers are
    computed in float64. Tensors, and the extremes that None takes, are in float32 if both are
    floats of up to 32 bits, and in float64 otherwise; so are two float32 scalars of NumPy.

    A rule counts the numbers in the range, or all finite ones, and finds their extremes and exact
    quartiles. One channel alone has a number of bins, a size, so the host waits for these, once.
    That is an error in a compiled or exported program, under vmap, and while a CUDA graph is
    captured. The edges are those of NumPy 2.4 for float32, float64 and integers of up to 53 bits;
    narrower floats are counted as float32. "doane", "scott" and "stone" are not built in.

    Source: np.histogram and np.histogram_bin_edges of NumPy. Sums are kept in long accumulators:
    Kulisch, "Computer Arithmetic and Validity" (2008).
    """
    if not isinstance(input, Tensor):
        input = tensor_of("histogram: input", input)
    if channel_dim is not None:
        input, dim = all_but_channel("histogram", input, dim, channel_dim)
    if not unknown and type(density) is type(flow) is bool and not (density and flow):
        if weight is None:
            found = counts_and_edges(input, bins, range, dim, flow)
        else:  # their density needs the total of digits
            found = None if density else sums_and_edges(input, weight, bins, range, dim, flow)
        if found is not None:
            hist, edges = found
            return Histogram(density_of(hist, [edges]) if density else hist, edges)
    return histogram_of(input, bins, range, dim, density, flow, unknown, weight=weight)


def histogram_of(
    input: Tensor,
    bins: int | str | Tensor | ArrayLike,
    range: Range | None,
    dim: int | Sequence[int] | None,
    density: bool,
    flow: bool,
    unknown: dict[str, Any],
    combine: Combine | None = None,
    add: Add | None = None,
    weight: Tensor | ArrayLike | None = None,
) -> Histogram:
    """The same as `histogram`. If several processes hold the data, `combine` makes the extremes
    of all from those of one, and `add` adds the others' counts."""
    if unknown:
        refuse_keyword("histogram", unknown, ARGUMENTS)
    rule = ""
    if isinstance(bins, str):
        check_rule(bins, input, weight, is_of_many=combine is not None)
        rule, bins = bins, 1
    bins = edges_or_number("histogram: bins", bins)
    dims, wanted = checked_call(input, bins, range, dim, density, flow)
    of_element = None if weight is None else weight_of("histogram", weight, input)
    try:
        edges = edges_of(input, dims, wanted, combine)
        if rule:
            edges = _edges_by_rule(rule, input, range, dims, wanted, edges)
        if of_element is not None:
            sums = weighted_sums(
                input, of_element, edges, dims, flow=flow, density=density, add=add
            )
            return Histogram(sums, edges)
        hist: Tensor = torch.ops.histo.histogram(input, edges, dims, flow=flow)
    except (RuntimeError, TypeError) as error:
        raise_in_own_words(error, input, bins)
        raise
    if add is not None:
        add(hist)
    return Histogram(density_of(hist, [edges.detach()]) if density else hist, edges)


def counted_on_meta(
    input: Tensor,
    bins: int | Tensor,
    range: Any,
    dim: int | Sequence[int] | None,
    density: bool,
    flow: bool,
) -> Histogram:
    """What `histogram` returns, without numbers; its errors are the same. Edges may be on any
    device if the input is on the meta device."""
    ends = ends_of(range)
    edges = bins if are_edges(bins) else None  # or else a number
    given = [end for end in (edges, *ends) if isinstance(end, Tensor)]
    if input.is_meta or all(end.device == input.device for end in given):  # or else it raises
        input = on_meta(input)
        if are_edges(bins):
            bins = on_meta(bins)
        else:
            bins = _number_of_bins(bins)
            if any(isinstance(end, Tensor) for end in ends):
                range = tuple(on_meta(end) if isinstance(end, Tensor) else end for end in ends)
    return histogram(input, bins, range, dim=dim, density=density, flow=flow)


def _edges_by_rule(
    rule: str,
    input: Tensor,
    range: Range | None,
    dims: list[int] | None,
    wanted: UniformBins | Tensor,
    edges: Tensor,
) -> Tensor:
    """Edges of as many bins as the rule makes, between those of the one bin that is wanted."""
    assert isinstance(wanted, UniformBins)
    ends: Sequence[Any] | None = None if range is None else pair_of(range)
    if not all(isinstance(end, (int, float, np.generic)) for end in ends or ()):
        ends = wanted.bounds
    number = bins_by_rule(rule, input, dims, edges, ends)
    bounds = wanted.bounds or (edges[..., 0], edges[..., 1])  # extremes are not found again
    return edges_of(input, dims, UniformBins(number, bounds))


class UniformBins(NamedTuple):
    """Bins of one width between bounds, or between the extremes of the input."""

    num_bins: int
    bounds: tuple[Tensor, Tensor] | tuple[float, float] | None


def checked_call(
    input: Tensor,
    bins: int | Tensor,
    range: Range | None,
    dim: int | Sequence[int] | None,
    density: bool,
    flow: bool,
) -> tuple[list[int] | None, UniformBins | Tensor]:
    """The dimensions and the bins of a call, whose types are right."""
    for name, value in (("density", density), ("flow", flow)):
        if not isinstance(value, bool):
            raise TypeError(f"histogram: {name} must be a bool, got {shown(value)}")
    if density and flow:
        raise RuntimeError(
            "histogram: density must be False with flow, whose values have no width, got True"
        )
    dims = None if dim is None else dimensions("histogram", dim)
    if not are_edges(bins):
        num_bins = _number_of_bins(bins)
        return dims, UniformBins(num_bins, None if range is None else bounds_of(input, range))
    if range is not None:
        expected = "range must be left out where bins are edges"
        raise RuntimeError(f"histogram: {expected}, got range={shown(range)}")
    return dims, bins


def edges_of(
    input: Tensor,
    dims: list[int] | None,
    bins: UniformBins | Tensor,
    combine: Combine | None = None,
) -> Tensor:
    """The edges of a checked call. Errors are in the words of the operators."""
    if isinstance(bins, Tensor):
        return bins
    num_bins, bounds = bins
    if bounds is None or not isinstance(bounds[0], Tensor):
        found = None if combine else edges_in_one_call(input, num_bins, bounds, dims)
        if found is not None:
            return found
    if bounds is None:
        low, high = _extremes(input, dims, combine)
    else:
        low, high = (
            v if isinstance(v, Tensor) else filled(input, v, torch.float64) for v in bounds
        )
    edges: Tensor = torch.ops.histo.uniform_edges(
        low, high, num_bins, in_float32=is_small_float(input)
    )
    return edges


def raise_in_own_words(error: Exception, input: Tensor, bins: int | Tensor) -> None:
    """Raises an operator's error as that of `histogram`, if it has one line of its own."""
    raise_as_python_would(error, "histogram: input", input, partial(_reworded, bins))


def are_edges(bins: object) -> TypeGuard[Tensor]:
    return isinstance(bins, Tensor) and bins.dim() > 0


def _reworded(bins: int | Tensor, message: str) -> str:
    """The words of an operator as those of the function."""
    message = re.sub(r"\bweighted_histogram\b(?=: |\(\))", "histogram", message)
    if are_edges(bins):
        return re.sub(r"\bedges(?= must|\.)", "bins", message)
    for pattern, replacement in (
        (r"\b(finite_range|uniform_edges)\b(?=: |\(\))", "histogram"),
        (r"\bnum_bins\b", "bins"),
        (
            r"edges must be .* kept dimensions and n \+ 1, \[(.*?)(?:, )?\d+\], "
            r"got \[(.*?)(?:, )?\d+\]",
            r"range must have sizes that broadcast to the kept dimensions, [\1], got [\2]",
        ),
    ):
        message = re.sub(pattern, replacement, message)
    return message


def _number_of_bins(bins: object) -> int:
    expected = "bins must be an int of 64 bits, or a tensor, an array or a list of edges"
    if is_compiling() or isinstance(bins, (int, str, Tensor)):
        is_rule = isinstance(bins, str) and bins in RULES
        hint = ": torch_histo.histogram alone takes rules" if is_rule else ""
        return integer("histogram", bins, expected, hint)
    if hasattr(bins, "__len__") and getattr(bins, "shape", None) != ():
        got = what_came("bins", bins, are_edges=True)
        raise TypeError(f"histogram: {expected}, got {got}")
    return integer("histogram", bins, expected)


def _extremes(
    input: Tensor, dims: list[int] | None, combine: Combine | None
) -> tuple[Tensor, Tensor]:
    low, high = torch.ops.histo.finite_range(input.detach(), dims)
    if combine is not None:
        low, high = combine(low, high)
    elif _is_empty(input):  # NumPy computes in float64 between 0 and 1
        return torch.zeros_like(low, dtype=torch.float64), torch.ones_like(low, dtype=torch.float64)
    return range_of_extremes(low, high)


def _is_empty(input: Tensor) -> bool:
    if not is_compiling():
        return input.numel() == 0
    from torch.fx.experimental.symbolic_shapes import guard_or_false  # which takes long

    return guard_or_false(input.numel() == 0)  # sizes that are in the data are taken for others
