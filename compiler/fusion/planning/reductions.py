"""What a node reduces, and how: the reductions that kernels know, from the ops that ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from ....lang.light_dataclasses import dataclass, replace
from ...ir.node import Node, Value
from ...kernel_ir.kernel import POSITIONS, Combine
from ...ops.dims import axes_of
from ...ops.meta import Meta, is_known
from ...ops.registry import Op
from ...types.dtypes import BOOL, FLOAT32, INT64, DType

MIN_ROWS = 32
MAX_COLUMNS = 16_384
"""A reduction of fewer rows, each longer than that, is shared among programs."""
MOST_CACHED = 1 << 17
"""Points of a row that the cache of one processor holds while a program goes over it again and again."""
SHORT_RUN = 8
"""Elements side by side at least of a block that a program reduces: what is worth reading from one place."""
SIDE_BY_SIDE = 8192
MAX_HEIGHT, LOW = 1024, 256
"""Columns that programs reduce some side by side, each from top to bottom: the fewest, for which each program's stay in
a cache up to a height; lower ones however few they are."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A node that combines the elements of `operand` over the dimensions `dims`, none of which has size 1.

    `kept[d]` is the dimension of the operand that dimension d of the result runs along, None where it has size 1 and
    stands for none. `divisor` is what a mean divides by. A sum is taken `times` over: dimensions along which all
    elements are one are not among `dims`.
    """

    operand: Value
    combine: Combine
    dims: tuple[int, ...]
    kept: tuple[int | None, ...]
    accumulate: DType
    divisor: int | None = None
    times: int = 1
    copies: bool = False
    """Whether a sum of one element is that element: another adds it to 0, where it is not zero's sign that counts."""
    stacked: tuple[int, ...] = ()
    """Dimensions that are none of `dims`, for a kernel goes over them wherever an element of the result is needed."""

    @property
    def is_copy(self) -> bool:
        """Whether the result has the elements of the operand."""
        return not self.dims and not self.stacked


def is_reduction(op: Op) -> bool:
    """Whether kernels know an op as a reduction, whatever its arguments are."""
    return op.schema.base_name in _RULES


def reduction_of(node: Node, known: Mapping[Value, Any]) -> Reduction | None:
    """The reduction that a node is; None for any other node, and where sizes are not known."""
    rule = _RULES.get(node.schema.base_name) if node.schema is not None else None
    if rule is None or len(node.outputs) != 1:
        return None
    arguments = {a.name: known.get(v) for a, v in zip(node.schema.arguments, node.inputs, strict=True)}  # type: ignore[union-attr]
    operand, result = known.get(node.inputs[0]), known.get(node.output)
    if not isinstance(operand, Meta) or not isinstance(result, Meta):
        return None
    if not all(is_known(value) for value in arguments.values() if not isinstance(value, Meta)):
        return None
    return rule(node, arguments, operand, result)


def is_of_rows(shape: tuple[int, ...], dims: Sequence[int], few: int = 0) -> bool:
    """Whether a reduction is one of rows: over the last dimensions, and with work for each row.

    Of rows that a cache holds, `few` are enough; with 0 none are.
    """
    real = [d for d, size in enumerate(shape) if size != 1]
    if list(dims) != real[len(real) - len(dims) :]:
        return False
    columns = prod(shape[d] for d in dims)
    rows = prod(shape[d] for d in real if d not in dims)
    return columns <= MAX_COLUMNS or rows >= MIN_ROWS or (0 < few <= rows and columns <= MOST_CACHED)


def is_of_columns(shape: tuple[int, ...], dims: Sequence[int], of_batches: int) -> bool:
    """Whether a program may reduce columns whole: over dimensions that follow each other, before others along which
    elements lie side by side.

    Batches have many sizes, so the height of columns over the first dimension decides nothing: there are to be
    `of_batches` at least, or none where that is 0.
    """
    real = [d for d, size in enumerate(shape) if size != 1]
    if not dims or list(dims) != real[real.index(dims[0]) :][: len(dims)] or dims[-1] == real[-1]:
        return False
    if dims[0] == 0:
        return prod(shape[d] for d in real if d not in dims) >= of_batches > 0
    height = prod(shape[d] for d in dims)
    if height <= LOW:
        return True
    return height <= MAX_HEIGHT and prod(shape[d] for d in real if d not in dims) >= SIDE_BY_SIDE


def is_of_blocks(shape: tuple[int, ...], dims: Sequence[int]) -> bool:
    """Whether a program may reduce blocks whole: short runs side by side, and several of them one after the other, as
    of a matrix that is scaled block by block, or a channel of all images of a batch."""
    real = [d for d, size in enumerate(shape) if size != 1]
    if not dims or dims[-1] != real[-1] or len(dims) == len(real):
        return False
    run = prod(shape[d] for d in dims if all(later in dims for later in real if later > d))
    # Batches have many sizes, so that of blocks over the first dimension decides nothing.
    if run < SHORT_RUN or (dims[0] != 0 and prod(shape[d] for d in dims) > MAX_COLUMNS):
        return False
    return prod(shape[d] for d in real if d not in dims) >= MIN_ROWS


def _over(combine: Combine) -> Callable[[Node, Mapping[str, Any], Meta, Meta], Reduction | None]:
    """A reduction over the argument `dim`, by default all dimensions, which `keepdim` keeps as 1."""

    def rule(node: Node, arguments: Mapping[str, Any], operand: Meta, result: Meta) -> Reduction | None:
        dims = axes_of(arguments.get("dim"), operand.rank)
        if combine in POSITIONS and len(dims) != 1:
            return None
        keeps = bool(arguments.get("keepdim", False))
        kept = [None if d in dims else d for d in range(operand.rank) if keeps or d not in dims]
        if tuple([1 if d is None else operand.shape[d] for d in kept]) != result.shape:
            # Such as `x.all([])`, which reduces nothing.
            return None
        divisor = prod(operand.shape[d] for d in dims) if node.kind.startswith("aten::mean") else None
        return _reduction(node.inputs[0], combine, dims, kept, operand, result, divisor)

    return rule


def _to_size(node: Node, arguments: Mapping[str, Any], operand: Meta, result: Meta) -> Reduction | None:
    """A sum over what a broadcast from the result's shape to the operand's made several of."""
    extra = operand.rank - result.rank
    dims = [d for d in range(operand.rank) if d < extra or result.shape[d - extra] != operand.shape[d]]
    # What was written to a place may have had more dimensions, of one.
    kept = [None if d < 0 or d in dims else d for d in range(extra, operand.rank)]
    found = _reduction(node.inputs[0], "sum", dims, kept, operand, result, None)
    return replace(found, copies=operand.rank == result.rank)


def _reduction(
    value: Value,
    combine: Combine,
    dims: Sequence[int],
    kept: Sequence[int | None],
    operand: Meta,
    result: Meta,
    divisor: int | None,
) -> Reduction:
    real = tuple(d for d in dims if operand.shape[d] != 1)
    if operand.dtype == BOOL:
        combine = _OF_BOOLS.get(combine, combine)
    return Reduction(value, combine, real, tuple(kept), _accumulator(combine, result.dtype), divisor)


def _accumulator(combine: Combine, result: DType) -> DType:
    if combine in ("any", "all"):
        return BOOL
    if combine in POSITIONS:
        return INT64
    return FLOAT32 if result.is_half else result


_OF_BOOLS: dict[Combine, Combine] = {"max": "any", "min": "all"}
"""What a reduction of truths is called."""
_RULES: dict[str, Callable[[Node, Mapping[str, Any], Meta, Meta], Reduction | None]] = {
    "sum": _over("sum"),
    "mean": _over("sum"),
    "prod": _over("prod"),
    "amax": _over("max"),
    "amin": _over("min"),
    "any": _over("any"),
    "all": _over("all"),
    "argmax": _over("argmax"),
    "argmin": _over("argmin"),
    "sum_to_size": _to_size,
    "_grad_sum_to_size": _to_size,
}
