"""What a function gives where no gradient is recorded: which results are arguments still, with their gradients."""

from __future__ import annotations

from collections.abc import Mapping

from ...lang.light_dataclasses import dataclass
from ..functionalize.unrecorded import detach_results, inline_call, is_plain_call, may_carry
from ..ir.graph import Graph
from ..ir.node import RECORDED
from ..passes.gradients.propagate_requires_grad import propagate_requires_grad
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..passes.simplification.fold_constants import fold_constants
from .requires_grad import asks


@dataclass(frozen=True, eq=False, slots=True)
class Unrecorded:
    """What a function computes when it is called where no gradient flows.

    Arguments that it returns keep their gradients, and `x.requires_grad` is true of them and of their views; what it
    computes in a `with torch.enable_grad():` has one all the same, as `enables` says. `passed` are the results
    that surely are an argument, and which; `decides` says that the graph is needed to know more than that.
    """

    graph: Graph
    passed: Mapping[int, int]
    decides: bool
    enables: bool


def unrecorded(graph: Graph, *, enables: bool = True) -> Unrecorded | None:
    """None where nothing that the function gives keeps a gradient, and it asks for none.

    Nothing is recorded in what enables gradients either unless it `enables` them: in torch's inference mode.
    """
    copied = graph.plain_copy()
    pending = [*copied.all_nodes()]
    found = False
    while pending:
        node = pending.pop()
        if RECORDED in node.attrs and enables:
            found = True
            continue
        if is_plain_call(copied, node):
            pending += inline_call(copied, node)
        else:
            detach_results(copied, node, guess=True)
    fold_constants(copied)
    eliminate_dead_code(copied)
    inputs = {value: i for i, value in enumerate(copied.inputs) if may_carry(value.type)}
    passed = {i: inputs[value] for i, value in enumerate(copied.outputs) if value in inputs}
    decides = asks(copied) or not _keeping(copied) <= passed.keys()
    return Unrecorded(copied, passed, decides, found) if decides or passed else None


def _keeping(graph: Graph) -> set[int]:
    """The results that may depend on an argument in a way that gradients go, or be a view of one."""
    typed = graph.copy()
    propagate_requires_grad(typed)
    return {i for i, value in enumerate(typed.outputs) if may_carry(value.type)}
