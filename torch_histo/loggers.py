"""Histograms for TensorBoard, Weights & Biases and Trackio: counted on the device.

Users know this module as `torch_histo.logging`. A file of that name would hide the standard
library's module from a Python that is started in this folder.

Each of those packages is imported only when something is made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from numbers import Real
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from torch_histo import _exact
from torch_histo._arguments import integer, renamed, shown, tensor_of
from torch_histo.histograms import histogram

__all__ = ["Counts", "Watch", "histograms", "to_tensorboard", "to_trackio", "to_wandb"]


class _HistogramOfNumpy(NamedTuple):
    hist: npt.NDArray[np.int64]
    bin_edges: npt.NDArray[np.float64]


class Counts(_HistogramOfNumpy):
    """The result of np.histogram: int64 `[n]` and float64 `[n + 1]`.

    Attributes:
        sum, sum_squares: of the finite values themselves, in float64; infinite or 0 if they are
            beyond it. None where it was made of counts and edges alone.
        nan, inf: how many values are NaN, and how many infinite. They are in no bin.
    """

    sum: float | None = None
    sum_squares: float | None = None
    nan: int = 0
    inf: int = 0


def histograms(
    tensors: nn.Module | Mapping[str, Tensor], bins: int = 64, *, gradients: bool = True
) -> dict[str, Counts]:
    """Counts many tensors and waits for the GPU once in all, as long as they are on one device.

    Args:
        tensors: tensors by name; or a module, whose parameters are named as `named_parameters`
            does, and their gradients the same with `.grad` behind it; sparse ones with
            their zeros.
        bins: how many bins of equal width between the smallest and the largest finite value of
            each tensor, as `torch_histo.histogram`: NaN and infinities are not counted.
        gradients: whether those of a module are counted; a parameter that has none is left out.

    Returns:
        Counts and edges by name, on the host, and as attributes the `sum` and the `sum_squares`
        of the finite values, and how many values are `nan` and `inf`.

    Raises:
        RuntimeError, TypeError: what `torch_histo.histogram` raises; a tensor that has no values
            yet: a lazy parameter, or one on the meta device.

    Example:
        >>> found = torch_histo.logging.histograms({"weight": torch.tensor([0.0, 1, 1])}, bins=2)
        >>> found["weight"].hist.tolist(), found["weight"].bin_edges.tolist()
        ([1, 2], [0.0, 0.5, 1.0])
        >>> found = torch_histo.logging.histograms({"weight": torch.tensor([torch.nan, 1, 1])})
        >>> found["weight"].nan
        1

    Source: wandb.watch, and add_histogram of torch.utils.tensorboard, one call a tensor.
    """
    bins = integer("histograms", bins, "bins must be an int")
    named: Iterable[tuple[str, Tensor]]
    if isinstance(tensors, nn.Module):
        named = _of_module(tensors, gradients)
    elif isinstance(tensors, Mapping):
        named = tensors.items()
    else:
        expected = "tensors must be a module or a mapping of names to tensors"
        raise TypeError(f"histograms: {expected}, got {shown(tensors)}")
    parts: dict[torch.device, list[Tensor]] = {}
    devices = {}
    for name, tensor in named:
        _check_values(name, tensor)
        try:
            hist, edges = histogram(tensor, bins)
        except (RuntimeError, TypeError) as error:
            raise renamed(error, "histograms", f"tensors[{name!r}]") from None
        devices[name] = hist.device
        edges = edges.double()
        values = tensor_of(f"histograms: tensors[{name!r}]", tensor)
        found = _exact.read(values, ())
        # As the bits of float64: one type, so that one copy takes all.
        numbers = torch.cat((edges, found.sum[None], found.squares[None])).view(torch.int64)
        parts.setdefault(hist.device, []).extend((hist, numbers, found.nan[None], found.inf[None]))
    arrays = {device: iter(_on_host(queued, bins)) for device, queued in parts.items()}
    return {name: next(arrays[device]) for name, device in devices.items()}


def _check_values(name: str, tensor: Any) -> None:
    """Raises an error for a tensor that holds no values."""
    argument = f"histograms: tensors[{name!r}] must have values"
    if is_lazy(tensor):
        remedy = "run the module once, which gives it a shape"
        raise RuntimeError(f"{argument}, got {type(tensor).__name__}: {remedy}")
    if isinstance(tensor, Tensor) and tensor.is_meta:
        remedy = "load its values, or call to_empty and initialize it"
        raise RuntimeError(f"{argument}, got a tensor on the meta device: {remedy}")


def _of_module(module: nn.Module, gradients: bool) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in module.named_parameters():
        yield name, parameter
        if gradients and parameter.grad is not None:
            grad = parameter.grad
            yield f"{name}.grad", grad if grad.layout == torch.strided else grad.to_dense()


def _on_host(queued: list[Tensor], bins: int) -> Iterator[Counts]:
    rows = torch.cat(queued).cpu().view(-1, 2 * bins + 5).numpy()
    for row in rows:
        counts = Counts(row[:bins], row[bins:-4].view(np.float64))
        counts.sum, counts.sum_squares = row[-4:-2].view(np.float64).tolist()
        counts.nan, counts.inf = row[-2:].tolist()
        yield counts


def to_tensorboard(
    writer: Any, found: Mapping[str, Counts], step: int | None = None, prefix: str = ""
) -> None:
    """Writes histograms by `add_histogram_raw` of a `SummaryWriter`.

    Its sum and sum of squares, which TensorBoard does not draw, are those of the values. The number
    of NaN is the scalar NAME/nan, and that of infinities NAME/inf, if there are any. If no value is
    finite there is no histogram.

    Args:
        writer: a `torch.utils.tensorboard.SummaryWriter`, or what has its `add_histogram_raw` and
            `add_scalar`.
        found: what `histograms` returned, or pairs of counts and edges; the sums of those are of
            the bins' middles.
        step: the step; None is what the writer takes it for.
        prefix: put before each name.

    Raises:
        TypeError: an argument of a type that it does not take.
    """
    if not hasattr(writer, "add_histogram_raw"):
        raise TypeError(f"to_tensorboard: writer must be a SummaryWriter, got {shown(writer)}")
    found = _checked("to_tensorboard", found, prefix)
    for name, number in _not_finite(found):
        writer.add_scalar(f"{prefix}{name}", number, step)
    for name, counts in _with_values(found):
        hist, edges = counts
        total, squares = _sums(counts)
        writer.add_histogram_raw(
            f"{prefix}{name}",
            min=float(edges[0]),
            max=float(edges[-1]),
            num=int(hist.sum()),
            sum=total,
            sum_squares=squares,
            bucket_limits=edges[1:].tolist(),
            bucket_counts=hist.tolist(),
            global_step=step,
        )


def _checked(op: str, found: object, prefix: object) -> dict[str, Counts]:
    """The results of `histograms`, or pairs of counts and edges as these."""
    _check_prefix(op, prefix)
    if not isinstance(found, Mapping):
        expected = "found must be a mapping of names to counts and edges, as histograms returns"
        raise TypeError(f"{op}: {expected}, got {shown(found)}")
    return {name: _as_counts(f"{op}: found[{name!r}]", counts) for name, counts in found.items()}


def _check_prefix(op: str, prefix: object) -> None:
    if not isinstance(prefix, str):
        raise TypeError(f"{op}: prefix must be a str, got {shown(prefix)}")


def _as_counts(argument: str, counts: Any) -> Counts:
    if isinstance(counts, Counts):
        return counts
    try:
        hist, edges = map(np.asarray, counts)
        is_pair = hist.ndim == 1 and edges.shape == (len(hist) + 1,)
    except (TypeError, ValueError, RuntimeError):  # no two, or tensors that NumPy does not take
        is_pair = False
    if not is_pair:
        expected = f"{argument} must be a pair of n counts and n + 1 edges"
        raise TypeError(f"{expected}, got {shown(counts)}")
    return Counts(hist, edges)


def _not_finite(found: Mapping[str, Counts]) -> Iterator[tuple[str, int]]:
    """How many values are NaN or infinite, where any are."""
    for name, counts in found.items():
        for kind in ("nan", "inf"):
            if number := getattr(counts, kind):
                yield f"{name}/{kind}", number


def _with_values(found: Mapping[str, Counts]) -> Iterator[tuple[str, Counts]]:
    """The histograms that are not empty. The range of an empty one is not known."""
    return ((name, counts) for name, counts in found.items() if np.any(counts[0]))


def _sums(counts: Counts) -> tuple[float, float]:
    """Those of the values, or of the middles of bins that hold any if the values are unknown."""
    total, squares = counts.sum, counts.sum_squares
    if total is not None and squares is not None:
        return total, squares
    hist, edges = counts
    filled = np.asarray(hist) > 0  # 0 times infinity is NaN
    with np.errstate(over="ignore"):
        middles = (edges[:-1] / 2 + edges[1:] / 2)[filled]
        return float((hist[filled] * middles).sum()), float((hist[filled] * middles**2).sum())


def to_wandb(found: Mapping[str, Counts], prefix: str = "") -> dict[str, Any]:
    """`wandb.Histogram` objects by name: `run.log(to_wandb(histograms(model)))`.

    The number of NaN is under NAME/nan, and that of infinities under NAME/inf, if there are any. If
    no value is finite there is no histogram.

    Args:
        found: what `histograms` returned, of at most 512 bins, which is wandb's limit.
        prefix: put before each name.

    Raises:
        ImportError: wandb is missing.
        TypeError: an argument of a type that it does not take.
    """
    return _boxed("wandb", found, prefix)


def to_trackio(found: Mapping[str, Counts], prefix: str = "") -> dict[str, Any]:
    """`trackio.Histogram` objects by name: `trackio.log(to_trackio(histograms(model)))`.

    NAME/nan and NAME/inf are as those of `to_wandb`.

    Args:
        found: what `histograms` returned.
        prefix: put before each name.

    Raises:
        ImportError: trackio is missing.
        TypeError: an argument of a type that it does not take.
    """
    return _boxed("trackio", found, prefix)


def _boxed(package: str, found: Mapping[str, Counts], prefix: str) -> dict[str, Any]:
    found = _checked(f"to_{package}", found, prefix)
    try:
        box = import_module(package).Histogram
    except ImportError as error:
        raise ImportError(f"to_{package}: needs {package}: pip install {package}") from error
    boxes = {name: box(np_histogram=tuple(counts)) for name, counts in _with_values(found)}
    return {f"{prefix}{name}": value for name, value in (*boxes.items(), *_not_finite(found))}


class Watch:
    """Logs histograms of all parameters and gradients of a module: a line in a training loop.

    A call of `log` waits for the GPU once in all, and only at the steps that are logged. How many
    values are NaN is logged as NAME/nan, and how many are infinite as NAME/inf, if there are any.

    Args:
        module: whose parameters are logged, and their gradients where they have some.
        writer: a `torch.utils.tensorboard.SummaryWriter`; a run of wandb or trackio, as their
            `init` returns it; or `wandb` or `trackio` itself, which means the current run.
        every: log at the steps that are multiples of this.
        bins, gradients: as `histograms` takes them.
        prefix: put before each name.

    Raises:
        RuntimeError: `every` or `bins` is less than 1.
        TypeError: an argument of a type that it does not take.

    Example::

        watch = torch_histo.logging.Watch(model, SummaryWriter("runs"), every=100)
        for step, batch in enumerate(batches):
            loss(model(batch)).backward()
            watch.log(step)
            optimizer.step()

    Source: wandb.watch.
    """

    def __init__(
        self,
        module: nn.Module,
        writer: Any,
        *,
        every: int = 1,
        bins: int = 64,
        gradients: bool = True,
        prefix: str = "",
    ) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"Watch: module must be a torch.nn.Module, got {shown(module)}")
        self.every = integer("Watch", every, "every must be an int")
        if self.every < 1:
            raise RuntimeError(f"Watch: every must be at least 1, got {every}")
        self.bins = integer("Watch", bins, "bins must be an int")
        if self.bins < 1:
            raise RuntimeError(f"Watch: bins must be at least 1, got {bins}")
        _check_prefix("Watch", prefix)
        self.module, self.gradients = module, gradients
        self._write = _writing_to(writer, prefix)

    def log(self, step: int) -> None:
        """Logs what the parameters and gradients are now, if `step` is a multiple of `every`.

        Raises:
            TypeError: `step` is no number.
        """
        if not isinstance(step, (Real, Tensor)):
            raise TypeError(f"Watch.log: step must be a number, got {shown(step)}")
        if step % self.every == 0:
            self._write(histograms(self.module, self.bins, gradients=self.gradients), step)


def _writing_to(writer: Any, prefix: str) -> Callable[[Mapping[str, Counts], int], None]:
    if hasattr(writer, "add_histogram_raw"):
        return lambda found, step: to_tensorboard(writer, found, step, prefix)
    # Both packages and their runs have a function log(data, step=...).
    home = writer.__name__ if isinstance(writer, ModuleType) else type(writer).__module__
    boxed = {"wandb": to_wandb, "trackio": to_trackio}.get(home.partition(".")[0])
    if boxed is None or not hasattr(writer, "log"):
        expected = "writer must be a SummaryWriter, or a run of wandb or trackio"
        raise TypeError(f"Watch: {expected}, got {shown(writer)}")
    return lambda found, step: writer.log(boxed(found, prefix), step=step)
