"""From groups to the kernels that run: axes merged, reductions shared out, what passes between given a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...lang.light_dataclasses import replace
from ..kernel_ir.index import Index
from ..kernel_ir.kernel import Kernel, Load, Store
from ..kernel_ir.layout import Layout
from ..kernel_ir.verifier import verify_kernel
from ..scheduling.collapse import collapse_axes
from ..scheduling.one_hot import pick_single_terms
from ..scheduling.split import split_reductions
from .group import Group
from .program import ExternStep, KernelStep, Step

Split = Callable[[Kernel], list[Kernel]]
"""How a kernel is cut into those that run, each by programs that are independent."""


def assembled(
    steps: Sequence[Group | ExternStep],
    name: str,
    layouts: dict[str, Layout],
    unique: Callable[[str], str],
    split: Split = split_reductions,
) -> tuple[Step, ...]:
    """The steps of a program, in order. Partial results get names by `unique` and places in `layouts`.

    InvalidKernel for a kernel that is not well formed, whatever made it so.
    """
    made: list[Step] = []
    name = _spelled(name)
    groups = [step for step in steps if isinstance(step, Group)]
    for step in steps:
        if isinstance(step, ExternStep):
            made.append(step)
            continue
        own = name if len(groups) == 1 else f"{name}_{groups.index(step) + 1}"
        made += _kernel_steps(step, own, layouts, unique, split)
    return tuple(made)


def _spelled(name: str) -> str:
    """The name of a graph as one of a function: that of an op, which may be differentiated by itself, is none."""
    return re.sub(r"\W", "_", name.rpartition("::")[2])


def _kernel_steps(
    group: Group, name: str, layouts: dict[str, Layout], unique: Callable[[str], str], split: Split
) -> list[KernelStep]:
    steps: list[KernelStep] = []
    arguments = dict(group.arguments)
    for kernel in map(_of_any_batch, split(pick_single_terms(collapse_axes(group.kernel(name))))):
        verify_kernel(kernel)
        for buffer in kernel.buffers:
            if buffer.name not in arguments:
                arguments[buffer.name] = partial = unique(buffer.name)
                layouts[partial] = Layout(buffer.shape, buffer.dtype, buffer.strides)
        own = [*(b.name for b in kernel.buffers), *(p.name for p in kernel.parameters)]
        steps.append(KernelStep(kernel, {n: arguments[n] for n in own}))
    return steps


def _of_any_batch(kernel: Kernel) -> Kernel:
    """The kernel with outer sizes left out of the text: the same text serves batches and sequences of any size.

    A row, along which elements lie side by side, keeps its length, for what is unrolled and left out follows from that.
    """
    parallel = kernel.with_role("parallel")
    rows = _side_by_side(kernel)
    outer = [axis for axis in parallel if axis == parallel[0] or axis.name not in rows]
    return replace(kernel, axes=tuple(replace(a, dynamic=True) if a in outer else a for a in kernel.axes))


def _side_by_side(kernel: Kernel) -> set[str]:
    """The axes along which elements of tensors of the most dimensions lie side by side."""
    indices = [s.index for s in kernel.body if isinstance(s, Load | Store)]
    most = max((len(index.axes) for index in indices), default=0)
    return {name for index in indices if len(index.axes) == most for name in index.axes if _is_unit(index, name)}


def _is_unit(index: Index, name: str) -> bool:
    return abs(index.coefficient(name)) == 1
