"""What is observed of a program as `text/memory.c` and what is built behind it take it.

It needs the headers of Python, beside a compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ....values.arena import ARENA
from ..launched import thread_count
from ..library import extension
from .observed import LayoutObserver

_ALIGNMENT = 64
_TEXTS = ("dlpack.c", "products.c", "memory.c", "memory_runs.c", "memory_calls.c")
"""Parts of one module."""


@cache
def memory_types() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The type, and what has it take tensors; None where it cannot be built."""
    functions = extension(_TEXTS, "gs_memory_type", "gs_take_tensors")
    if functions is None:
        return None
    made = functions[0](np.matmul)
    return None if made is None else (made, functions[1])


@cache
def takes_tensors() -> bool:
    """Whether tensors can be taken, and given."""
    torch, types = sys.modules["torch"], memory_types()
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    return types is not None and exchange is not None and types[1]((exchange, torch.Tensor, torch.nn.Parameter))


def native_memory(seen: LayoutObserver, *, for_tensors: bool) -> Callable[[list[Any]], Any] | None:
    """What runs what was observed: (values) → what is in the slots of outputs, or NotImplemented. None where nothing
    does."""
    types = memory_types()
    if types is None or not seen.can_return(for_tensors=for_tensors) or (for_tensors and not takes_tensors()):
        return None
    returned = {root.slot for root in seen.roots_of_outputs}
    offsets, block = _placed(seen.made, seen.uses, returned)
    freed = _freed(seen, returned)
    found: Callable[[list[Any]], Any] = types[0](
        inputs=tuple(seen.inputs),
        constants=tuple(seen.program.constants),
        slots=seen.slot_count,
        made=tuple([(number, offsets.get(number, -1), layout) for number, (_, layout) in seen.made.items()]),
        views=tuple(seen.views),
        acts=tuple([(kind, tuple(free), told) for (kind, told), free in zip(seen.acts, freed, strict=True)]),
        outputs=tuple(seen.outputs),
        block=block,
        for_tensors=for_tensors,
        allocate=ARENA.empty,
        threads=thread_count,
        owner=seen.owners,
        show=_view,
    )
    return found


def _view(tensor: Any, sizes: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    """A view of a tensor, from so many elements behind its first, which no gradient flows through."""
    return tensor.detach().as_strided(sizes, strides, tensor.storage_offset() + offset).detach()


def _freed(seen: LayoutObserver, returned: set[int]) -> list[list[int]]:
    """After each act the slots whose objects nothing reads any more."""
    freed: list[list[int]] = [[] for _ in seen.acts]
    for number in seen.called:
        if number not in returned:
            freed[seen.uses[number][-1]].append(number)
    return freed


def _placed(
    made: Mapping[int, tuple[int, Any]], uses: Mapping[int, Sequence[int]], returned: set[int]
) -> tuple[dict[int, int], int]:
    """Where in one block everything lies that is not returned, and how long that is: what is there at one time lies
    apart."""
    offsets: dict[int, int] = {}
    # Where each that is there begins and ends, and after which act it is gone.
    there: list[tuple[int, int, int]] = []
    block = 0
    for number, (_, (dtype, _, sizes, _)) in sorted(made.items(), key=lambda item: uses[item[0]][0]):
        if number in returned:
            continue
        first, last = uses[number][0], uses[number][-1]
        there = sorted(item for item in there if item[2] >= first)
        size = -(-max(int(np.prod(sizes, dtype=np.int64)) * dtype.itemsize, 1) // _ALIGNMENT) * _ALIGNMENT
        at = 0
        for begin, end, _ in there:
            if begin - at >= size:
                break
            at = max(at, end)
        offsets[number] = at
        there.append((at, at + size, last))
        block = max(block, at + size)
    return offsets, block
