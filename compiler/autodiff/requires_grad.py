"""`x.requires_grad` in a graph that is differentiated: decided by what is differentiated, as eager torch would have it.

An input requires a gradient if it is asked for one, a result if an operand does, unless its op has no derivative or it
is no floating tensor. Where a branch taken, the rounds of a loop or a dtype decides, the answer is a bool that is
computed along.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...lang.trampoline import Walk, run
from ..ir.builder import Builder
from ..ir.graph import Callee, Graph
from ..ir.kinds import carried
from ..ir.node import Block, Node, Value
from ..ir.rewrite import replace_node
from ..ops.registry import OPS, Trait
from ..passes.eliminate_dead_code import eliminate_dead_code
from ..passes.fold_constants import fold_constants
from ..types.types import BOOL, ListType, OptionalType, TensorType, TupleType, Type

QUESTION = "prim::requires_grad"
Answer = bool | Value
"""Known now, or when the graph runs."""

_MOVES = frozenset(
    (
        *("prim::TupleConstruct", "prim::TupleUnpack", "prim::TupleIndex", "prim::ListConstruct", "prim::ListUnpack"),
        *("prim::unchecked_unwrap_optional", "prim::unchecked_cast"),
    )
)
"""What only moves values about, which keep the dtypes that they have."""


def answer_requires_grad(graph: Graph, asked: Iterable[Value]) -> None:
    """Put an answer in the place of every `x.requires_grad`; `asked` are the inputs that a gradient is asked for."""
    if not any(_asks(node, graph) for node in graph.all_nodes()):
        return
    answers: dict[Value, Answer] = dict.fromkeys(asked, True)
    run(_block(graph, graph.body, answers))
    fold_constants(graph)
    eliminate_dead_code(graph)


def _asks(node: Node, graph: Graph) -> bool:
    if node.kind != "prim::CallFunction":
        return node.kind == QUESTION
    callee = graph.functions.get(node.attr("callee"))
    return callee is not None and any(inner.kind == QUESTION for inner in callee.graph.all_nodes())


def _block(graph: Graph, block: Block, answers: dict[Value, Answer]) -> Walk:
    for node in list(block.nodes):
        if node.kind == QUESTION:
            builder = Builder(graph, before=node, span=node.span)
            answer = answers.get(node.inputs[0], False)
            replace_node(node, [answer if isinstance(answer, Value) else builder.constant(answer)])
        elif node.kind == "prim::If":
            yield _branch(graph, node, answers)
        elif node.kind == "prim::Loop":
            yield _loop(graph, node, answers)
        else:
            for inner in node.blocks:
                yield _block(graph, inner, answers)
            _results(graph, node, answers)


def _results(graph: Graph, node: Node, answers: dict[Value, Answer]) -> None:
    op = OPS.of(node.schema)
    if op is not None and op.has(Trait.NONDIFFERENTIABLE | Trait.SHAPE_ONLY):
        return
    if node.kind == "prim::CallFunction" and _asks(node, graph):
        _specialize_call(graph, node, answers)
    given = [value for value in node.outputs if _may_require(value.type)]
    if not given or node.next is None:
        return
    builder = Builder(graph, before=node.next, span=node.span)
    joined = _any(builder, [answers.get(value, False) for value in node.inputs])
    for value in given:
        type = value.type
        is_known = node.kind in _MOVES or not isinstance(type, TensorType) or type.dtype is not None
        if is_known or joined is False:
            answers[value] = joined
        else:
            floating = builder.op("aten::is_floating_point", value)
            answers[value] = floating if joined is True else builder.op("aten::__and__.bool", joined, floating)


def _specialize_call(graph: Graph, node: Node, answers: dict[Value, Answer]) -> None:
    """A call of a function with its own backward that asks: of a copy in which the answers stand."""
    callee = graph.functions[node.attr("callee")]
    asked = [answers.get(value, False) is not False for value in node.inputs]
    name = f"{callee.schema.name}.{''.join('01'[flag] for flag in asked)}"
    if name not in graph.functions:
        graph.functions = {**graph.functions, name: _answered(callee, asked)}
    node.attrs = {**node.attrs, "callee": name}


def _answered(callee: Callee, asked: list[bool]) -> Callee:
    def copy(graph: Graph) -> Graph:
        copied = graph.copy()
        answer_requires_grad(copied, [v for v, flag in zip(copied.inputs, asked, strict=False) if flag])
        return copied

    pair = callee.pair
    if pair is not None:
        pair = replace(pair, forward=copy(pair.forward), replay=copy(pair.replay) if pair.replay is not None else None)
    return Callee(callee.schema, copy(callee.graph), pair)


def _branch(graph: Graph, node: Node, answers: dict[Value, Answer]) -> Walk:
    for block in node.blocks:
        yield _block(graph, block, answers)
    for index, value in enumerate(list(node.outputs)):
        if not _may_require(value.type):
            continue
        sides = [answers.get(block.outputs[index], False) for block in node.blocks]
        if sides[0] is sides[1]:
            answers[value] = sides[0]
            continue
        for block, side in zip(node.blocks, sides, strict=True):
            block.ret.add_input(_as_value(Builder(block, span=node.span), side))
        answers[value] = node.add_output(BOOL)


def _loop(graph: Graph, node: Node, answers: dict[Value, Answer]) -> Walk:
    (body,) = node.blocks
    places = carried(node)
    asked = [i for i, place in enumerate(places) if _may_require(place.output.type)]
    before = Builder(graph, before=node, span=node.span)
    for index in asked:
        node.add_input(_as_value(before, answers.get(places[index].initial, False)))
        answers[places[index].parameter] = body.add_input(BOOL)
        answers[node.outputs[index]] = node.add_output(BOOL)
    yield _block(graph, body, answers)
    for index in asked:
        body.ret.add_input(_as_value(Builder(body, span=node.span), answers.get(places[index].result, False)))


def _any(builder: Builder, answers: list[Answer]) -> Answer:
    if True in [answer for answer in answers if isinstance(answer, bool)]:
        return True
    found: Answer = False
    for answer in dict.fromkeys(answer for answer in answers if isinstance(answer, Value)):
        found = builder.op("aten::__or__.bool", found, answer) if isinstance(found, Value) else answer
    return found


def _as_value(builder: Builder, answer: Answer) -> Value:
    return answer if isinstance(answer, Value) else builder.constant(answer)


def _may_require(type: Type) -> bool:
    """Whether a floating tensor may be in it. Types are shallow, so this recurses."""
    if isinstance(type, OptionalType | ListType):
        return _may_require(type.element)
    if isinstance(type, TupleType):
        return any(map(_may_require, type.elements))
    return isinstance(type, TensorType) and (type.dtype is None or type.dtype.is_floating)
