"""Sums of weights of short channels, on no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import oracle
import torch
from emulator.joint import memory_of
from emulator.programs import ELEMENT_TYPES, TWO_SMS, bytes_of, limits_of, run_emulated
from torch import Tensor

from torch_histo.devices import Device


def sum_in_warps(
    program: Path,
    values: Tensor,
    weight: Tensor,
    edges: Tensor,
    dim: tuple[int, ...] = (1,),
    *,
    flow: bool = False,
    offsets: Sequence[int] = (0, 0),
    gpu: Device = TWO_SMS,
) -> set[str]:
    """Sums weights, which broadcast to the values; both begin so many elements behind an aligned
    address. Compares the sums with the oracle's, bit for bit. Returns the words of the plan, which
    are "none" alone if there is none.
    """
    operands = values, weight.expand(values.shape)
    header: list[int] = []
    for x in operands:
        sizes = [part for loop in zip(x.shape, x.stride(), strict=True) for part in loop]
        header += [ELEMENT_TYPES.index(x.dtype), x.dim(), *sizes]
    kept = [d for d in range(values.dim()) if d not in dim]
    bins = edges.shape[-1] - 1
    header += [len(kept), *kept, int(flow), ELEMENT_TYPES.index(edges.dtype), bins]
    header += [*limits_of(gpu), 0, edges.numel() * edges.itemsize]
    data = bytes_of(edges)
    for x, offset in zip(operands, offsets, strict=True):
        memory = memory_of(x)
        header += [offset * x.itemsize, len(memory)]
        data += memory
    about = f"{list(values.shape)} {values.dtype} over {dim}, {weight.dtype} {list(weight.shape)}"
    about += f", {bins} bins, flow {flow}, offsets {offsets}, {gpu.name}"
    words, found = run_emulated(program, "warp_sums", header, data, about)
    if words != {"none"}:
        expected = oracle.weighted_histogram(values, edges, weight, dim, flow=flow)
        sums = torch.frombuffer(found, dtype=torch.float64).view(expected.shape)
        oracle.assert_sums(sums, expected, about)
    return words
