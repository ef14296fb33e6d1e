"""The groups of a program with control flow, listed: which kernels, where they stand, and what is between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from ...compiler.fusion.fuse import Unfusable, fuse
from ...compiler.fusion.groups import KIND, Parts, group_graph
from ...compiler.fusion.planning.assemble import Split
from ...compiler.fusion.planning.roles import Supports
from ...compiler.fusion.program import ExternStep, Program
from ...compiler.fusion.seeds import open_inputs
from ...compiler.ir.graph import Graph
from ...compiler.ir.kinds import carried
from ...compiler.ir.node import Block, Node, Value
from ...compiler.kernel_ir.layout import Layout
from ...compiler.ops.meta import UNKNOWN, Meta, for_each, join
from ...compiler.ops.registry import OPS, Trait
from ...compiler.recompute.storage import Storages, size_of
from ...compiler.shapes.propagate import ShapeError, propagate_shapes
from ...compiler.types.types import is_tensor, leaf_of
from ...lang.diagnostics import counted
from ...lang.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListedParts:
    """The programs of groups whose shapes are known before a run, in order, lines that say where all are, and products
    between them, by kind."""

    programs: tuple[Program, ...]
    lines: tuple[str, ...] = ()
    products: tuple[str, ...] = ()


def list_parts(parts: Parts, given: Sequence[Any], supports: Supports, split: Split) -> ListedParts:
    """The groups of a graph for arguments of which so much is given, each planned for the shapes that it sure meets.

    What is missing in a first round, as the gradients so far are, is there in the ones that follow: these are listed.
    """
    known = {**parts.known, **propagate_shapes(parts.graph, given, _in_later_rounds)}
    made: dict[Node, Program | str] = {}
    for node in parts.graph.all_nodes():
        if node.kind == KIND:
            made[node] = _planned(node, parts.graph, known, supports, split)
    programs = tuple([found for found in made.values() if isinstance(found, Program)])
    products = [node.kind for node in parts.borders if OPS.has(node.schema, Trait.MATMUL)]
    return ListedParts(programs, tuple(_lines(parts, made)), tuple(products))


def bytes_between(f: Graph, known: Mapping[Value, Any], real: int, captured: Sequence[int]) -> int:
    """Bytes of what a forward keeps for its backward beyond arguments and its `real` results, whatever is a view of
    these, round by round as well, left out."""
    storages = Storages(known)
    storages.visit(f.body)
    free = frozenset[Value]().union(*(storages.bases(value) for value in (*f.inputs, *f.outputs[:real])))

    def is_shown(value: Value) -> bool:
        if value.node.kind != "prim::Loop":
            return storages.bases(value) <= free
        place = carried(value.node)[value.node.outputs.index(value)]
        return storages.bases(place.result) - {place.parameter} <= free

    kept = dict.fromkeys(f.outputs[i] for i in captured if i >= real)
    return sum(size_of(known.get(value)) or 0 for value in kept if not is_shown(value))


def given_for(known: Any) -> Any:
    """What is known of a value as what a graph is planned for: tensors contiguous."""
    if isinstance(known, list):
        return for_each(known, given_for)
    return Layout.contiguous(known) if isinstance(known, Meta) else known


def _in_later_rounds(left: Any, right: Any) -> Any:
    """What stands for a value in two rounds: one that is there, if it is not in the other."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [_in_later_rounds(a, b) for a, b in zip(left, right, strict=True)]
    return join(left, right)


def _planned(group: Node, whole: Graph, known: Mapping[Value, Any], supports: Supports, split: Split) -> Program | str:
    """The program of a group, or why there is none before it runs."""
    graph = group_graph(group, whole)
    unknown = open_inputs(graph)
    given = [UNKNOWN if i in unknown else known.get(value, UNKNOWN) for i, value in enumerate(group.inputs)]
    if any(found is UNKNOWN and is_tensor(leaf_of(v.type)) for v, found in zip(group.inputs, given, strict=True)):
        return "planned for the shapes that it meets"
    try:
        return fuse(graph, [given_for(found) for found in given], supports, split)
    except (Unfusable, ShapeError) as error:
        return f"planned when it runs ({error})"


def _lines(parts: Parts, made: dict[Node, Program | str]) -> Iterator[str]:
    """One for each group, and one for what stands in a row between two, by its reason."""
    pending: list[tuple[str, Block | str]] = [("  ", parts.graph.body)]
    while pending:
        indent, item = pending.pop()
        if isinstance(item, str):
            yield f"{indent}{item}"
            continue
        found: list[tuple[str, Block | str]] = []
        nodes = [node for node in item.nodes if node in made or node in parts.borders]
        for is_plain, run in groupby(nodes, lambda node: node not in made and not node.blocks):
            if is_plain:
                found.append((indent, _between(list(run), parts)))
                continue
            for node in run:
                told = _group(node, made[node]) if node in made else parts.borders[node]
                found.append((indent, f"{_place(node)}{told}"))
                found += [(f"{indent}  ", block) for block in node.blocks if node not in made]
        pending += reversed(found)


def _group(node: Node, made: Program | str) -> str:
    name = node.attr("name")
    if isinstance(made, str):
        return f"{name}: {made}"
    library = [step.node.kind for step in made.steps if isinstance(step, ExternStep) and not step.is_view]
    told = counted(len(made.kernels), "kernel")
    return f"{name}: {told}" + (f", {counted(len(library), 'op')} of the library" if library else "")


def _between(nodes: Sequence[Node], parts: Parts) -> str:
    """Each kind of node with the reason why it is no part of a group."""
    told = dict.fromkeys(f"{node.kind} ({parts.borders[node]})" for node in nodes)
    return f"{_place(nodes[0])}between: {', '.join(told)}"


def _place(node: Node) -> str:
    span = node.span
    return f"line {span.line}: " if span.text and not span.source.is_library else ""
