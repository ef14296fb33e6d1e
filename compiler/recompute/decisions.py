"""What was decided for each value, in words."""

from __future__ import annotations

from collections.abc import Mapping, Set

from ..ir.node import Value
from .policy import is_repeatable
from .problem import RECOMPUTE, SAVE, Problem, short_op_name
from .result import Decision
from .storage import may_hold_memory


def decisions(problem: Problem, saved: Set[Value], env: Mapping[Value, Value], policy: str) -> tuple[Decision, ...]:
    """One decision per value that df uses or that is kept, in program order; `env` says where it is in the new f."""
    kept = {_spoken_of(v) for v in saved}
    asked = kept.union(map(_spoken_of, problem.wanted))
    values = [v for node in problem.nodes for v in node.outputs if v in asked and may_hold_memory(v)]
    return tuple(_decision(problem, v, v in kept, env, policy) for v in values)


def _spoken_of(value: Value) -> Value:
    """The value itself, where the source says something of it."""
    while value.node.kind in (SAVE, RECOMPUTE):
        (value,) = value.node.inputs
    return value


def _decision(problem: Problem, value: Value, saved: bool, env: Mapping[Value, Value], policy: str) -> Decision:
    known = problem.known is not None
    reason = _why_saved(problem, value, policy) if saved else _why_recomputed(problem, value)
    hinted = [user.output.name_hint for user, _ in value.uses if user.kind in (SAVE, RECOMPUTE)]
    name = next((n for n in (value.name_hint, *hinted) if n), short_op_name(value.node))
    nbytes = problem.nbytes(value) if known else None
    return Decision(env.get(value, value), name, nbytes, value.node.span, saved, reason)


def _why_saved(problem: Problem, value: Value, policy: str) -> str:
    node = value.node
    if problem.word(value) == SAVE:
        return "the source says gs.save"
    if not is_repeatable(node):
        return f"{short_op_name(node)} cannot run again: it is random or has an effect"
    if problem.known is not None and problem.nbytes(value) == 0:
        return "it lives anyway: an argument or a result of the function has its memory"
    if policy == "save_all":
        return "everything is kept"
    if not problem.recomputable(node):
        return f"{short_op_name(node)} is not run again: too much work"
    if problem.nbytes(value) is None:
        return "its size is not known"
    return "keeping it costs less than running again what it is made of"


def _why_recomputed(problem: Problem, value: Value) -> str:
    if problem.word(value) == RECOMPUTE:
        return "the source says gs.recompute"
    return f"{short_op_name(value.node)} is run again in the backward"
