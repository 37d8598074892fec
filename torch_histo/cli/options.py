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
from .messages import complain

PLOT_FORMATS = ("png", "pdf", "svg", "svgz", "ps", "eps", "jpg", "jpeg", "webp", "tif", "tiff")
"""The suffixes that a plot may have."""

BIN_RULES = ("auto", "fd", "rice", "sqrt", "sturges")
"""The rules that `torch_histo.histogram` takes for bins."""

WIDTH = 78
"""Most columns of the help."""

DESCRIPTION = """\
Count how often each value occurs in each channel of files, exactly.

Without FILE, a fixed sample of 131072 x 512 bytes is counted with every kernel
that the machine can run. The counts are checked against torch.histc, and the
times are compared with the fastest way to count the same with PyTorch alone.
Then a sample of floats is counted, and checked against numpy.histogram.
"""

EPILOG = """\
what a FILE is, by its content and its suffix:
  image   PNG, JPEG, GIF, TIFF, WebP, and by its suffix all else that Pillow
          decodes. A channel per colour: R, G, B and A; L (grey); C, M, Y, K.
          The colours of a palette are looked up. All frames of an animation
          and all pages of a TIFF are counted together, each as Pillow gives it
          on the way from the first to the last; they must have one mode.
          16-bit greyscale keeps its 16 bits. A note tells where Pillow
          reduces the samples of colours to 8 bits, where only one image of
          several in the file is counted, and where the end of a GIF is missing.
  array   NumPy .npy and .npz of integers, bool or floats, of any size, byte
          order and memory order, and .safetensors (needs the package
          safetensors), of bfloat16, float8 and float4 too. The tensors of
          files of torch.save (.pt, .pth, .bin), in dictionaries and lists that
          may hold each other; a file that holds other objects is refused.
          What model.safetensors.index.json names is read from the files beside
          it. The arrays of .npz and the tensors of a checkpoint are counted one
          by one, under the name FILE:NAME. The channels of integers lie along
          the last dimension. All floats are one channel, or one for each index
          of the first dimension with --per-channel; --dim chooses for both.
  table   CSV: .csv, .tsv, and text whose first lines are a table of numbers;
          and Parquet (needs the package pyarrow). Each column is an array under
          the name FILE:HEADER; --columns chooses some. Missing numbers are NaN.
  bytes   anything else: one channel; --channels N for N interleaved channels
          (byte i belongs to channel i modulo N). Files of
          known formats whose bytes are not their values are refused, by their
          first bytes or their suffix, with a line that says what to do:
          compressed ones, archives, pickles, HDF5, JSON, DICOM, NIfTI, HEIF,
          PDF, sounds, films and others. --channels 1 counts the bytes of any
          file.
  text    with --text only: how many of the letters a-d, e-h, i-l, m-p, q-t,
          u-x and y-z there are. Capitals and all other bytes are ignored.
  --text, --channels and --dim make every FILE text, bytes or an array,
  whatever it is. Files larger than memory are read in pieces (all but images,
  each frame of which is decoded as a whole, tables, and files of torch.save),
  with a progress bar if standard error is a terminal. A FILE whose name begins
  with a dash comes after --.

what a bin is:
  Integers (and bytes, and nearly all images): bin v holds the value v, for v
  from 0 up. --num-bins sets their number. With --bins, --range or --log they
  are counted as floats are, and so negative ones have bins, too.
  Floats (arrays, tensors, and images of floats): bins of equal width between
  the smallest and the largest finite value, or between the numbers of --range.
  A bin holds its first edge and not its last one, but the last bin holds both.
  --bins sets their number. Bytes, and images of integers, have bins between 0
  and 256, or 65536 for 16-bit images. With --log the edges are evenly spaced in
  their logarithms. Values outside are counted as underflow, overflow and NaN.

what is printed, on standard output:
  A table for each file: how many values were counted, how many were ignored
  because they lie outside the bins, and which option changes that. Then, for
  the first 8 channels, a line for each of at most 16 ranges of bins: its
  values, their number, their share of the channel, and a bar. The ranges cover
  the bins from the first to the last that is not empty in every channel.
  Of a file that holds several arrays, and floats among them, each array is a
  line, and so is each of its first 8 channels.
  With --json it is one document with all bins instead:
    {"files": [{"name", "kind", "dtype", "shape", "elements", "ignored",
                "below", "above", "num_bins",
                "bins": names of the bins of text or null, "note",
                "channels": [{"name", "counts": [num_bins integers]}, ...]},
               ...],
     "errors": [{"name", "error"}, ...]}
  Channels with edges also have "edges" (num_bins + 1 numbers), "underflow",
  "overflow" and "nan".
  With --summary and --quantiles there is a row of numbers for each array, and
  one for each channel of images and bytes, and of arrays with --per-channel or
  --dim. Quantiles are those of torch.nanquantile; an array must fit memory for
  them. Mean and standard deviation are of the finite values, exact but for one
  rounding; in JSON, "relative_error" bounds the error of both. An array has
  "elements", "nan", "inf", "zeros", "min", "max", "mean", "std", "quantiles" by
  q, and so has each of its "channels". NaN is null, and infinities are strings.
  With --weights there are "sums" instead of "counts"; "underflow", "overflow"
  and "nan" are sums, too; "weights" is the file, and "weight_dtype" its type.
  "below" and "above" are the integers that have no bin.
  With --joint a table has the counts of ranges of bins of the first, from top
  to bottom, and the second, from left to right. In JSON "axes" are the two,
  with "edges", "underflow", "overflow" and "nan"; "counts" has a list for each
  bin of the first. Both must fit memory. With --weights there are "sums", too.
  The shape of an image is [height, width, channels]. Elements, ignored and the
  counts are numbers of values; of the ignored ones, "below" lie below the first
  bin and "above" beyond the last one (both null for text). Each error is a line
  on standard error too, with or without --json; the other files are counted all
  the same.

exit status:
  0    every file was counted, or every kernel of the run without FILE was right
  1    a kernel counted wrong in the run without FILE
  2    a file could not be counted, the output or the plot could not be written,
       or the command line was wrong
  130  interrupted (Ctrl-C, SIGINT)
  141  the reader of standard output went away
  143  terminated (SIGTERM)

examples (python -m torch_histo is the same command):
  torch_histo
  torch_histo photo.jpg --plot histogram.png
  torch_histo --json activations.npy | python -m json.tool
  torch_histo --dim=0,1 --num-bins 1000 tokens.npy
  torch_histo model.safetensors --per-channel --bins 64 --range -0.5 0.5
  torch_histo gradients.npy --log --range 1e-9 1 --plot gradients.png
  torch_histo model.safetensors --summary --quantiles 0.01,0.5,0.99
  torch_histo people.csv --columns age score --bins 20
  torch_histo people.csv --joint age score --plot people.png
  torch_histo confidence.npy --bins 10 --range 0 1 --weights loss.npy
  torch_histo --text book.txt
  zcat samples.gz | torch_histo --channels 2 -
"""


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
