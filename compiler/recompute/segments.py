"""Loops in segments: the same gradient, differentiated with loops that keep their state now and then instead of lists.

    n rounds that keep r bytes each, of a state of c bytes, in segments of s rounds:      n / s · c + s · r bytes

which is least for s = √(n · c / r): memory that grows with √n, for one more forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from ..autodiff.differentiate import differentiate
from ..autodiff.gradient import Gradient
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..ir.structure import SEGMENT
from ..ops.meta import Abstract
from ..shapes.propagate import UNKNOWN
from ..types.types import ListType
from .plain import simplified
from .policy import is_repeatable
from .problem import known_values
from .storage import size_of


def segmented(gradient: Gradient, shapes: Sequence[Abstract]) -> Gradient | None:
    """The gradient with every loop in segments that keeps less that way; None if there is none."""
    primal = primal_of(gradient)
    lengths = _lengths(gradient, shapes)
    if not lengths:
        return None
    for number, loop in enumerate(_loops(primal)):
        if number in lengths:
            loop.attrs[SEGMENT] = lengths[number]
    requires_grad = [i in gradient.output_vjps for i in range(len(primal.inputs))]
    return differentiate(primal, requires_grad, temporaries=False)


def primal_of(gradient: Gradient) -> Graph:
    """What was differentiated: f without what it returns for the backward. Dead code stays, so that loops keep their
    numbers."""
    primal = gradient.f.copy()
    primal.body.ret.replace_inputs(primal.outputs[: gradient.num_real_outputs])
    return primal


def _loops(graph: Graph) -> list[Node]:
    """Loops that stand in no other."""
    found: list[Node] = []
    stack = list(reversed(list(graph.nodes)))
    while stack:
        node = stack.pop()
        if node.kind == "prim::Loop":
            found.append(node)
        else:
            stack += reversed([inner for block in node.blocks for inner in block.nodes])
    return found


def _lengths(gradient: Gradient, shapes: Sequence[Abstract]) -> dict[int, int]:
    """Rounds per segment, by the number of the loop."""
    marked = gradient.f.copy()
    for number, loop in enumerate(_loops(marked)):
        loop.attrs[SEGMENT] = number + 1
    marked = simplified(marked)
    known = known_values(marked, shapes) or {}
    found: dict[int, int] = {}
    for loop in _loops(marked):
        length = _length(loop, known) if is_repeatable(loop) else None
        if SEGMENT in loop.attrs and length is not None:
            found[loop.attrs[SEGMENT] - 1] = length
    return found


def _length(loop: Node, known: dict[Value, Abstract]) -> int | None:
    """The best number of rounds in a segment; None where a list for each value is no worse, or sizes are not known."""
    rounds = _rounds(loop, known)
    lists = [known.get(v, UNKNOWN) for v in loop.outputs if isinstance(v.type, ListType) and v.use_count]
    state = [known.get(v, UNKNOWN) for v in loop.outputs if not isinstance(v.type, ListType)]
    kept, carried = size_of(lists), size_of([s for s in state if s is not UNKNOWN])
    if not rounds or not kept or carried is None:
        return None
    per_round = max(1, kept // rounds)
    length = min(rounds, max(1, isqrt(rounds * max(carried, 1) // per_round)))
    held = -(-rounds // length) * carried + length * per_round
    return length if held < kept else None


def _rounds(loop: Node, known: dict[Value, Abstract]) -> int | None:
    """How often a loop runs, by the longest list that it made; its trip count if it made none."""
    lengths = [len(found) for v in loop.outputs if isinstance(found := known.get(v), list)]
    return max(lengths, default=None)
