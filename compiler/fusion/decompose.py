"""Ops in terms of sums, maxima and pointwise ops, so that they fuse.

An op is replaced by the library's `primitive_…` function for it, else by its definition in terms of others, where it
has one. `stdlib_grads/primitives.grad` holds the former.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ..analysis.draws import is_random
from ..formulas.library import compile_formula, formula_name, has_own_backward
from ..ir.builder import Builder
from ..ir.graph import Callee, Graph
from ..ir.node import Node, copy_nodes
from ..ir.rewrite import replace_node, rewrite_nodes
from ..ops.composite import is_composite
from ..ops.registry import OPS, Op, Trait

PREFIX = "primitive_"
WIDE = "wide_primitive_"
"""What an op is where sums of squares are added up in float64. An op that has it is taken apart when its kernels are
planned, and no sooner: only then is it known for what they are."""


def decompose(graph: Graph) -> bool:
    """Replace every op that is to be taken apart; what comes of it is looked at again.

    Before:
        graph f(%x : Tensor):
          %dim : int = prim::Constant[value=-1]()
          %half_to_float : bool = prim::Constant[value=False]()
          %1 : Tensor = aten::_softmax(%x, %dim, %half_to_float)
          return (%1)
    After:
        graph f(%x : Tensor):
          %dim : int = prim::Constant[value=-1]()
          %half_to_float : bool = prim::Constant[value=False]()
          %1 : List[int] = prim::ListConstruct(%dim)
          %2 : bool = prim::Constant[value=True]()
          %3 : Tensor = aten::amax(%x, %1, %2)
          %4 : int = prim::Constant[value=1]()
          %5 : Tensor = aten::sub.Tensor(%x, %3, %4)
          %exponential : Tensor = aten::exp(%5)
          %6 : List[int] = prim::ListConstruct(%dim)
          %7 : bool = prim::Constant[value=True]()
          %8 : None = prim::Constant[value=None]()
          %9 : Tensor = aten::sum.dim_IntList(%exponential, %6, %7, %8)
          %10 : Tensor = aten::div.Tensor(%exponential, %9)
          return (%10)
    """
    return rewrite_nodes(graph, lambda node: _replace(node, _whatever_the_target))


def decompose_for_target(*, wide: bool) -> Callable[[Graph], bool]:
    """As `decompose`, and of variances and the like too: in float64 with `wide`, else in float32."""
    find = _wide_definition if wide else primitive_definition
    return lambda graph: rewrite_nodes(graph, lambda node: _replace(node, find))


def decompose_for_kernels(graph: Graph, is_known: Callable[[Node], bool] = lambda node: False) -> bool:
    """Replace ops that the library defines in terms of others and gives no derivative of their own, but those known.

    Before:
        graph f(%x : Tensor):
          %unbiased : bool = prim::Constant[value=True]()
          %1 : Tensor = aten::std(%x, %unbiased)
          return (%1)
    After:
        graph f(%x : Tensor):
          %unbiased : bool = prim::Constant[value=True]()
          %1 : None = prim::Constant[value=None]()
          %2 : int = aten::Int.bool(%unbiased)
          %3 : bool = prim::Constant[value=False]()
          %4 : Tensor = aten::std.correction(%x, %1, %2, %3)
          return (%4)
    """
    return rewrite_nodes(graph, lambda node: None if is_known(node) else _replace(node, definition))


def open_draws(graph: Graph) -> bool:
    """Replace ops that draw random numbers by the seed that they draw and what is made of it, which kernels can.

    Before:
        graph f(%x : Tensor):
          %1 : Tensor = aten::bernoulli(%x)
          return (%1)
    After:
        graph f(%x : Tensor):
          %1 : int = gs::seed()
          %2 : List[int] = aten::size(%x)
          %3 : None = prim::Constant[value=None]()
          %4 : int = prim::Constant[value=0]()
          %5 : Tensor[float32] = gs::uniform(%1, %2, %3, %4)
          %6 : Tensor[bool] = aten::lt.Tensor(%5, %x)
          %7 : int = prim::dtype(%x)
          %8 : bool = prim::Constant[value=False]()
          %9 : bool = prim::Constant[value=False]()
          %10 : None = prim::Constant[value=None]()
          %11 : Tensor = aten::to.dtype(%6, %7, %8, %9, %10)
          return (%11)
    """
    return rewrite_nodes(graph, lambda node: _replace(node, definition) if is_random(node) else None)


def _replace(node: Node, find: Callable[[Op], Callee | None]) -> Node | None:
    op = OPS.of(node.schema)
    callee = find(op) if op is not None else None
    if callee is None:
        return None
    previous = node.previous
    builder = Builder.in_front_of(node)
    body = callee.graph.without_closure()
    env = dict(zip(body.inputs, node.inputs, strict=True))
    # A kernel tells of the user's line, not of the library's.
    results = copy_nodes(body.body, env, builder.insert, node.span)
    replace_node(node, results[: len(node.outputs)])
    assert previous is not None
    return previous.next


@cache
def primitive_definition(op: Op) -> Callee | None:
    """What an op is in terms of what kernels know; None for one that stays whole."""
    if _stays_whole(op):
        return None
    name = formula_name(op.schema, PREFIX)
    return compile_formula(name) if name is not None else definition(op)


@cache
def _wide_definition(op: Op) -> Callee | None:
    name = formula_name(op.schema, WIDE)
    return compile_formula(name) if name is not None else primitive_definition(op)


def _whatever_the_target(op: Op) -> Callee | None:
    return primitive_definition(op) if _wide_definition(op) is primitive_definition(op) else None


@cache
def definition(op: Op) -> Callee | None:
    """What the library says an op is, where it gives no derivative beside; None for any other op."""
    name = None if _stays_whole(op) else formula_name(op.schema)
    if name is None or (has_own_backward(name) and not is_composite(op)):
        return None
    defined = compile_formula(name)
    return None if _calls_itself(op, defined.graph) else defined


def _stays_whole(op: Op) -> bool:
    return op.has(Trait.POINTWISE) or (op.has(Trait.RANDOM) and not is_composite(op))


def _calls_itself(op: Op, graph: Graph) -> bool:
    return any(node.schema is op.schema for node in graph.without_closure().all_nodes())
