"""Every op of the library in a forward, its results captured by a backward, and the pair differentiated on all roads.

The program is written from the op's schema:

    def captured(capturing, self, other, …):
        made = torch.op(self, other, …)

        def backward(grad_output):
            return grad_output * weigh(made), None, None, …

        return capturing * weigh(made), backward

Its gradient in `capturing` is its value divided by `capturing`, whatever the op is, its seeds and all. The derivatives
of that gradient in the op's own arguments are those of `weigh(op(…))`, which other tests hold to torch.

`python tests/closures/captured_ops.py [NAME…]` runs every op, or those named, on every road, and prints what fails.
"""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


import gradscript as gs
import torch
from gradscript.compiler.ops.registry import OPS, Op, Trait
from gradscript.compiler.types import dtypes
from gradscript.compiler.types.types import (
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    STR,
    TENSOR,
    ListType,
    Type,
    is_tensor,
    strip_optional,
)
from samples.array_derivatives import op_function
from samples.arrays import LAYOUTS
from samples.op_calls import calls_of

SCALE = 1.5
HELPERS = """
def weigh(tensor):
    return torch.sum(tensor, dtype=torch.float64)


def weigh_list(tensors: List[Tensor]):
    total = torch.zeros([], dtype=torch.float64)
    for tensor in tensors:
        total = total + weigh(tensor)
    return total


def weigh_numbers(numbers: List[float]):
    total = torch.zeros([], dtype=torch.float64)
    for number in numbers:
        total = total + number
    return total
"""
"""What makes one number of anything, in the forward and in the backward."""
_REFUSES = frozenset(("aten::FloatImplicit", "aten::ScalarImplicit"))
"""What is refused where it would lose a gradient: a number made of a tensor that requires one."""


def ops() -> list[Op]:
    """Every op that has a result, and takes what requires a gradient."""
    return [op for op in OPS.all() if op.schema.returns and op.schema.full_name not in _REFUSES]


def arguments_of(op: Op) -> list[Any]:
    dtype = dtypes.INT64 if op.schema.base_name.startswith("bitwise_") else dtypes.FLOAT64
    seed = zlib.crc32(op.schema.full_name.encode())
    return calls_of(op)[0].arguments(op, dtype, seed, LAYOUTS["contiguous"])


def _weight(name: str, type: Type) -> str | None:
    """The text of one number made of a result; None where it has none."""
    if strip_optional(type) != type:
        return None
    if is_tensor(type):
        return f"weigh({name})"
    if type in (INT, FLOAT, BOOL, NUMBER):
        return f"float({name})"
    if type == STR:
        return f"float(len({name}))"
    if type == ListType(TENSOR):
        return f"weigh_list({name})"
    if type in (ListType(INT), ListType(FLOAT)):
        return f"weigh_numbers([float(number) for number in {name}])"
    return f"float(len({name}))" if isinstance(type, ListType) else None


@dataclass(frozen=True)
class Program:
    """An op's results captured by a backward; and the same without a pair."""

    captured: gs.Function
    direct: gs.Function
    values: list[Any]
    """`capturing`, then the op's arguments."""


def program(op: Op) -> Program:
    """Compiled; a result of a type that has no weight is captured for its being there."""
    function = op_function(op)
    header, *body = function.code.rstrip().split("\n")
    signature = header[len("def call(") : header.rindex(") -> ")]
    returned = body.pop().strip().removeprefix("return ")
    types = [r.type for r in function.schema.returns]
    names = [f"made{i}" for i in range(len(types))]
    body.append(f"    {', '.join(names)}{',' if len(names) > 1 else ''} = {returned}")
    weights = [_weight(name, type) or f"float({name} is not None)" for name, type in zip(names, types, strict=True)]
    weight = " + ".join(weights)
    nothing = ", None" * len(function.schema.arguments)
    lines = [
        f"def captured(capturing, {signature}):".replace(", )", ")"),
        *body,
        "    def backward(grad_output):",
        f"        return grad_output * ({weight}){nothing}",
        f"    return capturing * ({weight}), backward",
        f"def direct(capturing, {signature}):".replace(", )", ")"),
        *body,
        f"    return capturing * 0 + ({weight})",
    ]
    unit = gs.CompilationUnit(HELPERS + "\n".join(lines) + "\n", op.schema.full_name)
    return Program(unit.captured, unit.direct, [np.array(SCALE), *arguments_of(op)])


# --- roads ---


def _as_torch(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_torch(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(np.array(value)).requires_grad_(value.dtype.kind == "f")


def _as_variable(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_variable(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    return gs.tape.Variable(value, requires_grad=value.dtype.kind == "f")


def _by_vjp(program: Program, **options: Any) -> tuple[Any, Any]:
    value, pullback = gs.vjp(program.captured, *program.values, **options)
    return value, pullback(np.ones(()))[0]


def _by_grad(program: Program, **options: Any) -> tuple[Any, Any]:
    return gs.value_and_grad(program.captured, **options)(*program.values)


def _by_halves(program: Program) -> tuple[Any, Any]:
    value, context = program.captured.forward(*program.values)
    return value, program.captured.backward(context, np.ones(()))[0]


def _on_tensors(program: Program) -> tuple[Any, Any]:
    values = [_as_torch(value) for value in program.values]
    value = program.captured(*values)
    value.backward()
    return value.detach().numpy(), values[0].grad.numpy()


def _on_tape(program: Program) -> tuple[Any, Any]:
    values = [_as_variable(value) for value in program.values]
    value = program.captured(*values)
    value.backward()
    return value.data, values[0].grad.data


def _profiled(program: Program) -> tuple[Any, Any]:
    with gs.settings.profiling(True):
        for _ in range(2):
            _on_tape(program)
        return _on_tape(program)


ROADS: dict[str, Callable[[Program], tuple[Any, Any]]] = {
    "vjp": _by_vjp,
    "grad": _by_grad,
    "halves": _by_halves,
    "tensors": _on_tensors,
    "tape": _on_tape,
    "profiled": _profiled,
    "min_cut": lambda program: _by_vjp(program, policy="min_cut"),
    "recompute_all": lambda program: _by_grad(program, policy="recompute_all"),
}
"""Each gives the value and the gradient in `capturing`."""


def wrong_on(program: Program, road: str) -> Iterator[str]:
    """What a road gets wrong, in words."""
    value, gradient = ROADS[road](program)
    value, gradient = np.asarray(value), np.asarray(gradient)
    if value.shape != () or gradient.shape != ():
        yield f"{road}: shapes {value.shape} and {gradient.shape}"
    elif not np.allclose(gradient * SCALE, value, rtol=1e-10, atol=1e-12, equal_nan=True):
        yield f"{road}: value {value}, gradient {gradient}"


def wrong_in_second_order(program: Program) -> Iterator[str]:
    """Derivatives of the gradient, which is the weight, against those of the weight."""
    try:
        value, pullback = gs.vjp(program.direct, *program.values)
        expected = pullback(np.ones(()))[1:]
    except gs.CompileError:
        # The op has no gradient, and so the pair's has none either.
        return
    found_value, pullback = gs.vjp(gs.grad(program.captured), *program.values)
    found = pullback(np.ones(()))[1:]
    if not np.allclose(found_value, value, rtol=1e-10, atol=1e-12, equal_nan=True):
        yield f"second order: gradient {found_value}, the weight is {value}"
    for i, (mine, theirs) in enumerate(zip(_flat(found), _flat(expected), strict=True)):
        if theirs is not None and not np.allclose(mine if mine is not None else 0.0, theirs, rtol=1e-9, equal_nan=True):
            yield f"second order: derivative {i} is {mine}, not {theirs}"


def wrong_in_check(program: Program) -> Iterator[str]:
    """What `gs.check` finds of the one gradient that the pair has: the op's own arguments have none in it."""
    report = gs.check(program.captured, *program.values)
    tried = [case for case in report.cases if (case.argument, case.order, case.dtype) == ("capturing", 1, "float64")]
    for case in tried:
        if not case.ok:
            yield f"check of {case.tried}: {case.verdict}, off by {case.max_error}"
    if not any(case.verdict == "ok" for case in tried):
        yield "check: no gradient was compared"


def _flat(values: Any) -> list[Any]:
    if not isinstance(values, list | tuple):
        return [values]
    return [leaf for value in values for leaf in _flat(value)]


def wrong(op: Op, roads: Iterable[str], *, checked: bool = False) -> list[str]:
    """What goes wrong with an op on these roads, in `gs.check`, and in second order where it draws no numbers."""
    found: list[str] = []
    try:
        made = program(op)
        for road in roads:
            found += wrong_on(made, road)
        if checked:
            found += wrong_in_check(made)
        if not op.has(Trait.RANDOM):
            found += wrong_in_second_order(made)
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
    return found


def main(names: list[str]) -> int:
    chosen = [op for op in ops() if not names or op.schema.full_name in names]
    failed = 0
    for op in chosen:
        for problem in wrong(op, ROADS, checked=True):
            failed += 1
            print(op.schema.full_name, problem, flush=True)
    print(f"{len(chosen)} ops, {failed} failures")
    return min(failed, 1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1:]))
