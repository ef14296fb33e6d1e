"""Reverse-mode differentiation of a graph: Graph → Gradient.

Forward, each node through which a gradient may pass gets a rule: a formula of the library, the pair of the user's
function that it calls, or, for branches and loops, the gradients of their bodies. What a rule's backward will need
(the formula's context) is computed beside the node. In reverse, the rules build `df`; what that uses of the
forward becomes its captures, and each captured temporary becomes a further input of gradient, until nothing new is
captured: so the pair can itself be differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lang.collection import collection_paused
from ...lang.trampoline import Walk, run
from ..analysis.floats import Floats, asks_for_a_dtype
from ..ir.graph import Graph
from ..lift import callee_of
from ..ops.meta import Abstract
from ..pipeline import run_recipe
from ..types.types import UNDEFINED, is_differentiable
from .aggregation import Aggregation
from .aggregation import aggregation as chosen_aggregation
from .backward import Backward
from .differentiable import differentiable_graph
from .forward import Forward
from .gradient import Gradient
from .kept_rounds import Rounds
from .requires_grad import answer_requires_grad

_OF_GRADIENTS = frozenset({"prim::GradOf", "prim::AutogradZero", "prim::no_grads"})
"""Nodes of graphs in which there are gradients that may be undefined."""


def differentiate(
    graph: Graph,
    requires_grad: Sequence[bool] | None = None,
    *,
    temporaries: bool = True,
    rounds: Rounds | None = None,
    aggregation: Aggregation | None = None,
    results_are_asked: bool = False,
    is_asked: bool = False,
) -> Gradient:
    """The gradient of a graph with respect to the inputs that require one (None: every input that can have one).

    With `temporaries`, `df` also takes gradients of captured temporaries, for a caller that differentiates `df` on
    its own. One that makes a single graph of f and df, and differentiates that, needs none of them. `rounds` chooses
    what loops keep of their rounds; without it, it is what their backwards use. `aggregation` says what gradients that
    meet become, in branches and rounds too; without it, it is the one that was chosen for all (`choose_aggregation`).

    Where `results_are_asked`, its results are a user's, who gives gradients of floats alone. With `is_asked`, `df` is
    for callers with a gradient that is there, as far as it takes one alone.

    A graph that returns a closure is differentiated by it. Raises CompileError (E408) where a gradient would have to
    pass through an op that has none.
    """
    if graph.returns_closure:
        graph = differentiable_graph(callee_of(graph))
    # A gradient that is asked for by name is of an input of floats.
    floating = [False] * len(graph.inputs) if requires_grad is None else requires_grad
    if requires_grad is None:
        requires_grad = [True] * len(graph.inputs)
    shapes = rounds.shapes if rounds is not None else ()
    chosen = aggregation if aggregation is not None else chosen_aggregation()
    walk = _differentiate(
        *(graph, requires_grad, temporaries, rounds, shapes, chosen),
        lacks=False,
        floating=floating,
        results_are_asked=results_are_asked,
        is_asked=is_asked,
    )
    with collection_paused():
        return run(walk)  # type: ignore[no-any-return]


def _differentiate(
    graph: Graph,
    requires_grad: Sequence[bool],
    temporaries: bool,
    rounds: Rounds | None,
    shapes: Sequence[Abstract],
    aggregation: Aggregation,
    *,
    lacks: bool,
    floating: Sequence[bool],
    results_are_asked: bool = False,
    is_part: bool = False,
    is_asked: bool = False,
) -> Walk:
    """`shapes` are known for `rounds` only. `lacks` says that inputs may be gradients that are undefined, `floating`
    which are of floats for sure. A graph that `is_part` of one that is differentiated is the caller's to be changed."""
    lacks = lacks or any(node.kind in _OF_GRADIENTS for node in graph.all_nodes())
    # Functions that have no pair are inlined. Where a gradient may be undefined, a branch asks if it is.
    f = graph if is_part else graph.copy()
    run_recipe(f, "before_autodiff")
    active = {v for v, wanted in zip(f.inputs, requires_grad, strict=True) if wanted and is_differentiable(v.type)}
    answer_requires_grad(f, dict.fromkeys(active, True))
    wanted = [i for i, value in enumerate(f.inputs) if value in active]
    known = dict(rounds.known(f, shapes)) if rounds is not None else {}
    floats = None
    if asks_for_a_dtype(f):
        given = [v for v, sure in zip(f.inputs, floating, strict=True) if sure and is_differentiable(v.type)]
        asked = [v for v in f.outputs if is_differentiable(v.type)] if results_are_asked else []
        floats = Floats(f, given, asked)
    forward = Forward(f, active, temporaries, rounds, known, aggregation, lacks, _differentiate, floats)
    yield forward.prepare()
    # What contexts are made of was written for tensors of any kind.
    run_recipe(f, "types")
    # Of what turned out to be no gradient at all there is none either.
    active.difference_update([value for value in active if value.type == UNDEFINED])
    return Backward(forward, wanted, temporaries, is_asked).build()
