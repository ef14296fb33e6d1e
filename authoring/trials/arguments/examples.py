"""Examples that an author writes beside a formula, for functions whose arguments a search would not find.

    def lookup(weight, rows: Tensor): …

    def lookup_examples():
        return [(torch.zeros([5, 3]), torch.tensor([0, 4, 1]))]

A function `NAME_examples` without parameters returns the arguments of one call or more: a list or a tuple of tuples,
or one bare tuple for a single call; what is keyword-only stands behind the rest. A floating tensor whose elements are
all equal stands for its shape: zeros are filled with numbers of either sign, others with numbers near theirs. Dtypes
need no care: floating tensors become float64.
"""

from __future__ import annotations

from typing import Any

from ....compiler.formulas.library import EXAMPLES
from ....runtime.face.function import Function
from ....runtime.failures.failure import RuntimeFailure

SUFFIX = EXAMPLES

ArgumentExample = tuple[tuple[Any, ...], dict[str, Any]]


def examples_beside(function: Function) -> list[ArgumentExample] | None:
    """What the unit's `NAME_examples` returns; None where there is no such function, or it does not run."""
    callee = function.callee.graph.functions.get(function.name + SUFFIX)
    if callee is None or callee.schema.arguments:
        return None
    try:
        found = Function(callee)()
    except RuntimeFailure:
        return None
    arguments = function.schema.arguments
    named = [argument.name for argument in arguments if argument.keyword_only]
    first = len(arguments) - len(named)
    calls = example_calls(found, len(arguments))
    return [(args[:first], dict(zip(named, args[first:], strict=False))) for args in calls]


def example_calls(found: Any, count: int) -> list[tuple[Any, ...]]:
    """The arguments of each call in what an examples function returned, for a function of `count` parameters."""
    if isinstance(found, list) or (isinstance(found, tuple) and all(isinstance(item, tuple) for item in found)):
        return [item if isinstance(item, tuple) else (item,) for item in found]
    if isinstance(found, tuple):
        return [(item,) for item in found] if count == 1 else [found]
    return [(found,)]
