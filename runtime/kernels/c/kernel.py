"""Kernels built: a module of several, and what they are launched with for given sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....compiler.codegen.c.module import CFunction, emit_c, emit_function, program_count
from ....compiler.kernel_ir.kernel import Kernel
from ....compiler.kernel_ir.passed_sizes import passed_sizes
from ....compiler.types.dtypes import Number as Literal
from ....lang.light_dataclasses import dataclass
from .launched import LaunchedKernels, Launches
from .library import Library, load_libraries, load_library


@dataclass(frozen=True, slots=True)
class CModule:
    """The functions of some kernels, one for each, and the text that holds them, each once.

    `programs` has how many programs each has, `sizes` what is passed of its sizes; either may be open.
    """

    kernels: tuple[Kernel, ...]
    functions: tuple[CFunction, ...]
    programs: tuple[int, ...]
    sizes: tuple[tuple[Literal, ...], ...]
    text: str


def module_of(kernels: Sequence[Kernel]) -> CModule:
    """The module of kernels, in the order in which they run."""
    distinct = {id(kernel): kernel for kernel in kernels}
    names = _names([*distinct.values()])
    made = {key: emit_function(kernel, name) for (key, kernel), name in zip(distinct.items(), names, strict=True)}
    functions = tuple([made[id(kernel)] for kernel in kernels])
    programs = [program_count(kernel, f.schedule) for kernel, f in zip(kernels, functions, strict=True)]
    sizes = [(*passed_sizes(kernel).values(), *f.numbers) for kernel, f in zip(kernels, functions, strict=True)]
    return CModule(tuple(kernels), functions, tuple(programs), tuple(sizes), emit_c([*made.values()]))


def _names(kernels: Sequence[Kernel]) -> list[str]:
    """A name for each, its own with a number where another has it."""
    found: dict[str, None] = {}
    for kernel in kernels:
        own = _name_in_c(kernel.name)
        name, number = own, 1
        while name in found:
            name, number = f"{own}_{number}", number + 1
        found[name] = None
    return list(found)


def _name_in_c(name: str) -> str:
    """A kernel's name, unless a word, a type or a function of C, or a helper, might be called so."""
    is_own = "_" in name.strip("_") and not name.startswith(("_", "gs_")) and not name.endswith("_t")
    return name if is_own else f"{name}_kernel"


def build_modules(modules: Sequence[CModule]) -> None:
    """Have the modules of one program built side by side. Raises: KernelFailure."""
    load_libraries({module.text: [function.name for function in module.functions] for module in modules})


class Kernels(LaunchedKernels):
    """The kernels of a module, built; `atoms` are values for what is open in it. Raises: KernelFailure."""

    def __init__(self, module: CModule, atoms: Sequence[int] = ()) -> None:
        library, launches = built_module(module)
        super().__init__(library, launches.closed(atoms))
        self.module = module


def built_module(module: CModule) -> tuple[Library, Launches]:
    """The library of a module, and what its kernels are launched with. Raises: KernelFailure."""
    names = tuple([function.name for function in module.functions])
    buffers = numbers = 0
    passed: list[Any] = []
    fields: list[tuple[int, ...]] = []
    for kernel, function, programs, sizes in zip(
        module.kernels, module.functions, module.programs, module.sizes, strict=True
    ):
        fields.append((buffers, len(passed), numbers, programs, function.points, function.scratch))
        passed += sizes
        buffers += len(kernel.buffers)
        numbers += len(kernel.parameters)
    integers = tuple([not p.dtype.is_floating for kernel in module.kernels for p in kernel.parameters])
    return load_library(module.text, names), Launches(names, tuple(fields), tuple(passed), integers, buffers)
