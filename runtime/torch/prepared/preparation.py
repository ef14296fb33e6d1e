"""Whether a call on tensors can be prepared, and as which: what its arguments are and what the program gives decide."""

from __future__ import annotations

from typing import Any

import torch

from ....compiler.autodiff.marked_results import ResultMark
from ....compiler.ir.node import Value
from ....compiler.types.types import BOOL, FLOAT, INT, is_tensor, leaf_of
from ...execution.compiled import Compiled
from ...execution.differentiated import CompiledGraph
from ...settings.modes import runs_c
from ..array_runs import ArrayRun, lists_run
from ..flags import flags_of, gradient_key
from ..kernels import kernel_program
from ..mixed_dtypes import for_dtypes
from ..steps import step_of
from ..tensors import requires_grad
from .calls import CONSTANTS, NodeCall, PlainCall, PreparedCall, TorchValues, is_plain
from .fixed_calls import ListCall


def prepare(
    function: Compiled,
    program: CompiledGraph,
    device: str,
    args: TorchValues,
    values: TorchValues,
    *,
    owns: bool = False,
) -> PreparedCall | None:
    """The call of a program with such arguments, which were bound to `values`; None where it cannot be prepared.

    `function` runs it on arrays where nothing is recorded. Where it `owns` its results, they are contiguous and share
    no memory with anything in any case.
    """
    rest = values[len(args) :]
    if not all(map(_is_as_given, values, args)) or not all(type(value) in (float, *CONSTANTS) for value in rest):
        return None
    has_lists = any(type(value) is list for value in values)
    if has_lists and device == "cpu" and not lists_run():
        return None
    if program.asks or not all(map(is_plain, values)):
        return None
    key = gradient_key(values) if torch.is_grad_enabled() else ()
    records = True in key
    if records and program.is_undecided:
        program = program.answered(flags_of(values))
        if program.marks and (device != "cpu" or not all(map(_is_one, program.marks.values()))):
            return None
    by_kernels = device != "cpu" or runs_c()
    # What is prepared is found again for other floats in these places.
    found = kernel_program(program, values, key, any_floats=True) if records and by_kernels else program
    if records and found is program:
        found = for_dtypes(program, values)
    step = step_of(found, key) if records else None
    if (step is None or not step.input_vjps) and has_lists and device == "cpu":
        return None
    if program.marks and (step is None or not step.input_vjps):
        return None
    if step is None or not step.input_vjps:
        return _prepared_plainly(function, program, device, values, rest, owns=records or owns, in_order=owns)
    outputs = step.graph.outputs
    num_results = step.num_real - len(program.graph.outputs) + program.num_results
    has_others = not all(is_tensor(output.type) for output in outputs[:num_results])
    # What is saved of a branch is not there where another one was taken.
    # On the CPU a run goes the way of its data, past branches.
    decided = [i for i, o in enumerate(outputs) if device == "cpu" and _is_decided(o, is_real=i < num_results)]
    is_nested = has_lists or has_others or any(_may_be_nested(o) for i, o in enumerate(outputs) if i not in decided)
    if is_nested and program.marks:
        return None
    if device == "cpu" and is_nested:
        return ListCall(device, step, step.listed_run(), rest) if lists_run() and not owns else None
    fixed = step.array_run(values, in_order=owns) if device == "cpu" else step.on(device).fixed(values)
    if fixed is None:
        return None
    if is_nested:
        return ListCall(device, step, fixed, rest)
    return NodeCall(device, step, fixed, values, rest, program.marks)


def _prepared_plainly(
    function: Compiled,
    program: CompiledGraph,
    device: str,
    values: TorchValues,
    rest: TorchValues,
    *,
    owns: bool,
    in_order: bool,
) -> PlainCall | None:
    """Where nothing is recorded. `owns`: torch was to record it, so that results share no memory."""
    if device == "cpu":
        executor = program.executor if owns else function.executor
        owned = len(program.graph.outputs) if owns else 0
        is_recorded = torch.is_grad_enabled() and requires_grad(values)
        run = ArrayRun(executor, values, owned=owned, in_order=in_order, by_torch=not is_recorded)
        return PlainCall(run, rest)
    fixed = step_of(program, (False,) * len(values)).on(device).fixed(values)
    return None if fixed is None else PlainCall(fixed, rest)


def _is_one(mark: ResultMark) -> bool:
    """Whether it is for a whole result."""
    return not isinstance(mark, tuple)


def _is_as_given(value: Any, arg: Any) -> bool:
    """Whether what is bound to a parameter is the very argument, or a list of the very tensors."""
    if type(arg) is list and type(value) is list:
        return len(value) == len(arg) and all(map(_is_as_given, value, arg))
    return value is arg


def _is_decided(output: Value, *, is_real: bool) -> bool:
    """Whether a branch gives an output, which is there whichever is taken."""
    is_one = is_tensor(output.type) if is_real else output.type in (BOOL, INT, FLOAT)
    return output.node.kind == "prim::If" and is_one


def _may_be_nested(output: Value) -> bool:
    """Whether an output is a list of tensors, or one of a branch or a loop."""
    return (not is_tensor(output.type) and is_tensor(leaf_of(output.type))) or bool(output.node.blocks)
