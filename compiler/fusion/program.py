"""A graph as kernels: what runs one after the other, and which tensors pass between."""

from __future__ import annotations

from collections.abc import Mapping
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


Argument: TypeAlias = Any
"""A Ref, a number, string or None, or a list of them."""


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Run a kernel. `arguments` names the program's value for each buffer and each parameter of the kernel.

    Outputs that no earlier step has written are allocated by this one, contiguous.
    """

    kernel: Kernel
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ExternStep:
    """Run an op as a library has it. Of one that is a view the result shares the memory of its argument."""

    node: Node
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    is_view: bool


Step: TypeAlias = KernelStep | ExternStep


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order. `inputs` are the names of the graph's inputs, of a list those of its tensors; `outputs` what it
    returns.

    `layouts` holds the shape, dtype and strides of every tensor, `constants` those that the graph carries with it.
    """

    name: str
    inputs: tuple[str | tuple[str, ...], ...]
    layouts: Mapping[str, Layout]
    steps: tuple[Step, ...]
    outputs: tuple[Argument, ...]
    constants: Mapping[str, Array]
    title: str
    """What messages call it, as they call the graph."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, in the order in which they run."""
        return tuple(step.kernel for step in self.steps if isinstance(step, KernelStep))
