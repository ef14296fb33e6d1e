"""Rules for nodes without blocks: by a formula or a user's pair, and for the structural kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....lang.diagnostics import CompileError, Diagnostic
from ....lang.light_dataclasses import dataclass
from ...analysis.captures import captures
from ...analysis.definedness import is_sure
from ...ir.builder import Builder
from ...ir.graph import GradPair, Graph
from ...ir.node import Block, Node, Value, copy_node, walk
from ...ir.structure import AS_LONG, GRADIENT_OF
from ...ops.registry import OPS
from ...types.schema import FunctionSchema
from ...types.types import NONE, UNDEFINED, ListType, OptionalType, VariableType, is_tensor, leaf_of, strip_optional
from ..flatten import without_tuples_inside
from ..reverse import Reverse, gradient_type, known_floating, materialize
from .second_order import call_backward


@dataclass(slots=True)
class PairRule:
    """Goes back by a GradPair: a formula of the library, or the user's own backward.

    `context` are the context's elements as values of the forward graph.
    """

    node: Node
    name: str
    pair: GradPair
    context: Sequence[Value]

    def emit(self, reverse: Reverse) -> None:
        outputs = [self.node.outputs[i] for i in self.pair.grad_outputs]
        gradients = [reverse.gradient_or_zero(value) for value in outputs]
        if all(g.type == UNDEFINED for g in gradients):
            return
        wanted = self._wanted(reverse)
        results = reverse.grad_of(
            self.name, gradients, self.node.span, lambda b: self._body(b, reverse, gradients, wanted)
        )
        for index, result in zip(wanted, results, strict=True):
            reverse.add(self.node.inputs[index], result)

    def _schema(self) -> FunctionSchema | None:
        """Of the op, also where the node calls its formula."""
        return OPS.named(self.name).schema if "::" in self.name else self.node.schema

    def _point_at_call(self, builder: Builder) -> None:
        """What goes wrong in the backward of a library formula is reported at the user's line, not the formula's."""
        for node in walk(builder.block.nodes):
            node.span = self.node.span
            if node.kind == "aten::slice_scatter" and self.name == "aten::slice.Tensor":
                node.attrs[AS_LONG] = True

    def _wanted(self, reverse: Reverse) -> list[int]:
        """Inputs that need a gradient and that the formula gives one."""
        given = self.pair.backward.outputs
        return [
            i
            for i, value in enumerate(self.node.inputs)
            if value in reverse.active and i < len(given) and given[i].type != NONE
        ]

    def _body(
        self, builder: Builder, reverse: Reverse, gradients: Sequence[Value], wanted: Sequence[int]
    ) -> list[Value]:
        outputs = [self.node.outputs[i] for i in self.pair.grad_outputs]
        if len(gradients) > 1 or (isinstance(gradients[0].type, ListType) and not moves_elements(self._schema())):
            gradients = [materialize(builder, g, v) for g, v in zip(gradients, outputs, strict=True)]
        if self.pair.second is not None:
            results = call_backward(
                builder, reverse.functions, self.pair, (*gradients, *self.node.inputs, *self.context)
            )
        else:
            results = inline_backward(builder, self.pair, self.context, gradients)
        if "::" in self.name:
            self._point_at_call(builder)
            return [self._in_dtype(builder, reverse, i, unwrapped_gradient(builder, results[i])) for i in wanted]
        return [self._fitted(builder, i, unwrapped_gradient(builder, results[i])) for i in wanted]

    def _in_dtype(self, builder: Builder, reverse: Reverse, index: int, gradient: Value) -> Value:
        """The gradient of an operand in its dtype, as torch's engine hands it on, where the op gives another one: a
        product before it takes no other."""
        if not reverse.mixes or not is_tensor(gradient.type) or gradient.type == UNDEFINED:
            return gradient
        primal = self.node.inputs[index]
        dtype = known_floating(primal.type)
        if dtype is not None:
            is_same = all(known_floating(output.type) is dtype for output in self.node.outputs)
        else:
            is_same = sum(is_tensor(leaf_of(value.type)) for value in self.node.inputs) < 2
        return gradient if is_same else in_dtype_of(builder, self._given(builder, primal), gradient)

    def _fitted(self, builder: Builder, index: int, gradient: Value) -> Value:
        """A user's gradient in the shape of its input: where the input was broadcast, the sum over what it was
        broadcast to, as torch's engine makes it. One that does not fit is told as the gradient of that input."""
        primal, schema = self.node.inputs[index], self.pair.schema
        made_here = gradient.node.owner is builder.block
        with builder.span(gradient.node.span if made_here else self.pair.backward.span):
            if isinstance(gradient.type, ListType):
                name = schema.arguments[index].name
                return builder.op("prim::grad_fit", gradient, self._given(builder, primal), schema.name, name)
            if (
                not is_tensor(gradient.type)
                or not is_tensor(strip_optional(primal.type))
                or _has_size(gradient, primal)
            ):
                return gradient
            if is_sure(gradient):
                return self._summed(builder, index, gradient)
            # A branch may give none, which stands for zeros.
            there = builder.node("prim::GradOf", [gradient], attrs={"name": schema.name}, blocks=1)
            inner = Builder(there.blocks[0], span=there.span)
            inner.returns(self._summed(inner, index, gradient))
            return there.add_output(gradient.type)

    def _summed(self, builder: Builder, index: int, gradient: Value) -> Value:
        size = builder.op("aten::size", self._given(builder, self.node.inputs[index]))
        fitted = builder.op("aten::sum_to_size", gradient, size)
        fitted.node.attrs[GRADIENT_OF] = [self.pair.schema.name, self.pair.schema.arguments[index].name]
        return fitted

    def _given(self, builder: Builder, primal: Value) -> Value:
        """An input that has a gradient, and so is there."""
        return builder.unwrap(primal) if primal.type != strip_optional(primal.type) else primal


def in_dtype_of(builder: Builder, primal: Value, gradient: Value) -> Value:
    """A gradient in the dtype of what it is of."""
    dtype = known_floating(primal.type) or builder.op("prim::grad_dtype", primal)
    return builder.op("aten::to.dtype", gradient, dtype)


def _has_size(gradient: Value, primal: Value) -> bool:
    """Whether a gradient has been summed to the size of its input as it is."""
    node = gradient.node
    if node.kind not in ("aten::sum_to_size", "aten::_grad_sum_to_size"):
        return False
    size = node.inputs[1].node
    if size.kind == "aten::_size_if_not_equal":
        size = size.inputs[0].node
    return size.kind == "aten::size" and size.inputs[0] is primal


def moves_elements(schema: FunctionSchema | None) -> bool:
    """Whether an op only moves the elements of lists about: gradients of elements may be undefined then."""
    types = [strip_optional(result.type) for result in schema.returns] if schema is not None else []
    return any(isinstance(type.element if isinstance(type, ListType) else type, VariableType) for type in types)


def unwrapped_gradient(builder: Builder, gradient: Value) -> Value:
    """A formula may type a gradient Optional; where the input is there, so is the gradient."""
    return builder.unwrap(gradient) if isinstance(gradient.type, OptionalType) else gradient


def inline_backward(
    builder: Builder, pair: GradPair, context: Sequence[Value], gradients: Sequence[Value]
) -> list[Value]:
    """Copy the body of a pair's backward; its results, one per input of the function."""
    packed, *parameters = pair.backward.inputs
    env: dict[Value, Value] = dict(zip(parameters, gradients, strict=True))
    for node in pair.backward.nodes:
        if packed in node.inputs and node.kind == "prim::TupleUnpack":
            env |= zip(node.outputs, context, strict=True)
        else:
            copy_node(node, env, builder.insert)
    return [env.get(value, value) for value in pair.backward.outputs]


def is_op_itself(pair: GradPair, node: Node) -> bool:
    """Whether a formula's forward does nothing but call the op on its parameters."""
    return calls_op_alone(pair, node.schema)


def calls_op_alone(pair: GradPair, schema: FunctionSchema | None) -> bool:
    """Whether what a forward returns is what an op gives for its parameters."""
    outputs = pair.forward.outputs[:-1]
    maker = outputs[0].node if outputs else None
    return (
        maker is not None
        and maker.schema is schema
        and maker.outputs == outputs
        and maker.inputs == pair.forward.inputs
    )


def context_values(pair: GradPair, node: Node, builder: Builder) -> list[Value]:
    """The context of a pair at a node that computes its outputs: what is missing is computed after the node."""
    forward = without_tuples_inside(pair.forward if pair.replay is None else pair.replay)
    real = len(node.outputs) - pair.draws
    env: dict[Value, Value] = dict(zip(forward.inputs, [*node.inputs, *node.outputs[real:]], strict=True))
    for ours, theirs in zip(forward.outputs[:-1], node.outputs[:real], strict=True):
        env.setdefault(ours, theirs)
    packed = _elements(forward)
    span = node.span if forward.span.source.is_library else None
    for needed in _slice(packed, env):
        copy_node(needed, env, builder.insert, span)
    return [env[value] for value in packed]


def _elements(forward: Graph) -> list[Value]:
    """Of the context. Where it is what a tuple among the inputs was taken apart into, it has become that tuple."""
    context = forward.outputs[-1]
    if context.node.kind == "prim::TupleConstruct":
        return context.node.inputs
    return Builder(forward, span=context.node.span).unpack(context)


def _slice(values: Sequence[Value], env: dict[Value, Value]) -> list[Node]:
    """The nodes that compute values from those in `env`, in program order."""
    needed: set[Node] = set()
    stack = [value for value in values if value not in env]
    block = None
    while stack:
        node = stack.pop().node
        if node in needed:
            continue
        needed.add(node)
        block = node.owner
        stack += [v for v in _inputs_from_outside(node) if v not in env]
    return [] if block is None else [node for node in block.nodes if node in needed]


def _inputs_from_outside(node: Node) -> list[Value]:
    outside = [v for block in node.blocks for v in captures(block)]
    constants = [v for block in node.blocks for v in constants_used(block)]
    return [*node.inputs, *outside, *constants]


def constants_used(block: Block) -> list[Value]:
    """Constants from around a block that it uses."""
    nodes = list(walk(block.nodes))
    own = set(nodes)
    rets = [block.ret, *(b.ret for n in nodes for b in n.blocks)]
    used = [v for n in (*nodes, *rets) for v in n.inputs]
    return [v for v in used if v.node.kind == "prim::Constant" and v.node not in own]


@dataclass(slots=True)
class PartialRule:
    """A backward whose own backward gives gradients of its gradients only: the rest flows through its body.

    `body` are the results of that body, computed in front of the node on detached gradients.
    """

    node: Node
    formula: PairRule
    body: Sequence[Value]

    def emit(self, reverse: Reverse) -> None:
        self.formula.emit(reverse)
        for output, shadow in zip(self.node.outputs, self.body, strict=True):
            if output in reverse.gradients:
                reverse.add(shadow, reverse.gradients[output])


@dataclass(slots=True)
class MissingRule:
    """Stands for an op without a formula: an error only if a gradient reaches it.

    Where that gradient is one of a captured temporary, only a backward of the backward would send it: the error waits
    for that.
    """

    node: Node

    def emit(self, reverse: Reverse) -> None:
        if self._hands_zeros_on(reverse):
            return
        message = f"{self.node.kind} has no gradient"
        if reverse.is_certain:
            raise CompileError([Diagnostic("E408", message, self.node.span, (_WITHOUT_GRADIENT,))])
        gradients = [reverse.gradients[v] for v in self.node.outputs if v in reverse.gradients]
        reverse.grad_of(self.node.kind, gradients, self.node.span, lambda b: self._raise(b, message))

    def _hands_zeros_on(self, reverse: Reverse) -> bool:
        """Whether no gradient reaches it but ones of zeros, of which its operands get some too."""
        kinds = reverse.aggregation.zeros
        gradients = [reverse.gradients[v] for v in self.node.outputs if v in reverse.gradients]
        if not kinds or not all(map(reverse.aggregation.is_zero, gradients)):
            return False
        for value in dict.fromkeys(self.node.inputs):
            if value in reverse.active and is_tensor(value.type):
                reverse.add(value, reverse.builder.op(kinds[0], value))
        return True

    def _raise(self, builder: Builder, message: str) -> list[Value]:
        builder.op_results("prim::RaiseException", f"{message}: {_WITHOUT_GRADIENT}", "RuntimeError")
        return []


_WITHOUT_GRADIENT = "call .detach() on its result, or wrap it in a function with its own `def backward`"


@dataclass(slots=True)
class StructuralRule:
    """Goes back through a node that only moves values about."""

    node: Node
    back: Callable[[Node, Builder, list[Value]], dict[int, Value]]
    """The node and one gradient per output → gradients by number of input."""

    def emit(self, reverse: Reverse) -> None:
        node = self.node
        gradients = [reverse.gradient_or_zero(value) for value in node.outputs]
        wanted: list[int] = []

        def body(builder: Builder) -> list[Value]:
            found = self.back(node, builder, gradients)
            wanted.extend(i for i in found if node.inputs[i] in reverse.active)
            return [found[i] for i in wanted]

        results = reverse.grad_of(node.kind, gradients, node.span, body)
        for index, result in zip(wanted, results, strict=True):
            reverse.add(node.inputs[index], self._in_dtype(reverse, node.inputs[index], result))

    def _in_dtype(self, reverse: Reverse, primal: Value, gradient: Value) -> Value:
        """What is listed may be of several dtypes, and the gradient of a list is of the one that was made of them."""
        if not reverse.mixes or self.node.kind != "prim::ListConstruct" or not is_tensor(primal.type):
            return gradient

        def body(builder: Builder) -> list[Value]:
            return [in_dtype_of(builder, primal, gradient)]

        return reverse.grad_of("aten::to", [gradient], self.node.span, body)[0]


def _pass_on(node: Node, builder: Builder, gradients: list[Value]) -> dict[int, Value]:
    return {0: gradients[0]}


def _add(node: Node, builder: Builder, gradients: list[Value]) -> dict[int, Value]:
    return {0: gradients[0], 1: gradients[0]}


def _list_construct(node: Node, builder: Builder, gradients: list[Value]) -> dict[int, Value]:
    if not node.inputs:
        return {}
    gradients_type = gradient_type(node.output)
    assert isinstance(gradients_type, ListType)
    # An element that is None has a place among the gradients too.
    types = [gradients_type.element] * len(node.inputs)
    return dict(enumerate(builder.node("prim::ListUnpack", gradients, types).outputs))


def _list_unpack(node: Node, builder: Builder, gradients: list[Value]) -> dict[int, Value]:
    # What an element is known to be may be nothing.
    gradients_type = gradient_type(node.inputs[0])
    assert isinstance(gradients_type, ListType)
    return {0: builder.list(gradients, gradients_type.element)}


STRUCTURAL: dict[str, Callable[[Node, Builder, list[Value]], dict[int, Value]]] = {
    "prim::unchecked_unwrap_optional": _pass_on,
    "aten::_unwrap_optional": _pass_on,
    "prim::unchecked_cast": _pass_on,
    "prim::MaterializeGrad": _pass_on,
    "prim::AutogradAdd": _add,
    "prim::ListConstruct": _list_construct,
    "prim::ListUnpack": _list_unpack,
}
