"""Lists of launches, from a run of a plan: what it computes is computed, and what it put on the device is noted.

What goes from one call to the next by elements has no list: a number read out of a tensor, a shape that depends on
elements, what prints or raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ....compiler.fusion.unasked import is_unasked
from ....compiler.ir.graph import Graph
from ....compiler.ir.node import Node
from ....compiler.ops.meta import is_known
from ....compiler.ops.registry import OPS, Op, Trait
from ....compiler.shapes.infer import infer, moves_values
from ....compiler.types.types import is_tensor, leaf_of
from ....lang.light_dataclasses import replace
from ...plans.interpreter import run_plan
from ...plans.node_evaluation import is_left_out
from ...plans.operations import STRUCTURAL, WRITES, CopiedView
from ...plans.plan import BINARY, GENERAL, SPREAD, UNARY, Callees, ExecutionPlan
from ...settings.seeds_in_memory import SeedInMemory
from ..groups import GroupCall
from .row import LaunchRow, Tensors, Unlisted
from .slots import flat_values

_OPERATIONS = (BINARY, UNARY, GENERAL, SPREAD)
_SUMS = ("prim::AutogradAdd",)
_SETTLED = ("prim::MaterializeGrad", "prim::Loop")
"""Nodes that are none of an op, of which shapes tell what they give: a copy of what a loop begins with is one."""
_LISTS = {kind for kind in STRUCTURAL if kind not in (*_SUMS, *_SETTLED)}
_APPENDED = WRITES["aten::append.t"]
_ADDS_ITEM = "prim::grad_add_item"
"""What takes a list of gradients apart, and adds to one."""
GradientSum = Callable[[Any, Any, Callable[[Any, Any], Any]], Any]


L = TypeVar("L")


class Recording(Generic[L]):
    """One run of a plan on `tensors`. `added` is the sum of two gradients, by what adds two tensors; `make` makes the
    list of a row, and of what it gives."""

    def __init__(
        self,
        plan: ExecutionPlan,
        tensors: Tensors,
        added: GradientSum,
        make: Callable[[LaunchRow, Sequence[Any]], L],
    ) -> None:
        self.plan = plan
        self._tensors = tensors
        self._added = added
        self._make = make
        self._row: LaunchRow | None = None
        self._plans: dict[int, ExecutionPlan] = {}

    def run(self, values: Sequence[Any], own: Sequence[int]) -> tuple[list[Any], L | None]:
        """The results, and the list of what was done for them, where there is one. `own` are the places of arguments
        that are seeds."""
        known = [self._own_name(value) for value in values]
        try:
            self._row = LaunchRow(self._tensors, flat_values(known), _flat_places(values, own))
        except Unlisted:
            return run_plan(self.plan, values), None
        results = run_plan(self._wrapped(self.plan), known)
        found: L | None = None
        if self._row is not None:
            try:
                found = self._make(self._row, [self._row.argument(result) for result in results])
            except Unlisted:
                found = None
        back = {id(name): value for name, value in zip(flat_values(known), flat_values(values), strict=True)}
        return [self._put_back(result, back) for result in results], found

    # --- plans ---

    def _wrapped(self, plan: ExecutionPlan) -> ExecutionPlan:
        found = self._plans.get(id(plan))
        if found is None:
            for value in plan.template:
                self._note_constant(value)
            steps = zip(plan.code, plan.nodes, strict=True)
            code = tuple([(step[0], self._operation(step[0], step[1], node), *step[2:]) for step, node in steps])
            found = self._plans[id(plan)] = replace(plan, code=code, callees=_WrappedCallees(self, plan.callees))
        return found

    def _note_constant(self, value: Any) -> None:
        if isinstance(value, self._tensors.type) and self._row is not None:
            self._row.place_of_constant(value)

    def _operation(self, kind: int, function: Any, node: Node) -> Any:
        if kind not in _OPERATIONS or node.kind in _LISTS or function is _APPENDED:
            return function
        if isinstance(function, GroupCall):
            return lambda *values: self._group(function, values)
        if node.kind in _SUMS:
            return lambda left, right: self._added(left, right, self._plus)
        if node.kind == _ADDS_ITEM:
            return lambda *values: function(*values, plus=self._plus)
        return lambda *values: self._evaluate(node, function, values)

    def _noted(self, note: Callable[[LaunchRow], None]) -> None:
        """Have something noted, where all has been so far."""
        if self._row is not None:
            try:
                note(self._row)
            except Unlisted:
                self._row = None

    # --- what runs ---

    def _group(self, call: GroupCall, values: Sequence[Any]) -> Any:
        choose = getattr(call.run, "chosen", None)
        if choose is None:
            self._row = None
            return call(*values)
        program, is_settled = choose(values)
        if isinstance(getattr(program, "plan", None), ExecutionPlan):
            return call.spread(run_plan(self._wrapped(program.plan), values))
        results = program.run(values)

        def note(row: LaunchRow) -> None:
            if not hasattr(program, "note") or (is_settled and any(map(row.is_own, flat_values(values)))):
                raise Unlisted
            program.note(row, values, results)

        self._noted(note)
        return call.spread(results)

    def _plus(self, left: Any, right: Any) -> Any:
        plus = self._tensors.plus
        result = plus(left, right)
        self._noted(lambda row: row.evaluated(plus, [left, right], result, OPS.named("aten::add.Tensor")))
        return result

    def _evaluate(self, node: Node, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        result = function(*values)
        if type(result) is float:
            # `min(a, b)` is one of the two, here; a later call may find the other.
            result = self._own_name(result)
        self._noted(lambda row: self._note(row, node, function, values, result))
        return result

    def _note(
        self, row: LaunchRow, node: Node, function: Callable[..., Any], values: Sequence[Any], result: Any
    ) -> None:
        """Note an evaluation where it has to be done again. Raises: Unlisted."""
        op = OPS.of(node.schema)
        if op is not None and op.has(Trait.SIDE_EFFECT | Trait.COMPARES):
            # Which of a list are equal, or less than others, is for elements to say, of tensors within tuples too.
            raise Unlisted
        if node.kind.startswith("aten::") and op is not None and moves_values(op) and _gives_tensors(node):
            # They were there: lists of thousands are not taken apart to say so. What is of gradients makes zeros.
            return
        given, made = flat_values([*values]), flat_values([*result] if isinstance(result, list | tuple) else [result])
        tensors = [value for value in given if isinstance(value, self._tensors.type)]
        if any(isinstance(value, np.generic | complex) for value in made):
            raise Unlisted
        numbers = [value for value in made if isinstance(value, int | float | str | SeedInMemory)]
        if op is not None and op.has(Trait.RANDOM) and numbers:
            if not isinstance(result, int):
                raise Unlisted
            row.draw(result, row.evaluate(function, [row.argument(value) for value in values]))
            return
        takes_own = any(map(row.is_own, given))
        if numbers and tensors and not _is_told_by_shapes(op):
            raise Unlisted
        if numbers and takes_own:
            if type(result) is not float:
                raise Unlisted
            row.evaluated(_within_range(function), values, result)
            return
        known = {id(tensor) for tensor in tensors}
        is_new = any(isinstance(value, self._tensors.type) and id(value) not in known for value in made)
        writes = node.kind in WRITES
        if not is_new and not writes:
            return
        if not writes and not self._is_settled(node, op, values):
            raise Unlisted
        # What a function has built in, such as an `alpha`, is no part of these values: they alone are not the op's.
        is_op = op is not None and not isinstance(function, CopiedView) and _are_all(node, op, len(values))
        row.evaluated(function, values, result, op if is_op else None)

    def _is_settled(self, node: Node, op: Op | None, values: Sequence[Any]) -> bool:
        """Whether the shapes of what a node makes follow from those of what it is given."""
        if op is None:
            return node.kind in _SETTLED
        if moves_values(op) or op.scalar is not None:
            return True
        try:
            found = infer(op, [self._abstract(value) for value in values], [value.type for value in node.inputs])
        except (RuntimeError, IndexError, TypeError, ValueError):
            return False
        return all(map(is_known, found))

    def _abstract(self, value: Any) -> Any:
        if isinstance(value, self._tensors.type):
            return self._tensors.meta(value)
        return [self._abstract(item) for item in value] if isinstance(value, list | tuple) else value

    def _own_name(self, value: Any) -> Any:
        """A value that is none of the other arguments, though it is the same: calls to come may be given others."""
        if isinstance(value, self._tensors.type):
            return self._tensors.renamed(value)
        if isinstance(value, list):
            return [self._own_name(item) for item in value]
        return value * 1.0 if type(value) is float else value

    def _put_back(self, result: Any, back: dict[int, Any]) -> Any:
        if isinstance(result, list | tuple):
            return type(result)([self._put_back(item, back) for item in result])
        return back.get(id(result), result) if isinstance(result, self._tensors.type) else result


class _WrappedCallees:
    """The plans of functions that a plan calls, each wrapped."""

    def __init__(self, recording: Recording[Any], callees: Callees) -> None:
        self._recording = recording
        self._callees = callees

    def plan(self, graph: Graph) -> ExecutionPlan:
        """The plan of a graph."""
        return self._recording._wrapped(self._callees.plan(graph))


def _are_all(node: Node, op: Op, count: int) -> bool:
    """Whether the first operands, so many, say what a node does: the others are what they are where left out."""
    rest = zip(op.schema.arguments[count:], node.inputs[count:], strict=False)
    return all(is_left_out(value, argument.default) for argument, value in rest)


def _gives_tensors(node: Node) -> bool:
    return all(is_tensor(leaf_of(value.type)) for value in node.outputs)


def _is_told_by_shapes(op: Op | None) -> bool:
    """Whether numbers that an op makes of tensors follow from their shapes, and from which are there."""
    if op is None:
        return False
    return op.has(Trait.SHAPE_ONLY) or moves_values(op)


def _within_range(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of which kernels take any result but those for which they would be planned."""

    def run(*values: Any) -> Any:
        result = function(*values)
        if not is_unasked(result, settled=False):
            raise Unlisted
        return result

    return run


def _flat_places(values: Sequence[Any], places: Sequence[int]) -> list[int]:
    """Where values stand when lists are taken apart."""
    found: list[int] = []
    at = 0
    for i, value in enumerate(values):
        count = len(flat_values([value]))
        if i in places:
            found += range(at, at + count)
        at += count
    return found
