"""Common to the benchmarks: inputs, timing by graph replay, results, arguments."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import pydoc_data.topics
import re
import statistics
import subprocess
import time
import timeit
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import torch_histo

RESULTS = Path(__file__).parent / "results"
ROTATED_BYTES = 256 << 20
"""Inputs are rotated until they exceed this, several times what a GPU's cache holds."""
MAX_ROTATED = 1024
ALIGNMENT = 256
"""Elements."""
PART_ELEMENTS = 1 << 26
ROUNDS = 10
MIN_CALLS = 8
"""The least calls of a graph, so that the cost of its replay is small beside them."""
LONG_SECONDS = 20e-3
"""A launch is nothing beside calls of this length. Hundreds of launches take less."""
SHORT_SECONDS = 2e-3
"""On the CPU calls shorter than this take their turns many at once."""


# --- Inputs -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """Elements `start` to `start + count` of inputs of `size` elements, one after the other."""

    start: int
    count: int
    size: int
    num_bins: int
    dtype: torch.dtype
    generator: torch.Generator

    def positions(self) -> Tensor:
        return torch.arange(self.start, self.start + self.count, device=self.generator.device)


def uniform(part: Stretch) -> Tensor:
    return torch.randint(
        0,
        part.num_bins,
        (part.count,),
        dtype=part.dtype,
        device=part.generator.device,
        generator=part.generator,
    )


def constant(part: Stretch) -> Tensor:
    value = part.num_bins // 6
    return torch.full((part.count,), value, dtype=part.dtype, device=part.generator.device)


def two_values(part: Stretch) -> Tensor:
    return uniform(part) % 2 * (part.num_bins * 25 // 32)


def alternating(part: Stretch) -> Tensor:
    return part.positions() % 2 * (part.num_bins * 25 // 32)


def normal(part: Stretch) -> Tensor:
    bell = torch.randn(part.count, device=part.generator.device, generator=part.generator)
    bell.mul_(part.num_bins / 12).add_(part.num_bins / 2).clamp_(0, part.num_bins - 1)
    return bell.to(part.dtype)


def ascending(part: Stretch) -> Tensor:
    # Every bin fills as much of the input as any other: what sorting uniform data gives.
    return part.positions() % part.size * part.num_bins // part.size


def run_length(part: Stretch) -> Tensor:
    """Runs of equal values, geometrically distributed around 64 elements."""
    starts = torch.rand(part.count, device=part.generator.device, generator=part.generator) < 1 / 64
    starts[0] = False
    return uniform(part)[starts.cumsum(0)]


def bitwise_and(part: Stretch, words: int) -> Tensor:
    """The bits of several uniform words must agree to be 1, as CUB's benchmarks reduce entropy."""
    return reduce(torch.bitwise_and, (uniform(part) for _ in range(words)))


@cache
def letters(device: torch.device) -> Tensor:
    once = "".join(pydoc_data.topics.topics.values()).encode()
    return torch.frombuffer(bytearray(once), dtype=torch.uint8).to(device)


def text(part: Stretch) -> Tensor:
    """Python's own documentation, over and over: bytes."""
    once = letters(part.generator.device)
    return once[part.positions() % len(once)]


DISTRIBUTIONS: dict[str, Callable[[Stretch], Tensor]] = {
    "uniform": uniform,
    "constant": constant,
    "two values": two_values,
    "alternating": alternating,
    "normal": normal,
    "sorted": ascending,
    "run-length": run_length,
    "entropy 0.54": partial(bitwise_and, words=3),
    "entropy 0.20": partial(bitwise_and, words=5),
    "text": text,
}
"""The distributions of values; the entropies are those of a bit of the value."""


def rotated_inputs(
    shape: Sequence[int],
    distribution: str,
    device: torch.device,
    dtype: torch.dtype = torch.uint8,
    num_bins: int = 256,
) -> list[Tensor]:
    """Different inputs of a distribution, as `rotated` makes them."""
    return rotated(shape, DISTRIBUTIONS[distribution], device, dtype, num_bins)


def rotated(
    shape: Sequence[int],
    fill: Callable[[Stretch], Tensor],
    device: torch.device,
    dtype: torch.dtype,
    num_bins: int,
    seed: int = 0,
) -> list[Tensor]:
    """Different inputs of one kind, together more than a cache holds (one on the CPU).

    They are views of one tensor, which is filled in parts so that little memory is needed.
    """
    generator = torch.Generator(device).manual_seed(seed)
    elements = math.prod(shape)
    # As far apart as keeps every input aligned.
    size = -(-max(elements, 1) // ALIGNMENT) * ALIGNMENT
    rotated = min(MAX_ROTATED, -(-ROTATED_BYTES // (size * dtype.itemsize)))
    count = 1 if device.type == "cpu" else rotated
    inputs = torch.empty(count * size, dtype=dtype, device=device)
    for i, out in enumerate(inputs.split(PART_ELEMENTS)):
        part = Stretch(i * PART_ELEMENTS, len(out), size, num_bins, dtype, generator)
        out.copy_(fill(part))
    return [x[:elements].view(shape) for x in inputs.split(size)]


# --- Timing -----------------------------------------------------------------------------

Run = Callable[[Tensor], object]


def graph_seconds(run: Run, inputs: list[Tensor]) -> float:
    """The time of one `run`, as `interleaved_seconds` takes it."""
    return interleaved_seconds({"": run}, inputs)[""]


def interleaved_seconds(
    runs: Mapping[str, Run],
    inputs: list[Tensor],
    *,
    uncaptured: Collection[str] = (),
    one_thread: Collection[str] = (),
    rounds: int = ROUNDS,
    budget: float = math.inf,
) -> dict[str, float]:
    """The median time of one call of each of `runs`, in seconds, each having been called before.

    They take turns for several rounds, so that a clock that drifts does so for all of them. On
    CUDA a turn is a replay of a graph of many calls, which has no launch in it that the CPU could
    delay, and in which each call finds another input; `uncaptured` names those that no graph can
    hold: their turn is one call between two events. `one_thread` names those that run with one
    CPU thread. Who would exceed `budget` seconds in all turns gets fewer of them.
    """
    device = inputs[0].device

    def threads_of(name: str) -> AbstractContextManager[None]:
        return one_torch_thread() if name in one_thread else nullcontext()

    turns: dict[str, Turns] = {}
    for name, run in runs.items():
        try:
            with threads_of(name):
                turns[name] = Turns(run, inputs, name not in uncaptured)
        except RuntimeError as error:
            raise RuntimeError(f"{name} cannot be timed on {list(inputs[0].shape)}") from error
    # The last ones synchronize: those before them are queued while the GPU is busy.
    ordered = sorted(turns.items(), key=lambda item: not item[1].captured)
    for i in range(rounds):
        if device.type == "cuda":
            ordered[0][1].play()  # not timed: keeps the GPU busy until the next ones are queued
        for name, turn in ordered:
            if i < max(1, budget / turn.estimate):
                with threads_of(name):
                    turn.take()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return {name: turn.median() for name, turn in turns.items()}


@contextmanager
def one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Turns:
    """The turns of one implementation: one call, or where `captured` a graph of several."""

    def __init__(self, run: Run, inputs: list[Tensor], captured: bool) -> None:
        self.rotation = itertools.cycle(inputs)
        self.run = run
        self.on_cuda = inputs[0].device.type == "cuda"
        start = time.perf_counter()
        self.call()
        if self.on_cuda:
            torch.cuda.synchronize()
        self.estimate = time.perf_counter() - start
        """Seconds of a turn."""
        # A graph saves nothing beside a long call.
        self.captured = self.on_cuda and captured and self.estimate < LONG_SECONDS
        self.play: Callable[[], None] = self.call
        self.calls = 1
        if self.captured:
            self.calls = max(len(inputs), MIN_CALLS)
            self.estimate *= self.calls
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(self.calls):
                    self.call()
            self.play = graph.replay
        if not self.on_cuda and self.estimate < SHORT_SECONDS:
            # The first call found cold caches.
            self.estimate = min(timeit.repeat(self.call, number=1, repeat=5))
            self.calls = int(SHORT_SECONDS / self.estimate) + 1
            self.estimate *= self.calls
        self.taken: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self.seconds: list[float] = []

    def call(self) -> None:
        self.run(next(self.rotation))

    def take(self) -> None:
        if self.on_cuda:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self.play()
            end.record()
            self.taken.append((start, end))
        else:
            began = time.perf_counter()
            for _ in range(self.calls):
                self.play()
            self.seconds.append(time.perf_counter() - began)

    def median(self) -> float:
        spans = [start.elapsed_time(end) / 1e3 for start, end in self.taken]
        return float(statistics.median(self.seconds + spans)) / self.calls


# --- Results ----------------------------------------------------------------------------


def machine(device: torch.device) -> dict[str, Any]:
    """The machine and the programs with which something was measured.

    The commit is that of the checkout, or HISTO_COMMIT where the sources are no checkout.
    """
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        name, units = properties.name, f"{properties.multi_processor_count} SMs"
    else:
        name, units = cpu_name(), f"{torch.get_num_threads()} threads"
    driver = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    commit = output_of("git", "describe", "--always", "--dirty")
    return {
        "device": name,
        "units": units,
        "driver": driver.partition("\n")[0] or None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "torch_histo": torch_histo.__version__,
        "commit": commit or os.environ.get("HISTO_COMMIT", "unknown"),
    }


def output_of(*command: str) -> str:
    """The output of a command, or nothing if there is no such command."""
    try:
        ran = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


def cpu_name() -> str:
    """With what tells the generations of a name apart."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    parts = (line.partition(":") for line in lines)
    found = {key.strip(): value.strip() for key, _, value in parts}
    if not {"model name", "cpu family", "model"} <= found.keys():
        return platform.processor() or "CPU"
    return "{model name}, family {cpu family} model {model}".format_map(found)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, its columns aligned also for those who read it as text."""
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [cells[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "| " + " | ".join(padded) + " |"

    ruler = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(header), line(ruler), *(line(row) for row in rows)])


def json_text(record: Mapping[str, Any]) -> str:
    """JSON with a line for each field of `record`, and for each item of a field that is a list."""

    def value(field: Any) -> str:
        if not isinstance(field, list) or not field:
            return json.dumps(field)
        return "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in field) + "\n ]"

    fields = (f" {json.dumps(name)}: {value(field)}" for name, field in record.items())
    return "{\n" + ",\n".join(fields) + "\n}\n"


def write_results(folder: Path, name: str, record: dict[str, Any], markdown: str) -> None:
    """Writes `name.json` for programs and `name.md` for people."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json_text(record))
    (folder / f"{name}.md").write_text(markdown + "\n")
    print(f"\nWritten: {folder / name}.json and .md")


def describe(record: dict[str, Any]) -> str:
    where = record["machine"]
    return (
        f"{where['device']} ({where['units']}), torch {where['torch']}, "
        f"torch_histo {where['torch_histo']} at {where['commit']}"
    )


def result_name(benchmark: str, device: torch.device) -> str:
    """For example variants-nvidia-h200."""
    on_cpu = f"cpu-{torch.get_num_threads()}-threads"
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else on_cpu
    return f"{benchmark}-{name.lower().replace(' ', '-')}"


# --- Arguments --------------------------------------------------------------------------


def device_at_hand(text: str) -> torch.device:
    try:
        found = torch.device(text)
    except RuntimeError:
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"expected cpu or cuda, got {text!r}")
    devices = torch.cuda.device_count()
    if found.type == "cuda" and (found.index or 0) >= devices:
        raise argparse.ArgumentTypeError(f"no {text!r}: torch finds {devices} CUDA devices")
    return found


def positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {text!r}")
    return number


def regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {text!r}: {error}") from None


def parser(description: str | None) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = "cuda" if torch.cuda.is_available() else "cpu"
    found.add_argument("--device", type=device_at_hand, default=torch.device(default))
    found.add_argument(
        "--out", type=Path, default=RESULTS, help="folder for the JSON and Markdown files"
    )
    return found
