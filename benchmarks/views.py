"""Times views that are not contiguous, beside contiguous tensors of their shape.

A view is a box of a larger tensor, or begins at an address that is no multiple
of anything. Its counts are checked against those of a contiguous copy. Prints
the results, and writes them to JSON and Markdown: the time of both, and their
ratio, which is 1 if the strides cost nothing. Also the bytes of the view, and
of the memory that must be read for it: a GPU reads 64 bytes at once, so also
what lies beside the rows. Times are medians, on CUDA of graph replays over
rotated inputs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import common
import torch
from cases import over_and_bins
from torch import Tensor
from tqdm import tqdm

from torch_histo import channel_histogram


@dataclass(frozen=True)
class View:
    """The last elements of every dimension of a tensor of the sizes `of`."""

    shape: tuple[int, ...]
    of: tuple[int, ...]
    dim: tuple[int, ...] = (0,)
    dtype: str = "uint8"
    num_bins: int = 256

    def cut(self, whole: Tensor) -> Tensor:
        return whole[tuple(slice(n - k, n) for k, n in zip(self.shape, self.of, strict=True))]

    def __str__(self) -> str:
        counted = over_and_bins(self.dim, self.num_bins)
        return f"{self.dtype} {list(self.shape)} of {list(self.of)}{counted}"


VIEWS = [
    # Rows at any address and any distance.
    View((1 << 18, 512), (1 << 18, 513)),
    View((1 << 18, 511), (1 << 18, 512)),
    View((1 << 18, 511), (1 << 18, 1023)),
    View((1 << 18, 500), (1 << 18, 640)),
    View((1 << 20, 100), (1 << 20, 128)),
    View((1 << 21, 64), (1 << 21, 65)),
    View((1 << 21, 60), (1 << 21, 64)),
    View((1 << 22, 20), (1 << 22, 32)),
    View((1 << 25, 3), (1 << 25, 4)),
    View((1 << 26, 1), (1 << 26, 2)),
    View((1 << 21, 32), (1 << 21, 33), dtype="int16"),
    View((1 << 20, 64), (1 << 20, 65), dtype="int16", num_bins=4096),
    View((1 << 20, 32), (1 << 20, 33), dtype="int32", num_bins=1024),
    View((1 << 20, 16), (1 << 20, 17), dtype="int64"),
    # Crops of images and of activations.
    View((16, 3, 1664, 1664), (16, 3, 1700, 1701), (2, 3)),
    View((16, 3, 1664, 1664), (16, 3, 1700, 1701), (0, 2, 3)),
    View((16, 1664, 1664, 3), (16, 1700, 1701, 3), (1, 2)),
    View((16, 1664, 1664, 3), (16, 1700, 1701, 4), (0, 1, 2)),
    View((32, 250, 256, 64), (32, 260, 266, 64), (0, 1, 2)),
    View((32, 250, 256, 64), (32, 260, 266, 65), (0, 1, 2)),
    View((32, 140, 140, 200), (32, 150, 151, 200), (0, 1, 2)),
    View((32, 90, 90, 512), (32, 100, 101, 512), (1, 2)),
    View((32, 90, 90, 511), (32, 100, 101, 511), (0, 1, 2)),
    View((8, 3, 1664, 1664), (8, 3, 1700, 1701), (2, 3), dtype="int16"),
    View((16, 250, 256, 64), (16, 260, 266, 64), (0, 1, 2), dtype="int16"),
    View((8, 250, 256, 64), (8, 260, 266, 64), (0, 1, 2), dtype="int32", num_bins=1024),
    View((100_000, 3, 20, 20), (100_000, 3, 24, 25), (0, 2, 3)),
    # One channel after another.
    View((512, 1 << 18), (512, (1 << 18) + 1), (1,)),
    View((1 << 12, 1 << 15), (1 << 12, (1 << 15) + 1), (1,)),
    View((1 << 17, 1000), (1 << 17, 1001), (1,)),
]
QUICK = [
    View((1 << 10, 60), (1 << 10, 64)),
    View((2, 3, 90, 91), (2, 3, 100, 101), (2, 3)),
    View((2, 40, 50, 48), (2, 44, 52, 48), (0, 1, 2), dtype="int32", num_bins=1024),
]
SECTOR_PAIR = 64
"""Bytes that memory hands out at once."""


def bytes_touched(view: View) -> int:
    """At most: the pairs of sectors in which a stretch of the view lies, wherever that begins."""
    size = getattr(torch, view.dtype).itemsize
    stretch, stretches = size, math.prod(view.shape)
    for kept, whole in zip(reversed(view.shape), reversed(view.of), strict=True):
        stretch, stretches = stretch * kept, stretches // kept
        if kept != whole:
            break
    whole_bytes = math.prod(view.of) * size
    return min(stretches * (stretch + SECTOR_PAIR), whole_bytes)


def measure(view: View, device: torch.device) -> dict[str, Any]:
    dtype = getattr(torch, view.dtype)
    whole = common.rotated_inputs(view.of, "uniform", device, dtype, view.num_bins)
    views = [view.cut(x) for x in whole]
    run = partial(channel_histogram, num_bins=view.num_bins, dim=view.dim)
    twins = [x.contiguous() for x in views]
    for x, twin in zip(views[:2], twins, strict=False):
        if not torch.equal(run(x), run(twin)):
            raise SystemExit(f"WRONG counts of {view}")
    seconds = common.graph_seconds(run, views)
    contiguous = common.graph_seconds(run, twins)
    return {
        **asdict(view),
        "seconds": seconds,
        "contiguous_seconds": contiguous,
        "ratio": contiguous / seconds,
        "bytes": math.prod(view.shape) * dtype.itemsize,
        "bytes_touched": bytes_touched(view),
    }


def table(records: list[dict[str, Any]], views: list[View]) -> str:
    header = ["", "contiguous us", "view us", "ratio", "MB", "MB of lines"]
    rows = [
        [
            str(view),
            f"{r['contiguous_seconds'] * 1e6:.1f}",
            f"{r['seconds'] * 1e6:.1f}",
            f"{r['ratio']:.2f}",
            f"{r['bytes'] / 1e6:,.1f}",
            f"{r['bytes_touched'] / 1e6:,.1f}",
        ]
        for r, view in zip(records, views, strict=True)
    ]
    return common.markdown_table(header, rows)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs only, to try it out")
    arguments = parser.parse_args()
    views = QUICK if arguments.quick else VIEWS
    records = [measure(view, arguments.device) for view in tqdm(views, disable=None)]
    record = {"machine": common.machine(arguments.device), "records": records}
    markdown = "\n\n".join(
        [
            f"# Views that are not contiguous\n\n{common.describe(record)}",
            "A view is the last elements of every dimension of a larger tensor. `ratio` is the "
            "time of a contiguous tensor of its shape to the view's; the last column is what the "
            "view needs of memory, which hands out 64 bytes at once.",
            table(records, views),
        ]
    )
    print("\n" + markdown)
    name = common.result_name("views", arguments.device)
    common.write_results(arguments.out, name, record, markdown)


if __name__ == "__main__":
    main()
