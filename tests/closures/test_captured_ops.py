"""Ops of the library captured by a backward: some on half of the roads, and composite ones on one.

`python tests/closures/captured_ops.py` runs all of them on all roads.
"""

from __future__ import annotations

import zlib

import captured_ops
import pytest
from gradscript.compiler.ops.composite import is_composite
from gradscript.compiler.ops.registry import Op

_OPS = captured_ops.ops()


def _name(op: Op) -> str:
    return op.schema.full_name


def _is_one_in(count: int, op: Op) -> bool:
    return zlib.crc32(_name(op).encode()) % count == 0


@pytest.mark.parametrize("op", [op for op in _OPS if _is_one_in(16, op)], ids=_name)
def test_captured_on_its_roads(op: Op) -> None:
    """Each op on every other road."""
    assert not captured_ops.wrong(op, list(captured_ops.ROADS)[len(_name(op)) % 2 :: 2])


@pytest.mark.parametrize("op", [op for op in _OPS if is_composite(op) and _is_one_in(3, op)], ids=_name)
def test_ops_that_are_written_in_others(op: Op) -> None:
    assert not list(captured_ops.wrong_on(captured_ops.program(op), "tape"))


@pytest.mark.parametrize("op", [op for op in _OPS if _is_one_in(96, op)], ids=_name)
def test_captured_in_a_checked_pair(op: Op) -> None:
    assert not list(captured_ops.wrong_in_check(captured_ops.program(op)))


def test_a_wrong_gradient_is_noticed() -> None:
    op = next(op for op in _OPS if _name(op) == "aten::mul.Tensor")
    made = captured_ops.program(op)
    made.values[0] = made.values[0] * 1.01
    assert list(captured_ops.wrong_on(made, "vjp"))
