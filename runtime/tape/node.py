"""Nodes of the tape and the edges between them.

A node stands for one operation. Its slots are the operation's differentiable outputs, tensor lists taken apart; its
edges lead from the operation's inputs to the slots that those came from. Backward, a node takes one gradient per
slot and gives one per edge. An undefined gradient is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from .mode import grad_mode

if TYPE_CHECKING:
    from .variable import Variable

Gradient: TypeAlias = Any
"""An array; a Variable where the backward is itself recorded; None if it is undefined."""
Hook: TypeAlias = Callable[..., Any]

_SEQUENCE = count()


class Edge(NamedTuple):
    """Slot number `slot` of `node`."""

    node: Node
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


class Node:
    """One operation on the tape.

    `edges` has an entry per differentiable input, None where no gradient is wanted; `metadata` one per slot.
    `sequence` numbers nodes as they are made, so that every edge leads to a smaller number. Hooks:
    `register_prehook(fn)`, called with the tuple of gradients of the slots; `register_hook(fn)`, called with the
    tuples of gradients of the edges and of the slots. Either may return a tuple to put in the place of its first.
    """

    __slots__ = ("__weakref__", "_hooks", "_prehooks", "_tensor_hooks", "edges", "metadata", "name", "sequence")
    rank = 1
    """Of several nodes that are ready, those of the lowest rank run first."""

    def __init__(self, name: str, edges: Sequence[Edge | None], metadata: Sequence[Metadata]) -> None:
        self.name = name
        self.edges = tuple(edges)
        self.metadata = tuple(metadata)
        self.sequence = next(_SEQUENCE)
        self._prehooks: dict[int, Hook] | None = None
        self._hooks: dict[int, Hook] | None = None
        self._tensor_hooks: dict[int, dict[int, Hook]] | None = None

    def backward(self, gradients: list[Gradient], create_graph: bool, keeps: bool) -> Sequence[Gradient]:
        """One gradient per edge, given one per slot. With `create_graph` gradients are Variables, and recorded; without
        `keeps` what was captured may be let go of on the way."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of what was captured of the forward."""

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges, as torch shows them."""
        return tuple((None, 0) if edge is None else (edge.node, edge.slot) for edge in self.edges)

    @property
    def size(self) -> int:
        """Elements of the first slot: a measure of what running the node takes."""
        return prod(self.metadata[0].shape) if self.metadata else 0

    # --- hooks ---

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        if self._prehooks is None:
            self._prehooks = {}
        return RemovableHandle(self._prehooks, hook)

    def register_hook(self, hook: Hook) -> RemovableHandle:
        if self._hooks is None:
            self._hooks = {}
        return RemovableHandle(self._hooks, hook)

    def tensor_hooks(self, slot: int) -> dict[int, Hook]:
        """The hooks of the Variable that a slot belongs to, to be added to."""
        if self._tensor_hooks is None:
            self._tensor_hooks = {}
        return self._tensor_hooks.setdefault(slot, {})

    def run_tensor_hooks(self, gradients: list[Gradient], create_graph: bool) -> None:
        """Let the hooks of each slot's Variable see its gradient, and replace it."""
        if self._tensor_hooks is None:
            return
        for slot, hooks in self._tensor_hooks.items():
            gradients[slot] = self._hooked(hooks, gradients[slot], slot, create_graph)

    def _hooked(self, hooks: dict[int, Hook], gradient: Gradient, slot: int, create_graph: bool) -> Gradient:
        """A gradient after a Variable's hooks have seen it; what they return has to fit as it does."""
        for hook in list(hooks.values()):
            result = None if gradient is None else hook(_shown(gradient))
            if result is not None:
                gradient = _kept(result, self.metadata[slot], create_graph)
        return gradient

    def run(self, gradients: list[Gradient], create_graph: bool, keeps: bool) -> Sequence[Gradient]:
        """`backward` with the node's own hooks around it."""
        if self._prehooks:
            gradients = _all_hooked(self._prehooks, gradients, (), self.metadata, create_graph)
        if all(gradient is None for gradient in gradients):
            return (None,) * len(self.edges)
        with grad_mode(create_graph):
            results = self.backward(gradients, create_graph, keeps)
        if not self._hooks:
            return results
        expected = [None if edge is None else edge.node.metadata[edge.slot] for edge in self.edges]
        return _all_hooked(self._hooks, results, (gradients,), expected, create_graph)

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _all_hooked(
    hooks: dict[int, Hook],
    gradients: Sequence[Gradient],
    more: tuple[Sequence[Gradient], ...],
    expected: Sequence[Metadata | None],
    create_graph: bool,
) -> list[Gradient]:
    """The gradients after each hook has seen them; a hook's result takes their place."""
    current = list(gradients)
    others = [tuple(map(_shown, values)) for values in more]
    for hook in list(hooks.values()):
        result = hook(tuple(map(_shown, current)), *others)
        if result is None:
            continue
        replaced = result if isinstance(result, tuple | list) else (result,)
        if len(replaced) != len(current):
            raise RuntimeError(f"a hook returned {len(replaced)} gradients in the place of {len(current)}")
        current = [_kept(gradient, as_, create_graph) for gradient, as_ in zip(replaced, expected, strict=True)]
    return current


def _shown(gradient: Gradient) -> Variable | None:
    """A gradient as hooks see it."""
    from .variable import as_variable

    return None if gradient is None else as_variable(gradient)


def _kept(gradient: Any, expected: Metadata | None, create_graph: bool) -> Gradient:
    """What a hook returned as the engine passes it on."""
    from .gradients import fitted
    from .variable import as_variable

    if gradient is None or expected is None:
        return None
    variable = as_variable(gradient)
    return fitted(variable if create_graph else variable.data, expected, "a hook")


class AccumulateGrad(Node):
    """Where a leaf's gradient ends up: adds it to `.grad`. It lives as long as a node leads to it."""

    __slots__ = ("_lock", "variable")
    rank = 0

    def __init__(self, variable: Variable) -> None:
        super().__init__("AccumulateGrad", (), (Metadata(variable.shape, variable.dtype),))
        self.variable = variable
        self._lock = Lock()

    def run_tensor_hooks(self, gradients: list[Gradient], create_graph: bool) -> None:
        if self.variable.hooks:
            gradients[0] = self._hooked(self.variable.hooks, gradients[0], 0, create_graph)

    def backward(self, gradients: list[Gradient], create_graph: bool, keeps: bool) -> Sequence[Gradient]:
        with self._lock:
            self.variable.accumulate(gradients[0], create_graph)
        return ()
