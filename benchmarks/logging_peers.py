"""The ways to log histograms of a module's parameters. Nothing is written to files."""

from __future__ import annotations

from typing import Any

import torch
from cases import Case
from peers import BOTH, OURS, Count, Peer
from torch import Tensor, nn

from torch_histo.logging import Watch


def writer() -> Any:
    """A SummaryWriter that keeps its summaries."""
    from torch.utils.tensorboard import SummaryWriter

    class Kept(SummaryWriter):
        def __init__(self) -> None:
            self.summaries: list[Any] = []
            self.default_bins = None

        def _get_file_writer(self) -> Kept:
            return self

        def add_summary(self, summary: Any, *_: object) -> None:
            self.summaries.append(summary)

        def counts(self, case: Case) -> Tensor:
            # add_histogram puts an empty bin before the others.
            buckets = [list(s.value[0].histo.bucket)[-case.num_bins :] for s in self.summaries]
            return torch.tensor(buckets)

    return Kept()


def watch(case: Case) -> Count:
    """A row of the input is a parameter."""
    writer()

    def run(x: Tensor) -> Tensor:
        kept = writer()
        module = nn.ParameterList(x.unbind())
        Watch(module, kept, bins=case.num_bins).log(0)
        counts: Tensor = kept.counts(case)
        return counts.to(x.device)

    return run


def add_histogram(case: Case) -> Count:
    writer()

    def run(x: Tensor) -> Tensor:
        kept = writer()
        for row in x:
            kept.add_histogram("", row, 0, bins=case.num_bins)
        counts: Tensor = kept.counts(case)
        return counts.to(x.device)

    return run


def wandb_watch(case: Case) -> Count:
    """As the hook of wandb.watch counts each parameter: its bins are always 64."""
    import wandb
    from wandb.integration.torch.wandb_torch import TorchHistory

    history = TorchHistory()

    def run(x: Tensor) -> Tensor:
        found: list[Any] = []

        class Run:
            def _log(self, row: dict[str, Any], commit: bool) -> None:
                found.extend(row.values())

        before, wandb.run = wandb.run, Run()
        try:
            for row in x:
                history.log_tensor_stats(row.cpu(), "")
        finally:
            wandb.run = before
        return torch.tensor([each.histogram for each in found]).long().to(x.device)

    return run


def wandb_histogram(case: Case) -> Count:
    import wandb

    def run(x: Tensor) -> Tensor:
        boxes = [wandb.Histogram(row.cpu().numpy(), num_bins=case.num_bins) for row in x]
        return torch.tensor([box.histogram for box in boxes]).to(x.device)

    return run


LOGGING_PEERS = [
    Peer(OURS, watch, devices=BOTH, captured=False),
    Peer("add_histogram", add_histogram, devices=BOTH, captured=False, exact=False),
    Peer("wandb.watch", wandb_watch, devices=BOTH, captured=False, exact=False),
    Peer("wandb.Histogram", wandb_histogram, devices=BOTH, captured=False, exact=False),
]
