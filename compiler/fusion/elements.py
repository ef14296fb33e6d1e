"""What one element of a node's result is, given where it stands: the rules by which nodes are drawn into kernels.

    element (i, j) of aten::t(%x)             element (j, i) of %x
    element (i, j) of aten::exp(%x)           exp of element (i, j) of %x
    element (i, j) of aten::cat([%a, %b], 1)  element (i, j) of %a if j < 3, else element (i, j - 3) of %b

So there is no copy of a view, and no order of loops to decide on: a kernel asks for the elements that it stores. Rules
are walks: they yield the walks that find the elements they need, and nothing recurses with the length of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...lang.trampoline import Walk
from ..dtypes import BOOL, INT64, DType
from ..ir import Node, Value
from ..meta import Meta, UnknownType, is_known
from ..ops.arrays import numpy_dtype
from ..ops.dims import wrap_dim
from ..ops.elementwise import SYMBOLIC, Pointwise, Specialization
from ..ops.registry import OPS, Trait
from ..ops.scalar import CONSTANT, LIMITS, PARAMETER
from ..types import NUMBERS, TensorType
from .body import register_dtype
from .index import Index, Sizes, axis, constant
from .index import value as index_value
from .kernel import Condition, Constant, Number, Operand
from .layout import Layout, contiguous_strides, views_of

if TYPE_CHECKING:
    from .group import Group


class Incompatible(Exception):
    """Something is asked of a group that no single kernel of its iteration space can do."""


Place: TypeAlias = tuple[Index, ...]
"""One index per dimension."""
Guards: TypeAlias = tuple[Condition, ...]
"""Outside of these the element is not asked for, so nothing may be loaded."""
Rule: TypeAlias = Callable[["Group", Node, int, Place, Guards], Walk]
"""(group, node, which result, where, guards) → a walk that returns the operand, in the register dtype."""
Known: TypeAlias = Mapping[Value, Any]


def element_rule(node: Node, known: Known, supports: Callable[[str, DType], bool]) -> Rule | None:
    """The rule for a node; None where it cannot be part of a kernel."""
    if not all(_is_settled(known.get(value)) for value in node.outputs):
        return None
    if node.kind in _STRUCTURAL:
        return _STRUCTURAL[node.kind]
    op = OPS.of(node.schema)
    if op is None:
        return None
    if op.has(Trait.POINTWISE) and isinstance(op.scalar, Pointwise):
        return _pointwise if _pointwise_fits(node, known, supports) else None
    rule = _RULES.get(op.schema.base_name)
    if rule is not None:
        return rule if _arguments_known(node, known) else None
    if op.has(Trait.VIEW) and _arguments_known(node, known):
        return _view if _is_view(node, known) else None
    return None


def _is_settled(known: Any) -> bool:
    return isinstance(known, Meta) or (isinstance(known, list | tuple) and all(isinstance(k, Meta) for k in known))


def _arguments_known(node: Node, known: Known) -> bool:
    """Whether all arguments but tensors are known. A seed is a number like any other, given when a kernel runs."""
    assert node.schema is not None
    pairs = zip(node.schema.arguments, node.inputs, strict=True)
    return all(is_known(known.get(value)) or argument.name == "seed" for argument, value in pairs)


# --- pointwise ---


def _samples(node: Node, known: Known) -> list[Any]:
    """Arguments that stand for the real ones where only their dtypes and ranks matter."""
    return [_sample(value, known.get(value)) for value in node.inputs]


def _sample(value: Value, found: Any) -> Any:
    if isinstance(found, Meta):
        return np.ones((1,) * found.rank, numpy_dtype(found.dtype))
    if isinstance(found, UnknownType) and value.type in NUMBERS:
        return 1 if str(value.type) in ("int", "bool") else 1.0
    return found


def _specialization(node: Node, known: Known) -> Specialization:
    found = [known.get(value) for value in node.inputs]
    op = OPS.of(node.schema)
    assert op is not None
    pointwise: Pointwise = op.scalar
    return pointwise.specialize([SYMBOLIC if isinstance(f, Meta | UnknownType) else f for f in found])


def _pointwise_fits(node: Node, known: Known, supports: Callable[[str, DType], bool]) -> bool:
    for index, value in enumerate(node.inputs):
        found = known.get(value)
        number = isinstance(found, UnknownType) and value.type in NUMBERS
        if not (number or is_known(found)) or (number and index in _static_arguments(node)):
            return False
    try:
        special = _specialization(node, known)
        compute, _ = special.dtypes(_samples(node, known))
    except Exception:
        return False
    if compute.is_half:
        return False
    return all(supports(step.op, compute) for step in special.steps if step.operands)


def _static_arguments(node: Node) -> Sequence[int]:
    op = OPS.of(node.schema)
    assert op is not None
    arguments = op.schema.arguments
    return [i for i in op.scalar.static if str(arguments[i].type) in ("int", "bool", "str")]


def _pointwise(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    special = _specialization(node, group.known)
    compute, result = special.dtypes(_samples(node, group.known))
    hint = node.output.name_hint
    body, made = group.body, []
    last = len(special.steps) - 1
    for number, step in enumerate(special.steps):
        if step.op == PARAMETER:
            dtype = BOOL if step.kind == "bool" else compute
            made.append((yield _argument(group, node.inputs[step.value], dtype, place, guards)))
        elif step.op == CONSTANT:
            made.append(Constant(step.value))
        elif step.op in LIMITS:
            made.append(Constant(LIMITS[step.op](numpy_dtype(result)).item()))
        else:
            dtype = BOOL if step.kind == "bool" else compute
            made.append(body.compute(hint if number == last else "", step.op, dtype, [made[o] for o in step.operands]))
    return as_dtype(group, made[-1], compute if special.steps[-1].kind == "number" else BOOL, result)


def as_dtype(group: Group, operand: Operand, dtype: DType, wanted: DType) -> Operand:
    """An operand of one dtype in the register dtype of another."""
    target = register_dtype(wanted)
    if isinstance(operand, Constant) and target == BOOL:
        return Constant(bool(operand.value))
    if target == BOOL and dtype != BOOL:
        return group.body.compute("", "ne", BOOL, [operand, Constant(0)])
    return group.body.cast(operand, target)


def _argument(group: Group, value: Value, dtype: DType, place: Place, guards: Guards) -> Walk:
    """An argument of a pointwise op: an element of a tensor that is broadcast to the result, or a number."""
    found = group.known.get(value)
    if not isinstance(found, Meta):
        yield from ()
        return group.number(value) if found is None or isinstance(found, UnknownType) else Constant(found)
    operand = yield group.element(value, place[len(place) - found.rank :], guards)
    return as_dtype(group, operand, register_dtype(found.dtype), dtype)


def _add_gradients(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    dtype = group.known[node.output].dtype
    parts = []
    for value in node.inputs:
        if group.known.get(value) is not None:
            parts.append((yield _argument(group, value, register_dtype(dtype), place, guards)))
    if len(parts) == 1:
        return parts[0]
    return group.body.compute(node.output.name_hint, "add", register_dtype(dtype), parts)


def _cast(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    """A conversion rounds where it is written, also to halves."""
    source, wanted = group.known[node.inputs[0]].dtype, group.known[node.output].dtype
    operand = yield group.element(node.inputs[0], place, guards)
    if wanted == source:
        return operand
    if wanted.is_half and register_dtype(source) != wanted and not isinstance(operand, Constant):
        rounded = group.body.cast(operand, wanted)
        return group.body.cast(rounded, register_dtype(wanted))
    return as_dtype(group, operand, register_dtype(source), wanted)


def _identity(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    return (yield group.element(node.inputs[0], place, guards))


def _materialize(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    if group.known.get(node.inputs[0]) is not None:
        return (yield group.element(node.inputs[0], place, guards))
    return Constant(0)


# --- views ---


def _is_view(node: Node, known: Known) -> bool:
    return _views(node, known) is not None


def _views(node: Node, known: Known) -> Any:
    op = OPS.of(node.schema)
    assert op is not None
    first = known.get(node.inputs[0])
    if not isinstance(first, Meta):
        return None
    arguments = [known.get(value) for value in node.inputs]
    return views_of(op, arguments, 0, Layout.contiguous(first))


def _view(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    """The element of the tensor that lies at the address which the view gives."""
    source = group.known[node.inputs[0]]
    view = group.views(node)[which]
    address = constant(view.offset)
    for index, stride in zip(place, view.strides, strict=True):
        address += index * stride
    return (yield group.element(node.inputs[0], unravel(address, source.shape, group.ranges(guards)), guards))


def unravel(address: Index, shape: Sequence[int], sizes: Sizes) -> Place:
    """The indices of the element that stands at an address of a contiguous tensor."""
    strides = contiguous_strides(shape)
    return tuple(
        constant(0) if size == 1 else address.divided(stride, sizes).modulo(size, sizes)
        for size, stride in zip(shape, strides, strict=True)
    )


def _unpacked(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    """An element of a list: of a tensor that it was made of, or of a part that an op gave."""
    return (yield _of_list(group, node.inputs[0], which, place, guards))


def _picked(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    return (yield _of_list(group, node.inputs[0], group.known[node.inputs[1]], place, guards))


def _of_list(group: Group, value: Value, which: int, place: Place, guards: Guards) -> Walk:
    made, which = value.node, which % len(group.known[value])
    if made.kind == "prim::ListConstruct":
        return (yield group.element(made.inputs[which], place, guards))
    if group.is_in_memory(value):
        return group.load_part(value, which, place, guards)
    if made.schema is None:
        raise Incompatible
    return (yield _view(group, made, which, place, guards))


def _flip(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    shape = group.known[node.inputs[0]].shape
    dims = {wrap_dim(d, len(shape)) for d in group.known[node.inputs[1]]}
    turned = tuple(-p + (s - 1) if d in dims else p for d, (p, s) in enumerate(zip(place, shape, strict=True)))
    return (yield group.element(node.inputs[0], turned, guards))


def _repeat(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    shape = group.known[node.inputs[0]].shape
    kept = place[len(place) - len(shape) :]
    inner = tuple(p.modulo(max(s, 1), group.sizes) for p, s in zip(kept, shape, strict=True))
    return (yield group.element(node.inputs[0], inner, guards))


# --- putting together ---


def _cat(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    """The first tensor whose part has not ended yet; each is read within its own part only."""
    rank = group.known[node.output].rank
    dim = wrap_dim(group.known[node.inputs[1]], rank)
    wanted = group.known[node.output].dtype
    parts, start = [], 0
    for number, found in enumerate(group.known[node.inputs[0]]):
        if found.shape == (0,) and rank != 1:
            continue
        end = start + found.shape[dim]
        if end > start:
            inner = (*place[:dim], place[dim] - start, *place[dim + 1 :])
            within = (*guards, Condition(place[dim], start, end))
            operand = yield _of_list(group, node.inputs[0], number, inner, within)
            parts.append((end, as_dtype(group, operand, register_dtype(found.dtype), wanted)))
        start = end
    return _chosen(group, place[dim], parts, wanted)


def _stack(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    dim = wrap_dim(group.known[node.inputs[1]], group.known[node.output].rank)
    wanted = group.known[node.output].dtype
    inner, parts = (*place[:dim], *place[dim + 1 :]), []
    for number, found in enumerate(group.known[node.inputs[0]]):
        within = (*guards, Condition(place[dim], number, number + 1))
        operand = yield _of_list(group, node.inputs[0], number, inner, within)
        parts.append((number + 1, as_dtype(group, operand, register_dtype(found.dtype), wanted)))
    return _chosen(group, place[dim], parts, wanted)


def _chosen(group: Group, index: Index, parts: list[tuple[int, Operand]], dtype: DType) -> Operand:
    if not parts:
        return Constant(0)
    (_, result) = parts[-1]
    for end, operand in reversed(parts[:-1]):
        result = group.body.where(group.body.within(index, None, end), operand, result, register_dtype(dtype))
    return result


def _add_n(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    """The elements of a list's tensors, which are broadcast, added up from the left."""
    dtype = register_dtype(group.known[node.output].dtype)
    total: Operand | None = None
    for number, found in enumerate(group.known[node.inputs[0]]):
        own = place[len(place) - found.rank :]
        inner = tuple(constant(0) if size == 1 else index for index, size in zip(own, found.shape, strict=True))
        term = yield _of_list(group, node.inputs[0], number, inner, guards)
        total = term if total is None else group.body.compute(node.output.name_hint, "add", dtype, [total, term])
    return total


def _adds_one_dtype(node: Node, known: Known) -> bool:
    """Sums of unlike dtypes are promoted one by one; each of bools is one of its own."""
    dtypes = {found.dtype for found in known[node.inputs[0]]}
    return len(dtypes) == 1 and BOOL not in dtypes


def _slice_scatter(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    """The source within the slice, the tensor around it."""
    tensor, source, *rest = node.inputs
    dim, start, end, step = (group.known[value] for value in rest)
    shape = group.known[tensor].shape
    dim = wrap_dim(dim, len(shape))
    first, last, step = slice(start, end, step).indices(shape[dim])
    count = len(range(first, last, step))
    offset = place[dim] - first
    inner = (*place[:dim], offset.divided(step, group.sizes), *place[dim + 1 :])
    inside = group.body.within(place[dim], first, first + (count - 1) * step + 1) if count else Constant(False)
    if step > 1 and count:
        remainder = group.body.position(offset.modulo(step, group.sizes))
        inside = group.body.both(inside, group.body.compute("", "eq", BOOL, [remainder, Constant(0)]))
    return (yield _inside_or(group, node, inside, (source, inner), Condition(inner[dim], 0, count), place, guards))


def _select_scatter(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    tensor, source, *rest = node.inputs
    dim, index = (group.known[value] for value in rest)
    shape = group.known[tensor].shape
    dim = wrap_dim(dim, len(shape))
    at = index % shape[dim]
    inside = group.body.within(place[dim], at, at + 1)
    inner = (*place[:dim], *place[dim + 1 :])
    return (yield _inside_or(group, node, inside, (source, inner), Condition(place[dim], at, at + 1), place, guards))


def _inside_or(
    group: Group,
    node: Node,
    inside: Operand,
    source: tuple[Value, Place],
    within: Condition,
    place: Place,
    guards: Guards,
) -> Walk:
    dtype = register_dtype(group.known[node.output].dtype)
    around = yield group.element(node.inputs[0], place, guards)
    value, inner = source
    operand = yield group.element(value, inner, (*guards, within))
    operand = as_dtype(group, operand, register_dtype(group.known[value].dtype), dtype)
    return group.body.where(inside, operand, around, dtype)


def _pad(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    """Padding counts from the last dimension, two numbers for each."""
    arguments = {a.name: group.known.get(v) for a, v in zip(node.schema.arguments, node.inputs, strict=True)}  # type: ignore[union-attr]
    shape, pad = group.known[node.inputs[0]].shape, arguments["pad"] or []
    value = arguments["value"]
    dtype = register_dtype(group.known[node.output].dtype)
    inner, within, inside = list(place), list(guards), Constant(True)
    for number in range(len(pad) // 2):
        dim = len(shape) - 1 - number
        before, after = pad[2 * number], pad[2 * number + 1]
        inner[dim] = place[dim] - before
        if before > 0 or after > 0:
            within.append(Condition(inner[dim], 0, shape[dim]))
            found = group.body.within(inner[dim], 0 if before > 0 else None, shape[dim] if after > 0 else None)
            inside = found if isinstance(inside, Constant) else group.body.both(inside, found)  # type: ignore[assignment]
    operand = yield group.element(node.inputs[0], tuple(inner), tuple(within))
    return group.body.where(inside, operand, group.body.cast(Constant(value or 0), dtype), dtype)


def _pads_with_constant(node: Node, known: Known) -> bool:
    return node.kind != "aten::pad" or known.get(node.inputs[2]) == "constant"


def _triangle(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    """tril keeps j - i <= diagonal, triu j - i >= diagonal."""
    diagonal = group.known[node.inputs[1]]
    distance = place[-1] - place[-2]
    lower = node.kind.startswith("aten::tril")
    keeps = group.body.within(distance, None if lower else diagonal, diagonal + 1 if lower else None)
    operand = yield group.element(node.inputs[0], place, guards)
    dtype = register_dtype(group.known[node.output].dtype)
    return group.body.where(keeps, operand, group.body.cast(Constant(0), dtype), dtype)


# --- reading by index ---


def _index_operand(group: Group, value: Value, place: Place, guards: Guards, size: int | None = None) -> Walk:
    """An element of an index tensor, as an index. A negative one counts from the end where `size` is given."""
    operand = yield group.element(value, place, guards)
    operand = group.body.cast(operand, INT64)
    if size is not None and isinstance(operand, str):
        negative = group.body.compute("", "lt", BOOL, [operand, Constant(0)])
        wrapped = group.body.compute("", "add", INT64, [operand, Constant(size)])
        operand = group.body.where(negative, wrapped, operand, INT64)
    return constant(int(operand.value)) if isinstance(operand, Constant) else index_value(operand)


def _gather(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    source, dim, index = node.inputs[:3]
    axis_number = wrap_dim(group.known[dim], group.known[source].rank)
    found = yield _index_operand(group, index, place, guards)
    inner = (*place[:axis_number], found, *place[axis_number + 1 :])
    return (yield group.element(source, inner, guards))


def _index_select(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    source, dim, index = node.inputs
    axis_number = wrap_dim(group.known[dim], group.known[source].rank)
    position = place[axis_number : axis_number + group.known[index].rank]
    found = yield _index_operand(group, index, position, guards)
    return (yield group.element(source, (*place[:axis_number], found, *place[axis_number + 1 :]), guards))


def _embedding(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    weight, indices = node.inputs[:2]
    rank = group.known[indices].rank
    found = yield _index_operand(group, indices, place[:rank], guards)
    return (yield group.element(weight, (found, *place[rank:]), guards))


def _scatter_one(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    """scatter_add of a single slice: the source where the index says so, added to what was there."""
    tensor, dim, index, source = node.inputs[:4]
    number = wrap_dim(group.known[dim], group.known[tensor].rank)
    dtype = register_dtype(group.known[node.output].dtype)
    single = (*place[:number], constant(0), *place[number + 1 :])
    wanted = group.body.cast((yield group.element(index, single, guards)), INT64)
    hit = group.body.compute("", "eq", BOOL, [group.body.position(place[number]), wanted])
    base = yield group.element(tensor, place, guards)
    added = yield group.element(source, single, guards)
    added = as_dtype(group, added, register_dtype(group.known[source].dtype), dtype)
    if isinstance(base, Constant) and base.value == 0:
        return group.body.where(hit, added, base, dtype)
    return group.body.where(hit, group.body.compute("", "add", dtype, [base, added]), base, dtype)


def _scatters_one(node: Node, known: Known) -> bool:
    tensor, dim, index, source = node.inputs[:4]
    found, whole = known.get(index), known.get(tensor)
    if not isinstance(found, Meta) or not isinstance(whole, Meta) or not found.rank:
        return False
    number = wrap_dim(known[dim], found.rank)
    others = [d for d in range(found.rank) if d != number]
    covers = all(found.shape[d] == whole.shape[d] for d in others)
    return found.shape[number] == 1 and known[source].shape == found.shape and covers


# --- making ---


def _filled(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    yield from ()
    arguments = dict(zip([a.name for a in node.schema.arguments], node.inputs, strict=True))  # type: ignore[union-attr]
    dtype = register_dtype(group.known[node.output].dtype)
    name = node.schema.base_name  # type: ignore[union-attr]
    if "fill_value" in arguments or "s" in arguments:
        return group.body.cast(Constant(group.known[arguments.get("fill_value") or arguments["s"]]), dtype)
    return group.body.cast(Constant(1 if "ones" in name else 0), dtype)


def _arange(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    yield from ()
    arguments = {a.name: group.known.get(v) for a, v in zip(node.schema.arguments, node.inputs, strict=True)}  # type: ignore[union-attr]
    start: Number = arguments.get("start") or 0
    step: Number = 1 if arguments.get("step") is None else arguments["step"] or 0
    dtype = register_dtype(group.known[node.output].dtype)
    if isinstance(start, int) and isinstance(step, int):
        return group.body.cast(group.body.position(place[0] * step + start), dtype)
    position = group.body.cast(group.body.position(place[0]), dtype)
    return group.body.compute(
        "", "add", dtype, [group.body.compute("", "mul", dtype, [position, Constant(step)]), Constant(start)]
    )


def _uniform(group: Group, node: Node, which: int, place: Place, guards: Guards) -> Walk:
    yield from ()
    meta = group.known[node.output]
    seed = group.known.get(node.inputs[0])
    operand = Constant(seed) if isinstance(seed, int) else group.number(node.inputs[0])
    counter = constant(0)
    for index, stride in zip(place, contiguous_strides(meta.shape), strict=True):
        counter += index * stride
    drawn = group.body.uniform(node.output.name_hint or "uniform", operand, counter)
    return group.body.cast(drawn, register_dtype(meta.dtype))


def checked(rule: Rule, node: Node, known: Known) -> bool:
    """What a rule asks of a node besides known arguments."""
    check = _CHECKS.get(rule)
    return check is None or check(node, known)


_STRUCTURAL: dict[str, Rule] = {
    "prim::AutogradAdd": _add_gradients,
    "prim::MaterializeGrad": _materialize,
    "prim::unchecked_unwrap_optional": _identity,
    "prim::unchecked_cast": _identity,
    "prim::ListUnpack": _unpacked,
}
_RULES: dict[str, Rule] = {
    **dict.fromkeys(("to", "type_as", "float", "double", "half", "bfloat16"), _cast),
    **dict.fromkeys(("detach", "contiguous", "clone", "positive", "alias"), _identity),
    "__getitem__": _picked,
    "flip": _flip,
    **dict.fromkeys(("repeat", "tile"), _repeat),
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "stack": _stack,
    "add_n": _add_n,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(("tril", "triu"), _triangle),
    **dict.fromkeys(("gather",), _gather),
    "index_select": _index_select,
    "embedding": _embedding,
    "scatter_add": _scatter_one,
    **dict.fromkeys(("zeros", "ones", "full", "zeros_like", "ones_like", "full_like"), _filled),
    **dict.fromkeys(("new_zeros", "new_ones", "new_full", "scalar_tensor"), _filled),
    "arange": _arange,
    "uniform": _uniform,
}
"""By the name of an op; of ops that are pointwise or views, the trait says enough."""
_CHECKS: dict[Rule, Callable[[Node, Known], bool]] = {
    _pad: _pads_with_constant,
    _add_n: _adds_one_dtype,
    _scatter_one: _scatters_one,
    _picked: lambda node, known: isinstance(node.output.type, TensorType),
    # Triton's generator gives the first word of a block.
    _uniform: lambda node, known: known.get(node.inputs[3]) == 0,
}

__all__ = ["Guards", "Place", "Rule", "as_dtype", "axis", "checked", "element_rule", "prod", "unravel"]
