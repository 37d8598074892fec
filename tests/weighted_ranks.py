"""Cases of ranks.py for sums of weights."""

from __future__ import annotations

import itertools
import math
import random

import torch
import torch.distributed as dist
from oracle import NUMBERS, any_bits, assert_sums, random_values
from ranks import case, meshes, sharded
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode

from torch_histo import StreamingHistogram, channel_histogram, distributed, histogram


@case
def weights_of_random_shards(device: str) -> None:
    """Any placement of values, and of weights that broadcast: the sums of all the data."""
    chance = random.Random(4)
    for mesh, _ in itertools.product(meshes(device), range(4)):
        ndim = chance.randint(1, 3)
        shape = [chance.randint(1, 9) for _ in range(ndim)]
        dims = chance.choice([None, *range(ndim)])
        dtype = chance.choice([torch.float32, torch.float64, torch.float16, torch.int32])
        values = random_values(shape, torch.float32, low=-4, high=6)
        weight = random_values([chance.choice([1, size]) for size in shape], dtype)
        placements = [
            [chance.choice([Replicate(), *map(Shard, range(ndim))]) for _ in mesh.shape]
            for _ in "12"
        ]
        if mesh.get_coordinate() is None:
            continue
        pairs = zip((values.to(device), weight.to(device)), placements, strict=True)
        shards, weights = (sharded(t, mesh, p) for t, p in pairs)
        ids = sharded(values.nan_to_num(0, 3, 3).int().to(device), mesh, placements[0])
        for arguments in (
            {"range": (-2, 4.5)},
            {"bins": 3, "flow": True},
            {"range": (-2, 4.5), "density": True},
        ):
            about = (shape, dims, placements, mesh, arguments, dtype)
            got = histogram(shards, dim=dims, weight=weights, **arguments)
            want = histogram(values.to(device), dim=dims, weight=weight.to(device), **arguments)
            assert torch.equal(got.bin_edges.full_tensor(), want.bin_edges), about
            assert_sums(got.hist.full_tensor(), want.hist, about)
        got = channel_histogram(ids, 5, dims, weight=weights)
        want = channel_histogram(ids.full_tensor(), 5, dims, weight=weight.to(device))
        assert_sums(got.full_tensor(), want, about)
        numbers = histogram(shards, 4, dim=dims, weight=0.1).hist.full_tensor()
        assert_sums(numbers, histogram(values.to(device), 4, dim=dims, weight=0.1).hist)


@case
def digits_are_added_before_they_are_rounded(device: str) -> None:
    """2^60 + 1 - 2^60 over the ranks; integers stay parts, as counts."""
    mesh = [mesh for mesh in meshes(device) if mesh.ndim == 1][-1]
    world = mesh.size()
    weight = torch.ones(world)
    weight[0], weight[-1] = 2.0**60, -(2.0**60)
    values = sharded(torch.zeros(world, device=device), mesh, [Shard(0)])
    for dtype, expected in ((torch.float32, world - 2), (torch.float64, world - 2)):
        own = sharded(weight.to(device, dtype), mesh, [Shard(0)])
        found = histogram(values, 1, range=(0, 1), weight=own).hist
        assert found.placements == (Replicate(),)
        assert found.full_tensor().tolist() == [expected]
    integers = sharded(weight.long().to(device), mesh, [Shard(0)])
    found = histogram(values, 1, range=(0, 1), weight=integers).hist
    assert found.placements == (Partial("sum"),)
    assert found.full_tensor().tolist() == [world - 2]


@case
def gradients_of_shards(device: str) -> None:
    for mesh in meshes(device):
        values = torch.linspace(-3, 5, 96).reshape(8, 12).to(device)
        scale = torch.arange(1.0, 5, device=device).double()
        for d, dim, shape in itertools.product((0, 1), (0, None), ((8, 12), (12,), (8, 1))):
            weight = torch.ones(shape, device=device, requires_grad=True)
            want = histogram(values, 4, dim=dim, weight=weight).hist * scale
            (expected,) = torch.autograd.grad(want.sum(), weight)
            if mesh.get_coordinate() is None:
                continue
            own = d - 2 + len(shape)
            place = Shard(own) if own >= 0 and shape[own] > 1 else Replicate()
            shards = sharded(values, mesh, [Shard(d)] * mesh.ndim)
            spread = sharded(weight.detach(), mesh, [place] * mesh.ndim).requires_grad_()
            sums = histogram(shards, 4, dim=dim, weight=spread).hist.full_tensor()
            (found,) = torch.autograd.grad((sums * scale).sum(), spread)
            assert isinstance(found, DTensor)
            assert torch.equal(found.full_tensor(), expected), (mesh, d, dim, shape)


@case
def weights_added_up(device: str) -> None:
    """Parts of any length: digits travel once, and sums are those of all the data."""
    rank, world = dist.get_rank(), dist.get_world_size()
    everything = random_values((30, 3), torch.float32).to(device)
    ids = everything.nan_to_num(0, 3, 3).int()
    cuts = [0, *sorted(random.Random(5).choices(range(31), k=world - 2)), 30, 30]  # one is empty
    own = slice(cuts[rank], cuts[rank + 1])
    for dtype in NUMBERS:
        weight = any_bits((30, 3), dtype).to(device)
        for arguments in (
            {"dim": 0},
            {"bins": 4, "range": (-5, 200), "flow": True},
            {"bins": 4, "range": (-5, 200), "density": True},
        ):
            with CommDebugMode() as sent:
                got = distributed.histogram(everything[own], weight=weight[own], **arguments)
            assert sent.get_total_counts() == (1 if "range" in arguments else 3)
            want = histogram(everything, weight=weight, **arguments)
            assert torch.equal(got.bin_edges, want.bin_edges)
            assert_sums(got.hist, want.hist, (dtype, arguments))
        got = distributed.channel_histogram(ids[own], 9, weight=weight[own])
        assert_sums(got, channel_histogram(ids, 9, weight=weight), dtype)
    weight = torch.full((), 0.1, device=device, requires_grad=True)
    got = distributed.histogram(everything[own], 4, weight=weight).hist
    assert_sums(got, histogram(everything, 4, weight=weight.detach()).hist)
    assert not got.requires_grad


@case
def weighted_streams_of_all_ranks(device: str) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for dtype, variance in ((torch.float32, True), (torch.float64, False), (torch.int64, False)):
        make = lambda d=dtype, v=variance: StreamingHistogram(  # noqa: E731
            6, (-2, 2), 3, weight_dtype=d, variance=v
        )
        stream, whole = make().to(device), make().to(device)
        for step in range(2):
            parts = [torch.randn(5 + i + step, 3) * 10.0**i for i in range(world)]
            dist.broadcast_object_list(parts)
            weights = [(part * math.pi**20).to(dtype) for part in parts]
            stream.update(parts[rank].to(device), weights[rank].to(device), 0)
            whole.update(torch.cat(parts).to(device), torch.cat(weights).to(device), 0)
            own = stream.digits.clone()
            for _ in range(2):
                found = stream.all_reduce().state_dict()
                for name, tensor in whole.state_dict().items():
                    assert torch.equal(found[name], tensor), name
            assert torch.equal(stream.digits, own)
