"""The page for those who know other libraries: each row of its tables runs, and says what is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

PAGE = Path(__file__).parents[1] / "docs" / "coming-from.md"
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (\w+)(.*) \|$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the first block of the page makes."""
    pytest.importorskip("pandas")
    found: dict[str, Any] = {}
    program = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert program is not None
    exec(program[1], found)
    return found


def numbers(value: Any) -> Any:
    """Tuples and lists as lists, tensors and arrays as lists of numbers."""
    if isinstance(value, (tuple, list)):
        return [numbers(part) for part in value]
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return np.asarray(value).tolist()


def test_all_rows_are_found() -> None:
    lines = PAGE.read_text().splitlines()
    tables = [line for line in lines if line.startswith("| `")]
    assert len(ROWS) == len(tables) >= 24


@pytest.mark.parametrize(("theirs", "ours", "word", "rest"), ROWS)
def test_rows(names: dict[str, Any], theirs: str, ours: str, word: str, rest: str) -> None:
    numpy = tuple(map(int, np.__version__.split(".")[:2]))
    if '"auto"' in theirs and numpy < (2, 4):
        pytest.skip("this NumPy has another rule")
    got = numbers(eval(ours, names))
    if word == "error":
        with pytest.raises(ValueError, match="not finite"):
            eval(theirs, names)
        return
    want = numbers(eval(theirs, names))
    assert word in ("same", "differs")
    assert (got == want) == (word == "same")
    if rest.startswith(" in last digits"):
        for a, b in zip(got, want, strict=True):
            assert np.allclose(a, b, rtol=1e-12)


def test_the_rules_that_are_named(names: dict[str, Any]) -> None:
    from torch_histo._bin_rules import _OTHER_RULES, RULES

    text = PAGE.read_text()
    assert all(f'"{rule}"' in text for rule in (*RULES, *_OTHER_RULES))
