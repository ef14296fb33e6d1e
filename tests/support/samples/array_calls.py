"""The ops on whole arrays, each with the calls of it that tests make: `samples_*.py` beside this file, in one table."""

from __future__ import annotations

from typing import Any

from gradscript.compiler.ops.registry import OPS, Op
from samples import creation as samples_creation
from samples import indexing as samples_indexing
from samples import linalg as samples_linalg
from samples import nn as samples_nn
from samples import reduction as samples_reduction
from samples import shape as samples_shape
from samples import torchscript as samples_torchscript
from samples.arrays import Call

_SAMPLES = (
    samples_reduction,
    samples_linalg,
    samples_shape,
    samples_indexing,
    samples_creation,
    samples_nn,
    samples_torchscript,
)
CASES: dict[str, list[Call]] = {name: calls for module in _SAMPLES for name, calls in module.CASES.items()}
REFERENCES: dict[str, Any] = {name: f for module in _SAMPLES for name, f in module.REFERENCES.items()}
FAMILIES = ("reductions", "linalg", "shape", "rearranging", "indexing", "creation", "conversion", "nn", "torchscript")


def module_of(op: Op) -> str:
    """The module of `compiler/ops/families` that declares an op: `rearranging`, `linalg.solvers`."""
    return str(op.evaluate.__module__).partition(".families.")[2]


def family(op: Op) -> str:
    """The module or folder that declares an op, to the first underscore; none for what only the compiler writes."""
    module = module_of(op)
    return "" if module == "linalg.batches" else module.partition(".")[0].partition("_")[0]


OPS_BY_NAME: dict[str, Op] = {op.schema.full_name.partition("::")[2]: op for op in OPS.all() if family(op) in FAMILIES}
