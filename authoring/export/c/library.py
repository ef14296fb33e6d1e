"""Ops of a library as loops of C: products of matrices, sums along a dimension, elements by tensors of indices, copies.

What an op changes a copy of, such as `index_add`, is copied, then changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....compiler.fusion.program import ExternStep, Ref
from .loops import LoopWriter, NoLoops, Strided

PRODUCT = """/* out += left times right, of rows by inner and inner by columns elements, as far apart as is said.
   With -DGRADSCRIPT_PRODUCT=name a function of yours does it, such as one that calls a BLAS. */
#ifdef GRADSCRIPT_PRODUCT
void GRADSCRIPT_PRODUCT(float *out, const float *left, const float *right, int64_t rows, int64_t inner,
    int64_t columns, int64_t left_row, int64_t left_inner, int64_t right_inner, int64_t right_column);
#else
#define GRADSCRIPT_PRODUCT gs_product
static void gs_product(float *restrict out, const float *left, const float *right, int64_t rows, int64_t inner,
    int64_t columns, int64_t left_row, int64_t left_inner, int64_t right_inner, int64_t right_column)
{
    for (int64_t i = 0; i < rows; ++i) {
        float *restrict sums = out + i * columns;
        const float *factors = left + i * left_row;
        if (right_column == 1) {
            for (int64_t k = 0; k < inner; ++k) {
                const float factor = factors[k * left_inner];
                const float *row = right + k * right_inner;
                #pragma omp simd
                for (int64_t j = 0; j < columns; ++j) sums[j] += factor * row[j];
            }
            continue;
        }
        for (int64_t j = 0; j < columns; ++j) {
            const float *column = right + j * right_column;
            float sum = 0.0f;
            #pragma omp simd reduction(+ : sum)
            for (int64_t k = 0; k < inner; ++k) sum += factors[k * left_inner] * column[k * right_inner];
            sums[j] += sum;
        }
    }
}
#endif
"""

_Writer = Callable[..., Iterator[str]]


def written_statements(loops: LoopWriter, steps: Sequence[ExternStep]) -> list[str]:
    """The statements of a step whose result is there already, contiguous. NoLoops where none are known."""
    step = steps[0]
    write = _WRITERS.get(step.node.kind)
    if write is None or len(step.results) != 1 or any(one.arguments[1:2] != step.arguments[1:2] for one in steps):
        raise NoLoops
    result = loops.tensor(step.results[0])
    return list(write(loops, result, *(_argument(loops, argument) for argument in step.arguments)))


def _argument(loops: LoopWriter, argument: Any) -> Any:
    if isinstance(argument, list):
        return [_argument(loops, item) for item in argument]
    return loops.tensor(argument.name) if isinstance(argument, Ref) else argument


def _require(condition: bool) -> None:
    if not condition:
        raise NoLoops


# --- products ---


def _product(loops: LoopWriter, result: Strided, left: Strided, right: Strided) -> Iterator[str]:
    yield loops.zeroed(result)
    yield from _added_product(loops, result, left, right)


def _product_with(
    loops: LoopWriter, result: Strided, bias: Strided, left: Strided, right: Strided, beta: Any, alpha: Any
) -> Iterator[str]:
    _require(beta == 1 and alpha == 1)
    yield from loops.copied(bias, result)
    yield from _added_product(loops, result, left, right)


def _linear(
    loops: LoopWriter, result: Strided, source: Strided, weight: Strided, bias: Strided | None
) -> Iterator[str]:
    yield from loops.copied(bias, result) if bias is not None else [loops.zeroed(result)]
    yield from _added_product(loops, result, source, weight.part(range(weight.rank)[::-1]))


def _added_product(loops: LoopWriter, result: Strided, left: Strided, right: Strided) -> Iterator[str]:
    """Over the last two dimensions; a vector is a row on the left and a column on the right."""
    _require({result.type, left.type, right.type} == {"float"})
    count = loops.samples
    one = (1,) * count
    left = left.widened(2, count)
    if right.rank == 1:
        right = Strided(right.name, (*right.shape, one), (*right.strides, one), right.type)
    batch = max(left.rank, right.rank) - 2
    left, right = left.widened(batch + 2, count), right.widened(batch + 2, count)
    names = [f"i{d}" for d in range(batch)]
    outer = _broadcast(left.shape[:batch], right.shape[:batch])
    out = result.reshaped([*outer, left.shape[-2], right.shape[-1]], count)
    places = [loops.place(tensor.part(range(batch)), names) for tensor in (out, left, right)]
    texts = [
        tensor.name if place == "0" else f"{tensor.name} + {place}"
        for tensor, place in zip((out, left, right), places, strict=True)
    ]
    numbers = [left.shape[-2], left.shape[-1], right.shape[-1], *left.strides[-2:], *right.strides[-2:]]
    call = f"GRADSCRIPT_PRODUCT({', '.join([*texts, *(loops.size(number, 3) for number in numbers)])});"
    yield from loops.loops(names, outer, [call])


def _broadcast(*shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(map(max, *sizes)) if len(sizes) > 1 else sizes[0] for sizes in zip(*shapes, strict=True)]


# --- along a dimension ---


def _running(operator: str, start: str) -> _Writer:
    def write(loops: LoopWriter, result: Strided, source: Strided, dim: int, dtype: Any = None) -> Iterator[str]:
        _require(source.type == result.type)
        if not source.rank:
            yield from loops.copied(source, result)
            return
        dim, names = dim % source.rank, _names(source)
        others = [d for d in range(source.rank) if d != dim]
        last = names[dim]
        body = [
            f"{result.type} total = {start};",
            f"for (int64_t {last} = 0; {last} < {loops.size(source.shape[dim])}; ++{last}) {{",
            f"    total {operator}= {loops.element(source, names)};",
            f"    {loops.element(result, names)} = total;",
            "}",
        ]
        yield from loops.loops([names[d] for d in others], [source.shape[d] for d in others], body)

    return write


def _names(tensor: Strided) -> list[str]:
    return [f"i{d}" for d in range(tensor.rank)]


# --- copies ---


def _copy(loops: LoopWriter, result: Strided, source: Strided, *_: Any) -> Iterator[str]:
    _require(source.type == result.type)
    yield from loops.copied(source, result)


def _in_order(loops: LoopWriter, result: Strided, source: Strided, *_: Any) -> Iterator[str]:
    """The elements in their order, whatever the shapes."""
    _require(source.type == result.type)
    yield from loops.copied(source, result.reshaped(source.shape, loops.samples))


# --- by tensors of indices ---


def _looked_up(loops: LoopWriter, result: Strided, source: Strided, indices: Sequence[Any]) -> Iterator[str]:
    """source[i, j], where indices are of the first dimensions."""
    _require_indices(indices)
    names = _names(result)
    found, places = _found(loops, source, indices, names, result.rank - source.rank + len(indices))
    line = f"{loops.element(result, names)} = {loops.element(source, places)};"
    yield from loops.loops(names, result.shape, [*found, f"    {line}"])


def _put(
    loops: LoopWriter, result: Strided, source: Strided, indices: Sequence[Any], values: Strided, accumulate: bool
) -> Iterator[str]:
    _require_indices(indices)
    rank = max(index.rank for index in indices)
    points = _broadcast(*(index.widened(rank, loops.samples).shape for index in indices))
    shape = [*points, *source.shape[len(indices) :]]
    names = [f"i{d}" for d in range(len(shape))]
    _require(values.rank <= len(shape))
    given = values.widened(len(shape), loops.samples)
    found, places = _found(loops, source, indices, names, rank)
    line = f"{loops.element(result, places)} {'+=' if accumulate else '='} {loops.element(given, names)};"
    yield from loops.copied(source, result)
    yield from loops.loops(names, shape, [*found, f"    {line}"])


def _require_indices(indices: Sequence[Any]) -> None:
    _require(bool(indices) and all(isinstance(i, Strided) and i.type == "int64_t" for i in indices))


def _found(
    loops: LoopWriter, source: Strided, indices: Sequence[Strided], names: Sequence[str], rank: int
) -> tuple[list[str], list[str]]:
    """Lines that end in an `else` behind which the element is there, and the names of its indices."""
    lines: list[str] = []
    places = [f"at{d}" for d in range(len(indices))]
    for d, index in enumerate(indices):
        element = loops.element(index.widened(rank, loops.samples), names[:rank])
        lines += [f"int64_t at{d} = {element};", f"at{d} += at{d} < 0 ? {loops.size(source.shape[d])} : 0;"]
    tests = (_outside(loops, place, source.shape[d]) for d, place in enumerate(places))
    return [*lines, f"if ({' || '.join(tests)}) failed = 1;", "else"], [*places, *names[rank:]]


def _outside(loops: LoopWriter, name: str, size: Sequence[int]) -> str:
    return f"{name} < 0 || {name} >= {loops.size(size)}"


def _along(loops: LoopWriter, source: Strided, dim: int, index: str, line: str) -> list[str]:
    """A line about the element `at` along a dimension, where that is one."""
    return [
        f"const int64_t at = {index};",
        f"if ({_outside(loops, 'at', source.shape[dim])}) failed = 1;",
        f"else {line}",
    ]


def _gathered(loops: LoopWriter, result: Strided, source: Strided, dim: int, index: Strided, *_: Any) -> Iterator[str]:
    _require(source.rank == index.rank > 0 and index.type == "int64_t")
    dim, names = dim % source.rank, _names(source)
    line = f"{loops.element(result, names)} = {loops.element(source, _at(names, dim))};"
    yield from loops.loops(names, index.shape, _along(loops, source, dim, loops.element(index, names), line))


def _scattered(operator: str) -> _Writer:
    def write(
        loops: LoopWriter, result: Strided, source: Strided, dim: int, index: Strided, values: Any
    ) -> Iterator[str]:
        _require(source.rank == index.rank > 0 and index.type == "int64_t" and isinstance(values, Strided))
        dim, names = dim % source.rank, _names(source)
        line = f"{loops.element(result, _at(names, dim))} {operator} {loops.element(values, names)};"
        yield from loops.copied(source, result)
        yield from loops.loops(names, index.shape, _along(loops, source, dim, loops.element(index, names), line))

    return write


def _selected(loops: LoopWriter, result: Strided, source: Strided, dim: int, index: Strided) -> Iterator[str]:
    _require(source.rank > 0 and index.rank == 1 and index.type == "int64_t")
    dim, names = dim % source.rank, _names(source)
    line = f"{loops.element(result, names)} = {loops.element(source, _at(names, dim))};"
    body = _along(loops, source, dim, loops.element(index, [names[dim]]), line)
    yield from loops.loops(names, result.shape, body)


def _added_at(
    loops: LoopWriter, result: Strided, source: Strided, dim: int, index: Strided, values: Strided, alpha: Any
) -> Iterator[str]:
    _require(source.rank > 0 and index.rank == 1 and index.type == "int64_t" and alpha == 1)
    dim, names = dim % source.rank, _names(source)
    line = f"{loops.element(result, _at(names, dim))} += {loops.element(values, names)};"
    yield from loops.copied(source, result)
    body = _along(loops, source, dim, loops.element(index, [names[dim]]), line)
    yield from loops.loops(names, values.shape, body)


def _at(names: Sequence[str], dim: int) -> list[str]:
    return [name if d != dim else "at" for d, name in enumerate(names)]


_WRITERS: dict[str, _Writer] = {
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::dot"), _product),
    **dict.fromkeys(("aten::addmm", "aten::baddbmm", "aten::addmv"), _product_with),
    "aten::linear": _linear,
    "aten::cumsum": _running("+", "0"),
    "aten::cumprod": _running("*", "1"),
    **dict.fromkeys(("aten::clone", "aten::contiguous", "aten::expand", "aten::alias"), _copy),
    **dict.fromkeys(("aten::reshape", "aten::view", "aten::flatten.using_ints"), _in_order),
    "aten::index.Tensor": _looked_up,
    "aten::index_put": _put,
    "aten::gather": _gathered,
    "aten::scatter.src": _scattered("="),
    "aten::scatter_add": _scattered("+="),
    "aten::index_select": _selected,
    "aten::index_add": _added_at,
}
"""By the kind of node, what writes the statements: of the result and the arguments, tensors as `Strided`."""
