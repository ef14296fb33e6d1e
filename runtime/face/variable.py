"""gs.tape.Variable: an array whose operations are recorded, so that gradients can be taken of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tape.backward import backward
from ..tape.calls import call_on_tape, operate_on_tape
from ..tape.value import TapeValue, made_by_the_tape
from .function import Function


@made_by_the_tape
class Variable(TapeValue):
    """An array on the tape.

        w = gs.tape.Variable(np.ones(3))             a leaf: its memory is the array's
        loss = (cu.f(w, x) ** 2).sum()          records a node for each group of f's plan, and for each op
        loss.backward()                         adds to w.grad, a Variable
        w.data = w.data - 0.1 * w.grad.data

    Operators, attributes and methods mean what they mean in source. `requires_grad` is True by default for floating
    arrays, which are the only ones that can have gradients. The array of a Variable is captured, not copied: it must
    not be written into between forward and backward: `gs.settings.capture_checking` finds out who does.
    """

    __slots__ = ()

    def call_function(self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return call_on_tape(function, args, kwargs)

    def call_operation(self, function: Function, args: tuple[Any, ...]) -> Any:
        return operate_on_tape(function, args)

    def backward(self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add to the `.grad` of every leaf that this depends on.

        `gradient` is that of this Variable, in its shape; a single number needs none. `retain_graph` keeps what the
        nodes captured, for another backward; `create_graph` does too, and records the backward, so that gradients
        can be taken of gradients.
        """
        backward(self, gradient, retain_graph=retain_graph, create_graph=create_graph)
