"""`torch.set_default_dtype`: the language's own default is float32, as NumPy's arrays have no other to ask for.

    x * torch.full([3], 0.1)     torch.float64 by default: torch adds float64, a program what float32 has of 0.1
    (x > 0) * 0.1                likewise, of what is no floating tensor beside a number

A program that makes nothing of the default runs as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ...compiler.ir.graph import Callee, Graph
from ...compiler.ir.node import Node, Value
from ...compiler.ops.arrays import dtype_of
from ...compiler.ops.meta import UNKNOWN, Meta, OpenList, is_known
from ...compiler.passes.inline_functions import inline_functions
from ...compiler.passes.propagate_types import propagate_types
from ...compiler.shapes.propagate import ShapeError, propagate_shapes
from ...compiler.types.dtypes import DEFAULT_FLOAT, DType
from ...compiler.types.types import TensorType, is_tensor, leaf_of
from ...lang.light_dataclasses import replace
from ..failures.failure import RuntimeFailure
from ..values.torch_dtypes import dtypes_of_torch, torch_name
from .places import each

_EXPLICIT = ("aten::float", "aten::to.", "aten::type_as", "aten::Float")
"""Ops that name a dtype by themselves."""


def check_default_dtype(callee: Callee, graph: Graph, values: Sequence[Any], *, joins: bool) -> None:
    """RuntimeFailure where a program makes tensors of the default dtype: for where torch's is another.

    `graph` is what runs of the function; with `joins`, backwards that are written for it run as well.
    """
    _check(callee.schema.name, graph, each(values, _described))
    for backward in _backwards(callee) if joins else ():
        _check(backward.title, backward, [UNKNOWN for _ in backward.inputs])


def _backwards(callee: Callee) -> Iterator[Graph]:
    """Those that are written for a function, and for what it calls."""
    pending = [callee]
    for found in pending:
        pair, graphs = found.pair, [found.graph]
        while pair is not None:
            yield pair.backward
            graphs.append(pair.backward)
            pair = pair.second
        called = {one for graph in graphs for node in graph.all_nodes() if (one := graph.called(node)) is not None}
        pending += [one for one in called if one not in pending]


def _check(function: str, graph: Graph, values: Sequence[Any]) -> None:
    plain = graph.copy()
    inline_functions(plain)
    for parameter, value in zip(plain.inputs, values, strict=True):
        if isinstance(value, Meta) and isinstance(parameter.type, TensorType):
            parameter.type = replace(parameter.type, dtype=value.dtype, rank=value.rank)
    propagate_types(plain)
    try:
        known = propagate_shapes(plain, values)
    except ShapeError:
        return  # The run says what does not fit.
    for node in plain.all_nodes():
        if _is_of_default(node, known):
            default = torch_name(torch.get_default_dtype())
            message = f"this is {DEFAULT_FLOAT.name}, and torch's default dtype is {default}"
            notes = [
                "say which: `dtype=x.dtype`, or `x.new_zeros(…)`, `x.new_full(…)`; convert what is no floating tensor",
                "a program's own default is float32, whatever `torch.set_default_dtype` says",
            ]
            raise RuntimeFailure("R003", function, message, span=node.span, notes=notes)


def _described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Meta(tuple(value.shape), dtypes_of_torch()[value.dtype])
    return Meta(value.shape, dtype_of(value)) if isinstance(value, np.ndarray) else value


def _is_of_default(node: Node, known: dict[Any, Any]) -> bool:
    """Whether a node gives the default dtype that no tensor has which it is given, and that nothing in it asks for."""
    if node.blocks or not any(_dtype_of(value, known) == DEFAULT_FLOAT for value in node.outputs):
        return False
    given = [known.get(value, UNKNOWN) for value in node.inputs]
    dtypes = [dtype for value in node.inputs for dtype in _dtypes_of(value, known)]
    if node.kind.startswith(_EXPLICIT) or any(dtype is None or dtype.is_floating for dtype in dtypes):
        return False
    asked = [v for a, v in zip(node.schema.arguments, given, strict=False) if a.is_dtype] if node.schema else []
    return not any(is_known(value) and value is not None for value in asked)


def _dtypes_of(value: Value, known: dict[Any, Any]) -> list[DType | None]:
    """Of a tensor, or of all in a list or a tuple; None where it is not known."""
    found = known.get(value, UNKNOWN)
    if is_known(found) and not isinstance(found, OpenList):
        items = found if isinstance(found, list | tuple) else (found,)
        return [item.dtype for item in items if isinstance(item, Meta)]
    leaf = leaf_of(value.type)
    return [leaf.dtype if isinstance(leaf, TensorType) else None] if is_tensor(leaf) else []


def _dtype_of(value: Value, known: dict[Any, Any]) -> DType | None:
    """By the run's shapes, or by its type where these tell nothing, as of sizes that rounds change."""
    found = known.get(value, UNKNOWN)
    if isinstance(found, Meta):
        return found.dtype
    return value.type.dtype if isinstance(value.type, TensorType) else None
