"""Nodes run with their hooks around them: hooks see gradients as Variables, and may put others in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .gradients import fitted
from .mode import grad_mode
from .node import GradientValue, Hook, Metadata, TapeNode
from .value import TapeValue, as_variable


def run_tensor_hooks(node: TapeNode, gradients: list[GradientValue], create_graph: bool) -> None:
    """Let the hooks of each slot's Variable see its gradient, and replace it."""
    hooked = node.hooked_slots
    if hooked is None:
        return
    for slot, hooks in hooked.items():
        gradients[slot] = _hooked(hooks, gradients[slot], node.metadata[slot], create_graph)


def run_node(
    node: TapeNode, gradients: list[GradientValue], create_graph: bool, keeps: bool
) -> Sequence[GradientValue]:
    """`node.backward` with the node's own hooks around it."""
    if node.prehooks:
        gradients = _all_hooked(node.prehooks, gradients, (), node.metadata, create_graph)
    results: Sequence[GradientValue] = (None,) * len(node.edges)
    if node.takes_undefined or any(gradient is not None for gradient in gradients):
        with grad_mode(create_graph):
            results = node.backward(gradients, create_graph, keeps)
    if not node.hooks:
        return results
    expected = [None if edge is None else edge.node.metadata[edge.slot] for edge in node.edges]
    return _all_hooked(node.hooks, results, (gradients,), expected, create_graph)


def _hooked(hooks: dict[int, Hook], gradient: GradientValue, expected: Metadata, create_graph: bool) -> GradientValue:
    """A gradient after a Variable's hooks have seen it, None if none came; what they return has to fit as it does."""
    for hook in list(hooks.values()):
        result = hook(_shown(gradient))
        if result is not None:
            gradient = _kept(result, expected, create_graph)
    return gradient


def _all_hooked(
    hooks: dict[int, Hook],
    gradients: Sequence[GradientValue],
    more: tuple[Sequence[GradientValue], ...],
    expected: Sequence[Metadata | None],
    create_graph: bool,
) -> list[GradientValue]:
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


def _shown(gradient: GradientValue) -> TapeValue | None:
    """A gradient as hooks see it."""
    return None if gradient is None else as_variable(gradient)


def _kept(gradient: Any, expected: Metadata | None, create_graph: bool) -> GradientValue:
    """What a hook returned as the engine passes it on."""
    if gradient is None or expected is None:
        return None
    variable = as_variable(gradient)
    return fitted(variable if create_graph else variable.data, expected, "a hook")
