"""The command line: its exit status, whatever ends it. Nothing here needs torch."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from .messages import complain, lacks_main_memory, one_line
from .options import parse

PIPE_CLOSED = 141
SIGNALLED = 128
"""This plus the number of a signal is the status of a process that the signal has ended."""


class _Terminated(BaseException):
    """Raised by SIGTERM, as KeyboardInterrupt is by SIGINT."""


def terminate(signum: int, frame: object) -> NoReturn:
    """A handler of SIGTERM with which `main` closes what it opened before it returns."""
    raise _Terminated


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on `argv` (the process's arguments if None) and return its status."""

    def run() -> int:
        arguments = parse(argv)
        if sys.stdout is None:
            complain("standard output is closed")
            return 2
        from . import files

        return files.run(arguments)

    return _status_of(run)


def check_arguments() -> None:
    """End the process if its arguments ask for help or the version, or are wrong.

    Otherwise Ctrl-C ends it without a word until `main` runs.
    """

    def check() -> int:
        parse(None)
        return -1

    if (status := _status_of(check)) >= 0:
        raise SystemExit(status)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _status_of(run: Callable[[], int]) -> int:
    """The status of the process after `run`, whichever way that ends."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            status = run()
        except SystemExit as end:  # argparse has said why
            status = int(end.code or 0)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return SIGNALLED + signal.SIGINT
    except _Terminated:
        return SIGNALLED + signal.SIGTERM
    except OSError as error:
        # The interpreter flushes standard output once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return PIPE_CLOSED
        complain(f"standard output: {one_line(error)}")
        return 2
    except (MemoryError, RuntimeError) as error:
        if not lacks_main_memory(error):
            raise
        complain(one_line(error))
        return 2
