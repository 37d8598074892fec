"""The inputs that histograms are measured on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Case:
    """An input without its values: those are a distribution of `common` or of `bins`."""

    dtype: str
    shape: tuple[int, ...]
    dim: tuple[int, ...] = (0,)
    num_bins: int = 256
    bins: str = ""
    """A name of `bins.BINS`, for histogram. Integers need none."""
    weight: str = ""
    """The dtype of weights, and who shares one, if not each element has its own: "float32",
    "float32 for all", "float32 by channel" or "float32 by row"."""
    beside: str = ""
    """The dtypes of the other coordinates, with " in one" if all are the last dimension of one
    tensor: "float32" or "float32, float32 in one". Each axis has `num_bins`."""

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.torch_dtype.itemsize

    @property
    def kept(self) -> list[int]:
        """The shape with every dimension of `dim` as 1."""
        return [1 if d in self.dim else size for d, size in enumerate(self.shape)]

    @property
    def channels(self) -> int:
        return math.prod(self.kept)

    def __str__(self) -> str:
        """For example uint8 [2^20, 512], or int16 [64, 3, 224, 224] over (2, 3), 4096 bins."""
        shape = ", ".join(short(size) for size in self.shape)
        bins = f" {self.bins}" if self.bins else ""
        weight = f" + {self.weight}" if self.weight else ""
        if self.beside:
            axes = [str(self.num_bins)] * (2 + self.beside.count(","))
            over = f"{over_and_bins(self.dim, 256)}, {' x '.join(axes)} bins"
            return f"{self.dtype}, {self.beside} [{shape}]{over}{bins}"
        return f"{self.dtype} [{shape}]{weight}{over_and_bins(self.dim, self.num_bins)}{bins}"


def over_and_bins(dim: tuple[int, ...], num_bins: int) -> str:
    """The dimensions and bins, unless they are the usual ones: dimension 0 and 256 bins."""
    over = "" if dim == (0,) else f" over {dim}".replace(",)", ")")
    return over if num_bins == 256 else f"{over}, {short(num_bins)} bins"


def short(size: int) -> str:
    power = size.bit_length() - 1
    return f"2^{power}" if power >= 14 and size == 1 << power else str(size)


CASES = [
    # Bytes by rows: activations, from what caches hold to 4 GiB; whole words, lines, and neither.
    Case("uint8", (1 << 23, 512)),
    Case("uint8", (1 << 20, 512)),
    Case("uint8", (1 << 17, 512)),
    Case("uint8", (1 << 14, 512)),
    Case("uint8", (1 << 20, 511)),
    Case("uint8", (1 << 20, 500)),
    Case("uint8", (1 << 18, 2048)),
    Case("uint8", (1 << 22, 128)),
    Case("uint8", (1 << 20, 64)),
    Case("uint8", (1 << 29,)),
    # Bytes by planes, and images.
    Case("uint8", (512, 1 << 20), (1,)),
    Case("uint8", (64, 3, 1664, 1664), (2, 3)),
    Case("uint8", (64, 3, 1664, 1664), (0, 2, 3)),
    Case("uint8", (64, 1664, 1664, 3), (1, 2)),
    # 1 GiB of wider types, in one channel and in 64.
    Case("int16", (1 << 29,), num_bins=4096),
    Case("int16", (1 << 23, 64), num_bins=4096),
    Case("int32", (1 << 28,), num_bins=1024),
    Case("int32", (1 << 22, 64), num_bins=1024),
    Case("int64", (1 << 27,)),
    Case("int64", (1 << 21, 64)),
    # More bins than shared memory holds.
    Case("int32", (1 << 28,), num_bins=1 << 16),
    Case("int32", (1 << 28,), num_bins=1 << 20),
    # Small: tokens of experts.
    Case("int64", (1 << 16,)),
    Case("int32", (4096, 8), num_bins=128),
]

CPU_CASES = [
    Case("uint8", (1 << 26,)),
    # Activations: lines of a cache, parts of one, rows longer than a page.
    Case("uint8", (131_072, 512)),
    Case("uint8", ((1 << 26) // 3, 3)),
    Case("uint8", (1 << 20, 64)),
    Case("uint8", ((1 << 26) // 100, 100)),
    Case("uint8", (1 << 15, 2048)),
    Case("uint8", ((1 << 26) // 20_000, 20_000)),
    # Images.
    Case("uint8", (16, 1024, 1024, 3), (1, 2)),
    Case("uint8", (16, 3, 1024, 1024), (2, 3)),
    # Wider types: what a cache holds, and more.
    Case("int64", (1 << 20,)),
    Case("int32", (1 << 24,), num_bins=1024),
    Case("int32", (1 << 24,), num_bins=1 << 16),
    Case("int16", (1 << 25,), num_bins=4096),
    # The whole of a small call.
    Case("uint8", (1000,)),
]

# More inputs that numbers of csrc/cpu/tuning.h were chosen by: two ways of counting are as fast.
CPU_TUNING_CASES = [
    Case("uint8", (1 << 17,)),
    Case("uint8", (1 << 18,)),
    Case("uint8", (1 << 15, 2048), (1,)),
    Case("uint8", (3355, 8192)),
    Case("uint8", (3355, 16_384)),
    Case("uint8", (6710, 10_000)),
    Case("int64", (1 << 24,), num_bins=1 << 16),
]

QUICK = [
    Case("uint8", (1 << 14, 512)),
    Case("uint8", (1 << 16, 100)),
    Case("uint8", (1 << 22,)),
    Case("uint8", (64, 1 << 16), (1,)),
    Case("uint8", (8, 3, 256, 256), (0, 2, 3)),
    Case("uint8", (8, 256, 256, 3), (1, 2)),
    Case("int16", (1 << 16, 64), num_bins=4096),
    Case("int32", (1 << 22,), num_bins=1 << 16),
    Case("int64", (1 << 16,)),
    Case("int32", (4096, 8), num_bins=128),
]

# --- histogram --------------------------------------------------------------------------

# 16-bit floats: the checked formula is right in the first of their two ranges, not in the second.
HISTOGRAM_CASES = [
    Case("float32", (1 << 28,), bins="in (-3.7, 4.1)"),
    Case("float32", (1 << 28,), num_bins=2048, bins="in (-3.7, 4.1)"),
    Case("float32", (1 << 28,), num_bins=1 << 14, bins="in (-3.7, 4.1)"),
    Case("float32", (1 << 28,), num_bins=1 << 16, bins="in (-4, 4)"),
    Case("float64", (1 << 27,), bins="in (-3.7, 4.1)"),
    Case("float16", (1 << 29,), bins="in (1.75, 6.05)"),
    Case("float16", (1 << 29,), bins="in (-4, 4)"),
    Case("float16", (1 << 29,), bins="in (-3.7, 4.1)"),
    Case("float16", (1 << 29,), num_bins=2048, bins="in (1.75, 6.05)"),
    Case("float16", (1 << 29,), num_bins=2048, bins="in (-4, 4)"),
    Case("float16", (1 << 29,), num_bins=2048, bins="in (-3.7, 4.1)"),
    Case("bfloat16", (1 << 29,), bins="in (-3.7, 4.1)"),
    Case("bfloat16", (1 << 29,), bins="in (-4, 4)"),
    Case("bfloat16", (1 << 29,), num_bins=2048, bins="in (-3.7, 4.1)"),
    Case("bfloat16", (1 << 29,), num_bins=2048, bins="in (-4, 4)"),
    Case("float8_e4m3fn", (1 << 30,), bins="in (-4, 4)"),
    Case("float8_e5m2", (1 << 30,), bins="in (-4, 4)"),
    Case("uint8", (1 << 20, 512), num_bins=10, bins="in (0, 255)"),
    Case("uint8", (1 << 20, 512), num_bins=10, bins="own edges of bytes"),
    # Activations, a range a channel.
    Case("float32", (1 << 19, 512), bins="own ranges"),
    Case("float32", (1 << 22, 64), bins="own ranges"),
    Case("float32", (1 << 19, 512), num_bins=2048, bins="own ranges"),
    Case("bfloat16", (1 << 20, 512), num_bins=128, bins="own ranges"),
    Case("bfloat16", (1 << 20, 512), num_bins=128, bins="own even ranges"),
    Case("bfloat16", (1 << 20, 512), bins="own ranges"),
    Case("bfloat16", (1 << 20, 512), bins="own even ranges"),
    # Images, and channels one after another.
    Case("float32", (512, 1 << 19), (1,), bins="own ranges"),
    Case("float32", (64, 3, 1176, 1176), (2, 3), bins="in (0, 1)"),
    Case("float32", (64, 1176, 1176, 3), (1, 2), bins="in (0, 1)"),
    # Edges of any distances: there is one more than bins.
    Case("float32", (1 << 28,), num_bins=255, bins="by log edges"),
    Case("float32", (1 << 28,), num_bins=255, bins="by random edges"),
    Case("float32", (1 << 28,), num_bins=1548, bins="by TensorBoard's edges"),
    Case("float32", (1 << 28,), num_bins=2046, bins="by random edges"),
    # 64 MiB.
    Case("float32", (1 << 24,), bins="in (-3.7, 4.1)"),
    Case("float32", (1 << 15, 512), bins="own ranges"),
    # Two reads.
    Case("float32", (1 << 28,), bins="of all values"),
    Case("float32", (1 << 19, 512), bins="of all values"),
    # The whole of a small call.
    Case("float32", (1 << 16,), bins="in (-3.7, 4.1)"),
]

HISTOGRAM_CPU_CASES = [
    Case("float32", (1 << 24,), num_bins=255, bins="in (-3.7, 4.1)"),
    Case("float32", (1 << 24,), bins="in (-3.7, 4.1)"),
    Case("float32", (1 << 24,), num_bins=2048, bins="in (-3.7, 4.1)"),
    Case("float64", (1 << 23,), num_bins=255, bins="in (-3.7, 4.1)"),
    Case("float16", (1 << 24,), num_bins=255, bins="in (1.75, 6.05)"),
    Case("float16", (1 << 24,), num_bins=255, bins="in (-4, 4)"),
    Case("bfloat16", (1 << 24,), num_bins=255, bins="in (-3.7, 4.1)"),
    Case("bfloat16", (1 << 24,), num_bins=255, bins="in (-4, 4)"),
    Case("bfloat16", (1 << 24,), num_bins=2048, bins="in (-4, 4)"),
    Case("float8_e4m3fn", (1 << 25,), bins="in (-4, 4)"),
    Case("uint8", (131_072, 512), num_bins=10, bins="in (0, 255)"),
    Case("uint8", (131_072, 512), num_bins=10, bins="own edges of bytes"),
    Case("float32", (131_072, 64), num_bins=255, bins="own ranges"),
    Case("float32", (131_072, 64), bins="own ranges"),
    Case("float32", (64, 131_072), (1,), bins="own ranges"),
    Case("float32", (16, 512, 512, 3), (1, 2), bins="in (0, 1)"),
    Case("float32", (1 << 22,), num_bins=255, bins="by log edges"),
    Case("float32", (1 << 22,), num_bins=255, bins="by random edges"),
    Case("float32", (1 << 22,), num_bins=1548, bins="by TensorBoard's edges"),
    Case("float32", (1 << 24,), bins="of all values"),
    Case("float32", (1 << 16,), bins="in (-3.7, 4.1)"),
]

HISTOGRAM_QUICK = [
    Case("float32", (1 << 20,), num_bins=255, bins="in (-3.7, 4.1)"),
    Case("bfloat16", (1 << 20,), bins="in (-4, 4)"),
    Case("uint8", (1 << 12, 64), num_bins=10, bins="in (0, 255)"),
    Case("float32", (1 << 12, 64), bins="own ranges"),
    Case("float32", (1 << 18,), num_bins=255, bins="by log edges"),
    Case("float32", (1 << 16,), bins="of all values"),
]

# --- quantile ---------------------------------------------------------------------------

QUANTILE_CASES = [
    Case("float32", (1 << 28,), bins="median"),
    Case("float32", (1 << 28,), bins="nine quantiles"),
    Case("float64", (1 << 27,), bins="median"),
    Case("bfloat16", (1 << 29,), bins="median"),
    Case("float16", (1 << 29,), bins="nine quantiles"),
    Case("uint8", (1 << 30,), bins="median"),
    # Channels: columns, and rows of any length.
    Case("float32", (65_536, 512), bins="median"),
    Case("float32", (65_536, 512), bins="nine quantiles"),
    Case("float32", (512, 65_536), (1,), bins="median"),
    Case("float32", (4096, 100), (1,), bins="median"),
    # torch.quantile takes at most 2^24 values. Small inputs show what a call costs.
    Case("float32", (1 << 24,), bins="median"),
    Case("float32", (1 << 20,), bins="median"),
    Case("float32", (1 << 16,), bins="median"),
]

QUANTILE_CPU_CASES = [
    Case("float32", (1 << 24,), bins="median"),
    Case("float32", (1 << 24,), bins="nine quantiles"),
    Case("float64", (1 << 23,), bins="median"),
    Case("float64", (1 << 23,), bins="nine quantiles"),
    Case("bfloat16", (1 << 24,), bins="median"),
    Case("float32", (65_536, 64), bins="median"),
    Case("float32", (64, 65_536), (1,), bins="median"),
    Case("float32", (4096, 100), (1,), bins="median"),
    Case("float32", (1 << 16,), bins="median"),
]

QUANTILE_QUICK = [
    Case("float32", (1 << 20,), bins="median"),
    Case("bfloat16", (1 << 20,), bins="nine quantiles"),
    Case("float32", (1 << 12, 64), bins="nine quantiles"),
    Case("uint8", (1 << 16,), bins="median"),
]

# --- logging ----------------------------------------------------------------------------

LOGGING_CASES = [
    # 8.4 million values in 64 parameters, and in one.
    Case("float32", (64, 1 << 17), (1,), num_bins=64, bins="of all values"),
    Case("float32", (1, 1 << 23), (1,), num_bins=64, bins="of all values"),
]

LOGGING_QUICK = [Case("float32", (8, 1 << 10), (1,), num_bins=64, bins="of all values")]

# --- layers -----------------------------------------------------------------------------

LAYERS = {
    # A calibration, a logger or a quantizer meets them, one tensor after another.
    "transformer, activations": Case("bfloat16", (8192, 4096)),
    "transformer, MLP weight by output": Case("bfloat16", (4096, 11008), (1,)),
    "transformer, batch of tokens": Case("bfloat16", (2, 2048, 4096), (0, 1)),
    "CNN, first stage": Case("float32", (128, 64, 56, 56), (0, 2, 3)),
    "CNN, bottleneck": Case("float32", (32, 256, 56, 56), (0, 2, 3)),
    "ViT, tokens": Case("float16", (16, 197, 768), (0, 1)),
    "GNN, atoms": Case("float32", (2_000_000, 11)),
    "table of features": Case("float32", (1_000_003, 30)),
    "one tensor of 40 MB": Case("float32", (10_000_000,)),
    "one bias": Case("float32", (1000,)),
    # Short channels.
    "transformer, tokens by position": Case("bfloat16", (8192, 2048), (1,)),
    "ViT, tokens by image": Case("float16", (32, 197, 768), (1,)),
    "CNN, last stage but one": Case("float32", (256, 1024, 14, 14), (0, 2, 3)),
    "CNN, planes": Case("float32", (256, 1024, 14, 14), (2, 3)),
    "CNN, planes of 49": Case("float32", (16, 960, 7, 7), (2, 3)),
    "CNN, weight by output": Case("float32", (512, 512, 3, 3), (1, 2, 3)),
    "patches": Case("float32", (64, 577, 64), (1,)),
    # Layers of well-known models.
    "GPT-2, MLP weight": Case("float32", (3072, 768), (1,)),
    "GPT-2, embeddings by token": Case("float32", (50_257, 768), (1,)),
    "Llama 3 8B, down projection": Case("bfloat16", (4096, 14_336), (1,)),
    "Mixtral, weights by expert": Case("bfloat16", (8, 1792, 4096), (1, 2)),
    "BERT, hidden states": Case("float32", (32, 128, 768), (0, 1)),
    "BERT, attention by head": Case("float16", (32, 12, 128, 128), (0, 2, 3)),
    "KV cache by head": Case("bfloat16", (4, 32, 2048, 128), (0, 2)),
    "Whisper, encoder": Case("float16", (8, 1500, 1280), (0, 1)),
    "ConvNeXt, channels last": Case("float32", (32, 56, 56, 128), (0, 1, 2)),
    "U-Net, latents": Case("float16", (8, 320, 64, 64), (0, 2, 3)),
    "U-Net, volume": Case("float32", (2, 32, 96, 96, 96), (0, 2, 3, 4)),
    "DLRM, embeddings": Case("float32", (400_000, 64)),
    "ogbn-arxiv, features": Case("float32", (169_343, 128)),
    "PointNet, points": Case("float32", (32, 64, 2048), (0, 2)),
}
"""Layers of models and their names, before an operation is chosen."""

CPU_LAYERS = {
    "transformer, activations": Case("bfloat16", (2048, 4096)),
    "token embeddings by row": Case("float32", (4096, 1024), (1,)),
    "ViT, tokens": LAYERS["ViT, tokens"],
    "GNN, atoms": Case("float32", (200_000, 11)),
    "patches": LAYERS["patches"],
    "planes of 49": Case("float32", (20_000, 49), (1,)),
    "CNN, bottleneck": Case("float32", (4, 256, 28, 28), (0, 2, 3)),
    "ConvNeXt, channels last": Case("float32", (4, 56, 56, 128), (0, 1, 2)),
    "one tensor of 16 MB": Case("float32", (4_000_000,)),
    "one bias": LAYERS["one bias"],
    "GPT-2, MLP weight": LAYERS["GPT-2, MLP weight"],
    "Mixtral, weights by expert": Case("bfloat16", (8, 256, 1024), (1, 2)),
    "BERT, attention by head": Case("float16", (2, 12, 128, 128), (0, 2, 3)),
    "KV cache by head": Case("bfloat16", (1, 32, 512, 64), (0, 2)),
    "U-Net, volume": Case("float32", (1, 16, 32, 64, 64), (0, 2, 3, 4)),
    "PointNet, points": Case("float32", (4, 64, 2048), (0, 2)),
}
QUICK_LAYERS = {
    "tokens": Case("bfloat16", (64, 32)),
    "planes of 49": Case("float32", (40, 49), (1,)),
    "images": Case("float32", (2, 3, 8, 8), (0, 2, 3)),
    "one bias": Case("float32", (1000,)),
}

OPERATIONS = [
    ("in (-4.1, 4.3)", 256),
    ("of all values", 256),
    ("of all values", 2048),
    ("median", 256),
    ("extremes", 256),
    ("summary", 256),
]
"""What is asked of each layer; the last three have no bins."""


def asked_of(layers: dict[str, Case]) -> list[Case]:
    return [
        replace(layer, bins=bins, num_bins=num_bins)
        for layer in layers.values()
        for bins, num_bins in OPERATIONS
    ]


LAYER_CASES = asked_of(LAYERS)
LAYER_CPU_CASES = asked_of(CPU_LAYERS)
LAYER_QUICK = asked_of(QUICK_LAYERS)
NAMES_OF_LAYERS = {
    layer: name for layers in (QUICK_LAYERS, CPU_LAYERS, LAYERS) for name, layer in layers.items()
}
