"""Which values kernels compute where they need them, before it is planned which kernels there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from ...types.dtypes import DType
from ..elements.table import element_rule, suits_rule
from ..planning.reductions import reduction_of

Supported = Callable[[str, DType], bool]


def is_drawn(node: Node, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Whether kernels compute an element of what a node gives wherever they need it; a sum of nothing is one."""
    reduction = reduction_of(node, known)
    if reduction is not None:
        return not reduction.dims
    rule = element_rule(node, known, supports) if node.outputs else None
    return rule is not None and suits_rule(rule, node, known)


def waits_for_reductions(value: Value, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Whether elements of a value, as kernels compute them where they need them, follow from what others reduce."""
    pending, seen = [value], {value}
    for found in pending:
        node = found.node
        if not isinstance(known.get(found), Meta) or not node.outputs:
            continue
        reduction = reduction_of(node, known)
        if reduction is not None and reduction.dims:
            return True
        if node.schema is not None and is_drawn(node, known, supports):
            new = [v for v in node.inputs if v not in seen]
            seen.update(new)
            pending += new
    return False


def behind_views(value: Value) -> Value:
    """What a value is a view of; itself where it is none."""
    while OPS.has(value.node.schema, Trait.VIEW):
        value = value.node.inputs[0]
    return value


def is_passed_on(value: Value, graph: Graph) -> bool:
    """Whether a value, or a view of it, is a result or goes into a product of matrices: it is in memory."""
    pending = [value]
    for found in pending:
        for use in found.uses:
            if use.user is graph.body.ret or OPS.has(use.user.schema, Trait.MATMUL):
                return True
            if OPS.has(use.user.schema, Trait.VIEW):
                pending += use.user.outputs
    return False
