# PYTHON_ARGCOMPLETE_OK
"""The command `torch_histo`.

It is outside the package, whose import takes as long as that of torch: first it reads the
command's arguments, so that help and errors come at once. ``python -m torch_histo`` is the same
command, which imports the package before it reads anything.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec


def main() -> int:
    _check_arguments()
    from torch_histo.__main__ import run

    return run()


def _check_arguments() -> None:
    """Reads the arguments with the package's own parser, but not its other modules."""
    spec = find_spec("torch_histo")
    assert spec is not None
    sys.modules["torch_histo"] = module_from_spec(spec)  # it has a folder, and nothing else
    try:
        from torch_histo.cli import check_arguments

        check_arguments()
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "torch_histo"]:
            del sys.modules[name]
