"""Conditions: truth values, what they tell about optionals, and two-way branches.

`x is None` on a value that can never be None, or always is, is decided here, and only the branch that runs is
emitted. On an Optional it splits: inside the branch where the value is there, its name stands for the value
unwrapped. `and`, `or` and `not` pass that knowledge on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ...lang import ast
from ...lang.source import Span
from ...lang.trampoline import Walk
from ..ir.node import Block, Node, Value
from ..types.types import (
    BOOL,
    CLOSURE,
    NONE,
    NUMBERS,
    STR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    is_tensor,
    unify,
)
from .calls import emit_resolved
from .emitter import TESTS, Emitter, described
from .mutation import mutated_names
from .overloads import Argued
from .scopes import Frame, Refined, Unusable

Presence = dict[str, bool]
"""Names of optionals that are known to hold a value (True) or None (False)."""


@dataclass(slots=True)
class Condition:
    """A truth value, known now (`static`) or when it runs (`value`), and what follows from it either way."""

    value: Value | None = None
    static: bool | None = None
    if_true: Presence = field(default_factory=dict)
    if_false: Presence = field(default_factory=dict)

    def negated(self, value: Value | None) -> Condition:
        static = None if self.static is None else not self.static
        return Condition(value, static, self.if_false, self.if_true)


def emit_bool(e: Emitter, node: ast.Expr) -> Walk:
    """A condition as a bool value: `not`, `is` and chained comparisons in expressions."""
    condition = yield emit_condition(e, node)
    return condition.value if condition.static is None else e.at(node).constant(condition.static)


def emit_condition(e: Emitter, node: ast.Expr) -> Walk:
    """A test."""
    match node:
        case ast.UnaryOp(op="not"):
            inner = yield emit_condition(e, node.operand)
            value = None if inner.static is not None else e.value("aten::__not__.bool", node, inner.value)
            return inner.negated(value)
        case ast.BoolOp():
            return (yield _emit_bool_op(e, node))
        case ast.Compare() if len(node.ops) > 1:
            return (yield _emit_chain(e, node))
        case ast.Compare(ops=("is",) | ("is not",)):
            return (yield _emit_is(e, node))
        case ast.Call() if (test := e.form(TESTS, node)) is not None:
            return (yield test(e, node))
    value = yield e.expression(node)
    return truth_of(e, node, value)


def truth_of(e: Emitter, node: ast.Syntax, value: Value) -> Condition:
    """Python's truth of a value: a number's, that of a tensor of one element, whether a list, a tuple or a str holds
    anything, whether an optional is there and true."""
    type = value.type
    if type == BOOL:
        return Condition(value)
    if type == NONE or isinstance(type, TupleType):
        return Condition(static=isinstance(type, TupleType) and bool(type.elements))
    if isinstance(type, OptionalType):
        return _truth_of_optional(e, node, value)
    if is_tensor(type) or type in NUMBERS or type == STR or isinstance(type, ListType):
        return Condition(emit_resolved(e, node, "Bool", [Argued(value, node.span)], "a condition"))
    note = "compare it: `x == …`"
    raise e.fail("E301", f"a condition must be a bool, not {described(type)}", node.span, note)


def _truth_of_optional(e: Emitter, node: ast.Syntax, value: Value) -> Condition:
    """`x` as a test is `x is not None and x`."""
    known = {node.id: True} if isinstance(node, ast.Name) else {}
    there = e.value("aten::__isnot__", node, value, e.at(node).constant(None))
    branch = e.at(node).node("prim::If", [there], [BOOL], blocks=2)
    with e.builder.at(branch.blocks[0]):
        found = truth_of(e, node, e.at(node).unwrap(value))
        e.builder.returns(found.value or e.builder.constant(found.static))
    with e.builder.at(branch.blocks[1]):
        e.builder.returns(e.builder.constant(False))
    return Condition(branch.output, if_true=known)


def _emit_is(e: Emitter, node: ast.Compare) -> Walk:
    left = yield e.expression(node.first)
    right = yield e.expression(node.rest[0])
    if left.type != NONE and right.type != NONE:
        raise e.fail("E301", "`is` compares with None only", node.span, "write `==` to compare values")
    subject, tested = (node.first, left) if right.type == NONE else (node.rest[0], right)
    result = Condition(static=tested.type == NONE)
    if isinstance(tested.type, OptionalType):
        none = right if right.type == NONE else left
        result = Condition(e.value("aten::__is__", node, tested, none))
        if isinstance(subject, ast.Name):
            result.if_true, result.if_false = {subject.id: False}, {subject.id: True}
    if node.ops[0] == "is":
        return result
    negated = None
    if result.static is None:
        assert result.value is not None
        compared = result.value.node.inputs
        result.value.node.destroy()
        negated = e.value("aten::__isnot__", node, *compared) if compared else None
    return result.negated(negated)


def _emit_bool_op(e: Emitter, node: ast.BoolOp) -> Walk:
    """Left to right, each operand emitted where the ones before it have not decided."""
    first, *others = node.values
    result = yield emit_condition(e, first)
    for operand in others:
        result = yield _emit_connective(e, node, result, operand)
    return result


def _emit_connective(e: Emitter, node: ast.BoolOp, left: Condition, operand: ast.Expr) -> Walk:
    is_and = node.op == "and"
    if left.static is not None:
        # Decided already, or the rest decides alone.
        return (yield emit_condition(e, operand)) if left.static == is_and else left
    assert left.value is not None
    branch = e.at(node).node("prim::If", [left.value], [BOOL], blocks=2)
    live, short = branch.blocks if is_and else reversed(branch.blocks)
    known = left.if_true if is_and else left.if_false
    with e.block(live, node.span) as frame:
        refine(e, frame, known)
        right = yield emit_condition(e, operand)
        value = right.value if right.static is None else e.at(operand).constant(right.static)
        e.builder.returns(value)
    with e.builder.at(short):
        e.builder.returns(e.at(node).constant(not is_and))
    result = Condition(branch.output)
    if is_and:
        result.if_true = left.if_true | right.if_true
    else:
        result.if_false = left.if_false | right.if_false
    return result


def emit_operand(e: Emitter, node: ast.BoolOp) -> Walk:
    """`a or b` as a value: the operand that decides, as Python gives it; a bool where both are."""
    first, *others = node.values
    value, condition = yield _operand(e, first)
    for i, operand in enumerate(others):
        value, condition = yield _emit_choice(e, node, value, condition, operand, is_last=i + 1 == len(others))
    return value


def _operand(e: Emitter, node: ast.Expr) -> Walk:
    """An operand as a value, and as a test."""
    if not _is_test(node):
        value = yield e.expression(node)
        return value, truth_of(e, node, value)
    condition: Condition = yield emit_condition(e, node)
    value = condition.value if condition.static is None else e.at(node).constant(condition.static)
    return value, condition


def _is_test(node: ast.Expr) -> bool:
    """Whether an expression is a bool that may tell of optionals."""
    match node:
        case ast.UnaryOp(op="not") | ast.Compare(ops=("is",) | ("is not",)):
            return True
        case ast.Compare():
            return len(node.ops) > 1
    return False


def _emit_choice(
    e: Emitter, node: ast.BoolOp, left: Value, condition: Condition, operand: ast.Expr, is_last: bool
) -> Walk:
    """The value of `left and operand` or `left or operand`, and its truth where more operands follow."""
    is_and = node.op == "and"
    if condition.static is not None:
        return (yield _operand(e, operand)) if condition.static == is_and else (left, condition)
    assert condition.value is not None
    branch = e.at(node).node("prim::If", [condition.value], blocks=2)
    live, short = branch.blocks if is_and else reversed(branch.blocks)
    with e.block(live, node.span) as frame:
        refine(e, frame, condition.if_true if is_and else condition.if_false)
        right, test = yield _operand(e, operand)
        e.builder.returns(right)
    with e.builder.at(short):
        e.at(node)
        if left.type == BOOL:
            left = e.builder.constant(not is_and)
        elif isinstance(left.type, OptionalType) and not is_and:
            left = e.builder.unwrap(left)
        e.builder.returns(left)
    type = unify(left.type, right.type)
    if type is None:
        raise e.fail(
            "E304",
            f"the operands of `{node.op}` are {described(left.type)} and {described(right.type)}",
            node.span,
            "Python gives one of them; give them one type, or make bools of them: `bool(x)`, `len(l) > 0`",
        )
    value = branch.add_output(type)
    if type != BOOL:
        return value, Condition() if is_last else truth_of(e, node, value)
    result = Condition(value)
    if is_and:
        result.if_true = condition.if_true | test.if_true
    else:
        result.if_false = condition.if_false | test.if_false
    return value, result


def _emit_chain(e: Emitter, node: ast.Compare) -> Walk:
    """`a < b < c` is `a < b and b < c` with b evaluated once. Evaluating c early changes nothing unless it writes."""
    from .expressions import emit_comparison

    if any(True for operand in node.rest[1:] for _ in mutated_names(operand)):
        return Condition((yield _emit_links(e, node, 0, Argued((yield e.expression(node.first)), node.first.span))))
    operands = [Argued((yield e.expression(node.first)), node.first.span)]
    for operand in node.rest:
        operands.append(Argued((yield e.expression(operand)), operand.span))
    result: Value | None = None
    for op, left, right in zip(node.ops, operands, operands[1:], strict=False):
        if op in ("is", "is not"):
            raise e.fail("E102", "`is` inside a chain of comparisons", node.span, "join the comparisons with `and`")
        if result is None:
            result = truth_of(e, node, emit_comparison(e, node, op, left, right)).value
            continue
        branch = e.at(node).node("prim::If", [result], [BOOL], blocks=2)
        for block, live in zip(branch.blocks, (True, False), strict=True):
            with e.builder.at(block):
                compared = truth_of(e, node, emit_comparison(e, node, op, left, right)).value if live else None
                e.builder.returns(compared or e.builder.constant(False))
        result = branch.output
    return Condition(result)


def _emit_links(e: Emitter, node: ast.Compare, k: int, left: Argued) -> Walk:
    """A chain from its comparison `k` on, each operand evaluated where those before it hold."""
    from .expressions import emit_comparison

    right = Argued((yield e.expression(node.rest[k])), node.rest[k].span)
    result = truth_of(e, node, emit_comparison(e, node, node.ops[k], left, right)).value
    assert result is not None, "a comparison is decided when it runs"
    if k + 1 == len(node.ops):
        return result
    branch = e.at(node).node("prim::If", [result], [BOOL], blocks=2)
    with e.block(branch.blocks[0], node.span):
        e.builder.returns((yield _emit_links(e, node, k + 1, right)))
    with e.builder.at(branch.blocks[1]):
        e.builder.returns(e.builder.constant(False))
    return branch.output


# Branches


def refine(e: Emitter, frame: Frame, known: Presence) -> None:
    """Let names stand for what a branch knows of them."""
    for name, present in known.items():
        binding = frame.lookup(name)
        if not isinstance(binding, Value) or not isinstance(binding.type, OptionalType):
            continue
        if present:
            frame.refinements[name] = Refined(binding, e.builder.block)
        else:
            frame.refinements[name] = e.builder.constant(None)


Body = Callable[[Emitter], Walk]


def emit_branches(e: Emitter, node: ast.Syntax, test: ast.Expr, then: Body, otherwise: Body) -> Walk:
    """A conditional expression: emit the side or sides that can run; the value that they agree on."""
    condition = yield emit_condition(e, test)
    if condition.static is not None:
        return (yield (then if condition.static else otherwise)(e))
    branch = e.at(node).node("prim::If", [condition.value], blocks=2)
    values: list[Value] = []
    for block, body, known in zip(
        branch.blocks, (then, otherwise), (condition.if_true, condition.if_false), strict=True
    ):
        with e.block(block, node.span) as frame:
            refine(e, frame, known)
            values.append((yield body(e)))
    type = unify(values[0].type, values[1].type)
    if type is None:
        raise e.fail(
            "E304",
            f"the two sides are {described(values[0].type)} and {described(values[1].type)}",
            node.span,
            "both sides of a conditional expression have one type",
        )
    for block, value in zip(branch.blocks, values, strict=True):
        block.ret.add_input(value)
    return branch.add_output(type)


def emit_branch_statements(e: Emitter, span: Span, condition: Condition, bodies: tuple[Body, Body]) -> Walk:
    """An `if` statement whose condition is emitted: both sides, then one value for each name that either assigned."""
    assert condition.value is not None
    branch = e.builder.node("prim::If", [condition.value], blocks=2)
    frames: list[Frame] = []
    for block, body, known in zip(branch.blocks, bodies, (condition.if_true, condition.if_false), strict=True):
        with e.block(block, span) as frame:
            refine(e, frame, known)
            yield body(e)
            frames.append(frame)
    e.frame.raised = e.frame.raised or all(frame.raised for frame in frames)
    e.frame.left = e.frame.left or all(frame.raised or frame.left for frame in frames)
    if not e.frame.raised:
        for name in dict.fromkeys(n for frame in frames for n in frame.bindings):
            _join(e, branch, name, frames, span)
        _keep_refinements(e, frames)


def _join(e: Emitter, branch: Node, name: str, frames: list[Frame], span: Span) -> None:
    """Bind a name after a branch: to one value, or to the reason why there is none."""
    values = [_value_in(e, name, frame, block, span) for frame, block in zip(frames, branch.blocks, strict=True)]
    present = [v for v, frame in zip(values, frames, strict=True) if v is not None and not frame.raised]
    # A side that left may lack the name: nobody reads it there. What it has is read after the loop that it left.
    missing = any(v is None and not (frame.raised or frame.left) for v, frame in zip(values, frames, strict=True))
    unchanged = len(present) == 1 and e.frame.lookup(name) is present[0] and not missing
    if values[0] is values[1] or unchanged:
        if present:
            e.bind(name, present[0])
        else:
            e.frame.bind(name, _why_undefined(name, frames))
        return
    if any(v.type == CLOSURE for v in present):
        e.frame.bind(name, branch_local_closure(name))
        return
    if not present or (missing and not name.startswith("$")):
        e.frame.bind(name, _why_undefined(name, frames))
        return
    type: Type | None = present[0].type
    for value in present[1:]:
        type = unify(type, value.type) if type is not None else None
    if type is None:
        kinds = f"{described(present[0].type)} or {described(present[1].type)}"
        is_result = name.startswith("$")
        note = (
            "return one type on every path" if is_result else "give the name one type on both paths, or use two names"
        )
        e.frame.bind(name, Unusable("E304", f"is {kinds}, by the branch taken", (note,)))
        return
    _add_joined_output(e, branch, name, type, values, [frame.raised for frame in frames])


def _value_in(e: Emitter, name: str, frame: Frame, block: Block, span: Span) -> Value | None:
    """What a name stands for at the end of a block; None where that is nothing usable."""
    if not isinstance(frame.lookup(name), Value | Refined):
        return None
    saved, e.frame = e.frame, frame
    with e.builder.at(block):
        value = e.lookup(name, span)
    e.frame = saved
    return value


def _add_joined_output(
    e: Emitter, branch: Node, name: str, type: Type, values: Iterable[Value | None], leaves: Iterable[bool]
) -> None:
    for block, value, left in zip(branch.blocks, values, leaves, strict=True):
        if value is None or left:
            with e.builder.at(block):
                value = e.builder.uninitialized(type)
        block.ret.add_input(value)
    e.bind(name, branch.add_output(type, name.lstrip("$").partition(".")[0]))


def _why_undefined(name: str, frames: list[Frame]) -> Unusable:
    for frame in frames:
        binding = frame.lookup(name)
        if isinstance(binding, Unusable):
            return binding
    return Unusable(
        "E205", "may be undefined here: only one branch assigns it", ("assign it before the `if`, or in both branches",)
    )


def branch_local_closure(name: str) -> Unusable:
    return Unusable(
        "E403",
        "is a closure defined inside a branch or a loop",
        (f"define '{name}' once, at the top level of its function, and put the `if` inside it",),
    )


def _keep_refinements(e: Emitter, frames: list[Frame]) -> None:
    """After `if x is None: raise …`, x is known to be there."""
    if frames[0].raised == frames[1].raised:
        return
    stays = frames[1] if frames[0].raised else frames[0]
    for name, binding in stays.refinements.items():
        outer = e.frame.lookup(name)
        if name not in stays.bindings and isinstance(outer, Value) and isinstance(outer.type, OptionalType):
            absent = isinstance(binding, Value) and binding.type == NONE
            e.frame.refinements[name] = e.builder.constant(None) if absent else e.builder.unwrap(outer, name)
