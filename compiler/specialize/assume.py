"""What runs had in common in the middle of a graph, taken for granted: each behind a prim::BailOut.

Where what is said of its first input does not hold, the run leaves: it goes on behind the same point of the graph as it
was, with the other inputs, which are all that lives on there. So nothing is computed twice, and no effect happens
again. Behind it, the output is known to be what is said: shapes that follow are settled as those of arguments are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..analysis.points import Points
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Value
from ..ops.meta import UNKNOWN, Abstract, Meta, is_known
from ..ops.registry import OPS, Trait
from ..shapes.propagate import propagate_shapes
from ..types.types import BOOL, INT, NUMBER, NUMBERS, STR, TensorType, is_tensor

BAIL_OUT = "prim::BailOut"
MAX_ROUNDS = 8
"""What is taken for granted tells what follows from it, and the rest is asked for again, so many times."""

Seen: TypeAlias = Meta | int | bool
"""What may be taken for granted of a value: shape and dtype of a tensor, a whole number, an answer."""


def may_be_assumed(value: Value) -> bool:
    """Whether it can be of use to know more of a value than arguments tell: one that an op gives, and that is used."""
    op = OPS.of(value.node.schema)
    if op is None or op.has(Trait.SIDE_EFFECT) or not value.use_count:
        return False
    return is_tensor(value.type) or value.type in (INT, BOOL, NUMBER)


def assume_inputs(graph: Graph, common: Sequence[Any]) -> None:
    """Take for granted the numbers and texts that runs were called with; None stands for one that is not known.

    Before, where n was 2 each time:
        graph f(%x : Tensor, %n : int):
          %1 : Tensor = aten::mul.Scalar(%x, %n)
          return (%1)
    After:
        graph f(%x : Tensor, %n : int):
          %1 : int = prim::Constant[value=2]()
          %2 : Tensor = aten::mul.Scalar(%x, %1)
          return (%2)
    """
    builder = Builder(graph, before=graph.body.param.next, span=graph.span)
    for value, known in zip(graph.inputs, common, strict=True):
        if known is not None and (value.type in NUMBERS or value.type == STR) and value.use_count:
            value.replace_uses_with(builder.constant(known, value.type))


def assume(graph: Graph, points: Points, arguments: Sequence[Abstract], seen: Mapping[int, Seen]) -> None:
    """Take for granted what was seen at points of a graph, as far as it does not follow from the arguments.

    The points may be those of the graph before numbers became constants. ShapeError where an op that is sure to run
    refuses what follows.

    Before, where all of four elements were chosen each time:
        graph f(%x : Tensor, %m : Tensor):
          %y : Tensor = aten::masked_select(%x, %m)
          %1 : List[int] = aten::size(%y)
          %no : bool = prim::Constant[value=False]()
          %2 : Tensor = aten::expand(%x, %1, %no)
          return (%2)
    After:
        graph f(%x : Tensor, %m : Tensor):
          %y : Tensor = aten::masked_select(%x, %m)
          %1 : Tensor[float32, rank=1] = prim::BailOut[dtype=6, point=0, shape=[4]](%y, %x, %y)
          %2 : List[int] = aten::size(%1)
          %no : bool = prim::Constant[value=False]()
          %3 : Tensor = aten::expand(%x, %2, %no)
          return (%3)
    """
    left = {point: (known, points.live_behind(point)) for point, known in seen.items()}
    for _ in range(MAX_ROUNDS if left else 0):
        chosen = _unknown(points, propagate_shapes(graph, arguments), left.keys())
        if not chosen:
            return
        for point in chosen:
            known, live = left.pop(point)
            _insert(points.values[point], point, known, live)


def _unknown(points: Points, known: Mapping[Value, Abstract], seen: Iterable[int]) -> list[int]:
    """The points that nothing tells of, in order, but for those of which another of them may tell."""
    chosen: list[int] = []
    waiting: set[Value] = set()
    for point, value in enumerate(points.values):
        if is_known(known.get(value, UNKNOWN)):
            continue
        if any(operand in waiting for operand in value.node.inputs):
            waiting.add(value)
        elif point in seen:
            chosen.append(point)
            waiting.add(value)
    return chosen


def _insert(value: Value, point: int, known: Seen, live: Sequence[Value]) -> None:
    """Put a prim::BailOut behind a value, and its output in the place of the value from there on."""
    node = value.node
    assert node.owner is not None
    uses = value.uses
    builder = Builder(node.owner, node.next, node.span)
    if isinstance(known, Meta):
        requires_grad = value.type.requires_grad if isinstance(value.type, TensorType) else None
        attrs = {"point": point, "shape": list(known.shape), "dtype": known.dtype.code}
        type = TensorType(known.dtype, known.rank, requires_grad)
        assumed = builder.node(BAIL_OUT, [value, *live], [type], attrs=attrs).output
    else:
        builder.node(BAIL_OUT, [value, *live], [value.type], attrs={"point": point, "value": known})
        assumed = builder.constant(known, value.type)
    for use in uses:
        use.user.set_input(use.index, assumed)
