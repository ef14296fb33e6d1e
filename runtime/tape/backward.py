"""What users call to take gradients: `Variable.backward` and `gs.tape.grad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..values.given import flag, items
from .engine import run_backward
from .node import Edge, GradientValue
from .value import TapeValue, as_variable


def backward(output: TapeValue, gradient: Any, *, retain_graph: bool, create_graph: bool) -> None:
    """See `Variable.backward`."""
    retain_graph, create_graph = flag(retain_graph, "retain_graph"), flag(create_graph, "create_graph")
    root = _root(output, gradient, create_graph)
    run_backward([root], None, retain_graph=retain_graph or create_graph, create_graph=create_graph)


def tape_grad(
    outputs: TapeValue | Sequence[TapeValue],
    inputs: TapeValue | Sequence[TapeValue],
    grad_outputs: Any = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[TapeValue | None, ...]:
    """The gradients of Variables with respect to others, as a tuple; `.grad` of the leaves stays as it is.

    `grad_outputs` are the gradients of the outputs, one for each; a single number needs none. Only nodes between
    outputs and inputs run. `retain_graph` keeps their captures for another backward, `create_graph` does too and
    records this one, so that its results can be differentiated. An input that no output depends on is an error,
    unless `allow_unused`: then its gradient is None.
    """
    retain_graph, create_graph = flag(retain_graph, "retain_graph"), flag(create_graph, "create_graph")
    allow_unused = flag(allow_unused, "allow_unused")
    outs = _variables(outputs, "outputs")
    wrt = _variables(inputs, "inputs")
    given = _grad_outputs(grad_outputs, outs)
    roots = [_root(output, gradient, create_graph) for output, gradient in zip(outs, given, strict=True)]
    found = run_backward(
        roots,
        [_target(variable, i) for i, variable in enumerate(wrt)],
        retain_graph=retain_graph or create_graph,
        create_graph=create_graph,
    )
    return tuple([_result(gradient, i, allow_unused) for i, gradient in enumerate(found)])


def _variables(given: Any, what: str) -> list[TapeValue]:
    variables = [given] if isinstance(given, TapeValue) else items(given, f"{what} are Variables")
    for variable in variables:
        if not isinstance(variable, TapeValue):
            raise TypeError(f"{what} are Variables, not {type(variable).__name__}")
    return variables


def _grad_outputs(given: Any, outputs: Sequence[TapeValue]) -> list[Any]:
    if given is None:
        return [None] * len(outputs)
    gradients = list(given) if isinstance(given, list | tuple) else [given]
    if len(gradients) != len(outputs):
        raise ValueError(f"{len(gradients)} grad_outputs are given for {len(outputs)} outputs")
    return gradients


def _root(output: TapeValue, gradient: Any, create_graph: bool) -> tuple[Edge, GradientValue]:
    """Where a backward starts, and with what gradient."""
    edge = output.edge
    if edge is None:
        raise RuntimeError(
            "there is nothing to go back through: this Variable depends on no Variable that requires a gradient, "
            "or was computed under gs.tape.no_grad()"
        )
    seed = _seed(output, gradient)
    return edge, seed if create_graph else seed.data


def _seed(output: TapeValue, gradient: Any) -> TapeValue:
    if gradient is None:
        if output.data.size != 1:
            raise RuntimeError(
                f"a Variable of shape {list(output.shape)} needs a gradient to start from: pass one of its shape, "
                "or take a sum"
            )
        return as_variable(np.ones_like(output.data))
    seed = as_variable(gradient)
    if seed.shape != output.shape:
        raise ValueError(f"the gradient has shape {list(seed.shape)}, the Variable {list(output.shape)}")
    if seed.dtype != output.dtype:
        return seed.to(output.dtype) if seed.requires_grad else as_variable(seed.data.astype(output.dtype))
    return seed


def _target(variable: TapeValue, index: int) -> Edge:
    edge = variable.edge
    if edge is None:
        raise RuntimeError(f"input {index} does not require a gradient: gradients are taken of Variables that do")
    return edge


def _result(gradient: GradientValue, index: int, allow_unused: bool) -> TapeValue | None:
    if gradient is None and not allow_unused:
        raise RuntimeError(f"no output depends on input {index}: pass allow_unused=True to have None for its gradient")
    return None if gradient is None else as_variable(gradient)
