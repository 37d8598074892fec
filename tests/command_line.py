"""Runs of the command line in this process, as test_cli_*.py check them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from torch_histo import cli


def counted_entry(capsys: pytest.CaptureFixture[str], *words: Any) -> dict[str, Any]:
    """The entry of --json for the one array that is counted, without complaint."""
    assert cli.main([*map(str, words), "--json", "--device", "cpu"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    document = json.loads(captured.out)
    assert document["errors"] == []
    entry: dict[str, Any]
    (entry,) = document["files"]
    return entry


def error_of(capsys: pytest.CaptureFixture[str], *words: Any) -> str:
    """The one line of an error, and its end. Nothing else is printed."""
    assert cli.main([*map(str, words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err
