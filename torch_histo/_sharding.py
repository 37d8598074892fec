"""Registers the rules of DTensors (_sharding_rules.py) once somebody imports DTensor."""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

DTENSOR = "torch.distributed.tensor"


class _Finder(importlib.abc.MetaPathFinder):
    """Registers the rules as soon as somebody imports DTensor: to import it here would take
    longer than all of torch_histo, and some builds of torch lack it.

    It stays until the module has been executed: others ask for the spec without importing,
    and an import may fail."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != DTENSOR:
            return None
        for finder in sys.meta_path.copy():
            if finder is not self and (spec := finder.find_spec(fullname, path, target)):
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """The loader of DTensor, which registers the rules after it."""

    def __init__(self, loader: importlib.abc.Loader, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:  # what else a loader can do
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        register()
        with suppress(ValueError):  # another thread, or an import within this one, was first
            sys.meta_path.remove(self._finder)


def register_when_imported() -> None:
    """Registers the rules now, or when `torch.distributed.tensor` is imported."""
    if sys.modules.get(DTENSOR):
        importlib.import_module(DTENSOR)  # another thread may be at it
        register()
    else:
        sys.meta_path.insert(0, _Finder())


def register() -> None:
    from torch_histo import _sharding_rules

    _sharding_rules.register()
