"""recompute: a Gradient under a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...lang.diagnostics import CompileError, Diagnostic
from ...lang.light_dataclasses import dataclass
from ..autodiff.gradient import Gradient
from ..ir.graph import Graph
from ..ir.node import Value
from ..ops.meta import Abstract
from .checkpoints import checkpoints
from .decisions import decisions
from .in_rounds import with_chosen_rounds
from .min_cut import minimum_cut, within_budget
from .mirror import mirror
from .peak import between, estimate
from .plain import normalized, takes_temporaries
from .policy import Policy
from .prices import SCALE, writing
from .problem import Problem
from .rebuild import rebuild
from .result import Recomputed
from .segments import segmented

MAX_WEIGHED = 3
"""Sets of checkpoints that are rebuilt, which takes time, to weigh them: those that promise the lowest peaks."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One choice of what to keep, rebuilt; `peak` and `kept` in bytes, None where shapes are not known."""

    problem: Problem
    saved: set[Value]
    gradient: Gradient
    env: dict[Value, Value]
    peak: int | None
    kept: int | None


def recompute(
    gradient: Gradient,
    shapes: Sequence[Abstract] | None,
    policy: Policy,
    primal: Graph | None = None,
    *,
    owned: bool = False,
) -> Recomputed:
    """The gradient with what its backward keeps chosen by a policy; its results are the same to the bit, op by op.

    `shapes` are the abstract inputs of `gradient.f` (None: not known). The plain gradient stays where the choice would
    not win: where it would neither lower the estimated peak, nor keep less between the halves at the same peak; but
    what mirroring says is done, as its rules weigh what is kept alone. A
    gradient that takes gradients of temporaries is to be differentiated once more, and is left as it is. `primal` is
    what was differentiated: where calls in it have backwards of their own, f holds what they call instead. A gradient
    that is `owned` may be changed.
    """
    if primal is not None and not any(node.kind == "prim::CallFunction" for node in primal.all_nodes()):
        primal = None
    if takes_temporaries(gradient):
        return Recomputed(gradient, (), "save_all", None, None, None)
    # Where rounds or branches stand, it is looked at again.
    owned = owned and policy.in_registers and policy.name == "min_cut" and shapes is not None
    owned = owned and not any(node.blocks for graph in (gradient.f, gradient.df) for node in graph.nodes)
    plainly = normalized(gradient, settled=policy.in_registers, owned=owned)
    problem = Problem(plainly, shapes, policy.may_recompute, in_registers=policy.in_registers, holds=policy.holds)
    if policy.in_registers and policy.name == "min_cut" and problem.is_straight:
        return _in_registers(problem, policy)
    plain = _candidate(problem, save_all(problem), shapes, policy)
    rank = _rank_in_registers if policy.in_registers else _rank
    candidates = list(_candidates(gradient, shapes, policy, plain, primal))
    if policy.budget is not None:
        plain_fits = plain.kept is None or plain.kept <= policy.budget
        chosen = plain if plain_fits else _fitting(candidates, plain, policy, shapes)
        name = "save_all" if plain_fits else policy.name
    else:
        best = min(candidates, key=rank, default=plain)
        chosen, name = (best, policy.name) if _wins(best, plain, policy) else (plain, "save_all")
    return Recomputed(
        chosen.gradient,
        decisions(chosen.problem, chosen.saved, chosen.env, name),
        name,
        chosen.kept,
        plain.peak,
        chosen.peak,
    )


def _in_registers(problem: Problem, policy: Policy) -> Recomputed:
    """Of two choices the one that keeps less, which alone is rebuilt: without rounds and branches that tells itself."""
    plain, cut = save_all(problem), minimum_cut(problem)
    sizes = problem.storages.nbytes(plain), problem.storages.nbytes(cut)
    costs = [_cost(problem, saved, size) for saved, size in zip((plain, cut), sizes, strict=True)]
    wins = sizes[0] is not None and sizes[1] is not None and costs[1] < costs[0]
    saved, name, kept = (cut, policy.name, sizes[1]) if wins else (plain, "save_all", sizes[0])
    gradient, env = rebuild(problem, saved)
    return Recomputed(gradient, decisions(problem, saved, env, name), name, kept, sizes[0], kept)


def _cost(problem: Problem, saved: set[Value], size: int | None) -> int:
    """What it costs to keep values of so many bytes."""
    written = sum(writing(problem, value) * (problem.nbytes(value) or 0) for value in saved)
    return SCALE * (size or 0) + written


def _fitting(
    candidates: Sequence[_Candidate], plain: _Candidate, policy: Policy, shapes: Sequence[Abstract] | None
) -> _Candidate:
    """Of those that keep at most so many bytes, the one with the lowest peak; CompileError (E410) if there is none."""
    budget = policy.budget or 0
    fitting = [c for c in candidates if c.kept is not None and c.kept <= budget]
    if fitting:
        return min(fitting, key=_rank)
    smallest = _candidate(plain.problem, plain.problem.closure(set()), shapes, policy)
    if smallest.kept is None or smallest.kept <= budget:
        return smallest
    least = min(c.kept for c in (*candidates, plain, smallest) if c.kept is not None)
    graph = plain.gradient.f
    message = f"{graph.title} cannot keep {budget} bytes or fewer for its backward: the least is {least}"
    note = f"ask for 'budget={least}'; what is random, or has an effect, is not computed again"
    raise CompileError([Diagnostic("E410", message, graph.span, (note,))])


def save_all(problem: Problem) -> set[Value]:
    """What the plain gradient keeps, save where the source asks for recomputation."""
    everything = {value for node in problem.nodes for value in node.outputs}
    wanted = set(problem.wanted)
    told = {value for value in wanted if not problem.may_save(value)}
    return problem.closure(everything if told else wanted)


def _candidates(
    gradient: Gradient,
    shapes: Sequence[Abstract] | None,
    policy: Policy,
    plain: _Candidate,
    primal: Graph | None,
) -> Iterator[_Candidate]:
    """What the policy gives for the gradient, and for ones whose loops keep less: states at times, or chosen values."""
    problems = [plain.problem]
    keeps_states = policy.name in ("recompute_all", "budget") and policy.predicate is None and primal is None
    in_segments = segmented(gradient, shapes) if keeps_states and shapes is not None else None
    if in_segments is not None:
        problems.append(Problem(normalized(in_segments), shapes, policy.may_recompute))
    choose = {"mirror": mirror, "min_cut": minimum_cut}.get(policy.name)
    # Kernels choose what rounds keep as they differentiate.
    if choose is not None and shapes is not None and plain.problem.known is not None and not policy.in_registers:
        chosen = with_chosen_rounds(gradient, shapes, policy.may_recompute, choose, primal)
        if chosen is not None:
            problems.append(Problem(normalized(chosen), shapes, policy.may_recompute))
    for problem in problems:
        for saved in _choices(problem, policy, plain):
            yield _candidate(problem, saved, shapes, policy)


def _choices(problem: Problem, policy: Policy, plain: _Candidate) -> Iterator[set[Value]]:
    """What to keep by the policy; nothing where it cannot decide, for want of shapes."""
    if policy.name == "recompute_all":
        yield problem.closure(set())
    if problem.known is None:
        return
    if policy.name == "mirror":
        yield mirror(problem)
    elif policy.name == "min_cut":
        yield minimum_cut(problem)
    elif policy.budget is not None and (plain.kept is None or plain.kept > policy.budget):
        yield from _within(problem, policy.budget)


def _within(problem: Problem, budget: int) -> Iterator[set[Value]]:
    cut = within_budget(problem, budget)
    if cut is not None:
        yield cut
    fitting: list[tuple[int, int, set[Value]]] = []
    for saved, stretch in checkpoints(problem):
        size = problem.storages.nbytes(saved)
        if size is not None and size <= budget:
            fitting.append((size + stretch, len(fitting), saved))
    yield from (saved for _, _, saved in sorted(fitting)[:MAX_WEIGHED])


def _candidate(problem: Problem, saved: set[Value], shapes: Sequence[Abstract] | None, policy: Policy) -> _Candidate:
    gradient, env = rebuild(problem, saved)
    peak, kept = None, None
    if problem.known is not None and shapes is not None:
        # In registers no peak counts, which takes longer to tell than what is kept.
        if policy.in_registers:
            peak = kept = between(gradient, shapes)
        else:
            peak, kept = estimate(gradient, shapes) or (None, None)
    return _Candidate(problem, saved, gradient, env, peak, kept)


def _rank(candidate: _Candidate) -> tuple[bool, int, int]:
    return candidate.peak is None, candidate.peak or 0, candidate.kept or 0


def _rank_in_registers(candidate: _Candidate) -> tuple[bool, int, int]:
    return candidate.kept is None, candidate.kept or 0, 0


def _wins(best: _Candidate, plain: _Candidate, policy: Policy) -> bool:
    """Whether a choice is better than the plain gradient. Without shapes only a word of the user's counts."""
    if best is plain:
        return False
    if best.peak is None or best.kept is None or plain.peak is None or plain.kept is None:
        return policy.name == "recompute_all"
    if policy.in_registers:
        return best.kept < plain.kept
    if policy.name == "mirror":
        return True
    return (best.peak, best.kept) < (plain.peak, plain.kept)
