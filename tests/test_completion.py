"""What a shell is told that completes an option of the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ENVIRONMENT


def completed(line: str, file: Path) -> list[str]:
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    asked |= {"_ARGCOMPLETE_IFS": " ", "_ARGCOMPLETE_STDOUT_FILENAME": str(file)}
    command = [sys.executable, "-m", "torch_histo"]
    subprocess.run(command, env={**ENVIRONMENT, **asked}, check=True, timeout=300)
    return [word.strip() for word in file.read_text().split()]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("torch_histo --cha", ["--channels"]),
        ("torch_histo x.npy --quan", ["--quantiles"]),
        ("torch_histo --none-begins-so", []),
    ],
)
def test_options(line: str, options: list[str], tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    assert completed(line, tmp_path / "shown") == options


def test_nothing_is_counted_without_argcomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_histo.cli import options

    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    with pytest.raises(SystemExit):
        options.parse(["x.npy"])


def test_marker_of_global_completion() -> None:
    """argcomplete looks for it in the first 1024 bytes of the command's module."""
    command = Path(__file__).parents[1] / "torch_histo_command.py"
    assert "PYTHON_ARGCOMPLETE_OK" in command.read_text()[:1024]
