"""The plan that a thread ran last, of any executor."""

from __future__ import annotations

from threading import local

from ...compiler.ir.graph import Graph
from ..plans.plan import ExecutionPlan


class _Last(local):
    """The plan that ran last, in this thread."""

    plan: ExecutionPlan | None = None


LAST = _Last()


def last_executed_graph() -> Graph | None:
    """The optimised graph that this thread ran last; None before the first call. Of a run that has left a special plan
    in the middle, it is the general one."""
    return LAST.plan.graph if LAST.plan is not None else None
