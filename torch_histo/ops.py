"""The operators of the namespace `histo`: typed functions, fake and vmap rules."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import torch
from torch import Tensor

from torch_histo import _library

_library.load()  # the rules below need the operators

# Three look-ups less a call.
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
"""Every name that `variant` takes; README.md says what each kernel does."""


def channel_histogram(
    input: Tensor,
    num_bins: int = 256,
    dim: int | Sequence[int] = 0,
    *,
    variant: str = "auto",
) -> Tensor:
    """Counts the values of an integer tensor, channel by channel.

    Value v counts in bin v where 0 <= v < num_bins; every other value is ignored.
    Counts are exact at any size, and the same bits on every device, in every run
    and with every variant. On CUDA the work is queued on the current stream of the
    input's device and nothing synchronizes; the call can be captured in a graph.

    Args:
        input: a dense tensor of any shape and strides, of dtype bool, uint8, int8, int16,
            int32, int64, uint16, uint32 or uint64, on a CPU or CUDA device. A 0-d tensor
            is a 1-D tensor of one element. Strides that do not reduce to two loops over
            channels and two over the rest cost a contiguous copy first; it takes three
            dimensions in `dim`, or three outside it, for that.
        num_bins: how many bins, at least 1.
        dim: the dimension or dimensions to count over, as in `torch.sum`; negative ones
            count from the end, an empty sequence means all.
        variant: one of `torch_histo.VARIANTS`, the CUDA kernel. The study variants
            take contiguous uint8, 1-D or `[length, channels]` reduced over dim 0, with
            num_bins up to 256. A CPU tensor takes any name: "sequential" runs the
            one-thread definition, every other the parallel engine.

    Returns:
        int64 counts: the dimensions of `input` that are not in `dim`, in order, then
        `num_bins`. `[length, channels]` gives `[channels, num_bins]`.

    Raises:
        RuntimeError: another dtype, layout or device, num_bins below 1, a dim out of
            range or named twice, an unknown variant, or an input that the variant does
            not take.
        TypeError: `input` is not a tensor.

    Example:
        >>> image = torch.tensor([[0, 1], [2, 1], [0, 1]], dtype=torch.uint8)
        >>> torch_histo.channel_histogram(image, num_bins=3)
        tensor([[2, 0, 1],
                [0, 3, 0]])

    Cost: on CUDA one to three launches: zeroing of the counts, where several blocks add to
    the same ones; the count, which reads the input once (of one channel with more bins than a
    table holds up to four times, mostly from the cache); a fold, where blocks leave the tables
    they counted in. Only for the fold there is a workspace besides the result, at most a
    table for each multiprocessor: of 64 KiB for bytes, which makes 8.25 MiB on an H200, and at
    most the shared memory of a block for wider types (227 KiB on an H200). Inputs of up to
    1 MiB have none, nor have channels that are no more than four or lie one after another.
    Nothing grows with the input but the contiguous copy for rare strides.
    `torch_histo.explain` prints all this for one input and one GPU.

    Source: the two-phase shared-memory method follows Shams and Kennedy, "Efficient
    histogram algorithms for NVIDIA CUDA compatible devices" (2007); the study variants
    follow Kirk and Hwu, "Programming Massively Parallel Processors", chapter "Parallel
    histogram".
    """
    _require_tensor("channel_histogram: input", input)
    counts: Tensor = _channel_histogram(input, num_bins, _dimensions(dim), variant=variant)
    return counts


def text_histogram(text: Tensor | str | bytes, *, variant: str = "auto") -> Tensor:
    """Counts the lower-case letters of a text in seven bins of four letters.

    The bins are a-d, e-h, i-l, m-p, q-t, u-x and y-z; everything else is ignored,
    capitals included. A str is counted in UTF-8, whose bytes beyond ASCII are no letters.

    Args:
        text: a 1-D uint8 tensor on a CPU or CUDA device, or a str or bytes.
        variant: as in `channel_histogram`.

    Returns:
        int64 counts of shape `[7]`, on the device of `text`.

    Raises:
        RuntimeError: a tensor that is not 1-D uint8 or not dense, an unknown variant.
        TypeError: `text` is none of the types above.

    Example:
        >>> torch_histo.text_histogram("a histogram of text")
        tensor([2, 4, 1, 3, 5, 1, 0])

    Source: the running example of the chapter "Parallel histogram" in Kirk and Hwu,
    "Programming Massively Parallel Processors".
    """
    if isinstance(text, str):
        text = text.encode()
    if isinstance(text, bytes):
        # frombuffer refuses empty buffers, and warns of read-only ones.
        empty = torch.empty(0, dtype=torch.uint8)
        text = torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else empty
    _require_tensor("text_histogram: text", text, "a torch.Tensor, str or bytes")
    counts: Tensor = torch.ops.histo.text_histogram(text, variant=variant)
    return counts


def _dimensions(dim: int | Sequence[int]) -> list[int]:
    if isinstance(dim, int):  # as nearly always; the check below takes longer than the count
        return [dim]
    return [index(d) for d in dim] if isinstance(dim, Sequence) else [index(dim)]


def _require_tensor(argument: str, value: object, expected: str = "a torch.Tensor") -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{argument} must be {expected}, got {type(value).__name__}")


def _check_channel_histogram(
    input: Tensor, ndim: int, num_bins: int, dim: Sequence[int], variant: str
) -> None:
    """Raises what the kernels would, for a tensor of which only the metadata count."""
    check = torch.ops.histo._check_channel_histogram
    _raise_if(check(*_describe(input, variant), ndim, num_bins, dim, variant))


def _raise_if(error: str) -> None:
    if error:
        raise RuntimeError(error)


def _describe(tensor: Tensor, variant: str) -> tuple[str, str, str, bool]:
    """What the checks in C++ need to know of a tensor that may hold no data."""
    # Asking for contiguity would guard on sizes, and only the study variants care.
    contiguous = variant == "auto" or tensor.is_contiguous()
    dtype, layout = str(tensor.dtype), str(tensor.layout)
    return (
        tensor.device.type,
        dtype.removeprefix("torch."),
        layout.removeprefix("torch."),
        contiguous,
    )


@torch.library.register_fake("histo::channel_histogram")  # type: ignore[untyped-decorator]
def _(
    input: Tensor, num_bins: int = 256, dim: Sequence[int] = (0,), *, variant: str = "auto"
) -> Tensor:
    _check_channel_histogram(input, input.dim(), num_bins, dim, variant)
    reduced = {d % max(input.dim(), 1) for d in dim} or set(range(input.dim()))
    kept = [size for d, size in enumerate(input.shape) if d not in reduced]
    return input.new_empty([*kept, num_bins], dtype=torch.int64)


@torch.library.register_fake("histo::text_histogram")  # type: ignore[untyped-decorator]
def _(text: Tensor, *, variant: str = "auto") -> Tensor:
    check = torch.ops.histo._check_text_histogram
    _raise_if(check(*_describe(text, variant), text.dim(), variant))
    return text.new_empty([7], dtype=torch.int64)


@torch.library.register_vmap("histo::channel_histogram")  # type: ignore[untyped-decorator]
def _(
    info: object,
    in_dims: tuple[int | None, ...],
    input: Tensor,
    num_bins: int = 256,
    dim: Sequence[int] = (0,),
    *,
    variant: str = "auto",
) -> tuple[Tensor, int]:
    batch = input.movedim(in_dims[0] or 0, 0)
    if variant != "auto" and len(batch):  # a study variant takes one sample at a time
        samples = [channel_histogram(x, num_bins, dim, variant=variant) for x in batch]
        return torch.stack(samples), 0
    _check_channel_histogram(batch, batch.dim() - 1, num_bins, dim, variant)
    if batch.dim() == 1:  # of numbers, each a 1-D sample of one element
        batch = batch.unsqueeze(1)
    # Dimensions of a sample count from the end alike in the batch.
    dims = [d if d < 0 else d - batch.dim() + 1 for d in dim or range(batch.dim() - 1)]
    return channel_histogram(batch, num_bins, dims), 0


@torch.library.register_vmap("histo::text_histogram")  # type: ignore[untyped-decorator]
def _(
    info: object, in_dims: tuple[int | None, ...], text: Tensor, *, variant: str = "auto"
) -> tuple[Tensor, int]:
    batch = text.movedim(in_dims[0] or 0, 0)
    samples = [text_histogram(sample, variant=variant) for sample in batch]
    return torch.stack(samples) if samples else batch.new_empty((0, 7), dtype=torch.int64), 0
