"""Draws the pictures of the tour, and fills its tables: python docs/tour/draw.py.

The pictures of kernels show what the kernels did when the emulator of the tests ran them. The
tables are of the results in benchmarks/results that each place names.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("", "tools", "tests", "benchmarks")]

from common import markdown_table  # noqa: E402
from emulator.traced import LETTERS, Access, Trace, trace  # noqa: E402
from oracle import STUDY_VARIANTS  # noqa: E402
from trace_kernel import (  # noqa: E402
    MARGIN,
    PHRASE,
    Picture,
    Row,
    draw_input,
    draw_rows,
    padded,
    picture_of,
)

# --- Pictures ------------------------------------------------------------------------------------

WIDTH = 560


def sequential() -> str:
    """One thread of a CPU reads everything and adds everything."""
    data = PHRASE.encode()
    accesses = [Access(0, 0, "read", "input", at, 1, 0, "sequential") for at in range(len(data))]
    counts = Counter((byte - ord("a")) // 4 for byte in data if byte != ord(" "))
    result = [counts[bin] for bin in range(len(LETTERS))]
    traced = Trace("sequential", data, 1, LETTERS, {}, result, 0, 0, 1, accesses)
    picture = Picture("sequential: one thread touches all memory", WIDTH)
    picture.heading("sequential", "one thread of the CPU")
    draw_input(picture, traced, "input, in main memory")
    picture.heading("one histogram", "one thread reads, adds and writes: nobody else is there")
    draw_rows(picture, LETTERS, [], [Row("result", None, result)], "")
    return picture.svg()


def latency() -> str:
    """When additions of 100 ns are done: to one address, and to several."""
    picture = Picture("additions to one address wait for each other", WIDTH)
    step, row, left = 70, 26, MARGIN + 90
    for words, addresses in (
        ("four threads add to one address", [0, 0, 0, 0]),
        ("four threads add to four addresses", [0, 1, 2, 3]),
        ("two private counters, two threads each", [0, 0, 1, 1]),
    ):
        picture.heading(words)
        done: Counter[int] = Counter()
        for thread, address in enumerate(addresses):
            begin = left + done[address] * step
            picture.text(MARGIN, picture.y + 16, f"thread {thread}")
            if done[address]:
                picture.line(f"M{left} {picture.y + 11}H{begin - 3}")
            picture.box(begin, picture.y, step - 4, row - 5, f"b{address}")
            picture.text(begin + step / 2, picture.y + 15, f"address {address}", "mid small")
            done[address] += 1
            picture.y += row
        end = left + max(done.values()) * step
        rate = 4 / max(done.values())
        picture.text(MARGIN, picture.y + 14, "a box is one latency", "small")
        picture.text(
            end, picture.y + 14, f"done; {rate:g} addition{'s' * (rate > 1)} a latency", "small"
        )
        picture.y += 22
    return picture.svg()


def engine() -> str:
    """The bank of a counter depends on the channel alone."""
    picture = Picture("a table in which values do not choose the bank", WIDTH)
    banks, cell, left = 8, 54, MARGIN + 80
    picture.heading("64 channels of one row: half a line of memory", "each lane loads 16 bytes")
    for lane in range(4):
        x = left + lane * 2 * cell
        picture.box(x, picture.y, 2 * cell - 4, 24, f"b{lane}")
        words = f"lane {lane}: {16 * lane} to {16 * lane + 15}"
        picture.text(x + cell - 2, picture.y + 16, words, "mid small")
    picture.y += 38
    picture.heading("the table in shared memory", "a word has the counters of two channels")
    picture.text(MARGIN, picture.y + 12, "bank", "small")
    picture.text(MARGIN, picture.y + 27, "channels", "small")
    for i, bank in enumerate((0, 1, 2, 3, 4, 5, None, 31)):
        x = left + (i + 0.5) * cell
        words = ("...", "...") if bank is None else (bank, f"{2 * bank}, {2 * bank + 1}")
        picture.text(x, picture.y + 12, words[0], "mid small")
        picture.text(x, picture.y + 27, words[1], "mid small")
    picture.y += 34
    for value in ("0", "1", "2", "...", "255"):
        picture.text(MARGIN, picture.y + 16, f"value {value}" if value != "..." else value)
        for bank in range(banks):
            style = "shared" if bank != banks - 2 else "card"
            picture.box(left + bank * cell, picture.y, cell - 4, 22, style)
        picture.y += 27
    picture.text(
        MARGIN,
        picture.y + 12,
        "A value chooses the row, a channel the bank: all data meet the same banks.",
        "small",
    )
    picture.y += 16
    return picture.svg()


def pictures() -> dict[str, str]:
    """The files beside this one, and their text."""
    drawn = {"sequential": sequential(), "latency": latency(), "engine": engine()}
    for variant in STUDY_VARIANTS:
        channels = 4 if variant == "tiled" else 1
        data = padded(PHRASE.encode(), channels)
        drawn[variant] = picture_of(trace(variant, data, channels=channels))
    return {f"{name}.svg": text for name, text in drawn.items()}


# --- Tables --------------------------------------------------------------------------------------

PAGES = sorted(HERE.glob("*.md"))
PLACE = re.compile(
    r"(<!-- of benchmarks/results/((?:variants|atomics)-[\w-]+\.json): (.*?) -->\n)"
    r".*?(<!-- end of the table -->)",
    re.DOTALL,
)
ONE_CHANNEL = [1 << 26]


def by_distribution(record: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Seconds of each kernel, by distribution of 512 channels; then of one channel."""
    columns = {row["distribution"]: row["seconds"] for row in record["by_distribution"]}
    (one,) = (row["seconds"] for row in record["by_size"] if row["shape"] == ONE_CHANNEL)
    return columns | {"one channel": one}


def times(record: dict[str, Any], names: list[str]) -> str:
    """A row a kernel, in microseconds; in milliseconds if all times are long."""
    columns = by_distribution(record)
    shortest = min(seconds[name] for seconds in columns.values() for name in names)
    unit, scale = ("ms", 1e3) if shortest > 1e-2 else ("us", 1e6)
    rows = [
        [name, *(f"{seconds[name] * scale:,.1f}" for seconds in columns.values())] for name in names
    ]
    return markdown_table([unit, *columns], rows)


def rates(record: dict[str, Any]) -> str:
    """Additions a second of the kernel that adds once for each of the 2^26 values."""
    columns = by_distribution(record)
    found = [f"{ONE_CHANNEL[0] / row['global_atomic'] / 1e9:,.1f}" for row in columns.values()]
    return markdown_table(["G additions/s", *columns], [["global_atomic", *found]])


def one_address(record: dict[str, Any]) -> str:
    return markdown_table(
        ["one address in", "lanes that add", "latency", "1 / latency", "measured"],
        [
            [
                f"{row['memory']} memory",
                f"{row['lanes']} of 32",
                f"{row['latency_seconds'] * 1e9:.1f} ns",
                f"{row['model_per_second'] / 1e6:,.1f} M/s",
                f"{row['measured_per_second'] / 1e6:,.0f} M/s",
            ]
            for row in record["address"]
        ],
    )


def additions(record: dict[str, Any], names: list[str]) -> str:
    """Counted by the kernels on a GPU."""
    shape, bins = [524_288, 1], 128
    return markdown_table(
        ["additions of 524,288 elements, 128 bins", "data", "in global memory", "in shared memory"],
        [
            [row["variant"], row["data"], *(f"{count:,}" for count in row["counted"])]
            for row in record["variants"]
            if row["variant"] in names and (row["shape"], row["num_bins"]) == (shape, bins)
        ],
    )


def with_tables(text: str) -> str:
    """The text of a page with the tables of the results that it names."""

    def filled(place: re.Match[str]) -> str:
        record = json.loads((ROOT / "benchmarks/results" / place[2]).read_text())
        names = place[3].split(", ")
        if names == ["additions a second"]:
            table = rates(record)
        elif place[2].startswith("variants"):
            table = times(record, names)
        else:
            table = one_address(record) if names == ["one address"] else additions(record, names)
        return f"{place[1]}{table}\n{place[4]}"

    return PLACE.sub(filled, text)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, text in pictures().items():
        (HERE / name).write_text(text)
    for page in PAGES:
        page.write_text(with_tables(page.read_text()))


if __name__ == "__main__":
    main()
