"""DifferentiableGraph: one node of the tape for a group of a plan, a function's own backward, or one op.

Forward runs `Gradient.f` and keeps the captures; backward runs `Gradient.df` on them. Where the backward is recorded,
`df` is recorded as any other program is, on captures that remember where they came from: inputs by their edges,
temporaries by slots of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...compiler.autodiff.gradient import residuals_of
from ...compiler.ops.arrays import dtype_of
from ...lang.diagnostics import CompileError
from ..execution.differentiated import CompiledGraph, Differentiated, PatternKey, pattern_of
from ..execution.mixed_dtypes import for_arrays
from .captures import Capture, NestedEdges, TensorCapture, captured, require_captures
from .fingerprints import check_fingerprints, fingerprints_of, is_checking
from .node import Edge, GradientValue, Metadata, TapeNode
from .programs import captured_names, tape_key
from .value import TapeValue, as_variable, needs_gradient, plain, recorded, wrapped


def run_on_tape(program: CompiledGraph, values: Sequence[Any]) -> list[Any]:
    """The outputs: Variables of a new node where a gradient flows, arrays elsewhere.

    `values` are mixed, and gradients are recorded whatever the mode.
    """
    key = tape_key(program, values)
    if True in key:
        return record_on_tape(program, key, values)
    return program.run([plain(value) for value in values])


def record_on_tape(program: CompiledGraph, key: PatternKey, values: Sequence[Any]) -> list[Any]:
    """`run_on_tape` for values of a key that wants a gradient."""
    if program.takes_lists:
        arrays = [plain(value) for value in values]
    else:
        arrays = [value._data if isinstance(value, TapeValue) else value for value in values]
    differentiated = for_arrays(program, arrays).differentiate(key)
    if isinstance(differentiated, CompileError):
        outputs = program.run(arrays)
        return RefusalNode(program.name, differentiated, values, outputs).results
    if not differentiated.is_active:
        return program.run(arrays)
    outputs = differentiated.forward.run(arrays)
    results = DifferentiableGraph(differentiated, values, arrays, outputs).results(outputs)
    return _handed_on(results, values, arrays, outputs) if program.has_blocks else results


def _handed_on(
    results: Sequence[Any], values: Sequence[Any], arrays: Sequence[Any], outputs: Sequence[Any]
) -> list[Any]:
    """The results, a value itself where branches and loops went such that it is handed on as it is."""
    given: dict[int, Any] = {}
    for array, value in zip(arrays, values, strict=True):
        if isinstance(array, np.ndarray):
            # Of two values that share an array nobody can tell which it is.
            given[id(array)] = value if given.get(id(array), value) is value else None
    return [
        value if _asks_alike(value := given.get(id(output)), result) else result
        for output, result in zip(outputs, results, strict=False)
    ]


def _asks_alike(value: Any, result: Any) -> bool:
    """Whether a value that has the array of a result is that result: what is written into under `no_grad` has the array
    of what was written, and the gradient of what was there."""
    return value is not None and needs_gradient(value) == needs_gradient(result)


class DifferentiableGraph(TapeNode):
    """The node of a program. Slots are the outputs of f that a gradient flows through.

    Those of temporaries come last, and only once a backward that is recorded leads gradients to them.
    """

    __slots__ = ("_fingerprints", "_inputs", "_kept", "_outputs", "_what", "_wiring")

    def __init__(
        self, differentiated: Differentiated, values: Sequence[Any], arrays: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        metadata: list[Metadata] = []
        edges: list[Edge | None] = []
        gradient = differentiated.gradient
        self._what = differentiated
        self._wiring = differentiated.wiring
        self._outputs: list[NestedEdges] = [_slots(outputs[i], metadata) for i in self._wiring.real_vjps]
        self._inputs: list[NestedEdges] = [_edges(values[i], edges) for i in gradient.output_vjps]
        super().__init__(differentiated.name, edges, metadata)
        kept = residuals_of(gradient, arrays, outputs)
        self._kept: list[Any] | None = kept
        self._fingerprints = fingerprints_of(kept) if is_checking() else None

    def results(self, outputs: Sequence[Any]) -> list[Any]:
        """The real outputs as Variables of this node's slots; what no gradient flows through stays as it is."""
        return [
            outputs[i] if place is None else _placed(self, outputs[i], self._outputs[place])
            for i, place in enumerate(self._wiring.real_places)
        ]

    # --- captures ---

    @property
    def captures(self) -> list[Capture]:
        """What df takes of inputs and outputs. RuntimeError where it has been freed."""
        self._add_slots()
        kept = iter(require_captures(self._kept, self.name))
        inputs = [None if place is None else self._inputs[place] for place in self._wiring.input_places]
        outputs = [None if place is None else self._outputs[place] for place in self._wiring.output_places]
        found = [captured(next(kept), layout, self._of_input) for layout in inputs]
        return found + [captured(value, layout, self._of_output) for value, layout in zip(kept, outputs, strict=True)]

    def _of_input(self, array: Any, layout: int | None) -> TensorCapture:
        return TensorCapture(array, edge=None if layout is None else self.edges[layout])

    def _of_output(self, array: Any, layout: int | None) -> TensorCapture:
        return TensorCapture(array, slot=layout)

    def _add_slots(self) -> None:
        """Slots for the temporaries, whose gradients a second derivative needs."""
        if len(self._outputs) == len(self._what.gradient.input_vjps):
            return
        kept = require_captures(self._kept, self.name)
        metadata = list(self.metadata)
        temporaries = [None if i is None else _slots(kept[i], metadata) for i in self._wiring.kept_temporaries]
        # Another thread may be adding the same.
        self.metadata = tuple(metadata)
        self._outputs = [*self._outputs, *temporaries]

    def release(self) -> None:
        self._kept = None

    # --- backward ---

    def backward(self, gradients: list[GradientValue], create_graph: bool, keeps: bool) -> Sequence[GradientValue]:
        kept = require_captures(self._kept, self.name)
        if self._fingerprints is not None:
            check_fingerprints(self.name, captured_names(self._what), kept, self._fingerprints)
        vjps = self._vjps(gradients, create_graph)
        program = self._what.backward(tuple([None if vjp is None else pattern_of(vjp) for vjp in vjps]))
        if create_graph:
            results = run_on_tape(program, [*vjps, *[capture.value(self) for capture in self.captures]])
            return self._by_edge([wrapped(result) for result in results])
        if keeps:
            return self._by_edge(program.run([*vjps, *kept]))
        self._kept = None
        vjps += kept
        kept.clear()
        return self._by_edge(program.use_up(vjps))

    def _vjps(self, gradients: list[GradientValue], create_graph: bool) -> list[Any]:
        """The gradient of each output that has one, temporaries included."""
        vjps = [
            gradients[layout] if isinstance(layout, int) else self._of_list(layout, gradients, create_graph)
            for layout in self._outputs
        ]
        return vjps + [None] * (len(self._what.gradient.input_vjps) - len(vjps))

    def _of_list(self, layout: NestedEdges, gradients: list[GradientValue], create_graph: bool) -> Any:
        """The gradient of an output that is a list: undefined, or a list with zeros for what is undefined in it."""
        if layout is None or all(gradients[slot] is None for slot in _each(layout)):
            return None
        return self._element(layout, gradients, create_graph)

    def _element(self, layout: NestedEdges, gradients: list[GradientValue], create_graph: bool) -> Any:
        if isinstance(layout, tuple):
            return [self._element(item, gradients, create_graph) for item in layout]
        if layout is None or gradients[layout] is not None:
            return None if layout is None else gradients[layout]
        zeros = self.metadata[layout].zeros()
        return as_variable(zeros) if create_graph else zeros

    def _by_edge(self, results: Sequence[Any]) -> Sequence[GradientValue]:
        if not self._what.takes_lists:
            return results
        gradients: list[GradientValue] = [None] * len(self.edges)
        for layout, result in zip(self._inputs, results, strict=True):
            _spread(layout, result, gradients)
        return gradients


class RefusalNode(TapeNode):
    """The node of an op that has no gradient: it says so if one is asked for. `results` are its outputs."""

    __slots__ = ("_error", "results")

    def __init__(self, name: str, error: CompileError, values: Sequence[Any], outputs: Sequence[Any]) -> None:
        metadata: list[Metadata] = []
        edges: list[Edge | None] = []
        layouts = [_slots(output, metadata) for output in outputs]
        for value in values:
            _edges(value, edges)
        super().__init__(name, edges, metadata)
        self._error = error
        self.results = [_placed(self, output, layout) for output, layout in zip(outputs, layouts, strict=True)]

    def backward(self, gradients: list[GradientValue], create_graph: bool, keeps: bool) -> Sequence[GradientValue]:
        raise CompileError(self._error.diagnostics)


def _slots(value: Any, metadata: list[Metadata]) -> NestedEdges:
    """Slots for an output, added to `metadata`: none if it is no floating tensor at run time."""
    if isinstance(value, np.ndarray):
        if not dtype_of(value).is_floating:
            return None
        metadata.append(Metadata(value.shape, value.dtype))
        return len(metadata) - 1
    return tuple([_slots(item, metadata) for item in value]) if isinstance(value, list) else None


def _edges(value: Any, edges: list[Edge | None]) -> NestedEdges:
    """Edges for an input, added to `edges`; an element of a list has one whether it requires a gradient or not."""
    if isinstance(value, list):
        return tuple([_edges(item, edges) for item in value])
    edges.append(value.edge if isinstance(value, TapeValue) else None)
    return len(edges) - 1


def _placed(node: TapeNode, value: Any, layout: NestedEdges) -> Any:
    """An output as Variables of a node's slots."""
    if isinstance(layout, int):
        return recorded(value, node, layout)
    if layout is None:
        return value
    return [_placed(node, item, inner) for item, inner in zip(value, layout, strict=True)]


def _each(layout: NestedEdges) -> Iterator[int]:
    """The numbers in a layout. Lists nest as deep as loops in source, so this recurses."""
    if isinstance(layout, int):
        yield layout
    elif layout is not None:
        for item in layout:
            yield from _each(item)


def _spread(layout: NestedEdges, result: Any, gradients: list[GradientValue]) -> None:
    """Put the gradients of an input, or of the elements of a list, where they belong."""
    if isinstance(layout, int):
        gradients[layout] = result
    elif layout is not None and result is not None:
        for item, gradient in zip(layout, result, strict=True):
            _spread(item, gradient, gradients)
