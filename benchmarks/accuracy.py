"""How far sums of weights are from the exact ones: torch_histo's, and those of others.

The exact sums are those of Python's fractions, or are known where so many
weights are equal. An error is the largest over all bins: the distance to the
exact sum, divided by it. "lost" is a sum of 0 that is not 0, or the other way
round. torch_histo must have no error but that of rounding the exact sum once,
or the program ends. Results go to JSON and Markdown, and to docs/weights.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch
from torch import Tensor

from torch_histo import histogram

OURS = "torch_histo"
DOCUMENT = Path(__file__).parents[1] / "docs" / "weights.md"
REPORT = "numpy/numpy#{}"
ELEMENTS = 100_000
LARGE = 1 << 28
"""Only torch_histo sums up more, as it copies nothing that is repeated."""


@dataclass(frozen=True)
class Case:
    values: Tensor
    weight: Tensor
    edges: Tensor
    uniform: tuple[int, tuple[float, float]] | None = None
    """The number and the range of the bins, if these make the edges."""
    equal: bool = False
    """All are the same number in one bin."""

    def exact(self) -> list[Fraction]:
        """Bins hold their lower edge, the last one both; values compare as real numbers."""
        bins = len(self.edges) - 1
        if self.equal:
            sums = [Fraction(0)] * bins
            at = min(int(torch.searchsorted(self.edges, self.values[0], right=True)), bins) - 1
            sums[at] = number(self.weight[0]) * len(self.weight)
            return sums
        edges = self.edges.double()
        places = torch.searchsorted(edges, self.values.double(), right=True) - 1
        places[self.values.double() == edges[-1]] = bins - 1
        sums = [Fraction(0)] * bins
        for place, weight in zip(places.tolist(), self.weight.tolist(), strict=True):
            if 0 <= place < bins:
                sums[place] += Fraction(weight)
        return sums


def number(x: Tensor) -> Fraction:
    return Fraction(x.item())


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def shuffled(*parts: Tensor) -> Tensor:
    whole = torch.cat(parts)
    return whole[torch.randperm(len(whole), generator=torch.Generator().manual_seed(3))]


def between(
    low: float, high: float, bins: int, values: Tensor, weight: Tensor, *, equal: bool = False
) -> Case:
    """Bins of equal width. float64 holds the edges of float32, too."""
    edges = histogram(values[:0], bins, range=(low, high)).bin_edges.double()
    return Case(values, weight, edges, (bins, (low, high)), equal)


def in_bins(weight: Tensor) -> Case:
    return between(-4, 4, 50, random(len(weight)), weight)


def of_all_magnitudes() -> Tensor:
    """Signs and magnitudes from 2^-149 to 2^127."""
    exponents = torch.rand(ELEMENTS, generator=torch.Generator().manual_seed(1)) * 276 - 149
    return torch.exp2(exponents.double()).float() * random(ELEMENTS, seed=2).sign()


def cancelling() -> Case:
    """All numbers and their opposites are in one bin, and one more weight."""
    wide = of_all_magnitudes()
    weight = shuffled(wide, -wide, torch.tensor([2.0**-149]))
    return between(-1, 1, 1, torch.zeros(len(weight)), weight)


def one_huge() -> Case:
    weight = torch.cat([torch.tensor([2.0**127]), torch.ones(ELEMENTS), -torch.tensor([2.0**127])])
    return between(-1, 1, 1, torch.zeros(len(weight)), weight)


def subnormal() -> Case:
    bits = torch.randint(1, 1 << 23, (ELEMENTS,), generator=torch.Generator().manual_seed(4))
    return in_bins(bits.int().view(torch.float32))


def equal(weight: float, count: int, dtype: torch.dtype = torch.float32) -> Case:
    """One element and one weight that strides of 0 repeat."""
    value = torch.zeros((), dtype=torch.float32).expand(count)
    repeated = torch.tensor(weight, dtype=dtype).expand(count)
    return between(0, 1, 1, value, repeated, equal=True)


def numpy_6040() -> Case:
    """Uniform values and float64 weights exp(-4 value)."""
    values = torch.rand(ELEMENTS, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    values = values * 10 - 10
    return between(-10, 0, 50, values, torch.exp(-4 * values))


def numpy_9465() -> Case:
    """Values of many magnitudes, whose weights are their inverses, in float32."""
    generator = torch.Generator().manual_seed(6)
    values = torch.pow(10, torch.rand(ELEMENTS, generator=generator) * 13 - 12)
    edges = torch.logspace(-12, 1, 101, dtype=torch.float64)
    return Case(values, 1 / values, edges)


def numpy_13879() -> Case:
    """Its weights, which are its values, as uint16."""
    values = [40017, 40324, 41151, 42109, 42897, 43388, 43756, 44380, 44569, 45578, 45589, 47422]
    found = torch.tensor(values, dtype=torch.uint16)
    return between(min(values), max(values), 20, found.int(), found)


def numpy_28823() -> Case:
    weight = torch.zeros(10)
    weight[2], weight[7] = 1, 1e-10
    edges = torch.linspace(0, 1, 11, dtype=torch.float64)
    return Case(edges[:-1], weight, edges)


CASES: dict[str, Callable[[], Case]] = {
    "normal": lambda: in_bins(random(ELEMENTS, seed=1)),
    "exp(10 normal)": lambda: in_bins(random(ELEMENTS, seed=1).mul(10).exp()),
    "2^-149 to 2^127, both signs": lambda: in_bins(of_all_magnitudes()),
    "x and -x, and once 2^-149": cancelling,
    "2^127, 100,000 times 1, -2^127": one_huge,
    "all subnormal": subnormal,
    "2^25 times 1": partial(equal, 1.0, 1 << 25),
    "2^26 times 0.1": partial(equal, 0.1, 1 << 26),
    "2^32 times 0.1": partial(equal, 0.1, 1 << 32),
    f"as {REPORT.format(6040)}": numpy_6040,
    f"like {REPORT.format(9465)}": numpy_9465,
    f"as {REPORT.format(13879)}": numpy_13879,
    f"as {REPORT.format(28823)}": numpy_28823,
}

# --- Who sums up ------------------------------------------------------------------------


def torch_histo_on(case: Case, device: str) -> Any:
    moved = case.values.to(device), case.edges.to(device)
    return histogram(*moved, weight=case.weight.to(device)).hist.cpu().numpy()


def bincount_on(case: Case, device: str) -> Any:
    """Between exact edges, so that all errors are those of sums."""
    places = torch.bucketize(case.values.double(), case.edges, right=True)
    places[case.values.double() == case.edges[-1]] -= 1
    weight = case.weight.to(torch.int32) if case.weight.dtype == torch.uint16 else case.weight
    found = torch.bincount(places.to(device), weight.to(device), len(case.edges) + 1)
    return found[1 : len(case.edges)].cpu().numpy()


def np_histogram(case: Case) -> Any:
    """Between edges: its cumulative sums are in the dtype of the weights."""
    arrays = case.values.numpy(), case.edges.numpy()
    with np.errstate(all="ignore"):
        return np.histogram(*arrays, weights=case.weight.numpy())[0]


def np_histogram_of_range(case: Case) -> Any:
    """So many bins: np.bincount adds in float64, and every 65,536 elements are rounded."""
    if case.uniform is None:
        return None
    with np.errstate(all="ignore"):
        return np.histogram(case.values.numpy(), *case.uniform, weights=case.weight.numpy())[0]


def cupy_histogram(case: Case) -> Any:
    import cupy

    arrays = (cupy.asarray(x.contiguous().numpy()) for x in (case.values, case.edges, case.weight))
    values, edges, weight = arrays
    return cupy.histogram(values, edges, weights=weight)[0].get()


def boost_histogram(case: Case) -> Any:
    import boost_histogram as bh

    edges = case.edges.clone()
    edges[-1] = math.nextafter(float(edges[-1]), math.inf)  # its last bin is open
    axis = bh.axis.Variable(edges.numpy())
    sums = bh.Histogram(axis, storage=bh.storage.Double())
    sums.fill(case.values.double().numpy(), weight=case.weight.numpy())
    return sums.view()


SUMS: dict[str, dict[str, Callable[[Case], Any]]] = {
    "cpu": {
        OURS: partial(torch_histo_on, device="cpu"),
        "np.histogram, bins and range": np_histogram_of_range,
        "np.histogram, edges": np_histogram,
        "torch.bincount": partial(bincount_on, device="cpu"),
        "boost-histogram": boost_histogram,
    },
    "cuda": {
        OURS: partial(torch_histo_on, device="cuda"),
        "cupy.histogram": cupy_histogram,
        "torch.bincount": partial(bincount_on, device="cuda"),
    },
}

# --- Errors -----------------------------------------------------------------------------


def rounded(exact: Fraction) -> float:
    try:
        return exact.numerator / exact.denominator  # rounded once
    except OverflowError:
        return math.copysign(math.inf, exact)


def measure(found: Any, exact: list[Fraction]) -> dict[str, Any]:
    """The largest error, and how many sums are not the exact ones, rounded once."""
    worst, wrong = 0.0, 0
    for number_, right in zip(found.tolist(), exact, strict=True):
        wrong += number_ != rounded(right)
        if not math.isfinite(number_) or (right == 0) != (number_ == 0):
            worst = math.inf
        elif right:
            worst = max(worst, float(abs(Fraction(number_) - right) / abs(right)))
    return {"error": worst, "wrong": wrong, "bins": len(exact)}


def errors(name: str, device: str, notes: list[str]) -> list[dict[str, Any]]:
    case = CASES[name]()
    exact = case.exact()
    found = []
    for who, sums in SUMS[device].items():
        if who != OURS and len(case.weight) > LARGE:
            continue
        try:
            result = sums(case)
        except ImportError as error:
            notes += [note] if (note := f"{who} left out: {error}") not in notes else []
            continue
        if result is None:
            continue
        measured = measure(result, exact)
        if who == OURS and measured["wrong"]:
            raise SystemExit(f"WRONG sums: {name}: {measured}")
        found.append({"weights": name, "sums": who, **measured})
    return found


def cell(record: dict[str, Any]) -> str:
    if not record["wrong"]:
        return "exact"
    error = "lost" if math.isinf(record["error"]) else f"{record['error']:.1g}"
    return f"{error} ({record['wrong']} of {record['bins']})"


def table(record: dict[str, Any]) -> str:
    """A row for weights, a column for who sums them up."""
    rows: dict[str, dict[str, str]] = {}
    for each in record["records"]:
        rows.setdefault(each["weights"], {})[each["sums"]] = cell(each)
    who = list(dict.fromkeys(each["sums"] for each in record["records"]))
    lines = [[name, *(cells.get(each, "") for each in who)] for name, cells in rows.items()]
    return common.markdown_table(["weights", *who], lines)


def with_table(text: str, record: dict[str, Any], name: str) -> str:
    place = rf"(<!-- of benchmarks/results/{re.escape(name)} -->\n).*?(<!-- end of the table -->)"
    return re.sub(place, lambda m: f"{m[1]}{table(record)}\n{m[2]}", text, flags=re.DOTALL)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--cases", type=common.regex, metavar="REGEX", default="")
    arguments = parser.parse_args()
    names = [name for name in CASES if arguments.cases.search(name)]
    if not names:
        parser.error(f"argument --cases: {arguments.cases.pattern!r} matches none of {[*CASES]}")
    device: str = arguments.device.type
    notes: list[str] = []
    records = [each for name in names for each in errors(name, device, notes)]
    record = {"machine": common.machine(arguments.device), "notes": notes, "records": records}
    text = (
        f"# Errors of sums of weights\n\n{common.describe(record)}\n\n"
        "The largest error of all bins, and how many sums are not the exact one, rounded once. "
        "Lost: 0 instead of a sum that is not 0, or the other way round, or no finite number.\n\n"
        f"{table(record)}"
    )
    name = common.result_name("accuracy", arguments.device)
    name = name.partition("-cpu-")[0] + "-cpu" if device == "cpu" else name
    common.write_results(arguments.out, name, record, "\n\n".join([text, *notes]))
    print(text)
    if arguments.out.resolve() == common.RESULTS and DOCUMENT.exists():
        DOCUMENT.write_text(with_table(DOCUMENT.read_text(), record, f"{name}.json"))


if __name__ == "__main__":
    main()
