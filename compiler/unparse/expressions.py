"""Nodes as expressions.

An op is written as an operator or a builtin where all its operands are numbers, lists and the like, and as a call
`torch.NAME(…)` otherwise. Whichever spelling is taken, overload resolution must come back to the same schema: the
spellings are tried against it, shortest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...lang.source import NO_SPAN
from ..ir.graph import Graph
from ..ir.kinds import form_of
from ..ir.node import Node, Value
from ..ops.registry import OPS
from ..spelling.names import BUILTINS, MODULES, OWN
from ..spelling.operators import COMPARE, SCALAR_BINARY
from ..spelling.overloads import Argued, Match, Resolver
from ..types.schema import Argument, FunctionSchema
from ..types.types import INT, NONE, OptionalType, TupleType, is_tensor
from .literals import annotation, dtype_literal, literal
from .refinement import connective
from .shape import Shape

Text = tuple[str, int]
"""Source, and how tightly its outermost operator binds."""

CONDITIONAL, OR, AND, NOT, COMPARISON, UNARY, POWER, ATOM = 0, 1, 2, 3, 4, 11, 12, 20
_LEVELS = {"|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "@": 10}
_OPERATORS = {name: symbol for symbol, name in SCALAR_BINARY.items()}
_COMPARISONS = {name: symbol for symbol, name in COMPARE.items()}
_BUILTINS = {op: name for name, op in BUILTINS.items()}
_PREFIXES = {prefix: module for module, prefix in reversed(MODULES.items()) if prefix}
_OF_ANYTHING = frozenset(("len", "Float", "Int", "Bool", "str", "repr", "ascii", "format", "Print"))
"""Builtins that take tensors too."""
_BOUNDS = (INT, NONE, OptionalType(INT))


def within(text: Text, level: int) -> str:
    """The source, in parentheses if it binds less tightly than `level`."""
    return text[0] if text[1] >= level else f"({text[0]})"


@dataclass(slots=True)
class Expressions:
    """Writes the expressions of one function. `hidden` are names that do not mean their builtin here."""

    shape: Shape
    name_of: Callable[[Value], str]
    graph: Graph
    resolver: Resolver
    hidden: frozenset[str] = frozenset()

    def of(self, value: Value, level: int = 0, renamed: Mapping[Value, str] | None = None) -> str:
        """The text of a value where it is used. `renamed` holds values that go by another name there."""
        return within(self._value(value, renamed or {}), level)

    def node(self, node: Node) -> str:
        """The text of what a node computes."""
        return self._node(node, {})[0]

    def _value(self, value: Value, renamed: Mapping[Value, str]) -> Text:
        node = value.node
        if value in renamed:
            return renamed[value], ATOM
        if node.kind == "prim::Constant":
            text = literal(node.attrs["value"])
            return text, UNARY if text.startswith("-") else ATOM
        if node.kind == "prim::Uninitialized":
            return f"uninitialized({annotation(value.type)})", ATOM
        if node in self.shape.inlined:
            return self._node(node, renamed)
        root = self.shape.uses.root(value)
        if not self.shape.is_variable(root):
            return self._value(root, renamed)
        return renamed.get(root) or self.name_of(root), ATOM

    def _node(self, node: Node, renamed: Mapping[Value, str]) -> Text:
        def sub(value: Value, level: int = 0) -> str:
            return within(self._value(value, renamed), level)

        special = _SPECIAL.get(node.kind)
        if special is not None:
            return special(self, node, sub)
        if node.kind == "prim::CallFunction":
            schema = self.graph.functions[node.attrs["callee"]].schema
            return self._call(node, node.attrs["callee"], schema, [schema], sub)
        if form := form_of(node):
            return f"{form}({', '.join(map(sub, node.inputs))})", ATOM
        if node.schema is None:
            raise ValueError(f"{node.kind} has no spelling in source")
        return self._operator(node, sub) or self._op_call(node, sub)

    # Ops

    def _op_call(self, node: Node, sub: Sub) -> Text:
        assert node.schema is not None
        name = node.schema.base_name
        candidates = [op.schema for op in OPS.overloads(name)]
        return self._call(node, self._function_name(node, name), node.schema, candidates, sub)

    def _function_name(self, node: Node, name: str) -> str:
        builtin = _BUILTINS.get(name)
        plain = name in _OF_ANYTHING or not any(is_tensor(v.type) for v in node.inputs)
        if builtin is not None and plain and builtin not in self.hidden:
            return builtin
        for prefix, module in _PREFIXES.items():
            if name.startswith(prefix) and name != prefix:
                return f"{module}.{name.removeprefix(prefix)}"
        return f"{'gs' if name in OWN else 'torch'}.{name}"

    def _call(
        self, node: Node, name: str, schema: FunctionSchema, candidates: Sequence[FunctionSchema], sub: Sub
    ) -> Text:
        spellings = list(_spellings(schema, node.inputs))
        chosen = next((s for s in spellings if self._resolves(schema, candidates, s, node.inputs)), spellings[0])
        parts = [
            (f"{keyword}=" if keyword else "") + self._argument(schema.arguments[i], node.inputs[i], sub)
            for i, keyword in chosen
        ]
        return f"{name}({', '.join(parts)})", ATOM

    def _argument(self, argument: Argument, value: Value, sub: Sub) -> str:
        if argument.is_dtype and value.node.kind == "prim::Constant" and type(value.node.attrs["value"]) is int:
            return dtype_literal(value.node.attrs["value"])
        return sub(value)

    def _resolves(
        self,
        schema: FunctionSchema,
        candidates: Sequence[FunctionSchema],
        spelling: Sequence[tuple[int, str]],
        inputs: Sequence[Value],
    ) -> bool:
        arguments = [Argued(inputs[i], NO_SPAN, keyword or None) for i, keyword in spelling]
        match = self.resolver.resolve(candidates, arguments)
        return isinstance(match, Match) and match.schema is schema

    # Operators

    def _operator(self, node: Node, sub: Sub) -> Text | None:
        """An operator or a subscript, for operands that are no tensors."""
        assert node.schema is not None
        if any(is_tensor(v.type) for v in node.inputs) or not node.inputs:
            return None
        name, inputs = node.schema.base_name, node.inputs
        if node.kind == "aten::__not__.bool":
            return f"not {sub(inputs[0], NOT)}", NOT
        if name in ("__is__", "__isnot__") and inputs[1].type == NONE:
            return f"{sub(inputs[0], COMPARISON + 1)} is {'not ' if name == '__isnot__' else ''}None", COMPARISON
        if name == "neg" and len(inputs) == 1 and inputs[0].node.kind != "prim::Constant":
            return f"-{sub(inputs[0], UNARY)}", UNARY
        if name == "__getitem__" and not isinstance(inputs[0].type, TupleType):
            return f"{sub(inputs[0], ATOM)}[{sub(inputs[1])}]", ATOM
        if node.kind == "aten::slice.t" and all(v.type in _BOUNDS for v in inputs[1:]):
            return f"{sub(inputs[0], ATOM)}[{_slice(inputs[1:], sub)}]", ATOM
        return self._infix(node, name, sub) if len(inputs) == 2 else None

    def _infix(self, node: Node, name: str, sub: Sub) -> Text | None:
        left, right = node.inputs
        assert node.schema is not None
        candidates = [op.schema for op in OPS.overloads(name)]
        if not self._resolves(node.schema, candidates, [(0, ""), (1, "")], node.inputs):
            return None
        if name == "__contains__":
            return f"{sub(right, COMPARISON + 1)} in {sub(left, COMPARISON + 1)}", COMPARISON
        if name in _COMPARISONS:
            symbol = _COMPARISONS[name]
            return f"{sub(left, COMPARISON + 1)} {symbol} {sub(right, COMPARISON + 1)}", COMPARISON
        symbol = _OPERATORS.get(name, "")
        if symbol == "**":
            return f"{sub(left, POWER + 1)} ** {sub(right, UNARY)}", POWER
        if symbol not in _LEVELS:
            return None
        level = _LEVELS[symbol]
        return f"{sub(left, level)} {symbol} {sub(right, level + 1)}", level


Sub = Callable[..., str]
"""The text of an operand, at a level if one is given."""


def _slice(bounds: Sequence[Value], sub: Sub) -> str:
    start, end, step = bounds
    text = f"{_bound(start, sub)}:{_bound(end, sub)}"
    is_one = step.node.kind == "prim::Constant" and step.node.attrs["value"] == 1
    return text if is_one else f"{text}:{sub(step)}"


def _bound(value: Value, sub: Sub) -> str:
    return "" if value.node.kind == "prim::Constant" and value.type == NONE else sub(value)


def _spellings(schema: FunctionSchema, inputs: Sequence[Value]) -> Iterator[list[tuple[int, str]]]:
    """Ways to give the arguments, shortest first: (index, keyword) for each one given."""
    arguments = schema.arguments
    needed = [not _is_default(a, v) for a, v in zip(arguments, inputs, strict=True)]
    positional = len(schema.positional)
    trimmed = positional
    while trimmed and not needed[trimmed - 1]:
        trimmed -= 1
    keywords = [(i, a.name) for i, a in enumerate(arguments) if a.keyword_only and needed[i]]
    for count in dict.fromkeys((*range(trimmed, positional + 1),)):
        yield [(i, "") for i in range(count)] + keywords
    every = [(i, a.name) for i, a in enumerate(arguments) if a.keyword_only]
    yield [(i, "") for i in range(positional)] + every
    for start in range(min(1, positional), -1, -1):
        yield [(i, "") for i in range(start)] + [(i, arguments[i].name) for i in range(start, len(arguments))]


def _is_default(argument: Argument, value: Value) -> bool:
    if argument.required or value.node.kind != "prim::Constant":
        return False
    default: Any = argument.default
    default = list(default) if isinstance(default, tuple) else default
    actual = value.node.attrs["value"]
    if type(actual) is not type(default):
        return False
    return repr(actual) == repr(default)


# Kinds without a schema


def _tuple(e: Expressions, node: Node, sub: Sub) -> Text:
    parts = [sub(v) for v in node.inputs]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})", ATOM


def _list(e: Expressions, node: Node, sub: Sub) -> Text:
    return f"[{', '.join(sub(v) for v in node.inputs)}]", ATOM


def _tuple_index(e: Expressions, node: Node, sub: Sub) -> Text:
    return f"{sub(node.inputs[0], ATOM)}[{node.attrs['index']}]", ATOM


def _unwrap(e: Expressions, node: Node, sub: Sub) -> Text:
    return f"{sub(node.inputs[0], ATOM)}.unchecked_unwrap_optional", ATOM


def _conditional(e: Expressions, node: Node, sub: Sub) -> Text:
    test = node.inputs[0]
    then, otherwise = (block.outputs[0] for block in node.blocks)
    match connective(node):
        case "and":
            return f"{sub(test, AND)} and {sub(then, AND + 1)}", AND
        case "or":
            return f"{sub(test, OR)} or {sub(otherwise, OR + 1)}", OR
    return f"{sub(then, OR)} if {sub(test, OR)} else {sub(otherwise)}", CONDITIONAL


_SPECIAL: dict[str, Callable[[Expressions, Node, Sub], Text]] = {
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": _list,
    "prim::TupleIndex": _tuple_index,
    "prim::unchecked_unwrap_optional": _unwrap,
    "prim::If": _conditional,
}
