"""Exact per-channel histograms of tensors, as PyTorch operators for CPU and CUDA.

Importing the package registers `torch.ops.histo.channel_histogram`, `text_histogram`,
`histogram`, `histogram_add_`, `finite_range`, `uniform_edges` and `quantile`. The first two have
functions here, the same with types. The function `histogram` is made of `histogram`, `finite_range`
and `uniform_edges`, and `QuantileSketch` of that function. `StreamingHistogram` calls
`histogram_add_`, which adds to counts in place. `quantile` and `nanquantile` are made of the last.
"""

import sys

from torch_histo import _joint_operators, _sharding, distributed  # noqa: F401
from torch_histo import loggers as logging
from torch_histo._library import has_cuda_kernels
from torch_histo._version import __version__
from torch_histo.devices import Device
from torch_histo.explain import (
    CpuExplanation,
    Explanation,
    HistogramExplanation,
    _plan_facts,
    explain,
    explain_histogram,
)
from torch_histo.explain._plan_facts import BinSearch
from torch_histo.histograms import Histogram, histogram
from torch_histo.joint import JointHistogram, histogram2d, histogramdd
from torch_histo.ops import VARIANTS, channel_histogram, text_histogram
from torch_histo.quantiles import nanquantile, quantile
from torch_histo.streams import QuantileSketch, StreamingHistogram
from torch_histo.streams import joint as _joint_streams
from torch_histo.streams import sketch as _sketch
from torch_histo.streams import weighted as _weighted_streams
from torch_histo.streams.joint import StreamingHistogramdd
from torch_histo.summaries import Summary, summarize

__all__ = [
    "VARIANTS",
    "BinSearch",
    "CpuExplanation",
    "Device",
    "Explanation",
    "Histogram",
    "HistogramExplanation",
    "JointHistogram",
    "QuantileSketch",
    "StreamingHistogram",
    "StreamingHistogramdd",
    "Summary",
    "__version__",
    "channel_histogram",
    "distributed",
    "explain",
    "explain_histogram",
    "has_cuda_kernels",
    "histogram",
    "histogram2d",
    "histogramdd",
    "logging",
    "nanquantile",
    "quantile",
    "summarize",
    "text_histogram",
]

# `import torch_histo.logging` finds it, too; logging.pyi tells type checkers.
sys.modules[f"{__name__}.logging"] = logging

# Where pickles, also those of older versions, look for classes.
for _name, _module in {
    "_plan_facts": _plan_facts,
    "joint_streams": _joint_streams,
    "sketch": _sketch,
    "weighted_streams": _weighted_streams,
}.items():
    sys.modules[f"{__name__}.{_name}"] = _module
    globals()[_name] = _module
    for _class in vars(_module).values():
        if isinstance(_class, type) and _class.__module__ == _module.__name__:
            _class.__module__ = f"{__name__}.{_name}"
sys.modules[f"{__name__}.explain_histogram"] = sys.modules[f"{__name__}.explain"]
HistogramExplanation.__module__ = f"{__name__}.explain_histogram"

_sharding.register_when_imported()
