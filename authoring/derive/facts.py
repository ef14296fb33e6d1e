"""What is known of values without running: whose shapes and dtypes they have.

A shape is a set of values whose shapes are broadcast together, and so is a dtype, of values that are promoted. What a
reduction keeps as ones takes nothing away from what it was reduced from: beside that it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...compiler.ir.graph import Graph
from ...compiler.ir.node import PARAM, RETURN, Block, Node, Value
from ...compiler.ir.rewrite import constant_of, program_order
from ...compiler.ops.registry import OPS, Op, Trait
from ...compiler.types.types import is_tensor
from ...lang.light_dataclasses import dataclass, field

Sources = frozenset[Value]
_SAME = frozenset(
    (
        *("aten::to.dtype", "aten::type_as", "aten::detach", "aten::contiguous", "prim::unchecked_cast", "aten::clone"),
        *("aten::softmax.int", "aten::log_softmax.int", "aten::cumsum", "aten::tril", "aten::triu", "aten::zeros_like"),
        *("aten::ones_like", "aten::full_like"),
    )
)
"""Ops with the shape of their first operand."""
_OTHER_DTYPE = frozenset(("aten::to.dtype", "aten::type_as", "aten::_autocast_to_full_precision"))
_SIZED = frozenset(("aten::expand", "aten::sum_to_size", "aten::_grad_sum_to_size", "aten::reshape", "aten::view"))
"""Ops with the shape that their second operand gives."""
_LIKE = {"aten::native_layer_norm": 0, "aten::native_layer_norm_backward": 1}
"""Ops with several results, of which the first has the shape of that operand."""
_REDUCTIONS = frozenset(("aten::mean", "aten::mean.dim", "aten::var", "aten::std", "aten::logsumexp"))
"""Those that are made of others."""


@dataclass(slots=True)
class ShapeFacts:
    """The shapes and dtypes of the tensors of one graph, and what each reduction that keeps its dimensions reduced."""

    shapes: dict[Value, Sources] = field(default_factory=dict)
    dtypes: dict[Value, Sources] = field(default_factory=dict)
    reduced: dict[Value, tuple[Sources, str]] = field(default_factory=dict)
    gradients: list[Value] = field(default_factory=list)
    """What closures take, which is there for its size wherever they need one."""

    replaced: dict[Value, Value] = field(default_factory=dict)
    """What stands in the place of values that are gone."""

    def shape(self, value: Value) -> Sources:
        return self._present(self.shapes, value)

    def dtype(self, value: Value) -> Sources:
        return self._present(self.dtypes, value)

    def _present(self, known: dict[Value, Sources], value: Value) -> Sources:
        atoms = known.get(value, frozenset((value,)))
        gone = atoms & self.replaced.keys()
        while gone:
            there = [self.replaced[atom] for atom in gone]
            atoms = (atoms - gone).union(*(known.get(each, (each,)) for each in there))
            gone = atoms & self.replaced.keys()
            known[value] = atoms
        return atoms

    def broadcast(self, shapes: Sequence[Sources]) -> Sources:
        """The shape of all together."""
        together = frozenset[Value]().union(*shapes)
        said = {atom for atom in together if atom in self.reduced and self.reduced[atom][0] <= together - {atom}}
        return together - said

    def size_of(self, value: Value) -> Value | None:
        """The tensor whose size a list is."""
        return value.node.inputs[0] if value.node.kind in ("aten::size", "prim::grad_size") else None


def facts_of(graph: Graph, closures: Sequence[Block] = ()) -> ShapeFacts:
    """All that follows from the ops of a graph; the gradients that each closure takes are like what is around it."""
    facts = ShapeFacts()
    around = {block.param: outer for outer, block in pairwise((graph.body, *closures))}
    for node in program_order(graph):
        if node in around:
            _enter_gradients(facts, node, around[node])
        elif node.kind in _LIKE:
            facts.shapes[node.outputs[0]] = facts.shape(node.inputs[_LIKE[node.kind]])
            _enter_statistics(facts, node)
        elif node.kind not in (PARAM, RETURN) and len(node.outputs) == 1 and is_tensor(node.output.type):
            _enter(facts, node)
    return facts


def follow(facts: ShapeFacts, replaced: Value, found: Value, made: Sequence[Node]) -> bool:
    """Enter nodes that were made, of which one value replaces another; False where all has to be entered anew."""
    if replaced in facts.reduced or any(node.blocks for node in made):
        return False
    for node in made:
        if len(node.outputs) == 1 and is_tensor(node.output.type):
            _enter(facts, node)
    facts.replaced[replaced] = found
    return True


def _enter_gradients(facts: ShapeFacts, param: Node, around: Block) -> None:
    outputs = [value for value in around.outputs if is_tensor(value.type)]
    if len(outputs) == len(param.outputs):
        for gradient, output in zip(param.outputs, outputs, strict=True):
            facts.shapes[gradient], facts.dtypes[gradient] = facts.shape(output), facts.dtype(output)
            facts.gradients.append(gradient)


def _enter_statistics(facts: ShapeFacts, node: Node) -> None:
    """What a normalization gives beside its result is reduced from what it takes, and keeps its dimensions."""
    if node.kind == "aten::native_layer_norm":
        for statistic in node.outputs[1:]:
            facts.reduced[statistic] = facts.shape(node.inputs[0]), constants_text(node.inputs[1])


def _enter(facts: ShapeFacts, node: Node) -> None:
    like = facts.size_of(node.inputs[0]) if node.kind == "aten::zeros" else None
    if like is not None:
        facts.shapes[node.output] = facts.shape(like)
    tensors = [value for value in node.inputs if is_tensor(value.type)]
    op = OPS.of(node.schema)
    if not tensors or (op is None and node.kind not in _SAME):
        return
    first = tensors[0]
    if op is not None and op.has(Trait.POINTWISE):
        facts.shapes[node.output] = facts.broadcast([facts.shape(value) for value in tensors])
        nothing = op.has(Trait.NONDIFFERENTIABLE)
        facts.dtypes[node.output] = frozenset() if nothing else frozenset().union(*map(facts.dtype, tensors))
        return
    if node.kind not in _OTHER_DTYPE and len(tensors) == 1 and not _names_dtype(node, op):
        facts.dtypes[node.output] = facts.dtype(first)
    if node.kind in _SAME:
        facts.shapes[node.output] = facts.shape(first)
    elif node.kind in _SIZED:
        like = facts.size_of(node.inputs[1])
        if like is not None:
            facts.shapes[node.output] = facts.shape(like)
    elif op is not None and len(tensors) == 1 and (op.has(Trait.REDUCTION) or node.kind in _REDUCTIONS):
        _reduce(facts, node, op)


def _names_dtype(node: Node, op: Op | None) -> bool:
    """Whether a node is told which dtype to make, as in `torch.sum(x, dtype=torch.float32)`."""
    if op is None:
        return False
    given = zip(op.schema.arguments, node.inputs, strict=True)
    return any(argument.is_dtype and constant_of(value) is not None for argument, value in given)


def _reduce(facts: ShapeFacts, node: Node, op: Op) -> None:
    names = {argument.name: value for argument, value in zip(op.schema.arguments, node.inputs, strict=True)}
    if "dim" not in names:
        facts.shapes[node.output] = frozenset()
    elif "keepdim" in names and constant_of(names["keepdim"]) is True:
        facts.reduced[node.output] = facts.shape(node.inputs[0]), constants_text(names["dim"])


def constants_text(value: Value) -> str:
    """A list of constants as text; the value itself where it is none."""
    if value.node.kind == "prim::ListConstruct":
        return f"[{', '.join(map(constants_text, value.node.inputs))}]"
    return str(value.node.attrs["value"]) if value.node.kind == "prim::Constant" else f"%{id(value)}"
