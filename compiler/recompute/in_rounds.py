"""The same policy for the rounds of loops: what each round keeps is chosen as for a gradient of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...lang.light_dataclasses import dataclass
from ..autodiff.differentiate import differentiate
from ..autodiff.gradient import Gradient
from ..ir.graph import Graph
from ..ir.node import Value
from ..ops.meta import Abstract
from ..shapes.propagate import ShapeError
from .plain import normalized, takes_temporaries
from .policy import Predicate
from .problem import Problem, known_values
from .rebuild import rebuild
from .segments import primal_of

Choose = Callable[[Problem], set[Value]]


def with_chosen_rounds(
    gradient: Gradient,
    shapes: Sequence[Abstract],
    may_recompute: Predicate,
    choose: Choose,
    primal: Graph | None = None,
) -> Gradient | None:
    """The gradient with what its loops keep of each round chosen; None if there are no loops.

    `primal` as of `recompute`.
    """
    primal = primal or primal_of(gradient)
    if not any(node.kind == "prim::Loop" for node in primal.all_nodes()):
        return None
    requires_grad = [i in gradient.output_vjps for i in range(len(primal.inputs))]
    rounds = ChosenRounds(shapes, may_recompute, choose)
    return differentiate(primal, requires_grad, temporaries=False, rounds=rounds)


@dataclass(frozen=True, slots=True)
class ChosenRounds:
    """Rounds that keep what `choose` says; for kernels in terms of the ops that `prepared` makes of theirs."""

    shapes: Sequence[Abstract]
    may_recompute: Predicate
    choose: Choose
    prepared: Callable[[Gradient, Sequence[Abstract]], Gradient] | None = None

    def known(self, graph: Graph, shapes: Sequence[Abstract]) -> Mapping[Value, Abstract]:
        return known_values(graph, shapes) or {}

    def kept(self, gradient: Gradient, shapes: Sequence[Abstract], carried: int) -> Gradient:
        if takes_temporaries(gradient):
            return gradient
        try:
            plain = gradient if self.prepared is None else self.prepared(gradient, shapes)
        except ShapeError:
            return gradient
        in_registers = self.prepared is not None
        problem = Problem(normalized(plain), shapes, self.may_recompute, carried, in_registers=in_registers)
        return gradient if problem.known is None else rebuild(problem, self.choose(problem))[0]
