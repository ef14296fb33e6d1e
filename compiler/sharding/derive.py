"""A graph walked with parts of its arguments in hand: where that leads, or what forbids it.

Whatever each device computes from sizes has to be what the whole would give. So sizes are followed twice, for the
tensors as they are and for ones that are longer where they are cut: a number that differs is one that devices disagree
on, and only what is about shapes may use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from ...lang.light_dataclasses import dataclass
from ..ir.graph import Graph
from ..ir.kinds import KindTrait, has
from ..ir.node import Block, Node, Value
from ..ops.meta import UNKNOWN, Meta, is_known
from ..ops.registry import OPS, Op, Trait
from ..shapes.propagate import ShapeError, propagate_shapes
from .placements import REPLICATE, SUM, Forbidden, Placement, shard
from .rules import placed
from .site import Site

LONGER = 3
"""By how much."""
MAX_TRIED = 4096
"""Combinations of placements of one op's arguments."""
_OF_SHAPES = frozenset(
    (
        *("aten::sum_to_size", "aten::_grad_sum_to_size", "aten::expand", "aten::reshape", "aten::view"),
        "aten::native_layer_norm",
        *("aten::broadcast_to", "aten::unflatten", "aten::embedding_dense_backward", "aten::embedding_backward"),
        *("gs::matmul_left", "gs::matmul_right", "gs::conv_input", "gs::conv_weight", "gs::pad_adjoint"),
        *(
            "gs::interpolate_adjoint",
            *(f"gs::{kind}avg_pool{n}d_adjoint" for kind in ("", "adaptive_") for n in (1, 2, 3)),
        ),
    )
)
"""Ops whose sizes say what the result's shape is, which is checked beside them."""

_ZEROS = frozenset(("zeros_like", "new_zeros"))

_ELEMENTWISE_LISTS = frozenset(("prim::grad_shapes", "prim::grad_list"))
"""Kinds whose output is a list of tensors that are where those of the first input are."""


@dataclass(frozen=True, slots=True)
class ShardedStage:
    """A graph, and where its inputs come from: numbers of what there is so far, to which its results are added."""

    graph: Graph
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run an op in parts: the places of arguments and results, None for what is no tensor."""

    arguments: tuple[Any, ...]
    results: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RefusedSharding:
    """A way that is none: what was cut, and where it ends."""

    arguments: tuple[Any, ...]
    reason: str
    node: Node | None


def ways(
    stages: Sequence[ShardedStage], values: Sequence[Any], results: Sequence[int]
) -> Iterator[Way | RefusedSharding]:
    """The ways to run stages one behind the other on arguments of these abstract values, each with all its results.

    Replicated tensors come first. The other candidates cut one dimension of one tensor, and with it those of others
    that are as long; or have partial sums in one argument, or in several.
    """
    for candidate in islice(_candidates(values), MAX_TRIED):
        try:
            found = _walk(stages, values, candidate, results)
        except Forbidden as no:
            yield RefusedSharding(candidate, no.reason, no.node)
        else:
            yield Way(candidate, tuple(found))


def _candidates(values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    tensors = [i for i, value in enumerate(values) if isinstance(value, Meta)]
    whole = [REPLICATE if isinstance(value, Meta) else None for value in values]
    yield tuple(whole)
    seen: set[tuple[Any, ...]] = set()
    for anchor in tensors:
        for dim, size in enumerate(values[anchor].shape):
            if size < 2:
                continue
            choices = [_choices(values[i], size) if i in tensors else [None] for i in range(len(values))]
            choices[anchor] = [shard(dim)]
            for candidate in product(*choices):
                if candidate not in seen:
                    seen.add(candidate)
                    yield candidate
    floating = [i for i in tensors if values[i].dtype.is_floating]
    for chosen in _subsets(floating):
        yield tuple([SUM if i in chosen else place for i, place in enumerate(whole)])


def _choices(value: Meta, size: int) -> list[Placement]:
    return [*(shard(dim) for dim, own in enumerate(value.shape) if own == size), REPLICATE]


def _subsets(numbers: Sequence[int]) -> list[frozenset[int]]:
    """One, or the first so many: gradients stand in front."""
    found = [frozenset((i,)) for i in numbers]
    return [*found, *(frozenset(numbers[:n]) for n in range(2, len(numbers) + 1))]


def _walk(
    stages: Sequence[ShardedStage], values: Sequence[Any], places: Sequence[Any], results: Sequence[int]
) -> list[Any]:
    """Where the results are."""
    given, longer = [*values], [_longer(v, p) for v, p in zip(values, places, strict=True)]
    known = [*places]
    for stage in stages:
        walk = _PlacementWalk(stage, [given[i] for i in stage.inputs], [longer[i] for i in stage.inputs])
        outputs = walk.run([known[i] for i in stage.inputs])
        given += walk.values_of(walk.known)
        longer += walk.values_of(walk.longer)
        known += outputs
    return [_frozen(known[i]) if isinstance(given[i], Meta | list) else None for i in results]


def _frozen(place: Any) -> Any:
    """A place, or those of a list."""
    return tuple(map(_frozen, place)) if isinstance(place, list) else place


def _longer(value: Any, place: Any) -> Any:
    if not isinstance(value, Meta) or place.kind != "shard":
        return value
    return Meta(tuple([LONGER * s if d == place.dim else s for d, s in enumerate(value.shape)]), value.dtype)


class _PlacementWalk:
    def __init__(self, stage: ShardedStage, values: Sequence[Any], longer: Sequence[Any]) -> None:
        self.graph = stage.graph
        try:
            self.known: Mapping[Value, Any] = propagate_shapes(self.graph, values)
            self.longer: Mapping[Value, Any] = propagate_shapes(self.graph, longer)
        except ShapeError as error:
            raise Forbidden(f"parts do not fit: {error.__cause__}", error.node) from None
        self.places: dict[Value, Any] = {}

    def values_of(self, known: Mapping[Value, Any]) -> list[Any]:
        return [known.get(value, UNKNOWN) for value in self.graph.outputs]

    def run(self, places: Sequence[Any]) -> list[Any]:
        self.places.update(zip(self.graph.inputs, places, strict=True))
        # Blocks nest as deep as the source does, so they are kept on a stack of their own.
        pending: list[Iterator[Node]] = [self.graph.body.nodes]
        after: list[tuple[Node, Block] | None] = [None]
        while pending:
            node = next(pending[-1], None)
            if node is None:
                pending.pop()
                self._leave(after.pop())
                continue
            block = self._block(node)
            if block is not None:
                pending.append(block.nodes)
                after.append((node, block))
            else:
                self._visit(node)
        return [self.places.get(value) for value in self.graph.outputs]

    def _leave(self, ended: tuple[Node, Block] | None) -> None:
        if ended is not None:
            node, block = ended
            self.places.update(zip(node.outputs, [self.places.get(v) for v in block.outputs], strict=True))

    def _block(self, node: Node) -> Block | None:
        """The branch that is taken; None for a node without. Forbidden where parts do not say."""
        if node.kind == "prim::If":
            taken = self.known.get(node.inputs[0], UNKNOWN)
            if not isinstance(taken, bool) or self.longer.get(node.inputs[0]) is not taken:
                raise Forbidden("which branch is taken is not known of parts", node)
            return node.blocks[0 if taken else 1]
        if node.kind == "prim::GradOf":
            (block,) = node.blocks
            self.places.update(zip(block.inputs, [self.places.get(v) for v in node.inputs], strict=False))
            return block
        if node.blocks and node.kind != "prim::Function":
            raise Forbidden("a loop runs on whole tensors", node)
        return None

    def _visit(self, node: Node) -> None:
        if has(node, KindTrait.KNOWN):
            return
        places = [self.places.get(value) for value in node.inputs]
        if has(node, KindTrait.SAME_VALUE):
            self.places[node.output] = places[0]
        elif has(node, KindTrait.WHOLE):
            self.places[node.output] = places
        elif has(node, KindTrait.PART):
            self.places.update(zip(node.outputs, places[0] or (), strict=True))
        else:
            self._operation(node, places)

    def _operation(self, node: Node, places: Sequence[Any]) -> None:
        results = [self.known.get(value, UNKNOWN) for value in node.outputs]
        if not any(map(_holds_tensors, results)):
            self._numbers(node, places)
            return
        values = [self.known.get(value, UNKNOWN) for value in node.inputs]
        if _all_whole(places) and not self._differs(node.inputs):
            self.places.update({v: _whole(r) for v, r in zip(node.outputs, results, strict=True)})
            return
        if node.kind in _ELEMENTWISE_LISTS:
            self.places[node.output] = places[0]
            return
        op = OPS.of(node.schema)
        if node.kind == "prim::AutogradAdd":
            op, values, places = OPS.named("aten::add.Tensor"), [*values, 1], [*places, None]
        if op is None:
            raise Forbidden("this is computed of whole tensors", node)
        try:
            if op.has(Trait.SHAPE_ONLY):
                found: Sequence[Any] = [_filled(op, places)] * len(results)
            else:
                found = placed(Site(op, values, places, results))
        except Forbidden as no:
            raise Forbidden(no.reason, no.node or node) from None
        except (KeyError, ValueError, IndexError, TypeError, AttributeError):
            raise Forbidden("this is computed of whole tensors", node) from None
        self._require_same_numbers(node, op.schema.name)
        if op.schema.name == "aten::expand" or op.has(Trait.SHAPE_ONLY):
            found = [self._grown(v, p) for v, p in zip(node.outputs, found, strict=True)]
        self.places.update(zip(node.outputs, found, strict=True))
        self._require_fit(node)

    def _grown(self, value: Value, place: Any) -> Any:
        """Of a tensor whose elements are alike along a dimension that is longer: it is cut there."""
        meta, longer = self.known.get(value), self.longer.get(value)
        if place != REPLICATE or not isinstance(meta, Meta) or not isinstance(longer, Meta):
            return place
        grown = [d for d, sizes in enumerate(zip(meta.shape, longer.shape, strict=True)) if sizes[0] != sizes[1]]
        return shard(grown[0]) if len(grown) == 1 else place

    def _numbers(self, node: Node, places: Sequence[Any]) -> None:
        """Sizes are followed on their own; what elements say, whole tensors have to say."""
        if OPS.has(node.schema, Trait.RANDOM):
            raise Forbidden("random numbers would be drawn for each part", node)
        known = all(is_known(self.known.get(value, UNKNOWN)) for value in node.outputs)
        if not known and not _all_whole(places):
            raise Forbidden("a number is told that is in a tensor", node)

    def _differs(self, values: Sequence[Value]) -> bool:
        """Whether devices disagree on a number among values."""
        return any(
            not _holds_tensors(self.known.get(v)) and not _equal(self.known.get(v), self.longer.get(v)) for v in values
        )

    def _require_same_numbers(self, node: Node, name: str) -> None:
        is_of_shapes = name in _OF_SHAPES or OPS.has(node.schema, Trait.SHAPE_ONLY)
        if not is_of_shapes and self._differs(node.inputs):
            raise Forbidden("the size of the whole is computed with, and each device has another one", node)

    def _require_fit(self, node: Node) -> None:
        """Forbidden unless what is cut, and nothing else, has got longer."""
        for value in node.outputs:
            meta, longer, place = self.known.get(value), self.longer.get(value), self.places[value]
            if isinstance(meta, Meta) and isinstance(place, Placement) and _longer(meta, place) != longer:
                raise Forbidden("the shape of a part is not that of a part of the whole", node)


def _filled(op: Op, places: Sequence[Any]) -> Placement:
    """Of what takes the shape of tensors alone: the same on each device. Zeros add up to zeros, beside partial sums."""
    partial = [place for place in places if place is not None and place.is_partial]
    return partial[0] if partial and op.schema.base_name in _ZEROS else REPLICATE


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_tensors, value))
    return isinstance(value, Meta)


def _equal(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


def _all_whole(places: Sequence[Any]) -> bool:
    return all(_all_whole(p) if isinstance(p, list) else p in (None, REPLICATE) for p in places)


def _whole(value: Any) -> Any:
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return REPLICATE if isinstance(value, Meta) else None
