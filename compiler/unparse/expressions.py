"""Nodes as expressions.

An op is written as an operator, an attribute or a subscript where there is one, and as a call otherwise: of a method
where the source calls one, or where torch's users would, else of `torch.NAME(…)`. Whichever spelling is taken, overload
resolution must come back to the same schema: the spellings are tried against it, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...lang.light_dataclasses import dataclass
from ...lang.source import NO_SPAN
from ..ir.graph import Graph
from ..ir.kinds import form_of
from ..ir.node import Node, Value
from ..ops.registry import OPS
from ..spelling.functional import first_left_out
from ..spelling.names import (
    BUILTINS,
    DEVICE_ATTRIBUTES,
    LIMITS,
    METHOD_ATTRIBUTES,
    MODULES,
    OWN,
    PLAIN_TOO,
    op_name,
)
from ..spelling.overloads import Argued, Match, Resolver
from ..types.schema import Argument, FunctionSchema
from ..types.types import INT, NONE, NUMBERS, OptionalType, TupleType, is_tensor
from .arguments import Spelling, called_as, spellings
from .infix import ATOM, COMPARISON, LEVELS, UNARY
from .inlining import FunctionShape
from .literals import annotation, dtype_literal, literal
from .methods import is_method, is_method_by_custom, is_method_of_string
from .refinement import connective

BoundText = tuple[str, int]
"""Source, and how tightly its outermost operator binds."""

CONDITIONAL, OR, AND, NOT = 0, 1, 2, 3
_BUILTINS = {op: name for name, op in BUILTINS.items()}
_PREFIXES = {prefix: module for module, prefix in reversed(MODULES.items()) if prefix}
_OF_ANYTHING = frozenset(("len", "Float", "Int", "Bool", "str", "repr", "ascii", "format", "Print"))
"""Builtins that take tensors too."""
_BOUNDS = (INT, NONE, OptionalType(INT))
_ATTRIBUTES = {op: name for name, op in METHOD_ATTRIBUTES.items() if name in (op, "T")}
_LIMITS = {f"{kind}_{name}": (kind, name) for kind, names in LIMITS.items() for name in names}
_OF_DEVICES = {op: name for name, op in DEVICE_ATTRIBUTES.items()}
_PREFIX_OPERATORS = {"neg": "-", "bitwise_not": "~"}


def within(text: BoundText, level: int) -> str:
    """The source, in parentheses if it binds less tightly than `level`."""
    return text[0] if text[1] >= level else f"({text[0]})"


@dataclass(slots=True)
class ExpressionText:
    """Writes the expressions of one function. `hidden` are names that do not mean their builtin here."""

    shape: FunctionShape
    name_of: Callable[[Value], str]
    graph: Graph
    resolver: Resolver
    hidden: frozenset[str] = frozenset()
    dtypes: frozenset[Value] = frozenset()
    """Numbers that are dtypes."""

    def of(self, value: Value, level: int = 0, renamed: Mapping[Value, str] | None = None) -> str:
        """The text of a value where it is used. `renamed` holds values that go by another name there."""
        return within(self._value(value, renamed or {}), level)

    def node(self, node: Node) -> str:
        """The text of what a node computes."""
        return self._node(node, {})[0]

    def _value(self, value: Value, renamed: Mapping[Value, str]) -> BoundText:
        node = value.node
        if value in renamed:
            return renamed[value], ATOM
        if node.kind == "prim::Constant":
            text = (dtype_literal if value in self.dtypes else literal)(node.attrs["value"])
            return text, UNARY if text.startswith("-") else ATOM
        if node.kind == "prim::Uninitialized":
            return f"uninitialized({annotation(value.type)})", ATOM
        if node in self.shape.inlined:
            return self._node(node, renamed)
        root = self.shape.uses.root(value)
        if not self.shape.is_variable(root):
            return self._value(root, renamed)
        return renamed.get(root) or self.name_of(root), ATOM

    def _node(self, node: Node, renamed: Mapping[Value, str]) -> BoundText:
        def sub(value: Value, level: int = 0) -> str:
            return within(self._value(value, renamed), level)

        special = _SPECIAL.get(node.kind)
        if special is not None:
            return special(self, node, sub)
        if node.kind == "prim::CallFunction":
            return self._function_call(node, sub)
        if form := form_of(node):
            return f"{form}({', '.join(map(sub, node.inputs))})", ATOM
        if node.schema is None:
            raise ValueError(f"{node.kind} has no spelling in source")
        return self._operator(node, sub) or self._op_call(node, sub)

    # Ops

    def _op_call(self, node: Node, sub: Sub) -> BoundText:
        assert node.schema is not None
        name = node.schema.base_name
        candidates = [op.schema for op in OPS.overloads(name)]
        if name == "tolist":
            return f"torch.jit.annotate({node.output.type}, {sub(node.inputs[0], ATOM)}.tolist())", ATOM
        called = called_as(node.span, name)
        chosen = self._spelling(node.schema, candidates, node.inputs, called.keywords if called else frozenset())
        if is_method_of_string(node, chosen):
            rest = self._arguments(node.schema, chosen[1:], node.inputs, sub)
            return f"{sub(node.inputs[0], ATOM)}.{name.removeprefix(MODULES['str'])}({rest})", ATOM
        if is_method(node, chosen) and (called.is_method if called else is_method_by_custom(node)):
            rest = self._arguments(node.schema, chosen[1:], node.inputs, sub)
            return f"{sub(node.inputs[0], ATOM)}.{name}({rest})", ATOM
        function = self._function_name(node, name)
        if called is not None and _is_in(called.module, name, chosen):
            function = f"{called.module}.{name}"
        return f"{function}({self._arguments(node.schema, chosen, node.inputs, sub)})", ATOM

    def _function_name(self, node: Node, name: str) -> str:
        builtin = _BUILTINS.get(name)
        plain = name in _OF_ANYTHING or not any(is_tensor(v.type) for v in node.inputs)
        if builtin is not None and plain and builtin not in self.hidden:
            return builtin
        for prefix, module in _PREFIXES.items():
            if name.startswith(prefix) and name != prefix:
                return f"{module}.{name.removeprefix(prefix)}"
        return f"{'gs' if name in OWN else 'torch'}.{name}"

    def _function_call(self, node: Node, sub: Sub) -> BoundText:
        name = node.attrs["callee"]
        schema = self.graph.functions[name].schema
        called = called_as(node.span, name)
        chosen = self._spelling(schema, [schema], node.inputs, called.keywords if called else frozenset())
        return f"{name}({self._arguments(schema, chosen, node.inputs, sub)})", ATOM

    def _spelling(
        self,
        schema: FunctionSchema,
        candidates: Sequence[FunctionSchema],
        inputs: Sequence[Value],
        named: frozenset[str],
    ) -> Spelling:
        ways = list(spellings(schema, inputs, named))
        return next((way for way in ways if self._resolves(schema, candidates, way, inputs)), ways[0])

    def _arguments(self, schema: FunctionSchema, chosen: Spelling, inputs: Sequence[Value], sub: Sub) -> str:
        parts = [
            (f"{keyword}=" if keyword else "") + self._argument(schema.arguments[i], inputs, i, sub)
            for i, keyword in chosen
        ]
        return ", ".join(parts)

    def _argument(self, argument: Argument, inputs: Sequence[Value], index: int, sub: Sub) -> str:
        value = inputs[index]
        if argument.is_dtype and value.node.kind == "prim::Constant" and type(value.node.attrs["value"]) is int:
            return dtype_literal(value.node.attrs["value"])
        return sub(self._given(argument, inputs, index))

    def _given(self, argument: Argument, inputs: Sequence[Value], index: int) -> Value:
        """What a call gives for an argument: the one number in a list for which it may stand.

        The list is then made when all arguments are there, so nothing may be computed behind it.
        """
        made, inlined = inputs[index].node, self.shape.inlined
        is_alone = argument.fixed_size == 1 and made.kind == "prim::ListConstruct" and len(made.inputs) == 1
        is_last = not any(value.node in inlined for value in inputs[index + 1 :])
        return made.inputs[0] if is_alone and is_last and made in inlined else inputs[index]

    def _resolves(
        self,
        schema: FunctionSchema,
        candidates: Sequence[FunctionSchema],
        spelling: Spelling,
        inputs: Sequence[Value],
    ) -> bool:
        arguments = [
            Argued(self._given(schema.arguments[i], inputs, i), NO_SPAN, keyword or None) for i, keyword in spelling
        ]
        match = self.resolver.resolve(candidates, arguments)
        return isinstance(match, Match) and match.schema is schema

    # Operators

    def _operator(self, node: Node, sub: Sub) -> BoundText | None:
        """An operator, an attribute or a subscript."""
        assert node.schema is not None
        if not node.inputs:
            return None
        name, inputs = node.schema.base_name, node.inputs
        if node.kind == "aten::__not__.bool":
            return f"not {sub(inputs[0], NOT)}", NOT
        if name in ("__is__", "__isnot__") and inputs[1].type == NONE:
            return f"{sub(inputs[0], COMPARISON + 1)} is {'not ' if name == '__isnot__' else ''}None", COMPARISON
        if name in _LIMITS:
            kind, limit = _LIMITS[name]
            return f"torch.{kind}({self._argument(node.schema.arguments[0], inputs, 0, sub)}).{limit}", ATOM
        if name in _OF_DEVICES:
            return f"{sub(inputs[0], ATOM)}.{_OF_DEVICES[name]}", ATOM
        if name in _PREFIX_OPERATORS and len(inputs) == 1 and inputs[0].node.kind != "prim::Constant":
            return f"{_PREFIX_OPERATORS[name]}{sub(inputs[0], UNARY)}", UNARY
        if is_tensor(inputs[0].type):
            return self._of_tensor(node, sub) or self._infix(node, sub)
        if name == "__getitem__" and not isinstance(inputs[0].type, TupleType):
            return f"{sub(inputs[0], ATOM)}[{sub(inputs[1])}]", ATOM
        if node.kind == "aten::slice.t" and all(v.type in _BOUNDS for v in inputs[1:]):
            return f"{sub(inputs[0], ATOM)}[{_slice(inputs[1:], sub)}]", ATOM
        return self._infix(node, sub)

    def _of_tensor(self, node: Node, sub: Sub) -> BoundText | None:
        """An attribute, or a subscript of the first or the last dimension."""
        assert node.schema is not None
        name, inputs = node.schema.base_name, node.inputs
        if name in _ATTRIBUTES and len(inputs) == 1:
            return f"{sub(inputs[0], ATOM)}.{_ATTRIBUTES[name]}", ATOM
        if node.kind == "aten::select.int" and inputs[2].type == INT:
            item = sub(inputs[2])
        elif node.kind == "aten::slice.Tensor" and all(v.type in _BOUNDS for v in inputs[2:]):
            item = _slice(inputs[2:], sub)
        else:
            return None
        before = _before(inputs[1])
        return None if before is None or item == ":" else (f"{sub(inputs[0], ATOM)}[{before}{item}]", ATOM)

    def _infix(self, node: Node, sub: Sub) -> BoundText | None:
        infix = self.shape.operators.of(node)
        if infix is None:
            return None
        left, right = infix.left, infix.right
        over = right.node
        is_over = over.kind == "aten::reciprocal" and over in self.shape.inlined
        if infix.symbol == "*" and is_over and left.type in NUMBERS:
            # As emission reads `number / x`.
            level = LEVELS["/"]
            return f"{sub(left, level)} / {sub(over.inputs[0], level + 1)}", level
        tight, tighter = infix.levels
        return f"{sub(left, tight)} {infix.symbol} {sub(right, tighter)}", infix.level


def _is_in(module: str, name: str, chosen: Spelling) -> bool:
    """Whether the call is the op's as a function of torch.nn.functional, which takes some arguments by other places."""
    by_place = sum(not keyword for _, keyword in chosen)
    return MODULES.get(module) in PLAIN_TOO and op_name(module, name) == name and by_place <= first_left_out(name)


Sub = Callable[..., str]
"""The text of an operand, at a level if one is given."""


def _slice(bounds: Sequence[Value], sub: Sub) -> str:
    start, end, step = bounds
    text = f"{_bound(start, sub)}:{_bound(end, sub)}"
    is_one = step.node.kind == "prim::Constant" and step.node.attrs["value"] == 1
    return text if is_one else f"{text}:{sub(step)}"


def _bound(value: Value, sub: Sub) -> str:
    return "" if value.node.kind == "prim::Constant" and value.type == NONE else sub(value)


_MOST_COLONS = 3


def _before(dim: Value) -> str | None:
    """What stands before an item of a subscript that is of this dimension; None where that is none to count."""
    place = dim.node.attrs["value"] if dim.node.kind == "prim::Constant" else None
    if type(place) is not int:
        return None
    if place == -1:
        return "..., "
    return ":, " * place if 0 <= place <= _MOST_COLONS else None


# Kinds without a schema


def _tuple(e: ExpressionText, node: Node, sub: Sub) -> BoundText:
    parts = [sub(v) for v in node.inputs]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})", ATOM


def _list(e: ExpressionText, node: Node, sub: Sub) -> BoundText:
    return f"[{', '.join(sub(v) for v in node.inputs)}]", ATOM


def _tuple_index(e: ExpressionText, node: Node, sub: Sub) -> BoundText:
    return f"{sub(node.inputs[0], ATOM)}[{node.attrs['index']}]", ATOM


def _unwrap(e: ExpressionText, node: Node, sub: Sub) -> BoundText:
    return f"{sub(node.inputs[0], ATOM)}.unchecked_unwrap_optional", ATOM


def _conditional(e: ExpressionText, node: Node, sub: Sub) -> BoundText:
    test = node.inputs[0]
    then, otherwise = (block.outputs[0] for block in node.blocks)
    match connective(node):
        case "and":
            return f"{sub(test, AND)} and {sub(then, AND + 1)}", AND
        case "or":
            return f"{sub(test, OR)} or {sub(otherwise, OR + 1)}", OR
    return f"{sub(then, OR)} if {sub(test, OR)} else {sub(otherwise)}", CONDITIONAL


_SPECIAL: dict[str, Callable[[ExpressionText, Node, Sub], BoundText]] = {
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": _list,
    "prim::TupleIndex": _tuple_index,
    "prim::unchecked_unwrap_optional": _unwrap,
    "prim::If": _conditional,
}
