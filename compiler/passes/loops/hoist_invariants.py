"""Compute in front of a loop what is the same in each of its rounds.

Before:
    graph f(%x : Tensor, %w : Tensor, %n : int):
      %always : bool = prim::Constant[value=True]()
      %y : Tensor = prim::Loop(%n, %always, %x)
        block(%i : int, %h : Tensor):
          %1 : List[int] = aten::size(%w)
          %2 : Tensor = aten::t(%w)
          %3 : Tensor = aten::mm(%h, %2)
          %4 : Tensor = aten::expand(%3, %1, %always)
          return (%always, %4)
      return (%y)
After:
    graph f(%x : Tensor, %w : Tensor, %n : int):
      %always : bool = prim::Constant[value=True]()
      %1 : List[int] = aten::size(%w)
      %2 : int = prim::Constant[value=0]()
      %3 : bool = aten::gt.int(%n, %2)
      %4 : Tensor = prim::If(%3)
        block():
          %5 : Tensor = aten::t(%w)
          return (%5)
        block():
          %6 : Tensor = prim::Uninitialized()
          return (%6)
      %y : Tensor = prim::Loop(%n, %always, %x)
        block(%i : int, %h : Tensor):
          %7 : Tensor = aten::mm(%h, %4)
          %8 : Tensor = aten::expand(%7, %1, %always)
          return (%always, %8)
      return (%y)

An op that may refuse what it is given runs only where the first round would have run it: behind the question whether
there is one, unless that is known, and not in front of what has an effect. A tensor that a round puts into a list or
hands on is one of that round, and stays. Inner loops come first, so that what is the same in all rounds of an outer
one leaves both.
"""

from __future__ import annotations

from itertools import islice

from ...analysis.definedness import may_be_uninitialized
from ...ir.builder import Builder
from ...ir.graph import Graph
from ...ir.kinds import KindTrait, has
from ...ir.node import RETURN, Block, Node, Value, walk
from ...ir.rewrite import CONSTANT, constant_of
from ...ops.registry import OPS, Trait
from ...types.types import BOOL, FLOAT, INT, ListType, OptionalType, TensorType, TupleType, Type

_LOOP, _UNINITIALIZED = "prim::Loop", "prim::Uninitialized"
_STRUCTURAL = frozenset(
    (
        *("prim::TupleConstruct", "prim::TupleUnpack", "prim::TupleIndex", "prim::ListConstruct"),
        *("prim::ListUnpack", "prim::If", "prim::Loop", "prim::GradOf", "prim::AutogradAdd", "prim::AutogradZero"),
        *("prim::MaterializeGrad", "prim::unchecked_unwrap_optional", "prim::unchecked_cast", _UNINITIALIZED, CONSTANT),
    )
)
"""The structural kinds that only compute."""
_KEEPING = ("aten::append.t", "aten::insert.t", "aten::_set_item.t", "prim::ListConstruct", "prim::TupleConstruct")
"""What puts a value somewhere, where it must not be that of another round."""
_TOTAL = frozenset(f"aten::{name}.int" for name in ("add", "sub", "eq", "ne", "lt", "le", "gt", "ge"))
"""Ops that give a result for any two ints."""
_NUMBERS: dict[Type, int | float] = {INT: 0, FLOAT: 0.0, BOOL: False}
MAX_INSIDE = 64
"""Nodes of a branch or loop that is moved as one."""


def hoist_invariants(graph: Graph) -> bool:
    """Move what does not depend on the round out of every loop."""
    changed = False
    effects = _with_effects(graph)
    # A loop stands before those inside it.
    for loop in reversed([node for node in graph.all_nodes() if node.kind == _LOOP]):
        changed |= _hoist(loop, effects)
    return changed


def _hoist(loop: Node, effects: set[Node]) -> bool:
    (body,) = loop.blocks
    runs = _runs_once(loop)
    if runs is False:
        return False
    safe, risky = _invariant(body, effects)
    if all(node.kind == CONSTANT for node in (*safe, *risky)):
        return False
    if runs:
        # In the order in which they stand.
        chosen = {*safe, *risky}
        safe, risky = [node for node in body.nodes if node in chosen], []
    for node in safe:
        node.unlink().insert_before(loop)
    if risky:
        _guard(loop, risky)
    return True


def _runs_once(loop: Node) -> bool | None:
    """Whether there is a first round; None where that is known only when it runs."""
    trips, entry = map(constant_of, loop.inputs[:2])
    if entry is False or (isinstance(trips, int) and trips <= 0):
        return False
    return True if isinstance(trips, int) and entry is True else None


def _with_effects(graph: Graph) -> set[Node]:
    """The nodes that do something besides computing, and those around them."""
    found: set[Node] = set()
    for node in graph.all_nodes():
        around: Node | None = node if _has_effect(node) else None
        while around is not None and around not in found:
            found.add(around)
            around = around.holder
    return found


def _invariant(body: Block, effects: set[Node]) -> tuple[list[Node], list[Node]]:
    """The nodes of a body that compute the same in each round: those that never fail, and those that may."""
    safe: list[Node] = []
    risky: list[Node] = []
    moved: set[Node] = set()
    guarded: set[Node] = set()
    is_behind_effect = False
    for node in body.nodes:
        is_small = _is_small(node)
        used = _used(node) if is_small else []
        varies = not is_small or any(value.node.owner is body and value.node not in moved for value in used)
        if varies or _is_kept(node) or not _computes(node):
            is_behind_effect = is_behind_effect or node in effects
            continue
        depends = any(value.node in guarded for value in used)
        if _never_fails(node) and not depends:
            safe.append(node)
        elif not is_behind_effect:
            risky.append(node)
            guarded.add(node)
        else:
            continue
        moved.add(node)
    return safe, risky


def _is_small(node: Node) -> bool:
    """Whether a node is worth a look into its blocks: each level of loops looks again."""
    return not node.blocks or sum(1 for _ in islice(walk([node]), MAX_INSIDE + 1)) <= MAX_INSIDE


def _own(node: Node) -> set[Node]:
    return {node, *walk([node])}


def _used(node: Node) -> list[Value]:
    """What a node and those inside it use of what stands around it."""
    own = _own(node)
    params = {block.param for inner in own for block in inner.blocks}
    users = [*own, *(block.ret for inner in own for block in inner.blocks)]
    return [value for user in users for value in user.inputs if value.node not in own and value.node not in params]


def _computes(node: Node) -> bool:
    """Whether a node does nothing but compute, the same each time."""
    return all(_is_pure(inner) for inner in _own(node))


def _is_pure(node: Node) -> bool:
    op = OPS.of(node.schema)
    return node.kind in _STRUCTURAL if op is None else not op.has(Trait.RANDOM | Trait.SIDE_EFFECT)


def _has_effect(node: Node) -> bool:
    return not (_is_pure(node) or _is_drawn(node))


def _is_drawn(node: Node) -> bool:
    op = OPS.of(node.schema)
    return op is not None and op.has(Trait.RANDOM) and not op.has(Trait.SIDE_EFFECT)


def _is_kept(node: Node) -> bool:
    """Whether a tensor that the node makes goes where each round's is to be its own."""
    made = [value for value in node.outputs if _holds_tensor(value.type)]
    return any(use.user.kind == RETURN or use.user.kind in _KEEPING for value in made for use in value.uses)


def _holds_tensor(type: Type) -> bool:
    while isinstance(type, ListType | OptionalType):
        type = type.element
    return isinstance(type, TensorType | TupleType)


def _never_fails(node: Node) -> bool:
    """Whether a node gives a result whatever it is given: constants, and what asks for a whole shape or a dtype."""
    if node.kind == CONSTANT or node.kind in _TOTAL or has(node, KindTrait.SAME_VALUE):
        return True
    op = OPS.of(node.schema)
    return (
        op is not None
        and op.has(Trait.SHAPE_ONLY)
        and len(node.inputs) == 1
        and isinstance(node.inputs[0].type, TensorType)
        and not may_be_uninitialized(node.inputs[0])
        and not _holds_tensor(node.output.type)
    )


def _guard(loop: Node, nodes: list[Node]) -> None:
    """Compute nodes in a branch that is taken if the loop has a first round."""
    builder = Builder.in_front_of(loop)
    trips, entry = loop.inputs[:2]
    condition = entry
    if not isinstance(constant_of(trips), int):
        condition = builder.op("aten::gt.int", trips, 0)
        if constant_of(entry) is not True:
            condition = builder.op("aten::__and__.bool", condition, entry)
    branch = builder.node("prim::If", [condition], blocks=2)
    then, otherwise = branch.blocks
    for node in nodes:
        then.append(node.unlink())
    inner = {inner for node in nodes for inner in _own(node)}
    moved = inner.union(block.ret for node in inner for block in node.blocks)
    other = Builder(otherwise, span=loop.span)
    for node in nodes:
        for value in node.outputs:
            outer = [use for use in value.uses if use.user not in moved]
            if not outer:
                continue
            result = branch.add_output(value.type, value.name_hint)
            then.ret.add_input(value)
            otherwise.ret.add_input(_nothing(other, value.type))
            for use in outer:
                use.user.set_input(use.index, result)


def _nothing(builder: Builder, type: Type) -> Value:
    """What stands for a value that nobody reads: of numbers one of them, so that sums of it never fail."""
    return builder.constant(_NUMBERS[type]) if type in _NUMBERS else builder.uninitialized(type)
