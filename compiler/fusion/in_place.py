"""Results of kernels in the memory of what nobody reads any more: steps that would hold both hold one.

%scores = matmul(%x, %w)                            %scores = matmul(%x, %w)
kernel(%scores in, %p out)                 →        kernel(%scores in, %p out at %scores)
%y = matmul(%p, %v)                                 %y = matmul(%p, %v)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ...lang.light_dataclasses import replace
from ..kernel_ir.in_place import may_take_place
from ..ops.registry import OPS, Trait
from .program import ExternStep, KernelStep, Program, Step


def in_place(program: Program, donated: Collection[str] = ()) -> Program:
    """The program with results where results of the library were, and `donated` inputs, that are read no more."""
    owned = _owned(program) | set(donated)
    if not owned:
        return program
    free = program.last_uses([[step] for step in program.steps])
    writers = Counter(name for step in program.steps for name in dict.fromkeys(step.written))
    steps: list[Step] = []
    for step, dead in zip(program.steps, free, strict=True):
        if isinstance(step, KernelStep):
            step = _taking_places(step, owned.intersection(dead), {n for n in step.written if writers[n] == 1})
            owned |= {step.arguments[buffer.name] for buffer in step.kernel.outputs if buffer.place_of}
        steps.append(step)
    return replace(program, steps=tuple(steps))


def _owned(program: Program) -> set[str]:
    """What ops of the library make anew, and nothing else is a view of."""
    externs = [step for step in program.steps if isinstance(step, ExternStep)]
    made = {name for step in externs if _makes_anew(step) for name in step.results if name in program.layouts}
    return made - {name for step in externs if not _makes_anew(step) for name in (*step.read, *step.results)}


def _makes_anew(step: ExternStep) -> bool:
    op = OPS.of(step.node.schema)
    return op is not None and op.has(Trait.MATMUL) and not step.is_view


def _taking_places(step: KernelStep, dead: Collection[str], first: Collection[str]) -> KernelStep:
    kernel, taken = step.kernel, set[str]()
    passed = Counter(step.arguments.values())
    for output in kernel.outputs:
        if step.arguments[output.name] not in first or output.place_of:
            continue
        for source in kernel.inputs:
            name = step.arguments[source.name]
            if name in dead and name not in taken and passed[name] == 1 and may_take_place(kernel, output, source):
                taken.add(name)
                moved = [replace(b, place_of=source.name) if b is output else b for b in kernel.buffers]
                kernel = replace(kernel, buffers=tuple(moved))
                break
    return step if kernel is step.kernel else replace(step, kernel=kernel)
