"""Whether two values of a graph are the same whatever the arguments are."""

from __future__ import annotations

from ...compiler.ir.node import Value
from ...compiler.ir.rewrite import constant_of
from ...compiler.ops.registry import OPS, Trait


def are_the_same(one: Value, other: Value) -> bool:
    """Whether two values are made by the same operations of the same values, none of which draws."""
    waiting = [(one, other)]
    while waiting:
        first, second = waiting.pop()
        if first is second:
            continue
        a, b = first.node, second.node
        op = OPS.of(a.schema)
        is_constant = a.kind == "prim::Constant" == b.kind
        if is_constant and type(constant_of(first)) is type(constant_of(second)):
            if constant_of(first) == constant_of(second):
                continue
            return False
        makes_list = a.kind == "prim::ListConstruct"
        plain = makes_list or (op is not None and not op.has(Trait.RANDOM) and not op.has(Trait.SIDE_EFFECT))
        if a.kind != b.kind or not plain or len(a.inputs) != len(b.inputs):
            return False
        if first.index != second.index:
            return False
        waiting += zip(a.inputs, b.inputs, strict=True)
    return True
