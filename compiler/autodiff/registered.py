"""Formulas of users' in the place of the library's, by op, for what is differentiated from now on."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from ..ir.graph import Callee
from ..types.schema import FunctionSchema

_REGISTERED: dict[FunctionSchema, list[Callee]] = {}
"""The last one of an op is the one in force."""
_LOCK = Lock()


def registered(schema: FunctionSchema) -> Callee | None:
    """The user's formula of an op, if there is one."""
    found = _REGISTERED.get(schema)
    return found[-1] if found else None


def enter_formula(schema: FunctionSchema, callee: Callee) -> Callable[[], None]:
    """Put a formula in force; returns what takes it away again, once, whatever was entered since."""
    with _LOCK:
        _REGISTERED[schema] = [*_REGISTERED.get(schema, ()), callee]

    def remove() -> None:
        with _LOCK:
            left = [other for other in _REGISTERED.get(schema, ()) if other is not callee]
            _REGISTERED[schema] = left

    return remove
