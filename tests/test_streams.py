"""Streams against what the whole of them gives: counts, order statistics, and UHI's readers."""

from __future__ import annotations

import copy
import io
import pickle
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from conftest import run_examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle import NUMBERS
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

import torch_histo
from torch_histo import QuantileSketch, StreamingHistogram, histogram, sketch, streams

pytestmark = pytest.mark.sampled(3)

Stream = StreamingHistogram | QuantileSketch
QS = (0.0, 1e-9, 0.001, 0.1, 0.25, 0.5, 0.77, 0.99, 0.9999, 1.0)
MAKERS: dict[str, Callable[[Any], Stream]] = {
    "histogram": lambda channels: StreamingHistogram(16, (-2, 2), channels),
    "sketch": lambda channels: QuantileSketch(channels, bits=3),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[Any], Stream]:
    return MAKERS[request.param]


@pytest.fixture
def figures() -> Iterator[None]:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def order_statistic(values: Tensor, q: float) -> float:
    """The number of rank q * (n - 1), rounded, in a channel of a sketch."""
    ordered = np.sort(values.double().numpy(force=True).flatten())
    ordered = ordered[~np.isnan(ordered)]
    return float(ordered[round(q * (len(ordered) - 1))])


def assert_near(sketch: QuantileSketch, values: Tensor) -> None:
    """Every quantile is as near to its order statistic as the docstring says."""
    first, last = (2.0**e for e in sketch.exponents)
    found = sketch.quantile(QS)
    finite = values.double()[values.double().isfinite()]
    for q, got in zip(QS, found.tolist(), strict=True):
        expected = order_statistic(values, q)
        if first <= abs(expected) < last:
            assert abs(got - expected) <= 2.0 ** -(sketch.bits + 1) * abs(expected), (q, expected)
        elif abs(expected) < first:
            assert abs(got - expected) <= first / 2, (q, expected)
            assert np.sign(got) == np.sign(expected)
        elif np.isinf(expected):
            assert got == expected
        else:
            assert got in (expected, finite.min() if expected < 0 else finite.max())
    assert (found.diff() >= 0).all() or not np.isfinite(found.numpy(force=True)).all()
    if len(finite):
        assert sketch.min == finite.min()
        assert sketch.max == finite.max()
    else:
        assert sketch.min.isnan()
        assert sketch.max.isnan()
    assert sketch.count == (~values.double().isnan()).sum()


def floats(width: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(width=width), min_size=1, max_size=40)


@settings(max_examples=100, deadline=None)
@given(floats(64) | floats(32) | floats(16), st.integers(0, 8), st.data())
def test_order_statistics_of_any_floats(numbers: list[float], bits: int, data: Any) -> None:
    first = data.draw(st.integers(-1022, 1022))
    exponents = (first, data.draw(st.integers(first + 1, min(first + 200, 1023))))
    sketch = QuantileSketch(bits=bits, exponents=exponents)
    values = torch.tensor(numbers, dtype=torch.float64)
    sketch.update(values)
    assert sketch.hist.sum() == len(values)
    if sketch.count:
        assert_near(sketch, values)
    else:
        assert sketch.quantile(QS).isnan().all()


@pytest.mark.parametrize("bits", [0, 3, 7, 12])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["log-uniform", "both signs", "lognormal", "pareto", "mixture"])
def test_thirty_orders_of_magnitude(
    device: torch.device, kind: str, dtype: torch.dtype, bits: int
) -> None:
    chance = np.random.default_rng(0)
    size = 20_000
    wide = 10 ** chance.uniform(-15, 15, size)
    numbers = {
        "log-uniform": wide,
        "both signs": wide * chance.choice([-1, 1], size),
        "lognormal": chance.lognormal(0, 10, size),
        "pareto": chance.pareto(0.3, size),
        "mixture": chance.normal(0, 1, size) * chance.choice([0, 1e-15, 1, 1e15], size),
    }[kind]
    values = torch.from_numpy(numbers).to(device, dtype)
    sketch = QuantileSketch(bits=bits, exponents=(-52, 52)).to(device)
    for part in values.split(7_000):
        sketch.update(part)
    assert_near(sketch, values)
    narrow = QuantileSketch(bits=bits).to(device)  # for which much is tiny, and huge
    narrow.update(values)
    assert_near(narrow, values)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_values_of_every_dtype(device: torch.device, dtype: torch.dtype) -> None:
    if dtype.itemsize <= 2 and dtype != torch.bool:
        bits = torch.arange(1 << 8 * dtype.itemsize).to(
            (torch.uint8, torch.uint16)[dtype.itemsize - 1]
        )
        values = bits.view(dtype)
    else:
        values = (normal(1000) * 1000).abs().to(dtype)
    values = values.to(device)
    sketch = QuantileSketch().to(device)
    sketch.update(values)
    assert sketch.hist.sum() == values.numel()
    assert sketch.hist[-1] == values.double().isnan().sum()
    assert_near(sketch, values)
    stream = StreamingHistogram(10, (0, 300)).to(device)
    stream.update(values)
    assert torch.equal(stream.hist, histogram(values, stream.edges, flow=True).hist)


def test_integers_beyond_float64_are_rounded_outwards() -> None:
    sketch = QuantileSketch(exponents=(0, 64))
    sketch.update(torch.tensor([-(2**53) - 1, 5, 2**53 + 1]))
    assert sketch.min == -(2**53) - 2
    assert sketch.max == 2**53 + 2


# Computed while subnormals are numbers, which they are not in the test.
EXTREMES = {
    torch.float32: np.array([-4, 7]) * 2.0**-149,
    torch.float64: np.array([-4, 7]) * 2.0**-1074,
}


@pytest.mark.usefixtures("flush_denormal")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_subnormals_are_numbers_in_every_mode(dtype: torch.dtype) -> None:
    bits = {torch.float32: torch.int32, torch.float64: torch.int64}[dtype]
    x = torch.arange(1, 8, dtype=bits).view(dtype)
    stream = torch_histo.StreamingHistogram(x[::3])
    stream.update(x)
    assert stream.hist.tolist() == [0, 3, 4, 0, 0]
    sketch = torch_histo.QuantileSketch()
    sketch.update(torch.cat((x[2:], -x[:4])))
    smallest = 2.0**-149 if dtype == torch.float32 else 5e-324
    assert (sketch.min.item(), sketch.max.item()) == (-4 * smallest, 7 * smallest)
    # All values are tiny: half of the span's smallest magnitude is cut off at the extremes.
    found = sketch.quantile([i / 8 for i in range(9)]).view(torch.int64)
    low, high = EXTREMES[dtype].view(np.int64).tolist()
    assert found.tolist() == [low] * 4 + [high] * 5


def test_bins_are_symmetric_and_half_open() -> None:
    sketch = QuantileSketch(bits=2, exponents=(-3, 5))
    numbers = [0.125, 0.15, 0.15625, 1.0, 3.9, 31.9, 32.0, 1e300, 5e-324, 0.1249]
    values = torch.tensor(numbers, dtype=torch.float64)
    sketch.update(values)
    ones = sketch.hist.clone()
    sketch.reset()
    sketch.update(-values)
    assert torch.equal(sketch.hist[:-1], ones[:-1].flip(0))
    assert ones[-3] == 2  # huge: 2^5 and 1e300
    assert ones[len(ones) // 2] == 2  # tiny: beside zero
    sketch.update(torch.tensor([0.0, -0.0]))
    assert sketch.hist[len(ones) // 2 - 1] == 2
    both = torch.cat((-values, torch.tensor([0.0, -0.0])))
    assert_near(sketch, both)
    assert torch.equal(sketch.edges, torch.sort(sketch.edges).values)


def test_a_channel_takes_what_is_said() -> None:
    for bits, said in ((7, 128 << 10), (3, 8 << 10)):
        taken = QuantileSketch(10, bits).hist[0].nbytes
        assert taken == 8 * (2 * 64 * 2**bits + 8)
        assert said <= taken < said * 1.01


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=60),
    st.lists(st.floats(-2, 2, width=32), min_size=2, max_size=8),
)
def test_interpolated_quantiles(numbers: list[float], edges: list[float]) -> None:
    bounds = sorted(edges)
    stream = StreamingHistogram(torch.tensor(bounds))
    stream.update(torch.tensor(numbers))
    found = stream.quantile(QS)
    assert (found.diff() >= 0).all()
    ordered = np.clip(np.sort(numbers), bounds[0], bounds[-1])
    for q, got in zip(QS, found.tolist(), strict=True):
        below = ordered[max(int(np.ceil(q * len(ordered))) - 1, 0)]
        at = min(max(np.searchsorted(bounds, below, side="right"), 1), len(bounds) - 1)
        assert bounds[at - 1] <= got <= bounds[at] or got == below, (q, got, below)


def test_quantiles_are_on_the_line_through_the_cumulative_counts() -> None:
    stream = StreamingHistogram(torch.tensor([0.0, 1, 3, 4]))
    stream.update(torch.tensor([0.5] * 2 + [2.0] * 4 + [3.5] * 2))
    q = np.linspace(0, 1, 33)
    expected = np.interp(q, np.array([0, 2, 6, 8]) / 8, [0, 1, 3, 4])
    np.testing.assert_allclose(stream.quantile(torch.from_numpy(q)).numpy(), expected, atol=1e-15)


def test_quantiles_beside_the_bins() -> None:
    stream = StreamingHistogram(torch.tensor([-torch.inf, 0, 1, torch.inf]))
    stream.update(torch.tensor([-5.0, 0.2, 9.0, 10.0, torch.inf, torch.nan]))
    assert stream.quantile((0, 0.1, 0.3, 0.9, 1)).tolist() == [0, 0, 0.5, 1, 1]
    outside = StreamingHistogram(3, (0, 1))
    assert outside.quantile(0.5).isnan()
    outside.update(torch.tensor([-3.0, 7.0]))
    assert outside.quantile((0, 0.5, 0.6)).tolist() == [0, 0, 1]
    wide = StreamingHistogram(torch.tensor([-1.7e308, 1.7e308], dtype=torch.float64))
    wide.update(torch.ones(2))
    assert wide.quantile(0.5) == 0


ENDS = (-np.inf, -1.0, 0.0, 2.5, np.inf)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
@given(st.lists(st.sampled_from(ENDS), min_size=2, max_size=6), st.booleans())
def test_edges_that_are_infinite_and_repeat(
    kind: Callable[[list[float]], Any], ends: list[float], in_order: bool
) -> None:
    """As histogram takes them; counted by comparisons of Python's numbers."""
    ends = sorted(ends) if in_order else ends
    if any(left > right for left, right in pairwise(ends)):
        with pytest.raises(RuntimeError, match=r"^StreamingHistogram: edges must never decrease"):
            StreamingHistogram(kind(ends))
        return
    values = [-np.inf, -3.0, -1.0, 0.5, 2.5, 7.0, np.inf, np.inf, np.nan]
    stream = StreamingHistogram(kind(ends))
    stream.update(torch.tensor(values))
    assert torch.equal(stream.hist, histogram(values, kind(ends), flow=True).hist)
    last = len(ends) - 1
    for k, (left, right) in enumerate(pairwise(ends), start=1):
        inside = [left <= v < right or (k == last and v == right) for v in values]
        assert stream.hist[k] == sum(inside)
    q = torch.tensor([0.0, 0.3, 0.6, 1.0])
    for fraction, found in zip(q.tolist(), stream.quantile(q).tolist(), strict=True):
        place = int((stream.hist[:-1].cumsum(0) >= max(fraction * 8, 0.5)).int().argmax())
        left, right = ends[max(place - 1, 0)], ends[min(place, last)]
        if left == right or np.isinf(left) != np.isinf(right):
            one = left if np.isfinite(left) or left == right else right
            assert found == one
        elif np.isinf(left):
            assert np.isnan(found)
        else:
            assert left <= found <= right


def test_quantiles_are_those_of_torch_where_the_order_statistic_is_a_middle() -> None:
    sketch = QuantileSketch(3, bits=7)
    values = normal(999, 3)
    sketch.update(values, 0)
    q = torch.tensor([0.05, 0.5, 0.9])
    expected = values.quantile(q, 0, interpolation="nearest").double()
    found = sketch.quantile(q)
    assert found.shape == (3, 3)
    assert ((found - expected).abs() <= expected.abs() / 2**8).all()
    assert torch.equal(sketch.quantile(0.5), found[1])
    assert torch.equal(sketch.quantile(torch.tensor(0.5)), found[1])
    assert torch.equal(sketch.quantile([0.5]), found[1:2])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=5), st.sampled_from(sorted(MAKERS)), st.data())
def test_parts_are_the_whole(sizes: list[int], name: str, data: Any) -> None:
    """However a stream is divided, over updates and over modules that are merged."""
    parts = [normal(size, 2, 3, seed=i).double() for i, size in enumerate(sizes)]
    modules = [MAKERS[name]((2, 3)) for _ in range(2)]
    for part in parts:
        modules[data.draw(st.integers(0, 1))].update(part, 0)
    whole = MAKERS[name]((2, 3))
    whole.update(torch.cat([*parts, torch.empty(0, 2, 3)]), dim=(0,))
    merged = modules[0].merge(modules[1])
    assert merged is modules[0]
    assert_same_state(merged, whole)
    assert torch.equal(whole.hist.sum(-1), torch.full((2, 3), sum(sizes)))


def assert_same_state(found: nn.Module, expected: nn.Module) -> None:
    states = found.state_dict(), expected.state_dict()
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor.cpu(), states[1][name].cpu()), name


def test_channels(device: torch.device, make: Callable[[Any], Stream]) -> None:
    values = normal(6, 4, 5, 3).to(device)
    stream = make((4, 3)).to(device)
    stream.update(values, (0, 2))
    stream.update(values.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2), dim=(-2, 0))
    alone = make(None).to(device)
    assert stream.quantile(0.5).shape == stream.count.shape == (4, 3)
    for at in np.ndindex(4, 3):
        alone.reset()
        alone.update(values[:, at[0], :, at[1]])
        alone.update(values[:, at[0], :, at[1]])
        assert_same_state(stream.channel(*at), alone)
        assert torch.equal(stream.quantile(0.3)[at], alone.quantile(0.3))
        assert torch.equal(stream.density()[at].nan_to_num(-1), alone.density().nan_to_num(-1))


def test_channels_of_their_own_edges() -> None:
    edges = torch.tensor([[0.0, 1, 2], [10, 20, 30]])
    stream = StreamingHistogram(edges)
    assert stream.hist.shape == (2, 5)
    stream.update(torch.tensor([[0.5, 1.5], [15, 40]]), 1)
    assert stream.hist.tolist() == [[0, 1, 1, 0, 0], [0, 1, 0, 1, 0]]
    assert stream.quantile(0.5).tolist() == [1, 20]
    assert torch.equal(stream.edges, edges.double())
    assert stream.channel(1).edges.tolist() == [10, 20, 30]
    ranged = StreamingHistogram(2, (torch.tensor([0.0, 10]), torch.tensor([2.0, 30])))
    assert torch.equal(ranged.edges, edges.double())
    assert StreamingHistogram(edges, channels=(3, 2)).hist.shape == (3, 2, 5)
    assert StreamingHistogram(2, (0, torch.tensor([[1.0], [2]])), (2, 3)).edges.shape == (2, 1, 3)


def test_edges_is_another_name() -> None:
    edges = torch.tensor([[0.0, 1, 2], [0, 2, 3]])
    assert torch.equal(StreamingHistogram(edges=edges).edges, StreamingHistogram(edges).edges)
    assert torch.equal(StreamingHistogram(edges=edges[0], channels=2).hist, torch.zeros(2, 5))


def test_density() -> None:
    stream = StreamingHistogram(torch.tensor([0.0, 1, 3]))
    stream.update(torch.tensor([0.5, 0.5, 2, 2, 9, torch.nan]))
    assert stream.density().tolist() == [0.5, 0.25]
    assert torch.equal(
        stream.density(), histogram(torch.tensor([0.5, 0.5, 2, 2]), stream.edges, density=True).hist
    )


def test_copies_and_states(make: Callable[[Any], Stream]) -> None:
    stream = make(2)
    stream.update(normal(50, 2), 0)
    kept = copy.deepcopy(stream)
    file = io.BytesIO()
    torch.save(stream.state_dict(), file)
    for other in (copy.deepcopy(stream), pickle.loads(pickle.dumps(stream))):
        assert_same_state(other, stream)
        other.update(normal(50, 2), 0)
        assert not torch.equal(other.hist, stream.hist)
    assert_same_state(stream, kept)
    file.seek(0)
    loaded = make(2)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    assert_same_state(loaded, stream)
    with torch.device("meta"):
        meta = make(2)
    meta.update(torch.empty(5, 2, device="meta"), 0)
    assert meta.quantile([0.1, 0.2]).shape == (2, 2)
    meta.load_state_dict(stream.state_dict(), assign=True)
    assert_same_state(meta, stream)
    empty = meta.to("meta").to_empty(device="cpu")
    empty.load_state_dict(stream.state_dict())
    assert_same_state(empty, stream)
    stream.reset()
    assert_same_state(stream, make(2))


COUNTS = st.lists(
    st.integers(0, 3) | st.integers(0, 2**53) | st.integers(0, 2**60), min_size=7, max_size=7
)
ENDS = st.sampled_from([0.0, 5e-324, 0.5, 1 - 2.0**-53, 1.0])


def quantile_of_counts(counts: list[int], rank: Fraction) -> Fraction:
    """The place of a rank on the line through the cumulative counts; bins are 1 wide."""
    below = 0
    for at, count in enumerate(counts):
        if count and rank <= below + count:
            return at + max(rank - below, Fraction(0)) / count
        below += count
    raise AssertionError(rank)


@settings(max_examples=300, deadline=None)
@given(COUNTS, st.floats(0, 1) | ENDS)
def test_interpolated_quantiles_of_any_counts(counts: list[int], q: float) -> None:
    """Ranks are right within 2^-20 beyond 2^53 counts, and those of float64 below."""
    total = sum(counts)
    stream = StreamingHistogram(7, (0, 7))
    stream.hist[1:-2] = torch.tensor(counts)
    got = float(stream.quantile(q))
    if total == 0:
        assert np.isnan(got)
        return
    rank = Fraction(q) * total
    room = Fraction(total if total <= 2**53 else 2**33, 2**53)
    low = quantile_of_counts(counts, max(rank - room, Fraction(0)))
    high = quantile_of_counts(counts, min(rank + room, Fraction(total)))
    assert low - Fraction(1, 2**49) <= Fraction(got) <= high + Fraction(1, 2**49)


@settings(max_examples=300, deadline=None)
@given(COUNTS, st.floats(0, 1) | ENDS)
@example([0, 0, 0, 0, 0, 2**53 - 1, 1], 1 - 2**-53)
def test_order_statistics_of_any_counts(counts: list[int], q: float) -> None:
    counts[1] += 1  # the extremes are there
    counts[5] += 1
    total = sum(counts)
    sketch = QuantileSketch(bits=0, exponents=(0, 4))
    sketch.update(torch.tensor([0.0, 1.5, 3.0, 6.0, 12.0, torch.inf, -torch.inf]))
    places = sketch.hist.nonzero().flatten()
    sketch.hist[places] = torch.tensor(counts)
    got = float(sketch.quantile(q))
    rank, room = Fraction(q) * (total - 1), Fraction(1, 2**20)
    if total <= 2**53:
        rank, room = Fraction(q * (total - 1)), Fraction(0)
    last = np.array(counts, object).cumsum()
    expected = {
        np.searchsorted(last, round(near), side="right") for near in (rank - room, rank + room)
    }
    values = [-np.inf, 0, 1.5, 3, 6, 12, np.inf]
    assert got in {values[at] for at in expected}


@pytest.mark.parametrize("largest", [2**53, 2**54 + 3, 2**62])
def test_the_last_of_very_many(largest: int, device: torch.device) -> None:
    for counts in ([largest, 1], [1, largest], [largest, 2], [largest, largest - 1]):
        sketch = QuantileSketch(bits=3).to(device)
        sketch.update(torch.tensor([1.0, 8.0], device=device))
        sketch.hist[sketch.hist.nonzero().flatten()] = torch.tensor(counts, device=device)
        assert sketch.quantile([0.0, 1.0]).tolist() == [1, 8]
        stream = StreamingHistogram(2, (0, 2)).to(device)
        stream.hist[1:3] = torch.tensor(counts, device=device)
        assert stream.quantile([0.0, 1.0]).tolist() == [0, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: StreamingHistogram(4, (0, 1), channels=3),
        lambda: StreamingHistogram(torch.tensor([0.0, 0.5, 1.0]), channels=3),
        lambda: StreamingHistogram(torch.tensor([[0, 1], [2, 2], [5, 9]])),
        lambda: StreamingHistogram([0.0, 0.5, 1.0], channels=3),
        lambda: StreamingHistogram(4, (torch.zeros(3), torch.ones(3))),
        lambda: QuantileSketch(3, bits=3),
    ],
)
@pytest.mark.parametrize("mode", [FakeTensorMode, lambda: torch.device("meta")])
def test_without_values(make: Callable[[], Stream], mode: Callable[[], Any]) -> None:
    """Estimators of memory make models of fake tensors, whose values nobody can read."""
    expected = make()
    shape = expected.density().shape
    with mode():
        stream, other = make(), make()
        stream.update(torch.empty(5, 3, device=stream.hist.device), 0)
        assert stream(torch.empty(3, 5, device=stream.hist.device), 1).shape == (3, 5)
        stream.merge(other)
        stream.load_state_dict(other.state_dict())
        assert stream.quantile([0.1, 0.2]).shape == (2, 3)
        assert stream.quantile(0.5).shape == stream.count.shape == (3,)
        assert stream.density().shape == shape
        stream.reset()
    for name, buffer in expected.named_buffers():
        own = stream.get_buffer(name)
        assert (own.shape, own.dtype) == (buffer.shape, buffer.dtype)


def test_a_model_of_fake_tensors() -> None:
    with FakeTensorMode():
        model = Layer(QuantileSketch(3)), Layer(StreamingHistogram(16, (-2, 2), 3))
        for layer in model:
            layer(torch.empty(5, 4)).sum().backward()
            assert sum(b.nbytes for b in layer.buffers()) >= layer.stream.hist.nbytes > 0


def test_states_of_other_bins() -> None:
    state = StreamingHistogram(4, (0, 1)).state_dict()
    stream = StreamingHistogram(4, (0, 2))
    stream.load_state_dict(state)
    assert stream.edges[-1] == 1
    shifted = QuantileSketch(bits=3, exponents=(-8, 8)).state_dict()
    with pytest.raises(RuntimeError, match="edge_bits are of other bits or exponents"):
        QuantileSketch(bits=3, exponents=(-7, 9)).load_state_dict(shifted)
    with pytest.raises(RuntimeError, match="edge_bits are of other bits or exponents"):
        QuantileSketch(bits=4, exponents=(-4, 4)).load_state_dict(shifted)
    with pytest.raises(RuntimeError, match="size mismatch for hist"):
        QuantileSketch(bits=4, exponents=(-8, 8)).load_state_dict(shifted)


def test_casts_do_no_harm(make: Callable[[Any], Stream]) -> None:
    model = nn.Sequential(nn.Linear(2, 2), make(2))
    model[1].update(normal(50, 2) * 1e6, 0)
    kept = copy.deepcopy(model[1])
    for cast in (model.half, model.bfloat16, model.float, model.double):
        cast()
        assert_same_state(model[1], kept)
    assert model[1].edges.dtype == torch.float64


class Layer(nn.Module):
    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.stream = stream

    def forward(self, x: Tensor) -> Tensor:
        return self.stream(self.linear(x), 0).relu()


@pytest.mark.parametrize(
    ("name", "backend"),
    [("histogram", "aot_eager"), ("sketch", "aot_eager"), ("sketch", "inductor")],
)
def test_compiled(device: torch.device, name: str, backend: str) -> None:
    layer = Layer(MAKERS[name](3)).to(device)
    run = torch.compile(layer, fullgraph=True, backend=backend)
    expected = MAKERS[name](3).to(device)
    for rows in (5, 9, 13):
        x = normal(rows, 4, seed=rows).to(device)
        run(x).sum().backward()
        expected.update(layer.linear(x), 0)
    assert_same_state(layer.stream, expected)
    assert layer.linear.weight.grad is not None
    read = torch.compile(lambda stream, q: stream.quantile(q), fullgraph=True, backend=backend)
    for q in (0.5, 0.25, torch.tensor([0.1, 2.0], device=device)):
        found = read(expected, q), expected.quantile(q)
        assert torch.equal(found[0].isnan(), found[1].isnan())
        torch.testing.assert_close(*found, equal_nan=True)
    torch._dynamo.reset()


def test_inference_and_no_grad(make: Callable[[Any], Stream]) -> None:
    stream, expected = make(3), make(3)
    with torch.inference_mode():
        stream.update(normal(5, 3), 0)
    with torch.autocast("cpu", torch.bfloat16):
        stream.update(normal(5, 3).requires_grad_(), 0)
    expected.update(torch.cat([normal(5, 3)] * 2), 0)
    assert_same_state(stream, expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_without_synchronization(make: Callable[[Any], Stream]) -> None:
    stream = make(3).cuda()
    x = normal(5, 3).cuda()
    q = torch.tensor([0.1, 0.5], device="cuda")
    stream.update(x, 0)
    stream.quantile(q)
    stream.reset()
    torch.cuda.set_sync_debug_mode("error")
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            stream.update(x, 0)
            found = stream.quantile(q), stream.quantile(0.5), stream.density(), stream.count
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = make(3)
    for seed in range(3):
        x.copy_(normal(5, 3, seed=seed))
        graph.replay()
        expected.update(normal(5, 3, seed=seed), 0)
    assert_same_state(stream, expected)
    assert torch.equal(found[0].cpu(), expected.quantile(q.cpu()))
    assert torch.equal(found[1].cpu(), expected.quantile(0.5))
    assert torch.equal(found[3].cpu(), expected.count)


def test_what_q_may_be() -> None:
    stream = StreamingHistogram(2, (0, 2))
    stream.update(torch.tensor([0.5, 1.5]))
    for q in (range(2), [Fraction(0), np.float32(1)], np.array([0, 1]), torch.arange(2)):
        assert stream.quantile(q).tolist() == [0, 2]
    assert stream.quantile(Fraction(1, 4)) == 0.5
    unbounded = StreamingHistogram(torch.tensor([-torch.inf, torch.inf]))
    unbounded.update(torch.ones(3))
    assert unbounded.quantile(0.5).isnan()


def test_q_on_the_device_outside() -> None:
    sketch = QuantileSketch()
    sketch.update(torch.ones(3))
    found = sketch.quantile(torch.tensor([-0.1, 0.5, 1.1, torch.nan]))
    assert found.isnan().tolist() == [True, False, True, True]


@pytest.mark.usefixtures("figures")
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_plotting_libraries(make: Callable[[Any], Stream]) -> None:
    plottable = pytest.importorskip("uhi.typing.plottable")
    mplhep = pytest.importorskip("mplhep")
    hist = pytest.importorskip("hist")
    boost_histogram = pytest.importorskip("boost_histogram")
    stream = make(None)
    values = torch.cat((normal(1000), torch.tensor([torch.nan, torch.inf, -torch.inf])))
    stream.update(values)
    assert isinstance(stream, plottable.PlottableHistogram)
    assert isinstance(stream.axes[0], plottable.PlottableAxisGeneric)
    counted = stream.hist[1:-2].double().numpy()
    for counts in (stream.values(), stream.counts(), stream.variances()):
        assert np.array_equal(counts, counted)
    assert stream.kind == "COUNT"
    (artists,) = mplhep.histplot(stream, flow="none")
    artists.stairs.figure.canvas.draw()
    assert np.array_equal(artists.stairs.get_data().values, counted)
    for taken in (hist.Hist(stream), boost_histogram.Histogram(stream._to_uhi_())):
        assert np.array_equal(taken.values(), counted)
        assert np.array_equal(taken.axes[0].edges[1:-1], stream.edges[1:-1].numpy())
        assert taken.sum(flow=True) == len(values)
        assert list(taken.axes[0]) == list(stream.axes[0])
    several = make((2, 3))
    several.update(normal(50, 2, 3), 0)
    assert np.array_equal(hist.Hist(several).values(), several.values())
    assert [len(axis) for axis in several.axes] == [2, 3, counted.size]
    mplhep.hist2dplot(StreamingHistogram(8, (-2, 2), 3))


@pytest.mark.usefixtures("figures")
def test_plots(make: Callable[[Any], Stream]) -> None:
    stream = make(2)
    stream.update(normal(1000, 2), 0)
    is_sketch = isinstance(stream, QuantileSketch)
    for options in [{"log": True}, {}] if is_sketch else [{}]:
        ax = stream.plot(**options)
        assert ax.get_xlabel() == "value"
        assert ax.get_title().startswith(f"{type(stream).__name__} of 2,000 values")
        shown = [text.get_text() for text in ax.get_legend().get_texts()]
        assert shown == ["channel 0", "channel 1", "quantiles 0.01, 0.5, 0.99"]
        drawn = [patch.get_data() for patch in ax.patches]
        if is_sketch and not options:
            for data in drawn:
                assert (data.values * np.diff(data.edges)).sum() == pytest.approx(1)
        else:
            assert [data.values.sum() for data in drawn] == stream.values().sum(-1).tolist()
        marks = [line.get_segments()[0][0, 0] for line in ax.collections]
        assert marks == stream.quantile([0.01, 0.5, 0.99]).T.flatten().tolist()
        ax.figure.canvas.draw()
    assert ax.get_ylabel() == (
        "density (share of the values per unit)" if is_sketch else "count per bin"
    )
    assert stream.channel(0).plot(ax) is ax
    assert make(None).plot(q=()).get_legend() is None
    make(None).plot().figure.canvas.draw()  # of nothing
    open_ended = StreamingHistogram(torch.tensor([-torch.inf, 0, 1, torch.inf]))
    open_ended.update(normal(10))
    open_ended.plot().figure.canvas.draw()
    StreamingHistogram([-torch.inf, torch.inf]).plot().figure.canvas.draw()  # no bin has a width


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize("make", [QuantileSketch, lambda: StreamingHistogram(4, (-2, 2))])
def test_quantiles_of_a_plot(make: Callable[[], QuantileSketch | StreamingHistogram]) -> None:
    """One number will do, as `quantile` takes it; so do arrays and tensors."""
    stream = make()
    stream.update(normal(100))
    for q in (0.5, np.float32(0.5), [0.5], np.array([0.5]), torch.tensor(0.5), [torch.tensor(0.5)]):
        (text,) = stream.plot(q=q).get_legend().get_texts()  # type: ignore[arg-type]
        assert text.get_text().startswith("quantile 0.5: ")
    for wrong in ("0.5", None, ["a"], [[0.5]]):
        expected = "q must be a number or a sequence of numbers"
        line = f"{type(stream).__name__}.plot: {expected}, got {wrong!r}"
        with pytest.raises(TypeError, match=f"^{re.escape(line)}$"):
            stream.plot(q=wrong)  # type: ignore[arg-type]


@pytest.mark.usefixtures("figures")
def test_the_plot_of_normal_values_is_a_bell() -> None:
    """Of the density that everybody knows, and of what a histogram of the values counts."""
    sketch, values = QuantileSketch(), normal(200_000).double()
    sketch.update(values)
    ax = sketch.plot(q=[0.5])
    ((heights, edges, _),) = (patch.get_data() for patch in ax.patches)
    assert ax.get_xscale() == "linear"
    middles = (edges[1:] + edges[:-1]) / 2
    bell = np.exp(-(middles**2) / 2) / np.sqrt(2 * np.pi)
    assert np.abs(heights - bell).max() < 0.02
    expected = np.histogram(values, edges)[0] / len(values) / np.diff(edges)
    # A sketch takes the values of a bin to be spread over it: at most 2^-7 of an edge's size.
    moved = np.abs(edges).max() * 2.0**-7 / np.diff(edges) * bell.max()
    assert (np.abs(heights - expected) < moved).all()
    (text,) = ax.get_legend().get_texts()
    assert text.get_text() == f"quantile 0.5: {float(sketch.quantile(0.5)):.4g}"


@pytest.mark.usefixtures("figures")
def test_one_value_far_away_leaves_the_axis() -> None:
    sketch = QuantileSketch()
    sketch.update(torch.cat((normal(10_000), torch.tensor([1e9, torch.inf, torch.nan]))))
    ax = sketch.plot()
    assert -10 < ax.get_xlim()[0] < ax.get_xlim()[1] < 10
    assert ax.get_title() == (
        "QuantileSketch of 10,003 values: 1 infinite, 1 NaN\n1 of them beyond the axis"
    )
    sketch.reset()
    sketch.update(normal(1000).relu())  # zeros are in the bin that begins with zero
    (data,) = (patch.get_data() for patch in sketch.plot().patches)
    assert data.edges[0] == 0
    assert data.values[0] * (data.edges[1] - data.edges[0]) > 0.45


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize(
    "values",
    [
        [3.0],
        [torch.nan],
        [torch.inf, -torch.inf],
        [1e308, -1e308],
        [0, 5e-324],
        [1e-310, 2e-310],
        [1e300] * 5,
        [1000.01, 1000.02],
        [8e307, 1.7e308],
        [-0.0],
    ],
    ids=str,
)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("exponents", [(-32, 32), (-1022, 1023), (1000, 1023)], ids=str)
@pytest.mark.filterwarnings("error")
def test_plots_of_rare_values(values: list[float], log: bool, exponents: tuple[int, int]) -> None:
    sketch = QuantileSketch(bits=2, exponents=exponents)
    sketch.update(torch.tensor(values, dtype=torch.float64))
    ax = sketch.plot(log=log)
    ax.figure.canvas.draw()
    assert np.isfinite(ax.patches[0].get_data().values).all()
    assert np.isfinite(ax.get_xlim()).all()


HUGE_EDGES = {
    "the whole span": [-1.7e308, 0, 1.7e308],
    "one width": [-1.7e308, 1.7e308],
    "one side": [8e307, 1e308, 1.7e308],
    "neighbours": [1e308, np.nextafter(1e308, np.inf)],
    "open": [-np.inf, -1e308, 1e308, np.inf],
    "others": [-1.7e308, 1, 2, 3],
    "tiny": [0, 5e-324, 1e-310],
}


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize("edges", HUGE_EDGES.values(), ids=HUGE_EDGES)
@pytest.mark.filterwarnings("error")
def test_plots_of_rare_edges(edges: list[float]) -> None:
    """matplotlib would overflow: the axes have a unit."""
    values = torch.tensor([edge for edge in edges if np.isfinite(edge)], dtype=torch.float64)
    counts, weights = (StreamingHistogram(edges, weight_dtype=d) for d in (None, torch.float64))
    pairs = torch_histo.StreamingHistogramdd((edges, edges))
    counts.update(values)
    weights.update(values, values)
    pairs.update((values, values))
    for stream in (counts, weights, pairs):
        ax = stream.plot()
        ax.figure.canvas.draw()
        assert np.isfinite(ax.get_xlim()).all()
        assert re.fullmatch(r"(value|coordinate 0) in units of 1e-?3\d\d", ax.get_xlabel())
    (text, *_) = counts.plot(q=[0.0]).get_legend().get_texts()
    assert text.get_text() == f"quantile 0: {float(counts.quantile(0)):.4g}"


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: StreamingHistogram(4),
        RuntimeError,
        "StreamingHistogram: range must be a pair of numbers or of tensors where bins is a "
        "number, got None: QuantileSketch needs no range",
    ),
    (
        lambda: StreamingHistogram(0, (0, 1)),
        RuntimeError,
        "StreamingHistogram: bins must be at least 1, got 0",
    ),
    (
        lambda: StreamingHistogram(4, (1, 0)),
        RuntimeError,
        "StreamingHistogram: range must be two finite numbers, the first not above the second, "
        "got (1, 0)",
    ),
    (
        lambda: StreamingHistogram(torch.tensor([0.0, 1]), (0, 1)),
        RuntimeError,
        "StreamingHistogram: range must be left out where bins are edges, got range=(0, 1)",
    ),
    (
        lambda: StreamingHistogram(torch.tensor([0.0, 2, 1])),
        RuntimeError,
        "StreamingHistogram: edges must never decrease and hold no NaN, got [0.0, 2.0, 1.0]",
    ),
    (
        lambda: StreamingHistogram(torch.tensor([0, 2**53 + 1])),
        RuntimeError,
        "StreamingHistogram: edges must be exact in float64, got torch.int64",
    ),
    (
        lambda: StreamingHistogram(torch.zeros(2, 3), channels=3),
        RuntimeError,
        "StreamingHistogram: bins must be [n + 1], or have sizes that broadcast to the kept "
        "dimensions and n + 1, [3, 3], got [2, 3]",
    ),
    (
        lambda: StreamingHistogram(4, (0, 1), 1.5),
        TypeError,
        "StreamingHistogram: channels must be an int or a sequence of ints, got 1.5",
    ),
    (
        lambda: QuantileSketch(-1),
        RuntimeError,
        "QuantileSketch: channels must be at least 0, got -1",
    ),
    (
        lambda: QuantileSketch(bits=17),
        RuntimeError,
        "QuantileSketch: bits must be between 0 and 16, got 17",
    ),
    (
        lambda: QuantileSketch(exponents=5),
        TypeError,
        "QuantileSketch: exponents must be a pair of ints, got 5",
    ),
    (
        lambda: QuantileSketch(exponents=(3, 3)),
        RuntimeError,
        "QuantileSketch: exponents must be two ints from -1022 to 1023, the first below the "
        "second, got (3, 3)",
    ),
    (
        lambda: QuantileSketch(3).update(torch.zeros(8, 4), 0),
        RuntimeError,
        "QuantileSketch.update: x must have the channels' sizes, [3], beside dim, got [8, 4] "
        "over dim=0",
    ),
    (
        lambda: QuantileSketch(3).update(torch.zeros(8, 3)),
        RuntimeError,
        "QuantileSketch.update: x must have the channels' sizes, [3], beside dim, got [8, 3] "
        "over dim=None",
    ),
    (
        lambda: QuantileSketch(3).update(torch.zeros(8, 3), 2),
        RuntimeError,
        "QuantileSketch.update: dim must be between -2 and 1 for a 2-D x, got 2",
    ),
    (
        lambda: QuantileSketch().update("a"),
        TypeError,
        "QuantileSketch.update: x must be a tensor, an array, an image or a list of numbers, "
        "got str",
    ),
    (
        lambda: QuantileSketch().update(torch.zeros(3, device="meta")),
        RuntimeError,
        "QuantileSketch.update: x must be on the device of the module, cpu, got meta: call "
        ".to(x.device)",
    ),
    (
        lambda: QuantileSketch().quantile(1.5),
        RuntimeError,
        "QuantileSketch.quantile: q must be between 0 and 1, got 1.5",
    ),
    (
        lambda: QuantileSketch().quantile([0.5, "a"]),
        TypeError,
        "QuantileSketch.quantile: q must be a number, a sequence of numbers, or a tensor, got "
        "[0.5, 'a']",
    ),
    (
        lambda: QuantileSketch().quantile(torch.zeros(2, 2)),
        RuntimeError,
        "QuantileSketch.quantile: q must have at most one dimension, got [2, 2]",
    ),
    (
        lambda: QuantileSketch().merge(StreamingHistogram(3, (0, 1))),
        TypeError,
        "QuantileSketch.merge: other must be a QuantileSketch, got StreamingHistogram",
    ),
    (
        lambda: QuantileSketch().merge(QuantileSketch(2)),
        RuntimeError,
        "QuantileSketch.merge: other must have bins of bits=7, exponents=(-32, 32) and channels "
        "[], got bins of bits=7, exponents=(-32, 32) and channels [2]",
    ),
    (
        lambda: StreamingHistogram([torch.tensor(1)]),
        TypeError,
        "StreamingHistogram: bins must be an int of 64 bits, or a tensor, an array or a list of "
        "edges, got list of Tensor: pass torch.stack(bins)",
    ),
    (
        lambda: StreamingHistogram(3, edges=torch.arange(3)),
        TypeError,
        "StreamingHistogram: edges must be left out with bins, got both",
    ),
    (
        lambda: StreamingHistogram(3, (0, 1)).merge(StreamingHistogram(3, (0, 2))),
        RuntimeError,
        "StreamingHistogram.merge: other must have bins of the same edges, got other edges",
    ),
    (
        lambda: QuantileSketch().all_reduce(),
        RuntimeError,
        "QuantileSketch.all_reduce: expected torch.distributed to be initialized, got no process "
        "group",
    ),
    (
        lambda: QuantileSketch(3).channel(),
        RuntimeError,
        "QuantileSketch.channel: index must be 1 ints, one a dimension of channels, got ()",
    ),
    (
        lambda: QuantileSketch(3).channel("a"),  # type: ignore[arg-type]
        TypeError,
        "QuantileSketch.channel: index must be 1 ints, one a dimension of channels, got 'a'",
    ),
    (
        lambda: StreamingHistogram(2, np.array([0, 1, 2])),
        TypeError,
        "StreamingHistogram: range must be a pair of numbers or of tensors, got array([0, 1, 2])",
    ),
    (
        lambda: QuantileSketch(11).plot(),
        RuntimeError,
        "QuantileSketch.plot: channels must be at most 10, got 11: take one by .channel(index)",
    ),
    (
        lambda: StreamingHistogram(3, (torch.zeros(2), torch.arange(1, 3))).axes,
        RuntimeError,
        "StreamingHistogram.axes: edges must be the same in all channels, got [2, 4]: take one "
        "by .channel(index)",
    ),
]


@pytest.mark.parametrize(("call", "kind", "line"), ERRORS, ids=[e[2][:70] for e in ERRORS])
def test_errors_of_one_line(call: Callable[[], Any], kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(line)}$") as caught:
        call()
    assert type(caught.value) is kind


def test_docstrings() -> None:
    results = [run_examples(module) for module in (sketch, streams)]
    assert sum(tried for _, tried in results) >= 8
    assert not any(failed for failed, _ in results)
    for kind in (StreamingHistogram, QuantileSketch):
        for part in ("Args:", "Attributes:", "Raises:", "Example:", "Source:"):
            assert part in (kind.__doc__ or "")
        for method in ("update", "merge", "all_reduce", "quantile", "plot", "reset", "density"):
            assert getattr(kind, method).__doc__, method
