"""`gs.derive`: the backward of a function that has none, as source in the language."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from ...compiler.autodiff.derived import NoGradient
from ...compiler.ir.graph import Callee, Graph
from ...compiler.ir.node import walk
from ...compiler.lift import callee_of
from ...compiler.types.schema import FunctionSchema
from ...compiler.unparse import function_lines, unparse_function
from ...lang.diagnostics import CompileError
from ...lang.light_dataclasses import dataclass
from ...lang.source import Source
from ...runtime.face.function import Function
from ...runtime.face.stages import source_text
from ...runtime.face.units.sources import functions_of
from .authored import authored
from .joined import closures_of, joined
from .merged import merged
from .nested import nested
from .placing import stands_alone, stands_for
from .simplify import simplify
from .splice import spliced
from .tidy import name_gradients, name_terms, tidy
from .writes import with_writes

LONGEST_LINE = 100


@dataclass(frozen=True, slots=True)
class Derivation:
    """A function with the backward that was derived for it."""

    name: str
    text: str
    """The whole function."""
    callee: Callee
    """The function compiled from a graph, before it was a text."""


MAX_ORDER = 8
"""Backwards in each other: each is a few times as long as the one around it."""


def derive(function: Function, order: int = 1) -> str:
    """The source of a function with a `def backward` of its own, written for it.

        print(gs.derive(cu.f))            the function as its author wrote it, and the backward before its `return`

    With `order=2` the backward has one of its own in turn, which gives the gradients of its gradients, and so on. A
    function that has as many comes back as it is written. ValueError where there is no gradient, with the reason;
    TypeError for what is no function of a unit.
    """
    if not isinstance(function, Function):
        raise TypeError(f"gs.derive takes a function of a unit, not {type(function).__name__}")
    if isinstance(order, bool) or not isinstance(order, int) or not 1 <= order <= MAX_ORDER:
        message = f"order={order!r:.40}: a backward is derived to order 1, 2 and so on, up to {MAX_ORDER}"
        raise ValueError(message)
    if nesting_of_backwards(function) >= order:
        return source_text(function.definition) if function.definition is not None else function.code
    return derivation_of(function, order).text


def nesting_of_backwards(function: Function) -> int:
    """How many backwards stand in each other in a function."""
    return len(closures_of(function.callee.graph))


def derivation_of(function: Function, order: int = 1) -> Derivation:
    """A function with the backwards that it does not have, to an order. ValueError where it has no gradient."""
    graph = function.callee.graph
    for _ in range(order - nesting_of_backwards(function)):
        graph = _tidied(_closed(function.callee, graph), function)
    callee, text = _printed(function, graph)
    if order > 1:
        _require_source(text, function.name, order)
    kept = spliced(function, graph, text) or _laid_out(function, callee, text)
    if kept is not None:
        kept = with_writes(kept, partial(stands_for, function=function, text=text))
    stands = partial(stands_alone, name=function.name, text=text)
    return Derivation(function.name, kept or with_writes(text, stands), callee)


def _laid_out(function: Function, callee: Callee, text: str) -> str | None:
    """The derived function as its author laid it out; None where that says something else."""
    definition = function.definition
    layout = authored(definition) if definition is not None and function.calls_own_source else None
    if layout is None or definition is None:
        return None
    plain, derived = function_lines(function.callee), function_lines(callee)
    for verbatim in (True, False):
        lines = merged(
            layout, definition.span.source, plain, derived, nesting_of_backwards(function), verbatim=verbatim
        )
        made = _spaced("\n".join(lines).removesuffix("\n").split("\n"))
        if stands_for(made, function, text):
            return made
    return None


def _require_source(text: str, name: str, order: int) -> None:
    """ValueError where the language cannot say the text, as with gradients of lists in which some are missing."""
    try:
        functions_of(Source(text))
    except CompileError as error:
        reason = f"'{name}' has no backward of order {order} that is source: {error.message}"
        raise ValueError(f"{reason}; derive it to order {order - 1}, whose body is differentiated anyway") from None


def _tidied(graph: Graph, function: Function) -> Graph:
    """The graph with names in its innermost closure for what makes lines too long."""
    _, text = _printed(function, graph)
    if _is_too_long(text, graph):
        name_gradients(graph)
        _, text = _printed(function, graph)
    return _with_terms(graph, function) if _is_too_long(text, graph) else graph


def _with_terms(graph: Graph, function: Function) -> Graph:
    """A graph with names for as many terms as make its lines short enough: found by doubling and halving the number,
    for each try prints the whole text."""
    too_few, enough = 0, 1
    found, done = _named(graph, function, enough)
    while found is None and done == enough:
        too_few, enough = enough, 2 * enough
        found, done = _named(graph, function, enough)
    if found is None:
        # There are no more.
        name_terms(graph, done)
        return graph
    enough = done
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        fewer, _ = _named(graph, function, middle)
        if fewer is None:
            too_few = middle
        else:
            found, enough = fewer, middle
    return found


def _named(graph: Graph, function: Function, count: int) -> tuple[Graph | None, int]:
    """A copy with names for some terms, or None where a line is still too long; and for how many there are names."""
    copied = graph.copy()
    done = name_terms(copied, count)
    _, text = _printed(function, copied)
    return (None if _is_too_long(text, copied) else copied), done


def _printed(function: Function, graph: Graph) -> tuple[Callee, str]:
    callee = _compiled(graph, function.callee.schema)
    text = unparse_function(callee, docstring=function.__doc__)
    return callee, _spaced(text.removesuffix("\n").split("\n"))


def _spaced(lines: Sequence[str]) -> str:
    """The lines with blank ones around each closure."""
    made = [lines[0]]
    ends: list[int] = []
    for before, line in pairwise(lines):
        if not line:
            made += [""] if made[-1] else []
            continue
        margin = len(line) - len(line.lstrip())
        while ends and margin <= ends[-1]:
            made += [""] if made[-1] else []
            ends.pop()
        if line.lstrip().startswith("def "):
            made += [""] if not before.endswith(":") and made[-1] else []
            ends.append(margin)
        made.append(line)
    return "\n".join(made) + "\n"


def _is_too_long(text: str, graph: Graph) -> bool:
    """Whether a line of the innermost closure is: the others are their author's, or were looked at before."""
    indent = "    " * (len(closures_of(graph)) + 1)
    return any(len(line) > LONGEST_LINE for line in text.split("\n") if line.startswith(indent))


def _closed(callee: Callee, graph: Graph) -> Graph:
    """The function's graph with one closure more, which is its derivative, simplified and named."""
    values = [*graph.inputs, *(value for node in walk(graph.nodes) for value in node.outputs)]
    names = {value.name_hint for value in values if value.name_hint}
    try:
        graph = nested(graph) if closures_of(graph) else joined(callee)
    except NoGradient as error:
        raise ValueError(str(error)) from None
    called = {node.attr("callee") for node in graph.all_nodes() if node.kind == "prim::CallFunction"}
    unnamed = sorted(called.difference(graph.functions))
    if unnamed:
        order = len(closures_of(graph))
        reason = f"it calls {unnamed[0]}, which a text cannot name"
        raise ValueError(
            f"'{callee.schema.name}' has no backward of order {order} that is source: {reason}; derive it to order "
            f"{order - 1}, whose body is differentiated anyway"
        )
    simplify(graph)
    tidy(graph, names)
    return graph


def _compiled(graph: Graph, schema: FunctionSchema) -> Callee:
    try:
        made = callee_of(graph)
    except CompileError as error:
        raise ValueError(f"'{schema.name}' has no gradient that a closure can be: {error.message}") from None
    return Callee(FunctionSchema(schema.name, "", schema.arguments, made.schema.returns), made.graph, made.pair)
