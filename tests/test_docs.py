"""What the documents show is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from conftest import ENVIRONMENT

import torch_histo

ROOT = Path(__file__).parents[1]


def blocks(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text()
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


def test_the_profiled_program(tmp_path: Path) -> None:
    (program,) = blocks("docs/profiling.md", "python")
    command = [sys.executable, "-c", program]
    ran = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert "histo::channel_histogram" in ran.stdout
    assert "[[131072, 512], [], [], []]" in ran.stdout
    assert '"histo::channel_histogram"' in (tmp_path / "trace.json").read_text()


def test_the_explanation_in_the_readme() -> None:
    (shown,) = [block for block in blocks("README.md", "") if ">>> torch_histo.explain" in block]
    call, _, text = shown.partition("\n")
    explanation = eval(call.removeprefix(">>> "), {"torch_histo": torch_histo})
    assert f"{explanation!r}\n" == text
