"""Which values share memory, and how many bytes keeping a value costs.

A base is a value that has memory of its own. A view has the bases of what it shows, a list those of its elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir.kinds import KindTrait, has, kinds_with
from ..ir.node import Block, Node, Value, walk
from ..ops.meta import Abstract, Meta, are_alike
from ..ops.registry import OPS, Trait
from ..shapes.propagate import UNKNOWN
from ..types.types import is_differentiable, is_tensor, strip_optional

_ALIASES = kinds_with(KindTrait.SAME_VALUE | KindTrait.PART | KindTrait.WHOLE) | {
    "prim::MaterializeGrad",
    "aten::__getitem__.t",
    "aten::append.t",
    "aten::_unwrap_optional",
}
"""Nodes whose results are made of their operands, without elements of their own."""


def is_alias(node: Node) -> bool:
    """Whether the results of a node share the memory of its operands."""
    return node.kind in _ALIASES or OPS.has(node.schema, Trait.VIEW)


def size_of(abstract: Abstract) -> int | None:
    """Bytes of an abstract value: 0 for what is no tensor, None where a shape is not known."""
    total, pending = 0, [abstract]
    while pending:
        item = pending.pop()
        if item is UNKNOWN:
            return None
        if isinstance(item, list | tuple):
            if are_alike(item):
                total += len(item) * item[0].nbytes
            else:
                pending += item
        elif isinstance(item, Meta):
            total += item.nbytes
    return total


class Storages:
    """The bases of the values of a graph. `free` are values that live anyway: they cost nothing to keep."""

    def __init__(self, known: Mapping[Value, Abstract], free: Iterable[Value] = ()) -> None:
        self._known = known
        self._bases: dict[Value, frozenset[Value]] = {}
        self._free = frozenset(free)

    def visit(self, block: Block) -> None:
        """Note the bases of every value made in a block and in those inside it."""
        for node in walk(block.nodes):
            self._visit(node)

    def _visit(self, node: Node) -> None:
        if is_alias(node):
            shared = frozenset[Value]().union(*(self.bases(v) for v in _shown(node)))
            for value in node.outputs:
                self._bases[value] = shared
        elif has(node, KindTrait.KNOWN):
            for value in node.outputs:
                self._bases[value] = frozenset()

    def bases(self, value: Value) -> frozenset[Value]:
        """The values whose memory a value holds."""
        found = self._bases.get(value)
        if found is None:
            found = self._bases[value] = frozenset((value,)) if may_hold_memory(value) else frozenset()
        return found

    def base_bytes(self, base: Value) -> int | None:
        """The bytes of one base; None where they are not known. What stands in a branch that is not taken has none."""
        if base in self._free or (self._known and base not in self._known):
            return 0
        return size_of(self._known.get(base, UNKNOWN))

    def nbytes(self, values: Iterable[Value]) -> int | None:
        """What it costs to keep values, each base counted once; None where a shape is not known."""
        bases = frozenset[Value]().union(*(self.bases(v) for v in values))
        total = 0
        for base in bases:
            size = self.base_bytes(base)
            if size is None:
                return None
            total += size
        return total


def may_hold_memory(value: Value) -> bool:
    """Whether a value is a tensor or may have tensors in it; numbers, bools, strings and lists of them are not."""
    type = strip_optional(value.type)
    return is_tensor(type) or is_differentiable(type) or "Tensor" in str(type)


def _shown(node: Node) -> list[Value]:
    """The operands whose memory the results of an alias share."""
    if node.kind in ("prim::ListConstruct", "prim::TupleConstruct", "aten::append.t"):
        return list(node.inputs)
    return node.inputs[:1]
