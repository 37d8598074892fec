"""Every public function takes arrays, images and lists, and counts them as a tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
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


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "channel_histogram": lambda x, edges: torch_histo.channel_histogram(x),
    "text_histogram": lambda x, edges: torch_histo.text_histogram(x),
    "histogram": torch_histo.histogram,
    "quantile": lambda x, edges: torch_histo.quantile(x, fractions(edges)),
    "nanquantile": lambda x, edges: torch_histo.nanquantile(x, fractions(edges)),
    "summarize": lambda x, edges: astuple(torch_histo.summarize(x, q=fractions(edges)))[:-1],
    "explain": lambda x, edges: torch_histo.explain(x),
    "explain_histogram": torch_histo.explain_histogram,
    "distributed.channel_histogram": lambda x, edges: distributed.channel_histogram(x),
    "distributed.histogram": distributed.histogram,
    "distributed.quantile": lambda x, edges: distributed.quantile(x, fractions(edges)),
    "distributed.nanquantile": lambda x, edges: distributed.nanquantile(x, fractions(edges)),
    "logging.histograms": lambda x, edges: tuple(
        map(torch.from_numpy, logging.histograms({"x": x})["x"])
    ),
    "StreamingHistogram": stream,
    "QuantileSketch": sketch,
}
WITHOUT_NUMBERS = {"has_cuda_kernels", "logging.to_tensorboard", "logging.to_trackio"} | {
    *("logging.to_wandb", "logging.Watch", "logging.Counts", "BinSearch", "CpuExplanation"),
    *("Device", "Explanation", "Histogram", "HistogramExplanation", "Summary"),
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
        return isinstance(found, Tensor) and torch.equal(found, expected)
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


def test_integers_that_only_uint64_holds() -> None:
    """NumPy takes them for C's unsigned long long, which torch does not know."""
    largest = (1 << 64) - 1
    assert torch_histo.histogram([1 << 63, largest], [0, 1 << 63, largest]).hist.tolist() == [0, 2]
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
