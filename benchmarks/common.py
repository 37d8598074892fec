"""What the benchmarks share: inputs, timing by graph replay, where results go."""

from __future__ import annotations

import argparse
import json
import os
import platform
import pydoc_data.topics
import statistics
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import torch_histo
from torch_histo.measure import median_seconds

RESULTS = Path(__file__).parent / "results"
ROTATED_BYTES = 256 << 20
"""Inputs are rotated until they exceed this, several times what a GPU's cache holds."""


# --- Inputs -----------------------------------------------------------------------------


def uniform(size: int, generator: torch.Generator) -> Tensor:
    return torch.randint(
        0, 256, (size,), dtype=torch.uint8, device=generator.device, generator=generator
    )


def constant(size: int, generator: torch.Generator) -> Tensor:
    return torch.full((size,), 42, dtype=torch.uint8, device=generator.device)


def two_values(size: int, generator: torch.Generator) -> Tensor:
    return uniform(size, generator) % 2 * 200


def normal(size: int, generator: torch.Generator) -> Tensor:
    bell = torch.randn(size, device=generator.device, generator=generator)
    return bell.mul_(20).add_(128).clamp_(0, 255).to(torch.uint8)


def ascending(size: int, generator: torch.Generator) -> Tensor:
    # Value v fills 1/256 of the input: what sorting uniform data gives.
    step = torch.arange(size, dtype=torch.int64, device=generator.device)
    return (step * 256 // max(size, 1)).to(torch.uint8)


def text(size: int, generator: torch.Generator) -> Tensor:
    """Python's own documentation, over and over."""
    once = "".join(pydoc_data.topics.topics.values()).encode()
    letters = torch.frombuffer(bytearray(once), dtype=torch.uint8).to(generator.device)
    start = int(torch.randint(0, len(letters), (), generator=generator, device=generator.device))
    repeats = -(-(size + start) // len(letters))
    return letters.repeat(repeats)[start : start + size].clone()


DISTRIBUTIONS: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "uniform": uniform,
    "constant": constant,
    "two values": two_values,
    "normal": normal,
    "sorted": ascending,
    "text": text,
}


def rotated_inputs(shape: Sequence[int], distribution: str, device: torch.device) -> list[Tensor]:
    """Different inputs of one kind, together more than a cache holds (at most 32 of them)."""
    generator = torch.Generator(device).manual_seed(0)
    size = 1
    for n in shape:
        size *= n
    count = 1 if device.type == "cpu" else min(32, max(1, ROTATED_BYTES // max(size, 1)))
    return [DISTRIBUTIONS[distribution](size, generator).view(*shape) for _ in range(count)]


# --- Timing -----------------------------------------------------------------------------


def graph_seconds(run: Callable[[Tensor], object], inputs: list[Tensor]) -> float:
    """The median time of one `run`, in seconds, over replays of a CUDA graph of many.

    A replay has no launch in it that the CPU could delay, and each run finds another input.
    On the CPU it is the median of calls.
    """
    device = inputs[0].device
    if device.type != "cuda":
        return median_seconds(lambda: run(inputs[0]), device, repeats=5)
    for x in inputs:
        run(x)
    torch.cuda.synchronize(device)
    runs = max(len(inputs), 8)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(runs):
            run(inputs[i % len(inputs)])
    seconds = []
    for _ in range(12):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3 / runs)
    return statistics.median(seconds[2:])


# --- Results ----------------------------------------------------------------------------


def machine(device: torch.device) -> dict[str, Any]:
    """Where and with what something was measured.

    The commit is that of the checkout, or HISTO_COMMIT where the sources are no checkout.
    """
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        name, units = properties.name, f"{properties.multi_processor_count} SMs"
    else:
        name, units = cpu_name(), f"{torch.get_num_threads()} threads"
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return {
        "device": name,
        "units": units,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "torch_histo": torch_histo.__version__,
        "commit": commit or os.environ.get("HISTO_COMMIT", "unknown"),
    }


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "CPU"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, its columns aligned also for those who read it as text."""
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [cells[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "| " + " | ".join(padded) + " |"

    ruler = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(header), line(ruler), *(line(row) for row in rows)])


def write_results(folder: Path, name: str, record: dict[str, Any], markdown: str) -> None:
    """Writes `name.json` for programs and `name.md` for people."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    (folder / f"{name}.md").write_text(markdown + "\n")
    print(f"\nWritten: {folder / name}.json and .md")


def describe(record: dict[str, Any]) -> str:
    where = record["machine"]
    return (
        f"{where['device']} ({where['units']}), torch {where['torch']}, "
        f"torch_histo {where['torch_histo']} at {where['commit']}"
    )


def parser(description: str | None) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = "cuda" if torch.cuda.is_available() else "cpu"
    found.add_argument("--device", type=torch.device, default=torch.device(default))
    found.add_argument(
        "--out", type=Path, default=RESULTS, help="folder for the JSON and Markdown files"
    )
    return found


def result_name(benchmark: str, device: torch.device) -> str:
    """For example variants-nvidia-h200."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return f"{benchmark}-{name.lower().replace(' ', '-')}"
