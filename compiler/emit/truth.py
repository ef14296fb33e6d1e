"""Truth values, and what they tell about optionals."""

from __future__ import annotations

from collections.abc import Callable

from ...lang import ast
from ...lang.light_dataclasses import dataclass, field
from ...lang.trampoline import Walk
from ..ir.node import Value
from ..spelling.overloads import Argued
from ..types.types import BOOL, NONE, NUMBERS, STR, ListType, OptionalType, TupleType, is_tensor
from .emitter import Emitter, described
from .resolve import emit_resolved
from .scopes import Frame, Refined

KnownPresence = dict[str, bool]
"""Names of optionals that are known to hold a value (True) or None (False)."""


@dataclass(slots=True)
class TruthValue:
    """A truth value, known now (`static`) or when it runs (`value`), and what follows from it either way."""

    value: Value | None = None
    static: bool | None = None
    if_true: KnownPresence = field(default_factory=dict)
    if_false: KnownPresence = field(default_factory=dict)

    def negated(self, value: Value | None) -> TruthValue:
        static = None if self.static is None else not self.static
        return TruthValue(value, static, self.if_false, self.if_true)


EmitSide = Callable[[Emitter], Walk]
"""What emits one side of a branch."""


def truth_of(e: Emitter, node: ast.Syntax, value: Value) -> TruthValue:
    """Python's truth of a value: a number's, that of a tensor of one element, whether a list, a tuple or a str holds
    anything, whether an optional is there and true."""
    type = value.type
    if type == BOOL:
        return TruthValue(value)
    if type == NONE or isinstance(type, TupleType):
        return TruthValue(static=isinstance(type, TupleType) and bool(type.elements))
    if isinstance(type, OptionalType):
        return _truth_of_optional(e, node, value)
    if is_tensor(type) or type in NUMBERS or type == STR or isinstance(type, ListType):
        return TruthValue(emit_resolved(e, node, "Bool", [Argued(value, node.span)], "a condition"))
    note = "compare it: `x == …`"
    raise e.fail("E301", f"a condition must be a bool, not {described(type)}", node.span, note)


def _truth_of_optional(e: Emitter, node: ast.Syntax, value: Value) -> TruthValue:
    """`x` as a test is `x is not None and x`."""
    known = {node.id: True} if isinstance(node, ast.Name) else {}
    there = e.value("aten::__isnot__", node, value, e.at(node).constant(None))
    branch = e.at(node).node("prim::If", [there], [BOOL], blocks=2)
    with e.builder.at(branch.blocks[0]):
        found = truth_of(e, node, e.at(node).unwrap(value))
        e.builder.returns(found.value or e.builder.constant(found.static))
    with e.builder.at(branch.blocks[1]):
        e.builder.returns(e.builder.constant(False))
    return TruthValue(branch.output, if_true=known)


def refine(e: Emitter, frame: Frame, known: KnownPresence) -> None:
    """Let names stand for what a branch knows of them."""
    for name, present in known.items():
        binding = frame.lookup(name)
        if not isinstance(binding, Value) or not isinstance(binding.type, OptionalType):
            continue
        if present:
            frame.refinements[name] = Refined(binding, e.builder.block)
        else:
            frame.refinements[name] = e.builder.constant(None)
