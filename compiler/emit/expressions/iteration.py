"""What a `for` runs over: ranges, lists, tuples, tensors, and their enumerations, zips and reversals."""

from __future__ import annotations

from collections.abc import Callable

from ....lang import ast
from ....lang.light_dataclasses import dataclass
from ....lang.trampoline import Walk
from ...functionalize.write_nodes import WRITE
from ...ir.builder import Builder
from ...ir.node import Node, Value, walk
from ...spelling.overloads import Argued
from ...types.types import INT, STR, ListType, TupleType, Type, is_tensor, unify
from ..annotations import dotted_name
from ..emitter import Emitter, described
from ..objects import may_be_one
from ..resolve import as_int, emit_arguments, emit_resolved

FOREVER = 2**63 - 1
"""The trip count of a loop that its condition alone ends."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """What a `for` runs over: a length and the item at an index, or the items themselves, known now.

    `lists` are the lists among it, which the body may shorten or lengthen; `fixed` are the other lengths.
    """

    length: Value | None
    item: Callable[[Value], Value]
    items: tuple[Value, ...] | None = None
    lists: tuple[Value, ...] = ()
    fixed: tuple[Value, ...] = ()


def iterate(e: Emitter, node: ast.Expr) -> Walk:
    if isinstance(node, ast.Call) and iterates(e, node):
        name = dotted_name(node.function)
        if node.keywords and name != "enumerate":
            raise e.fail("E204", f"{name}() takes no keyword arguments here", node.keywords[0].span)
        return (yield _CALLS[name](e, node))
    value = yield e.expression(node)
    return _over_value(e, node, value)


def iterates(e: Emitter, node: ast.Expr) -> bool:
    """Whether the expression is `range(…)` or another call that gives no value, but what a loop runs over."""
    if not isinstance(node, ast.Call) or not isinstance(node.function, ast.Name):
        return False
    name = node.function.id
    return name in _CALLS and e.frame.lookup(name) is None and name not in e.unit.names


def _over_value(e: Emitter, node: ast.Expr, value: Value) -> Iteration:
    if isinstance(value.type, TupleType):
        return Iteration(None, lambda index: value, tuple(e.elements(value, node)))
    given = value
    if is_tensor(value.type):
        value = emit_resolved(e, node, "unbind", [Argued(value, node.span)], "iteration")
    if value.type == STR:
        value = emit_resolved(e, node, "list", [Argued(value, node.span)], "iteration")
    if not isinstance(value.type, ListType):
        note = (
            "write `range(…)`" if value.type == INT else "a `for` runs over range, a list, a tuple, a str or a tensor"
        )
        raise e.fail("E301", f"{described(value.type)} cannot be iterated", node.span, note)
    length = e.value("aten::len.t", node, value)
    lists = (value,) if value is given else ()
    return Iteration(length, lambda index: e.builder.op("aten::__getitem__.t", value, index), lists=lists)


def _over_range(e: Emitter, node: ast.Call) -> Walk:
    arguments = yield emit_arguments(e, node)
    if not 1 <= len(arguments) <= 3:
        raise e.fail("E204", f"range() takes 1 to 3 arguments, not {len(arguments)}", node.span)
    arguments = [as_int(e, node, argument) for argument in arguments]
    for argument in arguments:
        if argument.value.type != INT:
            raise e.fail("E204", f"range() takes ints, not {described(argument.value.type)}", argument.span)
    if len(arguments) == 1:
        return Iteration(arguments[0].value, lambda index: index)
    start, stop = arguments[0].value, arguments[1].value
    step = arguments[2].value if len(arguments) == 3 else e.at(node).constant(1)
    length = e.value("aten::__range_length", node, start, stop, step)
    return Iteration(length, lambda index: e.builder.op("aten::__derive_index", index, start, step))


def _over_enumerate(e: Emitter, node: ast.Call) -> Walk:
    starts = (*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.name == "start"))
    if not node.args or len(starts) != len(node.args) - 1 + len(node.keywords) or len(starts) > 1:
        raise e.fail("E204", "enumerate() takes an iterable and a start", node.span)
    inner = yield iterate(e, node.args[0])
    start = (yield e.expression(starts[0])) if starts else None
    if start is not None and start.type != INT:
        raise e.fail("E204", f"enumerate() starts at an int, not at {described(start.type)}", starts[0].span)

    def counted(index: Value) -> Value:
        return index if start is None else e.builder.op("aten::add.int", index, start)

    if inner.items is not None:
        items = [e.builder.tuple([counted(e.at(node).constant(i)), item]) for i, item in enumerate(inner.items)]
        return Iteration(None, inner.item, tuple(items))
    return Iteration(
        inner.length, lambda index: e.builder.tuple([counted(index), inner.item(index)]), None, inner.lists, inner.fixed
    )


def _over_zip(e: Emitter, node: ast.Call) -> Walk:
    if not node.args:
        raise e.fail("E204", "zip() takes at least one iterable", node.span)
    parts: list[Iteration] = []
    for argument in node.args:
        parts.append((yield iterate(e, argument)))
    known = [part.items for part in parts if part.items is not None]
    if len(known) == len(parts):
        items = [e.at(node).tuple(item) for item in zip(*known, strict=False)]
        return Iteration(None, parts[0].item, tuple(items))
    parts = [zipped_as_list(e, node, part) for part in parts]
    lengths = [part.length for part in parts if part.length is not None]
    shortest = lengths[0]
    for length in lengths[1:]:
        shortest = e.value("prim::min.int", node, shortest, length)
    lists = tuple(watched for part in parts for watched in part.lists)
    fixed = tuple(f for part in parts for f in (part.fixed if part.lists else (part.length,)) if f is not None)
    return Iteration(shortest, lambda index: e.builder.tuple([part.item(index) for part in parts]), None, lists, fixed)


def _over_reversed(e: Emitter, node: ast.Call) -> Walk:
    """The last comes first; enumerations and zips cannot be reversed, as in Python."""
    if len(node.args) != 1:
        raise e.fail("E204", "reversed() takes one sequence", node.span)
    (sequence,) = node.args
    if iterates(e, sequence) and dotted_name(sequence.function) != "range":  # type: ignore[union-attr]
        note = "reverse the list first: `enumerate(list(reversed(l)))`"
        raise e.fail("E204", "only a range, a list, a tuple or a tensor is reversed", sequence.span, note)
    inner = yield iterate(e, sequence)
    if inner.items is not None:
        return Iteration(None, inner.item, inner.items[::-1])
    last = e.value("aten::sub.int", node, inner.length, e.at(node).constant(1))
    return Iteration(inner.length, lambda index: inner.item(e.builder.op("aten::sub.int", last, index)))


def zipped_as_list(e: Emitter, node: ast.Expr, part: Iteration) -> Iteration:
    """A tuple zipped with a list is run over as a list."""
    if part.items is None:
        return part
    type: Type | None = part.items[0].type if part.items else INT
    for item in part.items[1:]:
        type = unify(type, item.type) if type is not None else None
    if type is None:
        raise e.fail("E301", "a tuple of several types is zipped with a list", node.span, "make both tuples, or lists")
    return _over_value(e, node, e.at(node).list(part.items, type))


_CALLS: dict[str, Callable[[Emitter, ast.Call], Walk]] = {
    "range": _over_range,
    "enumerate": _over_enumerate,
    "zip": _over_zip,
    "reversed": _over_reversed,
}


def follow_length(e: Emitter, loop: Node, iteration: Iteration, before: int = 0, goes_on: Value | None = None) -> None:
    """Where the body changes the length of a list that the loop runs over, each round looks whether there is more.

    `before` is how many rounds are before the loop, `goes_on` whether they do not leave it.
    """
    # What is written into a tensor changes the length of no list.
    targets = [n.inputs[0] for n in walk(loop.blocks[0].nodes) if n.kind == WRITE]
    written = [target for target in targets if not is_tensor(target.type)]
    if not any(may_be_one(target, watched) for target in written for watched in iteration.lists):
        return
    builder, (block,) = e.builder, loop.blocks
    with builder.before(loop):
        loop.set_input(0, builder.constant(FOREVER))
        first = _has_item(builder, iteration, builder.constant(before))
        loop.set_input(1, first if goes_on is None else builder.op("aten::__and__.bool", goes_on, first))
    with builder.at(block):
        following = builder.op("aten::add.int", block.inputs[0], 1 + before)
        more = _has_item(builder, iteration, following)
        block.ret.set_input(0, builder.op("aten::__and__.bool", block.outputs[0], more))


def _has_item(builder: Builder, iteration: Iteration, index: Value) -> Value:
    found: Value | None = None
    for length in (*iteration.fixed, *[builder.op("aten::len.t", watched) for watched in iteration.lists]):
        has = builder.op("aten::lt.int", index, length)
        found = has if found is None else builder.op("aten::__and__.bool", found, has)
    assert found is not None
    return found
