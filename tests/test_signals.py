"""Signals end the command line's long counts cleanly, wherever it is."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from conftest import ENVIRONMENT, default_interrupt

TIMEOUT = 60


def count_endlessly(*arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """The command line on a file without an end, and the terminal that is its standard error."""
    terminal, stderr = pty.openpty()
    fcntl.ioctl(stderr, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "torch_histo", "--device", "cpu", *arguments, "/dev/zero"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=stderr,
        preexec_fn=default_interrupt,
    )
    os.close(stderr)
    return process, terminal


def read_until(terminal: int, word: bytes) -> bytes:
    """Reads until the word comes, or until the end."""
    seen, end = b"", time.monotonic() + TIMEOUT
    while not (word and word in seen) and select.select([terminal], [], [], end - time.monotonic()):
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # as Linux tells that nobody has the other end
            break
    return seen


@pytest.mark.parametrize(
    ("number", "status", "arguments"),
    [(signal.SIGINT, 130, []), (signal.SIGTERM, 143, ["--json", "--channels", "3"])],
    ids=["INT", "TERM"],
)
def test_a_long_count_ends(number: int, status: int, arguments: list[str]) -> None:
    process, terminal = count_endlessly(*arguments)
    try:
        assert b"B/s" in read_until(terminal, b"B/s"), "it never counted"
        process.send_signal(number)
        out, _ = process.communicate(timeout=TIMEOUT)
        rest = read_until(terminal, b"")
    finally:
        process.kill()
        os.close(terminal)
    assert (process.returncode, out) == (status, b"")
    assert b"Traceback" not in rest
    # The bar is gone: what follows the last carriage return is an empty line.
    assert rest.rpartition(b"\r")[2].strip() == b""
