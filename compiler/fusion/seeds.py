"""Inputs that are seeds of random numbers: what is drawn changes with them, and nothing of how it is computed."""

from __future__ import annotations

from ..ir.graph import Graph
from ..ir.node import RETURN, Use
from ..ops.registry import OPS, Op, Trait
from ..types.types import INT

SEED = "seed"
"""The name of such an argument, in every schema that has one."""


def seed_inputs(graph: Graph) -> frozenset[int]:
    """The numbers of the inputs that are nothing but seeds, so that a program need not know them."""
    return frozenset(
        i for i, value in enumerate(graph.inputs) if value.type == INT and value.uses and all(map(_is_seed, value.uses))
    )


def open_inputs(graph: Graph) -> frozenset[int]:
    """The numbers of the inputs that are seeds or integers that are computed with and decide nothing else."""
    return frozenset(
        i for i, value in enumerate(graph.inputs) if value.type == INT and value.uses and all(map(_is_open, value.uses))
    )


def is_open(op: Op, index: int) -> bool:
    """Whether kernels take any number as this argument: an operand of arithmetic, or a seed."""
    if op.schema.arguments[index].name == SEED:
        return True
    return op.has(Trait.POINTWISE) and op.scalar is not None and index not in op.scalar.static


def _is_open(use: Use) -> bool:
    op = OPS.of(use.user.schema)
    return op is not None and is_open(op, use.index)


def _is_seed(use: Use) -> bool:
    schema = use.user.schema
    if schema is None:
        return use.user.kind == RETURN
    return schema.arguments[use.index].name == SEED
