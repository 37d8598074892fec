"""The documents show what happens: every block of Python runs by itself, and every command runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ENVIRONMENT

import torch_histo
from torch_histo import cli

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MAX_WORDS = {"README.md": 1400, "docs/performance.md": 1800, "docs/tuning.md": 2500}
RUN_ELSEWHERE = {
    "README.md": ".ci/run",
    "docs/start.md": "README.md",
    "docs/testing.md": ".ci/run and .ci/run long, but for GPUs",
    "docs/pytorch.md": "test_cpp_program",
    "CONTRIBUTING.md": ".ci/run",
    **{f"docs/tour/{page.name}": "test_tour.py" for page in (ROOT / "docs/tour").glob("*.md")},
}
"""The files that run the blocks of sh, which build or test everything."""
ONE_RANK = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}
"""The variables that torchrun sets."""


def blocks(document: Path) -> list[tuple[str, str]]:
    """The language and the text of each fenced block."""
    fenced = re.compile(r"^```(\S*).*?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    return fenced.findall(document.read_text())


def commands(document: Path) -> list[tuple[str, str]]:
    """The commands of a document that shows what they print, and this."""
    shown = [text for language, text in blocks(document) if language == "console"]
    return [command for text in shown for command in re.findall(r"^\$ (.*)\n([^$]*)", text, re.M)]


def parameters(sessions: bool) -> list[object]:
    """The sessions of an interpreter, or the programs."""
    return [
        pytest.param(text, id=f"{document.name}-{i}")
        for document in DOCUMENTS
        if sessions or not commands(document)
        for i, (language, text) in enumerate(blocks(document))
        if (text.startswith(">>> ") if sessions else language == "python")
    ]


def skip_without_gpus(text: str) -> None:
    needed = re.match(r"# needs (a|\d+) GPUs?$", text, re.MULTILINE)
    if needed and torch.cuda.device_count() < int(needed[1].replace("a", "1")):
        pytest.skip(needed[0].removeprefix("# "))


def skip_without_packages(program: str) -> None:
    if ".plot(" in program:
        pytest.importorskip("matplotlib")
    for node in ast.walk(ast.parse(program)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [str(node.module)]
        for name in names:
            pytest.importorskip(name)


@pytest.mark.parametrize("program", parameters(sessions=False))
def test_programs_run(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_gpus(program)
    skip_without_packages(program)
    monkeypatch.chdir(tmp_path)
    if "torch.distributed" not in program:
        exec(compile(program, "program", "exec"), {"__name__": "__main__"})
        return
    # A process group is the state of a process: this one is to have none.
    # At its end torch sometimes aborts: its threads of a process group still run.
    command = [sys.executable, "-c", f"{program}\nimport os\nos._exit(0)"]
    environment = ENVIRONMENT | ONE_RANK | {"MASTER_PORT": "0"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("session", parameters(sessions=True))
def test_sessions_print_what_is_shown(session: str) -> None:
    test = doctest.DocTestParser().get_doctest(session, {}, "session", None, 0)
    assert test.examples
    output: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=output.append)
    assert not output, "".join(output)


@pytest.mark.parametrize("document", [*filter(commands, DOCUMENTS)], ids=lambda path: path.name)
def test_commands_print_what_is_shown(
    document: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a folder with the files that the blocks of Python make. Each is a call of torch_histo."""
    monkeypatch.chdir(tmp_path)
    for language, text in blocks(document):
        if language == "python":
            skip_without_packages(text)
            exec(compile(text, "program", "exec"), {"__name__": "__main__"})
    for command, shown in commands(document):
        program, *arguments = shlex.split(command.removeprefix("python -m "))
        assert program == "torch_histo"
        assert cli.main(arguments) == 0
        assert capsys.readouterr().out.rstrip("\n") == shown.rstrip("\n"), command


def test_the_blocks_were_found() -> None:
    assert len(parameters(sessions=False)) >= 8
    assert len(parameters(sessions=True)) >= 3
    assert len(commands(ROOT / "docs" / "command-line.md")) >= 4


def test_every_command_runs_somewhere() -> None:
    with_commands = {
        str(document.relative_to(ROOT))
        for document in DOCUMENTS
        if any(language == "sh" for language, _ in blocks(document))
    }
    assert with_commands <= RUN_ELSEWHERE.keys()


def test_the_start_is_that_of_the_readme() -> None:
    first, *_ = (text for language, text in blocks(ROOT / "README.md") if language == "sh")
    assert ("sh", first) in blocks(ROOT / "docs" / "start.md")


def test_the_reference_has_every_name() -> None:
    listed = re.findall(
        r"\.\. [\w:]+:: (?:torch_histo\.)?(\w+)", (ROOT / "docs/api.md").read_text()
    )
    assert set(torch_histo.__all__) <= set(listed)


def test_every_example_is_listed() -> None:
    listed = (ROOT / "docs" / "examples.md").read_text()
    for program in (ROOT / "examples").rglob("*.py"):
        if program.parent.name != "cpp":
            assert f"](../{program.relative_to(ROOT)})" in listed


def test_every_workaround_has_a_row() -> None:
    """The code names workarounds for a compiler, and docs/tuning.md tells what each is for."""
    sources = [path.read_text() for path in sorted((ROOT / "csrc").rglob("*.*"))]
    comments = [re.sub(r"\n\s*//+", "", source) for source in sources]  # a name may begin a line
    named = {name for text in comments for name in re.findall(r"Workaround ([\w.-]+):", text)}
    tuning = (ROOT / "docs/tuning.md").read_text().partition("## Workarounds")[2]
    assert named == set(re.findall(r"^\| ((?:nvcc|gcc)-[\w.-]+) \|", tuning, re.MULTILINE))
    assert len(named) >= 12


def test_code_is_as_wide_as_the_site() -> None:
    """docs/site.css makes room for so many characters."""
    for document in DOCUMENTS:
        for language, text in blocks(document):
            if language in ("python", "pycon", "c++", "cuda"):
                assert max(map(len, text.splitlines())) <= 100, document


@pytest.mark.parametrize("document", MAX_WORDS)
def test_documents_are_short(document: str) -> None:
    words = re.findall(r"\S*\w\S*", (ROOT / document).read_text())  # lines of tables are none
    assert len(words) <= MAX_WORDS[document]


def test_the_results_of_the_readme_were_measured() -> None:
    """The figures of its first screen."""
    results = ROOT / "benchmarks" / "results"

    def seconds(name: str, shape: list[int], **of: str) -> dict[str, float]:
        """Of the first case, for uniform data, by implementation."""
        found: dict[str, float] = {}
        for row in json.loads((results / f"{name}.json").read_text())["records"]:
            wanted = {"distribution": "uniform", **of}
            if row["shape"] == shape and all(row.get(key, "") == wanted[key] for key in wanted):
                found.setdefault(row["implementation"], row["seconds"])
                found.setdefault("read only", row.get("read_only_seconds", 0))
        return found

    first, *_ = (ROOT / "README.md").read_text().partition("## Install")
    text = " ".join(first.split())
    h200 = seconds("bench-nvidia-h200", [1 << 17, 512])
    ours, reading, bincount = (
        h200[n] * 1e6 for n in ("torch_histo", "read only", "torch.bincount")
    )
    assert f"131,072 bytes take {ours:.1f} microseconds on one H200" in text
    assert f"reading them takes {reading:.1f} and `torch.bincount` takes {bincount:,.0f}" in text
    h100 = seconds("histogram-nvidia-h100", [1 << 28], dtype="float32", bins="in (-3.7, 4.1)")
    share = h100["read only"] / h100["torch_histo"]
    shown = f"takes {int(h100['torch_histo'] * 1e6)} microseconds on one H100, {share:.0%}"
    assert shown.replace("%", " %") in text
    median = seconds("quantile-nvidia-h200", [1 << 28], dtype="float32", bins="median")
    assert f"takes {median['torch_histo'] * 1e6:.0f} microseconds on one H200" in text
    assert f"`torch.sort` takes {int(median['torch.sort'] / median['torch_histo'])} times" in text


def test_the_readme_begins_with_two_commands() -> None:
    """The checks run them by their position."""
    demo, tests = (text for language, text in blocks(ROOT / "README.md") if language == "sh")
    assert demo.endswith("python -m torch_histo\n")
    assert tests.endswith("python -m pytest -n 2 --dist worksteal\n")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if not target.startswith("https://"):
            path, _, heading = target.partition("#")
            file = (document.parent / path).resolve()
            assert file.exists(), target
            if heading:
                headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
                assert heading in [
                    re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings
                ]


def test_tables_show_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    report, why = (importlib.import_module(name) for name in ("report", "why"))
    results = ROOT / "benchmarks" / "results"
    peers = json.loads((results / "why-cpu-2-threads.json").read_text())
    assert f"\n{why.table(peers)}\n" in (ROOT / "README.md").read_text()
    shown = 0
    for document in ("README.md", "docs/performance.md"):
        text = (ROOT / document).read_text()
        assert report.with_processors(text) == text
        for name in re.findall(r"<!-- of benchmarks/results/(?!why|variants)(.*) -->", text):
            record = json.loads((results / name).read_text())
            assert report.with_table(document, text, record, name) == text
            shown += 1
    assert shown >= 6
    # Every table is between the marks of a program, which this or the tour's test compares.
    rest = re.sub(r"<!-- of .*? -->.*?<!-- end of the table -->", "", text, flags=re.DOTALL)
    assert "| " not in rest


def test_the_table_of_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    accuracy = importlib.import_module("accuracy")
    text = accuracy.DOCUMENT.read_text()
    record = json.loads((ROOT / "benchmarks" / "results" / "accuracy-cpu.json").read_text())
    assert accuracy.with_table(text, record, "accuracy-cpu.json") == text
    assert f"\n{accuracy.table(record)}\n" in text
    assert {row["weights"] for row in record["records"]} == set(accuracy.CASES)
    assert not any(row["wrong"] for row in record["records"] if row["sums"] == accuracy.OURS)


def test_the_profiled_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ((_, program),) = [b for b in blocks(ROOT / "docs/profiling.md") if b[0] == "python"]
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "profile_count.py", "exec"), {"__name__": "__main__"})
    shown = capsys.readouterr().out
    assert "histo::channel_histogram" in shown
    assert "[[131072, 512], [], [], []]" in shown
    assert '"histo::channel_histogram"' in (tmp_path / "trace.json").read_text()
