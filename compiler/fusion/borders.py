"""Which nodes of a block kernels can be made around, and why others are borders.

    %y = aten::tanh(%x)                a part of a group
    %k = aten::append.t(%kept, %y)     border: a list
    %s = aten::Float.Tensor(%t)        border: a number that is in a tensor
    %z = prim::If(%c)                  border: a branch on what is in tensors

A group is planned for the shapes that it meets when it runs. So what follows from shapes belongs into it, and what does
not is run between groups: control flow, lists that grow, numbers that only a run can tell and what is shaped by them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..analysis.ownership import SUMS
from ..ir.kinds import KindTrait, has
from ..ir.node import Node, Value, walk
from ..ir.rewrite import CONSTANT
from ..ops.composite import is_composite
from ..ops.meta import UNKNOWN, is_known
from ..ops.registry import OPS, Op, Trait
from ..shapes.infer import has_rule
from ..types.open_sizes import is_open as is_open_size
from ..types.types import FLOAT, UNDEFINED, ListType, Type, is_tensor, leaf_of
from .decompose import primitive_definition
from .seeds import takes_any_number

LIST = "prim::ListConstruct"
_STRAIGHT = ("prim::ListUnpack", "prim::AutogradAdd", "prim::MaterializeGrad", "prim::unchecked_cast")
_STRUCTURAL = (LIST, *_STRAIGHT, "prim::unchecked_unwrap_optional")
_PLACES = frozenset(("size", "shape", "pad", "start", "end", "length", "index"))
"""Names of arguments that say how many elements there are, and where they go."""
CONTROL_FLOW = ("prim::If", "prim::Loop", "prim::GradOf")


class Borders:
    """What is known of the nodes of a graph on the way through it, in order.

    `known` is what `settle_shapes` gives. `inside` holds what members make, `settled` the numbers among it: they follow
    from shapes. `in_place` are nodes that write, or read, what is written where it lies.
    """

    def __init__(self, known: Mapping[Value, Any], in_place: Collection[Node] = ()) -> None:
        self._known = known
        self._in_place = in_place
        self._inside: set[Value] = set()
        self._settled: set[Value] = set()

    def why(self, node: Node) -> str:
        """Why a node is no part of a group; nothing for one that is."""
        if node.blocks:
            return self._why_blocks(node)
        reason = self._why_plain(node)
        if not reason:
            self._inside.update(node.outputs)
            self._settled.update(value for value in node.outputs if not _holds_tensor(value.type))
        return reason

    def _why_blocks(self, node: Node) -> str:
        """What computes a gradient only where it is wanted is straight once it is known which are."""
        if node.kind == "prim::GradOf":
            trial = Borders(self._known, self._in_place)
            trial._inside, trial._settled = set(self._inside), set(self._settled)
            inner = [trial.why(one) for one in node.blocks[0].nodes if not is_free(one)]
            if not any(inner):
                self._inside |= {*trial._inside, *node.outputs}
                self._settled |= trial._settled
                return ""
            return next(filter(None, inner))
        if node.kind == "prim::Loop":
            trips = self._known.get(node.inputs[0], UNKNOWN)
            return f"a loop of {trips} rounds" if type(trips) is int else "a loop"
        return "a branch"

    def _why_plain(self, node: Node) -> str:
        op = OPS.of(node.schema)
        if op is None:
            return self._why_structural(node)
        if op.has(Trait.SIDE_EFFECT):
            return "it does something"
        if op.has(Trait.RANDOM):
            return "a seed is drawn"
        if node.kind in SUMS:
            return "it is added where the sum lies"
        if node in self._in_place:
            return "it is written where the others lie"
        if any(_is_list(value) and value not in self._inside for value in node.inputs):
            return "a list"
        if not any(_holds_tensor(value.type) for value in node.outputs):
            return self._why_number(node, op)
        if not (has_rule(op) or is_composite(op)):
            return "its shape depends on what is in tensors"
        if self._is_told_by_elements(node):
            return "its shape depends on what is in tensors"
        if any(map(self._is_of_any_length, node.outputs)):
            return "a list"
        if not all(self._takes(node, op, index) for index in range(len(node.inputs))):
            return "it takes a number that is not known before it runs"
        return ""

    def _why_structural(self, node: Node) -> str:
        if node.kind == "prim::CallFunction":
            return f"a call of {node.attr('callee')}"
        if node.kind == LIST and _holds_tensor(node.output.type):
            return "" if _is_gathered(node) else "a list"
        if node.kind == LIST:
            return "" if all(map(self._is_settled, node.inputs)) else "numbers"
        if node.kind not in _STRUCTURAL or any(isinstance(value.type, ListType) for value in node.outputs):
            return "a list or a tuple"
        is_outside = any(_is_list(value) and value not in self._inside for value in node.inputs)
        return "a list" if is_outside else ""

    def _why_number(self, node: Node, op: Op) -> str:
        tensors = [value for value in node.inputs if _holds_tensor(value.type)]
        if tensors and not op.has(Trait.SHAPE_ONLY):
            return "a number that is in a tensor"
        return "" if all(map(self._is_settled, node.inputs)) else "numbers"

    def _is_told_by_elements(self, node: Node) -> bool:
        """Whether all that is ever known of what goes in does not tell the shape of what comes out."""
        known = self._known
        if not all(is_known(known.get(value, UNKNOWN)) for value in node.inputs if _holds_tensor(value.type)):
            return False
        return any(known.get(value, UNKNOWN) is UNKNOWN for value in node.outputs) and all(
            is_known(known.get(value, UNKNOWN)) for value in node.inputs
        )

    def _is_of_any_length(self, value: Value) -> bool:
        """Whether a list has as many elements as only a run tells: kernels would be planned for each number."""
        if not _is_list(value) or isinstance(self._known.get(value, UNKNOWN), list):
            return False
        return any(use.user.kind != "prim::ListUnpack" for use in value.uses)

    def _is_settled(self, value: Value) -> bool:
        """Whether a number follows from shapes; what holds tensors is another matter."""
        if _holds_tensor(value.type) or value in self._settled or has(value.node, KindTrait.KNOWN):
            return True
        return is_known(self._known.get(value, UNKNOWN))

    def _takes(self, node: Node, op: Op, index: int) -> bool:
        """Whether an argument is settled, or a number that kernels take as it comes."""
        value = node.inputs[index]
        if self._is_settled(value) or value.type == FLOAT or takes_any_number(op, index):
            return True
        return is_place(node, index) and self._is_in_place(node, op)

    def _is_in_place(self, node: Node, op: Op) -> bool:
        """Whether a number is told to an op that is at home in a group: as sizes do, it varies from plan to plan, and a
        plan for open sizes holds for many. A view of what is there already costs nothing where it stands: of what other
        views of it end in, too."""
        if not op.has(Trait.VIEW):
            return True
        source = node.inputs[0]
        while source in self._inside and (made := OPS.of(source.node.schema)) is not None and made.has(Trait.VIEW):
            source = source.node.inputs[0]
        return source in self._inside


def is_place(node: Node, index: int) -> bool:
    """Whether an argument of an op says how many elements there are, or where they go."""
    op = OPS.of(node.schema)
    return op is not None and op.schema.arguments[index].name in _PLACES


def is_free(node: Node) -> bool:
    """Whether a node is known before a run: each group has its own. What follows from open sizes is given to groups."""
    return has(node, KindTrait.KNOWN) and not is_open_size(node.attrs.get("value"))


def is_work(node: Node) -> bool:
    """Whether kernels are there for such nodes: they compute elements, or are made of what does."""
    op = OPS.of(node.schema)
    if op is None:
        return node.kind == "prim::AutogradAdd"
    return op.has(Trait.POINTWISE | Trait.REDUCTION) or primitive_definition(op) is not None


def weight(node: Node) -> int:
    """Ops that kernels compute in a node, those inside it included; what is made of several counts as two."""
    total = 0
    for inner in walk([node]):
        op = OPS.of(inner.schema)
        if is_work(inner):
            total += 1 if op is None or primitive_definition(op) is None else 2
    return total


def _is_gathered(node: Node) -> bool:
    """Whether a list is made for ops to take, as the one of `torch.cat([a, b])` is."""
    return any(_takes_whole(use.user) for use in node.output.uses)


def _takes_whole(node: Node) -> bool:
    op = OPS.of(node.schema)
    return op is not None and not node.blocks and any(is_tensor(leaf_of(result.type)) for result in op.schema.returns)


def _is_list(value: Value) -> bool:
    return isinstance(value.type, ListType) and _holds_tensor(value.type) and value.node.kind != CONSTANT


def _holds_tensor(type: Type) -> bool:
    """Whether a value is a tensor or a list of some, of which gradients that are missing are kinds."""
    return is_tensor(leaf_of(type)) or leaf_of(type) == UNDEFINED
