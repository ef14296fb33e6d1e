"""A graph on NumPy arrays by kernels in C: planned once for each combination of layouts.

What is a straight line for them is one program; of any other, each straight stretch is a graph like this, in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import cached_property
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np

from ....compiler.autodiff.flatten import flatten_signature, leaves, rebuilt
from ....compiler.codegen.c.module import supports
from ....compiler.codegen.text import Unsupported
from ....compiler.fusion.fuse import Unfusable, fuse, fuse_groups
from ....compiler.fusion.refusals import Unsettled, keep_refusing
from ....compiler.fusion.seeds import is_unasked, open_inputs, open_seeds
from ....compiler.ir.graph import Graph
from ....compiler.scheduling.cpu import split_for_cpu
from ....compiler.shapes.propagate import ShapeError
from ....compiler.specialize.optionals import specialize_optionals
from ....compiler.types.sizes import Symbols, closed
from ....lang.collection import collection_paused
from ....lang.light_dataclasses import replace
from ...execution.function_executor import FORGETTING
from ...plans.build import build_plan
from ...plans.interpreter import run_plan
from ...plans.plan import ExecutionPlan
from ..failure import KernelFailure
from ..groups import MAX_SHAPES, TOO_MANY_SHAPES, plan_with_kernels
from ..notices import tell, tell_of_ops
from ..size_classes import ClosedPlans, SizeClasses
from .compiler import WITHOUT, compiler
from .entry import entry_of
from .kernel import thread_count
from .layouts import layout_of, seen_array
from .program import IN_VAIN, CProgram

MAX_PROGRAMS = 128
"""Of one graph; beyond, the one planned first is dropped."""
_PLANNING = RLock()
P = TypeVar("P")
TUPLES = "kernels take no tuple where None may stand, nor one in a list"
"""Why what is given one runs op by op."""


class CGraph:
    """A graph with its programs. Tuples may be among its arguments and results."""

    def __init__(self, graph: Graph) -> None:
        graph = graph.without_closure()
        self._input_types = [value.type for value in graph.inputs]
        self._output_types = [value.type for value in graph.outputs]
        self._graph = keep_refusing(flatten_signature(graph))
        self._open = open_inputs(self._graph)
        self._programs: dict[Hashable, CProgram | CPlan | None] = {}
        self._closed: ClosedPlans[CProgram | CPlan] = ClosedPlans()
        self._classes: SizeClasses[CProgram | CPlan] = SizeClasses(seen_array)
        self._refusals: dict[Hashable, Exception] = {}
        _GRAPHS.add(self)

    def forget(self) -> None:
        """Drop what was planned."""
        self._programs.clear()
        self._closed.clear()
        self._classes.clear()
        self._refusals.clear()

    def run(self, values: Sequence[Any]) -> list[Any] | None:
        """The results; None where no kernels do it: ops run one by one."""
        flat = addressable(leaves(values, self._input_types))
        if has_tuples(flat):
            tell_of_ops(self._graph, TUPLES)
            return None
        program = self._program(flat)
        if program is None:
            self._tell(flat)
            return None
        try:
            results = program.run(flat, thread_count())
        except IN_VAIN as error:
            return self._in_vain(error)
        return rebuilt(iter(results), self._output_types)

    def _in_vain(self, error: Exception) -> list[Any] | None:
        """What a run gives that kernels ended."""
        return None

    def entry(self, values: Sequence[Any], given: int, *, at_once: bool = False) -> Any:
        """What runs it on values like these without Python in between; None where nothing does, or, unless `at_once`,
        not yet.

        Of the values as many as are `given` may be others.
        """
        if self._open or any(isinstance(value, list | tuple) for value in values):
            return None
        program = self._kept(values, settled=False)
        if not isinstance(program, CProgram) or not (at_once or program.meets_again()):
            return None
        return entry_of(program, values, given, self._output_types)

    def _program(self, values: Sequence[Any]) -> CProgram | CPlan | None:
        """What runs such values; where only known floats make a straight line, a program for these."""
        values = open_seeds(values, self._open)
        found = self._kept(values, settled=False)
        if isinstance(found, CProgram) or not any(isinstance(value, float) for value in values):
            return found
        settled = self._kept(values, settled=True)
        return settled if found is None or isinstance(settled, CProgram) else found

    def _tell(self, values: Sequence[Any]) -> None:
        """Why such values are none for kernels, where that is not for ops to say."""
        values = open_seeds(values, self._open)
        refusals = [self._refusals.get((settled, described(values, settled))) for settled in (True, False)]
        reason = next(filter(None, refusals), None)
        if reason is not None:
            tell_of_ops(self._graph, reason)

    def _kept(self, values: Sequence[Any], *, settled: bool) -> CProgram | CPlan | None:
        key = (settled, described(values, settled))
        found = self._closed.get(key)
        if found is not None:
            return found
        if key not in self._programs:
            self._plan(values, key, settled)
        return self._closed.get(key) or self._programs.get(key)

    def _plan(self, values: Sequence[Any], key: Hashable, settled: bool) -> None:
        if self._closed.close(key, self._classes.find(values, settled)):
            return
        with _PLANNING, collection_paused():
            if key in self._programs:
                return
            if self._closed.close(key, self._classes.plan(values, settled, self._open_program)):
                return
            if self._has_room():
                absent = tuple([i for i, value in enumerate(values) if value is None])
                given = [layout_of(value, settled) for value in values]
                graph = specialize_optionals(self._graph, absent)
                self._programs[key] = loaded(
                    lambda: self._made(graph, given), lambda refusal: self._refusals.setdefault(key, refusal)
                )

    def _open_program(self, given: Sequence[Any], symbols: Symbols) -> CProgram | CPlan:
        """What is planned for open sizes. Raises: REFUSALS."""
        absent = tuple([i for i, value in enumerate(given) if value is None])
        return self._made(specialize_optionals(self._graph, absent), given, symbols)

    def _has_room(self) -> bool:
        """Whether one more program may be kept."""
        if len(self._programs) >= MAX_PROGRAMS:
            first = next(iter(self._programs))
            del self._programs[first]
            self._refusals.pop(first, None)
        return True

    def _made(self, graph: Graph, given: Sequence[Any], symbols: Symbols | None = None) -> CProgram | CPlan:
        try:
            return CProgram(fuse(graph, given, supports, split_for_cpu), symbols)
        except Unsettled:
            raise
        except Unfusable:
            parts = fuse_groups(graph, given)
            if parts is None:
                raise
            return CPlan(parts.graph)


class CPlan:
    """A graph with fusion groups: the ordinary loop, in which groups run by kernels."""

    def __init__(self, graph: Graph) -> None:
        self.plan = plan_with_kernels(graph, CGroup)

    def closed(self, atoms: Sequence[int]) -> CPlan:
        """The plan for given sizes, by a value for each atom; its groups are the same."""
        found = copy(self)
        found.plan = replace(self.plan, template=closed(self.plan.template, atoms))
        return found

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """The outputs, for one value per input. RuntimeFailure for what is wrong with the data."""
        return run_plan(self.plan, values)


class CGroup(CGraph):
    """A fusion group: what it cannot do by kernels, ops do one by one, and say what is wrong."""

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The results, for one value per input."""
        results = self.run(values)
        return run_plan(self._by_ops, values) if results is None else results

    @cached_property
    def _by_ops(self) -> ExecutionPlan:
        return build_plan(self._graph)

    def _has_room(self) -> bool:
        if len(self._programs) < MAX_SHAPES:
            return True
        tell_of_ops(self._graph, TOO_MANY_SHAPES)
        return False

    def _made(self, graph: Graph, given: Sequence[Any], symbols: Symbols | None = None) -> CProgram:
        return CProgram(fuse(graph, given, supports, split_for_cpu), symbols)


_GRAPHS: WeakSet[CGraph] = WeakSet()


def _forget_programs() -> None:
    for graph in list(_GRAPHS):
        graph.forget()


FORGETTING.add(_forget_programs)


def has_compiler() -> bool:
    """Whether kernels can be built; where not, one notice says what is missing."""
    if compiler() is None:
        tell(f"there is no compiler of C, so functions run op by op: {WITHOUT}")
        return False
    return True


def loaded(plan: Callable[[], P], refused: Callable[[Exception], Any]) -> P | None:
    """What is planned, its kernels built; None where there are none to be had, of which one notice says why.

    `refused` is told why there are none for such values in particular.
    """
    if not has_compiler():
        return None
    try:
        return plan()
    except (ShapeError, Unsettled):
        # What the data has wrong is told by the ops themselves, run one by one.
        return None
    except (Unfusable, Unsupported) as error:
        refused(error)
        return None
    except KernelFailure as error:
        tell(f"kernels in C cannot be built, so functions run op by op: {error}", of="kernels in C")
        return None


def addressable(values: Sequence[Any]) -> list[Any]:
    """The values; copies of arrays whose elements do not lie where elements of their dtype may."""
    return [_addressable(value) for value in values]


def _addressable(value: Any) -> Any:
    if isinstance(value, list):
        return addressable(value)
    if not isinstance(value, np.ndarray):
        return value
    flags, size = value.flags, value.itemsize
    if flags.aligned and (flags.forc or not any(stride % size for stride in value.strides)):
        return value
    return value.copy()


def has_tuples(values: Sequence[Any]) -> bool:
    """Whether there are tuples, which have not been taken apart: they might have been None, or are in lists."""
    return any(isinstance(value, tuple) or (isinstance(value, list) and has_tuples(value)) for value in values)


def described(values: Sequence[Any], settled: bool) -> Hashable:
    """What a program depends on."""
    key: list[Hashable] = []
    for value in values:
        if isinstance(value, np.ndarray):
            key += (value.dtype, value.shape, value.strides)
        elif isinstance(value, list):
            key += (list, described(value, settled))
        elif isinstance(value, float):
            # Zeros differ in their signs, which equality does not see.
            key += (float, None if is_unasked(value, settled) else value.hex())
        else:
            key.append((type(value), value))
    return tuple(key)
