"""What torch.distributed does with a net of our functions and ops, beside one process and beside torch's own parts.

    python tests/torch/distributed/distributed_ways.py [PROCESSES ...]     with 2 and 4 processes (gloo), by default

Each line is one way to spread a net: whether parameters after some steps are those of one process, and how many
collectives there were, which are to be as many as of the net of torch's own parts. At last a process dies, and the
others are told.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from distributed_worker import OPS, UNIT
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import (
    DTensor,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
)
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

ROWS, WIDTH, STEPS = 8, 12, 3
TORCH = {
    "norm": lambda x, w: nn.functional.rms_norm(x, [x.size(-1)], w, 1e-6),
    "swiglu": lambda x, g: nn.functional.silu(x) * g,
    "loss": lambda y, target: ((y - target) * (y - target)).sum(),
}
KINDS: dict[str, Any] = {"torch": TORCH, "functions": UNIT, "ops": OPS}


class Norm(nn.Module):
    def __init__(self, calls: Any, width: int) -> None:
        super().__init__()
        self.calls = calls
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Any) -> Any:
        return self.calls["norm"](x, self.weight)


class Block(nn.Module):
    """A gated layer behind a norm, whose calls are functions, ops, or torch's own."""

    def __init__(self, calls: Any, width: int) -> None:
        super().__init__()
        self.calls = calls
        self.norm = Norm(calls, width)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Any) -> Any:
        normed = self.norm(x)
        return self.down(self.calls["swiglu"](self.gate(normed), self.up(normed)))


class Net(nn.Module):
    """Two blocks, of which the second may be left out."""

    def __init__(self, calls: Any, width: int = WIDTH) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.calls = calls
        self.first, self.second = Block(calls, width), Block(calls, width)

    def forward(self, x: Any, whole: bool = True) -> Any:
        x = x + self.first(x)
        return x + self.second(x) if whole else x


def data(width: int) -> tuple[Any, Any]:
    torch.manual_seed(1)
    return torch.randn(ROWS, width), torch.randn(ROWS, width)


def train(
    net: Any, rows: slice, calls: Any, mean: int, *, width: int = WIDTH, whole: bool = True, mesh: Any = None
) -> list[Any]:
    """With a mesh, rows are DTensors in parts there."""
    x, target = data(width)
    if mesh is not None:
        x, target = (distribute_tensor(tensor, mesh, [Shard(0)]) for tensor in (x, target))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.002)
    for _ in range(STEPS):
        optimizer.zero_grad()
        out = net(x[rows], whole)
        (mean * calls["loss"](out.float(), target[rows])).backward()
        optimizer.step()
    return parameters_of(net)


def parameters_of(net: Any) -> list[Any]:
    if isinstance(net, FullyShardedDataParallel):
        with FullyShardedDataParallel.summon_full_params(net):
            return [p.detach().clone() for p in net.parameters()]
    return [p.full_tensor() if isinstance(p, DTensor) else p.detach() for p in net.parameters()]


# --- ways ---


def overlapping(net: Any, size: int) -> Any:
    return DistributedDataParallel(net, bucket_cap_mb=1e-4, gradient_as_bucket_view=True)


def static(net: Any, size: int) -> Any:
    return DistributedDataParallel(net, static_graph=True)


def unused(net: Any, size: int) -> Any:
    return DistributedDataParallel(net, find_unused_parameters=True)


def first_fsdp(net: Any, size: int) -> Any:
    return FullyShardedDataParallel(net, use_orig_params=True, device_id=torch.device("cpu"))


def second_fsdp(net: Any, size: int) -> Any:
    mesh = init_device_mesh("cpu", (size,))
    for block in (net.first, net.second):
        fully_shard(block, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def in_bfloat16(net: Any, size: int) -> Any:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return fully_shard(net, mesh=init_device_mesh("cpu", (size,)), mp_policy=policy)


def plan(*, rows: bool) -> dict[str, Any]:
    """One block cut by columns, then rows; with `rows`, what is between is cut along rows of the batch."""
    if not rows:
        return {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    return {
        "norm": SequenceParallel(sequence_dim=0),
        "gate": ColwiseParallel(input_layouts=Shard(0)),
        "up": ColwiseParallel(input_layouts=Shard(0)),
        "down": RowwiseParallel(),
    }


def tensor_parallel(net: Any, size: int) -> Any:
    mesh = init_device_mesh("cpu", (size,))
    for block in (net.first, net.second):
        parallelize_module(block, mesh, plan(rows=False))
    return net


def sequence_parallel(net: Any, size: int) -> Any:
    mesh = init_device_mesh("cpu", (size,))
    cut = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Shard(0),))
    for block in (net.first, net.second):
        parallelize_module(block, mesh, cut)
        parallelize_module(block, mesh, plan(rows=True))
    return net


def both(net: Any, size: int) -> Any:
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("data", "tensor"))
    for block in (net.first, net.second):
        parallelize_module(block, mesh["tensor"], plan(rows=False))
        fully_shard(block, mesh=mesh["data"])
    return fully_shard(net, mesh=mesh["data"])


def rows_in_parts(net: Any, size: int) -> Any:
    return distribute_module(net, init_device_mesh("cpu", (size,)))


Way = tuple[Callable[[Any, int], Any], dict[str, Any]]
WAYS: dict[str, Way] = {
    "DDP, overlapping": (overlapping, {}),
    "DDP, static graph": (static, {}),
    "DDP, a layer unused": (unused, {"whole": False}),
    "FSDP1": (first_fsdp, {}),
    "FSDP2": (second_fsdp, {}),
    "FSDP2, uneven shards": (second_fsdp, {"width": 13}),
    "FSDP2, bfloat16": (in_bfloat16, {"tolerance": 2e-2}),
    "tensor parallel": (tensor_parallel, {"parts": 1}),
    "tensor and sequence parallel": (sequence_parallel, {"parts": 1}),
    "rows of a context in parts": (rows_in_parts, {"parts": 1, "context": True}),
    "FSDP2 × tensor parallel": (both, {"across": 2}),
}
"""How a net is spread; `parts` is into how many the rows are cut, `across` how many processes have the same ones;
with `context` rows are one tensor whose parts lie in the processes."""


class Collectives(TorchDispatchMode):
    """Counts collectives, those of C++ too. (`CommDebugMode` fails on nets in DistributedDataParallel.)"""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function)
        self.count += name.startswith(("c10d.", "_c10d_functional.")) and "wait" not in name
        return function(*args, **(kwargs or {}))


def try_way(name: str, rank: int, size: int) -> list[str]:
    spread, options = WAYS[name]
    width, whole = options.get("width", WIDTH), options.get("whole", True)
    tolerance = options.get("tolerance", 2e-5)
    parts = options.get("parts", size // options.get("across", 1))
    share = ROWS // parts
    begin = rank // options.get("across", 1) * share if parts > 1 else 0
    rows = slice(begin, begin + share)
    alone = train(Net(TORCH, width), slice(None), TORCH, 1, width=width, whole=whole)
    told: list[str] = []
    counted: dict[str, Any] = {}
    for kind, calls in KINDS.items():
        net = spread(Net(calls, width), size)
        mesh = init_device_mesh("cpu", (size,)) if options.get("context") else None
        with Collectives() as collectives:
            found = train(net, rows, calls, parts, width=width, whole=whole, mesh=mesh)
        counted[kind] = collectives.count
        worst = max(float((a - b).detach().abs().max()) for a, b in zip(found, alone, strict=True))
        if kind != "torch":
            same = "equal" if worst <= tolerance else f"DIFFERENT by {worst:.1e}"
            count = counted[kind]
            extra = "" if count == counted["torch"] else f", DIFFERENT: torch's own parts {counted['torch']}"
            told.append(f"{name} | {kind} | {same} | {count}{extra}")
    return told


def saved_and_loaded(size: int, folder: str) -> list[str]:
    """A checkpoint of a net cut in parts, loaded into another."""
    told = []
    for kind in ("functions", "ops"):
        net = second_fsdp(Net(KINDS[kind]), size)
        train(net, slice(None), KINDS[kind], 1)
        checkpoint.save(get_model_state_dict(net), checkpoint_id=f"{folder}/{kind}")
        other = second_fsdp(Net(KINDS[kind]), size)
        state = get_model_state_dict(other)
        checkpoint.load(state, checkpoint_id=f"{folder}/{kind}")
        set_model_state_dict(other, state)
        same = all(torch.equal(a, b) for a, b in zip(parameters_of(net), parameters_of(other), strict=True))
        told.append(f"checkpoint saved and loaded | {kind} | {'equal' if same else 'DIFFERENT'} | ")
    return told


def work(rank: int, size: int, folder: str, dies: bool) -> None:
    torch.set_num_threads(1)
    timeout = timedelta(seconds=60)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store{dies}", rank=rank, world_size=size, timeout=timeout
    )
    if dies:
        die(rank, size)
        return
    for name in WAYS:
        told = try_way(name, rank, size)
        if rank == 0:
            print("\n".join(told), flush=True)
    told = saved_and_loaded(size, folder)
    if rank == 0:
        print("\n".join(told), flush=True)
    # One that goes while another still talks to it is ended by Gloo's threads.
    dist.barrier()
    dist.destroy_process_group()


def die(rank: int, size: int) -> None:
    """The last process is gone in its second step."""
    net = DistributedDataParallel(Net(OPS))
    x, target = data(WIDTH)
    for step in range(3):
        loss = OPS["loss"](net(x), target)
        if step == 1 and rank == size - 1:
            os._exit(1)
        try:
            loss.backward()
        except RuntimeError as error:
            print(f"a process dies | ops | the others are told: {str(error).splitlines()[0][:60]!r} | ", flush=True)
            os._exit(0)
    print("a process dies | ops | DIFFERENT: nobody is told | ", flush=True)


def run(size: int) -> int:
    """The lines of so many processes, and how many of them are bad."""
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for dies in (False, True):
            command = [sys.executable, __file__, "--rank"]
            processes = [
                subprocess.Popen(
                    [*command, str(rank), str(size), folder, str(int(dies))], stdout=subprocess.PIPE, text=True
                )
                for rank in range(size)
            ]
            told = [process.communicate(timeout=900)[0] for process in processes]
            failed = not dies and any(process.returncode for process in processes)
            print(f"{size} processes | {told[0].rstrip()}".replace("\n", f"\n{size} processes | "), flush=True)
            bad += told[0].count("DIFFERENT") + failed + (dies and "are told" not in told[0])
    return bad


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--rank"]:
        rank, size, folder, dies = arguments[1:]
        work(int(rank), int(size), folder, bool(int(dies)))
        return 0
    print(f"torch {torch.__version__}", flush=True)
    return sum(run(int(size)) for size in arguments or ("2", "4"))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(bool(main(sys.argv[1:])))
