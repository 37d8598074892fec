"""The operators of quantile sketches: their fake and vmap rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from torch_histo import _library
from torch_histo._arguments import kept_sizes
from torch_histo._histogram_rules import check_counted

_library.load()  # the rules below need the operators

# Found once, which saves each call the look-ups.
sketch_add = torch.ops.histo._sketch_add_.default
sketch_quantile = torch.ops.histo._sketch_quantile.default


@torch.library.register_fake("histo::_sketch_add_")  # type: ignore[untyped-decorator]
def _(
    hist: Tensor,
    min_key: Tensor,
    max_key: Tensor,
    input: Tensor,
    bits: int,
    first: int,
    last: int,
    dim: Sequence[int] | None,
) -> None:
    check_counted("_sketch_add_", input, input.dim(), dim)
    if input.device != hist.device:
        expected = f"the buffers must be on the device of input, {input.device}"
        raise RuntimeError(f"_sketch_add_: {expected}, got {hist.device}")
    kept = kept_sizes(input.shape, dim)
    if list(min_key.shape) != kept or list(max_key.shape) != kept or list(hist.shape[:-1]) != kept:
        sizes = [list(tensor.shape) for tensor in (hist, min_key, max_key)]
        expected = f"the buffers must have the channels' sizes, {kept}"
        raise RuntimeError(f"_sketch_add_: {expected}, got {sizes}")


@torch.library.register_vmap("histo::_sketch_add_")  # type: ignore[untyped-decorator]
def _(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> NoReturn:
    raise RuntimeError(
        "_sketch_add_: tensors must not be mapped by vmap, as all samples would add to one sketch, "
        "got tensors that are: call it for each sample"
    )


@torch.library.register_fake("histo::_sketch_quantile")  # type: ignore[untyped-decorator]
def _(
    hist: Tensor,
    min_key: Tensor,
    max_key: Tensor,
    q: Tensor,
    bits: int,
    first: int,
    last: int,
    place: float,
) -> Tensor:
    return hist.new_empty([*q.shape, *min_key.shape], dtype=torch.float64)
