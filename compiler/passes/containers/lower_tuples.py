"""Take tuples apart, so that what is left of them stands at the graph's border.

Before:
    graph f(%x : Tensor, %y : Tensor, %c : bool):
      %t : Tuple[Tensor, Tensor] = prim::If(%c)
        block():
          %1 : Tuple[Tensor, Tensor] = prim::TupleConstruct(%x, %y)
          return (%1)
        block():
          %2 : Tuple[Tensor, Tensor] = prim::TupleConstruct(%y, %x)
          return (%2)
      %a : Tensor = prim::TupleIndex[index=0](%t)
      return (%a)
After:
    graph f(%x : Tensor, %y : Tensor, %c : bool):
      %t : Tensor, %t.1 : Tensor = prim::If(%c)
        block():
          return (%x, %y)
        block():
          return (%y, %x)
      return (%t)

A tuple that a graph takes is unpacked, and one that it returns is made, where the graph's type says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import flow_of
from ...ir.node import Node, Value
from ...ir.rewrite import replace_node, rewrite_nodes
from ...types.types import TupleType, Type, is_subtype

_TUPLE_KINDS = ("prim::TupleConstruct", "prim::TupleUnpack", "prim::TupleIndex")


def lower_tuples(graph: Graph) -> bool:
    """Split tuples that branches give and loops carry; cancel what is made against what is taken apart."""
    changed = False
    for node in list(graph.all_nodes()):
        while node.kind in ("prim::If", "prim::Loop") and any(_is_tuple(v.type) for v in node.outputs):
            _split(node)
            changed = True
    changed |= rewrite_nodes(graph, _cancel)
    if changed:
        _remove_unused(graph)
    return changed


def _is_tuple(type: Type) -> bool:
    return isinstance(type, TupleType)


def _split(node: Node) -> None:
    """Make each tuple among the results one result per element: one level, elements may be tuples again."""
    which = [_is_tuple(value.type) for value in node.outputs]
    assert node.next is not None and node.owner is not None
    flow = flow_of(node)
    assert flow is not None
    for block in node.blocks:
        _split_uses(block.ret, flow.results, which)
        if flow.repeats:
            _split_definitions(block.param, flow.parameters, which, block.param.next)
    if flow.repeats:
        _split_uses(node, flow.inputs, which)
    _split_definitions(node, 0, which, node.next)


def _split_uses(node: Node, fixed: int, which: Sequence[bool]) -> None:
    """Use the elements instead of the tuples among the inputs after the first `fixed` ones."""
    values = node.inputs[:fixed]
    for value, split in zip(node.inputs[fixed:], which, strict=True):
        values += _elements(value, node) if split else [value]
    node.replace_inputs(values)


def _split_definitions(node: Node, fixed: int, which: Sequence[bool], before: Node | None) -> None:
    """Give elements instead of tuples; the tuples are made again in front of `before`, for their users."""
    assert before is not None and before.owner is not None
    builder = Builder(before.owner, before, node.span)
    old, node.outputs = node.outputs, node.outputs[:fixed]
    for value, split in zip(old[fixed:], which, strict=True):
        if not split:
            node.outputs.append(value)
            continue
        assert isinstance(value.type, TupleType)
        elements = [node.add_output(type, value.name_hint) for type in value.type.elements]
        value.replace_uses_with(builder.tuple(elements))


def _elements(value: Value, before: Node) -> list[Value]:
    if value.node.kind == "prim::TupleConstruct":
        return value.node.inputs
    return Builder.in_front_of(before).unpack(value)


def _cancel(node: Node) -> Node | None:
    if node.kind == "prim::TupleConstruct":
        return _rejoin(node)
    if node.kind not in ("prim::TupleUnpack", "prim::TupleIndex"):
        return None
    made = node.inputs[0].node
    if made.kind == "prim::Uninitialized":
        builder = Builder.in_front_of(node)
        return replace_node(node, [builder.uninitialized(value.type) for value in node.outputs])
    if made.kind != "prim::TupleConstruct":
        return None
    return replace_node(node, made.inputs if node.kind == "prim::TupleUnpack" else [made.inputs[node.attr("index")]])


def _rejoin(node: Node) -> Node | None:
    """A tuple made of all that another one was taken apart into is that one."""
    source = node.inputs[0].node if node.inputs else None
    if source is None or source.kind != "prim::TupleUnpack" or source.outputs != node.inputs:
        return None
    whole = source.inputs[0]
    return replace_node(node, [whole]) if is_subtype(whole.type, node.output.type) else None


def _remove_unused(graph: Graph) -> None:
    for node in reversed(list(graph.all_nodes())):
        if node.kind in _TUPLE_KINDS and not any(value.use_count for value in node.outputs):
            node.destroy()
