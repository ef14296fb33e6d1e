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


import array_cases
import composite_cases
import gradscript as gs
import samples as formula_samples
import torch
from array_calls import CASES
from array_derivatives import concrete, op_function
from array_samples import LAYOUTS, Call, Leaf, probability, t
from gradscript.compiler.ops.registry import OPS, Op, Trait
from gradscript.compiler.types import dtypes
from gradscript.compiler.types.types import (
    BOOL,
    DEVICE,
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

_FIXED: dict[str, list[Any]] = {
    "aten::size.int": [t(3, 4), 1],
    "aten::stride.int": [t(3, 4), 1],
    "aten::device": ["cpu"],
    "aten::_unwrap_optional": [t(3, 4)],
    "aten::item": [t()],
    "aten::Float.Tensor": [t()],
    "aten::FloatImplicit": [t()],
    "aten::Int.Tensor": [t()],
    "aten::IntImplicit": [Leaf(lambda rng: np.asarray(3), dtypes.INT64)],
    "aten::Bool.Tensor": [t()],
    "aten::ScalarImplicit": [t()],
    "aten::Float.str": ["2.5"],
    "aten::Int.str": ["25"],
    "aten::randint.low": [2, 9, [3, 4]],
    "aten::randint_like.low_dtype": [t(3, 4), 2, 9],
    "aten::bernoulli": [probability(3, 4)],
    "prim::scalar_seed": [t()],
    "gs::kept_size": [[3, 2], [0]],
    "gs::reduced_count": [[3, 2], [0]],
    "prim::min": [2, 0.5],
    "prim::max": [2, 0.5],
    "aten::math_acosh": [1.5],
    "aten::acosh.Scalar": [1.5],
    "prim::mm_tree": [[t(2, 3), t(2, 3)], [t(3, 4), t(3, 4)]],
    "prim::mm_gather": [[t(2, 3), t(3, 4)], t(2, 5), t(5, 4)],
    "prim::mm_total": [[t(2, 4), t(2, 3), t(3, 4)]],
    "prim::mm_shared_left": [t(2, 3), [t(3, 4), t(3, 4)]],
    "prim::mm_shared_right": [t(3, 4), [t(2, 3), t(2, 3)]],
}
"""Arguments where their types do not say enough."""
_BY_TYPE: dict[Type, Any] = {
    TENSOR: t(3, 4),
    INT: 2,
    FLOAT: 0.5,
    BOOL: True,
    STR: "two",
    NUMBER: 0.5,
    DEVICE: "cpu",
    ListType(TENSOR): [t(3, 4), t(3, 4)],
    ListType(INT): [3, 2],
    ListType(FLOAT): [0.5, 1.5],
    ListType(BOOL): [True, False],
    ListType(STR): ["two", "three"],
}


_REFUSES = frozenset(("aten::FloatImplicit", "aten::ScalarImplicit"))
"""What is refused where it would lose a gradient: a number made of a tensor that requires one."""


def ops() -> list[Op]:
    """Every op that has a result, and takes what requires a gradient."""
    return [op for op in OPS.all() if op.schema.returns and op.schema.full_name not in _REFUSES]


def calls_of(op: Op) -> list[Call]:
    """The samples of an op's own tests, or arguments by their types."""
    name = op.schema.full_name.partition("::")[2]
    if op.schema.full_name in _FIXED:
        return [Call(tuple(_FIXED[op.schema.full_name]))]
    tables: list[Callable[[], list[Call]]] = [
        lambda: composite_cases.CASES[name],
        lambda: formula_samples.calls(op),
        lambda: array_cases.calls(op),
        lambda: CASES[name],
    ]
    for table in tables:
        try:
            return table()
        except (KeyError, StopIteration):
            continue
    return [Call((), {a.name: _BY_TYPE[strip_optional(concrete(a.type))] for a in op.schema.arguments if a.required})]


def _integral(op: Op, call: Call) -> Call:
    """Numbers as ints where an op takes only those."""
    if not op.schema.base_name.startswith("bitwise_"):
        return call
    return Call(tuple(2 if isinstance(value, float) else value for value in call.args))


def arguments_of(op: Op) -> list[Any]:
    dtype = dtypes.INT64 if op.schema.base_name.startswith("bitwise_") else dtypes.FLOAT64
    seed = zlib.crc32(op.schema.full_name.encode())
    return _integral(op, calls_of(op)[0]).arguments(op, dtype, seed, LAYOUTS["contiguous"])


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
