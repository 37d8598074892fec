"""Times torch_histo and its peers, beside the time that only reading takes.

`--suite histogram` times histogram, with floats and with edges; `quantile`
times quantile, and `logging` logging.Watch. `layers` times all that is asked
of the layers of a model, and what a call costs the host; `weights` times sums
of weights. Every result is checked. Peers may return something else: the
results tell how much. Then all implementations take turns on one input.

Slow peers lower the clock of a GPU for all that take turns with them. On a CPU,
the threads of one library may still wait for work while those of another run.
So on a GPU and on several threads torch_histo takes turns without peers first.
A ratio to a peer is of torch_histo in the turns with that peer. On several
threads torch_histo also takes turns with one thread, which gives its speedup.

Results go to JSON, to Markdown tables and, if matplotlib is installed, to
pictures. `--draw` makes the tables and the pictures again from JSON, also on
another machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bins
import calls
import cases
import common
import joint
import layer_peers
import report
import torch
import weighted
from cases import Case
from histogram_peers import HISTOGRAM_PEERS, bucketize_bincount
from joint_peers import JOINT_PEERS
from logging_peers import LOGGING_PEERS
from peers import OURS, PEERS, Count, Peer, read_only, set_num_threads, torch_bincount
from quantile_peers import QUANTILE_PEERS, torch_sort, wrong_quantiles
from torch import Tensor
from weight_peers import WEIGHT_PEERS

BUDGET_SECONDS = 0.2
"""For all turns of an implementation on an input; a slower one gets fewer."""


def misplaced_counts(found: Tensor, expected: Tensor) -> int:
    return int((found.long() - expected).abs().sum())


@dataclass(frozen=True)
class Suite:
    """The cases of a function, its peers, and the data that are counted."""

    name: str
    """Results are named after it."""
    cases: dict[str, list[Case]]
    """By device, and the quick ones."""
    peers: list[Peer]
    distributions: dict[str, list[str]]
    """By device, and the quick ones."""
    peer_distributions: list[str]
    """Peers are measured on these alone: with all of them it would take most of an hour."""
    quick_peers: list[str]
    """On the CPU these are measured everywhere."""
    inputs: Callable[[Case, str, torch.device], list[Any]]
    """Tensors, pairs with weights, or points of several coordinates."""
    reference: Callable[[Case], Count]
    """The right counts."""
    has: Callable[[Case, str], bool] = lambda case, distribution: True
    """Whether the case has the distribution."""
    wrong: Callable[[Tensor, Tensor], int] = misplaced_counts
    """How far a result is from the right one."""
    limit: Callable[[Case, list[Any]], common.Run] = lambda case, inputs: read_only(inputs)
    """What is timed as the limit: only reading, and more where that is in the suite's words."""
    rounds: int = common.ROUNDS
    budget_seconds: float = BUDGET_SECONDS
    """On a GPU. A CPU takes more rounds, as its cores may be shared with others."""
    calls: bool = False
    """Whether the host's time of calls is measured, too."""
    cpu_budget_seconds: float = 0.5
    """On a CPU, for all turns of an implementation on an input: its cores may be shared."""


def integers(case: Case, distribution: str, device: torch.device) -> list[Tensor]:
    return common.rotated_inputs(case.shape, distribution, device, case.torch_dtype, case.num_bins)


def numbers(case: Case, distribution: str, device: torch.device) -> list[Tensor]:
    fill = bins.fill(case, distribution)
    return common.rotated(case.shape, fill, device, case.torch_dtype, case.num_bins)


CHANNEL_HISTOGRAM = Suite(
    name="bench",
    cases={"cuda": cases.CASES, "cpu": cases.CPU_CASES, "quick": cases.QUICK},
    peers=PEERS,
    distributions={
        "cuda": [name for name in common.DISTRIBUTIONS if name not in ("text", "alternating")],
        "cpu": [name for name in common.DISTRIBUTIONS if not name.startswith("entropy")],
        "quick": ["uniform", "constant"],
    },
    peer_distributions=["uniform", "constant", "normal"],
    quick_peers=["torch.bincount", "cv2.calcHist"],
    inputs=integers,
    reference=torch_bincount,
)
TUNING = replace(
    CHANNEL_HISTOGRAM,
    name="tuning",
    cases={**CHANNEL_HISTOGRAM.cases, "cpu": cases.CPU_TUNING_CASES},
)
HISTOGRAM = Suite(
    name="histogram",
    cases={
        "cuda": cases.HISTOGRAM_CASES,
        "cpu": cases.HISTOGRAM_CPU_CASES,
        "quick": cases.HISTOGRAM_QUICK,
    },
    peers=HISTOGRAM_PEERS,
    distributions={
        "cuda": list(bins.DISTRIBUTIONS),
        "cpu": list(bins.DISTRIBUTIONS),
        "quick": ["uniform", "ReLU"],
    },
    peer_distributions=["uniform", "constant", "ReLU"],
    quick_peers=["channel_histogram", "fast-histogram"],
    inputs=numbers,
    reference=bucketize_bincount,
    has=bins.has,
)
QUANTILE = Suite(
    name="quantile",
    cases={
        "cuda": cases.QUANTILE_CASES,
        "cpu": cases.QUANTILE_CPU_CASES,
        "quick": cases.QUANTILE_QUICK,
    },
    peers=QUANTILE_PEERS,
    distributions={
        "cuda": list(bins.DISTRIBUTIONS),
        "cpu": list(bins.DISTRIBUTIONS),
        "quick": ["uniform", "ReLU"],
    },
    peer_distributions=["uniform", "constant", "ReLU"],
    quick_peers=[],
    inputs=numbers,
    reference=torch_sort,
    has=bins.has,
    wrong=wrong_quantiles,
)
LOGGING = Suite(
    name="logging",
    cases={"cuda": cases.LOGGING_CASES, "cpu": cases.LOGGING_CASES, "quick": cases.LOGGING_QUICK},
    peers=LOGGING_PEERS,
    distributions={name: ["normal", "ReLU"] for name in ("cuda", "cpu", "quick")},
    peer_distributions=["normal", "ReLU"],
    quick_peers=[],
    inputs=numbers,
    reference=bucketize_bincount,
)
LAYERS = Suite(
    name="layers",
    cases={"cuda": cases.LAYER_CASES, "cpu": cases.LAYER_CPU_CASES, "quick": cases.LAYER_QUICK},
    peers=layer_peers.LAYER_PEERS,
    distributions={name: ["normal", "constant", "ReLU"] for name in ("cuda", "cpu", "quick")},
    peer_distributions=["normal"],
    quick_peers=[],
    inputs=numbers,
    reference=layer_peers.reference,
    wrong=layer_peers.wrong,
    limit=layer_peers.limit,
    calls=True,
    cpu_budget_seconds=0.1,  # of 288 inputs, which are small
)
WEIGHTS = Suite(
    name="weights",
    cases={"cuda": weighted.CUDA_CASES, "cpu": weighted.CPU_CASES, "quick": weighted.QUICK},
    peers=WEIGHT_PEERS,
    distributions={
        "cuda": weighted.DISTRIBUTIONS,
        "cpu": weighted.DISTRIBUTIONS,
        "quick": weighted.FEW,
    },
    peer_distributions=weighted.FEW[:2],
    quick_peers=[],
    inputs=weighted.inputs,
    reference=weighted.exact_sums,
    has=weighted.has,
    wrong=weighted.wrong_sums,
    limit=weighted.limit,
    rounds=5,
    budget_seconds=0.05,
)
JOINT = Suite(
    name="joint",
    cases={"cuda": joint.CUDA_CASES, "cpu": joint.CPU_CASES, "quick": joint.QUICK},
    peers=JOINT_PEERS,
    distributions={name: list(joint.DISTRIBUTIONS) for name in ("cuda", "cpu", "quick")},
    peer_distributions=list(joint.DISTRIBUTIONS)[:3],
    quick_peers=[],
    inputs=joint.inputs,
    reference=joint.bucketize_bincount,
    has=joint.has,
    limit=joint.limit,
    rounds=5,
    budget_seconds=0.05,
)
SUITES = {
    "channel_histogram": CHANNEL_HISTOGRAM,
    "histogram": HISTOGRAM,
    "quantile": QUANTILE,
    "logging": LOGGING,
    "layers": LAYERS,
    "weights": WEIGHTS,
    "joint": JOINT,
    "tuning": TUNING,
}
SLOW_TO_COMPILE = "torch.compile"
READ_ONLY = "read only"
ONE_THREAD = "one thread"
"""torch_histo's, where all others have several."""
MORE_ROUNDS = 50
"""On a CPU, whose cores may be shared with others."""

Record = dict[str, Any]


class Bench:
    """Measures cases with the peers that work, and notes those that do not."""

    def __init__(
        self,
        device: torch.device,
        peers: list[Peer],
        suite: Suite = CHANNEL_HISTOGRAM,
        *,
        quick: bool = False,
    ) -> None:
        self.device = device
        self.suite = suite
        few = quick or device.type == "cuda"
        self.rounds = suite.rounds if few else MORE_ROUNDS
        self.budget_seconds = suite.budget_seconds if few else suite.cpu_budget_seconds
        self.peers = [peer for peer in peers if device.type in peer.devices]
        self.notes: list[str] = []

    def measure(self, case: Case, distributions: list[str]) -> Iterator[list[Record]]:
        """The records of each distribution."""
        prepared: dict[str, Count | None] = {}
        limit: common.Run | None = None
        for distribution in distributions:
            if not self.suite.has(case, distribution):
                yield []
                continue
            inputs = self.suite.inputs(case, distribution, self.device)
            expected = self.suite.reference(case)(inputs[0]).flatten()
            limit = limit or self.suite.limit(case, inputs)
            measured = []
            misplaced: dict[str, int] = {}
            for peers in self.sets_of_turns(distribution):
                runs: dict[str, common.Run] = {READ_ONLY: limit}
                for peer in peers:
                    if peer.name not in prepared:
                        prepared[peer.name] = self.prepare(peer, case)
                    run = prepared[peer.name]
                    counts = run and self.counts(peer, run, case, inputs[0])
                    if run is None or counts is None:
                        continue
                    misplaced[peer.name] = self.suite.wrong(counts.flatten(), expected)
                    if peer.exact and misplaced[peer.name]:
                        raise SystemExit(f"WRONG result: {peer.name} on {case}, {distribution}")
                    runs[peer.name] = run
                    if peer.name == OURS and self.several_threads() and not measured:
                        runs[ONE_THREAD] = run
                seconds = common.interleaved_seconds(
                    runs,
                    inputs,
                    uncaptured=[peer.name for peer in peers if not peer.captured],
                    one_thread=[ONE_THREAD],
                    rounds=self.rounds,
                    budget=self.budget_seconds,
                )
                measured.append(seconds)
            alone, together = measured[0], measured[-1]
            yield [
                record_of(
                    case,
                    distribution,
                    name,
                    alone if name == OURS else together,
                    misplaced[name],
                )
                for name in together
                if name not in (READ_ONLY, ONE_THREAD)
            ]

    def sets_of_turns(self, distribution: str) -> list[list[Peer]]:
        """Who takes turns with whom: torch_histo alone, then all; on one CPU thread only all."""
        every = [peer for peer in self.peers if self.measures(peer, distribution)]
        ours = [peer for peer in every if peer.name == OURS]
        apart = self.device.type == "cuda" or self.several_threads()
        return [ours, every] if apart and every != ours else [every]

    def measures(self, peer: Peer, distribution: str) -> bool:
        everywhere = [OURS, *(self.suite.quick_peers if self.device.type == "cpu" else [])]
        return peer.name in everywhere or distribution in self.suite.peer_distributions

    def several_threads(self) -> bool:
        return self.device.type == "cpu" and torch.get_num_threads() > 1

    def prepare(self, peer: Peer, case: Case) -> Count | None:
        """The function that counts; None if a peer cannot count the case."""
        return self.attempt(peer, case, peer.prepare, case) if peer.supports(case) else None

    def counts(self, peer: Peer, run: Count, case: Case, x: Tensor) -> Tensor | None:
        """Its counts, in the bins of the case; None if it cannot count these values."""
        found = self.attempt(peer, case, run, x)
        return None if found is None else peer.finish(case, found)

    def attempt(self, peer: Peer, case: Case, act: Callable[[Any], Any], given: object) -> Any:
        try:
            return act(given)
        except ImportError as error:
            self.note(f"{peer.name} left out: {error}")
        except Exception as error:
            # A peer that has no memory, or cannot compile, is no reason to measure nothing.
            if peer.name == OURS:
                raise
            message = (str(error).splitlines() or [""])[0]
            self.note(f"{peer.name} left out of {case}: {type(error).__name__}: {message}")
        return None

    def note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)


def record_of(
    case: Case, distribution: str, name: str, turns: dict[str, float], misplaced: int
) -> Record:
    """A record of the seconds of all that took turns. Counts that are wrong are told, too."""
    record = {
        "dtype": case.dtype,
        "shape": list(case.shape),
        "dim": list(case.dim),
        "num_bins": case.num_bins,
        **({"bins": case.bins} if case.bins else {}),
        **({"weight": case.weight} if case.weight else {}),
        **({"beside": case.beside} if case.beside else {}),
        "distribution": distribution,
        "implementation": name,
        "seconds": turns[name],
        "read_only_seconds": turns[READ_ONLY],
        "share": turns[READ_ONLY] / turns[name],
        **({"misplaced": misplaced} if misplaced else {}),
    }
    if name != OURS:
        return {**record, "torch_histo_seconds": turns[OURS]}
    return {**record, "one_thread_seconds": turns[ONE_THREAD]} if ONE_THREAD in turns else record


def progress(steps: Iterable[list[Record]], total: int) -> Iterable[list[Record]]:
    try:
        from tqdm import tqdm
    except ImportError:
        print("No progress bar: tqdm is not installed")
        return steps
    bar: Iterable[list[Record]] = tqdm(steps, total=total, unit="input")
    return bar


def results(text: str) -> tuple[Path, Record]:
    """The JSON that this program wrote, and what is in it."""
    path = Path(text)
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read: {error}") from None
    keys = {"machine", "notes", "records"}
    if not isinstance(record, dict) or not keys <= record.keys() or not record["records"]:
        raise argparse.ArgumentTypeError(f"expected results of bench.py, got {text!r}")
    return path, record


def parser() -> argparse.ArgumentParser:
    found = common.parser(__doc__)
    found.add_argument(
        "--suite", choices=SUITES, default="channel_histogram", help="the function to time"
    )
    found.add_argument("--threads", type=common.positive, help="of all implementations, on the CPU")
    found.add_argument("--quick", action="store_true", help="small inputs, to try it out")
    patterns = {
        "cases": 'as in "uint8 .*512]"',
        "distributions": 'of the data, as in "uniform|sorted"',
        "peers": "torch_histo always runs; none is nothing beside it",
    }
    for option, help_ in patterns.items():
        found.add_argument(
            f"--{option}", type=common.regex, metavar="REGEX", default="", help=help_
        )
    found.add_argument("--list", action="store_true", help="the names of all of these")
    found.add_argument(
        "--draw", type=results, metavar="JSON", help="measure nothing, only draw these results"
    )
    return found


class Chosen:
    """The cases, distributions and peers of a suite that the options choose."""

    def __init__(self, arguments: argparse.Namespace, suite: Suite) -> None:
        self.arguments = arguments
        quick, kind = arguments.quick, arguments.device.type
        self.cases = self.matching("cases", suite.cases["quick" if quick else kind])
        every = suite.distributions[kind]
        is_short = quick and not arguments.distributions.pattern
        self.distributions = self.matching(
            "distributions", suite.distributions["quick"] if is_short else every
        )
        skips = quick and not arguments.peers.pattern
        there = [peer.name for peer in suite.peers if kind in peer.devices]
        wanted = [name for name in there if not (skips and name.startswith(SLOW_TO_COMPILE))]
        alone = arguments.peers.pattern == "none"
        self.peers = [OURS] if alone else self.matching("peers", wanted)

    def matching(self, option: str, names: list[Any]) -> list[Any]:
        pattern = getattr(self.arguments, option)
        found = [name for name in names if pattern.search(str(name))]
        if not found:
            parser().error(
                f"argument --{option}: {pattern.pattern!r} matches none; --list shows the names"
            )
        return found


def measure(arguments: argparse.Namespace, suite: Suite, chosen: Chosen) -> tuple[Record, Path]:
    """The results, and the file that they are written to."""
    device, quick = arguments.device, arguments.quick
    arguments.out.mkdir(parents=True, exist_ok=True)
    name = common.result_name(f"{suite.name}-quick" if quick else suite.name, device)
    path = arguments.out / f"{name}.json"
    growing = path.with_suffix(".partial.json")
    peers = [peer for peer in suite.peers if peer.name in [OURS, *chosen.peers]]
    bench = Bench(device, peers, suite, quick=quick)
    record = {"machine": common.machine(device), "notes": bench.notes, "records": []}
    if suite.calls:
        record["calls"] = calls.measure(device)
    steps = (step for case in chosen.cases for step in bench.measure(case, chosen.distributions))
    for records in progress(steps, len(chosen.cases) * len(chosen.distributions)):
        record["records"] += records
        # At every step: what was measured outlives an interruption, as do older results.
        growing.write_text(common.json_text(record))
    growing.replace(path)
    return record, path


def main() -> None:
    arguments = parser().parse_args()
    if arguments.draw:
        path, record = arguments.draw
        report.write(record, path)
        return
    suite = SUITES[arguments.suite]
    if arguments.threads:
        set_num_threads(arguments.threads)
    chosen = Chosen(arguments, suite)
    if arguments.list:
        print(*chosen.cases, "", *chosen.distributions, "", *chosen.peers, sep="\n")
        return
    report.write(*measure(arguments, suite, chosen))


if __name__ == "__main__":
    main()
