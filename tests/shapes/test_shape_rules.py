"""Every op: the shapes and dtypes inferred are those of what it evaluates to, on the samples of tests/support."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradscript.compiler.ops.composite import is_composite
from gradscript.compiler.ops.meta import UNKNOWN, Meta
from gradscript.compiler.ops.registry import OPS, Op, Trait
from gradscript.compiler.shapes.infer import has_rule, infer
from gradscript.compiler.types import dtypes
from samples import pointwise as pointwise_cases
from samples.array_calls import CASES, OPS_BY_NAME
from samples.arrays import LAYOUTS

BY_NAME = {op.schema.full_name.partition("::")[2]: op for op in OPS.all()}
SAMPLED = (dtypes.FLOAT32, dtypes.FLOAT64, dtypes.BFLOAT16, dtypes.INT64, dtypes.INT32, dtypes.UINT8, dtypes.BOOL)

UNDECIDED = {
    "masked_select": "how many are chosen",
    "nonzero": "how many there are",
    "argwhere": "how many there are",
    "where": "how many there are",
    "repeat_interleave.self_Tensor": "how often each is repeated",
    "repeat_interleave.Tensor": "how often each is repeated",
    "index.Tensor": "a mask chooses",
    "one_hot": "the largest class",
}
"""Ops that may have a sample whose shape depends on elements, and on what of them."""


def abstract(value: Any) -> Any:
    """What is known of a value without its elements."""
    if isinstance(value, np.ndarray):
        return Meta.of(value)
    if isinstance(value, list | tuple):
        return type(value)(map(abstract, value))
    return value


def agrees(inferred: Any, found: Any) -> bool:
    """Whether an abstract value is that of the one found; UNKNOWN, or a list of such, says nothing."""
    if inferred is UNKNOWN:
        return True
    if isinstance(inferred, list | tuple):
        return type(found) is type(inferred) and len(found) == len(inferred) and all(map(agrees, inferred, found))
    if isinstance(inferred, Meta):
        return isinstance(found, np.ndarray) and Meta.of(found) == inferred
    return type(found) is type(inferred) and (found == inferred or (found != found and inferred != inferred))


def results(op: Op, arguments: list[Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        result = op.evaluate(*arguments)
    return list(result) if len(op.schema.returns) != 1 and isinstance(result, tuple) else [result]


def check(op: Op, arguments: list[Any]) -> tuple[int, int]:
    """How many samples were compared, and how many results among them were unknown."""
    try:
        found = results(op, arguments)
    except Exception:
        return 0, 0
    inferred = infer(op, [abstract(a) for a in arguments])
    assert len(inferred) == len(found)
    for said, made in zip(inferred, found, strict=True):
        assert agrees(said, made), (
            f"{op.schema.full_name}({[abstract(a) for a in arguments]}): {said}, not {abstract(made)}"
        )
    for i, argument in enumerate(arguments):
        if argument is not None:
            less = [UNKNOWN if i == j else abstract(a) for j, a in enumerate(arguments)]
            for said, made in zip(infer(op, less), found, strict=True):
                assert agrees(said, made), f"{op.schema.full_name}({less}): {said}, not {abstract(made)}"
    return 1, sum(
        said is UNKNOWN and isinstance(made, np.ndarray | list) for said, made in zip(inferred, found, strict=True)
    )


@pytest.mark.parametrize("name", sorted(set(CASES) & set(OPS_BY_NAME)))
def test_op_on_arrays(name: str) -> None:
    op = OPS_BY_NAME[name]
    compared = unknown = 0
    for i, call in enumerate(CASES[name]):
        for dtype in SAMPLED:
            count, missed = check(op, call.arguments(op, dtype, i, LAYOUTS["contiguous"]))
            compared, unknown = compared + count, unknown + missed
    assert compared
    assert bool(unknown) == (name in UNDECIDED)


@pytest.mark.parametrize("op", [op for op in OPS.all() if op.has(Trait.POINTWISE)], ids=lambda op: op.schema.full_name)
def test_pointwise_op(op: Op) -> None:
    compared = 0
    for dtype in (np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_):
        for arguments in pointwise_cases.calls(op, np.dtype(dtype), limit=3):
            count, missed = check(op, arguments)
            assert not missed
            compared += count
            if len(arguments) > 1 and isinstance(arguments[1], np.ndarray):
                check(op, [arguments[0], arguments[1].astype(np.float64), *arguments[2:]])
                check(op, [arguments[0], np.array(arguments[1].reshape(-1)[0]), *arguments[2:]])
    assert compared


def test_every_op_has_a_rule() -> None:
    assert [op.schema.full_name for op in OPS.all() if not is_composite(op) and not has_rule(op)] == []
