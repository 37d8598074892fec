"""Streams of weights: modules that add up the weights of one tensor after another, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor
from typing_extensions import Self

from torch_histo import distributed
from torch_histo._arguments import filled, name_of, raise_from, shown
from torch_histo._exact import exact_double
from torch_histo._keywords import refuse_keyword
from torch_histo._ranges import Range
from torch_histo._weight_operators import (
    normalize_digits,
    sum_of_digits,
    sum_size,
    weighted_histogram,
)
from torch_histo.streams import ARGUMENTS, StreamingHistogram, checked_bins
from torch_histo.streams._stream import Stream
from torch_histo.weights import density_of, is_number, weight_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class DigitStream(Stream):
    """A stream whose state is the digits of sums.

    They are canonical after each update and merge. So their bits do not depend on how the stream
    was divided, and nothing is rounded before somebody looks."""

    digits: Tensor

    def _add_digits(self, others: Sequence[Tensor]) -> None:
        for (_, own), other in zip(self._of_channels(), others, strict=True):
            own.copy_(normalize_digits(own + other.to(own.device)))

    def _add(self, other: Self) -> None:
        self._add_digits([digits for _, digits in other._of_channels()])

    def _add_others(self, argument: str, group: dist.ProcessGroup | None) -> None:
        for _, digits in self._of_channels():
            distributed.all_reduce(argument, digits, group)
            digits.copy_(normalize_digits(digits))


class WeightedStreamingHistogram(DigitStream, StreamingHistogram):
    """What `StreamingHistogram` makes where it has a `weight_dtype`."""

    square_digits: Tensor
    _arguments = ("x", "weight", "dim", "channel_dim")
    _operator = "weighted_histogram"

    def __init__(
        self,
        bins: int | Tensor | ArrayLike | None = None,
        range: Range | None = None,
        channels: int | Sequence[int] | None = None,
        *,
        edges: Tensor | ArrayLike | None = None,
        weight_dtype: torch.dtype = torch.float32,
        variance: bool = False,
        **unknown: NoReturn,
    ) -> None:
        if unknown:
            refuse_keyword(self._get_name(), unknown, ARGUMENTS)
        check_types(self._get_name(), weight_dtype, variance)
        wide, hist = checked_bins(self._get_name(), bins, range, channels, edges)
        state = {"digits": hist.new_zeros(*hist.shape, sum_size(weight_dtype))}
        if variance:
            state["square_digits"] = hist.new_zeros(*hist.shape, sum_size(torch.float64))
        Stream.__init__(self, wide, **state)
        self.weight_dtype, self.variance = weight_dtype, variance

    @property
    def hist(self) -> Tensor:  # type: ignore[override]
        """The sums of weights `[channels..., n + 3]`: underflow, the bins, overflow, NaN. Each is
        exact, and rounded once: float64, or int64 for integers and bool."""
        sums: Tensor = sum_of_digits(self.digits)
        return sums

    @property
    def count(self) -> NoReturn:
        self._refuse("count", "sums of weights do not tell how many values came")

    def quantile(
        self, q: float | Sequence[float] | Tensor | None = None, **unknown: NoReturn
    ) -> NoReturn:
        self._refuse("quantile", "quantiles are those of counts")

    def _refuse(self, name: str, why: str) -> NoReturn:
        expected = "weight_dtype must be None"
        raise RuntimeError(
            f"{self._get_name()}.{name}: {expected}, as {why}, got {self.weight_dtype}"
        )

    def update(  # type: ignore[override]
        self,
        x: Tensor | ArrayLike,
        weight: float | Tensor | ArrayLike,
        dim: int | Sequence[int] | None = None,
        *,
        channel_dim: int | None = None,
        **unknown: NoReturn,
    ) -> None:
        """Adds the weights of the values of a tensor over `dim`; the other dimensions are the
        channels.

        Nothing synchronizes, and no memory is kept. So the call can be compiled, and captured in
        a CUDA graph, which then adds at each replay.

        Args:
            x: what `torch_histo.histogram` takes, on the device of the module.
            weight: what each value adds to its bin: a tensor on the device of the module, with
                sizes that broadcast to those of `x`, of `weight_dtype` or a narrower one, which is
                widened exactly; or a number, rounded to `weight_dtype`. Gradients end here.
            dim: the dimension or dimensions to add over; None means all, for a module without
                channels.
            channel_dim: the dimension of the channels, instead of `dim`: all others are added
                over.

        Raises:
            RuntimeError: a weight of a wider dtype, of another device, or whose sizes do not
                broadcast; sizes of `x` that are not those of the channels, or another device; and
                what `torch_histo.histogram` raises.
            TypeError: `x` or `weight` is neither a tensor nor numbers, or `x` is a DTensor: pass
                what this process holds.
        """
        x = self._tensor_of(x)
        if channel_dim is not None or unknown:
            x, dim = self._without_channel(x, dim, channel_dim, unknown)
        dims = self._checked_dim(x, dim)
        name = f"{self._get_name()}.update"
        weights = [held_weight(name, self.weight_dtype, x, weight)]
        if self.variance:
            weights.append(exact_double(weights[0]).square())
        try:
            found = [weighted_histogram(x, self.edges, w, dims, flow=True) for w in weights]
        except (RuntimeError, TypeError) as error:
            raise self._in_own_words(error, x) from None
        self._add_digits(found)

    def forward(  # type: ignore[override]
        self,
        x: Tensor | ArrayLike,
        weight: float | Tensor | ArrayLike,
        dim: int | Sequence[int] | None = None,
        *,
        channel_dim: int | None = None,
        **unknown: NoReturn,
    ) -> Tensor:
        """Updates, and returns `x` as a tensor."""
        x = self._tensor_of(x)
        self.update(x, weight, dim, channel_dim=channel_dim, **unknown)
        return x

    def _described(self) -> str:
        types = f"weight_dtype={self.weight_dtype}, variance={self.variance}"
        return f"{self._get_name()} with {types}"

    def _sizes(self) -> Sequence[int]:
        return self.digits.shape[:-2]

    def _of_channels(self) -> list[tuple[str, Tensor]]:
        names = ["digits", "square_digits"] if self.variance else ["digits"]
        return [(name, getattr(self, name)) for name in names]

    def density(self) -> Tensor:
        """sums / (their total * the bins' widths), as `torch_histo.histogram` with `density`:
        float64, of the sizes of channels and bins. The total is exact, and rounded once, too."""
        inner = self.digits[..., 1:-2, :]
        total = sum_of_digits(inner.sum(-2))
        return density_of(sum_of_digits(inner), [self.edges], total, torch.float64)

    def values(self, flow: bool = False) -> npt.NDArray[np.float64]:
        """The sums on the host. With `flow` those outside, too: NaN is overflow, as in
        boost-histogram."""
        return shown_sums(self.digits, 1, flow)

    def variances(self, flow: bool = False) -> npt.NDArray[np.float64] | None:  # type: ignore[override]
        """The sums of squared weights, each exact and rounded once; None without `variance`."""
        return shown_sums(self.square_digits, 1, flow) if self.variance else None

    def counts(self, flow: bool = False) -> npt.NDArray[np.float64] | None:  # type: ignore[override]
        """How many equal weights would have these sums and variances, as UHI has it: values ** 2
        / variances. None without `variance`."""
        variances = self.variances(flow)
        if variances is None:
            return None
        # Not the square, which may overflow.
        values = self.values(flow)
        return np.divide(values, variances, np.zeros_like(values), where=variances != 0) * values

    def _storage(self) -> dict[str, Any]:
        variances = self.variances(flow=True)
        if variances is None:
            return super()._storage()
        return {"type": "weighted", "values": self.values(flow=True), "variances": variances}

    @property
    def _quantity(self) -> str:
        return "sum of weights"

    def _title(self) -> str:
        return f"{self._get_name()} of {self.weight_dtype} weights".replace("torch.", "")

    def _marked(self, q: Sequence[float]) -> npt.NDArray[np.float64]:
        return np.empty((len(self._labels()), 0))

    def extra_repr(self) -> str:
        bins, channels = self.digits.shape[-2] - 3, tuple(self._sizes())
        types = f"weight_dtype={self.weight_dtype}, variance={self.variance}"
        return f"bins={bins}, channels={channels}, {types}"

    def _get_name(self) -> str:
        own = type(self)
        return "StreamingHistogram" if own is WeightedStreamingHistogram else own.__name__


def held_weight(name: str, dtype: torch.dtype, x: Tensor, weight: Any) -> Tensor:
    """A weight of the dtype of a module, or of one that has the same digits."""
    if weight is None:
        expected = "weight must be a number, a tensor, an array or a list of numbers"
        raise TypeError(f"{name}: {expected}, got None: pass 1 to count")
    if is_number(weight) and (dtype.is_floating_point or not _is_float(weight)):
        # Rounded to the dtype, as torch does with numbers; integers are added as int64.
        return filled(x, weight, dtype) if dtype.is_floating_point else weight_of(name, weight, x)
    weight = weight_of(name, weight, x).detach()
    if not _holds(dtype, weight.dtype):
        expected = f"weight must be {_names_of_held(dtype)}, as the module has it"
        raise RuntimeError(f"{name}: {expected}, got {weight.dtype}: pass weight.to({dtype})")
    if sum_size(weight.dtype) == sum_size(dtype):
        return weight  # type: ignore[no-any-return]
    return exact_double(weight) if dtype == torch.float64 else weight.to(dtype)


def shown_sums(digits: Tensor, axes: int, flow: bool) -> npt.NDArray[np.float64]:
    """The sums as a NumPy array, whose last `axes` dimensions are bins. With `flow` those outside,
    too: NaN is overflow."""
    for d in range(digits.dim() - 1 - axes, digits.dim() - 1):
        size = digits.shape[d]
        if flow:
            above = digits.narrow(d, size - 2, 2).sum(d, keepdim=True)
            digits = torch.cat((digits.narrow(d, 0, size - 2), above), d)
        else:
            digits = digits.narrow(d, 1, size - 3)
    return sum_of_digits(digits).double().cpu().numpy()  # type: ignore[no-any-return]


def check_types(name: str, weight_dtype: object, variance: object) -> None:
    if not isinstance(weight_dtype, torch.dtype):
        expected = "weight_dtype must be a dtype of torch or None"
        raise TypeError(f"{name}: {expected}, got {shown(weight_dtype)}")
    if not isinstance(variance, bool):
        raise TypeError(f"{name}: variance must be a bool, got {shown(variance)}")
    device, dtype, layout = "cpu", name_of(weight_dtype), "strided"
    description = device, "float32", layout, 1, device, dtype, layout, 1
    try:
        raise_from(torch.ops.histo._check_weight.default, name, *description)
    except RuntimeError as error:
        raise RuntimeError(str(error).replace("weight must have", "weight_dtype must be")) from None
    is_narrow = weight_dtype.is_floating_point and weight_dtype != torch.float64
    if variance and not is_narrow:
        raise RuntimeError(
            f"{name}: weight_dtype must be a float of at most 32 bits with variance, since float64 "
            f"has the squares of those alone, got {weight_dtype}"
        )


def _is_float(number: Any) -> bool:
    return isinstance(number, (float, torch.SymFloat))


@lru_cache
def _holds(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Whether one dtype has all values of another; int64 stands for all integers and bool."""
    if wide == narrow:
        return True
    if wide.is_floating_point != narrow.is_floating_point or narrow.is_complex:
        return False
    if not wide.is_floating_point:
        if torch.bool in (wide, narrow):
            return wide != torch.bool
        of, inner = torch.iinfo(wide), torch.iinfo(narrow)
        return wide == torch.int64 or (of.min <= inner.min and inner.max <= of.max)
    floats = torch.finfo(wide), torch.finfo(narrow)
    steps = [f.smallest_normal * f.eps for f in floats]
    is_fine = floats[0].eps <= floats[1].eps and steps[0] <= steps[1]
    return is_fine and floats[1].max <= floats[0].max


def _names_of_held(dtype: torch.dtype) -> str:
    if dtype == torch.int64:
        return "integers or bool"
    return f"of dtype {dtype} or a narrower one"
