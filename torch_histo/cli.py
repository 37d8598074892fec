"""The command line: counts the files it is given, or checks and times itself without any."""

from __future__ import annotations

import argparse
import io
import math
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import torch
from tqdm import tqdm  # type: ignore[import-untyped]

from . import demo, has_cuda_kernels, report
from .ops import channel_histogram, text_histogram
from .sources import SourceError, one_line, open_source, printable

MAX_COUNTS = 1 << 27
"""Most bins over all channels of a file: a GiB of counts."""

PROGRESS_DELAY = 0.5
"""Seconds that pass before a file gets a progress bar."""

PIPE_CLOSED = 141
SIGNALLED = 128
"""Plus the number of the signal: the status of who was ended by it."""

DESCRIPTION = """\
Count how often each value occurs in each channel of files, exactly.

Without FILE, a fixed sample of 131072 x 512 bytes is counted with every kernel that
the machine can run; the counts are checked against torch.histc, and the times are
compared with those of the fastest way to count the same with PyTorch alone.
"""

EPILOG = """\
what a FILE is, by its content and its suffix:
  image   PNG, JPEG, GIF, TIFF, WebP, and by its suffix all else that Pillow decodes.
          A channel per colour: R, G, B and A; L (grey); C, M, Y, K. The colours of a
          palette are looked up, all frames of an animation are counted together,
          16-bit greyscale keeps its 16 bits, and a note tells where Pillow reduces the
          samples of colours to 8 bits.
  array   NumPy .npy of integers or bool, of any size, byte order and memory order.
          The channels lie along the last dimension; --dim changes that.
          Floating-point images and arrays are refused: round them first.
  bytes   anything else: one channel; --channels N for N that take turns byte by byte
          (byte i of the file belongs to channel i modulo N).
  text    with --text only: how many of the letters a-d, e-h, i-l, m-p, q-t, u-x and
          y-z there are. Capitals and all other bytes are ignored.
  --text, --channels and --dim make every FILE text, bytes or an array, whatever it is.
  Files larger than memory are read in pieces (all but images, each frame of which is
  decoded as a whole), with a progress bar if standard error is a terminal.

what is printed, on standard output:
  a table for each file: how many values were counted and how many were ignored because
  they lie outside the bins; then, for the first 8 channels, a line for each of at most
  16 ranges of bins: its values, their number, their share of the channel, and a bar.
  With --json it is one document instead:
    {"files": [{"name", "kind", "dtype", "shape", "elements", "ignored", "num_bins",
                "bins": names of the bins of text or null, "note",
                "channels": [{"name", "counts": [num_bins integers]}, ...]}, ...],
     "errors": [{"name", "error"}, ...]}
  The shape of an image is [height, width, channels]; elements, ignored and the counts
  are numbers of values. Each error is a line on standard error too, with or without
  --json; the other files are counted all the same.

exit status:
  0    every file was counted, or every kernel of the run without FILE counted right
  1    a kernel counted wrong in the run without FILE
  2    a file could not be counted, the output or the plot could not be written, or the
       command line was wrong
  130  interrupted (Ctrl-C, SIGINT)
  141  the reader of standard output went away
  143  terminated (SIGTERM)

examples:
  python -m torch_histo
  python -m torch_histo photo.jpg --plot photo.png
  python -m torch_histo --json activations.npy | python -m json.tool
  python -m torch_histo --dim=0,1 --num-bins 1000 tokens.npy
  python -m torch_histo --text book.txt
  zcat samples.gz | python -m torch_histo --channels 2 -
"""


class _Terminated(BaseException):
    """What SIGTERM raises, as SIGINT raises KeyboardInterrupt."""


def terminate(signum: int, frame: object) -> NoReturn:
    """A handler of SIGTERM with which `main` closes what it opened before it returns."""
    raise _Terminated


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"torch_histo: {message} (--help tells more)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on `argv` (the process's arguments if None) and return its status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        arguments = _parse(argv)
        if sys.stdout is None:
            _complain("standard output is closed")
            return 2
        status = _count_files(arguments) if arguments.files else demo.run(arguments.device)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return SIGNALLED + signal.SIGINT
    except _Terminated:
        return SIGNALLED + signal.SIGTERM
    except OSError as error:
        # The interpreter flushes standard output once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return PIPE_CLOSED
        _complain(f"standard output: {one_line(error)}")
        return 2


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m torch_histo",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="what to count; - is standard input"
    )
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
        help="count an array over these dimensions, numbered from 0, or backwards from -1 "
        "(write --dim=-1); the others are its channels; 'all' for one channel "
        "(default: all dimensions but the last)",
    )
    parser.add_argument(
        "--num-bins",
        type=_positive,
        metavar="N",
        help="bins of a channel: value v is counted in bin v if 0 <= v < N, and ignored if not "
        "(default: all values from 0 up of an 8- or 16-bit type, so 256 for bytes, 65536 for "
        "16-bit images; 256 for wider types)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--plot",
        metavar="IMAGE",
        help="also draw all histograms into this file, a panel for each FILE; the suffix chooses "
        "the format, such as .png, .pdf or .svg; needs matplotlib",
    )
    parser.add_argument(
        "--device",
        type=_device,
        default="cuda" if torch.cuda.is_available() and has_cuda_kernels() else "cpu",
        help="where to count: cpu, cuda or cuda:INDEX (default here: %(default)s)",
    )
    arguments = parser.parse_args(argv)
    if arguments.text and arguments.num_bins is not None:
        parser.error("argument --num-bins: not allowed with argument --text, which has 7 bins")
    about_files = ("text", "channels", "dim", "num_bins", "json", "plot")
    given = [name for name in about_files if getattr(arguments, name) not in (None, False)]
    if given and not arguments.files:
        parser.error(f"argument --{given[0].replace('_', '-')}: needs at least one FILE")
    return arguments


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _dimensions(text: str) -> tuple[int, ...]:
    if text == "all":
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected whole numbers separated by commas, or all, got {text!r}"
        ) from None


def _device(text: str) -> torch.device:
    match = re.fullmatch(r"cpu|cuda(?::(\d{1,3}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected cpu, cuda or cuda:INDEX, got {text!r}")
    if text != "cpu":
        found = torch.cuda.device_count()
        if int(match[1] or 0) >= found:
            raise argparse.ArgumentTypeError(f"{text!r} is not there: found {found} CUDA devices")
        if not has_cuda_kernels():
            raise argparse.ArgumentTypeError(f"{text!r}: torch_histo was built for the CPU only")
    return torch.device(text)


def _count_files(arguments: argparse.Namespace) -> int:
    results: list[report.Result] = []
    errors: list[tuple[str, str]] = []
    for name in arguments.files:
        try:
            results.append(_count(name, arguments))
        except (SourceError, OSError, MemoryError, torch.OutOfMemoryError) as error:
            errors.append((name, one_line(error)))
            _complain(f"{name}: {errors[-1][1]}")
            continue
        if not arguments.json:
            print(report.table(results[-1], sys.stdout.encoding), flush=True)
    if arguments.json:
        print(report.as_json(results, errors), flush=True)
    if arguments.plot and results:
        try:
            report.plot(results, arguments.plot)
        except report.PlotError as error:
            _complain(str(error))
            return 2
    return 2 if errors else 0


def _count(name: str, arguments: argparse.Namespace) -> report.Result:
    """The histogram of one file, counted piece by piece."""
    reading = {"text": arguments.text, "channels": arguments.channels, "dim": arguments.dim}
    with open_source(name, **reading) as source:
        num_bins = arguments.num_bins or source.default_bins
        channels = math.prod(source.channel_shape)
        if channels * num_bins > MAX_COUNTS:
            raise SourceError(
                f"expected at most {MAX_COUNTS} bins in all channels, "
                f"got {channels} channels of {num_bins}"
            )
        shape = (*source.channel_shape, num_bins)
        counts = torch.zeros(shape, dtype=torch.int64, device=arguments.device)
        elements = 0
        progress = tqdm(
            desc=name,
            total=source.nbytes,
            unit="B",
            unit_scale=True,
            delay=PROGRESS_DELAY,
            leave=False,
            disable=not sys.stderr.isatty(),
        )
        with progress:
            for piece in source.pieces:
                values = piece.values.to(arguments.device)
                if source.kind == "text":
                    counts += text_histogram(values)
                else:
                    counts[piece.channels] += channel_histogram(values, num_bins, source.dim)
                elements += values.numel()
                progress.update(values.nbytes)
    return report.Result(
        name=name,
        kind=source.kind,
        dtype=source.dtype,
        shape=source.shape if source.shape is not None else (elements,),
        elements=elements,
        channel_names=source.channel_names or report.channel_names(source.channel_shape),
        counts=counts.reshape(-1, num_bins).cpu(),
        note=source.note,
    )


def _complain(message: str) -> None:
    print(f"torch_histo: {printable(message)}", file=sys.stderr, flush=True)
