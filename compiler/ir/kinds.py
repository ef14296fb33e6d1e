"""Structural kinds, each told once: what a node of it looks like, what it is, how values flow through its blocks.

%y : T = prim::Loop(%trips, %entry, %x)        inputs      2 its own, then what the first round starts with
  block(%i : int, %a : T):                     parameters  1 its own, then what a round starts with
    …
    return (%more, %b)                         results     1 its own, then what a round ends with
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import Flag, auto
from typing import NamedTuple

from ...lang.light_dataclasses import dataclass
from . import structure
from .node import PARAM, RETURN, Block, Node, Value
from .structure import StructureRule

ALL = sys.maxsize


class KindTrait(Flag):
    """What may be said of every node of a kind."""

    NONE = 0
    KNOWN = auto()
    """Its output is known before the run."""
    SAME_VALUE = auto()
    """Its output is its input under another static type: it costs nothing at run time."""
    PART = auto()
    """Its outputs are parts of its input."""
    WHOLE = auto()
    """Its output holds its inputs."""
    CLOSED = auto()
    """Its blocks are not to use more values from outside than they do."""
    EFFECT = auto()
    """It may not be removed, repeated or moved, whoever uses its outputs."""


@dataclass(frozen=True, slots=True)
class Flow:
    """How values flow through the blocks of a node whose outputs are what one of its blocks gives.

    The node reads its first `inputs`, its blocks' first `results`, and makes their first `parameters`. The other inputs
    enter the block as its other parameters, and the other results leave it as the node's outputs, in order. If it
    `repeats`, its results are the next round's parameters, and with no round at all the inputs are the outputs.
    """

    inputs: int = ALL
    parameters: int = 0
    results: int = 0
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """One structural kind; a node of one has no schema.

    `check` raises Broken for what no node of it looks like. `form` is the call that source writes for a node, if it
    writes one.
    """

    check: StructureRule
    traits: KindTrait = KindTrait.NONE
    flow: Flow | None = None
    form: str = ""


KINDS: Mapping[str, Kind] = {
    "prim::Constant": Kind(structure.check_constant, KindTrait.KNOWN),
    "prim::Uninitialized": Kind(structure.check_uninitialized, KindTrait.KNOWN),
    "prim::TupleConstruct": Kind(structure.check_tuple_construct, KindTrait.WHOLE),
    "prim::TupleUnpack": Kind(structure.check_tuple_unpack, KindTrait.PART),
    "prim::TupleIndex": Kind(structure.check_tuple_index, KindTrait.PART),
    "prim::ListConstruct": Kind(structure.check_list_construct, KindTrait.WHOLE),
    "prim::ListUnpack": Kind(structure.check_list_unpack, KindTrait.PART),
    "prim::If": Kind(structure.check_if, flow=Flow()),
    "prim::Loop": Kind(structure.check_loop, flow=Flow(inputs=2, parameters=1, results=1, repeats=True)),
    "prim::Function": Kind(structure.check_function, KindTrait.CLOSED),
    "prim::CallFunction": Kind(structure.check_call_function),
    "prim::GradOf": Kind(structure.check_grad_of, flow=Flow()),
    "prim::DifferentiableGraph": Kind(structure.check_differentiable_graph, KindTrait.CLOSED, Flow(inputs=0)),
    "prim::FusionGroup": Kind(structure.check_fusion_group, KindTrait.CLOSED, Flow(inputs=0)),
    "prim::BailOut": Kind(structure.check_bail_out, KindTrait.EFFECT),
    "prim::AutogradAdd": Kind(structure.check_autograd_add, form="gs.autograd_add"),
    "prim::AutogradZero": Kind(structure.check_autograd_zero, KindTrait.KNOWN, form="gs.autograd_zero"),
    "prim::MaterializeGrad": Kind(structure.check_materialize_grad, form="gs.materialize_grad"),
    "prim::unchecked_unwrap_optional": Kind(structure.check_unwrap, KindTrait.SAME_VALUE | KindTrait.PART),
    "prim::unchecked_cast": Kind(structure.check_cast, KindTrait.SAME_VALUE),
}
_NO_KIND = Kind(structure.check_constant)
# Asked for of every node, again and again.
_FLOWS = {name: kind.flow for name, kind in KINDS.items() if kind.flow is not None}
_OPEN_FLOWS = {name: flow for name, flow in _FLOWS.items() if not KINDS[name].traits & KindTrait.CLOSED}


def form_of(node: Node) -> str:
    """The call that source writes for a node of a structural kind; nothing for one that is no call there."""
    return KINDS.get(node.kind, _NO_KIND).form


def kinds_with(trait: KindTrait) -> frozenset[str]:
    """The kinds that have a trait, or one of several."""
    return frozenset(name for name, kind in KINDS.items() if kind.traits & trait)


def has(node: Node, trait: KindTrait) -> bool:
    return KINDS.get(node.kind, _NO_KIND).traits._value_ & trait._value_ != 0


def flow_of(node: Node) -> Flow | None:
    """How values flow through the node's blocks; None where its outputs are not what they give."""
    return _FLOWS.get(node.kind)


def open_flow_of(node: Node) -> Flow | None:
    """As `flow_of`, for nodes whose blocks belong to the program around them."""
    return _OPEN_FLOWS.get(node.kind)


def is_loop(node: Node) -> bool:
    """Whether the node's block runs any number of times."""
    flow = flow_of(node)
    return flow is not None and flow.repeats


def own_inputs(node: Node) -> list[Value]:
    """The inputs that the node reads itself."""
    flow = flow_of(node)
    return node.inputs if flow is None else node.inputs[: flow.inputs]


def entering(node: Node) -> list[Value]:
    """The inputs that enter the node's blocks: the values that a loop starts with."""
    flow = flow_of(node)
    return [] if flow is None else node.inputs[flow.inputs :]


def own_parameters(block: Block) -> list[Value]:
    """The parameters of a block that the node makes which holds it: a loop's index."""
    flow = flow_of(block.node) if block.node is not None else None
    return [] if flow is None else block.inputs[: flow.parameters]


def own_results(block: Block) -> list[Value]:
    """The results of a block that the node reads which holds it: whether a loop goes on."""
    flow = flow_of(block.node) if block.node is not None else None
    return [] if flow is None else block.outputs[: flow.results]


def leaving(block: Block) -> list[Value]:
    """The results of a block that leave it: as outputs of the node that holds it, and into the next round."""
    flow = flow_of(block.node) if block.node is not None else None
    return block.outputs if flow is None else block.outputs[flow.results :]


class Carried(NamedTuple):
    """What a loop carries in one place: what it starts with, what a round starts and ends with, what it gives."""

    initial: Value
    parameter: Value
    result: Value
    output: Value


def carried(loop: Node) -> list[Carried]:
    """What a loop carries, place by place."""
    (block,) = loop.blocks
    places = zip(entering(loop), parameters(block), leaving(block), loop.outputs, strict=True)
    return [Carried(*place) for place in places]


def parameters(block: Block) -> list[Value]:
    """The parameters of a block that come from outside or from the round before: those of a loop without its index."""
    flow = flow_of(block.node) if block.node is not None else None
    return block.inputs if flow is None else block.inputs[flow.parameters :]


def handed_to(user: Node, index: int) -> list[Value]:
    """The values that a node's input becomes where the node hands it on: an output, and a parameter of a loop's block.

    `user` may be the Return of a block, whose holder hands on what leaves it.
    """
    holder = user.holder if user.kind == RETURN else None
    node = user if holder is None else holder
    flow = open_flow_of(node)
    if flow is None or (holder is None and not flow.repeats):
        return []
    place = index - (flow.inputs if holder is None else flow.results)
    if place < 0:
        return []
    return [*_at(node.outputs, place), *(_at(parameters(node.blocks[0]), place) if flow.repeats else ())]


def sources(value: Value, position: int | None = None) -> list[Value]:
    """The values of which a value is one, where a node hands values through; none where it is made.

    Of a block that is not finished the results may be missing. `position` is the value's own among those of its node,
    for callers that know it: it takes time to find.
    """
    node, index = value.node, value.index if position is None else position
    if node.kind == PARAM:
        block, holder = node.owner, node.holder
        flow = flow_of(holder) if holder is not None else None
        if block is None or holder is None or flow is None or index < flow.parameters:
            return []
        index -= flow.parameters
        return [*_at(entering(holder), index), *(_at(leaving(block), index) if flow.repeats else ())]
    flow = flow_of(node)
    if flow is None:
        return []
    found = [value for block in node.blocks for value in _at(leaving(block), index)]
    return [*_at(entering(node), index), *found] if flow.repeats else found


def _at(values: Sequence[Value], index: int) -> Sequence[Value]:
    return values[index : index + 1]
