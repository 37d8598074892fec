"""The options of the command line: names of files after --."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_histo import cli
from torch_histo.cli.options import parse

WORDS = st.one_of(
    st.sampled_from(["-x.npy", "--json", "--", "-", "--bins", "-1", "x.npy", "--no-such-option"]),
    st.text(min_size=1, max_size=6),
)


@given(before=st.lists(st.sampled_from(["a.npy", "--json", "--summary"])), after=st.lists(WORDS))
def test_what_comes_after_two_dashes_is_a_file(before: list[str], after: list[str]) -> None:
    names = [word for word in before if not word.startswith("--")]
    if not names and not after:
        before = []
    found = parse([*before, "--", *after])
    assert found.files == [*names, *after]
    assert found.json == ("--json" in before)


def test_a_name_that_begins_with_a_dash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("-x.npy", np.arange(3))
    assert cli.main(["--json", "--device", "cpu", "--", "-x.npy"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["files"]
    assert (entry["name"], entry["elements"]) == ("-x.npy", 3)
    assert cli.main(["-x.npy"]) == 2
    assert "-x.npy" in capsys.readouterr().err


def test_two_dashes_end_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--bins", "--", "4"]) == 2
    assert "argument --bins: expected one argument" in capsys.readouterr().err
    assert cli.main(["--json", "--"]) == 2
    assert "argument --json: needs at least one FILE" in capsys.readouterr().err
