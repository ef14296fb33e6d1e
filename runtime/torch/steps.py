"""Steps: a program differentiated for one kind of call, as the node of such a call runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

from ...compiler.ir.graph import Graph
from ...lang.diagnostics import CompileError
from ..execution.linearized import settled
from ..kernels.c.graph import CGraph
from ..plans.interpreter import run_plan
from ..tape.program import Key, Linearization, Pattern, Program
from .devices import GraphRun, graph_run

_MAKING = RLock()


class Step(ABC):
    """What a node runs: forward, and backward for each pattern of gradients.

    Outputs are the real ones, `num_real` of them, then temporaries. `input_vjps` are the outputs whose gradients the
    backward takes, `output_vjps` the inputs whose gradients it gives; `captured_inputs` and `captured_outputs` is
    what it takes besides. `repeated` names, for an output that is the same value as an earlier one, the first such.
    """

    name: str
    num_real: int
    input_vjps: Sequence[int]
    output_vjps: Sequence[int]
    captured_inputs: Sequence[int] = ()
    captured_outputs: Sequence[int] = ()
    repeated: Mapping[int, int]
    inputs: Sequence[str]
    """The names of the inputs."""

    @cached_property
    def by_kernels(self) -> CGraph:
        """What computes the outputs on the CPU by kernels in C."""
        return CGraph(self.graph)

    def on(self, device: str) -> GraphRun:
        """What computes the outputs on another device."""
        found = self._runs.get(device)
        return found if found is not None else self._runs.setdefault(device, graph_run(device, self.graph))

    @cached_property
    def _runs(self) -> dict[str, GraphRun]:
        return {}

    @abstractmethod
    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs, on the CPU."""

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """What computes the outputs, for other devices."""

    @abstractmethod
    def backward(self, pattern: Pattern) -> Program:
        """What computes the gradients, for gradients of these dtypes."""


class Differentiated(Step):
    """The usual step."""

    def __init__(self, linearization: Linearization) -> None:
        gradient = linearization.gradient
        self._linearization = linearization
        self.name = linearization.name
        self.num_real = gradient.num_real_outputs
        self.input_vjps = gradient.input_vjps
        self.output_vjps = gradient.output_vjps
        self.captured_inputs = gradient.captured_inputs
        self.captured_outputs = gradient.captured_outputs
        self.repeated = _repeated(gradient.f)
        self.inputs = [value.name_hint for value in gradient.f.inputs]

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        return run_plan(self._linearization.forward, arrays)

    @property
    def graph(self) -> Graph:
        return self._linearization.forward.graph

    def backward(self, pattern: Pattern) -> Program:
        return self._linearization.backward(pattern)


class Undifferentiated(Step):
    """A program as it is. With an error (E408), a gradient of its outputs is refused when it is asked for."""

    def __init__(self, program: Program, key: Key, error: CompileError | None = None) -> None:
        outputs = range(len(program.graph.outputs))
        self._program = program
        self._error = error
        self.name = program.name
        self.num_real = len(outputs)
        self.input_vjps = () if error is None else outputs
        self.output_vjps = [i for i, wanted in enumerate(key) if wanted]
        self.repeated = _repeated(program.graph)
        self.inputs = [value.name_hint for value in program.graph.inputs]

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        return self._program.run(arrays)

    @cached_property
    def graph(self) -> Graph:
        return settled(self._program.graph)

    def backward(self, pattern: Pattern) -> Program:
        assert self._error is not None, "what has no gradient is not asked for one"
        raise CompileError(self._error.diagnostics)


def _repeated(graph: Graph) -> Mapping[int, int]:
    first = {value: i for i, value in reversed(list(enumerate(graph.outputs)))}
    return {i: first[value] for i, value in enumerate(graph.outputs) if first[value] != i}


_STEPS: WeakKeyDictionary[Program, dict[Key, Step]] = WeakKeyDictionary()


def step_of(program: Program, key: Key) -> Step:
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


def _step(program: Program, key: Key) -> Step:
    if True not in key:
        return Undifferentiated(program, key)
    linearization = program.linearize(key)
    if isinstance(linearization, CompileError):
        return Undifferentiated(program, key, linearization)
    return Differentiated(linearization) if linearization.is_active else Undifferentiated(program, key)
