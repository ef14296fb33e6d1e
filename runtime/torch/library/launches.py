"""Ops as launches of their kernels, where torch's compiler looks for what an op is made of.

It asks while it makes ops functional. Of tensors of a GPU with sizes that are numbers, an op becomes its allocations,
its kernels, each by `torch.library.wrap_triton`, and what ops of torch it calls. Where that cannot be said before it
runs, because sizes are symbols, a branch looks into a tensor, or random numbers are drawn, it stays the op that it is,
and the same kernels run when it is called. An exported program keeps ops as they are.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.functional_tensor import FunctionalTensorMode

from ....compiler.fusion.fuse import Unfusable
from ....compiler.shapes.propagate import ShapeError
from ...execution.compilation import device_graph
from ...execution.differentiated import CompiledGraph
from ...failures.failure import RuntimeFailure
from ...kernels.traced import traced_program
from ..places import each

SEEN_ON = {"cuda"}
"""Kinds of devices on which kernels are Triton's."""
Decomposed = Callable[..., list[Any]]


def register_launches(library: Any, op: Any, decomposed: Decomposed) -> None:
    """Have torch's compiler see an op as `decomposed` runs it, which takes the op's arguments.

    It may raise Unfusable, ShapeError, RuntimeFailure: then it is seen as it is.
    """

    def seen(mode: Any, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not _may_be_seen([*args, *kwargs.values()]):
            return mode.__torch_dispatch__(func, types, args, kwargs)
        try:
            with mode:
                results = decomposed(*args, **kwargs)
        except (Unfusable, ShapeError, RuntimeFailure):
            # What is wrong with the arguments is said by the op itself.
            return mode.__torch_dispatch__(func, types, args, kwargs)
        return results[0] if len(results) == 1 else tuple(results)

    torch.library.register_torch_dispatch(op.name(), FunctionalTensorMode, seen, lib=library)


def run_traced(program: CompiledGraph, values: Sequence[Any]) -> list[Any]:
    """The outputs of a program on tensors that are recorded, each of its own memory. Raises: Unfusable, ShapeError."""
    traced = traced_program(device_graph(program.graph), values)
    results = traced.run(values)
    return [
        result if is_new else each([result], _copied)[0] for result, is_new in zip(results, traced.is_new, strict=True)
    ]


def _copied(value: Any) -> Any:
    return value.clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value


def _may_be_seen(values: Sequence[Any]) -> bool:
    """Whether values are tensors of a GPU of known sizes, and what else has no symbol in it."""
    if not _decomposes() or importlib.util.find_spec("triton") is None:
        return False
    found: list[Any] = []
    each(values, found.append)
    tensors = [value for value in found if isinstance(value, torch.Tensor)]
    if not tensors or any(isinstance(v, torch.SymInt | torch.SymFloat | torch.SymBool) for v in found):
        return False
    return all(tensor.device.type in SEEN_ON and _has_numbers(tensor) for tensor in tensors)


def _decomposes() -> bool:
    """Whether ops are to be seen as their kernels: not by who exports."""
    return bool(getattr(torch._functorch.config, "decompose_custom_triton_ops", True))


def _has_numbers(tensor: Any) -> bool:
    sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return not any(isinstance(size, torch.SymInt) for size in sizes)
