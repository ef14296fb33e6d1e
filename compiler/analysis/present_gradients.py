"""Gradients, and lists of them, that are there because those that a backward is called with are.

There are the parameters, of the graph and of a closure, of which a dtype is known (`definedness.type_when_there`):
with such a backward is called by hand. Of what is made of them no type says that it is there; what it is made of does.
"""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.kinds import open_flow_of, sources
from ..ir.node import PARAM, Node, Value
from ..ir.rewrite import program_order
from ..ops.registry import OPS
from ..types.types import TENSOR_LIST, ListType, TensorType, Type, VariableType, is_differentiable, is_tensor
from .definedness import Definedness, State, post_order


def surely_there(df: Graph) -> set[Value]:
    """Gradients, and lists of them, that surely are there: what nothing speaks against, rounds of loops included."""
    states = Definedness(df)
    for node in post_order(df):
        states.visit(node)
    made = [value for node in program_order(df) for value in node.outputs]
    there = {value for value in made if is_tensor(value.type) or isinstance(value.type, ListType)}
    sure = {value for value in there if states[value] is State.NONZERO or _is_given(value)}
    open_ = [value for value in made if value in there and value not in sure]
    while True:
        refuted = [value for value in open_ if not _may_be_there(value, there)]
        if not refuted:
            return there
        there.difference_update(refuted)
        open_ = [value for value in open_ if value in there]


def _is_given(value: Value) -> bool:
    """Whether a parameter, of the graph or of a closure, is a gradient that is there, or a list of such."""
    block = value.node.owner
    if value.node.kind != PARAM or block is None or (block.node is not None and block.node.kind != "prim::Function"):
        return False
    type = value.type.element if isinstance(value.type, ListType) else value.type
    return isinstance(type, TensorType) and type.dtype is not None


def _may_be_there(value: Value, there: set[Value]) -> bool:
    """Whether a value is there if all of these are."""
    node = value.node
    if node.kind == "prim::GradOf":
        return any(given in there for given in node.inputs) and node.blocks[0].outputs[value.index] in there
    if node.kind == "prim::AutogradAdd":
        return any(given in there for given in node.inputs)
    if node.kind == "prim::If" and _asked(node) in there:
        return node.blocks[0].outputs[value.index] in there
    if node.kind == PARAM or open_flow_of(node) is not None:
        handed = sources(value)
        return bool(handed) and there.issuperset(handed)
    if node.kind == "prim::grad_zeros":
        return True
    if node.kind in ("prim::ListUnpack", "prim::grad_list"):
        return node.inputs[0] in there
    op = OPS.of(node.schema) if node.kind.startswith("aten::") else None
    declared = op.schema.returns[value.index].type if op is not None else None
    if node.kind in _OF_INPUTS or _moves_elements(declared):
        return there.issuperset(given for given in node.inputs if _may_be_gradient(given.type))
    return declared == TENSOR_LIST


def _moves_elements(declared: Type | None) -> bool:
    """Whether an op gives an element of a list, or a list of what it is given: of gradients, which are there or not."""
    return isinstance(declared.element if isinstance(declared, ListType) else declared, VariableType)


def _may_be_gradient(type: Type) -> bool:
    return is_tensor(type) or (isinstance(type, ListType) and is_differentiable(type))


def _asked(branch: Node) -> Value | None:
    """Of which gradient a branch asks whether it is there."""
    test = branch.inputs[0].node
    return test.inputs[0] if test.kind == "prim::grad_defined" else None


_OF_INPUTS = frozenset(("prim::ListConstruct", "prim::unchecked_cast"))
"""What holds, or is, what it is given."""
