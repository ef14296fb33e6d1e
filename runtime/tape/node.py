"""Nodes of the tape and the edges between them.

A node stands for one operation. Its slots are the operation's differentiable outputs, tensor lists taken apart; its
edges lead from the operation's inputs to the slots that those came from. Backward, a node takes one gradient per
slot and gives one per edge. An undefined gradient is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import prod
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

GradientValue: TypeAlias = Any
"""An array; a Variable where the backward is itself recorded; None if it is undefined."""
Hook: TypeAlias = Callable[..., Any]

_SEQUENCE = count()


class Edge(NamedTuple):
    """Slot number `slot` of `node`."""

    node: TapeNode
    slot: int


class Metadata(NamedTuple):
    """What a gradient of a slot looks like: enough to make zeros of an undefined one."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def zeros(self) -> np.ndarray[Any, Any]:
        return np.zeros(self.shape, self.dtype)


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away again."""

    __slots__ = ("_hooks", "_key")
    _keys = count()

    def __init__(self, hooks: dict[int, Hook], hook: Hook) -> None:
        if not callable(hook):
            raise TypeError(f"a hook is a function, not a {type(hook).__name__}")
        self._hooks = hooks
        self._key = next(self._keys)
        hooks[self._key] = hook

    def remove(self) -> None:
        self._hooks.pop(self._key, None)


class TapeNode:
    """One operation on the tape.

    `edges` has an entry per differentiable input, None where no gradient is wanted; `metadata` one per slot.
    `sequence` numbers nodes as they are made, so that every edge leads to a smaller number. Hooks:
    `register_prehook(fn)`, called with the tuple of gradients of the slots; `register_hook(fn)`, called with the
    tuples of gradients of the edges and of the slots. Either may return a tuple to put in the place of its first.
    """

    __slots__ = ("__weakref__", "_tensor_hooks", "edges", "hooks", "metadata", "name", "prehooks", "sequence")
    rank = 1
    """Of several nodes that are ready, those of the lowest rank run first."""
    takes_undefined = False
    """Whether the backward runs though none of its gradients came: what is computed of none is none otherwise."""

    def __init__(self, name: str, edges: Sequence[Edge | None], metadata: Sequence[Metadata]) -> None:
        self.name = name
        self.edges = tuple(edges)
        self.metadata = tuple(metadata)
        self.sequence = next(_SEQUENCE)
        self.prehooks: dict[int, Hook] | None = None
        self.hooks: dict[int, Hook] | None = None
        self._tensor_hooks: dict[int, dict[int, Hook]] | None = None

    def backward(self, gradients: list[GradientValue], create_graph: bool, keeps: bool) -> Sequence[GradientValue]:
        """One gradient per edge, given one per slot. With `create_graph` gradients are Variables, and recorded; without
        `keeps` what was captured may be let go of on the way."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of what was captured of the forward."""

    @property
    def next_functions(self) -> tuple[tuple[TapeNode | None, int], ...]:
        """The edges, as torch shows them."""
        return tuple((None, 0) if edge is None else (edge.node, edge.slot) for edge in self.edges)

    @property
    def size(self) -> int:
        """Elements of the first slot: a measure of what running the node takes."""
        return prod(self.metadata[0].shape) if self.metadata else 0

    # --- hooks ---

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        if self.prehooks is None:
            self.prehooks = {}
        return RemovableHandle(self.prehooks, hook)

    def register_hook(self, hook: Hook) -> RemovableHandle:
        if self.hooks is None:
            self.hooks = {}
        return RemovableHandle(self.hooks, hook)

    def tensor_hooks(self, slot: int) -> dict[int, Hook]:
        """The hooks of the Variable that a slot belongs to, to be added to."""
        if self._tensor_hooks is None:
            self._tensor_hooks = {}
        return self._tensor_hooks.setdefault(slot, {})

    @property
    def hooked_slots(self) -> Mapping[int, dict[int, Hook]] | None:
        """Per slot the hooks of its Variable; None where there are none."""
        return self._tensor_hooks

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Leaf(Protocol):
    """What a gradient ends up at: a Variable that no operation made."""

    hooks: dict[int, Hook] | None

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def accumulate(self, gradient: GradientValue, create_graph: bool) -> None: ...


class AccumulateGrad(TapeNode):
    """Where a leaf's gradient ends up: adds it to `.grad`. It lives as long as a node leads to it."""

    __slots__ = ("_lock", "variable")
    rank = 0

    def __init__(self, variable: Leaf) -> None:
        super().__init__("AccumulateGrad", (), (Metadata(variable.shape, variable.dtype),))
        self.variable = variable
        self._lock = Lock()

    @property
    def hooked_slots(self) -> Mapping[int, dict[int, Hook]] | None:
        return {0: self.variable.hooks} if self.variable.hooks else None

    def backward(self, gradients: list[GradientValue], create_graph: bool, keeps: bool) -> Sequence[GradientValue]:
        with self._lock:
            self.variable.accumulate(gradients[0], create_graph)
        return ()
