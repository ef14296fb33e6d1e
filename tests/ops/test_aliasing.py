"""What the compiler believes of results and arguments that share memory, beside torch."""

from __future__ import annotations

import aliasing
import pytest
from gradscript.compiler.ops.registry import OPS, Op

OPS_COMPARED = aliasing.ops()
CHANGED = 4


@pytest.mark.parametrize("start", range(0, len(OPS_COMPARED), 150))
def test_what_shares_memory_in_torch_is_known_to(start: int) -> None:
    lost, unseen, compared = [], [], 0
    chosen = OPS_COMPARED[start : start + 150]
    for op in chosen:
        found = aliasing.compare(op, CHANGED)
        lost += found.lost
        unseen += found.unseen
        compared += found.compared
    assert not lost
    assert not unseen
    assert compared > 5 * len(chosen)


def test_nearly_every_op_on_tensors_is_compared() -> None:
    def on_tensors(op: Op) -> bool:
        return op.schema.name.startswith("aten::") and not aliasing.is_inner(op) and aliasing.is_on_tensors(op)

    wanted = [op for op in OPS.all() if on_tensors(op)]
    missing = [op.schema.full_name for op in wanted if op not in OPS_COMPARED]
    assert missing == []
