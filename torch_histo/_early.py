"""Reads the command's arguments before torch is imported, which takes seconds.

`python -m torch_histo` and the command `torch_histo` both import the package first, and the
package imports this module first. In every other program it does nothing.
"""

from __future__ import annotations

import sys


def _is_running() -> bool:
    if "torch_histo_command" in sys.modules:
        return True
    # While Python looks for the module that -m names, the first argument is -m.
    module = sys.orig_argv[-len(sys.argv)] if sys.argv[:1] == ["-m"] else ""
    return module.removeprefix("-m") == __package__


if _is_running():
    from .cli import check_arguments

    check_arguments()
