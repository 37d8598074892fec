"""The probabilities that a router gives each expert, added up exactly, with a gradient."""

import argparse

import torch
from torch import Tensor

from torch_histo import channel_histogram


def probability_by_expert(experts: Tensor, probabilities: Tensor, num_experts: int) -> Tensor:
    """Sums the probabilities of the chosen experts, both `[..., tokens, top]`: float64 `[...,
    num_experts]`.

    Ids that are no experts are padding: they count nowhere. The sums are exact and rounded once,
    so every process and every run finds the same bits.
    """
    if experts.shape != probabilities.shape:
        shapes = f"{list(experts.shape)} and {list(probabilities.shape)}"
        raise ValueError(f"probability_by_expert: experts and probabilities differ: {shapes}")
    return channel_histogram(experts, num_experts, (-2, -1), weight=probabilities)


def imbalance(experts: Tensor, probabilities: Tensor, num_experts: int) -> Tensor:
    """How much the sums vary, squared and divided by their squared mean: 0 where all are even.

    Shazeer and others, "Outrageously Large Neural Networks" (2017), call the sum of an expert its
    importance.
    """
    sums = probability_by_expert(experts, probabilities, num_experts)
    return sums.var(-1, correction=0) / sums.mean(-1).square()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    logits = torch.randn(4096, 8, requires_grad=True)
    chosen = logits.softmax(-1).topk(2)
    print("by expert:", probability_by_expert(chosen.indices, chosen.values, 8).tolist())
    loss = imbalance(chosen.indices, chosen.values, 8)
    loss.backward()
    print(f"imbalance {loss:.3g}, its largest gradient {logits.grad.abs().max():.3g}")
