"""What a node keeps of the forward: tensors, lists of tensors, and anything else, each captured by its kind.

A tensor that is an output of the node itself is kept as its array and its slot, not as the Variable, which would
refer back to the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compiler.ops.arrays import Array
from ...lang.light_dataclasses import dataclass
from .value import TapeValue, as_variable, recorded

if TYPE_CHECKING:
    from .node import Edge, TapeNode

FREED = (
    "what {name} captured of the forward has been freed by an earlier backward: "
    "pass retain_graph=True to that backward to go back through it again"
)


@dataclass(slots=True)
class TensorCapture:
    """An array, and where its gradient goes: along an edge, to the node's own `slot`, or nowhere."""

    data: Array
    edge: Edge | None = None
    slot: int | None = None

    def array(self) -> Array:
        return self.data

    def value(self, node: TapeNode) -> TapeValue:
        """With its past, so that gradients flow on through it."""
        if self.slot is not None:
            return recorded(self.data, node, self.slot)
        return as_variable(self.data) if self.edge is None else recorded(self.data, *self.edge)


@dataclass(slots=True)
class ListCapture:
    """A list of tensors, or of such lists."""

    items: list[Capture]

    def array(self) -> list[Any]:
        return [item.array() for item in self.items]

    def value(self, node: TapeNode) -> list[Any]:
        return [item.value(node) for item in self.items]


@dataclass(slots=True)
class OtherCapture:
    """A number, a string, None; of a function written in Python, also a Variable that is no output of it."""

    data: Any

    def array(self) -> Any:
        return self.data

    def value(self, node: TapeNode) -> Any:
        return self.data


Capture = TensorCapture | ListCapture | OtherCapture


NestedEdges = int | tuple["NestedEdges", ...] | None
"""Where the gradient of an input or output stands among edges or slots: one number, for a list one each, or none."""


def captured(value: Any, layout: NestedEdges, tensor: Callable[[Array, int | None], TensorCapture]) -> Capture:
    """A value as it is captured, by its kind; `tensor` makes the captures of arrays from their places in the layout."""
    if isinstance(value, np.ndarray):
        return tensor(value, layout if isinstance(layout, int) else None)
    if isinstance(value, list):
        places = layout if isinstance(layout, tuple) else (None,) * len(value)
        return ListCapture([captured(item, place, tensor) for item, place in zip(value, places, strict=True)])
    return OtherCapture(value)


def require_captures(captures: list[Any] | None, name: str) -> list[Any]:
    """What was captured; RuntimeError, which says what to do, where it has been freed."""
    if captures is None:
        raise RuntimeError(FREED.format(name=name))
    return captures
