"""Arguments cut down to nothing, to one element and to no dimension: what torch takes we take, with its gradients.

The calls follow from the samples: in the first call of each public op, every floating argument alone, and all of them
together, is made empty, of size 1, or 0-d. Torch says which of these it accepts; what it refuses is not compared here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import composite_references
import numpy as np
import pytest
import torch
from agreement import differences
from amounts import some_of
from gradscript.compiler.ops import Op, Trait
from gradscript.compiler.types.dtypes import FLOAT64
from samples import array_cases
from samples import composites as composite_cases
from samples import table as samples
from samples.array_derivatives import differentiated, flat, is_float, ours
from samples.array_derivatives import reference as torch_derivatives
from samples.arrays import to_torch

Cut = Callable[[np.ndarray], np.ndarray]
CUTS: dict[str, Cut] = {
    "empty first": lambda array: array[:0] if array.ndim else array,
    "empty last": lambda array: array[..., :0] if array.ndim else array,
    "one first": lambda array: array[:1] if array.ndim else array,
    "one last": lambda array: array[..., :1] if array.ndim else array,
    "no dimension": lambda array: array.reshape(-1)[0:1].reshape(()) if array.size else array,
}


SAMPLED = ("pointwise", "comparison", "activations", "special", "reductions.reductions", "reductions.moments")


def _ops() -> dict[str, tuple[Op, Any, Callable[..., Any], frozenset[str]]]:
    """By name: the op, its first call, torch's function, and the arguments without a gradient."""
    found: dict[str, tuple[Op, Any, Callable[..., Any], frozenset[str]]] = {}
    for name, op in composite_cases.composites().items():
        if not op.has(Trait.NONDIFFERENTIABLE):
            call = composite_references.torch_function(op)
            found[name] = op, composite_cases.CASES[name][0], call, composite_cases.FIXED.get(name, frozenset())
    for op in array_cases.differentiable_ops():
        name = array_cases.op_key(op)
        reference = array_cases.reference_call(op) or samples.reference(op)
        found[name] = op, array_cases.calls(op)[0], reference, array_cases.FIXED.get(name, frozenset())
    for op in samples.differentiable_ops(*SAMPLED):
        try:
            call = samples.calls(op)[0]
        except KeyError:
            continue
        found[samples.key(op)] = op, call, samples.reference(op), samples.constants(op)
    return {name: value for name, value in found.items() if not INTERNAL.search(name)}


INTERNAL = re.compile(r"^_|^native_|^masked_dropout|^conv_(input|weight)|backward|adjoint")
"""Ops of formulas, which check less, and which torch's own do not check at all."""
UNCHECKED_IN_TORCH = frozenset(
    (
        *("cholesky", "index_add", "take_along_dim", "mT", "scaled_dot_product_attention", "dropout_attention"),
        *("lu_unpack", "functional_ctc_loss", "functional_ctc_loss.lists"),
    )
)
"""Ops that take in torch what has no meaning: indices beyond the end, a batch of none beside one of two."""


OPS_BY_NAME = {name: found for name, found in _ops().items() if name not in UNCHECKED_IN_TORCH}


def _variants(op: Op, arguments: list[Any], fixed: frozenset[str]) -> Iterator[tuple[str, list[Any]]]:
    """What was cut, in words, and the arguments."""
    positions = [i for i in differentiated(op, arguments, fixed) if is_float(arguments[i])]
    for how, cut in CUTS.items():
        for chosen in [*([i] for i in positions), positions] if len(positions) > 1 else [positions]:
            cut_down = [cut(value) if i in chosen else value for i, value in enumerate(arguments)]
            if any(cut_down[i].shape != arguments[i].shape for i in chosen):
                yield f"{how} of {[op.schema.arguments[i].name for i in chosen]}", cut_down


def _accepted(call: Callable[..., Any], op: Op, arguments: list[Any]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(*(_tensor(op, i, value) for i, value in enumerate(arguments)))
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, AssertionError):
        return False
    return True


def _tensor(op: Op, position: int, value: Any) -> Any:
    return None if op.schema.arguments[position].is_dtype else to_torch(value)


@pytest.mark.parametrize("name", some_of(OPS_BY_NAME))
def test_what_torch_takes_we_take(name: str) -> None:
    op, sample, call, fixed = OPS_BY_NAME[name]
    arguments = sample.arguments(op, FLOAT64, 3, lambda array: array)
    for what, cut_down in _variants(op, arguments, fixed):
        if not _accepted(call, op, cut_down):
            continue
        wrt = differentiated(op, cut_down, fixed)
        if not any(map(is_float, flat(op.evaluate(*cut_down)))):
            continue
        found, weights, _ = ours(op, cut_down, wrt, np.random.default_rng(0), False, 1)
        try:
            # Backwards of torch that fail, or crash for no rows at all, have a definition instead.
            definition = composite_references.DEFINITIONS.get(name, call)
            expected = torch_derivatives(op, cut_down, wrt, weights, [], definition)
        except RuntimeError:
            # torch's own backward fails, as that of pixel_shuffle does for an empty batch.
            continue
        assert not differences(found.values, expected.values, 1e-7), f"value of {name}, {what}"
        assert not differences(found.first, expected.first, 1e-7), f"gradient of {name}, {what}"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
