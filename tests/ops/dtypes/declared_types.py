"""What `result=` of every op promises, held to what the op evaluates to: dtypes and ranks, list by list.

Each call of an op's own tests is changed argument by argument: a dimension more, of one element or of two, so that
operands broadcast; one less; another dtype; and the types are told precisely, or without the dtype or the rank of one.
Whatever is promised of the arguments that an op takes must then be so.

`python tests/ops/dtypes/declared_types.py [NAME…]` tries every call of every op, or of those named, and prints
what is broken.
"""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from gradscript.compiler.ir.signature import result_types
from gradscript.compiler.ops.arrays import dtype_of
from gradscript.compiler.ops.registry import OPS, Op
from gradscript.compiler.types import dtypes
from gradscript.compiler.types.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    strip_optional,
    unify,
)
from samples.arrays import LAYOUTS
from samples.op_calls import calls_of

Arguments = list[Any]
_ASSUMES = {
    "prim::mm_gather": "matrices",
    "prim::mm_total": "matrices",
    "prim::grad_add_select": "what has been summed of a tensor's gradient so far, and that of a slice of it",
    "prim::grad_add_slice": "what has been summed of a tensor's gradient so far, and that of slices of it",
    "prim::grad_add_product": "what has been summed of a matrix's gradient so far, and matrices",
    "aten::_replaced": "a tensor of the other's shape",
    "gs::conv_input": "a size of as many dimensions as the gradient has",
}
"""Ops that the compiler alone writes, and what it knows then of their arguments: they are not changed."""
_SCALARS: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT, str: STR}


def ops() -> list[Op]:
    """Every op that says something of its results."""
    return [op for op in OPS.all() if op.result is not None]


def type_of(value: Any, declared: Type) -> Type:
    """The most precise type of a value; of an empty list, the declared one."""
    if value is None:
        return NONE
    if isinstance(value, np.ndarray):
        return TensorType(dtype_of(value), value.ndim)
    if not isinstance(value, list | tuple):
        return _SCALARS.get(type(value), declared)
    formal = strip_optional(declared)
    inner = formal.element if isinstance(formal, ListType) else formal
    joined: Type | None = None
    for item in value:
        joined = type_of(item, inner) if joined is None else unify(joined, type_of(item, inner))
        if joined is None:
            return declared
    return formal if joined is None else ListType(joined)


def fits(value: Any, promised: Type) -> bool:
    """Whether a value is of a type; of what is no tensor only its kind is looked at."""
    if isinstance(promised, OptionalType):
        return value is None or fits(value, promised.element)
    if isinstance(promised, TensorType):
        # An op that reduces everything may give NumPy's own number.
        if not isinstance(value, np.ndarray | np.generic):
            return False
        array = np.asarray(value)
        return promised.dtype in (None, dtype_of(array)) and promised.rank in (None, array.ndim)
    if isinstance(promised, ListType):
        return isinstance(value, list | tuple) and all(fits(item, promised.element) for item in value)
    if isinstance(promised, TupleType):
        return len(value) == len(promised.elements) and all(map(fits, value, promised.elements))
    if promised in (BOOL, INT, STR):
        return type(value) is {BOOL: bool, INT: int, STR: str}[promised]
    return isinstance(value, int | float) if promised in (FLOAT, NUMBER) else True


def changed(arguments: Arguments) -> Iterator[Arguments]:
    """The arguments, and again with one tensor or one list's tensors of other dimensions or of another dtype."""
    yield arguments
    for place, value in enumerate(arguments):
        for other in _changed(value):
            yield [*arguments[:place], other, *arguments[place + 1 :]]


def _changed(value: Any) -> Iterator[Any]:
    if isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value):
        for others in zip(*map(_changed, value), strict=False):
            yield list(others)
        first, *rest = value
        for other in _changed(first):
            yield [other, *rest]
    if not isinstance(value, np.ndarray):
        return
    yield value[None]
    yield np.stack([value, value])
    if value.ndim:
        yield value[:1].reshape(value.shape[1:]) if len(value) else value.reshape(-1)
    yield value.astype(np.float32 if value.dtype == np.float64 else np.float64)
    yield value.astype(np.int64 if value.dtype.kind != "i" else np.int32)


def told(arguments: Arguments, op: Op) -> Iterator[list[Type]]:
    """The types of arguments, as a compiler may know them: all there is, or less of one, or of all."""
    exact = [type_of(value, a.type) for value, a in zip(arguments, op.schema.arguments, strict=True)]
    yield exact
    for less in (_without_dtype, _without_rank):
        weaker = [less(type) for type in exact]
        yield weaker
        for place, type in enumerate(exact):
            if weaker[place] != type:
                yield [*exact[:place], weaker[place], *exact[place + 1 :]]


def _without_dtype(type: Type) -> Type:
    if isinstance(type, ListType):
        return ListType(_without_dtype(type.element))
    return TensorType(None, type.rank) if isinstance(type, TensorType) else type


def _without_rank(type: Type) -> Type:
    if isinstance(type, ListType):
        return ListType(_without_rank(type.element))
    return TensorType(type.dtype) if isinstance(type, TensorType) else type


def evaluated(op: Op, arguments: Arguments) -> list[Any] | None:
    """One value per result; None where the op refuses the arguments."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = op.evaluate(*arguments)
    except Exception:
        return None
    return list(result) if len(op.schema.returns) != 1 and isinstance(result, tuple) else [result]


def broken(op: Op, calls: int = sys.maxsize) -> tuple[int, list[str]]:
    """How many calls were compared, and which promises do not hold, of an op's first so many calls."""
    compared, wrong = 0, dict[str, None]()
    for i, call in enumerate(calls_of(op)[:calls]):
        seed = zlib.crc32(f"{op.schema.full_name}{i}".encode())
        for dtype in (dtypes.FLOAT32, dtypes.FLOAT64, dtypes.INT64):
            plain = call.arguments(op, dtype, seed, LAYOUTS["contiguous"])
            for arguments in [plain] if op.schema.full_name in _ASSUMES else changed(plain):
                found = evaluated(op, arguments)
                if found is None:
                    continue
                compared += 1
                for types in told(arguments, op):
                    promised = result_types(op, types)
                    if not _all_fit(op, found, promised):
                        given, said = ", ".join(map(str, types)), ", ".join(map(str, promised))
                        made = [type_of(value, r.type) for value, r in zip(found, op.schema.returns, strict=False)]
                        wrong[f"{op.schema.full_name}({given}): {said}, and not {', '.join(map(str, made))}"] = None
    return compared, list(wrong)


def _all_fit(op: Op, found: list[Any], promised: tuple[Type, ...]) -> bool:
    """What a mask of outputs does not ask for is not there, as in torch."""
    is_masked = any(argument.name == "output_mask" for argument in op.schema.arguments)
    given = [(value, type) for value, type in zip(found, promised, strict=True) if not is_masked or value is not None]
    return all(fits(value, type) for value, type in given)


def main(names: list[str]) -> int:
    total = failed = 0
    for op in ops():
        if names and op.schema.full_name not in names:
            continue
        compared, wrong = broken(op)
        total += compared
        failed += bool(wrong)
        for words in wrong[:3]:
            print(words, flush=True)
        if not compared:
            print(f"{op.schema.full_name}: no call of it", flush=True)
    print(f"{total} calls, {failed} ops with a promise that does not hold")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
