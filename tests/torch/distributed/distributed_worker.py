"""One of several processes that train a net, and the same alone: `python distributed_worker.py RANK SIZE FILE`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import gradscript as gs
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

UNIT = gs.CompilationUnit(
    """
def swiglu(x, g):
    s = torch.sigmoid(x)

    def backward(grad):
        return grad * g * s * (1 + x * (1 - s)), grad * x * s

    return x * s * g, backward

def norm(x, w):
    return F.rms_norm(x, [x.size(-1)], w, 1e-6)

def loss(y, target):
    return ((y - target) * (y - target)).sum()
"""
)
OPS = gs.torch_op(UNIT, "distributed")
ROWS, WIDTH, STEPS = 8, 12, 3


class Net(nn.Module):
    """A gated layer behind a norm; `calls` are the functions, or the ops, that it is made of."""

    def __init__(self, calls: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.calls = calls
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        scale = self.scale
        normed = self.calls["norm"](x, scale)
        return self.down(self.calls["swiglu"](self.gate(normed), self.up(normed)))


def train(net: Any, rows: slice, calls: Any, mean: int) -> list[Any]:
    """The parameters after some steps on some rows; `mean` processes take the mean of their gradients."""
    torch.manual_seed(1)
    x, target = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (mean * calls["loss"](net(x[rows]), target[rows])).backward()
        optimizer.step()
    return [p.full_tensor() if isinstance(p, DTensor) else p.detach() for p in net.parameters()]


def data_parallel(net: Any, mesh: Any) -> Any:
    return DistributedDataParallel(net)


def static_graph(net: Any, mesh: Any) -> Any:
    return DistributedDataParallel(net, static_graph=True)


def fully_sharded(net: Any, mesh: Any) -> Any:
    fully_shard(net)
    return net


def tensor_parallel(net: Any, mesh: Any) -> Any:
    plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    return parallelize_module(net, mesh, plan)


WAYS: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "ddp": (data_parallel, True),
    "ddp static": (static_graph, True),
    "fsdp2": (fully_sharded, True),
    "tp": (tensor_parallel, False),
}
"""By name: what is done to a net, and whether each process takes rows of its own."""


def main(rank: int, size: int, file: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,))
    share = ROWS // size
    for kind, calls in (("functions", UNIT), ("ops", OPS)):
        alone = train(Net(calls), slice(None), calls, 1)
        for name, (spread, has_own_rows) in WAYS.items():
            rows = slice(rank * share, (rank + 1) * share) if has_own_rows else slice(None)
            net = spread(Net(calls), mesh)
            found = train(net, rows, calls, size if has_own_rows else 1)
            for a, b in zip(found, alone, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
            print(f"{kind} {name}: equal", flush=True)
    rows_of_a_sequence(mesh)
    # One that goes while another still talks to it is ended by Gloo's threads, some of which may outlive the group and
    # abort while the interpreter ends: all there is to say has been said.
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)


def rows_of_a_sequence(mesh: Any) -> None:
    """A norm on rows that are shared out, also unevenly: the gradient of its weight is that of all."""
    for count in (ROWS, ROWS + 1):
        x, w = torch.randn(count, WIDTH), torch.rand(WIDTH)
        dist.broadcast(x, 0)
        dist.broadcast(w, 0)
        weight = distribute_tensor(w, mesh, [Replicate()]).requires_grad_()
        OPS["norm"](distribute_tensor(x, mesh, [Shard(0)]), weight).sum().backward()
        own = w.clone().requires_grad_()
        OPS["norm"](x, own).sum().backward()
        torch.testing.assert_close(weight.grad.full_tensor(), own.grad, rtol=1e-4, atol=1e-5)
        print(f"{count} rows: equal", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
