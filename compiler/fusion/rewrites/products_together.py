"""A product of matrices stands in front of what an earlier one is reduced to, where kernels compute with both.

    %s = aten::mm(%x, %a)                 %s = aten::mm(%x, %a)
    kernel(%s in, its sums out)           %t = aten::mm(%y, %b)
    %t = aten::mm(%y, %b)             →   kernel(%s, %t in, the sums of both, and what follows from both, out)
    kernel(%t, %s and its sums in)

A kernel that is begun before a product is there cannot take what is computed with it, which then reads the earlier
product again. Both are in memory at once either way, for what follows from both needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import CONSTANT
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from ...types.types import NUMBERS
from ..planning.reductions import reduction_of
from .drawn import Supported, is_drawn

MOST_FOLLOWED = 64
"""Values that follow from a product, element by element, which are looked at."""
_NEVER_MOVED = Trait.RANDOM | Trait.SIDE_EFFECT | Trait.READS_BY_INDEX


def bring_products_together(graph: Graph, known: Mapping[Value, Any], supports: Supported) -> bool:
    """Move such products, with the views and numbers that they are of, behind the earlier one.

    Before:
        graph f(%x : Tensor, %w : Tensor):
          %1 : Tensor = aten::mm(%x, %w)
          %2 : None = prim::Constant[value=None]()
          %3 : Tensor = aten::sum(%1, %2)
          %4 : Tensor = aten::div.Tensor(%1, %3)
          %5 : Tensor = aten::t(%x)
          %6 : Tensor = aten::mm(%5, %w)
          %7 : Tensor = aten::mul.Tensor(%4, %6)
          return (%7)
    After:
        graph f(%x : Tensor, %w : Tensor):
          %1 : Tensor = aten::mm(%x, %w)
          %2 : Tensor = aten::t(%x)
          %3 : Tensor = aten::mm(%2, %w)
          %4 : None = prim::Constant[value=None]()
          %5 : Tensor = aten::sum(%1, %4)
          %6 : Tensor = aten::div.Tensor(%1, %5)
          %7 : Tensor = aten::mul.Tensor(%6, %3)
          return (%7)
    """
    earlier: Node | None = None
    behind: list[Node] = []
    changed = False
    for node in list(graph.nodes):
        if not OPS.has(node.schema, Trait.MATMUL) or len(node.outputs) != 1:
            behind.append(node)
            continue
        if earlier is not None and _joins(earlier, node, behind, known, supports):
            moved = _needed(node, behind)
            if moved is not None:
                after = earlier
                for each in (*moved, node):
                    each.unlink().insert_after(after)
                    after = each
                changed = True
        earlier, behind = node, []
    return changed


def _joins(
    earlier: Node, product: Node, between: Sequence[Node], known: Mapping[Value, Any], supports: Supported
) -> bool:
    """Whether the earlier product is reduced before the later one, and both meet element by element behind that."""
    mine = _followed(earlier.output, known, supports)
    if not any(not mine.isdisjoint(node.inputs) and _is_reduction(node, known) for node in between):
        return False
    return product.output not in mine and not mine.isdisjoint(_followed(product.output, known, supports))


def _is_reduction(node: Node, known: Mapping[Value, Any]) -> bool:
    found = reduction_of(node, known)
    return found is not None and bool(found.dims)


def _followed(product: Value, known: Mapping[Value, Any], supports: Supported) -> set[Value]:
    """The product, and values like it that are computed of it element by element."""
    found = [product]
    seen = {product}
    for value in found:
        for use in value.uses:
            user = use.user
            if user.schema is None or len(found) >= MOST_FOLLOWED or not is_drawn(user, known, supports):
                continue
            new = [made for made in user.outputs if made not in seen and _is_like(made, product, known)]
            seen.update(new)
            found += new
    return seen


def _is_like(value: Value, product: Value, known: Mapping[Value, Any]) -> bool:
    one, other = known.get(value), known.get(product)
    return isinstance(one, Meta) and isinstance(other, Meta) and one.shape == other.shape


def _needed(product: Node, between: Sequence[Node]) -> list[Node] | None:
    """What a product is of that stands between, in order: views, and what is known of sizes; None for anything else."""
    wanted, found = set(product.inputs), list[Node]()
    for node in reversed(between):
        if wanted.isdisjoint(node.outputs):
            continue
        op = OPS.of(node.schema)
        is_plain = node.kind in (CONSTANT, "prim::ListConstruct") or all(v.type in NUMBERS for v in node.outputs)
        if not (is_plain or (op is not None and op.has(Trait.VIEW))) or (op is not None and op.has(_NEVER_MOVED)):
            return None
        wanted.update(node.inputs)
        found.append(node)
    return found[::-1]
