"""Sums of what is put together are put together of sums, where the whole has to be in memory all the same.

The kernel that writes the parts where they belong has them in registers: of the gradients of an LSTM's gates, say, it
sums up those of their bias on the way, where a kernel over the whole would read it again, or compute it anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import KindTrait, has
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...ops.dims import wrap_dim
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from ..planning.reductions import Reduction, reduction_of

_SUMS = ("aten::sum.dim_IntList", "aten::sum_to_size")
_ADDS = ("aten::add.Tensor", "prim::AutogradAdd")
_JOINS = ("aten::cat", "aten::concat", "aten::concatenate")


def sum_parts(graph: Graph, known: Mapping[Value, Any]) -> bool:
    """Replace sums along other dimensions than that in which parts lie side by side. `known` is what `settle_shapes`
    gives for the graph.

    Before:
        graph f(%a : Tensor, %b : Tensor):
          %1 : List[Tensor] = prim::ListConstruct(%a, %b)
          %2 : int = prim::Constant[value=1]()
          %3 : Tensor = aten::cat(%1, %2)
          %4 : List[int] = prim::Constant[value=[4]]()
          %5 : Tensor = aten::sum_to_size(%3, %4)
          return (%3, %5)
    After:
        graph f(%a : Tensor, %b : Tensor):
          %1 : List[Tensor] = prim::ListConstruct(%a, %b)
          %2 : int = prim::Constant[value=1]()
          %3 : Tensor = aten::cat(%1, %2)
          %4 : List[int] = prim::Constant[value=[2]]()
          %5 : Tensor = aten::sum_to_size(%a, %4)
          %6 : List[int] = prim::Constant[value=[2]]()
          %7 : Tensor = aten::sum_to_size(%b, %6)
          %8 : List[Tensor] = prim::ListConstruct(%5, %7)
          %9 : int = prim::Constant[value=0]()
          %10 : Tensor = aten::cat(%8, %9)
          return (%3, %10)
    """
    changed = False
    for node in list(graph.nodes):
        if node.kind in _JOINS and _are_alike(node, known) and (sums := _sums(node, graph, known)):
            for user, reduction in sums:
                _sum_each(user, node, reduction, known)
            changed = True
    return changed


def _are_alike(join: Node, known: Mapping[Value, Any]) -> bool:
    """Whether several tensors of one shape and dtype are put together, along the last dimension."""
    parts, whole = join.inputs[0].node, known.get(join.output)
    if parts.kind != "prim::ListConstruct" or len(parts.inputs) < 2 or not isinstance(whole, Meta):
        return False
    first = known.get(parts.inputs[0])
    dim = known.get(join.inputs[1])
    if not isinstance(first, Meta) or not isinstance(dim, int) or whole.rank < 2 or first.dtype != whole.dtype:
        return False
    return wrap_dim(dim, whole.rank) == whole.rank - 1 and all(known.get(part) == first for part in parts.inputs)


def _sums(join: Node, graph: Graph, known: Mapping[Value, Any]) -> list[tuple[Node, Reduction]]:
    """The sums of a whole over all its leading dimensions; none where no kernel has to write it, or one asks for its
    elements in another way."""
    found: list[tuple[Node, Reduction]] = []
    is_written = False
    pending = [join.output]
    for value in pending:
        for use in value.uses:
            user = use.user
            reduction = reduction_of(user, known)
            if user is graph.body.ret or OPS.has(user.schema, Trait.MATMUL):
                is_written = True
            elif reduction is not None and not reduction.dims and known.get(user.output) == known[value]:
                pending.append(user.output)
            elif reduction is not None and value.node is join and _is_over_rows(user, reduction, known[value]):
                found.append((user, reduction))
            elif OPS.has(user.schema, Trait.VIEW) or user.kind == "aten::reshape" or has(user, KindTrait.SAME_VALUE):
                pending += user.outputs
            else:
                return []
    return found if is_written else []


def _is_over_rows(node: Node, reduction: Reduction, whole: Meta) -> bool:
    """Whether a node sums up all rows of a tensor into one."""
    real = tuple(d for d, size in enumerate(whole.shape[:-1]) if size != 1)
    return node.kind in _SUMS and bool(real) and reduction.dims == real


def _sum_each(node: Node, join: Node, reduction: Reduction, known: Mapping[Value, Any]) -> None:
    builder = Builder.in_front_of(node)
    parts = join.inputs[0].node.inputs
    arguments: list[Any] = node.inputs[1:]
    if node.kind == "aten::sum_to_size":
        shape = known[node.output].shape
        arguments = [[*shape[:-1], known[parts[0]].shape[-1]]]
    sums = [builder.op(node.kind, part, *arguments) for part in parts]
    for value in sums:
        value.type = node.output.type
    joined = builder.op("aten::cat", builder.list(sums), len(reduction.kept) - 1, name=node.output.name_hint)
    joined.type = node.output.type
    whole = known[node.output]
    replace_node(node, [joined])
    _add_each(joined, sums, whole, known)


def _add_each(joined: Value, sums: Sequence[Value], whole: Meta, known: Mapping[Value, Any]) -> None:
    """Add what goes on adding up, as gradients do from round to round, part by part too: the same kernel has them."""
    users = [use.user for use in joined.uses]
    if len(users) != 1 or users[0].kind not in _ADDS or any(known.get(v) != 1 for v in users[0].inputs[2:]):
        return
    (user,) = users
    left, right = user.inputs[:2]
    other = right if left is joined else left
    if other is joined or known.get(other) != whole:
        return
    builder, dim, width = Builder.in_front_of(user), whole.rank - 1, whole.shape[-1] // len(sums)
    added = list[Value]()
    for number, part in enumerate(sums):
        begun = builder.op("aten::slice.Tensor", other, dim, number * width, (number + 1) * width, 1)
        added.append(builder.op("aten::add.Tensor", *((part, begun) if left is joined else (begun, part)), 1))
        begun.type = added[-1].type = user.output.type
    total = builder.op("aten::cat", builder.list(added), dim, name=user.output.name_hint)
    total.type = user.output.type
    replace_node(user, [total])
