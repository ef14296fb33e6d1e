"""Lists of gradients that are there, as those of a function's results are when it is called by hand.

No type says of a list that its elements are there; what a list is made of does. Where it is sure, what asks goes:

    prim::GradOf[…](%grads)                       ─▶  its block
    prim::AutogradAdd(%a, %b)                     ─▶  aten::add.Tensor(%a, %b), or one item of %a added to
    _set_item(%grads, %i, no_grads(%grads)[0])    ─▶  _set_item(%grads, %i, zeros_like(%grads[%i]))
"""

from __future__ import annotations

from ..analysis.definedness import Definedness, State, post_order
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.kinds import open_flow_of, sources
from ..ir.node import PARAM, Node, Value
from ..ir.rewrite import program_order, replace_by_constant, replace_node, splice
from ..ops.registry import OPS
from ..types.types import TENSOR, ListType, is_tensor

ITEM = "aten::__getitem__.t"
SET_ITEM = "aten::_set_item.t"


def open_lists(df: Graph, given: set[Value]) -> bool:
    """Put in its place what is computed from lists of gradients that are there: `given`, and what is made of them."""
    there = _there(df, given)
    changed = False
    for node in list(post_order(df)):
        if node.kind == "prim::GradOf" and any(value in there for value in node.inputs):
            splice(node, node.blocks[0])
            changed = True
        elif node.kind == "prim::grad_defined" and node.inputs[0] in there:
            replace_by_constant(node, True)
            changed = True
        elif node.kind == "prim::AutogradAdd" and node.inputs[0].type != node.inputs[1].type:
            continue
        elif node.kind == "prim::AutogradAdd":
            total = _sum(node, there)
            changed = changed or total is not None
            if total is not None:
                replace_node(node, [total])
        elif node.kind == SET_ITEM and node.inputs[0] in there and _is_missing(node.inputs[2]):
            b = _builder(node)
            node.set_input(2, b.op("aten::zeros_like", b.op(ITEM, node.inputs[0], node.inputs[1])))
            changed = True
    return changed


def _builder(node: Node) -> Builder:
    assert node.owner is not None
    return Builder(node.owner, node, node.span)


def _sum(node: Node, there: set[Value]) -> Value | None:
    """The sum of two gradients that are there, or of such a list and one in which one item is."""
    left, right = node.inputs
    if is_tensor(left.type):
        return _builder(node).op("aten::add.Tensor", left, right) if there.issuperset((left, right)) else None
    for whole, single in ((left, right), (right, left)):
        if whole in there and single_item(single) is not None:
            return with_item_added(_builder(node), whole, single)
    return None


def single_item(value: Value) -> Node | None:
    """What sets the one item that is there of a list of gradients."""
    node = value.node
    is_alone = node.kind == SET_ITEM and node.inputs[0].node.kind == "prim::no_grads" and value.use_count == 1
    return node if is_alone else None


def with_item_added(b: Builder, whole: Value, single: Value) -> Value:
    """A list in which an item is more by what another sets."""
    _, index, item = single.node.inputs
    return b.op(SET_ITEM, whole, index, b.op("aten::add.Tensor", b.op(ITEM, whole, index), item))


def _is_missing(value: Value) -> bool:
    """Whether it is the gradient that nobody computed, of the type of others in a list."""
    return value.node.kind == ITEM and value.node.inputs[0].node.kind == "prim::no_grads"


def _there(df: Graph, given: set[Value]) -> set[Value]:
    """Gradients, and lists of them, that surely are there: what nothing speaks against, rounds of loops included."""
    states = Definedness(df)
    for node in post_order(df):
        states.visit(node)
    made = [value for node in program_order(df) for value in node.outputs]
    there = {value for value in made if is_tensor(value.type) or isinstance(value.type, ListType)}
    sure = given | {value for value in there if states[value] is State.NONZERO}
    open_ = [value for value in made if value in there and value not in sure]
    while True:
        refuted = [value for value in open_ if not _may_be_there(value, there)]
        if not refuted:
            return there
        there.difference_update(refuted)
        open_ = [value for value in open_ if value in there]


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
    if node.kind == SET_ITEM and _is_missing(node.inputs[2]):
        # It is written as zeros where the list is there.
        return node.inputs[0] in there
    if node.kind in _OF_INPUTS:
        return all(given in there for given in node.inputs if is_tensor(given.type) or isinstance(given.type, ListType))
    op = OPS.of(node.schema)
    declared = op.schema.returns[value.index].type if op is not None and node.kind.startswith("aten::") else None
    return declared == ListType(TENSOR)


def _asked(branch: Node) -> Value | None:
    """Of which gradient a branch asks whether it is there."""
    test = branch.inputs[0].node
    return test.inputs[0] if test.kind == "prim::grad_defined" else None


_OF_INPUTS = frozenset(
    ("prim::ListConstruct", "prim::unchecked_cast", "aten::append.t", "aten::slice.t", ITEM, SET_ITEM)
)
"""What holds, or is, what it is given."""
