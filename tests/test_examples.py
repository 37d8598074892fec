"""The examples run, and their help fits a terminal; shorter where there is no GPU."""

from __future__ import annotations

import ast
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


@pytest.mark.parametrize(
    "path",
    sorted([*EXAMPLES.rglob("*.py"), *EXAMPLES.with_name("benchmarks").glob("*.py")]),
    ids=lambda path: path.name,
)
def test_help_fits_a_terminal(path: Path) -> None:
    """The description of --help is the docstring as it stands."""
    text = path.read_text()
    if "argparse" in text:
        lines = (ast.get_docstring(ast.parse(text)) or "").splitlines()
        assert max(map(len, lines)) <= 80
