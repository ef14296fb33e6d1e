"""Numbers that follow from numbers are computed before anything else, so that every kernel may be given them.

A kernel that is begun before a number is there cannot take what is computed with it, which then reads all again: of a
mixture of two softmaxes by `alpha` and `1 - alpha` the sums were one kernel, and what is mixed another.
"""

from __future__ import annotations

from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import CONSTANT
from ...ops.registry import OPS, Trait
from ...types.types import NUMBERS


def put_numbers_first(graph: Graph) -> bool:
    """Move what computes numbers of nothing but numbers in front of all else, in the order in which it stands.

    Before:
        graph f(%x : Tensor, %share : float):
          %1 : Tensor = aten::exp(%x)
          %2 : int = prim::Constant[value=1]()
          %3 : float = aten::sub.int_float(%2, %share)
          %4 : Tensor = aten::mul.Scalar(%1, %3)
          return (%4)
    After:
        graph f(%x : Tensor, %share : float):
          %1 : int = prim::Constant[value=1]()
          %2 : float = aten::sub.int_float(%1, %share)
          %3 : Tensor = aten::exp(%x)
          %4 : Tensor = aten::mul.Scalar(%3, %2)
          return (%4)
    """
    first: Node | None = None
    there, behind = set(graph.inputs), dict[Value, Node]()
    changed = False
    for node in list(graph.nodes):
        if node.kind == CONSTANT:
            there.add(node.output)
            if first is not None:
                behind[node.output] = node
        elif not _is_of_numbers(node) or not there.issuperset(node.inputs):
            first = first or node
        else:
            there.update(node.outputs)
            if first is not None:
                needed = [behind.pop(value) for value in dict.fromkeys(node.inputs) if value in behind]
                for moved in (*needed, node):
                    moved.unlink().insert_before(first)
                changed = True
    return changed


def _is_of_numbers(node: Node) -> bool:
    """Whether a node computes a number of numbers, and does nothing else."""
    op = OPS.of(node.schema)
    if op is None or op.has(Trait.RANDOM | Trait.SIDE_EFFECT):
        return False
    return bool(node.outputs) and all(value.type in NUMBERS for value in (*node.inputs, *node.outputs))
