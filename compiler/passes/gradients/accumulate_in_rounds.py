"""Add what each round of a loop finds of a gradient where the sum of the rounds before lies.

Before:
    graph f(%n : int, %x : Tensor[float32, rank=2], %g : Tensor[float32, rank=2]):
      %1 : bool = prim::Constant[value=True]()
      %2 : Undefined = prim::AutogradZero()
      %3 : Tensor[float32, rank=2] = prim::Loop(%n, %1, %2)
        block(%i : int, %acc : Tensor[float32, rank=2]):
          %4 : Tensor[float32, rank=2] = aten::mm(%x, %g)
          %5 : Tensor[float32, rank=2] = prim::AutogradAdd(%acc, %4)
          return (%1, %5)
      return (%3)
After, dead nodes aside:
    graph f(%n : int, %x : Tensor[float32, rank=2], %g : Tensor[float32, rank=2]):
      %1 : bool = prim::Constant[value=True]()
      %2 : Undefined = prim::AutogradZero()
      %3 : Tensor[float32, rank=2] = prim::Loop(%n, %1, %2)
        block(%i : int, %acc : Tensor[float32, rank=2]):
          %4 : Tensor[float32, rank=2] = prim::grad_add_product(%acc, %x, %g)
          return (%1, %4)
      return (%3)

Of a weight that every round multiplies by, three gradients would be there at once: the sum so far, the round's, and the
new sum. A plan adds the products to the one sum (`analysis/ownership`), and parts of what rounds have a part of
(`ir/gradient_parts`): the gradient of `xs[i]` is zeros but for one slice, and as many whole arrays as there are
rounds would be made of them. A branch adds what it has found itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ir.builder import Builder
from ...ir.gradient_parts import part_of, uncover
from ...ir.graph import Graph
from ...ir.kinds import carried
from ...ir.node import Block, Node, Value
from ...ir.rewrite import constant_of
from ...types.types import UNDEFINED, TensorType

_TURNS = "aten::t"


class _Sum(NamedTuple):
    """What a block gives in one place, which becomes the sum of a total and of what is given there.

    `holds_total` says that the total is part of it already.
    """

    total: Value
    block: Block
    place: int
    holds_total: bool = False


def accumulate_in_rounds(graph: Graph, *, products: bool = True) -> bool:
    """Rewrite the sums that loops carry where all that is added is products of matrices, and parts.

    Without `products` parts alone: products of several rounds may be one yet.
    """
    changed = False
    for loop in [node for node in graph.all_nodes() if node.kind == "prim::Loop"]:
        (block,) = loop.blocks
        for place in carried(loop):
            if place.parameter.use_count == 1 and place.result is not place.parameter:
                parts = _terms(place.result, place.parameter, block)
                if parts and _are_parts(parts, products):
                    _add_in_turn(_Sum(place.parameter, block, block.outputs.index(place.result), holds_total=True))
                    changed = True
    return changed


def _terms(result: Value, total: Value | None, block: Block) -> list[Value] | None:
    """What is added to a total to make a result, all of it in a block; None where that is not how it is made."""
    terms: list[Value] = []
    begun = 0
    pending = [result]
    while pending:
        value = pending.pop()
        if value is total:
            begun += 1
        elif value.use_count != 1 or value.node.owner is not block:
            return None
        elif _is_sum(value.node):
            pending += [value.node.inputs[1], value.node.inputs[0]]
        else:
            terms.append(value)
    return terms if total is None or begun == 1 else None


def _are_parts(terms: Sequence[Value], products: bool) -> bool:
    """Whether all terms can be added where the sum lies: in the branches that make them, too."""
    pending = list(terms)
    while pending:
        value = pending.pop()
        if value.node.kind == "prim::If":
            for block in value.node.blocks:
                inner = block.outputs[value.index]
                if not _is_missing(inner):
                    found = _terms(inner, None, block)
                    if found is None:
                        return False
                    pending += found
        elif part_of(value) is None and not (products and _product(value) is not None):
            return False
    return True


def _is_missing(value: Value) -> bool:
    return value.type == UNDEFINED or value.node.kind == "prim::AutogradZero"


def _is_sum(node: Node) -> bool:
    return node.kind == "prim::AutogradAdd" or (node.kind == "aten::add.Tensor" and constant_of(node.inputs[2]) == 1)


def _product(value: Value) -> Node | None:
    """The product of two matrices that a value is, as it stands or turned, and that nothing else uses."""
    node = value.node
    if node.kind == _TURNS and node.inputs[0].use_count == 1 and node.inputs[0].node.owner is node.owner:
        node = node.inputs[0].node
    is_product = node.kind == "aten::mm" or (node.kind == "aten::matmul" and all(map(_is_matrix, node.inputs)))
    return node if is_product else None


def _is_matrix(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.rank == 2


def _add_in_turn(first: _Sum) -> None:
    """Add the terms one after the other."""
    pending = [first]
    while pending:
        total, block, place, holds_total = pending.pop()
        result = block.outputs[place]
        if not _is_missing(result):
            terms = _terms(result, total if holds_total else None, block)
            assert terms is not None
            # What a branch adds to has to stand in front of it; else all is added where the sum stood.
            at = result.node if _is_sum(result.node) else None
            if any(term.node.kind == "prim::If" for term in terms):
                order = {node: index for index, node in enumerate(block.nodes)}
                terms, at = sorted(terms, key=lambda term: order[term.node]), None
            for term in terms:
                if term.node.kind == "prim::If":
                    pending += [_Sum(total, inner, term.index) for inner in term.node.blocks]
                    total = term
                else:
                    total = _added(total, term, at)
                total.type = result.type
            total.name_hint = result.name_hint
        block.ret.set_input(place, total)
        _drop_sums(result)


def _drop_sums(value: Value) -> None:
    """Remove a sum that nobody uses any more, with those in it: what it adds may be no whole gradient now."""
    pending = [value]
    while pending:
        node = pending.pop().node
        if _is_sum(node) and node.output.use_count == 0:
            pending += node.inputs[:2]
            node.destroy()


def _added(total: Value, term: Value, at: Node | None) -> Value:
    """A total and a term, which is a part or a product, in front of a node, or behind what makes the term."""
    block, following = term.node.owner, at or term.node.next
    assert block is not None and following is not None
    builder = Builder(block, following, term.node.span)
    part = part_of(term)
    if part is not None:
        uncover(term)
        return builder.op(part.kind, total, part.gradient, *part.where)
    product = _product(term)
    assert product is not None
    if product is term.node:
        return builder.op("prim::grad_add_product", total, *product.inputs)
    left, right = (_turned(builder, value) for value in reversed(product.inputs))
    return builder.op("prim::grad_add_product", total, left, right)


def _turned(builder: Builder, value: Value) -> Value:
    """A matrix turned."""
    if value.node.kind == _TURNS:
        return value.node.inputs[0]
    return builder.op(_TURNS, value)
