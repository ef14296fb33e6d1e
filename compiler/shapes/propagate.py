"""What a graph computes for inputs of given shapes, without the elements: an abstract interpretation.

    x : Meta([8, 4], float32)     %1 = aten::sum.dim_IntList(%x, [1], True)     Meta([8, 1], float32)
                                  %2 = aten::size(%x)                           [8, 4]

An abstract value is a Meta for a tensor; the value itself for a number, a bool, a string or None that is known; a list
or tuple of such; UNKNOWN for what depends on elements. Ops answer by the shape rules of their declarations, those that
are written in the language by their definitions. Branches that are decided are followed; others, and the rounds of a
loop, are joined, and one that is sure to fail is left out. Calls are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ...lang.trampoline import Walk, run
from ..formulas.library import formula
from ..ir.constants import TensorConstant
from ..ir.graph import Graph
from ..ir.node import Block, Node, Value, enclosing_blocks
from ..ops.composite import is_composite
from ..ops.meta import UNKNOWN, Abstract, Meta, UnknownType, is_defined, is_known, join
from ..ops.registry import OPS, Op, Trait
from ..types.dtypes import BY_CODE
from .gradient_sums import abstract_sum, sum_with_item
from .infer import infer
from .loops import Joining, Remembered, propagate_loop
from .open_lists import on_open_lists, takes_open_lists

__all__ = ["UNKNOWN", "Abstract", "Joining", "Meta", "UnknownType", "is_known", "propagate_new", "propagate_shapes"]


def propagate_shapes(graph: Graph, arguments: Sequence[Abstract], combine: Joining = join) -> dict[Value, Abstract]:
    """The abstract value of every value in the graph, given one per input.

    Values inside a loop stand for all its rounds: what rounds do not share is UNKNOWN, or, for a tensor or a list, what
    `combine` makes of two. Values in a branch that is not taken are missing. ShapeError, with the node of the source,
    where an op that is sure to run refuses its arguments.
    """
    walk = _Propagation(graph, combine, Remembered())
    walk.known.update(zip(graph.inputs, arguments, strict=True))
    results = run(walk.block(graph.body))
    if isinstance(results, ShapeError):
        raise results
    return walk.known


def propagate_new(graph: Graph, known: dict[Value, Abstract]) -> bool:
    """Add what nodes give of which nothing is known yet, where values have only been replaced by equal ones since.

    False where that does not tell all: where something new stands in control flow, or is some, or a call, or what
    `propagate_shapes` raises.
    """
    walk = _Propagation(graph, join, Remembered())
    for node in graph.all_nodes():
        if node.blocks and not all(value in known for block in node.blocks for value in block.inputs):
            return False
        if all(value in known for value in node.outputs):
            continue
        op = OPS.of(node.schema)
        if node.kind in _CONTROL or (op is not None and is_composite(op)):
            return False
        if node.kind != "prim::Constant" and _is_in_control_flow(node):
            return False
        results = walk.simple(node, [known.get(value, UNKNOWN) for value in node.inputs])
        if isinstance(results, ShapeError):
            return False
        known.update(zip(node.outputs, results, strict=True))
    return True


def _is_in_control_flow(node: Node) -> bool:
    around = (block.node for block in enclosing_blocks(node.owner))
    return any(holder is not None and holder.kind != "prim::GradOf" for holder in around)


class ShapeError(Exception):
    """An op that cannot be applied to arguments of these shapes; `.__cause__` is what it said.

    `.node` is where in the source, `.function` the function that it stands in, `.inputs` are the abstract values that
    it takes. Where that is looked through into the library, `.inner` is the node there that fails. `.callers` has the
    function and the node of each call that led here, from the inside out.
    """

    def __init__(
        self, function: str, node: Node, inputs: Sequence[Abstract], error: BaseException, inner: Node | None = None
    ) -> None:
        self.function = function
        self.node = node
        self.inputs = tuple(inputs)
        self.inner = inner
        self.callers: list[tuple[str, Node]] = []
        self.__cause__ = error
        super().__init__(f"{node.kind}: {error}")


class _Propagation:
    def __init__(self, graph: Graph, combine: Joining, memory: Remembered) -> None:
        self.graph = graph
        self.combine = combine
        self.memory = memory
        self.known: dict[Value, Abstract] = {}

    def block(self, block: Block) -> Walk:
        """Visit the nodes of a block whose parameters are known; the abstract results, or the ShapeError it ends in."""
        known = self.known
        for node in block.nodes:
            inputs = [known.get(value, UNKNOWN) for value in node.inputs]
            control = _CONTROL.get(node.kind)
            op = OPS.of(node.schema)
            if control is not None:
                results = yield control(self, node, inputs)
            elif op is not None and is_composite(op):
                results = yield self.composite(node, op, inputs)
            else:
                results = self.simple(node, inputs)
            if isinstance(results, ShapeError):
                return results
            known.update(zip(node.outputs, results, strict=True))
        return [known.get(value, UNKNOWN) for value in block.outputs]

    def set_all(self, values: Sequence[Value], results: Sequence[Abstract]) -> None:
        for value, result in zip(values, results, strict=True):
            self.known[value] = result

    def simple(self, node: Node, inputs: list[Abstract]) -> Sequence[Abstract] | ShapeError:
        """The results of a node without blocks."""
        structural = _STRUCTURAL.get(node.kind)
        try:
            if structural is not None:
                return structural(node, inputs)
            op = OPS.of(node.schema)
            if op is None or _tells(op):
                return [UNKNOWN] * len(node.outputs)
            if takes_open_lists(node, inputs):
                return on_open_lists(node, inputs)
            return infer(op, inputs, [value.type for value in node.inputs])
        except Exception as error:
            return ShapeError(self.graph.title, node, inputs, error)

    # --- control flow ---

    def branch(self, node: Node, inputs: list[Abstract]) -> Walk:
        if isinstance(inputs[0], bool):
            return (yield self.block(node.blocks[0 if inputs[0] else 1]))
        left = yield self.block(node.blocks[0])
        right = yield self.block(node.blocks[1])
        if isinstance(left, ShapeError):
            return right
        if isinstance(right, ShapeError):
            return left
        pairs = zip(node.blocks[0].outputs, left, node.blocks[1].outputs, right, strict=True)
        return [_either(*pair) for pair in pairs]

    def loop(self, node: Node, inputs: list[Abstract]) -> Walk:
        return (yield propagate_loop(self, node, inputs))

    def inside(self, node: Node, inputs: list[Abstract]) -> Walk:
        (block,) = node.blocks
        self.set_all(block.inputs, inputs[: len(block.inputs)])
        return (yield self.block(block))

    def gradient(self, node: Node, inputs: list[Abstract]) -> Walk:
        """Runs unless no gradient is there."""
        defined = [is_defined(value) for value in inputs]
        if not any(defined):
            return [None] * len(node.outputs)
        results = yield self.inside(node, inputs)
        if True not in defined:
            return [UNKNOWN] * len(node.outputs)
        return results

    def call(self, node: Node, inputs: list[Abstract]) -> Walk:
        callee = self.graph.called(node)
        if callee is None:
            return [UNKNOWN] * len(node.outputs)
        results = yield self.results_of(callee.graph, inputs, len(node.outputs))
        if not isinstance(results, ShapeError):
            return results
        if callee.graph.span.source.is_library:
            return self.told_at(node, inputs, results)
        results.callers.append((self.graph.title, node))
        return results

    def composite(self, node: Node, op: Op, inputs: list[Abstract]) -> Walk:
        callee = formula(op.schema)
        assert callee is not None, f"{op.schema.full_name} is written in the language"
        results = yield self.results_of(callee.graph, inputs, len(op.schema.returns))
        return self.told_at(node, inputs, results) if isinstance(results, ShapeError) else results

    def told_at(self, node: Node, inputs: Sequence[Abstract], error: ShapeError) -> ShapeError:
        """An error in the library, as one of the node that led there."""
        assert error.__cause__ is not None
        return ShapeError(self.graph.title, node, inputs, error.__cause__, error.inner or error.node)

    def results_of(self, graph: Graph, inputs: Sequence[Abstract], count: int) -> Walk:
        """The first results of another graph; a closure behind them is left out."""
        key = self.memory.key_of(graph, inputs)
        if key not in self.memory.calls:
            inner = _Propagation(graph, self.combine, self.memory)
            inner.known.update(zip(graph.inputs, inputs, strict=True))
            results = yield inner.block(graph.body)
            if isinstance(results, ShapeError):
                return results
            self.memory.calls[key] = results
        return self.memory.calls[key][:count]

    def closure(self, node: Node, inputs: list[Abstract]) -> Walk:
        yield from ()
        return [UNKNOWN]


def _tells(op: Op) -> bool:
    """Whether an op does something besides raising, which it does only where the program runs."""
    return op.has(Trait.SIDE_EFFECT) and op.schema.full_name != "prim::RaiseException"


def _either(then: Value, left: Abstract, otherwise: Value, right: Abstract) -> Abstract:
    """The result of one branch or the other. What a branch leaves uninitialized, nobody reads after it."""
    if otherwise.node.kind == "prim::Uninitialized":
        return left
    return right if then.node.kind == "prim::Uninitialized" else join(left, right)


# --- structural kinds ---


def _constant(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    value = node.attr("value")
    return [Meta.of(value.array) if isinstance(value, TensorConstant) else value]


def _unpack(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    (packed,) = inputs
    if not isinstance(packed, list | tuple):
        return [UNKNOWN] * len(node.outputs)
    if len(packed) != len(node.outputs):
        raise ValueError(f"{len(node.outputs)} values are taken out of {len(packed)}")
    return packed


def _index(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    return [inputs[0][node.attr("index")] if isinstance(inputs[0], tuple) else UNKNOWN]


def _add(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    return [reduce(abstract_sum, inputs)]


def _materialize(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    gradient, size, dtype = inputs
    if gradient is not None:
        return [gradient]
    known = isinstance(size, list) and is_known(size) and isinstance(dtype, int)
    return [Meta(tuple(size), BY_CODE[dtype]) if known else UNKNOWN]


def _assumed(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    """What is taken for granted: behind it, it holds."""
    if "value" in node.attrs:
        return [node.attrs["value"]]
    return [Meta(tuple(node.attrs["shape"]), BY_CODE[node.attrs["dtype"]])]


def _cast(node: Node, inputs: list[Abstract]) -> Sequence[Abstract]:
    return inputs[:1]


_STRUCTURAL: dict[str, Callable[[Node, list[Abstract]], Sequence[Abstract]]] = {
    "prim::Constant": _constant,
    "prim::Uninitialized": lambda node, inputs: [UNKNOWN],
    "prim::TupleConstruct": lambda node, inputs: [tuple(inputs)],
    "prim::TupleUnpack": _unpack,
    "prim::TupleIndex": _index,
    "prim::ListConstruct": lambda node, inputs: [list(inputs)],
    "prim::ListUnpack": _unpack,
    "prim::AutogradAdd": _add,
    "prim::grad_add_item": lambda node, inputs: [sum_with_item(*inputs)],
    "prim::AutogradZero": lambda node, inputs: [None],
    "prim::MaterializeGrad": _materialize,
    "prim::BailOut": _assumed,
    "prim::unchecked_unwrap_optional": _cast,
    "prim::unchecked_cast": _cast,
}
_CONTROL: dict[str, Callable[[_Propagation, Node, list[Abstract]], Walk]] = {
    "prim::If": _Propagation.branch,
    "prim::Loop": _Propagation.loop,
    "prim::GradOf": _Propagation.gradient,
    "prim::DifferentiableGraph": _Propagation.inside,
    "prim::FusionGroup": _Propagation.inside,
    "prim::CallFunction": _Propagation.call,
    "prim::Function": _Propagation.closure,
}
