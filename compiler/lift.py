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

from ..lang.diagnostics import Diagnostics, counted
from ..lang.light_dataclasses import replace
from .analysis.captures import captures, used_values
from .ir.builder import Builder
from .ir.graph import Callee, Captured, GradPair, Graph, backward_of, copy_without_closures
from .ir.node import (
    Block,
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


def lift_closures(graph: Graph, schema: FunctionSchema, diagnostics: Diagnostics) -> GradPair | None:
    """The pair of a function that returns a closure last; None for one that does not.

    What is wrong with the closure is reported, and the pair is then None too.
    """
    if not graph.returns_closure:
        return None
    function = graph.outputs[-1].node
    grad_outputs = _check_parameters(graph, function, diagnostics)
    if grad_outputs is None or not _check_gradients(schema.name, [schema.arguments], function, diagnostics):
        return None
    return _lift(graph, schema, grad_outputs, function, schema.arguments, diagnostics)


def callee_of(graph: Graph) -> Callee:
    """A graph as a function of its name; the closure that it returns, if it returns one, is its backward.

    CompileError for a closure that is no backward of it.
    """
    names = [value.name_hint or f"input{i}" for i, value in enumerate(graph.inputs)]
    arguments = tuple([Argument(name, value.type) for name, value in zip(names, graph.inputs, strict=True)])
    if len(graph.arguments) == len(arguments):
        known = zip(graph.arguments, arguments, strict=True)
        arguments = tuple([replace(told, name=made.name, type=made.type) for told, made in known])
    results = [value.type for value in graph.outputs if value.type != CLOSURE]
    returns = tuple(Argument(f"result{i}", type) for i, type in enumerate(results))
    schema = FunctionSchema(graph.name, "", arguments, returns)
    diagnostics = Diagnostics()
    pair = lift_closures(graph, schema, diagnostics)
    diagnostics.raise_if_any()
    return Callee(schema, graph, pair)


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
    if backward.returns_closure:
        second = _lift_second(backward, schema, inputs, diagnostics)
        if second is None:
            return None
        backward = backward.without_closure()
    return GradPair(schema, _forward_graph(graph, captured), backward, context, grad_outputs, second)


def _context_names(captured: Sequence[Value]) -> list[str]:
    names: dict[str, None] = {}
    last: dict[str, int] = {}
    for i, value in enumerate(captured):
        base = name = value.name_hint or f"value{i}"
        while name in names:
            last[base] = last.get(base, 0) + 1
            name = f"{base}_{last[base]}"
        names[name] = None
    return list(names)


def _forward_graph(graph: Graph, captured: Sequence[Value]) -> Graph:
    """The function with the context tuple in the closure's place."""
    env: dict[Value, Value] = {}
    forward = copy_without_closures(graph, env)
    builder = Builder(forward)
    builder.current_span = graph.span
    context = builder.tuple([env[value] for value in captured])
    builder.returns(*(env.get(v, v) for v in graph.outputs[:-1]), context)
    return forward


def _backward_graph(graph: Graph, function: Node, captured: Sequence[Value], names: Sequence[str]) -> Graph:
    (block,) = function.blocks
    backward = Graph(function.attr("name"), graph.functions, function.span, backward_of(graph.title))
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
    for value in used_values(block):
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
    grad_outputs = _check_parameters(backward, function, diagnostics)
    # The gradients it takes, and then, if it gives those too, the inputs of the functions around, inner ones first.
    every = (*taken[1:], *inputs)
    if grad_outputs is None or not _check_gradients(backward.name, [taken[1:], every], function, diagnostics):
        return None
    return _lift(backward, second_schema, grad_outputs, function, every, diagnostics)


# Checks


def _check_parameters(graph: Graph, function: Node, diagnostics: Diagnostics) -> tuple[int, ...] | None:
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
            f"'{name}' takes {counted(len(parameters), 'gradient')}; '{graph.name}' returns "
            f"{counted(len(types), 'output')} beside it",
            function.span,
            *([_NO_CONTEXT] if parameters and parameters[0].name_hint in ("ctx", "self") else ()),
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


_NO_LIST = "gradients are a tuple, one per input, in order: `return a, b`, and no list"
_LIST = "the gradient of a list is one list: `return [a, b]`"
_NO_CONTEXT = "a closure captures what it uses: leave its first parameter out"


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
    if only is not None and only.node.kind == "prim::Uninitialized":
        # It raises on every path: whoever asks for a gradient is told so then.
        builder = Builder(block, span=function.span)
        types = [strip_optional(argument.type) for argument in accepted[0]]
        block.ret.replace_inputs([_no_gradient(builder, type) for type in types])
        return True
    for inputs in accepted:
        if len(inputs) == count or (not inputs and count == 1 and outputs[0].type == NONE):
            return _check_types(inputs, outputs, function, diagnostics)
    inputs = accepted[0]
    listed = only is not None and isinstance(only.type, ListType)
    of_list = len(inputs) == 1 and isinstance(strip_optional(inputs[0].type), ListType)
    note = "return one gradient per input, in order, None where there is none"
    named = ", ".join(a.name for a in inputs)
    diagnostics.report(
        "E405",
        f"'{function.attr('name')}' returns {counted(count, 'gradient')}; '{name}' has "
        f"{counted(len(inputs), 'input')} ({named})",
        function.span,
        _NO_LIST if listed else _LIST if of_list else note,
    )
    return False


def _no_gradient(builder: Builder, type: Type) -> Value:
    return builder.uninitialized(type) if is_tensor(_element(type)) else builder.constant(None)


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
            *([_NO_LIST] if takes_gradient and isinstance(value.type, ListType) else ()),
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
