"""What the rules for elements share: what they are given, what they give, and what they may say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from ....lang.trampoline import Walk
from ...ir.node import Node, Value
from ...kernel_ir.index import Index, SizeValues
from ...kernel_ir.kernel import Condition, KernelConstant, Operand
from ...kernel_ir.layout import StridedView
from ...types.dtypes import BOOL, DType
from .body import Body, register_dtype


class Incompatible(Exception):
    """Something is asked of a group that no single kernel of its iteration space can do."""


ElementPlace: TypeAlias = tuple[Index, ...]
"""One index per dimension."""
LoadGuards: TypeAlias = tuple[Condition, ...]
"""Outside of these the element is not asked for, so nothing may be loaded."""
ElementReader: TypeAlias = Callable[["Elements", Node, int, ElementPlace, LoadGuards], Walk]
"""(group, node, which result, where, guards) → a walk that returns the operand, in the register dtype."""
KnownFacts: TypeAlias = Mapping[Value, Any]


class Elements(Protocol):
    """What a rule may ask of the kernel in the making: elements of other values, and statements in its body."""

    body: Body
    sizes: dict[str, int]

    @property
    def known(self) -> KnownFacts: ...

    def element(self, value: Value, place: ElementPlace, guards: LoadGuards) -> Walk:
        """The operand that is one element of a tensor, in its register dtype."""

    def number(self, value: Value) -> Operand:
        """A number that is given at each call."""

    def ranges(self, guards: LoadGuards) -> SizeValues:
        """The axes' sizes, or within guards the positions that are left."""

    def within(self, guards: LoadGuards, condition: Condition) -> LoadGuards | None:
        """The guards and a condition more; None where it never holds within them."""

    def inside(self, index: Index, low: int | None, high: int | None, guards: LoadGuards) -> Operand:
        """Whether an index lies in a half-open range, of which an end may be missing, where guards hold."""

    def views(self, node: Node) -> list[StridedView]:
        """What a view op does to the addresses of its first argument; Incompatible where that is not known."""

    def is_in_memory(self, value: Value) -> bool:
        """Whether the tensors of a list are in memory."""

    def joins_in_memory(self, node: Node) -> bool:
        """Whether tensors are put together in memory, and not where their elements are needed."""

    def load_part(self, value: Value, which: int, place: ElementPlace, guards: LoadGuards) -> Operand:
        """An element of one tensor of a list that is in memory."""


def as_dtype(group: Elements, operand: Operand, dtype: DType, wanted: DType) -> Operand:
    """An operand of one dtype in the register dtype of another."""
    target = register_dtype(wanted)
    if isinstance(operand, KernelConstant) and target == BOOL:
        return KernelConstant(bool(operand.value))
    if target == BOOL and dtype != BOOL:
        return group.body.compute("", "ne", BOOL, [operand, KernelConstant(0)])
    return group.body.cast(operand, target)
