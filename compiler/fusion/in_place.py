"""Results of kernels in the memory of what nobody reads any more: steps that would hold both hold one.

    %scores = matmul(%x, %w)                            %scores = matmul(%x, %w)
    kernel(%scores in, %p out)                 →        kernel(%scores in, %p out at %scores)
    %y = matmul(%p, %v)                                 %y = matmul(%p, %v)

An argument is the caller's, unless it is donated: then its gradient may lie there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from ...lang.light_dataclasses import replace
from ..kernel_ir.in_place import may_take_place
from .program import ExternStep, KernelStep, Program, ProgramStep, Ref, names_in

_ANEW = frozenset(("aten::matmul", "aten::mm", "aten::bmm", "aten::addmm"))
"""Whose results lie in memory of their own, whatever they are given: others return an argument where that is the
result, as `torch.einsum("ij->ij", x)` and `torch.matrix_power(x, 1)` do."""
UNREAD = "nothing reads it, so that its memory is free before: let go of it"


class StillUsed(Exception):
    """An input that was donated, of which more is read than the result that was to lie in its place; says why."""


def in_place(program: Program) -> Program:
    """The program with results where results of the library were that are read no more."""
    owned = _owned(program)
    if not owned:
        return program
    free = program.last_uses([[step] for step in program.steps])
    writers = _writers(program)
    steps: list[ProgramStep] = []
    for step, dead in zip(program.steps, free, strict=True):
        if isinstance(step, KernelStep):
            step = _taking_places(step, owned.intersection(dead), {n for n in step.written if writers[n] == 1})
            owned |= {step.arguments[buffer.name] for buffer in step.kernel.outputs if buffer.place_of}
        steps.append(step)
    return replace(program, steps=tuple(steps))


def donating(program: Program, donated: Mapping[int, int]) -> Program:
    """The program in which outputs lie where inputs did: by the input's position, the output's. Raises: StillUsed."""
    for position, output in donated.items():
        program = _with_donated(program, program.inputs[position], program.outputs[output])
    return program


def _with_donated(program: Program, source: object, result: object) -> Program:
    if not isinstance(source, str) or not isinstance(result, Ref) or result.name == source:
        raise StillUsed("it is no tensor whose gradient is one of its own")
    if any(source in names_in(output) for output in program.outputs):
        raise StillUsed("it is a result besides")
    readers = [i for i, step in enumerate(program.steps) if source in step.read and source not in step.written]
    if not readers:
        raise StillUsed(UNREAD)
    if any(isinstance(step, ExternStep) and source in step.read and not _makes_anew(step) for step in program.steps):
        raise StillUsed("an op of the library may return what lies in its memory")
    writers = [i for i, step in enumerate(program.steps) if result.name in step.written]
    if not writers or readers[-len(writers) :] != writers:
        raise StillUsed("it is read again once its gradient is written")
    # Each writes what it reads, and what no other one reads.
    steps = [_at(step, source, result.name) if i in writers else step for i, step in enumerate(program.steps)]
    return replace(program, steps=tuple(steps))


def _at(step: ProgramStep, source: str, result: str) -> KernelStep:
    """The step with a result, or its part of it, where an input lies. Raises: StillUsed."""
    if isinstance(step, KernelStep):
        kernel = step.kernel
        inputs = [b for b in kernel.inputs if step.arguments[b.name] == source]
        (output,) = (b for b in kernel.outputs if step.arguments[b.name] == result)
        if len(inputs) == 1 and may_take_place(kernel, output, inputs[0]):
            moved = tuple([replace(b, place_of=inputs[0].name) if b is output else b for b in kernel.buffers])
            return replace(step, kernel=replace(kernel, buffers=moved))
    raise StillUsed("its gradient does not follow from it element by element, or is of another dtype or layout")


def _writers(program: Program) -> Counter[str]:
    """How many steps write each."""
    return Counter(name for step in program.steps for name in dict.fromkeys(step.written))


def _owned(program: Program) -> set[str]:
    """What ops of the library make anew, and nothing else is a view of."""
    externs = [step for step in program.steps if isinstance(step, ExternStep)]
    made = {name for step in externs if _makes_anew(step) for name in step.results if name in program.layouts}
    return made - {name for step in externs if not _makes_anew(step) for name in (*step.read, *step.results)}


def _makes_anew(step: ExternStep) -> bool:
    return step.node.kind in _ANEW and not step.is_view


def _taking_places(step: KernelStep, dead: Collection[str], first: Collection[str]) -> KernelStep:
    kernel, taken = step.kernel, set[str]()
    passed = Counter(step.arguments.values())
    for output in kernel.outputs:
        if step.arguments[output.name] not in first:
            continue
        for source in kernel.inputs:
            name = step.arguments[source.name]
            if name in dead and name not in taken and passed[name] == 1 and may_take_place(kernel, output, source):
                taken.add(name)
                moved = [replace(b, place_of=source.name) if b is output else b for b in kernel.buffers]
                kernel = replace(kernel, buffers=tuple(moved))
                break
    return step if kernel is step.kernel else replace(step, kernel=kernel)
