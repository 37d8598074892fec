"""Tries one wheel under many versions of Python and torch, and records the support table.

    pip install uv
    python tools/support.py dist/torch_histo-0.1.0-py3-none-manylinux_2_28_x86_64.whl

For each pair a virtual environment is made, torch comes from the package index, the wheel goes
in as it is, and the smoke suite runs against it. Interpreters are those that `uv python list`
finds. The results are added to docs/support.json, from which the table of docs/installing.md is
written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "installing.md"
RECORD = ROOT / "docs" / "support.json"

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TORCHES = ("2.10", "2.11", "2.12", "2.13", "2.14", "2.15")
# These may depend on the versions: errors that pass through torch, and torch's own tools.
SMOKE_SUITE = (
    "test_errors.py",
    "test_export.py",
    "test_histogram_function.py",
    "test_pytorch.py",
    "test_quantile.py",
    "test_text.py",
    "test_vmap.py",
)
# The tests that take longest are left out.
LONG_TESTS = (
    "package or program or elsewhere or spawn or views_and_dims or as_torch or more_elements"
)
BEGIN = "<!-- written by tools/support.py -->\n"
END = "<!-- end of what tools/support.py writes -->\n"


class Result(TypedDict):
    """The result of a pair: `problem` is empty where all of the suite passed."""

    python: str
    torch: str
    passed: int
    problem: str


class PairError(Exception):
    """Why a pair could not be tried, in one line."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, nargs="?", help="none: write the table anew, no more")
    parser.add_argument("--python", nargs="*", default=PYTHONS, metavar="VERSION")
    parser.add_argument("--torch", nargs="*", default=TORCHES, metavar="VERSION")
    arguments = parser.parse_args()
    if arguments.wheel:
        for python in arguments.python:
            for torch in arguments.torch:
                print(f"Python {python}, torch {torch}: ", end="", flush=True)
                result = attempt(arguments.wheel.resolve(), python, torch)
                print(cell(result), flush=True)
                record = recorded() | {f"{python} {torch}": result}
                RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    record = recorded()
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(), record))
    print(table(record), end="")
    return int(any(result["problem"] for result in record.values()))


def recorded() -> dict[str, Result]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def attempt(wheel: Path, python: str, torch: str) -> Result:
    result = Result(python=python, torch=torch, passed=0, problem="")
    with tempfile.TemporaryDirectory() as folder:
        try:
            try_pair(wheel, Path(folder), result)
        except PairError as failure:
            result["problem"] = str(failure)
    return result


def try_pair(wheel: Path, folder: Path, result: Result) -> None:
    """Makes the environment, runs the suite there, and completes the result."""
    run("no interpreter", ["uv", "venv", "--quiet", "--python", result["python"], folder / "venv"])
    interpreter = folder / "venv" / "bin" / "python"
    install = ["uv", "pip", "install", "--quiet", "--python", interpreter]
    wanted = [f"torch=={result['torch']}.*", f"torch_histo[test] @ {wheel.as_uri()}"]
    # The compiler of torch 2.10 imports setuptools, which torch asks for only from Python 3.12 on.
    run("not to be had", [*install, *wanted, "setuptools"])
    # Away from the sources, which would be imported in place of the wheel.
    for part in ("tests", "examples", "docs"):
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "pyproject.toml", folder)
    code = (
        "import platform, torch, torch_histo;"
        "print(platform.python_version(), torch.__version__, torch_histo.__file__)"
    )
    shown = run("import fails", [interpreter, "-c", code], folder).stdout.split()
    result["python"], result["torch"] = shown[:2]
    if not Path(shown[2]).is_relative_to(folder / "venv"):
        raise PairError("the wheel is not what was imported")
    suite = subprocess.run(
        [
            *(interpreter, "-m", "pytest", "-q", "-k", f"not ({LONG_TESTS})"),
            *(f"tests/{name}" for name in SMOKE_SUITE),
        ],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}",
            # Nothing compiled for another pair, and no pool of processes to set up and end.
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    # The last line, if the suite came that far.
    found = re.findall(r"(\d+) (passed|failed|error)", suite.stdout.rstrip().rpartition("\n")[2])
    counts = {what: int(count) for count, what in found}
    result["passed"] = counts.pop("passed", 0)
    if suite.returncode != 0:
        print(suite.stdout[-5000:] + suite.stderr[-2000:], file=sys.stderr)
        raise PairError(f"{sum(counts.values()) or 'all'} failed")


def run(
    meaning: str, command: list[str | Path], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
        raise PairError(meaning)
    return done


def cell(result: Result | None) -> str:
    if result is None:
        return "not tried"
    if result["problem"]:
        return result["problem"]
    return f"{result['passed']} passed ({result['torch']})"


def table(record: dict[str, Result]) -> str:
    """One row a Python, one column a torch; the cells say how many tests passed, under what."""
    lines = [
        "| Python | " + " | ".join(f"torch {torch}" for torch in TORCHES) + " |",
        "| --- |" + " --- |" * len(TORCHES),
    ]
    for python in PYTHONS:
        cells = (cell(record.get(f"{python} {torch}")) for torch in TORCHES)
        lines.append(f"| {python} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def with_table(text: str, record: dict[str, Result]) -> str:
    before, rest = text.split(BEGIN)
    return before + BEGIN + table(record) + END + rest.split(END)[1]


if __name__ == "__main__":
    raise SystemExit(main())
