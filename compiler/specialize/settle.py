"""A graph for inputs of known shapes: what follows from them made constant, so that tensors alone are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.kinds import handed_to, is_loop, sources
from ..ir.node import Node, Value, enclosing_blocks
from ..ir.rewrite import CONSTANT, precise_type, replace_by_constant, replace_node, splice
from ..ir.structure import constant_fits
from ..ops.meta import UNKNOWN, Meta, is_defined, is_known
from ..passes.inline_functions import inline_functions
from ..passes.loops.unroll_loops import unroll_loops
from ..pipeline import run_recipe, write_out_loops
from ..shapes.propagate import propagate_new, propagate_shapes
from ..types.open_floats import holds_open_float
from ..types.types import BOOL, UNDEFINED, TensorType, Type, is_subtype, is_tensor, is_tensor_list

_CONDITIONS = {"prim::If": 0, "prim::Loop": 1}
"""Which input decides what runs."""
MAX_ROUNDS = 4
"""A decided branch may decide others, and each round decides what the one before uncovered."""


def settle_shapes(
    graph: Graph,
    arguments: Sequence[Any],
    *,
    keep_pairs: bool = False,
    unroll: bool = True,
    all_defined: bool = True,
) -> Mapping[Value, Any]:
    """Write into a graph what `arguments`, abstract values of its inputs, decide; returns what is known of each value.

    `keep_pairs` leaves calls of functions that have a backward of their own; without `unroll` loops stay; without
    `all_defined` any tensor among the inputs may yet turn out to be an undefined gradient. Numbers among the arguments
    that are known become constants too; pass UNKNOWN for one that is not to.

    Before, for x of 2 × 3:
        graph f(%x : Tensor):
          %one : int = prim::Constant[value=1]()
          %d : int = aten::dim(%x)
          %flat : bool = aten::eq.int(%d, %one)
          %y : Tensor = prim::If(%flat)
            block():
              %1 : Tensor = aten::exp(%x)
              return (%1)
            block():
              %size : List[int] = aten::size(%x)
              %2 : Tensor = aten::sum_to_size(%x, %size)
              return (%2)
          return (%y)
    After:
        graph f(%x : Tensor[float32, rank=2]):
          %size : List[int] = prim::Constant[value=[2, 3]]()
          %y : Tensor[float32, rank=2] = aten::sum_to_size(%x, %size)
          return (%y)
    """
    if all_defined:
        _drop_undefined(graph, arguments)
    _decide(graph, arguments)
    left_out = () if unroll else (unroll_loops,)
    known: dict[Value, Any] = {}
    for _ in range(MAX_ROUNDS):
        same = bool(known) and propagate_new(graph, known)
        if not same:
            known = propagate_shapes(graph, arguments)
        changed = _write(graph, known, all_defined)
        changed |= inline_functions(graph, keep_pairs=keep_pairs)
        if all_defined:
            changed |= run_recipe(graph, "settle_gradients")
        changed |= run_recipe(graph, "settle_shapes", without=left_out)
        if same and not changed:
            # What the round before left shared, and without dead code, is as it was.
            return known
        changed |= run_recipe(graph, "share_settled")
        if not changed:
            return known
    return propagate_shapes(graph, arguments)


def settle_rounds(graph: Graph, arguments: Sequence[Any]) -> None:
    """As `settle_shapes`, with short loops of as many rounds as are decided written out, and no others.

    Before, for x of 2 × 3:
        graph f(%x : Tensor):
          %always : bool = prim::Constant[value=True]()
          %axis : int = prim::Constant[value=0]()
          %n : int = aten::size.int(%x, %axis)
          %y : Tensor = prim::Loop(%n, %always, %x)
            block(%i : int, %z : Tensor):
              %1 : Tensor = aten::tanh(%z)
              return (%always, %1)
          return (%y)
    After:
        graph f(%x : Tensor[float32, rank=2]):
          %1 : Tensor[float32, rank=2] = aten::tanh(%x)
          %y : Tensor[float32, rank=2] = aten::tanh(%1)
          return (%y)
    """
    for _ in range(MAX_ROUNDS):
        settle_shapes(graph, arguments, unroll=False)
        if not write_out_loops(graph):
            return


def _decide(graph: Graph, arguments: Sequence[Any]) -> None:
    """Put what is known of flags among the inputs into the branches and the loops that they decide themselves."""
    for value, given in zip(graph.inputs, arguments, strict=True):
        decided = [use for use in value.uses if use.index == _CONDITIONS.get(use.user.kind)]
        if isinstance(given, bool) and value.type == BOOL and decided:
            known = Builder(graph, before=graph.body.param.next).constant(given)
            for use in decided:
                use.user.set_input(use.index, known)


def _drop_undefined(graph: Graph, arguments: Sequence[Any]) -> None:
    """Put a prim::AutogradZero in the place of a gradient that is not there."""
    absent = [v for v, given in zip(graph.inputs, arguments, strict=True) if given is None and v.use_count]
    for value in absent:
        if isinstance(value.type, TensorType):
            zero = Builder(graph, before=graph.body.param.next).undefined()
            value.replace_uses_with(zero)


def _write(graph: Graph, known: Mapping[Value, Any], all_defined: bool) -> bool:
    changed = False
    before: dict[Value, Type] = {}
    for value in graph.inputs if all_defined else ():
        _settle_type(value, known.get(value))
    for node in list(graph.all_nodes()):
        if node.owner is None:
            continue
        # Elements have the types that their list says.
        for value in node.outputs if node.kind != "prim::ListUnpack" else ():
            if node.blocks:
                before[value] = value.type
            _settle_type(value, known.get(value))
        if all_defined and node.schema is not None and len(node.outputs) > 1:
            changed |= _leave_out(node, known)
        if node.kind == "prim::If":
            changed |= _decide_results(node, known)
        if node.kind == "prim::GradOf":
            changed |= all_defined and _open(node, known)
        elif node.kind == "prim::grad_zeros":
            changed |= _make_zeros(node, known.get(node.output))
        elif node.kind == "prim::no_grads":
            changed |= all_defined and _make_undefined(node, known.get(node.output))
        elif node.kind == "prim::grad_list":
            changed |= all_defined and _fill(node, [known.get(value, UNKNOWN) for value in node.inputs])
        elif node.kind == "prim::AutogradAdd" and isinstance(known.get(node.output), list):
            changed |= all_defined and _add_lists(node, [known.get(value, UNKNOWN) for value in node.inputs])
        elif _may_fold(node, all_defined) and node.output in known:
            changed |= _fold(node, known[node.output])
    _keep_what_fits(before)
    return changed


def _keep_what_fits(before: dict[Value, Type]) -> None:
    """Leave its type to what a branch or a loop gives where a block that is not run gives something less precise."""
    pending = [*before]
    while pending:
        value = pending.pop()
        if value not in before or all(is_subtype(source.type, value.type) for source in sources(value)):
            continue
        value.type = before.pop(value)
        pending += [given for use in value.uses for given in handed_to(*use)]


def _open(node: Node, known: Mapping[Value, Any]) -> bool:
    """Put the content of a prim::GradOf in its place, where a gradient that it takes is known to be there.

    Where all are known to be missing, lists of them among these, its results are.
    """
    defined = [is_defined(known.get(value, UNKNOWN)) for value in node.inputs]
    if True in defined:
        splice(node, node.blocks[0])
        return True
    used = [value for value in node.outputs if value.use_count]
    if UNKNOWN in defined or not used:
        return False
    builder = Builder.in_front_of(node)
    for value in used:
        value.replace_uses_with(builder.undefined())
    return True


def _leave_out(node: Node, known: Mapping[Value, Any]) -> bool:
    """Put a prim::AutogradZero in the place of each tensor that an op is told to leave out of its results."""
    absent = [v for v in node.outputs if v.use_count and v in known and known[v] is None and is_tensor(v.type)]
    for value in absent:
        builder = Builder.in_front_of(node)
        value.replace_uses_with(builder.undefined())
    return bool(absent)


def _make_zeros(node: Node, known: Any) -> bool:
    """Zeros for a list of tensors, one by one."""
    if not isinstance(known, list) or not all(isinstance(item, Meta) for item in known):
        return False
    builder = Builder.in_front_of(node)
    zeros = [builder.op("aten::zeros", list(item.shape), item.dtype.code, None, None, None) for item in known]
    replace_node(node, [builder.node("prim::ListConstruct", zeros, [node.output.type]).output])
    return True


def _make_undefined(node: Node, known: Any) -> bool:
    """Undefined gradients of tensors, one by one; not in a loop, where each round would make as many as there are: nor
    in the body of one that is settled by itself, whose gradients may all be undefined."""
    if not isinstance(known, list) or not is_tensor_list(node.output.type) or _is_in_rounds(node):
        return False
    builder = Builder.in_front_of(node)
    zeros = [builder.undefined()] * len(known)
    replace_node(node, [builder.node("prim::ListConstruct", zeros, [node.output.type]).output])
    return True


def _is_in_rounds(node: Node) -> bool:
    return any(block.node is not None and is_loop(block.node) for block in enclosing_blocks(node.owner))


def _fill(node: Node, known: Sequence[Any]) -> bool:
    """The gradients of a list of tensors, with zeros for what is undefined, one by one."""
    gradients, primal = known
    if not isinstance(primal, list) or not all(isinstance(item, Meta) for item in primal):
        return False
    builder = Builder.in_front_of(node)
    if gradients is None:
        replace_node(node, [builder.op("prim::grad_zeros", node.inputs[1])])
        return True
    if not isinstance(gradients, list) or not all(item is None or isinstance(item, Meta) for item in gradients):
        return False
    if None not in gradients:
        replace_node(node, node.inputs[:1])
        return True
    given = _unpacked(builder, node.inputs[0], gradients)
    filled = [
        builder.op("aten::zeros", list(p.shape), p.dtype.code, None, None, None) if g is None else value
        for g, p, value in zip(gradients, primal, given, strict=True)
    ]
    replace_node(node, [builder.node("prim::ListConstruct", filled, [node.output.type]).output])
    return True


def _unpacked(builder: Builder, value: Value, known: Sequence[Any]) -> Sequence[Value]:
    types = [UNDEFINED if item is None else TensorType(item.dtype, item.rank) for item in known]
    return builder.node("prim::ListUnpack", [value], types).outputs


def _add_lists(node: Node, known: Sequence[Any]) -> bool:
    """The sum of two lists of tensors, tensor by tensor."""
    if not all(isinstance(one, list) and all(item is None or isinstance(item, Meta) for item in one) for one in known):
        return False
    builder = Builder.in_front_of(node)
    parts = [_unpacked(builder, value, metas) for value, metas in zip(node.inputs, known, strict=True)]
    sums = [_sum(builder, *pair) for pair in zip(*parts, strict=True)]
    replace_node(node, [builder.node("prim::ListConstruct", sums, [node.output.type]).output])
    return True


def _sum(builder: Builder, left: Value, right: Value) -> Value:
    type = right.type if left.type == UNDEFINED else left.type
    return builder.node("prim::AutogradAdd", [left, right], [type]).output


def _settle_type(value: Value, known: Any) -> None:
    type = value.type
    if not isinstance(known, Meta) or not isinstance(type, TensorType):
        return
    # Most are settled already, and asking is quicker than making a type.
    if type.dtype is not known.dtype or type.rank != known.rank:
        value.type = TensorType(known.dtype, known.rank, type.requires_grad)


def _may_fold(node: Node, all_defined: bool) -> bool:
    if node.kind == "prim::grad_defined" and not all_defined:
        return False
    return node.kind != CONSTANT and len(node.outputs) == 1 and not node.blocks and node.schema is not None


def _fold(node: Node, known: Any) -> bool:
    if not _is_constant(known, node.output.type):
        return False
    replace_by_constant(node, known)
    return True


def _decide_results(node: Node, known: Mapping[Value, Any]) -> bool:
    """Make constants of what either branch gives alike, or one of them alone, where the other gives nothing to read:
    what a branch keeps for its backward, such as a size, or which way it went inside."""
    decided = [v for v in node.outputs if v.use_count and v in known and _is_constant(known[v], v.type)]
    if not decided:
        return False
    assert node.next is not None
    builder = Builder.in_front_of(node.next)
    for value in decided:
        value.replace_uses_with(builder.constant(known[value], precise_type(known[value], value.type)))
    return True


def _is_constant(known: Any, type: Type) -> bool:
    """Whether a value of which this is known is a constant of its type."""
    if isinstance(known, Meta) or not is_known(known) or isinstance(known, tuple) or holds_open_float(known):
        return False
    return constant_fits(known, type)
