"""The order of compilation: what runs on a graph, in which order, on each of its ways from source to a result.

A pass is `Graph -> bool`: it changes the graph in place and says whether it did. No pass imports another; what
follows what is decided here. `RECIPES` are the ways of a gradient, in the order in which it takes them; `EXECUTOR` is
that of a plan, in stages, which take in users' passes too. `observed` shows each pass of either as it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from time import perf_counter
from typing import TypeAlias

from ..lang.light_dataclasses import dataclass
from .ir.graph import Graph
from .ir.node import Misuse
from .ir.verify import InvalidIR, verify
from .passes.batch_matmuls import batch_matmuls
from .passes.check_in_place import check_in_place
from .passes.containers.fold_lists import fold_lists
from .passes.containers.follow_lists import follow_lists
from .passes.containers.lower_tuples import lower_tuples
from .passes.decompose_ops import decompose_ops
from .passes.gradients.accumulate_in_rounds import accumulate_in_rounds
from .passes.gradients.accumulate_slices import accumulate_slices
from .passes.gradients.aggregate_gradients import aggregate_gradients
from .passes.gradients.lower_grad_of import lower_grad_of
from .passes.gradients.open_grad_of import open_grad_of
from .passes.gradients.propagate_requires_grad import propagate_requires_grad
from .passes.gradients.remove_hints import remove_hints
from .passes.gradients.sink_gradients import sink_gradients
from .passes.gradients.specialize_autograd_zero import specialize_autograd_zero
from .passes.inline_functions import inline_functions
from .passes.loops.batch_rounds import batch_rounds
from .passes.loops.end_rounds_early import end_rounds_early
from .passes.loops.hoist_invariants import hoist_invariants
from .passes.loops.peel_loops import peel_loops
from .passes.loops.unroll_loops import unroll_loops
from .passes.propagate_types import propagate_types
from .passes.simplification.canonicalize import canonicalize
from .passes.simplification.eliminate_common_subexpressions import eliminate_common_subexpressions
from .passes.simplification.eliminate_dead_code import eliminate_dead_code
from .passes.simplification.fold_constants import fold_constants
from .passes.simplification.peephole import peephole
from .passes.simplification.pool_constants import pool_constants
from .passes.simplification.reassociate_ints import reassociate_ints
from .passes.simplification.remove_expands import remove_expands
from .passes.simplification.simplify_broadcasts import simplify_broadcasts
from .passes.specialize_types import specialize_types

GraphPass: TypeAlias = Callable[[Graph], bool]


class InvalidPass(Exception):
    """A pass left a graph that breaks a rule, or misused it; the message names the pass.

    `.__cause__` is what the verifier said, or what the graph did to what the pass did to it.
    """

    def __init__(self, name: str, error: Exception) -> None:
        self.pass_name = name
        super().__init__(
            f"pass {name} {'misuses the graph' if isinstance(error, Misuse) else 'left invalid IR'}: {error}"
        )


def pass_name(pass_: GraphPass) -> str:
    """The name by which a pass is reported."""
    function = pass_.func if isinstance(pass_, partial) else pass_
    return str(getattr(function, "__name__", function))


@dataclass(frozen=True, slots=True)
class Observation:
    """One pass that ran: as part of which recipe, on which graph, whether it changed it, and how long it took.

    The graph is the very one, which goes on changing: what is to be kept of it is kept as text.
    """

    recipe: str
    pass_name: str
    graph: Graph
    changed: bool
    seconds: float


PassObserver: TypeAlias = Callable[[Observation], None]
_OBSERVER: ContextVar[PassObserver | None] = ContextVar("observer", default=None)


@contextmanager
def observed(observer: PassObserver) -> Iterator[None]:
    """Call `observer` after each pass that runs meanwhile in this thread, and verify what each leaves."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def run_passes(
    graph: Graph,
    passes: Sequence[GraphPass],
    *,
    verify_between: bool = True,
    recipe: str = "",
    is_part: bool = False,
) -> bool:
    """Run each pass once; True if any changed the graph. `recipe` is what observers are told that they are part of.

    A graph that `is_part` of another still uses values of that one: it cannot be verified, observed or not.

    InvalidIR if it was not valid to begin with, TypeError for a pass that does not say whether it changed anything.
    """
    observer = _OBSERVER.get()
    if verify_between and not is_part:
        verify(graph)
    # What contexts are made of is typed by the first pass that meets it, so that observed graphs need not begin valid.
    verify_between = (verify_between or observer is not None) and not is_part
    changed = False
    for pass_ in passes:
        began = perf_counter() if observer is not None else 0.0
        did = pass_(graph)
        took = perf_counter() - began if observer is not None else 0.0
        if not isinstance(did, bool):
            raise TypeError(f"pass {pass_name(pass_)} returned {did!r}: a pass says whether it changed the graph")
        changed |= did
        # A pass may break a graph and say that it changed nothing, so this does not depend on its word.
        if verify_between:
            _verify_after(pass_, graph)
        if observer is not None:
            observer(Observation(recipe, pass_name(pass_), graph, did, took))
    return changed


def _verify_after(pass_: GraphPass, graph: Graph) -> None:
    try:
        verify(graph)
    except InvalidIR as invalid:
        raise InvalidPass(pass_name(pass_), invalid) from invalid


inline_keeping_pairs: GraphPass = partial(inline_functions, keep_pairs=True)
"""Inlining before differentiation: calls of functions that carry a pair stay."""
accumulate_parts: GraphPass = partial(accumulate_in_rounds, products=False)
"""Where the products of several rounds may be one yet, they stay."""
write_out_loops: GraphPass = partial(unroll_loops, in_part=False)
"""Loops that run a known few times: the gradient of one that does not is a loop as well, and small as it is."""

SIMPLIFY: tuple[GraphPass, ...] = (
    propagate_types,
    fold_constants,
    lower_tuples,
    peephole,
    simplify_broadcasts,
    eliminate_common_subexpressions,
    pool_constants,
    eliminate_dead_code,
)
RECIPES: dict[str, tuple[GraphPass, ...]] = {
    # A function, once it is known which of its optional arguments are given.
    "specialize_optionals": (inline_keeping_pairs, fold_constants, eliminate_dead_code),
    # Before it is differentiated: whether a gradient is there is a branch, and there is no tuple.
    "before_autodiff": (
        inline_keeping_pairs,
        specialize_autograd_zero,
        lower_grad_of,
        open_grad_of,
        lower_tuples,
        fold_constants,
        # Those that stood in a list at a place that is known.
        lower_tuples,
        eliminate_dead_code,
    ),
    # The forward, once what its backward needs is computed beside it.
    "types": (propagate_types,),
    # The backward, as soon as it is written down, while it still names values of the forward.
    "after_autodiff": (specialize_autograd_zero, fold_constants, eliminate_dead_code),
    # Forward and backward in one graph, which `gs.grad` compiles.
    "joint": (
        specialize_autograd_zero,
        lower_grad_of,
        lower_tuples,
        fold_constants,
        eliminate_common_subexpressions,
        eliminate_dead_code,
    ),
    # A backward for gradients of which it is known which are there.
    "settle_gradients": (specialize_autograd_zero, lower_grad_of),
    # The same, as far as gradients are known.
    "follow_gradients": (specialize_autograd_zero, follow_lists),
    # A program for arguments of known shapes, round by round with what the shapes decide (`settle`).
    "settle_shapes": (
        lower_tuples,
        fold_lists,
        fold_constants,
        unroll_loops,
        peephole,
    ),
    # Behind it in each round.
    "share_settled": (eliminate_common_subexpressions, pool_constants, eliminate_dead_code),
    # What runs: the halves of a gradient, and what policies of recomputation decide on.
    "run": (inline_functions, remove_hints, *SIMPLIFY),
    # Of what is settled for shapes, before policies decide on it.
    "settled_broadcasts": (simplify_broadcasts,),
    # Last on a backward, when nothing is going to differentiate it or draw it into kernels.
    "aggregate": (aggregate_gradients, eliminate_dead_code),
    # Before what is straight between control flow is gathered for kernels.
    "accumulate": (accumulate_in_rounds, eliminate_dead_code),
    # What a trace has recorded.
    "trace": (fold_constants, pool_constants, eliminate_dead_code),
}
"""What graphs go through besides the executor's stages, by name: run one with `run_recipe`."""
EXECUTOR: dict[str, tuple[GraphPass, ...]] = {
    "specialize": (specialize_types,),
    "inline": (inline_functions,),
    "inline_keeping_pairs": (inline_keeping_pairs,),
    # The first round of what sums gradients is written out, and then all sums are of gradients that are there.
    "lower": (
        lower_grad_of,
        specialize_autograd_zero,
        peel_loops,
        sink_gradients,
        specialize_autograd_zero,
        lower_tuples,
        pool_constants,
    ),
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
        write_out_loops,
        hoist_invariants,
        eliminate_common_subexpressions,
        check_in_place,
    ),
    "autodiff": (),
    # Several rounds at a time, where nothing is to be differentiated any more; what written out rounds put into lists
    # is at hand where others read it.
    "decompose": (
        inline_functions,
        remove_hints,
        decompose_ops,
        unroll_loops,
        fold_constants,
        fold_lists,
        eliminate_common_subexpressions,
    ),
    "batch": (batch_rounds, batch_matmuls, accumulate_parts, accumulate_slices, eliminate_dead_code),
    "fuse": (),
    "aggregate": (aggregate_gradients,),
    # Dtypes that were asked for have become constants since the last time.
    "finish": (peephole, reassociate_ints, pool_constants, eliminate_dead_code, end_rounds_early),
}
"""What the executor does to a graph, stage by stage in this order; `stages` says which of them a plan goes through.

At "autodiff" it gathers what can be differentiated, by `autodiff.subgraphs`, before a user's passes run. "fuse" is
theirs alone: the last look at a graph of plain ops. The library's own kernels are compiled for shapes, which plans do
not depend on, and so go another way (`fusion`).
"""
DEVICE: dict[str, tuple[GraphPass, ...]] = {
    "inline": (inline_functions,),
    "lower": RECIPES["settle_gradients"],
    "optimize": (
        remove_hints,
        *SIMPLIFY,
    ),
}
"""The same stages for a graph that another device runs, whose kernels are planned from ops as they are."""
PASSES: dict[str, GraphPass] = {
    pass_name(pass_): pass_
    for passes in (*RECIPES.values(), *EXECUTOR.values())
    for pass_ in passes
    if not isinstance(pass_, partial)
}
"""Every pass by name."""

_ONLY_DIFFERENTIABLE = ("inline_keeping_pairs", "autodiff")
_ONLY_PLAIN = ("inline", "decompose", "batch", "fuse", "aggregate")

_AGAIN = ("specialize", "lower", "propagate", "optimize", "batch", "aggregate", "finish")
"""The stages from which an optimised graph gains once more is known of it."""
_INEXACT = ("batch",)
"""Stages that add up in another order, and hold operands longer for it."""

_registered: dict[str, list[GraphPass]] = {}


def stages(*, differentiable: bool) -> tuple[str, ...]:
    """The stages of a plan: with what can be differentiated sliced out, or with rewrites that cannot be."""
    left_out = _ONLY_PLAIN if differentiable else _ONLY_DIFFERENTIABLE
    return tuple(name for name in EXECUTOR if name not in left_out)


def stages_of_gradients() -> tuple[str, ...]:
    """The stages of a function on its way to being differentiated whole: those of a plan, up to slicing."""
    names = stages(differentiable=True)
    return names[: names.index("autodiff") + 1]


def run_recipe(graph: Graph, name: str, *, without: Sequence[GraphPass] = (), is_part: bool = False) -> bool:
    """Run a recipe once, but for the passes left out; True if any changed the graph. `is_part` as in `run_passes`."""
    passes = [run for run in RECIPES[name] if run not in without] if without else RECIPES[name]
    return run_passes(graph, passes, verify_between=False, recipe=name, is_part=is_part)


def run_stage(graph: Graph, name: str, *, on_device: bool = False, exact: bool = False) -> None:
    """Run a stage's passes, those of DEVICE if that is asked for, then those that users have registered there.

    Where a run is to be `exact`, sums stay as they are, and hold no more than they do. What a user's pass leaves is
    verified, and that the graph still takes and gives as many values.
    """
    passes = DEVICE.get(name, ()) if on_device else EXECUTOR[name]
    if exact and name in _INEXACT:
        passes = ()
    run_passes(graph, passes, verify_between=False, recipe=name)
    for pass_ in tuple(_registered.get(name, ())):
        before = len(graph.inputs), len(graph.outputs)
        run_passes(graph, (_named_if_it_fails(pass_),), recipe=name)
        after = len(graph.inputs), len(graph.outputs)
        if after != before:
            rule = f"it has {after[0]} inputs and {after[1]} results, and had {before[0]} and {before[1]}"
            raise InvalidPass(pass_name(pass_), InvalidIR(graph, rule))


def respecialize(graph: Graph, *, exact: bool = False) -> None:
    """Optimise a graph again that has been through the stages, users' passes among them, now that more is known."""
    for name in _AGAIN:
        if not exact or name not in _INEXACT:
            run_passes(graph, EXECUTOR[name], verify_between=False, recipe=name)


def _named_if_it_fails(pass_: GraphPass) -> GraphPass:
    """A user's pass, named where it misuses the graph; what it raises itself is the user's."""

    def run(graph: Graph) -> bool:
        try:
            return pass_(graph)
        except Misuse as error:
            raise InvalidPass(pass_name(pass_), error) from error

    run.__name__ = pass_name(pass_)
    return run


def add_pass(point: str, pass_: GraphPass) -> Callable[[], None]:
    """Run a pass of a user's at the end of a stage of EXECUTOR; returns what takes it away again.

    A stage that a plan does not go through does not run its passes either. ValueError for an unknown stage.
    """
    if not isinstance(point, str):
        raise TypeError(f"a point is a str, not {type(point).__name__}; the points are {', '.join(EXECUTOR)}")
    if point not in EXECUTOR:
        raise ValueError(f"there is no point '{point}'; the points are {', '.join(EXECUTOR)}")
    if not callable(pass_):
        raise TypeError(f"a pass is a function from a graph to bool, not {type(pass_).__name__}")
    _registered.setdefault(point, []).append(pass_)

    def remove() -> None:
        if pass_ in _registered[point]:
            _registered[point].remove(pass_)

    return remove
