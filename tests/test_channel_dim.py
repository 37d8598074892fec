"""channel_dim: the one dimension that is not counted over."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import torch_histo
from torch_histo import QuantileSketch, StreamingHistogram, StreamingHistogramdd

EDGES = [0, 1, 2, 5]
INTEGERS = torch.arange(24).mul(7).remainder(6).reshape(2, 3, 4)

Function = Callable[..., Any]


def of_histogram(x: Tensor, **where: Any) -> Tensor:
    edges = torch.tensor(EDGES, device=x.device)
    return torch_histo.histogram(x.float(), edges, flow=True, **where).hist


def of_weights(x: Tensor, **where: Any) -> Tensor:
    return torch_histo.channel_histogram(x, 5, weight=x.double() + 1, **where)


def of_pairs(x: Tensor, **where: Any) -> Tensor:
    return torch_histo.histogram2d(x, 5 - x, (2, 3), ((0, 4), (0, 5)), weight=x, **where).hist


def of_samples(x: Tensor, **where: Any) -> Tensor:
    return torch_histo.histogramdd(torch.stack((x, x), -1), 3, ((0, 4), (0, 5)), **where).hist


def of_quantile(x: Tensor, **where: Any) -> Tensor:
    return torch_histo.quantile(x, [0.0, 0.4], **where)


def of_summary(x: Tensor, **where: Any) -> Tensor:
    found = torch_histo.summarize(x, **where)
    return torch.cat((found.quantiles, found.max[None], found.sketch.count[None]))


FUNCTIONS: dict[str, Function] = {
    "channel_histogram": lambda x, **where: torch_histo.channel_histogram(x, 5, **where),
    "histogram": of_histogram,
    "extremes": lambda x, **where: torch_histo.histogram(x, 4, **where).bin_edges,
    "weights": of_weights,
    "pairs": of_pairs,
    "samples": of_samples,
    "quantile": of_quantile,
    "nanquantile": lambda x, **where: torch_histo.nanquantile(x.float(), 0.5, **where),
    "summarize": of_summary,
}


def dims_beside(channel: int, ndim: int) -> list[int]:
    return [d for d in range(ndim) if d != channel % ndim]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("channel", range(-3, 3))
def test_all_others_are_counted_over(device: torch.device, name: str, channel: int) -> None:
    x = INTEGERS.to(device)
    got = FUNCTIONS[name](x, channel_dim=channel)
    assert torch.equal(got, FUNCTIONS[name](x, dim=dims_beside(channel, 3)))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.data())
def test_counts_are_numpys_of_each_channel(sizes: list[int], data: st.DataObject) -> None:
    channel = data.draw(st.integers(-len(sizes), len(sizes) - 1))
    x = torch.arange(int(np.prod(sizes))).mul(5).remainder(7).reshape(sizes).float()
    got = torch_histo.histogram(x, EDGES, channel_dim=channel).hist
    rows = np.moveaxis(x.numpy(), channel, 0)
    want = [np.histogram(row, EDGES)[0] for row in rows]
    assert got.shape == (sizes[channel], 3)
    assert got.tolist() == [row.tolist() for row in want]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_dimension_has_an_element_a_channel(device: torch.device, name: str) -> None:
    x = INTEGERS.flatten()[:5].to(device)
    want = FUNCTIONS[name](x[None], dim=0 if name == "channel_histogram" else (0,))
    for channel in (0, -1):
        assert torch.equal(FUNCTIONS[name](x, channel_dim=channel), want)
    if name == "samples":  # coordinates alone are no sample
        return
    want = FUNCTIONS[name](x[:1, None], dim=(1,))
    assert torch.equal(FUNCTIONS[name](x[0], channel_dim=0), want)


def test_kept_dimensions_of_quantiles(device: torch.device) -> None:
    x = INTEGERS.to(device)
    for values, sizes in ((x, (1, 3, 1)), (x[0, 0], (4,)), (x[:, :, 0], (1, 3))):
        at = 1 if values.dim() > 1 else 0
        found = torch_histo.quantile(values, 0.5, keepdim=True, channel_dim=at)
        assert found.shape == sizes
    assert torch.equal(torch_histo.quantile(x[0, 0], 0.5, channel_dim=0), x[0, 0].double())


def test_modules(device: torch.device) -> None:
    x = INTEGERS.to(device)
    weight = x.float()
    makers: dict[Callable[[], Any], tuple[Any, ...]] = {
        lambda: StreamingHistogram(EDGES, channels=3): (x,),
        lambda: StreamingHistogram(EDGES, channels=3, weight_dtype=torch.float32): (x, weight),
        lambda: QuantileSketch(3, bits=2): (x,),
        lambda: StreamingHistogramdd((EDGES, EDGES), channels=3): ((x, x),),
    }
    for make, arguments in makers.items():
        for channel in (1, -2):
            got, want = make().to(device), make().to(device)
            got.update(*arguments, channel_dim=channel)
            returned = got(*arguments, channel_dim=channel)
            assert isinstance(returned, tuple) or returned.shape == x.shape
            want.update(*arguments, dim=(0, 2))
            want.update(*arguments, dim=(0, 2))
            assert torch.equal(got.hist, want.hist)
            one = [part[:, :, 0] for part in arguments] if len(arguments) > 1 else None
            if one is not None:
                got.update(*(part[0] for part in one), channel_dim=0)
                want.update(*(part[:1] for part in one), dim=0)
                assert torch.equal(got.hist, want.hist)


def test_compiled_and_mapped() -> None:
    for name in ("channel_histogram", "histogram", "weights", "quantile"):
        torch._dynamo.reset()
        function = FUNCTIONS[name]
        compiled = torch.compile(
            lambda x, at, f=function: f(x, channel_dim=at), fullgraph=True, backend="eager"
        )
        for at in (1, -1):
            assert torch.equal(compiled(INTEGERS, at), function(INTEGERS, channel_dim=at))
        mapped = torch.vmap(lambda x, f=function: f(x, channel_dim=-1))(INTEGERS)
        want = torch.stack([function(x, channel_dim=-1) for x in INTEGERS])
        assert torch.equal(mapped, want)


def test_a_compiled_update() -> None:
    torch._dynamo.reset()
    stream = StreamingHistogram(EDGES, channels=3)

    def step(x: Tensor) -> None:
        stream.update(x, channel_dim=1)

    torch.compile(step, fullgraph=True, backend="eager")(INTEGERS)
    assert torch.equal(stream.hist, of_histogram(INTEGERS, dim=(0, 2)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors(name: str) -> None:
    function, shape = FUNCTIONS[name], "3-D"
    between = rf"channel_dim must be between -3 and 2 for a {shape} \w+, got"
    for channel in (3, -4):
        with pytest.raises(RuntimeError, match=rf"^\w+: {between} {channel}$"):
            function(INTEGERS, channel_dim=channel)
    for channel, got in ((1.5, "1.5"), ("1", "'1'"), (True, "True")):
        with pytest.raises(TypeError, match=rf"^\w+: channel_dim must be an int, got {got}$"):
            function(INTEGERS, channel_dim=channel)
    line = r"an int, got \(0, 1\): pass dim, those to count over$"
    with pytest.raises(TypeError, match=rf"^\w+: channel_dim must be {line}"):
        function(INTEGERS, channel_dim=(0, 1))
    with pytest.raises(TypeError, match=r"^\w+: dim must be left out with channel_dim, got dim=1$"):
        function(INTEGERS, dim=1, channel_dim=1)


COUNTING = {
    "channel_histogram": torch_histo.channel_histogram,
    "weights": lambda x, bins, **where: torch_histo.channel_histogram(x, bins, weight=2, **where),
    "explain": torch_histo.explain,
}


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize("dim", [0, (0,), [0], None])
def test_the_default_of_dim_is_refused_if_it_is_given(name: str, dim: Any) -> None:
    line = re.escape(f"dim must be left out with channel_dim, got dim={dim}")
    with pytest.raises(TypeError, match=rf"^channel_histogram: {line}$"):
        COUNTING[name](INTEGERS, 5, dim=dim, channel_dim=1)


def test_a_compiled_program_refuses_the_default_of_dim() -> None:
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="must be left out with channel_dim"):
        torch.compile(torch_histo.channel_histogram, fullgraph=True, backend="eager")(
            INTEGERS, 5, 0, channel_dim=1
        )


@pytest.mark.parametrize("device", ["cpu", "H200"])
@pytest.mark.parametrize("channel", range(-3, 3))
def test_plans(device: str, channel: int) -> None:
    dims = dims_beside(channel, 3)
    for input in (INTEGERS, INTEGERS.shape):
        own: dict[str, Any] = {"device": device, "dtype": torch.int64}
        plan = torch_histo.explain(input, 5, **own, channel_dim=channel)
        assert plan == torch_histo.explain(input, 5, dims, **own)
        of_edges = torch_histo.explain_histogram(input, EDGES, **own, channel_dim=channel)
        assert of_edges == torch_histo.explain_histogram(input, EDGES, **own, dim=dims)
        assert of_edges.channels == INTEGERS.shape[channel]


def test_plans_of_one_dimension_and_their_errors() -> None:
    for input in (torch.zeros(7, dtype=torch.int64), (7,)):
        plan = torch_histo.explain_histogram(input, 5, range=(0, 1), channel_dim=0, device="cpu")
        assert (plan.shape, plan.dim, plan.channels) == ((1, 7), (0,), 7)
        found = torch_histo.explain(input, 5, channel_dim=0, dtype=torch.int64, device="cpu")
        assert (found.shape, found.dim) == ((1, 7), (0,))
    line = r"channel_dim must be between -2 and 1 for a 2-D input, got 2$"
    with pytest.raises(RuntimeError, match=f"^channel_histogram: {line}"):
        torch_histo.explain((3, 4), 5, channel_dim=2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=f"^histogram: {line}"):
        torch_histo.explain_histogram((3, 4), 5, channel_dim=2)
    with pytest.raises(TypeError, match=r"^histogram: dim must be left out with channel_dim, got"):
        torch_histo.explain_histogram((3, 4), 5, dim=0, channel_dim=0)


def test_errors_of_modules() -> None:
    stream = StreamingHistogram(3, (0, 1), channels=3)
    op = r"^StreamingHistogram\.update"
    with pytest.raises(TypeError, match=f"{op}: dim must be left out with channel_dim, got dim=0$"):
        stream.update(INTEGERS, 0, channel_dim=1)
    with pytest.raises(RuntimeError, match=f"{op}: channel_dim must be .* for a 3-D x, got 5$"):
        stream.update(INTEGERS, channel_dim=5)
    line = r"x must have the channels' sizes, \[3\], beside dim, got \[2, 3, 4\]"
    with pytest.raises(RuntimeError, match=rf"{op}: {line} over dim=\[1, 2\]$"):
        stream.update(INTEGERS, channel_dim=0)
