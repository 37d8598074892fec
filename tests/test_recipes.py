"""The recipes, against formulas and libraries that count in other ways, and their length."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from oracle import assert_counts, expected_counts, random_values
from PIL import Image, ImageOps

RECIPES = Path(__file__).parents[1] / "examples" / "recipes"
NAMES = {path.stem: runpy.run_path(str(path)) for path in sorted(RECIPES.glob("*.py"))}
MAX_LINES = 43
ON_CLUSTERS = {"dask_streams", "ray_streams", "spark_streams"}
"""tests/test_clusters.py runs them."""


def recipe(name: str) -> Callable:
    """A function or class that a recipe defines, by its name."""
    named = ((names[name], names["__name__"]) for names in NAMES.values() if name in names)
    (found,) = (value for value, recipe in named if value.__module__ == recipe)
    return found


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest) -> Path:
    return RECIPES / f"{request.param}.py"


def test_there_are_twenty_one() -> None:
    assert len(NAMES) == 21


def test_short_and_public(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_LINES
    names = "(channel_)?histogram(2d)?|StreamingHistogram"
    assert re.search(rf"^from torch_histo import ({names})$", text, re.MULTILINE)
    assert "torch_histo._" not in text
    assert "ops.histo" not in text


@pytest.mark.parametrize("name", sorted(NAMES.keys() - ON_CLUSTERS))
def test_runs(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = RECIPES / f"{name}.py"
    files = [str(RECIPES)] if path.stem == "byte_statistics" else []
    monkeypatch.setattr(sys, "argv", [str(path), *files])
    with suppress(SystemExit):
        runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out) > 20


def images() -> dict[str, torch.Tensor]:
    gradient = torch.arange(256).repeat(16, 1).to(torch.uint8)
    noise = random_values((2, 3, 37, 41), torch.uint8)
    dark = random_values((2, 3, 37, 41), torch.uint8, low=0, high=20)
    dark.clamp_(max=20)
    spread = torch.zeros(1, 1, 20, 30, dtype=torch.uint8)
    spread[..., :17] = 255  # 340 of 600: a table that would go beyond 255
    return {
        "noise": noise,
        "dark": dark,
        "gradient": gradient.expand(2, 3, 16, 256).clone(),
        "one colour": torch.full((1, 3, 40, 40), 7, dtype=torch.uint8),
        "two colours": spread,
        "tiny": random_values((1, 3, 2, 3), torch.uint8),
        "one large plane": random_values((1, 1, 300, 200), torch.uint8),
        "gaps": noise[..., ::2, 1::3],
        "channels last": noise.to(memory_format=torch.channels_last),
    }


@pytest.mark.parametrize("name", images())
def test_equalize(name: str, device: torch.device) -> None:
    batch = images()[name]
    equalized = recipe("equalize")(batch.to(device)).cpu()
    assert equalized.dtype == torch.uint8
    for got, plane in zip(equalized.flatten(0, 1), batch.flatten(0, 1), strict=True):
        want = np.array(ImageOps.equalize(Image.fromarray(plane.contiguous().numpy())))
        assert np.array_equal(got.numpy(), want)
    # A dependency of nobody: its formula is Pillow's, which the loop above has compared with.
    if find_spec("torchvision") is not None:
        from torchvision.transforms.v2 import functional

        assert torch.equal(equalized, functional.equalize(batch))


@seed(0)
@settings(max_examples=50, deadline=None, database=None)
@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 2**32), st.sampled_from([3, 40, 256]))
def test_equalize_any_image(height: int, width: int, noise: int, levels: int) -> None:
    generator = torch.Generator().manual_seed(noise)
    plane = torch.randint(0, levels, (height * 7, width * 9), generator=generator).byte()
    want = np.array(ImageOps.equalize(Image.fromarray(plane.numpy())))
    assert np.array_equal(recipe("equalize")(plane).numpy(), want)


@pytest.mark.parametrize("shape", [(2, 3, 0, 5), (2, 3, 5, 0), (0, 3, 4, 4), (2, 0, 4, 4), (0, 0)])
def test_equalize_returns_empty_images(shape: tuple[int, ...], device: torch.device) -> None:
    equalized = recipe("equalize")(torch.zeros(shape, dtype=torch.uint8, device=device))
    assert equalized.dtype == torch.uint8
    assert equalized.shape == shape


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
def test_equalize_wider_integers(dtype: torch.dtype, device: torch.device) -> None:
    """torchvision: the upper eight of the bits that a positive number has."""
    images = random_values((2, 3, 20, 30), torch.uint8, high=90).to(device)
    shift = torch.iinfo(dtype).bits - 9
    lower = random_values((2, 3, 20, 30), torch.int64).to(device) & (1 << shift) - 1
    equalized = recipe("equalize")((images.long() << shift | lower).to(dtype))
    assert equalized.dtype == dtype
    assert torch.equal(equalized.long(), recipe("equalize")(images).long() << shift)
    assert recipe("equalize")(torch.zeros(1, 0, 4, dtype=dtype)).shape == (1, 0, 4)


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.float32])
def test_equalize_refuses_other_types(dtype: torch.dtype) -> None:
    expected = f"^equalize: images must be uint8, int16, int32 or int64, got {dtype}: .*$"
    with pytest.raises(TypeError, match=expected):
        recipe("equalize")(torch.ones(1, 4, 4).to(dtype))


def test_tokens_per_expert(device: torch.device) -> None:
    experts = random_values((3, 500, 2), torch.int64, low=-1, high=17)
    counts = recipe("tokens_per_expert")(experts.to(device), 16)
    assert_counts(counts, expected_counts(experts, 16, (1, 2)))


def test_balance_loss() -> None:
    loss = recipe("balance_loss")
    even = torch.full((64, 8), 1 / 8, requires_grad=True)
    all_experts = torch.arange(8).repeat(8)[:, None]
    assert loss(even, all_experts).item() == pytest.approx(1)
    one_expert = torch.nn.functional.one_hot(torch.zeros(64, dtype=torch.int64), 8).float()
    assert float(loss(one_expert, torch.zeros(64, 1, dtype=torch.int64))) == pytest.approx(8)
    loss(even, all_experts).backward()
    assert even.grad is not None


@pytest.mark.parametrize("experts", [torch.full((6, 2), -1), torch.zeros(0, 2, dtype=torch.int64)])
def test_balance_loss_of_padding_alone(experts: torch.Tensor, device: torch.device) -> None:
    probabilities = torch.full((len(experts), 4), torch.nan, device=device, requires_grad=True)
    loss = recipe("balance_loss")(probabilities, experts.to(device))
    loss.backward()
    assert loss.item() == 0
    assert not probabilities.grad.any()


@pytest.mark.parametrize("padding", [-1, 8, 255])
def test_balance_loss_leaves_padding_out_of_both_factors(
    padding: int, device: torch.device
) -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.randn(50, 8, generator=generator).softmax(-1)
    experts = probabilities.topk(2).indices
    experts[:10, 1] = padding  # tokens with one expert each
    expected = recipe("balance_loss")(probabilities, experts)
    padded = torch.cat([probabilities, torch.full((30, 8), torch.nan)])
    ids = torch.cat([experts, torch.full((30, 2), padding)])
    loss = recipe("balance_loss")(padded.to(device), ids.to(device))
    assert loss.item() == pytest.approx(expected.item())
    share = expected_counts(experts, 8, (0, 1)) / 90
    assert expected.item() == pytest.approx(float(8 * (share * probabilities.mean(0)).sum()))


def test_balance_loss_of_batches() -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.randn(8, 8, 8, generator=generator).softmax(-1)
    experts = probabilities.topk(2).indices
    loss = recipe("balance_loss")
    each = torch.stack([loss(p, ids) for p, ids in zip(probabilities, experts, strict=True)])
    assert torch.allclose(loss(probabilities, experts), each)
    half = torch.full((70_000, 2), 0.5, dtype=torch.float16)  # their sum is beyond float16
    assert loss(half, torch.arange(70_000)[:, None] % 2).item() == pytest.approx(1)


@pytest.mark.parametrize("shape", [(1, 2), (6,), (5, 2)])
def test_balance_loss_needs_the_same_tokens(shape: tuple[int, ...]) -> None:
    experts = torch.zeros(shape, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"^balance_loss: .* differ in tokens: \[6, 4\] and .*$"):
        recipe("balance_loss")(torch.full((6, 4), 0.25), experts)


@pytest.mark.parametrize("shape", [(50, 3), (4, 3, 30, 20)])
def test_calibration_observer(shape: tuple[int, ...], device: torch.device) -> None:
    observer = recipe("ChannelObserver")(3).to(device)
    batches = [random_values(shape, torch.uint8, seed=i) for i in range(4)]
    for batch in batches:
        assert torch.equal(observer(batch.to(device)).cpu(), batch)
    everything = torch.cat(batches).movedim(1, 0).flatten(1)
    assert_counts(observer.counts, expected_counts(everything, 256, 1))
    assert "counts" in observer.state_dict()
    for coverage in (1.0, 0.9, 0.5):
        low, high = (ends.cpu().tolist() for ends in observer.ranges(coverage))
        for channel, values in enumerate(everything.numpy()):
            cut = int(len(values) * np.float32((1 - coverage) / 2))
            ordered = np.sort(values)
            assert low[channel] == ordered[cut]
            assert high[channel] == ordered[-1 - cut]


@pytest.mark.parametrize(
    ("x", "got"),
    [
        (torch.full((4, 3), -1, dtype=torch.int8), "torch.int8 [4, 3]"),
        (torch.zeros(4, 3), "torch.float32 [4, 3]"),
        (torch.zeros(4, 1, dtype=torch.uint8), "torch.uint8 [4, 1]"),  # would be broadcast
        (torch.zeros(3, dtype=torch.uint8), "torch.uint8 [3]"),
        (torch.zeros(4, 5, dtype=torch.uint8), "torch.uint8 [4, 5]"),
    ],
)
def test_calibration_observer_refuses(x: torch.Tensor, got: str) -> None:
    observer = recipe("ChannelObserver")(3)
    message = f"ChannelObserver: expected uint8 [n, 3, ...], got {got}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        observer(x)
    assert not observer.counts.any()


def test_calibration_observer_of_nothing(device: torch.device) -> None:
    observer = recipe("ChannelObserver")(2).to(device)
    for _ in range(2):  # before any input, and after one without rows
        low, high = observer.ranges()
        assert low.tolist() == [0, 0]
        assert high.tolist() == [255, 255]
        observer(torch.zeros(0, 2, dtype=torch.uint8, device=device))
    for coverage in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=r"^ranges: coverage must be between 0 and 1, got .*$"):
            observer.ranges(coverage)


def test_activation_histograms(device: torch.device) -> None:
    layer = torch.nn.Conv2d(2, 3, 3).to(device)
    counts = recipe("watch")(layer, 3, -0.5, 0.5, bins=10)
    with torch.no_grad():
        outputs = [layer(torch.randn(4, 2, 9, 9, device=device)) for _ in range(3)]
    everything = torch.cat(outputs).movedim(1, 0).flatten(1).double().cpu().numpy()
    edges = np.histogram_bin_edges([], 10, (-0.5, 0.5)).astype(np.float32).astype(np.float64)
    for found, values in zip(counts.tolist(), everything, strict=True):
        below, above = (values < edges[0]).sum(), (values > edges[-1]).sum()
        assert found == [below, *np.histogram(values, edges)[0], above, 0]


def test_activation_histograms_in_a_captured_step(device: torch.device) -> None:
    if device.type != "cuda":
        pytest.skip("needs a GPU")
    layer = torch.nn.PReLU(device=device)
    counts = recipe("watch")(layer, 2, -100.0, 100.0)
    x = torch.ones(8, 2, 5, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        layer(x)
        with torch.cuda.graph(graph):
            layer(x)
    for _ in range(3):
        graph.replay()
    assert counts.sum(-1).tolist() == [4 * 40] * 2


def test_auto_contrast(device: torch.device) -> None:
    chance = torch.Generator().manual_seed(0)
    flat = torch.rand(2, 3, 50, 40, generator=chance) * torch.tensor([0.2, 0.5, 0.9])[:, None, None]
    stretched = recipe("auto_contrast")(flat.to(device), 0.01).cpu()
    for colour, result in zip(flat.flatten(0, 1), stretched.flatten(0, 1), strict=True):
        low, high = (colour.quantile(q).item() for q in (0.01, 0.99))
        expected = ((colour - low) / (high - low)).clamp(0, 1)
        torch.testing.assert_close(result, expected, atol=0.02, rtol=0)
    one = torch.full((1, 1, 4, 4), 0.5, device=device)
    assert recipe("auto_contrast")(one).isfinite().all()


def test_tensorboard_histogram(device: torch.device) -> None:
    values = torch.linspace(-2, 3, 101)
    values[::10] = float("nan")
    got = {}

    class Writer:
        def add_histogram_raw(self, tag: str, **numbers: object) -> None:
            got.update(numbers, tag=tag)

    recipe("add_histogram")(Writer(), "gradients", values.to(device), 7, 5)
    finite = values[values.isfinite()].numpy()
    counts, edges = np.histogram(finite, 5)
    assert (got["tag"], got["global_step"], got["num"]) == ("gradients", 7, 90)
    assert (got["min"], got["max"]) == (finite.min(), finite.max())
    assert got["bucket_counts"] == counts.tolist()
    assert got["bucket_limits"] == edges[1:].tolist()
    assert got["sum"] == pytest.approx(finite.astype(float).sum())
    assert got["sum_squares"] == pytest.approx(np.square(finite.astype(float)).sum())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_confusion_matrix(dtype: torch.dtype, device: torch.device) -> None:
    low = 0 if dtype == torch.uint8 else -2
    labels = random_values((6, 40, 30), dtype, low=low, high=6)
    predictions = random_values((6, 40, 30), dtype, seed=1, low=low, high=6)
    labels[0, :5] = 255 if dtype == torch.uint8 else -100
    matrix = recipe("confusion_matrix")(labels.to(device), predictions.to(device), 5)
    expected = torch.zeros(5, 5, dtype=torch.int64)
    for row in range(5):
        for column in range(5):
            expected[row, column] = ((labels == row) & (predictions == column)).sum()
    assert_counts(matrix, expected)


def test_confusion_matrix_does_not_broadcast() -> None:
    labels = torch.arange(6) % 3
    with pytest.raises(ValueError, match=r"^confusion_matrix: .* in shape: \[6\] and \[6, 1\]$"):
        recipe("confusion_matrix")(labels, labels[:, None], 3)
    empty = recipe("confusion_matrix")(labels[:0], labels[:0], 3)
    assert_counts(empty, torch.zeros(3, 3, dtype=torch.int64))


@pytest.mark.parametrize("name", ["labels", "predictions"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_confusion_matrix_of_integers_alone(name: str, dtype: torch.dtype) -> None:
    ids = {"labels": torch.arange(3), "predictions": torch.arange(3)}
    ids[name] = (ids[name] + 0.9).to(dtype)
    message = rf"^confusion_matrix: {name} must be integers, got {dtype}$"
    with pytest.raises(TypeError, match=message):
        recipe("confusion_matrix")(**ids, classes=3)


def test_intersection_over_union() -> None:
    matrix = torch.tensor([[3, 1, 0], [2, 4, 0], [0, 0, 0]])
    result = recipe("intersection_over_union")(matrix)
    assert result[:2].tolist() == pytest.approx([3 / 6, 4 / 7])
    assert bool(result[2].isnan())


def test_byte_statistics(tmp_path: Path) -> None:
    byte_counts, entropy = recipe("byte_counts"), recipe("entropy")
    content = bytes(range(256)) * 40 + b"aaaa"
    (tmp_path / "data").write_bytes(content)
    (tmp_path / "empty").write_bytes(b"")
    expected = np.bincount(np.frombuffer(content, np.uint8), minlength=256)
    for piece in (1 << 26, 1000):
        assert_counts(byte_counts(tmp_path / "data", piece), torch.from_numpy(expected))
    assert not byte_counts(tmp_path / "empty").any()
    assert float(entropy(torch.ones(256))) == pytest.approx(8)
    assert float(entropy(torch.zeros(256))) == 0
    assert float(entropy(torch.tensor([1, 1] + [0] * 254))) == pytest.approx(1)


def run_byte_statistics(monkeypatch: pytest.MonkeyPatch, *names: object) -> object:
    """The status or the message that the program ends with."""
    program = str(RECIPES / "byte_statistics.py")
    monkeypatch.setattr(sys, "argv", [program, *map(str, names)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(program, run_name="__main__")
    return ended.value.code


def test_byte_statistics_needs_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_byte_statistics(monkeypatch) == 2
    assert "the following arguments are required: FILE_OR_FOLDER" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_bytes(b"abcd")
    wrong = [tmp_path / "missing", tmp_path / "link"]
    lines = [f"byte_statistics.py: {path}: No such file or directory" for path in wrong]
    assert run_byte_statistics(monkeypatch, *wrong, tmp_path / "empty", file) == 2
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()] == ["4", "4"]
    assert captured.err.splitlines() == lines
    assert run_byte_statistics(monkeypatch, *wrong) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.splitlines()) == ("", lines)  # not "0 bytes in all"
    assert run_byte_statistics(monkeypatch, file, tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["4", "4", "8"]


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), FileNotFoundError(2, "Gone")]
)
def test_byte_statistics_counts_the_other_files(
    error: OSError,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file without read permission, and one that disappears after it was listed."""
    for name in "abc":
        (tmp_path / name).write_bytes(b"abcd")
    opened = Path.open

    def fails_for_b(path: Path, *arguments: str) -> object:
        if path.name == "b":
            raise error
        return opened(path, *arguments)

    monkeypatch.setattr(Path, "open", fails_for_b)
    assert run_byte_statistics(monkeypatch, tmp_path) == 2
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()] == ["4", "4", "8"]
    (line,) = captured.err.splitlines()
    assert line.startswith(f"byte_statistics.py: {tmp_path / 'b'}: ")
    assert line.endswith(error.strerror)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.uint16, torch.int16])
def test_every_value(dtype: torch.dtype, device: torch.device) -> None:
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    values = random_values((40, 3, 6), dtype, low=low, high=high)[:, :, ::2]
    counts = recipe("every_value")(values.to(device), (0, 2))
    shifted = torch.from_numpy(values.numpy().astype(np.int64) - low)
    assert_counts(counts, expected_counts(shifted, high - low + 1, (0, 2)))


@pytest.mark.parametrize(
    "edges",
    [
        [-5, 0, 1, 100],
        [0, 256],
        [3, 3, 3],  # NumPy counts the threes in the last bin
        [-(1 << 15), 127, (1 << 15) - 1],
        [-(1 << 63), -1000, 70_000, (1 << 63) - 1],
        [-900_000, -800_000],
        [800_000, 900_000],
    ],
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.uint16, torch.int16])
def test_integer_edges(edges: list[int], dtype: torch.dtype, device: torch.device) -> None:
    values = random_values((500, 2), dtype)
    counts = recipe("histogram")(values.to(device), torch.tensor(edges, device=device))
    # NumPy's own rounds int64 edges to float64, which holds all the edges here but the ends.
    inside = np.clip(np.array(edges, dtype=object), -(1 << 40), 1 << 40).astype(np.int64)
    expected = [np.histogram(column, inside)[0] for column in values.numpy().T]
    assert_counts(counts, torch.from_numpy(np.stack(expected)))


@pytest.mark.parametrize("of_values", [torch.uint8, torch.int8, torch.uint16, torch.int16])
@pytest.mark.parametrize("of_edges", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_integer_edges_of_narrow_types(of_values: torch.dtype, of_edges: torch.dtype) -> None:
    low, high = max(torch.iinfo(of_edges).min, -99), torch.iinfo(of_edges).max
    edges = torch.tensor([low, 0, 5, min(high, 255)], dtype=of_edges)
    values = random_values((500,), of_values)
    counts = recipe("histogram")(values, edges)
    assert torch.equal(counts, recipe("histogram")(values, edges.long()))
    assert counts.tolist() == np.histogram(values.numpy(), edges.long().numpy())[0].tolist()


def test_integer_edges_refuse() -> None:
    histogram = recipe("histogram")
    with pytest.raises(
        TypeError, match=r"^every_value: x must be .* 8 or 16 bits, got torch.int32$"
    ):
        histogram(torch.zeros(3, dtype=torch.int32), torch.arange(3))
    for edges in (torch.tensor([0.5, 1.5]), torch.arange(1), torch.zeros(2, 2, dtype=torch.int64)):
        with pytest.raises(
            ValueError, match=r"^histogram: edges must be two or more integers, got"
        ):
            histogram(torch.zeros(3, dtype=torch.uint8), edges)
