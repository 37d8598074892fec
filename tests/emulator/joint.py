"""Joint histograms in one call, on no GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import oracle
import torch
from emulator.programs import ELEMENT_TYPES, TWO_SMS, bytes_of, limits_of, run_emulated
from oracle import assert_counts
from torch import Tensor

from torch_histo.devices import Device

OF_LARGE = 100_000
"""Elements from which counts are compared with those of torch.bucketize: the oracle is slow."""


def memory_of(x: Tensor) -> bytes:
    last = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return bytes_of(x.as_strided((last + 1,), (1,))) if x.numel() else b""


def expected_counts(
    inputs: Sequence[Tensor], edges: Sequence[Tensor], dim: tuple[int, ...], flow: bool
) -> Tensor:
    if inputs[0].numel() < OF_LARGE or any(e.dim() > 1 for e in edges):
        return oracle.joint_histogram(inputs, edges, list(dim), flow=flow)
    slots = [e.shape[-1] + 2 for e in edges]
    place = torch.zeros(inputs[0].shape, dtype=torch.int64)
    for x, e, size in zip(inputs, edges, slots, strict=True):
        wide = e.double()
        own = x.double()
        found = torch.bucketize(own, wide, right=True)
        found = torch.where(own == wide[-1], len(e) - 1, found)
        place = place * size + torch.where(own.isnan(), size - 1, found)
    kept = [d for d in range(place.dim()) if d not in dim]
    channels = place.permute(*kept, *dim).reshape(-1, math.prod(place.shape[d] for d in dim))
    total = math.prod(slots)
    every = torch.stack([torch.bincount(own, minlength=total) for own in channels])
    every = every.view(*(place.shape[d] for d in kept), *slots)
    if flow:
        return every
    for d, size in enumerate(slots, len(kept)):
        every = every.narrow(d, 1, size - 3)
    return every


def count_joint(
    program: Path,
    inputs: Sequence[Tensor] | Tensor,
    edges: Sequence[Tensor],
    dim: tuple[int, ...] = (0,),
    *,
    flow: bool = False,
    offsets: Sequence[int] = (),
    gpu: Device = TWO_SMS,
) -> set[str]:
    """Counts coordinates, each beginning so many elements behind an aligned address, or those in
    the last dimension of one tensor. Compares the counts with the right ones.

    Returns the words of the plan.
    """
    in_one = isinstance(inputs, Tensor)
    every = list(inputs.unbind(-1)) if isinstance(inputs, Tensor) else list(inputs)
    header: list[int] = [len(every)]
    for x in every:
        sizes = [part for loop in zip(x.shape, x.stride(), strict=True) for part in loop]
        header += [ELEMENT_TYPES.index(x.dtype), x.dim(), *sizes]
    kept = [d for d in range(every[0].dim()) if d not in dim]
    header += [len(kept), *kept, int(flow)]
    for own in edges:
        header += [ELEMENT_TYPES.index(own.dtype), own.shape[-1] - 1, int(own.dim() == 1)]
    header += limits_of(gpu)
    data = b""
    for own in edges:
        header += [0, own.numel() * own.itemsize]
        data += bytes_of(own)
    header += [int(in_one)]
    shifts = list(offsets) or [0] * len(every)
    for x, shift in zip([inputs] if isinstance(inputs, Tensor) else every, shifts, strict=False):
        memory = memory_of(x)
        header += [shift * x.itemsize, len(memory)]
        data += memory
    shapes = [tuple(x.shape) for x in every]
    about = f"{shapes} {[x.dtype for x in every]}, {[e.shape for e in edges]} over {dim}"
    about += f" on {gpu.name}, offsets {shifts}, flow {flow}"
    words, counts = run_emulated(program, "joint_histogram", header, data, about)
    expected = expected_counts(every, edges, dim, flow)
    result = torch.frombuffer(counts, dtype=torch.int64).view(expected.shape)
    assert_counts(result, expected, about)
    return words
