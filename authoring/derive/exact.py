"""A graph in the precision of float128: 113 bits, by mpmath.

Each floating tensor is held twice: in float64, which shapes, masks and branches are decided by, and as an array of
mpmath's numbers. Pointwise ops are computed by their scalar expressions, and what moves elements moves both; sums and
matrix products are written here. What else there is in a graph is beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...compiler.ir.graph import Graph
from ...compiler.ir.kinds import is_loop
from ...compiler.ir.node import Block, Node, Value
from ...compiler.ops.arrays import Array
from ...compiler.ops.elementwise import Pointwise
from ...compiler.ops.registry import OPS, Op, Trait
from ...compiler.ops.scalar import CONSTANT, PARAMETER, linearize
from ...lang.light_dataclasses import dataclass
from .exact_numbers import NotExact, number_context, on_arrays, primitives

_DEEPEST = 40
"""Blocks in each other."""


@dataclass(frozen=True, slots=True)
class Exact:
    """A floating tensor: near it, and in 113 bits."""

    near: Array
    numbers: Any


def exact(array: Array) -> Exact:
    """An array of float64 as it is."""
    return Exact(array, on_arrays(number_context().mpf, 1)(array))


def evaluate_exactly(graph: Graph, arguments: Sequence[Any]) -> list[Any]:
    """What a graph gives for arguments, whose floating tensors are `Exact`. NotExact where something is beyond this."""
    run = _Run(graph)
    run.values.update(zip(graph.inputs, arguments, strict=True))
    with np.errstate(all="ignore"):
        return run.block(graph.body, 0)


class _Run:
    """The values of one graph while it runs."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.values: dict[Value, Any] = {}

    def block(self, block: Block, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise NotExact("blocks in each other")
        for node in block.nodes:
            results = self._results(node, [self.values.get(value) for value in node.inputs], depth)
            self.values.update(zip(node.outputs, results, strict=True))
        return [self.values[value] for value in block.outputs]

    def _results(self, node: Node, inputs: list[Any], depth: int) -> list[Any]:
        if node.kind == "prim::Constant":
            return [node.attr("value")]
        if node.kind == "prim::If":
            return self.block(node.blocks[0 if inputs[0] else 1], depth + 1)
        if is_loop(node):
            return self._loop(node, inputs, depth)
        if node.kind in _STRUCTURE:
            return _STRUCTURE[node.kind](inputs)
        if node.kind == "prim::CallFunction":
            callee = self._graph.functions[node.attr("callee")].graph.without_closure()
            run = _Run(callee)
            run.values.update(zip(callee.inputs, inputs, strict=True))
            return run.block(callee.body, depth + 1)
        op = OPS.of(node.schema)
        if op is None or op.traits & (Trait.RANDOM | Trait.SIDE_EFFECT):
            raise NotExact(node.kind)
        found = _apply(op, inputs)
        return list(found) if len(node.outputs) != 1 else [found]

    def _loop(self, node: Node, inputs: list[Any], depth: int) -> list[Any]:
        trips, proceed, *carried = inputs
        (block,) = node.blocks
        for i in range(trips):
            if not proceed:
                break
            self.values.update(zip(block.inputs, [i, *carried], strict=True))
            proceed, *carried = self.block(block, depth + 1)
        return carried


_STRUCTURE: dict[str, Callable[[list[Any]], list[Any]]] = {
    "prim::TupleConstruct": lambda inputs: [tuple(inputs)],
    "prim::ListConstruct": lambda inputs: [list(inputs)],
    "prim::TupleUnpack": lambda inputs: list(inputs[0]),
    "prim::ListUnpack": lambda inputs: list(inputs[0]),
    "prim::unchecked_cast": lambda inputs: [inputs[0]],
    "prim::unchecked_unwrap_optional": lambda inputs: [inputs[0]],
    "prim::Uninitialized": lambda inputs: [None],
}


# --- ops ---


def _apply(op: Op, inputs: list[Any]) -> Any:
    """One op, on both sides of the values that it takes."""
    if any(isinstance(value, list) and any(isinstance(item, Exact) for item in value) for value in inputs):
        return _of_list(op, inputs)
    near = op.evaluate(*(value.near if isinstance(value, Exact) else value for value in inputs))
    if not isinstance(near, np.ndarray | np.generic) or near.dtype.kind != "f":
        if isinstance(near, tuple | list) and any(isinstance(item, np.ndarray) for item in near):
            raise NotExact(op.schema.full_name)
        return near
    array = np.asarray(near)
    if isinstance(op.scalar, Pointwise):
        return Exact(array, np.broadcast_to(_pointwise(op.scalar, inputs), array.shape))
    tensors = [value for value in inputs if isinstance(value, Exact)]
    name = op.schema.base_name
    if name in _WRITTEN:
        return Exact(array, _WRITTEN[name](array, *inputs))
    if not tensors or name in _FILLED:
        return exact(array)
    if (op.has(Trait.VIEW) and len(tensors) == 1) or name in _MOVING:
        return Exact(array, _moved(op, inputs, tensors))
    raise NotExact(op.schema.full_name)


def _of_list(op: Op, inputs: list[Any]) -> Any:
    """What hands elements on; of tensors in lists, nothing is computed here."""
    if op.schema.base_name not in _LISTS:
        raise NotExact(op.schema.full_name)
    return op.evaluate(*inputs)


def _moved(op: Op, inputs: list[Any], tensors: Sequence[Exact]) -> Any:
    """The numbers from where the op takes each element, of all its tensors in a row."""
    ends = np.cumsum([0, *(tensor.near.size for tensor in tensors)])
    starts = {id(tensor): start for tensor, start in zip(tensors, ends[:-1], strict=True)}
    places = [_places(value, starts[id(value)]) if isinstance(value, Exact) else value for value in inputs]
    taken = np.asarray(op.evaluate(*places)).astype(np.int64)
    return np.concatenate([tensor.numbers.reshape(-1) for tensor in tensors])[taken]


def _places(tensor: Exact, start: int) -> Array:
    return np.arange(start, start + tensor.near.size, dtype=np.float64).reshape(tensor.near.shape)


def _pointwise(scalar: Pointwise, inputs: list[Any]) -> Any:
    arguments = [value.near if isinstance(value, Exact) else value for value in inputs]
    arguments += scalar.defaults[len(arguments) :]
    values: list[Any] = []
    for step in linearize(scalar.expression(arguments)):
        if step.op == PARAMETER:
            values.append(_operand(inputs[step.value] if step.value < len(inputs) else arguments[step.value]))
        elif step.op == CONSTANT:
            values.append(_operand(step.value))
        elif step.op in primitives():
            values.append(primitives()[step.op](*(values[i] for i in step.operands)))
        else:
            raise NotExact(step.op)
    return values[-1]


def _operand(value: Any) -> Any:
    """Tensors and numbers as mpmath's, masks as bools."""
    if isinstance(value, Exact):
        return value.numbers
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind == "b" else exact(array.astype(np.float64)).numbers


# --- what is not pointwise ---


def _summed(near: Array, input: Any, *rest: Any) -> Any:
    """The sum down to a shape: of the numbers that stand above each of its elements."""
    tensor = input if isinstance(input, Exact) else exact(np.asarray(input, np.float64))
    axes = _axes(tensor.near, rest[0] if rest else None)
    total = tensor.numbers.sum(axis=axes, keepdims=True) if axes else tensor.numbers
    return np.asarray(total, object).reshape(near.shape)


def _axes(near: Array, dims: Any) -> tuple[int, ...]:
    every = tuple(range(near.ndim))
    if dims is None or dims == []:
        return every
    return tuple(dim % max(near.ndim, 1) for dim in (dims if isinstance(dims, list) else [dims])) if near.ndim else ()


def _averaged(near: Array, input: Any, *rest: Any) -> Any:
    count = input.near.size // max(near.size, 1)
    return _summed(near, input, *rest) / number_context().mpf(count)


def _fitted(near: Array, input: Any, size: list[int] | None) -> Any:
    """sum_to_size; of what was written to a place, which may have had more dimensions."""
    size = list(near.shape) if size is None else size[max(len(size) - input.near.ndim, 0) :]
    missing = input.near.ndim - len(size)
    axes = [
        *range(missing),
        *(i + missing for i, n in enumerate(size) if n == 1 and input.near.shape[i + missing] != 1),
    ]
    total = input.numbers.sum(axis=tuple(axes), keepdims=True) if axes else input.numbers
    return np.asarray(total, object).reshape(near.shape)


def _multiplied(near: Array, left: Any, right: Any) -> Any:
    return np.asarray(np.matmul(left.numbers, right.numbers), object).reshape(near.shape)


def _converted(near: Array, input: Any, *rest: Any) -> Any:
    """From one dtype to another."""
    return input.numbers if isinstance(input, Exact) else exact(near).numbers


def _largest(near: Array, input: Any, *rest: Any) -> Any:
    total = input.numbers.max(axis=_axes(input.near, rest[0] if rest else None), keepdims=True)
    return np.asarray(total, object).reshape(near.shape)


def _smallest(near: Array, input: Any, *rest: Any) -> Any:
    total = input.numbers.min(axis=_axes(input.near, rest[0] if rest else None), keepdims=True)
    return np.asarray(total, object).reshape(near.shape)


def _softmax(near: Array, input: Any, dim: int, *rest: Any) -> Any:
    axes = _axes(input.near, dim)
    raised = on_arrays(number_context().exp, 1)(input.numbers - input.numbers.max(axis=axes, keepdims=True))
    return raised / raised.sum(axis=axes, keepdims=True)


def _log_softmax(near: Array, input: Any, dim: int, *rest: Any) -> Any:
    return on_arrays(number_context().log, 1)(_softmax(near, input, dim))


def _softmax_backward(near: Array, grad: Any, output: Any, dim: int, *rest: Any) -> Any:
    along = (grad.numbers * output.numbers).sum(axis=_axes(near, dim), keepdims=True)
    return output.numbers * (grad.numbers - along)


def _log_softmax_backward(near: Array, grad: Any, output: Any, dim: int, *rest: Any) -> Any:
    along = grad.numbers.sum(axis=_axes(near, dim), keepdims=True)
    return grad.numbers - on_arrays(number_context().exp, 1)(output.numbers) * along


_WRITTEN: dict[str, Callable[..., Any]] = {
    "sum": _summed,
    "mean": _averaged,
    "amax": _largest,
    "amin": _smallest,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "sum_to_size": _fitted,
    "_grad_sum_to_size": _fitted,
    "matmul": _multiplied,
    "mm": _multiplied,
    "bmm": _multiplied,
    "to": _converted,
    "type_as": _converted,
    "detach": _converted,
    "clone": _converted,
    "contiguous": _converted,
}
"""By the op's name: its numbers, given what it is near to and its arguments."""
_MOVING = frozenset(
    ("slice_scatter", "select_scatter", "scatter", "index_copy", "gather", "index_select", "masked_select")
)
"""What has elements of its tensors and no others."""
_LISTS = frozenset(("len", "__getitem__", "append", "copy", "reverse", "extend", "insert", "list"))
_FILLED = frozenset(("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"))
"""What has a tensor's shape and dtype, and nothing of its elements."""
