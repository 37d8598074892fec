"""The base of modules that count streams: edges, counts, and the methods that need no more."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor, nn
from typing_extensions import Self

from torch_histo import distributed
from torch_histo._arguments import (
    all_but_channel,
    dimensions,
    has_values,
    integer,
    is_compiling,
    is_plain,
    kept_sizes,
    raise_as_python_would,
    refuse_dtensor,
    renamed,
    shown,
    tensor_of,
    without_array,
)
from torch_histo._histogram_rules import check_counted
from torch_histo._keywords import refuse_keyword
from torch_histo.histograms import histogram
from torch_histo.quantiles import numbers_beside
from torch_histo.streams._plottable import Plottable
from torch_histo.weights import density_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_histogram_add = torch.ops.histo.histogram_add_.default
_LOW_BITS = (1 << 31) - 1


class Stream(Plottable, nn.Module):
    """Edges, and the counts between them of all that came.

    Buffers are integers, so that `.half()`, `.bfloat16()` and wrappers that cast the floats of a
    module leave them alone: edges are kept as the bits of float64."""

    hist: Tensor
    edge_bits: Tensor
    _arguments: tuple[str, ...] = ("x", "dim", "channel_dim")
    """Those of `update`."""
    _operator = "histogram_add_"
    """What adds, as its errors name it."""

    def __init__(self, edges: Tensor, **state: Tensor) -> None:
        super().__init__()
        self.register_buffer("edge_bits", edges.view(torch.int64))
        for name, tensor in state.items():
            self.register_buffer(name, tensor)

    @property
    def edges(self) -> Tensor:
        """The edges of the bins, float64, on the device of the module."""
        return self.edge_bits.view(torch.float64)

    @property
    def count(self) -> Tensor:
        """How many values came for each channel, NaN aside: int64, of the sizes of channels."""
        return self.hist[..., :-1].sum(-1)

    def update(
        self,
        x: Tensor | ArrayLike,
        dim: int | Sequence[int] | None = None,
        *,
        channel_dim: int | None = None,
        **unknown: NoReturn,
    ) -> None:
        """Counts the values of a tensor over `dim`; the other dimensions are the channels.

        Nothing synchronizes, and no memory is kept. So the call can be compiled, and captured in
        a CUDA graph, which then counts at each replay.

        Args:
            x: what `torch_histo.histogram` takes, on the device of the module.
            dim: the dimension or dimensions to count over; None means all, for a module without
                channels.
            channel_dim: the dimension of the channels, instead of `dim`: all others are counted
                over.

        Raises:
            RuntimeError: sizes that are not those of the channels, or another device; and what
                `torch_histo.histogram` raises.
            TypeError: `x` is neither a tensor nor numbers, or is a DTensor: pass what this process
                holds.
        """
        x = self._tensor_of(x)
        if channel_dim is not None or unknown:
            x, dim = self._without_channel(x, dim, channel_dim, unknown)
        self._add_counts(x, dim)

    def _add_counts(self, x: Tensor, dim: int | Sequence[int] | None) -> None:
        """Counts the values of a tensor over `dim`."""
        # The operator checks all that it is given; its errors are made those of this class later.
        is_checked = not is_plain(x)
        dims = self._checked_dim(x, dim) if is_checked else self._dimensions(dim)
        try:
            _histogram_add(self.hist, x, self.edges, dims, flow=True)
        except (RuntimeError, TypeError) as error:
            if not is_checked:
                self._checked_dim(x, dim)
            raise self._in_own_words(error, x) from None

    def forward(
        self,
        x: Tensor | ArrayLike,
        dim: int | Sequence[int] | None = None,
        *,
        channel_dim: int | None = None,
        **unknown: NoReturn,
    ) -> Tensor:
        """Updates, and returns `x` as a tensor."""
        x = self._tensor_of(x)
        self.update(x, dim, channel_dim=channel_dim, **unknown)
        return x

    def reset(self) -> None:
        """Forgets all that came."""
        for _, counts in self._of_channels():
            counts.zero_()

    def merge(self, other: Self) -> Self:
        """Adds what another module of the same bins and channels has counted; returns itself.

        The result is that of one module that counted both streams. On CUDA this waits for the
        GPU, since it compares the edges.

        Raises:
            RuntimeError: other edges or channels.
            TypeError: another class.
        """
        name = f"{self._get_name()}.merge"
        expected = self._described()
        got = other._described() if isinstance(other, Stream) else type(other).__name__
        if type(other) is not type(self) or got != expected:
            raise TypeError(f"{name}: other must be a {expected}, got {got}")
        bins, got = self._described_bins(), other._described_bins()
        if bins != got:
            raise RuntimeError(f"{name}: other must have {bins}, got {got}")
        own, others = self.edge_bits, other.edge_bits.to(self.edge_bits.device)
        if has_values(own) and has_values(others) and not torch.equal(own, others):
            raise RuntimeError(f"{name}: other must have bins of the same edges, got other edges")
        self._add(other)
        return self

    def _described(self) -> str:
        """What can be merged, in the words of errors."""
        return self._get_name()

    def _described_bins(self) -> str:
        bins, sizes = self.edge_bits.shape[-1] - 1, list(self._sizes())
        return f"{bins} bins and channels {sizes}"

    def _add(self, other: Self) -> None:
        self.hist.add_(other.hist.to(self.hist.device))

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
        name = f"{self._get_name()}.all_reduce"
        distributed.check_group(name, group)
        total = deepcopy(self)
        total._add_others(f"{name}: the module", group)
        return total

    def _add_others(self, argument: str, group: dist.ProcessGroup | None) -> None:
        distributed.all_reduce(argument, self.hist, group)

    def density(self) -> Tensor:
        """counts / (their sum * the bins' widths), as `torch_histo.histogram` with `density`:
        float64, of the sizes of channels and bins. NaN for a channel without counts."""
        return density_of(self.hist[..., 1:-2], [self.edges])

    def quantile(
        self, q: float | Sequence[float] | Tensor | None = None, **unknown: NoReturn
    ) -> Tensor:
        """Quantiles of what came; the class says how near they are. NaN does not count.

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
        if unknown:
            refuse_keyword(f"{self._get_name()}.quantile", unknown, ("q",))
        below = self.hist[..., :-1].cumsum(-1)
        fractions = fractions_of(f"{self._get_name()}.quantile", q, below)
        flat = fractions.reshape(-1)
        valid = (flat >= 0) & (flat <= 1)
        found = self._quantile(below, flat.where(valid, 0.0))
        found = found.where(valid & (below[..., -1:] > 0), torch.nan)
        return found.movedim(-1, 0) if fractions.dim() else found.squeeze(-1)

    def _quantile(self, below: Tensor, q: Tensor) -> Tensor:
        """[channels, q] of the counts up to each bin, [channels, n + 2]: NaN is not among them."""
        raise NotImplementedError

    def _marked(self, q: Sequence[float]) -> npt.NDArray[np.float64]:
        found = self.quantile([float(fraction) for fraction in q]).cpu().numpy()
        return found.reshape(len(q), len(self._labels())).T

    def channel(self, *index: int) -> Self:
        """A copy of one channel, without channels: `sketch.channel(3).plot()`."""
        name = f"{self._get_name()}.channel"
        sizes = self._sizes()
        expected = f"index must be {len(sizes)} ints, one a dimension of channels"
        if len(index) != len(sizes):
            raise RuntimeError(f"{name}: {expected}, got {shown(index)}")
        index = tuple(integer(name, i, expected) for i in index)
        one = deepcopy(self)
        bits = self.edge_bits.expand(*sizes, -1)
        one.edge_bits = bits[index].clone()
        for buffer, counts in one._of_channels():
            one.register_buffer(buffer, counts[index].clone())
        return one

    def _of_channels(self) -> list[tuple[str, Tensor]]:
        """The buffers that have an entry a channel."""
        return [("hist", self.hist)]

    def _without_channel(
        self,
        x: Tensor,
        dim: int | Sequence[int] | None,
        channel_dim: int | None,
        unknown: dict[str, Any],
    ) -> tuple[Tensor, int | Sequence[int] | None]:
        """What `update` counts, and over which dimensions, beside that of the channels."""
        op = f"{self._get_name()}.update"
        if unknown:
            refuse_keyword(op, unknown, self._arguments)
        return all_but_channel(op, x, dim, channel_dim, "x")

    def _tensor_of(self, x: Tensor | ArrayLike) -> Tensor:
        return x if isinstance(x, Tensor) else tensor_of(f"{self._get_name()}.update: x", x)

    def _dimensions(self, dim: int | Sequence[int] | None) -> list[int] | None:
        return None if dim is None else dimensions(f"{self._get_name()}.update", dim) or None

    def _checked_dim(self, x: Tensor, dim: int | Sequence[int] | None) -> list[int] | None:
        """The dimensions to count over, of a tensor that has the channels and the device."""
        name, channels = f"{self._get_name()}.update", list(self._sizes())
        refuse_dtensor(f"{name}: x", x, "x.to_local()")
        if x.device != self.edge_bits.device:
            expected = f"x must be on the device of the module, {self.edge_bits.device}"
            raise RuntimeError(f"{name}: {expected}, got {x.device}: call .to(x.device)")
        dims = self._dimensions(dim)
        try:
            if kept_sizes(x.shape, dims) != channels:
                check_counted("histogram", x, x.dim(), dims)
                expected = f"x must have the channels' sizes, {channels}, beside dim"
                raise RuntimeError(f"{name}: {expected}, got {list(x.shape)} over dim={dim}")
        except (RuntimeError, TypeError) as error:
            raise renamed(error, name, "x") from None
        return dims

    def _in_own_words(self, error: Exception, x: Tensor) -> Exception:
        """An operator's error as that of `update`."""
        try:
            raise_as_python_would(error, f"{self._operator}: input", x)
        except (RuntimeError, TypeError) as found:
            error = found
        return renamed(error, f"{self._get_name()}.update", "x")

    def _counts_of(self, x: Tensor, dim: int | Sequence[int] | None) -> Tensor:
        dims = self._checked_dim(x, dim)
        try:
            return histogram(x, self.edges, dim=dims, flow=True).hist
        except (RuntimeError, TypeError) as error:
            raise renamed(error, f"{self._get_name()}.update", "x") from None


def channel_sizes(name: str, channels: int | Sequence[int]) -> list[int]:
    several = channels if isinstance(channels, Sequence) else [channels]
    sizes = [integer(name, c, "channels must be an int or a sequence of ints") for c in several]
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"{name}: channels must be at least 0, got {shown(channels)}")
    return sizes


def fractions_of(name: str, q: float | Sequence[float] | Tensor | None, counts: Tensor) -> Tensor:
    """float64 of none or one dimension, where the counts are."""
    if isinstance(q, Tensor):
        if q.dim() > 1:
            raise RuntimeError(f"{name}: q must have at most one dimension, got {list(q.shape)}")
        return q.detach().to(counts.device, torch.float64)
    given, q = q, without_array(q)
    several: Sequence[Any] = q if isinstance(q, Sequence) and not isinstance(q, str) else [q]
    if not all(isinstance(v, (Real, torch.SymFloat)) and not isinstance(v, bool) for v in several):
        expected = "q must be a number, a sequence of numbers, or a tensor"
        raise TypeError(f"{name}: {expected}, got {shown(given)}")
    if not is_compiling() and not all(0 <= v <= 1 for v in several):
        raise RuntimeError(f"{name}: q must be between 0 and 1, got {shown(q)}")
    # The numbers of a compiled program are symbols, which float() would fix.
    is_symbol = is_compiling() or any(isinstance(v, torch.SymFloat) for v in several)
    numbers = several if is_symbol else [float(v) for v in several]
    found = numbers_beside(counts, numbers)
    return found if several is q else found.squeeze(0)


def ranks_of(last: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """q * last as an integer and a part from 0 up to 1, for int64 `last` and q from 0 to 1.

    Up to 2^53 it is the product in float64. That has not all integers beyond: integers are
    multiplied there, by the first 31 bits of q and by the rest. The result is right within 2^-20.
    """
    product = last * q
    whole = product.floor()
    high, low = last >> 31, last & _LOW_BITS
    scaled = q * 2.0**31
    steps = scaled.long()
    rest = scaled - steps
    low_steps = low * steps
    fraction = high * rest + (low * rest + (low_steps & _LOW_BITS)) * 2.0**-31
    carry = fraction.floor()
    exact = high * steps + (low_steps >> 31) + carry.long()
    is_float = last <= 1 << 53
    return whole.long().where(is_float, exact), (product - whole).where(is_float, fraction - carry)
