"""Shares of a sum as products: a row is divided once, and not each of its elements.

    %s : float32 [i] = reduce sum %3 over j           %s : float32 [i] = reduce sum %3 over j
    %4 : float32 [i, j] = div(%3, %s)            →    %5 : float32 [i] = div(1, %s)
                                                      %4 : float32 [i, j] = mul(%3, %5)

A processor takes as long for a quotient as for ten products, and a softmax has nothing else to do meanwhile. That is so
where the terms are `exp(x - m)` for the largest `m` of the same row: their sum lies between 1 and how many they are, or
is NaN, so that its reciprocal is a number like others, and a share is off by 1.5 ulp at most, in place of 0.5. Any
other divisor may be too small to have a reciprocal, or so large that little is left of it.
"""

from __future__ import annotations

from ...lang.light_dataclasses import replace
from ..kernel_ir.kernel import Compute, Definition, Kernel, KernelConstant, Reduce, Statement
from ..kernel_ir.queries import fresh, names_of
from .padding import is_shifted


def with_shares_multiplied(kernel: Kernel) -> Kernel:
    """The kernel in which elements of a softmax are products."""
    defined = {s.name: s for s in kernel.body if isinstance(s, Definition)}
    taken = names_of(kernel)
    reciprocals: dict[str, str] = {}
    body: list[Statement] = []
    for statement in kernel.body:
        if isinstance(statement, Compute) and _is_share(statement, defined):
            term, total = map(str, statement.operands)
            if total not in reciprocals:
                reciprocals[total] = name = fresh("reciprocal", taken)
                divided = (KernelConstant(1.0), total)
                body.append(Compute(name, statement.dtype, defined[total].axes, "div", divided))
            statement = replace(statement, primitive="mul", operands=(term, reciprocals[total]))
        body.append(statement)
    return kernel.with_body(body) if reciprocals else kernel


def _is_share(statement: Compute, defined: dict[str, Definition]) -> bool:
    """Whether it divides `exp(x - m)` by the sum of these along the axes along which `m` is the largest `x`."""
    if statement.primitive != "div":
        return False
    term, total = (defined.get(str(operand)) for operand in statement.operands)
    if not isinstance(total, Reduce) or total.combine != "sum" or term is None or total.operand != term.name:
        return False
    if not isinstance(term, Compute) or term.primitive != "exp" or not statement.dtype == term.dtype == total.dtype:
        return False
    below = defined.get(str(term.operands[0]))
    if not isinstance(below, Compute) or not is_shifted(below, defined, total.over):
        return False
    largest = defined[str(below.operands[1])]
    return isinstance(largest, Reduce) and largest.over == total.over
