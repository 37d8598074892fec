"""The support table is what tools/support.py recorded."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import load_module

TOOL = Path(__file__).parents[1] / "tools" / "support.py"


@pytest.fixture(scope="module")
def support() -> ModuleType:
    return load_module(TOOL)


@pytest.fixture
def record(support: ModuleType) -> dict[str, Any]:
    return json.loads(support.RECORD.read_text())


def test_the_document_shows_the_record(support: ModuleType, record: dict[str, Any]) -> None:
    text = support.DOCUMENT.read_text()
    assert support.table(record) in text
    assert support.with_table(text, record) == text


def test_every_pair_was_tried(support: ModuleType, record: dict[str, Any]) -> None:
    pairs = {f"{python} {torch}" for python in support.PYTHONS for torch in support.TORCHES}
    assert set(record) == pairs
    for pair, result in record.items():
        assert "failed" not in result["problem"], pair
        if not result["problem"]:
            assert result["passed"] > 300, pair
            python, torch = pair.split()
            assert result["python"].startswith(f"{python}.")
            assert result["torch"].startswith(f"{torch}.")


def test_smoke_suite_exists(support: ModuleType) -> None:
    for name in support.SMOKE_SUITE:
        assert (Path(__file__).parent / name).exists(), name


def test_a_failure_shows(support: ModuleType) -> None:
    failed = {"python": "3.11.7", "torch": "2.12.0", "passed": 9, "problem": "3 failed"}
    lines = support.table({"3.11 2.12": failed}).splitlines()
    cells = ["3 failed" if torch == "2.12" else "not tried" for torch in support.TORCHES]
    assert lines[3] == f"| 3.11 | {' | '.join(cells)} |"
