"""Between which numbers values are known to lie, where they are not NaN.

    %1 = abs(%x)        0 … inf
    %2 = neg(%1)        -inf … 0
    %3 = exp(%2)        0 … 1

So is what log1p is taken of in losses of logits, and there it is a polynomial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt

from ..types.open_sizes import is_open
from .index import Range
from .kernel import Cast, Compute, Kernel, KernelConstant, Operand, Total, Uniform

ANY: Range = (-inf, inf)
_FIXED: dict[str, Range] = {
    **dict.fromkeys(("sigmoid", "ndtr", "number"), (0.0, 1.0)),
    **dict.fromkeys(("rsqrt", "exp2", "erfc", "erfcx", "hypot"), (0.0, inf)),
    **dict.fromkeys(("tanh", "erf", "sin", "cos", "sign"), (-1.0, 1.0)),
    "cosh": (1.0, inf),
}
"""Of results, whatever the operands are."""


def _extremes(operation: Callable[[float, float], float], x: Range, y: Range) -> Range:
    """Of an operation that is monotonous in each operand."""
    found = [operation(a, b) for a in x for b in y]
    # 0 · inf and inf - inf: of a value that comes near to both, any number can come out.
    return ANY if any(number != number for number in found) else (min(found), max(found))


_COMPUTED: dict[str, Callable[..., Range]] = {
    "neg": lambda x: (-x[1], -x[0]),
    "abs": lambda x: (max(x[0], -x[1], 0.0), max(-x[0], x[1])),
    "exp": lambda x: (0.0, 1.0 if x[1] <= 0 else inf),
    "sqrt": lambda x: (sqrt(max(x[0], 0.0)), sqrt(max(x[1], 0.0))),
    "add": lambda x, y: _extremes(lambda a, b: a + b, x, y),
    "sub": lambda x, y: _extremes(lambda a, b: a - b, x, y),
    "mul": lambda x, y: _extremes(lambda a, b: a * b, x, y),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "where": lambda _, x, y: (min(x[0], y[0]), max(x[1], y[1])),
}


def ranges(kernel: Kernel) -> dict[str, Range]:
    """By name of a value; of values that are not in it nothing is known."""
    found: dict[str, Range] = {}
    for statement in kernel.body:
        match statement:
            case Uniform():
                found[statement.name] = (0.0, 1.0)
            case Cast() if statement.dtype.is_floating:
                found[statement.name] = _of(statement.operand, found)
            case Compute() if statement.dtype.is_floating:
                found[statement.name] = _computed(statement, [_of(o, found) for o in statement.operands])
    return {name: known for name, known in found.items() if known != ANY}


def _of(operand: Operand, found: dict[str, Range]) -> Range:
    if isinstance(operand, Total):
        # Texts are the same whatever it is.
        return (0.0, inf)
    if isinstance(operand, KernelConstant):
        number = operand.value if is_open(operand.value) else float(operand.value)
        return ANY if number != number else (number, number)
    return found.get(operand, ANY)


def _computed(statement: Compute, operands: Sequence[Range]) -> Range:
    if statement.primitive in _FIXED:
        return _FIXED[statement.primitive]
    if statement.primitive == "mul" and statement.operands[0] == statement.operands[1]:
        low, high = _COMPUTED["abs"](operands[0])
        return low * low, high * high
    computed = _COMPUTED.get(statement.primitive)
    return computed(*operands) if computed is not None else ANY
