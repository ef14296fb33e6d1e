"""`x.requires_grad` in a graph that is differentiated: decided by what is differentiated, as eager torch would have it.

An input requires a gradient if it is asked for one, a result if an operand does, unless its op has no derivative or it
is no floating tensor. Where a branch taken, the rounds of a loop or a dtype decides, the answer is a bool that is
computed along; beside a list, of tensors or of what holds such, runs a list of their answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ...lang.light_dataclasses import replace
from ...lang.trampoline import Walk, run
from ..ir.builder import Builder
from ..ir.graph import Callee, Graph
from ..ir.kinds import carried
from ..ir.node import Block, Node, Value
from ..ir.rewrite import replace_node
from ..ir.signature import bind, substitute
from ..ops.registry import OPS, Trait
from ..passes.inline_functions import inline_functions
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..passes.simplification.fold_constants import fold_constants
from ..types.types import BOOL, ListType, OptionalType, TensorType, TupleType, Type, VariableType, can_require_grad
from .certain_gradients import WITH, WITHOUT, CertainGradients
from .missing import may_be_missing

QUESTION = "prim::requires_grad"
Answer: TypeAlias = "bool | Value | tuple[Answer, ...]"
"""Of a tensor: known now, or a bool when the graph runs. Of a list the same for all its tensors, or lists and tuples of
bools as it holds tensors (`type_of_answers`); of a tuple one for each element, or one for all."""

_PASSED_ON = frozenset(
    (
        *("prim::unchecked_unwrap_optional", "prim::unchecked_cast"),
        *("aten::_unrecorded_view", "aten::_unrecorded_views", "aten::_replaced"),
    )
)
"""What gives its first operand, or what answers alike."""
_STRUCTURE = _PASSED_ON | {
    *("prim::TupleConstruct", "prim::TupleUnpack", "prim::TupleIndex", "prim::ListConstruct", "prim::ListUnpack"),
}


class Answers(dict[Value, Answer]):
    """What is known so far. `of_floats` leaves open whether a result is a floating tensor."""

    def __init__(self, *, of_floats: bool = False) -> None:
        super().__init__()
        self.of_floats = of_floats
        self.certain: Mapping[Value, bool] = {}
        """Of values that loops carry."""

    def find_certain(self, graph: Graph) -> None:
        """Find out for which of them no run has to decide, given the inputs' answers."""
        given = {v: WITHOUT if a is False else WITH if a is True else WITH | WITHOUT for v, a in self.items()}
        self.certain = CertainGradients(graph, given, can_require_grad, _only_moves).answers()


def answer_requires_grad(graph: Graph, asked: Mapping[Value, Answer]) -> None:
    """Put an answer in the place of every `x.requires_grad`; `asked` are those of the inputs, False where left out.

    Before, where x is asked for:
        graph f(%x : Tensor, %w : Tensor, %flag : bool):
          %y : Tensor = prim::If(%flag)
            block():
              return (%x)
            block():
              return (%w)
          %1 : bool = prim::requires_grad(%x)
          %2 : bool = prim::requires_grad(%y)
          return (%1, %2)
    After:
        graph f(%x : Tensor, %w : Tensor, %flag : bool):
          %1 : bool = prim::If(%flag)
            block():
              %2 : bool = prim::Constant[value=True]()
              return (%2)
            block():
              %3 : bool = prim::Constant[value=False]()
              return (%3)
          %4 : bool = prim::Constant[value=True]()
          return (%4, %1)
    """
    if not asks(graph):
        return
    find_answers(graph, asked, Answers())
    fold_constants(graph)
    eliminate_dead_code(graph)


def find_answers(graph: Graph, asked: Mapping[Value, Answer], answers: Answers) -> None:
    """Add to the answers those of all values, computed along, and put them in the places of questions."""
    for value, answer in asked.items():
        answers[value] = _given(Builder(graph, before=graph.body.param.next), value.type, answer)
    if answers.of_floats:
        answers.find_certain(graph)
    run(_block(graph, graph.body, answers))


def asks(graph: Graph) -> bool:
    """Whether a gradient's being required is asked for anywhere in a graph, or in what it calls."""
    pending = [graph]
    for current in pending:
        for node in current.all_nodes():
            if node.kind == QUESTION:
                return True
            callee = current.called(node)
            if callee is not None and callee.graph not in pending:
                pending.append(callee.graph)
    return False


def _given(builder: Builder, type: Type, answer: Answer) -> Answer:
    """The answer of an input: of a list, tuples of bools become a constant list. Types are shallow: this recurses."""
    if not isinstance(answer, tuple):
        return answer
    if isinstance(type, TupleType):
        return tuple(_given(builder, part, a) for part, a in zip(type.elements, answer, strict=True))
    alike = _alike(answer)
    return _constant(builder, type_of_answers(type), answer) if alike is None else alike


def _alike(answer: Answer) -> bool | None:
    """What is said of all tensors; None where it is not the same."""
    pending, found = [answer], set[Answer]()
    for current in pending:
        if isinstance(current, tuple):
            pending += current
        else:
            found.add(current)
    return None if len(found) > 1 else True in found


def _constant(builder: Builder, type: Type, answer: Answer) -> Value:
    if isinstance(type, ListType):
        # None, where a list may stand, has no elements.
        items = answer if isinstance(answer, tuple) else ()
        return builder.list([_constant(builder, type.element, item) for item in items], type.element)
    if isinstance(type, TupleType) and isinstance(answer, tuple):
        return builder.tuple([_constant(builder, t, a) for t, a in zip(type.elements, answer, strict=True)])
    return builder.constant(answer is True)


def _block(graph: Graph, block: Block, answers: Answers) -> Walk:
    for node in list(block.nodes):
        if node.kind == QUESTION:
            builder = Builder(graph, before=node, span=node.span)
            replace_node(node, [_as_value(builder, _joined(builder, answers.get(node.inputs[0], False)))])
        elif node.kind == "prim::If":
            yield _branch(graph, node, answers)
        elif node.kind == "prim::Loop":
            yield _loop(graph, node, answers)
        else:
            for inner in node.blocks:
                yield _block(graph, inner, answers)
            _results(graph, node, answers)


# --- what nodes give ---


def _results(graph: Graph, node: Node, answers: Answers) -> None:
    callee = graph.called(node)
    if callee is not None and asks(callee.graph):
        _specialize_call(graph, node, callee, answers)
    if node.next is None or not any(can_require_grad(value.type) for value in node.outputs):
        return
    builder = Builder(graph, before=node.next, span=node.span)
    given = [answers.get(value, False) for value in node.inputs]
    found = _moved(builder, node, given)
    if found is None:
        found = _computed(builder, node, given, of_floats=answers.of_floats)
    answers.update(zip(node.outputs, found, strict=True))


def _moved(builder: Builder, node: Node, given: Sequence[Answer]) -> Sequence[Answer] | None:
    """The answers of what a node only moves about; None for one that computes."""
    first = given[0] if given else False
    if node.kind in _PASSED_ON:
        return [first]
    if node.kind == "prim::TupleConstruct":
        return [tuple(given)]
    if node.kind in ("prim::TupleUnpack", "prim::TupleIndex"):
        if isinstance(first, Value) and isinstance(first.type, TupleType):
            first = tuple(builder.unpack(first))
        if not isinstance(first, tuple):
            return [first] * len(node.outputs)
        return first if node.kind == "prim::TupleUnpack" else [first[node.attr("index")]]
    if node.kind == "prim::ListConstruct":
        return [_list(builder, node, given)]
    if node.kind == "prim::ListUnpack":
        if not isinstance(first, Value) or not isinstance(first.type, ListType):
            return [first] * len(node.outputs)
        return builder.node(node.kind, [first], [first.type.element] * len(node.outputs)).outputs
    return _moved_by_op(builder, node, given)


def _moved_by_op(builder: Builder, node: Node, given: Sequence[Answer]) -> Sequence[Answer] | None:
    """An op on lists of anything does to the answers what it does to the tensors."""
    op = OPS.of(node.schema)
    if op is None or op.has(_WITHOUT):
        return None
    if op.has(Trait.ELEMENTS_APART):
        return [_beside(builder, node.inputs[0], given[0], ListType(BOOL)) if _is_told(given[0]) else given[0]]
    if not any(_holds_any(result.type) for result in op.schema.returns):
        return None
    holds = [_holds_any(parameter.type) for parameter in op.schema.arguments]
    moved = [answer for answer, is_any in zip(given, holds, strict=True) if is_any]
    if not any(map(_is_told, moved)) and len(set(moved)) == 1:
        return [moved[0]]
    if op.has(Trait.COMPARES):
        return [_any(builder, given)]
    # None may stand where a list does: what the variables stand for says so.
    bound = bind(op.schema, [value.type for value in node.inputs]) or {}
    inputs = [
        _beside(builder, value, answer, type_of_answers(substitute(parameter.type, bound))) if is_any else value
        for value, answer, parameter, is_any in zip(node.inputs, given, op.schema.arguments, holds, strict=True)
    ]
    return [builder.op(node.kind, *inputs)]


def _computed(builder: Builder, node: Node, given: Sequence[Answer], *, of_floats: bool) -> Sequence[Answer]:
    """Results of an op or a call: they require a gradient if an operand does, and if they are floating tensors."""
    if OPS.has(node.schema, _WITHOUT):
        return [False] * len(node.outputs)
    joined = _any(builder, given)
    found: list[Answer] = []
    for value in node.outputs:
        type = value.type
        if joined is False or not can_require_grad(type):
            found.append(False)
        elif of_floats or not isinstance(type, TensorType) or type.dtype is not None:
            found.append(joined)
        else:
            floating = builder.op("aten::is_floating_point", value)
            found.append(floating if joined is True else builder.op("aten::__and__.bool", joined, floating))
    return found


def _specialize_call(graph: Graph, node: Node, callee: Callee, answers: Answers) -> None:
    """A call of a function with its own backward that asks: of a copy in which the answers stand."""
    asked = [answers.get(value, False) is not False for value in node.inputs]
    name = f"{callee.schema.name}.{''.join('01'[flag] for flag in asked)}"
    if name not in graph.functions:
        graph.functions = {**graph.functions, name: _answered(callee, asked)}
    node.attrs = {**node.attrs, "callee": name}


def _answered(callee: Callee, asked: list[bool]) -> Callee:
    def copy(graph: Graph) -> Graph:
        copied = graph.copy()
        inline_functions(copied, keep_pairs=True)
        answer_requires_grad(copied, {v: True for v, flag in zip(copied.inputs, asked, strict=False) if flag})
        return copied

    pair = callee.pair
    if pair is not None:
        pair = replace(pair, forward=copy(pair.forward), replay=copy(pair.replay) if pair.replay is not None else None)
    return Callee(callee.schema, copy(callee.graph), pair)


# --- branches and loops ---


def _branch(graph: Graph, node: Node, answers: Answers) -> Walk:
    for block in node.blocks:
        yield _block(graph, block, answers)
    for index, value in enumerate(list(node.outputs)):
        if not can_require_grad(value.type):
            continue
        sides = [answers.get(block.outputs[index], False) for block in node.blocks]
        if sides[0] is sides[1]:
            answers[value] = sides[0]
            continue
        type = type_of_answers(value.type) if any(map(_is_told, sides)) else BOOL
        for block, side in zip(node.blocks, sides, strict=True):
            block.ret.add_input(_beside(Builder(block, span=node.span), block.outputs[index], side, type))
        answers[value] = node.add_output(type)


def _loop(graph: Graph, node: Node, answers: Answers) -> Walk:
    (body,) = node.blocks
    places = carried(node)
    asked = []
    for i, place in enumerate(places):
        known = answers.certain.get(place.output)
        if known is not None:
            answers[place.parameter] = answers[place.output] = known
        elif can_require_grad(place.output.type):
            asked.append(i)
    before = Builder(graph, before=node, span=node.span)
    for index in asked:
        value = places[index].initial
        type = type_of_answers(places[index].output.type)
        node.add_input(_beside(before, value, answers.get(value, False), type))
        answers[places[index].parameter] = body.add_input(type)
        answers[node.outputs[index]] = node.add_output(type)
    yield _block(graph, body, answers)
    for index in asked:
        value = places[index].result
        type = type_of_answers(places[index].output.type)
        body.ret.add_input(_beside(Builder(body, span=node.span), value, answers.get(value, False), type))


# --- answers ---


def _list(builder: Builder, node: Node, given: Sequence[Answer]) -> Answer:
    """The answer of a list made of values with these."""
    if not given or all(answer is given[0] and not _is_told(answer) for answer in given):
        return given[0] if given else False
    assert isinstance(node.output.type, ListType)
    type = type_of_answers(node.output.type.element)
    return builder.list([_beside(builder, v, a, type) for v, a in zip(node.inputs, given, strict=True)], type)


def _beside(builder: Builder, value: Value, answer: Answer, type: Type) -> Value:
    """An answer as a value of this type: of a list, as a list of so many. Types are shallow: this recurses."""
    if isinstance(answer, Value) and answer.type == type:
        return answer
    if isinstance(type, TupleType) and isinstance(value.type, TupleType):
        parts = answer if isinstance(answer, tuple) else (answer,) * len(type.elements)
        values = builder.unpack(value)
        return builder.tuple([_beside(builder, *part) for part in zip(values, parts, type.elements, strict=True)])
    told = as_bool(builder, answer)
    if type == BOOL:
        return told
    if type != ListType(BOOL):
        return builder.op("aten::_flags.nested", value, told, builder.list([], type))
    if may_be_missing(value):
        return builder.op("aten::_flags.t", value, told)
    length = builder.op("aten::len.t", value)
    return builder.op("aten::mul.left_t", builder.list([told], BOOL), length)


def _any(builder: Builder, answers: Sequence[Answer]) -> bool | Value:
    """Whether any is true."""
    found: bool | Value = False
    for answer in dict.fromkeys(_joined(builder, answer) for answer in answers):
        if answer is True:
            return True
        if answer is not False:
            found = builder.op("aten::__or__.bool", found, answer) if isinstance(found, Value) else answer
    return found


def _joined(builder: Builder, answer: Answer) -> bool | Value:
    """One answer for all that a list or a tuple holds."""
    if isinstance(answer, tuple):
        return _any(builder, answer)
    if isinstance(answer, Value) and answer.type != BOOL:
        return builder.op("aten::any.bool" if answer.type == ListType(BOOL) else "aten::_any_flag", answer)
    return answer


def as_bool(builder: Builder, answer: Answer) -> Value:
    return _as_value(builder, _joined(builder, answer))


def _as_value(builder: Builder, answer: Answer) -> Value:
    assert not isinstance(answer, tuple)
    return answer if isinstance(answer, Value) else builder.constant(answer)


def _is_told(answer: Answer) -> bool:
    """Whether it is one for each of what a value holds."""
    return isinstance(answer, tuple) or (isinstance(answer, Value) and answer.type != BOOL)


# --- types ---


_WITHOUT = Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY


def type_of_answers(type: Type) -> Type:
    """Lists and tuples of bools as a value holds tensors; a bool of what holds none. Types are shallow."""
    if isinstance(type, OptionalType):
        return type_of_answers(type.element)
    if isinstance(type, TupleType):
        return TupleType(tuple(map(type_of_answers, type.elements)))
    return ListType(type_of_answers(type.element)) if isinstance(type, ListType) else BOOL


def _only_moves(node: Node) -> bool:
    """Whether a node makes no tensor: structure, and ops on lists of anything."""
    op = OPS.of(node.schema)
    if op is None:
        return node.kind in _STRUCTURE
    if node.kind in _PASSED_ON:
        return True
    return not op.has(_WITHOUT) and any(_holds_any(result.type) for result in op.schema.returns)


def _holds_any(type: Type) -> bool:
    """Whether a type variable is in it. Types of schemas are shallow, so this recurses."""
    return isinstance(type, VariableType) or (isinstance(type, ListType | OptionalType) and _holds_any(type.element))
