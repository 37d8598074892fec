"""Streams of weights: the bits of the whole, however it is divided; sums, variances, readers."""

from __future__ import annotations

import copy
import io
import math
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import FLOATS, NUMBERS, any_bits, assert_sums, random_values
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from torch_histo import QuantileSketch, StreamingHistogram, histogram
from torch_histo.weighted_streams import WeightedStreamingHistogram

pytestmark = pytest.mark.sampled(2)

EDGES = torch.tensor([-10.0, 0.5, 3, 3, 100, 250], dtype=torch.float64)
NARROW = [dtype for dtype in FLOATS if dtype != torch.float64]
MAKERS: dict[str, Callable[..., StreamingHistogram]] = {
    "float32": lambda c=None: StreamingHistogram(EDGES, None, c, weight_dtype=torch.float32),
    "variance": lambda c=None: StreamingHistogram(
        EDGES, None, c, weight_dtype=torch.float32, variance=True
    ),
    "float64": lambda c=None: StreamingHistogram(EDGES, None, c, weight_dtype=torch.float64),
    "integers": lambda c=None: StreamingHistogram(EDGES, None, c, weight_dtype=torch.int64),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[..., StreamingHistogram]:
    return MAKERS[request.param]


def dtype_of(stream: StreamingHistogram) -> torch.dtype:
    assert isinstance(stream, WeightedStreamingHistogram)
    return stream.weight_dtype


def weights_for(stream: StreamingHistogram, *shape: int, seed: int = 0) -> Tensor:
    return any_bits(shape, dtype_of(stream), seed)


def assert_same_state(found: nn.Module, expected: nn.Module) -> None:
    states = found.state_dict(), expected.state_dict()
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor.cpu(), states[1][name].cpu()), name


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_sums_and_variances(device: torch.device, dtype: torch.dtype) -> None:
    values, weight = random_values((70, 3), torch.float32), any_bits((70, 3), dtype)
    stream = StreamingHistogram(EDGES, channels=3, weight_dtype=dtype, variance=dtype in NARROW).to(
        device
    )
    for part, own in zip(values.split(23), weight.split(23), strict=True):
        stream.update(part.to(device), own.to(device), 0)
    expected = oracle.weighted_histogram(values, EDGES, weight, 0, flow=True)
    assert_sums(stream.hist, expected)
    assert_sums(torch.from_numpy(stream.values()), expected[..., 1:-2].double())
    both = expected.double()[..., :-1].clone()
    if not dtype.is_floating_point:
        both[..., -1] = (expected[..., -1] + expected[..., -2]).double()
        assert_sums(torch.from_numpy(stream.values(flow=True)), both)
    density = histogram(values, EDGES, dim=0, weight=weight, density=True).hist
    assert_sums(stream.density(), density)
    if dtype in NARROW:
        squares = oracle.weighted_histogram(values, EDGES, weight, 0, flow=True, power=2)
        assert_sums(torch.from_numpy(stream.variances()), squares[..., 1:-2])
    else:
        assert stream.variances() is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 12), max_size=5), st.sampled_from(sorted(MAKERS)), st.data())
def test_parts_are_the_whole(sizes: list[int], name: str, data: Any) -> None:
    """However a stream is divided, over updates and over modules merged in any order."""
    whole, modules = MAKERS[name](2), [MAKERS[name](2) for _ in range(3)]
    parts = [random_values((size, 2), torch.float32, seed=i) for i, size in enumerate(sizes)]
    weights = [weights_for(whole, size, 2, seed=i) for i, size in enumerate(sizes)]
    for part, weight in zip(parts, weights, strict=True):
        modules[data.draw(st.integers(0, 2))].update(part, weight, 0)
    empty = torch.empty(0, 2)
    whole.update(torch.cat([*parts, empty]), torch.cat([*weights, empty.to(dtype_of(whole))]), 0)
    first, second, third = data.draw(st.permutations(modules))
    if data.draw(st.booleans()):
        merged = first.merge(second).merge(third)
    else:
        merged = first.merge(second.merge(third))
    assert merged is first
    assert_same_state(merged, whole)


def test_channels(device: torch.device, make: Callable[..., StreamingHistogram]) -> None:
    stream, alone = make((4, 3)).to(device), make().to(device)
    values = random_values((6, 4, 5, 3), torch.float32).to(device)
    weight = weights_for(stream, 5, 3).to(device)
    stream.update(values, weight, (0, 2))
    stream.update(values, dim=(-2, 0), weight=weight[:, :1])
    assert stream.hist.shape == (4, 3, 8)
    for at in np.ndindex(4, 3):
        alone.reset()
        alone.update(values[:, at[0], :, at[1]], weight[:, at[1]])
        alone.update(values[:, at[0], :, at[1]], weight[:, 0])
        assert_same_state(stream.channel(*at), alone)
    stream.reset()
    assert_same_state(stream.cpu(), make((4, 3)))


def test_narrower_weights(device: torch.device) -> None:
    """They are widened exactly, and numbers are rounded to the module's dtype."""
    values = random_values((50,), torch.float32).to(device)
    wide = {torch.float32: NARROW, torch.float64: FLOATS, torch.bfloat16: [torch.float8_e5m2]}
    wide[torch.float16] = [torch.float8_e5m2, torch.float8_e4m3fn]
    for dtype, narrow in wide.items():
        for own in narrow:
            stream = StreamingHistogram(EDGES, weight_dtype=dtype).to(device)
            weight = any_bits((50,), own).to(device)
            stream.update(values, weight)
            expected = oracle.weighted_histogram(values, EDGES, weight, flow=True)
            assert_sums(stream.hist, expected, (dtype, own))
        stream.reset()
        for number in (0.1, 3, True, -2.5):
            stream.update(values, number)
        numbers = torch.tensor([0.1, 3, 1, -2.5], dtype=torch.float64)
        rounded = numbers.to(dtype).double().sum()
        counts = histogram(values, EDGES.to(device), flow=True).hist
        torch.testing.assert_close(stream.hist, counts * rounded.to(device), rtol=1e-15, atol=0)
    stream = StreamingHistogram(EDGES, weight_dtype=torch.int64).to(device)
    total = torch.zeros_like(stream.hist)
    for weight in (torch.ones(50).bool(), torch.full((), 200, dtype=torch.uint8), torch.tensor(-3)):
        stream.update(values, weight.to(device))
        total += histogram(values, EDGES.to(device), weight=weight.to(device), flow=True).hist
    stream.update(values, 2**64 - 1)
    assert torch.equal(stream.hist, total - counts)


@pytest.mark.usefixtures("flush_denormal")
def test_subnormals_are_numbers_in_every_mode() -> None:
    stream = StreamingHistogram(1, (0, 1), weight_dtype=torch.float64)
    twin = StreamingHistogram(1, (0, 1), weight_dtype=torch.float32, variance=True)
    weight = torch.arange(1, 8, dtype=torch.int32).view(torch.float32)
    for module in (stream, twin):
        module.update(torch.zeros(7), weight)
    assert torch.equal(stream.hist, twin.hist)
    assert float(stream.hist[1]) == 28 * 2.0**-149
    assert twin.variances().tolist() == [140 * 2.0**-298]


def test_states(device: torch.device, make: Callable[..., StreamingHistogram]) -> None:
    stream = make(3).to(device)
    values, weight = random_values((40, 3), torch.float32).to(device), weights_for(stream, 40, 3)
    stream.update(values, weight.to(device), 0)
    loaded = make(3)
    loaded.load_state_dict(stream.state_dict())
    assert_same_state(loaded, stream)
    thrice = copy.deepcopy(stream)
    for _ in range(2):
        thrice.update(values, weight.to(device), 0)
    saved = io.BytesIO()
    torch.save(stream, saved)
    saved.seek(0)
    for other in (
        pickle.loads(pickle.dumps(stream)),
        copy.deepcopy(stream),
        torch.load(saved, weights_only=False),
        copy.deepcopy(stream).half(),
        copy.deepcopy(stream).double(),
    ):
        assert type(other) is WeightedStreamingHistogram
        assert repr(other) == repr(stream)
        assert_same_state(other, stream)
        # What goes on afterwards is as if nothing had happened.
        other.update(values, weight.to(device), 0)
        assert_same_state(other.merge(stream), thrice)
    with pytest.raises(RuntimeError, match="digits"):
        stream.load_state_dict(StreamingHistogram(EDGES, channels=3).state_dict())


def test_canonical_after_every_step(device: torch.device) -> None:
    stream = StreamingHistogram(1, (0, 1), weight_dtype=torch.float32, variance=True).to(device)
    for weight in (2.0**127, -(2.0**127), -1.0, 3e38):
        stream.update(torch.zeros(1000, device=device), weight)
        for digits in (stream.digits[..., :9], stream.square_digits[..., :66]):
            assert ((digits >= 0) & (digits < 1 << 32)).all()


@pytest.mark.parametrize("mode", [FakeTensorMode, lambda: torch.device("meta")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int16], ids=str)
def test_without_values(dtype: torch.dtype, mode: Callable[[], Any]) -> None:
    with mode():
        variance = dtype == torch.float32
        stream, other = (
            StreamingHistogram(5, (-2, 2), 2, weight_dtype=dtype, variance=variance) for _ in "12"
        )
        stream.update(torch.zeros(9, 2), torch.zeros(2, dtype=dtype), 0)
        stream.merge(other).reset()
        assert stream.hist.shape == (2, 8)
        assert stream.density().shape == (2, 5)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(
    device: torch.device, make: Callable[..., StreamingHistogram], backend: str
) -> None:
    torch._dynamo.reset()
    stream, eager = make(3).to(device), make(3).to(device)
    update = torch.compile(stream.update, fullgraph=True, backend=backend)
    for rows in (20, 31):
        values = random_values((rows, 3), torch.float32).to(device)
        weight = weights_for(stream, rows, 3).to(device)
        update(values, weight, 0)
        eager.update(values, weight, 0)
    assert_same_state(stream, eager)
    hist = torch.compile(lambda module: module.hist, fullgraph=True, backend=backend)
    assert_sums(hist(stream), eager.hist)


def test_in_a_model(device: torch.device) -> None:
    """No gradient is kept, and inference tensors are taken."""
    stream = StreamingHistogram(4, (-2, 2), weight_dtype=torch.float32).to(device)
    weight = torch.ones(9, device=device, requires_grad=True)
    found = stream(torch.zeros(9, device=device), weight)
    assert not stream.hist.requires_grad
    assert torch.equal(found, torch.zeros(9, device=device))
    with torch.inference_mode():
        stream.update(torch.zeros(9, device=device), torch.ones(9, device=device))
    assert float(stream.hist.sum()) == 18


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_without_synchronization(make: Callable[..., StreamingHistogram]) -> None:
    stream, eager = make(3).cuda(), make(3).cuda()
    values, weight = (
        random_values((500, 3), torch.float32).cuda(),
        weights_for(stream, 500, 3).cuda(),
    )
    stream.update(values, weight, 0)
    stream.reset()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.graph(graph):
            stream.update(values, weight, 0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    stream.reset()
    for _ in range(3):
        graph.replay()
        eager.update(values, weight, 0)
    assert_same_state(stream, eager)


@pytest.fixture
def figures() -> Iterator[None]:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


@pytest.mark.usefixtures("figures")
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("variance", [False, True])
def test_plotting_libraries(variance: bool) -> None:
    plottable = pytest.importorskip("uhi.typing.plottable")
    mplhep = pytest.importorskip("mplhep")
    hist = pytest.importorskip("hist")
    boost_histogram = pytest.importorskip("boost_histogram")
    stream = StreamingHistogram(8, (-2, 2), weight_dtype=torch.float32, variance=variance)
    values = torch.cat((torch.randn(500), torch.tensor([torch.nan, torch.inf, -torch.inf])))
    weight = torch.rand(503)
    stream.update(values, weight)
    assert isinstance(stream, plottable.PlottableHistogram)
    reference = boost_histogram.Histogram(
        boost_histogram.axis.Regular(8, -2, 2), storage=boost_histogram.storage.Weight()
    )
    reference.fill(values.double().numpy(), weight=weight.double().numpy())
    np.testing.assert_allclose(stream.values(flow=True), reference.values(flow=True))
    if variance:
        np.testing.assert_allclose(stream.variances(flow=True), reference.variances(flow=True))
        effective = reference.values() ** 2 / reference.variances()
        np.testing.assert_allclose(stream.counts(), effective)
    else:
        assert stream.variances() is stream.counts() is None
    for taken in (hist.Hist(stream), boost_histogram.Histogram(stream._to_uhi_())):
        assert np.array_equal(taken.values(flow=True), stream.values(flow=True))
        if variance:
            assert np.array_equal(taken.variances(), stream.variances())
    (artists,) = mplhep.histplot(stream, flow="none")
    artists.stairs.figure.canvas.draw()
    assert np.array_equal(artists.stairs.get_data().values, stream.values())
    ax = stream.plot()
    assert ax.get_ylabel() == "sum of weights per bin"
    assert re.fullmatch(r"StreamingHistogram of \w+ weights", ax.get_title())
    assert np.array_equal(ax.patches[0].get_data().values, stream.values())
    several = StreamingHistogram(8, (-2, 2), (2, 3), weight_dtype=torch.float64)
    several.update(torch.randn(50, 2, 3), 0.1, 0)
    assert np.array_equal(hist.Hist(several).values(), several.values())


def test_counts_of_nothing_and_of_equal_weights() -> None:
    stream = StreamingHistogram(2, (0, 2), weight_dtype=torch.float32, variance=True)
    assert stream.counts().tolist() == [0, 0]
    stream.update(torch.zeros(7), 0.3)
    assert stream.counts().tolist() == pytest.approx([7, 0])


def test_nan_and_overflow_are_added_before_they_are_rounded() -> None:
    stream = StreamingHistogram(1, (0, 1), weight_dtype=torch.float32)
    stream.update(torch.tensor([5.0, 5, math.nan]), torch.tensor([2.0**60, 1, -(2.0**60)]))
    assert stream.values(flow=True).tolist() == [0, 0, 1]


F32 = MAKERS["float32"]
X, W = torch.zeros(5, 3), torch.zeros(3)
NAME = "StreamingHistogram"
TYPES = "weight_dtype=torch.float32, variance=False"
ERRORS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: F32().count,
        f"{NAME}.count: weight_dtype must be None, as sums of weights do not tell how many values "
        "came, got torch.float32",
    ),
    (
        lambda: F32().quantile(0.5),
        f"{NAME}.quantile: weight_dtype must be None, as quantiles are those of counts, got "
        "torch.float32",
    ),
    (
        lambda: F32(3).update(X, None, 0),
        f"{NAME}.update: weight must be a number, a tensor, an array or a list of numbers, got "
        "None: pass 1 to count",
    ),
    (
        lambda: F32(3).update(X, W.double(), 0),
        f"{NAME}.update: weight must be of dtype torch.float32 or a narrower one, as the module "
        "has it, got torch.float64: pass weight.to(torch.float32)",
    ),
    (
        lambda: F32(3).update(X, W.int(), 0),
        f"{NAME}.update: weight must be of dtype torch.float32 or a narrower one, as the module "
        "has it, got torch.int32: pass weight.to(torch.float32)",
    ),
    (
        lambda: MAKERS["integers"](3).update(X, 0.5, 0),
        f"{NAME}.update: weight must be integers or bool, as the module has it, got "
        "torch.float64: pass weight.to(torch.int64)",
    ),
    (
        lambda: F32(3).update(X, torch.zeros(2), 0),
        f"{NAME}.update: weight must have sizes that broadcast to those of x, [5, 3], got [2]",
    ),
    (
        lambda: F32(3).update(X, W.to("meta"), 0),
        f"{NAME}.update: weight must be on the device of x, cpu, got meta: pass "
        "weight.to(x.device)",
    ),
    (
        lambda: F32(3).update(X, W),
        f"{NAME}.update: x must have the channels' sizes, [3], beside dim, got [5, 3] over "
        "dim=None",
    ),
    (
        lambda: F32(3).merge(StreamingHistogram(EDGES, channels=3)),
        f"{NAME}.merge: other must be a {NAME} with {TYPES}, got {NAME}",
    ),
    (
        lambda: StreamingHistogram(EDGES, channels=3).merge(F32(3)),
        f"{NAME}.merge: other must be a {NAME}, got {NAME} with {TYPES}",
    ),
    (
        lambda: F32().merge(MAKERS["variance"]()),
        f"{NAME}.merge: other must be a {NAME} with {TYPES}, got {NAME} with "
        "weight_dtype=torch.float32, variance=True",
    ),
    (
        lambda: F32(3).merge(F32(2)),
        f"{NAME}.merge: other must have 5 bins and channels [3], got 5 bins and channels [2]",
    ),
    (
        lambda: QuantileSketch(3).merge(F32(3)),
        f"QuantileSketch.merge: other must be a QuantileSketch, got {NAME} with {TYPES}",
    ),
    (
        lambda: StreamingHistogram(4, (0, 1), variance=True),
        f"{NAME}: variance must be False without weight_dtype, got True",
    ),
    (
        lambda: StreamingHistogram(4, (0, 1), weight_dtype=torch.float64, variance=True),
        f"{NAME}: weight_dtype must be a float of at most 32 bits with variance, since float64 "
        "has the squares of those alone, got torch.float64",
    ),
    (
        lambda: StreamingHistogram(4, (0, 1), weight_dtype=torch.float32, variance=1),
        f"{NAME}: variance must be a bool, got 1",
    ),
    (
        lambda: StreamingHistogram(4, (0, 1), weight_dtype="float"),
        f"{NAME}: weight_dtype must be a dtype of torch or None, got 'float'",
    ),
    (
        lambda: StreamingHistogram(4, weight_dtype=torch.float32),
        f"{NAME}: range must be a pair of numbers or of tensors where bins is a number, got None: "
        "QuantileSketch needs no range",
    ),
    (
        lambda: F32((2, 3)).channel(1),
        f"{NAME}.channel: index must be 2 ints, one a dimension of channels, got (1,)",
    ),
]


@pytest.mark.parametrize(("call", "line"), ERRORS, ids=[line[:70] for _, line in ERRORS])
def test_errors_of_one_line(call: Callable[[], Any], line: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=f"^{re.escape(line)}$"):
        call()


def test_dtypes_that_are_no_weights() -> None:
    for dtype in (torch.complex64, torch.float8_e8m0fnu, torch.qint8):
        with pytest.raises(RuntimeError, match=rf"^{NAME}: weight_dtype must be .*got \w+"):
            StreamingHistogram(4, (0, 1), weight_dtype=dtype)


def test_subclasses() -> None:
    class Counting(StreamingHistogram):
        pass

    class Weighing(WeightedStreamingHistogram):
        pass

    assert type(Counting(4, (0, 1))) is Counting
    with pytest.raises(TypeError, match=r"^Counting: weight_dtype must be None where this class"):
        Counting(4, (0, 1), weight_dtype=torch.float32)
    stream = Weighing(4, (0, 1), weight_dtype=torch.float32)
    stream.update(torch.zeros(3), 0.5)
    assert repr(stream).startswith("Weighing(bins=4, ")
    assert stream.values().tolist() == [1.5, 0, 0, 0]
