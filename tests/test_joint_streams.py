"""Joint histograms of streams: their state, merges, what plotting libraries see, and errors."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from oracle import any_bits, assert_sums, random_values
from torch import Tensor

from torch_histo import StreamingHistogramdd, histogramdd

BINS, RANGES = (4, [0.0, 1, 50, 200]), ((-20, 90), None)


def sample(*shape: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    return random_values(shape, torch.float32, seed), random_values(shape, torch.int16, seed + 1)


def moved(tensors: Any, device: torch.device) -> list[Tensor]:
    return [tensor.to(device) for tensor in tensors]


@pytest.mark.parametrize("channels", [None, 3])
@pytest.mark.parametrize(
    "dtype", [None, torch.float32, torch.float64, torch.float16, torch.int64], ids=str
)
def test_parts_are_the_whole(device: torch.device, channels: Any, dtype: Any) -> None:
    stream = StreamingHistogramdd(BINS, RANGES, channels, weight_dtype=dtype).to(device)
    first, second = copy.deepcopy(stream), copy.deepcopy(stream)
    dim = None if channels is None else 0
    points = sample(120, 3)
    weight = None if dtype is None else any_bits((120, 1), dtype)
    for rows in torch.arange(120).split([1, 0, 50, 30, 39]):
        part = [x[rows].to(device) for x in points]
        own = None if weight is None else weight[rows].to(device)
        stream.update(part, own, dim)
        (first if len(rows) % 2 else second).update(part, own, dim)
    edges = [e.cpu() for e in stream.edges]
    expected = oracle.joint_histogram(points, edges, dim, flow=True, weight=weight)
    assert stream.hist.shape == ((3, 7, 6) if channels else (7, 6))
    assert_sums(stream.hist, expected)
    assert torch.equal(first.merge(second).digits, stream.digits)
    assert stream.digits.dtype == torch.int64
    stream.reset()
    assert not stream.digits.any()


def test_density_and_count(device: torch.device) -> None:
    x, y = torch.rand(100).to(device), torch.rand(100).to(device)
    for dtype, weight in ((None, None), (torch.float32, 0.25)):
        stream = StreamingHistogramdd(3, ((0, 1), (0, 1)), weight_dtype=dtype).to(device)
        stream.update((x, y), weight)
        expected = histogramdd((x, y), stream.edges, weight=weight, density=True).hist
        assert torch.equal(stream.density(), expected)
        if dtype is None:
            assert int(stream.count) == 100


def test_state(device: torch.device, tmp_path: Any) -> None:
    stream = StreamingHistogramdd(BINS, RANGES, weight_dtype=torch.float32).to(device)
    stream.update(moved(sample(50), device), 0.5)
    others = [copy.deepcopy(stream), pickle.loads(pickle.dumps(stream))]
    others.append(StreamingHistogramdd((4, [0.0, 1, 2, 3]), RANGES, weight_dtype=torch.float32))
    others[-1].load_state_dict(stream.state_dict())
    for other in others:
        assert torch.equal(other.hist.cpu(), stream.hist.cpu())
        assert all(
            torch.equal(a.cpu(), b.cpu()) for a, b in zip(other.edges, stream.edges, strict=True)
        )
        other.half()
        assert torch.equal(other.hist.cpu(), stream.hist.cpu())
    assert str(stream) == (
        "StreamingHistogramdd(bins=(4, 3), channels=(), weight_dtype=torch.float32)"
    )


def test_channels_with_edges_of_their_own(device: torch.device) -> None:
    own = torch.tensor([[0.0, 1, 2], [0, 10, 100]], dtype=torch.float64)
    stream = StreamingHistogramdd((own, 3), (None, (0, 9))).to(device)
    points = sample(40, 2)
    stream.update(moved(points, device), dim=0)
    edges = [own, torch.linspace(0, 9, 4, dtype=torch.float64)]
    assert_sums(stream.hist, oracle.joint_histogram(points, edges, 0, flow=True))
    for i in range(2):
        one = stream.channel(i)
        assert torch.equal(one.hist, stream.hist[i])
        assert torch.equal(one.edges[0].cpu(), own[i])
        one.update([x[:, i].to(device) for x in points])
        assert torch.equal(one.hist, 2 * stream.hist[i])
    with pytest.raises(RuntimeError, match=r"edges must be the same in all channels"):
        _ = stream.axes


def test_plotting_libraries(device: torch.device) -> None:
    hist = pytest.importorskip("hist")
    stream = StreamingHistogramdd(BINS, RANGES).to(device)
    stream.update(moved(sample(200), device))
    counts = stream.hist.cpu().double().numpy()
    assert np.array_equal(stream.values(), counts[1:-2, 1:-2])
    with_flow = counts[:-1].copy()
    with_flow[-1] += counts[-1]
    whole = with_flow[:, :-1].copy()
    whole[:, -1] += with_flow[:, -1]
    assert np.array_equal(stream.values(flow=True), whole)
    found = hist.Hist(stream)
    assert np.array_equal(found.values(flow=True), whole)
    assert [list(axis.edges) for axis in found.axes] == [e.tolist() for e in stream.edges]
    assert [len(axis) for axis in stream.axes] == [4, 3]
    several = StreamingHistogramdd((2, 3, 4), ((0, 9),) * 3, channels=2)
    several.update(torch.rand(10, 2, 3) * 9, dim=0)
    assert hist.Hist(several).values().shape == (2, 2, 3, 4)


def test_plot(device: torch.device) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    stream = StreamingHistogramdd((3, [0.0, 1, 200, torch.inf]), ((-20, 90), None)).to(device)
    stream.update(moved(sample(200), device))
    ax = stream.plot()
    (mesh,) = ax.collections
    assert np.array_equal(np.asarray(mesh.get_array()), stream.values()[:, :-1].T)
    assert [ax.get_xlabel(), ax.get_ylabel()] == ["coordinate 0", "coordinate 1"]
    assert ax.get_xlim() == (-20, 90)
    assert ax.get_ylim() == (0, 200)
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    assert bar.get_ylabel() == "count per bin"
    assert ax.get_title() == "StreamingHistogramdd of 200 elements"
    mplhep = pytest.importorskip("mplhep")
    finite = StreamingHistogramdd(2, ((0, 9), (0, 9)))
    assert mplhep.hist2dplot(finite) is not None
    pyplot.close("all")


def test_compiled(device: torch.device) -> None:
    for dtype, weight in ((None, None), (torch.float32, 0.5)):
        stream = StreamingHistogramdd(BINS, RANGES, weight_dtype=dtype).to(device)
        plain = copy.deepcopy(stream)
        torch.compile(stream.update, fullgraph=True)(moved(sample(50), device), weight)
        plain.update(moved(sample(50), device), weight)
        assert torch.equal(stream.digits, plain.digits)


X, Y = torch.zeros(4), torch.zeros(4, dtype=torch.int32)


def counting() -> StreamingHistogramdd:
    return StreamingHistogramdd(2, ((0, 1), (0, 1)))


def adding() -> StreamingHistogramdd:
    return StreamingHistogramdd(2, ((0, 1), (0, 1)), 3, weight_dtype=torch.float32)


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: StreamingHistogramdd(3),
        RuntimeError,
        ": bins must be a tuple, one an axis, where range is None, got 3",
    ),
    (
        lambda: StreamingHistogramdd(()),
        RuntimeError,
        ": bins must hold the bins of at least one axis, got ()",
    ),
    (
        lambda: StreamingHistogramdd((3, 2), ((0, 1),)),
        RuntimeError,
        ": range must be None, or hold a pair or None for each of 2 axes, got ((0, 1),)",
    ),
    (
        lambda: StreamingHistogramdd((3, 2), 5),
        TypeError,
        ": range must be None, or hold a pair or None for each axis, got 5",
    ),
    (
        lambda: StreamingHistogramdd((3, 2), ((0, 1), None)),
        RuntimeError,
        ": axis 1: range must be a pair of numbers or of tensors where bins is a number, got None",
    ),
    (
        lambda: StreamingHistogramdd(([2.0, 1],)),
        RuntimeError,
        ": axis 0: edges must never decrease and hold no NaN, got [2.0, 1.0]",
    ),
    (
        lambda: StreamingHistogramdd(
            (torch.rand(2, 3).sort().values, torch.rand(3, 3).sort().values)
        ),
        RuntimeError,
        ": edges must have channels that broadcast to each other, got [2] and [3]",
    ),
    (
        lambda: StreamingHistogramdd(2, ((0, 1),), weight_dtype=3),
        TypeError,
        ": weight_dtype must be a dtype of torch or None, got 3",
    ),
    (
        lambda: counting().update((X,)),
        RuntimeError,
        ".update: sample must have 2 coordinates, got 1",
    ),
    (
        lambda: counting().update((X, Y[:3])),
        RuntimeError,
        ".update: sample must hold tensors that broadcast to each other, got sizes [4] and [3]",
    ),
    (
        lambda: counting().update((X, Y), 2),
        TypeError,
        ".update: weight must be left out where the module has no weight_dtype, got 2",
    ),
    (
        lambda: counting().update((X, Y + 1j)),
        RuntimeError,
        ".update: sample[1] must have a real dtype",
    ),
    (
        lambda: counting().update((X, Y.to("meta"))),
        RuntimeError,
        ".update: sample[1] must be on the device of the module, cpu, got meta: call .to(meta)",
    ),
    (
        lambda: counting().update((X, Y), dim=[0, 0]),
        RuntimeError,
        ".update: dim must name each dimension once, got [0, 0]",
    ),
    (
        lambda: counting().update((X, Y), dim=4),
        RuntimeError,
        ".update: dim must be between -1 and 0 for a 1-D sample[0], got 4",
    ),
    (
        lambda: adding().update(torch.rand(4, 3, 2), dim=0),
        TypeError,
        ".update: weight must be a number, a tensor, an array or a list of numbers, "
        "got None: pass 1 to count",
    ),
    (
        lambda: adding().update((X, Y), 1),
        RuntimeError,
        ".update: sample must have the channels' sizes, [3], beside dim, got [4] over dim=None",
    ),
    (
        lambda: adding().update(torch.rand(4, 3, 2), torch.rand(7), 0),
        RuntimeError,
        ".update: weight must have sizes that broadcast to those of sample, [4, 3], got [7]",
    ),
    (
        lambda: adding().update(torch.rand(4, 3, 2), torch.rand(3).double(), 0),
        RuntimeError,
        ".update: weight must be of dtype torch.float32 or a narrower one, as the "
        "module has it, got torch.float64",
    ),
    (
        lambda: counting().merge(adding()),
        TypeError,
        ".merge: other must be a StreamingHistogramdd with weight_dtype=None, got "
        "StreamingHistogramdd with weight_dtype=torch.float32",
    ),
    (
        lambda: counting().merge(StreamingHistogramdd(2, ((0, 1), (0, 2)))),
        RuntimeError,
        ".merge: other must have bins of the same edges, got other edges",
    ),
    (
        lambda: counting().merge(StreamingHistogramdd(2, ((0, 1),))),
        RuntimeError,
        ".merge: other must have 2 x 2 bins and channels [], got 2 bins and channels []",
    ),
    (
        lambda: counting().quantile(0.5),
        RuntimeError,
        ".quantile: expected one axis, got 2: torch_histo.StreamingHistogram has quantiles",
    ),
    (
        lambda: adding().count,
        RuntimeError,
        ".count: weight_dtype must be None, as sums do not tell how many elements "
        "came, got torch.float32",
    ),
    (
        lambda: adding().plot(),
        RuntimeError,
        ".plot: expected two axes and no channels, got 2 and channels [3]: take one "
        "channel by .channel(index)",
    ),
    (
        lambda: adding().channel(0, 1),
        RuntimeError,
        ".channel: index must be 1 ints, one a dimension of channels, got (0, 1)",
    ),
]


@pytest.mark.parametrize(("call", "kind", "line"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Callable[[], Any], kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=rf"^StreamingHistogramdd{re.escape(line)}") as error:
        call()
    assert "\n" not in str(error.value)
