"""From groups to the kernels that run: axes merged, reductions shared out, what passes between given a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ....lang.light_dataclasses import replace
from ...kernel_ir.index import Index
from ...kernel_ir.kernel import Kernel, Load, Store
from ...kernel_ir.layout import Layout
from ...kernel_ir.verifier import verify_kernel
from ...scheduling.collapse import collapse_axes
from ...scheduling.one_hot import pick_single_terms
from ...scheduling.phases import is_read_once
from ...scheduling.pieces import in_pieces
from ...scheduling.split import split_reductions
from ...scheduling.strides import is_across
from ...scheduling.tiles import is_tiled
from ..program import ExternStep, KernelStep, ProgramStep
from .counts import counts_of, with_counts_passed
from .group import Group

Split = Callable[[Kernel], list[Kernel]]
"""How a kernel is cut into those that run, each by programs that are independent."""


def assembled(
    steps: Sequence[Group | ExternStep],
    name: str,
    layouts: dict[str, Layout],
    unique: Callable[[str], str],
    split: Split = split_reductions,
) -> tuple[ProgramStep, ...]:
    """The steps of a program, in order. Partial results get names by `unique` and places in `layouts`.

    InvalidKernel for a kernel that is not well formed, whatever made it so.
    """
    made: list[ProgramStep] = []
    counts: set[int] = set()
    name = _spelled(name)
    groups = [step for step in steps if isinstance(step, Group)]
    for step in steps:
        if isinstance(step, ExternStep):
            made.append(step)
            continue
        own = name if len(groups) == 1 else f"{name}_{groups.index(step) + 1}"
        found = collapse_axes(step.kernel(own))
        kernels = [_of_any_batch(kernel) for kernel in split(in_pieces(pick_single_terms(found)))]
        made += _kernel_steps(kernels, step.arguments, layouts, unique)
        counts = counts.union(*(counts_of(kernel, kernel.sizes.keys() - found.sizes.keys()) for kernel in kernels))
    return with_counts_passed(made, counts)


def _spelled(name: str) -> str:
    """The name of a graph as one of a function: that of an op, which may be differentiated by itself, is none."""
    return re.sub(r"\W", "_", name.rpartition("::")[2])


def _kernel_steps(
    kernels: Sequence[Kernel], given: Mapping[str, str], layouts: dict[str, Layout], unique: Callable[[str], str]
) -> list[KernelStep]:
    steps: list[KernelStep] = []
    arguments = dict(given)
    for kernel in kernels:
        verify_kernel(kernel)
        for buffer in kernel.buffers:
            # Kernels that were cut apart and then cut again may each call what passes between their parts alike.
            if buffer.name not in arguments or (buffer.is_output and buffer.name not in given):
                arguments[buffer.name] = partial = unique(buffer.name)
                layouts[partial] = Layout(buffer.shape, buffer.dtype, buffer.strides)
        own = [*(b.name for b in kernel.buffers), *(p.name for p in kernel.parameters)]
        steps.append(KernelStep(kernel, {n: arguments[n] for n in own}))
    return steps


def _of_any_batch(kernel: Kernel) -> Kernel:
    """The kernel with outer sizes left out of the text: the same text serves batches and sequences of any size.

    A row, along which elements lie side by side, keeps its length, for what is unrolled and left out follows from that;
    so does one that is gone through several times, and a tile.
    """
    parallel, reduction = kernel.with_role("parallel"), kernel.with_role("reduction")
    widest = _widest(kernel)
    rows = {name for index in widest for name in index.axes if abs(index.coefficient(name)) == 1}
    outer = [axis for axis in parallel if axis == parallel[0] or axis.name not in rows]
    if not is_tiled(kernel) and (
        is_read_once(kernel.body, frozenset(a.name for a in reduction)) or is_across(kernel, parallel, reduction)
    ):
        outer += [axis for axis in reduction if axis.name in {_outermost(index) for index in widest}]
    return replace(kernel, axes=tuple(replace(a, dynamic=True) if a in outer else a for a in kernel.axes))


def _widest(kernel: Kernel) -> list[Index]:
    """Where elements are in tensors of the most dimensions."""
    indices = [s.index for s in kernel.body if isinstance(s, Load | Store)]
    most = max((len(index.axes) for index in indices), default=0)
    return [index for index in indices if len(index.axes) == most]


def _outermost(index: Index) -> str:
    """The axis along which neighbours lie the farthest apart."""
    return max(sorted(index.axes), key=lambda name: abs(index.coefficient(name)), default="")
