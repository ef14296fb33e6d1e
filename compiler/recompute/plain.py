"""A Gradient in the form in which captures can be counted: calls inlined, nothing computed or captured twice."""

from __future__ import annotations

from collections.abc import Sequence

from ..autodiff.gradient import Gradient, residuals_of
from ..ir.graph import Graph
from ..ir.node import Value, copy_node
from ..passes.gradients.remove_hints import remove_hints
from ..passes.propagate_types import propagate_types
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..pipeline import run_recipe


def takes_temporaries(gradient: Gradient) -> bool:
    """Whether `df` takes gradients of captured temporaries, for a caller that differentiates it once more."""
    return any(index >= gradient.num_real_outputs for index in gradient.input_vjps)


def simplified(graph: Graph, *, settled: bool = False, owned: bool = False) -> Graph:
    """A copy, or the graph itself if it is `owned`, with calls inlined, as it is when it runs, but with what the source
    says to keep still in it.

    In one that is `settled`, for shapes, types say already what there is to say, but of what branches and rounds join.
    """
    copied = graph if owned else graph.copy()
    is_typed = settled and not any(node.blocks and node.kind != "prim::GradOf" for node in copied.all_nodes())
    # What else simplifies has found nothing more in one that is settled.
    if not is_typed or run_recipe(copied, "settled_broadcasts"):
        run_recipe(copied, "run", without=(remove_hints, propagate_types) if is_typed else (remove_hints,))
    return copied


def normalized(gradient: Gradient, *, settled: bool = False, owned: bool = False) -> Gradient:
    """The gradient with f and df simplified, and each value that df uses of f captured once.

    A captured output that is an input of f becomes a captured input; one that is a constant is repeated in df. The
    gradient is not to take gradients of temporaries. It may be `settled`, and `owned`: then its graphs are changed.
    """
    f, df = [simplified(graph, settled=settled, owned=owned) for graph in (gradient.f, gradient.df)]
    count = len(gradient.input_vjps)
    sources = dict(zip(df.inputs[count:], residuals_of(gradient, f.inputs, f.outputs), strict=True))
    return with_captures(gradient, f, df, sources)


def with_captures(gradient: Gradient, f: Graph, df: Graph, sources: dict[Value, Value]) -> Gradient:
    """The Gradient of an f and a df of which the inputs behind the vjps are what `sources` says of f.

    `df` takes them in the place of its own; f loses the outputs beyond the real ones and gains those that are captured.

    Before:
        graph f(%x : Tensor, %w : Tensor):
          %s : Tensor = aten::sigmoid(%x)
          %c : int = prim::Constant[value=2]()
          %y : Tensor = aten::mul.Tensor(%s, %w)
          return (%y, %w, %s, %c)
        graph df(%g : Tensor, %1 : Tensor, %2 : Tensor, %3 : int):
          %4 : Tensor = aten::mul.Tensor(%g, %1)
          %5 : Tensor = aten::mul.Scalar(%4, %3)
          %6 : Tensor = aten::mul.Tensor(%5, %2)
          return (%6)
    After:
        graph f(%x : Tensor, %w : Tensor):
          %s : Tensor = aten::sigmoid(%x)
          %y : Tensor = aten::mul.Tensor(%s, %w)
          return (%y, %s)
        graph df(%g : Tensor, %w : Tensor, %s : Tensor):
          %c : int = prim::Constant[value=2]()
          %1 : Tensor = aten::mul.Tensor(%g, %w)
          %2 : Tensor = aten::mul.Scalar(%1, %c)
          %3 : Tensor = aten::mul.Tensor(%2, %s)
          return (%3)
    """
    count = len(gradient.input_vjps)
    given = list(df.inputs)
    used = dict.fromkeys(sources[v] for v in given[count:] if v.use_count)
    inputs = [v for v in f.inputs if v in used]
    temporaries = [v for node in f.nodes for v in node.outputs if v in used and node.kind != "prim::Constant"]
    taken = {value: df.body.add_input(value.type, value.name_hint) for value in (*inputs, *temporaries)}
    first = df.body.param.next
    assert first is not None
    for value in used:
        if value.node.kind == "prim::Constant":
            copy_node(value.node, taken, lambda node: node.insert_before(first))
    for value in given[count:]:
        if sources[value] in taken:
            value.replace_uses_with(taken[sources[value]])
    df.body.param.outputs = [*given[:count], *df.inputs[len(given) :]]
    f.body.ret.replace_inputs(f.outputs[: gradient.num_real_outputs])
    outputs = _capture(f, temporaries)
    eliminate_dead_code(f)
    position = {value: i for i, value in enumerate(f.inputs)}
    return Gradient(
        f,
        df,
        gradient.num_real_outputs,
        gradient.input_vjps,
        gradient.output_vjps,
        tuple(position[value] for value in inputs),
        tuple(outputs),
        gradient.active_outputs,
    )


def _capture(f: Graph, temporaries: Sequence[Value]) -> list[int]:
    """The numbers of f's outputs that are these values, added where f does not return them."""
    numbers = {value: i for i, value in reversed(list(enumerate(f.outputs)))}
    for value in temporaries:
        if value not in numbers:
            numbers[value] = len(f.outputs)
            f.body.ret.add_input(value)
    return [numbers[value] for value in temporaries]
