"""Searches for bins with each instruction set of the CPU: all find what the oracle finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ENVIRONMENT

pytestmark = pytest.mark.sampled(2)

TESTS = Path(__file__).parent

# Each line of edges takes another search: a line, a step, cells of values or of bits, many steps.
CODE = """
import sys
import torch
from oracle import FLOATS, NUMBERS, assert_counts, histogram
torch.manual_seed(0)
inf = float("inf")

def edges_of(case):
    normal = torch.randn(301).sort()[0]
    few = torch.rand(300).sort()[0] * 1e-6
    crowded = torch.cat([torch.full((1,), -40.0), few, normal[-1:] + 50])
    subnormal = torch.arange(-150, 151).mul(3).int()
    magnitude = subnormal.abs().view(torch.float32)
    return {
        "powers": torch.arange(-64, 65) / 16,
        "bytes": torch.linspace(-4, 4, 256),
        "all bytes": torch.linspace(-4, 4, 257),
        "words": torch.linspace(-40, 90, 2049),
        "far": torch.linspace(1e6, 1e6 + 64, 100),
        "random": normal,
        "logarithmic": torch.logspace(-12, 12, 400),
        "close": torch.linspace(-4, 4, 256) + torch.arange(256) % 3 * 1e-5,
        "uneven": torch.linspace(-4, 4, 256) + torch.arange(256) % 3 * 3e-3,
        "crowded": crowded,
        "repeated": normal.round(decimals=1),
        "infinite": torch.tensor([-inf, -1.0, 0.0, 0.0, 2.0, inf]),
        "all": torch.cat([torch.tensor([-inf]), torch.arange(101), torch.tensor([inf])]),
        "subnormal": torch.where(subnormal < 0, -magnitude, magnitude),
        "one": torch.tensor([-1.0, 1.0]),
        "decrease": torch.tensor([0.0, 2.0, 1.0]),
        "nan": torch.tensor([0.0, float("nan"), 1.0]),
    }[case]

def values_on(edges, dtype, size):
    \"\"\"Edges, their neighbours, special values, and others between them.\"\"\"
    beside = [edges.nextafter(torch.tensor(end)) for end in (-inf, inf)]
    special = torch.tensor([0.0, -0.0, inf, -inf, float("nan"), -float("nan"), 1e-45, -1e-45, 3e38])
    numbers = torch.cat([edges, *beside, special, torch.randn(400) * 2, torch.randn(50) * 100])
    numbers = numbers[torch.randint(len(numbers), (size,))]
    if dtype not in FLOATS:
        numbers = numbers.nan_to_num().clamp(0, 100)
    return numbers.to(dtype)

CASES = ("powers,bytes,all bytes,words,close,uneven,far,random,logarithmic,crowded,repeated,"
         "infinite,all,subnormal,one,decrease,nan").split(",")

def counts(values, edges, dim, flow):
    torch.set_flush_denormal(sys.argv[1] == "flush")
    found = torch.ops.histo.histogram(values, edges, dim, flow=flow)
    torch.set_flush_denormal(False)
    return found

for case in CASES:
    edges = edges_of(case)
    for dtype in NUMBERS:
        values = values_on(edges, dtype, 4099)
        for view, flow in ((values, True), (values[1:], False), (values[::3], True)):
            expected = histogram(view, edges, flow=flow)
            assert_counts(counts(view, edges, None, flow), expected, (case, dtype, flow))

# From 2^18 values on, a channel has 16,384 cells instead of 4,096.
for case in ("random", "logarithmic", "crowded", "all"):
    edges = edges_of(case)
    for dtype in (torch.float32, torch.float64, torch.int64):
        values = values_on(edges, dtype, (1 << 18) + 5)
        expected = histogram(values, edges, flow=True)
        assert_counts(counts(values, edges, None, True), expected, (case, dtype))

# Channels side by side: each has edges of its own, and they take searches of all kinds.
# 256 bins without flow leave no key for what is outside.
for channels, n, flow in [(2, 101, True), (3, 257, False), (17, 101, True), (64, 257, False),
                          (64, 101, True), (600, 101, True), (600, 257, False)]:
    lines = [torch.linspace(-2 - c % 7, 3 + c % 5, n) for c in range(channels)]
    odds = (torch.randn(n).sort()[0], torch.randn(n), torch.logspace(-9, 9, n))
    for c, odd in enumerate(odds):
        lines[c * 5 % channels] = odd
    for edges in (torch.stack(lines), lines[-1]):
        for name in "float16 bfloat16 float32 float64 int16 int64".split():
            dtype = getattr(torch, name)
            wide = values_on(edges.flatten(), dtype, 700 * (channels + 1)).view(700, channels + 1)
            for view in (wide[:, :channels], wide[:, :channels].contiguous(), wide[:9, 1:]):
                about = (channels, n, dtype, edges.ndim)
                expected = histogram(view, edges, 0, flow=flow)
                assert_counts(counts(view, edges, 0, flow), expected, about)
"""


@pytest.mark.parametrize(
    ("loops", "flush"),
    [
        ("portable", "flush"),
        ("avx2", "keep"),
        ("", "flush"),
        *(
            pytest.param(*others, marks=pytest.mark.long)
            for others in (
                ("portable", "keep"),
                ("avx2", "flush"),
                ("avx512", "flush"),
                ("avx512", "keep"),
                ("", "keep"),
            )
        ),
    ],
)
def test_every_set_finds_the_bins_of_the_oracle(loops: str, flush: str) -> None:
    variables = {"TORCH_HISTO_CPU": loops, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{TESTS}"}
    ran = subprocess.run(
        [sys.executable, "-c", "import torch_histo\n" + CODE, flush],
        env={**ENVIRONMENT, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
