"""How the operators act on DTensors: which shards they take, and what their counts are then."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from torch_histo.ops import kept_dimensions

if TYPE_CHECKING:
    from torch.distributed.tensor.placement_types import Placement

    # Placements of the counts, and of the input that gives them, on one dimension of a mesh.
    Ways = list[tuple[list[Placement], list[Placement]]]

DTENSOR = "torch.distributed.tensor"


class _Finder(importlib.abc.MetaPathFinder):
    """Registers the rules as soon as somebody imports DTensor: to import it here would take
    longer than all of torch_histo, and some builds of torch lack it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != DTENSOR:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader = spec.loader
            execute = loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                register()

            setattr(loader, "exec_module", execute_and_register)  # noqa: B010
        return spec


def register_when_imported() -> None:
    """Registers the rules now, or when `torch.distributed.tensor` is imported."""
    if DTENSOR in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Finder())


def register() -> None:
    from torch.distributed.tensor.experimental import register_sharding
    from torch.distributed.tensor.placement_types import Partial, Replicate, Shard

    @register_sharding(torch.ops.histo.channel_histogram.default)  # type: ignore[untyped-decorator]
    def channel_histogram(
        input: Any, num_bins: int = 256, dim: Sequence[int] = (0,), *, variant: str = "auto"
    ) -> Ways:
        kept = kept_dimensions(input.ndim, dim)
        ways: Ways = [([Replicate()], [Replicate()])]
        for d in range(input.ndim):
            counts = Shard(kept.index(d)) if d in kept else Partial("sum")
            ways.append(([counts], [Shard(d)]))
        return ways

    @register_sharding(torch.ops.histo.text_histogram.default)  # type: ignore[untyped-decorator]
    def text_histogram(text: Any, *, variant: str = "auto") -> Ways:
        return [([Replicate()], [Replicate()]), ([Partial("sum")], [Shard(0)])]
