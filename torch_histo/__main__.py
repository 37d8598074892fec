"""Entry point of the command `torch_histo` and of ``python -m torch_histo``."""

from __future__ import annotations

import signal

from .cli import main, terminate


def run() -> int:
    """Run the command line of this process, which both Ctrl-C and SIGTERM end cleanly."""
    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return main()


if __name__ == "__main__":
    raise SystemExit(run())
