"""prim::Function → GradPair: a closure lifted out of its function, joined to it by a context tuple.

    def mul(self, other):                 forward(self, other):
        def backward(grad):                   return self * other, (other, self)
            return grad * other, …   ─▶
        return self * other, backward     backward(context, grad):
                                              other, self, = context
                                              return grad * other, …

The context holds what the closure captures, in order of first use; constants are repeated, not captured. A
backward that itself returns a closure is lifted in turn: that is the second-order formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..lang.diagnostics import Diagnostics
from .ir.builder import Builder
from .ir.graph import (
    Block,
    Callee,
    Graph,
    Node,
    Value,
    copy_node,
    copy_nodes,
    walk,
)
from .types.schema import Argument, FunctionSchema
from .types.types import (
    CLOSURE,
    NONE,
    ListType,
    TupleType,
    Type,
    is_differentiable,
    is_tensor,
    strip_optional,
)


@dataclass(frozen=True, slots=True)
class Captured:
    """One element of a context tuple."""

    name: str
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class GradPair:
    """A function and its backward, as two plain graphs.

    `forward` takes the function's inputs and returns its outputs and, last, the context tuple. `backward` takes
    the context and one gradient per output (per differentiable output, where the source leaves the others out:
    `grad_outputs` are the outputs' indices) and returns one gradient per input. `second` is the pair of `backward`
    itself, where the source gives it: its backward returns one gradient per gradient that `backward` takes,
    and, if it returns more, one per input of the function. It may have a `second` in turn, whose backward returns one
    per gradient that it takes, and then one for each of those inputs. `body`, on the pair of a backward that gives the
    former only, is the graph through which the other inputs are differentiated. `draws` are the last of the forward's
    outputs which are random numbers drawn: given them as further inputs, `replay` returns what `forward` returned
    without them.
    """

    schema: FunctionSchema
    forward: Graph
    backward: Graph
    context: tuple[Captured, ...]
    grad_outputs: tuple[int, ...]
    second: GradPair | None = None
    body: Graph | None = None
    draws: int = 0
    replay: Graph | None = None

    @property
    def code(self) -> str:
        """The pair as two plain functions in source."""
        from .unparse import unparse_pair

        return unparse_pair(self)


def lift_closures(graph: Graph, schema: FunctionSchema, diagnostics: Diagnostics) -> GradPair | None:
    """The pair of a function that returns a closure last; None for one that does not.

    What is wrong with the closure is reported, and the pair is then None too.
    """
    if not returns_closure(graph):
        return None
    function = graph.outputs[-1].node
    grad_outputs = _check_parameters(graph, schema, function, diagnostics)
    if grad_outputs is None or not _check_gradients(schema.name, [schema.arguments], function, diagnostics):
        return None
    return _lift(graph, schema, grad_outputs, function, schema.arguments, diagnostics)


def callee_of(graph: Graph) -> Callee:
    """A graph as a function of its name; the closure that it returns, if it returns one, is its backward.

    CompileError for a closure that is no backward of it.
    """
    arguments = tuple(Argument(v.name_hint or f"input{i}", v.type) for i, v in enumerate(graph.inputs))
    results = [value.type for value in graph.outputs if value.type != CLOSURE]
    returns = tuple(Argument(f"result{i}", type) for i, type in enumerate(results))
    schema = FunctionSchema(graph.name, "", arguments, returns)
    diagnostics = Diagnostics()
    pair = lift_closures(graph, schema, diagnostics)
    diagnostics.raise_if_any()
    return Callee(schema, graph, pair)


def returns_closure(graph: Graph) -> bool:
    return bool(graph.outputs) and graph.outputs[-1].type == CLOSURE


def with_closure(callee: Callee) -> Graph:
    """The graph of a function with its backward as a closure: the inverse of `callee_of`."""
    if callee.pair is None or returns_closure(callee.graph):
        return callee.graph
    return _unlifted(callee.pair)


def _unlifted(pair: GradPair) -> Graph:
    """The forward with a closure in its context's place."""
    backward = pair.backward if pair.second is None else _unlifted(pair.second)
    graph = pair.forward.copy()
    *outputs, context = graph.outputs
    builder = Builder(graph, span=backward.span)
    function = builder.node("prim::Function", (), [CLOSURE], attrs={"name": pair.backward.name}, blocks=1)
    (block,) = function.blocks
    packed, *parameters = backward.inputs
    env = {value: block.add_input(value.type, value.name_hint) for value in parameters}
    for node in backward.nodes:
        if packed in node.inputs and node.kind == "prim::TupleUnpack":
            env |= zip(node.outputs, context.node.inputs, strict=True)
        else:
            copy_node(node, env, block.append)
    block.ret.replace_inputs([env.get(value, value) for value in backward.outputs])
    graph.body.ret.replace_inputs([*outputs, function.output])
    if not context.use_count:
        context.node.destroy()
    return graph


def captures(block: Block) -> list[Value]:
    """Values from outside that a block uses, in order of first use; constants left out."""
    inside = {block.param, block.ret, *walk(block.nodes)}
    inner_blocks = [b for node in walk(block.nodes) for b in node.blocks]
    inside.update(b.param for b in inner_blocks)
    found: dict[Value, None] = {}
    for value in _used_values(block):
        if value.node not in inside and value.node.kind != "prim::Constant":
            found[value] = None
    return list(found)


def _used_values(block: Block) -> list[Value]:
    """Every input of every node inside, block results included, in program order."""
    used: list[Value] = []
    stack: list[Node | Block] = [block]
    while stack:
        item = stack.pop()
        if isinstance(item, Node):
            used += item.inputs
            stack += reversed(item.blocks)
        else:
            stack.append(item.ret)
            stack += reversed(list(item.nodes))
    return used


def _lift(
    graph: Graph,
    schema: FunctionSchema,
    grad_outputs: tuple[int, ...],
    function: Node,
    inputs: Sequence[Argument],
    diagnostics: Diagnostics,
) -> GradPair | None:
    """The pair of a graph and its closure. `inputs` are its own, and those of the functions around it."""
    captured = captures(function.blocks[0])
    names = _context_names(captured)
    context = tuple(Captured(name, value.type) for name, value in zip(names, captured, strict=True))
    backward = _backward_graph(graph, function, captured, names)
    second = None
    if returns_closure(backward):
        second = _lift_second(backward, schema, inputs, diagnostics)
        if second is None:
            return None
        backward = without_closure(backward)
    return GradPair(schema, _forward_graph(graph, captured), backward, context, grad_outputs, second)


def _context_names(captured: Sequence[Value]) -> list[str]:
    names: dict[str, None] = {}
    for i, value in enumerate(captured):
        name = value.name_hint or f"value{i}"
        while name in names:
            name += "_"
        names[name] = None
    return list(names)


def _forward_graph(graph: Graph, captured: Sequence[Value]) -> Graph:
    """The function with the context tuple in the closure's place."""
    forward = Graph(graph.name, graph.functions, graph.span)
    env: dict[Value, Value] = {}
    _copy_without_closure(graph, forward, env)
    builder = Builder(forward)
    builder.current_span = graph.span
    context = builder.tuple([env[value] for value in captured])
    builder.returns(*(env.get(v, v) for v in graph.outputs[:-1]), context)
    return forward


def without_closure(graph: Graph) -> Graph:
    """A copy of the graph that returns its outputs only; the graph itself if it has no closure."""
    if not returns_closure(graph):
        return graph
    primal = Graph(graph.name, graph.functions, graph.span)
    env: dict[Value, Value] = {}
    _copy_without_closure(graph, primal, env)
    primal.body.ret.replace_inputs([env.get(v, v) for v in graph.outputs[:-1]])
    return primal


def _copy_without_closure(graph: Graph, into: Graph, env: dict[Value, Value]) -> None:
    for value in graph.inputs:
        env[value] = into.body.add_input(value.type, value.name_hint)
    for node in graph.nodes:
        if node.kind != "prim::Function":
            copy_node(node, env, into.body.append)


def _backward_graph(graph: Graph, function: Node, captured: Sequence[Value], names: Sequence[str]) -> Graph:
    (block,) = function.blocks
    backward = Graph(function.attr("name"), graph.functions, function.span)
    builder = Builder(backward, span=function.span)
    name = "context"
    while any(value.name_hint == name for value in block.inputs):
        name += "_"
    context = backward.body.add_input(TupleType(tuple(v.type for v in captured)), name)
    env: dict[Value, Value] = {}
    for value in block.inputs:
        env[value] = backward.body.add_input(value.type, value.name_hint)
    if captured:
        env |= zip(captured, builder.unpack(context, names), strict=True)
    _repeat_constants(block, env, builder)
    builder.returns(*copy_nodes(block, env, builder.insert))
    return backward


def _repeat_constants(block: Block, env: dict[Value, Value], builder: Builder) -> None:
    own = {node for node in walk(block.nodes) if node.kind == "prim::Constant"}
    for value in _used_values(block):
        if value.node.kind == "prim::Constant" and value.node not in own and value not in env:
            copy_node(value.node, env, builder.insert)


# Formulas of the second order and of higher ones


def _lift_second(
    backward: Graph, schema: FunctionSchema, inputs: Sequence[Argument], diagnostics: Diagnostics
) -> GradPair | None:
    """The pair of a backward that returns a closure itself. `inputs` are those of the functions around it."""
    function = backward.outputs[-1].node
    taken = tuple(Argument(v.name_hint, v.type) for v in backward.inputs)
    results = tuple(Argument(f"result{i}", v.type) for i, v in enumerate(backward.outputs[:-1]))
    second_schema = FunctionSchema(f"{schema.name}_backward", "", taken, results)
    grad_outputs = _check_parameters(backward, second_schema, function, diagnostics)
    # The gradients it takes, and then, if it gives those too, the inputs of the functions around, inner ones first.
    every = (*taken[1:], *inputs)
    if grad_outputs is None or not _check_gradients(backward.name, [taken[1:], every], function, diagnostics):
        return None
    return _lift(backward, second_schema, grad_outputs, function, every, diagnostics)


# Checks


def _check_parameters(
    graph: Graph, schema: FunctionSchema, function: Node, diagnostics: Diagnostics
) -> tuple[int, ...] | None:
    """Which output each parameter of the closure is the gradient of."""
    types = [v.type for v in graph.outputs[:-1]]
    parameters = function.blocks[0].inputs
    name = function.attr("name")
    for i, type in enumerate(types):
        if isinstance(type, TupleType):
            message = f"output {i} of '{graph.name}' is a tuple, {type}"
            diagnostics.report(
                "E406", message, function.span, "return its elements one by one: `return a, b, backward`"
            )
            return None
    every = tuple(range(len(types)))
    differentiable = tuple(i for i in every if is_differentiable(types[i]))
    for indices in (every, differentiable):
        if len(indices) == len(parameters):
            break
    else:
        diagnostics.report(
            "E406",
            f"'{name}' takes {_count(len(parameters), 'gradient')}; '{graph.name}' returns "
            f"{_count(len(types), 'output')} beside it",
            function.span,
            "it takes one gradient per output, in order",
        )
        return None
    for index, parameter in zip(indices, parameters, strict=True):
        if isinstance(strip_optional(types[index]), ListType) != isinstance(strip_optional(parameter.type), ListType):
            diagnostics.report(
                "E406",
                f"parameter '{parameter.name_hint}' of '{name}' is {parameter.type}; output {index} is {types[index]}",
                function.span,
                f"annotate it: `{parameter.name_hint}: {types[index]}`",
            )
            return None
    return indices


def _check_gradients(
    name: str, accepted: Sequence[Sequence[Argument]], function: Node, diagnostics: Diagnostics
) -> bool:
    """Whether the closure returns one gradient for each of one of the accepted lists of inputs."""
    (block,) = function.blocks
    outputs = block.outputs[:-1] if block.outputs and block.outputs[-1].type == CLOSURE else block.outputs
    count = len(outputs)
    only = outputs[0] if count == 1 else None
    if only is not None and isinstance(only.type, TupleType) and len(only.type.elements) == 1:
        # `return (grad,)`
        builder = Builder(block)
        block.ret.set_input(0, builder.unpack(only)[0])
        outputs = block.outputs[:1]
    for inputs in accepted:
        if len(inputs) == count or (not inputs and count == 1 and outputs[0].type == NONE):
            return _check_types(inputs, outputs, function, diagnostics)
    inputs = accepted[0]
    named = ", ".join(a.name for a in inputs)
    diagnostics.report(
        "E405",
        f"'{function.attr('name')}' returns {_count(count, 'gradient')}; '{name}' has "
        f"{_count(len(inputs), 'input')} ({named})",
        function.span,
        "return one gradient per input, in order, None where there is none",
    )
    return False


def _check_types(
    inputs: Sequence[Argument], outputs: Sequence[Value], function: Node, diagnostics: Diagnostics
) -> bool:
    found = len(diagnostics.found)
    for argument, value in zip(inputs, outputs, strict=False):
        expected = strip_optional(argument.type)
        takes_gradient = is_tensor(_element(expected))
        if value.type == NONE or (takes_gradient and _is_gradient_of(value.type, expected)):
            continue
        wanted = f"a {expected}" if takes_gradient else "None"
        diagnostics.report(
            "E405",
            f"the gradient of '{argument.name}' must be {wanted}, not {value.type}",
            value.node.span if value.node.span.end else function.span,
        )
    return len(diagnostics.found) == found


def _element(type: Type) -> Type:
    """What a list of lists holds in the end."""
    while isinstance(type, ListType):
        type = strip_optional(type.element)
    return type


def _is_gradient_of(gradient: Type, type: Type) -> bool:
    """Whether a gradient is a tensor, for a tensor, or a list of what the gradients of its elements are, for a list."""
    gradient = strip_optional(gradient)
    while isinstance(gradient, ListType) and isinstance(type, ListType):
        gradient, type = gradient.element, strip_optional(type.element)
    return is_tensor(gradient) and not isinstance(type, ListType)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
