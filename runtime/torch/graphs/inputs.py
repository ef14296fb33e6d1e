"""What a captured call reads, and what it is guarded by.

A graph reads the same memory at each replay: what calls bring is copied there. Parameters are read where they lie, for
an optimizer writes into them in place. All else, shapes, dtypes, numbers, is what the graph was captured for.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ....lang.source import Span
from ...failures.failure import RuntimeFailure
from .driver import has_driver

_PLAIN = (int, float, bool, complex, str, bytes, type(None), torch.dtype, torch.device)
CUDA = "a CUDA graph is captured of work on one CUDA device"


def into_leaves(values: Any) -> tuple[list[Any], Any]:
    """The leaves of nested lists, tuples and dicts, and what they are put together by."""
    leaves, structure = pytree.tree_flatten(values)
    return leaves, structure


def from_leaves(leaves: Sequence[Any], structure: Any) -> Any:
    """What was taken apart."""
    return pytree.tree_unflatten(list(leaves), structure)


def kind_of_call(leaves: Sequence[Any], structure: Any) -> Hashable:
    """What a graph is captured for; of floats their bits, of parameters where they lie."""
    return (
        structure,
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda"),
        *[_guard(leaf) for leaf in leaves],
    )


def _guard(leaf: Any) -> Hashable:
    if isinstance(leaf, torch.Tensor):
        place = leaf.data_ptr() if isinstance(leaf, torch.nn.Parameter) else None
        return (leaf.shape, leaf.dtype, leaf.device, leaf.requires_grad, place)
    if isinstance(leaf, float):
        # Zeros differ in their signs, which equality does not see.
        return (float, leaf.hex())
    return (type(leaf), leaf if isinstance(leaf, _PLAIN) else id(leaf))


def seen(leaves: Sequence[Any]) -> list[tuple[Hashable, str]]:
    """What is remembered of the leaves of a call, to tell in what another one differs."""
    return [(_guard(leaf), _described(leaf)) for leaf in leaves]


def first_difference(before: Sequence[tuple[Hashable, str]], leaves: Sequence[Any]) -> str:
    """Of the leaves of two calls of different kinds, what is the first to differ, in words."""
    for place, ((guard, described), leaf) in enumerate(zip(before, leaves, strict=False)):
        if guard != _guard(leaf):
            number = "" if isinstance(leaf, torch.Tensor) else "; what is in a tensor may change"
            return f"value {place + 1} of the arguments was {described}, and is {_described(leaf)}{number}"
    return "the arguments are of another structure, or torch is in another mode"


def _described(leaf: Any) -> str:
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf)
    owner = "a parameter at another place, " if isinstance(leaf, torch.nn.Parameter) else ""
    gradient = " with a gradient" if leaf.requires_grad else ""
    return f"{owner}{leaf.dtype} {list(leaf.shape)} on {leaf.device}{gradient}"


def check_leaves(name: str, leaves: Sequence[Any], span: Span) -> torch.device:
    """The device of all tensors. Raises: RuntimeFailure for what a replay could not read anew."""
    devices = {leaf.device for leaf in leaves if has_driver(leaf)}
    if len(devices) > 1:
        found = " and ".join(sorted(map(str, devices)))
        raise RuntimeFailure("R003", name, f"tensors are on {found}: {CUDA}", span=span)
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and not has_driver(leaf):
            raise _unfit(name, place, f"is on {leaf.device}", "move it: `x.cuda()`", span)
        if isinstance(leaf, torch.Tensor) and leaf.layout is not torch.strided:
            raise _unfit(name, place, f"is of the layout {leaf.layout}", "make it dense: `x.to_dense()`", span)
        if not isinstance(leaf, (torch.Tensor, *_PLAIN)):
            note = "a graph is captured for tensors, numbers and strings, in lists, tuples and dicts"
            raise _unfit(name, place, f"is a {type(leaf).__name__}", note, span)
    if not devices:
        note = "`f` itself runs on any device" if torch.cuda.is_available() else "there is none here; `f` itself runs"
        raise RuntimeFailure("R003", name, f"no tensor among the arguments is on one: {CUDA}", span=span, notes=[note])
    return devices.pop()


def _unfit(name: str, place: int, what: str, note: str, span: Span) -> RuntimeFailure:
    return RuntimeFailure("R003", name, f"value {place + 1} of the arguments {what}: {CUDA}", span=span, notes=[note])


class Inputs:
    """The memory that a graph reads: for each leaf the tensor, or what else it is."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        self.leaves = [_own(leaf) for leaf in leaves]
        self._places = [i for i, leaf in enumerate(self.leaves) if _is_copied(leaf)]
        self._copied = [self.leaves[i] for i in self._places]
        self.differentiable = [
            i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        ]
        self._versions = self._seen()

    def take(self, leaves: Sequence[Any]) -> None:
        """Have the graph read these elements."""
        if self._copied:
            with torch.no_grad():
                torch._foreach_copy_(self._copied, [leaves[i] for i in self._places])

    def written(self) -> int | None:
        """The place of a leaf that was written to since its memory was made, other than by the graph's own."""
        versions = zip(self._places, self._versions, self._seen(), strict=True)
        return next((place for place, before, now in versions if before != now), None)

    def _seen(self) -> list[int]:
        return [tensor._version for tensor in self._copied]


def _own(leaf: Any) -> Any:
    if not _is_copied(leaf):
        return leaf
    with torch.no_grad():
        own = torch.empty_like(leaf).copy_(leaf)
    return own.requires_grad_(leaf.requires_grad)


def _is_copied(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and not isinstance(leaf, torch.nn.Parameter)
