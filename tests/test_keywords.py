"""Keywords of other libraries: every function and module says what to pass instead."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import torch_histo
from torch_histo import QuantileSketch, StreamingHistogram, StreamingHistogramdd, _keywords

X = torch.tensor([[0.25, 0.5], [0.75, 1.0]])
COUNTING = StreamingHistogram(3, (0, 1))
WEIGHING = StreamingHistogram(3, (0, 1), weight_dtype=torch.float32)
JOINT = StreamingHistogramdd(3, ((0, 1), (0, 1)))
SKETCH = QuantileSketch()

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "channel_histogram": (torch_histo.channel_histogram, (X.long(), 4)),
    "histogram": (torch_histo.histogram, (X,)),
    "histogram2d": (torch_histo.histogram2d, (X, X)),
    "histogramdd": (torch_histo.histogramdd, ((X, X),)),
    "quantile": (torch_histo.quantile, (X, 0.5)),
    "nanquantile": (torch_histo.nanquantile, (X, 0.5)),
    "summarize": (torch_histo.summarize, (X,)),
    "explain": (torch_histo.explain, (X.long(),)),
    "explain_histogram": (torch_histo.explain_histogram, (X,)),
    "text_histogram": (torch_histo.text_histogram, ("text",)),
    "StreamingHistogram": (StreamingHistogram, (3, (0, 1))),
    "QuantileSketch": (QuantileSketch, ()),
    "StreamingHistogramdd": (StreamingHistogramdd, (3, ((0, 1), (0, 1)))),
    "StreamingHistogram.update": (COUNTING.update, (X,)),
    "StreamingHistogram.quantile": (COUNTING.quantile, (0.5,)),
    "QuantileSketch.update": (SKETCH.update, (X,)),
    "QuantileSketch.quantile": (SKETCH.quantile, (0.5,)),
    "StreamingHistogramdd.update": (JOINT.update, ((X, X),)),
}
MORE = {
    "StreamingHistogram.update": (WEIGHING.update, (X, 1.0)),
    "StreamingHistogram": (StreamingHistogram, (3, (0, 1))),
}


def arguments_of(function: Callable[..., Any]) -> list[str]:
    kinds = inspect.Parameter
    function = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL) and name != "self"
    ]


def error_of(name: str, function: Callable[..., Any], *given: Any, **keyword: Any) -> str:
    with pytest.raises(TypeError) as caught:
        function(*given, **keyword)
    text = str(caught.value)
    assert text.startswith(f"{name}: ")
    assert "\n" not in text
    return text.removeprefix(f"{name}: ")


@pytest.mark.parametrize("keyword", _keywords._ADVICE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_keyword_has_an_error_in_every_function(name: str, keyword: str) -> None:
    """The advice names an argument that the function has, or says why there is none."""
    function, given = FUNCTIONS[name]
    known = arguments_of(function)
    if keyword in known:
        return
    line = error_of(name, function, *given, **{keyword: 3})
    assert line.endswith(f", got {keyword}=3")
    passed = re.match(rf"{keyword} must be passed as (\w+)", line)
    if passed:
        assert passed[1] in known, line
    else:
        assert re.match(rf"{keyword} must be |arguments must be |the argument must be ", line)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_that_are_named_are_those_of_the_function(name: str) -> None:
    for function, given in filter(None, (FUNCTIONS[name], MORE.get(name))):
        keyword = {"foo": None}
        if (function, given) == MORE["StreamingHistogram"]:
            keyword["weight_dtype"] = torch.float32  # type: ignore[assignment]
        line = error_of(name, function, *given, **keyword)
        found = re.fullmatch(r"(?:arguments|the argument) must be (.*), got foo=None", line)
        assert found is not None
        named = re.split(r", | or ", found[1])
        known = arguments_of(function)
        if name in ("channel_histogram", "explain"):
            known.remove("bins")  # another name of num_bins
        assert sorted(named) == sorted(known)


@pytest.mark.parametrize(
    ("name", "keyword", "line"),
    [
        ("histogram", "axis", "be passed as dim"),
        ("histogram", "max", "be passed as range=(min, max)"),
        ("histogram", "normed", "be passed as density"),
        ("histogram", "device", "be left out: results are on the device of the input"),
        ("histogram", "percentiles", "be left out: torch_histo.quantile has quantiles"),
        ("histogram2d", "weights", "be passed as weight"),
        ("channel_histogram", "minlength", "be passed as num_bins"),
        ("channel_histogram", "edges", "be left out: torch_histo.histogram takes edges"),
        ("channel_histogram", "density", "be left out: divide the counts by their sum"),
        ("quantile", "bins", "be left out: quantiles are exact and need no bins"),
        ("quantile", "weights", "be left out: quantiles have no weights"),
        ("quantile", "method", "be passed as interpolation"),
        ("quantile", "keepdims", "be passed as keepdim"),
        ("quantile", "percentiles", "be passed as q, from 0 to 1"),
        ("summarize", "percentiles", "be passed as q, from 0 to 1"),
        ("summarize", "axis", "be passed as dim"),
        ("StreamingHistogram", "min", "be passed as range=(min, max)"),
        ("StreamingHistogram", "axis", "be passed to update, as dim"),
        ("StreamingHistogram", "device", "be left out: call .to(device) on the module"),
        ("QuantileSketch", "range", "be left out: a sketch needs no range"),
        ("QuantileSketch", "q", "be passed to quantile, as q from 0 to 1"),
        ("StreamingHistogram.update", "axis", "be passed as dim"),
        ("StreamingHistogram.update", "bins", "be left out: the module has its bins"),
        (
            "StreamingHistogram.update",
            "weights",
            "be left out: make the module with weight_dtype if values have weights",
        ),
        ("StreamingHistogramdd.update", "weights", "be passed as weight"),
        ("QuantileSketch.quantile", "percentile", "be passed as q, from 0 to 1"),
    ],
)
def test_advice(name: str, keyword: str, line: str) -> None:
    function, given = FUNCTIONS[name]
    got = error_of(name, function, *given, **{keyword: 3})
    assert got == f"{keyword} must {line}, got {keyword}=3"


def test_modules_that_are_called_give_the_advice_of_update() -> None:
    for name, module, given in (
        ("StreamingHistogram", COUNTING, (X,)),
        ("StreamingHistogram", WEIGHING, (X, 1)),
        ("QuantileSketch", SKETCH, (X,)),
        ("StreamingHistogramdd", JOINT, ((X, X),)),
    ):
        line = error_of(f"{name}.update", module, *given, axis=0)
        assert line == "axis must be passed as dim, got axis=0"


def test_range_may_be_the_third() -> None:
    assert torch_histo.histogram(X, 2, (0, 1)).hist.tolist() == [1, 3]
    assert torch_histo.histogram2d(X, X, 1, ((0, 1), (0.5, 1))).hist.tolist() == [[3]]
    assert torch_histo.histogramdd((X,), 1, ((0.5, 1),)).hist.tolist() == [3]


@pytest.mark.parametrize("dim", ["rows", b"0"])
def test_words_are_quoted_whole(dim: Any) -> None:
    for name in ("channel_histogram", "histogram", "histogram2d", "quantile", "summarize"):
        function, given = FUNCTIONS[name]
        line = error_of(name, function, *given, dim=dim)
        assert line == f"dim must be an int or a sequence of ints, got {dim!r}"
    line = error_of("StreamingHistogram.update", COUNTING.update, X, dim=dim)
    assert line == f"dim must be an int or a sequence of ints, got {dim!r}"


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (np.array([1j]), "ndarray of complex128"),
        (np.array(["2024-02-29"], "M8[D]"), "ndarray of datetime64[D]"),
        (np.array([3], "m8[s]"), "ndarray of timedelta64[s]"),
        (np.array([None, 1]), "ndarray of object"),
        (torch.tensor([1j]), "Tensor of complex64"),
    ],
)
def test_arrays_that_are_no_numbers_are_named_by_their_dtype(array: Any, got: str) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "histogram: range": lambda: torch_histo.histogram(X, 3, range=array),
        "histogram: dim": lambda: torch_histo.histogram(X, 3, dim=array),
        "histogram: channel_dim": lambda: torch_histo.histogram(X, 3, channel_dim=array),
        "histogram: flow": lambda: torch_histo.histogram(X, 3, flow=array),
    }
    if not isinstance(array, torch.Tensor):  # the operators name the dtypes of tensors
        calls |= {
            "histogram: input": lambda: torch_histo.histogram(array),
            "histogram: bins": lambda: torch_histo.histogram(X, array),
            "histogram: weight": lambda: torch_histo.histogram(X, 3, weight=array),
            "channel_histogram: input": lambda: torch_histo.channel_histogram(array),
            "quantile: q": lambda: torch_histo.quantile(X, array),
            "QuantileSketch.quantile: q": lambda: SKETCH.quantile(array),
            "summarize: q": lambda: torch_histo.summarize(X, q=array),
        }
    for start, call in calls.items():
        with pytest.raises(TypeError) as caught:
            call()
        text = str(caught.value)
        assert text.startswith(f"{start} must ")
        assert f", got {got}" in text


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "quantile" in name])
def test_a_keyword_in_the_place_of_q(name: str) -> None:
    """The keyword of another library has its advice where q is missing, too."""
    function, given = FUNCTIONS[name]
    line = error_of(name, function, *given[:-1], percentiles=[50])
    assert line == "percentiles must be passed as q, from 0 to 1, got percentiles=[50]"
    assert error_of(name, function, *given[:-1]).startswith("q must be a number, ")
