"""Put in its place what is computed from lists of gradients of which all are there.

Before:
    graph backward(%grads : List[Tensor[float32]], %y : Tensor, %i : int, %n : int):
      %g : Tensor = aten::__getitem__.t(%grads, %i)
      %1 : Tensor = prim::GradOf[name="aten::mul.Tensor"](%g)
        block():
          %2 : Tensor = aten::mul.Tensor(%g, %y)
          return (%2)
      %total : Tensor = prim::AutogradAdd(%1, %g)
      %missing : List[Tensor] = prim::no_grads(%grads, %n)
      %none : Tensor = aten::__getitem__.t(%missing, %i)
      %taken : List[Tensor] = aten::_set_item.t(%grads, %i, %none)
      return (%total, %taken)
After:
    graph backward(%grads : List[Tensor[float32]], %y : Tensor, %i : int, %n : int):
      %g : Tensor = aten::__getitem__.t(%grads, %i)
      %1 : Tensor = aten::mul.Tensor(%g, %y)
      %2 : int = prim::Constant[value=1]()
      %total : Tensor = aten::add.Tensor(%1, %g, %2)
      %missing : List[Tensor] = prim::no_grads(%grads, %n)
      %none : Tensor = aten::__getitem__.t(%missing, %i)
      %3 : Tensor[float32] = aten::__getitem__.t(%grads, %i)
      %4 : None = prim::Constant[value=None]()
      %5 : None = prim::Constant[value=None]()
      %6 : None = prim::Constant[value=None]()
      %7 : None = prim::Constant[value=None]()
      %8 : None = prim::Constant[value=None]()
      %9 : Tensor[float32] = aten::zeros_like(%3, %4, %5, %6, %7, %8)
      %taken : List[Tensor] = aten::_set_item.t(%grads, %i, %9)
      return (%total, %taken)

There are the parameters, of the graph and of a closure, of which a dtype is known (`analysis.definedness.there`): with
such a backward is called by hand. Of what is made of them no type says that it is there; what it is made of does.
"""

from __future__ import annotations

from ...analysis.definedness import Definedness, State, post_order
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import open_flow_of, sources
from ...ir.node import PARAM, Node, Value
from ...ir.rewrite import ITEM, SET_ITEM, program_order, replace_by_constant, replace_node, splice, with_item_added
from ...ops.registry import OPS
from ...types.types import TENSOR, ListType, TensorType, is_tensor


def follow_lists(df: Graph) -> bool:
    """Replace gradients' nodes that are asked of lists that are there, and of what is made of them."""
    there = _there(df)
    changed = False
    for node in list(post_order(df)):
        if node.kind == "prim::GradOf" and any(value in there for value in node.inputs):
            splice(node, node.blocks[0])
            changed = True
        elif node.kind == "prim::grad_defined" and node.inputs[0] in there:
            replace_by_constant(node, True)
            changed = True
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
    if is_tensor(left.type) or is_tensor(right.type):
        return _builder(node).op("aten::add.Tensor", left, right) if there.issuperset((left, right)) else None
    for whole, single in ((left, right), (right, left)):
        if whole in there and _single_item(single) is not None:
            return with_item_added(_builder(node), whole, single)
    return None


def _single_item(value: Value) -> Node | None:
    """What sets the one item that is there of a list of gradients."""
    node = value.node
    is_alone = node.kind == SET_ITEM and node.inputs[0].node.kind == "prim::no_grads" and value.use_count == 1
    return node if is_alone else None


def _is_missing(value: Value) -> bool:
    """Whether it is the gradient that nobody computed, of the type of others in a list."""
    return value.node.kind == ITEM and value.node.inputs[0].node.kind == "prim::no_grads"


def _there(df: Graph) -> set[Value]:
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
    if node.kind == SET_ITEM and _is_missing(node.inputs[2]):
        # It is written as zeros where the list is there.
        return node.inputs[0] in there
    if node.kind in _OF_INPUTS:
        return all(given in there for given in node.inputs if is_tensor(given.type) or isinstance(given.type, ListType))
    if node.kind == "prim::ListUnpack":
        return node.inputs[0] in there
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
