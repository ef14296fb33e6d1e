"""Graphs and gradients for a class of sizes, run for given ones: what follows from the sizes goes in as numbers.

    class of programs ── graph that takes numbers ──▶ one executor, one DeviceRun: kernels for classes in turn
           │ closed(atoms)                                    ▲
           ▼                                                  │ values, and the numbers at hand
    SizedDifferentiated ── backward(pattern) ──▶ SizedGraph ──┘

So it is differentiated again: the graph is a program of its own, among whose arguments are numbers, and gradients of
that are for classes as well. What else is asked of one is asked of the graph for the very sizes, which is made then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ...compiler.autodiff import Gradient
from ...compiler.ir.graph import Graph, backward_of
from ...compiler.specialize.close import close_sizes, take_open_sizes
from ...compiler.types.open_sizes import closed
from ...lang.collection import collection_paused
from ...lang.diagnostics import CompileError
from ..execution.compilation import device_graph
from ..execution.differentiated import CompiledGraph, Differentiated, Flags, Pattern, PatternKey
from ..execution.executor import GraphExecutor
from ..execution.gradients import specialized
from ..execution.numbered import Executor, NumberedExecutor
from .devices import DeviceRun, FixedRun, graph_run


class ClassGraph:
    """A graph that takes, behind its inputs, what follows from open sizes: `taken` has what that is."""

    def __init__(self, source: Graph, taken: Sequence[Any]) -> None:
        self.source = source
        self.taken = taken
        self._runs: dict[str, DeviceRun] = {}
        self._programs: dict[str, CompiledGraph] = {}

    @cached_property
    def graph(self) -> Graph:
        """The graph for other devices."""
        return device_graph(self.source)

    def program(self, name: str) -> CompiledGraph:
        """What runs it on the CPU, and differentiates it, for all sizes of the class."""
        found = self._programs.get(name)
        return found if found is not None else self._programs.setdefault(name, CompiledGraph(self.source, name))

    def on(self, device: str) -> DeviceRun:
        """What runs it on a device, for all sizes of the class."""
        found = self._runs.get(device)
        return found if found is not None else self._runs.setdefault(device, graph_run(device, self.graph))


class ClassGradient:
    """A gradient for a class of sizes, with open ones among its constants."""

    def __init__(self, gradient: Gradient, name: str) -> None:
        self.gradient = gradient
        self.name = name
        self.forward = ClassGraph(*take_open_sizes(gradient.f))
        self._backward, self._taken = take_open_sizes(gradient.df)
        self._backwards: dict[Pattern, ClassGraph] = {}

    def backward(self, pattern: Pattern, whole: Differentiated) -> ClassGraph:
        """What computes the gradients, for gradients of these dtypes."""
        found = self._backwards.get(pattern)
        if found is None:
            made = ClassGraph(specialized(self._backward, whole.types_of(pattern)), self._taken)
            found = self._backwards.setdefault(pattern, made)
        return found


class SizedRun:
    """A DeviceRun that is given numbers behind its values."""

    def __init__(self, run: DeviceRun, numbers: Sequence[Any]) -> None:
        self._run = run
        self._numbers = numbers

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        return self._run([*values, *self._numbers])

    def fixed(self, values: Sequence[Any]) -> FixedRun | None:
        found = self._run.fixed([*values, *self._numbers])
        return None if found is None else SizedFixedRun(found, self._numbers)


class SizedFixedRun:
    """A FixedRun that is given numbers behind its values."""

    def __init__(self, fixed: FixedRun, numbers: Sequence[Any]) -> None:
        self._fixed = fixed
        self._run = fixed.run
        self._numbers = numbers
        self.is_new = fixed.is_new

    @property
    def is_settled(self) -> bool:
        """As of what runs."""
        return self._fixed.is_settled

    def run(self, values: Sequence[Any]) -> list[Any]:
        return self._run([*values, *self._numbers])


class Sized:
    """A graph of a class for given sizes, by a value for each atom."""

    def __init__(self, of_class: ClassGraph, atoms: Sequence[int]) -> None:
        self.of_class = of_class
        self.numbers = [closed(value, atoms) for value in of_class.taken]

    @property
    def graph(self) -> Graph:
        """The graph of the class: it does the same, and takes more."""
        return self.of_class.graph

    def on(self, device: str) -> DeviceRun:
        """What runs it on a device."""
        run = self.of_class.on(device)
        return SizedRun(run, self.numbers) if self.numbers else run

    def executor(self, name: str) -> Executor:
        """What runs it on the CPU."""
        executor = self.of_class.program(name).executor
        assert isinstance(executor, GraphExecutor), "the program of a class is none for given sizes"
        return NumberedExecutor(executor, self.numbers) if self.numbers else executor


class SizedGraph(CompiledGraph):
    """A graph of a class, compiled for given sizes; `with_sizes` gives the graph with these in it."""

    def __init__(self, sized: Sized, name: str, with_sizes: Callable[[], Graph]) -> None:
        super().__init__(sized.of_class.source, name)
        self.sized = sized
        self._with_sizes = with_sizes

    @property
    def of_class(self) -> CompiledGraph:
        """The program of all sizes, which takes `sized.numbers` behind its arguments."""
        return self.sized.of_class.program(self.name)

    @cached_property
    def exact(self) -> CompiledGraph:
        """The same with the sizes in it."""
        with collection_paused():
            return CompiledGraph(self._with_sizes(), self.name)

    @cached_property
    def executor(self) -> Executor:
        return self.sized.executor(self.name)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        return self.executor.run(arrays)

    def use_up(self, arrays: list[Any]) -> list[Any]:
        return self.executor.use_up(arrays)

    def answered(self, flags: Flags) -> CompiledGraph:
        return self.exact.answered(flags)

    def differentiate(self, key: PatternKey) -> Differentiated | CompileError:
        return self.exact.differentiate(key)


class SizedDifferentiated(Differentiated):
    """A gradient of a class for given sizes, by a value for each atom."""

    def __init__(self, of_class: ClassGradient, atoms: Sequence[int]) -> None:
        super().__init__(of_class.gradient, of_class.name)
        self._of_class = of_class
        self._atoms = atoms
        self.sized = Sized(of_class.forward, atoms)

    @cached_property
    def forward(self) -> Executor:
        return self.sized.executor(self.name)

    def backward(self, pattern: Pattern) -> CompiledGraph:
        found = self._backward.get(pattern)
        if found is None:
            sized = Sized(self._of_class.backward(pattern, self), self._atoms)
            made = SizedGraph(sized, backward_of(self.name), lambda: self._exact_backward(pattern))
            found = self._backward.setdefault(pattern, made)
        return found

    def _exact_backward(self, pattern: Pattern) -> Graph:
        return specialized(close_sizes(self.gradient.df, self._atoms), self.types_of(pattern))
