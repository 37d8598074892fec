"""The tour of the study kernels: what its tools show is what the kernels do."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest
from oracle import STUDY_VARIANTS, expected_letters

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tools"), str(ROOT / "docs/tour")]

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


# --- The pages ------------------------------------------------------------------------------------

TOUR = ROOT / "docs" / "tour"
PAGES = sorted(TOUR.glob("*.md"))


def included(page: Path) -> list[str]:
    """The lines that each literalinclude of a page brings."""
    texts = []
    include = re.compile(r"^```\{literalinclude\} (\S+)\n((?::.*\n)*)```$", re.MULTILINE)
    found = include.findall(page.read_text())
    assert len(found) == page.read_text().count("literalinclude")
    for path, options in found:
        lines = (page.parent / path).read_text().splitlines()
        given = dict(re.findall(r'^:(start-at|end-before): "(.*)"$', options, re.MULTILINE))
        begin = next(i for i, line in enumerate(lines) if given["start-at"] in line)
        end = next(i for i in range(begin + 1, len(lines)) if given["end-before"] in lines[i])
        texts.append("\n".join(lines[begin:end]))
    return texts


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_include_kernels(page: Path) -> None:
    texts = included(page)
    assert page.stem == "index" or texts
    assert all(3 <= len(text.splitlines()) <= 120 for text in texts)
    if page.stem in STUDY_VARIANTS:
        assert any(f"{page.stem}_kernel(" in text for text in texts)


def test_every_function_that_is_called_is_shown_once() -> None:
    """Somewhere in the tour: functions of the library, not those of CUDA."""
    begins = r"(?:__device__|__global__|HISTO_HOST_DEVICE)\s[^;{}()=]*?\b(\w+)\("
    sources = [*ROOT.glob("csrc/cuda/**/*.cuh"), *ROOT.glob("csrc/cuda/study/*.cu")]
    sources += [ROOT / "csrc/core/axis.h"]
    defined = {name for path in sources for name in re.findall(begins, path.read_text())}
    texts = [text for page in PAGES for text in included(page)]
    shown = {name for text in texts for name in re.findall(begins, text)}
    called = {name for text in texts for name in re.findall(r"\b(\w+)(?:<[^<>;()]*>)?\(", text)}
    assert called & defined <= shown
    assert {"merge_histogram", "byte_of", "load_once", "add_turned"} <= called & defined
    heads = [line for text in texts for line in text.splitlines() if re.search(begins, line)]
    assert len(heads) == len(set(heads)) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_question_has_an_answer(page: Path) -> None:
    """In a fold-out below the questions."""
    questions, *parts = re.findall(
        r"^## Predict\n(.*?)<details>\n<summary>Answers</summary>\n(.*?)\n</details>\n",
        page.read_text(),
        re.MULTILINE | re.DOTALL,
    ) or [("", "")]
    assert not parts
    asked, answered = (len(re.findall(r"^(?:-|\d\.) ", text, re.MULTILINE)) for text in questions)
    assert asked == answered
    assert (asked > 0) == (page.stem != "index")


def test_the_tour_shows_what_is_drawn_and_measured() -> None:
    draw = importlib.import_module("draw")
    for name, text in draw.pictures().items():
        assert (TOUR / name).read_text() == text, f"python docs/tour/draw.py writes {name}"
    for page in draw.PAGES:
        assert draw.with_tables(page.read_text()) == page.read_text(), page.name
        assert page.stem == "index" or draw.PLACE.search(page.read_text())
        for picture in re.findall(r"\]\((\w+\.svg)\)", page.read_text()):
            assert (TOUR / picture).exists()
    tables = sum(page.read_text().count("<!-- end of the table -->") for page in PAGES)
    assert tables == sum(len(draw.PLACE.findall(page.read_text())) for page in PAGES) > 12


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        for command in block.splitlines():
            python, program, *arguments = shlex.split(command)
            assert python == "python"
            if program == "tools/trace_kernel.py":
                assert main(arguments) == 0
                assert "adds in" in capsys.readouterr().out
            else:
                assert command in RUN_ELSEWHERE


RUN_ELSEWHERE = {
    "python -m pytest tests/test_emulated.py -k adds_without_atomics": "the suite",
    "python tools/exercises.py": "test_exercises",
    "python benchmarks/variants.py": "on a GPU",
    "python benchmarks/atomics.py": "on a GPU",
}


def test_the_index_shows_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    main(["coarsened_interleaved"])
    assert f"```text\n{capsys.readouterr().out}```" in (TOUR / "index.md").read_text()


def test_exercises(capsys: pytest.CaptureFixture[str]) -> None:
    """The answers by hand, and what the kernels say."""
    exercises = importlib.import_module("exercises")
    assert exercises.main(["--host"]) == 0
    shown = capsys.readouterr().out
    answers = re.findall(r"^   .*: ([\d,]+) \w+(?:/s)?\n   run: ([\d,]+), agrees$", shown, re.M)
    by_hand = [10_000_000, 73_529_412, 50_000_000, 4_545_454_545, 524_288, 65_536, 16_384]
    assert [int(answer.replace(",", "")) for answer, _ in answers] == by_hand
    assert [int(ran.replace(",", "")) for _, ran in answers[4:]] == by_hand[4:]
