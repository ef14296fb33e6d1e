"""A pair whose forward draws random numbers, made so that its context is that of the very call.

A context is computed beside the call of a pair, out of copies of what the forward does. A copy of a draw would give
another number, and a backward another mask. So the forward returns what it drew as well, and the copies take it:

    def f(x):                                 def f.drawn(x):                  replay(x, seed):
        seed = gs.seed()                          seed = gs.seed()                 return …, context
        …                              ─▶         …
        return y, backward                        return y, seed

Where the body of a pair is computed beside its call, for a backward that has its own for some gradients only, both are
to see the same numbers: then what draws is put in front, and the function takes the numbers as arguments.

A draw in a branch is a further result of the branch; one in a loop is a list with an element for each round.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lang.light_dataclasses import replace
from ..analysis.draws import called_graph, draws, is_random
from ..formulas.library import formula
from ..ir.builder import Builder
from ..ir.graph import Callee, Graph
from ..ir.node import Block, Node, Value, copy_nodes
from ..ir.rewrite import replace_node, rewrite_nodes
from ..ops.composite import is_composite
from ..ops.registry import OPS
from ..passes.inline_functions import inline_functions
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..types.schema import Argument, FunctionSchema
from ..types.types import INT, ListType, Type

_SEED = "gs::seed"


def settle_draws(node: Node, functions: dict[str, Callee]) -> str:
    """Make a call of a pair that draws random numbers return them, or take them; the name that is called now.

    Where the pair's body is computed beside the call, both are to see the same numbers, which are drawn in front.
    """
    name: str = node.attr("callee")
    callee = functions[name]
    assert callee.pair is not None
    if callee.pair.draws or not draws(callee.pair.forward):
        return name
    if callee.pair.body is not None:
        return _draw_in_front(node, functions, name)
    drawn = functions.setdefault(drawn_name(name), with_draws(callee))
    for result in drawn.schema.returns[len(node.outputs) :]:
        node.add_output(result.type)
    node.attrs = {"callee": drawn_name(name)}
    return drawn_name(name)


def _draw_in_front(node: Node, functions: dict[str, Callee], name: str) -> str:
    drawing, callee = given_draws(functions[name])
    functions.setdefault(f"{name}.given", callee)
    builder = Builder.in_front_of(node)
    env: dict[Value, Value] = dict(zip(drawing.inputs, node.inputs, strict=True))
    for value in copy_nodes(drawing.body, env, builder.insert):
        node.add_input(value)
    node.attrs = {"callee": f"{name}.given"}
    return f"{name}.given"


def drawn_name(name: str) -> str:
    """What the function that `with_draws` makes is called in a graph."""
    return f"{name}.drawn"


def with_draws(callee: Callee) -> Callee:
    """The function returning its draws after its outputs, with a pair that repeats them; itself if it has none.

    Of functions with a pair that it calls in turn, those that draw are written out: an output saved for the backward
    is differentiated through their ops.
    """
    pair = callee.pair
    if pair is None or pair.draws or not draws(pair.forward):
        return callee
    record, results, replayed = _recorded_and_replayed(pair.forward)
    schema = _schema(pair.schema, results)
    drawn = replace(pair, schema=schema, forward=record, draws=len(results), replay=replayed)
    return Callee(schema, _without_context(record), drawn)


def given_draws(callee: Callee) -> tuple[Graph, Callee]:
    """A graph that does nothing but draw what a function with a pair draws, and the function that takes it as well."""
    pair = callee.pair
    assert pair is not None
    record, results, replayed = _recorded_and_replayed(pair.forward)
    record.body.ret.replace_inputs(results)
    eliminate_dead_code(record)
    more = tuple(Argument(f"draw{i}", value.type) for i, value in enumerate(results))
    schema = replace(pair.schema, arguments=pair.schema.arguments + more)
    body = _without_context(replayed)
    return record, Callee(schema, body, replace(pair, schema=schema, forward=replayed, body=body))


def _recorded_and_replayed(forward: Graph) -> tuple[Graph, list[Value], Graph]:
    """A forward that returns its draws before its context, these values, and one that takes them after its inputs."""
    plain = _with_plain_draws(forward)
    record, replayed = plain.copy(drawn_name(plain.name)), plain.copy()
    results = [_brought_out(seed) for seed in _seeds(record)]
    for seed in _seeds(replayed):
        _read_from_outside(seed, replayed)
    *outputs, context = record.outputs
    record.body.ret.replace_inputs([*outputs, *results, context])
    return record, results, replayed


def _schema(schema: FunctionSchema, results: Sequence[Value]) -> FunctionSchema:
    more = tuple(Argument(f"draw{i}", value.type) for i, value in enumerate(results))
    return FunctionSchema(schema.name, schema.overload, schema.arguments, schema.returns + more)


def _without_context(forward: Graph) -> Graph:
    graph = forward.copy()
    graph.body.ret.replace_inputs(graph.outputs[:-1])
    return graph


# Seeds alone


def _with_plain_draws(forward: Graph) -> Graph:
    """A copy in which nothing but `gs::seed` draws: what else does is written out."""
    copied = forward.copy()
    inline_functions(copied, keep_pairs=True)
    calls = [called_graph(node, copied) for node in copied.all_nodes()]
    if any(graph is not None and draws(graph) for graph in calls):
        inline_functions(copied)
    rewrite_nodes(copied, _definition)
    return copied


def _definition(node: Node) -> Node | None:
    """A random op that is written in the language, replaced by what it is; where to go on."""
    op = OPS.of(node.schema)
    if op is None or not is_random(node) or not is_composite(op):
        return None
    callee = formula(op.schema)
    assert callee is not None and callee.pair is None, f"{node.kind} draws, so its library function has no backward"
    assert node.owner is not None and node.previous is not None
    before = node.previous
    builder = Builder.in_front_of(node)
    env: dict[Value, Value] = dict(zip(callee.graph.inputs, node.inputs, strict=True))
    replace_node(node, copy_nodes(callee.graph.body, env, builder.insert, node.span))
    return before.next


def _seeds(graph: Graph) -> list[Node]:
    return [node for node in graph.all_nodes() if node.kind == _SEED]


def _blocks_around(node: Node) -> list[Block]:
    """The blocks in which a node stands, innermost first, without the graph's own."""
    found: list[Block] = []
    block = node.owner
    while block is not None and block.node is not None:
        found.append(block)
        block = block.node.owner
    return found


# Recording


def _brought_out(seed: Node) -> Value:
    """A draw as a value of the graph's own block."""
    value = seed.output
    for block in _blocks_around(seed):
        assert block.node is not None
        value = _out_of_loop(value, block) if block.node.kind == "prim::Loop" else _out_of_branch(value, block)
    return value


def _out_of_branch(value: Value, block: Block) -> Value:
    node = block.node
    assert node is not None and node.kind == "prim::If", f"draws stand in branches and loops, not in {node}"
    for each in node.blocks:
        each.ret.add_input(value if each is block else Builder(each).uninitialized(value.type))
    return node.add_output(value.type)


def _out_of_loop(value: Value, block: Block) -> Value:
    node = block.node
    assert node is not None and node.owner is not None
    type = ListType(value.type)
    node.add_input(Builder(node.owner, node).node("prim::ListConstruct", (), [type]).output)
    collected = block.add_input(type)
    block.ret.add_input(Builder(block).op("aten::append.t", collected, value))
    return node.add_output(type)


# Replaying


def _read_from_outside(seed: Node, graph: Graph) -> None:
    """A further input of the graph in the place of a draw."""
    loops = [block for block in _blocks_around(seed) if block.node is not None and block.node.kind == "prim::Loop"]
    type: Type = INT
    for _ in loops:
        type = ListType(type)
    value = graph.body.add_input(type)
    for body in reversed(loops):
        first = body.param.next
        assert first is not None
        value = Builder(body, first).op("aten::__getitem__.t", value, body.inputs[0])
    seed.output.replace_uses_with(value)
    seed.destroy()
