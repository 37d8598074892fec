"""Histograms and quantiles of streams: modules that count one tensor after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from typing_extensions import Self

from torch_histo import distributed
from torch_histo._arguments import (
    dimensions,
    edges_or_number,
    integer,
    is_compiling,
    is_dtensor,
    kept_dimensions,
    renamed,
    shown,
    tensor_of,
    without_array,
)
from torch_histo._plottable import Plottable
from torch_histo.histograms import Bound, are_edges, check_counted, density_of, histogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["QuantileSketch", "StreamingHistogram"]

_INT64 = torch.iinfo(torch.int64)
_FRACTION_BITS = 52
_EXPONENT_BIAS = 1023
_MOST_BITS = 16


class _Stream(Plottable, nn.Module):
    """Edges, and the counts between them of all that came.

    Buffers are integers, so that `.half()`, `.bfloat16()` and wrappers that cast the floats of a
    module leave them alone: edges are kept as the bits of float64."""

    hist: Tensor
    edge_bits: Tensor

    def __init__(self, edges: Tensor, hist: Tensor) -> None:
        super().__init__()
        self.register_buffer("edge_bits", edges.view(torch.int64))
        self.register_buffer("hist", hist)

    @property
    def edges(self) -> Tensor:
        """The edges of the bins, float64, on the device of the module."""
        return self.edge_bits.view(torch.float64)

    @property
    def count(self) -> Tensor:
        """How many values came for each channel, NaN aside: int64, of the sizes of channels."""
        return self.hist[..., :-1].sum(-1)

    def update(self, x: Tensor | ArrayLike, dim: int | Sequence[int] | None = None) -> None:
        """Counts the values of a tensor over `dim`; the other dimensions are the channels.

        Nothing synchronizes, and no memory is kept. So the call can be compiled, and captured in
        a CUDA graph, which then counts at each replay.

        Args:
            x: what `torch_histo.histogram` takes, on the device of the module.
            dim: the dimension or dimensions to count over; None means all, for a module without
                channels.

        Raises:
            RuntimeError: sizes that are not those of the channels, or another device; and what
                `torch_histo.histogram` raises.
            TypeError: `x` is neither a tensor nor numbers, or is a DTensor: pass what this process
                holds.
        """
        x = self._tensor_of(x)
        self.hist.add_(self._counts_of(x, dim))

    def forward(self, x: Tensor | ArrayLike, dim: int | Sequence[int] | None = None) -> Tensor:
        """Updates, and returns `x` as a tensor."""
        x = self._tensor_of(x)
        self.update(x, dim)
        return x

    def reset(self) -> None:
        """Forgets all that came."""
        self.hist.zero_()

    def merge(self, other: Self) -> Self:
        """Adds what another module of the same bins and channels has counted; returns itself.

        The result is that of one module that counted both streams. On CUDA this waits for the
        GPU, since it compares the edges.

        Raises:
            RuntimeError: other edges or channels.
            TypeError: another class.
        """
        name = f"{type(self).__name__}.merge"
        if type(other) is not type(self):
            expected = f"other must be a {type(self).__name__}"
            raise TypeError(f"{name}: {expected}, got {type(other).__name__}")
        if self.hist.shape != other.hist.shape:
            sizes = list(self.hist.shape), list(other.hist.shape)
            raise RuntimeError(f"{name}: other must have counts {sizes[0]}, got {sizes[1]}")
        device = self.hist.device
        if not torch.equal(self.edge_bits, other.edge_bits.to(device)):
            raise RuntimeError(f"{name}: other must have the same edges, got others")
        self.hist.add_(other.hist.to(device))
        return self

    def all_reduce(self, group: dist.ProcessGroup | None = None) -> Self:
        """A new module that has counted what all processes of a group have.

        This one stays as it is. So a second call counts nothing twice, and the stream goes on.
        All processes of the group must call it, with the same bins and channels.

        Args:
            group: a process group whose backend serves the device of the module; the default
                group if None.

        Raises:
            RuntimeError: there is no process group, this process is not of `group`, or its
                backend does not serve the device.
            TypeError: `group` is not a process group.
        """
        name = f"{type(self).__name__}.all_reduce"
        distributed.check_group(name, group)
        total = deepcopy(self)
        total._add_others(f"{name}: the module", group)
        return total

    def _add_others(self, argument: str, group: dist.ProcessGroup | None) -> None:
        distributed.all_reduce(argument, self.hist, group)

    def density(self) -> Tensor:
        """counts / (their sum * the bins' widths), as `torch_histo.histogram` with `density`:
        float64, of the sizes of channels and bins. NaN for a channel without counts."""
        return density_of(self.hist[..., 1:-2], self.edges)

    def quantile(self, q: float | Sequence[float] | Tensor) -> Tensor:
        """Quantiles of what came; the class tells how near they are. NaN does not count.

        Nothing synchronizes where `q` is not a tensor on another device.

        Args:
            q: a number from 0 to 1, several, or a tensor of none or one dimension. A tensor is
                not read on the host: numbers outside give NaN.

        Returns:
            float64 `[channels...]`, or `[q, channels...]` for several, as torch.quantile. NaN for
            a channel without values.

        Raises:
            RuntimeError: a number outside 0 to 1, or a tensor of more dimensions.
            TypeError: `q` is none of these.
        """
        below = self.hist[..., :-1].cumsum(-1)
        fractions = _fractions(f"{type(self).__name__}.quantile", q, below.device)
        flat = fractions.reshape(-1)
        valid = (flat >= 0) & (flat <= 1)
        found = self._quantile(below, flat.where(valid, 0.0))
        found = found.where(valid & (below[..., -1:] > 0), torch.nan)
        return found.movedim(-1, 0) if fractions.dim() else found.squeeze(-1)

    def _quantile(self, below: Tensor, q: Tensor) -> Tensor:
        """[channels, q] of the counts up to each bin, [channels, n + 2]: NaN is not among them."""
        raise NotImplementedError

    def channel(self, *index: int) -> Self:
        """A copy of one channel, without channels: `sketch.channel(3).plot()`."""
        if len(index) != self.hist.dim() - 1:
            expected = f"index must be {self.hist.dim() - 1} ints, one a dimension of channels"
            raise RuntimeError(f"{type(self).__name__}.channel: {expected}, got {shown(index)}")
        one = deepcopy(self)
        bits = self.edge_bits.expand(*self.hist.shape[:-1], -1)
        one.edge_bits = bits[index].clone()
        for name, counts in one._of_channels():
            one.register_buffer(name, counts[index].clone())
        return one

    def _of_channels(self) -> list[tuple[str, Tensor]]:
        """The buffers that have an entry a channel."""
        return [("hist", self.hist)]

    def _tensor_of(self, x: Tensor | ArrayLike) -> Tensor:
        return x if isinstance(x, Tensor) else tensor_of(f"{type(self).__name__}.update: x", x)

    def _counts_of(self, x: Tensor, dim: int | Sequence[int] | None) -> Tensor:
        name, channels = f"{type(self).__name__}.update", list(self.hist.shape[:-1])
        if is_dtensor(x):
            raise TypeError(f"{name}: x must be what this process holds: pass x.to_local()")
        if x.device != self.hist.device:
            expected = f"x must be on the device of the module, {self.hist.device}"
            raise RuntimeError(f"{name}: {expected}, got {x.device}: call .to(x.device)")
        dims = dimensions(name, dim)
        try:
            if [x.shape[d] for d in kept_dimensions(x.dim(), dims)] != channels:
                check_counted("histogram", x, x.dim(), dims)
                expected = f"x must have the channels' sizes, {channels}, beside dim"
                raise RuntimeError(f"{name}: {expected}, got {list(x.shape)} over dim={dim}")
            return histogram(x, self.edges, dim=dims or None, flow=True).hist
        except (RuntimeError, TypeError) as error:
            raise renamed(error, name, "x") from None


class StreamingHistogram(_Stream):
    """Counts the values of one tensor after another between fixed edges, channel by channel.

    Counts are exact and the same bits on every device, in every order and however the stream is
    divided: n tensors give the counts of their concatenation.

    Args:
        bins: how many bins of equal width, at least 1; or the edges themselves, at least two:
            `[n + 1]`, or `[..., n + 1]` with sizes that broadcast to the channels; an array or a
            list will do, too. They are kept as float64, never decrease and hold no NaN.
        range: the first and the last edge where `bins` is a number: a pair of numbers, or of
            tensors that broadcast to the channels. A stream has no extremes to take before it
            ends: `QuantileSketch` is for values whose range nobody knows.
        channels: the sizes of the dimensions that `update` keeps, an int or several; None means
            those of edges and range, and so none for edges `[n + 1]` and a range of numbers.
        edges: another name of `bins`, where these are edges.

    Attributes:
        hist: int64 counts `[channels..., n + 3]`: underflow, the bins, overflow, NaN. They add up
            to the number of elements. 8 (n + 3) bytes a channel.
        edges: float64 `[n + 1]`, or `[..., n + 1]` for channels that have their own. They are in
            the state as the int64 of their bits, `edge_bits`, and loading a state loads them.
        count: int64 `[channels...]`, how many values came, NaN aside.

    `quantile(q)` takes the values of a bin to be spread evenly over it. It lies between the values
    below it and above it: the result is in the bin of the order statistic of rank q * count, so it
    is wrong by at most the bin's width. Values below the first edge count as that edge, values
    above the last as that one; a bin with an infinite edge gives the other one.

    `values()`, `counts()`, `variances()`, `axes` and `kind` are what libraries such as mplhep and
    hist look for (UHI's PlottableHistogram); `plot()` draws with matplotlib.

    Raises:
        RuntimeError: no bin or fewer than two edges; edges that decrease, hold NaN or are no
            float64; a range that is missing or not finite; sizes that do not broadcast.
        TypeError: an argument of a type that it does not take.

    Example:
        >>> stream = torch_histo.StreamingHistogram(4, range=(0, 1), channels=2)
        >>> for step in range(3):
        ...     stream.update(torch.tensor([[0.1, 0.7], [0.6, 2.0]]), dim=0)
        >>> stream.hist
        tensor([[0, 3, 0, 3, 0, 0, 0],
                [0, 0, 0, 3, 0, 3, 0]])
        >>> stream.quantile(0.5)
        tensor([0.2500, 0.7500], dtype=torch.float64)

    Source: np.histogram for the bins; quantiles are those of the line through the cumulative
    counts at the edges.
    """

    def __init__(
        self,
        bins: int | Tensor | ArrayLike | None = None,
        range: Sequence[Bound] | None = None,
        channels: int | Sequence[int] | None = None,
        *,
        edges: Tensor | ArrayLike | None = None,
    ) -> None:
        name = type(self).__name__
        if edges is not None:
            if bins is not None:
                raise TypeError(f"{name}: edges must be left out with bins, got both")
            bins = edges
        bins = None if bins is None else edges_or_number(f"{name}: bins", bins)
        if range is None and hasattr(bins, "__index__") and not are_edges(bins):
            expected = "range must be a pair of numbers or of tensors where bins is a number"
            raise RuntimeError(f"{name}: {expected}, got None: QuantileSketch needs no range")
        given = [v for v in (bins, *(range or ())) if isinstance(v, Tensor)]
        sizes = _sizes_of(bins, given) if channels is None else _channels(name, channels)
        device = given[0].device if given else None
        nothing = torch.empty(0, *sizes, dtype=torch.float64, device=device)
        try:
            hist, edges = histogram(nothing, bins, range=range, dim=0, flow=True)  # type: ignore[arg-type]
        except (RuntimeError, TypeError) as error:
            raise renamed(error, name, "input") from None
        wide = _double(edges.detach())
        if not edges.is_meta:
            if not (wide.diff() >= 0).all():
                expected = "edges must never decrease and hold no NaN"
                raise RuntimeError(f"{name}: {expected}, got {shown(edges.tolist())}")
            if not edges.is_floating_point() and not torch.equal(wide.to(edges.dtype), edges):
                raise RuntimeError(f"{name}: edges must be exact in float64, got {edges.dtype}")
        super().__init__(wide.clone(memory_format=torch.contiguous_format), hist)

    def extra_repr(self) -> str:
        *channels, counts = self.hist.shape
        return f"bins={counts - 3}, channels={tuple(channels)}"

    def _quantile(self, below: Tensor, q: Tensor) -> Tensor:
        target = below[..., -1:] * q
        # No bin without values is taken: the least count of one is 1.
        at = torch.searchsorted(below.double(), target.clamp(min=0.5))
        at = at.clamp(max=below.shape[-1] - 1)
        counts = self.hist.gather(-1, at)
        part = ((target - below.gather(-1, at) + counts) / counts).clamp(0, 1)
        edges = self.edges
        bounds = torch.cat((edges[..., :1], edges, edges[..., -1:]), -1)
        bounds = bounds.expand(*below.shape[:-1], -1)
        left, right = bounds.gather(-1, at), bounds.gather(-1, at + 1)
        low, high = left.where(left.isfinite(), right), right.where(right.isfinite(), left)
        # Not lerp, whose difference of the two may overflow.
        return (low * (1 - part) + high * part).clamp(low, high)


class QuantileSketch(_Stream):
    """Quantiles of streams whose range nobody knows, with a bound on the relative error.

    Its bins are the floats that begin with the same bits: sign, exponent, and the first `bits`
    bits of the fraction, for the exponents of a span. Bins of their own count zero, what is
    smaller than the span (tiny) and larger (huge), by sign; -inf, +inf and NaN are counted as
    underflow, overflow and NaN. So every value of every dtype is counted. Counts are exact, and
    the same bits however the stream is divided. An update reads its input twice: to count, and to
    find the extremes.

    Args:
        channels: the sizes of the dimensions that `update` keeps, an int or several; None means
            that there are none.
        bits: how many bits of the fraction tell bins apart, from 0 to 16.
        exponents: the span, (first, last): magnitudes from 2^first up to 2^last, which is not in
            it. At least -1022 and at most 1023.
        device: where its buffers are, as modules of torch take it.

    `quantile(q)` is near the order statistic of rank q * (count - 1), rounded to the nearest
    integer, which torch.quantile takes with interpolation="nearest". It is

    - the middle of the bin for a magnitude in the span: its relative error is at most
      2^-(bits + 1);
    - 0, -inf and +inf themselves;
    - half of the smallest magnitude in the span for a tiny one, with its sign: wrong by at
      most as much;
    - `min` or `max` for a huge one, by its sign;

    and never beyond `min` and `max`; the smallest and the largest finite value are exact.

    A channel takes 8 (2 (last - first) 2^bits + 8) bytes: 128 KiB with 7 bits and 64 exponents,
    8 KiB with 3 bits.

    Attributes:
        hist: int64 counts `[channels..., n + 3]`: -inf, the bins from huge negatives to huge
            positives, +inf, NaN.
        edges: float64 `[n + 1]`. Those of negatives are the floats after the opposite ones, so
            that a value and its opposite are in opposite bins.
        count: int64 `[channels...]`, how many values came, NaN aside.
        min, max: float64 `[channels...]`, the finite extremes, exact; NaN where there are none.
            Of integers beyond 2^53 they are rounded outwards.

    Raises:
        RuntimeError: bits or exponents beyond these, or a span of none.
        TypeError: an argument of a type that it does not take.

    Example:
        >>> sketch = torch_histo.QuantileSketch()
        >>> for scale in (1e-3, 1.0, 1e6):
        ...     sketch.update(scale * torch.arange(1, 101))
        >>> sketch.quantile(torch.tensor([0.0, 0.5, 0.9, 1.0]))
        tensor([1.0000e-03, 5.1125e+01, 6.9992e+07, 1.0000e+08], dtype=torch.float64)
        >>> sketch.count, sketch.min
        (tensor(300), tensor(0.0010, dtype=torch.float64))

    Source: the bins of HdrHistogram (Tene) for floats; the bound of DDSketch (Masson, Rim and
    Lee, 2019), here with bins that the bits of a float give.
    """

    min_key: Tensor
    max_key: Tensor
    _place = 0.5
    """Where in their bin values are taken to be: 0 is the end towards zero."""

    def __init__(
        self,
        channels: int | Sequence[int] | None = None,
        bits: int = 7,
        exponents: tuple[int, int] = (-32, 32),
        *,
        device: torch.device | str | None = None,
    ) -> None:
        name = type(self).__name__
        self.bits = integer(name, bits, "bits must be an int")
        if not 0 <= self.bits <= _MOST_BITS:
            raise RuntimeError(f"{name}: bits must be between 0 and {_MOST_BITS}, got {bits}")
        if not (isinstance(exponents, (tuple, list)) and len(exponents) == 2):
            raise TypeError(f"{name}: exponents must be a pair of ints, got {shown(exponents)}")
        first, last = (integer(name, e, "exponents must be a pair of ints") for e in exponents)
        if not -_EXPONENT_BIAS < first < last <= _EXPONENT_BIAS:
            raise RuntimeError(
                f"{name}: exponents must be two ints from -1022 to 1023, the first below the "
                f"second, got {shown(exponents)}"
            )
        self.exponents = (first, last)
        sizes = () if channels is None else _channels(name, channels)
        edges = _logarithmic_edges(self.bits, first, last, device)
        hist = torch.zeros(*sizes, len(edges) + 2, dtype=torch.int64, device=device)
        super().__init__(edges, hist)
        # Keys of the extremes: integers in the order of the floats, of +inf and -inf at first.
        none = torch.full(sizes, torch.inf, dtype=torch.float64, device=device)
        self.register_buffer("min_key", _key(none))
        self.register_buffer("max_key", _key(-none))

    def extra_repr(self) -> str:
        channels = tuple(self.hist.shape[:-1])
        return f"channels={channels}, bits={self.bits}, exponents={self.exponents}"

    @property
    def min(self) -> Tensor:
        return self._extreme(self.min_key)

    @property
    def max(self) -> Tensor:
        return self._extreme(self.max_key)

    def _extreme(self, key: Tensor) -> Tensor:
        return _float(key).where(self.min_key <= self.max_key, torch.nan)

    def update(self, x: Tensor | ArrayLike, dim: int | Sequence[int] | None = None) -> None:
        x = self._tensor_of(x)
        counts = self._counts_of(x, dim)
        dims = None if dim is None else dimensions("QuantileSketch.update", dim)
        low, high = torch.ops.histo.finite_range(x.detach(), dims)
        self.hist.add_(counts)
        self._widen(_key(low), _key(high))

    update.__doc__ = _Stream.update.__doc__

    def _widen(self, low: Tensor, high: Tensor) -> None:
        self.min_key.copy_(torch.minimum(self.min_key, low))
        self.max_key.copy_(torch.maximum(self.max_key, high))

    def reset(self) -> None:
        """Forgets all that came."""
        super().reset()
        none = torch.full_like(self.min_key, torch.inf, dtype=torch.float64)
        self.min_key.copy_(_key(none))
        self.max_key.copy_(_key(-none))

    def merge(self, other: Self) -> Self:
        super().merge(other)
        self._widen(other.min_key.to(self.hist.device), other.max_key.to(self.hist.device))
        return self

    merge.__doc__ = _Stream.merge.__doc__

    def _add_others(self, argument: str, group: dist.ProcessGroup | None) -> None:
        super()._add_others(argument, group)
        distributed.all_reduce(argument, self.min_key, group, dist.ReduceOp.MIN)
        distributed.all_reduce(argument, self.max_key, group, dist.ReduceOp.MAX)

    def _of_channels(self) -> list[tuple[str, Tensor]]:
        keys = [("min_key", self.min_key), ("max_key", self.max_key)]
        return super()._of_channels() + keys

    def _quantile(self, below: Tensor, q: Tensor) -> Tensor:
        total = below[..., -1:]
        rank = ((total - 1) * q).round().long().clamp(min=0)
        at = torch.searchsorted(below, rank, right=True).clamp(max=below.shape[-1] - 1)
        found = self._middles()[at]
        low, high = self._limits()
        first, last = below[..., :1], below[..., -2:-1] - 1  # ranks of the finite extremes
        inside = found.clamp(low, high).where(rank > first, low).where(rank < last, high)
        return inside.where(found.isfinite(), found)

    def _update_channels(self, x: Tensor, dim: Sequence[int], channels: Sequence[slice]) -> None:
        """Counts values of some channels alone."""
        some, index = copy(self), tuple(channels)
        some._buffers = dict(self._buffers)
        for name, counts in self._of_channels():
            some.register_buffer(name, counts[index])  # a view: updates are in place
        some.update(x, dim)

    def _all_channels(self) -> QuantileSketch:
        """A sketch without channels, which has counted what all of them have."""
        one = QuantileSketch(None, self.bits, self.exponents, device=self.hist.device)
        one._place = self._place
        one.hist = self.hist.reshape(-1, self.hist.shape[-1]).sum(0)
        one.min_key, one.max_key = self.min_key.amin(), self.max_key.amax()
        return one

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the finite values, from the counts: nothing is read for them.

        Each value is taken for the middle of its bin, as `quantile` does, within `min` and `max`.
        In the span the mean is so wrong by at most 2^-(bits + 1) of the mean magnitude.

        Returns:
            float64 `[channels...]` each: the mean, NaN for a channel without finite values, and
            the variance of torch.var, NaN for less than two.
        """
        counts = self.hist[..., 1:-2].double()
        low, high = self._limits()
        values = self._middles()[1:-1].clamp(low, high)
        number = counts.sum(-1, keepdim=True)
        mean = (counts * values).sum(-1, keepdim=True) / number
        square = (counts * (values - mean).square()).sum(-1)
        return mean.squeeze(-1), square / (number.squeeze(-1) - 1)

    def _limits(self) -> Iterator[Tensor]:
        """[channels, 1] each; of a channel without finite values +inf and -inf."""
        return (_float(key).unsqueeze(-1) for key in (self.min_key, self.max_key))

    def _middles(self) -> Tensor:
        """What stands for the values of each count, [n + 2]; huge ones are cut off later."""
        positive = self.edges[self.edges.shape[-1] // 2 + 1 : -1]
        middles = positive[:-1] + (positive[1:] - positive[:-1]) * self._place
        largest = self.edges[-1:]
        above = torch.cat((positive[:1] / 2, middles, largest, largest * torch.inf))
        return torch.cat((-above.flip(0), torch.zeros_like(above[:1]), above))

    def _common_edges(self) -> list[float]:
        """Huge values are one more power of two: libraries cannot draw up to the largest float."""
        first, second, *inner, last_but_one, last = self.edges.tolist()
        first, last = max(first, 2 * second), min(last, 2 * last_but_one)
        return [first, second, *inner, last_but_one, last]

    def _drawn(self, counts: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """A bin for each power of two: the bins within one have different widths on the axis.

        Zero and tiny values are one bin, huge ones are drawn as one more power."""
        bins, zero = 1 << self.bits, len(counts) // 2
        below, above = counts[1 : zero - 1], counts[zero + 2 : -1]
        sums = (
            counts[:1],
            below.view(-1, bins).sum(-1),
            counts[zero - 1 : zero + 2].sum(0, keepdim=True),
            above.view(-1, bins).sum(-1),
            counts[-1:],
        )
        counts = torch.cat(sums)
        inner = edges[1:zero:bins], edges[zero + 2 : -1 : bins]
        edges = torch.cat((inner[0][:1] * 2, *inner, inner[1][-1:] * 2))
        filled = counts.nonzero().flatten().tolist() or [len(counts) // 2]
        return counts[filled[0] : filled[-1] + 1], edges[filled[0] : filled[-1] + 2]

    def _scale(self, ax: Any) -> None:
        ax.set_xscale("symlog", base=2, linthresh=2.0 ** self.exponents[0], linscale=3)
        ax.xaxis.get_major_locator().set_params(numticks=9)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        bits = state_dict.get(f"{prefix}edge_bits", self.edge_bits)
        expected = _logarithmic_edges(self.bits, *self.exponents).view(torch.int64)
        if bits.shape == expected.shape and not (bits.is_meta or bits.cpu().equal(expected.cpu())):
            rest[-1].append(f"{prefix}edge_bits are of other bits or exponents: {self}")
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _channels(name: str, channels: int | Sequence[int]) -> list[int]:
    several = channels if isinstance(channels, Sequence) else [channels]
    sizes = [integer(name, c, "channels must be an int or a sequence of ints") for c in several]
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"{name}: channels must be at least 0, got {shown(channels)}")
    return sizes


def _sizes_of(bins: int | Tensor | None, given: Sequence[Tensor]) -> Sequence[int]:
    """The channels of edges, or of the tensors of a range."""
    if are_edges(bins):
        return bins.shape[:-1]
    try:
        sizes: Sequence[int] = torch.broadcast_shapes(*(v.shape for v in given))  # type: ignore[no-untyped-call]
        return sizes
    except RuntimeError:  # which histogram explains
        return ()


def _fractions(name: str, q: float | Sequence[float] | Tensor, device: torch.device) -> Tensor:
    """float64 of none or one dimension on a device."""
    if isinstance(q, Tensor):
        if q.dim() > 1:
            raise RuntimeError(f"{name}: q must have at most one dimension, got {list(q.shape)}")
        return q.detach().to(device, torch.float64)
    q = without_array(q)
    several: Sequence[Any] = q if isinstance(q, (list, tuple)) else [q]
    if not all(isinstance(v, (Real, torch.SymFloat)) and not isinstance(v, bool) for v in several):
        expected = "q must be a number, a sequence of numbers, or a tensor"
        raise TypeError(f"{name}: {expected}, got {shown(q)}")
    if not is_compiling() and not all(0 <= v <= 1 for v in several):
        raise RuntimeError(f"{name}: q must be between 0 and 1, got {shown(q)}")
    found = torch.empty(len(several), dtype=torch.float64, device=device)
    for i, value in enumerate(several):
        found[i].fill_(value)  # a kernel each: a copy from the host would wait
    return found if several is q else found.squeeze(0)


def _key(values: Tensor) -> Tensor:
    """int64 in the order of the floats; both zeros have one."""
    bits = _double(values).view(torch.int64)
    return _ordered(bits.masked_fill(bits == _INT64.min, 0))


def _float(key: Tensor) -> Tensor:
    """What has the key, float64."""
    return _ordered(key).view(torch.float64)


def _double(values: Tensor) -> Tensor:
    """float64, exactly. A CPU that flushes subnormals would make 0 of those of float32."""
    wide = values.double()
    if values.dtype != torch.float32 or values.device.type != "cpu":
        return wide
    bits = values.view(torch.int32)
    magnitude = (bits & 0x7FFFFF).double() * 2.0**-149
    is_subnormal = (bits & 0x7F800000) == 0
    return torch.where(is_subnormal, magnitude.where(bits >= 0, -magnitude), wide)


def _ordered(bits: Tensor) -> Tensor:
    """From the bits of float64 to keys, and back: negatives have their order turned round."""
    return bits ^ ((bits >> 63) & _INT64.max)


def _logarithmic_edges(
    bits: int, first: int, last: int, device: torch.device | str | None = None
) -> Tensor:
    """Made of the bits of float64, in which positive floats and their bits have one order."""
    step = _FRACTION_BITS - bits
    steps = torch.arange(((last - first) << bits) + 1, device=device)
    positive = ((_EXPONENT_BIAS + first) << _FRACTION_BITS) + (steps << step)
    largest = torch.full((1,), torch.finfo(torch.float64).max, dtype=torch.float64, device=device)
    above = torch.cat((positive, largest.view(torch.int64)))
    # One step towards zero: [e_k, e_{k+1}) then holds the opposites of (-e_{k+1}, -e_k].
    below = torch.cat((above[-1:], positive.flip(0) - 1)) + _INT64.min
    return torch.cat((below, torch.arange(2, device=device), above)).view(torch.float64)
