"""Angles of a strip reduced before the loop that takes their sines, for once and by what suffices for all of them.

    float x_rest[256], x_turns[256];
    for (…) x_rest[i - i_start] = x_ptr[i];
    gs_turn_f32(x_rest, x_turns, i_stop - i_start);
    for (…) y[i] = gs_turned_sin_f32(x, (gs_angle_f32){x_rest[i - i_start], x_turns[i - i_start]});

Small angles take half as long as any do; a branch in the loop itself would have its points computed one by one.
Both ways give a small angle the same parts, so that no element depends on those beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...kernel_ir.kernel import Cast, Compute, Definition, Load, Position
from ...kernel_ir.statements import used_names
from ...scheduling.nest import CHEAP, AxisLoop, Evaluate
from ...types.dtypes import FLOAT32, FLOAT64, DType

OF_ANGLES = frozenset(("sin", "cos", "tan"))
TOGETHER = 256
"""Angles that are reduced before a loop goes on: their parts stay in the first cache."""
PARTS = {FLOAT32: ("rest", "turns"), FLOAT64: ("rest", "low", "turns")}
"""What `gs_angle_f32` and `gs_angle_f64` consist of."""
MOST = 8
"""Statements of which an angle may follow, for they are computed twice."""


def is_of_angle(statement: Definition) -> bool:
    """Whether it is a function that an angle is reduced for."""
    return (
        isinstance(statement, Compute) and statement.primitive in OF_ANGLES and isinstance(statement.operands[0], str)
    )


def angles_of(loop: AxisLoop) -> dict[str, tuple[DType, list[Definition]]]:
    """Angles of a loop, as what their parts have, and the statements of the loop of which each follows, itself last."""
    inside = {item.statement.name: item.statement for item in loop.body if isinstance(item, Evaluate)}
    found: dict[str, tuple[DType, list[Definition]]] = {}
    for statement in inside.values():
        if is_of_angle(statement):
            assert isinstance(statement, Compute) and isinstance(statement.operands[0], str)
            angle = statement.operands[0]
            needed = _needed(angle, inside)
            if angle in inside and len(needed) <= MOST and all(map(_is_cheap, needed)):
                found[angle] = FLOAT64 if statement.dtype == FLOAT64 else FLOAT32, needed
    return found


def _needed(name: str, inside: Mapping[str, Definition]) -> list[Definition]:
    """Statements of a loop of which a value follows, in their order."""
    wanted, pending = set[str](), [name]
    while pending:
        current = pending.pop()
        if current in inside and current not in wanted:
            wanted.add(current)
            pending += used_names(inside[current])
    return [statement for name, statement in inside.items() if name in wanted]


def _is_cheap(statement: Definition) -> bool:
    if isinstance(statement, Load):
        return statement.index.is_affine()
    return isinstance(statement, Position | Cast) or (
        isinstance(statement, Compute) and statement.primitive in CHEAP | {"div"}
    )
