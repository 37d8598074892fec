"""The exercises about atomic additions: computed, run, and compared.

For the chapter "Parallel Histogram" of Hwu, Kirk and El Hajj, Programming
Massively Parallel Processors. The answers follow from the numbers given; every
number is an option. Times are those of a queue, in which each addition waits
for the one before. Numbers of additions are counted by the kernels themselves:
on the GPU if there is one, else compiled for the host (tools/trace_kernel.py).
The exit status is 1 if an answer and its run differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest import SkipTest

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]

import torch  # noqa: E402
from atomics import ceil_div  # noqa: E402
from emulator.traced import trace  # noqa: E402

import torch_histo  # noqa: E402

RESULTS = ROOT / "benchmarks/results/atomics-nvidia-h200.json"
SIMULATED = 200_000


@dataclass(frozen=True)
class Exercise:
    question: str
    reasoning: str
    answer: float
    ran: Callable[[], float]
    tolerance: float
    """Share by which a run may differ: queues with random latencies."""
    unit: str


def serial_rate(latency: Callable[[], float]) -> float:
    """Additions a second of one address that takes them one after another."""
    clock = 0.0
    for _ in range(SIMULATED):
        clock += latency()
    return SIMULATED / clock


def additions(variant: str, given: argparse.Namespace) -> int:
    """The kernel's additions in global memory for values that run through all bins."""
    values = [i % given.bins for i in range(given.elements)]
    constants = {"kThreads": given.threads, "coarsened_contiguous.kRun": given.coarsening}
    if not given.host and (given.threads, given.coarsening) == (1024, 4):
        on_gpu = torch.tensor(values, dtype=torch.uint8, device="cuda")
        tally = torch.ops.histo._count_atomics(on_gpu, given.bins, variant=variant)
        return int(tally[0])
    host = trace(
        variant, bytes(values), num_bins=given.bins, constants=constants, only_count=True, sms=132
    )
    return host.global_additions


def exercises(given: argparse.Namespace) -> Iterator[Exercise]:
    yield from exercises_of_latency(given)
    yield from exercises_of_additions(given)


def exercises_of_latency(given: argparse.Namespace) -> Iterator[Exercise]:
    """How many additions a second one address takes."""
    random = Random(1)
    far, near, shared = given.latency * 1e-9, given.hit_latency * 1e-9, given.shared_latency * 1e-9
    yield Exercise(
        f"Additions to one address take {given.latency:g} ns each. How many a second?",
        "one after another: 1 / latency",
        1 / far,
        lambda: serial_rate(lambda: far),
        1e-6,
        "additions/s",
    )
    mean = given.hit_rate * near + (1 - given.hit_rate) * far
    yield Exercise(
        f"{given.hit_rate:.0%} of them are hits in the L2 cache, of {given.hit_latency:g} ns.",
        f"the mean latency is {mean * 1e9:g} ns",
        1 / mean,
        lambda: serial_rate(lambda: near if random.random() < given.hit_rate else far),
        0.02,
        "additions/s",
    )
    yield Exercise(
        f"A kernel does {given.operations} floating-point operations an addition "
        f"of {given.latency:g} ns.",
        "additions limit it: operations / latency",
        given.operations / far,
        lambda: given.operations * serial_rate(lambda: far),
        1e-6,
        "operations/s",
    )
    yield Exercise(
        f"Privatized: additions in shared memory take {given.shared_latency:g} ns, "
        f"and merging adds {given.overhead:.0%}.",
        "operations / (shared latency x (1 + overhead))",
        given.operations / (shared * (1 + given.overhead)),
        lambda: given.operations * serial_rate(lambda: shared) / (1 + given.overhead),
        1e-6,
        "operations/s",
    )


def exercises_of_additions(given: argparse.Namespace) -> Iterator[Exercise]:
    """How many additions in global memory a kernel makes."""
    size = f"{given.elements:,} elements, {given.bins} bins, {given.threads:,} threads a block"
    blocks = ceil_div(given.elements, given.threads)
    yield Exercise(
        f"{size}: how many additions in global memory without privatization?",
        "one an element",
        given.elements,
        lambda: additions("global_atomic", given),
        0,
        "additions",
    )
    yield Exercise(
        "At most how many with a private histogram a block?",
        f"{blocks:,} blocks, each adds its {given.bins} counters once",
        blocks * given.bins,
        lambda: additions("privatized_shared", given),
        0,
        "additions",
    )
    coarse = ceil_div(given.elements, given.threads * given.coarsening)
    yield Exercise(
        f"And if a thread takes {given.coarsening} elements?",
        f"{coarse:,} blocks, each adds its {given.bins} counters once",
        coarse * given.bins,
        lambda: additions("coarsened_contiguous", given),
        0,
        "additions",
    )


def measured() -> Iterator[str]:
    """Measurements of a GPU beside the model of the first exercises."""
    record = json.loads(RESULTS.read_text())
    yield f"Measured on an {record['machine']['device']}, additions to one address:"
    for row in record["address"]:
        yield (
            f"  {row['memory']} memory, {row['lanes']:2} lanes of a warp add: "
            f"{row['latency_seconds'] * 1e9:5.1f} ns latency, so the model says "
            f"{row['model_per_second'] / 1e9:.4f} G/s; measured "
            f"{row['measured_per_second'] / 1e9:.2f} G/s"
        )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, kind, default, what in (
        ("--latency", float, 100, "of an addition in global memory, in ns"),
        ("--hit-rate", float, 0.9, "share of additions that the L2 cache answers"),
        ("--hit-latency", float, 4, "of those, in ns"),
        ("--operations", int, 5, "floating-point operations an addition"),
        ("--shared-latency", float, 1, "of an addition in shared memory, in ns"),
        ("--overhead", float, 0.1, "share of time that merging adds"),
        ("--elements", int, 524_288, "of the input"),
        ("--bins", int, 128, "up to 256, and no more than threads"),
        ("--threads", int, 1024, "of a block"),
        ("--coarsening", int, 4, "elements a thread"),
    ):
        parser.add_argument(name, type=kind, default=default, help=f"{what} (default: {default})")
    parser.add_argument("--host", action="store_true", help="run kernels on the host in any case")
    given = parser.parse_args(argv)
    if not 1 <= given.bins <= min(256, given.threads):
        parser.error(f"argument --bins: expected 1 to 256, at most --threads, got {given.bins}")
    given.host |= not (torch.cuda.is_available() and torch_histo.has_cuda_kernels())
    wrong = 0
    try:
        for number, exercise in enumerate(exercises(given), 1):
            ran = exercise.ran()
            agrees = abs(ran - exercise.answer) <= exercise.tolerance * exercise.answer
            wrong += not agrees
            print(f"{number}. {exercise.question}")
            print(f"   {exercise.reasoning}: {exercise.answer:,.0f} {exercise.unit}")
            print(f"   run: {ran:,.0f}, {'agrees' if agrees else 'DIFFERS'}")
    except SkipTest as error:
        parser.error(str(error))
    print("\n" + "\n".join(measured()))
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
