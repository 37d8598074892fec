"""Tokens per expert of a mixture-of-experts layer, and a loss that balances them."""

import argparse

import torch
from torch import Tensor

from torch_histo import channel_histogram


def tokens_per_expert(experts: Tensor, num_experts: int) -> Tensor:
    """Counts the ids `[..., tokens, top]`, without those of padding: int64 `[..., num_experts]`."""
    return channel_histogram(experts, num_experts, (-2, -1))


def balance_loss(probabilities: Tensor, experts: Tensor) -> Tensor:
    """Fedus, Zoph and Shazeer, "Switch Transformers" (2021), equation 4: 1 where all is even.

    It takes the router's probabilities `[..., tokens, num_experts]` and the ids `[..., tokens,
    top]` it chose. A token whose ids are no experts is padding: it counts nowhere.
    """
    if probabilities.shape[:-1] != experts.shape[:-1]:
        shapes = f"{list(probabilities.shape)} and {list(experts.shape)}"
        raise ValueError(f"balance_loss: probabilities and experts differ in tokens: {shapes}")
    num_experts = probabilities.shape[-1]
    counts = tokens_per_expert(experts, num_experts)
    share = counts / counts.sum(-1, keepdim=True).clamp(min=1)
    real = ((experts >= 0) & (experts < num_experts)).any(-1, keepdim=True)
    weight = real / real.sum(-2, keepdim=True).clamp(min=1)
    mean = (probabilities.masked_fill(~real, 0) * weight).sum(-2)
    return num_experts * (share * mean).sum(-1)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    probabilities = torch.randn(4096, 8).softmax(-1)
    chosen = probabilities.topk(2).indices
    print("tokens per expert:", tokens_per_expert(chosen, 8).tolist())
    print(f"balance loss: {balance_loss(probabilities, chosen):.3f}")
