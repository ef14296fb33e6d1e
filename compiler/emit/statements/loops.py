"""Loops: `for` and `while` → prim::Loop.

The values that a body rebinds are carried through the node. A name's type may widen on the way round (None, then
a tensor), which shows only at the end of the body: the body is then emitted again with the wider type. A number that
becomes a tensor, as `total = 0` does in `total = total + f(x)`, is one in the first round alone: that is emitted before
the loop, which goes on with the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ....lang import ast
from ....lang.trampoline import Walk
from ...ir.node import Node, Value
from ...spelling.overloads import Argued
from ...types.types import BOOL, CLOSURE, INT, NUMBERS, Type, is_tensor, unify
from ..bindings import bound_names
from ..emitter import Emitter, described, is_constant, known_constant
from ..exits import RESULT, Loop
from ..expressions.conditions import emit_condition
from ..expressions.iteration import FOREVER, follow_length, iterate
from ..expressions.targets import emit_targets
from ..last_rounds import require_round
from ..scopes import DELETED, Frame, InnerFunction, LastRound, Refined, Sliced, UnusableName
from ..truth import TruthValue, refine
from .branches import emit_branch_statements
from .simple import emit_statements

ONLY_IN_BODY = UnusableName(
    "E205",
    "may be undefined here: only the loop's body assigns it",
    ("assign it before the loop: a round may not assign it, or there may be none",),
)
MAX_UNROLLED = 10_000
"""Rounds of loops over tuples inside each other: what is in the innermost is written out so often."""
MAX_ATTEMPTS = 5
FIRST_ROUND = 4
"""As how many rounds one counts that is written out before its loop: loops inside are so in both."""


def emit_loop(e: Emitter, node: Loop) -> Walk:
    header = node.header
    if isinstance(header, ast.While):
        yield _emit_while(e, node, header)
        return
    iteration = yield iterate(e, header.iterable)
    if iteration.items is not None:
        with _written_out(e, node, len(iteration.items)):
            yield _unroll(e, node, header, iteration.items)
        return

    def start(e: Emitter, index: Value) -> Walk:
        e.builder.current_span = node.span
        item = iteration.item(index)
        yield emit_targets(e, (header.target,), Argued(item, header.iterable.span))

    loop, before, goes_on = yield _emit_prim_loop(e, node, iteration.length, None, start)
    if loop is not None:
        follow_length(e, loop, iteration, before, goes_on if before else None)


def _emit_while(e: Emitter, node: Loop, header: ast.While) -> Walk:
    first = yield emit_condition(e, header.test)
    if first.static is False:
        return

    def start(e: Emitter, index: Value) -> Walk:
        yield from ()
        refine(e, e.frame, first.if_true)

    trips = e.at(node).constant(FOREVER)
    yield _emit_prim_loop(e, node, trips, first, start)


RoundStart = Callable[[Emitter, Value], Walk]


def _emit_prim_loop(e: Emitter, node: Loop, trips: Value | None, first: TruthValue | None, start: RoundStart) -> Walk:
    """The loop node, None where a round before it raises; how many rounds are before it, and whether they go on.

    It is emitted again for as long as the body widens the type of what it carries.
    """
    assert trips is not None
    targets = (
        (ast.Assign(node.span, (node.header.target,), node.header.iterable, None),)
        if isinstance(node.header, ast.For)
        else ()
    )
    names = list(dict.fromkeys(bound_names((*targets, *node.body))))
    entry = first.value if first is not None and first.value is not None else e.at(node).constant(True)
    before, goes_on = 0, entry
    for _ in range(MAX_ATTEMPTS):
        found = len(e.diagnostics.found)
        initial = _initial_values(e, node, names)
        numbers = [name for name, value in initial.items() if value.type in NUMBERS and (id(node), name) in e.sums]
        if numbers:
            # What is a tensor behind the loop would be a number where there is no round, or no other.
            told = " and ".join(map(e.told, numbers))
            message = f"the loop ends before {told} becomes a tensor: start from one, `x.new_zeros([])`"
            require_round(e.at(node), trips, entry, message)
            with _written_out(e, node, FIRST_ROUND):
                goes_on = yield _emit_first_round(e, node, start)
            if e.frame.raised:
                return None, before, goes_on
            start, before = _one_later(node, start), before + 1
            if first is None:
                trips = _rounds_left(e, node, trips, goes_on)
            else:
                entry = goes_on
            initial = _initial_values(e, node, names)
        loop = e.at(node).node("prim::Loop", [trips, entry, *initial.values()], blocks=1)
        changed, at_end = yield _emit_body(e, node, loop, initial, start, names)
        if not changed:
            _bind_results(e, loop, dict.fromkeys(bound_names((*targets, *node.body))), list(initial), at_end)
            return loop, before, goes_on
        loop.destroy()
        del e.diagnostics.found[found:]
    raise e.fail("E304", "the types of this loop's variables do not settle", node.span, "annotate them before the loop")


def _emit_first_round(e: Emitter, node: Loop, start: RoundStart) -> Walk:
    """The body once, before the loop; whether there is another round."""
    yield start(e, e.at(node).constant(0))
    yield emit_statements(e, node.body)
    # What leaves the round may leave it for the next.
    e.frame.left = False
    return None if e.frame.raised else (yield _proceed(e, node))


def _rounds_left(e: Emitter, node: Loop, trips: Value, goes_on: Value) -> Value:
    """How many rounds are behind the first one, none where it left the loop."""
    left = e.value("aten::sub.int", node, trips, e.at(node).constant(1))
    if is_constant(goes_on):
        return left if known_constant(goes_on) else e.at(node).constant(0)
    branch = e.at(node).node("prim::If", [goes_on], [INT], blocks=2)
    for block, count in zip(branch.blocks, (left, None), strict=True):
        with e.builder.at(block):
            e.builder.returns(count if count is not None else e.builder.constant(0))
    return branch.output


def _one_later(node: Loop, start: RoundStart) -> RoundStart:
    def later(e: Emitter, index: Value) -> Walk:
        yield start(e, e.value("aten::add.int", node, index, e.at(node).constant(1)))

    return later


def _initial_values(e: Emitter, node: Loop, names: Sequence[str]) -> dict[str, Value]:
    """What the loop carries, with the value each name has before it."""
    initial: dict[str, Value] = {}
    for name in names:
        if isinstance(e.frame.lookup(name), Value | Refined):
            initial[name] = e.lookup(name, node.span)
        elif name.startswith("$") and (id(node), name) in e.loop_types:
            initial[name] = e.builder.uninitialized(e.loop_types[id(node), name])
    return initial


def _emit_body(
    e: Emitter, node: Loop, loop: Node, initial: dict[str, Value], start: RoundStart, names: Sequence[str]
) -> Walk:
    """Emit the body once; whether a carried type turned out wider, so that it must be emitted again, and what is at the
    end of the names that are not carried."""
    (block,) = loop.blocks
    block.param.span = node.span
    with e.block(block, node.span) as frame:
        index = block.add_input(INT, "")
        for name, value in initial.items():
            type = e.loop_types.get((id(node), name), value.type)
            e.bind(name, block.add_input(type, name.lstrip("$").partition(".")[0]))
        for name in names:
            if isinstance(e.frame.lookup(name), LastRound | InnerFunction | Sliced):
                # What it is before this loop, it is not here: it is what the round before made of it.
                e.frame.bind(name, ONLY_IN_BODY)
        params = dict(zip(initial, block.inputs[1:], strict=True))
        yield start(e, index)
        yield emit_statements(e, node.body)
        proceed = yield _proceed(e, node)
        results = [params[n] if frame.raised else _at_end(e, node, n, params[n]) for n in initial]
        e.builder.returns(proceed, *results)
        changed = _widen(e, node, params, results)
        at_end = {} if frame.raised else _of_last_round(e, frame, names)
        if RESULT in names and RESULT not in initial:
            result = frame.lookup(RESULT)
            if result is not None:
                e.loop_types[id(node), RESULT] = e.lookup(RESULT, node.span).type
                changed = True
    return changed, at_end


def _of_last_round(e: Emitter, frame: Frame, names: Sequence[str]) -> dict[str, Value | LastRound]:
    """What each name that the body itself binds stands for after it, where every round comes to its end with it."""
    found = {name: frame.bindings.get(name) for name in names}
    return {
        name: binding
        for name, binding in found.items()
        if isinstance(binding, LastRound)
        or (isinstance(binding, Value) and binding not in e.unsettled and binding.type != CLOSURE)
    }


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
        place, adds_up = (id(node), name), param.type in NUMBERS and is_tensor(value.type)
        if type is None and adds_up and not name.startswith("$"):
            e.sums.add(place)
            changed = True
        elif type is None:
            message = f"{e.told(name)} is {described(param.type)} before the loop "
            message += f"and {described(value.type)} after a round of it"
            raise e.fail("E304", message, node.span, "a variable keeps one type through a loop; use two names")
        elif type != param.type:
            e.loop_types[id(node), name] = type
            changed = True
    return changed


def _bind_results(
    e: Emitter, loop: Node, bound: Iterable[str], carried: Sequence[str], at_end: Mapping[str, Value | LastRound]
) -> None:
    (block,) = loop.blocks
    for name, param in zip(carried, block.inputs[1:], strict=True):
        e.bind(name, loop.add_output(param.type, param.name_hint))
    for name in bound:
        if name not in carried and not name.startswith("$"):
            given = at_end.get(name)
            e.frame.bind(name, ONLY_IN_BODY if given is None else LastRound(loop, given))


@contextmanager
def _written_out(e: Emitter, node: Loop, times: int) -> Iterator[None]:
    """Count the rounds that are written out inside each other; too many are refused before any is emitted."""
    around = e.unrolled
    if around > 1 and around * times > MAX_UNROLLED:
        note = "loop over lists, and start from tensors: loops over tuples are written out, and first rounds of sums"
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
            yield emit_targets(e, (header.target,), Argued(item, header.iterable.span))
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
            yield emit_branch_statements(e, node.span, TruthValue(stopped), (nothing, body))
