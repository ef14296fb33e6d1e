"""Composite ops run: their functions from the library, planned once each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ...compiler.formulas.library import formula
from ...compiler.types.schema import FunctionSchema
from ..failures.failure import RuntimeFailure
from .build import build_plan
from .interpreter import run_plan
from .plan import ExecutionPlan


@cache
def _plan(schema: FunctionSchema) -> ExecutionPlan:
    callee = formula(schema)
    if callee is None:
        raise LookupError(f"the library has no function for {schema}")
    return build_plan(callee.graph)


def run_composite(schema: FunctionSchema, arguments: Sequence[Any]) -> Any:
    """The result, a tuple for several. RuntimeError with the message of what failed inside."""
    try:
        outputs = run_plan(_plan(schema), arguments)
    except RuntimeFailure as failure:
        inside = "" if failure.code == "R102" else f"{failure.op}: "
        raise RuntimeError(inside + failure.message) from failure
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
