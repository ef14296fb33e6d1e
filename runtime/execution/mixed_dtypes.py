"""Programs for values of several floating dtypes, in which each gradient has the dtype of what it is a gradient of.

What differentiates a graph casts a gradient where it knows the dtypes (`PairRule`). A program of any dtypes has none to
know, and needs none as long as there is one: `x @ w + b` of float32 x and w and a float64 b is a product before whose
gradient there is a cast.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from ...compiler.ir.graph import Graph
from ...compiler.ir.node import Node
from ...compiler.ir.rewrite import constant_of
from ...compiler.ops.arrays import dtype_of
from ...compiler.pipeline import run_recipe
from ...compiler.types.dtypes import DType
from ...compiler.types.types import NONE, ListType, TensorType, Type, is_tensor, leaf_of
from ...lang.light_dataclasses import replace
from .differentiated import COMPILING, CompiledGraph
from .function_executor import FORGETTING

SeenDType: TypeAlias = "tuple[DType, int] | DType | None"
"""Of an argument: a tensor's dtype and rank, the dtype that all in a list have, None for anything else."""

MAX_SEEN = 64
"""Kinds of arguments of one program; the first are dropped first."""

_CONVERSIONS = frozenset(
    ("aten::float", "aten::double", "aten::half", "aten::bfloat16", "aten::type_as", "aten::to.other")
)
_MAKES: WeakKeyDictionary[CompiledGraph, bool] = WeakKeyDictionary()
_SEEN: WeakKeyDictionary[CompiledGraph, dict[Hashable, CompiledGraph]] = WeakKeyDictionary()


def makes_dtypes(program: CompiledGraph) -> bool:
    """Whether ops of a program make tensors of dtypes that may be other ones than those that go in."""
    found = _MAKES.get(program)
    return found if found is not None else _MAKES.setdefault(program, _makes_dtypes(program.graph))


def _makes_dtypes(graph: Graph) -> bool:
    pending = [graph]
    for current in pending:
        for node in current.all_nodes():
            if _makes_dtype(node):
                return True
            callee = current.called(node)
            if callee is not None and callee.graph not in pending:
                pending.append(callee.graph)
    return False


def _makes_dtype(node: Node) -> bool:
    if node.kind in _CONVERSIONS:
        return True
    if node.schema is None or len(node.inputs) != len(node.schema.arguments):
        return False
    asked = [v for v, argument in zip(node.inputs, node.schema.arguments, strict=True) if argument.is_dtype]
    if not asked:
        return False
    # What is made of numbers has a dtype of its own.
    is_made_of_tensors = any(is_tensor(leaf_of(value.type)) for value in node.inputs)
    return not is_made_of_tensors or any(v.type != NONE and constant_of(v) is not None for v in asked)


def for_arrays(program: CompiledGraph, arrays: Sequence[Any]) -> CompiledGraph:
    """The program that is differentiated for such arrays: of their dtypes, where not all have one."""
    floating = {a.dtype for a in _arrays(arrays) if dtype_of(a).is_floating}
    if len(floating) < 2 and not makes_dtypes(program):
        return program
    return in_dtypes(program, [_seen(value) for value in arrays])


def _arrays(values: Sequence[Any]) -> Iterator[np.ndarray]:
    """Those among values and in lists of them, which nest as types do."""
    for value in values:
        if isinstance(value, list):
            yield from _arrays(value)
        elif isinstance(value, np.ndarray):
            yield value


def _seen(value: Any) -> SeenDType:
    if isinstance(value, np.ndarray):
        return dtype_of(value), value.ndim
    dtypes = set(map(dtype_of, _arrays(value))) if isinstance(value, list) else set[DType]()
    return dtypes.pop() if len(dtypes) == 1 else None


def in_dtypes(program: CompiledGraph, seen: Sequence[SeenDType]) -> CompiledGraph:
    """The program for values of these dtypes and ranks."""
    key = tuple(seen)
    programs = _SEEN.get(program)
    found = None if programs is None else programs.get(key)
    if found is not None:
        return found
    with COMPILING:
        programs = _SEEN.setdefault(program, {})
        if key not in programs:
            while len(programs) >= MAX_SEEN:
                del programs[next(iter(programs))]
            programs[key] = _typed(program, key)
        return programs[key]


def _typed(program: CompiledGraph, seen: Sequence[SeenDType]) -> CompiledGraph:
    graph = program.graph.copy()
    for value, found in zip(graph.inputs, seen, strict=True):
        value.type = _told(value.type, found)
    run_recipe(graph, "types")
    return program.on(graph)


def _told(type: Type, found: SeenDType) -> Type:
    """A type with what was seen, where it says less."""
    if isinstance(found, DType):
        element = type.element if isinstance(type, ListType) else type
        is_open = isinstance(element, TensorType) and isinstance(type, ListType) and element.dtype is None
        return ListType(replace(element, dtype=found)) if is_open and isinstance(element, TensorType) else type
    if found is None or not isinstance(type, TensorType):
        return type
    dtype, rank = found
    return replace(type, dtype=type.dtype or dtype, rank=rank if type.rank is None else type.rank)


def _forget() -> None:
    _SEEN.clear()
    _MAKES.clear()


FORGETTING.add(_forget)
