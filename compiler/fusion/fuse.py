"""A function as fused kernels: the forward alone, or a forward and a backward with as little between them as pays.

settle on the shapes → differentiate → take ops apart → decide what to save → plan kernels, for each half
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...lang.light_dataclasses import dataclass, replace
from ..autodiff.differentiate import differentiate
from ..autodiff.gradient import Gradient, residuals_of
from ..ir.builder import Builder
from ..ir.graph import Graph
from ..ir.node import Node, Value
from ..kernel_ir.layout import Layout
from ..ops.families.random import SEEDED
from ..ops.meta import UNKNOWN, Meta, OpenList, for_each
from ..ops.registry import OPS, Trait
from ..ops.scalar import WIDE_MOMENTS
from ..pipeline import run_recipe
from ..recompute import Policy
from ..recompute.driver import recompute
from ..recompute.in_rounds import ChosenRounds
from ..recompute.min_cut import minimum_cut
from ..recompute.policy import is_light
from ..scheduling.split import TooLarge, limits_of, split_reductions
from ..specialize.close import close_sizes
from ..types.dtypes import FLOAT64
from ..types.open_floats import holds_open_float
from ..types.open_sizes import closed
from .decompose import decompose, decompose_for_kernels, decompose_for_target, open_draws
from .groups import Parts, create_fusion_groups
from .own_backwards import passes_own_backwards
from .planning.assemble import Split
from .planning.planner import plan_program
from .planning.reductions import reduction_of
from .planning.roles import Supports
from .planning.stacked import is_short_product, is_weighed
from .planning.tiles import Tiles
from .program import Passed, Program, Ref
from .rebase import capture_bases
from .refusals import require_accepted
from .rewrites.added_products import add_to_products
from .rewrites.exponentials_by_parts import sum_exponentials_by_parts
from .rewrites.factors_of_sums import take_factors_out
from .rewrites.few_largest import find_few_largest
from .rewrites.join_slices import join_slices
from .rewrites.memory_order import lay_in_order, orders_of_results
from .rewrites.numbers_first import put_numbers_first
from .rewrites.outer_variances import sum_variances_at_once
from .rewrites.products_together import bring_products_together
from .rewrites.short_products import write_short_products
from .rewrites.stacked_sums import spread_over_stacked_sums
from .rewrites.streams import has_streams, take_streams_apart
from .rewrites.sums_of_deviations import drop_sums_of_deviations
from .rewrites.sums_of_parts import sum_parts
from .rewrites.thin_products import thin_products
from .rewrites.turn_back import turn_back
from .rewrites.weighed_deviations import sum_deviations_at_once
from .saved import with_gradients_of_saved
from .slices_by_size import place_by_size
from .statistics import with_wide_statistics
from .straight import Unfusable, Unrepeatable, require_straight
from .write_out import settle_for_kernels

MAX_ROUNDS = 8
"""Of taking ops apart: what an op is made of may have to be taken apart itself."""
ArgumentFacts = Any
"""What is known of an argument: a Layout, the value of anything that is no tensor, or UNKNOWN."""


def is_free_in_kernel(node: Node) -> bool:
    """Whether computing a node again costs a kernel no memory traffic: elements do not, a row's sum takes the row.

    Numbers drawn from a seed are as good as any other.
    """
    op = OPS.of(node.schema)
    if node.kind in SEEDED:
        return True
    return is_light(node) and not (op is not None and op.has(Trait.REDUCTION))


def held_in_tiles(graph: Graph, known: Mapping[Value, Any]) -> Callable[[Node], bool]:
    """Which nodes reduce what a program holds as a tile, or add up few products: to do it again costs no memory
    traffic."""
    found = {node.output: reduction_of(node, known) for node in graph.nodes if len(node.outputs) == 1}
    reductions = {value: reduction for value, reduction in found.items() if reduction is not None}
    tiles = Tiles(graph, reductions, known)
    short = {value for value, found in reductions.items() if is_short_product(found, known) or is_weighed(found, known)}
    return lambda node: len(node.outputs) == 1 and (node.output in short or tiles.holds(node.output))


KERNEL_POLICY = Policy("min_cut", predicate=is_free_in_kernel, in_registers=True, holds=held_in_tiles)
"""Save statistics of rows, and compute elements again, and what a tile is reduced to."""

__all__ = [
    "KERNEL_POLICY",
    "FusedPair",
    "Unfusable",
    "fuse",
    "fuse_groups",
    "fuse_pair",
    "kernel_gradient",
]


@dataclass(frozen=True, slots=True)
class FusedPair:
    """The programs of a Gradient's two halves, of which the backward depends on the gradients that are there."""

    gradient: Gradient
    forward: Program
    arguments: tuple[ArgumentFacts, ...]
    supports: Supports
    split: Split = split_reductions

    def backward(self, seeds: Sequence[ArgumentFacts | None]) -> Program:
        """The program of `df` for the layouts of the incoming gradients: one per output, None where there is none."""
        gradient = self.gradient
        given = [seeds[i] if i < len(seeds) else None for i in gradient.input_vjps]
        given += residuals_of(gradient, self.arguments, [self._given(output) for output in self.forward.outputs])
        graph = gradient.df.copy()
        if given[:1] == [None] and len(gradient.input_vjps) == 1:
            graph.body.ret.replace_inputs([Builder(graph, before=graph.body.ret).undefined()] * len(graph.outputs))
        self._name(graph)
        results = [f"grad_{gradient.f.inputs[i].name_hint or 'input'}" for i in gradient.output_vjps]
        return _planned(graph, given, self.supports, f"{gradient.f.name}_backward", results, self.split)

    def closed(self, atoms: Sequence[int]) -> FusedPair:
        """With values for open sizes, given one for each atom: what the backward follows from, and no steps."""
        layouts = {name: layout.closed(atoms) for name, layout in self.forward.layouts.items()}
        outputs = closed(self.forward.outputs, atoms)
        return replace(
            self,
            gradient=closed_gradient(self.gradient, atoms),
            forward=replace(self.forward, layouts=layouts, outputs=outputs, steps=()),
            arguments=tuple([_closed(given, atoms) for given in self.arguments]),
        )

    def usual_seeds(self) -> list[ArgumentFacts | None]:
        """What gradients of the outputs usually are: contiguous, one for each that is a tensor."""
        outputs = self.forward.outputs[: self.gradient.num_real_outputs]
        layouts = [self.forward.layouts.get(output.name) if isinstance(output, Ref) else None for output in outputs]
        return [Layout.contiguous(layout.meta) if layout is not None else None for layout in layouts]

    def _name(self, graph: Graph) -> None:
        """Name gradients and saved values after what they belong to, so that a kernel's text tells them apart."""
        gradient, outputs = self.gradient, self.gradient.f.outputs
        kept = graph.inputs[len(gradient.input_vjps) + len(gradient.captured_inputs) :]
        _name_gradients(graph, gradient, gradient.f)
        for value, index in zip(kept, gradient.captured_outputs, strict=True):
            value.name_hint = value.name_hint or outputs[index].name_hint or "saved"

    def _given(self, output: Passed) -> ArgumentFacts:
        if isinstance(output, list | tuple):
            return type(output)([self._given(item) for item in output])
        return self.forward.layouts.get(output.name, UNKNOWN) if isinstance(output, Ref) else output


def fuse(
    graph: Graph,
    arguments: Sequence[ArgumentFacts],
    supports: Supports,
    split: Split = split_reductions,
    *,
    tiled: bool = True,
) -> Program:
    """The program of a graph for arguments of these layouts. Unfusable where it is no straight line for them.

    Without `tiled`, no program holds a small tensor whole, and reads of it at indices besides: where a result is to lie
    in its memory, these are over before.
    """
    return _planned(graph.plain_copy(), arguments, supports, graph.name, split=split, tiled=tiled)


def fuse_groups(
    graph: Graph,
    arguments: Sequence[ArgumentFacts],
    known: Mapping[Value, Any] | None = None,
    split: Split = split_reductions,
) -> Parts | None:
    """A graph for arguments of these layouts with its straight stretches in prim::FusionGroup nodes.

    Each is a graph to `fuse` for the layouts that it meets. None where nothing stands between them. With what is
    `known` of its values, a graph is settled for them, and it is changed itself.
    """
    copied = graph.plain_copy() if known is None else graph
    metas = metas_of_arguments(arguments)
    if open_draws(copied) or known is None:
        known = settle_for_kernels(copied, metas)
    if run_recipe(copied, "accumulate") | place_by_size(copied):
        known = settle_for_kernels(copied, metas)
    return create_fusion_groups(copied, known, limits_of(split).large)


def fuse_pair(
    graph: Graph,
    arguments: Sequence[ArgumentFacts],
    requires_grad: Sequence[bool],
    policy: Policy,
    supports: Supports,
    split: Split = split_reductions,
) -> FusedPair:
    """The programs that compute a graph and its gradients with respect to the inputs that require one.

    Unfusable as `fuse`. What the backward computes again is decided by `policy`.
    """
    return planned_pair(pair_gradient(graph, arguments, requires_grad, policy), arguments, supports, split)


def pair_gradient(
    graph: Graph, arguments: Sequence[ArgumentFacts], requires_grad: Sequence[bool], policy: Policy = KERNEL_POLICY
) -> Gradient:
    """The Gradient that a pair is made of, for arguments of these layouts, in terms of what kernels know."""
    # Without the only gradient that there may be nothing asks for the backward (`FusedPair.backward`).
    return _gradient(graph, metas_of_arguments(arguments), requires_grad, policy, sure=True)[0]


def planned_pair(
    gradient: Gradient, arguments: Sequence[ArgumentFacts], supports: Supports, split: Split = split_reductions
) -> FusedPair:
    """The programs of what `pair_gradient` gives. Unfusable as `fuse`."""
    name, real = f"{gradient.f.name}_forward", gradient.num_real_outputs
    forward = _planned(gradient.f.copy(), arguments, supports, name, split=split, real=real)
    return FusedPair(gradient, forward, tuple(arguments), supports, split)


def kernel_gradient(
    graph: Graph, arguments: Sequence[ArgumentFacts], requires_grad: Sequence[bool], *, or_once: bool
) -> tuple[Gradient, bool]:
    """The Gradient that kernels are made of, with gradients for what it saves, and whether it differentiates again.

    It does not, for one, where a second derivative is a function's own to tell: there is none once calls are written
    out. Then it is Unrepeatable, and with `or_once` the Gradient for once.
    """
    metas = metas_of_arguments(arguments)
    gradient, tells_all = _gradient(graph, metas, requires_grad, KERNEL_POLICY)
    try:
        if not tells_all:
            raise Unrepeatable("its second derivative passes a backward of a function's own")
        return with_gradients_of_saved(gradient, requires_grad, lambda found: _decomposed(found, metas)), True
    except Unrepeatable:
        if not or_once:
            raise
        return gradient, False


def _gradient(
    graph: Graph, metas: Sequence[Any], requires_grad: Sequence[bool], policy: Policy, *, sure: bool = False
) -> tuple[Gradient, bool]:
    """The Gradient, and whether its graphs tell all about second derivatives. `sure` says that the backward is planned
    for gradients that are there, where it takes one alone."""
    copied = graph.plain_copy()
    known = _to_parts(copied, metas, decompose_for_kernels, keep_pairs=True)
    write_short_products(copied, known)
    rounds = _rounds(copied, metas, policy)
    gradient = differentiate(copied, requires_grad, temporaries=False, rounds=rounds, is_asked=sure)
    tells_all = not passes_own_backwards(copied, gradient)
    if any(node.kind == "prim::CallFunction" for node in copied.all_nodes()):
        _to_parts(copied, metas, decompose, keep_pairs=True)
    is_sure = sure and len(gradient.input_vjps) == 1
    parts = _decomposed(gradient, metas, all_defined=is_sure, owned=True)
    gradient = capture_bases(recompute(parts, metas, policy, copied, owned=True).gradient)
    return with_wide_statistics(gradient, metas), tells_all


def _rounds(graph: Graph, metas: Sequence[Any], policy: Policy) -> ChosenRounds | None:
    """What chooses what loops keep of their rounds."""
    if not policy.in_registers or not any(node.kind == "prim::Loop" for node in graph.all_nodes()):
        return None
    return ChosenRounds(metas, policy.may_recompute, minimum_cut, _decomposed)


def closed_gradient(gradient: Gradient, atoms: Sequence[int]) -> Gradient:
    """With values for open sizes, given one for each atom."""
    return replace(gradient, f=close_sizes(gradient.f, atoms), df=close_sizes(gradient.df, atoms))


def _closed(given: ArgumentFacts, atoms: Sequence[int]) -> ArgumentFacts:
    if isinstance(given, list):
        return [_closed(item, atoms) for item in given]
    if type(given) is OpenList:
        return [_closed(given.item, atoms)] * closed(given.length, atoms)
    return given.closed(atoms) if isinstance(given, Layout) else closed(given, atoms)


def metas_of_arguments(arguments: Sequence[ArgumentFacts]) -> list[Any]:
    """Equal ones are the same object: what runs over lists of many layers tells by it that all are alike."""
    seen: dict[Meta, Meta] = {}

    def meta(given: ArgumentFacts) -> Any:
        if isinstance(given, list):
            return for_each(given, meta)
        if type(given) is OpenList:
            return OpenList(meta(given.item), given.length)
        return seen.setdefault(given.meta, given.meta) if isinstance(given, Layout) else given

    return [meta(given) for given in arguments]


def _is_layout(given: ArgumentFacts) -> bool:
    """Whether a tensor is given, or a list of some."""
    return isinstance(given, Layout) or (isinstance(given, list) and bool(given) and all(map(_is_layout, given)))


def _to_parts(
    graph: Graph,
    metas: Sequence[Any],
    take: Callable[[Graph], bool],
    *,
    keep_pairs: bool = False,
    all_defined: bool = True,
    known: Mapping[Any, Any] | None = None,
) -> Mapping[Any, Any]:
    """Settle a graph and take its ops apart, until neither finds anything to do; returns what is known of values.

    `known` is given of a graph that is settled.
    """
    if known is None:
        known = settle_for_kernels(graph, metas, keep_pairs=keep_pairs, all_defined=all_defined)
    for _ in range(MAX_ROUNDS):
        require_accepted(graph, known)
        if not take(graph):
            break
        known = settle_for_kernels(graph, metas, keep_pairs=keep_pairs, all_defined=all_defined)
    return known


def _decomposed(
    gradient: Gradient, metas: Sequence[Any], *, all_defined: bool = False, owned: bool = False
) -> Gradient:
    """Both halves in terms of what kernels know, so that it is seen what is worth saving: statistics, not results.
    Those of a gradient that is `owned` are changed."""
    f, df = (gradient.f, gradient.df) if owned else (gradient.f.copy(), gradient.df.copy())
    known = _to_parts(f, metas, decompose)
    outputs = [known.get(value) for value in f.outputs]
    if all_defined:
        # Else it is called after what first takes it, once nothing is around that any more.
        _name_gradients(df, gradient, f)
    given = [outputs[i] for i in gradient.input_vjps]
    given += residuals_of(gradient, metas, outputs)
    known_in_backward = _to_parts(df, given, decompose, all_defined=all_defined)
    found = replace(gradient, f=f, df=df)
    drop_sums_of_deviations(found, known, known_in_backward)
    return found


def _name_gradients(graph: Graph, gradient: Gradient, f: Graph) -> None:
    """Call the gradients that a backward takes after the outputs of f that they are of."""
    for value, index in zip(graph.inputs, gradient.input_vjps, strict=False):
        value.name_hint = value.name_hint or f"grad_{f.outputs[index].name_hint or 'output'}"


def _planned(
    graph: Graph,
    arguments: Sequence[ArgumentFacts],
    supports: Supports,
    name: str,
    results: Sequence[str] = (),
    split: Split = split_reductions,
    *,
    tiled: bool = True,
    real: int = 0,
) -> Program:
    """The program of a graph, which is changed. `results` are what its outputs are to be called, and `real` of them,
    if any are not, are given to callers: the others are saved."""
    if any(type(given) is OpenList and value.use_count for given, value in zip(arguments, graph.inputs, strict=True)):
        raise Unfusable("a list has a length that is open")
    metas = metas_of_arguments(arguments)
    known = settle_for_kernels(graph, metas)
    require_straight(graph, known)
    orders = orders_of_results(graph, known, arguments)
    known = _to_parts(graph, metas, decompose_for_target(wide=supports(WIDE_MOMENTS, FLOAT64)), known=known)
    is_turned = 0 < real < len(graph.outputs) and turn_back(graph, known, real)
    if write_short_products(graph, known) | find_few_largest(graph, known):
        known = settle_for_kernels(graph, metas)
    is_changed = thin_products(graph, known, supports) | join_slices(graph, known) | sum_parts(graph, known) | is_turned
    is_changed |= sum_variances_at_once(graph, known, supports) | sum_deviations_at_once(graph, known, supports)
    is_changed |= take_factors_out(graph, known)
    if is_changed | spread_over_stacked_sums(graph, known):
        known = settle_for_kernels(graph, metas)
    if sum_exponentials_by_parts(graph, known, supports, limits_of(split).whole_columns):
        known = settle_for_kernels(graph, metas)
    if lay_in_order(graph, orders):
        known = settle_for_kernels(graph, metas)
    if tiled and has_streams(graph, known, supports):
        copied = graph.copy()
        take_streams_apart(copied, settle_for_kernels(copied, metas), supports)
        with suppress(TooLarge, Unfusable):
            whole = partial(plan_program, is_first=True)
            return _programmed(
                whole, copied, settle_for_kernels(copied, metas), arguments, supports, name, results, split
            )
    plan = partial(plan_program, tiled=tiled)
    return _programmed(plan, graph, known, arguments, supports, name, results, split)


def _programmed(
    plan: Callable[..., Program],
    graph: Graph,
    known: Mapping[Value, Any],
    arguments: Sequence[ArgumentFacts],
    supports: Supports,
    name: str,
    results: Sequence[str],
    split: Split,
) -> Program:
    """The program of a graph in which all is rewritten that is for what kernels do."""
    # What open floats decided is decided; kernels are given what they are.
    known = {value: without_open_floats(found) for value, found in known.items()}
    add_to_products(graph, known, supports)
    put_numbers_first(graph)
    bring_products_together(graph, known, supports)
    _call(graph, results)
    layouts = [given if _is_layout(given) else None for given in arguments]
    return plan(graph, known, layouts, supports, name, split)


def without_open_floats(known: Any) -> Any:
    """What is known of a value, with UNKNOWN for open floats."""
    if not holds_open_float(known):
        return known
    return type(known)([without_open_floats(item) for item in known]) if type(known) in (list, tuple) else UNKNOWN


def _call(graph: Graph, results: Sequence[str]) -> None:
    """Name the outputs; one that is several keeps the first of its names, and an input its own."""
    named = set(graph.inputs)
    for value, name in zip(graph.outputs, results, strict=False):
        if value not in named:
            value.name_hint = name
            named.add(value)
