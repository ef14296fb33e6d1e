"""Running programs of kernels on NumPy arrays, by the meaning of kernel IR: the reference for devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gradscript.compiler.fusion.fuse import Unfusable, fuse, fuse_groups
from gradscript.compiler.fusion.planning.assemble import Split
from gradscript.compiler.fusion.planning.roles import Supports
from gradscript.compiler.fusion.program import ExternStep, KernelStep, Passed, Program, Ref
from gradscript.compiler.fusion.seeds import open_inputs
from gradscript.compiler.ir.graph import Graph
from gradscript.compiler.kernel_ir.interpret import run_kernel
from gradscript.compiler.kernel_ir.kernel import KernelConstant, Store
from gradscript.compiler.kernel_ir.layout import Layout
from gradscript.compiler.ops.arrays import numpy_dtype
from gradscript.compiler.ops.meta import UNKNOWN, Meta
from gradscript.compiler.ops.registry import OPS
from gradscript.compiler.scheduling.split import split_reductions
from gradscript.lang.light_dataclasses import replace
from gradscript.runtime.kernels.groups import plan_with_kernels
from gradscript.runtime.plans.interpreter import run_plan


def run_fused(graph: Graph, values: Sequence[Any], supports: Supports, split: Split = split_reductions) -> list[Any]:
    """The outputs of a graph, for one value per input: kernels by their meaning, what is between groups by ops.

    Unfusable where a group is none for what it meets, or there is nothing to fuse.
    """
    given = [_given(value) for value in values]
    try:
        return run_program(fuse(graph, given, supports, split), values)
    except Unfusable:
        parts = fuse_groups(graph, given)
        if parts is None:
            raise

    def group(stretch: Graph) -> Any:
        return lambda met: _run_group(stretch, met, supports, split)

    return run_plan(plan_with_kernels(parts.graph, group), values)


def _run_group(graph: Graph, values: Sequence[Any], supports: Supports, split: Split) -> list[Any]:
    unknown = open_inputs(graph)
    given = [UNKNOWN if i in unknown else _given(value) for i, value in enumerate(values)]
    return run_program(fuse(graph, given, supports, split), values)


def _given(value: Any) -> Any:
    if isinstance(value, list):
        return [_given(item) for item in value]
    return Layout.contiguous(Meta.of(value)) if isinstance(value, np.ndarray) else value


def run_program(program: Program, values: Sequence[Any]) -> list[Any]:
    """The outputs, for one value per input."""
    held: dict[str, Any] = {**program.constants, **dict(zip(program.input_names, program.flat(values), strict=True))}
    for step in program.steps:
        if isinstance(step, KernelStep):
            _run_kernel(step, held)
        else:
            _run_extern(program, step, held)
    return [_argument(output, held) for output in program.outputs]


def _run_kernel(step: KernelStep, held: dict[str, Any]) -> None:
    kernel = step.kernel
    arrays = {buffer.name: held[step.arguments[buffer.name]] for buffer in kernel.inputs}
    numbers = {parameter.name: held[step.arguments[parameter.name]] for parameter in kernel.parameters}
    results = run_kernel(kernel, arrays, numbers)
    for buffer in kernel.outputs:
        name = step.arguments[buffer.name]
        if name not in held:
            held[name] = np.zeros(buffer.shape, numpy_dtype(buffer.dtype))
        # Kernels that share an output write to different parts of it.
        written = run_written(kernel, buffer.name, arrays, numbers)
        np.copyto(held[name], results[buffer.name], where=written)


def run_written(kernel: Any, output: str, arrays: Any, numbers: Any) -> Any:
    """Which elements of an output a kernel writes."""

    def marked(statement: Any) -> Any:
        is_mark = isinstance(statement, Store) and statement.buffer == output
        return replace(statement, operand=KernelConstant(1)) if is_mark else statement

    body = [marked(s) for s in kernel.body if not isinstance(s, Store) or s.buffer == output]
    return run_kernel(kernel.with_body(body), arrays, numbers)[output] != 0


def _run_extern(program: Program, step: ExternStep, held: dict[str, Any]) -> None:
    op = OPS.of(step.node.schema)
    assert op is not None
    result = op.evaluate(*[_argument(argument, held) for argument in step.arguments])
    is_whole = step.results[0] not in program.layouts or not isinstance(result, list | tuple)
    if len(step.results) == 1 and is_whole:
        held[step.results[0]] = result
    else:
        held.update(zip(step.results, result, strict=True))


def _argument(argument: Passed, held: dict[str, Any]) -> Any:
    if isinstance(argument, Ref):
        return held[argument.name]
    if isinstance(argument, list | tuple):
        return type(argument)([_argument(item, held) for item in argument])
    return argument
