"""gs.tape.Function in a trace: its forward and backward recorded as a function that carries its own backward.

    class Cube(gs.tape.Function): …                      def Cube(x):
        forward(ctx, x):    ctx.save_for_backward(x)        def backward(grad_output):
                            return x * x * x          ─▶        return grad_output * 3 * x * x
        backward(ctx, g):   x, = ctx.saved                  return x * x * x, backward
                            return g * 3 * x * x

So the trace is differentiated by what the class says, as it would be on the tape. Arguments that are no tensors, sizes
or numbers of the trace are kept as the example has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compiler.ir.graph import Callee
from ...compiler.ir.node import Value
from ...compiler.lift import lift_closures
from ...compiler.types.schema import Argument, FunctionSchema
from ...compiler.types.types import CLOSURE, TENSOR, Type, is_tensor
from ...lang.diagnostics import Diagnostics
from ...lang.source import NO_SPAN
from ..execution.compiled import Compiled
from ..execution.gradients import can_have_gradient
from ..tape.custom import Context, gradients_of
from ..values.recorded import Recorded
from .tracer import Tracer

if TYPE_CHECKING:
    from ..tape.custom import TapeFunction


def call_custom(tracer: Tracer, function: type[TapeFunction], args: Sequence[Any]) -> Any:
    """Put a call into a trace; what the function returns for the example, as tracing values."""
    made = _FunctionTracer(function, args)
    result = tracer.call(made.function(), made.taken, {})
    results = result if isinstance(result, tuple) else (result,)
    return made.kind(results) if made.kind is not None else results[0]


class _FunctionTracer(Tracer):
    """The trace of one call. `taken` are the arguments that the function made of it takes."""

    def __init__(self, function: type[TapeFunction], args: Sequence[Any]) -> None:
        super().__init__(function.__name__, NO_SPAN, call_custom)
        self._function = function
        self.taken: tuple[Any, ...] = ()
        parameters = [self._parameter(value, i) for i, value in enumerate(args)]
        self._positions = [i for i, value in enumerate(parameters) if isinstance(value, Recorded)]
        self._count = len(args)
        examples = [value.peek() if isinstance(value, Recorded) else value for value in parameters]
        self._ctx = Context(tuple([can_have_gradient(example) for example in examples]))
        result = function.forward(self._ctx, *parameters)
        self.kind = type(result) if isinstance(result, tuple | list) else None
        self._outputs: list[Any] = [*result] if isinstance(result, tuple | list) else [result]

    def _parameter(self, value: Any, index: int) -> Any:
        """What forward gets: a tracing value for what is recorded and for arrays, anything else as it is."""
        if not isinstance(value, Recorded | np.ndarray):
            return value
        self.taken = (*self.taken, value)
        return self.add_input(f"x{index}", value.peek() if isinstance(value, Recorded) else value)

    def function(self) -> Compiled:
        """The function, with its backward."""
        outputs = [self.value_of(output) for output in self._outputs]
        closure = self._closure([value.type for value in outputs])
        self._builder.returns(*outputs, closure)
        self.is_open = False
        returns = tuple(Argument(f"result{i}", value.type) for i, value in enumerate(outputs))
        schema = FunctionSchema(self.name, "", tuple(self._arguments), returns)
        diagnostics = Diagnostics()
        pair = lift_closures(self._graph, schema, diagnostics)
        diagnostics.raise_if_any()
        return Compiled(Callee(schema, self._graph, pair))

    def _closure(self, types: Sequence[Type]) -> Value:
        """The backward as a closure of the graph: it uses what the forward made as it is."""
        node = self._builder.node("prim::Function", (), [CLOSURE], attrs={"name": "backward"}, blocks=1)
        (block,) = node.blocks
        with self._builder.before(block.ret):
            given = [self._gradient(block.add_input(TENSOR, f"grad{i}"), i, type) for i, type in enumerate(types)]
            found = gradients_of(self._function, self._ctx, given, self._count)
            results = [self.value_of(self._checked(found[i])) for i in self._positions]
        block.ret.replace_inputs(results)
        return node.output

    def _gradient(self, value: Value, index: int, type: Type) -> Any:
        """What backward gets for one output: None where that has no gradient."""
        output = self._outputs[index]
        example = output.peek() if isinstance(output, Recorded) else output
        if not is_tensor(type) or not can_have_gradient(example) or not self._ctx.has_gradient(output):
            return None
        return self._wrap(value, np.ones_like(example))

    def _checked(self, gradient: Any) -> Any:
        return np.asarray(gradient) if isinstance(gradient, int | float) else gradient
