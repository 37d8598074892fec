"""The tour of the study kernels: what its tools show is what the kernels do."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from oracle import STUDY_VARIANTS, expected_letters

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

from emulator.traced import SMALL, trace  # noqa: E402
from trace_kernel import PHRASE, main  # noqa: E402

OF_THE_PHRASE = [5, 5, 6, 10, 10, 1, 1]
"""Counted by hand."""


@pytest.mark.parametrize("variant", STUDY_VARIANTS)
def test_additions_make_the_histogram(variant: str) -> None:
    traced = trace(variant, PHRASE.encode())
    assert traced.counts == OF_THE_PHRASE == expected_letters(PHRASE.encode()).tolist()
    total: Counter[int] = Counter()
    for counts in traced.tables().values():
        total += counts
    assert [total[i] for i in range(7)] == OF_THE_PHRASE
    into = Counter(dict.fromkeys(range(7), 0))
    for access in traced.into_result():
        into[access.offset // 8] += access.value
    assert variant == "tiled" or [into[i] for i in range(7)] == OF_THE_PHRASE
    adds = [a for a in traced.accesses if a.how == "add"]
    shared = sum(a.memory == "shared" for a in adds)
    assert (traced.shared_additions, traced.global_additions) == (shared, len(adds) - shared)
    # Each element is read by one block, and by itself or in a word.
    read = {
        at
        for a in traced.accesses
        if a.memory == "input"
        for at in range(a.offset, a.offset + a.bytes)
    }
    assert read == set(range(len(PHRASE)))


@pytest.mark.parametrize("channels", [3, 4])
def test_channels(channels: int) -> None:
    data = bytes(7 * i % 11 for i in range(channels * 50))
    traced = trace("tiled", data, channels=channels, num_bins=11, constants=SMALL)
    expected = Counter(i % channels * 11 + byte for i, byte in enumerate(data))
    assert Counter(dict(enumerate(traced.counts))) == expected
    total: Counter[int] = Counter()
    for counts in traced.tables().values():
        total += counts
    assert total == expected


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "picture.svg"
    assert main(["privatized_shared", "--text", "abba z", "--picture", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "privatized_shared: 6 bytes, 2 blocks of 4 threads" in shown
    assert "5 atomic additions in shared memory; 2 to the result, 1 of them to one counter" in shown
    assert picture.read_text().startswith("<svg")
    with pytest.raises(SystemExit):
        main(["privatized_shared", "--set", "kThreads"])
    assert "expected NAME=NUMBER" in capsys.readouterr().err
