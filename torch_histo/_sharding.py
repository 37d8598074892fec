"""How the operators act on DTensors: which shards they take, and what their counts are then."""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from torch_histo._arguments import kept_dimensions

if TYPE_CHECKING:
    from torch.distributed.tensor.placement_types import Placement

    # Placements of the counts, and of the input that gives them, on one dimension of a mesh.
    Ways = list[tuple[list[Placement], list[Placement]]]

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
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
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

    def edges_shard(edges: Any, channel_dims: int, channel: int) -> Placement:
        """Edges are sharded where the channels are, which they may have in their last dimensions,
        or each for all."""
        own = channel - channel_dims + edges.ndim
        return Shard(own) if own >= 0 and edges.shape[own] > 1 else Replicate()

    @register_sharding(torch.ops.histo.histogram.default)  # type: ignore[untyped-decorator]
    def histogram(
        input: Any, edges: Any, dim: Sequence[int] | None = None, *, flow: bool = False
    ) -> Ways:
        kept = kept_dimensions(input.ndim, dim or ())
        ways: Ways = [([Replicate()], [Replicate(), Replicate()])]
        for d in range(input.ndim):
            if d in kept:
                channel = kept.index(d)
                of_edges = edges_shard(edges, len(kept) + 1, channel)
                ways.append(([Shard(channel)], [Shard(d), of_edges]))
            else:
                ways.append(([Partial("sum")], [Shard(d), Replicate()]))
        return ways

    @register_sharding(torch.ops.histo.finite_range.default)  # type: ignore[untyped-decorator]
    def finite_range(input: Any, dim: Sequence[int] | None = None) -> Ways:
        kept = kept_dimensions(input.ndim, dim or ())
        ways: Ways = [([Replicate(), Replicate()], [Replicate()])]
        for d in range(input.ndim):
            if d in kept:
                channel = Shard(kept.index(d))
                ways.append(([channel, channel], [Shard(d)]))
            else:
                ways.append(([Partial("min"), Partial("max")], [Shard(d)]))
        return ways

    @register_sharding(torch.ops.histo.uniform_edges.default)  # type: ignore[untyped-decorator]
    def uniform_edges(low: Any, high: Any, num_bins: int, *, dtype: torch.dtype) -> Ways:
        ndim = max(low.ndim, high.ndim)
        ways: Ways = [([Replicate()], [Replicate(), Replicate()])]
        for d in range(ndim):
            bounds = [edges_shard(bound, ndim, d) for bound in (low, high)]
            if bounds != [Replicate(), Replicate()]:
                ways.append(([Shard(d)], bounds))
        return ways

    @register_sharding(torch.ops.histo.quantile.default)  # type: ignore[untyped-decorator]
    def quantile(
        input: Any,
        q: Any,
        dim: Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
        ignore_nan: bool = False,
    ) -> Ways:
        kept = kept_dimensions(input.ndim, dim or ())
        ways: Ways = [([Replicate()], [Replicate(), Replicate()])]
        if q.ndim:
            ways.append(([Shard(0)], [Replicate(), Shard(0)]))
        for channel, d in enumerate(kept):
            result = Shard(q.ndim + (d if keepdim else channel))
            ways.append(([result], [Shard(d), Replicate()]))
        return ways

    # What a kept result of the propagation depends on. `register_sharding` sees ints alone, neither
    # an optional list of them nor a bool or a dtype.
    depends = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    for op, first, keywords in (
        (torch.ops.histo.histogram.default, 2, ["flow"]),
        (torch.ops.histo.finite_range.default, 1, None),
        (torch.ops.histo.uniform_edges.default, 2, ["dtype"]),
        (torch.ops.histo.quantile.default, 2, ["interpolation", "ignore_nan"]),
    ):
        depends[op] = RuntimeSchemaInfo(first, keywords, needs_pytree=True)
