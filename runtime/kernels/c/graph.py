"""A graph on NumPy arrays by kernels in C, for each combination of layouts as it was planned: now, or before and kept.

What plans is loaded only where there is something to plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from ....compiler.autodiff.flatten import flatten_signature, leaves, rebuilt
from ....compiler.fusion.unasked import open_seeds
from ....compiler.ir.graph import Graph
from ....compiler.types.open_sizes import Symbols
from ....compiler.types.types import INT, TupleType, Type, is_tensor
from ...execution.executor import may_run_again
from ...execution.function_executor import FORGETTING
from ...failures.failure import RuntimeFailure
from ...plans.build import build_plan
from ...plans.interpreter import run_plan
from ...plans.plan import ExecutionPlan
from ..groups import MAX_PROGRAMS
from ..notices import tell_unless_auto
from .kept.classes import KeepablePlan, SizedPlans
from .kept.graphs import graph_data, graph_from_data, types_of
from .kept.plans import JsonValue, KeptPlans
from .kept.programs import NO_SYMBOLS, KeptOpenProgram
from .launched import thread_count
from .layouts import addressable, has_tuples, program_key
from .memory.listed import ArrayList, GroupByOps, RecordedGroup, list_of_program
from .program import IN_VAIN, CProgram

if TYPE_CHECKING:
    from .entry import Calls
    from .planning import CPlan, GraphPlanner

TUPLES = "kernels take no tuple where None may stand, nor one in a list"
"""Why what is given one runs op by op."""
_UNPLANNED: Any = object()
ByOps = Callable[[list[Any]], list[Any]]
"""What gives the results of ops, for one value per input."""


class CGraph:
    """A graph with its programs. Tuples may be among its arguments and results.

    `prepare` makes of the graph what is planned.
    """

    # What plans are kept under, beside the graph's text.
    _kind = "graph"

    def __init__(self, graph: Graph, prepare: Callable[[Graph], Graph] = Graph.without_closure) -> None:
        self._source = graph
        self._prepare = prepare
        self._input_types = [value.type for value in graph.inputs]
        self._output_types = [value.type for value in graph.outputs][: -1 if graph.returns_closure else None]
        self._start()

    def _start(self) -> None:
        self._restored: dict[Hashable, CProgram | CPlan | None] = {}
        self._lists: WeakKeyDictionary[CProgram, ArrayList] = WeakKeyDictionary()
        self._met: dict[Hashable, int] = {}
        self._kept = self._keeper()
        self._sizes: SizedPlans[CProgram | CPlan] = SizedPlans(
            self._keeper(" classes"), self._open_plan_of, self._whole_lists
        )
        _GRAPHS.add(self)

    @property
    def _given(self) -> Graph:
        """The graph as it came."""
        return self._source

    def _keeper(self, what: str = "") -> KeptPlans:
        """What keeps programs from one process to the next, or `what` else."""
        kind = f"{self._kind} {self._prepare.__name__}{what}"
        return KeptPlans(kind, lambda: self._text)

    @cached_property
    def _text(self) -> str:
        """What the plans of the graph are found by."""
        return self._given.text(with_spans=True)

    def forget(self) -> None:
        """Drop what was planned."""
        self._restored.clear()
        self._sizes.clear()
        self._met.clear()
        for name in ("_planner", "_graph"):
            self.__dict__.pop(name, None)

    def run(self, values: Sequence[Any]) -> list[Any] | None:
        """The results; None where no kernels do it: ops run one by one."""
        flat = addressable(leaves(values, self._input_types))
        if has_tuples(flat):
            tell_unless_auto(self._graph, TUPLES)
            return None
        program = self._program(flat)
        if program is None:
            self._planner.tell(open_seeds(flat, self._open))
            return None
        try:
            results = program.run(flat, thread_count())
        except IN_VAIN as error:
            return self._in_vain(error)
        return rebuilt(iter(results), self._output_types)

    def _in_vain(self, error: Exception) -> list[Any] | None:
        """What a run gives that kernels ended."""
        return None

    def entry(
        self,
        values: Sequence[Any],
        given: int,
        by_ops: Callable[[], ByOps | None],
        *,
        at_once: bool = False,
        library: Any = None,
    ) -> Any:
        """What runs it on values like these without Python in between, or with nothing left to be asked; None where
        nothing does, or, unless `at_once`, not yet.

        Of the values as many as are `given` may be others. `by_ops` gives what runs those that have no kernels. What is
        had `at_once` is called from where nobody says which library multiplies: the one that does now. `library` is
        what stands for the library's ops, a `memory.bare.LibraryBinder`.
        """
        if any(isinstance(value, list | tuple) for value in values):
            return None
        opened = open_seeds(values, self._open)
        program = self._found(opened, settled=False)
        if not at_once and not self._meets_again(opened):
            return None
        from .entry import entry_of, entry_of_steps, widths_of

        widths = widths_of(self._output_types)
        if isinstance(program, CProgram):
            return entry_of(program, values, given, widths, self._open, computes_as_now=at_once, library=library)
        if library is not None and program is not None:
            return self._decided_entry(values, given, library)
        if any(isinstance(value, float) for value in values) or at_once:
            # With floats that are known there may be a program.
            return None
        steps = by_ops()
        if program is not None and steps is not None:
            run = program.run
            return entry_of_steps(lambda inputs: run(inputs, 0), program, values, given, widths, self._open)
        if steps is None or any(width != -1 for width in widths):
            return None
        return entry_of_steps(steps, self, values, given, widths, self._open)

    def listed(self, values: Sequence[Any]) -> ArrayList | None:
        """The list of what is done for such values; None where there is none, or not yet."""
        flat = leaves(values, self._input_types)
        has_others = any(isinstance(type, TupleType) for type in (*self._input_types, *self._output_types))
        if has_others or has_tuples(flat):
            return None
        found = self._found(open_seeds(flat, self._open), settled=False)
        if isinstance(found, CProgram):
            if any(width is None and isinstance(value, list) for width, value in zip(found.widths, flat, strict=True)):
                # A list of numbers is one value of the program, which a row of tensors has no place for.
                return None
            return self._lists.setdefault(found, list_of_program(found, self._open))
        return None if found is None else found.listed

    def _decided_entry(self, values: Sequence[Any], given: int, library: Any) -> Any:
        """What runs values that go as these do, through branches that data decides; None where nothing does."""
        from ....compiler.fusion.decided import decided_graph
        from ....compiler.fusion.straight import Unfusable
        from .entry import entry_of, widths_of
        from .layouts import layout_of

        if not may_run_again(self._graph):
            return None

        def tells(graph: Graph) -> bool:
            (answer,) = run_plan(build_plan(graph), values)
            return bool(answer)

        try:
            found = decided_graph(self._graph, [layout_of(value, settled=False) for value in values], tells)
        except (Unfusable, RuntimeFailure):
            return None
        if found is None:
            return None
        program = CGraph(found.graph)._found(open_seeds(values, self._open), settled=False)
        if not isinstance(program, CProgram):
            return None
        widths = widths_of(self._output_types)
        return entry_of(program, values, given, widths, self._open, library=library, answers=found.answers)

    def _meets_again(self, values: Sequence[Any]) -> bool:
        """Whether this is asked for the second time of such values."""
        key = program_key(values, settled=False)
        if len(self._met) >= MAX_PROGRAMS:
            self._met.clear()
        count = self._met[key] = self._met.get(key, 0) + 1
        return count == 2

    def _program(self, values: Sequence[Any]) -> CProgram | CPlan | None:
        """What runs such values; where only known floats make a straight line, a program for these."""
        values = open_seeds(values, self._open)
        has_floats = any(isinstance(value, float) for value in values)
        found = self._found(values, settled=False, or_settled=has_floats)
        if isinstance(found, CProgram) or not has_floats:
            return found
        settled = self._found(values, settled=True)
        return settled if found is None or isinstance(settled, CProgram) else found

    def _found(self, values: Sequence[Any], *, settled: bool, or_settled: bool = False) -> CProgram | CPlan | None:
        """What runs such values. `or_settled` says that what was kept for known floats does."""
        key = (settled, program_key(values, settled))
        found = self._restored.get(key, _UNPLANNED)
        if found is not _UNPLANNED:
            return found
        made = self._sizes.get(key)
        if made is None and "_planner" in self.__dict__ and key in self._planner.programs:
            return self._planner.programs[key]
        made = made or self._kept_for(values, key, settled)
        if made is not None:
            return made
        if or_settled and self._kept_for(values, (True, program_key(values, True)), True) is not None:
            self._restored[key] = None
            return None
        made = self._planner.plan(values, key, settled)
        if isinstance(made, KeepablePlan):
            self._kept.put(key, made.data)
        return made

    def _kept_for(self, values: Sequence[Any], key: Hashable, settled: bool) -> CProgram | CPlan | None:
        """What was planned for a class of such values, or kept for them or for a class; None where there is nothing."""
        sizes = self._sizes
        return sizes.find(values, key, settled) or self._restore(key) or sizes.restore(values, key, settled)

    def _restore(self, key: Hashable) -> CProgram | CPlan | None:
        """What was kept for such values; None where there is nothing."""
        data = self._kept.get(key)
        found = None if data is None else self._open_plan_of(data, NO_SYMBOLS).closed(())
        if found is not None:
            if len(self._restored) >= MAX_PROGRAMS:
                self._restored.pop(next(iter(self._restored)), None)
            self._restored[key] = found
        return found

    def _open_plan_of(self, data: JsonValue, symbols: Symbols) -> KeptOpenProgram | CPlan:
        """What was kept, its open sizes those of `symbols`."""
        return _plan_of(data, self._open) if "groups" in data else KeptOpenProgram(data, symbols)

    def _whole_lists(self) -> Collection[int]:
        from ....compiler.shapes.open_lists import whole_lists

        return whole_lists(self._graph)

    # --- what is planned ---

    @cached_property
    def _graph(self) -> Graph:
        """The graph, without tuples, as it is planned."""
        from ....compiler.fusion.refusals import keep_refusing

        return keep_refusing(flatten_signature(self._prepare(self._given)))

    @cached_property
    def _open(self) -> frozenset[int]:
        """The inputs that are seeds, and numbers like them."""
        return kept_open_inputs(self._input_types, self._kept, lambda: self._graph)

    @cached_property
    def _planner(self) -> GraphPlanner:
        from .planning import GraphPlanner

        return GraphPlanner(self._graph, CGroup, self._sizes)


class CGroup(CGraph):
    """A fusion group: what it cannot do by kernels, ops do one by one, and say what is wrong."""

    _kind = "group"
    # What takes values straight to kernels, once there are such.
    _calls: Calls | None = None

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The results, for one value per input."""
        found = self._calls(*values) if self._calls is not None else None
        if found is not None:
            return [*found] if type(found) is tuple else [found]
        results = self.run(values)
        if results is None:
            return run_plan(self._by_ops, values)
        self._remember(values)
        return results

    def chosen(self, values: Sequence[Any]) -> tuple[RecordedGroup | GroupByOps, bool]:
        """What runs it on values like these, and whether on these very floats alone."""
        flat = addressable(leaves(values, self._input_types))
        if has_tuples(flat):
            return GroupByOps(self._by_ops), False
        opened = open_seeds(flat, self._open)
        has_floats = any(isinstance(value, float) for value in flat)
        found, is_settled = self._found(opened, settled=False, or_settled=has_floats), False
        if not isinstance(found, CProgram) and has_floats:
            found, is_settled = self._found(opened, settled=True), True
        if not isinstance(found, CProgram):
            return GroupByOps(self._by_ops), False
        return RecordedGroup(found, flat, lambda: self._by_ops, len(self._output_types)), is_settled

    def _remember(self, values: Sequence[Any]) -> None:
        """Have what runs such values found at once."""
        if not all(map(is_tensor, self._output_types)):
            return
        entry = self.entry(values, len(values), lambda: None)
        if entry is not None:
            from .entry import new_calls

            self._calls = self._calls if self._calls is not None else new_calls()
            self._calls.add(entry)

    def forget(self) -> None:
        super().forget()
        self._calls = None

    @cached_property
    def _by_ops(self) -> ExecutionPlan:
        return build_plan(self._given)

    @cached_property
    def _planner(self) -> GraphPlanner:
        from .planning import StraightPlanner

        return StraightPlanner(self._graph, CGroup, self._sizes)


class KeptGraph(CGraph):
    """A graph as it was kept: it is read only where something is planned or told of it."""

    def __init__(self, data: JsonValue) -> None:
        self._data = data
        self._prepare = Graph.without_closure
        self._input_types, self._output_types = types_of(data["inputs"]), types_of(data["outputs"])
        self._start()

    @cached_property
    def _given(self) -> Graph:
        return graph_from_data(self._data["graph"])

    @property
    def _text(self) -> str:
        found: str = self._data["key"]
        return found


def kept_graph_data(graph: Graph) -> JsonValue:
    """What makes a KeptGraph of a graph without tuples and closures. Raises: Unkept."""
    return {
        "graph": graph_data(graph),
        "key": graph.text(with_spans=True),
        "inputs": [str(value.type) for value in graph.inputs],
        "outputs": [str(value.type) for value in graph.outputs],
    }


def _plan_of(data: JsonValue, own: Collection[int]) -> CPlan:
    from .planning import CPlan

    return CPlan(graph_from_data(data["groups"]), CGroup, own)


_GRAPHS: WeakSet[CGraph] = WeakSet()


def _forget_programs() -> None:
    for graph in list(_GRAPHS):
        graph.forget()


FORGETTING.add(_forget_programs)


def kept_open_inputs(types: Sequence[Type], kept: KeptPlans, graph: Callable[[], Graph]) -> frozenset[int]:
    """The inputs that are seeds, and numbers like them, of a graph for arguments of these types, tuples taken apart."""
    pending = list(types)
    for type in pending:
        pending += type.elements if isinstance(type, TupleType) else ()
    if INT not in pending:
        return frozenset()
    found = kept.get("seeds")
    if found is None:
        from ....compiler.fusion.seeds import open_inputs

        found = sorted(open_inputs(graph()))
        kept.put("seeds", lambda: found)
    return frozenset(found)
