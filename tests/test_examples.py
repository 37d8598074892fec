"""The examples run, and their help fits a terminal; shorter where there is no GPU."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ENVIRONMENT, load_module

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = ["--tokens", "512", "--width", "64", "--experts", "16", "--top", "2"]


def test_moe_router() -> None:
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / "moe_router.py"), *SMALL],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    lines = ["eager: counts equal", "16,777,216 for 16,777,217", "channel_histogram: 16,777,217"]
    lines += ["counts 100 padding ids"]
    if torch.cuda.is_available():
        lines += ["CUDA graph: counts equal", 'torch.compile(mode="reduce-overhead"): counts equal']
        lines += ["torch.bincount synchronizes", "torch.bincount cannot be captured"]
    else:
        lines += ["No GPU: no CUDA graph", "compiled: counts equal"]
    for line in lines:
        assert line in run.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "0"], "--tokens must be at least 1, got 0"),
        (["--experts", "-3"], "--experts must be at least 1, got -3"),
        (["--experts", "8", "--top", "9"], "--top must be at most the 8 experts, got 9"),
    ],
)
def test_bad_arguments_of_moe_router(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["moe_router.py", *arguments])
    with pytest.raises(SystemExit, match=r"^2$"):
        load_module(EXAMPLES / "moe_router.py").main()
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {message}")


PROGRAMS = [
    path
    for files in (
        "benchmarks/*.py",
        "docs/**/*.py",
        "examples/**/*.py",
        "tests/fuzz*.py",
        "tools/*.py",
    )
    for path in sorted(EXAMPLES.parent.glob(files))
    if '__name__ == "__main__"' in path.read_text()
]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_help(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is all that a program then prints or does, and its description fits a terminal."""
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.syspath_prepend(str(path.parent))
    for function in ("run", "Popen", "check_output"):
        monkeypatch.setattr(subprocess, function, None)
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_path(str(path), run_name="__main__")
    shown = " ".join(capsys.readouterr().out.split())
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert shown.startswith(f"usage: {path.name} [-h]")
    assert " ".join(docstring.split("\n\n")[0].split()) in shown
    if "RawDescription" in text:
        assert max(map(len, docstring.splitlines())) <= 80
