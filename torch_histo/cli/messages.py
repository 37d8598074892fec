"""The messages of the command line on standard error, one line at a time."""

from __future__ import annotations

import contextlib
import sys

MAX_REASON = 200
"""Most characters of an error's message: some decoders quote the whole file."""


def complain(message: str) -> None:
    """Print one line on standard error, if there is one that takes it."""
    if sys.stderr is not None:  # print would turn to standard output
        with contextlib.suppress(OSError):
            print(f"torch_histo: {printable(message)}", file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """A text in one line, such as a file's name, with escapes for what no terminal shows."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(error: BaseException) -> str:
    """The first line of an error's message, or the error's name where it has none."""
    if lacks_main_memory(error):
        return "not enough memory"
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = next(iter(message.splitlines()), "") or type(error).__name__
    return line if len(line) <= MAX_REASON else f"{line[:MAX_REASON]}…"


def lacks_main_memory(error: BaseException) -> bool:
    """Whether main memory ran out: torch says so by a RuntimeError like any other."""
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    signs = ("DefaultCPUAllocator", "not enough memory", "bad_alloc", "CPU out of memory")
    return any(sign in str(error) for sign in signs)
