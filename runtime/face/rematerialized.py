"""RematerializedGradient: what `gs.grad` and `gs.value_and_grad` return under a policy of recomputation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.autodiff.flatten import leaves, rebuilt
from ...compiler.ir.graph import Callee
from ...compiler.ops.arrays import Array
from ...compiler.ops.registry import OPS
from ...compiler.recompute import Policy
from ..execution.derivatives import derivatives_of
from ..failures.failure import RuntimeFailure
from ..values.arrays import maker_of, to_user
from ..values.recorded import taker_of
from .function import Function


class RematerializedGradient(Function):
    """The value, if asked for, and the gradients of a function of one number, by a forward and a backward apart.

    As a Function it is the graph of both, which is what is shown, called by other functions and differentiated again;
    its calls on arrays run the two under the policy, compiled for the shapes of the arguments, and a value that is
    saved is freed after its last use.
    """

    def __init__(
        self, callee: Callee, primal: Function, wrt: Sequence[int], policy: Policy, *, with_value: bool, as_tuple: bool
    ) -> None:
        super().__init__(callee)
        self.policy = policy
        self._primal = primal
        self._wrt = tuple(wrt)
        self._with_value = with_value
        self._as_tuple = as_tuple

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if taker_of(given) is not None or any(getattr(value, "requires_grad", False) for value in given):
            # A tape, a tracer or torch records the call, as one of the whole graph.
            return super().__call__(*args, **kwargs)
        values = self.bind(args, kwargs)
        derivatives = derivatives_of(self._primal)
        differentiated, _ = derivatives.rematerialize(values, self.policy, self._wrt)
        flat = leaves(values, derivatives.input_types)
        (value,), residuals = differentiated.run(flat)
        seed = self._seed(value)
        found = rebuilt(iter(differentiated.pull_back_once(flat, [seed], residuals)), derivatives.input_types)
        make = maker_of(given)
        gradients = [to_user(_dense(found[i], values[i]), make) for i in self._wrt]
        result = tuple(gradients) if self._as_tuple else gradients[0]
        return (to_user(value, make), result) if self._with_value else result

    def _seed(self, value: Array) -> Array:
        """The gradient of the output by itself; RuntimeFailure where it is more than a number."""
        try:
            return OPS.named("prim::scalar_seed").evaluate(value)
        except ValueError as error:
            raise RuntimeFailure("R101", self.title, str(error), span=self.graph.span) from error


def _dense(gradient: Any, primal: Any) -> Any:
    """Zeros for a gradient that is not there."""
    if isinstance(primal, list):
        parts = [None] * len(primal) if gradient is None else gradient
        return [_dense(g, p) for g, p in zip(parts, primal, strict=True)]
    return np.zeros_like(primal) if gradient is None else gradient
