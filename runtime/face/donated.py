"""DonatingGradient: what `gs.grad` and `gs.value_and_grad` return where arguments are donated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...compiler.ir.graph import Callee
from ...compiler.types.types import TupleType
from ..failures.failure import RuntimeFailure
from ..settings.modes import runs_c
from ..values.arrays import any_on_device, maker_of, to_user
from ..values.recorded import taker_of
from .function import Function

if TYPE_CHECKING:
    from ..kernels.c.donation import DonatingCGraph
    from ..kernels.donation import DonatingGraph


class DonatingGradient(Function):
    """The value, if asked for, and gradients, of which some lie where their arguments did.

    `donated` has, by the parameter's position, that of its gradient among the results with tuples taken apart. As a
    Function it is the graph of both passes; calls that run op by op donate nothing.
    """

    def __init__(self, callee: Callee, donated: Mapping[int, int]) -> None:
        super().__init__(callee)
        self._donated = donated
        if any(isinstance(value.type, TupleType) for value in self.graph.inputs):
            raise ValueError(f"'{self.name}' takes tuples: it has no arguments to donate")

    @cached_property
    def _in_c(self) -> DonatingCGraph:
        from ..kernels.c.donation import DonatingCGraph

        return DonatingCGraph(self.graph, self._donated)

    @cached_property
    def _by_device(self) -> DonatingGraph:
        from ..kernels.donation import DonatingGraph

        return DonatingGraph(self.graph, self._donated)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if taker_of(given) is not None or any(getattr(value, "requires_grad", False) for value in given):
            message = "a call that is recorded keeps its arguments: they cannot be donated"
            raise RuntimeFailure("R003", self.title, message, span=self.graph.span)
        if any_on_device(given):
            results = self._by_device.run(self.on_device.bind(args, kwargs))
            return results[0] if len(results) == 1 else tuple(results)
        if not runs_c():
            return super().__call__(*args, **kwargs)
        from ..kernels.c.donation import require_own

        values = self.bind(args, kwargs)
        require_own(self.graph, values, [*self._donated])
        by_kernels = self._in_c.run(values)
        if by_kernels is None:
            return super().__call__(*args, **kwargs)
        make = maker_of(given)
        found = [to_user(result, make) for result in by_kernels]
        return found[0] if len(found) == 1 else tuple(found)
