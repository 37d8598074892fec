"""Tables and pictures of what bench.py measured."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import calls
import common
from cases import NAMES_OF_LAYERS, Case
from histogram_peers import HISTOGRAM_PEERS
from joint_peers import JOINT_PEERS
from layer_peers import LAYER_PEERS
from logging_peers import LOGGING_PEERS
from peers import OURS, PEERS
from quantile_peers import QUANTILE_PEERS
from weight_peers import WEIGHT_PEERS

Record = dict[str, Any]
Table = dict[Case, dict[str, dict[str, Record]]]
"""Records by case, distribution and implementation, each in the order of measurement."""

# Colours that also those tell apart who see few of them (Okabe and Ito, Tol), and a marker each.
MARKS = [
    ("#56B4E9", "D"),
    ("#D55E00", "s"),
    ("#E69F00", "^"),
    ("#009E73", "v"),
    ("#CC79A7", "P"),
    ("#000000", "x"),
    ("#7F7F7F", "+"),
    ("#332288", ">"),
    ("#882255", "<"),
    ("#B8A000", "*"),
    ("#D55E00", "s"),
    ("#E69F00", "^"),
    ("#009E73", "v"),
    ("#B8A000", "*"),
]
EVERY_PEER = (
    PEERS,
    HISTOGRAM_PEERS,
    LOGGING_PEERS,
    LAYER_PEERS,
    QUANTILE_PEERS,
    WEIGHT_PEERS,
    JOINT_PEERS,
)
STYLES = {
    OURS: ("#0072B2", "o"),
    **{
        name: mark
        for peers in EVERY_PEER
        for name, mark in zip([p.name for p in peers if p.name != OURS], cycle(MARKS), strict=False)
    },
}
IN_README = {
    ("float32", "in (-3.7, 4.1)"): "one range for all",
    ("float32", "own ranges"): "one range per channel",
    ("float32", "in (0, 1)"): "images, three colours each",
    ("float32", "by log edges"): "between 256 edges of your own",
}
"""What the README's table calls the first case of each."""
IN_PERFORMANCE = {
    "uint8 [2^23, 512]",
    "uint8 [2^17, 512]",
    "uint8 [2^14, 512]",
    "uint8 [2^29]",
    "uint8 [64, 3, 1664, 1664] over (2, 3)",
    "int16 [2^29], 4096 bins",
    "int64 [2^27]",
    "int32 [2^28], 2^16 bins",
    "int32 [4096, 8], 128 bins",
    "float32 [2^28] in (-3.7, 4.1)",
    "float32 [2^28], 2^14 bins in (-3.7, 4.1)",
    "float64 [2^27] in (-3.7, 4.1)",
    "bfloat16 [2^29] in (-3.7, 4.1)",
    "float8_e4m3fn [2^30] in (-4, 4)",
    "float32 [2^19, 512] own ranges",
    "float32 [64, 3, 1176, 1176] over (2, 3) in (0, 1)",
    "float32 [2^28], 255 bins by random edges",
    "float32 [2^28] of all values",
    "float32 [2^16] in (-3.7, 4.1)",
    "float32 [2^28] median",
    "float32 [2^28] nine quantiles",
    "bfloat16 [2^29] median",
    "float32 [2^16, 512] median",
    "float32 [2^16] median",
    "float32 [2^24], 255 bins in (-3.7, 4.1)",
    "float32 [2^24], 2048 bins in (-3.7, 4.1)",
    "bfloat16 [2^24], 255 bins in (-3.7, 4.1)",
    "float32 [2^17, 64] own ranges",
    "float32 [16, 512, 512, 3] over (1, 2) in (0, 1)",
    "float32 [2^22], 255 bins by random edges",
    "float32 [2^24] of all values",
    "float32 [2^24] median",
    "float32 [2^16, 64] median",
    "float32 [4096, 100] over (1) median",
}
"""The cases that people ask for; the results have all of them."""
DOCUMENTS = Path(__file__).parents[1]
PROCESSORS = {
    "AMD Zen 5 (an older commit)": "",
    "Intel Granite Rapids, with AMX (an older commit)": "granite-rapids/",
    "AMD Zen 4": "zen4/",
    "Intel Emerald Rapids": "emerald-rapids/",
    "AMD Zen 3, without AVX-512 (an older commit)": "zen3/",
}
"""The folder of the results of each processor."""


def table_of(record: Record) -> Table:
    table: Table = {}
    for row in record["records"]:
        sizes = (tuple(row["shape"]), tuple(row["dim"]), row["num_bins"])
        more = (row.get(name, "") for name in ("bins", "weight", "beside"))
        case = Case(row["dtype"], *sizes, *more)
        by_distribution = table.setdefault(case, {}).setdefault(row["distribution"], {})
        by_distribution[row["implementation"]] = row
    return table


def main_distribution(table: Table) -> str:
    """Uniform, unless something else was chosen."""
    found = next(iter(table.values()))
    return "uniform" if "uniform" in found else next(iter(found))


def shares(rows: dict[str, dict[str, Record]]) -> list[float]:
    """Ours, of all distributions."""
    return [row[OURS]["share"] for row in rows.values()]


def by_case(table: Table, *, every_peer: bool = True) -> str:
    main = main_distribution(table)
    measured = {name for rows in table.values() for name in rows[main]}
    shown = measured - {OURS} if every_peer else set()
    peers = [name for name in STYLES if name in shown]
    header = ["us", "read only", OURS, "share", "slowest", "fastest", "best peer", "share", *peers]
    lines = []
    for case, rows in table.items():
        row = rows[main]
        # The study kernel is no peer.
        others = [r for name, r in row.items() if not name.startswith(OURS)]
        best = max(others, key=lambda r: float(r["share"]), default=None)
        lines.append(
            [
                str(case),
                us(row[OURS]["read_only_seconds"]),
                us(row[OURS]["seconds"]),
                f"{row[OURS]['share']:.2f}",
                f"{min(shares(rows)):.2f}",
                f"{max(shares(rows)):.2f}",
                best["implementation"] if best else "",
                f"{best['share']:.3f}" if best else "",
                *(us(row[name]["seconds"]) if name in row else "" for name in peers),
            ]
        )
    return common.markdown_table(header, lines)


def us(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f}"


def by_distribution(table: Table) -> str:
    names = distributions(table)
    lines = [
        [str(case), *(f"{rows[name][OURS]['share']:.2f}" if name in rows else "" for name in names)]
        for case, rows in table.items()
    ]
    return common.markdown_table(["share of the limit", *names], lines)


LAYERS_IN_DOCUMENTS = 10


def by_layer(table: Table, most: int | None = None) -> str:
    """A row a layer, a column an operation: the time, and the shares of all distributions, or of
    the slowest one if few layers are shown."""
    main = main_distribution(table)
    layers: dict[Case, dict[str, str]] = {}
    for case, rows in table.items():
        operation = f"{case.bins}, {case.num_bins} bins" if "in" in case.bins else case.bins
        operation = f"{case.num_bins} {case.bins}" if case.bins == "of all values" else operation
        found = shares(rows)
        least = f"{min(found):.2f}"
        share = f"{least} to {max(found):.2f}" if most is None else least
        cell = f"{us(rows[main][OURS]['seconds'])} ({share})"
        layers.setdefault(replace(case, bins="", num_bins=256), {})[operation] = cell
    operations = list(dict.fromkeys(name for cells in layers.values() for name in cells))
    lines = [
        [f"{NAMES_OF_LAYERS.get(layer, '')}: {layer}", *(cells.get(o, "") for o in operations)]
        for layer, cells in list(layers.items())[:most]
    ]
    return common.markdown_table(["us (share of the limit)", *operations], lines)


def of_layers(record: Record) -> list[str]:
    """The parts of results that only layers have."""
    return [
        "Here the limit is to read the input, twice where the range is that of the values, and to "
        "write what is returned, counts and edges, into new memory. Shares are the least and the "
        "largest of all distributions.",
        by_layer(table_of(record)),
        "What a call costs the host, eager calls one after another:",
        calls.table(record["calls"], device_of(record)),
    ]


def device_of(record: Record) -> str:
    return "cpu" if record["machine"]["units"].endswith("threads") else "cuda"


def speedups(table: Table) -> str:
    """The speedup of several CPU threads over one, in the same turns."""
    names = distributions(table)
    lines = []
    for case, rows in table.items():
        found = {
            name: row[OURS]["one_thread_seconds"] / row[OURS]["seconds"]
            for name, row in rows.items()
        }
        cells = (f"{found[name]:.2f}" if name in found else "" for name in names)
        lines.append([str(case), *cells, f"{statistics.median(found.values()):.2f}"])
    return common.markdown_table(["times as fast as one thread", *names, "median"], lines)


def speeds(table: Table) -> str:
    """Elements a second, and against every peer that was measured on the same data."""
    names = distributions(table)
    lines = []
    for case, rows in table.items():
        rates = {name: math.prod(case.shape) / row[OURS]["seconds"] for name, row in rows.items()}
        ratios: dict[str, list[float]] = {}
        for row in rows.values():
            for peer, measured in row.items():
                if not peer.startswith(OURS):
                    ratio = measured["seconds"] / measured["torch_histo_seconds"]
                    ratios.setdefault(peer, []).append(ratio)
        least = {peer: min(found) for peer, found in ratios.items()}
        lines.append(
            [
                str(case),
                *(f"{rates[name] / 1e9:.2f}" if name in rates else "" for name in names),
                f"{max(rates.values()) / min(rates.values()):.2f}",
                ", ".join(f"{peer} {ratio:.2f}" for peer, ratio in least.items()),
            ]
        )
    header = ["G elements/s", *names, "fastest / slowest", "times as fast as, at least"]
    return common.markdown_table(header, lines)


def in_short(table: Table) -> str:
    """A few cases beside reading alone, and beside the fastest way that PyTorch has."""
    main = main_distribution(table)
    firsts = {(case.dtype, case.bins): case for case in reversed(table)}
    lines = []
    for kind, words in IN_README.items():
        if kind not in firsts:
            continue
        row = table[firsts[kind]][main]
        others = [r for name, r in row.items() if name.startswith(("torch.", "bucketize"))]
        best = min(others, key=lambda r: float(r["seconds"]))
        ratio = best["seconds"] / best["torch_histo_seconds"]
        case = replace(firsts[kind], bins="", num_bins=256)
        times = [us(row[OURS]["read_only_seconds"]), us(row[OURS]["seconds"])]
        lines.append([f"{words}: {case}", *times, f"{ratio:.1f} x: {best['implementation']}"])
    header = ["microseconds", "only reading", OURS, "fastest with PyTorch"]
    return common.markdown_table(header, lines)


def those_asked_for(table: Table) -> Table:
    return {case: rows for case, rows in table.items() if str(case) in IN_PERFORMANCE}


def by_case_in_short(table: Table) -> str:
    """A case's time, our shares over all distributions, and the fastest peer."""
    main = main_distribution(table)
    lines = []
    for case, rows in those_asked_for(table).items():
        row, found = rows[main], shares(rows)
        others = [r for name, r in row.items() if not name.startswith(OURS)]
        best = min(others, key=lambda r: float(r["seconds"]))
        times = best["seconds"] / best["torch_histo_seconds"]
        lines.append(
            [
                str(case),
                us(row[OURS]["seconds"]),
                f"{min(found):.2f} to {max(found):.2f}",
                f"{times:.1f} x: {best['implementation']}",
            ]
        )
    header = ["input", "microseconds", "share of the limit", "best peer"]
    return common.markdown_table(header, lines)


def speeds_in_short(table: Table) -> str:
    """Elements a second over all distributions, and the least ratio to any peer."""
    lines = []
    for case, rows in those_asked_for(table).items():
        rates = [math.prod(case.shape) / row[OURS]["seconds"] / 1e9 for row in rows.values()]
        ratio, peer = min(
            (measured["seconds"] / measured["torch_histo_seconds"], name)
            for row in rows.values()
            for name, measured in row.items()
            if not name.startswith(OURS)
        )
        rate = f"{min(rates):.2f} to {max(rates):.2f}"
        lines.append([str(case), rate, f"{ratio:.2f} x: {peer}"])
    return common.markdown_table(["input", "G elements/s", "best peer, at least"], lines)


def misplaced(table: Table) -> str:
    """The largest share of the values that each peer counts in a wrong bin, or in none; of sums
    of weights, of those that are not exact."""
    worst: dict[str, tuple[float, str]] = {}
    for case, rows in table.items():
        for distribution, row in rows.items():
            for name, measured in row.items():
                results = case.channels * case.num_bins if case.weight else math.prod(case.shape)
                share = measured.get("misplaced", 0) / results
                worst[name] = max(worst.get(name, (0.0, "")), (share, f"{case}, {distribution}"))
    lines = [[name, f"{share:.2g}", where] for name, (share, where) in worst.items()]
    of_weights = any(case.weight for case in table)
    wrong = "sums that are not exact, by sums" if of_weights else "wrong counts by elements"
    return common.markdown_table([wrong, "at most", "where"], lines)


def distributions(table: Table) -> list[str]:
    return list(dict.fromkeys(name for rows in table.values() for name in rows))


def markdown(record: Record) -> str:
    table = table_of(record)
    main = main_distribution(table)
    where = record["machine"]
    cuda = f", CUDA {where['cuda']}, driver {where['driver']}" if where["driver"] else ""
    # Results of one thread have none.
    has_speedups = all("one_thread_seconds" in rows[main][OURS] for rows in table.values())
    speedup = (
        f"{OURS}'s speed by distribution, with all threads over one that took turns with them:"
    )
    of_histogram = any(case.bins or case.weight for case in table)
    channels = "" if of_histogram else " torch counts channels as value + channel * bins."
    of_weights = any(case.weight for case in table)
    of_counts = "Peers may count wrong: the sum of the differences of their counts, by elements."
    of_sums = (
        "Peers round each addition, and may find a wrong bin: how many of their sums are not the "
        "exact one, rounded once."
    )
    wrong = [of_sums if of_weights else of_counts, misplaced(table)]
    return "\n\n".join(
        [
            f"# torch_histo and its peers\n\n{common.describe(record)}{cuda}",
            "Each input is dtype [shape]. It is reduced over dimension 0, and counted in 256 bins, "
            f"unless it says otherwise. Times are microseconds for {main} data. Shares are of the "
            "time that only reading the input takes, measured in turns with the rest; slowest and "
            f"fastest are torch_histo's shares over all distributions.{channels}",
            *(of_layers(record) if "calls" in record else []),
            by_case(table),
            f"{OURS}'s share of the limit by distribution; an entropy is that of each bit:",
            by_distribution(table),
            f"{OURS}'s speed by distribution, and the least of its ratios to each peer:",
            speeds(table),
            *([speedup, speedups(table)] if has_speedups else []),
            *(wrong if of_histogram else []),
            *(f"- {note}" for note in record["notes"]),
        ]
    )


def processors() -> str:
    """The slowest and the fastest of torch_histo's bytes on one thread of each processor."""
    lines = []
    for name, folder in PROCESSORS.items():
        found = f"{folder}bench-cpu-1-threads"
        record: Record = json.loads((common.RESULTS / f"{found}.json").read_text())
        rates = [
            case.bytes / rows[OURS]["seconds"] / 1e9
            for case, by_distribution in table_of(record).items()
            for rows in by_distribution.values()
            if case.dtype == "uint8" and case.bytes > 1 << 20
        ]
        linked = f"[{name}](../benchmarks/results/{found}.md)"
        lines.append([linked, f"{min(rates):.1f}", f"{max(rates):.1f}"])
    return common.markdown_table(["processor", "slowest", "fastest"], lines)


def document_table(document: str, record: Record) -> str:
    """The part of results that a document shows."""
    table = table_of(record)
    if document == "README.md":
        return in_short(table)
    if "calls" in record:
        host = calls.table(record["calls"], device_of(record))
        return f"\n{by_layer(table, LAYERS_IN_DOCUMENTS)}\n\n{host}\n"
    if document == "docs/weights.md":
        return by_case(table, every_peer=False)
    return speeds_in_short(table) if device_of(record) == "cpu" else by_case_in_short(table)


def with_table(document: str, text: str, record: Record, name: str) -> str:
    """The text of a document with the table of results in the place that names them."""
    place = rf"(<!-- of benchmarks/results/{re.escape(name)} -->\n).*?(<!-- end of the table -->)"
    return re.sub(
        place,
        lambda m: f"{m[1]}{document_table(document, record)}\n{m[2]}",
        text,
        flags=re.DOTALL,
    )


def with_processors(text: str) -> str:
    place = r"(<!-- of one thread on each processor -->\n).*?(<!-- end of the table -->)"
    return re.sub(place, lambda m: f"{m[1]}{processors()}\n{m[2]}", text, flags=re.DOTALL)


def write(record: Record, path: Path) -> None:
    """Tables and pictures beside the JSON at `path`, and tables in the documents."""
    text = markdown(record)
    path.with_suffix(".md").write_text(text + "\n")
    print(f"\n{text}\n\nWritten: {path} and .md")
    if path.resolve().parent == common.RESULTS:
        for document in ("README.md", "docs/performance.md", "docs/weights.md", "docs/joint.md"):
            file = DOCUMENTS / document
            text = with_table(document, file.read_text(), record, path.name)
            file.write_text(with_processors(text))
    if "calls" in record:
        return  # too many rows for a picture
    try:
        draw(record, path)
    except ImportError:
        print(f"No pictures: matplotlib is not installed. Elsewhere: bench.py --draw {path.name}")


# --- Pictures ---------------------------------------------------------------------------


def draw(record: Record, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    for figure, end in [(draw_cases(record), ""), (draw_distributions(record), "-distributions")]:
        picture = path.with_name(f"{path.stem}{end}.png")
        figure.savefig(picture, dpi=150, bbox_inches="tight", facecolor="white")
        print(f"Written: {picture}")
        plt.close(figure)


def draw_cases(record: Record) -> Any:
    """A row a case, a mark an implementation, and a line for ours over all distributions."""
    import matplotlib.pyplot as plt

    table = table_of(record)
    main = main_distribution(table)
    figure, axes = plt.subplots(figsize=(10, 1.8 + 0.34 * len(table)))
    axes.axvline(1, color="#404040", linewidth=1)
    blue = STYLES[OURS][0]
    found = [1, *(row["share"] for row in record["records"])]
    left, right = 0.0, 0.1 + max(found)
    if record["machine"]["units"].endswith("threads"):
        # From hundredths to more than 1, where a call costs more than reading.
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        left, right = 0.8 * min(found), 2 * max(found)
    for y, rows in enumerate(table.values()):
        # The neighbour that is drawn last is in front.
        for name, (colour, marker) in reversed(STYLES.items()):
            if name in rows[main]:
                size = 90 if name == OURS else 42
                share = rows[main][name]["share"]
                axes.scatter(share, y, s=size, c=colour, marker=marker, lw=1.5, zorder=3)
        axes.plot([min(shares(rows)), max(shares(rows))], [y, y], color=blue, lw=3, alpha=0.5)
        label = f"{rows[main][OURS]['share']:.2f}"
        axes.text(right, y, label, color=blue, weight="bold", va="center", ha="right")
    measured = {name for rows in table.values() for name in rows[main]}
    for name, (colour, marker) in STYLES.items():
        if name in measured:
            axes.scatter([], [], s=60, c=colour, marker=marker, lw=1.5, label=name)
    axes.set_yticks(range(len(table)), [str(case) for case in table])
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.set_xlim(left, right)
    axes.grid(color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.set_xlabel(
        f"time to only read the input / time to count it, {main} data "
        "(1 = bound by memory)\n"
        f"bar: {OURS} over {len(distributions(table))} distributions of the data"
    )
    title(axes, "Share of the read-only limit, by input", record)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return figure


def draw_distributions(record: Record) -> Any:
    """A row a case, a column a distribution: ours."""
    import matplotlib.pyplot as plt

    table = table_of(record)
    names = distributions(table)
    values = [
        [rows[name][OURS]["share"] if name in rows else float("nan") for name in names]
        for rows in table.values()
    ]
    figure, axes = plt.subplots(figsize=(1.6 + 0.95 * len(names), 1.6 + 0.34 * len(table)))
    axes.imshow(values, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    for y, row in enumerate(values):
        for x, share in enumerate(row):
            colour = "black" if share > 0.5 else "white"
            axes.text(x, y, f"{share:.2f}", color=colour, ha="center", va="center")
    axes.set_yticks(range(len(table)), [str(case) for case in table])
    axes.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("time to only read the input / time to count it; entropy is that of a bit")
    title(axes, f"{OURS}: share of the read-only limit, by distribution", record, 46)
    return figure


def title(axes: Any, text: str, record: Record, above: int = 8) -> None:
    """In points above the axes: what it is, and where it was measured."""
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "left"}
    axes.annotate(text, (0, 1), xytext=(0, above + 18), weight="bold", size=13, **place)
    where = common.describe(record)
    axes.annotate(where, (0, 1), xytext=(0, above), color="#606060", size=9, **place)
