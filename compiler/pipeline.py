"""Running passes: the table of pipelines, and the check that each pass leaves valid IR.

A pass is `Graph -> bool`: it changes the graph in place and says whether it did. No pass imports another; what
follows what is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from .ir import Graph
from .passes.aggregate_gradients import aggregate_gradients
from .passes.batch_matmuls import batch_matmuls
from .passes.canonicalize import canonicalize
from .passes.check_in_place import check_in_place
from .passes.decompose_ops import decompose_ops
from .passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from .passes.eliminate_dead_code import eliminate_dead_code
from .passes.fold_constants import fold_constants
from .passes.inline_functions import inline_functions
from .passes.lower_grad_of import lower_grad_of
from .passes.lower_tuples import lower_tuples
from .passes.peephole import peephole
from .passes.pool_constants import pool_constants
from .passes.propagate_requires_grad import propagate_requires_grad
from .passes.propagate_types import propagate_types
from .passes.remove_expands import remove_expands
from .passes.remove_hints import remove_hints
from .passes.simplify_broadcasts import simplify_broadcasts
from .passes.specialize_autograd_zero import specialize_autograd_zero
from .passes.specialize_types import specialize_types
from .passes.unroll_loops import unroll_loops
from .verify import InvalidIR, verify

Pass: TypeAlias = Callable[[Graph], bool]
Dump: TypeAlias = Callable[[str, Graph], None]
"""Called with a pass's name and the graph it left, whenever it changed something."""

MAX_ROUNDS = 10
"""Of a pipeline that is run until nothing changes. Each round is sound, so stopping early only leaves work undone."""


class InvalidPass(Exception):
    """A pass left a graph that breaks a rule; the message names the pass, `.__cause__` is what the verifier said."""

    def __init__(self, name: str, invalid: InvalidIR) -> None:
        self.pass_name = name
        super().__init__(f"pass {name} left invalid IR: {invalid}")


def pass_name(pass_: Pass) -> str:
    """The name by which a pass is reported."""
    function = pass_.func if isinstance(pass_, partial) else pass_
    return str(getattr(function, "__name__", function))


def run_passes(graph: Graph, passes: Sequence[Pass], *, verify_between: bool = True, dump: Dump | None = None) -> bool:
    """Run each pass once; True if any changed the graph.

    InvalidIR if it was not valid to begin with, TypeError for a pass that does not say whether it changed anything.
    """
    if verify_between:
        verify(graph)
    changed = False
    for pass_ in passes:
        did = pass_(graph)
        if not isinstance(did, bool):
            raise TypeError(f"pass {pass_name(pass_)} returned {did!r}: a pass says whether it changed the graph")
        changed |= did
        # A pass may break a graph and say that it changed nothing, so this does not depend on its word.
        if verify_between:
            _verify_after(pass_, graph)
        if did and dump is not None:
            dump(pass_name(pass_), graph)
    return changed


def run_to_fixpoint(
    graph: Graph, passes: Sequence[Pass], *, verify_between: bool = True, dump: Dump | None = None
) -> bool:
    """Run the passes again and again until none changes anything, at most MAX_ROUNDS times."""
    changed = False
    for _ in range(MAX_ROUNDS):
        if not run_passes(graph, passes, verify_between=verify_between, dump=dump):
            break
        changed = True
    return changed


def _verify_after(pass_: Pass, graph: Graph) -> None:
    try:
        verify(graph)
    except InvalidIR as invalid:
        raise InvalidPass(pass_name(pass_), invalid) from invalid


inline_keeping_pairs: Pass = partial(inline_functions, keep_pairs=True)
"""Inlining before differentiation: calls of functions that carry a pair stay."""

SIMPLIFY: tuple[Pass, ...] = (
    propagate_types,
    fold_constants,
    lower_tuples,
    peephole,
    simplify_broadcasts,
    eliminate_common_subexpressions,
    pool_constants,
    eliminate_dead_code,
)
AGGREGATE: tuple[Pass, ...] = (aggregate_gradients, eliminate_dead_code)
"""What runs last on the backward of a Gradient, when nothing is going to differentiate it or draw it into kernels."""
EXECUTOR: dict[str, tuple[Pass, ...]] = {
    "specialize": (specialize_types,),
    "inline": (inline_functions,),
    "inline_keeping_pairs": (inline_keeping_pairs,),
    "lower": (lower_grad_of, specialize_autograd_zero, lower_tuples, pool_constants),
    "required": (remove_expands, canonicalize, eliminate_dead_code),
    # A dtype that is asked for is a constant once types are known, and types then follow from it.
    "propagate": (fold_constants, propagate_types, fold_constants, propagate_types, propagate_requires_grad),
    "optimize": (
        eliminate_dead_code,
        eliminate_common_subexpressions,
        pool_constants,
        peephole,
        simplify_broadcasts,
        fold_constants,
        unroll_loops,
        eliminate_common_subexpressions,
        check_in_place,
    ),
    "autodiff": (),
    "decompose": (inline_functions, remove_hints, decompose_ops),
    "batch": (batch_matmuls,),
    "fuse": (),
    "aggregate": (aggregate_gradients,),
    # Dtypes that were asked for have become constants since the last time.
    "finish": (peephole, pool_constants, eliminate_dead_code),
}
"""What the executor does to a graph, stage by stage in this order; `stages` says which of them a plan goes through.

At "autodiff" it gathers what can be differentiated, by `autodiff.subgraphs`, before a user's passes run. "fuse" is
theirs alone: the last look at a graph of plain ops. The library's own kernels are compiled for shapes, which plans do
not depend on, and so go another way (`fusion`).
"""
PIPELINES: dict[str, tuple[Pass, ...]] = {
    "simplify": SIMPLIFY,
    "clean": (pool_constants, eliminate_dead_code),
    "before_autodiff": (inline_keeping_pairs, *SIMPLIFY),
    "after_autodiff": (
        inline_functions,
        specialize_autograd_zero,
        lower_grad_of,
        *SIMPLIFY,
        canonicalize,
        *AGGREGATE,
    ),
    "executor": tuple(pass_ for passes in EXECUTOR.values() for pass_ in passes),
}
"""Sequences of passes by name; run one with run_passes, or with run_to_fixpoint."""

_ONLY_DIFFERENTIABLE = ("inline_keeping_pairs", "autodiff")
_ONLY_PLAIN = ("inline", "decompose", "batch", "fuse", "aggregate")

_registered: dict[str, list[Pass]] = {}


def stages(*, differentiable: bool) -> tuple[str, ...]:
    """The stages of a plan: with what can be differentiated sliced out, or with rewrites that cannot be."""
    left_out = _ONLY_PLAIN if differentiable else _ONLY_DIFFERENTIABLE
    return tuple(name for name in EXECUTOR if name not in left_out)


def run_stage(graph: Graph, name: str) -> None:
    """Run a stage's passes, then those that users have registered there.

    What a user's leaves is verified, and that the graph still takes and gives as many values.
    """
    run_passes(graph, EXECUTOR[name], verify_between=False)
    for pass_ in tuple(_registered.get(name, ())):
        before = len(graph.inputs), len(graph.outputs)
        run_passes(graph, (pass_,))
        after = len(graph.inputs), len(graph.outputs)
        if after != before:
            rule = f"it has {after[0]} inputs and {after[1]} results, and had {before[0]} and {before[1]}"
            raise InvalidPass(pass_name(pass_), InvalidIR(graph, rule))


def register_pass(point: str, pass_: Pass) -> Callable[[], None]:
    """Run a pass of a user's at the end of a stage of EXECUTOR; returns what takes it away again.

    A stage that a plan does not go through does not run its passes either. ValueError for an unknown stage.
    """
    if point not in EXECUTOR:
        raise ValueError(f"there is no point '{point}'; the points are {', '.join(EXECUTOR)}")
    if not callable(pass_):
        raise TypeError(f"a pass is a function from a graph to bool, not {type(pass_).__name__}")
    _registered.setdefault(point, []).append(pass_)

    def remove() -> None:
        if pass_ in _registered[point]:
            _registered[point].remove(pass_)

    return remove
