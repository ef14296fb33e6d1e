"""A small transformer, trained on several processes: every norm, activation and loss a formula of ours, or torch's.

    torchrun --nproc-per-node 4 examples/distributed/train.py [--steps 60] [--backend gloo|nccl] [--plot FILE]

Each process has rows of its own, and DistributedDataParallel takes the mean of the gradients. The same net is trained
again with torch's own parts; the losses are printed side by side, and differ by rounding alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradscript as gs
import torch
import torch.distributed as dist
from curves import picture
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.nn.parallel import DistributedDataParallel

SYMBOLS, WIDTH, HEADS, LAYERS, LENGTH, ROWS = 16, 32, 4, 2, 24, 8
TOLERANCE = 1e-4
"""Of two losses: the order of additions differs, and a few dozen steps of training build on it."""


@dataclass(frozen=True)
class Parts:
    """What a net is made of, beside products."""

    norm: Callable[[Any, Any], Any]
    swiglu: Callable[[Any, Any], Any]
    loss: Callable[[Any, Any], Any]


OURS = Parts(**gs.torch_op(gs.load(Path(__file__).with_name("parts.grad")), "example"))
TORCHS = Parts(lambda x, weight: F.rms_norm(x, [x.size(-1)], weight, 1e-6), lambda x, g: F.silu(x) * g, F.cross_entropy)


class Block(nn.Module):
    """Attention and a gated layer, each behind a norm."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts = parts
        self.scales = nn.Parameter(torch.ones(2, WIDTH))
        self.heads = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.narrow = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        rows, length, _ = x.shape
        heads = self.heads(self.parts.norm(x, self.scales[0])).view(rows, length, 3, HEADS, -1)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind()
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        gate, up = self.wide(self.parts.norm(x, self.scales[1])).chunk(2, -1)
        return x + self.narrow(self.parts.swiglu(gate, up))


class Transformer(nn.Module):
    """Symbols to scores of the next one."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block(parts) for _ in range(LAYERS)))
        self.scores = nn.Linear(WIDTH, SYMBOLS, bias=False)

    def forward(self, x: Any) -> Any:
        return self.scores(self.blocks(self.symbols(x) + self.places))


def batch(rank: int, step: int, device: Any) -> tuple[Any, Any]:
    """Sequences that count upwards by steps of their own, modulo the number of symbols."""
    drawn = torch.Generator().manual_seed(1000 * step + rank)
    start, stride = (torch.randint(1, SYMBOLS, (ROWS, 1), generator=drawn) for _ in range(2))
    sequence = ((start + stride * torch.arange(LENGTH + 1)) % SYMBOLS).to(device)
    return sequence[:, :-1], sequence[:, 1:]


def train(parts: Parts, steps: int, rank: int, device: Any) -> list[float]:
    """The mean loss over all processes, step by step."""
    torch.manual_seed(0)
    net = DistributedDataParallel(Transformer(parts).to(device))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    curve = []
    for step in range(steps):
        x, target = batch(rank, step, device)
        loss = parts.loss(net(x).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        curve.append(total.item() / dist.get_world_size())
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    parser.add_argument("--plot", type=Path, help="where to put a picture of the losses, an SVG")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(options.backend)
    rank = dist.get_rank()
    device = (
        torch.device("cuda", rank % torch.cuda.device_count()) if options.backend == "nccl" else torch.device("cpu")
    )
    ours, theirs = (train(parts, options.steps, rank, device) for parts in (OURS, TORCHS))
    dist.destroy_process_group()
    far = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    if rank == 0:
        print(f"{'step':>4}  {'formulas':>8}  {'torch':>8}")
        for step in (*range(0, options.steps, max(1, options.steps // 6)), options.steps - 1):
            print(f"{step:>4}  {ours[step]:>8.5f}  {theirs[step]:>8.5f}")
        if options.plot is not None:
            options.plot.write_text(picture(ours, theirs), encoding="utf-8")
        print(f"the losses differ by {far:.1e} at most")
    if far > TOLERANCE:
        raise SystemExit("the curves are not equal")


if __name__ == "__main__":
    main()
