"""Two-way branches of statements, whose sides agree on names."""

from __future__ import annotations

from collections.abc import Sequence

from ....lang.source import Span
from ....lang.trampoline import Walk
from ...ir.node import Block, Node, Value
from ...types.types import CLOSURE, NONE, OptionalType, Type, unify
from ..emitter import Emitter, described
from ..scopes import UNBOUND_LOCAL, Frame, InnerFunction, Refined, Sliced, UnusableName
from ..truth import EmitSide, TruthValue, refine


def emit_branch_statements(e: Emitter, span: Span, condition: TruthValue, bodies: tuple[EmitSide, EmitSide]) -> Walk:
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
        e.frame.bind(name, UnusableName("E304", f"is {kinds}, by the branch taken", (note,)))
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
    e: Emitter, branch: Node, name: str, type: Type, values: Sequence[Value | None], raised: Sequence[bool]
) -> None:
    for block, value, raises in zip(branch.blocks, values, raised, strict=True):
        if value is None or raises:
            with e.builder.at(block):
                value = e.builder.uninitialized(type)
        block.ret.add_input(value)
    output = branch.add_output(type, name.lstrip("$").partition(".")[0])
    if any(v in e.unsettled if v is not None else not raises for v, raises in zip(values, raised, strict=True)):
        e.unsettled.add(output)
    e.bind(name, output)


def _why_undefined(name: str, frames: list[Frame]) -> UnusableName:
    reasons = [found for frame in frames if isinstance(found := frame.lookup(name), UnusableName)]
    told = [reason for reason in reasons if reason is not UNBOUND_LOCAL]
    if any(isinstance(reason, InnerFunction) for reason in told):
        note = f"define '{name}' once, at the top level of its function, and put the `if` inside it"
        return UnusableName("E403", "is a function defined inside a branch or a loop", (note,))
    if any(isinstance(reason, Sliced) for reason in told):
        return UnusableName("E304", "is a slice, by the branch taken", ("use the slice inside the branch",))
    if told or len(reasons) == len(frames):
        return (told or reasons)[0]
    return UnusableName(
        "E205", "may be undefined here: only one branch assigns it", ("assign it before the `if`, or in both branches",)
    )


def branch_local_closure(name: str) -> UnusableName:
    return UnusableName(
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
