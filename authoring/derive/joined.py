"""A function and its derivative as one graph that returns a closure, as its author would have written it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...compiler.analysis.definedness import type_when_there
from ...compiler.analysis.present_gradients import surely_there
from ...compiler.autodiff.derived import derived_halves
from ...compiler.ir.builder import Builder
from ...compiler.ir.graph import Callee, Graph
from ...compiler.ir.kinds import carried, is_loop
from ...compiler.ir.node import RETURN, Block, Node, Value, copy_nodes, walk
from ...compiler.ir.rewrite import constant_of, replace_by_constant, replace_node
from ...compiler.passes.containers.follow_lists import follow_lists
from ...compiler.passes.simplification.eliminate_dead_code import eliminate_dead_code
from ...compiler.passes.simplification.fold_constants import fold_constants
from ...compiler.types.types import CLOSURE, TENSOR, UNDEFINED, is_tensor
from ...compiler.unparse.standalone import in_source_terms, with_ops
from .lists import take_by_index, write_lists, write_zeros
from .rounds import ask_again

Result = TypeVar("Result")


def joined(callee: Callee) -> Graph:
    """The graph of a function with its derivative as a closure. NoGradient where it has none.

    Before:
        def f(x):
            return torch.exp(x)
    After:
        def f(x):
            exp_x = torch.exp(x)

            def backward(grad_output):
                return grad_output * exp_x

            return exp_x, backward
    """
    forward, backward = derived_halves(callee)
    graph = Graph(callee.schema.name, {**forward.graph.functions, **backward.graph.functions}, callee.graph.span)
    builder = Builder(graph, span=callee.graph.span)
    env = {v: graph.body.add_input(v.type, v.name_hint) for v in forward.graph.inputs}
    *outputs, kept = copy_nodes(forward.graph.body, env, builder.insert)
    node = builder.node("prim::Function", (), [CLOSURE], attrs={"name": "backward"}, names=["backward"], blocks=1)
    fill(node.blocks[0], backward.graph, kept)
    builder.returns(*outputs, node.output)
    return written(graph)


def written(graph: Graph) -> Graph:
    """A copy in which the innermost closure, made of a backward, has nothing but what an author writes."""
    graph = in_source_terms(with_ops(graph))
    closure = closures_of(graph)[-1]
    _leave_out_zeros(closure)
    _take_lists(graph, closure)
    parameters = closure_parameters(graph, closure)
    while ask_again(closure):
        pass
    _settle(graph, closure)
    write_zeros(closure)
    while write_lists(parameters, closure, _given(closure, lambda: surely_there(graph))):
        _settle(graph, closure)
    _write_zeros(parameters, closure)
    _settle(graph, closure)
    _write_sums(closure)
    return graph


def _settle(graph: Graph, closure: Block) -> None:
    """Leave out what asks whether gradients are there that surely are."""
    while _follow(graph, closure):
        for node in [node for node in walk(closure.nodes) if node.kind == "aten::__or__.bool"]:
            if any(constant_of(value) is True for value in node.inputs):
                replace_by_constant(node, True)
        fold_constants(graph)
    take_by_index(closure)
    eliminate_dead_code(graph)


def _follow(graph: Graph, closure: Block) -> bool:
    """Replace what asks for gradients that the closure is given."""
    return _given(closure, lambda: follow_lists(graph))


def _given(closure: Block, asked: Callable[[], Result]) -> Result:
    """What is found where all gradients that the closure takes are there."""
    types = [value.type for value in closure.inputs]
    for value in closure.inputs:
        value.type = type_when_there(value.type)
    try:
        return asked()
    finally:
        for value, type in zip(closure.inputs, types, strict=True):
            value.type = type


def _leave_out_zeros(closure: Block) -> None:
    """None for gradients that nobody computes."""
    for i, value in enumerate(closure.outputs):
        if value.type == UNDEFINED:
            closure.ret.set_input(i, Builder(closure).constant(None))


def _take_lists(graph: Graph, closure: Block) -> None:
    """A list of gradients as it is given: a closure is never given one in which some are missing."""
    for node in [node for node in walk(closure.nodes) if node.kind == "prim::grad_list"]:
        if node.inputs[0].node is closure.param and node.inputs[1] in graph.outputs:
            replace_node(node, [node.inputs[0]])


def fill(block: Block, backward: Graph, kept: Value) -> None:
    """The closure's code: what the backward computes from the elements of its context, which are there around it."""
    context, *gradients = backward.inputs
    env = {value: block.add_input(value.type, value.name_hint) for value in gradients}
    env[context] = kept
    inner = Builder(block)
    results = copy_nodes(backward.body, env, inner.insert)
    for value in results:
        block.ret.add_input(value)
    for use in list(kept.uses):
        if use.user.kind == "prim::TupleUnpack" and use.user.owner is block:
            for output, element in zip(use.user.outputs, kept.node.inputs, strict=True):
                output.replace_uses_with(element)
            use.user.destroy()


def _write_zeros(parameters: Sequence[Value], closure: Block) -> None:
    """Zeros like the parameter for its gradient where a branch or a loop that does not run computes none.

    A gradient that is not there and may become that of several parameters, or is asked for, stays what it is until it
    is returned.
    """
    missing: set[int] = set()
    for node in list(walk(closure.nodes)):
        if node.kind != "prim::AutogradZero":
            continue
        places, is_asked = _places_of(closure, node.output)
        if len(places) == 1 and not is_asked and is_tensor(parameters[min(places)].type):
            made = Builder.in_front_of(node).op("aten::zeros_like", parameters[min(places)])
            replace_node(node, [made])
        else:
            missing |= places
    builder = Builder(closure)
    for place in sorted(missing):
        parameter, value = parameters[place], closure.outputs[place]
        if is_tensor(parameter.type) and is_tensor(value.type):
            size, dtype = builder.op("aten::size", parameter), builder.op("prim::dtype", parameter)
            filled = builder.node("prim::MaterializeGrad", [value, size, dtype], [TENSOR]).output
            closure.ret.set_input(place, filled)


def _places_of(closure: Block, value: Value) -> tuple[set[int], bool]:
    """Which results a value may become, handed on by branches, loops and sums, and whether anything else uses it."""
    waiting, seen = [value], {value}
    places: set[int] = set()
    is_asked = False
    while waiting:
        for user, index in waiting.pop().uses:
            if user is closure.ret:
                places.add(index)
                continue
            following = _handed_on(user, index)
            is_asked = is_asked or not following
            for found in following:
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
    return places, is_asked


def _handed_on(user: Node, index: int) -> list[Value]:
    """What is the same value, or a sum with it, where it is used."""
    if user.kind in ("prim::AutogradAdd", "aten::add.Tensor"):
        return [user.output]
    if is_loop(user):
        place = next((place for place in carried(user) if place.initial is user.inputs[index]), None)
        return [place.parameter, place.output] if place is not None else []
    holder = user.holder if user.kind == RETURN else None
    if holder is None:
        return []
    if is_loop(holder):
        places = [place for place in carried(holder) if place.result is user.inputs[index]]
        return [value for place in places for value in (place.parameter, place.output)]
    return [holder.outputs[index]] if holder.kind == "prim::If" else []


def _write_sums(closure: Block) -> None:
    """Plain sums and lists of gradients, where all of them are there."""
    nodes = list(walk(closure.nodes))
    if any(node.kind in ("prim::AutogradZero", "prim::grad_defined") for node in nodes):
        return
    for node in nodes:
        if node.kind == "prim::AutogradAdd" and all(is_tensor(value.type) for value in node.inputs):
            replace_node(node, [Builder.in_front_of(node).op("aten::add.Tensor", *node.inputs)])
        elif node.kind == "prim::grad_list" and node.inputs[0].node.kind == "prim::ListConstruct":
            replace_node(node, [node.inputs[0]])


def closures_of(graph: Graph) -> list[Block]:
    """The code of the closure that a graph returns, of the one that it returns in turn, and so on."""
    found: list[Block] = []
    block = graph.body
    while block.outputs and block.outputs[-1].type == CLOSURE:
        block = block.outputs[-1].node.blocks[0]
        found.append(block)
    return found


def closure_parameters(graph: Graph, closure: Block) -> list[Value]:
    """What a closure returns the gradients of: the parameters of the functions around it, inner ones first."""
    closures = closures_of(graph)
    around = reversed(closures[: closures.index(closure)])
    return [value for block in (*around, graph.body) for value in block.inputs]
