"""From a straight-line graph of known shapes to a program: which values meet in a kernel, which pass through memory.

Reductions and values that have to be in memory are anchors: outputs, and what goes into an op that no kernel can hold.
Anchors are taken in program order, and each joins the latest kernel that can take it, else begins one. All other
values are drawn into the kernels that need them. So formula borders and function borders are no borders here: there are
elements only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...lang.source import NO_SPAN, Span
from ..analysis.chains import far_reaching
from ..ir.constants import TensorConstant
from ..ir.graph import Graph
from ..ir.kinds import KindTrait, has
from ..ir.node import Node, Value
from ..ir.rewrite import CONSTANT
from ..ir.structure import spelled
from ..kernel_ir.index import constant
from ..kernel_ir.layout import Layout, StridedView, contiguous_strides, views_of
from ..kernel_ir.verifier import InvalidKernel
from ..ops.meta import Meta, is_known
from ..ops.registry import OPS, Trait
from ..scheduling.partials import Unsplittable
from ..scheduling.split import split_reductions
from ..types.dtypes import DType
from ..types.types import NUMBERS, TensorType
from .assemble import Split, assembled
from .elements import checked, element_rule
from .group import Group
from .placement import BEFORE, MemoryPlacement
from .program import Argument, ExternStep, Program, Ref
from .reductions import Reduction, is_of_rows, reduction_of
from .uniform import UniformDims

MAX_BUFFERS = 24
"""Of one kernel: more would not leave registers to compute with."""
Supports = Callable[[str, DType], bool]
Given = Layout | Sequence[Layout] | None


class Unfusable(Exception):
    """A graph that is no straight line, or of unknown shapes; the message says why, and `span` where that lies."""

    def __init__(self, message: str, span: Span = NO_SPAN) -> None:
        super().__init__(message)
        self.span = span


def told(node: Node) -> str:
    """What a message calls what a node gives."""
    name = spelled(node)
    return f"the result of {name}" if name else "what is computed there"


def plan_program(
    graph: Graph,
    known: Mapping[Value, Any],
    inputs: Sequence[Given],
    supports: Supports,
    name: str,
    split: Split = split_reductions,
) -> Program:
    """The program of a settled graph.

    `known` is what `settle_shapes` gives; `inputs` the layout of each input that is a tensor, of a list those of its
    tensors. `supports` says whether the target has a primitive in a dtype. Unfusable where control flow or an unknown
    shape is left.
    """
    return Planner(graph, known, inputs, supports, name, split).plan()


def require_straight(graph: Graph, known: Mapping[Value, Any]) -> None:
    """Unfusable for a graph with branches or loops that are not settled, and where something is done: printed, raised.

    Kernels are made of what results are made of, so what has none would not be done.
    """
    for node in graph.nodes:
        op = OPS.of(node.schema)
        if op is not None and op.has(Trait.SIDE_EFFECT):
            raise Unfusable(f"{node.kind} does something", node.span)
        if node.kind in ("prim::If", "prim::Loop"):
            raise Unfusable(_why_left(node, known), node.span)


def _why_left(node: Node, known: Mapping[Value, Any]) -> str:
    """Why control flow has not been settled: a loop that has its number of rounds is not worth writing out."""
    trips = known.get(node.inputs[0]) if node.kind == "prim::Loop" else None
    if type(trips) is int and known.get(node.blocks[0].outputs[0]) is True:
        return "a loop is not written out"
    return f"{'a loop' if node.kind == 'prim::Loop' else 'a branch'} depends on what is in tensors"


class Planner:
    def __init__(
        self,
        graph: Graph,
        known: Mapping[Value, Any],
        inputs: Sequence[Given],
        supports: Supports,
        name: str,
        split: Split = split_reductions,
    ) -> None:
        self.graph = graph
        self.name = name
        self.memory = MemoryPlacement(graph, known)
        self.known = self.memory.known
        self.constants: dict[str, Any] = {}
        self._supports = supports
        self._split = split
        self._steps: list[Group | ExternStep] = []
        self._inputs = tuple(self._input(v, layout) for v, layout in zip(graph.inputs, inputs, strict=True))

    def plan(self) -> Program:
        try:
            self._classify()
            kept = self._kept_for_later()
            for node in self.graph.nodes:
                self._visit(node)
                if node in kept:
                    self.materialize(node.output)
            outputs = tuple(self._argument(value) for value in self.graph.outputs)
            steps = assembled(self._steps, self.name, self.memory.layouts, self.memory.unique, self._split)
        except (InvalidKernel, Unsplittable, IndexError, RuntimeError, TypeError, ValueError) as error:
            # What the data has wrong is told by the ops themselves, run one by one. So run, too, what no kernel is
            # made of by a mistake of ours, rather than with elements out of bounds.
            sources = error.sources if isinstance(error, InvalidKernel | Unsplittable) else ()
            raise Unfusable(f"{type(error).__name__}: {error}", *sources[:1]) from error
        return Program(self.name, self._inputs, self.memory.layouts, steps, outputs, self.constants, self.graph.title)

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

    # --- classes of nodes ---

    def _classify(self) -> None:
        uniform = UniformDims(self.memory)
        for node in self.graph.nodes:
            if node.blocks:
                raise Unfusable(_why_left(node, self.known), node.span)
            reduction = reduction_of(node, self.known)
            if reduction is not None:
                self.memory.reductions[node.output] = uniform.reduced(node.output, reduction)
                continue
            rule = element_rule(node, self.known, self._supports)
            if rule is not None and checked(rule, node, self.known):
                self.memory.rules[node] = rule
                uniform.learn(node, rule)

    def _kept_for_later(self) -> set[Node]:
        """What goes into memory so that kernels beyond an op of the library need not compute it from many tensors."""
        nodes = list(self.graph.nodes)
        place = {node: i for i, node in enumerate(nodes)}
        far_off = len(nodes)
        behind: dict[Node, int] = {}
        for node in reversed(nodes):
            behind[node] = far_off
            if self._is_extern(node):
                far_off = place[node]

        def is_worth(node: Node) -> bool:
            users = [place.get(use.user, 0) for value in node.outputs for use in value.uses]
            return len(node.outputs) == 1 and max(users, default=0) > behind[node]

        return far_reaching(nodes, self.known, self._is_drawn, is_worth)

    def _is_drawn(self, node: Node) -> bool:
        """Whether kernels compute an element of what a node gives wherever they need it; a sum of nothing is one."""
        if node in self.memory.rules:
            return True
        reduction = self.memory.reductions.get(node.output) if len(node.outputs) == 1 else None
        return reduction is not None and not reduction.dims

    def _is_extern(self, node: Node) -> bool:
        """Whether an op of the library runs for a node."""
        if node.kind == CONSTANT or node in self.memory.rules or self._is_structure(node) or node.kind in _TAKES:
            return False
        if self._is_same_number(node):
            return False
        return len(node.outputs) != 1 or node.output not in self.memory.reductions

    def _visit(self, node: Node) -> None:
        if node.kind == CONSTANT:
            self._constant(node)
        elif len(node.outputs) == 1 and node.output in self.memory.reductions:
            if self.memory.reductions[node.output].dims:
                self._place_reduction(node.output)
        elif node.kind in _TAKES and node.inputs[0] in self.memory.lists:
            self._take(node)
        elif self._is_same_number(node):
            self.memory.placed[node.output] = self.memory.placed[node.inputs[0]]
        elif node not in self.memory.rules and not self._is_structure(node):
            self._extern(node)

    def _is_same_number(self, node: Node) -> bool:
        """Whether it gives a number that each call has, as an optional one that is there."""
        return has(node, KindTrait.SAME_VALUE) and node.output.type in NUMBERS and node.inputs[0] in self.memory.placed

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

    def _is_structure(self, node: Node) -> bool:
        """What holds values together, or is known, and needs nobody to compute it."""
        if node.kind in ("prim::ListConstruct", "prim::TupleConstruct", "prim::Uninitialized", "prim::AutogradZero"):
            return True
        return not node.outputs or all(self._is_plain(value) for value in node.outputs)

    def _is_plain(self, value: Value) -> bool:
        known = self.known.get(value)
        return is_known(known) and not isinstance(known, Meta) and not _has_tensor(known)

    def _commit(self) -> None:
        """Have reductions stored that later kernels read."""
        while self.memory.wanted:
            value, name = self.memory.wanted.pop()
            if not self.memory.held_in[value].try_store(value, name):
                raise Unfusable(f"{told(value.node)} cannot be stored by the kernel that computes it", value.node.span)

    # --- anchors ---

    def _candidates(self) -> list[Group]:
        groups = [step for step in reversed(self._steps) if isinstance(step, Group)]
        return [group for group in groups if len(group.buffers) < MAX_BUFFERS]

    def _new_group(self, shape: tuple[int, ...]) -> Group:
        group = Group(self.memory, len(self._steps), shape)
        self._steps.append(group)
        return group

    def _place_reduction(self, value: Value) -> None:
        reduction = self.memory.reductions[value]
        shape = self.known[reduction.operand].shape
        is_row = is_of_rows(shape, reduction.dims)
        for group in self._candidates():
            if self._joins(group, value, reduction, is_row):
                break
        else:
            group = self._new_group(shape)
            if is_row or reduction.combine in ("argmax", "argmin"):
                group.reduced = frozenset(group.axes[d] for d in reduction.dims)
            if not group.try_reduction(value, reduction):
                self._begin_from_memory(group, value, reduction)
        self.memory.held_in[value] = group
        self._commit()

    def _joins(self, group: Group, value: Value, reduction: Reduction, is_row: bool) -> bool:
        if is_row and not group.reduced and group.shape == self.known[reduction.operand].shape:
            group.reduced = frozenset(group.axes[d] for d in reduction.dims)
            free = not any(held.across & group.reduced for held in group.held.values())
            if free and group.try_reduction(value, reduction):
                return True
            group.reduced = frozenset()
        if is_row and not group.reduced:
            return False
        return group.try_reduction(value, reduction)

    def _begin_from_memory(self, group: Group, value: Value, reduction: Reduction) -> None:
        """The operand needs what a kernel of its own cannot hold, so it is computed into memory first."""
        self._steps.remove(group)
        self.materialize(reduction.operand)
        group.order = len(self._steps)
        self._steps.append(group)
        if not group.try_reduction(value, reduction):
            raise Unfusable(f"{told(value.node)} cannot be reduced from memory", value.node.span)

    def materialize(self, value: Value) -> str:
        """Have a tensor in memory; its name."""
        placed = self.memory.placed.get(value)
        if placed is not None:
            return placed[0]
        node = value.node
        source = self._same_as(value)
        if source is not None:
            source.name_hint = value.name_hint or source.name_hint
            name = self.materialize(source)
            self.memory.placed[value] = self.memory.placed[source]
            return name
        self._place_views_before(node)
        if self._is_cheap_view(node):
            return self._view_step(node, value)
        if node.kind in _TAKES and self._view_parts(node.inputs[0]):
            self._take(node)
            return self.memory.placed[value][0]
        name = self.memory.new_name(value)
        self.memory.layouts[name] = Layout.contiguous(self.known[value])
        if node.kind in _JOINS and node in self.memory.rules and node.inputs[0].node.kind == "prim::ListConstruct":
            self._store_parts(value, name)
        else:
            self._store(value, name, None, value)
        self._commit()
        return name

    def _same_as(self, value: Value) -> Value | None:
        """A value that is this one: of a sum of nothing, a conversion to what it is, a gradient that is alone."""
        node = value.node
        defined = [v for v in node.inputs if isinstance(self.known.get(v), Meta)]
        if not defined or self.known[defined[0]] != self.known[value]:
            return None
        reduction = self.memory.reductions.get(value)
        if reduction is not None:
            is_whole = not reduction.dims and reduction.divisor in (None, 1)
            is_same = reduction.copies or not reduction.accumulate.is_floating
            return defined[0] if is_whole and is_same and reduction.combine == "sum" else None
        alone = node.kind == "prim::AutogradAdd" and len(defined) == 1
        keeps = node.kind in _KEEPS or node.kind.startswith(_CONVERTS)
        return defined[0] if alone or keeps or self._views_whole(node) else None

    def _views_whole(self, node: Node) -> bool:
        """Whether a view leaves each element where it is, as a reshape to the same shape does."""
        op = OPS.of(node.schema)
        if op is None or not op.has(Trait.VIEW) or len(node.outputs) != 1:
            return False
        shape = self.known[node.output].shape
        return self.memory.views(node) == [StridedView(shape, contiguous_strides(shape), 0)]

    def _store(self, value: Value, name: str, offset: tuple[Any, ...] | None, whole: Value) -> None:
        for group in self._candidates():
            if group.try_store(value, name, offset):
                break
        else:
            group = self._new_group(self.known[value].shape)
            if not group.try_store(value, name, offset):
                raise Unfusable(f"{told(value.node)} cannot be computed by a kernel", value.node.span)
        _, order = self.memory.placed.get(whole, (name, BEFORE))
        self.memory.placed[whole] = (name, max(order, group.order))

    def _store_parts(self, value: Value, name: str) -> None:
        """Tensors put together are each stored where they belong."""
        tensors, dim = value.node.inputs[0].node.inputs, self.known[value.node.inputs[1]]
        meta = self.known[value]
        dim %= max(meta.rank, 1)
        start = 0
        for tensor in tensors:
            found = self.known[tensor]
            if found.shape == (0,) and meta.rank != 1:
                continue
            if found.dtype != meta.dtype or value.node.kind == "aten::stack":
                return self._store(value, name, None, value)
        for tensor in tensors:
            found = self.known[tensor]
            if found.shape == (0,) and meta.rank != 1:
                continue
            offset = tuple(constant(start if d == dim else 0) for d in range(meta.rank))
            self._store(tensor, name, offset, value)
            start += found.shape[dim]
        return None

    # --- views and ops of a library ---

    def _place_views_before(self, node: Node) -> None:
        """Have what a view is of in memory where that is a view of a tensor there, or the same: it costs nothing."""
        if not self._is_drawn_view(node):
            return
        chain, source = list[Value](), node.inputs[0]
        while source not in self.memory.placed:
            same = self._same_as(source)
            if same is None and not self._is_drawn_view(source.node):
                return
            chain.append(source)
            source = same or source.node.inputs[0]
        layout: Layout | None = self.memory.layouts.get(self.memory.placed[source][0])
        for value in reversed(chain):
            if layout is not None and self._same_as(value) is None:
                layout = self._layout_of_view(value.node, layout)
        if layout is not None:
            for value in reversed(chain):
                self.materialize(value)

    def _is_drawn_view(self, node: Node) -> bool:
        op = OPS.of(node.schema)
        is_view = op is not None and op.has(Trait.VIEW) and len(node.outputs) == 1
        return is_view and isinstance(node.output.type, TensorType) and node in self.memory.rules

    def _is_cheap_view(self, node: Node) -> bool:
        is_of_memory = self._is_drawn_view(node) and node.inputs[0] in self.memory.placed
        return is_of_memory and self._view_layout(node) is not None

    def _view_layout(self, node: Node) -> Layout | None:
        source = self.memory.layouts.get(self.memory.placed[node.inputs[0]][0])
        return self._layout_of_view(node, source) if source is not None else None

    def _layout_of_view(self, node: Node, source: Layout) -> Layout | None:
        """How a view lies in the memory of what it is of; None for one that would have to be a copy."""
        op = OPS.of(node.schema)
        found = op and views_of(op, [self.known.get(value) for value in node.inputs], 0, source)
        return Layout(found[0].shape, source.dtype, found[0].strides) if found and len(found) == 1 else None

    def _view_step(self, node: Node, value: Value) -> str:
        layout = self._view_layout(node)
        assert layout is not None
        return self._append_extern(node, [(value, layout)], is_view=True)[0]

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
        arguments = tuple(self._argument(value) for value in node.inputs)
        order = len(self._steps)
        names: list[str] = []
        for value, layout in results:
            known = self.known.get(value)
            if isinstance(known, list) and _has_tensor(known):
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

    def _argument(self, value: Value) -> Argument:
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
        if _has_tensor(known):
            if not self._view_parts(value):
                self._extern(value.node)
            return [Ref(name) for name in self.memory.lists[value][0]]
        if is_known(known):
            return known
        raise Unfusable(f"{told(value.node)} is not known before it runs", value.node.span)


_TAKES = ("prim::ListUnpack", "aten::__getitem__.t")
_KEEPS = (
    *("aten::detach", "aten::_unrecorded_view", "aten::contiguous"),
    *("prim::unchecked_cast", "prim::unchecked_unwrap_optional"),
)
_CONVERTS = ("aten::to.", "aten::type_as")
"""Where the dtype and the shape stay, the same tensor."""
_JOINS = ("aten::cat", "aten::concat", "aten::concatenate")


def _has_tensor(known: Any) -> bool:
    return isinstance(known, Meta) or (isinstance(known, list | tuple) and any(map(_has_tensor, known)))
