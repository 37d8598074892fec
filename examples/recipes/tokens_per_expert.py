"""Tokens per expert of a mixture-of-experts layer, and a loss that balances them."""

import torch
from torch import Tensor

from torch_histo import channel_histogram


def tokens_per_expert(experts: Tensor, num_experts: int) -> Tensor:
    """Of ids `[..., tokens, top]`: int64 `[..., num_experts]`; ids of padding are ignored."""
    return channel_histogram(experts, num_experts, (-2, -1))


def balance_loss(probabilities: Tensor, experts: Tensor) -> Tensor:
    """Fedus, Zoph and Shazeer, "Switch Transformers" (2021), equation 4: 1 where all is even.

    Of the router's probabilities `[tokens, num_experts]` and the ids `[tokens, top]` it chose.
    """
    num_experts = probabilities.shape[-1]
    counts = tokens_per_expert(experts, num_experts)
    share = counts / counts.sum()
    return num_experts * (share * probabilities.mean(0)).sum()


if __name__ == "__main__":
    probabilities = torch.randn(4096, 64).softmax(-1)
    chosen = probabilities.topk(2).indices
    print("tokens per expert:", tokens_per_expert(chosen, 64).tolist())
    print(f"balance loss: {balance_loss(probabilities, chosen):.3f}")
