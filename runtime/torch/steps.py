"""Steps: a program differentiated for one kind of call, as the node of such a call runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

from ...compiler.fusion.seeds import open_inputs, open_lists
from ...compiler.ir.graph import Graph
from ...compiler.types.types import INT
from ...lang.diagnostics import CompileError
from ..execution.compilation import device_graph
from ..execution.differentiated import CompiledGraph, Differentiated, Pattern, PatternKey
from ..execution.function_executor import FORGETTING
from ..execution.numbered import Executor
from .array_runs import ArrayRun, ListedRun
from .devices import DeviceRun, graph_run
from .second_derivatives import SecondPullback
from .sized import SizedDifferentiated, SizedGraph
from .symbolic import is_batchable

_MAKING = RLock()


class Step:
    """What a node runs: forward, and backward for each pattern of gradients.

    It is a program differentiated, or as it is: where nothing is differentiated, and where an error (E408) says that a
    gradient of its outputs is refused when it is asked for.

    Outputs are the real ones, `num_real` of them, then temporaries. `input_vjps` are the outputs whose gradients the
    backward takes, `output_vjps` the inputs whose gradients it gives; `captured_inputs` and `captured_outputs` is
    what it takes besides. `repeated` names, for an output that is the same value as an earlier one, the first such;
    `inputs` are the names of the inputs, `numbers` those that are whole numbers. `pullback` is what second derivatives
    are made of, where it is not the backward.
    """

    def __init__(self, program: CompiledGraph, key: PatternKey, found: Differentiated | CompileError | None) -> None:
        self._differentiated = found if isinstance(found, Differentiated) else None
        self._error = found if isinstance(found, CompileError) else None
        self.name = program.name
        self.num_real = len(program.graph.outputs)
        self.input_vjps: Sequence[int] = range(self.num_real) if self._error is not None else ()
        self.output_vjps: Sequence[int] = [i for i, wanted in enumerate(key) if wanted]
        self.captured_inputs: Sequence[int] = ()
        self.captured_outputs: Sequence[int] = ()
        if self._differentiated is not None:
            gradient = self._differentiated.gradient
            self.num_real = gradient.num_real_outputs
            self.input_vjps, self.output_vjps = gradient.input_vjps, gradient.output_vjps
            self.captured_inputs, self.captured_outputs = gradient.captured_inputs, gradient.captured_outputs
        self.pullback: SecondPullback | None = None if self._differentiated is None else self._differentiated.pullback
        self._program = program
        self._source = program.graph if self._differentiated is None else self._differentiated.gradient.f
        owner = program if self._differentiated is None else self._differentiated
        self._sized = owner.sized if isinstance(owner, SizedGraph | SizedDifferentiated) else None
        self.repeated = _repeated(self._source)
        self.inputs = [value.name_hint for value in self._source.inputs]
        # What a graph of a class takes besides is none of its arguments.
        self.numbers = [i for i, value in enumerate(self._source.inputs[: len(key)]) if value.type == INT]
        self._runs: dict[str, DeviceRun] = {}

    @cached_property
    def is_batchable(self) -> bool:
        """Whether ops of torch make up the outputs, none of which looks into a tensor to tell a number."""
        return is_batchable(self.graph)

    @cached_property
    def seeds_kept(self) -> frozenset[int]:
        """What of the captures are seeds, and numbers like them, by which no backward is planned."""
        if self._differentiated is None:
            return frozenset()
        backward, first = self._differentiated.gradient.df, len(self.input_vjps)
        return frozenset([i - first for i in open_inputs(backward) | open_lists(backward) if i >= first])

    def on(self, device: str) -> DeviceRun:
        """What computes the outputs on another device."""
        found = self._runs.get(device)
        if found is None:
            made = graph_run(device, self.graph) if self._sized is None else self._sized.on(device)
            found = self._runs.setdefault(device, made)
        return found

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs, on the CPU."""
        return self._executor.run(arrays)

    def array_run(self, values: Sequence[Any], *, passes_on: bool = False, in_order: bool = False) -> ArrayRun:
        """What gives the outputs for values like these, on the CPU; temporaries may be views of them."""
        return ArrayRun(
            self._executor,
            values,
            owned=self.num_real,
            passes_on=passes_on,
            in_order=in_order,
            unwanted=frozenset(self.repeated),
        )

    def listed_run(self) -> ListedRun:
        """What gives the outputs for values of one signature, lists among them, on the CPU."""
        return ListedRun(self._executor)

    @cached_property
    def _executor(self) -> Executor:
        return self._program.executor if self._differentiated is None else self._differentiated.forward

    @cached_property
    def graph(self) -> Graph:
        """What computes the outputs, for other devices."""
        return device_graph(self._source) if self._sized is None else self._sized.graph

    def backward(self, pattern: Pattern) -> CompiledGraph:
        """What computes the gradients, for gradients of these dtypes."""
        if self._error is not None:
            raise CompileError(self._error.diagnostics)
        assert self._differentiated is not None, "what has no gradient is not asked for one"
        return self._differentiated.backward(pattern)


def _repeated(graph: Graph) -> Mapping[int, int]:
    first = {value: i for i, value in reversed(list(enumerate(graph.outputs)))}
    return {i: first[value] for i, value in enumerate(graph.outputs) if first[value] != i}


_STEPS: WeakKeyDictionary[CompiledGraph, dict[PatternKey, Step]] = WeakKeyDictionary()


def step_of(program: CompiledGraph, key: PatternKey) -> Step:
    """The step for calls in which the inputs with True in `key` require a gradient, and those with None are absent."""
    steps = _STEPS.get(program)
    found = None if steps is None else steps.get(key)
    if found is not None:
        return found
    with _MAKING:
        steps = _STEPS.setdefault(program, {})
        if key not in steps:
            steps[key] = _step(program, key)
        return steps[key]


def _step(program: CompiledGraph, key: PatternKey) -> Step:
    found = program.differentiate(key) if True in key else None
    return Step(program, key, None if isinstance(found, Differentiated) and not found.is_active else found)


FORGETTING.add(_STEPS.clear)
