"""What functions and their halves run, stage by stage, for who asks how it goes with parts of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....compiler.analysis.draws import draws
from ....compiler.autodiff.gradient import residuals_of
from ....compiler.ir.graph import Graph
from ....compiler.ops.arrays import numpy_dtype
from ....compiler.ops.meta import UNKNOWN, Meta
from ....compiler.shapes.propagate import ShapeError, propagate_shapes
from ....compiler.sharding.derive import ShardedStage
from ....compiler.specialize.straighten import write_out_rounds
from ...execution.compilation import device_graph
from ...execution.compiled import Compiled
from ...execution.gradients import settled
from ...tape.programs import program_of
from ..places import each
from .halves import Halves, has_gradient
from .sharding import Staged


def stages_of_function(function: Compiled, values: Sequence[Any]) -> Staged:
    """What a call of a function runs."""
    graph = device_graph(program_of(function)[0].graph)
    count = len(graph.outputs)
    if draws(graph):
        return Staged([], values, [0] * count)
    stage = ShardedStage(_written_out(graph, values), tuple(range(len(values))))
    return Staged([stage], values, range(len(values), len(values) + count))


def stages_of_forward(halves: Halves, values: Sequence[Any]) -> Staged:
    """What the forward runs on arguments like these."""
    if halves.draws:
        return Staged([], values, [0] * len(halves.forward_results))
    graph = _written_out(device_graph(halves.exchange.forward), values)
    stage = ShardedStage(graph, tuple(range(len(values))))
    return Staged([stage], values, range(len(values), len(values) + len(halves.forward_results)))


def example_of_backward(halves: Halves, values: Sequence[Any]) -> list[Any]:
    """The abstract values of what the backward takes where the forward took these, all gradients wanted."""
    known = propagate_shapes(halves.differentiated.gradient.f, values)
    outputs = [known.get(value, UNKNOWN) for value in halves.differentiated.gradient.f.outputs]
    # No rule speaks of gradients in lists.
    outputs = [UNKNOWN if isinstance(output, list | tuple) else output for output in outputs]
    vjps = [outputs[i] if i < halves.num_real and has_gradient(outputs[i]) else None for i in halves.vjps]
    taken = [values[i] for i in halves.exchange.needed]
    kept = [outputs[i] for i in halves.exchange.kept]
    return [*vjps, *taken, *kept, *([None] if halves.draws else []), [True] * len(halves.wanted)]


def stages_of_backward(halves: Halves, arguments: Sequence[Any]) -> Staged:
    """What the backward runs on arguments like these: the forward once more, as far as needed, and the gradients."""
    exchange, gradient = halves.exchange, halves.differentiated.gradient
    vjps, inputs, _, _, mask = halves.parted(arguments)
    program, defined = halves.program_for(tuple([_dtype_of(vjp) for vjp in vjps]), inputs, mask)
    results: list[int | None] = [0 if n in defined else None for n in range(len(halves.wanted))]
    values = [*arguments, None]
    if not defined or halves.draws:
        return Staged([], values, results)
    absent = len(arguments)
    at_vjps = {i: n for n, i in enumerate(halves.vjps)}
    at_inputs = {i: len(halves.vjps) + n for n, i in enumerate(exchange.needed)}
    at_outputs = {i: len(halves.vjps) + len(at_inputs) + n for n, i in enumerate(exchange.kept)}
    stages = []
    if exchange.computed:
        taken = [*(at_inputs[i] for i in exchange.again_inputs), *(at_outputs[i] for i in exchange.kept)]
        stages.append(ShardedStage(_written_out(exchange.again, [values[i] for i in taken]), tuple(taken)))
        at_outputs |= {i: len(values) + n for n, i in enumerate(exchange.computed)}
    taken = [
        at_vjps.get(i, absent) if v is not None else absent for i, v in zip(gradient.input_vjps, vjps, strict=True)
    ]
    taken += residuals_of(gradient, at_inputs, at_outputs)
    longer = each(values, _longer)
    known, known_longer = ([*given, *_outputs(stages, given)] for given in (values, longer))
    rounds = write_out_rounds(settled(program.graph), *([given[i] for i in taken] for given in (known, known_longer)))
    stages.append(ShardedStage(rounds, tuple(taken)))
    first = len(values) + len(exchange.computed)
    for n, place in enumerate(defined):
        results[place] = first + n
    return Staged(stages, values, results, {n: at_inputs[i] for n, i in enumerate(halves.wanted) if n in defined})


def _outputs(stages: Sequence[ShardedStage], values: Sequence[Any]) -> list[Any]:
    """What the last of the stages gives, if there is one."""
    if not stages:
        return []
    graph = stages[-1].graph
    try:
        known = propagate_shapes(graph, [values[i] for i in stages[-1].inputs])
    except ShapeError:
        return [UNKNOWN] * len(graph.outputs)
    return [known.get(value, UNKNOWN) for value in graph.outputs]


def _written_out(graph: Graph, values: Sequence[Any]) -> Graph:
    """The graph with the loops written out whose rounds are not told by sizes, which differ from part to whole."""
    return write_out_rounds(graph, values, each(values, _longer))


def _longer(value: Any) -> Any:
    return Meta(tuple([_TIMES * size for size in value.shape]), value.dtype) if isinstance(value, Meta) else value


_TIMES = 3


def _dtype_of(vjp: Meta | None) -> Any:
    return None if vjp is None else numpy_dtype(vjp.dtype)
