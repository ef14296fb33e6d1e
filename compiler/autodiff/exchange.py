"""A gradient whose halves exchange tensors alone, as ops of torch do.

What a backward takes of its forward may be anything: sizes, branches that were taken, lists of what loops went through,
views. Of that, tensors of their own are handed on, and the rest is computed again:

    forward:  inputs → real outputs, then the captured tensors that are kept
    again:    inputs, kept → the captured outputs that are not kept

An input whose size is all that the backward wants of it is in `shapes_only`: a tensor without elements stands for it.
Where all that is computed again follows from shapes, `of_shapes` says so, and nothing is run for it. What is told
element by element by inputs and results that are handed on anyway is computed again as well, where it may be: a
function with a backward of its own has what that captures handed on, whose second derivatives are its to tell.
Where random numbers are drawn, all is computed again, from the same seed; `draws` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...lang.light_dataclasses import dataclass
from ..analysis.draws import draws
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.kinds import KindTrait, has, kinds_with
from ..ir.node import Node, Value, copy_nodes
from ..ops.registry import OPS, Op, Trait
from ..passes.simplification.eliminate_dead_code import eliminate_dead_code
from ..types.types import is_tensor, leaf_of
from .gradient import Gradient

_SAME_VALUE = kinds_with(KindTrait.SAME_VALUE)


@dataclass(frozen=True, eq=False, slots=True)
class Exchange:
    """`kept` and `computed` are outputs of f, captured by df; `again` takes the inputs `again_inputs` of f, then the
    values of `kept`. `needed` are the inputs of f that the backward takes in all."""

    gradient: Gradient
    forward: Graph
    again: Graph
    kept: tuple[int, ...]
    computed: tuple[int, ...]
    again_inputs: tuple[int, ...]
    needed: tuple[int, ...]
    shapes_only: frozenset[int]
    draws: bool
    of_shapes: bool


def exchange_tensors(gradient: Gradient, *, recomputes: bool = False) -> Exchange:
    """What the halves of a gradient hand on; with `recomputes`, not what is told element by element by the rest."""
    f = gradient.f
    has_draws = draws(f)
    kept = tuple(i for i in gradient.captured_outputs if i < gradient.num_real_outputs and is_tensor(f.outputs[i].type))
    if not has_draws:
        kept = tuple(i for i in gradient.captured_outputs if _is_own_tensor(f.outputs[i]))
        kept = _untold(gradient, kept) if recomputes else kept
    computed = tuple(i for i in gradient.captured_outputs if i not in kept)
    forward = _forward(gradient, kept, has_draws)
    again, used = _again(gradient, kept, computed, has_draws)
    wanted = {*used, *gradient.captured_inputs, *gradient.output_vjps}
    of_shapes = not has_draws and _is_of_shapes(again[0])
    held = {i for i in used if not of_shapes and not _is_of_shape(again[1][i])} | set(gradient.captured_inputs)
    needed = tuple(i for i in range(len(f.inputs)) if i in wanted)
    shapes_only = frozenset(i for i in needed if i not in held and is_tensor(leaf_of(f.inputs[i].type)))
    return Exchange(gradient, forward, again[0], kept, computed, used, needed, shapes_only, has_draws, of_shapes)


def _untold(gradient: Gradient, kept: Sequence[int]) -> tuple[int, ...]:
    """Those outputs that ops on single elements do not tell of captured inputs, of results, and of each other."""
    f, real = gradient.f, gradient.num_real_outputs
    told = {value for i, value in enumerate(f.inputs) if i in gradient.captured_inputs or not is_tensor(value.type)}
    told |= {f.outputs[i] for i in kept if i < real}
    left = {f.outputs[i]: i for i in kept if i >= real}
    for node in f.nodes:
        tells = not node.blocks and all(value in told for value in node.inputs) and _is_told(node)
        told.update(value for value in node.outputs if tells or value in left)
        for value in node.outputs if tells else ():
            left.pop(value, None)
    return tuple(i for i in kept if i < real or f.outputs[i] in left)


def _is_told(node: Node) -> bool:
    """Whether a node costs no more than to read its inputs."""
    op = OPS.of(node.schema)
    if op is None:
        return node.kind in _SAME_VALUE or has(node, KindTrait.KNOWN) or node.kind == "prim::ListConstruct"
    is_random = op.has(Trait.RANDOM) or op.has(Trait.SIDE_EFFECT)
    return not is_random and bool(op.traits & (Trait.POINTWISE | Trait.VIEW | Trait.SHAPE_ONLY))


def _is_own_tensor(value: Value) -> bool:
    """Whether a value is a tensor that is no view of another one, as far as the op that makes it says."""
    node = value.node
    is_view = node.kind in _SAME_VALUE or OPS.has(node.schema, Trait.VIEW | Trait.MAY_ALIAS)
    return is_tensor(value.type) and not is_view


def _forward(gradient: Gradient, kept: Sequence[int], has_draws: bool) -> Graph:
    graph = gradient.f.copy()
    real = gradient.num_real_outputs
    if not has_draws:
        graph.body.ret.replace_inputs([graph.outputs[i] for i in (*range(real), *_temporaries(kept, real))])
        eliminate_dead_code(graph)
    return graph


def _temporaries(kept: Sequence[int], real: int) -> list[int]:
    return [i for i in kept if i >= real]


def _again(
    gradient: Gradient, kept: Sequence[int], computed: Sequence[int], has_draws: bool
) -> tuple[tuple[Graph, Mapping[int, Value]], tuple[int, ...]]:
    """The graph that computes what is not kept, with its inputs by those of f, and which of f's it takes."""
    f = gradient.f
    graph = Graph(f.name, f.functions, f.span, f.title)
    inputs = {i: graph.body.add_input(value.type, value.name_hint) for i, value in enumerate(f.inputs)}
    given = {f.outputs[i]: graph.body.add_input(f.outputs[i].type, f.outputs[i].name_hint) for i in kept}
    env = {value: inputs[i] for i, value in enumerate(f.inputs)}
    copy_nodes(f.body, env, Builder(graph).insert)
    copies = {env[value]: replaced for value, replaced in given.items() if value not in f.inputs}
    if not has_draws:
        for value, replaced in copies.items():
            value.replace_uses_with(replaced)
    results = range(len(f.outputs)) if has_draws else computed
    found = [env.get(f.outputs[i], f.outputs[i]) for i in results]
    graph.body.ret.replace_inputs([value if has_draws else copies.get(value, value) for value in found])
    if not has_draws:
        eliminate_dead_code(graph)
    used = tuple(i for i, value in inputs.items() if value.uses)
    for i in reversed(range(len(f.inputs))):
        if i not in used:
            graph.body.param.remove_output(i)
    return (graph, {i: inputs[i] for i in used}), used


def _is_of_shapes(graph: Graph) -> bool:
    """Whether a graph gives numbers alone, none of which is in a tensor."""
    ops = [OPS.of(node.schema) for node in graph.all_nodes()]
    tells = [op for op in ops if op is not None and not op.has(Trait.SHAPE_ONLY) and _tells(op)]
    effects = [op for op in ops if op is not None and op.has(Trait.SIDE_EFFECT) and op.schema.returns]
    return not tells and not effects and not any(is_tensor(leaf_of(value.type)) for value in graph.outputs)


def _tells(op: Op) -> bool:
    takes = any(is_tensor(leaf_of(argument.type)) for argument in op.schema.arguments)
    return takes and not all(is_tensor(leaf_of(result.type)) for result in op.schema.returns)


def _is_of_shape(value: Value) -> bool:
    """Whether nothing is asked of a tensor but its size and kind."""
    return all(OPS.has(use.user.schema, Trait.SHAPE_ONLY) for use in value.uses)
