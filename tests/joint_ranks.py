"""Cases of ranks.py: joint histograms."""

from __future__ import annotations

import oracle
import torch
import torch.distributed as dist
from oracle import assert_counts, assert_sums, random_values
from ranks import case, expected_placement, meshes, sharded
from torch.distributed.tensor import DTensor, Replicate, Shard

from torch_histo import StreamingHistogramdd, distributed, histogram2d, histogramdd


def coordinates(*shape: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """The same on every rank."""
    return random_values(shape, torch.float32, seed), random_values(shape, torch.int16, seed + 1)


@case
def joint_counts_of_shards(device: str) -> None:
    edges = [torch.tensor([0.0, 50, 100, 250]).to(device), torch.arange(0, 200, 20).to(device)]
    x, y = coordinates(8, 9, 4)
    weight = torch.rand(8, 9, 4, generator=torch.Generator().manual_seed(0))
    own = [e.cpu() for e in edges]
    for mesh in meshes(device):
        if mesh.get_coordinate() is None:
            continue
        for dims in ([0], [1], [0, 2], None):
            kept = [d for d in range(3) if dims is not None and d not in dims]
            for placement in (Replicate(), Shard(0), Shard(1)):
                places = [placement] * mesh.ndim
                a, b, w = (sharded(t.to(device), mesh, places) for t in (x, y, weight))
                e = [sharded(t, mesh, [Replicate()] * mesh.ndim) for t in edges]
                counts = histogramdd((a, b), e, dim=dims).hist
                assert isinstance(counts, DTensor)
                assert counts.placements == tuple(expected_placement(p, kept) for p in places)
                assert_counts(counts.full_tensor(), oracle.joint_histogram((x, y), own, dims))
                sums = histogramdd((a, b), e, dim=dims, weight=w).hist.full_tensor()
                expected = oracle.joint_histogram((x, y), own, dims, weight=weight)
                assert_sums(sums, expected)


@case
def joint_counts_of_parts(device: str) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for dim in (None, 0):
        parts = [coordinates(7 * (i % 3), 3, seed=i) for i in range(world)]
        weights = [random_values((7 * (i % 3), 1), torch.float64, i + 9) for i in range(world)]
        whole = [torch.cat(c) for c in zip(*parts, strict=True)]
        mine = [t.to(device) for t in parts[rank]]
        own = weights[rank].to(device)
        for form in ({}, {"flow": True}, {"density": True}, {"range": ((0, 9), None)}):
            expected = histogram2d(*whole, 4, dim=dim, **form)
            got = distributed.histogram2d(*mine, 4, dim=dim, **form)
            assert torch.equal(got.hist.cpu(), expected.hist)
            again = distributed.histogramdd(mine, 4, dim=dim, **form)
            assert torch.equal(got.hist, again.hist)
            for one, other in zip(got.bin_edges, expected.bin_edges, strict=True):
                assert torch.equal(one.cpu(), other)
            expected = histogramdd(whole, 4, dim=dim, weight=torch.cat(weights), **form)
            got = distributed.histogramdd(mine, 4, dim=dim, weight=own, **form)
            assert_sums(got.hist, expected.hist)


@case
def joint_streams_of_all_ranks(device: str) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for dtype in (None, torch.float32):
        one, whole = (
            StreamingHistogramdd((3, 4), ((0, 50), (0, 100)), weight_dtype=dtype) for _ in "12"
        )
        one.to(device)
        parts = [coordinates(9 + i, seed=i) for i in range(world)]
        for i, part in enumerate(parts):
            weight = None if dtype is None else torch.full((9 + i,), 0.1 * i)
            whole.update(part, weight)
            if i == rank:
                one.update(
                    [t.to(device) for t in part], weight if weight is None else weight.to(device)
                )
        own = one.digits.clone()
        for _ in range(2):
            assert torch.equal(one.all_reduce().digits.cpu(), whole.digits)
        assert torch.equal(one.digits, own)
