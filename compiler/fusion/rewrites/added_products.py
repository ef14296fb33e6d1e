"""What is added to a product of matrices, and is in memory, is added by the library, which writes the sum alone.

    %p = aten::mm(%a, %b)                  %r = aten::addmm(%c, %a, %b, 1, 1)
    kernel(%p in, %c in, %r out)     →

Only where the sum goes into memory and to no kernel: a kernel that computes with it has both at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from ...analysis.chains import far_reaching
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node
from ...ops.meta import Meta
from ...ops.registry import OPS, Trait
from .drawn import Supported, behind_views, is_drawn, is_passed_on

_ADDS = ("aten::add.Tensor", "prim::AutogradAdd")
_PRODUCTS = ("aten::matmul", "aten::mm")


def add_to_products(graph: Graph, known: MutableMapping[Value, Any], supports: Supported) -> bool:
    """Replace such sums. `known` is what `settle_shapes` gives for the graph, and is told of the new values.

    Before:
        graph f(%c : Tensor, %a : Tensor, %b : Tensor):
          %1 : Tensor = aten::mm(%a, %b)
          %2 : int = prim::Constant[value=1]()
          %3 : Tensor = aten::add.Tensor(%1, %c, %2)
          return (%3)
    After:
        graph f(%c : Tensor, %a : Tensor, %b : Tensor):
          %1 : int = prim::Constant[value=1]()
          %2 : int = prim::Constant[value=1]()
          %3 : Tensor = aten::addmm(%c, %a, %b, %1, %2)
          return (%3)
    """
    nodes = list(graph.nodes)
    # What is compared of open sizes is noted, so that it is asked of sums of products alone.
    sums = [node for node in nodes if node.kind in _ADDS and _terms(node, known) and _is_plain(node, known)]
    if not sums:
        return False
    place = {node: i for i, node in enumerate(nodes)}
    # What follows from many tensors is stored before a product: a kernel behind that would read them all again.
    wanted = {behind_views(other).node for node in sums for _, other in _terms(node, known)}
    stored = far_reaching(nodes, known, lambda node: is_drawn(node, known, supports), wanted.__contains__)
    found = dict[Node, tuple[Node, Value]]()

    def is_there(product: Node, other: Value) -> bool:
        """Whether what is added is in memory before the product whether or not it is added there; sums that go on
        adding up are so if each is."""
        whole = behind_views(other)
        if place.get(whole.node, -1) > place[product]:
            return whole is other and whole.node in found
        is_stored = whole in graph.inputs or whole.node in stored or OPS.has(whole.node.schema, Trait.MATMUL)
        return is_stored or whole.node in found or is_passed_on(other, graph)

    for node in sums:
        term = next((term for term in _terms(node, known) if is_there(*term)), None)
        if term is not None:
            found[node] = term
    changed = False
    for node, (product, other) in reversed(found.items()):
        if _goes_to_memory(node.output, graph):
            # Where the product was, so that nothing is held longer than it was for that.
            _merge(node, product, other, product if place.get(other.node, -1) < place[product] else node, known)
            changed = True
    return changed


def _terms(node: Node, known: Mapping[Value, Any]) -> list[tuple[Node, Value]]:
    """A product in a sum, and what is added to it: once for each of two products."""
    left, right = node.inputs[:2]
    terms = [(product.node, other) for product, other in ((right, left), (left, right)) if _is_product(product, known)]
    return [(product, other) for product, other in terms if isinstance(known.get(behind_views(other)), Meta)]


def _is_plain(node: Node, known: Mapping[Value, Any]) -> bool:
    """Whether it adds two matrices of one shape and of a dtype in which a sum is rounded as the library does."""
    meta = known.get(node.output)
    is_full = isinstance(meta, Meta) and meta.rank == 2 and meta.dtype.is_floating and not meta.dtype.is_half
    is_sum = is_full and all(known.get(value) == meta for value in node.inputs[:2])
    return is_sum and all(known.get(factor) == 1 for factor in node.inputs[2:])


def _is_product(value: Value, known: Mapping[Value, Any]) -> bool:
    """Whether it is a product of two matrices that is there for this sum alone."""
    factors = [known.get(factor) for factor in value.node.inputs] if value.node.kind in _PRODUCTS else []
    return bool(factors) and value.use_count == 1 and all(isinstance(m, Meta) and m.rank == 2 for m in factors)


def _goes_to_memory(value: Value, graph: Graph) -> bool:
    """Whether a value is a result or a factor, as it is or as a view, and no more."""
    pending = [value]
    for found in pending:
        for use in found.uses:
            if OPS.has(use.user.schema, Trait.VIEW):
                pending += use.user.outputs
            elif use.user is not graph.body.ret and not OPS.has(use.user.schema, Trait.MATMUL | Trait.SHAPE_ONLY):
                return False
    return True


def _merge(node: Node, product: Node, other: Value, at: Node, known: MutableMapping[Value, Any]) -> None:
    made = Builder.in_front_of(at).op("aten::addmm", other, *product.inputs, 1, 1)
    known.update(dict.fromkeys(made.node.inputs[3:], 1))
    known[made] = known[node.output]
    made.type, made.name_hint = node.output.type, node.output.name_hint
    replace_node(node, [made])
    product.destroy()
