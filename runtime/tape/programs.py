"""The programs of functions, and what of mixed values (Variables, arrays, lists of either) a program depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ...compiler.autodiff.differentiable import differentiable_graph
from ...compiler.autodiff.flatten import flatten_signature
from ...compiler.ir.graph import Graph
from ...compiler.ir.node import RETURN, Node, Value
from ..execution.compiled import Compiled
from ..execution.differentiated import COMPILING, CompiledGraph, Differentiated, PatternKey
from ..operands.snippets import SNIPPET
from .value import TapeValue, needs_gradient


def tape_key(program: CompiledGraph, values: Sequence[Any]) -> PatternKey:
    """What the gradient for these values depends on."""
    if program.takes_lists:
        return tuple([None if v is None else needs_gradient(v) for v in values])
    return tuple([None if v is None else isinstance(v, TapeValue) and v._requires_grad for v in values])


_PROGRAMS: WeakKeyDictionary[Compiled, tuple[CompiledGraph, Graph]] = WeakKeyDictionary()


def program_of(function: Compiled) -> tuple[CompiledGraph, Graph]:
    """The program of a function, and its graph with the tuples that the program has taken apart."""
    found = _PROGRAMS.get(function)
    if found is None:
        with COMPILING:
            graph = differentiable_graph(function.callee)
            program = CompiledGraph(flatten_signature(graph), _name(graph), whole=graph.name != SNIPPET)
            found = _PROGRAMS.setdefault(function, (program, graph))
    return found


def _name(graph: Graph) -> str:
    """What nodes of a program are called: the function, or the op that a snippet is of."""
    ops = [node.kind for node in graph.nodes if node.schema is not None]
    return ops[-1] if graph.name == SNIPPET and ops else graph.title


# --- what is captured, named ---


def captured_names(differentiated: Differentiated) -> list[str]:
    """What each capture is, inputs first: its name, the op that made or first used it, and where that stands."""
    gradient = differentiated.gradient
    f = gradient.f
    inputs = [f.inputs[i] for i in gradient.captured_inputs]
    outputs = [f.outputs[i] for i in gradient.captured_outputs]
    return [_operand(value, f.name != SNIPPET) for value in inputs] + [_result(value) for value in outputs]


def _operand(value: Value, has_own_name: bool) -> str:
    """A captured input: its name, or else that of the parameter it is passed for, and the op that takes it."""
    name, use = value.name_hint, value.uses[0] if value.use_count else None
    if use is None or use.user.kind == RETURN:
        return f"'{name}'"
    schema = use.user.schema
    if schema is not None and not (has_own_name and name):
        name = schema.arguments[use.index].name
    return f"'{name}' (operand of {_op(use.user)})"


def _result(value: Value) -> str:
    """A captured temporary: its name, and the op that made it."""
    return f"{repr(value.name_hint) if value.name_hint else 'a tensor'} (result of {_op(value.node)})"


def _op(node: Node) -> str:
    return str(node.attrs.get("callee", node.kind))
