"""Joint histograms: counts of the elements that have their coordinates in the same bins."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import torch
from torch import Tensor

from torch_histo._arguments import (
    all_but_channel,
    edges_or_number,
    is_compiling,
    is_plain,
    kept_sizes,
    name_of,
    reduced_dimensions,
    shown,
    tensor_of,
)
from torch_histo._joint_errors import (
    Coordinates,
    in_words_of_call,
    in_words_of_histogram,
    of_axis,
)
from torch_histo._joint_operators import joint_histogram, joint_index, weighted_joint_histogram
from torch_histo._keywords import refuse_keyword
from torch_histo._one_call import edges_of_axes
from torch_histo._ranges import Range
from torch_histo._weight_operators import sum_of_digits, sum_size
from torch_histo.histograms import (
    ARGUMENTS,
    Combine,
    UniformBins,
    checked_call,
    edges_of,
)
from torch_histo.weights import _MOST_BYTES, Add, added, density_of, weight_of, weighted_sums

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Coordinate: TypeAlias = "Tensor | ArrayLike"
Bins: TypeAlias = "int | Tensor | ArrayLike | Sequence[int | Tensor | ArrayLike]"
Ranges: TypeAlias = "Sequence[Range | None] | Tensor | ArrayLike"


class JointHistogram(NamedTuple):
    """The result of `histogramdd` and `histogram2d`; the names are those of torch.histogramdd."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


# So that programs that return one can be saved.
torch.utils._pytree._register_namedtuple(
    JointHistogram, serialized_type_name="torch_histo.joint.JointHistogram"
)


def histogramdd(
    sample: Sequence[Coordinate] | Coordinate,
    bins: Bins = 10,
    range: Ranges | None = None,
    *,
    dim: int | Sequence[int] | None = None,
    channel_dim: int | None = None,
    weight: Tensor | ArrayLike | None = None,
    density: bool = False,
    flow: bool = False,
    **unknown: NoReturn,
) -> JointHistogram:
    """Counts elements of several coordinates by the bins of all of them, channel by channel, or
    adds up their weights.

    Each coordinate has an axis of bins between edges, as in `torch_histo.histogram`: bin k holds
    e_k <= v < e_{k+1}, the last one e_n too, compared as real numbers. An element counts where all
    its coordinates have a bin. Counts are exact, and the same bits on every device and in every
    run. On CUDA nothing synchronizes or copies from the host; the call can be captured in a graph.

    Args:
        sample: the coordinates: a tuple or list of D tensors that broadcast to each other, each of
            any dtype that `torch_histo.histogram` takes, on one device; or one tensor `[..., D]`,
            whose last dimension is the coordinates. Neither is copied. Arrays will do, too.
        bins: a number of bins of equal width for all axes; a tuple or list of D, each a number or
            edges as `torch_histo.histogram` takes them, `[n + 1]` or `[..., n + 1]` with sizes that
            broadcast to the kept dimensions; or a 1-D tensor or array, the edges of all axes.
        range: for each axis where `bins` is a number a pair as `torch_histo.histogram` takes it,
            or None. None takes the smallest and the largest finite value of each channel.
        dim: the dimension or dimensions to count over, as in `torch.sum`; None means all. Those of
            a tensor `[..., D]` are without the last one.
        channel_dim: the one dimension that is not counted over, instead of `dim`.
        weight: what each element adds to its bin, instead of 1: a number, or a tensor with sizes
            that broadcast to those of the coordinates, as in `torch_histo.histogram`.
        density: returns counts / (their sum * the bins' areas or volumes) instead of counts.
        flow: gives each axis n + 3 slots, [underflow, bins..., overflow, NaN]. So all elements
            are counted.

    Returns:
        `hist`: `[kept..., n_1, ..., n_D]`, the dimensions that are not in `dim`, in order, then the
        bins of each axis. int64 counts. With `weight` exact sums, rounded once: float64 for
        floats, and int64 modulo 2^64 for integers and bool. With `density` float64, or float32 for
        counts where all edges are.
        `bin_edges`: a tuple of the edges of each axis, as `torch_histo.histogram` returns them.
        Sums have a gradient with respect to floats in `weight`, that of the bin.

    Raises:
        RuntimeError: coordinates of another dtype, layout or device, or of sizes that do not
            broadcast; another number of bins or ranges than of coordinates; 2^63 joint bins or
            more; density together with flow; and what `torch_histo.histogram` raises.
        torch.OutOfMemoryError: the GPU has not the memory for the counts.
        TypeError: an argument of a type that it does not take, or a keyword that is no argument,
            such as `weights`.

    Example:
        >>> x, y = torch.tensor([0.1, 0.2, 0.9, 0.7]), torch.tensor([5, 3, 5, 5])
        >>> hist, (x_edges, y_edges) = torch_histo.histogramdd((x, y), (2, torch.tensor([3, 4, 6])),
        ...     range=((0, 1), None))
        >>> hist
        tensor([[1, 1],
                [0, 2]])
        >>> x_edges
        tensor([0.0000, 0.5000, 1.0000])

    Up to three coordinates are read by one kernel. With more, the joint bins of the first ones are
    written, 8 bytes an element, and read as a coordinate.

    Source: np.histogramdd of NumPy, whose counts these are for the same edges.
    """
    op = "histogramdd"
    call = coordinates_of(op, sample)
    return joint_of(call, bins, range, dim, channel_dim, weight, density, flow, unknown)


def histogram2d(
    x: Coordinate,
    y: Coordinate,
    bins: Bins = 10,
    range: Ranges | None = None,
    *,
    dim: int | Sequence[int] | None = None,
    channel_dim: int | None = None,
    weight: Tensor | ArrayLike | None = None,
    density: bool = False,
    flow: bool = False,
    **unknown: NoReturn,
) -> JointHistogram:
    """Counts pairs of numbers by the bins of both: `histogramdd((x, y), ...)`.

    Args:
        x, y: tensors that broadcast to each other, each of any dtype that `torch_histo.histogram`
            takes, on one device. Arrays will do, too.
        bins: a number, a pair of numbers or edges, or a 1-D tensor of edges for both.
        range: a pair of ranges, each a pair or None.
        dim, channel_dim, weight, density, flow: as in `torch_histo.histogramdd`.

    Returns:
        `hist`, `[kept..., n_x, n_y]`, and `bin_edges`, the pair of the edges.

    Raises:
        RuntimeError, TypeError, torch.OutOfMemoryError: as `torch_histo.histogramdd`.

    Example:
        >>> x = torch.tensor([[0.1, 0.6], [0.9, 0.4]])
        >>> y = torch.tensor([[1, 2], [2, 2]], dtype=torch.uint8)
        >>> torch_histo.histogram2d(x, y, 2, range=((0, 1), (0, 3)), dim=1).hist
        tensor([[[1, 0],
                 [0, 1]],
        <BLANKLINE>
                [[0, 1],
                 [0, 1]]])

    Source: np.histogram2d of NumPy, whose counts these are for the same edges.
    """
    op = "histogram2d"
    call = pair_of_coordinates(op, x, y)
    return joint_of(call, bins, range, dim, channel_dim, weight, density, flow, unknown)


def coordinates_of(
    op: str, sample: Sequence[Coordinate] | Coordinate, argument: str = "sample"
) -> Coordinates:
    """Those of a sequence of tensors or arrays, or of a tensor `[..., D]`."""
    name = f"{op}: {argument}"
    if isinstance(sample, (tuple, list)):
        if not sample:
            raise RuntimeError(f"{name} must hold at least one tensor, got none")
        names = [f"{argument}[{d}]" for d in range(len(sample))]
        tensors = [_tensor_of(op, n, c) for n, c in zip(names, sample, strict=True)]
        return Coordinates(op, tensors, names)
    if not isinstance(sample, Tensor):
        sample = tensor_of(name, sample, "a tuple of tensors, or a tensor or an array [..., D]")
    if sample.layout != torch.strided:
        expected, got = "must be a dense tensor", f"layout {name_of(sample.layout)}"
        raise RuntimeError(f"{name} {expected}, got {got}: pass its to_dense()")
    if sample.dim() < 2 or sample.shape[-1] == 0:
        raise RuntimeError(
            f"{name} must have the coordinates in its last dimension, [..., D], "
            f"got {list(sample.shape)}: pass ({argument},) if it is one coordinate"
        )
    return Coordinates(op, list(sample.unbind(-1)), [argument] * sample.shape[-1], sample)


def pair_of_coordinates(
    op: str, x: Coordinate, y: Coordinate, names: Sequence[str] = ("x", "y")
) -> Coordinates:
    tensors = [_tensor_of(op, name, c) for name, c in zip(names, (x, y), strict=True)]
    return Coordinates(op, tensors, list(names))


def _tensor_of(op: str, name: str, coordinate: Coordinate) -> Tensor:
    return coordinate if isinstance(coordinate, Tensor) else tensor_of(f"{op}: {name}", coordinate)


def joint_of(
    call: Coordinates,
    bins: Bins,
    range: Ranges | None,
    dim: int | Sequence[int] | None,
    channel_dim: int | None,
    weight: Tensor | ArrayLike | None,
    density: bool,
    flow: bool,
    unknown: dict[str, Any],
    combine: Combine | None = None,
    add: Add | None = None,
) -> JointHistogram:
    """The same as `histogramdd`. If several processes hold the data, `combine` makes the extremes
    of all from those of one, and `add` adds the others' counts."""
    op, xs, names, _ = call
    if unknown:
        refuse_keyword(op, unknown, (*_arguments_of(names), *ARGUMENTS[1:]))
    xs = broadcast(call)
    if channel_dim is not None:
        xs, dim = without_channel(call, xs, dim, channel_dim)
    axes = _bins_of(op, bins, len(xs))
    ranges = _ranges_of(op, range, len(xs))
    is_list = isinstance(bins, (tuple, list))
    dims: list[int] | None = None
    wanted: list[UniformBins | Tensor] = []
    for d, (x, own) in enumerate(zip(xs, axes, strict=True)):
        try:
            dims, checked = checked_call(x, own, ranges[d], dim, density, flow)
        except (RuntimeError, TypeError) as error:
            raise of_axis(call, error, d, is_list) from None
        wanted.append(checked)
    edges: list[Tensor] = []
    for d, (x, own) in enumerate(zip(xs, axes, strict=True)):
        try:
            if d == 0:
                edges = _edges_of_all(call, xs, dims, wanted, combine)
            if len(edges) <= d:
                edges.append(edges_of(x, dims, wanted[d], combine))
        except (RuntimeError, TypeError) as error:
            raise of_axis(call, in_words_of_histogram(error, x, own), d, is_list) from None
    of_element = None if weight is None else weight_of(op, weight, xs[0])
    joint = _Joint([x.detach() for x in xs], [e.detach() for e in edges], dims, flow)
    try:
        if of_element is not None:
            hist, total = joint.sums(of_element, density, add)
        else:
            hist, total = joint_histogram(joint.xs, joint.edges, dims, flow=flow), None
            if add is not None:
                add(hist)
    except (RuntimeError, TypeError) as error:
        raise in_words_of_call(call, error, is_list) from None
    if density:
        hist = density_of(hist, joint.edges, total)
    return JointHistogram(hist, tuple(edges))


class _Joint(NamedTuple):
    """A call of the operators."""

    xs: list[Tensor]
    edges: list[Tensor]
    dims: list[int] | None
    flow: bool

    def slots(self) -> list[int]:
        """Those of each axis."""
        return [e.shape[-1] - 1 + (3 if self.flow else 0) for e in self.edges]

    def sums(
        self, weight: Tensor, wants_total: bool, add: Add | None
    ) -> tuple[Tensor, Tensor | None]:
        """The sums of weights, and those of all bins if they are wanted."""
        if not self._may_have_gradient(weight, add) and self._digits_are_few(weight):
            digits = weighted_joint_histogram(
                self.xs, self.edges, weight.detach(), self.dims, flow=self.flow
            )
            if add is not None:
                add(digits)
            digits = added(digits)
            total = None
            if wants_total:
                last = digits.dim() - 1
                total = sum_of_digits(digits.flatten(last - len(self.xs), last - 1).sum(-2))
            return sum_of_digits(digits), total
        # Sums by an integer have a gradient, and go by groups of channels.
        index = joint_index(self.xs, self.edges, self.dims, self.flow)
        slots = self.slots()
        hist = weighted_sums(index, weight, prod(slots), self.dims or [], add=add)
        total = None
        if wants_total:
            is_outside = (index < 0).long()  # 0 is the one bin of the others
            total = weighted_sums(is_outside, weight, 1, self.dims or [], add=add).squeeze(-1)
        return hist.reshape(*hist.shape[:-1], *slots), total

    def _may_have_gradient(self, weight: Tensor, add: Add | None) -> bool:
        if not weight.dtype.is_floating_point or add is not None:
            return False
        if is_compiling() or torch._C._are_functorch_transforms_active():
            return True  # torch.func.grad may track a weight that does not require it here
        return weight.requires_grad and torch.is_grad_enabled()

    def _digits_are_few(self, weight: Tensor) -> bool:
        if is_compiling() or not is_plain(self.xs[0]):
            return True
        x = self.xs[0]
        kept = kept_sizes(x.shape, self.dims)
        bytes_of_all = prod(kept) * prod(self.slots()) * sum_size(weight.dtype) * 8
        return not kept or bytes_of_all <= _MOST_BYTES


def _edges_of_all(
    call: Coordinates,
    xs: Sequence[Tensor],
    dims: list[int] | None,
    bins: Sequence[UniformBins | Tensor],
    combine: Combine | None,
) -> list[Tensor]:
    """The edges of all axes, if one call makes them: between numbers, or between the extremes of
    the coordinates of one tensor, which is read once."""
    uniform = [own for own in bins if not isinstance(own, Tensor)]
    pairs = [own.bounds for own in uniform]
    numbers = [pair for pair in pairs if pair is not None and not isinstance(pair[0], Tensor)]
    if len(numbers) == len(bins):
        return edges_of_axes(xs, [own.num_bins for own in uniform], numbers)
    if call.sample is None or xs[0] is not call.tensors[0] or any(pairs):
        return []
    if len(uniform) < len(bins) or any(own != uniform[0] for own in uniform):
        return []
    size, given = xs[0].dim(), dims or []
    if not all(-size <= d < size for d in given):
        return []  # an error, which the first axis has
    edges = edges_of(call.sample, sorted(reduced_dimensions(size, given)), uniform[0], combine)
    return [own.contiguous() for own in edges.unbind(-2)]


def _arguments_of(names: Sequence[str]) -> list[str]:
    """The arguments that hold the coordinates."""
    return list(dict.fromkeys(name.split("[")[0] for name in names))


def without_channel(
    call: Coordinates,
    xs: Sequence[Tensor],
    dim: int | Sequence[int] | None,
    channel_dim: int,
) -> tuple[list[Tensor], list[int]]:
    """The coordinates, and the dimensions to count over, which are all but that of the channels."""
    argument = _arguments_of(call.names)[0]
    found = [all_but_channel(call.op, x, dim, channel_dim, argument) for x in xs]
    return [x for x, _ in found], found[0][1]


def broadcast(call: Coordinates) -> list[Tensor]:
    """The coordinates, expanded to common sizes."""
    op, xs, names, _ = call
    if all(x.shape == xs[0].shape for x in xs[1:]):
        return xs
    try:
        return list(torch.broadcast_tensors(*xs))  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        arguments = " and ".join(_arguments_of(names))
        several = "broadcast" if " and " in arguments else "hold tensors that broadcast"
        sizes = " and ".join(str(list(x.shape)) for x in xs)
        expected = f"{arguments} must {several} to each other"
        raise RuntimeError(f"{op}: {expected}, got sizes {sizes}") from error


def _bins_of(op: str, bins: Bins, axes: int) -> list[Any]:
    """The bins of each axis, as `histogram` takes them."""
    if isinstance(bins, (tuple, list)):
        if len(bins) != axes:
            expected = f"bins must be a number, edges, or a tuple of {axes}, one an axis"
            hint = ": pass a tensor if these are the edges of all axes"
            raise RuntimeError(f"{op}: {expected}, got {shown(bins)}{hint}")
        return [edges_or_number(f"{op}: bins[{d}]", own) for d, own in enumerate(bins)]
    found = edges_or_number(f"{op}: bins", bins)
    if isinstance(found, Tensor) and found.dim() > 1:
        expected = (
            "bins must be a number, a 1-D tensor of edges, or a tuple with bins for each axis"
        )
        raise RuntimeError(f"{op}: {expected}, got a tensor of sizes {list(found.shape)}")
    return [found] * axes


def _ranges_of(op: str, range: Ranges | None, axes: int) -> list[Any]:
    """The range of each axis, as `histogram` takes it."""
    if range is None:
        return [None] * axes
    expected = f"range must be None, or hold a pair or None for each of {axes} axes"
    try:
        found: list[Any] = list(range)  # type: ignore[arg-type]
    except TypeError:  # a number
        raise TypeError(f"{op}: {expected}, got {shown(range)}") from None
    if len(found) != axes or any(isinstance(own, (int, float)) for own in found):
        raise RuntimeError(f"{op}: {expected}, got {shown(range)}")
    return found
