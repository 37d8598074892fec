"""Times SketchObserver beside PyTorch's HistogramObserver, one a channel.

The mean squared errors are those of the activations, quantized to 8 bits by the
ranges that were found, over those with the smallest and the largest value.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from observer import METHODS, SketchObserver
from torch import Tensor
from torch.ao.quantization.observer import HistogramObserver, MappingType, PerAxis


def quantized(x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return ((x / scale + zero).round().clamp(0, 255) - zero) * scale


def timed(call: Callable[[], object], device: str) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    call()
    if device != "cpu":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--channels", type=int, default=512)
    parser.add_argument("--rows", type=int, default=1 << 15)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    scales = torch.logspace(-2, 2, arguments.channels, device=arguments.device)
    tails = torch.distributions.StudentT(torch.tensor(4.0, device=arguments.device))
    batches = [tails.sample((arguments.rows, arguments.channels)) * scales for _ in range(4)]
    x = torch.cat(batches)

    low, high = x.amin(0), x.amax(0)
    widest = (high - low) / 255
    least = (quantized(x, widest, (-low / widest).round()) - x).square().mean(0)

    def row(
        name: str, update: Callable[[Tensor], object], qparams: Callable[[], tuple[Tensor, Tensor]]
    ) -> None:
        update(batches[0])  # the first call sets things up
        updating = min(timed(lambda b=b: update(b), arguments.device) for b in batches[1:])
        calculating = min(timed(qparams, arguments.device) for _ in range(2))
        error = ((quantized(x, *qparams()) - x).square().mean(0) / least).mean()
        print(f"{name:28} {updating:12.1f} {calculating:12.1f} {float(error):12.3f}")

    print(f"{arguments.channels} channels, {arguments.rows} rows a batch, on {arguments.device}")
    print(f"{'':28} {'update, ms':>12} {'qparams, ms':>12} mean squared error")
    for method in METHODS:
        sketched = SketchObserver(MappingType.ASYMMETRIC, torch.uint8, PerAxis(1), method=method)
        row(f"SketchObserver, {method}", sketched, sketched.calculate_qparams)
    theirs = [HistogramObserver().to(arguments.device) for _ in range(arguments.channels)]

    def update(batch: Tensor) -> None:
        for each, values in zip(theirs, batch.unbind(1), strict=True):
            each(values)

    def qparams() -> tuple[Tensor, Tensor]:
        scales, zeros = zip(*(each.calculate_qparams() for each in theirs), strict=True)
        return torch.cat(scales).to(arguments.device), torch.cat(zeros).to(arguments.device)

    row("HistogramObserver, a loop", update, qparams)


if __name__ == "__main__":
    main()
