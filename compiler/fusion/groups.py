"""Straight stretches of any block, gathered in prim::FusionGroup nodes: what lies between control flow is kernels.

A node joins the group that stands before it if nothing between the two depends on that group and it on that; borders
that have nothing to do with the group go before it. Nothing moves over control flow, or over what has an effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...lang.light_dataclasses import dataclass
from ..analysis.captures import captures
from ..analysis.ownership import WRITTEN_PARTS, ownership
from ..autodiff.subgraphs import subgraph
from ..ir.graph import Graph
from ..ir.node import Block, Node, Value, walk
from ..ir.outline import outline
from ..ops.meta import Meta
from ..ops.registry import OPS, Trait
from ..types.types import INT, ListType
from .borders import LIST, Borders, is_free, is_place, is_work, weight
from .elements.table import has_element_rule

KIND = "prim::FusionGroup"
MAX_NODES = 512
"""Of one group: planning takes longer than in proportion to them."""
_FIXED = ("prim::If", "prim::Loop", "prim::CallFunction")
MIN_WEIGHT = 2
"""A stretch of less is no group: one op is one launch, whoever makes its kernel."""

_COUNTS = frozenset(("aten::add.int", "aten::mul.int", "aten::neg.int", "aten::sub.int", "aten::append.t", LIST))

__all__ = ["KIND", "Parts", "create_fusion_groups", "group_graph"]


@dataclass(frozen=True, slots=True)
class Parts:
    """A graph with its straight stretches in groups. `borders` has the reason why each other node is in none, but for
    what is too small for one; `known` is what is known of values outside of groups."""

    graph: Graph
    borders: Mapping[Node, str]
    known: Mapping[Value, Any]


def create_fusion_groups(graph: Graph, known: Mapping[Value, Any], large: int = 0) -> Parts | None:
    """Gather the stretches of every block. None for a graph without a border, which stays as it is.

    `known` is what `settle_shapes` gives for the graph. Of tensors of `large` elements or more, loops write a part
    where the others lie.

    Before:
        graph f(%x : Tensor[float32, rank=1], %s : Tensor[float32, rank=0]):
          %1 : Tensor[float32, rank=1] = aten::tanh(%x)
          %2 : Tensor[float32, rank=1] = aten::mul.Tensor(%1, %x)
          %3 : float = aten::Float.Tensor(%s)
          return (%2, %3)
    After:
        graph f(%x : Tensor[float32, rank=1], %s : Tensor[float32, rank=0]):
          %1 : float = aten::Float.Tensor(%s)
          %2 : Tensor[float32, rank=1] = prim::FusionGroup[name="f_1"](%x)
            block(%x.1 : Tensor[float32, rank=1]):
              %3 : Tensor[float32, rank=1] = aten::tanh(%x.1)
              %4 : Tensor[float32, rank=1] = aten::mul.Tensor(%3, %x.1)
              return (%4)
          return (%2, %1)
    """
    reasons = _reasons(graph, known, large)
    borders = {node: reason for node, reason in reasons.items() if reason}
    if not borders:
        return None
    for block in _blocks(graph, reasons):
        _gather(block, reasons)
    groups = [node for node in graph.all_nodes() if node.kind == KIND]
    found = dict(known)
    for number, group in enumerate(groups, 1):
        group.attrs["name"] = f"{graph.name}_{number}"
        found.update((o, known[i]) for o, i in zip(group.outputs, group.blocks[0].outputs, strict=True) if i in known)
    return Parts(graph, borders, found)


def group_graph(group: Node, graph: Graph) -> Graph:
    """The block of a group as a graph of its own, under the group's name."""
    return subgraph(group, graph)


def _reasons(graph: Graph, known: Mapping[Value, Any], large: int) -> dict[Node, str]:
    """Why each node is a border, nothing for one that is none; what is inside members is left out."""
    borders, reasons = Borders(known, _in_place(graph, known, large)), dict[Node, str]()
    pending = list(graph.nodes)[::-1]
    while pending:
        node = pending.pop()
        if is_free(node):
            continue
        reasons[node] = borders.why(node)
        if reasons[node]:
            pending += [inner for block in reversed(node.blocks) for inner in list(block.nodes)[::-1]]
    return reasons


def _in_place(graph: Graph, known: Mapping[Value, Any], large: int) -> set[Node]:
    """What writes a part of a large tensor where it lies, and what gives views of that: kernels make another tensor in
    each round."""

    def is_large(found: Any) -> bool:
        return not isinstance(found, Meta) or type(found.numel) is not int or found.numel >= large

    own = ownership(graph)
    writes = {node for node in own.writes if node.kind in WRITTEN_PARTS and is_large(known.get(node.output))}
    return writes | {node for node in own.views if is_large(known.get(node.inputs[0]))} if writes else writes


def _blocks(graph: Graph, reasons: Mapping[Node, str]) -> Iterator[Block]:
    yield graph.body
    for node, reason in reasons.items():
        if reason:
            yield from node.blocks


def _gather(block: Block, reasons: Mapping[Node, str]) -> None:
    """Put the groups of a block in their places."""
    nodes = list(block.nodes)
    free = [node for node in nodes if is_free(node)]
    items = _arranged([node for node in nodes if not is_free(node)], reasons)
    for node in nodes:
        node.unlink()
    for node in free:
        block.append(node)
    for item in items:
        if isinstance(item, Node):
            block.append(item)
        elif sum(map(weight, item)) < MIN_WEIGHT:
            for node in item:
                block.append(node)
        else:
            outline(block, item, KIND, {"name": ""}, repeated=is_free, span=item[0].span)


def _arranged(nodes: Sequence[Node], reasons: Mapping[Node, str]) -> list[Node | list[Node]]:
    """Borders and groups in the order in which they are to run."""
    items: list[Node | list[Node]] = []
    group: list[Node] = []
    behind: list[Node] = []
    """Borders that need what the group gives, or what such a border does."""
    made: set[Value] = set()
    late: set[Value] = set()

    def close() -> None:
        if group:
            items.append(group.copy())
        items.extend(behind)
        for kept in (group, behind, made, late):
            kept.clear()

    for node in nodes:
        used = _used(node)
        if not reasons[node]:
            if len(group) >= MAX_NODES or not late.isdisjoint(used):
                close()
            group.append(node)
            made.update(node.outputs)
        elif _is_fixed(node, behind):
            close()
            items.append(node)
        elif made.isdisjoint(used) and late.isdisjoint(used):
            items.append(node)
        else:
            behind.append(node)
            late.update(node.outputs)
    close()
    _sink(items)
    _rise(items)
    return _with_numbers([item for item in items if item])


def _sink(items: Sequence[Node | list[Node]]) -> None:
    """Have what only puts in order what a group is given, and what one later group alone reads, be a part of that one:
    in its own group it would be written to memory for nothing but that."""
    group_of = {node: item for item in items if isinstance(item, list) for node in item}
    for item in items:
        if not isinstance(item, list):
            continue
        members, given = set(item), set[Node]()
        for node in item:
            if _puts_in_order(node) and all(v.node not in members or v.node in given for v in _used(node)):
                given.add(node)
        for node in reversed(item.copy()):
            readers = [group_of.get(use.user) for value in node.outputs for use in value.uses]
            if node not in given or not readers or readers[0] is None or readers[0] is item:
                continue
            if all(reader is readers[0] for reader in readers):
                item.remove(node)
                readers[0].insert(0, node)
                group_of[node] = readers[0]


def _rise(items: Sequence[Node | list[Node]]) -> None:
    """Have a gradient added where one of the two is made: a branch or what is between adds nothing to it, and no kernel
    would be made of a sum alone."""
    made = {value: place for place, item in enumerate(items) for node in _nodes(item) for value in node.outputs}
    for place, item in enumerate(items):
        if not isinstance(item, list):
            continue
        for node in item.copy():
            if node.kind != "prim::AutogradAdd":
                continue
            target = max((made.get(value, -1) for value in node.inputs), default=-1)
            if not 0 <= target < place or not isinstance(group := items[target], list) or len(group) >= MAX_NODES:
                continue
            item.remove(node)
            group.append(node)
            made.update((value, target) for value in node.outputs)


def _with_numbers(items: Sequence[Node | list[Node]]) -> list[Node | list[Node]]:
    """Have sizes and places that are counted for one group alone be a part of it: it is given what they are counted
    from, which is open where it varies, and of which sums and products ask nothing."""
    group_of = {node: item for item in items if isinstance(item, list) for node in item}
    found, counted = list[Node | list[Node]](), set[Node]()
    for item in reversed(items):
        if isinstance(item, Node) and item.kind in _COUNTS and all(map(_is_number, (*item.inputs, *item.outputs))):
            uses = [use for value in item.outputs for use in value.uses]
            groups = [group_of.get(use.user) for use in uses]
            is_told = any(use.user in counted or is_place(use.user, use.index) for use in uses)
            if is_told and groups[0] is not None and all(group is groups[0] for group in groups):
                groups[0].insert(0, item)
                group_of[item] = groups[0]
                counted.add(item)
                continue
        found.append(item)
    return found[::-1]


def _is_number(value: Value) -> bool:
    return value.type in (INT, ListType(INT))


def _nodes(item: Node | list[Node]) -> list[Node]:
    return item if isinstance(item, list) else [item]


def _puts_in_order(node: Node) -> bool:
    """Whether a node computes nothing of the elements that it is given, and gives a kernel each where it asks."""
    op = OPS.of(node.schema)
    if op is None:
        return node.kind == LIST
    return not is_work(node) and not op.has(Trait.RANDOM) and (op.has(Trait.VIEW) or has_element_rule(op))


def _is_fixed(node: Node, behind: Sequence[Node]) -> bool:
    """Whether nothing is to move over a node. Draws stay in their order; a gradient that is computed where it is wanted
    may be computed later."""
    if node.kind == "prim::GradOf":
        return any(inner.kind in _FIXED or _has(inner, Trait.SIDE_EFFECT | Trait.RANDOM) for inner in walk([node]))
    if node.kind in _FIXED or _has(node, Trait.SIDE_EFFECT):
        return True
    return _has(node, Trait.RANDOM) and any(_has(other, Trait.RANDOM) for other in behind)


def _has(node: Node, trait: Trait) -> bool:
    return OPS.has(node.schema, trait)


def _used(node: Node) -> list[Value]:
    return [*node.inputs, *(value for block in node.blocks for value in captures(block))]
