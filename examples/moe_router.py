"""A mixture-of-experts router that counts tokens within a CUDA graph.

    python examples/moe_router.py

Each step needs the number of tokens of each expert on the GPU: for offsets into
the sorted tokens, for capacities, or for a loss that balances the load.
`channel_histogram` counts them without a synchronization. So the whole step can
be captured, by hand or by torch.compile. The two usual ways have faults:

- torch.bincount waits for the largest value.
- torch.histc counts in the dtype of its input: float32 has no 16,777,217. It
  also counts values that equal its upper edge.

Without a GPU there is no CUDA graph. The step then runs eagerly, and compiled
to one graph.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from torch_histo import channel_histogram

STEPS = 20

Routing = tuple[Tensor, Tensor, Tensor, Tensor]


class Router(nn.Module):
    """Sends each token to the `top` experts that like it best."""

    def __init__(self, width: int, experts: int, top: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts, self.top = experts, top

    def forward(self, tokens: Tensor) -> Routing:
        """Takes tokens `[n, width]`; returns weights and experts `[n, top]`, counts and offsets
        `[experts]`.

        `offsets` is where the tokens of each expert begin once they are sorted by expert.
        """
        weights, experts = self.gate(tokens).softmax(-1).topk(self.top)
        counts = channel_histogram(experts, self.experts, (0, 1))
        return weights, experts, counts, counts.cumsum(0) - counts


@contextmanager
def no_synchronization() -> Iterator[None]:
    """Makes PyTorch raise where it would wait for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def captured(router: Router, tokens: Tensor) -> Callable[[Tensor], Routing]:
    """The step as one CUDA graph: what it returns is overwritten by the next call."""
    static = tokens.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries allocate their workspaces in the first call
        router(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = router(static)

    def step(tokens: Tensor) -> Routing:
        static.copy_(tokens)
        graph.replay()
        return outputs

    return step


def check(name: str, step: Callable[[Tensor], Routing], batches: list[Tensor]) -> None:
    """Runs the step on every batch, and counts again with torch.bincount."""
    step(batches[0])
    step(batches[0])  # the compiler records its graph in the second call
    on_gpu = batches[0].is_cuda
    for tokens in batches:
        if on_gpu:
            with no_synchronization():
                outputs = step(tokens)
        else:
            outputs = step(tokens)
        _, experts, counts, offsets = (x.clone() for x in outputs)
        expected = torch.bincount(experts.flatten(), minlength=len(counts))
        if not torch.equal(counts, expected):
            raise SystemExit(f"{name}: WRONG counts")
        if not torch.equal(offsets[1:], expected.cumsum(0)[:-1]):
            raise SystemExit(f"{name}: WRONG offsets")
    speed = f", {microseconds(step, batches[0]):.0f} us a step" if on_gpu else ""
    print(f"{name}: counts equal torch.bincount in {len(batches)} steps{speed}")


def microseconds(step: Callable[[Tensor], object], tokens: Tensor) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(STEPS):
        step(tokens)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / STEPS


def compare(experts: Tensor, num_experts: int) -> None:
    """Compares with torch.bincount and torch.histc on the same ids."""
    # One id beyond the last expert, as padding has: not to be counted.
    ids = torch.cat([experts.flatten(), experts.new_full((100,), num_experts)])
    counts = channel_histogram(ids, num_experts)
    histc = torch.histc(ids.float(), num_experts, 0, num_experts).long()
    extra = (histc - counts).tolist()
    print(f"torch.histc: counts {extra[-1]} padding ids as tokens of the last expert")
    many = torch.zeros((1 << 24) + 1, device=ids.device)
    print(f"torch.histc: {int(torch.histc(many, 2, 0, 2)[0]):,} for {len(many):,} equal ids")
    print(f"channel_histogram: {int(channel_histogram(many.byte(), 2)[0]):,}")
    if not ids.is_cuda:
        return
    try:
        with no_synchronization():
            torch.bincount(ids, minlength=num_experts)
    except RuntimeError as error:
        print(f"torch.bincount synchronizes: {str(error).splitlines()[0]}")
    else:
        raise SystemExit(
            "torch.bincount does not synchronize any more: this example is out of date"
        )
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.bincount(ids, minlength=num_experts)
    except RuntimeError as error:
        print(f"torch.bincount cannot be captured: {str(error).splitlines()[0]}")
    else:
        raise SystemExit("torch.bincount can be captured now: this example is out of date")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in {"tokens": 8192, "width": 1024, "experts": 128, "top": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    for name, value in vars(arguments).items():
        if value < 1:
            parser.error(f"--{name} must be at least 1, got {value}")
    if arguments.top > arguments.experts:
        parser.error(f"--top must be at most the {arguments.experts} experts, got {arguments.top}")
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    router = Router(arguments.width, arguments.experts, arguments.top).to(device)
    batches = [torch.randn(arguments.tokens, arguments.width, device=device) for _ in range(3)]
    with torch.inference_mode():
        check("eager", router, batches)
        if device == "cuda":
            check("CUDA graph", captured(router, batches[0]), batches)
            compiled = torch.compile(router, mode="reduce-overhead", fullgraph=True)
            check('torch.compile(mode="reduce-overhead")', compiled, batches)
        else:
            print("No GPU: no CUDA graph; the compiled step is one graph on the CPU")
            check("compiled", torch.compile(router, backend="aot_eager", fullgraph=True), batches)
        compare(router(batches[0])[1], arguments.experts)


if __name__ == "__main__":
    main()
