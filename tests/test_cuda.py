"""Streams, devices, graphs and memory. Everything here needs a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
import torch
from oracle import (
    STUDY_VARIANTS,
    assert_counts,
    expected_counts,
    expected_letters,
    like,
    random_values,
)

from torch_histo import channel_histogram, histogram, quantile, summarize, text_histogram

if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

# Inputs that take every way through the engine, by name.
INPUTS: dict[str, tuple[torch.Tensor, dict]] = {
    "columns": (random_values((50_000, 512), torch.uint8), {}),
    "columns of a stream": (random_values((90_000, 33), torch.uint8), {}),
    "columns, words assembled": (random_values((15_000, 301), torch.uint8)[:, 3:133], {}),
    "columns of a stream with gaps": (random_values((90_000, 33), torch.uint8)[:, :30], {}),
    "columns in runs": (
        random_values((6, 90, 100, 64), torch.uint8)[:, 3:, 5:-5],
        {"dim": (0, 1, 2)},
    ),
    "columns in runs, words assembled": (
        random_values((6, 90, 100, 63), torch.uint8)[:, 3:, 5:-5],
        {"dim": (0, 1, 2)},
    ),
    "wide columns in runs": (
        random_values((90, 100, 64), torch.int32)[:, 5:-5],
        {"num_bins": 1000, "dim": (0, 1)},
    ),
    "short runs": (random_values((4, 3, 500, 401), torch.uint8)[..., 7:-9], {"dim": (2, 3)}),
    "short rows in runs": (
        random_values((2000, 3, 24, 25), torch.uint8)[:, :, :-4, 5:],
        {"dim": (0, 2, 3)},
    ),
    "short runs of channels": (
        random_values((500, 389, 20), torch.uint8)[:, 7:-9],
        {"dim": (0, 1)},
    ),
    "small segments": (random_values((5000, 900), torch.uint8), {"dim": 1}),
    "wide channels in turn": (random_values((300_000, 3), torch.int32), {"num_bins": 1000}),
    "clusters": (random_values((9_000, 512), torch.uint8), {}),
    "clusters that add": (random_values((40_000, 128), torch.uint8), {}),
    "clusters, words assembled": (random_values((30_000, 201), torch.uint8)[:, 3:150], {}),
    "one channel": (random_values((5_000_001,), torch.uint8), {}),
    "three channels": (random_values((1_000_001, 3), torch.uint8), {}),
    "images": (random_values((4, 3, 500, 401), torch.uint8), {"dim": (2, 3)}),
    "wide columns": (random_values((20_000, 64), torch.int32), {"num_bins": 1000}),
    "packed bins": (
        random_values((20_000, 64), torch.int16, high=5000),
        {"num_bins": 4096},
    ),
    "bins dealt to tables": (random_values((400_001,), torch.int32), {"num_bins": 1 << 16}),
    "small": (random_values((300, 7), torch.uint8), {}),
    "a cluster": (random_values((50_000,), torch.int64), {"num_bins": 256}),
    "strided": (random_values((900, 90), torch.int32), {"num_bins": 1000}),
    "planar": (random_values((90, 9000), torch.int64), {"num_bins": 256, "dim": 1}),
    "many bins": (random_values((90_000,), torch.int32), {"num_bins": 1 << 17}),
    "partitioned": (random_values((4_300_003,), torch.int32, high=1 << 18), {"num_bins": 1 << 18}),
    "partitioned, few values": (
        random_values((4_300_003,), torch.int32, high=5),
        {"num_bins": 1 << 18},
    ),
    "rare strides": (
        random_values((3, 4, 5, 4, 3, 2, 3), torch.int16),
        {"num_bins": 256, "dim": (0, 2, 4, 6)},
    ),
    **{v: (random_values((5000, 100), torch.uint8), {"variant": v}) for v in STUDY_VARIANTS},
}


@pytest.fixture(params=INPUTS)
def call(request: pytest.FixtureRequest) -> tuple[Callable[[torch.Tensor], torch.Tensor], str]:
    arguments = INPUTS[request.param][1]
    return (lambda x: channel_histogram(x, **arguments)), request.param


@cache
def expected(name: str) -> torch.Tensor:
    values, arguments = INPUTS[name]
    return expected_counts(values, arguments.get("num_bins", 256), arguments.get("dim", 0))


def zeros_like(values: torch.Tensor, device: str = "cuda") -> torch.Tensor:
    """Zeros with the strides and the offset of the values, which torch.zeros_like drops."""
    return like(values, device).zero_()


@pytest.fixture
def no_synchronization() -> Iterator[None]:
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def test_no_synchronization(call, request: pytest.FixtureRequest) -> None:
    run, name = call
    values = like(INPUTS[name][0], "cuda")
    request.getfixturevalue("no_synchronization")
    counts = run(values)
    torch.cuda.set_sync_debug_mode("default")
    assert_counts(counts, expected(name))


def test_does_not_wait_for_the_gpu(call) -> None:
    run, name = call
    values = like(INPUTS[name][0], "cuda")
    run(values)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # about a second
    counts = run(values)
    assert not torch.cuda.current_stream().query(), "the call waited for the work before it"
    assert_counts(counts, expected(name))


def test_current_stream(call) -> None:
    run, name = call
    values, zeros = like(INPUTS[name][0], "cuda"), zeros_like(INPUTS[name][0])
    # First calls load modules, which must not wait for the GPU below.
    run(zeros.copy_(values))
    zeros.zero_()
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(1_000_000_000)  # half a second: the machine may be busy
        # Only work that is queued behind this copy sees the values.
        zeros.copy_(values)
        counts = run(zeros)
        assert not side.query()
    torch.cuda.current_stream().wait_stream(side)
    assert_counts(counts, expected(name))


def test_graph(call) -> None:
    run, name = call
    values = like(INPUTS[name][0], "cuda")
    changing = zeros_like(INPUTS[name][0])
    assert changing.stride() == values.stride()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counts = run(changing)
    for content in (values, zeros_like(INPUTS[name][0]), values):
        changing.copy_(content)
        counts.fill_(-1)
        graph.replay()
        graph.replay()
        assert torch.equal(counts, run(content))
    assert_counts(counts, expected(name))


COPY_LATE = """
extern "C" __global__ void copy_late(char* to, const char* from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  const long long began = clock64();
  while (clock64() - began < 1000000) {
  }
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}
"""


@pytest.fixture(scope="module")
def copy_late() -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A copy that lets the next kernel start at once, if that was launched to overlap it."""
    kernel = torch.cuda._compile_kernel(COPY_LATE, "copy_late")

    def copy(to: torch.Tensor, source: torch.Tensor) -> None:
        nbytes = source.untyped_storage().nbytes()
        whole = [x.as_strided((1,), (1,), 0) for x in (to, source)]
        kernel((1, 1, 1), (1024, 1, 1), [*whole, nbytes])

    return copy


@pytest.mark.parametrize("in_graph", [False, True])
def test_after_a_kernel_that_lets_it_start(call, copy_late, in_graph: bool) -> None:
    run, name = call
    values, written = like(INPUTS[name][0], "cuda"), zeros_like(INPUTS[name][0])
    counts = run(written)  # what a first call loads must not wait for the GPU below
    pattern = torch.randint(1 << 40, counts.shape, device="cuda")
    kept = torch.zeros_like(pattern)

    def work() -> torch.Tensor:
        read = pattern.clone()
        copy_late(written, values)
        copy_late(kept, read)
        del read  # whose memory the counts may now have
        return run(written)

    if in_graph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            counts = work()
        graph.replay()
    else:
        counts = work()
    assert_counts(counts, expected(name))
    assert torch.equal(kept, pattern)


FLIP = """
extern "C" __global__ void flip(unsigned* words, int size, unsigned bits) {
  const int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  const long long began = clock64();
  while (clock64() - began < 20000000) {
    for (int turn = 0; turn < 2; ++turn) {
      for (int i = first; i < size; i += step) *(volatile unsigned*)&words[i] ^= bits;
    }
  }
}
"""


@pytest.fixture(scope="module")
def flip() -> Callable[[torch.Tensor], None]:
    """Flips the signs of all elements for some 10 ms, and leaves them as they were."""
    kernel = torch.cuda._compile_kernel(FLIP, "flip")

    def change(values: torch.Tensor) -> None:
        signs = {1: 0x80808080, 2: 0x80008000}.get(values.element_size(), 0x80000000)
        words = values.untyped_storage().nbytes() // 4
        kernel((8, 1, 1), (256, 1, 1), [values.as_strided((1,), (1,), 0), words, signs])

    return change


def test_an_input_that_changes_meanwhile(call, flip) -> None:
    """Its counts may be anything, but nothing outside of the tables is written."""
    run, name = call
    values = like(INPUTS[name][0], "cuda")
    assert_counts(run(values), expected(name))
    # A table or a result that is left by one byte or by much would be seen by its neighbours.
    kept = [torch.full((1 << n,), n, dtype=torch.uint8, device="cuda") for n in range(9, 24)]
    # Blocks that take a whole SM wait until no other kernel runs, but copies go on beside them.
    size = values.untyped_storage().nbytes() // values.element_size()
    there = values.as_strided((size,), (1,), 0)
    right = there.cpu().pin_memory()
    zeros = torch.zeros_like(right).pin_memory()
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(10):  # another process may take the GPU between the two streams
        with torch.cuda.stream(side):
            flip(values)
            for content in 20 * (zeros, right):
                there.copy_(content, non_blocking=True)
        changed = [run(values) for _ in range(20)]
        side.synchronize()
        if any(not torch.equal(counts.cpu(), expected(name)) for counts in changed):
            break
    else:
        pytest.fail("the input never changed while it was counted")
    assert all(bool((block == n).all()) for n, block in enumerate(kept, 9))
    assert_counts(run(values), expected(name))


def test_graphs_in_which_other_things_come_first(call) -> None:
    run, name = call
    values, zeros = like(INPUTS[name][0], "cuda"), zeros_like(INPUTS[name][0])
    pinned = INPUTS[name][0].contiguous().pin_memory()
    side = torch.cuda.Stream()

    def after_a_fill(x: torch.Tensor) -> torch.Tensor:
        return run(x.zero_())

    def after_a_copy(x: torch.Tensor) -> torch.Tensor:
        torch.empty_like(pinned, device="cuda").copy_(pinned, non_blocking=True)
        return run(x)

    def after_a_join(x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            there = run(x)
        here = run(x)
        current.wait_stream(side)
        return run(x) + here + there

    for body, x, factor in (
        (after_a_fill, zeros, 1),
        (after_a_copy, values, 1),
        (after_a_join, values, 3),
    ):
        want = run(x) * factor
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            counts = body(x)
        for _ in range(3):
            counts.fill_(-1)
            graph.replay()
            assert torch.equal(counts, want), body.__name__


def test_calls_that_count_what_the_call_before_wrote(call) -> None:
    """Small calls let the next one start before they have ended."""
    run, name = call
    values, want = like(INPUTS[name][0], "cuda"), expected(name)
    few = channel_histogram(want.flatten(), 64)

    def chain() -> tuple[torch.Tensor, ...]:
        counts = run(values)
        of_counts = channel_histogram(counts.flatten(), 64)
        of_those = channel_histogram(of_counts.flatten(), 64)
        return counts, of_counts, of_those, run(values)

    wanted = (want, few, channel_histogram(few.flatten(), 64), want)
    graph = torch.cuda.CUDAGraph()
    chain()
    with torch.cuda.graph(graph):
        captured = [chain() for _ in range(3)]
    for _ in range(50):
        for results in captured:
            for result in results:
                result.fill_(-1)
        graph.replay()
        for results in captured:
            for result, counts in zip(results, wanted, strict=True):
                assert_counts(result, counts)
    for result, counts in zip(chain(), wanted, strict=True):
        assert_counts(result, counts)


def test_the_same_bits_every_time(call) -> None:
    run, name = call
    values, want = like(INPUTS[name][0], "cuda"), expected(name).cuda()
    differing = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(1000):
        differing += (run(values) != want).sum()
    assert int(differing) == 0


def test_a_graph_replayed_10_000_times(call) -> None:
    run, name = call
    values, want = like(INPUTS[name][0], "cuda"), expected(name).cuda()
    differing = torch.zeros((), dtype=torch.int64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            differing += (run(values) != want).sum()
    for _ in range(1000):
        graph.replay()
    assert int(differing) == 0


def test_beside_kernels_that_fill_the_gpu(call) -> None:
    run, name = call
    values, want = like(INPUTS[name][0], "cuda"), expected(name).cuda()
    matrix = torch.rand(4096, 4096, device="cuda")
    differing = torch.zeros(2, dtype=torch.int64, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    for _ in range(20):
        with torch.cuda.stream(streams[2]):
            matrix @ matrix
        for i in range(2):
            with torch.cuda.stream(streams[i]):
                differing[i] += (run(values) != want).sum()
    torch.cuda.synchronize()
    assert differing.tolist() == [0, 0]


FIRST_CALL_IN_A_GRAPH = """
import torch, torch_histo
x = torch.arange(4_000_000, device="cuda").to(torch.uint8).view(-1, 100)
wide = x.view(-1).long() * 500
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    tables = torch_histo.channel_histogram(x)
    tiled = torch_histo.channel_histogram(x, variant="tiled")
    small = torch_histo.channel_histogram(x[:5])
    study = [torch_histo.channel_histogram(x, variant=v) for v in torch_histo.VARIANTS[1:-1]]
    planar = torch_histo.channel_histogram(x, dim=1)
    many = torch_histo.channel_histogram(wide, 1 << 17)
    text = torch_histo.text_histogram(x.view(-1))
graph.replay()
assert int(tables.sum()) == x.numel() and torch.equal(tables, tiled)
assert len(study) == 7 and all(torch.equal(counts, tables) for counts in study)
rows = torch.arange(40_000, device="cuda")[:, None] * 256
assert torch.equal(planar.view(-1), torch.bincount((x + rows).view(-1), minlength=40_000 * 256))
assert torch.equal(many, torch.bincount(wide, minlength=1 << 17))
assert int(small.sum()) == 500 and int(text.sum()) == int(((x >= 97) & (x < 123)).sum())
print("counted")
"""


def test_first_call_of_a_process_in_a_graph() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FIRST_CALL_IN_A_GRAPH], capture_output=True, text=True
    )
    assert run.stdout == "counted\n", run.stderr


def test_memory_is_torchs(call) -> None:
    run, name = call
    values = like(INPUTS[name][0], "cuda")
    run(values)

    def held() -> int:
        torch.cuda.synchronize()
        return torch.cuda.memory_stats()["requested_bytes.all.current"]

    def outside_torch() -> int:
        free, total = torch.cuda.mem_get_info()
        return total - free - torch.cuda.memory_reserved()

    grown = []
    for _ in range(5):
        held_before, outside_before = held(), outside_torch()
        counts = [run(values) for _ in range(20)]
        assert held() - held_before == sum(c.nbytes for c in counts), "not only the results"
        grown.append(outside_torch() - outside_before)
        # The driver gives out 2 MiB at a time: a call that took memory of its own would
        # show 20 times in each try. Other processes may take some in one of them.
        if grown[-1] < 16 << 20:
            return
        del counts
    pytest.fail(f"grew outside torch's allocator by {grown} bytes in 20 calls each")


def test_compiled_into_a_graph() -> None:
    compiled = torch.compile(
        lambda x: channel_histogram(x + 1, 256) + 1, fullgraph=True, mode="reduce-overhead"
    )
    values = random_values((5000, 33), torch.uint8).cuda()
    for _ in range(4):
        assert torch.equal(compiled(values).clone(), channel_histogram(values + 1) + 1)


def test_threads_on_streams(call) -> None:
    run, name = call
    values, want = like(INPUTS[name][0], "cuda"), expected(name).cuda()
    torch.cuda.synchronize()

    def work(_: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(10):
                assert_counts(run(values), want)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))  # raises what a thread raised


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_gpu_that_is_not_the_current_one(call) -> None:
    run, name = call
    last = torch.cuda.device_count() - 1
    values = like(INPUTS[name][0], f"cuda:{last}")
    assert torch.cuda.current_device() == 0
    counts = run(values)
    assert counts.device == values.device
    assert torch.cuda.current_device() == 0
    assert_counts(counts, expected(name))
    with torch.cuda.device(last), torch.cuda.stream(torch.cuda.Stream()):
        on_first = like(INPUTS[name][0], "cuda:0")
        assert_counts(run(on_first), expected(name))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_stream_of_another_gpu(call) -> None:
    run, name = call
    values, zeros = like(INPUTS[name][0], "cuda:1"), zeros_like(INPUTS[name][0], "cuda:1")
    side = torch.cuda.Stream("cuda:1")
    torch.cuda.synchronize("cuda:1")
    with torch.cuda.stream(side):  # also makes cuda:1 the current device
        torch.cuda._sleep(1_000_000_000)  # half a second: the machine may be busy
        zeros.copy_(values)
        with torch.cuda.device(0):
            counts = run(zeros)
    side.synchronize()
    assert_counts(counts, expected(name))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_all_gpus_at_once() -> None:
    values = random_values((50_000, 130), torch.uint8)
    want = expected_counts(values)
    counts = [channel_histogram(values.to(f"cuda:{i}")) for i in range(torch.cuda.device_count())]
    letters = [
        text_histogram(values.to(f"cuda:{i}").view(-1)) for i in range(torch.cuda.device_count())
    ]
    for got in counts:
        assert_counts(got, want)
    for got in letters:
        assert_counts(got, expected_letters(values.numpy().tobytes()))


@pytest.mark.parametrize(
    ("dtype", "channels", "num_bins"),
    [
        ("uint8", 512, 256),
        ("uint8", 130, 256),
        ("uint8", 511, 256),
        ("uint8", 6400, 256),  # blocks that count parts of two groups of columns
        ("int8", 64, 100),
        ("int16", 64, 1000),
        ("int16", 64, 2048),
        ("int16", 64, 4096),
        ("int16", 63, 4095),
        ("uint16", 64, 6001),
    ],
)
def test_counters_of_16_bits_are_emptied_in_time(dtype: str, channels: int, num_bins: int) -> None:
    """Eight million rows, which a few repeated ones stand for: more to a block than 16 bits
    count, half of them in two neighbouring bins."""
    values = random_values((4096, channels), getattr(torch, dtype), high=num_bins + 50)
    numbers = values.numpy()
    for channel in range(channels):
        heavy = channel % (min(num_bins, 127) - 1)
        numbers[::4, channel] = heavy
        numbers[1::4, channel] = heavy + 1
    repeats = 2000
    counts = channel_histogram(like(values, "cuda").expand(repeats, -1, -1), num_bins, (0, 1))
    assert_counts(counts, repeats * expected_counts(values, num_bins))


def test_values_that_crowd_for_a_while() -> None:
    """Blocks that count crowded tiles in memory return to sending values when they spread."""
    half, num_bins = 1 << 26, 1 << 18
    values = torch.arange(3 * half, dtype=torch.int32, device="cuda") % num_bins
    values[:half] %= 2
    values[2 * half :] = 77
    counts = channel_histogram(values, num_bins)
    expected = torch.full((num_bins,), half // num_bins)
    expected[:2] += half // 2
    expected[77] += half
    assert_counts(counts, expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64])
def test_gaps_between_channels(dtype: torch.dtype) -> None:
    """Large inputs are copied first; results do not change."""
    rows = (9 << 20) // dtype.itemsize // 150
    values = random_values((2, rows, 301), dtype, low=0, high=200).cuda()
    for x, dim in ((values[..., 1::2], (0, 1)), (values[:1, :, ::2], 1), (values[..., ::3], 1)):
        dense = x.contiguous()

        def results(some: torch.Tensor, dim: Any = dim) -> list[torch.Tensor]:
            summary = summarize(some, dim=dim)
            return [
                *histogram(some, 99, range=(10, 150), dim=dim),
                *histogram(some, 99, dim=dim),
                quantile(some, 0.3, dim=dim),
                summary.mean,
                summary.max,
                summary.quantiles,
            ]

        torch.testing.assert_close(results(x), results(dense), rtol=0, atol=0, equal_nan=True)
