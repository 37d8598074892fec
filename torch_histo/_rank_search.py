"""A search for values by their ranks, in data that several processes hold."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_histo.weights import Add

_MOST_EDGES = 1 << 21
_MOST_BITS = 11


def values_at_ranks(ranks: Tensor, interpolation: str, search: RankSearch) -> Tensor:
    """The values of ranks, which may lie between two, as `ranks_of` in csrc/core/ranks.h has it."""
    rounded = {"lower": ranks.floor, "higher": ranks.ceil, "nearest": ranks.round}
    if interpolation in rounded:
        return search.values_of(rounded[interpolation]().long()).to(ranks.dtype)
    wanted = torch.stack([ranks.floor(), ranks.ceil()])
    found = search.values_of(wanted.long().flatten(0, 1)).reshape(wanted.shape)
    below, above = found.to(ranks.dtype)
    is_midpoint = interpolation == "midpoint"
    weights = torch.full_like(ranks, 0.5) if is_midpoint else ranks - ranks.floor()
    return torch.lerp(below, above, weights)


class RankSearch:
    """Finds values by their ranks in what all processes hold; `add` adds the others' counts.

    Each value has a place, an integer, and places have the order of the values: that of a float is
    made of its bits. A pass finds the next bits of the places that are searched for."""

    def __init__(
        self,
        input: Tensor,
        dims: list[int] | None,
        add: Add,
    ) -> None:
        self.input, self.dims, self.add = input, dims, add
        self.is_float = input.is_floating_point()
        self.in_float32 = self.is_float and input.dtype != torch.float64
        if self.in_float32:
            self.bits = 32
        else:
            self.bits = 64 if self.is_float else min(64, 8 * input.dtype.itemsize + 1)
        ends = self.values_at(input.new_tensor([0, 0], dtype=torch.int64))
        self.nans = self._count(ends)[..., -1]

    def values_at(self, places: Tensor) -> Tensor:
        """The values that have these places; those beyond infinity are infinity."""
        if not self.is_float:
            return places
        last = 0x7F800000 if self.in_float32 else 0x7FF0000000000000
        places = places.clamp(-last, last)
        if self.in_float32:
            magnitude = places.abs().to(torch.int32).view(torch.float32)
        else:
            magnitude = places.abs().view(torch.float64)
        return torch.where(places < 0, -magnitude, magnitude)

    def _count(self, edges: Tensor) -> Tensor:
        counts: Tensor = torch.ops.histo.histogram(self.input, edges, self.dims, flow=True)
        self.add(counts)
        return counts

    def values_of(self, ranks: Tensor) -> Tensor:
        """The values of ranks, `[wanted, kept...]`."""
        wanted = ranks.movedim(0, -1)
        # A value is in one of the 2^bits places from `first` on.
        first = torch.full_like(wanted, -(1 << (self.bits - 1)))
        bits = self.bits
        while bits > 0:
            room = _MOST_EDGES // max(wanted.numel(), 1)
            step = min(max(room.bit_length() - 1, 1), _MOST_BITS, bits)
            bits -= step
            offsets = torch.arange(1 << step, device=ranks.device) << bits
            edges = self.values_at(first[..., None] + offsets)
            below = self._values_below(edges.flatten(-2)).reshape(edges.shape)
            # The last edge that has no more values below it than the rank.
            at = (below <= wanted[..., None]).sum(-1) - 1
            first = first + (at.clamp_min(0) << bits)
        return self.values_at(first).movedim(-1, 0)

    def _values_below(self, edges: Tensor) -> Tensor:
        """For each edge of a channel, how many values are smaller."""
        ordered, order = edges.sort(-1)
        # The last bin holds its upper edge, too: a last bin of no width keeps that value apart.
        closed = torch.cat([ordered, ordered[..., -1:]], -1)
        counts = self._count(closed)
        # The first of equal edges has all that is smaller before it, and nothing lies between them.
        below = counts[..., : ordered.shape[-1]].cumsum(-1)
        return torch.empty_like(below).scatter_(-1, order, below)
