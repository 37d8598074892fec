"""Every line of the table in docs/pytorch.md: the operators among PyTorch's own tools."""

from __future__ import annotations

import copy
import importlib
import io
import multiprocessing
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle import assert_counts, expected_counts, expected_letters, random_values
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from torch_histo import channel_histogram, text_histogram

DOCUMENT = Path(__file__).parents[1] / "docs" / "pytorch.md"


class Counter(torch.nn.Module):
    """A module as users write them: parameters, a buffer, and a count in forward."""

    def __init__(self, num_bins: int = 256) -> None:
        super().__init__()
        self.num_bins = num_bins
        self.scale = torch.nn.Parameter(torch.ones(num_bins))
        self.register_buffer("seen", torch.zeros(num_bins, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        counts = channel_histogram(x, self.num_bins)
        self.seen = self.seen + counts.sum(0)
        return counts * self.scale


@pytest.fixture
def values() -> Tensor:
    return random_values((300, 7), torch.uint8)


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_fake_tensor_mode() -> None:
    with FakeTensorMode() as mode:
        for kind in ("cpu", "cuda"):
            x = torch.empty(64, 3, 10, 10, dtype=torch.uint8, device=kind)
            counts = channel_histogram(x, 300, (0, 2, 3))
            assert (counts.shape, counts.dtype, counts.device.type) == ((3, 300), torch.int64, kind)
            assert text_histogram(x.view(-1)).shape == (7,)
        with pytest.raises(RuntimeError, match="dim must be between -4 and 3"):
            channel_histogram(x, dim=4)
    real = torch.zeros(5, 2, dtype=torch.uint8)
    with mode:
        assert channel_histogram(mode.from_tensor(real)).shape == (2, 256)


def test_meta_device() -> None:
    x = torch.empty(1 << 40, 64, dtype=torch.uint8, device="meta")  # no memory is touched
    counts = channel_histogram(x)
    assert (counts.shape, counts.dtype, counts.device.type) == ((64, 256), torch.int64, "meta")
    assert text_histogram(x[:, 0]).shape == (7,)
    with torch.device("meta"):
        module = Counter()
        assert module(torch.empty(9, 3, dtype=torch.uint8)).shape == (3, 256)
    with pytest.raises(RuntimeError, match="num_bins must be at least 0, got -1"):
        channel_histogram(x, -1)


def test_functional_call(device: torch.device, values: Tensor) -> None:
    module = Counter().to(device)
    scale = torch.full((256,), 3.0, device=device)
    seen = torch.ones(256, dtype=torch.int64, device=device)
    out = torch.func.functional_call(module, {"scale": scale, "seen": seen}, values.to(device))
    assert torch.equal(out.cpu(), expected_counts(values) * 3.0)
    assert not module.seen.any(), "the module's own buffer stays"


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint(device: torch.device, values: Tensor, use_reentrant: bool) -> None:
    weight = torch.ones(256, device=device, requires_grad=True)
    calls = 0

    def step(weight: Tensor, x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return (channel_histogram(x) * weight).sin().sum()

    x = values.to(device)
    checkpoint(step, weight, x, use_reentrant=use_reentrant).backward()
    got = weight.grad
    assert calls == 2, "forward, and again for backward"
    weight.grad = None
    step(weight, x).backward()
    assert torch.equal(got, weight.grad)


class Images(Dataset[Tensor]):
    """Counts in the worker."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Tensor:
        image = random_values((3, 400, 500), torch.uint8, index)
        return channel_histogram(image, dim=(1, 2))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_data_loader_workers(start: str) -> None:
    assert start in multiprocessing.get_all_start_methods()
    channel_histogram(random_values((1_000_000,), torch.uint8))  # threads exist before the fork
    loader = DataLoader(Images(), batch_size=2, num_workers=2, multiprocessing_context=start)
    batches = list(loader)
    assert [len(batch) for batch in batches] == [2, 2, 2]
    for index, counts in enumerate(torch.cat(batches)):
        image = random_values((3, 400, 500), torch.uint8, index)
        assert_counts(counts, expected_counts(image, 256, (1, 2)), index)


def test_pickle(device: torch.device, values: Tensor) -> None:
    module = Counter().to(device)
    again = pickle.loads(pickle.dumps(module))
    assert torch.equal(again(values.to(device)), module(values.to(device)))
    assert pickle.loads(pickle.dumps(channel_histogram)) is channel_histogram


def test_save_and_load(values: Tensor) -> None:
    module = Counter()
    module(values)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert torch.equal(again.seen, expected_counts(values).sum(0))
    fresh = Counter()
    fresh.load_state_dict(module.state_dict())
    assert torch.equal(fresh.seen, module.seen)


def test_deepcopy(device: torch.device, values: Tensor) -> None:
    module = Counter().to(device)
    other = copy.deepcopy(module)
    module(values.to(device))
    assert not other.seen.any()
    assert torch.equal(other(values.to(device)).cpu(), expected_counts(values).float())


def profiled(device: torch.device, call: Callable[[], object]) -> Any:
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
        call()  # set-up is no part of the trace
        torch.cuda.synchronize()
    with profile(activities=activities, record_shapes=True) as trace:
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
    return trace


def test_profiler(device: torch.device, values: Tensor) -> None:
    x = values.to(device)
    trace = profiled(device, lambda: (channel_histogram(x), text_histogram(x.view(-1))))
    names = [event.key for event in trace.key_averages()]
    assert "histo::channel_histogram" in names
    assert "histo::text_histogram" in names


def test_profiler_kernels(device: torch.device) -> None:
    if device.type == "cpu":
        pytest.skip("kernels are the GPU's")
    x = random_values((40_000, 512), torch.uint8).to(device)
    trace = profiled(device, lambda: (channel_histogram(x), channel_histogram(x, variant="tiled")))
    kernels = {event.name for event in trace.events() if event.device_type.name == "CUDA"}
    for name in ("count_", "tiled_kernel", "reduce_kernel"):
        assert any(name in kernel for kernel in kernels), kernels


def test_profiler_record_shapes(device: torch.device, values: Tensor) -> None:
    x = values.to(device)
    trace = profiled(device, lambda: channel_histogram(x, 100))
    averages = trace.key_averages(group_by_input_shape=True)
    shapes = [event.input_shapes for event in averages if event.key == "histo::channel_histogram"]
    assert [300, 7] in [inputs[0] for inputs in shapes]


def test_inference_mode(device: torch.device, values: Tensor) -> None:
    with torch.inference_mode():
        x = values.to(device)
        counts = channel_histogram(x)
        assert counts.is_inference()
        letters = text_histogram(x.view(-1))
    assert_counts(counts, expected_counts(values))
    assert_counts(letters, expected_letters(values.numpy().tobytes()))
    assert_counts(channel_histogram(x), expected_counts(values), "an inference tensor outside")
    with torch.no_grad():
        assert_counts(channel_histogram(values.to(device)), expected_counts(values))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(device: torch.device, values: Tensor, dtype: torch.dtype) -> None:
    module = Counter().to(device)
    with torch.autocast(device.type, dtype):
        counts = channel_histogram(values.to(device))
        out = module(values.to(device))
        linear = torch.nn.functional.linear(out, out)
    assert_counts(counts, expected_counts(values))
    assert out.dtype == torch.float32
    assert linear.dtype == dtype, "autocast was on"


def test_no_gradient(device: torch.device, values: Tensor) -> None:
    weight = torch.rand(256, device=device, requires_grad=True)
    counts = channel_histogram(values.to(device))
    assert not counts.requires_grad
    (counts * weight).sum().backward()
    assert torch.equal(weight.grad.cpu(), expected_counts(values).sum(0).float())


@pytest.mark.usefixtures("fresh_compiler")
def test_compile(device: torch.device) -> None:
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(
        lambda x: channel_histogram(x, 100).sum(0) + 1,
        fullgraph=True,
        dynamic=True,
        backend=counter,
    )
    for shape in ((300, 7), (50, 9), (2, 2)):
        x = random_values(shape, torch.int32)
        expected = expected_counts(x, 100).sum(0) + 1
        assert torch.equal(compiled(x.to(device)).cpu(), expected), shape
    assert counter.frame_count == 1


@pytest.mark.usefixtures("fresh_compiler")
def test_module_compile(device: torch.device, values: Tensor) -> None:
    module = Counter().to(device)
    module.compile(fullgraph=True, backend="aot_eager")
    for _ in range(2):
        assert torch.equal(module(values.to(device)).cpu(), expected_counts(values).float())
    assert torch.equal(module.seen.cpu(), 2 * expected_counts(values).sum(0))


def test_make_fx(device: torch.device, values: Tensor) -> None:
    count = make_fx(lambda x: channel_histogram(x), tracing_mode="symbolic")
    graph = count(values.to(device)[:9])
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert names.count("histo.channel_histogram.default") == 1
    assert_counts(graph(values.to(device)), expected_counts(values))


def test_symbolic_trace(device: torch.device, values: Tensor) -> None:
    traced = torch.fx.symbolic_trace(Counter().to(device))
    targets = [node.target for node in traced.graph.nodes]
    assert targets.count(torch.ops.histo.channel_histogram) == 1
    assert torch.equal(traced(values.to(device)).cpu(), expected_counts(values).float())


def test_functionalize_and_vmap_together(device: torch.device, values: Tensor) -> None:
    count = torch.func.functionalize(torch.vmap(channel_histogram, in_dims=1))
    assert_counts(count(values.to(device)), expected_counts(values))


def test_modes_see_one_call(device: torch.device, values: Tensor) -> None:
    seen: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            seen.append(f"function {func}")
            return func(*args, **(kwargs or {}))

    class Dispatches(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            seen.append(f"dispatch {func}")
            return func(*args, **(kwargs or {}))

    x = values.to(device)
    with Functions(), Dispatches():
        channel_histogram(x)
    ours = [name for name in seen if "histo" in name]
    assert ours == [
        "function histo.channel_histogram",
        "dispatch histo.channel_histogram.default",
    ]


def test_subclass_and_parameter(device: torch.device, values: Tensor) -> None:
    class Named(Tensor):
        pass

    counts = channel_histogram(values.to(device).as_subclass(Named))
    assert type(counts) is Named
    assert_counts(counts.as_subclass(Tensor), expected_counts(values))
    parameter = torch.nn.Parameter(values.to(device), requires_grad=False)
    assert_counts(channel_histogram(parameter), expected_counts(values))


def test_numpy_and_dlpack(values: Tensor) -> None:
    array = np.random.default_rng(0).integers(0, 256, (100, 5), dtype=np.uint8)
    expected = expected_counts(torch.from_numpy(array))
    assert_counts(channel_histogram(torch.from_numpy(array)), expected)
    assert_counts(channel_histogram(torch.from_dlpack(array)), expected)
    assert channel_histogram(values).numpy().dtype == np.int64


def test_pinned_and_shared_memory(values: Tensor) -> None:
    shared = values.clone().share_memory_()
    assert_counts(channel_histogram(shared), expected_counts(values))
    if torch.cuda.is_available():
        pinned = values.pin_memory()
        assert_counts(channel_histogram(pinned), expected_counts(values))
        moved = pinned.to("cuda", non_blocking=True)
        assert_counts(channel_histogram(moved), expected_counts(values))


def test_default_device(device: torch.device, values: Tensor) -> None:
    with torch.device(device):
        x = torch.zeros(5, dtype=torch.int64)
        assert channel_histogram(x, 2).device.type == device.type
        # A tensor's own device decides.
        assert_counts(channel_histogram(values), expected_counts(values))
        assert text_histogram("a text").tolist() == [1, 1, 0, 0, 2, 1, 0]


def test_streams(device: torch.device, values: Tensor) -> None:
    if device.type == "cpu":
        pytest.skip("streams are the GPU's")
    x = values.to(device)
    channel_histogram(x.add_(0))  # kernels are loaded at their first call, which may wait
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(4_000_000_000)  # two seconds: the machine may be busy
        x.add_(1)
        counts = channel_histogram(x)
    assert not stream.query(), "the call waited for the GPU"
    torch.cuda.current_stream().wait_stream(stream)
    assert_counts(counts, expected_counts(values + 1))


def test_python_threads(device: torch.device, values: Tensor) -> None:
    expected = expected_counts(values)
    with ThreadPoolExecutor(8) as pool:
        for counts in pool.map(channel_histogram, [values.to(device)] * 32):
            assert_counts(counts, expected)


def test_jit_trace(device: torch.device, values: Tensor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(Counting(), values.to(device)[:9])
        file = io.BytesIO()
        torch.jit.save(traced, file)
        file.seek(0)
        again = torch.jit.load(file)
    assert_counts(again(values.to(device)), expected_counts(values))


class Counting(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.histo.channel_histogram(x, 256, [0])


def test_every_line_of_the_tables_has_its_tests() -> None:
    document = DOCUMENT.read_text()
    lines = [line for line in document.splitlines() if line.startswith("| ")]
    link = re.compile(r"\[`(test_\w+)`\]\(\.\./tests/(test_\w+)\.py\)")
    without = [line for line in lines if not link.search(line)]
    titles = [line.split(" | ")[0] for line in without if not line.startswith("| ---")]
    assert titles == [*["| tool"] * 5, "| the same for all"]
    named = set()
    for test, module in link.findall(document):
        assert callable(getattr(importlib.import_module(module), test, None)), (module, test)
        named.add(test)
    here = {name for name in globals() if name.startswith("test_")}
    assert here - named == {"test_every_line_of_the_tables_has_its_tests"}
