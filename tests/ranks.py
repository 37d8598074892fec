"""The program of test_distributed.py's processes: all cases on every rank, in one start."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist
from oracle import (
    DTYPES,
    NUMBERS,
    assert_counts,
    expected_counts,
    expected_letters,
    random_values,
)
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.placement_types import Placement

import torch_histo
from torch_histo import (
    QuantileSketch,
    StreamingHistogram,
    channel_histogram,
    distributed,
    histogram,
    text_histogram,
)

Case = Callable[[str], None]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """A test of all ranks; it gets the kind of device that the backend serves."""
    CASES[function.__name__] = function
    return function


def run(rank: int, world: int, backend: str, folder: Path) -> None:
    """Runs the cases on one rank and writes `{case: traceback or ""}` to `{rank}.json`."""
    torch.set_num_threads(1)
    device = "cuda" if backend == "nccl" else "cpu"
    os.environ["LOCAL_RANK"] = str(rank)
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        backend,
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=300),
    )
    results = {}
    for name, function in CASES.items():
        try:
            function(device)
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
            raise  # ends all ranks: others may wait for what this one did not send
        finally:
            (folder / f"{rank}.json").write_text(json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


def meshes(device: str) -> list[DeviceMesh]:
    """One dimension over 2 ranks up to all, and two dimensions."""
    world = dist.get_world_size()
    found = [DeviceMesh(device, list(range(size))) for size in range(2, world + 1)]
    if world == 4:
        found.append(init_device_mesh(device, (2, 2)))
    return found


def sharded(values: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    # Every rank has the values: nothing need be sent, which not every dtype can be.
    return distribute_tensor(values, mesh, placements, src_data_rank=None)


def expected_placement(placement: object, kept: list[int]) -> object:
    if isinstance(placement, Shard):
        return Shard(kept.index(placement.dim)) if placement.dim in kept else Partial("sum")
    return placement


@case
def counts_of_random_shards(device: str) -> None:
    """Any shape, dims and placements: the counts, where they lie, and nothing sent for them."""
    chance = random.Random(0)  # the same on every rank
    for mesh in meshes(device):
        ndim = chance.randint(1, 4)
        # From the size of the mesh up: PyTorch replicates what has fewer rows than ranks.
        shape = [chance.randint(mesh.size(), 9) for _ in range(ndim)]
        dims = chance.sample(range(ndim), chance.randint(1, ndim))
        kept = [d for d in range(ndim) if d not in dims]
        dims = [d - ndim if chance.random() < 0.3 else d for d in dims]
        if not kept and chance.random() < 0.5:
            dims = []
        num_bins = chance.choice([1, 7, 256, 300])
        dtype = chance.choice(DTYPES)
        placements = [chance.choice([Replicate(), *map(Shard, range(ndim))]) for _ in mesh.shape]
        values = random_values(shape, dtype)
        about = (shape, dtype, dims, num_bins, placements, mesh)
        if mesh.get_coordinate() is None:
            continue
        shards = sharded(values.to(device), mesh, placements)
        with CommDebugMode() as sent:
            counts = channel_histogram(shards, num_bins, dims)
        assert isinstance(counts, DTensor), about
        want = tuple(expected_placement(p, kept) for p in placements)
        assert counts.placements == want, (about, counts.placements)
        assert sent.get_total_counts() == 0, about
        assert_counts(counts.full_tensor(), expected_counts(values, num_bins, dims), about)


@case
def ranks_without_rows(device: str) -> None:
    """5 rows on 4 ranks leave the last one none; 1 row leaves it to one rank."""
    for mesh, length in itertools.product(meshes(device), (1, 2, 5)):
        if mesh.get_coordinate() is None or mesh.ndim > 1:
            continue
        values = random_values((length, 6, length), torch.uint8)
        want = expected_counts(values, 256, 0)
        for d in (0, 2):
            counts = channel_histogram(sharded(values.to(device), mesh, [Shard(d)]))
            assert_counts(counts.full_tensor(), want, (mesh, length, d))
            if length >= mesh.size():
                assert counts.placements == ((Shard(1) if d else Partial("sum")),)


@case
def local_counts(device: str) -> None:
    """Each rank holds the counts of its own shard, not only their sum."""
    mesh = meshes(device)[-1 if dist.get_world_size() < 4 else -2]
    values = random_values((13, 11), torch.int16)
    for d in range(2):
        shards = sharded(values.to(device), mesh, [Shard(d)])
        counts = channel_histogram(shards, 300)
        own = values.chunk(dist.get_world_size(), d)[dist.get_rank()]
        assert_counts(counts.to_local(), expected_counts(own, 300, 0), d)


@case
def partial_inputs_are_summed_first(device: str) -> None:
    mesh = meshes(device)[0]
    if mesh.get_coordinate() is None:
        return
    values = torch.arange(40).view(10, 4)
    partial = DTensor.from_local(values.to(device), mesh, [Partial("sum")])
    counts = channel_histogram(partial, 100)
    assert_counts(counts.full_tensor(), expected_counts(values * mesh.size(), 100))


@case
def every_call_has_its_own_rule(device: str) -> None:
    """One tensor, other dims and bins: what PyTorch keeps of one call is not for the next."""
    mesh = meshes(device)[0]
    if mesh.get_coordinate() is None:
        return
    values = random_values((6, 5, 4), torch.uint8)
    shards = sharded(values.to(device), mesh, [Shard(1)])
    for _ in range(2):
        for dim, num_bins in itertools.product([0, 1, 2, (0, 1), (1, 2), ()], [10, 256]):
            counts = channel_histogram(shards, num_bins, dim)
            assert_counts(counts.full_tensor(), expected_counts(values, num_bins, dim), dim)


@case
def histograms_of_random_shards(device: str) -> None:
    """Any placement: counts and edges are those of all the data, uneven and empty shards, too."""
    chance = random.Random(1)
    for mesh, _ in itertools.product(meshes(device), range(3)):
        ndim = chance.randint(1, 3)
        shape = [chance.randint(1, 9) for _ in range(ndim)]
        dims = chance.choice([None, *range(ndim)])
        placements = [chance.choice([Replicate(), *map(Shard, range(ndim))]) for _ in mesh.shape]
        values = torch.linspace(-3, 5, math.prod(shape)).reshape(shape)
        kept = [] if dims is None else [size for d, size in enumerate(shape) if d != dims]
        edges = torch.linspace(-4, 4, 8).expand(*kept, 8) + torch.ones(*kept, 1)
        low = chance.choice([-2.0, torch.full(kept, -2.0, device=device)])
        if mesh.get_coordinate() is None:
            continue
        shards = sharded(values.to(device), mesh, placements)
        replicated = sharded(edges.to(device), mesh, [Replicate()] * mesh.ndim)
        first = low
        if isinstance(low, torch.Tensor):
            first = sharded(low, mesh, [Replicate()] * mesh.ndim)
        for own, of_all in (
            ({}, {}),
            ({"range": (-2, 4.5), "flow": True},) * 2,
            ({"range": (-2, 4.5), "density": True},) * 2,
            ({"bins": 3, "density": True},) * 2,
            ({"range": (first, 3)}, {"range": (low, 3)}),
            ({"bins": replicated, "flow": True}, {"bins": edges.to(device), "flow": True}),
        ):
            about = (shape, dims, placements, mesh, own)
            got = histogram(shards, dim=dims, **own)
            want = histogram(values.to(device), dim=dims, **of_all)
            assert torch.equal(got.bin_edges.full_tensor(), want.bin_edges), about
            assert torch.equal(got.hist.full_tensor().nan_to_num(), want.hist.nan_to_num()), about


@case
def histograms_of_each_call(device: str) -> None:
    """The same shards and edges, other dims, flow and dtypes: nothing kept is for another call."""
    mesh = meshes(device)[0]
    if mesh.get_coordinate() is None:
        return
    values = torch.linspace(-3, 5, 120).reshape(6, 5, 4)
    shards = sharded(values.to(device), mesh, [Shard(1)])
    edges = torch.arange(-2.0, 3)
    bounds = sharded(edges.to(device), mesh, [Replicate()])
    for _, dim, flow in itertools.product(range(2), (None, 0, 1, 2, (0, 1)), (True, False)):
        counts = torch.ops.histo.histogram(shards, bounds, dim, flow=flow)
        want = torch.ops.histo.histogram(values, edges, dim, flow=flow)
        assert counts.shape == want.shape
        assert torch.equal(counts.full_tensor().cpu(), want), (dim, flow)
        low, _ = torch.ops.histo.finite_range(shards, dim)
        assert torch.equal(low.full_tensor().cpu(), values.amin(() if dim is None else dim))
    for _, dtype, bins in itertools.product(range(2), (torch.float32, torch.float64), (3, 4)):
        made = torch.ops.histo.uniform_edges(bounds, bounds + 1, bins, dtype=dtype)
        assert (made.dtype, made.shape) == (dtype, (5, bins + 1))
        assert made.to_local().dtype == dtype


@case
def sums_of_weights_of_random_shards(device: str) -> None:
    """Any placement: digits that are added or sharded, and the sums of all the data."""
    ops, chance = torch.ops.histo, random.Random(4)
    for mesh, _ in itertools.product(meshes(device), range(5)):
        ndim = chance.randint(1, 3)
        shape = [chance.randint(mesh.size(), 9) for _ in range(ndim)]
        dim = chance.choice([None, *range(ndim)])
        flow = chance.random() < 0.5
        placements = [chance.choice([Replicate(), *map(Shard, range(ndim))]) for _ in mesh.shape]
        values = torch.linspace(-3, 5, math.prod(shape)).reshape(shape)
        own = [chance.choice([1, size]) for size in shape][chance.randint(0, ndim) :]
        weight = torch.randn(own, generator=torch.Generator().manual_seed(ndim)).exp()
        edges = torch.linspace(-4, 4, 8)
        kept = [] if dim is None else [d for d in range(ndim) if d != dim]
        if mesh.get_coordinate() is None:
            continue
        about = (shape, own, dim, placements, mesh)
        of_weight = [
            Shard(p.dim - ndim + len(own))
            if isinstance(p, Shard)
            and p.dim >= ndim - len(own)
            and own[p.dim - ndim + len(own)] > 1
            else Replicate()
            for p in placements
        ]
        everywhere = [Replicate()] * mesh.ndim
        shards = sharded(values.to(device), mesh, placements)
        beside = sharded(weight.to(device), mesh, of_weight)
        bounds = sharded(edges.to(device), mesh, everywhere)
        want = ops.weighted_histogram(values, edges, weight, dim, flow=flow)
        with CommDebugMode() as sent:
            digits = ops.weighted_histogram(shards, bounds, beside, dim, flow=flow)
        assert sent.get_total_counts() == 0, about
        assert digits.placements == tuple(expected_placement(p, kept) for p in placements), about
        assert torch.equal(ops.normalize_digits(digits).full_tensor().cpu(), want), about
        sums = ops.sum_of_digits(digits).full_tensor().cpu()
        assert torch.equal(sums, ops.sum_of_digits(want)), about
        grad = torch.randn(
            sums.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        )
        found = ops._weight_gradient(
            sharded(grad.to(device), mesh, everywhere), shards, bounds, dim, flow
        )
        assert found.placements == tuple(placements), about
        assert torch.equal(
            found.full_tensor().cpu(), ops._weight_gradient(grad, values, edges, dim, flow)
        ), about
        dims = [] if dim is None else [dim]
        numbers = values.int()
        got = ops.weighted_channel_histogram(
            sharded(numbers.to(device), mesh, placements), beside, 4, dims
        )
        want = ops.weighted_channel_histogram(numbers, weight, 4, dims)
        assert torch.equal(ops.normalize_digits(got).full_tensor().cpu(), want), about


@case
def edges_lie_where_their_channels_are(device: str) -> None:
    mesh = meshes(device)[-1 if dist.get_world_size() < 4 else -2]
    values = torch.linspace(-1, 1, 88).reshape(8, 11).to(device)
    edges = sharded(torch.arange(-5.0, 6).expand(11, -1).to(device), mesh, [Shard(0)])
    with CommDebugMode() as sent:
        columns = histogram(sharded(values, mesh, [Shard(1)]), edges, dim=0)
        rows = torch.ops.histo.finite_range(sharded(values, mesh, [Shard(0)]), [0])
        own = torch.ops.histo.finite_range(sharded(values, mesh, [Shard(1)]), [0])
    assert sent.get_total_counts() == 0
    assert columns.hist.placements == (Shard(0),)
    assert [bound.placements for bound in rows] == [(Partial("min"),), (Partial("max"),)]
    assert [bound.placements for bound in own] == [(Shard(0),)] * 2
    for low, high in (rows, own):
        assert torch.equal(low.full_tensor(), values.amin(0))
        assert torch.equal(high.full_tensor(), values.amax(0))


@case
def histograms_added_up(device: str) -> None:
    """Parts of any length: extremes of all ranks, and their counts."""
    rank, world = dist.get_rank(), dist.get_world_size()
    everything = torch.linspace(-3, 7, 90).reshape(30, 3).to(device)
    everything[4, 0] = math.nan
    cuts = [0, *sorted(random.Random(2).choices(range(31), k=world - 2)), 30, 30]  # one is empty
    own = everything[cuts[rank] : cuts[rank + 1]]
    low, high = torch.full((3,), -2.0, device=device), torch.full((3,), 2.5, device=device)
    for arguments in (
        {"dim": 0},
        {},
        {"density": True},
        {"bins": 7, "range": (0, 3), "flow": True},
        {"bins": torch.arange(6.0, device=device), "dim": 0},
        {"range": (low, high), "dim": 0},
    ):
        got, want = distributed.histogram(own, **arguments), histogram(everything, **arguments)
        for a, b in zip(got, want, strict=True):
            assert torch.equal(a, b), arguments
    nothing = distributed.histogram(own[:0], 2)
    assert nothing.bin_edges.tolist() == [0, 0.5, 1]


@case
def quantiles_of_all(device: str) -> None:
    """Parts of any length, of every dtype."""
    rank, world = dist.get_rank(), dist.get_world_size()
    cuts = [0, *sorted(random.Random(3).choices(range(31), k=world - 2)), 30, 30]  # one is empty
    q = torch.tensor([0, 0.3, 0.5, 1.0, math.nan], dtype=torch.float64, device=device)
    for dtype in NUMBERS:
        if dtype == torch.uint64:
            continue
        everything = random_values((30, 3), dtype).to(device)
        own = everything[cuts[rank] : cuts[rank + 1]]
        rules = ("linear", "midpoint", "nearest") if dtype == torch.float32 else ("linear",)
        for rule in rules:
            for dim, keepdim in ((0, False), (None, True)):
                for name in ("quantile", "nanquantile"):
                    arguments = q, dim, keepdim
                    got = getattr(distributed, name)(own, *arguments, interpolation=rule)
                    want = getattr(torch_histo, name)(everything, *arguments, interpolation=rule)
                    assert (got.dtype, got.shape) == (want.dtype, want.shape)
                    a, b = got.double(), want.double()
                    assert bool(((a == b) | (a.isnan() & b.isnan())).all()), (dtype, rule, a, b)
    median = distributed.quantile(torch.tensor([float(rank)], device=device), 0.5)
    assert (median.shape, float(median)) == ((), (world - 1) / 2)
    values = torch.arange(20.0, device=device)
    for mesh in meshes(device):
        if mesh.get_coordinate() is None:
            continue
        spread = sharded(values.view(4, 5), mesh, [Shard(1)] * mesh.ndim)
        for dim in (0, 1, None):
            want = torch_histo.quantile(values.view(4, 5), [0.5, 0.9], dim)
            assert torch.equal(torch_histo.quantile(spread, [0.5, 0.9], dim).full_tensor(), want)


@case
def one_dimension_of_channels(device: str) -> None:
    """channel_dim of DTensors, and of the parts of all ranks."""
    values = torch.arange(60).mul(7).remainder(11).reshape(4, 3, 5).to(device)
    for mesh in meshes(device):
        if mesh.get_coordinate() is None:
            continue
        shards = sharded(values, mesh, [Shard(1), *[Shard(0)] * (mesh.ndim - 1)])
        for channel in (1, -1):
            where = {"channel_dim": channel}
            counts = channel_histogram(shards, 11, **where).full_tensor()
            assert torch.equal(counts, channel_histogram(values, 11, **where))
            hist = histogram(shards, 4, (0, 10), **where).hist.full_tensor()
            assert torch.equal(hist, histogram(values, 4, (0, 10), **where).hist)
            median = torch_histo.quantile(shards, 0.5, **where).full_tensor()
            assert torch.equal(median, torch_histo.quantile(values, 0.5, **where))
    rank, world = dist.get_rank(), dist.get_world_size()
    own = values[rank::world]
    for name, *given in (
        ("channel_histogram", 11),
        ("histogram", 4),
        ("quantile", [0.5], True),
        ("nanquantile", 0.5),
    ):
        arguments = {"channel_dim": 1}
        if len(given) == 2:
            arguments["keepdim"] = given.pop()
        got = getattr(distributed, name)(own, *given, **arguments)
        want = getattr(torch_histo, name)(values, *given, **arguments)
        for a, b in zip(got, want, strict=True):
            assert torch.equal(a, b), name
    pair = distributed.histogram2d(own, own, 3, channel_dim=1).hist
    assert torch.equal(pair, torch_histo.histogram2d(values, values, 3, channel_dim=1).hist)


@case
def letters(device: str) -> None:
    text = bytes(range(256)) * 3
    values = torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)
    for mesh in meshes(device):
        if mesh.get_coordinate() is None:
            continue
        counts = text_histogram(sharded(values, mesh, [Shard(0)] * mesh.ndim))
        assert counts.placements == (Partial("sum"),) * mesh.ndim
        assert_counts(counts.full_tensor(), expected_letters(text))


@case
def study_variants(device: str) -> None:
    mesh = meshes(device)[0]
    if mesh.get_coordinate() is None:
        return
    values = random_values((101, 7), torch.uint8)
    for d in range(2):
        counts = channel_histogram(sharded(values.to(device), mesh, [Shard(d)]), variant="tiled")
        assert_counts(counts.full_tensor(), expected_counts(values), d)


@case
def errors_are_those_of_the_operator(device: str) -> None:
    mesh = meshes(device)[0]
    if mesh.get_coordinate() is None:
        return
    shards = sharded(torch.zeros(8, 3, dtype=torch.uint8, device=device), mesh, [Shard(0)])
    for arguments, message in (
        ((-1,), "num_bins must be at least 0, got -1"),
        ((256, 2), "dim must be between -2 and 1 for a 2-D input, got 2"),
    ):
        try:
            channel_histogram(shards, *arguments)
        except RuntimeError as error:
            # One line, without those that DTensor adds.
            assert str(error) == f"channel_histogram: {message}", error  # noqa: PT017
        else:
            raise AssertionError(message)
    assert_counts(channel_histogram(shards, 1).full_tensor(), torch.full((3, 1), 8))
    assert_counts(channel_histogram(shards, 0).full_tensor(), torch.empty(3, 0).long())
    assert_counts(channel_histogram(shards, 1, None).full_tensor(), torch.tensor([24]))


@case
def compiled(device: str) -> None:
    """One graph, uneven shards, over reduced and over kept dimensions."""

    def count(x: torch.Tensor) -> torch.Tensor:
        return channel_histogram(x + 1, 300) * 2

    lines = [mesh for mesh in meshes(device) if mesh.ndim == 1]
    pair, everyone = lines[0], lines[-1]
    calls = [(pair, 13, 0, "inductor"), (everyone, 13, 0, "aot_eager")]
    calls += [(everyone, 13, 1, "aot_eager"), (everyone, 8, 0, "aot_eager")]
    # PyTorch's cache on disk takes ranks whose shards differ in size for one (docs/distributed.md).
    with mock.patch("torch._functorch.config.enable_autograd_cache", False):
        for mesh, length, d, backend in calls:
            if mesh.get_coordinate() is None:
                continue
            torch._dynamo.reset()
            values = random_values((length, 11), torch.int32)
            shards = sharded(values.to(device), mesh, [Shard(d)])
            run = torch.compile(count, fullgraph=True, backend=backend)
            for _ in range(2):
                counts = run(shards)
                assert counts.placements == ((Shard(0) if d else Partial("sum")),)
                assert_counts(counts.full_tensor(), expected_counts(values + 1, 300) * 2)
    torch._dynamo.reset()


@case
def parts_of_any_length(device: str) -> None:
    """distributed.channel_histogram: parts of different lengths, one of them none."""
    rank, world = dist.get_rank(), dist.get_world_size()
    for dtype, num_bins, dim in ((torch.uint8, 256, 0), (torch.int64, 300, (0, 2))):
        parts = [random_values((50 * i, 6, 3), dtype, seed=i) for i in range(world)]
        with CommDebugMode() as sent:
            counts = distributed.channel_histogram(parts[rank].to(device), num_bins, dim)
        assert {str(op): n for op, n in sent.get_comm_counts().items()} == {"c10d.allreduce_": 1}
        assert_counts(counts, expected_counts(torch.cat(parts), num_bins, dim), dtype)


@case
def counts_beyond_32_bits(device: str) -> None:
    length = (1 << 31) + 5
    many = torch.tensor([3], dtype=torch.uint8, device=device).expand(length)
    counts = distributed.channel_histogram(many, 5)
    assert counts.tolist() == [0, 0, 0, length * dist.get_world_size(), 0]


@case
def groups(device: str) -> None:
    """A group of some ranks counts theirs alone, and refuses the others."""
    rank = dist.get_rank()
    group = dist.new_group([0, 1])
    values = [random_values((100 + i, 3), torch.uint8, seed=i) for i in range(2)]
    if rank < 2:
        counts = distributed.channel_histogram(values[rank].to(device), group=group)
        assert_counts(counts, expected_counts(torch.cat(values)))
    else:
        try:
            distributed.channel_histogram(values[0].to(device), group=group)
        except RuntimeError as error:
            assert f"group must hold this process, got one without rank {rank}" in str(error)  # noqa: PT017
        else:
            raise AssertionError("a group of others counted")


@case
def sharding_does_not_show(device: str) -> None:
    """The same bits however the data are divided, or not at all."""
    rank, world = dist.get_rank(), dist.get_world_size()
    values = random_values((1000, 8), torch.uint8).to(device)
    whole = channel_histogram(values)
    for part in (values.chunk(world)[rank], values[rank::world]):
        assert torch.equal(distributed.channel_histogram(part), whole)
    mesh = meshes(device)[-1]
    for placements in itertools.product([Shard(0), Shard(1), Replicate()], repeat=mesh.ndim):
        shards = sharded(values, mesh, placements)
        assert torch.equal(channel_histogram(shards).full_tensor(), whole)


@case
def compiled_for_any_num_bins(device: str) -> None:
    """A DTensor and parts: one program for all numbers of bins."""
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = [mesh for mesh in meshes(device) if mesh.ndim == 1][-1]
    parts = [random_values((50, 6), torch.uint8, seed=i) for i in range(world)]
    shards = DTensor.from_local(parts[rank].to(device), mesh, [Shard(0)])
    for function, x in (
        (channel_histogram, shards),
        (distributed.channel_histogram, parts[rank].to(device)),
    ):
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        run = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
        for num_bins in (3, 300, 7):
            counts = run(x, num_bins)
            counts = counts.full_tensor() if isinstance(counts, DTensor) else counts
            assert_counts(counts, expected_counts(torch.cat(parts), num_bins), num_bins)
        assert counter.frame_count == 1
    torch._dynamo.reset()


@case
def compiled_with_its_all_reduce(device: str) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [random_values((50, 6), torch.uint8, seed=i) for i in range(world)]
    run = torch.compile(
        lambda x: distributed.channel_histogram(x) + 1, fullgraph=True, backend="aot_eager"
    )
    assert_counts(run(parts[rank].to(device)), expected_counts(torch.cat(parts)) + 1)


@case
def streams_of_all_ranks(device: str) -> None:
    """The counts of one module that saw all parts, however often it is asked for and updated."""
    rank, world = dist.get_rank(), dist.get_world_size()
    for make in (QuantileSketch, lambda n: StreamingHistogram(16, (-2, 2), n)):
        stream, whole = make(3).to(device), make(3).to(device)
        for step in range(2):
            parts = [torch.randn(5 + i + step, 3) * 10.0**i for i in range(world)]
            dist.broadcast_object_list(parts)
            stream.update(parts[rank].to(device), 0)
            whole.update(torch.cat(parts).to(device), 0)
            own = stream.hist.clone()
            for _ in range(2):
                found = stream.all_reduce().state_dict()
                for name, tensor in whole.state_dict().items():
                    assert torch.equal(found[name], tensor), name
            assert torch.equal(stream.hist, own)
        first = dist.new_group([0])
        if rank == 0:
            assert torch.equal(stream.all_reduce(first).hist, stream.hist)


@case
def streams_in_ddp(device: str) -> None:
    """Without broadcast buffers each rank keeps its own counts."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), QuantileSketch())
    model.to(device)
    replica = torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
    for step in range(3):
        values = torch.full((4, 3), float(dist.get_rank() + step), device=device)
        replica(values).sum().backward()
    assert int(model[1].count) == 36
    total = model[1].all_reduce()
    assert int(total.count) == 36 * dist.get_world_size()


import joint_ranks  # noqa: E402, F401 (more cases, which need what is above)
import weighted_ranks  # noqa: E402, F401
