"""Gradients with respect to what a forward saves, which second derivatives flow through.

A kernel's forward saves statistics of rows, say, that no formula speaks of. In a second derivative the backward is
differentiated with respect to them too, so the first backward must take gradients for them. The derivative of a
saved value is that of the ops that made it; it is put beside the backward there is, computes what it needs from
the inputs alone, and disappears from it wherever no such gradient is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...lang.light_dataclasses import replace
from ..autodiff.differentiate import differentiate
from ..autodiff.gradient import Gradient
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Value, copy_nodes
from ..recompute import Policy
from ..recompute.driver import recompute
from ..types.types import UNDEFINED, is_differentiable
from .straight import Unrepeatable

Simplify = Callable[[Gradient], Gradient]


def with_gradients_of_saved(gradient: Gradient, requires_grad: Sequence[bool], simplify: Simplify) -> Gradient:
    """The same gradient, whose `df` also takes gradients of the captured outputs that depend on an input.

    `simplify` brings both halves of a gradient to the form of the others. Unrepeatable where such a gradient needs more
    than is saved, as that of a loop's state does.
    """
    saved = [i for i in gradient.captured_outputs if i >= gradient.num_real_outputs]
    saved = [i for i in saved if is_differentiable(gradient.f.outputs[i].type)]
    if not saved:
        return gradient
    # Seeds of random numbers and the like have no gradient, and are there as well.
    kept = saved + [i for i in gradient.captured_outputs if not is_differentiable(gradient.f.outputs[i].type)]
    inner = differentiate(_only(gradient.f, kept), requires_grad, temporaries=False)
    inner = recompute(simplify(inner), None, Policy("recompute_all")).gradient
    if not set(inner.captured_outputs) <= set(range(len(kept))):
        raise Unrepeatable("the gradient of what is saved needs more than that")
    return _joined(gradient, inner, kept) if inner.output_vjps and inner.input_vjps else gradient


def _only(graph: Graph, outputs: Sequence[int]) -> Graph:
    """The graph with some of its outputs."""
    copied = graph.copy(f"{graph.name}_saved")
    copied.body.ret.replace_inputs([copied.outputs[i] for i in outputs])
    return copied


def _joined(outer: Gradient, inner: Gradient, saved: Sequence[int]) -> Gradient:
    """One df: vjps of real outputs, then of saved ones; the gradients of both added."""
    captured_inputs = sorted({*outer.captured_inputs, *inner.captured_inputs})
    inner_outputs = [saved[i] for i in inner.captured_outputs]
    captured_outputs = sorted({*outer.captured_outputs, *inner_outputs})
    joint = Graph(outer.df.name, outer.df.functions, outer.df.span, outer.df.title)
    builder = Builder(joint, span=outer.df.span)
    vjps = {i: _input(joint, value) for i, value in zip(outer.input_vjps, outer.df.inputs, strict=False)}
    vjps |= {saved[i]: _input(joint, value) for i, value in zip(inner.input_vjps, inner.df.inputs, strict=False)}
    inputs = {i: _input(joint, outer.f.inputs[i]) for i in captured_inputs}
    outputs = {i: _input(joint, outer.f.outputs[i]) for i in captured_outputs}
    found = _copied(outer, [vjps[i] for i in outer.input_vjps], inputs, outputs, outer.captured_outputs, builder)
    more = _copied(inner, [vjps[saved[i]] for i in inner.input_vjps], inputs, outputs, inner_outputs, builder)
    wanted = sorted({*found, *more})
    builder.returns(*(_sum(builder, found.get(i), more.get(i)) for i in wanted))
    return replace(
        outer,
        df=joint,
        input_vjps=tuple(vjps),
        output_vjps=tuple(wanted),
        captured_inputs=tuple(captured_inputs),
        captured_outputs=tuple(captured_outputs),
    )


def _input(joint: Graph, value: Value) -> Value:
    return joint.body.add_input(value.type, value.name_hint)


def _copied(
    part: Gradient,
    vjps: Sequence[Value],
    inputs: dict[int, Value],
    outputs: dict[int, Value],
    captured: Sequence[int],
    builder: Builder,
) -> dict[int, Value]:
    """A df in the joint graph; its gradients by input."""
    given = [*vjps, *(inputs[i] for i in part.captured_inputs), *(outputs[i] for i in captured)]
    env = dict(zip(part.df.inputs, given, strict=True))
    return dict(zip(part.output_vjps, copy_nodes(part.df.body, env, builder.insert), strict=True))


def _sum(builder: Builder, left: Value | None, right: Value | None) -> Value:
    defined = [value for value in (left, right) if value is not None and value.type != UNDEFINED]
    if len(defined) == 2:
        return builder.node("prim::AutogradAdd", defined, [defined[0].type]).output
    if defined:
        return defined[0]
    return builder.undefined()
