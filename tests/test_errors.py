"""Bad input is one line that names the argument, what was expected and what came."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import ALL_VARIANTS, STUDY_VARIANTS, expected_counts
from PIL import Image
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_histo

CHANNELS = torch.ops.histo.channel_histogram
LETTERS = torch.ops.histo.text_histogram
BYTES = torch.zeros(4, 3, dtype=torch.uint8)
KNOWN = ", ".join(ALL_VARIANTS)
ADVICE = ": torch_histo.histogram counts floats; or round it (input.float().round().long()) first"
NESTED = "must be a dense tensor, got a nested one: pass the tensors of its unbind()"


def error_line(call: Callable[[], object]) -> str:
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value)


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.rand(4), 0.1, 0, torch.quint8)


# The input, the arguments, and the line.
CASES: dict[str, tuple[torch.Tensor, dict[str, Any], str]] = {
    "float": (
        torch.zeros(3),
        {},
        f"input must have an integer or bool dtype, got float32{ADVICE}",
    ),
    "bfloat16": (
        torch.zeros(3, dtype=torch.bfloat16),
        {},
        f"input must have an integer or bool dtype, got bfloat16{ADVICE}",
    ),
    "complex": (
        torch.zeros(3, dtype=torch.complex64),
        {},
        "input must have an integer or bool dtype, got complex64: count the integers of input.real "
        "and of input.imag apart",
    ),
    "negative bins": (BYTES, {"num_bins": -1}, "num_bins must be at least 0, got -1"),
    "lowest bins": (
        BYTES,
        {"num_bins": -(1 << 63)},
        "num_bins must be at least 0, got -9223372036854775808",
    ),
    "dim too high": (BYTES, {"dim": 2}, "dim must be between -2 and 1 for a 2-D input, got 2"),
    "dim too low": (BYTES, {"dim": -3}, "dim must be between -2 and 1 for a 2-D input, got -3"),
    "dim of a number": (
        torch.tensor(1),
        {"num_bins": 4, "dim": 1},
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
    "variant of two lines": (
        BYTES,
        {"variant": "a\nb" + 99 * "c"},
        f"variant must be one of {KNOWN}, got 'a?b{37 * 'c'}...'",
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
    line += ADVICE if dtype.startswith("float") else ""
    assert error_line(lambda: CHANNELS(values.to("meta"))) == line
    assert error_line(lambda: CHANNELS(values)) == line


def test_sparse(device: torch.device) -> None:
    sparse = BYTES.to(device).to_sparse()
    line = "channel_histogram: input must be a dense tensor, got layout {}: pass its to_dense()"
    assert error_line(lambda: CHANNELS(sparse)) == line.format("sparse_coo")
    csr = torch.eye(3, dtype=torch.int64, device=device).to_sparse_csr()
    assert error_line(lambda: CHANNELS(csr)) == line.format("sparse_csr")


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_quantized(device: torch.device) -> None:
    line = "input must have an integer or bool dtype, got quint8: pass its int_repr()"
    got = error_line(lambda: CHANNELS(quantized().to(device)))
    assert got == f"channel_histogram: {line}"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested(device: torch.device, layout: torch.layout) -> None:
    parts = [BYTES[:, 0].to(device), BYTES[:3, 0].to(device)]
    nested = torch.nested.nested_tensor(parts, layout=layout)
    for call in (CHANNELS, torch_histo.channel_histogram):
        assert error_line(lambda call=call: call(nested)) == f"channel_histogram: input {NESTED}"
    for call in (LETTERS, torch_histo.text_histogram):
        assert error_line(lambda call=call: call(nested)) == f"text_histogram: text {NESTED}"
    with torch.inference_mode():  # jagged tensors are a subclass, whose name is all there is to say
        nested = torch.nested.nested_tensor(parts, layout=layout)
        line = error_line(lambda: torch_histo.channel_histogram(nested))
    got = NESTED if layout == torch.strided else "must be a dense tensor, got NestedTensor"
    assert line == f"channel_histogram: input {got}"


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors:UserWarning")
@pytest.mark.filterwarnings("ignore:channel_histogram is not implemented:UserWarning")
def test_subclass_without_a_rule() -> None:
    masked = torch.masked.masked_tensor(BYTES.int(), BYTES == 0)
    line = "channel_histogram: input must be a dense tensor, got MaskedTensor"
    assert error_line(lambda: torch_histo.channel_histogram(masked, 256)) == line


def test_none_through_the_dispatcher() -> None:
    line = "must be a torch.Tensor, got None"
    assert error_line(lambda: CHANNELS(None)) == f"channel_histogram: input {line}"
    assert error_line(lambda: LETTERS(None)) == f"text_histogram: text {line}"


@pytest.mark.parametrize("num_bins", [1 << 60, (1 << 63) - 1])
def test_more_bins_than_memory(device: torch.device, num_bins: int) -> None:
    name = device.type.upper()
    for call in (CHANNELS, torch_histo.channel_histogram):
        assert error_line(lambda call=call: call(BYTES.to(device), num_bins)) == (
            f"histo: {name} out of memory. Tried to allocate a tensor of shape [3, {num_bins}] "
            "int64 for the counts: pass a smaller num_bins, or fewer channels at a time"
        )
    assert error_line(lambda: CHANNELS(BYTES.to("meta"), num_bins)) == (
        "channel_histogram: the counts must take less than 2^63 bytes, "
        f"got {num_bins} for each channel"
    )


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
        "num_bins must be at most 256 for variant '{}', got 257",
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


@pytest.mark.parametrize("variant", STUDY_VARIANTS)
def test_what_study_variants_take_on_cuda(variant: str) -> None:
    with FakeTensorMode():
        for shape, num_bins in (((4, 3), 256), ((4,), 1), ((0, 3), 0)):
            fake = torch.empty(shape, dtype=torch.uint8, device="cuda")
            assert CHANNELS(fake, num_bins, variant=variant).shape == (*shape[1:], num_bins)


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


@pytest.mark.parametrize(
    "value",
    [
        [3, 1, 3],
        np.array([3, 1, 3], np.uint16),
        np.array([3, 1, 3], ">i4"),
        np.array([[3, 1, 3], [0, 2, 1]])[::-1, ::-2],
        np.broadcast_to(np.uint8(3), (4, 2)),
        np.uint8(3),
        Image.new("L", (4, 3), 7),
        [Image.new("L", (4, 3), 7)] * 2,
        [np.array([1, 2])] * 2,
        array("i", [3, 1, 3]),
        range(5),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("error::UserWarning")
def test_numbers_that_are_no_tensors(value: Any) -> None:
    """Functions count them as NumPy has them."""
    numbers = np.asarray(value)
    made = torch.from_numpy(numbers.astype(numbers.dtype.newbyteorder("=")).copy())
    assert torch.equal(torch_histo.channel_histogram(value, 9), expected_counts(made, 9))
    assert torch.equal(torch_histo.channel_histogram(value, bins=9), expected_counts(made, 9))
    hist = torch_histo.histogram(value, 4, range=(0, 8)).hist
    assert hist.tolist() == np.histogram(numbers, 4, (0, 8))[0].tolist()
    stream = torch_histo.StreamingHistogram(4, range=(0, 8))
    stream.update(value)
    assert torch.equal(stream.count, torch.tensor(numbers.size))
    assert torch_histo.summarize(value).max == numbers.max()
    assert torch_histo.quantile(value, 1.0) == numbers.max()


def test_the_advice_for_values_beyond_int64(device: torch.device) -> None:
    for values in (np.array([1 << 63, 5], np.uint64), np.array([7], np.uint64)):
        input = torch.from_numpy(values).to(device)
        line = error_line(lambda x=input: torch_histo.channel_histogram(x))
        advice = line.partition("num_bins=")[2].partition(" counts all")[0]
        assert eval(advice, {"input": input, "numpy": np}) == int(values.max()) + 1
        if device.type == "cpu":  # an array, too
            assert eval(advice, {"input": values, "numpy": np}) == int(values.max()) + 1


WITHOUT_DEFAULT = (
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint16, torch.uint32, torch.uint64),
)


@pytest.mark.parametrize("dtype", WITHOUT_DEFAULT, ids=str)
def test_values_outside_of_default_bins(device: torch.device, dtype: torch.dtype) -> None:
    """The functions ask for the number of bins, and the operators keep their default."""
    values = torch.tensor([100, 5, 100], dtype=dtype, device=device)
    name = str(dtype).removeprefix("torch.")
    line = f"channel_histogram: num_bins must be given for an input of {name}, got None: "
    for call in (
        lambda: torch_histo.channel_histogram(values),
        lambda: torch_histo.channel_histogram(values, weight=0.5),
        lambda: torch_histo.channel_histogram(values, variant="sequential"),
        lambda: torch_histo.explain(values),
        lambda: torch_histo.explain((3,), dtype=dtype),
    ):
        assert error_line(call).startswith(line)
    found = error_line(lambda: torch_histo.channel_histogram(values))
    assert ("negative" in found) == dtype.is_signed
    advice = found.partition("num_bins=")[2].partition(" counts all")[0]
    counts = torch_histo.channel_histogram(values, eval(advice, {"input": values, "numpy": np}))
    assert counts.sum() == 3
    assert torch.equal(torch_histo.channel_histogram(values, bins=101), counts)
    assert torch.equal(torch.ops.histo.channel_histogram(values)[:101], counts)
    sums = torch.ops.histo.weighted_channel_histogram(values, torch.ones(3, device=device))
    assert sums.shape[0] == 256


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8], ids=str)
def test_default_bins(device: torch.device, dtype: torch.dtype) -> None:
    values = torch.tensor([0, 1, 255], device=device).to(dtype)
    expected = torch.bincount(values.cpu().long(), minlength=256)
    assert torch.equal(torch_histo.channel_histogram(values).cpu(), expected)
    sums = torch_histo.channel_histogram(values, weight=2)
    assert torch.equal(sums.cpu(), 2 * expected)
    with pytest.raises(TypeError, match=r"^channel_histogram: bins must be left out with num_bins"):
        torch_histo.channel_histogram(values, 256, bins=256)


def test_bins_is_another_name() -> None:
    assert torch_histo.explain((10,), bins=3).num_bins == 3
    with pytest.raises(TypeError, match="bins must be left out with num_bins"):
        torch_histo.explain((10,), 4, bins=3)


def test_floats_of_a_list_are_float64() -> None:
    third = 1 / 3  # no float32
    assert torch_histo.quantile([third], 0.5).item() == third
    assert torch_histo.histogram([third], 1).bin_edges.dtype == torch.float64


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8"])
def test_floats_of_the_other_byte_order(dtype: str) -> None:
    assert torch_histo.quantile(np.array([0.5, 3.0], dtype), 1.0) == 3


@pytest.mark.parametrize(
    ("value", "got", "call"),
    [
        ([BYTES, BYTES], "list of Tensor", "torch.stack(input)"),
        ([BYTES, BYTES[:1]], "list of Tensor", "torch.cat(input)"),
        (
            [BYTES[0], BYTES[:, :1]],
            "list of Tensor",
            "torch.cat([part.flatten() for part in input])",
        ),
        (b"abc", "bytes", "torch.frombuffer(bytearray(input), dtype=torch.uint8)"),
        (
            memoryview(b"abc"),
            "memoryview",
            "torch.frombuffer(bytearray(input), dtype=torch.uint8)",
        ),
        (memoryview(array("i", [1, 256])), "memoryview", "numpy.asarray(input)"),
    ],
)
def test_the_call_that_makes_a_tensor(value: Any, got: str, call: str) -> None:
    line = f"channel_histogram: input must be {NUMBERS}, got {got}: "
    with pytest.raises(TypeError, match=f"^{re.escape(line)}pass {re.escape(call)}$"):
        torch_histo.channel_histogram(value)
    made = torch.as_tensor(eval(call, {"torch": torch, "numpy": np, "input": value}))
    assert torch.equal(torch_histo.channel_histogram(made, 256), expected_counts(made))


NUMBERS = "a tensor, an array, an image or a list of numbers"


def test_not_tensors() -> None:
    palette = Image.new("P", (4, 3))
    masked = np.ma.masked_array([1, 2], [True, False])
    for value, got in (
        (None, "NoneType"),
        (palette, "Image: pass input.convert('RGB')"),
        (masked, "MaskedArray: pass input.compressed()"),
        ({}, "dict"),
        ("abc", "str"),
        (7, "int: pass [input]"),
        (1 << 64, "int"),
        (iter([7]), "list_iterator: pass list(input)"),
        ({7}, "set: pass list(input)"),
        ({"a"}, "set"),
    ):
        line = f"channel_histogram: input must be {NUMBERS}, got {got}"
        with pytest.raises(TypeError, match=f"^{re.escape(line)}$"):
            torch_histo.channel_histogram(value)
    for text, line in (
        ({}, "a tensor, an array, a str or bytes, got dict"),
        ([97, 256], "a list of numbers from 0 to 255, got [97, 256]"),
        ((0.5,), "a list of numbers from 0 to 255, got (0.5,)"),
    ):
        with pytest.raises(TypeError, match=f"^text_histogram: text must be {re.escape(line)}$"):
            torch_histo.text_histogram(text)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"nbins": 3}, "nbins must be passed as num_bins, got nbins=3"),
        ({"num_bins": 4, "bins": 3}, "bins must be left out with num_bins, got both"),
        ({"minlength": 3}, "minlength must be passed as num_bins, got minlength=3"),
        ({"axis": 1}, "axis must be passed as dim, got axis=1"),
        (
            {"range": (2, 9)},
            "range must be left out: bins are 0 to num_bins - 1, so shift the input, "
            "got range=(2, 9)",
        ),
        *(
            (
                {name: 9},
                f"{name} must be left out: bins are 0 to num_bins - 1, so shift the input, "
                f"got {name}=9",
            )
            for name in ("min", "max")
        ),
        (
            {"keepdim": True},
            "arguments must be input, num_bins, dim, channel_dim, weight or variant, got "
            "keepdim=True",
        ),
    ],
)
def test_keywords_of_other_functions(arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(TypeError, match=f"^channel_histogram: {re.escape(line)}$"):
        torch_histo.channel_histogram(BYTES, **arguments)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"num_bins": 2.0}, "num_bins must be an int of 64 bits, got 2.0"),
        ({"num_bins": 256.0}, "num_bins must be an int of 64 bits, got 256.0"),
        ({"num_bins": [3]}, "num_bins must be an int of 64 bits, got [3]"),
        ({"num_bins": 1 << 63}, "num_bins must be an int of 64 bits, got 9223372036854775808"),
        ({"variant": None}, "variant must be a str, got None"),
        ({"dim": 1.5}, "dim must be an int or a sequence of ints, got 1.5"),
        ({"dim": "0"}, "dim must be an int or a sequence of ints, got '0'"),
        ({"dim": (0.5,)}, "dim must be an int or a sequence of ints, got 0.5"),
        ({"dim": (0, None)}, "dim must be an int or a sequence of ints, got None"),
        ({"dim": True}, "dim must be an int or a sequence of ints, got True"),
        ({"dim": np.array([0, 1])}, "dim must be an int or a sequence of ints, got array([0, 1])"),
        ({"dim": torch.tensor(0.0)}, "dim must be an int or a sequence of ints, got tensor(0.)"),
        ({"dim": 1 << 63}, f"dim must be an int or a sequence of ints of 64 bits, got {1 << 63}"),
        (
            {"dim": [0, -(1 << 64)]},
            f"dim must be an int or a sequence of ints of 64 bits, got [0, {-(1 << 64)}]",
        ),
        ({"num_bins": True}, "num_bins must be an int of 64 bits, got True"),
        ({"num_bins": "8"}, "num_bins must be an int of 64 bits, got '8'"),
        ({"num_bins": torch.tensor(4.9)}, "num_bins must be an int of 64 bits, got tensor(4.9000)"),
        ({"num_bins": torch.tensor(True)}, "num_bins must be an int of 64 bits, got tensor(True)"),
        (
            {"num_bins": torch.arange(2)},
            "num_bins must be an int of 64 bits, got tensor([0, 1])",
        ),
        (
            {"num_bins": torch.tensor(4, device="meta")},
            "num_bins must be an int of 64 bits, got tensor(..., device='meta', size=(), "
            "dtype=torch.int64): pass its item(), which waits for the device",
        ),
        ({"num_bins": np.float64(8)}, "num_bins must be an int of 64 bits, got np.float64(8.0)"),
        (
            {"num_bins": np.uint64((1 << 64) - 1)},
            f"num_bins must be an int of 64 bits, got {(1 << 64) - 1}",
        ),
        (
            {"num_bins": 99 * "8"},
            f"num_bins must be an int of 64 bits, got '{76 * '8'}...",
        ),
    ],
)
def test_arguments_of_other_types(
    device: torch.device, arguments: dict[str, Any], line: str
) -> None:
    with pytest.raises(TypeError, match=f"^channel_histogram: {re.escape(line)}$"):
        torch_histo.channel_histogram(BYTES.to(device), **arguments)


@pytest.mark.parametrize("argument", ["num_bins", "dim"])
def test_arguments_that_vmap_maps(device: torch.device, argument: str) -> None:
    def count(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return torch_histo.channel_histogram(x, **{argument: n})

    with pytest.raises(TypeError, match=rf"^channel_histogram: {argument} must be an int .*$"):
        torch.vmap(count)(BYTES.to(device), torch.arange(4, device=device))


def test_arguments_of_compiled_code() -> None:
    """The line is part of what the compiler says, and is all that a program says without it."""
    for num_bins, got in ((4.9, "float"), (torch.tensor(4.9), "Tensor")):
        torch._dynamo.reset()
        line = f"channel_histogram: num_bins must be an int of 64 bits, got {got}"

        def count(x: torch.Tensor, n: Any = num_bins) -> torch.Tensor:
            return torch_histo.channel_histogram(x, n)

        with pytest.raises(torch._dynamo.exc.Unsupported, match=re.escape(line)):
            torch.compile(count, fullgraph=True, backend="eager")(BYTES)
        with pytest.raises(TypeError, match=r"^channel_histogram: num_bins must be an int"):
            torch.compile(count, backend="eager")(BYTES)


def test_a_failed_call_leaves_no_trace(device: torch.device) -> None:
    for values, arguments, _ in CASES.values():
        error_line(lambda v=values, a=arguments: CHANNELS(v.to(device), **a))
    counts = CHANNELS(BYTES.to(device), 2)
    assert counts.tolist() == [[4, 0]] * 3
