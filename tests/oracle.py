"""The one oracle: what every count is compared with. It knows nothing of torch_histo."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.uint16,
    torch.int16,
    torch.uint32,
    torch.int32,
    torch.uint64,
    torch.int64,
)

FLOATS = (
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
NUMBERS = (*FLOATS, *DTYPES)
"""The types of histogram; DTYPES are those of channel_histogram."""
EDGE_DTYPES = (torch.float32, torch.float64, *DTYPES[1:])

# As the contract lists them, not as the library does.
STUDY_VARIANTS = (
    "global_atomic",
    "privatized_global",
    "privatized_shared",
    "coarsened_contiguous",
    "coarsened_interleaved",
    "aggregated",
    "tiled",
)
ALL_VARIANTS = ("auto", *STUDY_VARIANTS, "sequential")


BLOCK = 1 << 22
"""Elements that the oracle takes at a time, so that its memory stays bounded."""


def expected_counts(
    values: Tensor,
    num_bins: int = 256,
    dim: int | Sequence[int] | None = 0,
    *,
    by_torch: bool | None = None,
) -> Tensor:
    """Counts by np.bincount of channel * bins + value; a large GPU tensor by torch.bincount.

    Values outside the bins go to one more bin, which is dropped at the end.
    """
    if by_torch is None:
        by_torch = values.is_cuda and values.numel() >= BLOCK
    numbers: Any = torch.atleast_1d(_for_torch(values)) if by_torch else _for_numpy(values)
    shape = tuple(numbers.shape)
    reduced = _reduced(len(shape), dim)
    kept = [1 if d in reduced else size for d, size in enumerate(shape)]
    first_bin = np.arange(math.prod(kept)).reshape(kept) * (num_bins + 1)
    size = math.prod(kept) * (num_bins + 1)
    counts = np.zeros(size, dtype=np.int64)
    longest = max(range(len(shape)), key=shape.__getitem__)
    step = max(1, max(BLOCK, size) * shape[longest] // max(1, math.prod(shape)))
    for start in range(0, shape[longest] if size else 0, step):
        at = tuple(
            slice(start, start + step) if d == longest else slice(None) for d in range(len(shape))
        )
        block = numbers[at]
        first = first_bin[at] if kept[longest] > 1 else first_bin
        if by_torch:
            block = block.long()
            index = torch.where((block >= 0) & (block < num_bins), block, num_bins)
            index += torch.from_numpy(first).to(values.device)
            counts += torch.bincount(index.flatten(), minlength=size).cpu().numpy()
        else:
            inside = (block >= 0) & (block < num_bins)
            numbered = np.where(inside, block.astype(np.int64), num_bins) + first
            counts += np.bincount(numbered.ravel(), minlength=size)
    result = counts.reshape(-1, num_bins + 1)[:, :num_bins]
    result = result.reshape(*(n for d, n in enumerate(shape) if d not in reduced), num_bins)
    return torch.from_numpy(np.ascontiguousarray(result))


def histogram(
    input: Tensor,
    edges: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    flow: bool = False,
) -> Tensor:
    """Counts of any numbers in any bins, one channel at a time: sorted values, searched by edges.

    Bin k holds the values that are below edge k + 1 and not below edge k; the last bin holds
    its upper edge, too. Values and edges are compared as real numbers, neither is rounded.
    With flow: values below all edges, the bins, values above all edges, NaNs.
    A channel whose edges decrease or hold NaN counts nothing but its NaNs.
    """
    channels, kept = _channels(input, dim)
    bounds = _reals(edges)
    num_bins = bounds.shape[-1] - 1
    bounds = np.broadcast_to(bounds, (*kept, num_bins + 1)).reshape(-1, num_bins + 1)
    counts = np.zeros((len(channels), num_bins + 3), dtype=np.int64)
    for values, own, row in zip(channels, bounds, counts, strict=True):
        numbers = np.sort(values[values == values])  # without the NaNs
        row[-1] = len(values) - len(numbers)
        if (own[:-1] <= own[1:]).all():
            below = _how_many_below(numbers, own)
            row[0] = below[0]
            row[1:-2] = np.diff(below)
            row[-2] = len(numbers) - below[-1]
    counts = counts.reshape(*kept, num_bins + 3)
    return torch.from_numpy(counts if flow else np.ascontiguousarray(counts[..., 1:-2]))


def _how_many_below(
    numbers: np.ndarray[Any, Any], edges: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """How many sorted numbers are less than each edge; not greater than the last one."""
    pair = (numbers, edges)
    if numbers.dtype == edges.dtype or all(_fits_float64(array) for array in pair):
        if numbers.dtype != edges.dtype:
            numbers, edges = (array.astype(np.float64) for array in pair)
        below = np.searchsorted(numbers, edges)
        below[-1] = np.searchsorted(numbers, edges[-1], side="right")
        return below
    # NumPy would round integers of 64 bits to float64; Python compares them exactly.
    ordered, bounds = numbers.tolist(), edges.tolist()
    below = [bisect_left(ordered, edge) for edge in bounds[:-1]]
    return np.array([*below, bisect_right(ordered, bounds[-1])])


def _fits_float64(numbers: np.ndarray[Any, Any]) -> bool:
    return numbers.dtype == np.float64 or numbers.dtype.itemsize < 8


def weighted_histogram(
    input: Tensor,
    edges: Tensor,
    weight: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    flow: bool = False,
    power: int = 1,
) -> Tensor:
    """Sums of weights, or of their squares, in any bins, element by element in Python's integers:
    float64, rounded once, or int64 modulo 2^64. The bins are those of `histogram`."""
    channels, kept = _channels(input, dim)
    weights, _ = _channels(weight.expand(input.shape), dim)
    bounds = _reals(edges)
    last = bounds.shape[-1] - 1
    bounds = np.broadcast_to(bounds, (*kept, last + 1)).reshape(-1, last + 1)
    sums = []
    for values, own, row in zip(channels.tolist(), weights.tolist(), bounds.tolist(), strict=True):
        bins: list[list[Any]] = [[] for _ in range(last + 3)]
        is_right = all(a <= b for a, b in pairwise(row))
        for value, one in zip(values, own, strict=True):
            if value != value:
                bins[-1].append(one)
            elif is_right:
                at = bisect_right(row, value)
                bins[last if value == row[-1] else at].append(one)
        sums += [exact_sum(b, power) for b in (bins if flow else bins[1:-2])]
    dtype = torch.float64 if weight.dtype.is_floating_point else torch.int64
    return torch.tensor(sums, dtype=dtype).reshape(*kept, last + 3 if flow else last)


def weighted_channel_histogram(
    input: Tensor, weight: Tensor, num_bins: int, dim: int | Sequence[int] | None = 0
) -> Tensor:
    """The same for integers: value v is in bin v."""
    edges = torch.arange(num_bins + 2)  # the last bin holds its upper edge, too: it is dropped
    return weighted_histogram(input, edges, weight, dim)[..., :num_bins].clone()


def joint_index(
    inputs: Sequence[Tensor],
    edges: Sequence[Tensor],
    dim: int | Sequence[int] | None = None,
    *,
    flow: bool = False,
) -> tuple[list[list[int]], tuple[int, ...], list[int]]:
    """The joint bin of each element of each channel, -1 where it has none, the sizes of the
    dimensions that are kept, and the slots of each axis. An element after another, in Python."""
    slots = [own.shape[-1] - 1 + 3 * flow for own in edges]
    found: list[list[int]] = []
    kept: tuple[int, ...] = ()
    for input, own, size in zip(inputs, edges, slots, strict=True):
        channels, kept = _channels(input, dim)
        bounds = _reals(own)
        rows = np.broadcast_to(bounds, (*kept, bounds.shape[-1])).reshape(-1, bounds.shape[-1])
        last = bounds.shape[-1] - 1
        found = found or [[0] * len(values) for values in channels]
        for joint, values, row in zip(found, channels.tolist(), rows.tolist(), strict=True):
            is_right = all(a <= b for a, b in pairwise(row))
            for i, value in enumerate(values):
                at = last + 2
                if value == value:
                    at = last if value == row[-1] else bisect_right(row, value)
                    at = at if is_right else -9
                at -= not flow
                joint[i] = joint[i] * size + at if joint[i] >= 0 and 0 <= at < size else -1
    return found, kept, slots


def joint_histogram(
    inputs: Sequence[Tensor],
    edges: Sequence[Tensor],
    dim: int | Sequence[int] | None = None,
    *,
    flow: bool = False,
    weight: Tensor | None = None,
) -> Tensor:
    """Counts of elements by the bins of all their coordinates, or sums of weights as in
    `weighted_histogram`. The inputs have the same sizes."""
    found, kept, slots = joint_index(inputs, edges, dim, flow=flow)
    size = math.prod(slots)
    if weight is None:
        counts = [
            np.bincount(np.array(c, int)[np.array(c, int) >= 0], minlength=size) for c in found
        ]
        numbers = np.array(counts, np.int64).reshape(*kept, *slots)
        return torch.from_numpy(np.ascontiguousarray(numbers))
    weights, _ = _channels(weight.expand(inputs[0].shape), dim)
    sums = []
    for joint, own in zip(found, weights.tolist(), strict=True):
        bins: dict[int, list[Any]] = {}
        for at, one in zip(joint, own, strict=True):
            bins.setdefault(at, []).append(one)
        sums += [exact_sum(bins.get(at, [])) for at in range(size)]
    dtype = torch.float64 if weight.dtype.is_floating_point else torch.int64
    return torch.tensor(sums, dtype=dtype).reshape(*kept, *slots)


def exact_sum(numbers: Sequence[float], power: int = 1) -> float:
    """A sum of floats, or of their squares, rounded once to nearest even, as IEEE has NaN and
    infinities; one of integers as int64, modulo 2^64."""
    if not any(isinstance(number, float) for number in numbers):
        return (sum(number**power for number in numbers) + (1 << 63)) % (1 << 64) - (1 << 63)
    special = [number**power for number in numbers if not math.isfinite(number)]
    if special:
        return math.fsum(special) if len({*map(str, special)}) == 1 else math.nan
    ratios = [number.as_integer_ratio() for number in numbers]
    lowest = 1 << 1074  # every denominator divides it
    total = sum((above * (lowest // below)) ** power for above, below in ratios)
    try:
        return total / lowest**power  # of integers: rounded once
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def any_bits(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Any patterns of bits: all exponents, NaN and infinities among them."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    size = math.prod(shape) * dtype.itemsize
    bits = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)
    return bits.view(dtype).reshape(shape)


def assert_sums(got: Tensor, expected: Tensor, about: object = "") -> None:
    """Same dtype, shape and bits; all NaNs are one."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), about
    bits = []
    for sums in (got, expected):
        own = sums.detach().cpu()
        own = own.masked_fill(own.isnan(), torch.nan) if own.is_floating_point() else own
        bits.append(own.view(torch.int64))
    for at in (bits[0] != bits[1]).nonzero().tolist():
        raise AssertionError(f"{about}: {at}: {got[tuple(at)]} for {expected[tuple(at)]}")


def finite_range(input: Tensor, dim: int | Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
    """The smallest and largest finite number of each channel; +inf and -inf where there is none.

    An integer that float64 cannot hold becomes the next float64 below or above.
    """
    channels, kept = _channels(input, dim)
    lows, highs = [], []
    for values in channels:
        finite = values[np.isfinite(values)]
        low, high = (finite.min().item(), finite.max().item()) if len(finite) else (np.inf, -np.inf)
        lows.append(float(low) if float(low) <= low else np.nextafter(float(low), -np.inf))
        highs.append(float(high) if float(high) >= high else np.nextafter(float(high), np.inf))
    narrow = input.dtype.is_floating_point and input.dtype != torch.float64
    dtype = torch.float32 if narrow else torch.float64
    low, high = (torch.tensor(ends, dtype=torch.float64).to(dtype) for ends in (lows, highs))
    return low.reshape(kept), high.reshape(kept)


def range_of(input: Tensor, dim: int | Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
    """The range that extremes give: 0 and 1 without a finite number, and 0.5 more on either side of
    one number."""
    low, high = finite_range(input, dim)
    none, one = low > high, low == high
    low = torch.where(none, 0.0, torch.where(one, low - 0.5, low))
    return low, torch.where(none, 1.0, torch.where(one, high + 0.5, high))


def uniform_edges(low: Tensor, high: Tensor, num_bins: int, *, dtype: torch.dtype) -> Tensor:
    """Edges of bins of one width, by the arithmetic of np.linspace in the type of low and high.

    Not for ranges that NumPy refuses to cut into so many bins with a subnormal step, ones that
    overflow, and more float32 bins than 2^24 + 1.
    """
    first, last = (end.cpu().numpy()[..., np.newaxis] for end in torch.broadcast_tensors(low, high))
    of_type = first.dtype.type
    with np.errstate(invalid="ignore"):
        step = (last - first) / of_type(num_bins)
        edges = np.arange(num_bins + 1, dtype=of_type) * step + first
        edges = np.minimum(edges, last)
    edges[..., -1:] = last
    return torch.from_numpy(edges).to(dtype)


def quantile(
    input: Tensor,
    q: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    interpolation: str = "linear",
    ignore_nan: bool = False,
) -> Tensor:
    """By sorting, with the ranks of torch.quantile; torch.lerp, on the input's device, is the
    definition of what lies between two values. Reduced dimensions are dropped."""
    channels, kept = _channels(input, dim)
    is_float = input.dtype.is_floating_point
    small = is_float and input.dtype != torch.float64 and channels.shape[1] <= 1 << 24
    rank_type = np.float32 if small else np.float64
    below, above, weights = (np.zeros((q.numel(), len(channels))) for _ in "123")
    for c, values in enumerate(channels):
        ordered = np.sort(values)  # NaN comes last
        nans = int(np.isnan(values).sum()) if is_float else 0
        n = len(values) - nans
        for i, number in enumerate(q.flatten().double().tolist()):
            if not 0 <= number <= 1 or n == 0 or (nans > 0 and not ignore_nan):
                below[i, c] = above[i, c] = weights[i, c] = np.nan
                continue
            rank = rank_type(number) * rank_type(n - 1)
            first, last = int(np.floor(rank)), int(np.ceil(rank))
            if interpolation not in ("linear", "midpoint"):
                nearest = int(np.rint(rank))
                first = last = {"lower": first, "higher": last, "nearest": nearest}[interpolation]
            below[i, c], above[i, c] = ordered[first], ordered[last]
            weights[i, c] = 0.5 if interpolation == "midpoint" else rank - np.floor(rank)
    dtype = torch.float32 if small else torch.float64
    low, high, weight = (torch.tensor(a).to(input.device, dtype) for a in (below, above, weights))
    is_between = interpolation in ("linear", "midpoint")
    result = torch.lerp(low, high, weight) if is_between else low
    return result.to(input.dtype if is_float else torch.float64).reshape(*q.shape, *kept)


LAYOUTS = {
    **dict.fromkeys((torch.float32, torch.bfloat16), (10, -149)),
    **dict.fromkeys((torch.float16, torch.float8_e4m3fn, torch.float8_e5m2), (3, -24)),
    torch.float64: (67, -1074),
}
"""The digits of a sum of weights of a type, and the exponent of the lowest bit."""


def weighted_digits(
    input: Tensor,
    weight: Tensor,
    edges: Tensor | None = None,
    dim: int | Sequence[int] | None = None,
    *,
    num_bins: int = 256,
    flow: bool = False,
) -> Tensor:
    """Sums of weights by bin, in Python's integers: the canonical digits, and the counts of NaN,
    infinity and -infinity; for weights that are integers the sum modulo 2^64. Without edges value v
    is in bin v."""
    channels, kept = _channels(input, dim)
    weights, _ = _channels(weight.expand(input.shape), dim)
    bounds: list[Any] = [None] * len(channels)
    if edges is not None:
        own = _reals(edges)
        num_bins = own.shape[-1] - 1 + 3 * flow
        full = np.broadcast_to(own, (*kept, own.shape[-1]))
        bounds = list(full.reshape(len(channels), own.shape[-1]))
    found = []
    for values, own_weights, row in zip(channels, weights, bounds, strict=True):
        if row is None:
            slots = [v if 0 <= v < num_bins else -1 for v in values.tolist()]
        else:
            slots = _slots(values.tolist(), row.tolist(), flow)
        bins: list[list[Any]] = [[] for _ in range(num_bins)]
        for slot, number in zip(slots, own_weights.tolist(), strict=True):
            if slot >= 0:
                bins[slot].append(number)
        found.extend(_digits_of(numbers, weight.dtype) for numbers in bins)
    size = sum(LAYOUTS[weight.dtype][:1]) + 3 if weight.dtype in LAYOUTS else 1
    digits = np.array(found, dtype=np.int64).reshape(*kept, num_bins, size)
    return torch.from_numpy(digits)


def _slots(values: list[Any], edges: list[Any], flow: bool) -> list[int]:
    """The slot of each value, or -1."""
    bins = len(edges) - 1
    ordered = all(a <= b for a, b in pairwise(edges))
    slots = []
    for value in values:
        if value != value:
            slot = bins + 2
        elif not ordered:
            slot = -1
        elif value == edges[-1]:
            slot = bins
        else:
            slot = bisect_right(edges, value)
        slots.append(slot if flow else slot - 1 if 1 <= slot <= bins else -1)
    return slots


def _digits_of(weights: list[Any], dtype: torch.dtype) -> list[int]:
    if dtype not in LAYOUTS:
        total = sum(weights) % (1 << 64)
        return [total - (1 << 64) if total >> 63 else total]
    size, lowest = LAYOUTS[dtype]
    finite = [w for w in weights if math.isfinite(w)]
    total = int(sum(map(Fraction, finite)) * Fraction(2) ** -lowest)
    digits = [total >> 32 * i & 0xFFFFFFFF for i in range(size - 1)]
    counts = [sum(w != w for w in weights), weights.count(math.inf), weights.count(-math.inf)]
    return [*digits, total >> 32 * (size - 1), *counts]


def sums_of_digits(digits: Tensor) -> Tensor:
    """The sums, rounded once; integers as they are. Digits need not be canonical."""
    size = digits.shape[-1]
    if size == 1:
        return digits.cpu()[..., 0].clone()
    lowest = {13: -149, 6: -24, 70: -1074}[size]
    sums = [_rounded(row, lowest) for row in digits.cpu().reshape(-1, size).tolist()]
    return torch.tensor(sums, dtype=torch.float64).reshape(digits.shape[:-1])


def _rounded(row: list[int], lowest: int) -> float:
    *digits, nans, infinities, negatives = row
    if nans or (infinities and negatives):
        return math.nan
    if infinities or negatives:
        return math.inf if infinities else -math.inf
    total = sum(digit << 32 * i for i, digit in enumerate(digits))
    try:
        return float(total * Fraction(2) ** lowest)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _channels(
    values: Tensor, dim: int | Sequence[int] | None
) -> tuple[np.ndarray[Any, Any], tuple[int, ...]]:
    """A row of real numbers for each channel, and the sizes of the dimensions that are kept."""
    numbers = np.atleast_1d(_reals(values))
    reduced = _reduced(numbers.ndim, dim)
    kept = [d for d in range(numbers.ndim) if d not in reduced]
    shape = tuple(numbers.shape[d] for d in kept)
    elements = math.prod(numbers.shape[d] for d in reduced)
    return np.moveaxis(numbers, kept, range(len(kept))).reshape(math.prod(shape), elements), shape


def _reals(values: Tensor) -> np.ndarray[Any, Any]:
    """The same numbers as NumPy has them; every float is a float64."""
    array = values.detach().cpu()
    if not values.dtype.is_floating_point:
        return _for_numpy(values) if values.dtype == torch.bool else array.numpy()
    # Not by torch: its threads may flush subnormals to zero.
    with np.errstate(invalid="ignore"):  # signaling NaNs
        if values.dtype == torch.bfloat16:
            bits = array.view(torch.int16).numpy().astype(np.uint16)
            return np.asarray(bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if values.dtype.itemsize == 1:
            of_bits = torch.arange(256).to(torch.uint8).view(values.dtype).double().numpy()
            return np.asarray(of_bits[array.view(torch.uint8).numpy()])
        return array.numpy().astype(np.float64)


def counts_by_unique(
    values: Tensor, num_bins: int = 256, dim: int | Sequence[int] | None = 0
) -> Tensor:
    """The definition, which the oracle is compared with: one channel at a time, by np.unique."""
    numbers = _for_numpy(values)
    reduced = _reduced(numbers.ndim, dim)
    kept = [d for d in range(numbers.ndim) if d not in reduced]
    shape = tuple(numbers.shape[d] for d in kept)
    columns = np.moveaxis(numbers, kept, range(len(kept)))
    counts = np.zeros((*shape, num_bins), dtype=np.int64)
    for channel in np.ndindex(*shape):
        found, how_many = np.unique(columns[channel], return_counts=True)
        # Python's integers compare exactly, whatever the type.
        for value, count in zip(found.tolist(), how_many.tolist(), strict=True):
            if 0 <= value < num_bins:
                counts[(*channel, value)] = count
    return torch.from_numpy(counts)


def _for_numpy(values: Tensor) -> np.ndarray[Any, Any]:
    array = values.cpu()
    if values.dtype == torch.bool:  # any nonzero byte is true
        array = (array.view(torch.uint8) != 0).to(torch.uint8)
    return np.atleast_1d(array.numpy())


def _for_torch(values: Tensor) -> Tensor:
    """The same numbers in a type that torch can compare; uint64 beyond int64 becomes negative."""
    if values.dtype == torch.bool:
        return (values.view(torch.uint8) != 0).to(torch.uint8)
    if values.dtype == torch.uint16:
        return values.view(torch.int16).to(torch.int32) & 0xFFFF
    if values.dtype == torch.uint32:
        return values.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    return values.view(torch.int64) if values.dtype == torch.uint64 else values


def _reduced(ndim: int, dim: int | Sequence[int] | None) -> set[int]:
    dims = [dim] if isinstance(dim, int) else list(dim or range(ndim))
    return {d % ndim for d in dims}


def like(values: Tensor, device: torch.device | str) -> Tensor:
    """The same view on the device, gaps and all: to() alone would make it dense."""
    base = torch.empty(0, dtype=values.dtype).set_(values.untyped_storage()).to(device)
    return base.as_strided(values.shape, values.stride(), values.storage_offset())


def expected_letters(text: bytes) -> Tensor:
    counts = [0] * 7
    for byte in text:
        if chr(byte) in "abcdefghijklmnopqrstuvwxyz":
            counts["abcdefghijklmnopqrstuvwxyz".index(chr(byte)) // 4] += 1
    return torch.tensor(counts, dtype=torch.int64)


def assert_counts(got: Tensor, expected: Tensor, about: object = "") -> None:
    """Same dtype, shape and every single count."""
    assert got.dtype == torch.int64, f"{about}: dtype {got.dtype}"
    assert got.shape == expected.shape, f"{about}: {list(got.shape)} for {list(expected.shape)}"
    assert not got.requires_grad
    differing = (got.cpu() != expected.cpu()).nonzero()
    assert len(differing) == 0, (
        f"{about}: {len(differing)} counts differ, the first at {differing[0].tolist()}: "
        f"{got.cpu()[tuple(differing[0])]} for {expected.cpu()[tuple(differing[0])]}"
    )


def random_values(
    shape: Sequence[int], dtype: torch.dtype, seed: int = 0, *, low: int = -40, high: int = 300
) -> Tensor:
    """Values of the dtype around the usual bins, and its extremes among them."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point:
        reals = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
        reals[torch.rand(shape, generator=generator) < 0.2] //= 1  # some integers
        extremes = (-0.0, math.inf, -math.inf, math.nan)
        for first, extreme in enumerate(extremes[: reals.numel()]):
            reals.view(-1)[first :: max(reals.numel() // 4, len(extremes))] = extreme
        return reals.to(dtype)
    limits = torch.iinfo(dtype)
    low, high = max(low, limits.min), min(high, limits.max)
    values = torch.randint(low, high + 1, shape, generator=generator)
    # The unsigned types lack most operations: NumPy has them.
    numbers = values.numpy().astype(str(dtype).removeprefix("torch."))
    flat = numbers.reshape(-1)
    if flat.size >= 8:
        flat[:: max(flat.size // 4, 1)] = limits.max
        flat[1 :: max(flat.size // 3, 1)] = limits.min
    return torch.from_numpy(numbers)
