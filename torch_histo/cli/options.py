"""The options of the command line: their help, and which go together. Nothing here needs torch."""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from .._version import __version__
from .help import DESCRIPTION, EPILOG
from .messages import complain

PLOT_FORMATS = ("png", "pdf", "svg", "svgz", "ps", "eps", "jpg", "jpeg", "webp", "tif", "tiff")
"""The suffixes that a plot may have."""

BIN_RULES = ("auto", "fd", "rice", "sqrt", "sturges")
"""The rules that `torch_histo.histogram` takes for bins."""

WIDTH = 78
"""Most columns of the help."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        complain(f"{message} (--help tells more)")
        self.exit(2)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options in `argv` (the process's arguments if None), or the end of the process."""
    parser = _parser()
    _add_what_is_read(parser)
    _add_bins(parser)
    _add_output(parser)
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may follow: nothing is counted
        with suppress(ImportError):
            import_module("argcomplete").autocomplete(parser)
        raise SystemExit(1)
    # Argparse takes a name after -- for an option, if no other FILE comes first.
    words = list(sys.argv[1:] if argv is None else argv)
    end = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_intermixed_args(words[:end])
    arguments.files += words[end + 1 :]
    given = [name for name, value in vars(arguments).items() if value not in (None, False)]
    _check_options_together(parser, arguments, given)
    _check_range(parser, arguments)
    return arguments


def _parser() -> _Parser:
    width = min(WIDTH, shutil.get_terminal_size().columns - 2)
    parser = _Parser(
        prog="torch_histo",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=width),
    )
    # Argparse knows -1, but takes -1e-3 and -inf for options.
    parser._negative_number_matcher = re.compile(
        r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|-inf$|-nan$", re.I
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="what to count; - is standard input"
    )
    parser.add_argument("--version", action="version", version=f"torch_histo {__version__}")
    return parser


def _add_what_is_read(parser: argparse.ArgumentParser) -> None:
    reading = parser.add_mutually_exclusive_group()
    reading.add_argument("--text", action="store_true", help="count the letters of text")
    reading.add_argument(
        "--channels",
        type=_positive,
        metavar="N",
        help="count bytes, in N interleaved channels (default: 1)",
    )
    reading.add_argument(
        "--dim",
        type=_dimensions,
        metavar="D,...",
        help="count arrays over these dimensions, numbered from 0, or backwards from -1 "
        "(write --dim=-1); the others are the channels; 'all' for one channel "
        "(default: all dimensions of floats; of integers all but the last)",
    )
    reading.add_argument(
        "--per-channel",
        action="store_true",
        help="count each index of the first dimension of arrays of floats as a channel; those of "
        "one dimension are one channel",
    )

    parser.add_argument(
        "--columns",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="count only these columns of a table, or arrays or tensors of other files, by their "
        "names; FILE comes before, and plain text is read as a table",
    )


def _add_bins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--num-bins",
        type=_positive,
        metavar="N",
        help="bins of a channel: value v is counted in bin v if 0 <= v < N, and ignored if not "
        "(default: all values from 0 up of bytes and images, so 256, or 65536 for 16-bit images; "
        "for arrays of wider types the largest value + 1, but at most 65536)",
    )
    parser.add_argument(
        "--bins",
        type=_bins,
        metavar="N",
        help="bins of equal width, of a channel of floats or integers (default: 256); or a rule "
        "of NumPy that finds their number for one channel whose values fit memory: auto, fd, rice, "
        "sqrt or sturges",
    )
    parser.add_argument(
        "--range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="the first and the last edge of these bins "
        "(default: the smallest and the largest finite value of each channel)",
    )
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="add up weights by bin instead of counting: an array of the shape of the one in FILE, "
        "in the same order of memory; sums of floats are exact and rounded once, those of "
        "integers are modulo 2^64",
    )
    parser.add_argument(
        "--joint",
        nargs=2,
        metavar=("X", "Y"),
        help="count the pairs of two columns, by their names, or of two channels: R and G of an "
        "image, 0 and 2 of an array (those of its last dimension, or see --dim and --per-channel); "
        "with --bins and --range for both, or 64 bins of floats",
    )
    parser.add_argument(
        "--log",
        action="store_true",
        help="space the edges of bins evenly in their logarithms, from a value above 0 on; "
        "for counts on a logarithmic scale see --log-counts",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--summary",
        action="store_true",
        help="print no bins, but a row of numbers for each array: extremes, mean, standard "
        "deviation, zeros, NaN and infinities",
    )
    parser.add_argument(
        "--quantiles",
        type=_quantiles,
        metavar="Q,...",
        help="print no bins, but these quantiles of each array, from 0 to 1, as in 0.01,0.5,0.99",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--plot",
        type=_picture,
        metavar="PICTURE",
        help="also draw the histograms into this new file, a panel for each of the first 100; the "
        "suffix chooses "
        "the format: .png, .pdf, .svg, .jpg, .webp, .tif or .eps; needs matplotlib",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="let --plot replace a file that exists; never one of the FILEs",
    )
    parser.add_argument(
        "--log-counts", action="store_true", help="let --plot show counts on a logarithmic scale"
    )
    parser.add_argument(
        "--device",
        type=_device,
        help="where to count: cpu, cuda or cuda:INDEX (default: cuda if there is a GPU and "
        "torch_histo was built for it, else cpu)",
    )


def _check_options_together(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, given: Sequence[str]
) -> None:
    """Refuses options that exclude each other, and those that lack the one they belong to."""
    if arguments.text and "num_bins" in given:
        parser.error("argument --num-bins: not allowed with argument --text, which has 7 bins")
    for name in ("text", "num_bins", "bins", "range", "log", "plot"):
        for other in ("summary", "quantiles"):
            if {name, other} <= set(given):
                parser.error(
                    f"argument {_option(name)}: not allowed with argument --{other}, "
                    "which prints numbers and no bins"
                )
    for name in ("bins", "range", "log"):
        if name in given and arguments.text:
            parser.error(f"argument --{name}: not allowed with argument --text, which has 7 bins")
    for name in ("text", "channels", "summary", "quantiles", "plot"):
        if {name, "weights"} <= set(given) and not (name == "plot" and "joint" in given):
            parser.error(f"argument {_option(name)}: not allowed with argument --weights")
    for name in ("weights", "joint", "log"):
        if name in given and isinstance(arguments.bins, str):
            parser.error(
                f"argument --bins: must be a number with argument --{name}, got {arguments.bins}"
            )
    for name in ("text", "channels", "joint"):
        if {name, "columns"} <= set(given):
            parser.error(f"argument {_option(name)}: not allowed with argument --columns")
    for name in ("text", "summary", "quantiles"):
        if {name, "joint"} <= set(given):
            parser.error(f"argument {_option(name)}: not allowed with argument --joint")
    if arguments.weights is not None and len(arguments.files) != 1:
        parser.error("argument --weights: needs one FILE whose values they belong to")
    if arguments.weights == "-":
        parser.error("argument --weights: must be the name of a file, got -")
    for name in ("overwrite", "log_counts"):
        if name in given and arguments.plot is None:
            parser.error(f"argument {_option(name)}: needs --plot")
    for name in given:
        if name not in ("files", "device") and not arguments.files:
            where = " before it" if name == "columns" else ""
            parser.error(f"argument {_option(name)}: needs at least one FILE{where}")


def _check_range(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.range is None:
        return
    low, high = arguments.range
    if not -math.inf < low < high < math.inf:
        parser.error(
            "argument --range: expected two finite numbers, the first below the second, "
            f"got {low:g} {high:g}"
        )
    if arguments.log and low <= 0:
        parser.error(f"argument --log: needs a --range from above 0, got {low:g} {high:g}")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _bins(text: str) -> int | str:
    if text in BIN_RULES:
        return text
    try:
        return _positive(text)
    except argparse.ArgumentTypeError as error:
        expected = str(error).replace(", got", f", or one of {', '.join(BIN_RULES)}, got")
        raise argparse.ArgumentTypeError(expected) from None


def _dimensions(text: str) -> tuple[int, ...]:
    if text == "all":
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected whole numbers separated by commas, or all, got {text!r}"
        ) from None


def _quantiles(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (math.nan,)
    if not all(0 <= q <= 1 for q in found):
        raise argparse.ArgumentTypeError(
            f"expected numbers from 0 to 1 separated by commas, got {text!r}"
        )
    return found


def _picture(text: str) -> str:
    if os.path.splitext(text)[1][1:].lower() not in PLOT_FORMATS:
        suffixes = ", ".join(f".{suffix}" for suffix in PLOT_FORMATS)
        raise argparse.ArgumentTypeError(f"expected a name that ends in {suffixes}, got {text!r}")
    return text


def _device(text: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"expected cpu, cuda or cuda:INDEX, got {text!r}")
    return text
