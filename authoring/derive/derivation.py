"""`gs.derive`: the backward of a function that has none, as source in the language."""

from __future__ import annotations

from ...compiler.autodiff.derived import NoGradient
from ...compiler.ir.graph import Callee, Graph
from ...compiler.ir.node import walk
from ...compiler.lift import callee_of
from ...compiler.types.schema import FunctionSchema
from ...compiler.unparse import unparse_function
from ...lang.diagnostics import CompileError
from ...lang.light_dataclasses import dataclass
from ...runtime.face.function import Function
from ...runtime.face.stages import source_text
from .joined import joined
from .simplify import simplify
from .splice import spliced
from .tidy import name_gradients, name_terms, tidy

LONGEST_LINE = 100


@dataclass(frozen=True, slots=True)
class Derivation:
    """A function with the backward that was derived for it."""

    name: str
    text: str
    """The whole function."""
    callee: Callee
    """The function compiled from a graph, before it was a text."""
    kept_text: bool
    """Whether the author's text stands in it as it was."""


def derive(function: Function) -> str:
    """The source of a function with a `def backward` of its own, written for it.

        print(gs.derive(cu.f))            the function as its author wrote it, and the backward before its `return`

    A function that has a backward comes back as it is written. ValueError where there is no gradient, with the reason;
    TypeError for what is no function of a unit.
    """
    if not isinstance(function, Function):
        raise TypeError(f"gs.derive takes a function of a unit, not {type(function).__name__}")
    if function.pair is not None:
        return source_text(function.definition) if function.definition is not None else function.code
    return derivation_of(function).text


def derivation_of(function: Function) -> Derivation:
    """The derivation of a function without a backward. ValueError where it has no gradient."""
    graph = _closed(function.callee)
    name = function.name
    callee, text = _printed(function, graph)
    if _is_too_long(text):
        name_gradients(graph)
        callee, text = _printed(function, graph)
    while _is_too_long(text) and name_terms(graph):
        callee, text = _printed(function, graph)
    kept = spliced(function, graph, text)
    return Derivation(name, kept or text, callee, kept is not None)


def _printed(function: Function, graph: Graph) -> tuple[Callee, str]:
    callee = _compiled(graph, function.callee.schema)
    lines = unparse_function(callee, docstring=function.__doc__).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("    def backward("))
    last = next(i for i in range(first + 1, len(lines)) if not lines[i].startswith("        "))
    blank = [""] if first > 1 else []
    return callee, "\n".join([*lines[:first], *blank, *lines[first:last], "", *lines[last:]]) + "\n"


def _is_too_long(text: str) -> bool:
    """Whether a line of the closure is: those of the forward are its author's."""
    return any(len(line) > LONGEST_LINE for line in text.splitlines() if line.startswith("        "))


def _closed(callee: Callee) -> Graph:
    """The function's graph with a closure that is its derivative, simplified and named."""
    try:
        graph = joined(callee)
    except NoGradient as error:
        raise ValueError(str(error)) from None
    values = [*callee.graph.inputs, *(v for node in walk(callee.graph.nodes) for v in node.outputs)]
    names = {value.name_hint for value in values if value.name_hint}
    simplify(graph)
    tidy(graph, names)
    return graph


def _compiled(graph: Graph, schema: FunctionSchema) -> Callee:
    try:
        made = callee_of(graph)
    except CompileError as error:
        raise ValueError(f"'{schema.name}' has no gradient that a closure can be: {error.message}") from None
    return Callee(FunctionSchema(schema.name, "", schema.arguments, made.schema.returns), made.graph, made.pair)
