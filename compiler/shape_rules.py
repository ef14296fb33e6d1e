"""Shapes and dtypes of ops' results, by trait where that says it, else by a table.

A dtype follows from evaluating the op on arrays of a single element, since it depends on dtypes and ranks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .dtypes import BY_CODE, DEFAULT_FLOAT, INT64
from .meta import UNKNOWN, Meta, is_known
from .ops.arrays import Array, numpy_dtype
from .ops.dims import axes_of, wrap_dim
from .ops.registry import Op, Trait
from .types import is_tensor

ShapeRule = Callable[[dict[str, Any]], tuple[int, ...]]
"""Arguments by name → the shape of the result."""

DATA_DEPENDENT = frozenset(
    {"nonzero", "masked_select", "unique", "bincount", "repeat_interleave", "narrow", "tensor_split", "item"}
)
"""Ops whose results' shapes depend on elements, where an argument of theirs that says so is a tensor."""


def infer(op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
    """One abstract value per result. Raises what the op raises for arguments that do not fit."""
    count = len(op.schema.returns)
    if op.has(Trait.RANDOM):
        return [_drawn(op, inputs)] if count == 1 else [UNKNOWN] * count
    if not all(map(is_known, inputs)) or _depends_on_elements(op, inputs):
        return [UNKNOWN] * count
    tensors = [value for value in _leaves(inputs) if isinstance(value, Meta)]
    if not tensors and not all(is_tensor(result.type) for result in op.schema.returns):
        return _unpacked(op.evaluate(*map(_copied, inputs)), count)
    if op.has(Trait.SHAPE_ONLY) and not any(is_tensor(_element(result.type)) for result in op.schema.returns):
        return _unpacked(op.evaluate(*map(_stand_in, inputs)), count)
    rule = _rule_of(op, inputs)
    if rule is None:
        return [_abstract(result) for result in _unpacked(_evaluated(op, inputs), count)]
    named = {argument.name: value for argument, value in zip(op.schema.arguments, inputs, strict=True)}
    shape = rule(named)
    return [Meta(shape, _dtype(op, inputs))]


def _drawn(op: Op, inputs: Sequence[Any]) -> Any:
    """The result of a random op, which is not evaluated, for that would draw: like its tensor, or of the size given."""
    named = {argument.name: value for argument, value in zip(op.schema.arguments, inputs, strict=True)}
    like, code = inputs[0] if inputs else UNKNOWN, named.get("dtype")
    if code is UNKNOWN:
        return UNKNOWN
    dtype = None if code is None else BY_CODE[code]
    if isinstance(like, Meta):
        return Meta(like.shape, dtype or like.dtype)
    size = named.get("size")
    if not isinstance(size, list) or not is_known(size):
        return UNKNOWN
    return Meta(tuple(size), dtype or (INT64 if op.schema.base_name == "randint" else DEFAULT_FLOAT))


def _rule_of(op: Op, inputs: Sequence[Any]) -> ShapeRule | None:
    if len(op.schema.returns) != 1:
        return None
    rule = _RULES.get(op.schema.base_name)
    if rule is not None:
        return rule
    if op.has(Trait.POINTWISE):
        return _broadcast
    return None


def _depends_on_elements(op: Op, inputs: Sequence[Any]) -> bool:
    """Whether shapes, or the result itself where it is no tensor, follow from what is in a tensor."""
    tensors = [value for value in _leaves(inputs) if isinstance(value, Meta)]
    if not tensors:
        return False
    if op.has(Trait.SHAPE_ONLY):
        return False
    if not all(is_tensor(_element(result.type)) for result in op.schema.returns):
        return not _is_list_op(op)
    name = op.schema.base_name
    if name in ("index", "index_put"):
        return name == "index" and any(t.dtype.name in ("bool", "uint8") for t in tensors[1:])
    return name in DATA_DEPENDENT and (len(tensors) > 1 or name in ("nonzero", "unique", "bincount"))


def _element(type: Any) -> Any:
    while hasattr(type, "element"):
        type = type.element
    return type


def _is_list_op(op: Op) -> bool:
    """Whether an op only moves its arguments about: its result is of a type that one of them has."""
    return any(str(_element(result.type)) == "t" for result in op.schema.returns) or op.schema.base_name == "len"


def _leaves(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    pending = list(reversed(values))
    while pending:
        value = pending.pop()
        if isinstance(value, list | tuple):
            pending += reversed(value)
        else:
            found.append(value)
    return found


def _copied(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value


def _unpacked(result: Any, count: int) -> Sequence[Any]:
    return list(result) if count != 1 and isinstance(result, tuple) else [result]


# --- evaluation on stand-ins ---


def _stand_in(value: Any) -> Any:
    """An array of ones that shares one element, for a Meta."""
    if isinstance(value, Meta):
        return np.broadcast_to(np.ones((), numpy_dtype(value.dtype)), value.shape)
    if isinstance(value, list | tuple):
        return type(value)(map(_stand_in, value))
    return value


def _evaluated(op: Op, inputs: Sequence[Any]) -> Any:
    with np.errstate(all="ignore"):
        return op.evaluate(*map(_stand_in, inputs))


def _abstract(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return Meta.of(value)
    if isinstance(value, np.generic):
        return Meta.of(np.asarray(value))
    return type(value)(map(_abstract, value)) if isinstance(value, list | tuple) else value


def _tiny(value: Any) -> Any:
    """As `_stand_in`, with sizes of 1."""
    if isinstance(value, Meta):
        return np.ones((1,) * value.rank, numpy_dtype(value.dtype))
    if isinstance(value, list | tuple):
        return type(value)(map(_tiny, value))
    return value


def _dtype(op: Op, inputs: Sequence[Any]) -> Any:
    known = _DTYPES.get(op.schema.base_name)
    if known is not None:
        return known({argument.name: value for argument, value in zip(op.schema.arguments, inputs, strict=True)})
    try:
        with np.errstate(all="ignore"):
            result: Array = op.evaluate(*map(_tiny, inputs))
    except Exception:
        # Sizes or indices among the arguments that a single element does not have.
        result = _evaluated(op, inputs)
    return Meta.of(np.asarray(result)).dtype


# --- rules ---


def _broadcast(arguments: dict[str, Any]) -> tuple[int, ...]:
    shapes = [value.shape for value in arguments.values() if isinstance(value, Meta)]
    return tuple(np.broadcast_shapes(*shapes))


def _reduced(arguments: dict[str, Any]) -> tuple[int, ...]:
    """A reduction over `dim`, by default all, which `keepdim` keeps as 1."""
    shape = arguments["self"].shape
    dim = arguments.get("dim")
    axes = axes_of(dim, len(shape))
    if arguments.get("keepdim", False):
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _matmul(arguments: dict[str, Any]) -> tuple[int, ...]:
    left, right = (value.shape for value in arguments.values() if isinstance(value, Meta))
    if not left or not right:
        raise ValueError("both arguments to matmul need to be at least 1-D")
    rows = left[-2:-1]
    columns = right[-1:] if len(right) > 1 else ()
    if left[-1] != right[max(len(right) - 2, 0)]:
        raise ValueError(f"shapes {list(left)} and {list(right)} cannot be multiplied")
    return (*np.broadcast_shapes(left[:-2], right[:-2]), *rows, *columns)


def _linear(arguments: dict[str, Any]) -> tuple[int, ...]:
    input, weight = arguments["input"].shape, arguments["weight"].shape
    if input[-1:] != weight[-1:]:
        raise ValueError(f"an input of shape {list(input)} does not fit a weight of shape {list(weight)}")
    return (*input[:-1], *weight[:-1])


def _addmm(arguments: dict[str, Any]) -> tuple[int, ...]:
    return (arguments["mat1"].shape[0], arguments["mat2"].shape[1])


def _cat(arguments: dict[str, Any]) -> tuple[int, ...]:
    shapes = [tensor.shape for tensor in arguments["tensors"] if tensor.shape != (0,)]
    if not shapes:
        return (0,)
    axis = wrap_dim(arguments.get("dim", 0), len(shapes[0]))
    for shape in shapes:
        if shape[:axis] + shape[axis + 1 :] != shapes[0][:axis] + shapes[0][axis + 1 :]:
            raise ValueError(f"tensors of shapes {[list(s) for s in shapes]} cannot be put together along {axis}")
    return (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def _stack(arguments: dict[str, Any]) -> tuple[int, ...]:
    tensors = arguments["tensors"]
    if any(tensor.shape != tensors[0].shape for tensor in tensors):
        raise ValueError("stack expects each tensor to be equal size")
    axis = wrap_dim(arguments.get("dim", 0), tensors[0].rank + 1)
    shape = tensors[0].shape
    return (*shape[:axis], len(tensors), *shape[axis:])


def _index_select(arguments: dict[str, Any]) -> tuple[int, ...]:
    shape, index = arguments["self"].shape, arguments["index"]
    axis = wrap_dim(arguments["dim"], len(shape))
    return (*shape[:axis], *(index.shape or (1,)), *shape[axis + 1 :])


def _like(name: str) -> ShapeRule:
    return lambda arguments: arguments[name].shape


def _sized(arguments: dict[str, Any]) -> tuple[int, ...]:
    return tuple(arguments["size"])


def _sum_to_size(arguments: dict[str, Any]) -> tuple[int, ...]:
    shape, size = arguments["self"].shape, arguments["size"]
    if size is None:
        return tuple(shape)
    if tuple(np.broadcast_shapes(tuple(size), shape)) != tuple(shape):
        raise ValueError(f"size {list(size)} is not expandable to the shape {list(shape)} of the tensor")
    return tuple(size)


def _embedding(arguments: dict[str, Any]) -> tuple[int, ...]:
    return (*arguments["indices"].shape, *arguments["weight"].shape[1:])


_RULES: dict[str, ShapeRule] = {
    **dict.fromkeys(
        ("sum", "mean", "nansum", "nanmean", "logsumexp", "amax", "amin", "argmax", "argmin", "any", "all"), _reduced
    ),
    **dict.fromkeys(("var", "std", "count_nonzero", "linalg_vector_norm"), _reduced),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), _matmul),
    "linear": _linear,
    "addmm": _addmm,
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "stack": _stack,
    "index_select": _index_select,
    "gather": _like("index"),
    "embedding": _embedding,
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"), _like("self")),
    **dict.fromkeys(("zeros", "ones", "full", "empty"), _sized),
    **dict.fromkeys(("softmax", "log_softmax", "_softmax", "_log_softmax"), _like("self")),
    **dict.fromkeys(("cumsum", "cumprod", "tril", "triu", "flip", "roll", "clone", "contiguous"), _like("self")),
    **dict.fromkeys(("scatter_add", "index_add", "index_copy", "masked_fill", "index_put"), _like("self")),
    **dict.fromkeys(("to", "type_as", "float", "double", "half", "bfloat16"), _like("self")),
    "sum_to_size": _sum_to_size,
    "_grad_sum_to_size": _sum_to_size,
}


def _given_dtype(arguments: dict[str, Any]) -> Any:
    code = arguments.get("dtype")
    if code is not None:
        return BY_CODE[code]
    like = arguments.get("self")
    return like.dtype if isinstance(like, Meta) else DEFAULT_FLOAT


_DTYPES: dict[str, Callable[[dict[str, Any]], Any]] = {
    # Evaluated on single elements, these would ask for sizes or indices that a single element does not have.
    **dict.fromkeys(("zeros", "ones", "empty", "zeros_like", "ones_like", "empty_like", "full_like"), _given_dtype),
    **dict.fromkeys(("gather", "index_select", "scatter_add", "index_add", "index_copy"), lambda a: a["self"].dtype),
    "embedding": lambda a: a["weight"].dtype,
    "sum_to_size": lambda a: a["self"].dtype if a["self"].dtype.is_floating else INT64,
    "_grad_sum_to_size": lambda a: a["self"].dtype,
}
