"""Gather the matrix products that the rounds of a loop add up, and multiply many at once.

Before:
    graph backward(%n : int, %a : Tensor, %b : Tensor, %xs : List[Tensor]):
      %always : bool = prim::Constant[value=True]()
      %one : int = prim::Constant[value=1]()
      %1 : Tensor = aten::mm(%a, %b)
      %2 : Tensor = prim::Loop(%n, %always, %1)
        block(%i : int, %total : Tensor):
          %x : Tensor = aten::__getitem__.t(%xs, %i)
          %3 : Tensor = aten::mm(%a, %x)
          %4 : Tensor = aten::add.Tensor(%total, %3, %one)
          return (%always, %4)
      return (%2)
After, dead nodes aside:
    graph backward(%n : int, %a : Tensor, %b : Tensor, %xs : List[Tensor]):
      %always : bool = prim::Constant[value=True]()
      %1 : List[Tensor] = prim::ListConstruct(%a, %b)
      %2 : List[Tensor] = prim::Loop(%n, %always, %1)
        block(%i : int, %total : List[Tensor]):
          %x : Tensor = aten::__getitem__.t(%xs, %i)
          %3 : List[Tensor] = prim::mm_gather(%total, %a, %x)
          return (%always, %3)
      %4 : Tensor[rank=2] = prim::mm_total(%2)
      return (%4)

As `batch_matmuls` does in straight code: the sum of products is the product of the joined operands, as in the backward
of a recurrent net. A few dozen are held at a time, and only small ones. A loop that goes on with the sum of another,
as unrolling leaves them, goes on with what that has gathered. A float's rounding may differ in the last places.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import Carried, carried
from ...ir.node import Node, Value
from ...ir.rewrite import constant_of, replace_node
from ...types.types import ListType, TensorType, Type, unify

_LOOP, _MM, _ADD = "prim::Loop", "aten::mm", "aten::add.Tensor"


def batch_rounds(graph: Graph) -> bool:
    """Replace sums of products that loops carry by the operands gathered so far."""
    gathered: dict[Value, Value] = {}
    changed = False
    for loop in [node for node in graph.all_nodes() if node.kind == _LOOP]:
        chains = {place: products for place in carried(loop) if (products := _products(place))}
        starts = {place: start for place in chains if (start := _start(place.initial, gathered)) is not None}
        if starts:
            _rebuild(loop, {place.parameter: (chains[place], start) for place, start in starts.items()}, gathered)
            changed = True
    return changed


def _products(place: Carried) -> list[Node]:
    """The products that a round adds to what is carried, in order; none where it does anything else with it."""
    products: list[Node] = []
    value = place.result
    while value is not place.parameter:
        node = value.node
        if node.kind != _ADD or value.use_count != 1 or constant_of(node.inputs[2]) != 1:
            return []
        if node.owner is not place.parameter.node.owner:
            return []
        value, product = node.inputs[:2]
        if product.node.kind != _MM or product.use_count != 1 or product.node.owner is not node.owner:
            return []
        products.append(product.node)
    return products[::-1] if place.parameter.use_count == 1 else []


def _start(initial: Value, gathered: dict[Value, Value]) -> Value | Node | None:
    """What a loop begins to gather with: what another has gathered, or a product."""
    while initial.node.kind == "prim::unchecked_cast" and initial.use_count == 1:
        initial = initial.node.inputs[0]
    if initial in gathered:
        return gathered[initial]
    return initial.node if initial.node.kind == _MM and initial.use_count == 1 else None


def _rebuild(loop: Node, chains: dict[Value, tuple[list[Node], Value | Node]], gathered: dict[Value, Value]) -> None:
    """The loop with lists in the place of sums."""
    (body,) = loop.blocks
    builder = Builder.in_front_of(loop)
    places = carried(loop)
    made = builder.node(_LOOP, loop.inputs[:2], blocks=1)
    (block,) = made.blocks
    body.inputs[0].replace_uses_with(block.add_input(body.inputs[0].type, body.inputs[0].name_hint))
    results = [body.outputs[0]]
    for node in list(body.nodes):
        block.append(node.unlink())
    for place in places:
        products, start = chains.get(place.parameter, ([], None))
        type = place.output.type if start is None else _list_type(products, start)
        parameter = block.add_input(type, place.parameter.name_hint)
        made.add_output(type, place.output.name_hint)
        if start is None:
            made.add_input(place.initial)
            place.parameter.replace_uses_with(parameter)
            results.append(place.result if place.result is not place.parameter else parameter)
        else:
            made.add_input(start if isinstance(start, Value) else _pair(builder, start, made, type))
            results.append(_gather(parameter, products, place.result))
    block.ret.replace_inputs(results)
    after = Builder.in_front_of(loop)
    totals: list[Value] = []
    for place, output in zip(places, made.outputs, strict=True):
        totals.append(after.op("prim::mm_total", output) if place.parameter in chains else output)
    body.ret.replace_inputs(())
    for place in places:
        if place.parameter in chains:
            _remove(place.result, chains[place.parameter][0])
    for new, output in zip(totals, made.outputs, strict=True):
        if new is not output:
            gathered[new] = output
    replace_node(loop, totals)


def _list_type(products: list[Node], start: Value | Node) -> Type:
    operands = [value.type for node in products for value in node.inputs]
    if isinstance(start, Node):
        operands += [value.type for value in start.inputs]
    else:
        operands.append(start.type.element if isinstance(start.type, ListType) else start.type)
    element: Type | None = operands[0]
    for type in operands[1:]:
        element = unify(element, type) if element is not None else None
    return ListType(element or TensorType())


def _pair(builder: Builder, product: Node, before: Node, type: Type) -> Value:
    """The operands of a product as the beginning of what is gathered."""
    with builder.before(before):
        return builder.node("prim::ListConstruct", product.inputs, [type]).output


def _gather(state: Value, products: list[Node], result: Value) -> Value:
    """Gather in the place of the last sum."""
    node = result.node
    builder = Builder.in_front_of(node)
    for product in products:
        state = builder.op("prim::mm_gather", state, *product.inputs)
    return state


def _remove(result: Value, products: list[Node]) -> None:
    """Remove sums that nothing uses any more, last one first, and what they summed."""
    for product in reversed(products):
        total = result.node
        result = total.inputs[0]
        total.destroy()
        product.destroy()
