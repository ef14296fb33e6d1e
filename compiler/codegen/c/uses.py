"""How often the values of a kernel are used, which decides what has a variable of its own in C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...kernel_ir.kernel import POSITIONS, Compute, Load, Statement
from ...kernel_ir.statements import used_names
from ...scheduling.nest import Accumulate, AxisLoop, Evaluate, Item, Put


def is_of_computed_index(statement: Statement) -> bool:
    """Whether it loads from an index that was computed, which may lie out of range."""
    return isinstance(statement, Load) and any(c.index.values for c in statement.conditions)


def uses(items: Iterable[Item]) -> Counter[str]:
    """How often values are used in a block; what is used in a loop in it counts as used often."""
    found: Counter[str] = Counter()
    for item in items:
        if isinstance(item, AxisLoop):
            found.update({name: 2 * count for name, count in uses(item.body).items()})
        elif isinstance(item, Evaluate | Put):
            found.update(_used(item.statement))
        elif isinstance(item, Accumulate) and isinstance(item.reduce.operand, str):
            found[item.reduce.operand] += 1 + (item.reduce.combine in POSITIONS)
    return found


def _used(statement: Statement) -> Counter[str]:
    """A base that is multiplied with itself counts as used twice."""
    found = Counter(used_names(statement))
    if isinstance(statement, Compute) and statement.primitive in ("pow", "fmax", "fmin"):
        found.update(used_names(statement))
    return found
