"""Bad input is one line that names the argument, what was expected and what came."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import ALL_VARIANTS, STUDY_VARIANTS
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_histo

CHANNELS = torch.ops.histo.channel_histogram
LETTERS = torch.ops.histo.text_histogram
BYTES = torch.zeros(4, 3, dtype=torch.uint8)
KNOWN = ", ".join(ALL_VARIANTS)


def error_line(call: Callable[[], object]) -> str:
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value)


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.rand(4), 0.1, 0, torch.quint8)


# Of what, arguments, and the line.
CASES: dict[str, tuple[torch.Tensor, dict[str, Any], str]] = {
    "float": (
        torch.zeros(3),
        {},
        "input must have an integer or bool dtype, got float32",
    ),
    "bfloat16": (
        torch.zeros(3, dtype=torch.bfloat16),
        {},
        "input must have an integer or bool dtype, got bfloat16",
    ),
    "complex": (
        torch.zeros(3, dtype=torch.complex64),
        {},
        "input must have an integer or bool dtype, got complex64",
    ),
    "no bins": (BYTES, {"num_bins": 0}, "num_bins must be at least 1, got 0"),
    "negative bins": (BYTES, {"num_bins": -5}, "num_bins must be at least 1, got -5"),
    "dim too high": (BYTES, {"dim": 2}, "dim must be between -2 and 1 for a 2-D input, got 2"),
    "dim too low": (BYTES, {"dim": -3}, "dim must be between -2 and 1 for a 2-D input, got -3"),
    "dim of a number": (
        torch.tensor(1),
        {"dim": 1},
        "dim must be between -1 and 0 for a 0-D input, got 1",
    ),
    "dim twice": (
        BYTES,
        {"dim": [0, -2]},
        "dim must name each dimension once, got [0, -2]",
    ),
    "unknown variant": (
        BYTES,
        {"variant": "fast"},
        f"variant must be one of {KNOWN}, got 'fast'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_eager(device: torch.device, case: str) -> None:
    values, arguments, line = CASES[case]
    moved = values.to(device)
    assert error_line(lambda: CHANNELS(moved, **arguments)) == f"channel_histogram: {line}"
    typed = error_line(lambda: torch_histo.channel_histogram(moved, **arguments))
    assert typed == f"channel_histogram: {line}"


@pytest.mark.parametrize("case", CASES)
def test_meta(case: str) -> None:
    values, arguments, line = CASES[case]
    got = error_line(lambda: CHANNELS(values.to("meta"), **arguments))
    assert got == f"channel_histogram: {line}"


@pytest.mark.parametrize("case", CASES)
def test_compiled(device: torch.device, case: str) -> None:
    torch._dynamo.reset()  # else dims that differ between cases become symbols
    values, arguments, line = CASES[case]
    compiled = torch.compile(lambda x: CHANNELS(x, **arguments), fullgraph=True, backend="eager")
    assert f"channel_histogram: {line}" in error_line(lambda: compiled(values.to(device)))


@pytest.mark.parametrize("dtype", ["float8_e5m2", "uint4", "int4", "bits8", "float8_e8m0fnu"])
def test_rare_dtypes(dtype: str) -> None:
    """Eager calls and fake tensors give the very same line, whatever the dtype."""
    values = torch.zeros(4, dtype=torch.uint8).view(getattr(torch, dtype))
    line = f"channel_histogram: input must have an integer or bool dtype, got {dtype}"
    assert error_line(lambda: CHANNELS(values.to("meta"))) == line
    assert error_line(lambda: CHANNELS(values)) == line


def test_sparse(device: torch.device) -> None:
    sparse = BYTES.to(device).to_sparse()
    line = "channel_histogram: input must be a dense tensor, got layout sparse_coo"
    assert error_line(lambda: CHANNELS(sparse)) == line
    csr = torch.eye(3, dtype=torch.int64, device=device).to_sparse_csr()
    line = "channel_histogram: input must be a dense tensor, got layout sparse_csr"
    assert error_line(lambda: CHANNELS(csr)) == line


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_quantized(device: torch.device) -> None:
    line = "channel_histogram: input must have an integer or bool dtype, got quint8"
    assert error_line(lambda: CHANNELS(quantized().to(device))) == line


def test_another_device() -> None:
    name = "mps"
    with FakeTensorMode():
        values = torch.empty(4, 3, dtype=torch.uint8, device=name)
        line = error_line(lambda: CHANNELS(values))
        assert line == f"channel_histogram: input must be on a CPU or CUDA device, got {name}"
        line = error_line(lambda: LETTERS(values.view(-1)))
        assert line == f"text_histogram: text must be on a CPU or CUDA device, got {name}"


# How to make the input on a device, arguments, and the line; {} is the variant.
STUDY_CASES: dict[str, tuple[Callable[[str], torch.Tensor], dict[str, Any], str]] = {
    "dtype": (
        lambda device: torch.empty(4, 3, dtype=torch.int32, device=device),
        {},
        "input must be uint8 for variant '{}', got int32",
    ),
    "bool": (
        lambda device: torch.empty(4, 3, dtype=torch.bool, device=device),
        {},
        "input must be uint8 for variant '{}', got bool",
    ),
    "strides": (
        lambda device: torch.empty_strided((4, 3), (4, 1), dtype=torch.uint8, device=device),
        {},
        "input must be contiguous for variant '{}', got strides that are not",
    ),
    "dimensions": (
        lambda device: torch.empty(4, 3, 2, dtype=torch.uint8, device=device),
        {},
        "input must be 1-D, or 2-D and reduced over dim 0, for variant '{}', got a 3-D input",
    ),
    "dim": (
        lambda device: torch.empty(4, 3, dtype=torch.uint8, device=device),
        {"dim": 1},
        "input must be 1-D, or 2-D and reduced over dim 0, for variant '{}', "
        "got a 2-D input reduced over other dimensions",
    ),
    "bins": (
        lambda device: torch.empty(4, 3, dtype=torch.uint8, device=device),
        {"num_bins": 257},
        "num_bins must be between 1 and 256 for variant '{}', got 257",
    ),
}


@pytest.mark.parametrize("variant", STUDY_VARIANTS)
@pytest.mark.parametrize("case", STUDY_CASES)
def test_study_variants_on_cuda(case: str, variant: str) -> None:
    make, arguments, line = STUDY_CASES[case]
    line = "channel_histogram: " + line.format(variant)
    with FakeTensorMode():  # meets the same checks, without a GPU too
        fake = make("cuda")
        assert error_line(lambda: CHANNELS(fake, variant=variant, **arguments)) == line
    if torch.cuda.is_available():
        real = make("cuda")
        assert error_line(lambda: CHANNELS(real, variant=variant, **arguments)) == line
        torch._dynamo.reset()
        compiled = torch.compile(
            lambda x: CHANNELS(x, variant=variant, **arguments), fullgraph=True, backend="eager"
        )
        assert line in error_line(lambda: compiled(real))


def test_sequential_on_cuda() -> None:
    with FakeTensorMode():
        fake = torch.empty(4, dtype=torch.uint8, device="cuda")
        for op, name in ((CHANNELS, "channel_histogram"), (LETTERS, "text_histogram")):
            line = f"{name}: variant 'sequential' needs a CPU tensor, got one on cuda"
            assert error_line(lambda op=op: op(fake, variant="sequential")) == line
    if torch.cuda.is_available():
        line = "channel_histogram: variant 'sequential' needs a CPU tensor, got one on cuda"
        assert error_line(lambda: CHANNELS(BYTES.cuda(), variant="sequential")) == line


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (torch.zeros(2, 2, dtype=torch.uint8), "a 2-D uint8 tensor"),
        (torch.tensor(1, dtype=torch.uint8), "a 0-D uint8 tensor"),
        (torch.zeros(3, dtype=torch.int8), "a 1-D int8 tensor"),
        (torch.zeros(3), "a 1-D float32 tensor"),
    ],
)
def test_text(device: torch.device, text: torch.Tensor, got: str) -> None:
    line = f"text_histogram: text must be a 1-D uint8 tensor, got {got}"
    assert error_line(lambda: LETTERS(text.to(device))) == line
    assert error_line(lambda: torch_histo.text_histogram(text.to(device))) == line
    assert error_line(lambda: LETTERS(text.to("meta"))) == line
    compiled = torch.compile(LETTERS, fullgraph=True, backend="eager")
    assert line in error_line(lambda: compiled(text.to(device)))


def test_text_variant(device: torch.device) -> None:
    text = torch.zeros(3, dtype=torch.uint8, device=device)
    line = f"text_histogram: variant must be one of {KNOWN}, got ''"
    assert error_line(lambda: LETTERS(text, variant="")) == line


def test_not_tensors() -> None:
    line = "channel_histogram: input must be a torch.Tensor, got list"
    with pytest.raises(TypeError, match=f"^{re.escape(line)}$"):
        torch_histo.channel_histogram([1, 2])  # type: ignore[arg-type]
    line = "text_histogram: text must be a torch.Tensor, str or bytes, got int"
    with pytest.raises(TypeError, match=f"^{re.escape(line)}$"):
        torch_histo.text_histogram(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"num_bins": 2.0}, "num_bins must be an int of 64 bits, got 2.0"),
        ({"num_bins": 256.0}, "num_bins must be an int of 64 bits, got 256.0"),
        ({"num_bins": None}, "num_bins must be an int of 64 bits, got None"),
        ({"num_bins": 1 << 63}, "num_bins must be an int of 64 bits, got 9223372036854775808"),
        ({"variant": None}, "variant must be a str, got None"),
        ({"dim": 1.5}, "dim must be an int or a sequence of ints, got 1.5"),
        ({"dim": "0"}, "dim must be an int or a sequence of ints, got '0'"),
        ({"dim": None}, "dim must be an int or a sequence of ints, got None"),
        ({"dim": (0.5,)}, "dim must be an int or a sequence of ints, got (0.5,)"),
        ({"dim": (0, 0.5)}, "dim must be an int or a sequence of ints, got (0, 0.5)"),
    ],
)
def test_arguments_of_other_types(
    device: torch.device, arguments: dict[str, Any], line: str
) -> None:
    with pytest.raises(TypeError, match=f"^channel_histogram: {re.escape(line)}$"):
        torch_histo.channel_histogram(BYTES.to(device), **arguments)


def test_a_failed_call_leaves_no_trace(device: torch.device) -> None:
    for values, arguments, _ in CASES.values():
        error_line(lambda v=values, a=arguments: CHANNELS(v.to(device), **a))
    counts = CHANNELS(BYTES.to(device), 2)
    assert counts.tolist() == [[4, 0]] * 3
