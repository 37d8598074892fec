"""The recipes of joint histograms, against the libraries that have the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_recipes import recipe
from torch import Tensor


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_mutual_information(device: torch.device) -> None:
    metrics = pytest.importorskip("skimage.metrics")
    x = normal(3, 20, 30).double()
    y = x + normal(3, 20, 30, seed=1)
    found = recipe("normalized_mutual_information")(x.to(device), y.to(device), 20, (1, 2))
    for own, a, b in zip(found.tolist(), x.numpy(), y.numpy(), strict=True):
        expected = metrics.normalized_mutual_information(a, b, bins=20)
        assert own == pytest.approx(expected, rel=1e-12)
    alike = recipe("mutual_information")(x.to(device), x.to(device), 20)
    counts, _ = np.histogram(x.numpy(), 20)
    p = counts[counts > 0] / counts.sum()
    assert alike.item() == pytest.approx(-(p * np.log(p)).sum(), rel=1e-12)
    independent = recipe("mutual_information")(
        torch.arange(4.0).repeat(4).to(device), torch.arange(4.0).repeat_interleave(4).to(device), 4
    )
    assert independent.item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("distance", [1, 3])
@pytest.mark.parametrize("angle", [0, np.pi / 4, np.pi / 2, 3 * np.pi / 4, np.pi])
def test_cooccurrence(device: torch.device, distance: int, angle: float) -> None:
    feature = pytest.importorskip("skimage.feature")
    chance = torch.Generator().manual_seed(0)
    for levels in (2, 8, 256):
        images = torch.randint(0, levels, (2, 17, 23), dtype=torch.uint8, generator=chance)
        found = recipe("cooccurrence")(images.to(device), distance, angle, levels)
        for own, image in zip(found.cpu(), images, strict=True):
            expected = feature.graycomatrix(image.numpy(), [distance], [angle], levels)
            assert np.array_equal(own, expected[:, :, 0, 0])


def test_threshold_curves(device: torch.device) -> None:
    metrics: Any = pytest.importorskip("torchmetrics.functional.classification")
    torch.use_deterministic_algorithms(False)  # torchmetrics would take 160 GB
    target = torch.randint(0, 2, (5000,), generator=torch.Generator().manual_seed(0))
    scores = (normal(5000) + target).sigmoid()
    scores[:10], scores[10:20] = 0.0, 1.0
    thresholds = torch.linspace(0, 1, 1000)
    moved = scores.to(device), target.to(device), thresholds.to(device)
    precision, recall, _ = metrics.binary_precision_recall_curve(scores, target, thresholds=1000)
    found = recipe("precision_recall")(*moved)
    torch.testing.assert_close(found[0].cpu(), precision[:-1])
    torch.testing.assert_close(found[1].cpu(), recall[:-1])
    false, true, _ = metrics.binary_roc(scores, target, thresholds=1000)
    found = recipe("roc")(*moved)
    torch.testing.assert_close(found[0].cpu().flip(0), false)
    torch.testing.assert_close(found[1].cpu().flip(0), true)
    ignored = torch.cat((target, torch.tensor([-1, 2, 7])))
    more = torch.cat((scores, torch.ones(3)))
    again = recipe("roc")(more.to(device), ignored.to(device), thresholds.to(device))
    assert all(map(torch.equal, again, found))


def test_calibration_error(device: torch.device) -> None:
    metrics: Any = pytest.importorskip("torchmetrics.functional.classification")
    chance = torch.Generator().manual_seed(0)
    confidence = torch.rand(5000, generator=chance)
    correct = torch.rand(5000, generator=chance) < confidence**2
    error = recipe("calibration_error")
    found = error(confidence.to(device), correct.to(device)).item()
    expected = metrics.binary_calibration_error(confidence, correct.int(), 15).item()
    assert found == pytest.approx(expected, rel=1e-5)
    # One is right and one is wrong in the last bin; torchmetrics has two bins there.
    two = torch.tensor([0.95, 1.0]), torch.tensor([True, False])
    assert error(*(t.to(device) for t in two)).item() == pytest.approx(0.475)
    assert metrics.binary_calibration_error(two[0], two[1].int(), 15).item() == pytest.approx(0.525)
    count, *_ = recipe("reliability")(*(t.to(device) for t in two))
    assert count.tolist() == [0] * 14 + [2]


def test_profile(device: torch.device) -> None:
    stats = pytest.importorskip("scipy.stats")
    x, y, z = (normal(3000, seed=d).double() for d in range(3))
    means, counts, edges = recipe("profile")(*(t.to(device) for t in (x, y, z)), (7, 5))
    numpy = [t.numpy() for t in (x, y, z)]
    expected = stats.binned_statistic_2d(*numpy, "mean", (7, 5))
    np.testing.assert_allclose(means.cpu(), expected.statistic, rtol=1e-12)
    assert np.array_equal(edges[0].cpu(), expected.x_edge)
    assert counts.sum() == 3000
