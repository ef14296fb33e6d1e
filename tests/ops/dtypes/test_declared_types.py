"""What is declared of an op's results holds: of its first calls, changed in many ways. The script tries all calls."""

from __future__ import annotations

import declared_types
import pytest
from gradscript.compiler.ops.registry import Op


@pytest.mark.parametrize("op", declared_types.ops(), ids=lambda op: op.schema.full_name)
def test_what_is_promised_of_results_holds(op: Op) -> None:
    compared, wrong = declared_types.broken(op, calls=2)
    assert compared
    assert not wrong, "\n".join(wrong)
