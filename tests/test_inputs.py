"""Every public function takes arrays, images and lists, and counts them as a tensor."""

from __future__ import annotations

import inspect
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import astuple
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

import torch_histo
from torch_histo import QuantileSketch, StreamingHistogram, distributed, logging

NUMBERS = [112, 114, 255, 0, 97, 97, 3, 122]
EDGES = [0.0, 3, 97.5, 200]
KINDS: dict[str, Callable[[], Any]] = {
    "array": lambda: np.array(NUMBERS, np.uint8),
    "list": lambda: NUMBERS,
    "image": lambda: Image.fromarray(np.array(NUMBERS, np.uint8).reshape(2, 4)),
    "series": lambda: pytest.importorskip("pandas").Series(NUMBERS, dtype="uint8"),
}


def stream(x: Any, edges: Any) -> Tensor:
    module = StreamingHistogram(edges=edges)
    assert isinstance(module(x), Tensor)
    return module.hist


def sketch(x: Any, edges: Any) -> tuple[Tensor, ...]:
    module = QuantileSketch()
    module.update(x)
    return module.hist, module.quantile(fractions(edges))


def fractions(edges: Any) -> Any:
    return edges / 255 if hasattr(edges, "dtype") else [edge / 255 for edge in edges]


def pairs(function: Callable[..., Any]) -> Callable[[Any, Any], tuple[Tensor, Tensor, Tensor]]:
    """A function of two coordinates, called with a sample of both where it takes one."""
    takes_sample = "2d" not in function.__name__

    def count(x: Any, edges: Any) -> tuple[Tensor, Tensor, Tensor]:
        found = function(*([(x, x)] if takes_sample else (x, x)), [edges, 3])
        return found.hist, *found.bin_edges

    return count


def joint_stream(x: Any, edges: Any) -> Tensor:
    module = torch_histo.StreamingHistogramdd([edges, EDGES])
    module.update((x, x))
    return module.hist


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "channel_histogram": lambda x, edges: torch_histo.channel_histogram(x, 256),
    "text_histogram": lambda x, edges: torch_histo.text_histogram(x),
    "histogram": torch_histo.histogram,
    "quantile": lambda x, edges: torch_histo.quantile(x, fractions(edges)),
    "nanquantile": lambda x, edges: torch_histo.nanquantile(x, fractions(edges)),
    "summarize": lambda x, edges: astuple(torch_histo.summarize(x, q=fractions(edges)))[:-1],
    "explain": lambda x, edges: torch_histo.explain(x, 256),
    "explain_histogram": torch_histo.explain_histogram,
    "distributed.channel_histogram": lambda x, edges: distributed.channel_histogram(x, 256),
    "distributed.histogram": distributed.histogram,
    "distributed.quantile": lambda x, edges: distributed.quantile(x, fractions(edges)),
    "distributed.nanquantile": lambda x, edges: distributed.nanquantile(x, fractions(edges)),
    "logging.histograms": lambda x, edges: tuple(
        map(torch.from_numpy, logging.histograms({"x": x})["x"])
    ),
    "histogramdd": pairs(torch_histo.histogramdd),
    "histogram2d": pairs(torch_histo.histogram2d),
    "distributed.histogramdd": pairs(distributed.histogramdd),
    "distributed.histogram2d": pairs(distributed.histogram2d),
    "StreamingHistogram": stream,
    "StreamingHistogramdd": joint_stream,
    "QuantileSketch": sketch,
}
WITHOUT_NUMBERS = {"has_cuda_kernels", "logging.to_tensorboard", "logging.to_trackio"} | {
    *("logging.to_wandb", "logging.Watch", "logging.Counts", "BinSearch", "CpuExplanation"),
    *("Device", "Explanation", "Histogram", "HistogramExplanation", "JointHistogram", "Summary"),
}
"""Those that take what others return, a module or nothing."""


def public() -> Iterator[tuple[str, Any]]:
    for prefix, module in (("", torch_histo), ("distributed.", distributed), ("logging.", logging)):
        for name in module.__all__:
            if callable(getattr(module, name)):
                yield f"{prefix}{name}", getattr(module, name)


def test_every_public_function_is_here() -> None:
    assert {name for name, _ in public()} == FUNCTIONS.keys() | WITHOUT_NUMBERS


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A process group of this process."""
    store = f"file://{tmp_path_factory.mktemp('group')}/store"
    dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, Tensor):
        if not isinstance(found, Tensor) or found.dtype != expected.dtype:
            return False
        return torch.equal(found.double().nan_to_num(0.123), expected.double().nan_to_num(0.123))
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_that_are_no_tensor(name: str, kind: str) -> None:
    numbers, function = KINDS[kind](), FUNCTIONS[name]
    if (name, kind) == ("text_histogram", "image"):
        with pytest.raises(RuntimeError, match="text must be a 1-D uint8 tensor, got a 2-D uint8"):
            function(numbers, EDGES)
        return
    of_list = kind == "list"
    edges = EDGES if of_list else np.array(EDGES)
    if kind == "series":
        edges = type(numbers)(EDGES)
    tensor = torch.from_numpy(np.array(numbers, np.int64 if of_list else np.uint8))
    if of_list and name == "text_histogram":
        tensor = tensor.to(torch.uint8)
    if of_list and name.startswith("explain"):
        numbers = tensor = [8, 2]  # a shape
    expected = function(tensor, torch.tensor(EDGES, dtype=torch.float64))
    assert same(function(numbers, edges), expected)


DOCUMENTS = Path(__file__).parents[1] / "docs"


def rows_of(header: str) -> list[list[str]]:
    """The rows of a table in docs/channels.md: the cells, and the code in the last ones."""
    text = (DOCUMENTS / "channels.md").read_text()
    (table,) = re.findall(rf"^\| {header} \|.*\n\|[ |-]*\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return [[what, *(cell.strip("`") for cell in cells)] for what, *cells in rows]


def made(expression: str, **names: Any) -> Any:
    packages = {"np": "numpy", "numpy": "numpy", "pd": "pandas", "ml_dtypes": "ml_dtypes"}
    for name in packages.keys() & set(re.findall(r"\w+", expression)):
        names[name] = pytest.importorskip(packages[name])
    for known in (torch, Image, array, deque, datetime, timedelta, Decimal, SimpleNamespace):
        names.setdefault(known.__name__.rpartition(".")[2], known)
    return eval(expression, names)


TAKEN = [example for _, example in rows_of("taken")] + [
    "np.array([-1, 0.5, 3])[::-2]",
    "np.broadcast_to(np.float32(3), (2, 4))",
    "np.zeros(3, 'u1, >f8')['f1'][::-1]",
    "np.array([[0.5, 3], [7, np.nan]], ml_dtypes.float8_e5m2).T",
    "np.array(3, ml_dtypes.float8_e4m3fn)",
    "np.frombuffer(b'_' + np.arange(9, dtype='i4').tobytes(), 'i4', offset=1)",
    "[ml_dtypes.bfloat16(0.5), ml_dtypes.bfloat16(3)]",
    "(np.uint64(2**64 - 1), 1, 2)",
    "[-1, 2**63]",
    "[2.0**60, 5]",
    "pd.DataFrame({'a': [1, 2], 'b': [0.5, 1]}).to_records()['b']",
    "array('d', [0.5, 3])",
    "range(5)",
    "[]",
]


def by_hand(value: Any) -> Tensor:
    """A tensor of what takes the place of the value in Python."""
    name = np.asarray(value).dtype.name
    numbers = value if isinstance(value, (list, tuple)) else np.asarray(value).tolist()
    if isinstance(value, (list, tuple)) and name == "float64":
        integers = [int(number) for number in numbers if isinstance(number, (int, np.integer))]
        if len(integers) == len(numbers) > 0 and min(integers) >= 0:
            return torch.tensor(integers, dtype=torch.uint64)
    return torch.tensor(numbers, dtype=getattr(torch, name))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("example", TAKEN)
@pytest.mark.filterwarnings("error::UserWarning")
def test_what_is_taken(example: str) -> None:
    """Every function counts it as the tensor of the same numbers."""
    value = made(example)
    expected = by_hand(value)
    edges = torch.tensor([0.0, 3, 97.5, 200], dtype=torch.float64)
    for name in FUNCTIONS.keys() - {"text_histogram", "explain", "explain_histogram"}:
        function = FUNCTIONS[name]
        refused = name.endswith("channel_histogram") and expected.is_floating_point()
        refused |= "quantile" in name and expected.numel() == 0
        unsigned = expected.dtype == torch.uint64
        refused |= name.startswith("distributed") and "quantile" in name and unsigned
        if not refused:
            assert same(function(value, edges), function(expected, edges)), name
            continue
        lines = []
        for numbers in (value, expected):
            with pytest.raises(RuntimeError) as caught:
                function(numbers, edges)
            lines.append(str(caught.value))
        assert lines[0] == lines[1]


INTEGERS = {"uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}
FLOATS = {"float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"}
GROUPS = {
    "these integers": INTEGERS,
    "all integers": INTEGERS,
    "any integer": INTEGERS,
    "uint8 to uint64": {name for name in INTEGERS if name.startswith("u")},
    "int8 to int64": {name for name in INTEGERS if name.startswith("i")},
    "float8": {name for name in FLOATS if name.startswith("float8")},
    "all that `histogram` takes": {"bool"} | INTEGERS | FLOATS,
    "Each has any type that `histogram` takes": {"bool"} | INTEGERS | FLOATS,
}
"""What the documents call several dtypes at once."""
SAID = [
    ("../README.md", "channel_histogram", r"It takes (bool and all integers), with"),
    (
        "channels.md",
        "channel_histogram",
        r"It takes (bool, uint8 to uint64 and int8 to int64), any",
    ),
    ("weights.md", "weight", r"on the input's device: (bool, .* or float64), whatever"),
    ("quantiles-and-streams.md", "quantile", r"\| dtypes \| (all that `histogram` takes);"),
    ("joint.md", "histogram2d", r"without a copy\. (Each has any type that `histogram` takes):"),
]
"""Where else documents say what a function takes."""


def named_dtypes(text: str) -> set[str]:
    found: set[str] = set()
    for words in sorted(GROUPS, key=len, reverse=True):
        if words in text:
            found |= GROUPS[words]
            text = text.replace(words, "")
    return found | (set(re.findall(r"\b(bool|u?int\d+|b?float\d+(?:_\w+)?)\b", text)))


def dtypes_in_documents() -> list[tuple[str, set[str]]]:
    """The name of a function, or of `weight`, and what a document says that it takes."""
    text = (DOCUMENTS / "channels.md").read_text().partition("## Which numbers")[2]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", text.partition("\n## ")[0], re.MULTILINE)
    said = [
        (name, named_dtypes(cell)) for names, cell in rows for name in re.findall("`(.*?)`", names)
    ]
    histogram = dict(said)["histogram"]
    said = [(name, dtypes or histogram) for name, dtypes in said if name[0] != "`"]
    for document, name, pattern in SAID:
        text = " ".join((DOCUMENTS / document).read_text().split())
        (dtypes,) = re.findall(pattern, text)
        said.append((name, named_dtypes(dtypes)))
    return said


def test_documents_say_what_functions_take() -> None:
    """Of every dtype that torch has."""
    calls = FUNCTIONS | {
        "text_histogram": lambda x, edges: torch_histo.text_histogram(x.flatten()),
        "weight": lambda w, edges: torch_histo.histogram(torch.zeros(2, 2), edges, weight=w),
    }
    dtypes = {each for each in vars(torch).values() if isinstance(each, torch.dtype)}
    said = dtypes_in_documents()
    of_counts = {name for name in FUNCTIONS if "." not in name and not name.startswith("explain")}
    assert {name for name, _ in said} == of_counts | {"weight"}
    for name, expected in said:
        taken = set()
        for dtype in dtypes:
            x = torch.zeros(2, 2, dtype=torch.uint8)
            with suppress(Exception):  # of torch: it makes no tensor of some dtypes
                x = x.to(dtype)
                with suppress(RuntimeError, TypeError):
                    calls[name](x, torch.tensor([0.0, 1.0]))
                    taken.add(str(x.dtype).removeprefix("torch."))
        assert taken == expected, name
    text = (DOCUMENTS / "pytorch.md").read_text()
    assert "| lists, arrays, images | they are counted as tensors of the same numbers;" in text


# As in the table of docs/channels.md: the value, and the call that helps.
REFUSED = [(example, call) for _, example, call in rows_of("refused")] + [
    ("np.array([2**64 - 1, 0], object)", "x.astype('uint64')"),
    ("np.array([-1, 2**64 - 1], object)", "x.astype('float64')"),
    ("np.array([0.5, None], object)", "x.astype('float64')"),
    ("np.array([[1], [2, 3]], object)", "numpy.concatenate([numpy.ravel(part) for part in x])"),
    ("[np.ones((2, 2)), np.ones(3)]", "numpy.concatenate([numpy.ravel(part) for part in x])"),
    ("[np.uint64(2**63 + 1), -1]", "numpy.asarray(x).astype('float64')"),
    ("[Decimal('0.5')]", "numpy.asarray(x).astype('float64')"),
    ("[1j, 2]", "numpy.real(x)"),
    ("np.array([1j], np.clongdouble)", "x.astype('complex128').real"),
    ("np.array([1], 'm8[s]')", "x.astype('int64')"),
    ("[datetime(2024, 2, 29)]", "numpy.asarray(x).astype('datetime64[us]').astype('int64')"),
    ("[timedelta(1)]", "numpy.asarray(x).astype('timedelta64[us]').astype('int64')"),
    ("np.array([b'ab'])", "numpy.unique(x, return_inverse=True)[1]"),
    ("np.array(['1', '2'], np.dtypes.StringDType())", "x.astype('float64')"),
    ("np.zeros(3, 'V2')", "x.view('u2')"),
    ("np.zeros(3, 'V3')", "x.view('u1')"),
    ("np.array([0.5], ml_dtypes.float8_e4m3)", "x.astype('float32')"),
    ("np.array([0.5], ml_dtypes.float8_e4m3fnuz)", "x.astype('float32')"),
    ("np.array([1], ml_dtypes.complex32)", "x.astype('complex128').real"),
    ("pd.Series([1, None], dtype=object)", "x.astype('float64')"),
    ("pd.Series([pd.NA, 1])", "x.astype('Float64')"),
    ("pd.Series(['a', 'b'])", "numpy.unique(x, return_inverse=True)[1]"),
    ("pd.to_datetime(pd.Series(['2024-02-29']))", "x.astype('int64')"),
    ("pd.to_datetime(pd.Series(['2024-02-29'])).dt.tz_localize('UTC')", "x.astype('int64')"),
    ("pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})", "x.select_dtypes('number')"),
    (
        "np.array([np.ones(2), np.ones(1)], object)",
        "numpy.concatenate([numpy.ravel(part) for part in x])",
    ),
    ("deque([3, 1])", "list(x)"),
    ("SimpleNamespace(toarray=lambda: np.eye(3))", "x.toarray()"),
]
NAMES = {"text_histogram": "text", "StreamingHistogram": "x", "QuantileSketch": "x"} | {
    "logging.histograms": "tensors['x']",
    "histogramdd": "sample[0]",
    "histogram2d": "x",
    "distributed.histogramdd": "local_sample[0]",
    "distributed.histogram2d": "local_x",
    "StreamingHistogramdd": "sample[0]",
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("example", "call"), REFUSED, ids=[example for example, _ in REFUSED])
def test_what_is_refused(example: str, call: str) -> None:
    """Every function names the call, and it works."""
    value = made(example)
    helped = made(call, x=value)
    assert torch_histo.histogram(helped, 2).hist.sum() <= np.asarray(helped).size
    edges = torch.tensor([0.0, 1])
    for name, function in FUNCTIONS.items():
        if isinstance(value, (list, tuple)) and (
            name.startswith("explain") or name == "text_histogram"
        ):
            continue  # a shape; a list of bytes
        if isinstance(value, bytes) and name == "text_histogram":
            continue
        if name.startswith("explain") and not hasattr(value, "__array__"):
            continue
        argument = NAMES.get(name, "local_input" if name.startswith("distributed") else "input")
        with pytest.raises(TypeError) as caught:
            function(value, edges)
        line = str(caught.value)
        assert "\n" not in line
        assert f"{argument} must be " in line
        named = re.sub(r"(?<!')\bx\b(?!')", lambda _, to=argument: to, call)
        assert f": pass {named}" in line, line
    # Numbers of words are no edges.
    if hasattr(value, "__len__"):
        with pytest.raises(
            TypeError, match=r"^histogram: bins must be an int .* edges, got"
        ) as bins:
            torch_histo.histogram([1], value)
        named = re.sub(r"(?<!')\bx\b(?!')", "bins", call)
        assert (f": pass {named}" in str(bins.value)) == ("unique" not in call), bins.value


def test_what_came_is_told() -> None:
    for example, got in (
        ("np.array([1j])", "ndarray of complex128"),
        ("np.array([1], 'M8[s]')", r"ndarray of datetime64\[s\]"),
        ("np.array(['a'])", "ndarray of str"),
        ("np.array([1], np.longdouble)", r"ndarray of (float\d+|longdouble)"),
        ("np.array([1, None])", "ndarray of object, which holds None"),
        ("np.array([np.ones(2), None], object)", "ndarray of object, which holds ndarray"),
        ("[1, 2**70]", f"list of integers beyond 64 bits, such as {2**70}"),
        ("[1, 10**999]", "list of integers beyond 64 bits, such as one of 3319 bits"),
        ("[0.5, 2**53 + 1]", f"list of integers that no dtype holds together, such as {2**53 + 1}"),
        ("[[1], [2, 3]]", "ragged list"),
        ("np.zeros(2, 'u1, i4')", "ndarray of records"),
        ("np.array([1], ml_dtypes.int4)", "ndarray of int4"),
        ("None", "NoneType"),
    ):
        with pytest.raises(TypeError, match=f"a list of numbers, got {got}(: .*)?$"):
            torch_histo.quantile(made(example), 0.5)


def test_an_iterator_is_not_used_up() -> None:
    numbers = iter([1, 2])
    with pytest.raises(TypeError, match=r"got list_iterator: pass list\(input\)$"):
        torch_histo.histogram(numbers)
    assert list(numbers) == [1, 2]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_floats_of_ml_dtypes_bit_for_bit(name: str) -> None:
    """All of them, against what the package says that they are."""
    dtype, own = getattr(torch, name), getattr(pytest.importorskip("ml_dtypes"), name)
    bits = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}")
    values = bits.view(own)
    wide = values.astype(np.float64)
    stream = StreamingHistogram([-1.0, 0, 1])
    taken = stream(values)
    assert taken.dtype == dtype
    assert np.array_equal(taken.view(getattr(torch, bits.dtype.name)).numpy(), bits)
    finite = wide[np.isfinite(wide)]
    edges = np.linspace(finite.min(), finite.max(), 10)
    hist = torch_histo.histogram(values, edges, flow=True).hist
    assert hist[1:-2].tolist() == np.histogram(finite, edges)[0].tolist()
    assert hist[-1] == np.isnan(wide).sum()
    assert torch_histo.histogram(values.reshape(16, -1)[::-1, ::2], edges).hist.tolist() == (
        np.histogram(finite[np.isin(finite, wide.reshape(16, -1)[:, ::2])], edges)[0].tolist()
    )
    assert torch_histo.nanquantile(values, 0.5).item() in wide
    few = np.array([-1, 0, 0.5, 2], own)
    assert torch_histo.histogram([-1, 0.25, 0.5], few).hist.tolist() == [1, 1, 1]
    assert torch_histo.histogram([-1, 0.25, 0.5], 2, range=few[::3]).hist.tolist() == [2, 1]
    assert torch_histo.quantile([1.0, 3], few[2]) == 2


@given(
    st.sampled_from(["u1", "i2", "u4", "i8", "f2", "f4", "f8"]),
    st.sampled_from(["<", ">"]),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(-3, 3).filter(bool),
    st.lists(st.integers(0, 100), max_size=30),
)
def test_fields_of_packed_records(
    kind: str, order: str, before: int, after: int, step: int, numbers: list[int]
) -> None:
    dtype = np.dtype([("before", f"V{before}"), ("it", order + kind), ("after", f"V{after}")])
    records = np.zeros(len(numbers), dtype)
    records["it"] = numbers
    records.flags.writeable = bool(before % 2)
    values = records["it"][::step]
    expected = np.histogram(values.tolist(), 7, (0, 50))[0].tolist()
    assert torch_histo.histogram(values, 7, range=(0, 50)).hist.tolist() == expected
    sketch = QuantileSketch()
    sketch.update(values)
    assert sketch.count == len(values)
    edges = np.zeros(3, [("flag", "?"), ("edge", order + "f4")])["edge"]
    edges[:] = 0, 10, 50
    expected = np.histogram(values.tolist(), [0, 10, 50])[0].tolist()
    assert torch_histo.histogram(values, edges).hist.tolist() == expected


class OnCuda:
    """Looks like an array on CUDA that torch does not take."""

    def __init__(self, **changed: Any) -> None:
        usual = {"shape": (2,), "typestr": "<f4", "data": (0, False), "version": 3}
        self.__cuda_array_interface__ = usual | changed


@pytest.mark.parametrize("changed", [{"typestr": "<V2"}, {"strides": (6,)}, {"data": (0, True)}])
def test_arrays_on_cuda_that_torch_does_not_share(changed: dict[str, Any]) -> None:
    line = r"must be an array on CUDA that torch can share, got OnCuda \(.+\): pass "
    for call, name in (
        (QuantileSketch().update, "x"),
        (torch_histo.histogram, "input"),
        (lambda value: torch_histo.histogram([1], value), "bins"),
        (lambda value: torch_histo.histogram([1], 2, range=value), "range"),
    ):
        helps = re.escape(f"torch.from_dlpack({name}.copy())")
        with pytest.raises(TypeError, match=f"{name} {line}{helps}$"):
            call(OnCuda(**changed))


X = np.random.default_rng(0).normal(size=(500, 3))
PAIRS = {
    "percentile": np.percentile(X, [1, 99]),
    "percentile of channels": np.percentile(X, [1, 99], axis=0),
    "float32": np.array([-1, 1], np.float32),
    "integers": np.array([-1, 1]),
    "tensor": torch.tensor([-1.0, 1.0]),
    "tensor of channels": torch.from_numpy(X).quantile(torch.tensor([0.01, 0.99]).double(), 0),
    "one column": torch.tensor([[-1], [1]]),
    "array of Python": array("d", [-1, 1]),
    "list": [-1, 1],
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("pair", PAIRS)
def test_range_is_an_array_of_two(pair: str) -> None:
    bounds: Any = PAIRS[pair]
    rows = tuple(bounds)
    expected = torch_histo.histogram(X, 8, range=rows, dim=0)
    for function in (torch_histo.histogram, distributed.histogram):
        assert same(tuple(function(X, 8, range=bounds, dim=0)), tuple(expected))
    flat = [float(np.asarray(row).ravel()[0]) for row in rows]
    if np.asarray(bounds).ndim == 1 or pair == "one column":
        assert expected.hist[0].tolist() == np.histogram(X[:, 0], 8, flat)[0].tolist()
    stream = StreamingHistogram(8, range=bounds, channels=3)
    stream.update(X, 0)
    assert torch.equal(stream.hist[:, 1:-2], expected.hist)
    assert StreamingHistogram(8, bounds).hist.shape == StreamingHistogram(8, rows).hist.shape
    plans = [torch_histo.explain_histogram(X, 8, range=r, dim=0) for r in (bounds, rows)]
    assert plans[0] == plans[1]


def test_range_that_is_ambiguous() -> None:
    x = torch.randn(20, 2)
    table = torch.tensor([[-1.0, -2], [1, 2]])
    for bounds in (table, table.numpy()):
        with pytest.raises(
            TypeError, match=r": pass tuple\(range\) or \(range\[..., 0\], "
        ) as line:
            torch_histo.histogram(x, 4, range=bounds, dim=0)
        for call in str(line.value).partition(": pass ")[2].split(" or "):
            assert torch_histo.histogram(x, 4, range=eval(call, {"range": bounds}), dim=0)
    rows = torch_histo.histogram(x, 4, range=tuple(table), dim=0).bin_edges[:, 0]
    assert rows.tolist() == [-1, -2]


def taken_dtypes(call: Callable[[Tensor], Any]) -> set[torch.dtype]:
    """Those of all dtypes of torch of which a call takes a tensor."""
    found = set()
    for dtype in {d for d in vars(torch).values() if isinstance(d, torch.dtype)}:
        try:
            values = torch.zeros(16, dtype=torch.uint8).view(dtype)
            call(values)
        except (RuntimeError, TypeError):
            continue
        found.add(dtype)
    return found


def dtypes_in(text: str) -> set[torch.dtype]:
    """Those that a sentence names, "any integer" and "uint8 to uint64" among them."""
    sizes = (8, 16, 32, 64)
    text = re.sub("(any )?integers?", " int8 to int64 uint8 to uint64 ", text)
    for sign in ("", "u"):
        span = " ".join(f"{sign}int{size}" for size in sizes)
        text = re.sub(rf"\b{sign}int8 to {sign}int64", span, text)
    names = re.findall(r"\b(?:bool|u?int\d+|b?float\w+)\b", text)
    return {getattr(torch, name) for name in names}


def sentence(text: str, start: str, end: str) -> str:
    found = re.search(f"{start}(.*?){end}", " ".join(text.split()))
    assert found, start
    return found[1]


DTYPES: dict[str, tuple[str, str, str, Callable[[Tensor], Any]]] = {
    "channel_histogram": (
        str(torch_histo.channel_histogram.__doc__),
        "strides, of dtype",
        "on a CPU",
        lambda x: torch_histo.channel_histogram(x, 4),
    ),
    "channels.md": (
        (DOCUMENTS / "channels.md").read_text(),
        "It takes",
        "any shape",
        lambda x: torch_histo.channel_histogram(x, 4),
    ),
    "histogram": (
        str(torch_histo.histogram.__doc__),
        "strides, of dtype",
        "on a CPU",
        lambda x: torch_histo.histogram(x, 4, range=(0, 1)),
    ),
    "edges": (
        str(torch_histo.histogram.__doc__),
        "kept dimensions, of",
        "on the device",
        lambda x: torch_histo.histogram(torch.zeros(3), x),
    ),
    "quantile": (
        str(torch_histo.quantile.__doc__),
        "strides, of dtype",
        "on a CPU",
        lambda x: torch_histo.quantile(x, 0.5),
    ),
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_that_documents_name(name: str) -> None:
    text, start, end, call = DTYPES[name]
    assert taken_dtypes(call) == dtypes_in(sentence(text, start, end))


def test_modules_and_processes_take_what_histogram_takes(alone: None) -> None:
    """Their documents refer to it."""
    expected = taken_dtypes(lambda x: torch_histo.histogram(x, 4))
    for function in (
        lambda x: StreamingHistogram(4, (0, 1)).update(x),
        lambda x: QuantileSketch().update(x),
        torch_histo.summarize,
        distributed.histogram,
        lambda x: logging.histograms({"x": x}),
        torch_histo.explain_histogram,
    ):
        assert taken_dtypes(function) == expected
    quantile = taken_dtypes(lambda x: torch_histo.nanquantile(x, 0.5))
    assert quantile == expected
    assert taken_dtypes(lambda x: distributed.quantile(x, 0.5)) == quantile - {torch.uint64}


def test_integers_that_only_uint64_holds() -> None:
    """NumPy takes them for C's unsigned long long, or floats, beside smaller ones."""
    largest = (1 << 64) - 1
    assert torch_histo.histogram([1 << 63, largest], [0, 1 << 63, largest]).hist.tolist() == [0, 2]
    below = [0, largest - 1]
    assert torch_histo.histogram(below, [0, largest - 1, largest]).hist.tolist() == [1, 1]
    assert torch_histo.histogram(below, [0, largest, largest]).hist.tolist() == [2, 0]
    assert torch_histo.channel_histogram(np.arange(3, dtype=np.ulonglong), 3).tolist() == [1] * 3


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "name",
    [n for n, f in public() if "num_bins" in inspect.signature(f).parameters and n in FUNCTIONS],
)
def test_bins_is_num_bins(name: str) -> None:
    function, values = dict(public())[name], KINDS["array"]()
    assert same(function(values, bins=9), function(values, num_bins=9))
    with pytest.raises(TypeError, match="bins must be left out with num_bins, got both"):
        function(values, num_bins=8, bins=9)
