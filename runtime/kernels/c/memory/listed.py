"""Lists of plans on arrays: what a run did, as a program of kernels and ops, with no loop and no list left in it.

    a plan's loop       for 6 rounds: three elements of lists, a group looked up by its layouts, two elements kept
    the list            matmul, kernels, matmul, kernels, … over one row of slots

A list is run once more as it is, which shows where everything lies; from then on `text/memory.c` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from .....compiler.ops.families.language.control import added_gradients, sum_of_two
from .....compiler.ops.libraries import ArrayLibrary, current_library
from .....compiler.ops.meta import Meta
from .....compiler.types.dtypes import BY_NAME
from ....plans.interpreter import run_plan
from ....plans.operations import WRITES
from ....plans.plan import ExecutionPlan
from ....values.float_errors import ignoring_float_errors
from ...lists.kept import KeptList
from ...lists.recording import Recording
from ...lists.row import EvaluatedStep, LaunchRow, Tensors, Unlisted
from ...lists.slots import SlotOf, flat_values
from ..launched import IN_VAIN, thread_count
from ..program import Act, CProgram, Extern, Slot, Stretch
from .evaluated import ListedEvaluation
from .native import memory_types, native_memory
from .observed import LayoutObserver

ARRAYS = Tensors(
    np.ndarray,
    np.ndarray.view,
    lambda array: Meta(array.shape, BY_NAME[array.dtype.name]),
    sum_of_two,
)
"""NumPy's."""
_UNSEEN: Any = object()


class ArrayList:
    """A program for as many values as there are when lists are taken apart, of which those at places in `own` are
    seeds; `outputs` may be nested. May run in several threads."""

    def __init__(self, program: CProgram, own: Sequence[int] = ()) -> None:
        self.program = program
        self._own = frozenset(own)
        self._observers: dict[ArrayLibrary | None, LayoutObserver | None] = {}
        self._native: dict[tuple[ArrayLibrary | None, bool], Any] = {}

    @ignoring_float_errors
    def run(self, values: Sequence[Any], stream: Any) -> list[Any]:
        """The outputs, for one value per argument."""
        flat, library = flat_values(values), current_library()
        native = self._native.get((library, False))
        if native is not None:
            found = native(flat)
            if found is not NotImplemented:
                return self.nested(found)
        if library not in self._observers and memory_types() is not None:
            observer = LayoutObserver(self.program, flat, self._own)
            results = observer.run()
            self._observers[library] = observer if observer.has_seen_all else None
            self._native[library, False] = self._made(library, for_tensors=False)
            return results
        return self.program.run(flat, thread_count())

    def on_tensors(self, library: ArrayLibrary | None) -> Callable[[list[Any]], Any] | None:
        """What gives the outputs that are in slots, in a row, for tensors and others in a row, or NotImplemented; None
        where nothing does, or not yet. Each is new, or one of the values."""
        key = (library, True)
        if key not in self._native and library in self._observers:
            self._native[key] = self._made(library, for_tensors=True)
        found: Callable[[list[Any]], Any] | None = self._native.get(key)
        return found

    def _made(self, library: ArrayLibrary | None, *, for_tensors: bool) -> Any:
        observer = self._observers[library]
        return None if observer is None else native_memory(observer, for_tensors=for_tensors)

    @property
    def calls_ops(self) -> bool:
        """Whether ops of the library are called where it runs on tensors."""
        return any(seen is not None and seen.calls_ops for seen in self._observers.values())

    def nested(self, row: Sequence[Any]) -> list[Any]:
        """The outputs, by those that are in slots."""
        items = iter(row)
        return [_filled(output, items) for output in self.program.outputs]

    def memory(self) -> list[Any]:
        """Of each output whose memory a tensor has, as `CallLayout` takes it: that of its own, unless it is one of the
        values."""
        (observer,) = [found for found in self._observers.values() if found is not None][:1]
        kinds = iter(observer.kinds_of_outputs())
        return [_memory_of(output, kinds) for output in self.program.outputs]


def list_of_row(row: LaunchRow, outputs: Sequence[Any]) -> ArrayList:
    """The list of what a row did."""
    fixed = [row.count + i for i, value in enumerate(row.template) if value is not None]
    made = [row.count + i for i, value in enumerate(row.template) if value is None]
    places = {number: place for place, number in enumerate((*fixed, *range(row.count), *made))}
    freed = row.freed(outputs)
    program = CProgram(
        [row.template[number - row.count] for number in fixed],
        [None] * row.count,
        len(made),
        [(_act(step, places), [places[n] for n in free]) for step, free in zip(row.steps, freed, strict=True)],
        [_placed(output, places) for output in outputs],
        [None] * len(outputs),
    )
    return ArrayList(program, row.own_places)


def list_of_program(program: CProgram, own: Collection[int]) -> ArrayList:
    """The list of a program that may take lists; `own` are the inputs that are seeds."""
    counts = [1 if width is None else width for width in program.widths]
    places = [sum(counts[:i]) for i in own]
    steps, layouts = program.steps, program.layouts
    flat = CProgram(program.constants, [None] * sum(counts), program.made, steps, program.outputs, layouts)
    return ArrayList(flat, places)


def kept_list(plan: ExecutionPlan, own: Sequence[int]) -> KeptList[ArrayList]:
    """The list of a plan, of which `own` are the inputs that are seeds."""
    return KeptList(plan, lambda: Recording(plan, ARRAYS, added_gradients, list_of_row), own, lambda run: run(None))


def _act(step: Any, places: Mapping[int, int]) -> Act:
    """A step of a row as one of a program."""
    if not isinstance(step, EvaluatedStep):
        found: Stretch | Extern = step.at(places)
        return found
    arguments = [_placed(argument, places) for argument in step.arguments]
    results = [step.results] if type(step.results) is SlotOf else step.results
    if step.op is None or not isinstance(results, list) or any(type(result) is not SlotOf for result in results):
        writes = step.function in WRITES.values()
        return ListedEvaluation(step.function, arguments, _placed(step.results, places), writes=writes)
    return Extern(
        step.op,
        arguments,
        [places[result] for result in results],
        [True] * len(results),
        # Whatever it gives, it stays as it is.
        is_view=True,
        is_single=type(step.results) is SlotOf,
        function=step.function,
    )


def _placed(argument: Any, places: Mapping[int, int]) -> Any:
    if type(argument) is SlotOf:
        return Slot(places[argument])
    return type(argument)([_placed(a, places) for a in argument]) if isinstance(argument, list | tuple) else argument


def _filled(output: Any, items: Any) -> Any:
    """Lists nest as deep as types in source, so this recurses."""
    if isinstance(output, Slot):
        return next(items)
    return type(output)([_filled(item, items) for item in output]) if isinstance(output, list | tuple) else output


def _memory_of(output: Any, kinds: Any) -> Any:
    if isinstance(output, Slot):
        place, is_own = next(kinds)
        return (place, False) if is_own else True
    return [_memory_of(item, kinds) for item in output] if isinstance(output, list | tuple) else None


class RecordedGroup:
    """What runs a group on some values, and notes it. `by_ops` is the plan of what kernels cannot do, `count` how many
    results the group has: its program may have more, which it computes for what they refuse."""

    def __init__(
        self, program: CProgram, values: Sequence[Any], by_ops: Callable[[], ExecutionPlan], count: int
    ) -> None:
        self._program = program
        self._values = values
        self._by_ops = by_ops
        self._count = count
        self._results: list[Any] = []
        self._is_in_vain = False

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The results."""
        try:
            self._results = self._program.run(self._values, thread_count())
            return self._results[: self._count]
        except IN_VAIN:
            self._is_in_vain = True
            return run_plan(self._by_ops(), values)

    def note(self, row: LaunchRow, values: Sequence[Any], results: Sequence[Any]) -> None:
        """Add what it did to a row. Raises: Unlisted."""
        is_same = all(a is b for a, b in zip(flat_values(values), flat_values(self._values), strict=True))
        if self._is_in_vain or not is_same:
            raise Unlisted
        self._program.note(row, values, self._results)


class GroupByOps:
    """What runs a group op by op."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
