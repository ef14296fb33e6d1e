"""A Gradient in the form in which captures can be counted: calls inlined, nothing computed or captured twice."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ..autodiff.gradient import Gradient, residuals_of
from ..ir.graph import Graph
from ..ir.node import Node, Value, copy_node
from ..passes.gradients.remove_hints import remove_hints
from ..passes.propagate_types import propagate_types
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..pipeline import run_recipe
from .storage import may_hold_memory


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
    A list that f puts together of tensors is one of them item by item, and put together again in df: items are told
    apart in memory, and a list of indices has places without any.

    Before:
        graph f(%x : Tensor, %w : Tensor, %i : Tensor):
          %s : Tensor = aten::sigmoid(%x)
          %c : int = prim::Constant[value=2]()
          %y : Tensor = aten::mul.Tensor(%s, %w)
          %n : None = prim::Constant[value=None]()
          %l : List[Optional[Tensor]] = prim::ListConstruct(%n, %i)
          %z : Tensor = aten::index.Tensor(%y, %l)
          return (%z, %w, %s, %c, %l)
        graph df(%g : Tensor, %1 : Tensor, %2 : Tensor, %3 : int, %4 : List[Optional[Tensor]]):
          %5 : Tensor = aten::index.Tensor(%1, %4)
          %6 : Tensor = aten::mul.Tensor(%g, %5)
          %7 : Tensor = aten::mul.Scalar(%6, %3)
          %8 : Tensor = aten::index.Tensor(%2, %4)
          %9 : Tensor = aten::mul.Tensor(%7, %8)
          return (%9)
    After:
        graph f(%x : Tensor, %w : Tensor, %i : Tensor):
          %s : Tensor = aten::sigmoid(%x)
          %y : Tensor = aten::mul.Tensor(%s, %w)
          %n : None = prim::Constant[value=None]()
          %l : List[Optional[Tensor]] = prim::ListConstruct(%n, %i)
          %z : Tensor = aten::index.Tensor(%y, %l)
          return (%z, %s)
        graph df(%g : Tensor, %w : Tensor, %i : Tensor, %s : Tensor):
          %c : int = prim::Constant[value=2]()
          %n : None = prim::Constant[value=None]()
          %l : List[Optional[Tensor]] = prim::ListConstruct(%n, %i)
          %1 : Tensor = aten::index.Tensor(%w, %l)
          %2 : Tensor = aten::mul.Tensor(%g, %1)
          %3 : Tensor = aten::mul.Scalar(%2, %c)
          %4 : Tensor = aten::index.Tensor(%s, %l)
          %5 : Tensor = aten::mul.Tensor(%3, %4)
          return (%5)
    """
    count = len(gradient.input_vjps)
    given = list(df.inputs)
    used = dict.fromkeys(sources[v] for v in given[count:] if v.use_count)
    real = set(f.outputs[: gradient.num_real_outputs])
    made, pending = set[Node](), list(used)
    while pending:
        value = pending.pop()
        used[value] = None
        if value.node not in made and _is_repeated(value, real):
            made.add(value.node)
            pending += value.node.inputs
    inputs = [v for v in f.inputs if v in used]
    temporaries = [v for node in f.nodes for v in node.outputs if v in used and node not in made]
    taken = {value: df.body.add_input(value.type, value.name_hint) for value in (*inputs, *temporaries)}
    first = df.body.param.next
    assert first is not None
    for node in f.nodes:
        if node in made:
            copy_node(node, taken, lambda copied: copied.insert_before(first))
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


def _is_repeated(value: Value, real: Set[Value]) -> bool:
    """Whether what gives a value stands in df as well: a constant, or a list of tensors that callers do not have."""
    node = value.node
    is_list = node.kind == "prim::ListConstruct" and may_hold_memory(value)
    return node.kind == "prim::Constant" or (is_list and bool(node.inputs) and value not in real)


def _capture(f: Graph, temporaries: Sequence[Value]) -> list[int]:
    """The numbers of f's outputs that are these values, added where f does not return them."""
    numbers = {value: i for i, value in reversed(list(enumerate(f.outputs)))}
    for value in temporaries:
        if value not in numbers:
            numbers[value] = len(f.outputs)
            f.body.ret.add_input(value)
    return [numbers[value] for value in temporaries]
