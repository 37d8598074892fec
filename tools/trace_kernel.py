"""Runs a study kernel on the host, and shows which thread added what where.

The kernels are those of csrc/cuda/study, compiled by g++ with the emulator
of the tests in the place of CUDA. No GPU is needed, but the headers of a CUDA
Toolkit are: those of `pip install nvidia-cuda-runtime nvidia-cuda-crt` will
do.

Blocks have 4 threads here, so that a sentence fills several; --set and
--as-compiled choose otherwise. Threads run one after the other. A GPU runs the
32 threads of a warp together, and warps in any order; which thread adds what
does not depend on that.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from unittest import SkipTest

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from emulator.traced import SMALL, Access, Trace, trace  # noqa: E402
from oracle import STUDY_VARIANTS  # noqa: E402

PHRASE = "programming massively parallel processors"
MEMORIES = {
    "shared": "shared memory",
    "workspace": "global memory",
    "counts": "the result in global memory",
}
MAX_COLUMNS = 16
"""Bins that a table has room for."""


class Row(NamedTuple):
    label: str
    block: int | None
    counts: list[int]


# --- What both the text and the picture show ------------------------------------------------


def threads_of(traced: Trace) -> list[tuple[int, int, list[Access]]]:
    """Block, thread and accesses of each thread that reads input, in the order of the grid."""
    key = lambda a: (a.block, a.thread)  # noqa: E731
    reading = {key(a) for a in traced.accesses if a.memory == "input"}
    first = traced.accesses[0].kernel
    chosen = sorted(
        (a for a in traced.accesses if a.kernel == first and key(a) in reading), key=key
    )
    return [(*who, list(accesses)) for who, accesses in groupby(chosen, key)]


def columns_of(traced: Trace) -> list[int]:
    """The bins that tables show."""
    bins = range(len(traced.bins))
    if len(bins) <= MAX_COLUMNS:
        return list(bins)
    return [bin for bin in bins if any(traced.counts[bin :: len(bins)])][:MAX_COLUMNS]


def rows_of(traced: Trace, columns: Sequence[int]) -> tuple[list[Row], list[Row]]:
    """The counters of the blocks, and of the result: a row a channel."""

    def rows(name: str, block: int | None, counts: Mapping[int, int]) -> Iterator[Row]:
        for channel in range(traced.channels):
            label = f"{name}, channel {channel}" if traced.channels > 1 else name
            first = channel * len(traced.bins)
            yield Row(label, block, [counts.get(first + bin, 0) for bin in columns])

    tables = traced.tables().items()
    blocks = [row for block, counts in tables for row in rows(f"block {block}", block, counts)]
    return blocks, list(rows("result", None, dict(enumerate(traced.counts))))


def summary(traced: Trace) -> str:
    """How the blocks' counts become the result."""
    parts = []
    if traced.counts_in != "counts":
        parts.append(f"{len(traced.counted())} atomic additions in {MEMORIES[traced.counts_in]}")
    if merges := traced.into_result():
        busiest = max(Counter(a.offset for a in merges).values())
        kind = "" if parts else " atomic additions"
        parts.append(f"{len(merges)}{kind} to the result, {busiest} of them to one counter")
    else:
        parts.append("a second kernel sums the blocks")
    return "; ".join(parts)


def shape_of(traced: Trace) -> str:
    blocks = 1 + max(a.block for a in traced.accesses if a.memory == "input")
    size = traced.threads_per_block
    return f"{blocks} block{'s' * (blocks > 1)} of {size:,} threads"


# --- Text ------------------------------------------------------------------------------------


def shown(data: bytes) -> str:
    return "".join(chr(byte) if 33 <= byte < 127 else "_" if byte == 32 else "?" for byte in data)


def loads_of(traced: Trace, accesses: Sequence[Access]) -> list[tuple[int, int]]:
    """Begin and end of what a thread reads with each load."""
    return [(a.offset, a.offset + a.bytes) for a in accesses if a.memory == "input"]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [header, *rows]
    ]


def text_of(traced: Trace, lines: int) -> str:
    return "\n".join([*heading(traced), "", *thread_lines(traced, lines), "", *counters(traced)])


def heading(traced: Trace) -> Iterator[str]:
    yield f"{traced.variant}: {len(traced.data)} bytes, {shape_of(traced)}"
    if traced.constants:
        changes = (f"{name} = {new} ({old:,})" for name, (new, old) in traced.constants.items())
        yield f"constants here (and in the source): {', '.join(changes)}"


def thread_lines(traced: Trace, lines: int) -> Iterator[str]:
    threads = threads_of(traced)
    rows = []
    for block, thread, accesses in threads[: lines or None]:
        reads = " | ".join(
            f"{begin}{f'-{end - 1}' if end - begin > 1 else ''} {shown(traced.data[begin:end])}"
            for begin, end in loads_of(traced, accesses)
        )
        own = [a for a in accesses if a.how == "add" and a.memory == traced.counts_in]
        adds = " ".join(
            f"{f'{a.value}x' if a.value > 1 else ''}{traced.bin(traced.index(a))}" for a in own
        )
        rows.append([f"block {block}", f"thread {thread}", reads, adds or "nothing"])
    header = ["", "", "reads", f"adds in {MEMORIES[traced.counts_in]}"]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(3)]
    for row in [header, *rows]:
        yield "  ".join([*map(str.ljust, row[:3], widths), row[3]]).rstrip()
    if lines and len(threads) > lines:
        yield f"... and {len(threads) - lines:,} more threads (--lines 0 shows all)"


def counters(traced: Trace) -> Iterator[str]:
    columns = columns_of(traced)
    blocks, result = rows_of(traced, columns)
    rows = [[row.label, *(str(count or ".") for count in row.counts)] for row in [*blocks, *result]]
    private = traced.counts_in != "counts"
    header = f"counts in {MEMORIES[traced.counts_in]}" if private else "what is added by"
    yield from table([header, *(traced.bins[bin] for bin in columns)], rows)
    yield ""
    yield summary(traced)


# --- A picture ---------------------------------------------------------------------------------

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1c2127 }
.bold { font-weight: 600 } .small { font-size: 11px; fill: #56606b }
.mid { text-anchor: middle }
.mono { font-family: ui-monospace, monospace }
.card { fill: #fbfbfa; stroke: #d5d8dc } .line { stroke: #7b8591; fill: none; stroke-width: 1.3 }
.b0 { fill: #bfdcf2 } .b1 { fill: #fbd9b5 } .b2 { fill: #c5e8d3 }
.b3 { fill: #ecc9dd } .b4 { fill: #f3ebaa } .b5 { fill: #d6d3ee }
.shared { fill: #d9f0e2; stroke: #2f8f5b } .workspace { fill: #e1e6f7; stroke: #5b6fb5 }
.counts { fill: #d3e6fb; stroke: #1f6fb8 } .faint { fill: #9aa3ad }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ec } .small { fill: #a5aeb8 } .card { fill: #1b1f24; stroke: #3a424b }
.line { stroke: #8d97a3 } .b0 { fill: #1f4d70 } .b1 { fill: #74451a } .b2 { fill: #1f5a3a }
.b3 { fill: #66304f } .b4 { fill: #5d561a } .b5 { fill: #403a72 }
.shared { fill: #173d29; stroke: #4fb37f } .workspace { fill: #262f52; stroke: #8494d8 }
.counts { fill: #14385c; stroke: #5aa5e8 } .faint { fill: #6b7580 }
}"""
MARGIN, CELL, PER_LINE, COLUMN, ROW = 18, 25, 16, 46, 27
LABEL, READER = 160, 60


class Picture:
    """An SVG that is drawn from the top down."""

    def __init__(self, title: str, width: int) -> None:
        self.title = title
        self.width = width
        self.y = MARGIN
        self.parts: list[str] = []

    def text(self, x: float, y: float, text: object, style: str = "") -> None:
        words = escape(str(text))
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}">{words}</text>')

    def box(self, x: float, y: float, width: float, height: float, style: str) -> None:
        size = f'width="{width:g}" height="{height:g}"'
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" {size} rx="3" class="{style}"/>')

    def line(self, points: str) -> None:
        self.parts.append(f'<path d="{points}" class="line"/>')

    def arrow(self, x: float, y: float, height: float) -> None:
        tip = y + height
        self.line(f"M{x:g} {y:g}V{tip:g}M{x - 4:g} {tip - 5:g}L{x:g} {tip:g}L{x + 4:g} {tip - 5:g}")

    def heading(self, words: str, more: str = "") -> None:
        self.y += 16
        self.text(MARGIN, self.y, words, "bold")
        if more:
            self.y += 18
            self.text(MARGIN, self.y, more, "small")
        self.y += 10

    def svg(self) -> str:
        height = self.y + MARGIN
        box = f'viewBox="0 0 {self.width} {height:g}" width="{self.width}" height="{height:g}"'
        card = f'<rect x=".5" y=".5" width="{self.width - 1}" height="{height - 1:g}" '
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{STYLE}</style>",
                f'{card}class="card"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def picture_of(traced: Trace) -> str:
    columns = columns_of(traced)
    width = max(READER + PER_LINE * CELL, LABEL + len(columns) * COLUMN) + 2 * MARGIN
    picture = Picture(f"{traced.variant}: who touches which memory", width)
    picture.heading(traced.variant, shape_of(traced))
    draw_input(picture, traced)
    draw_counters(picture, traced, columns)
    return picture.svg()


def draw_input(picture: Picture, traced: Trace, words: str = "input, in global memory") -> None:
    """The input in the order of its addresses; below, who reads it and with which of its loads."""
    picture.heading(words, "a bracket is one load; below it its thread")
    readers: dict[int, tuple[int, int, int, int]] = {}
    several = False
    for block, thread, accesses in threads_of(traced):
        for number, (begin, end) in enumerate(loads_of(traced, accesses), 1):
            several |= number > 1
            readers |= dict.fromkeys(range(begin, end), (block, thread, number, begin))
    height = 62 if several else 48
    for first in range(0, len(traced.data), PER_LINE):
        line = range(first, min(first + PER_LINE, len(traced.data)))
        picture.text(MARGIN, picture.y + 45, "thread", "small")
        if several:
            picture.text(MARGIN, picture.y + 58, "its load", "small")
        for at in line:
            x = MARGIN + READER + (at - first) * CELL
            style = f"b{readers[at][0] % 6}" if at in readers else "card"
            picture.box(x, picture.y, CELL - 2, CELL - 2, style)
            middle = x + CELL / 2 - 1
            picture.text(middle, picture.y + 18, shown(traced.data[at : at + 1]), "mid mono")
        for load, places in groupby((at for at in line if at in readers), readers.__getitem__):
            span = list(places)
            left = MARGIN + READER + (span[0] - first) * CELL + 2
            right = left + len(span) * CELL - 6
            y = picture.y + CELL + 1
            picture.line(f"M{left} {y}v4H{right}v-4")
            picture.text((left + right) / 2, y + 17, load[1], "mid small")
            if several:
                picture.text((left + right) / 2, y + 30, load[2], "mid small")
        picture.y += height + 8


def draw_counters(picture: Picture, traced: Trace, columns: Sequence[int]) -> None:
    memory = "" if traced.counts_in == "counts" else traced.counts_in
    words = (
        f"a private histogram a block, in {MEMORIES[memory]}" if memory else "what each block adds"
    )
    picture.heading(words, summary(traced))
    blocks, result = rows_of(traced, columns)
    draw_rows(picture, [traced.bins[bin] for bin in columns], blocks, result, memory)
    picture.text(
        MARGIN,
        picture.y - ROW * len(result) - 7,
        "summed" if memory and not traced.into_result() else "atomics",
        "small",
    )


def draw_rows(
    picture: Picture,
    bins: Sequence[str],
    blocks: Sequence[Row],
    result: Sequence[Row],
    memory: str,
) -> None:
    """Counters of the blocks, in a memory if they are private, and the result."""
    left = MARGIN + LABEL
    for i, name in enumerate(bins):
        picture.text(left + (i + 0.5) * COLUMN, picture.y + 12, name, "mid small")
    picture.y += 20

    def draw(row: Row, style: str) -> None:
        label, block, counts = row
        if block is not None:
            picture.box(MARGIN, picture.y + 5, 14, 14, f"b{block % 6}")
        picture.text(MARGIN + 21 * (block is not None), picture.y + 17, label)
        for i, count in enumerate(counts):
            if style:
                picture.box(left + i * COLUMN + 1, picture.y, COLUMN - 3, ROW - 4, style)
            words = str(count) if style or not count else f"+{count}"
            if count or style:
                place = left + (i + 0.5) * COLUMN, picture.y + 16
                picture.text(*place, words, "mid" if count else "mid faint")
        picture.y += ROW

    for row in blocks:
        draw(row, memory)
    if blocks:
        for i in range(len(bins)):
            picture.arrow(left + (i + 0.5) * COLUMN, picture.y, 16)
        picture.y += 20
    for row in result:
        draw(row, "counts")


# --- The command ---------------------------------------------------------------------------------


def padded(data: bytes, channels: int) -> bytes:
    """Whole rows of channels: spaces count nowhere."""
    return data + b" " * (-len(data) % channels)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def constant(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(
            f"expected NAME=NUMBER, for example kThreads=8, got {text!r}"
        )
    return name, int(value)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("variant", choices=STUDY_VARIANTS)
    parser.add_argument("--text", default=PHRASE, help=f"what is counted (default: {PHRASE!r})")
    parser.add_argument(
        "--values", action="store_true", help="256 bins for the values of bytes, not 7 of letters"
    )
    parser.add_argument("--channels", type=positive, default=1, help="that take turns (default: 1)")
    parser.add_argument("--sms", type=positive, default=1, help="of the emulated GPU (default: 1)")
    parser.add_argument(
        "--set",
        type=constant,
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="another value of a constant, as kThreads, kRun, kMaxPrivateBlocks",
    )
    parser.add_argument(
        "--as-compiled", action="store_true", help="with the source's constants, but for --set"
    )
    parser.add_argument(
        "--lines", type=int, default=64, help="threads shown (default: 64; 0 for all)"
    )
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw it, too")
    arguments = parser.parse_args(argv)
    try:
        traced = trace(
            arguments.variant,
            padded(arguments.text.encode(), arguments.channels),
            channels=arguments.channels,
            num_bins=256 if arguments.values else None,
            sms=arguments.sms,
            constants={**({} if arguments.as_compiled else SMALL), **dict(arguments.set)},
        )
    except (SkipTest, ValueError) as error:
        parser.error(str(error))
    print(text_of(traced, arguments.lines))
    if arguments.picture is not None:
        arguments.picture.write_text(picture_of(traced))
        print(f"drawn: {arguments.picture}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
