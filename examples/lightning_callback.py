"""A Lightning callback: histograms of parameters and gradients, before the optimizer's steps."""

from __future__ import annotations

from typing import Any

import pytorch_lightning

from torch_histo.logging import Watch


class LogHistograms(pytorch_lightning.Callback):
    """For `Trainer(callbacks=[LogHistograms(every=100)])` with a logger for TensorBoard or wandb.

    A step that is logged waits for the GPU once."""

    def __init__(self, every: int = 100, bins: int = 64) -> None:
        self.every, self.bins = every, bins
        self.watch: Watch | None = None

    def on_fit_start(self, trainer: pytorch_lightning.Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero:
            writer = trainer.logger.experiment
            self.watch = Watch(pl_module, writer, every=self.every, bins=self.bins)

    def on_before_optimizer_step(
        self, trainer: pytorch_lightning.Trainer, pl_module: Any, optimizer: Any
    ) -> None:
        if self.watch is not None:
            self.watch.log(trainer.global_step)
