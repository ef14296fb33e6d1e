"""Which nodes are operators between two values, and in which order their operands stand.

sub.Tensor(x, y)                 x - y
rsub.Scalar(x, 1)                1 - x
mul.Scalar(reciprocal(x), 2)     2 / x, where the reciprocal is used for nothing else
mul.Scalar(x, 2)                 x * 2, or 2 * x where the source has it so
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...lang.light_dataclasses import dataclass
from ...lang.source import NO_SPAN
from ..ir.node import PARAM, Node, Value
from ..ops.registry import OPS
from ..spelling.operators import BINARY, COMMUTATIVE, COMPARE, SCALAR_BINARY, binary_op
from ..spelling.overloads import Argued, Match, Resolver
from ..types.types import NUMBERS, STR, UNDEFINED, is_tensor
from .arguments import is_default

COMPARISON, UNARY, POWER, ATOM = 4, 11, 12, 20
LEVELS = {"|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "@": 10}
_SCALAR = {name: symbol for symbol, name in SCALAR_BINARY.items()}
_TENSOR = {name: symbol for symbol, name in BINARY.items()} | {"rsub": "-"}
_UNEVALUATED = {PARAM, "prim::Constant"}
_COMPARISONS = {name: symbol for symbol, name in COMPARE.items()}


@dataclass(frozen=True, slots=True)
class Infix:
    """`left symbol right`; a node's inputs are `left` and `right` in this order or in the other."""

    symbol: str
    left: Value
    right: Value

    @property
    def level(self) -> int:
        """How tightly it binds."""
        return POWER if self.symbol == "**" else LEVELS.get(self.symbol, COMPARISON)

    @property
    def levels(self) -> tuple[int, int]:
        """How tightly the operands have to bind."""
        if self.symbol == "**":
            return POWER + 1, UNARY
        return self.level + (self.level == COMPARISON), self.level + 1


class InfixOperators:
    """The operators of one function; `at` says in which order its nodes stand."""

    def __init__(self, resolver: Resolver, at: Mapping[Node, int]) -> None:
        self._resolver = resolver
        self._at = at
        self._known: dict[Node, Infix | None] = {}

    def of(self, node: Node) -> Infix | None:
        """How the node is written between its operands; None where it is a call."""
        if node not in self._known:
            self._known[node] = self._found(node)
        return self._known[node]

    def operands(self, node: Node) -> list[Value]:
        """A node's inputs in the order in which its text evaluates them."""
        infix = self.of(node)
        return node.inputs if infix is None else [infix.left, infix.right]

    def _found(self, node: Node) -> Infix | None:
        if node.schema is None or len(node.inputs) < 2 or not self._is_plain(node):
            return None
        if any(value.type == UNDEFINED for value in node.inputs[:2]):
            return None
        found = [infix for infix in _candidates(node) if _means(infix, node)]
        if len(found) == 2 and self._number_first(node, found[0].symbol):
            return found[1]
        return found[0] if found else None

    def _is_plain(self, node: Node) -> bool:
        """Whether the two operands say it all, and find the op."""
        schema = node.schema
        assert schema is not None
        rest = zip(schema.arguments[2:], node.inputs[2:], strict=True)
        if not all(is_default(argument, value) for argument, value in rest):
            return False
        candidates = [op.schema for op in OPS.overloads(schema.base_name)]
        match = self._resolver.resolve(candidates, [Argued(value, NO_SPAN) for value in node.inputs[:2]])
        return isinstance(match, Match) and match.schema is schema

    def _number_first(self, node: Node, symbol: str) -> bool:
        """Whether the second input stands before the operator: it is computed first, or the source has it there."""
        tensor, number = node.inputs[:2]
        at = self._at
        if number.node in at and tensor.node in at and not {number.node.kind, tensor.node.kind} & _UNEVALUATED:
            return at[number.node] < at[tensor.node]
        mine, whole = number.node.span, node.span
        if (
            number.node.kind != PARAM
            and mine.source is whole.source
            and whole.start <= mine.start < mine.end < whole.end
        ):
            return not whole.source.text[whole.start : mine.start].strip("( ")
        name, text = number.name_hint, whole.text
        return bool(name) and text.startswith(name) and text[len(name) :].lstrip().startswith(symbol)


def _candidates(node: Node) -> Iterator[Infix]:
    assert node.schema is not None
    name, (first, second) = node.schema.base_name, node.inputs[:2]
    if name == "__contains__":
        yield Infix("in", second, first)
    elif name in _COMPARISONS:
        yield Infix(_COMPARISONS[name], first, second)
    else:
        of_tensors = is_tensor(first.type) or is_tensor(second.type)
        symbol = (_TENSOR if of_tensors else _SCALAR).get(name)
        if symbol is not None:
            yield Infix(symbol, first, second)
            if of_tensors and (name == "rsub" or name in COMMUTATIVE):
                yield Infix(symbol, second, first)


def _means(infix: Infix, node: Node) -> bool:
    """Whether the operator between these operands is emitted as the node."""
    assert node.schema is not None
    left, right = infix.left.type, infix.right.type
    if infix.symbol == "in":
        return not is_tensor(left) and not is_tensor(right)
    if node.schema.base_name in _COMPARISONS:
        return not (is_tensor(right) and left in NUMBERS)
    if infix.symbol == "%" and left == STR:
        return False
    return binary_op(infix.symbol, left, right) == (node.schema.base_name, infix.left is not node.inputs[0])
