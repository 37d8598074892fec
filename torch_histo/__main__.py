"""Entry point of ``python -m torch_histo``."""

from __future__ import annotations

import signal

from .cli import main, terminate

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, terminate)
    raise SystemExit(main())
