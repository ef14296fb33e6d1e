"""What branches give and loops carry: only what they decide or change, in the order of first use.

Emission meets names in the order in which statements bind them, which the same program written another way binds in
another order. Afterwards the order follows from the graph alone, so that a graph and its printed source agree.
"""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.kinds import (
    entering,
    flow_of,
    is_loop,
    leaving,
    own_inputs,
    own_parameters,
    own_results,
    parameters,
    sources,
)
from ..ir.node import PARAM, RETURN, Block, Node, Value
from ..types.types import Type

_MERGING = ("prim::If", "prim::Loop")


def order_results(graph: Graph) -> None:
    """Sort the results of branches, and what loops carry, by where each is first used.

    Before:
        graph f(%x : Tensor, %flag : bool):
          %a : Tensor, %b : Tensor = prim::If(%flag)
            block():
              %1 : Tensor = aten::sin(%x)
              %2 : Tensor = aten::cos(%x)
              return (%1, %2)
            block():
              return (%x, %x)
          %3 : Tensor = aten::exp(%b)
          return (%3, %a)
    After:
        graph f(%x : Tensor, %flag : bool):
          %b : Tensor, %a : Tensor = prim::If(%flag)
            block():
              %1 : Tensor = aten::sin(%x)
              %2 : Tensor = aten::cos(%x)
              return (%2, %1)
            block():
              return (%x, %x)
          %3 : Tensor = aten::exp(%b)
          return (%3, %a)
    """
    ranks = _Ranks(graph)
    for node in reversed(ranks.merging):
        if len(node.outputs) > 1:
            order = sorted(range(len(node.outputs)), key=lambda k: ranks.of(node, k))
            if order != list(range(len(node.outputs))):
                _permute(node, order)


def drop_unchanged(graph: Graph) -> bool:
    """Remove results that are the same value whatever the branch, or after any number of rounds.

    Before:
        graph f(%x : Tensor, %w : Tensor, %n : int):
          %go : bool = prim::Constant[value=True]()
          %a : Tensor, %b : Tensor = prim::Loop(%n, %go, %x, %w)
            block(%i : int, %a.1 : Tensor, %b.1 : Tensor):
              %a.2 : Tensor = aten::mul.Tensor(%a.1, %b.1)
              return (%go, %a.2, %b.1)
          return (%a, %b)
    After:
        graph f(%x : Tensor, %w : Tensor, %n : int):
          %go : bool = prim::Constant[value=True]()
          %a : Tensor = prim::Loop(%n, %go, %x)
            block(%i : int, %a.1 : Tensor):
              %a.2 : Tensor = aten::mul.Tensor(%a.1, %w)
              return (%go, %a.2)
          return (%a, %w)
    """
    changed, again = False, True
    while again:
        again = False
        # Inner before outer: what an inner node no longer gives may leave an outer one unchanged.
        for node in reversed([n for n in graph.all_nodes() if n.kind in _MERGING]):
            for k in reversed(range(len(node.outputs))):
                value = _only_value(node, k)
                if value is not None:
                    _drop(node, k, value)
                    changed = again = True
    return changed


def _only_value(node: Node, k: int) -> Value | None:
    """The value from outside that result `k` always is."""
    if node.kind == "prim::If":
        first, second = (_wrapped(block.outputs[k], node.outputs[k].type) for block in node.blocks)
        return first if first is second else None
    (block,) = node.blocks
    value, param, result = entering(node)[k], parameters(block)[k], leaving(block)[k]
    same = _wrapped(result, param.type) is param and value.type == param.type
    return value if same else None


def _wrapped(value: Value, type: Type) -> Value:
    """The optional of this type that a value was unwrapped from; any other value itself."""
    if value.node.kind == "prim::unchecked_unwrap_optional" and value.node.inputs[0].type == type:
        return value.node.inputs[0]
    return value


def _drop(node: Node, k: int, value: Value) -> None:
    node.outputs[k].replace_uses_with(value)
    flow = flow_of(node)
    assert flow is not None
    if flow.repeats:
        parameters(node.blocks[0])[k].replace_uses_with(value)
        node.remove_input(flow.inputs + k)
    for block in node.blocks:
        block.ret.remove_input(flow.results + k)
        if flow.repeats:
            block.param.remove_output(flow.parameters + k)
    node.remove_output(k)


class _Ranks:
    """Values in the order of their first uses. A use by a branch's result or a loop's variable only hands it on."""

    def __init__(self, graph: Graph) -> None:
        self.merging: list[Node] = []
        self._ranks: dict[Value, int] = {}
        stack: list[Node | Block] = [graph.body]
        while stack:
            item = stack.pop()
            if isinstance(item, Block):
                stack += [item.ret, *reversed(list(item.nodes))]
                continue
            for value in _own_inputs(item):
                self._mark(value)
            if item.kind in _MERGING:
                self.merging.append(item)
            stack += reversed(item.blocks)

    def of(self, node: Node, k: int) -> tuple[int, int]:
        values = [node.outputs[k]]
        if is_loop(node):
            values.append(parameters(node.blocks[0])[k])
        return min(self._ranks.get(v, len(self._ranks)) for v in values), k

    def _mark(self, value: Value) -> None:
        """Rank the value and all that it may come from."""
        stack = [value]
        while stack:
            value = stack.pop()
            if value not in self._ranks:
                self._ranks[value] = len(self._ranks)
                stack += reversed(sources(value) if _is_merged(value) else ())


def _own_inputs(node: Node) -> list[Value]:
    """What a node itself reads."""
    if is_loop(node):
        return own_inputs(node)
    block = node.owner
    merges = block is not None and block.node is not None and block.node.kind in _MERGING
    return own_results(block) if node.kind == RETURN and block is not None and merges else node.inputs


def _is_merged(value: Value) -> bool:
    """Whether a branch or a loop hands the value through."""
    node = value.node
    holder = node.holder if node.kind == PARAM else node
    return holder is not None and holder.kind in _MERGING


def _permute(node: Node, order: list[int]) -> None:
    node.outputs[:] = [node.outputs[k] for k in order]
    for block in node.blocks:
        block.ret.replace_inputs([*own_results(block), *(leaving(block)[k] for k in order)])
    if is_loop(node):
        (block,) = node.blocks
        block.param.outputs = [*own_parameters(block), *(parameters(block)[k] for k in order)]
        node.replace_inputs([*own_inputs(node), *(entering(node)[k] for k in order)])
