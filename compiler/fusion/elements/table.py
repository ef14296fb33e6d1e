"""What one element of a node's result is, given where it stands: the rules by which nodes are drawn into kernels.

    element (i, j) of aten::t(%x)             element (j, i) of %x
    element (i, j) of aten::exp(%x)           exp of element (i, j) of %x
    element (i, j) of aten::cat([%a, %b], 1)  element (i, j) of %a if j < 3, else element (i, j - 3) of %b

So there is no copy of a view, and no order of loops to decide on: a kernel asks for the elements that it stores. Rules
are walks: they yield the walks that find the elements they need, and nothing recurses with the length of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.node import Node
from ...ops.elementwise import Pointwise
from ...ops.meta import Meta, is_known
from ...ops.registry import OPS, Op, Trait
from ...types.dtypes import FLOAT32, FLOAT64, DType
from ...types.types import FLOAT, TensorType
from .joins import (
    add_n,
    adds_one_dtype,
    cat,
    joins_few_or_computed,
    padded_element,
    pads_with_constant,
    select_scatter,
    slice_scatter,
    stack,
    stacks_few,
    triangle,
)
from .pointwise import add_gradients, cast_element, materialized, pointwise_element, pointwise_fits, same_element
from .reads import (
    arange,
    counts_classes,
    embedding,
    eye,
    filled_element,
    gathered_element,
    index_select,
    is_no_less_than_empty,
    is_one_number,
    one,
    one_hot,
    reads_by_integers,
    scattered,
    scatters_few,
    subscripted,
    subscripts_integers,
    uniform,
)
from .rule import ElementReader, KnownFacts
from .views import broadcast_element, flip, is_view, picked, repeat, unpacked, view


def element_rule(node: Node, known: KnownFacts, supports: Callable[[str, DType], bool]) -> ElementReader | None:
    """The rule for a node; None where it cannot be part of a kernel."""
    if not all(_is_settled(known.get(value)) for value in node.outputs):
        return None
    if node.kind in _STRUCTURAL:
        return _STRUCTURAL[node.kind]
    op = OPS.of(node.schema)
    if op is None:
        return None
    if op.has(Trait.POINTWISE) and isinstance(op.scalar, Pointwise):
        return pointwise_element if pointwise_fits(node, known, supports) else None
    rule = _RULES_OF_KINDS.get(node.kind) or _RULES.get(op.schema.base_name)
    if rule is not None:
        return (
            rule if _arguments_known(node, known, given=_given(node, known) if rule is filled_element else ()) else None
        )
    if op.has(Trait.VIEW) and _arguments_known(node, known):
        return view if is_view(node, known) else None
    return None


def has_element_rule(op: Op) -> bool:
    """Whether there is a rule for such an op, whatever else it asks of a node."""
    return op.schema.base_name in _RULES


def _is_settled(known: Any) -> bool:
    return isinstance(known, Meta) or (isinstance(known, list | tuple) and all(isinstance(k, Meta) for k in known))


def _arguments_known(node: Node, known: KnownFacts, given: Sequence[str] = ()) -> bool:
    """Whether all arguments but tensors are known. A seed is a number like any other, given when a kernel runs, as are
    those whose names are `given`."""
    assert node.schema is not None
    pairs = zip(node.schema.arguments, node.inputs, strict=True)
    return all(is_known(known.get(value)) or argument.name in ("seed", *given) for argument, value in pairs)


def _given(node: Node, known: KnownFacts) -> Sequence[str]:
    """Numbers that a tensor may be full of without being known: such as fit it whatever they are."""
    found = known.get(node.output)
    fits = isinstance(found, Meta) and found.dtype in (FLOAT32, FLOAT64)
    pairs = zip(node.schema.arguments, node.inputs, strict=True)  # type: ignore[union-attr]
    return [a.name for a, value in pairs if fits and a.name in ("fill_value", "s") and value.type == FLOAT]


def suits_rule(rule: ElementReader, node: Node, known: KnownFacts) -> bool:
    """What a rule asks of a node besides known arguments."""
    check = _CHECKS.get(rule)
    return check is None or check(node, known)


_STRUCTURAL: dict[str, ElementReader] = {
    "prim::AutogradAdd": add_gradients,
    "prim::MaterializeGrad": materialized,
    "prim::unchecked_unwrap_optional": same_element,
    "prim::unchecked_cast": same_element,
    "prim::ListUnpack": unpacked,
}
_RULES: dict[str, ElementReader] = {
    **dict.fromkeys(("to", "type_as", "_updated", "float", "double", "half", "bfloat16"), cast_element),
    **dict.fromkeys(("detach", "_unrecorded_view", "contiguous", "clone", "positive", "alias"), same_element),
    "__getitem__": picked,
    "broadcast_tensors": broadcast_element,
    "flip": flip,
    **dict.fromkeys(("repeat", "tile"), repeat),
    **dict.fromkeys(("cat", "concat", "concatenate"), cat),
    "stack": stack,
    "add_n": add_n,
    "slice_scatter": slice_scatter,
    "select_scatter": select_scatter,
    **dict.fromkeys(("pad", "constant_pad_nd"), padded_element),
    **dict.fromkeys(("tril", "triu"), triangle),
    **dict.fromkeys(("gather",), gathered_element),
    "index_select": index_select,
    "embedding": embedding,
    "scatter_add": scattered,
    **dict.fromkeys(("zeros", "ones", "full", "zeros_like", "ones_like", "full_like"), filled_element),
    **dict.fromkeys(("new_zeros", "new_ones", "new_full", "scalar_tensor"), filled_element),
    "scalar_seed": one,
    "arange": arange,
    "eye": eye,
    "one_hot": one_hot,
    "uniform": uniform,
}
"""By the name of an op; of ops that are pointwise or views, the trait says enough."""
_RULES_OF_KINDS: dict[str, ElementReader] = {
    "aten::index.Tensor": subscripted,
    **dict.fromkeys(("aten::scatter.src", "aten::scatter.value"), scattered),
}
"""By the kind of a node: it depends on what is given whether there is a rule at all, so that loops stay."""
_CHECKS: dict[ElementReader, Callable[[Node, KnownFacts], bool]] = {
    padded_element: pads_with_constant,
    add_n: adds_one_dtype,
    cat: joins_few_or_computed,
    stack: stacks_few,
    **dict.fromkeys((gathered_element, index_select, embedding), reads_by_integers),
    subscripted: subscripts_integers,
    scattered: scatters_few,
    one: is_one_number,
    one_hot: counts_classes,
    eye: is_no_less_than_empty,
    picked: lambda node, known: isinstance(node.output.type, TensorType),
    # Kernels draw from the first subsequence.
    uniform: lambda node, known: known.get(node.inputs[3]) == 0,
}
