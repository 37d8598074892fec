"""Examples for other packages, with the packages themselves where they are installed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import load_module

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_torchmetrics(device: torch.device) -> None:
    pytest.importorskip("torchmetrics")
    module = load_module(EXAMPLES / "metric.py")
    x = torch.randn(3, 500, 4, generator=torch.Generator().manual_seed(0)).to(device)
    whole, first, second = (module.Quantiles([0.1, 0.9], 4).to(device) for _ in range(3))
    for part in x:
        batch = whole(part, 0)  # forward: the value of the batch
        alone = module.Quantiles([0.1, 0.9], 4).to(device)
        alone.update(part, 0)
        assert torch.equal(batch, alone.compute())
    first.update(x[0], 0)
    second.update(x[1:].flatten(0, 1), 0)
    expected = x.flatten(0, 1).double().quantile(torch.tensor([0.1, 0.9]).to(x).double(), 0)
    torch.testing.assert_close(whole.compute(), expected, rtol=2**-7, atol=0)
    assert copy.deepcopy(whole).compute().equal(whole.compute())

    # Two processes: each state is gathered, in order, and reduced.
    others = iter([second.hist, second.min_key, second.max_key])
    first.sync(
        dist_sync_fn=lambda state, group: [state, next(others)], distributed_available=lambda: True
    )
    assert torch.equal(first.counted().quantile(first.q), whole.compute())
    assert first.counted().count.tolist() == [1500] * 4
    first.unsync()
    assert first.counted().count.tolist() == [500] * 4
    first.reset()
    assert first.counted().count.tolist() == [0] * 4
    first.update(x[0], 0)
    assert first.counted().count.tolist() == [500] * 4


@pytest.mark.long
def test_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("pytorch_lightning")
    loggers = pytest.importorskip("pytorch_lightning.loggers")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 2)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return self.linear(batch).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    callback = load_module(EXAMPLES / "lightning_callback.py").LogHistograms(every=2)
    logger = loggers.TensorBoardLogger(str(tmp_path))
    trainer = lightning.Trainer(
        max_epochs=1,
        logger=logger,
        callbacks=[callback],
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
    )
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(20, 4), batch_size=4))
    logger.experiment.flush()
    events = accumulator.EventAccumulator(logger.log_dir, {"histograms": 0})
    events.Reload()
    assert [event.step for event in events.Histograms("linear.weight.grad")] == [0, 2, 4]
