"""Shapes of what makes tensors, rearranges, joins, indexes and scatters. Views need no rule: they are taken."""

from __future__ import annotations

from math import prod

from ..ops.dims import wrap_dim, wrap_dims
from ..ops.families.creation import arange_length
from ..ops.meta import Meta
from ..types.dtypes import BY_CODE
from .rules import (
    Arguments,
    Shape,
    all_broadcast,
    broadcast,
    replaced,
    same,
    shape_of,
    sized,
    undecided,
)

_NUMBERS = ("bool", "int", "float", "number")

# --- made from numbers ---

shape_of("zeros", "ones", "empty", "full", "uniform", "random_bits")(sized("size"))
shape_of("new_zeros", "new_ones", "new_empty", "new_full")(sized("size"))
shape_of("zeros_like", "ones_like", "empty_like", "full_like", "fill", "zero", "copy")(same("self"))
shape_of("to", "type_as", "float", "double", "half", "bfloat16", "int", "long", "short", "bool")(same("self"))
shape_of("byte", "char")(same("self"))
shape_of("_replaced")(same("old"))
shape_of("_autocast_to_full_precision", "_autocast_to_reduced_precision")(same("self"))
shape_of("clone", "contiguous", "detach", "roll", "flip", "fliplr", "flipud")(same("self"))


shape_of("add_n")(all_broadcast)


@shape_of("_updated")
def updated(a: Arguments) -> Shape:
    """A write does not change the shape of what is written."""
    new, old = a.shape("new"), a.shape("old")
    if new != old:
        raise RuntimeError(f"output with shape {list(old)} doesn't match the broadcast shape {list(new)}")
    return old


@shape_of("arange")
def arange(a: Arguments) -> Shape:
    return (arange_length(a.get("start", 0), a["end"], a.get("step", 1), a["dtype"]),)


@shape_of("linspace", "logspace")
def linspace(a: Arguments) -> Shape:
    return (a["steps"],)


@shape_of("eye")
def eye(a: Arguments) -> Shape:
    return a["n"], a.get("m", a["n"])


@shape_of("tril_indices", "triu_indices")
def triangle_indices(a: Arguments) -> Shape:
    """One column for each element of the triangle."""
    rows, columns, offset = a["row"], a["col"], a["offset"]
    lower = sum(min(max(row + offset + 1, 0), columns) for row in range(rows))
    if a.op.schema.base_name == "tril_indices":
        return 2, lower
    return 2, rows * columns - sum(min(max(row + offset, 0), columns) for row in range(rows))


@shape_of("scalar_tensor", *(f"{name}.{kind}" for name in ("tensor", "as_tensor") for kind in _NUMBERS))
def number(a: Arguments) -> Shape:
    return ()


shape_of("scalar_seed")(same("output"))
shape_of("as_tensor")(same("data"))


@shape_of("tensor", "as_tensor.list", "_index_tensor")
def nested(a: Arguments) -> Shape:
    """As the lists nest."""
    sizes: list[int] = []
    data = a[a.op.schema.arguments[0].name]
    while isinstance(data, list):
        sizes.append(len(data))
        data = data[0] if data else None
    if isinstance(data, Meta):
        return (*sizes, *data.shape)
    return tuple(sizes)


@shape_of("_dim_arange")
def dim_arange(a: Arguments) -> Shape:
    shape = a.shape("like")
    return (shape[wrap_dim(a["dim"], len(shape))],)


@shape_of("view.dtype")
def view_dtype(a: Arguments) -> Shape:
    tensor, size = a.tensor("self"), BY_CODE[a["dtype"]].itemsize
    if size == tensor.dtype.itemsize:
        return tensor.shape
    total = tensor.shape[-1] * tensor.dtype.itemsize
    if total % size:
        raise RuntimeError(f"view: {total} bytes in a row do not make elements of {size} bytes")
    return (*tensor.shape[:-1], total // size)


# --- joined and repeated ---


def joined(shapes: list[Shape], dim: int) -> Shape:
    """Along one dimension; empty vectors join anything."""
    if not shapes:
        raise RuntimeError("expected a non-empty list of tensors")
    kept = [shape for shape in shapes if shape != (0,)]
    if not kept:
        return (0,)
    axis = wrap_dim(dim, len(kept[0]))
    if any(replaced(shape, axis) != replaced(kept[0], axis) for shape in kept):
        raise RuntimeError(f"tensors of shapes {[list(s) for s in shapes]} cannot be joined along dimension {dim}")
    return replaced(kept[0], axis, sum(shape[axis] for shape in kept))


def _shapes(a: Arguments, least: int = 0) -> list[Shape]:
    """Those of a list of tensors, with dimensions of size 1 in front up to a rank."""
    found = [tensor.shape for tensor in a["tensors"]]
    return [(1,) * (least - len(shape)) + shape for shape in found]


@shape_of("cat", "concat", "concatenate")
def cat(a: Arguments) -> Shape:
    return joined(_shapes(a), a["dim"])


@shape_of("stack")
def stack(a: Arguments) -> Shape:
    shapes = _shapes(a)
    if not shapes or any(shape != shapes[0] for shape in shapes):
        raise RuntimeError("stack expects each tensor to be equal size")
    axis = wrap_dim(a["dim"], len(shapes[0]) + 1)
    return (*shapes[0][:axis], len(shapes), *shapes[0][axis:])


@shape_of("hstack")
def hstack(a: Arguments) -> Shape:
    shapes = _shapes(a, 1)
    return joined(shapes, 0 if len(shapes[0]) == 1 else 1)


@shape_of("vstack")
def vstack(a: Arguments) -> Shape:
    return joined(_shapes(a, 2), 0)


@shape_of("dstack")
def dstack(a: Arguments) -> Shape:
    return joined([_padded(shape) for shape in _shapes(a)], 2)


def _padded(shape: Shape) -> Shape:
    """As atleast_3d: a vector becomes a row, a matrix gets a last dimension of size 1."""
    if len(shape) > 2:
        return shape
    return (*shape, 1) if len(shape) == 2 else (1, *(shape or (1,)), 1)


@shape_of("column_stack")
def column_stack(a: Arguments) -> Shape:
    return joined([shape if len(shape) > 1 else (prod(shape), 1) for shape in _shapes(a)], 1)


@shape_of("repeat", "tile")
def repeat(a: Arguments) -> Shape:
    shape, times = a.shape("self"), tuple(a[a.op.schema.arguments[1].name])
    rank = max(len(shape), len(times))
    padded = [(1,) * (rank - len(sizes)) + sizes for sizes in (shape, times)]
    return tuple(size * count for size, count in zip(*padded, strict=True))


@shape_of("repeat_interleave.self_int")
def repeat_interleave(a: Arguments) -> Shape:
    shape, dim = a.shape("self"), a["dim"]
    if dim is None:
        return (prod(shape) * a["repeats"],)
    axis, shape = wrap_dim(dim, len(shape)), shape or (1,)
    return replaced(shape, axis, shape[axis] * a["repeats"])


@shape_of("rot90")
def rot90(a: Arguments) -> Shape:
    shape = a.shape("self")
    if a["k"] % 2 == 0:
        return shape
    first, second = wrap_dims(a["dims"], len(shape))
    return replaced(replaced(shape, first, shape[second]), second, shape[first])


@shape_of("unfold_backward")
def unfold_backward(a: Arguments) -> Shape:
    return tuple(a["input_sizes"])


# --- indexed ---

shape_of("masked_select", "nonzero", "argwhere", "where")(undecided)
shape_of("repeat_interleave.self_Tensor", "repeat_interleave.Tensor")(undecided)
shape_of("gather", "take")(same("index"))
shape_of("searchsorted.Tensor", "bucketize.Tensor")(same("self"))
shape_of("searchsorted.Scalar", "bucketize.Scalar")(number)


@shape_of("select")
def select(a: Arguments) -> Shape:
    """Which row it is has no say, as long as there is one."""
    shape, index = a.shape("self"), a.glimpse("index")
    if not shape:
        raise RuntimeError("select() cannot be applied to a 0-dim tensor.")
    axis = wrap_dim(a["dim"], len(shape))
    if isinstance(index, int) and not -shape[axis] <= index < shape[axis]:
        size = list(shape)
        raise RuntimeError(f"select(): index {index} out of range for tensor of size {size} at dimension {axis}")
    return replaced(shape, axis)


@shape_of("index_select")
def index_select(a: Arguments) -> Shape:
    shape, index = a.shape("self"), a.shape("index")
    if len(index) > 1:
        raise RuntimeError(f"index_select: an index is a vector, but its shape is {list(index)}")
    axis = wrap_dim(a["dim"], len(shape))
    return replaced(shape, axis, *(index or (1,))) if shape else ()


@shape_of("index")
def index(a: Arguments) -> Shape:
    """As NumPy: in the place of the dimensions indexed if those stand side by side, else in front."""
    shape, indices = a.shape("self"), a["indices"]
    if any(i is not None and i.dtype.name in ("bool", "uint8") for i in indices):
        undecided(a)
    if len(indices) > len(shape):
        raise IndexError(f"too many indices for a tensor of {len(shape)} dimensions")
    # Integers of no dimensions pick first, like numbers.
    whole = [*indices, *[None] * (len(shape) - len(indices))]
    apart = [axis for axis, i in enumerate(whole) if i is None or i.shape or not any(j and j.shape for j in whole)]
    shape, indices = tuple([shape[axis] for axis in apart]), [whole[axis] for axis in apart]
    taken = [axis for axis, i in enumerate(indices) if i is not None]
    if not taken:
        return shape
    found = broadcast(*(indices[axis].shape for axis in taken))
    left = [size for axis, size in enumerate(shape) if axis not in taken]
    place = taken[0] if taken[-1] - taken[0] + 1 == len(taken) else 0
    return (*left[:place], *found, *left[place:])


@shape_of("take_along_dim")
def take_along_dim(a: Arguments) -> Shape:
    shape, indices, dim = a.shape("self"), a.shape("indices"), a["dim"]
    if dim is None:
        return (prod(indices),)
    if not shape:
        return indices
    axis = wrap_dim(dim, len(shape))
    return replaced(broadcast(replaced(shape, axis, 1), replaced(indices, axis, 1)), axis, indices[axis])


@shape_of("embedding")
def embedding(a: Arguments) -> Shape:
    return (*a.shape("indices"), *a.shape("weight")[1:])


@shape_of("embedding_backward", "embedding_dense_backward")
def embedding_backward(a: Arguments) -> Shape:
    return (a["num_weights"], a.at(0)[-1])


@shape_of("one_hot")
def one_hot(a: Arguments) -> Shape:
    """As many classes as the largest element asks for, unless they are counted."""
    classes = a["num_classes"]
    return (*a.shape("self"), classes) if classes >= 0 else undecided(a)


shape_of("select_scatter", "slice_scatter", "diagonal_scatter", "scatter", "scatter_add", "scatter_reduce")(
    same("self")
)
shape_of("index_add", "index_copy", "index_fill", "index_put", "put")(same("self"))


@shape_of("masked_scatter")
def masked_scatter(a: Arguments) -> Shape:
    return broadcast(a.shape("self"), a.shape("mask"))


@shape_of("narrow.Tensor")
def narrow(a: Arguments) -> Shape:
    """The start is in a tensor; the length is not."""
    shape = a.shape("self")
    return replaced(shape, wrap_dim(a["dim"], len(shape)), a["length"])


# --- parts of networks ---

shape_of("masked_dropout", "native_dropout_backward")(all_broadcast)


@shape_of("glu")
def glu(a: Arguments) -> Shape:
    shape = a.shape("self")
    axis = wrap_dim(a["dim"], len(shape))
    if not shape or shape[axis] % 2:
        raise RuntimeError(f"glu: the dimension to halve must be even, but the shape is {list(shape)}")
    return replaced(shape, axis, shape[axis] // 2)


@shape_of("cosine_similarity")
def cosine_similarity(a: Arguments) -> Shape:
    shape = all_broadcast(a)
    return replaced(shape, wrap_dim(a["dim"], len(shape))) if shape else ()


@shape_of("pairwise_distance")
def pairwise_distance(a: Arguments) -> Shape:
    shape = all_broadcast(a)
    return (*shape[:-1], *((1,) if a["keepdim"] and shape else ()))
