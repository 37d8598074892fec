"""The implementations that are measured, each a plug-in, and what only reads the input."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import math
import operator
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch
from cases import Case
from torch import Tensor
from torch.utils import cpp_extension
from torch.utils.dlpack import from_dlpack

from torch_histo import channel_histogram
from torch_histo.measure import bincount_by_channel

Count = Callable[[Tensor], Tensor]
"""Returns counts of any integer type and shape, in the order of channel_histogram's."""


@dataclass(frozen=True)
class Peer:
    name: str
    prepare: Callable[[Case], Count]
    """Raises ImportError where what it needs is not there."""
    supports: Callable[[Case], bool] = lambda case: True
    devices: tuple[str, ...] = ("cuda",)
    captured: bool = True
    """Whether a CUDA graph can hold it: it does not synchronize."""
    exact: bool = True
    """Whether it must count right. The others may misplace values; the results say how many."""
    finish: Callable[[Case, Tensor], Tensor] = lambda case, counts: counts
    """Makes the counts of the case from what it returns. It is not timed."""


def one_channel(case: Case) -> bool:
    return case.channels == 1


def several_channels(case: Case) -> bool:
    return case.channels > 1


MAX_LOOPED = 2048
"""Channels: loops over more take minutes."""


def loops(case: Case) -> bool:
    return 1 < case.channels <= MAX_LOOPED


def few_calls(case: Case) -> bool:
    return one_channel(case) or (not torch.cuda.is_available() and loops(case))


# --- torch_histo ------------------------------------------------------------------------


def ours(case: Case, variant: str) -> Count:
    return partial(channel_histogram, num_bins=case.num_bins, dim=case.dim, variant=variant)


def tiled_supports(case: Case) -> bool:
    return case.dtype == "uint8" and len(case.shape) <= 2 and case.dim == (0,)


# --- PyTorch ----------------------------------------------------------------------------

PART_ELEMENTS = 1 << 26
"""Channels cost eight or more bytes an element, so the largest inputs are counted in parts."""


def offset_values(x: Tensor, case: Case, part_elements: int = PART_ELEMENTS) -> Iterator[Tensor]:
    """All value + channel * num_bins, flat: one histogram for all channels. In parts."""
    if case.channels == 1:
        yield x.flatten()
        return
    total = case.channels * case.num_bins
    steps = torch.arange(0, total, case.num_bins, dtype=torch.int32, device=x.device)
    offsets = steps.view(case.kept)
    rows = max(1, part_elements // x[0].numel())
    for start in range(0, len(x), rows):
        stop = start + rows
        yield (x[start:stop] + (offsets if len(offsets) == 1 else offsets[start:stop])).flatten()


def torch_bincount(case: Case) -> Count:
    total = case.channels * case.num_bins
    if len(case.shape) == 1:
        return partial(torch.bincount, minlength=total)

    def run(x: Tensor) -> Tensor:
        parts = (torch.bincount(part, minlength=total) for part in offset_values(x, case))
        return reduce(operator.add, parts)

    return run


def torch_scatter_add(case: Case, part_elements: int = PART_ELEMENTS) -> Count:
    def run(x: Tensor) -> Tensor:
        counts = torch.zeros(case.channels * case.num_bins, dtype=torch.int32, device=x.device)
        ones = counts.new_ones(())
        for part in offset_values(x, case, part_elements):
            index = part.long()
            counts.scatter_add_(0, index, ones.expand_as(index))
        return counts

    return run


def torch_compile(case: Case) -> Count:
    # Whole: the compiler makes one kernel of it, which stores no index.
    torch.compiler.reset()  # or else it gives up after a few cases
    run: Count = torch.compile(torch_scatter_add(case, 1 << 31), dynamic=False, fullgraph=True)
    return run


def compile_supports(case: Case) -> bool:
    return case.bytes <= 1 << 30


def each_channel(x: Tensor, case: Case) -> Iterator[Tensor]:
    """The elements of every channel, as views where that is possible."""
    kept = [d for d in range(x.dim()) if d not in case.dim]
    channels = x.permute(*kept, *case.dim)
    for index in itertools.product(*(range(x.shape[d]) for d in kept)):
        yield channels[index].flatten()


def torch_bincount_looped(case: Case) -> Count:
    def run(x: Tensor) -> Tensor:
        channels = each_channel(x, case)
        return torch.stack([torch.bincount(part, minlength=case.num_bins) for part in channels])

    return run


def torch_bincount_transposed(case: Case) -> Count:
    def run(x: Tensor) -> Tensor:
        kept = [d for d in range(x.dim()) if d not in case.dim]
        channels = x.permute(*kept, *case.dim).reshape(case.channels, -1)
        return bincount_by_channel(channels.t(), case.num_bins)

    return run


def torch_histc(case: Case) -> Count:
    def count(x: Tensor) -> Tensor:
        # It counts in the type of its input: a byte would overflow. On the CPU it takes floating
        # point only, and float32 has no odd numbers beyond 2^24.
        on_cpu = torch.float32 if x.numel() <= 1 << 24 else torch.float64
        values = x.to(torch.int32 if x.is_cuda else on_cpu)
        return torch.histc(values, case.num_bins, 0, case.num_bins)

    def run(x: Tensor) -> Tensor:
        return torch.stack([count(part) for part in each_channel(x, case)])

    return run


# --- What is compiled when it is needed: CUB, the read-only limit -----------------------


@cache
def library(source: str) -> ctypes.CDLL:
    """Compiles a file of this folder for the machine at hand, once, and loads it."""
    command = nvcc() if source.endswith(".cu") else gcc()
    file = Path(__file__).with_name(source)
    key = hashlib.sha256(file.read_bytes() + " ".join(command).encode()).hexdigest()
    folder = Path(cpp_extension.get_default_build_root()) / "torch_histo_benchmarks"
    built = folder / f"{file.stem}-{key[:16]}.so"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = built.with_suffix(".tmp")
        ran = subprocess.run(
            [*command, str(file), "-o", str(unfinished)], capture_output=True, text=True
        )
        if ran.returncode != 0:
            raise ImportError(f"{command[0]} failed on {source}:\n{ran.stdout}{ran.stderr}")
        unfinished.rename(built)
    return ctypes.CDLL(str(built))


def nvcc() -> list[str]:
    found = shutil.which("nvcc") or shutil.which(f"{cpp_extension.CUDA_HOME}/bin/nvcc")
    if found is None:
        raise ImportError("no nvcc: put it on PATH or set CUDA_HOME")
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    return [found, "-O3", "-std=c++17", f"-arch={arch}", "-shared", "-Xcompiler=-fPIC"]


def gcc() -> list[str]:
    found = shutil.which("g++")
    if found is None:
        raise ImportError("no g++: put it on PATH")
    return [found, "-O3", "-std=c++17", "-march=native", "-shared", "-fPIC"]


def call(function: Any, *arguments: Any) -> None:
    """Calls a function of a library on the current stream; of a tensor it gets the address."""
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    plain = (address(each) if isinstance(each, Tensor) else each for each in arguments)
    error = function(*plain, stream)
    if error != 0:
        raise RuntimeError(f"{function.__name__}: CUDA error {error}")


def address(x: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.data_ptr())


def cub(case: Case, name: str, interleaved: int, *more: int | Tensor) -> Count:
    """A call for every `interleaved` channels, which lie together."""
    function = library("cub.cu")[name]
    segments, length = case.channels // interleaved, math.prod(case.shape) // case.channels
    plan = (case.num_bins, segments, length, *more)
    size = ctypes.c_size_t()
    call(function, None, ctypes.byref(size), None, None, *plan)

    def run(x: Tensor) -> Tensor:
        workspace = torch.empty(max(1, size.value), dtype=torch.uint8, device=x.device)
        shape = (case.channels, case.num_bins)
        counts = torch.empty(shape, dtype=torch.int32, device=x.device)
        buffers = (address(workspace), ctypes.byref(size), address(x), address(counts))
        call(function, *buffers, *plan)
        return counts

    return run


def cub_even(case: Case) -> Count:
    return cub(case, "histogram_even", 1, case.torch_dtype.itemsize)


def cub_even_supports(case: Case) -> bool:
    """Each channel lies in one piece."""
    return case.dim == tuple(range(len(case.shape)))[-len(case.dim) :]


def cub_multi_supports(case: Case) -> bool:
    pixels = tuple(range(len(case.shape) - 1))[-len(case.dim) :]
    return case.dtype == "uint8" and case.shape[-1] == 3 and case.dim == pixels


READ_GRIDS = list(itertools.product((1, 4, 8), (1, 2, 4, 16)))
"""Loads in flight a thread, and blocks a multiprocessor."""


def read_only(inputs: list[Tensor]) -> common.Run:
    """The fastest way to only read them: the limit."""
    ways = ways_to_read(inputs[0].device)
    seconds = common.interleaved_seconds(ways, inputs, rounds=5)
    return ways[min(seconds, key=lambda way: seconds[way])]


def ways_to_read(device: torch.device) -> dict[str, common.Run]:
    if device.type == "cpu":
        return {"sum": read_on_cpu}
    function = library("read_only.cu").read_only
    sink = torch.zeros(1, dtype=torch.int32, device=device)
    sm_count = torch.cuda.get_device_properties(device).multi_processor_count

    def run(x: Tensor, unroll: int, blocks_per_sm: int) -> None:
        bytes_ = ctypes.c_int64(x.numel() * x.itemsize)
        call(function, address(x), bytes_, address(sink), unroll, blocks_per_sm * sm_count)

    return {
        f"{unroll} loads, {blocks} blocks": partial(run, unroll=unroll, blocks_per_sm=blocks)
        for unroll, blocks in READ_GRIDS
    }


def read_on_cpu(x: Tensor) -> Tensor:
    """Adds 64-bit words, which takes no longer than reading them."""
    data = x.flatten().view(torch.uint8)
    return data[: len(data) // 8 * 8].view(torch.int64).sum()


# --- Other packages ---------------------------------------------------------------------


def cupy_bincount(case: Case) -> Count:
    import cupy

    return lambda x: from_dlpack(
        cupy.bincount(cupy.from_dlpack(x.flatten()), minlength=case.num_bins)
    )


def np_bincount(case: Case) -> Count:
    total = case.channels * case.num_bins
    return lambda x: torch.from_numpy(
        sum(np.bincount(part.numpy(), minlength=total) for part in offset_values(x, case))
    )


def np_histogram(case: Case) -> Count:
    bins = case.num_bins
    return lambda x: torch.from_numpy(np.histogram(x.numpy(), bins, (0, bins))[0])


CV2_WIDTH = 4096


def cv2_images(x: Tensor, case: Case) -> Iterator[tuple[Any, int]]:
    """Images of at most 2^24 pixels, which it counts exactly, in float32; and their channels."""
    if len(case.shape) == 1:
        for part in x.view(-1, CV2_WIDTH).split((1 << 24) // CV2_WIDTH):
            yield part.numpy(), 1
    elif case.dim == (1, 2):
        for image in x.numpy():
            yield image, case.shape[3]
    else:
        for plane in x.numpy().reshape(-1, *case.shape[2:]):
            yield plane, 1


def cv2_calc_hist(case: Case) -> Count:
    import cv2

    bins = [case.num_bins]

    def run(x: Tensor) -> Tensor:
        counts = [
            cv2.calcHist([image], [channel], None, bins, [0, case.num_bins])
            for image, channels in cv2_images(x, case)
            for channel in range(channels)
        ]
        parts = torch.tensor(np.stack(counts)).view(-1, case.num_bins).long()
        return parts.sum(0) if case.channels == 1 else parts

    return run


def cv2_supports(case: Case) -> bool:
    rows = len(case.shape) == 1 and case.shape[0] % CV2_WIDTH == 0
    return case.dtype == "uint8" and (rows or (len(case.shape) == 4 and len(case.dim) == 2))


def set_num_threads(threads: int) -> None:
    """Sets the threads of torch and, if it is installed, of OpenCV. NumPy's histograms have one."""
    torch.set_num_threads(threads)
    with contextlib.suppress(ImportError):
        import cv2

        cv2.setNumThreads(threads)


def boost_histogram(case: Case) -> Count:
    import boost_histogram as bh

    def run(x: Tensor) -> Tensor:
        axis = bh.axis.Integer(0, case.channels * case.num_bins, underflow=False, overflow=False)
        counts = bh.Histogram(axis, storage=bh.storage.Int64())
        for part in offset_values(x, case):
            counts.fill(part.numpy(), threads=torch.get_num_threads())
        return torch.from_numpy(counts.view())

    return run


# --- All of them ------------------------------------------------------------------------

OURS = "torch_histo"
BOTH = ("cpu", "cuda")
CPU = ("cpu",)
PEERS = [
    Peer(OURS, partial(ours, variant="auto"), devices=BOTH),
    Peer("torch_histo tiled", partial(ours, variant="tiled"), tiled_supports),
    Peer("CUB HistogramEven", cub_even, cub_even_supports),
    Peer(
        "CUB MultiHistogramEven",
        partial(cub, name="multi_histogram_even", interleaved=3),
        cub_multi_supports,
    ),
    Peer("torch.compile", torch_compile, compile_supports),
    Peer("torch.scatter_add_", torch_scatter_add, devices=BOTH),
    Peer("torch.bincount", torch_bincount, devices=BOTH, captured=False),
    # It asks for the free memory.
    Peer("torch.histc", torch_histc, few_calls, devices=BOTH, captured=False),
    Peer("torch.bincount looped", torch_bincount_looped, loops, devices=CPU),
    Peer("torch.bincount transposed", torch_bincount_transposed, several_channels, devices=CPU),
    Peer("cupy.bincount", cupy_bincount, one_channel, captured=False),
    Peer("np.bincount", np_bincount, devices=CPU),
    Peer("np.histogram", np_histogram, one_channel, devices=CPU),
    Peer("cv2.calcHist", cv2_calc_hist, cv2_supports, devices=CPU),
    Peer("boost-histogram", boost_histogram, devices=CPU),
]
