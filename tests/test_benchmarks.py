"""The benchmarks run, check what they time, and write what they promise."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import oracle
import pytest
import torch
from conftest import ENVIRONMENT

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FIELDS = ["dtype", "shape", "dim", "num_bins", "distribution", "implementation"]
FIELDS += ["seconds", "read_only_seconds", "share"]


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("common")


@pytest.mark.parametrize("threads", [1, 2])
def test_bench_writes_records_tables_and_pictures(tmp_path: Path, threads: int) -> None:
    command = [
        sys.executable,
        str(BENCHMARKS / "bench.py"),
        "--device",
        "cpu",
        "--quick",
        "--threads",
        str(threads),
    ]
    some = ["--cases", "int(64|32 .4096)", "--peers", r"torch.bincount$", "--out", str(tmp_path)]
    subprocess.run([*command, *some], check=True, env=ENVIRONMENT, timeout=120)
    name = f"bench-quick-cpu-{threads}-threads"
    record = json.loads((tmp_path / f"{name}.json").read_text())
    assert {"device", "driver", "torch", "commit"} <= record["machine"].keys()
    assert len(record["records"]) == 2 * 2 * 2  # cases, distributions, implementations
    for row in record["records"]:
        ours = row["implementation"] == "torch_histo"
        one_thread = ["one_thread_seconds"] if threads > 1 else []
        assert list(row) == FIELDS + (one_thread if ours else ["torch_histo_seconds"])
        assert row["share"] == row["read_only_seconds"] / row["seconds"] > 0
    assert not list(tmp_path.glob("*.partial.json"))
    tables = (tmp_path / f"{name}.md").read_text()
    assert "torch.bincount" in tables
    assert ("times as fast as one thread" in tables) == (threads > 1)
    assert (tmp_path / f"{name}.png").stat().st_size > 0
    assert (tmp_path / f"{name}-distributions.png").stat().st_size > 0


def test_no_peers(common: ModuleType) -> None:
    bench = importlib.import_module("bench")
    alone = bench.parser().parse_args(["--device", "cpu", "--quick", "--peers", "none"])
    for suite in bench.SUITES.values():
        assert bench.Chosen(alone, suite).peers == ["torch_histo"]


def test_bench_of_histogram_tells_bins_and_wrong_counts(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "--suite", "histogram", "--quick"]
    command += ["--device", "cpu", "--threads", "1", "--out", str(tmp_path)]
    some = ["--cases", "float32 .2.16|uint8", "--peers", "histc$|channel"]
    subprocess.run([*command, *some], check=True, env=ENVIRONMENT, timeout=120)
    record = json.loads((tmp_path / "histogram-quick-cpu-1-threads.json").read_text())
    fields = [*FIELDS[:4], "bins", *FIELDS[4:]]
    names = {row["implementation"] for row in record["records"]}
    assert names == {"torch_histo", "torch.histc", "channel_histogram"}
    for row in record["records"]:
        assert list(row)[: len(fields)] == fields
        assert row["implementation"] != "torch_histo" or "misplaced" not in row
    tables = (tmp_path / "histogram-quick-cpu-1-threads.md").read_text()
    assert "float32 [2^16] of all values" in tables
    assert "wrong counts by elements" in tables


def test_bench_of_logging(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "--suite", "logging", "--quick"]
    command += ["--device", "cpu", "--threads", "1", "--out", str(tmp_path)]
    subprocess.run(command, check=True, env=ENVIRONMENT, timeout=120)
    record = json.loads((tmp_path / "logging-quick-cpu-1-threads.json").read_text())
    names = {row["implementation"] for row in record["records"]}
    assert names == {"torch_histo", "add_histogram", "wandb.watch", "wandb.Histogram"}
    for row in record["records"]:  # all count the same, but for rounding
        assert row.get("misplaced", 0) <= 8


def test_bench_of_layers(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "bench.py"), "--suite", "layers", "--quick"]
    command += ["--device", "cpu", "--threads", "1", "--out", str(tmp_path)]
    some = ["--cases", "1000|49", "--peers", "Observer|var_mean|sort", "--distributions", "normal"]
    subprocess.run([*command, *some], check=True, env=ENVIRONMENT, timeout=120)
    record = json.loads((tmp_path / "layers-quick-cpu-1-threads.json").read_text())
    asked = {(row["bins"], row["num_bins"]) for row in record["records"]}
    assert len(record["records"]) >= 2 * len(asked) == 2 * 6
    names = {row["implementation"] for row in record["records"]}
    observers = {"HistogramObserver", "MinMaxObserver"}
    assert names == {"torch_histo", "torch.sort", "var_mean, amin, amax, sum", *observers}
    for row in record["records"]:
        exact = row["implementation"] in ("torch_histo", "torch.sort", "MinMaxObserver")
        assert not exact or "misplaced" not in row
    calls = {row["call"]: row for row in record["calls"]}
    assert calls["torch.histogram"]["ratio"] == 1
    assert {"histogram", "StreamingHistogram.update", "summarize"} <= calls.keys()
    tables = (tmp_path / "layers-quick-cpu-1-threads.md").read_text()
    assert "planes of 49: float32 [40, 49] over (1)" in tables
    assert "times torch.histogram" in tables


def test_layers_have_right_answers(common: ModuleType) -> None:
    """Peers that are exact, and torch_histo, find the same as the references."""
    bench, cases, peers = map(importlib.import_module, ("bench", "cases", "layer_peers"))
    cpu = torch.device("cpu")
    every = cases.LAYER_CASES + cases.LAYER_CPU_CASES
    small = {replace(c, shape=tuple(min(n, 9) for n in c.shape)) for c in every}
    assert {case.bins for case in small} == {bins for bins, _ in cases.OPERATIONS}
    for case in small:
        for name in ("constant", "ReLU"):
            (x,) = bench.numbers(case, name, cpu)
            expected = peers.reference(case)(x).flatten()
            for peer in peers.LAYER_PEERS:
                if peer.exact and "cpu" in peer.devices and peer.supports(case):
                    try:
                        run = peer.prepare(case)
                    except ImportError:  # not installed
                        continue
                    found = peer.finish(case, run(x)).flatten()
                    assert not peers.wrong(found, expected), (case, name, peer.name)


def test_a_wrong_answer_of_a_layer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    peers = importlib.import_module("layer_peers")
    counts, numbers = torch.tensor([1, 2]), torch.tensor([1.0, torch.nan], dtype=torch.float64)
    assert (peers.wrong(counts, counts), peers.wrong(counts + 1, counts)) == (0, 2)
    assert (peers.wrong(numbers, numbers), peers.wrong(numbers * 1.00001, numbers)) == (0, 1)


def test_the_reference_of_histogram_is_the_oracle(common: ModuleType) -> None:
    """And peers that are exact count the same, for every kind of bins and of values."""
    bench, bins, cases, peers = (
        importlib.import_module(name) for name in ("bench", "bins", "cases", "histogram_peers")
    )
    cpu = torch.device("cpu")
    every = cases.HISTOGRAM_CASES + cases.HISTOGRAM_CPU_CASES + cases.HISTOGRAM_QUICK
    small = {
        replace(case, shape=tuple(min(n, 37 if len(case.shape) > 1 else 999) for n in case.shape))
        for case in every
    }
    for case in small:
        kept = [n for d, n in enumerate(case.shape) if d not in case.dim]
        for name in bins.DISTRIBUTIONS:
            if not bins.has(case, name):
                continue
            (x,) = bench.numbers(case, name, cpu)
            edges = (
                bins.edges_of(case, cpu)
                if bins.BINS[case.bins].told
                else bins.extreme_edges(case, peers.by_channels(x, case))
            )
            edges = edges[0] if len(edges) == 1 else edges.view(*kept, -1)
            expected = oracle.histogram(x, edges, case.dim).flatten()
            assert expected.sum() > 0
            for peer in peers.HISTOGRAM_PEERS:
                if peer.exact and "cpu" in peer.devices and peer.supports(case):
                    try:
                        counts = peer.prepare(case)(x)
                    except (ImportError, ValueError):  # not installed; NaN and no range
                        continue
                    counts = peer.finish(case, counts).flatten()
                    assert torch.equal(counts, expected), (case, name, peer.name)


def test_views_are_timed_beside_contiguous_ones(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "views.py"), "--device", "cpu", "--quick"]
    subprocess.run([*command, "--out", str(tmp_path)], check=True, env=ENVIRONMENT, timeout=120)
    (results,) = tmp_path.glob("views-cpu-*.json")
    records = json.loads(results.read_text())["records"]
    assert len(records) == 3
    for record in records:
        assert record["ratio"] == record["contiguous_seconds"] / record["seconds"] > 0
        assert record["bytes"] <= record["bytes_touched"]
        assert f"{record['dtype']} {record['shape']}" in results.with_suffix(".md").read_text()


ALONE = ["read only", "torch_histo"]
WITH_ONE = [*ALONE, "one thread"]
TOGETHER = [*ALONE, "torch.bincount"]


@pytest.mark.parametrize(
    ("device", "threads", "expected"),
    [
        ("cuda", 2, [ALONE, TOGETHER, ALONE]),  # no peer with sorted data
        ("cpu", 2, [WITH_ONE, TOGETHER, WITH_ONE, TOGETHER]),
        ("cpu", 1, [TOGETHER, TOGETHER]),
    ],
)
def test_torch_histo_takes_turns_without_peers_first(
    device: str,
    threads: int,
    expected: list[list[str]],
    common: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But with them where one CPU thread does everything."""
    bench, cases = (importlib.import_module(name) for name in ("bench", "cases"))
    peers = {peer.name: peer for peer in bench.PEERS}
    measured = bench.Bench(torch.device("cpu"), [peers["torch_histo"], peers["torch.bincount"]])
    inputs = [torch.zeros(8, dtype=torch.uint8)]
    turns: list[list[str]] = []

    def seconds(runs: dict[str, object], *_: object, **__: object) -> dict[str, float]:
        turns.append(list(runs))
        return {name: 10.0 * len(turns) + i for i, name in enumerate(runs)}

    monkeypatch.setattr(common, "rotated_inputs", lambda *_: inputs)
    monkeypatch.setattr(common, "interleaved_seconds", seconds)
    monkeypatch.setattr(measured, "device", torch.device(device))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    (ours, peer), last = measured.measure(cases.Case("uint8", (8,)), ["uniform", "sorted"])
    assert turns == [["sum"], *expected]
    began = 10 * (1 + turns.index(TOGETHER))
    assert (ours["read_only_seconds"], ours["seconds"]) == (20, 21)
    assert ours.get("one_thread_seconds") == (22 if WITH_ONE in turns else None)
    assert (peer["read_only_seconds"], peer["seconds"]) == (began, began + 2)
    assert peer["torch_histo_seconds"] == began + 1
    assert ["read only", *(row["implementation"] for row in last)] == expected[-1]


def test_ratios_are_of_the_same_turns(common: ModuleType) -> None:
    report, cases = (importlib.import_module(name) for name in ("report", "cases"))
    ours, peer = {"seconds": 1.0}, {"seconds": 6.0, "torch_histo_seconds": 2.0}
    rows = {"uniform": {"torch_histo": ours, "torch.bincount": peer}}
    assert "torch.bincount 3.00" in report.speeds({cases.Case("uint8", (8,)): rows})


def test_threads_are_set_outside_of_what_is_timed(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    threads = 2

    def set_num_threads(count: int) -> None:
        nonlocal threads
        threads = count
        events.append("set")

    def clock() -> float:
        events.append("clock")
        return float(len(events))

    monkeypatch.setattr(torch, "set_num_threads", set_num_threads)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(common.time, "perf_counter", clock)
    runs = {name: lambda _, name=name: events.append(f"{name} {threads}") for name in ("a", "b")}
    common.interleaved_seconds(
        runs, [torch.zeros(1, dtype=torch.uint8)], one_thread=["b"], rounds=2
    )
    timed_a = ["clock", "a 2", "clock"]
    timed_b = ["set", "clock", "b 1", "clock", "set"]
    assert events == 3 * [*timed_a, *timed_b]  # estimates, and two rounds


def test_speedups_are_over_one_thread(common: ModuleType) -> None:
    report, cases = (importlib.import_module(name) for name in ("report", "cases"))
    times = {"uniform": 3.0, "sorted": 4.0, "text": 3.8}
    rows = {
        name: {"torch_histo": {"seconds": 2.0, "one_thread_seconds": seconds}}
        for name, seconds in times.items()
    }
    table = report.speedups({cases.Case("uint8", (8,)): rows})
    cells = [cell.strip() for cell in table.splitlines()[-1].split("|")[1:-1]]
    assert cells == ["uint8 [8]", "1.50", "2.00", "1.90", "1.90"]


RESULTS = BENCHMARKS / "results"


@pytest.mark.parametrize(
    "path", sorted(RESULTS.rglob("*.json")), ids=lambda path: str(path.relative_to(RESULTS))
)
def test_results_have_a_line_for_each_record(path: Path, common: ModuleType) -> None:
    text = path.read_text()
    record = json.loads(text)
    assert text == common.json_text(record)
    lines = {line.removesuffix(",") for line in text.splitlines()}
    for field in record.values():
        if isinstance(field, list):
            assert {f"  {json.dumps(item)}" for item in field} <= lines


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--device=foo", "--device: expected cpu or cuda, got 'foo'"),
        ("--device=meta", "--device: expected cpu or cuda, got 'meta'"),
        ("--device=cuda:100", "--device: no 'cuda:100': torch finds"),
        ("--threads=0", "--threads: expected an integer of at least 1, got '0'"),
        ("--threads=-1", "--threads: expected an integer of at least 1, got '-1'"),
        ("--cases=(", "--cases: not a regular expression: '(': missing )"),
        ("--distributions=[", "--distributions: not a regular expression: '[': unterminated"),
        ("--peers=*", "--peers: not a regular expression: '*': nothing to repeat"),
        ("--cases=nothing", "--cases: 'nothing' matches none; --list shows the names"),
        ("--distributions=nothing", "--distributions: 'nothing' matches none; --list shows"),
        ("--peers=CUB", "--peers: 'CUB' matches none; --list shows the names"),
        ("--draw=nowhere.json", "--draw: 'nowhere.json' cannot be read: [Errno 2] No such file"),
        (f"--draw={RESULTS}/bench-cpu-1-threads.md", "cannot be read: Expecting value"),
        (f"--draw={RESULTS}/scaling-nvidia-h200-x1.json", "--draw: expected results of bench.py"),
    ],
)
def test_bad_arguments_of_bench(
    common: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argument: str,
    message: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.py", "--device=cpu", argument])
    with pytest.raises(SystemExit, match=r"^2$"):
        importlib.import_module("bench").main()
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_bench_lists_the_peers_of_the_device(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.py", "--device=cpu", "--list"])
    importlib.import_module("bench").main()
    listed = capsys.readouterr().out.splitlines()
    assert {"torch_histo", "cv2.calcHist", "text", "uint8 [1000]"} <= set(listed)
    assert "CUB HistogramEven" not in listed


def test_an_interrupted_bench_leaves_older_results(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = importlib.import_module("bench")
    row = dict.fromkeys(FIELDS)

    def interrupted(*_: object) -> Iterator[list[dict[str, None]]]:
        yield [row]
        raise KeyboardInterrupt

    path = tmp_path / f"{common.result_name('bench-quick', torch.device('cpu'))}.json"
    path.write_text("older")
    monkeypatch.setattr(bench.Bench, "measure", interrupted)
    monkeypatch.setattr(sys, "argv", ["bench.py", "--device=cpu", "--quick", f"--out={tmp_path}"])
    with pytest.raises(KeyboardInterrupt):
        bench.main()
    assert path.read_text() == "older"
    assert json.loads(path.with_suffix(".partial.json").read_text())["records"] == [row]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
@pytest.mark.parametrize("size", [1, 1000, 70_000])
def test_distributions_stay_in_their_bins(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, size: int
) -> None:
    monkeypatch.setattr(common, "PART_ELEMENTS", 4096)  # inputs are filled in parts
    num_bins = 256 if dtype == torch.uint8 else 4096
    for name in common.DISTRIBUTIONS:
        (x,) = common.rotated_inputs((size,), name, torch.device("cpu"), dtype, num_bins)
        assert x.dtype == dtype
        assert x.shape == (size,)
        assert 0 <= int(x.min()) <= int(x.max()) < num_bins


def test_sorted_is_sorted_and_covers_all_bins(common: ModuleType) -> None:
    (x,) = common.rotated_inputs((1 << 16,), "sorted", torch.device("cpu"), torch.int32, 1024)
    assert torch.equal(x, torch.arange(1 << 16, dtype=torch.int32) // 64)


def test_why_counts_alike_and_writes_two_tables(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    why = importlib.import_module("why")
    monkeypatch.setattr(sys, "argv", ["why.py", "--device=cpu", "--quick", f"--out={tmp_path}"])
    why.main()
    (results,) = tmp_path.glob("why-cpu-*.json")
    record = json.loads(results.read_text())
    text = results.with_suffix(".md").read_text()
    assert why.table(record) in text
    assert why.tricks_table(record) in text
    assert list(record["activations"]["seconds"]) == [why.OURS, *why.FLAWS]
    wrong = {"right": lambda x: x, "wrong": lambda x: x + 1}
    with pytest.raises(SystemExit, match=r"^WRONG counts: wrong of uint8 \[8\]$"):
        why.measure(why.Case("uint8", (8,)), wrong, torch.device("cpu"))


def test_quantiles_are_those_of_the_oracle(common: ModuleType) -> None:
    """The reference, and peers, of every kind of values."""
    bench, bins, cases, peers = (
        importlib.import_module(name) for name in ("bench", "bins", "cases", "quantile_peers")
    )
    cpu = torch.device("cpu")
    every = cases.QUANTILE_CASES + cases.QUANTILE_CPU_CASES + cases.QUANTILE_QUICK
    for case in {replace(case, shape=tuple(min(n, 50) for n in case.shape)) for case in every}:
        for name in filter(partial(bins.has, case), bins.DISTRIBUTIONS):
            (x,) = bench.numbers(case, name, cpu)
            q = torch.tensor(bins.QUANTILES[case.bins], dtype=torch.float64)
            expected = oracle.quantile(x, q, case.dim).flatten()
            for peer in peers.QUANTILE_PEERS:
                if peer.exact and peer.supports(case):
                    found = peer.prepare(case)(x).flatten()
                    assert not peers.wrong_quantiles(found, expected), (case, name, peer.name)


def cases_of_tuning(header: str) -> list[str]:
    """The cases that a header names: those that gave a number, and those that it is shown by."""
    paths = sorted((BENCHMARKS.parent / "csrc").glob(header))
    text = "\n".join(path.read_text() for path in paths)
    rows = re.findall(r"^constexpr .*; +// (.*)$", text, re.MULTILINE)
    comments = re.sub(r"\n// ", " ", text)
    return rows if header.startswith("cpu") else re.findall(r"[Ss]hown by: (.*)$", comments, re.M)


@pytest.mark.parametrize(("header", "least"), [("cpu/tuning.h", 60), ("cuda/policy*.h", 20)])
def test_tuned_numbers_name_a_case(
    monkeypatch: pytest.MonkeyPatch, header: str, least: int
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    cases, common = importlib.import_module("cases"), importlib.import_module("common")
    listed = [case for name, some in vars(cases).items() if name.isupper() for case in some]
    known = "|".join(re.escape(str(case)) for case in listed)
    distributions = "|".join(common.DISTRIBUTIONS)
    conditions = rf"(, ({distributions}))?(, (Zen 3|Zen 4|Granite Rapids))?(, two threads)?"
    named = cases_of_tuning(header)
    assert len(named) >= least
    wrong = [row for row in named if not re.fullmatch(rf"(shown by )?({known}){conditions}", row)]
    assert wrong == []
