"""A kernel of an export in C: one function of it for all samples of sizes, which it takes as parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....compiler.codegen.c.module import CFunction, emit_function
from ....compiler.kernel_ir.kernel import Kernel
from ....compiler.scheduling.cpu import BLOCK, CpuSchedule, choose_cpu_schedule
from ....compiler.scheduling.cpu import ProgramAxis as Programs
from ....lang.light_dataclasses import dataclass
from ..merging import merged_samples
from ..program_text import mentions_name
from ..sizes import NotASize, Sizes, SizeTerm

_ARRAY = re.compile(r"^(\s*)(\w+) (\w+)\[(.+)\] __attribute__\(\(aligned\(\d+\)\)\);$")
_PARAMETERS = {
    "buffers": "void *const *buffers",
    "sizes": "const int64_t *sizes",
    "numbers": "const gs_number *numbers",
    "scratch": "void *scratch",
    "begin": "int64_t begin",
    "end": "int64_t end",
}
"""Of a kernel's function, in their order."""
_SIGNATURE = ", ".join(_PARAMETERS.values()) + ")"


@dataclass(frozen=True)
class CKernel:
    """A function that stands for a kernel of each sample, and the sizes that it takes."""

    name: str
    function: CFunction
    sizes: tuple[str, ...]
    idle: frozenset[str]
    """Parameters that kernels have and this one does not use."""


def c_kernel(kernels: Sequence[Kernel], name: str, sizes: Sizes, names: Sequence[str]) -> CKernel:
    """A kernel's function whose last parameters but two are the sizes that it needs."""
    is_fixed = all(kernel.sizes == kernels[0].sizes for kernel in kernels)
    functions = [emit_function(kernel, f"gs_{name}", _schedule(kernel), not is_fixed) for kernel in kernels]
    first = functions[0]
    bodies = [re.sub(r"/\*.*?\*/\s*", "", f.text, count=1, flags=re.DOTALL) for f in functions]
    # How many points side by side are best follows from one size.
    bodies = [re.sub(r" simdlen\(\d+\)", "", body) for body in bodies]
    # What a kernel calls as a size is called is another variable.
    bodies = [re.sub(rf"\b({'|'.join(names) or '(?!)'})\b", r"\1_", body) for body in bodies]
    found = merged_samples([body.split("\n") for body in bodies], sizes)
    needed = [n for n in names if any(mentions_name(line, n) for line in found.lines)]
    idle = frozenset(n for n in _PARAMETERS if sum(mentions_name(line, n) for line in found.lines) < 2)
    lines = [_with_sizes(line, needed, idle) for line in found.lines]
    text = "\n".join(_on_heap(lines))
    if any(f.scratch for f in functions):
        raise NotASize("scratch memory differs")
    comment = f"/* {_points(kernels, sizes)} */\nstatic "
    made = CFunction(first.name, comment + text, first.helpers, 0, first.schedule, first.points)
    return CKernel(first.name, made, tuple(needed), idle)


def _points(kernels: Sequence[Kernel], sizes: Sizes) -> str:
    terms: list[tuple[str, SizeTerm]] = [
        (found[0].name, sizes.of([axis.size for axis in found]))
        for found in zip(*(k.axes for k in kernels), strict=True)
    ]
    return " × ".join(f"{name} < {term.text}" for name, term in terms) or "a single point"


def _with_sizes(line: str, names: Sequence[str], idle: frozenset[str]) -> str:
    """The line, and where it is a kernel's signature, with sizes among the parameters that it uses."""
    if _SIGNATURE not in line:
        return line
    sizes = [f"int64_t {name}" for name in names]
    used = [text for name, text in _PARAMETERS.items() if name not in idle and name not in ("begin", "end")]
    ends = [text for name, text in _PARAMETERS.items() if name not in idle and name in ("begin", "end")]
    margin = line[: len(line) - len(line.lstrip())]
    return f"{margin}{', '.join([*used, *sizes, *ends])})"


def _on_heap(lines: Sequence[str]) -> list[str]:
    """Arrays whose length follows from sizes in memory that is given back."""
    found: list[str] = []
    names: list[str] = []
    for line in lines:
        array = _ARRAY.match(line)
        if array is not None and not array[4].isdigit():
            margin, type, name, count = array.groups()
            found.append(f"{margin}{type} *restrict {name} = malloc(sizeof({type}) * ({count}));")
            found += [f"{margin}if (!{name}) {{", *(f"{margin}    free({other});" for other in names)]
            found += [f"{margin}    return 2;", f"{margin}}}"]
            names.append(name)
        elif line.startswith("    return "):
            found += [*(f"    free({name});" for name in names), line]
        else:
            found.append(line)
    return found


def _schedule(kernel: Kernel) -> CpuSchedule:
    """A schedule whose blocks no size decides."""
    chosen = choose_cpu_schedule(kernel)
    if kernel.with_role("reduction") or kernel.with_role("serial") or not kernel.axes:
        return chosen
    *outer, last = kernel.axes
    if len(chosen.loops) > 1 and chosen.programs[-1].block and chosen.programs[-1].axis == last.name:
        return chosen
    if not outer:
        return CpuSchedule((Programs(last.name, BLOCK),), (last.name,))
    return CpuSchedule(tuple(Programs(axis.name) for axis in outer), (last.name,))
