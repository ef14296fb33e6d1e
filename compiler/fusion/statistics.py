"""What a forward of halves keeps of rows for its backward, in float32: maxima, sums, means and what follows from them.

A kernel computes halves in float32, and rounds what it stores. A sum of exponentials that is rounded to 8 bits puts
every probability of its row off by as much, so what is kept is what was computed. Whoever asks for a statistic gets it
in the dtype that it has; one that is a result and kept as well is stored twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ...lang.light_dataclasses import replace
from ..autodiff.gradient import Gradient
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.kinds import carried
from ..ir.node import RETURN, Node, Value
from ..ir.structure import UNROUNDED
from ..ops.meta import Meta
from ..ops.registry import OPS, Trait
from ..shapes.propagate import propagate_shapes
from ..types.dtypes import FLOAT32, DType
from ..types.types import ListType, TensorType, leaf_of

_ELEMENT = "aten::__getitem__.t"
_APPEND = "aten::append.t"


def with_wide_statistics(gradient: Gradient, metas: Sequence[Any]) -> Gradient:
    """The gradient whose `f` gives captured statistics of halves in float32, which its `df` takes.

    `metas` are what is known of the arguments.

    Before:
        graph f(%x : Tensor[bfloat16, rank=2]):
          %dim : int = prim::Constant[value=1]()
          %keep : bool = prim::Constant[value=True]()
          %dims : List[int] = prim::ListConstruct(%dim)
          %m : Tensor[bfloat16, rank=2] = aten::amax(%x, %dims, %keep)
          %y : Tensor[bfloat16, rank=2] = aten::mul.Tensor(%x, %m)
          return (%y, %m)
        graph df(%g : Tensor[bfloat16, rank=2], %m : Tensor[bfloat16, rank=2]):
          %1 : Tensor[bfloat16, rank=2] = aten::mul.Tensor(%g, %m)
          return (%1)
    After:
        graph f(%x : Tensor[bfloat16, rank=2]):
          %dim : int = prim::Constant[value=1]()
          %keep : bool = prim::Constant[value=True]()
          %dims : List[int] = prim::ListConstruct(%dim)
          %m : Tensor[bfloat16, rank=2] = aten::amax(%x, %dims, %keep)
          %y : Tensor[bfloat16, rank=2] = aten::mul.Tensor(%x, %m)
          %1 : int = prim::Constant[value=6]()
          %2 : bool = prim::Constant[value=False]()
          %3 : bool = prim::Constant[value=False]()
          %4 : None = prim::Constant[value=None]()
          %m.1 : Tensor[float32, rank=2] = aten::to.dtype[unrounded=True](%m, %1, %2, %3, %4)
          return (%y, %m, %m.1)
        graph df(%g : Tensor[bfloat16, rank=2], %m : Tensor[float32, rank=2]):
          %1 : int = prim::Constant[value=15]()
          %2 : bool = prim::Constant[value=False]()
          %3 : bool = prim::Constant[value=False]()
          %4 : None = prim::Constant[value=None]()
          %m.1 : Tensor[bfloat16, rank=2] = aten::to.dtype[unrounded=True](%m, %1, %2, %3, %4)
          %5 : Tensor[bfloat16, rank=2] = aten::mul.Tensor(%g, %m.1)
          return (%5)
    """
    if not any(_half(gradient.f.outputs[i]) for i in gradient.captured_outputs):
        return gradient
    f, df = gradient.f.copy(), gradient.df.copy()
    known = propagate_shapes(f, metas)
    statistics = statistics_of(f, known)
    outputs, captured = f.outputs, [*gradient.captured_outputs]
    first = len(gradient.input_vjps) + len(gradient.captured_inputs)
    for place, (index, taken) in enumerate(zip(captured, df.inputs[first:], strict=True)):
        value = outputs[index]
        dtype = _half(value)
        if dtype is None:
            continue
        if isinstance(value.type, ListType):
            if index < gradient.num_real_outputs or not _widen_rounds(value, taken, statistics, dtype):
                continue
        elif value in statistics:
            wide = _converted(Builder(f, span=value.node.span), value, FLOAT32)
            if index < gradient.num_real_outputs:
                captured[place] = len(outputs)
                outputs = [*outputs, wide]
            else:
                outputs = [*outputs[:index], wide, *outputs[index + 1 :]]
            _narrowed(df, taken, wide, dtype)
    f.body.ret.replace_inputs(outputs)
    return replace(gradient, f=f, df=df, captured_outputs=tuple(captured))


def is_unrounded(value: Value) -> bool:
    """Whether it is a statistic as kernels compute it, in another dtype than the source has it."""
    return UNROUNDED in value.node.attrs


def in_halves(builder: Builder, wide: Value, node: Node, dtype: DType) -> Value:
    """What is computed in float32 in place of what a node gives, in its dtype of halves: kernels go on with it as it
    is, and it is rounded where it is a result."""
    narrow = _converted(builder, wide, dtype)
    if any(use.user.kind == RETURN for use in node.output.uses):
        del narrow.node.attrs[UNROUNDED]
    return narrow


def _half(value: Value) -> DType | None:
    """The dtype of halves that a value holds, or is a list of."""
    found = leaf_of(value.type)
    return found.dtype if isinstance(found, TensorType) and found.dtype is not None and found.dtype.is_half else None


def statistics_of(graph: Graph, known: Mapping[Value, Any]) -> set[Value]:
    """Floating values of a graph that are reduced, or follow from such element by element."""
    found: set[Value] = set()
    for node in graph.all_nodes():
        op = OPS.of(node.schema)
        if op is None or len(node.outputs) != 1 or not isinstance(known.get(node.output), Meta):
            continue
        size = _size(node.output, known)
        if op.has(Trait.REDUCTION) and node.inputs and size < _size(node.inputs[0], known):
            found.add(node.output)
        elif op.has(Trait.POINTWISE | Trait.VIEW):
            rows = [_size(value, known) for value in node.inputs if value in found]
            if rows and size <= max(rows):
                found.add(node.output)
    return {value for value in found if known[value].dtype.is_floating}


def _size(value: Value, known: Mapping[Value, Any]) -> int:
    found = known.get(value)
    return prod(found.shape) if isinstance(found, Meta) else 0


def _converted(builder: Builder, value: Value, dtype: DType) -> Value:
    result = builder.op("aten::to.dtype", value, dtype.code, name=value.name_hint)
    result.node.attrs[UNROUNDED] = True
    rank = value.type.rank if isinstance(value.type, TensorType) else None
    result.type = TensorType(dtype, rank)
    return result


def _narrowed(df: Graph, taken: Value, wide: Value, dtype: DType) -> None:
    """Have `df` take the statistic in float32, and go on with what it is."""
    uses = list(taken.uses)
    taken.type = wide.type
    if uses:
        narrow = _converted(Builder(df, before=df.body.param.next, span=df.span), taken, dtype)
        _use(uses, narrow)


def _use(uses: Sequence[Any], value: Value) -> None:
    for user, index in uses:
        user.set_input(index, value)


def _widen_rounds(value: Value, taken: Value, statistics: set[Value], dtype: DType) -> bool:
    """The same of a list that a loop fills with a statistic of each round; False where more is done with it."""
    loop = value.node
    if loop.kind != "prim::Loop":
        return False
    place = carried(loop)[loop.outputs.index(value)]
    grown = place.result.node
    starts_empty = place.initial.node.kind == "prim::ListConstruct" and not place.initial.node.inputs
    if grown.kind != _APPEND or grown.inputs[0] is not place.parameter or place.parameter.use_count != 1:
        return False
    if not starts_empty or value.use_count != 1 or grown.inputs[1] not in statistics:
        return False
    reads = [use.user for use in taken.uses]
    if not all(node.kind == _ELEMENT and node.inputs[0] is taken for node in reads):
        return False
    wide = _converted(Builder.in_front_of(grown), grown.inputs[1], FLOAT32)
    grown.set_input(1, wide)
    if place.initial.use_count != 1:
        begin = Builder.in_front_of(loop)
        own = begin.node("prim::ListConstruct", (), [ListType(wide.type)]).output
        loop.set_input(loop.inputs.index(place.initial), own)
        place = place._replace(initial=own)
    for part in (place.initial, place.parameter, place.result, place.output, taken):
        part.type = ListType(wide.type)
    for node in reads:
        _widen_read(node, wide, dtype)
    return True


def _widen_read(node: Node, wide: Value, dtype: DType) -> None:
    uses = list(node.output.uses)
    node.output.type = wide.type
    if uses:
        following = node.next
        narrow = _converted(Builder(node.owner, following, node.span), node.output, dtype)  # type: ignore[arg-type]
        _use(uses, narrow)
