"""DifferentiableGraph: one node of the tape for a whole compiled function, or for one op.

Forward runs `Gradient.f` and keeps the captures; backward runs `Gradient.df` on them. Where the backward is recorded,
`df` is called as any other program is, on captures that remember where they came from: inputs by their edges,
temporaries by slots of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...compiler.autodiff.flatten import leaves, rebuilt
from ...compiler.dtypes import FLOAT32, DType
from ...compiler.ops.arrays import dtype_of
from ..derivatives import is_floating
from ..function import Function
from .captures import Capture, OtherCapture, TensorCapture, captured, require_captures
from .node import Edge, Gradient, Metadata, Node
from .program import Linearization, Program, program_of
from .variable import Variable, as_variable, recorded, wants_grad, without_past

Layout = int | tuple["Layout", ...] | None
"""Where the gradient of an input or output stands among edges or slots: one number, for a list one each, or none."""


def call_on_tape(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function on Variables among other arguments; its arrays come as Variables, and one node is recorded."""
    marks: dict[int, Variable] = {}
    plain = tuple([_unmarked(value, marks) for value in args])
    values = function.bind(plain, {name: _unmarked(value, marks) for name, value in kwargs.items()})
    program, graph = program_of(function)
    flat = leaves(values, [value.type for value in graph.inputs])
    sources = [_marked(value, marks) for value in flat]
    outputs = run_program(program, flat, sources)
    results = rebuilt(iter(outputs), [value.type for value in graph.outputs])
    return results[0] if len(results) == 1 else tuple(results)


def _unmarked(value: Any, marks: dict[int, Variable]) -> Any:
    """The value with a fresh view for each Variable, by whose identity it is known again after conversion."""
    if isinstance(value, Variable):
        view = value.data.view()
        marks[id(view)] = value
        return view
    if isinstance(value, list | tuple):
        return type(value)([_unmarked(item, marks) for item in value])
    return value


def _marked(value: Any, marks: Mapping[int, Variable]) -> Any:
    """The Variables that stand behind a value, in its nesting; None for what is no Variable."""
    if isinstance(value, list):
        return [_marked(item, marks) for item in value]
    return marks.get(id(value))


def run_program(program: Program, values: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
    """The outputs with arrays as Variables. `sources` are the Variables behind `values`, in their nesting, or None."""
    requires_grad = tuple([wants_grad(s) and is_floating(v) for v, s in zip(values, sources, strict=True)])
    if not any(requires_grad):
        return [_wrapped(output) for output in program.run(values)]
    linearization = program.linearize(values, requires_grad)
    if not any(linearization.gradient.active_outputs):
        return [_wrapped(output) for output in program.run(values)]
    outputs = linearization.run(values)
    node = DifferentiableGraph(linearization, outputs, sources)
    node.capture(values, outputs, sources)
    return node.wrapped(outputs)


def _wrapped(value: Any) -> Any:
    if isinstance(value, list):
        return [_wrapped(item) for item in value]
    return without_past(value) if isinstance(value, np.ndarray) else value


class DifferentiableGraph(Node):
    """The node of a program. Slots are the outputs of f that a gradient flows through, temporaries included."""

    __slots__ = ("_captures", "_inputs", "_linearization", "_outputs")

    def __init__(self, linearization: Linearization, outputs: Sequence[Any], sources: Sequence[Any]) -> None:
        gradient = linearization.gradient
        metadata: list[Metadata] = []
        self._linearization = linearization
        self._outputs: dict[int, Layout] = {i: _slots(outputs[i], metadata) for i in gradient.input_vjps}
        edges: list[Edge | None] = []
        self._inputs: list[Layout] = [_edges(sources[i], edges) for i in gradient.output_vjps]
        self._captures: list[Capture] | None = None
        super().__init__(linearization.name, edges, metadata)

    def capture(self, values: Sequence[Any], outputs: Sequence[Any], sources: Sequence[Any]) -> None:
        """Keep what df takes of inputs and outputs."""
        gradient = self._linearization.gradient
        kept = [_captured_input(values[i], sources[i]) for i in gradient.captured_inputs]
        kept += [self._captured_output(outputs[i], i) for i in gradient.captured_outputs]
        self._captures = kept

    def _captured_output(self, value: Any, index: int) -> Capture:
        slots = _each(self._outputs.get(self._linearization.same_as[index]))

        def wrap(item: Any) -> Capture:
            if not isinstance(item, np.ndarray):
                return OtherCapture(item)
            return TensorCapture(item, slot=next(slots, None) if is_floating(item) else None)

        return captured(value, wrap)

    def wrapped(self, outputs: Sequence[Any]) -> list[Any]:
        """The real outputs as Variables of this node's slots; what no gradient flows through has no past."""
        active = self._linearization.gradient.active_outputs
        results: list[Any] = []
        for i, is_active in enumerate(active):
            slots = _each(self._outputs.get(self._linearization.same_as[i]) if is_active else None)
            results.append(self._wrap(outputs[i], slots))
        return results

    def _wrap(self, value: Any, slots: Iterator[int]) -> Any:
        if isinstance(value, list):
            return [self._wrap(item, slots) for item in value]
        if not isinstance(value, np.ndarray):
            return value
        slot = next(slots, None) if is_floating(value) else None
        return without_past(value) if slot is None else recorded(value, self, slot)

    # --- backward ---

    def backward(self, gradients: list[Gradient], create_graph: bool) -> Sequence[Gradient]:
        captures = require_captures(self._captures, self.name)
        vjps = [self._vjp(layout, gradients, create_graph) for layout in self._outputs.values()]
        program = self._linearization.backward(tuple([_known_dtype(vjp) for vjp in vjps]))
        if create_graph:
            results = self._recorded_backward(program, vjps, captures)
        else:
            results = program.run([*vjps, *[capture.array() for capture in captures]])
        return self._by_edge(results)

    def _recorded_backward(self, program: Program, vjps: list[Any], captures: Sequence[Capture]) -> list[Any]:
        sources = [*vjps, *[capture.value(self) for capture in captures]]
        values = [*map(_arrays, vjps), *[capture.array() for capture in captures]]
        return run_program(program, values, sources)

    def _vjp(self, layout: Layout, gradients: list[Gradient], create_graph: bool) -> Any:
        """The gradient of one output; of a list, a list, with zeros for what is undefined in it.

        A backward that is recorded takes no undefined lists: a loop that it differentiates starts from the list.
        """
        if layout is None or isinstance(layout, int):
            return None if layout is None else gradients[layout]
        if not create_graph and all(gradients[slot] is None for slot in _each(layout)):
            return None
        return [self._element(item, gradients, create_graph) for item in layout]

    def _element(self, layout: Layout, gradients: list[Gradient], create_graph: bool) -> Any:
        if isinstance(layout, tuple):
            return [self._element(item, gradients, create_graph) for item in layout]
        if layout is None or gradients[layout] is not None:
            return None if layout is None else gradients[layout]
        zeros = self.metadata[layout].zeros()
        return as_variable(zeros) if create_graph else zeros

    def _by_edge(self, results: Sequence[Any]) -> list[Gradient]:
        gradients: list[Gradient] = [None] * len(self.edges)
        for layout, result in zip(self._inputs, results, strict=True):
            if isinstance(layout, int):
                gradients[layout] = result
            else:
                _spread(layout, result, gradients)
        return gradients

    def release(self) -> None:
        self._captures = None


def _slots(value: Any, metadata: list[Metadata]) -> Layout:
    """Slots for an output, added to `metadata`: none if it is no floating tensor at run time."""
    if isinstance(value, list):
        return tuple([_slots(item, metadata) for item in value])
    if not is_floating(value):
        return None
    metadata.append(Metadata(value.shape, value.dtype))
    return len(metadata) - 1


def _edges(source: Any, edges: list[Edge | None]) -> Layout:
    """Edges for an input, added to `edges`; an element of a list has one whether it requires a gradient or not."""
    if isinstance(source, list):
        return tuple([_edges(item, edges) for item in source])
    edges.append(None if source is None else source.edge)
    return len(edges) - 1


def _each(layout: Layout) -> Iterator[int]:
    """The numbers in a layout. Lists nest as deep as loops in source, so this recurses."""
    if isinstance(layout, int):
        yield layout
    elif layout is not None:
        for item in layout:
            yield from _each(item)


def _spread(layout: Layout, result: Any, gradients: list[Gradient]) -> None:
    """Put the gradients of a list where they belong."""
    if isinstance(layout, int):
        gradients[layout] = result
    elif layout is not None and result is not None:
        for item, gradient in zip(layout, result, strict=True):
            _spread(item, gradient, gradients)


def _captured_input(value: Any, source: Any) -> Capture:
    if isinstance(value, list):
        inner = source if isinstance(source, list) else [None] * len(value)
        return captured([_captured_input(v, s) for v, s in zip(value, inner, strict=True)], _same)
    if not isinstance(value, np.ndarray):
        return OtherCapture(value)
    return TensorCapture(value, None if source is None else source.edge)


def _same(capture: Any) -> Capture:
    return capture


def _arrays(value: Any) -> Any:
    """The arrays of Variables."""
    if isinstance(value, list):
        return [_arrays(item) for item in value]
    return value.data if isinstance(value, Variable) else value


def _known_dtype(vjp: Any) -> DType | None:
    if vjp is None:
        return None
    return FLOAT32 if isinstance(vjp, list) else dtype_of(vjp.data if isinstance(vjp, Variable) else vjp)
