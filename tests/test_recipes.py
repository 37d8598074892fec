"""The recipes, against formulas and libraries that count in other ways, and their length."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_counts, expected_counts, random_values
from PIL import Image, ImageOps

RECIPES = Path(__file__).parents[1] / "examples" / "recipes"
NAMES = {path.stem: runpy.run_path(str(path)) for path in sorted(RECIPES.glob("*.py"))}
MAX_LINES = 40


def recipe(name: str) -> Callable:
    """A function or class of the recipes, by its name."""
    (found,) = (names[name] for names in NAMES.values() if name in names)
    return found


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest) -> Path:
    return RECIPES / f"{request.param}.py"


def test_there_are_five() -> None:
    assert len(NAMES) == 5


def test_short_and_public(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) < MAX_LINES
    assert "from torch_histo import channel_histogram\n" in text
    assert "torch_histo._" not in text
    assert "ops.histo" not in text


def test_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), str(RECIPES)])
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


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 2**32), st.sampled_from([3, 40, 256]))
def test_equalize_any_image(height: int, width: int, seed: int, levels: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    plane = torch.randint(0, levels, (height * 7, width * 9), generator=generator).byte()
    want = np.array(ImageOps.equalize(Image.fromarray(plane.numpy())))
    assert np.array_equal(recipe("equalize")(plane).numpy(), want)


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
