"""The notebook of examples/ runs from top to bottom, and was saved with its pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "histograms.ipynb"


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    plt.close("all")  # of other tests
    monkeypatch.chdir(tmp_path)
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    names: dict[str, object] = {"__name__": "__main__"}
    pictures = 0
    for cell in cells:
        exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
        drawn = [output for output in cell["outputs"] if "image/png" in output.get("data", {})]
        assert len(drawn) == len(plt.get_fignums())
        pictures += len(drawn)
        plt.close("all")
    assert pictures >= 2
    assert NOTEBOOK.stat().st_size < 150_000
