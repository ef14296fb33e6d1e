"""A graph as kernels: what runs one after the other, and which tensors pass between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ...lang.light_dataclasses import dataclass
from ..ir.node import Node
from ..kernel_ir.kernel import Kernel
from ..kernel_ir.layout import Layout
from ..ops.arrays import Array


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the program by its name."""

    name: str


Passed: TypeAlias = Any
"""A Ref, a number, string or None, or a list or tuple of them."""


def names_in(argument: Passed) -> list[str]:
    """The values of the program that an argument or an output holds."""
    if isinstance(argument, Ref):
        return [argument.name]
    return [name for item in argument for name in names_in(item)] if isinstance(argument, list | tuple) else []


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Run a kernel. `arguments` names the program's value for each buffer and each parameter of the kernel.

    Outputs that no earlier step has written are allocated by this one, contiguous.
    """

    kernel: Kernel
    arguments: Mapping[str, str]

    @property
    def read(self) -> list[str]:
        return list(self.arguments.values())

    @property
    def written(self) -> list[str]:
        return [self.arguments[buffer.name] for buffer in self.kernel.outputs]


@dataclass(frozen=True, slots=True)
class ExternStep:
    """Run an op as a library has it. Of one that is a view the result shares the memory of its argument."""

    node: Node
    arguments: tuple[Passed, ...]
    results: tuple[str, ...]
    is_view: bool

    @property
    def read(self) -> list[str]:
        return [name for argument in self.arguments for name in names_in(argument)]

    @property
    def written(self) -> list[str]:
        return list(self.results)


ProgramStep: TypeAlias = KernelStep | ExternStep


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order. `inputs` are the names of the graph's inputs, of a list those of its tensors; `outputs` what it
    returns.

    `layouts` holds the shape, dtype and strides of every tensor, `constants` those that the graph carries with it.
    """

    name: str
    inputs: tuple[str | tuple[str, ...], ...]
    layouts: Mapping[str, Layout]
    steps: tuple[ProgramStep, ...]
    outputs: tuple[Passed, ...]
    constants: Mapping[str, Array]
    title: str
    """What messages call it, as they call the graph."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, in the order in which they run."""
        return tuple(step.kernel for step in self.steps if isinstance(step, KernelStep))

    @property
    def input_names(self) -> list[str]:
        """The names of inputs, those of the tensors of a list in its place."""
        return [name for given in self.inputs for name in (given if isinstance(given, tuple) else (given,))]

    def flat(self, values: Sequence[Any]) -> list[Any]:
        """A value per name of an input: tensors of a list in its place, and what else is a list as it is."""
        pairs = zip(self.inputs, values, strict=True)
        return [item for given, value in pairs for item in (value if isinstance(given, tuple) else (value,))]

    def last_uses(self, parts: Sequence[Sequence[ProgramStep]]) -> list[list[str]]:
        """After each part of the steps, the names that nothing reads any more and that are no outputs."""
        kept = {name for output in self.outputs for name in names_in(output)}
        last: dict[str, int] = {}
        for position, part in enumerate(parts):
            for step in part:
                last.update(dict.fromkeys((*step.read, *step.written), position))
        free: list[list[str]] = [[] for _ in parts]
        for name, position in last.items():
            if name not in kept:
                free[position].append(name)
        return free
