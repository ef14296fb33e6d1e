"""Which numbers of a function are dtypes: they are written as `torch.float32`, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.graph import Graph
from ..ir.kinds import sources
from ..ir.node import Node, Value, walk
from ..types.types import INT, ListType

_SAME = frozenset(
    ("aten::eq.int", "aten::ne.int", "aten::__contains__.int_list", "aten::__contains__.list", "prim::ListConstruct")
)
"""What compares, finds or holds values of one kind."""


def dtype_constants(graph: Graph) -> frozenset[Value]:
    """The constants that are compared with dtypes, or become one, and are used for nothing else."""
    nodes = list(walk(graph.nodes))
    dtypes = {value for node in nodes for value in _surely(node)}
    related: dict[Value, set[Value]] = {}
    for one, other in (pair for node in nodes for pair in _related(node)):
        related.setdefault(one, set()).add(other)
        related.setdefault(other, set()).add(one)
    waiting = list(dtypes)
    while waiting:
        for value in related.get(waiting.pop(), ()):
            if value not in dtypes:
                dtypes.add(value)
                waiting.append(value)
    return frozenset(
        value
        for value in dtypes
        if value.node.kind == "prim::Constant"
        and type(value.node.attrs["value"]) is int
        and all(_is_of_dtypes(use.user, use.index) for use in value.uses)
    )


def _surely(node: Node) -> Iterator[Value]:
    if node.kind == "prim::dtype":
        yield node.output
    if node.schema is not None:
        arguments = zip(node.schema.arguments, node.inputs, strict=False)
        yield from (value for argument, value in arguments if argument.is_dtype and value.type == INT)


def _related(node: Node) -> Iterator[tuple[Value, Value]]:
    """Pairs of values that are dtypes together."""
    if node.kind in _SAME:
        values = [*node.inputs, *node.outputs]
        whole = [v for v in values if v.type == INT or (isinstance(v.type, ListType) and v.type.element == INT)]
        yield from ((whole[0], other) for other in whole[1:])
    for value in (*node.outputs, *(v for block in node.blocks for v in block.inputs)) if node.blocks else ():
        if value.type == INT:
            yield from ((value, source) for source in sources(value))


def _is_of_dtypes(user: Node, index: int) -> bool:
    """Whether a use is one in which a dtype stands: not one of the numbers that ops compute with."""
    if user.kind in _SAME or user.kind.startswith("prim::"):
        return True
    return user.schema is not None and index < len(user.schema.arguments) and user.schema.arguments[index].is_dtype
