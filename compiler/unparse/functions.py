"""Whole functions, units and pairs as source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..emit.calls import BUILTINS
from ..emit.overloads import Resolver
from ..ir import Callee, Graph, Node, Value
from ..schema import Argument, FunctionSchema
from ..symbolic_script import GradPair, captures
from ..types import CLOSURE, TupleType, Type
from .expressions import Expressions
from .literals import annotation, parameters
from .names import Names
from .shape import Shape
from .statements import Writer

_SEPARATOR = "\n\n\n"


def unparse_function(callee: Callee, beside: Iterable[str] = ()) -> str:
    """One function as source, closures in place. It stands `beside` others of these names in the text.

    A function without a closure is written with every type, as the halves of a lifted pair are, so that a pair's text
    compiles to the same text; one with a closure as its author writes it.
    """
    return _function(callee.schema, callee.graph, beside, annotated=not _has_closure(callee.graph))


def unparse_unit(callees: Mapping[str, Callee]) -> str:
    """Every function of a unit, in order."""
    return _joined([unparse_function(callee) for callee in callees.values()])


def unparse_pair(pair: GradPair) -> str:
    """The pair as two plain functions, then, if it has one, the pair of its backward, then the functions called.

    Every function has a name of its own: a second-order pair's are `NAME_backward` and its closure's name.
    """
    functions: list[tuple[FunctionSchema, Graph]] = []
    called = _called(pair)
    taken: set[str] = set(called)
    current: GradPair | None = pair
    while current is not None:
        forward, backward = current.forward, current.backward
        functions.append((_renamed(current.schema, _unique(current.schema.name, taken), forward), forward))
        functions.append((_schema_of(backward, _unique(backward.name, taken)), backward))
        current = current.second
    texts = [_function(schema, graph, taken, annotated=True) for schema, graph in functions]
    return _joined(texts + [unparse_function(callee, taken) for callee in called.values()])


def _called(pair: GradPair) -> dict[str, Callee]:
    """The functions that a pair calls, and those that they call, in the order met."""
    found: dict[str, Callee] = {}
    graphs: list[Graph] = []
    current: GradPair | None = pair
    while current is not None:
        graphs += [current.forward, current.backward]
        current = current.second
    for graph in graphs:
        for node in graph.all_nodes():
            callee = graph.functions.get(node.attr("callee")) if node.kind == "prim::CallFunction" else None
            if callee is not None and callee.schema.name not in found:
                found[callee.schema.name] = callee
                graphs.append(callee.graph)
    return found


def _has_closure(graph: Graph) -> bool:
    return bool(graph.outputs) and graph.outputs[-1].type == CLOSURE


def unparse_closure_stage(callee: Callee) -> str:
    """The function with a pair of code and context in each closure's place, and that code beside it."""
    writer = _writer(callee.graph, (callee.schema.name,))
    lambdas: list[Node] = []

    def replaced(writer: Writer, node: Node, depth: int) -> None:
        context = ", ".join(writer.names[v] for v in _captured(writer, node))
        name = _lambda_name(len(lambdas))
        lambdas.append(node)
        comma = "," if context and ", " not in context else ""
        writer.add(depth, f"{writer.names[node.output]} = ({name}, ({context}{comma}))")

    writer.closure = replaced
    _define(writer, callee.schema, callee.graph, annotated=False)
    parts = ["\n".join(writer.lines)]
    done = 0
    while done < len(lambdas):
        writer.lines = []
        _lambda(writer, _lambda_name(done), lambdas[done])
        parts.append("\n".join(writer.lines))
        done += 1
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    return _SEPARATOR.join(parts) + "\n"


def _function(schema: FunctionSchema, graph: Graph, beside: Iterable[str] = (), *, annotated: bool) -> str:
    writer = _writer(graph, (schema.name, *beside))
    _define(writer, schema, graph, annotated=annotated)
    return "\n".join(writer.lines)


def _writer(graph: Graph, beside: Iterable[str]) -> Writer:
    """A writer for a graph that stands `beside` functions of these names, and those that it may call."""
    shape = Shape(graph.body)
    functions = frozenset(graph.functions) | frozenset(beside)
    names = Names(shape, graph.body, functions)
    parameters = {v.name_hint for v in graph.inputs}
    hidden = frozenset(BUILTINS) & (parameters | functions)
    return Writer(shape, names, Expressions(shape, names.__getitem__, graph, Resolver(), hidden))


def _define(writer: Writer, schema: FunctionSchema, graph: Graph, *, annotated: bool) -> None:
    """The function from `def` to `return`."""
    names = [writer.names[v] for v in graph.inputs]
    signature = parameters(schema.arguments, names.__getitem__, annotated)
    returned = f" -> {_returned([v.type for v in graph.outputs])}" if annotated else ""
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


def _lambda_name(index: int) -> str:
    return f"__lambda_{index}" if index else "__lambda"


def _captured(writer: Writer, node: Node) -> list[Value]:
    """What a closure captures, each variable once."""
    return list(dict.fromkeys(writer.shape.uses.root(v) for v in captures(node.blocks[0])))


def _lambda(writer: Writer, name: str, node: Node) -> None:
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
