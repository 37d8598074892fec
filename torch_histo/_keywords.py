"""Advice for the keywords of other libraries that are not arguments here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from torch_histo._arguments import shown

_SHIFT = "be left out: bins are 0 to num_bins - 1, so shift the input"
_HAS_BINS = dict.fromkeys(("x", "sample"), "be left out: the module has its bins")
_NO_BINS = {
    "q": "be left out: quantiles are exact and need no bins",
    "bits": "be left out: bits and exponents are the bins of a sketch",
    **_HAS_BINS,
}
_BINS = {"bins": "be passed as bins", "num_bins": "be passed as num_bins", **_NO_BINS}
_EDGES = {**_BINS, "num_bins": "be left out: torch_histo.histogram takes edges"}
_DIM = {"dim": "be passed as dim", "channels": "be passed to update, as dim"}
_RANGE = {
    "num_bins": _SHIFT,
    "q": "be left out: quantiles are those of all values",
    "bits": "be left out: a sketch needs no range",
    **_HAS_BINS,
}
_ENDS = {"range": "be passed as range=(min, max)", **_RANGE}
_DENSITY = {
    "density": "be passed as density",
    "num_bins": "be left out: divide the counts by their sum",
    **dict.fromkeys(("channels", "x", "sample"), "be left out: the module has density()"),
}
_WEIGHT = {
    "weight": "be passed as weight",
    "weight_dtype": "be passed to update, with weight_dtype=torch.float32 or another dtype here",
    "q": "be left out: quantiles have no weights",
    "bits": "be left out: torch_histo.StreamingHistogram takes weights",
    "x": "be left out: make the module with weight_dtype if values have weights",
}
_DEVICE = {
    "channels": "be left out: call .to(device) on the module",
    "": "be left out: results are on the device of the input",
}
_Q = {
    "q": "be passed as q, from 0 to 1",
    "channels": "be passed to quantile, as q from 0 to 1",
    "": "be left out: torch_histo.quantile has quantiles",
}

_ADVICE: dict[str, Mapping[str, str]] = {
    **dict.fromkeys(("bins", "num_bins", "nbins", "n_bins", "minlength", "num_classes"), _BINS),
    **dict.fromkeys(("edges", "bin_edges"), _EDGES),
    **dict.fromkeys(("axis", "axes", "dims"), _DIM),
    **dict.fromkeys(("min", "max"), _ENDS),
    "range": _RANGE,
    **dict.fromkeys(("density", "normed", "normalize"), _DENSITY),
    **dict.fromkeys(("weight", "weights", "w", "sample_weight"), _WEIGHT),
    "device": _DEVICE,
    **dict.fromkeys(("q", "quantiles", "percentiles", "percentile", "probs"), _Q),
    "method": {"interpolation": "be passed as interpolation"},
    "keepdims": {"keepdim": "be passed as keepdim"},
}
"""What to do with a keyword, by an argument of the function that got it. The first argument that
the function has decides; "" is one of any function."""


def refuse_keyword(op: str, unknown: Mapping[str, object], arguments: tuple[str, ...]) -> NoReturn:
    """Raises the error for the first keyword that is none of the arguments of a function."""
    name, value = next(iter(unknown.items()))
    expected = f"arguments must be {', '.join(arguments[:-1])} or {arguments[-1]}"
    if len(arguments) == 1:
        expected = f"the argument must be {arguments[0]}"
    for own, advice in _ADVICE.get(name, {}).items():
        if own in arguments or not own:
            expected = f"{name} must {advice}"
            break
    raise TypeError(f"{op}: {expected}, got {name}={shown(value)}")
