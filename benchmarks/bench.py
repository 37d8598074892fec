"""Times torch_histo and its peers, beside the time that only reading takes.

Every result is checked. Then all implementations take turns on one input.

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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import common
import report
import torch
from cases import CASES, CPU_CASES, QUICK, Case
from peers import OURS, PEERS, Count, Peer, read_only, set_num_threads, torch_bincount
from torch import Tensor

DISTRIBUTIONS = {
    "cuda": [name for name in common.DISTRIBUTIONS if name not in ("text", "alternating")],
    "cpu": [name for name in common.DISTRIBUTIONS if not name.startswith("entropy")],
}
PEER_DISTRIBUTIONS = ["uniform", "constant", "normal"]
"""Peers are measured on these alone: with all of them it would take most of an hour."""
QUICK_PEERS = ["torch.bincount", "cv2.calcHist"]
"""On the CPU these are measured everywhere."""
QUICK_DISTRIBUTIONS = ["uniform", "constant"]
SLOW_TO_COMPILE = ["torch.compile"]
READ_ONLY = "read only"
ONE_THREAD = "one thread"
"""torch_histo's, where all others have several."""
BUDGET_SECONDS = 0.2
"""For all turns of an implementation on an input; a slower one gets fewer."""
MORE_ROUNDS, LARGER_BUDGET_SECONDS = 50, 0.5
"""On a CPU, whose cores may be shared with others."""

Record = dict[str, Any]


class Bench:
    """Measures cases with the peers that work, and notes those that do not."""

    def __init__(self, device: torch.device, peers: list[Peer], *, quick: bool = False) -> None:
        self.device = device
        few = quick or device.type == "cuda"
        self.rounds = common.ROUNDS if few else MORE_ROUNDS
        self.budget_seconds = BUDGET_SECONDS if few else LARGER_BUDGET_SECONDS
        self.peers = [peer for peer in peers if device.type in peer.devices]
        self.notes: list[str] = []

    def measure(self, case: Case, distributions: list[str]) -> Iterator[list[Record]]:
        """The records of each distribution."""
        prepared: dict[str, Count | None] = {}
        limit: common.Run | None = None
        for distribution in distributions:
            inputs = common.rotated_inputs(
                case.shape, distribution, self.device, case.torch_dtype, case.num_bins
            )
            expected = torch_bincount(case)(inputs[0])
            limit = limit or read_only(inputs)
            measured = []
            for peers in self.sets_of_turns(distribution):
                runs: dict[str, common.Run] = {READ_ONLY: limit}
                for peer in peers:
                    if peer.name not in prepared:
                        prepared[peer.name] = self.prepare(peer, case, inputs[0])
                    run = prepared[peer.name]
                    if run is None:
                        continue
                    if not torch.equal(run(inputs[0]).flatten().long(), expected):
                        raise SystemExit(f"WRONG counts: {peer.name} on {case}, {distribution}")
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
                record_of(case, distribution, name, alone if name == OURS else together)
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
        everywhere = [OURS, *(QUICK_PEERS if self.device.type == "cpu" else [])]
        return peer.name in everywhere or distribution in PEER_DISTRIBUTIONS

    def several_threads(self) -> bool:
        return self.device.type == "cpu" and torch.get_num_threads() > 1

    def prepare(self, peer: Peer, case: Case, x: Tensor) -> Count | None:
        """The function that counts, after its first call; None if a peer cannot count the case."""
        if not peer.supports(case):
            return None
        try:
            run = peer.prepare(case)
            run(x)
        except ImportError as error:
            self.note(f"{peer.name} left out: {error}")
        except Exception as error:
            # A peer that has no memory, or cannot compile, is no reason to measure nothing.
            if peer.name == OURS:
                raise
            message = (str(error).splitlines() or [""])[0]
            self.note(f"{peer.name} left out of {case}: {type(error).__name__}: {message}")
        else:
            return run
        return None

    def note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)


def record_of(case: Case, distribution: str, name: str, turns: dict[str, float]) -> Record:
    """A record of the seconds of all that took turns."""
    record = {
        "dtype": case.dtype,
        "shape": list(case.shape),
        "dim": list(case.dim),
        "num_bins": case.num_bins,
        "distribution": distribution,
        "implementation": name,
        "seconds": turns[name],
        "read_only_seconds": turns[READ_ONLY],
        "share": turns[READ_ONLY] / turns[name],
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


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument(
        "--threads", type=common.positive, help="of all implementations, on the CPU"
    )
    parser.add_argument("--quick", action="store_true", help="small inputs, to try it out")
    patterns = {
        "cases": 'as in "uint8 .*512]"',
        "distributions": 'of the data, as in "uniform|sorted"',
        "peers": "torch_histo always runs",
    }
    for option, help_ in patterns.items():
        parser.add_argument(
            f"--{option}", type=common.regex, metavar="REGEX", default="", help=help_
        )
    parser.add_argument("--list", action="store_true", help="the names of all of these")
    parser.add_argument(
        "--draw", type=results, metavar="JSON", help="measure nothing, only draw these results"
    )
    arguments = parser.parse_args()
    if arguments.draw:
        path, record = arguments.draw
        report.write(record, path)
        return

    def chosen(option: str, names: list[Any]) -> list[Any]:
        pattern = getattr(arguments, option)
        found = [name for name in names if pattern.search(str(name))]
        if not found:
            parser.error(
                f"argument --{option}: {pattern.pattern!r} matches none; --list shows the names"
            )
        return found

    quick, device = arguments.quick, arguments.device
    if arguments.threads:
        set_num_threads(arguments.threads)
    cases = chosen("cases", QUICK if quick else CPU_CASES if device.type == "cpu" else CASES)
    every = DISTRIBUTIONS[device.type]
    some = QUICK_DISTRIBUTIONS if quick and not arguments.distributions.pattern else every
    distributions = chosen("distributions", some)
    skipped = SLOW_TO_COMPILE if quick and not arguments.peers.pattern else []
    there = [peer.name for peer in PEERS if device.type in peer.devices]
    names = chosen("peers", [name for name in there if name not in skipped])
    if arguments.list:
        print(*cases, "", *distributions, "", *names, sep="\n")
        return

    arguments.out.mkdir(parents=True, exist_ok=True)
    name = common.result_name("bench-quick" if quick else "bench", device)
    path = arguments.out / f"{name}.json"
    growing = path.with_suffix(".partial.json")
    peers = [peer for peer in PEERS if peer.name in [OURS, *names]]
    bench = Bench(device, peers, quick=quick)
    record = {"machine": common.machine(device), "notes": bench.notes, "records": []}
    steps = (step for case in cases for step in bench.measure(case, distributions))
    for records in progress(steps, len(cases) * len(distributions)):
        record["records"] += records
        # At every step: what was measured outlives an interruption, as do older results.
        growing.write_text(common.json_text(record))
    growing.replace(path)
    report.write(record, path)


if __name__ == "__main__":
    main()
