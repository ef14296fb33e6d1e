"""Roundings that say nothing: what a store rounds anyway, and a half that is widened to be rounded to itself.

%1 : bfloat16 = cast %y                         store %result[i], %y
%2 : float32 = cast %1                   →
store %result[i], %2        (bfloat16)
"""

from __future__ import annotations

from ...lang.light_dataclasses import replace
from ..kernel_ir.kernel import Cast, Definition, Kernel, Operand, Statement, Store
from ..kernel_ir.statements import with_operands, without_unused
from ..types.dtypes import FLOAT32, DType


def without_round_trips(kernel: Kernel) -> Kernel:
    """The kernel without casts whose effect another cast or a store has, and without what nothing uses then."""
    defined = {s.name: s for s in kernel.body if isinstance(s, Definition)}
    dtypes = {buffer.name: buffer.dtype for buffer in kernel.buffers}
    same: dict[str, Operand] = {}
    body: list[Statement] = []
    for old in kernel.body:
        statement = with_operands(old, same)
        if isinstance(statement, Cast) and isinstance(statement.operand, str):
            narrow = _widened(statement.operand, defined)
            if narrow is not None and defined[narrow].dtype == statement.dtype:
                same[statement.name] = narrow
                continue
        if isinstance(statement, Store) and isinstance(statement.operand, str):
            statement = replace(statement, operand=_unrounded(statement.operand, dtypes[statement.buffer], defined))
        body.append(statement)
    return kernel.with_body(without_unused(body))


def _widened(name: str, defined: dict[str, Definition]) -> str | None:
    """The half that a float32 value is, if it is one."""
    statement = defined.get(name)
    if not isinstance(statement, Cast) or statement.dtype != FLOAT32 or not isinstance(statement.operand, str):
        return None
    narrow = defined.get(statement.operand)
    return narrow.name if narrow is not None and narrow.dtype.is_half else None


def _unrounded(name: str, dtype: DType, defined: dict[str, Definition]) -> str:
    """The value before it was rounded to the dtype in which it is stored."""
    narrow = _widened(name, defined)
    if narrow is not None and defined[narrow].dtype == dtype:
        name = narrow
    statement = defined.get(name)
    if not isinstance(statement, Cast) or not dtype.is_half or statement.dtype != dtype:
        return name
    source = defined.get(str(statement.operand))
    return source.name if source is not None and source.dtype == FLOAT32 else name
