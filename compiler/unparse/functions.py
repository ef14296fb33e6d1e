"""Whole functions, units and pairs as source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..analysis.captures import captures
from ..ir.graph import Callee, GradPair, Graph
from ..ir.node import Node, Value
from ..spelling.names import BUILTINS
from ..spelling.overloads import Resolver
from ..types.schema import Argument, FunctionSchema
from ..types.types import CLOSURE, TupleType, Type
from .dtypes import dtype_constants
from .expressions import ExpressionText
from .inlining import FunctionShape
from .literals import annotation, parameters_text, triple_quoted
from .names import SourceNames
from .statements import INDENT, SourceLine, StatementWriter

_SEPARATOR = "\n\n\n"


def unparse_function(callee: Callee, beside: Iterable[str] = (), docstring: str | None = None) -> str:
    """One function as source, closures in place, as it stands `beside` functions of these names.

    A function without a closure is written with every type, as the halves of a lifted pair are, so that a pair's text
    compiles to the same text; one with a closure as its author writes it.
    """
    lines = [str(line) for line in function_lines(callee, beside)]
    if docstring is not None:
        lines.insert(1, INDENT + triple_quoted(docstring))
    return "\n".join(lines)


def function_lines(callee: Callee, beside: Iterable[str] = ()) -> list[SourceLine]:
    """The lines of `unparse_function`, each with the node that it says."""
    beside = beside or (callee.schema.name, *callee.graph.functions)
    writer = _writer(callee.graph, beside)
    _define(writer, callee.schema, callee.graph, annotated=not callee.graph.returns_closure)
    return writer.lines


def unparse_unit(callees: Mapping[str, Callee], docstrings: Mapping[str, str | None] | None = None) -> str:
    """Every function of a unit, in order, with the docstrings that are given."""
    docstrings = docstrings or {}
    return _joined([unparse_function(callee, callees, docstrings.get(name)) for name, callee in callees.items()])


def unparse_pair(pair: GradPair) -> str:
    """The pair as two plain functions, then, if it has one, the pair of its backward, then the functions called.

    Every function has a name of its own: a second-order pair's are `NAME_backward` and its closure's name.
    """
    functions: list[tuple[FunctionSchema, Graph]] = []
    called = _called(pair.graphs)
    taken: set[str] = set(called)
    current: GradPair | None = pair
    while current is not None:
        forward, backward = current.forward, current.backward
        functions.append((_renamed(current.schema, _unique(current.schema.name, taken), forward), forward))
        functions.append((_schema_of(backward, _unique(backward.name, taken)), backward))
        current = current.second
    texts = [_function(schema, graph, taken, annotated=True) for schema, graph in functions]
    return _joined(texts + [unparse_function(callee, taken) for callee in called.values()])


def _called(graphs: list[Graph]) -> dict[str, Callee]:
    """The functions that graphs call, and those that they call, in the order met."""
    found: dict[str, Callee] = {}
    for graph in graphs:
        for node in graph.all_nodes():
            callee = graph.called(node)
            if callee is not None and callee.schema.name not in found:
                found[callee.schema.name] = callee
                graphs.append(callee.graph)
    return found


def unparse_closure_stage(callee: Callee) -> str:
    """The function with its closures' code in functions beside it, which take what the closure captures as a context.

    A closure that holds another one is left where it is: what its code makes, the other captures. What is called stands
    behind.
    """
    called = _called([callee.graph])
    taken = {callee.schema.name, *called}
    writer = _writer(callee.graph, taken)
    codes: list[tuple[str, Node]] = []

    def replaced(writer: StatementWriter, node: Node, depth: int) -> bool:
        (block,) = node.blocks
        if any(inner.kind == "prim::Function" for inner in block.nodes):
            return False
        name = _unique(f"{callee.schema.name}_{node.attrs['name']}", taken)
        codes.append((name, node))
        context = ", ".join(writer.names[v] for v in _captured(writer, node))
        comma = "," if context and ", " not in context else ""
        given = ", ".join([f"({context}{comma})", *(writer.names[v] for v in block.inputs)])
        writer.add(depth, f"def {writer.names[node.output]}({writer.parameters(block.inputs)}):")
        writer.add(depth + 1, f"return {name}({given})")
        return True

    writer.closure = replaced
    _define(writer, callee.schema, callee.graph, annotated=True)
    parts = [_text(writer)]
    for name, node in codes:
        writer.lines = []
        _code(writer, name, node)
        parts.append(_text(writer))
    return _joined(parts + [unparse_function(other, taken) for other in called.values()])


def _text(writer: StatementWriter) -> str:
    return "\n".join(map(str, writer.lines))


def _joined(parts: list[str]) -> str:
    return _SEPARATOR.join(parts) + "\n"


def _function(schema: FunctionSchema, graph: Graph, beside: Iterable[str], *, annotated: bool) -> str:
    writer = _writer(graph, beside)
    _define(writer, schema, graph, annotated=annotated)
    return _text(writer)


def _writer(graph: Graph, beside: Iterable[str]) -> StatementWriter:
    """A writer for a graph that stands `beside` functions of these names.

    Its variables go by other names than what it calls, whatever else stands beside it: then the text is the same there
    and where it is compiled again.
    """
    resolver = Resolver()
    shape = FunctionShape(graph.body, resolver)
    called = {node.attrs["callee"] for node in graph.all_nodes() if node.kind == "prim::CallFunction"}
    names = SourceNames(shape, graph.body, called)
    parameters = {v.name_hint for v in graph.inputs}
    hidden = frozenset(BUILTINS) & (parameters | frozenset(beside))
    dtypes = dtype_constants(graph)
    return StatementWriter(shape, names, ExpressionText(shape, names.__getitem__, graph, resolver, hidden, dtypes))


def _define(writer: StatementWriter, schema: FunctionSchema, graph: Graph, *, annotated: bool) -> None:
    """The function from `def` to `return`."""
    names = [writer.names[v] for v in graph.inputs]
    signature = parameters_text(schema.arguments, names.__getitem__, annotated)
    types = [v.type for v in graph.outputs if v.type != CLOSURE]
    returned = f" -> {_returned(types)}" if annotated else ""
    writer.add(0, f"def {schema.name}({signature}){returned}:")
    writer.body(graph.body, 1, parenthesized=annotated and _is_forward(graph))


def _is_forward(graph: Graph) -> bool:
    """Whether the last result is a context, which is then written in parentheses with the rest."""
    return bool(graph.outputs) and isinstance(graph.outputs[-1].type, TupleType)


def _returned(types: list[Type]) -> str:
    return annotation(types[0]) if len(types) == 1 else annotation(TupleType(tuple(types)))


def _unique(name: str, taken: set[str]) -> str:
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    taken.add(candidate)
    return candidate


def _renamed(schema: FunctionSchema, name: str, graph: Graph) -> FunctionSchema:
    return FunctionSchema(name, "", schema.arguments, _arguments(graph.outputs))


def _schema_of(graph: Graph, name: str) -> FunctionSchema:
    return FunctionSchema(name, "", _arguments(graph.inputs), _arguments(graph.outputs))


def _arguments(values: list[Value]) -> tuple[Argument, ...]:
    return tuple(Argument(v.name_hint, v.type) for v in values)


# The closure stage


def _captured(writer: StatementWriter, node: Node) -> list[Value]:
    """What a closure captures, each variable once."""
    return list(dict.fromkeys(writer.shape.uses.root(v) for v in captures(node.blocks[0])))


def _code(writer: StatementWriter, name: str, node: Node) -> None:
    (block,) = node.blocks
    captured = _captured(writer, node)
    context = writer.names.fresh("context")
    types = annotation(TupleType(tuple(v.type for v in captured)))
    taken = [f"{context}: {types}", *(f"{writer.names[v]}: {annotation(v.type)}" for v in block.inputs)]
    returned = _returned([v.type for v in block.outputs if v.type != CLOSURE])
    writer.add(0, f"def {name}({', '.join(taken)}) -> {returned}:")
    if captured:
        writer.add(1, f"{', '.join(writer.names[v] for v in captured)}, = {context}")
    writer.body(block, 1)
