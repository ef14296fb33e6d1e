"""Loops: `for`, `while` and list comprehensions → prim::Loop.

The values that a body rebinds are carried through the node. A name's type may widen on the way round (None, then
a tensor), which shows only at the end of the body: the body is then emitted again with the wider type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...lang import ast
from ...lang.trampoline import Walk
from ..functionalize.writes import WRITE
from ..ir.builder import Builder
from ..ir.node import Node, Value, walk
from ..types.types import BOOL, INT, ListType, TupleType, Type, is_tensor, unify
from .annotations import dotted_name
from .calls import as_int, emit_arguments, emit_resolved
from .conditions import Condition, emit_branch_statements, emit_condition, refine
from .emitter import EXPRESSIONS, Emitter, described, emits
from .exits import RESULT, Loop
from .objects import may_be_one
from .overloads import Argued
from .scopes import DELETED, Refined, Unusable
from .statements import bound_names, emit_statements, emit_target

MAX_UNROLLED = 10_000
"""Rounds of loops over tuples inside each other: what is in the innermost is written out so often."""
FOREVER = 2**63 - 1
"""The trip count of a loop that its condition alone ends."""
MAX_ATTEMPTS = 5


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


def emit_loop(e: Emitter, node: Loop) -> Walk:
    header = node.header
    if isinstance(header, ast.While):
        yield _emit_while(e, node, header)
        return
    iteration = yield _iteration(e, header.iterable)
    if iteration.items is not None:
        with _written_out(e, node, len(iteration.items)):
            yield _unroll(e, node, header, iteration.items)
        return

    def start(e: Emitter, index: Value) -> Walk:
        e.builder.current_span = node.span
        item = iteration.item(index)
        yield emit_target(e, header.target, Argued(item, header.iterable.span))

    loop = yield _emit_prim_loop(e, node, iteration.length, None, start)
    _follow_lists(e, loop, iteration)


def _follow_lists(e: Emitter, loop: Node, iteration: Iteration) -> None:
    """Where the body changes the length of a list that the loop runs over, each round looks whether there is more."""
    written = [n.inputs[0] for n in walk(loop.blocks[0].nodes) if n.kind == WRITE]
    if not any(may_be_one(target, watched) for target in written for watched in iteration.lists):
        return
    builder, (block,) = e.builder, loop.blocks
    with builder.before(loop):
        trips = builder.constant(FOREVER)
        for length in iteration.fixed:
            trips = builder.op("prim::min.int", trips, length)
        loop.set_input(0, trips)
        loop.set_input(1, _has_item(builder, iteration, builder.constant(0)))
    with builder.at(block):
        following = builder.op("aten::add.int", block.inputs[0], 1)
        more = _has_item(builder, iteration, following)
        block.ret.set_input(0, builder.op("aten::__and__.bool", block.outputs[0], more))


def _has_item(builder: Builder, iteration: Iteration, index: Value) -> Value:
    found: Value | None = None
    for watched in iteration.lists:
        has = builder.op("aten::lt.int", index, builder.op("aten::len.t", watched))
        found = has if found is None else builder.op("aten::__and__.bool", found, has)
    assert found is not None
    return found


def _emit_while(e: Emitter, node: Loop, header: ast.While) -> Walk:
    first = yield emit_condition(e, header.test)
    if first.static is False:
        return

    def start(e: Emitter, index: Value) -> Walk:
        yield from ()
        refine(e, e.frame, first.if_true)

    trips = e.at(node).constant(FOREVER)
    yield _emit_prim_loop(e, node, trips, first, start)


Start = Callable[[Emitter, Value], Walk]


def _emit_prim_loop(e: Emitter, node: Loop, trips: Value | None, first: Condition | None, start: Start) -> Walk:
    """The loop node; emitted again for as long as the body widens the type of what it carries."""
    assert trips is not None
    targets = (
        (ast.Assign(node.span, (node.header.target,), node.header.iterable, None),)
        if isinstance(node.header, ast.For)
        else ()
    )
    names = list(dict.fromkeys(bound_names((*targets, *node.body))))
    entry = first.value if first is not None and first.value is not None else e.at(node).constant(True)
    for _ in range(MAX_ATTEMPTS):
        found = len(e.diagnostics.found)
        initial = _initial_values(e, node, names)
        loop = e.at(node).node("prim::Loop", [trips, entry, *initial.values()], blocks=1)
        changed = yield _emit_body(e, node, loop, initial, start, RESULT in names)
        if not changed:
            _bind_results(e, loop, dict.fromkeys(bound_names((*targets, *node.body))), list(initial))
            return loop
        loop.destroy()
        del e.diagnostics.found[found:]
    raise e.fail("E304", "the types of this loop's variables do not settle", node.span, "annotate them before the loop")


def _initial_values(e: Emitter, node: Loop, names: Sequence[str]) -> dict[str, Value]:
    """What the loop carries, with the value each name has before it."""
    initial: dict[str, Value] = {}
    for name in names:
        if isinstance(e.frame.lookup(name), Value | Refined):
            initial[name] = e.lookup(name, node.span)
        elif name.startswith("$") and (id(node), name) in e.loop_types:
            initial[name] = e.builder.uninitialized(e.loop_types[id(node), name])
    return initial


def _emit_body(e: Emitter, node: Loop, loop: Node, initial: dict[str, Value], start: Start, returns: bool) -> Walk:
    """Emit the body once; whether a carried type turned out wider, so that it must be emitted again."""
    (block,) = loop.blocks
    with e.block(block, node.span) as frame:
        index = block.add_input(INT, "")
        for name, value in initial.items():
            type = e.loop_types.get((id(node), name), value.type)
            e.bind(name, block.add_input(type, name.lstrip("$").partition(".")[0]))
        params = dict(zip(initial, block.inputs[1:], strict=True))
        yield start(e, index)
        yield emit_statements(e, node.body)
        proceed = yield _proceed(e, node)
        results = [params[n] if frame.raised else _at_end(e, node, n, params[n]) for n in initial]
        e.builder.returns(proceed, *results)
        changed = _widen(e, node, params, results)
        if returns and RESULT not in initial:
            result = frame.lookup(RESULT)
            if result is not None:
                e.loop_types[id(node), RESULT] = e.lookup(RESULT, node.span).type
                changed = True
    return changed


def _at_end(e: Emitter, node: Loop, name: str, param: Value) -> Value:
    binding = e.frame.lookup(name)
    if binding is DELETED:
        note = "assign it anew in each round, or delete it after the loop"
        raise e.fail("E205", f"'{name}', assigned before the loop, is deleted inside", node.span, note)
    return param if binding is None else e.lookup(name, node.span)


def _proceed(e: Emitter, node: Loop) -> Walk:
    """Whether to go round again: not stopped, and the condition of a `while` still true."""
    span = node.span
    if node.until is not None and not e.frame.raised:
        return (yield _proceed_until(e, node, node.until))
    stopped = None if node.flag is None or e.frame.raised else e.lookup(node.flag, span)
    if isinstance(node.header, ast.For) or e.frame.raised:
        return e.at(node).constant(True) if stopped is None else e.value("aten::__not__.bool", node, stopped)
    if stopped is None:
        condition = yield emit_condition(e, node.header.test)
        return condition.value if condition.static is None else e.at(node).constant(condition.static)
    branch = e.at(node).node("prim::If", [stopped], [BOOL], blocks=2)
    with e.builder.at(branch.blocks[0]):
        e.builder.returns(e.builder.constant(False))
    with e.block(branch.blocks[1], span):
        condition = yield emit_condition(e, node.header.test)
        e.builder.returns(condition.value if condition.static is None else e.at(node).constant(condition.static))
    return branch.output


def _proceed_until(e: Emitter, node: Loop, test: ast.Expr) -> Walk:
    """`if test: break` at the end of the body; `if not go: break` takes `go` as it is."""
    negated = isinstance(test, ast.UnaryOp) and test.op == "not"
    condition = yield emit_condition(e, test.operand if isinstance(test, ast.UnaryOp) and negated else test)
    if condition.static is not None:
        return e.at(node).constant(condition.static is negated)
    return condition.value if negated else e.value("aten::__not__.bool", node, condition.value)


def _widen(e: Emitter, node: Loop, params: dict[str, Value], results: Sequence[Value]) -> bool:
    changed = False
    for (name, param), value in zip(params.items(), results, strict=True):
        type: Type | None = unify(param.type, value.type)
        if type is None:
            raise e.fail(
                "E304",
                f"{e.told(name)} is {described(param.type)} before the loop "
                f"and {described(value.type)} after a round of it",
                node.span,
                "a variable keeps one type through a loop; use two names",
            )
        if type != param.type:
            e.loop_types[id(node), name] = type
            changed = True
    return changed


def _bind_results(e: Emitter, loop: Node, bound: Iterable[str], carried: Sequence[str]) -> None:
    (block,) = loop.blocks
    for name, param in zip(carried, block.inputs[1:], strict=True):
        e.bind(name, loop.add_output(param.type, param.name_hint))
    for name in bound:
        if name not in carried and not name.startswith("$"):
            e.frame.bind(
                name,
                Unusable(
                    "E205",
                    "may be undefined here: only the loop's body assigns it",
                    ("assign it before the loop: the loop may run zero times",),
                ),
            )


# What a `for` runs over


def _iteration(e: Emitter, node: ast.Expr) -> Walk:
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
    if not isinstance(value.type, ListType):
        note = "write `range(…)`" if value.type == INT else "a `for` runs over range, a list, a tuple or a tensor"
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
    inner = yield _iteration(e, node.args[0])
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
        parts.append((yield _iteration(e, argument)))
    known = [part.items for part in parts if part.items is not None]
    if len(known) == len(parts):
        items = [e.at(node).tuple(item) for item in zip(*known, strict=False)]
        return Iteration(None, parts[0].item, tuple(items))
    parts = [_as_list(e, node, part) for part in parts]
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
    inner = yield _iteration(e, sequence)
    if inner.items is not None:
        return Iteration(None, inner.item, inner.items[::-1])
    last = e.value("aten::sub.int", node, inner.length, e.at(node).constant(1))
    return Iteration(inner.length, lambda index: inner.item(e.builder.op("aten::sub.int", last, index)))


def _as_list(e: Emitter, node: ast.Expr, part: Iteration) -> Iteration:
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


@contextmanager
def _written_out(e: Emitter, node: Loop, times: int) -> Iterator[None]:
    """Count the rounds of loops over tuples inside each other; too many are refused before any is emitted."""
    around = e.unrolled
    if around > 1 and around * times > MAX_UNROLLED:
        note = "a loop over a tuple is written out: loop over lists"
        raise e.fail("E004", f"loops over tuples with more than {MAX_UNROLLED} rounds in all", node.span, note)
    e.unrolled = around * max(times, 1)
    try:
        yield
    finally:
        e.unrolled = around


def _unroll(e: Emitter, node: Loop, header: ast.For, items: Sequence[Value]) -> Walk:
    """A loop over a tuple, whose items may differ in type: the body once for each."""
    for item in items:

        def body(e: Emitter, item: Value = item) -> Walk:
            yield emit_target(e, header.target, Argued(item, header.iterable.span))
            yield emit_statements(e, node.body)
            # What leaves one round may leave it for the next.
            e.frame.left = False

        def nothing(e: Emitter) -> Walk:
            yield from ()

        if node.flag is None:
            yield body(e)
        else:
            stopped = e.lookup(node.flag, node.span)
            e.at(node)
            yield emit_branch_statements(e, node.span, Condition(stopped), (nothing, body))


# List comprehensions


@emits(EXPRESSIONS, ast.ListComp)
def _list_comprehension(e: Emitter, node: ast.ListComp) -> Walk:
    empty = e.at(node).node("prim::ListConstruct", (), [ListType(INT)]).output
    iteration = yield _iteration(e, node.iterable)
    if iteration.items is not None:
        if not iteration.items:
            return empty
        iteration = _as_list(e, node.iterable, iteration)
    trips = iteration.length
    assert trips is not None
    loop = e.at(node).node("prim::Loop", [trips, e.builder.constant(True), empty], blocks=1)
    (block,) = loop.blocks
    index, collected = block.add_input(INT), block.add_input(ListType(INT))
    with e.block(block, node.span):
        e.at(node)
        item = iteration.item(index)
        yield emit_target(e, node.target, Argued(item, node.iterable.span))
        if node.condition is None:
            element = yield e.expression(node.element)
            result = _collect(e, node, empty, collected, element)
        else:
            result = yield _collect_if(e, node, empty, collected)
        e.builder.returns(e.builder.constant(True), result)
    _follow_lists(e, loop, iteration)
    return loop.add_output(collected.type)


def _collect(e: Emitter, node: ast.ListComp, empty: Value, collected: Value, element: Value) -> Value:
    """Append; the element's type is now known, and with it the list's."""
    empty.type = collected.type = ListType(element.type)
    return e.value("aten::append.t", node, collected, element)


def _collect_if(e: Emitter, node: ast.ListComp, empty: Value, collected: Value) -> Walk:
    assert node.condition is not None
    condition = yield emit_condition(e, node.condition)
    if condition.static is not None:
        if not condition.static:
            return collected
        return _collect(e, node, empty, collected, (yield e.expression(node.element)))
    branch = e.at(node).node("prim::If", [condition.value], blocks=2)
    with e.block(branch.blocks[0], node.span) as frame:
        refine(e, frame, condition.if_true)
        element = yield e.expression(node.element)
        e.builder.returns(_collect(e, node, empty, collected, element))
    branch.blocks[1].ret.add_input(collected)
    return branch.add_output(collected.type)
