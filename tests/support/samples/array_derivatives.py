"""Values, first and second derivatives of ops: ours from the formulas, and torch's from autograd.

One function stands for an op call: `sum over outputs of sum(g * output)`. Its gradients in the arguments are the first
derivatives; those of `sum(u * gradients)`, in the arguments and in g, are the second.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import gradscript as gs
import numpy as np
import pytest
import torch
from gradscript.compiler.autodiff.differentiable import differentiable_graph
from gradscript.compiler.autodiff.joint import gradient_graph
from gradscript.compiler.ir.builder import Builder
from gradscript.compiler.ir.graph import Callee, Graph
from gradscript.compiler.ir.node import Value
from gradscript.compiler.ops.arrays import dtype_of
from gradscript.compiler.ops.registry import Op
from gradscript.compiler.types import dtypes
from gradscript.compiler.types.schema import Argument, FunctionSchema
from gradscript.compiler.types.types import TENSOR, ListType, OptionalType, Type, VariableType
from gradscript.runtime.face.function import Function
from samples.arrays import TORCH, to_numpy, to_torch

Nested = Any
"""A tensor, None, a number, or a list of such."""


@dataclass(frozen=True)
class Derivatives:
    """The outputs; the gradient of each differentiated argument; the second derivatives, in those and in each g."""

    values: list[Any]
    first: list[Any]
    second: list[Any]


def flat(value: Nested) -> list[Any]:
    """The leaves of nested lists and tuples."""
    if not isinstance(value, list | tuple):
        return [value]
    return [leaf for item in value for leaf in flat(item)]


def is_float(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point()
    return isinstance(value, np.ndarray) and dtype_of(value).is_floating


def differentiated(op: Op, arguments: Sequence[Any], fixed: frozenset[str]) -> list[int]:
    """The arguments that get a gradient: floating tensors, and lists of such."""
    return [
        i
        for i, (value, argument) in enumerate(zip(arguments, op.schema.arguments, strict=True))
        if argument.name not in fixed and value is not None and any(map(is_float, flat(value)))
    ]


# --- ours ---


def concrete(type: Type) -> Type:
    if isinstance(type, VariableType):
        return TENSOR
    if isinstance(type, ListType):
        return ListType(concrete(type.element))
    return OptionalType(concrete(type.element)) if isinstance(type, OptionalType) else type


@cache
def op_function(op: Op) -> Function:
    """The op as a function of a unit."""
    arguments = tuple(Argument(a.name, concrete(a.type)) for a in op.schema.arguments)
    graph = Graph("call")
    inputs = [graph.body.add_input(a.type, a.name) for a in arguments]
    builder = Builder(graph)
    outputs = builder.op_results(op, *inputs)
    builder.returns(*outputs)
    results = tuple(Argument(f"result{i}", v.type) for i, v in enumerate(outputs))
    return Function(Callee(FunctionSchema("call", "", arguments, results), graph))


@cache
def _weighted(op: Op, kinds: tuple[int | None, ...], squared: bool) -> Function:
    """(arguments, g...) -> the sum of g * output over the floating outputs.

    `kinds` says for each output whether it is left out (-1), a tensor (None) or a list, and how long it is.
    """
    graph = Graph("loss")
    arguments = [Argument(a.name, concrete(a.type)) for a in op.schema.arguments]
    inputs = [graph.body.add_input(a.type, a.name) for a in arguments]
    count = sum(1 if kind is None else max(kind, 0) for kind in kinds)
    weights = [graph.body.add_input(TENSOR, f"g{i}") for i in range(count)]
    builder = Builder(graph)
    outputs = builder.op_results(op, *inputs)
    parts: list[Value] = []
    for output, kind in zip(outputs, kinds, strict=True):
        if kind is None:
            parts.append(output)
        else:
            parts += [builder.op("aten::__getitem__.t", output, i) for i in range(kind)]
    total: Value | None = None
    for part, weight in zip(parts, weights, strict=True):
        part = builder.op("aten::mul.Tensor", part, part) if squared else part
        term = builder.op("aten::sum", builder.op("aten::mul.Tensor", part, weight))
        total = term if total is None else builder.op("aten::add.Tensor", total, term)
    assert total is not None
    builder.returns(total)
    schema_arguments = (*arguments, *(Argument(f"g{i}", TENSOR) for i in range(count)))
    return Function(Callee(FunctionSchema("loss", "", schema_arguments, (Argument("result", total.type),)), graph))


def ours(
    op: Op, arguments: Sequence[Any], wrt: Sequence[int], draw: np.random.Generator, squared: bool, order: int = 2
) -> tuple[Derivatives, list[Any], list[Any]]:
    """Our derivatives, and the g and u that they were taken with."""
    value = op_function(op)(*arguments)
    outputs = list(value) if isinstance(value, tuple) else [value]
    kinds = tuple(len(o) if isinstance(o, list) else None if is_float(o) else -1 for o in outputs)
    shown = [leaf for leaf in flat(outputs) if is_float(leaf)]
    weights = [np.asarray(draw.normal(size=leaf.shape)).astype(leaf.dtype) for leaf in shown]
    loss = _weighted(op, kinds, squared)
    gradient = _gradient(loss, tuple(wrt))
    everything = [*arguments, *weights]
    if order < 2:
        first = _as_list(gradient(*everything), wrt)
        return Derivatives(flat(outputs), _floats(first, [arguments[i] for i in wrt]), []), weights, []
    result, pullback = gs.vjp(gradient, *everything)
    first = _as_list(result, wrt)
    primals = flat([arguments[i] for i in wrt])
    drawn = [
        np.asarray(draw.normal(size=leaf.shape)).astype(leaf.dtype) * is_float(primal)
        for leaf, primal in zip(flat(first), primals, strict=True)
    ]
    found = pullback(*_nested_like(first, iter(drawn)))
    cotangents = _floats(drawn, primals)
    second = [found[i] for i in (*wrt, *range(len(arguments), len(everything)))]
    primals = [everything[i] for i in (*wrt, *range(len(arguments), len(everything)))]
    filled = [_zeros_where_none(grad, like) for grad, like in zip(second, primals, strict=True)]
    return Derivatives(flat(outputs), _floats(first, primals), _floats(filled, primals)), weights, cotangents


def _floats(gradients: Nested, primals: Nested) -> list[Any]:
    """The leaves whose primal is floating: a list may hold integers too."""
    pairs = zip(flat(gradients), flat(primals), strict=False)
    return [gradient for gradient, primal in pairs if is_float(primal)]


def _as_list(result: Any, wrt: Sequence[int]) -> list[Any]:
    return [result] if len(wrt) == 1 else list(result)


_GRADIENTS: dict[tuple[Function, tuple[int, ...]], Function] = {}


def _gradient(loss: Function, wrt: tuple[int, ...]) -> Function:
    key = (loss, wrt)
    if key not in _GRADIENTS:
        graph = gradient_graph(
            differentiable_graph(loss.callee), list(wrt), with_value=False, as_tuple=False, name="gradients"
        )
        results = tuple(Argument(f"result{i}", v.type) for i, v in enumerate(graph.outputs))
        _GRADIENTS[key] = Function(Callee(FunctionSchema("gradients", "", loss.schema.arguments, results), graph))
    return _GRADIENTS[key]


def _nested_like(value: Nested, leaves: Any) -> Nested:
    return [_nested_like(item, leaves) for item in value] if isinstance(value, list) else next(leaves)


def _zeros_where_none(grad: Nested, like: Nested) -> Nested:
    if isinstance(like, list):
        return [_zeros_where_none(None if grad is None else grad[i], item) for i, item in enumerate(like)]
    return np.zeros_like(like) if grad is None else grad


# --- torch's ---


def reference(
    op: Op,
    arguments: Sequence[Any],
    wrt: Sequence[int],
    weights: Sequence[Any],
    cotangents: Sequence[Any],
    call: Any = None,
    squared: bool = False,
) -> Derivatives:
    """torch's derivatives with the same g and u. `call` evaluates the op where torch's own is called otherwise."""
    values = [_torch_value(op, i, value) for i, value in enumerate(arguments)]
    leaves = [leaf for i in wrt for leaf in flat(values[i])]
    for leaf in leaves:
        leaf.requires_grad_(leaf.is_floating_point())
    gs_ = [to_torch(g).requires_grad_() for g in weights]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = flat(_call(op, values, call))
    shown = [o for o in outputs if is_float(o)]
    terms = [((o * o if squared else o) * g).sum() for o, g in zip(shown, gs_, strict=True)]
    total = sum(terms, torch.zeros(()))
    variables = [leaf for leaf in leaves if leaf.requires_grad]
    first = _grad(total, variables, create_graph=True)
    if not cotangents:
        return Derivatives(to_numpy(outputs), to_numpy(first), [])
    terms = [(f * to_torch(u)).sum() for f, u in zip(first, cotangents, strict=True)]
    product = sum(terms, torch.zeros(()))
    second = _grad(product, [*variables, *gs_])
    return Derivatives(to_numpy(outputs), to_numpy(first), to_numpy(second))


@contextmanager
def skipped_where_torch_has_none() -> Iterator[None]:
    """Skip the test where torch has no such derivative: another version of it may have."""
    try:
        yield
    except RuntimeError as error:
        if "not implemented" not in str(error):
            raise
        pytest.skip(f"torch {torch.__version__}: {error}")


def _grad(total: torch.Tensor, variables: Sequence[torch.Tensor], create_graph: bool = False) -> list[torch.Tensor]:
    if not total.requires_grad:
        return [torch.zeros_like(v) for v in variables]
    found = torch.autograd.grad(total, variables, create_graph=create_graph, allow_unused=True)
    # Adding zeros makes a plain tensor of torch's internal ZeroTensor.
    return [torch.zeros_like(v) + (0 if f is None else f) for f, v in zip(found, variables, strict=True)]


def _torch_value(op: Op, position: int, value: Any) -> Any:
    argument = op.schema.arguments[position]
    if argument.is_dtype or (argument.name == "dtype" and op.schema.name == "aten::to"):
        return None if value is None else TORCH[dtypes.BY_CODE[value]]
    return to_torch(value)


def _call(op: Op, values: Sequence[Any], call: Any) -> Any:
    if call is not None:
        return call(*values)
    base, _, overload = op.schema.full_name.partition("::")[2].partition(".")
    keywords = {a.name: v for a, v in zip(op.schema.arguments, values, strict=True) if a.keyword_only}
    positional = [v for a, v in zip(op.schema.arguments, values, strict=True) if not a.keyword_only]
    return getattr(getattr(torch.ops.aten, base), overload or "default")(*positional, **keywords)
