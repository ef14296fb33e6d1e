"""What the rules for elements share: what they are given, what they give, and what they may say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ...lang.trampoline import Walk
from ..dtypes import BOOL, DType
from ..ir import Node, Value
from ..kernel_ir.index import Index
from ..kernel_ir.kernel import Condition, Constant, Operand
from .body import register_dtype

if TYPE_CHECKING:
    from .group import Group


class Incompatible(Exception):
    """Something is asked of a group that no single kernel of its iteration space can do."""


Place: TypeAlias = tuple[Index, ...]
"""One index per dimension."""
Guards: TypeAlias = tuple[Condition, ...]
"""Outside of these the element is not asked for, so nothing may be loaded."""
Rule: TypeAlias = Callable[["Group", Node, int, Place, Guards], Walk]
"""(group, node, which result, where, guards) → a walk that returns the operand, in the register dtype."""
Known: TypeAlias = Mapping[Value, Any]


def as_dtype(group: Group, operand: Operand, dtype: DType, wanted: DType) -> Operand:
    """An operand of one dtype in the register dtype of another."""
    target = register_dtype(wanted)
    if isinstance(operand, Constant) and target == BOOL:
        return Constant(bool(operand.value))
    if target == BOOL and dtype != BOOL:
        return group.body.compute("", "ne", BOOL, [operand, Constant(0)])
    return group.body.cast(operand, target)
