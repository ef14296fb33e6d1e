"""Counts that follow from batch sizes, which texts have by name: a mean over each batch divides by another number.

    %mean : float32 [] = div(%total, 4096)      →      %mean : float32 [] = div(%total, count:4096)

A program has the number and no word of where it is from. What a kernel divides by, and is one of the program's passed
sizes, all elements of a tensor of that many rows, or one less, is taken for such a count; the length of a row is none.
Where that is a coincidence, the text has a number by name that it could do without.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ....lang.light_dataclasses import replace
from ...kernel_ir.kernel import Compute, Kernel, KernelConstant, Statement, Total
from ...kernel_ir.passed_sizes import passed_sizes
from ...types.open_sizes import is_open, whole
from ..program import KernelStep, ProgramStep


def counts_of(kernel: Kernel, chunks: Collection[str]) -> set[int]:
    """What may be divided by for what a kernel goes through; `chunks` are axes that others were cut into."""
    sizes = [size for name, size in passed_sizes(kernel).items() if name not in chunks]
    row = prod(axis.size for axis in kernel.axes if not axis.dynamic)
    found = {n for size in [*sizes, prod(sizes)] for n in (size, size * row)}
    return {n - less for n in found for less in (0, 1) if is_open(n - less) or n - less > 1}


def with_counts_passed(steps: Sequence[ProgramStep], counts: Collection[int]) -> tuple[ProgramStep, ...]:
    """The steps of a program, which has such counts."""
    kernels = [step.kernel for step in steps if isinstance(step, KernelStep)]
    rows = {axis.size for kernel in kernels for axis in kernel.axes if not axis.dynamic}
    counts = frozenset(counts) - rows
    return tuple([_counted(step, counts) if isinstance(step, KernelStep) else step for step in steps])


def _counted(step: KernelStep, counts: Collection[int]) -> KernelStep:
    named: dict[int, str] = {}
    body = [_with_count(statement, counts, named) for statement in step.kernel.body]
    return replace(step, kernel=step.kernel.with_body(body)) if named else step


def _with_count(statement: Statement, counts: Collection[int], named: dict[int, str]) -> Statement:
    if not isinstance(statement, Compute) or statement.primitive != "div":
        return statement
    dividend, divisor = statement.operands
    if not isinstance(divisor, KernelConstant) or isinstance(divisor, Total) or divisor.value not in counts:
        return statement
    count = whole(divisor.value)
    name = named.setdefault(count, f"count_{len(named)}" if named else "count")
    return replace(statement, operands=(dividend, Total(count, name)))
