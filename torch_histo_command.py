# PYTHON_ARGCOMPLETE_OK
"""The command `torch_histo`.

It is outside the package, whose import takes as long as that of torch: the package looks for
this module, and if it is there, first reads the command's arguments.
"""

from __future__ import annotations


def main() -> int:
    from torch_histo.__main__ import run

    return run()
