"""Shapes of what a function gives for sizes that torch leaves open, by rules of shapes: no size becomes a number that
nothing asked for.

    f(x[s0, 3]), a branch on data in f      propagated with a size that is open, 5 at hand
    result [10, 3], 10 = 2 * open           torch.empty(2 * s0, 3)
    open >= 4 was asked                     asked of s0 too, which is torch's guard
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....compiler.ir.graph import Graph
from ....compiler.ops.meta import UNKNOWN, Meta
from ....compiler.shapes.propagate import ShapeError, propagate_shapes
from ....compiler.types.guards import LEAST, values_of_atoms
from ....compiler.types.open_sizes import Symbols, closed
from ...failures.failed_node import misfit_failure
from ...values.torch_dtypes import dtypes_of_torch
from ..places import each


def results_of(graph: Graph, values: Sequence[Any], *, leave_open: bool = True) -> list[Any]:
    """The abstract results of a graph, sizes as torch has them. RuntimeFailure where shapes do not fit."""
    open_numbers = _open_numbers(values) if leave_open else {}
    symbols = Symbols([_at_hand(number) for number in open_numbers.values()])
    opened = dict(zip(open_numbers, symbols.sizes, strict=True))

    def described(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return Meta(tuple([_opened(size, opened) for size in value.shape]), dtypes_of_torch()[value.dtype])
        return _opened(value, opened)

    try:
        known = propagate_shapes(graph, each(values, described))
    except ShapeError as error:
        raise misfit_failure(error) from error
    results = [known.get(output, UNKNOWN) for output in graph.outputs]
    if not opened:
        return results
    atoms: list[Any] = values_of_atoms(symbols, [*open_numbers.values()])
    if not symbols.noted.hold(atoms):
        raise AssertionError("what was found of the sizes at hand does not hold of them")

    def as_given(value: Any) -> Any:
        if isinstance(value, Meta):
            return Meta(closed(value.shape, atoms), value.dtype)
        return closed(value, atoms)

    return each(results, as_given)


def _open_numbers(values: Sequence[Any]) -> dict[Any, Any]:
    """The numbers that torch leaves open, by the expressions that they are: of one, each is the same."""
    found: dict[Any, Any] = {}

    def note(value: Any) -> Any:
        for number in value.shape if isinstance(value, torch.Tensor) else (value,):
            if _is_open(number):
                found.setdefault(number.node.expr, number)
        return value

    each(values, note)
    return found


def _is_open(number: Any) -> bool:
    """Whether a number is one that stands for others, of which one is at hand."""
    if isinstance(number, torch.SymFloat):
        return number.node.has_hint() and not number.node.is_constant()
    if not isinstance(number, torch.SymInt) or not number.node.has_hint() or number.node.is_constant():
        return False
    return bool(number.node.hint >= LEAST)


def _at_hand(number: Any) -> int | float:
    return float(number.node.hint) if isinstance(number, torch.SymFloat) else int(number.node.hint)


def _opened(value: Any, opened: dict[Any, Any]) -> Any:
    """A number that is left open as that, any other that is a symbol as the one at hand, which is torch's guard."""
    if isinstance(value, torch.SymInt | torch.SymFloat):
        found = opened.get(value.node.expr) if opened and _is_open(value) else None
        if found is not None:
            return found
        return int(value) if isinstance(value, torch.SymInt) else float(value)
    return value
