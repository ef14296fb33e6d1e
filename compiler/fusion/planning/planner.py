"""From a straight-line graph of known shapes to a program: which values meet in a kernel, which pass through memory.

Reductions and values that have to be in memory are anchors: outputs, and what goes into an op that no kernel can hold.
Anchors are taken in program order, and each joins the latest kernel that can take it, else begins one. All other
values are drawn into the kernels that need them. So formula borders and function borders are no borders here: there are
elements only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.constants import TensorConstant
from ...ir.graph import Graph
from ...ir.node import Node, Value
from ...ir.rewrite import CONSTANT
from ...kernel_ir.layout import Layout, views_of
from ...kernel_ir.verifier import InvalidKernel
from ...ops.meta import Meta, OpenList, is_known
from ...ops.registry import OPS, Trait
from ...scheduling.partials import Unsplittable
from ...scheduling.split import TooLarge, limits_of, split_reductions
from ...types.types import TensorType
from ..in_place import in_place
from ..program import ExternStep, Passed, Program, Ref
from ..statistics import is_unrounded
from ..straight import Unfusable, told
from .assemble import Split, assembled
from .group import Group
from .growth import FEW_AGAIN
from .memory_views import layout_in_place, same_as, stored_in_order, unturned, views_before
from .parts_stored import is_joined, joined_parts, parts_to_store
from .placement import BEFORE, MemoryPlacement
from .reduction_kernels import ReductionKernels
from .roles import TAKES, NodeRoles, Supports, has_tensor
from .steps import PlannedSteps
from .tiles import Tiles

TILED = (1 << 20, 24, 8, 3)
"""Reductions of one tile, in the order in which they are tried: where programs cannot hold what many need, fewer."""
GivenLayout = Layout | Sequence[Layout] | None
OURS = "its kernels could not be planned, by a mistake of gradscript's; what it computes is right all the same"
"""Why there are none where no rule says so. The error behind it, its cause, is for who mends that."""


def plan_program(
    graph: Graph,
    known: Mapping[Value, Any],
    inputs: Sequence[GivenLayout],
    supports: Supports,
    name: str,
    split: Split = split_reductions,
    *,
    tiled: bool = True,
    is_first: bool = False,
) -> Program:
    """The program of a settled graph.

    `known` is what `settle_shapes` gives; `inputs` the layout of each input that is a tensor, of a list those of its
    tensors. `supports` says whether the target has a primitive in a dtype; `tiled`, whether small tensors may be held
    whole; `is_first`, whether another graph is planned where no program holds them: then TooLarge. Unfusable where
    control flow or an unknown shape is left.
    """
    # Numbers are rounded as kernels round them, of which NumPy is to tell nobody.
    with np.errstate(all="ignore"):
        if is_first:
            return Planner(graph, known, inputs, supports, name, split).plan()
        for reductions in TILED if tiled else ():
            try:
                return Planner(graph, known, inputs, supports, name, split, reductions).plan()
            except TooLarge:
                continue
            except Unfusable as error:
                # A kernel of tiles that cannot be split gives way to several without.
                if not isinstance(error.__cause__, InvalidKernel | Unsplittable):
                    raise
        return Planner(graph, known, inputs, supports, name, split, 0).plan()


class Planner:
    """A plan in the making. TooLarge where no program holds what the reductions of a tile, so many at most, need."""

    def __init__(
        self,
        graph: Graph,
        known: Mapping[Value, Any],
        inputs: Sequence[GivenLayout],
        supports: Supports,
        name: str,
        split: Split = split_reductions,
        most_tiled: int = TILED[0],
    ) -> None:
        self.graph = graph
        self.name = name
        limits = limits_of(split)
        self.memory = MemoryPlacement(graph, known, turns=limits.turns)
        self.known = self.memory.known
        self.constants: dict[str, Any] = {}
        self._supports = supports
        self._split = split
        self._steps = PlannedSteps(self.memory)
        self._roles = NodeRoles(graph, self.memory, limits)
        tiles = Tiles(graph, self.memory.reductions, self.known)
        self._reductions = ReductionKernels(self.memory, self._steps, tiles, limits, most_tiled, self.materialize)
        self._inputs = tuple(self._input(v, layout) for v, layout in zip(graph.inputs, inputs, strict=True))

    def plan(self) -> Program:
        try:
            self._roles.classify(self._supports)
            kept = self._roles.kept_for_later()
            for node in self.graph.nodes:
                self._visit(node)
                self.memory.visited(node)
                if node in kept:
                    self.materialize(node.output)
            for value in self.graph.outputs:
                # Before they are there in another dtype.
                if is_unrounded(value):
                    self.materialize(value)
                stored = stored_in_order(value)
                if stored is not None:
                    self.materialize(stored)
            outputs = tuple(self._argument(value) for value in self.graph.outputs)
            steps = assembled([*self._steps], self.name, self.memory.layouts, self.memory.unique, self._split)
        except (InvalidKernel, Unsplittable, IndexError, RuntimeError, TypeError, ValueError) as error:
            # What the data has wrong is told by the ops themselves, run one by one. So run, too, what no kernel is
            # made of by a mistake of ours, rather than with elements out of bounds.
            if isinstance(error, InvalidKernel | Unsplittable):
                raise Unfusable(str(error), *error.sources[:1]) from error
            raise Unfusable(OURS) from error
        layouts = self.memory.layouts
        return in_place(Program(self.name, self._inputs, layouts, steps, outputs, self.constants, self.graph.title))

    def _input(self, value: Value, given: Any) -> str | tuple[str, ...]:
        """The name of an input, or those of the tensors in a list."""
        if isinstance(given, list):
            if any(isinstance(item, list) for item in given):
                raise Unfusable("a list of lists of tensors is given", value.node.span)
            names = tuple(self.memory.new_name(value) for _ in given)
            self.memory.layouts.update(zip(names, given, strict=True))
            self.memory.lists[value] = (names, BEFORE)
            return names
        return self.memory.place(value, BEFORE, given)

    def _visit(self, node: Node) -> None:
        if node.kind == CONSTANT:
            self._constant(node)
        elif len(node.outputs) == 1 and node.output in self.memory.reductions:
            if self.memory.reductions[node.output].dims:
                self._place_reduction(node.output)
        elif node.kind in TAKES and node.inputs[0] in self.memory.lists:
            self._take(node)
        elif self._roles.is_same_number(node):
            self.memory.placed[node.output] = self.memory.placed[node.inputs[0]]
        elif node not in self.memory.rules and not self._roles.is_structure(node):
            self._extern(node)

    def _take(self, node: Node) -> None:
        """Tensors out of a list that is in memory."""
        names, order = self.memory.lists[node.inputs[0]]
        if node.kind != "prim::ListUnpack":
            names = (names[self.known[node.inputs[1]]],)
        for value, name in zip(node.outputs, names, strict=True):
            self.memory.placed[value] = (name, order)

    def _constant(self, node: Node) -> None:
        value = node.attr("value")
        if isinstance(value, TensorConstant):
            name = self.memory.place(node.output, BEFORE, Layout.contiguous(Meta.of(value.array)))
            self.constants[name] = value.array

    def _commit(self) -> None:
        """Have reductions stored that later kernels read."""
        while self.memory.wanted:
            value, name = self.memory.wanted.pop()
            if not self.memory.held_in[value].try_store(value, name):
                raise Unfusable(f"{told(value.node)} cannot be stored by the kernel that computes it", value.node.span)

    def _place_reduction(self, value: Value) -> None:
        group = None
        while group is None:
            group = self._reductions.joined(value)
            if group is None and not self._relieve():
                group = self._reductions.begun(value)
                if group is None:
                    self._relieve()
        self.memory.held_in[value] = group
        self._commit()

    def _relieve(self) -> bool:
        """Have in memory what the last trial would have computed too often; whether there is any."""
        value = self.memory.overgrown
        if value is None:
            return False
        self.memory.overgrown, self.memory.most_again = None, FEW_AGAIN
        self.materialize(value)
        self.memory.kept.add(value)
        return True

    def materialize(self, value: Value) -> str:
        """Have a tensor in memory; its name."""
        placed = self.memory.placed.get(value)
        if placed is not None:
            return placed[0]
        node = value.node
        source = same_as(self.memory, value)
        if source is not None:
            source.name_hint = value.name_hint or source.name_hint
            name = self.materialize(source)
            self.memory.placed[value] = self.memory.placed[source]
            return name
        turned = unturned(self.memory, value)
        if turned is not value and is_joined(self.memory, turned) and turned not in self.memory.placed:
            # What is put together is stored part by part, in whatever order it is read.
            self.materialize(turned)
        for before in views_before(self.memory, node):
            self.materialize(before)
        layout = layout_in_place(self.memory, node)
        if layout is not None:
            return self._append_extern(node, [(value, layout)], is_view=True)[0]
        if node.kind in TAKES and self._view_parts(node.inputs[0]):
            self._take(node)
            return self.memory.placed[value][0]
        name = self.memory.new_name(value)
        self.memory.layouts[name] = self.memory.layout_for(value)
        if is_joined(self.memory, value):
            self._store_parts(value, name)
        else:
            self._store(value, name, None, value)
        self._commit()
        return name

    def _store(
        self, value: Value, name: str, offset: tuple[Any, ...] | None, whole: Value, *, first: bool = False
    ) -> None:
        group = None
        while group is None:
            group = self._storing(value, name, offset, first=first)
            if group is None and not self._relieve():
                raise Unfusable(f"{told(value.node)} cannot be computed by a kernel", value.node.span)
        _, order = self.memory.placed.get(whole, (name, BEFORE))
        self.memory.placed[whole] = (name, max(order, group.order))

    def _storing(self, value: Value, name: str, offset: tuple[Any, ...] | None, *, first: bool) -> Group | None:
        """The kernel that stores a value; None where none can, or it would be overgrown."""
        after = self.memory.kept_until(value)
        groups = [group for group in self._steps.open_groups() if group.order >= after]
        # The first that has a statistic has it as it was computed.
        is_first = first or is_unrounded(value)
        if is_first:
            groups.reverse()
        # One that reads nothing for it; else any.
        for may_read in (True,) if is_first or len(groups) < 2 else (False, True):
            for group in groups:
                if group.try_store(value, name, offset, may_read=may_read):
                    return group
                if self.memory.overgrown is not None:
                    if may_read:
                        return None
                    break
        group = self._steps.begin(self.known[value].shape)
        if group.try_store(value, name, offset):
            return group
        self._steps.remove(group)
        return None

    def _store_parts(self, value: Value, name: str) -> None:
        """Tensors put together are each stored where they belong."""
        parts = joined_parts(self.memory, value)
        if parts is None:
            self._store(value, name, None, value)
        for tensor, offset in parts or ():
            self._store(tensor, name, offset, value)

    # --- views and ops of a library ---

    def _view_parts(self, value: Value) -> bool:
        """Have the parts of a list in memory where they are views of a tensor that is there; whether they are."""
        if value in self.memory.lists:
            return True
        node = value.node
        op = OPS.of(node.schema)
        if op is None or not op.has(Trait.VIEW) or node.inputs[0] not in self.memory.placed:
            return False
        source = self.memory.layouts.get(self.memory.placed[node.inputs[0]][0])
        found = source and views_of(op, [self.known.get(argument) for argument in node.inputs], 0, source)
        if not source or not found:
            return False
        names = tuple(self.memory.new_name(value) for _ in found)
        layouts = [Layout(view.shape, source.dtype, view.strides) for view in found]
        self.memory.layouts.update(zip(names, layouts, strict=True))
        arguments = tuple(self._argument(argument) for argument in node.inputs)
        self.memory.lists[value] = (names, len(self._steps))
        self._steps.append(ExternStep(node, arguments, names, is_view=True))
        return True

    def _place_whole(self, value: Value) -> None:
        """Have in memory what a list of views is of, stored in parts where these alone are asked for."""
        node = value.node
        op = OPS.of(node.schema)
        if op is None or not op.has(Trait.VIEW) or not isinstance(self.known.get(node.inputs[0]), Meta):
            return
        source = node.inputs[0]
        if source in self.memory.placed:
            return
        parts = parts_to_store(self.memory, node) if same_as(self.memory, source) is None else None
        if parts is None:
            self.materialize(source)
            return
        name = self.memory.new_name(source)
        self.memory.layouts[name] = Layout.contiguous(self.known[source])
        for part, offset in parts:
            # The first that may have them computes with them.
            self._store(part, name, offset, source, first=True)
        self._commit()

    def _extern(self, node: Node) -> None:
        results: list[tuple[Value, Layout | None]] = []
        if OPS.of(node.schema) is None:
            raise Unfusable(f"{told(node)} is no op", node.span)
        for value in node.outputs:
            known = self.known.get(value)
            if not isinstance(known, Meta) and isinstance(value.type, TensorType):
                raise Unfusable(f"the shape of {told(node)} is not known before it runs", node.span)
            results.append((value, Layout.contiguous(known) if isinstance(known, Meta) else None))
        self._append_extern(node, results, is_view=False)

    def _append_extern(
        self, node: Node, results: Sequence[tuple[Value, Layout | None]], *, is_view: bool
    ) -> tuple[str, ...]:
        if not is_view and OPS.has(node.schema, Trait.MATMUL):
            for value in node.inputs:
                if isinstance(self.known.get(value), Meta):
                    self.materialize(unturned(self.memory, value))
        arguments = tuple(self._argument(value) for value in node.inputs)
        order = len(self._steps)
        names: list[str] = []
        for value, layout in results:
            known = self.known.get(value)
            if isinstance(known, list) and has_tensor(known):
                if not all(isinstance(item, Meta) for item in known):
                    raise Unfusable(f"{told(node)} is a list of lists", node.span)
                parts = tuple(self.memory.new_name(value) for _ in known)
                self.memory.layouts.update({n: Layout.contiguous(m) for n, m in zip(parts, known, strict=True)})
                self.memory.lists[value] = (parts, order)
                names += parts
                continue
            names.append(self.memory.place(value, order, layout))
        self._steps.append(ExternStep(node, arguments, tuple(names), is_view))
        return tuple(names)

    def _argument(self, value: Value) -> Passed:
        """A value as a step or the program names it: tensors by name, what is known as it is."""
        known = self.known.get(value)
        if isinstance(known, Meta):
            return Ref(self.materialize(value))
        if value in self.memory.placed:
            return Ref(self.memory.placed[value][0])
        if value in self.memory.lists:
            return [Ref(name) for name in self.memory.lists[value][0]]
        if value.node.kind == "prim::ListConstruct":
            return [self._argument(item) for item in value.node.inputs]
        if value.node.kind == "prim::TupleConstruct":
            return tuple([self._argument(item) for item in value.node.inputs])
        if value.node.kind == "prim::Uninitialized":
            return None
        if has_tensor(known):
            self._place_whole(value)
            if not self._view_parts(value):
                self._extern(value.node)
            return [Ref(name) for name in self.memory.lists[value][0]]
        if type(known) is OpenList:
            raise Unfusable(f"{told(value.node)} is a list of a length that is open", value.node.span)
        if is_known(known):
            return known
        raise Unfusable(f"{told(value.node)} is not known before it runs", value.node.span)
