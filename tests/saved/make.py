"""Makes the files of this folder, with the torch_histo that is installed.

They hold what users have saved: programs, modules and results. tests/test_saved.py loads them with
the torch_histo of today. Make none of them again when that test fails: nobody makes the files of
users again. Those here are of commit 9e8c55f (version 0.1.0) and torch 2.13, made by

    PYTHONPATH=CHECKOUT python tests/saved/make.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import torch_histo
from torch_histo import QuantileSketch, StreamingHistogram

FOLDER = Path(__file__).parent
EDGES = (-torch.inf, -1.0, 0.0, 0.5, 2.0)


class Calls(nn.Module):
    """Calls every operator, through the functions and without them."""

    def forward(
        self, values: Tensor, tokens: Tensor, text: Tensor, edges: Tensor
    ) -> dict[str, Any]:
        low, high = torch.ops.histo.finite_range(values, [0])
        return {
            "channels": torch_histo.channel_histogram(tokens, 12),
            "channels_of_operator": torch.ops.histo.channel_histogram(tokens, 9, [0, 1]),
            "letters": torch_histo.text_histogram(text),
            "own_range": torch_histo.histogram(values, 8, dim=0),
            "range": torch_histo.histogram(values, 8, range=(-1, 1), density=True),
            "edges": torch_histo.histogram(values, edges, dim=0, flow=True).hist,
            "operator": torch.ops.histo.histogram(values, edges, [0], flow=True),
            "extremes": (low, high),
            "made_edges": torch.ops.histo.uniform_edges(low, high, 4, dtype=torch.float32),
            "quantile": torch_histo.quantile(values, [0.1, 0.5], dim=0),
            "nanquantile": torch_histo.nanquantile(
                values, 0.7, keepdim=True, interpolation="lower"
            ),
        }


class Streams(nn.Module):
    """Counts into buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = StreamingHistogram(6, (-2, 2), channels=3)
        self.sketch = QuantileSketch(3, bits=3, exponents=(-4, 4))

    def forward(self, values: Tensor) -> dict[str, Tensor]:
        self.stream.update(values, 0)
        self.sketch.update(values, 0)
        return {
            "stream": self.stream.hist.clone(),
            "sketch": self.sketch.hist.clone(),
            "largest": self.sketch.max,
        }


def inputs() -> tuple[Tensor, ...]:
    """The same ones for every file: no generator of random numbers, which may change."""
    values = torch.arange(60).mul(37).remainder(101).sub(50).div(32).reshape(20, 3)
    values[3, 0], values[4, 1], values[5, 2] = torch.inf, -torch.inf, torch.nan
    tokens = torch.arange(80).mul(11).remainder(13).reshape(20, 4)
    text = torch.tensor(list(b"programming massively parallel processors"), dtype=torch.uint8)
    return values, tokens, text, torch.tensor(EDGES)


def modules() -> dict[str, nn.Module]:
    values = inputs()[0]
    found: dict[str, nn.Module] = {
        "stream": StreamingHistogram(6, (-2, 2), channels=3),
        "own_edges": StreamingHistogram(torch.tensor([[0.0, 1, 2], [-1, 0, 1], [0, 0, 9]])),
        "integer_edges": StreamingHistogram(edges=[-1, 0, 1]),
        "sketch": QuantileSketch(3, bits=3, exponents=(-4, 4)),
        "one_sketch": QuantileSketch(bits=2, exponents=(-8, 8)),
    }
    for module in found.values():
        module.update(values, 0 if module.hist.dim() > 1 else None)
    return found


def others() -> dict[str, Any]:
    """Results and plans, whose classes are public and can be pickled."""
    values, tokens = inputs()[:2]
    plan = torch_histo.explain_histogram((1 << 19, 512), range=(-3, 3), dim=0, device="H100")
    return {
        "histogram": torch_histo.histogram(values, 4),
        "summary": torch_histo.summarize(values, 0, bits=2, exponents=(-4, 4)),
        "counts": torch_histo.logging.histograms({"values": values}, 4)["values"],
        "device": torch_histo.Device("small", 2, 1 << 16, 1 << 17, (9, 0), 1e12),
        "explanation": torch_histo.explain((1 << 19, 512), device="H100"),
        "cpu_explanation": torch_histo.explain(tokens, 256),
        "histogram_explanation": plan,
        "bin_search": plan.searches[0],
    }


def results_of(module: Any) -> dict[str, Tensor]:
    """What a module tells about what it has counted."""
    found = {
        "hist": module.hist,
        "edges": module.edges,
        "count": module.count,
        "density": module.density(),
        "quantile": module.quantile([0.0, 0.25, 0.5, 0.9, 1.0]),
    }
    if isinstance(module, QuantileSketch):
        found |= {"min": module.min, "max": module.max}
    return found


def facts_of(plan: Any) -> dict[str, int | float | str]:
    """The numbers and words of a plan, by the names of its fields."""
    return {k: v for k, v in vars(plan).items() if isinstance(v, (int, float, str))}


def save_program(program: torch.export.ExportedProgram, name: str) -> None:
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # the paths of one machine, and most of the bytes
    torch.export.save(program, FOLDER / name)


def main() -> None:
    values, tokens, text, edges = inputs()
    rows = torch.export.Dim("rows", min=2)
    shapes = {"values": {0: rows}, "tokens": {0: rows}, "text": None, "edges": None}
    calls = torch.export.export(Calls(), (values, tokens, text, edges), dynamic_shapes=shapes)
    save_program(calls, "calls.pt2")
    save_program(torch.export.export(Streams(), (values,)), "streams.pt2")
    counted, kept = modules(), others()
    torch.save({"modules": counted, "others": kept}, FOLDER / "pickled.pt")
    states = {name: module.state_dict() for name, module in counted.items()}
    torch.save(states, FOLDER / "states.pt")
    summary = kept["summary"]
    results = {
        "calls": Calls()(values, tokens, text, edges),
        "streams": Streams()(values),
        "modules": {name: results_of(module) for name, module in counted.items()},
        "summary": {k: v for k, v in vars(summary).items() if k != "sketch"},
        "sketch_of_summary": results_of(summary.sketch),
        "facts": {name: facts_of(plan) for name, plan in kept.items() if "explanation" in name},
        "torch": str(torch.__version__),
    }
    results["calls"] = {
        name: tuple(found) if isinstance(found, tuple) else found
        for name, found in results["calls"].items()
    }
    torch.save(results, FOLDER / "results.pt")


if __name__ == "__main__":
    main()
