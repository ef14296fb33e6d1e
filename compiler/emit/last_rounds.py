"""Names that only the body of a loop assigns, as the source reads them after it: what the last round gave.

    for _ in range(n):                    %a = prim::Uninitialized()
        a = step(x)                       %last = prim::Loop(%n, …, %a)
        x = x + a                ─▶           …
    return a                              prim::If(%n < 1): raise
                                          return %last

Most such names are never read, so a loop carries one when it is, and not before. Where there was no round Python has no
value for the name, which is told where it is read.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.node import Node, Value
from ..ir.rewrite import NOT_CONSTANT, constant_of
from .scopes import Frame, LastRound


def value_of_last_round(builder: Builder, frame: Frame, last: LastRound, told: str) -> Value:
    """What the last round made of a name, carried out of its loop and those inside; an error where there was none."""
    chain = [last]
    while isinstance(chain[-1].given, LastRound):
        chain.append(chain[-1].given)
    value = chain[-1].given
    assert isinstance(value, Value)
    message = f"{told} has no value: the loop that assigns it ran no round"
    for inner, around in zip(chain[:0:-1], chain[-2::-1], strict=True):
        value = _carried(inner, value)
        if not around.carried:
            at = Builder(around.loop.blocks[0], span=builder.current_span)
            require_round(at, inner.loop.inputs[0], inner.loop.inputs[1], message)
    if frame.first_asks_for_a_round(last.loop):
        require_round(builder, last.loop.inputs[0], last.loop.inputs[1], message)
    return _carried(last, value)


def _carried(last: LastRound, value: Value) -> Value:
    """What a loop gives for a value at the end of its body."""
    if not last.carried:
        last.carried.append(_carry_out(last.loop, value))
    return last.carried[0]


def _carry_out(loop: Node, value: Value) -> Value:
    """An output of a loop for a value at the end of its body, uninitialized before the first round."""
    (block,) = loop.blocks
    loop.add_input(Builder.in_front_of(loop).uninitialized(value.type))
    block.add_input(value.type, value.name_hint)
    block.ret.add_input(value)
    return loop.add_output(value.type, value.name_hint)


def require_round(builder: Builder, trips: Value, entry: Value, message: str) -> None:
    """A RuntimeError at the builder's place where a loop has no round, of which neither its count nor its condition may
    say so beforehand."""
    if constant_of(entry) is not True:
        _raise_where(builder, builder.op("aten::__not__.bool", entry), message)
    count = constant_of(trips)
    if count is NOT_CONSTANT or count < 1:
        _raise_where(builder, builder.op("aten::lt.int", trips, 1), message)


def _raise_where(builder: Builder, condition: Value, message: str) -> None:
    branch = builder.node("prim::If", [condition], blocks=2)
    for block in branch.blocks:
        with builder.at(block):
            if block is branch.blocks[0]:
                builder.op_results("prim::RaiseException", message, "RuntimeError")
            builder.returns()
