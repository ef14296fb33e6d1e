"""`x.requires_grad` in a graph that is differentiated: decided by what is differentiated, as eager torch would have it.

An input requires a gradient if it is asked for one, a result if an operand does, unless its op has no derivative or it
is no floating tensor. Where a branch taken, the rounds of a loop or a dtype decides, the answer is a bool that is
computed along; beside a list of tensors runs a list of their answers.
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
from ..ops.registry import OPS, Trait
from ..passes.inline_functions import inline_functions
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..passes.simplification.fold_constants import fold_constants
from ..types.types import BOOL, ListType, OptionalType, TensorType, TupleType, Type, VariableType, is_tensor
from .certain_gradients import WITH, WITHOUT, CertainGradients
from .missing import may_be_missing

QUESTION = "prim::requires_grad"
Answer: TypeAlias = "bool | Value | tuple[Answer, ...]"
"""Of a tensor: known now, or a bool when the graph runs. Of a list the same for all its tensors, or a List[bool]; of a
tuple one for each element, or one for all."""

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
        self.certain = CertainGradients(graph, given, may_require, _only_moves).answers()


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
    """The answer of an input: of a list, tuples of bools become a constant list."""
    if not isinstance(answer, tuple):
        return answer
    if isinstance(type, TupleType):
        return tuple(_given(builder, part, a) for part, a in zip(type.elements, answer, strict=True))
    return _list(builder, type, answer)


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
    if node.next is None or not any(may_require(value.type) for value in node.outputs):
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
        if not isinstance(first, tuple):
            return [first] * len(node.outputs)
        return first if node.kind == "prim::TupleUnpack" else [first[node.attr("index")]]
    if node.kind == "prim::ListConstruct":
        return [_list(builder, node.output.type, given)]
    if node.kind == "prim::ListUnpack":
        if not _is_list(first):
            return [first] * len(node.outputs)
        assert isinstance(first, Value)
        return builder.node(node.kind, [first], [BOOL] * len(node.outputs)).outputs
    return _moved_by_op(builder, node, given)


def _moved_by_op(builder: Builder, node: Node, given: Sequence[Answer]) -> Sequence[Answer] | None:
    """An op on lists of anything does to the answers what it does to the tensors."""
    op = OPS.of(node.schema)
    if op is None or op.has(_WITHOUT) or not any(_holds_any(result.type) for result in op.schema.returns):
        return None
    moved = [(v, a) for v, a, p in zip(node.inputs, given, op.schema.arguments, strict=True) if _holds_any(p.type)]
    if not any(_is_list(a) for _, a in moved) and len({a for _, a in moved}) == 1:
        return [moved[0][1]]
    if any(list_depth(value.type) > 1 for value, _ in moved) or op.has(Trait.COMPARES):
        return [_any(builder, given)]
    inputs = [
        _beside(builder, value, answer) if _holds_any(p.type) else value
        for value, answer, p in zip(node.inputs, given, op.schema.arguments, strict=True)
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
        if joined is False or not may_require(type):
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
        if not may_require(value.type):
            continue
        sides = [answers.get(block.outputs[index], False) for block in node.blocks]
        if sides[0] is sides[1]:
            answers[value] = sides[0]
            continue
        as_list = any(map(_is_list, sides))
        for block, side in zip(node.blocks, sides, strict=True):
            builder = Builder(block, span=node.span)
            result = block.outputs[index]
            block.ret.add_input(_beside(builder, result, side) if as_list else as_bool(builder, side))
        answers[value] = node.add_output(ListType(BOOL) if as_list else BOOL)


def _loop(graph: Graph, node: Node, answers: Answers) -> Walk:
    (body,) = node.blocks
    places = carried(node)
    asked = []
    for i, place in enumerate(places):
        known = answers.certain.get(place.output)
        if known is not None:
            answers[place.parameter] = answers[place.output] = known
        elif may_require(place.output.type):
            asked.append(i)
    before = Builder(graph, before=node, span=node.span)
    for index in asked:
        value = places[index].initial
        type = _type_of_answers(value.type)
        node.add_input(_carried(before, value, answers.get(value, False)))
        answers[places[index].parameter] = body.add_input(type)
        answers[node.outputs[index]] = node.add_output(type)
    yield _block(graph, body, answers)
    for index in asked:
        value = places[index].result
        body.ret.add_input(_carried(Builder(body, span=node.span), value, answers.get(value, False)))


def _carried(builder: Builder, value: Value, answer: Answer) -> Value:
    return _beside(builder, value, answer) if list_depth(value.type) == 1 else as_bool(builder, answer)


# --- answers ---


def _list(builder: Builder, type: Type, given: Sequence[Answer]) -> Answer:
    """The answer of a list made of values with these."""
    if not given or all(answer is given[0] and not _is_list(answer) for answer in given):
        return given[0] if given else False
    if list_depth(type) > 1:
        return _any(builder, given)
    return builder.list([as_bool(builder, answer) for answer in given], BOOL)


def _beside(builder: Builder, value: Value, answer: Answer) -> Value:
    """An answer as a value: of a list, as a list of so many."""
    if list_depth(value.type) == 0 or _is_list(answer):
        return _as_value(builder, answer)
    if may_be_missing(value):
        return builder.op("aten::_flags.t", value, as_bool(builder, answer))
    length = builder.op("aten::len.t", value)
    return builder.op("aten::mul.left_t", builder.list([as_bool(builder, answer)], BOOL), length)


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
    if _is_list(answer):
        return builder.op("aten::any.bool", answer)
    return answer


def as_bool(builder: Builder, answer: Answer) -> Value:
    return _as_value(builder, _joined(builder, answer))


def _as_value(builder: Builder, answer: Answer) -> Value:
    assert not isinstance(answer, tuple)
    return answer if isinstance(answer, Value) else builder.constant(answer)


def _is_list(answer: Answer) -> bool:
    return isinstance(answer, Value) and isinstance(answer.type, ListType)


# --- types ---


_WITHOUT = Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY


def _type_of_answers(type: Type) -> Type:
    return ListType(BOOL) if list_depth(type) == 1 else BOOL


def list_depth(type: Type) -> int:
    """How many lists are around a tensor; of what holds tuples, 2: their elements have one answer for all."""
    depth = 0
    while isinstance(type, OptionalType | ListType):
        depth += isinstance(type, ListType)
        type = type.element
    return depth if is_tensor(type) or not depth else 2


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


def may_require(type: Type) -> bool:
    """Whether a floating tensor may be in it. Types are shallow, so this recurses."""
    if isinstance(type, OptionalType | ListType):
        return may_require(type.element)
    if isinstance(type, TupleType):
        return any(map(may_require, type.elements))
    return isinstance(type, TensorType) and (type.dtype is None or type.dtype.is_floating)
