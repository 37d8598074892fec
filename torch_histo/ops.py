"""The operators of the namespace `histo`: typed functions, fake and vmap rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from torch_histo import _library
from torch_histo._arguments import (
    DEFAULT_BINS,
    FIRST,
    all_but_channel,
    describe,
    dimensions,
    empty_counts,
    is_compiling,
    number_of_bins,
    of_all_samples,
    raise_as_python_would,
    raise_from,
    require,
    shown,
    tensor_of,
)
from torch_histo._keywords import refuse_keyword
from torch_histo.weights import Add, weight_of, weighted_sums

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_library.load()  # the rules below need the operators

# Found once, which saves each call four look-ups.
_channel_histogram = torch.ops.histo.channel_histogram

VARIANTS: tuple[str, ...] = (
    "auto",
    "global_atomic",
    "privatized_global",
    "privatized_shared",
    "coarsened_contiguous",
    "coarsened_interleaved",
    "aggregated",
    "tiled",
    "sequential",
)
"""Every name that `variant` takes; docs/variants.md says what each kernel does."""

_ARGUMENTS = ("input", "num_bins", "dim", "channel_dim", "weight", "variant")


def channel_histogram(
    input: Tensor | ArrayLike,
    num_bins: int | None = None,
    dim: int | Sequence[int] | None = FIRST,
    *,
    channel_dim: int | None = None,
    weight: Tensor | ArrayLike | None = None,
    variant: str = "auto",
    bins: int | None = None,
    **unknown: NoReturn,
) -> Tensor:
    """Counts the values of an integer tensor, channel by channel, or adds up their weights.

    Value v counts in bin v where 0 <= v < num_bins; every other value is ignored.
    Counts are exact at any size, and the same bits on every device, in every run
    and with every variant. On CUDA the work is queued on the current stream of the
    input's device and nothing synchronizes; the call can be captured in a graph.

    Args:
        input: a dense tensor of any shape and strides, of dtype bool, uint8, int8, int16,
            int32, int64, uint16, uint32 or uint64, on a CPU or CUDA device. A 0-d tensor
            is a 1-D tensor of one element. Views are read in place, unless their strides do
            not reduce to two loops over channels and three over the rest, which takes four
            dimensions in `dim` or three outside it: those cost a contiguous copy first.
            An array of NumPy, an image of Pillow or a list of numbers will do, too: it is counted
            on its device, and read in place where torch can.
        num_bins: how many bins, at least 0. An integer of NumPy or an integer tensor of one
            element on the CPU will do, too. bool and uint8 have 256 by default. The number must be
            given for other types, which have values beyond 255 or below 0.
        dim: the dimension or dimensions to count over, as in `torch.sum`, by default the first;
            negative ones count from the end, None and an empty sequence mean all.
        channel_dim: the one dimension that is not counted over, instead of `dim`, which must be
            left out then.
        weight: what each element adds to its bin, instead of 1, as in `torch_histo.histogram`.
            It takes no study variant.
        variant: one of `torch_histo.VARIANTS`, the CUDA kernel. The study variants
            take contiguous uint8, 1-D or `[length, channels]` reduced over dim 0, with
            num_bins up to 256. A CPU tensor takes any name: "sequential" runs the
            one-thread definition, every other the parallel engine.
        bins: another name of `num_bins`.

    Returns:
        int64 counts: the dimensions of `input` that are not in `dim`, in order, then
        `num_bins`. `[length, channels]` gives `[channels, num_bins]`. With `weight` the exact
        sums of weights, as `torch_histo.histogram` has them.

    Raises:
        RuntimeError: another dtype, layout or device, num_bins below 0, no num_bins for another
            dtype than bool and uint8, a dim out of range or named twice, an unknown variant, or
            an input or weight that the variant does not take; a weight of another device, or whose
            sizes do not broadcast.
        torch.OutOfMemoryError: the GPU has not the memory for the counts or the workspace; a
            RuntimeError of the same words from `torch.ops.histo.channel_histogram` and from
            compiled code. All that was allocated is free again, and the next call works.
        TypeError: `input` is neither a tensor nor numbers, another argument of a type that it
            does not take, or a keyword that is no argument, such as `axis`.

    Example:
        >>> image = torch.tensor([[0, 1], [2, 1], [0, 1]], dtype=torch.uint8)
        >>> torch_histo.channel_histogram(image, num_bins=3)
        tensor([[2, 0, 1],
                [0, 3, 0]])
        >>> torch_histo.channel_histogram(image, num_bins=3, weight=0.5)
        tensor([[1.0000, 0.0000, 0.5000],
                [0.0000, 1.5000, 0.0000]], dtype=torch.float64)

    Cost on CUDA: one to three launches. The first sets the counts to zero, if several blocks add
    to the same ones. The second counts, and reads the input once; one channel with up to four
    times the bins that fit a table is read once for each table, mostly from the cache. The third
    sums the tables of the blocks, if there are any. These tables are a workspace of at most 64
    KiB for bytes, or 227 KiB for wider types, for each multiprocessor: 8.5 or 30 MiB on an H200.
    One channel of 16 MiB or more with still more bins takes 16.5 MiB there. Inputs of up to 1 MiB
    need no workspace. Nothing grows with the input, except the contiguous copy that rare strides
    need.
    `torch_histo.explain` returns all this for one input and one GPU.

    Cost on the CPU: the threads are torch's (`torch.set_num_threads`). A forked process counts in
    one thread, because it does not have the threads of its parent. Each thread counts in tables
    and adds them to the result. These tables and a tile of the input take at most 1 MiB a thread.
    They have 16-bit or 32-bit counters for up to 4096 bins, whichever this processor is faster
    with, and 32-bit counters for up to some 130,000 bins.

    With more bins (2^24), or with fewer elements a channel than bins, threads count in the result
    itself. If there are channels for all threads, each thread has its own channels, and no memory
    is needed beyond the result (2^20 channels of 256 bins). With fewer channels, each thread has
    a private copy of the result, if all copies together are no larger than the input. If they
    are larger, all threads add to the one result, with atomic additions.

    Source: the two-phase shared-memory method follows Shams and Kennedy, "Efficient
    histogram algorithms for NVIDIA CUDA compatible devices" (2007); the study variants
    follow Kirk and Hwu, "Programming Massively Parallel Processors", chapter "Parallel
    histogram".
    """
    if unknown:
        refuse_keyword("channel_histogram", unknown, _ARGUMENTS)
    if channel_dim is not None:
        input, dim = without_channel(input, dim, channel_dim)
    if weight is not None:
        return weighted_channel_histogram(input, num_bins, dim, weight, variant, bins)
    if not isinstance(input, Tensor):
        input = tensor_of("channel_histogram: input", input)
    # A shorter version would be slower. A call takes 5 us. An argument takes 0.4 us, or 0.8 us if
    # it is passed by its name, and a list takes 0.4 us more.
    if type(num_bins) is not int or bins is not None:
        num_bins = number_of_bins(
            "channel_histogram", num_bins, bins, input.dtype, is_cpu=input.is_cpu
        )
    only = dim[0] if type(dim) is tuple and len(dim) == 1 else dim
    # A compiler's symbol says that it is an int, but only a list may hold it.
    dims = (
        only if type(only) is int and not is_compiling() else dimensions("channel_histogram", dim)
    )
    counts: Tensor
    try:
        if variant != "auto":
            counts = _channel_histogram(input, num_bins, dims, variant=variant)
        elif dims == 0 and type(num_bins) is int and num_bins == DEFAULT_BINS:
            counts = _channel_histogram(input)
        else:
            counts = _channel_histogram(input, num_bins, dims)
    except (RuntimeError, TypeError) as error:
        raise_as_python_would(error, "channel_histogram: input", input)
        raise
    return counts


def without_channel(
    input: Tensor | ArrayLike, dim: int | Sequence[int] | None, channel_dim: int
) -> tuple[Tensor, list[int]]:
    input = tensor_of("channel_histogram: input", input)
    return all_but_channel("channel_histogram", input, dim, channel_dim, default=FIRST)


def weighted_channel_histogram(
    input: Tensor | ArrayLike,
    num_bins: int | None,
    dim: int | Sequence[int] | None,
    weight: Tensor | ArrayLike,
    variant: object,
    bins: int | None,
    add: Add | None = None,
) -> Tensor:
    """`channel_histogram` with weights. If several processes hold the data, `add` adds the digits
    of the others."""
    op = "channel_histogram"
    if variant != "auto":
        raise RuntimeError(f"{op}: variant must be 'auto' with weight, got {shown(variant)}")
    input = tensor_of(f"{op}: input", input)
    num_bins = number_of_bins(op, num_bins, bins, input.dtype, is_cpu=input.is_cpu)
    dims, of_element = dimensions(op, dim), weight_of(op, weight, input)
    try:
        return weighted_sums(input, of_element, num_bins, dims, add=add)
    except (RuntimeError, TypeError) as error:
        raise_as_python_would(error, f"{op}: input", input, _unweighted)
        raise


def _unweighted(message: str) -> str:
    return message.replace("weighted_channel_histogram", "channel_histogram")


def text_histogram(
    text: Tensor | ArrayLike | str | bytes, *, variant: str = "auto", **unknown: NoReturn
) -> Tensor:
    """Counts the lower-case letters of a text in seven bins of four letters.

    The bins are a-d, e-h, i-l, m-p, q-t, u-x and y-z; everything else is ignored,
    capitals included. A str is counted in UTF-8, whose bytes beyond ASCII are no letters.

    Args:
        text: a 1-D uint8 tensor on a CPU or CUDA device, a str or bytes. An array of uint8 or a
            list of bytes, numbers from 0 to 255, will do, too.
        variant: as in `channel_histogram`.

    Returns:
        int64 counts of shape `[7]`, on the device of `text`.

    Raises:
        RuntimeError: a tensor that is not 1-D uint8 or not dense, an unknown variant.
        TypeError: `text` is none of the types above, a list has another number, or `variant` is
            not a str.

    Example:
        >>> torch_histo.text_histogram("a histogram of text")
        tensor([2, 4, 1, 3, 5, 1, 0])

    Source: the running example of the chapter "Parallel histogram" in Kirk and Hwu,
    "Programming Massively Parallel Processors".
    """
    if unknown:
        refuse_keyword("text_histogram", unknown, ("text", "variant"))
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    elif isinstance(text, (list, tuple)):
        text = _bytes_of(text)
    if isinstance(text, (bytes, bytearray, memoryview)):
        if is_compiling() or not text:
            # A compiler cannot trace frombuffer, which refuses empty buffers besides.
            text = torch.tensor(list(text), dtype=torch.uint8, device="cpu")
        else:
            text = torch.frombuffer(bytearray(text), dtype=torch.uint8)  # bytes: it warns of them
    text = tensor_of("text_histogram: text", text, "a tensor, an array, a str or bytes")
    try:
        counts: Tensor = torch.ops.histo.text_histogram(text, variant=variant)
    except (RuntimeError, TypeError) as error:
        raise_as_python_would(error, "text_histogram: text", text)
        raise
    return counts


def _bytes_of(text: Sequence[Any]) -> bytes:
    try:
        return bytes(text)
    except (TypeError, ValueError):
        expected = "text must be a list of numbers from 0 to 255"
        raise TypeError(f"text_histogram: {expected}, got {shown(text)}") from None


def _check_channel_histogram(
    input: Tensor,
    ndim: int,
    num_bins: int,
    dim: Sequence[int],
    variant: str,
    *,
    contiguous: bool = True,
) -> None:
    """Raises the errors that the kernels would raise, without data: metadata are enough."""
    if isinstance(num_bins, torch.SymInt):
        # Checked when the program runs: the check below would make a constant of the symbol.
        line = "channel_histogram: num_bins must be"
        require(num_bins >= 0, f"{line} at least 0, got {{}}", num_bins)
        if variant != "auto" and input.device.type == "cuda":
            expected = f"at most 256 for variant '{variant}'"
            require(num_bins <= 256, f"{line} {expected}, got {{}}", num_bins)
        num_bins = 0
    check = torch.ops.histo._check_channel_histogram.default
    raise_from(check, *describe(input), contiguous, ndim, num_bins, dim, variant)


def _check_text_histogram(
    text: Tensor, ndim: int, variant: str, *, contiguous: bool = True
) -> None:
    check = torch.ops.histo._check_text_histogram.default
    raise_from(check, *describe(text), contiguous, ndim, variant)


def _contiguous_enough(tensor: Tensor, variant: str) -> bool:
    # Asking for contiguity would guard on sizes, and only the study variants care.
    return variant == "auto" or tensor.is_contiguous()


@torch.library.register_fake("histo::channel_histogram")  # type: ignore[untyped-decorator]
def _(
    input: Tensor, num_bins: int = 256, dim: Sequence[int] = (0,), *, variant: str = "auto"
) -> Tensor:
    contiguous = _contiguous_enough(input, variant)
    _check_channel_histogram(input, input.dim(), num_bins, dim, variant, contiguous=contiguous)
    return empty_counts("channel_histogram", input, dim, num_bins)


@torch.library.register_fake("histo::text_histogram")  # type: ignore[untyped-decorator]
def _(text: Tensor, *, variant: str = "auto") -> Tensor:
    contiguous = _contiguous_enough(text, variant)
    _check_text_histogram(text, text.dim(), variant, contiguous=contiguous)
    return text.new_empty([7], dtype=torch.int64)


def _count_samples(
    batch: Tensor, at: int, dim: Sequence[int], num_bins: int, variant: str
) -> tuple[Tensor, int]:
    """The counts of all samples by one call, and where their dimension is in the result.

    The samples lie along dimension `at` of the batch; `dim` are dimensions of a sample.
    """
    batch, dims, place = of_all_samples(batch, at, dim)
    if variant != "auto" and batch.device.type == "cuda":
        # A study variant takes rows of channels: those of all samples side by side.
        rows = batch.movedim(at, 1)
        counts = channel_histogram(rows.flatten(1).contiguous(), num_bins, variant=variant)
        return counts.reshape(*rows.shape[1:], num_bins), 0
    return channel_histogram(batch, num_bins, dims, variant=variant), place


@torch.library.register_vmap("histo::channel_histogram")  # type: ignore[untyped-decorator]
def _(
    info: object,
    in_dims: tuple[int, ...],
    input: Tensor,
    num_bins: int = 256,
    dim: Sequence[int] = (0,),
    *,
    variant: str = "auto",
) -> tuple[Tensor, int]:
    _check_channel_histogram(input, input.dim() - 1, num_bins, dim, variant)
    return _count_samples(input, in_dims[0], dim, num_bins, variant)


@torch.library.register_vmap("histo::text_histogram")  # type: ignore[untyped-decorator]
def _(
    info: object, in_dims: tuple[int, ...], text: Tensor, *, variant: str = "auto"
) -> tuple[Tensor, int]:
    _check_text_histogram(text, text.dim() - 1, variant)
    # One text is a call of its own; many are channels, whose letters join four to a bin.
    counts, at = _count_samples(text, in_dims[0], (0,), ord("z") + 1, variant)
    letters = torch.nn.functional.pad(counts[..., ord("a") :], (0, 2))
    return letters.reshape(*letters.shape[:-1], 7, 4).sum(-1), at
